//! Types of steps: what each of them binds, pays and waits for.

use super::calls::{batch_type, question_type, word_type, writes};
use super::env::{Env, Local};
use super::walk::Walk;
use crate::problem::Problem;
use ftl_core::syntax::{
    Arg, Args, Block, Call, Exit, Expr, Ident, LimitDecl, Paying, State, Statement, StatementKind, Step,
    Target,
};
use ftl_core::types::Type;
use ftl_core::value::Name;

impl Walk<'_> {
    pub(super) fn step_types(&mut self, statement: &Statement, step: &Step, env: &mut Env) {
        match step {
            Step::Do { bind, pipe, call, paying } => {
                let answer = self.call(call, "DO", *pipe, env);
                if let Some(paying) = paying {
                    self.paying(paying, call, env);
                }
                self.bind(
                    bind.as_ref(),
                    Local { ty: answer.clone(), gate: None, seen: false, words: Vec::new() },
                    env,
                );
                env.last = Some(answer);
            }
            Step::Parallel { bind, args, calls } => self.parallel(bind.as_ref(), args, calls, env),
            Step::ForEach { bind, item, list, by, body, .. } => {
                self.for_each(statement, bind.as_ref(), item, (list, by.as_ref()), body, env);
            }
            Step::Check { bind, pipe, call } => {
                let answer = self.call(call, "CHECK", *pipe, env);
                let gate = self.gate_name(call).filter(|_| !self.lingers);
                self.bind(Some(bind), Local { ty: answer.clone(), gate, seen: true, words: Vec::new() }, env);
                env.last = Some(answer);
            }
            Step::WaitFor { bind, call } => {
                let ty = self.call(call, "WAIT", false, env);
                self.bind(bind.as_ref(), Local { ty, gate: None, seen: false, words: Vec::new() }, env);
            }
            Step::WaitWords { bind, words } => self.wait_words(statement, bind.as_ref(), words, env),
            Step::Ask { bind, question, args } => self.ask(statement, bind, question, args, env),
            Step::Pay { meter, per } => self.pay(statement, meter, per.as_ref(), env),
        }
    }

    /// Gives a name to an answer: a local, or the tracked variable of that name.
    pub(super) fn bind(&mut self, bind: Option<&Ident>, local: Local, env: &mut Env) {
        let Some(bind) = bind else { return };
        let name = &bind.name;
        let document = &self.pasted.document;
        let taken = document.inputs.iter().any(|input| input.name.name == *name)
            || document.limits.iter().any(|limit| limit.meter.name == *name)
            || self.state.params.iter().any(|param| param.name.name == *name);
        if taken {
            let message =
                format!("`{name}` is already an input, a meter or a parameter, and cannot be changed");
            self.say(
                Problem::error("double-name", bind.span, message).hint("choose another name for the answer"),
            );
        }
        if document.tracks.iter().any(|track| track.name.name == *name) {
            self.used.insert(name.clone());
            self.learnt.track(name, &local.ty);
        }
        env.bind(name, local);
    }

    fn for_each(
        &mut self,
        statement: &Statement,
        bind: Option<&Ident>,
        item: &Ident,
        (list, by): (&Expr, Option<&Expr>),
        body: &Block,
        env: &mut Env,
    ) {
        let of = match self.expr_type(list, env) {
            Type::List(of) => (*of).clone(),
            Type::Unknown => Type::Unknown,
            Type::Any => Type::Any,
            other @ (Type::Bool
            | Type::Number
            | Type::Duration
            | Type::Text
            | Type::Digest
            | Type::Choice(_)
            | Type::Record(_)) => {
                self.say(Problem::error(
                    "type",
                    list.span,
                    format!("FOR EACH wants a list, this is {other}"),
                ));
                Type::Any
            }
        };
        if self.in_each {
            self.say(Problem::error("each-in-each", statement.span, "FOR EACH cannot stand inside FOR EACH"));
        }
        if self.pasted.document.tracks.iter().any(|track| track.name.name == item.name) {
            let message = format!("`{}` is tracked, and an item of its name would hide it", item.name);
            self.say(
                Problem::error("double-name", item.span, message).hint("choose another name for the item"),
            );
        }
        let mut inner = env.clone();
        let mut read = std::collections::BTreeSet::new();
        ftl_core::syntax::roots(list, &mut read);
        let seen = read.iter().any(|name| env.locals.get(name).is_some_and(|local| local.seen));
        self.bind(Some(item), Local { ty: of, gate: None, seen, words: Vec::new() }, &mut inner);
        if let Some(by) = by {
            self.expr_type(by, &inner);
        }
        let outer = std::mem::replace(&mut self.in_each, true);
        self.block(body, vec![inner]);
        self.in_each = outer;
        self.pasted_at = statement.pasted;
        if block_writes(body) {
            env.wrote();
        }
        changed(body, env);
        let batch = Local { ty: batch_type(), gate: None, seen: false, words: Vec::new() };
        self.bind(bind, batch, env);
        env.last = Some(batch_type());
    }

    fn wait_words(&mut self, statement: &Statement, bind: Option<&Ident>, words: &[Ident], env: &mut Env) {
        if self.in_each {
            self.say(Problem::error(
                "wait-in-each",
                statement.span,
                "no WAIT for words may stand inside FOR EACH",
            ));
        }
        let mut taken: Vec<Name> = vec![Name::from("by"), Name::from("reason")];
        taken.extend(
            words
                .iter()
                .filter_map(|word| self.world.catalogue.word(&word.name))
                .flat_map(|known| known.options.keys().cloned()),
        );
        for (index, word) in words.iter().enumerate() {
            if taken.contains(&word.name) || words[..index].iter().any(|other| other.name == word.name) {
                let message = format!(
                    "`{}` cannot be a word here: `said.{}` means something else",
                    word.name, word.name
                );
                self.say(Problem::error("reserved", word.span, message));
            }
        }
        let names: Vec<Name> = words.iter().map(|word| word.name.clone()).collect();
        self.people(statement, format!("waits for a word: {}", names.join(", ")));
        let ty = word_type(names.iter(), self.world.catalogue);
        self.bind(bind, Local { ty, gate: None, seen: false, words: names }, env);
        env.waited = true;
    }

    fn ask(&mut self, statement: &Statement, bind: &Ident, question: &Arg, args: &Args, env: &mut Env) {
        self.arg_type(question, env);
        self.args_types(args, env);
        let ty = question_type(args);
        self.people(statement, format!("asks a person: {question}"));
        self.bind(Some(bind), Local { ty, gate: None, seen: true, words: Vec::new() }, env);
    }

    fn people(&mut self, statement: &Statement, what: String) {
        if !self.facts.people.iter().any(|(span, _)| *span == statement.span) {
            self.facts.people.push((statement.span, what));
        }
    }

    fn pay(&mut self, statement: &Statement, meter: &Ident, per: Option<&(Ident, Expr)>, env: &mut Env) {
        let limit = self.limit(meter);
        if let Some((_, keys)) = per
            && !matches!(self.expr_type(keys, env), Type::List(_) | Type::Unknown | Type::Any)
        {
            self.say(Problem::error("type", keys.span, "PER … IN wants a list of keys"));
        }
        match limit {
            Some(limit) if limit.per.is_some() && per.is_none() => {
                let message = format!("`{}` has one counter for each key", meter.name);
                self.say(
                    Problem::error("per", statement.span, message)
                        .hint(format!("write `PAY: {} PER … IN …`", meter.name)),
                );
            }
            Some(LimitDecl { per: Some(declared), .. })
                if per.is_some_and(|(key, _)| key.name != declared.name) =>
            {
                let message = format!("`{}` is counted per `{}`", meter.name, declared.name);
                self.say(Problem::error("per", statement.span, message));
            }
            Some(limit) if limit.per.is_none() && per.is_some() => {
                let message = format!("`{}` has a single counter", meter.name);
                self.say(Problem::error("per", statement.span, message).hint("declare its LIMIT with PER"));
            }
            Some(_) | None => {}
        }
        env.paid.insert(meter.name.clone());
        env.forget(&meter.name);
    }

    fn paying(&mut self, paying: &Paying, call: &Call, env: &mut Env) {
        let limit = self.limit(&paying.meter);
        if limit.is_some_and(|limit| limit.per.is_some()) {
            let message =
                format!("`{}` has one counter for each key and cannot pay for tool calls", paying.meter.name);
            self.say(Problem::error("per", paying.meter.span, message));
        }
        if !matches!(call.target, Target::Task(_)) {
            self.say(Problem::error(
                "paying",
                paying.meter.span,
                "PAYING counts the tool calls of an agent: only a Task has them",
            ));
        }
        env.forget(&paying.meter.name);
    }

    pub(super) fn number(&mut self, expr: &Expr, env: &Env, what: &str) {
        let ty = self.expr_type(expr, env);
        if !matches!(ty, Type::Number | Type::Duration | Type::Unknown | Type::Any) {
            self.say(Problem::error("type", expr.span, format!("{what} is a number, this is {ty}")));
        }
    }
}

/// What the blocks of a FOR EACH may have refilled or set is no longer what it was.
fn changed(block: &Block, env: &mut Env) {
    for statement in block {
        match &statement.what {
            StatementKind::Refill(meter, _) => {
                env.refilled.insert(meter.name.clone());
                env.forget(&meter.name);
            }
            StatementKind::Set(name, _) | StatementKind::Increment(name) => env.forget(&name.name),
            StatementKind::If { body, .. } => changed(body, env),
            StatementKind::Step { step, otherwise } => {
                let bind = match step {
                    Step::Do { bind, .. } | Step::Parallel { bind, .. } | Step::WaitFor { bind, .. } => {
                        bind.as_ref()
                    }
                    Step::Check { bind, .. } | Step::Ask { bind, .. } => Some(bind),
                    Step::Pay { meter, .. } => Some(meter),
                    Step::ForEach { .. } | Step::WaitWords { .. } => None,
                };
                bind.iter().for_each(|name| env.forget(&name.name));
                step_changes(step, env);
                otherwise.iter().for_each(|block| changed(block, env));
            }
            StatementKind::Emit(_)
            | StatementKind::Use(_)
            | StatementKind::Exit(_)
            | StatementKind::Proceed
            | StatementKind::Broken => {}
        }
    }
}

/// What a step may have changed even if it failed.
pub(super) fn step_changes(step: &Step, env: &mut Env) {
    match step {
        Step::Do { paying: Some(Paying { meter, .. }), .. } => env.forget(&meter.name),
        Step::ForEach { body, .. } => changed(body, env),
        Step::Do { .. } | Step::Parallel { .. } | Step::Check { .. } | Step::WaitFor { .. } => {}
        Step::WaitWords { .. } | Step::Ask { .. } | Step::Pay { .. } => {}
    }
}

/// Whether any Task of a step may write.
pub(super) fn step_writes(step: &Step) -> bool {
    match step {
        Step::Do { call, .. } => writes(call),
        Step::Parallel { calls, .. } => calls.iter().any(writes),
        Step::ForEach { body, .. } => block_writes(body),
        Step::Check { .. } | Step::WaitFor { .. } | Step::WaitWords { .. } => false,
        Step::Ask { .. } | Step::Pay { .. } => false,
    }
}

/// Whether any Task of a block may write.
fn block_writes(block: &Block) -> bool {
    block.iter().any(|statement| match &statement.what {
        StatementKind::Step { step, otherwise } => {
            step_writes(step) || otherwise.as_ref().is_some_and(block_writes)
        }
        StatementKind::If { body, .. } => block_writes(body),
        StatementKind::Emit(_)
        | StatementKind::Set(..)
        | StatementKind::Increment(_)
        | StatementKind::Refill(..) => false,
        StatementKind::Use(_) | StatementKind::Exit(_) | StatementKind::Proceed | StatementKind::Broken => {
            false
        }
    })
}

/// Whether a state can come round to itself while items of a FOR EACH that write still run.
pub(super) fn lingers(state: &State) -> bool {
    let writes = |statement: &Statement| match &statement.what {
        StatementKind::Step { step: Step::ForEach { any: true, body, .. }, .. } => block_writes(body),
        StatementKind::Step { .. }
        | StatementKind::If { .. }
        | StatementKind::Emit(_)
        | StatementKind::Set(..)
        | StatementKind::Increment(_) => false,
        StatementKind::Refill(..)
        | StatementKind::Use(_)
        | StatementKind::Exit(_)
        | StatementKind::Proceed
        | StatementKind::Broken => false,
    };
    let returns = |statement: &Statement| matches!(&statement.what, StatementKind::Exit(Exit::Goto { target, .. }) if target.name == state.name.name);
    any_statement(&state.body, &writes) && any_statement(&state.body, &returns)
}

fn any_statement(block: &Block, test: &dyn Fn(&Statement) -> bool) -> bool {
    block.iter().any(|statement| {
        test(statement)
            || match &statement.what {
                StatementKind::If { body, .. } => any_statement(body, test),
                StatementKind::Step { step, otherwise } => {
                    let inside = match step {
                        Step::ForEach { body, .. } => any_statement(body, test),
                        Step::Do { .. }
                        | Step::Parallel { .. }
                        | Step::Check { .. }
                        | Step::WaitFor { .. } => false,
                        Step::WaitWords { .. } | Step::Ask { .. } | Step::Pay { .. } => false,
                    };
                    inside || otherwise.as_ref().is_some_and(|block| any_statement(block, test))
                }
                StatementKind::Emit(_)
                | StatementKind::Set(..)
                | StatementKind::Increment(_)
                | StatementKind::Refill(..) => false,
                StatementKind::Use(_)
                | StatementKind::Exit(_)
                | StatementKind::Proceed
                | StatementKind::Broken => false,
            }
    })
}
