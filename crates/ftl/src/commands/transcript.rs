//! `ftl transcript`: what the agents of a run said and called, how each call was ruled on, and what it brought.
//!
//! It reads what was kept, also of conversations that go on and of those whose process was killed. It never asks an
//! agent, and nothing in it is a secret: what is kept has none.

use std::collections::BTreeMap;
use std::time::Duration;

use ftl_agents::contract::TURNS;
use ftl_command::session::store_failure;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, records, session};
use ftl_core::run::{ActionId, ROOT, Usage};
use ftl_engine::executors::transcript::{Conversation, TranscriptError, TranscriptLine, conversations};
use ftl_records::Records;
use ftl_view::lines::amounts;
use ftl_view::paint::{self, count, one_line, paint, safe};
use ftl_view::relative_time;
use serde_json::{Value as Json, json};

use crate::cli::Transcript;
use crate::target::RunView;

/// How many lines of a result, a prompt or an answer are shown, unless all are asked for.
const MAX_SHOWN_LINES: usize = 8;

/// How many letters of one such line are shown.
const MAX_SHOWN_LETTERS: usize = 200;

/// How often new lines are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the conversations of a run, of one of its tasks, or of an instance.
pub(crate) fn run(cli: &GlobalArgs, asked: &Transcript, out: &Out) -> Result<ExitStatus, CommandError> {
    let store = session::store_of_runs(&session::place(cli)?)?;
    let mut target = RunView::find(cli, &store, &asked.id)?;
    let Some(records) = records::existing(cli)? else { return Ok(ExitStatus::Done) };
    let mut shown = Shown { all: asked.all, read: BTreeMap::new(), last: None, call: None };
    loop {
        // The row is read before the conversations: a run that has ended then has no later ones.
        let row = store.run(&target.reader.run).map_err(|error| store_failure(&error))?;
        let ended = row.is_none_or(|row| row.settled);
        target.reader.refresh(&mut |_, _| {})?;
        shown.show(&target, &records, out)?;
        if ended || !asked.follow || out.is_unread() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    if shown.read.is_empty() && !out.is_json() {
        out.text(&format!("no agent was asked in {}\n", safe(&asked.id)))?;
    }
    Ok(ExitStatus::Done)
}

fn failure(error: &TranscriptError) -> CommandError {
    CommandError::new(error.to_string(), error.hint())
}

/// What has been shown so far.
struct Shown {
    /// Whether everything is shown whole.
    all: bool,
    /// How far each conversation was read.
    read: BTreeMap<(ActionId, usize), usize>,
    /// The conversation whose lines were shown last.
    last: Option<(ActionId, usize)>,
    /// A call whose ruling has not been seen yet.
    call: Option<String>,
}

impl Shown {
    /// Shows what is new.
    fn show(&mut self, target: &RunView, records: &Records, out: &Out) -> Result<(), CommandError> {
        let reader = &target.reader;
        for one in conversations(records, &reader.run).map_err(|error| failure(&error))? {
            let instance = one.instance.or_else(|| reader.owner(one.action.entry)).unwrap_or(ROOT);
            if !target.part.holds(&reader.board, instance) {
                continue;
            }
            let task = reader.board.task_of(instance).map(str::to_owned);
            let told = Told { one: &one, run: reader.run.as_str(), instance: instance.0, task };
            let name = told.task.as_deref().and_then(|seq| reader.board.task_label(seq));
            self.show_one(&told, name.as_deref(), records, out)?;
        }
        Ok(())
    }

    fn show_one(
        &mut self,
        told: &Told<'_>,
        name: Option<&str>,
        records: &Records,
        out: &Out,
    ) -> Result<(), CommandError> {
        let key = (told.one.action, told.one.number);
        let is_new = !self.read.contains_key(&key);
        let from = self.read.get(&key).copied().unwrap_or_default();
        let read = told.one.read(records, from).map_err(|error| failure(&error))?;
        self.read.insert(key, read.next);
        if read.lines.is_empty() && !is_new {
            return Ok(());
        }
        let prompt =
            if is_new { told.one.prompt(records).map_err(|error| failure(&error))? } else { String::new() };
        if out.is_json() {
            let first = is_new.then(|| told.json(json!({ "kind": "prompt", "text": prompt })));
            let rest = read.lines.iter().map(|line| told.json(line.to_json()));
            let text: String = first.into_iter().chain(rest).map(|line| format!("{line}\n")).collect();
            return out.bytes(&text);
        }
        let mut text = String::new();
        if self.last != Some(key) {
            text.push_str(&format!("{}\n", told.head(name)));
            self.last = Some(key);
        }
        if is_new {
            text.push_str(&self.prompt(&prompt));
        }
        for line in &read.lines {
            text.push_str(&self.line(line));
        }
        text.push_str(&self.flush());
        if told.one.is_cut && told.one.is_over() {
            text.push_str(&row(&paint(paint::WARNING, "cut"), "it was too long: the rest is not kept"));
        }
        out.text(&text)
    }

    /// A call without a ruling.
    fn flush(&mut self) -> String {
        self.call.take().map_or_else(String::new, |call| row(&paint(paint::STRONG, "calls"), &call))
    }

    fn prompt(&self, prompt: &str) -> String {
        if self.all {
            return block("prompt", prompt, usize::MAX);
        }
        let size = count(prompt.lines().count(), "line");
        row(&paint(paint::QUIET, "prompt"), &paint(paint::QUIET, format!("{size}; --all shows it")))
    }

    fn line(&mut self, line: &TranscriptLine) -> String {
        let most = if self.all { usize::MAX } else { MAX_SHOWN_LINES };
        if let TranscriptLine::Ruling { tool, path, ruling, why } = line {
            let call =
                self.call.take().unwrap_or_else(|| [tool.as_str(), path.as_deref().unwrap_or("")].join(" "));
            return ruled(&call, ruling, why.as_deref());
        }
        let before = self.flush();
        let text = match line {
            TranscriptLine::Text(text) => block("says", text, usize::MAX),
            TranscriptLine::Thought(text) if self.all => block("thinks", text, most),
            TranscriptLine::Thought(_) | TranscriptLine::Ruling { .. } => String::new(),
            TranscriptLine::Message(text) => block("told", text, most),
            TranscriptLine::Arguments { args, .. } if self.all => {
                block("with", &serde_json::to_string_pretty(args).unwrap_or_default(), most)
            }
            TranscriptLine::Arguments { .. } => String::new(),
            TranscriptLine::Call { tool, about } => {
                self.call = Some(format!("{} {}", safe(tool), one_line(about)).trim_end().to_owned());
                String::new()
            }
            TranscriptLine::Result { text: Some(text), .. } => block("", text, most),
            TranscriptLine::Result { left_out, .. } => {
                let bytes = left_out.unwrap_or_default();
                row("", &paint(paint::QUIET, format!("[{bytes} bytes of its result are not kept]")))
            }
            // The ruling has said so.
            TranscriptLine::Back { wrong: Some(wrong), .. } if wrong.starts_with("denied: ") => String::new(),
            TranscriptLine::Back { wrong: Some(wrong), .. } => {
                row(&paint(paint::WARNING, "failed"), &one_line(wrong))
            }
            TranscriptLine::Back { wrong: None, .. } => String::new(),
            TranscriptLine::Used(usage) => render_usage(usage),
            TranscriptLine::Again => row("", &paint(paint::QUIET, "(the turn is taken again)")),
            TranscriptLine::Answer(answer) => {
                block("answers", &serde_json::to_string_pretty(answer).unwrap_or_default(), most)
            }
            TranscriptLine::Question(text) => block("asks", text, most),
            TranscriptLine::Failure(text) => row(&paint(paint::ERROR, "ended"), &one_line(text)),
            TranscriptLine::Unknown(line) => row("", &paint(paint::QUIET, safe(&line.to_string()))),
        };
        format!("{before}{text}")
    }
}

/// A conversation with where it belongs.
struct Told<'a> {
    one: &'a Conversation,
    run: &'a str,
    instance: u32,
    task: Option<String>,
}

impl Told<'_> {
    /// Which conversation it is, in one line.
    fn head(&self, name: Option<&str>) -> String {
        let one = self.one;
        let who = [Some(one.role.as_str()), one.form.as_deref()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ");
        let agent = match &one.model {
            Some(model) => format!("{} ({model})", one.agent),
            None => one.agent.clone(),
        };
        let mut words: Vec<String> = name.map(safe).into_iter().collect();
        words.extend([safe(&who), safe(&agent)]);
        words.extend(one.at.map(relative_time::clock));
        if one.number > 0 {
            words.push(format!("asked again ({})", one.number + 1));
        }
        let place = paint(paint::QUIET, format!("{}/{} {}", self.run, self.instance, one.action));
        format!("{}  {place}", paint(paint::STRONG, words.join(paint::DOT)))
    }

    /// A line of it as data.
    fn json(&self, mut line: Json) -> Json {
        let one = self.one;
        line["run"] = json!(self.run);
        line["instance"] = json!(self.instance);
        line["task"] = json!(self.task);
        line["action"] = json!(one.action.to_string());
        line["conversation"] = json!(one.number);
        line["role"] = json!(one.role);
        line["form"] = json!(one.form);
        line["agent"] = json!(one.agent);
        line["model"] = json!(one.model);
        line
    }
}

/// What costs something, where anything was used.
fn render_usage(usage: &Usage) -> String {
    let costs = |name: &str, amount: u64| name != TURNS && amount > 0;
    let told: Usage =
        usage.iter().filter(|(name, amount)| costs(name, **amount)).map(|(n, a)| (n.clone(), *a)).collect();
    if told.is_empty() {
        String::new()
    } else {
        row("", &paint(paint::QUIET, format!("used {}", amounts(&told))))
    }
}

fn ruled(call: &str, ruling: &str, why: Option<&str>) -> String {
    let why = one_line(why.unwrap_or_default());
    match ruling {
        "allow" => row(&paint(paint::STRONG, "calls"), call),
        "ask" => row(&paint(paint::WARNING, "asks for"), &format!("{call}: {why}")),
        _ => row(&paint(paint::ERROR, "denied"), &format!("{call}: {why}")),
    }
}

/// How wide the first column is.
const FIRST: usize = 9;

fn row(label: &str, text: &str) -> String {
    format!("  {}{text}\n", paint::padded(label, FIRST))
}

/// A text of several lines behind a label; what is too long is counted.
fn block(label: &str, text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let mut shown = String::new();
    for (index, line) in lines.iter().take(most).enumerate() {
        let label = if index == 0 { label } else { "" };
        shown.push_str(&row(&paint(paint::QUIET, label), &shorten_line(&safe(line), most)));
    }
    if lines.len() > most {
        let more = count(lines.len() - most, "more line");
        shown.push_str(&row("", &paint(paint::QUIET, format!("… {more}; --all shows them"))));
    }
    shown
}

fn shorten_line(line: &str, most: usize) -> String {
    if most == usize::MAX || line.chars().count() <= MAX_SHOWN_LETTERS {
        return line.to_owned();
    }
    let kept: String = line.chars().take(MAX_SHOWN_LETTERS).collect();
    format!("{kept}…")
}
