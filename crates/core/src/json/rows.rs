//! A long list inside of an object, one item at a time: whoever changes ten thousand of them needs no tree of
//! all. Texts are those that [`Json::compact`] writes; what is laid out otherwise is not split, and never wrong.

use super::{Json, next_line, write_line, write_pretty, write_text};

/// The text of an object, split at a list that it holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// Everything up to the first item.
    pub before: &'a str,
    /// The items.
    pub items: Vec<&'a str>,
    /// Everything after the last one.
    pub after: &'a str,
}

/// Splits the text of an object without white space at the list of a key; nothing where it is none.
pub fn split<'a>(text: &'a str, key: &str) -> Option<Split<'a>> {
    let bytes = text.as_bytes();
    let wanted = format!("\"{key}\"");
    let mut at = 1;
    if bytes.first() != Some(&b'{') {
        return None;
    }
    loop {
        let colon = past_text(bytes, at)?;
        let (name, value) = (&text[at..colon], colon + 1);
        if bytes.get(colon) != Some(&b':') {
            return None;
        }
        if name == wanted && bytes.get(value) == Some(&b'[') {
            return items(text, value + 1);
        }
        at = past_value(bytes, value)?;
        if bytes.get(at) != Some(&b',') {
            return None;
        }
        at += 1;
    }
}

fn items(text: &str, from: usize) -> Option<Split<'_>> {
    let bytes = text.as_bytes();
    let (mut items, mut at) = (Vec::new(), from);
    while bytes.get(at) != Some(&b']') {
        let end = past_value(bytes, at)?;
        items.push(&text[at..end]);
        match bytes.get(end)? {
            b',' if bytes.get(end + 1) != Some(&b']') => at = end + 1,
            b']' => at = end,
            _ => return None,
        }
    }
    Some(Split { before: &text[..from], items, after: &text[at..] })
}

/// The fields of an object without white space: each key in its quotes, and the text of its value. Nothing where
/// it is no such object.
pub fn fields(text: &str) -> Option<Vec<(&str, &str)>> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 1);
    if bytes.first() != Some(&b'{') {
        return None;
    }
    while bytes.get(at) != Some(&b'}') {
        let colon = past_text(bytes, at)?;
        if bytes.get(colon) != Some(&b':') {
            return None;
        }
        let end = past_value(bytes, colon + 1)?;
        found.push((&text[at..colon], &text[colon + 1..end]));
        match bytes.get(end)? {
            b',' if bytes.get(end + 1) != Some(&b'}') => at = end + 1,
            b'}' => at = end,
            _ => return None,
        }
    }
    (at + 1 == bytes.len()).then_some(found)
}

/// The text of an object with other values for some of its keys, which are plain words; what it did not have
/// comes last. Nothing where it is no object without white space.
pub fn put(text: &str, new: &[(&str, Json)]) -> Option<String> {
    let old = fields(text)?;
    let is_key = |quoted: &str, key: &str| quoted[1..quoted.len() - 1] == *key;
    let mut out = String::with_capacity(text.len() + 128);
    let mut add = |quoted: &str, value: &dyn Fn(&mut String)| {
        out.push(if out.is_empty() { '{' } else { ',' });
        out.push_str(quoted);
        out.push(':');
        value(&mut out);
    };
    for (quoted, value) in &old {
        match new.iter().find(|(key, _)| is_key(quoted, key)) {
            Some((_, value)) => add(quoted, &|out| out.push_str(&value.compact())),
            None => add(quoted, &|out| out.push_str(value)),
        }
    }
    for (key, value) in new.iter().filter(|(key, _)| !old.iter().any(|(quoted, _)| is_key(quoted, key))) {
        add(&format!("\"{key}\""), &|out| out.push_str(&value.compact()));
    }
    out.push_str(if out.is_empty() { "{}" } else { "}" });
    Some(out)
}

/// Writes a text without white space as [`Json::pretty`] would write its value.
fn lay_out(out: &mut String, text: &str, mut depth: usize) {
    let bytes = text.as_bytes();
    let (mut from, mut at) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            // People's texts are plain ASCII, and people's numbers shorter.
            b'"' | b'-' | b'0'..=b'9' => {
                let end = past_scalar(bytes, at);
                if !is_laid_out(&bytes[at..end])
                    && let Ok(value) = Json::parse(&text[at..end])
                {
                    out.push_str(&text[from..at]);
                    write_line(out, &value);
                    from = end;
                }
                at = end;
                continue;
            }
            b'{' | b'[' if matches!(bytes.get(at + 1), Some(b'}' | b']')) => at += 1,
            b'{' | b'[' => {
                out.push_str(&text[from..=at]);
                depth += 1;
                next_line(out, 0, depth);
                from = at + 1;
            }
            b'}' | b']' => {
                out.push_str(&text[from..at]);
                depth = depth.saturating_sub(1);
                next_line(out, 0, depth);
                from = at;
            }
            b',' => {
                out.push_str(&text[from..at]);
                next_line(out, 1, depth);
                from = at + 1;
            }
            b':' => {
                out.push_str(&text[from..=at]);
                out.push(' ');
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    out.push_str(&text[from..]);
}

/// Behind the text or the number that begins here.
fn past_scalar(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at) == Some(&b'"') {
        return past_text(bytes, at).unwrap_or(bytes.len());
    }
    let is_over = |byte: &u8| matches!(byte, b',' | b']' | b'}');
    bytes[at..].iter().position(is_over).map_or(bytes.len(), |length| at + length)
}

/// Whether a text or a number is written for people as it is written without white space.
fn is_laid_out(bytes: &[u8]) -> bool {
    match bytes.first() {
        Some(b'"') => bytes.iter().all(|byte| matches!(byte, b' '..=b'~')),
        _ => bytes.iter().all(|byte| matches!(byte, b'-' | b'0'..=b'9')),
    }
}

/// Behind the text in quotes that begins here.
fn past_text(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Behind the value that begins here: at the comma or the bracket that follows it.
fn past_value(bytes: &[u8], mut at: usize) -> Option<usize> {
    let (from, mut depth) = (at, 0_usize);
    loop {
        match bytes.get(at)? {
            b'"' => {
                at = past_text(bytes, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b',' | b'}' | b']' if depth == 0 => return (at > from).then_some(at),
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
}

/// The two texts of an object, while the items of its list come one after the other.
#[derive(Debug)]
pub struct Rows {
    compact: String,
    pretty: String,
    count: usize,
}

impl Rows {
    /// Nothing yet but what stands before the items; about so many bytes will come.
    pub fn new(before: &str, bytes: usize) -> Rows {
        let mut compact = String::with_capacity(bytes);
        compact.push_str(before);
        Rows { compact, pretty: String::with_capacity(bytes * 3 / 2), count: 0 }
    }

    /// Adds an item: its text without white space.
    pub fn push(&mut self, item: &str) {
        if self.count > 0 {
            self.compact.push(',');
        }
        self.compact.push_str(item);
        next_line(&mut self.pretty, self.count, 2);
        lay_out(&mut self.pretty, item, 2);
        self.count += 1;
    }

    /// The text without white space, and the text for people, of the object that the head is without its items.
    pub fn finish(self, head: &Json, key: &str, after: &str) -> (String, String) {
        let mut pretty = String::with_capacity(self.pretty.len() + 4096);
        pretty.push('{');
        for (at, (name, value)) in head.fields().iter().enumerate() {
            next_line(&mut pretty, at, 1);
            write_text(&mut pretty, name);
            pretty.push_str(": ");
            if name == key && self.count > 0 {
                pretty.push('[');
                pretty.push_str(&self.pretty);
                next_line(&mut pretty, 0, 1);
                pretty.push(']');
            } else {
                write_pretty(&mut pretty, value, 1);
            }
        }
        next_line(&mut pretty, 0, 0);
        pretty.push('}');
        (self.compact + after, pretty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a value at `tasks` and puts it together again.
    fn again(value: &Json) -> (String, String) {
        let text = value.compact();
        let found = split(&text, "tasks").unwrap();
        let mut rows = Rows::new(found.before, text.len());
        for item in &found.items {
            rows.push(item);
        }
        let head = Json::parse(&format!("{}{}", found.before, found.after)).unwrap();
        rows.finish(&head, "tasks", found.after)
    }

    #[test]
    fn what_is_split_is_put_together_as_it_was() {
        let values = [
            r#"{"tasks":[]}"#,
            r#"{"tasks":[1]}"#,
            r#"{"a":"]}\"\\,{","tasks":[{"x":[1,{"y":"],\"}"}]},[],"é\n,]",null,-1.5],"z":{"tasks":[9]},"end":[[]]}"#,
            r#"{"x":{"tasks":[1,2]},"tasks":[{"a":{}}]}"#,
            "{\"tasks\":[1e300,0.00001,12345678901234567890123,-0.0,{\"é\":\"\u{7f}\\u0001𝄞\"},true,[[{}]]]}",
        ];
        for text in values {
            let value = Json::parse(text).unwrap();
            assert_eq!(again(&value), (value.compact(), value.pretty()), "{text}");
        }
    }

    #[test]
    fn fields_are_read_and_put_as_a_tree_would() {
        let text = r#"{"a":"x,}\"","status":"pending","deep":{"status":[1,{}]},"e":[]}"#;
        let found = fields(text).unwrap();
        let expected = [
            ("\"a\"", r#""x,}\"""#),
            ("\"status\"", "\"pending\""),
            ("\"deep\"", r#"{"status":[1,{}]}"#),
            ("\"e\"", "[]"),
        ];
        assert_eq!(found, expected);
        for new in [
            vec![],
            vec![("status", Json::from("a \"b\""))],
            vec![("new", Json::list(["x", "y"])), ("e", Json::Null)],
        ] {
            let mut value = Json::parse(text).unwrap();
            for (key, one) in &new {
                value.put(key, one.clone());
            }
            assert_eq!(put(text, &new).unwrap(), value.compact());
        }
        assert_eq!(put("{}", &[("a", Json::Int(1))]).unwrap(), "{\"a\":1}");
        assert_eq!(put("{}", &[]).unwrap(), "{}");
        for bad in ["", "[]", "{", "{\"a\"}", "{\"a\":1,}", "{\"a\":1}x", "{ \"a\":1}", "{\"a\":}"] {
            assert_eq!((fields(bad), put(bad, &[])), (None, None), "{bad}");
        }
    }

    #[test]
    fn what_is_no_such_object_is_not_split() {
        for text in [
            "",
            "[]",
            "{}",
            "{\"a\":1}",
            "{\"tasks\":1}",
            "{\"tasks\":[1",
            "{\"tasks\":[1,]",
            "{\"a\":\"",
            "{\"tasks\": [1]}",
        ] {
            assert_eq!(split(text, "tasks"), None, "{text}");
        }
    }
}
