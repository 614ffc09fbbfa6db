//! One reader for each test runner that we know: lines in, a count out, or nothing where it did not speak.
//!
//! A reader looks for the runner's own closing lines. It never infers a success from silence.

use super::census::{Count, FailedTest};

type Reader = fn(&[&str]) -> Option<Count>;

/// The readers of all known runners, tried in this order.
pub(super) const ALL: &[Reader] = &[
    pytest, unittest, cargo, nextest, go, jest, vitest, mocha, node, ctest, phpunit, rspec, dotnet, maven,
    gradle, tap,
];

/// The number before or after which something stands, as in `3 passed`.
fn number(word: &str) -> Option<u64> {
    word.trim_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()
}

/// `3 failed, 2 passed`: each number with its word.
fn counts<'a>(list: &'a str, separator: &str) -> Option<Vec<(u64, &'a str)>> {
    let part =
        |part: &'a str| part.trim().split_once(' ').and_then(|(n, word)| Some((n.parse().ok()?, word)));
    list.split(separator).map(part).collect()
}

fn sum(counts: &[(u64, &str)], words: &[&str]) -> u64 {
    counts.iter().filter(|(_, word)| words.contains(word)).fold(0, |sum, (n, _)| sum.saturating_add(*n))
}

/// The lines after one, while they do not look like the next thing.
fn after<'a>(lines: &[&'a str], at: usize, is_next: impl Fn(&str) -> bool) -> Vec<&'a str> {
    const MAX_LOOKED_AT: usize = 60;
    let rest = lines.get(at + 1..).unwrap_or_default();
    rest.iter().take(MAX_LOOKED_AT).take_while(|line| !is_next(line)).copied().collect()
}

fn pytest(lines: &[&str]) -> Option<Count> {
    let (count, errors) = lines.iter().rev().find_map(|line| pytest_end(line))?;
    let failures = lines.iter().filter_map(|line| {
        let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "))?;
        let (name, message) = rest.split_once(" - ").unwrap_or((rest, ""));
        let is_name = name.contains(".py") || name.contains("::");
        is_name.then(|| FailedTest::new(name, [message]))
    });
    let failures: Vec<FailedTest> = failures.collect();
    let said_errors = errors > 0 || lines.iter().any(|line| line.starts_with("ERROR: "));
    let none = count.none && !said_errors;
    Some(Count { none, ..count.with(failures.into_iter().map(|one| pytest_message(one, lines))) })
}

/// A short summary has no message where the line was too long; the lines that begin with `E` have it.
fn pytest_message(failure: FailedTest, lines: &[&str]) -> FailedTest {
    if !failure.message.is_empty() {
        return failure;
    }
    let test = failure.name.rsplit("::").next().unwrap_or_default();
    let is_header = |line: &str| line.starts_with("____") && line.trim_matches(['_', ' ']).ends_with(test);
    let Some(at) = lines.iter().position(|line| is_header(line)) else { return failure };
    let rest = after(lines, at, |line| line.starts_with("____"));
    let told: Vec<&str> = rest.into_iter().filter_map(|line| line.strip_prefix("E ")).collect();
    FailedTest::new(&failure.name, told)
}

/// `==== 1 failed, 2 passed in 0.12s ====`, with or without the bars.
fn pytest_end(line: &str) -> Option<(Count, u64)> {
    let line = line.trim().trim_matches('=').trim();
    let (list, time) = line.rsplit_once(" in ")?;
    let seconds = time.split(' ').next()?.strip_suffix('s')?;
    seconds.parse::<f64>().ok()?;
    if list == "no tests ran" {
        return Some((Count::of("pytest", 0, 0, 0), 0));
    }
    let counts = counts(list, ",")?;
    const WORDS: [&str; 13] = [
        "passed",
        "failed",
        "error",
        "errors",
        "skipped",
        "xfailed",
        "xpassed",
        "deselected",
        "warning",
        "warnings",
        "rerun",
        "subtests passed",
        "subtests failed",
    ];
    if !counts.iter().all(|(_, word)| WORDS.contains(word)) {
        return None;
    }
    let errors = sum(&counts, &["error", "errors"]);
    let failed = sum(&counts, &["failed"]) + errors;
    let run = failed + sum(&counts, &["passed", "xpassed", "xfailed"]);
    // A test that is expected to fail and does has shown nothing, but it ran.
    let skipped = sum(&counts, &["skipped", "deselected", "xfailed"]);
    Some((Count::of("pytest", run, failed, skipped), errors))
}

fn unittest(lines: &[&str]) -> Option<Count> {
    let mut seen = false;
    let (mut ran, mut failed, mut skipped) = (0u64, 0u64, 0u64);
    for (at, line) in lines.iter().enumerate() {
        let Some(rest) = line.strip_prefix("Ran ") else { continue };
        let Some((n, tail)) = rest.split_once(" test") else { continue };
        let (Ok(n), true) = (n.parse::<u64>(), tail.contains(" in ")) else { continue };
        let verdict =
            lines[at + 1..].iter().find(|line| !line.trim().is_empty()).copied().unwrap_or_default();
        if !["OK", "FAILED", "NO TESTS RAN"].iter().any(|word| verdict.starts_with(word)) {
            continue;
        }
        seen = true;
        let parts = || verdict.split([',', '(', ')']).map(str::trim);
        let total = |key: &str| {
            parts().filter_map(|part| number(part.strip_prefix(key)?)).fold(0, u64::saturating_add)
        };
        ran = ran.saturating_add(n);
        failed =
            failed.saturating_add(total("failures=") + total("errors=") + total("unexpected successes="));
        skipped = skipped.saturating_add(total("skipped="));
    }
    let is_bar = |line: &str| line.starts_with("=====") || line.starts_with("Ran ");
    let failures = lines.iter().enumerate().filter_map(|(at, line)| {
        let name = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: "))?;
        let block = after(lines, at, is_bar);
        let last: Vec<&str> = block.into_iter().rev().filter(|line| is_message(line)).take(2).collect();
        Some(FailedTest::new(name, last.into_iter().rev()))
    });
    seen.then(|| Count::of("unittest", ran.saturating_sub(skipped), failed, skipped).with(failures))
}

/// A line of a traceback that says something: not a rule, not a place, not code.
fn is_message(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with("----") && !line.starts_with("  ")
}

fn cargo(lines: &[&str]) -> Option<Count> {
    let results = lines.iter().filter_map(|line| line.trim_start().strip_prefix("test result: "));
    let (mut seen, mut run, mut failed, mut skipped) = (false, 0u64, 0u64, 0u64);
    for result in results {
        let Some((_, list)) = result.split_once(". ") else { continue };
        for part in list.split(';') {
            let Some((n, word)) = part.trim().split_once(' ') else { continue };
            let Ok(n) = n.parse::<u64>() else { continue };
            seen = true;
            match word {
                "passed" => run = run.saturating_add(n),
                "failed" => (run, failed) = (run.saturating_add(n), failed.saturating_add(n)),
                "ignored" | "filtered out" => skipped = skipped.saturating_add(n),
                _ => {}
            }
        }
    }
    let is_next = |line: &str| line.starts_with("---- ") || line == "failures:" || line.starts_with("note: ");
    let told = lines.iter().enumerate().filter_map(|(at, line)| {
        let name = line.strip_prefix("---- ")?.strip_suffix(" stdout ----")?;
        let block = after(lines, at, is_next);
        let start = block.iter().position(|line| line.contains("panicked at")).unwrap_or(0);
        Some(FailedTest::new(name, block.into_iter().skip(start)))
    });
    let named = lines.iter().filter_map(|line| {
        let name = line.strip_prefix("test ")?.strip_suffix("... FAILED")?;
        Some(FailedTest::new(name, []))
    });
    seen.then(|| Count::of("cargo test", run, failed, skipped).with(told.chain(named)))
}

fn nextest(lines: &[&str]) -> Option<Count> {
    let none = lines.iter().any(|line| line.trim() == "error: no tests to run");
    let summary = lines.iter().rev().find_map(|line| line.trim().strip_prefix("Summary ["));
    if none && summary.is_none_or(|line| line.contains(" 0 tests run")) {
        return Some(Count::of("cargo nextest", 0, 0, 0));
    }
    let (_, list) = summary?.split_once(']')?;
    let (run, list) = list.trim().split_once(" run")?;
    let run = run.split([' ', '/']).next().and_then(number)?;
    let of = |word: &str| {
        let part =
            list.split([':', ',', '(']).map(str::trim).find(|part| part.split(' ').nth(1) == Some(word));
        part.and_then(|part| number(part.split(' ').next()?)).unwrap_or(0)
    };
    let failed = of("failed") + of("timed") + of("exec");
    let failures = lines.iter().filter_map(|line| {
        let line = line.trim();
        let rest =
            ["FAIL [", "TIMEOUT [", "SIGABRT [", "SIGSEGV ["].iter().find_map(|word| line.strip_prefix(word));
        Some(FailedTest::new(rest?.split_once(']')?.1, []))
    });
    Some(Count::of("cargo nextest", run, failed, of("skipped")).with(failures))
}

fn go(lines: &[&str]) -> Option<Count> {
    let (mut packages, mut empty, mut broken) = (0u64, 0u64, 0u64);
    let (mut passed, mut failed, mut skipped) = (0u64, 0u64, 0u64);
    let mut is_verbose = false;
    let mut failures = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let inner = line.trim_start();
        if line.starts_with("ok  \t") {
            packages += 1;
            empty += u64::from(line.contains("[no tests to run]"));
        } else if line.starts_with("?   \t") || line.contains("\t[no test files]") {
            (packages, empty) = (packages + 1, empty + 1);
        } else if line.starts_with("FAIL\t") {
            (packages, broken) = (packages + 1, broken + 1);
        } else if let Some(name) = inner.strip_prefix("--- FAIL: ") {
            failed += 1;
            let block =
                after(lines, at, |line| line.trim_start().starts_with("--- ") || !line.starts_with(' '));
            failures.push(FailedTest::new(name.split(" (").next().unwrap_or(name), block));
        } else if inner.starts_with("--- PASS: ") {
            (passed, is_verbose) = (passed + 1, true);
        } else if inner.starts_with("--- SKIP: ") {
            skipped += 1;
        }
    }
    if packages == 0 {
        return None;
    }
    let run = is_verbose.then_some(passed + failed);
    let none = empty == packages && failed == 0;
    let failed = failed.max(broken);
    let count = Count { runner: "go test", run, failed, skipped, failures: Vec::new(), none };
    Some(Count { run: if none { Some(0) } else { run }, ..count.with(failures) })
}

fn jest(lines: &[&str]) -> Option<Count> {
    let none = |line: &&str| line.starts_with("No tests found, exiting with code");
    let end = lines.iter().rev().find_map(|line| counts(line.strip_prefix("Tests:")?, ","));
    let Some(counts) = end else {
        return lines.iter().any(none).then(|| Count::of("jest", 0, 0, 0));
    };
    // PHPUnit's closing line begins alike, and has its words before its numbers.
    if !counts.iter().any(|(_, word)| *word == "total") {
        return None;
    }
    let failed = sum(&counts, &["failed"]);
    let run = failed + sum(&counts, &["passed"]);
    let failures = lines.iter().enumerate().filter_map(|(at, line)| {
        let name = line
            .trim_start()
            .strip_prefix("● ")
            .filter(|name| name.contains(" › ") || line.starts_with("  "));
        Some(FailedTest::new(name?, after(lines, at, |line| line.trim_start().starts_with("● "))))
    });
    Some(Count::of("jest", run, failed, sum(&counts, &["skipped", "todo"])).with(failures))
}

fn vitest(lines: &[&str]) -> Option<Count> {
    let end = lines.iter().rev().find_map(|line| {
        let rest = line.trim_start().strip_prefix("Tests  ")?;
        counts(rest.rsplit_once('(').map_or(rest, |(list, _)| list), "|")
    });
    let Some(counts) = end else {
        let none = |line: &&str| line.trim().starts_with("No test files found, exiting with code");
        return lines.iter().any(none).then(|| Count::of("vitest", 0, 0, 0));
    };
    let failed = sum(&counts, &["failed"]);
    let run = failed + sum(&counts, &["passed"]);
    let failures = lines.iter().enumerate().filter_map(|(at, line)| {
        let name = line.trim_start().strip_prefix("FAIL  ").filter(|name| name.contains(" > "))?;
        Some(FailedTest::new(name, after(lines, at, |line| line.trim_start().starts_with("FAIL  "))))
    });
    Some(Count::of("vitest", run, failed, sum(&counts, &["skipped", "todo"])).with(failures))
}

fn mocha(lines: &[&str]) -> Option<Count> {
    let of = |word: &str| {
        let mut found = lines.iter().rev().filter_map(|line| {
            let (n, rest) = line.trim().split_once(' ')?;
            let named = rest.strip_prefix(word)?;
            (named.is_empty() || named.starts_with(" (")).then(|| n.parse::<u64>().ok())?
        });
        found.next()
    };
    let passed = of("passing")?;
    let failed = of("failing").unwrap_or(0);
    let is_number = |line: &str| line.split_once(") ").is_some_and(|(n, _)| n.parse::<u64>().is_ok());
    let start = lines.iter().position(|line| line.trim().ends_with(" failing")).unwrap_or(lines.len());
    let failures = lines.iter().enumerate().skip(start).filter_map(|(at, line)| {
        let (n, name) = line.trim().split_once(") ")?;
        n.parse::<u64>().ok()?;
        Some(FailedTest::new(name.trim_end_matches(':'), after(lines, at, |line| is_number(line.trim()))))
    });
    Some(Count::of("mocha", passed + failed, failed, of("pending").unwrap_or(0)).with(failures))
}

fn node(lines: &[&str]) -> Option<Count> {
    let of = |word: &str| {
        let mut found = lines.iter().rev().filter_map(|line| {
            let rest = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ "))?;
            rest.strip_prefix(word)?.strip_prefix(' ')?.parse::<u64>().ok()
        });
        found.next()
    };
    let (tests, passed) = (of("tests")?, of("pass")?);
    let failed = of("fail")? + of("cancelled").unwrap_or(0);
    let skipped = of("skipped").unwrap_or(0) + of("todo").unwrap_or(0);
    // A file without a test counts as one test that is named like the file.
    let names_file = |line: &&&str| {
        let rest = line.strip_prefix("ok ").and_then(|rest| rest.split_once(" - ")).map(|(_, name)| name);
        let rest = rest.or_else(|| line.strip_prefix("✔ "));
        let name =
            rest.map(|name| name.split(" (").next().unwrap_or(name).split(" # ").next().unwrap_or(name));
        name.is_some_and(|name| name.contains('/') && ftl_code::context::Language::of(name.trim()).is_some())
    };
    let files = lines.iter().filter(names_file).count() as u64;
    let has_subtests = lines.iter().any(|line| line.starts_with("    ok ") || line.starts_with("  ✔ "));
    let run = if has_subtests { passed + failed } else { (passed + failed).saturating_sub(files) };
    let failures = lines.iter().enumerate().filter_map(|(at, line)| {
        let inner = line.trim_start();
        let tap = inner.strip_prefix("not ok ").and_then(|rest| rest.split_once(" - ")).map(|(_, name)| name);
        let name = tap.or_else(|| inner.strip_prefix("✖ ").filter(|name| *name != "failing tests:"))?;
        let told =
            after(lines, at, |line| line.trim_start().starts_with(['✖', '✔']) || line.starts_with("ok "));
        let told = told.into_iter().filter(|line| line.contains("rror") || line.contains("expected"));
        Some(FailedTest::new(name.split(" (").next().unwrap_or(name), told))
    });
    let run = run.min(tests);
    Some(Count::of("node --test", run, failed, skipped).with(failures))
}

/// The Test Anything Protocol, as bats, prove and many scripts speak it: a plan, and a line for each test. What
/// stands further in belongs to a test that has a line of its own.
fn tap(lines: &[&str]) -> Option<Count> {
    // A runner that speaks it and closes with its own count is read by that.
    if lines.iter().any(|line| line.strip_prefix("# tests ").is_some_and(|n| n.parse::<u64>().is_ok())) {
        return None;
    }
    let plan = |line: &&str| {
        let rest = line.strip_prefix("1..")?;
        rest.split([' ', '#']).next()?.parse::<u64>().ok()
    };
    let planned = lines.iter().find_map(plan)?;
    let (mut run, mut skipped, mut failures) = (0_u64, 0_u64, Vec::new());
    for (at, line) in lines.iter().enumerate() {
        let (is_ok, rest) = match (line.strip_prefix("not ok"), line.strip_prefix("ok")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => continue,
        };
        if !rest.is_empty() && !rest.starts_with(' ') {
            continue;
        }
        let (name, directive) = rest.split_once(" # ").unwrap_or((rest, ""));
        let directive = directive.to_ascii_lowercase();
        if directive.starts_with("skip") || directive.starts_with("todo") {
            skipped = skipped.saturating_add(1);
            continue;
        }
        run = run.saturating_add(1);
        if !is_ok {
            let name = name.trim_start().trim_start_matches(|letter: char| letter.is_ascii_digit());
            let name = name.trim_start().trim_start_matches("- ");
            let told = after(lines, at, |line| line.starts_with("ok") || line.starts_with("not ok"));
            let told = told.into_iter().filter_map(|line| line.strip_prefix('#'));
            failures.push(FailedTest::new(name, told));
        }
    }
    let missing = planned.saturating_sub(run.saturating_add(skipped));
    if missing > 0 {
        failures.push(FailedTest::new(&format!("{missing} of {planned} planned tests did not run"), []));
    }
    let failed = (failures.len() as u64).saturating_add(missing.saturating_sub(1));
    Some(Count::of("TAP", run, failed, skipped).with(failures))
}

fn ctest(lines: &[&str]) -> Option<Count> {
    if lines.iter().any(|line| line.trim() == "No tests were found!!!") {
        return Some(Count::of("ctest", 0, 0, 0));
    }
    let end = lines.iter().rev().find_map(|line| line.split_once("% tests passed, "))?;
    let (failed, total) = end.1.split_once(" out of ")?;
    let (failed, total) = (number(failed)?, number(total)?);
    let named = |line: &&str| {
        let rest = line.trim().split_once(" - ")?.1;
        let name = rest.strip_suffix("(Failed)").or_else(|| rest.split_once(" (").map(|(name, _)| name));
        line.starts_with('\t').then(|| FailedTest::new(name?, []).into())?
    };
    let failures = lines.iter().filter_map(named);
    Some(Count::of("ctest", total, failed, 0).with(failures))
}

fn phpunit(lines: &[&str]) -> Option<Count> {
    if lines.iter().any(|line| line.trim() == "No tests executed!") {
        return Some(Count::of("phpunit", 0, 0, 0));
    }
    let good = lines.iter().rev().find_map(|line| {
        let (tests, rest) = line.strip_prefix("OK (")?.split_once(" test")?;
        rest.contains("assertion").then(|| tests.parse::<u64>().ok())?
    });
    if let Some(tests) = good {
        return Some(Count::of("phpunit", tests, 0, 0));
    }
    let end = lines.iter().rev().find(|line| line.starts_with("Tests: ") && line.contains("Assertions: "))?;
    let of = |word: &str| {
        let part = end.split(',').find_map(|part| part.trim().strip_prefix(word));
        part.and_then(number).unwrap_or(0)
    };
    let skipped = of("Skipped: ") + of("Incomplete: ");
    let failed = of("Failures: ") + of("Errors: ");
    let failures = lines.iter().enumerate().filter_map(|(at, line)| {
        let (n, name) = line.split_once(") ").filter(|(_, name)| name.contains("::"))?;
        n.parse::<u64>().ok()?;
        Some(FailedTest::new(name, after(lines, at, |line| line.is_empty())))
    });
    Some(Count::of("phpunit", of("Tests: ").saturating_sub(skipped), failed, skipped).with(failures))
}

fn rspec(lines: &[&str]) -> Option<Count> {
    let end = lines.iter().rev().find_map(|line| {
        let counts = counts(line, ",")?;
        let is_end = matches!(counts.first(), Some((_, "example" | "examples")));
        is_end.then_some(counts)
    })?;
    let pending = sum(&end, &["pending"]);
    let failed = sum(&end, &["failure", "failures"]);
    let outside = lines.iter().any(|line| line.contains("error occurred outside of examples"));
    let failures = lines.iter().filter_map(|line| {
        let (place, name) = line.strip_prefix("rspec ")?.split_once(" # ")?;
        Some(FailedTest::new(name, [place]))
    });
    let run = sum(&end, &["example", "examples"]).saturating_sub(pending);
    let count = Count::of("rspec", run, failed, pending).with(failures);
    Some(Count { none: count.none && !outside, ..count })
}

fn dotnet(lines: &[&str]) -> Option<Count> {
    let (mut seen, mut run, mut failed, mut skipped) = (false, 0u64, 0u64, 0u64);
    for line in lines {
        let Some((_, list)) = line.split_once("!  - Failed:") else { continue };
        let list = format!("Failed:{list}");
        let of = |word: &str| list.split(',').find_map(|part| number(part.trim().strip_prefix(word)?));
        let (Some(bad), Some(good)) = (of("Failed:"), of("Passed:")) else { continue };
        seen = true;
        run = run.saturating_add(good.saturating_add(bad));
        failed = failed.saturating_add(bad);
        skipped = skipped.saturating_add(of("Skipped:").unwrap_or(0));
    }
    if !seen {
        let none = lines.iter().any(|line| line.trim_start().starts_with("No test is available in"));
        return none.then(|| Count::of("dotnet test", 0, 0, 0));
    }
    let failures = lines.iter().enumerate().filter_map(|(at, line)| {
        let name = line.strip_prefix("  Failed ")?.split(" [").next()?;
        Some(FailedTest::new(name, after(lines, at, |line| line.trim() == "Stack Trace:")))
    });
    Some(Count::of("dotnet test", run, failed, skipped).with(failures))
}

fn maven(lines: &[&str]) -> Option<Count> {
    let (mut seen, mut run, mut failed, mut skipped) = (false, 0u64, 0u64, 0u64);
    for line in lines.iter().filter(|line| !line.contains("Time elapsed")) {
        let Some((_, list)) = line.split_once("Tests run: ") else { continue };
        let of =
            |word: &str| list.split(',').find_map(|part| part.trim().strip_prefix(word)).and_then(number);
        let (Some(all), Some(bad), Some(wrong)) =
            (list.split(',').next().and_then(number), of("Failures: "), of("Errors: "))
        else {
            continue;
        };
        seen = true;
        let left = of("Skipped: ").unwrap_or(0);
        run = run.saturating_add(all.saturating_sub(left));
        failed = failed.saturating_add(bad.saturating_add(wrong));
        skipped = skipped.saturating_add(left);
    }
    if !seen {
        let none = lines.iter().any(|line| line.ends_with("No tests to run."));
        return none.then(|| Count::of("maven", 0, 0, 0));
    }
    let failures = lines.iter().filter_map(|line| {
        let rest = line.strip_prefix("[ERROR]   ")?;
        let (name, message) = rest.split_once(' ').unwrap_or((rest, ""));
        name.contains('.').then(|| FailedTest::new(name, [message]))
    });
    Some(Count::of("maven", run, failed, skipped).with(failures))
}

fn gradle(lines: &[&str]) -> Option<Count> {
    let bad = lines.iter().rev().find_map(|line| {
        let (all, rest) =
            line.split_once(" tests completed, ").or_else(|| line.split_once(" test completed, "))?;
        let skipped = rest.split(", ").find_map(|part| number(part.strip_suffix(" skipped")?)).unwrap_or(0);
        Some((all.trim().parse::<u64>().ok()?, number(rest.split(',').next()?)?, skipped))
    });
    if let Some((all, failed, skipped)) = bad {
        let failures = lines.iter().enumerate().filter_map(|(at, line)| {
            let name = line.strip_suffix(" FAILED").filter(|name| name.contains(" > "))?;
            Some(FailedTest::new(name, after(lines, at, |line| line.is_empty())))
        });
        return Some(Count::of("gradle", all.saturating_sub(skipped), failed, skipped).with(failures));
    }
    let built = lines.iter().any(|line| line.starts_with("BUILD SUCCESSFUL"));
    let task = |line: &&&str| {
        let name = line.strip_prefix("> Task :").map(|rest| rest.split(' ').next().unwrap_or(rest));
        name.is_some_and(|name| {
            name.rsplit(':').next().is_some_and(|task| task.to_lowercase().ends_with("test"))
        })
    };
    let tasks: Vec<&&str> = lines.iter().filter(task).collect();
    if !built || tasks.is_empty() {
        return None;
    }
    // Gradle does not count what passes: only that a task had no source can be told.
    let none = tasks.iter().all(|line| line.ends_with("NO-SOURCE"));
    let run = none.then_some(0);
    Some(Count { runner: "gradle", run, none, ..Count::default() })
}
