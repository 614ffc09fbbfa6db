//! The wire: the official crate of the Agent Client Protocol, driven line by line.
//!
//! The crate knows JSON-RPC and the messages of the protocol, and wants a runtime. It gets none: a line is
//! handed in, the connection is polled until it has nothing more to do, and what came of it is taken out. So
//! nothing is read ahead, one line is worked on at a time, and no thread waits. Nothing outside of this
//! module knows the crate. What comes in stays JSON: an agent may say more than any version knows.

use std::collections::VecDeque;
use std::future::{Future, pending, ready};
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    CancelNotification, ClientCapabilities, ContentBlock, EnvVariable, FileSystemCapabilities,
    Implementation, InitializeRequest, LoadSessionRequest, McpServer, McpServerStdio, NewSessionRequest,
    PromptRequest, SetSessionConfigOptionRequest, SetSessionModeRequest, TextContent,
};
use agent_client_protocol::v1::{ConnectionTo, Dispatch, Responder};
use agent_client_protocol::{
    Agent, Client, Error, ErrorCode, Handled, JsonRpcMessage, Lines, UntypedMessage,
};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use serde_json::Value as Json;

use super::settings::Serves;
use crate::error::AgentError;
use crate::launch::InputChannel;
use crate::mcp_endpoint::Server;

/// What the window is called among the servers of an agent; its tools carry this name.
pub(super) const SERVER: &str = "ftl";

/// How much an agent is told in one turn: one that asks and does not read is ended.
pub const MAX_TOLD_BYTES: usize = 64 * 1024 * 1024;

/// Something that an agent said.
#[derive(Debug)]
pub(super) enum News {
    /// A notification: its method and its parameters.
    Told(String, Json),
    /// It asks us something, and waits.
    Asked(String, Json, Reply),
    /// It answers what we asked under this number.
    Answered(u64, Result<Json, Refusal>),
}

/// An error of JSON-RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The number of JSON-RPC.
    pub(super) code: i32,
    /// The reason, as the agent gave it.
    pub(super) why: String,
}

/// Where an answer to an agent goes. One that is dropped answers with an error.
#[derive(Debug)]
pub(super) struct Reply(Box<Responder<Json>>);

impl Reply {
    /// Sends this as the answer.
    pub(super) fn with(self, answer: Json) {
        let _ = self.0.respond(answer);
    }

    /// Refuses, with a reason that the agent gets to see.
    pub(super) fn refuse(self, why: &str) {
        let _ = self.0.respond_with_error(Error::new(ErrorCode::INVALID_PARAMS, why));
    }

    /// What it is about is not there.
    pub(super) fn missing(self, why: &str) {
        let _ = self.0.respond_with_error(Error::new(ErrorCode::RESOURCE_NOT_FOUND, why));
    }

    /// Refuses a method that is not known here.
    pub(super) fn unknown(self) {
        let _ = self.0.respond_with_error(Error::method_not_found());
    }
}

type Inbox = Arc<Mutex<VecDeque<News>>>;

/// A connection to an agent.
pub(super) struct Wire {
    connection: Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>,
    woken: Arc<Woken>,
    lines: UnboundedSender<io::Result<String>>,
    link: ConnectionTo<Agent>,
    inbox: Inbox,
    told: Arc<AtomicUsize>,
    asked: u64,
    over: Option<String>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

fn push(inbox: &Inbox, news: News) {
    inbox.lock().unwrap_or_else(PoisonError::into_inner).push_back(news);
}

impl Wire {
    /// A connection that writes to a program.
    pub(super) fn open(input: Arc<dyn InputChannel>) -> Result<Wire, String> {
        let (lines, incoming) = unbounded();
        let told = Arc::new(AtomicUsize::new(0));
        let counted = told.clone();
        let outgoing = futures::sink::unfold((), move |(), line: String| {
            counted.fetch_add(line.len(), Ordering::Relaxed);
            ready(input.write(format!("{line}\n").as_bytes()).map_err(io::Error::other))
        });
        let (inbox, slot) = (Inbox::default(), Arc::new(Mutex::new(None)));
        let (heard, given) = (inbox.clone(), slot.clone());
        let connection = Client
            .v1()
            .name("ftl")
            .on_receive_dispatch(
                async move |message: Dispatch<UntypedMessage, UntypedMessage>, _| match message {
                    Dispatch::Request(asked, reply) => {
                        push(&heard, News::Asked(asked.method, asked.params, Reply(Box::new(reply))));
                        Ok(Handled::Yes)
                    }
                    Dispatch::Notification(told) => {
                        push(&heard, News::Told(told.method, told.params));
                        Ok(Handled::Yes)
                    }
                    message @ Dispatch::Response(..) => Ok(Handled::No { message, retry: false }),
                },
                agent_client_protocol::on_receive_dispatch!(),
            )
            .connect_with(Lines::new(outgoing, incoming), async move |link| {
                *given.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
                pending::<Result<(), Error>>().await
            });
        let mut connection: Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> = Box::pin(connection);
        let woken = Arc::new(Woken::default());
        let over = run(&mut connection, &woken);
        let link = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let link = link.ok_or_else(|| over.clone().unwrap_or_else(|| String::from("no connection")))?;
        Ok(Wire { connection, woken, lines, link, inbox, told, asked: 0, over })
    }

    /// Takes in one line of the agent.
    pub(super) fn hear(&mut self, line: String) -> Result<(), AgentError> {
        let _ = self.lines.unbounded_send(Ok(line));
        self.run()
    }

    /// The next thing that the agent said.
    pub(super) fn next(&mut self) -> Option<News> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Lets answers go out. An error when the agent does not read them.
    pub(super) fn run(&mut self) -> Result<(), AgentError> {
        if self.over.is_none() {
            self.over = run(&mut self.connection, &self.woken);
        }
        if self.told.load(Ordering::Relaxed) > MAX_TOLD_BYTES {
            let why = format!("the agent asked for more than {MAX_TOLD_BYTES} bytes in one turn");
            return Err(AgentError::Bad(why));
        }
        let over =
            |why: &String| Err(AgentError::Died(format!("the agent cannot be spoken to any more: {why}")));
        self.over.as_ref().map_or(Ok(()), over)
    }

    /// A turn begins: what the agent was told before does not count.
    pub(super) fn begin(&mut self) {
        self.told.store(0, Ordering::Relaxed);
    }

    /// Says who we are and what we serve.
    pub(super) fn initialize(&mut self, serves: Serves) -> Result<u64, AgentError> {
        let files = FileSystemCapabilities::new().read_text_file(serves.read).write_text_file(serves.write);
        let able = ClientCapabilities::new().fs(files).terminal(serves.terminal);
        let us = Implementation::new("ftl", env!("CARGO_PKG_VERSION"));
        self.ask(&InitializeRequest::new(ProtocolVersion::V1).client_capabilities(able).client_info(us))
    }

    /// Opens a session in a folder, with a server of tools.
    pub(super) fn open_session(&mut self, folder: &Path, server: Option<&Server>) -> Result<u64, AgentError> {
        self.ask(&NewSessionRequest::new(folder).mcp_servers(servers(server)))
    }

    /// Takes up a session that was opened before.
    pub(super) fn load_session(
        &mut self,
        session: &str,
        folder: &Path,
        server: Option<&Server>,
    ) -> Result<u64, AgentError> {
        self.ask(&LoadSessionRequest::new(session.to_owned(), folder).mcp_servers(servers(server)))
    }

    /// Sets the mode of a session.
    pub(super) fn set_mode(&mut self, session: &str, mode: &str) -> Result<u64, AgentError> {
        self.ask(&SetSessionModeRequest::new(session.to_owned(), mode.to_owned()))
    }

    /// Sets an option of a session.
    pub(super) fn set_option(&mut self, session: &str, option: &str, value: &str) -> Result<u64, AgentError> {
        self.ask(&SetSessionConfigOptionRequest::new(session.to_owned(), option.to_owned(), value))
    }

    /// Says something to the agent.
    pub(super) fn prompt(&mut self, session: &str, parts: &[String]) -> Result<u64, AgentError> {
        let parts = parts.iter().map(|part| ContentBlock::Text(TextContent::new(part.clone())));
        self.ask(&PromptRequest::new(session.to_owned(), parts.collect::<Vec<_>>()))
    }

    /// Tells the agent that its turn is cancelled.
    pub(super) fn cancel(&mut self, session: &str) -> Result<(), AgentError> {
        let sent = self.link.send_notification(CancelNotification::new(session.to_owned()));
        sent.map_err(|error| AgentError::Died(refusal(&error).why))?;
        self.run()
    }

    /// Asks untyped, so that nothing in the answer is lost.
    fn ask(&mut self, asked: &impl JsonRpcMessage) -> Result<u64, AgentError> {
        let failed = |error: Error| AgentError::Died(refusal(&error).why);
        let untyped = asked.to_untyped_message().map_err(failed)?;
        self.asked += 1;
        let (number, inbox) = (self.asked, self.inbox.clone());
        let sent = self.link.prepare_request(untyped).on_receiving_result(move |result| {
            push(&inbox, News::Answered(number, result.map_err(|error| refusal(&error))));
            ready(Ok(()))
        });
        sent.map_err(failed)?;
        self.run()?;
        Ok(number)
    }
}

/// The window among the servers of an agent.
fn servers(server: Option<&Server>) -> Vec<McpServer> {
    let servers = server.map(|server| {
        let env = server.env.iter().map(|(name, value)| EnvVariable::new(name.clone(), value.clone()));
        let stdio = McpServerStdio::new(SERVER, server.program.clone());
        McpServer::Stdio(stdio.args(server.args.clone()).env(env.collect::<Vec<_>>()))
    });
    servers.into_iter().collect()
}

/// Polls until nothing is left to do; why it is over, if it is.
fn run(
    connection: &mut Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>,
    woken: &Arc<Woken>,
) -> Option<String> {
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        woken.0.store(false, Ordering::Release);
        match connection.as_mut().poll(&mut context) {
            Poll::Ready(Ok(())) => return Some(String::from("the connection has ended")),
            Poll::Ready(Err(error)) => return Some(refusal(&error).why),
            Poll::Pending if woken.0.load(Ordering::Acquire) => {}
            Poll::Pending => return None,
        }
    }
}

fn refusal(error: &Error) -> Refusal {
    let more = match &error.data {
        Some(Json::String(text)) => format!(": {text}"),
        Some(data) => {
            data.get("details").and_then(Json::as_str).map(|text| format!(": {text}")).unwrap_or_default()
        }
        None => String::new(),
    };
    Refusal { code: i32::from(error.code), why: format!("{}{more}", error.message) }
}

/// Whether a refusal says that a person must log in first.
pub(super) fn wants_login(refusal: &Refusal) -> bool {
    refusal.code == i32::from(ErrorCode::AUTH_REQUIRED)
}
