//! The `model` backend: our own loop of tools against a model service.
//!
//! The loop asks, charges, rules and asks again until the model submits. A service that is busy is asked
//! again with growing waits; one that stays busy is an outage and burns no attempt. What a service does
//! not report stays unknown. Nothing here decides what the answer means.

mod anthropic;
mod chat;
pub mod concurrency;
mod constrained;
mod dialect;
pub mod history;
pub mod price;
mod responses;
pub mod sse;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

use std::collections::BTreeSet;
use std::sync::Arc;

use ftl_core::run::Usage;
use ftl_core::value::Name;
use serde_json::Value as Json;

use crate::contract::{
    AgentSession, Backend, ChargeRefusal, Counted, Enforced, MAX_CORRECTIONS, MONEY, PartKind, ProbeResult,
    PromptPart, Said, SessionHost, SessionLimits, SessionOrder, TOKEN_PARTS, TOKENS, TURNS, TurnRest,
    Unusable,
};
use crate::error::AgentError;
use crate::secrets::{Pieces, SecretKey, Secrets};
use crate::timing::{RetryPolicy, Timing};
use crate::toolset::{Done, SUBMIT, Toolset};
use concurrency::ConcurrencyLimit;
pub use dialect::Dialect;
use dialect::{Ask, Bit, Miss, Reply, Stop, error_of, miss_of};
use history::{CallOutcome, ChatEntry, ChatHistory, ModelCall};
use price::Prices;
use sse::Sse;
use wire::{Abort, Head, NoAnswer, Watch, Wire};

/// How much of the room for a conversation is used before it is shortened, in hundredths.
const FULL: u64 = 90;

/// To how much of the room it is shortened, in hundredths.
const SHORTENED: u64 = 60;

/// How many bytes a token is taken for until the service has said how many there were.
const BYTES_A_TOKEN: u64 = 3;

/// A model service, as the settings describe it.
#[derive(Debug)]
pub struct ModelEndpoint {
    /// What it is called in the settings; outages are told under this name.
    pub name: String,
    /// The address up to `/v1`.
    pub url: String,
    /// The wire format that it speaks.
    pub dialect: Dialect,
    /// The model, where an order names none.
    pub model: String,
    /// The key, if it wants one.
    pub key: Option<SecretKey>,
    /// How many tokens fit into the model.
    pub context: u64,
    /// How many tokens an answer may have.
    pub max_output: Option<u64>,
    /// Whether it holds an answer to a schema.
    pub structured: bool,
    /// How its models call tools.
    pub calls: Calls,
    /// The prices of its models.
    pub prices: Prices,
    /// How often it is asked again.
    pub retry: RetryPolicy,
    /// How many requests it gets at the same time.
    pub seats: ConcurrencyLimit,
}

/// How a model calls tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// As its service has it.
    #[default]
    Native,
    /// By an answer that the service holds to a schema: for models that write calls as text. Chat only.
    Schema,
}

impl Calls {
    /// The words in settings.
    pub const WORDS: [&str; 2] = ["native", "schema"];

    /// The calls of a word.
    pub fn parse(word: &str) -> Option<Calls> {
        match word {
            "native" => Some(Calls::Native),
            "schema" => Some(Calls::Schema),
            _ => None,
        }
    }
}

/// The backend of an endpoint.
pub struct Model {
    endpoint: Arc<ModelEndpoint>,
    secrets: Arc<Secrets>,
    timing: Arc<dyn Timing>,
}

impl Model {
    /// A backend that speaks to an endpoint. The key of the endpoint should be among the secrets.
    pub fn new(endpoint: ModelEndpoint, secrets: Arc<Secrets>, timing: Arc<dyn Timing>) -> Model {
        Model { endpoint: Arc::new(endpoint), secrets, timing }
    }
}

impl Backend for Model {
    fn name(&self) -> &str {
        &self.endpoint.name
    }

    fn enforces(&self) -> Enforced {
        Enforced {
            calls: Counted::Before,
            paths: true,
            commands: false,
            tokens: true,
            money: self.endpoint.prices.of(&self.endpoint.model).is_some(),
            cancel: true,
            resume: false,
            structured: self.endpoint.structured,
        }
    }

    fn probe(&self) -> ProbeResult {
        let endpoint = &self.endpoint;
        let limits = SessionLimits { silence: PROBE_TIME, whole: PROBE_TIME, ..SessionLimits::default() };
        let watch = Watch::new(Arc::new(Nobody), self.timing.clone(), limits);
        let url = format!("{}/models", endpoint.url.trim_end_matches('/'));
        let found = Wire::new(Arc::new(watch)).get(&url, &endpoint.dialect.headers(endpoint.key.as_ref()));
        let usable = match found {
            Ok(head) if matches!(head.status, 401 | 403) => {
                Err(format!("{} refuses the key ({})", endpoint.name, head.status))
            }
            // Not every server lists its models; one that answers is there.
            Ok(head) if head.status < 500 => Ok(()),
            Ok(head) => Err(format!("{} answers {}", endpoint.name, head.status)),
            Err(NoAnswer::Aborted(_)) => {
                Err(format!("{} does not answer within {PROBE_TIME:?}", endpoint.name))
            }
            Err(NoAnswer::Unreached(why) | NoAnswer::Wrong(why)) => {
                Err(self.secrets.redact(&format!("{} cannot be reached: {why}", endpoint.name)))
            }
        };
        ProbeResult {
            usable: usable.map_err(Unusable),
            what: format!("{} at {}, {}", endpoint.model, endpoint.url, endpoint.dialect.word()),
        }
    }

    fn open(
        &self,
        order: SessionOrder,
        host: Arc<dyn SessionHost>,
    ) -> Result<Box<dyn AgentSession>, AgentError> {
        let toolset = Toolset::new(&order, host.clone(), self.secrets.clone())?;
        let watch = Arc::new(Watch::new(host.clone(), self.timing.clone(), order.limits));
        Ok(Box::new(Chatter {
            model: order.model.clone().unwrap_or_else(|| self.endpoint.model.clone()),
            endpoint: self.endpoint.clone(),
            secrets: self.secrets.clone(),
            timing: self.timing.clone(),
            wire: Wire::new(watch),
            order,
            host,
            toolset,
            talk: ChatHistory::default(),
            pending: None,
            requests: 0,
            cut_off: 0,
            ratio: (1, BYTES_A_TOKEN),
            unknown: BTreeSet::new(),
        }))
    }
}

/// How long a probe waits.
const PROBE_TIME: std::time::Duration = std::time::Duration::from_secs(5);

/// The session host of a probe: nothing is called, nothing is spent.
struct Nobody;

impl SessionHost for Nobody {
    fn rule(&self, _: &ftl_core::tool_policy::ToolCall) -> crate::contract::Verdict {
        crate::contract::Verdict::Deny(String::from("a probe calls nothing"))
    }

    fn charge(&self, _: &Usage) -> Result<(), ChargeRefusal> {
        Ok(())
    }

    fn say(&self, _: Said<'_>) {}

    fn is_cancelled(&self) -> bool {
        false
    }
}

/// A session with a model, in our own loop of tools.
struct Chatter {
    endpoint: Arc<ModelEndpoint>,
    model: String,
    order: SessionOrder,
    host: Arc<dyn SessionHost>,
    secrets: Arc<Secrets>,
    timing: Arc<dyn Timing>,
    toolset: Toolset,
    wire: Wire,
    talk: ChatHistory,
    /// Calls whose results wait for what is said next: the last one is answered by it.
    pending: Option<Vec<CallOutcome>>,
    requests: u32,
    /// How many answers in a row were cut off.
    cut_off: u32,
    /// Tokens and bytes of the last request whose tokens are known.
    ratio: (u64, u64),
    unknown: BTreeSet<Name>,
}

impl AgentSession for Chatter {
    fn turn(&mut self, words: &[PromptPart]) -> Result<TurnRest, AgentError> {
        self.hear(words);
        loop {
            if self.requests >= self.order.limits.requests {
                let most = self.order.limits.requests;
                return Err(AgentError::Bad(format!(
                    "the model was asked {most} times and has not submitted"
                )));
            }
            self.requests += 1;
            let reply = self.answered()?;
            self.charge(&reply)?;
            self.talk
                .entries
                .push(ChatEntry::Theirs { text: reply.text.clone(), calls: reply.calls.clone() });
            if let Some(rest) = self.act(&reply)? {
                return Ok(rest);
            }
        }
    }

    fn unknown(&self) -> BTreeSet<Name> {
        self.unknown.clone()
    }

    fn close(self: Box<Self>) {}
}

impl Chatter {
    /// Takes in what is said to the model; the result of a call that waits for it, if there is one.
    fn hear(&mut self, words: &[PromptPart]) {
        let Some(mut results) = self.pending.take() else {
            return self.talk.entries.push(ChatEntry::Ours(words.to_vec()));
        };
        let text: Vec<&str> = words.iter().map(|part| part.text.as_str()).collect();
        if let Some(last) = results.last_mut() {
            last.text = text.join("\n\n");
        }
        self.talk.entries.push(ChatEntry::Results(results));
    }

    /// Makes room, asks, and makes more room if the service says that there is too little.
    fn answered(&mut self) -> Result<Reply, AgentError> {
        let room = self.endpoint.context.saturating_sub(self.endpoint.max_output.unwrap_or(0)).max(1);
        if self.tokens_now() > room * FULL / 100 {
            self.shorten(room * SHORTENED / 100)?;
        }
        let mut shortened = false;
        loop {
            match self.patiently()? {
                Ok(reply) => return Ok(reply),
                Err(why) if shortened => {
                    return Err(AgentError::CouldNotRun(format!("the conversation does not fit: {why}")));
                }
                Err(_) => {
                    shortened = true;
                    self.shorten(self.tokens_now() / 2)?;
                }
            }
        }
    }

    /// About how many tokens the next request has.
    fn tokens_now(&self) -> u64 {
        let (tokens, bytes) = self.ratio;
        u64::try_from(self.bytes()).unwrap_or(u64::MAX).saturating_mul(tokens) / bytes.max(1)
    }

    fn bytes(&self) -> usize {
        let tools = self.toolset.tools().iter().map(|tool| tool.about.len() + 200);
        self.talk.bytes() + self.order.system.len() + tools.sum::<usize>()
    }

    fn shorten(&mut self, tokens: u64) -> Result<(), AgentError> {
        let (per, bytes) = self.ratio;
        let most = usize::try_from(tokens.saturating_mul(bytes) / per.max(1)).unwrap_or(usize::MAX);
        let fixed = self.bytes() - self.talk.bytes();
        if self.talk.shorten(most.saturating_sub(fixed)) || self.tokens_now() < self.endpoint.context {
            return Ok(());
        }
        let context = self.endpoint.context;
        Err(AgentError::CouldNotRun(format!("what must be said does not fit into {context} tokens")))
    }

    /// Asks until there is an answer, with growing waits; the inner error says that it is too long.
    fn patiently(&mut self) -> Result<Result<Reply, String>, AgentError> {
        let mut made = 0;
        loop {
            made += 1;
            let miss = match self.once()? {
                Ok(reply) => return Ok(Ok(reply)),
                Err(miss) => miss,
            };
            let (why, after, broken) = match miss {
                Miss::TooLong(why) => return Ok(Err(self.secrets.redact(&why))),
                Miss::Bad(why) => return Err(AgentError::Bad(self.secrets.redact(&why))),
                Miss::Refused(why) => return Err(self.refuse_answer(&why)),
                Miss::Busy { why, after } => (why, after, false),
                Miss::Broken(why) => (why, None, true),
            };
            let why = self.secrets.redact(&why);
            let Some(wait) = self.endpoint.retry.wait(made, after, self.timing.throw()) else {
                return Err(match broken {
                    true => AgentError::Died(format!("{} broke off {made} times: {why}", self.endpoint.name)),
                    false => {
                        let (service, url) = (self.endpoint.name.clone(), &self.endpoint.url);
                        AgentError::Outage {
                            service,
                            why: self.secrets.redact(&format!("{url}: {why}")),
                            after,
                            claimed: false,
                        }
                    }
                });
            };
            self.host.say(Said::Again);
            if !self.timing.pause(wait, &*self.host) {
                return Err(AgentError::Cancelled);
            }
        }
    }

    fn refuse_answer(&self, why: &str) -> AgentError {
        let name = &self.endpoint.name;
        AgentError::CouldNotRun(self.secrets.redact(&format!("{name} refuses: {why}")))
    }

    /// Sends the conversation once, without trying again.
    fn once(&mut self) -> Result<Result<Reply, Miss>, AgentError> {
        let endpoint = self.endpoint.clone();
        let _seat = endpoint.seats.take(&*self.host)?;
        let body = match endpoint.calls {
            Calls::Native => endpoint.dialect.body(&self.ask()).to_string(),
            Calls::Schema => constrained::body(&self.ask()).to_string(),
        };
        let url = format!("{}{}", endpoint.url.trim_end_matches('/'), endpoint.dialect.path());
        let head = match self.wire.post(&url, &endpoint.dialect.headers(endpoint.key.as_ref()), &body) {
            Ok(head) => head,
            Err(NoAnswer::Aborted(abort)) => return Err(self.aborted(abort)),
            Err(NoAnswer::Unreached(why)) => return Ok(Err(Miss::Busy { why, after: None })),
            Err(NoAnswer::Wrong(why)) => return Ok(Err(Miss::Refused(why))),
        };
        if head.status != 200 {
            return Ok(Err(bad_status(head)));
        }
        if !head.kind.starts_with("text/event-stream") {
            let kind = if head.kind.is_empty() { "nothing" } else { &head.kind };
            return Ok(Err(Miss::Refused(format!("it answers with {kind} and not with a stream of events"))));
        }
        let read = self.stream(head);
        if let Ok(Err(_)) | Err(_) = &read {
            // The service has begun to answer, and will charge for that; how much was not reported.
            self.unknown.extend([Name::from(TOKENS), Name::from(MONEY)]);
        }
        read
    }

    fn ask(&self) -> Ask<'_> {
        let tools = self.toolset.tools();
        let only_answers = self.endpoint.structured && tools.iter().all(|tool| tool.name == SUBMIT);
        Ask {
            model: &self.model,
            system: &self.order.system,
            talk: &self.talk,
            tools,
            answer_only: only_answers.then_some(&self.order.answer),
            max_output: self.endpoint.max_output,
        }
    }

    /// Reads a stream to its end.
    fn stream(&self, mut head: Head) -> Result<Result<Reply, Miss>, AgentError> {
        let mut reader = self.endpoint.dialect.reader();
        let (mut sse, mut events, mut bytes) = (Sse::default(), Vec::new(), vec![0; 16 * 1024]);
        let mut seen = Pieces::default();
        loop {
            let count = match head.read(&mut bytes) {
                Ok(count) => count,
                Err(error) => match self.wire.watch.abort() {
                    Some(abort) => return Err(self.aborted(abort)),
                    None => return Ok(Err(Miss::Broken(format!("the connection broke: {error}")))),
                },
            };
            if let Err(error) = sse.push(&bytes[..count], &mut events) {
                return Ok(Err(Miss::Bad(error.to_string())));
            }
            let mut is_over = count == 0;
            for event in events.drain(..) {
                self.wire.watch.hear();
                match reader.event(&event, &mut |bit| self.show(&mut seen, &bit)) {
                    Ok(done) => is_over |= done,
                    Err(miss) => return Ok(Err(miss)),
                }
            }
            if is_over {
                self.say(&seen.finish(&self.secrets));
                let reply = reader.reply();
                return Ok(match self.endpoint.calls {
                    Calls::Native => reply,
                    Calls::Schema => reply.and_then(constrained::reply),
                });
            }
            if let Some(abort) = self.wire.watch.abort() {
                return Err(self.aborted(abort));
            }
        }
    }

    fn show(&self, seen: &mut Pieces, bit: &Bit<'_>) {
        match bit {
            // Half of a call is nothing to read.
            Bit::Text(_) if self.endpoint.calls == Calls::Schema => {}
            Bit::Text(text) => self.say(&seen.push(&self.secrets, text)),
            Bit::Thought(text) => self.host.say(Said::Thought(&self.secrets.redact(text))),
        }
    }

    fn say(&self, text: &str) {
        if !text.is_empty() {
            self.host.say(Said::Text(text));
        }
    }

    fn aborted(&self, abort: Abort) -> AgentError {
        let (name, limits) = (&self.endpoint.name, &self.order.limits);
        match abort {
            Abort::Cancelled => AgentError::Cancelled,
            Abort::Silent => AgentError::TimedOut(format!("{name} said nothing for {:?}", limits.silence)),
            Abort::Late => {
                AgentError::TimedOut(format!("{name} took longer than {:?} for an answer", limits.whole))
            }
        }
    }

    /// Charges what the service says that it used.
    fn charge(&mut self, reply: &Reply) -> Result<(), AgentError> {
        let mut usage = Usage::from([(Name::from(TURNS), 1)]);
        let price = self.endpoint.prices.of(&self.model);
        match reply.tokens {
            Some(tokens) => {
                usage.insert(Name::from(TOKENS), tokens.all());
                let parts = [tokens.input.saturating_add(tokens.stored), tokens.cached, tokens.output];
                usage.extend(TOKEN_PARTS.map(Name::from).into_iter().zip(parts));
                if tokens.input_total() > 0 {
                    self.ratio = (tokens.input_total(), self.bytes() as u64);
                }
            }
            None => drop(self.unknown.insert(Name::from(TOKENS))),
        }
        match reply.tokens.zip(price) {
            Some((tokens, price)) => drop(usage.insert(Name::from(MONEY), price.of(&tokens))),
            None => drop(self.unknown.insert(Name::from(MONEY))),
        }
        self.host.charge(&usage).map_err(|refusal| AgentError::Stopped(refusal.to_string()))
    }

    /// Does what the model wants; nothing if it is to be asked again.
    fn act(&mut self, reply: &Reply) -> Result<Option<TurnRest>, AgentError> {
        if reply.stop == Stop::Refused {
            return Err(AgentError::Bad(String::from("the model refuses to answer")));
        }
        self.count_cut_off(reply)?;
        if reply.calls.is_empty() {
            if reply.stop == Stop::Length {
                let text = "Your answer was cut off because it is too long. Answer again, shorter, or in several steps.";
                self.talk.entries.push(ChatEntry::Ours(vec![PromptPart::new(PartKind::Feedback, text)]));
                return Ok(None);
            }
            return Ok(Some(TurnRest::Said(self.secrets.redact(&reply.text))));
        }
        self.calls(&reply.calls)
    }

    /// Counts answers that were cut off in a row, as often as answers may not fit: a small model that fills a list until
    /// it is stopped does so again.
    fn count_cut_off(&mut self, reply: &Reply) -> Result<(), AgentError> {
        self.cut_off = if reply.stop == Stop::Length { self.cut_off + 1 } else { 0 };
        if self.cut_off <= MAX_CORRECTIONS {
            return Ok(());
        }
        let most =
            self.endpoint.max_output.map(|most| format!(" at max_output = {most}")).unwrap_or_default();
        Err(AgentError::Bad(format!("{} answers in a row were cut off{most}", self.cut_off)))
    }

    fn calls(&mut self, calls: &[ModelCall]) -> Result<Option<TurnRest>, AgentError> {
        let mut results: Vec<CallOutcome> = Vec::new();
        let mut rest: Option<(TurnRest, String)> = None;
        for call in calls {
            if rest.is_some() {
                results.push(outcome(&call.id, "not made: you had ended your turn".into(), true));
                continue;
            }
            match self.execute_call(call) {
                Done::Back(text) => results.push(outcome(&call.id, text, false)),
                Done::Wrong(text) => results.push(outcome(&call.id, text, true)),
                Done::Submitted(json) => rest = Some((TurnRest::Submitted(json), call.id.clone())),
                Done::Asked(question) => rest = Some((TurnRest::Asked(question), call.id.clone())),
                Done::Over(trouble) => return Err(trouble),
            }
        }
        let Some((rest, id)) = rest else {
            self.talk.entries.push(ChatEntry::Results(results));
            return Ok(None);
        };
        // Every call needs a result: that of the last word is whatever is said next, and is kept.
        let wrong = matches!(rest, TurnRest::Submitted(_));
        results.push(CallOutcome { id, text: String::new(), wrong, kept: true });
        self.pending = Some(results);
        Ok(Some(rest))
    }

    fn execute_call(&self, call: &ModelCall) -> Done {
        match call.json() {
            Ok(args) => self.toolset.call(&call.name, &args),
            Err(error) => Done::Wrong(error.to_string()),
        }
    }
}

fn outcome(id: &str, text: String, wrong: bool) -> CallOutcome {
    CallOutcome { id: id.to_owned(), text, wrong, kept: false }
}

/// What an answer with another status than 200 means.
fn bad_status(head: Head) -> Miss {
    let (status, after) = (head.status, head.after);
    let text = head.text();
    let body: Json = serde_json::from_str(&text).unwrap_or(Json::Null);
    let first = text.lines().next().unwrap_or_default().chars().take(200).collect();
    let (kind, message) = error_of(&body).unwrap_or((String::new(), first));
    miss_of(Some(status), &kind, &message, after)
}
