//! Runs that several files of tests begin with, and questions that they ask of them.

use std::sync::Arc;

use ftl_core::run::{Decision, Policy, ROOT, RefusalKind, Run, Terms};
use ftl_language::library::Library;

use super::{Stage, library, library_with};

/// Asks a person, and goes on without.
pub const OPTIONAL: &str = r#"PROTOCOL: optional
STATE: ASKING
  ASK: reply = "Well?" ELSE LEFT with reason={failure.kind}
  RETURN: complete reply={reply}

STATE: LEFT with reason
  RETURN: blocked reason={reason}
"#;

pub fn with_policies(policies: &[(&str, Policy)]) -> Terms {
    let policies = policies.iter().map(|(key, policy)| ((*key).to_owned(), policy.clone())).collect();
    Terms { policies, ..Terms::default() }
}

/// A task whose work is finished, before anybody is asked where to land it.
pub fn finished(terms: Terms) -> Stage {
    let mut stage = Stage::open_with(library(), "task", r#"{"objective":"o"}"#, terms);
    stage.done("exploration.clear", "{}");
    (0..4).for_each(|_| drop(stage.done("Task(explorer)", "{}")));
    stage.done("exploration.aggregate", "{}");
    stage.done("exploration.write", "{}");
    stage.done("Task(planner)", "{}");
    stage.done("decision.parse", r#"{"kind":"PROCEED","plan":{"objective":"o","tasks":[]}}"#);
    stage.done("workspace.create", r#"{"mode":"full","path":"w.xml","budget":5}"#);
    build(&mut stage);
    stage.done("observer.analyze", "{}");
    stage
}

pub fn build(stage: &mut Stage) {
    for whom in ["workspace.parse", "workspace.validate", "Task(builder)", "Task(builder)", "preflight.check"]
    {
        stage.done(whom, "{}");
    }
    stage.done("verify.run", r#"{"tree":"t1"}"#);
    stage.done("quality.check", "{}");
    stage.done("work.land", r#"{"status":"landed","commit":"c1"}"#);
    stage.done("workspace.complete", "{}");
}

pub fn builder() -> Stage {
    Stage::open("builder", r#"{"workspace":"w.xml"}"#)
}

pub fn lifecycle(terms: Terms) -> Stage {
    Stage::open_with(library(), "lifecycle", r#"{"brief":"b"}"#, terms)
}

pub fn held(stage: &Stage) -> Vec<String> {
    stage.run.instance(ROOT).unwrap().held.values().map(|held| held.failure.message.clone()).collect()
}

pub fn kind(decision: &Decision) -> Option<RefusalKind> {
    decision.refusal.as_ref().map(|refusal| refusal.kind)
}

/// The same run under another library, as after an update of `ftl` or of a user's document.
pub fn moved_to(stage: &Stage, library: Arc<Library>) -> Stage {
    let run = Run::replay(library, &stage.journal);
    Stage { run, waiting: Vec::new(), ..stage.clone() }
}

/// The built-in document with one text replaced, as a user's own.
pub fn changed(name: &str, from: &str, to: &str) -> Arc<Library> {
    let sources = ftl_language::library::built_in_sources();
    let source = sources.iter().find(|source| source.path.ends_with(&format!("{name}.md"))).unwrap();
    let mut inside = false;
    let mut program = String::new();
    for line in source.text.lines() {
        match line {
            "```protocol" => inside = true,
            "```" => inside = false,
            _ if inside => program.push_str(&format!("{line}\n")),
            _ => {}
        }
    }
    assert!(program.contains(from), "{name} does not say {from}");
    library_with(&[(name, &program.replace(from, to))])
}
