//! The preflight gate: whether files are well formed, found out before a verify is paid for.
//!
//! Every file of a known kind is parsed here. Where the language's own checker is installed it has the last
//! word, since grammars lag behind languages; it gets the text on its standard input, runs none of it, and is
//! believed only where it names a line. What nothing here can check is skipped and said to be; it is never
//! called sound.
//!
//! A file of the delta that is not there is skipped: the delta says what may change, and taking a file away
//! is a change.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use ftl_core::catalogue::build::{PreflightStatus, Syntax};
use ftl_core::catalogue::scalars::Digest;

use super::command_env::{Command, CommandPlace};
use ftl_code::context::{Language, SyntaxError, SyntaxReport, read_source, syntax_of_change};
use ftl_git::change::{Change, Content};
use ftl_process::{Cancel, How, ProcessLimits, Stdin};

/// How many files get a checker of their language's own; the others are only parsed.
pub const MAX_CHECKED: usize = 200;

/// How many errors a summary tells.
pub const MAX_TOLD: usize = 10;

/// How long one checker may take.
pub const CHECK_LIMIT: Duration = Duration::from_secs(20);

/// How much of what a checker says is told.
const MAX_MESSAGE: usize = 200;

/// The outcome of checking one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyntaxCheck {
    /// It is well formed.
    Sound,
    /// It is not well formed, at these places.
    Broken(Vec<SyntaxError>),
    /// It was not checked; the reason, for people.
    Skipped(String),
}

/// Checks files of a worktree. The brief's own preflight commands, where it has any, take the place of the
/// checkers.
pub fn check(
    command_place: &CommandPlace<'_>,
    files: &[String],
    commands: &[String],
    change: &Change,
    tree: &str,
    cancel: &Cancel,
) -> Syntax {
    let mut checkers = if commands.is_empty() { MAX_CHECKED } else { 0 };
    let mut found: Vec<(String, SyntaxCheck)> = Vec::new();
    for path in files {
        let form = match read_source(&command_place.folder, path) {
            None => SyntaxCheck::Skipped(missing(command_place, path)),
            Some(bytes) => one(command_place, path, &bytes, before(change, path), &mut checkers, cancel),
        };
        found.push((path.clone(), form));
    }
    let heard = commands.iter().filter_map(|command| own_command(command_place, command, &mut found, cancel));
    let unheard: Vec<String> = heard.collect();
    summarize(&found, &unheard, tree)
}

fn before<'a>(change: &'a Change, path: &str) -> Option<&'a str> {
    let file = change.files.iter().find(|file| file.path == path)?;
    file.before.as_ref().and_then(Content::text)
}

fn missing(command_place: &CommandPlace<'_>, path: &str) -> String {
    match std::fs::symlink_metadata(command_place.folder.join(path)) {
        Ok(it) if it.is_dir() => "it is a folder".to_owned(),
        Ok(_) => "it is no ordinary file of the worktree".to_owned(),
        Err(_) => "it is not there".to_owned(),
    }
}

fn one(
    command_place: &CommandPlace<'_>,
    path: &str,
    bytes: &[u8],
    before: Option<&str>,
    checkers: &mut usize,
    cancel: &Cancel,
) -> SyntaxCheck {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return match Language::of(path) {
            Some(_) => SyntaxCheck::Broken(vec![not_text(bytes)]),
            None => SyntaxCheck::Skipped("it is no text".to_owned()),
        };
    };
    let parsed = parsed(path, before, text);
    let checker = checker(&command_place.folder, path, text)
        .filter(|checker| *checkers > 0 && command_place.has(checker.program));
    let Some(checker) = checker else { return parsed };
    *checkers -= 1;
    ask(command_place, &checker, text, cancel).unwrap_or(parsed)
}

fn not_text(bytes: &[u8]) -> SyntaxError {
    let good = bytes.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
    let line = bytes[..good].iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = bytes[..good].iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    SyntaxError { line, column, message: "it is not UTF-8".to_owned() }
}

/// Checks a file with our own parsers.
fn parsed(path: &str, before: Option<&str>, text: &str) -> SyntaxCheck {
    match syntax_of_change(path, before, text) {
        SyntaxReport::Clean => SyntaxCheck::Sound,
        SyntaxReport::Broken(_) if has_comments_in_json(path) => {
            SyntaxCheck::Skipped("its tools read JSON with comments, and we do not".to_owned())
        }
        SyntaxReport::Broken(errors) => SyntaxCheck::Broken(errors),
        SyntaxReport::NotChecked(why) => SyntaxCheck::Skipped(why),
    }
}

/// Whether the tools of a JSON file take comments and last commas.
fn has_comments_in_json(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let folder = |name: &str| path.split('/').any(|part| part == name);
    let by_name =
        ["tsconfig", "jsconfig", ".eslintrc", ".babelrc", "api-extractor", "turbo", "deno", "devcontainer"];
    name.ends_with(".json") && (by_name.iter().any(|word| name.starts_with(word)) || folder(".vscode"))
}

/// A checker of a language's own that reads a text and runs none of it.
struct Checker {
    program: &'static str,
    args: Vec<OsString>,
    /// The line, the column and the words of an error, out of what it printed.
    read: fn(&str) -> Option<SyntaxError>,
}

/// Compiles and keeps nothing. Whatever is no error of syntax (a text too deep for it, say) is no answer.
const PYTHON: &str = "import sys
try:
    compile(sys.stdin.buffer.read(), 'text', 'exec', dont_inherit=True)
except SyntaxError as e:
    print('ftl:%s:%s:%s' % (e.lineno or 1, e.offset or 1, e.msg))
    sys.exit(3)
except ValueError as e:
    print('ftl:1:1:%s' % e)
    sys.exit(3)
except BaseException:
    sys.exit(4)
";

fn checker(folder: &Path, path: &str, text: &str) -> Option<Checker> {
    let ending = Path::new(path).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let (program, args, read): (_, _, fn(&str) -> Option<SyntaxError>) = match ending {
        "py" => ("python3", words(&["-I", "-S", "-B", "-W", "ignore", "-c", PYTHON]), read_python),
        "mjs" => ("node", words(&["--input-type=module", "--check", "-"]), read_node),
        "cjs" => ("node", words(&["--input-type=commonjs", "--check", "-"]), read_node),
        "js" => ("node", node_words(text)?, read_node),
        "go" => ("gofmt", words(&["-e"]), read_gofmt),
        "rs" => ("rustfmt", words(&["--edition", &edition(folder, path), "--emit", "stdout"]), read_rustfmt),
        "sh" | "bash" => ("bash", words(&["-n", "/dev/stdin"]), read_bash),
        "rb" => ("ruby", words(&["-c"]), read_ruby),
        "php" => ("php", words(&["-n", "-l"]), read_php),
        _ => return None,
    };
    Some(Checker { program, args, read })
}

/// The edition of the package that a file belongs to. What is written nowhere is taken as one that reads most
/// code.
fn edition(folder: &Path, path: &str) -> String {
    let above = path.match_indices('/').rev().map(|(end, _)| &path[..=end]).chain([""]);
    let manifests = above.filter_map(|at| read_source(folder, &format!("{at}Cargo.toml")));
    let said =
        manifests.filter_map(|bytes| toml::from_str::<toml::Table>(std::str::from_utf8(&bytes).ok()?).ok());
    let mut editions = said.filter_map(|table| {
        let inherited = table.get("workspace").and_then(|workspace| workspace.get("package"));
        let package = [table.get("package"), inherited].into_iter().flatten();
        package.filter_map(|one| one.get("edition")?.as_str().map(str::to_owned)).next()
    });
    let known = |edition: &String| ["2015", "2018", "2021", "2024"].contains(&edition.as_str());
    editions.next().filter(known).unwrap_or_else(|| "2021".to_owned())
}

/// How node is to read a script: as a module where it imports or exports. Elements are none of node's
/// business.
fn node_words(text: &str) -> Option<Vec<OsString>> {
    let tree = Language::JavaScript.parse(text)?;
    let (mut is_module, mut has_elements) = (false, false);
    super::integrity::walk(&mut tree.walk(), |node| {
        has_elements |= node.kind().starts_with("jsx_");
        is_module |= matches!(node.kind(), "import_statement" | "export_statement");
        !has_elements
    });
    let kind = if is_module { "--input-type=module" } else { "--input-type=commonjs" };
    (!has_elements).then(|| [kind, "--check", "-"].into_iter().map(OsString::from).collect())
}

/// What a checker says; nothing where it could not run or did not say where.
fn ask(
    command_place: &CommandPlace<'_>,
    checker: &Checker,
    text: &str,
    cancel: &Cancel,
) -> Option<SyntaxCheck> {
    let soft = command_place.limits.soft.map_or(CHECK_LIMIT, |soft| soft.min(CHECK_LIMIT));
    let limits =
        ProcessLimits { soft: Some(soft), hard: Some(soft * 2), silence: None, ..command_place.limits };
    let stdin = Stdin::Bytes(text.as_bytes().to_vec());
    let command = Command { program: checker.program.into(), args: checker.args.clone(), stdin, limits };
    let ended = command_place.run(command, cancel).ok()?;
    match (ended.cut, ended.how) {
        (None, How::Exited(0)) => Some(SyntaxCheck::Sound),
        (None, How::Exited(_)) => {
            let said = format!("{}\n{}", ended.err.text(), ended.out.text());
            let error = (checker.read)(&said)?;
            let message: String = error.message.chars().take(MAX_MESSAGE).collect();
            Some(SyntaxCheck::Broken(vec![SyntaxError { message, ..error }]))
        }
        (Some(_), _) | (None, How::Signalled(_) | How::Unknown) => None,
    }
}

fn error(line: &str, column: &str, message: &str) -> Option<SyntaxError> {
    let (line, column) = (line.trim().parse().ok()?, column.trim().parse().ok()?);
    Some(SyntaxError { line, column, message: message.trim().to_owned() })
}

fn read_python(said: &str) -> Option<SyntaxError> {
    let rest = said.lines().find_map(|line| line.strip_prefix("ftl:"))?;
    let mut parts = rest.splitn(3, ':');
    error(parts.next()?, parts.next()?, parts.next()?)
}

fn read_node(said: &str) -> Option<SyntaxError> {
    let place = said.lines().find_map(|line| line.strip_prefix("[stdin]:"))?;
    let message = said.lines().find(|line| line.starts_with("SyntaxError: "))?;
    error(place.split(':').next()?, "1", message)
}

fn read_gofmt(said: &str) -> Option<SyntaxError> {
    let rest = said.lines().find_map(|line| line.strip_prefix("<standard input>:"))?;
    let mut parts = rest.splitn(3, ':');
    error(parts.next()?, parts.next()?, parts.next()?)
}

fn read_rustfmt(said: &str) -> Option<SyntaxError> {
    let message =
        said.lines().find(|line| line.starts_with("error") && !line.starts_with("error[internal]"))?;
    let place = said.lines().find_map(|line| line.trim_start().strip_prefix("--> <stdin>:"))?;
    let (line, column) = place.split_once(':')?;
    error(line, column, message.split_once(": ").map_or(message, |(_, words)| words))
}

fn read_bash(said: &str) -> Option<SyntaxError> {
    let rest = said.lines().find_map(|line| line.split_once(": line ").map(|(_, rest)| rest))?;
    let (line, message) = rest.split_once(": ")?;
    error(line, "1", message)
}

fn read_ruby(said: &str) -> Option<SyntaxError> {
    let rest = said.lines().find_map(|line| line.strip_prefix("-:"))?;
    let (line, message) = rest.split_once(": ")?;
    error(line, "1", message)
}

fn read_php(said: &str) -> Option<SyntaxError> {
    let line = said.lines().find(|line| line.contains("Parse error:") && line.contains(" on line "))?;
    let (message, number) = line.rsplit_once(" on line ")?;
    error(number, "1", message)
}

/// One of the brief's own commands. A file that its output names is broken; where it names none, all that exist
/// are. Why it could not be run, if it could not.
fn own_command(
    command_place: &CommandPlace<'_>,
    command: &str,
    found: &mut [(String, SyntaxCheck)],
    cancel: &Cancel,
) -> Option<String> {
    let ended = match command_place.shell(command, cancel) {
        Ok(ended) => ended,
        Err(error) => return Some(format!("`{command}` could not be run: {error}")),
    };
    match (ended.cut, ended.how) {
        (None, How::Exited(0)) => return None,
        (Some(_), _) | (None, How::Exited(126 | 127) | How::Signalled(_) | How::Unknown) => {
            return Some(format!("`{command}` could not be run: {}", ended.sentence()));
        }
        (None, How::Exited(_)) => {}
    }
    let said = format!("{}\n{}", ended.out.text(), ended.err.text());
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join("; ");
    let message: String = format!("`{command}` failed: {last}").chars().take(MAX_MESSAGE * 2).collect();
    let is_there =
        |form: &SyntaxCheck| !matches!(form, SyntaxCheck::Skipped(why) if why == "it is not there");
    let is_named = |path: &str| said.contains(path) || command.contains(path);
    let any = found.iter().any(|(path, form)| is_there(form) && is_named(path));
    for (path, form) in found.iter_mut() {
        if is_there(form) && (is_named(path) || !any) && !matches!(form, SyntaxCheck::Broken(_)) {
            let line = line_in(&said, path).unwrap_or(1);
            *form = SyntaxCheck::Broken(vec![SyntaxError { line, column: 1, message: message.clone() }]);
        }
    }
    None
}

/// The line that an output names behind a path, as in `a.py:3` or `"a.py", line 3`.
fn line_in(said: &str, path: &str) -> Option<usize> {
    let at = said.find(path)? + path.len();
    let rest = said.get(at..)?.lines().next()?;
    let digits = rest.find(|letter: char| letter.is_ascii_digit()).filter(|at| *at <= 8)?;
    let number = &rest[digits..];
    let end = number.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().ok()
}

/// The answer of `preflight.check`.
fn summarize(found: &[(String, SyntaxCheck)], unheard: &[String], tree: &str) -> Syntax {
    let mut lines = Vec::new();
    let (mut broken, mut skipped, mut sound) = (Vec::new(), Vec::new(), 0usize);
    let mut quiet = unheard.to_vec();
    for (path, form) in found {
        match form {
            SyntaxCheck::Sound => sound += 1,
            SyntaxCheck::Broken(errors) => {
                broken.push(path.clone());
                lines.extend(
                    errors.iter().map(|one| format!("{path}:{}:{}: {}", one.line, one.column, one.message)),
                );
            }
            SyntaxCheck::Skipped(why) => {
                skipped.push(path.clone());
                quiet.push(format!("{path} was skipped: {why}"));
            }
        }
    }
    let status = match (broken.is_empty(), sound) {
        (false, _) => PreflightStatus::Fail,
        (true, 0) => PreflightStatus::Skip,
        (true, _) => PreflightStatus::Pass,
    };
    let all = lines.len() + quiet.len();
    let mut summary: Vec<String> = lines.into_iter().chain(quiet).take(MAX_TOLD).collect();
    if all > MAX_TOLD {
        summary.push(format!("and {} more", all - MAX_TOLD));
    }
    if summary.is_empty() {
        summary.push(if sound == 1 {
            String::from("1 file is well formed")
        } else {
            format!("{sound} files are well formed")
        });
    }
    Syntax {
        passed: broken.is_empty(),
        failed: !broken.is_empty(),
        summary: summary.join("\n"),
        tree: Some(Digest::new(tree)),
        status,
        broken,
        skipped: (!skipped.is_empty()).then_some(skipped),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a case: the checker, what it said (`\n` for a new line), the error that is read, `-` for
    /// none.
    const SAID: &str = r"
        python  | ftl:3:7:invalid syntax                                                   | 3:7: invalid syntax
        node    | [stdin]:2\nlet x = ;\n        ^\n\nSyntaxError: Unexpected token ';'      | 2:1: SyntaxError: Unexpected token ';'
        gofmt   | <standard input>:4:2: expected operand, found '}'                        | 4:2: expected operand, found '}'
        rustfmt | error: expected one of `!` or `::`, found `}`\n --> <stdin>:3:1\n  |      | 3:1: expected one of `!` or `::`, found `}`
        rustfmt | error: 'rustfmt' is not installed for the toolchain                      | -
        rustfmt | error[internal]: left behind trailing whitespace\n --> <stdin>:3:3:1      | -
        bash    | bash: line 3: syntax error near unexpected token `fi'                    | 3:1: syntax error near unexpected token `fi'
        ruby    | -:3: syntax error, unexpected end-of-input                               | 3:1: syntax error, unexpected end-of-input
        php     | PHP Parse error:  syntax error, unexpected end of file in Standard input code on line 3 | 3:1: PHP Parse error:  syntax error, unexpected end of file in Standard input code
        python  | MemoryError                                                              | -
        node    | node: bad option: --input-type                                           | -";

    #[test]
    fn a_checker_is_believed_where_it_names_a_line() {
        for line in SAID.lines().filter(|line| !line.trim().is_empty()) {
            let (name, rest) = line.trim().split_once(" | ").unwrap();
            let (said, wanted) = rest.rsplit_once(" | ").unwrap();
            let read = match name.trim() {
                "python" => read_python,
                "node" => read_node,
                "gofmt" => read_gofmt,
                "rustfmt" => read_rustfmt,
                "bash" => read_bash,
                "ruby" => read_ruby,
                "php" => read_php,
                other => panic!("{other}"),
            };
            let found = read(&said.trim().replace("\\n", "\n"));
            let found = found.map(|one| format!("{}:{}: {}", one.line, one.column, one.message));
            assert_eq!(found.as_deref().unwrap_or("-"), wanted.trim(), "{line}");
        }
    }

    #[test]
    fn a_file_of_rust_is_read_in_its_package_s_edition() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = folder.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        assert_eq!(edition(folder.path(), "a/src/lib.rs"), "2021");
        write("Cargo.toml", "[workspace.package]\nedition = \"2024\"\n");
        write("a/Cargo.toml", "[package]\nedition.workspace = true\n");
        write("b/Cargo.toml", "[package]\nedition = \"2018\"\n");
        write("c/Cargo.toml", "[package]\nedition = \"; rm -rf\"\n");
        assert_eq!(edition(folder.path(), "a/src/lib.rs"), "2024");
        assert_eq!(edition(folder.path(), "b/src/lib.rs"), "2018");
        assert_eq!(edition(folder.path(), "c/src/lib.rs"), "2021");
    }

    /// One line a case: the path, the text, what our own parsers say.
    const PARSED: &str = r#"
        a.py          | def f():\n    return 1\n      | sound
        a.py          | def f(:\n    return 1\n       | broken 1
        a.rs          | fn f() {}\n                   | sound
        a.rs          | fn f() {\n                    | broken 1
        a.go          | package a\n                   | sound
        a.go          | package a\nfunc f( {\n        | broken 2
        a.ts          | const a: number = 1;\n        | sound
        a.ts          | const a: = 1;\n               | broken 1
        a.tsx         | const a = <b>x</b>;\n         | sound
        a.js          | const a = 1;\n                | sound
        a.js          | const = 1;\n                  | broken 1
        a.json        | {"a": 1}                      | sound
        a.json        | {"a": 1,}                     | broken 1
        tsconfig.json | {"a": 1, // x\n}              | skipped
        tsconfig.json | {"a": 1}                      | sound
        a.toml        | a = 1\n                       | sound
        a.toml        | a = \n                        | broken 1
        a.yaml        | a: [\n                        | skipped
        a.txt         | anything                      | skipped"#;

    #[test]
    fn known_kinds_are_parsed_and_others_skipped() {
        for line in PARSED.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
            let form = parsed(cells[0], None, &cells[1].replace("\\n", "\n"));
            let found = match &form {
                SyntaxCheck::Sound => "sound".to_owned(),
                SyntaxCheck::Broken(errors) => format!("broken {}", errors[0].line),
                SyntaxCheck::Skipped(_) => "skipped".to_owned(),
            };
            assert_eq!(found, cells[2], "{line}: {form:?}");
        }
    }

    #[test]
    fn an_answer_has_a_status_and_names_files() {
        let broken = SyntaxCheck::Broken(vec![SyntaxError { line: 2, column: 3, message: "bad".to_owned() }]);
        let skipped = || SyntaxCheck::Skipped("it is not there".to_owned());
        let file = |name: &str, form: SyntaxCheck| (name.to_owned(), form);
        let answer = summarize(
            &[file("a.py", SyntaxCheck::Sound), file("b.py", broken), file("c.md", skipped())],
            &[],
            "t",
        );
        assert_eq!((answer.status, answer.passed, answer.failed), (PreflightStatus::Fail, false, true));
        assert_eq!(answer.summary, "b.py:2:3: bad\nc.md was skipped: it is not there");
        assert_eq!((answer.broken, answer.skipped), (vec!["b.py".to_owned()], Some(vec!["c.md".to_owned()])));
        let answer = summarize(&[file("c.md", skipped())], &[], "t");
        assert_eq!((answer.status, answer.passed, answer.failed), (PreflightStatus::Skip, true, false));
        let answer = summarize(&[file("a.py", SyntaxCheck::Sound)], &[], "t");
        assert_eq!(
            (answer.status, answer.summary.as_str()),
            (PreflightStatus::Pass, "1 file is well formed")
        );
        let many: Vec<(String, SyntaxCheck)> =
            (0..MAX_TOLD + 5).map(|number| file(&format!("{number}"), skipped())).collect();
        assert!(summarize(&many, &[], "t").summary.ends_with("\nand 5 more"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_a_parser(
            path in "a\\.(py|rs|go|ts|tsx|js|json|toml|sh)",
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300),
        ) {
            let text = String::from_utf8_lossy(&bytes);
            let _ = parsed(&path, None, &text);
            let _ = checker(Path::new("/nowhere"), &path, &text);
        }

        #[test]
        fn no_words_break_a_reader(
            said in "(ftl:|\\[stdin\\]:|SyntaxError: |<standard input>:|error|--> <stdin>:|: line |-:\
                |Parse error:| on line |[0-9:é \n]){0,12}",
        ) {
            for read in [read_python, read_node, read_gofmt, read_rustfmt, read_bash, read_ruby, read_php] {
                let _ = read(&said);
            }
        }
    }
}
