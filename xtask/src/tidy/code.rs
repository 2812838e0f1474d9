//! The code of a Rust file: comments and the insides of literals blanked, so that words in them are not taken for code.

/// The text with comments and literals replaced by blanks; line numbers stay.
pub fn only_code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' => string_length(rest),
            'r' if !ends_in_word(&code) => raw_string_length(rest).unwrap_or(0),
            '\'' => char_length(rest).unwrap_or(0),
            _ => 0,
        };
        if length == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            let (blanked, after) = rest.split_at(length);
            code.extend(blanked.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = after;
        }
    }
    code
}

/// The code before an inline module of unit tests; nothing of a file that is such a module.
pub fn without_tests<'a>(path: &str, code: &'a str) -> &'a str {
    if path.ends_with("/tests.rs") {
        return "";
    }
    let is_inline = |at: &usize| code[*at..].lines().nth(1).is_some_and(|line| line.ends_with('{'));
    let mut modules = code.match_indices("#[cfg(test)]\nmod ").map(|(at, _)| at);
    modules.find(is_inline).map_or(code, |end| &code[..end])
}

/// The words of a line of code: identifiers and keywords.
pub fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn ends_in_word(code: &str) -> bool {
    code.ends_with(|c: char| c.is_alphanumeric() || c == '_')
        // br"..." and cr"..." are raw strings too.
        && !matches!(code.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next(), Some("b" | "c"))
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string_length(text: &str) -> Option<usize> {
    let hashes = text[1..].len() - text[1..].trim_start_matches('#').len();
    text[1 + hashes..].starts_with('"').then_some(())?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = 2 + hashes;
    Some(text[start..].find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// The length of a character literal; `None` for a lifetime.
fn char_length(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        chars.next()?;
        return Some(text[3..].find('\'')? + 4);
    }
    let (at, second) = chars.next()?;
    (second == '\'').then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        for text in ["// unsafe", "/* unsafe\n*/", "\"unsafe \\\" unsafe\"", "r#\"unsafe \" unsafe\"#", "br\"unsafe\""]
        {
            let code = only_code(text);
            assert!(!code.contains("unsafe"), "{text}: {code}");
            assert_eq!(code.lines().count(), text.lines().count(), "{text}");
        }
    }

    #[test]
    fn what_follows_a_literal_is_code_again() {
        for text in
            ["'\\'' unsafe", "'\"' unsafe", "&'a str; unsafe", "\"\\\\\" unsafe", "r\"\\\" unsafe", "for\"x\"unsafe"]
        {
            assert!(only_code(text).contains("unsafe"), "{text}: {}", only_code(text));
        }
    }

    #[test]
    fn unit_tests_end_the_code_of_a_file() {
        let rest = "fn after() {}\n";
        let inline = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n}}\n{rest}");
        assert_eq!(without_tests("a/tick.rs", &inline), "fn f() {}\n");
        let elsewhere = format!("#[cfg(test)]\nmod tests;\n{rest}");
        assert_eq!(without_tests("a/tick.rs", &elsewhere), elsewhere);
        assert_eq!(without_tests("a/tick/tests.rs", rest), "");
    }
}
