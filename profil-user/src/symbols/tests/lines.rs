//! Functions, inlined functions and lines, beside what addr2line(1) says of the same addresses.

use std::process::Command;

use super::*;

/// Functions inlined into one another, from namespaces, templates and lambdas, with declarations in between.
const SOURCE: &str = r#"
volatile int sink;
extern "C" int use_of(int x);
namespace outer { namespace inner {
struct Shape {
    int sides;
    __attribute__((noinline)) int area(int x) const;
    template <typename T> inline __attribute__((always_inline)) T scaled(T x) const { sink += x; return x * sides; }
};
static inline __attribute__((always_inline)) int leaf(int x) {
    for (int i = 0; i < 3; i++)
        sink += x * i;
    return sink;
}
static inline __attribute__((always_inline)) int middle(int x) {
    sink ^= 5;
    {
        extern int declared_here(int);
        sink += declared_here(x);
        sink += leaf(x + 1);
    }
    return leaf(sink) + x;
}
int Shape::area(int x) const {
    auto twice = [&](int y) __attribute__((always_inline)) { sink = y; return leaf(y) * 2; };
    return scaled<long>(x) + middle(x) + twice(x + 1);
}
__attribute__((noinline)) int declared_here(int x) { return sink -= x; }
} }
__attribute__((noinline)) static int cold_path(int x) {
    if (x > 1000) { sink = 1; __builtin_trap(); }
    return outer::inner::middle(x);
}
__attribute__((noinline)) int never_called(int x) { return outer::inner::leaf(x); }
int main(int argc, char **) {
    outer::inner::Shape shape{argc};
    return shape.area(argc) + cold_path(argc) == 1234567;
}
"#;

/// One function: its name as linkers have it, its file, and the line.
type Line = (String, String, u32);

/// What addr2line says, the innermost function first.
fn addr2line(program: &Path, svmas: &[u64]) -> Vec<Vec<Line>> {
    let mut command = Command::new("addr2line");
    command.args(["-a", "-f", "-i", "-e"]).arg(program).args(svmas.iter().map(|svma| format!("{svma:#x}")));
    let output = command.output().expect("addr2line runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let mut answers: Vec<Vec<Line>> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            answers.push(Vec::new());
            continue;
        }
        let place = lines.next().expect("a place for each function");
        let place = place.split(" (discriminator").next().expect("one part at least");
        let (file, line_number) = place.rsplit_once(':').expect("file and line");
        let answer = (line.to_owned(), file.to_owned(), line_number.parse().unwrap_or(0));
        answers.last_mut().expect("an address first").push(answer);
    }
    answers
}

fn told(frames: &[Frame]) -> Vec<Line> {
    let line = |frame: &Frame| {
        let name = frame.system_name.clone().unwrap_or_else(|| frame.function.clone());
        (name, frame.file.clone().unwrap_or_default(), frame.line)
    };
    frames.iter().map(line).collect()
}

#[test]
fn functions_and_lines_are_those_of_addr2line() {
    for options in [
        &["-gdwarf-5"][..],
        &["-gdwarf-4"],
        &["-gdwarf-4", "-fdebug-types-section", "-no-pie"],
        &["-O2", "-gz=zlib"],
        &["-O2", "-Wl,--compress-debug-sections=zstd"],
        &["-O2", "-ffunction-sections", "-Wl,--gc-sections"],
        &["-gdwarf-5", "-fuse-ld=lld"],
    ] {
        let workshop = Workshop::new();
        let program = workshop.build("g++", "cc", SOURCE, options);
        let ours = ["area", "middle", "leaf", "declared_here", "cold_path", "main"];
        let functions = functions(&program).into_iter();
        // Parts of functions (`main.cold`) have names of their own in the symbol table, which addr2line does not tell.
        let is_ours = |name: &String| ours.iter().any(|ours| name.contains(ours)) && !name.contains('.');
        let functions = functions.filter(|(name, ..)| is_ours(name));
        let svmas: Vec<u64> = functions.flat_map(|(_, start, size)| (start..start + size).step_by(2)).collect();
        assert!(svmas.len() > 50, "{options:?}");
        let mut symbols = symbols();
        let id = symbols.open(&file(&program));
        let names = symbols.name(id, &svmas);
        let deepest = names.frames.iter().map(Vec::len).max();
        assert!(deepest >= Some(3), "{options:?}: functions are inlined into one another");
        for ((svma, frames), expected) in svmas.iter().zip(&names.frames).zip(addr2line(&program, &svmas)) {
            let mut expected = expected;
            // For an inlined function without a linked name, addr2line has the name of the one around it.
            let outermost = expected.last().map(|(name, ..)| name.clone());
            for ((name, ..), (inlined, ..)) in
                expected.iter_mut().rev().skip(1).zip(told(frames).into_iter().rev().skip(1))
            {
                if Some(&*name) == outermost.as_ref() {
                    *name = inlined;
                }
            }
            assert_eq!(told(frames), expected, "{svma:#x} with {options:?}");
        }
    }
}

#[test]
fn assembly_has_lines() {
    let workshop = Workshop::new();
    let program =
        workshop.build("gcc", "s", ".globl main\n.type main, @function\nmain:\nnop\nnop\nret\n.size main, 3\n", &[]);
    let mut symbols = symbols();
    let id = symbols.open(&file(&program));
    let main = symbols.find(id, "main").expect("read").expect("main").svma;
    let frames = name_one(&mut symbols, id, main + 1);
    assert_eq!(told(&frames)[0].2, 5, "{frames:?}");
    assert!(frames[0].file.as_deref().is_some_and(|file| file.ends_with("/program.s")), "{frames:?}");
    assert_eq!(outermost(&frames), Some("main"));
}
