//! The full-screen terminal: `ftl tui`. Eight screens over the read model, over SSH too, without a mouse.
//!
//! What was typed becomes a state (`state`), the state becomes a picture (`draw`), both without looking at anything; `access` reads
//! the store and leaves orders. It drives nothing, and gives the terminal back as it was, also after a panic.
//!
//! | module | what it holds |
//! |---|---|
//! | `keys` | the one table of keys: its help, its page in the documents |
//! | `state`, `press` | where one is; what a key does to it |
//! | `access` | what is read and what is sent |
//! | `draw` | the screens |

mod access;
mod draw;
pub mod keys;
mod press;
mod state;

use std::time::{Duration, Instant};

use ftl_command::documents::Documents;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, session};
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read};

use access::StoreAccess;
use state::{Effect, Key, State};

/// How long a key is waited for before the store is looked at.
const LOOK: Duration = Duration::from_millis(150);

/// How often the picture is drawn when nothing happens: clocks are in it.
const TICK: Duration = Duration::from_secs(1);

/// Shows the screens until the person leaves.
pub fn run(cli: &GlobalArgs, documents: Box<dyn Documents>) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    let by = session::person(cli, &place)?;
    let mut access = StoreAccess::open(session::open(cli)?, by, documents);
    let failed = |error: std::io::Error| {
        CommandError::new(format!("the terminal cannot be used: {error}"), "`ftl watch` needs less of it")
    };
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let ended = turn(&mut access, &mut terminal).map_err(failed);
    ratatui::restore();
    ended?;
    Ok(ExitStatus::Done)
}

fn turn(access: &mut StoreAccess, terminal: &mut ratatui::DefaultTerminal) -> std::io::Result<()> {
    let mut state = State::default();
    let mut drawn: Option<Instant> = None;
    loop {
        let is_new = access.refresh(&state);
        if is_new || drawn.is_none_or(|when| when.elapsed() >= TICK) {
            let now = ftl_folder::clock::wall();
            terminal.draw(|frame| draw::screen(frame, &state, &access.shown, now))?;
            drawn = Some(Instant::now());
        }
        if !poll(LOOK)? {
            continue;
        }
        drawn = None;
        access.look_again();
        let Event::Key(typed) = read()? else { continue };
        if typed.kind == KeyEventKind::Release {
            continue;
        }
        let Some(key) = key_of(typed.code, typed.modifiers) else { continue };
        match state.take(key, &access.shown) {
            Effect::None => {}
            Effect::Quit => return Ok(()),
            Effect::Send { run, order, name } => state.note = access.send(&run, &order, &name),
            Effect::Recall(words) => access.recall(&words),
            Effect::Look(words) => {
                state.note = access.look(&words);
                if !state.note.is_empty() {
                    state.reading = None;
                }
            }
        }
    }
}

/// A key as the state knows it.
fn key_of(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    Some(match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(letter) => Key::Letter(letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Back,
        KeyCode::Tab => Key::Tab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        _ => return None,
    })
}
