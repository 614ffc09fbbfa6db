//! One assertion: what it is about, how much it demands, how far off it lets a number be.
//!
//! It is told by the text of the assertion alone. Strength is an order of four steps and no measure; where a
//! text cannot be placed it is taken as demanding something, so that only a clear loss is called one.

use std::collections::BTreeSet;

/// How much an assertion demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// Nothing: it holds whatever the code does.
    Nothing,
    /// That something is there, is true, is of a type.
    Presence,
    /// That a value is in a range, near another, contains something.
    Range,
    /// That a value is exactly another.
    Exact,
}

impl Strength {
    pub(super) fn words(self) -> &'static str {
        match self {
            Strength::Nothing => "nothing",
            Strength::Presence => "only that something is there or true",
            Strength::Range => "a range, a nearness or a part",
            Strength::Exact => "one value",
        }
    }
}

/// One assertion of a test.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Assertion {
    /// Its text with single spaces.
    pub(super) text: String,
    pub(super) line: usize,
    pub(super) strength: Strength,
    /// What it is about, as far as its text tells.
    pub(super) subject: String,
    /// How far off a number may be.
    pub(super) tolerance: Option<f64>,
    /// How many conditions, handlers and functions of their own it stands below.
    pub(super) guards: usize,
    /// Whether somebody waits for it, where that matters.
    pub(super) is_awaited: bool,
}

/// How much of an assertion's text is looked at.
const MAX_LOOKED_AT: usize = 4_000;

impl Assertion {
    /// An assertion out of its text. A condition around it, as Go has, is its demand.
    pub(super) fn new(text: &str, line: usize, condition: Option<&str>) -> Assertion {
        let end = text.char_indices().nth(MAX_LOOKED_AT).map_or(text.len(), |(end, _)| end);
        let text = one_line(&text[..end]);
        let (strength, subject) = match condition {
            Some(condition) => of_condition(&one_line(condition)),
            None => demand(&text),
        };
        let tolerance = tolerance(&text).or_else(|| condition.and_then(|one| tolerance(&one_line(one))));
        let text = condition.map_or(text.clone(), |condition| format!("if {}: {text}", one_line(condition)));
        Assertion { text, line, strength, subject, tolerance, guards: 0, is_awaited: true }
    }

    /// How many values it asks for: `a == 1 and b == 2` asks for two, and so does `(a, b) == (1, 2)`.
    pub(super) fn weight(&self) -> usize {
        let joined = 1 + [" and ", " && "].iter().map(|word| self.text.matches(word).count()).sum::<usize>();
        let inner =
            self.subject.strip_prefix(['(', '[', '{']).and_then(|rest| rest.strip_suffix([')', ']', '}']));
        joined.max(
            inner.map_or(1, |inner| {
                split(inner, ',').into_iter().filter(|one| !one.trim().is_empty()).count()
            }),
        )
    }

    /// The numbers, texts and constants that it names. A text for people, with places for values, is none.
    pub(super) fn literals(&self) -> BTreeSet<String> {
        literals(self.text.split(": t.").next().unwrap_or(&self.text))
    }
}

/// The numbers, texts and constants of a text.
pub(super) fn literals(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(open) = rest.find(['"', '\'', '`']) {
        plain.push_str(&rest[..open]);
        plain.push(' ');
        let quote = rest[open..].chars().next().unwrap_or('"');
        let inner = &rest[open + 1..];
        let Some(close) = inner.find(quote) else { break };
        if !inner[..close].contains('%') {
            found.insert(format!("\"{}\"", &inner[..close]));
        }
        rest = &inner[close + 1..];
    }
    plain.push_str(rest);
    let words = plain.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '.');
    let is_constant = |word: &str| {
        word.len() > 1
            && word.chars().all(|one| one.is_ascii_uppercase() || one == '_' || one.is_ascii_digit())
    };
    let words = words.map(|word| word.trim_matches('.')).filter(|word| !word.is_empty());
    found.extend(
        words
            .filter(|word| word.starts_with(|one: char| one.is_ascii_digit()) || is_constant(word))
            .map(str::to_owned),
    );
    found
}

pub(super) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// Go's `if got != want { t.Error(…) }`: what must not hold, turned round.
fn of_condition(condition: &str) -> (Strength, String) {
    let last = condition.rsplit("; ").next().unwrap_or(condition);
    let strength = match last {
        "false" => Strength::Nothing,
        _ if last.contains("false &&") || last.contains("&& false") => Strength::Nothing,
        _ if last.contains("nil") => Strength::Presence,
        _ if last.contains("DeepEqual") || last.contains("cmp.") || last.contains("Equal(") => {
            Strength::Exact
        }
        _ if last.contains("!=") || last.contains("==") => Strength::Exact,
        _ if last.contains('<') || last.contains('>') || last.contains("Contains") => Strength::Range,
        _ => Strength::Presence,
    };
    let end = last.find(['=', '<', '>']).unwrap_or(last.len());
    let subject = last[..end].trim_end_matches(['!', ' ']).trim_start_matches('!').trim();
    (strength, subject.to_owned())
}

fn demand(text: &str) -> (Strength, String) {
    let text = text.trim_end_matches(';').trim();
    if let Some(rest) = text.strip_prefix("assert ") {
        let parts = split(rest, ',');
        return expression(parts.first().copied().unwrap_or(rest));
    }
    if text.starts_with("expect") {
        return expectation(text);
    }
    let Some((callee, inner)) = call(text) else { return expression(text) };
    let arguments = split(inner, ',');
    let name = callee.trim_end_matches('!').rsplit(['.', ':']).next().unwrap_or(callee);
    let is_testify = callee.starts_with("require.")
        || callee.starts_with("assert.") && name.starts_with(char::is_uppercase);
    let skip = usize::from(is_testify && arguments.first().is_some_and(|first| first.trim() == "t"));
    let at = |index: usize| arguments.get(index + skip).map(|one| one.trim()).unwrap_or_default();
    let strength = by_name(name, at(0), at(1));
    let subject = match name {
        // Testify puts what is expected first.
        "Equal" | "EqualValues" | "Exactly" | "JSONEq" | "InDelta" | "InEpsilon" if is_testify => at(1),
        _ => at(0),
    };
    let is_same = strength == Strength::Exact && !at(1).is_empty() && at(0) == at(1);
    (if is_same { Strength::Nothing } else { strength }, subject.to_owned())
}

/// What an assertion function demands, by its name.
fn by_name(name: &str, first: &str, second: &str) -> Strength {
    let lower = name.to_lowercase().replace('_', "");
    let word = lower.strip_prefix("debug").unwrap_or(&lower);
    let word = word.strip_prefix("prop").unwrap_or(word);
    let word = word.strip_prefix("assert").unwrap_or(word);
    match word {
        "" | "true" | "ok" | "that" | "false" | "istrue" | "isfalse" => {
            let (strength, _) = expression(first);
            let constant = matches!(first, "true" | "True" | "1" | "false" | "False");
            if constant { Strength::Nothing } else { strength }
        }
        _ if word.starts_with("not") && word.contains("equal") || word == "ne" => Strength::Range,
        _ if word.contains("almost")
            || word.contains("close")
            || word.contains("delta")
            || word.contains("epsilon") =>
        {
            Strength::Range
        }
        "isnone" | "is" | "nil" | "null" | "len" | "erroris" | "errorequal" | "jsoneq" | "exactly" | "eq" => {
            Strength::Exact
        }
        _ if word.contains("equal") || word.contains("snapshot") || word.ends_with("with") => Strength::Exact,
        "raises" | "throws" | "rejects" | "warns" => match first {
            "Exception" | "BaseException" | "Error" => Strength::Presence,
            _ if !second.is_empty() => Strength::Exact,
            _ => Strength::Range,
        },
        "isnotnone" | "isinstance" | "isnot" | "notnil" | "noerror" | "error" | "notempty" | "called"
        | "panic" | "implements" | "exists" | "isdefined" | "notnull" => Strength::Presence,
        _ => Strength::Range,
    }
}

/// `expect(x).toBe(y)` and its like.
fn expectation(text: &str) -> (Strength, String) {
    let Some(open) = text.find('(') else { return (Strength::Presence, String::new()) };
    let close = closing(text, open).unwrap_or(text.len());
    let subject = text.get(open + 1..close).unwrap_or_default().trim();
    let rest = text.get(close + 1..).unwrap_or_default();
    let matcher = rest.split('(').next().unwrap_or(rest);
    let name = matcher.rsplit('.').next().unwrap_or(matcher).trim();
    let argument =
        rest.find('(').and_then(|open| rest.get(open + 1..closing(rest, open)?)).unwrap_or_default().trim();
    let strength = match name {
        "toBeTruthy" | "toBeDefined" | "toBeInstanceOf" | "toHaveBeenCalled" | "toBeFalsy" | "ok"
        | "exist" | "toBeAny" | "toBeTypeOf" | "an" | "a" | "instanceOf" => Strength::Presence,
        "toThrow" | "toThrowError" | "throw" if argument.is_empty() => Strength::Presence,
        "toBeCloseTo"
        | "toContain"
        | "toContainEqual"
        | "toMatch"
        | "toMatchObject"
        | "toBeGreaterThan"
        | "toBeGreaterThanOrEqual"
        | "toBeLessThan"
        | "toBeLessThanOrEqual"
        | "toThrow"
        | "toThrowError"
        | "include"
        | "contain"
        | "match"
        | "above"
        | "below"
        | "closeTo"
        | "throw"
        | "toHaveProperty" => Strength::Range,
        _ if argument.contains("expect.any") => Strength::Presence,
        _ => Strength::Exact,
    };
    let strength = if matcher.contains(".not.") { strength.min(Strength::Range) } else { strength };
    let is_same = !argument.is_empty() && argument == subject;
    let is_constant = matches!(subject, "true" | "false" | "1" | "0") && strength != Strength::Nothing;
    let nothing = is_same || is_constant;
    (if nothing { Strength::Nothing } else { strength }, subject.to_owned())
}

/// A condition: what holds, and about what.
fn expression(text: &str) -> (Strength, String) {
    let text = text.trim();
    if matches!(text, "True" | "true" | "1" | "not False" | "!false" | "not 0" | "...")
        || is_plain_string(text)
    {
        return (Strength::Nothing, String::new());
    }
    if let Some((_, right)) = [" or ", " || "].iter().find_map(|word| at_top(text, word)) {
        let strength = if matches!(right.trim(), "True" | "true" | "1") {
            Strength::Nothing
        } else {
            Strength::Presence
        };
        return (strength, text.to_owned());
    }
    if [" and ", " && "].iter().any(|word| at_top(text, word).is_some()) {
        return (Strength::Exact, text.to_owned());
    }
    let compared = |words: &[&str]| words.iter().find_map(|word| at_top(text, word));
    if let Some((left, right)) = compared(&[" === ", " == ", " is None", " is True", " is False"]) {
        let strength = match right.trim() {
            right if !right.is_empty() && right == left.trim() => Strength::Nothing,
            right if right.contains("approx") => Strength::Range,
            right if right.starts_with("ANY") || right.ends_with(".ANY") => Strength::Nothing,
            _ => Strength::Exact,
        };
        return (strength, left.trim().to_owned());
    }
    if let Some((left, _)) = compared(&[" is not None", " !== undefined", " != null", " !== null"]) {
        return (Strength::Presence, left.trim().to_owned());
    }
    let ranges = [" != ", " !== ", " not in ", " in ", " <= ", " >= ", " < ", " > ", " is not "];
    if let Some((left, _)) = compared(&ranges) {
        return (Strength::Range, left.trim().to_owned());
    }
    let loose = ["isinstance(", "hasattr(", "callable(", "any("].iter().any(|word| text.starts_with(word));
    let near =
        ["isclose(", "allclose(", "matches!(", ".startswith(", ".starts_with(", "re.", "all(", ".contains("];
    match () {
        () if loose => (Strength::Presence, text.to_owned()),
        () if near.iter().any(|word| text.contains(word)) => (Strength::Range, text.to_owned()),
        () => (Strength::Presence, text.trim_start_matches("not ").trim_start_matches('!').to_owned()),
    }
}

fn is_plain_string(text: &str) -> bool {
    let quoted = |quote: char| text.len() > 2 && text.starts_with(quote) && text.ends_with(quote);
    ['"', '\''].into_iter().any(|quote| quoted(quote) && text.matches(quote).count() == 2)
}

/// The two sides of a word that stands outside every bracket and string.
fn at_top<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let mut found = None;
    scan(text, |at, depth| {
        if depth == 0 && found.is_none() && text[at..].starts_with(word) {
            found = Some(at);
        }
    });
    found.map(|at| (&text[..at], &text[at + word.len()..]))
}

/// A text split at a letter that stands outside every bracket and string.
pub(crate) fn split(text: &str, at: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    scan(text, |place, depth| {
        if depth == 0 && text[place..].starts_with(at) {
            parts.push(&text[start..place]);
            start = place + at.len_utf8();
        }
    });
    parts.push(&text[start..]);
    parts
}

/// The place of the bracket that closes the one at a place.
fn closing(text: &str, open: usize) -> Option<usize> {
    let mut found = None;
    scan(&text[open..], |at, depth| {
        if at > 0 && depth == 0 && found.is_none() {
            found = Some(open + at);
        }
    });
    found
}

/// Every letter with how many brackets are open around it. A closing bracket counts as outside.
fn scan(text: &str, mut look: impl FnMut(usize, usize)) {
    let (mut depth, mut quote, mut escaped) = (0usize, None, false);
    for (at, letter) in text.char_indices() {
        if let Some(open) = quote {
            match letter {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                letter if letter == open => quote = None,
                _ => {}
            }
            continue;
        }
        match letter {
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '"' | '`' => quote = Some(letter),
            // After these an apostrophe begins a lifetime of Rust, and one that nothing closes is no string.
            '\'' if !text[..at].ends_with(['&', '<']) && text[at + 1..].contains('\'') => {
                quote = Some(letter);
            }
            _ => {}
        }
        look(at, depth);
        if matches!(letter, '(' | '[' | '{') {
            depth += 1;
        }
    }
}

/// `name(arguments)` or `name!(arguments)`, if a text is a call.
fn call(text: &str) -> Option<(&str, &str)> {
    let open = text.find('(')?;
    let close = closing(text, open)?;
    Some((text[..open].trim_end(), &text[open + 1..close]))
}

/// How far off a number may be; larger is looser.
fn tolerance(text: &str) -> Option<f64> {
    const NAMED: [&str; 9] =
        ["rel_tol=", "abs_tol=", "delta=", "rtol=", "atol=", "abs=", "rel=", "epsilon=", "tolerance="];
    let squeezed = text.replace(" = ", "=");
    if let Some(number) = NAMED.iter().find_map(|name| number_after(&squeezed, name)) {
        return Some(number);
    }
    if let Some(places) = number_after(&squeezed, "places=") {
        return Some(10f64.powf(-places));
    }
    let last = || call(text).and_then(|(_, inner)| number(split(inner, ',').last()?.trim()));
    if text.contains("toBeCloseTo(") {
        let at = text.find("toBeCloseTo(")?;
        let inner = call(&text[at..])?.1;
        let digits = split(inner, ',').get(1).and_then(|digits| number(digits.trim())).unwrap_or(2.0);
        return Some(10f64.powf(-digits));
    }
    if text.contains("AlmostEqual(") {
        let third =
            call(text).and_then(|(_, inner)| split(inner, ',').get(2).and_then(|one| number(one.trim())));
        return Some(10f64.powf(-third.unwrap_or(7.0)));
    }
    if text.contains("InDelta(") || text.contains("InEpsilon(") {
        return last();
    }
    let near = text.contains(".abs()") || text.contains("abs(") || text.contains("Abs(");
    let (_, right) = near.then(|| text.rsplit_once(['<', '>']))??;
    number(right.trim_start_matches('=').trim().split([',', ')', ' ', ';']).next()?)
}

fn number_after(text: &str, name: &str) -> Option<f64> {
    let at = text.find(name)? + name.len();
    let rest = text[at..].trim_start();
    number(rest.split([',', ')', ' ', ';']).next()?)
}

fn number(text: &str) -> Option<f64> {
    let plain = text.replace('_', "");
    let plain = plain.strip_suffix("f64").or_else(|| plain.strip_suffix("f32")).unwrap_or(&plain);
    let plain = plain.replace("f64::EPSILON", "2.3e-16").replace("f32::EPSILON", "1.2e-7");
    plain.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line a case: an assertion, how much it demands, what it is about.
    const DEMANDS: &str = "
        assert add(1, 2) == 3                        ; Exact    ; add(1, 2)
        assert add(1, 2) == 3, 'they differ, really' ; Exact    ; add(1, 2)
        assert True                                  ; Nothing  ;
        assert 'reached'                             ; Nothing  ;
        assert x == x                                ; Nothing  ; x
        assert x == 3 or True                        ; Nothing  ; x == 3 or True
        assert x == mock.ANY                         ; Nothing  ; x
        assert x                                     ; Presence ; x
        assert x is not None                         ; Presence ; x
        assert isinstance(x, int)                    ; Presence ; isinstance(x, int)
        assert x is None                             ; Exact    ; x
        assert x >= 3                                ; Range    ; x
        assert 'a' in x                              ; Range    ; 'a'
        assert x == pytest.approx(3, abs=0.1)        ; Range    ; x
        self.assertEqual(x, 3)                       ; Exact    ; x
        self.assertEqual(x, x)                       ; Nothing  ; x
        self.assertTrue(True)                        ; Nothing  ; True
        self.assertTrue(x)                           ; Presence ; x
        self.assertTrue(x == 3)                      ; Exact    ; x == 3
        self.assertIsNotNone(x)                      ; Presence ; x
        self.assertNotEqual(x, 3)                    ; Range    ; x
        self.assertAlmostEqual(x, 3)                 ; Range    ; x
        m.assert_called_once_with(3)                 ; Exact    ; 3
        m.assert_called()                            ; Presence ;
        pytest.raises(ValueError)                    ; Range    ; ValueError
        pytest.raises(Exception)                     ; Presence ; Exception
        expect(add(1, 2)).toBe(3)                    ; Exact    ; add(1, 2)
        expect(x).toBeTruthy()                       ; Presence ; x
        expect(x).not.toBe(3)                        ; Range    ; x
        expect(x).toContain(3)                       ; Range    ; x
        expect(true).toBe(true)                      ; Nothing  ; true
        expect(x).toEqual(x)                         ; Nothing  ; x
        expect(x).toEqual(expect.anything())         ; Presence ; x
        assert.strictEqual(x, 3)                     ; Exact    ; x
        assert.ok(x)                                 ; Presence ; x
        assert(true)                                 ; Nothing  ; true
        assert_eq!(add(1, 2), 3)                     ; Exact    ; add(1, 2)
        assert_eq!(1, 1)                             ; Nothing  ; 1
        assert_ne!(x, 3)                             ; Range    ; x
        assert!(true)                                ; Nothing  ; true
        assert!(x.is_ok())                           ; Presence ; x.is_ok()
        assert!(x == 3)                              ; Exact    ; x == 3
        assert!(matches!(x, A { .. }))               ; Range    ; matches!(x, A { .. })
        require.Equal(t, 3, x)                       ; Exact    ; x
        assert.NotNil(t, x)                          ; Presence ; x
        require.True(t, true)                        ; Nothing  ; true";

    #[test]
    fn an_assertion_says_how_much_it_demands() {
        for line in DEMANDS.lines().filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split(';').map(str::trim).collect();
            let found = Assertion::new(cells[0], 1, None);
            assert_eq!(
                (format!("{:?}", found.strength).as_str(), found.subject.as_str()),
                (cells[1], cells[2]),
                "{line}"
            );
        }
    }

    /// One line a case: the condition of a Go test, how much it demands.
    const CONDITIONS: &str = "
        got != want                   ; Exact
        got := Add(1, 2); got != 3    ; Exact
        err != nil                    ; Presence
        got < 3                       ; Range
        !reflect.DeepEqual(got, want) ; Exact
        false                         ; Nothing
        !ok                           ; Presence";

    #[test]
    fn a_condition_in_go_says_how_much_it_demands() {
        for line in CONDITIONS.lines().filter(|line| !line.trim().is_empty()) {
            let (condition, strength) = line.rsplit_once(" ; ").unwrap();
            let found = Assertion::new("t.Error(\"x\")", 1, Some(condition.trim()));
            assert_eq!(format!("{:?}", found.strength), strength, "{line}");
        }
    }

    /// One line a case: an assertion, and how far off it lets a number be.
    const TOLERANCES: &str = "
        assert x == pytest.approx(3, abs=1e-6)  ; 0.000001
        self.assertAlmostEqual(x, 3, places=2)  ; 0.01
        self.assertAlmostEqual(x, 3, 5)         ; 0.00001
        self.assertAlmostEqual(x, 3, delta=0.5) ; 0.5
        expect(x).toBeCloseTo(3, 5)             ; 0.00001
        expect(x).toBeCloseTo(3)                ; 0.01
        assert!((x - y).abs() < 1e-9)           ; 0.000000001
        assert.InDelta(t, 3, x, 0.01)           ; 0.01
        assert x < 3                            ; -
        assert_eq!(x, 3)                        ; -";

    #[test]
    fn an_assertion_says_how_far_off_a_number_may_be() {
        for line in TOLERANCES.lines().filter(|line| !line.trim().is_empty()) {
            let (text, wanted) = line.rsplit_once(" ; ").unwrap();
            let found = Assertion::new(text.trim(), 1, None).tolerance;
            match wanted.parse::<f64>() {
                Ok(wanted) => assert!((found.unwrap() / wanted - 1.0).abs() < 1e-6, "{line}: {found:?}"),
                Err(_) => assert_eq!(found, None, "{line}"),
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_an_assertion(text in "[a-z(){}\\[\\]'\"`,.<>=! \\\\é]{0,60}") {
            let _ = Assertion::new(&text, 1, None);
            let _ = Assertion::new(&format!("assert {text}"), 1, None);
            let _ = Assertion::new(&format!("expect({text}"), 1, Some(&text));
            let _ = Assertion::new(&format!("assert_eq!({text}"), 1, None);
        }
    }
}
