//! How things are done here: the framework with its idioms, how code is written, what looks alike.
//!
//! A habit is told only where most of what was read has it; what cannot be read off is left out.

use super::delta;
use super::structure::{language, test_pattern};
use super::survey::{Survey, SurveyedFile};
use super::words;
use ftl_code::context::symbols;
use ftl_code::framework;
use ftl_core::json::{Json, JsonExt as _};

/// How many sections of the README are named.
pub const MAX_SECTIONS: usize = 30;

/// How many files that look alike are named.
pub const MAX_SIMILAR_FILES: usize = 5;

/// How many files are read to see how code is written.
const MAX_SAMPLED: usize = 60;

/// Documented definitions beyond this share are a habit.
const THOROUGH: f64 = 0.6;

pub(super) fn look(survey: &Survey<'_>, objective: &str) -> Json {
    let found = framework::detect(survey.root());
    let mut json = Json::object([
        ("framework", Json::from(found.framework)),
        ("confidence", Json::from(found.confidence)),
        ("source", Json::from(found.source.as_str())),
        ("idioms", framework::idioms(found.framework).to_json()),
        ("style", style(survey)),
    ]);
    json.put("readme_sections", Json::list(sections(survey)));
    json.put("similar", similar(survey, objective));
    json
}

/// Code that has the objective's words among its names.
fn similar(survey: &Survey<'_>, objective: &str) -> Json {
    let terms = words::terms(objective);
    let ranked = delta::ranked(survey, &terms);
    let rows = ranked.iter().filter(|one| !one.functions.is_empty()).take(MAX_SIMILAR_FILES).map(|one| {
        Json::object([("path", Json::from(one.path.as_str())), ("symbols", delta::functions(&one.functions))])
    });
    Json::Array(rows.collect())
}

/// What was counted in the files that were read.
#[derive(Default)]
struct Counts {
    definitions: usize,
    documented: usize,
    hinted: usize,
    snake: usize,
    camel: usize,
}

fn style(survey: &Survey<'_>) -> Json {
    let is_code = |file: &&SurveyedFile| language(&file.path).is_some() && test_pattern(&file.path).is_none();
    let mut counts = Counts::default();
    for file in survey.files().iter().filter(is_code).take(MAX_SAMPLED) {
        let Some(bytes) = survey.read(file) else { continue };
        counts.add(&file.path, &bytes);
    }
    let mut json = Json::object([("docstrings", Json::from(counts.docstrings()))]);
    if counts.definitions > 0 {
        json.put("type_hints", counts.hinted * 2 > counts.definitions);
    }
    if let Some(naming) = counts.naming() {
        json.put("naming", naming);
    }
    if let Some(tests) = where_tests_are(survey) {
        json.put("tests", tests);
    }
    json
}

impl Counts {
    fn add(&mut self, path: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let lines: Vec<&str> = text.lines().collect();
        let language = language(path).unwrap_or_default();
        for symbol in symbols(path, bytes) {
            let Some(line) = lines.get(symbol.line - 1) else { continue };
            let Some(kind) = definition(language, line) else { continue };
            self.definitions += 1;
            self.documented += usize::from(is_documented(language, &lines, symbol.line - 1));
            self.hinted += usize::from(is_hinted(language, line));
            if kind == Kind::Function {
                let name = symbol.name.trim_matches('_');
                self.snake += usize::from(name.contains('_') && name == name.to_lowercase());
                let first = name.chars().next().is_some_and(char::is_lowercase);
                self.camel += usize::from(first && name.chars().any(char::is_uppercase));
            }
        }
    }

    fn docstrings(&self) -> &'static str {
        match self.documented {
            0 => "none",
            some if some as f64 >= THOROUGH * self.definitions as f64 => "thorough",
            _ => "sparse",
        }
    }

    fn naming(&self) -> Option<&'static str> {
        match (self.snake, self.camel) {
            (snake, camel) if snake > camel => Some("snake_case"),
            (snake, camel) if camel > snake => Some("camelCase"),
            (_, _) => None,
        }
    }
}

/// The kind of thing that a line defines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Function,
    Type,
}

/// What a line defines, where the definition is one that people document.
fn definition(language: &str, line: &str) -> Option<Kind> {
    let line = line.trim_start();
    let has = |word: &str| line.split(|letter: char| !letter.is_alphanumeric()).any(|one| one == word);
    let (functions, types): (&[&str], &[&str]) = match language {
        "python" => (&["def"], &["class"]),
        "rust" if line.starts_with("pub") => (&["fn"], &["struct", "enum", "trait"]),
        "go" => (&["func"], &["type"]),
        "typescript" | "javascript" => (&["function"], &["class", "interface"]),
        _ => return None,
    };
    if functions.iter().any(|word| has(word)) {
        return Some(Kind::Function);
    }
    types.iter().any(|word| has(word)).then_some(Kind::Type)
}

/// Whether what a line defines has a comment of its own.
fn is_documented(language: &str, lines: &[&str], at: usize) -> bool {
    if language == "python" {
        let body = lines[at..].iter().position(|line| line.trim_end().ends_with(':'));
        let first = body.and_then(|body| lines.get(at + body + 1)).map(|line| line.trim_start());
        return first
            .is_some_and(|line| ["\"\"\"", "'''", "r\"\"\""].iter().any(|one| line.starts_with(one)));
    }
    let above = lines[..at].iter().rev().map(|line| line.trim_start());
    let mut above = above.skip_while(|line| line.starts_with("#[") || line.starts_with('@'));
    let line = above.next().unwrap_or_default();
    match language {
        "rust" => line.starts_with("///"),
        "go" => line.starts_with("//"),
        _ => line.ends_with("*/"),
    }
}

/// Whether what a line defines says its types.
fn is_hinted(language: &str, line: &str) -> bool {
    match language {
        "python" => {
            let inner = line.split_once('(').map_or("", |(_, inner)| inner);
            line.contains("->") || inner.rsplit_once(')').map_or(inner, |(inner, _)| inner).contains(':')
        }
        "javascript" => false,
        _ => true,
    }
}

/// Where most tests stand: in a folder of their own or beside the code.
fn where_tests_are(survey: &Survey<'_>) -> Option<&'static str> {
    let tests: Vec<String> = survey.files().iter().filter_map(|file| test_pattern(&file.path)).collect();
    let apart = tests.iter().filter(|pattern| pattern.contains('/')).count();
    if tests.is_empty() { None } else { Some(if apart * 2 > tests.len() { "apart" } else { "beside" }) }
}

/// The headings of the README below its title.
fn sections(survey: &Survey<'_>) -> Vec<String> {
    let is_readme = |file: &&SurveyedFile| file.path.eq_ignore_ascii_case("readme.md");
    let Some(bytes) = survey.files().iter().find(is_readme).and_then(|file| survey.read(file)) else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut is_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let heading = line.strip_prefix("## ").or_else(|| line.strip_prefix("### "));
        found.extend(heading.filter(|_| !is_code).map(|heading| heading.trim().to_owned()));
    }
    found.truncate(MAX_SECTIONS);
    found
}
