//! What states need of an agent, and what an agent does not enforce.
//!
//! A cap on calls is a cap only where calls are counted before they are made; a state that keeps an agent
//! to some files needs one that is kept to them. What is missing is refused before a run is opened, unless
//! a person has accepted it; then the run's record says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ftl_agents::contract::{Counted, Enforced};
use ftl_core::catalogue::{Catalogue, RoleRule};
use ftl_core::performer::Performer;
use ftl_core::program::StateCode;
use ftl_core::syntax::{Compare, Expr, ExprKind, StatementKind, Step, TemplatePart};
use ftl_core::value::Name;
use ftl_language::library::Library;

use super::UNBOUND;
use super::{AGENTS, AgentSettings, Hall, Roster};

/// Something that a state needs of the agent that answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleNeed {
    /// Calls of tools are counted before they are made.
    Calls,
    /// It cannot write outside of what the state allows.
    Paths,
}

impl RoleNeed {
    /// The words in settings.
    pub const WORDS: [&str; 2] = ["calls", "paths"];

    /// The word in settings.
    pub const fn word(self) -> &'static str {
        match self {
            RoleNeed::Calls => "calls",
            RoleNeed::Paths => "paths",
        }
    }

    /// The need of a word.
    pub fn parse(word: &str) -> Option<RoleNeed> {
        [RoleNeed::Calls, RoleNeed::Paths].into_iter().find(|one| one.word() == word)
    }

    fn is_met(self, enforced: &Enforced) -> bool {
        match self {
            RoleNeed::Calls => enforced.calls == Counted::Before,
            RoleNeed::Paths => enforced.paths,
        }
    }

    const fn sentence(self) -> &'static str {
        match self {
            RoleNeed::Calls => "counts calls before they are made",
            RoleNeed::Paths => "is kept to the files that it may write",
        }
    }
}

/// A state that needs something, and the role that it asks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needed {
    /// The role that the state asks.
    pub role: Name,
    /// What the agent must enforce.
    pub need: RoleNeed,
    /// The protocol's name.
    pub protocol: Name,
    /// The state's name.
    pub state: Name,
}

impl Needed {
    /// Whether an agent gives it.
    pub fn is_met(&self, enforced: &Enforced) -> bool {
        self.need.is_met(enforced)
    }
}

impl fmt::Display for Needed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Needed { role, need, protocol, state } = self;
        write!(out, "{protocol}.{state} needs a {role} that {}", need.sentence())
    }
}

/// What a protocol and its children need of the agents that answer their tasks, and the roles that they ask.
pub fn needed(library: &Library, protocol: &str) -> (BTreeSet<Needed>, BTreeSet<Name>) {
    needed_with(library, protocol, &|_| true)
}

/// The roles that no state asks while no task of a plan names certain workers: those of the children that a protocol
/// runs only where a plan says so, as in `IF: task.worker == "coder" → DO: build = Run(coder)`.
pub fn unneeded(library: &Library, protocol: &str, is_worker: &dyn Fn(&str) -> bool) -> BTreeSet<Name> {
    let (_, mut all) = needed(library, protocol);
    let (_, asked) = needed_with(library, protocol, is_worker);
    all.retain(|role| !asked.contains(role));
    all
}

/// The same where the plan names only some workers.
fn needed_with(
    library: &Library,
    protocol: &str,
    is_worker: &dyn Fn(&str) -> bool,
) -> (BTreeSet<Needed>, BTreeSet<Name>) {
    let (mut all, mut roles) = (BTreeSet::new(), BTreeSet::new());
    let mut seen = BTreeSet::new();
    let mut open = vec![Name::from(protocol)];
    while let Some(name) = open.pop() {
        let Some(program) = library.program(&name).filter(|_| seen.insert(name.clone())) else { continue };
        for state in &program.states {
            let left_out: BTreeSet<Name> = picked(state)
                .into_iter()
                .filter(|(_, words)| !words.iter().any(|word| is_worker(word)))
                .map(|(child, _)| child)
                .collect();
            for node in &state.nodes {
                let pays = matches!(node.step(), Some(Step::Do { paying: Some(_), .. }));
                for call in &node.calls {
                    match &call.whom {
                        Performer::Task(role) => {
                            roles.insert(role.clone());
                            let needs = [(pays, RoleNeed::Calls), (true, RoleNeed::Paths)];
                            let needs = needs.into_iter().filter(|(is, _)| *is).map(|(_, need)| Needed {
                                role: role.clone(),
                                need,
                                protocol: name.clone(),
                                state: state.name.clone(),
                            });
                            all.extend(needs);
                        }
                        Performer::Run(child) if left_out.contains(child) => {}
                        Performer::Run(child) => open.push(child.clone()),
                        Performer::Action(_) | Performer::Shell | Performer::Word => {}
                        Performer::Question | Performer::Item | Performer::All => {}
                    }
                }
            }
        }
    }
    (all, roles)
}

/// The children that a state runs where a task names a worker, each with the words that name it.
fn picked(state: &StateCode) -> BTreeMap<Name, BTreeSet<Name>> {
    let mut all: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
    for node in &state.nodes {
        let mut words = BTreeSet::new();
        let mut up = node.up;
        while let Some(around) = up.and_then(|place| state.node(place)) {
            if let StatementKind::If { condition, .. } = &around.what {
                workers(condition, &mut words);
            }
            up = around.up;
        }
        for call in node.calls.iter().filter(|_| !words.is_empty()) {
            match &call.whom {
                Performer::Run(child) => {
                    all.entry(child.clone()).or_default().extend(words.iter().cloned());
                }
                Performer::Action(_) | Performer::Task(_) | Performer::Shell | Performer::Word => {}
                Performer::Question | Performer::Item | Performer::All => {}
            }
        }
    }
    all
}

/// The words that a condition requires of a field `worker`.
fn workers(condition: &Expr, words: &mut BTreeSet<Name>) {
    let is_worker = |one: &Expr| {
        matches!(&*one.kind, ExprKind::Path(path)
            if path.len() > 1 && path.last().is_some_and(|last| &*last.name == WORKER))
    };
    match &*condition.kind {
        ExprKind::And(parts) => parts.iter().for_each(|part| workers(part, words)),
        ExprKind::Compare(Compare::Same, one, two) => {
            for (path, word) in [(one, two), (two, one)] {
                if let (true, ExprKind::Text(text)) = (is_worker(path), &*word.kind)
                    && let [TemplatePart::Text(word)] = text.parts.as_slice()
                {
                    words.insert(Name::from(word.as_str()));
                }
            }
        }
        ExprKind::Or(_) | ExprKind::Not(_) | ExprKind::Compare(..) | ExprKind::Empty(..) => {}
        ExprKind::Path(_) | ExprKind::Number(_) | ExprKind::Duration(_) | ExprKind::Text(_) => {}
        ExprKind::Bool(_) | ExprKind::None | ExprKind::Function(..) => {}
    }
}

/// The field of a task that names who does it.
const WORKER: &str = "worker";

/// Why a protocol cannot be run with these agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// What is missing, in words.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Looks whether every role that a protocol asks is answered and gives what its states need; `answered` tells which
/// roles are answered without the roster. What is not given and was accepted, in sentences, for the record.
pub fn staffed(
    library: &Library,
    protocol: &str,
    roster: &Roster,
    hall: &Hall<'_>,
    answered: &dyn Fn(&str) -> bool,
) -> Result<Vec<String>, Unfit> {
    let (needed, mut roles) = needed(library, protocol);
    roles.retain(|role| !answered(role));
    let alone: Vec<&str> =
        roles.iter().map(|role| &**role).filter(|role| roster.role(role).is_none()).collect();
    let needs_agent = |role: &&str| !has_rule(library.catalogue(), role, RoleRule::CodeStandsIn);
    let alone: Vec<&str> = alone.into_iter().filter(needs_agent).collect();
    if !alone.is_empty() {
        let message = format!("no agent is bound to {}", alone.join(", "));
        return Err(Unfit { message, hint: UNBOUND.to_owned() });
    }
    have_programs(&roles, roster, hall)?;
    let (mut accepted, mut lacking) = (Vec::new(), Vec::new());
    for one in needed.iter().filter(|one| roles.contains(&one.role)) {
        let Some(agent) = answerer_of(roster, &one.role) else { continue };
        let enforced = hall.enforces(agent).map_err(|why| Unfit {
            message: format!("the agent `{}` cannot be used: {why}", agent.name),
            hint: String::from("`ftl agents` shows all of them"),
        })?;
        if one.is_met(&enforced) {
            continue;
        }
        match agent.accept.contains(&one.need) {
            true => accepted.push(sentence(one, agent)),
            false => lacking.push((one, agent)),
        }
    }
    if lacking.is_empty() { Ok(accepted) } else { Err(unaccepted(&lacking)) }
}

/// Whether the catalogue has a rule for every form of a role.
pub(super) fn has_rule(catalogue: &Catalogue, role: &str, rule: RoleRule) -> bool {
    catalogue.role(role).is_some_and(|role| role.has(rule))
}

fn answerer_of<'r>(roster: &'r Roster, role: &str) -> Option<&'r AgentSettings> {
    roster.role(role).and_then(|bound| roster.agent(&bound.agent))
}

/// What an agent does not give to a state.
fn sentence(one: &Needed, agent: &AgentSettings) -> String {
    format!("{one}; `{}` does not", agent.name)
}

/// An agent whose program is not there gives nothing: that is told before anything that it might not enforce.
fn have_programs(roles: &BTreeSet<Name>, roster: &Roster, hall: &Hall<'_>) -> Result<(), Unfit> {
    for role in roles {
        let Some(agent) = answerer_of(roster, role) else { continue };
        if let Some(program) = hall.missing_program(agent) {
            let message =
                format!("there is no program `{program}`, which the agent `{}` of {role} starts", agent.name);
            let hint =
                format!("install it, or say where it is: program = \"/…\" under [{AGENTS}.{}]", agent.name);
            return Err(Unfit { message, hint });
        }
    }
    Ok(())
}

/// Everything that a person would have to accept, at once: each need of each agent with a state that has it, and the
/// whole list for the settings, so that what was accepted before stays accepted.
fn unaccepted(lacking: &[(&Needed, &AgentSettings)]) -> Unfit {
    let mut told: Vec<(&str, RoleNeed)> = Vec::new();
    let mut lists: BTreeMap<&str, BTreeSet<RoleNeed>> = BTreeMap::new();
    let mut sentences = Vec::new();
    for (one, agent) in lacking {
        let known = lists.entry(&agent.name).or_insert_with(|| agent.accept.clone());
        known.insert(one.need);
        if !told.contains(&(&agent.name, one.need)) {
            told.push((&agent.name, one.need));
            sentences.push(sentence(one, agent));
        }
    }
    let accept = |(name, needs): (&&str, &BTreeSet<RoleNeed>)| {
        let words: Vec<String> = needs.iter().map(|need| format!("\"{}\"", need.word())).collect();
        format!("accept = [{}] under [{AGENTS}.{name}]", words.join(", "))
    };
    let lists: Vec<String> = lists.iter().map(accept).collect();
    Unfit {
        message: sentences.join("\n"),
        hint: format!("bind another agent, or accept it: {}", lists.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use ftl_language::source::{DocumentOrigin, SourceDocument};

    use super::*;

    #[test]
    fn the_task_flow_needs_counted_calls_of_builders_alone() {
        let (needed, roles) = needed(&Library::built_in(), "task");
        let calls: BTreeSet<String> = needed
            .iter()
            .filter(|one| one.need == RoleNeed::Calls)
            .map(|one| format!("{} {}.{}", one.role, one.protocol, one.state))
            .collect();
        let expected = ["builder builder.IMPLEMENT", "builder builder.RETRY"];
        assert_eq!(calls.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        let roles: Vec<&str> = roles.iter().map(|role| &**role).collect();
        assert_eq!(roles, ["builder", "explorer", "observer", "planner"]);
        assert!(needed.iter().any(|one| one.need == RoleNeed::Paths && &*one.role == "explorer"));
    }

    #[test]
    fn only_what_a_plan_picks_may_be_missing() {
        let library = Library::built_in();
        let found = |protocol: &str, asked: &[&str]| {
            let roles = unneeded(&library, protocol, &|word| asked.contains(&word));
            roles.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found("campaign", &["builder"]), "architect coder");
        assert_eq!(found("campaign", &["coder"]), "builder");
        assert_eq!(found("campaign", &["builder", "coder"]), "");
        assert_eq!(found("campaign", &[]), "architect builder coder");
        assert_eq!(found("task", &[]), "", "a task asks its builder whatever its plan says");
    }

    #[test]
    fn a_worker_may_be_called_otherwise_than_its_protocol() {
        let night = "```protocol\nPROTOCOL: night\nSTATE: A\n  CHECK: tasks = campaign.tasks\n  \
            DO: all = FOR EACH task IN tasks.ready BY task.seq\n    \
            IF: task.worker == \"coder\" AND task.seq != \"000\" → DO: Run(builder) workspace=\"w\"\n  \
            DO: Run(coder) story=\"s\"\n  RETURN: complete failed={all.failed}\n```\n";
        let mut sources = ftl_language::library::built_in_sources();
        sources.push(SourceDocument::new("night.md", DocumentOrigin::User, night));
        let library = Library::load(sources, Catalogue::standard());
        assert!(library.program("night").is_some(), "{:?}", library.get("night").unwrap().findings.problems);
        let found = |word: &str| unneeded(&library, "night", &|one| one == word);
        assert_eq!(found("builder"), [Name::from("builder")].into());
        assert_eq!(found("coder"), BTreeSet::new());
    }

    #[test]
    fn a_need_is_a_sentence() {
        let needed = Needed {
            role: Name::from("builder"),
            need: RoleNeed::Calls,
            protocol: Name::from("builder"),
            state: Name::from("RETRY"),
        };
        assert_eq!(
            needed.to_string(),
            "builder.RETRY needs a builder that counts calls before they are made"
        );
        for word in RoleNeed::WORDS {
            assert_eq!(RoleNeed::parse(word).map(RoleNeed::word), Some(word));
        }
    }
}
