//! What waits for a person over all runs of a repository: the same for every face.

use ftl_core::run::InstanceId;
use ftl_engine::executors::questions;
use ftl_engine::session::Session;
use ftl_folder::clock;
use ftl_folder::id::RunId;
use ftl_git::Repo;
use ftl_store::Most;
use ftl_store::notebook::Notebook as _;
use ftl_view::board::Board;
use ftl_view::needs::{NEAR, Need, NeedKind, left_over, needs as of_run, rank};
use ftl_view::summary::{RunStanding, Summary, WaitSubject};

use crate::CommandError;
use crate::follow::Runs;
use crate::known::RunOverview;
use crate::session::store_failure;

/// The kind of notes that say which runs were put away.
const PUT_AWAY: &str = "put_away";

/// How many runs that have ended are looked at for what they have left.
const ENDED: usize = 12;

/// How long ago they may have ended, in milliseconds: a fortnight.
const LATELY: u64 = 14 * 24 * 3600 * 1000;

/// The newest runs as this machine knows them.
pub fn overviews(session: &Session, most: Most) -> Result<Vec<RunOverview>, CommandError> {
    let newest = session.store().newest(most).map_err(|error| store_failure(&error))?;
    newest.rows.into_iter().map(|row| RunOverview::of(session.place(), row)).collect()
}

/// What waits for a person in so many of the newest open runs, what sets most free first.
pub fn needs(session: &Session, runs: &Runs, open: usize) -> Result<Vec<Need>, CommandError> {
    let mut all = Vec::new();
    for known in overviews(session, Most { open, ended: 0 })? {
        let standing = known.standing();
        if !may_need(&known.summary, standing) {
            continue;
        }
        // A journal that a newer program has written tells this one nothing; its run is listed all the same.
        let Ok(model) = runs.at(&known.row.run, None) else { continue };
        let notes = &**session.records().store();
        let asked = |instance: InstanceId| questions::open_in(notes, &known.row.run, instance).ok().flatten();
        all.extend(of_run(known.row.run.as_str(), &model, &known.summary, standing, &asked));
    }
    all.extend(left_overs(session, runs)?);
    rank(&mut all);
    Ok(all)
}

/// What runs have left that ended lately, and that nobody has put away.
fn left_overs(session: &Session, runs: &Runs) -> Result<Vec<Need>, CommandError> {
    let notes = &**session.records().store();
    let since = clock::wall().saturating_sub(LATELY);
    let mut all = Vec::new();
    for known in overviews(session, Most { open: 0, ended: ENDED })? {
        let run = &known.row.run;
        let is_flow = Board::is_for(&**session.library(), &known.summary.protocol);
        let is_away = notes.note(PUT_AWAY, run.as_str()).map_err(|error| store_failure(&error))?.is_some();
        if !is_flow || is_away || known.row.changed < since {
            continue;
        }
        let Ok(model) = runs.at(run, None) else { continue };
        let is_merged = || runs.is_taken_over(run, || is_merged(session, run));
        let found = left_over(run.as_str(), &model, &known.summary, false);
        all.extend(found.filter(|need| need.kind != NeedKind::Landing || !is_merged()));
    }
    Ok(all)
}

/// Whether the person has taken over by themselves what a run has built.
fn is_merged(session: &Session, run: &RunId) -> bool {
    let place = session.place();
    if !ftl_folder::is_folder(&place.store().join("git")) {
        return false;
    }
    let Ok(repo) = Repo::of_person(place, Vec::new()) else { return false };
    repo.is_taken_over(run).unwrap_or(false)
}

/// Puts away what a run has left: it is not on any face's inbox any more.
pub fn put_away(session: &Session, run: &RunId) -> Result<(), CommandError> {
    let notes = session.records().store();
    let put = notes.amend(&mut |notes| {
        notes.put(PUT_AWAY, run.as_str(), "1")?;
        Ok(true)
    });
    put.map_err(|error| store_failure(&error))
}

/// Whether a run may need somebody, by its summary: most do not, and their journals are not read for it.
fn may_need(summary: &Summary, standing: RunStanding) -> bool {
    let waits = summary.waits.iter().any(|wait| match wait.what {
        WaitSubject::Held | WaitSubject::Question | WaitSubject::Word => true,
        WaitSubject::Service | WaitSubject::Work => false,
    });
    let is_near = summary.meters.values().any(|spent| {
        spent.limit.is_some_and(|limit| {
            limit > 0 && u128::from(spent.used) * 100 >= u128::from(limit) * u128::from(NEAR)
        })
    });
    waits || is_near || standing == RunStanding::Interrupted
}
