//! Statements back to text: for digests, for messages and for people.
//!
//! What is printed reads again as the same statements; positions and comments are not kept.

use std::fmt::Write as _;

use super::{Args, Block, Call, Emit, Exit, Statement, StatementKind, Step, Target};

/// Prints a block, two spaces a level.
pub fn block(block: &Block, out: &mut String) {
    lines(block, 1, out);
}

/// Prints the first line of a statement.
pub fn line(statement: &StatementKind) -> String {
    match statement {
        StatementKind::Step { step, otherwise } => {
            let tail = match otherwise.as_deref() {
                Some([one]) => format!(" ELSE {}", inline(one)),
                Some(_) => " ELSE …".to_owned(),
                None => String::new(),
            };
            format!("{}{tail}", step_text(step))
        }
        StatementKind::If { condition, .. } => format!("IF: {condition} →"),
        StatementKind::Emit(Emit::Text(template)) => format!("EMIT: {template}"),
        StatementKind::Emit(Emit::Event(event, given)) => format!("EMIT: {}{}", event.name, args(given)),
        StatementKind::Set(name, expr) => format!("SET: {} = {expr}", name.name),
        StatementKind::Increment(name) => format!("INCREMENT: {}", name.name),
        StatementKind::Refill(meter, Some(to)) => format!("REFILL: {} TO {to}", meter.name),
        StatementKind::Refill(meter, None) => format!("REFILL: {}", meter.name),
        StatementKind::Use(used) => format!("USE: {}{}", used.name.name, with(&used.args)),
        StatementKind::Exit(exit) => exit_text(exit),
        StatementKind::Proceed => "PROCEED".to_owned(),
        StatementKind::Broken => "?".to_owned(),
    }
}

fn lines(block: &Block, depth: usize, out: &mut String) {
    for statement in block {
        let indent = "  ".repeat(depth);
        match &statement.what {
            StatementKind::Step { step, otherwise } => {
                let _ = writeln!(out, "{indent}{}", step_text(step));
                match step {
                    Step::ForEach { body, .. } => lines(body, depth + 1, out),
                    Step::Parallel { calls, .. } => {
                        for call in calls {
                            let _ = writeln!(out, "{indent}  - {}", call_text(call));
                        }
                    }
                    Step::Do { .. } | Step::Check { .. } | Step::WaitFor { .. } | Step::WaitWords { .. } => {}
                    Step::Ask { .. } | Step::Pay { .. } => {}
                }
                if let Some(otherwise) = otherwise {
                    let _ = writeln!(out, "{indent}  ELSE");
                    lines(otherwise, depth + 2, out);
                }
            }
            StatementKind::If { condition, body } => {
                let _ = writeln!(out, "{indent}IF: {condition} →");
                lines(body, depth + 1, out);
            }
            StatementKind::Emit(_)
            | StatementKind::Set(..)
            | StatementKind::Increment(_)
            | StatementKind::Refill(..)
            | StatementKind::Use(_)
            | StatementKind::Exit(_)
            | StatementKind::Proceed
            | StatementKind::Broken => {
                let _ = writeln!(out, "{indent}{}", line(&statement.what));
            }
        }
    }
}

fn inline(statement: &Statement) -> String {
    line(&statement.what)
}

fn step_text(step: &Step) -> String {
    let named = |bind: &Option<super::Ident>| {
        bind.as_ref().map_or_else(String::new, |bind| format!("{} = ", bind.name))
    };
    let pipe = |pipe: &bool| if *pipe { "| " } else { "" };
    match step {
        Step::Do { bind, pipe: piped, call, paying } => {
            let paying = paying.as_ref().map_or_else(String::new, |paying| {
                let keeping =
                    if paying.keeping > 0 { format!(" KEEPING {}", paying.keeping) } else { String::new() };
                format!(" PAYING {}{keeping}", paying.meter.name)
            });
            format!("DO: {}{}{}{paying}", named(bind), pipe(piped), call_text(call))
        }
        Step::Parallel { bind, args: given, .. } => format!("DO: {}PARALLEL{}", named(bind), args(given)),
        Step::ForEach { bind, item, list, by, any, .. } => {
            let by = by.as_ref().map_or_else(String::new, |by| format!(" BY {by}"));
            let any = if *any { " UNTIL ANY" } else { "" };
            format!("DO: {}FOR EACH {} IN {list}{by}{any}", named(bind), item.name)
        }
        Step::Check { bind, pipe: piped, call } => {
            format!("CHECK: {} = {}{}", bind.name, pipe(piped), call_text(call))
        }
        Step::WaitFor { bind, call } => format!("WAIT: {}{}", named(bind), call_text(call)),
        Step::WaitWords { bind, words } => {
            let words: Vec<&str> = words.iter().map(|word| &*word.name).collect();
            format!("WAIT: {}{}", named(bind), words.join(" | "))
        }
        Step::Ask { bind, question, args: given } => {
            format!("ASK: {} = {question}{}", bind.name, args(given))
        }
        Step::Pay { meter, per: None } => format!("PAY: {}", meter.name),
        Step::Pay { meter, per: Some((key, list)) } => {
            format!("PAY: {} PER {} IN {list}", meter.name, key.name)
        }
    }
}

fn call_text(call: &Call) -> String {
    let whom = match &call.target {
        Target::Action(name) => name.name.to_string(),
        Target::Task(role) => format!("Task({})", role.name),
        Target::Run(protocol) => format!("Run({})", protocol.name),
        Target::Shell(template) => format!("sh {template}"),
    };
    format!("{whom}{}", args(&call.args))
}

fn exit_text(exit: &Exit) -> String {
    match exit {
        Exit::Goto { target, args: given, .. } => format!("GOTO: {}{}", target.name, with(given)),
        Exit::Return { verdict, args: given } => format!("RETURN: {}{}", verdict.name, args(given)),
        Exit::Stay(None) => "STAY".to_owned(),
        Exit::Stay(Some(reason)) => format!("STAY: {reason}"),
        Exit::Hold(reason) => format!("HOLD: {reason}"),
    }
}

fn with(given: &Args) -> String {
    if given.is_empty() { String::new() } else { format!(" with{}", args(given)) }
}

fn args(given: &Args) -> String {
    given.iter().map(|(name, arg)| format!(" {}={arg}", name.name)).collect()
}
