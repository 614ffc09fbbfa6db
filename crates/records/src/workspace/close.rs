//! Ends an active workspace: complete with what was delivered, or blocked with the reason.
//!
//! Only an active workspace can be ended, and both its file name and its text must say so. Whatever else stands in
//! the file stays.

use super::xml::{self, Element};
use super::{FileName, LessonKind, UsedLesson, Workspace, WorkspaceRefusal, WorkspaceStatus, parse};
use ftl_core::json::{Json, JsonExt as _};

/// How long a delivery or a reason may be.
pub const MAX_DELIVERED_BYTES: usize = 1024 * 1024;

/// A workspace that has been ended: what to write, under which name. The old file goes once the new one is there.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedWorkspace {
    /// The name of the new file.
    pub file_name: FileName,
    /// What is in it.
    pub text: String,
    /// The workspace after it was closed, read from its text.
    pub workspace: Workspace,
}

/// A workspace file as it is on disk.
#[derive(Clone, Copy, Debug)]
pub struct OnDisk<'a> {
    /// The name of the file, without its folder.
    pub name: &'a str,
    /// What is in it.
    pub text: &'a str,
}

/// The reason for which a workspace is blocked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockReason {
    /// The reason, without `BLOCKED:`.
    pub reason: String,
    /// Whether it was too much for its mode, or its brief was unusable.
    pub escalated: bool,
}

impl BlockReason {
    /// Reads a reason as builders give it: with or without `BLOCKED:` or `ESCALATED:` in front, and with `\n` spelled
    /// out before `Tried:` and `Unknown:`, as shells leave it.
    pub fn read(text: &str) -> Result<BlockReason, WorkspaceRefusal> {
        let mut rest = text.trim();
        let mut escalated = false;
        loop {
            if let Some(after) = without_word(rest, "BLOCKED:") {
                rest = after;
            } else if let Some(after) = without_word(rest, "ESCALATED:") {
                rest = after;
                escalated = true;
            } else {
                break;
            }
        }
        if rest.is_empty() {
            return Err(WorkspaceRefusal::new(
                "the reason is empty",
                "say with --reason what keeps the task from being done",
            ));
        }
        Ok(BlockReason { reason: real_lines(rest), escalated })
    }

    /// Adds what was tried and what is not known, each on a line of its own.
    pub fn with(mut self, tried: Option<&str>, unknown: Option<&str>) -> BlockReason {
        for (word, text) in [("Tried", tried), ("Unknown", unknown)] {
            if let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) {
                self.reason.push_str(&format!("\n{word}: {text}"));
            }
        }
        self
    }
}

fn without_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let start = text.get(..word.len())?;
    start.eq_ignore_ascii_case(word).then(|| text[word.len()..].trim_start())
}

/// Turns a spelled-out line end into a real one where a new part begins.
fn real_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\\n") {
        let after = &rest[at + 2..];
        let part = after.trim_start_matches([' ', '\t']);
        let begins = ["Tried:", "Unknown:"].iter().any(|word| without_word(part, word).is_some());
        out.push_str(&rest[..at]);
        out.push_str(if begins { "\n" } else { "\\n" });
        rest = if begins { part } else { after };
    }
    out.push_str(rest);
    out
}

/// Ends an active workspace as complete.
pub fn complete(
    file: OnDisk<'_>,
    delivered: &str,
    used: &[UsedLesson],
    now: &str,
) -> Result<ClosedWorkspace, WorkspaceRefusal> {
    let (file_name, mut root) = active(file)?;
    root.set("status", WorkspaceStatus::Complete.word());
    root.set("completed_at", now);
    deliver(&mut root, delivered)?;
    if !used.is_empty() {
        let mut element = Element::new("memory_utilization");
        for one in used {
            element.push(Element::new("utilized").with("name", &one.name).with("type", one.kind.word()));
        }
        root.push(element);
    }
    parse_closed(&file_name.with_status(WorkspaceStatus::Complete), &root)
}

/// Ends an active workspace as blocked.
pub fn block(file: OnDisk<'_>, why: &BlockReason, now: &str) -> Result<ClosedWorkspace, WorkspaceRefusal> {
    let (file_name, mut root) = active(file)?;
    root.set("status", WorkspaceStatus::Blocked.word());
    root.set("blocked_at", now);
    if why.escalated {
        root.set("escalated", "true");
    }
    deliver(&mut root, &format!("BLOCKED: {}", why.reason))?;
    parse_closed(&file_name.with_status(WorkspaceStatus::Blocked), &root)
}

fn active(file: OnDisk<'_>) -> Result<(FileName, Element), WorkspaceRefusal> {
    let OnDisk { name, text } = file;
    let file_name = FileName::parse(name).ok_or_else(|| {
        WorkspaceRefusal::new(
            format!("{name:?} is not the name of a workspace"),
            "workspaces are named SEQ_slug_status.xml",
        )
    })?;
    let root = xml::read(text)?;
    let status = parse::from_tree(&root)?.status;
    let hint = "only an active workspace can be completed or blocked; nothing was changed";
    if status != WorkspaceStatus::Active {
        return Err(WorkspaceRefusal::new(format!("{name} is {}, not active", status.word()), hint));
    }
    if file_name.status() != WorkspaceStatus::Active {
        return Err(WorkspaceRefusal::new(
            format!("{name} is active inside, but its name says otherwise"),
            hint,
        ));
    }
    Ok((file_name, root))
}

fn deliver(root: &mut Element, text: &str) -> Result<(), WorkspaceRefusal> {
    if text.len() > MAX_DELIVERED_BYTES {
        let message =
            format!("what was delivered has {} bytes; the limit is {MAX_DELIVERED_BYTES}", text.len());
        return Err(WorkspaceRefusal::new(message, "say it in fewer words"));
    }
    if root.child("delivered").is_none() {
        root.push(Element::new("delivered"));
    }
    if let Some(delivered) = root.child_mut("delivered") {
        delivered.set_bytes(text.as_bytes());
    }
    Ok(())
}

fn parse_closed(file_name: &FileName, root: &Element) -> Result<ClosedWorkspace, WorkspaceRefusal> {
    let workspace = parse::from_tree(root)?;
    Ok(ClosedWorkspace { file_name: file_name.clone(), text: root.write(), workspace })
}

/// Reads what `--utilized` gives: a list of `{name, type}`, or of names. A lesson is a failure unless it says otherwise.
pub fn read_utilized(text: &str) -> Result<Vec<UsedLesson>, WorkspaceRefusal> {
    let hint = "write [{\"name\": \"…\", \"type\": \"failure\"}]";
    let json =
        Json::parse(text).map_err(|error| WorkspaceRefusal::new(format!("--utilized is {error}"), hint))?;
    let Json::Array(items) = &json else {
        return Err(WorkspaceRefusal::new(format!("--utilized must be a list, not {}", json.kind()), hint));
    };
    items.iter().enumerate().map(|(at, item)| parse_used(at, item)).collect()
}

fn parse_used(at: usize, item: &Json) -> Result<UsedLesson, WorkspaceRefusal> {
    let hint = "write {\"name\": \"…\", \"type\": \"failure\" or \"pattern\"}";
    let name = item.as_str().or_else(|| item.get("name")?.as_str()).filter(|name| !name.trim().is_empty());
    let name = name.ok_or_else(|| WorkspaceRefusal::new(format!("--utilized[{at}] has no name"), hint))?;
    let kind = match item.get("type") {
        None | Some(Json::Null) => Some(LessonKind::Failure),
        Some(word) => word.as_str().and_then(LessonKind::parse),
    };
    let kind = kind.ok_or_else(|| {
        WorkspaceRefusal::new(format!("--utilized[{at}].type is not failure or pattern"), hint)
    })?;
    Ok(UsedLesson { name: name.to_owned(), kind })
}
