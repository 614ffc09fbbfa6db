//! Finds JSON in what agents write: bare, in a fence, in the middle of prose.
//!
//! A real parser looks at every opening brace, so braces inside strings and nested objects are understood. Nothing is
//! mended: a text that holds no whole object gives none.

use ftl_core::json::{Json, JsonCause, JsonExt as _};

/// How large a text may be that objects are looked for in: as large as the plan that it may hold.
pub const MAX_TEXT_BYTES: usize = crate::plan_file::MAX_PLAN_BYTES;

/// A fenced block of a Markdown text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencedBlock<'a> {
    /// The words after the opening fence, such as `json`.
    pub label: &'a str,
    /// The text between the fences.
    pub body: &'a str,
}

/// The first object of a text: the whole of it, else in a fence, else anywhere. Nothing in a text that is too large.
pub fn object(text: &str) -> Option<Json> {
    object_where(text, |_| true)
}

/// The first object of a text that is as wanted.
pub fn object_where(text: &str, wanted: impl Fn(&Json) -> bool) -> Option<Json> {
    if text.len() > MAX_TEXT_BYTES {
        return None;
    }
    let good = |json: &Json| json.is_object() && wanted(json);
    let whole = Json::parse(text.trim()).ok().filter(good);
    let fenced =
        || fences(text).into_iter().find_map(|fence| Json::parse(fence.body.trim()).ok().filter(good));
    let inside = || fences(text).into_iter().find_map(|fence| objects(fence.body).into_iter().find(good));
    whole.or_else(fenced).or_else(inside).or_else(|| objects(text).into_iter().find(good))
}

/// All objects of a text that do not stand in each other, in order. Looking ends at one that is cut off or nested too
/// deep: what is inside it is a part of something, not a whole.
pub fn objects(text: &str) -> Vec<Json> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = text[at..].find('{') {
        at += open;
        match Json::parse_prefix(&text[at..]) {
            Ok((json, length)) => {
                found.push(json);
                at += length;
            }
            Err(error) => match error.cause {
                JsonCause::Syntax => at += 1,
                JsonCause::End | JsonCause::Depth => break,
            },
        }
    }
    found
}

/// The fenced blocks of a text; one that is never closed reaches to the end.
pub fn fences(text: &str) -> Vec<FencedBlock<'_>> {
    let mut found = Vec::new();
    let mut open: Option<(&str, &str, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let mark = fence_mark(line);
        match (open, mark) {
            (None, Some(mark)) => {
                let label = line.trim_start()[mark.len()..].trim();
                // A brace may follow the fence on its own line; then the block begins there.
                let brace = line.find('{').map(|brace| start + brace);
                open = Some((mark, label.split('{').next().unwrap_or(label).trim(), brace.unwrap_or(at)));
            }
            (Some((opening, label, from)), Some(mark)) if closes(line, opening, mark) => {
                found.push(FencedBlock { label, body: &text[from..start] });
                open = None;
            }
            (Some(_) | None, _) => {}
        }
    }
    if let Some((_, label, from)) = open {
        found.push(FencedBlock { label, body: &text[from.min(text.len())..] });
    }
    found
}

/// The back ticks or tildes that a line begins with, three or more.
fn fence_mark(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let first = line.chars().next().filter(|letter| matches!(letter, '`' | '~'))?;
    let length = line.chars().take_while(|letter| *letter == first).count();
    (length >= 3).then(|| &line[..length])
}

fn closes(line: &str, opening: &str, mark: &str) -> bool {
    mark.len() >= opening.len() && mark.starts_with(&opening[..1]) && line.trim().len() == mark.len()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn objects_in_all_places() {
        let cases = [
            (r#"{"a": 1}"#, r#"{"a": 1}"#),
            ("  \n{\"a\": {\"b\": {\"c\": 1}}}\n", r#"{"a": {"b": {"c": 1}}}"#),
            ("Sure!\n```json\n{\"a\": \"}\"}\n```\nDone {x}.", r#"{"a": "}"}"#),
            ("```\n{\"a\": 1}\n```", r#"{"a": 1}"#),
            ("~~~json\n{\"a\": 1}\n~~~", r#"{"a": 1}"#),
            ("```json {\"a\": 1}\n```", r#"{"a": 1}"#),
            ("```json\n{\"a\": 1}", r#"{"a": 1}"#),
            ("````md\n```json\n{\"a\": 1}\n```\n````", r#"{"a": 1}"#),
            ("a {brace} and {\"a\": \"{\\\"\"} more", r#"{"a": "{\""}"#),
            ("set {1, 2} then {\"a\": [1, {\"b\": 2}]}", r#"{"a": [1, {"b": 2}]}"#),
            ("[1, 2]", ""),
            ("\"{}\"", "{}"),
            ("nothing", ""),
            ("{\"a\": 1", ""),
            ("{\"a\": {\"b\": 1}, ", ""),
            ("", ""),
            ("é{\"é\": 1}é", r#"{"\u00e9": 1}"#),
        ];
        for (text, expected) in cases {
            assert_eq!(object(text).map(|json| json.line()).unwrap_or_default(), expected, "{text}");
        }
    }

    #[test]
    fn the_wanted_object_is_taken() {
        let text = "{\"x\": 1}\n```json\n{\"y\": 1}\n```\n{\"z\": 1}";
        for key in ["x", "y", "z"] {
            assert!(object_where(text, |json| json.get(key).is_some()).is_some(), "{key}");
        }
        assert!(object_where(text, |json| json.get("w").is_some()).is_none());
    }

    #[test]
    fn large_and_hostile_texts_end_soon() {
        let large = format!("{}{}", " ".repeat(MAX_TEXT_BYTES), "{}");
        assert_eq!(object(&large), None);
        let began = Instant::now();
        let size = 1024 * 1024;
        for part in ["{", "{\"a\":", "{\"a\":[", "{\"a\":\"", "```\n{", "`", "{\"a\":1,"] {
            assert_eq!(object(&part.repeat(size / part.len())), None, "{part}");
        }
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }

    #[test]
    fn mutated_texts_never_panic() {
        let whole = "Text {x}\n```json\n{\"mode\": \"delta\", \"s\": \"a{\\\"}é\", \"n\": [1, {\"k\": null}]}\n```\n~~~\n{}\n~~~ tail";
        let mut state = 3_u64;
        let mut below = |limit: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % limit
        };
        let mut well = 0;
        for _ in 0..5_000 {
            let mut bytes = whole.as_bytes().to_vec();
            for _ in 0..1 + below(5) {
                let at = below(bytes.len());
                bytes[at] = b"{}[]\"\\`~\n:,\xc3\x00 a"[below(15)];
            }
            well += usize::from(object(&String::from_utf8_lossy(&bytes)).is_some());
        }
        assert!(well > 1_000, "{well}");
    }
}
