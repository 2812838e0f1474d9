//! The picture of one small profile, and of hostile ones.

use super::panel::Choice;
use super::*;
use crate::profile::{Location, MappingKind, Mode, Profile, Row};
use crate::report::{By, Report, sample, table};

fn drawn(profile: &Profile, choice: &Choice, scale: Scale) -> String {
    let report = Report::new(profile, By::Object, |_| true);
    let caption = Caption { title: report.title.clone(), headline: table::headline(&report), counted: report.counted };
    let mut svg = Vec::new();
    write(&Panels::new(profile, choice).unwrap(), &caption, scale, &mut svg).unwrap();
    String::from_utf8(svg).unwrap()
}

/// Texts between two words.
fn between<'a>(text: &'a str, before: &'a str, after: &'a str) -> Vec<&'a str> {
    text.split(before).skip(1).filter_map(|rest| Some(rest.split_once(after)?.0)).collect()
}

#[test]
fn titles_tell_addresses_functions_ticks_and_share() {
    let svg = drawn(&sample::profile(), &Choice::Named(vec!["burn".into()]), Scale::Linear);
    let titles = between(&svg, "<g class=\"b\"><title>", "</title>");
    assert_eq!(
        titles,
        ["0x1100-0x1101\n600 ticks (60.0 %), 100 in the kernel\nspin", "0x1200-0x1201\n150 ticks (15.0 %)\nmain"]
    );
}

#[test]
fn the_highest_bar_is_the_fullest_and_the_kernel_s_part_is_told_by_colour() {
    let svg = drawn(&sample::profile(), &Choice::Named(vec!["burn".into()]), Scale::Linear);
    let heights = |class: &str| -> Vec<f64> {
        between(&svg, &format!("<path class=\"{class}\" d=\"M"), "h-")
            .iter()
            .map(|path| path.split_once("v-").unwrap().1.parse().unwrap())
            .collect()
    };
    let (user, kernel) = (heights("u"), heights("k"));
    assert_eq!((user.len(), kernel.len()), (2, 1));
    assert!((user[0] / kernel[0] - 5.0).abs() < 0.1, "{user:?} {kernel:?}");
    assert!(((user[0] + kernel[0]) / user[1] - 4.0).abs() < 0.1, "{user:?} {kernel:?}");
}

#[test]
fn every_tick_is_in_a_title_on_either_scale() {
    for scale in [Scale::Linear, Scale::Log] {
        let svg = drawn(&sample::profile(), &Choice::Largest(None), scale);
        let titles = between(&svg, "<g class=\"b\"><title>", "</title>");
        let ticks = titles.iter().map(|title| {
            let ticks = title.lines().nth(1).unwrap().split(' ').next().unwrap();
            ticks.replace(',', "").parse::<u64>().unwrap()
        });
        assert_eq!(ticks.sum::<u64>(), 1000, "{titles:?}");
    }
}

#[test]
fn hostile_names_stay_text() {
    let mut profile = sample::profile();
    profile.title = "-- </title><script>alert(1)</script>\u{ffff}".into();
    profile.mappings[0].object = "/tmp/\"<b>&\x1b\n".into();
    profile.locations[0].frames[0].function = "</text><image href='//x'>\0".into();
    let svg = drawn(&profile, &Choice::Largest(None), Scale::Linear);
    assert!(!svg.contains("<script") && !svg.contains("<image") && !svg.contains("<b>"), "{svg}");
    assert!(!svg.contains(|c: char| c.is_control() && c != '\n' || c == '\u{ffff}'));
    assert_eq!(svg.matches('<').count(), svg.matches('>').count());
}

#[test]
fn code_of_any_size_makes_a_small_file() {
    let mut profile = sample::profile();
    // 300 MB of text with a tick in each of 20,000 functions of long names.
    let name = "a_template_with_a_name_that_goes_on_and_on<".repeat(20);
    profile.locations = (0..20_000u64)
        .map(|at| {
            let mut frame = sample::profile().locations[0].frames[0].clone();
            frame.function = format!("{at}_{name}");
            Location { mapping: Some(0), address: 0x1000 + at * 15_000, frames: vec![frame] }
        })
        .collect();
    profile.rows = (0..20_000)
        .map(|location| Row { location, process: None, tid: None, mode: Mode::User, ticks: 1 + location as u64 % 7 })
        .collect();
    let svg = drawn(&profile, &Choice::Largest(None), Scale::Linear);
    assert!(svg.len() < 400_000, "{} bytes", svg.len());
    assert!(between(&svg, "<g class=\"b\"", ">").len() as u64 > panel::MOST_BINS / 2);
}

#[test]
fn addresses_at_the_ends_of_the_range_are_drawn() {
    let mut profile = sample::profile();
    profile.mappings[3].kind = MappingKind::Anonymous;
    profile.locations[4].address = 0;
    profile.locations[5].address = u64::MAX;
    let svg = drawn(&profile, &Choice::Named(vec!["[anon]".into()]), Scale::Linear);
    let titles = between(&svg, "<g class=\"b\"><title>", "\n");
    assert_eq!(titles, ["0x0-0xffffffffffffff", "0xff00000000000000-0xffffffffffffffff"], "no margin beyond them");
}

#[test]
fn sizes_are_powers_of_two() {
    assert_eq!([2, 1024, 1 << 22, 1 << 63].map(bytes), ["2 bytes", "1 KiB", "4 MiB", "8 EiB"]);
}
