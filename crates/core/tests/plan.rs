//! Tests of the plan: tables with one line a case, a naive model, and very long plans.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use ftl_core::plan::{
    Cascade, CascadeState, Graph, MAX_ROOTS, PlanProblem, PlanProgress, Problems, TaskIndex, TaskStatus,
    parse_status,
};

/// `002<001,003` is task 002, which depends on 001 and 003.
fn build(plan: &str) -> Result<Graph, Problems> {
    let split = |task: &str| match task.split_once('<') {
        Some((seq, depends)) => (seq.to_owned(), depends.split(',').map(str::to_owned).collect()),
        None => (task.to_owned(), Vec::new()),
    };
    let tasks: Vec<(String, Vec<String>)> = plan.split_whitespace().map(split).collect();
    Graph::build(&tasks)
}

fn settle(progress: &mut PlanProgress, seq: &str, status: TaskStatus) -> TaskStatus {
    progress.settle_at(progress.graph().find(seq).unwrap(), status)
}

/// A plan that is right, after changes such as `001=complete`.
fn progress(plan: &str, changes: &str) -> PlanProgress {
    let mut progress = PlanProgress::new(Arc::new(build(plan).unwrap()));
    for change in changes.split_whitespace().filter(|word| *word != "-") {
        let (seq, status) = change.split_once('=').unwrap();
        settle(&mut progress, seq, TaskStatus::parse(status).unwrap());
    }
    progress
}

fn spelled(progress: &PlanProgress, places: impl IntoIterator<Item = TaskIndex>) -> String {
    let names: Vec<&str> = places.into_iter().map(|place| &**progress.graph().seq(place)).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(" ") }
}

/// `003<002!001`: task 003 is blocked by 002, and it began with 001.
fn spelled_unreachable(cascade: &Cascade) -> String {
    let lines: Vec<String> = cascade
        .unreachable
        .iter()
        .map(|task| format!("{}<{}!{}", task.seq, task.blocked_by.join(","), task.root_causes.join(",")))
        .collect();
    if lines.is_empty() { "-".to_owned() } else { lines.join(" ") }
}

fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [&str; N]> {
    let lines = table.lines().filter(|line| !line.trim().is_empty());
    let cells = lines.map(|line| (line, line.split('|').map(str::trim).collect::<Vec<&str>>()));
    cells.map(|(line, cells)| cells.try_into().unwrap_or_else(|_| panic!("not {N} cells: {line}")))
}

#[test]
fn a_plan_is_taken_or_all_its_problems_are_told() {
    let table = "
        001 002<001 003<001,002        | ok
        001 2<1 3<0002                 | ok
        001<none 002<, 003<none,001    | ok
        a b<a                          | ok
        001 002<001,1,01               | ok
        -1 5000000<-1                  | ok
        99999999999999999999 2<99999999999999999999 | ok
        001 1                          | Duplicate task seq: 1 (the same as 001)
        a a                            | Duplicate task seq: a
        A a                            | ok
        001<009                        | Task 001 depends on unknown task 009
        001<1                          | Task 001 depends on itself
        001<1,001                      | Task 001 depends on itself
        none                           | Task at position 1 has no seq
        001 <001                       | Task at position 2 has no seq
        001<003 002<001 003<002        | Cycle detected in task dependencies: 001 → 003 → 002 → 001
        001<3 002<1 003<2              | Cycle detected in task dependencies: 001 → 003 → 002 → 001
        1 2<1,4 3<2 4<3                | Cycle detected in task dependencies: 2 → 4 → 3 → 2
        1<2 2<3 3<2                    | Cycle detected in task dependencies: 2 → 3 → 2
        1<2 2<1 3<4 4<3                | Cycle detected in task dependencies: 1 → 2 → 1; Cycle detected in task dependencies: 3 → 4 → 3
        1<2,3 2<1 3<1                  | Cycle detected in task dependencies: 1 → 2 → 1
        7 07 1<1,9 2<3 3<2             | Duplicate task seq: 07 (the same as 7); Task 1 depends on itself; Task 1 depends on unknown task 9; Cycle detected in task dependencies: 2 → 3 → 2
    ";
    for [plan, expected] in rows(table) {
        let told = match build(plan) {
            Ok(_) => "ok".to_owned(),
            Err(problems) => problems.to_string().replace('\n', "; "),
        };
        assert_eq!(told, expected, "plan: {plan}");
    }
}

#[test]
fn progress_tells_what_is_ready_what_never_runs_and_how_it_stands() {
    let table = "
        plan                   | changes                       | ready | unreachable                | roots | state
        1 2<1 3<2              | -                             | 1     | -                          | -     | in_progress
        1 2<1 3<2              | 1=in_progress                 | -     | -                          | -     | in_progress
        1 2<1 3<2              | 1=complete                    | 2     | -                          | -     | in_progress
        1 2<1 3<2              | 1=complete 2=complete         | 3     | -                          | -     | in_progress
        1 2                    | 1=complete 2=complete         | -     | -                          | -     | complete
        1 2                    | 1=blocked 2=blocked           | -     | -                          | 1 2   | complete
        001 002<001 003<002    | 1=blocked                     | -     | 002<001!001 003<002!001    | 001   | stuck
        001 002<1 003          | 1=blocked                     | 003   | 002<001!001                | 001   | in_progress
        001 002<1 003          | 1=blocked 3=in_progress       | -     | 002<001!001                | 001   | in_progress
        1 2 3<1,2              | 1=blocked 2=blocked           | -     | 3<1,2!1,2                  | 1 2   | stuck
        1 2 3<1,2 4<3          | 1=complete 2=blocked          | -     | 3<2!2 4<3!2                | 2     | stuck
        1 2<1 3<2              | 1=blocked 2=blocked           | -     | 3<2!1                      | 1     | stuck
        1 2<1 3<2              | 1=blocked 2=complete          | 3     | -                          | 1     | in_progress
        1 2<1 3<2              | 1=blocked 2=in_progress       | -     | -                          | 1     | in_progress
        3 1<3 2<3              | 3=complete                    | 1 2   | -                          | -     | in_progress
        1 2<1                  | 1=complete 1=pending          | 1     | -                          | -     | in_progress
        1 2<1                  | 1=complete 1=complete         | 2     | -                          | -     | in_progress
        1 2<1                  | 1=blocked 1=pending           | 1     | -                          | -     | in_progress
                               | -                             | -     | -                          | -     | complete
    ";
    for [plan, changes, ready, unreachable, roots, state] in rows(table).skip(1) {
        let progress = progress(plan, changes);
        let cascade = Cascade::of(Some(&progress));
        let found = [
            spelled(&progress, progress.ready()),
            spelled_unreachable(&cascade),
            spelled(&progress, progress.root_causes()),
            cascade.state.to_string(),
        ];
        assert_eq!(found, [ready, unreachable, roots, state], "plan: {plan}, changes: {changes}");
    }
}

#[test]
fn without_a_campaign_the_state_is_none() {
    assert_eq!(Cascade::of(None).state, CascadeState::None);
}

#[test]
fn blocks_propagate_at_any_time() {
    let mut progress = progress("1 2<1 3<2 4", "1=blocked 4=in_progress");
    let told = progress.propagate();
    assert_eq!(told.len(), 2);
    assert_eq!(progress.count(TaskStatus::Blocked), 3);
    assert!(progress.propagate().is_empty());
    assert_eq!(spelled(&progress, progress.root_causes()), "1");
    settle(&mut progress, "4", TaskStatus::Complete);
    assert_eq!(Cascade::of(Some(&progress)).state, CascadeState::Complete);
}

#[test]
fn words_that_are_not_known_are_refused() {
    let unknown = parse_status("done").unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "Unknown task status: done (one of pending, in_progress, complete, blocked)"
    );
}

#[test]
fn root_causes_are_listed_up_to_their_limit() {
    let count = MAX_ROOTS + 3;
    let mut tasks: Vec<(String, Vec<String>)> = (0..count).map(|at| (at.to_string(), Vec::new())).collect();
    tasks.push(("last".to_owned(), (0..count).map(|at| at.to_string()).collect()));
    let mut progress = PlanProgress::new(Arc::new(Graph::build(&tasks).unwrap()));
    for at in 0..count {
        settle(&mut progress, &at.to_string(), TaskStatus::Blocked);
    }
    let [last] = &progress.unreachable()[..] else { panic!("only the last task waits") };
    assert_eq!((last.root_causes.len(), last.more_causes, last.blocked_by.len()), (MAX_ROOTS, true, count));
    assert_eq!(last.root_causes[MAX_ROOTS - 1].as_ref(), "63");
}

/// Tasks `0..count`; each depends on those that `below` names.
fn numbered<I: IntoIterator<Item = usize>>(
    count: usize,
    below: impl Fn(usize) -> I,
) -> Vec<(String, Vec<String>)> {
    let depends = |at| below(at).into_iter().map(|other| format!("{other:03}")).collect();
    (0..count).map(|at| (format!("{at:03}"), depends(at))).collect()
}

#[test]
fn a_chain_of_100_000_tasks_runs_to_its_end() {
    let count = 100_000;
    let later_first = numbered(count, |at| (at + 1 < count).then_some(at + 1));
    let mut progress = PlanProgress::new(Arc::new(Graph::build(&later_first).unwrap()));
    for done in 0..count {
        let next = progress.ready().next().unwrap();
        assert_eq!((progress.ready().len(), next.index()), (1, count - 1 - done));
        progress.settle_at(next, TaskStatus::Complete);
    }
    assert_eq!(Cascade::of(Some(&progress)).state, CascadeState::Complete);
}

#[test]
fn a_chain_of_100_000_tasks_is_blocked_from_its_root() {
    let count = 100_000;
    let chain = numbered(count, |at| at.checked_sub(1));
    let mut progress = PlanProgress::new(Arc::new(Graph::build(&chain).unwrap()));
    settle(&mut progress, "0", TaskStatus::Blocked);
    let told = progress.propagate();
    assert_eq!(told.len(), count - 1);
    assert!(told.iter().all(|task| task.root_causes.len() == 1 && &*task.root_causes[0] == "000"));
}

#[test]
fn a_cycle_of_100_000_tasks_is_found_with_its_path() {
    let count = 100_000;
    let ring = numbered(count, |at| [(at + 1) % count]);
    let problems = Graph::build(&ring).unwrap_err();
    let found: Vec<&PlanProblem> = problems.iter().collect();
    let [PlanProblem::Cycle { path }] = found.as_slice() else { panic!("one cycle") };
    assert_eq!((path.len(), path.first()), (count + 1, path.last()));
    let message = problems.to_string();
    assert!(message.starts_with("Cycle detected in task dependencies: 000 → 001 → 002"), "{message}");
    assert!(message.ends_with("→ 098 → … 99901 more … → 000"), "{message}");
}

#[test]
fn arrows_back_from_a_deep_chain_cost_no_more_than_the_plan() {
    let count = 100_000;
    let tangle =
        numbered(count, |at| [Some(at + 1).filter(|next| *next < count), Some(0)].into_iter().flatten());
    let problems = Graph::build(&tangle).unwrap_err();
    let told: usize = problems
        .iter()
        .map(|problem| match problem {
            PlanProblem::Cycle { path } => path.len(),
            _ => 0,
        })
        .sum();
    assert!(told <= 2 * count, "{told}");
}

/// The same questions, asked of plain lists, the slow and obvious way.
struct Model {
    depends: Vec<BTreeSet<usize>>,
    statuses: Vec<TaskStatus>,
}

impl Model {
    fn new(depends: &[Vec<usize>]) -> Model {
        let known = |list: &Vec<usize>| list.iter().copied().filter(|at| *at < depends.len()).collect();
        Model {
            depends: depends.iter().map(known).collect(),
            statuses: vec![TaskStatus::Pending; depends.len()],
        }
    }

    /// All that a task depends on, at any distance.
    fn below(&self, task: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut queue: Vec<usize> = self.depends[task].iter().copied().filter(|at| *at != task).collect();
        while let Some(at) = queue.pop() {
            if found.insert(at) {
                queue.extend(self.depends[at].iter().copied().filter(|other| *other != at));
            }
        }
        found
    }

    fn on_a_cycle(&self, task: usize) -> bool {
        self.below(task).contains(&task)
    }

    fn ready(&self) -> Vec<usize> {
        let complete = |at: &usize| self.statuses[*at] == TaskStatus::Complete;
        let may_start = |task: &usize| {
            self.statuses[*task] == TaskStatus::Pending && self.depends[*task].iter().all(complete)
        };
        (0..self.statuses.len()).filter(may_start).collect()
    }

    fn never_runs(&self, task: usize) -> bool {
        self.statuses[task] == TaskStatus::Pending && self.depends[task].iter().any(|at| self.spoiled(*at))
    }

    fn spoiled(&self, task: usize) -> bool {
        self.statuses[task] == TaskStatus::Blocked || self.never_runs(task)
    }

    fn roots(&self, task: usize) -> BTreeSet<usize> {
        let parents = self.depends[task].iter().filter(|at| self.spoiled(**at));
        let roots: BTreeSet<usize> = parents.flat_map(|at| self.roots(*at)).collect();
        if roots.is_empty() { BTreeSet::from([task]) } else { roots }
    }

    fn state(&self) -> CascadeState {
        let any = |status| self.statuses.contains(&status);
        match (self.ready().is_empty() && !any(TaskStatus::InProgress), any(TaskStatus::Pending)) {
            (false, _) => CascadeState::InProgress,
            (true, false) => CascadeState::Complete,
            (true, true) => CascadeState::Stuck,
        }
    }
}

fn any_depends(unknown: usize) -> impl Strategy<Value = Vec<Vec<usize>>> {
    (0_usize..9).prop_flat_map(move |count| {
        proptest::collection::vec(proptest::collection::vec(0..count + unknown, 0..4), count)
    })
}

fn ordered_depends() -> impl Strategy<Value = Vec<Vec<usize>>> {
    any_depends(1).prop_map(|mut plan| {
        let count = plan.len();
        for (at, list) in plan.iter_mut().enumerate() {
            // Any fixed order rules out cycles; this one is not the order of the plan.
            list.retain(|other| *other < count && (at * 5 % 9, at) > (*other * 5 % 9, *other));
        }
        plan
    })
}

/// Three spellings of one seq.
fn spelling(at: usize, way: usize) -> String {
    match way % 3 {
        0 => format!("{at}"),
        1 => format!("{at:03}"),
        _ => format!(" {at} "),
    }
}

fn spell(plan: &[Vec<usize>]) -> Vec<(String, Vec<String>)> {
    let spelled = |list: &Vec<usize>| list.iter().enumerate().map(|(way, at)| spelling(*at, way)).collect();
    plan.iter().enumerate().map(|(at, list)| (spelling(at, 1), spelled(list))).collect()
}

fn number(name: &str) -> usize {
    name.trim().parse().unwrap()
}

proptest! {
    #[test]
    fn problems_are_those_of_the_model(plan in any_depends(2)) {
        let model = Model::new(&plan);
        let problems = Graph::build(&spell(&plan)).err().map_or(Vec::new(), |problems| problems.iter().cloned().collect());
        let mut on_told_cycle = BTreeSet::new();
        for problem in &problems {
            if let PlanProblem::Cycle { path } = problem {
                prop_assert!(path.len() > 2 && path.first() == path.last());
                for step in path.windows(2) {
                    prop_assert!(model.depends[number(&step[0])].contains(&number(&step[1])));
                    on_told_cycle.insert(number(&step[0]));
                }
            }
        }
        for task in (0..plan.len()).filter(|task| model.on_a_cycle(*task)) {
            let knot = model.below(task).into_iter().filter(|other| model.below(*other).contains(&task));
            prop_assert!(knot.chain([task]).any(|other| on_told_cycle.contains(&other)));
        }
        let count = |wanted: fn(&PlanProblem) -> bool| problems.iter().filter(|problem| wanted(problem)).count();
        let unknown = plan.iter().flatten().filter(|at| **at >= plan.len()).count();
        prop_assert_eq!(count(|problem| matches!(problem, PlanProblem::Unknown { .. })), unknown);
        let itself = (0..plan.len()).filter(|task| plan[*task].contains(task)).count();
        prop_assert_eq!(count(|problem| matches!(problem, PlanProblem::Itself { .. })), itself);
    }

    #[test]
    fn progress_is_that_of_the_model(
        plan in ordered_depends(),
        changes in proptest::collection::vec((0_usize..9, 0_usize..4), 0..24),
    ) {
        let mut model = Model::new(&plan);
        let mut progress = PlanProgress::new(Arc::new(Graph::build(&spell(&plan)).unwrap()));
        for (task, status) in changes.into_iter().filter(|(task, _)| *task < plan.len()) {
            let status = TaskStatus::ALL[status];
            let before = std::mem::replace(&mut model.statuses[task], status);
            prop_assert_eq!(settle(&mut progress, &task.to_string(), status), before);

            let ready: Vec<usize> = progress.ready().map(TaskIndex::index).collect();
            prop_assert_eq!(&ready, &model.ready());
            let cascade = Cascade::of(Some(&progress));
            prop_assert_eq!(cascade.state, model.state());
            let counted = [cascade.pending, cascade.in_progress, cascade.complete, cascade.blocked];
            let count = |status| model.statuses.iter().filter(|own| **own == status).count();
            prop_assert_eq!(counted, TaskStatus::ALL.map(count));
            let never: Vec<usize> = cascade.unreachable.iter().map(|task| task.place.index()).collect();
            let expected: Vec<usize> = (0..plan.len()).filter(|task| model.never_runs(*task)).collect();
            prop_assert_eq!(never, expected);
            for task in &cascade.unreachable {
                let roots: BTreeSet<usize> = task.root_causes.iter().map(|name| number(name)).collect();
                prop_assert_eq!(roots, model.roots(task.place.index()));
                let parents: BTreeSet<usize> = task.blocked_by.iter().map(|name| number(name)).collect();
                let own = &model.depends[task.place.index()];
                prop_assert_eq!(parents, own.iter().copied().filter(|at| model.spoiled(*at)).collect());
            }
        }
    }
}
