//! What programs do wrong: they hang, die, flood, lie, and ask without end.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ftl_agents::cli::{
    Adapter, Binding, CliBackend, Home, MAX_ASKS_IN_A_TURN, MAX_GARBAGE_LINES, MAX_HEARD_BYTES, MAX_LINGER,
    MAX_OPEN_CALLS,
};
use ftl_agents::contract::{AgentSession, Backend, PartKind, PromptPart, SessionHost, TurnRest};
use ftl_agents::error::AgentError;
use ftl_agents::launch::MAX_LINE_BYTES;
use ftl_agents::secrets::Secrets;
use ftl_agents::timing::{RealTime, Timing};
use ftl_testkit::speakers::{Act, RecordingHost, allowance, host, order};
use serde_json::json;

use super::stage::{PLAIN, backend, plain, script};

/// What a turn that is over looks like.
const OVER: &str = r#"echo '{"kind":"over","fine":true,"last":"done"}'"#;

/// A folder with a program that is a script of the shell.
struct Bad {
    folder: tempfile::TempDir,
    clerk: Arc<RecordingHost>,
}

impl Bad {
    fn new(script: &str) -> Bad {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Bad { folder, clerk: Arc::new(RecordingHost::new(&allowance(9999))) }
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn cli(&self, adapter: Adapter) -> CliBackend {
        backend(adapter, &self.folder.path().join("program"), self.folder.path(), &[])
    }

    fn open(&self, cli: &CliBackend) -> Box<dyn AgentSession> {
        let order = order(&self.work(), &allowance(9999));
        cli.open(order, host(&self.clerk)).unwrap_or_else(|trouble| panic!("{trouble}"))
    }

    fn turn(&self, adapter: Adapter) -> Result<TurnRest, AgentError> {
        let cli = self.cli(adapter);
        let mut session = self.open(&cli);
        let rest = session.turn(&words());
        session.close();
        rest
    }
}

fn words() -> [PromptPart; 1] {
    [PromptPart::new(PartKind::Task, "Do it.")]
}

/// One turn of a script, as a line.
fn turn(script: &str) -> String {
    describe_rest(Bad::new(script).turn(plain()))
}

fn describe_rest(rest: Result<TurnRest, AgentError>) -> String {
    match rest {
        Ok(TurnRest::Said(text)) => format!("said {text}"),
        Ok(other) => format!("{other:?}"),
        Err(AgentError::Died(why)) => format!("died: {why}"),
        Err(AgentError::Bad(why)) => format!("bad: {why}"),
        Err(AgentError::TimedOut(why)) => format!("timed out: {why}"),
        Err(AgentError::CouldNotRun(why)) => format!("could not run: {why}"),
        Err(other) => format!("{other:?}"),
    }
}

fn holds(told: &str, wanted: &[&str]) {
    assert!(wanted.iter().all(|one| told.contains(one)), "{told}");
}

#[test]
fn the_stream_is_believed_and_the_exit_code_is_not() {
    holds(&turn(&format!("{OVER}; exit 7")), &["said done"]);
    holds(&turn("exit 0"), &["died: plain ended in the middle of a turn"]);
    holds(&turn("echo oops >&2; exit 3"), &["died:", "oops"]);
    holds(
        &turn(r#"echo '{"kind":"over","fine":false,"why":"no key"}'; exit 0"#),
        &["bad: plain failed: no key"],
    );
    holds(&turn(r#"echo '{"kind":"over"}'"#), &["bad: plain failed: it does not say why"]);
    holds(&turn(r#"echo '{"kind":"over","fine":true}'"#), &["bad: plain ended its turn and said nothing"]);
    holds(&turn(r#"echo '{"kind":"says","words":"half an ans'"#), &["died:"]);
    holds(&turn("exit 127"), &["could not run: plain cannot be started"]);
}

#[test]
fn half_lines_and_garbage_are_no_events() {
    holds(&turn(r#"printf '{"kind":"over","fine":true,"last":"done"'"#), &["died:"]);
    holds(&turn(r#"printf '{"kind":"over","fine":true,"last":"whole"}'"#), &["said whole"]);
    let garbage =
        |lines: usize| format!("i=0; while [ $i -lt {lines} ]; do echo 'no json'; i=$((i+1)); done; {OVER}");
    holds(
        &turn(&format!("printf '\\377\\376\\n[]\\n7\\n\\n'; {}", garbage(MAX_GARBAGE_LINES - 3))),
        &["said done"],
    );
    holds(&turn(&garbage(MAX_GARBAGE_LINES + 1)), &["bad: plain wrote more than", "lines that are no JSON"]);
}

#[test]
fn silence_and_talk_without_progress_have_an_end() {
    let began = Instant::now();
    holds(&turn("sleep 60"), &["timed out: plain said nothing for 600ms"]);
    let noise = Bad::new(r#"while :; do echo '{"kind":"noise"}'; sleep 0.05; done"#);
    let cli = noise.cli(plain());
    let mut order = order(&noise.work(), &allowance(9));
    order.limits.whole = Duration::from_millis(700);
    let rest = cli.open(order, host(&noise.clerk)).unwrap().turn(&words());
    holds(&describe_rest(rest), &["timed out: plain did not get on for 700ms"]);
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn floods_are_ended() {
    let long = format!("head -c {} /dev/zero | tr '\\0' x; echo; {OVER}", MAX_LINE_BYTES + 1);
    holds(&turn(&long), &["bad: plain: it wrote a line of more than"]);
    let line = format!("{{\"kind\":\"noise\",\"of\":\"{}\"}}", "x".repeat(60_000));
    let many = MAX_HEARD_BYTES / line.len() + 1;
    let flood = format!("yes '{line}' | head -n {many}; {OVER}");
    holds(&turn(&flood), &["bad: plain", "wrote more than", "bytes"]);
    let says = format!("{{\"kind\":\"says\",\"words\":\"{}\"}}", "x".repeat(60_000));
    holds(&turn(&format!("yes '{says}'")), &["bad: plain", "bytes"]);
}

#[test]
fn calls_without_an_end_are_ended() {
    let one = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"ID","name":"Read","input":{}}]}}"#;
    let open = format!(
        "i=0; while [ $i -le {MAX_OPEN_CALLS} ]; do echo '{}'; i=$((i+1)); done; sleep 60",
        one.replace("ID", "'$i'")
    );
    holds(
        &describe_rest(Bad::new(&open).turn(Adapter::built_in("claude").unwrap())),
        &["bad: claude has more than"],
    );

    let storm = tempfile::tempdir().unwrap();
    let acts = storm.path().join("acts.json");
    let calls = vec![("read", json!({ "path": "/etc/hostname" })); MAX_ASKS_IN_A_TURN + 1];
    std::fs::write(&acts, script(&[Act { calls, ..Act::default() }]).to_string()).unwrap();
    let env = [("PLAYER_ACTS", acts.to_str().unwrap()), ("PLAYER_SPEECH", "control")];
    let player = Path::new(env!("CARGO_BIN_EXE_cli-player"));
    let cli = backend(Adapter::built_in("claude").unwrap(), player, storm.path(), &env);
    let bad = Bad::new("");
    let rest = bad.open(&cli).turn(&words());
    holds(&describe_rest(rest), &["bad: claude asked about more than"]);
    assert_eq!(bad.clerk.snapshot().denied.len(), MAX_ASKS_IN_A_TURN, "each of them was ruled on");
}

#[test]
fn a_name_of_a_call_is_not_believed() {
    let hook = |id: &str, path: &str| {
        format!(
            r#"echo '{{"type":"control_request","request_id":"q","request":{{"subtype":"can_use_tool","tool_name":"Write","input":{{"file_path":"{path}"}},"tool_use_id":"{id}"}}}}'; read reply; echo "$reply" >> replies"#
        )
    };
    let over =
        r#"echo '{"type":"result","is_error":false,"terminal_reason":"completed","result":"x"}'; read more"#;
    let asks =
        [hook("a", "src/x"), hook("a", "src/x"), hook("a", "other"), hook("", "src/y"), hook("", "other")];
    let bad = Bad::new(&format!("read a; read b; {}; {over}", asks.join("; ")));
    holds(&describe_rest(bad.turn(Adapter::built_in("claude").unwrap())), &["said x"]);
    let replies = std::fs::read_to_string(bad.work().join("replies")).unwrap();
    let words: Vec<&str> =
        replies.lines().map(|line| if line.contains("\"deny\"") { "deny" } else { "allow" }).collect();
    assert_eq!(words, ["allow", "allow", "deny", "allow", "deny"], "{replies}");
    let heard = bad.clerk.snapshot();
    assert_eq!((heard.made.len(), heard.denied.len()), (2, 2), "what was asked twice is counted once");
}

#[test]
fn questions_that_nobody_knows_are_refused_and_the_turn_goes_on() {
    let script = r#"
        read opening; read words
        echo '{"type":"control_request","request_id":"q","request":{"subtype":"make_coffee"}}'
        read reply
        case $reply in *'"subtype":"error"'*) said=refused;; *) said=odd;; esac
        echo '{"type":"result","is_error":false,"terminal_reason":"completed","result":"'$said'"}'
        read more"#;
    holds(&describe_rest(Bad::new(script).turn(Adapter::built_in("claude").unwrap())), &["said refused"]);
    // A result that only says `success` is none.
    let lies = r#"read a; read b; echo '{"type":"result","subtype":"success","is_error":true,"result":"401 no"}'; read c"#;
    holds(
        &describe_rest(Bad::new(lies).turn(Adapter::built_in("claude").unwrap())),
        &["bad: claude failed: 401 no"],
    );
}

#[test]
fn codex_is_asked_for_a_thread_first_and_errors_are_told() {
    let script = r#"
        read hello; echo '{"id":1,"result":{}}'; read initialized; read start
        echo '{"id":2,"error":{"code":-1,"message":"unexpected status 401: no"}}'; read more"#;
    let rest = describe_rest(Bad::new(script).turn(Adapter::built_in("codex").unwrap()));
    holds(&rest, &["could not run: codex failed: unexpected status 401"]);
    let script = r#"
        read hello; echo '{"id":1,"result":{}}'; read initialized; read start
        echo '{"id":2,"result":{"thread":{"id":"t"}}}'; read turn
        echo '{"method":"item/fileChange/requestApproval","id":0,"params":{"itemId":"never-told"}}'; read reply
        case $reply in '{"id":0,"result":{"decision":"decline"}}') said=declined;; *) said=$reply;; esac
        echo '{"method":"item/agentMessage/delta","params":{"delta":"'$said'"}}'
        echo '{"method":"turn/completed","params":{"turn":{"status":"completed"}}}'; read more"#;
    let rest = describe_rest(Bad::new(script).turn(Adapter::built_in("codex").unwrap()));
    assert_eq!(rest, "said declined", "a change of which nothing is known is not approved");
}

#[test]
fn a_session_that_cannot_be_taken_up_again_says_so() {
    let bad = Bad::new(OVER);
    let without = PLAIN.replace("resume = [\"--again\", \"{{session}}\"]\n", "");
    let cli = bad.cli(Adapter::parse(&without).unwrap());
    let mut session = bad.open(&cli);
    assert!(session.turn(&words()).is_ok());
    holds(
        &describe_rest(session.turn(&words())),
        &["died: plain has ended, and its session cannot be taken up again"],
    );
}

/// A clock that runs fast.
struct Hurried(Instant);

impl Timing for Hurried {
    fn now(&self) -> Duration {
        self.0.elapsed() * 20
    }

    fn pause(&self, _: Duration, host: &dyn SessionHost) -> bool {
        !host.is_cancelled()
    }

    fn throw(&self) -> u64 {
        7
    }
}

#[test]
fn a_program_that_does_not_go_home_is_sent_there() {
    let bad = Bad::new(&format!("{OVER}; sleep 600"));
    let binding = binding(&bad, Home::Private, &[]);
    let cli = CliBackend::new(binding, Arc::new(Secrets::new()), Arc::new(Hurried(Instant::now())));
    let mut order = order(&bad.work(), &allowance(9));
    order.limits.silence = MAX_LINGER * 10;
    let began = Instant::now();
    assert_eq!(describe_rest(cli.open(order, host(&bad.clerk)).unwrap().turn(&words())), "said done");
    assert!(began.elapsed() < MAX_LINGER);
}

fn binding(bad: &Bad, home: Home, env: &[(&str, &str)]) -> Binding {
    let own = bad.folder.path().join("own");
    std::fs::create_dir_all(&own).unwrap();
    let mut env: Vec<(String, std::ffi::OsString)> =
        env.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
    env.push(("PATH".into(), "/usr/bin:/bin".into()));
    env.push(("HOME".into(), own.into()));
    let text = format!("{PLAIN}\n[files]\n\".plain/config\" = \"model = '{{{{model}}}}'\"\n");
    Binding {
        name: "plain".into(),
        adapter: Arc::new(Adapter::parse(&text).unwrap()),
        program: Some(bad.folder.path().join("program")),
        home,
        model: Some("m".into()),
        env,
        values: Default::default(),
        rooms: bad.folder.path().join("rooms"),
    }
}

#[test]
fn the_environment_is_what_was_named_and_a_person_s_home_is_not_written_to() {
    let script = format!("env | sort > env.txt; cat $HOME/.plain/config > config.txt 2>/dev/null; {OVER}");
    let names = |home: Home| {
        let bad = Bad::new(&script);
        let cli = CliBackend::new(
            binding(&bad, home, &[("NAMED", "x")]),
            Arc::new(Secrets::new()),
            Arc::new(RealTime::new()),
        );
        let mut session = bad.open(&cli);
        session.turn(&words()).unwrap();
        session.close();
        let env = std::fs::read_to_string(bad.work().join("env.txt")).unwrap();
        let found: Vec<&str> =
            env.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
        assert_eq!(
            std::fs::read_dir(bad.folder.path().join("own")).unwrap().count(),
            0,
            "nothing is put there"
        );
        assert_eq!(
            std::fs::read_dir(bad.folder.path().join("rooms")).unwrap().count(),
            0,
            "the room is gone"
        );
        let own = env.lines().any(|line| line.starts_with("HOME=") && line.ends_with("/own"));
        (found.join(" "), own, std::fs::read_to_string(bad.work().join("config.txt")).unwrap_or_default())
    };
    // The shell itself adds PWD, and some of them SHLVL and `_`.
    let plain = |text: &str| {
        let ours = text.split(' ').filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
        ours.collect::<Vec<_>>().join(" ")
    };
    let (found, own, config) = names(Home::Private);
    assert_eq!(
        (plain(&found).as_str(), own, config.as_str()),
        ("HOME LANG NAMED PATH TERM TMPDIR", false, "model = 'm'")
    );
    let (found, own, config) = names(Home::Own);
    assert_eq!(
        (plain(&found).as_str(), own, config.as_str()),
        ("HOME LANG NAMED PATH TERM TMPDIR", true, "")
    );
}

#[test]
fn what_cannot_be_tried_is_told_with_what_to_do() {
    let bad = Bad::new(OVER);
    let mut wanting = binding(&bad, Home::Private, &[]);
    wanting.adapter = Arc::new(Adapter::built_in("claude").unwrap());
    let cli = CliBackend::new(wanting.clone(), Arc::new(Secrets::new()), Arc::new(Hurried(Instant::now())));
    let order = order(&bad.work(), &allowance(9));
    let opened = cli.open(order.clone(), host(&bad.clerk)).err().unwrap().to_string();
    holds(&opened, &["ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN", "home = \"own\""]);
    wanting.program = Some("/nowhere/claude".into());
    let cli = CliBackend::new(wanting, Arc::new(Secrets::new()), Arc::new(Hurried(Instant::now())));
    holds(&cli.probe().usable.unwrap_err().0, &["there is no program claude", "set `program`"]);
    let mut gone = binding(&bad, Home::Private, &[]);
    gone.program = Some("/nowhere/plain".into());
    let cli = CliBackend::new(gone, Arc::new(Secrets::new()), Arc::new(Hurried(Instant::now())));
    let rest = cli.open(order.clone(), host(&bad.clerk)).unwrap().turn(&words());
    holds(&describe_rest(rest), &["could not run:", "/nowhere/plain"]);
    let none = ftl_agents::contract::SessionOrder { launcher: None, ..order };
    holds(&cli.open(none, host(&bad.clerk)).err().unwrap().to_string(), &["no program may be started here"]);
}

#[test]
fn a_version_is_what_the_program_says() {
    let bad = Bad::new("echo \"player 1.2.3 $1\"");
    let cli = bad.cli(plain());
    assert_eq!(cli.version(&ftl_testkit::speakers::Bare, &bad.work()), Ok("player 1.2.3 --version".into()));
    assert_eq!((cli.name(), cli.probe().usable), ("plain", Ok(())));
}
