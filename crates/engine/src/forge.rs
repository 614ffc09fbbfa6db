//! A forge: where work is merged through a pull request.
//!
//! One small trait, and one client of the GitHub-compatible interface. The token comes out of the variable that
//! the settings name and goes nowhere but to the forge and its repository: no redirect is followed, nothing of it
//! is printed, and a file that came with a repository cannot send it elsewhere.

use std::fmt;
use std::io::Read as _;
use std::time::Duration;

use serde_json::{Value as Json, json};

use ftl_settings::config::Config;
use ftl_settings::roster::keys::{self, KeySource};
use ftl_settings::settings::Section;

/// How long one request may take.
const MAX_TIME: Duration = Duration::from_secs(30);

/// How much of an answer is read.
const MAX_ANSWER_BYTES: u64 = 4 * 1024 * 1024;

/// How many pages of checks are read, each of [`PAGE`]. What lies behind is left to the forge's own rules.
const MAX_PAGES: usize = 5;

/// How many checks a page has.
const PAGE: usize = 100;

/// What a service is called that is a pull request whose checks are waited for.
pub use ftl_core::run::PULL;

/// A pull request, as a forge has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The number by which the forge names it.
    pub number: u64,
    /// The address of its page for people.
    pub url: String,
    /// The commit that it was merged as, once it was.
    pub merged: Option<String>,
    /// What the forge waits for, where it says no only for now.
    pub waits: Option<String>,
    /// Whether the forge has looked already whether it can be merged. Until then its checks may not have begun.
    pub is_judged: bool,
}

/// The checks of a commit that are not green.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// The names of the checks that failed.
    pub red: Vec<String>,
    /// The checks that are not done.
    pub running: Vec<String>,
}

/// A pull request that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct PullRequest<'a> {
    /// Its title.
    pub title: &'a str,
    /// The text below the title.
    pub body: &'a str,
    /// The branch with the work.
    pub head: &'a str,
    /// The branch that it is for.
    pub base: &'a str,
}

/// Why a forge did not do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgeError {
    /// It said no, and would say no again.
    Refused(String),
    /// It is not set up.
    Unavailable(String),
    /// It does not answer now. That says nothing about what it was asked.
    Silent {
        /// What came instead of an answer.
        why: String,
        /// How long it asked to be left alone, if it said so.
        after: Option<Duration>,
    },
}

impl fmt::Display for ForgeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForgeError::Refused(why) | ForgeError::Unavailable(why) | ForgeError::Silent { why, .. } => {
                out.write_str(why)
            }
        }
    }
}

impl std::error::Error for ForgeError {}

/// What is asked of a forge. Each may be asked again after a crash. Nothing is asked twice by itself: after a
/// silence it is not known what was done, so a second request looks first.
pub trait Forge: Send + Sync {
    /// The pull request of a branch, made if there is none that is open or merged.
    fn pull(&self, wanted: &PullRequest<'_>) -> Result<Pull, ForgeError>;

    /// A pull request as it is now.
    fn look(&self, number: u64) -> Result<Pull, ForgeError>;

    /// What a forge's own checks say about a commit. Where it has none, or does not show them, nothing.
    fn checks(&self, commit: &str) -> Result<Checks, ForgeError>;

    /// Merges exactly this commit of a pull request.
    fn merge(&self, number: u64, commit: &str) -> Result<Pull, ForgeError>;
}

/// How a forge is reached.
#[derive(Clone)]
pub struct Reached {
    url: String,
    repo: String,
    remote: String,
    token: Option<String>,
}

impl fmt::Debug for Reached {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Reached({} {})", self.url, self.repo)
    }
}

impl Reached {
    /// The forge that the settings name, with the token out of the environment.
    pub fn of(config: &Config, variable: &dyn Fn(&str) -> Option<String>) -> Result<Reached, ForgeError> {
        let forge = &config.settings().forge;
        let text = |text: &str| text.trim().trim_end_matches('/').to_owned();
        let (url, repo, remote) = (text(&forge.url), text(&forge.repo), text(&forge.remote));
        let wrong = |message: String| Err(ForgeError::Unavailable(message));
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return wrong(format!("`{url}` is no address of a forge (hint: set forge.url)"));
        }
        let is_word = |word: &str| {
            let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
            !word.is_empty() && word.chars().all(fits) && !word.starts_with('.')
        };
        if !repo.split_once('/').is_some_and(|(owner, name)| is_word(owner) && is_word(name)) {
            return wrong(format!(
                "`{repo}` is no repository of a forge (hint: set forge.repo to owner/name)"
            ));
        }
        if remote.is_empty() || remote.starts_with('-') {
            let hint = "set forge.remote to the address that git pushes to";
            return wrong(format!("nothing says where to push (hint: {hint})"));
        }
        let name = text(&forge.token_env);
        let token = match name.as_str() {
            "" => None,
            name => Some(variable(name).filter(|token| !token.trim().is_empty()).ok_or_else(|| {
                ForgeError::Unavailable(format!("forge.token_env names {name}, and it is not set"))
            })?),
        };
        if token.is_some() {
            let is_shared = config.is_shared(Section::Forge);
            for address in [&url, &remote].into_iter().filter(|address| address.starts_with("http")) {
                keys::may_go(&KeySource::Variable(name.clone()), address, is_shared).map_err(|leak| {
                    ForgeError::Unavailable(format!("{leak} (hint: say [forge] in .ftl/config.toml)"))
                })?;
            }
        }
        Ok(Reached { url, repo, remote, token: token.map(|token| token.trim().to_owned()) })
    }

    /// What it is called where it does not answer.
    pub fn service(&self) -> String {
        format!("the forge at {}", self.url)
    }

    /// The address that git pushes to.
    pub fn remote(&self) -> &str {
        &self.remote
    }

    /// The header with which git shows who it is, where it speaks HTTP.
    pub fn header(&self) -> Option<String> {
        let token = self.token.as_ref().filter(|_| self.remote.starts_with("http"))?;
        Some(format!("Authorization: Basic {}", base64(format!("x-access-token:{token}").as_bytes())))
    }
}

/// A forge that speaks like GitHub.
pub struct GitHub {
    reached: Reached,
    agent: ureq::Agent,
}

impl GitHub {
    /// A client; nothing is asked yet.
    pub fn new(reached: Reached) -> GitHub {
        GitHub::within(reached, MAX_TIME)
    }

    /// The same with another limit for one request.
    fn within(reached: Reached, time: Duration) -> GitHub {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(time))
            .http_status_as_error(false)
            .max_redirects(0)
            .build();
        GitHub { reached, agent: ureq::Agent::new_with_config(config) }
    }

    /// Asks once; the status and what was said. Who does not answer, or says that it cannot now, is silent.
    fn ask(&self, method: &str, path: &str, body: Option<&Json>) -> Result<(u16, Json), ForgeError> {
        let unreached = |why: String| ForgeError::Silent { why, after: None };
        let (status, after, said) = self.ask_once(method, path, body).map_err(unreached)?;
        if is_silence(status, after.is_some()) {
            return Err(ForgeError::Silent { why: format!("it answers {status}"), after });
        }
        Ok((status, said))
    }

    fn ask_once(&self, method: &str, path: &str, body: Option<&Json>) -> Result<Answered, String> {
        let Reached { url, repo, token, .. } = &self.reached;
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{url}/repos/{repo}{path}"))
            .header("Accept", "application/vnd.github+json")
            .header("User-Agent", "ftl")
            .header("Content-Type", "application/json");
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let body = body.map(Json::to_string).unwrap_or_default();
        let request = request.body(body).map_err(|error| error.to_string())?;
        let mut answer = self.agent.run(request).map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let header = |name: &str| answer.headers().get(name)?.to_str().ok();
        let seconds = header("retry-after").and_then(|text| text.trim().parse().ok());
        let spent = header("x-ratelimit-remaining").is_some_and(|left| left.trim() == "0");
        let after = seconds.map(Duration::from_secs).or(spent.then_some(Duration::ZERO));
        let mut said = String::new();
        let mut reader = answer.body_mut().as_reader().take(MAX_ANSWER_BYTES);
        reader.read_to_string(&mut said).map_err(|error| error.to_string())?;
        Ok((status, after, serde_json::from_str(&said).unwrap_or_default()))
    }
}

/// A status, how long the forge asks to be left alone, and what it said.
type Answered = (u16, Option<Duration>, Json);

/// Whether a status says that the service does not answer now. Limits of how often one may ask come as 429, or as
/// 403 with when to come back.
fn is_silence(status: u16, is_told_to_wait: bool) -> bool {
    status >= 500 || matches!(status, 408 | 429) || (status == 403 && is_told_to_wait)
}

impl GitHub {
    /// What lies at a path, where there is something that we may see.
    fn fetch(&self, path: &str) -> Result<Option<Json>, ForgeError> {
        match self.ask("GET", path, None)? {
            (200, said) => Ok(Some(said)),
            (403 | 404 | 410, _) => Ok(None),
            (status, said) => Err(refusal_of(status, &said)),
        }
    }
}

impl Checks {
    fn add_run(&mut self, run: &Json) {
        let name = parse_name(&run["name"]);
        match (run["status"].as_str(), run["conclusion"].as_str()) {
            (Some("completed"), Some("success" | "neutral" | "skipped")) => {}
            (Some("completed"), _) => self.red.push(name),
            (_, _) => self.running.push(name),
        }
    }

    fn add_status(&mut self, status: &Json) {
        let name = parse_name(&status["context"]);
        match status["state"].as_str() {
            Some("success") => {}
            Some("failure" | "error") => self.red.push(name),
            Some(_) | None => self.running.push(name),
        }
    }
}

fn parse_name(name: &Json) -> String {
    name.as_str().unwrap_or("a check without a name").to_owned()
}

impl Forge for GitHub {
    fn pull(&self, wanted: &PullRequest<'_>) -> Result<Pull, ForgeError> {
        let owner = self.reached.repo.split('/').next().unwrap_or_default();
        let path = format!("/pulls?state=all&head={owner}:{}&base={}", wanted.head, wanted.base);
        let (status, all) = self.ask("GET", &path, None)?;
        if status != 200 {
            return Err(refusal_of(status, &all));
        }
        let all = all.as_array().cloned().unwrap_or_default();
        let ours = all.iter().filter(|one| one["head"]["ref"] == wanted.head);
        if let Some(found) =
            ours.into_iter().find(|one| one["state"] == "open" || one["merged_at"].is_string())
        {
            return pull(found).map_or_else(|| Err(unreadable()), |found| self.look(found.number));
        }
        let PullRequest { title, body, head, base } = wanted;
        let body = json!({ "title": title, "body": body, "head": head, "base": base });
        match self.ask("POST", "/pulls", Some(&body))? {
            (201, made) => pull(&made).ok_or_else(unreadable),
            (status, said) => Err(refusal_of(status, &said)),
        }
    }

    fn look(&self, number: u64) -> Result<Pull, ForgeError> {
        match self.ask("GET", &format!("/pulls/{number}"), None)? {
            (200, found) => pull(&found).ok_or_else(unreadable),
            (status, said) => Err(refusal_of(status, &said)),
        }
    }

    fn checks(&self, commit: &str) -> Result<Checks, ForgeError> {
        let mut checks = Checks::default();
        for page in 1..=MAX_PAGES {
            let path = format!("/commits/{commit}/check-runs?per_page={PAGE}&page={page}");
            let Some(said) = self.fetch(&path)? else { break };
            let runs = said["check_runs"].as_array().cloned().unwrap_or_default();
            runs.iter().for_each(|run| checks.add_run(run));
            if runs.len() < PAGE {
                break;
            }
        }
        if let Some(said) = self.fetch(&format!("/commits/{commit}/status?per_page={PAGE}"))? {
            said["statuses"].as_array().into_iter().flatten().for_each(|one| checks.add_status(one));
        }
        Ok(checks)
    }

    fn merge(&self, number: u64, commit: &str) -> Result<Pull, ForgeError> {
        let body = json!({ "sha": commit, "merge_method": "merge" });
        match self.ask("PUT", &format!("/pulls/{number}/merge"), Some(&body))? {
            (200, _) => self.look(number),
            (status, said) => Err(refusal_of(status, &said)),
        }
    }
}

fn pull(json: &Json) -> Option<Pull> {
    let is_merged = json["merged"] == true || json["merged_at"].is_string();
    let merged = is_merged.then(|| json["merge_commit_sha"].as_str().unwrap_or_default().to_owned());
    let url = json["html_url"].as_str().unwrap_or_default().to_owned();
    let state = json["mergeable_state"].as_str();
    let is_judged = json.get("mergeable") != Some(&Json::Null) && state != Some("unknown");
    let waits = match (is_judged, state) {
        (false, _) => Some("the forge to find out whether it can be merged"),
        (true, Some("blocked")) => Some("the rules of the branch: a check that has not begun, or a review"),
        (true, Some("unstable")) => Some("its checks"),
        (true, _) => None,
    };
    let waits = waits.filter(|_| !is_merged).map(str::to_owned);
    Some(Pull { number: json["number"].as_u64()?, url, merged, waits, is_judged })
}

fn unreadable() -> ForgeError {
    ForgeError::Refused(String::from("the forge's answer cannot be read"))
}

fn refusal_of(status: u16, said: &Json) -> ForgeError {
    let why = said["message"].as_str().unwrap_or("no reason given");
    ForgeError::Refused(format!("the forge answers {status}: {}", why.lines().next().unwrap_or_default()))
}

/// Bytes in letters that a header can hold.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for piece in bytes.chunks(3) {
        let all =
            piece.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte)) << (8 * (3 - piece.len()));
        for at in 0..4 {
            let letter = LETTERS[(all >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= piece.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A forge on this machine that answers as it is told; what it is asked is counted.
    fn on_this_machine(
        answer: impl Fn(&mut TcpStream, &str) + Send + 'static,
    ) -> (Reached, &'static AtomicUsize) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                asked.fetch_add(1, Ordering::SeqCst);
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut first, mut line) = (String::new(), String::from("x"));
                reader.read_line(&mut first).unwrap();
                while !line.trim().is_empty() {
                    line.clear();
                    reader.read_line(&mut line).unwrap();
                }
                answer(&mut stream, &first);
            }
        });
        let (repo, remote) = (String::from("a/b"), String::new());
        (Reached { url, repo, remote, token: None }, asked)
    }

    fn say(stream: &mut TcpStream, body: &str) {
        let head = format!("HTTP/1.1 200 x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        // A client that has read enough hangs up.
        let _ = stream.write_all(format!("{head}{body}").as_bytes());
    }

    #[test]
    fn one_request_has_a_limit_of_time() {
        let (hold, held) = std::sync::mpsc::channel::<TcpStream>();
        let (reached, _) = on_this_machine(move |stream, _| hold.send(stream.try_clone().unwrap()).unwrap());
        let error = GitHub::within(reached, Duration::from_millis(50)).look(1).unwrap_err();
        assert!(matches!(error, ForgeError::Silent { .. }), "{error:?}");
        drop(held);
    }

    #[test]
    fn an_answer_that_is_too_long_is_not_read() {
        let space = usize::try_from(MAX_ANSWER_BYTES).unwrap();
        let table = [(space / 2, true), (space + 1, false)];
        for (length, is_read) in table {
            let (reached, _) = on_this_machine(move |stream, _| {
                say(stream, &format!("{{\"number\":1{}}}", " ".repeat(length)));
            });
            assert_eq!(GitHub::new(reached).look(1).is_ok(), is_read, "{length}");
        }
    }

    #[test]
    fn so_many_pages_of_checks_are_read() {
        let (reached, asked) = on_this_machine(|stream, first| {
            let run = json!({ "name": "c", "status": "completed", "conclusion": "success" });
            let last = json!({ "name": "late", "status": "queued" });
            let all = match first.contains(&format!("page={} ", MAX_PAGES + 1)) {
                true => vec![last],
                false => vec![run; PAGE],
            };
            say(stream, &json!({ "check_runs": all, "statuses": [] }).to_string());
        });
        assert_eq!(GitHub::new(reached).checks("c").unwrap(), Checks::default());
        assert_eq!(asked.load(Ordering::SeqCst), MAX_PAGES + 1, "the pages, and the statuses");
    }

    #[test]
    fn bytes_are_letters() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes.as_bytes()), text, "{bytes}");
        }
    }

    fn reached(file: &str, settings: &str) -> Result<Reached, ForgeError> {
        let mut config = Config::default();
        config.add(Path::new(file), &format!("[forge]\n{settings}")).unwrap();
        Reached::of(&config, &|name| (name == "SET").then(|| String::from("t0ken\n")))
    }

    #[test]
    fn checks_are_green_red_or_running() {
        let run = |status: &str, conclusion: Json| json!({ "name": status, "status": status, "conclusion": conclusion });
        let mut checks = Checks::default();
        for conclusion in ["success", "neutral", "skipped"] {
            checks.add_run(&run("completed", json!(conclusion)));
        }
        checks.add_status(&json!({ "context": "c", "state": "success" }));
        assert_eq!(checks, Checks::default());
        for conclusion in ["failure", "cancelled", "timed_out", "action_required", "startup_failure", "stale"]
        {
            checks.add_run(&run("completed", json!(conclusion)));
        }
        checks.add_run(&run("completed", Json::Null));
        for state in ["failure", "error"] {
            checks.add_status(&json!({ "context": "c", "state": state }));
        }
        assert_eq!((checks.red.len(), checks.running.len()), (9, 0));
        for status in ["queued", "in_progress", "waiting"] {
            checks.add_run(&run(status, Json::Null));
        }
        checks.add_status(&json!({ "state": "pending" }));
        assert_eq!((checks.red.len(), checks.running.len()), (9, 4));
        assert_eq!(checks.running[3], "a check without a name");
    }

    #[test]
    fn a_forge_says_what_it_waits_for() {
        let waits = |more: Json| {
            let mut all = json!({ "number": 1 });
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            pull(&all).unwrap().waits.is_some()
        };
        assert!(waits(json!({ "mergeable": null })) && waits(json!({ "mergeable_state": "blocked" })));
        assert!(waits(json!({ "mergeable": true, "mergeable_state": "unstable" })));
        assert!(!waits(json!({})) && !waits(json!({ "mergeable": false, "mergeable_state": "dirty" })));
        assert!(!waits(json!({ "mergeable": true, "mergeable_state": "clean" })));
        assert!(!waits(json!({ "mergeable": null, "merged": true })));
    }

    #[test]
    fn who_cannot_answer_now_has_not_said_no() {
        for (status, waits) in [(500, false), (503, false), (429, false), (408, false), (403, true)] {
            assert!(is_silence(status, waits), "{status}");
        }
        for (status, waits) in
            [(200, false), (401, false), (403, false), (404, true), (405, false), (422, true)]
        {
            assert!(!is_silence(status, waits), "{status}");
        }
    }

    #[test]
    fn what_is_missing_or_dangerous_is_said() {
        let all = "url = \"https://forge.example\"\nrepo = \"a/b\"\nremote = \"https://forge.example/a/b\"\n";
        let table = [
            ("config.toml", "", "is no repository of a forge"),
            ("config.toml", "repo = \"a/../b\"", "is no repository of a forge"),
            ("config.toml", "url = \"ftp://x\"\nrepo = \"a/b\"", "no address of a forge"),
            ("config.toml", "repo = \"a/b\"", "nothing says where to push"),
            ("config.toml", "repo = \"a/b\"\nremote = \"--upload-pack=x\"", "nothing says where to push"),
            ("config.toml", &format!("{all}token_env = \"GONE\""), "names GONE, and it is not set"),
            ("ftl.toml", &format!("{all}token_env = \"SET\""), "would send the key in SET to forge.example"),
        ];
        for (file, settings, wanted) in table {
            let error = reached(file, settings).unwrap_err().to_string();
            assert!(error.contains(wanted), "{settings}: {error}");
        }
        let good = reached("config.toml", &format!("{all}token_env = \"SET\"")).unwrap();
        assert_eq!(good.header().unwrap(), "Authorization: Basic eC1hY2Nlc3MtdG9rZW46dDBrZW4=");
        assert!(!format!("{good:?}").contains("t0ken"));
    }
}
