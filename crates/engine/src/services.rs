//! Services that do not answer: how long to leave each alone, and when to ask it again.
//!
//! A service is asked by one probe, however many actions wait for it, so that its return is no
//! stampede. Nothing here burns an attempt. The time to wait grows with each failure in a row; its
//! spread comes from the names involved, not from chance, so that a run can be simulated.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ftl_core::run::{ActionId, InstanceId, STOPPED, Time};
use sha2::{Digest as _, Sha256};

use ftl_folder::clock::millis;

/// The first wait for a service.
const FIRST: Duration = Duration::from_secs(1);

/// The longest wait for a service that said nothing about when it will be back.
pub const MAX_BACK_OFF: Duration = Duration::from_secs(5 * 60);

/// The longest that a service may ask to be left alone.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// How much is told of why a service does not answer.
pub const MAX_WHY_LETTERS: usize = 120;

/// What is between the name of a service and why it does not answer.
const WHY: &str = " (";

/// A service with why it does not answer: its address and the first line of what was heard.
pub fn describe_outage(service: &str, why: &str) -> String {
    let why: String = why.lines().next().unwrap_or_default().chars().take(MAX_WHY_LETTERS).collect();
    if why.is_empty() { service.to_owned() } else { format!("{service}{WHY}{why})") }
}

/// The name of a service, whatever is told of it.
pub fn name_of(told: &str) -> &str {
    told.split_once(WHY).map_or(told, |(name, _)| name)
}

/// What is known of services that did not answer.
#[derive(Debug, Default)]
pub struct Services {
    failures: BTreeMap<String, u32>,
    waiting: BTreeMap<(InstanceId, ActionId), String>,
    probing: BTreeSet<String>,
    up: BTreeSet<String>,
}

impl Services {
    /// An action found a service silent: when to ask again.
    pub fn silent(
        &mut self,
        action: (InstanceId, ActionId),
        service: &str,
        after: Option<Duration>,
        now: Time,
    ) -> Time {
        let name = name_of(service);
        let failures = self.failures.entry(name.to_owned()).or_default();
        *failures = failures.saturating_add(1);
        let wait = back_off(name, *failures).max(after.unwrap_or_default().min(MAX_RETRY_AFTER));
        self.waiting.insert(action, name.to_owned());
        now.saturating_add(millis(wait))
    }

    /// An action came to another end than an outage: its service answers again.
    pub fn answered(&mut self, action: (InstanceId, ActionId)) {
        if let Some(service) = self.waiting.remove(&action) {
            self.failures.remove(&service);
        }
    }

    /// Which of the services that are due must be probed now; those that are being probed are left out.
    pub fn to_probe<'a>(&mut self, due: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut asked = Vec::new();
        for service in due {
            let known = service == STOPPED || self.up.contains(service);
            if !known && self.probing.insert(service.to_owned()) {
                asked.push(service.to_owned());
            }
        }
        asked
    }

    /// Whether an answer of a probe is still to come.
    pub fn is_probing(&self) -> bool {
        !self.probing.is_empty()
    }

    /// A probe came back.
    pub fn probed(&mut self, service: &str, up: bool) {
        self.probing.remove(service);
        if up {
            self.up.insert(service.to_owned());
        }
    }

    /// Notes that the actions that waited were asked again.
    pub fn ticked(&mut self) {
        self.up.clear();
    }
}

/// How long to wait after so many failures in a row: twice as long each time, give or take a fifth.
fn back_off(service: &str, failures: u32) -> Duration {
    let whole = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(12)).min(MAX_BACK_OFF);
    let seed = Sha256::digest(format!("{service} {failures}"));
    let spread = u32::from(seed[0]) * 400 / 255;
    whole.saturating_mul(800 + spread) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftl_core::run::ROOT;

    const ACTION: (InstanceId, ActionId) = (ROOT, ActionId { entry: 3, index: 0 });

    #[test]
    fn waits_grow_to_a_limit_and_start_again_after_an_answer() {
        let mut services = Services::default();
        let mut last = 0;
        for _ in 0..20 {
            let wait = services.silent(ACTION, "model", None, 0);
            assert!(wait <= millis(MAX_BACK_OFF) * 12 / 10, "{wait}");
            last = wait;
        }
        assert!(last >= millis(MAX_BACK_OFF) * 8 / 10);
        services.answered(ACTION);
        assert!(services.silent(ACTION, "model", None, 0) < 1300);
    }

    #[test]
    fn why_a_service_is_silent_is_told_and_changes_nothing() {
        let one = describe_outage("model", "http://127.0.0.1:9/v1: refused\nmore");
        assert_eq!((one.as_str(), name_of(&one)), ("model (http://127.0.0.1:9/v1: refused)", "model"));
        assert_eq!((describe_outage("model", "").as_str(), name_of("model")), ("model", "model"));
        assert_eq!(
            describe_outage("it", &"x".repeat(MAX_WHY_LETTERS + 1)),
            format!("it ({})", "x".repeat(MAX_WHY_LETTERS))
        );
        let mut services = Services::default();
        let first = services.silent(ACTION, "model (refused)", None, 0);
        let other = (ROOT, ActionId { entry: 4, index: 0 });
        assert!(services.silent(other, "model (timed out)", None, 0) > first, "it is the same service");
    }

    #[test]
    fn a_service_may_ask_for_more_but_not_for_ever() {
        let mut services = Services::default();
        let hour = millis(MAX_RETRY_AFTER);
        assert_eq!(services.silent(ACTION, "a", Some(Duration::from_secs(90)), 5), 90_005);
        assert_eq!(services.silent(ACTION, "b", Some(Duration::from_secs(1 << 40)), 0), hour);
    }

    #[test]
    fn a_service_is_probed_once_for_all_who_wait() {
        let mut services = Services::default();
        assert_eq!(services.to_probe(["m", "m", STOPPED, "n"].into_iter()), ["m", "n"]);
        assert!(services.to_probe(["m"].into_iter()).is_empty() && services.is_probing());
        services.probed("m", true);
        services.probed("n", false);
        assert_eq!(services.to_probe(["m", "n"].into_iter()), ["n"]);
        services.ticked();
        assert_eq!(services.to_probe(["m"].into_iter()), ["m"]);
    }
}
