//! What a command reads: a file that a person names, or standard input.

use std::io::Read as _;
use std::path::Path;

use ftl_folder as folder;

use crate::failure::CommandError;

/// How much is read from standard input or a file.
const MAX_INPUT_BYTES: u64 = 64 * 1024 * 1024;

/// How long the words are in which a person says what is wanted.
const MAX_WORDS_BYTES: usize = 16 * 1024;

/// What a person wants, in words: some, and not too many of them. `what` names them, `how` says how they are typed.
pub fn check_words<'a>(text: &'a str, what: &str, how: &str) -> Result<&'a str, CommandError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(CommandError::usage(format!("the {what} is empty"), how));
    }
    if text.len() > MAX_WORDS_BYTES {
        let message = format!("the {what} has {} bytes; {MAX_WORDS_BYTES} is the most", text.len());
        return Err(CommandError::usage(
            message,
            "say it shorter, and put the rest into a file of the repository",
        ));
    }
    Ok(text)
}

/// The text of a file, or of standard input for `-`.
pub fn text_of(file: &Path) -> Result<String, CommandError> {
    let cannot = |error: std::io::Error| {
        CommandError::new(
            format!("`{}` cannot be read: {error}", file.display()),
            "name a file, or - for standard input",
        )
    };
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin().lock().take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    } else {
        let opened = folder::open_named(file).map_err(cannot)?;
        opened.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    }
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        let message = format!("`{}` has more than {MAX_INPUT_BYTES} bytes", file.display());
        return Err(CommandError::new(message, "make it smaller"));
    }
    String::from_utf8(bytes).map_err(|error| {
        CommandError::new(format!("`{}` is not UTF-8: {error}", file.display()), "write it as UTF-8")
    })
}
