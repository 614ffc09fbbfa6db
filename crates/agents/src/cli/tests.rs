//! Adapters are read whole: the ones that come with us are right, and a wrong one is told all its faults.

use super::*;
use crate::contract::Counted;

#[test]
fn every_adapter_that_comes_with_us_is_right() {
    for name in Adapter::names() {
        let adapter = Adapter::built_in(name).unwrap_or_else(|why| panic!("{name}:\n{why}"));
        assert_eq!(adapter.name, name);
        let defaults: Vec<&str> = adapter.defaults.iter().map(|(name, _)| name.as_str()).collect();
        for setting in adapter.settings() {
            assert!(defaults.contains(&setting.as_str()), "{name} wants {setting} and has no default for it");
        }
        let before = adapter.enforces.calls == Counted::Before;
        assert_eq!(
            (before, adapter.enforces.paths),
            (adapter.protocol.asks(), adapter.protocol.asks()),
            "{name}"
        );
        assert!(adapter.variables().count() > 0, "{name}");
    }
    assert!(
        Adapter::built_in("clod")
            .unwrap_err()
            .to_string()
            .contains("there is claude, codex, pi, opencode, goose")
    );
}

#[test]
fn all_faults_are_told_at_once() {
    let text = r#"
        name = "x"
        program = 7
        protocol = "telepathy"
        modell = "y"
        silence = 0
        [enforces]
        calls = "before"
        paths = true
        tokens = true
        [start]
        args = ["{{modell}}"]
        prompt = "pigeon"
        [files]
        "../x" = "y"
        [window]
        tool = "submit"
        [[event]]
        text = "a..b"
        txet = "a"
        [tools.map]
        Write = { as = "write" }
    "#;
    let faults = Adapter::parse(text).unwrap_err().to_string();
    for wanted in [
        "`about`: it must be there",
        "`program`: a text is wanted",
        "`protocol`: `telepathy` is none of lines, claude-control, codex-app-server",
        "`modell` is no key of an adapter",
        "`silence`: seconds are wanted",
        "`enforces.calls`: `lines` only tells what was done",
        "`start.args`: nothing is called `modell` here",
        "`start.prompt`: `pigeon` is none of input, word",
        "`files`: `../x` is no path below a home",
        "`window.tool`: a `*` must stand",
        "`event 1.when`: it must be there",
        "`event 1.text`: `a..b` is no path",
        "`event 1.txet` is no key of an adapter; did you mean `text`?",
        "`event`: no event says that a turn has ended",
        "`enforces.tokens`: no event says how many tokens were used",
        "`tools.map.Write.path`: a tool that writes must tell where",
    ] {
        assert!(faults.contains(wanted), "{wanted}\n---\n{faults}");
    }
    assert!(Adapter::parse("a = ").unwrap_err().to_string().contains("this is no TOML"));
}

#[test]
fn an_adapter_has_limits() {
    let least = "name = \"x\"\nabout = \"x\"\nprogram = \"x\"\n";
    let rule = "[[event]]\nwhen = { a = 1 }\nend = {}\n";
    assert!(Adapter::parse(&format!("{least}{}", rule.repeat(MAX_RULES))).is_ok());
    let many = Adapter::parse(&format!("{least}{}", rule.repeat(MAX_RULES + 1))).unwrap_err().to_string();
    assert!(many.contains("`event`: 64 is the most"), "{many}");
    let files: String = (0..=MAX_FILES).map(|number| format!("f{number} = \"\"\n")).collect();
    let many = Adapter::parse(&format!("{least}[files]\n{files}{rule}")).unwrap_err().to_string();
    assert!(many.contains("`files`: 16 is the most"), "{many}");
    let long = Adapter::parse(&" ".repeat(MAX_ADAPTER_BYTES + 1)).unwrap_err().to_string();
    assert!(long.contains("bytes at most"), "{long}");
}

#[test]
fn the_adapter_in_the_documentation_is_right() {
    let page = include_str!("../../../../docs/agents.md");
    let rest = page.split_once("### An adapter of one's own").unwrap().1;
    let text = rest.split_once("```toml\n").unwrap().1.split_once("\n```").unwrap().0;
    let adapter = Adapter::parse(text).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(
        (adapter.settings(), adapter.silence),
        (vec!["url".to_owned()], Some(Duration::from_secs(600)))
    );
}
