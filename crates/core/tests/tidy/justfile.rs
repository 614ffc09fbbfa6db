//! The justfile, read without `just`: no recipe twice, and everything that a recipe or a document names is there.

use std::collections::BTreeSet;

use super::{File, has_word, report, root, texts};

#[test]
fn the_justfile_can_be_read_and_its_commands_are_there() {
    let texts = texts();
    let just = texts.iter().find(|file| file.name == "justfile").expect("there is a justfile");
    let hint = "`just` refuses a justfile with such a line; `just --list` shows what it understands";
    report(wrong_recipes(just), hint);
    let names = recipes(just).into_iter().map(|(_, name, _)| name).collect::<BTreeSet<_>>();
    let documents = texts.iter().filter(|file| file.name.ends_with(".md") || file.name.starts_with(".ci/"));
    let findings = documents.flat_map(|file| unknown_recipes(file, &names));
    report(findings, "name a recipe that the justfile has");
}

#[test]
fn these_tests_see_wrong_recipes() {
    let wrong = |text: &str| wrong_recipes(&File::new("justfile", text));
    assert!(
        wrong("set shell := [\"sh\"]\n# Do.\nci *ARGS: test\n    .ci/run {{ARGS}}\n\n@test:\n    x\n")
            .is_empty()
    );
    assert_eq!(wrong("a:\n    x\n\na *ARGS:\n    y\n"), ["justfile:4: a second recipe `a`"]);
    assert_eq!(wrong("a: b\n"), ["justfile:1: needs `b`, which is no recipe"]);
    assert_eq!(wrong("a\n"), ["justfile:1: neither a recipe nor a setting"]);
    assert_eq!(wrong("a *ARGS:\n    x {{ARG}}\n"), ["justfile:2: {{ARG}} is not declared"]);
    assert_eq!(wrong("a:\n    tools/no/such x\n"), ["justfile:2: there is no tools/no/such"]);
    let names = BTreeSet::from(["lint".to_owned()]);
    let unknown = |text: &str| unknown_recipes(&File::new("x.md", text), &names).len();
    assert_eq!((unknown("`just lint`, just do it"), unknown("`just nope X`")), (0, 1));
}

/// Each recipe of a justfile: its line, name, and the rest of its head.
fn recipes(just: &File) -> Vec<(usize, String, String)> {
    let heads = just.text.lines().enumerate().filter(|(_, line)| is_head(line));
    let parts = heads.filter_map(|(at, line)| {
        let (head, needs) = line.split_once(':')?;
        let name = head.trim_start_matches('@').split(' ').next()?.to_owned();
        Some((at + 1, name, format!("{head}:{needs}")))
    });
    parts.collect()
}

/// Whether a line begins a recipe: not indented, no comment, no setting.
fn is_head(line: &str) -> bool {
    line.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_' || letter == '@')
        && !line.contains(":=")
        && line.contains(':')
}

fn wrong_recipes(just: &File) -> Vec<String> {
    let recipes = recipes(just);
    let mut findings = Vec::new();
    for (at, (line, name, head)) in recipes.iter().enumerate() {
        if recipes[..at].iter().any(|(_, other, _)| other == name) {
            findings.push(just.at(*line, &format!("a second recipe `{name}`")));
        }
        let needs = head.split_once(':').map_or("", |(_, needs)| needs).split_whitespace();
        for other in needs.filter(|other| !recipes.iter().any(|(_, name, _)| name == other)) {
            findings.push(just.at(*line, &format!("needs `{other}`, which is no recipe")));
        }
    }
    let mut head = "";
    for (at, line) in just.text.lines().enumerate() {
        let is_odd = !line.is_empty() && !line.starts_with([' ', '#']) && !line.contains(":=");
        match is_head(line) {
            true => head = line,
            false if is_odd => findings.push(just.at(at + 1, "neither a recipe nor a setting")),
            false => findings.extend(wrong_words(just, at + 1, line, head)),
        }
    }
    findings
}

/// What a line of a recipe names that is not there: arguments, and programs of the tree.
fn wrong_words(just: &File, at: usize, line: &str, head: &str) -> Vec<String> {
    let arguments = line.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0.trim()));
    let undeclared = arguments.filter(|name| !has_word(head, name));
    let programs =
        line.split_whitespace().filter(|word| word.starts_with("tools/") || word.starts_with(".ci/"));
    let missing = programs.filter(|word| line.starts_with(' ') && !root().join(word).exists());
    let undeclared = undeclared.map(|name| just.at(at, &format!("{{{{{name}}}}} is not declared")));
    undeclared.chain(missing.map(|word| just.at(at, &format!("there is no {word}")))).collect()
}

/// Commands in a document such as `just lint` that no recipe is called.
fn unknown_recipes(file: &File, names: &BTreeSet<String>) -> Vec<String> {
    let mut findings = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        for rest in line.split("`just ").skip(1) {
            let name = rest.split(['`', ' ']).next().unwrap_or_default();
            if !name.starts_with('-') && !names.contains(name) {
                findings.push(file.at(at + 1, &format!("`just {name}` is no command")));
            }
        }
    }
    findings
}
