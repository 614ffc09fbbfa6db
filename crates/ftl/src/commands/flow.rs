//! `ftl "<task>"` and `ftl campaign "<objective>"`: the two flows, from an objective to commits.
//!
//! A flow is a run of the protocol of its name. What is wrong with what it was given is told before anything
//! is opened; everything else is the protocol's own.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use ftl_code::commands::Commands;
use ftl_code::commands::look::{self, Look};
use ftl_core::json::Json;
use ftl_core::run::{Policy, ROOT, Terms};
use ftl_core::value::{Fields, Name, Value};
use ftl_engine::drive::Rest;
use ftl_engine::driver::Opening;
use ftl_engine::hands::site::Route;
use ftl_engine::hands::site::retry::Retried;
use ftl_engine::session::{Given, Session, find};
use ftl_folder::id::RunId;
use ftl_folder::place::Place;
use ftl_gates::Allowance;
use ftl_process::Cancel;
use ftl_records::decision;
use ftl_records::plan_file::missing_files;
use ftl_records::plan_file::preview::Preview;
use ftl_records::plan_file::{self, Plan, PlanError, Reading, Task as PlanTask, Worker};
use ftl_settings::config::PULL_REQUEST;
use ftl_store::order::Order;

use super::code::{needs_forge, tell_own_reviewer};
use super::ftl::{help, note, text_of};
use super::run::{Left, Wheel, can_be_opened, report_landing};
use crate::cli::{Cli, Flow, FlowOptions, WorkOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::groups::{Group, Task};
use crate::out::Out;
use crate::paint::{self, paint, safe};
use crate::session::{self, session_failure};
use crate::shelf::Shelf;
use crate::signals;
use crate::talk::Talk;

/// How long an objective may be.
pub(crate) const MAX_OBJECTIVE_BYTES: usize = 16 * 1024;

/// How many commands are looked at before a run is opened: each may take seconds.
const MAX_LOOKED_AT: usize = 3;

/// How many levels of a graph are shown by how far a line is from the edge.
const MAX_LEVELS: usize = 8;

/// How the work of a flow lands when nobody can be asked.
const UNASKED: &str = "branch-only";

/// One of the two flows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Task,
    Campaign,
}

impl Which {
    /// The protocol.
    pub(super) const fn protocol(self) -> &'static str {
        match self {
            Which::Task => "task",
            Which::Campaign => "campaign",
        }
    }

    /// The flow of a protocol, if it is one.
    pub(super) fn of(protocol: &str) -> Option<Which> {
        [Which::Task, Which::Campaign].into_iter().find(|which| which.protocol() == protocol)
    }

    /// How many tasks its plan may have.
    const fn most(self) -> Option<u64> {
        match self {
            Which::Task => Some(1),
            Which::Campaign => None,
        }
    }
}

/// `ftl task run`.
pub(crate) fn task(cli: &Cli, asked: &Group<Task>, out: &Out) -> Result<Exit, Failure> {
    match &asked.verb {
        None => help(out, "task", Exit::Usage),
        Some(Task::Run(flow)) => run(cli, Which::Task, flow, out),
    }
}

/// `ftl campaign run`.
pub(crate) fn campaign(cli: &Cli, flow: &Flow, out: &Out) -> Result<Exit, Failure> {
    run(cli, Which::Campaign, flow, out)
}

/// A document of which stories are made.
#[derive(Clone, Copy)]
pub(super) struct Document<'a> {
    /// What it is about, in one line.
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    /// Whether the stories are only made and shown.
    pub(super) only_plans: bool,
}

/// A campaign of the stories in a document.
pub(super) fn of_document(
    cli: &Cli,
    document: Document<'_>,
    options: &FlowOptions,
    out: &Out,
) -> Result<Exit, Failure> {
    let objective = objective(document.name)?.to_owned();
    let course = Course::new(Which::Campaign, objective);
    let course = Course { document: Some(document.text), only_plans: document.only_plans, ..course };
    carry_out(cli, course, options, out)
}

/// Takes the plan of a dry run on, as `ftl resume` of it does.
pub(super) fn take_on(cli: &Cli, run: &RunId, talk: bool, out: &Out) -> Result<Exit, Failure> {
    let session = session::open(cli)?;
    let course = planned_course(&session, run)?;
    drop(session);
    let options = FlowOptions { work: WorkOptions { talk, ..Default::default() }, ..Default::default() };
    carry_out(cli, course, &options, out)
}

/// The course that a dry run has planned.
fn planned_course(session: &Session, run: &RunId) -> Result<Course<'static>, Failure> {
    let machine = session.look(run).map_err(|error| session_failure(&error))?;
    let root = machine.instance(ROOT);
    let which = root.and_then(|root| Which::of(&root.protocol));
    let plan = planned(session, run)?.filter(|_| session.only_plans(run));
    let (Some(root), Some(which), Some(plan)) = (root, which, plan) else {
        let message = format!("run {run} is no dry run that came to a plan");
        return Err(Failure {
            exit: Exit::NotAllowed,
            ..Failure::new(message, "`ftl status --all` lists the runs")
        });
    };
    let objective = root.inputs.get("objective").and_then(Value::as_text).unwrap_or_default();
    Ok(Course { plan: Some(plan), ..Course::new(which, objective.to_owned()) })
}

/// What a flow is to do.
pub(super) struct Course<'a> {
    pub(super) which: Which,
    pub(super) objective: String,
    /// The plan, where there is one already.
    pub(super) plan: Option<Plan>,
    /// The document of which stories are made.
    pub(super) document: Option<&'a str>,
    /// Whether it ends with its plan, and nothing is built.
    pub(super) only_plans: bool,
    /// The run that it goes on from.
    pub(super) after: Option<RunId>,
    /// Tasks that are tried again.
    pub(super) retried: Vec<Retried>,
}

impl Course<'_> {
    pub(super) fn new(which: Which, objective: String) -> Course<'static> {
        let (document, after, retried) = (None, None, Vec::new());
        Course { which, objective, plan: None, document, only_plans: false, after, retried }
    }
}

fn run(cli: &Cli, which: Which, flow: &Flow, out: &Out) -> Result<Exit, Failure> {
    let place = session::place(cli)?;
    session::not_an_agent(&place)?;
    if let Some(named) = &flow.from_dry_run {
        let session = session::open(cli)?;
        let found = find(&**session.store(), named).map_err(|error| session_failure(&error))?;
        let course = planned_course(&session, &found.row.run)?;
        if course.which != which {
            let message = format!("run {} planned a {}", found.row.run, course.which.protocol());
            let hint = format!("`ftl resume {}` takes it on as what it is", found.row.run);
            return Err(Failure::usage(message, hint));
        }
        drop(session);
        return carry_out(cli, course, &flow.options, out);
    }
    let objective = objective(flow.objective.as_deref().unwrap_or_default())?.to_owned();
    let plan = flow.plan.as_deref().map(|file| plan(file, (&objective, place.root()), which)).transpose()?;
    let course = Course { plan, only_plans: flow.dry_run, ..Course::new(which, objective) };
    carry_out(cli, course, &flow.options, out)
}

/// Reads the protocols while something else is looked at that waits for another program. What is looked at counts first.
/// The protocols are read on this thread: memory of another one grows a page at a time, with a system call each.
fn load_beside(cli: &Cli, look: impl FnOnce() -> Result<(), Failure> + Send) -> Result<Shelf, Failure> {
    std::thread::scope(|scope| {
        let looking = scope.spawn(look);
        let shelf = Shelf::load(cli);
        match looking.join() {
            Ok(seen) => seen.and(shelf),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Carries a flow out, from its first state to its report.
pub(super) fn carry_out(
    cli: &Cli,
    course: Course<'_>,
    options: &FlowOptions,
    out: &Out,
) -> Result<Exit, Failure> {
    let Course { which, objective, plan, document, only_plans, after, retried } = course;
    let place = session::place(cli)?;
    session::not_an_agent(&place)?;
    let allowed = allowances(cli, &place, &options.work.allow)?;
    if let (Some(plan), true) = (&plan, only_plans) {
        let commands = session::config(&place)?.commands().or_found(place.root());
        return show(None, plan, &commands, out);
    }
    let inputs = inputs(which, &objective, options.land_partial);
    ftl_process::gits::start_early();
    let library = can_be_opened(load_beside(cli, || needs_git(&place))?, which.protocol(), &inputs)?;
    let session = session::open_with(cli, library)?;
    if options.work.talk {
        session.listen(Arc::new(Talk::new()));
    }
    let mut terms = session.config().terms();
    options.work.chosen.limit(&mut terms);
    let choice = options.work.chosen.choice();
    if let Some(how) = &options.land {
        terms.policies.insert(asks_how(which), Policy::Answer(Value::text(how.as_str())));
    }
    // The stories of a document go through one pull request; on this side of it their work stays on its branch.
    let how = options.land.as_deref().unwrap_or_else(|| session.config().text("landing.how"));
    let pulls = document.is_some() && !only_plans && how == PULL_REQUEST;
    if pulls {
        needs_forge(&session)?;
        terms.policies.insert(asks_how(which), Policy::Answer(Value::text(UNASKED)));
    }
    let unasked = !is_asked(out) && stands_in(&mut terms, which);
    let opening = Opening { protocol: Name::from(which.protocol()), inputs, terms };
    let given = Given {
        plan: plan.as_ref(),
        only_plans,
        jobs: options.jobs.map(usize::from),
        tools: options.tools,
        allowed: &allowed,
        document,
        landing: pulls.then_some(Route::PullRequest),
        choice: choice.as_ref(),
        after: after.as_ref(),
        retried: &retried,
        ..Given::default()
    };
    session.staffed(&opening.protocol, given).map_err(|error| session_failure(&error))?;
    look_at_commands(&session, plan.as_ref(), out)?;
    let stop = signals::stop(out)?;
    let (driver, todo) = session.open_with(opening, given).map_err(|error| session_failure(&error))?;
    let id = driver.id().clone();
    tell_opened(&id, which, &driver.summary().title, out)?;
    if document.is_some()
        || plan.iter().any(|plan| plan.tasks.iter().any(|task| task.worker == Worker::Coder))
    {
        tell_own_reviewer(&session, choice.as_ref(), out);
    }
    let wheel = Wheel::new(&session, &stop, out);
    let rest = wheel.drive(driver, todo)?;
    let rest = wheel.with_person(cli, &id, rest)?;
    if only_plans && let Some(plan) = planned(&session, &id)? {
        end(&session, &wheel, &id)?;
        let commands = session.config().commands().or_found(place.root());
        return show(Some(&id), &plan, &commands, out);
    }
    let landed = unasked && matches!(&rest, Rest::Rests(summary) if summary.standing == "complete");
    let by_flag = options.land.is_some();
    let exit = report_landing(&wheel, &[(id.clone(), Left::Rest(rest))], by_flag)?;
    if landed {
        tell_branch(&id, out)?;
    }
    Ok(exit)
}

/// Says which run was opened, and what it is about.
fn tell_opened(id: &RunId, which: Which, title: &str, out: &Out) -> Result<(), Failure> {
    if out.is_json() {
        return Ok(());
    }
    let run = paint(paint::STRONG, id);
    out.progress(&format!("run {run} of {}: {}\n", which.protocol(), safe(title)))
}

/// Looks whether what will be verified can be run here, before a model is asked. What the person named, in a plan or in
/// the settings, must be; of what was only found a word is said, for a plan may do without it.
fn look_at_commands(session: &Session, plan: Option<&Plan>, out: &Out) -> Result<(), Failure> {
    let found = session.config().commands().or_found(session.place().root());
    let mut commands: Vec<String> = match plan {
        Some(plan) => plan.tasks.iter().map(|task| task.verify.clone()).collect(),
        None => found.tests.clone(),
    };
    commands.dedup();
    commands.truncate(MAX_LOOKED_AT);
    let is_named =
        plan.is_some() || commands.iter().any(|command| found.origin(command).starts_with("worktree."));
    let made: Vec<String> =
        plan.iter().flat_map(|plan| &plan.tasks).flat_map(|task| task.delta.clone()).collect();
    let looked = session.look_at_commands(&commands, &made, &Cancel::new());
    match looked.map_err(|error| session_failure(&error))? {
        Look::Fine => Ok(()),
        Look::NoTests(why) => {
            note(out, &format!("{why} here yet"));
            Ok(())
        }
        Look::Broken(why) if is_named => {
            Err(Failure::new(format!("the work could not be verified here: {why}"), look::HINT))
        }
        Look::Broken(why) => {
            note(out, &format!("the tests may not run here: {why}; {}", look::HINT));
            Ok(())
        }
    }
}

/// What the protocol of a flow is given.
fn inputs(which: Which, objective: &str, land_partial: bool) -> Fields {
    let mut inputs: Fields = [(Name::from("objective"), Value::text(objective))].into();
    // A plan of one task is complete or has nothing that could land.
    if land_partial && which == Which::Campaign {
        inputs.insert(Name::from("land_partial"), Value::Bool(true));
    }
    inputs
}

/// What is to be reached: words, and not too many of them.
pub(super) fn objective(text: &str) -> Result<&str, Failure> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Failure::usage(
            "the objective is empty",
            "say what is to be reached: ftl \"fix the bug\"",
        ));
    }
    if text.len() > MAX_OBJECTIVE_BYTES {
        let message = format!("the objective has {} bytes; {MAX_OBJECTIVE_BYTES} is the most", text.len());
        return Err(Failure::usage(
            message,
            "say it shorter, and put the rest into a file of the repository",
        ));
    }
    Ok(text)
}

/// A plan that a person gave: everything that is wrong with it at once, before anything is opened.
fn plan(file: &Path, (objective, root): (&str, &Path), which: Which) -> Result<Plan, Failure> {
    let text = text_of(file)?;
    let head = format!("the plan in `{}` is not valid", file.display());
    let malformed = |problems: Vec<String>, hint: &str| {
        let message = format!("{head}: {}", problems.join("; "));
        Failure { exit: Exit::Malformed, ..Failure::new(message, hint) }
    };
    let how = Reading { objective: Some(objective), ..Reading::default() };
    let plan = plan_file::read_as(&text, how).map_err(|errors| {
        let problems = errors.iter().map(ToString::to_string).collect();
        let lines: Vec<String> = errors.iter().map(PlanError::line).collect();
        let lines = Some(format!("{head}:\n{}", lines.join("\n")));
        let hint = "`ftl decision FILE --validate` shows each problem with its place";
        Failure { lines, ..malformed(problems, hint) }
    })?;
    let missing: Vec<String> = missing_files(&plan, root).iter().map(ToString::to_string).collect();
    if !missing.is_empty() {
        return Err(malformed(missing, "mend the verify commands, or say which task makes the files"));
    }
    match which.most() {
        Some(most) if plan.tasks.len() as u64 > most => {
            let problem = decision::too_many(plan.tasks.len(), most);
            Err(malformed(vec![problem], "give a plan of one task, or use `ftl campaign run`"))
        }
        Some(_) | None => Ok(plan),
    }
}

/// Flows build in worktrees of a commit: there must be a repository, and a commit in it.
pub(super) fn needs_git(place: &Place) -> Result<(), Failure> {
    if ftl_git::has_commit(place.root()) && ftl_git::program(place.root()).is_some() {
        return Ok(());
    }
    let repository = ask_git(place, &["rev-parse", "--is-bare-repository"])?;
    let root = place.root().display();
    let untrusted = String::from_utf8_lossy(&repository.stderr).contains(DUBIOUS);
    if untrusted {
        return Err(Failure::new(
            format!(
                "git does not trust the repository in `{root}`: it belongs to another user (dubious ownership)"
            ),
            format!("if you trust it: git config --global --add safe.directory {}", quoted(place.root())),
        ));
    }
    if !repository.status.success() {
        return Err(Failure::new(
            format!("`{root}` is in no git repository"),
            "flows need git: `git init`, and commit what is there; the other commands work without",
        ));
    }
    if repository.stdout.starts_with(b"true") {
        return Err(Failure::new(
            format!("`{root}` is a bare repository: there is no checkout to work from"),
            "flows need a checkout: work in a clone of it",
        ));
    }
    if ask_git(place, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?.status.success() {
        return Ok(());
    }
    Err(Failure::new(
        format!("the repository in `{root}` has no commit"),
        "flows build on a commit: `git add` and `git commit` what is there first",
    ))
}

/// What git says of a repository whose files belong to somebody else.
const DUBIOUS: &str = "detected dubious ownership";

/// Asks git about the repository, in the language of its messages.
fn ask_git(place: &Place, words: &[&str]) -> Result<Output, Failure> {
    let mut git = Command::new("git");
    git.arg("-C").arg(place.root()).args(["-c", "core.fsmonitor=false"]).args(words);
    git.env("GIT_OPTIONAL_LOCKS", "0").env("LC_ALL", "C").stdin(Stdio::null());
    git.output().map_err(|error| {
        Failure::new(format!("git cannot be run: {error}"), "install git: flows build on branches of it")
    })
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+,:@%".contains(letter);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Whether a person can be asked here and now.
pub(crate) fn is_asked(out: &Out) -> bool {
    !out.is_json() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Has the work stay on its branch where nobody can be asked and the settings say nothing; whether it will.
fn stands_in(terms: &mut Terms, which: Which) -> bool {
    let state = asks_how(which);
    if [state.as_str(), which.protocol(), "*"].iter().any(|key| terms.policies.contains_key(*key)) {
        return false;
    }
    terms.policies.insert(state, Policy::Answer(Value::text(UNASKED)));
    true
}

/// The state that asks how the work is to land.
fn asks_how(which: Which) -> String {
    format!("{}.COMPLETE", which.protocol())
}

/// The findings that a person allows, each in their name.
pub(super) fn allowances(cli: &Cli, place: &Place, words: &[String]) -> Result<Vec<Allowance>, Failure> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let by = session::person(cli, place)?;
    let wrong = |message| Failure::usage(message, "docs/gates.md says what each kind means");
    words.iter().map(|text| Allowance::parse(text, &by).map_err(wrong)).collect()
}

/// Says that the work has not landed.
pub(super) fn tell_branch(run: &RunId, out: &Out) -> Result<(), Failure> {
    let line = format!("nobody was asked how to land it: the work is on the branch ftl/{run}\n");
    if out.is_json() {
        out.beside(&line);
        return Ok(());
    }
    out.text(&line)
}

/// The plan that a run has come to, if it has.
pub(super) fn planned(session: &Session, run: &RunId) -> Result<Option<Plan>, Failure> {
    let machine = session.look(run).map_err(|error| session_failure(&error))?;
    let Some(root) = machine.instance(ROOT) else { return Ok(None) };
    let Some(value) = root.tracked.get("plan").filter(|plan| !plan.is_none()) else { return Ok(None) };
    let cannot = |what: String| Failure::new(format!("the plan cannot be shown: {what}"), "run `ftl doctor`");
    let json = Json::of(value).map_err(|error| cannot(error.to_string()))?;
    let plan = plan_file::check(&json, Reading::default());
    plan.map(Some)
        .map_err(|errors| cannot(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))
}

/// Ends a run that has planned and builds nothing.
fn end(session: &Session, wheel: &Wheel<'_>, run: &RunId) -> Result<(), Failure> {
    let (by, reason) = (String::from("ftl --dry-run"), String::from("it was only to plan"));
    let order = Order::Stop { instance: ROOT, by, reason };
    let number = session.send(run, &order).map_err(|error| session_failure(&error))?;
    let mut replied = || session.reply(number).map_or(true, |reply| reply.is_some());
    wheel.take_over(run, "waiting for it to stop", &mut replied).map(|_| ())
}

/// Shows a plan and how it would be carried out.
fn show(run: Option<&RunId>, plan: &Plan, commands: &Commands, out: &Out) -> Result<Exit, Failure> {
    let preview = Preview::of(plan)
        .map_err(|message| Failure::new(format!("the plan has no order: {message}"), "mend the plan"))?;
    if out.is_json() {
        let mut json = preview.to_json();
        json.put("run", run.map_or(Json::Null, |run| Json::from(run.to_string())));
        json.put("plan", plan.to_json());
        json.put("commands", commands.to_json().unwrap_or(Json::Null));
        out.json(&json)?;
        return Ok(Exit::Done);
    }
    let mut text = format!("{}{}", commands_text(commands), preview_text(plan, &preview));
    if let Some(run) = run {
        text.push_str(&format!("{} `ftl resume {run}` carries this plan out\n", paint(paint::HINT, "hint:")));
    }
    out.text(&text)?;
    Ok(Exit::Done)
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

fn preview_text(plan: &Plan, preview: &Preview<'_>) -> String {
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
