//! The hands of the FTL protocol's own actions: campaigns, plans, explorations, workspaces, lessons.
//!
//! They are the same functions that the commands use. Each can be asked for again after a crash: what
//! it has done already it finds done, and answers the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ftl_core::catalogue::build::{FileRead, FileText};
use ftl_core::catalogue::campaign as shapes;
use ftl_core::catalogue::flow;
use ftl_core::catalogue::plan::Plan as PlanShape;
use ftl_core::catalogue::spec::{Spec, Used as UsedShape};
use ftl_core::machine::Cause;
use ftl_core::plan::Status;
use ftl_core::run::{Failure, FailureKind};
use ftl_core::value::Value;
use ftl_memory::Kind;

use super::Workshop;
use super::shell::Shell;
use crate::build_budget::{BuildSettings, Known};
use crate::clock;
use crate::commands::missing_files;
use crate::context::{self, Sources};
use crate::decision;
use crate::exploration::{self, Meta};
use crate::machine;
use crate::paper::briefs::Ends;
use crate::paper::campaign::{Campaign, no_campaign};
use crate::paper::lessons::now;
use crate::paper::observer::Verifier;
use crate::paper::{Paper, PaperError, views};
use crate::plan_file::merge::CampaignTask;
use crate::plan_file::{self, Plan, Reading, Task};
use crate::process::Ended;
use crate::workspace::{BlockReason, LessonKind, Status as WorkspaceStatus, Used};
use ftl_core::json::Json;

/// How long a verify command of a blocked workspace may take.
const VERIFY_LIMIT: Duration = Duration::from_secs(30);

/// A file with more lines is not seen whole in a brief, and so is no matter for a direct build.
const DIRECT_LINES: usize = 60;

/// How many tasks at work an answer lists.
const MAX_LISTED: usize = 16;

/// How much of a file an action reads.
const MAX_FILE_BYTES: usize = 1024 * 1024;

impl Workshop {
    /// The same with hands for campaigns, plans, explorations, workspaces and lessons.
    #[must_use]
    pub fn with_paper(self, paper: &Arc<Paper>, shell: &Arc<Shell>) -> Workshop {
        let workshop = campaigns(self, paper);
        let workshop = plans(workshop, paper);
        let workshop = workspaces(workshop, paper);
        lessons(workshop, paper, shell)
    }
}

impl From<PaperError> for Failure {
    /// What the paperwork did not do, as a failure of an action.
    fn from(error: PaperError) -> Failure {
        let (kind, cause) = match &error {
            PaperError::Refused { .. } | PaperError::Plan(_) | PaperError::Malformed { .. } => {
                (FailureKind::Failed, None)
            }
            PaperError::Disk { message, .. } => (FailureKind::CouldNotRun, Cause::of_words(message)),
            PaperError::Store(error) => (FailureKind::CouldNotRun, machine::cause_of_store(error)),
        };
        machine::judged(cause, kind, error.to_string())
    }
}

/// A value of the paperwork in the shape that protocols know.
pub(super) fn shaped<T: for<'de> serde::Deserialize<'de>>(json: &Json) -> Result<T, Failure> {
    json.to()
        .map_err(|error| Failure::new(FailureKind::CouldNotRun, format!("an answer does not fit: {error}")))
}

/// A shape as the paperwork reads it.
fn json_of<T: serde::Serialize>(shape: &T) -> Result<Json, Failure> {
    Json::of(shape).map_err(|error| Failure::new(FailureKind::CouldNotRun, error.to_string()))
}

/// How the tasks of a campaign stand. Those that somebody has asked to begin already count as running: they are not
/// started again, and nothing begins beside them that changes the same files.
pub(super) fn tasks_of(
    campaign: &Campaign,
    ready: Vec<&CampaignTask>,
    asked: &BTreeSet<String>,
    downstream: &BTreeMap<String, usize>,
) -> Result<shapes::Tasks, Failure> {
    let ready = campaign.startable(ready, asked, downstream);
    let is_running = |one: &&CampaignTask| one.status == Status::InProgress || asked.contains(&one.task.seq);
    // Whoever asks wants to know whether somebody works; a journal that lists all of them in every round would grow
    // with the square of their number.
    let running = campaign.tasks().iter().filter(is_running).take(MAX_LISTED);
    let pending = campaign.tasks().iter().filter(|one| one.status == Status::Pending).count();
    let waiting = pending.saturating_sub(ready.len()) as u64;
    Ok(shapes::Tasks {
        ready: ready.iter().map(|one| shaped(&task_json(one))).collect::<Result<_, _>>()?,
        running: running.map(|one| shaped(&task_json(one))).collect::<Result<_, _>>()?,
        waiting_count: Some(waiting),
    })
}

fn campaign_of(paper: &Paper) -> Result<Campaign, Failure> {
    paper.campaign()?.ok_or_else(|| Failure::from(no_campaign()))
}

fn campaigns(workshop: Workshop, paper: &Arc<Paper>) -> Workshop {
    let shared = || paper.clone();
    let (create, add, tasks, update) = (shared(), shared(), shared(), shared());
    let (cascade, propagate, replan, merge) = (shared(), shared(), shared(), shared());
    let (roots, complete) = (shared(), shared());
    workshop
        .doing(move |job, asked: shapes::CampaignCreate| {
            let made = create.create_campaign_once(
                &job.key(),
                &asked.objective,
                asked.framework.as_deref(),
                &clock::local(),
            )?;
            let created_at = made.field("created_at").and_then(Json::as_str).map(str::to_owned);
            Ok(shapes::Opened { objective: made.objective().to_owned(), branch: None, created_at })
        })
        .doing(move |_, asked: shapes::CampaignAddTasks| {
            let text = json_of(&asked.plan)?.line();
            add.add_tasks(&text, &clock::local())?;
            let seqs: Vec<String> =
                campaign_of(&add)?.tasks().iter().map(|one| one.task.seq.clone()).collect();
            Ok(shapes::Registered { count: seqs.len() as u64, seqs })
        })
        .doing(move |_, _: shapes::CampaignTasks| {
            let campaign = campaign_of(&tasks)?;
            tasks_of(&campaign, campaign.ready()?, &BTreeSet::new(), &campaign.downstream()?)
        })
        .doing(move |_, asked: shapes::CampaignUpdateTask| {
            let (status, word) = match asked.verdict {
                shapes::Verdict::Complete => (shapes::TaskStatus::Complete, "complete"),
                shapes::Verdict::Blocked | shapes::Verdict::Escalated | shapes::Verdict::Error => {
                    (shapes::TaskStatus::Blocked, "blocked")
                }
            };
            update.update_task(&asked.task, word, &clock::local())?;
            Ok(shapes::Updated { seq: asked.task, status })
        })
        .doing(move |_, _: shapes::CampaignCascadeStatus| {
            let found = cascade.cascade()?;
            let mut json = views::cascade(&found);
            for key in ["complete", "blocked", "pending", "ready"] {
                if json.get(key).is_none() {
                    json.put(key, Json::Int(0));
                }
            }
            if json.get("unreachable").is_none() {
                json.put("unreachable", Json::List(Vec::new()));
            }
            shaped(&json)
        })
        .doing(move |_, _: shapes::CampaignPropagateBlocks| {
            let blocked = propagate.propagate_blocks(&clock::local())?;
            Ok(shapes::Propagated { count: blocked.len() as u64, blocked })
        })
        .doing(move |_, asked: shapes::CampaignReplanInput| {
            let evidence = replan.evidence()?;
            let mut json = campaign_of(&replan)?.replan_input(&evidence);
            json.put("reason", asked.reason);
            let rest = json.get("remaining_tasks").map(|rest| rest.items().to_vec()).unwrap_or_default();
            json.put("remaining_tasks", Json::List(rest.into_iter().map(listed).collect()));
            shaped(&json)
        })
        .doing(move |_, asked: shapes::CampaignMergePlan| {
            let text = json_of(&asked.revised)?.line();
            merge.merge_plan(&text, &clock::local())?;
            shaped(&plan_of(&campaign_of(&merge)?))
        })
        .doing(move |_, _: shapes::CampaignRootCauses| {
            let campaign = campaign_of(&roots)?;
            let analysis = campaign.cascade_analysis(&roots.evidence()?)?;
            root_causes(&campaign, &analysis)
        })
        .doing(move |_, asked: shapes::CampaignComplete| {
            let patterns = asked.patterns.unwrap_or_default();
            complete.complete_campaign(asked.summary.as_deref(), &patterns, &clock::local())?;
            let archives = complete.archives()?;
            let archive = archives.first().map(|(name, _)| format!(".ftl/archive/{name}.json"));
            Ok(shapes::Closed { archive, summary: asked.summary })
        })
}

/// A task with its dependencies as a list, which plans may also say as a word.
fn task_json(one: &crate::plan_file::merge::CampaignTask) -> Json {
    let mut json = one.to_json();
    json.put("depends", Json::list(&one.task.depends));
    json
}

fn listed(mut task: Json) -> Json {
    let depends = match task.get("depends") {
        Some(Json::List(list)) => Json::List(list.clone()),
        Some(Json::Text(word)) if word != "none" && !word.is_empty() => Json::list([word.as_str()]),
        Some(_) | None => Json::List(Vec::new()),
    };
    task.put("depends", depends);
    task
}

/// The tasks of a campaign as a plan.
fn plan_of(campaign: &Campaign) -> Json {
    let field = |key: &str| campaign.field(key).cloned().unwrap_or_default();
    Json::object([
        ("objective", field("objective")),
        ("framework", field("framework")),
        ("tasks", Json::List(campaign.tasks().iter().map(|one| one.task.to_json()).collect())),
    ])
}

fn root_causes(campaign: &Campaign, analysis: &Json) -> Result<shapes::RootCauses, Failure> {
    let text = |json: &Json, key: &str| json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    let causes: Vec<shapes::RootCause> = analysis
        .get("root_blocks")
        .map(Json::items)
        .unwrap_or_default()
        .iter()
        .map(|root| {
            let seq = text(root, "seq");
            let below = campaign.tasks().iter().filter(|one| one.root_causes.contains(&seq));
            let mut affected: Vec<String> = below.map(|one| one.task.seq.clone()).collect();
            let waiting = root.get("unreachable").map(Json::items).unwrap_or_default();
            affected.extend(waiting.iter().filter_map(Json::as_str).map(str::to_owned));
            affected.sort();
            affected.dedup();
            shapes::RootCause { seq, reason: text(root, "reason"), affected }
        })
        .collect();
    let all =
        !campaign.tasks().is_empty() && campaign.tasks().iter().all(|one| one.status == Status::Blocked);
    Ok(shapes::RootCauses { single: all && causes.len() == 1, causes })
}

fn plans(workshop: Workshop, paper: &Arc<Paper>) -> Workshop {
    let (clear, write, root) = (paper.clone(), paper.clone(), paper.place().root().to_owned());
    let (readable, looked_at) = (root.clone(), root.clone());
    workshop
        .doing(move |_, asked: flow::DecisionParse| Ok(decided(&asked, &looked_at)))
        .doing(|_, asked: flow::PlanParse| {
            let found = decision::parse(&asked.text);
            Ok(match found.plan {
                Some(Ok(plan)) => flow::ParsedPlan { problems: Vec::new(), plan: Some(plan.to_shape()) },
                Some(Err(errors)) => flow::ParsedPlan {
                    problems: errors.iter().map(ToString::to_string).collect(),
                    plan: None,
                },
                None => {
                    flow::ParsedPlan { problems: vec![String::from("no plan found in the text")], plan: None }
                }
            })
        })
        .doing(move |_, _: flow::ExplorationClear| Ok(flow::Cleared { cleared: clear.clear_exploration()? }))
        .doing(move |_, asked: flow::ExplorationAggregate| {
            let parts = json_of(&asked.parts)?;
            let answers: Vec<exploration::Answer> = pieces(&parts);
            let (created_at, git_sha) = (clock::local(), exploration::short_head(&root));
            let meta = Meta { created_at: &created_at, git_sha: &git_sha, objective: &asked.objective };
            shaped(&exploration::aggregate(&answers, meta))
        })
        .doing(move |_, asked: flow::ExplorationWrite| {
            let json = json_of(&asked.exploration)?;
            write.write_exploration(&json)?;
            Ok(flow::Written { path: String::from(".ftl/exploration.json"), digest: None })
        })
        .doing(move |_, asked: FileRead| file_text(&readable, &asked.path))
}

/// A file below a folder; never one that a link leads out to.
pub(super) fn file_text(folder: &Path, path: &str) -> Result<FileText, Failure> {
    let cannot = || Failure::new(FailureKind::Failed, format!("`{path}` cannot be read"));
    let bytes = context::read_source(folder, path).ok_or_else(cannot)?;
    let truncated = bytes.len() > MAX_FILE_BYTES;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_FILE_BYTES)]).into_owned();
    Ok(FileText { text, path: path.to_owned(), truncated: Some(truncated) })
}

/// What a planner's text says, and everything that is wrong with its plan.
/// What a planner decided. A verify command that names a file which nobody has and nobody makes would be found out after
/// the work was paid for, so it is a problem of the plan.
fn decided(asked: &flow::DecisionParse, root: &Path) -> flow::Decision {
    let found = decision::parse(&asked.text);
    let mut problems = found.problems();
    if let Some(Ok(plan)) = &found.plan {
        problems.extend(missing_files(plan, root).iter().map(ToString::to_string));
    }
    let plan = match (&found.plan, asked.most) {
        (Some(Ok(plan)), Some(most)) if plan.tasks.len() as u64 > most => {
            problems.push(decision::too_many(plan.tasks.len(), most));
            None
        }
        (Some(Ok(plan)), _) => Some(plan.to_shape()),
        (Some(Err(_)) | None, _) => None,
    };
    let kind = match found.kind {
        decision::Kind::Proceed => flow::DecisionKind::Proceed,
        decision::Kind::Clarify => flow::DecisionKind::Clarify,
        decision::Kind::Confirm => flow::DecisionKind::Confirm,
        decision::Kind::Unknown => flow::DecisionKind::Unknown,
    };
    // Whoever asks without a question mark still asks.
    let mut questions = found.questions.clone();
    if questions.is_empty() && matches!(found.kind, decision::Kind::Clarify | decision::Kind::Confirm) {
        questions.push(decision::prose(&asked.text));
    }
    flow::Decision {
        kind,
        problems,
        plan,
        selection: questions.first().cloned(),
        questions,
        markers_found: Some(found.markers.iter().map(|mark| (*mark).to_owned()).collect()),
    }
}

/// The explorers' answers: a list of them, or one under each mode. What is none is left out.
fn pieces(parts: &Json) -> Vec<exploration::Answer> {
    let named = parts.fields().iter().map(|(mode, part)| (exploration::Mode::parse(mode), part));
    let listed = parts.items().iter().map(|part| (None, part));
    named
        .chain(listed)
        .filter_map(|(mode, part)| {
            let said = part.get("answer").or_else(|| part.get("value")).unwrap_or(part);
            match said {
                Json::Text(text) => exploration::read_answer(text, mode).ok(),
                other => exploration::answer(other.clone(), mode).ok(),
            }
        })
        .collect()
}

fn workspaces(workshop: Workshop, paper: &Arc<Paper>) -> Workshop {
    let (create, parse, complete, block) = (paper.clone(), paper.clone(), paper.clone(), paper.clone());
    workshop
        .doing(move |_, asked: flow::WorkspaceCreate| {
            let settings = BuildSettings::default();
            let sources: Sources<'_> = &|path| create.source(path);
            brief(&create, &read_plan(&asked.plan)?, asked.task.as_deref(), (sources, &settings))
        })
        .doing(move |_, asked: flow::WorkspaceParse| {
            let found = parse.parse_workspace(&place(&parse, &asked.path))?;
            found.to_spec().map_err(|error| Failure::new(FailureKind::Failed, error.to_string()))
        })
        .doing(|_, asked: flow::WorkspaceValidate| Ok(soundness(&asked.spec)))
        .doing(move |job, asked: flow::WorkspaceComplete| {
            let used: Vec<Used> = asked.utilized.unwrap_or_default().into_iter().map(used).collect();
            let path = place(&complete, &asked.path);
            if let Some(done) = ended_before(&complete, &path, WorkspaceStatus::Complete, &asked.delivered)? {
                return Ok(done);
            }
            let ends = Ends { now: &clock::local(), run: Some(&job.run) };
            let (path, brief) = complete.complete_workspace(&path, (&asked.delivered, &used), ends)?;
            complete.credit(&brief)?;
            Ok(flow::Ended { path: shown(&complete, &path) })
        })
        .doing(move |job, asked: flow::WorkspaceBlock| {
            let path = place(&block, &asked.path);
            let why = BlockReason::read(&asked.reason)
                .map_err(|refusal| Failure::from(PaperError::from(refusal)))?;
            let tried = asked.tried.as_ref().map(words);
            let why = why.with(tried.as_deref(), None);
            let delivered = format!("BLOCKED: {}", why.reason);
            if let Some(done) = ended_before(&block, &path, WorkspaceStatus::Blocked, &delivered)? {
                return Ok(done);
            }
            let ends = Ends { now: &clock::local(), run: Some(&job.run) };
            let (path, _) = block.block_workspace(&path, &why, ends)?;
            Ok(flow::Ended { path: shown(&block, &path) })
        })
}

fn used(shape: UsedShape) -> Used {
    let kind = match shape.kind {
        Some(ftl_core::catalogue::spec::LessonKind::Pattern) => LessonKind::Pattern,
        Some(ftl_core::catalogue::spec::LessonKind::Failure) | None => LessonKind::Failure,
    };
    Used { name: shape.name, kind }
}

/// A workspace that was ended in the same way before the engine died.
fn ended_before(
    paper: &Paper,
    path: &Path,
    status: WorkspaceStatus,
    delivered: &str,
) -> Result<Option<flow::Ended>, Failure> {
    let ended = paper.ended(path, status)?.filter(|(_, found)| found.delivered == delivered);
    Ok(ended.map(|(path, _)| flow::Ended { path: shown(paper, &path) }))
}

fn place(paper: &Paper, path: &str) -> PathBuf {
    paper.place().root().join(path)
}

fn shown(paper: &Paper, path: &Path) -> String {
    path.strip_prefix(paper.place().root()).unwrap_or(path).display().to_string()
}

fn words(value: &Value) -> String {
    match value {
        Value::List(items) => items.iter().map(words).collect::<Vec<_>>().join("; "),
        Value::None => String::new(),
        other => other.to_string(),
    }
}

/// Writes the brief of a task. One of a campaign is being worked on from now on.
pub(super) fn brief(
    paper: &Paper,
    plan: &Plan,
    seq: Option<&str>,
    (sources, settings): (Sources<'_>, &BuildSettings),
) -> Result<flow::Brief, Failure> {
    let task = match seq {
        Some(seq) => plan.find(seq),
        None => plan.tasks.first().filter(|_| plan.tasks.len() == 1),
    };
    let none = || Failure::new(FailureKind::Failed, "the plan has no such task");
    let task = task.ok_or_else(none)?;
    let recall = |plan: &Plan, tasks: &[&Task]| {
        let asks: Vec<String> =
            tasks.iter().map(|task| crate::paper::lessons::asks_with(plan, task)).collect();
        paper.recall(&asks)
    };
    let budget = |task: &Task, failures: bool, confidence: f64| {
        let is_small = plan.tasks.len() == 1 && is_small(sources, task);
        settings.budget_of(task, Known { failures, confidence, is_small })
    };
    let budgets = |task: &Task, failures: bool, confidence: f64| Some(budget(task, failures, confidence));
    let made =
        paper.create_workspaces(plan, Some(&task.seq), (&recall, sources, &budgets), &clock::local())?;
    let path = made.first().ok_or_else(none)?;
    let brief = paper.parse_workspace(path)?;
    let known = brief.prior_knowledge.as_ref().is_some_and(|known| !known.failures.is_empty());
    let granted = budget(task, known, brief.framework_confidence.unwrap_or(0.0));
    if seq.is_some() {
        paper.update_task(&task.seq, "in_progress", &clock::local())?;
    }
    Ok(flow::Brief {
        path: shown(paper, path),
        id: Some(task.id()),
        mode: granted.mode,
        budget: granted.tools,
        full_budget: granted.full_tools,
        story: told(plan, task),
    })
}

/// A task as a coder is told it: what it is called, what is wanted, and how anybody can tell.
fn told(plan: &Plan, task: &Task) -> String {
    let name = task.slug.replace('-', " ");
    let mut letters = name.chars();
    let name: String =
        letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default();
    let story = task.story.as_ref().map(|story| format!("{}\n\n", story.trim())).unwrap_or_default();
    let files = match task.delta.is_empty() {
        true => String::new(),
        false => format!("It is expected to change: {}.\n", task.delta.join(", ")),
    };
    format!("{name}\n\n{story}It is part of: {}\n{files}This must pass: {}\n", plan.objective, task.verify)
}

pub(super) fn read_plan(shape: &PlanShape) -> Result<Plan, Failure> {
    let json = json_of(shape)?;
    let how = Reading { objective: Some(&shape.objective), ..Reading::default() };
    plan_file::check(&json, how).map_err(|errors| Failure::from(PaperError::from(errors)))
}

/// Whether a task changes one file that a brief shows whole.
fn is_small(sources: Sources<'_>, task: &Task) -> bool {
    let [path] = task.delta.as_slice() else { return false };
    let source = sources(path).unwrap_or_default();
    source.iter().filter(|byte| **byte == b'\n').count() <= DIRECT_LINES
}

fn soundness(spec: &Spec) -> flow::Soundness {
    let mut problems = Vec::new();
    if spec.delta.is_empty() {
        problems.push(String::from("no file may change"));
    }
    if spec.verify.trim().is_empty() {
        problems.push(String::from("no command shows whether it is done"));
    }
    if spec.budget == 0 {
        problems.push(String::from("the budget is 0"));
    }
    if spec.status != ftl_core::catalogue::spec::WorkspaceStatus::Active {
        problems.push(String::from("the workspace is not active"));
    }
    let summary = if problems.is_empty() { String::from("sound") } else { problems.join("; ") };
    flow::Soundness {
        passed: problems.is_empty(),
        failed: !problems.is_empty(),
        summary,
        tree: None,
        problems,
    }
}

fn lessons(workshop: Workshop, paper: &Arc<Paper>, shell: &Arc<Shell>) -> Workshop {
    let (analyze, matching, experience, learn) = (paper.clone(), paper.clone(), paper.clone(), paper.clone());
    let shell = shell.clone();
    workshop
        .doing(move |job, asked: flow::ObserverAnalyze| {
            let runs = |command: &str| shell.once(command, timeout(&asked), &job.cancel);
            analyzed(&analyze, &asked, &runs)
        })
        .doing(move |_, asked: flow::LessonMatching| lesson_match(&matching, &asked))
        .doing(move |_, asked: flow::LessonLearn| {
            let failure = crate::observe::repaired(&asked.trigger, &asked.fix, asked.source.as_deref());
            let told = learn.learn(|lessons| lessons.learn(Kind::Failure, failure.to_json(), &now()))?;
            Ok(flow::Learned { name: told.name, result: told.outcome.word().to_owned() })
        })
        .doing(move |_, asked: flow::LessonExperience| {
            let json = Json::object([
                ("trigger", Json::from(&asked.trigger)),
                ("attempted", Json::list(asked.attempted.as_ref().map(words))),
                ("source", Json::list(asked.source.clone())),
            ]);
            let none = || Failure::new(FailureKind::Failed, "an experience needs a trigger");
            let mut failure = crate::observe::experience(&json).ok_or_else(none)?;
            failure.cost = asked.cost.unwrap_or(failure.cost);
            let file = experience.place().state().join("cache").join("experience.json");
            let text = format!("{}\n", failure.to_json().pretty());
            crate::folder::make(&experience.place().state().join("cache"))
                .and_then(|()| crate::place::replace(&file, text.as_bytes()))
                .map_err(|error| Failure::from(PaperError::disk(&file, &error)))?;
            Ok(flow::Experience { name: failure.name, path: String::from(".ftl/cache/experience.json") })
        })
}

/// How long the command of a block may take.
pub(super) fn timeout(asked: &flow::ObserverAnalyze) -> Duration {
    asked.timeout.map_or(VERIFY_LIMIT, |seconds| Duration::from_secs_f64(seconds.0.clamp(1.0, 3600.0)))
}

/// Learns from what has ended, with somebody who runs the commands of blocks.
pub(super) fn analyzed(
    paper: &Paper,
    asked: &flow::ObserverAnalyze,
    runs: &(dyn Fn(&str) -> Result<Ended, String> + Sync),
) -> Result<flow::Analysis, Failure> {
    let by = asked.verify.unwrap_or(true).then_some(Verifier { runs });
    shaped(&paper.analyze(&paper.workspace_folder(), by.as_ref())?)
}

fn lesson_match(paper: &Paper, asked: &flow::LessonMatching) -> Result<flow::LessonMatch, Failure> {
    let when = now();
    let found = paper.look_up(|lessons| lessons.for_error(&asked.error, 5, &when))?;
    let known = found
        .into_iter()
        .filter(|answer| answer.lesson.has_remedy() && answer.lesson.kind() == Kind::Failure);
    let mut known: Vec<_> = known.collect();
    // What the brief has told the builder already comes first.
    let told = |name: &str| {
        let failures = asked.among.as_ref().map(|among| among.failures.as_slice()).unwrap_or_default();
        failures.iter().any(|one| one.name == name)
    };
    known.sort_by_key(|answer| !told(answer.lesson.name()));
    let best = known.first();
    Ok(flow::LessonMatch {
        found: best.is_some(),
        flaky: best.is_some_and(|answer| answer.lesson.texts("tags").iter().any(|tag| tag == "flaky")),
        name: best.map(|answer| answer.lesson.name().to_owned()),
        fix: best.map(|answer| answer.lesson.remedy().to_owned()),
        similarity: best.map(|answer| answer.relevance),
        why: best.map(|answer| answer.by.word().to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_a_limit_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let read = |bytes: usize| {
            std::fs::write(folder.path().join("a.txt"), "x".repeat(bytes)).unwrap();
            let read = file_text(folder.path(), "a.txt").unwrap();
            (read.text.len(), read.truncated)
        };
        assert_eq!(read(MAX_FILE_BYTES), (MAX_FILE_BYTES, Some(false)));
        assert_eq!(read(MAX_FILE_BYTES + 1), (MAX_FILE_BYTES, Some(true)));
    }
}
