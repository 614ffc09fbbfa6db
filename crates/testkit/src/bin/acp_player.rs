//! An ACP agent that plays a part. It exists for the tests of this crate: its one word is a file that says
//! what it does, prompt by prompt, misbehaviour included.
//!
//! It writes its lines by hand and knows nothing of the crate that the backend speaks through, so that both
//! sides are not the same code. Only the window is reached as `ftl mcp` reaches it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a stage property of the tests: when it cannot do what it is told, it dies loudly"
)]

use std::io::{self, BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio, exit};
use std::time::Duration;

use ftl_agents::mcp_endpoint::{ToolAnswer, VARIABLE, Visit};
use serde_json::{Value as Json, json};

fn main() {
    let script = std::env::args().nth(1).expect("the name of a script");
    let script: Json = serde_json::from_slice(&std::fs::read(script).unwrap()).unwrap();
    let mut player = Player {
        heard: script["heard"].as_str().map(PathBuf::from),
        asks: script["asks"].as_bool().unwrap_or(true),
        sulks: script["sulks"].as_bool().unwrap_or(false),
        acts: script["acts"].as_array().cloned().unwrap_or_default(),
        refuses: script["refuses"].clone(),
        loads: script["loads"].clone(),
        ..Player::default()
    };
    player.serve();
}

#[derive(Default)]
struct Player {
    /// Where everything that it hears is written down.
    heard: Option<PathBuf>,
    /// Whether it asks before a call; else it only tells.
    asks: bool,
    /// Whether it ends its turn when it is denied something.
    sulks: bool,
    acts: Vec<Json>,
    /// An error for `session/new`.
    refuses: Json,
    /// The sessions that it takes up again; nothing where it offers none of that.
    loads: Json,
    at: usize,
    calls: u64,
    asked: u64,
    window: Option<PathBuf>,
    is_cancelled: bool,
    /// The tokens of this prompt, and of all; nothing once one was not told.
    tokens: Option<u64>,
    spent: u64,
}

/// How a call came back.
enum Back {
    Fine(Json),
    Failed,
}

impl Player {
    fn serve(&mut self) {
        while let Some(heard) = self.hear() {
            let (id, params) = (heard["id"].clone(), heard["params"].clone());
            let answer = match heard["method"].as_str().unwrap_or_default() {
                "initialize" => {
                    json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": !self.loads.is_null() },
                    "agentInfo": { "name": "player", "version": "1" } })
                }
                "session/new" if !self.refuses.is_null() => {
                    say(&json!({ "jsonrpc": "2.0", "id": id, "error": self.refuses }));
                    continue;
                }
                "session/load" if !is_among(&self.loads, &params["sessionId"]) => {
                    let error = json!({ "code": -32002, "message": "no such session" });
                    say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                    continue;
                }
                "session/load" => {
                    self.window = window(&params);
                    self.tells_again();
                    Json::Null
                }
                "session/new" => {
                    self.window = window(&params);
                    json!({ "sessionId": "s1", "modes": { "currentModeId": "plain",
                        "availableModes": [{ "id": "plain" }, { "id": "careful" }] } })
                }
                "session/prompt" => self.prompted(),
                _ => json!({}),
            };
            if !id.is_null() {
                say(&json!({ "jsonrpc": "2.0", "id": id, "result": answer }));
            }
        }
    }

    fn hear(&mut self) -> Option<Json> {
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(path) = &self.heard {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            file.unwrap().write_all(line.as_bytes()).unwrap();
        }
        let heard: Json = serde_json::from_str(&line).unwrap();
        self.is_cancelled |= heard["method"] == "session/cancel";
        Some(heard)
    }

    /// What was in a session before, told to the client that loads it.
    fn tells_again(&self) {
        self.says(&json!("That was before."));
        update(&json!({ "sessionUpdate": "tool_call", "toolCallId": "old", "title": "write", "kind": "edit",
            "locations": [{ "path": "/etc/passwd" }], "status": "completed" }));
        let cost = json!({ "amount": 7.0, "currency": "USD" });
        update(&json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost }));
    }

    /// Plays acts until one ends the turn, and says how it ended.
    fn prompted(&mut self) -> Json {
        (self.is_cancelled, self.tokens) = (false, Some(0));
        let mut stop = "end_turn";
        while let Some(act) = self.acts.get(self.at).cloned() {
            self.at += 1;
            self.tokens = self.tokens.zip(act["tokens"].as_u64()).map(|(sum, more)| sum + more);
            self.says(&act["say"]);
            let calls = act["calls"].as_array().cloned().unwrap_or_default();
            let denied = calls.iter().any(|call| matches!(self.call(call), Back::Failed) && self.sulks);
            if denied || self.is_cancelled {
                stop = "cancelled";
                break;
            }
            if self.ends(&act["end"]) {
                break;
            }
            if let Some(reason) = act["stop"].as_str() {
                return json!({ "stopReason": reason });
            }
        }
        if self.is_cancelled {
            stop = "cancelled";
        }
        let mut answer = json!({ "stopReason": stop });
        if let Some(tokens) = self.tokens {
            self.spent += tokens;
            answer["usage"] = json!({ "totalTokens": tokens, "inputTokens": tokens, "outputTokens": 0 });
            let cost = json!({ "amount": self.spent as f64 / 1e6, "currency": "USD" });
            update(&json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost }));
        }
        answer
    }

    fn says(&self, text: &Json) {
        if let Some(text) = text.as_str().filter(|text| !text.is_empty()) {
            update(
                &json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }),
            );
        }
    }

    /// Whether the turn is over.
    fn ends(&mut self, end: &Json) -> bool {
        if end.is_null() {
            return false;
        }
        if let Some(answer) = end.get("submits") {
            self.visit("submit", answer);
        } else if let Some(question) = end.get("asks") {
            self.visit("ask", &json!({ "question": question }));
        } else if let Some(text) = end.get("says") {
            self.says(text);
        } else {
            match end.as_str().unwrap() {
                "dies" => exit(3),
                "hangs" => while !self.is_cancelled && self.hear().is_some() {},
                "is deaf" => std::thread::sleep(Duration::from_secs(60)),
                "floods" => loop {
                    self.says(&json!("flood ".repeat(8 * 1024)));
                },
                other => panic!("{other}"),
            }
        }
        true
    }

    fn visit(&self, tool: &str, args: &Json) -> Back {
        let window = self.window.as_ref().expect("a window");
        match Visit::at(window).unwrap().call(tool, args.clone()) {
            ToolAnswer::Done(text) => Back::Fine(json!(text)),
            ToolAnswer::Failed(_) => Back::Failed,
        }
    }

    /// Asks the client, and waits for its answer.
    fn ask(&mut self, method: &str, params: &Json) -> Json {
        self.asked += 1;
        // Ids of both kinds, and the first number is 0.
        let id = if self.asked % 2 == 1 { json!(self.asked / 2) } else { json!(format!("q{}", self.asked)) };
        let mut params = params.clone();
        params["sessionId"] = json!("s1");
        say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        while let Some(heard) = self.hear() {
            if heard["id"] == id && heard.get("method").is_none() {
                return heard;
            }
        }
        exit(0)
    }

    fn call(&mut self, call: &Json) -> Back {
        let (tool, args) = (call[0].as_str().unwrap(), &call[1]);
        if let Some(trick) = tool.strip_prefix("trick ") {
            return self.trick(trick, args);
        }
        let kind = match tool {
            "write" | "edit" => "edit",
            "read" => "read",
            "bash" => "execute",
            _ => return self.visit(tool, args),
        };
        self.calls += 1;
        let id = format!("c{}", self.calls);
        let locations: Vec<Json> = args.get("path").map(|path| json!({ "path": path })).into_iter().collect();
        let told = json!({ "toolCallId": id, "title": tool, "kind": kind, "locations": locations, "status": "pending" });
        update(&with(&told, "sessionUpdate", "tool_call"));
        let back =
            if self.asks && !self.is_permitted(&told) { Back::Failed } else { self.made(tool, args, &id) };
        let status = if matches!(back, Back::Fine(_)) { "completed" } else { "failed" };
        update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status }));
        back
    }

    fn is_permitted(&mut self, told: &Json) -> bool {
        let options: Vec<Json> = ["allow_always", "allow_once", "reject_once"]
            .iter()
            .map(|kind| json!({ "optionId": format!("my {kind}"), "name": kind, "kind": kind }))
            .collect();
        let answer = self.ask("session/request_permission", &json!({ "toolCall": told, "options": options }));
        answer["result"]["outcome"]["optionId"] == "my allow_once"
    }

    fn made(&mut self, tool: &str, args: &Json, id: &str) -> Back {
        let path = &args["path"];
        match tool {
            "read" => back(&self.ask("fs/read_text_file", &json!({ "path": path }))),
            "write" => back(&self.ask("fs/write_text_file", args)),
            "edit" => match back(&self.ask("fs/read_text_file", &json!({ "path": path }))) {
                Back::Fine(found) => {
                    let text = found["content"].as_str().unwrap();
                    let text = text.replace(args["old"].as_str().unwrap(), args["new"].as_str().unwrap());
                    back(&self.ask("fs/write_text_file", &json!({ "path": path, "content": text })))
                }
                Back::Failed => Back::Failed,
            },
            _ => self.run(args, id),
        }
    }

    fn run(&mut self, args: &Json, id: &str) -> Back {
        let Back::Fine(opened) = back(&self.ask("terminal/create", args)) else { return Back::Failed };
        let terminal = json!({ "terminalId": opened["terminalId"] });
        let content = json!([{ "type": "terminal", "terminalId": opened["terminalId"] }]);
        update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "content": content }));
        if args["kill"] == true {
            while !output(&self.ask("terminal/output", &terminal)).contains("ready") {}
            self.ask("terminal/kill", &terminal);
        }
        let ended = self.ask("terminal/wait_for_exit", &terminal);
        let shown = self.ask("terminal/output", &terminal);
        self.ask("terminal/release", &terminal);
        self.ask("terminal/output", &terminal);
        update(&json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text",
            "text": format!("{} {}", ended["result"], shown["result"]) } }));
        Back::Fine(Json::Null)
    }

    /// What no decent agent does.
    fn trick(&mut self, trick: &str, args: &Json) -> Back {
        match trick {
            "lines" => {
                for line in args.as_array().unwrap() {
                    line.as_str().map_or_else(|| say(line), |text| raw(&format!("{text}\n")));
                }
            }
            "half" => raw(args.as_str().unwrap()),
            "many" => {
                let (line, count) = (args["line"].to_string(), args["count"].as_u64().unwrap());
                for number in 0..count {
                    raw(&format!("{}\n", line.replace("NUMBER", &number.to_string())));
                }
            }
            "ask" => return back(&self.ask(args["method"].as_str().unwrap(), &args["params"])),
            "permit" => return if self.is_permitted(args) { Back::Fine(Json::Null) } else { Back::Failed },
            "disk" => std::fs::write(args["path"].as_str().unwrap(), "by the agent itself").unwrap(),
            "shut" => panic!("{}", Command::new("sleep").arg("60").stdin(Stdio::null()).exec()),
            "babble" => loop {
                say(&json!({ "jsonrpc": "2.0", "method": "_player/babble" }));
                std::thread::sleep(Duration::from_millis(20));
            },
            other => panic!("{other}"),
        }
        Back::Fine(Json::Null)
    }
}

/// Where the window is that a session is opened with.
fn window(params: &Json) -> Option<PathBuf> {
    let env = params["mcpServers"][0]["env"].as_array().cloned().unwrap_or_default();
    let window = env.iter().find(|one| one["name"] == VARIABLE);
    window.and_then(|one| one["value"].as_str()).map(PathBuf::from)
}

fn is_among(list: &Json, wanted: &Json) -> bool {
    list.as_array().is_some_and(|list| list.contains(wanted))
}

fn output(answer: &Json) -> &str {
    answer["result"]["output"].as_str().unwrap_or_default()
}

fn back(answer: &Json) -> Back {
    answer.get("result").map_or(Back::Failed, |result| Back::Fine(result.clone()))
}

fn with(json: &Json, key: &str, value: &str) -> Json {
    let mut json = json.clone();
    json[key] = Json::from(value);
    json
}

fn update(update: &Json) {
    let params = json!({ "sessionId": "s1", "update": update });
    say(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
}

fn say(line: &Json) {
    raw(&format!("{line}\n"));
}

fn raw(text: &str) {
    let mut out = io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        exit(0);
    }
}
