//! The parser: lines of program to a syntax tree, with every error of the document.
//!
//! A line that cannot be read becomes a `Broken` statement and a problem, and reading goes on
//! with the next line. Depth and size are bounded, so no input makes this hang or overflow.

use super::problem::Problem;
use super::source::{Line, MAX_DOCUMENT_BYTES, Source, Span};
use super::syntax::{
    Arg, Args, Block, Call, Compare, Document, Emit, Exit, Expr, ExprKind, Function, Gate, Ident, Input,
    Limit, Param, Part, Pattern, Paying, Preset, State, Statement, Step, Target, Template, Track, Use, What,
};
use super::tokens::{self, Placed, Sign, Token};
use crate::value::Name;

/// How deep blocks may nest.
pub const MAX_BLOCK_DEPTH: usize = 16;
/// How deep expressions may nest.
pub const MAX_EXPRESSION_DEPTH: usize = 32;
/// How many errors of one document are kept.
pub const MAX_PROBLEMS: usize = 200;

/// Words with a meaning of their own; no state, variable or pattern may be called so.
pub const RESERVED: &[&str] = &[
    "PROTOCOL",
    "INPUT",
    "LIMIT",
    "TRACK",
    "GATE",
    "REDO",
    "PATTERN",
    "STATE",
    "DO",
    "CHECK",
    "WAIT",
    "ASK",
    "PAY",
    "IF",
    "EMIT",
    "SET",
    "INCREMENT",
    "REFILL",
    "USE",
    "GOTO",
    "RETURN",
    "STAY",
    "HOLD",
    "PROCEED",
    "ELSE",
    "PARALLEL",
    "FOR",
    "PAYING",
    "KEEPING",
    "PER",
    "BEFORE",
    "AND",
    "OR",
    "NOT",
    "with",
    "none",
    "true",
    "false",
    "is",
    "empty",
    "failure",
];

const HEADERS: &[&str] = &["PROTOCOL", "INPUT", "LIMIT", "TRACK", "GATE", "REDO", "PATTERN", "STATE"];
const VERBS: &[&str] = &[
    "DO",
    "CHECK",
    "WAIT",
    "ASK",
    "PAY",
    "IF",
    "EMIT",
    "SET",
    "INCREMENT",
    "REFILL",
    "USE",
    "GOTO",
    "RETURN",
    "STAY",
    "HOLD",
    "PROCEED",
];

/// Reads a document; the problems are all that reading alone can find.
pub fn parse(file: u32, source: &Source) -> (Document, Vec<Problem>) {
    let mut parser = Parser { file, problems: Vec::new() };
    let mut document = Document::default();
    let start = Span { file, start: 0, end: 0 };
    if source.text.len() > MAX_DOCUMENT_BYTES {
        let message = format!("the document is larger than {MAX_DOCUMENT_BYTES} bytes");
        document.broken = true;
        return (document, vec![Problem::error("too-large", start, message)]);
    }
    let lines = source.program();
    if lines.is_empty() {
        let problem = Problem::error("no-program", start, "the document has no `protocol` block")
            .hint("put the program into a fenced block that starts with ```protocol");
        document.broken = true;
        return (document, vec![problem]);
    }
    let tree = parser.tree(&lines);
    for node in &tree {
        if let Err(problem) = parser.header(node, &mut document) {
            document.broken = true;
            parser.problems.push(problem);
        }
    }
    document.broken |= !parser.problems.is_empty();
    if document.name.is_none() && !document.broken {
        parser.problems.push(
            Problem::error("no-name", start, "the document does not say which protocol it is")
                .hint("begin the first block with `PROTOCOL: name`"),
        );
    }
    parser.problems.truncate(MAX_PROBLEMS);
    (document, parser.problems)
}

/// A line of program with the deeper lines below it.
struct Node {
    tokens: Vec<Placed>,
    span: Span,
    below: Vec<Node>,
}

impl Node {
    fn starts_with(&self, word: &str) -> bool {
        matches!(self.tokens.first(), Some(Placed { token: Token::Word(first), .. }) if first == word)
    }

    fn is_branch(&self) -> bool {
        matches!(self.tokens.first(), Some(Placed { token: Token::Sign(Sign::Dash), .. }))
    }
}

struct Parser {
    file: u32,
    problems: Vec<Problem>,
}

type Read<T> = Result<T, Problem>;

impl Parser {
    /// Builds the tree of lines by their indentation.
    fn tree(&mut self, lines: &[Line<'_>]) -> Vec<Node> {
        let mut roots = Vec::new();
        let mut open: Vec<(usize, Node)> = Vec::new();
        for line in lines {
            let tokens = tokens::read(self.file, *line, &mut self.problems);
            let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { continue };
            let span = first.span.to(last.span);
            let indent = self.indent(line, span);
            while open.last().is_some_and(|(depth, _)| *depth >= indent) {
                close(&mut open, &mut roots);
            }
            let wanted = open.last().map_or(0, |(depth, _)| depth + 2);
            if indent != wanted && open.len() < MAX_BLOCK_DEPTH {
                self.problems.push(
                    Problem::error(
                        "indentation",
                        span,
                        format!("this line is indented by {indent} spaces, not {wanted}"),
                    )
                    .hint("two spaces make a block"),
                );
            }
            if open.len() >= MAX_BLOCK_DEPTH {
                self.problems.push(Problem::error(
                    "too-deep",
                    span,
                    format!("blocks may nest {MAX_BLOCK_DEPTH} deep"),
                ));
                continue;
            }
            open.push((indent, Node { tokens, span, below: Vec::new() }));
        }
        while !open.is_empty() {
            close(&mut open, &mut roots);
        }
        roots
    }

    fn indent(&mut self, line: &Line<'_>, span: Span) -> usize {
        let lead: &str = &line.text[..line.text.len() - line.text.trim_start().len()];
        if lead.contains(|one: char| one != ' ') {
            let problem = Problem::error("indentation", span, "this line is not indented by spaces");
            self.problems.push(problem.hint("two spaces make a block; tabs do not"));
        }
        lead.chars().count()
    }

    fn header(&mut self, node: &Node, document: &mut Document) -> Read<()> {
        let mut line = Cursor::new(self.file, node);
        let word = line.ident("a header such as `STATE:`")?;
        if VERBS.contains(&&*word.name) {
            return Err(Problem::error(
                "statement-outside",
                word.span,
                format!("`{}` stands outside of a state", word.name),
            )
            .hint("indent it by two spaces below a STATE or a PATTERN"));
        }
        if !HEADERS.contains(&&*word.name) {
            return Err(Problem::error(
                "unknown-header",
                word.span,
                format!("`{}` begins no line of a protocol", word.name),
            )
            .near(&word.name, HEADERS));
        }
        line.sign(Sign::Colon)?;
        let takes_block = matches!(&*word.name, "STATE" | "PATTERN");
        match &*word.name {
            "PROTOCOL" => self.protocol(&mut line, document)?,
            "INPUT" => document.inputs.push(line.input()?),
            "LIMIT" => document.limits.push(line.limit()?),
            "TRACK" => document.tracks.push(line.track()?),
            "GATE" => document.gates.push(line.gate()?),
            "REDO" => self.redo(&mut line, document)?,
            "PATTERN" => self.pattern(&mut line, node, document)?,
            _ => self.state(&mut line, node, document)?,
        }
        line.end()?;
        match node.below.first() {
            Some(below) if !takes_block => Err(Problem::error(
                "indentation",
                below.span,
                format!("nothing can be indented below {}", word.name),
            )),
            _ => Ok(()),
        }
    }

    fn protocol(&mut self, line: &mut Cursor<'_>, document: &mut Document) -> Read<()> {
        let name = line.name("the protocol's name")?;
        if let Some(first) = &document.name {
            return Err(Problem::error(
                "double-name",
                name.span,
                format!("this document is already `{}`", first.name),
            )
            .hint("one document defines one protocol"));
        }
        document.name = Some(name);
        Ok(())
    }

    fn redo(&mut self, line: &mut Cursor<'_>, document: &mut Document) -> Read<()> {
        let meter = line.name("the meter that a redo pays")?;
        if document.redo.is_some() {
            return Err(Problem::error("double-name", meter.span, "REDO is said twice"));
        }
        document.redo = Some(meter);
        Ok(())
    }

    fn pattern(&mut self, line: &mut Cursor<'_>, node: &Node, document: &mut Document) -> Read<()> {
        let name = line.name("the pattern's name")?;
        let mut params = Vec::new();
        if line.take_word("with") {
            params.push(line.name("a parameter")?);
            while line.take(Sign::Comma) {
                params.push(line.name("a parameter")?);
            }
        }
        let body = self.block(&node.below, node.span, document);
        document.patterns.push(Pattern { name, params, body });
        Ok(())
    }

    fn state(&mut self, line: &mut Cursor<'_>, node: &Node, document: &mut Document) -> Read<()> {
        let name = line.name("the state's name")?;
        let mut params = Vec::new();
        if line.take_word("with") {
            params.push(line.param()?);
            while line.take(Sign::Comma) {
                params.push(line.param()?);
            }
        }
        let body = self.block(&node.below, node.span, document);
        document.states.push(State { name, params, body });
        Ok(())
    }

    /// Reads the statements of a block; each line that cannot be read is said once.
    fn block(&mut self, nodes: &[Node], above: Span, document: &mut Document) -> Block {
        if nodes.is_empty() {
            let problem = Problem::error("empty-block", above, "nothing is indented below this line");
            self.problems.push(problem.hint("indent its statements by two spaces"));
            document.broken = true;
            return vec![Statement { what: What::Broken, span: above, pasted: None, place: 0 }];
        }
        let mut block = Block::new();
        for node in nodes {
            let mut line = Cursor::new(self.file, node);
            let read = self.clause(&mut line, node, document).and_then(|clause| line.end().map(|()| clause));
            match read {
                Ok(clause) => block.extend(clause),
                Err(problem) => {
                    self.problems.push(problem);
                    document.broken = true;
                    block.push(Statement { what: What::Broken, span: node.span, pasted: None, place: 0 });
                    self.look_below(node, document);
                }
            }
        }
        block
    }

    /// Below a line that could not be read there may be more errors worth saying.
    fn look_below(&mut self, node: &Node, document: &mut Document) {
        let plain: Vec<&Node> =
            node.below.iter().filter(|below| !below.starts_with("ELSE") && !below.is_branch()).collect();
        for below in plain {
            let _ = self.block(std::slice::from_ref(below), node.span, document);
        }
    }

    /// `statement { "," statement }`; the lines below belong to the last of them.
    fn clause(&mut self, line: &mut Cursor<'_>, node: &Node, document: &mut Document) -> Read<Block> {
        let mut block = vec![self.statement(line, node, document)?];
        while line.take(Sign::Comma) {
            block.push(self.statement(line, node, document)?);
        }
        Ok(block)
    }

    fn statement(&mut self, line: &mut Cursor<'_>, node: &Node, document: &mut Document) -> Read<Statement> {
        let start = line.here();
        let verb = line.ident("a verb such as `DO:`")?;
        if !VERBS.contains(&&*verb.name) {
            return Err(unknown_verb(&verb));
        }
        let colon = line.take(Sign::Colon);
        let bare = matches!(&*verb.name, "PROCEED" | "STAY");
        if !colon && line.first && !bare {
            return Err(Problem::error(
                "no-colon",
                verb.span.after(),
                format!("`{}` wants a colon", verb.name),
            )
            .hint(format!("write `{}:`; it may be left out only after `→`, `,` and ELSE", verb.name)));
        }
        line.first = false;
        let what = match &*verb.name {
            "DO" | "CHECK" | "WAIT" | "ASK" | "PAY" => self.step(&verb.name, line, node, document)?,
            "IF" => self.condition(line, node, document)?,
            "EMIT" => What::Emit(line.emit()?),
            "SET" => line.set()?,
            "INCREMENT" => What::Increment(line.name("a variable")?),
            "REFILL" => line.refill()?,
            "USE" => What::Use(line.pattern_use()?),
            "PROCEED" => What::Proceed,
            _ => What::Exit(line.exit(&verb.name, colon)?),
        };
        self.no_block_below(&what, line, node)?;
        Ok(Statement { what, span: start.to(line.before()), pasted: None, place: 0 })
    }

    /// Lines below a statement that takes none are an error, not something to skip.
    fn no_block_below(&self, what: &What, line: &Cursor<'_>, node: &Node) -> Read<()> {
        let takes = matches!(what, What::Step { .. } | What::If { .. });
        match node.below.first() {
            Some(below) if line.at_end() && !takes => {
                Err(Problem::error("indentation", below.span, "nothing can be indented below this statement"))
            }
            _ => Ok(()),
        }
    }

    fn condition(&mut self, line: &mut Cursor<'_>, node: &Node, document: &mut Document) -> Read<What> {
        let condition = line.expr(0)?;
        line.sign(Sign::Arrow)?;
        let body = if line.at_end() {
            self.block(&node.below, node.span, document)
        } else {
            self.clause(line, node, document)?
        };
        if line.word_is("ELSE") {
            return Err(Problem::error("else-after-if", line.here(), "IF has no ELSE")
                .hint("what stands on the next line is the other way"));
        }
        Ok(What::If { condition, body })
    }

    fn step(
        &mut self,
        verb: &str,
        line: &mut Cursor<'_>,
        node: &Node,
        document: &mut Document,
    ) -> Read<What> {
        let step = match verb {
            "DO" => self.do_step(line, node, document)?,
            "CHECK" => line.check()?,
            "WAIT" => line.wait()?,
            "ASK" => line.ask()?,
            _ => line.pay()?,
        };
        let otherwise = self.otherwise(&step, line, node, document)?;
        Ok(What::Step { step, otherwise })
    }

    fn do_step(&mut self, line: &mut Cursor<'_>, node: &Node, document: &mut Document) -> Read<Step> {
        let bind = line.binding()?;
        if line.take_word("PARALLEL") {
            return self.parallel(bind, line, node);
        }
        if line.word_is("FOR") {
            return self.for_each(bind, line, node, document);
        }
        let pipe = line.take(Sign::Pipe);
        let call = line.call()?;
        let paying = line.paying()?;
        Ok(Step::Do { bind, pipe, call, paying })
    }

    fn parallel(&mut self, bind: Option<Ident>, line: &mut Cursor<'_>, node: &Node) -> Read<Step> {
        let args = line.args()?;
        let mut calls = Vec::new();
        for below in node.below.iter().filter(|below| !below.starts_with("ELSE")) {
            let mut branch = Cursor::new(self.file, below);
            branch.sign(Sign::Dash)?;
            calls.push(branch.call()?);
            branch.end()?;
            if let Some(deeper) = below.below.first() {
                return Err(Problem::error(
                    "indentation",
                    deeper.span,
                    "nothing can be indented below a branch",
                ));
            }
        }
        if calls.is_empty() {
            return Err(Problem::error("empty-block", node.span, "PARALLEL has no branches")
                .hint("indent one `- Task(role)` for each branch below it"));
        }
        Ok(Step::Parallel { bind, args, calls })
    }

    fn for_each(
        &mut self,
        bind: Option<Ident>,
        line: &mut Cursor<'_>,
        node: &Node,
        document: &mut Document,
    ) -> Read<Step> {
        line.word("FOR")?;
        line.word("EACH")?;
        let item = line.name("the item's name")?;
        line.word("IN")?;
        let list = line.expr(0)?;
        let by = if line.take_word("BY") { Some(line.expr(0)?) } else { None };
        let any = line.take_word("UNTIL");
        if any {
            line.word("ANY")?;
        }
        let inner = node.below.iter().take_while(|below| !below.starts_with("ELSE")).count();
        let body = self.block(&node.below[..inner], node.span, document);
        Ok(Step::ForEach { bind, item, list, by, any, body })
    }

    /// ELSE on the same line, or on its own deeper line.
    fn otherwise(
        &mut self,
        step: &Step,
        line: &mut Cursor<'_>,
        node: &Node,
        document: &mut Document,
    ) -> Read<Option<Block>> {
        if line.take_word("ELSE") {
            return self.else_clause(line, node, document).map(Some);
        }
        if !line.at_end() {
            return Ok(None);
        }
        let has_lines = matches!(step, Step::ForEach { .. } | Step::Parallel { .. });
        let mut lines = node.below.iter().skip_while(|below| has_lines && !below.starts_with("ELSE"));
        let Some(below) = lines.next() else { return Ok(None) };
        if !below.starts_with("ELSE") {
            return Err(Problem::error(
                "indentation",
                below.span,
                "only an ELSE can be indented below a step",
            ));
        }
        if let Some(extra) = lines.next() {
            return Err(Problem::error(
                "indentation",
                extra.span,
                "nothing can stand after the ELSE of a step",
            ));
        }
        let mut deeper = Cursor::new(self.file, below);
        deeper.word("ELSE")?;
        let clause = self.else_clause(&mut deeper, below, document)?;
        deeper.end()?;
        Ok(Some(clause))
    }

    fn else_clause(&mut self, line: &mut Cursor<'_>, node: &Node, document: &mut Document) -> Read<Block> {
        line.first = false;
        let verb = line.peek_word().is_some_and(|word| VERBS.contains(&word));
        if verb {
            return self.clause(line, node, document);
        }
        if line.at_end() && !node.below.is_empty() && node.starts_with("ELSE") {
            return Ok(self.block(&node.below, node.span, document));
        }
        let start = line.here();
        let (target, hole) = line.state_name()?;
        let args = line.with_args()?;
        let what = What::Exit(Exit::Goto { target, hole, args, by_else: true });
        Ok(vec![Statement { what, span: start.to(line.before()), pasted: None, place: 0 }])
    }
}

fn close(open: &mut Vec<(usize, Node)>, roots: &mut Vec<Node>) {
    if let Some((_, node)) = open.pop() {
        match open.last_mut() {
            Some((_, above)) => above.below.push(node),
            None => roots.push(node),
        }
    }
}

fn unknown_verb(verb: &Ident) -> Problem {
    if HEADERS.contains(&&*verb.name) {
        return Problem::error(
            "header-inside",
            verb.span,
            format!("`{}` cannot stand inside a block", verb.name),
        )
        .hint("headers, patterns and states begin at the start of a line");
    }
    if &*verb.name == "ELSE" {
        return Problem::error("lone-else", verb.span, "this ELSE belongs to no step").hint(
            "ELSE follows a step (DO, CHECK, WAIT, ASK, PAY) on its line or one level deeper; IF has none",
        );
    }
    Problem::error("unknown-verb", verb.span, format!("`{}` is no verb", verb.name)).near(&verb.name, VERBS)
}

/// Reads the tokens of one line from left to right.
struct Cursor<'a> {
    file: u32,
    tokens: &'a [Placed],
    at: usize,
    line: Span,
    /// Whether the next statement is the first of its line, where the colon is needed.
    first: bool,
}

impl<'a> Cursor<'a> {
    fn new(file: u32, node: &'a Node) -> Cursor<'a> {
        Cursor { file, tokens: &node.tokens, at: 0, line: node.span, first: true }
    }

    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at).map(|placed| &placed.token)
    }

    fn peek_word(&self) -> Option<&'a str> {
        match self.peek() {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn sign_at(&self, offset: usize) -> Option<Sign> {
        match self.tokens.get(self.at + offset).map(|placed| &placed.token) {
            Some(Token::Sign(sign)) => Some(*sign),
            _ => None,
        }
    }

    fn at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    fn here(&self) -> Span {
        self.tokens.get(self.at).map_or(self.line.after(), |placed| placed.span)
    }

    fn before(&self) -> Span {
        let index = self.at.saturating_sub(1);
        self.tokens.get(index).map_or(self.line, |placed| placed.span)
    }

    fn expected(&self, what: &str) -> Problem {
        let found = match self.peek() {
            None => "the line ends".to_owned(),
            Some(Token::Word(word)) => format!("found `{word}`"),
            Some(Token::Number(number) | Token::Duration(number)) => format!("found `{number}`"),
            Some(Token::Text(_)) => "found text".to_owned(),
            Some(Token::Sign(sign)) => format!("found `{}`", sign.text()),
        };
        Problem::error("syntax", self.here(), format!("expected {what}, {found}"))
    }

    fn end(&self) -> Read<()> {
        if self.at_end() { Ok(()) } else { Err(self.expected("the end of the line")) }
    }

    fn take(&mut self, sign: Sign) -> bool {
        let found = self.sign_at(0) == Some(sign);
        self.at += usize::from(found);
        found
    }

    fn sign(&mut self, sign: Sign) -> Read<()> {
        if self.take(sign) { Ok(()) } else { Err(self.expected(&format!("`{}`", sign.text()))) }
    }

    fn word_is(&self, word: &str) -> bool {
        self.peek_word() == Some(word)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.word_is(word);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str) -> Read<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    fn ident(&mut self, what: &str) -> Read<Ident> {
        let Some(word) = self.peek_word() else { return Err(self.expected(what)) };
        let ident = Ident { name: Name::from(word), span: self.here() };
        self.at += 1;
        Ok(ident)
    }

    /// A name that the document gives to something of its own.
    fn name(&mut self, what: &str) -> Read<Ident> {
        if let Some(word) = self.peek_word().filter(|word| RESERVED.contains(word)) {
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
    fn dotted(&mut self, what: &str) -> Read<Ident> {
        let first = self.ident(what)?;
        let (mut name, mut span) = (first.name.to_string(), first.span);
        while self.take(Sign::Dot) {
            let next = self.ident("a name after the dot")?;
            name = format!("{name}.{}", next.name);
            span = span.to(next.span);
        }
        Ok(Ident { name: Name::from(name), span })
    }

    fn state_name(&mut self) -> Read<(Ident, bool)> {
        if self.take(Sign::OpenBrace) {
            let ident = self.name("a pattern's parameter")?;
            self.sign(Sign::CloseBrace)?;
            return Ok((ident, true));
        }
        Ok((self.name("a state")?, false))
    }

    fn input(&mut self) -> Read<Input> {
        let name = self.name("the input's name")?;
        if !self.take(Sign::Equal) {
            return Ok(Input { name, default: None });
        }
        if matches!(self.peek(), Some(Token::Word(_))) && self.sign_at(1) == Some(Sign::Pipe) {
            return Ok(Input { name, default: Some(Preset::Choice(self.words()?)) });
        }
        Ok(Input { name, default: Some(Preset::Value(self.expr(0)?)) })
    }

    fn limit(&mut self) -> Read<Limit> {
        let meter = self.name("the meter's name")?;
        self.sign(Sign::Equal)?;
        let limit = self.expr(0)?;
        let mut variant = None;
        if self.take(Sign::OpenParen) {
            let word = self.ident("a word of an input's choice")?;
            self.sign(Sign::Colon)?;
            variant = Some((word, self.expr(0)?));
            self.sign(Sign::CloseParen)?;
        }
        let per = if self.take_word("PER") { Some(self.name("what each counter is for")?) } else { None };
        self.word("ELSE")?;
        let target = if self.take_word("HOLD") { None } else { Some(self.name("a state or HOLD")?) };
        Ok(Limit { meter, limit, variant, per, target })
    }

    fn track(&mut self) -> Read<Track> {
        let name = self.name("the variable's name")?;
        let first = if self.take(Sign::Equal) { Some(self.expr(0)?) } else { None };
        Ok(Track { name, first })
    }

    fn gate(&mut self) -> Read<Gate> {
        let mut actions = vec![self.dotted("a gate")?];
        while self.take_word("OR") {
            actions.push(self.dotted("a gate")?);
        }
        self.word("BEFORE")?;
        Ok(Gate { actions, state: self.name("a state")? })
    }

    fn param(&mut self) -> Read<Param> {
        let name = self.name("a parameter")?;
        let default = if self.take(Sign::Equal) { Some(self.value()?) } else { None };
        Ok(Param { name, default })
    }

    /// `name =` before what a step asks.
    fn binding(&mut self) -> Read<Option<Ident>> {
        if self.sign_at(1) != Some(Sign::Equal) {
            return Ok(None);
        }
        let name = self.name("a name for the answer")?;
        self.sign(Sign::Equal)?;
        Ok(Some(name))
    }

    fn bound(&mut self, verb: &str) -> Read<Ident> {
        let here = self.here();
        self.binding()?.ok_or_else(|| {
            Problem::error("no-binding", here, format!("{verb} gives its answer a name"))
                .hint(format!("write `{verb}: name = …`"))
        })
    }

    fn check(&mut self) -> Read<Step> {
        let bind = self.bound("CHECK")?;
        let pipe = self.take(Sign::Pipe);
        Ok(Step::Check { bind, pipe, call: self.call()? })
    }

    fn wait(&mut self) -> Read<Step> {
        let bind = self.binding()?;
        let is_call = matches!(self.sign_at(1), Some(Sign::Dot | Sign::OpenParen)) || self.word_is("sh");
        if is_call {
            return Ok(Step::WaitFor { bind, call: self.call()? });
        }
        Ok(Step::WaitWords { bind, words: self.words()? })
    }

    fn ask(&mut self) -> Read<Step> {
        let bind = self.bound("ASK")?;
        let question = self.value()?;
        Ok(Step::Ask { bind, question, args: self.args()? })
    }

    fn pay(&mut self) -> Read<Step> {
        let meter = self.name("a meter")?;
        if !self.take_word("PER") {
            return Ok(Step::Pay { meter, per: None });
        }
        let key = self.name("what each payment is for")?;
        self.word("IN")?;
        Ok(Step::Pay { meter, per: Some((key, self.expr(0)?)) })
    }

    fn paying(&mut self) -> Read<Option<Paying>> {
        if !self.take_word("PAYING") {
            return Ok(None);
        }
        let meter = self.name("a meter")?;
        let mut keeping = 0;
        if self.take_word("KEEPING") {
            match self.peek() {
                Some(Token::Number(number)) if number.in_thousandths() >= 0 => keeping = number.as_count(),
                _ => return Err(self.expected("how many to keep")),
            }
            self.at += 1;
        }
        Ok(Some(Paying { meter, keeping }))
    }

    fn emit(&mut self) -> Read<Emit> {
        if let Some(Token::Text(_)) = self.peek() {
            return Ok(Emit::Text(self.template()?));
        }
        let event = self.ident("an event or text")?;
        Ok(Emit::Event(event, self.args()?))
    }

    fn set(&mut self) -> Read<What> {
        let name = self.name("a variable")?;
        self.sign(Sign::Equal)?;
        Ok(What::Set(name, self.expr(0)?))
    }

    fn refill(&mut self) -> Read<What> {
        let meter = self.name("a meter")?;
        let to = if self.take_word("TO") { Some(self.expr(0)?) } else { None };
        Ok(What::Refill(meter, to))
    }

    fn pattern_use(&mut self) -> Read<Use> {
        let first = self.name("a pattern")?;
        let (protocol, name) =
            if self.take(Sign::Dot) { (Some(first), self.name("a pattern")?) } else { (None, first) };
        Ok(Use { protocol, name, args: self.with_args()? })
    }

    fn exit(&mut self, verb: &str, colon: bool) -> Read<Exit> {
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

    fn call(&mut self) -> Read<Call> {
        let start = self.here();
        let target = if self.take_word("sh") {
            Target::Shell(self.template()?)
        } else if self.sign_at(1) == Some(Sign::OpenParen) {
            self.bracketed()?
        } else {
            Target::Action(self.dotted("an action, Task(role), Run(protocol) or sh \"…\"")?)
        };
        let args = self.args()?;
        Ok(Call { target, args, span: start.to(self.before()) })
    }

    fn bracketed(&mut self) -> Read<Target> {
        let kind = self.ident("Task or Run")?;
        self.sign(Sign::OpenParen)?;
        let inner = self.ident("a role or a protocol")?;
        self.sign(Sign::CloseParen)?;
        match &*kind.name {
            "Task" => Ok(Target::Task(inner)),
            "Run" => Ok(Target::Run(inner)),
            other => Err(Problem::error("unknown-call", kind.span, format!("`{other}(…)` asks nobody"))
                .hint("agents are Task(role), children are Run(protocol)")),
        }
    }

    fn with_args(&mut self) -> Read<Args> {
        if self.take_word("with") { self.args() } else { Ok(Args::new()) }
    }

    /// `name=value`, with or without commas between; a comma before a verb ends them.
    fn args(&mut self) -> Read<Args> {
        let mut args = Args::new();
        loop {
            let comma = usize::from(!args.is_empty() && self.sign_at(0) == Some(Sign::Comma));
            let named =
                matches!(self.tokens.get(self.at + comma), Some(Placed { token: Token::Word(_), .. }));
            if !(named && self.sign_at(comma + 1) == Some(Sign::Equal)) {
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
            self.sign(Sign::Equal)?;
            args.push((name, self.value()?));
        }
    }

    fn words(&mut self) -> Read<Vec<Ident>> {
        let mut words = vec![self.ident("a word")?];
        while self.take(Sign::Pipe) {
            words.push(self.ident("a word")?);
        }
        Ok(words)
    }

    fn value(&mut self) -> Read<Arg> {
        let span = self.here();
        match self.peek() {
            Some(Token::Word(word)) if word == "none" => {
                self.at += 1;
                Ok(Arg::None(span))
            }
            Some(Token::Word(_)) => Ok(Arg::Words(self.words()?)),
            Some(Token::Number(number)) => {
                self.at += 1;
                Ok(Arg::Number(*number, span))
            }
            Some(Token::Duration(seconds)) => {
                self.at += 1;
                Ok(Arg::Duration(*seconds, span))
            }
            Some(Token::Text(_)) => Ok(Arg::Text(self.template()?)),
            Some(Token::Sign(Sign::OpenBrace)) => {
                self.at += 1;
                let expr = self.expr(0)?;
                self.sign(Sign::CloseBrace)?;
                Ok(Arg::Brace(expr, span.to(self.before())))
            }
            Some(Token::Sign(_)) | None => Err(self.expected("a value")),
        }
    }

    fn template(&mut self) -> Read<Template> {
        let span = self.here();
        let Some(Token::Text(raw)) = self.peek() else { return Err(self.expected("text in quotes")) };
        self.at += 1;
        Ok(Template { parts: parts(self.file, raw, span)?, span })
    }

    fn expr(&mut self, depth: usize) -> Read<Expr> {
        self.chain(depth, "OR", ExprKind::Or, Cursor::all)
    }

    fn all(&mut self, depth: usize) -> Read<Expr> {
        self.chain(depth, "AND", ExprKind::And, Cursor::test)
    }

    fn chain(
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

    fn test(&mut self, depth: usize) -> Read<Expr> {
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

    fn compare(&mut self) -> Option<Compare> {
        let compare = match self.peek()? {
            Token::Word(word) if word == "IN" => Compare::In,
            Token::Sign(Sign::Same) => Compare::Same,
            Token::Sign(Sign::Different) => Compare::Different,
            Token::Sign(Sign::Less) => Compare::Less,
            Token::Sign(Sign::AtMost) => Compare::AtMost,
            Token::Sign(Sign::Greater) => Compare::Greater,
            Token::Sign(Sign::AtLeast) => Compare::AtLeast,
            Token::Word(_) | Token::Number(_) | Token::Duration(_) | Token::Text(_) | Token::Sign(_) => {
                return None;
            }
        };
        self.at += 1;
        Some(compare)
    }

    fn operand(&mut self, depth: usize) -> Read<Expr> {
        let span = self.here();
        let kind = match self.peek() {
            Some(Token::Number(number)) => ExprKind::Number(*number),
            Some(Token::Duration(seconds)) => ExprKind::Duration(*seconds),
            Some(Token::Text(_)) => {
                let template = self.template()?;
                return Ok(Expr { kind: Box::new(ExprKind::Text(template)), span });
            }
            Some(Token::Sign(Sign::OpenParen)) => return self.brackets(depth),
            Some(Token::Word(word)) => match word.as_str() {
                "true" => ExprKind::Bool(true),
                "false" => ExprKind::Bool(false),
                "none" => ExprKind::None,
                _ if self.bracket_follows() => return self.function(depth),
                _ => return self.path(),
            },
            Some(Token::Sign(Sign::Equal)) | Some(Token::Sign(_)) | None => {
                return Err(self.operand_problem());
            }
        };
        self.at += 1;
        Ok(Expr { kind: Box::new(kind), span })
    }

    /// A function's bracket follows at once; `budget (direct: 3)` is a name and a variant.
    fn bracket_follows(&self) -> bool {
        let end = self.tokens.get(self.at).map(|placed| placed.span.end);
        self.sign_at(1) == Some(Sign::OpenParen)
            && end == self.tokens.get(self.at + 1).map(|placed| placed.span.start)
    }

    fn operand_problem(&self) -> Problem {
        let problem = self.expected("a value");
        if self.sign_at(0) == Some(Sign::OpenBrace) {
            return problem.hint("in a condition names stand without braces");
        }
        problem
    }

    fn brackets(&mut self, depth: usize) -> Read<Expr> {
        let start = self.here();
        if depth >= MAX_EXPRESSION_DEPTH {
            return Err(Problem::error(
                "too-deep",
                start,
                format!("brackets may nest {MAX_EXPRESSION_DEPTH} deep"),
            ));
        }
        self.sign(Sign::OpenParen)?;
        let inner = self.expr(depth + 1)?;
        self.sign(Sign::CloseParen)?;
        Ok(Expr { kind: inner.kind, span: start.to(self.before()) })
    }

    fn function(&mut self, depth: usize) -> Read<Expr> {
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
        self.sign(Sign::OpenParen)?;
        let mut args = vec![self.expr(depth + 1)?];
        while self.take(Sign::Comma) {
            args.push(self.expr(depth + 1)?);
        }
        self.sign(Sign::CloseParen)?;
        if function == Function::Len && args.len() != 1 {
            return Err(Problem::error("syntax", name.span, "`len` takes one value"));
        }
        Ok(Expr { kind: Box::new(ExprKind::Function(function, args)), span: name.span.to(self.before()) })
    }

    fn path(&mut self) -> Read<Expr> {
        let mut path = vec![self.ident("a name")?];
        while self.take(Sign::Dot) {
            path.push(self.ident("a field after the dot")?);
        }
        let span = path.first().map_or(self.line, |first| first.span.to(self.before()));
        Ok(Expr { kind: Box::new(ExprKind::Path(path)), span })
    }
}

/// Takes text with holes apart; `\"`, `\\`, `\n`, `\t`, `\{` and `\}` are escapes.
fn parts(file: u32, raw: &str, span: Span) -> Read<Vec<Part>> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut letters = raw.char_indices();
    while let Some((index, one)) = letters.next() {
        let at = span.start + 1 + index as u32;
        let spot = Span { file, start: at, end: at + one.len_utf8() as u32 };
        match one {
            '\\' => text.push(escape(letters.next().map(|(_, next)| next), spot)?),
            '{' => {
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                let length = hole_length(&raw[index + 1..]).ok_or_else(|| {
                    Problem::error("open-text", spot, "this brace is not closed")
                        .hint("write `\\{` for a brace in text")
                })?;
                parts.push(Part::Hole(hole(file, &raw[index + 1..index + 1 + length], at + 1)?));
                while letters.clone().next().is_some_and(|(next, _)| next <= index + 1 + length) {
                    letters.next();
                }
            }
            '}' => {
                return Err(Problem::error("open-text", spot, "this brace closes nothing")
                    .hint("write `\\}` for a brace in text"));
            }
            other => text.push(other),
        }
    }
    if !text.is_empty() || parts.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}

/// How long the inside of a hole is. A hole holds no text of its own, so the first brace ends it.
fn hole_length(rest: &str) -> Option<usize> {
    rest.find('}')
}

fn escape(letter: Option<char>, span: Span) -> Read<char> {
    match letter {
        Some(one @ ('"' | '\\' | '{' | '}')) => Ok(one),
        Some('n') => Ok('\n'),
        Some('t') => Ok('\t'),
        Some(other) => Err(Problem::error("bad-escape", span, format!("`\\{other}` is no escape"))
            .hint("the escapes are \\\" \\\\ \\n \\t \\{ \\}")),
        None => Err(Problem::error("bad-escape", span, "a backslash ends the text")),
    }
}

fn hole(file: u32, inside: &str, start: u32) -> Read<Expr> {
    let mut problems = Vec::new();
    let tokens = tokens::read(file, Line { start: start as usize, text: inside }, &mut problems);
    if let Some(problem) = problems.into_iter().next() {
        return Err(problem);
    }
    let span = Span { file, start, end: start + inside.len() as u32 };
    let mut cursor = Cursor { file, tokens: &tokens, at: 0, line: span, first: false };
    let expr = cursor.expr(0)?;
    cursor.end()?;
    Ok(expr)
}
