//! Power cuts: a campaign works on a disk of its own, a file that is mounted in a namespace of its own. At some
//! moment everything is killed and the disk is copied as it is: what was only in memory is not in the copy. What
//! was told before must be there, and the run goes on to the same end.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use ftl_needs::needs;
use serde_json::Value as Json;
use tempfile::TempDir;

use crate::stage::{LOOK, ProcessOutcome, Running, scale};

/// How large a disk is.
const DISK_BYTES: u64 = 96 * 1024 * 1024;

/// About how much the demo has to tell.
const NEWS: u64 = 36;

/// What the demo comes to.
const LANDED: [&str; 6] = ["001", "003", "004", "002", "005", "006"];

/// A disk in a file, mounted for whoever enters its namespace.
struct Disk {
    holder: Child,
    _holds: ChildStdin,
    mount: PathBuf,
}

impl Disk {
    /// Mounts a disk, as after a start of the machine. Nothing is written to it but what somebody syncs: its log
    /// waits longer than we do.
    fn mount(image: &Path, mount: &Path) -> Disk {
        let script = "mount -o loop,commit=600 -- \"$1\" \"$2\" && \
            mount --bind -- \"$3\" /proc/sys/kernel/random/boot_id && echo ready && read -r _";
        let boot = image.with_extension("boot");
        fs::write(&boot, format!("started-with-{}\n", image.file_name().unwrap().to_string_lossy())).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
        command.arg(image).arg(mount).arg(&boot);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut holder = command.spawn().unwrap();
        let (holds, said) = (holder.stdin.take().unwrap(), holder.stdout.take().unwrap());
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line).unwrap();
        let disk = Disk { holder, _holds: holds, mount: mount.to_owned() };
        assert_eq!(line, "ready\n", "no disk can be mounted here");
        disk
    }

    /// A program that sees the disk.
    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("--target").arg(self.holder.id().to_string()).arg("--mount");
        command.args(["sh", "-c", "cd -- \"$1\" && shift && exec \"$@\"", "sh"]).arg(self.folder());
        command.arg(program).args(args).stdin(Stdio::null());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", &self.mount);
        command
    }

    fn ftl(&self, args: &[&str]) -> ProcessOutcome {
        Running::start(self.command(env!("CARGO_BIN_EXE_ftl"), args)).end()
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        let out = self.command(program, args).output().unwrap();
        assert!(out.status.success(), "{program} {args:?}: {out:?}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Where the demo works, or the disk itself as long as there is none.
    fn folder(&self) -> PathBuf {
        let seen = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        let till = self.mount.join("till");
        let is_there = seen.join(till.strip_prefix("/").unwrap()).is_dir();
        if is_there { till } else { self.mount.clone() }
    }

    /// Waits until nobody else is in the namespace.
    fn is_left(&self) {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let (own, mine) = (self.holder.id().to_string(), namespace(&self.holder.id().to_string()));
        let began = Instant::now();
        loop {
            let all = fs::read_dir("/proc").unwrap().flatten();
            let mut others = all.filter_map(|entry| entry.file_name().into_string().ok());
            if !others.any(|pid| pid != own && pid.parse::<u32>().is_ok() && namespace(&pid) == mine) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "somebody stays");
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The tasks that news tell as landed.
fn landed(news: &[Json]) -> BTreeSet<String> {
    let is_landed = |one: &&Json| one["text"].as_str().is_some_and(|text| text.starts_with("landed "));
    let seq = |one: &Json| one["task"].as_str().unwrap().split(' ').next().unwrap().to_owned();
    news.iter().filter(is_landed).map(seq).collect()
}

/// Runs the demo until so much was told, then cuts the power; what was told, and the disk as it is then.
fn cut(place: &Path, after: u64) -> (Vec<Json>, PathBuf) {
    let (image, copy, mount) = (place.join("disk"), place.join("copy"), place.join("mount"));
    fs::create_dir(&mount).unwrap();
    fs::File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).output();
    assert!(made.is_ok_and(|made| made.status.success()), "mkfs.ext4 cannot be run");
    let disk = Disk::mount(&image, &mount);
    let till = mount.join("till");
    let mut demo =
        disk.command(env!("CARGO_BIN_EXE_ftl"), &["demo", "--dir", till.to_str().unwrap(), "--json"]);
    let mut demo = demo.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = Vec::new();
    for line in BufReader::new(demo.stderr.take().unwrap()).lines() {
        let Ok(event) = serde_json::from_str(&line.unwrap()) else { continue };
        told.push(event);
        if told.len() == 1 {
            // The person's own repository is older than the run.
            disk.run("sync", &["-f", "."]);
        }
        if told.len() as u64 >= after {
            break;
        }
    }
    demo.kill().unwrap();
    demo.wait().unwrap();
    disk.is_left();
    fs::copy(&image, &copy).unwrap();
    (told, copy)
}

#[needs(disks)]
#[test]
fn what_a_campaign_told_survives_a_power_cut_and_it_goes_on() {
    let cuts = scale("FTL_CUTS", 4);
    for after in (0..cuts).map(|cut| 2 + cut * NEWS / cuts) {
        let place = TempDir::new().unwrap();
        let (told, copy) = cut(place.path(), after);
        let disk = Disk::mount(&copy, &place.path().join("mount"));
        let runs = disk.ftl(&["status", "--all", "--json"]).code(0).json();
        let run = runs["runs"][0]["run"].as_str().unwrap().to_owned();
        // Before anything was built there is no branch, and nothing was told to be on it.
        let branch = disk.run("git", &["log", "--format=%s", &format!("--glob=refs/heads/ftl/{run}*")]);
        let on_branch = branch.lines().count().saturating_sub(1);
        let told = landed(&told);
        assert!(on_branch >= told.len(), "told {told:?}, but after {after} news there is only {branch}");
        let done = disk.ftl(&["resume", &run, "--json"]).code(0).json();
        let rows = done["report"]["landed"].as_array().unwrap().iter();
        assert_eq!(rows.map(|row| row["seq"].as_str().unwrap()).collect::<Vec<_>>(), LANDED, "after {after}");
        let subjects = disk.run("git", &["log", "--format=%s"]);
        let different: BTreeSet<&str> = subjects.lines().collect();
        assert_eq!((subjects.lines().count(), different.len()), (7, 7), "no task twice: {subjects}");
        assert_eq!(disk.run("git", &["status", "--porcelain"]), "");
        disk.run("git", &["fsck", "--full", "--strict"]);
        disk.run("tests/run", &[]);
    }
}
