//! Finds the lesson for an error text, as a builder needs it before it tries again.
//!
//! First the text itself, then the regular expressions of lessons, then the meaning. Expressions come
//! from files that are not trusted: they run in linear time, on a bounded text, a bounded number of
//! them, and one that cannot be used matches nothing.

use std::collections::BTreeSet;

use regex_lite::RegexBuilder;

use crate::error::Error;
use crate::expression::unescape;
use crate::lesson::{Lesson, StoredKind};
use crate::lessons::{Lessons, StoredLesson};
use crate::scoring;
use crate::search::SearchMode;
use crate::similar;
use crate::text;
use crate::time::Now;

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
    /// Failures for an error text, the surest first; feedback and age decide among equals.
    pub fn for_error(&self, error: &str, most: usize, now: &Now) -> Result<Vec<LessonMatch>, Error> {
        let hits = self.search(error, SearchMode::Both, now)?;
        let normal = text::normalise(text::clip(error, MAX_TEXT));
        let mut seen = BTreeSet::new();
        let mut found: Vec<(LessonMatch, f64)> = Vec::new();
        for hit in hits.into_iter().filter(|hit| hit.kept.lesson.kind() == StoredKind::Failure) {
            seen.insert(hit.kept.id);
            let by = how(&hit.kept.lesson, &normal, error, seen.len() <= MAX_TRIED);
            if by == By::Meaning && hit.relevance <= similar::QUERY {
                continue;
            }
            let rank =
                hit.fused * scoring::standing(hit.kept.lesson.lesson_use(now), scoring::HALF_LIFE_DAYS);
            found.push((LessonMatch { lesson: hit.kept.lesson, by, relevance: hit.relevance }, rank));
        }
        for kept in self.wordless(MAX_TRIED)?.into_iter().filter(|kept| !seen.contains(&kept.id)) {
            if matches(kept.lesson.matcher(), error) {
                found.push((LessonMatch { lesson: kept.lesson, by: By::Expression, relevance: 0.0 }, 0.0));
            }
        }
        found.sort_by(|(left, left_rank), (right, right_rank)| {
            left.by.cmp(&right.by).then(right_rank.total_cmp(left_rank))
        });
        Ok(found.into_iter().map(|(answer, _)| answer).take(most).collect())
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

fn how(lesson: &Lesson, normal: &str, error: &str, may_try: bool) -> By {
    let trigger = text::normalise(lesson.trigger());
    let inside =
        |part: &str, whole: &str| part == whole || (part.len() >= MIN_INSIDE && whole.contains(part));
    if inside(&trigger, normal) || inside(normal, &trigger) {
        By::Text
    } else if may_try && matches(lesson.matcher(), error) {
        By::Expression
    } else {
        By::Meaning
    }
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
    use crate::expression::{has_word, literals};

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
