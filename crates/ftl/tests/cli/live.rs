//! A terminal: lines that fit, and the live view of `ftl watch`.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::campaigns::{GO, builds, repository, task};
use crate::runs::ASK;
use crate::support::{Dir, until};

/// A command whose standard output is a terminal, and what it has drawn so far.
pub(crate) struct Terminal {
    master: OwnedFd,
    child: Child,
    drawn: Arc<Mutex<Vec<u8>>>,
}

fn size(width: u16, height: u16) -> Winsize {
    Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Terminal {
    pub(crate) fn start(dir: &Dir, args: &[&str], size: (u16, u16)) -> Terminal {
        Terminal::open(dir, args, size, false)
    }

    /// The same with standard input too: somebody types.
    pub(crate) fn typing(dir: &Dir, args: &[&str]) -> Terminal {
        Terminal::open(dir, args, (100, 40), true)
    }

    /// Types a line.
    pub(crate) fn enter(&self, line: &str) {
        self.send(&format!("{line}\n"));
    }

    /// Types these letters.
    pub(crate) fn send(&self, letters: &str) {
        let bytes = letters.as_bytes();
        assert_eq!(rustix::io::write(&self.master, bytes).unwrap(), bytes.len());
    }

    fn open(dir: &Dir, args: &[&str], size: (u16, u16), types: bool) -> Terminal {
        Terminal::on(dir.command(args), size, types)
    }

    /// A command at a terminal that is its controlling one: `setsid --ctty` takes the one at its standard input.
    pub(crate) fn controlling(command: &Command) -> Terminal {
        let mut alone = Command::new("setsid");
        alone.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        alone.current_dir(command.get_current_dir().unwrap());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => alone.env(name, value),
                None => alone.env_remove(name),
            };
        }
        Terminal::on(alone, (100, 40), true)
    }

    fn on(mut command: Command, (width, height): (u16, u16), types: bool) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, size(width, height)).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave =
            rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        if types {
            command.stdin(slave.try_clone().unwrap());
        }
        command.env("TERM", "xterm-256color").stdout(slave).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        // Only the child holds the other end now: when it is gone, reading ends.
        drop(command);
        let drawn = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, kept) = (File::from(master.try_clone().unwrap()), drawn.clone());
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut piece) {
                kept.lock().unwrap().extend_from_slice(&piece[..read]);
            }
        });
        Terminal { master, child, drawn }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.drawn.lock().unwrap()).into_owned()
    }

    /// The lines of the last picture, without colours.
    pub(crate) fn picture(&self) -> Vec<String> {
        let text = self.text();
        let last = text.rsplit("\u{1b}[?2026h").next().unwrap_or_default();
        let last = last.split("\u{1b}[?2026l").next().unwrap_or_default();
        plain(last).lines().map(str::to_owned).collect()
    }

    pub(crate) fn ended(mut self) -> (i32, String) {
        let mut code = None;
        until("the command has ended", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        // What it wrote last may still be on its way.
        until("all of it was read", || Arc::strong_count(&self.drawn) == 1);
        (code.unwrap().code().unwrap(), self.text())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A text without escape sequences.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\u{1b}' {
            out.push(letter);
            continue;
        }
        // `[`, parameters, and one letter that ends it.
        letters.next();
        letters.find(|one| one.is_ascii_alphabetic());
    }
    out.replace('\r', "")
}

fn asking(title: &str) -> (Dir, String) {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let (run, _) = dir.run(&["ask", &format!("objective={title}")]);
    (dir, run)
}

#[test]
fn lines_fit_the_terminal_and_commands_stay_whole() {
    let (dir, run) = asking(&"a title that goes on and on, ".repeat(9));
    for width in [60, 80, 200] {
        for args in [&["status"][..], &["why", &run], &["config"]] {
            let (code, text) = Terminal::start(&dir, args, (width, 30)).ended();
            assert_eq!(code, 0);
            for line in plain(&text).lines() {
                assert!(line.chars().count() <= usize::from(width), "{width} {args:?}: {line}");
            }
            if args[0] != "config" {
                assert!(plain(&text).contains(&format!("ftl answer {run} VALUE")), "{text}");
            }
        }
    }
}

#[test]
fn the_view_is_drawn_in_place_and_ends_with_its_run() {
    let (dir, run) = asking("fix it");
    let terminal = Terminal::start(&dir, &["watch", &run], (80, 30));
    until("the run is drawn", || terminal.picture().iter().any(|line| line.contains("asks in START: Good?")));
    let text = terminal.text();
    assert!(text.starts_with("\u{1b}[?1049h"), "it draws on the other screen: {text:?}");
    let picture = terminal.picture();
    assert!(
        picture.iter().any(|line| line.contains("rounds  ") && line.contains("█") && line.ends_with("1/3")),
        "{picture:#?}"
    );
    assert!(picture.iter().any(|line| line.contains("asked question")), "{picture:#?}");
    dir.ftl(&["answer", &run, "no"]).code(0);
    until("the change is drawn", || terminal.picture().iter().any(|line| line.ends_with("2/3")));
    dir.ftl(&["answer", &run, "yes"]).code(0);
    let (code, text) = terminal.ended();
    assert_eq!(code, 0);
    let (_, after) = text.rsplit_once("\u{1b}[?1049l").unwrap();
    assert!(plain(after).contains("complete"), "the last picture stays: {after:?}");
    assert!(text.contains("\u{1b}[?25h") && text.contains("\u{1b}[?7h"), "the terminal is as it was");
}

#[test]
fn the_view_follows_the_size_of_the_terminal() {
    let (dir, _) = asking("a long title that does not fit into a narrow terminal");
    for title in ["two", "three", "four", "five", "six"] {
        dir.run(&["ask", &format!("objective={title}")]);
    }
    let terminal = Terminal::start(&dir, &["watch"], (100, 60));
    until("all is drawn", || {
        terminal.picture().iter().filter(|line| line.contains("asks in START")).count() == 6
    });
    for (width, height) in [(40, 10), (20, 4), (100, 60), (10, 2)] {
        tcsetwinsize(&terminal.master, size(width, height)).unwrap();
        let (width, height) = (usize::from(width), usize::from(height));
        until("the picture fits", || {
            let picture = terminal.picture();
            let fits = picture.iter().all(|line| line.chars().count() < width) && picture.len() <= height;
            fits && !picture.is_empty() && (height < 60 || picture.len() > 20)
        });
    }
    terminal.signal(Signal::INT);
    let (code, text) = terminal.ended();
    assert_eq!(code, 130);
    assert!(text.contains("\u{1b}[?1049l"), "the terminal is as it was");
}

#[test]
fn nothing_is_drawn_when_nothing_changes_but_the_clock() {
    let (dir, run) = asking("x");
    let terminal = Terminal::start(&dir, &["watch", &run], (80, 30));
    until("the run is drawn", || !terminal.picture().is_empty() && terminal.text().contains("Good?"));
    let pictures = || terminal.text().matches("\u{1b}[?2026h").count();
    let (before, began) = (pictures(), std::time::Instant::now());
    until("some pictures were drawn", || pictures() >= before + 3);
    assert!(began.elapsed() >= std::time::Duration::from_millis(1500), "one a second, and no more");
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.ended().0, 130);
}

#[test]
fn a_terminal_that_cannot_draw_gets_lines() {
    let (dir, run) = asking("x");
    dir.ftl(&["answer", &run, "yes"]).code(0);
    let mut command = dir.command(&["watch", &run]);
    command.env("TERM", "dumb");
    let ended = crate::support::ended(command).code(0);
    assert_eq!(ended.out.lines().count(), dir.entries(&run).len());
    let (code, text) = Terminal::start(&dir, &["watch", &run, "--json"], (80, 30)).ended();
    assert_eq!((code, text.contains('\u{1b}')), (0, false), "JSON is JSON on a terminal too");
}

#[test]
fn watching_a_flow_on_a_terminal_is_its_board() {
    let tasks = [task("001", "slow", "a.txt", &[]), task("002", "after", "b.txt", &["001"])];
    let waits = "[[scene]]\nrole = \"builder\"\nform = \"implement\"\ntold = \"001-slow\"\n[[scene.step]]\n\
        until = \"../../../meet\"\ncalls = [{ tool = \"write\", path = \"a.txt\", content = \"done\\n\" }]\n\
        [[scene.step]]\nsubmit = { summary = \"written\", utilized = [] }\n";
    let dir = repository(&tasks, &[waits.to_owned(), builds("002-after", "b.txt", "done", "true")]);
    let driving = dir.start(&GO);
    let mut run = String::new();
    until("there is a run", || {
        run = dir.ftl(&["status", "--json"]).json()["runs"][0]["run"].as_str().unwrap_or_default().to_owned();
        !run.is_empty()
    });
    let one = Terminal::start(&dir, &["watch", &run], (90, 20));
    let all = Terminal::start(&dir, &["watch"], (60, 12));
    let shows = |terminal: &Terminal, words: &[&str]| {
        let picture = terminal.picture().join("\n");
        words.iter().all(|word| picture.contains(word))
    };
    for terminal in [&one, &all] {
        until("the board is drawn", || {
            shows(terminal, &[&run, "▸ 001 slow", "IMPLEMENT", "·   002 after", "waits for 001", "1 at work"])
        });
    }
    dir.write("meet", "");
    driving.ended().code(0);
    let (code, text) = one.ended();
    assert_eq!(code, 0);
    let (_, after) = text.rsplit_once("\u{1b}[?1049l").unwrap();
    let after = plain(after);
    for wanted in ["✓ 001 slow", "✓   002 after", "landed     2 of 2 tasks", "spent  ", "next  "] {
        assert!(after.contains(wanted), "{wanted}: {after}");
    }
    until("the last picture is drawn", || shows(&all, &["complete", "2 landed"]));
    all.signal(Signal::INT);
    assert_eq!(all.ended().0, 130);
    let piped = dir.ftl(&["watch", &run]).code(0).out;
    assert_eq!(piped.lines().count(), dir.entries(&run).len(), "a pipe gets a line for each entry");
}
