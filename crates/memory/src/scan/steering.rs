//! Words that are said to an agent, and commands that carry something away.
//!
//! Text is looked at in lower case with single spaces and with look-alike letters made plain, so that
//! spacing and foreign letters do not hide a phrase.

/// One of the first words, then within a few words one of the second, then one of the third.
struct Phrase {
    first: &'static [&'static str],
    second: &'static [&'static str],
    third: &'static [&'static str],
    what: &'static str,
}

/// How many words may lie between two parts of a phrase.
const GAP: usize = 4;

const PHRASES: [Phrase; 8] = [
    Phrase {
        first: &["ignore", "disregard", "forget", "override", "bypass", "discard"],
        second: &[
            "previous",
            "prior",
            "above",
            "earlier",
            "all",
            "your",
            "system",
            "preceding",
            "any",
            "these",
        ],
        third: &[
            "instructions",
            "instruction",
            "rules",
            "prompt",
            "prompts",
            "guidelines",
            "directives",
            "guardrails",
            "system-prompt",
        ],
        what: "asks to ignore instructions",
    },
    Phrase {
        first: &["you"],
        second: &["are"],
        third: &["jailbroken", "unrestricted", "dan", "unfiltered"],
        what: "gives the agent another role",
    },
    Phrase {
        first: &["do"],
        second: &["not"],
        third: &["tell", "inform", "alert", "notify"],
        what: "asks to hide something",
    },
    Phrase {
        first: &["reveal", "print", "output", "repeat", "show", "leak", "disclose"],
        second: &["your", "the"],
        third: &["system-prompt", "hidden-instructions", "initial-instructions"],
        what: "asks for the prompt",
    },
    Phrase {
        first: &["new", "updated", "real", "actual"],
        second: &["instructions", "instruction", "directive"],
        third: &["from", "follow", "for", "supersede", "replace"],
        what: "gives other instructions",
    },
    Phrase {
        first: &["send", "upload", "post", "exfiltrate", "forward", "email", "leak"],
        second: &["secrets", "credentials", "keys", "env", "passwords", "tokens", "ssh"],
        third: &["to"],
        what: "asks to carry secrets away",
    },
    Phrase {
        first: &["skip", "disable", "remove", "delete"],
        second: &["all", "the", "every"],
        third: &["safety", "guardrails", "audit"],
        what: "asks to remove a check",
    },
    Phrase {
        first: &["pretend", "act", "behave"],
        second: &["you", "as", "like"],
        third: &["root", "admin", "administrator", "unrestricted", "jailbroken"],
        what: "gives the agent another role",
    },
];

/// Phrases in fixed words.
const FIXED: [(&str, &str); 12] = [
    ("you are now", "gives the agent another role"),
    ("from now on you", "gives the agent another role"),
    ("as an ai", "speaks to the agent"),
    ("dear assistant", "speaks to the agent"),
    ("hey assistant", "speaks to the agent"),
    ("attention ai", "speaks to the agent"),
    ("note to the agent", "speaks to the agent"),
    ("developer mode enabled", "gives the agent another role"),
    ("without asking the user", "asks to hide something"),
    ("without telling the user", "asks to hide something"),
    ("must obey", "speaks to the agent"),
    ("end of system prompt", "role tag"),
];

/// Marks by which chats tell who speaks.
const TAGS: [&str; 16] = [
    "<|im_start|>",
    "<|im_end|>",
    "<|system|>",
    "<|assistant|>",
    "<|user|>",
    "<system>",
    "</system>",
    "<assistant>",
    "</assistant>",
    "[inst]",
    "[/inst]",
    "<<sys>>",
    "### system:",
    "### instruction:",
    "<system-reminder>",
    "</tool_result>",
];

/// Starts of a program that can carry something away, and what in its line makes it suspicious.
const CARRIERS: [&str; 6] = ["curl ", "wget ", "nc ", "ncat ", "scp ", "invoke-webrequest "];
const CARRIED: [&str; 12] = [
    "| sh",
    "| bash",
    "|sh",
    "|bash",
    "| sudo",
    "$(cat",
    "`cat",
    ".ssh/",
    ".env",
    "/etc/passwd",
    ".aws/credentials",
    "-d @",
];

/// What was found, by what it is.
pub(super) fn find(text: &str) -> Vec<&'static str> {
    let plain = plain(text);
    let mut found = Vec::new();
    found.extend(FIXED.iter().filter(|(phrase, _)| has_phrase(&plain, phrase)).map(|(_, what)| *what));
    if TAGS.iter().any(|tag| plain.contains(tag)) {
        found.push("role tag");
    }
    if text.lines().map(self::plain).any(|line| carries_away(&line)) {
        found.push("command that carries something away");
    }
    if has_decoded_shell(&plain) {
        found.push("hidden command");
    }
    let words: Vec<&str> =
        plain.split(|c: char| !(c.is_alphanumeric() || c == '-')).filter(|w| !w.is_empty()).collect();
    found.extend(PHRASES.iter().filter(|phrase| says(&words, phrase)).map(|phrase| phrase.what));
    found
}

/// Lower case, single spaces, look-alikes made plain, two words for the prompt made one.
fn plain(text: &str) -> String {
    let letters: String = text.chars().filter(|c| !super::is_invisible(*c) || *c == '\n').collect();
    let lower: String = letters.to_lowercase().chars().map(look_alike).collect();
    let joined = lower.split_whitespace().collect::<Vec<_>>().join(" ");
    let joined = joined
        .replace("system prompt", "system-prompt")
        .replace("hidden instructions", "hidden-instructions");
    joined.replace("initial instructions", "initial-instructions")
}

/// Letters of other scripts that look like Latin ones, and wide ones.
fn look_alike(letter: char) -> char {
    match letter {
        'а' => 'a',
        'е' => 'e',
        'о' => 'o',
        'р' => 'p',
        'с' => 'c',
        'у' => 'y',
        'х' => 'x',
        'і' => 'i',
        'ѕ' => 's',
        'ո' => 'n',
        'ο' => 'o',
        'α' => 'a',
        'ι' => 'i',
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(letter) - 0xfee0).unwrap_or(letter),
        other => other,
    }
}

fn has_phrase(plain: &str, phrase: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric();
    plain.match_indices(phrase).any(|(at, _)| {
        !plain[..at].ends_with(is_letter) && !plain[at + phrase.len()..].starts_with(is_letter)
    })
}

fn says(words: &[&str], phrase: &Phrase) -> bool {
    words.iter().enumerate().filter(|(_, word)| phrase.first.contains(word)).any(|(at, _)| {
        let seconds = near(words, at, phrase.second);
        seconds.into_iter().any(|at| !near(words, at, phrase.third).is_empty())
    })
}

/// Where one of the wanted words stands soon after a place.
fn near(words: &[&str], at: usize, wanted: &[&str]) -> Vec<usize> {
    let end = (at + 1 + GAP).min(words.len());
    (at + 1..end).filter(|place| wanted.contains(&words[*place])).collect()
}

fn carries_away(line: &str) -> bool {
    let has_carrier = CARRIERS.iter().any(|carrier| {
        line.match_indices(carrier)
            .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    });
    let has_address =
        line.contains("://") || line.contains('@') || line.contains(".com") || line.contains(" -l");
    has_carrier && has_address && CARRIED.iter().any(|carried| line.contains(carried))
}

/// Text that is decoded and handed to a shell.
fn has_decoded_shell(plain: &str) -> bool {
    let decodes = plain.contains("base64 -d")
        || plain.contains("base64 --decode")
        || plain.contains("frombase64string");
    let runs =
        ["| sh", "| bash", "|sh", "|bash", "eval ", "iex", "exec("].iter().any(|shell| plain.contains(shell));
    decodes && runs
}
