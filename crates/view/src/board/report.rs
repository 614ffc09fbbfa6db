//! What became of a flow: what landed, what is blocked and why, what was spent, learned and waived, and what
//! to do next.

use std::collections::BTreeMap;
use std::fmt::Display;

use ftl_core::amount::UNPRICED;
use ftl_core::run::{End, Policy, ROOT};
use ftl_core::value::Value;
use serde_json::{Value as Json, json};

use super::{Board, TaskRow, TaskStage, conflicts, text};
use crate::cause::{cause, reason};
use crate::paint::{self, count, one_line, paint, safe};
use crate::relative_time::lasted;
use crate::runs;
use crate::summary::Spent;

/// How many names of lessons or waivers are told.
const MAX_TOLD: usize = 8;

/// How wide the first column is.
const NAMES: usize = 9;

/// A line of the end: a name, and what there is to tell.
pub fn line(name: &str, text: &str) -> String {
    format!("{}  {text}\n", paint::padded(name, NAMES))
}

/// Whether the work of a flow is on the person's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LandingState {
    /// It is on the person's branch.
    Landed,
    /// It is not; why, for people.
    NotLanded(String),
}

impl LandingState {
    /// The reason for which it has not landed.
    pub fn not_landed(&self) -> Option<&str> {
        match self {
            LandingState::Landed => None,
            LandingState::NotLanded(why) => Some(why),
        }
    }
}

impl Board {
    /// Whether the flow has come to its end.
    pub fn end(&self) -> Option<End> {
        self.run.end()
    }

    /// Whether a landing that a flag asked for could not be done. The run's own terms say what was asked for; what the
    /// settings say as well counts as theirs, unless this very command had the flag.
    pub fn has_missed_landing(&self, set: &BTreeMap<String, Policy>, by_flag: bool) -> bool {
        let Some(state) = self.delivery_state() else { return false };
        let asked = self.run.terms().policies.get(&state);
        self.missed_landing().is_some() && (by_flag || set.get(&state) != asked)
    }

    /// Why a landing that a flag or the settings asked for was not done, where it was not.
    pub fn missed_landing(&self) -> Option<String> {
        let asked = self.run.terms().policies.get(&self.delivery_state()?);
        let lands =
            matches!(asked, Some(Policy::Answer(how)) if matches!(how.as_text(), Some("ff" | "squash")));
        let delivered = self.heard.delivered.as_ref().filter(|_| lands)?;
        (text(delivered, "status") != "landed").then(|| one_line(&text(delivered, "summary")))
    }

    /// Whether the work of a flow that has ended is on the person's branch; if not, why.
    pub fn landing(&self, run: &impl Display) -> LandingState {
        match &self.heard.delivered {
            Some(delivered) if text(delivered, "status") == "landed" => LandingState::Landed,
            Some(delivered) => LandingState::NotLanded(one_line(&text(delivered, "summary"))),
            None => {
                let rows = self.rows();
                let landed = rows.iter().filter(|row| matches!(row.stands, TaskStage::Landed(_))).count();
                LandingState::NotLanded(match landed {
                    0 => String::from("nothing was built that could land"),
                    _ => format!(
                        "{landed} of {} landed: what is complete stays on `ftl/{run}`",
                        count(rows.len(), "task")
                    ),
                })
            }
        }
    }

    /// The end for people, in a few lines.
    pub fn render_report(&self, run: &impl Display, meters: &BTreeMap<String, Spent>) -> String {
        let rows = self.rows();
        let mut lines = Vec::new();
        lines.push((paint(paint::GOOD, "landed"), self.landed(run, &rows)));
        for row in &rows {
            if let TaskStage::Blocked(why) = &row.stands {
                let why = cause(why);
                let text = format!("{} {}: {why}", paint(paint::STRONG, safe(&row.seq)), safe(&row.slug));
                lines.push((paint(paint::WARNING, "blocked"), text));
            }
        }
        let never: Vec<String> = rows.iter().filter(|row| never_ran(row)).map(row_label).collect();
        if !never.is_empty() {
            lines.push((paint(paint::WARNING, "never ran"), join_names(&never)));
        }
        for (task, kept) in &self.heard.left_out {
            let text = format!("{}: {}", paint(paint::STRONG, safe(task)), conflicts(kept));
            lines.push((paint(paint::WARNING, "left out"), text));
        }
        lines.push((String::from("spent"), self.render_spent(meters)));
        lines.push((String::from("learned"), self.learned()));
        let waived = self.bent();
        if !waived.is_empty() {
            lines.push((paint(paint::WARNING, "waived"), join_names(&waived)));
        }
        for note in &self.heard.noted {
            lines.push((paint(paint::QUIET, "noted"), safe(note.trim_end_matches(" (noted)"))));
        }
        for next in self.next(run, &rows) {
            lines.push((paint(paint::HINT, "next"), next));
        }
        lines.iter().map(|(name, text)| line(name, text)).collect()
    }

    /// The end as data.
    pub fn document(&self) -> Json {
        let rows = self.rows();
        let task = |row: &TaskRow| {
            let mut json = json!({ "seq": row.seq, "slug": row.slug });
            match &row.stands {
                TaskStage::Landed(commit) => json["commit"] = json!(commit),
                TaskStage::Blocked(why) | TaskStage::Held(why) => json["reason"] = json!(why),
                TaskStage::Unreachable(by) => json["blocked_by"] = json!(by),
                TaskStage::Waits(_) | TaskStage::Works(_) => {}
            }
            json
        };
        let of = |wanted: fn(&TaskRow) -> bool| -> Vec<Json> {
            rows.iter().filter(|row| wanted(row)).map(task).collect()
        };
        let heard = |value: &Option<Value>| value.as_ref().map_or(Json::Null, |value| json!(value));
        json!({
            "landed": of(|row| matches!(row.stands, TaskStage::Landed(_))),
            "blocked": of(|row| matches!(row.stands, TaskStage::Blocked(_))),
            "never_ran": of(never_ran),
            "left_out": self.heard.left_out.iter().map(left_out).collect::<Vec<_>>(),
            "delivered": heard(&self.heard.delivered),
            "learned": {
                "failures": self.lessons("failures_extracted"),
                "patterns": self.lessons("patterns_extracted"),
            },
            "lessons_tried": self.heard.tried,
            "replans": self.heard.replans,
            "waived": self.waived(),
            "noted": self.heard.noted,
        })
    }

    fn landed(&self, run: &impl Display, rows: &[TaskRow]) -> String {
        let landed = rows.iter().filter(|row| matches!(row.stands, TaskStage::Landed(_))).count();
        let text = match rows.len() {
            0 => String::from("nothing: there was no plan"),
            all => format!("{landed} of {}", count(all, "task")),
        };
        match &self.heard.delivered {
            Some(delivered) => format!("{text}; {}", one_line(&self::text(delivered, "summary"))),
            None if landed > 0 => format!("{text}, on the branch `ftl/{run}`: your own is left alone"),
            None => text,
        }
    }

    fn render_spent(&self, meters: &BTreeMap<String, Spent>) -> String {
        let agents = self.run.instances().iter().filter(|one| one.id != ROOT).count();
        let mut words = vec![self.took(), count(agents, "build")];
        if self.heard.replans > 0 {
            words.push(count(usize::try_from(self.heard.replans).unwrap_or(usize::MAX), "replan"));
        }
        words.push(costs(meters));
        words.retain(|word| !word.is_empty());
        words.join(paint::DOT)
    }

    /// What a story cost, and what to do next: the last lines of `ftl code`.
    pub fn story_told(
        &self,
        run: &impl Display,
        meters: &BTreeMap<String, Spent>,
        commit: Option<&str>,
    ) -> String {
        let rounds = self
            .root()
            .and_then(|root| root.meters.get("coding_iterations"))
            .map_or(0, |one| one.highest_use());
        let rounds = usize::try_from(rounds).unwrap_or(usize::MAX);
        let mut words = vec![self.took(), count(rounds, "round"), costs(meters)];
        words.retain(|word| !word.is_empty());
        let mut lines = vec![(String::from("spent"), words.join(paint::DOT))];
        let next = match (self.end(), commit) {
            (Some(_), Some(_)) => {
                format!("`ftl diff {run}` shows the work; `ftl transcript {run}` tells who said what")
            }
            (Some(_), None) | (None, _) => {
                format!("`ftl why {run}` tells why; `ftl transcript {run}` tells who said what")
            }
        };
        lines.push((paint(paint::HINT, "next"), next));
        lines.iter().map(|(name, text)| line(name, text)).collect()
    }

    /// How long it took.
    fn took(&self) -> String {
        lasted(self.times.map_or(0, |(first, last)| last.saturating_sub(first)))
    }

    fn lessons(&self, what: &str) -> Vec<String> {
        let found = self.heard.analysis.as_ref().map(|analysis| analysis.field(what).items());
        found.unwrap_or_default().iter().map(|one| text(one, "name")).collect()
    }

    /// The lessons that were not known before.
    fn new_lessons(&self, what: &str) -> Vec<String> {
        let found =
            self.heard.analysis.as_ref().map(|analysis| analysis.field(what).items()).unwrap_or_default();
        found.iter().filter(|one| text(one, "result") == "added").map(|one| text(one, "name")).collect()
    }

    fn learned(&self) -> String {
        let mut names = self.new_lessons("failures_extracted");
        names.extend(self.new_lessons("patterns_extracted"));
        let mut told = if names.is_empty() { String::from("nothing new") } else { join_names(&names) };
        if !self.heard.tried.is_empty() {
            told = format!("{told}; used {}", join_names(&self.heard.tried));
        }
        told
    }

    /// What was bent, for people: what agents are not held to is said in one sentence.
    fn bent(&self) -> Vec<String> {
        let accepted = self.run.terms().accepted.len();
        let rules = count(accepted, "rule");
        let told = format!(
            "{rules} that agents are not held to, by `accept` in the settings (`ftl agents` tells which)"
        );
        let mut bent: Vec<String> = (accepted > 0).then_some(told).into_iter().collect();
        bent.extend(self.waivers());
        bent
    }

    /// What was bent: what agents are not held to, findings that a person or a plan allowed, overrides of people.
    fn waived(&self) -> Vec<String> {
        let mut waived: Vec<String> = self.run.terms().accepted.iter().map(|text| one_line(text)).collect();
        waived.extend(self.waivers());
        waived
    }

    fn waivers(&self) -> Vec<String> {
        let mut waived = self.heard.allowed.clone();
        for waiver in self.run.instances().iter().flat_map(|one| one.waivers.iter()) {
            let (from, to) = (&waiver.from, &waiver.to);
            waived.push(format!("{from} → {to} by {}: {}", safe(&waiver.by), reason(&waiver.reason)));
        }
        waived
    }

    fn next(&self, run: &impl Display, rows: &[TaskRow]) -> Vec<String> {
        let mut next = Vec::new();
        let has_landed = rows.iter().any(|row| matches!(row.stands, TaskStage::Landed(_)));
        match self.heard.delivered.as_ref().map(|delivered| text(delivered, "status")) {
            Some(status) if status == "landed" => {
                next.push(String::from("`git log` shows the commits; `ftl undo` takes them back"));
            }
            Some(_) | None if has_landed => {
                next.push(format!(
                    "`git merge ftl/{run}` takes the work over, `git diff HEAD...ftl/{run}` shows it"
                ));
            }
            Some(_) | None => {}
        }
        if let Some(row) = rows.iter().find(|row| matches!(row.stands, TaskStage::Blocked(_))) {
            let task = format!("{run}/{}", safe(&row.seq));
            next.push(format!("`ftl why {task}` tells why, `ftl diff {task}` shows what was written"));
            next.push(format!("`ftl transcript {task}` shows what the agents said and did"));
            next.push(String::from("`ftl salvage` lists what is kept, and how to bring it back"));
            next.push(format!("`ftl retry {run}` tries what is blocked again, and what waited for it"));
        }
        next
    }
}

/// Kept work that a task does not go on from, as data.
fn left_out((task, kept): &(String, String)) -> Json {
    json!({ "task": task, "kept": kept, "reason": conflicts(kept), "show": format!("ftl diff {kept}") })
}

/// Tokens and money in one phrase, unknown amounts marked.
fn costs(meters: &BTreeMap<String, Spent>) -> String {
    let own = ["tokens", "money", UNPRICED];
    let told = meters.iter().filter(|(name, _)| own.contains(&name.as_str()));
    runs::render_spent(&told.map(|(name, spent)| (name.clone(), spent.clone())).collect())
}

/// Whether a task was never worked on, and never will be.
fn never_ran(row: &TaskRow) -> bool {
    matches!(row.stands, TaskStage::Waits(_) | TaskStage::Unreachable(_))
}

fn row_label(row: &TaskRow) -> String {
    format!("{} {}", safe(&row.seq), safe(&row.slug))
}

/// Some names, and how many more there are.
fn join_names(names: &[String]) -> String {
    let told: Vec<String> = names.iter().take(MAX_TOLD).map(|name| safe(name)).collect();
    match names.len().saturating_sub(MAX_TOLD) {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_short() {
        let names: Vec<String> = (0..MAX_TOLD + 2).map(|number| format!("n{number}")).collect();
        assert!(join_names(&names).ends_with("n7 and 2 more"), "{}", join_names(&names));
        assert_eq!(join_names(&names[..1]), "n0");
    }
}
