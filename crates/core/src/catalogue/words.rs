//! The words that a person may say at a WAIT, with the options of their commands.
//!
//! `by` and `reason` come with every word and are not listed. An option is never named like a
//! word: `said.accept` is whether that word was said, `said.choice` is what came with it.

use super::Word;
use super::declare::fields_of;
use super::lifecycle::Choice;
use crate::types::Typed;
use crate::value::Name;

crate::records! {
    /// The options of a word that has none.
    Plain {}

    /// The options of `accept`.
    AcceptOptions {
        /// What was decided; accepted unless said.
        choice: Option<Choice>,
        /// Where the work goes, when it was not accepted.
        route: Option<String>,
    }

    /// The options of `redo`.
    RedoOptions {
        /// The state to go back to; the current one unless said.
        phase: Option<String>,
    }

    /// The options of `next`.
    NextOptions {
        /// The state to go to; the first that is open unless said.
        to: Option<String>,
    }
}

/// Every word.
pub fn words() -> Vec<Word> {
    vec![
        word::<Plain>("plan"),
        word::<Plain>("review_plan"),
        word::<Plain>("codegen"),
        word::<Plain>("review_code"),
        word::<Plain>("test"),
        word::<AcceptOptions>("accept"),
        word::<Plain>("revert"),
        word::<RedoOptions>("redo"),
        word::<NextOptions>("next"),
    ]
}

fn word<Options: Typed>(name: &str) -> Word {
    Word { name: Name::from(name), options: fields_of::<Options>() }
}
