//! The page of `ftl` and its API: `ftl serve`.
//!
//! It reads the read model and leaves orders in the store. It never drives a run, claims none, and opens no port but on
//! loopback; ending it changes nothing. What a page shows is computed in `ftl-view`; what a command knows is the document
//! that the command prints. Everything that may be asked stands in one table, `routes`, from which the router, the OpenAPI
//! document and `docs/api.md` are made.
//!
//! | module | what it holds |
//! |---|---|
//! | `server` | what all answers are made of |
//! | `serve` | the server: its state, its threads, how it begins and ends |
//! | `http` | bytes in and out: limits, bodies, time |
//! | `gate` | who may ask: host, origin, form, token, and the process at the far end |
//! | `tickets` | tickets and tokens, kept in memory alone |
//! | `routes`, `schema`, `openapi` | the table of what may be asked, the forms of answers, the pages made of both |
//! | `stream` | what changed, for followers |
//! | `api` | the answers |
//! | `assets`, `export` | the page; a run as one file |

mod api;
mod assets;
mod export;
mod gate;
mod http;
pub mod openapi;
pub mod routes;
mod schema;
mod serve;
mod server;
mod stream;
mod tickets;

pub use schema::{SCHEMAS, schema};
pub use serve::{ServeOptions, export, serve};
