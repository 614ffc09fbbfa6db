//! Values of expressions: the only place where a guard is looked at.
//!
//! Evaluation reads what is known and nothing else. A name that is not known is `none`; a
//! comparison with `none` does not hold unless it asks for it. There is no error to handle: what
//! could go wrong was refused at load.

use std::sync::Arc;

use crate::syntax::{Arg, Args, Compare, Expr, ExprKind, Function, Ident, Template, TemplatePart};
use crate::value::{Fields, Number, Value};

/// A scope: the names that an expression can use.
pub trait Names {
    /// The value of a name; `None` when nothing of that name is known.
    fn name(&self, name: &str) -> Option<Value>;
}

/// Names without values, for expressions that must not use any.
pub struct Nothing;

impl Names for Nothing {
    fn name(&self, _: &str) -> Option<Value> {
        None
    }
}

/// The value of an expression that names nothing.
pub fn constant(expr: &Expr) -> Value {
    eval(expr, &Nothing)
}

/// The value of an expression.
pub fn eval(expr: &Expr, names: &dyn Names) -> Value {
    match &*expr.kind {
        ExprKind::Or(parts) => Value::Bool(parts.iter().any(|part| eval(part, names).holds())),
        ExprKind::And(parts) => Value::Bool(parts.iter().all(|part| eval(part, names).holds())),
        ExprKind::Not(inner) => Value::Bool(!eval(inner, names).holds()),
        ExprKind::Empty(inner, negated) => Value::Bool(eval(inner, names).is_empty() != *negated),
        ExprKind::Compare(compare, one, two) => {
            Value::Bool(compared(*compare, &eval(one, names), &eval(two, names)))
        }
        ExprKind::Path(path) => at(path, names),
        ExprKind::Number(number) | ExprKind::Duration(number) => Value::Number(*number),
        ExprKind::Text(template) => Value::text(text(template, names)),
        ExprKind::Bool(value) => Value::Bool(*value),
        ExprKind::None => Value::None,
        ExprKind::Function(function, args) => applied(*function, args, names),
    }
}

/// Whether every name that an expression reads is known.
pub fn is_known(expr: &Expr, names: &dyn Names) -> bool {
    match &*expr.kind {
        ExprKind::Or(parts) | ExprKind::And(parts) | ExprKind::Function(_, parts) => {
            parts.iter().all(|part| is_known(part, names))
        }
        ExprKind::Not(inner) | ExprKind::Empty(inner, _) => is_known(inner, names),
        ExprKind::Compare(_, one, two) => is_known(one, names) && is_known(two, names),
        ExprKind::Path(path) => path.first().is_none_or(|first| names.name(&first.name).is_some()),
        ExprKind::Text(template) => template.parts.iter().all(|part| match part {
            TemplatePart::Text(_) => true,
            TemplatePart::Hole(inner) => is_known(inner, names),
        }),
        ExprKind::Number(_) | ExprKind::Duration(_) | ExprKind::Bool(_) | ExprKind::None => true,
    }
}

/// The value of an argument.
pub fn arg(arg: &Arg, names: &dyn Names) -> Value {
    match arg {
        Arg::Words(words) => match words.as_slice() {
            [word] => Value::Text(word.name.clone()),
            words => Value::list(words.iter().map(|word| Value::Text(word.name.clone()))),
        },
        Arg::Number(number, _) | Arg::Duration(number, _) => Value::Number(*number),
        Arg::Text(template) => Value::text(text(template, names)),
        Arg::None(_) => Value::None,
        Arg::Brace(expr, _) => eval(expr, names),
    }
}

/// Evaluates arguments; their values, by name.
pub fn fields(args: &Args, names: &dyn Names) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in args {
        fields.insert(name.name.clone(), arg(value, names));
    }
    fields
}

/// Text with its holes filled in.
pub fn text(template: &Template, names: &dyn Names) -> String {
    let mut out = String::new();
    for part in &template.parts {
        match part {
            TemplatePart::Text(text) => out.push_str(text),
            TemplatePart::Hole(expr) => out.push_str(&eval(expr, names).to_string()),
        }
    }
    out
}

fn at(path: &[Ident], names: &dyn Names) -> Value {
    let Some(first) = path.first() else { return Value::None };
    let mut value = names.name(&first.name).unwrap_or_default();
    for field in &path[1..] {
        value = value.field(&field.name).clone();
    }
    value
}

fn compared(compare: Compare, one: &Value, two: &Value) -> bool {
    match compare {
        Compare::Same => one == two,
        Compare::Different => one != two,
        Compare::In => two.items().contains(one),
        Compare::Less | Compare::AtMost | Compare::Greater | Compare::AtLeast => {
            let (Some(one), Some(two)) = (one.as_number(), two.as_number()) else { return false };
            ordered(compare, one, two)
        }
    }
}

fn ordered(compare: Compare, one: Number, two: Number) -> bool {
    match compare {
        Compare::Less => one < two,
        Compare::AtMost => one <= two,
        Compare::Greater => one > two,
        Compare::AtLeast => one >= two,
        Compare::Same | Compare::Different | Compare::In => false,
    }
}

fn applied(function: Function, args: &[Expr], names: &dyn Names) -> Value {
    let values = args.iter().map(|arg| eval(arg, names));
    match function {
        Function::Len => Value::Number(Number::count(values.map(|value| length(&value)).sum())),
        Function::Max => {
            values.filter_map(|value| value.as_number()).max().map_or(Value::None, Value::Number)
        }
        Function::Min => {
            values.filter_map(|value| value.as_number()).min().map_or(Value::None, Value::Number)
        }
    }
}

fn length(value: &Value) -> u64 {
    let length = match value {
        Value::None | Value::Bool(_) | Value::Number(_) => 0,
        Value::Text(text) => text.chars().count(),
        Value::List(items) => items.len(),
        Value::Record(fields) => fields.len(),
    };
    length as u64
}

/// A list of texts as a value.
pub fn texts<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> Value {
    Value::List(Arc::new(items.into_iter().map(|item| Value::text(item)).collect()))
}
