//! A page: what the help of a command says beside its options.

use ftl_view::paint::{self, paint};

/// What the help of a command says beside its options.
pub struct Page {
    /// The name of the command.
    pub command: &'static str,
    /// What to know before the options.
    pub more: &'static str,
    /// What to type, one example a line.
    pub examples: &'static [&'static str],
    /// What to know after them.
    pub last: &'static str,
}

impl Page {
    /// A command with what its page says.
    pub fn dress(&self, command: clap::Command) -> clap::Command {
        let examples: Vec<String> = self.examples.iter().map(|example| format!("  {example}")).collect();
        let mut after = format!("{}\n{}", paint(paint::STRONG, "Examples:"), examples.join("\n"));
        if !self.last.is_empty() {
            after.push_str(&format!("\n\n{}", self.last));
        }
        let command = command.after_help(after);
        if self.more.is_empty() { command } else { command.before_help(self.more) }
    }
}
