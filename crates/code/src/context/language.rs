//! The languages we read with real parsers, and whether a text is well formed in one of them.
//!
//! A parser gets a limit on what it is given and on how long it may think; beyond either we say that we do not know,
//! never that a text is fine.

use std::ops::ControlFlow;
use std::path::Path;

use ftl_core::json::{Json, JsonExt as _, NotJson};
use tree_sitter::{Node, ParseOptions, Parser, Tree};

/// How large a text may be to be parsed.
pub const MAX_PARSED_BYTES: usize = 1024 * 1024;

/// How many errors of one text are told.
pub const MAX_SYNTAX_ERRORS: usize = 20;

/// How often a parser may report progress before it is stopped: so often, and once more per some bytes.
const BASE_STEPS: usize = 20_000;
const BYTES_PER_STEP: usize = 4;

/// A language that we can parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// Python.
    Python,
    /// Rust.
    Rust,
    /// TypeScript.
    TypeScript,
    /// TypeScript with elements.
    Tsx,
    /// JavaScript, with or without elements.
    JavaScript,
    /// Go.
    Go,
}

impl Language {
    /// The language of a file, by its ending.
    pub fn of(path: &str) -> Option<Language> {
        let ending = Path::new(path).extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "py" | "pyi" => Some(Language::Python),
            "rs" => Some(Language::Rust),
            "ts" | "mts" | "cts" => Some(Language::TypeScript),
            "tsx" => Some(Language::Tsx),
            "js" | "jsx" | "mjs" | "cjs" => Some(Language::JavaScript),
            "go" => Some(Language::Go),
            _ => None,
        }
    }

    /// How a comment begins.
    pub fn comment(self) -> &'static str {
        match self {
            Language::Python => "#",
            Language::Rust | Language::TypeScript | Language::Tsx | Language::JavaScript | Language::Go => {
                "//"
            }
        }
    }

    fn grammar(self) -> tree_sitter::Language {
        match self {
            Language::Python => tree_sitter_python::LANGUAGE.into(),
            Language::Rust => tree_sitter_rust::LANGUAGE.into(),
            Language::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
            Language::Tsx => tree_sitter_typescript::LANGUAGE_TSX.into(),
            Language::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
            Language::Go => tree_sitter_go::LANGUAGE.into(),
        }
    }

    /// Parses a text; `None` where it is too large or takes too long.
    pub fn parse(self, text: &str) -> Option<Tree> {
        if text.len() > MAX_PARSED_BYTES {
            return None;
        }
        let mut parser = Parser::new();
        parser.set_language(&self.grammar()).ok()?;
        let mut steps = BASE_STEPS + text.len() / BYTES_PER_STEP;
        let mut progress = |_: &tree_sitter::ParseState| {
            steps = steps.saturating_sub(1);
            if steps == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut progress);
        let bytes = text.as_bytes();
        parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options))
    }
}

/// One place where a text is not well formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line, counted from one.
    pub line: usize,
    /// The byte in that line, counted from one.
    pub column: usize,
    /// The mistake in words.
    pub message: String,
}

/// What a look at the form of a text showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyntaxReport {
    /// Nothing is wrong with its form. That says nothing about its meaning.
    Clean,
    /// It is not well formed.
    Broken(Vec<SyntaxError>),
    /// The form was not checked; the reason, for people.
    NotChecked(String),
}

/// Looks whether a change broke the form of a file. Grammars lag behind languages: about one in a hundred valid Rust
/// files, mostly with unusual macros, is called broken. So a file that was called broken before says nothing after.
pub fn syntax_of_change(path: &str, before: Option<&str>, after: &str) -> SyntaxReport {
    let found = syntax_check(path, after);
    let doubtful =
        || before.is_some_and(|before| matches!(syntax_check(path, before), SyntaxReport::Broken(_)));
    match found {
        SyntaxReport::Broken(_) if doubtful() => {
            SyntaxReport::NotChecked(format!("{path} was not understood before the change either"))
        }
        SyntaxReport::Clean | SyntaxReport::Broken(_) | SyntaxReport::NotChecked(_) => found,
    }
}

/// Looks whether a text is well formed, by the ending of its path. This is a quick look and not a verdict: a gate asks
/// the language's own compiler where there is one, or uses [`syntax_of_change`].
pub fn syntax_check(path: &str, text: &str) -> SyntaxReport {
    let ending = Path::new(path).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match (Language::of(path), ending.to_ascii_lowercase().as_str()) {
        (Some(language), _) => match language.parse(text) {
            Some(tree) => report(errors(tree.root_node(), text)),
            None => SyntaxReport::NotChecked(format!("{path} is too large to be parsed")),
        },
        (None, "json") => report(json_error(text)),
        (None, "toml") => report(toml_error(text)),
        (None, _) => SyntaxReport::NotChecked(format!("no parser for {path}")),
    }
}

fn report(errors: Vec<SyntaxError>) -> SyntaxReport {
    if errors.is_empty() { SyntaxReport::Clean } else { SyntaxReport::Broken(errors) }
}

fn json_error(text: &str) -> Vec<SyntaxError> {
    let error = Json::parse(text).err();
    let told =
        |error: NotJson| SyntaxError { line: error.line, column: error.column, message: error.message };
    error.map(told).into_iter().collect()
}

fn toml_error(text: &str) -> Vec<SyntaxError> {
    let Err(error) = toml::from_str::<toml::Table>(text) else { return Vec::new() };
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = &text.as_bytes()[..at];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    vec![SyntaxError { line, column, message: error.message().to_owned() }]
}

/// The places a parser could not read, from the top; one that holds others is told once.
fn errors(root: Node<'_>, text: &str) -> Vec<SyntaxError> {
    let mut found = Vec::new();
    let mut cursor = root.walk();
    loop {
        let node = cursor.node();
        let is_told = node.is_error() || node.is_missing();
        if is_told {
            found.push(describe_error(node, text));
        }
        if found.len() == MAX_SYNTAX_ERRORS {
            return found;
        }
        if !is_told && node.has_error() && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return found;
            }
        }
    }
}

fn describe_error(node: Node<'_>, text: &str) -> SyntaxError {
    let at = node.start_position();
    let message = match node.is_missing() {
        true => format!("missing {:?}", node.kind()),
        false => {
            let words = text.get(node.byte_range()).unwrap_or_default();
            let start: String = words.lines().next().unwrap_or_default().chars().take(40).collect();
            format!("unexpected {start:?}")
        }
    };
    SyntaxError { line: at.row + 1, column: at.column + 1, message }
}
