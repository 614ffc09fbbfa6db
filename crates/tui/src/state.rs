//! Where one is, and what a key does to it. Nothing is looked at here: what is shown comes in, what is to be done goes out.

use ftl_view::actions::PersonAction;
use serde_json::{Value as Json, json};

use crate::desk::Shown;

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
    pub(crate) help: bool,
}

/// How many rows a page is.
const PAGE: usize = 15;

impl State {
    /// Takes a key: the state changes, and an effect may follow.
    pub(crate) fn take(&mut self, key: Key, shown: &Shown) -> Effect {
        if key == Key::Interrupt {
            return Effect::Quit;
        }
        if self.help {
            self.help = false;
            return Effect::None;
        }
        if let Some(typing) = self.typing.take() {
            return self.on_typing(typing, key);
        }
        let last = shown.rows(self).saturating_sub(1);
        match key {
            Key::Letter(letter) => return self.on_letter(letter, shown),
            Key::Down => self.cursor = (self.cursor + 1).min(last),
            Key::Up => self.cursor = self.cursor.saturating_sub(1),
            Key::PageDown => self.cursor = (self.cursor + PAGE).min(last),
            Key::PageUp => self.cursor = self.cursor.saturating_sub(PAGE),
            Key::Tab => self.right = !self.right,
            Key::Enter => self.enter(shown),
            Key::Escape | Key::Back => self.leave(),
            Key::Interrupt => return Effect::Quit,
        }
        Effect::None
    }

    fn on_letter(&mut self, letter: char, shown: &Shown) -> Effect {
        self.note.clear();
        let last = shown.rows(self).saturating_sub(1);
        match letter {
            'q' => return Effect::Quit,
            '?' => self.help = true,
            '1'..='8' => {
                let place = usize::try_from(u32::from(letter) - u32::from('1')).unwrap_or(0);
                self.go(Screen::ALL[place].0);
            }
            'j' => self.cursor = (self.cursor + 1).min(last),
            'k' => self.cursor = self.cursor.saturating_sub(1),
            '/' => self.typing = Some(Typing::Filter),
            ':' => self.typing = Some(Typing::Command),
            ' ' => self.folded = !self.folded,
            'f' => self.at = None,
            '[' => self.at = Some(self.at.unwrap_or(shown.head).saturating_sub(1).max(1)),
            ']' => self.at = self.at.map(|at| at + 1).filter(|at| *at < shown.head),
            'w' => self.go(Screen::Board),
            'a' => return self.begin(shown, &["answer", "say"]),
            'R' => return self.begin(shown, &["raise"]),
            'O' => return self.begin(shown, &["override"]),
            'S' => return self.begin(shown, &["stop"]),
            'r' => return self.begin(shown, &["resume", "drive"]),
            'c' => {
                self.note =
                    shown.actions(self).first().map(|(_, one)| one.command.clone()).unwrap_or_default()
            }
            _ => {}
        }
        Effect::None
    }

    /// Begins an order of one of these kinds about what is chosen.
    fn begin(&mut self, shown: &Shown, kinds: &[&str]) -> Effect {
        let found = shown.actions(self).into_iter().find(|(_, one)| kinds.contains(&one.order));
        let Some((run, action)) = found else {
            self.note = format!("there is nothing here to {}", kinds[0]);
            return Effect::None;
        };
        self.typed.clear();
        if action.takes == Some("value") {
            self.typing = Some(Typing::Value(run, Box::new(action)));
        } else if action.needs_reason {
            self.typing = Some(Typing::Reason(run, Box::new(action)));
        } else {
            return Effect::Send { run, order: action.body, name: String::new() };
        }
        Effect::None
    }

    fn on_typing(&mut self, typing: Typing, key: Key) -> Effect {
        match (key, &typing) {
            (Key::Escape, _) => {
                self.typed.clear();
                return Effect::None;
            }
            (Key::Letter(letter), Typing::Value(run, action))
                if self.typed.is_empty() && !action.choices.is_empty() && letter.is_ascii_digit() =>
            {
                let place = usize::try_from(u32::from(letter) - u32::from('0')).unwrap_or(0);
                if let Some(choice) = place.checked_sub(1).and_then(|at| action.choices.get(at)) {
                    let mut order = action.body.clone();
                    order["value"] = json!(choice);
                    return Effect::Send { run: run.clone(), order, name: String::new() };
                }
            }
            (Key::Letter(letter), _) => self.typed.push(letter),
            (Key::Back, _) => drop(self.typed.pop()),
            (Key::Enter, _) => return self.on_typed(typing),
            (Key::Tab | Key::Up | Key::Down | Key::PageUp | Key::PageDown | Key::Interrupt, _) => {}
        }
        self.typing = Some(typing);
        Effect::None
    }

    /// What was typed is whole.
    fn on_typed(&mut self, typing: Typing) -> Effect {
        let text = std::mem::take(&mut self.typed);
        match typing {
            Typing::Filter => {
                (self.filter, self.cursor) = (text, 0);
                Effect::None
            }
            Typing::Command => self.command(&text),
            Typing::Value(run, action) => {
                let mut order = action.body;
                order["value"] = json!(text);
                Effect::Send { run, order, name: String::new() }
            }
            Typing::Reason(run, action) => {
                self.typing = Some(Typing::Name(run, action, text));
                Effect::None
            }
            Typing::Name(run, action, reason) => {
                let mut order = action.body;
                order["reason"] = json!(reason);
                Effect::Send { run, order, name: text }
            }
        }
    }

    fn command(&mut self, text: &str) -> Effect {
        let text = text.trim();
        let place = Screen::ALL.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
        match (place, text) {
            (_, "q" | "quit") => Effect::Quit,
            (Some((screen, _)), _) => {
                self.go(*screen);
                Effect::None
            }
            (None, words) => Effect::Look(words.trim_start_matches("ftl ").to_owned()),
        }
    }

    /// Goes to a screen.
    pub(crate) fn go(&mut self, screen: Screen) {
        if screen != self.screen {
            self.before.push(self.screen);
            (self.screen, self.cursor, self.right) = (screen, 0, false);
            self.filter.clear();
        }
    }

    fn leave(&mut self) {
        if !self.filter.is_empty() {
            self.filter.clear();
        } else if self.at.is_some() {
            self.at = None;
        } else if let Some(screen) = self.before.pop() {
            (self.screen, self.cursor) = (screen, 0);
        }
    }

    fn enter(&mut self, shown: &Shown) {
        match self.screen {
            Screen::You | Screen::Runs => {
                if let Some(run) = shown.chosen_run(self) {
                    (self.run, self.at, self.task) = (Some(run), None, None);
                    self.go(Screen::Board);
                }
            }
            Screen::Board => {
                if let Some(task) = shown.chosen_task(self) {
                    self.task = Some(task);
                    self.go(Screen::Task);
                }
            }
            Screen::Journal => self.at = shown.chosen_entry(self),
            Screen::Task | Screen::Money | Screen::Lessons | Screen::System => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::tests::shown;

    fn press(state: &mut State, keys: &str) -> Effect {
        let shown = shown();
        let mut last = Effect::None;
        for key in keys.chars() {
            let key = match key {
                '\n' => Key::Enter,
                '\u{1b}' => Key::Escape,
                letter => Key::Letter(letter),
            };
            last = state.take(key, &shown);
        }
        last
    }

    #[test]
    fn a_question_is_answered_by_the_number_of_a_choice_or_in_words() {
        let mut state = State::default();
        let Effect::Send { order, run, .. } = press(&mut state, "a2") else { panic!("{state:?}") };
        assert_eq!(
            (run.as_str(), &order["value"], &order["order"]),
            ("abcdefgh", &json!("no"), &json!("answer"))
        );
        let Effect::Send { order, .. } = press(&mut State::default(), "amaybe\n") else { panic!() };
        assert_eq!(order["value"], json!("maybe"));
        assert_eq!(press(&mut State::default(), "amay\u{1b}"), Effect::None, "it can be left");
    }

    #[test]
    fn what_bends_a_rule_asks_why_and_who() {
        let mut state = State::default();
        assert_eq!(press(&mut state, "Senough\n"), Effect::None);
        assert!(matches!(state.typing, Some(Typing::Name(..))));
        let Effect::Send { order, name, .. } = press(&mut state, "Ada\n") else { panic!("{state:?}") };
        assert_eq!(
            (&order["order"], &order["reason"], name.as_str()),
            (&json!("stop"), &json!("enough"), "Ada")
        );
    }

    #[test]
    fn one_goes_in_and_back() {
        let mut state = State::default();
        press(&mut state, "\n");
        assert_eq!((state.screen, state.run.as_deref()), (Screen::Board, Some("abcdefgh")));
        press(&mut state, "j\n");
        assert_eq!((state.screen, state.task.as_deref()), (Screen::Task, Some("002")));
        press(&mut state, "\u{1b}\u{1b}");
        assert_eq!(state.screen, Screen::You);
        assert_eq!(press(&mut state, ":money\n"), Effect::None);
        assert_eq!(state.screen, Screen::Money);
        assert_eq!(press(&mut state, ":ftl doctor\n"), Effect::Look(String::from("doctor")));
        assert_eq!(press(&mut state, "q"), Effect::Quit);
    }

    #[test]
    fn time_goes_back_and_on_and_never_past_now() {
        let mut state = State { run: Some(String::from("abcdefgh")), ..State::default() };
        press(&mut state, "[[");
        assert_eq!(state.at, Some(7), "the run has 9 entries");
        press(&mut state, "]]");
        assert_eq!(state.at, None);
        press(&mut state, "[f");
        assert_eq!(state.at, None);
    }
}
