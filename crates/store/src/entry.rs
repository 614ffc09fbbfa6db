//! Entries out of their text, without a tree between.
//!
//! What serde derives for a tagged fact inside of an entry reads everything into a tree first, twice: a plan of a
//! hundred thousand tasks then stands in memory three times, and each small entry is read three times as slowly. Here
//! the head is read first and then the fact by its name, straight into its type. A fact that is rare is read as
//! derived; both readings are the same, which a test compares.

use ftl_core::run::fact::{Ask, Bind, Fan};
use ftl_core::run::{
    ActionId, Answer, Cause, End, Entry, Fact, InstanceId, Opened, ThreadId, Time, Usage, Waiver,
};
use ftl_core::value::{Fields, Name, Value};
use serde::Deserialize;
use std::borrow::Cow;

/// The fields that every entry has.
#[derive(Deserialize)]
struct Head<'a> {
    seq: u64,
    at: Time,
    instance: InstanceId,
    #[serde(default)]
    first: bool,
    #[serde(borrow)]
    fact: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    thread: ThreadId,
    place: u32,
    asks: Vec<Ask>,
    #[serde(default)]
    fan: Option<Fan>,
}

#[derive(Deserialize)]
struct Heard {
    action: ActionId,
    answer: Answer,
    #[serde(default)]
    bind: Option<Bind>,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    cut: bool,
    #[serde(default)]
    failing: Option<Name>,
}

#[derive(Deserialize)]
struct Set {
    name: Name,
    value: Value,
}

#[derive(Deserialize)]
struct Moved {
    from: Name,
    to: Name,
    code: Name,
    params: Fields,
    cause: Cause,
}

#[derive(Deserialize)]
struct Emitted {
    #[serde(default)]
    event: Option<Name>,
    fields: Fields,
}

#[derive(Deserialize)]
struct Reserved {
    action: ActionId,
    usage: Usage,
}

#[derive(Deserialize)]
struct Settled {
    end: End,
    values: Fields,
    #[serde(default)]
    waivers: Vec<Waiver>,
}

/// Reads an entry.
pub(crate) fn read(text: &str) -> Result<Entry, serde_json::Error> {
    let Head { seq, at, instance, first, fact } = serde_json::from_str(text)?;
    let fact = match &*fact {
        "asked" => {
            let Asked { thread, place, asks, fan } = serde_json::from_str(text)?;
            Fact::Asked { thread, place, asks, fan }
        }
        "heard" => {
            let Heard { action, answer, bind, by, cut, failing } = serde_json::from_str(text)?;
            Fact::Heard { action, answer, bind, by, cut, failing }
        }
        "set" => {
            let Set { name, value } = serde_json::from_str(text)?;
            Fact::Set { name, value }
        }
        "moved" => {
            let Moved { from, to, code, params, cause } = serde_json::from_str(text)?;
            Fact::Moved { from, to, code, params, cause }
        }
        "emitted" => {
            let Emitted { event, fields } = serde_json::from_str(text)?;
            Fact::Emitted { event, fields }
        }
        "reserved" => {
            let Reserved { action, usage } = serde_json::from_str(text)?;
            Fact::Reserved { action, usage }
        }
        "settled" => {
            let Settled { end, values, waivers } = serde_json::from_str(text)?;
            Fact::Settled { end, values, waivers }
        }
        "opened" => Fact::Opened(Box::new(serde_json::from_str::<Opened>(text)?)),
        _ => return serde_json::from_str(text),
    };
    Ok(Entry { seq, at, instance, first, fact })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of every kind, as they are written.
    const TEXTS: &str = r#"
{"seq":1,"at":7,"instance":0,"first":true,"fact":"opened","protocol":"p","digest":"d","state":"A","code":"c","params":{},"inputs":{"objective":"x"},"tracked":{"plan":null},"meters":{"tools":{"limit":5}},"terms":{"limits":{"tokens":9},"reserve":{},"policies":{"*":"hold"}}}
{"seq":2,"at":7,"instance":1,"fact":"opened","protocol":"p","digest":"d","state":"A","code":"c","params":{},"parent":[0,"1.0"],"inputs":{},"tracked":{},"meters":{}}
{"seq":3,"at":7,"instance":0,"fact":"asked","place":4,"asks":[{"whom":"sh","branch":"b","digest":"d"}]}
{"seq":4,"at":7,"instance":0,"fact":"asked","thread":{"item":{"each":2,"key":"001"}},"place":4,"asks":[],"fan":{"each":{"any":true,"item":"task","items":[{"seq":"001"}]}}}
{"seq":5,"at":7,"instance":0,"fact":"heard","action":"3.0","answer":{"done":{"text":"\u00e9 \"x\"","n":1.5}},"bind":{"name":"out","tracked":true},"by":"Ada","cut":true,"failing":"f"}
{"seq":6,"at":7,"instance":0,"fact":"heard","action":"4","answer":{"failed":{"kind":"timeout","message":"m"}}}
{"seq":7,"at":7,"instance":0,"fact":"set","name":"n","value":[1,null,true]}
{"seq":8,"at":7,"instance":0,"fact":"moved","from":"A","to":"B","code":"c","params":{"a":1},"cause":{"goto":{"place":3,"guards":["x"]}}}
{"seq":9,"at":7,"instance":0,"fact":"moved","from":"A","to":"B","code":"c","params":{},"cause":{"redo":{"by":"Ada","reason":"r"}}}
{"seq":10,"at":7,"instance":0,"fact":"emitted","event":"E","fields":{"a":"b"}}
{"seq":11,"at":7,"instance":0,"fact":"emitted","fields":{"text":"b"}}
{"seq":12,"at":7,"instance":0,"fact":"paid","from":"meter","meter":"tools","keys":[""]}
{"seq":13,"at":7,"instance":0,"fact":"paid","from":"purse","action":"3.0","usage":{"tokens":1},"guessed":["tokens"]}
{"seq":14,"at":7,"instance":0,"fact":"refilled","meter":"m","limit":3}
{"seq":15,"at":7,"instance":0,"fact":"reserved","action":"3.0","usage":{"tokens":1}}
{"seq":16,"at":7,"instance":0,"fact":"released","action":"3.0"}
{"seq":17,"at":7,"instance":0,"fact":"waived","to":"B","place":1,"by":"Ada","reason":"r","unmet":["u"]}
{"seq":18,"at":7,"instance":0,"fact":"raised","meter":"m","limit":3,"by":"Ada","reason":"r"}
{"seq":19,"at":7,"instance":0,"fact":"refused","what":"w","failure":{"kind":"denied","message":"m"}}
{"seq":20,"at":7,"instance":0,"fact":"suspended","action":"3.0","service":"s","until":9}
{"seq":21,"at":7,"instance":0,"fact":"held","place":1,"failure":{"kind":"denied","message":"m"},"meter":[0,"m"],"stuck":true}
{"seq":22,"at":7,"instance":0,"fact":"resumed","thread":"main","by":"Ada"}
{"seq":23,"at":7,"instance":0,"fact":"adopted","state":"A","code":"c","visited":["A"],"params":{},"by":"Ada"}
{"seq":24,"at":7,"instance":0,"fact":"settled","end":"blocked","values":{"reason":"r"},"waivers":[{"from":"A","to":"B","by":"Ada","reason":"r","unmet":[]}]}
{"seq":25,"at":7,"instance":0,"fact":"settled","end":"complete","values":{}}
"#;

    #[test]
    fn an_entry_is_what_serde_derives_and_is_written_as_it_was_read() {
        let mut names = std::collections::BTreeSet::new();
        for text in TEXTS.lines().filter(|line| !line.is_empty()) {
            let found = read(text).unwrap();
            assert_eq!(found, serde_json::from_str::<Entry>(text).unwrap(), "{text}");
            let written = serde_json::to_string(&found).unwrap();
            assert_eq!(read(&written).unwrap(), found, "{text}");
            names.insert(serde_json::from_str::<Head<'_>>(text).unwrap().fact.into_owned());
        }
        assert_eq!(names.len(), 18, "every kind of fact: {names:?}");
    }

    #[test]
    fn what_is_no_entry_is_refused_as_before() {
        for text in TEXTS.lines().filter(|line| !line.is_empty()) {
            for cut in [text.len() - 1, text.len() / 2, 1] {
                let cut = &text[..text.floor_char_boundary(cut)];
                assert!(read(cut).is_err(), "{cut}");
            }
        }
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"seq":1,"at":1,"instance":0}"#,
            r#"{"seq":1,"at":1,"instance":0,"fact":"new"}"#,
            r#"{"seq":1,"at":1,"instance":0,"fact":"set","name":"n"}"#,
            r#"{"seq":1,"at":1,"instance":0,"fact":"heard","action":"x","answer":{"done":1}}"#,
        ] {
            assert!(read(bad).is_err() && serde_json::from_str::<Entry>(bad).is_err(), "{bad}");
        }
    }
}
