//! Taking a delivery back: the person's branch, index and files go to where they were.
//!
//! Only the newest delivery to a branch can go, and only while the branch stands where it left it. Where
//! anything of the person's came after it or would be in the way, nothing moves, and the hint says how to
//! go on. What was delivered stays under a ref.

use ftl_core::catalogue::build::Delivery;

use super::branch::short;
use super::deliver::{DeliveryRecord, Stage, delivered_ref};
use super::error::At as _;
use super::person_checkout::Moved;
use super::transfer::Move;
use super::{ErrorKind, GitError, Oid, Repo};
use ftl_folder::id::RunId;
use ftl_process::Cancel;

/// A delivery that was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// The person's branch that moved back.
    pub target: String,
    /// The commit that it is at again.
    pub commit: Oid,
    /// The commit that the delivery had moved the branch to.
    pub was: Oid,
    /// The ref that still has it.
    pub kept: String,
    /// How many files went back.
    pub files: usize,
    /// Whether it had been taken back before, so that nothing was done now.
    pub before: bool,
    /// What a person should know besides, in sentences.
    pub notes: Vec<String>,
}

impl Repo {
    /// The run whose delivery is the newest that stands: the one that a branch is at, or else the last one.
    pub fn newest_delivery(&self) -> Result<Option<RunId>, GitError> {
        let mut newest: Option<(bool, u64, RunId)> = None;
        for run in self.delivering_runs()? {
            let Some(last) = self.deliveries(&run)?.pop().filter(stands) else { continue };
            let at_tip = self.resolve(&last.target)?.as_ref() == Some(&last.to);
            let found = (at_tip, last.when, run);
            if newest.as_ref().is_none_or(|best| (best.0, best.1, &best.2) < (found.0, found.1, &found.2)) {
                newest = Some(found);
            }
        }
        Ok(newest.map(|(_, _, run)| run))
    }

    /// The runs that have delivered or begun to, in the order of their names.
    fn delivering_runs(&self) -> Result<Vec<RunId>, GitError> {
        let folder = self.private_dir.home().join("runs");
        let mut runs = Vec::new();
        for name in ftl_folder::names(&folder).at(&folder)? {
            let run = name.to_str().and_then(|name| RunId::try_from(name.to_owned()).ok());
            runs.extend(run.filter(|run| ftl_folder::is_file(&self.delivered_file(run))));
        }
        runs.sort();
        Ok(runs)
    }

    /// Takes the last delivery of a run back, for a person. Refused where the person's branch has moved on,
    /// or where something of theirs would be in the way.
    pub fn undo_delivery(&self, run: &RunId, by: &str) -> Result<Undone, GitError> {
        let held = self.hold(run.as_str(), &Cancel::new())?;
        let _turn = self.hold("delivery", &Cancel::new())?;
        let mut all = self.deliveries(run)?;
        let Some(mut last) = all.pop() else {
            return Err(GitError::new(ErrorKind::Unknown, format!("run {run} has delivered nothing"))
                .hint("`git branch --list 'ftl/*'` shows the branches of runs"));
        };
        let mut undone = Undone {
            target: short(&last.target).to_owned(),
            commit: last.from.clone(),
            was: last.to.clone(),
            kept: delivered_ref(run, all.len() + 1),
            files: self.differing(&last.from, &last.to)?.len(),
            before: false,
            notes: Vec::new(),
        };
        match last.state {
            Stage::Undone => {
                undone.before = true;
                return Ok(undone);
            }
            Stage::Begun => {
                let error = GitError::new(ErrorKind::Unsuitable, "the delivery is not finished");
                return Err(error.hint(format!("go on with the run first: `ftl resume {run}`")));
            }
            Stage::Done | Stage::Undoing => {}
        }
        let file = self.delivered_file(run);
        let write = |last: &mut DeliveryRecord, state: Stage| {
            last.state = state;
            last.undone_by = (state != Stage::Done).then(|| by.to_owned());
            let whole: Vec<&DeliveryRecord> = all.iter().chain([&*last]).collect();
            self.write(&file, &whole)
        };
        write(&mut last, Stage::Undoing)?;
        let moving = Move { run, target: &last.target, from: &last.to, to: &last.from };
        match self.move_person(moving, &held)? {
            Moved::Done(notes) => {
                undone.notes = notes;
                self.make_durable(Some(&self.top))?;
                write(&mut last, Stage::Undone)?;
                Ok(undone)
            }
            Moved::Refused(why) => {
                write(&mut last, Stage::Done)?;
                let message = format!("the delivery of run {run} cannot be taken back: {why}");
                Err(GitError::new(ErrorKind::Stale, message).hint(self.instead(run, &last)?))
            }
        }
    }

    /// What a person can do where a delivery cannot be taken back.
    fn instead(&self, run: &RunId, last: &DeliveryRecord) -> Result<String, GitError> {
        let found = self.resolve(&last.target)?;
        if found.as_ref() == Some(&last.to) {
            return Ok(String::from("nothing was changed; put that right, then try again"));
        }
        for other in self.delivering_runs()?.into_iter().filter(|other| other != run) {
            let above = self.deliveries(&other)?.pop().filter(stands);
            if above.is_some_and(|above| above.target == last.target && found.as_ref() == Some(&above.to)) {
                return Ok(format!("`ftl undo {other}` takes back what was delivered after it"));
            }
        }
        let (from, to) = (last.from.short(), last.to.short());
        let words = match last.how {
            Delivery::FastForward if last.to == last.tip => format!("{from}..{to}"),
            Delivery::FastForward => format!("-m 1 {to}"),
            Delivery::Squash | Delivery::BranchOnly => to.to_owned(),
        };
        Ok(format!("nothing was changed; `git revert {words}` takes back its commits and leaves yours"))
    }
}

/// Whether a delivery is on its branch as far as we know.
fn stands(last: &DeliveryRecord) -> bool {
    match last.state {
        Stage::Done | Stage::Undoing => true,
        Stage::Begun | Stage::Undone => false,
    }
}
