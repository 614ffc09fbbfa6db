//! The parser: lines of program to a syntax tree, with every error of the document.
//!
//! A line that cannot be read becomes a `Broken` statement and a problem, and reading goes on
//! with the next line. Depth and size are bounded, so no input makes this hang or overflow.

mod cursor;
mod template;

use crate::problem::Problem;
use crate::source::{MAX_DOCUMENT_BYTES, SourceDocument, SourceLine, Span};
use crate::tokens::{self, Placed, Punctuation, Token};
use cursor::Cursor;
use ftl_core::syntax::{
    Block, BoardLine, Document, Exit, Ident, Pattern, State, Statement, StatementKind, Step,
};

/// How deep blocks may nest.
pub const MAX_BLOCK_DEPTH: usize = 16;
/// How deep statements may nest, on lines of their own and on one line together.
pub const MAX_STATEMENT_DEPTH: usize = 24;
/// How deep expressions may nest.
pub const MAX_EXPRESSION_DEPTH: usize = 32;
/// How long a line of program may be.
pub const MAX_LINE_BYTES: usize = 4096;
/// How many states a protocol may have.
pub const MAX_STATES: usize = 256;
/// How many inputs, meters and variables a protocol may have, all together.
pub const MAX_DECLARATIONS: usize = 256;
/// How many errors of one document are kept.
pub const MAX_PROBLEMS: usize = 200;

/// Words inside a line that have a meaning of their own.
const RESERVED: &[&str] = &[
    "ELSE", "PARALLEL", "FOR", "PAYING", "KEEPING", "PER", "BEFORE", "AND", "OR", "NOT", "with", "none",
    "true", "false", "is", "empty", "failure",
];

const HEADERS: &[&str] =
    &["PROTOCOL", "INPUT", "LIMIT", "TRACK", "GATE", "REDO", "BOARD", "DELIVERY", "PATTERN", "STATE"];
/// Headers whose words documents could give to states before there were these headers, and still can.
const UNRESERVED: [&str; 2] = ["BOARD", "DELIVERY"];
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

/// Whether no state, variable or pattern may be called so.
fn is_reserved(word: &str) -> bool {
    !UNRESERVED.contains(&word) && [HEADERS, VERBS, RESERVED].iter().any(|list| list.contains(&word))
}

/// Reads a document; the problems are all that reading alone can find.
pub fn parse(file: u32, source: &SourceDocument) -> (Document, Vec<Problem>) {
    let mut parser = Parser { file, problems: Vec::new(), depth: 0 };
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
            parser.problems.extend((!node.bad).then_some(problem));
        }
    }
    parser.sizes(&mut document, start);
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
    /// Whether something of the line means nothing, which was said; what follows from it is not.
    bad: bool,
    below: Vec<Node>,
}

impl Node {
    fn starts_with(&self, word: &str) -> bool {
        matches!(self.tokens.first(), Some(Placed { token: Token::Word(first), .. }) if first == word)
    }

    fn is_branch(&self) -> bool {
        matches!(self.tokens.first(), Some(Placed { token: Token::Sign(Punctuation::Dash), .. }))
    }
}

struct Parser {
    file: u32,
    problems: Vec<Problem>,
    /// How many statements enclose the one that is read.
    depth: usize,
}

type Read<T> = Result<T, Problem>;

/// Keeps what a header says that stands once in a document.
fn once<T>(kept: &mut Option<T>, said: T, header: &Ident, span: Span) -> Read<()> {
    if kept.is_some() {
        let message = format!("{} is said twice", header.name);
        return Err(Problem::error("double-name", span, message));
    }
    *kept = Some(said);
    Ok(())
}

impl Parser {
    /// Builds the tree of lines by their indentation.
    fn tree(&mut self, lines: &[SourceLine<'_>]) -> Vec<Node> {
        let mut roots = Vec::new();
        let mut open: Vec<(usize, Node)> = Vec::new();
        for line in lines {
            if line.text.len() > MAX_LINE_BYTES {
                let start = Span { file: self.file, start: line.start as u32, end: line.start as u32 };
                let message = format!("this line is longer than {MAX_LINE_BYTES} bytes");
                self.problems.push(Problem::error("too-large", start, message));
                continue;
            }
            let before = self.problems.len();
            let tokens = tokens::read(self.file, *line, &mut self.problems);
            let bad = self.problems.len() > before;
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
            open.push((indent, Node { tokens, span, bad, below: Vec::new() }));
        }
        while !open.is_empty() {
            close(&mut open, &mut roots);
        }
        roots
    }

    /// A machine too large to be read by a person is not worth proving.
    fn sizes(&mut self, document: &mut Document, start: Span) {
        if let Some(extra) = document.states.get(MAX_STATES) {
            let message = format!("a protocol may have {MAX_STATES} states");
            self.problems.push(Problem::error("too-large", extra.name.span, message));
            document.states.truncate(MAX_STATES);
        }
        if document.inputs.len() + document.limits.len() + document.tracks.len() > MAX_DECLARATIONS {
            let message = format!("a protocol may have {MAX_DECLARATIONS} inputs, meters and variables");
            self.problems.push(Problem::error("too-large", start, message));
            document.inputs.clear();
            document.limits.clear();
            document.tracks.clear();
            document.states.clear();
        }
    }

    fn indent(&mut self, line: &SourceLine<'_>, span: Span) -> usize {
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
        line.sign(Punctuation::Colon)?;
        let takes_block = matches!(&*word.name, "STATE" | "PATTERN");
        match &*word.name {
            "PROTOCOL" => self.protocol(&mut line, document)?,
            "INPUT" => document.inputs.push(line.input()?),
            "LIMIT" => document.limits.push(line.limit()?),
            "TRACK" => document.tracks.push(line.track()?),
            "GATE" => document.gates.push(line.gate()?),
            "REDO" => {
                let meter = line.name("the meter that a redo pays")?;
                once(&mut document.redo, meter, &word, line.before())?;
            }
            "BOARD" => {
                let board = BoardLine { kind: line.ident("what the board is made of")?, args: line.args()? };
                once(&mut document.board, board, &word, line.before())?;
            }
            "DELIVERY" => {
                let state = line.name("a state")?;
                once(&mut document.delivery, state, &word, line.before())?;
            }
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

    fn pattern(&mut self, line: &mut Cursor<'_>, node: &Node, document: &mut Document) -> Read<()> {
        let name = line.name("the pattern's name")?;
        let mut params = Vec::new();
        if line.take_word("with") {
            params.push(line.name("a parameter")?);
            while line.take(Punctuation::Comma) {
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
            while line.take(Punctuation::Comma) {
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
            return vec![Statement { what: StatementKind::Broken, span: above, pasted: None, place: 0 }];
        }
        let mut block = Block::new();
        for node in nodes {
            let mut line = Cursor::new(self.file, node);
            let read = self.clause(&mut line, node, document).and_then(|clause| line.end().map(|()| clause));
            match read {
                Ok(clause) if !node.bad => block.extend(clause),
                read => {
                    self.problems.extend(read.err().filter(|_| !node.bad));
                    document.broken = true;
                    block.push(Statement {
                        what: StatementKind::Broken,
                        span: node.span,
                        pasted: None,
                        place: 0,
                    });
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
        while line.take(Punctuation::Comma) {
            block.push(self.statement(line, node, document)?);
        }
        Ok(block)
    }

    fn statement(&mut self, line: &mut Cursor<'_>, node: &Node, document: &mut Document) -> Read<Statement> {
        if self.depth >= MAX_STATEMENT_DEPTH {
            let message = format!("statements may nest {MAX_STATEMENT_DEPTH} deep");
            return Err(Problem::error("too-deep", line.here(), message));
        }
        self.depth += 1;
        let read = self.one_statement(line, node, document);
        self.depth -= 1;
        read
    }

    fn one_statement(
        &mut self,
        line: &mut Cursor<'_>,
        node: &Node,
        document: &mut Document,
    ) -> Read<Statement> {
        let start = line.here();
        let verb = line.ident("a verb such as `DO:`")?;
        if !VERBS.contains(&&*verb.name) {
            return Err(unknown_verb(&verb));
        }
        let colon = line.take(Punctuation::Colon);
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
            "EMIT" => StatementKind::Emit(line.emit()?),
            "SET" => line.set()?,
            "INCREMENT" => StatementKind::Increment(line.name("a variable")?),
            "REFILL" => line.refill()?,
            "USE" => StatementKind::Use(line.pattern_use()?),
            "PROCEED" => StatementKind::Proceed,
            _ => StatementKind::Exit(line.exit(&verb.name, colon)?),
        };
        self.no_block_below(&what, line, node)?;
        Ok(Statement { what, span: start.to(line.before()), pasted: None, place: 0 })
    }

    /// Lines below a statement that takes none are an error, not something to skip.
    fn no_block_below(&self, what: &StatementKind, line: &Cursor<'_>, node: &Node) -> Read<()> {
        let takes = matches!(what, StatementKind::Step { .. } | StatementKind::If { .. });
        match node.below.first() {
            Some(below) if line.at_end() && !takes => {
                Err(Problem::error("indentation", below.span, "nothing can be indented below this statement"))
            }
            _ => Ok(()),
        }
    }

    fn condition(
        &mut self,
        line: &mut Cursor<'_>,
        node: &Node,
        document: &mut Document,
    ) -> Read<StatementKind> {
        let condition = line.expr(0)?;
        line.sign(Punctuation::Arrow)?;
        let body = if line.at_end() {
            self.block(&node.below, node.span, document)
        } else {
            self.clause(line, node, document)?
        };
        if line.word_is("ELSE") {
            return Err(Problem::error("else-after-if", line.here(), "IF has no ELSE")
                .hint("what stands on the next line is the other way"));
        }
        Ok(StatementKind::If { condition, body })
    }

    fn step(
        &mut self,
        verb: &str,
        line: &mut Cursor<'_>,
        node: &Node,
        document: &mut Document,
    ) -> Read<StatementKind> {
        let step = match verb {
            "DO" => self.do_step(line, node, document)?,
            "CHECK" => line.check()?,
            "WAIT" => line.wait()?,
            "ASK" => line.ask()?,
            _ => line.pay()?,
        };
        let otherwise = self.otherwise(&step, line, node, document)?;
        Ok(StatementKind::Step { step, otherwise })
    }

    fn do_step(&mut self, line: &mut Cursor<'_>, node: &Node, document: &mut Document) -> Read<Step> {
        let bind = line.binding()?;
        if line.take_word("PARALLEL") {
            return self.parallel(bind, line, node);
        }
        if line.word_is("FOR") {
            return self.for_each(bind, line, node, document);
        }
        let pipe = line.take(Punctuation::Pipe);
        let call = line.call()?;
        let paying = line.paying()?;
        Ok(Step::Do { bind, pipe, call, paying })
    }

    fn parallel(&mut self, bind: Option<Ident>, line: &mut Cursor<'_>, node: &Node) -> Read<Step> {
        let args = line.args()?;
        let mut calls = Vec::new();
        for below in node.below.iter().filter(|below| !below.starts_with("ELSE")) {
            let mut branch = Cursor::new(self.file, below);
            branch.sign(Punctuation::Dash)?;
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
        let what = StatementKind::Exit(Exit::Goto { target, hole, args, by_else: true });
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
