//! What the engine's tests share: protocols out of texts, a stage for hands, a wait with a deadline.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ftl_core::catalogue::Catalogue;
use ftl_core::run::{Entry, Terms};
use ftl_core::value::{Fields, Name, Value};
use ftl_engine::drive::{DriveEnd, StopSignal, drive};
use ftl_engine::driver::{DriveError, Driver, Opening};
use ftl_engine::executors::{ActionRunner, Executor, Job, JobEnd, Report};
use ftl_folder::clock::SystemClock;
use ftl_folder::id::RunId;
use ftl_language::library::{Library, built_in_sources};
use ftl_language::source::{DocumentOrigin, SourceDocument};
use ftl_store::journal;
use ftl_store::{MemoryStore, Store};

/// The built-in protocols and one of the test.
pub fn library(program: &str) -> Arc<Library> {
    let name = program.lines().next().unwrap().strip_prefix("PROTOCOL: ").unwrap().to_owned();
    let mut sources = built_in_sources();
    let text = format!("# {name}\n\n```protocol\n{program}\n```\n");
    sources.push(SourceDocument::new(format!(".ftl/protocols/{name}.md"), DocumentOrigin::User, text));
    let library = Library::load(sources, Catalogue::standard());
    let found = library.get(&name).unwrap();
    let problems: Vec<String> =
        found.findings.problems.iter().map(|problem| problem.render(library.sources())).collect();
    assert!(found.program.is_some(), "{name} is not sound:\n{}", problems.join("\n"));
    Arc::new(library)
}

/// Inputs out of JSON.
pub fn fields(json: &str) -> Fields {
    let Value::Record(fields) = serde_json::from_str(json).unwrap() else { panic!("{json} is no object") };
    (*fields).clone()
}

/// A hand made of a function.
pub struct With<F>(pub F);

impl<F: Fn(&Job) -> Report + Send + Sync> Executor for With<F> {
    fn perform(&self, job: &Job) -> Report {
        (self.0)(job)
    }
}

/// A hand that always answers with this.
pub fn says(json: &str) -> Arc<dyn Executor> {
    let value: Value = serde_json::from_str(json).unwrap();
    Arc::new(With(move |_: &Job| Report::free(JobEnd::Done(value.clone()))))
}

/// A run on a store in memory.
pub struct Fixture {
    pub store: Arc<MemoryStore>,
    pub library: Arc<Library>,
    pub id: RunId,
    pub stop: StopSignal,
}

impl Fixture {
    pub fn new(program: &str) -> Fixture {
        Fixture {
            store: Arc::new(MemoryStore::new()),
            library: library(program),
            id: RunId::of(7),
            stop: StopSignal::default(),
        }
    }

    /// Opens the protocol and drives it to its rest.
    pub fn open(
        &self,
        inputs: &str,
        terms: Terms,
        runner: &dyn ActionRunner,
    ) -> Result<DriveEnd, DriveError> {
        let name =
            self.library.protocols().find(|one| one.origin == DocumentOrigin::User).unwrap().name.clone();
        let opening = Opening { protocol: name, inputs: fields(inputs), terms };
        let (driver, todo) =
            Driver::open(self.store.clone(), self.library.clone(), (self.id.clone(), "o1"), opening, 1_000)?;
        drive(driver, todo, runner, &SystemClock::not_before(0), &self.stop, &mut ())
    }

    /// Takes the run over and drives it on.
    pub fn resume(&self, runner: &dyn ActionRunner) -> Result<DriveEnd, DriveError> {
        let row = self.store.run(&self.id)?.unwrap();
        let lease = self.store.take(&self.id, row.epoch, "o2")?;
        let (driver, todo) = Driver::recover(self.store.clone(), self.library.clone(), lease, 2_000)?;
        drive(driver, todo, runner, &SystemClock::not_before(0), &self.stop, &mut ())
    }

    pub fn entries(&self) -> Vec<Entry> {
        journal::load(&*self.store, &self.id).unwrap()
    }

    /// How often each kind of fact is in the journal.
    pub fn facts(&self) -> BTreeMap<String, usize> {
        let mut facts = BTreeMap::new();
        for entry in self.entries() {
            let json = serde_json::to_value(&entry).unwrap();
            *facts.entry(json["fact"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        facts
    }
}

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The name of a meter or a field.
pub fn name(text: &str) -> Name {
    Name::from(text)
}
