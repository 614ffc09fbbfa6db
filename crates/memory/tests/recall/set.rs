//! The labelled set as data: lessons with questions of every kind, questions that no lesson answers, and the noise of build logs.

use ftl_memory::benchmark::Lot;
use ftl_memory::text;

const LESSONS: &str = include_str!("lessons.txt");
const NOTHING: &str = include_str!("nothing.txt");
const NOISE: &str = include_str!("noise.txt");

/// A lesson, with the questions that it answers.
pub struct Case {
    pub ecosystem: &'static str,
    pub trigger: &'static str,
    pub fix: &'static str,
    /// Key words, error text, a person's words, the objective of a task.
    asked: [String; 4],
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Words,
    Error,
    Short,
    Messy,
    Person,
    Objective,
}

impl Kind {
    pub const ALL: [Kind; 6] =
        [Kind::Words, Kind::Error, Kind::Short, Kind::Messy, Kind::Person, Kind::Objective];

    pub fn title(self) -> &'static str {
        match self {
            Kind::Words => "k0 words",
            Kind::Error => "k1 error",
            Kind::Short => "k4 short log",
            Kind::Messy => "k4 messy log",
            Kind::Person => "k2 person",
            Kind::Objective => "k3 objective",
        }
    }
}

impl Case {
    /// By the trigger alone, so that a lesson stays in its half whatever is added to the set.
    pub fn is_set_aside(&self) -> bool {
        text::fingerprint(self.trigger).rem_euclid(2) == 1
    }

    pub fn name(&self) -> String {
        format!("case-{:016x}", text::fingerprint(self.trigger))
    }

    pub fn question(&self, kind: Kind) -> String {
        match kind {
            Kind::Words => self.asked[0].clone(),
            Kind::Error => self.asked[1].clone(),
            Kind::Short => short_log(&self.asked[1], self.ecosystem, text::fingerprint(self.trigger)),
            Kind::Messy => messy_log(&self.asked[1], self.ecosystem, text::fingerprint(self.trigger)),
            Kind::Person => self.asked[2].clone(),
            Kind::Objective => self.asked[3].clone(),
        }
    }
}

/// The lessons of the set, in its order.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut ecosystem = "";
    let mut fields: Vec<&'static str> = Vec::new();
    for line in LESSONS.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
        if let Some(name) = line.strip_prefix("## ") {
            ecosystem = name;
            continue;
        }
        let (key, value) = line.split_once(": ").expect("a key");
        assert_eq!(key, ["t", "f", "0", "1", "2", "3"][fields.len()], "{line}");
        fields.push(value);
        if let [trigger, fix, asked @ ..] = fields.as_slice()
            && let [words, error, person, objective] = asked
        {
            let asked = [*words, *error, *person, *objective].map(unfold);
            cases.push(Case { ecosystem, trigger, fix, asked });
            fields.clear();
        }
    }
    cases
}

/// What no lesson answers, by its sort: `near`, `far`, `objective`, `other`.
pub fn nothing(sort: &str) -> Vec<String> {
    let lines = NOTHING.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(" | "))
        .filter(|(of, _)| *of == sort)
        .map(|(_, text)| unfold(text))
        .collect()
}

fn unfold(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\t", "\t")
}

/// An error in a log of ten to twenty lines.
pub fn short_log(error: &str, ecosystem: &str, seed: i64) -> String {
    let mut log = Log::new(ecosystem, seed);
    let before = 4 + log.lot.below(8);
    (0..before).for_each(|_| log.noise());
    error.lines().for_each(|line| log.lines.push(line.to_owned()));
    (0..2 + log.lot.below(4)).for_each(|_| log.line("pass"));
    log.line("end");
    log.lines.join("\n")
}

/// An error in a log of 100 to 300 lines: several jobs print at once, with progress, and something else fails too.
pub fn messy_log(error: &str, ecosystem: &str, seed: i64) -> String {
    let mut log = Log::new(ecosystem, seed ^ 0x5eed);
    let all = 100 + log.lot.below(200);
    let (first, other) = (log.lot.below(all * 4 / 5) + 5, log.lot.below(all));
    let mut left: Vec<&str> = error.lines().rev().collect();
    for at in 0..all {
        if at >= first
            && (at == first || log.lot.share() < 0.6)
            && let Some(line) = left.pop()
        {
            log.lines.push(line.to_owned());
        }
        if at == other {
            (0..2).for_each(|_| log.line("error"));
        }
        log.noise();
    }
    left.iter().rev().for_each(|line| log.lines.push((*line).to_owned()));
    (0..2 + log.lot.below(10)).for_each(|_| log.line("pass"));
    (0..2).for_each(|_| log.line("end"));
    let prefixed = |(at, line): (usize, String)| match seed.rem_euclid(3) {
        0 => format!("2026-05-0{}T10:{:02}:{:02}.{at:03}Z {line}", 1 + at % 7, at / 60 % 60, at % 60),
        1 => format!("job-{} | {line}", at % 3),
        _ => line,
    };
    log.lines.into_iter().enumerate().map(prefixed).collect::<Vec<_>>().join("\n")
}

struct Log {
    lot: Lot,
    jobs: [&'static str; 2],
    lines: Vec<String>,
}

impl Log {
    fn new(ecosystem: &str, seed: i64) -> Log {
        let job = match ecosystem {
            "rust" => "cargo",
            "javascript" | "typescript" | "css" => "npm",
            "python" => "pytest",
            "c" | "shell" => "make",
            _ => "ci",
        };
        let mut lot = Lot::new(seed.unsigned_abs());
        let also = ["cargo", "npm", "pytest", "make", "ci"][lot.below(5)];
        Log { lot, jobs: [job, also], lines: Vec::new() }
    }

    fn noise(&mut self) {
        let sort = match self.lot.below(20) {
            0..=8 => "progress",
            9..=16 => "pass",
            _ => "warn",
        };
        self.line(sort);
    }

    fn line(&mut self, sort: &str) {
        let job = self.jobs[usize::from(self.lot.share() < 0.3)];
        let wanted = format!("{job} {sort} | ");
        let lines: Vec<&str> = NOISE.lines().filter_map(|line| line.strip_prefix(&wanted)).collect();
        let picked = lines[self.lot.below(lines.len())];
        let filled = self.fill(picked);
        self.lines.push(filled);
    }

    fn fill(&mut self, line: &str) -> String {
        let words: Vec<&str> =
            NOISE.lines().find_map(|line| line.strip_prefix("word | ")).unwrap().split(' ').collect();
        let mut out = String::new();
        let mut rest = line;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').expect("an end");
            out.push_str(before);
            match name {
                "n" => out.push_str(&self.lot.below(400).to_string()),
                "h" => out.push_str(&format!("{:012x}", self.lot.draw() >> 16)),
                "t" => out.push_str(&format!("10:{:02}:{:02}", self.lot.below(60), self.lot.below(60))),
                _ => out.push_str(words[self.lot.below(words.len())]),
            }
            rest = after;
        }
        out.push_str(rest);
        out
    }
}
