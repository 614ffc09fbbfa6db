//! Finding a program, as the system does when it starts one: a regular file with an executable bit.
//!
//! Nothing is started here, and no variable of ours is read: whose search path counts is the caller's business.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Whether a file can be started.
pub fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The file that is started for a program: itself where it is named by a path, else the first of that name in the
/// folders of a search path.
pub fn find(program: impl AsRef<OsStr>, folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let program = program.as_ref();
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(|file| is_program(file));
    }
    folders.into_iter().map(|folder| folder.join(program)).find(|file| is_program(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_program_is_a_file_that_can_be_started() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let put = |file: PathBuf, mode: u32| {
            fs::write(&file, "").unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        };
        put(first.path().join("text"), 0o644);
        put(second.path().join("text"), 0o755);
        put(first.path().join("tool"), 0o755);
        put(second.path().join("tool"), 0o755);
        fs::create_dir(first.path().join("folder")).unwrap();
        std::os::unix::fs::symlink("tool", first.path().join("link")).unwrap();
        let found = |program: &str| find(program, [first.path().to_owned(), second.path().to_owned()]);
        let table = [
            ("tool", Some(first.path().join("tool"))),
            ("text", Some(second.path().join("text"))),
            ("link", Some(first.path().join("link"))),
            ("folder", None),
            ("gone", None),
            ("./tool", None),
            ("/bin/sh", Some(PathBuf::from("/bin/sh"))),
            ("/etc/passwd", None),
        ];
        for (program, wanted) in table {
            assert_eq!(found(program), wanted, "{program}");
        }
        assert_eq!(find("tool", []), None);
    }
}
