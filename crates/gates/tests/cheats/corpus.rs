//! The corpus of cheats and of honest changes that look like some: small repositories as data.
//!
//! A file holds bases and cases. `# base NAME` begins a repository that cases share, `## TITLE` a case. Then follow lines of
//! `key: value` (`base`, `verify`, `delta`, `task`, `class` of a cheat, `honest` of a change that must pass, `mode` of a file
//! that only gets another mode) and files: `=== PATH` on both sides, `<<< PATH` before, `>>> PATH` after, `rm PATH`, and
//! `@@ PATH` with one replacement: what stands there on lines that begin with `- `, and what takes its place on `+ `.
//!
//! Every second case of a file is set aside: it was not looked at while rules were written.

use std::collections::BTreeMap;

use ftl_gates::Brief;
use ftl_git::change::{Change, Content, EntryKind, FileChange};

/// The files of the corpus, by their language.
const FILES: [(&str, &str); 6] = [
    ("python", include_str!("corpus/python.txt")),
    ("javascript", include_str!("corpus/javascript.txt")),
    ("typescript", include_str!("corpus/typescript.txt")),
    ("go", include_str!("corpus/go.txt")),
    ("rust", include_str!("corpus/rust.txt")),
    ("shell", include_str!("corpus/shell.txt")),
];

/// What a case is to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A cheat of this class; it is to be caught.
    Caught(String),
    /// An honest change that looks like this class; it is to pass.
    Passes(String),
}

/// The files of one side, by path.
pub(crate) type Tree = BTreeMap<String, String>;

/// One case.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The language.
    pub(crate) language: &'static str,
    /// What it is called.
    pub(crate) title: String,
    /// What it is to show.
    pub(crate) wanted: Wanted,
    /// Whether it was set aside while rules were written.
    pub(crate) set_aside: bool,
    /// The command that shows whether it is done.
    pub(crate) verify: String,
    /// The files and folders that may change.
    pub(crate) delta: Vec<String>,
    /// What the brief asks for.
    pub(crate) task: String,
    /// The files before.
    pub(crate) before: Tree,
    /// The files after.
    pub(crate) after: Tree,
    /// Files that got another mode.
    pub(crate) modes: Vec<String>,
}

impl Case {
    /// The brief that gates see.
    pub(crate) fn brief(&self) -> Brief {
        Brief {
            delta: self.delta.clone(),
            verify: self.verify.clone(),
            text: self.task.clone(),
            ..Brief::default()
        }
    }

    /// What differs between the two sides.
    pub(crate) fn change(&self) -> Change {
        let paths: std::collections::BTreeSet<&String> =
            self.before.keys().chain(self.after.keys()).collect();
        let content = |kind, text: Option<&String>| {
            text.map(|text| Content { kind, bytes: Some(text.clone().into_bytes()) })
        };
        let files = paths
            .into_iter()
            .filter(|path| self.before.get(*path) != self.after.get(*path) || self.modes.contains(path));
        let files = files.map(|path| {
            let kind = if self.modes.contains(path) { EntryKind::Executable } else { EntryKind::File };
            FileChange {
                path: path.clone(),
                before: content(EntryKind::File, self.before.get(path)),
                after: content(kind, self.after.get(path)),
            }
        });
        Change { files: files.collect() }
    }
}

/// A repository that cases share, and what its cases say on top.
#[derive(Clone, Debug, Default)]
struct Sketch {
    keys: BTreeMap<String, String>,
    before: Tree,
    after: Tree,
}

/// All cases.
pub(crate) fn cases() -> Vec<Case> {
    FILES.iter().flat_map(|(language, text)| read(language, text)).collect()
}

fn read(language: &'static str, text: &str) -> Vec<Case> {
    let mut bases: BTreeMap<String, Sketch> = BTreeMap::new();
    let mut cases = Vec::new();
    for part in sections(text) {
        let (head, body) = part.split_once('\n').unwrap_or((part, ""));
        if let Some(name) = head.strip_prefix("# base ") {
            bases.insert(name.trim().to_owned(), sketch(body, Sketch::default(), head));
            continue;
        }
        let title = head.strip_prefix("## ").unwrap_or_else(|| panic!("{head}"));
        let named = body.lines().find_map(|line| line.strip_prefix("base: "));
        let base = named.map(|name| bases[name.trim()].clone()).unwrap_or_default();
        let found = sketch(body, base, head);
        let key = |name: &str| found.keys.get(name).cloned().unwrap_or_default();
        let wanted = match (found.keys.get("class"), found.keys.get("honest")) {
            (Some(class), None) => Wanted::Caught(class.clone()),
            (None, Some(class)) => Wanted::Passes(class.clone()),
            other => panic!("{language}: {title}: {other:?}"),
        };
        cases.push(Case {
            language,
            title: title.to_owned(),
            wanted,
            set_aside: cases.len() % 2 == 1,
            verify: key("verify"),
            delta: key("delta").split_whitespace().map(str::to_owned).collect(),
            task: key("task"),
            modes: key("mode").split_whitespace().map(str::to_owned).collect(),
            before: found.before,
            after: found.after,
        });
    }
    cases
}

/// The bases and cases of a file, each with its head.
fn sections(text: &str) -> Vec<&str> {
    let is_head = |line: &str| line.starts_with("# base ") || line.starts_with("## ");
    let mut starts = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if is_head(line) {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| &text[*start..end]).collect()
}

/// What a body of lines being read belongs to.
enum Open {
    Keys,
    Sides(String, [bool; 2]),
    Edit(String),
}

fn sketch(body: &str, mut base: Sketch, head: &str) -> Sketch {
    let mut open = Open::Keys;
    let (mut old, mut new) = (String::new(), String::new());
    for line in body.lines().chain(["@@ "]) {
        let file = ["=== ", "<<< ", ">>> ", "@@ ", "rm "].iter().find(|sign| line.starts_with(**sign));
        let Some(sign) = file else {
            match &open {
                Open::Sides(path, sides) => {
                    for (tree, _) in
                        [&mut base.before, &mut base.after].into_iter().zip(sides).filter(|one| *one.1)
                    {
                        let text = tree.entry(path.clone()).or_default();
                        text.push_str(line);
                        text.push('\n');
                    }
                }
                Open::Edit(_) => match line.split_at_checked(2) {
                    Some(("- ", text)) => old = format!("{old}{text}\n"),
                    Some(("+ ", text)) => new = format!("{new}{text}\n"),
                    _ => assert!(line.trim().is_empty(), "{head}: {line}"),
                },
                Open::Keys => {
                    if let Some((key, value)) = line.split_once(':') {
                        base.keys.insert(key.to_owned(), value.trim().to_owned());
                    }
                }
            }
            continue;
        };
        if let Open::Edit(path) = &open {
            edit(&mut base.after, path, (&old, &new), head);
            (old, new) = (String::new(), String::new());
        }
        let path = line[sign.len()..].trim().to_owned();
        open = match *sign {
            "@@ " => Open::Edit(path),
            "rm " => {
                base.after.remove(&path);
                Open::Keys
            }
            sign => {
                // What has only a side before is the same after, unless the case says otherwise.
                let sides = [sign != ">>> ", true];
                if sides[0] {
                    base.before.insert(path.clone(), String::new());
                }
                base.after.insert(path.clone(), String::new());
                Open::Sides(path, sides)
            }
        };
    }
    base
}

/// Replaces one place of a file: whole lines, or a part of one line.
fn edit(tree: &mut Tree, path: &str, (old, new): (&str, &str), head: &str) {
    if path.is_empty() {
        return;
    }
    let text = tree.get(path).unwrap_or_else(|| panic!("{head}: no {path}"));
    let (old, new) = match text.contains(old) {
        true => (old, new),
        false => (old.trim_end_matches('\n'), new.trim_end_matches('\n')),
    };
    assert!(!old.is_empty() && text.contains(old), "{head}: {path} has no\n{old}");
    let changed = text.replacen(old, new, 1);
    tree.insert(path.to_owned(), changed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_as_large_as_it_was_promised() {
        let all = cases();
        let cheats = all.iter().filter(|case| matches!(case.wanted, Wanted::Caught(_))).count();
        assert!(cheats >= 150 && all.len() - cheats >= 80, "{cheats} of {}", all.len());
        for case in &all {
            assert!(!case.change().files.is_empty(), "{}: {} changes nothing", case.language, case.title);
            assert!(!case.verify.is_empty() && !case.delta.is_empty(), "{}: {}", case.language, case.title);
        }
        let set_aside = all.iter().filter(|case| case.set_aside).count();
        assert!(set_aside.abs_diff(all.len() - set_aside) <= FILES.len());
    }
}
