//! Settings of agents, as text: what they come to, and what is refused.

use std::path::Path;

use super::*;
use crate::config::Config;

fn read(files: &[(&str, &str)]) -> Result<Roster, ConfigError> {
    let mut config = Config::default();
    for (path, text) in files {
        config.add(Path::new(path), text)?;
    }
    config.roster()
}

const LOCAL: &str = r#"
[agents.local]
kind = "model"
dialect = "chat"
url = "http://127.0.0.1:11434/v1"
model = "qwen"
context = "32k"
price = { input = 0.5, output = 2 }

[roles]
default = "local"
planner = { agent = "local", model = "qwen-big" }
"#;

#[test]
fn roles_are_bound_to_agents_and_models() {
    let roster = read(&[("ftl.toml", LOCAL)]).unwrap();
    assert_eq!(roster.role("planner").unwrap().model.as_deref(), Some("qwen-big"));
    assert_eq!(roster.role("builder").unwrap(), &RoleBinding { agent: "local".into(), model: None });
    let AgentKind::Model(service) = &roster.agent("local").unwrap().kind else { panic!() };
    assert_eq!((service.context, service.concurrency, service.structured), (32_000, 4, false));
    let price = service.prices.of("qwen").unwrap();
    assert_eq!((price.input, price.cached, price.stored, price.output), (500, 500, 500, 2000));
    assert!(read(&[]).unwrap().is_empty());
}

#[test]
fn a_later_file_changes_one_key_and_keeps_the_rest() {
    let mine = "[agents.local]\nmodel = \"other\"\n[roles]\nbuilder = \"local\"\n";
    let roster = read(&[("ftl.toml", LOCAL), (".ftl/config.toml", mine)]).unwrap();
    assert_eq!(roster.agent("local").unwrap().model(), Some("other"));
    assert!(roster.role("builder").is_some());
}

#[test]
fn a_script_lies_beside_the_file_that_names_it() {
    let text = "[agents.play]\nkind = \"scripted\"\nscript = \"play.toml\"\n";
    let roster = read(&[("some/where/ftl.toml", text)]).unwrap();
    let AgentKind::Scripted { script } = &roster.agent("play").unwrap().kind else { panic!() };
    assert_eq!(script, Path::new("some/where/play.toml"));
}

/// What is wrong, and what to do about it.
const REFUSED: &[(&str, &str, &str)] = &[
    ("[agents]\nx = 3\n", "agents.x is no agent", "[agents.x]"),
    ("[agents.x]\n", "agents.x has no `kind`", "the kinds are scripted, model, acp, cli"),
    ("[agents.x]\nkind = \"modle\"\n", "agents.x.kind: `modle` is unknown", "did you mean `model`?"),
    ("[agents.x]\nkind = \"scripted\"\n", "agents.x has no `script`", "ftl init"),
    ("[agents.x]\nkind = \"model\"\n", "agents.x has no `dialect`", "chat, responses and anthropic"),
    (
        "[agents.x]\nkind = \"model\"\ndialect = \"chat\"\nurl = \"ftp://x\"\nmodel = \"m\"\n",
        "agents.x.url: `ftp://x` is no address",
        "http://",
    ),
    ("@contxt = 3\n", "agents.x.contxt: nobody knows this key", "did you mean `context`?"),
    ("@context = 0\n", "agents.x.context: it is nothing", "at least 1"),
    ("@context = 1.5\n", "agents.x.context: `` is not a number", "128k"),
    ("@structured = \"yes\"\n", "agents.x.structured: it is neither true nor false", "write true or false"),
    ("@accept = [\"everything\"]\n", "agents.x.accept: `everything` is unknown", "there is calls, paths"),
    ("@accept = \"calls\"\n", "agents.x.accept: it is no list of texts", "write ["),
    ("@price = { input = 3 }\n", "agents.x.price: it is no price", "for a million tokens"),
    ("@price = { input = -3, output = 1 }\n", "agents.x.price: it is no price", "for a million tokens"),
    ("@price = { inptu = 3, output = 1 }\n", "agents.x.price: it is no price", "for a million tokens"),
    ("@key = \"sk-live-0123456789\"\n", "agents.x.key: it is no name of a variable", "OPENAI_API_KEY"),
    ("@key = \"A_KEY\"\nkey_file = \"k\"\n", "agents.x.key: there is a `key_file` too", "say one of them"),
    ("[agents.x]\nkind = \"acp\"\n", "agents.x has no `program`", "ftl init"),
    (
        "[agents.x]\nkind = \"acp\"\nprogram = \"p\"\nlike = \"me\"\n",
        "`me` is unknown",
        "goose, claude, codex",
    ),
    ("[agents.x]\nkind = \"cli\"\nadapter = \"cloude\"\n", "there is no adapter `cloude`", "ends in .toml"),
    ("[agents.x]\nkind = \"cli\"\nadapter = \"a.toml\"\n", "a.toml: No such file", "ends in .toml"),
    (
        "[agents.x]\nkind = \"cli\"\nadapter = \"claude\"\nsettings = { colour = \"red\" }\n",
        "the adapter claude has no setting `colour`",
        "it has retries",
    ),
    (
        "[agents.x]\nkind = \"cli\"\nadapter = \"claude\"\nset = 3\n",
        "agents.x.set: it is no table of texts",
        "NAME",
    ),
    (
        "[agents.x]\nkind = \"cli\"\nadapter = \"claude\"\nprogram = \"./claude\"\n",
        "agents.x.program: a file that came with a repository would choose who gets ANTHROPIC_API_KEY",
        ".ftl/config.toml",
    ),
    (
        "[agents.x]\nkind = \"acp\"\nprogram = \"p\"\nenv = [\"OPENAI_API_KEY\"]\n",
        "would choose who gets OPENAI_API_KEY",
        ".ftl/config.toml",
    ),
    ("@price = \"cheap\"\n", "agents.x.price: it is no price", "\"subscription\""),
    ("@price = { input = 3 }\n", "agents.x.price: it is no price", "output = 15"),
    ("@price = 0\n", "would say what your agent costs", ".ftl/config.toml"),
    ("@price = \"subscription\"\n", "would say what your agent costs", ".ftl/config.toml"),
    ("@price = \"unknown\"\n", "would say what your agent costs", ".ftl/config.toml"),
    ("@silence = \"0s\"\n", "agents.x.silence: it is no time at all", "such as 2m"),
    ("@silence = \"long\"\n", "agents.x.silence: `long` is not a time", "such as 2m"),
    ("@calls = \"text\"\n", "agents.x.calls: `text` is unknown", "there is native, schema"),
    ("@model = 3\n", "agents.x.model: it is no text", "quotes"),
    ("[roles]\nbuilder = \"nobody\"\n", "roles.builder: there is no agent `nobody`", "[agents.nobody]"),
    ("@[roles]\nbuilder = \"xx\"\n", "roles.builder: there is no agent `xx`", "did you mean `x`?"),
    ("[roles]\nbilder = \"x\"\n", "there is no role `bilder`", "did you mean `builder`?"),
    ("[roles]\nbuilder = 3\n", "roles.builder names no agent", "{ agent = \"NAME\""),
    ("[roles]\nbuilder = { agnt = \"x\" }\n", "roles.builder names no agent", "{ agent = \"NAME\""),
];

/// A sound agent, where a row begins with `@`.
const SOUND: &str = "[agents.x]\nkind = \"model\"\ndialect = \"chat\"\nurl = \"http://127.0.0.1:1/v1\"\n";

#[test]
fn what_is_wrong_is_named_with_a_hint() {
    for (text, message, hint) in REFUSED {
        let text = match text.strip_prefix('@') {
            Some(rest) if rest.starts_with("model") => format!("{SOUND}{rest}"),
            Some(rest) => format!("{SOUND}model = \"m\"\n{rest}"),
            None => (*text).to_owned(),
        };
        let error = read(&[("ftl.toml", &text)]).expect_err(&text);
        assert!(error.message.contains(message), "{text}\n{error}");
        assert!(error.hint.contains(hint), "{text}\n{}", error.hint);
        assert!(!format!("{error}").contains("sk-live"), "a key is not repeated");
    }
}

#[test]
fn a_key_does_not_go_where_a_repository_wants_it() {
    let service =
        "[agents.x]\nkind = \"model\"\ndialect = \"chat\"\nmodel = \"m\"\nkey = \"OPENAI_API_KEY\"\n";
    let there = "[agents.x]\nurl = \"https://gateway.example/v1\"\n";
    let both = format!("{service}url = \"https://gateway.example/v1\"\n");
    read(&[(".ftl/config.toml", &both)]).unwrap();
    for files in
        [[("config.toml", service), ("ftl.toml", there)], [("ftl.toml", both.as_str()), ("config.toml", "")]]
    {
        let error = read(&files).unwrap_err();
        assert!(error.message.contains("would send the key in OPENAI_API_KEY to gateway.example"), "{error}");
    }
}

#[test]
fn a_person_says_what_costs_nothing() {
    let of = |files: &[(&str, &str)]| read(files).map(|roster| roster.agent("x").unwrap().pricing);
    let local = format!("{SOUND}model = \"m\"\n");
    let program = "[agents.x]\nkind = \"acp\"\nprogram = \"p\"\n";
    let own = |text: &str, price: &str| of(&[(".ftl/config.toml", &format!("{text}price = {price}\n"))]);
    assert_eq!(of(&[("ftl.toml", &local)]).unwrap(), Pricing::Reported, "a proxy on this machine is unknown");
    for text in [local.as_str(), program] {
        assert_eq!(own(text, "0").unwrap(), Pricing::Free);
        assert_eq!(own(text, "0.0").unwrap(), Pricing::Free);
        assert_eq!(own(text, "\"subscription\"").unwrap(), Pricing::Subscription);
        assert_eq!(own(text, "\"unknown\"").unwrap(), Pricing::Unknown);
    }
    assert_eq!(own(&local, "{ input = 1, output = 2 }").unwrap(), Pricing::Reported);
    assert!(own(program, "{ input = 1, output = 2 }").unwrap_err().message.contains("it is no price"));
    let error = own(&local.replace("127.0.0.1:1", "api.example"), "0").unwrap_err();
    assert!(error.message.contains("api.example is not on this machine"), "{error}");
    // The address must be the person's, too: a repository could put a proxy there.
    let error = of(&[("ftl.toml", &local), (".ftl/config.toml", "[agents.x]\nprice = 0\n")]).unwrap_err();
    assert!(error.message.contains("a file that came with a repository"), "{error}");
}

#[test]
fn keys_are_looked_up_once_and_hidden() {
    let text = format!("{SOUND}model = \"m\"\nkey = \"SOME_KEY\"\n");
    let roster = read(&[("config.toml", &text)]).unwrap();
    let agent = roster.agent("x").unwrap();
    let hall = Hall::new(
        &roster,
        &|name| (name == "SOME_KEY").then(|| "test-key-0123".to_owned()),
        Path::new("rooms"),
    );
    assert_eq!(hall.secrets().redact("it is test-key-0123."), "it is [hidden].");
    assert!(hall.backend(agent).is_ok());
    let poor = Hall::new(&roster, &|_| None, Path::new("rooms"));
    assert!(poor.backend(agent).err().unwrap().to_string().contains("the variable SOME_KEY"));
    assert!(poor.enforces(agent).is_ok(), "what it enforces does not depend on a key");
}

#[test]
fn programs_get_what_is_named_and_nothing_else() {
    let text = "[agents.c]\nkind = \"cli\"\nadapter = \"claude\"\nmodel = \"m\"\naccept = [\"calls\"]\n\
        [agents.g]\nkind = \"acp\"\nprogram = \"goose\"\nargs = [\"acp\"]\nlike = \"goose\"\nmode = \"chat\"\n\
        env = [\"OPENAI_API_KEY\"]\nset = { GOOSE_MODE = \"approve\" }\nhome = \"own\"\n";
    let roster = read(&[("config.toml", text)]).unwrap();
    let AgentKind::Acp(goose) = &roster.agent("g").unwrap().kind else { panic!() };
    assert_eq!((goose.habits.mode.as_deref(), goose.around.own_home), (Some("chat"), true));
    let variable = |name: &str| match name {
        "HOME" => Some("/people/ada".to_owned()),
        "OPENAI_API_KEY" => Some("test-key-0123".to_owned()),
        "AWS_SECRET" => Some("never-passed".to_owned()),
        _ => None,
    };
    let hall = Hall::new(&roster, &variable, Path::new("rooms"));
    assert_eq!(hall.secrets().redact("test-key-0123"), "[hidden]");
    let env = hall.environment(&goose.around, "g").unwrap();
    let env: Vec<(&str, &str)> =
        env.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    assert_eq!(
        env,
        [("HOME", "/people/ada"), ("OPENAI_API_KEY", "test-key-0123"), ("GOOSE_MODE", "approve")]
    );
    let enforced = hall.enforces(roster.agent("c").unwrap()).unwrap();
    assert_eq!(enforced.calls, ftl_agents::contract::Counted::Before);
    // A file that comes with a repository may name an agent, and point it at this machine.
    read(&[("ftl.toml", "[agents.c]\nkind = \"cli\"\nadapter = \"claude\"\n")]).unwrap();
}
