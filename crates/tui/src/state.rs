//! Where one is: the screen, the cursor, what is being typed, and what is to be done besides drawing.

use ftl_view::actions::PersonAction;
use serde_json::Value as Json;

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Letter(char),
    Enter,
    Escape,
    Back,
    Tab,
    Up,
    Down,
    PageUp,
    PageDown,
    Interrupt,
}

/// The screens, by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Screen {
    #[default]
    You,
    Runs,
    Board,
    Task,
    Journal,
    Money,
    Lessons,
    System,
}

impl Screen {
    pub(crate) const ALL: [(Screen, &'static str); 8] = [
        (Screen::You, "You"),
        (Screen::Runs, "Runs"),
        (Screen::Board, "Board"),
        (Screen::Task, "Task"),
        (Screen::Journal, "Journal"),
        (Screen::Money, "Money"),
        (Screen::Lessons, "Lessons"),
        (Screen::System, "System"),
    ];

    /// Whether it shows one run.
    pub(crate) const fn is_of_a_run(self) -> bool {
        matches!(self, Screen::Board | Screen::Task | Screen::Journal | Screen::Money)
    }
}

/// What is to be done besides drawing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    None,
    Quit,
    /// An order of the person.
    Send {
        run: String,
        order: Json,
        name: String,
    },
    /// A command that looks.
    Look(String),
    /// Lessons that are looked for.
    Recall(String),
}

/// What is being typed at the bottom.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Typing {
    Filter,
    Command,
    /// A value of an action.
    Value(String, Box<PersonAction>),
    /// The reason for which a rule is bent.
    Reason(String, Box<PersonAction>),
    /// The person who bends it.
    Name(String, Box<PersonAction>, String),
}

/// What is on the screen, and what is being typed.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) screen: Screen,
    pub(crate) before: Vec<Screen>,
    pub(crate) cursor: usize,
    pub(crate) run: Option<String>,
    pub(crate) task: Option<String>,
    pub(crate) filter: String,
    pub(crate) typing: Option<Typing>,
    pub(crate) typed: String,
    pub(crate) note: String,
    /// The entry as of which the run is shown; nothing is now.
    pub(crate) at: Option<u64>,
    pub(crate) folded: bool,
    pub(crate) right: bool,
    /// Which half of a task is shown at its right: what its agents say, or what gates said.
    pub(crate) pane: TaskPane,
    /// Whether the chosen half has the whole screen.
    pub(crate) full: bool,
    /// What is read over everything else, and from which line on.
    pub(crate) reading: Option<(String, usize)>,
    pub(crate) help: bool,
}

/// The right half of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TaskPane {
    #[default]
    Words,
    Verdicts,
}
