//! A run as a JSON document: what every command with `--json` says about one.
//!
//! The fields are a contract, in the order of the alphabet; every field is there, also one that says
//! nothing. It is written straight from what is known, because a command that lists a thousand runs waits for it.

use std::collections::BTreeMap;

use ftl_engine::session::Driven;
use ftl_folder::id::RunId;
use ftl_store::owner::Card;
use ftl_view::relative_time;
use ftl_view::runs;
use ftl_view::summary::{RunStanding, RunWait, Spent, Summary, WaitSubject};
use serde::{Serialize, Serializer};

use crate::known::RunOverview;

/// A run as the JSON of `status`, `run` and `resume` shows it.
#[derive(Serialize)]
pub struct RunDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<String>,
    entry: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    /// Which instance it is about, where that is not the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<u32>,
    instances: (u64, u64),
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<bool>,
    #[serde(serialize_with = "meters")]
    meters: &'a BTreeMap<String, Spent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opened: Option<String>,
    /// Who drives it; inside, `None` is no driver or one that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<Option<OwnerDocument<'a>>>,
    protocol: &'a str,
    reason: Option<&'a str>,
    run: &'a RunId,
    standing: RunStanding,
    state: &'a str,
    title: &'a str,
    #[serde(serialize_with = "waits")]
    waits: &'a [RunWait],
}

#[derive(Serialize)]
struct OwnerDocument<'a> {
    command: &'a str,
    host: &'a str,
    pid: u32,
    since: String,
}

#[derive(Serialize)]
struct MeterDocument {
    limit: Option<u64>,
    reserved: u64,
    unknown: u64,
    used: u64,
}

#[derive(Serialize)]
struct WaitDocument<'a> {
    action: Option<&'a str>,
    instance: u32,
    state: &'a str,
    text: &'a str,
    until: Option<String>,
    what: WaitSubject,
}

impl<'a> RunDocument<'a> {
    /// A run that a command has left, and whether it was interrupted.
    pub fn of_left_run(run: &'a RunId, summary: &'a Summary, interrupted: bool) -> RunDocument<'a> {
        RunDocument { interrupted: Some(interrupted), ..RunDocument::of(run, summary) }
    }

    /// A run that another process drives.
    pub fn driven_by(self, card: Option<&'a Card>) -> RunDocument<'a> {
        RunDocument { owner: Some(card.map(OwnerDocument::of)), ..self }
    }

    /// A run as it looks from outside.
    pub fn of_overview(known: &'a RunOverview) -> RunDocument<'a> {
        let card = match &known.driven {
            Driven::ByNobody => None,
            Driven::By(card) => card.as_ref(),
        };
        let document = RunDocument {
            standing: known.standing(),
            opened: Some(relative_time::stamp(known.row.opened)),
            changed: Some(relative_time::stamp(known.row.changed)),
            epoch: Some(known.row.epoch),
            instance: (known.instance > 0).then_some(known.instance),
            ..RunDocument::of(&known.row.run, &known.summary)
        };
        document.driven_by(card)
    }

    fn of(run: &'a RunId, summary: &'a Summary) -> RunDocument<'a> {
        RunDocument {
            changed: None,
            entry: summary.entry,
            epoch: None,
            instance: None,
            instances: summary.instances,
            interrupted: None,
            meters: &summary.meters,
            opened: None,
            owner: None,
            protocol: &summary.protocol,
            reason: runs::reason(summary),
            run,
            standing: summary.standing,
            state: &summary.state,
            title: &summary.title,
            waits: &summary.waits,
        }
    }
}

impl OwnerDocument<'_> {
    fn of(card: &Card) -> OwnerDocument<'_> {
        let Card { pid, host, command, since, .. } = card;
        OwnerDocument { command, host, pid: *pid, since: relative_time::stamp(*since) }
    }
}

fn meters<S: Serializer>(meters: &BTreeMap<String, Spent>, out: S) -> Result<S::Ok, S::Error> {
    out.collect_map(meters.iter().map(|(name, spent)| {
        let Spent { used, limit, reserved, unknown } = *spent;
        (name, MeterDocument { limit, reserved, unknown, used })
    }))
}

fn waits<S: Serializer>(waits: &[RunWait], out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(waits.iter().map(|wait| {
        let RunWait { instance, state, what, text, action, until } = wait;
        let (action, until) = (action.as_deref(), until.map(relative_time::stamp));
        WaitDocument { action, instance: *instance, state, text, until, what: *what }
    }))
}
