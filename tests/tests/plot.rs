//! `profil plot`: a picture that a browser shows, with every tick in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use profil_tests::profil::binary;
use profil_tests::{By, Profil, Recorded, Scratch, feature};
use serde::Deserialize;

/// Runs `profil plot` on a recording.
fn plot(recorded: &Recorded, svg: &Path, options: &[&str]) -> Output {
    let mut plot = Command::new(binary());
    plot.arg("plot").arg(&recorded.file).arg("-o").arg(svg).args(options).stdin(Stdio::null());
    plot.output().expect("profil runs")
}

fn recorded(scratch: &Scratch) -> Recorded {
    let target = scratch.build("shares");
    Profil::record(scratch, &["-F", "1999"]).launch(target, &["0.8"]).run()
}

/// A bar: which panel it is in, its title, and how high it is.
#[derive(Debug, Deserialize)]
struct Bar {
    panel: usize,
    title: String,
    height: f64,
}

/// The ticks that a title tells.
fn ticks(title: &str) -> u64 {
    let ticks = title.lines().nth(1).and_then(|line| line.split(' ').next()).expect("ticks in a title");
    ticks.replace(',', "").parse().expect("a number of ticks")
}

/// What a strict parser of XML, and not the browser, finds in the picture.
fn titles(svg: &Path) -> Vec<String> {
    const SCRIPT: &str = "import sys, json, xml.etree.ElementTree as tree\n\
        svg = '{http://www.w3.org/2000/svg}'\n\
        root = tree.parse(sys.argv[1]).getroot()\n\
        assert root.tag == svg + 'svg', root.tag\n\
        print(json.dumps([bar.find(svg + 'title').text for bar in root.iter(svg + 'g') if bar.get('class') == 'b']))";
    let output = Command::new("python3").args(["-c", SCRIPT]).arg(svg).output().expect("python3 runs");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn every_tick_of_the_profile_is_in_the_picture() {
    const TEST: &str = "every_tick_of_the_profile_is_in_the_picture";
    if !feature::has_program(TEST, "python3") {
        return;
    }
    let scratch = Scratch::new();
    let recorded = recorded(&scratch);
    let report = recorded.report(By::Object);
    let in_rows: u64 = report.rows.iter().map(|row| row.ticks).sum();
    let svg = scratch.path("all.svg");
    for scale in [&["--limit", "0"][..], &["--limit", "0", "--log"]] {
        let output = plot(&recorded, &svg, scale);
        assert!(output.status.success(), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.trim_end().ends_with(&format!("wrote {}", svg.display())), "{stderr}");
        assert_eq!(titles(&svg).iter().map(|title| ticks(title)).sum::<u64>(), in_rows, "{scale:?}");
    }
    // One object, to standard output.
    let one = plot(&recorded, Path::new("-"), &["--in", "shares"]);
    fs::write(&svg, &one.stdout).expect("our own folder");
    let own = report.ticks_of(|row| row.object.as_deref().is_some_and(|object| object.ends_with("/shares")));
    assert_eq!(titles(&svg).iter().map(|title| ticks(title)).sum::<u64>(), own);
    let none = plot(&recorded, &svg, &["--in", "no-such-object"]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    assert!(String::from_utf8_lossy(&none.stderr).contains("those with ticks are shares"), "{none:?}");
}

/// What the browser made of the picture.
#[derive(Debug, Deserialize)]
struct Shown {
    bars: Vec<Bar>,
    /// Names of functions, as shown.
    names: Vec<String>,
    /// Pairs of texts of which one covers the other.
    covered: Vec<String>,
    /// Texts that reach out of the picture.
    outside: Vec<String>,
    /// Colour in the middle of the tallest bar, and beside the picture's text.
    bar_colour: Vec<u8>,
    page_colour: Vec<u8>,
}

/// Asks the browser what it shows: boxes of what it laid out, and pixels of what it painted.
const QUESTION: &str = r#"
const svg = document.querySelector('svg');
const all = selector => [...svg.querySelectorAll(selector)];
const panels = all('.panel');
const height = bar => [...bar.querySelectorAll('.u,.k')].reduce((sum, part) => sum + part.getBBox().height, 0);
const bars = all('.b').map(bar => ({
    panel: panels.indexOf(bar.parentNode), title: bar.querySelector('title').textContent, height: height(bar), bar}));
const texts = all('text').filter(text => text.textContent).map(text => ({text: text.textContent, box: text.getBBox()}));
const covers = (a, b) => a.x < b.x + b.width - 1 && b.x < a.x + a.width - 1 && a.y < b.y + b.height - 3 && b.y < a.y + a.height - 3;
const covered = [];
texts.forEach((a, i) => texts.slice(i + 1).forEach(b => { if (covers(a.box, b.box)) covered.push(a.text + ' / ' + b.text); }));
const view = svg.viewBox.baseVal;
const outside = texts.filter(({box}) => box.x < 0 || box.y < 0 || box.x + box.width > view.width || box.y + box.height > view.height);
// The kernel's bars have no part in user mode, and one of them may be as tall.
const tallest = bars.filter(({bar}) => bar.querySelector('.u')).reduce((a, b) => b.height > a.height ? b : a);
const box = tallest.bar.querySelector('.u').getBBox();
// The load event waits for the picture, and the browser's answer for the load event.
window.onload = () => {
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [view.width, view.height];
    const context = canvas.getContext('2d');
    context.drawImage(document.querySelector('img'), 0, 0);
    const pixel = (x, y) => [...context.getImageData(x, y, 1, 1).data];
    const answer = {
        bars: bars.map(({panel, title, height}) => ({panel, title, height})),
        names: all('.n').map(name => name.textContent), covered, outside: outside.map(({text}) => text),
        bar_colour: pixel(box.x + box.width / 2, box.y + box.height / 2), page_colour: pixel(2, 2)};
    const element = document.createElement('pre');
    element.id = 'answer';
    element.textContent = encodeURIComponent(JSON.stringify(answer));
    document.body.append(element);
};
"#;

/// Shows a picture in the browser.
fn shown(scratch: &Scratch, svg: &Path, options: &[&str]) -> Shown {
    let svg = fs::read_to_string(svg).expect("the picture");
    let page = scratch.path("page.html");
    let picture = format!("<img hidden src=\"data:image/svg+xml,{}\">", percent_encoded(svg.as_bytes()));
    let html =
        format!("<!doctype html><meta charset=utf-8><body style=margin:0>{svg}{picture}<script>{QUESTION}</script>");
    fs::write(&page, html).expect("our own folder");
    let profile: PathBuf = scratch.path("browser");
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--dump-dom"]);
    browser.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    browser.args(["--disable-dev-shm-usage"]).args(options);
    browser.arg(format!("--user-data-dir={}", profile.display())).arg(format!("file://{}", page.display()));
    let output = browser.stdin(Stdio::null()).output().expect("chromium runs");
    let dom = String::from_utf8_lossy(&output.stdout);
    let answer = dom.split_once("<pre id=\"answer\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (answer, _) = answer.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_slice(&percent_decoded(answer)).expect("JSON")
}

fn percent_encoded(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02X}")).collect()
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digits = [bytes.next().expect("a digit"), bytes.next().expect("a digit")];
                u8::from_str_radix(std::str::from_utf8(&digits).expect("ASCII"), 16).expect("hexadecimal")
            }
            byte => byte,
        });
    }
    decoded
}

#[test]
fn a_browser_shows_the_hot_function_highest_and_no_text_over_another() {
    const TEST: &str = "a_browser_shows_the_hot_function_highest_and_no_text_over_another";
    if !feature::has_program(TEST, "chromium") {
        return;
    }
    let scratch = Scratch::new();
    let recorded = recorded(&scratch);
    let svg = scratch.path("profile.svg");
    let output = plot(&recorded, &svg, &["--limit", "0"]);
    assert!(output.status.success(), "{output:?}");
    let light = shown(&scratch, &svg, &["--blink-settings=preferredColorScheme=1"]);
    assert_eq!((&light.covered, &light.outside), (&vec![], &vec![]));
    assert!(light.names.iter().any(|name| name.starts_with("sixty ")), "{:?}", light.names);

    // Within a panel a bar is as high as its ticks are many, so the fullest is the highest: it is in the hot function.
    let own: Vec<&Bar> = light.bars.iter().filter(|bar| bar.panel == 0).collect();
    let highest = own.iter().max_by(|a, b| a.height.total_cmp(&b.height)).expect("bars");
    assert_eq!(Some(ticks(&highest.title)), own.iter().map(|bar| ticks(&bar.title)).max());
    assert!(highest.title.contains("\nsixty"), "{highest:?}");
    let pixels_a_tick = highest.height / ticks(&highest.title) as f64;
    for bar in own.iter().filter(|bar| bar.height > 10.0) {
        assert!((bar.height - ticks(&bar.title) as f64 * pixels_a_tick).abs() < 1.0, "{bar:?}");
    }

    assert_eq!(light.bar_colour, [0x2f, 0x6f, 0xc0, 255], "user code is blue");
    assert_eq!(light.page_colour, [255; 4]);
    let dark = shown(&scratch, &svg, &["--blink-settings=preferredColorScheme=0"]);
    assert!(dark.page_colour[..3].iter().all(|part| *part < 64), "{:?}", dark.page_colour);
    assert_ne!(dark.bar_colour, light.bar_colour);
}
