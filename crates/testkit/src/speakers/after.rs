//! The cases of the contract that mean something else for a backend that only tells what was done.
//!
//! Nothing can be denied there: what is not allowed ends the session as soon as it is seen, and is told.

use std::sync::atomic::Ordering;

use ftl_agents::contract::{Counted, TOKENS};
use ftl_agents::error::AgentError;
use ftl_core::tool_policy::ToolAllowance;
use ftl_core::value::Name;

use super::cases::{Scene, submit, write};
use super::{Act, Cast, Heard, allowance};

/// Whether a backend only tells what was done.
pub(super) fn tells_after(cast: &dyn Cast) -> bool {
    match cast.play(&[submit()]).backend.enforces().calls {
        Counted::After => true,
        Counted::Before | Counted::Never => false,
    }
}

fn is_stopped(scene: &Scene, cast: &dyn Cast, acts: &[Act], wanted: &str) {
    let ended = scene.play(cast, acts);
    assert!(
        matches!(&ended.outcome, Err(AgentError::Stopped(why) | AgentError::Forbidden(why)) if why.contains(wanted)),
        "{ended:?}"
    );
}

/// How many calls were made that count. An answer may be handed in before the end of the session is felt; it
/// is not taken any more, and counts for nothing.
fn counted(heard: &Heard) -> usize {
    heard.made.iter().filter(|call| call.deed.is_counted()).count()
}

/// The first thing that it does elsewhere is its last.
pub(super) fn is_denied_outside_its_allowance(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    let acts = [write("src/one"), write("other.txt"), write("other2.txt"), submit()];
    is_stopped(&scene, cast, &acts, "other.txt may not be written here");
    let heard = scene.clerk.snapshot();
    assert_eq!((heard.denied.len(), counted(&heard)), (1, 1), "{heard:?}");
    assert_eq!(scene.text("other.txt").as_deref(), Some("text"), "it is the gates that find this");
}

/// The first call too many is its last.
pub(super) fn is_denied_when_its_calls_are_used_up(cast: &dyn Cast) {
    let scene = Scene::new(allowance(1));
    is_stopped(&scene, cast, &[write("src/one"), write("src/two"), submit()], "all 1 calls are used up");
    let heard = scene.clerk.snapshot();
    assert_eq!(counted(&heard), 1, "{heard:?}");
}

/// It has spent its tokens, and nothing more of it is heard.
pub(super) fn is_cut_off_at_the_budget(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    scene.clerk.budget.store(100, Ordering::Relaxed);
    let acts = [write("src/one").using(Some(80)), write("src/two").using(Some(80)), submit()];
    is_stopped(&scene, cast, &acts, "160 tokens are more than 100");
    let heard = scene.clerk.snapshot();
    assert_eq!((heard.total(TOKENS), counted(&heard)), (160, 1), "{heard:?}");
}

/// The session host ends it at a call.
pub(super) fn is_stopped_by_the_desk(cast: &dyn Cast) {
    let scene = Scene::new(allowance(9));
    scene.clerk.stops.store(true, Ordering::Relaxed);
    is_stopped(&scene, cast, &[write("src/one"), submit()], "tools spent");
}

/// A person should have been asked, and there was none: that ends it.
pub(super) fn is_asked_about_by_the_desk(cast: &dyn Cast) {
    let scene = Scene::new(ToolAllowance { ask: [Name::from("write")].into(), ..allowance(9) });
    is_stopped(
        &scene,
        cast,
        &[write("src/one"), submit()],
        "a person must be asked first: May it call write",
    );
}

/// What it says about itself is what the other cases prove.
pub(super) fn enforces_what_it_says(cast: &dyn Cast) {
    let stage = cast.play(&[submit()]);
    let enforced = stage.backend.enforces();
    assert!(enforced.tokens && enforced.money && enforced.cancel);
    assert!(!enforced.paths && !enforced.resume && !enforced.commands);
    assert_eq!(stage.backend.probe().usable, Ok(()));
}
