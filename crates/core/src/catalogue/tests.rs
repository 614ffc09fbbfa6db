//! The catalogue against the five programs: every name they use, every field they read.
//!
//! The tables are written by hand from the programs, so that a declaration cannot drift away from
//! them unseen. A type is written as a word: `text`, `list text`, `Plan`, `direct|full`, `any`.

use std::collections::{BTreeMap, BTreeSet};

use super::declare::Declaration;
use super::{ActionKind, Catalogue, Field, Type, forms, standard_actions, words};
use crate::value::Name;

/// Every call in the programs: what it gives, what is read of the answer.
const CALLS: &str = "
    exploration.clear act () ->
    exploration.aggregate look (objective: text, parts: any) ->
    exploration.write act (exploration: Exploration) ->
    decision.parse look (text: text) -> kind: CLARIFY|CONFIRM|PROCEED|UNKNOWN, problems: list text, plan: Plan, questions: list text, selection: text
    plan.parse look (text: text) -> problems: list text, plan: Plan, plan.tasks: list PlanTask
    workspace.create act (plan: Plan) -> path: text, mode: direct|full, budget: number, full_budget: number
    workspace.create act (plan: Plan, task: text) -> path: text, mode: direct|full, budget: number, full_budget: number, story: text
    observer.analyze act () ->
    branch.deliver act (how: branch-only|ff|squash) ->
    campaign.create act (objective: text) ->
    campaign.add_tasks act (plan: Plan) ->
    campaign.tasks look () -> ready: list Task, running: list Task, ready.seq: text, ready.worker: builder|coder
    campaign.update_task act (task: text, verdict: blocked|complete|error|escalated, reason: text) ->
    campaign.cascade_status look () -> state: all_blocked|complete|in_progress|none|stuck, unreachable: list Unreachable
    campaign.replan_input look (reason: text) -> mode: text
    campaign.merge_plan act (revised: Plan) -> tasks: list PlanTask
    campaign.propagate_blocks act () ->
    campaign.root_causes look () -> single: bool
    campaign.complete act () ->
    campaign.summary look () -> complete_count: number, blocked_count: number, pending_count: number, total: number, target: text
    workspace.block act (path: text, reason: text, tried: any) ->
    lesson.experience act (trigger: text, attempted: any, source: text) ->
    lesson.learn act (trigger: text, fix: text, source: text) ->
    workspace.parse look (path: text) -> delta: list text, framework: text, verify_source: text, verify: text, prior_knowledge: PriorKnowledge, framework_confidence: number
    workspace.validate gate (spec: Spec) -> passed: bool, summary: text
    file.read look (path: text) -> text: text
    preflight.check gate (files: list text) -> status: fail|pass|skip, passed: bool, broken: list text, summary: text
    verify.run gate (command: text) -> passed: bool, tree: digest, summary: text
    lesson.match look (error: text, output: any, among: PriorKnowledge) -> found: bool, flaky: bool, name: text, fix: text
    quality.check gate (spec: Spec) -> passed: bool, summary: text
    work.land act (tree: digest, verify: text) -> status: conflict|failed|landed, sides: list Side, files: list text, summary: text, commit: text, target: text
    work.land act (verify: text) -> status: conflict|failed|landed
    workspace.complete act (path: text, delivered: text, utilized: list Used, tried: any) ->
    story.assigned wait (story: any) ->
    worktree.open act (story: any) -> path: text
    story.satisfied gate (story: any, evidence: list Evidence) -> passed: bool, summary: text
    tests.run gate (site: Site) -> passed: bool, tree: digest, summary: text
    worktree.progress look (site: Site) ->
    work.merge act (tree: digest) -> status: conflict|failed|landed, summary: text, commit: text, sides: list Side, checks: list text
    pull.merge act (tree: digest) -> status: conflict|failed|landed, summary: text, commit: text
    worktree.close act (site: Site) ->
    worktree.keep act (site: Site) ->
    worktree.keep act () ->
    artifact.plan gate () -> passed: bool, missing: list text
    artifact.plan_review gate () -> blocked: bool, needs_changes: bool, findings: list Finding, passed: bool, missing: list text
    artifact.code gate () -> scope_mismatch: bool, plan_unclear: bool, findings: list Finding, passed: bool, missing: list text
    artifact.code_review gate () -> plan_flawed: bool, blocked: bool, needs_changes: bool, findings: list Finding, passed: bool, missing: list text
    eval.run act (write: any) ->
    artifact.report gate () -> passed: bool, failed: bool, summary: text, missing: list text
    decision.record act (choice: accepted|deferred|needs_work|rejected, by: text, reason: text) ->
    artifact.decision gate () -> regression: bool, route: text, notes: text, passed: bool, patch: digest, missing: list text
    patch.apply act (patch: digest) ->
    patch.revert act (reason: text) ->
    artifact.revert gate () -> passed: bool, missing: list text
    sh act (script: text, args: list text) ->
";

/// Every Task in the programs, with the word of its selector.
const TASKS: &str = "
    explorer structure () -> status: error|ok|partial
    explorer pattern (objective: text) -> framework: text, confidence: number
    explorer memory (objective: text) -> failures: list any
    explorer delta (objective: text) -> candidates: list any
    planner - (input: any, exploration: Exploration, answers: any) -> text: text
    planner - (input: any, exploration: Exploration) -> text: text
    planner - (brief: text, feedback: any, write: any) ->
    observer - () ->
    builder plan (spec: Spec) -> approach: text
    builder implement (spec: Spec, approach: any, tests: text, write: any) -> utilized: list Used
    builder fix_syntax (errors: any, write: any) ->
    builder apply_fix (error: any, fix: any, write: any) ->
    builder repair (spec: Spec, error: any, output: any, write: any) -> summary: text
    builder resolve (sides: any, write: any) ->
    coder plan (story: any, feedback: any) -> digest: digest
    coder code (story: any, plan: digest, feedback: any, write: any) ->
    coder - (feedback: any, write: any) ->
    architect plan_review (story: any, plan: digest) -> verdict: ABANDON|APPROVE|CHANGES|COMPLETE, feedback: text, evidence: list Evidence
    architect budget_review (story: any, reason: any, progress: any) -> verdict: ABANDON|CONTINUE|PIVOT|REPLAN, feedback: text
    architect code_review (story: any, plan: digest, tree: digest) -> verdict: ABANDON|APPROVE|CHANGES, feedback: text
    reviewers plan (feedback: any, write: any) ->
    reviewers code (feedback: any, write: any) ->
";

/// Where the programs hand an answer on as a parameter; the type must fit.
const HANDED_ON: &str = "
    exploration.aggregate -> exploration.write exploration
    exploration.aggregate -> planner exploration
    planner text -> decision.parse text
    planner text -> plan.parse text
    decision.parse plan -> workspace.create plan
    decision.parse plan -> campaign.add_tasks plan
    campaign.replan_input -> planner input
    plan.parse plan -> campaign.merge_plan revised
    campaign.merge_plan -> workspace.create plan
    campaign.tasks ready.seq -> workspace.create task
    campaign.tasks ready.seq -> campaign.update_task task
    workspace.create path -> workspace.parse path
    workspace.create story -> worktree.open story
    workspace.parse -> workspace.validate spec
    workspace.parse -> quality.check spec
    workspace.parse -> builder spec
    workspace.parse verify_source -> file.read path
    file.read text -> builder tests
    workspace.parse delta -> preflight.check files
    workspace.parse verify -> verify.run command
    workspace.parse verify -> work.land verify
    verify.run tree -> work.land tree
    verify.run summary -> lesson.match error
    workspace.parse prior_knowledge -> lesson.match among
    lesson.match fix -> builder fix
    lesson.match name -> workspace.block tried
    lesson.match name -> workspace.complete tried
    work.land sides -> builder sides
    work.land summary -> workspace.complete delivered
    builder utilized -> workspace.complete utilized
    worktree.open -> tests.run site
    worktree.open -> worktree.progress site
    worktree.open -> worktree.close site
    worktree.open -> worktree.keep site
    worktree.progress -> architect progress
    coder digest -> architect plan
    coder digest -> coder plan
    architect evidence -> story.satisfied evidence
    tests.run tree -> architect tree
    tests.run tree -> work.merge tree
    tests.run tree -> pull.merge tree
    work.merge sides -> coder feedback
    artifact.decision notes -> patch.revert reason
    artifact.decision patch -> patch.apply patch
";

#[test]
fn names_are_unique() {
    let actions: Vec<Name> = standard_actions().into_iter().map(|one| one.name).collect();
    let roles: Vec<Name> = forms::roles().into_iter().map(|one| one.name).collect();
    let words: Vec<Name> = words::words().into_iter().map(|one| one.name).collect();
    for names in [actions, roles, words] {
        let distinct: BTreeSet<&Name> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }
}

#[test]
fn every_gate_says_what_it_saw() {
    let gates: Vec<&Declaration> =
        Catalogue::standard().actions().filter(|one| one.kind == ActionKind::Gate).collect();
    assert!(gates.len() >= 13, "{} gates", gates.len());
    for gate in gates {
        let fields = fields(&gate.answer);
        for (name, ty, required) in [
            ("passed", "bool", true),
            ("failed", "bool", true),
            ("summary", "text", true),
            ("tree", "digest", false),
        ] {
            let field = fields.get(name).unwrap_or_else(|| panic!("{}: no `{name}`", gate.name));
            assert_eq!((word(&field.ty).as_str(), field.required), (ty, required), "{} {name}", gate.name);
        }
        if gate.name.starts_with("artifact.") {
            assert_eq!(word(&fields["missing"].ty), "list text", "{}", gate.name);
        }
    }
}

#[test]
fn what_a_declaration_refers_to_exists() {
    let all = Catalogue::standard();
    for action in all.actions() {
        if let Some(piped) = action.piped {
            assert!(action.params.contains_key(piped), "{}: piped `{piped}`", action.name);
        }
        if let Some(recorder) = action.recorded_by {
            assert_eq!(all.action(recorder).map(|one| one.kind), Some(ActionKind::Act), "{}", action.name);
            assert_eq!(action.kind, ActionKind::Gate, "{}", action.name);
        }
    }
    assert_eq!(all.action("artifact.decision").and_then(|one| one.recorded_by), Some("decision.record"));
}

#[test]
fn everything_says_what_it_means() {
    let all = Catalogue::standard();
    for action in all.actions() {
        assert!(action.about.trim().ends_with('.'), "{}", action.name);
        explained(&action.name, &action.params);
        explained(&action.name, &fields(&action.answer));
    }
    for role in all.roles() {
        assert!(role.about.ends_with('.'), "{}", role.name);
        for form in &role.forms {
            assert!(form.about.ends_with('.'), "{} {:?}", role.name, form.word);
            explained(&role.name, &form.params);
            explained(&role.name, &fields(&form.answer));
        }
    }
    for one in all.words.values() {
        explained(&one.name, &one.options);
    }
}

#[test]
fn a_role_without_selector_has_no_words() {
    for role in Catalogue::standard().roles() {
        let words: Vec<&str> = role.forms.iter().filter_map(|form| form.word).collect();
        let distinct: BTreeSet<&&str> = words.iter().collect();
        assert_eq!(distinct.len(), words.len(), "{}", role.name);
        assert_eq!(role.selector.is_some(), !words.is_empty(), "{}", role.name);
        if let Some(selector) = role.selector {
            assert!(role.forms.iter().all(|form| !form.params.contains_key(selector)), "{}", role.name);
        }
    }
}

#[test]
fn options_are_never_named_like_words() {
    let all = Catalogue::standard();
    let names: Vec<&str> = all.words.values().map(|one| &*one.name).collect();
    let listed =
        ["accept", "codegen", "next", "plan", "redo", "revert", "review_code", "review_plan", "test"];
    assert_eq!(names, listed);
    for one in all.words.values() {
        for option in one.options.keys() {
            assert!(!listed.contains(&&**option) && !["by", "reason"].contains(&&**option), "{option}");
        }
    }
    let accept = &all.word("accept").unwrap().options;
    assert_eq!(word(&accept["choice"].ty), "accepted|deferred|needs_work|rejected");
    assert_eq!(word(&accept["route"].ty), "text", "routes are the document's own names");
}

#[test]
fn the_programs_calls_are_declared() {
    let mut named = BTreeSet::new();
    for row in rows(CALLS) {
        let call = Call::read(row);
        let action = Catalogue::standard().action(call.name).unwrap_or_else(|| panic!("no action: {row}"));
        assert_eq!(format!("{:?}", action.kind).to_lowercase(), call.word, "{row}");
        call.check(&action.params, &action.answer);
        named.insert(call.name);
    }
    // An action that no program of ours calls needs no row.
    let actions = Catalogue::standard().actions().map(|one| &*one.name);
    let without: Vec<&str> = actions.filter(|name| is_called(name) && !named.contains(name)).collect();
    assert_eq!(without, [""; 0], "a program calls it, and CALLS has no row");
}

/// Whether a built-in document calls an action.
fn is_called(action: &str) -> bool {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocols");
    ["task", "campaign", "builder", "coder", "lifecycle"].iter().any(|name| {
        let text = std::fs::read_to_string(folder.join(format!("{name}.md"))).unwrap();
        let blocks = text.split("```protocol\n").skip(1).filter_map(|rest| rest.split("```").next());
        let mut words = blocks.flat_map(|block| block.split(|letter: char| letter.is_whitespace()));
        words.any(|word| word == action)
    })
}

#[test]
fn the_programs_tasks_are_declared() {
    let mut asked = 0;
    for row in rows(TASKS) {
        let call = Call::read(row);
        let role = Catalogue::standard().role(call.name).unwrap_or_else(|| panic!("no role: {row}"));
        let chosen = (call.word != "-").then_some(call.word);
        let mut forms = role.forms.iter().filter(|form| form.word == chosen && call.suits(&form.params));
        let form = forms.next().unwrap_or_else(|| panic!("no form: {row}"));
        assert!(forms.next().is_none(), "two forms: {row}");
        call.check(&form.params, &form.answer);
        asked += 1;
    }
    let declared: usize = Catalogue::standard().roles().map(|role| role.forms.len()).sum();
    assert_eq!(asked, declared + 1, "the planner of the flows is asked in two ways");
}

#[test]
fn what_is_handed_on_fits() {
    for row in rows(HANDED_ON) {
        let (from, to) = row.split_once(" -> ").unwrap();
        let (giver, path) = from.split_once(' ').unwrap_or((from, ""));
        let (taker, param) = to.split_once(' ').unwrap();
        let given: Vec<Type> = answers(giver).iter().filter_map(|ty| descend(ty, path)).collect();
        let taken: Vec<Type> =
            params(taker).into_iter().filter_map(|params| Some(params.get(param)?.ty.clone())).collect();
        assert!(!given.is_empty() && !taken.is_empty(), "{row}");
        for one in &given {
            assert!(taken.iter().all(|two| one.fits(two)), "{row}: {one} into {taken:?}");
        }
    }
}

/// One row of a table: `name word (param: type, …) -> field: type, …`.
struct Call {
    row: &'static str,
    name: &'static str,
    word: &'static str,
    given: Vec<(&'static str, &'static str)>,
    read: Vec<(&'static str, &'static str)>,
}

impl Call {
    fn read(row: &'static str) -> Call {
        let (head, rest) = row.split_once(" (").unwrap();
        let (given, read) = rest.split_once(") ->").unwrap();
        let (name, word) = head.split_once(' ').unwrap();
        Call { row, name, word, given: pairs(given), read: pairs(read) }
    }

    /// Whether a parameter list takes all that is given and needs no more.
    fn suits(&self, params: &BTreeMap<Name, Field>) -> bool {
        let given = |name: &str| self.given.iter().any(|(one, _)| *one == name);
        self.given.iter().all(|(name, _)| params.contains_key(*name))
            && params.iter().all(|(name, field)| !field.required || given(name))
    }

    fn check(&self, params: &BTreeMap<Name, Field>, answer: &Type) {
        assert!(self.suits(params), "{}: takes {:?}", self.row, params.keys());
        for (name, ty) in &self.given {
            assert_eq!(word(&params[*name].ty), *ty, "{}: parameter {name}", self.row);
        }
        for (path, ty) in &self.read {
            let found = descend(answer, path).map(|found| word(&found));
            assert_eq!(found.as_deref(), Some(*ty), "{}: field {path}", self.row);
        }
    }
}

fn rows(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().map(str::trim).filter(|row| !row.is_empty())
}

fn pairs(list: &'static str) -> Vec<(&'static str, &'static str)> {
    let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.split_once(": ").unwrap()).collect()
}

/// The type at a path of fields; a list is looked into.
fn descend(ty: &Type, path: &str) -> Option<Type> {
    path.split('.').filter(|step| !step.is_empty()).try_fold(ty.clone(), |ty, step| item(&ty).field(step))
}

/// The type of the items of a list, or the type itself.
fn item(ty: &Type) -> &Type {
    if let Type::List(of) = ty { of } else { ty }
}

fn answers(name: &str) -> Vec<Type> {
    let all = Catalogue::standard();
    match (all.action(name), all.role(name)) {
        (Some(action), _) => vec![action.answer.clone()],
        (None, Some(role)) => role.forms.iter().map(|form| form.answer.clone()).collect(),
        (None, None) => panic!("nobody is called {name}"),
    }
}

fn params(name: &str) -> Vec<BTreeMap<Name, Field>> {
    let all = Catalogue::standard();
    match (all.action(name), all.role(name)) {
        (Some(action), _) => vec![action.params.clone()],
        (None, Some(role)) => role.forms.iter().map(|form| form.params.clone()).collect(),
        (None, None) => panic!("nobody is called {name}"),
    }
}

fn fields(ty: &Type) -> BTreeMap<Name, Field> {
    let Type::Record(record) = ty else { panic!("{ty} has no fields") };
    record.fields.clone()
}

fn explained(owner: &str, fields: &BTreeMap<Name, Field>) {
    for (name, field) in fields {
        assert!(field.about.trim().ends_with('.'), "{owner}: {name}");
        if let Type::Record(record) = item(&field.ty) {
            explained(&format!("{owner} {name}"), &record.fields);
        }
    }
}

fn word(ty: &Type) -> String {
    match ty {
        Type::Unknown => "nothing".into(),
        Type::Any => "any".into(),
        Type::Bool => "bool".into(),
        Type::Number => "number".into(),
        Type::Duration => "duration".into(),
        Type::Text => "text".into(),
        Type::Digest => "digest".into(),
        Type::Choice(words) => words.join("|"),
        Type::List(of) => format!("list {}", word(of)),
        Type::Record(record) => record.name.to_string(),
    }
}
