//! `ftl trust`: the files of a repository that `ftl` takes orders from, how each stands, and a person's word for them.

use ftl_command::protocol_loader::LoadedProtocols;
use ftl_command::trust::{self, Orders, OrdersFile, TrustScope, TrustStanding};
use ftl_command::{CommandError, ExitStatus, GlobalArgs, Out, foreign, session};
use ftl_settings::trust::{TrustList, is_digest};
use ftl_view::paint::{self, paint, safe};
use serde_json::{Value as Json, json};

use crate::cli::Trust;

/// Shows what there is and records what the person trusts. An agent's word does not count.
pub(crate) fn run(cli: &GlobalArgs, asked: &Trust, out: &Out) -> Result<ExitStatus, CommandError> {
    let place = session::place(cli)?;
    session::not_an_agent(&place)?;
    if asked.yes {
        foreign::not_typed_by_agent()?;
    }
    if let Some(wrong) = asked.digest.iter().find(|word| !is_digest(word)) {
        let message = format!("`{wrong}` is no digest");
        return Err(CommandError::usage(message, "write the 64 letters that `sha256sum FILE` prints"));
    }
    let (config, library) = (session::config(&place)?, LoadedProtocols::load(cli)?.library);
    let files = Orders { place: &place, config: &config, library: &library }.files(TrustScope::All)?;
    if let Some(digest) =
        asked.digest.iter().find(|one| files.iter().all(|file| file.digest.to_string() != **one))
    {
        let message = format!("no file that ftl takes orders from has the digest {digest}");
        let hint = "`ftl trust` shows them with their digests; a file has another one since it was changed";
        return Err(CommandError { exit: ExitStatus::Refused, ..CommandError::new(message, hint) });
    }
    let mut list = trust::list(&config)?;
    let mut stands: Vec<(OrdersFile, TrustStanding)> = files
        .into_iter()
        .map(|file| (trust::standing(&file, &list), file))
        .map(|(one, file)| (file, one))
        .collect();
    settle(&mut stands, &mut list, asked, out)?;
    if out.is_json() {
        let files: Vec<Json> = stands.iter().map(as_json).collect();
        out.json(&json!({ "files": files }))?;
    } else if stands.is_empty() {
        out.text("nothing here gives ftl orders that need trust\n")?;
    } else {
        out.text(&stands.iter().map(line).collect::<String>())?;
    }
    let left: Vec<OrdersFile> = stands
        .into_iter()
        .filter(|(_, stands)| *stands == TrustStanding::Untrusted)
        .map(|(file, _)| file)
        .collect();
    match left.is_empty() {
        true => Ok(ExitStatus::Done),
        false if out.is_json() => Ok(ExitStatus::Refused),
        false => Err(trust::refusal(&left)),
    }
}

/// Records what was written here, and what the person trusts now.
fn settle(
    stands: &mut [(OrdersFile, TrustStanding)],
    list: &mut TrustList,
    asked: &Trust,
    out: &Out,
) -> Result<(), CommandError> {
    let is_meant = |file: &OrdersFile| {
        asked.digest.is_empty() || asked.digest.iter().any(|one| *one == file.digest.to_string())
    };
    let untrusted = stands.iter().filter(|(file, one)| *one == TrustStanding::Untrusted && is_meant(file));
    let untrusted: Vec<OrdersFile> = untrusted.map(|(file, _)| file.clone()).collect();
    let agrees = !untrusted.is_empty()
        && (asked.yes
            || (trust::can_ask(out)
                && trust::ask(&untrusted, out)?
                && foreign::not_typed_by_agent().is_ok()));
    for (file, stands) in stands {
        match stands {
            TrustStanding::Trusted => {}
            TrustStanding::WrittenHere => trust::record(list, std::slice::from_ref(file))?,
            TrustStanding::Untrusted if agrees && is_meant(file) => {
                trust::record(list, std::slice::from_ref(file))?;
                *stands = TrustStanding::Trusted;
            }
            TrustStanding::Untrusted => {}
        }
    }
    Ok(())
}

fn as_json((file, stands): &(OrdersFile, TrustStanding)) -> Json {
    json!({ "file": file.shown, "digest": file.digest.to_string(), "standing": stands.word(), "keys": file.keys })
}

fn line((file, stands): &(OrdersFile, TrustStanding)) -> String {
    let word = match stands {
        TrustStanding::Trusted | TrustStanding::WrittenHere => paint(paint::GOOD, stands.word()),
        TrustStanding::Untrusted => paint(paint::ERROR, stands.word()),
    };
    let keys =
        if file.keys.is_empty() { String::new() } else { format!("  {}\n", safe(&file.keys.join(", "))) };
    format!("{word}  {}  {}\n{keys}", paint(paint::STRONG, safe(&file.shown)), file.digest)
}
