//! The shell: one command line, when no action says it better.

use super::scalars::Seconds;

crate::records! {
    /// What a command said.
    ShellOutput {
        /// Its exit code.
        code: i64,
        /// What it printed.
        stdout: String,
        /// What it complained about.
        stderr: String,
        /// How long it took.
        took: Option<Seconds>,
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
