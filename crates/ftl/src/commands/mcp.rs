//! `ftl mcp`: the tools of an agent's state over the Model Context Protocol, on standard input and output.
//!
//! Started by an agent's own program inside of a run, it passes calls on to the window of that agent's
//! session and offers exactly what the window offers. Started by a person or another program, it offers the lessons
//! of the repository to look at. It decides nothing: who rules on a call sits behind the window. Nothing but the
//! protocol goes to standard output.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ftl_agents::mcp_endpoint::{Offer, ToolAnswer, VARIABLE, Visit};
use ftl_agents::schema::Schema;
use ftl_agents::toolset;
use ftl_command::{CommandError, ExitStatus, GlobalArgs, records};
use ftl_core::value::Name;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Map, Value as Json};

/// What a program is told when it asks what this is.
const INSIDE: &str = "You work on a task of ftl. When you are done, call `submit` with your answer: nothing else ends \
                      the task. `ask` puts a question to a person, `recall` looks for lessons of earlier work.";
const OUTSIDE: &str = "The lessons that ftl keeps for this repository: call `recall` with an error message, or with \
                       what you are about to do.";

/// Serves until the caller is gone.
pub(crate) fn run(cli: &GlobalArgs) -> Result<ExitStatus, CommandError> {
    let served = match std::env::var_os(VARIABLE) {
        Some(path) => Served::window(Path::new(&path))?,
        None => Served::lessons(cli)?,
    };
    let failed =
        |what: &str| CommandError::new(format!("MCP cannot be served: {what}"), "an MCP client starts this");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error.to_string()))?;
    let ended = runtime.block_on(async {
        let service = served.serve(rmcp::transport::stdio()).await.map_err(|error| error.to_string())?;
        service.waiting().await.map_err(|error| error.to_string())
    });
    // A call that waits behind the window must not keep this process.
    runtime.shutdown_background();
    ended.map(|_| ExitStatus::Done).map_err(|error| failed(&error))
}

/// A function that answers a call by the name of its tool.
type Answering = Box<dyn FnMut(&str, Json) -> ToolAnswer + Send>;

#[derive(Clone)]
struct Served {
    about: &'static str,
    offers: Arc<Vec<Offer>>,
    answering: Arc<Mutex<Answering>>,
}

impl Served {
    fn window(path: &Path) -> Result<Served, CommandError> {
        let mut visit = Visit::at(path).map_err(|error| {
            let message = format!("the session behind `{}` does not answer: {error}", path.display());
            CommandError::new(
                message,
                format!("an agent of a run starts this; without {VARIABLE} it serves the lessons"),
            )
        })?;
        let offers = visit.offers().to_vec();
        Ok(Served::of(INSIDE, offers, Box::new(move |tool, args| visit.call(tool, args))))
    }

    fn lessons(cli: &GlobalArgs) -> Result<Served, CommandError> {
        let records = records::existing(cli)?;
        let names = [Name::from(toolset::RECALL)].into();
        let offers = toolset::tools(&names, &Schema::anything()).iter().map(Offer::from).collect();
        let answering = move |tool: &str, args: Json| match (tool, args.get("about").and_then(Json::as_str)) {
            (toolset::RECALL, Some(about)) => match &records {
                Some(records) => match records.tell(about) {
                    Ok(text) => ToolAnswer::Done(text),
                    Err(error) => ToolAnswer::Failed(error.to_string()),
                },
                None => ToolAnswer::Done(String::from("nothing is remembered here yet")),
            },
            (toolset::RECALL, None) => {
                ToolAnswer::Failed(String::from("say what it is about: {\"about\": \"…\"}"))
            }
            (other, _) => {
                ToolAnswer::Failed(format!("there is no tool `{other}` here; there is {}", toolset::RECALL))
            }
        };
        Ok(Served::of(OUTSIDE, offers, Box::new(answering)))
    }

    fn of(about: &'static str, offers: Vec<Offer>, answering: Answering) -> Served {
        Served { about, offers: Arc::new(offers), answering: Arc::new(Mutex::new(answering)) }
    }
}

impl ServerHandler for Served {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("ftl", env!("CARGO_PKG_VERSION")))
            .with_instructions(self.about)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.offers.iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        asked: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answering = self.answering.clone();
        let args = Json::Object(asked.arguments.unwrap_or_default());
        let answer = tokio::task::spawn_blocking(move || {
            let mut answering = answering.lock().unwrap_or_else(PoisonError::into_inner);
            answering(&asked.name, args)
        });
        let back = match answer.await {
            Ok(ToolAnswer::Done(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Ok(ToolAnswer::Failed(why)) => CallToolResult::error(vec![ContentBlock::text(why)]),
            Err(error) => return Err(ErrorData::internal_error(error.to_string(), None)),
        };
        Ok(back.into())
    }
}

fn tool(offer: &Offer) -> Tool {
    let takes: Map<String, Json> = offer.takes.as_object().cloned().unwrap_or_default();
    Tool::new(offer.name.clone(), offer.about.clone(), Arc::new(takes))
}
