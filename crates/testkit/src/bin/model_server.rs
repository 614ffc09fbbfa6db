//! The scripted model server as a program, for `tools/trial`: it writes its address, and serves until its input ends. Scenarios come by
//! `PUT /__scenarios`, and what was asked is read at `/__log`.

use std::io::{self, Write as _};

use ftl_testkit::model_server::ModelServer;

fn main() -> io::Result<()> {
    let server = ModelServer::start(serde_json::json!({}))?;
    writeln!(io::stdout(), "{}", server.address())?;
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop)
}
