//! The phases of a task, as its document has them: states, what each hears, what it makes, where it leads.
//!
//! Everything here is read out of the program of `lifecycle`, the built-in one or a user's own; no phase, edge, guard or
//! payment is known to this code. What it does know is the work that a step of the catalogue does for a task
//! (`Work`), and the names that older work has for the phases of the built-in document.

use std::fmt;
use std::sync::Arc;

use ftl_core::catalogue::Catalogue;
use ftl_core::program::{CallCode, Node, Program, Programs, StateCode};
use ftl_core::run::eval::constant;
use ftl_core::syntax::{Arg, Compare, Exit, Expr, ExprKind, StatementKind, Step};
use ftl_core::value::Name;
use ftl_language::library::Library;

use super::folder::{
    CODE_REVIEW, CODEGEN, DECISION, FILES, MEETING, OLDER_PLAN_REVIEW, OLDER_REPORT, PATCH, PLAN, PLAN_FILES,
    PLAN_REVIEW, PLAN_TEXT, RECORD, REPORT,
};

/// The protocol of tasks.
pub const PROTOCOL: &str = "lifecycle";

/// The word that looks and moves.
pub const NEXT: &str = "next";

/// The word that begins a phase anew.
pub const REDO: &str = "redo";

/// What older work calls its phases. They are read and never written.
const OLDER: [(&str, &str); 5] = [
    ("planning_done", "planning"),
    ("codegen_done", "codegen"),
    ("code_review", "review"),
    ("code_review_meeting", "review"),
    ("test_run", "test"),
];

/// A phase of a task: a state of its document, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Phase(Name);

impl Phase {
    /// The phase as it is written.
    pub fn word(&self) -> &str {
        &self.0
    }

    /// Its name as the interpreter has it.
    pub fn name(&self) -> Name {
        self.0.clone()
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// An edge as it is written: `FROM TO`.
pub fn edge(from: &Phase, to: &Phase) -> String {
    format!("{from} {to}")
}

/// The command that says a word: `review_plan` is said by `ftl review plan`.
pub fn command(word: &str) -> String {
    format!("ftl {}", word.replace('_', " "))
}

/// What a step does for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepWork {
    /// The planner writes the plan.
    Plan,
    /// Reviewers read the plan.
    PlanReview,
    /// The coder writes files and patch.
    Code,
    /// Reviewers read the patch.
    CodeReview,
    /// The suites run on the patch.
    Report,
    /// A person accepts the work, or sends it elsewhere.
    Decision,
    /// What was applied is undone.
    Revert,
}

impl StepWork {
    /// All kinds of work, in the order of declaration.
    pub const ALL: [StepWork; 7] = [
        StepWork::Plan,
        StepWork::PlanReview,
        StepWork::Code,
        StepWork::CodeReview,
        StepWork::Report,
        StepWork::Decision,
        StepWork::Revert,
    ];

    /// What it leaves in the task's folder.
    pub const fn artifacts(self) -> &'static [&'static str] {
        match self {
            StepWork::Plan => &[PLAN, PLAN_TEXT, PLAN_FILES, MEETING],
            StepWork::PlanReview => &[PLAN_REVIEW, OLDER_PLAN_REVIEW],
            StepWork::Code => &[PATCH, FILES, CODEGEN],
            StepWork::CodeReview => &[CODE_REVIEW],
            StepWork::Report => &[REPORT, OLDER_REPORT],
            StepWork::Decision => &[DECISION],
            StepWork::Revert => &[RECORD],
        }
    }

    /// The work that a call asks for, if it is one for a task.
    fn of(call: &CallCode) -> Option<StepWork> {
        let of_plan = || {
            let of = call.args.iter().find(|(name, _)| &*name.name == "of").map(|(_, arg)| arg);
            matches!(of, Some(Arg::Words(words)) if words.iter().any(|word| &*word.name == "plan"))
        };
        match (call.whom.role(), call.whom.action()) {
            (Some("planner"), _) => Some(StepWork::Plan),
            (Some("reviewers"), _) => {
                Some(if of_plan() { StepWork::PlanReview } else { StepWork::CodeReview })
            }
            (Some("coder"), _) => Some(StepWork::Code),
            (_, Some("eval.run")) => Some(StepWork::Report),
            (_, Some("decision.record")) => Some(StepWork::Decision),
            (_, Some("patch.revert")) => Some(StepWork::Revert),
            _ => None,
        }
    }
}

/// Where decisions may send work, by the conditions of the document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// Every route that some condition asks for: the usual one first, then the nearest one, undoing last.
    pub known: Vec<String>,
    /// Where work goes that needs more of it, when the person did not say where.
    pub again: Option<String>,
    /// Where work goes that is to be undone.
    pub undo: Option<String>,
}

/// The phases of a document.
#[derive(Clone, Debug)]
pub struct Phases {
    program: Arc<Program>,
}

impl Phases {
    /// The phases of the protocol of tasks; nothing where its document is not sound.
    pub fn of(programs: &dyn Programs) -> Option<Phases> {
        programs.program(PROTOCOL).map(|program| Phases { program: program.clone() })
    }

    /// The phases of the document that comes with the program.
    pub fn built_in() -> Option<Phases> {
        Phases::of(&Library::load(ftl_language::library::built_in_sources(), Catalogue::standard()))
    }

    fn state(&self, phase: &Phase) -> Option<&StateCode> {
        self.program.state(&phase.0)
    }

    fn place(&self, phase: &Phase) -> Option<usize> {
        self.program.states.iter().position(|state| state.name == phase.0)
    }

    /// Every phase, in the order of the document.
    pub fn all(&self) -> impl Iterator<Item = Phase> + '_ {
        self.program.states.iter().map(|state| Phase(state.name.clone()))
    }

    /// Their names as a person reads them.
    pub fn join_names(&self) -> String {
        self.program.states.iter().map(|state| &*state.name).collect::<Vec<_>>().join(", ")
    }

    /// The phase in which a task begins.
    pub fn first(&self) -> Phase {
        Phase(self.program.states.first().map_or_else(Name::default, |state| state.name.clone()))
    }

    /// The phase of a word that people type.
    pub fn find(&self, word: &str) -> Option<Phase> {
        self.program.state(word).map(|state| Phase(state.name.clone()))
    }

    /// The phase of a word in a file, which may be an older one.
    pub fn read(&self, word: &str) -> Option<Phase> {
        let older = || OLDER.iter().find(|(old, _)| *old == word).and_then(|(_, name)| self.find(name));
        self.find(word).or_else(older)
    }

    /// Where the edges from a phase lead: forward first, then in the order of the document.
    pub fn targets(&self, phase: &Phase) -> Vec<Phase> {
        let forward = self.forward(phase);
        let others =
            self.program.targets(&phase.0).filter(|to| forward.as_ref().is_none_or(|one| one.0 != **to));
        forward.iter().cloned().chain(others.map(|to| Phase(to.clone()))).collect()
    }

    /// Whether an edge leads from one phase to another.
    pub fn leads(&self, from: &Phase, to: &Phase) -> bool {
        self.program.leads(&from.0, &to.0)
    }

    /// Where the way goes on from a phase if all is well: the last exit that pays nothing.
    pub fn forward(&self, phase: &Phase) -> Option<Phase> {
        let state = self.state(phase)?;
        let free =
            gotos(state).filter(|(place, _)| state.pays(*place).is_none() && state.else_of(*place).is_none());
        free.last().map(|(_, to)| Phase(to.clone()))
    }

    /// Whether a phase is left because what it came to is not good enough, here or further up.
    pub fn goes_back(&self, from: &Phase, to: &Phase) -> bool {
        let pays = self.state(from).is_some_and(|state| {
            gotos(state).any(|(place, target)| *target == to.0 && state.pays(place).is_some())
        });
        pays || self.place(to) < self.place(from)
    }

    /// Whether nothing leads on from a phase.
    pub fn is_last(&self, phase: &Phase) -> bool {
        self.state(phase).is_some_and(|state| state.targets.is_empty())
    }

    /// The words that a phase hears.
    pub fn words(&self, phase: &Phase) -> Vec<&Name> {
        let nodes = self.state(phase).map(|state| state.nodes.as_slice()).unwrap_or_default();
        nodes.iter().flat_map(accepted_words).collect()
    }

    /// Whether a phase hears a word.
    pub fn hears(&self, phase: &Phase, word: &str) -> bool {
        self.words(phase).iter().any(|one| &***one == word)
    }

    /// The phases that hear a word.
    pub fn hearing(&self, word: &str) -> Vec<Phase> {
        self.all().filter(|phase| self.hears(phase, word)).collect()
    }

    /// The word that does the work of a phase: the first one that asks for something.
    pub fn work(&self, phase: &Phase) -> Option<&Name> {
        let state = self.state(phase)?;
        let works = |word: &str| {
            (0u32..).zip(&state.nodes).any(|(place, node)| {
                let asks = matches!(node.step(), Some(Step::Do { .. }));
                asks && says(state, place, word)
            })
        };
        self.words(phase).into_iter().find(|word| works(word))
    }

    /// The command that does the work of a phase.
    pub fn command(&self, phase: &Phase) -> Option<String> {
        self.work(phase).map(|word| command(word))
    }

    /// Whether the work of a phase is a person's decision.
    pub fn is_decided(&self, phase: &Phase) -> bool {
        self.makes(phase).contains(&StepWork::Decision)
    }

    /// What the steps of a phase do for the task.
    pub fn makes(&self, phase: &Phase) -> Vec<StepWork> {
        let nodes = self.state(phase).map(|state| state.nodes.as_slice()).unwrap_or_default();
        let asks = nodes.iter().filter(|node| matches!(node.step(), Some(Step::Do { .. })));
        asks.flat_map(|node| &node.calls).filter_map(StepWork::of).collect()
    }

    /// What a phase leaves in the task's folder.
    pub fn artifacts(&self, phase: &Phase) -> Vec<&'static str> {
        self.makes(phase).into_iter().flat_map(StepWork::artifacts).copied().collect()
    }

    /// What a redo of a phase makes void: what it leaves, and what all phases after it leave.
    pub fn void(&self, phase: &Phase) -> Vec<&'static str> {
        let from = self.place(phase).unwrap_or(0);
        let mut void = Vec::new();
        for artifact in self.all().skip(from).flat_map(|one| self.artifacts(&one)) {
            if !void.contains(&artifact) {
                void.push(artifact);
            }
        }
        void
    }

    /// The gates that a phase looks through, by name, in its order.
    pub fn gates(&self, phase: &Phase) -> Vec<&str> {
        let nodes = self.state(phase).map(|state| state.nodes.as_slice()).unwrap_or_default();
        let checks = nodes.iter().filter(|node| matches!(node.step(), Some(Step::Check { .. })));
        checks.flat_map(|node| &node.calls).filter_map(|call| call.whom.action()).collect()
    }

    /// What a phase is told when it is entered.
    pub fn takes(&self, phase: &Phase, param: &str) -> bool {
        self.state(phase).is_some_and(|state| state.params.iter().any(|(name, _)| &**name == param))
    }

    /// The meter that a redo pays.
    pub fn redo_meter(&self) -> Option<&Name> {
        self.program.redo.as_ref()
    }

    /// The phases to which decisions may send work.
    pub fn routes(&self) -> Routes {
        let mut asked = Vec::new();
        for node in self.program.states.iter().flat_map(|state| &state.nodes) {
            if let StatementKind::If { condition, .. } = &node.what {
                routes_in(condition, &mut asked);
            }
        }
        let making = |work: StepWork| self.all().find(|phase| self.makes(phase).contains(&work));
        let among = |phase: Option<Phase>| {
            phase.map(|phase| phase.word().to_owned()).filter(|name| asked.contains(name))
        };
        let (again, undo) = (among(making(StepWork::Code)), among(making(StepWork::Revert)));
        let mut known = asked;
        let place = |route: &String| self.find(route).and_then(|phase| self.place(&phase));
        known.sort_by_key(|route| {
            let (is_again, is_undo) = (Some(route) == again.as_ref(), Some(route) == undo.as_ref());
            (is_undo, !is_again, std::cmp::Reverse(place(route)))
        });
        Routes { known, again, undo }
    }
}

/// The words that a WAIT takes.
fn accepted_words(node: &Node) -> Vec<&Name> {
    match node.step() {
        Some(Step::WaitWords { words, .. }) => words.iter().map(|word| &word.name).collect(),
        Some(_) | None => Vec::new(),
    }
}

/// Every GOTO of a state, with where it leads.
fn gotos(state: &StateCode) -> impl Iterator<Item = (u32, &Name)> {
    (0u32..).zip(&state.nodes).filter_map(|(place, node)| match &node.what {
        StatementKind::Exit(Exit::Goto { target, .. }) => Some((place, &target.name)),
        _ => None,
    })
}

/// Whether a statement stands inside of an IF that asks for a word.
fn says(state: &StateCode, place: u32, word: &str) -> bool {
    let mut at = state.node(place).and_then(|node| node.up);
    while let Some(node) = at.and_then(|place| state.node(place)) {
        if let StatementKind::If { condition, .. } = &node.what
            && let ExprKind::Path(path) = &*condition.kind
            && path.get(1).is_some_and(|field| &*field.name == word)
            && state.nodes.iter().any(|wait| {
                wait.bind() == path.first().map(|first| &first.name) && !accepted_words(wait).is_empty()
            })
        {
            return true;
        }
        at = node.up;
    }
    false
}

/// The routes that a condition asks for: what it compares a field `route` with.
fn routes_in(expr: &Expr, found: &mut Vec<String>) {
    match &*expr.kind {
        ExprKind::Or(parts) | ExprKind::And(parts) => parts.iter().for_each(|part| routes_in(part, found)),
        ExprKind::Not(inner) => routes_in(inner, found),
        ExprKind::Compare(Compare::Same, one, two) => {
            let asks = matches!(&*one.kind, ExprKind::Path(path) if path.get(1).is_some_and(|field| &*field.name == "route"));
            if let Some(route) = constant(two).as_text().filter(|_| asks)
                && !found.iter().any(|known| known == route)
            {
                found.push(route.to_owned());
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases() -> Phases {
        Phases::built_in().unwrap()
    }

    fn words(phases: &[Phase]) -> String {
        phases.iter().map(Phase::word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn older_names_are_read_and_no_others() {
        let phases = phases();
        let cases = [
            ("planning_done", Some("planning")),
            ("codegen_done", Some("codegen")),
            ("code_review", Some("review")),
            ("code_review_meeting", Some("review")),
            ("test_run", Some("test")),
            ("accept", Some("accept")),
            ("planning_meeting", None),
            ("Planning", None),
            ("", None),
        ];
        for (word, phase) in cases {
            assert_eq!(phases.read(word).as_ref().map(Phase::word), phase, "{word}");
        }
        assert_eq!(phases.find("test_run"), None, "nobody types an older name");
    }

    #[test]
    fn what_each_phase_of_the_built_in_document_does() {
        let phases = phases();
        let rows: Vec<String> = phases
            .all()
            .map(|phase| {
                let to = words(&phases.targets(&phase));
                let back: Vec<Phase> =
                    phases.targets(&phase).into_iter().filter(|to| phases.goes_back(&phase, to)).collect();
                let work = phases.work(&phase).map_or("-", |word| word);
                format!("{phase}: {work} | {to} | back {}", words(&back))
            })
            .collect();
        assert_eq!(
            rows,
            [
                "planning: plan | plan_review planning | back planning",
                "plan_review: review_plan | codegen planning | back planning",
                "codegen: codegen | review planning plan_review codegen | back planning plan_review codegen",
                "review: review_code | test planning codegen | back planning codegen",
                "test: test | accept codegen | back codegen",
                "accept: accept | done planning codegen review revert | back planning codegen review",
                "revert: revert | done | back ",
                "done: - |  | back ",
            ]
        );
        assert_eq!(words(&phases.hearing("revert")), "accept revert");
        assert_eq!(words(&phases.hearing("nonsense")), "");
        let routes = phases.routes();
        assert_eq!(routes.known, ["codegen", "review", "planning", "revert"]);
        assert_eq!((routes.again.as_deref(), routes.undo.as_deref()), (Some("codegen"), Some("revert")));
    }

    #[test]
    fn a_redo_makes_void_what_came_after() {
        let phases = phases();
        let void = |word: &str| phases.void(&phases.find(word).unwrap());
        assert_eq!(void("test"), [REPORT, OLDER_REPORT, DECISION, RECORD]);
        assert_eq!(void("done"), [] as [&str; 0]);
        assert_eq!(void("planning").len(), 14);
    }
}
