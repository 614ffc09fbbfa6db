//! The files of a repository, and reading them within limits.
//!
//! Git says which files there are, so that what it ignores is not looked at; where there is no git, folders
//! are walked. Nothing is followed out of the repository, `.ftl` is never looked into, nothing that the
//! repository's configuration names is run, and nothing takes longer than its limit: what was left out is
//! told, never guessed.

use std::cell::Cell;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ftl_code::framework::is_foreign;
use ftl_git::{AskLimits, ErrorKind};

/// How many files of a repository are listed.
pub const MAX_FILES: usize = 20_000;

/// How many files are read by one explorer.
pub const MAX_READS: usize = 2_000;

/// How much is read of one file.
pub const MAX_FILE_BYTES: u64 = 256 * 1024;

/// How much is read of all files together.
pub const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// How long one explorer's code may look.
pub const MAX_TIME: Duration = Duration::from_secs(20);

/// How much git may say when it lists files.
pub const MAX_LIST_BYTES: u64 = 32 * 1024 * 1024;

/// How far a survey goes.
#[derive(Clone, Copy, Debug)]
pub struct SurveyLimits {
    /// Files that are listed.
    pub files: usize,
    /// Files that are read.
    pub reads: usize,
    /// Bytes that are read of one file.
    pub file_bytes: u64,
    /// Bytes that are read in all.
    pub bytes: u64,
    /// Bytes that git may say.
    pub list_bytes: u64,
    /// The longest time that code may look.
    pub time: Duration,
}

impl Default for SurveyLimits {
    fn default() -> SurveyLimits {
        SurveyLimits {
            files: MAX_FILES,
            reads: MAX_READS,
            file_bytes: MAX_FILE_BYTES,
            bytes: MAX_BYTES,
            list_bytes: MAX_LIST_BYTES,
            time: MAX_TIME,
        }
    }
}

/// A file of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedFile {
    /// Its path from the root, with forward slashes.
    pub path: String,
    /// The size of the file.
    pub bytes: u64,
}

/// The files that there are, as several may look at them.
pub type Listed = Arc<Vec<SurveyedFile>>;

/// The files of a repository.
pub struct Survey<'a> {
    root: PathBuf,
    files: Listed,
    limits: SurveyLimits,
    until: Instant,
    enough: &'a dyn Fn() -> bool,
    reads: Cell<usize>,
    bytes: Cell<u64>,
    left_out: Cell<Option<&'static str>>,
}

impl<'a> Survey<'a> {
    /// Looks which files there are; `enough` tells when the caller has called it off.
    pub fn of(root: &Path, enough: &'a dyn Fn() -> bool) -> Survey<'a> {
        Survey::within(root, SurveyLimits::default(), enough)
    }

    /// The same within these limits.
    pub fn within(root: &Path, limits: SurveyLimits, enough: &'a dyn Fn() -> bool) -> Survey<'a> {
        let mut survey = Survey::with(root, limits, Listed::default(), enough);
        let names = survey.listed_by_git().unwrap_or_else(|| survey.walked());
        survey.files = Arc::new(survey.keep_files(names));
        survey
    }

    /// The same over files that were listed before.
    pub fn over(root: &Path, files: Listed, enough: &'a dyn Fn() -> bool) -> Survey<'a> {
        Survey::with(root, SurveyLimits::default(), files, enough)
    }

    fn with(root: &Path, limits: SurveyLimits, files: Listed, enough: &'a dyn Fn() -> bool) -> Survey<'a> {
        let (reads, bytes, left_out) = (Cell::new(limits.reads), Cell::new(limits.bytes), Cell::new(None));
        let until = Instant::now() + limits.time;
        Survey { root: root.to_owned(), files, limits, until, enough, reads, bytes, left_out }
    }

    /// All the files, for the next survey; nothing where a limit was reached.
    pub fn list_files(&self) -> Option<Listed> {
        self.left_out.get().is_none().then(|| self.files.clone())
    }

    /// The folder that was surveyed.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The files, in the order of their paths.
    pub fn files(&self) -> &[SurveyedFile] {
        &self.files
    }

    /// What was left out, where a limit was reached.
    pub fn left_out(&self) -> Option<&'static str> {
        self.left_out.get()
    }

    /// Whether there is no time left, or the caller has called it off.
    pub fn is_over(&self) -> bool {
        let over = Instant::now() >= self.until || (self.enough)();
        if over {
            self.leave_out("there was no more time");
        }
        over
    }

    fn leave_out(&self, why: &'static str) {
        self.left_out.set(self.left_out.get().or(Some(why)));
    }

    /// What is in a file, as far as limits go; `None` for what is not to be read.
    pub fn read(&self, file: &SurveyedFile) -> Option<Vec<u8>> {
        if self.reads.get() == 0 || self.bytes.get() == 0 {
            self.leave_out("not every file was read: there are too many");
            return None;
        }
        if self.is_over() {
            return None;
        }
        let path = self.root.join(&file.path).canonicalize().ok()?;
        // A folder on the way may have become a link since it was listed.
        if !path.starts_with(self.root.canonicalize().ok()?) || !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let most = self.limits.file_bytes.min(self.bytes.get());
        let mut bytes = Vec::new();
        fs::File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
        self.reads.set(self.reads.get() - 1);
        self.bytes.set(self.bytes.get() - bytes.len() as u64);
        if (bytes.len() as u64) < file.bytes {
            self.leave_out("not all of every file was read: some are too large");
        }
        Some(bytes)
    }

    /// The files among some names, in their order: no links, no folders, nothing of ours.
    fn keep_files(&self, mut names: Vec<String>) -> Vec<SurveyedFile> {
        names.sort_unstable();
        names.dedup();
        let mut files = Vec::new();
        for path in names.into_iter().filter(|path| !is_ours(path)) {
            let Ok(found) = fs::symlink_metadata(self.root.join(&path)) else { continue };
            if !found.is_file() {
                continue;
            }
            if files.len() == self.limits.files {
                self.leave_out("not every file was looked at: there are too many");
                break;
            }
            files.push(SurveyedFile { path, bytes: found.len() });
            if files.len() % 256 == 0 && self.is_over() {
                break;
            }
        }
        files
    }

    /// What git knows and what it does not ignore; `None` where git has no say.
    fn listed_by_git(&self) -> Option<Vec<String>> {
        let words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let limits = AskLimits { time: self.limits.time, bytes: self.limits.list_bytes };
        let answer = match ftl_git::ask_within(&self.root, &words, limits) {
            Ok(answer) => answer,
            Err(error) if error.trouble == ErrorKind::TimedOut => {
                self.leave_out("not every file was looked at: git has too much to say");
                return None;
            }
            Err(_) => return None,
        };
        if answer.is_cut {
            self.leave_out("not every file was looked at: git has too much to say");
        } else if !answer.is_ok {
            return None;
        }
        Some(self.names(&answer.out, answer.is_cut))
    }

    /// The paths of a list; the last one of a list that was cut is not whole.
    fn names(&self, bytes: &[u8], cut: bool) -> Vec<String> {
        let mut paths: Vec<&[u8]> = bytes.split(|byte| *byte == 0).filter(|path| !path.is_empty()).collect();
        if cut {
            paths.pop();
        }
        let mut names = Vec::new();
        for path in paths {
            match std::str::from_utf8(path) {
                Ok(path) => names.push(path.to_owned()),
                Err(_) => self.leave_out("files whose names are not UTF-8 were not looked at"),
            }
        }
        names
    }

    /// The files below the root where there is no git: what others wrote or what was built is left out.
    fn walked(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
                if kind.is_dir() && !is_foreign(&path) {
                    folders.push(path);
                } else if kind.is_file() {
                    let name = path.strip_prefix(&self.root).ok().and_then(Path::to_str);
                    names.extend(name.map(str::to_owned));
                }
            }
            // One more than is listed, so that the limit is seen to be passed.
            if names.len() > self.limits.files || self.is_over() {
                break;
            }
        }
        names
    }
}

fn is_ours(path: &str) -> bool {
    path.split('/').any(|part| part == ".ftl" || part == ".git")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn git(folder: &Path) {
        let mut git = Command::new("git");
        git.args(["init", "-q", "."]).current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null");
        assert!(git.status().unwrap().success());
    }

    fn paths(survey: &Survey<'_>) -> Vec<String> {
        survey.files().iter().map(|file| file.path.clone()).collect()
    }

    const FILES: &[(&str, &str)] = &[
        (".gitignore", "*.log\nout/\n"),
        (".ftl/store/x.py", "x"),
        ("a.py", "abc"),
        ("b.log", "x"),
        ("out/c.py", "x"),
        ("node_modules/d.js", "x"),
        ("z/ü.py", "x"),
    ];

    #[test]
    fn git_says_what_counts_and_links_are_not_followed() {
        let folder = project(FILES);
        let outside = project(&[("secret.py", "x")]);
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret.py"), folder.path().join("s.py")).unwrap();
        let wanted = [".gitignore", "a.py", "node_modules/d.js", "z/ü.py"];
        git(folder.path());
        let survey = Survey::of(folder.path(), &|| false);
        assert_eq!((paths(&survey), survey.left_out()), (wanted.map(str::to_owned).to_vec(), None));
    }

    #[test]
    fn without_git_folders_are_walked() {
        let folder = project(FILES);
        let survey = Survey::of(folder.path(), &|| false);
        assert_eq!(paths(&survey), [".gitignore", "a.py", "b.log", "out/c.py", "z/ü.py"]);
    }

    #[test]
    fn a_monitor_that_the_repository_names_is_not_run() {
        let folder = project(&[("a.py", ""), ("spy.sh", "#!/bin/sh\ntouch \"$(dirname \"$0\")/ran\"\n")]);
        git(folder.path());
        let spy = folder.path().join("spy.sh");
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&spy, fs::Permissions::from_mode(0o755)).unwrap();
        let config = format!("[core]\n\tfsmonitor = {}\n", spy.display());
        let file = folder.path().join(".git/config");
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, before + &config).unwrap();
        assert_eq!(paths(&Survey::of(folder.path(), &|| false)), ["a.py", "spy.sh"]);
        assert!(!folder.path().join("ran").exists());
    }

    #[test]
    fn every_limit_is_kept_and_told() {
        let folder = project(&[("a.py", "0123456789"), ("b.py", "0123456789"), ("c.py", "0123456789")]);
        let all = SurveyLimits::default();
        let read = |limits: SurveyLimits| {
            let survey = Survey::within(folder.path(), limits, &|| false);
            let bytes: usize =
                survey.files().iter().filter_map(|file| survey.read(file)).map(|read| read.len()).sum();
            (survey.files().len(), bytes, survey.left_out().is_some())
        };
        assert_eq!(read(all), (3, 30, false));
        assert_eq!(read(SurveyLimits { files: 2, ..all }), (2, 20, true));
        assert_eq!(read(SurveyLimits { reads: 1, ..all }), (3, 10, true));
        assert_eq!(read(SurveyLimits { bytes: 15, ..all }), (3, 15, true));
        assert_eq!(read(SurveyLimits { file_bytes: 4, ..all }), (3, 12, true));
        assert_eq!(read(SurveyLimits { time: Duration::ZERO, ..all }).1, 0);
        git(folder.path());
        // `a.py`, a zero byte, and `b.`: the second name is not whole.
        assert_eq!(read(SurveyLimits { list_bytes: 7, ..all }), (1, 10, true));
        let survey = Survey::within(folder.path(), all, &|| true);
        assert_eq!((survey.read(&survey.files()[0]), survey.left_out().is_some()), (None, true));
    }
}
