//! Transition tables: which tables are, and what they say.
//!
//! Cells are compared as plain text, without Markdown. A cell that says neither yes nor no is a
//! fault; the reader never guesses an edge.

use std::collections::BTreeSet;
use std::ops::Range;

/// A table with the bytes of its cells. The first row is the header.
pub(super) struct Grid {
    pub(super) span: Range<usize>,
    pub(super) rows: Vec<Row>,
}

/// A row of a table.
pub(super) struct Row {
    /// The bytes from the margin on, with the line break.
    pub(super) span: Range<usize>,
    pub(super) cells: Vec<Cell>,
}

/// A cell of a table.
pub(super) struct Cell {
    /// The bytes between the pipes.
    pub(super) span: Range<usize>,
    /// The text without Markdown.
    pub(super) text: String,
}

impl Grid {
    pub(super) fn new(span: Range<usize>) -> Self {
        let rows = Vec::new();
        Self { span, rows }
    }

    pub(super) fn push_cell(&mut self, cell: Cell) {
        if let Some(row) = self.rows.last_mut() {
            row.cells.push(cell);
        }
    }

    pub(super) fn push_text(&mut self, text: &str) {
        let cell = self.rows.last_mut().and_then(|row| row.cells.last_mut());
        if let Some(cell) = cell {
            cell.text.push_str(text);
        }
    }

    /// The plain text of a cell, empty when the row has no such cell.
    pub(super) fn text(&self, row: usize, column: usize) -> &str {
        let cell = self.rows.get(row).and_then(|row| row.cells.get(column));
        cell.map_or("", |cell| cell.text.trim())
    }

    pub(super) fn columns(&self) -> usize {
        self.rows.first().map_or(0, |row| row.cells.len())
    }
}

impl Row {
    pub(super) fn new(span: Range<usize>) -> Self {
        let cells = Vec::new();
        Self { span, cells }
    }

    /// The bytes of the row, without the line break.
    pub(super) fn text(&self, markdown: &str) -> Range<usize> {
        let text = markdown.get(self.span.clone()).unwrap_or_default();
        let text = text.lines().next().unwrap_or_default();
        self.span.start..self.span.start + text.len()
    }
}

impl Cell {
    pub(super) fn new(span: Range<usize>) -> Self {
        let text = String::new();
        Self { span, text }
    }
}

/// How a table writes its edges down.
pub(super) enum Form {
    /// A row for each edge, or for each state with all it leads to.
    List,
    /// A row and a column for each state.
    Matrix,
    /// A row for each state, with the columns that list what it leads to.
    Steps(Vec<usize>),
}

/// What a table says: edges and faults with the number of their row.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) edges: Vec<(usize, String, String)>,
    pub(super) faults: Vec<(usize, String)>,
}

/// What a cell of a matrix says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Tick,
    None,
    Unreadable,
}

impl Form {
    /// The form of a table, when it is a transition table.
    pub(super) fn of(grid: &Grid) -> Option<Self> {
        let first = grid.text(0, 0);
        if first.eq_ignore_ascii_case("from") && grid.text(0, 1).eq_ignore_ascii_case("to") {
            return Some(Self::List);
        }
        if is_corner(first) {
            return Some(Self::Matrix);
        }
        let starting = |word: &str| -> Vec<usize> {
            let starts = |&at: &usize| grid.text(0, at).to_lowercase().starts_with(word);
            (1..grid.columns()).filter(starts).collect()
        };
        let (success, failure) = (starting("success"), starting("failure"));
        if !first.eq_ignore_ascii_case("state") || success.is_empty() || failure.is_empty() {
            return None;
        }
        Some(Self::Steps([success, failure].concat()))
    }

    /// The edges that the table has.
    pub(super) fn reading(&self, grid: &Grid) -> Reading {
        let mut reading = Reading::default();
        for row in 1..grid.rows.len() {
            match self {
                Self::List => reading.list_row(grid, row),
                Self::Matrix => reading.matrix_row(grid, row),
                Self::Steps(columns) => reading.steps_row(grid, row, columns),
            }
        }
        if let Self::Matrix = self {
            reading.matrix_head(grid);
        }
        reading
    }
}

impl Reading {
    fn fault(&mut self, row: usize, message: String) {
        self.faults.push((row, message));
    }

    fn list_row(&mut self, grid: &Grid, row: usize) {
        let (from, to) = (grid.text(row, 0), grid.text(row, 1));
        if (from.is_empty() && to.is_empty()) || is_dash(to) {
            return;
        }
        for to in targets(to) {
            match (from, to) {
                ("[*]", _) | (_, "[*]") => {}
                (from, to) if is_name(from) && is_name(to) => {
                    self.edges.push((row, from.to_owned(), to.to_owned()));
                }
                (from, to) => {
                    let bad = if is_name(from) { to } else { from };
                    self.fault(row, format!("not the name of a state: \"{bad}\""));
                }
            }
        }
    }

    fn matrix_head(&mut self, grid: &Grid) {
        for column in 1..grid.columns() {
            let name = grid.text(0, column);
            if !is_name(name) {
                self.fault(0, format!("not the name of a state: \"{name}\""));
            }
        }
    }

    fn matrix_row(&mut self, grid: &Grid, row: usize) {
        let from = grid.text(row, 0);
        if !is_name(from) {
            return self.fault(row, format!("not the name of a state: \"{from}\""));
        }
        for column in 1..grid.columns() {
            let (to, cell) = (grid.text(0, column), grid.text(row, column));
            match mark(cell) {
                Mark::Tick if is_name(to) => {
                    self.edges.push((row, from.to_owned(), to.to_owned()));
                }
                Mark::Tick | Mark::None => {}
                Mark::Unreadable => {
                    let message = format!("neither a tick nor a dash at {from}, {to}: \"{cell}\"");
                    self.fault(row, message);
                }
            }
        }
    }

    fn steps_row(&mut self, grid: &Grid, row: usize, columns: &[usize]) {
        let from = grid.text(row, 0);
        let states: BTreeSet<&str> = (1..grid.rows.len()).map(|row| grid.text(row, 0)).collect();
        if !is_name(from) {
            return self.fault(row, format!("not the name of a state: \"{from}\""));
        }
        for &column in columns {
            for word in step_words(grid.text(row, column)) {
                if states.contains(word.as_str()) {
                    self.edges.push((row, from.to_owned(), word));
                } else if !is_dash(&word) && word != "or" && word != "STOP" {
                    self.fault(row, format!("not a state of this table: \"{word}\""));
                }
            }
        }
    }
}

/// The states that a cell of a list names.
pub(super) fn targets(cell: &str) -> impl Iterator<Item = &str> {
    cell.split(',').map(str::trim)
}

/// What a cell of a matrix says.
pub(super) fn mark(cell: &str) -> Mark {
    let bare: String = cell.chars().filter(|c| !['\u{fe0e}', '\u{fe0f}'].contains(c)).collect();
    match bare.to_lowercase().as_str() {
        "✔" | "✓" | "x" | "yes" => Mark::Tick,
        dash if dash.is_empty() || is_dash(dash) => Mark::None,
        _ => Mark::Unreadable,
    }
}

/// Whether a text can be the name of a state.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace) && !is_dash(text)
}

fn is_dash(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| ['-', '–', '—', '−'].contains(&c))
}

/// `From \ To`, with any sign between the words.
fn is_corner(text: &str) -> bool {
    let lower = text.to_lowercase();
    let between = lower.strip_prefix("from").and_then(|t| t.strip_suffix("to"));
    between.is_some_and(|sign| {
        let sign = sign.trim();
        !sign.is_empty() && !sign.contains(char::is_alphanumeric)
    })
}

/// The words of a cell that stand outside brackets.
fn step_words(cell: &str) -> Vec<String> {
    let mut depth = 0usize;
    let mut outside = String::new();
    for c in cell.chars() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            c if depth == 0 => outside.push(c),
            _ => {}
        }
    }
    let words = outside.split([' ', '\t', ',', ';', '/', '\u{a0}']);
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
