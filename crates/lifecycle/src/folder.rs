//! A task's folder: what lies where, what it is called, what older versions are put.
//!
//! No name becomes a path that was not looked at, nothing is followed that is a link, and nothing is ever
//! deleted: what gives way to something newer moves below `versions/`.

use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ftl_core::json::{Json, JsonExt as _};

use super::artifact::{self, ArtifactFile, Malformed};
use ftl_folder::state_folder::StateFolder;
use ftl_store::ContentDigest;

/// The plan, for programs.
pub const PLAN: &str = "planning/planning.ai.json";
/// The plan, for people.
pub const PLAN_TEXT: &str = "planning/plan.md";
/// The files of the plan.
pub const PLAN_FILES: &str = "planning/plan.files.json";
/// The conversation of the planning phase.
pub const PLAN_TRANSCRIPT: &str = "planning/planning.transcript.jsonl";
/// The minutes of a planning meeting, of older work.
pub const MEETING: &str = "planning/planning.meeting.json";
/// The review of the plan.
pub const PLAN_REVIEW: &str = "review/plan-review.json";
/// Where older work has it.
pub const OLDER_PLAN_REVIEW: &str = "planning/plan-review.json";
/// The patch that the coder made.
pub const PATCH: &str = "code/diff.patch";
/// The generated files, whole.
pub const FILES: &str = "code/files";
/// What the coder says about its own phase.
pub const CODEGEN: &str = "code/codegen.json";
/// The review of the patch.
pub const CODE_REVIEW: &str = "review/code-review.json";
/// The report of the suites, run on the patch.
pub const REPORT: &str = "eval/eval-report.json";
/// Where older work has it.
pub const OLDER_REPORT: &str = "eval-report.json";
/// The decision of a person at the end.
pub const DECISION: &str = "accept/decision.json";
/// The commit that the accepted patch became.
pub const COMMIT: &str = "accept/commit.json";
/// The record of a revert: what was undone, and why.
pub const RECORD: &str = "revert/record.json";
/// The phase of the task, and what each phase has come to.
pub const STATE: &str = "state.json";
/// The overrides and redos of people, a line each.
pub const TRANSCRIPT: &str = "transcript.jsonl";
/// Where what gave way is kept.
pub const VERSIONS: &str = "versions";

/// The largest patch that is read.
pub const MAX_PATCH_BYTES: u64 = 64 * 1024 * 1024;

/// How many files a patch may generate.
pub const MAX_FILES: usize = 10_000;

/// How long the name of a task may be.
pub const MAX_ID_BYTES: usize = 64;

/// How many tasks are listed.
pub const MAX_TASKS: usize = 10_000;

/// The name of a task: letters, digits, dots, dashes and underscores, and no dot first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(String);

impl TaskId {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Why a text is no name of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskIdError {
    /// It is empty, too long, or begins with a dot or a dash.
    Length(String),
    /// It has letters that are not in names.
    Letters(String),
}

impl fmt::Display for TaskIdError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskIdError::Length(text) => {
                write!(out, "`{text}` is no name of a task: it has 1 to {MAX_ID_BYTES} letters")
            }
            TaskIdError::Letters(text) => {
                write!(out, "`{text}` is no name of a task: letters, digits, `.`, `-` and `_` only")
            }
        }
    }
}

impl std::error::Error for TaskIdError {}

impl FromStr for TaskId {
    type Err = TaskIdError;

    fn from_str(text: &str) -> Result<TaskId, TaskIdError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if text.is_empty() || text.len() > MAX_ID_BYTES || text.starts_with(['.', '-']) {
            return Err(TaskIdError::Length(text.to_owned()));
        }
        if !text.bytes().all(plain) {
            return Err(TaskIdError::Letters(text.to_owned()));
        }
        Ok(TaskId(text.to_owned()))
    }
}

/// The folder that holds the folders of tasks.
pub fn tasks(place: &StateFolder) -> PathBuf {
    place.state().join("tasks")
}

/// Every task that has a folder, by name.
pub fn list(place: &StateFolder) -> io::Result<Vec<TaskId>> {
    let above = match ftl_folder::Folder::open(&tasks(place)) {
        Ok(above) => above,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for name in above.first_names(MAX_TASKS)? {
        if above.metadata(&name)?.is_dir()
            && let Ok(id) = name.to_string_lossy().parse()
        {
            found.push(id);
        }
    }
    found.sort();
    Ok(found)
}

/// The folder of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFolder {
    id: TaskId,
    path: PathBuf,
}

impl TaskFolder {
    /// The folder of a task of a place. Nothing is made.
    pub fn of(place: &StateFolder, id: &TaskId) -> TaskFolder {
        TaskFolder { id: id.clone(), path: tasks(place).join(id.as_str()) }
    }

    /// The task's name.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// The path of the task's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file of it is.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A file of it as people are told it.
    pub fn display_path(&self, name: &str) -> String {
        format!(".ftl/tasks/{}/{name}", self.id)
    }

    /// Whether a file of it is there.
    pub fn has(&self, name: &str) -> bool {
        ftl_folder::metadata(&self.file(name)).is_ok()
    }

    /// Reads a JSON file of it; nothing where there is none.
    pub fn read(&self, name: &str) -> Result<Option<ArtifactFile>, Malformed> {
        ArtifactFile::read(&self.file(name), &self.display_path(name))
    }

    /// Reads a file of it; nothing where there is none.
    pub fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>, Malformed> {
        artifact::bytes(&self.file(name), &self.display_path(name), MAX_PATCH_BYTES)
    }

    /// The digest of a file of it; nothing where there is none.
    pub fn digest(&self, name: &str) -> Result<Option<ContentDigest>, Malformed> {
        Ok(self.bytes(name)?.map(|bytes| ContentDigest::of(&bytes)))
    }

    /// Something that differs whenever a file was written again, also with the same words.
    pub fn stamp(&self, name: &str) -> String {
        ftl_folder::metadata(&self.file(name))
            .map(|found| format!("{}.{:09}", found.mtime(), found.mtime_nsec()))
            .unwrap_or_default()
    }

    /// What is wrong with a file of it.
    pub fn wrong(&self, name: &str, message: impl Into<String>) -> Malformed {
        Malformed { path: self.display_path(name), line: 1, column: 1, message: message.into() }
    }

    /// The files below `code/files`, by path; what is no plain file there is malformed.
    pub fn generated(&self) -> Result<Vec<String>, Malformed> {
        let mut found = Vec::new();
        self.walk(FILES, "", &mut found)?;
        found.sort();
        Ok(found)
    }

    fn walk(&self, above: &str, prefix: &str, found: &mut Vec<String>) -> Result<(), Malformed> {
        let wrong = |error: io::Error| self.wrong(above, format!("cannot be read: {error}"));
        let held = match ftl_folder::Folder::open(&self.file(above)) {
            Ok(held) => held,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(wrong(error)),
        };
        for name in held.names().map_err(wrong)? {
            let kind = held.metadata(&name).map_err(wrong)?.file_type();
            let Some(name) = name.to_str() else {
                return Err(self.wrong(above, "has a file whose name is no UTF-8"));
            };
            let (inner, path) = (format!("{above}/{name}"), format!("{prefix}{name}"));
            if kind.is_dir() {
                self.walk(&inner, &format!("{path}/"), found)?;
            } else if kind.is_file() {
                found.push(path);
            } else {
                return Err(self.wrong(&inner, "is no file"));
            }
            if found.len() > MAX_FILES {
                return Err(self.wrong(FILES, format!("has more than {MAX_FILES} files")));
            }
        }
        Ok(())
    }

    /// Puts bytes in the place of a file, whole, with the folders on the way.
    pub fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.file(name);
        let above = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
        ftl_folder::make(above)?;
        ftl_folder::state_folder::replace(&file, bytes)?;
        sync(above)
    }

    /// Puts a JSON document in the place of a file.
    pub fn put_json(&self, name: &str, json: &Json) -> io::Result<()> {
        self.put(name, format!("{}\n", json.pretty()).as_bytes())
    }

    /// Adds a line to a file of lines, for good. What a crash left of an unfinished line gets an end first.
    pub fn add_line(&self, name: &str, line: &Json) -> io::Result<()> {
        let file = self.file(name);
        let above = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
        ftl_folder::make(above)?;
        let mut open = ftl_folder::open_as(&file, ftl_folder::OpenMode::Append, 0o666)?;
        let length = open.metadata()?.len();
        let mut last = [b'\n'];
        open.read_at(&mut last, length.saturating_sub(1))?;
        let end = if last == [b'\n'] { "" } else { "\n" };
        open.write_all(format!("{end}{line}\n").as_bytes())?;
        open.sync_all()?;
        sync(above)
    }

    /// The last line of a file of lines, if it is JSON.
    pub fn last_line(&self, name: &str) -> Option<Json> {
        let text = ftl_folder::read_to_string(&self.file(name), MAX_PATCH_BYTES).ok()?;
        Json::parse(text.lines().next_back()?).ok()
    }

    /// Moves the files of those names below `versions/`, into one folder with the next number: where
    /// each thing is now. What is not there is left out.
    pub fn archive(&self, names: &[&str]) -> io::Result<Vec<String>> {
        let there: Vec<&&str> = names.iter().filter(|name| self.has(name)).collect();
        if there.is_empty() {
            return Ok(Vec::new());
        }
        let number = self.next_version()?;
        let mut moved = Vec::new();
        for name in there {
            let kept = format!("{VERSIONS}/{number:04}/{name}");
            let file = self.file(&kept);
            let above = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
            ftl_folder::make(above)?;
            ftl_folder::rename(&self.file(name), &file)?;
            sync(above)?;
            moved.push(kept);
        }
        sync(&self.path)?;
        Ok(moved)
    }

    fn next_version(&self) -> io::Result<u64> {
        let numbers = ftl_folder::names(&self.file(VERSIONS))?;
        let number = |name: &std::ffi::OsString| name.to_string_lossy().parse().unwrap_or(0);
        Ok(numbers.iter().map(number).max().unwrap_or(0) + 1)
    }
}

/// What a folder says about its files is on the disk when this returns.
fn sync(folder: &Path) -> io::Result<()> {
    ftl_folder::sync(folder)
}

/// A path without what means nothing: `./a` and `a` are the same file.
pub fn plain_path(path: &str) -> String {
    let mut rest = path;
    while let Some(inner) = rest.strip_prefix("./") {
        rest = inner;
    }
    rest.replace("/./", "/")
}

/// Whether a path may stand in a plan: inside of the repository, and neither git's nor ours.
pub fn path_problem(path: &str) -> Option<&'static str> {
    let parts: Vec<&str> = path.split('/').collect();
    match () {
        () if path.trim().is_empty() => Some("is blank"),
        () if path.starts_with('/') || path.contains('\\') => Some("is no path inside of the repository"),
        () if path.contains(['\0', '\n', '\r']) => Some("has a character that no path has"),
        () if parts.contains(&"..") => Some("leads out of the repository"),
        () if parts.iter().any(|part| part.is_empty() || *part == ".") => Some("is not written plainly"),
        () if parts.iter().any(|part| part.eq_ignore_ascii_case(".git")) => Some("belongs to git"),
        () if parts.first().is_some_and(|part| part.eq_ignore_ascii_case(".ftl")) => Some("belongs to ftl"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    fn folder() -> (tempfile::TempDir, TaskFolder) {
        let root = tempfile::tempdir().unwrap();
        let folder = TaskFolder::of(&StateFolder::at(root.path()), &"t1".parse().unwrap());
        fs::create_dir_all(folder.path()).unwrap();
        (root, folder)
    }

    #[test]
    fn names_of_tasks_lead_nowhere_else() {
        for name in ["t1", "2025-11-16_a.b", "X"] {
            assert!(name.parse::<TaskId>().is_ok(), "{name}");
        }
        let long = "x".repeat(MAX_ID_BYTES + 1);
        for name in ["", ".", "..", ".x", "-x", "a/b", "a b", "ä", long.as_str()] {
            assert!(name.parse::<TaskId>().is_err(), "{name}");
        }
    }

    #[test]
    fn paths_of_a_plan_stay_inside() {
        for path in ["src/a.rs", "a b.txt", "docs/..x/y", ".github/a.yml"] {
            assert_eq!(path_problem(path), None, "{path}");
        }
        for path in [
            "",
            " ",
            "/etc/passwd",
            "../a",
            "a/../b",
            "a//b",
            "./a",
            "a/.",
            "a\\b",
            ".git/config",
            "a/.GIT/x",
            ".ftl/x",
            "a\nb",
        ] {
            assert!(path_problem(path).is_some(), "{path:?}");
        }
    }

    #[test]
    fn what_gives_way_is_kept_under_the_next_number() {
        let (_root, folder) = folder();
        for text in ["one", "two"] {
            folder.put(PLAN, text.as_bytes()).unwrap();
            folder.put("code/files/src/a.rs", text.as_bytes()).unwrap();
            folder.archive(&[PLAN, FILES, PATCH]).unwrap();
        }
        assert_eq!(folder.archive(&[PLAN]).unwrap(), Vec::<String>::new());
        for (number, text) in [("0001", "one"), ("0002", "two")] {
            for name in [PLAN, "code/files/src/a.rs"] {
                let kept = folder.file(&format!("versions/{number}/{name}"));
                assert_eq!(fs::read_to_string(kept).unwrap(), text);
            }
        }
    }

    #[test]
    fn a_line_follows_what_a_crash_left() {
        let (_root, folder) = folder();
        folder.put(TRANSCRIPT, b"{\"half\":").unwrap();
        folder.add_line(TRANSCRIPT, &Json::object([("a", Json::from(1))])).unwrap();
        folder.add_line(TRANSCRIPT, &Json::object([("a", Json::from(2))])).unwrap();
        let text = fs::read_to_string(folder.file(TRANSCRIPT)).unwrap();
        assert_eq!(text, "{\"half\":\n{\"a\":1}\n{\"a\":2}\n");
        assert_eq!(folder.last_line(TRANSCRIPT).unwrap().get("a"), Some(&Json::from(2)));
    }

    #[test]
    fn a_patch_is_not_too_large() {
        let (_root, folder) = folder();
        folder.put(PATCH, b"x").unwrap();
        assert_eq!(folder.bytes(PATCH).unwrap(), Some(b"x".to_vec()));
        File::create(folder.file(PATCH)).unwrap().set_len(MAX_PATCH_BYTES + 1).unwrap();
        let error = folder.bytes(PATCH).unwrap_err().to_string();
        assert!(error.contains(PATCH) && error.contains(&MAX_PATCH_BYTES.to_string()), "{error}");
    }

    #[test]
    fn tasks_are_listed_and_not_too_many() {
        let root = tempfile::tempdir().unwrap();
        let place = StateFolder::at(root.path());
        for number in 0..=MAX_TASKS {
            fs::create_dir_all(tasks(&place).join(format!("t{number}"))).unwrap();
        }
        assert_eq!(list(&place).unwrap().len(), MAX_TASKS);
    }

    #[test]
    fn generated_files_are_files_and_not_too_many() {
        let (_root, folder) = folder();
        assert_eq!(folder.generated().unwrap(), Vec::<String>::new());
        folder.put("code/files/src/b.rs", b"").unwrap();
        folder.put("code/files/a.rs", b"").unwrap();
        assert_eq!(folder.generated().unwrap(), ["a.rs", "src/b.rs"]);
        std::os::unix::fs::symlink("/", folder.file("code/files/out")).unwrap();
        assert!(folder.generated().unwrap_err().to_string().contains("code/files/out"));
        fs::remove_file(folder.file("code/files/out")).unwrap();
        for number in 0..MAX_FILES {
            File::create(folder.file(&format!("code/files/{number}"))).unwrap();
        }
        assert!(folder.generated().unwrap_err().message.contains("more than"));
    }
}
