//! A run as one file: the page, the answers and the journal in it, read-only, without a server.
//!
//! The file checks its own hash chain when it is opened. It holds what the page would ask for: the run as it is, its whole
//! journal, and how it stood at a number of moments on the way.

use std::fmt::Write as _;

use ftl_folder::id::RunId;
use ftl_store::journal::whole;
use serde_json::{Map, Value as Json, json};
use sha2::{Digest as _, Sha256};

use crate::api::{Answer, ApiError, Asked};
use crate::assets::{ASSETS, find};
use crate::routes;
use crate::server::Server;

/// How many earlier moments are in the file.
pub(crate) const MAX_MOMENTS: u64 = 40;

/// How many entries are in the file at most.
pub(crate) const MAX_ENTRIES: u64 = 50_000;

/// How many entries stand in one answer.
const PAGE: u64 = 200;

/// How large a file may be.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// The file of a run.
pub(crate) fn html(server: &Server, run: &RunId) -> Result<String, ApiError> {
    let data = data(server, run)?;
    let text = data.to_string();
    if text.len() > MAX_BYTES {
        return Err(ApiError::new(413, "the run is too large for one file", "look at it with `ftl serve`"));
    }
    // No text in it can end the element that it stands in.
    let text = text.replace('<', "\\u003c");
    let (style, script) = (asset("/app.css"), bundle());
    let policy = format!(
        "default-src 'none'; img-src data:; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'",
        digest(&script),
        digest(&style)
    );
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>run {run} · ftl</title>\n\
         <style>{style}</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to content</a>\n\
         <header id=\"top\"></header>\n<p id=\"chain\" class=\"quiet\" role=\"status\"></p>\n\
         <main id=\"main\" tabindex=\"-1\"></main>\n\
         <div id=\"announcer\" class=\"unseen\" role=\"status\" aria-live=\"polite\"></div>\n\
         <script type=\"application/json\" id=\"ftl-file\">{text}</script>\n<script>{script}</script>\n</body>\n</html>\n"
    ))
}

/// What the page asks for, answered.
fn data(server: &Server, run: &RunId) -> Result<Json, ApiError> {
    let mut answers = Map::new();
    let mut keep = |path: String| -> Result<Json, ApiError> {
        let answer = ask(server, &path)?;
        answers.insert(path, answer.clone());
        Ok(answer)
    };
    let one = keep(format!("runs/{run}"))?;
    let head = one["head"].as_u64().unwrap_or(0);
    if head > MAX_ENTRIES {
        let message = format!("the run has {head} entries; {MAX_ENTRIES} is the most for one file");
        return Err(ApiError::new(413, message, "look at it with `ftl serve`"));
    }
    let tasks = keep(format!("runs/{run}/tasks"))?;
    for part in ["why", "graph", "timeline", "money", "report", "changes"] {
        keep(format!("runs/{run}/{part}"))?;
    }
    for row in tasks["rows"].as_array().into_iter().flatten() {
        let seq = row[0].as_str().unwrap_or_default();
        let told = keep(format!("runs/{run}/tasks/{seq}"))?;
        for talk in told["talks"].as_array().into_iter().flatten() {
            let (action, number) = (talk["action"].as_str().unwrap_or_default(), &talk["number"]);
            keep(format!("runs/{run}/talks/{action}/{number}"))?;
        }
    }
    for page in 0..head.div_ceil(PAGE) {
        keep(format!("runs/{run}/entries?after={}&limit={PAGE}", page * PAGE))?;
    }
    let step = head.div_ceil(MAX_MOMENTS).max(1);
    let moments: Vec<u64> = (1..head).filter(|at| at.is_multiple_of(step)).collect();
    for at in &moments {
        for part in ["", "/tasks", "/why"] {
            keep(format!("runs/{run}{part}?at={at}"))?;
        }
    }
    let root = server.session.place().root().display().to_string();
    Ok(json!({
        "run": run,
        "me": { "by": server.by, "may": ["look"], "repo": root, "version": env!("CARGO_PKG_VERSION") },
        "answers": answers,
        "moments": moments,
        "journal": journal(server, run)?,
    }))
}

/// The entries as they are kept, with what their hashes are made of.
fn journal(server: &Server, run: &RunId) -> Result<Vec<Json>, ApiError> {
    let store = server.session.store();
    let mut all = Vec::new();
    loop {
        let page = store.entries(run, all.len() as u64, 1000)?;
        for record in &page {
            // Entries show what they refer to; the hash is of the reference.
            let shown = whole(&**store, &record.body)?.ok().filter(|shown| *shown != record.body);
            all.push(json!([record.seq, record.epoch, record.body, record.hash.to_string(), shown]));
        }
        if page.len() < 1000 {
            return Ok(all);
        }
    }
}

fn ask(server: &Server, path: &str) -> Result<Json, ApiError> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let (route, params) = routes::find("GET", path).map_err(|_| ApiError::unknown("no such answer"))?;
    let asked = Asked { params, query: routes::query(query), body: Json::Null, key: None };
    match (route.handler)(server, &asked)? {
        Answer::Json(_, json) => Ok(json),
        Answer::Page(..) | Answer::Stream(_) => Err(ApiError::unknown("no document")),
    }
}

fn asset(path: &str) -> String {
    find(path).map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}

/// All modules as one script: each a function that gives what it exports.
pub(crate) fn bundle() -> String {
    let mut script = String::from("'use strict';\n");
    for (name, _, bytes) in ASSETS.iter().filter(|(_, kind, _)| kind.starts_with("text/javascript")) {
        let (mut body, mut exports) = (String::new(), Vec::new());
        for line in String::from_utf8_lossy(bytes).lines() {
            if let Some((names, from)) =
                line.strip_prefix("import ").and_then(|rest| rest.split_once(" from "))
            {
                let from = from.trim_matches([';', '\'', '.', '/']);
                let _ = writeln!(body, "const {names} = {};", variable(from));
            } else if let Some(rest) = line.strip_prefix("export ") {
                exports.extend(exported(rest));
                let _ = writeln!(body, "{rest}");
            } else {
                let _ = writeln!(body, "{}", statically(line));
            }
        }
        let names = exports.join(", ");
        let _ = writeln!(script, "const {} = (() => {{\n{body}return {{ {names} }};\n}})();", variable(name));
    }
    script
}

fn variable(module: &str) -> String {
    format!("module_{}", module.trim_start_matches('/').trim_end_matches(".js"))
}

/// The name that a line gives away: `export async function* name(`, `export const name =`, `export class Name`.
fn exported(line: &str) -> Option<String> {
    let words =
        line.split(|one: char| !(one.is_alphanumeric() || one == '_')).filter(|word| !word.is_empty());
    let kinds = ["async", "function", "const", "let", "class"];
    words.skip_while(|word| kinds.contains(word)).map(str::to_owned).next()
}

/// A module that is loaded when it is needed is there already.
fn statically(line: &str) -> String {
    let Some((before, rest)) = line.split_once("await import('./") else { return line.to_owned() };
    let Some((name, after)) = rest.split_once("')") else { return line.to_owned() };
    format!("{before}{}{after}", variable(name))
}

/// The SHA-256 of a text as policies write it.
fn digest(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes = Sha256::digest(text.as_bytes());
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let number =
            three.iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * place) & 63) as usize] as char;
            out.push(if place > three.len() { '=' } else { letter });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_has_no_module_left() {
        let script = bundle();
        for line in script.lines() {
            assert!(!line.starts_with("import ") && !line.starts_with("export "), "{line}");
            assert!(!line.contains("import('"), "{line}");
        }
        assert!(script.contains("const module_dom = (() => {") && script.contains("return { visible, h,"));
        assert!(script.contains("const { runPage } = module_run;"));
    }

    #[test]
    fn a_digest_is_written_as_policies_do() {
        assert_eq!(digest(""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }

    #[test]
    fn names_are_found_behind_their_kinds() {
        let cases = [
            ("async function open() {", "open"),
            ("const me = {};", "me"),
            ("class Refused extends Error {", "Refused"),
            ("function h(tag) {", "h"),
        ];
        for (line, name) in cases {
            assert_eq!(exported(line).as_deref(), Some(name));
        }
    }
}
