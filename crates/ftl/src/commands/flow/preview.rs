//! A plan of which nothing was built, as people and programs read it.

use ftl_code::commands::Commands;
use ftl_command::{CommandError, ExitStatus, Out};
use ftl_core::json::{Json, JsonExt as _};
use ftl_folder::id::RunId;
use ftl_records::plan_file::preview::Preview;
use ftl_records::plan_file::{CampaignPlan, PlanTask, Worker};

use ftl_view::paint::{self, paint, safe};

/// How many levels of a graph are shown by how far a line is from the edge.
const MAX_LEVELS: usize = 8;

/// Shows a plan and how it would be carried out.
pub(super) fn show(
    run: Option<&RunId>,
    plan: &CampaignPlan,
    commands: &Commands,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let preview = Preview::of(plan)
        .map_err(|message| CommandError::new(format!("the plan has no order: {message}"), "mend the plan"))?;
    if out.is_json() {
        let mut json = preview.to_json();
        json.put("run", run.map_or(Json::Null, |run| Json::from(run.to_string())));
        json.put("plan", plan.to_json());
        json.put("commands", commands.to_json().unwrap_or(Json::Null));
        out.json(&json)?;
        return Ok(ExitStatus::Done);
    }
    let mut text = format!("{}{}", commands_text(commands), preview_text(plan, &preview));
    if let Some(run) = run {
        text.push_str(&format!("{} `ftl resume {run}` carries this plan out\n", paint(paint::HINT, "hint:")));
    }
    out.text(&text)?;
    Ok(ExitStatus::Done)
}

/// How the repository is tested, so that verify commands can be compared with it.
fn commands_text(commands: &Commands) -> String {
    let head = paint(paint::STRONG, "tests");
    if commands.tests.is_empty() {
        return format!("{head} none found: set worktree.tests in ftl.toml\n");
    }
    let named = |command: &String| format!("{} ({})", safe(command), safe(commands.origin(command)));
    format!("{head} {}\n", commands.tests.iter().map(named).collect::<Vec<_>>().join(", "))
}

/// Who does a task, and how much they may do.
fn done_by(task: &PlanTask) -> String {
    match task.worker {
        Worker::Builder => format!("budget {}", task.budget),
        Worker::Coder => String::from("by a coder"),
    }
}

fn preview_text(plan: &CampaignPlan, preview: &Preview<'_>) -> String {
    let framework = plan.framework.as_deref().unwrap_or("none");
    let mut text = format!(
        "{} {}\n{} framework {}, {}, {} deep, {} calls of tools in all\n",
        paint(paint::STRONG, "plan"),
        safe(&plan.objective),
        paint(paint::QUIET, "    "),
        safe(framework),
        paint::count(plan.tasks.len(), "task"),
        preview.depth(),
        preview.budget()
    );
    for (task, depth) in &preview.order {
        let level = (*depth).min(MAX_LEVELS);
        let after = if task.depends.is_empty() {
            String::new()
        } else {
            format!(", after {}", safe(&task.depends.join(", ")))
        };
        text.push_str(&format!(
            "{}{} {} {} (depth {depth}, {}{after})\n",
            "  ".repeat(level + 1),
            paint(paint::STRONG, safe(&task.seq)),
            safe(&task.slug),
            task.kind.word(),
            done_by(task),
        ));
        let inner = "  ".repeat(level + 3);
        if !task.delta.is_empty() {
            text.push_str(&format!("{inner}changes {}\n", safe(&task.delta.join(", "))));
        }
        text.push_str(&format!("{inner}verify  {}\n", safe(&task.verify)));
    }
    for one in &preview.conflicts {
        let word = paint(paint::WARNING, "conflict:");
        let (left, right) = (safe(&one.tasks.0), safe(&one.tasks.1));
        let files = safe(&one.files.join(", "));
        text.push_str(&format!(
            "{word} {left} and {right} both change {files}; they run one after the other\n"
        ));
    }
    if !preview.is_whole {
        text.push_str("there are more conflicts than are told here\n");
    }
    text.push_str("nothing was built\n");
    text
}
