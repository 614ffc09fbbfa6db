//! Tests in shell, for bats or as plain scripts, read by their lines.
//!
//! A test of bats has its title for a name. In a script each function is one, and what stands outside of them is another.
//! An assertion is a line that compares something or calls a function that checks.

use super::assertion::{Assertion, Strength, one_line};
use super::cases::{Case, Cases, MAX_CASES, Mark, What};

/// Beginnings of lines that compare something.
const COMPARES: [&str; 12] =
    ["[ ", "[[ ", "test ", "diff ", "cmp ", "grep ", "! ", "assert", "check", "expect", "refute", "if "];

/// Ends of lines that let a failure pass.
const PASSES: [&str; 5] = ["|| true", "|| :", "|| return 0", "|| exit 0", "|| echo"];

/// The tests of a file.
pub(super) fn read(path: &str, text: &str) -> Cases {
    let is_bats = path.ends_with(".bats");
    let mut found = Cases::default();
    let mut whole = Case { name: "the file".to_owned(), line: 1, ..Case::default() };
    let mut open: Option<(Case, usize)> = None;
    for (at, raw) in text.lines().enumerate() {
        let line = super::product::without_comment(raw).trim_end();
        if line.trim().is_empty() {
            continue;
        }
        if let Some(name) = starts(line).filter(|_| open.is_none() && found.cases.len() < MAX_CASES) {
            let is_test = line.trim_start().starts_with("@test") || (!is_bats && name.starts_with("test"));
            let case = Case { name, line: at + 1, is_test, ..Case::default() };
            match line.ends_with('}') {
                true => found.cases.push(case),
                false => open = Some((case, 0)),
            }
            continue;
        }
        let ends = line == "}" || line == ")";
        match open.as_mut().filter(|_| !ends) {
            Some((case, lines)) => {
                *lines += 1;
                look(case, line, at + 1, is_bats);
            }
            None if ends => {
                if let Some((mut case, lines)) = open.take() {
                    case.is_empty = lines == 0;
                    found.cases.push(case);
                }
            }
            None => look(&mut whole, line, at + 1, is_bats),
        }
    }
    found.cases.extend(open.map(|(case, _)| case));
    found.cases.push(whole);
    found
}

/// The name of a test or function that begins on a line.
fn starts(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix("@test ") {
        let quote = rest.chars().next().filter(|letter| matches!(letter, '"' | '\''));
        return Some(match quote.and_then(|quote| rest[1..].split_once(quote)) {
            Some((title, _)) => title.to_owned(),
            None => rest.trim_end_matches('{').trim().to_owned(),
        });
    }
    let words = line.strip_prefix("function ").unwrap_or(line);
    let (name, rest) = words.split_once("()")?;
    let is_name = !name.is_empty()
        && name.trim().chars().all(|one| one.is_alphanumeric() || matches!(one, '_' | '-' | ':'));
    (is_name && rest.contains(['{', '('])).then(|| name.trim().to_owned())
}

fn look(case: &mut Case, line: &str, at: usize, is_bats: bool) {
    let words = one_line(line);
    let plain = words.trim_start_matches(['(', '{', ' ']);
    if is_bats && (plain == "skip" || plain.starts_with("skip ") || plain.contains("|| skip")) {
        case.marks.push(Mark { what: What::Skip, text: super::short(&words), line: at });
        return;
    }
    if plain.contains("BATS_TEST_RETRIES=") {
        case.marks.push(Mark { what: What::Retry, text: super::short(&words), line: at });
    }
    let compares = COMPARES.iter().any(|start| plain.starts_with(start));
    let fails = plain.starts_with("fail")
        || plain.contains("|| fail")
        || plain.contains("failed=")
        || plain.contains("status=1");
    let ends = plain.strip_prefix("exit ").or_else(|| plain.strip_prefix("return "));
    let is_end = ends.is_some_and(|value| value.trim() != "0");
    if !compares && !fails && !is_end {
        return;
    }
    let passes = PASSES.iter().any(|end| words.ends_with(end) || words.contains(&format!("{end} ")));
    if passes {
        case.marks.push(Mark { what: What::Swallow, text: super::short(&words), line: at });
        return;
    }
    // A check in a shell of its own cannot tell the one around.
    let is_apart = words.starts_with('(') && !words.contains("||");
    if is_apart && !is_bats {
        case.marks.push(Mark { what: What::Swallow, text: super::short(&words), line: at });
    }
    let compared = plain.contains('=') || plain.contains("$(");
    let strength = if compared { Strength::Exact } else { Strength::Range };
    let assertion = Assertion { strength, subject: subject(plain), ..Assertion::new(plain, at, None) };
    case.assertions.push(assertion);
}

/// What a line is about: the command whose output it takes, or its first word.
fn subject(line: &str) -> String {
    let inner = line.split("$(").nth(1).and_then(|rest| rest.split(')').next());
    inner.unwrap_or_else(|| line.split('=').next().unwrap_or(line)).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_and_functions_are_names() {
        let bats = "setup() {\n  . ./a.sh\n}\n@test \"adds (two)\" {\n  run add 1 2\n  [ \"$output\" = 3 ]\n}\n\
            @test 'later' {\n  skip \"no\"\n}\n";
        let found = read("a.bats", bats);
        let named: Vec<(&str, bool, usize, usize)> = found
            .cases
            .iter()
            .map(|case| (case.name.as_str(), case.is_test, case.assertions.len(), case.marks.len()))
            .collect();
        assert_eq!(
            named,
            [
                ("setup", false, 0, 0),
                ("adds (two)", true, 1, 0),
                ("later", true, 0, 1),
                ("the file", false, 0, 0)
            ]
        );
    }

    /// One line a case: a line of a script, whether it asserts, whether it lets a failure pass.
    const LINES: &str = r#"
        [ "$(f)" = 1 ] || failed=1  ; yes ; no
        [ "$(f)" = 1 ] || true      ; no  ; yes
        (check a b)                 ; yes ; yes
        check a b                   ; yes ; no
        exit $failed                ; yes ; no
        exit 0                      ; no  ; no
        echo a                      ; no  ; no"#;

    #[test]
    fn a_line_says_whether_it_asserts() {
        for line in LINES.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split(" ; ").map(str::trim).collect();
            let found = read("t.sh", cells[0]);
            let case = &found.cases[0];
            let passes = case.marks.iter().any(|mark| mark.what == What::Swallow);
            assert_eq!(
                (!case.assertions.is_empty(), passes),
                (cells[1] == "yes", cells[2] == "yes"),
                "{line}"
            );
        }
    }
}
