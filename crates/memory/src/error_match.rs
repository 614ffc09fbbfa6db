//! Finds the lesson for an error text, as a builder needs it before it tries again.
//!
//! First the text itself, then the regular expressions of lessons, then the words. All go through one gate (`fit::fits`): how much of the
//! trigger stands in the error, how rare that is, how much of the error's line the lesson explains, and how far the second is behind. Expressions come
//! from files that are not trusted: they run in linear time, on a bounded text, a bounded number of
//! them, and one that cannot be used matches nothing.

use std::collections::BTreeSet;

use regex_lite::RegexBuilder;

use crate::error::Error;
use crate::expression::{literals, unescape};
use crate::fit::{self, SearchMode};
use crate::lesson::{Lesson, StoredKind};
use crate::lessons::{Lessons, StoredLesson};
use crate::rarity::Rarity;
use crate::search::Hit;
use crate::time::Now;
use crate::{terms, text};

/// A longer expression is not tried.
pub const MAX_EXPRESSION: usize = 1_000;

/// So many expressions are tried for one error text.
pub const MAX_TRIED: usize = 256;

/// So much of an error text is searched by expressions.
pub const MAX_TEXT: usize = 10_000;

/// A compiled expression may have so many bytes.
const MAX_COMPILED: usize = 64 * 1024;

/// A shorter trigger inside an error text is chance.
const MIN_INSIDE: usize = 12;

/// So many of the nearest lessons are judged.
const MAX_JUDGED: usize = 16;

/// So many lines of a log are searched by an expression.
const MAX_LINES: usize = 4_000;

/// The words of an expression weigh at least this: two rare ones, or more that are less rare.
const MIN_WEIGHT: f64 = 1.5;

/// How a lesson was found, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// The error text says its trigger, or the trigger says the error text.
    Text,
    /// The regular expression of the lesson matches the error text.
    Expression,
    /// It means something near.
    Meaning,
}

impl By {
    /// `text`, `match` or `meaning`.
    pub fn word(self) -> &'static str {
        match self {
            By::Text => "text",
            By::Expression => "match",
            By::Meaning => "meaning",
        }
    }
}

/// A lesson that may help with an error.
#[derive(Clone, Debug, PartialEq)]
pub struct LessonMatch {
    /// The failure with its fix.
    pub lesson: Lesson,
    /// How it was found.
    pub by: By,
    /// How near it is, calibrated.
    pub relevance: f64,
}

impl Lessons<'_> {
    /// Failures that fit an error text, the surest first; feedback and age decide among equals. Nothing where none fits: the text may be
    /// a whole log, and what merely resembles a line of it is no answer.
    pub fn for_error(&self, error: &str, most: usize, now: &Now) -> Result<Vec<LessonMatch>, Error> {
        let hits = self.search(error, SearchMode::Both, now)?;
        let normal = text::normalise(text::clip(error, MAX_TEXT));
        let rarity = Rarity::new(self.db, self.highest()?);
        let mut seen = BTreeSet::new();
        let mut found: Vec<LessonMatch> = Vec::new();
        let hits: Vec<Hit> = hits
            .into_iter()
            .filter(|hit| hit.kind() == StoredKind::Failure && !hit.kept.lesson.is_retired())
            .collect();
        for (at, hit) in hits.iter().enumerate() {
            seen.insert(hit.kept.id);
            let lesson = &hit.kept.lesson;
            let by_words = at < MAX_JUDGED && fit::fits(&hit.evidence, gap(&hits, at));
            let by = if by_words && says(lesson, &normal) {
                By::Text
            } else if at < MAX_TRIED && fits_expression(lesson.matcher(), error, &rarity)? {
                By::Expression
            } else if by_words {
                By::Meaning
            } else {
                continue;
            };
            found.push(LessonMatch { lesson: lesson.clone(), by, relevance: hit.relevance });
        }
        for kept in self
            .wordless(MAX_TRIED)?
            .into_iter()
            .filter(|kept| !seen.contains(&kept.id) && !kept.lesson.is_retired())
        {
            if fits_expression(kept.lesson.matcher(), error, &rarity)? {
                found.push(LessonMatch { lesson: kept.lesson, by: By::Expression, relevance: 0.0 });
            }
        }
        found.sort_by_key(|one| one.by);
        found.truncate(most);
        Ok(found)
    }

    /// Lessons whose expression has no word that the index could find.
    fn wordless(&self, most: usize) -> Result<Vec<StoredLesson>, Error> {
        let sql = format!(
            "SELECT {} FROM lesson WHERE wordless = 1 AND quarantine IS NULL AND kind = 1 ORDER BY id DESC LIMIT ?1",
            crate::lessons::COLUMNS
        );
        let mut select = self.db.prepare_cached(&sql)?;
        let mut rows = select.query([i64::try_from(most).unwrap_or(i64::MAX)])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(crate::lessons::read(row)?);
        }
        Ok(found)
    }
}

/// Whether the error says the trigger, or the trigger the error.
fn says(lesson: &Lesson, normal: &str) -> bool {
    let trigger = text::normalise(lesson.trigger());
    let inside =
        |part: &str, whole: &str| part == whole || (part.len() >= MIN_INSIDE && whole.contains(part));
    inside(&trigger, normal) || inside(normal, &trigger)
}

/// How much more the lesson at a place shares with the error than the best of the others, from -1 to 1.
fn gap(hits: &[Hit], at: usize) -> f64 {
    let own = hits[at].evidence.window;
    let others = hits.iter().enumerate().filter(|(other, _)| *other != at);
    let best = others.map(|(_, hit)| hit.evidence.window).fold(0.0_f64, f64::max);
    if own > 0.0 { (own - best) / own } else { -1.0 }
}

/// Whether an expression matches, and says enough to be believed: its own words must weigh as much as those of a trigger that fits. One
/// without words, such as `^E\\d+$`, is believed only where it matches the whole of what is asked.
fn fits_expression(expression: &str, error: &str, rarity: &Rarity<'_>) -> Result<bool, Error> {
    let Some(regex) = compile(expression) else { return Ok(false) };
    let bounded = text::clip(error, MAX_TEXT);
    // A log is longer than what an expression may be tried on; a line of it is not.
    let long = bounded.len() < error.len();
    let mut lines = error.lines().take(MAX_LINES).filter(|line| line.len() <= MAX_TEXT);
    let Some(line) = (if long { lines.find(|line| regex.is_match(line)) } else { Some(bounded) }) else {
        return Ok(false);
    };
    let Some(found) = regex.find(line) else { return Ok(false) };
    if found.as_str().trim() == error.trim() {
        return Ok(true);
    }
    let held: BTreeSet<String> = terms::of_line(found.as_str(), false).into_iter().collect();
    let mut weight = 0.0;
    for term in terms::of_lesson(&literals(expression)).into_iter().collect::<BTreeSet<_>>() {
        weight += if held.contains(&term) { rarity.weight(&term)? } else { 0.0 };
    }
    Ok(weight >= MIN_WEIGHT)
}

/// Whether an expression matches somewhere in a text. An empty or unusable one does not.
pub fn matches(expression: &str, text: &str) -> bool {
    compile(expression).is_some_and(|regex| regex.is_match(text::clip(text, MAX_TEXT)))
}

/// Whether an expression can be used.
pub fn is_usable(expression: &str) -> bool {
    compile(expression).is_some()
}

fn compile(expression: &str) -> Option<regex_lite::Regex> {
    if expression.is_empty() || expression.chars().count() > MAX_EXPRESSION {
        return None;
    }
    RegexBuilder::new(&unescape(expression)).size_limit(MAX_COMPILED).nest_limit(50).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::has_word;

    #[test]
    fn expressions() {
        let table = r"
            Connection\ refused\ on\ port\ \d+ | connect: Connection refused on port 5432 | yes | Connection refused port
            error\[E0\d+\] | error[E0382]: moved | yes | error
            ^E\d{4}$ | E0382 | yes |
            conn\w+ refused | connection refused | yes | refused
            \bFoo\b | a Foo b | yes | Foo
            (unclosed | (unclosed | no | unclosed
            (?=look)ahead | ahead | no | look ahead
            a{1000}{1000}{1000} | aaa | no |
            issue\ \#\d+ | issue #12 | yes | issue
        ";
        for line in table.lines().filter(|line| line.contains(" | ")) {
            let parts: Vec<&str> = line.split(" |").map(str::trim).collect();
            assert_eq!(matches(parts[0], parts[1]), parts[2] == "yes", "{}", line.trim());
            if parts[2] == "yes" {
                assert_eq!(literals(parts[0]), parts[3], "{}", line.trim());
            }
        }
        assert!(!matches("", "anything") && !matches(&"a".repeat(MAX_EXPRESSION + 1), &"a".repeat(5000)));
        assert!(!matches("end$", &format!("{}end", " ".repeat(MAX_TEXT))));
        assert!(has_word("foo|bar baz") && !has_word(r"foo|\d+"));
    }
}
