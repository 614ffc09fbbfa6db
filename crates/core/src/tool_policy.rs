//! Tool policy: whether an agent may make one call of a tool.
//!
//! The rule is pure: which tools a state gives, where they may write, how many calls are left. The caller
//! has resolved the path already, symbolic links and all; the policy never looks at a disk. It
//! judges one call and counts nothing: the count is an argument.

use std::collections::BTreeSet;
use std::fmt;

use crate::value::Name;

/// Folders that belong to git and to `ftl`: no agent changes anything there.
pub const KEPT: [&str; 2] = [".git", ".ftl"];

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It only reads.
    Look,
    /// It changes a file.
    Change,
    /// It runs a command.
    Run,
    /// It speaks to `ftl`: submits, asks, recalls. It is free and is never used up.
    Speak,
}

impl Deed {
    /// Whether a call costs one of the calls that are left.
    pub const fn is_counted(self) -> bool {
        match self {
            Deed::Look | Deed::Change | Deed::Run => true,
            Deed::Speak => false,
        }
    }
}

/// Where a path leads, once all links are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolvedPath {
    /// Into the worktree: the path from its root, with forward slashes, without `.` and `..`.
    Inside(String),
    /// Out of it: the path as the agent wrote it.
    Outside(String),
}

/// One call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool's name, as the agent calls it.
    pub tool: Name,
    /// What the tool does to the world.
    pub deed: Deed,
    /// The path that it is about, if any.
    pub spot: Option<ResolvedPath>,
}

/// The files that an agent may write.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Write {
    /// No file.
    #[default]
    Nothing,
    /// These files, and whatever is below these folders.
    Only(BTreeSet<String>),
    /// Every file of the worktree, except the folders in `KEPT`.
    Anything,
}

impl Write {
    /// Whether a path from the root may be written.
    pub fn allows(&self, path: &str) -> bool {
        match self {
            Write::Nothing => false,
            Write::Only(paths) => paths.iter().any(|one| is_at_or_below(path, one)),
            Write::Anything => true,
        }
    }
}

/// A path is at or below another one; `src` is not above `srcs`.
fn is_at_or_below(path: &str, above: &str) -> bool {
    let above = above.trim_end_matches('/');
    path == above || path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

impl fmt::Display for Write {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Write::Nothing => out.write_str("nothing"),
            Write::Only(paths) => out.write_str(&join_names(paths.iter().map(String::as_str))),
            Write::Anything => out.write_str("any file"),
        }
    }
}

/// What an agent may do in a state.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ToolAllowance {
    /// The tools that it has.
    pub tools: BTreeSet<Name>,
    /// The files that it may write.
    pub write: Write,
    /// How many counted calls it has in all; nothing where only a meter of the protocol counts.
    pub calls: Option<u64>,
    /// The tools about which a person is asked each time.
    pub ask: BTreeSet<Name>,
}

/// The answer of the rule about one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The call may be made.
    Allow,
    /// It may not; this goes back to the agent.
    Deny(String),
    /// A person decides; this is the question.
    Ask(String),
}

/// Rules on a call of an agent that has made so many counted calls already.
pub fn rule(allowance: &ToolAllowance, used: u64, call: &ToolCall) -> Ruling {
    let tool = &call.tool;
    if !allowance.tools.contains(tool) {
        let known = join_names(allowance.tools.iter().map(|name| &**name));
        return Ruling::Deny(format!("there is no tool `{tool}` here; there is {known}"));
    }
    if let Some(reason) = call.spot.as_ref().and_then(|spot| wrong_spot(allowance, call.deed, spot)) {
        return Ruling::Deny(reason);
    }
    if call.deed == Deed::Change && allowance.write == Write::Nothing {
        return Ruling::Deny(String::from("nothing may be written here"));
    }
    if let Some(most) = allowance.calls.filter(|most| call.deed.is_counted() && used >= *most) {
        return Ruling::Deny(format!("all {most} calls are used up: submit what you have"));
    }
    if allowance.ask.contains(tool) {
        return Ruling::Ask(question(call));
    }
    Ruling::Allow
}

fn wrong_spot(allowance: &ToolAllowance, deed: Deed, spot: &ResolvedPath) -> Option<String> {
    let path = match spot {
        ResolvedPath::Outside(path) => return Some(format!("{path} is outside the worktree")),
        ResolvedPath::Inside(path) => path,
    };
    if deed != Deed::Change {
        return None;
    }
    if let Some(kept) = KEPT.iter().find(|kept| path.split('/').any(|part| part.eq_ignore_ascii_case(kept))) {
        return Some(format!("{path} is in {kept}, which no agent changes"));
    }
    if !allowance.write.allows(path) {
        return Some(format!("{path} may not be written here; what may is {}", allowance.write));
    }
    None
}

fn question(call: &ToolCall) -> String {
    match &call.spot {
        Some(ResolvedPath::Inside(path) | ResolvedPath::Outside(path)) => {
            format!("May it call {} on {path}?", call.tool)
        }
        None => format!("May it call {}?", call.tool),
    }
}

fn join_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { String::from("nothing") } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tools | write | calls | used | call → ruling; a call is a tool, its deed and its path.
    const TABLE: &str = "
        read,submit        | nothing   | 5 | 0 | read look in src/a.rs      → allow
        read,submit        | nothing   | 5 | 4 | read look in src/a.rs      → allow
        read,submit        | nothing   | 5 | 5 | read look in src/a.rs      → deny all 5 calls are used up: submit what you have
        read,submit        | nothing   | 5 | 5 | submit speak               → allow
        read,submit        | nothing   | - | 9 | read look in src/a.rs      → allow
        read,submit        | nothing   | 5 | 0 | write change in src/a.rs   → deny there is no tool `write` here; there is read, submit
                           | nothing   | 5 | 0 | read look in a             → deny there is no tool `read` here; there is nothing
        read               | nothing   | 5 | 0 | read look out ../x         → deny ../x is outside the worktree
        read               | nothing   | 5 | 5 | read look out ../x         → deny ../x is outside the worktree
        edit               | nothing   | 5 | 0 | edit change in a           → deny a may not be written here; what may is nothing
        edit               | nothing   | 5 | 0 | edit change                → deny nothing may be written here
        edit               | any       | 5 | 0 | edit change in a           → allow
        edit               | any       | 5 | 0 | edit change out /etc/x     → deny /etc/x is outside the worktree
        edit               | any       | 5 | 0 | edit change in .git/config → deny .git/config is in .git, which no agent changes
        edit               | any       | 5 | 0 | edit change in .GIT/config → deny .GIT/config is in .git, which no agent changes
        edit               | any       | 5 | 0 | edit change in a/.ftl/x    → deny a/.ftl/x is in .ftl, which no agent changes
        edit               | any       | 5 | 0 | edit change in .gitignore  → allow
        edit               | any       | 5 | 5 | edit change in a           → deny all 5 calls are used up: submit what you have
        read               | nothing   | 5 | 0 | read look in .git/config   → allow
        edit               | src,a.txt | 5 | 0 | edit change in src/b/c.rs  → allow
        edit               | src,a.txt | 5 | 0 | edit change in a.txt       → allow
        edit               | src,a.txt | 5 | 0 | edit change in a.txt2      → deny a.txt2 may not be written here; what may is a.txt, src
        edit               | src/      | 5 | 0 | edit change in src/b       → allow
        edit               | src/      | 5 | 0 | edit change in srcs/b      → deny srcs/b may not be written here; what may is src/
        bash               | any       | 5 | 0 | bash run                   → allow
        bash?              | any       | 5 | 0 | bash run                   → ask May it call bash?
        edit?              | any       | 5 | 0 | edit change in a           → ask May it call edit on a?
        edit?              | a         | 5 | 0 | edit change in b           → deny b may not be written here; what may is a
        bash?              | any       | 5 | 5 | bash run                   → deny all 5 calls are used up: submit what you have
    ";

    #[test]
    fn the_rule_is_a_table() {
        let lines: Vec<&str> = TABLE.lines().filter(|line| !line.trim().is_empty()).collect();
        assert_eq!(lines.len(), 29);
        for line in lines {
            let (given, wanted) = line.split_once('→').unwrap();
            let cells: Vec<&str> = given.split('|').map(str::trim).collect();
            let found = match rule(&allowance(&cells), cells[3].parse().unwrap(), &call(cells[4])) {
                Ruling::Allow => String::from("allow"),
                Ruling::Deny(reason) => format!("deny {reason}"),
                Ruling::Ask(question) => format!("ask {question}"),
            };
            assert_eq!(found, wanted.trim(), "{line}");
        }
    }

    fn allowance(cells: &[&str]) -> ToolAllowance {
        let names = cells[0].split(',').filter(|name| !name.is_empty());
        let write = match cells[1] {
            "nothing" => Write::Nothing,
            "any" => Write::Anything,
            paths => Write::Only(paths.split(',').map(str::to_owned).collect()),
        };
        ToolAllowance {
            tools: names.clone().map(|name| Name::from(name.trim_end_matches('?'))).collect(),
            write,
            calls: cells[2].parse().ok(),
            ask: names.filter_map(|name| name.strip_suffix('?')).map(Name::from).collect(),
        }
    }

    fn call(text: &str) -> ToolCall {
        let words: Vec<&str> = text.split_whitespace().collect();
        let deed = match words[1] {
            "look" => Deed::Look,
            "change" => Deed::Change,
            "run" => Deed::Run,
            "speak" => Deed::Speak,
            other => panic!("{other}"),
        };
        let spot = match words.get(2) {
            Some(&"in") => Some(ResolvedPath::Inside(words[3].to_owned())),
            Some(&"out") => Some(ResolvedPath::Outside(words[3].to_owned())),
            _ => None,
        };
        ToolCall { tool: Name::from(words[0]), deed, spot }
    }
}
