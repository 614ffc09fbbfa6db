//! The lifecycle of a task, as its folder `.ftl/tasks/<id>/` shows it: artifacts read and bound, and the edges that they open.
//!
//! Everything here reads files and says what they show; an artifact that is not what its schema says is
//! [`Malformed`], with its place, and never an absence and never ok. What a flag claims is never believed
//! where the findings beside it say otherwise. Older shapes are read and never written.
//!
//! | module | what it holds |
//! |---|---|
//! | `phases` | the phases as the document has them: words, work, edges, routes; older names |
//! | `artifact` | one JSON file with the place of everything in it |
//! | `folder` | a task's folder: what lies where, digests, versions, the transcript |
//! | `state` | `state.json` |
//! | `plan`, `questions` | the plan, its files, its open questions |
//! | `plan_review`, `code`, `patch`, `code_review`, `report`, `decision`, `record` | the other artifacts |
//! | `binding` | to what evidence without a digest is bound |
//! | `gate_answers` | the gates of the artifacts, each looked through once |
//! | `edges` | every edge of a phase with what it needs, as the interpreter answers |
//! | `registry` | tasks and their runs: adoption, the projection of the journal, the current task |
//! | `write` | artifacts that `ftl` writes |

pub mod artifact;
pub mod binding;
pub mod code;
pub mod code_review;
pub mod decision;
pub mod edges;
pub mod folder;
pub mod gate_answers;
pub mod patch;
pub mod phases;
pub mod plan;
pub mod plan_review;
pub mod questions;
pub mod record;
pub mod registry;
pub mod report;
mod signals;
pub mod state;
pub mod write;

pub use artifact::Malformed;
pub use folder::{TaskFolder, TaskId};
pub use phases::{Phase, Phases};
