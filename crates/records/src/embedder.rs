//! Which embedder makes the vectors of lessons: the built-in table, MiniLM, or an endpoint.
//!
//! An endpoint may not answer. Then nothing is stored without its vector: a caller that learns is told and
//! nothing changes, a caller that searches is answered by words alone. A key comes out of the environment and
//! goes nowhere else.

use std::io::Read as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ftl_memory::embed::{Embedder, TokenTable, Vector};

use crate::RecordError;
use ftl_core::json::{Json, JsonExt as _};

/// How long an endpoint may take for a text.
pub const MAX_ENDPOINT_TIME: Duration = Duration::from_secs(10);

/// How large its answer may be.
const MAX_ANSWER_BYTES: u64 = 4 * 1024 * 1024;

/// How many numbers a vector of it may have.
const MAX_DIMS: usize = 8192;

/// How much of a text is sent.
const MAX_TEXT_CHARS: usize = 8_000;

/// The embedder that the settings name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EmbedderChoice {
    /// The table that is part of the program.
    #[default]
    Table,
    /// A model in a folder.
    MiniLm {
        /// The folder with the weights and the vocabulary.
        folder: String,
    },
    /// An embedding service over HTTP, by its settings.
    Endpoint(EndpointSettings),
}

/// How an embeddings endpoint is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointSettings {
    /// The address that texts are posted to.
    pub url: String,
    /// The model that is asked for.
    pub model: String,
    /// The variable that holds its key; empty where it needs none.
    pub key: String,
}

/// The embedder in use.
pub enum ChosenEmbedder {
    /// The table that is part of the program.
    Table(TokenTable),
    /// A model in a folder.
    #[cfg(feature = "minilm")]
    MiniLm(Box<ftl_memory::embed::minilm::MiniLm>),
    /// An embedding service over HTTP, ready to be asked.
    Endpoint(EmbeddingEndpoint),
    /// None that answers: lessons are found by words alone, and none can be learned.
    Words(TokenTable),
}

impl ChosenEmbedder {
    /// The embedder that the settings name.
    pub fn of(choice: &EmbedderChoice) -> Result<ChosenEmbedder, RecordError> {
        match choice {
            EmbedderChoice::Endpoint(settings) => {
                EmbeddingEndpoint::open(settings).map(ChosenEmbedder::Endpoint)
            }
            EmbedderChoice::MiniLm { folder } => minilm(folder),
            EmbedderChoice::Table => ChosenEmbedder::built_in(),
        }
    }

    /// The table that is part of the program.
    pub fn built_in() -> Result<ChosenEmbedder, RecordError> {
        let broken = || RecordError::refuse("the table of token vectors is broken", "install ftl again");
        TokenTable::built_in().map(ChosenEmbedder::Table).ok_or_else(broken)
    }

    /// Stands in for one that does not answer, to find lessons by words.
    pub fn words() -> Result<ChosenEmbedder, RecordError> {
        match ChosenEmbedder::built_in()? {
            ChosenEmbedder::Table(table) => Ok(ChosenEmbedder::Words(table)),
            other => Ok(other),
        }
    }

    fn inner(&self) -> &dyn Embedder {
        match self {
            ChosenEmbedder::Table(table) | ChosenEmbedder::Words(table) => table,
            #[cfg(feature = "minilm")]
            ChosenEmbedder::MiniLm(model) => &**model,
            ChosenEmbedder::Endpoint(endpoint) => endpoint,
        }
    }

    /// Why a vector could not be had since this was asked last.
    pub fn trouble(&self) -> Option<String> {
        match self {
            ChosenEmbedder::Table(_) | ChosenEmbedder::Words(_) => None,
            #[cfg(feature = "minilm")]
            ChosenEmbedder::MiniLm(_) => None,
            ChosenEmbedder::Endpoint(endpoint) => {
                endpoint.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
            }
        }
    }
}

#[cfg(feature = "minilm")]
fn minilm(folder: &str) -> Result<ChosenEmbedder, RecordError> {
    let model = ftl_memory::embed::minilm::MiniLm::open(std::path::Path::new(folder))?;
    Ok(ChosenEmbedder::MiniLm(Box::new(model)))
}

#[cfg(not(feature = "minilm"))]
fn minilm(_: &str) -> Result<ChosenEmbedder, RecordError> {
    Err(RecordError::refuse(
        "this ftl was built without MiniLM",
        "build it with `--features minilm`, or set memory.embedder to \"static\"",
    ))
}

impl Embedder for ChosenEmbedder {
    fn id(&self) -> &str {
        match self {
            ChosenEmbedder::Words(_) => "words alone",
            other => other.inner().id(),
        }
    }

    fn dims(&self) -> usize {
        self.inner().dims()
    }

    fn embed(&self, text: &str) -> Vector {
        self.inner().embed(text)
    }

    fn calibrated(&self, cosine: f64) -> f64 {
        self.inner().calibrated(cosine)
    }
}

/// An OpenAI-style service that makes vectors.
pub struct EmbeddingEndpoint {
    id: String,
    url: String,
    model: String,
    key: Option<String>,
    dims: usize,
    agent: ureq::Agent,
    trouble: Mutex<Option<String>>,
}

impl EmbeddingEndpoint {
    /// Asks the endpoint once, to learn how long its vectors are.
    fn open(settings: &EndpointSettings) -> Result<EmbeddingEndpoint, RecordError> {
        let (url, model) = (settings.url.as_str(), settings.model.as_str());
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            let hint = "set memory.url, such as http://127.0.0.1:11434/v1/embeddings";
            return Err(RecordError::refuse(
                format!("`{url}` is no address of an embeddings endpoint"),
                hint,
            ));
        }
        let key = match settings.key.as_str() {
            "" => None,
            name => Some(std::env::var(name).map_err(|_| {
                RecordError::refuse(
                    format!("memory.key names {name}, and it is not set"),
                    "set it, or remove memory.key",
                )
            })?),
        };
        let agent = ureq::Agent::new_with_config(
            ureq::Agent::config_builder()
                .timeout_global(Some(MAX_ENDPOINT_TIME))
                .http_status_as_error(false)
                .build(),
        );
        let mut endpoint = EmbeddingEndpoint {
            id: format!("endpoint {url} {model}"),
            url: url.to_owned(),
            model: model.to_owned(),
            key,
            dims: 0,
            agent,
            trouble: Mutex::default(),
        };
        let first = endpoint.ask("ftl").map_err(|why| {
            let message = format!("the embeddings endpoint {url} does not work: {why}");
            RecordError::refuse(message, "start it, or set memory.embedder to \"static\"")
        })?;
        endpoint.dims = first.len();
        Ok(endpoint)
    }

    fn ask(&self, text: &str) -> Result<Vec<f32>, String> {
        let text: String = text.chars().take(MAX_TEXT_CHARS).collect();
        let body =
            Json::object([("model", Json::from(self.model.as_str())), ("input", Json::from(text))]).line();
        let mut request = self.agent.post(&self.url).header("Content-Type", "application/json");
        if let Some(key) = &self.key {
            request = request.header("Authorization", &format!("Bearer {key}"));
        }
        let mut answer = request.send(body.as_bytes()).map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let mut said = String::new();
        let reader = answer.body_mut().as_reader().take(MAX_ANSWER_BYTES);
        let mut reader = reader;
        reader.read_to_string(&mut said).map_err(|error| error.to_string())?;
        if status != 200 {
            return Err(format!("it answers {status}"));
        }
        let json = Json::parse(&said).map_err(|error| format!("its answer is {error}"))?;
        let numbers = json
            .get("data")
            .and_then(|data| data.items().first())
            .and_then(|first| first.get("embedding"))
            .map(Json::items)
            .unwrap_or_default();
        let vector: Vec<f32> = numbers.iter().filter_map(|number| Some(number.as_f64()? as f32)).collect();
        match vector.len() {
            0 => Err(String::from("its answer has no vector")),
            len if len != numbers.len() || len > MAX_DIMS => {
                Err(format!("its vector of {len} numbers makes no sense"))
            }
            len if self.dims != 0 && len != self.dims => {
                Err(format!("its vector has {len} numbers, not {}", self.dims))
            }
            _ => Ok(vector),
        }
    }
}

impl Embedder for EmbeddingEndpoint {
    fn id(&self) -> &str {
        &self.id
    }

    fn dims(&self) -> usize {
        self.dims
    }

    fn embed(&self, text: &str) -> Vector {
        if text.trim().is_empty() {
            return Vector::of(&vec![0.0; self.dims]);
        }
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has not answered is not asked again in the same piece of work.
        if trouble.is_none() {
            match self.ask(text) {
                Ok(numbers) => return Vector::of(&numbers),
                Err(why) => *trouble = Some(why),
            }
        }
        Vector::of(&vec![0.0; self.dims])
    }
}
