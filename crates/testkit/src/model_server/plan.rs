//! From a step of a scenario to a concrete answer: placeholders filled in, calls resolved against the
//! tools that this very request offers, whose names differ from agent to agent.

use serde_json::{Map, Value as Json, json};

use super::request::{Offer, Seen};

const PATHS: [&str; 10] = [
    "file_path",
    "filePath",
    "filepath",
    "path",
    "absolutePath",
    "absolute_path",
    "filename",
    "file",
    "target_file",
    "uri",
];
const CONTENTS: [&str; 8] =
    ["content", "contents", "file_text", "fileText", "text", "fileContent", "file_content", "new_str"];
const COMMANDS: [&str; 5] = ["command", "cmd", "commands", "script", "shell_command"];
const WRITERS: [&str; 18] = [
    "Write",
    "write",
    "write_file",
    "WriteFile",
    "writeFile",
    "create_file",
    "create",
    "write_to_file",
    "save",
    "file_editor",
    "str_replace_editor",
    "str_replace_based_edit_tool",
    "text_editor",
    "editor",
    "developer__write",
    "developer__text_editor",
    "Create",
    "Edit",
];
const SHELLS: [&str; 18] = [
    "Bash",
    "bash",
    "exec_command",
    "shell_command",
    "shell",
    "run_shell_command",
    "Shell",
    "terminal",
    "execute_bash",
    "execute_command",
    "run_commands",
    "run_command",
    "run_in_terminal",
    "developer__shell",
    "Execute",
    "local_shell",
    "execute",
    "command",
];
const READERS: [&str; 7] = ["Read", "read", "read_file", "ReadFile", "readFile", "view", "View"];

/// A call as it goes out: the tool, its arguments, and the kind of the tool.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Made {
    pub(super) name: String,
    pub(super) args: Json,
    pub(super) kind: String,
}

/// What the server says in one answer.
pub(super) struct Answer {
    pub(super) number: usize,
    pub(super) step: Json,
    pub(super) text: String,
    pub(super) calls: Vec<Made>,
}

/// The scenario that answers when none is named.
pub(super) fn default_scenario() -> Json {
    json!({ "steps": [
        { "text": "I will create the file.",
          "call": { "name": "@write", "args": { "path": "{{cwd}}/hello.py", "content": "print('hello from the scripted model')\n" } } },
        { "call": { "name": "@shell", "args": { "cmd": "python3 hello.py" } } },
        { "text": "Done: hello.py written; it printed: {{last_tool}}" },
    ] })
}

/// The answer of a scenario to a request.
pub(super) fn answer(seen: &Seen, scenario: &Json, cwd: &str) -> Answer {
    let number = seen.step();
    let after = scenario.get("after").and_then(Json::as_str).unwrap_or("Nothing further to do.");
    let step = scenario.pointer(&format!("/steps/{number}")).cloned();
    let mut step = filled(&step.unwrap_or_else(|| json!({ "text": after })), seen, cwd);
    if let Some((said, is_cut)) = chosen(&step, seen) {
        let stop = if is_cut { json!("max_tokens") } else { Json::Null };
        return Answer { number, step: json!({ "stop": stop }), text: said, calls: Vec::new() };
    }
    let mut calls = Vec::new();
    let several = step.get("calls").and_then(Json::as_array).cloned().unwrap_or_default();
    for call in several.iter().chain(step.get("call").cloned().as_ref()) {
        match resolve(call, seen, number) {
            Some(made) => calls.push(made),
            // A side call, such as for a title: the tool is not on offer here.
            None => {
                let side = scenario.get("side").and_then(Json::as_str).unwrap_or("ok");
                step = json!({ "text": side, "side": true, "missing": call["name"] });
                calls.clear();
                break;
            }
        }
    }
    let mut text = step.get("text").and_then(Json::as_str).unwrap_or_default().to_owned();
    if let Some(json) = step.get("json") {
        text = json.to_string();
    } else if let Some(schema) = schema_of(&seen.schema) {
        text = smallest(schema).to_string();
        step = json!({ "side": true });
        calls.clear();
    }
    Answer { number, step, text, calls }
}

/// What a small model says that must choose a tool by a schema: the call of its step where that tool is there, else with
/// `fills` an answer that goes on until the schema or `max_tokens` ends it. Whether it was cut off comes with it.
fn chosen(step: &Json, seen: &Seen) -> Option<(String, bool)> {
    let choices = schema_of(&seen.schema)?.get("anyOf")?.as_array()?;
    let offered = |name: &str| choices.iter().find(|one| one["properties"]["tool"]["const"] == name);
    let name = step["call"]["name"].as_str().unwrap_or_default();
    if offered(name).is_some() {
        return Some((json!({ "tool": name, "arguments": step["call"]["args"] }).to_string(), false));
    }
    let submit = offered("submit").filter(|_| step["fills"] == true)?;
    let text =
        json!({ "tool": "submit", "arguments": longest(&submit["properties"]["arguments"]) }).to_string();
    // A token is about four letters.
    let most = seen.most.and_then(|most| usize::try_from(most * 4).ok()).unwrap_or(usize::MAX);
    Some((text.chars().take(most).collect(), text.chars().count() > most))
}

/// A value as long as a schema allows, within reason.
fn longest(schema: &Json) -> Json {
    const ENDLESS: u64 = 2000;
    let types: Vec<&str> = match &schema["type"] {
        Json::Array(types) => types.iter().filter_map(Json::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    if let Some(word) = schema.pointer("/enum/0") {
        return word.clone();
    }
    match types.first().copied().unwrap_or("string") {
        "object" => {
            let known = schema["properties"].as_object().cloned().unwrap_or_default();
            Json::Object(known.iter().map(|(key, of)| (key.clone(), longest(of))).collect())
        }
        "array" => {
            let most = schema["maxItems"].as_u64().unwrap_or(ENDLESS);
            (0..most).map(|_| longest(&schema["items"])).collect()
        }
        "integer" | "number" => json!(1),
        "boolean" => json!(true),
        _ => json!("again and again"),
    }
}

/// The step with its placeholders filled in.
fn filled(of: &Json, seen: &Seen, cwd: &str) -> Json {
    match of {
        Json::String(text) => {
            let short = |text: &str| text.chars().take(2000).collect::<String>();
            let cwd = stated_cwd(&seen.system).unwrap_or_else(|| cwd.to_owned());
            let text = text.replace("{{cwd}}", &cwd).replace("{{model}}", &seen.model);
            let text = text.replace("{{last_tool}}", &short(seen.last_tool.trim()));
            Json::String(text.replace("{{prompt}}", &short(&seen.user)))
        }
        Json::Array(items) => items.iter().map(|item| filled(item, seen, cwd)).collect(),
        Json::Object(fields) => {
            Json::Object(fields.iter().map(|(key, value)| (key.clone(), filled(value, seen, cwd))).collect())
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => of.clone(),
    }
}

/// The folder that a prompt names as the one to work in.
fn stated_cwd(system: &str) -> Option<String> {
    let lower = system.to_ascii_lowercase();
    let marks =
        ["<cwd>", "working directory", "working-directory", "workspace director", "project root", "cwd"];
    marks.iter().find_map(|mark| {
        let at = lower.find(mark)? + mark.len();
        let rest = system.get(at..)?;
        let start = rest.find('/').filter(|start| *start <= 60 && !rest[..*start].contains('\n'))?;
        let ends = |one: char| one.is_whitespace() || "`'\"<".contains(one);
        let path = rest[start..].split(ends).next().unwrap_or_default();
        Some(path.trim_end_matches(['.', ',', ';', '/']).to_owned()).filter(|path| path.len() > 1)
    })
}

fn find<'a>(tools: &'a [Offer], names: &[&str]) -> Option<&'a Offer> {
    let exact = names.iter().find_map(|name| tools.iter().find(|tool| tool.name == *name));
    let spaced = |name: &&str| {
        let ends = ["__", ".", "/", "-"].map(|mark| format!("{mark}{name}"));
        tools.iter().find(|tool| ends.iter().any(|end| tool.name.ends_with(end)))
    };
    exact.or_else(|| names.iter().find_map(spaced))
}

fn pick<'a>(schema: &Json, names: &[&'a str]) -> Option<&'a str> {
    let known = schema.get("properties")?;
    names.iter().find(|name| known.get(**name).is_some()).copied()
}

/// Arguments by what they mean, with everything that the tool's schema requires.
fn fill(schema: &Json, given: &[(&[&str], Json)], extra: &[(&str, Json)]) -> Json {
    let mut args = Map::new();
    for (names, value) in given {
        let free = schema.get("properties").and_then(Json::as_object).is_none_or(Map::is_empty);
        let Some(name) = pick(schema, names).or(free.then_some(names[0])) else { continue };
        let of = &schema["properties"][name]["type"];
        let is_list = of == "array" || of.as_array().is_some_and(|types| types.contains(&json!("array")));
        let value = match (is_list && *names == COMMANDS, ["command", "cmd"].contains(&name)) {
            (true, true) => json!(["bash", "-lc", value]),
            (true, false) => json!([value]),
            (false, _) => value.clone(),
        };
        args.insert(name.to_owned(), value);
    }
    for name in schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str)
    {
        if !args.contains_key(name) {
            let own = extra.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
            args.insert(name.to_owned(), own.unwrap_or_else(|| made_up(&schema["properties"][name])));
        }
    }
    Json::Object(args)
}

fn made_up(schema: &Json) -> Json {
    if let Some(value) = schema.get("default").or_else(|| schema.pointer("/enum/0")) {
        return value.clone();
    }
    let of = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match of.unwrap_or("string") {
        "boolean" => json!(false),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(0)),
        "array" => json!([]),
        "object" => json!({}),
        _ => json!("scripted step"),
    }
}

fn resolve(call: &Json, seen: &Seen, step: usize) -> Option<Made> {
    let name = call["name"].as_str()?;
    let args = call.get("args").cloned().unwrap_or_else(|| json!({}));
    let made =
        |tool: &Offer, args: Json| Some(Made { name: tool.name.clone(), args, kind: tool.kind.clone() });
    match name {
        "@write" => write(&args, seen),
        "@shell" => {
            let tool = find(&seen.tools, &SHELLS)?;
            let extra = [("description", json!("scripted command"))];
            made(tool, fill(&tool.schema, &[(&COMMANDS, args["cmd"].clone())], &extra))
        }
        "@read" => {
            let tool = find(&seen.tools, &READERS)?;
            made(tool, fill(&tool.schema, &[(&PATHS, args["path"].clone())], &[]))
        }
        // A tool that is not on offer, as models call it all the same.
        forced if forced.starts_with('!') => {
            Some(Made { name: forced[1..].to_owned(), args, kind: String::from("function") })
        }
        suffix if suffix.starts_with('*') => by_suffix(&suffix[1..], args, seen, step),
        name => made(seen.tools.iter().find(|tool| tool.name == name)?, args),
    }
}

fn write(args: &Json, seen: &Seen) -> Option<Made> {
    let (path, content) = (args["path"].as_str()?, args["content"].as_str()?);
    let writer = find(&seen.tools, &WRITERS).filter(|tool| tool.name != "Edit");
    if let Some(tool) = writer.filter(|tool| pick(&tool.schema, &CONTENTS).is_some() || tool.schema.is_null())
    {
        let command = &tool.schema["properties"]["command"];
        let mut all = fill(&tool.schema, &[(&PATHS, json!(path)), (&CONTENTS, json!(content))], &[]);
        if !command.is_null() {
            let words = command["enum"].as_array().cloned().unwrap_or_default();
            let writes = words.contains(&json!("write")) && !words.contains(&json!("create"));
            all["command"] = json!(if writes { "write" } else { "create" });
        }
        return Some(Made { name: tool.name.clone(), args: all, kind: tool.kind.clone() });
    }
    if let Some(tool) = find(&seen.tools, &["apply_patch"]) {
        let short = path.rsplit('/').next().unwrap_or(path);
        let rel = args["rel"].as_str().unwrap_or(if path.starts_with('/') { short } else { path });
        let lines: String = content.lines().map(|line| format!("+{line}\n")).collect();
        let patch = format!("*** Begin Patch\n*** Add File: {rel}\n{lines}*** End Patch\n");
        let key = pick(&tool.schema, &["input", "patch", "patchText", "patch_text"]).unwrap_or("input");
        let args = if tool.kind.starts_with("custom") { json!(patch) } else { json!({ key: patch }) };
        return Some(Made { name: tool.name.clone(), args, kind: tool.kind.clone() });
    }
    let command = format!("printf %s {} > {}", quoted(content), quoted(path));
    resolve(&json!({ "name": "@shell", "args": { "cmd": command } }), seen, 0)
}

/// A tool whose name ends so; one that is hidden behind a search tool is searched for first.
fn by_suffix(suffix: &str, args: Json, seen: &Seen, step: usize) -> Option<Made> {
    if let Some(tool) = seen.tools.iter().find(|tool| tool.name.ends_with(suffix)) {
        return Some(Made { name: tool.name.clone(), args, kind: tool.kind.clone() });
    }
    if seen.searched.contains(&step) {
        let is_name = |one: char| one.is_alphanumeric() || "_.-".contains(one);
        let name = seen.last_tool.split(|one| !is_name(one)).find(|word| word.ends_with(suffix))?.to_owned();
        let kind = String::from("function");
        let wrapped = seen.tools.iter().any(|tool| tool.name == "tool_call");
        return Some(match wrapped {
            true => Made { name: "tool_call".into(), args: json!({ "name": name, "arguments": args }), kind },
            false => Made { name, args, kind },
        });
    }
    let tool = find(&seen.tools, &["ToolSearch", "tool_search"])?;
    let mut query = fill(&tool.schema, &[], &[("query", json!(suffix))]);
    query["query"] = json!(suffix);
    Some(Made { name: tool.name.clone(), args: query, kind: format!("search:{}", tool.kind) })
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\"'\"'"))
}

/// The schema inside whatever field asks for JSON of a shape.
fn schema_of(format: &Json) -> Option<&Json> {
    if format["type"] == "json_schema" {
        return format.get("schema").or_else(|| format.pointer("/json_schema/schema"));
    }
    format.get("properties").map(|_| format)
}

/// The smallest value that fits a schema.
pub(super) fn smallest(schema: &Json) -> Json {
    if let Some(value) = schema.get("const").or_else(|| schema.pointer("/enum/0")) {
        return value.clone();
    }
    if let Some(way) = ["anyOf", "oneOf", "allOf"].iter().find_map(|key| schema.get(*key)?.get(0)) {
        return smallest(way);
    }
    let of = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    let guess = if schema.get("properties").is_some() { "object" } else { "string" };
    match of.unwrap_or(guess).to_ascii_lowercase().as_str() {
        "object" => {
            let known = schema["properties"].as_object().cloned().unwrap_or_default();
            Json::Object(known.iter().map(|(key, of)| (key.clone(), smallest(of))).collect())
        }
        "array" if schema["minItems"].as_u64().unwrap_or(0) > 0 => json!([smallest(&schema["items"])]),
        "array" => json!([]),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(0)),
        "boolean" => json!(true),
        "null" => Json::Null,
        _ => json!("scripted"),
    }
}
