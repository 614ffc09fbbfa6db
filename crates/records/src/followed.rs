//! A campaign that is looked at again and again: what has changed since the last look is all that a look costs.
//!
//! It holds the tasks, how far each is, and which of them may start, the most urgent first. A change of a task touches
//! that task and those that wait for it, so that a round of a campaign of a hundred thousand costs what one of a
//! hundred does. It reads and writes nothing: `Records::follow_campaign` feeds it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ftl_core::plan::{PlanProgress, TaskIndex, TaskStatus};

use super::RecordError;
use super::campaign_state::{Campaign, Taken};
use crate::plan_file::merge::CampaignTask;

/// How many ready tasks one look considers: where all of them change the same file, only one may start, and a look that
/// tried every one of them in each round would cost the square of their number.
pub const MAX_CONSIDERED: usize = 1_024;

/// A campaign that is looked at again and again.
#[derive(Clone, Debug)]
pub struct Followed {
    /// How often the campaign had been changed.
    pub(super) count: u64,
    /// Whether its tasks are kept one by one.
    pub(super) is_parted: bool,
    campaign: Campaign,
    progress: PlanProgress,
    /// How many tasks stand one behind the other from each task on, by seq.
    downstream: BTreeMap<String, usize>,
    /// What may start: what most others wait for comes first, and of equal ones the first of the plan.
    urgent: BTreeSet<(Reverse<usize>, TaskIndex)>,
    /// The tasks at work.
    at_work: BTreeSet<TaskIndex>,
}

/// What a look at a campaign finds.
#[derive(Clone, Debug, Default)]
pub struct Look<'a> {
    /// Tasks that may start now: no two of them, nor of those at work, change the same file.
    pub startable: Vec<&'a CampaignTask>,
    /// Tasks at work or asked to begin, in the order of the plan.
    pub running: Vec<&'a CampaignTask>,
    /// How many tasks are pending.
    pub pending: usize,
    /// How many of them were not asked to begin.
    pub unasked: usize,
}

impl Followed {
    pub(super) fn new(count: u64, is_parted: bool, campaign: Campaign) -> Result<Followed, RecordError> {
        let (progress, downstream) = (campaign.progress()?, campaign.downstream()?);
        let (urgent, at_work) = (BTreeSet::new(), BTreeSet::new());
        let mut followed = Followed { count, is_parted, campaign, progress, downstream, urgent, at_work };
        let ready: Vec<TaskIndex> = followed.progress.ready().collect();
        followed.urgent = ready.into_iter().map(|place| (followed.urgency(place), place)).collect();
        let graph = followed.progress.graph().clone();
        followed.at_work = graph
            .places()
            .filter(|place| followed.progress.status(*place) == TaskStatus::InProgress)
            .collect();
        Ok(followed)
    }

    /// Takes in a task as it is now; whether it stands in the graph as it did.
    pub(super) fn take(&mut self, at: usize, now: CampaignTask) -> bool {
        let Some(old) = self.campaign.tasks.get_mut(at) else { return false };
        if (&now.task.seq, &now.task.depends) != (&old.task.seq, &old.task.depends) {
            return false;
        }
        let status = now.status;
        *old = now;
        let graph = self.progress.graph().clone();
        let Some(place) = graph.find(&self.campaign.tasks[at].task.seq) else { return false };
        self.progress.settle_at(place, status);
        if status == TaskStatus::InProgress {
            self.at_work.insert(place);
        } else {
            self.at_work.remove(&place);
        }
        for place in std::iter::once(place).chain(graph.dependents(place).iter().copied()) {
            let turn = (self.urgency(place), place);
            if self.progress.is_ready(place) {
                self.urgent.insert(turn);
            } else {
                self.urgent.remove(&turn);
            }
        }
        true
    }

    fn urgency(&self, place: TaskIndex) -> Reverse<usize> {
        let seq = &self.campaign.tasks[place.index()].task.seq;
        Reverse(self.downstream.get(seq).copied().unwrap_or(0))
    }

    /// The tasks that may start, in the order of the plan.
    pub fn ready(&self) -> Vec<&CampaignTask> {
        self.progress.ready().map(|place| &self.campaign.tasks[place.index()]).collect()
    }

    /// How things stand, for the driver, which starts tasks: some were asked to begin and have not yet, and at most
    /// so many are to be started now. The others wait for their turn.
    pub fn look(&self, asked: &BTreeSet<String>, most: usize) -> Look<'_> {
        let graph = self.progress.graph();
        let asked: BTreeSet<TaskIndex> = asked.iter().filter_map(|seq| graph.find(seq)).collect();
        let running: BTreeSet<TaskIndex> = self.at_work.union(&asked).copied().collect();
        let task = |place: &TaskIndex| &self.campaign.tasks[place.index()];
        let running: Vec<&CampaignTask> = running.iter().map(task).collect();
        let mut taken = Taken::default();
        running.iter().for_each(|one| taken.take(&one.task.delta));
        let mut startable = Vec::new();
        let free = self.urgent.iter().filter(|(_, place)| !asked.contains(place));
        for (_, place) in free.take(MAX_CONSIDERED) {
            if startable.len() >= most {
                break;
            }
            let one = task(place);
            if !taken.overlaps(&one.task.delta) {
                taken.take(&one.task.delta);
                startable.push(one);
            }
        }
        let waits = |place: &&TaskIndex| self.progress.status(**place) == TaskStatus::Pending;
        let pending = self.progress.count(TaskStatus::Pending);
        let unasked = pending - asked.iter().filter(waits).count();
        Look { startable, running, pending, unasked }
    }

    /// The campaign as it was at the last look.
    pub fn campaign(&self) -> &Campaign {
        &self.campaign
    }

    /// How many tasks stand one behind the other from each task on, itself included, by seq.
    pub fn downstream(&self) -> &BTreeMap<String, usize> {
        &self.downstream
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_file;

    /// A campaign of tasks with what each depends on and which file it changes.
    fn followed(tasks: &[(&str, &[&str], &str)]) -> Followed {
        let task = |(seq, depends, file): &(&str, &[&str], &str)| {
            let depends = depends.iter().map(|one| format!("\"{one:0>3}\"")).collect::<Vec<_>>().join(",");
            format!(
                r#"{{"seq":"{seq:0>3}","slug":"t","type":"BUILD","delta":["{file}"],"verify":"true","depends":[{depends}]}}"#
            )
        };
        let tasks: Vec<String> = tasks.iter().map(task).collect();
        let plan = plan_file::read(&format!(r#"{{"objective":"x","tasks":[{}]}}"#, tasks.join(","))).unwrap();
        let mut campaign = Campaign::new("x", None, "1", "now");
        campaign.take_plan(plan);
        Followed::new(0, true, campaign).unwrap()
    }

    fn settle(followed: &mut Followed, at: usize, status: TaskStatus) {
        let mut task = followed.campaign().tasks()[at].clone();
        task.settle(status, "later");
        assert!(followed.take(at, task));
    }

    fn seqs(all: &[&CampaignTask]) -> Vec<String> {
        all.iter().map(|one| one.task.seq.trim_start_matches('0').to_owned()).collect()
    }

    #[test]
    fn what_most_wait_for_comes_first_and_no_two_change_the_same_file() {
        let tasks: [(&str, &[&str], &str); 6] = [
            ("1", &[], "a"),
            ("2", &[], "b"),
            ("3", &["2"], "c"),
            ("4", &["3"], "d"),
            ("5", &[], "b"),
            ("6", &[], "e"),
        ];
        let mut all = followed(&tasks);
        let look = all.look(&BTreeSet::new(), 9);
        assert_eq!(
            (seqs(&look.startable), look.pending, look.unasked),
            (vec!["2".into(), "1".into(), "6".into()], 6, 6)
        );
        assert_eq!(seqs(&all.look(&BTreeSet::new(), 1).startable), ["2"]);
        assert!(all.look(&BTreeSet::new(), 0).startable.is_empty());
        let asked = BTreeSet::from(["2".to_owned()]);
        let look = all.look(&asked, 9);
        assert_eq!(
            (seqs(&look.startable), seqs(&look.running)),
            (vec!["1".into(), "6".into()], vec!["2".into()])
        );
        assert_eq!((look.pending, look.unasked), (6, 5));
        settle(&mut all, 1, TaskStatus::InProgress);
        assert_eq!(seqs(&all.look(&BTreeSet::new(), 9).startable), ["1", "6"], "5 waits for the file");
        settle(&mut all, 1, TaskStatus::Complete);
        assert_eq!(seqs(&all.look(&BTreeSet::new(), 9).startable), ["3", "1", "5", "6"]);
        settle(&mut all, 1, TaskStatus::Pending);
        assert_eq!(seqs(&all.look(&BTreeSet::new(), 9).startable), ["2", "1", "6"], "it was taken back");
    }

    #[test]
    fn a_look_considers_so_many_and_still_starts_something() {
        let many: Vec<String> = (1..=MAX_CONSIDERED + 9).map(|seq| seq.to_string()).collect();
        let last = many.len() - 1;
        let tasks: Vec<(&str, &[&str], &str)> = many
            .iter()
            .enumerate()
            .map(|(at, seq)| (seq.as_str(), &[][..], if at == last { "other" } else { "one" }))
            .collect();
        let mut all = followed(&tasks);
        assert_eq!(seqs(&all.look(&BTreeSet::new(), 99).startable), ["1"], "the last one is not looked at");
        (0..20).for_each(|at| settle(&mut all, at, TaskStatus::Complete));
        assert_eq!(seqs(&all.look(&BTreeSet::new(), 99).startable).len(), 2);
    }

    #[test]
    fn a_task_that_stands_elsewhere_in_the_graph_is_not_taken() {
        let mut all = followed(&[("1", &[], "a"), ("2", &[], "b")]);
        let mut task = all.campaign().tasks()[1].clone();
        task.task.depends = vec!["1".to_owned()];
        assert!(!all.take(1, task.clone()));
        assert!(!all.take(7, task));
    }
}
