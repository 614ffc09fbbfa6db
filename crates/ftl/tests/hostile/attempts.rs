//! A forbidden call is an attempt (finding 4), and a report that cannot be read is unknown as a whole (finding 11).

use std::fs;

use serde_json::{Value as Json, json};

use crate::machine::{BUILD, bind, only, stage, starts};
use crate::support::Dir;
use crate::tally::{Tally, tries};

/// How many attempts a step has.
const ATTEMPTS: usize = 3;

/// Calls what it may not call, where a plan is asked for and nothing else; `acts` says what each start does.
const FORBIDDEN: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo 1; exit 0; }
root=$(dirname "$0")
echo start >> "$root/starts"
number=$(wc -l < "$root/starts")
cat > "$root/words-$number"
[ -e "$root/report" ] && echo '{"kind":"cost","in":5,"out":5}'
act=$(sed -n "${number}p" "$root/acts")
case "${act:-call}" in
die) exit 3 ;;
nonsense) echo '{"kind":"over","fine":true,"answer":{"approach":7}}' ;;
call)
  echo '{"kind":"call","id":"a","tool":"write","args":{"path":"greet.txt"}}'
  exec sleep 30 ;;
esac
"#;

fn play(acts: &[&str], reports: bool) -> (Dir, Json, String) {
    let dir = stage(FORBIDDEN);
    dir.write("acts", acts.join("\n"));
    if reports {
        dir.write("report", "");
    }
    let ended = dir.ftl(&BUILD).code(3);
    let status = dir.status(&only(&dir));
    (dir, status, ended.out)
}

#[test]
fn a_call_that_it_may_not_make_is_an_attempt_and_the_next_one_is_told() {
    let mut tally = Tally::of("P10 a forbidden call is an attempt");
    for at in 0..tries(2) {
        let (dir, status, out) = play(&[], at % 2 == 0);
        let made = starts(&dir, "start");
        let first = dir.read("words-1");
        let told: Vec<bool> = (2..=made)
            .map(|number| {
                let words = dir.read(&format!("words-{number}"));
                words.contains("it called `write`")
                    && words.contains("there is no tool `write` here; there is submit")
            })
            .collect();
        let reason = status["reason"].as_str().unwrap_or_default();
        let good = made == ATTEMPTS
            && !first.contains("Your last attempt")
            && told == [true, true]
            && reason.contains("3 attempts")
            && reason.contains("it called `write`, which is not allowed here: there is no tool `write` here");
        tally.count((!good).then(|| format!("{made} starts, told {told:?}: {status:#}\n{out}")));
    }
    tally.close();
}

#[test]
fn no_mixture_of_what_it_does_starts_it_more_often() {
    let mixtures: [&[&str]; 3] =
        [&["die", "call", "die", "call"], &["call", "die", "call", "die"], &["call", "nonsense"]];
    let mut tally = Tally::of("P10 no mixture starts an agent more than 3 times");
    for at in 0..tries(mixtures.len()) {
        let acts = mixtures[at % mixtures.len()];
        let (dir, status, out) = play(acts, true);
        let made = starts(&dir, "start");
        tally.count((made > ATTEMPTS).then(|| format!("{acts:?}: {made} starts: {status:#}\n{out}")));
    }
    tally.close();
}

/// Says each time that its service is out, with a report of what it used or without.
const CLAIMS: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo 1; exit 0; }
root=$(dirname "$0")
echo start >> "$root/starts"
cat > /dev/null
[ -e "$root/report" ] && echo '{"kind":"cost","in":5,"out":5}'
echo '{"kind":"over","fine":false,"why":"529: overloaded"}'
"#;

#[test]
fn an_outage_that_only_the_agent_claims_is_an_attempt_and_holds_at_last() {
    let mut tally = Tally::of("P10 an agent that claims an outage is not started without end");
    for at in 0..tries(1) {
        let dir = stage(CLAIMS);
        dir.write("plain.toml", dir.read("plain.toml") + "\n[troubles]\noutage = [\"529:\"]\n");
        if at % 2 == 0 {
            dir.write("report", "");
        }
        let ended = dir.ftl(&BUILD).code(3);
        let (run, made) = (only(&dir), starts(&dir, "start"));
        let status = dir.status(&run);
        let reason = status["reason"].as_str().unwrap_or_default();
        let good = made == ATTEMPTS
            && status["standing"] == "held"
            && reason.contains("529: overloaded")
            && ended.out.contains("ftl resume");
        tally.count((!good).then(|| format!("{made} starts: {status:#}\n{ended:#?}")));
        // A person's word is worth one more start.
        dir.ftl(&["resume", &run]).code(3);
        let more = starts(&dir, "start");
        tally.count((more != made + 1).then(|| format!("{more} starts after {made}")));
        dir.ftl(&["audit", "verify"]).code(0);
    }
    tally.close();
}

/// Answers at once, with a report of the test.
const REPORTS: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo 1; exit 0; }
cat > /dev/null
cat "$(dirname "$0")/report"
echo '{"kind":"over","fine":true,"answer":{"summary":"done"}}'
"#;

#[test]
fn a_report_with_a_number_that_cannot_be_read_is_charged_as_the_worst_case() {
    let dir = Dir::new();
    dir.protocol(
        "code",
        "STATE: START\n  DO: work = Task(coder)\n  RETURN: complete summary={work.summary}\n",
    );
    bind(&dir, REPORTS, &["coder"]);
    let unreadable = [
        r#"{"kind":"cost","in":1e308,"out":0}"#,
        r#"{"kind":"cost","in":99999999999999999999999999,"out":0}"#,
        r#"{"kind":"cost","in":-5000000,"out":0}"#,
        r#"{"kind":"cost","out":5}"#,
        r#"{"kind":"cost","in":"5","out":5}"#,
        r#"{"kind":"cost","in":null,"out":5}"#,
        "{\"kind\":\"cost\",\"in\":5,\"out\":5}\n{\"kind\":\"cost\",\"in\":-1,\"out\":5}",
    ];
    let mut tally = Tally::of("P10 a report that cannot be read is unknown as a whole");
    for report in unreadable {
        fs::write(dir.path("report"), format!("{report}\n")).unwrap();
        let (run, _) = dir.run(&["code"]);
        let tokens = dir.status(&run)["meters"]["tokens"].clone();
        let good =
            tokens["used"].as_u64().is_some_and(|used| used >= 100_000) && tokens["unknown"] == json!(1);
        tally.count((!good).then(|| format!("{report}: {tokens}")));
    }
    fs::write(dir.path("report"), "{\"kind\":\"cost\",\"in\":5,\"out\":5}\n").unwrap();
    let (run, _) = dir.run(&["code"]);
    assert_eq!(dir.status(&run)["meters"]["tokens"]["used"], json!(10), "what can be read is believed");
    tally.close();
}
