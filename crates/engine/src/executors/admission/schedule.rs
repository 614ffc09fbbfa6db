//! How close the order in which tasks are let in comes to what no schedule can beat: simulated, with nothing taking any
//! time but agents. How long an agent will take is not known before.

use super::tests::{Idle, job, key, rank};
use super::*;

/// The least share of what no schedule can beat, in percent.
const LEAST: u64 = 97;

const TASKS: usize = 200;
const AGENTS: usize = 4;

/// Numbers that are the same on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

/// The parents of each task, and how long its agent works, in milliseconds.
struct Graph {
    parents: Vec<Vec<usize>>,
    works: Vec<u64>,
}

impl Graph {
    fn random(dice: &mut Dice) -> Graph {
        let mut graph = Graph { parents: Vec::new(), works: Vec::new() };
        for at in 0..TASKS {
            let count = dice.roll(3).min(at);
            graph.parents.push((0..count).map(|_| dice.roll(at)).collect());
            graph.works.push(2_000 + dice.roll(6_000) as u64);
        }
        graph
    }

    /// The largest sum along a row from each task on.
    fn rows(&self, weight: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut below = vec![0; TASKS];
        let mut rows = vec![0; TASKS];
        for at in (0..TASKS).rev() {
            rows[at] = weight(at) + below[at];
            for parent in &self.parents[at] {
                below[*parent] = below[*parent].max(rows[at]);
            }
        }
        rows
    }

    /// What no schedule can beat: the critical path, or all work shared by all agents.
    fn bound(&self) -> u64 {
        let path = self.rows(|at| self.works[at]).into_iter().max().unwrap();
        path.max(self.works.iter().sum::<u64>() / AGENTS as u64)
    }

    /// When the last agent ends, let in as in a run.
    fn play(&self) -> u64 {
        let (admission, began) = (Admission::new(AGENTS), Instant::now());
        let rows = self.rows(|_| 1);
        let urgency = |at: usize| usize::try_from(rows[at]).unwrap();
        let (mut asked, mut done) = (vec![false; TASKS], vec![false; TASKS]);
        let mut at_work: BTreeMap<(u64, usize), Key> = BTreeMap::new();
        let mut now = 0;
        loop {
            for (at, asked) in asked.iter_mut().enumerate() {
                if !*asked && self.parents[at].iter().all(|parent| done[*parent]) {
                    *asked = true;
                    admission.wait(rank(at as u64, urgency(at)), job(at as u64), Arc::new(Idle));
                }
            }
            for (begun, _) in admission.let_in(began + Duration::from_millis(now)) {
                let at = usize::try_from(begun.action.id.entry).unwrap();
                admission.on_end(key(at as u64));
                let agent = job((TASKS + at) as u64);
                admission.begins(Part::Agent, &rank(at as u64, urgency(at)), &agent);
                at_work.insert((now + self.works[at], at), (agent.action.instance, agent.action.id));
            }
            let Some(((end, at), agent)) = at_work.pop_first() else { return now };
            now = end;
            admission.on_end(agent);
            // The campaign enters what became of it, which takes no time here.
            let entering = job((2 * TASKS + at) as u64);
            admission.begins(Part::Campaign, &rank(at as u64, 0), &entering);
            admission.on_end((entering.action.instance, entering.action.id));
            done[at] = true;
        }
    }
}

#[test]
fn random_graphs_take_hardly_longer_than_any_schedule_must() {
    let mut dice = Dice(42);
    for number in 0..20 {
        let graph = Graph::random(&mut dice);
        let (took, bound) = (graph.play(), graph.bound());
        assert!(
            bound * 100 >= took * LEAST,
            "graph {number}: {took} ms, and none can take less than {bound} ms"
        );
    }
}
