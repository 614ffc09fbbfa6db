//! Reads a workspace, also one of the older forms, and prints it as `workspace parse` does.

use ftl_core::catalogue::spec::Spec;

use super::xml::{self, Element, Node};
use super::{
    DEFAULT_CONFIDENCE, KnownFailure, KnownPattern, LessonKind, Parent, PriorKnowledge, UsedLesson,
    Workspace, WorkspaceRefusal, WorkspaceStatus,
};
use crate::plan_file::{DEFAULT_BUDGET, MAX_PLAN_READS, MAX_REPAIRS, TaskType};
use ftl_code::context::CodeContext;
use ftl_code::framework::Rules;
use ftl_core::json::{Json, JsonExt as _};

/// Reads the text of a workspace file.
pub fn parse(text: &str) -> Result<Workspace, WorkspaceRefusal> {
    from_tree(&xml::read(text)?)
}

/// Whether a text is `<workspace/>` and nothing else: a mark that some scripts put down before there is a brief.
pub fn is_empty(text: &str) -> bool {
    let is_blank = |node: &Node| matches!(node, Node::Text(text) if text.trim().is_empty());
    text.len() <= MAX_EMPTY_BYTES
        && xml::read(text).is_ok_and(|root| {
            root.name == "workspace" && root.attributes.is_empty() && root.nodes.iter().all(is_blank)
        })
}

/// How large a file may be that holds an empty workspace: a declaration, a tag and white space.
const MAX_EMPTY_BYTES: usize = 1024;

pub(super) fn from_tree(root: &Element) -> Result<Workspace, WorkspaceRefusal> {
    let hint = "make the workspace again with \"workspace create\"";
    if root.name != "workspace" {
        return Err(WorkspaceRefusal::new(format!("not a workspace: its root is <{}>", root.name), hint));
    }
    let word = root.get("status").unwrap_or_default();
    let status = WorkspaceStatus::parse(word).ok_or_else(|| {
        WorkspaceRefusal::new(
            format!("not a workspace: its status is {word:?}, not active, complete or blocked"),
            hint,
        )
    })?;
    let attribute = |name: &str| root.get(name).map(str::to_owned);
    let empty = Element::default();
    let work = root.child("implementation").unwrap_or(&empty);
    let idioms = root.child("idioms").or(root.child("framework_idioms"));
    let kinds = [TaskType::Spec, TaskType::Build, TaskType::Verify];
    Ok(Workspace {
        id: attribute("id").unwrap_or_default(),
        status,
        created_at: attribute("created_at"),
        completed_at: attribute("completed_at"),
        blocked_at: attribute("blocked_at"),
        campaign: attribute("campaign"),
        kind: kinds.into_iter().find(|kind| root.get("type") == Some(kind.word())),
        escalated: root.get("escalated") == Some("true"),
        objective: root.text_of("objective"),
        delta: work.children_named("delta").map(Element::to_text).collect(),
        verify: work.text_of("verify"),
        verify_source: work.text_of("verify_source"),
        budget: work.text_of("budget").trim().parse().unwrap_or(DEFAULT_BUDGET),
        repairs: count(work, "repairs", MAX_REPAIRS),
        plan_reads: count(work, "plan_reads", MAX_PLAN_READS),
        preflight: preflight(root, work),
        allow: work.children_named("allow").map(Element::to_text).collect(),
        delivered: root.text_of("delivered"),
        contexts: root.children_named("code_context").map(context).collect(),
        framework: idioms.and_then(|idioms| idioms.get("framework")).map(str::to_owned),
        framework_confidence: confidence(root, idioms),
        idioms: idioms.map(|idioms| Rules {
            required: rules(idioms, "required"),
            forbidden: rules(idioms, "forbidden"),
        }),
        prior_knowledge: root.child("prior_knowledge").map(knowledge),
        utilized: root.child("memory_utilization").map(utilized),
        parents: parents(root.child("lineage")),
        pattern: root
            .child("pattern")
            .or(work.child("pattern"))
            .map(Element::to_text)
            .filter(|text| !text.is_empty()),
    })
}

/// A number of an element; what is no number says nothing.
fn count(work: &Element, name: &str, most: u64) -> Option<u64> {
    work.text_of(name).trim().parse().ok().map(|count: u64| count.min(most))
}

/// Commands as texts, or in older files as checks below one element.
fn preflight(root: &Element, work: &Element) -> Vec<String> {
    let mut commands = Vec::new();
    for element in work.children_named("preflight").chain(root.children_named("preflight")) {
        match element.child("check") {
            Some(_) => commands.extend(element.children_named("check").map(Element::to_text)),
            None => commands.push(element.to_text()),
        }
    }
    commands.retain(|command| !command.trim().is_empty());
    commands
}

/// Rules as texts, or in older files as idioms below one element.
fn rules(idioms: &Element, name: &str) -> Vec<String> {
    let mut list = Vec::new();
    for element in idioms.children_named(name) {
        match element.children().next() {
            Some(_) => list.extend(element.children().map(Element::to_text)),
            None => list.push(element.to_text()),
        }
    }
    list.retain(|text| !text.trim().is_empty());
    list
}

fn context(element: &Element) -> CodeContext {
    let attribute = |name: &str| element.get(name).unwrap_or_default().to_owned();
    CodeContext {
        path: attribute("path"),
        lines: attribute("lines"),
        content: element.child("content").map(Element::to_bytes).unwrap_or_default(),
        exports: element.text_of("exports"),
        imports: element.text_of("imports"),
        is_cut: element.get("cut") == Some("true"),
    }
}

/// What the idioms say wins over the element of its own.
fn confidence(root: &Element, idioms: Option<&Element>) -> Option<f64> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let by_idioms = idioms.and_then(|idioms| idioms.get("confidence")).and_then(number);
    by_idioms.or_else(|| number(&root.text_of("framework_confidence")))
}

fn knowledge(element: &Element) -> PriorKnowledge {
    let text = |element: &Element, name: &str| element.get(name).unwrap_or_default().to_owned();
    let count = |element: &Element, name: &str| {
        element.get(name).and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    let failures = element.children_named("failure").map(|failure| KnownFailure {
        name: text(failure, "name"),
        cost: count(failure, "cost"),
        trigger: failure.text_of("trigger"),
        fix: failure.text_of("fix"),
        pattern: failure.text_of("match"),
        injected: failure.get("injected") == Some("true"),
    });
    let patterns = element.children_named("pattern").map(|pattern| KnownPattern {
        name: text(pattern, "name"),
        saved: count(pattern, "saved"),
        trigger: pattern.text_of("trigger"),
        insight: pattern.text_of("insight"),
        injected: pattern.get("injected") == Some("true"),
    });
    PriorKnowledge { failures: failures.collect(), patterns: patterns.collect() }
}

fn utilized(element: &Element) -> Vec<UsedLesson> {
    let used = |one: &Element| UsedLesson {
        name: one.get("name").unwrap_or_default().to_owned(),
        kind: one.get("type").and_then(LessonKind::parse).unwrap_or(LessonKind::Failure),
    };
    element.children_named("utilized").map(used).collect()
}

/// Parents as elements with a seq, or in older files one bare text beside what it delivered.
fn parents(lineage: Option<&Element>) -> Vec<Parent> {
    let Some(lineage) = lineage else { return Vec::new() };
    let parent = |element: &Element| {
        let bare = element.get("seq").is_none() && element.get("workspace").is_none();
        let delivery =
            if bare { lineage.text_of("prior_delivery") } else { element.text_of("prior_delivery") };
        let workspace =
            element.get("workspace").map_or_else(|| element.to_text().trim().to_owned(), str::to_owned);
        Parent { seq: element.get("seq").map(str::to_owned), workspace, prior_delivery: delivery }
    };
    let is_real = |parent: &Parent| parent.seq.is_some() || !parent.workspace.is_empty();
    lineage.children_named("parent").map(parent).filter(is_real).collect()
}

impl Workspace {
    /// The workspace as `workspace parse` prints it.
    pub fn to_json(&self) -> Json {
        let mut json = Json::object([
            ("id", Json::from(self.id.as_str())),
            ("status", Json::from(self.status.word())),
            ("created_at", Json::from(self.created_at.clone())),
            ("completed_at", Json::from(self.completed_at.clone())),
            ("blocked_at", Json::from(self.blocked_at.clone())),
            ("objective", Json::from(self.objective.as_str())),
            ("delta", Json::from(self.delta.as_slice())),
            ("verify", Json::from(self.verify.as_str())),
            ("verify_source", Json::from(self.verify_source.as_str())),
            ("budget", Json::from(self.budget)),
            ("preflight", Json::from(self.preflight.as_slice())),
            ("delivered", Json::from(self.delivered.as_str())),
        ]);
        for (name, number) in [("repairs", self.repairs), ("plan_reads", self.plan_reads)] {
            if let Some(number) = number {
                json.put(name, number);
            }
        }
        if !self.allow.is_empty() {
            json.put("allow", Json::from(self.allow.as_slice()));
        }
        self.put_code(&mut json);
        self.put_framework(&mut json);
        self.put_knowledge(&mut json);
        self.put_lineage(&mut json);
        self.put_rest(&mut json);
        json
    }

    /// The workspace in the shape that protocols know.
    pub fn to_spec(&self) -> Result<Spec, serde_json::Error> {
        let mut json = self.to_json();
        if self.framework_confidence.is_none() {
            json.put("framework_confidence", DEFAULT_CONFIDENCE);
        }
        serde_json::from_value(json)
    }

    fn put_code(&self, json: &mut Json) {
        let mut contexts = self.contexts.iter().map(context_json);
        let Some(first) = contexts.next() else { return };
        if self.contexts.len() > 1 {
            let all = std::iter::once(first.clone()).chain(contexts);
            json.put("code_contexts", Json::Array(all.collect()));
        }
        json.put("code_context", first);
    }

    fn put_framework(&self, json: &mut Json) {
        if let Some(confidence) = self.framework_confidence {
            json.put("framework_confidence", confidence);
        }
        if let Some(idioms) = &self.idioms {
            json.put("framework", self.framework.clone());
            json.put("idioms", idioms.to_json());
        }
    }

    fn put_knowledge(&self, json: &mut Json) {
        if let Some(known) = &self.prior_knowledge {
            let failures = Json::Array(known.failures.iter().map(failure_json).collect());
            let patterns = Json::Array(known.patterns.iter().map(pattern_json).collect());
            json.put("prior_knowledge", Json::object([("failures", failures), ("patterns", patterns)]));
        }
        if let Some(used) = &self.utilized {
            let used = used.iter().map(|used| {
                Json::object([
                    ("name", Json::from(used.name.as_str())),
                    ("type", Json::from(used.kind.word())),
                ])
            });
            json.put("utilized_memories", Json::Array(used.collect()));
        }
    }

    fn put_lineage(&self, json: &mut Json) {
        let Some(first) = self.parents.first() else { return };
        let parent = |parent: &Parent| {
            Json::object([
                ("seq", Json::from(parent.seq.clone())),
                ("workspace", Json::from(parent.workspace.as_str())),
                ("prior_delivery", Json::from(parent.prior_delivery.as_str())),
            ])
        };
        let lineage = Json::object([
            ("parents", Json::Array(self.parents.iter().map(parent).collect())),
            ("parent", Json::from(first.workspace.as_str())),
            ("prior_delivery", Json::from(first.prior_delivery.as_str())),
        ]);
        json.put("lineage", lineage);
    }

    /// What the FTL protocol does not list stands last, and only where there is something to say.
    fn put_rest(&self, json: &mut Json) {
        if let Some(kind) = self.kind {
            json.put("type", kind.word());
        }
        if let Some(campaign) = &self.campaign {
            json.put("campaign", campaign.as_str());
        }
        if self.escalated {
            json.put("escalated", true);
        }
        if let Some(pattern) = &self.pattern {
            json.put("pattern", pattern.as_str());
        }
    }
}

/// Bytes that are no text are shown as well as they can be, and exactly as numbers beside it.
fn context_json(context: &CodeContext) -> Json {
    let content = String::from_utf8_lossy(&context.content);
    let mut json = Json::object([
        ("path", Json::from(context.path.as_str())),
        ("lines", Json::from(context.lines.as_str())),
        ("content", Json::from(content.as_ref())),
        ("exports", Json::from(context.exports.as_str())),
        ("imports", Json::from(context.imports.as_str())),
    ]);
    if std::str::from_utf8(&context.content).is_err() {
        let hex: String = context.content.iter().map(|byte| format!("{byte:02x}")).collect();
        json.put("content_hex", hex);
    }
    if context.is_cut {
        json.put("cut", true);
    }
    json
}

fn failure_json(failure: &KnownFailure) -> Json {
    Json::object([
        ("name", Json::from(failure.name.as_str())),
        ("cost", Json::from(failure.cost)),
        ("trigger", Json::from(failure.trigger.as_str())),
        ("fix", Json::from(failure.fix.as_str())),
        ("match", Json::from(failure.pattern.as_str())),
        ("injected", Json::from(failure.injected)),
    ])
}

fn pattern_json(pattern: &KnownPattern) -> Json {
    Json::object([
        ("name", Json::from(pattern.name.as_str())),
        ("saved", Json::from(pattern.saved)),
        ("trigger", Json::from(pattern.trigger.as_str())),
        ("insight", Json::from(pattern.insight.as_str())),
        ("injected", Json::from(pattern.injected)),
    ])
}
