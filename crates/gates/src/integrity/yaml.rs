//! YAML as far as files of continuous integration use it: maps, lists, texts of several lines, lists and maps on one line.
//!
//! Anchors, tags and several documents are taken as texts. What cannot be read is no document; whoever asks then compares
//! the files by their lines. Nothing that a document holds is carried out.

/// How deep a document may be.
pub(super) const MAX_DEPTH: usize = 60;

/// How deep lists and maps on one line may be.
const MAX_FLOW: usize = 8;

/// How many lines a document may have.
const MAX_LINES: usize = 20_000;

/// A value of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

impl Value {
    /// What a map holds under a key.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            Value::Text(_) | Value::List(_) => None,
        }
    }

    /// Its text on one line.
    pub(super) fn plain(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::List(list) => list.iter().map(Value::plain).collect::<Vec<_>>().join(", "),
            Value::Map(map) => map
                .iter()
                .map(|(key, value)| format!("{key}: {}", value.plain()))
                .collect::<Vec<_>>()
                .join(", "),
        }
    }
}

/// A line with its depth.
struct Line<'a> {
    indent: usize,
    text: &'a str,
    raw: &'a str,
}

/// Reads a document.
pub(super) fn read(text: &str) -> Option<Value> {
    let lines: Vec<Line<'_>> = text
        .lines()
        .map(|raw| {
            let inner = without_comment(raw).trim_end();
            let trimmed = inner.trim_start_matches(' ');
            Line { indent: inner.len() - trimmed.len(), text: trimmed, raw }
        })
        .collect();
    if lines.len() > MAX_LINES || lines.iter().any(|line| line.raw.trim_start_matches(' ').starts_with('\t'))
    {
        return None;
    }
    let mut reader = Reader { lines, at: 0 };
    reader.skip();
    let indent = reader.lines.get(reader.at).map(|line| line.indent)?;
    let found = reader.value(indent, 0)?;
    reader.skip();
    (reader.at >= reader.lines.len()).then_some(found)
}

fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, letter) in line.char_indices() {
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if matches!(letter, '\'' | '"') && !before.is_alphanumeric() => quote = Some(letter),
            None if letter == '#' && before.is_whitespace() => return &line[..at],
            None => {}
        }
        before = letter;
    }
    line
}

struct Reader<'a> {
    lines: Vec<Line<'a>>,
    at: usize,
}

impl Reader<'_> {
    /// Leaves out what is empty.
    fn skip(&mut self) {
        while self.lines.get(self.at).is_some_and(|line| line.text.is_empty() || line.text == "---") {
            self.at += 1;
        }
    }

    fn value(&mut self, indent: usize, depth: usize) -> Option<Value> {
        self.skip();
        let line = self.lines.get(self.at)?;
        match () {
            () if depth > MAX_DEPTH => None,
            () if line.text == "-" || line.text.starts_with("- ") => self.list(indent, depth),
            () if key_of(line.text).is_some() => self.map(indent, depth),
            () => {
                self.at += 1;
                Some(flow(self.lines[self.at - 1].text, 0))
            }
        }
    }

    fn list(&mut self, indent: usize, depth: usize) -> Option<Value> {
        let mut found = Vec::new();
        loop {
            self.skip();
            let Some(line) = self.lines.get(self.at).filter(|line| line.indent == indent) else { break };
            let Some(rest) =
                line.text.strip_prefix('-').filter(|rest| rest.is_empty() || rest.starts_with(' '))
            else {
                break;
            };
            let inner = rest.trim_start();
            if inner.is_empty() {
                self.at += 1;
                found.push(self.below(indent, depth)?);
            } else if key_of(inner).is_some() && !inner.starts_with(['{', '[', '"', '\'']) {
                // The first key of a map stands behind the dash.
                let at = line.indent + (line.text.len() - inner.len());
                self.lines[self.at].indent = at;
                self.lines[self.at].text = inner;
                found.push(self.map(at, depth + 1)?);
            } else {
                self.at += 1;
                found.push(self.scalar(inner, indent));
            }
        }
        Some(Value::List(found))
    }

    fn map(&mut self, indent: usize, depth: usize) -> Option<Value> {
        let mut found = Vec::new();
        loop {
            self.skip();
            let Some(line) = self.lines.get(self.at).filter(|line| line.indent == indent) else { break };
            let Some((key, rest)) = key_of(line.text) else { break };
            let key = unquoted(key).to_owned();
            self.at += 1;
            let value = match rest {
                "" => self.below(indent, depth)?,
                rest => self.scalar(rest, indent),
            };
            found.push((key, value));
        }
        match self.lines.get(self.at) {
            // A line that is deeper than it may be is none of ours.
            Some(line) if line.indent > indent && !line.text.is_empty() => None,
            Some(_) | None => Some(Value::Map(found)),
        }
    }

    /// What stands below a key or a dash: deeper, or a list at the same depth.
    fn below(&mut self, indent: usize, depth: usize) -> Option<Value> {
        self.skip();
        match self.lines.get(self.at) {
            Some(line) if line.indent > indent => {
                let inner = line.indent;
                self.value(inner, depth + 1)
            }
            Some(line) if line.indent == indent && (line.text == "-" || line.text.starts_with("- ")) => {
                self.list(indent, depth + 1)
            }
            Some(_) | None => Some(Value::Text(String::new())),
        }
    }

    /// A text on this line, and on those below it that are deeper.
    fn scalar(&mut self, text: &str, indent: usize) -> Value {
        let is_block = text.starts_with(['|', '>']) && text.len() <= 3;
        let mut more = Vec::new();
        while let Some(line) = self.lines.get(self.at) {
            let is_empty = line.raw.trim().is_empty();
            let depth = line.raw.len() - line.raw.trim_start_matches(' ').len();
            if !is_empty && depth <= indent {
                break;
            }
            if is_block || !is_empty {
                more.push(line.raw.trim());
            }
            self.at += 1;
        }
        match is_block {
            true => Value::Text(more.join("\n").trim().to_owned()),
            false if more.is_empty() => flow(text, 0),
            false => flow(&format!("{text} {}", more.join(" ")), 0),
        }
    }
}

/// The key and the rest of a line of a map.
fn key_of(text: &str) -> Option<(&str, &str)> {
    if text.starts_with(['[', '{', '&', '*', '!']) {
        return None;
    }
    let from = match text.chars().next().filter(|letter| matches!(letter, '"' | '\'')) {
        Some(quote) => text[1..].find(quote)? + 2,
        None => 0,
    };
    let at = text[from..]
        .find(": ")
        .map(|at| at + from)
        .or_else(|| text.ends_with(':').then_some(text.len() - 1))?;
    Some((&text[..at], text[at + 1..].trim()))
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote).and_then(|rest| rest.strip_suffix(*quote)))
        .unwrap_or(text)
}

/// A list or a map on one line, or a text.
fn flow(text: &str, depth: usize) -> Value {
    let text = text.trim();
    if depth > MAX_FLOW {
        return Value::Text(text.to_owned());
    }
    let inner = |open: char, close: char| text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    if let Some(inner) = inner('[', ']') {
        let parts = super::split(inner, ',').into_iter().filter(|one| !one.trim().is_empty());
        return Value::List(parts.map(|one| flow(one, depth + 1)).collect());
    }
    if let Some(inner) = inner('{', '}').filter(|_| !text.starts_with("{{")) {
        let parts = super::split(inner, ',').into_iter().filter_map(|one| one.split_once(':'));
        return Value::Map(
            parts.map(|(key, value)| (unquoted(key).to_owned(), flow(value, depth + 1))).collect(),
        );
    }
    Value::Text(unquoted(text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_is_read() {
        let text = "name: ci # of all\non:\n  push: { branches: [main, 'next'] }\n  pull_request:\njobs:\n  test:\n    \
            steps:\n      - uses: a@v1\n        with:\n          x: \"1: 2\"\n      - run: |\n          a\n\n          b # c\n    \
            env: {}\n";
        let found = read(text).unwrap();
        let branches = found.get("on").and_then(|on| on.get("push")).and_then(|push| push.get("branches"));
        assert_eq!(branches.map(Value::plain).as_deref(), Some("main, next"));
        let job = found.get("jobs").and_then(|jobs| jobs.get("test")).unwrap();
        let Some(Value::List(steps)) = job.get("steps") else { panic!("{job:?}") };
        assert_eq!(
            steps[0].get("with").and_then(|with| with.get("x")).map(Value::plain).as_deref(),
            Some("1: 2")
        );
        assert_eq!(steps[1].get("run").map(Value::plain).as_deref(), Some("a\n\nb # c"));
    }

    /// One line a case: a text, and how it is read.
    const TEXTS: &str = r#"
        a: 1\nb: x y           | Map([("a", Text("1")), ("b", Text("x y"))])
        a:\n- 1\n- 2           | Map([("a", List([Text("1"), Text("2")]))])
        a: [1, "b, c"]         | Map([("a", List([Text("1"), Text("b, c")]))])
        a: http://x#y          | Map([("a", Text("http://x#y"))])
        - a: 1\n  b: 2         | List([Map([("a", Text("1")), ("b", Text("2"))])])"#;

    #[test]
    fn small_texts_are_read() {
        for line in TEXTS.lines().filter(|line| !line.trim().is_empty()) {
            let (text, wanted) = line.split_once(" | ").unwrap();
            let found = read(&text.trim().replace("\\n", "\n"));
            assert_eq!(found.map(|one| format!("{one:?}")).as_deref(), Some(wanted.trim()), "{line}");
        }
        assert!(read("a:\n    b: 1\n  c: 2").is_none() && read("\t- a").is_none());
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "[a-z:\\-\\[\\]{}|>#'\" \n]{0,200}") {
            let _ = read(&text);
        }
    }
}
