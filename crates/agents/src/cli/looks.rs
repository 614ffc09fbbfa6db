//! Shell commands that only look at files, as the reads and searches that they are.
//!
//! Some agents have no tool to read with: they type `cat`. A state that lets an agent read and gives it no shell would
//! deny them every look. Here a command is read as a person would check it: a few programs, a few options of each, words
//! without anything that a shell expands. Whatever is not surely a look stays a command. It never asks a disk, and never
//! guesses.

/// The longest command that is read.
const MAX_BYTES: usize = 2000;

/// A look that a command takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// The tool of ours that does the same.
    pub(super) tool: &'static str,
    /// The file or folder; the folder that the command is started in where there is none.
    pub(super) path: Option<String>,
}

/// The looks of a command, in order; nothing where it may do anything else.
pub(super) fn looks(command: &str) -> Option<Vec<Look>> {
    if command.len() > MAX_BYTES {
        return None;
    }
    let mut parts = split(command)?;
    // Codex shows a command as the shell that it starts for it.
    if let [only] = parts.as_slice()
        && let [shell, flag, inner] = only.words.as_slice()
        && ["sh", "bash", "zsh"].contains(&shell.rsplit('/').next().unwrap_or_default())
        && ["-c", "-lc"].contains(&flag.as_str())
    {
        parts = split(inner)?;
    }
    let mut folder = String::new();
    let mut found = Vec::new();
    for part in &parts {
        let (program, words) = part.words.split_first()?;
        if let ("cd", [to]) = (program.as_str(), words) {
            folder = below(&folder, to);
            continue;
        }
        let (tool, paths) = paths(program, words)?;
        // What comes out of a pipe is no file.
        if paths.is_empty() && !part.is_piped {
            let path = (!folder.is_empty()).then(|| folder.clone());
            found.push(Look { tool, path });
        }
        found.extend(paths.into_iter().map(|path| Look { tool, path: Some(below(&folder, path)) }));
    }
    (!found.is_empty()).then_some(found)
}

/// One program of a command line, with its arguments.
#[derive(Debug, Default)]
struct Part {
    words: Vec<String>,
    /// Whether it reads what the one before it prints.
    is_piped: bool,
}

/// A command as programs joined by `|`, `&&` and `;`. Nothing where a shell would expand, redirect or start anything else.
fn split(command: &str) -> Option<Vec<Part>> {
    let mut parts = vec![Part::default()];
    let mut word: Option<String> = None;
    let mut letters = command.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        let part = parts.last_mut()?;
        match letter {
            '\'' | '"' => {
                let open = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        end if end == letter => break,
                        '$' | '`' | '\\' | '!' if letter == '"' => return None,
                        '\n' => return None,
                        inside => open.push(inside),
                    }
                }
            }
            ' ' | '\t' => part.words.extend(word.take()),
            '|' | ';' | '&' => {
                part.words.extend(word.take());
                let is_double = letters.next_if_eq(&letter).is_some();
                if part.words.is_empty() || is_double != (letter == '&') {
                    return None;
                }
                parts.push(Part { words: Vec::new(), is_piped: letter == '|' });
            }
            plain if plain.is_alphanumeric() || "_./,=:@%+-".contains(plain) => {
                word.get_or_insert_default().push(plain);
            }
            _ => return None,
        }
    }
    let last = parts.last_mut()?;
    last.words.extend(word);
    (!last.words.is_empty()).then_some(parts)
}

/// Which tool of ours does what this program does, and the paths that it looks at.
fn paths<'a>(program: &str, words: &'a [String]) -> Option<(&'static str, Vec<&'a str>)> {
    match program {
        "cat" => Some(("read", options(words, "AbeEnstTuv", "", "")?.files)),
        "nl" => Some(("read", options(words, "ab", "", "")?.files)),
        "wc" => Some(("read", options(words, "lwcmL", "", "")?.files)),
        // `tail -f` would never end.
        "head" | "tail" => Some(("read", options(words, "qv0123456789", "nc", "")?.files)),
        "sed" => printed_lines(words).map(|files| ("read", files)),
        "ls" => Some(("search", options(words, "1AaCdFghlnoprRSst", "", "")?.files)),
        "pwd" if words.is_empty() => Some(("search", Vec::new())),
        "grep" | "egrep" | "fgrep" => matched(words, "abcEFHhIilLnoPqRrsvwx"),
        "rg" => matched(words, "cFHIilNnoPSsuvwx"),
        "find" => parse_find(words).map(|folders| ("search", folders)),
        _ => None,
    }
}

/// The words of a program: what it was told by letter, and the files.
struct Options<'a> {
    files: Vec<&'a str>,
    /// The values of options that name what is searched for.
    patterns: usize,
}

/// Reads options: letters without a value, letters with a number, letters with a text. Nothing where there is another one.
fn options<'a>(words: &'a [String], plain: &str, numbers: &str, texts: &str) -> Option<Options<'a>> {
    let mut read = Options { files: Vec::new(), patterns: 0 };
    let mut words = words.iter();
    let mut is_all_files = false;
    while let Some(word) = words.next() {
        match word.strip_prefix('-').filter(|letters| !letters.is_empty() && !is_all_files) {
            None => read.files.push(word),
            Some("-") => is_all_files = true,
            Some(letters) => {
                let last = letters.chars().next_back()?;
                let first = letters.chars().next()?;
                if numbers.contains(first) && !letters[1..].is_empty() {
                    is_number(&letters[1..]).then_some(())?;
                } else if letters.chars().all(|one| plain.contains(one)) {
                } else if letters.len() == 1 && numbers.contains(last) {
                    is_number(words.next()?).then_some(())?;
                } else if letters.len() == 1 && texts.contains(last) {
                    words.next()?;
                    read.patterns += usize::from(last == 'e');
                } else {
                    return None;
                }
            }
        }
    }
    Some(read)
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.chars().all(|one| one.is_ascii_digit())
}

/// `grep` and `rg`: a pattern, then where.
fn matched<'a>(words: &'a [String], plain: &str) -> Option<(&'static str, Vec<&'a str>)> {
    let mut read = options(words, plain, "ABCm", "eg")?;
    if read.patterns == 0 {
        if read.files.is_empty() {
            return None;
        }
        read.files.remove(0);
    }
    Some(("search", read.files))
}

/// `sed -n 3,9p FILE`: the one use of it that does nothing but print.
fn printed_lines(words: &[String]) -> Option<Vec<&str>> {
    let [flag, script, files @ ..] = words else { return None };
    let is_range = |part: &str| {
        part.strip_suffix('p').is_some_and(|range| {
            range.split(',').count() <= 2 && range.split(',').all(|end| end == "$" || is_number(end))
        })
    };
    let prints = flag == "-n" && script.split(';').all(is_range);
    let plain = files.iter().all(|file| !file.starts_with('-'));
    (prints && plain).then(|| files.iter().map(String::as_str).collect())
}

/// `find FOLDER… -name X`: where, and by which names. It can start programs and remove files, too.
fn parse_find(words: &[String]) -> Option<Vec<&str>> {
    let at = words.iter().position(|word| word.starts_with('-')).unwrap_or(words.len());
    let (folders, tests) = words.split_at(at);
    let is_test = |pair: &[String]| {
        let [name, _] = pair else { return false };
        ["-name", "-iname", "-path", "-type", "-maxdepth", "-mindepth"].contains(&name.as_str())
    };
    tests.chunks(2).all(is_test).then(|| folders.iter().map(String::as_str).collect())
}

/// A path as it is meant after `cd`.
fn below(folder: &str, path: &str) -> String {
    if folder.is_empty() || path.starts_with(['/', '~']) {
        path.to_owned()
    } else {
        format!("{folder}/{path}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// command → looks; nothing where it stays a command.
    const TABLE: &str = r#"
        cat stats.py                            → read stats.py
        cat -n a.py b.py                        → read a.py, read b.py
        cat 'with space'                        → read with space
        /bin/bash -lc 'cat stats.py'            → read stats.py
        sh -c "head -n 20 a"                    → read a
        head -20 a                              → read a
        tail -n +3 a | head -c 10               → read a
        tail -f a                               →
        nl -s x a                               →
        sed -n '1,200p' src/a.rs                → read src/a.rs
        sed -n '3p;9,$p' a                      → read a
        sed -n '1e touch x' a                   →
        sed -i s/a/b/ a                         →
        sed -n 1p -i a                          →
        sed s/a/b/w a                           →
        ls                                      → search .
        ls -la src                              → search src
        pwd && ls                               → search ., search .
        cd src && cat a.rs                      → read src/a.rs
        cd .. && cat a                          → read ../a
        cd src; ls                              → search src
        grep -rn "def mean" src tests           → search src, search tests
        grep -n -e x -e y a                     → search a
        rg -n -g '*.py' mean                    → search .
        rg --pre ./x mean                       →
        rg mean | wc -l                         → search .
        find . -name '*.py' -type f             → search .
        find . -name x -delete                  →
        find . -exec rm x +                     →
        touch x                                 →
        cat a > b                               →
        cat a >> b                              →
        cat < a                                 →
        cat $HOME/x                             →
        cat "$(touch x)"                        →
        cat `touch x`                           →
        cat *.py                                →
        cat ~/x                                 →
        cat a & touch x                         →
        cat a || touch x                        →
        cat a; touch x                          →
        cat a | sh                              →
        LESS=x cat a                            →
        ./cat a                                 →
        git log                                 →
        cat 'a                                  →
        cat a |                                 →
                                                →
    "#;

    #[test]
    fn a_command_is_a_look_only_where_that_is_sure() {
        let lines: Vec<&str> = TABLE.lines().filter(|line| line.contains('→')).collect();
        assert_eq!(lines.len(), 48);
        for line in lines {
            let (command, wanted) = line.split_once('→').unwrap();
            let shown = |one: &Look| format!("{} {}", one.tool, one.path.as_deref().unwrap_or("."));
            let found = looks(command.trim()).unwrap_or_default().iter().map(shown).collect::<Vec<_>>();
            assert_eq!(found.join(", "), wanted.trim(), "{line}");
        }
        assert_eq!(looks("cat a\ntouch x"), None);
        assert_eq!(looks(&format!("cat {}", "a".repeat(MAX_BYTES))), None);
    }
}
