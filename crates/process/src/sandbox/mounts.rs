//! What stands where in a sandbox: rules made into a list of mounts, the outermost first.
//!
//! A path is bound under the name that it has once all links are followed, and each link on the way to it is made
//! again inside. It reads the file system of the machine and changes nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::rules::SandboxRules;

/// How many links are followed on the way to one path.
const MAX_LINKS: usize = 40;

/// Files that nobody needs inside and that hold what must stay outside. They are covered by an empty one.
const MASKED: [&str; 16] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/krb5.keytab",
    "/etc/security/opasswd",
    "/etc/NetworkManager",
    "/etc/wireguard",
    "/etc/ppp",
    "/etc/docker",
    "/etc/kubernetes",
    "/etc/credstore",
];

/// One thing that stands in a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mount {
    /// A link.
    Link(PathBuf),
    /// An empty file or folder over one that stays outside.
    Mask { is_folder: bool },
    /// Something of the machine that can be read.
    Read(PathBuf),
    /// An empty folder that can be written, and is gone afterwards.
    Private,
    /// An empty folder that cannot be written.
    Empty,
    /// A folder of the machine under one that takes what is written, and is gone afterwards.
    Cache(PathBuf),
    /// Something of the machine that can be written.
    Write(PathBuf),
}

impl Mount {
    /// Which of two that are to stand at the same place does.
    fn rank(&self) -> u8 {
        match self {
            Mount::Link(_) => 0,
            Mount::Mask { .. } => 1,
            Mount::Empty => 2,
            Mount::Read(_) => 3,
            Mount::Private => 4,
            Mount::Cache(_) => 5,
            Mount::Write(_) => 6,
        }
    }

    /// Whether what stands there can be written.
    pub(super) fn is_writable(&self) -> bool {
        match self {
            Mount::Private | Mount::Cache(_) | Mount::Write(_) => true,
            Mount::Link(_) | Mount::Mask { .. } | Mount::Read(_) | Mount::Empty => false,
        }
    }
}

/// Everything that stands in a sandbox, by its place; what is above comes before what is in it.
#[derive(Debug, Default)]
pub(super) struct Mounts(pub(super) BTreeMap<PathBuf, Mount>);

impl Mounts {
    /// What rules come to on this machine. What is not there is left out.
    pub(super) fn of(rules: &SandboxRules) -> Mounts {
        let mut all = Mounts::default();
        for path in &rules.hide {
            all.add_place(path, Mount::Empty);
        }
        for path in MASKED.map(Path::new) {
            if let Ok(seen) = fs::symlink_metadata(path) {
                all.add(path, Mount::Mask { is_folder: seen.is_dir() });
            }
        }
        for path in &rules.private {
            all.add_place(path, Mount::Private);
        }
        for path in &rules.read {
            all.bind(path, Mount::Read);
        }
        for path in rules.caches.iter().filter(|path| path.is_dir()) {
            all.bind(path, Mount::Cache);
        }
        for path in &rules.write {
            all.bind(path, Mount::Write);
        }
        for bind in &rules.binds {
            let Ok(from) = fs::canonicalize(&bind.from) else { continue };
            // It is what the caller says that stands there, whatever else would.
            let mount = if bind.writable { Mount::Write(from) } else { Mount::Read(from) };
            all.0.insert(bind.to.clone(), mount);
        }
        all.prune();
        all
    }

    /// The mount in which a path lies, with its place.
    pub(super) fn holding(&self, path: &Path) -> Option<(&Path, &Mount)> {
        let found = path.ancestors().find_map(|above| self.0.get_key_value(above));
        found.map(|(at, mount)| (at.as_path(), mount))
    }

    /// What is mounted from the machine, at the place that it has there once its links are followed.
    fn bind(&mut self, path: &Path, make: impl Fn(PathBuf) -> Mount) {
        let Some(real) = self.follow(path) else { return };
        self.add(&real, make(real.clone()));
    }

    /// A place of its own, which need not be there outside.
    fn add_place(&mut self, path: &Path, mount: Mount) {
        let place = self.follow(path).unwrap_or_else(|| path.to_owned());
        if place.is_absolute() && place != Path::new("/") {
            self.add(&place, mount);
        }
    }

    fn add(&mut self, at: &Path, mount: Mount) {
        let old = self.0.get(at).map_or(0, Mount::rank);
        if old <= mount.rank() {
            self.0.insert(at.to_owned(), mount);
        }
    }

    /// The path with all links followed, each of which is made again inside; nothing where it is not there.
    fn follow(&mut self, path: &Path) -> Option<PathBuf> {
        let mut rest: Vec<OsString> = words(path);
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(word) = rest.pop() {
            if word == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&word);
            let seen = fs::symlink_metadata(&next).ok()?;
            if !seen.is_symlink() {
                at = next;
                continue;
            }
            links += 1;
            let target = fs::read_link(&next).ok().filter(|_| links <= MAX_LINKS)?;
            self.add(&next, Mount::Link(target.clone()));
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            rest.extend(words(&target));
        }
        Some(at)
    }

    /// Takes out what is there anyway: what can be read in a folder that can be read, and links in what is bound.
    fn prune(&mut self) {
        let is_covered = |at: &Path, mount: &Mount| {
            let above = at.parent().and_then(|above| self.holding(above));
            match (mount, above) {
                (Mount::Link(_), Some((_, Mount::Read(_) | Mount::Write(_) | Mount::Cache(_)))) => true,
                (Mount::Read(from), Some((place, Mount::Read(theirs)))) => {
                    at.strip_prefix(place).is_ok_and(|rest| theirs.join(rest) == *from)
                }
                (Mount::Mask { .. }, Some((_, Mount::Read(_)))) => false,
                (Mount::Mask { .. } | Mount::Empty, None) => matches!(mount, Mount::Mask { .. }),
                _ => false,
            }
        };
        let covered: Vec<PathBuf> =
            self.0.iter().filter(|(at, mount)| is_covered(at, mount)).map(|(at, _)| at.clone()).collect();
        for at in covered {
            self.0.remove(&at);
        }
    }
}

/// The words of a path, the last one first.
fn words(path: &Path) -> Vec<OsString> {
    let word = |part: Component<'_>| match part {
        Component::Normal(word) => Some(word.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// What stands in a sandbox below a folder, a line each.
    fn lines(mounts: &Mounts, top: &Path) -> Vec<String> {
        let short = |path: &Path| path.strip_prefix(top).unwrap_or(path).display().to_string();
        let line = |(at, mount): (&PathBuf, &Mount)| {
            at.starts_with(top).then(|| match mount {
                Mount::Read(_) => format!("read {}", short(at)),
                Mount::Write(_) => format!("write {}", short(at)),
                Mount::Cache(_) => format!("cache {}", short(at)),
                Mount::Link(to) => format!("link {} {}", short(at), to.display()),
                Mount::Private => format!("private {}", short(at)),
                Mount::Empty => format!("empty {}", short(at)),
                Mount::Mask { .. } => format!("mask {}", short(at)),
            })
        };
        mounts.0.iter().filter_map(line).collect()
    }

    #[test]
    fn links_are_made_again_and_what_is_covered_is_left_out() {
        let made = tempfile::tempdir().unwrap();
        let top = made.path().canonicalize().unwrap();
        for folder in ["real/bin", "home/.tool", "work"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        symlink("real", top.join("alias")).unwrap();
        let at = |name: &str| top.join(name);
        let rules = SandboxRules {
            read: vec![at("alias/bin"), at("real"), at("home/.tool"), at("missing")],
            write: vec![at("work")],
            private: vec![at("home"), at("work")],
            ..SandboxRules::default()
        };
        let wanted = ["link alias real", "private home", "read home/.tool", "read real", "write work"];
        assert_eq!(lines(&Mounts::of(&rules), &top), wanted);
    }

    #[test]
    fn what_is_hidden_stays_hidden_below_what_can_be_read() {
        let made = tempfile::tempdir().unwrap();
        let top = made.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("repo/.ftl/worktrees/a")).unwrap();
        let rules = SandboxRules {
            read: vec![top.clone()],
            hide: vec![top.join("repo")],
            write: vec![top.join("repo/.ftl/worktrees/a")],
            ..SandboxRules::default()
        };
        let mounts = Mounts::of(&rules);
        assert_eq!(lines(&mounts, &top), ["read ", "empty repo", "write repo/.ftl/worktrees/a"]);
        let (at, mount) = mounts.holding(&top.join("repo/secret")).unwrap();
        assert_eq!((at, mount), (top.join("repo").as_path(), &Mount::Empty));
    }

    #[test]
    fn a_circle_of_links_is_no_place() {
        let made = tempfile::tempdir().unwrap();
        let top = made.path().canonicalize().unwrap();
        symlink("b", top.join("a")).unwrap();
        symlink("a", top.join("b")).unwrap();
        assert_eq!(Mounts::default().follow(&top.join("a")), None);
    }
}
