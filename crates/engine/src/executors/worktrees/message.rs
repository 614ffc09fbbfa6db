//! What commits say: a subject of at most 72 letters, what was done and why, and trailers that name the run, the task,
//! the agent and its model. Nothing here asks git or an agent; who did the work was noted when it answered.

use ftl_core::run::Failure;
use serde::{Deserialize, Serialize};

use super::Sites;
use super::brief::{Noted, key};
use crate::executors::Job;
use ftl_git::Person;
use ftl_settings::config::Config;

/// The longest subject of a commit.
pub(super) const MAX_SUBJECT_LETTERS: usize = 72;

/// The kind of the notes that say who did the work of an instance.
const AUTHORS: &str = "author";

/// Verbs as agents report them, and as a commit says them.
const VERBS: &[(&[&str], &str)] = &[
    (&["added", "adds", "adding"], "Add"),
    (&["changed", "changes", "changing"], "Change"),
    (&["corrected", "corrects"], "Correct"),
    (&["created", "creates", "creating"], "Create"),
    (&["defined", "defines"], "Define"),
    (&["extended", "extends"], "Extend"),
    (&["fixed", "fixes", "fixing"], "Fix"),
    (&["handled", "handles"], "Handle"),
    (&["implemented", "implements", "implementing"], "Implement"),
    (&["introduced", "introduces"], "Introduce"),
    (&["made", "makes", "making"], "Make"),
    (&["moved", "moves"], "Move"),
    (&["refactored", "refactors"], "Refactor"),
    (&["removed", "removes", "removing"], "Remove"),
    (&["renamed", "renames"], "Rename"),
    (&["replaced", "replaces", "replacing"], "Replace"),
    (&["taught", "teaches"], "Teach"),
    (&["updated", "updates", "updating"], "Update"),
    (&["used", "uses"], "Use"),
    (&["wrote", "writes", "writing"], "Write"),
];

/// Words with which no order begins.
const NO_ORDERS: [&str; 22] = [
    "a",
    "all",
    "an",
    "as",
    "done",
    "everything",
    "he",
    "i",
    "in",
    "it",
    "my",
    "no",
    "nothing",
    "our",
    "she",
    "that",
    "the",
    "there",
    "they",
    "this",
    "we",
    "you",
];

/// How commits are written.
#[derive(Clone, Debug, Default)]
pub(super) struct Style {
    template: String,
    sign_off: bool,
}

/// Who did the work of an instance, and what they said it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::executors) struct Author {
    pub(in crate::executors) agent: String,
    #[serde(default)]
    pub(in crate::executors) model: Option<String>,
    #[serde(default)]
    pub(in crate::executors) summary: Option<String>,
}

/// The parts of a commit's message.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    pub(super) subject: String,
    pub(super) body: String,
    pub(super) objective: String,
    pub(super) tasks: Vec<String>,
    pub(super) run: String,
    pub(super) authors: Vec<Author>,
}

impl Style {
    pub(super) fn of(config: &Config) -> Style {
        let commit = &config.settings().commit;
        Style { template: commit.template.as_str().to_owned(), sign_off: commit.sign_off }
    }

    /// The message of a commit, up to the trailers that say which run and landing it is.
    pub(super) fn message(&self, about: &About, person: &Person) -> String {
        let text = if self.template.trim().is_empty() {
            format!("{}\n\n{}", about.subject, about.body)
        } else {
            self.filled(about)
        };
        let mut trailers: Vec<String> = Vec::new();
        for author in &about.authors {
            trailers.push(format!("Ftl-Agent: {}", line(&author.agent)));
            trailers.extend(author.model.iter().map(|model| format!("Ftl-Model: {}", line(model))));
        }
        trailers.extend(about.tasks.iter().map(|task| format!("Ftl-Task: {}", line(task))));
        if self.sign_off {
            trailers.push(format!("Signed-off-by: {} <{}>", line(&person.name), line(&person.email)));
        }
        // Two tasks of one agent name it once.
        let mut once: Vec<String> = Vec::new();
        for one in trailers {
            if !once.contains(&one) {
                once.push(one);
            }
        }
        format!("{}\n\n{}", text.trim(), once.join("\n")).trim().to_owned()
    }

    fn filled(&self, about: &About) -> String {
        let all = |of: fn(&Author) -> Option<&str>| -> String {
            let mut names: Vec<&str> = about.authors.iter().filter_map(of).collect();
            names.dedup();
            names.join(", ")
        };
        let value = |name: &str| match name {
            "subject" => Some(about.subject.clone()),
            "body" => Some(about.body.clone()),
            "objective" => Some(about.objective.clone()),
            "task" => Some(about.tasks.join(", ")),
            "run" => Some(about.run.clone()),
            "agent" => Some(all(|one| Some(&one.agent))),
            "model" => Some(all(|one| one.model.as_deref())),
            _ => None,
        };
        let (mut text, mut rest) = (String::new(), self.template.as_str());
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            match after.split_once('}').and_then(|(name, behind)| Some((value(name)?, behind))) {
                Some((value, behind)) => {
                    text.push_str(&value);
                    rest = behind;
                }
                None => {
                    text.push('{');
                    rest = after;
                }
            }
        }
        text.push_str(rest);
        text
    }
}

impl About {
    /// The work of a brief: its author's own words where they are an order, else what the plan calls the task.
    pub(super) fn of_brief(noted: &Noted, author: Option<Author>, run: &str) -> About {
        let objective = noted.spec.objective.as_deref().unwrap_or_default().trim().to_owned();
        let summary = author.as_ref().and_then(|author| author.summary.as_deref()).unwrap_or_default().trim();
        let own = subject_of(summary);
        let said = own.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(summary.trim_end_matches('.')));
        let what = if said || summary.split_whitespace().count() < 2 { "" } else { summary };
        let body: Vec<&str> = [what, &objective].into_iter().filter(|part| !part.is_empty()).collect();
        About {
            body: body.join("\n\n"),
            subject: own.unwrap_or_else(|| noted.subject()),
            objective,
            tasks: vec![noted.spec.id.clone()],
            run: run.to_owned(),
            authors: author.into_iter().collect(),
        }
    }

    /// Text from elsewhere: its first line, and what follows.
    pub(super) fn of_text(text: &str, author: Option<Author>, run: &str) -> About {
        let (subject, body) = text.split_once('\n').unwrap_or((text, ""));
        let (subject, body) = (subject.trim().to_owned(), body.trim().to_owned());
        let authors = author.into_iter().collect();
        About { subject, body, run: run.to_owned(), authors, ..About::default() }
    }
}

impl Sites {
    /// Notes who did the work of a job's instance.
    pub(in crate::executors) fn note_author(&self, job: &Job, author: &Author) -> Result<(), Failure> {
        self.put_note(AUTHORS, &key(job), author)
    }

    /// Which agent did the work of a job's instance, if one did. A note that cannot be read names none.
    pub(super) fn author(&self, job: &Job) -> Result<Option<Author>, Failure> {
        Ok(self.note(AUTHORS, &key(job))?.and_then(|text| serde_json::from_str(&text).ok()))
    }
}

/// The first sentence of what an agent says about its work as the subject of a commit, if it is an order or can be
/// made one, and is not too long.
pub(super) fn subject_of(summary: &str) -> Option<String> {
    let first = summary.lines().map(str::trim).find(|line| !line.is_empty())?;
    let first = first.split_once(". ").map_or(first, |(first, _)| first).trim_end_matches('.');
    let (word, rest) = first.split_once(' ')?;
    let is_word = !word.is_empty() && word.chars().all(char::is_alphabetic);
    let lower = word.to_lowercase();
    if !is_word || NO_ORDERS.contains(&lower.as_str()) {
        return None;
    }
    let verb = match VERBS.iter().find(|(said, _)| said.contains(&lower.as_str())) {
        Some((_, order)) => (*order).to_owned(),
        None if lower.ends_with("ed") || lower.ends_with("ing") => return None,
        None if lower.ends_with('s') && !lower.ends_with("ss") => return None,
        None => capital(word),
    };
    let subject = format!("{verb} {}", rest.split_whitespace().collect::<Vec<_>>().join(" "));
    (subject.chars().count() <= MAX_SUBJECT_LETTERS).then_some(subject)
}

/// Text as a subject: its first line, cut between words where it is too long.
pub(super) fn cut_subject(text: &str) -> String {
    let first = text.trim().lines().next().unwrap_or_default().trim();
    if first.chars().count() <= MAX_SUBJECT_LETTERS {
        return first.to_owned();
    }
    let short: String = first.chars().take(MAX_SUBJECT_LETTERS - 1).collect();
    let short = short.rsplit_once(' ').map_or(short.as_str(), |(before, _)| before);
    format!("{}…", short.trim_end())
}

/// A word with a capital letter.
fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Text in one line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// what an agent says | the subject, or a dash where the plan's words are better
    const SUBJECTS: &str = "
Add a function that multiplies. It is tested. | Add a function that multiplies
Added mul to calc.py.                         | Add mul to calc.py
implements   the parser                       | Implement the parser
pass the limit on                             | Pass the limit on
written                                       | -
Done                                          | -
The function was added                        | -
I fixed it                                    | -
Fetches nothing any more                      | -
Reworked the whole thing                      | -
```python                                     | -
";

    #[test]
    fn a_subject_is_an_order_or_the_plan_s() {
        for case in SUBJECTS.lines().filter(|line| line.contains('|')) {
            let (said, wanted) = case.split_once('|').unwrap();
            let found = subject_of(said.trim()).unwrap_or_else(|| String::from("-"));
            assert_eq!(found, wanted.trim(), "{case}");
        }
        assert_eq!(subject_of(&format!("Add {}", "x".repeat(MAX_SUBJECT_LETTERS - 4))).unwrap().len(), 72);
        assert_eq!(subject_of(&format!("Add {}", "x".repeat(MAX_SUBJECT_LETTERS - 3))), None);
        assert_eq!(cut_subject("short\nmore"), "short");
        let cut = cut_subject(&"seven x ".repeat(12));
        assert!(cut.ends_with("seven…") && cut.chars().count() <= MAX_SUBJECT_LETTERS, "{cut}");
    }

    #[test]
    fn a_template_is_filled_and_trailers_are_never_lost() {
        let author = |model: Option<&str>| Author {
            agent: String::from("play"),
            model: model.map(str::to_owned),
            summary: None,
        };
        let about = About {
            subject: String::from("Add mul"),
            body: String::from("multiply"),
            objective: String::from("multiply"),
            tasks: vec![String::from("001-add-mul")],
            run: String::from("abcdefgh"),
            authors: vec![author(Some("m1")), author(None)],
        };
        let person = Person { name: String::from("Ada"), email: String::from("ada@example.org") };
        let plain = Style::default().message(&about, &person);
        assert_eq!(plain, "Add mul\n\nmultiply\n\nFtl-Agent: play\nFtl-Model: m1\nFtl-Task: 001-add-mul");
        let template = String::from("feat({task}): {subject}\n\n{body} by {agent}/{model} {x}");
        let style = Style { template, sign_off: true };
        let own = style.message(&about, &person);
        assert!(
            own.starts_with("feat(001-add-mul): Add mul\n\nmultiply by play/m1 {x}\n\nFtl-Agent"),
            "{own}"
        );
        assert!(own.ends_with("\nSigned-off-by: Ada <ada@example.org>"), "{own}");
    }
}
