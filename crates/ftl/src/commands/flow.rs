//! `ftl "<task>"` and `ftl campaign "<objective>"`: the two flows, from an objective to commits.
//!
//! A flow is a run of the protocol of its name. What is wrong with what it was given is told before anything
//! is opened; everything else is the protocol's own.

mod preview;
mod room;

use std::io::IsTerminal as _;
use std::path::Path;

use ftl_code::commands::look::{self, ProbeReport};
use ftl_code::finding::AllowanceError;
use ftl_command::input::{check_words, text_of};
use ftl_command::protocol_loader::LoadedProtocols;
use ftl_command::session::session_failure;
use ftl_command::trust::TrustScope;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, foreign, session, signals};
use ftl_core::program::InputCode;
use ftl_core::run::{End, Policy, ROOT, Terms};
use ftl_core::value::{Fields, Name, Value};
use ftl_engine::drive::DriveEnd;
use ftl_engine::driver::Opening;
use ftl_engine::executors::worktrees::LandingRoute;
use ftl_engine::sandboxes::SandboxOrder;
use ftl_engine::session::{RunOptions, Session, check_plan, find};
use ftl_folder::id::RunId;
use ftl_folder::state_folder::StateFolder;
use ftl_gates::FindingAllowance;
use ftl_git::GitAnswer;
use ftl_process::Cancel;
use ftl_records::decision;
use ftl_records::plan_file::missing_files;
use ftl_records::plan_file::{self, CampaignPlan, PlanError, Reading, Worker};
use ftl_settings::settings::LandingHow;
use ftl_store::order::Order;
use ftl_view::board::Board;
use ftl_view::paint::{self, paint, safe};
use ftl_view::summary::Summary;

use super::code::{needs_forge, tell_own_reviewer};
use super::run::{ForegroundRun, Left, can_be_opened, report_landing};
use crate::agent_follower;
use crate::cli::{Flow, FlowOptions, TalkArg, WorkOptions};
use preview::show;

/// How many commands are looked at before a run is opened: each may take seconds.
const MAX_LOOKED_AT: usize = 3;

/// The input that says what a flow is to reach.
const OBJECTIVE: &str = "objective";

/// How the work of a flow lands when no person can be asked.
const UNASKED: LandingHow = LandingHow::BranchOnly;

/// One of the two flows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Task,
    Campaign,
}

impl Which {
    /// The name of the protocol that is opened.
    pub(super) const fn protocol(self) -> &'static str {
        match self {
            Which::Task => "task",
            Which::Campaign => "campaign",
        }
    }

    /// How many tasks its plan may have.
    const fn most(self) -> Option<u64> {
        match self {
            Which::Task => Some(1),
            Which::Campaign => None,
        }
    }
}

/// `ftl task run`: one task from an objective to a landed commit.
pub(crate) fn task(cli: &GlobalArgs, flow: &Flow, out: &Out) -> Result<ExitStatus, CommandError> {
    run(cli, Which::Task, flow, out)
}

/// `ftl campaign run`: an objective, planned and built task by task.
pub(crate) fn campaign(cli: &GlobalArgs, flow: &Flow, out: &Out) -> Result<ExitStatus, CommandError> {
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
    cli: &GlobalArgs,
    document: Document<'_>,
    options: &FlowOptions,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let objective = objective(document.name)?.to_owned();
    let run_options = RunOptions {
        document: Some(document.text.to_owned()),
        only_plans: document.only_plans,
        ..RunOptions::default()
    };
    let course = Course::new(Which::Campaign.protocol(), to_reach(objective), run_options);
    carry_out(cli, course, options, out)
}

/// Takes the plan of a dry run on, as `ftl resume` of it does.
pub(super) fn take_on(
    cli: &GlobalArgs,
    run: &RunId,
    talk: TalkArg,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let session = session::open(cli)?;
    let course = planned_course(&session, run)?;
    drop(session);
    let options = FlowOptions { work: WorkOptions { talk, ..Default::default() }, ..Default::default() };
    carry_out(cli, course, &options, out)
}

/// The course that a dry run has planned.
fn planned_course(session: &Session, run: &RunId) -> Result<Course, CommandError> {
    let course = course_of(session, run)?;
    let plan = planned(session, run)?.filter(|_| session.only_plans(run));
    let (Some(course), Some(plan)) = (course, plan) else {
        let message = format!("run {run} is no dry run that came to a plan");
        return Err(CommandError {
            exit: ExitStatus::NotAllowed,
            ..CommandError::new(message, "`ftl status --all` lists the runs")
        });
    };
    Ok(Course { options: RunOptions { plan: Some(plan), ..RunOptions::default() }, ..course })
}

/// The course of a run whose board shows tasks: its protocol, and what that must be given. Nothing for any other run.
pub(super) fn course_of(session: &Session, run: &RunId) -> Result<Option<Course>, CommandError> {
    let machine = session.look(run).map_err(|error| session_failure(&error))?;
    let library = session.library();
    let flow = machine.instance(ROOT).filter(|root| Board::is_for(&**library, &root.protocol));
    Ok(flow.map(|root| {
        let inputs = library.program(&root.protocol).map_or(&[][..], |program| &program.inputs);
        let is_carried = |input: &&InputCode| input.default.is_none() || &*input.name == OBJECTIVE;
        let needed = inputs.iter().filter(is_carried);
        let given =
            needed.filter_map(|input| Some((input.name.clone(), root.inputs.get(&input.name)?.clone())));
        Course::new(&root.protocol, given.collect(), RunOptions::default())
    }))
}

/// What a flow is to do.
pub(super) struct Course {
    pub(super) protocol: Name,
    /// What the protocol is given, beside what the options of a command say.
    pub(super) inputs: Fields,
    /// What its run is opened with; what the command line says is added.
    pub(super) options: RunOptions,
}

impl Course {
    fn new(protocol: &str, inputs: Fields, options: RunOptions) -> Course {
        Course { protocol: Name::from(protocol), inputs, options }
    }
}

fn run(cli: &GlobalArgs, which: Which, flow: &Flow, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    session::not_an_agent(&place)?;
    if let Some(named) = &flow.from_dry_run {
        let session = session::open(cli)?;
        let found = find(&**session.store(), named).map_err(|error| session_failure(&error))?;
        let course = planned_course(&session, &found.row.run)?;
        if &*course.protocol != which.protocol() {
            let message = format!("run {} planned a {}", found.row.run, course.protocol);
            let hint = format!("`ftl resume {}` takes it on as what it is", found.row.run);
            return Err(CommandError::usage(message, hint));
        }
        drop(session);
        return carry_out(cli, course, &flow.options, out);
    }
    let objective = objective(flow.objective.as_deref().unwrap_or_default())?.to_owned();
    let plan = flow.plan.as_deref().map(|file| plan(file, (&objective, place.root()), which)).transpose()?;
    let options = RunOptions { plan, only_plans: flow.dry_run, ..RunOptions::default() };
    carry_out(cli, Course::new(which.protocol(), to_reach(objective), options), &flow.options, out)
}

/// Reads the protocols while something else is looked at that waits for another program. What is looked at counts first.
/// The protocols are read on this thread: memory of another one grows a page at a time, with a system call each.
fn load_beside(
    cli: &GlobalArgs,
    look: impl FnOnce() -> Result<(), CommandError> + Send,
) -> Result<LoadedProtocols, CommandError> {
    std::thread::scope(|scope| {
        let looking = scope.spawn(look);
        let loaded = LoadedProtocols::load(cli);
        match looking.join() {
            Ok(seen) => seen.and(loaded),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Carries a flow out, from its first state to its report.
pub(super) fn carry_out(
    cli: &GlobalArgs,
    course: Course,
    options: &FlowOptions,
    out: &Out,
) -> Result<ExitStatus, CommandError> {
    let Course { protocol, inputs, options: run_options } = course;
    let place = session::place(cli)?;
    session::not_an_agent(&place)?;
    let allowed = allowances(cli, &place, &options.work.allow)?;
    if let (Some(plan), true) = (&run_options.plan, run_options.only_plans) {
        let commands = session::config(&place)?.commands().or_found(place.root());
        return show(None, plan, &commands, out);
    }
    ftl_process::gits::start_early();
    let loaded = load_beside(cli, || needs_git(&place))?;
    let inputs = with_options(inputs, &protocol, &loaded, options);
    let library = can_be_opened(loaded, &protocol, &inputs)?;
    let choice = options.work.chosen.choice();
    let session = session::open_with(cli, library, TrustScope::Runs(&[&protocol], Some(&choice)), out)?;
    agent_follower::follow(&session, options.work.talk);
    let mut terms = session.config().terms(session.library());
    options.work.chosen.limit(&mut terms);
    let asks_how = asks_how(&session, &protocol);
    if let (Some(how), Some(state)) = (options.land, &asks_how) {
        terms.policies.insert(state.clone(), Policy::Answer(Value::text(how.word())));
    }
    // The stories of a document go through one pull request; on this side of it their work stays on its branch.
    let how = options.land.unwrap_or(session.config().settings().landing.how);
    let pulls = run_options.document.is_some() && !run_options.only_plans && how == LandingHow::PullRequest;
    if pulls {
        needs_forge(&session)?;
        terms
            .policies
            .extend(asks_how.clone().map(|state| (state, Policy::Answer(Value::text(UNASKED.word())))));
    }
    let note = foreign::narrow(&mut terms);
    note.iter().for_each(|note| out.note(note));
    let pulls = pulls && note.is_none();
    let unasked = !is_asked(out) && stands_in(&mut terms, &protocol, asks_how);
    let opening = Opening { protocol, inputs, terms };
    let run_options = RunOptions {
        jobs: options.jobs.map(usize::from),
        tools: options.tools,
        allowed,
        landing: pulls.then_some(LandingRoute::PullRequest),
        choice,
        sandbox: sandbox_order(cli, &place, &options.work)?,
        ..run_options
    };
    session.staffed(&opening.protocol, &run_options).map_err(|error| session_failure(&error))?;
    look_at_commands(&session, run_options.plan.as_ref(), out)?;
    room::look_around(&session, run_options.jobs, &run_options.choice, out);
    let stop = signals::stop(out)?;
    let opened = session.open_with(opening, run_options.clone());
    let (driver, todo) = opened.map_err(|error| session_failure(&error))?;
    let id = driver.id().clone();
    tell_opened(&id, driver.summary(), out)?;
    if run_options.document.is_some() || run_options.plan.as_ref().is_some_and(has_coders) {
        tell_own_reviewer(&session, &run_options.choice, out);
    }
    let wheel = ForegroundRun::new(&session, &stop, out);
    let rest = wheel.drive_with_person(cli, driver, todo)?;
    if run_options.only_plans
        && let Some(plan) = planned(&session, &id)?
    {
        end(&session, &wheel, &id)?;
        let commands = session.config().commands().or_found(place.root());
        return show(Some(&id), &plan, &commands, out);
    }
    let landed =
        unasked && matches!(&rest, DriveEnd::Rests(summary) if summary.standing.end() == Some(End::Complete));
    let exit = report_landing(&wheel, &[(id.clone(), Left::Rest(rest))], options.land.is_some())?;
    if landed {
        tell_branch(&id, out)?;
    }
    Ok(exit)
}

/// Whether tasks of a plan are stories of a coder.
fn has_coders(plan: &CampaignPlan) -> bool {
    plan.tasks.iter().any(|task| task.worker == Worker::Coder)
}

/// What the person says about the sandboxes of a run.
pub(super) fn sandbox_order(
    cli: &GlobalArgs,
    place: &StateFolder,
    work: &WorkOptions,
) -> Result<Option<SandboxOrder>, CommandError> {
    let (Some(level), Some(reason)) = (work.sandbox, work.reason.clone()) else { return Ok(None) };
    Ok(Some(SandboxOrder { level, reason, by: session::person(cli, place)? }))
}

/// Says which run was opened, and what it is about.
fn tell_opened(id: &RunId, summary: &Summary, out: &Out) -> Result<(), CommandError> {
    if out.is_json() {
        return Ok(());
    }
    let (title, protocol) = (safe(&summary.title), safe(&summary.protocol));
    out.progress(&format!("run {} of {protocol}: {title}\n", paint(paint::STRONG, id)))
}

/// Looks whether what will be verified can be run here, before a model is asked. What the person named, in a plan or in
/// the settings, must be; of what was only found a word is said, for a plan may do without it.
fn look_at_commands(session: &Session, plan: Option<&CampaignPlan>, out: &Out) -> Result<(), CommandError> {
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
        ProbeReport::Fine => Ok(()),
        ProbeReport::NoTests(why) => {
            out.note(&format!("{why} here yet"));
            Ok(())
        }
        ProbeReport::Broken(why) if is_named => {
            Err(CommandError::new(format!("the work could not be verified here: {why}"), look::HINT))
        }
        ProbeReport::Broken(why) => {
            out.note(&format!("the tests may not run here: {why}; {}", look::HINT));
            Ok(())
        }
    }
}

/// What the protocol of a flow is given, with what the options say.
fn with_options(
    mut inputs: Fields,
    protocol: &str,
    loaded: &LoadedProtocols,
    options: &FlowOptions,
) -> Fields {
    let land_partial = Name::from("land_partial");
    let program = loaded.library.program(protocol);
    // A plan of one task is complete or has nothing that could land.
    let takes = program.is_some_and(|program| program.inputs.iter().any(|input| input.name == land_partial));
    if options.land_partial && takes {
        inputs.insert(land_partial, Value::Bool(true));
    }
    inputs
}

/// What a flow is given that has an objective.
fn to_reach(objective: String) -> Fields {
    [(Name::from(OBJECTIVE), Value::text(objective))].into()
}

/// What is to be reached: words, and not too many of them.
pub(super) fn objective(text: &str) -> Result<&str, CommandError> {
    check_words(text, "objective", "say what is to be reached: ftl \"fix the bug\"")
}

/// A plan that a person gave: everything that is wrong with it at once, before anything is opened.
fn plan(file: &Path, (objective, root): (&str, &Path), which: Which) -> Result<CampaignPlan, CommandError> {
    let text = text_of(file)?;
    let head = format!("the plan in `{}` is not valid", file.display());
    let malformed = |problems: Vec<String>, hint: &str| {
        let message = format!("{head}: {}", problems.join("; "));
        CommandError { exit: ExitStatus::Malformed, ..CommandError::new(message, hint) }
    };
    let how = Reading { objective: Some(objective), ..Reading::default() };
    let plan = plan_file::read_as(&text, how).map_err(|errors| {
        let problems = errors.iter().map(ToString::to_string).collect();
        let lines: Vec<String> = errors.iter().map(PlanError::line).collect();
        let lines = Some(format!("{head}:\n{}", lines.join("\n")));
        let hint = "`ftl decision FILE --validate` shows each problem with its place";
        CommandError { lines, ..malformed(problems, hint) }
    })?;
    let missing: Vec<String> = missing_files(&plan, root).iter().map(ToString::to_string).collect();
    if !missing.is_empty() {
        return Err(malformed(missing, "mend the verify commands, or say which task makes the files"));
    }
    check_plan(&plan)
        .map_err(|large| malformed(vec![large.to_string()], "split the plan into several campaigns"))?;
    match which.most() {
        Some(most) if plan.tasks.len() as u64 > most => {
            let problem = decision::too_many(plan.tasks.len(), most);
            Err(malformed(vec![problem], "give a plan of one task, or use `ftl campaign run`"))
        }
        Some(_) | None => Ok(plan),
    }
}

/// Flows build in worktrees of a commit: there must be a repository, and a commit in it.
pub(super) fn needs_git(place: &StateFolder) -> Result<(), CommandError> {
    if ftl_git::has_commit(place.root()) && ftl_git::program(place.root()).is_some() {
        return Ok(());
    }
    let repository = ask_git(place, &["rev-parse", "--is-bare-repository"])?;
    let root = place.root().display();
    let untrusted = repository.said.contains(DUBIOUS);
    if untrusted {
        return Err(CommandError::new(
            format!(
                "git does not trust the repository in `{root}`: it belongs to another user (dubious ownership)"
            ),
            format!("if you trust it: git config --global --add safe.directory {}", quote_path(place.root())),
        ));
    }
    if !repository.is_ok {
        return Err(CommandError::new(
            format!("`{root}` is in no git repository"),
            "flows need git: `git init`, and commit what is there; the other commands work without",
        ));
    }
    if repository.out.starts_with(b"true") {
        return Err(CommandError::new(
            format!("`{root}` is a bare repository: there is no checkout to work from"),
            "flows need a checkout: work in a clone of it",
        ));
    }
    if ask_git(place, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?.is_ok {
        return Ok(());
    }
    Err(CommandError::new(
        format!("the repository in `{root}` has no commit"),
        "flows build on a commit: `git add` and `git commit` what is there first",
    ))
}

/// What git says of a repository whose files belong to another user.
const DUBIOUS: &str = "detected dubious ownership";

/// Asks git about the repository, in the language of its messages.
fn ask_git(place: &StateFolder, words: &[&str]) -> Result<GitAnswer, CommandError> {
    ftl_git::ask(place.root(), words).map_err(|error| {
        CommandError::new(format!("git cannot be run: {error}"), "install git: flows build on branches of it")
    })
}

/// A path as a shell takes it.
fn quote_path(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+,:@%".contains(letter);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Whether a person can be asked here and now.
pub(crate) fn is_asked(out: &Out) -> bool {
    !out.is_json() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Has the work stay on its branch where no person can be asked and the settings say nothing; whether it will.
fn stands_in(terms: &mut Terms, protocol: &str, asks_how: Option<String>) -> bool {
    let said = asks_how.as_deref().into_iter().chain([protocol, "*"]);
    if said.into_iter().any(|key| terms.policies.contains_key(key)) {
        return false;
    }
    terms.policies.extend(asks_how.map(|state| (state, Policy::Answer(Value::text(UNASKED.word())))));
    true
}

/// The state that asks how the work is to land, as policies name it.
fn asks_how(session: &Session, protocol: &str) -> Option<String> {
    let state = session.library().get(protocol)?.delivery.as_ref()?;
    Some(format!("{protocol}.{state}"))
}

/// The findings that a person allows, each in their name.
pub(super) fn allowances(
    cli: &GlobalArgs,
    place: &StateFolder,
    words: &[String],
) -> Result<Vec<FindingAllowance>, CommandError> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let by = session::person(cli, place)?;
    let wrong = |error: AllowanceError| {
        CommandError::usage(error.to_string(), "docs/gates.md says what each kind means")
    };
    words.iter().map(|text| FindingAllowance::parse(text, &by).map_err(wrong)).collect()
}

/// Says that the work has not landed.
pub(super) fn tell_branch(run: &RunId, out: &Out) -> Result<(), CommandError> {
    let line = format!("nobody was asked how to land it: the work is on the branch ftl/{run}\n");
    if out.is_json() {
        out.beside(&line);
        return Ok(());
    }
    out.text(&line)
}

/// The plan that a run has come to, if it has.
pub(super) fn planned(session: &Session, run: &RunId) -> Result<Option<CampaignPlan>, CommandError> {
    let machine = session.look(run).map_err(|error| session_failure(&error))?;
    let Some(root) = machine.instance(ROOT) else { return Ok(None) };
    let Some(value) = root.tracked.get("plan").filter(|plan| !plan.is_none()) else { return Ok(None) };
    let cannot =
        |what: String| CommandError::new(format!("the plan cannot be shown: {what}"), "run `ftl doctor`");
    let json = serde_json::to_value(value).map_err(|error| cannot(error.to_string()))?;
    let plan = plan_file::check(&json, Reading::default());
    plan.map(Some)
        .map_err(|errors| cannot(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))
}

/// Ends a run that has planned and builds nothing.
fn end(session: &Session, wheel: &ForegroundRun<'_>, run: &RunId) -> Result<(), CommandError> {
    let (by, reason) = (String::from("ftl --dry-run"), String::from("it was only to plan"));
    let order = Order::Stop { instance: ROOT, by, reason };
    let number = session.send(run, &order).map_err(|error| session_failure(&error))?;
    let mut replied = || session.reply(number).map_or(true, |reply| reply.is_some());
    wheel.take_over(run, "waiting for it to stop", &mut replied).map(|_| ())
}
