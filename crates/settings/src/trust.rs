//! The list of what a person trusts: digests of files from which `ftl` takes orders.
//!
//! It stands beside the person's own settings, where no repository and no agent writes. A line is a digest, as
//! `sha256sum` prints it, and what it was of; only the digest counts. Nothing here decides what is trusted.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use ftl_folder::{self as folder, OpenMode};
use ftl_store::ContentDigest;

/// The name of the list, in the person's own folder of settings.
pub const TRUSTED: &str = "trusted";

/// The largest list that is read.
pub const MAX_TRUSTED_BYTES: u64 = 1024 * 1024;

/// How many letters a digest has.
const DIGEST_LETTERS: usize = 64;

/// Whether a word is a digest.
pub fn is_digest(word: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    word.len() == DIGEST_LETTERS && word.bytes().all(is_hex)
}

/// Why the list cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustError {
    /// It cannot be read.
    Read {
        /// The list.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It cannot be written.
    Write {
        /// The list.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It is larger than any that is read.
    Large(PathBuf),
    /// Nothing says where the person's own files are.
    Nowhere,
}

impl TrustError {
    /// What to do about it.
    pub const fn hint(&self) -> &'static str {
        match self {
            TrustError::Read { .. } | TrustError::Write { .. } => {
                "see what stands there, and who may read and write it"
            }
            TrustError::Large(_) => "take lines out that nobody needs any more",
            TrustError::Nowhere => "set HOME, or XDG_CONFIG_HOME",
        }
    }
}

impl fmt::Display for TrustError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrustError::Read { file, why } => write!(out, "`{}` cannot be read: {why}", file.display()),
            TrustError::Write { file, why } => write!(out, "`{}` cannot be written: {why}", file.display()),
            TrustError::Large(file) => {
                write!(out, "`{}` has more than {MAX_TRUSTED_BYTES} bytes", file.display())
            }
            TrustError::Nowhere => out.write_str("nothing says where your own files are"),
        }
    }
}

impl std::error::Error for TrustError {}

/// What a person trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustList {
    file: Option<PathBuf>,
    bytes: u64,
    digests: BTreeSet<String>,
}

impl TrustList {
    /// Reads the list in a folder of settings; none there is an empty one.
    pub fn load(folder: Option<&Path>) -> Result<TrustList, TrustError> {
        let Some(folder) = folder else { return Ok(TrustList::default()) };
        let file = folder.join(TRUSTED);
        let text = match folder::read_named_text(&file, MAX_TRUSTED_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) if error.kind() == ErrorKind::FileTooLarge => return Err(TrustError::Large(file)),
            Err(error) => return Err(TrustError::Read { file, why: error.to_string() }),
        };
        let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
        let digests = text.lines().filter_map(first).filter(|word| is_digest(word)).collect();
        Ok(TrustList { file: Some(file), bytes: text.len() as u64, digests })
    }

    /// The same with digests that the person's settings list.
    #[must_use]
    pub fn with<'a>(mut self, digests: impl IntoIterator<Item = &'a str>) -> TrustList {
        self.digests.extend(digests.into_iter().map(str::to_owned));
        self
    }

    /// Whether what has this digest is trusted.
    pub fn holds(&self, digest: &ContentDigest) -> bool {
        self.digests.contains(&digest.to_string())
    }

    /// Trusts what has this digest, now and later.
    pub fn record(&mut self, digest: &ContentDigest, what: &str) -> Result<(), TrustError> {
        if self.holds(digest) {
            return Ok(());
        }
        let file = self.file.clone().ok_or(TrustError::Nowhere)?;
        let what: String = what.chars().filter(|one| !one.is_control()).collect();
        let line = format!("{digest}  {what}\n");
        if self.bytes + line.len() as u64 > MAX_TRUSTED_BYTES {
            return Err(TrustError::Large(file));
        }
        append(&file, &line).map_err(|error| TrustError::Write { file, why: error.to_string() })?;
        self.bytes += line.len() as u64;
        self.digests.insert(digest.to_string());
        Ok(())
    }
}

/// Adds a line in one piece: two who add at the same time lose none.
fn append(file: &Path, line: &str) -> io::Result<()> {
    if let Some(above) = file.parent() {
        folder::make_anywhere(above)?;
    }
    let mut open = folder::open(file, OpenMode::Append)?;
    open.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_is_trusted_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("a/ftl");
        let (one, two) = (ContentDigest::of(b"one"), ContentDigest::of(b"two"));
        let mut list = TrustList::load(Some(&own)).unwrap();
        assert!(!list.holds(&one));
        list.record(&one, "ftl.toml of\n/r").unwrap();
        list.record(&one, "again").unwrap();
        let again = TrustList::load(Some(&own)).unwrap();
        assert!(again.holds(&one) && !again.holds(&two));
        let two = two.to_string();
        assert!(again.with([two.as_str()]).holds(&ContentDigest::of(b"two")), "or it stands in the settings");
        let text = std::fs::read_to_string(own.join(TRUSTED)).unwrap();
        assert_eq!(text, format!("{one}  ftl.toml of/r\n"));
    }

    #[test]
    fn lines_that_are_no_digests_trust_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let digest = ContentDigest::of(b"x").to_string();
        let lines = format!("# {digest}\n{}\n{}\n", &digest[1..], digest.to_uppercase());
        std::fs::write(folder.path().join(TRUSTED), lines).unwrap();
        assert!(!TrustList::load(Some(folder.path())).unwrap().holds(&ContentDigest::of(b"x")));
    }

    #[test]
    fn a_list_has_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(TRUSTED);
        std::fs::write(&file, vec![b'#'; usize::try_from(MAX_TRUSTED_BYTES).unwrap() - 10]).unwrap();
        let mut list = TrustList::load(Some(folder.path())).unwrap();
        let large = TrustError::Large(file.clone());
        assert_eq!(list.record(&ContentDigest::of(b"x"), "x").unwrap_err(), large);
        std::fs::write(&file, vec![b'#'; usize::try_from(MAX_TRUSTED_BYTES).unwrap() + 1]).unwrap();
        assert_eq!(TrustList::load(Some(folder.path())).unwrap_err(), large);
        assert!(large.to_string().contains("1048576 bytes"));
    }

    #[test]
    fn without_a_place_nothing_is_recorded() {
        let mut list = TrustList::load(None).unwrap();
        assert_eq!(list.record(&ContentDigest::of(b"x"), "x").unwrap_err(), TrustError::Nowhere);
    }
}
