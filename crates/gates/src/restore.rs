//! Which files of the base the final verify needs: its own tests and the settings of its runners.
//!
//! This is data for the executor that makes the clean checkout. What the delta names is the work itself and is left
//! alone, and so is what a plan or a person allowed; a test inside a product file cannot be put back without the
//! product.

use super::file_role::{FileRole, part};
use ftl_code::finding::{Brief, FindingAllowance, is_at_or_below};
use ftl_git::change::Change;

/// What is to be done to a checkout of the work before the final verify, each list in the order of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restore {
    /// Files to be put back as the base has them.
    pub put_back: Vec<String>,
    /// Files that the base does not have and that would steer its runners.
    pub take_away: Vec<String>,
}

/// What the final verify needs from the base.
pub fn restore(change: &Change, brief: &Brief, allowed: &[FindingAllowance]) -> Restore {
    let mut needed = Restore::default();
    for file in &change.files {
        let path = file.path.as_str();
        let is_allowed =
            allowed.iter().filter_map(|one| one.path.as_deref()).any(|entry| is_at_or_below(path, entry));
        if brief.covers(path) || is_allowed {
            continue;
        }
        match part(path, brief) {
            FileRole::Test
            | FileRole::Snapshot
            | FileRole::Fixture
            | FileRole::Ci
            | FileRole::VerifyScript => {
                if file.before.is_some() {
                    needed.put_back.push(path.to_owned());
                }
            }
            FileRole::Hook | FileRole::Settings | FileRole::Targets => match file.before {
                Some(_) => needed.put_back.push(path.to_owned()),
                None => needed.take_away.push(path.to_owned()),
            },
            FileRole::Product => {}
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integrity::tests::change_of;

    /// One line a case: the delta, what differs, what is put back, what is taken away.
    const CASES: &str = "
        src/a.py          | ~src/a.py ~tests/test_a.py    | tests/test_a.py |
        src/a.py          | ~src/a.py -tests/test_a.py    | tests/test_a.py |
        src/a.py          | +tests/test_new.py            |                 |
        tests/test_a.py   | ~tests/test_a.py              |                 |
        tests             | ~tests/test_a.py              |                 |
        src               | ~pytest.ini +conftest.py      | pytest.ini      | conftest.py
        src               | +sitecustomize.py             |                 | sitecustomize.py
        src               | ~Makefile ~package.json       | Makefile package.json |
        src               | ~.github/workflows/ci.yml     | .github/workflows/ci.yml |
        src               | ~check.sh                     | check.sh        |
        src               | ~tests/__snapshots__/a.snap   | tests/__snapshots__/a.snap |
        src               | ~docs/x.md ~lib/b.py          |                 |";

    #[test]
    fn the_base_s_own_tests_and_settings_come_back_unless_the_delta_names_them() {
        for line in CASES.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let delta = cells[0].split_whitespace().map(str::to_owned).collect();
            let brief = Brief { delta, verify: "./check.sh".to_owned(), ..Brief::default() };
            let found = restore(&change_of(cells[1]), &brief, &[]);
            assert_eq!(found.put_back.join(" "), cells[2], "{line}");
            assert_eq!(found.take_away.join(" "), cells[3], "{line}");
        }
    }

    #[test]
    fn what_somebody_allowed_stays() {
        let change = change_of("~tests/test_a.py");
        let allowed = [FindingAllowance::parse("test_removed tests/test_a.py", "Ada").unwrap()];
        assert_eq!(restore(&change, &Brief::default(), &allowed), Restore::default());
    }
}
