//! Objects as the texts of their fields: what changes one of ten thousand rows leaves the others as they are kept, to
//! the byte, and needs no tree of all.

use std::borrow::Cow;
use std::fmt;

use ftl_core::json::Json;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// The text of an object, split at a list that it holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Split<'a> {
    /// Everything up to the first item.
    pub(super) before: &'a str,
    /// The text of each item of the list.
    pub(super) items: Vec<&'a str>,
    /// Everything after the last one.
    pub(super) after: &'a str,
}

/// Splits the text of an object at the list of a key; nothing where it has none.
pub(super) fn split<'a>(text: &'a str, key: &str) -> Option<Split<'a>> {
    let Borrowed(fields) = serde_json::from_str(text).ok()?;
    let list = fields.iter().find(|(name, _)| name == key)?.1.get();
    let items: Vec<&RawValue> = serde_json::from_str(list).ok()?;
    // A raw value is a piece of the text that it was read from.
    let from = list.as_ptr().addr() - text.as_ptr().addr();
    let (before, after) = (&text[..=from], &text[from + list.len() - 1..]);
    Some(Split { before, items: items.into_iter().map(RawValue::get).collect(), after })
}

/// The text of an object with other values for some of its keys; what it did not have comes last. Nothing where it
/// is no object.
pub(super) fn put(text: &str, new: &[(&str, Json)]) -> Option<String> {
    let Borrowed(old) = serde_json::from_str(text).ok()?;
    let mut all: Vec<_> = old.into_iter().map(|(key, value)| (key, Cow::Borrowed(value))).collect();
    for (key, value) in new {
        let value = Cow::Owned(to_raw_value(value).ok()?);
        match all.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => all.push((Cow::Borrowed(*key), value)),
        }
    }
    serde_json::to_string(&Changed(all)).ok()
}

/// The fields of an object in their order.
struct Borrowed<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Borrowed<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Borrowed<'de>, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Borrowed<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Borrowed<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some((key, value)) = from.next_entry::<String, &RawValue>()? {
                    fields.push((Cow::Owned(key), value));
                }
                Ok(Borrowed(fields))
            }
        }
        from.deserialize_map(Fields)
    }
}

/// Fields of which some have new values.
struct Changed<'a>(Vec<(Cow<'a, str>, Cow<'a, RawValue>)>);

impl Serialize for Changed<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(key, value)| (key, &**value)))
    }
}

#[cfg(test)]
mod tests {
    use ftl_core::json::JsonExt as _;

    use super::*;

    #[test]
    fn what_is_split_is_put_together_as_it_was() {
        let values = [
            (r#"{"tasks":[]}"#, vec![]),
            (r#"{"tasks":[1]}"#, vec!["1"]),
            (
                r#"{"a":"]}\"\\,{","tasks":[{"x":[1,{"y":"],\"}"}]},[],"é\n,]",null,-1.50],"z":{"tasks":[9]},"end":[[]]}"#,
                vec![r#"{"x":[1,{"y":"],\"}"}]}"#, "[]", r#""é\n,]""#, "null", "-1.50"],
            ),
            (r#"{"x":{"tasks":[1,2]},"tasks":[{"a":{}}]}"#, vec![r#"{"a":{}}"#]),
        ];
        for (text, wanted) in values {
            let found = split(text, "tasks").unwrap();
            assert_eq!(found.items, wanted, "{text}");
            assert_eq!([found.before, &wanted.join(","), found.after].concat(), text);
        }
        for text in
            ["", "[]", "{}", "{\"a\":1}", "{\"tasks\":1}", "{\"tasks\":[1", "{\"tasks\":[1,]}", "{\"a\":\""]
        {
            assert_eq!(split(text, "tasks"), None, "{text}");
        }
    }

    #[test]
    fn fields_are_put_as_a_tree_would_and_others_stay_to_the_byte() {
        let text = r#"{"a":"x,}\"","status":"pending","deep":{"status":[1,{}]},"e":[]}"#;
        for new in [
            vec![],
            vec![("status", Json::from("a \"b\""))],
            vec![("new", Json::list(["x", "y"])), ("e", Json::Null)],
        ] {
            let mut value = Json::parse(text).unwrap();
            for (key, one) in &new {
                value.put(key, one.clone());
            }
            assert_eq!(put(text, &new).unwrap(), value.to_string());
        }
        let long = r#"{"a":0.30000000000000004441,"b":1}"#;
        assert_eq!(put(long, &[("b", Json::from(2))]).unwrap(), long.replace(":1", ":2"));
        assert_eq!(put("{}", &[("a", Json::from(1))]).unwrap(), "{\"a\":1}");
        assert_eq!(put("{}", &[]).unwrap(), "{}");
        for bad in ["", "[]", "{", "{\"a\"}", "{\"a\":1,}", "{\"a\":1}x", "{\"a\":}"] {
            assert_eq!(put(bad, &[]), None, "{bad}");
        }
    }
}
