//! `[environment]`: which variables commands and agents get, and which they do not.

use crate::support::{Dir, ended};

/// A protocol whose only command tells what it sees of some variables.
const TELLS: &str = "STATE: START\n  DO: out = sh \"echo $JAVA_HOME,$MODE,$GITHUB_TOKEN,$DATABASE_URL,$EDITOR\"\n  \
                     RETURN: complete line={out.line}\n";

/// What a command of that protocol saw, with some variables set.
#[track_caller]
fn read_variables(dir: &Dir) -> String {
    let mut command = dir.command(&["run", "tells", "--json"]);
    surround(&mut command);
    let run = ended(command).code(0).json()["run"].as_str().unwrap().to_owned();
    let heard = dir.entries(&run).into_iter().find(|entry| entry["fact"] == "heard").unwrap();
    heard["answer"]["done"]["line"].as_str().unwrap().to_owned()
}

fn surround(command: &mut std::process::Command) {
    command.env("JAVA_HOME", "/opt/java").env("GITHUB_TOKEN", "planted-0123456789");
    command.env("DATABASE_URL", "postgres://ada:s3cret-pass@db/x").env("EDITOR", "vi");
}

#[test]
fn toolchain_homes_reach_commands_and_the_settings_add_more() {
    let dir = Dir::new();
    dir.protocol("tells", TELLS);
    assert_eq!(read_variables(&dir), "/opt/java,,,,");
    dir.write(
        "ftl.toml",
        "[environment]\npass = [\"EDITOR\"]\n[environment.sh]\nset = { MODE = \"fast\" }\n",
    );
    assert_eq!(read_variables(&dir), "/opt/java,fast,,,vi");
    dir.write(
        "ftl.toml",
        "[environment]\ndefaults = false\n[environment.tests]\nset = { MODE = \"fast\" }\n",
    );
    assert_eq!(read_variables(&dir), ",,,,");
}

#[test]
fn a_secret_is_the_persons_to_pass_on_and_is_hidden_all_the_same() {
    let dir = Dir::new();
    dir.protocol("tells", TELLS);
    dir.write("ftl.toml", "[environment]\npass = [\"DATABASE_URL\"]\n");
    assert_eq!(read_variables(&dir), "/opt/java,,,,", "the value looks like a secret");
    let mut doctor = dir.command(&["doctor"]);
    surround(&mut doctor);
    let told = ended(doctor).code(0);
    told.says(&["DATABASE_URL holds a secret", "ftl.toml", "pass = [\"DATABASE_URL\"]", ".ftl/config.toml"]);
    dir.write("ftl.toml", "[environment]\npass = [\"GITHUB_TOKEN\"]\n");
    dir.ftl(&["run", "tells"]).code(1).says(&[
        "environment.pass: a file that came with a repository would choose who gets GITHUB_TOKEN",
        ".ftl/config.toml",
    ]);
    dir.write("ftl.toml", "");
    dir.write(
        ".ftl/config.toml",
        "[environment]\npass = [\"GITHUB_TOKEN\", \"DATABASE_URL\"]\nset = { DEPLOY_TOKEN = \"0f1e2d3c4b5a\" }\n",
    );
    let line = read_variables(&dir);
    assert!(line.starts_with("/opt/java,,[hidden],") && !line.contains("s3cret"), "{line}");
    let mut doctor = dir.command(&["doctor"]);
    surround(&mut doctor);
    let told = ended(doctor).code(0).out;
    let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("DATABASE_URL, DEPLOY_TOKEN"), "{told}");
    assert!(!told.contains("0f1e2d3c4b5a") && !told.contains("planted"), "values are not shown: {told}");
    let mut config = dir.command(&["config"]);
    surround(&mut config);
    let told = ended(config).code(0);
    assert!(!told.out.contains("0f1e2d3c4b5a"), "{}", told.out);
    told.says(&["environment.pass", "GITHUB_TOKEN", "environment.set", "DEPLOY_TOKEN="]);
}

#[test]
fn a_section_with_a_mistake_is_refused() {
    let dir = Dir::new();
    dir.protocol("tells", TELLS);
    for (text, says) in [
        ("[environment]\npas = []\n", "there is no setting `environment.pas`"),
        ("[environment.verfy]\npass = []\n", "there is no setting `environment.verfy`"),
        ("[environment]\npass = \"X\"\n", "environment.pass is no list of names"),
        ("[environment]\nset = { X = 1 }\n", "environment.set is no table of texts"),
        ("[environment]\nset = { FTL_KEY = \"1\" }\n", "`FTL_KEY` is no name of a variable"),
        ("[environment]\ndefaults = \"no\"\n", "environment.defaults is neither true nor false"),
    ] {
        dir.write("ftl.toml", text);
        dir.ftl(&["run", "tells"]).code(1).says(&[says, "ftl.toml", "hint: "]);
    }
}
