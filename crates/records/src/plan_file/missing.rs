//! The files that the verify commands of a plan name: each must be there, or be made by the plan.
//!
//! Nothing is run here, and nothing is refused that might work.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use super::CampaignPlan;
use ftl_code::commands::files::named_files;
use ftl_code::names::bare;

/// How many missing files are told.
const MAX_TOLD: usize = 20;

/// A file that the verify command of a task names, that is not there, and that no task of the plan makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFile {
    /// The seq of the task.
    pub task: String,
    /// The file, as the command names it.
    pub file: String,
}

impl fmt::Display for MissingFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "task {}: verify names `{}`, which does not exist, and no task of the plan makes it \
             (hint: name a file that is there, or add it to the delta of the task that writes it)",
            self.task, self.file
        )
    }
}

/// The files that verify commands of a plan name and that neither the repository has nor a task makes.
pub fn missing_files(plan: &CampaignPlan, root: &Path) -> Vec<MissingFile> {
    let made: BTreeSet<&str> =
        plan.tasks.iter().flat_map(|task| &task.delta).map(|path| bare(path)).collect();
    let mut missing = Vec::new();
    for task in &plan.tasks {
        for file in named_files(&task.verify) {
            // The file itself, or a folder that it lies in: a look at all of them would cost the square of a long plan.
            let above = file.match_indices('/').map(|(at, _)| &file[..at]);
            let is_made = made.contains(file.as_str()) || above.into_iter().any(|path| made.contains(path));
            if !is_made && !root.join(&file).exists() {
                missing.push(MissingFile { task: task.seq.clone(), file });
            }
        }
    }
    missing.truncate(MAX_TOLD);
    missing
}

#[cfg(test)]
mod tests {
    use super::super::{Reading, read_as};
    use super::*;

    #[test]
    fn a_file_must_be_there_or_be_made() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("tests")).unwrap();
        std::fs::write(root.path().join("tests/there.py"), "").unwrap();
        let plan = r#"{"objective": "x", "tasks": [
            {"seq": "001", "slug": "a", "type": "SPEC", "delta": ["./tests/made.py", "lib"], "verify": "pytest tests/made.py", "budget": 3},
            {"seq": "002", "slug": "b", "delta": ["a.py"], "verify": "pytest tests/there.py tests/made.py", "budget": 3},
            {"seq": "003", "slug": "c", "delta": ["a.py"], "verify": "pytest lib/below.py && node gone.js", "budget": 3}]}"#;
        let plan = read_as(plan, Reading::default()).unwrap();
        let missing = missing_files(&plan, root.path());
        assert_eq!(missing, [MissingFile { task: "003".into(), file: "gone.js".into() }]);
        assert!(missing[0].to_string().contains("no task of the plan makes it"));
    }
}
