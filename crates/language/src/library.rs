//! The library: all protocols that a program knows, read and checked together.
//!
//! A user's document replaces a built-in one of the same name; patterns and children are found by
//! name across documents. Loading never stops at the first error and never reads a file.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::build::build;
use crate::check::{self, Findings, Pasted, shown};
use crate::draw;
use crate::parse::parse;
use crate::paste::{Shelf, paste};
use crate::problem::{Problem, Severity};
use crate::source::{Origin, Source, Span, digest};
use ftl_core::catalogue::Catalogue;
use ftl_core::program::{BoardCode, Program, Programs};
use ftl_core::syntax::Document;
use ftl_core::value::Name;

/// The documents that are embedded in the program, by name.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("task", include_str!("../../../protocols/task.md")),
    ("campaign", include_str!("../../../protocols/campaign.md")),
    ("builder", include_str!("../../../protocols/builder.md")),
    ("coder", include_str!("../../../protocols/coder.md")),
    ("lifecycle", include_str!("../../../protocols/lifecycle.md")),
];

/// The programs of earlier versions whose texts have changed since, the newest version first. A document that is not
/// named was the one of the version above. An instance that rests in a state of one of them finishes that state by it.
pub const EARLIER: &[(&str, &[(&str, &str)])] = &[
    (
        "b9b0e92",
        &[
            ("task", include_str!("../../../protocols/earlier/b9b0e92/task.md")),
            ("builder", include_str!("../../../protocols/earlier/b9b0e92/builder.md")),
        ],
    ),
    (
        "9a819a5",
        &[
            ("task", include_str!("../../../protocols/earlier/9a819a5/task.md")),
            ("campaign", include_str!("../../../protocols/earlier/9a819a5/campaign.md")),
            ("builder", include_str!("../../../protocols/earlier/9a819a5/builder.md")),
        ],
    ),
];

/// A protocol of the library.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// Its name.
    pub name: Name,
    /// Its document, by its place in the library.
    pub file: u32,
    /// Where its document came from.
    pub origin: Origin,
    /// The digest of its document.
    pub digest: String,
    /// What the checker found out about it.
    pub findings: Findings,
    /// The program, if the document is sound.
    pub program: Option<Arc<Program>>,
    /// Its states in order.
    pub states: Vec<Name>,
    /// How its runs are drawn; nothing where they have no board.
    pub board: Option<BoardCode>,
    /// The state in which its runs ask how their work is delivered.
    pub delivery: Option<Name>,
}

/// All protocols that a program knows.
#[derive(Clone, Debug)]
pub struct Library {
    sources: Vec<Source>,
    protocols: BTreeMap<Name, Protocol>,
    /// Documents that define no protocol of their own, with what is wrong with them.
    strays: Vec<(u32, Vec<Problem>)>,
    catalogue: Catalogue,
    /// The built-in documents of today and of earlier versions, read when an instance rests in a text of one of them.
    versions: OnceLock<Vec<Library>>,
}

impl Library {
    /// The built-in protocols.
    pub fn built_in() -> Library {
        Library::load(built_in_sources(), Catalogue::standard())
    }

    /// Reads and checks documents together; a later one replaces an earlier one of the same name
    /// from another origin.
    pub fn load(sources: Vec<Source>, catalogue: &Catalogue) -> Library {
        let mut shelf = Reading::default();
        for (file, source) in sources.iter().enumerate() {
            shelf.read(file as u32, source, &sources);
        }
        let mut library = Library {
            sources,
            protocols: BTreeMap::new(),
            strays: shelf.strays,
            catalogue: catalogue.clone(),
            versions: OnceLock::new(),
        };
        library.check(&shelf.documents);
        library
    }

    fn check(&mut self, documents: &BTreeMap<Name, Read>) {
        let shelf: Shelf<'_> = documents.iter().map(|(name, read)| (name.clone(), &read.document)).collect();
        let mut pasted = BTreeMap::new();
        let mut problems: BTreeMap<Name, Vec<Problem>> = BTreeMap::new();
        for (name, read) in documents {
            let (states, mut found) = paste(&read.document, &shelf);
            found.extend(read.problems.iter().cloned());
            problems.insert(name.clone(), found);
            pasted.insert(name.clone(), Pasted { document: read.document.clone(), states });
        }
        let mut all = check::check_all(&pasted, &self.catalogue);
        for (name, read) in documents {
            let mut findings = all.remove(name).unwrap_or_default();
            findings.problems.extend(problems.remove(name).unwrap_or_default());
            let protocol = self.protocol(name, read, &pasted[name], findings);
            self.protocols.insert(name.clone(), protocol);
        }
    }

    fn protocol(&self, name: &Name, read: &Read, pasted: &Pasted, mut findings: Findings) -> Protocol {
        let file = read.file;
        let source = &self.sources[file as usize];
        let machine = machine(name, pasted, &findings);
        if !pasted.document.broken {
            findings.problems.extend(drawings(file, source, &machine));
        }
        findings.problems.sort_by_key(|problem| (problem.span.file, problem.span.start, problem.code));
        findings.problems.dedup();
        let digest = digest(&source.text);
        let program =
            findings.is_sound().then(|| Arc::new(build(pasted, &findings, &digest, &self.catalogue)));
        Protocol {
            name: name.clone(),
            file,
            origin: source.origin,
            digest,
            states: pasted.states.iter().map(|state| state.name.name.clone()).collect(),
            findings,
            program,
            board: shown::board_of(pasted, read.replaced.as_ref()),
            delivery: shown::delivery_of(pasted, read.replaced.as_ref()),
        }
    }

    /// The documents, in the order in which spans name them.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The catalogue that the documents were checked against.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The protocol of that name.
    pub fn get(&self, name: &str) -> Option<&Protocol> {
        self.protocols.get(name)
    }

    /// All protocols, by name.
    pub fn protocols(&self) -> impl Iterator<Item = &Protocol> {
        self.protocols.values()
    }

    /// Documents that define no protocol, with what is wrong with them.
    pub fn strays(&self) -> &[(u32, Vec<Problem>)] {
        &self.strays
    }

    /// The program of a sound protocol.
    pub fn program(&self, name: &str) -> Option<&Arc<Program>> {
        self.protocols.get(name).and_then(|protocol| protocol.program.as_ref())
    }

    /// The program by which an instance goes on that rests in a state: today's, or where the state was entered in an
    /// earlier version of a built-in document, that one. A state that a person has changed is always today's.
    pub fn program_of(&self, protocol: &str, state: &str, code: &str) -> Option<&Arc<Program>> {
        let code_in = |program: &Arc<Program>| program.state(state).map(|state| state.code.clone());
        let today = self.program(protocol)?;
        let now = code_in(today);
        if now.as_deref() == Some(code) {
            return Some(today);
        }
        let versions = self.versions.get_or_init(|| versions(&self.catalogue));
        let mut known = versions.iter().filter_map(|library| library.program(protocol));
        if known.next().is_none_or(|built_in| code_in(built_in) != now) {
            return Some(today);
        }
        known.find(|program| code_in(program).as_deref() == Some(code)).or(Some(today))
    }

    /// The states in which runs ask how their work is delivered, as policies name them: `task.COMPLETE`.
    pub fn deliveries(&self) -> impl Iterator<Item = String> {
        let named = |one: &Protocol| one.delivery.as_ref().map(|state| format!("{}.{state}", one.name));
        self.protocols.values().filter_map(named)
    }

    /// Whether every document is sound.
    pub fn is_sound(&self) -> bool {
        let error = |problem: &Problem| problem.severity == Severity::Error;
        self.protocols.values().all(|protocol| protocol.findings.is_sound())
            && !self.strays.iter().any(|(_, problems)| problems.iter().any(error))
    }

    /// The drawing of a protocol's machine.
    pub fn machine(&self, name: &str) -> Option<draw::Machine> {
        let protocol = self.protocols.get(name)?;
        Some(machine_of(&protocol.name, &protocol.states, &protocol.findings))
    }
}

impl Programs for Library {
    fn program(&self, protocol: &str) -> Option<&Arc<Program>> {
        self.program(protocol)
    }

    fn program_of(&self, protocol: &str, state: &str, code: &str) -> Option<&Arc<Program>> {
        self.program_of(protocol, state, code)
    }

    fn catalogue(&self) -> &Catalogue {
        self.catalogue()
    }

    fn board(&self, protocol: &str) -> Option<&BoardCode> {
        self.get(protocol)?.board.as_ref()
    }

    fn delivery(&self, protocol: &str) -> Option<&Name> {
        self.get(protocol)?.delivery.as_ref()
    }
}

/// The built-in documents.
pub fn built_in_sources() -> Vec<Source> {
    BUILT_IN
        .iter()
        .map(|(name, text)| Source::new(format!("protocols/{name}.md"), Origin::BuiltIn, text))
        .collect()
}

/// The built-in documents of today, and those of each earlier version, the newest first.
fn versions(catalogue: &Catalogue) -> Vec<Library> {
    let mut texts: BTreeMap<&str, &str> = BUILT_IN.iter().copied().collect();
    let mut libraries = vec![Library::load(built_in_sources(), catalogue)];
    for (_, changed) in EARLIER {
        texts.extend(changed.iter().copied());
        let sources = texts
            .iter()
            .map(|(name, text)| Source::new(format!("protocols/{name}.md"), Origin::BuiltIn, *text));
        libraries.push(Library::load(sources.collect(), catalogue));
    }
    libraries
}

struct Read {
    file: u32,
    document: Document,
    problems: Vec<Problem>,
    /// The document of another origin that it replaces.
    replaced: Option<Document>,
}

impl Read {
    /// The document for one that replaces it, with the headers that it has itself kept of one before.
    fn into_replaced(self) -> Document {
        let mut document = self.document;
        if let Some(before) = self.replaced {
            document.board = document.board.or(before.board);
            document.delivery = document.delivery.or(before.delivery);
        }
        document
    }
}

#[derive(Default)]
struct Reading {
    documents: BTreeMap<Name, Read>,
    strays: Vec<(u32, Vec<Problem>)>,
}

impl Reading {
    fn read(&mut self, file: u32, source: &Source, sources: &[Source]) {
        let (document, mut problems) = parse(file, source);
        let Some(ident) = document.name.clone() else {
            self.strays.push((file, problems));
            return;
        };
        let name = ident.name.clone();
        if source.origin != Origin::File && *source.stem() != *name {
            let message = format!("the file is called `{}` and defines the protocol `{name}`", source.stem());
            problems.push(
                Problem::error("name", ident.span, message)
                    .hint("a protocol's file carries the protocol's name"),
            );
        }
        if let Some(other) = self.documents.get(&name) {
            let first = &sources[other.file as usize];
            if first.origin == source.origin {
                let message = format!("`{name}` is already defined by {}", first.path);
                problems.push(Problem::error("double-name", ident.span, message));
                self.strays.push((file, problems));
                return;
            }
        }
        let replaced = self.documents.remove(&name).map(Read::into_replaced);
        self.documents.insert(name, Read { file, document, problems, replaced });
    }
}

fn machine(name: &Name, pasted: &Pasted, findings: &Findings) -> draw::Machine {
    let states: Vec<Name> = pasted.states.iter().map(|state| state.name.name.clone()).collect();
    machine_of(name, &states, findings)
}

fn machine_of(name: &Name, states: &[Name], findings: &Findings) -> draw::Machine {
    let holds = |state: &Name| findings.states.get(state).is_some_and(|facts| !facts.holds.is_empty());
    draw::Machine {
        name: name.to_string(),
        states: states
            .iter()
            .map(|state| draw::Shape {
                name: state.to_string(),
                last: findings.last.contains(state),
                can_hold: holds(state),
            })
            .collect(),
        edges: findings
            .edges
            .iter()
            .map(|edge| draw::Arrow {
                from: edge.from.to_string(),
                to: edge.to.to_string(),
                label: edge.label.clone(),
            })
            .collect(),
    }
}

/// Every drawing in the document has exactly the edges of the program.
fn drawings(file: u32, source: &Source, machine: &draw::Machine) -> Vec<Problem> {
    let mut problems = Vec::new();
    for drawing in draw::read(&source.text) {
        for difference in draw::compare(&drawing, machine) {
            let span = Span { file, start: difference.span.start as u32, end: difference.span.end as u32 };
            problems.push(Problem::error("drawing", span, difference.message).hint(format!(
                "`ftl draw {} --write` brings the drawings of a document up to date",
                machine.name
            )));
        }
    }
    problems
}
