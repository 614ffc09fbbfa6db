//! What waits for a person over all runs of a repository: the same for every face.

use ftl_core::run::InstanceId;
use ftl_engine::executors::questions;
use ftl_engine::session::Session;
use ftl_store::Most;
use ftl_view::needs::{NEAR, Need, needs as of_run, rank};
use ftl_view::summary::{RunStanding, Summary, WaitSubject};

use crate::CommandError;
use crate::follow::Runs;
use crate::known::RunOverview;
use crate::session::store_failure;

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
    rank(&mut all);
    Ok(all)
}

/// Whether a run may need a person, by its summary: most do not, and their journals are not read for it.
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
