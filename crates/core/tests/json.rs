//! What a text becomes as JSON, to the byte: what is stored and shown must never change unseen.

use ftl_core::json::{Json, JsonCause, JsonExt as _};

/// Texts, and what they become: on one line, then without white space.
const TEXTS: &[(&str, &str, &str)] = &[
    ("null", "null", "null"),
    (" true ", "true", "true"),
    ("\u{feff}false", "false", "false"),
    // Whole numbers, as far as they fit; then floats.
    ("0", "0", "0"),
    ("-0", "-0.0", "-0.0"),
    ("-0.0", "-0.0", "-0.0"),
    ("7", "7", "7"),
    ("-7", "-7", "-7"),
    ("9223372036854775807", "9223372036854775807", "9223372036854775807"),
    ("9223372036854775808", "9223372036854775808", "9223372036854775808"),
    ("18446744073709551615", "18446744073709551615", "18446744073709551615"),
    ("18446744073709551616", "1.8446744073709552e+19", "1.8446744073709552e+19"),
    ("-9223372036854775808", "-9223372036854775808", "-9223372036854775808"),
    ("-9223372036854775809", "-9.223372036854776e+18", "-9.223372036854776e+18"),
    ("12345678901234567890123", "1.2345678901234568e+22", "1.2345678901234568e+22"),
    ("1.0", "1.0", "1.0"),
    ("1e0", "1.0", "1.0"),
    ("0.1", "0.1", "0.1"),
    ("0.30000000000000004", "0.30000000000000004", "0.30000000000000004"),
    ("0.0001", "0.0001", "0.0001"),
    ("0.00001", "1e-05", "0.00001"),
    ("1.5e-7", "1.5e-07", "1.5e-7"),
    ("1e15", "1000000000000000.0", "1000000000000000.0"),
    ("1e16", "1e+16", "1e+16"),
    ("-1.25e22", "-1.25e+22", "-1.25e+22"),
    ("1e300", "1e+300", "1e+300"),
    ("1E+300", "1e+300", "1e+300"),
    ("5e-324", "5e-324", "5e-324"),
    ("1e-400", "0.0", "0.0"),
    // Texts.
    (r#""""#, r#""""#, r#""""#),
    (
        r#""a/b\/\"\\\b\f\n\r\t\u0000\u001f\u007f""#,
        r#""a/b/\"\\\b\f\n\r\t\u0000\u001f\u007f""#,
        "\"a/b/\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\u{7f}\"",
    ),
    (
        r#""\u00e9 é \ud83d\ude00 😀 \u2028""#,
        r#""\u00e9 \u00e9 \ud83d\ude00 \ud83d\ude00 \u2028""#,
        "\"é é 😀 😀 \u{2028}\"",
    ),
    // Lists and objects; keys stay where they were put first, and the last value of a key stands.
    ("[]", "[]", "[]"),
    ("{ }", "{}", "{}"),
    ("[1 ,[ ],{},[[2]]]", "[1, [], {}, [[2]]]", "[1,[],{},[[2]]]"),
    (
        r#"{"z":1,"a":[true,null],"é":{"k":"v"},"":0}"#,
        r#"{"z": 1, "a": [true, null], "\u00e9": {"k": "v"}, "": 0}"#,
        r#"{"z":1,"a":[true,null],"é":{"k":"v"},"":0}"#,
    ),
    (r#"{"a":1,"b":2,"a":3}"#, r#"{"a": 3, "b": 2}"#, r#"{"a":3,"b":2}"#),
    (r#"{"a":{"x":1},"b":2,"\u0061":[],"b":{}}"#, r#"{"a": [], "b": {}}"#, r#"{"a":[],"b":{}}"#),
];

/// Texts that are none, and why.
const ERRORS: &[(&str, JsonCause, &str)] = &[
    ("", JsonCause::End, "1:0: EOF while parsing a value"),
    (" \n ", JsonCause::End, "2:1: EOF while parsing a value"),
    ("nul", JsonCause::End, "1:3: EOF while parsing a value"),
    ("nope", JsonCause::Syntax, "1:2: expected ident"),
    ("[1", JsonCause::End, "1:2: EOF while parsing a list"),
    ("[1,", JsonCause::End, "1:3: EOF while parsing a value"),
    ("[1,]", JsonCause::Syntax, "1:4: trailing comma"),
    ("[1 2]", JsonCause::Syntax, "1:4: expected `,` or `]`"),
    ("{", JsonCause::End, "1:1: EOF while parsing an object"),
    ("{\"a\"", JsonCause::End, "1:4: EOF while parsing an object"),
    ("{\"a\":", JsonCause::End, "1:5: EOF while parsing a value"),
    ("{\"a\": \"b", JsonCause::End, "1:8: EOF while parsing a string"),
    ("{\"a\": 1,}", JsonCause::Syntax, "1:9: trailing comma"),
    ("{\n  \"a\": ,\n}", JsonCause::Syntax, "2:8: expected value"),
    ("{a}", JsonCause::Syntax, "1:2: key must be a string"),
    ("{1:2}", JsonCause::Syntax, "1:2: key must be a string"),
    ("\"a\nb\"", JsonCause::Syntax, "2:0: control character (\\u0000-\\u001F) found while parsing a string"),
    ("\"\\x\"", JsonCause::Syntax, "1:3: invalid escape"),
    ("\"\\ud83d\"", JsonCause::Syntax, "1:8: unexpected end of hex escape"),
    ("\"\\udc00\"", JsonCause::Syntax, "1:7: lone leading surrogate in hex escape"),
    ("01", JsonCause::Syntax, "1:2: invalid number"),
    ("1.", JsonCause::End, "1:2: EOF while parsing a value"),
    ("+1", JsonCause::Syntax, "1:1: expected value"),
    ("NaN", JsonCause::Syntax, "1:1: expected value"),
    ("1e400", JsonCause::Syntax, "1:5: number out of range"),
    ("-1e400", JsonCause::Syntax, "1:6: number out of range"),
    ("1 2", JsonCause::Syntax, "1:3: trailing characters"),
    ("{} x", JsonCause::Syntax, "1:4: trailing characters"),
];

fn render(error: &ftl_core::json::NotJson) -> String {
    format!("{}:{}: {}", error.line, error.column, error.message)
}

#[test]
fn texts_become_what_they_always_became() {
    for (text, line, compact) in TEXTS {
        let json = Json::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((json.line().as_str(), json.to_string().as_str()), (*line, *compact), "{text}");
        assert_eq!(Json::parse(&json.pretty()).unwrap().line(), *line, "{text}");
        assert_eq!(Json::parse(line).unwrap().to_string(), *compact, "{text}");
    }
}

#[test]
fn what_is_no_json_says_where_and_why() {
    for (text, cause, wanted) in ERRORS {
        let error = Json::parse(text).unwrap_err();
        assert_eq!((error.cause, render(&error).as_str()), (*cause, *wanted), "{text}");
    }
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(Json::parse(&nested(127)).unwrap().to_string(), nested(127));
    for text in [nested(128), "[".repeat(100_000), "{\"a\":".repeat(128)] {
        let error = Json::parse(&text).unwrap_err();
        assert_eq!((error.cause, error.message.as_str()), (JsonCause::Depth, "recursion limit exceeded"));
    }
}

#[test]
fn the_text_for_people_has_two_spaces() {
    let text = r#"{"a":["é",[],{}],"b":{"c":{"d":0.5,"e":1e-7}},"f":[[1,-2],[null]],"g":{}}"#;
    let wanted = r#"{
  "a": [
    "\u00e9",
    [],
    {}
  ],
  "b": {
    "c": {
      "d": 0.5,
      "e": 1e-07
    }
  },
  "f": [
    [
      1,
      -2
    ],
    [
      null
    ]
  ],
  "g": {}
}"#;
    assert_eq!(Json::parse(text).unwrap().pretty(), wanted);
}

#[test]
fn many_keys_keep_their_places_too() {
    let many: String = (0..1000).map(|at| format!("\"k{}\":{at},", (at * 7) % 400)).collect();
    let json = Json::parse(&format!("{{{many}\"end\":0}}")).unwrap();
    let last = |key: usize| (0..1000).rev().find(|at| (at * 7) % 400 == key).unwrap();
    let fields: Vec<String> =
        (0..400).map(|at| (at * 7) % 400).map(|key| format!("\"k{key}\":{}", last(key))).collect();
    assert_eq!(json.to_string(), format!("{{{},\"end\":0}}", fields.join(",")));
}

#[test]
fn a_prefix_is_read_and_measured() {
    let cases = [("{\"a\": \"}\"} and more", 10), ("[1] [2]", 3), (" \"x\"]", 4), ("null,", 4), ("12,", 2)];
    for (text, wanted) in cases {
        assert_eq!(Json::parse_prefix(text).map(|(_, end)| end), Ok(wanted), "{text}");
    }
    let cases = [
        ("", JsonCause::End, "1:1: nothing here"),
        ("  ", JsonCause::End, "1:1: nothing here"),
        ("{a}", JsonCause::Syntax, "1:2: key must be a string"),
        ("12x", JsonCause::Syntax, "1:3: trailing characters"),
        ("{\"a\": [1,", JsonCause::End, "1:9: EOF while parsing a value"),
    ];
    for (text, cause, wanted) in cases {
        let error = Json::parse_prefix(text).unwrap_err();
        assert_eq!((error.cause, render(&error).as_str()), (cause, wanted), "{text}");
    }
}
