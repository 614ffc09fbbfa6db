//! Pasting: every USE becomes the statements of its pattern.
//!
//! A pattern is text with parameters. `{p}` of its own parameters is put in here, at load; every
//! other brace stays for the run. After pasting no USE is left, and a state reads as if everything
//! had been written in it. Depth and size are bounded, so patterns that use each other end.

use std::collections::BTreeMap;

use crate::problem::Problem;
use crate::source::Span;
use ftl_core::syntax::{
    Arg, Args, Block, Call, Document, Emit, Exit, Expr, ExprKind, Ident, Pattern, State, Statement,
    StatementKind, Step, Target, Template, TemplatePart, Use,
};
use ftl_core::value::Name;

/// How deep patterns may use patterns.
pub const MAX_PASTE_DEPTH: usize = 8;
/// How many statements a protocol may have after pasting.
pub const MAX_STATEMENTS: usize = 10_000;
/// How many statements a state may have after pasting.
pub const MAX_STATE_STATEMENTS: usize = 200;
/// How many pieces of text and expressions all parameters of patterns may become.
pub const MAX_PASTED_PARTS: usize = 100_000;

/// The documents that patterns may come from.
pub trait PatternSource {
    /// The document of a protocol.
    fn document(&self, protocol: &str) -> Option<&Document>;

    /// The names of all protocols, for hints.
    fn names(&self) -> Vec<&Name>;
}

/// The states of a document with every pattern in place, and what went wrong.
pub fn paste(document: &Document, pattern_source: &dyn PatternSource) -> (Vec<State>, Vec<Problem>) {
    let mut paster = Paster { pattern_source, problems: Vec::new(), statements: 0, parts: 0, full: false };
    let nothing = BTreeMap::new();
    let states = document
        .states
        .iter()
        .map(|state| {
            let scope = Scope { document, values: &nothing, pasted: None, depth: 0 };
            let mut body = paster.block(&state.body, &scope);
            let mut statements = 0;
            number(&mut body, &mut statements, false);
            if statements as usize > MAX_STATE_STATEMENTS {
                let message = format!(
                    "with its patterns in place the state has more than {MAX_STATE_STATEMENTS} statements"
                );
                paster.say(Problem::error("too-large", state.name.span, message), &scope);
                body = vec![Statement {
                    what: StatementKind::Broken,
                    span: state.name.span,
                    pasted: None,
                    place: 0,
                }];
            }
            State { body, ..state.clone() }
        })
        .collect();
    (states, paster.problems)
}

/// Where a statement is being put in: whose patterns it sees, and which values stand for parameters.
struct Scope<'a> {
    document: &'a Document,
    values: &'a BTreeMap<Name, Arg>,
    pasted: Option<Span>,
    depth: usize,
}

struct Paster<'a> {
    pattern_source: &'a dyn PatternSource,
    problems: Vec<Problem>,
    statements: usize,
    parts: usize,
    full: bool,
}

impl Paster<'_> {
    fn say(&mut self, problem: Problem, scope: &Scope<'_>) {
        self.problems.push(Problem { pasted: scope.pasted, ..problem });
    }

    fn block(&mut self, block: &Block, scope: &Scope<'_>) -> Block {
        let mut out = Block::new();
        for statement in block {
            self.statements += 1;
            if self.statements > MAX_STATEMENTS {
                if !self.full {
                    let message = format!(
                        "with its patterns in place the protocol has more than {MAX_STATEMENTS} statements"
                    );
                    self.say(Problem::error("too-large", statement.span, message), scope);
                }
                self.full = true;
                out.push(Statement {
                    what: StatementKind::Broken,
                    span: statement.span,
                    pasted: scope.pasted,
                    place: 0,
                });
                return out;
            }
            if let StatementKind::Use(used) = &statement.what {
                out.extend(self.pattern(used, statement.span, scope));
            } else {
                let what = self.what(&statement.what, scope);
                out.push(Statement { what, span: statement.span, pasted: scope.pasted, place: 0 });
            }
        }
        out
    }

    fn pattern(&mut self, used: &Use, span: Span, scope: &Scope<'_>) -> Block {
        let broken = |pasted| vec![Statement { what: StatementKind::Broken, span, pasted, place: 0 }];
        if scope.depth >= MAX_PASTE_DEPTH {
            let message = format!("patterns use each other more than {MAX_PASTE_DEPTH} deep");
            self.say(Problem::error("too-deep", span, message), scope);
            return broken(scope.pasted);
        }
        let Some((document, pattern)) = self.find(used, scope) else { return broken(scope.pasted) };
        let values = self.values(used, pattern, scope);
        let pasted = scope.pasted.or(Some(span));
        let inner = Scope { document, values: &values, pasted, depth: scope.depth + 1 };
        self.block(&pattern.body, &inner)
    }

    fn find<'b>(&mut self, used: &Use, scope: &Scope<'b>) -> Option<(&'b Document, &'b Pattern)>
    where
        Self: 'b,
    {
        let document: &'b Document = match &used.protocol {
            None => scope.document,
            Some(protocol) => match self.pattern_source.document(&protocol.name) {
                Some(found) => found,
                None => {
                    let message = format!("there is no protocol `{}`", protocol.name);
                    let problem = Problem::error("unknown-protocol", protocol.span, message);
                    let problem = problem.near(&protocol.name, self.pattern_source.names());
                    self.say(problem, scope);
                    return None;
                }
            },
        };
        let found = document.patterns.iter().find(|pattern| pattern.name.name == used.name.name);
        if found.is_none() {
            let message = format!("there is no pattern `{}`", used.name.name);
            let names = document.patterns.iter().map(|pattern| &*pattern.name.name);
            let problem =
                Problem::error("unknown-pattern", used.name.span, message).near(&used.name.name, names);
            self.say(problem, scope);
        }
        found.map(|pattern| (document, pattern))
    }

    /// The value of each parameter; what is missing or unknown is said.
    fn values(&mut self, used: &Use, pattern: &Pattern, scope: &Scope<'_>) -> BTreeMap<Name, Arg> {
        let mut values = BTreeMap::new();
        for (name, arg) in &used.args {
            if !pattern.params.iter().any(|param| param.name == name.name) {
                let message = format!("the pattern `{}` takes no `{}`", pattern.name.name, name.name);
                let known = pattern.params.iter().map(|param| &*param.name);
                self.say(
                    Problem::error("unknown-parameter", name.span, message).near(&name.name, known),
                    scope,
                );
            }
            let value = self.arg(arg, scope);
            values.insert(name.name.clone(), value);
        }
        for param in &pattern.params {
            if !values.contains_key(&param.name) {
                let message = format!("the pattern `{}` wants `{}`", pattern.name.name, param.name);
                self.say(Problem::error("missing-parameter", used.name.span, message), scope);
            }
        }
        values
    }

    fn what(&mut self, what: &StatementKind, scope: &Scope<'_>) -> StatementKind {
        match what {
            StatementKind::Step { step, otherwise } => StatementKind::Step {
                step: self.step(step, scope),
                otherwise: otherwise.as_ref().map(|block| self.block(block, scope)),
            },
            StatementKind::If { condition, body } => {
                StatementKind::If { condition: self.expr(condition, scope), body: self.block(body, scope) }
            }
            StatementKind::Emit(Emit::Text(template)) => {
                StatementKind::Emit(Emit::Text(self.template(template, scope)))
            }
            StatementKind::Emit(Emit::Event(event, args)) => {
                StatementKind::Emit(Emit::Event(event.clone(), self.args(args, scope)))
            }
            StatementKind::Set(name, expr) => StatementKind::Set(name.clone(), self.expr(expr, scope)),
            StatementKind::Refill(meter, to) => {
                StatementKind::Refill(meter.clone(), to.as_ref().map(|expr| self.expr(expr, scope)))
            }
            StatementKind::Exit(exit) => self.exit(exit, scope),
            StatementKind::Increment(_)
            | StatementKind::Use(_)
            | StatementKind::Proceed
            | StatementKind::Broken => what.clone(),
        }
    }

    fn exit(&mut self, exit: &Exit, scope: &Scope<'_>) -> StatementKind {
        match exit {
            Exit::Goto { target, hole, args, by_else } => {
                let Some(target) = self.target(target, *hole, scope) else { return StatementKind::Broken };
                let args = self.args(args, scope);
                StatementKind::Exit(Exit::Goto { target, hole: false, args, by_else: *by_else })
            }
            Exit::Return { verdict, args } => {
                StatementKind::Exit(Exit::Return { verdict: verdict.clone(), args: self.args(args, scope) })
            }
            Exit::Stay(reason) => {
                StatementKind::Exit(Exit::Stay(reason.as_ref().map(|arg| self.arg(arg, scope))))
            }
            Exit::Hold(reason) => StatementKind::Exit(Exit::Hold(self.arg(reason, scope))),
        }
    }

    /// `GOTO: {next}`: the parameter must be one bare word.
    fn target(&mut self, target: &Ident, hole: bool, scope: &Scope<'_>) -> Option<Ident> {
        if !hole {
            return Some(target.clone());
        }
        match scope.values.get(&target.name) {
            Some(Arg::Words(words)) if words.len() == 1 => {
                Some(Ident { name: words[0].name.clone(), span: target.span })
            }
            Some(_) => {
                let message = format!("`{}` is not the name of a state", target.name);
                self.say(Problem::error("not-a-state", target.span, message), scope);
                None
            }
            None => {
                let message = format!("`{{{}}}` is no parameter of this pattern", target.name);
                let problem = Problem::error("unknown-parameter", target.span, message);
                self.say(problem.hint("a state's name stands without braces"), scope);
                None
            }
        }
    }

    fn step(&mut self, step: &Step, scope: &Scope<'_>) -> Step {
        match step.clone() {
            Step::Do { bind, pipe, call, paying } => {
                Step::Do { bind, pipe, call: self.call(&call, scope), paying }
            }
            Step::Parallel { bind, args, calls } => Step::Parallel {
                bind,
                args: self.args(&args, scope),
                calls: calls.iter().map(|call| self.call(call, scope)).collect(),
            },
            Step::ForEach { bind, item, list, by, any, body } => Step::ForEach {
                bind,
                item,
                list: self.expr(&list, scope),
                by: by.map(|by| self.expr(&by, scope)),
                any,
                body: self.block(&body, scope),
            },
            Step::Check { bind, pipe, call } => Step::Check { bind, pipe, call: self.call(&call, scope) },
            Step::WaitFor { bind, call } => Step::WaitFor { bind, call: self.call(&call, scope) },
            Step::WaitWords { bind, words } => Step::WaitWords { bind, words },
            Step::Ask { bind, question, args } => {
                Step::Ask { bind, question: self.arg(&question, scope), args: self.args(&args, scope) }
            }
            Step::Pay { meter, per } => {
                Step::Pay { meter, per: per.map(|(name, expr)| (name, self.expr(&expr, scope))) }
            }
        }
    }

    fn call(&mut self, call: &Call, scope: &Scope<'_>) -> Call {
        let target = match &call.target {
            Target::Shell(template) => Target::Shell(self.template(template, scope)),
            Target::Action(_) | Target::Task(_) | Target::Run(_) => call.target.clone(),
        };
        Call { target, args: self.args(&call.args, scope), span: call.span }
    }

    fn args(&mut self, args: &Args, scope: &Scope<'_>) -> Args {
        args.iter().map(|(name, arg)| (name.clone(), self.arg(arg, scope))).collect()
    }

    fn arg(&mut self, arg: &Arg, scope: &Scope<'_>) -> Arg {
        match arg {
            Arg::Brace(expr, span) => match parameter(expr, scope) {
                Some(value) if self.affords(value, *span, scope) => value.clone(),
                Some(_) => Arg::None(*span),
                None => Arg::Brace(self.expr(expr, scope), *span),
            },
            Arg::Text(template) => Arg::Text(self.template(template, scope)),
            Arg::Words(_) | Arg::Number(..) | Arg::Duration(..) | Arg::None(_) => arg.clone(),
        }
    }

    fn template(&mut self, template: &Template, scope: &Scope<'_>) -> Template {
        let mut parts = Vec::new();
        for part in &template.parts {
            match part {
                TemplatePart::Text(_) => parts.push(part.clone()),
                TemplatePart::Hole(expr) => match parameter(expr, scope) {
                    Some(value) if self.affords(value, expr.span, scope) => splice(value, &mut parts),
                    Some(_) => {}
                    None => parts.push(TemplatePart::Hole(self.expr(expr, scope))),
                },
            }
        }
        Template { parts, span: template.span }
    }

    /// Inside an expression a parameter can only stand for a value in braces.
    fn expr(&mut self, expr: &Expr, scope: &Scope<'_>) -> Expr {
        let each =
            |paster: &mut Self, parts: &[Expr]| parts.iter().map(|part| paster.expr(part, scope)).collect();
        let kind = match &*expr.kind {
            ExprKind::Or(parts) => ExprKind::Or(each(self, parts)),
            ExprKind::And(parts) => ExprKind::And(each(self, parts)),
            ExprKind::Not(inner) => ExprKind::Not(self.expr(inner, scope)),
            ExprKind::Compare(compare, one, two) => {
                ExprKind::Compare(*compare, self.expr(one, scope), self.expr(two, scope))
            }
            ExprKind::Empty(inner, negated) => ExprKind::Empty(self.expr(inner, scope), *negated),
            ExprKind::Text(template) => ExprKind::Text(self.template(template, scope)),
            ExprKind::Function(function, args) => ExprKind::Function(*function, each(self, args)),
            ExprKind::Path(path) => return self.path(path, expr, scope),
            ExprKind::Number(_) | ExprKind::Duration(_) | ExprKind::Bool(_) | ExprKind::None => {
                return expr.clone();
            }
        };
        Expr { kind: Box::new(kind), span: expr.span }
    }

    fn path(&mut self, path: &[Ident], expr: &Expr, scope: &Scope<'_>) -> Expr {
        let Some(value) = path.first().and_then(|first| scope.values.get(&first.name)) else {
            return expr.clone();
        };
        let rest = &path[1..];
        if !self.affords(value, expr.span, scope) {
            return Expr { kind: Box::new(ExprKind::None), span: expr.span };
        }
        let kind = match value {
            Arg::Brace(inner, _) if rest.is_empty() => (*inner.kind).clone(),
            Arg::Brace(inner, _) => match inner.kind.as_path() {
                Some(root) => ExprKind::Path(root.iter().chain(rest).cloned().collect()),
                None => return self.no_field(expr, scope),
            },
            _ if !rest.is_empty() => return self.no_field(expr, scope),
            Arg::Words(words) => {
                let text = words.iter().map(|word| &*word.name).collect::<Vec<_>>().join("|");
                ExprKind::Text(Template { parts: vec![TemplatePart::Text(text)], span: expr.span })
            }
            Arg::Number(number, _) => ExprKind::Number(*number),
            Arg::Duration(seconds, _) => ExprKind::Duration(*seconds),
            Arg::Text(template) => ExprKind::Text(template.clone()),
            Arg::None(_) => ExprKind::None,
        };
        Expr { kind: Box::new(kind), span: expr.span }
    }

    /// Whether a value may be put in once more; patterns that double what they are given end here.
    fn affords(&mut self, value: &Arg, span: Span, scope: &Scope<'_>) -> bool {
        let before = self.parts;
        self.parts = self.parts.saturating_add(arg_size(value));
        if before <= MAX_PASTED_PARTS && self.parts > MAX_PASTED_PARTS {
            let message = "the parameters of patterns become too large here";
            self.say(Problem::error("too-large", span, message), scope);
        }
        self.parts <= MAX_PASTED_PARTS
    }

    fn no_field(&mut self, expr: &Expr, scope: &Scope<'_>) -> Expr {
        let message = format!("the value given for `{expr}` has no fields");
        self.say(Problem::error("unknown-field", expr.span, message), scope);
        Expr { kind: Box::new(ExprKind::None), span: expr.span }
    }
}

/// Gives every statement its number, in reading order: itself, its block, its ELSE. A move
/// anywhere in an ELSE also tells its target why, so it is marked here.
fn number(block: &mut Block, next: &mut u32, in_else: bool) {
    for statement in block {
        statement.place = *next;
        *next += 1;
        match &mut statement.what {
            StatementKind::Step { step, otherwise } => {
                if let Step::ForEach { body, .. } = step {
                    number(body, next, in_else);
                }
                if let Some(otherwise) = otherwise {
                    number(otherwise, next, true);
                }
            }
            StatementKind::If { body, .. } => number(body, next, in_else),
            StatementKind::Exit(Exit::Goto { by_else, .. }) => *by_else = in_else,
            StatementKind::Emit(_)
            | StatementKind::Set(..)
            | StatementKind::Increment(_)
            | StatementKind::Refill(..) => {}
            StatementKind::Use(_)
            | StatementKind::Exit(_)
            | StatementKind::Proceed
            | StatementKind::Broken => {}
        }
    }
}

/// The value that stands for `{p}`, when the expression is just a parameter.
fn parameter<'a>(expr: &Expr, scope: &Scope<'a>) -> Option<&'a Arg> {
    let [only] = expr.kind.as_path()? else { return None };
    scope.values.get(&only.name)
}

/// How many pieces a value consists of.
fn arg_size(arg: &Arg) -> usize {
    match arg {
        Arg::Text(template) => template_size(template),
        Arg::Brace(expr, _) => expr_size(expr),
        Arg::Words(words) => words.len(),
        Arg::Number(..) | Arg::Duration(..) | Arg::None(_) => 1,
    }
}

fn template_size(template: &Template) -> usize {
    let size = |part: &TemplatePart| match part {
        TemplatePart::Text(_) => 1,
        TemplatePart::Hole(expr) => expr_size(expr),
    };
    1 + template.parts.iter().map(size).sum::<usize>()
}

fn expr_size(expr: &Expr) -> usize {
    1 + match &*expr.kind {
        ExprKind::Or(parts) | ExprKind::And(parts) | ExprKind::Function(_, parts) => {
            parts.iter().map(expr_size).sum()
        }
        ExprKind::Not(inner) | ExprKind::Empty(inner, _) => expr_size(inner),
        ExprKind::Compare(_, one, two) => expr_size(one) + expr_size(two),
        ExprKind::Text(template) => template_size(template),
        ExprKind::Path(path) => path.len(),
        ExprKind::Number(_) | ExprKind::Duration(_) | ExprKind::Bool(_) | ExprKind::None => 0,
    }
}

/// Puts a parameter's value into text.
fn splice(value: &Arg, parts: &mut Vec<TemplatePart>) {
    match value {
        Arg::Text(template) => parts.extend(template.parts.iter().cloned()),
        Arg::Brace(expr, _) => parts.push(TemplatePart::Hole(expr.clone())),
        Arg::Words(_) | Arg::Number(..) | Arg::Duration(..) | Arg::None(_) => {
            parts.push(TemplatePart::Text(value.to_string()));
        }
    }
}
