//! `ftl check`: what is proven about protocols, and what is wrong with them.

use ftl_core::language::check::VERDICTS;
use ftl_core::language::problem::Problem;
use ftl_core::language::source::Origin;
use ftl_core::library::Protocol;
use ftl_core::value::Name;

use crate::cli::{Check, Cli};
use crate::exit::Exit;
use crate::facts::{self, CheckFacts, GateFact, HoldFact, LoopFact, ProblemFact, ProtocolFacts};
use crate::failure::Failure;
use crate::out::{self, Out};
use crate::paint::{self, paint, safe};
use crate::problems;
use crate::shelf::{Found, Shelf, Unreadable, is_built_in};

/// How wide the words at the left are.
const LABEL: usize = 12;

/// Checks what was asked for, and says so.
pub(crate) fn run(cli: &Cli, asked: &Check, out: &Out) -> Result<Exit, Failure> {
    let (shelf, found) = Shelf::with(cli, &asked.what)?;
    let subject = if asked.what.is_empty() { Subject::all(&shelf) } else { Subject::of(&shelf, found) };
    for unreadable in subject.passed_over(&shelf) {
        out.warning(&unreadable.failure);
    }
    if out.is_json() {
        subject.say_json(out)?;
    } else {
        subject.say(asked.quiet, out)?;
    }
    Ok(if subject.is_sound() { Exit::Done } else { Exit::Error })
}

/// What a check is about.
struct Subject<'a> {
    shelf: &'a Shelf,
    protocols: Vec<&'a Protocol>,
    /// Documents that define no protocol.
    strays: Vec<&'a (u32, Vec<Problem>)>,
    unreadable: Vec<Unreadable>,
}

impl<'a> Subject<'a> {
    fn all(shelf: &'a Shelf) -> Subject<'a> {
        Subject {
            shelf,
            protocols: shelf.library.protocols().collect(),
            strays: shelf.library.strays().iter().collect(),
            unreadable: shelf.left_out.clone(),
        }
    }

    /// Each thing once, in the order in which it was asked for.
    fn of(shelf: &'a Shelf, found: Vec<Found>) -> Subject<'a> {
        let mut subject =
            Subject { shelf, protocols: Vec::new(), strays: Vec::new(), unreadable: Vec::new() };
        for one in found {
            match one {
                Found::Protocol(name) => subject.add(&name),
                Found::Stray(file) => {
                    let strays = shelf.library.strays().iter().filter(|(stray, _)| *stray == file);
                    let new = strays.filter(|one| !subject.strays.contains(one)).collect::<Vec<_>>();
                    subject.strays.extend(new);
                }
                Found::Unreadable(unreadable) => subject.unreadable.push(unreadable),
            }
        }
        subject
    }

    fn add(&mut self, name: &str) {
        let known = self.protocols.iter().any(|protocol| &*protocol.name == name);
        if !known {
            self.protocols.extend(self.shelf.library.get(name));
        }
    }

    /// Documents that could not be read and are not what was asked for.
    fn passed_over(&self, shelf: &'a Shelf) -> impl Iterator<Item = &'a Unreadable> {
        shelf.left_out.iter().filter(|one| !self.unreadable.iter().any(|other| other.path == one.path))
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

    fn say_json(&self, out: &Out) -> Result<(), Failure> {
        let library = &self.shelf.library;
        let protocols: Vec<_> = self.protocols.iter().map(|one| ProtocolFacts::of(library, one)).collect();
        let mut loose: Vec<ProblemFact> = self
            .strays
            .iter()
            .flat_map(|(_, problems)| facts::problems(library.sources(), problems))
            .collect();
        loose.extend(self.unreadable.iter().map(ProblemFact::unreadable));
        out.json(&CheckFacts { ok: self.is_sound(), protocols, problems: loose })
    }

    fn say(&self, quiet: bool, out: &Out) -> Result<(), Failure> {
        let library = &self.shelf.library;
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
    row("gates", &gates(facts));
    row("success", &success(facts));
    row("verdicts", &verdicts(facts));
    for (at, (why, places)) in held(&facts.holds, &facts.path).into_iter().enumerate() {
        row(if at == 0 { "can hold" } else { "" }, &format!("{why}: {}", places.join(" · ")));
    }
    for (at, (what, places)) in people(facts).into_iter().enumerate() {
        row(if at == 0 { "people" } else { "" }, &format!("{} {what}", places.join(" · ")));
    }
    row("drawings", &drawings(facts));
    text + "\n"
}

fn head(facts: &ProtocolFacts) -> String {
    let (states, edges) =
        (paint::count(facts.states.len(), "state"), paint::count(facts.edges.len(), "edge"));
    let origin = match facts.origin {
        Origin::BuiltIn => "built-in".to_owned(),
        Origin::User | Origin::File if is_built_in(&facts.name) => {
            format!("{}, replaces the built-in one", safe(&facts.path))
        }
        Origin::User | Origin::File => safe(&facts.path),
    };
    let (style, mark, word) = match facts.ok {
        true => (paint::GOOD, "✓", "sound"),
        false => (paint::ERROR, "✗", "not sound"),
    };
    let name = paint(paint::STRONG, &facts.name);
    let size = if facts.readable { format!(", {states}, {edges}") } else { String::new() };
    format!(
        "{} {name} {} {}{size}\n",
        paint(style, mark),
        paint(style, word),
        paint(paint::QUIET, format!("({origin})"))
    )
}

fn runs(facts: &ProtocolFacts) -> String {
    let start = facts.start.as_deref().unwrap_or_default();
    let last = joined(facts.last());
    let ends = if last.is_empty() { "no state is final".to_owned() } else { format!("to {last}") };
    format!("from {start} {ends}")
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
    let states = one.states.iter().map(|state| &**state).collect::<Vec<_>>().join(" ⟲ ");
    let states = if one.states.len() == 1 { format!("{states} ⟲") } else { states };
    match one.bounded_by.is_empty() {
        true => format!("{states} {}", paint(paint::ERROR, "bounded by nothing")),
        false => format!("{states} bounded by {}", joined(&one.bounded_by)),
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

/// The places of each reason, one entry a state: `VERIFY:12,14`.
fn held(holds: &[HoldFact], own: &str) -> Vec<(String, Vec<String>)> {
    grouped(
        holds.iter().map(|hold| Spot {
            state: &hold.state,
            path: &hold.path,
            line: hold.line,
            why: &hold.why,
        }),
        own,
    )
}

fn people(facts: &ProtocolFacts) -> Vec<(String, Vec<String>)> {
    let spots = facts.people.iter().map(|one| Spot {
        state: &one.state,
        path: &one.path,
        line: one.line,
        why: &one.what,
    });
    grouped(spots, &facts.path)
}

/// A place in a state and what is said about it.
struct Spot<'a> {
    state: &'a str,
    path: &'a str,
    line: usize,
    why: &'a str,
}

/// Places by what is said about them, in the order in which that first comes; in each the states
/// with their lines. Lines of another document carry its name.
fn grouped<'a>(spots: impl Iterator<Item = Spot<'a>>, own: &str) -> Vec<(String, Vec<String>)> {
    type States<'a> = Vec<(&'a str, &'a str, Vec<usize>)>;
    let mut groups: Vec<(&str, States<'_>)> = Vec::new();
    for spot in spots {
        let at = groups.iter().position(|(why, _)| *why == spot.why);
        let at = at.unwrap_or_else(|| {
            groups.push((spot.why, Vec::new()));
            groups.len() - 1
        });
        let states = &mut groups[at].1;
        match states.iter_mut().find(|(state, path, _)| (*state, *path) == (spot.state, spot.path)) {
            Some((_, _, lines)) => lines.push(spot.line),
            None => states.push((spot.state, spot.path, vec![spot.line])),
        }
    }
    let lines = |mut lines: Vec<usize>| {
        lines.sort_unstable();
        lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    };
    let place = |(state, path, at): (&str, &str, Vec<usize>)| match path == own {
        true => format!("{state}:{}", lines(at)),
        false => format!("{state}@{}:{}", safe(file_name(path)), lines(at)),
    };
    groups.into_iter().map(|(why, states)| (safe(why), states.into_iter().map(place).collect())).collect()
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
