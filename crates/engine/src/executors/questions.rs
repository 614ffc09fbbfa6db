//! Questions of agents to people, and what people answered.
//!
//! An agent that asks ends its turn: the step fails with the question, and the instance is held, whatever its
//! protocol does about other failures. A person's answer is kept here, and the next agent that works on that instance is told
//! both. Only the newest question of an instance is open; nothing is answered twice.

use ftl_core::run::InstanceId;
use serde::{Deserialize, Serialize};

use ftl_folder::id::RunId;
use ftl_records::Records;
use ftl_store::StoreError;
use ftl_store::notebook::Notebook;

/// The kind of the notes.
const KIND: &str = "question";

/// How many questions of one instance are remembered.
pub const MAX_QUESTIONS: usize = 32;

/// What an agent asked, and what a person answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAndAnswer {
    /// The question in the agent's words.
    pub question: String,
    /// The answer, and who gave it.
    pub answer: Option<(String, String)>,
}

fn key(run: &RunId, instance: InstanceId) -> String {
    format!("{run}/{}", instance.0)
}

/// All questions of an instance, oldest first.
pub fn of(
    records: &Records,
    run: &RunId,
    instance: InstanceId,
) -> Result<Vec<QuestionAndAnswer>, StoreError> {
    Ok(read(records.store().note(KIND, &key(run, instance))?))
}

fn read(note: Option<String>) -> Vec<QuestionAndAnswer> {
    note.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// The question that waits for an answer.
pub fn open(records: &Records, run: &RunId, instance: InstanceId) -> Result<Option<String>, StoreError> {
    open_in(&**records.store(), run, instance)
}

/// The same, for a reader that changes nothing.
pub fn open_in(
    notes: &dyn Notebook,
    run: &RunId,
    instance: InstanceId,
) -> Result<Option<String>, StoreError> {
    let last = read(notes.note(KIND, &key(run, instance))?).pop();
    Ok(last.filter(|asked| asked.answer.is_none()).map(|asked| asked.question))
}

/// An agent asks. A question that was not answered is replaced.
pub fn ask(records: &Records, run: &RunId, instance: InstanceId, question: &str) -> Result<(), StoreError> {
    change(records, run, instance, |all| {
        all.retain(|asked| asked.answer.is_some());
        let most = all.len().saturating_sub(MAX_QUESTIONS - 1);
        all.drain(..most);
        all.push(QuestionAndAnswer { question: question.to_owned(), answer: None });
        true
    })
    .map(drop)
}

/// A person answers; whether there was a question.
pub fn answer(
    records: &Records,
    run: &RunId,
    instance: InstanceId,
    text: &str,
    by: &str,
) -> Result<bool, StoreError> {
    change(records, run, instance, |all| match all.last_mut() {
        Some(asked) if asked.answer.is_none() => {
            asked.answer = Some((text.to_owned(), by.to_owned()));
            true
        }
        Some(_) | None => false,
    })
}

fn change(
    records: &Records,
    run: &RunId,
    instance: InstanceId,
    edit: impl Fn(&mut Vec<QuestionAndAnswer>) -> bool,
) -> Result<bool, StoreError> {
    let key = key(run, instance);
    let mut changed = false;
    records.store().amend(&mut |notes| {
        let mut all = read(notes.get(KIND, &key)?);
        changed = edit(&mut all);
        if changed {
            let text = serde_json::to_string(&all).map_err(|error| StoreError::Failed(error.to_string()))?;
            notes.put(KIND, &key, &text)?;
        }
        Ok(changed)
    })?;
    Ok(changed)
}

/// What an agent is told of answers: they are feedback, and reach it in every prompt that follows.
pub fn render_answers(all: &[QuestionAndAnswer]) -> Option<String> {
    let lines = all.iter().filter_map(|asked| {
        let (text, by) = asked.answer.as_ref()?;
        Some(format!("You asked: {}\n{by} answers: {text}", asked.question))
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ftl_core::run::ROOT;

    use super::*;
    use ftl_folder::state_folder::StateFolder;
    use ftl_records::RecordOptions;
    use ftl_store::SqliteStore;

    #[test]
    fn the_newest_questions_are_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let place = StateFolder::at(folder.path());
        place.prepare().unwrap();
        let store = Arc::new(SqliteStore::open(&place.store()).unwrap());
        let (records, run) = (Records::with(place, store, RecordOptions::default()), RunId::of(7));
        for number in 0..MAX_QUESTIONS + 2 {
            ask(&records, &run, ROOT, &format!("q{number}")).unwrap();
            assert!(answer(&records, &run, ROOT, "yes", "Ada").unwrap());
        }
        let all = of(&records, &run, ROOT).unwrap();
        assert_eq!((all.len(), all[0].question.as_str()), (MAX_QUESTIONS, "q2"));
    }
}
