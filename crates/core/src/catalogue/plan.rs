//! The shape of a plan: `plan.json`, as a planner writes it and a campaign runs it.
//!
//! A value of these types has been read and validated; text that is not a plan yet stays text.

use super::scalars::Depends;
use crate::value::Value;

crate::choices! {
    /// What sort of work a task is.
    TaskType {
        /// Writes down what must hold, as tests.
        Spec = "SPEC",
        /// Changes the code until it holds.
        Build = "BUILD",
        /// Shows that it holds.
        Verify = "VERIFY",
    }

    /// Which protocol does a task.
    Worker {
        /// The builder: one brief, a few tools.
        Builder = "builder",
        /// The coder, with an architect's reviews.
        Coder = "coder",
    }

    /// Whether a small task may be built in the direct mode.
    DirectMode {
        /// Where it is small enough.
        Auto = "auto",
        /// It is always built in the full mode.
        Never = "never",
    }
}

crate::records! {
    /// What code of a framework must and must not look like.
    Idioms {
        /// Idioms that the code must use.
        required: Vec<String>,
        /// Idioms that the code must not use.
        forbidden: Vec<String>,
    }

    /// A plan: an objective and the tasks that reach it.
    Plan {
        /// The version of the format, `1.0`.
        _schema_version: Option<String>,
        /// What the plan is to reach.
        objective: String,
        /// A short name in kebab case.
        campaign: Option<String>,
        /// The framework of the repository, or `none`.
        framework: Option<String>,
        /// How sure the planner is of the framework, from 0 to 1.
        framework_confidence: Option<f64>,
        /// The framework's idioms, where the registry has none.
        idioms: Option<Idioms>,
        /// The tasks, in the order of the document.
        tasks: Vec<PlanTask>,
    }
}

crate::records! {
    /// One task of a plan.
    PlanTask {
        /// Its number: three digits, unique in the plan.
        seq: String,
        /// Its short name in kebab case.
        slug: String,
        /// What sort of work it is; BUILD unless said.
        kind as "type": Option<TaskType>,
        /// The files it may change: paths inside the repository, no patterns.
        delta: Vec<String>,
        /// The files among them that do not exist yet.
        creates: Option<Vec<String>>,
        /// The command that shows whether it is done.
        verify: String,
        /// The test file behind that command; derived from the command when left out.
        verify_source: Option<String>,
        /// How many tools it may take; 5 unless said.
        budget: Option<u64>,
        /// Whether it may be built in the direct mode; the setting builder.direct unless said.
        direct: Option<DirectMode>,
        /// How often a red verify goes back to its author; the setting builder.repairs unless said.
        repairs: Option<u64>,
        /// How many files its builder may read while it plans; the setting builder.plan_reads unless said.
        plan_reads: Option<u64>,
        /// The tasks that must be complete before it starts, by seq.
        depends: Option<Depends>,
        /// Commands that must succeed before the verify command is worth running.
        preflight: Option<Vec<String>>,
        /// For a file of the delta the lines that matter, as `path: "start-end"`.
        target_lines: Option<Value>,
        /// Which protocol does it; the setting campaign.worker unless said.
        worker: Option<Worker>,
        /// Findings of gates that do not stop it, each `KIND` or `KIND PATH`.
        allow: Option<Vec<String>>,
        /// What is wanted and why, and how anybody can tell that it is done; for a coder.
        story: Option<String>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Typed;

    #[test]
    fn a_plan_reads_and_keeps_its_spelling() {
        let text = r#"{"objective":"add login","tasks":[{"seq":"001","slug":"login","type":"SPEC",
            "delta":["src/login.rs"],"verify":"cargo test","depends":"none","worker":"coder"}]}"#;
        let plan: Plan = serde_json::from_str(text).unwrap();
        assert_eq!(plan.tasks[0].kind, Some(TaskType::Spec));
        let value = Value::of(&plan).unwrap();
        assert_eq!(value.field("tasks").items()[0].field("type"), &Value::text("SPEC"));
        assert_eq!(Plan::ty().accept(&value), Ok(()));
        assert_eq!(value.to::<Plan>().unwrap(), plan);
    }
}
