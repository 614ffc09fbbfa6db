//! What the tools of a program do, and its calls as the tool policy sees them.
//!
//! A tool that an adapter does not know is judged under its own name, which no state gives: it
//! is denied. A tool that writes and does not tell where counts as writing outside. A command that only looks at files of
//! the worktree is shown as the reads and searches that it is.

use ftl_core::tool_policy::{Deed, ResolvedPath, ToolCall};
use ftl_core::value::Name;
use serde_json::Value as Json;

use super::fields::Fields;
use super::looks::{Look, looks};
use super::paths::At;
use crate::toolset::folder::WorkFolder;

/// The most letters of what a call is about.
const MAX_ABOUT: usize = 200;

/// The tools of our toolset that a tool of a program can stand for.
const STANDS_FOR: [(&str, (&str, Deed)); 5] = [
    ("read", ("read", Deed::Look)),
    ("search", ("search", Deed::Look)),
    ("edit", ("edit", Deed::Change)),
    ("write", ("write", Deed::Change)),
    ("bash", ("bash", Deed::Run)),
];

/// The effect of one tool.
#[derive(Clone, Debug, PartialEq)]
struct Does {
    name: &'static str,
    deed: Deed,
    paths: Vec<At>,
    patch: Option<At>,
    about: Option<At>,
}

/// What the tools of a program do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tools {
    known: Vec<(String, Does)>,
    free: Vec<String>,
}

/// A call as the tool policy sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    /// What is ruled on, one after the other; nothing where the tool does nothing to the world.
    pub(super) calls: Vec<ToolCall>,
    /// The tool, in our words.
    pub(super) tool: String,
    /// What it is about, in one line.
    pub(super) about: String,
    /// Whether it may take as long as a command does.
    pub(super) runs: bool,
}

impl Tools {
    pub(super) fn read(fields: &mut Fields<'_>) -> Tools {
        let free = fields.texts("free");
        let mut known = Vec::new();
        for (name, value) in fields.table("map").into_iter().flatten() {
            match value.as_table() {
                Some(table) => {
                    known.push((name.clone(), fields.inside(table, &format!("tools.map.{name}"), does)));
                }
                None => fields.fault("map", &format!("`{name}` must be a table, as in {{ as = \"read\" }}")),
            }
        }
        Tools { known, free }
    }

    /// A call of the program as the tool policy sees it.
    pub(super) fn classify(&self, folder: &WorkFolder, tool: &str, args: &Json) -> Seen {
        if self.free.iter().any(|free| free == tool) {
            return Seen { calls: Vec::new(), tool: tool.to_owned(), about: String::new(), runs: false };
        }
        let Some((_, does)) = self.known.iter().find(|(name, _)| name == tool) else {
            let call = ToolCall { tool: Name::from(tool), deed: Deed::Run, spot: None };
            return Seen { calls: vec![call], tool: tool.to_owned(), about: String::new(), runs: true };
        };
        let paths = does.paths(args);
        let command = does.about.as_ref().filter(|_| does.deed == Deed::Run).and_then(|at| at.text(args));
        let about = does.about.as_ref().and_then(|at| at.text(args)).map(str::to_owned);
        let about = about.or_else(|| paths.first().cloned()).unwrap_or_default();
        let call = |spot| ToolCall { tool: Name::from(does.name), deed: does.deed, spot };
        let calls = match (does.deed, paths.is_empty()) {
            (Deed::Change, true) => {
                vec![call(Some(ResolvedPath::Outside(String::from("a path that it does not tell"))))]
            }
            (Deed::Look | Deed::Run | Deed::Speak, true) => vec![call(None)],
            (_, false) => paths.iter().map(|path| call(Some(spot(folder, path)))).collect(),
        };
        let runs = does.deed == Deed::Run;
        let calls = command.and_then(|command| looking(folder, command)).unwrap_or(calls);
        Seen { calls, tool: does.name.to_owned(), about: line(&about), runs }
    }
}

impl Does {
    fn paths(&self, args: &Json) -> Vec<String> {
        let plain = self.paths.iter().flat_map(|at| at.all(args)).filter_map(Json::as_str).map(str::to_owned);
        let patched = self.patch.as_ref().and_then(|at| at.text(args)).map(patched).unwrap_or_default();
        plain.chain(patched).collect()
    }
}

fn does(fields: &mut Fields<'_>) -> Does {
    let (name, deed) = fields.word("as", &STANDS_FOR).unwrap_or(("read", Deed::Look));
    let does = Does {
        name,
        deed,
        paths: fields.paths("path"),
        patch: fields.path("patch"),
        about: fields.path("about"),
    };
    if deed == Deed::Change && does.paths.is_empty() && does.patch.is_none() {
        fields.fault("path", "a tool that writes must tell where: `path`, or `patch` for the text of one");
    }
    does
}

/// A command as the reads and searches that it is, where it does nothing else and stays in the worktree. What it looks at
/// elsewhere is ruled on as a command: a state with a shell allows it.
fn looking(folder: &WorkFolder, command: &str) -> Option<Vec<ToolCall>> {
    let call = |look: Look| {
        let spot = look.path.map(|path| spot(folder, &path));
        let is_outside = matches!(spot, Some(ResolvedPath::Outside(_)));
        (!is_outside).then(|| ToolCall { tool: Name::from(look.tool), deed: Deed::Look, spot })
    };
    looks(command)?.into_iter().map(call).collect()
}

/// Where a path leads. A shell or a program may read `~` as a home, which is never inside.
fn spot(folder: &WorkFolder, path: &str) -> ResolvedPath {
    if path.starts_with('~') {
        return ResolvedPath::Outside(path.to_owned());
    }
    folder.resolve(path).map_or_else(|spot| spot, |found| ResolvedPath::Inside(found.text()))
}

/// The files that a patch in the words of `apply_patch` names.
fn patched(text: &str) -> Vec<String> {
    const HEADS: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    let named = |line: &str| {
        HEADS.iter().find_map(|head| line.trim().strip_prefix(head)).map(|path| path.trim().to_owned())
    };
    text.lines().filter_map(named).collect()
}

fn line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(MAX_ABOUT).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fields::whole;
    use super::*;

    const TOOLS: &str = r#"
        free = ["Plan"]
        [map]
        Write = { as = "write", path = "file_path" }
        Many = { as = "edit", path = ["path", "changes.*.path"] }
        Patch = { as = "edit", patch = "input" }
        Bash = { as = "bash", about = "command" }
        Find = { as = "search", path = "dir", about = "pattern" }
    "#;

    fn describe_call(tool: &str, args: &Json) -> String {
        let folder = tempfile::tempdir().unwrap();
        let mut faults = Vec::new();
        let tools = whole(&TOOLS.parse().unwrap(), "tools", &mut faults, Tools::read);
        assert!(faults.is_empty(), "{faults:?}");
        let seen = tools.classify(&WorkFolder::open(folder.path()).unwrap(), tool, args);
        let calls = seen.calls.iter().map(|call| match &call.spot {
            None => format!("{} {:?}", call.tool, call.deed),
            Some(ResolvedPath::Inside(path)) => format!("{} {:?} in {path}", call.tool, call.deed),
            Some(ResolvedPath::Outside(path)) => format!("{} {:?} out {path}", call.tool, call.deed),
        });
        format!("{} | {}", calls.collect::<Vec<_>>().join(", "), seen.about)
    }

    #[test]
    fn calls_of_a_program_become_calls_at_the_desk() {
        for (tool, args, wanted) in [
            ("Write", json!({ "file_path": "a/b" }), "write Change in a/b | a/b"),
            ("Write", json!({ "file_path": "../b" }), "write Change out ../b | ../b"),
            ("Write", json!({ "file_path": "~/b" }), "write Change out ~/b | ~/b"),
            ("Write", json!({}), "write Change out a path that it does not tell | "),
            ("Write", json!(7), "write Change out a path that it does not tell | "),
            (
                "Many",
                json!({ "changes": [{ "path": "a" }, { "path": "b" }] }),
                "edit Change in a, edit Change in b | a",
            ),
            (
                "Patch",
                json!({ "input": "*** Begin Patch\n*** Add File: a\n+x\n*** Update File: b\n*** Move to: ../c\n" }),
                "edit Change in a, edit Change in b, edit Change out ../c | a",
            ),
            ("Patch", json!({ "input": "nothing" }), "edit Change out a path that it does not tell | "),
            ("Bash", json!({ "command": "ls\nrm" }), "bash Run | ls"),
            (
                "Bash",
                json!({ "command": "cat a b/c | head -3" }),
                "read Look in a, read Look in b/c | cat a b/c | head -3",
            ),
            ("Bash", json!({ "command": "cat a /etc/passwd" }), "bash Run | cat a /etc/passwd"),
            ("Bash", json!({ "command": "cat ../a" }), "bash Run | cat ../a"),
            ("Bash", json!({ "command": "cat a; touch b" }), "bash Run | cat a; touch b"),
            ("Find", json!({ "pattern": "x" }), "search Look | x"),
            ("Find", json!({ "pattern": "x", "dir": "/etc" }), "search Look out /etc | x"),
            ("Plan", json!({}), " | "),
            ("Rocket", json!({ "path": "a" }), "Rocket Run | "),
        ] {
            assert_eq!(describe_call(tool, &args), wanted, "{tool} {args}");
        }
    }

    #[test]
    fn a_tool_that_writes_must_tell_where() {
        let mut faults = Vec::new();
        let table = "[map]\nWrite = { as = \"write\" }\nX = { as = \"fly\" }\nY = 1".parse().unwrap();
        whole(&table, "tools", &mut faults, Tools::read);
        let all = faults.join("\n");
        assert!(all.contains("`tools.map.Write.path`: a tool that writes must tell where"), "{all}");
        assert!(all.contains("`fly` is none of read, search, edit, write, bash"), "{all}");
        assert!(all.contains("`Y` must be a table"), "{all}");
    }
}
