//! What is read for the screens, and what is sent: the store is looked at only when it has changed.

use std::time::Instant;

use ftl_command::documents::Documents;
use ftl_command::follow::Runs;
use ftl_command::known::RunOverview;
use ftl_command::orders::{Speaker, leave};
use ftl_command::task_steps::{TaskSteps, instances_of};
use ftl_command::{CommandError, inbox};
use ftl_engine::executors::transcript::conversations;
use ftl_engine::session::Session;
use ftl_folder::clock::wall;
use ftl_folder::id::RunId;
use ftl_notify::{AGAIN, look};
use ftl_store::{Most, journal};
use ftl_view::actions::{Known, PersonAction, actions, open_questions};
use ftl_view::board::{Board, TaskRow, TaskStage};
use ftl_view::lines;
use ftl_view::model::RunModel;
use ftl_view::model::tasks::plain;
use ftl_view::needs::Need;
use ftl_view::relative_time::clock;
use ftl_view::summary::{RunStanding, Summary};
use serde_json::Value as Json;

use crate::state::{Screen, State};

/// How many runs are shown of each kind.
const MOST: Most = Most { open: 200, ended: 100 };

/// How many entries around the cursor are read.
const ENTRIES: u64 = 400;

/// How many lines agents said last are shown.
const WORDS: usize = 60;

/// A run in one line.
#[derive(Clone, Debug)]
pub(crate) struct RunLine {
    pub(crate) run: String,
    pub(crate) standing: RunStanding,
    pub(crate) summary: Summary,
    pub(crate) changed: u64,
}

/// The data that the screens show.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) needs: Vec<Need>,
    pub(crate) runs: Vec<RunLine>,
    pub(crate) model: Option<RunModel>,
    pub(crate) rows: Vec<TaskRow>,
    pub(crate) actions: Vec<PersonAction>,
    /// The number of the last entry of the run.
    pub(crate) head: u64,
    /// Entries: number, time, line.
    pub(crate) entries: Vec<(u64, u64, String)>,
    /// The same in full, in the same order.
    pub(crate) facts: Vec<Json>,
    /// What happened to the chosen task.
    pub(crate) steps: TaskSteps,
    /// What the chosen task is to do, line by line.
    pub(crate) brief: Vec<String>,
    /// What agents say of the task, or in the run.
    pub(crate) words: Vec<String>,
    /// The lessons, or what is told of this machine, line by line.
    pub(crate) document: Vec<String>,
    /// What was looked at with a command, line by line.
    pub(crate) reading: Vec<String>,
}

impl Shown {
    /// The runs that the filter lets through.
    pub(crate) fn runs_of(&self, state: &State) -> Vec<&RunLine> {
        let fits = |one: &&RunLine| {
            let text = format!("{} {} {}", one.run, one.summary.title, one.standing.word());
            text.to_lowercase().contains(&state.filter.to_lowercase())
        };
        self.runs.iter().filter(fits).collect()
    }

    /// The tasks that the filter and the folding let through.
    pub(crate) fn rows_of(&self, state: &State) -> Vec<&TaskRow> {
        let is_quiet = |stage: &TaskStage| match stage {
            TaskStage::Waits(_) | TaskStage::Landed(_) | TaskStage::Unreachable(_) => true,
            TaskStage::Works(_) | TaskStage::Held(_) | TaskStage::Blocked(_) => false,
        };
        let fits = |row: &&TaskRow| {
            let text = format!("{} {}", row.seq, row.slug).to_lowercase();
            text.contains(&state.filter.to_lowercase()) && !(state.folded && is_quiet(&row.stands))
        };
        self.rows.iter().filter(fits).collect()
    }

    /// How many rows the cursor can be on.
    pub(crate) fn rows(&self, state: &State) -> usize {
        match state.screen {
            Screen::You => self.needs.len(),
            Screen::Runs => self.runs_of(state).len(),
            Screen::Board => self.rows_of(state).len(),
            Screen::Task => self.words.len(),
            Screen::Journal => self.entries_of(state).len(),
            Screen::Money => 0,
            Screen::Lessons | Screen::System => self.document.len(),
        }
    }

    pub(crate) fn chosen_run(&self, state: &State) -> Option<String> {
        match state.screen {
            Screen::You => self.needs.get(state.cursor).map(|need| need.run.clone()),
            _ => self.runs_of(state).get(state.cursor).map(|one| one.run.clone()),
        }
    }

    pub(crate) fn chosen_task(&self, state: &State) -> Option<String> {
        self.rows_of(state).get(state.cursor).map(|row| row.seq.clone())
    }

    /// The places of the entries that the filter lets through.
    pub(crate) fn entries_of(&self, state: &State) -> Vec<usize> {
        let words = state.filter.to_lowercase();
        let fits = |at: &usize| self.entries[*at].2.to_lowercase().contains(&words);
        (0..self.entries.len()).filter(fits).collect()
    }

    pub(crate) fn chosen_entry(&self, state: &State) -> Option<u64> {
        let place = *self.entries_of(state).get(state.cursor)?;
        self.entries.get(place).map(|(seq, ..)| *seq)
    }

    /// The fact of the chosen entry.
    pub(crate) fn chosen_fact(&self, state: &State) -> Option<&Json> {
        self.facts.get(*self.entries_of(state).get(state.cursor)?)
    }

    /// What can be done about what is chosen, with its run.
    pub(crate) fn actions(&self, state: &State) -> Vec<(String, PersonAction)> {
        if state.screen == Screen::You {
            let need = self.needs.get(state.cursor);
            let all = need
                .into_iter()
                .flat_map(|need| need.actions.iter().map(|one| (need.run.clone(), one.clone())));
            return all.collect();
        }
        match &state.run {
            Some(run) if state.screen.is_of_a_run() && state.at.is_none() => {
                self.actions.iter().map(|one| (run.clone(), one.clone())).collect()
            }
            Some(_) | None => Vec::new(),
        }
    }
}

/// What was looked at the last time: the version of the store, the screen, the run, the task, the entry.
type Looked = (u64, Screen, Option<String>, Option<String>, Option<u64>);

/// What is read and where orders go.
pub(crate) struct StoreAccess {
    session: Session,
    runs: Runs,
    by: String,
    documents: Box<dyn Documents>,
    seen: Option<Looked>,
    /// What lessons are looked for; all of them where it is empty.
    recall: String,
    /// When it was last said that somebody looks.
    looked: Option<Instant>,
    pub(crate) shown: Shown,
}

impl StoreAccess {
    pub(crate) fn open(session: Session, by: String, documents: Box<dyn Documents>) -> StoreAccess {
        let runs = Runs::new(session.store().clone(), session.library().clone());
        StoreAccess {
            session,
            runs,
            by,
            documents,
            seen: None,
            recall: String::new(),
            looked: None,
            shown: Shown::default(),
        }
    }

    /// Reads what has changed; whether anything has.
    pub(crate) fn refresh(&mut self, state: &State) -> bool {
        let version = self.session.store().version().unwrap_or_default();
        let now = Some((version, state.screen, state.run.clone(), state.task.clone(), state.at));
        // What agents say is in no entry.
        let talks = state.screen == Screen::Task || state.screen == Screen::Board;
        if self.seen == now && !talks {
            return false;
        }
        let is_new = self.seen != now;
        if is_new {
            self.read(state);
        }
        self.seen = now;
        let before = self.shown.words.len();
        if talks {
            self.shown.words = self.words(state);
        }
        is_new || self.shown.words.len() != before
    }

    fn read(&mut self, state: &State) {
        let line = |known: RunOverview| RunLine {
            run: known.row.run.to_string(),
            standing: known.standing(),
            changed: known.row.changed,
            summary: known.summary,
        };
        // A store that cannot be read now is read again at the next look.
        if let Ok(all) = inbox::overviews(&self.session, MOST) {
            self.shown.runs = all.into_iter().map(line).collect();
        }
        if let Ok(needs) = inbox::needs(&self.session, &self.runs, MOST.open) {
            self.shown.needs = needs;
        }
        match state.screen {
            Screen::You | Screen::Runs => {}
            Screen::Board | Screen::Task | Screen::Journal | Screen::Money => self.read_run(state),
            Screen::Lessons => self.shown.document = self.lessons(),
            Screen::System => {
                let mut all = self.read_document(&["agents"]);
                all.extend([String::new(), String::from("doctor")]);
                all.extend(self.read_document(&["doctor"]));
                self.shown.document = all;
            }
        }
    }

    fn read_run(&mut self, state: &State) {
        let Some(run) = state.run.as_deref().and_then(|run| run.parse::<RunId>().ok()) else { return };
        let Ok(model) = self.runs.at(&run, state.at) else { return };
        let Ok(Some(row)) = self.session.store().run(&run) else { return };
        self.shown.head = row.head;
        self.shown.rows = model.board.rows();
        self.shown.actions = self.can_be_done(&run, &model);
        let last = state.at.unwrap_or(row.head);
        let after = last.saturating_sub(ENTRIES);
        let (mut entries, mut facts) = (Vec::new(), Vec::new());
        let store = self.session.store();
        if let Ok(page) = store.entries(&run, after, usize::try_from(last - after).unwrap_or(0)) {
            for record in page.iter().rev() {
                if let Ok(entry) = journal::decode(&**store, &run, record) {
                    entries.push((record.seq, entry.at, plain(&lines::line(&entry))));
                    facts.push(serde_json::to_value(&entry).unwrap_or_default());
                }
            }
        }
        (self.shown.steps, self.shown.brief) = (TaskSteps::default(), Vec::new());
        if let Some(task) = state.task.as_deref().filter(|_| state.screen == Screen::Task) {
            let mine = instances_of(&model, task).into_iter().collect();
            self.shown.steps = TaskSteps::read(&self.runs, &run, model.at(), &mine).unwrap_or_default();
            self.shown.brief = brief(&model, task);
        }
        (self.shown.entries, self.shown.facts, self.shown.model) = (entries, facts, Some(model));
    }

    /// Lessons, a line each: those that were looked for, or all of them.
    fn lessons(&self) -> Vec<String> {
        let found = match self.recall.as_str() {
            "" => self.documents.document(&["memory", "export"]),
            words => self.documents.document(&["memory", "query", "--", words]),
        };
        let document = match found {
            Ok(document) => document,
            Err(error) => return vec![error.message, error.hint],
        };
        let all = [&document["failures"], &document["patterns"], &document];
        let lines = all.into_iter().filter_map(Json::as_array).flatten().flat_map(lesson);
        lines.collect()
    }

    /// Looks for lessons from now on.
    pub(crate) fn recall(&mut self, words: &str) {
        words.trim().clone_into(&mut self.recall);
        self.seen = None;
    }

    /// What can be done about every instance that needs a person, then about the whole.
    fn can_be_done(&self, run: &RunId, model: &RunModel) -> Vec<PersonAction> {
        let machine = model.board.machine();
        let found = self.shown.runs.iter().find(|one| one.run == run.as_str());
        let summary = found.map(|one| one.summary.clone()).unwrap_or_default();
        let mut all: Vec<PersonAction> = Vec::new();
        for need in self.shown.needs.iter().filter(|need| need.run == run.as_str()) {
            all.extend(need.actions.iter().cloned());
        }
        if let Some(root) = model.board.root() {
            let known = Known { questions: open_questions(root, &summary), ..Known::default() };
            all.extend(actions(machine, run.as_str(), root, &known));
        }
        all
    }

    /// What agents said last, of the chosen task or of the run.
    fn words(&self, state: &State) -> Vec<String> {
        let Some(run) = state.run.as_deref().and_then(|run| run.parse::<RunId>().ok()) else {
            return Vec::new();
        };
        let records = self.session.records();
        let Ok(all) = conversations(records, &run) else { return Vec::new() };
        let board: Option<&Board> = self.shown.model.as_ref().map(|model| &model.board);
        let mine = |instance: Option<ftl_core::run::InstanceId>| match (&state.task, board, instance) {
            (Some(task), Some(board), Some(instance)) if state.screen == Screen::Task => {
                board.task_of(instance) == Some(task.as_str())
            }
            _ => true,
        };
        let mut told = Vec::new();
        for one in all.iter().filter(|one| mine(one.instance)) {
            let Ok(read) = one.read(records, 0) else { continue };
            told.extend(read.lines.iter().filter_map(|line| word_of(&one.role, &line.to_json())));
        }
        told.split_off(told.len().saturating_sub(WORDS))
    }

    fn read_document(&self, words: &[&str]) -> Vec<String> {
        match self.documents.document(words) {
            Ok(document) => flat(&document, 0),
            Err(error) => vec![error.message, error.hint],
        }
    }

    /// Somebody looks: whoever would tell them of something need not.
    pub(crate) fn look_again(&mut self) {
        if self.looked.is_none_or(|when| when.elapsed() >= AGAIN) {
            self.looked = Some(Instant::now());
            let _ = look(&**self.session.records().store(), wall());
        }
    }

    /// Leaves an order; what to say of it.
    pub(crate) fn send(&mut self, run: &str, order: &Json, name: &str) -> String {
        self.seen = None;
        let sent = || -> Result<(), CommandError> {
            let gone = || CommandError::new(format!("there is no run `{run}`"), "look at the runs");
            let run: RunId = run.parse().map_err(|_| gone())?;
            let row = self.session.store().run(&run).ok().flatten().ok_or_else(gone)?;
            let by = Speaker { name: &self.by, face: "tui" };
            leave(&self.session, &row, (order.clone(), name), by).map(drop)
        };
        match sent() {
            Ok(()) => String::from("sent"),
            Err(error) => format!("{} ({})", error.message, error.hint),
        }
    }

    /// Looks with a command; its document is shown as System.
    pub(crate) fn look(&mut self, words: &str) -> String {
        let words: Vec<&str> = words.split_whitespace().collect();
        match self.documents.document(&words) {
            Ok(document) => {
                self.shown.reading =
                    if words.first() == Some(&"diff") { patch(&document) } else { flat(&document, 0) };
                String::new()
            }
            Err(error) => format!("{} ({})", error.message, error.hint),
        }
    }
}

/// A line of a conversation, where a person wants to see it.
fn word_of(role: &str, line: &Json) -> Option<String> {
    let text = |name: &str| line[name].as_str().unwrap_or_default();
    let words = match line["kind"].as_str()? {
        "text" | "question" | "failure" => text("text").to_owned(),
        "call" => format!("→ {} {}", text("tool"), text("about")),
        "ruling" if text("ruling") != "allow" => format!("✗ {}: {}", text("tool"), text("why")),
        _ => return None,
    };
    Some(format!("{role}: {}", ftl_view::paint::one_line(&words)))
}

/// A lesson in two lines: its name with what it has done, and what it says.
fn lesson(one: &Json) -> [String; 2] {
    let text = |name: &str| one[name].as_str().unwrap_or_default();
    let (helped, failed) =
        (one["times_helped"].as_u64().unwrap_or(0), one["times_failed"].as_u64().unwrap_or(0));
    let worth =
        if helped + failed > 0 { format!("  helped {helped}, failed {failed}") } else { String::new() };
    let says = [text("trigger"), text("fix"), text("insight")].into_iter().filter(|text| !text.is_empty());
    let says = says.map(ftl_view::paint::one_line).collect::<Vec<_>>().join(" → ");
    [format!("{}{worth}", text("name")), format!("    {says}")]
}

/// What a task is to do, out of the plan.
fn brief(model: &RunModel, task: &str) -> Vec<String> {
    let plan = model.board.root().and_then(|root| root.tracked.get("plan"));
    let tasks = plan.map(|plan| plan.field("tasks").items()).unwrap_or_default();
    let Some(found) = tasks.iter().find(|one| one.field("seq").as_text() == Some(task)) else {
        return Vec::new();
    };
    let list = |name: &str| {
        found.field(name).items().iter().filter_map(|one| one.as_text()).collect::<Vec<_>>().join(" ")
    };
    let text = |name: &str| found.field(name).as_text().unwrap_or_default().to_owned();
    let all = [("changes", list("delta")), ("verified by", text("verify")), ("objective", text("objective"))];
    let told = all.into_iter().filter(|(_, value)| !value.is_empty());
    told.map(|(name, value)| format!("{name}: {}", ftl_view::paint::one_line(&value))).collect()
}

/// The patches of a document of `ftl diff`, line by line.
fn patch(document: &Json) -> Vec<String> {
    let parts = document["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    if parts.is_empty() {
        return vec![String::from("nothing has landed, and nothing is kept")];
    }
    let lines = parts.iter().flat_map(|part| {
        let head = format!(
            "{} {}",
            part["what"].as_str().unwrap_or_default(),
            part["task"].as_str().unwrap_or_default()
        );
        let patch = part["patch"].as_str().unwrap_or_default();
        std::iter::once(head).chain(patch.lines().map(str::to_owned)).collect::<Vec<_>>()
    });
    lines.collect()
}

/// A document as lines.
fn flat(value: &Json, depth: usize) -> Vec<String> {
    let indent = "  ".repeat(depth);
    match value {
        Json::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "version")
            .flat_map(|(name, value)| match value {
                Json::Object(_) | Json::Array(_) => {
                    let mut all = vec![format!("{indent}{name}")];
                    all.extend(flat(value, depth + 1));
                    all
                }
                Json::Null => Vec::new(),
                Json::Bool(_) | Json::Number(_) | Json::String(_) => {
                    vec![format!("{indent}{name}: {}", spoken(value))]
                }
            })
            .collect(),
        Json::Array(items) => items.iter().flat_map(|item| flat(item, depth)).collect(),
        Json::Null => Vec::new(),
        Json::Bool(_) | Json::Number(_) | Json::String(_) => vec![format!("{indent}{}", spoken(value))],
    }
}

fn spoken(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), ftl_view::paint::one_line)
}

/// When an entry was written.
pub(crate) fn time_of(at: u64) -> String {
    clock(at)
}

#[cfg(test)]
pub(crate) mod tests {
    use ftl_view::board::TaskWork;
    use ftl_view::needs::{Behind, NeedKind};
    use serde_json::json;

    use super::*;

    fn action(order: &'static str, needs_reason: bool, takes: Option<&'static str>) -> PersonAction {
        let choices =
            if order == "answer" { vec![String::from("yes"), String::from("no")] } else { Vec::new() };
        PersonAction {
            order,
            label: order.to_owned(),
            command: format!("ftl {order} abcdefgh"),
            body: json!({ "order": order, "instance": 0 }),
            needs_reason,
            takes,
            choices,
        }
    }

    /// One question, one run, some tasks.
    pub(crate) fn sample() -> Shown {
        let all = vec![action("answer", false, Some("value")), action("stop", true, None)];
        let need = Need {
            id: String::from("n"),
            run: String::from("abcdefgh"),
            title: String::from("make the till work"),
            instance: 0,
            task: None,
            kind: NeedKind::Question,
            state: String::from("DELIVER"),
            text: String::from("Land it? [yes|no]"),
            choices: vec![String::from("yes"), String::from("no")],
            since: 0,
            behind: Behind { tasks: 3, money_per_minute: 20_000 },
            actions: all.clone(),
        };
        let works = TaskWork { state: String::from("VERIFY"), doing: None, tools: Some((2, 5)), since: 0 };
        let row = |seq: &str, stands: TaskStage, depth: usize| TaskRow {
            seq: seq.to_owned(),
            slug: String::from("mend"),
            depends: Vec::new(),
            depth,
            stands,
        };
        let summary = Summary { title: String::from("make the till work"), ..Summary::default() };
        let line = RunLine {
            run: String::from("abcdefgh"),
            standing: RunStanding::from("waiting"),
            summary,
            changed: 0,
        };
        Shown {
            needs: vec![need],
            runs: vec![line],
            rows: vec![
                row("001", TaskStage::Landed(Some(String::from("0123456789"))), 0),
                row("002", TaskStage::Works(works), 1),
                row("003", TaskStage::Blocked(String::from("1 of 2 tests failed")), 1),
            ],
            actions: all,
            head: 9,
            entries: vec![(9, 1000, String::from("TEST → DONE")), (8, 500, String::from("heard 3.0"))],
            words: vec![String::from("builder: I look at the test first")],
            document: vec![String::from("ready: true")],
            facts: vec![json!({ "fact": "moved", "to": "DONE" }), json!({ "fact": "heard" })],
            reading: vec![String::from("landed 001 mend"), String::from("+a line"), String::from("-another")],
            ..Shown::default()
        }
    }

    #[test]
    fn a_document_is_lines() {
        let document = json!({ "version": 1, "a": { "b": [1, "two"] }, "c": null, "d": "x\ny" });
        assert_eq!(flat(&document, 0), ["a", "  b", "    1", "    two", "d: x y"]);
    }
}
