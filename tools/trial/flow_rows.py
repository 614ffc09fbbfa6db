"""Rows with scripts in the place of agents: campaigns, going on after a block or a kill, landing, and what is left behind.

A row answers (expected, got, whether it is as expected)."""

import json
import os
import signal
import subprocess
import time

from base import TIMEOUT, Ended

def numbered(number, text="done", depends=(), slow=False):
    seq = f"{number:03}"
    task = {"seq": seq, "slug": f"task-{seq}", "delta": [f"f{seq}.txt"], "verify": f"grep -q done f{seq}.txt", "budget": 5,
            "depends": list(depends) or "none"}
    waits = '{ tool = "bash", command = "sleep 0.5" }, ' if slow else ""
    scene = (f'[[scene]]\nrole = "builder"\nform = "implement"\ntold = "grep -q done f{seq}.txt"\n[[scene.step]]\n'
             f'calls = [{waits}{{ tool = "write", path = "f{seq}.txt", content = "{text}\\n" }}]\n'
             '[[scene.step]]\nsubmit = { summary = "written", utilized = [] }\n')
    return task, scene


PLAN_SCENE = '[[scene]]\nrole = "builder"\nform = "plan"\n[[scene.step]]\nsubmit = { approach = "write it" }\n'
SCRIPTED = '[agents.it]\nkind = "scripted"\nscript = "play.toml"\n[roles]\nbuilder = "it"\nplanner = "it"\n'


def scripted_repository(trial, numbers):
    return trial.repository({f"f{number:03}.txt": "begin\n" for number in numbers}, SCRIPTED)


def write_plan(repo, name, objective, tasks):
    (repo / name).write_text(json.dumps({"objective": objective, "tasks": tasks}))


def two_campaigns(trial):
    repo = scripted_repository(trial, range(1, 5))
    made = {number: numbered(number) for number in range(1, 5)}
    (repo / ".ftl/play.toml").write_text(PLAN_SCENE + "".join(scene for _, scene in made.values()))
    write_plan(repo, "plan-a.json", "the first two", [made[1][0], made[2][0]])
    write_plan(repo, "plan-b.json", "the other two", [made[3][0], made[4][0]])
    both = [trial.command(repo, "campaign", "run", f"campaign {one}", "--plan", f"plan-{one}.json", "--land", "branch-only", "--by", "Trial", "--json")
            for one in ("a", "b")]
    ends = [Ended(process.returncode, *said) for process, said in [(one, one.communicate(timeout=TIMEOUT)) for one in both]]
    got = ", ".join(f"exit {end.code} landed {end.landed()}{end.why()}" for end in ends)
    return "exit 0 landed 2, exit 0 landed 2", got, got == "exit 0 landed 2, exit 0 landed 2"


def retry(trial):
    repo = scripted_repository(trial, (1, 2))
    first, second = numbered(1, "wrong"), numbered(2, depends=["001"])
    (repo / ".ftl/play.toml").write_text(PLAN_SCENE + first[1] + second[1])
    write_plan(repo, "plan.json", "both", [first[0], second[0]])
    ended = trial.ftl(repo, "campaign", "run", "both", "--plan", "plan.json", "--land", "branch-only", "--by", "Trial", "--json")
    (repo / ".ftl/play.toml").write_text(PLAN_SCENE + numbered(1)[1] + second[1])
    again = trial.ftl(repo, "retry", ended.json.get("run", ""), "--by", "Trial", "--json")
    got = f"exit {ended.code} landed {ended.landed()}{ended.why(3)}, then exit {again.code} landed {again.landed()}{again.why()}"
    return "exit 3 landed 0, then exit 0 landed 2", got, got == "exit 3 landed 0, then exit 0 landed 2"


def forty_tasks(trial):
    repo = scripted_repository(trial, range(1, 41))
    made = [numbered(number, depends=[f"{number - 8:03}"] if number > 8 else ()) for number in range(1, 41)]
    (repo / ".ftl/play.toml").write_text(PLAN_SCENE + "".join(scene for _, scene in made))
    write_plan(repo, "plan.json", "forty files", [task for task, _ in made])
    ended = trial.ftl(repo, "campaign", "run", "forty files", "--plan", "plan.json", "--land", "squash", "--by", "Trial", "--json")
    got = f"exit {ended.code}, landed {ended.landed()} of 40, {trial.commits(repo)} commit" + ended.why()
    return "exit 0, landed 40 of 40, 1 commit", got, got == "exit 0, landed 40 of 40, 1 commit"


def squash_of_a_part(trial):
    """One of two tasks lands; the person's branch stays where it is."""
    repo = scripted_repository(trial, (1, 2))
    first, second = numbered(1), numbered(2, "wrong")
    (repo / ".ftl/play.toml").write_text(PLAN_SCENE + first[1] + second[1])
    write_plan(repo, "plan.json", "both", [first[0], second[0]])
    ended = trial.ftl(repo, "campaign", "run", "both", "--plan", "plan.json", "--land", "squash", "--by", "Trial", "--json")
    got = f"exit {ended.code}, landed {ended.landed()}, {trial.commits(repo)} commits on the person's branch"
    return "exit 3, landed 1, 0 commits on the person's branch", got, got == "exit 3, landed 1, 0 commits on the person's branch"


def interrupted(sent, wanted):
    """A campaign that gets a signal while its tasks are at work, and `ftl resume`."""
    def row(trial):
        repo = scripted_repository(trial, range(1, 5))
        made = [numbered(number, depends=[f"{number - 1:03}"] if number > 1 else (), slow=True) for number in range(1, 5)]
        (repo / ".ftl/play.toml").write_text(PLAN_SCENE + "".join(scene for _, scene in made))
        write_plan(repo, "plan.json", "four in a row", [task for task, _ in made])
        process = trial.command(repo, "campaign", "run", "four in a row", "--plan", "plan.json", "--land", "ff", "--by", "Trial", "--json")
        wait_for(lambda: list((repo / ".ftl/workspace").glob("001_*_complete.xml")))
        os.kill(process.pid, sent)
        process.communicate(timeout=TIMEOUT)
        left = processes_in(repo)
        again = trial.ftl(repo, "resume", "--by", "Trial", "--json")
        shown = trial.ftl(repo, "status", "--json").json
        standing = [run.get("standing") for run in shown.get("runs", [])]
        got = f"exit {process.returncode}, {left} processes left, resumed exit {again.code}, {standing}, {trial.commits(repo)} commits" + again.why()
        expected = f"exit {wanted}, 0 processes left, resumed exit 0, ['complete'], 4 commits"
        return expected, got, got == expected
    return row


def wait_for(event, seconds=60):
    until = time.monotonic() + seconds
    while not event():
        if time.monotonic() > until:
            raise TimeoutError(f"nothing came in {seconds} s")
        time.sleep(0.02)


def processes_in(repo):
    """How many processes work below a repository, once those that end by themselves have had time to."""
    def found():
        links = []
        for one in os.listdir("/proc"):
            if one.isdigit():
                try:
                    links.append(os.readlink(f"/proc/{one}/cwd"))
                except OSError:
                    pass
        return [link for link in links if link.startswith(str(repo))]
    until = time.monotonic() + 10
    while found() and time.monotonic() < until:
        time.sleep(0.05)
    return len(found())


def clean(trial):
    """Whatever runs left behind goes: branches, kept work and worktrees."""
    repo = scripted_repository(trial, (1, 2))
    first, second = numbered(1), numbered(2, "wrong")
    (repo / ".ftl/play.toml").write_text(PLAN_SCENE + first[1] + second[1])
    write_plan(repo, "plan.json", "both", [first[0]])
    write_plan(repo, "plan-2.json", "the second", [second[0]])
    trial.ftl(repo, "the first", "--plan", "plan.json", "--land", "ff", "--by", "Trial", "--json")
    trial.ftl(repo, "the second", "--plan", "plan-2.json", "--land", "ff", "--by", "Trial", "--json")
    words = ["clean", "--yes", "--older-than", "0", "--json"]
    ended = trial.ftl(repo, *words)
    refs = subprocess.run(["git", "for-each-ref", "--format=%(refname)", "refs/heads/ftl", "refs/ftl/kept"], cwd=repo, env=trial.env,
                          check=True, capture_output=True, text=True).stdout.split()
    trees = subprocess.run(["git", "worktree", "list"], cwd=repo, env=trial.env, check=True, capture_output=True, text=True).stdout
    got = f"exit {ended.code}, {len(refs)} refs, {len(trees.splitlines()) - 1} worktrees" + ended.why()
    return "exit 0, 0 refs, 0 worktrees", got, got == "exit 0, 0 refs, 0 worktrees"


ROWS = {
    "two-campaigns": two_campaigns,
    "retry": retry,
    "forty-tasks": forty_tasks,
    "squash-of-a-part": squash_of_a_part,
    "ctrl-c": interrupted(signal.SIGINT, 130),
    "kill-9": interrupted(signal.SIGKILL, -9),
    "clean": clean,
}
