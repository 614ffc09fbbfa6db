//! What a build may take: its mode, how many tools, how many repairs, how many files it may read while it plans.
//!
//! The numbers of the protocols are the defaults; settings, a plan and the command line may give others. Pure: it
//! reads no file, and never gives more than the limits named here.

use ftl_core::catalogue::plan::DirectMode;
use ftl_core::catalogue::spec::BuildMode;

use crate::plan_file::{MAX_BUDGET, MAX_PLAN_READS, MAX_REPAIRS, PlanTask};

/// How many tools a direct build takes.
pub const DIRECT_TOOLS: u64 = 3;

/// How many tools the formula of the FTL protocol gives to a full build at most.
const MAX_FORMULA: u64 = 9;

/// One, as factors are kept: in thousandths.
pub const FACTOR_ONE: u64 = 1000;

/// What the settings and the command line say about builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildSettings {
    /// The number of tools that the person gave on the command line: it stands whatever anything else says.
    pub given_tools: Option<u64>,
    /// How many tools a full build has at least.
    pub tools: Option<u64>,
    /// What the tools of the plan, or of the formula, are multiplied by, in thousandths.
    pub tools_factor: u64,
    /// Whether small tasks are built in the direct mode.
    pub direct: DirectMode,
    /// How often a red verify goes back to its author.
    pub repairs: u64,
    /// How many files a builder may read while it plans.
    pub plan_reads: u64,
}

impl Default for BuildSettings {
    fn default() -> BuildSettings {
        BuildSettings {
            given_tools: None,
            tools: None,
            tools_factor: FACTOR_ONE,
            direct: DirectMode::Auto,
            repairs: 0,
            plan_reads: 0,
        }
    }
}

/// What is known of a task when its budget is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskFacts {
    /// Whether failures are known that it should avoid.
    pub failures: bool,
    /// How sure the framework is.
    pub confidence: f64,
    /// Whether it is the only task, and changes one file that its brief shows whole.
    pub is_small: bool,
}

/// The budget of one build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The mode that it begins in.
    pub mode: BuildMode,
    /// How many tools it has in that mode.
    pub tools: u64,
    /// How many it has in the full mode.
    pub full_tools: u64,
    /// How often a red verify goes back to its author, in the full mode.
    pub repairs: u64,
    /// How many files may be read while it plans.
    pub plan_reads: u64,
}

impl BuildSettings {
    /// The budget of a task. What the command line says counts most, then the plan, then the settings.
    pub fn budget_of(&self, task: &PlanTask, known: TaskFacts) -> Budget {
        let full_tools = self.full_tools(task, known);
        let wants_full = task.direct.unwrap_or(self.direct) == DirectMode::Never
            || self.given_tools.is_some_and(|tools| tools > DIRECT_TOOLS)
            || task.given_budget().is_some_and(|tools| tools > DIRECT_TOOLS);
        let is_direct = known.is_small && !known.failures && !wants_full;
        Budget {
            mode: if is_direct { BuildMode::Direct } else { BuildMode::Full },
            tools: if is_direct { DIRECT_TOOLS } else { full_tools },
            full_tools,
            repairs: task.repairs.unwrap_or(self.repairs).min(MAX_REPAIRS),
            plan_reads: task.plan_reads.unwrap_or(self.plan_reads).min(MAX_PLAN_READS),
        }
    }

    fn full_tools(&self, task: &PlanTask, known: TaskFacts) -> u64 {
        if let Some(tools) = self.given_tools {
            return tools.clamp(1, MAX_BUDGET);
        }
        let planned = formula(task, known).max(task.budget);
        let scaled = planned.saturating_mul(self.tools_factor).div_ceil(FACTOR_ONE);
        scaled.max(self.tools.unwrap_or(0)).clamp(1, MAX_BUDGET)
    }
}

/// The formula of the FTL protocol (docs/origins.md): five tools, one for each further file, two where failures are known or the
/// framework is sure.
fn formula(task: &PlanTask, known: TaskFacts) -> u64 {
    let files = (task.delta.len() as u64).saturating_sub(1);
    let extra = if known.failures || known.confidence >= 0.6 { 2 } else { 0 };
    (5 + files + extra).min(MAX_FORMULA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_file::{self, Reading};

    fn task(files: usize, fields: &str) -> PlanTask {
        let delta: Vec<String> = (0..files).map(|at| format!("{at}.rs")).collect();
        let mut task = serde_json::json!({ "seq": "001", "slug": "a", "delta": delta, "verify": "true" });
        let more: serde_json::Value = serde_json::from_str(&format!("{{{fields}}}")).unwrap();
        for (key, value) in more.as_object().unwrap() {
            task[key] = value.clone();
        }
        let plan = serde_json::json!({ "objective": "o", "tasks": [task] });
        plan_file::read_as(&plan.to_string(), Reading::default()).unwrap().tasks.remove(0)
    }

    /// settings | files and what is known (s: small, f: failures, c: confident) | fields of the task → mode tools
    /// full repairs reads
    const TABLE: &str = r#"
        -                    | 1 s  |                                   → direct 3 5 0 0
        -                    | 1 s  | "budget": 3                       → direct 3 5 0 0
        -                    | 1 s  | "budget": 4                       → full 5 5 0 0
        -                    | 1 s  | "budget": 9                       → full 9 9 0 0
        -                    | 1 sf |                                   → full 7 7 0 0
        -                    | 1 sc |                                   → direct 3 7 0 0
        -                    | 1    |                                   → full 5 5 0 0
        -                    | 3 f  |                                   → full 9 9 0 0
        -                    | 30 f |                                   → full 9 9 0 0
        -                    | 30 f | "budget": 12                      → full 12 12 0 0
        -                    | 1 s  | "direct": "never"                 → full 5 5 0 0
        never                | 1 s  |                                   → full 5 5 0 0
        never                | 1 s  | "direct": "auto"                  → direct 3 5 0 0
        tools=40             | 1 s  |                                   → direct 3 40 0 0
        tools=40             | 2    | "budget": 7                       → full 40 40 0 0
        tools=40             | 2    | "budget": 60                      → full 60 60 0 0
        factor=2500          | 2    | "budget": 7                       → full 18 18 0 0
        factor=500           | 2    | "budget": 7                       → full 4 4 0 0
        factor=2500 tools=15 | 2    |                                   → full 15 15 0 0
        factor=900000        | 2    | "budget": 900                     → full 1000 1000 0 0
        given=25 tools=40    | 1 s  | "budget": 60                      → full 25 25 0 0
        given=2              | 1 s  |                                   → direct 3 2 0 0
        repairs=2 reads=12   | 2    |                                   → full 6 6 2 12
        repairs=2 reads=12   | 2    | "repairs": 0, "plan_reads": 3     → full 6 6 0 3
    "#;

    #[test]
    fn a_budget_is_made_of_command_line_plan_and_settings() {
        let lines: Vec<&str> = TABLE.lines().filter(|line| !line.trim().is_empty()).collect();
        assert_eq!(lines.len(), 24);
        for line in lines {
            let (given, wanted) = line.split_once('→').unwrap();
            let cells: Vec<&str> = given.split('|').map(str::trim).collect();
            let (files, marks) = cells[1].split_once(' ').unwrap_or((cells[1], ""));
            let known = TaskFacts {
                failures: marks.contains('f'),
                confidence: if marks.contains('c') { 0.6 } else { 0.0 },
                is_small: marks.contains('s'),
            };
            let found = settings(cells[0]).budget_of(&task(files.parse().unwrap(), cells[2]), known);
            let mode = match found.mode {
                BuildMode::Full => "full",
                BuildMode::Direct => "direct",
            };
            let Budget { tools, full_tools, repairs, plan_reads, .. } = found;
            assert_eq!(
                format!("{mode} {tools} {full_tools} {repairs} {plan_reads}"),
                wanted.trim(),
                "{line}"
            );
        }
    }

    fn settings(words: &str) -> BuildSettings {
        let mut settings = BuildSettings::default();
        for word in words.split_whitespace() {
            let (key, value) = word.split_once('=').unwrap_or((word, "0"));
            let value: u64 = value.parse().unwrap();
            match key {
                "-" => {}
                "never" => settings.direct = DirectMode::Never,
                "tools" => settings.tools = Some(value),
                "given" => settings.given_tools = Some(value),
                "factor" => settings.tools_factor = value,
                "repairs" => settings.repairs = value,
                "reads" => settings.plan_reads = value,
                other => panic!("{other}"),
            }
        }
        settings
    }
}
