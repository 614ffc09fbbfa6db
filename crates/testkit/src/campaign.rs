//! The built-in campaign on the real engine, with a world for executors, in a process that can be killed.
//!
//! A caller is a test or a bench that starts itself again as a child; the child plays until the
//! campaign rests or it dies, and the caller plays on with another child.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ftl_core::run::{Policy, ROOT, Run, Terms, Usage};
use ftl_core::value::{Fields, Name, Value};
use ftl_engine::drive::{DriveEnd, StopSignal, drive};
use ftl_engine::driver::{Driver, Opening};
use ftl_engine::executors::ExecutorPool;
use ftl_folder::clock::{Clock as _, SystemClock};
use ftl_folder::id::RunId;
use ftl_language::library::Library;
use ftl_settings::width::Width;
use ftl_store::journal;
use ftl_store::{SqliteStore, Store, verify_chain};

use crate::mortal::{Death, Mortal};
use crate::stagehand::Stagehand;
use crate::world::{Plot, World};

/// How many beginnings of one campaign are looked at: a child may die before its run has an entry.
const MAX_BEGINNINGS: u64 = 100;

/// What a campaign is played with: a folder with a store and a world in it.
#[derive(Debug)]
pub struct Campaign<'a> {
    folder: &'a Path,
}

impl Campaign<'_> {
    /// A new campaign with its world.
    pub fn create(folder: &Path, plot: Plot) -> std::io::Result<Campaign<'_>> {
        World::create(&folder.join("world"), plot)?;
        Ok(Campaign { folder })
    }

    /// A campaign that is there already.
    pub fn open(folder: &Path) -> Campaign<'_> {
        Campaign { folder }
    }

    /// Its world, as the ledger tells of it.
    pub fn world(&self) -> World {
        World::open(&self.folder.join("world")).unwrap()
    }

    fn store(&self) -> SqliteStore {
        SqliteStore::open(&self.folder.join("store")).unwrap()
    }

    /// Plays until the campaign rests, or the process dies; how it stands, and how many writes it took.
    pub fn play(&self, death: Death) -> (String, u64) {
        let store = Arc::new(Mortal::new(self.store(), death));
        let world = Arc::new(self.world());
        let terms = terms();
        let hand = Arc::new(Stagehand::new(world, terms.reserve.clone()));
        let hands = ExecutorPool::new(Width::default()).otherwise(hand);
        let library = Arc::new(Library::built_in());
        let now = SystemClock::not_before(0).now();
        let (driver, todo) = match begun(&*store) {
            Beginning::Free(id) => {
                let inputs = Fields::from([(Name::from("objective"), Value::text("all of it"))]);
                let opening = Opening { protocol: Name::from("campaign"), inputs, terms };
                Driver::open(store.clone(), library, (id, "player"), opening, now).unwrap()
            }
            Beginning::Begun(id, epoch) => {
                let lease = store.take(&id, epoch, "player").unwrap();
                Driver::recover(store.clone(), library, lease, now).unwrap()
            }
        };
        let clock = SystemClock::not_before(driver.last());
        match drive(driver, todo, &hands, &clock, &StopSignal::default(), &mut ()).unwrap() {
            DriveEnd::Rests(summary) | DriveEnd::Stopped(summary) => {
                (summary.standing.to_string(), store.writes())
            }
        }
    }

    /// Everything that must hold of a campaign that has come to its end: what is wrong, in words.
    pub fn check(&self) -> Vec<String> {
        let (store, world) = (self.store(), self.world());
        let mut wrong = world.check();
        let Beginning::Begun(id, _) = begun(&store) else { return vec![String::from("nothing was begun")] };
        if let Some(broken) = verify_chain(&store, &id).unwrap().broken {
            wrong.push(format!("the chain breaks at {}: {}", broken.seq, broken.what));
        }
        let library = Arc::new(Library::built_in());
        let entries = journal::load(&store, &id).unwrap();
        if let Err(divergence) = Run::verify(library.clone(), &entries) {
            wrong.push(format!("entry {} was decided otherwise: {}", divergence.seq, divergence.message));
        }
        let run = Run::replay(library, &entries);
        for (meter, spent) in world.spent() {
            let charged = run
                .purses(ROOT)
                .and_then(|purses| purses.get(&meter))
                .map_or(0, |budget_meter| budget_meter.used);
            if charged < spent {
                wrong.push(format!("{meter}: {spent} was used and {charged} was charged"));
            }
        }
        wrong
    }

    /// How the run stands and which tasks came to which end.
    pub fn outcome(&self) -> (Option<String>, Vec<String>) {
        let store = self.store();
        let Beginning::Begun(id, _) = begun(&store) else { return (None, Vec::new()) };
        let run = Run::replay(Arc::new(Library::built_in()), &journal::load(&store, &id).unwrap());
        let tasks = self.world().verdicts().into_iter().map(|(seq, status)| format!("{seq} {status}"));
        (run.end().map(|end| end.word().to_owned()), tasks.collect())
    }
}

/// What the campaign may use: enough for many crashes, each of which costs a worst case.
fn terms() -> Terms {
    let usage = |amount: u64| Usage::from([(Name::from("tokens"), amount)]);
    let policies = BTreeMap::from([(String::from("*"), Policy::Answer(Value::text("branch-only")))]);
    Terms { limits: usage(u64::MAX / 4), reserve: usage(1_000), policies, ..Terms::default() }
}

/// The point at which a campaign was left.
enum Beginning {
    /// No run has an entry; this name is free.
    Free(RunId),
    /// This run was begun, and its last owner had that epoch.
    Begun(RunId, u64),
}

fn begun(store: &dyn Store) -> Beginning {
    for number in 1..=MAX_BEGINNINGS {
        let id = RunId::of(number);
        match store.run(&id).unwrap() {
            None => return Beginning::Free(id),
            Some(row) if row.head > 0 => return Beginning::Begun(id, row.epoch),
            Some(_) => {}
        }
    }
    panic!("a campaign was begun {MAX_BEGINNINGS} times without a single entry");
}
