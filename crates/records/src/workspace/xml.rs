//! The XML of workspaces: a small tree, written and read so that any byte survives.
//!
//! Text that XML 1.0 cannot hold (control characters, bytes that are no UTF-8) is written with `encoding="escaped"`: a
//! backslash as `\\`, each byte that cannot stand there as `\xNN`. Everything else is plain text, a carriage return as
//! `&#13;`. Reading refuses document types, namespaces, and anything too large, too deep or too wide.

use roxmltree::{Document, ParsingOptions};

use super::WorkspaceRefusal;

/// How large a workspace file may be.
pub const MAX_WORKSPACE_BYTES: usize = 16 * 1024 * 1024;

/// How deep elements may stand in each other.
pub const MAX_DEPTH: usize = 16;

/// How many attributes one element may have.
pub const MAX_ATTRIBUTES: usize = 32;

/// How many elements and texts a workspace may have.
pub const MAX_NODES: u32 = 100_000;

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
const ENCODING: &str = "encoding";
const ESCAPED: &str = "escaped";

/// An element of the document, with its children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) nodes: Vec<Node>,
}

/// A child of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Element(Element),
    Text(String),
}

impl Element {
    pub(super) fn new(name: &str) -> Element {
        Element { name: name.to_owned(), ..Element::default() }
    }

    /// An element that holds a text.
    pub(super) fn text(name: &str, text: &str) -> Element {
        Element::bytes(name, text.as_bytes())
    }

    /// An element that holds any bytes.
    pub(super) fn bytes(name: &str, bytes: &[u8]) -> Element {
        let mut element = Element::new(name);
        element.set_bytes(bytes);
        element
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Element {
        self.set(name, value);
        self
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        match self.attributes.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value.to_owned(),
            None => self.attributes.push((name.to_owned(), value.to_owned())),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn push(&mut self, child: Element) {
        self.nodes.push(Node::Element(child));
    }

    pub(super) fn set_bytes(&mut self, bytes: &[u8]) {
        self.attributes.retain(|(name, _)| name != ENCODING);
        let plain = std::str::from_utf8(bytes).ok().filter(|text| text.chars().all(is_allowed));
        let text = match plain {
            Some(text) => text.to_owned(),
            None => {
                self.set(ENCODING, ESCAPED);
                escape_bytes(bytes)
            }
        };
        self.nodes = if text.is_empty() { Vec::new() } else { vec![Node::Text(text)] };
    }

    pub(super) fn children(&self) -> impl Iterator<Item = &Element> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    pub(super) fn children_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children().filter(move |child| child.name == name)
    }

    pub(super) fn child(&self, name: &str) -> Option<&Element> {
        self.children().find(|child| child.name == name)
    }

    pub(super) fn child_mut(&mut self, name: &str) -> Option<&mut Element> {
        self.nodes.iter_mut().find_map(|node| match node {
            Node::Element(element) if element.name == name => Some(element),
            Node::Element(_) | Node::Text(_) => None,
        })
    }

    /// The bytes it holds, as they were put in.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let text: String = self
            .nodes
            .iter()
            .filter_map(|node| match node {
                Node::Text(text) => Some(text.as_str()),
                Node::Element(_) => None,
            })
            .collect();
        if self.get(ENCODING) == Some(ESCAPED) { unescape_bytes(&text) } else { text.into_bytes() }
    }

    /// The text it holds; what is no text is replaced.
    pub(super) fn to_text(&self) -> String {
        String::from_utf8(self.to_bytes())
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// The text of a child, empty where there is none.
    pub(super) fn text_of(&self, name: &str) -> String {
        self.child(name).map(Element::to_text).unwrap_or_default()
    }

    /// The whole document: the declaration, then everything on the next line.
    pub(super) fn write(&self) -> String {
        let mut out = String::from(DECLARATION);
        self.write_into(&mut out);
        out.push('\n');
        out
    }

    /// Elements we build or read are at most [`MAX_DEPTH`] deep, so calling itself is bounded.
    fn write_into(&self, out: &mut String) {
        out.push('<');
        out.push_str(&self.name);
        for (name, value) in &self.attributes {
            out.push(' ');
            out.push_str(name);
            out.push_str("=\"");
            write_escaped(out, value, true);
            out.push('"');
        }
        if self.nodes.is_empty() {
            out.push_str("/>");
            return;
        }
        out.push('>');
        for node in &self.nodes {
            match node {
                Node::Element(element) => element.write_into(out),
                Node::Text(text) => write_escaped(out, text, false),
            }
        }
        out.push_str("</");
        out.push_str(&self.name);
        out.push('>');
    }
}

/// Whether XML 1.0 can hold a letter at all.
fn is_allowed(letter: char) -> bool {
    matches!(letter, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}

fn write_escaped(out: &mut String, text: &str, is_attribute: bool) {
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' if is_attribute => out.push_str("&quot;"),
            '\r' => out.push_str("&#13;"),
            '\n' if is_attribute => out.push_str("&#10;"),
            '\t' if is_attribute => out.push_str("&#9;"),
            letter if is_allowed(letter) => out.push(letter),
            _ => out.push('\u{fffd}'),
        }
    }
}

fn escape_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 16);
    for part in bytes.utf8_chunks() {
        for letter in part.valid().chars() {
            match letter {
                '\\' => out.push_str("\\\\"),
                letter if is_allowed(letter) => out.push(letter),
                letter => letter.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_hex(&mut out, byte)),
            }
        }
        part.invalid().iter().for_each(|byte| push_hex(&mut out, *byte));
    }
    out
}

fn push_hex(out: &mut String, byte: u8) {
    out.push_str(&format!("\\x{byte:02x}"));
}

/// The other way round. A backslash that begins nothing we write stands for itself.
fn unescape_bytes(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let hex = bytes
            .get(at + 2..at + 4)
            .and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        match (byte, bytes.get(at + 1), hex) {
            (b'\\', Some(b'\\'), _) => {
                out.push(b'\\');
                at += 2;
            }
            (b'\\', Some(b'x'), Some(hex)) => {
                out.push(hex);
                at += 4;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    out
}

/// Reads a document into a tree.
pub(super) fn read(text: &str) -> Result<Element, WorkspaceRefusal> {
    within_limits(text)?;
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        WorkspaceRefusal::new(
            format!("not a workspace: {error}"),
            "make the workspace again with \"workspace create\"",
        )
    })?;
    Ok(tree(document.root_element()))
}

/// The depth was looked at before, so calling itself is bounded.
fn tree(node: roxmltree::Node<'_, '_>) -> Element {
    let attributes = node.attributes().map(|one| (one.name().to_owned(), one.value().to_owned())).collect();
    let mut element = Element { name: node.tag_name().name().to_owned(), attributes, nodes: Vec::new() };
    for child in node.children() {
        if child.is_element() {
            element.nodes.push(Node::Element(tree(child)));
        } else if let Some(text) = child.text().filter(|_| child.is_text()) {
            element.nodes.push(Node::Text(text.to_owned()));
        }
    }
    element
}

/// Looks at the tags alone, before a parser does: how large, how deep, how wide.
fn within_limits(text: &str) -> Result<(), WorkspaceRefusal> {
    let refused = |what: &str| {
        WorkspaceRefusal::new(
            format!("not a workspace: {what}"),
            "no workspace looks like this; make it again",
        )
    };
    if text.len() > MAX_WORKSPACE_BYTES {
        return Err(refused(&format!("it has {} bytes, the limit is {MAX_WORKSPACE_BYTES}", text.len())));
    }
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some(open) = rest.find('<') {
        rest = &rest[open..];
        let (tag, after) = next_tag(rest);
        rest = after;
        if tag.starts_with("<!DOCTYPE") {
            return Err(refused("it has a document type, which could hold entities"));
        }
        if tag.starts_with("<!") || tag.starts_with("<?") {
            continue;
        }
        if tag.contains("xmlns") && attributes(tag).any(|name| name.trim_start().starts_with("xmlns")) {
            return Err(refused("it has namespaces"));
        }
        if attributes(tag).nth(MAX_ATTRIBUTES).is_some() {
            return Err(refused(&format!("an element has more than {MAX_ATTRIBUTES} attributes")));
        }
        match (tag.starts_with("</"), tag.ends_with("/>")) {
            (true, _) => depth = depth.saturating_sub(1),
            (false, true) => {}
            (false, false) => depth += 1,
        }
        if depth > MAX_DEPTH {
            return Err(refused(&format!("elements stand more than {MAX_DEPTH} deep")));
        }
    }
    Ok(())
}

/// The tag at the start of a text and what follows it; comments and raw text count as one tag.
fn next_tag(text: &str) -> (&str, &str) {
    let ends = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
    let special = ends.iter().find(|(start, _)| text.starts_with(start)).map(|(_, end)| *end);
    let length = match special {
        Some(end) => text.find(end).map(|at| at + end.len()),
        None => tag_length(text),
    };
    text.split_at(length.unwrap_or(text.len()))
}

/// Where a tag ends: at the first `>` outside quotes.
fn tag_length(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at + 1),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            (None | Some(_), _) => {}
        }
    }
    None
}

/// What is before each `=` of a tag outside quotes.
fn attributes(tag: &str) -> impl Iterator<Item = &str> {
    let mut quote = None;
    let mut start = tag.find(char::is_whitespace).unwrap_or(tag.len());
    tag.bytes().enumerate().filter_map(move |(at, byte)| {
        match (quote, byte) {
            (None, b'=') => return tag.get(start..at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => {
                quote = None;
                start = at + 1;
            }
            (None | Some(_), _) => {}
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive() {
        let cases: [&[u8]; 12] = [
            b"",
            b" \n\t ",
            b"a\r\nb\rc",
            b"]]> <x> &amp; \" ' &#13;",
            b"\x00\x01\x0c\x1b",
            b"back\\slash \\x41 \\\\",
            b"back\\slash \\x41 \\\\ \x0c",
            b"\xff\xfe\x80",
            "é😀\u{fffd}\u{feff}\u{85}\u{2028}".as_bytes(),
            "\u{ffff}\u{fffe}".as_bytes(),
            b"\xed\xa0\x80",
            b"<!DOCTYPE x [<!ENTITY y \"z\">]>&y;",
        ];
        for bytes in cases {
            let mut root = Element::new("workspace").with("id", "a\tb\n\"<>&'");
            root.push(Element::bytes("content", bytes));
            let again = read(&root.write()).unwrap();
            assert_eq!(again.child("content").unwrap().to_bytes(), bytes, "{bytes:?}");
            assert_eq!(again, root, "{bytes:?}");
        }
    }

    #[test]
    fn random_bytes_survive() {
        let mut state = 11_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        let alphabet = b"\x00\x01\t\n\r\x0b\x0c\x1f \\x0aFf\"'&<>]]!-?=\x7f\xc2\x85\xef\xbf\xbe\xed\xa0\x80\xf0\x9f\x98\x80\xff";
        for _ in 0..3_000 {
            let bytes: Vec<u8> = (0..next() % 24).map(|_| alphabet[next() % alphabet.len()]).collect();
            let mut root = Element::new("workspace");
            root.push(Element::bytes("content", &bytes));
            root.push(Element::new("after"));
            let again = read(&root.write()).unwrap();
            assert_eq!(again.child("content").unwrap().to_bytes(), bytes);
            assert_eq!(again, root);
        }
    }

    #[test]
    fn hostile_documents_are_refused() {
        let laughs = "<?xml version=\"1.0\"?><!DOCTYPE lolz [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;\">]><workspace>&b;</workspace>";
        let outside = "<!DOCTYPE x [<!ENTITY f SYSTEM \"file:///etc/passwd\">]><workspace>&f;</workspace>";
        let deep = format!("{}{}", "<a>".repeat(100_000), "</a>".repeat(100_000));
        let wide =
            format!("<workspace {}/>", (0..200_000).map(|at| format!("a{at}=\"\" ")).collect::<String>());
        let many = format!("<workspace>{}</workspace>", "<a/>".repeat(MAX_NODES as usize + 1));
        let large = format!("<workspace>{}</workspace>", "x".repeat(MAX_WORKSPACE_BYTES));
        let cases = [
            (laughs.to_owned(), "document type"),
            (outside.to_owned(), "document type"),
            ("<workspace>&undeclared;</workspace>".to_owned(), "unknown entity"),
            (deep, "deep"),
            (wide, "attributes"),
            (many, "nodes limit"),
            (large, "the limit is"),
            ("<workspace xmlns=\"x\"/>".to_owned(), "namespaces"),
            ("<a:workspace xmlns:a='x'/>".to_owned(), "namespaces"),
            ("<workspace>".to_owned(), "not a workspace"),
            ("<workspace>\u{1}</workspace>".to_owned(), "not a workspace"),
            (String::new(), "not a workspace"),
            ("<".to_owned(), "not a workspace"),
            ("<!-- <a>".to_owned(), "not a workspace"),
        ];
        for (text, expected) in cases {
            let refusal = read(&text).unwrap_err();
            let start: String = text.chars().take(40).collect();
            assert!(refusal.message.contains(expected), "{start}: {refusal}");
            assert!(!refusal.hint.is_empty());
        }
        assert!(read("<workspace a=\"xmlns=\"><!-- <b><c> --><![CDATA[<d><e>]]></workspace>").is_ok());
    }

    #[test]
    fn mutated_documents_never_panic() {
        let mut root = Element::new("workspace").with("id", "001-a").with("status", "active");
        root.push(Element::bytes("content", b"a\x0c<b>&\\"));
        root.push(Element::text("delivered", "x"));
        let whole = root.write().into_bytes();
        let mut state = 5_u64;
        let mut below = |limit: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % limit
        };
        let mut well = 0;
        for _ in 0..5_000 {
            let mut bytes = whole.clone();
            for _ in 0..1 + below(3) {
                let at = below(bytes.len());
                bytes[at] = b"<>/=\"'&;!?-[] a\x00\xff"[below(17)];
            }
            well += usize::from(read(&String::from_utf8_lossy(&bytes)).is_ok());
        }
        assert!(well > 200, "{well}");
    }
}
