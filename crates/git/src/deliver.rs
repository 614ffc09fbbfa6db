//! Delivery: the run's branch onto the person's branch.
//!
//! The person's branch moves forward, gets one commit, or is left alone. Where it has moved meanwhile the
//! work is merged with it and verified again. Where anything of the person's would be in the way, nothing
//! moves, the work stays on its branch, and the answer says why.

use ftl_core::catalogue::build::{Delivered, Delivery, DeliveryStatus};
use serde::{Deserialize, Serialize};

use super::branch::{RunRecord, short};
use super::commit::{Making, message};
use super::error::CallbackError;
use super::land::{Checked, Looking, MergedTree};
use super::lock::Held;
use super::merge::Merge;
use super::person_checkout::{Moved, with_notes};
use super::transfer::Move;
use super::{GitError, Oid, Repo, ledger};
use ftl_folder::id::RunId;
use ftl_process::Cancel;

/// What is to be delivered, and how.
#[derive(Clone, Debug)]
pub struct Delivering<'a> {
    /// The run whose branch is delivered.
    pub run: &'a RunId,
    /// The way to the person's branch: forward, squashed, or not at all.
    pub how: Delivery,
    /// What a commit says that is made for it.
    pub message: &'a str,
    /// When, in seconds since 1970.
    pub when: u64,
}

/// A delivery, as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DeliveryRecord {
    /// The run's branch at that time.
    pub(super) tip: Oid,
    pub(super) how: Delivery,
    pub(super) target: String,
    pub(super) from: Oid,
    pub(super) to: Oid,
    pub(super) state: Stage,
    /// When it was begun, in seconds since 1970.
    #[serde(default)]
    pub(super) when: u64,
    /// The person who took it back; `None` where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) undone_by: Option<String>,
}

/// How far a delivery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    Begun,
    Done,
    Undoing,
    Undone,
}

impl Repo {
    /// Whether the commit that the person is at holds all that has landed in a run.
    pub(super) fn is_delivered(&self, record: &RunRecord) -> Result<bool, GitError> {
        let Some(head) = self.person_s_head()? else { return Ok(false) };
        if self.is_ancestor(&record.tip, &head)? {
            return Ok(true);
        }
        for one in self.deliveries(&record.run)? {
            if one.state == Stage::Done && one.tip == record.tip && self.is_ancestor(&one.to, &head)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Delivers the run's branch. `verify` looks at what would be delivered, where that is not what was
    /// verified when it landed.
    pub fn deliver(
        &self,
        delivering: &Delivering<'_>,
        cancel: &Cancel,
        verify: &mut dyn FnMut(&MergedTree) -> Result<Checked, CallbackError>,
    ) -> Result<Delivered, GitError> {
        let held = self.hold(delivering.run.as_str(), cancel)?;
        // Two runs may deliver to one branch.
        let _turn = self.hold("delivery", cancel)?;
        let record = self.put_right(self.record(delivering.run)?, &held)?;
        let mut all = self.deliveries(delivering.run)?;
        if let Some(last) = all.last().filter(|last| last.tip == record.tip && last.how == delivering.how) {
            match last.state {
                Stage::Done => return Ok(delivered(&record, last)),
                Stage::Begun if self.stands_at(last)? => return self.carry(&record, all, &held),
                Stage::Begun | Stage::Undoing | Stage::Undone => {}
            }
        }
        match self.prepare(delivering, &record, verify)? {
            Err(why) => Ok(stays(&record, &why)),
            Ok(begun) => {
                all.push(begun);
                self.carry(&record, all, &held)
            }
        }
    }

    pub(super) fn deliveries(&self, run: &RunId) -> Result<Vec<DeliveryRecord>, GitError> {
        Ok(ledger::read(&self.delivered_file(run))?.unwrap_or_default())
    }

    /// Whether a branch is at one end of a delivery that was begun.
    fn stands_at(&self, last: &DeliveryRecord) -> Result<bool, GitError> {
        let found = self.resolve(&last.target)?;
        Ok(found.as_ref() == Some(&last.from) || found.as_ref() == Some(&last.to))
    }

    /// The delivery to be carried out; or why there is none.
    fn prepare(
        &self,
        delivering: &Delivering<'_>,
        record: &RunRecord,
        verify: &mut dyn FnMut(&MergedTree) -> Result<Checked, CallbackError>,
    ) -> Result<Result<DeliveryRecord, String>, GitError> {
        if delivering.how == Delivery::BranchOnly {
            return Ok(Err(String::from("`branch-only` keeps it there")));
        }
        if record.tip == record.base {
            return Ok(Err(String::from("nothing has landed")));
        }
        let Some(target) = record.target.clone() else {
            return Ok(Err(String::from("no branch was checked out when the run began")));
        };
        let Some(from) = self.resolve(&target)? else {
            return Ok(Err(format!("`{}` is not there any more", short(&target))));
        };
        if let Some(why) = self.rewritten(record, &target, &from)? {
            return Ok(Err(why));
        }
        let onto = self.onto(delivering, record, &from, verify)?;
        let (tip, how) = (record.tip.clone(), delivering.how);
        let (state, when) = (Stage::Begun, delivering.when);
        Ok(onto.map(|to| DeliveryRecord { tip, how, target, from, to, state, when, undone_by: None }))
    }

    /// Why a branch cannot take the work of a run, where it no longer has the commit that the run began from: a merge
    /// would bring back what the person has taken out of it.
    fn rewritten(&self, record: &RunRecord, target: &str, from: &Oid) -> Result<Option<String>, GitError> {
        let base = &record.base;
        let is_shallow = self.common.join("shallow").is_file();
        let has_base = self.is_ancestor(base, from)?;
        // In a shallow clone git merges only what it has been told to know of, whatever the commits say.
        if has_base && (from == base || !is_shallow) {
            return Ok(None);
        }
        let call = self.about_objects().words(["merge-base", base.as_str(), from.as_str()]);
        let said = self.run(call)?;
        let (target, base) = (short(target), base.short());
        let why = match said.code {
            0 if has_base => return Ok(None),
            0 => format!(
                "`{target}` was rewritten, and {base}, which the run began from, is not in it any more"
            ),
            1 => format!("`{target}` shares no history with {base}, which the run began from"),
            _ => return Err(said.error()),
        };
        let known = if is_shallow { ", as far as this shallow clone knows" } else { "" };
        let branch = record.branch().name;
        Ok(Some(format!("{why}{known} (`git rebase --onto {target} {base} {branch}` brings the work over)")))
    }

    /// The commit that the person's branch is to be at, made from where it is now.
    fn onto(
        &self,
        delivering: &Delivering<'_>,
        record: &RunRecord,
        from: &Oid,
        verify: &mut dyn FnMut(&MergedTree) -> Result<Checked, CallbackError>,
    ) -> Result<Result<Oid, String>, GitError> {
        let moved = !self.is_ancestor(from, &record.tip)?;
        if !moved && delivering.how == Delivery::FastForward {
            return Ok(Ok(record.tip.clone()));
        }
        let tree = if moved {
            match self.merge(from, &record.tip)? {
                Merge::Clean(tree) => tree,
                Merge::Conflict { files, .. } => {
                    let count = match files.len() {
                        1 => String::from("1 file conflicts"),
                        several => format!("{several} files conflict"),
                    };
                    return Ok(Err(format!("the branch has moved, and {count} with it")));
                }
            }
        } else {
            self.tree_of(&record.tip)?
        };
        let message = message(delivering.message, &[("Ftl-Run", record.run.as_str())]);
        let both = [from, &record.tip];
        let parents = if delivering.how == Delivery::Squash { &both[..1] } else { &both[..] };
        let commit = self.commit(&Making { tree: &tree, parents, message, when: delivering.when })?;
        if moved {
            let looking = Looking { tree: &tree, commit: &commit, onto: from.clone(), unchanged: false };
            if let Checked::Failed(why) = self.checked(looking, verify)? {
                return Ok(Err(format!("the branch has moved, and merged with it the work fails: {why}")));
            }
        }
        Ok(Ok(commit))
    }

    /// Carries out the last delivery of a list.
    fn carry(
        &self,
        record: &RunRecord,
        mut all: Vec<DeliveryRecord>,
        held: &Held,
    ) -> Result<Delivered, GitError> {
        let file = self.delivered_file(&record.run);
        self.write(&file, &all)?;
        let Some(mut last) = all.pop() else { return Ok(stays(record, "nothing was begun")) };
        // What was delivered can be found after it was undone, also where it is on no branch.
        let name = delivered_ref(&record.run, all.len() + 1);
        let before = self.resolve(&name)?;
        if before.as_ref() != Some(&last.to) {
            self.move_refs(&[(name, &last.to, before)], held)?;
        }
        let moving = Move { run: &record.run, target: &last.target, from: &last.from, to: &last.to };
        match self.move_person(moving, held)? {
            Moved::Refused(why) => {
                self.write(&file, &all)?;
                Ok(stays(record, &why))
            }
            Moved::Done(notes) => {
                self.make_durable(Some(&self.top))?;
                last.state = Stage::Done;
                let mut answer = delivered(record, &last);
                answer.summary = with_notes(answer.summary, &notes);
                all.push(last);
                // The one before says that it was begun: the next delivery goes on there, and finds it done.
                self.write_lightly(&file, &all)?;
                Ok(answer)
            }
        }
    }
}

/// The ref that holds what was delivered, for good.
pub(super) fn delivered_ref(run: &RunId, number: usize) -> String {
    format!("refs/ftl/delivered/{run}/{number}")
}

fn delivered(record: &RunRecord, last: &DeliveryRecord) -> Delivered {
    let (target, short_to) = (short(&last.target).to_owned(), last.to.short());
    Delivered {
        status: DeliveryStatus::Landed,
        summary: format!("`{target}` is at {short_to} now"),
        branch: record.branch().name,
        target: Some(target),
        commit: Some(last.to.to_string()),
    }
}

fn stays(record: &RunRecord, why: &str) -> Delivered {
    let branch = record.branch();
    Delivered {
        status: DeliveryStatus::Kept,
        summary: format!("the work stays on `{}`: {why}", branch.name),
        branch: branch.name,
        target: branch.target,
        commit: None,
    }
}
