//! What became of a flow: what landed, what is blocked and why, what was spent, learned and waived, and what
//! to do next.

use std::collections::BTreeMap;

use ftl_core::run::{End, ROOT};
use ftl_core::value::Value;
use ftl_engine::id::RunId;
use ftl_engine::summary::Spent;
use serde_json::{Value as Json, json};

use super::news::{reason, telling};
use super::{Board, Row, Standing, text};
use crate::paint::{self, count, one_line, paint, safe};
use crate::runs;

/// How many names of lessons or waivers are told.
const MAX_TOLD: usize = 8;

/// How wide the first column is.
const NAMES: usize = 9;

impl Board {
    /// Whether the flow has come to its end.
    pub(crate) fn end(&self) -> Option<End> {
        self.run.end()
    }

    /// The end for people, in a few lines.
    pub(crate) fn told(&self, run: &RunId, meters: &BTreeMap<String, Spent>) -> String {
        let rows = self.rows();
        let mut lines = Vec::new();
        lines.push((paint(paint::GOOD, "landed"), self.landed(&rows)));
        for row in &rows {
            if let Standing::Blocked(why) = &row.stands {
                let why = reason(&telling(why));
                let text = format!("{} {}: {why}", paint(paint::STRONG, safe(&row.seq)), safe(&row.slug));
                lines.push((paint(paint::WARNING, "blocked"), text));
            }
        }
        let never: Vec<String> = rows.iter().filter(|row| never_ran(row)).map(named).collect();
        if !never.is_empty() {
            lines.push((paint(paint::WARNING, "never ran"), listed(&never)));
        }
        lines.push((String::from("spent"), self.spent(meters)));
        lines.push((String::from("learned"), self.learned()));
        let waived = self.waived();
        if !waived.is_empty() {
            lines.push((paint(paint::WARNING, "waived"), listed(&waived)));
        }
        for next in self.next(run, &rows) {
            lines.push((paint(paint::HINT, "next"), next));
        }
        let line = |(name, text): &(String, String)| format!("{}  {text}\n", paint::padded(name, NAMES));
        lines.iter().map(line).collect()
    }

    /// The end as data.
    pub(crate) fn document(&self) -> Json {
        let rows = self.rows();
        let task = |row: &Row| {
            let mut json = json!({ "seq": row.seq, "slug": row.slug });
            match &row.stands {
                Standing::Landed(commit) => json["commit"] = json!(commit),
                Standing::Blocked(why) | Standing::Held(why) => json["reason"] = json!(why),
                Standing::Unreachable(by) => json["blocked_by"] = json!(by),
                Standing::Waits(_) | Standing::Works(_) => {}
            }
            json
        };
        let of = |wanted: fn(&Row) -> bool| -> Vec<Json> {
            rows.iter().filter(|row| wanted(row)).map(task).collect()
        };
        let heard = |value: &Option<Value>| value.as_ref().map_or(Json::Null, |value| json!(value));
        json!({
            "landed": of(|row| matches!(row.stands, Standing::Landed(_))),
            "blocked": of(|row| matches!(row.stands, Standing::Blocked(_))),
            "never_ran": of(never_ran),
            "delivered": heard(&self.heard.delivered),
            "learned": {
                "failures": self.lessons("failures_extracted"),
                "patterns": self.lessons("patterns_extracted"),
            },
            "lessons_tried": self.heard.tried,
            "replans": self.heard.replans,
            "waived": self.waived(),
        })
    }

    fn landed(&self, rows: &[Row]) -> String {
        let landed = rows.iter().filter(|row| matches!(row.stands, Standing::Landed(_))).count();
        let text = match rows.len() {
            0 => String::from("nothing: there was no plan"),
            all => format!("{landed} of {}", count(all, "task")),
        };
        match &self.heard.delivered {
            Some(delivered) => format!("{text}; {}", one_line(&self::text(delivered, "summary"))),
            None => text,
        }
    }

    fn spent(&self, meters: &BTreeMap<String, Spent>) -> String {
        let agents = self.run.instances().iter().filter(|one| one.id != ROOT).count();
        let took = self.times.map_or(0, |(first, last)| last.saturating_sub(first));
        let mut words = vec![lasted(took), count(agents, "build")];
        if self.heard.replans > 0 {
            words.push(count(usize::try_from(self.heard.replans).unwrap_or(usize::MAX), "replan"));
        }
        let own = ["tokens", "money"];
        let told: BTreeMap<String, Spent> = meters
            .iter()
            .filter(|(name, _)| own.contains(&name.as_str()))
            .map(|(name, spent)| (name.clone(), spent.clone()))
            .collect();
        words.push(runs::spent(&told));
        words.retain(|word| !word.is_empty());
        words.join(paint::DOT)
    }

    fn lessons(&self, what: &str) -> Vec<String> {
        let found = self.heard.analysis.as_ref().map(|analysis| analysis.field(what).items());
        found.unwrap_or_default().iter().map(|one| text(one, "name")).collect()
    }

    fn learned(&self) -> String {
        let mut names = self.lessons("failures_extracted");
        names.extend(self.lessons("patterns_extracted"));
        let mut told = if names.is_empty() { String::from("nothing new") } else { listed(&names) };
        if !self.heard.tried.is_empty() {
            told = format!("{told}; used {}", listed(&self.heard.tried));
        }
        told
    }

    /// What was bent: findings that somebody allowed, what agents are not held to, overrides of people.
    fn waived(&self) -> Vec<String> {
        let mut waived: Vec<String> = self.run.terms().accepted.iter().map(|text| one_line(text)).collect();
        waived.extend(self.heard.allowed.iter().cloned());
        for waiver in self.run.instances().iter().flat_map(|one| one.waivers.iter()) {
            let (from, to) = (&waiver.from, &waiver.to);
            waived.push(format!("{from} → {to} by {}: {}", safe(&waiver.by), reason(&waiver.reason)));
        }
        waived
    }

    fn next(&self, run: &RunId, rows: &[Row]) -> Vec<String> {
        let mut next = Vec::new();
        let has_landed = rows.iter().any(|row| matches!(row.stands, Standing::Landed(_)));
        match self.heard.delivered.as_ref().map(|delivered| text(delivered, "status")) {
            Some(status) if status == "landed" => {
                next.push(String::from("`git log` shows the commits; `ftl undo` takes them back"));
            }
            Some(_) if has_landed => {
                next.push(format!(
                    "`git merge ftl/{run}` takes the work over, `git diff HEAD...ftl/{run}` shows it"
                ));
            }
            Some(_) | None => {}
        }
        if rows.iter().any(|row| matches!(row.stands, Standing::Blocked(_))) {
            next.push(format!(
                "`ftl log {run}` tells how it came; `ftl salvage {run}` brings back what was written"
            ));
        }
        next
    }
}

/// Whether nobody has ever worked on a task, and nobody will.
fn never_ran(row: &Row) -> bool {
    matches!(row.stands, Standing::Waits(_) | Standing::Unreachable(_))
}

fn named(row: &Row) -> String {
    format!("{} {}", safe(&row.seq), safe(&row.slug))
}

/// Some names, and how many more there are.
fn listed(names: &[String]) -> String {
    let told: Vec<String> = names.iter().take(MAX_TOLD).map(|name| safe(name)).collect();
    match names.len().saturating_sub(MAX_TOLD) {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
    }
}

/// How long something took: `0:07`, `1:02:03`.
pub(super) fn lasted(millis: u64) -> String {
    let seconds = millis / 1000;
    match (seconds / 3600, seconds % 3600 / 60, seconds % 60) {
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_times_are_short() {
        let names: Vec<String> = (0..MAX_TOLD + 2).map(|number| format!("n{number}")).collect();
        assert!(listed(&names).ends_with("n7 and 2 more"), "{}", listed(&names));
        assert_eq!(listed(&names[..1]), "n0");
        assert_eq!((lasted(7_900).as_str(), lasted(3_723_000).as_str()), ("0:07", "1:02:03"));
    }
}
