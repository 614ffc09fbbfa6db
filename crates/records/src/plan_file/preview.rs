//! A plan before it is carried out: in which order, how deep, with how much, and where tasks get in each
//! other's way. It is for people and changes nothing.

use std::collections::BTreeMap;
use std::fmt;

use ftl_core::json::{Json, JsonExt as _};
use ftl_core::plan::{Graph, Problems, TaskIndex};

use super::{CampaignPlan, PlanTask};

/// How many conflicts are told.
pub const MAX_CONFLICTS: usize = 200;

/// How many pairs of tasks are looked at for conflicts.
pub const MAX_PAIRS: usize = 100_000;

/// A plan as it will be carried out.
pub struct Preview<'a> {
    /// Every task after all that it depends on, with how many tasks stand before it at least.
    pub order: Vec<(&'a PlanTask, usize)>,
    /// Tasks that would change the same files and that nothing puts in an order.
    pub conflicts: Vec<Conflict>,
    /// Whether all pairs of tasks were looked at, and all conflicts are told.
    pub is_whole: bool,
}

/// Two tasks that would change the same files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The tasks, by seq.
    pub tasks: (String, String),
    /// The files that both tasks change.
    pub files: Vec<String>,
}

/// What is wrong with the graph of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphError(Problems);

impl fmt::Display for GraphError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        out.write_str(&problems.join("; "))
    }
}

impl std::error::Error for GraphError {}

impl<'a> Preview<'a> {
    /// A plan that is valid; an error where its graph is none.
    pub fn of(plan: &'a CampaignPlan) -> Result<Preview<'a>, GraphError> {
        let arrows: Vec<(&str, &[String])> =
            plan.tasks.iter().map(|task| (task.seq.as_str(), task.depends.as_slice())).collect();
        let graph = Graph::build(&arrows).map_err(GraphError)?;
        let mut depth = vec![0_usize; graph.len()];
        for place in graph.order() {
            let above = graph.depends(*place).iter().map(|parent| depth[parent.index()] + 1);
            depth[place.index()] = above.max().unwrap_or(0);
        }
        let mut order: Vec<TaskIndex> = graph.order().to_vec();
        order.sort_by_key(|place| (depth[place.index()], *place));
        let order = order.iter().map(|place| (&plan.tasks[place.index()], depth[place.index()])).collect();
        let (conflicts, is_whole) = conflicts(plan, &graph, &depth);
        Ok(Preview { order, conflicts, is_whole })
    }

    /// How many rounds the plan takes where everything that may run together does.
    pub fn depth(&self) -> usize {
        self.order.iter().map(|(_, depth)| depth + 1).max().unwrap_or(0)
    }

    /// The calls of tools that all tasks have together.
    pub fn budget(&self) -> u64 {
        self.order.iter().map(|(task, _)| task.budget).sum()
    }

    /// `{order, depth, budget, conflicts, whole}`.
    pub fn to_json(&self) -> Json {
        let task = |(task, depth): &(&PlanTask, usize)| {
            Json::object([
                ("seq", Json::from(task.seq.as_str())),
                ("slug", Json::from(task.slug.as_str())),
                ("depth", Json::from(*depth)),
                ("budget", Json::from(task.budget)),
                ("depends", Json::from(task.depends.as_slice())),
            ])
        };
        let conflict = |one: &Conflict| {
            Json::object([
                ("tasks", Json::list([one.tasks.0.as_str(), &one.tasks.1])),
                ("files", Json::from(one.files.as_slice())),
            ])
        };
        Json::object([
            ("order", Json::Array(self.order.iter().map(task).collect())),
            ("depth", Json::from(self.depth())),
            ("budget", Json::from(self.budget())),
            ("conflicts", Json::Array(self.conflicts.iter().map(conflict).collect())),
            ("whole", Json::Bool(self.is_whole)),
        ])
    }
}

/// Tasks that share files and that nothing puts in an order; whether all of them were found.
fn conflicts(plan: &CampaignPlan, graph: &Graph, depth: &[usize]) -> (Vec<Conflict>, bool) {
    let mut by_file: BTreeMap<&str, Vec<TaskIndex>> = BTreeMap::new();
    for (task, place) in plan.tasks.iter().zip(graph.places()) {
        for file in &task.delta {
            by_file.entry(file).or_default().push(place);
        }
    }
    let mut shared: BTreeMap<(TaskIndex, TaskIndex), Vec<String>> = BTreeMap::new();
    let mut left = MAX_PAIRS;
    'all: for (file, places) in by_file {
        for (at, one) in places.iter().enumerate() {
            for other in &places[at + 1..] {
                let Some(less) = left.checked_sub(1) else { break 'all };
                left = less;
                shared.entry((*one, *other)).or_default().push(file.to_owned());
            }
        }
    }
    shared.retain(|(one, other), _| !is_ordered(graph, depth, *one, *other));
    let all = list_conflicts(plan, &shared);
    let is_whole = left > 0 && all.len() == shared.len();
    (all, is_whole)
}

fn list_conflicts(
    plan: &CampaignPlan,
    shared: &BTreeMap<(TaskIndex, TaskIndex), Vec<String>>,
) -> Vec<Conflict> {
    let seq = |place: &TaskIndex| plan.tasks[place.index()].seq.clone();
    let conflict = |((one, other), files): (&(TaskIndex, TaskIndex), &Vec<String>)| Conflict {
        tasks: (seq(one), seq(other)),
        files: files.clone(),
    };
    shared.iter().take(MAX_CONFLICTS).map(conflict).collect()
}

/// Whether one of two tasks can only start when the other has ended.
fn is_ordered(graph: &Graph, depth: &[usize], one: TaskIndex, other: TaskIndex) -> bool {
    let (low, high) = if depth[one.index()] > depth[other.index()] { (one, other) } else { (other, one) };
    let mut seen = vec![false; graph.len()];
    let mut open = vec![low];
    while let Some(place) = open.pop() {
        for parent in graph.depends(place) {
            if *parent == high {
                return true;
            }
            // What is not below the other cannot have it above.
            if depth[parent.index()] > depth[high.index()] && !seen[parent.index()] {
                seen[parent.index()] = true;
                open.push(*parent);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_file::read;

    fn plan(rows: &[(&str, &str, &str)]) -> CampaignPlan {
        let tasks: Vec<String> = rows
            .iter()
            .map(|(seq, depends, files)| {
                let list = |text: &str| {
                    text.split_whitespace().map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(",")
                };
                format!(
                    r#"{{"seq":"{seq}","slug":"t-{seq}","delta":[{}],"creates":[{}],"verify":"true","depends":[{}]}}"#,
                    list(files),
                    list(files),
                    list(depends)
                )
            })
            .collect();
        read(&format!(r#"{{"objective":"o","tasks":[{}]}}"#, tasks.join(","))).unwrap()
    }

    fn render_rows(rows: &[(&str, &str, &str)]) -> (String, String) {
        let plan = plan(rows);
        let preview = Preview::of(&plan).unwrap();
        assert!(preview.is_whole);
        let order: Vec<String> =
            preview.order.iter().map(|(task, depth)| format!("{}@{depth}", task.seq)).collect();
        let conflicts: Vec<String> = preview
            .conflicts
            .iter()
            .map(|one| format!("{}+{}:{}", one.tasks.0, one.tasks.1, one.files.join(",")))
            .collect();
        (order.join(" "), conflicts.join(" "))
    }

    #[test]
    fn order_depth_and_conflicts() {
        type Rows<'a> = &'a [(&'a str, &'a str, &'a str)];
        let cases: [(Rows<'_>, &str, &str); 5] = [
            (&[("001", "", "a")], "001@0", ""),
            (&[("001", "", "a"), ("002", "", "a b")], "001@0 002@0", "001+002:a"),
            (&[("001", "", "a"), ("002", "001", "a")], "001@0 002@1", ""),
            (&[("001", "", "a"), ("002", "001", "b"), ("003", "002", "a")], "001@0 002@1 003@2", ""),
            (
                &[("001", "", "a"), ("002", "", "x"), ("003", "001 002", "b c"), ("004", "002", "c b")],
                "001@0 002@0 003@1 004@1",
                "003+004:b,c",
            ),
        ];
        for (rows, order, conflicts) in cases {
            assert_eq!(render_rows(rows), (order.to_owned(), conflicts.to_owned()));
        }
    }

    #[test]
    fn conflicts_have_limits() {
        let seqs: Vec<String> = (1..=460).map(|at| format!("{at:03}")).collect();
        let rows: Vec<(&str, &str, &str)> = seqs.iter().map(|seq| (seq.as_str(), "", "a")).collect();
        // 30 tasks make 435 pairs, which are all looked at and not all told; 460 make more than are looked at.
        for count in [30, 460] {
            let plan = plan(&rows[..count]);
            let preview = Preview::of(&plan).unwrap();
            assert_eq!((preview.conflicts.len(), preview.is_whole), (MAX_CONFLICTS, false), "{count}");
        }
        const { assert!(460 * 459 / 2 > MAX_PAIRS) };
    }
}
