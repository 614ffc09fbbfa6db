//! "Can I work?": what `ftl init` writes about a repository, and what `ftl doctor` says is missing.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value as Json, json};

use crate::support::{Dir, ended};

/// What the doctor says about work: area, level and text of each finding; whether one can work.
#[track_caller]
fn work(dir: &Dir, more: &[&str], path: Option<&str>) -> (Vec<(String, String, String)>, bool) {
    let args: Vec<&str> = ["doctor", "--json"].iter().chain(more).copied().collect();
    let mut command = dir.command(&args);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let json = ended(command).code(0).json();
    let text = |one: &Json, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let rows = json["work"].as_array().unwrap().iter();
    let rows = rows.map(|one| {
        (text(one, "area"), text(one, "level"), format!("{} {}", text(one, "text"), text(one, "hint")))
    });
    (rows.collect(), json["ready"].as_bool().unwrap())
}

/// A finding of an area.
fn of<'a>(found: &'a [(String, String, String)], area: &str) -> (&'a str, &'a str) {
    let one = found.iter().find(|one| one.0 == area).unwrap_or_else(|| panic!("no {area} in {found:#?}"));
    (&one.1, &one.2)
}

const AGENT: &str =
    "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n[roles]\ndefault = \"play\"\n";

#[test]
fn a_doctor_says_what_is_missing_and_what_mends_it() {
    let dir = Dir::repository();
    let (found, ready) = work(&dir, &[], None);
    assert!(!ready);
    let (level, text) = of(&found, "repository");
    assert!(level == "look" && text.contains("has no commit") && text.contains("git commit"), "{text}");
    let (level, text) = of(&found, "agents");
    assert!(level == "look" && text.contains("ftl init"), "{text}");
    let (level, text) = of(&found, "tests");
    assert!(level == "look" && text.contains("tests = ["), "{text}");
    dir.write("check.sh", "exit 0\n").write("ftl.toml", "[worktree]\ntests = [\"sh check.sh\"]\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "first"]);
    dir.write(".ftl/config.toml", AGENT)
        .write(".ftl/play.toml", "[[scene]]\nrole = \"planner\"\n[[scene.step]]\nsubmit = {}\n");
    let (found, ready) = work(&dir, &[], None);
    assert!(ready, "{found:#?}");
    assert!(of(&found, "tests").1.contains("`sh check.sh` (worktree.tests)"), "{found:#?}");
    dir.ftl(&["doctor"]).code(0).says(&["ready to work", "all is well"]);
}

#[test]
fn a_deep_look_runs_the_tests_on_a_clean_checkout() {
    let dir = Dir::repository();
    dir.write("check.sh", "test -f greet.txt && touch made-by-test\n")
        .write("ftl.toml", "[worktree]\ntests = [\"sh check.sh\"]\n");
    dir.git(&["add", "-A"]);
    dir.git(&["commit", "-qm", "first"]);
    dir.write("greet.txt", "only here\n");
    let (found, ready) = work(&dir, &["--deep"], None);
    let (level, text) = of(&found, "base");
    assert!(level == "look" && text.contains("do not pass on a clean checkout of HEAD") && !ready, "{text}");
    dir.git(&["add", "greet.txt"]);
    dir.git(&["commit", "-qm", "second"]);
    let (found, _) = work(&dir, &["--deep"], None);
    assert_eq!(of(&found, "base").0, "fine", "{found:#?}");
    assert!(!dir.path("made-by-test").exists() && dir.git(&["worktree", "list"]).lines().count() == 1);
}

#[test]
fn an_agent_without_its_program_and_a_server_that_does_not_listen_are_told() {
    let dir = Dir::repository();
    dir.write(
        ".ftl/config.toml",
        "[agents.gone]\nkind = \"acp\"\nprogram = \"no-such-agent\"\n[agents.local]\nkind = \"model\"\ndialect = \"chat\"\n\
         url = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n[roles]\nplanner = \"gone\"\nbuilder = \"local\"\n",
    );
    let (found, _) = work(&dir, &[], None);
    let texts: Vec<&str> = found.iter().filter(|one| one.0 == "agents").map(|one| one.2.as_str()).collect();
    for wanted in [
        "there is no program `no-such-agent`",
        "nothing listens at http://127.0.0.1:1/v1",
        "nobody is bound to coder, architect",
    ] {
        assert!(texts.iter().any(|text| text.contains(wanted)), "{wanted}: {texts:#?}");
    }
}

#[test]
fn a_runner_that_cannot_collect_its_tests_is_told_by_what_is_missing() {
    let dir = Dir::repository();
    dir.write("pytest.ini", "[pytest]\n").write("shop.py", "");
    let python = dir.path("bin/python3");
    let says = |text: &str| {
        dir.write(
            "bin/python3",
            format!("#!/bin/sh\necho \"$@\" >> {}\necho \"{text}\"\nexit 2\n", dir.path("asked").display()),
        );
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", dir.path("bin").display(), std::env::var("PATH").unwrap());
        let (found, _) = work(&dir, &[], Some(&path));
        let (level, text) = of(&found, "tests");
        (level.to_owned(), text.to_owned())
    };
    let (level, text) = says("E   ModuleNotFoundError: No module named 'freezegun'");
    assert!(level == "look" && text.contains("there is no module `freezegun`"), "{text}");
    assert!(dir.read("asked").contains("-m pytest --collect-only"), "no test is run");
    let (level, text) = says("E   ModuleNotFoundError: No module named 'shop.cart'");
    assert_eq!(level, "fine", "red is what work is for: {text}");
}

#[test]
fn init_writes_the_tests_of_the_repository_and_finds_agents_of_the_client_protocol() {
    let dir = Dir::repository();
    dir.write(
        "package.json",
        r#"{"scripts":{"test":"jest","lint":"eslint ."},"devDependencies":{"jest":"1"}}"#,
    );
    dir.write("package-lock.json", "{}");
    for name in ["qwen", "gemini"] {
        dir.write(&format!("bin/{name}"), "#!/bin/sh\nexit 1\n");
        std::fs::set_permissions(dir.path(&format!("bin/{name}")), std::fs::Permissions::from_mode(0o755))
            .unwrap();
    }
    let mut command = dir.command(&["init", "--json"]);
    command.env("PATH", dir.path("bin"));
    let json = ended(command).code(0).json();
    assert_eq!(
        json["commands"],
        json!({ "setup": "npm ci", "build": null, "tests": ["npm run test"], "lints": ["npm run lint"] })
    );
    let names: Vec<&str> =
        json["found"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.contains(&"qwen") && names.contains(&"gemini"), "{names:?}");
    let shared = dir.read("ftl.toml");
    assert!(shared.contains("tests = [\"npm run test\"]    # found in package.json"), "{shared}");
    assert!(shared.contains("setup = \"npm ci\"    # found in package-lock.json"), "{shared}");
    assert!(dir.read(".ftl/config.toml").contains("[agents.gemini]\nkind = \"acp\""));
    let rows = dir.ftl(&["config", "--json"]).code(0).json();
    assert!(
        rows["settings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["key"] == "worktree.tests" && one["value"] == "npm run test")
    );
    let value = |key: &str| {
        let all = rows["settings"].as_array().unwrap().iter();
        all.filter(|one| one["key"] == key).map(|one| one["value"].clone()).next().unwrap()
    };
    let keys = ["builder.tools", "builder.repairs", "builder.plan_reads", "builder.direct"];
    assert_eq!(
        keys.map(value),
        [json!("40"), json!("2"), json!("12"), json!("never")],
        "budgets that fit agents"
    );
    assert_eq!(dir.git(&["status", "--porcelain", "--", ".ftl"]), "", "git does not see it");
}
