//! The screens, out of the state and what was read. Nothing is looked at here.

use ftl_core::run::Time;
use ftl_view::board::{TaskRow, TaskStage};
use ftl_view::cause::cause;
use ftl_view::keys::{Key, of_terminal};
use ftl_view::model::tasks::{plain, stage_word};
use ftl_view::needs::NeedKind;
use ftl_view::paint::{one_line, safe};
use ftl_view::relative_time::{ago, lasted};
use ftl_view::runs;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};
use serde_json::Value as Json;

use crate::access::{Shown, time_of};
use crate::state::{Screen, State, TaskPane, Typing};

const QUIET: Style = Style::new().add_modifier(Modifier::DIM);
const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
const GOOD: Style = Style::new().fg(Color::Green);
const WARNING: Style = Style::new().fg(Color::Yellow);
const BAD: Style = Style::new().fg(Color::Red);

/// How many levels of the graph are shown by how far a row is from the edge.
const MAX_LEVELS: usize = 6;

/// Draws what is to be seen now.
pub(crate) fn screen(frame: &mut Frame<'_>, state: &State, shown: &Shown, now: Time) {
    let parts = Layout::vertical([Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)]);
    let [head, body, foot] = parts.areas(frame.area());
    frame.render_widget(Paragraph::new(tabs(state, shown)), head);
    match state.screen {
        Screen::You => you(frame, body, state, shown, now),
        Screen::Runs => all_runs(frame, body, state, shown, now),
        Screen::Board => board(frame, body, state, shown, now),
        Screen::Task => task(frame, body, state, shown, now),
        Screen::Journal => journal(frame, body, state, shown),
        Screen::Money => money(frame, body, state, shown),
        Screen::Lessons => document(frame, body, (state, shown), "Lessons"),
        Screen::System => document(frame, body, (state, shown), "System"),
    }
    frame.render_widget(Paragraph::new(foot_line(state, shown)), foot);
    if let Some((words, line)) = &state.reading {
        reading(frame, body, (words, *line), &shown.reading);
    }
    if state.help {
        help(frame);
    }
}

fn tabs(state: &State, shown: &Shown) -> Line<'static> {
    let mut spans = vec![Span::styled("ftl ", STRONG)];
    for (index, (screen, name)) in Screen::ALL.into_iter().enumerate() {
        let style = if screen == state.screen { CHOSEN } else { QUIET };
        let count = if screen == Screen::You && !shown.needs.is_empty() {
            format!("({})", shown.needs.len())
        } else {
            String::new()
        };
        spans.push(Span::styled(format!(" {} {name}{count} ", index + 1), style));
    }
    Line::from(spans)
}

/// What was looked at with a command, over the screen.
fn reading(frame: &mut Frame<'_>, area: Rect, (words, line): (&str, usize), lines: &[String]) {
    let is_diff = words.starts_with("diff");
    let style = |line: &str| match line.as_bytes().first() {
        Some(b'+') if is_diff => GOOD,
        Some(b'-') if is_diff => BAD,
        Some(b'@') if is_diff => WARNING,
        _ => Style::new(),
    };
    let shown = lines.iter().skip(line).map(|line| Line::from(Span::styled(safe(line), style(line))));
    let title =
        format!(" ftl {} · {} of {} · Esc closes ", safe(words), (line + 1).min(lines.len()), lines.len());
    frame.render_widget(Clear, area);
    frame
        .render_widget(Paragraph::new(shown.collect::<Vec<_>>()).block(Block::bordered().title(title)), area);
}

/// The bottom line: what is typed, what was said, or the keys that count here.
fn foot_line(state: &State, shown: &Shown) -> Line<'static> {
    let typed = |lead: String| {
        Line::from(vec![Span::styled(lead, STRONG), Span::raw(safe(&state.typed)), Span::raw("▏")])
    };
    match &state.typing {
        Some(Typing::Filter) => return typed(String::from("/")),
        Some(Typing::Command) => return typed(String::from(":")),
        Some(Typing::Value(_, action)) => {
            let choices: Vec<String> = action
                .choices
                .iter()
                .enumerate()
                .map(|(at, one)| format!("{} {}", at + 1, safe(one)))
                .collect();
            return typed(format!("{} {}: ", action.label, choices.join("  ")));
        }
        Some(Typing::Reason(_, action)) => return typed(format!("{}: why? ", safe(&action.label))),
        Some(Typing::Name(_, action, _)) => return typed(format!("{}: your name? ", safe(&action.label))),
        None => {}
    }
    if !state.note.is_empty() {
        return Line::from(Span::styled(safe(&state.note), WARNING));
    }
    if let Some(at) = state.at {
        return Line::from(Span::styled(
            format!("as it stood with entry {at} of {}; f is now", shown.head),
            WARNING,
        ));
    }
    let can: Vec<&str> = shown.actions(state).iter().map(|(_, one)| one.order).collect();
    let mut words = vec!["Enter open", "Esc back", "/ filter"];
    let keys = [
        ("answer", "a answer"),
        ("raise", "R raise"),
        ("override", "O override"),
        ("resume", "r again"),
        ("drive", "r go on"),
        ("retry", "r again"),
        ("put_away", "x put away"),
        ("stop", "S stop"),
    ];
    words.extend(keys.iter().filter(|(order, _)| can.contains(order)).map(|(_, words)| *words));
    words.extend(["? keys", "q leave"]);
    Line::from(Span::styled(words.join("  "), QUIET))
}

/// A part of the screen with a frame: lines of which the chosen one is in sight.
fn list(frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<Line<'static>>, chosen: Option<usize>) {
    let room = usize::from(area.height.saturating_sub(2)).max(1);
    let first = chosen.map_or(0, |chosen| (chosen + 1).saturating_sub(room));
    let shown: Vec<Line<'static>> = lines
        .into_iter()
        .enumerate()
        .skip(first)
        .take(room)
        .map(|(at, line)| if Some(at) == chosen { line.style(CHOSEN) } else { line })
        .collect();
    frame.render_widget(Paragraph::new(shown).block(Block::bordered().title(format!(" {title} "))), area);
}

/// A part of the screen with text that is wrapped.
fn text(frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<Line<'static>>) {
    let block = Block::bordered().title(format!(" {title} "));
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}

/// Two halves: beside each other where it is wide enough, else the one that is chosen.
fn halves(area: Rect, state: &State) -> (Option<Rect>, Option<Rect>) {
    if state.full {
        return if state.right { (None, Some(area)) } else { (Some(area), None) };
    }
    if area.width >= 100 {
        let [left, right] =
            Layout::horizontal([Constraint::Percentage(58), Constraint::Percentage(42)]).areas(area);
        return (Some(left), Some(right));
    }
    if area.height >= 16 {
        let [top, bottom] =
            Layout::vertical([Constraint::Percentage(55), Constraint::Percentage(45)]).areas(area);
        return (Some(top), Some(bottom));
    }
    if state.right { (None, Some(area)) } else { (Some(area), None) }
}

fn you(frame: &mut Frame<'_>, area: Rect, state: &State, shown: &Shown, now: Time) {
    let (left, right) = halves(area, state);
    if let Some(left) = left {
        let lines = shown.needs.iter().map(|need| {
            let (sign, style) = match need.kind {
                NeedKind::Held | NeedKind::Blocked => ("✗", BAD),
                NeedKind::Question | NeedKind::Word => ("?", WARNING),
                NeedKind::Interrupted => ("▪", WARNING),
                NeedKind::Landing => ("↓", WARNING),
                NeedKind::Limit => ("!", WARNING),
            };
            let behind = if need.behind.tasks > 0 {
                format!(" [{} behind]", need.behind.tasks)
            } else {
                String::new()
            };
            Line::from(vec![
                Span::styled(format!("{sign} "), style),
                Span::raw(one_line(&need.text)),
                Span::styled(behind, QUIET),
            ])
        });
        let lines: Vec<Line<'static>> = lines.collect();
        let lines = if lines.is_empty() { vec![Line::from("Nothing waits for you.")] } else { lines };
        list(frame, left, "What needs you", lines, (!shown.needs.is_empty()).then_some(state.cursor));
    }
    let Some(right) = right else { return };
    let Some(need) = shown.needs.get(state.cursor) else { return text(frame, right, "", Vec::new()) };
    let mut lines = vec![
        Line::from(Span::styled(safe(&need.title), STRONG)),
        Line::from(Span::styled(
            format!("{} in {} · {}", need.run, safe(&need.state), ago(need.since, now)),
            QUIET,
        )),
        Line::from(""),
    ];
    lines.extend(need.text.lines().map(|line| Line::from(safe(line))));
    lines.push(Line::from(""));
    for (at, choice) in need.choices.iter().enumerate() {
        lines.push(Line::from(format!("a {}  {}", at + 1, safe(choice))));
    }
    lines.extend(need.actions.iter().map(|one| Line::from(Span::styled(safe(&one.command), QUIET))));
    text(frame, right, "What can be done", lines);
}

fn all_runs(frame: &mut Frame<'_>, area: Rect, state: &State, shown: &Shown, now: Time) {
    let (left, right) = halves(area, state);
    let all = shown.runs_of(state);
    if let Some(left) = left {
        let lines = all.iter().map(|one| {
            let word = one.standing.word();
            let style = match word {
                "complete" => GOOD,
                "held" | "error" => BAD,
                "running" => STRONG,
                _ => WARNING,
            };
            Line::from(vec![
                Span::raw(format!("{} ", one.run)),
                Span::styled(format!("{word:<11} "), style),
                Span::raw(safe(&one.summary.title)),
                Span::styled(format!("  {}", ago(one.changed, now)), QUIET),
            ])
        });
        list(frame, left, "Runs", lines.collect(), (!all.is_empty()).then_some(state.cursor));
    }
    let (Some(right), Some(one)) = (right, all.get(state.cursor)) else { return };
    let mut lines = vec![
        Line::from(Span::styled(safe(&one.summary.title), STRONG)),
        Line::from(format!("{} in {}", safe(&one.summary.protocol), safe(&one.summary.state))),
    ];
    lines.extend(one.summary.reason.iter().map(|reason| Line::from(plain(&cause(reason)))));
    lines.push(Line::from(runs::render_spent(&one.summary.meters)));
    lines.extend(one.summary.waits.iter().map(|wait| Line::from(Span::styled(safe(&wait.text), WARNING))));
    text(frame, right, "This run", lines);
}

fn board(frame: &mut Frame<'_>, area: Rect, state: &State, shown: &Shown, now: Time) {
    let (left, right) = halves(area, state);
    let rows = shown.rows_of(state);
    let title = shown.model.as_ref().map_or_else(
        || String::from("No run is chosen"),
        |model| {
            let root = model.board.root().map_or("", |root| &root.state);
            format!("{} · {root}", state.run.as_deref().unwrap_or_default())
        },
    );
    if let Some(left) = left {
        let lines: Vec<Line<'static>> =
            if rows.is_empty() { steps(shown) } else { rows.iter().map(|row| row_line(row, now)).collect() };
        list(frame, left, &title, lines, (!rows.is_empty()).then_some(state.cursor));
    }
    let Some(right) = right else { return };
    let mut lines: Vec<Line<'static>> = Vec::new();
    if let Some(row) = rows.get(state.cursor) {
        lines.push(Line::from(Span::styled(format!("{} {}", safe(&row.seq), safe(&row.slug)), STRONG)));
        lines.push(Line::from(stage_text(row, now)));
        lines.push(Line::from(""));
    }
    lines.extend(shown.words.iter().rev().take(8).rev().map(|word| Line::from(safe(word))));
    lines.push(Line::from(""));
    lines.extend(
        shown
            .entries
            .iter()
            .take(8)
            .map(|(seq, _, line)| Line::from(Span::styled(format!("{seq} {}", safe(line)), QUIET))),
    );
    text(frame, right, "News", lines);
}

/// The steps of a story.
fn steps(shown: &Shown) -> Vec<Line<'static>> {
    let Some(model) = &shown.model else { return Vec::new() };
    let began = model.board.times.map_or(0, |(first, _)| first);
    let step = |step: &ftl_view::board::StoryStep| {
        let (sign, style) = match step.good {
            Some(true) => ("✓", GOOD),
            Some(false) => ("✗", BAD),
            None => ("·", QUIET),
        };
        Line::from(vec![
            Span::styled(format!("{sign} "), style),
            Span::styled(format!("{:>6} ", lasted(step.at.saturating_sub(began))), QUIET),
            Span::raw(safe(&plain(&step.text))),
        ])
    };
    model.board.steps().iter().map(step).collect()
}

fn row_line(row: &TaskRow, now: Time) -> Line<'static> {
    let (sign, style) = match &row.stands {
        TaskStage::Waits(_) => ("·", QUIET),
        TaskStage::Unreachable(_) => ("·", WARNING),
        TaskStage::Works(_) => ("▸", STRONG),
        TaskStage::Held(_) => ("?", BAD),
        TaskStage::Landed(_) => ("✓", GOOD),
        TaskStage::Blocked(_) => ("✗", WARNING),
    };
    let indent = "  ".repeat(row.depth.min(MAX_LEVELS));
    Line::from(vec![
        Span::styled(format!("{sign} "), style),
        Span::raw(format!("{indent}{} {}  ", safe(&row.seq), safe(&row.slug))),
        Span::styled(stage_text(row, now), QUIET),
    ])
}

fn stage_text(row: &TaskRow, now: Time) -> String {
    match &row.stands {
        TaskStage::Works(work) => {
            let tools = work.tools.map_or_else(String::new, |(used, limit)| format!(" {used}/{limit} tools"));
            format!("{}{tools} {}", safe(&work.state), lasted(now.saturating_sub(work.since)))
        }
        TaskStage::Waits(on) if !on.is_empty() => format!("waits for {}", safe(&on.join(" "))),
        TaskStage::Unreachable(by) => format!("behind {}", safe(&by.join(" "))),
        TaskStage::Held(why) | TaskStage::Blocked(why) => plain(&cause(why)),
        TaskStage::Landed(commit) => {
            format!("landed {}", commit.as_deref().unwrap_or_default().chars().take(8).collect::<String>())
        }
        TaskStage::Waits(_) => stage_word(&row.stands).to_owned(),
    }
}

fn task(frame: &mut Frame<'_>, area: Rect, state: &State, shown: &Shown, now: Time) {
    let (left, right) = halves(area, state);
    let row = shown.rows.iter().find(|row| Some(&row.seq) == state.task.as_ref());
    if let Some(left) = left {
        let mut lines = Vec::new();
        if let Some(row) = row {
            lines.push(Line::from(Span::styled(format!("{} {}", safe(&row.seq), safe(&row.slug)), STRONG)));
            lines.push(Line::from(stage_text(row, now)));
            if !row.depends.is_empty() {
                lines.push(Line::from(format!("after {}", safe(&row.depends.join(" ")))));
            }
            if let Some(model) = &shown.model {
                lines.extend(shown.brief.iter().map(|line| Line::from(Span::styled(safe(line), QUIET))));
                lines.extend(path_lines(&shown.steps.path));
                for (kind, took) in model.timeline.sums(&row.seq, now) {
                    lines.push(Line::from(Span::styled(format!("{kind:?} {}", lasted(took)), QUIET)));
                }
            }
        } else {
            lines.push(Line::from("Choose a task on the board."));
        }
        text(frame, left, "Task", lines);
    }
    let Some(right) = right else { return };
    if state.pane == TaskPane::Verdicts {
        return text(frame, right, "What gates said", verdict_lines(&shown.steps.verdicts));
    }
    let lines = shown.words.iter().map(|word| Line::from(safe(word))).collect();
    list(frame, right, "What its agents say", lines, (!shown.words.is_empty()).then_some(state.cursor));
}

/// The path of a task, a line for each attempt: states with how often they were visited.
fn path_lines(path: &[Json]) -> Vec<Line<'static>> {
    let mut attempts: Vec<(u64, Vec<String>)> = Vec::new();
    for step in path {
        let instance = step[2].as_u64().unwrap_or(0);
        let visits = step[5]
            .as_u64()
            .filter(|visits| *visits > 1)
            .map_or_else(String::new, |visits| format!("@{visits}"));
        let state = format!("{}{visits}", step[4].as_str().unwrap_or_default());
        match attempts.last_mut() {
            Some((last, states)) if *last == instance => states.push(state),
            Some(_) | None => attempts.push((instance, vec![state])),
        }
    }
    attempts.iter().map(|(_, states)| Line::from(safe(&states.join(" → ")))).collect()
}

/// What gates said, the last first: base, work and merged where they are known.
fn verdict_lines(verdicts: &[Json]) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for one in verdicts.iter().rev() {
        let value = &one["value"];
        let (word, style) = match (value["passed"].as_bool(), value["status"].as_str()) {
            (Some(true), _) | (None, Some("landed")) => ("✓", GOOD),
            (Some(false), _) | (None, Some(_)) => ("✗", BAD),
            (None, None) => ("·", QUIET),
        };
        let base = match value["red_before"].as_bool() {
            Some(true) => "  failed before",
            Some(false) => "  passed before",
            None => "",
        };
        let name = one["action"].as_str().unwrap_or_default();
        lines.push(Line::from(vec![
            Span::styled(format!("{word} {name}"), style),
            Span::styled(format!("{base}  entry {}", one["entry"]), QUIET),
        ]));
        let summary = value["summary"].as_str().unwrap_or_default();
        lines.extend(summary.lines().take(4).map(|line| Line::from(format!("    {}", safe(line)))));
    }
    if lines.is_empty() {
        lines.push(Line::from("No gate has looked yet."));
    }
    lines
}

fn journal(frame: &mut Frame<'_>, area: Rect, state: &State, shown: &Shown) {
    let (left, right) = halves(area, state);
    if let Some(left) = left {
        let lines = shown.entries_of(state).into_iter().map(|at| {
            let (seq, at, line) = &shown.entries[at];
            let head = Span::styled(format!("{seq:>6} {} ", time_of(*at)), QUIET);
            Line::from(vec![head, Span::raw(safe(line))])
        });
        let title =
            format!("Journal of {} · Enter goes back to an entry", state.run.as_deref().unwrap_or("no run"));
        list(frame, left, &title, lines.collect(), (!shown.entries.is_empty()).then_some(state.cursor));
    }
    let (Some(right), Some(fact)) = (right, shown.chosen_fact(state)) else { return };
    let whole = serde_json::to_string_pretty(fact).unwrap_or_default();
    text(frame, right, "The fact in full", whole.lines().map(|line| Line::from(safe(line))).collect());
}

/// How an amount grew, as one line of blocks: a place for each stretch of the run.
fn spark(points: &[(Time, u64)], wide: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (Some((first, _)), Some((last, most))) = (points.first(), points.last()) else {
        return String::new();
    };
    let took = last.saturating_sub(*first).max(1);
    let place = |at: usize| {
        let until = first + took * (at as u64 + 1) / wide as u64;
        let reached =
            points.iter().take_while(|(when, _)| *when <= until).last().map_or(0, |(_, amount)| *amount);
        BLOCKS[usize::try_from(reached * 7 / (*most).max(1)).unwrap_or(7).min(7)]
    };
    (0..wide).map(place).collect()
}

fn money(frame: &mut Frame<'_>, area: Rect, state: &State, shown: &Shown) {
    let mut lines = Vec::new();
    let found = shown.runs.iter().find(|one| Some(&one.run) == state.run.as_ref());
    for (name, spent) in found.into_iter().flat_map(|one| &one.summary.meters) {
        let wide = usize::from(area.width.saturating_sub(40)).clamp(10, 60);
        let bar = spent.limit.map_or_else(String::new, |limit| {
            plain(&ftl_view::paint::bar(spent.used, spent.reserved, limit, wide))
        });
        lines.push(Line::from(format!("{:<18} {bar} {}", safe(name), runs::spent_and_aside(name, spent))));
    }
    if let Some(model) = &shown.model {
        let (all, points) = (&model.ledger.all, &model.ledger.points);
        let is_paid = all.money > 0;
        let grew: Vec<(Time, u64)> =
            points.iter().map(|point| (point.at, if is_paid { point.money } else { point.tokens })).collect();
        if grew.last().is_some_and(|(_, amount)| *amount > 0) {
            let wide = usize::from(area.width.saturating_sub(40)).clamp(10, 60);
            let name = if is_paid { "money grew" } else { "tokens grew" };
            lines.push(Line::from(format!("{name:<18} {}", spark(&grew, wide))));
        }
        lines.push(Line::from(""));
        lines.push(Line::from(Span::styled(
            "role               input   cached   output   tokens     money",
            STRONG,
        )));
        for (role, of) in &model.ledger.roles {
            let unknown = if of.unknown > 0 { "?" } else { "" };
            let paid = ftl_core::amount::Unit::Money.show(of.money);
            lines.push(Line::from(format!(
                "{:<16} {:>8} {:>8} {:>8} {:>8} {paid:>8}{unknown}",
                safe(role),
                of.input,
                of.cached,
                of.output,
                of.tokens
            )));
        }
    }
    let title = format!("Money of {}", state.run.as_deref().unwrap_or("no run"));
    list(frame, area, &title, lines, None);
}

fn document(frame: &mut Frame<'_>, area: Rect, (state, shown): (&State, &Shown), title: &str) {
    let lines =
        shown.document.iter().filter(|line| line.to_lowercase().contains(&state.filter.to_lowercase()));
    let lines: Vec<Line<'static>> = lines.map(|line| Line::from(safe(line))).collect();
    list(frame, area, title, lines, Some(state.cursor));
}

fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let keys: Vec<Key> = of_terminal().collect();
    let (wide, high) = (area.width.min(100), area.height.min(u16::try_from(keys.len()).unwrap_or(20) + 2));
    let place = Rect::new((area.width - wide) / 2, (area.height - high) / 2, wide, high);
    let line =
        |key: &Key| Line::from(vec![Span::styled(format!("{:<8} ", key.key), STRONG), Span::raw(key.does)]);
    let lines: Vec<Line<'static>> = keys.iter().map(line).collect();
    frame.render_widget(Clear, place);
    let all = Paragraph::new(lines);
    // Where there is no room for a frame, the keys are worth more than it.
    let is_high = usize::from(area.height) >= keys.len() + 2;
    frame.render_widget(if is_high { all.block(Block::bordered().title(" Keys ")) } else { all }, place);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::access::tests::sample;

    fn drawn(state: &State, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen(frame, state, &sample(), 61_000)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn every_screen_is_drawn_at_every_size() {
        let words = [
            (Screen::You, "Land it?"),
            (Screen::Runs, "waiting"),
            (Screen::Board, "002 mend"),
            (Screen::Task, "What its agents say"),
            (Screen::Journal, "TEST → DONE"),
            (Screen::Money, "Money of abcdefgh"),
            (Screen::Lessons, "ready: true"),
            (Screen::System, "ready: true"),
        ];
        for (screen, word) in words {
            let state = State {
                screen,
                run: Some(String::from("abcdefgh")),
                task: Some(String::from("002")),
                ..State::default()
            };
            for size in [(80, 24), (100, 30), (200, 60), (80, 50)] {
                let picture = drawn(&state, size);
                assert!(picture.contains(word), "{screen:?} at {size:?} has no {word}:\n{picture}");
                assert!(picture.contains("q leave") || size.0 < 80, "{picture}");
            }
            for size in [(1, 1), (10, 3), (20, 5), (40, 10), (300, 5)] {
                drawn(&state, size);
            }
        }
    }

    #[test]
    fn what_is_read_lies_over_every_screen_and_the_chosen_half_can_be_alone() {
        for size in [(80, 24), (200, 60)] {
            let state = State { reading: Some((String::from("diff abcdefgh"), 1)), ..State::default() };
            let picture = drawn(&state, size);
            assert!(picture.contains("+a line") && !picture.contains("landed 001 mend"), "{picture}");
            assert!(picture.contains("2 of 3") && !picture.contains("Land it?"), "{picture}");
            let run = Some(String::from("abcdefgh"));
            let state = State { screen: Screen::Journal, run, right: true, full: true, ..State::default() };
            let picture = drawn(&state, size);
            assert!(picture.contains("\"to\": \"DONE\"") || picture.contains("to"), "{picture}");
            assert!(
                picture.contains("The fact in full") && !picture.contains("Enter goes back"),
                "{picture}"
            );
        }
    }

    #[test]
    fn an_amount_grows_from_the_left_to_the_right() {
        assert_eq!(spark(&[(0, 0), (50, 50), (100, 100)], 4), "▁▄▄█");
        assert_eq!(spark(&[], 4), "");
    }

    #[test]
    fn what_gates_said_stands_behind_tab() {
        let verdict = serde_json::json!({ "entry": 7, "action": "verify.run", "instance": 1,
            "value": { "passed": false, "red_before": true, "summary": "1 of 3 failed" } });
        let step = |to: &str, visits: u64| serde_json::json!([7, 1, 1, null, to, visits, ""]);
        let lines: Vec<String> = verdict_lines(&[verdict]).iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["✗ verify.run  failed before  entry 7", "    1 of 3 failed"]);
        let path: Vec<String> =
            path_lines(&[step("READ", 1), step("VERIFY", 1), step("RETRY", 1), step("VERIFY", 2)])
                .iter()
                .map(ToString::to_string)
                .collect();
        assert_eq!(path, ["READ → VERIFY → RETRY → VERIFY@2"]);
    }

    #[test]
    fn the_board_tells_how_far_each_task_is() {
        let state = State { screen: Screen::Board, run: Some(String::from("abcdefgh")), ..State::default() };
        let picture = drawn(&state, (120, 30));
        for word in [
            "✓ 001 mend  landed 01234567",
            "▸   002 mend  VERIFY 2/5 tools 1:01",
            "✗   003 mend  1 of 2 tests failed",
        ] {
            assert!(picture.contains(word), "{word}\n{picture}");
        }
        let folded = drawn(&State { folded: true, ..state }, (120, 30));
        assert!(!folded.contains("001 mend"), "{folded}");
    }

    #[test]
    fn the_keys_that_count_stand_at_the_bottom_and_all_of_them_in_the_help() {
        let picture = drawn(&State::default(), (100, 30));
        assert!(
            picture.contains("a answer") && picture.contains("S stop") && !picture.contains("R raise"),
            "{picture}"
        );
        for size in [(100, 40), (80, 24)] {
            let picture = drawn(&State { help: true, ..State::default() }, size);
            for key in of_terminal() {
                assert!(picture.contains(key.does), "{}\n{picture}", key.key);
            }
        }
    }

    /// A screen as a picture for the README: letters on a dark ground.
    fn picture_of(picture: &str) -> String {
        let lines: Vec<&str> = picture.lines().map(|line| line.trim_matches('"')).collect();
        let wide = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) * 9 + 24;
        let high = lines.len() * 18 + 24;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" viewBox=\"0 0 {wide} {high}\" \
             role=\"img\">\n<title>ftl tui</title>\n<rect width=\"{wide}\" height=\"{high}\" rx=\"10\" fill=\"#10151c\"/>\n\
             <g font-family=\"ui-monospace, DejaVu Sans Mono, monospace\" font-size=\"15\" fill=\"#dfe6ee\">\n"
        );
        for (at, line) in lines.iter().enumerate() {
            let text = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            svg.push_str(&format!(
                "<text x=\"12\" y=\"{}\" xml:space=\"preserve\">{text}</text>\n",
                at * 18 + 26
            ));
        }
        svg.push_str("</g>\n</svg>\n");
        svg
    }

    #[test]
    fn the_picture_of_the_readme_is_what_is_drawn() {
        let state = State { screen: Screen::Board, run: Some(String::from("abcdefgh")), ..State::default() };
        let wanted = picture_of(&drawn(&state, (110, 22)));
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/tui.svg");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, &wanted).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == wanted,
            "docs/pictures/tui.svg is not what is drawn; UPDATE_SNAPSHOTS=1 draws it anew"
        );
    }
}
