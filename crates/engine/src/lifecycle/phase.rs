//! The eight phases, the nineteen edges between them, and the names that older work has for them.
//!
//! The edges are those of `protocols/lifecycle.md`; a test compares them, so that no pair can be allowed
//! here and forbidden there.

use std::fmt;

/// A phase of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The brief becomes a plan.
    Planning,
    /// Reviewers read the plan.
    PlanReview,
    /// The coder writes files and patch.
    Codegen,
    /// Reviewers read the patch.
    Review,
    /// The suites run on the patch.
    Test,
    /// A person decides.
    Accept,
    /// What was applied is undone.
    Revert,
    /// The end.
    Done,
}

use Phase::{Accept, Codegen, Done, PlanReview, Planning, Revert, Review, Test};

/// Every phase, in the order of the way.
pub const PHASES: [Phase; 8] = [Planning, PlanReview, Codegen, Review, Test, Accept, Revert, Done];

/// Every edge: the forward one of a phase first, then the others, the most upstream first.
pub const EDGES: [(Phase, Phase); 19] = [
    (Planning, PlanReview),
    (Planning, Planning),
    (PlanReview, Codegen),
    (PlanReview, Planning),
    (Codegen, Review),
    (Codegen, Planning),
    (Codegen, PlanReview),
    (Codegen, Codegen),
    (Review, Test),
    (Review, Planning),
    (Review, Codegen),
    (Test, Accept),
    (Test, Codegen),
    (Accept, Done),
    (Accept, Planning),
    (Accept, Codegen),
    (Accept, Review),
    (Accept, Revert),
    (Revert, Done),
];

/// What older work calls its phases. They are read and never written.
const OLDER: [(&str, Phase); 5] = [
    ("planning_done", Planning),
    ("codegen_done", Codegen),
    ("code_review", Review),
    ("code_review_meeting", Review),
    ("test_run", Test),
];

impl Phase {
    /// The phase as it is written.
    pub const fn word(self) -> &'static str {
        match self {
            Planning => "planning",
            PlanReview => "plan_review",
            Codegen => "codegen",
            Review => "review",
            Test => "test",
            Accept => "accept",
            Revert => "revert",
            Done => "done",
        }
    }

    /// The phase of a word that people type.
    pub fn of(word: &str) -> Option<Phase> {
        PHASES.into_iter().find(|phase| phase.word() == word)
    }

    /// The phase of a word in a file, which may be an older one.
    pub fn read(word: &str) -> Option<Phase> {
        let older = || OLDER.iter().find(|(old, _)| *old == word).map(|(_, phase)| *phase);
        Phase::of(word).or_else(older)
    }

    /// Where the edges from here lead.
    pub fn targets(self) -> impl Iterator<Item = Phase> {
        EDGES.into_iter().filter(move |(from, _)| *from == self).map(|(_, to)| to)
    }

    /// Whether an edge leads from here to there.
    pub fn leads_to(self, to: Phase) -> bool {
        EDGES.contains(&(self, to))
    }

    /// Where the way goes on from here, if all is well.
    pub const fn forward(self) -> Option<Phase> {
        match self {
            Planning => Some(PlanReview),
            PlanReview => Some(Codegen),
            Codegen => Some(Review),
            Review => Some(Test),
            Test => Some(Accept),
            Accept | Revert => Some(Done),
            Done => None,
        }
    }

    /// Whether going from here to there pays a round.
    pub fn pays(self, to: Phase) -> bool {
        self.leads_to(to) && self.forward() != Some(to) && to != Revert
    }

    /// The word that does the work of this phase.
    pub const fn task(self) -> Option<&'static str> {
        match self {
            Planning => Some("plan"),
            PlanReview => Some("review_plan"),
            Codegen => Some("codegen"),
            Review => Some("review_code"),
            Test => Some("test"),
            Accept => Some("accept"),
            Revert => Some("revert"),
            Done => None,
        }
    }

    /// The command that does the work of this phase.
    pub const fn command(self) -> Option<&'static str> {
        match self {
            Planning => Some("ftl plan"),
            PlanReview => Some("ftl review plan"),
            Codegen => Some("ftl codegen"),
            Review => Some("ftl review code"),
            Test => Some("ftl test"),
            Accept => Some("ftl accept"),
            Revert => Some("ftl revert"),
            Done => None,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// An edge as it is written: `FROM TO`.
pub fn edge(from: Phase, to: Phase) -> String {
    format!("{from} {to}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_are_those_of_the_protocol() {
        let text = include_str!("../../../../protocols/lifecycle.md");
        let (_, table) = text.split_once("## Allowed transitions").unwrap();
        let rows = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
        let mut written: Vec<String> = rows
            .take_while(|line| line.starts_with('|'))
            .map(|line| {
                let cells: Vec<&str> = line.split('|').map(str::trim).collect();
                format!("{} {}", cells[1], cells[2])
            })
            .collect();
        let mut known: Vec<String> = EDGES.iter().map(|(from, to)| edge(*from, *to)).collect();
        written.sort();
        known.sort();
        assert_eq!(known, written);
    }

    #[test]
    fn older_names_are_read_and_no_others() {
        let cases = [
            ("planning_done", Some(Planning)),
            ("codegen_done", Some(Codegen)),
            ("code_review", Some(Review)),
            ("code_review_meeting", Some(Review)),
            ("test_run", Some(Test)),
            ("accept", Some(Accept)),
            ("planning_meeting", None),
            ("Planning", None),
            ("", None),
        ];
        for (word, phase) in cases {
            assert_eq!(Phase::read(word), phase, "{word}");
        }
        assert_eq!(Phase::of("test_run"), None, "nobody types an older name");
    }

    #[test]
    fn the_way_forward_is_made_of_edges_that_pay_nothing() {
        for phase in PHASES {
            if let Some(next) = phase.forward() {
                assert!(phase.leads_to(next) && !phase.pays(next), "{phase}");
            }
        }
        let paying = EDGES.iter().filter(|(from, to)| from.pays(*to)).count();
        assert_eq!(paying, 11, "all backward edges and both redos");
    }
}
