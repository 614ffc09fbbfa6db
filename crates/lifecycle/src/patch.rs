//! A patch: which files it makes, changes and removes, as its own headers say.
//!
//! It is only read here, never applied. A text without a single header of a file is no patch.

use std::collections::BTreeMap;

/// What a patch does to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// It is there afterwards.
    Writes,
    /// It is gone afterwards.
    Removes,
}

/// The files of a patch, by path; nothing where the text is no patch.
pub fn files(patch: &[u8]) -> Option<BTreeMap<String, Touch>> {
    let text = String::from_utf8_lossy(patch);
    let mut found = BTreeMap::new();
    let mut block = Block::default();
    // Lines of a hunk may look like headers: as many as its own header says are passed over.
    let (mut old, mut new) = (0u64, 0u64);
    for line in text.lines() {
        if old > 0 || new > 0 {
            match line.as_bytes().first() {
                Some(b'-') => old = old.saturating_sub(1),
                Some(b'+') => new = new.saturating_sub(1),
                Some(b'\\') => {}
                Some(_) | None => (old, new) = (old.saturating_sub(1), new.saturating_sub(1)),
            }
            continue;
        }
        if let Some(hunk) = line.strip_prefix("@@ -") {
            (old, new) = counts(hunk);
            continue;
        }
        if let Some(rest) = line.strip_prefix("diff --git ") {
            block.end(&mut found);
            block = Block { git: both(rest), ..Block::default() };
        } else if let Some(path) = line.strip_prefix("--- ") {
            if block.new.is_some() {
                block.end(&mut found);
                block = Block::default();
            }
            block.old = Some(side(path, "a/"));
        } else if let Some(path) = line.strip_prefix("+++ ") {
            block.new = Some(side(path, "b/"));
        } else if line.starts_with("deleted file mode ") {
            block.removed = true;
        } else if let Some(path) = line.strip_prefix("rename from ") {
            found.insert(unquoted(path), Touch::Removes);
        }
    }
    block.end(&mut found);
    (!found.is_empty()).then_some(found)
}

/// How many lines of each side a hunk has: `-3,4 +5,6 @@`, without the dash.
fn counts(hunk: &str) -> (u64, u64) {
    let mut words = hunk.split_whitespace();
    let count = |word: Option<&str>| {
        let (_, count) = word?.split_once(',').unwrap_or(("", "1"));
        count.parse().ok()
    };
    let old = count(words.next());
    let new = count(words.next().and_then(|word| word.strip_prefix('+')));
    (old.unwrap_or(0), new.unwrap_or(0))
}

/// The headers of one file.
#[derive(Default)]
struct Block {
    git: Option<String>,
    old: Option<Option<String>>,
    new: Option<Option<String>>,
    removed: bool,
}

impl Block {
    fn end(&mut self, found: &mut BTreeMap<String, Touch>) {
        let (old, new) = (self.old.take(), self.new.take());
        let (path, gone) = match (old, new) {
            (_, Some(Some(new))) => (Some(new), false),
            (Some(Some(old)), Some(None)) => (Some(old), true),
            (Some(_), None) | (None, Some(None)) | (Some(None), Some(None)) => {
                (self.git.take(), self.removed)
            }
            (None, None) => (self.git.take(), self.removed),
        };
        if let Some(path) = path {
            let touch = if gone || self.removed { Touch::Removes } else { Touch::Writes };
            found.insert(path, touch);
        }
    }
}

/// The path of a header; `None` for `/dev/null`.
fn side(text: &str, prefix: &str) -> Option<String> {
    let path = text.split('\t').next().unwrap_or_default();
    let path = unquoted(path);
    if path == "/dev/null" {
        return None;
    }
    Some(path.strip_prefix(prefix).map_or(path.clone(), str::to_owned))
}

/// The path of `a/x b/x`, where both are the same.
fn both(text: &str) -> Option<String> {
    if text.starts_with('"') {
        let (_, second) = text.split_once("\" ")?;
        return Some(unquoted(second).strip_prefix("b/")?.to_owned());
    }
    let text = text.strip_prefix("a/")?;
    // `x b/x`: two equal halves around ` b/`.
    let half = text.len().checked_sub(3)? / 2;
    match (text.get(..half), text.get(half..half + 3), text.get(half + 3..)) {
        (Some(left), Some(" b/"), Some(right)) if left == right => Some(right.to_owned()),
        _ => text.rsplit_once(" b/").map(|(_, right)| right.to_owned()),
    }
}

/// A path as git quotes it where it has odd letters.
fn unquoted(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
        return text.to_owned();
    };
    let mut bytes = Vec::new();
    let mut letters = inner.bytes().peekable();
    while let Some(byte) = letters.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match letters.next() {
            Some(digit @ b'0'..=b'7') => {
                let mut code = u32::from(digit - b'0');
                for _ in 0..2 {
                    if let Some(next) = letters.next_if(|next| (b'0'..=b'7').contains(next)) {
                        code = code * 8 + u32::from(next - b'0');
                    }
                }
                bytes.push(u8::try_from(code & 0xff).unwrap_or(b'?'));
            }
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe_patch(patch: &str) -> String {
        let Some(found) = files(patch.as_bytes()) else { return String::from("no patch") };
        let one = |(path, touch): (&String, &Touch)| match touch {
            Touch::Writes => path.clone(),
            Touch::Removes => format!("-{path}"),
        };
        found.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_files_of_patches() {
        let cases = [
            ("", "no patch"),
            ("just words\n", "no patch"),
            ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "x"),
            ("--- x\n+++ x\n", "x"),
            (
                "diff --git a/n.rs b/n.rs\nnew file mode 100644\n--- /dev/null\n+++ b/n.rs\n@@ -0,0 +1 @@\n+a\n",
                "n.rs",
            ),
            (
                "diff --git a/d b/d\ndeleted file mode 100644\n--- a/d\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
                "-d",
            ),
            ("diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n", "e"),
            ("diff --git a/e b/e\ndeleted file mode 100644\nindex e69de29..0000000\n", "-e"),
            ("diff --git a/o b/p\nsimilarity index 100%\nrename from o\nrename to p\n", "-o p"),
            ("diff --git a/a b/c b/a b/c\nold mode 100644\nnew mode 100755\n", "a b/c"),
            (
                "diff --git \"a/\\303\\244\" \"b/\\303\\244\"\n--- \"a/\\303\\244\"\n+++ \"b/\\303\\244\"\n",
                "ä",
            ),
            (
                "--- a/x\t2025\n+++ b/x\t2025\n@@ -1,2 +1,2 @@\n--- a/no\n-+++ b/no\n+++ b/no\n++ c\n--- a/y\n+++ b/y\n",
                "x y",
            ),
        ];
        for (patch, wanted) in cases {
            assert_eq!(describe_patch(patch), wanted, "{patch}");
        }
    }
}
