//! Who is told of what happens in a run: the settings made into ways, and what they need of this machine.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use ftl_core::run::Entry;
use ftl_folder::id::RunId;
use ftl_notify::{Courier, Following, LocalSender, NotifyOptions, QuietHours, SendError, Ways};
use ftl_process::{Cancel, How};
use ftl_settings::config::Config;
use ftl_store::summary::Summary;

use super::{Session, SessionError};
use crate::drive::DriveObserver;
use crate::executors::shell::ScriptRunner;

/// How long a command of a person may take that is told of something.
const MAX_COMMAND: Duration = Duration::from_secs(20);

/// What a message on the desktop needs of our surroundings.
const OF_THE_DESKTOP: [&str; 5] =
    ["DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "HOME"];

/// What rings: it writes to the terminal of the driver, and says whether there is one.
pub type Bell = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What a person has chosen, with keys out of the environment.
pub fn notify_options(
    config: &Config,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<NotifyOptions, SessionError> {
    let set = &config.settings().notify;
    let quiet = QuietHours::parse(&set.quiet);
    if quiet.is_none() && !set.quiet.trim().is_empty() {
        let message =
            format!("notify.quiet is `{}`, and no hours (hint: write them as 22:00-07:00)", set.quiet);
        return Err(SessionError::Machine(message));
    }
    let secret = |name: &str| Some(name.trim()).filter(|name| !name.is_empty()).and_then(variable);
    Ok(NotifyOptions {
        terminal: set.terminal,
        desktop: set.desktop,
        command: set.command.clone(),
        webhook: set.webhook.clone(),
        webhook_key: secret(&set.webhook_key_env),
        ntfy: set.ntfy.clone(),
        ntfy_token: secret(&set.ntfy_token_env),
        events: set.events.clone(),
        words: set.words,
        quiet,
        every: set.every,
        page: set.page.clone(),
    })
}

impl Session {
    /// Sets what rings in the terminal of this process; only the first one.
    pub fn ring_with(&self, bell: Bell) {
        let _ = self.wiring.bell.set(bell);
    }

    /// Somebody who tells the person what happens in a run, where they want to be told.
    pub(super) fn courier(&self, run: &RunId, since: u64) -> Result<Option<Courier>, SessionError> {
        let options = notify_options(&self.wiring.config, &super::wiring::variable)?;
        if !options.is_on() {
            return Ok(None);
        }
        let shell = self.wiring.shell(&self.wiring.supervisor()?);
        let runner = MachineSender { shell, bell: self.wiring.bell.get().cloned() };
        let root = self.wiring.place.root();
        let repo = root.file_name().unwrap_or(root.as_os_str()).to_string_lossy().into_owned();
        let following = Following {
            store: self.wiring.store.clone(),
            notes: self.wiring.records.store().clone(),
            programs: self.library.clone(),
            run: run.clone(),
            since,
            repo,
        };
        Ok(Courier::start(following, Ways::new(options, Box::new(runner))))
    }
}

/// What sends by a process or a terminal.
struct MachineSender {
    shell: ScriptRunner,
    bell: Option<Bell>,
}

impl LocalSender for MachineSender {
    fn run(&self, script: &str, words: &[String], input: &str) -> Result<(), SendError> {
        let named = |name: &&str| Some((OsString::from(*name), std::env::var_os(name)?));
        let env: Vec<(OsString, OsString)> = OF_THE_DESKTOP.iter().filter_map(named).collect();
        let ended = self.shell.once_with((script, words, input), &env, MAX_COMMAND, &Cancel::new());
        match ended {
            Ok(ended) if ended.how == How::Exited(0) => Ok(()),
            Ok(ended) => Err(SendError::Later(ended.sentence())),
            Err(error) => Err(SendError::Later(error.to_string())),
        }
    }

    fn ring(&self, text: &str) -> bool {
        self.bell.as_ref().is_some_and(|bell| bell(text))
    }
}

/// Wakes whoever tells the person, beside whoever else watches.
pub(super) struct Woken<'a> {
    pub(super) watch: &'a mut dyn DriveObserver,
    pub(super) courier: Option<&'a Courier>,
}

impl DriveObserver for Woken<'_> {
    fn see(&mut self, entries: &[Entry], summary: &Summary) {
        self.watch.see(entries, summary);
        if let Some(courier) = self.courier {
            courier.wake();
        }
    }
}
