//! The syntax tree: a document as the grammar reads it, every node with its span.
//!
//! The tree says what is written, not what it means. `paste` removes USE from it; after that the
//! place of a statement in a state is its path in this tree.

pub mod print;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::value::{Name, Number};

/// A byte range in one of the sources of a library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// Which source, by its place in the library.
    pub file: u32,
    /// The first byte of the range.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The span from the start of this one to the end of the other.
    pub fn to(self, other: Span) -> Span {
        Span { file: self.file, start: self.start, end: other.end.max(self.start) }
    }

    /// The empty span at the end of this one.
    pub fn after(self) -> Span {
        Span { start: self.end, ..self }
    }
}

/// A name and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    /// The name, as it is spelled.
    pub name: Name,
    /// The bytes of the name in its source.
    pub span: Span,
}

/// A document: the headers, patterns and states of all its blocks.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// `PROTOCOL:`.
    pub name: Option<Ident>,
    /// `INPUT:`.
    pub inputs: Vec<InputDecl>,
    /// `LIMIT:`.
    pub limits: Vec<LimitDecl>,
    /// `TRACK:`.
    pub tracks: Vec<Track>,
    /// `GATE:`.
    pub gates: Vec<GateDecl>,
    /// `REDO:`.
    pub redo: Option<Ident>,
    /// `BOARD:`.
    pub board: Option<BoardLine>,
    /// `DELIVERY:`.
    pub delivery: Option<Ident>,
    /// `PATTERN:`.
    pub patterns: Vec<Pattern>,
    /// `STATE:`, in order; the first is the start.
    pub states: Vec<State>,
    /// Whether any line could not be read.
    pub broken: bool,
}

/// `INPUT: name = default`.
#[derive(Clone, Debug)]
pub struct InputDecl {
    /// The input's name.
    pub name: Ident,
    /// What it is when it is not given.
    pub default: Option<Preset>,
}

/// The default of an input.
#[derive(Clone, Debug)]
pub enum Preset {
    /// `= value`.
    Value(Expr),
    /// One of a closed set of words; the first is the default.
    Choice(Vec<Ident>),
}

/// `LIMIT: meter = expr (word: expr) PER name ELSE …`.
#[derive(Clone, Debug)]
pub struct LimitDecl {
    /// The meter's name.
    pub meter: Ident,
    /// The limit when no variant applies.
    pub limit: Expr,
    /// The limit when the input with that choice says this word.
    pub variant: Option<(Ident, Expr)>,
    /// `PER name`: one counter for each key.
    pub per: Option<Ident>,
    /// Where to go when it cannot be paid; `None` is HOLD.
    pub target: Option<Ident>,
}

/// `TRACK: name = expr`.
#[derive(Clone, Debug)]
pub struct Track {
    /// The variable's name.
    pub name: Ident,
    /// Its first value; `none` without one.
    pub first: Option<Expr>,
}

/// `GATE: action OR action BEFORE STATE`.
#[derive(Clone, Debug)]
pub struct GateDecl {
    /// Any of these gates.
    pub actions: Vec<Ident>,
    /// The state that a gate must come before.
    pub state: Ident,
}

/// `BOARD: kind quiet=STATE|STATE rounds=meter`.
#[derive(Clone, Debug)]
pub struct BoardLine {
    /// How runs are drawn.
    pub kind: Ident,
    /// What else is said about it.
    pub args: Args,
}

/// `PATTERN: name with params`.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The pattern's name.
    pub name: Ident,
    /// Its parameters.
    pub params: Vec<Ident>,
    /// Its statements.
    pub body: Block,
}

/// `STATE: name with params`.
#[derive(Clone, Debug)]
pub struct State {
    /// The state's name.
    pub name: Ident,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Its statements.
    pub body: Block,
}

/// A parameter of a state.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: Ident,
    /// Its value when an edge does not give it.
    pub default: Option<Arg>,
}

/// Statements in order, as they are indented under one line.
pub type Block = Vec<Statement>;

/// A statement and where it stands.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Its kind, with its parts.
    pub what: StatementKind,
    /// Its bytes in its source.
    pub span: Span,
    /// Where it was pasted by USE, if it comes from a pattern.
    pub pasted: Option<Span>,
    /// Its number in the state, in reading order; given after pasting.
    pub place: u32,
}

/// The kinds of statements.
#[derive(Clone, Debug)]
pub enum StatementKind {
    /// A step: something that may fail, and the ELSE that answers it.
    Step {
        /// What is to be done.
        step: Step,
        /// What to do if it cannot do what it says.
        otherwise: Option<Block>,
    },
    /// `IF: condition → …`.
    If {
        /// The condition that must hold.
        condition: Expr,
        /// What to do when it holds.
        body: Block,
    },
    /// `EMIT: …`.
    Emit(Emit),
    /// `SET: name = expr`.
    Set(Ident, Expr),
    /// `INCREMENT: name`.
    Increment(Ident),
    /// `REFILL: meter TO expr`.
    Refill(Ident, Option<Expr>),
    /// `USE: pattern with args`; gone after pasting.
    Use(Use),
    /// A way out of the state.
    Exit(Exit),
    /// `PROCEED`.
    Proceed,
    /// A line that could not be read.
    Broken,
}

/// `USE: protocol.name with args`.
#[derive(Clone, Debug)]
pub struct Use {
    /// The document that holds the pattern; this one without a name.
    pub protocol: Option<Ident>,
    /// The pattern's name in that document.
    pub name: Ident,
    /// What its parameters are replaced by.
    pub args: Args,
}

/// The steps: all statements that can fail.
#[derive(Clone, Debug)]
pub enum Step {
    /// `DO: name = | call PAYING meter KEEPING n`.
    Do {
        /// The name that the answer is bound to.
        bind: Option<Ident>,
        /// Whether the last result is handed over.
        pipe: bool,
        /// The call whose answer it is.
        call: Call,
        /// The meter that pays for the agent's tool calls.
        paying: Option<Paying>,
    },
    /// `DO: name = PARALLEL args` with branches.
    Parallel {
        /// The name that the answer is bound to.
        bind: Option<Ident>,
        /// `quorum` and `timeout`.
        args: Args,
        /// The calls, one a branch.
        calls: Vec<Call>,
    },
    /// `DO: name = FOR EACH item IN list BY key UNTIL ANY` with a block.
    ForEach {
        /// The name that the answer is bound to.
        bind: Option<Ident>,
        /// The name that the block uses for the item.
        item: Ident,
        /// The expression that gives the items.
        list: Expr,
        /// The key of an item.
        by: Option<Expr>,
        /// Whether one end is enough.
        any: bool,
        /// What is done for each item.
        body: Block,
    },
    /// `CHECK: name = | call`.
    Check {
        /// The name that the answer is bound to.
        bind: Ident,
        /// Whether the last result is handed over.
        pipe: bool,
        /// The call of the gate.
        call: Call,
    },
    /// `WAIT: name = call`.
    WaitFor {
        /// The name that the answer is bound to.
        bind: Option<Ident>,
        /// The call of the action that waits.
        call: Call,
    },
    /// `WAIT: name = word | word`.
    WaitWords {
        /// The name that the word is bound to.
        bind: Option<Ident>,
        /// The words that a person may say.
        words: Vec<Ident>,
    },
    /// `ASK: name = value args`.
    Ask {
        /// The name that the answer is bound to.
        bind: Ident,
        /// The text that the person is shown.
        question: Arg,
        /// `choices`, and more for the person's eyes.
        args: Args,
    },
    /// `PAY: meter PER name IN expr`.
    Pay {
        /// The meter's name.
        meter: Ident,
        /// One payment for each key.
        per: Option<(Ident, Expr)>,
    },
}

/// `PAYING meter KEEPING n`.
#[derive(Clone, Debug)]
pub struct Paying {
    /// The meter's name.
    pub meter: Ident,
    /// How much must be left for the steps to come.
    pub keeping: u64,
}

/// A call of an action, an agent, a protocol or a command.
#[derive(Clone, Debug)]
pub struct Call {
    /// The action, agent, protocol or command that is called.
    pub target: Target,
    /// The arguments, by name or in order.
    pub args: Args,
    /// Its bytes in its source.
    pub span: Span,
}

/// The action, agent, protocol or command that a call is for.
#[derive(Clone, Debug)]
pub enum Target {
    /// An action of the catalogue.
    Action(Ident),
    /// `Task(role)`.
    Task(Ident),
    /// `Run(protocol)`.
    Run(Ident),
    /// `sh "…"`.
    Shell(Template),
}

/// The line or the event that EMIT records.
#[derive(Clone, Debug)]
pub enum Emit {
    /// A line of text.
    Text(Template),
    /// An event with fields.
    Event(Ident, Args),
}

/// The ways out of a state.
#[derive(Clone, Debug)]
pub enum Exit {
    /// `GOTO: STATE with args`.
    Goto {
        /// The state that it leads to.
        target: Ident,
        /// Whether the target is a pattern's parameter, still in braces.
        hole: bool,
        /// The parameters of the state.
        args: Args,
        /// Whether it stands for `ELSE STATE`, which also passes the failure's message as `reason`.
        by_else: bool,
    },
    /// `RETURN: verdict args`.
    Return {
        /// The word of the end, such as `complete`.
        verdict: Ident,
        /// The values that the instance hands over.
        args: Args,
    },
    /// `STAY: value`.
    Stay(Option<Arg>),
    /// `HOLD: value`.
    Hold(Arg),
}

/// Named arguments in order.
pub type Args = Vec<(Ident, Arg)>;

/// The value of an argument.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A bare word, or several between bars.
    Words(Vec<Ident>),
    /// A number.
    Number(Number, Span),
    /// A duration in seconds.
    Duration(Number, Span),
    /// Text with holes.
    Text(Template),
    /// `none`.
    None(Span),
    /// A value in braces.
    Brace(Expr, Span),
}

impl Arg {
    /// The bytes of the expression in its source.
    pub fn span(&self) -> Span {
        match self {
            Arg::Words(words) => words.first().map_or(Span::default(), |first| {
                words.last().map_or(first.span, |last| first.span.to(last.span))
            }),
            Arg::Number(_, span) | Arg::Duration(_, span) | Arg::None(span) | Arg::Brace(_, span) => *span,
            Arg::Text(template) => template.span,
        }
    }
}

/// Text with holes: `"after {rounds.used}"`.
#[derive(Clone, Debug)]
pub struct Template {
    /// Its pieces.
    pub parts: Vec<TemplatePart>,
    /// Its bytes in its source.
    pub span: Span,
}

/// A piece of a template.
#[derive(Clone, Debug)]
pub enum TemplatePart {
    /// Text.
    Text(String),
    /// A value.
    Hole(Expr),
}

/// An expression and where it stands.
#[derive(Clone, Debug)]
pub struct Expr {
    /// The kind, with its parts.
    pub kind: Box<ExprKind>,
    /// Its bytes in its source.
    pub span: Span,
}

/// The kinds of expressions.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// `a OR b`.
    Or(Vec<Expr>),
    /// `a AND b`.
    And(Vec<Expr>),
    /// `NOT a`.
    Not(Expr),
    /// `a == b`.
    Compare(Compare, Expr, Expr),
    /// `a is empty`; the flag says `is not empty`.
    Empty(Expr, bool),
    /// `name.field.field`.
    Path(Vec<Ident>),
    /// A number.
    Number(Number),
    /// A duration in seconds.
    Duration(Number),
    /// Text.
    Text(Template),
    /// `true` or `false`.
    Bool(bool),
    /// `none`.
    None,
    /// `len(a)`, `max(a, b)`, `min(a, b)`.
    Function(Function, Vec<Expr>),
}

impl ExprKind {
    /// The names of a path, if it is one.
    pub fn as_path(&self) -> Option<&[Ident]> {
        if let Self::Path(path) = self { Some(path) } else { None }
    }
}

/// The comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Compare {
    Same,
    Different,
    Less,
    AtMost,
    Greater,
    AtLeast,
    In,
}

/// The functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// How many items, characters or fields.
    Len,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

impl Compare {
    /// How it is written.
    pub const fn text(self) -> &'static str {
        match self {
            Compare::Same => "==",
            Compare::Different => "!=",
            Compare::Less => "<",
            Compare::AtMost => "<=",
            Compare::Greater => ">",
            Compare::AtLeast => ">=",
            Compare::In => "IN",
        }
    }
}

impl Function {
    /// How it is written.
    pub const fn text(self) -> &'static str {
        match self {
            Function::Len => "len",
            Function::Max => "max",
            Function::Min => "min",
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.kind {
            ExprKind::Or(parts) => join(out, parts, " OR ", |part| matches!(*part.kind, ExprKind::Or(_))),
            ExprKind::And(parts) => {
                join(out, parts, " AND ", |part| matches!(*part.kind, ExprKind::Or(_) | ExprKind::And(_)))
            }
            ExprKind::Not(inner) if inner.is_loose() => write!(out, "NOT ({inner})"),
            ExprKind::Not(inner) => write!(out, "NOT {inner}"),
            ExprKind::Compare(compare, one, two) => write!(out, "{one} {} {two}", compare.text()),
            ExprKind::Empty(inner, false) => write!(out, "{inner} is empty"),
            ExprKind::Empty(inner, true) => write!(out, "{inner} is not empty"),
            ExprKind::Path(path) => {
                let names: Vec<&str> = path.iter().map(|ident| &*ident.name).collect();
                out.write_str(&names.join("."))
            }
            ExprKind::Number(number) => write!(out, "{number}"),
            ExprKind::Duration(seconds) => write!(out, "{seconds}s"),
            ExprKind::Text(template) => write!(out, "{template}"),
            ExprKind::Bool(value) => write!(out, "{value}"),
            ExprKind::None => out.write_str("none"),
            ExprKind::Function(function, args) => {
                write!(out, "{}(", function.text())?;
                join(out, args, ", ", |_| false)?;
                out.write_str(")")
            }
        }
    }
}

impl Expr {
    /// Whether it needs brackets after NOT.
    fn is_loose(&self) -> bool {
        matches!(*self.kind, ExprKind::Or(_) | ExprKind::And(_))
    }
}

fn join(
    out: &mut fmt::Formatter<'_>,
    parts: &[Expr],
    between: &str,
    brackets: impl Fn(&Expr) -> bool,
) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.write_str(between)?;
        }
        if brackets(part) { write!(out, "({part})")? } else { write!(out, "{part}")? }
    }
    Ok(())
}

impl fmt::Display for Template {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("\"")?;
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => {
                    for one in text.chars() {
                        match one {
                            '"' | '\\' | '{' | '}' => write!(out, "\\{one}")?,
                            '\n' => out.write_str("\\n")?,
                            '\t' => out.write_str("\\t")?,
                            other => write!(out, "{other}")?,
                        }
                    }
                }
                TemplatePart::Hole(expr) => write!(out, "{{{expr}}}")?,
            }
        }
        out.write_str("\"")
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Words(words) => {
                let words: Vec<&str> = words.iter().map(|word| &*word.name).collect();
                out.write_str(&words.join("|"))
            }
            Arg::Number(number, _) => write!(out, "{number}"),
            Arg::Duration(seconds, _) => write!(out, "{seconds}s"),
            Arg::Text(template) => write!(out, "{template}"),
            Arg::None(_) => out.write_str("none"),
            Arg::Brace(expr, _) => write!(out, "{{{expr}}}"),
        }
    }
}

/// The names that an expression reads.
pub fn roots(expr: &Expr, into: &mut BTreeSet<Name>) {
    match &*expr.kind {
        ExprKind::Or(parts) | ExprKind::And(parts) | ExprKind::Function(_, parts) => {
            parts.iter().for_each(|part| roots(part, into));
        }
        ExprKind::Not(inner) | ExprKind::Empty(inner, _) => roots(inner, into),
        ExprKind::Compare(_, one, two) => {
            roots(one, into);
            roots(two, into);
        }
        ExprKind::Path(path) => into.extend(path.first().map(|first| first.name.clone())),
        ExprKind::Text(template) => template_roots(template, into),
        ExprKind::Number(_) | ExprKind::Duration(_) | ExprKind::Bool(_) | ExprKind::None => {}
    }
}

/// The names that a template reads.
pub fn template_roots(template: &Template, into: &mut BTreeSet<Name>) {
    for part in &template.parts {
        if let TemplatePart::Hole(expr) = part {
            roots(expr, into);
        }
    }
}
