//! Everything that may be asked, in one table: the router, the OpenAPI document and `docs/api.md` are made of it.

use std::collections::BTreeMap;

use crate::api;
use crate::api::{Answer, ApiError, Asked};
use crate::server::Server;

/// The function that answers a call.
pub(crate) type Handler = fn(&Server, &Asked) -> Result<Answer, ApiError>;

/// The methods of HTTP that are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Looks and changes nothing.
    Get,
    /// Leaves an order, or starts something.
    Post,
}

impl Method {
    /// The word of HTTP.
    pub const fn word(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
        }
    }
}

/// Something that may be asked.
pub struct Route {
    /// The method of the call.
    pub method: Method,
    /// Where, below `/api/v1/`; a word in braces stands for what is asked about.
    pub path: &'static str,
    /// What it answers, in one sentence.
    pub about: &'static str,
    /// What may be said behind a question mark, with what each word means.
    pub query: &'static [(&'static str, &'static str)],
    /// The form of the body, by its name in `SCHEMAS`; empty where there is none.
    pub body: &'static str,
    /// The form of the answer, by its name in `SCHEMAS`.
    pub answer: &'static str,
    pub(crate) handler: Handler,
}

const AT: (&str, &str) = ("at", "the number of an entry: everything as it stood then");

const fn get(
    path: &'static str,
    answer: &'static str,
    query: &'static [(&'static str, &'static str)],
    about: &'static str,
    handler: Handler,
) -> Route {
    Route { method: Method::Get, path, about, query, body: "", answer, handler }
}

const fn post(
    path: &'static str,
    (body, answer): (&'static str, &'static str),
    about: &'static str,
    handler: Handler,
) -> Route {
    Route { method: Method::Post, path, about, query: &[], body, answer, handler }
}

/// Every call, in the order of `docs/api.md`.
pub const ROUTES: &[Route] = &[
    post("session", ("ticket", "session"), "Opens a session for a ticket, which is good once.", api::session),
    get("openapi.json", "any", &[], "This table as an OpenAPI document.", api::openapi),
    get("needs", "needs", &[], "What waits for a person in all runs, what sets most free first.", api::needs),
    get(
        "runs",
        "runs",
        &[("open", "only those that have not ended"), ("limit", "how many of those that have ended")],
        "The runs, newest first.",
        api::runs::list,
    ),
    post("runs", ("start", "started"), "Starts a flow in a process of its own.", api::orders::start),
    get(
        "runs/{run}",
        "run",
        &[AT],
        "One run: where it stands, what it spent, its steps, what can be done.",
        api::runs::one,
    ),
    get("runs/{run}/why", "why", &[AT], "Why it stands where it stands, and every way out.", api::runs::why),
    get("runs/{run}/tasks", "tasks", &[AT], "Its tasks as rows.", api::runs::tasks),
    get(
        "runs/{run}/graph",
        "graph",
        &[AT, ("fold", "depths whose tasks are one box, with commas between them")],
        "Where each task stands in a drawing, in the order of its rows.",
        api::runs::graph,
    ),
    get("runs/{run}/timeline", "timeline", &[AT], "What time went to, task by task.", api::runs::timeline),
    get(
        "runs/{run}/money",
        "money",
        &[AT],
        "What was spent, by role and task, and when limits are reached.",
        api::runs::money,
    ),
    get("runs/{run}/report", "any", &[AT], "What became of it.", api::runs::report),
    get(
        "runs/{run}/entries",
        "entries",
        &[
            ("after", "from behind this entry on"),
            ("limit", "how many"),
            ("q", "only lines that hold this text"),
            ("fact", "only facts of this kind"),
        ],
        "The journal, a line each.",
        api::runs::entries,
    ),
    get("runs/{run}/entries/{seq}", "any", &[], "One entry in full.", api::runs::entry),
    get(
        "runs/{run}/tasks/{seq}",
        "task",
        &[AT],
        "One task: brief, path, attempts, verdicts, conversations.",
        api::tasks::one,
    ),
    get("runs/{run}/talks", "talks", &[], "The conversations with agents.", api::tasks::talks),
    get(
        "runs/{run}/talks/{action}/{number}",
        "talk",
        &[("from", "where the last reading ended")],
        "What was said in one conversation, also while it goes on.",
        api::tasks::talk,
    ),
    get(
        "runs/{run}/changes",
        "changes",
        &[("task", "only those of this task")],
        "What changed: landed, kept, at work, as hunks.",
        api::changes::changes,
    ),
    post("runs/{run}/orders", ("order", "ordered"), "Leaves an order of a person.", api::orders::order),
    post(
        "runs/{run}/undo",
        ("reasoned", "any"),
        "Takes back what it delivered to the branch.",
        api::orders::undo,
    ),
    post(
        "looks",
        ("any", "any"),
        "Says that a person looks at the page: no notice is sent meanwhile.",
        api::looks,
    ),
    get("orders/{order}", "reply", &[], "What became of an order.", api::orders::reply),
    get(
        "lessons",
        "lessons",
        &[("q", "an error, or what is about to be done")],
        "Lessons: found by meaning, or all counted.",
        api::system::lessons,
    ),
    get("lessons/{name}", "lesson", &[], "What is linked to a lesson.", api::system::lesson),
    get("protocols", "any", &[], "The protocol documents.", api::system::protocols),
    get(
        "protocols/{name}",
        "protocol",
        &[],
        "One protocol: its picture, and what runs have gone through.",
        api::system::protocol,
    ),
    get("agents", "any", &[], "The agents and what each enforces.", api::system::agents),
    get("config", "any", &[], "Every setting with its origin.", api::system::config),
    get("doctor", "any", &[], "Whether one can work here.", api::system::doctor),
    get("salvage", "any", &[], "The work that is kept.", api::system::salvage),
    post(
        "salvage",
        ("kept", "any"),
        "Brings kept work back as a branch; it stays kept.",
        api::system::bring_back,
    ),
    get(
        "events",
        "events",
        &[("run", "also the tasks, entries and words of this run")],
        "What changes, as a stream of events.",
        api::events,
    ),
];

/// The row for a method and a path, with what its braces stand for; `Err` where only the method is wrong.
pub(crate) fn find(
    method: &str,
    path: &str,
) -> Result<(&'static Route, BTreeMap<&'static str, String>), bool> {
    let mut other_method = false;
    for route in ROUTES {
        let Some(params) = fits(route.path, path) else { continue };
        if route.method.word() == method {
            return Ok((route, params));
        }
        other_method = true;
    }
    Err(other_method)
}

fn fits(pattern: &'static str, path: &str) -> Option<BTreeMap<&'static str, String>> {
    let (mut ours, mut theirs) = (pattern.split('/'), path.split('/'));
    let mut params = BTreeMap::new();
    loop {
        match (ours.next(), theirs.next()) {
            (None, None) => return Some(params),
            (Some(word), Some(said)) => {
                match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
                    Some(name) if !said.is_empty() => {
                        params.insert(name, decoded(said)?);
                    }
                    Some(_) => return None,
                    None if word == said => {}
                    None => return None,
                }
            }
            (None, Some(_)) | (Some(_), None) => return None,
        }
    }
}

/// The parameters behind the question mark of a URL.
pub(crate) fn query(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decoded(&name.replace('+', " "))?, decoded(&value.replace('+', " "))?))
    };
    pairs.filter_map(pair).collect()
}

/// A text in which `%2F` stands for a letter.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_by_their_words() {
        let (route, params) = find("GET", "runs/abcdefgh/entries/7").ok().unwrap();
        assert_eq!(
            (route.path, params["run"].as_str(), params["seq"].as_str()),
            ("runs/{run}/entries/{seq}", "abcdefgh", "7")
        );
        assert_eq!(find("POST", "needs").err(), Some(true), "there, but not so");
        assert_eq!(find("GET", "nothing").err(), Some(false));
        assert_eq!(find("GET", "runs//why").err(), Some(false));
        assert_eq!(find("GET", "runs/a%2Fb").ok().unwrap().1["run"], "a/b");
        assert_eq!(find("GET", "runs/a%2").err(), Some(false));
    }

    #[test]
    fn words_behind_a_question_mark_are_read() {
        let words = query("q=a+b%26c&open&at=7");
        assert_eq!((words["q"].as_str(), words["open"].as_str(), words["at"].as_str()), ("a b&c", "", "7"));
    }
}
