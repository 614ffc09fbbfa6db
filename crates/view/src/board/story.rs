//! The steps of a story: planned, reviewed, coded, tested, merged, each with the words that tell most of it.

use std::collections::VecDeque;

use ftl_core::run::{Answer, Time};
use ftl_core::value::Value;

use super::{Asked, text};
use crate::cause::{reason, telling};

/// How many steps are remembered: a story of eight rounds with three extensions has fewer.
const MAX_STEPS: usize = 200;

/// What has happened to a story.
#[derive(Clone, Default)]
pub(super) struct Story {
    pub(super) steps: VecDeque<StoryStep>,
}

/// One step of a story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryStep {
    /// When it was over.
    pub at: Time,
    /// Whether it led on; nothing where that cannot be said.
    pub good: Option<bool>,
    /// The outcome, in words.
    pub text: String,
}

impl Story {
    pub(super) fn push(&mut self, step: StoryStep) {
        if self.steps.len() == MAX_STEPS {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
    }
}

/// What a person wants to hear of an answer, in one line, and whether it led on.
pub(super) fn describe_answer(asked: &Asked, answer: &Answer) -> Option<(Option<bool>, String)> {
    let whom = &asked.whom;
    let value = match answer {
        Answer::Done(value) => value,
        Answer::Failed(failure) => {
            let who = whom.role().map_or_else(|| whom.to_string(), str::to_owned);
            return Some((Some(false), format!("{who}: {}", reason(&telling(&failure.message)))));
        }
    };
    match whom.role() {
        Some("coder") if &*asked.form == "plan" => return Some((None, String::from("planned"))),
        Some("coder") => return Some((None, with("coded", &text(value, "summary")))),
        Some("architect") => return Some(reviewed(&asked.form, value)),
        Some(_) | None => {}
    }
    match whom.action()? {
        "tests.run" if value.field("passed").holds() => {
            Some((Some(true), with("tests passed", &first(&text(value, "summary")))))
        }
        "tests.run" => Some((Some(false), with("tests failed", &telling(&text(value, "summary"))))),
        "story.satisfied" if value.field("passed").holds() => {
            Some((Some(true), with("satisfied already", &first(&text(value, "summary")))))
        }
        "work.merge" | "pull.merge" => {
            let status = text(value, "status");
            Some((Some(status == "landed"), with(&status, &first(&text(value, "summary")))))
        }
        _ => None,
    }
}

fn reviewed(form: &str, value: &Value) -> (Option<bool>, String) {
    let what = match form {
        "plan_review" => "the plan",
        "code_review" => "the code",
        _ => "the budget",
    };
    let verdict = text(value, "verdict");
    let good = matches!(verdict.as_str(), "APPROVE" | "COMPLETE" | "CONTINUE");
    (Some(good), with(&format!("the architect on {what}: {verdict}"), &text(value, "feedback")))
}

fn with(what: &str, words: &str) -> String {
    let words = reason(words);
    if words.is_empty() { what.to_owned() } else { format!("{what}: {words}") }
}

fn first(text: &str) -> String {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use ftl_core::performer::Performer;

    use super::*;

    fn answer(fields: &[(&str, Value)]) -> Answer {
        Answer::Done(Value::record(fields.iter().cloned()))
    }

    fn ask(whom: &str, form: &str) -> Asked {
        Asked { whom: Performer::from(whom), form: form.into() }
    }

    #[test]
    fn a_step_tells_the_words_that_matter() {
        let review =
            answer(&[("verdict", Value::text("CHANGES")), ("feedback", Value::text("name it\nbetter"))]);
        let wanted = (Some(false), String::from("the architect on the code: CHANGES: name it · better"));
        assert_eq!(describe_answer(&ask("Task(architect)", "code_review"), &review), Some(wanted));
        let red = answer(&[
            ("passed", Value::Bool(false)),
            ("summary", Value::text("1 of 2 tests failed\n test_a")),
        ]);
        let wanted = (Some(false), String::from("tests failed: 1 of 2 tests failed: test_a"));
        assert_eq!(describe_answer(&ask("tests.run", "tests.run"), &red), Some(wanted));
        assert_eq!(describe_answer(&ask("worktree.open", "worktree.open"), &red), None);
    }

    #[test]
    fn so_many_steps_are_remembered() {
        let mut story = Story::default();
        for at in 0..=MAX_STEPS as u64 {
            story.push(StoryStep { at, good: None, text: String::new() });
        }
        assert_eq!((story.steps.len(), story.steps[0].at), (MAX_STEPS, 1));
    }
}
