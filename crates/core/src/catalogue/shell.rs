//! The shell: one command line, when no action says it better.

use super::scalars::{Digest, Seconds};

crate::records! {
    /// What a command said.
    ShellOutput {
        /// Its exit code.
        code: i64,
        /// What it printed.
        stdout: String,
        /// The first line of what it printed, without white space around it: what `git rev-parse` or `cat VERSION` says.
        line: Option<String>,
        /// What it complained about.
        stderr: String,
        /// How long it took.
        took: Option<Seconds>,
        /// Where the whole of what it printed is kept, when that was too long.
        whole_stdout: Option<Digest>,
        /// Where the whole of what it complained about is kept, when that was too long.
        whole_stderr: Option<Digest>,
    }
}

crate::actions! {
    /// Runs a script in the shell; it fails when the exit code is not zero.
    Sh = "sh" act (
        /// The script, as written in the protocol.
        script: String,
        /// What the script finds as `$1`, `$2` and so on: never pasted into its text.
        args: Option<Vec<String>>,
        /// How long it may take.
        timeout: Option<Seconds>,
    ) -> ShellOutput;
}
