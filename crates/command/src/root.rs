//! The root: which folder a command is about.
//!
//! It looks for two names and nothing else: git is not called, and nothing is made.

use std::path::{Path, PathBuf};

use crate::failure::CommandError;

/// The folder that holds the state and the protocols of a repository.
pub const STATE_FOLDER: &str = ".ftl";

/// The folder named by `--repo`; else the nearest folder upward that holds `.ftl/`, not above the
/// git root; else the git root; else the current folder.
pub fn find(named: Option<&Path>, current: &Path) -> Result<PathBuf, CommandError> {
    if let Some(folder) = named {
        return named_root(folder);
    }
    for folder in current.ancestors() {
        // A worktree and a submodule have a file in place of the folder.
        if folder.join(STATE_FOLDER).is_dir() || folder.join(".git").exists() {
            return Ok(folder.to_owned());
        }
    }
    Ok(current.to_owned())
}

/// The repository above a root that has a state of its own: a person or an agent made the one below it, and
/// its settings count for every command that is called from there.
pub fn shadowed(root: &Path) -> Option<PathBuf> {
    let above = root.ancestors().skip(1).find(|folder| folder.join(".git").exists())?;
    let is_inner = !root.join(".git").exists() && above.join(STATE_FOLDER).is_dir();
    is_inner.then(|| above.to_owned())
}

/// The repository whose subfolder a root is, where nobody has named it: settings of one person that stand there are
/// not those of the repository.
pub fn repository_around(root: &Path) -> Option<PathBuf> {
    if root.join(".git").exists() {
        return None;
    }
    root.ancestors().skip(1).find(|folder| folder.join(".git").exists()).map(Path::to_owned)
}

fn named_root(folder: &Path) -> Result<PathBuf, CommandError> {
    if folder.is_dir() {
        return Ok(folder.to_owned());
    }
    let what = if folder.exists() { "is not a folder" } else { "does not exist" };
    let message = format!("--repo: `{}` {what}", folder.display());
    Err(CommandError::new(message, "name the folder of the repository, or leave --repo out"))
}

/// The person's own folder of settings.
pub fn own_folder() -> Option<PathBuf> {
    let own = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let own = own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")));
    own.map(|folder| folder.join("ftl"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A tree of folders that goes away by itself.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Tree {
            let root = std::env::temp_dir().join(format!("ftl-root-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            fs::create_dir_all(root.join("a/b/c")).unwrap();
            Tree(root)
        }

        fn find_root(&self) -> PathBuf {
            let found = find(None, &self.0.join("a/b/c")).unwrap();
            found.strip_prefix(&self.0).unwrap().to_owned()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn git_marks_the_root_as_a_folder_or_a_file() {
        let tree = Tree::new("git");
        fs::create_dir(tree.0.join(".git")).unwrap();
        assert_eq!(tree.find_root(), Path::new(""));
        fs::write(tree.0.join("a/b/.git"), "gitdir: elsewhere").unwrap();
        assert_eq!(tree.find_root(), Path::new("a/b"));
    }

    #[test]
    fn the_nearest_state_folder_wins() {
        let tree = Tree::new("state");
        fs::create_dir(tree.0.join(".git")).unwrap();
        fs::create_dir(tree.0.join(".ftl")).unwrap();
        assert_eq!(tree.find_root(), Path::new(""));
        fs::create_dir(tree.0.join("a/.ftl")).unwrap();
        assert_eq!(tree.find_root(), Path::new("a"));
    }

    #[test]
    fn a_state_below_that_of_the_repository_hides_it() {
        let tree = Tree::new("hidden");
        fs::create_dir(tree.0.join(".git")).unwrap();
        fs::create_dir(tree.0.join("a/.ftl")).unwrap();
        assert_eq!(shadowed(&tree.0.join("a")), None, "the only one there is");
        fs::create_dir(tree.0.join(".ftl")).unwrap();
        assert_eq!(shadowed(&tree.0.join("a")), Some(tree.0.clone()));
        assert_eq!(shadowed(&tree.0), None);
        fs::write(tree.0.join("a/.git"), "gitdir: elsewhere").unwrap();
        assert_eq!(shadowed(&tree.0.join("a")), None, "a repository of its own");
    }

    #[test]
    fn nothing_above_the_git_root_counts() {
        let tree = Tree::new("above");
        fs::create_dir(tree.0.join(".ftl")).unwrap();
        fs::create_dir(tree.0.join("a/.git")).unwrap();
        assert_eq!(tree.find_root(), Path::new("a"));
    }

    #[test]
    fn a_file_of_that_name_is_no_state_folder() {
        let tree = Tree::new("file");
        fs::create_dir(tree.0.join(".git")).unwrap();
        fs::write(tree.0.join("a/.ftl"), "").unwrap();
        assert_eq!(tree.find_root(), Path::new(""));
    }

    #[test]
    fn a_named_folder_is_taken_as_it_is() {
        let tree = Tree::new("named");
        let inner = tree.0.join("a/b");
        assert_eq!(find(Some(&inner), &tree.0).unwrap(), inner);
        assert!(find(Some(&tree.0.join("no")), &tree.0).unwrap_err().message.contains("does not exist"));
        fs::write(tree.0.join("file"), "").unwrap();
        assert!(find(Some(&tree.0.join("file")), &tree.0).unwrap_err().message.contains("not a folder"));
    }
}
