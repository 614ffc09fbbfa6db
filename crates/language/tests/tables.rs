//! Walks through the built-in protocols, one line a case: what is answered, the states on the way,
//! the end. The tables stand in `cases/`; together they take every declared edge, hold at every
//! place that can hold, and give every verdict.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
#[path = "support/table.rs"]
mod table;
#[path = "support/world.rs"]
mod world;

use support::{library, library_with};
use table::Table;

/// Builds at a word: landed is complete, a conflict escalates, the rest blocks.
const BUILDER: &str = r#"PROTOCOL: builder
INPUT: workspace
INPUT: mode = full | direct
INPUT: budget = 5
STATE: WORK
  DO: landing = work.land verify={workspace}
  IF: landing.status == "landed" → RETURN complete delivered={landing.summary} commit={landing.commit} reason=none target={landing.target} workspace={workspace}
  IF: landing.status == "conflict" → RETURN escalated delivered=none commit=none reason={landing.summary} target={landing.target} workspace={workspace}
  RETURN: blocked delivered=none commit=none reason={landing.summary} target={landing.target} workspace={workspace}
"#;

/// Codes at a word: landed is complete, the rest is an error.
const CODER: &str = r#"PROTOCOL: coder
INPUT: story
STATE: WORK
  DO: merge = work.merge tree={story}
  IF: merge.status == "landed" → RETURN complete delivered={merge.summary} commit={merge.commit} reason=none
  RETURN: error delivered=none commit=none reason={merge.summary}
"#;

#[test]
fn task() {
    Table::read("task", include_str!("cases/task.txt")).run(&library()).covers_everything();
}

#[test]
fn campaign() {
    let library = library_with(&[("builder", BUILDER), ("coder", CODER)]);
    Table::read("campaign", include_str!("cases/campaign.txt")).run(&library).covers_everything();
}

#[test]
fn builder() {
    Table::read("builder", include_str!("cases/builder.txt")).run(&library()).covers_everything();
}

#[test]
fn coder() {
    Table::read("coder", include_str!("cases/coder.txt")).run(&library()).covers_everything();
}

#[test]
fn lifecycle() {
    Table::read("lifecycle", include_str!("cases/lifecycle.txt")).run(&library()).covers_everything();
}

#[test]
#[should_panic(expected = "task.txt:2: unknown step `dance`")]
fn an_unknown_step_is_refused() {
    let text = "usual exploration.clear cleared=true\nx | objective=o | dance | INIT | running\n";
    Table::read("task", text).run(&library());
}
