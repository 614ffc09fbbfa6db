//! Puts the drawings of a document right.
//!
//! What is right stays as it is, byte for byte; rows and lines of edges that stay keep their
//! text. Lines that could not be read are never taken out: a person wrote them, and `compare`
//! goes on naming them. Doing it twice is the same as doing it once.

use std::collections::{BTreeMap, BTreeSet};

use super::Machine;
use super::fence::{Fence, Line, Statement, line_end, line_start};
use super::patch::Patch;
use super::read::{Block, blocks};
use super::tables::{Form, Grid, Mark, is_name, mark, targets};
use super::text::{alias_line, edge_line, name_cell, prose_cell};

/// The document with its Mermaid diagrams, lists and matrices saying what the machine is.
#[must_use]
pub fn rewrite(markdown: &str, machine: &Machine) -> String {
    let mut editor = Editor {
        markdown,
        machine,
        order: machine.places(),
        meant: machine.pairs(),
        patch: Patch::new(markdown),
    };
    for block in blocks(markdown) {
        match block {
            Block::Fence(fence) => editor.diagram(&fence),
            Block::Table(grid, Form::List) => editor.list(&grid),
            Block::Table(grid, Form::Matrix) => editor.matrix(&grid),
            Block::Table(_, Form::Steps(_)) => {}
        }
    }
    editor.patch.apply()
}

struct Editor<'a> {
    markdown: &'a str,
    machine: &'a Machine,
    order: BTreeMap<&'a str, usize>,
    meant: BTreeSet<(&'a str, &'a str)>,
    patch: Patch<'a>,
}

impl Editor<'_> {
    fn has(&self, from: &str, to: &str) -> bool {
        self.meant.contains(&(from, to))
    }

    fn diagram(&mut self, fence: &Fence) {
        let edge = |line: &Line| match &line.statement {
            Statement::Edge(from, to) => Some((from.clone(), to.clone(), line.text.start)),
            Statement::Header
            | Statement::Enters(_)
            | Statement::Leaves(_)
            | Statement::Shown(_)
            | Statement::Quiet
            | Statement::Unreadable(_) => None,
        };
        let drawn: Vec<(String, String, usize)> = fence.lines.iter().filter_map(edge).collect();
        let (kept, extra): (Vec<_>, Vec<_>) = drawn.into_iter().partition(|(from, to, _)| self.has(from, to));
        if extra.is_empty() && self.is_complete(&kept) {
            return;
        }
        for (_, _, at) in extra {
            self.patch.remove_line(at);
        }
        let top = self.ends(fence);
        self.aliases(fence);
        for arrow in self.machine.grouped() {
            if kept.iter().any(|(from, to, _)| *from == arrow.from && *to == arrow.to) {
                continue;
            }
            let anchor = self.anchor(&kept, &arrow.from);
            let at = anchor.unwrap_or(top);
            let margin = match anchor {
                Some(at) => self.margin(at),
                None => self.inner_margin(fence, top),
            };
            self.patch.add_line(at, &format!("{margin}{}", edge_line(arrow)));
        }
    }

    fn is_complete(&self, kept: &[(String, String, usize)]) -> bool {
        let drawn: BTreeSet<(&str, &str)> =
            kept.iter().map(|(from, to, _)| (from.as_str(), to.as_str())).collect();
        drawn == self.meant
    }

    /// Takes out the start and end marks of states that are gone, and gives the line below which
    /// edges without a neighbour go.
    fn ends(&mut self, fence: &Fence) -> usize {
        let header = fence.header().map_or(fence.span.start, |line| line.text.start);
        let (mut entry, mut entry_gone) = (None, false);
        for line in &fence.lines {
            match &line.statement {
                Statement::Enters(name) if self.order.contains_key(name.as_str()) => {
                    entry = Some(line.text.start);
                }
                Statement::Leaves(name) if self.order.contains_key(name.as_str()) => {}
                Statement::Enters(_) => {
                    entry_gone = true;
                    self.patch.remove_line(line.text.start);
                }
                Statement::Leaves(_) => self.patch.remove_line(line.text.start),
                Statement::Header
                | Statement::Edge(..)
                | Statement::Shown(_)
                | Statement::Quiet
                | Statement::Unreadable(_) => {}
            }
        }
        if let Some(start) = self.machine.states.first()
            && entry.is_none()
            && entry_gone
        {
            let margin = self.inner_margin(fence, header);
            let line = format!("{margin}[*] --> {}", super::alias::identifier(&start.name));
            self.patch.add_line(header, &line);
        }
        entry.unwrap_or(header)
    }

    /// Says how identifiers are shown that stand for names which Mermaid would not take.
    fn aliases(&mut self, fence: &Fence) {
        let Some(header) = fence.header() else {
            return;
        };
        let at = header.text.start;
        let odd: Vec<&str> = self.order.keys().copied().collect();
        for name in odd.into_iter().filter(|name| !super::alias::is_plain(name)) {
            let shown = |line: &Line| line.statement == Statement::Shown(name.to_owned());
            if !fence.lines.iter().any(shown) {
                let margin = self.inner_margin(fence, at);
                self.patch.add_line(at, &format!("{margin}{}", alias_line(name)));
            }
        }
    }

    /// The edge after which a new one from a state goes: the last from the same state, else the
    /// last from the nearest state before it.
    fn anchor(&self, kept: &[(String, String, usize)], from: &str) -> Option<usize> {
        let own = kept.iter().rev().find(|(source, _, _)| source == from);
        if let Some((_, _, at)) = own {
            return Some(*at);
        }
        let place = |name: &str| self.order.get(name).copied();
        let before = kept.iter().filter(|(source, _, _)| place(source) < place(from));
        before.max_by_key(|(source, _, at)| (place(source), *at)).map(|(_, _, at)| *at)
    }

    /// The margin of a line: spaces, and the signs of quotes around it.
    fn margin(&self, byte: usize) -> String {
        let start = line_start(byte, self.markdown);
        let line = self.markdown.get(start..).unwrap_or_default();
        line.chars().take_while(|c| [' ', '\t', '>'].contains(c)).collect()
    }

    /// The margin of lines below the header.
    fn inner_margin(&self, fence: &Fence, byte: usize) -> String {
        let margin = self.margin(byte);
        let header = fence.header().map(|line| line.text.start);
        match header == Some(byte) {
            true => format!("{margin}    "),
            false => margin,
        }
    }

    fn list(&mut self, grid: &Grid) {
        let reading = Form::List.reading(grid);
        let mut kept = Vec::new();
        let mut stale = Vec::new();
        for (row, from, to) in reading.edges {
            if self.has(&from, &to) {
                let at = grid.rows[row].span.start;
                kept.push((from, to, at));
            } else if !stale.contains(&row) {
                stale.push(row);
            }
        }
        let faulty: Vec<usize> = reading.faults.iter().map(|(row, _)| *row).collect();
        for row in stale {
            self.stale_row(grid, row, faulty.contains(&row));
        }
        for arrow in self.machine.grouped() {
            let drawn = kept.iter().any(|(from, to, _)| *from == arrow.from && *to == arrow.to);
            if drawn || !fits(&arrow.from) || !fits(&arrow.to) {
                continue;
            }
            let row = self.list_row(grid, arrow);
            let at = self.anchor(&kept, &arrow.from).unwrap_or(self.rule(grid));
            self.patch.add_line(at, &row);
        }
    }

    /// Takes the targets that are no edges out of a row, or the row when none is left.
    fn stale_row(&mut self, grid: &Grid, row: usize, faulty: bool) {
        let from = grid.text(row, 0);
        let cell = grid.text(row, 1);
        let keeps = |to: &&str| faulty && !is_name(to) || self.has(from, to) || *to == "[*]";
        let left: Vec<String> = targets(cell)
            .filter(keeps)
            .map(|to| if is_name(to) { name_cell(to) } else { prose_cell(to) })
            .collect();
        match grid.rows[row].cells.get(1) {
            Some(cell) if !left.is_empty() => {
                let text = format!(" {} ", left.join(", "));
                self.patch.replace(cell.span.clone(), text);
            }
            Some(_) | None => self.patch.remove_line(grid.rows[row].span.start),
        }
    }

    fn list_row(&self, grid: &Grid, arrow: &super::Arrow) -> String {
        let cell = |column: usize| match column {
            0 => name_cell(&arrow.from),
            1 => name_cell(&arrow.to),
            _ if grid.text(0, column).eq_ignore_ascii_case("when") => prose_cell(&arrow.label),
            _ => String::new(),
        };
        let cells: Vec<String> = (0..grid.columns()).map(cell).collect();
        let margin = self.margin(self.rule(grid));
        format!("{margin}{}", padded(&cells, &self.widths(grid)))
    }

    /// The line below the header.
    fn rule(&self, grid: &Grid) -> usize {
        let head = grid.rows.first().map_or(grid.span.start, |row| row.span.start);
        line_end(head, self.markdown)
    }

    /// How wide the columns are, as far as the header shows it.
    fn widths(&self, grid: &Grid) -> Vec<usize> {
        let width = |cell: &super::tables::Cell| {
            let text = self.markdown.get(cell.span.clone()).unwrap_or_default();
            text.chars().count().saturating_sub(2)
        };
        let head = grid.rows.first();
        head.map_or(Vec::new(), |row| row.cells.iter().map(width).collect())
    }

    fn matrix(&mut self, grid: &Grid) {
        let names: Vec<&str> = (1..grid.columns()).map(|column| grid.text(0, column)).collect();
        let columns = self.absent(&names);
        let matrix = Matrix::of(grid, &columns, self.widths(grid));
        if !columns.is_empty() {
            self.matrix_head(grid, &columns, &matrix.widths);
        }
        for row in 1..grid.rows.len() {
            if is_name(grid.text(row, 0)) {
                self.matrix_row(grid, row, &matrix);
            }
        }
        let rows: Vec<&str> = (1..grid.rows.len()).map(|row| grid.text(row, 0)).collect();
        let last = grid.rows.iter().skip(1).next_back();
        let at = last.map_or(self.rule(grid), |row| row.span.start);
        for from in self.absent(&rows) {
            let marks = matrix.columns.iter().map(|to| matrix.sign(self.has(&from, to)).to_owned());
            let cells: Vec<String> = std::iter::once(name_cell(&from)).chain(marks).collect();
            let margin = self.margin(self.rule(grid));
            self.patch.add_line(at, &format!("{margin}{}", padded(&cells, &matrix.widths)));
        }
    }

    /// The names of the machine that a header or a first column lacks, in order.
    fn absent(&self, present: &[&str]) -> Vec<String> {
        let mut names: Vec<(usize, &str)> = self.order.iter().map(|(name, at)| (*at, *name)).collect();
        names.sort_unstable();
        let absent = names.iter().filter(|(_, name)| !present.contains(name) && fits(name));
        absent.map(|(_, name)| (*name).to_owned()).collect()
    }

    fn matrix_head(&mut self, grid: &Grid, columns: &[String], widths: &[usize]) {
        let mut cells = self.sources(grid, 0);
        cells.extend(columns.iter().map(|name| name_cell(name)));
        let span = grid.rows[0].text(self.markdown);
        self.patch.replace(span, padded(&cells, widths));
        let rule = self.rule(grid);
        let margin = self.margin(rule);
        let start = rule + margin.len();
        let line = self.markdown.get(start..line_end(rule, self.markdown));
        let line = line.unwrap_or_default().trim_end();
        let more: Vec<String> =
            columns.iter().map(|name| "-".repeat(name_cell(name).chars().count().max(3))).collect();
        let bar = if line.ends_with('|') { "" } else { " |" };
        let rule_text = format!("{line}{bar} {} |", more.join(" | "));
        self.patch.replace(start..start + line.len(), rule_text);
    }

    /// Sets the marks of a row. A row whose marks are right stays as it is.
    fn matrix_row(&mut self, grid: &Grid, row: usize, matrix: &Matrix) {
        let from = grid.text(row, 0);
        let mut cells = self.sources(grid, row);
        let mut changed = false;
        for (column, to) in (1..).zip(&matrix.columns) {
            let edge = self.has(from, to);
            // A column without a name has no edges to set; its cells are not ours.
            let right = match mark(grid.text(row, column)) {
                Mark::Tick => edge || !is_name(to),
                Mark::None => !edge,
                Mark::Unreadable => !is_name(to),
            };
            let sign = matrix.sign(edge);
            match cells.get_mut(column) {
                Some(_) if right => {}
                Some(cell) => {
                    sign.clone_into(cell);
                    changed = true;
                }
                None => {
                    cells.push(sign.to_owned());
                    changed = true;
                }
            }
        }
        if changed {
            let span = grid.rows[row].text(self.markdown);
            self.patch.replace(span, padded(&cells, &matrix.widths));
        }
    }

    /// The cells of a row as they are written.
    fn sources(&self, grid: &Grid, row: usize) -> Vec<String> {
        let source = |cell: &super::tables::Cell| {
            let text = self.markdown.get(cell.span.clone()).unwrap_or_default();
            text.trim().to_owned()
        };
        grid.rows[row].cells.iter().map(source).collect()
    }
}

/// How a matrix is written.
struct Matrix {
    /// The states that it has a column for, new ones last.
    columns: Vec<String>,
    widths: Vec<usize>,
    tick: String,
    dash: String,
}

impl Matrix {
    fn of(grid: &Grid, new: &[String], mut widths: Vec<usize>) -> Self {
        let present = (1..grid.columns()).map(|column| grid.text(0, column).to_owned());
        widths.extend(new.iter().map(|name| name_cell(name).chars().count()));
        let cells: Vec<&str> = (1..grid.rows.len())
            .flat_map(|row| (1..grid.columns()).map(move |column| grid.text(row, column)))
            .collect();
        let used = |wanted: Mark, usual: &str| {
            let sign = cells.iter().find(|cell| mark(cell) == wanted);
            sign.map_or(usual, |cell| cell).to_owned()
        };
        Self {
            columns: present.chain(new.iter().cloned()).collect(),
            widths,
            tick: used(Mark::Tick, "✔"),
            dash: used(Mark::None, "–"),
        }
    }

    fn sign(&self, edge: bool) -> &str {
        if edge { &self.tick } else { &self.dash }
    }
}

/// Whether a name comes back from a table as it went in. One that does not is left out, and
/// `compare` says that it is missing.
fn fits(name: &str) -> bool {
    is_name(name) && !name.contains(',') && super::text::one_line(name) == name
}

/// A row of a table, its cells as wide as the header's.
fn padded(cells: &[String], widths: &[usize]) -> String {
    let mut row = String::from("|");
    for (at, cell) in cells.iter().enumerate() {
        let width = widths.get(at).copied().unwrap_or(0);
        row.push_str(&format!(" {cell:<width$} |"));
    }
    row
}
