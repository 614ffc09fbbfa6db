//! Lays the root folder of a sandbox: everything that is not mounted here is not there.
//!
//! The calling process is in namespaces of its own and may mount. Nothing is made or changed in a folder of the
//! machine: a place that is not there can only be made in a file system of our own.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::pivot_root;

use super::mounts::{Mount, Mounts};

/// Where the machine's root folder stands while ours is laid.
const OLD: &str = "/old";

/// Where ours is laid.
const NEW: &str = "/new";

/// A folder that every machine has, over which a file system of ours is mounted where nobody else sees it.
const BASES: [&str; 4] = ["/tmp", "/run", "/var/tmp", "/proc"];

/// The devices that programs need.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// What of `/proc` speaks of the machine, and must not be written.
const FIXED: [&str; 4] = ["sys", "sysrq-trigger", "irq", "bus"];

/// What of `/proc` nobody needs to read.
const CLOSED: [&str; 4] = ["kcore", "keys", "timer_list", "sched_debug"];

/// Lays the root folder and makes it ours. The old one is gone then.
pub(super) fn lay(mounts: &Mounts) -> io::Result<()> {
    change("/", MsFlags::MS_REC | MsFlags::MS_PRIVATE)?;
    let base = BASES.into_iter().find(|base| Path::new(base).is_dir()).unwrap_or("/");
    memory(Path::new(base), "mode=755")?;
    let below = |name: &str| Path::new(base).join(&name[1..]);
    for name in [OLD, NEW] {
        fs::create_dir(below(name))?;
    }
    pivot_root(base, &below(OLD))?;
    std::env::set_current_dir("/")?;
    memory(Path::new(NEW), "mode=755")?;
    let mut root = Root { ours: vec![device(Path::new(NEW))?], caches: 0 };
    root.lay_system()?;
    for (at, mount) in &mounts.0 {
        root.lay(at, mount).map_err(|error| name_place(at, &error))?;
    }
    close(mounts)?;
    umount2(OLD, MntFlags::MNT_DETACH)?;
    std::env::set_current_dir(NEW)?;
    pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    std::env::set_current_dir("/")
}

/// The root folder while it is laid.
struct Root {
    /// The file systems in which we may make folders.
    ours: Vec<u64>,
    /// How many caches have been laid.
    caches: u32,
}

impl Root {
    /// What is in every sandbox: processes, devices, memory to share.
    fn lay_system(&mut self) -> io::Result<()> {
        let proc = self.folder(Path::new("/proc"))?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("proc"), &proc, Some("proc"), flags, None::<&str>)?;
        for name in FIXED.into_iter().map(|name| proc.join(name)).filter(|path| path.exists()) {
            bind(&name, &name)?;
        }
        for name in CLOSED.into_iter().map(|name| proc.join(name)).filter(|path| path.exists()) {
            bind(&Path::new(OLD).join("dev/null"), &name)?;
        }
        let dev = self.folder(Path::new("/dev"))?;
        self.memory(&dev, "mode=755")?;
        for name in DEVICES {
            let from = Path::new(OLD).join("dev").join(name);
            if from.exists() {
                File::create(dev.join(name))?;
                bind(&from, &dev.join(name))?;
            }
        }
        for (name, to) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
            symlink(format!("/proc/self/{to}"), dev.join(name))?;
        }
        for name in ["shm", "pts"] {
            fs::create_dir(dev.join(name))?;
        }
        self.memory(&dev.join("shm"), "mode=1777")?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        mount(
            Some("devpts"),
            &dev.join("pts"),
            Some("devpts"),
            flags,
            Some("newinstance,ptmxmode=0666,mode=620"),
        )?;
        symlink("pts/ptmx", dev.join("ptmx"))
    }

    fn lay(&mut self, at: &Path, mount: &Mount) -> io::Result<()> {
        match mount {
            Mount::Link(to) => {
                let place = self.parent(at)?;
                if fs::symlink_metadata(&place).is_err() { symlink(to, place) } else { Ok(()) }
            }
            Mount::Mask { is_folder: true } | Mount::Empty => {
                let place = self.folder(at)?;
                self.memory(&place, "mode=755")
            }
            Mount::Mask { is_folder: false } => bind(&Path::new(OLD).join("dev/null"), &inside(at)),
            Mount::Private => {
                let place = self.folder(at)?;
                let mode = if is_shared(at) { "mode=1777" } else { "mode=700" };
                self.memory(&place, mode)
            }
            Mount::Read(from) | Mount::Write(from) => {
                let from = outside(from);
                let place = if from.is_dir() { self.folder(at)? } else { self.file(at)? };
                bind(&from, &place)
            }
            Mount::Cache(from) => self.cache(at, &outside(from)),
        }
    }

    /// A cache takes what is written into memory. A kernel that cannot do so lets it be read.
    fn cache(&mut self, at: &Path, from: &Path) -> io::Result<()> {
        let place = self.folder(at)?;
        let (above, work) = (format!("/up{}", self.caches), format!("/at{}", self.caches));
        self.caches += 1;
        for folder in [&above, &work] {
            fs::create_dir(folder)?;
        }
        let lower = from.as_os_str().as_bytes();
        // These letters would end the name in the list of options.
        let is_plain = !lower.iter().any(|byte| b":,\\".contains(byte));
        let options: [&[u8]; 6] =
            [b"userxattr,lowerdir=", lower, b",upperdir=", above.as_bytes(), b",workdir=", work.as_bytes()];
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        let options = OsString::from_vec(options.concat());
        if is_plain
            && mount(Some("overlay"), &place, Some("overlay"), flags, Some(options.as_os_str())).is_ok()
        {
            return Ok(());
        }
        bind(from, &place)?;
        remount(&place, MsFlags::MS_NOSUID | MsFlags::MS_NODEV)
    }

    fn memory(&mut self, at: &Path, options: &str) -> io::Result<()> {
        memory(at, options)?;
        self.ours.push(device(at)?);
        Ok(())
    }

    /// A folder inside, made if it is not there.
    fn folder(&self, at: &Path) -> io::Result<PathBuf> {
        let place = self.parent(at)?;
        if !place.is_dir() {
            self.make_in(&place, |place| DirBuilder::new().mode(0o755).create(place))?;
        }
        Ok(place)
    }

    /// A file inside, made if it is not there.
    fn file(&self, at: &Path) -> io::Result<PathBuf> {
        let place = self.parent(at)?;
        if fs::symlink_metadata(&place).is_err() {
            self.make_in(&place, |place| File::create_new(place).map(drop))?;
        }
        Ok(place)
    }

    /// Where something stands, with the folders above it made.
    fn parent(&self, at: &Path) -> io::Result<PathBuf> {
        let place = inside(at);
        let mut missing: Vec<&Path> = Vec::new();
        let mut above = place.parent();
        while let Some(folder) = above.filter(|folder| !folder.is_dir()) {
            missing.push(folder);
            above = folder.parent();
        }
        for folder in missing.into_iter().rev() {
            self.make_in(folder, |folder| DirBuilder::new().mode(0o755).create(folder))?;
        }
        Ok(place)
    }

    /// Makes something, but never in a file system of the machine.
    fn make_in(&self, place: &Path, make: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        let above = place.parent().unwrap_or(place);
        if !self.ours.contains(&device(above)?) {
            return Err(io::Error::other("it would have to be made in a folder of the machine"));
        }
        make(place)
    }
}

/// Folders that any user of the machine may write.
fn is_shared(at: &Path) -> bool {
    ["/tmp", "/var/tmp"].iter().any(|place| at == Path::new(place))
}

fn name_place(at: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!("{} cannot be laid: {error}", at.display()))
}

fn inside(at: &Path) -> PathBuf {
    below(NEW, at)
}

fn outside(at: &Path) -> PathBuf {
    below(OLD, at)
}

fn below(top: &str, at: &Path) -> PathBuf {
    Path::new(top).join(at.strip_prefix("/").unwrap_or(at))
}

fn device(at: &Path) -> io::Result<u64> {
    Ok(fs::symlink_metadata(at)?.dev())
}

fn change(at: &str, flags: MsFlags) -> io::Result<()> {
    Ok(mount(None::<&str>, at, None::<&str>, flags, None::<&str>)?)
}

fn memory(at: &Path, options: &str) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    Ok(mount(Some("tmpfs"), at, Some("tmpfs"), flags, Some(options))?)
}

fn bind(from: &Path, to: &Path) -> io::Result<()> {
    Ok(mount(Some(from), to, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)?)
}

fn remount(at: &Path, flags: MsFlags) -> io::Result<()> {
    let flags = flags | MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    Ok(mount(None::<&str>, at, None::<&str>, flags, None::<&str>)?)
}

/// Closes everything that cannot be written, and what is mounted in it.
fn close(mounts: &Mounts) -> io::Result<()> {
    let table = fs::read(Path::new(OLD).join("proc/self/mountinfo"))?;
    let rows = table.split(|byte| *byte == b'\n').filter_map(parse_row);
    for (place, flags) in rows {
        let Ok(at) = place.strip_prefix(NEW) else { continue };
        let at = Path::new("/").join(at);
        if !is_open(&at, mounts) {
            match remount(&place, flags) {
                // Somebody else's file system that we may not look at is not for what is inside either.
                Err(error)
                    if error.kind() == io::ErrorKind::PermissionDenied && !mounts.0.contains_key(&at) => {}
                closed => closed.map_err(|error| name_place(&at, &error))?,
            }
        }
    }
    Ok(())
}

/// Whether what is mounted there can be written.
fn is_open(at: &Path, mounts: &Mounts) -> bool {
    if at.starts_with("/proc") {
        return at == Path::new("/proc");
    }
    if at.starts_with("/dev") {
        return ["/dev/shm", "/dev/pts"].iter().any(|place| at == Path::new(place)) || is_device(at);
    }
    mounts.holding(at).is_some_and(|(_, mount)| mount.is_writable())
}

fn is_device(at: &Path) -> bool {
    at.file_name().is_some_and(|name| DEVICES.iter().any(|device| name == OsStr::new(device)))
}

/// A row of the table of mounts: where, and with which flags.
fn parse_row(row: &[u8]) -> Option<(PathBuf, MsFlags)> {
    let mut words = row.split(|byte| *byte == b' ').skip(4);
    let (place, options) = (words.next()?, words.next()?);
    let flag = |word: &[u8]| match word {
        b"nosuid" => MsFlags::MS_NOSUID,
        b"nodev" => MsFlags::MS_NODEV,
        b"noexec" => MsFlags::MS_NOEXEC,
        b"noatime" => MsFlags::MS_NOATIME,
        b"nodiratime" => MsFlags::MS_NODIRATIME,
        b"relatime" => MsFlags::MS_RELATIME,
        _ => MsFlags::empty(),
    };
    let flags = options.split(|byte| *byte == b',').map(flag).collect();
    Some((PathBuf::from(OsString::from_vec(plain(place))), flags))
}

/// A path without the escapes of the table: a backslash and three octal digits.
fn plain(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let digits = text.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| text[at] == b'\\') {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(text[at]);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_table_of_mounts_are_read() {
        let row = br"36 35 98:0 / /new/a\040b rw,nosuid,noatime master:1 - ext4 /dev/root rw";
        let (place, flags) = parse_row(row).unwrap();
        assert_eq!(place, Path::new("/new/a b"));
        assert_eq!(flags, MsFlags::MS_NOSUID | MsFlags::MS_NOATIME);
        assert_eq!(parse_row(b""), None);
    }
}
