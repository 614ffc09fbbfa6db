//! What is likely to change: files whose symbols, names or text have the words of the objective.
//!
//! A word in the name of a symbol counts most, one in the name of the file less, one in the text least; tests
//! come after the code that they are about.

use std::collections::BTreeSet;

use super::structure::{language, test_pattern};
use super::survey::{Survey, SurveyedFile};
use super::words::{self, Term, hits};
use ftl_code::context::{Symbol, symbols};
use ftl_core::json::{Json, JsonExt as _};

/// How many files are named.
pub const MAX_CANDIDATES: usize = 20;

/// How many symbols of a file are named.
pub const MAX_FUNCTIONS: usize = 10;

/// Endings of files that are text but no program, and change with programs.
const TEXTS: [&str; 12] =
    ["md", "toml", "json", "yml", "yaml", "html", "css", "scss", "ini", "cfg", "txt", "proto"];

/// How near a file is to the objective; nearer ones are smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Relevance {
    /// A symbol has one of the words.
    High,
    /// The name of the file has one.
    Medium,
    /// Its text has one.
    Low,
}

impl Relevance {
    const fn word(self) -> &'static str {
        match self {
            Relevance::High => "high",
            Relevance::Medium => "medium",
            Relevance::Low => "low",
        }
    }

    /// How sure it is that such a file will change.
    const fn confidence(self) -> f64 {
        match self {
            Relevance::High => 0.7,
            Relevance::Medium => 0.5,
            Relevance::Low => 0.3,
        }
    }
}

/// A file that may change.
pub(super) struct Candidate {
    pub(super) path: String,
    pub(super) relevance: Relevance,
    pub(super) functions: Vec<Symbol>,
    lines: usize,
    words: usize,
    is_test: bool,
}

pub(super) fn look(survey: &Survey<'_>, objective: &str) -> Json {
    let terms = words::terms(objective);
    let ranked = ranked(survey, &terms);
    let confidence = ranked.first().map_or(0.0, |best| best.relevance.confidence());
    let rows = ranked.iter().take(MAX_CANDIDATES).map(|one| {
        let mut row = Json::object([
            ("path", Json::from(one.path.as_str())),
            ("relevance", Json::from(one.relevance.word())),
            ("lines", Json::from(one.lines)),
        ]);
        row.put("functions", functions(&one.functions));
        row
    });
    let rows = Json::Array(rows.collect());
    Json::object([
        ("search_terms", Json::list(terms.iter().map(|term| term.word.as_str()))),
        ("candidates", rows),
        ("confidence", Json::from(confidence)),
    ])
}

/// Symbols as `[{name, line}]`.
pub(super) fn functions(symbols: &[Symbol]) -> Json {
    let row = |one: &Symbol| {
        Json::object([("name", Json::from(one.name.as_str())), ("line", Json::from(one.line))])
    };
    Json::Array(symbols.iter().map(row).collect())
}

/// Every file that has one of the terms, the nearest first.
pub(super) fn ranked(survey: &Survey<'_>, terms: &[Term]) -> Vec<Candidate> {
    if terms.is_empty() {
        return Vec::new();
    }
    let mut files: Vec<&SurveyedFile> = survey.files().iter().filter(|file| is_text(&file.path)).collect();
    // Where not everything can be read, what is named like the objective is read first, then programs.
    files.sort_by_key(|file| (hits(&file.path, terms).is_empty(), language(&file.path).is_none()));
    let mut all: Vec<Candidate> =
        files.into_iter().filter_map(|file| candidate(survey, file, terms)).collect();
    all.sort_by(|one, other| {
        let key = |it: &Candidate| (it.relevance, it.is_test, std::cmp::Reverse(it.words));
        key(one).cmp(&key(other)).then_with(|| one.path.cmp(&other.path))
    });
    all
}

fn is_text(path: &str) -> bool {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    language(path).is_some() || TEXTS.contains(&ending)
}

fn candidate(survey: &Survey<'_>, file: &SurveyedFile, terms: &[Term]) -> Option<Candidate> {
    let named = hits(&file.path, terms);
    let bytes = survey.read(file);
    if bytes.is_none() && named.is_empty() {
        return None;
    }
    let bytes = bytes.unwrap_or_default();
    let mut words: BTreeSet<&str> = named.clone();
    let mut functions = Vec::new();
    for symbol in symbols(&file.path, &bytes) {
        let found = hits(&symbol.name, terms);
        if !found.is_empty() {
            words.extend(found);
            functions.push(symbol);
        }
    }
    let text = String::from_utf8_lossy(&bytes).to_lowercase();
    let said = terms.iter().any(|term| text.contains(&term.stem));
    let relevance = match (functions.is_empty(), named.is_empty(), said) {
        (false, _, _) => Relevance::High,
        (true, false, _) => Relevance::Medium,
        (true, true, true) => Relevance::Low,
        (true, true, false) => return None,
    };
    functions.truncate(MAX_FUNCTIONS);
    Some(Candidate {
        path: file.path.clone(),
        relevance,
        functions,
        lines: text.lines().count(),
        words: words.len(),
        is_test: test_pattern(&file.path).is_some(),
    })
}
