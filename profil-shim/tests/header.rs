//! include/profil.h, as C and C++ programs see it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Compiles a program that includes these headers and ours, in this order.
fn compile(compiler: &str, language: &str, standard: &str, headers: [&str; 3]) {
    let includes: String =
        headers.iter().filter(|header| !header.is_empty()).map(|h| format!("#include {h}\n")).collect();
    let source = format!(
        "{includes}
        int count(unsigned short *);
        int count(unsigned short *buffer) {{
            struct prof entry = {{0, 0, 0, 0}};
            struct timeval period;
            return profil(buffer, 8, 0, 65536) + sprofil(&entry, PROF_USHORT, &period, PROF_UINT | PROF_FAST);
        }}"
    );
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut cc = Command::new(compiler);
    cc.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-c", "-o", "/dev/null", "-x", language, standard, "-"]);
    let mut child = cc.arg("-I").arg(include).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a compiler");
    child.stdin.take().expect("a pipe").write_all(source.as_bytes()).expect("a compiler that reads");
    let output = child.wait_with_output().expect("a compiler");
    assert!(output.status.success(), "{cc:?}\n{source}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_header_compiles_as_c_and_cpp_beside_those_of_the_system() {
    let ours = "\"profil.h\"";
    for other in ["", "<sys/profil.h>", "<unistd.h>", "<sys/gmon.h>", ours] {
        for headers in [[other, ours, ""], [ours, other, ""], [other, ours, other]] {
            compile("cc", "c", "-std=c99", headers);
            compile("cc", "c", "-std=gnu17", headers);
            compile("c++", "c++", "-std=c++98", headers);
            compile("c++", "c++", "-std=c++17", headers);
        }
    }
}
