//! How a setting is declared, and how a value of a settings file becomes a value of its type.
//!
//! The table of settings is made by [`settings!`](crate::settings): each line gives a field of a struct and a row. Nothing
//! here reads a file or knows a key.

use std::time::Duration;

use ftl_core::amount::{AmountError, Unit};
use ftl_core::catalogue::plan::{DirectMode, Worker};
use ftl_view::notices::NoticeKind;

use crate::message::{MessageTemplate, PLACEHOLDERS, UnknownPlaceholder};
use crate::settings::{EmbedderKind, LandingHow, Section, Settings};

/// A setting: its key, what it means, and how its field is read and shown.
pub(crate) struct Row {
    pub(crate) section: Section,
    /// Its name in its section.
    pub(crate) name: &'static str,
    /// Section and name, as people write them.
    pub(crate) key: &'static str,
    pub(crate) about: &'static str,
    pub(crate) rule: Rule,
    /// Whether it is an amount with a unit, and not a word or a text.
    pub(crate) is_amount: bool,
    pub(crate) set: fn(&mut Settings, &Rule, &toml::Value) -> Result<(), ValueError>,
    pub(crate) show: fn(&Settings, &Rule) -> String,
}

/// What an amount may be; words and texts have no rule but their type.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    unit: Unit,
    most: u64,
}

impl Rule {
    pub(crate) const fn of(unit: Unit) -> Rule {
        Rule { unit, most: u64::MAX }
    }

    pub(crate) const fn at_most(self, most: u64) -> Rule {
        Rule { most, ..self }
    }

    fn read(self, value: &toml::Value) -> Result<u64, ValueError> {
        let text = match value {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            toml::Value::Boolean(_)
            | toml::Value::Datetime(_)
            | toml::Value::Array(_)
            | toml::Value::Table(_) => String::new(),
        };
        let amount = self.unit.parse(&text).map_err(ValueError::Amount)?;
        if amount > self.most { Err(ValueError::TooMuch(amount, self)) } else { Ok(amount) }
    }
}

/// The reasons for which a value is refused.
pub(crate) enum ValueError {
    /// It is no amount of its unit.
    Amount(AmountError),
    /// It is more than it may be.
    TooMuch(u64, Rule),
    /// It is no text, or no list of texts.
    NoText,
    /// It is none of the words that it may be.
    NoneOf(&'static [&'static str]),
    /// It is a template that names no placeholder that there is.
    Placeholder(UnknownPlaceholder),
}

impl ValueError {
    /// What is wrong with the value of a key.
    pub(crate) fn message(&self, key: &str) -> String {
        match self {
            ValueError::Amount(error) => format!("{key}: {error}"),
            ValueError::TooMuch(amount, Rule { unit, most }) => {
                let (amount, most) = (unit.show(*amount), unit.show(*most));
                format!("{key}: {amount} is more than the most that it may be, {most}")
            }
            ValueError::NoText => format!("{key} is no text"),
            ValueError::NoneOf(words) => format!("{key} is none of {}", words.join(", ")),
            ValueError::Placeholder(error) => format!("{key}: {error}"),
        }
    }

    /// What to do about it: mostly what the setting means.
    pub(crate) fn hint(&self, about: &str) -> String {
        match self {
            ValueError::Placeholder(_) => format!("a template may name {}", PLACEHOLDERS.join(", ")),
            ValueError::Amount(_) | ValueError::TooMuch(..) | ValueError::NoText | ValueError::NoneOf(_) => {
                about.to_owned()
            }
        }
    }
}

/// A type that a setting may have.
pub(crate) trait SettingType: Sized {
    /// Whether it is an amount with a unit.
    const IS_AMOUNT: bool = false;
    /// Reads what a file says.
    fn read(rule: &Rule, value: &toml::Value) -> Result<Self, ValueError>;
    /// Shows it as people write it.
    fn show(&self, rule: &Rule) -> String;
}

impl SettingType for u64 {
    const IS_AMOUNT: bool = true;

    fn read(rule: &Rule, value: &toml::Value) -> Result<u64, ValueError> {
        rule.read(value)
    }

    fn show(&self, rule: &Rule) -> String {
        rule.unit.show(*self)
    }
}

impl SettingType for usize {
    const IS_AMOUNT: bool = true;

    fn read(rule: &Rule, value: &toml::Value) -> Result<usize, ValueError> {
        Ok(usize::try_from(rule.read(value)?).unwrap_or(usize::MAX))
    }

    fn show(&self, rule: &Rule) -> String {
        rule.unit.show(*self as u64)
    }
}

impl SettingType for Duration {
    const IS_AMOUNT: bool = true;

    fn read(rule: &Rule, value: &toml::Value) -> Result<Duration, ValueError> {
        rule.read(value).map(Duration::from_millis)
    }

    fn show(&self, rule: &Rule) -> String {
        rule.unit.show(u64::try_from(self.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A limit that `none` switches off.
impl<T: SettingType> SettingType for Option<T> {
    const IS_AMOUNT: bool = T::IS_AMOUNT;

    fn read(rule: &Rule, value: &toml::Value) -> Result<Option<T>, ValueError> {
        if value.as_str() == Some("none") { Ok(None) } else { T::read(rule, value).map(Some) }
    }

    fn show(&self, rule: &Rule) -> String {
        self.as_ref().map_or_else(|| String::from("none"), |one| one.show(rule))
    }
}

impl SettingType for String {
    fn read(_: &Rule, value: &toml::Value) -> Result<String, ValueError> {
        value.as_str().map(str::to_owned).ok_or(ValueError::NoText)
    }

    fn show(&self, _: &Rule) -> String {
        self.clone()
    }
}

/// A list of texts; a text by itself is one a line.
impl SettingType for Vec<String> {
    fn read(_: &Rule, value: &toml::Value) -> Result<Vec<String>, ValueError> {
        let texts = match value.as_array() {
            Some(all) => all.iter().map(toml::Value::as_str).collect::<Option<Vec<_>>>(),
            None => value.as_str().map(|text| vec![text]),
        };
        let lines = texts.ok_or(ValueError::NoText)?.into_iter().flat_map(str::lines);
        Ok(lines.filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }

    fn show(&self, _: &Rule) -> String {
        self.join("\n")
    }
}

/// A list of words out of a few.
impl SettingType for Vec<NoticeKind> {
    fn read(rule: &Rule, value: &toml::Value) -> Result<Vec<NoticeKind>, ValueError> {
        let words = Vec::<String>::read(rule, value)?;
        let kinds = words.iter().map(|word| NoticeKind::parse(word));
        kinds.collect::<Option<_>>().ok_or(ValueError::NoneOf(NoticeKind::WORDS))
    }

    fn show(&self, _: &Rule) -> String {
        self.iter().map(|kind| kind.word()).collect::<Vec<_>>().join("\n")
    }
}

impl SettingType for bool {
    fn read(_: &Rule, value: &toml::Value) -> Result<bool, ValueError> {
        match (value.as_bool(), value.as_str()) {
            (Some(flag), _) => Ok(flag),
            (None, Some("true")) => Ok(true),
            (None, Some("false")) => Ok(false),
            (None, Some(_)) => Err(ValueError::NoneOf(&["false", "true"])),
            (None, None) => Err(ValueError::NoText),
        }
    }

    fn show(&self, _: &Rule) -> String {
        self.to_string()
    }
}

impl SettingType for MessageTemplate {
    fn read(rule: &Rule, value: &toml::Value) -> Result<MessageTemplate, ValueError> {
        MessageTemplate::parse(&String::read(rule, value)?).map_err(ValueError::Placeholder)
    }

    fn show(&self, _: &Rule) -> String {
        self.as_str().to_owned()
    }
}

/// Types of one word out of a few.
macro_rules! words {
    ($($word:ident),*) => {
        $(impl SettingType for $word {
            fn read(rule: &Rule, value: &toml::Value) -> Result<$word, ValueError> {
                $word::parse(&String::read(rule, value)?).ok_or(ValueError::NoneOf($word::WORDS))
            }

            fn show(&self, _: &Rule) -> String {
                self.word().to_owned()
            }
        })*
    };
}

words!(DirectMode, EmbedderKind, LandingHow, Worker);

/// Declares the settings, a struct for each section: `field: Type = default[, Rule];` under a comment that is also
/// what people read. The key of a setting is the name of its section and of its field.
macro_rules! settings {
    ($(
        $(#[doc = $section_about:literal])+
        $section:ident: $Section:ident {
            $( $(#[doc = $about:literal])+ $field:ident: $ty:ty = $default:expr $(, $rule:expr)?; )+
        }
    )+) => {
        /// The value of every setting, by section.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $( $(#[doc = $section_about])+ pub $section: $Section, )+
        }

        /// The sections in which settings stand.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Section {
            $( $(#[doc = $section_about])+ $Section, )+
        }

        $(
            $(#[doc = $section_about])+
            #[derive(Clone, Debug, PartialEq)]
            pub struct $Section {
                $( $(#[doc = $about])+ pub $field: $ty, )+
            }
        )+

        impl Default for Settings {
            fn default() -> Settings {
                Settings { $( $section: $Section { $( $field: $default, )+ }, )+ }
            }
        }

        /// Every setting, in the order of declaration.
        pub(crate) const ROWS: &[Row] = &[$($(
            Row {
                section: Section::$Section,
                name: stringify!($field),
                key: concat!(stringify!($section), ".", stringify!($field)),
                about: concat!($($about),+).trim_ascii(),
                rule: crate::settings::declare::settings!(@rule $($rule)?),
                is_amount: <$ty as SettingType>::IS_AMOUNT,
                set: |settings, rule, value| {
                    settings.$section.$field = SettingType::read(rule, value)?;
                    Ok(())
                },
                show: |settings, rule| settings.$section.$field.show(rule),
            },
        )+)+];
    };
    (@rule) => { Rule::of(Unit::Count) };
    (@rule $rule:expr) => { $rule };
}

pub(crate) use settings;
