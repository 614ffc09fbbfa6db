//! Probes what this machine has for tests. Never changes anything outside of the build folder, but for an empty
//! `target/agents/bin`: cargo notices an agent that is installed later only in a folder that is there.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Agents that `tools/agents/install` installs.
const AGENTS: [&str; 9] =
    ["claude", "codex", "pi", "opencode", "goose", "claude-acp", "codex-acp", "qwen", "gemini"];

/// Programs that say their version.
const PROGRAMS: [&str; 6] = ["bash", "node", "php", "python3", "ruby", "rustfmt"];

/// A target without a system.
const NO_SYSTEM: &str = "wasm32-unknown-unknown";

/// How large the disk is that is mounted on trial.
const DISK_BYTES: u64 = 8 * 1024 * 1024;

/// What a test may need, and why it is missing; nothing where it is there.
type Need = (String, Option<String>);

fn main() {
    let scratch = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut needs: Vec<Need> = PROGRAMS.into_iter().map(program).collect();
    needs.push(("gofmt".into(), (!is_in_path("gofmt")).then(|| "gofmt is not installed".into())));
    let runs = |name: &str, program: &str, args: &[&str]| -> Need {
        (name.into(), (!works(program, args)).then(|| format!("{name} is not installed")))
    };
    needs.push(runs("pytest", "python3", &["-m", "pytest", "--version"]));
    needs.push(runs("go", "go", &["version"]));
    needs.extend(git(&scratch));
    needs.extend(system(&scratch));
    needs.extend(agents());
    needs.push(no_system());
    needs.push(browser());
    let rows: Vec<String> =
        needs.iter().map(|(name, why)| format!("{name}={}", why.as_deref().unwrap_or_default())).collect();
    println!("cargo::rustc-env=FTL_NEEDS={}", rows.join("|"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-env-changed=USER");
    // What is installed or removed later changes one of these folders.
    for folder in folders().filter(|folder| folder.is_dir()) {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
}

fn folders() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).filter(|folder| folder.is_absolute()).collect::<Vec<_>>().into_iter()
}

fn is_in_path(program: &str) -> bool {
    folders().any(|folder| folder.join(program).is_file())
}

/// Whether a command ends well.
fn works<A: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = A>) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn program(name: &str) -> Need {
    (name.into(), (!works(name, ["--version"])).then(|| format!("{name} is not installed")))
}

/// A browser, and what drives it: `tools/web/install` brings that below `target/web`.
fn browser() -> Need {
    let driver = Path::new("../../target/web/node_modules/playwright-core/package.json");
    println!("cargo::rerun-if-changed=../../target/web/package.json");
    let missing = match (is_in_path("chromium"), driver.is_file()) {
        (true, true) => (!works("node", ["--version"])).then(|| "node is not installed".into()),
        (false, _) => Some("chromium is not installed".into()),
        (true, false) => Some("playwright-core is not installed (`tools/web/install`)".into()),
    };
    ("chromium".into(), missing)
}

/// Formats of git that not every git knows.
fn git(scratch: &Path) -> [Need; 2] {
    let init = |name: &str, option: &str| {
        let folder = scratch.join(name);
        let is_there = works("git", [OsStr::new("init"), "-q".as_ref(), option.as_ref(), folder.as_os_str()]);
        (name.to_owned(), (!is_there).then(|| format!("this git does not know {option}")))
    };
    [init("sha256", "--object-format=sha256"), init("reftable", "--ref-format=reftable")]
}

/// What the kernel and its owner let us do.
fn system(scratch: &Path) -> [Need; 4] {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let has_namespaces = works("unshare", ["-Urpf", "--mount-proc", "true"]);
    let mount = scratch.join("mount");
    let has_mounts = fs::create_dir_all(&mount).is_ok()
        && works("unshare", ["-Urm", "mount", "-t", "tmpfs", "none", &mount.to_string_lossy()]);
    [
        ("root".into(), (!is_root).then(|| "only root can be two users".into())),
        (
            "namespaces".into(),
            (!has_namespaces).then(|| "`unshare -Urpf --mount-proc` does not work here".into()),
        ),
        ("mounts".into(), (!has_mounts).then(|| "`unshare -Urm mount` does not work here".into())),
        (
            "disks".into(),
            (!has_disks(scratch, &mount)).then(|| "no disk in a file can be made and mounted here".into()),
        ),
    ]
}

/// Whether a disk in a file can be mounted, and another machine start be shown to who sees it.
fn has_disks(scratch: &Path, mount: &Path) -> bool {
    let image = scratch.join("disk");
    let is_made = File::create(&image).is_ok_and(|file| file.set_len(DISK_BYTES).is_ok());
    let script = "mount -o loop -- \"$1\" \"$2\" && mount --bind -- \"$0\" /proc/sys/kernel/random/boot_id";
    let words = ["--mount", "--propagation", "private", "sh", "-c", script];
    let paths = [image.as_os_str(), image.as_os_str(), mount.as_os_str()];
    is_made
        && is_in_path("nsenter")
        && works("mkfs.ext4", [OsStr::new("-q"), "-F".as_ref(), image.as_os_str()])
        && works("unshare", words.iter().map(OsStr::new).chain(paths))
}

fn agents() -> Vec<Need> {
    println!("cargo::rerun-if-env-changed=FTL_AGENTS_DIR");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/agents");
    let bin = env::var_os("FTL_AGENTS_DIR").map_or(own, PathBuf::from).join("bin");
    // Where it cannot be made, nothing can be installed either.
    if fs::create_dir_all(&bin).is_ok() {
        println!("cargo::rerun-if-changed={}", bin.display());
    }
    let need = |name: &str| {
        let is_there = bin.join(name).exists();
        let why = format!("{name} is not installed; run tools/agents/install");
        (name.replace('-', "_"), (!is_there).then_some(why))
    };
    AGENTS.into_iter().map(need).collect()
}

/// The target without a system, as rustup installs it.
fn no_system() -> Need {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let told = Command::new(rustc).args(["--print", "sysroot"]).output();
    let sysroot =
        told.map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned()).unwrap_or_default();
    let below = Path::new(&sysroot).join("lib/rustlib");
    // rustup lists there what it has installed.
    let listed = below.join("components");
    if listed.is_file() {
        println!("cargo::rerun-if-changed={}", listed.display());
    }
    let is_there = below.join(NO_SYSTEM).join("lib").is_dir();
    ("wasm32".into(), (!is_there).then(|| format!("run `rustup target add {NO_SYSTEM}`")))
}
