//! `ftl demo`: a whole campaign on a small program, offline.
//!
//! Only the words of the agents are played from a script. The repository, the worktrees, the edits, the tests,
//! the gates, the lessons and the commits are real. It writes into a folder of its own and nowhere else, and
//! it reads no person's git configuration.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Parser as _;
use ftl_command::records::open;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, orders, session};
use ftl_core::json::{Json, JsonExt as _};
use ftl_folder::id::RunId;
use ftl_git::Person;
use ftl_memory::StoredKind;
use ftl_records::lessons::now;
use ftl_view::paint::{self, paint, safe};

use super::init::on_path;
use super::{flow, serve};
use crate::cli::{self, Campaign, Cli, Demo, Serve};

/// What the campaign is to reach.
const OBJECTIVE: &str = "make the till work";

/// The program, file by file; whether each can be run.
const FILES: [(&str, &str, bool); 16] = [
    ("README.md", include_str!("../../demo/till/README.md"), false),
    ("till", include_str!("../../demo/till/till"), true),
    ("examples/monday.list", include_str!("../../demo/till/examples/monday.list"), false),
    ("lib/money.sh", include_str!("../../demo/till/lib/money.sh"), false),
    ("lib/cart.sh", include_str!("../../demo/till/lib/cart.sh"), false),
    ("lib/discount.sh", include_str!("../../demo/till/lib/discount.sh"), false),
    ("lib/tax.sh", include_str!("../../demo/till/lib/tax.sh"), false),
    ("lib/receipt.sh", include_str!("../../demo/till/lib/receipt.sh"), false),
    ("tests/run", include_str!("../../demo/till/tests/run"), true),
    ("tests/money_test.sh", include_str!("../../demo/till/tests/money_test.sh"), false),
    ("tests/cart_test.sh", include_str!("../../demo/till/tests/cart_test.sh"), false),
    ("tests/discount_test.sh", include_str!("../../demo/till/tests/discount_test.sh"), false),
    ("tests/tax_test.sh", include_str!("../../demo/till/tests/tax_test.sh"), false),
    ("tests/receipt_test.sh", include_str!("../../demo/till/tests/receipt_test.sh"), false),
    ("tests/till_test.sh", include_str!("../../demo/till/tests/till_test.sh"), false),
    (".gitignore", "*.log\n", false),
];

/// What is not part of the program: who the agents are, what they say, and a lesson from an earlier campaign.
const SETTINGS: &str = include_str!("../../demo/config.toml");
const SCRIPT: &str = include_str!("../../demo/script.toml");
const LESSON: &str = include_str!("../../demo/lesson.json");

/// How long each step of an agent takes where a person watches on the page.
const STEP: &str = "1500ms";

/// Makes the repository and runs the campaign in it.
pub(crate) fn run(cli: &GlobalArgs, asked: &Demo, out: &Out) -> Result<ExitStatus, CommandError> {
    let folder = folder(asked.dir.as_deref())?;
    lay_out(&folder, asked.serve).map_err(|error| {
        let message = format!("the demo cannot be written to `{}`: {error}", folder.display());
        CommandError::new(message, "name another folder with --dir")
    })?;
    commit(&folder)?;
    let mut words: Vec<String> =
        ["ftl", "campaign", "run", OBJECTIVE, "--land", "ff"].map(str::to_owned).to_vec();
    words.extend([String::from("--repo"), folder.display().to_string()]);
    words.extend(cli.json.then(|| String::from("--json")));
    words.extend(cli.by.iter().flat_map(|by| [String::from("--by"), by.clone()]));
    let inner = Cli::try_parse_from(words).map_err(|error| {
        CommandError::new(format!("the demo cannot be begun: {error}"), "please report this")
    })?;
    let lesson = Json::parse(LESSON)
        .map_err(|error| CommandError::new(format!("the demo's lesson is {error}"), "please report this"))?;
    let learned = open(&inner.global)?.learn(|lessons| lessons.learn(StoredKind::Failure, lesson, &now()));
    learned.map_err(|error| CommandError::new(error.to_string(), "run `ftl doctor`"))?;
    tell(out, &before(&folder))?;
    if asked.serve {
        return on_the_page(&inner.global, out);
    }
    let cli::Subcommands::Campaign(group) = &inner.command else {
        return Err(CommandError::new("the demo cannot be begun", "please report this"));
    };
    let Some(Campaign::Run(flow)) = &group.verb else {
        return Err(CommandError::new("the demo cannot be begun", "please report this"));
    };
    let exit = flow::campaign(&inner.global, flow, out)?;
    tell(out, &after(&folder))?;
    Ok(exit)
}

/// Serves the page of the demo while its campaign runs in a process of its own.
fn on_the_page(cli: &GlobalArgs, out: &Out) -> Result<ExitStatus, CommandError> {
    let session = session::open(cli)?;
    let by = session::speaker(cli, session.place())?;
    let words = ["campaign", "run", OBJECTIVE, "--land", "ff", "--json"].map(String::from);
    let speaker = orders::Speaker { name: &by, face: "demo" };
    orders::wait_beside(orders::detached(&session, &words, Stdio::null(), speaker)?);
    drop(session);
    serve::run(cli, &Serve { port: 0, open: true, look: false }, out)
}

fn tell(out: &Out, text: &str) -> Result<(), CommandError> {
    if out.is_json() {
        out.beside(text);
        return Ok(());
    }
    out.text(text)
}

/// The folder: an empty one that was named, or a new one beside other things that may go away.
fn folder(named: Option<&Path>) -> Result<PathBuf, CommandError> {
    let folder = match named {
        Some(folder) => folder.to_owned(),
        None => {
            let id = RunId::random()
                .map_err(|error| CommandError::new(error.to_string(), "name one with --dir"))?;
            std::env::temp_dir().join(format!("ftl-demo-{id}"))
        }
    };
    let is_used = fs::read_dir(&folder).is_ok_and(|mut inside| inside.next().is_some());
    if is_used || folder.is_file() {
        let message = format!("`{}` is not empty", folder.display());
        return Err(CommandError::usage(message, "name a folder that is empty or not there"));
    }
    let cannot = |error: std::io::Error| {
        let message = format!("`{}` cannot be made: {error}", folder.display());
        CommandError::new(message, "name another folder with --dir")
    };
    fs::create_dir_all(&folder).map_err(cannot)?;
    folder.canonicalize().map_err(cannot)
}

fn lay_out(folder: &Path, is_watched: bool) -> std::io::Result<()> {
    // A person who watches wants to see each step.
    let slow = SCRIPT.replace("[[scene.step]]", &format!("[[scene.step]]\ndelay = \"{STEP}\""));
    let script = if is_watched { slow.as_str() } else { SCRIPT };
    let settings = [(".ftl/config.toml", SETTINGS, false), (".ftl/demo.toml", script, false)];
    for (path, text, can_run) in FILES.iter().chain(&settings) {
        let file = folder.join(path);
        if let Some(above) = file.parent() {
            fs::create_dir_all(above)?;
        }
        fs::write(&file, text)?;
        let mode = if *can_run { 0o755 } else { 0o644 };
        fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// A first commit of the program, in the name of the demo and under no user's settings. What is ours stays out of it,
/// as `ftl` itself keeps it out later.
fn commit(folder: &Path) -> Result<(), CommandError> {
    let person = Person { name: String::from("ftl demo"), email: String::from("demo@localhost") };
    ftl_git::make_repository(folder, &person, "/.ftl/\n", "A till that is not written yet")
        .map_err(|error| no_git(&error.to_string()))
}

fn no_git(why: &str) -> CommandError {
    CommandError::new(
        format!("git did not make the demo's repository: {}", why.trim()),
        "install git, 2.38 or newer",
    )
}

/// What the tests of the program say now: how many pass, of how many.
fn tests(folder: &Path) -> Option<(usize, usize)> {
    let mut run = Command::new(folder.join("tests/run"));
    run.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    let out = run.current_dir(folder).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let count = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
    let (passed, failed) = (count("ok "), count("not ok "));
    Some((passed, passed + failed))
}

fn before(folder: &Path) -> String {
    let place = paint(paint::STRONG, safe(&folder.display().to_string()));
    let tests =
        tests(folder).map_or(String::new(), |(passed, all)| format!(": {passed} of {all} tests pass"));
    format!("a small program is in {place}{tests}\nagents are played from a script; all else is real\n\n")
}

fn after(folder: &Path) -> String {
    let place = safe(&folder.display().to_string());
    let tests =
        tests(folder).map_or(String::new(), |(passed, all)| format!("{passed} of {all} tests pass now. "));
    // A person who has not installed it yet would look for it in vain.
    let own = std::env::current_exe().ok().filter(|_| on_path("ftl").is_none());
    let ftl = own.map_or_else(|| String::from("ftl"), |path| safe(&path.display().to_string()));
    let (query, undo) = (format!("{ftl} memory query octal"), format!("{ftl} undo"));
    let try_it = ["git log --stat", "./till examples/monday.list", &query, &undo];
    let lines: String = try_it.iter().map(|words| format!("  {}\n", paint(paint::HINT, words))).collect();
    format!("\n{tests}Look around:\n  {}\n{lines}", paint(paint::HINT, format!("cd {place}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_of_the_program_are_in_the_binary() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/till");
        let mut found = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    folders.push(entry);
                } else {
                    let can_run = entry.metadata().unwrap().permissions().mode() & 0o111 != 0;
                    found.push((entry.strip_prefix(&root).unwrap().display().to_string(), can_run));
                }
            }
        }
        found.sort();
        let mut listed: Vec<(String, bool)> = FILES
            .iter()
            .filter(|(path, ..)| *path != ".gitignore")
            .map(|(path, _, run)| ((*path).to_owned(), *run))
            .collect();
        listed.sort();
        assert_eq!(found, listed);
    }

    #[test]
    fn a_folder_with_something_in_it_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mine"), "x").unwrap();
        let failure = super::folder(Some(folder.path())).unwrap_err();
        assert!(failure.message.contains("is not empty"), "{}", failure.message);
        assert_eq!(
            super::folder(Some(&folder.path().join("new"))).unwrap(),
            folder.path().canonicalize().unwrap().join("new")
        );
    }
}
