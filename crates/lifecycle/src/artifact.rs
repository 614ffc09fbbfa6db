//! One JSON file of a task, with the place of everything in it.
//!
//! A reader asks for what it needs by name and kind; what is of another kind is [`Malformed`], with the file,
//! the line and the column where it stands. Fields that no reader asks for are left alone.

use std::fmt;
use std::io::Read as _;
use std::path::Path;

use ftl_core::json::{Json, JsonExt as _};
use ftl_core::run::{Failure, FailureKind};

use ftl_store::ContentDigest;

/// The largest artifact that is read.
pub const MAX_ARTIFACT_BYTES: u64 = 16 * 1024 * 1024;

/// A file that is not what it should be, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The file, from the root of the repository.
    pub path: String,
    /// The line, from one.
    pub line: usize,
    /// The column in bytes, from one.
    pub column: usize,
    /// The mistake in words, to be read after the place.
    pub message: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}:{}: {}", self.path, self.line, self.column, self.message)
    }
}

impl std::error::Error for Malformed {}

/// One step from a value to one inside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Item(usize),
}

/// A JSON file that was read.
#[derive(Clone, Debug)]
pub struct ArtifactFile {
    path: String,
    text: String,
    json: Json,
    digest: ContentDigest,
}

/// Reads a file whole; nothing where there is none. A link is no artifact: it may lead anywhere.
pub fn bytes(file: &Path, shown: &str, most: u64) -> Result<Option<Vec<u8>>, Malformed> {
    let wrong = |message: String| Malformed { path: shown.to_owned(), line: 1, column: 1, message };
    let found = match ftl_folder::metadata(file) {
        Ok(found) => found,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(wrong(format!("cannot be read: {error}"))),
    };
    if !found.is_file() {
        return Err(wrong(String::from("is no file")));
    }
    let mut text = Vec::new();
    let opened = ftl_folder::open(file, ftl_folder::OpenMode::Read);
    let opened = opened.and_then(|file| file.take(most + 1).read_to_end(&mut text));
    opened.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if text.len() as u64 > most {
        return Err(wrong(format!("has more than {most} bytes")));
    }
    Ok(Some(text))
}

/// Whether there is nothing, also no folder on the way.
fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

impl ArtifactFile {
    /// Reads a file; nothing where there is none.
    pub fn read(file: &Path, shown: &str) -> Result<Option<ArtifactFile>, Malformed> {
        let Some(bytes) = bytes(file, shown, MAX_ARTIFACT_BYTES)? else { return Ok(None) };
        ArtifactFile::parse(bytes, shown).map(Some)
    }

    /// Reads the bytes of a file as JSON; `shown` is its name in messages.
    pub fn parse(bytes: Vec<u8>, shown: &str) -> Result<ArtifactFile, Malformed> {
        let digest = ContentDigest::of(&bytes);
        let path = shown.to_owned();
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let (line, column) = place(before);
            Malformed { path: path.clone(), line, column, message: String::from("is no UTF-8 text") }
        })?;
        match Json::parse(&text) {
            Ok(json) => Ok(ArtifactFile { path, text, json, digest }),
            Err(error) => Err(Malformed {
                path,
                line: error.line.max(1),
                column: error.column.max(1),
                message: format!("is not valid JSON: {}", error.message),
            }),
        }
    }

    /// The digest of its bytes.
    pub fn digest(&self) -> ContentDigest {
        self.digest
    }

    /// The whole file as JSON.
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// The whole of it, which must be an object.
    pub fn root(&self) -> Result<JsonView<'_>, Malformed> {
        let root = JsonView { artifact: self, json: &self.json, at: Vec::new() };
        root.is_object()?;
        Ok(root)
    }
}

/// Something in an artifact, and where.
#[derive(Clone, Debug)]
pub struct JsonView<'a> {
    artifact: &'a ArtifactFile,
    json: &'a Json,
    at: Vec<Step>,
}

impl<'a> JsonView<'a> {
    /// A `Malformed` about this place.
    pub fn wrong(&self, message: impl fmt::Display) -> Malformed {
        let text = self.artifact.text.as_bytes();
        let (line, column) = place(&text[..find(text, &self.at)]);
        let name = self.name();
        let message = if name.is_empty() { message.to_string() } else { format!("`{name}` {message}") };
        Malformed { path: self.artifact.path.clone(), line, column, message }
    }

    /// Where it stands, as people write it: `file_plan[2].path`.
    pub fn name(&self) -> String {
        let mut name = String::new();
        for step in &self.at {
            match step {
                Step::Key(key) if name.is_empty() => name.push_str(key),
                Step::Key(key) => name.push_str(&format!(".{key}")),
                Step::Item(index) => name.push_str(&format!("[{index}]")),
            }
        }
        name
    }

    /// The value, without its place.
    pub fn json(&self) -> &'a Json {
        self.json
    }

    /// It must be an object.
    pub fn is_object(&self) -> Result<(), Malformed> {
        if self.json.is_object() { Ok(()) } else { Err(self.not("an object")) }
    }

    fn not(&self, wanted: &str) -> Malformed {
        self.wrong(format!("must be {wanted}, and is {}", self.json.kind()))
    }

    /// The field of that name; none where it is missing or null.
    pub fn field(&self, key: &str) -> Option<JsonView<'a>> {
        let json = self.json.get(key).filter(|json| !json.is_null())?;
        let mut at = self.at.clone();
        at.push(Step::Key(key.to_owned()));
        Some(JsonView { artifact: self.artifact, json, at })
    }

    /// Whether there is a field of that name, of any kind, null included.
    pub fn has(&self, key: &str) -> bool {
        self.json.get(key).is_some()
    }

    /// The field of that name, which must be there.
    pub fn need(&self, key: &str) -> Result<JsonView<'a>, Malformed> {
        self.field(key).ok_or_else(|| self.wrong(format!("has no `{key}`")))
    }

    /// The value as text; `Malformed` where it is something else.
    pub fn as_text(&self) -> Result<&'a str, Malformed> {
        self.json.as_str().ok_or_else(|| self.not("a text"))
    }

    /// The text of a field.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Malformed> {
        self.field(key).map(|field| field.as_text()).transpose()
    }

    /// The text of a field, which must be there and not blank.
    pub fn need_text(&self, key: &str) -> Result<&'a str, Malformed> {
        let field = self.need(key)?;
        let text = field.as_text()?;
        if text.trim().is_empty() { Err(field.wrong("is blank")) } else { Ok(text) }
    }

    /// A field that is true or false.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Malformed> {
        let Some(field) = self.field(key) else { return Ok(None) };
        match field.json {
            Json::Bool(flag) => Ok(Some(*flag)),
            Json::Null | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => {
                Err(field.not("true or false"))
            }
        }
    }

    /// A field that counts something.
    pub fn count(&self, key: &str) -> Result<Option<u64>, Malformed> {
        let Some(field) = self.field(key) else { return Ok(None) };
        let count = field.json.as_whole().and_then(|number| u64::try_from(number).ok());
        count.map(Some).ok_or_else(|| field.wrong("must be a whole number, and not below 0"))
    }

    /// The items of a list.
    pub fn as_list(&self) -> Result<Vec<JsonView<'a>>, Malformed> {
        let items = self.json.as_array().ok_or_else(|| self.not("a list"))?;
        let view = |(index, json): (usize, &'a Json)| {
            let mut at = self.at.clone();
            at.push(Step::Item(index));
            JsonView { artifact: self.artifact, json, at }
        };
        Ok(items.iter().enumerate().map(view).collect())
    }

    /// The items of a field that is a list; none where there is no such field.
    pub fn list(&self, key: &str) -> Result<Vec<JsonView<'a>>, Malformed> {
        self.field(key).map_or(Ok(Vec::new()), |field| field.as_list())
    }

    /// The items of a field that is a list of objects.
    pub fn objects(&self, key: &str) -> Result<Vec<JsonView<'a>>, Malformed> {
        let items = self.list(key)?;
        items.iter().try_for_each(JsonView::is_object)?;
        Ok(items)
    }

    /// The items of a field that is a list of texts.
    pub fn texts(&self, key: &str) -> Result<Vec<&'a str>, Malformed> {
        self.list(key)?.iter().map(JsonView::as_text).collect()
    }

    /// The members of an object.
    pub fn members(&self) -> Vec<(&'a str, JsonView<'a>)> {
        let view = |(key, json): (&'a String, &'a Json)| {
            let mut at = self.at.clone();
            at.push(Step::Key(key.clone()));
            (key.as_str(), JsonView { artifact: self.artifact, json, at })
        };
        self.json.fields().map(view).collect()
    }

    /// A field that is one of some words.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, Malformed> {
        let Some(field) = self.field(key) else { return Ok(None) };
        let text = field.as_text()?;
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                Err(field.wrong(format!("is `{text}`; it must be one of {}", known.join(", "))))
            }
        }
    }

    /// What each item of a list of words means.
    pub fn words<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Vec<T>, Malformed> {
        let mut found = Vec::new();
        for item in self.list(key)? {
            let text = item.as_text()?;
            match words.iter().find(|(word, _)| *word == text) {
                Some((_, value)) => found.push(*value),
                None => {
                    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                    return Err(item.wrong(format!("is `{text}`; it must be one of {}", known.join(", "))));
                }
            }
        }
        Ok(found)
    }
}

/// The line and the column after so many bytes, from one.
fn place(before: &[u8]) -> (usize, usize) {
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    (line, column)
}

/// Where in a text that is JSON the value at the end of some steps begins; where they lead nowhere, the
/// last value on the way.
fn find(text: &[u8], steps: &[Step]) -> usize {
    let mut at = skip_space(text, 0);
    for step in steps {
        match enter(text, at, step) {
            Some(inner) => at = inner,
            None => return at,
        }
    }
    at
}

/// Where the value of one step begins. Of two equal keys the last one counts.
fn enter(text: &[u8], at: usize, step: &Step) -> Option<usize> {
    let is_object = text.get(at) == Some(&b'{');
    let mut here = skip_space(text, at + 1);
    let mut index = 0;
    let mut found = None;
    while !matches!(text.get(here), None | Some(b'}' | b']')) {
        let mut key = None;
        if is_object {
            let end = skip_value(text, here);
            key = std::str::from_utf8(text.get(here..end)?).ok();
            here = skip_space(text, skip_space(text, end) + 1);
        }
        let wanted = match step {
            Step::Key(name) => {
                key.is_some_and(|key| Json::parse(key).ok().as_ref().and_then(Json::as_str) == Some(name))
            }
            Step::Item(wanted) => !is_object && *wanted == index,
        };
        if wanted {
            found = Some(here);
        }
        here = skip_space(text, skip_value(text, here));
        if text.get(here) == Some(&b',') {
            here = skip_space(text, here + 1);
        }
        index += 1;
    }
    found
}

fn skip_space(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Where a value ends: brackets are counted, and those inside of texts are not.
fn skip_value(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0usize;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at = skip_text(text, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' | b':' if depth == 0 => return at,
            byte if depth == 0 && byte.is_ascii_whitespace() => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Where a quoted text ends.
fn skip_text(text: &[u8], mut at: usize) -> usize {
    at += 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

impl From<Malformed> for Failure {
    /// A malformed artifact as a failure of the gate that read it.
    fn from(malformed: Malformed) -> Failure {
        Failure::new(FailureKind::Failed, malformed.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(text: &str) -> ArtifactFile {
        ArtifactFile::parse(text.as_bytes().to_vec(), "a.json").unwrap()
    }

    #[test]
    fn everything_has_its_place() {
        let text = "{\n  \"a\\\"b\": {\"x,]\": [1, {\"deep\": true}, \"{\"]},\n  \"list\": [\n    \"one\",\n    {\"k\": 3}\n  ]\n}";
        let all = artifact(text);
        let root = all.root().unwrap();
        let deep = root.field("a\"b").unwrap().list("x,]").unwrap()[1].field("deep").unwrap().wrong("is odd");
        assert_eq!(deep.to_string(), "a.json:2:32: `a\"b.x,][1].deep` is odd");
        let item = root.list("list").unwrap()[1].field("k").unwrap();
        assert_eq!(
            item.as_text().unwrap_err().to_string(),
            "a.json:5:11: `list[1].k` must be a text, and is a number"
        );
        assert_eq!(root.need("none").unwrap_err().to_string(), "a.json:1:1: has no `none`");
    }

    #[test]
    fn what_is_no_json_is_told_with_its_place() {
        let cases = [
            ("{\"a\": }", "a.json:1:7: is not valid JSON"),
            ("", "a.json:1:1: is not valid JSON"),
            ("{\n  nope", "a.json:2:3: is not valid JSON"),
        ];
        for (text, wanted) in cases {
            let error = ArtifactFile::parse(text.as_bytes().to_vec(), "a.json").unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{text:?}: {error}");
        }
        let error = ArtifactFile::parse(b"{\n\xff".to_vec(), "a.json").unwrap_err();
        assert_eq!(error.to_string(), "a.json:2:1: is no UTF-8 text");
        assert_eq!(
            artifact("[]").root().unwrap_err().to_string(),
            "a.json:1:1: must be an object, and is a list"
        );
    }

    #[test]
    fn an_artifact_that_is_too_large_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        let large = std::fs::File::create(&file).unwrap();
        large.set_len(MAX_ARTIFACT_BYTES + 1).unwrap();
        let error = ArtifactFile::read(&file, "a.json").unwrap_err();
        assert!(error.message.starts_with("has more than"), "{error}");
        std::os::unix::fs::symlink(&file, folder.path().join("link")).unwrap();
        let error = ArtifactFile::read(&folder.path().join("link"), "link").unwrap_err();
        assert_eq!(error.message, "is no file");
    }
}
