//! The chain: each entry's hash covers the entry and all before it.
//!
//! An entry that is edited, dropped or moved breaks every hash after it. The chain proves nothing
//! about a program that rewrites all of it; for that, note a head elsewhere.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use ftl_folder::id::RunId;

/// The hash of an entry and of all before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

/// The name of a piece of content: the SHA-256 of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentDigest(pub [u8; 32]);

impl Hash {
    /// The hash before the first entry of a run.
    pub fn start(run: &RunId) -> Hash {
        let mut hash = Sha256::new();
        hash.update(b"ftl journal 1\n");
        hash.update(run.as_str().as_bytes());
        Hash(hash.finalize().into())
    }

    /// The hash after one more entry.
    #[must_use]
    pub fn then(&self, seq: u64, epoch: u64, body: &str) -> Hash {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(seq.to_be_bytes());
        hash.update(epoch.to_be_bytes());
        hash.update(body.as_bytes());
        Hash(hash.finalize().into())
    }
}

impl ContentDigest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> ContentDigest {
        ContentDigest(Sha256::digest(bytes).into())
    }
}

fn write_hex(bytes: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

fn read_hex(text: &str) -> Option<[u8; 32]> {
    let plain = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut bytes = [0; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(index * 2..index * 2 + 2)?, 16).ok().filter(|_| plain)?;
    }
    Some(bytes)
}

/// A text that is no digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestError(String);

impl fmt::Display for DigestError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}` is no digest", self.0)
    }
}

impl std::error::Error for DigestError {}

macro_rules! hex {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, out)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0[..6], out)
            }
        }

        impl FromStr for $name {
            type Err = DigestError;

            fn from_str(text: &str) -> Result<$name, DigestError> {
                read_hex(text).map($name).ok_or_else(|| DigestError(text.to_owned()))
            }
        }
    };
}

hex!(Hash);
hex!(ContentDigest);
