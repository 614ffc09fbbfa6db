//! `ftl config`: values and where they come from, and settings that are refused.

use crate::runs::ASK;
use crate::support::Dir;

fn setting(dir: &Dir, key: &str) -> (String, String) {
    let json = dir.ftl(&["config", "--json"]).code(0).json();
    let found = json["settings"].as_array().unwrap().iter().find(|one| one["key"] == key).unwrap().clone();
    let text = |name: &str| found[name].as_str().unwrap().to_owned();
    (text("value"), text("origin"))
}

#[test]
fn every_value_tells_where_it_comes_from() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    assert_eq!(setting(&dir, "limits.tokens"), ("5M".into(), "default".into()));
    dir.write_own("config.toml", "[limits]\ntokens = \"8M\"\nmoney = 3\n");
    dir.write(
        ".ftl/config.toml",
        "[limits]\nmoney = 4.5\n[policies]\nask = \"deny\"\n[probes]\nmodel = \"true\"\n",
    );
    let (own, repository) = (dir.settings().join("ftl/config.toml"), dir.path(".ftl/config.toml"));
    assert_eq!(setting(&dir, "limits.tokens"), ("8M".into(), own.display().to_string()));
    assert_eq!(setting(&dir, "limits.money"), ("4.50".into(), repository.display().to_string()));
    assert_eq!(setting(&dir, "policies.ask").0, "deny");
    assert_eq!(setting(&dir, "probes.model").0, "true");
    let repository = repository.display().to_string();
    dir.ftl(&["config"]).code(0).says(&["limits.money", "4.50", &repository, "tokens that one run may use"]);
}

#[test]
fn settings_that_make_no_sense_are_refused_before_anything_runs() {
    let dir = Dir::new();
    dir.protocol("ask", ASK);
    let refused = |text: &str, words: &[&str]| {
        dir.write(".ftl/config.toml", text);
        for args in [&["config"][..], &["run", "ask", "objective=x"]] {
            dir.ftl(args).code(1).says(&["error: ", "config.toml", "hint: "]).says(words);
        }
        let found = dir.ftl(&["doctor", "--json"]).code(1).json()["findings"][0].clone();
        assert_eq!((&found["area"], &found["level"]), (&"settings".into(), &"broken".into()));
        assert!(!dir.path(".ftl/store").exists(), "{text}");
    };
    refused(
        "[limits]\ntoken = 1\n",
        &["there is no setting `limits.token`", "did you mean `limits.tokens`?"],
    );
    refused(
        "[limits]\ntokens = \"lots\"\n",
        &["limits.tokens: `lots` is not a number such as 1500, 20k or 2M"],
    );
    refused(
        "[limits]\ntokens = 10\n",
        &["reserve.tokens is larger than limits.tokens", "raise limits.tokens"],
    );
    refused("[process]\ngrace = \"none\"\n", &["process.grace", "is not a time"]);
    refused("limits = 3\n", &["`limits` is no section", "the sections are"]);
    refused("[limits\n", &["hint: settings are TOML"]);
    refused("[policies]\nask = 3\n", &["policies.ask: this is no policy"]);
    refused(&"#".repeat(300_000), &["262144 is the most"]);
}

#[test]
fn a_policy_for_a_protocol_or_a_state_that_there_is_not_is_an_error() {
    let dir = Dir::new();
    dir.protocol("mine", "STATE: ONLY\n  RETURN: complete\n");
    let cases: [(&str, &[&str]); 4] = [
        (
            "\"task.NOPE\" = \"hold\"",
            &["policies.task.NOPE: task has no state `NOPE`", "its states are INIT, EXPLORE"],
        ),
        ("\"task.COMPLET\" = \"ff\"", &["task has no state `COMPLET`", "did you mean `task.COMPLETE`?"]),
        (
            "campain = \"deny\"",
            &["policies.campain: there is no protocol `campain`", "did you mean `campaign`?"],
        ),
        ("\"mine.ONLI\" = \"hold\"", &["did you mean `mine.ONLY`?"]),
    ];
    for (line, says) in cases {
        dir.write("ftl.toml", format!("[policies]\n{line}\n"));
        dir.ftl(&["run", "mine"]).code(1).says(&["ftl.toml"]).says(says);
        dir.ftl(&["config"]).code(1).says(says);
    }
    let good = "[policies]\n\"*\" = \"hold\"\ntask = \"hold\"\n\"task.COMPLETE\" = \"ff\"\n\"mine.ONLY\" = \"hold\"\n";
    dir.write("ftl.toml", good);
    dir.ftl(&["run", "mine"]).code(0);
    dir.write_own("config.toml", "[policies]\n\"elsewhere.ASK\" = \"hold\"\n");
    dir.ftl(&["run", "mine"]).code(0);
}
