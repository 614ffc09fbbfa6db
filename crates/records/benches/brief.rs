//! Figures of what the FTL commands read and write: large plans, briefs with code, learning from workspaces.
//!
//! `cargo bench -p ftl-records --bench brief`. The first row is the yardstick: the same plan read by serde_json alone.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::sync::LazyLock;

use divan::Bencher;
use ftl_code::context;
use ftl_core::json::Json;
use ftl_records::observe::{ScoreContext, failure, pattern, score};
use ftl_records::plan_file::{self, Reading};
use ftl_records::workspace::{self, WorkspaceContext, WorkspaceStatus};
use tempfile::TempDir;

const TASKS: usize = 10_000;
const BRIEFS: usize = 50;
const WORKSPACES: usize = 200;
const NOW: &str = "2026-01-02T03:04:05.000006";

fn main() {
    divan::main();
}

/// Every task after the one before it.
static CHAIN: LazyLock<String> = LazyLock::new(|| plan(TASKS));

fn plan(tasks: usize) -> String {
    let task = |at: usize| {
        let depends = if at == 1 { "none".to_owned() } else { format!("{:03}", at - 1) };
        format!(
            r#"{{"seq": "{at:03}", "slug": "task-{at}", "delta": ["f{at}.py"], "verify": "pytest tests/test_{at}.py", "depends": "{depends}"}}"#
        )
    };
    let tasks: Vec<String> = (1..=tasks).map(task).collect();
    format!(r#"{{"objective": "many", "framework": "flask", "tasks": [{}]}}"#, tasks.join(","))
}

#[divan::bench]
fn yardstick_serde_json_alone(bencher: Bencher<'_, '_>) {
    let text = CHAIN.as_str();
    bencher.bench(|| serde_json::from_str::<serde_json::Value>(text).unwrap());
}

#[divan::bench]
fn plan_of_10_000_tasks_in_a_chain(bencher: Bencher<'_, '_>) {
    let text = CHAIN.as_str();
    bencher.bench(|| plan_file::read(text).unwrap());
}

#[divan::bench]
fn merge_of_10_000_tasks(bencher: Bencher<'_, '_>) {
    let how = Reading { is_revision: true, ..Reading::default() };
    let plan = plan_file::read_as(&CHAIN, how).unwrap();
    let tasks: Vec<_> = plan.tasks.iter().cloned().map(plan_file::merge::CampaignTask::pending).collect();
    bencher.bench(|| plan_file::merge::merge(&tasks, &plan, NOW).unwrap());
}

#[divan::bench]
fn create_50_workspaces(bencher: Bencher<'_, '_>) {
    let folder = repository();
    let text = plan(BRIEFS);
    bencher.bench(|| {
        let plan = plan_file::read(&text).unwrap();
        for task in &plan.tasks {
            let contexts =
                workspace::gather_contexts(&|path| context::read_source(folder.path(), path), task);
            let around = WorkspaceContext { now: NOW, contexts, ..WorkspaceContext::default() };
            let made = workspace::create(&plan, task, &around).unwrap();
            fs::write(folder.path().join(made.file_name.to_string()), made.text).unwrap();
        }
    });
}

#[divan::bench]
fn syntax_of_400_lines(bencher: Bencher<'_, '_>) {
    let folder = repository();
    let text = fs::read_to_string(folder.path().join("f1.py")).unwrap();
    bencher.bench(|| context::syntax_check("f1.py", &text));
}

#[divan::bench]
fn context_of_400_lines(bencher: Bencher<'_, '_>) {
    let folder = repository();
    let text = fs::read(folder.path().join("f1.py")).unwrap();
    bencher.bench(|| context::extract("f1.py", &text, None));
}

/// Files of some 400 lines.
fn repository() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let body =
        "def function(first: int, second: str = \"x\") -> str:\n    return second * first\n\n\n".repeat(100);
    for at in 1..=BRIEFS {
        fs::write(
            folder.path().join(format!("f{at}.py")),
            format!("import os\nfrom sys import path\n\n{body}"),
        )
        .unwrap();
    }
    folder
}

#[divan::bench]
fn learn_from_200_workspaces(bencher: Bencher<'_, '_>) {
    let folder = repository();
    let plan = plan_file::read(&plan(BRIEFS)).unwrap();
    let made: Vec<_> = (0..WORKSPACES)
        .map(|at| {
            let task = &plan.tasks[at % BRIEFS];
            let contexts =
                workspace::gather_contexts(&|path| context::read_source(folder.path(), path), task);
            workspace::create(
                &plan,
                task,
                &WorkspaceContext { now: NOW, contexts, ..WorkspaceContext::default() },
            )
            .unwrap()
        })
        .collect();
    let reason = workspace::BlockReason::read("ImportError: cannot import 'x' at line 7\nTried: y").unwrap();
    let texts: Vec<String> = made
        .iter()
        .enumerate()
        .map(|(at, made)| {
            let name = made.file_name.to_string();
            let file = workspace::OnDisk { name: &name, text: &made.text };
            let closed = match at % 2 {
                0 => workspace::complete(file, "Done at once", &[], NOW),
                _ => workspace::block(file, &reason, NOW),
            };
            closed.unwrap().text
        })
        .collect();
    bencher.bench(|| {
        let lesson = |text: &String| -> Option<Json> {
            let found = workspace::parse(text).unwrap();
            match found.status {
                WorkspaceStatus::Blocked => Some(failure(&found, None).to_json()),
                WorkspaceStatus::Complete | WorkspaceStatus::Active => {
                    Some(pattern(&found, &score(&found, ScoreContext::default()))?.to_json())
                }
            }
        };
        texts.iter().filter_map(lesson).count()
    });
}
