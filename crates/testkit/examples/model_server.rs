//! The scripted model server by itself, for driving real agents against it.
//!
//! `cargo run -p ftl-testkit --example model_server -- SCENARIOS.json [FOLDER]` prints its address and
//! serves until its standard input is closed.

#![allow(clippy::print_stdout, reason = "its address is all it says")]

use std::io::Read as _;

use ftl_testkit::model_server::ModelServer;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let file = words.next().ok_or("name a file of scenarios")?;
    let scenarios = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let server = ModelServer::in_folder(scenarios, &words.next().unwrap_or_else(|| String::from(".")))?;
    println!("{{\"listening\": \"http://{}\"}}", server.address());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
