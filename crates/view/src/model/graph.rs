//! Where each task stands in a drawing: columns by depth, lines ordered so that few of them cross, and the critical path.
//!
//! Faces only draw. Each task and each edge is looked at a fixed number of times, so ten thousand tasks take milliseconds.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::board::depths;

/// How wide a column is, and how far apart two rows are: the units of the drawing.
pub const COLUMN: u32 = 220;
/// How far apart two rows are, in the same units.
pub const ROW: u32 = 52;

/// How often the columns are put in order.
const SWEEPS: usize = 4;

/// A drawing of tasks. Places are in the order of the tasks that were handed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Places {
    /// The width and the height of the drawing.
    #[serde(rename = "box")]
    pub size: (u32, u32),
    /// Where each task stands, from the left.
    pub x: Vec<u32>,
    /// Where each task stands, from the top.
    pub y: Vec<u32>,
    /// Pairs of a task and one that waits for it, one after the other.
    pub edges: Vec<u32>,
    /// The longest row of tasks, from its first to its last.
    pub critical: Vec<u32>,
    /// The waves that are folded into one box: a depth, and where its box stands in `x` and `y`, behind the tasks.
    pub groups: Vec<(u32, u32)>,
}

/// A task that is placed: its name, the names of those it waits for, and how much it weighs on the critical path.
#[derive(Clone, Debug)]
pub struct GraphNode<'a> {
    /// The number of the task.
    pub seq: &'a str,
    /// The numbers of the tasks that it waits for.
    pub depends: &'a [String],
    /// How long it took, or is thought to take.
    pub weight: u64,
}

/// Places tasks. An edge to a task that is not there is left out.
pub fn places(nodes: &[GraphNode<'_>]) -> Places {
    places_folded(nodes, &BTreeSet::new())
}

/// The same with the tasks of some depths folded into one box each. A folded task stands where its box does.
pub fn places_folded(nodes: &[GraphNode<'_>], folded: &BTreeSet<usize>) -> Places {
    let index: BTreeMap<&str, usize> = nodes.iter().enumerate().map(|(at, node)| (node.seq, at)).collect();
    let above: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| node.depends.iter().filter_map(|seq| index.get(seq.as_str()).copied()).collect())
        .collect();
    let depth = depths(&above);
    let columns = ordered(&above, &depth);
    let (mut x, mut y) = (vec![0; nodes.len()], vec![0; nodes.len()]);
    let is_folded =
        |column: usize| folded.contains(&column) && columns.get(column).is_some_and(|all| all.len() > 1);
    let height = |column: usize, tasks: &[usize]| if is_folded(column) { 1 } else { tasks.len() };
    let highest = columns.iter().enumerate().map(|(at, tasks)| height(at, tasks)).max().unwrap_or(0);
    let (mut groups, mut box_of) = (Vec::new(), BTreeMap::new());
    for (column, tasks) in columns.iter().enumerate() {
        if is_folded(column) {
            let middle = (number(column) * COLUMN, number((highest - 1) * ROW as usize / 2));
            tasks.iter().for_each(|task| (x[*task], y[*task]) = middle);
            groups.push((number(column), number(x.len())));
            box_of.insert(column, x.len());
            x.push(middle.0);
            y.push(middle.1);
            continue;
        }
        // Shorter columns stand in the middle of the longest one.
        let lead = (highest - tasks.len()) * ROW as usize / 2;
        for (row, task) in tasks.iter().enumerate() {
            x[*task] = number(column) * COLUMN;
            y[*task] = number(lead + row * ROW as usize);
        }
    }
    let place = |task: usize| box_of.get(&depth[task]).copied().unwrap_or(task);
    let edges = above.iter().enumerate().flat_map(|(at, all)| all.iter().map(move |parent| [*parent, at]));
    let edges = edges.map(|[from, to]| [place(from), place(to)]).filter(|[from, to]| from != to);
    // Between two boxes there is one line, however many tasks are in them.
    let mut seen = BTreeSet::new();
    let edges = edges.filter(|edge| box_of.is_empty() || seen.insert(*edge));
    let mut critical: Vec<usize> = critical(nodes, &above, &depth).into_iter().map(place).collect();
    critical.dedup();
    Places {
        size: (number(columns.len()) * COLUMN, number(highest) * ROW),
        x,
        y,
        edges: edges.flatten().map(number).collect(),
        critical: critical.into_iter().map(number).collect(),
        groups,
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The tasks of each column, in the order in which they are drawn: next to the middle of those they wait for.
fn ordered(above: &[Vec<usize>], depth: &[usize]) -> Vec<Vec<usize>> {
    let mut columns: Vec<Vec<usize>> = vec![Vec::new(); depth.iter().max().map_or(0, |deepest| deepest + 1)];
    depth.iter().enumerate().for_each(|(at, depth)| columns[*depth].push(at));
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); above.len()];
    for (at, parents) in above.iter().enumerate() {
        parents.iter().for_each(|parent| below[*parent].push(at));
    }
    let mut row: Vec<usize> = vec![0; above.len()];
    let place = |column: &[usize], row: &mut Vec<usize>| {
        column.iter().enumerate().for_each(|(at, task)| row[*task] = at);
    };
    columns.iter().for_each(|column| place(column, &mut row));
    for sweep in 0..SWEEPS {
        let (beside, down) = if sweep % 2 == 0 { (above, true) } else { (below.as_slice(), false) };
        for step in 0..columns.len() {
            let at = if down { step } else { columns.len() - 1 - step };
            let middle = |task: &usize| match beside[*task].as_slice() {
                [] => row[*task] * 1024,
                all => all.iter().map(|other| row[*other] * 1024).sum::<usize>() / all.len(),
            };
            let column = std::mem::take(&mut columns[at]);
            let mut keyed: Vec<(usize, usize, usize)> =
                column.iter().map(|task| (middle(task), row[*task], *task)).collect();
            keyed.sort_unstable();
            columns[at] = keyed.into_iter().map(|(.., task)| task).collect();
            place(&columns[at], &mut row);
        }
    }
    columns
}

/// The heaviest row of tasks, from one that waits for no other to one that no other waits for.
fn critical(nodes: &[GraphNode<'_>], above: &[Vec<usize>], depth: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|at| depth[*at]);
    let mut sum: Vec<u64> = vec![0; nodes.len()];
    let mut before: Vec<Option<usize>> = vec![None; nodes.len()];
    for at in order {
        // In a broken plan a parent may stand beside its child: it does not count.
        let parents = above[at].iter().copied().filter(|parent| depth[*parent] < depth[at]);
        let heaviest = parents.max_by_key(|parent| (sum[*parent], std::cmp::Reverse(*parent)));
        before[at] = heaviest;
        sum[at] = heaviest.map_or(0, |parent| sum[parent]).saturating_add(nodes[at].weight.max(1));
    }
    let mut at = (0..nodes.len()).max_by_key(|at| (sum[*at], std::cmp::Reverse(*at)));
    let mut path = Vec::new();
    while let Some(task) = at {
        path.push(task);
        at = before[task];
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(tasks: &[(&str, &[&str], u64)]) -> Places {
        let depends: Vec<Vec<String>> =
            tasks.iter().map(|(_, on, _)| on.iter().map(|one| (*one).to_owned()).collect()).collect();
        let nodes: Vec<GraphNode<'_>> = tasks
            .iter()
            .zip(&depends)
            .map(|((seq, _, weight), depends)| GraphNode { seq, depends, weight: *weight })
            .collect();
        places(&nodes)
    }

    #[test]
    fn tasks_stand_right_of_those_they_wait_for() {
        let drawn = placed(&[("b", &["a"], 1), ("a", &[], 1), ("c", &["a", "b"], 1), ("d", &["gone"], 1)]);
        assert_eq!(drawn.x, [COLUMN, 0, 2 * COLUMN, 0]);
        assert_eq!(drawn.size, (3 * COLUMN, 2 * ROW));
        assert_eq!(drawn.edges, [1, 0, 1, 2, 0, 2]);
        assert_eq!(drawn.critical, [1, 0, 2]);
    }

    #[test]
    fn the_critical_path_is_the_heaviest() {
        let drawn = placed(&[("a", &[], 1), ("b", &[], 9), ("c", &["a"], 1), ("d", &["b"], 1)]);
        assert_eq!(drawn.critical, [1, 3]);
        assert_eq!(
            placed(&[]),
            Places { size: (0, 0), x: vec![], y: vec![], edges: vec![], critical: vec![], groups: vec![] }
        );
    }

    #[test]
    fn a_wave_folds_into_one_box_with_one_line_to_each_neighbour() {
        let depends: [Vec<String>; 5] =
            [vec![], vec!["a".into()], vec!["a".into()], vec!["b".into(), "c".into()], vec!["d".into()]];
        let names = ["a", "b", "c", "d", "e"];
        let nodes: Vec<GraphNode<'_>> =
            names.iter().zip(&depends).map(|(seq, depends)| GraphNode { seq, depends, weight: 1 }).collect();
        let drawn = places_folded(&nodes, &[1, 2].into());
        assert_eq!(drawn.groups, [(1, 5)], "a wave of one task stays as it is");
        assert_eq!((drawn.x[1], drawn.x[2], drawn.x[5]), (COLUMN, COLUMN, COLUMN));
        assert_eq!(drawn.edges, [0, 5, 5, 3, 3, 4]);
        assert_eq!(drawn.critical, [0, 5, 3, 4]);
        assert_eq!(drawn.size.1, ROW);
    }

    #[test]
    fn two_rows_that_need_not_cross_do_not() {
        let drawn = placed(&[("a", &[], 1), ("b", &[], 1), ("y", &["b"], 1), ("x", &["a"], 1)]);
        assert_eq!(drawn.y[0], drawn.y[3], "x stands beside a");
        assert_eq!(drawn.y[1], drawn.y[2], "y stands beside b");
    }

    #[test]
    fn no_two_tasks_stand_at_one_place() {
        let names: Vec<String> = (0..2000).map(|at| format!("{at:04}")).collect();
        let depends: Vec<Vec<String>> = (0..2000_usize)
            .map(|at| {
                if at > 40 {
                    vec![names[at - 40].clone(), names[at * 7 % at].clone()]
                } else {
                    Default::default()
                }
            })
            .collect();
        let nodes: Vec<GraphNode<'_>> =
            names.iter().zip(&depends).map(|(seq, depends)| GraphNode { seq, depends, weight: 1 }).collect();
        let drawn = places(&nodes);
        let spots: std::collections::BTreeSet<_> = drawn.x.iter().zip(&drawn.y).collect();
        assert_eq!(spots.len(), 2000);
    }
}
