//! The five protocols of the design, as machines to draw.

use ftl_language::draw::{Arrow, DrawnState, Machine};

/// A machine from lines `FROM TO label`; states are written `NAME`, `NAME!` when final,
/// `NAME?` when an instance may be held there.
pub(crate) fn machine(name: &str, states: &str, edges: &str) -> Machine {
    let shape = |word: &str| DrawnState {
        name: word.trim_end_matches(['!', '?']).to_owned(),
        last: word.contains('!'),
        can_hold: word.contains('?'),
    };
    let arrow = |line: &str| {
        let mut words = line.trim().splitn(3, ' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        Arrow { from: word(), to: word(), label: word() }
    };
    Machine {
        name: name.to_owned(),
        states: states.split_whitespace().map(shape).collect(),
        edges: edges.trim().lines().map(arrow).collect(),
    }
}

/// One objective, one builder.
pub(crate) fn task() -> Machine {
    machine(
        "task",
        "INIT EXPLORE PLAN? BUILD? OBSERVE COMPLETE!? ERROR",
        "INIT EXPLORE
        EXPLORE PLAN found
        EXPLORE ERROR quorum failure
        PLAN PLAN clarify
        PLAN BUILD plan is valid
        BUILD OBSERVE
        OBSERVE COMPLETE
        ERROR PLAN timeout, partial data",
    )
}

/// Many tasks in a graph.
pub(crate) fn campaign() -> Machine {
    machine(
        "campaign",
        "INIT EXPLORE PLAN? REGISTER? EXECUTE CASCADE? OBSERVE COMPLETE!? ERROR",
        "INIT EXPLORE
        EXPLORE PLAN found
        EXPLORE ERROR quorum failure
        PLAN PLAN clarify
        PLAN REGISTER plan is valid
        REGISTER EXECUTE
        EXECUTE EXECUTE a batch settled
        EXECUTE CASCADE no task is ready, or rounds are spent
        CASCADE EXECUTE replanned
        CASCADE OBSERVE nothing to replan
        OBSERVE COMPLETE
        ERROR PLAN timeout, partial data",
    )
}

/// One brief, a few tools, an honest end.
pub(crate) fn builder() -> Machine {
    machine(
        "builder",
        "READ PLAN READ_TESTS IMPLEMENT PREFLIGHT VERIFY RETRY QUALITY COMPLETE!? BLOCK!",
        "READ PLAN workspace parsed
        READ BLOCK cannot be read
        PLAN READ_TESTS tests to read
        PLAN IMPLEMENT no tests to read
        PLAN BLOCK not sound
        READ_TESTS IMPLEMENT read or skipped
        IMPLEMENT PREFLIGHT written
        IMPLEMENT BLOCK tools spent
        PREFLIGHT PREFLIGHT fix syntax
        PREFLIGHT VERIFY syntax.passed
        PREFLIGHT BLOCK attempts spent
        VERIFY QUALITY report.passed
        VERIFY RETRY tools.left >= 2
        VERIFY BLOCK budget exhausted
        RETRY VERIFY fix applied
        RETRY BLOCK discovery needed
        QUALITY COMPLETE idioms.passed
        QUALITY BLOCK idiom violation",
    )
}

/// A coder writes, an architect decides.
pub(crate) fn coder() -> Machine {
    machine(
        "coder",
        "WAITING SETUP PLANNING? PLAN_REVIEW? CODING TESTING? BUDGET_REVIEW? CODE_REVIEW? AWAIT_MERGE? DONE! ERROR!",
        "WAITING SETUP receive task
        WAITING ERROR failed
        SETUP PLANNING workspace ready
        SETUP ERROR setup failed
        PLANNING PLAN_REVIEW submit plan
        PLAN_REVIEW CODING approve
        PLAN_REVIEW PLANNING changes
        PLAN_REVIEW ERROR abandon
        PLAN_REVIEW DONE already satisfied
        CODING TESTING code complete
        CODING BUDGET_REVIEW iteration limit
        CODING ERROR unrecoverable
        TESTING CODE_REVIEW tests pass
        TESTING CODING tests fail
        BUDGET_REVIEW PLANNING pivot or replan
        BUDGET_REVIEW CODING continue
        BUDGET_REVIEW ERROR abandon
        CODE_REVIEW AWAIT_MERGE approve
        CODE_REVIEW CODING changes
        CODE_REVIEW ERROR abandon
        AWAIT_MERGE DONE landed
        AWAIT_MERGE CODING conflict
        AWAIT_MERGE ERROR merge failed",
    )
}

/// A person says each word.
pub(crate) fn lifecycle() -> Machine {
    machine(
        "lifecycle",
        "planning? plan_review? codegen? review? test? accept? revert? done!",
        "planning plan_review planning succeeded
        planning planning redo
        plan_review codegen review ok
        plan_review planning needs changes or blocked
        codegen review completed
        codegen planning scope mismatch
        codegen plan_review plan unclear
        codegen codegen redo
        review test review passes
        review codegen needs code changes
        review planning plan flawed
        test accept tests complete
        test codegen test failures
        accept done accepted
        accept codegen requires further changes
        accept review unclear
        accept planning upstream problem
        accept revert revert requested
        revert done reverted",
    )
}

/// All five.
pub(crate) fn all() -> [Machine; 5] {
    [task(), campaign(), builder(), coder(), lifecycle()]
}
