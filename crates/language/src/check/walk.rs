//! The walk: every path through a state, with what is known on it.
//!
//! One walk finds the types, the bindings, the ways out, the payments and the gates of a state.
//! It visits each statement once, with all environments that can reach it.

use std::collections::BTreeSet;

use super::env::{Env, Local, bounded};
use super::steps::{step_changes, step_writes};
use super::tables::{Pasted, Tables};
use super::{VERDICTS, World};
use crate::problem::Problem;
use crate::source::Span;
use ftl_core::syntax::{
    Arg, Args, Block, Emit, Exit, Expr, Ident, LimitDecl, Paying, State, Statement, StatementKind, Step,
};
use ftl_core::types::Type;
use ftl_core::value::Name;

/// A way out of a state, as one path takes it.
#[derive(Clone, Debug)]
pub struct PathExit {
    /// The state, verdict or hold at its end.
    pub to: Leads,
    /// The environment at its end.
    pub env: Env,
}

/// The end of a way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// A GOTO, or an ELSE that moves.
    To(Name),
    /// A payment that cannot be made, by its LIMIT.
    ByLimit(Name, Name),
    /// RETURN with a verdict.
    Return(Name),
    /// STAY.
    Stay,
    /// HOLD.
    Hold,
}

/// A place where an instance can be held, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldPlace {
    /// The number of the statement in its state.
    pub place: u32,
    /// Its bytes in its source.
    pub span: Span,
    /// The reason for a hold, in words.
    pub why: String,
}

/// A Task of a state.
#[derive(Clone, Debug)]
pub struct TaskPlace {
    /// Its bytes in its source.
    pub span: Span,
    /// The role that the Task names.
    pub role: Name,
    /// Whether the agent may write.
    pub writes: bool,
    /// Whether it is told a parameter of the state or a CHECK of this visit.
    pub told: bool,
}

/// All that the walk found out about a state.
#[derive(Clone, Debug, Default)]
pub struct StateFacts {
    /// Its ways out, one for each path.
    pub ways: Vec<PathExit>,
    /// The places where it can be held.
    pub holds: Vec<HoldPlace>,
    /// Where a person is waited for or asked.
    pub people: Vec<(Span, String)>,
    /// The agents' tasks that its steps ask for.
    pub tasks: Vec<TaskPlace>,
    /// Whether a line of it could not be read.
    pub broken: bool,
}

/// The walk through one state.
pub struct Walk<'a> {
    pub(super) world: &'a World<'a>,
    pub(super) pasted: &'a Pasted,
    pub(super) state: &'a State,
    /// What is known from earlier rounds.
    pub(super) known: &'a Tables,
    /// The tables that this round learns.
    pub(super) learnt: Tables,
    pub(super) problems: Vec<Problem>,
    pub(super) facts: StateFacts,
    pub(super) used: BTreeSet<Name>,
    pub(super) pasted_at: Option<Span>,
    pub(super) in_each: bool,
    /// Whether items that write may still run when the state comes round to its CHECKs again.
    pub(super) lingers: bool,
}

impl<'a> Walk<'a> {
    /// Walks all paths through a state.
    pub fn run(world: &'a World<'a>, pasted: &'a Pasted, state: &'a State, known: &'a Tables) -> Walk<'a> {
        let mut walk = Walk {
            world,
            pasted,
            state,
            known,
            learnt: Tables::default(),
            problems: Vec::new(),
            facts: StateFacts::default(),
            used: BTreeSet::new(),
            pasted_at: None,
            in_each: false,
            lingers: super::steps::lingers(state),
        };
        walk.defaults();
        let left = walk.block(&state.body, vec![Env::default()]);
        walk.fell_through(&left);
        walk.unused();
        walk
    }

    pub(super) fn say(&mut self, problem: Problem) {
        let problem = Problem { pasted: self.pasted_at.or(problem.pasted), ..problem };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn defaults(&mut self) {
        let mut names = BTreeSet::new();
        for param in &self.state.params {
            if !names.insert(&param.name.name) {
                let message = format!("the parameter `{}` is declared twice", param.name.name);
                self.say(Problem::error("double-name", param.name.span, message));
            }
            if let Some(default) = &param.default {
                let ty = self.arg_type(default, &Env::default());
                self.learnt.param(&self.state.name.name, &param.name.name, &ty);
            }
        }
    }

    /// A path that ends without an exit is an error that says when.
    fn fell_through(&mut self, left: &[Env]) {
        let Some(env) = left.first() else { return };
        if self.facts.broken {
            return;
        }
        let span = self.state.body.last().map_or(self.state.name.span, |last| last.span);
        let when = when(env);
        let message = format!("a path through `{}` ends here without an exit{when}", self.state.name.name);
        self.pasted_at = self.state.body.last().and_then(|last| last.pasted);
        self.say(Problem::error("fall-through", span, message).hint(
            "end every path with GOTO, RETURN, STAY or HOLD, or let the IFs name every value of a closed set",
        ));
        self.pasted_at = None;
    }

    fn unused(&mut self) {
        if self.facts.broken {
            return;
        }
        for param in &self.state.params {
            if !self.used.contains(&param.name.name) {
                let message =
                    format!("`{}` takes `{}` and never uses it", self.state.name.name, param.name.name);
                self.say(Problem::error("unused-parameter", param.name.span, message));
            }
        }
    }

    pub(super) fn block(&mut self, block: &Block, mut envs: Vec<Env>) -> Vec<Env> {
        for statement in block {
            self.pasted_at = statement.pasted;
            if envs.is_empty() {
                if !self.facts.broken {
                    self.say(
                        Problem::error("unreachable", statement.span, "nothing can come here")
                            .hint("every path above has already left; take this line away or move it up"),
                    );
                }
                return envs;
            }
            envs = bounded(self.statement(statement, envs));
        }
        envs
    }

    fn statement(&mut self, statement: &Statement, envs: Vec<Env>) -> Vec<Env> {
        match &statement.what {
            StatementKind::Step { step, otherwise } => self.step(statement, step, otherwise.as_ref(), envs),
            StatementKind::If { condition, body } => self.condition(statement, condition, body, envs),
            StatementKind::Emit(emit) => self.emit(emit, envs),
            StatementKind::Set(name, expr) => self.set(name, expr, envs),
            StatementKind::Increment(name) => self.increment(name, envs),
            StatementKind::Refill(meter, to) => self.refill(meter, to.as_ref(), envs),
            StatementKind::Exit(exit) => self.exit(statement, exit, &envs),
            StatementKind::Proceed => envs,
            StatementKind::Use(_) | StatementKind::Broken => {
                self.facts.broken = true;
                envs
            }
        }
    }

    fn condition(
        &mut self,
        statement: &Statement,
        condition: &Expr,
        body: &Block,
        envs: Vec<Env>,
    ) -> Vec<Env> {
        for env in &envs {
            let ty = self.expr_type(condition, env);
            if !matches!(ty, Type::Bool | Type::Unknown | Type::Any) {
                let message = format!("a condition is yes or no, this is {ty}");
                self.say(Problem::error("not-a-condition", condition.span, message));
            }
        }
        let (mut inside, mut past) = (Vec::new(), Vec::new());
        for env in &envs {
            let typing = |expr: &Expr| self.closed_set(expr, env);
            inside.extend(env.assume(condition, true, &typing));
            // Only the IFs around a GOTO are its guard: what an IF above it leaves over is not.
            past.extend(
                env.assume(condition, false, &typing)
                    .into_iter()
                    .map(|left| Env { passed: env.passed.clone(), ..left }),
            );
        }
        let before = envs.iter().map(|env| env.passed.clone());
        let before = before.reduce(|one, two| one.intersection(&two).cloned().collect()).unwrap_or_default();
        let said = self.problems.iter().any(|one| {
            one.span.file == condition.span.file
                && condition.span.start <= one.span.start
                && one.span.end <= condition.span.end
        });
        if inside.is_empty() && said {
            inside = envs;
        } else if inside.is_empty() && !self.facts.broken {
            let message = format!("`{condition}` can never hold here");
            self.pasted_at = statement.pasted;
            self.say(
                Problem::error("never-holds", condition.span, message)
                    .hint("an exit above has already answered it"),
            );
            inside = envs;
        }
        past.extend(self.block(body, bounded(inside)).into_iter().map(|mut left| {
            left.passed.retain(|gate| before.contains(gate));
            left
        }));
        past
    }

    fn emit(&mut self, emit: &Emit, envs: Vec<Env>) -> Vec<Env> {
        for env in &envs {
            match emit {
                Emit::Text(template) => self.template(template, env),
                Emit::Event(_, args) => self.args_types(args, env),
            }
        }
        envs
    }

    pub(super) fn args_types(&mut self, args: &Args, env: &Env) {
        for (_, arg) in args {
            self.arg_type(arg, env);
        }
    }

    fn set(&mut self, name: &Ident, expr: &Expr, mut envs: Vec<Env>) -> Vec<Env> {
        self.tracked(name);
        for env in &mut envs {
            let ty = self.expr_type(expr, env);
            self.learnt.track(&name.name, &ty);
            env.forget(&name.name);
        }
        envs
    }

    fn increment(&mut self, name: &Ident, mut envs: Vec<Env>) -> Vec<Env> {
        self.tracked(name);
        let ty = self.known.tracked.get(&name.name).cloned().unwrap_or(Type::Unknown);
        if !matches!(ty, Type::Unknown | Type::Number) {
            let message = format!("only a number can be incremented, `{}` is {ty}", name.name);
            self.say(Problem::error("type", name.span, message));
        }
        self.learnt.track(&name.name, &Type::Number);
        for env in &mut envs {
            env.forget(&name.name);
        }
        envs
    }

    fn tracked(&mut self, name: &Ident) {
        let tracks = &self.pasted.document.tracks;
        if !tracks.iter().any(|track| track.name.name == name.name) {
            let known = tracks.iter().map(|track| &*track.name.name);
            let problem =
                Problem::error("unknown-variable", name.span, format!("`{}` is not tracked", name.name));
            self.say(problem.hint(format!("declare it: `TRACK: {}`", name.name)).near(&name.name, known));
        }
        self.used.insert(name.name.clone());
    }

    fn refill(&mut self, meter: &Ident, to: Option<&Expr>, mut envs: Vec<Env>) -> Vec<Env> {
        self.limit(meter);
        for env in &mut envs {
            if let Some(to) = to {
                self.number(to, env, "a limit");
            }
            env.refilled.insert(meter.name.clone());
            env.forget(&meter.name);
        }
        envs
    }

    /// The LIMIT of a meter; one that is not declared is said.
    pub(super) fn limit(&mut self, meter: &Ident) -> Option<&'a LimitDecl> {
        self.used.insert(meter.name.clone());
        let limits = &self.pasted.document.limits;
        let found = limits.iter().find(|limit| limit.meter.name == meter.name);
        if found.is_none() {
            let known = limits.iter().map(|limit| &*limit.meter.name);
            let message = format!("there is no meter `{}`", meter.name);
            let problem = Problem::error("unknown-meter", meter.span, message);
            let hint = format!("declare it: `LIMIT: {} = 3 ELSE HOLD`", meter.name);
            self.say(problem.hint(hint).near(&meter.name, known));
        }
        found
    }

    fn exit(&mut self, statement: &Statement, exit: &Exit, envs: &[Env]) -> Vec<Env> {
        if self.in_each {
            self.say(
                Problem::error("exit-in-each", statement.span, "no exit may stand inside FOR EACH")
                    .hint("let the block end, and decide after it"),
            );
        }
        let to = match exit {
            Exit::Goto { target, .. } => Leads::To(target.name.clone()),
            Exit::Return { verdict, .. } => Leads::Return(verdict.name.clone()),
            Exit::Stay(_) => Leads::Stay,
            Exit::Hold(_) => Leads::Hold,
        };
        for env in envs {
            match exit {
                Exit::Goto { target, args, .. } => self.goto(target, args, env),
                Exit::Return { verdict, args } => self.returned(verdict, args, env),
                Exit::Stay(reason) => self.stay(statement, reason.as_ref(), env),
                Exit::Hold(reason) => {
                    self.arg_type(reason, env);
                }
            }
            self.facts.ways.push(PathExit { to: to.clone(), env: env.clone() });
        }
        if matches!(exit, Exit::Hold(_)) {
            self.hold(statement, "HOLD");
        }
        Vec::new()
    }

    fn stay(&mut self, statement: &Statement, reason: Option<&Arg>, env: &Env) {
        if let Some(reason) = reason {
            self.arg_type(reason, env);
        }
        if !env.waited {
            self.say(
                Problem::error(
                    "stay-without-wait",
                    statement.span,
                    "STAY goes back to a WAIT, and there is none above",
                )
                .hint("STAY answers a person who said a word; use HOLD or GOTO elsewhere"),
            );
        }
    }

    fn goto(&mut self, target: &Ident, args: &Args, env: &Env) {
        let Some(state) = self.pasted.state(&target.name) else {
            let known = self.pasted.states.iter().map(|state| &*state.name.name);
            let problem =
                Problem::error("unknown-state", target.span, format!("there is no state `{}`", target.name));
            self.say(problem.near(&target.name, known));
            return self.args_types(args, env);
        };
        for (name, arg) in args {
            let ty = self.arg_type(arg, env);
            if state.params.iter().any(|param| param.name.name == name.name) {
                self.learnt.param(&target.name, &name.name, &ty);
            } else {
                let known: Vec<&str> = state.params.iter().map(|param| &*param.name.name).collect();
                let message = format!("`{}` takes no `{}`", target.name, name.name);
                let problem = Problem::error("unknown-parameter", name.span, message);
                self.say(problem.among(&name.name, &known, "it takes"));
            }
        }
        self.all_given(target, state, args, env.failing);
    }

    /// Every parameter without a default is given; in an ELSE `reason` is passed by itself.
    fn all_given(&mut self, target: &Ident, state: &State, args: &Args, by_failure: bool) {
        for param in &state.params {
            if args.iter().any(|(name, _)| name.name == param.name.name) {
                continue;
            }
            if by_failure && &*param.name.name == "reason" {
                self.learnt.param(&target.name, &param.name.name, &Type::Text);
            } else if param.default.is_none() {
                let message = format!("`{}` must be told `{}`", target.name, param.name.name);
                let hint = format!(
                    "write `{} with {}=…`, or give it a default in its STATE line",
                    target.name, param.name.name
                );
                self.say(Problem::error("missing-parameter", target.span, message).hint(hint));
            }
        }
    }

    fn returned(&mut self, verdict: &Ident, args: &Args, env: &Env) {
        if !VERDICTS.contains(&&*verdict.name) {
            let message = format!("`{}` is no verdict", verdict.name);
            let problem = Problem::error("unknown-verdict", verdict.span, message);
            self.say(
                problem
                    .hint(format!("the verdicts are {}", VERDICTS.join(", ")))
                    .near(&verdict.name, VERDICTS),
            );
        }
        for (name, arg) in args {
            let ty = self.arg_type(arg, env);
            if &*name.name == "verdict" {
                self.say(Problem::error("reserved", name.span, "`verdict` is given by RETURN itself"));
            }
            self.learnt.give(&name.name, &ty);
        }
    }

    fn hold(&mut self, statement: &Statement, why: &str) {
        let hold = HoldPlace { place: statement.place, span: statement.span, why: why.to_owned() };
        if !self.facts.holds.contains(&hold) {
            self.facts.holds.push(hold);
        }
    }

    fn step(
        &mut self,
        statement: &Statement,
        step: &Step,
        otherwise: Option<&Block>,
        envs: Vec<Env>,
    ) -> Vec<Env> {
        let mut after = Vec::new();
        let mut failed = Vec::new();
        for env in envs {
            let mut done = env.clone();
            self.step_types(statement, step, &mut done);
            let mut fail = env;
            if step_writes(step) {
                fail.wrote();
            }
            step_changes(step, &mut fail);
            after.push(done);
            failed.push(fail);
        }
        match otherwise {
            Some(block) => after.extend(self.otherwise(statement, step, block, failed)),
            None => self.unanswered(statement, step, &failed),
        }
        after
    }

    /// Walks the ELSE of a step; only PROCEED may lead out of it.
    fn otherwise(&mut self, statement: &Statement, step: &Step, block: &Block, failed: Vec<Env>) -> Vec<Env> {
        // In an ELSE inside an ELSE the outer failure is known again afterwards.
        let inside = failed.iter().any(|env| env.failing);
        let failed = failed.into_iter().map(with_failure).collect();
        let mut left = self.block(block, failed);
        let says = matches!(
            block.last().map(|last| &last.what),
            Some(StatementKind::Proceed | StatementKind::Broken)
        );
        self.pasted_at = statement.pasted;
        if !left.is_empty() && !says {
            let span = block.last().map_or(statement.span, |last| last.span);
            self.say(
                Problem::error("else-goes-on", span, "this ELSE neither leaves nor says PROCEED")
                    .hint("end it with an exit, or say PROCEED if the failure may be ignored"),
            );
        }
        if !left.is_empty() && matches!(step, Step::Pay { .. }) {
            self.say(
                Problem::error(
                    "pay-for-nothing",
                    statement.span,
                    "a PAY whose ELSE goes on pays for nothing",
                )
                .hint("its ELSE must leave: a loop would never end"),
            );
        }
        for env in left.iter_mut().filter(|_| !inside) {
            env.failing = false;
            env.locals.remove("failure");
        }
        left
    }

    /// Without ELSE a PAY goes by its LIMIT, and any other step holds, or refuses a person's word.
    fn unanswered(&mut self, statement: &Statement, step: &Step, failed: &[Env]) {
        self.pasted_at = statement.pasted;
        let meter = match step {
            Step::Pay { meter, .. } => Some(meter),
            Step::Do { paying, .. } => paying.as_ref().map(|Paying { meter, .. }| meter),
            Step::Parallel { .. } | Step::ForEach { .. } | Step::Check { .. } | Step::Ask { .. } => None,
            Step::WaitFor { .. } | Step::WaitWords { .. } => None,
        };
        if let Some(limit) = meter.and_then(|meter| self.limit(meter)) {
            self.by_limit(statement, limit, failed);
        }
        // FOR EACH and PARALLEL report what fails in them; they do not fail themselves.
        let reports = matches!(step, Step::Pay { .. } | Step::ForEach { .. } | Step::Parallel { .. });
        if reports || self.in_each {
            return;
        }
        let words = matches!(step, Step::WaitWords { .. } | Step::Ask { .. });
        let refuses = failed.iter().all(|env| env.waited) && !failed.is_empty();
        if !refuses {
            let why = if words { "waits for a person" } else { "the step fails" };
            self.hold(statement, why);
        }
    }

    fn by_limit(&mut self, statement: &Statement, limit: &LimitDecl, failed: &[Env]) {
        let meter = &limit.meter.name;
        if self.in_each {
            // The block fails and is reported.
            return;
        }
        let Some(target) = &limit.target else {
            return self.hold(statement, &format!("`{meter}` is spent"));
        };
        if let Some(state) = self.pasted.state(&target.name) {
            self.all_given(target, state, &Args::new(), true);
        }
        let to = Leads::ByLimit(target.name.clone(), meter.clone());
        for env in failed {
            self.facts.ways.push(PathExit { to: to.clone(), env: env.clone() });
        }
    }
}

fn with_failure(mut env: Env) -> Env {
    env.failing = true;
    let kinds = Type::choice(["failed", "could_not_run", "timeout", "denied", "exhausted", "stale"]);
    let ty = Type::full_record("failure", [("kind", kinds), ("message", Type::Text)]);
    env.bind(&Name::from("failure"), Local { ty, gate: None, seen: true, words: Vec::new() });
    env
}

/// What is known on a path, for the message about it.
fn when(env: &Env) -> String {
    let known: Vec<String> = env
        .narrowed
        .iter()
        .map(|(key, words)| {
            let words: Vec<&str> = words.iter().map(|word| &**word).collect();
            match words.as_slice() {
                ["true"] => key.clone(),
                ["false"] => format!("not {key}"),
                _ => format!("{} is {}", key.trim_end_matches(".#"), words.join(" or ")),
            }
        })
        .collect();
    if known.is_empty() { String::new() } else { format!(" (when {})", known.join(", ")) }
}
