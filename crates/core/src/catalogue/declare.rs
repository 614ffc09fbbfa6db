//! How an action is declared: a Rust type for what it takes, a Rust type for what it answers.
//!
//! A declaration says what may be asked and what comes back. It never does the thing: the executors
//! live in the engine, and a test there fails on a name that no executor has.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::types::{Field, RecordType, Type, Typed};
use crate::value::Name;

/// What a step may do with an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// Changes the world: only DO.
    Act,
    /// Looks and changes nothing: CHECK or DO.
    Look,
    /// Looks, and answers with `passed`, `failed`, `summary`, `tree`: CHECK or DO, and GATE.
    Gate,
    /// Only waits: WAIT.
    Wait,
}

/// An action, declared by the Rust type of its parameters.
pub trait ActionDecl: Typed + Serialize + DeserializeOwned {
    /// Its name in protocols, such as `verify.run`.
    const NAME: &'static str;
    /// What a step may do with it.
    const KIND: ActionKind;
    /// What it does, in one sentence.
    const ABOUT: &'static str;
    /// The parameter that takes the last result in `DO: | action`.
    const PIPED: Option<&'static str>;
    /// For a gate that a person's own word can establish: the action that records that word.
    const RECORDED_BY: Option<&'static str>;
    /// What it answers.
    type Answer: Typed + Serialize + DeserializeOwned;
}

/// What the checker and the interpreter know about an action.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// Its name in protocols.
    pub name: Name,
    /// What a step may do with it.
    pub kind: ActionKind,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// What it takes.
    pub params: BTreeMap<Name, Field>,
    /// The parameter that takes the last result in `DO: | action`.
    pub piped: Option<&'static str>,
    /// The action by which a person establishes this gate.
    pub recorded_by: Option<&'static str>,
    /// What it answers.
    pub answer: Type,
}

impl Declaration {
    /// The declaration of an action's Rust type.
    pub fn of<A: ActionDecl>() -> Declaration {
        Declaration {
            name: Name::from(A::NAME),
            kind: A::KIND,
            about: A::ABOUT,
            params: fields_of::<A>(),
            piped: A::PIPED,
            recorded_by: A::RECORDED_BY,
            answer: A::Answer::ty(),
        }
    }
}

/// The fields of a record type; a type that is no record has none.
pub fn fields_of<T: Typed>() -> BTreeMap<Name, Field> {
    match T::ty() {
        Type::Record(record) => record.fields.clone(),
        Type::Unknown | Type::Any | Type::Bool | Type::Number | Type::Duration => BTreeMap::new(),
        Type::Text | Type::Digest | Type::Choice(_) | Type::List(_) => BTreeMap::new(),
    }
}

/// Builds the type of a record from its fields.
pub fn record_type(name: &str, fields: Vec<(&'static str, Field)>) -> Type {
    let fields = fields.into_iter().map(|(name, field)| (Name::from(name), field)).collect();
    Type::Record(Arc::new(RecordType { name: Name::from(name), fields, open: false }))
}

/// Declares records: Rust structs that the language knows, field by field.
///
/// Every field needs a doc comment; `Option` fields may be left out. Unknown fields of an answer
/// are ignored when it is read, so that an older program reads a newer answer. A field that Rust
/// cannot spell is written `kind as "type"`.
#[macro_export]
macro_rules! records {
    ($($(#[doc = $about:literal])+ $name:ident { $( #[doc = $field_about:literal] $field:ident $(as $word:literal)? : $ty:ty ),* $(,)? })*) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
            pub struct $name { $( #[doc = $field_about] $(#[serde(rename = $word)])? pub $field: $ty, )* }

            impl $crate::types::Typed for $name {
                fn ty() -> $crate::types::Type {
                    $crate::catalogue::declare::record_type(stringify!($name), vec![$(
                        ($crate::records!(@word $field $($word)?), $crate::types::Field {
                            ty: <$ty as $crate::types::Typed>::ty(),
                            required: <$ty as $crate::types::Typed>::required(),
                            about: $field_about,
                        }),
                    )*])
                }
            }
        )*
    };
    (@word $field:ident) => { stringify!($field) };
    (@word $field:ident $word:literal) => { $word };
}

/// Declares closed sets of words: Rust enums whose variants are spelled as in the protocols.
#[macro_export]
macro_rules! choices {
    ($($(#[doc = $about:literal])+ $name:ident { $( #[doc = $word_about:literal] $variant:ident = $word:literal ),+ $(,)? })*) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
            pub enum $name { $( #[doc = $word_about] #[serde(rename = $word)] $variant, )+ }

            impl $name {
                /// Every word, in the order of declaration.
                pub const WORDS: &'static [&'static str] = &[$($word),+];

                /// Every choice, in the same order.
                pub const ALL: [$name; $name::WORDS.len()] = [$($name::$variant),+];

                /// The word as protocols spell it.
                pub const fn word(self) -> &'static str {
                    match self { $( $name::$variant => $word, )+ }
                }

                /// The choice that a word spells.
                pub fn parse(word: &str) -> Option<$name> {
                    $name::ALL.into_iter().find(|choice| choice.word() == word)
                }
            }

            impl std::fmt::Display for $name {
                fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    out.write_str(self.word())
                }
            }

            impl $crate::types::Typed for $name {
                fn ty() -> $crate::types::Type { $crate::types::Type::choice($name::WORDS) }
            }
        )*
    };
}

/// Declares actions: for each a parameter record, its name, its kind and its answer.
///
/// `Name = "group.verb" act|look|gate|wait (fields…) -> Answer [piped "field"] [recorded_by "action"];`
#[macro_export]
macro_rules! actions {
    ($(
        #[doc = $about:literal]
        $name:ident = $action:literal $kind:ident ( $( #[doc = $field_about:literal] $field:ident : $ty:ty ),* $(,)? )
            -> $answer:ty $(, piped $piped:literal)? $(, recorded_by $recorded:literal)? ;
    )*) => {
        $crate::records! { $( #[doc = $about] $name { $( #[doc = $field_about] $field : $ty ),* } )* }
        $(
            impl $crate::catalogue::declare::ActionDecl for $name {
                const NAME: &'static str = $action;
                const KIND: $crate::catalogue::declare::ActionKind = $crate::actions!(@kind $kind);
                const ABOUT: &'static str = $about;
                const PIPED: Option<&'static str> = $crate::actions!(@some $($piped)?);
                const RECORDED_BY: Option<&'static str> = $crate::actions!(@some $($recorded)?);
                type Answer = $answer;
            }
        )*
        /// The declarations of this group.
        pub fn declarations() -> Vec<$crate::catalogue::declare::Declaration> {
            vec![$($crate::catalogue::declare::Declaration::of::<$name>(),)*]
        }
    };
    (@kind act) => { $crate::catalogue::declare::ActionKind::Act };
    (@kind look) => { $crate::catalogue::declare::ActionKind::Look };
    (@kind gate) => { $crate::catalogue::declare::ActionKind::Gate };
    (@kind wait) => { $crate::catalogue::declare::ActionKind::Wait };
    (@some) => { None };
    (@some $some:literal) => { Some($some) };
}

#[cfg(test)]
#[allow(unreachable_pub)]
mod tests {
    use super::*;

    crate::choices! {
        /// How it went.
        Outcome {
            /// Good.
            Good = "good",
            /// Bad.
            Bad = "bad",
        }
    }
    crate::records! {
        /// What was seen.
        Seen {
            /// Whether it passed.
            passed: bool,
            /// How.
            outcome: Option<Outcome>,
        }
    }
    crate::actions! {
        /// Looks at something.
        LookAt = "look.at" gate (
            /// What to look at.
            path: String,
            /// How hard.
            depth: Option<u64>,
        ) -> Seen, piped "path", recorded_by "look.say";
    }

    #[test]
    fn a_declaration_knows_its_fields() {
        let all = declarations();
        let look = &all[0];
        assert_eq!((&*look.name, look.kind, look.piped), ("look.at", ActionKind::Gate, Some("path")));
        assert_eq!(look.recorded_by, Some("look.say"));
        assert!(look.params["path"].required && !look.params["depth"].required);
        assert_eq!(look.answer.field("outcome"), Some(Type::choice(["good", "bad"])));
        assert_eq!(look.answer.field("pased"), None);
        let parsed = Outcome::WORDS.iter().map(|word| Outcome::parse(word).unwrap());
        assert!(parsed.eq(Outcome::ALL) && Outcome::parse("worse").is_none());
        assert_eq!(Outcome::Bad.to_string(), "bad");
        assert_eq!((Outcome::parse("bad"), Outcome::parse("worse")), (Some(Outcome::Bad), None));
    }
}
