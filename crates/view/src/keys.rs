//! The one table of keys: the help of the full-screen terminal, its page in the documents and the page's own list are made of it.

/// Which face a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// The terminal and the page.
    Both,
    /// The full-screen terminal.
    Terminal,
    /// The page in the browser.
    Page,
}

/// A key, and what it does.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The keys as they are written on a keyboard.
    pub key: &'static str,
    /// What they do.
    pub does: &'static str,
    /// Where.
    pub face: Face,
}

const fn key(face: Face, key: &'static str, does: &'static str) -> Key {
    Key { key, does, face }
}

/// The table.
pub const KEYS: [Key; 35] = [
    key(Face::Terminal, "1 … 8", "You, Runs, Board, Task, Journal, Money, Lessons, System"),
    key(Face::Page, "g y", "You"),
    key(Face::Page, "g r", "Runs"),
    key(Face::Page, "g l", "Lessons"),
    key(Face::Page, "g p", "Protocols"),
    key(Face::Page, "g n", "New"),
    key(Face::Page, "g s", "System"),
    key(Face::Both, "j k", "next, previous; ↑ ↓ too"),
    key(Face::Both, "Enter", "open"),
    key(Face::Both, "Esc", "back"),
    key(Face::Both, "/", "filter; on Lessons what is looked for"),
    key(Face::Terminal, ":", "go to a screen, or look with a command of ftl; Tab completes"),
    key(Face::Page, "Ctrl K", "go anywhere"),
    key(Face::Terminal, "a", "answer what is chosen"),
    key(Face::Both, "1 … 9", "one of the choices of what is asked; in the terminal behind a"),
    key(Face::Terminal, "R", "raise the limit that holds it; asks why"),
    key(Face::Terminal, "O", "take a declared way although its condition does not hold; asks why"),
    key(Face::Terminal, "S", "stop; asks why"),
    key(Face::Terminal, "r", "try again what is held or blocked; go on with what nobody drives"),
    key(Face::Terminal, "x", "put away what a run has left"),
    key(Face::Terminal, "w", "why it stands where it stands"),
    key(Face::Terminal, "d", "what it changed, as a diff"),
    key(Face::Terminal, "l", "its journal"),
    key(Face::Both, "[ ]", "one entry back, on: the whole run as it stood then"),
    key(Face::Page, "Space", "play the journal"),
    key(Face::Terminal, "f", "follow: back to now"),
    key(Face::Terminal, "Space", "fold what waits and what has landed"),
    key(Face::Page, "z", "fold the waves of a graph, and unfold them"),
    key(Face::Page, "n p", "next, previous: a change of a diff, a task of a large graph"),
    key(Face::Page, "+ - 0", "nearer, farther, all of a large graph"),
    key(Face::Terminal, "Tab", "the other half; of a task what agents say, what gates said"),
    key(Face::Terminal, "z", "the chosen half alone, and both again"),
    key(Face::Terminal, "c", "the command that it equals, at the bottom"),
    key(Face::Both, "?", "these keys"),
    key(Face::Terminal, "q", "leave; the runs go on"),
];

/// The keys of the terminal.
pub fn of_terminal() -> impl Iterator<Item = Key> {
    KEYS.into_iter().filter(|key| key.face != Face::Page)
}

/// The keys of the page.
pub fn of_page() -> impl Iterator<Item = Key> {
    KEYS.into_iter().filter(|key| key.face != Face::Terminal)
}
