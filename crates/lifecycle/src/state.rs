//! `state.json`: the phase of a task and what each phase has come to.
//!
//! It is a projection of the task's run, written whole and only when the task moved. Fields that are not known
//! here stay as they are, and so does their order.

use ftl_core::json::{Json, JsonExt as _, Object, ObjectExt as _};

use super::artifact::{ArtifactFile, Malformed};
use super::folder::{STATE, TaskFolder};
use super::phases::{Phase, Phases};
use ftl_store::ContentDigest;

/// The content of `state.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct StateFile {
    /// The phase that the file says.
    pub phase: Phase,
    json: Json,
}

impl StateFile {
    /// What a new task begins with.
    pub fn new(id: &str, phases: &Phases) -> StateFile {
        let mut actors = Object::new();
        let first = phases.first();
        for phase in phases.all().filter(|phase| !phases.is_last(phase)) {
            let status = if phase == first { Json::from("pending") } else { Json::Null };
            let round = u64::from(phase == first);
            actors.set(phase.word(), Json::object([("round", Json::from(round)), ("status", status)]));
        }
        let json = Json::object([
            ("task_id", Json::from(id)),
            ("phase", Json::from(first.word())),
            ("actors", Json::from(actors)),
        ]);
        StateFile { phase: first, json }
    }

    /// The state of a task, with the digest of its bytes; nothing where there is none.
    pub fn read(
        folder: &TaskFolder,
        phases: &Phases,
    ) -> Result<Option<(StateFile, ContentDigest)>, Malformed> {
        let Some(artifact) = folder.read(STATE)? else { return Ok(None) };
        Ok(Some((StateFile::of(&artifact, phases)?, artifact.digest())))
    }

    fn of(artifact: &ArtifactFile, phases: &Phases) -> Result<StateFile, Malformed> {
        let root = artifact.root()?;
        let field = root.need("phase")?;
        let word = field.as_text()?;
        let Some(phase) = phases.read(word) else {
            return Err(field.wrong(format!("is `{word}`; it must be one of {}", phases.join_names())));
        };
        if let Some(actors) = root.field("actors") {
            actors.is_object()?;
            for (_, actor) in actors.members() {
                if actor.json().is_null() {
                    continue;
                }
                actor.is_object()?;
                actor.count("round")?;
                actor.text("status")?;
            }
        }
        Ok(StateFile { phase, json: artifact.json().clone() })
    }

    /// What each phase has come to.
    pub fn actors(&self) -> Json {
        self.json.get("actors").cloned().unwrap_or_else(|| Json::from(Object::new()))
    }

    /// Goes from one phase to another. The round of the new one goes up.
    pub fn go(&mut self, from: &Phase, to: &Phase, phases: &Phases) {
        let status = if phases.goes_back(from, to) { "redo" } else { "completed" };
        if !phases.is_last(from) {
            self.actor(from, |actor| actor.put("status", status));
        }
        self.phase = to.clone();
        self.json.put("phase", to.word());
        if phases.is_last(to) {
            return;
        }
        self.actor(to, |actor| {
            let round = actor.get("round").and_then(Json::as_whole).unwrap_or(0);
            actor.put("round", round.saturating_add(1));
            actor.put("status", "pending");
        });
    }

    fn actor(&mut self, phase: &Phase, change: impl FnOnce(&mut Json)) {
        let mut actors = self.json.get("actors").cloned().unwrap_or_default();
        if !actors.is_object() {
            actors = Json::from(Object::new());
        }
        let mut actor = actors.get(phase.word()).cloned().unwrap_or_default();
        if !actor.is_object() {
            actor = Json::from(Object::new());
        }
        change(&mut actor);
        actors.put(phase.word(), actor);
        self.json.put("actors", actors);
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        format!("{}\n", self.json.pretty()).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases() -> Phases {
        Phases::built_in().unwrap()
    }

    fn read(text: &str) -> Result<StateFile, Malformed> {
        StateFile::of(&ArtifactFile::parse(text.as_bytes().to_vec(), "state.json")?, &phases())
    }

    #[test]
    fn malformed_states_are_told_with_their_place() {
        let cases = [
            ("", "state.json:1:1: is not valid JSON"),
            ("[]", "state.json:1:1: must be an object"),
            ("{}", "state.json:1:1: has no `phase`"),
            ("{\"phase\": 3}", "state.json:1:11: `phase` must be a text"),
            ("{\n \"phase\": \"planing\"}", "state.json:2:11: `phase` is `planing`"),
            ("{\"phase\":\"test\",\"actors\":[]}", "state.json:1:26: `actors` must be an object"),
            (
                "{\"phase\":\"test\",\"actors\":{\"test\":{\"round\":-1}}}",
                "state.json:1:43: `actors.test.round` must be a whole number",
            ),
        ];
        for (text, wanted) in cases {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn unknown_fields_and_their_order_survive_a_move() {
        let text = r#"{"z":1,"phase":"codegen_done","actors":{"codegen":{"mine":true,"status":"completed"},"x":null},"a":[]}"#;
        let mut state = read(text).unwrap();
        let phases = phases();
        let (codegen, review) = (phases.find("codegen").unwrap(), phases.find("review").unwrap());
        assert_eq!(state.phase, codegen);
        state.go(&codegen, &review, &phases);
        let wanted = r#"{"z":1,"phase":"review","actors":{"codegen":{"mine":true,"status":"completed"},"x":null,"review":{"round":1,"status":"pending"}},"a":[]}"#;
        assert_eq!(state.json.to_string(), wanted);
        state.go(&review, &codegen, &phases);
        assert_eq!(
            state.actors().to_string(),
            r#"{"codegen":{"mine":true,"status":"pending","round":1},"x":null,"review":{"round":1,"status":"redo"}}"#
        );
        let read_again = read(std::str::from_utf8(&state.bytes()).unwrap()).unwrap();
        assert_eq!(read_again, state);
    }

    #[test]
    fn a_new_state_reads_back() {
        let state = StateFile::new("t1", &phases());
        assert_eq!(read(std::str::from_utf8(&state.bytes()).unwrap()).unwrap(), state);
    }
}
