//! `ftl check`: what is proven about protocols, and what is wrong with them.

use ftl_command::protocol_loader::{LoadedProtocols, LoadedTarget, Unreadable, is_built_in};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, out};
use ftl_core::value::Name;
use ftl_language::check::VERDICTS;
use ftl_language::library::Protocol;
use ftl_language::problem::Problem;
use ftl_language::source::DocumentOrigin;
use ftl_view::paint::{self, paint, safe};

use crate::checker_report::{
    self, CheckFacts, GateFact, HoldFact, LoopFact, PersonFact, ProblemFact, ProtocolFacts,
};
use crate::cli::Check;
use crate::problems;

/// How wide the words at the left are.
const LABEL: usize = 12;

/// Checks what was asked for, and says so.
pub(crate) fn run(cli: &GlobalArgs, asked: &Check, out: &Out) -> Result<ExitStatus, CommandError> {
    let (loaded, found) = LoadedProtocols::with(cli, &asked.what)?;
    let subject = if asked.what.is_empty() { Subject::all(&loaded) } else { Subject::of(&loaded, found) };
    for unreadable in subject.passed_over(&loaded) {
        out.warning(&unreadable.failure);
    }
    if out.is_json() {
        subject.say_json(out)?;
    } else {
        subject.say(asked.quiet, out)?;
    }
    Ok(if subject.is_sound() { ExitStatus::Done } else { ExitStatus::Error })
}

/// The document that a check is about.
struct Subject<'a> {
    loaded: &'a LoadedProtocols,
    protocols: Vec<&'a Protocol>,
    /// Documents that define no protocol.
    strays: Vec<&'a (u32, Vec<Problem>)>,
    unreadable: Vec<Unreadable>,
}

impl<'a> Subject<'a> {
    fn all(loaded: &'a LoadedProtocols) -> Subject<'a> {
        Subject {
            loaded,
            protocols: loaded.library.protocols().collect(),
            strays: loaded.library.strays().iter().collect(),
            unreadable: loaded.left_out.clone(),
        }
    }

    /// Each thing once, in the order in which it was asked for.
    fn of(loaded: &'a LoadedProtocols, found: Vec<LoadedTarget>) -> Subject<'a> {
        let mut subject =
            Subject { loaded, protocols: Vec::new(), strays: Vec::new(), unreadable: Vec::new() };
        for one in found {
            match one {
                LoadedTarget::Protocol(name) => subject.add(&name),
                LoadedTarget::OrphanDocument(file) => {
                    let strays = loaded.library.strays().iter().filter(|(stray, _)| *stray == file);
                    let new = strays.filter(|one| !subject.strays.contains(one)).collect::<Vec<_>>();
                    subject.strays.extend(new);
                }
                LoadedTarget::Unreadable(unreadable) => subject.unreadable.push(unreadable),
            }
        }
        subject
    }

    fn add(&mut self, name: &str) {
        let known = self.protocols.iter().any(|protocol| &*protocol.name == name);
        if !known {
            self.protocols.extend(self.loaded.library.get(name));
        }
    }

    /// Documents that could not be read and are not what was asked for.
    fn passed_over(&self, loaded: &'a LoadedProtocols) -> impl Iterator<Item = &'a Unreadable> {
        loaded.left_out.iter().filter(|one| !self.unreadable.iter().any(|other| other.path == one.path))
    }

    fn problems(&self) -> impl Iterator<Item = &'a [Problem]> {
        let own = self.protocols.iter().map(|protocol| &protocol.findings.problems[..]);
        own.chain(self.strays.iter().map(|(_, problems)| &problems[..])).collect::<Vec<_>>().into_iter()
    }

    /// How many errors and warnings there are.
    fn count(&self) -> (usize, usize) {
        let sum = |(errors, warnings), (more, others)| (errors + more, warnings + others);
        self.problems().map(problems::count).fold((self.unreadable.len(), 0), sum)
    }

    fn is_sound(&self) -> bool {
        self.count().0 == 0
    }

    fn say_json(&self, out: &Out) -> Result<(), CommandError> {
        let library = &self.loaded.library;
        let protocols: Vec<_> = self.protocols.iter().map(|one| ProtocolFacts::of(library, one)).collect();
        let mut loose: Vec<ProblemFact> = self
            .strays
            .iter()
            .flat_map(|(_, problems)| checker_report::problems(library.sources(), problems))
            .collect();
        loose.extend(self.unreadable.iter().map(ProblemFact::unreadable));
        out.json(&CheckFacts { ok: self.is_sound(), protocols, problems: loose })
    }

    fn say(&self, quiet: bool, out: &Out) -> Result<(), CommandError> {
        let library = &self.loaded.library;
        let width = out::width();
        let mut text = String::new();
        for protocol in &self.protocols {
            if !quiet {
                text.push_str(&report(&ProtocolFacts::of(library, protocol), width));
            }
            text.push_str(&problems::render(&protocol.findings.problems, library.sources()));
        }
        for (_, stray) in &self.strays {
            text.push_str(&problems::render(stray, library.sources()));
        }
        out.text(&text)?;
        for unreadable in &self.unreadable {
            out.error(&unreadable.failure);
        }
        out.text(&self.last_line())
    }

    fn last_line(&self) -> String {
        let (errors, warnings) = self.count();
        let sound = self.protocols.iter().filter(|protocol| protocol.findings.is_sound()).count();
        let style = if errors == 0 { paint::GOOD } else { paint::ERROR };
        let checked = paint::count(self.protocols.len(), "protocol");
        let (errors, warnings) = (paint::count(errors, "error"), paint::count(warnings, "warning"));
        format!("{}\n", paint(style, format!("{checked} checked, {sound} sound; {errors}, {warnings}")))
    }
}

/// What is proven about one protocol, followed by an empty line.
fn report(facts: &ProtocolFacts, width: usize) -> String {
    let mut text = head(facts);
    let mut row = |label: &str, what: &str| {
        let label = paint::padded(&paint(paint::QUIET, label), LABEL);
        text.push_str(&format!("  {label}{}\n", paint::wrapped(what, LABEL + 2, LABEL + 2, width)));
    };
    if !facts.readable {
        row("proven", "nothing, as long as the program cannot be read");
        return text + "\n";
    }
    row("runs", &runs(facts));
    row("paths", &paths(facts));
    for (at, one) in facts.loops.iter().enumerate() {
        row(if at == 0 { "loops" } else { "" }, &bounded(one));
    }
    if facts.loops.is_empty() {
        row("loops", "none");
    }
    row("gates", &gates(facts));
    row("success", &success(facts));
    row("verdicts", &verdicts(facts));
    for (at, (why, places)) in hold_reasons(facts).into_iter().enumerate() {
        row(if at == 0 { "can hold" } else { "" }, &format!("if {why}: {}", places.join(paint::DOT)));
    }
    for (at, (what, places)) in people(facts).into_iter().enumerate() {
        row(if at == 0 { "people" } else { "" }, &format!("{what}: {}", places.join(paint::DOT)));
    }
    row("drawings", &drawings(facts));
    text + "\n"
}

fn head(facts: &ProtocolFacts) -> String {
    let (states, edges) =
        (paint::count(facts.states.len(), "state"), paint::count(facts.edges.len(), "edge"));
    let origin = match facts.origin {
        DocumentOrigin::BuiltIn => "built-in".to_owned(),
        DocumentOrigin::User | DocumentOrigin::File if is_built_in(&facts.name) => {
            format!("{}, replaces the built-in one", safe(&facts.path))
        }
        DocumentOrigin::User | DocumentOrigin::File => safe(&facts.path),
    };
    let (style, mark, word) = match facts.ok {
        true => (paint::GOOD, "✓", "sound"),
        false => (paint::ERROR, "✗", "not sound"),
    };
    let (mark, word) = (paint(style, mark), paint(style, word));
    let (name, origin) = (paint(paint::STRONG, &facts.name), paint(paint::QUIET, format!("({origin})")));
    let size = if facts.readable { format!(": {states}, {edges}") } else { String::new() };
    format!("{mark} {name} {origin} is {word}{size}\n")
}

fn runs(facts: &ProtocolFacts) -> String {
    let start = facts.start.as_deref().unwrap_or_default();
    let last: Vec<&str> = facts.last().map(|name| &**name).collect();
    match last.is_empty() {
        true => format!("from {start}; no state is final"),
        false => format!("from {start} to {}", last.join(" or ")),
    }
}

fn paths(facts: &ProtocolFacts) -> String {
    let reachable = fact(facts.all_reachable, "every state is reachable", "not every state is reachable");
    let ends = fact(facts.all_can_end, "every state can end", "not every state can end");
    format!("{reachable}, {ends}")
}

/// What is proven in plain text, what is not in red.
fn fact(proven: bool, yes: &str, no: &str) -> String {
    if proven { yes.to_owned() } else { paint(paint::ERROR, no) }
}

fn bounded(one: &LoopFact) -> String {
    let states = joined(&one.states);
    match one.bounded_by.is_empty() {
        true => format!("{states}: {}", paint(paint::ERROR, "bounded by nothing")),
        false => format!("{states}: bounded by {}", joined(&one.bounded_by)),
    }
}

fn gates(facts: &ProtocolFacts) -> String {
    if facts.gates.is_empty() {
        return "none are asked for".to_owned();
    }
    let one = |gate: &GateFact| {
        let names: Vec<&str> = gate.any_of.iter().map(|name| &**name).collect();
        format!("{} always before {}", names.join(" or "), gate.before)
    };
    facts.gates.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn success(facts: &ProtocolFacts) -> String {
    if !facts.verdicts.contains_key("complete") {
        return "never".to_owned();
    }
    if facts.ungated.is_empty() {
        return "only through a gate".to_owned();
    }
    format!("{} can be reached without any gate", joined(&facts.ungated))
}

/// The verdicts with the states that give them, success first.
fn verdicts(facts: &ProtocolFacts) -> String {
    let known = VERDICTS.iter().filter_map(|verdict| facts.verdicts.get_key_value(*verdict));
    let one = |(verdict, states): (&Name, &Vec<Name>)| format!("{verdict} from {}", joined(states));
    let all: Vec<String> = known.map(one).collect();
    if all.is_empty() { "none".to_owned() } else { all.join("; ") }
}

/// What is said about places, and the places.
type Said = (String, Vec<String>);

/// Where an instance can be held, by the reason: `VERIFY:12,14`. Where a person is waited for is
/// said with what the person is asked.
fn hold_reasons(facts: &ProtocolFacts) -> Vec<Said> {
    let mut states: Vec<(&str, String, Vec<usize>)> = Vec::new();
    for hold in facts.holds.iter().filter(|hold| !waits(facts, hold)) {
        let place = place(&hold.state, &hold.path, &facts.path);
        match states.iter_mut().find(|(why, known, _)| *why == hold.why && *known == place) {
            Some((.., lines)) => lines.push(hold.line),
            None => states.push((&hold.why, place, vec![hold.line])),
        }
    }
    let lines = |mut lines: Vec<usize>| {
        lines.sort_unstable();
        lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    };
    grouped(states.into_iter().map(|(why, place, at)| (safe(why), format!("{place}:{}", lines(at)))))
}

fn waits(facts: &ProtocolFacts, hold: &HoldFact) -> bool {
    let same = |one: &PersonFact| one.line == hold.line && one.state == hold.state && one.path == hold.path;
    facts.people.iter().any(same)
}

/// Where a person is waited for, by the kind of waiting: `planning:187 (plan, redo, next)`.
fn people(facts: &ProtocolFacts) -> Vec<Said> {
    let one = |person: &PersonFact| {
        let place = place(&person.state, &person.path, &facts.path);
        let (kind, what) = person.what.split_once(": ").unwrap_or((&person.what, ""));
        let what = if what.is_empty() { String::new() } else { format!(" ({})", safe(what)) };
        (safe(kind), format!("{place}:{}{what}", person.line))
    };
    grouped(facts.people.iter().map(one))
}

/// A state; with the name of the document if its lines stand in another one.
fn place(state: &str, path: &str, own: &str) -> String {
    if path == own { state.to_owned() } else { format!("{state}@{}", safe(file_name(path))) }
}

/// The places of each saying, in the order in which it first comes.
fn grouped(all: impl Iterator<Item = (String, String)>) -> Vec<Said> {
    let mut groups: Vec<Said> = Vec::new();
    for (said, place) in all {
        match groups.iter_mut().find(|(known, _)| *known == said) {
            Some((_, places)) => places.push(place),
            None => groups.push((said, vec![place])),
        }
    }
    groups
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn drawings(facts: &ProtocolFacts) -> String {
    if facts.drawings == 0 {
        return "none in the document".to_owned();
    }
    let kinds = [(facts.diagrams, "diagram"), (facts.tables, "table")];
    let kinds = kinds.iter().filter(|(number, _)| *number > 0);
    let kinds: Vec<String> = kinds.map(|(number, one)| paint::count(*number, one)).collect();
    let agrees = if facts.drawings == 1 { "agrees" } else { "agree" };
    match facts.wrong_drawings {
        0 => format!("{} {agrees} with the program", kinds.join(" and ")),
        wrong => paint(paint::ERROR, format!("{wrong} of {} differ from the program", facts.drawings)),
    }
}

fn joined<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> String {
    names.into_iter().map(|name| name.as_ref().to_owned()).collect::<Vec<_>>().join(", ")
}
