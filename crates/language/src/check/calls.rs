//! Types of calls, arguments and expressions.
//!
//! Every name, field, parameter and word is looked up here, and what does not exist is said with
//! the nearest thing that does.

use std::collections::BTreeMap;

use super::env::{Env, Local, literal};
use super::shell;
use super::walk::{TaskPlace, Walk};
use crate::problem::Problem;
use crate::source::Span;
use ftl_core::catalogue::{ActionKind, Catalogue, Role, RoleForm};
use ftl_core::syntax::{
    Arg, Args, Call, Compare, Expr, ExprKind, Function, Ident, Preset, Target, Template, TemplatePart, roots,
    template_roots,
};
use ftl_core::types::{Field, Type};
use ftl_core::value::Name;

/// Whether the agent of a call may write.
pub fn writes(call: &Call) -> bool {
    matches!(call.target, Target::Task(_)) && call.args.iter().any(|(name, _)| &*name.name == "write")
}

/// The type of what FOR EACH binds.
pub fn batch_type() -> Type {
    let failed = Type::full_record("failed", [("key", Type::Text), ("reason", Type::Text)]);
    Type::full_record(
        "batch",
        [
            ("settled", Type::list(Type::Text)),
            ("failed", Type::list(failed)),
            ("running", Type::list(Type::Text)),
        ],
    )
}

/// What WAIT for words binds: which word it was, who said it, why, and the options of its command.
pub fn word_type<'a>(words: impl Iterator<Item = &'a Name>, catalogue: &Catalogue) -> Type {
    let mut fields: BTreeMap<Name, Type> =
        [("by", Type::Text), ("reason", Type::Text)].map(|(name, ty)| (Name::from(name), ty)).into();
    for word in words {
        fields.insert(word.clone(), Type::Bool);
        let options = catalogue.word(word).into_iter().flat_map(|word| &word.options);
        fields.extend(options.map(|(name, field)| (name.clone(), field.ty.clone())));
    }
    Type::record("word", fields)
}

/// What ASK binds: one of the choices, or text.
pub fn question_type(args: &Args) -> Type {
    match args.iter().find(|(name, _)| &*name.name == "choices") {
        Some((_, Arg::Words(words))) => Type::choice(words.iter().map(|word| &word.name)),
        Some(_) | None => Type::Text,
    }
}

/// The type of what PARALLEL binds: its status, and the results by branch.
pub fn found_type(results: Type) -> Type {
    let status = Type::choice(["all_complete", "quorum_met", "timeout", "quorum_failure"]);
    Type::full_record(
        "found",
        [
            ("status", status),
            ("completed", Type::list(Type::Text)),
            ("missing", Type::list(Type::Text)),
            ("results", Type::list(results)),
        ],
    )
}

impl Walk<'_> {
    /// The gate that a call asks, if it is one.
    pub(super) fn gate_name(&self, call: &Call) -> Option<Name> {
        let Target::Action(action) = &call.target else { return None };
        let declared = self.world.catalogue.action(&action.name)?;
        (declared.kind == ActionKind::Gate).then(|| declared.name.clone())
    }

    /// Checks a call and tells what it answers.
    pub(super) fn call(&mut self, call: &Call, verb: &str, pipe: bool, env: &mut Env) -> Type {
        let answer = match &call.target {
            Target::Action(action) => self.action(action, call, verb, pipe, env),
            Target::Task(role) => self.task(role, call, env),
            Target::Run(protocol) => self.child(protocol, call, env),
            Target::Shell(template) => {
                self.template(template, env);
                self.quoted_holes(template);
                self.shell(call, template.span, env)
            }
        };
        if !matches!(call.target, Target::Action(_)) {
            if verb != "DO" {
                let message = format!("{verb} cannot ask this: it may change the world");
                self.say(Problem::error("wrong-kind", call.span, message).hint("use DO"));
            }
            if pipe {
                self.say(
                    Problem::error("pipe", call.span, "only an action takes the last result")
                        .hint("name it and pass it as an argument"),
                );
            }
        }
        if writes(call) {
            env.wrote();
        }
        answer
    }

    /// A hole is an argument of the script; between quotes it would be text, or fall apart.
    fn quoted_holes(&mut self, template: &Template) {
        for span in shell::quoted_holes(template) {
            let message = "this hole stands between quotes, where it is not one argument";
            let hint = "a hole is quoted by itself: leave the quotes out, or close them before it, as in \
                        `'Release '{version}`";
            self.say(Problem::error("quoted-hole", span, message).hint(hint));
        }
    }

    /// The script is written in the protocol and its holes are its arguments; the rest is given.
    fn shell(&mut self, call: &Call, span: Span, env: &Env) -> Type {
        let Some(declared) = self.world.catalogue.action("sh") else {
            self.args_types(&call.args, env);
            return Type::Any;
        };
        let mut params = declared.params.clone();
        params.retain(|name, _| !matches!(&**name, "script" | "args"));
        self.arguments("sh", span, &call.args, &params, None, env);
        declared.answer.clone()
    }

    fn action(&mut self, action: &Ident, call: &Call, verb: &str, pipe: bool, env: &Env) -> Type {
        let Some(declared) = self.world.catalogue.action(&action.name) else {
            let known = self.world.catalogue.actions().map(|one| one.name.clone());
            let message = format!("there is no action `{}`", action.name);
            self.say(Problem::error("unknown-action", action.span, message).near(&action.name, known));
            self.args_types(&call.args, env);
            return Type::Any;
        };
        let fits = match verb {
            "CHECK" => matches!(declared.kind, ActionKind::Look | ActionKind::Gate),
            "WAIT" => declared.kind == ActionKind::Wait,
            _ => declared.kind != ActionKind::Wait,
        };
        if !fits {
            let (message, hint) = match declared.kind {
                ActionKind::Wait => (format!("`{}` only waits", action.name), "use WAIT"),
                ActionKind::Act => (format!("`{}` changes the world", action.name), "use DO"),
                ActionKind::Look | ActionKind::Gate => {
                    (format!("`{}` looks and does not wait", action.name), "use CHECK")
                }
            };
            self.say(Problem::error("wrong-kind", action.span, message).hint(hint));
        }
        let piped = self.piped(action, declared.piped, pipe, &declared.params, env);
        self.arguments(&action.name, action.span, &call.args, &declared.params, piped, env);
        declared.answer.clone()
    }

    /// `DO: | action` hands the last result over to the parameter that takes it.
    fn piped(
        &mut self,
        action: &Ident,
        param: Option<&'static str>,
        pipe: bool,
        params: &BTreeMap<Name, Field>,
        env: &Env,
    ) -> Option<&'static str> {
        if !pipe {
            return None;
        }
        let Some(param) = param else {
            self.say(Problem::error("pipe", action.span, format!("`{}` takes no last result", action.name)));
            return None;
        };
        match (&env.last, params.get(param)) {
            (None, _) => {
                let problem = Problem::error("pipe", action.span, "there is no last result to hand over");
                self.say(problem.hint("`|` hands over what the step before it answered"));
            }
            (Some(last), Some(field)) if !last.fits(&field.ty) => {
                let message = format!("`{}` takes {}, the last result is {last}", action.name, field.ty);
                self.say(Problem::error("type", action.span, message));
            }
            (Some(_), _) => {}
        }
        Some(param)
    }

    /// Every argument exists and fits, every required parameter is given.
    fn arguments(
        &mut self,
        whom: &str,
        span: Span,
        args: &Args,
        params: &BTreeMap<Name, Field>,
        piped: Option<&str>,
        env: &Env,
    ) {
        for (name, arg) in args {
            let ty = self.arg_type(arg, env);
            let Some(field) = params.get(&name.name) else {
                let message = format!("`{whom}` takes no `{}`", name.name);
                let known: Vec<&Name> = params.keys().collect();
                let problem = Problem::error("unknown-parameter", name.span, message);
                self.say(problem.among(&name.name, &known, "it takes"));
                continue;
            };
            if !ty.fits(&field.ty) {
                let message = format!("`{}` of `{whom}` is {}, this is {ty}", name.name, field.ty);
                self.say(Problem::error("type", arg.span(), message));
            }
        }
        for (name, field) in params {
            let given = args.iter().any(|(given, _)| given.name == *name) || piped == Some(&**name);
            if field.required && !given {
                let message = format!("`{whom}` must be given `{name}`");
                self.say(
                    Problem::error("missing-parameter", span, message)
                        .hint(format!("{name}: {}", field.about.trim())),
                );
            }
        }
    }

    fn task(&mut self, role: &Ident, call: &Call, env: &Env) -> Type {
        self.note_task(role, call, env);
        let Some(declared) = self.world.catalogue.role(&role.name) else {
            let known: Vec<Name> = self.world.catalogue.roles().map(|one| one.name.clone()).collect();
            let problem =
                Problem::error("unknown-role", role.span, format!("there is no role `{}`", role.name));
            self.say(problem.among(&role.name, &known, "the roles are"));
            self.args_types(&call.args, env);
            return Type::Any;
        };
        let Some(form) = self.form(role, declared, call) else {
            self.args_types(&call.args, env);
            return Type::Any;
        };
        let rest: Args = call
            .args
            .iter()
            .filter(|(name, _)| form.word.is_none() || declared.selector != Some(&*name.name))
            .cloned()
            .collect();
        self.arguments(&format!("Task({})", role.name), role.span, &rest, &form.params, None, env);
        form.answer.clone()
    }

    /// The form in which a role is asked; a word that picks none is said.
    fn form<'r>(&mut self, role: &Ident, declared: &'r Role, call: &Call) -> Option<&'r RoleForm> {
        let selector = declared.selector.unwrap_or("step");
        let selected = call.args.iter().find(|(name, _)| declared.selector == Some(&*name.name));
        let word = match selected {
            None => None,
            Some((_, Arg::Words(words))) if words.len() == 1 => Some(&words[0]),
            Some((_, arg)) => {
                let message = format!("`{selector}` picks how the role is asked, so it is one bare word");
                self.say(Problem::error("unknown-form", arg.span(), message));
                return None;
            }
        };
        let given = call.args.iter().map(|(name, _)| &*name.name);
        let form = declared.pick(word.map(|word| &*word.name), &given);
        if form.is_none() {
            let known: Vec<&str> = declared.forms.iter().filter_map(|form| form.word).collect();
            let (span, message) = match word {
                Some(word) => (word.span, format!("Task({}) knows no {selector}=`{}`", role.name, word.name)),
                None => (role.span, format!("Task({}) must be told which `{selector}`", role.name)),
            };
            let problem =
                Problem::error("unknown-form", span, message).hint(format!("{selector}={}", known.join("|")));
            self.say(match word {
                Some(word) => problem.near(&word.name, known),
                None => problem,
            });
        }
        form
    }

    /// Remembers what the agent is told: a parameter of the state, or a CHECK of this visit.
    fn note_task(&mut self, role: &Ident, call: &Call, env: &Env) {
        let mut read = std::collections::BTreeSet::new();
        for (_, arg) in &call.args {
            match arg {
                Arg::Brace(expr, _) => roots(expr, &mut read),
                Arg::Text(template) => template_roots(template, &mut read),
                Arg::Words(_) | Arg::Number(..) | Arg::Duration(..) | Arg::None(_) => {}
            }
        }
        let told = read.iter().any(|name| {
            self.state.params.iter().any(|param| param.name.name == *name && param.default.is_none())
                || env.locals.get(name).is_some_and(|local| local.seen)
        });
        let task = TaskPlace { span: call.span, role: role.name.clone(), writes: writes(call), told };
        match self.facts.tasks.iter_mut().find(|one| one.span == task.span) {
            Some(known) => known.told &= told,
            None => self.facts.tasks.push(task),
        }
    }

    fn child(&mut self, protocol: &Ident, call: &Call, env: &Env) -> Type {
        let Some(child) = self.world.documents.get(&protocol.name) else {
            let known = self.world.names;
            let message = format!("there is no protocol `{}`", protocol.name);
            self.say(
                Problem::error("unknown-protocol", protocol.span, message).near(&protocol.name, known.iter()),
            );
            self.args_types(&call.args, env);
            return Type::Any;
        };
        let params = child
            .document
            .inputs
            .iter()
            .map(|input| {
                let ty = input.default.as_ref().map_or(Type::Unknown, preset_type);
                let field =
                    Field { ty, required: input.default.is_none(), about: "an input of the protocol" };
                (input.name.name.clone(), field)
            })
            .collect();
        self.arguments(&format!("Run({})", protocol.name), protocol.span, &call.args, &params, None, env);
        self.world.answers.get(&protocol.name).cloned().unwrap_or(Type::Unknown)
    }

    pub(super) fn parallel(&mut self, bind: Option<&Ident>, args: &Args, calls: &[Call], env: &mut Env) {
        let params: BTreeMap<Name, Field> = [
            ("quorum", Type::Number, "how many branches must succeed"),
            ("timeout", Type::Duration, "how long to wait"),
            ("critical", Type::Any, "branches whose success is a quorum by itself"),
        ]
        .map(|(name, ty, about)| (Name::from(name), Field { ty, required: false, about }))
        .into();
        let span = calls.first().map_or(Span::default(), |call| call.span);
        self.arguments("PARALLEL", span, args, &params, None, env);
        let mut results = Type::Unknown;
        let before = env.clone();
        for call in calls {
            let mut branch = before.clone();
            results = results.join(&self.call(call, "DO", false, &mut branch));
            if writes(call) {
                env.wrote();
            }
        }
        self.critical(args, calls);
        let ty = found_type(results);
        self.bind(bind, Local { ty: ty.clone(), gate: None, seen: false, words: Vec::new() }, env);
        env.last = Some(ty);
    }

    fn critical(&mut self, args: &Args, calls: &[Call]) {
        let Some((_, Arg::Words(words))) = args.iter().find(|(name, _)| &*name.name == "critical") else {
            return;
        };
        let names = branch_names(calls);
        for word in words {
            if !names.contains(&word.name) {
                let message = format!("there is no branch `{}`", word.name);
                self.say(Problem::error("unknown-branch", word.span, message).near(&word.name, names.iter()));
            }
        }
    }

    /// The type of an argument's value.
    pub(super) fn arg_type(&mut self, arg: &Arg, env: &Env) -> Type {
        match arg {
            Arg::Words(words) if words.len() == 1 => Type::choice(words.iter().map(|word| &word.name)),
            Arg::Words(words) => Type::list(Type::choice(words.iter().map(|word| &word.name))),
            Arg::Number(..) => Type::Number,
            Arg::Duration(..) => Type::Duration,
            Arg::Text(template) => {
                self.template(template, env);
                Type::Text
            }
            Arg::None(_) => Type::Unknown,
            Arg::Brace(expr, _) => self.expr_type(expr, env),
        }
    }

    pub(super) fn template(&mut self, template: &Template, env: &Env) {
        for part in &template.parts {
            if let TemplatePart::Hole(expr) = part {
                self.expr_type(expr, env);
            }
        }
    }

    /// The type of an expression; what is wrong with it is said.
    pub(super) fn expr_type(&mut self, expr: &Expr, env: &Env) -> Type {
        match &*expr.kind {
            ExprKind::Or(parts) | ExprKind::And(parts) => {
                for part in parts {
                    self.boolean(part, env);
                }
                Type::Bool
            }
            ExprKind::Not(inner) => {
                self.boolean(inner, env);
                Type::Bool
            }
            ExprKind::Empty(inner, _) => {
                self.expr_type(inner, env);
                Type::Bool
            }
            ExprKind::Compare(compare, left, right) => {
                self.compare(*compare, left, right, env);
                Type::Bool
            }
            ExprKind::Path(path) => self.path_type(path, env),
            ExprKind::Number(_) => Type::Number,
            ExprKind::Duration(_) => Type::Duration,
            ExprKind::Text(template) => {
                self.template(template, env);
                Type::Text
            }
            ExprKind::Bool(_) => Type::Bool,
            ExprKind::None => Type::Unknown,
            ExprKind::Function(function, args) => self.function(*function, args, env),
        }
    }

    fn boolean(&mut self, expr: &Expr, env: &Env) {
        let ty = self.expr_type(expr, env);
        if !matches!(ty, Type::Bool | Type::Unknown | Type::Any) {
            self.say(Problem::error(
                "not-a-condition",
                expr.span,
                format!("a condition is yes or no, this is {ty}"),
            ));
        }
    }

    fn function(&mut self, function: Function, args: &[Expr], env: &Env) -> Type {
        for arg in args {
            match function {
                Function::Max | Function::Min => self.number(arg, env, "what is compared"),
                Function::Len => {
                    let ty = self.expr_type(arg, env);
                    if matches!(ty, Type::Bool | Type::Number | Type::Duration) {
                        self.say(Problem::error(
                            "type",
                            arg.span,
                            format!("`len` counts items or letters, this is {ty}"),
                        ));
                    }
                }
            }
        }
        Type::Number
    }

    fn compare(&mut self, compare: Compare, left: &Expr, right: &Expr, env: &Env) {
        let (one, two) = (self.expr_type(left, env), self.expr_type(right, env));
        match compare {
            Compare::Less | Compare::AtMost | Compare::Greater | Compare::AtLeast => {
                for (ty, expr) in [(&one, left), (&two, right)] {
                    if !matches!(ty, Type::Number | Type::Duration | Type::Unknown | Type::Any) {
                        let message = format!("only numbers have an order, this is {ty}");
                        self.say(Problem::error("type", expr.span, message));
                    }
                }
            }
            Compare::In => match &two {
                Type::List(of) if comparable(&one, of) => {}
                Type::Unknown | Type::Any => {}
                Type::List(of) => {
                    self.say(Problem::error(
                        "type",
                        left.span,
                        format!("the list holds {of}, this is {one}"),
                    ));
                }
                Type::Bool
                | Type::Number
                | Type::Duration
                | Type::Text
                | Type::Digest
                | Type::Choice(_)
                | Type::Record(_) => {
                    self.say(Problem::error("type", right.span, format!("IN wants a list, this is {two}")));
                }
            },
            Compare::Same | Compare::Different => self.same(left, right, (&one, &two)),
        }
    }

    fn same(&mut self, left: &Expr, right: &Expr, (one, two): (&Type, &Type)) {
        for (ty, other) in [(one, right), (two, left)] {
            let (Type::Choice(words), Some(word)) = (ty, literal(other)) else { continue };
            if !words.contains(&word) {
                let message = format!("`{word}` is none of {}", words.join(", "));
                self.say(Problem::error("unknown-word", other.span, message).near(&word, words.iter()));
            }
            return;
        }
        if !comparable(one, two) {
            self.say(Problem::error("type", right.span, format!("{one} is never {two}")));
        }
    }

    fn path_type(&mut self, path: &[Ident], env: &Env) -> Type {
        let Some(first) = path.first() else { return Type::Unknown };
        self.used.insert(first.name.clone());
        let Some(mut ty) = self.name_type(&first.name, env) else {
            // A line above could not be read; it may have bound the name.
            if self.facts.broken {
                return Type::Any;
            }
            let problem =
                Problem::error("unknown-name", first.span, format!("`{}` is not known here", first.name));
            let known = self.names(env);
            let hint = if known.contains(&first.name) {
                None
            } else {
                Some("a name bound by a step is gone at the next GOTO")
            };
            let problem = hint.map_or_else(|| problem.clone(), |hint| problem.clone().hint(hint));
            self.say(problem.near(&first.name, known));
            return Type::Any;
        };
        for field in &path[1..] {
            match ty.field(&field.name) {
                Some(inner) => ty = inner,
                None => {
                    let message = format!("{ty} has no field `{}`", field.name);
                    let problem = Problem::error("unknown-field", field.span, message);
                    let names = ty.field_names();
                    let problem = if names.is_empty() {
                        problem
                    } else {
                        problem.hint(format!("it has {}", names.join(", ")))
                    };
                    self.say(problem.near(&field.name, names));
                    return Type::Any;
                }
            }
        }
        ty
    }

    /// The words that an expression can be, when they are a closed set; `none` is one of them
    /// unless the value is surely there.
    pub(super) fn closed_set(&self, expr: &Expr, env: &Env) -> Option<Vec<Name>> {
        let ExprKind::Path(path) = &*expr.kind else { return None };
        let first = path.first()?;
        let mut ty = self.name_type(&first.name, env)?;
        let inputs = &self.pasted.document.inputs;
        let mut sure =
            env.locals.contains_key(&first.name) || inputs.iter().any(|input| input.name.name == first.name);
        for field in &path[1..] {
            sure &= ty.has(&field.name);
            ty = ty.field(&field.name)?;
        }
        let Type::Choice(words) = ty else { return None };
        let none = (!sure).then(|| Name::from("none"));
        Some(words.iter().cloned().chain(none).collect())
    }

    /// What a name means here: this visit, then the state, then the instance.
    fn name_type(&self, name: &Name, env: &Env) -> Option<Type> {
        if let Some(local) = env.locals.get(name) {
            return Some(local.ty.clone());
        }
        let document = &self.pasted.document;
        if self.state.params.iter().any(|param| param.name.name == *name) {
            let key = (self.state.name.name.clone(), name.clone());
            return Some(self.known.params.get(&key).cloned().unwrap_or(Type::Unknown));
        }
        if document.tracks.iter().any(|track| track.name.name == *name) {
            return Some(self.known.tracked.get(name).cloned().unwrap_or(Type::Unknown));
        }
        if let Some(input) = document.inputs.iter().find(|input| input.name.name == *name) {
            return Some(input.default.as_ref().map_or(Type::Unknown, preset_type));
        }
        document.limits.iter().any(|limit| limit.meter.name == *name).then(meter_type)
    }

    fn names(&self, env: &Env) -> Vec<Name> {
        let document = &self.pasted.document;
        let mut names: Vec<Name> = env.locals.keys().cloned().collect();
        names.extend(self.state.params.iter().map(|param| param.name.name.clone()));
        names.extend(document.tracks.iter().map(|track| track.name.name.clone()));
        names.extend(document.inputs.iter().map(|input| input.name.name.clone()));
        names.extend(document.limits.iter().map(|limit| limit.meter.name.clone()));
        names
    }
}

/// The names of the branches of a PARALLEL; a second one of the same name is numbered.
pub fn branch_names(calls: &[Call]) -> Vec<Name> {
    let mut names: Vec<Name> = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        let name = branch_name(call, index);
        let numbered = (2..).map(|number| Name::from(format!("{name}-{number}")));
        let free = std::iter::once(name.clone()).chain(numbered).find(|one| !names.contains(one));
        names.push(free.unwrap_or(name));
    }
    names
}

/// The name of a branch of PARALLEL: the word that picks its form, else whom it asks.
fn branch_name(call: &Call, index: usize) -> Name {
    let selector = call.args.iter().find(|(name, _)| matches!(&*name.name, "mode" | "step" | "of"));
    if let Some((_, Arg::Words(words))) = selector
        && let [word] = words.as_slice()
    {
        return word.name.clone();
    }
    match &call.target {
        Target::Action(name) | Target::Task(name) | Target::Run(name) => name.name.clone(),
        Target::Shell(_) => Name::from(format!("sh-{}", index + 1)),
    }
}

/// A meter as a value.
pub fn meter_type() -> Type {
    Type::full_record("meter", [("used", Type::Number), ("left", Type::Number), ("limit", Type::Number)])
}

/// The type of an input's default.
pub fn preset_type(preset: &Preset) -> Type {
    match preset {
        Preset::Choice(words) => Type::choice(words.iter().map(|word| &word.name)),
        Preset::Value(expr) => match &*expr.kind {
            ExprKind::Number(_) => Type::Number,
            ExprKind::Duration(_) => Type::Duration,
            ExprKind::Text(_) => Type::Text,
            ExprKind::Bool(_) => Type::Bool,
            ExprKind::None => Type::Unknown,
            ExprKind::Or(_) | ExprKind::And(_) | ExprKind::Not(_) | ExprKind::Compare(..) => Type::Bool,
            ExprKind::Empty(..) => Type::Bool,
            ExprKind::Path(_) => Type::Unknown,
            ExprKind::Function(..) => Type::Number,
        },
    }
}

fn comparable(one: &Type, two: &Type) -> bool {
    one.fits(two) || two.fits(one)
}
