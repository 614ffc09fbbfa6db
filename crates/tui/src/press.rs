//! What a key does to where one is. Nothing is looked at here: what is shown comes in, what is to be done goes out.

use serde_json::json;

use crate::access::Shown;
use crate::state::{Effect, Key, Screen, State, TaskPane, Typing};

/// The words that a command is completed from: screens, and commands that look.
const VERBS: [&str; 20] = [
    "you",
    "runs",
    "board",
    "task",
    "journal",
    "money",
    "lessons",
    "system",
    "status",
    "why",
    "diff",
    "salvage",
    "agents",
    "config",
    "doctor",
    "protocols",
    "query",
    "stats",
    "related",
    "quit",
];

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
        if let Some(reading) = self.reading.take() {
            self.reading = Self::on_reading(reading, key, shown.reading.len());
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
            Key::Tab if self.screen == Screen::Task => {
                self.right = true;
                self.pane = if self.pane == TaskPane::Words { TaskPane::Verdicts } else { TaskPane::Words };
            }
            Key::Tab => self.right = !self.right,
            Key::Enter => self.enter(shown),
            Key::Escape | Key::Back => self.leave(),
            Key::Interrupt => return Effect::Quit,
        }
        Effect::None
    }

    /// What a key does to what is read; nothing is read any more where it closes.
    fn on_reading((words, line): (String, usize), key: Key, lines: usize) -> Option<(String, usize)> {
        let last = lines.saturating_sub(1);
        let line = match key {
            Key::Down | Key::Letter('j') => (line + 1).min(last),
            Key::Up | Key::Letter('k') => line.saturating_sub(1),
            Key::PageDown | Key::Letter(' ') => (line + PAGE).min(last),
            Key::PageUp => line.saturating_sub(PAGE),
            Key::Letter(_) | Key::Enter | Key::Escape | Key::Back | Key::Tab | Key::Interrupt => return None,
        };
        Some((words, line))
    }

    /// Looks at something with a command, and reads it.
    fn look(&mut self, words: String) -> Effect {
        self.reading = Some((words.clone(), 0));
        Effect::Look(words)
    }

    /// The chosen run or task as commands name it.
    fn chosen(&self, shown: &Shown) -> Option<String> {
        let run = if self.screen.is_of_a_run() { self.run.clone() } else { shown.chosen_run(self) }?;
        let task = match self.screen {
            Screen::Board => shown.chosen_task(self),
            Screen::Task => self.task.clone(),
            Screen::You
            | Screen::Runs
            | Screen::Journal
            | Screen::Money
            | Screen::Lessons
            | Screen::System => None,
        };
        Some(task.map_or_else(|| run.clone(), |task| format!("{run}/{task}")))
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
            'w' | 'd' => match self.chosen(shown) {
                Some(chosen) => {
                    return self.look(format!("{} {chosen}", if letter == 'w' { "why" } else { "diff" }));
                }
                None => self.note = String::from("no run is chosen"),
            },
            'l' => {
                if let Some(run) = shown.chosen_run(self).filter(|_| !self.screen.is_of_a_run()) {
                    (self.run, self.at, self.task) = (Some(run), None, None);
                }
                self.go(Screen::Journal);
            }
            'z' => self.full = !self.full,
            'a' => return self.begin(shown, &["answer", "say"]),
            'R' => return self.begin(shown, &["raise"]),
            'O' => return self.begin(shown, &["override"]),
            'S' => return self.begin(shown, &["stop"]),
            'r' => return self.begin(shown, &["resume", "drive", "retry"]),
            'x' => return self.begin(shown, &["put_away"]),
            'c' => {
                self.note =
                    shown.actions(self).first().map(|(_, one)| one.command.clone()).unwrap_or_default();
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
            (Key::Tab, Typing::Command) => self.complete(),
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
            Typing::Filter if self.screen == Screen::Lessons => {
                self.cursor = 0;
                Effect::Recall(text)
            }
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
            (None, "") => Effect::None,
            (None, words) => self.look(words.trim_start_matches("ftl ").to_owned()),
        }
    }

    /// Completes the word that is typed: the first that begins so.
    fn complete(&mut self) {
        let typed = self.typed.trim_start_matches("ftl ").to_owned();
        // A second press goes on to the next one.
        let begins = |verb: &&&str| verb.starts_with(&typed) && **verb != typed;
        if let Some(verb) = VERBS.iter().find(begins) {
            (*verb).clone_into(&mut self.typed);
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
    use crate::access::tests::sample;

    fn press(state: &mut State, keys: &str) -> Effect {
        let shown = sample();
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
        assert_eq!(state.reading, Some((String::from("doctor"), 0)));
        press(&mut state, "jj");
        assert_eq!(state.reading, Some((String::from("doctor"), 2)), "it has three lines");
        press(&mut state, "jq");
        assert_eq!(
            (state.reading.take(), state.screen),
            (None, Screen::Money),
            "the first other key closes it"
        );
        assert_eq!(press(&mut state, "q"), Effect::Quit);
    }

    #[test]
    fn what_is_chosen_is_looked_at_with_a_key() {
        let run = Some(String::from("abcdefgh"));
        let mut state = State { screen: Screen::Board, run, cursor: 2, ..State::default() };
        assert_eq!(press(&mut state, "d"), Effect::Look(String::from("diff abcdefgh/003")));
        let mut state = State { screen: Screen::Runs, ..State::default() };
        assert_eq!(press(&mut state, "w"), Effect::Look(String::from("why abcdefgh")));
        let mut state = State { screen: Screen::Runs, ..State::default() };
        press(&mut state, "l");
        assert_eq!((state.screen, state.run.as_deref()), (Screen::Journal, Some("abcdefgh")));
        let mut state = State { screen: Screen::Lessons, ..State::default() };
        assert_eq!(press(&mut state, "/octal\n"), Effect::Recall(String::from("octal")));
    }

    #[test]
    fn a_command_is_completed() {
        let mut state = State::default();
        press(&mut state, ":d");
        state.take(Key::Tab, &sample());
        assert_eq!(state.typed, "diff");
        press(&mut state, " abcdefgh");
        state.take(Key::Tab, &sample());
        assert_eq!(state.typed, "diff abcdefgh", "nothing begins so");
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
