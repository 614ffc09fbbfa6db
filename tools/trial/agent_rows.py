"""Rows with agents: each of the six lands a commit, and each misbehaviour ends as it should, with conversations counted.

A row answers (expected, got, whether it is as expected)."""

import json
import shutil

from base import (
    END, MEND_NODE, MEND_PYTHON, NODE, PLANNED, PYTHON, WORK, Skipped, plan_of, python_verify, read, scenarios, shell, submit,
)

# What `ftl init` writes for agents.
PRACTICAL = '[builder]\ntools = 40\nrepairs = 2\nplan_reads = 12\ndirect = "never"\n'

def lands(agent):
    def row(trial):
        repo, ended = trial.task(agent, [shell(MEND_PYTHON), submit(WORK), END])
        roles = ("structure", "pattern", "memory", "delta", "planner", "approach", "build", "observer")
        asked = [role for role in roles if trial.talks(agent, role) > 0]
        commits = trial.commits(repo)
        got = f"exit {ended.code}, {commits} commit, {len(asked)} of {len(roles)} roles asked"
        is_fine = ended.code == 0 and commits == 1 and len(asked) == len(roles)
        return "exit 0, 1 commit, 8 of 8 roles asked", got if is_fine else f"{got}: {ended.told()}", is_fine
    return row


def node_repository(trial):
    if not shutil.which("node", path=trial.env["PATH"]):
        raise Skipped("node is not installed")
    repo, ended = trial.task("model", [shell(MEND_NODE), submit(WORK), END], files=NODE, plan=plan_of(["stats.js"], "node --test"))
    commits = trial.commits(repo)
    return "exit 0, 1 commit", f"exit {ended.code}, {commits} commit" + ended.why(), (ended.code, commits) == (0, 1)


def looks_in_plan(trial):
    """An agent that only tells what it did looks into a file in PLAN, where there are no tools."""
    repo, ended = trial.task("goose", [shell(MEND_PYTHON), submit(WORK), END], planning=[shell("cat stats.py"), *PLANNED])
    talks = trial.talks("goose", "approach")
    got = f"exit {ended.code}, {talks} conversations in PLAN, {trial.commits(repo)} commit" + ended.why()
    return "at most 3 conversations in PLAN, and it ends", got, ended.code in (0, 3) and 1 <= talks <= 3


def looks_where_it_may(agent):
    """The same with the budgets that `ftl init` writes: who has no tool to read with looks by a command."""
    def row(trial):
        repo, ended = trial.task(agent, [shell(MEND_PYTHON), submit(WORK), END], planning=[shell("cat stats.py"), *PLANNED], settings=PRACTICAL)
        got = f"exit {ended.code}, {trial.talks(agent, 'approach')} conversation in PLAN, {trial.commits(repo)} commit" + ended.why()
        return "exit 0, 1 conversation in PLAN, 1 commit", got, got == "exit 0, 1 conversation in PLAN, 1 commit"
    return row


def edits_outside(trial):
    """Claude Code refuses an edit by itself that would not work, of a file outside the delta: nobody was asked about it."""
    edit = {"call": {"name": "Edit", "args": {"file_path": "{{cwd}}/README.md", "old_string": "nowhere to be found", "new_string": "x"}}}
    repo, ended = trial.task("claude", [edit, shell(MEND_PYTHON), submit(WORK), END])
    talks = trial.talks("claude", "build")
    got = f"exit {ended.code}, {talks} conversations in IMPLEMENT, {trial.commits(repo)} commit" + ended.why()
    return "at most 3 conversations in IMPLEMENT, and it ends", got, ended.code in (0, 3) and 1 <= talks <= 3


def thirty_calls(trial):
    build = [*(shell(f"sed -n {line}p README.md") for line in range(1, 29)), read("stats.py"), shell(MEND_PYTHON), submit(WORK), END]
    repo, ended = trial.task("model", build, settings="[builder]\ntools = 60\ndirect = \"never\"\n")
    got = f"exit {ended.code}, {trial.commits(repo)} commit" + ended.why()
    return "exit 0, 1 commit, by [builder] tools = 60", got, ended.code == 0 and trial.commits(repo) == 1


WORSE = "sed -i 's/ - 1/ + 1/' stats.py"


def red_then_repaired(trial):
    repair = [shell("sed -i 's/ + 1//' stats.py"), submit({**WORK, "fixed": True}), END]
    repo, ended = trial.task("model", [shell(WORSE), submit(WORK), END], repair=repair, settings="[builder]\nrepairs = 2\ntools = 20\n")
    talks = trial.talks("model", "build") + trial.talks("model", "repair")
    got = f"exit {ended.code}, {trial.commits(repo)} commit, {talks} conversations" + ended.why()
    return "exit 0, 1 commit, at most 3 conversations", got, ended.code == 0 and trial.commits(repo) == 1 and talks <= 3


def red_twice(trial):
    repair = [shell("true"), submit({**WORK, "fixed": False}), END]
    repo, ended = trial.task("model", [shell(WORSE), submit(WORK), END], repair=repair, settings="[builder]\nrepairs = 5\ntools = 40\n")
    talks = trial.talks("model", "build") + trial.talks("model", "repair")
    got = f"exit {ended.code}, {trial.commits(repo)} commits, {talks} conversations" + ended.why(3)
    return "exit 3, no commit, 2 or 3 conversations: the same failure twice ends it", got, ended.code == 3 and trial.commits(repo) == 0 and 2 <= talks <= 3


def forbidden_bash(trial):
    """A command in PLAN by our own loop: it is denied, the agent is told and goes on."""
    planning = [{"call": {"name": "!bash", "args": {"command": "touch x"}}}, *PLANNED]
    repo, ended = trial.task("model", [shell(MEND_PYTHON), submit(WORK), END], planning=planning)
    talks = trial.talks("model", "approach")
    got = f"exit {ended.code}, {trial.commits(repo)} commit, {talks} conversation in PLAN" + ended.why()
    return "exit 0, 1 commit, 1 conversation in PLAN", got, ended.code == 0 and trial.commits(repo) == 1 and talks == 1


def no_price(trial):
    repo, ended = trial.task("goose", [shell(MEND_PYTHON), submit(WORK), END], price='"unknown"')
    meters = ended.json.get("meters", {})
    money, unpriced = meters.get("money", {}).get("used"), meters.get("unpriced", {}).get("used", 0)
    shown = trial.ftl(repo, "status", ended.json.get("run", "")).out
    got = f"money {money}, {unpriced} unpriced, shown as {'unknown' if 'money unknown' in shown else 'something else'}"
    return "money 0, each conversation unpriced, shown as unknown", got, money == 0 and unpriced > 0 and "money unknown" in shown


def small_local_model(trial):
    """A model that writes calls as text and fills lists until it is cut off."""
    write = {"name": "write", "args": {"path": "stats.py", "content": PYTHON["stats.py"].replace(" - 1", "")}}
    steps = [{"call": write, "fills": True}, {"call": {"name": "submit", "args": WORK}}]
    trial.server.play({"small": {"steps": steps}})
    settings = (f'[agents.it]\nkind = "model"\ndialect = "chat"\nurl = "http://{trial.server.address}/s/small/v1"\nmodel = "local"\n'
                'calls = "schema"\ncontext = 8192\nmax_output = 600\nprice = 0\n[roles]\nbuilder = "it"\n')
    repo = trial.repository(PYTHON, settings)
    (repo / "plan.json").write_text(json.dumps(plan_of(["stats.py"], python_verify())))
    ended = trial.ftl(repo, "mend the mean", "--plan", "plan.json", "--land", "ff", "--by", "Trial", "--json")
    requests = len(trial.server.call("GET", "/__log"))
    got = f"exit {ended.code}, {trial.commits(repo)} commit, {requests} requests" + ended.why()
    return "exit 0, 1 commit, at most 6 requests", got, ended.code == 0 and trial.commits(repo) == 1 and requests <= 6


def typo(trial):
    """One word, with an agent bound by `default` alone."""
    trial.server.play(scenarios("trial-model", plan_of(["stats.py"], python_verify()), [shell(MEND_PYTHON), submit(WORK), END]))
    settings = trial.agent("model", "trial-model", roles=("default",)) + PRACTICAL
    repo = trial.repository(PYTHON, settings)
    ended = trial.ftl(repo, "mend the mean", "--land", "ff", "--by", "Trial", "--json")
    talks = trial.server.all_conversations()
    got = f"exit {ended.code}, {trial.commits(repo)} commit, {talks} conversations" + ended.why()
    return "exit 0, 1 commit, at most 3 conversations", got, (ended.code, trial.commits(repo)) == (0, 1) and 1 <= talks <= 3


def local_model(trial):
    """A model on loopback that the person says is free."""
    repo, ended = trial.task("model", [shell(MEND_PYTHON), submit(WORK), END], price="0")
    meters = ended.json.get("meters", {})
    money, unpriced = meters.get("money", {}).get("used"), meters.get("unpriced", {}).get("used", 0)
    got = f"exit {ended.code}, {trial.commits(repo)} commit, money {money}, {unpriced} unpriced" + ended.why()
    return "exit 0, 1 commit, money 0, 0 unpriced", got, got == "exit 0, 1 commit, money 0, 0 unpriced"


def story(trial):
    """`ftl code` with Claude Code as coder and architect: the first review wants a change, the second is content."""
    name = "trial-story"
    first, better = MEND_PYTHON, "sed -i 's/count/size/' stats.py"
    review = [submit({"verdict": "CHANGES", "feedback": "name the variable size"}), END]
    forms = [
        ("Plans a story; reads only.", "plan", [submit({"text": "divide by the number of numbers", "digest": "0000"}), END]),
        ("Judges the plan of a story.", "plan-review", [submit({"verdict": "APPROVE", "feedback": "good"}), END]),
        ("size = len(numbers)", "second-review", [submit({"verdict": "APPROVE", "feedback": "clear"}), END]),
        ("Judges the code of a story.", "first-review", review),
        ("name the variable size", "second-code", [shell(better), submit({"summary": "Name the variable size"}), END]),
        ("Codes a story by its approved plan.", "first-code", [shell(first), submit({"summary": "Divide by the number of numbers"}), END]),
    ]
    found = {f"{name}-{form}": {"steps": steps} for _, form, steps in forms}
    trial.server.play({**found, name: {"pick": [[words, f"{name}-{form}"] for words, form, _ in forms], "steps": [END]}})
    repo = trial.repository(PYTHON, trial.agent("claude", name) + f'[worktree]\ntests = ["{python_verify()}"]\n')
    ended = trial.ftl(repo, "code", "mend the mean", "--land", "ff", "--by", "Trial", "--json")
    talks = [trial.server.conversations(f"{name}-{form}") for _, form, _ in forms]
    got = f"exit {ended.code}, {trial.commits(repo)} commit, {sum(talks)} conversations" + ended.why()
    return "exit 0, 1 commit, 6 conversations", got, got == "exit 0, 1 commit, 6 conversations"


def broken_environment(trial):
    """Tests that cannot be run here are told before a model is asked."""
    trial.server.play(scenarios("trial-model", plan_of(["stats.py"], python_verify()), [submit(WORK), END]))
    repo = trial.repository(PYTHON, trial.agent("model", "trial-model") + '[worktree]\ntests = ["no-such-runner --all"]\n')
    ended = trial.ftl(repo, "code", "mend the mean", "--by", "Trial", "--json")
    talks = trial.server.all_conversations()
    names = "no-such-runner" in ended.out + ended.err
    got = f"exit {ended.code}, {talks} conversations, the program is {'named' if names else 'not named'}"
    return "exit 1, 0 conversations, the program is named", got, got == "exit 1, 0 conversations, the program is named"


def causes(trial):
    """After a block, `why`, `transcript` and `diff` say what happened."""
    repo, ended = trial.task("model", [shell(WORSE), submit(WORK), END], settings='[builder]\ntools = 20\ndirect = "never"\n')
    run = ended.json.get("run", "")
    shown = {word: trial.ftl(repo, word, run).out for word in ("why", "transcript", "diff")}
    wanted = {"why": "test_mean", "transcript": "sed -i", "diff": "+ 1"}
    told = [word for word, text in wanted.items() if text in shown[word]]
    got = f"exit {ended.code}, told by {' '.join(told)}"
    return "exit 3, told by why transcript diff", got, got == "exit 3, told by why transcript diff"


AGENTS = ("claude", "codex", "opencode", "goose", "qwen", "gemini")

ROWS = {
    **{f"agent-{name}": lands(name) for name in AGENTS},
    "node-repository": node_repository,
    "typo": typo,
    "look-in-plan": looks_in_plan,
    **{f"look-where-allowed-{name}": looks_where_it_may(name) for name in ("claude", "codex", "goose")},
    "edit-outside-delta": edits_outside,
    "thirty-calls": thirty_calls,
    "red-then-repaired": red_then_repaired,
    "red-twice": red_twice,
    "forbidden-bash": forbidden_bash,
    "no-price": no_price,
    "local-model-free": local_model,
    "small-local-model": small_local_model,
    "story-with-review": story,
    "broken-environment": broken_environment,
    "causes-told": causes,
}
