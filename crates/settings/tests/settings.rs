//! Settings: defaults that cap, files that win, mistakes that are told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use ftl_core::run::Policy;
use ftl_core::value::Value;
use ftl_language::library::Library;
use ftl_settings::config::{Config, MAX_CONFIG_BYTES};
use ftl_settings::origin::Origin;

fn read(text: &str) -> Result<Config, String> {
    let mut config = Config::default();
    config.add(Path::new("c.toml"), text).map_err(|error| format!("{error} / {}", error.hint))?;
    Ok(config)
}

#[test]
fn every_built_in_meter_is_capped_before_anybody_writes_a_file() {
    let terms = Config::default().terms(&Library::built_in());
    for meter in ["tokens", "money", "time", "turns"] {
        assert!(terms.limits[meter] > 0 && terms.reserve[meter] > 0, "{meter}");
        assert!(terms.reserve[meter] <= terms.limits[meter], "{meter}");
    }
    assert!(Config::default().command_limits().hard.is_some());
    assert_eq!(Config::default().agent_limits().startup, Some(Duration::from_secs(60)));
}

#[test]
fn later_files_win_and_values_remember_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one.toml"), folder.path().join("two.toml"));
    fs::write(&one, "[limits]\ntokens = \"1M\"\nmoney = 3.5\n[width]\nagents = 2\n").unwrap();
    fs::write(&two, "[limits]\ntokens = 500_000\ntime = \"none\"\n").unwrap();
    let config = Config::load(&[one.clone(), two.clone(), folder.path().join("none.toml")]).unwrap();
    let terms = config.terms(&Library::built_in());
    assert_eq!((terms.limits["tokens"], terms.limits["money"]), (500_000, 3_500_000));
    assert!(!terms.limits.contains_key("time"), "`none` switches a limit off");
    assert_eq!(config.width().agents, 2);
    let origin = |key: &str| config.list_all().into_iter().find(|one| one.key == key).unwrap().origin;
    assert_eq!(origin("limits.tokens"), Origin::File(two));
    assert_eq!(origin("limits.money"), Origin::File(one));
    assert_eq!(origin("limits.turns"), Origin::Default);
}

#[test]
fn policies_are_hold_deny_or_an_answer() {
    let config = read(
        "[policies]\n\"*\" = \"deny\"\n\"task.COMPLETE\" = \"branch-only\"\n\"coder\" = \"hold\"\n\"x.Y\" = { answer = [\"accept\", \"next\"] }\n",
    );
    let policies = config.unwrap().terms(&Library::built_in()).policies;
    assert_eq!(policies["*"], Policy::Deny);
    assert_eq!(policies["coder"], Policy::Hold);
    assert_eq!(policies["task.COMPLETE"], Policy::Answer(Value::text("branch-only")));
    assert_eq!(policies["x.Y"], Policy::Answer(Value::list([Value::text("accept"), Value::text("next")])));
}

#[test]
fn a_file_that_came_with_a_repository_opens_no_home_and_holds_nothing_back() {
    for (text, told) in [
        ("[environment]\nhome = \"own\"", "would open your home"),
        ("[verify]\nheld_out = \"pytest hidden\"", "which agents read"),
    ] {
        let mut config = Config::default();
        let refused = config.add(Path::new("ftl.toml"), text).unwrap_err();
        assert!(refused.to_string().contains(told), "{refused}");
        config.add(Path::new("config.toml"), text).unwrap();
        assert_eq!(config.environment().has_own_home(), text.contains("home"));
        assert_eq!(config.settings().verify.held_out.is_empty(), text.contains("home"));
    }
    let mut config = Config::default();
    config.add(Path::new("ftl.toml"), "[environment]\nhome = \"new\"").unwrap();
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    for (text, told) in [
        ("[limits]\ntoken = 5", "did you mean `limits.tokens`"),
        ("[limit]\ntokens = 5", "there is no setting `limit.tokens`"),
        ("tokens = 5", "is no section"),
        (
            "tokens = 5",
            "are limits, reserve, width, process, memory, worktree, verify, campaign, builder, explorer, landing, keep, \
             commit, forge, notify, agents, roles, environment, sandbox, policies, probes and trust",
        ),
        (
            "[commit]\nsign_off = \"yes\"",
            "commit.sign_off is none of false, true / whether commits are signed off",
        ),
        ("[commit]\nsign_off = 1", "commit.sign_off is no text / whether commits are signed off"),
        (
            "[commit]\ntemplate = \"{x}\"",
            "commit.template: nobody fills in `{x}` / a template may name subject, ",
        ),
        ("[landing]\nhow = 1", "landing.how is no text / how the work of a run gets to your branch"),
        ("[limits]\ntokens = -5", "is not a number"),
        ("[limits]\ntokens = true", "is not a number"),
        ("[limits]\ntime = \"soon\"", "a time such as"),
        ("[width]\nagents = \"none\"", "is not a number"),
        ("[policies]\n\"*\" = 7", "a policy is"),
        ("[policies]\n\"*\" = { reply = 1 }", "a policy is"),
        ("[probes]\nmodel = 1", "a probe is a command line"),
        ("[limits", "TOML"),
        ("[environment]\nhome = \"mine\"", "environment.home is neither"),
    ] {
        let message = read(text).unwrap_err();
        assert!(message.contains(told), "{text}: {message}");
    }
}

#[test]
fn contradictions_and_huge_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    fs::write(&file, "[limits]\ntokens = 10\n[reserve]\ntokens = 11\n").unwrap();
    let error = Config::load(std::slice::from_ref(&file)).unwrap_err();
    assert!(error.message.contains("no agent could ever be asked"), "{error}");
    fs::write(&file, " ".repeat(MAX_CONFIG_BYTES as usize + 1)).unwrap();
    assert!(Config::load(std::slice::from_ref(&file)).unwrap_err().message.contains("is the most"));
    fs::write(&file, [0xff, 0xfe]).unwrap();
    assert!(Config::load(&[file]).unwrap_err().hint.contains("UTF-8"));
}
