//! The library: all protocols that a program knows, read and checked together.
//!
//! A user's document replaces a built-in one of the same name; patterns and children are found by
//! name across documents. Nothing here stops at the first error or reads a file, and nothing is
//! read or checked before it is asked for.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::build::build;
use crate::check::graph::edges;
use crate::check::{self, CheckReport, Pasted, shown};
use crate::draw;
use crate::expand::{PatternSource, paste};
use crate::parse::parse;
use crate::problem::{Problem, ProblemSeverity};
use crate::source::{DocumentOrigin, SourceDocument, Span, digest};
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
    /// The protocol's name.
    pub name: Name,
    /// Its document, by its place in the library.
    pub file: u32,
    /// The file or the program that its document came from.
    pub origin: DocumentOrigin,
    /// The digest of its document.
    pub digest: String,
    /// What the checker found out about it.
    pub findings: CheckReport,
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
///
/// Nothing is read or checked before it is asked for. A protocol is checked together with all that it runs, never
/// with what runs it, so that what is found does not depend on what was asked for before.
#[derive(Clone, Debug)]
pub struct Library {
    sources: Vec<SourceDocument>,
    entries: BTreeMap<Name, Entry>,
    /// Documents that define no protocol of their own, with what is wrong with them.
    strays: Vec<(u32, Vec<Problem>)>,
    catalogue: &'static Catalogue,
    /// Whether the embedded documents are those that the tests of every build have proven, all of them.
    is_proven: bool,
    /// The built-in documents of today and of earlier versions, read when an instance rests in a text of one of them.
    versions: OnceLock<Vec<Library>>,
}

/// A protocol with what is known of it by now.
#[derive(Clone, Debug)]
struct Entry {
    file: u32,
    /// Whether its document is the embedded one of today.
    is_embedded: bool,
    read: OnceLock<Read>,
    program: OnceLock<Arc<Program>>,
    shown: OnceLock<Shown>,
    protocol: OnceLock<Protocol>,
    /// The document of another origin that its own replaces.
    replaced: Option<Arc<Document>>,
}

/// How runs of a protocol are drawn and delivered.
#[derive(Clone, Debug)]
struct Shown {
    board: Option<BoardCode>,
    delivery: Option<Name>,
}

/// A document as it was read.
#[derive(Clone, Debug)]
struct Read {
    document: Arc<Document>,
    problems: Vec<Problem>,
}

impl Library {
    /// The built-in protocols.
    pub fn built_in() -> Library {
        Library::load(built_in_sources(), Catalogue::standard())
    }

    /// The protocols of documents; a later one replaces an earlier one of the same name from another origin.
    pub fn load(sources: Vec<SourceDocument>, catalogue: &'static Catalogue) -> Library {
        let mut library = Library {
            sources,
            entries: BTreeMap::new(),
            strays: Vec::new(),
            catalogue,
            is_proven: false,
            versions: OnceLock::new(),
        };
        for file in 0..library.sources.len() {
            library.add(file);
        }
        let is_embedded =
            |(name, _): &(&str, &str)| library.entries.get(*name).is_some_and(|entry| entry.is_embedded);
        library.is_proven =
            std::ptr::eq(catalogue, Catalogue::standard()) && BUILT_IN.iter().all(is_embedded);
        library
    }

    /// Enters a document. An embedded one is not read for that: it defines the protocol of its name.
    fn add(&mut self, file: usize) {
        let source = &self.sources[file];
        let is_embedded = is_embedded(source) && !self.entries.contains_key(source.stem());
        let file = file as u32;
        let entry = Entry {
            file,
            is_embedded,
            read: OnceLock::new(),
            program: OnceLock::new(),
            shown: OnceLock::new(),
            protocol: OnceLock::new(),
            replaced: None,
        };
        if is_embedded {
            self.entries.insert(Name::from(source.stem()), entry);
            return;
        }
        let (document, mut problems) = parse(file, source);
        let Some(ident) = document.name.clone() else {
            self.strays.push((file, problems));
            return;
        };
        let name = ident.name.clone();
        if source.origin != DocumentOrigin::File && *source.stem() != *name {
            let message = format!("the file is called `{}` and defines the protocol `{name}`", source.stem());
            problems.push(
                Problem::error("name", ident.span, message)
                    .hint("a protocol's file carries the protocol's name"),
            );
        }
        if let Some(other) = self.entries.get(&name) {
            let first = &self.sources[other.file as usize];
            if first.origin == source.origin {
                let message = format!("`{name}` is already defined by {}", first.path);
                problems.push(Problem::error("double-name", ident.span, message));
                self.strays.push((file, problems));
                return;
            }
        }
        let replaced = self.entries.get(&name).map(|before| self.headers_kept(before));
        let read = OnceLock::from(Read { document: Arc::new(document), problems });
        self.entries.insert(name, Entry { read, replaced, ..entry });
    }

    /// The document of an entry for one that replaces it, with the headers that it has itself kept of one before.
    fn headers_kept(&self, entry: &Entry) -> Arc<Document> {
        let document = &self.read(entry).document;
        let Some(before) = &entry.replaced else { return document.clone() };
        let mut kept = Document::clone(document);
        kept.board = kept.board.or_else(|| before.board.clone());
        kept.delivery = kept.delivery.or_else(|| before.delivery.clone());
        Arc::new(kept)
    }

    /// How runs of a protocol are drawn and delivered. That needs its own document and no check.
    fn load_shown<'a>(&'a self, entry: &'a Entry) -> &'a Shown {
        entry.shown.get_or_init(|| {
            let document = self.read(entry).document.clone();
            let (states, _) = paste(&document, self);
            shown_of(&Pasted::new(document, states), entry)
        })
    }

    /// The document of an entry, read now if it was not.
    fn read<'a>(&'a self, entry: &'a Entry) -> &'a Read {
        entry.read.get_or_init(|| {
            let (document, problems) = parse(entry.file, &self.sources[entry.file as usize]);
            Read { document: Arc::new(document), problems }
        })
    }

    /// Checks protocols and all that they run.
    fn check<'a>(&'a self, names: impl IntoIterator<Item = &'a Name>) {
        let mut pasted = BTreeMap::new();
        let mut problems: BTreeMap<&Name, Vec<Problem>> = BTreeMap::new();
        let mut open: Vec<&Name> = names.into_iter().collect();
        while let Some(name) = open.pop() {
            let Some((name, entry)) = self.entries.get_key_value(name) else { continue };
            if problems.contains_key(name) {
                continue;
            }
            let read = self.read(entry);
            let (states, mut found) = paste(&read.document, self);
            found.extend(read.problems.iter().cloned());
            problems.insert(name, found);
            let one = Pasted::new(read.document.clone(), states);
            open.extend(
                one.runs.iter().filter_map(|run| self.entries.get_key_value(run)).map(|(run, _)| run),
            );
            pasted.insert(name.clone(), one);
        }
        let names: Vec<&Name> = self.entries.keys().collect();
        let mut all = check::check_all(&pasted, &names, self.catalogue);
        for (name, found) in problems {
            let (Some(entry), Some(pasted)) = (self.entries.get(name), pasted.get(name)) else { continue };
            let mut findings = all.remove(name).unwrap_or_default();
            findings.problems.extend(found);
            // Another thread that was first has found the same.
            let _ = entry.protocol.set(self.protocol(name, entry, pasted, findings));
        }
    }

    fn protocol(&self, name: &Name, entry: &Entry, pasted: &Pasted, mut findings: CheckReport) -> Protocol {
        let source = &self.sources[entry.file as usize];
        if !pasted.document.broken {
            findings.problems.extend(drawings(entry.file, source, &machine(name, pasted, &findings)));
        }
        findings.problems.sort_by_key(|problem| (problem.span.file, problem.span.start, problem.code));
        findings.problems.dedup();
        let digest = digest(&source.text);
        let build = || Arc::new(build(pasted, &findings.edges, &digest, self.catalogue));
        let program = findings.is_sound().then(|| entry.program.get_or_init(build).clone());
        let Shown { board, delivery } = entry.shown.get_or_init(|| shown_of(pasted, entry)).clone();
        Protocol {
            name: name.clone(),
            file: entry.file,
            origin: source.origin,
            digest,
            states: pasted.states.iter().map(|state| state.name.name.clone()).collect(),
            findings,
            program,
            board,
            delivery,
        }
    }

    /// The program of a document that was proven with all that it runs and pastes: the same that a check would let pass.
    fn proven<'a>(&'a self, entry: &'a Entry) -> &'a Arc<Program> {
        entry.program.get_or_init(|| {
            let document = self.read(entry).document.clone();
            let (states, _) = paste(&document, self);
            let pasted = Pasted::new(document, states);
            let _ = entry.shown.set(shown_of(&pasted, entry));
            let edges = edges(&pasted, &BTreeMap::new());
            Arc::new(build(&pasted, &edges, &digest(&self.sources[entry.file as usize].text), self.catalogue))
        })
    }

    /// The documents, in the order in which spans name them.
    pub fn sources(&self) -> &[SourceDocument] {
        &self.sources
    }

    /// The catalogue that the documents were checked against.
    pub fn catalogue(&self) -> &'static Catalogue {
        self.catalogue
    }

    /// The names of all protocols, and the place of the document of each. None is read for that.
    pub fn names(&self) -> impl Iterator<Item = (&Name, u32)> {
        self.entries.iter().map(|(name, entry)| (name, entry.file))
    }

    /// The protocol of that name, checked.
    pub fn get(&self, name: &str) -> Option<&Protocol> {
        let (name, entry) = self.entries.get_key_value(name)?;
        if entry.protocol.get().is_none() {
            self.check([name]);
        }
        entry.protocol.get()
    }

    /// All protocols, by name, checked.
    pub fn protocols(&self) -> impl Iterator<Item = &Protocol> {
        if self.entries.values().any(|entry| entry.protocol.get().is_none()) {
            self.check(self.entries.keys());
        }
        self.entries.values().filter_map(|entry| entry.protocol.get())
    }

    /// The states of a protocol in order, those of one that is not sound too.
    pub fn states(&self, name: &str) -> Option<Vec<Name>> {
        match self.entries.get(name)? {
            entry if self.is_proven && entry.is_embedded => {
                Some(self.proven(entry).states.iter().map(|state| state.name.clone()).collect())
            }
            _ => self.get(name).map(|protocol| protocol.states.clone()),
        }
    }

    /// The names of the protocols whose documents were read by now, and of those that were checked.
    pub fn looked_at(&self) -> (Vec<&str>, Vec<&str>) {
        let names = |of: fn(&Entry) -> bool| {
            self.entries.iter().filter(|(_, entry)| of(entry)).map(|(name, _)| &**name).collect::<Vec<_>>()
        };
        (names(|entry| entry.read.get().is_some()), names(|entry| entry.protocol.get().is_some()))
    }

    /// Documents that define no protocol, with what is wrong with them.
    pub fn strays(&self) -> &[(u32, Vec<Problem>)] {
        &self.strays
    }

    /// The program of a sound protocol. Embedded documents are proven by the tests of every build: while they all stand,
    /// none of them is checked once more before it runs.
    pub fn program(&self, name: &str) -> Option<&Arc<Program>> {
        match self.entries.get(name)? {
            entry if self.is_proven && entry.is_embedded => Some(self.proven(entry)),
            _ => self.get(name).and_then(|protocol| protocol.program.as_ref()),
        }
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
        let versions = self.versions.get_or_init(|| versions(self.catalogue));
        let mut known = versions.iter().filter_map(|library| library.program(protocol));
        if known.next().is_none_or(|built_in| code_in(built_in) != now) {
            return Some(today);
        }
        known.find(|program| code_in(program).as_deref() == Some(code)).or(Some(today))
    }

    /// The states in which runs ask how their work is delivered, as policies name them: `task.COMPLETE`.
    pub fn deliveries(&self) -> impl Iterator<Item = String> {
        let state_of = |entry| self.load_shown(entry).delivery.as_ref();
        self.entries.iter().filter_map(move |(name, entry)| Some(format!("{name}.{}", state_of(entry)?)))
    }

    /// Whether every document is sound.
    pub fn is_sound(&self) -> bool {
        let error = |problem: &Problem| problem.severity == ProblemSeverity::Error;
        self.protocols().all(|protocol| protocol.findings.is_sound())
            && !self.strays.iter().any(|(_, problems)| problems.iter().any(error))
    }

    /// The drawing of a protocol's machine.
    pub fn machine(&self, name: &str) -> Option<draw::Machine> {
        let protocol = self.get(name)?;
        Some(machine_of(&protocol.name, &protocol.states, &protocol.findings))
    }
}

impl PatternSource for Library {
    fn document(&self, protocol: &str) -> Option<&Document> {
        self.entries.get(protocol).map(|entry| &*self.read(entry).document)
    }

    fn names(&self) -> Vec<&Name> {
        self.entries.keys().collect()
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
        self.load_shown(self.entries.get(protocol)?).board.as_ref()
    }

    fn delivery(&self, protocol: &str) -> Option<&Name> {
        self.load_shown(self.entries.get(protocol)?).delivery.as_ref()
    }
}

/// The built-in documents.
pub fn built_in_sources() -> Vec<SourceDocument> {
    BUILT_IN
        .iter()
        .map(|(name, text)| {
            SourceDocument::new(format!("protocols/{name}.md"), DocumentOrigin::BuiltIn, text)
        })
        .collect()
}

/// The built-in documents of today, and those of each earlier version, the newest first.
fn versions(catalogue: &'static Catalogue) -> Vec<Library> {
    let mut texts: BTreeMap<&str, &str> = BUILT_IN.iter().copied().collect();
    let mut libraries = vec![Library::load(built_in_sources(), catalogue)];
    for (_, changed) in EARLIER {
        texts.extend(changed.iter().copied());
        let sources = texts.iter().map(|(name, text)| {
            SourceDocument::new(format!("protocols/{name}.md"), DocumentOrigin::BuiltIn, *text)
        });
        libraries.push(Library::load(sources.collect(), catalogue));
    }
    libraries
}

fn shown_of(pasted: &Pasted, entry: &Entry) -> Shown {
    let replaced = entry.replaced.as_deref();
    Shown { board: shown::board_of(pasted, replaced), delivery: shown::delivery_of(pasted, replaced) }
}

/// Whether a document is one that comes with the program, under its own name.
fn is_embedded(source: &SourceDocument) -> bool {
    let is_it = |(name, text): &(&str, &str)| *name == source.stem() && **text == *source.text;
    source.origin == DocumentOrigin::BuiltIn && BUILT_IN.iter().any(is_it)
}

fn machine(name: &Name, pasted: &Pasted, findings: &CheckReport) -> draw::Machine {
    let states: Vec<Name> = pasted.states.iter().map(|state| state.name.name.clone()).collect();
    machine_of(name, &states, findings)
}

fn machine_of(name: &Name, states: &[Name], findings: &CheckReport) -> draw::Machine {
    let holds = |state: &Name| findings.states.get(state).is_some_and(|facts| !facts.holds.is_empty());
    draw::Machine {
        name: name.to_string(),
        states: states
            .iter()
            .map(|state| draw::DrawnState {
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
fn drawings(file: u32, source: &SourceDocument, machine: &draw::Machine) -> Vec<Problem> {
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
