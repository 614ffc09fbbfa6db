//! A case: everything about a simulation that its seed decides before it begins.
//!
//! Which protocol, which plan, which limits, and how much of which trouble. A case changes nothing
//! once it is made.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use ftl_core::catalogue::Catalogue;
use ftl_core::run::{Policy, Terms, Usage};
use ftl_core::value::{Fields, Name, Value};
use ftl_engine::driver::Opening;
use ftl_language::library::{Library, built_in_sources};
use ftl_language::source::{DocumentOrigin, SourceDocument};

use crate::dice::Dice;
use crate::world::Plot;

/// Protocols of a user: a race against the clock, a crowd of which one is enough, and a nest of
/// children.
const PROGRAMS: [(&str, &str); 4] = [
    (
        "race",
        "PROTOCOL: race
INPUT: brief
LIMIT: rounds = 3 ELSE HOLD
STATE: RUN with feedback
  PAY: rounds
  DO: found = PARALLEL quorum=2 timeout=20s
    - Task(planner) input={brief} answers={feedback}
    - Task(coder) step=plan story={brief} feedback={feedback}
    - Task(architect) step=budget_review story={brief} reason={feedback} progress={rounds.used}
  IF: found.status == \"quorum_failure\" → GOTO RUN with feedback={found.missing}
  DO: exploration.clear
  RETURN: complete status={found.status}",
    ),
    (
        "crowd",
        "PROTOCOL: crowd
INPUT: brief
LIMIT: rounds = 6 ELSE LAST
STATE: RUN
  CHECK: tasks = campaign.tasks
  IF: tasks.ready is empty AND tasks.running is empty → GOTO LAST with reason=done
  PAY: rounds
  DO: batch = FOR EACH task IN tasks.ready BY task.seq UNTIL ANY
    DO: site = workspace.create plan={brief} task={task.seq}
    DO: work = Task(coder) step=plan story={site.story} feedback={tasks.ready} ELSE EMIT: \"no plan\", PROCEED
    DO: campaign.update_task task={task.seq} verdict=complete
  GOTO: RUN
STATE: LAST with reason
  ASK: sure = \"Enough of {reason}?\" choices=yes|no
  RETURN: complete sure={sure}",
    ),
    (
        "leaf",
        "PROTOCOL: leaf
INPUT: brief
INPUT: feedback = none
LIMIT: tools = 2 ELSE STOP
STATE: WORK
  DO: work = Task(coder) step=plan story={brief} feedback={feedback} PAYING tools KEEPING 1 ELSE STOP
  DO: exploration.clear
  RETURN: complete text={work.text}
STATE: STOP with reason
  RETURN: blocked reason={reason}",
    ),
    (
        "nest",
        "PROTOCOL: nest
INPUT: brief
LIMIT: rounds = 2 ELSE HOLD
STATE: BOTH with feedback
  PAY: rounds
  DO: both = PARALLEL quorum=2 timeout=60s
    - Run(leaf) brief={brief} feedback={feedback}
    - Run(leaf) brief=\"the other one\" feedback={feedback}
  IF: both.status == \"quorum_failure\" → GOTO BOTH with feedback={both.missing}
  DO: last = Run(race) brief={brief}
  RETURN: complete status={last.verdict}",
    ),
];

/// The built-in protocols and the ones above, read once per process.
pub fn library() -> Arc<Library> {
    static LIBRARY: OnceLock<Arc<Library>> = OnceLock::new();
    let load = || {
        let mut sources = built_in_sources();
        for (name, program) in PROGRAMS {
            let text = format!("# {name}\n\n```protocol\n{program}\n```\n");
            sources.push(SourceDocument::new(
                format!(".ftl/protocols/{name}.md"),
                DocumentOrigin::User,
                text,
            ));
        }
        Arc::new(Library::load(sources, Catalogue::standard()))
    };
    LIBRARY.get_or_init(load).clone()
}

/// How much people meddle while there is trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum People {
    /// They answer what they are asked.
    Patient,
    /// They also raise, resume and say things twice.
    Busy,
    /// They also override, go back and stop.
    Wild,
}

/// The case that a seed decides.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) seed: u64,
    pub(super) protocol: &'static str,
    pub(super) plot: Plot,
    pub(super) terms: Terms,
    /// Whether every agent says what it has used, or at least never uses more than was set aside.
    pub(super) exact: bool,
    pub(super) people: People,
    /// For how many steps there is trouble.
    pub(super) steps: u64,
    /// How often in a hundred an agent or action does something else than asked.
    pub(super) mischief: u64,
    /// How often in a hundred moments of trouble a process is killed, stopped or put to sleep, or the
    /// disk fails.
    pub(super) violence: u64,
}

const PROTOCOLS: [(&str, u64); 8] = [
    ("campaign", 34),
    ("task", 14),
    ("builder", 8),
    ("coder", 8),
    ("lifecycle", 8),
    ("race", 10),
    ("crowd", 10),
    ("nest", 8),
];

impl Case {
    /// The case of a seed.
    pub(super) fn of(seed: u64) -> Case {
        let mut dice = Dice::for_name(seed, "case");
        let protocol = protocol(&mut dice);
        let exact = dice.chance(60);
        let people = *dice.pick(&[People::Patient, People::Busy, People::Wild]).unwrap_or(&People::Busy);
        let most = if protocol == "task" { 1 } else { 8 };
        let trouble = *dice.pick(&[0, 30, 70]).unwrap_or(&0);
        Case {
            seed,
            protocol,
            plot: Plot::random(seed, trouble, most),
            terms: terms(&mut dice),
            exact,
            people,
            steps: dice.between(10, 160),
            mischief: *dice.pick(&[0, 15, 35, 60]).unwrap_or(&10),
            violence: *dice.pick(&[0, 30, 60]).unwrap_or(&15),
        }
    }

    /// What the run is opened with.
    pub(super) fn opening(&self) -> Opening {
        let text = |name: &str, text: &str| (Name::from(name), Value::text(text));
        let inputs: Fields = match self.protocol {
            "campaign" | "task" => [text("objective", "make it so")].into(),
            "builder" => {
                let mode = if self.seed.is_multiple_of(3) { "direct" } else { "full" };
                [text("workspace", "001"), text("mode", mode)].into()
            }
            "coder" => [text("story", "001")].into(),
            "crowd" => [(Name::from("brief"), self.plot.plan())].into(),
            _ => [text("brief", "make it so")].into(),
        };
        Opening { protocol: Name::from(self.protocol), inputs, terms: self.terms.clone() }
    }
}

fn protocol(dice: &mut Dice) -> &'static str {
    let mut left = dice.below(PROTOCOLS.iter().map(|(_, weight)| weight).sum());
    for (name, weight) in PROTOCOLS {
        if left < weight {
            return name;
        }
        left -= weight;
    }
    PROTOCOLS[0].0
}

fn terms(dice: &mut Dice) -> Terms {
    let mut terms = Terms::default();
    if dice.chance(80) {
        terms.reserve = usage(&[("tokens", dice.between(1, 100)), ("money", dice.between(1, 20))]);
        if dice.chance(60) {
            let agents = dice.between(2, 30);
            terms.limits = terms.reserve.iter().map(|(name, one)| (name.clone(), one * agents)).collect();
            // Limited and never set aside before.
            if dice.chance(20) {
                terms.limits.insert(Name::from("turns"), dice.between(5, 60));
            }
        }
    }
    terms.policies = match dice.below(6) {
        0 => BTreeMap::from([("*".to_owned(), Policy::Deny)]),
        1 => BTreeMap::from([("campaign.COMPLETE".to_owned(), Policy::Answer(Value::text("ff")))]),
        _ => BTreeMap::new(),
    };
    terms
}

fn usage(amounts: &[(&str, u64)]) -> Usage {
    amounts.iter().map(|(name, amount)| (Name::from(*name), *amount)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_of_a_case_is_sound() {
        let library = library();
        for (name, _) in PROTOCOLS.iter().chain(&[("leaf", 0)]) {
            let protocol = library.get(name).into_iter().next();
            let problems: Vec<String> = protocol
                .iter()
                .flat_map(|one| &one.findings.problems)
                .map(|problem| problem.render(library.sources()))
                .collect();
            assert!(library.program(name).is_some(), "{name}: {}", problems.join("\n"));
        }
    }

    #[test]
    fn the_same_seed_is_the_same_case() {
        let told = |seed| format!("{:?}", Case::of(seed));
        assert_eq!(told(5), told(5));
        assert_ne!(told(5), told(6));
    }
}
