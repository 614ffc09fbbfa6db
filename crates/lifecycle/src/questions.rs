//! Blocking questions: in the plan itself, and in the minutes of a planning meeting of older work.
//!
//! A question is closed by an answer with words in it, or by a person who waives it. A question that was
//! skipped is open.

use ftl_core::json::{Json, JsonExt as _};

use super::artifact::{JsonView, Malformed};
use super::folder::{MEETING, PLAN_TRANSCRIPT, TaskFolder};

/// The longest transcript that is read.
const MAX_TRANSCRIPT_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Answered,
    Waived,
}

const STATES: [(&str, State); 3] =
    [("open", State::Open), ("answered", State::Answered), ("waived", State::Waived)];

/// The open blocking questions of a plan.
pub(super) fn of_plan(root: &JsonView<'_>) -> Result<Vec<String>, Malformed> {
    let mut open = Vec::new();
    for question in root.list("open_questions")? {
        // Older plans have plain texts here: notes, which block no task.
        if question.json().as_str().is_some() {
            continue;
        }
        question.is_object()?;
        let text = question.need_text("question")?;
        question.text("id")?;
        question.text("role")?;
        let blocking = question.flag("blocking")?.unwrap_or(false);
        let answer = question.text("answer")?.unwrap_or_default();
        let closed = match question.word("state", &STATES)?.unwrap_or(State::Open) {
            State::Open => false,
            State::Answered => !answer.trim().is_empty(),
            State::Waived => true,
        };
        if blocking && !closed {
            open.push(text.to_owned());
        }
    }
    Ok(open)
}

/// A question of a meeting.
struct Asked {
    role: Option<String>,
    index: u64,
    id: Option<String>,
    text: String,
}

/// The blocking questions of the last round of a meeting that have no answer.
pub(super) fn of_meeting(folder: &TaskFolder) -> Result<Vec<String>, Malformed> {
    let Some(artifact) = folder.read(MEETING)? else { return Ok(Vec::new()) };
    let root = artifact.root()?;
    let rounds = root.objects("rounds")?;
    let Some(round) = rounds.last() else { return Ok(Vec::new()) };
    let number = round.count("round")?;
    let mut asked = Vec::new();
    questions(round, None, &mut asked)?;
    if let Some(verdicts) = round.field("per_role_verdicts") {
        verdicts.is_object()?;
        for (role, verdict) in verdicts.members() {
            if !verdict.json().is_null() {
                verdict.is_object()?;
                questions(&verdict, Some(role), &mut asked)?;
            }
        }
    }
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let mut answers = transcript(folder)?;
    for one in round.objects("clarifications")? {
        answers.push(Line {
            kind: String::from("clarify_answer"),
            question: one.text("question")?.map(str::to_owned),
            text: one.text("answer")?.unwrap_or_default().to_owned(),
            id: None,
            role: one.text("role")?.map(str::to_owned),
            round: one.count("round")?.or(number),
            index: one.count("index")?,
        });
    }
    Ok(asked.iter().filter(|one| !is_answered(one, number, &answers)).map(|one| one.text.clone()).collect())
}

fn questions(view: &JsonView<'_>, role: Option<&str>, asked: &mut Vec<Asked>) -> Result<(), Malformed> {
    for (index, question) in (0u64..).zip(view.list("blocking_open_questions")?) {
        let (id, text) = if question.json().is_object() {
            (question.text("id")?.map(str::to_owned), question.need_text("question")?)
        } else {
            (None, question.as_text()?)
        };
        asked.push(Asked { role: role.map(str::to_owned), index, id, text: text.to_owned() });
    }
    Ok(())
}

/// A line of the planning transcript.
struct Line {
    kind: String,
    question: Option<String>,
    text: String,
    id: Option<String>,
    role: Option<String>,
    round: Option<u64>,
    index: Option<u64>,
}

/// The lines of the planning transcript that are about questions. A last line without an end is what a crash
/// left, and says nothing.
fn transcript(folder: &TaskFolder) -> Result<Vec<Line>, Malformed> {
    let shown = folder.display_path(PLAN_TRANSCRIPT);
    let bytes = super::artifact::bytes(&folder.file(PLAN_TRANSCRIPT), &shown, MAX_TRANSCRIPT_BYTES)?;
    let Some(bytes) = bytes else { return Ok(Vec::new()) };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut lines = Vec::new();
    for (number, line) in (1usize..).zip(bytes[..whole].split(|byte| *byte == b'\n')) {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let at =
            |column: usize, message: String| Malformed { path: shown.clone(), line: number, column, message };
        let text = std::str::from_utf8(line).map_err(|_| at(1, String::from("is no UTF-8 text")))?;
        let json = Json::parse(text)
            .map_err(|error| at(error.column.max(1), format!("is not valid JSON: {}", error.message)))?;
        lines.extend(line_of(&json));
    }
    // What was never ended may be whole all the same.
    let last = std::str::from_utf8(&bytes[whole..]).ok().and_then(|text| Json::parse(text).ok());
    lines.extend(last.as_ref().and_then(line_of));
    Ok(lines)
}

fn line_of(json: &Json) -> Option<Line> {
    let text = |keys: &[&str]| keys.iter().find_map(|key| json.get(key)?.as_str()).map(str::to_owned);
    let count = |key: &str| json.get(key)?.as_whole().and_then(|number| u64::try_from(number).ok());
    let kind = text(&["kind"])?;
    if !["clarify_question", "clarify_answer"].contains(&kind.as_str()) {
        return None;
    }
    Some(Line {
        kind,
        question: text(&["question"]),
        text: text(&["text", "answer", "content"]).unwrap_or_default(),
        id: text(&["question_id", "id"]),
        role: text(&["from_role"]),
        round: count("round"),
        index: count("index"),
    })
}

fn is_answered(asked: &Asked, round: Option<u64>, lines: &[Line]) -> bool {
    let fits =
        |left: &Option<String>, right: &Option<String>| left.is_none() || right.is_none() || left == right;
    let here = |line: &Line| {
        fits(&line.role, &asked.role) && (line.round.is_none() || round.is_none() || line.round == round)
    };
    // A question that is in the transcript too says which answer is its own.
    let put =
        lines.iter().find(|line| line.kind == "clarify_question" && line.text == asked.text && here(line));
    let answers = |line: &&Line| line.kind == "clarify_answer" && !line.text.trim().is_empty();
    lines.iter().filter(answers).any(|line| {
        if let (Some(id), Some(named)) = (&asked.id, &line.id) {
            return id == named;
        }
        if let Some(question) = &line.question {
            return *question == asked.text;
        }
        match put {
            Some(put) => (put.index, put.round) == (line.index, line.round) && fits(&put.role, &line.role),
            None => here(line) && line.index == Some(asked.index),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftl_folder::state_folder::StateFolder;

    #[test]
    fn a_transcript_is_not_too_large() {
        let root = tempfile::tempdir().unwrap();
        let folder = TaskFolder::of(&StateFolder::at(root.path()), &"t1".parse().unwrap());
        folder.put(PLAN_TRANSCRIPT, b"{\"kind\":\"note\"}\n").unwrap();
        assert!(transcript(&folder).unwrap().is_empty());
        let file = std::fs::File::create(folder.file(PLAN_TRANSCRIPT)).unwrap();
        file.set_len(MAX_TRANSCRIPT_BYTES + 1).unwrap();
        let Err(error) = transcript(&folder) else { panic!("it was read") };
        assert!(error.to_string().contains(&MAX_TRANSCRIPT_BYTES.to_string()), "{error}");
    }
}
