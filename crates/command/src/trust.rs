//! Trust: which files of a repository `ftl` may take orders from.
//!
//! A file that came with a commit counts once a person trusts its digest. One that was written in this checkout was
//! written by whoever works here: it counts, and its digest is recorded, so that it still counts when it is committed.
//! Nothing untrusted is ever replaced by what is built in: the command is refused, and says by what.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use ftl_core::performer::Performer;
use ftl_core::value::Name;
use ftl_folder as folder;
use ftl_folder::state_folder::{SHARED, StateFolder};
use ftl_git::{FileSource, source_of};
use ftl_language::library::Library;
use ftl_language::source::DocumentOrigin;
use ftl_settings::config::Config;
use ftl_settings::roster::Choice;
use ftl_settings::trust::{TrustError, TrustList};
use ftl_store::ContentDigest;
use ftl_view::paint::safe;

use crate::exit::ExitStatus;
use crate::failure::CommandError;
use crate::out::Out;
use crate::root::STATE_FOLDER;
use crate::{foreign, root};

/// The largest file that is looked at for trust: no protocol, prompt, adapter or file of settings is larger.
pub const MAX_ORDERS_BYTES: u64 = 1024 * 1024;

/// The longest answer that is read where a person is asked.
const MAX_ANSWER_BYTES: usize = 64;

/// What a command would take orders from.
pub struct Orders<'a> {
    /// The repository.
    pub place: &'a StateFolder,
    /// The settings, of all files together.
    pub config: &'a Config,
    /// The protocols that were read.
    pub library: &'a Library,
}

/// What a command runs.
#[derive(Clone, Copy, Debug)]
pub enum TrustScope<'a> {
    /// Protocols by their names, with the agents of one choice, or with any agent.
    Runs(&'a [&'a str], Option<&'a Choice>),
    /// Protocols by their names, where no agent is asked and nothing lands.
    Documents(&'a [&'a str]),
    /// One agent, and nothing else.
    Agent(&'a str),
    /// Everything that there is.
    All,
}

/// A file that `ftl` would take orders from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrdersFile {
    /// The file.
    pub path: PathBuf,
    /// The same as people see it.
    pub shown: String,
    /// What it would be trusted by.
    pub digest: ContentDigest,
    /// What it holds.
    bytes: Vec<u8>,
    /// The keys that widen, in a file of settings.
    pub keys: Vec<String>,
}

/// How a file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustStanding {
    /// Its digest is on the person's list.
    Trusted,
    /// It was written in this checkout.
    WrittenHere,
    /// It came with a commit, and nobody here trusts it.
    Untrusted,
}

impl TrustStanding {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            TrustStanding::Trusted => "trusted",
            TrustStanding::WrittenHere => "written here",
            TrustStanding::Untrusted => "untrusted",
        }
    }
}

impl Orders<'_> {
    /// The files from which a command takes orders.
    pub fn files(&self, scope: TrustScope<'_>) -> Result<Vec<OrdersFile>, CommandError> {
        let mut files = Vec::new();
        if let TrustScope::Documents(names) = scope {
            self.add_documents(Some(&reached(self.library, names)), &mut files);
            return Ok(files);
        }
        let asked = self.agents_of(scope)?;
        let is_asked = |name: &str| asked.as_ref().is_none_or(|all| all.iter().any(|one| one == name));
        let keys = self.config.widening(&is_asked);
        if let Some(shared) = self.config.shared_file().filter(|_| !keys.is_empty()) {
            files.push(self.file(&shared.path, shared.bytes.clone(), keys));
        }
        for (_, path) in self.config.adapter_files().into_iter().filter(|(name, _)| is_asked(name)) {
            if self.is_in_repository(&path) && files.iter().all(|known: &OrdersFile| known.path != path) {
                files.push(self.read(&path)?);
            }
        }
        let names = match scope {
            TrustScope::Runs(names, _) | TrustScope::Documents(names) => Some(reached(self.library, names)),
            TrustScope::Agent(_) => return Ok(files),
            TrustScope::All => None,
        };
        self.add_documents(names.as_deref(), &mut files);
        let prompts = self.place.prompts();
        for name in folder::names(&prompts).map_err(|error| unreadable(&prompts, &error))? {
            if name.to_str().is_some_and(|name| name.ends_with(".md")) {
                files.push(self.read(&prompts.join(name))?);
            }
        }
        Ok(files)
    }

    /// The documents of these protocols, or of all.
    fn add_documents(&self, names: Option<&[Name]>, files: &mut Vec<OrdersFile>) {
        for source in self.library.sources().iter().filter(|one| one.origin == DocumentOrigin::User) {
            let is_used = names.is_none_or(|names| names.iter().any(|name| **name == *source.stem()));
            // Whoever uses a pattern takes it from any document.
            if is_used || source.text.contains("PATTERN:") {
                let path = self.place.state().join("protocols").join(format!("{}.md", source.stem()));
                files.push(self.file(&path, source.text.as_bytes().to_vec(), Vec::new()));
            }
        }
    }

    /// The agents that may be asked; nothing where that is any of them.
    fn agents_of(&self, scope: TrustScope<'_>) -> Result<Option<Vec<String>>, CommandError> {
        let choice = match scope {
            TrustScope::All | TrustScope::Documents(_) | TrustScope::Runs(_, None) => return Ok(None),
            TrustScope::Agent(name) => return Ok(Some(vec![name.to_owned()])),
            TrustScope::Runs(_, Some(choice)) => choice,
        };
        let roster =
            self.config.roster().map_err(|error| CommandError::new(error.to_string(), error.hint))?;
        let chosen = roster.clone().with_choice(choice);
        // A choice that cannot be had is told by whoever opens the run.
        let roster = chosen.unwrap_or(roster);
        Ok(Some(roster.roles().map(|(_, bound)| bound.agent.clone()).collect()))
    }

    fn is_in_repository(&self, path: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().ok();
        real(path).zip(real(self.place.root())).is_some_and(|(file, root)| file.starts_with(root))
    }

    fn read(&self, path: &Path) -> Result<OrdersFile, CommandError> {
        let bytes = folder::read_named(path, MAX_ORDERS_BYTES).map_err(|error| unreadable(path, &error))?;
        Ok(self.file(path, bytes, Vec::new()))
    }

    fn file(&self, path: &Path, bytes: Vec<u8>, keys: Vec<String>) -> OrdersFile {
        let shown = path.strip_prefix(self.place.root()).unwrap_or(path).display().to_string();
        OrdersFile { path: path.to_owned(), shown, digest: ContentDigest::of(&bytes), bytes, keys }
    }
}

/// The protocols that some lead to.
fn reached(library: &Library, names: &[&str]) -> Vec<Name> {
    let mut seen: Vec<Name> = Vec::new();
    let mut open: Vec<Name> = names.iter().map(|name| Name::from(*name)).collect();
    while let Some(name) = open.pop() {
        if seen.contains(&name) {
            continue;
        }
        let calls = library.program(&name).into_iter().flat_map(|program| &program.states);
        let calls = calls.flat_map(|state| &state.nodes).flat_map(|node| &node.calls);
        open.extend(calls.filter_map(|call| match &call.whom {
            Performer::Run(child) => Some(child.clone()),
            Performer::Task(_) | Performer::Action(_) | Performer::Shell | Performer::Word => None,
            Performer::Question | Performer::Item | Performer::All => None,
        }));
        seen.push(name);
    }
    seen
}

/// The person's list.
pub fn list(config: &Config) -> Result<TrustList, CommandError> {
    let own = root::own_folder();
    let list = TrustList::load(own.as_deref()).map_err(|error| failure(&error))?;
    Ok(list.with(config.trusted()))
}

/// How a file stands. Where git cannot say where it came from, nobody is taken to have written it here.
pub fn standing(file: &OrdersFile, list: &TrustList) -> TrustStanding {
    if list.holds(&file.digest) {
        return TrustStanding::Trusted;
    }
    match source_of(&file.path, &file.bytes) {
        Ok(FileSource::Checkout) => TrustStanding::WrittenHere,
        Ok(FileSource::Commit) | Err(_) => TrustStanding::Untrusted,
    }
}

/// Refuses a command that would take orders from what nobody here trusts. At a terminal the person is asked once for
/// each digest; what was written here is recorded without a word.
pub fn require(orders: &Orders<'_>, scope: TrustScope<'_>, out: &Out) -> Result<(), CommandError> {
    let files = orders.files(scope)?;
    if files.is_empty() {
        return Ok(());
    }
    let mut list = list(orders.config)?;
    let mut untrusted = Vec::new();
    for file in files {
        match standing(&file, &list) {
            TrustStanding::Trusted => {}
            // A list that cannot be written is no reason to refuse what counts in any case.
            TrustStanding::WrittenHere => drop(list.record(&file.digest, &file.shown)),
            TrustStanding::Untrusted => untrusted.push(file),
        }
    }
    if untrusted.is_empty() {
        return Ok(());
    }
    if can_ask(out) && ask(&untrusted, out)? {
        foreign::not_typed_by_agent()?;
        return record(&mut list, &untrusted);
    }
    Err(refusal(&untrusted))
}

/// Trusts some files.
pub fn record(list: &mut TrustList, files: &[OrdersFile]) -> Result<(), CommandError> {
    files.iter().try_for_each(|file| list.record(&file.digest, &file.shown)).map_err(|error| failure(&error))
}

/// Records what was written here as trusted, before somebody commits it: what `ftl init` writes.
pub fn record_written(config: &Config, path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    let shown =
        path.file_name().map_or_else(|| SHARED.to_owned(), |name| name.to_string_lossy().into_owned());
    list(config)?.record(&ContentDigest::of(bytes), &shown).map_err(|error| failure(&error))
}

/// The settings without an endpoint that an untrusted file of the repository would have read the lessons: commands on
/// records never need trust.
pub fn without_untrusted_embedder(config: Config) -> Config {
    let chosen = config.clone().without_shared_embedder();
    if chosen.settings().memory == config.settings().memory {
        return config;
    }
    let is_trusted = config.shared_file().is_some_and(|shared| {
        let file = OrdersFile {
            path: shared.path.clone(),
            shown: SHARED.to_owned(),
            digest: shared.digest(),
            bytes: shared.bytes.clone(),
            keys: Vec::new(),
        };
        list(&config).is_ok_and(|list| standing(&file, &list) != TrustStanding::Untrusted)
    });
    if is_trusted {
        return config;
    }
    let note = format!("[memory] of `{SHARED}` does not count: nobody here trusts it; `ftl trust` shows it");
    Out::new(false).note(&note);
    chosen
}

/// Whether a person can be asked.
pub fn can_ask(out: &Out) -> bool {
    !out.is_json() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Asks the person at the terminal whether they trust some files.
pub fn ask(files: &[OrdersFile], out: &Out) -> Result<bool, CommandError> {
    let lines: String = files.iter().map(|file| format!("  {}\n", safe(&describe(file)))).collect();
    let about = "these came with the repository, and ftl would take orders from them:";
    out.text(&format!("{about}\n{lines}look at them first. trust them? [y/N] "))?;
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < MAX_ANSWER_BYTES
        && rustix::io::read(std::io::stdin(), &mut byte).is_ok_and(|read| read > 0)
    {
        if byte[0] == b'\n' {
            break;
        }
        line.push(byte[0]);
    }
    Ok(matches!(line.trim_ascii().to_ascii_lowercase().as_slice(), b"y" | b"yes"))
}

/// A file with the beginning of its digest and what widens in it.
pub fn describe(file: &OrdersFile) -> String {
    let keys = if file.keys.is_empty() { String::new() } else { format!(": {}", file.keys.join(", ")) };
    format!("{} ({}){keys}", file.shown, &file.digest.to_string()[..12])
}

/// What is said of files that nobody trusts.
pub fn refusal(files: &[OrdersFile]) -> CommandError {
    let named: Vec<String> = files.iter().map(describe).collect();
    let message = format!("nobody here trusts what came with the repository: {}", named.join("; "));
    let hint = "look at it, then `ftl trust`, or `ftl trust --yes` in a script";
    CommandError { exit: ExitStatus::Refused, ..CommandError::new(message, hint) }
}

fn failure(error: &TrustError) -> CommandError {
    CommandError::new(error.to_string(), error.hint())
}

fn unreadable(path: &Path, error: &std::io::Error) -> CommandError {
    let hint = format!("see what stands there, and nothing below {STATE_FOLDER} may be a link");
    CommandError::new(format!("`{}` cannot be read: {error}", path.display()), hint)
}
