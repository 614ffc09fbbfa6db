"""What the rows of the trial are played with: two small repositories, the scripted model server, settings of agents, and `ftl`."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AGENTS = Path(os.environ.get("FTL_AGENTS_DIR", ROOT / "target/agents")) / "bin"
KEY = "test-key"
TIMEOUT = 600

PYTHON = {
    "stats.py": "def mean(numbers):\n    count = len(numbers) - 1\n    return sum(numbers) / count\n",
    "test_stats.py": "import unittest\n\nfrom stats import mean\n\n\nclass Stats(unittest.TestCase):\n"
    "    def test_mean(self):\n        self.assertEqual(mean([1, 2, 3]), 2)\n",
    ".gitignore": "__pycache__/\n.pytest_cache/\n",
    "README.md": "# Stats\n\nThe mean of numbers.\n",
}
NODE = {
    "stats.js": "exports.mean = (numbers) => {\n  const count = numbers.length - 1;\n  return numbers.reduce((a, b) => a + b, 0) / count;\n};\n",
    "stats.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\nconst { mean } = require('./stats');\n"
    "test('mean', () => assert.strictEqual(mean([1, 2, 3]), 2));\n",
    "package.json": '{ "name": "stats", "version": "1.0.0", "scripts": { "test": "node --test" } }\n',
    "README.md": "# Stats\n\nThe mean of numbers.\n",
}
# Some agents let nobody edit a file by a command that they have not read: a file may be written whole.
MEND_PYTHON = r"printf 'def mean(numbers):\n    count = len(numbers)\n    return sum(numbers) / count\n' > stats.py"
MEND_NODE = "sed -i 's/ - 1//' stats.js"


class Skipped(Exception):
    """The row cannot be played on this machine."""


def has_pytest():
    return subprocess.run([sys.executable, "-c", "import pytest"], capture_output=True, check=False).returncode == 0


def python_verify():
    return "python3 -m pytest -q" if has_pytest() else "python3 -m unittest"


def submit(answer):
    return {"call": {"name": "*submit", "args": answer}}


def shell(command):
    return {"call": {"name": "@shell", "args": {"cmd": command}}}


def read(path):
    return {"call": {"name": "@read", "args": {"path": "{{cwd}}/" + path, "rel": path}}}


END = {"text": "It is handed in."}
PLANNED = [submit({"approach": "mend the mean"}), END]
WORK = {"summary": "Divide by the number of numbers", "utilized": []}


def plan_of(delta, verify, slug="mend-mean", budget=7):
    task = {"seq": "001", "slug": slug, "type": "BUILD", "delta": delta, "verify": verify, "budget": budget, "depends": "none"}
    return {"objective": "mend the mean", "framework": "none", "tasks": [task]}


def scenarios(prefix, plan, build, planning=None, repair=None):
    """What a model says to every role, picked by the words with which that role is asked."""
    decision = "Decision: PROCEED\n\n```json\n" + json.dumps(plan) + "\n```\n"
    roles = {
        "structure": ("Finds out where things are.", [submit({"mode": "structure", "status": "ok"}), END]),
        "pattern": ("Finds out how things are done here.", [submit({"mode": "pattern", "status": "ok"}), END]),
        "memory": ("Recalls what happened before.", [submit({"mode": "memory", "status": "ok"}), END]),
        "delta": ("Finds out what is likely to change.", [submit({"mode": "delta", "status": "ok"}), END]),
        "planner": ("Turns an objective into a decision", [submit({"text": decision}), END]),
        "approach": ("Says how it means to go about it", planning or PLANNED),
        "observer": ("Learns from the run", [submit({"summary": "the mean was mended", "lessons": []}), END]),
    }
    picks = [[words, f"{prefix}-{name}"] for name, (words, _) in roles.items()]
    found = {f"{prefix}-{name}": {"steps": steps} for name, (_, steps) in roles.items()}
    if repair:
        # A repair is asked with what the tests said.
        picks.append(["AssertionError", f"{prefix}-repair"])
        found[f"{prefix}-repair"] = {"steps": repair}
    picks.append(["Writes the files of the delta", f"{prefix}-build"])
    found[f"{prefix}-build"] = {"steps": build}
    found[prefix] = {"pick": picks, "steps": [END]}
    return found


class Server:
    """The scripted model server."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def play(self, found):
        self.call("POST", "/__reset", {})
        self.call("PUT", "/__scenarios", found)

    def firsts(self):
        """The requests that begin a conversation: no tool has answered yet. Some agents load a tool before they call it, which is no new one."""
        return [one for one in self.call("GET", "/__log") if one.get("step") == 0 and not one.get("side") and not one.get("last_tool")]

    def conversations(self, scenario):
        """How many conversations were begun in a scenario."""
        return len([one for one in self.firsts() if one.get("scenario") == scenario])

    def all_conversations(self):
        """How many conversations were begun in all."""
        return len(self.firsts())

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


class Trial:
    def __init__(self, ftl, server, folder):
        self.ftl_program, self.server, self.folder = ftl, server, folder
        self.count = 0
        home = folder / "home"
        home.mkdir()
        (home / ".gitconfig").write_text("[user]\n\tname = Trial\n\temail = trial@example.com\n[init]\n\tdefaultBranch = main\n")
        path = os.pathsep.join([str(AGENTS), str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
        self.env = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb"}

    def repository(self, files, settings):
        self.count += 1
        repo = self.folder / f"repo{self.count}"
        repo.mkdir()
        for name, text in files.items():
            (repo / name).write_text(text)
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "Begin"]):
            subprocess.run(["git", *words], cwd=repo, env=self.env, check=True, capture_output=True)
        # Everything of the trial itself stays out of the repository's status.
        (repo / ".git/info/exclude").write_text("/.ftl/\nplan*.json\n")
        (repo / ".ftl").mkdir()
        (repo / ".ftl/config.toml").write_text(settings)
        return repo

    def command(self, repo, *words):
        return subprocess.Popen(
            [self.ftl_program, *words], cwd=repo, env=self.env, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def ftl(self, repo, *words):
        process = self.command(repo, *words)
        out, err = process.communicate(timeout=TIMEOUT)
        return Ended(process.returncode, out, err)

    def commits(self, repo):
        ran = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=repo, env=self.env, check=True, capture_output=True, text=True)
        return int(ran.stdout) - 1

    def agent(self, name, scenario, price=None, roles=("default", "explorer", "observer")):
        """The settings of a person who has this agent, for all roles."""
        if name != "model" and not (AGENTS / name).exists():
            raise Skipped(f"{name} is not installed; run tools/agents/install")
        host, url = f"http://{self.server.address}", f"http://{self.server.address}/s/{scenario}/v1"
        kind, more = {
            "model": ("model", f'dialect = "chat"\nurl = "{url}"\nmodel = "scripted"\n'),
            "claude": ("cli", 'adapter = "claude"\nmodel = "scripted"\nsettings = { retries = "1" }\n'
                       f'set = {{ ANTHROPIC_BASE_URL = "{host}/s/{scenario}", ANTHROPIC_API_KEY = "{KEY}" }}\n'),
            "codex": ("cli", f'adapter = "codex"\nmodel = "gpt-5.5"\nsettings = {{ url = "{url}", retries = "1" }}\n'
                      f'set = {{ OPENAI_API_KEY = "{KEY}" }}\n'),
            "opencode": ("cli", f'adapter = "opencode"\nmodel = "scripted"\nsettings = {{ url = "{url}" }}\n'
                         f'set = {{ OPENAI_API_KEY = "{KEY}" }}\n'),
            "goose": ("cli", 'adapter = "goose"\nmodel = "scripted"\n'
                      f'set = {{ OPENAI_HOST = "{host}", OPENAI_BASE_PATH = "s/{scenario}/v1/chat/completions", OPENAI_API_KEY = "{KEY}" }}\n'),
            "qwen": ("acp", 'program = "qwen"\nargs = ["--acp", "--auth-type", "openai"]\nlike = "qwen"\n'
                     f'set = {{ OPENAI_BASE_URL = "{url}", OPENAI_API_KEY = "{KEY}", OPENAI_MODEL = "scripted" }}\n'),
            "gemini": ("acp", 'program = "gemini"\nargs = ["--acp"]\nlike = "gemini"\n'
                       f'set = {{ GOOGLE_GEMINI_BASE_URL = "{host}/s/{scenario}", GEMINI_API_KEY = "{KEY}", GEMINI_CLI_TRUST_WORKSPACE = "true" }}\n'),
        }[name]
        roles = "".join(f'{role} = "it"\n' for role in roles)
        price = f"price = {price}\n" if price else ""
        return f'[agents.it]\nkind = "{kind}"\naccept = ["calls", "paths"]\n{price}{more}[roles]\n{roles}'

    def task(self, name, build, files=None, plan=None, settings="", price=None, **more):
        """`ftl "<task>"` by an agent in all roles."""
        plan = plan or plan_of(["stats.py"], python_verify())
        self.server.play(scenarios(name_of(name), plan, build, **more))
        repo = self.repository(files or PYTHON, self.agent(name, name_of(name), price) + settings)
        return repo, self.ftl(repo, "mend the mean", "--land", "ff", "--by", "Trial", "--json")

    def talks(self, name, role):
        return self.server.conversations(f"{name_of(name)}-{role}")


def name_of(agent):
    return f"trial-{agent}"


class Ended:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        try:
            return json.loads(self.out)
        except ValueError:
            return {}

    def landed(self):
        return len(self.json.get("report", {}).get("landed", []))

    def told(self):
        """The last words of a failure, in one line."""
        error = self.json.get("error") or {}
        reason = self.json.get("reason") or error.get("message") or " ".join((self.err or self.out).strip().splitlines()[-1:])
        return str(reason).replace("\n", " ")[:160]

    def why(self, wanted=0):
        """The same behind a colon, where it did not end as it should."""
        return "" if self.code == wanted else f": {self.told()}"
