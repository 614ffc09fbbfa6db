//! The book of calls of one turn: what an agent told, asked, and let us do, so that each call is ruled once.
//!
//! One call can be seen three times: told as an update, asked as a permission, and handed to us as a file or
//! a terminal. The first two share an id, the third has none and is matched by its deed and its path. A call
//! covers each of its own effects once; an effect that no call covers is a call of its own. The book judges
//! nothing and touches nothing: it says what is to be ruled on.

use std::collections::BTreeMap;

use ftl_core::tool_policy::Deed;
use serde_json::Value as Json;

use super::wire::SERVER;
use crate::toolset::SPEAKING;

/// How many calls of one turn are remembered.
pub const MAX_CALLS_SEEN: usize = 2000;

/// How many paths of one call are looked at.
pub const MAX_PATHS: usize = 256;

/// What a call does, as far as it can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// It speaks to `ftl` through the window, where it is ruled on.
    Ours,
    /// It does nothing to the world.
    Nothing,
    /// It looks at or searches files.
    Look(&'static str),
    /// It makes, changes, moves or removes files.
    Change,
    /// It runs a command.
    Run,
    /// Some other tool, by its name.
    Other(String),
}

impl Act {
    /// The deed that the tool policy judges; nothing where there is nothing to judge.
    pub(super) fn deed(&self) -> Option<Deed> {
        match self {
            Act::Ours | Act::Nothing => None,
            Act::Look(_) => Some(Deed::Look),
            Act::Change => Some(Deed::Change),
            Act::Run | Act::Other(_) => Some(Deed::Run),
        }
    }

    /// Whether an effect belongs to such a call: an edit reads what it edits.
    fn covers(&self, deed: Deed) -> bool {
        match self {
            Act::Ours | Act::Nothing | Act::Other(_) => false,
            Act::Look(_) => deed == Deed::Look,
            Act::Change => matches!(deed, Deed::Look | Deed::Change),
            Act::Run => deed == Deed::Run,
        }
    }
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Told,
    Allowed,
    Denied,
}

/// One call, as far as it is known.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    kind: String,
    name: String,
    title: String,
    paths: Vec<String>,
    input: Input,
    stage: Stage,
    is_over: bool,
    is_failed: bool,
    began: usize,
    /// Effects that were made for it: each once.
    used: Vec<(Deed, Option<String>)>,
    /// The tool of ours as which it was allowed, until that call arrives.
    awaited: Option<&'static str>,
}

/// What is given to a call, as far as it tells what the call does.
#[derive(Clone, Debug, Default)]
struct Input {
    command: bool,
    server: Option<(String, String)>,
}

/// An effect that was ruled on by itself, before any call told of it.
#[derive(Clone, Debug)]
struct Made {
    deed: Deed,
    path: Option<String>,
    is_claimed: bool,
}

/// What is to be done about an effect that an agent lets us make.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It belongs to a call that was allowed.
    Allowed,
    /// It belongs to this call, which is to be ruled on now.
    Of(String),
    /// It is a call of its own.
    Nobody,
}

/// The calls of one turn.
#[derive(Debug, Default)]
pub(super) struct Calls {
    seen: BTreeMap<String, Seen>,
    made: Vec<Made>,
}

impl Calls {
    /// A new turn: what was seen before does not cover anything any more.
    pub(super) fn begin(&mut self) {
        self.seen.clear();
        self.made.clear();
    }

    /// A call of that name begins. One that is over has nothing to do with it: names are used again.
    pub(super) fn renew(&mut self, id: &str) {
        if self.seen.get(id).is_some_and(|seen| seen.is_over) {
            self.seen.remove(id);
        }
    }

    /// Takes in what is told about a call. An error when there are too many.
    pub(super) fn record_update(&mut self, id: &str, told: &Json) -> Result<(), String> {
        if !self.seen.contains_key(id) && self.seen.len() >= MAX_CALLS_SEEN {
            return Err(format!("it made more than {MAX_CALLS_SEEN} calls in one turn"));
        }
        let began = self.made.len();
        let seen = self.seen.entry(id.to_owned()).or_insert_with(|| Seen::new(began));
        seen.take_in(told);
        Ok(())
    }

    /// A call by its id.
    pub(super) fn get(&self, id: &str) -> Option<&Seen> {
        self.seen.get(id)
    }

    /// The session host has ruled on a call.
    pub(super) fn ruled(&mut self, id: &str, is_allowed: bool) {
        if let Some(seen) = self.seen.get_mut(id) {
            seen.stage = if is_allowed { Stage::Allowed } else { Stage::Denied };
            // What was made for it before belongs to what was asked before.
            seen.used.clear();
        }
    }

    /// A call was allowed as one of this tool of ours, which must then be called.
    pub(super) fn await_arrival(&mut self, id: &str, tool: &'static str) {
        if let Some(seen) = self.seen.get_mut(id) {
            seen.awaited = Some(tool);
        }
    }

    /// A tool of ours was called: that is the call that was allowed so first.
    pub(super) fn arrived(&mut self, tool: &str) {
        if let Some(seen) = self.seen.values_mut().find(|seen| seen.awaited == Some(tool)) {
            seen.awaited = None;
        }
    }

    /// The tool of a call that is over, or of any that is left, which was allowed as ours and has not arrived.
    pub(super) fn missing(&self, all: bool) -> Option<&'static str> {
        self.seen.values().filter(|seen| all || seen.is_over).find_map(|seen| seen.awaited)
    }

    /// Whose effect this is: the path is resolved, and so are those of calls by `resolve`.
    pub(super) fn owner(
        &mut self,
        deed: Deed,
        path: Option<&str>,
        resolve: &dyn Fn(&str) -> String,
    ) -> Owner {
        let effect = (deed, path.map(str::to_owned));
        let fits = |seen: &Seen| {
            !seen.is_over
                && seen.act().covers(deed)
                && !seen.used.contains(&effect)
                && path.is_none_or(|path| seen.is_about(path, resolve))
        };
        if let Some(seen) = self.seen.values_mut().find(|seen| seen.stage == Stage::Allowed && fits(seen)) {
            seen.name_path(path);
            seen.used.push(effect);
            return Owner::Allowed;
        }
        let waiting = self.seen.iter_mut().find(|(_, seen)| seen.stage == Stage::Told && fits(seen));
        let Some((id, seen)) = waiting else { return Owner::Nobody };
        seen.name_path(path);
        Owner::Of(id.clone())
    }

    /// A call was ruled on because of this effect, which it covers.
    pub(super) fn covered(&mut self, id: &str, deed: Deed, path: Option<&str>) {
        if let Some(seen) = self.seen.get_mut(id) {
            seen.used.push((deed, path.map(str::to_owned)));
        }
    }

    /// An effect was ruled on by itself.
    pub(super) fn note_effect(&mut self, deed: Deed, path: Option<&str>) {
        self.made.push(Made { deed, path: path.map(str::to_owned), is_claimed: false });
    }

    /// The calls that are over, or all that are left, and that were not ruled on: they are known only now.
    pub(super) fn unruled(&mut self, all: bool, resolve: &dyn Fn(&str) -> String) -> Vec<String> {
        let mut found = Vec::new();
        for (id, seen) in &mut self.seen {
            if seen.stage != Stage::Told || !(all || seen.is_over) || seen.act().deed().is_none() {
                continue;
            }
            let act = seen.act();
            let own = self.made.iter_mut().skip(seen.began).find(|made| {
                !made.is_claimed
                    && act.covers(made.deed)
                    && made.path.as_ref().is_none_or(|path| seen.is_about(path, resolve))
            });
            match own {
                Some(made) => {
                    made.is_claimed = true;
                    seen.stage = Stage::Allowed;
                }
                None => found.push(id.clone()),
            }
        }
        found
    }
}

impl Seen {
    fn new(began: usize) -> Seen {
        Seen {
            kind: String::new(),
            name: String::new(),
            title: String::new(),
            paths: Vec::new(),
            input: Input::default(),
            stage: Stage::Told,
            is_over: false,
            is_failed: false,
            began,
            used: Vec::new(),
            awaited: None,
        }
    }

    fn take_in(&mut self, told: &Json) {
        let text = |key: &str| told.get(key).and_then(Json::as_str);
        // An agent that has said `edit` once does not take it back by `other`.
        if let Some(kind) = text("kind").filter(|kind| self.kind.is_empty() || *kind != "other") {
            self.kind = kind.to_owned();
        }
        if let Some(name) = text("name").or_else(|| meta_name(told)) {
            self.name = name.to_owned();
        }
        if let Some(title) = text("title") {
            self.title = title.to_owned();
        }
        if let Some(input) = told.get("rawInput") {
            self.input.take_in(input);
        }
        for path in paths(told) {
            if !self.paths.contains(&path) && self.paths.len() < MAX_PATHS {
                self.paths.push(path);
            }
        }
        self.is_failed |= text("status") == Some("failed");
        self.is_over |= matches!(text("status"), Some("completed" | "failed"));
    }

    /// What the call does to the world, as far as the agent has told.
    pub(super) fn act(&self) -> Act {
        if self.our_tool().is_some() {
            return Act::Ours;
        }
        match self.kind.as_str() {
            "edit" | "delete" | "move" => Act::Change,
            "execute" => Act::Run,
            // A command that only looks is a command all the same.
            "read" | "search" if self.input.command => Act::Run,
            "read" => Act::Look("read"),
            "search" => Act::Look("search"),
            "think" => Act::Nothing,
            "fetch" => Act::Other(String::from("fetch")),
            "switch_mode" => Act::Other(String::from("switch_mode")),
            _ => self.by_name(),
        }
    }

    /// What tools of that name do, where the agent does not say: goose asks about `other`.
    fn by_name(&self) -> Act {
        match self.tool_name() {
            "write" | "edit" | "text_editor" | "write_file" | "edit_file" | "apply_patch" => Act::Change,
            "shell" | "bash" | "exec_command" | "execute" | "terminal" => Act::Run,
            "read" | "read_file" | "view" | "tree" | "list" => Act::Look("read"),
            "search" | "grep" | "glob" => Act::Look("search"),
            other => Act::Other(other.to_owned()),
        }
    }

    /// Its name, or the first word of its title.
    pub(super) fn tool_name(&self) -> &str {
        let name = if self.name.is_empty() { &self.title } else { &self.name };
        let name = name.strip_prefix("developer__").unwrap_or(name);
        let name = name.split_whitespace().next().unwrap_or_default();
        if name.is_empty() { "unnamed" } else { name }
    }

    /// The tool of the window that it calls, if it is one of those. A title is believed only as a whole: it may hold
    /// words of a model.
    pub(super) fn our_tool(&self) -> Option<&'static str> {
        let of = |tool: &str| SPEAKING.into_iter().find(|one| *one == tool);
        let named = |name: &str| {
            let name = name.strip_prefix("mcp").map_or(name, |rest| rest.trim_start_matches(['_', '.']));
            of(name.strip_prefix(SERVER)?.trim_start_matches(['_', '.', ':', ' ']))
        };
        if !self.name.is_empty() {
            return named(&self.name);
        }
        // Gemini CLI writes `submit (ftl MCP Server)`.
        let spoken = || of(self.title.strip_suffix(&format!(" ({SERVER} MCP Server)"))?);
        let titled = named(&self.title).or_else(spoken).filter(|_| !self.input.command);
        let by_input = || {
            self.input.server.as_ref().filter(|(server, _)| server == SERVER).and_then(|(_, tool)| of(tool))
        };
        titled.or_else(by_input)
    }

    /// The paths that it is about.
    pub(super) fn paths(&self) -> &[String] {
        &self.paths
    }

    /// What it is about, for people.
    pub(super) fn about(&self) -> &str {
        self.paths.first().unwrap_or(&self.title)
    }

    /// Whether it came to nothing.
    pub(super) fn is_failed(&self) -> bool {
        self.is_failed
    }

    /// Its first effect tells what a call is about that names nothing.
    fn name_path(&mut self, path: Option<&str>) {
        if self.paths.is_empty() {
            self.paths.extend(path.map(str::to_owned));
        }
    }

    fn is_about(&self, path: &str, resolve: &dyn Fn(&str) -> String) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|one| resolve(one) == path)
    }
}

impl Input {
    fn take_in(&mut self, input: &Json) {
        let text = |key: &str| input.get(key).and_then(Json::as_str).map(str::to_owned);
        self.command |= ["command", "cmd"].iter().any(|key| input.get(key).is_some());
        if let (Some(server), Some(tool)) = (text("server"), text("tool")) {
            self.server = Some((server, tool));
        }
    }
}

/// The name of a tool where agents put it: in `_meta` itself, or in what an adapter calls its own part of it.
fn meta_name(told: &Json) -> Option<&str> {
    fn name(one: &Json) -> Option<&str> {
        one.get("toolName").or_else(|| one.get("toolCall")?.get("toolName"))?.as_str()
    }
    let meta = told.get("_meta")?;
    name(meta).or_else(|| meta.as_object()?.values().find_map(name))
}

/// Every path that a message about a call names.
fn paths(told: &Json) -> Vec<String> {
    const KEYS: [&str; 7] =
        ["path", "file_path", "filePath", "abs_path", "absolute_path", "notebook_path", "target_file"];
    let lists = ["locations", "content"].iter().filter_map(|key| told.get(*key)?.as_array()).flatten();
    let listed = lists.filter_map(|one| one.get("path")?.as_str());
    let given = told.get("rawInput").into_iter();
    let given = given.flat_map(|input| KEYS.iter().filter_map(|key| input.get(*key)?.as_str()));
    listed.chain(given).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plain(path: &str) -> String {
        path.to_owned()
    }

    fn act(told: &Json) -> Act {
        let mut calls = Calls::default();
        calls.record_update("1", told).unwrap();
        calls.get("1").unwrap().act()
    }

    #[test]
    fn acts_are_known_by_kind_and_by_name() {
        let other = |name: &str| Act::Other(name.into());
        let table = [
            (json!({ "kind": "edit" }), Act::Change),
            (json!({ "kind": "move" }), Act::Change),
            (json!({ "kind": "read" }), Act::Look("read")),
            (json!({ "kind": "read", "rawInput": { "command": ["cat", "x"] } }), Act::Run),
            (json!({ "kind": "search" }), Act::Look("search")),
            (json!({ "kind": "execute" }), Act::Run),
            (json!({ "kind": "think" }), Act::Nothing),
            (json!({ "kind": "fetch" }), other("fetch")),
            (json!({ "kind": "other", "title": "write · src/a" }), Act::Change),
            (json!({ "kind": "other", "title": "shell · ls" }), Act::Run),
            (json!({ "kind": "other", "name": "Skynet", "title": "write · x" }), other("Skynet")),
            (
                json!({ "kind": "new kind", "_meta": { "claudeCode": { "toolName": "ToolSearch" } } }),
                other("ToolSearch"),
            ),
            (json!({}), other("unnamed")),
            (json!({ "title": "ftl: submit" }), Act::Ours),
            (json!({ "title": "submit (ftl MCP Server)", "kind": "other" }), Act::Ours),
            (json!({ "title": "rm (ftl MCP Server)", "kind": "execute" }), Act::Run),
            (json!({ "name": "mcp__ftl__submit", "kind": "other" }), Act::Ours),
            (json!({ "title": "mcp.ftl.recall", "kind": "execute" }), Act::Ours),
            (json!({ "kind": "execute", "rawInput": { "server": "ftl", "tool": "ask" } }), Act::Ours),
            (json!({ "_meta": { "goose": { "toolCall": { "toolName": "ftl__signal" } } } }), Act::Ours),
            (
                json!({ "title": "{\"mode\":\"x\"}", "kind": "other", "_meta": { "toolName": "mcp__ftl__submit" } }),
                Act::Ours,
            ),
            (
                json!({ "title": "ftl: submit", "_meta": { "toolName": "run_shell_command" } }),
                other("run_shell_command"),
            ),
            // A command that speaks of our tools is a command.
            (json!({ "title": "shell · echo ftl: submit" }), Act::Run),
            (json!({ "title": "ftl: submit", "rawInput": { "command": "rm" }, "kind": "execute" }), Act::Run),
            (json!({ "title": "ftl: rm", "kind": "execute" }), Act::Run),
            (json!({ "name": "shell", "title": "ftl: submit" }), Act::Run),
            (json!({ "name": "mcp__evil__submit" }), other("mcp__evil__submit")),
        ];
        for (told, wanted) in table {
            assert_eq!(act(&told), wanted, "{told}");
        }
    }

    #[test]
    fn what_is_told_in_pieces_is_one_call() {
        let mut calls = Calls::default();
        calls.record_update("1", &json!({ "kind": "edit", "name": "Write", "rawInput": {} })).unwrap();
        calls
            .record_update(
                "1",
                &json!({ "rawInput": { "file_path": "/w/a" }, "locations": [{ "path": "/w/a" }] }),
            )
            .unwrap();
        calls
            .record_update("1", &json!({ "kind": "other", "content": [{ "type": "diff", "path": "/w/b" }] }))
            .unwrap();
        let seen = calls.get("1").unwrap();
        assert_eq!(
            (seen.act(), seen.paths()),
            (Act::Change, ["/w/a".to_owned(), "/w/b".to_owned()].as_slice())
        );
    }

    #[test]
    fn an_effect_of_an_allowed_call_is_covered_once() {
        let mut calls = Calls::default();
        calls.record_update("1", &json!({ "kind": "edit", "locations": [{ "path": "a" }] })).unwrap();
        calls.ruled("1", true);
        assert_eq!(calls.owner(Deed::Look, Some("a"), &plain), Owner::Allowed);
        assert_eq!(calls.owner(Deed::Change, Some("a"), &plain), Owner::Allowed);
        assert_eq!(calls.owner(Deed::Change, Some("a"), &plain), Owner::Nobody, "once");
        assert_eq!(calls.owner(Deed::Change, Some("b"), &plain), Owner::Nobody, "another path");
        assert_eq!(calls.owner(Deed::Run, None, &plain), Owner::Nobody, "another deed");
        assert!(calls.unruled(true, &plain).is_empty());
    }

    #[test]
    fn an_effect_of_a_told_call_rules_on_that_call() {
        let mut calls = Calls::default();
        calls.record_update("1", &json!({ "kind": "edit", "locations": [{ "path": "a" }] })).unwrap();
        assert_eq!(calls.owner(Deed::Look, Some("a"), &plain), Owner::Of("1".into()));
        calls.ruled("1", true);
        calls.covered("1", Deed::Look, Some("a"));
        assert_eq!(calls.owner(Deed::Change, Some("a"), &plain), Owner::Allowed);
        calls.record_update("2", &json!({ "kind": "read", "locations": [{ "path": "a" }] })).unwrap();
        assert_eq!(calls.owner(Deed::Change, Some("a"), &plain), Owner::Nobody, "reading is not writing");
    }

    #[test]
    fn an_effect_that_was_made_first_is_not_counted_again() {
        let mut calls = Calls::default();
        calls.record_update("1", &json!({ "kind": "other" })).unwrap();
        assert_eq!(calls.owner(Deed::Change, Some("a"), &plain), Owner::Nobody);
        calls.note_effect(Deed::Change, Some("a"));
        calls
            .record_update(
                "1",
                &json!({ "kind": "edit", "locations": [{ "path": "a" }], "status": "completed" }),
            )
            .unwrap();
        assert!(calls.unruled(false, &plain).is_empty());
        // Another call about the same path has no effect of its own left.
        calls
            .record_update(
                "2",
                &json!({ "kind": "edit", "locations": [{ "path": "a" }], "status": "failed" }),
            )
            .unwrap();
        assert_eq!(calls.unruled(false, &plain), ["2"]);
        calls.ruled("2", false);
        assert!(calls.unruled(true, &plain).is_empty() && calls.get("2").unwrap().is_failed());
    }

    #[test]
    fn a_command_is_matched_by_its_deed() {
        let mut calls = Calls::default();
        calls.record_update("1", &json!({ "kind": "execute" })).unwrap();
        calls.ruled("1", true);
        assert_eq!(calls.owner(Deed::Run, None, &plain), Owner::Allowed);
        assert_eq!(calls.owner(Deed::Run, None, &plain), Owner::Nobody);
        calls.record_update("1", &json!({ "status": "completed" })).unwrap();
        calls.ruled("1", true);
        assert_eq!(calls.owner(Deed::Run, None, &plain), Owner::Nobody, "what is over covers nothing");
    }

    #[test]
    fn a_name_that_is_used_again_is_another_call() {
        let mut calls = Calls::default();
        let told = json!({ "kind": "execute", "status": "completed" });
        calls.record_update("1", &told).unwrap();
        calls.ruled("1", true);
        calls.renew("1");
        calls.record_update("1", &told).unwrap();
        assert_eq!(calls.unruled(false, &plain), ["1"]);
        calls.record_update("2", &json!({ "kind": "execute" })).unwrap();
        calls.ruled("2", true);
        calls.renew("2");
        assert_eq!(calls.owner(Deed::Run, None, &plain), Owner::Allowed, "it is not over");
    }

    #[test]
    fn a_call_that_was_allowed_as_ours_must_arrive() {
        let mut calls = Calls::default();
        for id in ["1", "2"] {
            calls.record_update(id, &json!({ "name": "mcp__ftl__submit" })).unwrap();
            calls.await_arrival(id, "submit");
        }
        assert_eq!(
            (calls.missing(false), calls.missing(true)),
            (None, Some("submit")),
            "nothing is over yet"
        );
        calls.arrived("recall");
        calls.arrived("submit");
        calls.record_update("1", &json!({ "status": "completed" })).unwrap();
        assert_eq!(calls.missing(false), None);
        calls.record_update("2", &json!({ "name": "shell", "status": "failed" })).unwrap();
        assert_eq!(calls.missing(false), Some("submit"), "another name does not help");
        calls.arrived("submit");
        assert_eq!(calls.missing(true), None);
    }

    #[test]
    fn a_turn_has_so_many_calls() {
        let mut calls = Calls::default();
        for number in 0..MAX_CALLS_SEEN {
            calls.record_update(&number.to_string(), &json!({})).unwrap();
        }
        calls.record_update("1", &json!({})).unwrap();
        assert!(calls.record_update("more", &json!({})).unwrap_err().contains("more than"));
        let many: Vec<Json> = (0..=MAX_PATHS).map(|at| json!({ "path": at.to_string() })).collect();
        calls.record_update("1", &json!({ "locations": many })).unwrap();
        assert_eq!(calls.get("1").unwrap().paths().len(), MAX_PATHS);
    }
}
