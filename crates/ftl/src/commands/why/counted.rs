//! `ftl why` of a long run reads what came after the last snapshot, and a short journal once: counted at the store.

use std::sync::Arc;

use clap::FromArgMatches as _;
use ftl_command::{ExitStatus, Out};
use ftl_core::catalogue::Catalogue;
use ftl_core::run::{Event, Outcome, Terms, Usage};
use ftl_core::value::{Fields, Name, Value};
use ftl_engine::driver::{Driver, Opening};
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_language::library::{Library, built_in_sources};
use ftl_language::source::{DocumentOrigin, SourceDocument};
use ftl_store::{SqliteStore, Store};

use crate::cli::{self, Cli};
use crate::counting_store::CountingStore;

/// A loop that goes round as often as it is told what it asked for.
const SPIN: &str = "# spin\n\n```protocol\nPROTOCOL: spin\nINPUT: objective\nLIMIT: rounds = 1000000 ELSE DONE\n\
    STATE: ROUND\n  PAY: rounds\n  CHECK: out = file.read path={objective}\n  GOTO: ROUND\n\
    STATE: DONE\n  RETURN: complete\n```\n";

/// Puts a run of the loop into a store and turns it so often; its name, and how many entries it has.
fn spin(store: &Arc<dyn Store>, number: u64, turns: usize) -> (RunId, usize) {
    let mut sources = built_in_sources();
    sources.push(SourceDocument::new(String::from("spin.md"), DocumentOrigin::User, String::from(SPIN)));
    let library = Arc::new(Library::load(sources, Catalogue::standard()));
    let inputs = Fields::from([(Name::from("objective"), Value::text("a"))]);
    let opening = Opening { protocol: Name::from("spin"), inputs, terms: Terms::default() };
    let run = RunId::of(number);
    let (mut driver, mut todo) =
        Driver::open(store.clone(), library, (run.clone(), "test"), opening, 1).unwrap();
    for at in 0..turns {
        let action = todo.start.pop().unwrap();
        let answer = Value::record([("text", Value::text("x")), ("path", Value::text("a"))]);
        let event = Event::Outcome {
            instance: action.instance,
            action: action.id,
            outcome: Outcome::Done(answer),
            usage: Some(Usage::new()),
        };
        todo = driver.take(2 + at as u64, event).unwrap();
    }
    let entries = usize::try_from(driver.run().next_seq() - 1).unwrap();
    driver.release().unwrap();
    (run, entries)
}

#[test]
fn a_long_run_is_not_read_from_its_beginning_and_a_short_one_once() {
    let root = tempfile::tempdir().unwrap();
    let place = StateFolder::at(root.path());
    place.prepare().unwrap();
    let file = place.state().join("protocols/spin.md");
    ftl_folder::make(file.parent().unwrap()).unwrap();
    ftl_folder::write(&file, SPIN.as_bytes()).unwrap();
    let counting = Arc::new(CountingStore::new(Arc::new(SqliteStore::open(&place.store()).unwrap())));
    let store: Arc<dyn Store> = counting.clone();
    let (long, entries) = spin(&store, 1, 700);
    let (short, few) = spin(&store, 2, 3);
    assert!(entries > 2_000, "{entries}");
    let repo = root.path().to_str().unwrap();
    let matches = cli::command().try_get_matches_from(["ftl", "--repo", repo, "why", "x"]).unwrap();
    let (cli, out) = (Cli::from_arg_matches(&matches).unwrap(), Out::new(true));
    let why = |run: &RunId| {
        counting.begin_again();
        let told = super::explain(&cli.global, (&place, &store), run.as_str(), &out);
        assert_eq!(told.unwrap_or_else(|failure| panic!("{}", failure.message)), ExitStatus::Done);
        (counting.loads(), counting.entries_read())
    };
    let (loads, read) = why(&long);
    assert!(loads == 0 && read < 100, "{loads} loads, {read} of {entries} entries");
    assert_eq!(why(&short), (1, few), "each entry once");
}
