//! A long list inside of an object, one item at a time: whoever changes ten thousand of them needs no tree of
//! all. Texts are those that [`Json::compact`] writes; what is laid out otherwise is not split, and never wrong.

use super::{Json, next_line, write_pretty, write_text};

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

    /// Adds an item.
    pub fn push(&mut self, item: &Json) {
        if self.count > 0 {
            self.compact.push(',');
        }
        self.compact.push_str(&item.compact());
        next_line(&mut self.pretty, self.count, 2);
        write_pretty(&mut self.pretty, item, 2);
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
            rows.push(&Json::parse(item).unwrap());
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
        ];
        for text in values {
            let value = Json::parse(text).unwrap();
            assert_eq!(again(&value), (value.compact(), value.pretty()), "{text}");
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
