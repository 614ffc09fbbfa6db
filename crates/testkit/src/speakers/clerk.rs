//! A session host for tests: it rules by the pure rule, counts, charges a budget, and remembers everything.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ftl_agents::contract::{ChargeRefusal, Said, SessionHost, TOKENS, Verdict};
use ftl_agents::timing::Timing;
use ftl_core::run::Usage;
use ftl_core::tool_policy::{Ruling, ToolAllowance, ToolCall, rule};

/// What a session host was told.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// Calls that were made.
    pub made: Vec<ToolCall>,
    /// Calls that were denied, with why.
    pub denied: Vec<(ToolCall, String)>,
    /// The charges, in order.
    pub charged: Vec<Usage>,
    /// What was said, put together; what is void is gone.
    pub text: String,
    /// How many bytes were said.
    pub bytes: usize,
    /// How often a turn was taken again.
    pub again: usize,
    /// Whatever else was shown.
    pub shown: String,
    /// The names of sessions that can be taken up again.
    pub opened: Vec<String>,
    /// What calls brought: the tool and the text.
    pub results: Vec<(String, String)>,
    /// Calls of the program's own tools, with what they were given.
    pub own_calls: Vec<(String, serde_json::Value)>,
}

impl Heard {
    /// How much of a meter was charged.
    pub fn total(&self, meter: &str) -> u64 {
        self.charged.iter().filter_map(|usage| usage.get(meter)).sum()
    }
}

/// A host of sessions that records all that a backend tells it.
pub struct RecordingHost {
    allowance: ToolAllowance,
    /// How many tokens may be used.
    pub budget: AtomicU64,
    /// Stops the session at the next call.
    pub stops: AtomicBool,
    cancelled: AtomicBool,
    heard: Mutex<Heard>,
    changed: Condvar,
}

/// How much text is remembered.
const MAX_REMEMBERED: usize = 1024 * 1024;

impl RecordingHost {
    /// A session host that rules by an allowance.
    pub fn new(allowance: &ToolAllowance) -> RecordingHost {
        RecordingHost {
            allowance: allowance.clone(),
            budget: AtomicU64::new(u64::MAX),
            stops: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            heard: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it has recorded so far.
    pub fn snapshot(&self) -> Heard {
        self.lock().clone()
    }

    /// Cancels the session, as the engine does.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Waits until it has heard something. Panics after ten seconds.
    pub fn wait_until(&self, what: impl Fn(&Heard) -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        let mut heard = self.lock();
        while !what(&heard) {
            assert!(Instant::now() < end, "the desk has not heard it: {heard:?}");
            let waited = self.changed.wait_timeout(heard, Duration::from_millis(100));
            heard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl SessionHost for RecordingHost {
    fn rule(&self, call: &ToolCall) -> Verdict {
        if self.stops.load(Ordering::Relaxed) {
            return Verdict::Stop(String::from("tools spent"));
        }
        let mut heard = self.lock();
        let used = heard.made.iter().filter(|call| call.deed.is_counted()).count();
        let verdict = match rule(&self.allowance, used as u64, call) {
            Ruling::Allow => {
                heard.made.push(call.clone());
                Verdict::Allow
            }
            Ruling::Deny(why) => {
                heard.denied.push((call.clone(), why.clone()));
                Verdict::Deny(why)
            }
            Ruling::Ask(question) => Verdict::Ask(question),
        };
        drop(heard);
        self.changed.notify_all();
        verdict
    }

    fn on_result(&self, tool: &str, result: &str) {
        self.lock().results.push((tool.to_owned(), result.to_owned()));
    }

    fn on_own_call(&self, tool: &str, args: &serde_json::Value) {
        self.lock().own_calls.push((tool.to_owned(), args.clone()));
    }

    fn on_session_opened(&self, session: &str) {
        self.lock().opened.push(session.to_owned());
    }

    fn charge(&self, usage: &Usage) -> Result<(), ChargeRefusal> {
        let mut heard = self.lock();
        heard.charged.push(usage.clone());
        let spent = heard.total(TOKENS);
        drop(heard);
        self.changed.notify_all();
        let budget = self.budget.load(Ordering::Relaxed);
        if spent > budget {
            return Err(ChargeRefusal(format!("{spent} tokens are more than {budget}")));
        }
        Ok(())
    }

    fn say(&self, said: Said<'_>) {
        let mut heard = self.lock();
        match said {
            Said::Text(text) => {
                heard.bytes += text.len();
                if heard.text.len() < MAX_REMEMBERED {
                    heard.text.push_str(text);
                }
            }
            Said::Again => {
                heard.text.clear();
                heard.again += 1;
            }
            Said::Thought(_) | Said::Call(..) | Said::Back(..) => {
                heard.shown.push_str(&format!("{said:?}\n"));
            }
        }
        drop(heard);
        self.changed.notify_all();
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// A clock that runs, and waits that do not: each is written down.
pub struct FakeTime {
    began: Instant,
    waits: Mutex<Vec<Duration>>,
    throw: u64,
}

impl FakeTime {
    /// A clock whose dice always fall the same way.
    pub fn new(throw: u64) -> FakeTime {
        FakeTime { began: Instant::now(), waits: Mutex::default(), throw }
    }

    /// Every wait so far.
    pub fn waits(&self) -> Vec<Duration> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Timing for FakeTime {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn pause(&self, time: Duration, host: &dyn SessionHost) -> bool {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).push(time);
        !host.is_cancelled()
    }

    fn throw(&self) -> u64 {
        self.throw
    }
}
