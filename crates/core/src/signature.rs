//! The signature of a failure: its text without what differs from run to run.
//!
//! Two failures with one signature are the same failure: nothing has changed between them but times, addresses, line
//! numbers and where a temporary folder lies. Names of tests and values that were compared are part of it.

/// How many letters of a signature are kept.
pub const MAX_SIGNATURE_CHARS: usize = 4_000;

/// Folders whose names are made anew each time; what lies below them is told from the end.
const PASSING_FOLDERS: [&str; 2] = ["/tmp/", "/worktrees/"];

/// The signature of what a failure says.
pub fn of(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut raw = text.split_whitespace().peekable();
    let mut before = "";
    while let Some(word) = raw.next() {
        let next = raw.peek().copied().unwrap_or_default();
        words.push(normalised(word, before, next));
        before = word;
    }
    words.join(" ").chars().take(MAX_SIGNATURE_CHARS).collect()
}

/// A word without what differs each time.
fn normalised(word: &str, before: &str, next: &str) -> String {
    let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric());
    let is_number = bare.parse::<f64>().is_ok();
    let counts_lines = before.trim_end_matches(':').eq_ignore_ascii_case("line");
    let is_time = is_duration(bare) || is_clock(bare) || (is_number && is_unit(next));
    if !bare.is_empty() && (is_time || (is_number && counts_lines)) {
        return word.replace(bare, "_");
    }
    without_places(&below_passing(word))
}

/// A number with a unit of time, such as `0.12s` or `12ms`.
fn is_duration(word: &str) -> bool {
    let number = word.trim_end_matches(|letter: char| letter.is_alphabetic());
    is_unit(&word[number.len()..]) && number.parse::<f64>().is_ok()
}

fn is_unit(word: &str) -> bool {
    let word = word.trim_matches(|letter: char| !letter.is_alphanumeric());
    matches!(word, "s" | "ms" | "us" | "µs" | "ns" | "sec" | "secs" | "second" | "seconds" | "milliseconds")
}

/// A time of the day or a date: digits between two colons or dashes at least.
fn is_clock(word: &str) -> bool {
    let is_part =
        |letter: char| letter.is_ascii_digit() || matches!(letter, ':' | '-' | '.' | 'T' | 'Z' | '+');
    let marks = word.chars().filter(|letter| matches!(letter, ':' | '-')).count();
    marks >= 2 && word.starts_with(|letter: char| letter.is_ascii_digit()) && word.chars().all(is_part)
}

/// A path below a folder that is made anew each time, from its last part on.
fn below_passing(word: &str) -> String {
    let Some(at) = PASSING_FOLDERS.iter().filter_map(|folder| word.find(folder)).min() else {
        return word.to_owned();
    };
    let start = word[..at].rfind(|letter: char| !(letter.is_alphanumeric() || "/._-".contains(letter)));
    let start = start.map_or(0, |start| start + word[start..].chars().next().map_or(1, char::len_utf8));
    let last = word.rfind('/').map_or(at, |slash| slash + 1);
    format!("{}{}", &word[..start], &word[last..])
}

/// Takes out addresses, and line numbers after a colon.
fn without_places(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut letters = word.chars().peekable();
    let mut before = ' ';
    while let Some(letter) = letters.next() {
        out.push(letter);
        let is_address = letter == 'x' && before == '0';
        let is_place = letter == ':' && before.is_alphanumeric();
        let is_part = |next: &char| match is_address {
            true => next.is_ascii_hexdigit(),
            false => next.is_ascii_digit(),
        };
        if (is_address || is_place) && letters.peek().is_some_and(is_part) {
            while letters.next_if(is_part).is_some() {}
            out.push('_');
            before = '0';
            continue;
        }
        before = letter;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One failure = another one that is the same, or ≠ one that is not.
    const TABLE: &str = "
        Ran 3 tests in 0.001s                    = Ran 3 tests in 1.2s
        Ran 3 tests in 0.001s                    ≠ Ran 4 tests in 0.001s
        3 passed (0.12 seconds)                  = 3 passed (4 seconds)
        <Cart object at 0x7f01ab>                = <Cart object at 0x55ffee>
        File \"calc.py\", line 12, in mul        = File \"calc.py\", line 14, in mul
        src/a.rs:12:5 mismatched types           = src/a.rs:120:9 mismatched types
        src/a.rs:12:5 mismatched types           ≠ src/b.rs:12:5 mismatched types
        open /tmp/x1/y/calc.py: no such file     = open /tmp/q/calc.py: no such file
        at /r/.ftl/worktrees/ab-1/src/a.py:3     = at /r/.ftl/worktrees/ab-2/src/a.py:4
        2026-11-18T04:00:00Z refused             = 2026-11-18T05:10:00Z refused
        12:30:45 refused                         = 13:30:45 refused
        assert 3 == 6                            ≠ assert 4 == 6
        2 of 3 tests failed                      ≠ 1 of 3 tests failed
        ModuleNotFoundError: freezegun           ≠ ModuleNotFoundError: flask
        a   b                                    = a b";

    #[test]
    fn what_differs_each_time_is_no_part_of_it() {
        let lines: Vec<&str> = TABLE.lines().filter(|line| !line.trim().is_empty()).collect();
        assert_eq!(lines.len(), 15);
        for line in lines {
            let is_same = line.contains("   = ") || line.contains(" = ") && !line.contains('≠');
            let (left, right) = line.split_once(if is_same { " = " } else { " ≠ " }).unwrap();
            assert_eq!(of(left) == of(right), is_same, "{line}\n{}\n{}", of(left), of(right));
        }
    }

    #[test]
    fn a_signature_has_a_length() {
        assert_eq!(of(&"word ".repeat(10_000)).chars().count(), MAX_SIGNATURE_CHARS);
    }
}
