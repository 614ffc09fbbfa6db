//! One line of program, read from left to right.
//!
//! Every method reads one thing of the grammar or says what was expected there. None of them
//! looks at another line.

use super::template::parts;
use super::{MAX_EXPRESSION_DEPTH, Node, Read, is_reserved};
use crate::problem::Problem;
use crate::source::Span;
use crate::tokens::{Placed, Punctuation, Token};
use ftl_core::syntax::{
    Arg, Args, Call, Compare, Emit, Exit, Expr, ExprKind, Function, GateDecl, Ident, InputDecl, LimitDecl,
    Param, Paying, Preset, StatementKind, Step, Target, Template, Track, Use,
};
use ftl_core::value::Name;

/// Reads the tokens of one line from left to right.
pub(super) struct Cursor<'a> {
    pub(super) file: u32,
    pub(super) tokens: &'a [Placed],
    pub(super) at: usize,
    pub(super) line: Span,
    /// Whether the next statement is the first of its line, where the colon is needed.
    pub(super) first: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(file: u32, node: &'a Node) -> Cursor<'a> {
        Cursor { file, tokens: &node.tokens, at: 0, line: node.span, first: true }
    }

    pub(super) fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at).map(|placed| &placed.token)
    }

    pub(super) fn peek_word(&self) -> Option<&'a str> {
        match self.peek() {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    pub(super) fn sign_at(&self, offset: usize) -> Option<Punctuation> {
        match self.tokens.get(self.at + offset).map(|placed| &placed.token) {
            Some(Token::Sign(sign)) => Some(*sign),
            _ => None,
        }
    }

    pub(super) fn at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    pub(super) fn here(&self) -> Span {
        self.tokens.get(self.at).map_or(self.line.after(), |placed| placed.span)
    }

    pub(super) fn before(&self) -> Span {
        let index = self.at.saturating_sub(1);
        self.tokens.get(index).map_or(self.line, |placed| placed.span)
    }

    pub(super) fn expected(&self, what: &str) -> Problem {
        let found = match self.peek() {
            None => "the line ends".to_owned(),
            Some(Token::Word(word)) => format!("found `{word}`"),
            Some(Token::Number(number) | Token::Duration(number)) => format!("found `{number}`"),
            Some(Token::Text(_)) => "found text".to_owned(),
            Some(Token::Sign(sign)) => format!("found `{}`", sign.text()),
        };
        Problem::error("syntax", self.here(), format!("expected {what}, {found}"))
    }

    pub(super) fn end(&self) -> Read<()> {
        if self.at_end() { Ok(()) } else { Err(self.expected("the end of the line")) }
    }

    pub(super) fn take(&mut self, sign: Punctuation) -> bool {
        let found = self.sign_at(0) == Some(sign);
        self.at += usize::from(found);
        found
    }

    pub(super) fn sign(&mut self, sign: Punctuation) -> Read<()> {
        if self.take(sign) { Ok(()) } else { Err(self.expected(&format!("`{}`", sign.text()))) }
    }

    pub(super) fn word_is(&self, word: &str) -> bool {
        self.peek_word() == Some(word)
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.word_is(word);
        self.at += usize::from(found);
        found
    }

    pub(super) fn word(&mut self, word: &str) -> Read<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    pub(super) fn ident(&mut self, what: &str) -> Read<Ident> {
        let Some(word) = self.peek_word() else { return Err(self.expected(what)) };
        let ident = Ident { name: Name::from(word), span: self.here() };
        self.at += 1;
        Ok(ident)
    }

    /// A name that the document gives to something of its own.
    pub(super) fn name(&mut self, what: &str) -> Read<Ident> {
        if let Some(word) = self.peek_word().filter(|word| is_reserved(word)) {
            return Err(Problem::error(
                "reserved",
                self.here(),
                format!("`{word}` has a meaning of its own"),
            )
            .hint(format!("choose another word for {what}")));
        }
        self.ident(what)
    }

    /// `group.verb`, as one name.
    pub(super) fn dotted(&mut self, what: &str) -> Read<Ident> {
        let first = self.ident(what)?;
        let (mut name, mut span) = (first.name.to_string(), first.span);
        while self.take(Punctuation::Dot) {
            let next = self.ident("a name after the dot")?;
            name = format!("{name}.{}", next.name);
            span = span.to(next.span);
        }
        Ok(Ident { name: Name::from(name), span })
    }

    pub(super) fn state_name(&mut self) -> Read<(Ident, bool)> {
        if self.take(Punctuation::OpenBrace) {
            let ident = self.name("a pattern's parameter")?;
            self.sign(Punctuation::CloseBrace)?;
            return Ok((ident, true));
        }
        Ok((self.name("a state")?, false))
    }

    pub(super) fn input(&mut self) -> Read<InputDecl> {
        let name = self.name("the input's name")?;
        if !self.take(Punctuation::Equal) {
            return Ok(InputDecl { name, default: None });
        }
        if matches!(self.peek(), Some(Token::Word(_))) && self.sign_at(1) == Some(Punctuation::Pipe) {
            return Ok(InputDecl { name, default: Some(Preset::Choice(self.words()?)) });
        }
        Ok(InputDecl { name, default: Some(Preset::Value(self.expr(0)?)) })
    }

    pub(super) fn limit(&mut self) -> Read<LimitDecl> {
        let meter = self.name("the meter's name")?;
        self.sign(Punctuation::Equal)?;
        let limit = self.expr(0)?;
        let mut variant = None;
        if self.take(Punctuation::OpenParen) {
            let word = self.ident("a word of an input's choice")?;
            self.sign(Punctuation::Colon)?;
            variant = Some((word, self.expr(0)?));
            self.sign(Punctuation::CloseParen)?;
        }
        let per = if self.take_word("PER") { Some(self.name("what each counter is for")?) } else { None };
        self.word("ELSE")?;
        let target = if self.take_word("HOLD") { None } else { Some(self.name("a state or HOLD")?) };
        Ok(LimitDecl { meter, limit, variant, per, target })
    }

    pub(super) fn track(&mut self) -> Read<Track> {
        let name = self.name("the variable's name")?;
        let first = if self.take(Punctuation::Equal) { Some(self.expr(0)?) } else { None };
        Ok(Track { name, first })
    }

    pub(super) fn gate(&mut self) -> Read<GateDecl> {
        let mut actions = vec![self.dotted("a gate")?];
        while self.take_word("OR") {
            actions.push(self.dotted("a gate")?);
        }
        self.word("BEFORE")?;
        Ok(GateDecl { actions, state: self.name("a state")? })
    }

    pub(super) fn param(&mut self) -> Read<Param> {
        let name = self.name("a parameter")?;
        let default = if self.take(Punctuation::Equal) { Some(self.value()?) } else { None };
        Ok(Param { name, default })
    }

    /// `name =` before what a step asks.
    pub(super) fn binding(&mut self) -> Read<Option<Ident>> {
        if self.sign_at(1) != Some(Punctuation::Equal) {
            return Ok(None);
        }
        let name = self.name("a name for the answer")?;
        self.sign(Punctuation::Equal)?;
        Ok(Some(name))
    }

    pub(super) fn read_binding(&mut self, verb: &str) -> Read<Ident> {
        let here = self.here();
        self.binding()?.ok_or_else(|| {
            Problem::error("no-binding", here, format!("{verb} gives its answer a name"))
                .hint(format!("write `{verb}: name = …`"))
        })
    }

    pub(super) fn check(&mut self) -> Read<Step> {
        let bind = self.read_binding("CHECK")?;
        let pipe = self.take(Punctuation::Pipe);
        Ok(Step::Check { bind, pipe, call: self.call()? })
    }

    pub(super) fn wait(&mut self) -> Read<Step> {
        let bind = self.binding()?;
        let is_call =
            matches!(self.sign_at(1), Some(Punctuation::Dot | Punctuation::OpenParen)) || self.word_is("sh");
        if is_call {
            return Ok(Step::WaitFor { bind, call: self.call()? });
        }
        Ok(Step::WaitWords { bind, words: self.words()? })
    }

    pub(super) fn ask(&mut self) -> Read<Step> {
        let bind = self.read_binding("ASK")?;
        let question = self.value()?;
        Ok(Step::Ask { bind, question, args: self.args()? })
    }

    pub(super) fn pay(&mut self) -> Read<Step> {
        let meter = self.name("a meter")?;
        if !self.take_word("PER") {
            return Ok(Step::Pay { meter, per: None });
        }
        let key = self.name("what each payment is for")?;
        self.word("IN")?;
        Ok(Step::Pay { meter, per: Some((key, self.expr(0)?)) })
    }

    pub(super) fn paying(&mut self) -> Read<Option<Paying>> {
        if !self.take_word("PAYING") {
            return Ok(None);
        }
        let meter = self.name("a meter")?;
        let mut keeping = 0;
        if self.take_word("KEEPING") {
            match self.peek() {
                Some(Token::Number(number))
                    if number.in_thousandths() >= 0 && number.in_thousandths() % 1000 == 0 =>
                {
                    keeping = number.as_count();
                }
                _ => return Err(self.expected("how many to keep, a whole number")),
            }
            self.at += 1;
        }
        Ok(Some(Paying { meter, keeping }))
    }

    pub(super) fn emit(&mut self) -> Read<Emit> {
        if let Some(Token::Text(_)) = self.peek() {
            return Ok(Emit::Text(self.template()?));
        }
        let event = self.ident("an event or text")?;
        Ok(Emit::Event(event, self.args()?))
    }

    pub(super) fn set(&mut self) -> Read<StatementKind> {
        let name = self.name("a variable")?;
        self.sign(Punctuation::Equal)?;
        Ok(StatementKind::Set(name, self.expr(0)?))
    }

    pub(super) fn refill(&mut self) -> Read<StatementKind> {
        let meter = self.name("a meter")?;
        let to = if self.take_word("TO") { Some(self.expr(0)?) } else { None };
        Ok(StatementKind::Refill(meter, to))
    }

    pub(super) fn pattern_use(&mut self) -> Read<Use> {
        let first = self.name("a pattern")?;
        let (protocol, name) =
            if self.take(Punctuation::Dot) { (Some(first), self.name("a pattern")?) } else { (None, first) };
        Ok(Use { protocol, name, args: self.with_args()? })
    }

    pub(super) fn exit(&mut self, verb: &str, colon: bool) -> Read<Exit> {
        match verb {
            "GOTO" => {
                let (target, hole) = self.state_name()?;
                Ok(Exit::Goto { target, hole, args: self.with_args()?, by_else: false })
            }
            "RETURN" => {
                let verdict = self.ident("a verdict")?;
                Ok(Exit::Return { verdict, args: self.args()? })
            }
            "STAY" if colon => Ok(Exit::Stay(Some(self.value()?))),
            "STAY" => Ok(Exit::Stay(None)),
            _ => Ok(Exit::Hold(self.value()?)),
        }
    }

    pub(super) fn call(&mut self) -> Read<Call> {
        let start = self.here();
        let target = if self.take_word("sh") {
            Target::Shell(self.template()?)
        } else if self.sign_at(1) == Some(Punctuation::OpenParen) {
            self.bracketed()?
        } else {
            Target::Action(self.dotted("an action, Task(role), Run(protocol) or sh \"…\"")?)
        };
        let args = self.args()?;
        Ok(Call { target, args, span: start.to(self.before()) })
    }

    pub(super) fn bracketed(&mut self) -> Read<Target> {
        let kind = self.ident("Task or Run")?;
        self.sign(Punctuation::OpenParen)?;
        let inner = self.ident("a role or a protocol")?;
        self.sign(Punctuation::CloseParen)?;
        match &*kind.name {
            "Task" => Ok(Target::Task(inner)),
            "Run" => Ok(Target::Run(inner)),
            other => Err(Problem::error("unknown-call", kind.span, format!("`{other}(…)` asks nobody"))
                .hint("agents are Task(role), children are Run(protocol)")),
        }
    }

    pub(super) fn with_args(&mut self) -> Read<Args> {
        if self.take_word("with") { self.args() } else { Ok(Args::new()) }
    }

    /// `name=value`, with or without commas between; a comma before a verb ends them.
    pub(super) fn args(&mut self) -> Read<Args> {
        let mut args = Args::new();
        loop {
            let comma = usize::from(!args.is_empty() && self.sign_at(0) == Some(Punctuation::Comma));
            let named =
                matches!(self.tokens.get(self.at + comma), Some(Placed { token: Token::Word(_), .. }));
            if !(named && self.sign_at(comma + 1) == Some(Punctuation::Equal)) {
                return Ok(args);
            }
            self.at += comma;
            let name = self.ident("a name")?;
            if let Some((first, _)) = args.iter().find(|(given, _): &&(Ident, Arg)| given.name == name.name) {
                return Err(Problem::error(
                    "double-name",
                    name.span,
                    format!("`{}` is given twice", first.name),
                ));
            }
            self.sign(Punctuation::Equal)?;
            args.push((name, self.value()?));
        }
    }

    pub(super) fn words(&mut self) -> Read<Vec<Ident>> {
        let mut words = vec![self.ident("a word")?];
        while self.take(Punctuation::Pipe) {
            words.push(self.ident("a word")?);
        }
        Ok(words)
    }

    pub(super) fn value(&mut self) -> Read<Arg> {
        let span = self.here();
        match self.peek() {
            Some(Token::Word(word)) if word == "none" => {
                self.at += 1;
                Ok(Arg::None(span))
            }
            Some(Token::Word(_)) => {
                let words = self.words()?;
                if self.sign_at(0) == Some(Punctuation::Dot) {
                    Err(self.bare_path(span)?)
                } else {
                    Ok(Arg::Words(words))
                }
            }
            Some(Token::Number(number)) => {
                self.at += 1;
                Ok(Arg::Number(*number, span))
            }
            Some(Token::Duration(seconds)) => {
                self.at += 1;
                Ok(Arg::Duration(*seconds, span))
            }
            Some(Token::Text(_)) => Ok(Arg::Text(self.template()?)),
            Some(Token::Sign(Punctuation::OpenBrace)) => {
                self.at += 1;
                let expr = self.expr(0)?;
                self.sign(Punctuation::CloseBrace)?;
                Ok(Arg::Brace(expr, span.to(self.before())))
            }
            Some(Token::Sign(_)) | None => Err(self.expected("a value")),
        }
    }

    /// A path where a bare word stands for itself; its last word has been read.
    fn bare_path(&mut self, begin: Span) -> Read<Problem> {
        let first = self.at;
        while self.take(Punctuation::Dot) {
            self.ident("a field")?;
        }
        let path: String = self.tokens[first - 1..self.at].iter().map(spelled).collect();
        let message = format!("a bare word is itself here, and `{path}` is a value");
        let problem = Problem::error("syntax", begin.to(self.before()), message);
        Ok(problem.hint(format!("write {{{path}}}")))
    }

    pub(super) fn template(&mut self) -> Read<Template> {
        let span = self.here();
        let Some(Token::Text(raw)) = self.peek() else { return Err(self.expected("text in quotes")) };
        self.at += 1;
        Ok(Template { parts: parts(self.file, raw, span)?, span })
    }

    pub(super) fn expr(&mut self, depth: usize) -> Read<Expr> {
        self.chain(depth, "OR", ExprKind::Or, Cursor::all)
    }

    pub(super) fn all(&mut self, depth: usize) -> Read<Expr> {
        self.chain(depth, "AND", ExprKind::And, Cursor::test)
    }

    pub(super) fn chain(
        &mut self,
        depth: usize,
        word: &str,
        build: fn(Vec<Expr>) -> ExprKind,
        part: fn(&mut Self, usize) -> Read<Expr>,
    ) -> Read<Expr> {
        let first = part(self, depth)?;
        if !self.word_is(word) {
            return Ok(first);
        }
        let start = first.span;
        let mut parts = vec![first];
        while self.take_word(word) {
            parts.push(part(self, depth)?);
        }
        Ok(Expr { kind: Box::new(build(parts)), span: start.to(self.before()) })
    }

    pub(super) fn test(&mut self, depth: usize) -> Read<Expr> {
        let start = self.here();
        if depth > MAX_EXPRESSION_DEPTH {
            return Err(Problem::error(
                "too-deep",
                start,
                format!("brackets may nest {MAX_EXPRESSION_DEPTH} deep"),
            ));
        }
        if self.take_word("NOT") {
            let inner = self.test(depth + 1)?;
            return Ok(Expr { kind: Box::new(ExprKind::Not(inner)), span: start.to(self.before()) });
        }
        let left = self.operand(depth)?;
        if self.take_word("is") {
            let negated = self.take_word("not");
            self.word("empty")?;
            return Ok(Expr {
                kind: Box::new(ExprKind::Empty(left, negated)),
                span: start.to(self.before()),
            });
        }
        let Some(compare) = self.compare() else { return Ok(left) };
        let right = self.operand(depth)?;
        Ok(Expr { kind: Box::new(ExprKind::Compare(compare, left, right)), span: start.to(self.before()) })
    }

    pub(super) fn compare(&mut self) -> Option<Compare> {
        let compare = match self.peek()? {
            Token::Word(word) if word == "IN" => Compare::In,
            Token::Sign(Punctuation::Same) => Compare::Same,
            Token::Sign(Punctuation::Different) => Compare::Different,
            Token::Sign(Punctuation::Less) => Compare::Less,
            Token::Sign(Punctuation::AtMost) => Compare::AtMost,
            Token::Sign(Punctuation::Greater) => Compare::Greater,
            Token::Sign(Punctuation::AtLeast) => Compare::AtLeast,
            Token::Word(_) | Token::Number(_) | Token::Duration(_) | Token::Text(_) | Token::Sign(_) => {
                return None;
            }
        };
        self.at += 1;
        Some(compare)
    }

    pub(super) fn operand(&mut self, depth: usize) -> Read<Expr> {
        let span = self.here();
        let kind = match self.peek() {
            Some(Token::Number(number)) => ExprKind::Number(*number),
            Some(Token::Duration(seconds)) => ExprKind::Duration(*seconds),
            Some(Token::Text(_)) => {
                let template = self.template()?;
                return Ok(Expr { kind: Box::new(ExprKind::Text(template)), span });
            }
            Some(Token::Sign(Punctuation::OpenParen)) => return self.brackets(depth),
            Some(Token::Word(word)) => match word.as_str() {
                "true" => ExprKind::Bool(true),
                "false" => ExprKind::Bool(false),
                "none" => ExprKind::None,
                _ if self.bracket_follows() => return self.function(depth),
                _ => return self.path(),
            },
            Some(Token::Sign(Punctuation::Equal)) | Some(Token::Sign(_)) | None => {
                return Err(self.operand_problem());
            }
        };
        self.at += 1;
        Ok(Expr { kind: Box::new(kind), span })
    }

    /// A function's bracket follows at once; `budget (direct: 3)` is a name and a variant.
    pub(super) fn bracket_follows(&self) -> bool {
        let end = self.tokens.get(self.at).map(|placed| placed.span.end);
        self.sign_at(1) == Some(Punctuation::OpenParen)
            && end == self.tokens.get(self.at + 1).map(|placed| placed.span.start)
    }

    pub(super) fn operand_problem(&self) -> Problem {
        let problem = self.expected("a value");
        if self.sign_at(0) == Some(Punctuation::OpenBrace) {
            return problem.hint("in a condition names stand without braces");
        }
        problem
    }

    pub(super) fn brackets(&mut self, depth: usize) -> Read<Expr> {
        let start = self.here();
        if depth >= MAX_EXPRESSION_DEPTH {
            return Err(Problem::error(
                "too-deep",
                start,
                format!("brackets may nest {MAX_EXPRESSION_DEPTH} deep"),
            ));
        }
        self.sign(Punctuation::OpenParen)?;
        let inner = self.expr(depth + 1)?;
        self.sign(Punctuation::CloseParen)?;
        Ok(Expr { kind: inner.kind, span: start.to(self.before()) })
    }

    pub(super) fn function(&mut self, depth: usize) -> Read<Expr> {
        let name = self.ident("a function")?;
        let function = match &*name.name {
            "len" => Function::Len,
            "max" => Function::Max,
            "min" => Function::Min,
            other => {
                return Err(Problem::error(
                    "unknown-function",
                    name.span,
                    format!("`{other}` is no function"),
                )
                .near(other, ["len", "max", "min"]));
            }
        };
        if depth >= MAX_EXPRESSION_DEPTH {
            return Err(Problem::error("too-deep", name.span, "brackets nest too deep"));
        }
        self.sign(Punctuation::OpenParen)?;
        let mut args = vec![self.expr(depth + 1)?];
        while self.take(Punctuation::Comma) {
            args.push(self.expr(depth + 1)?);
        }
        self.sign(Punctuation::CloseParen)?;
        if function == Function::Len && args.len() != 1 {
            return Err(Problem::error("syntax", name.span, "`len` takes one value"));
        }
        Ok(Expr { kind: Box::new(ExprKind::Function(function, args)), span: name.span.to(self.before()) })
    }

    pub(super) fn path(&mut self) -> Read<Expr> {
        let mut path = vec![self.ident("a name")?];
        while self.take(Punctuation::Dot) {
            path.push(self.ident("a field after the dot")?);
        }
        let span = path.first().map_or(self.line, |first| first.span.to(self.before()));
        Ok(Expr { kind: Box::new(ExprKind::Path(path)), span })
    }
}

/// A word or a dot of a path as it is written.
fn spelled(placed: &Placed) -> &str {
    match &placed.token {
        Token::Word(word) => word,
        Token::Sign(_) | Token::Number(_) | Token::Duration(_) | Token::Text(_) => ".",
    }
}
