"""Tells ftl which tests ran and how they ended, one line each, in a file of ftl's own.

The name of the file comes in a variable that is taken out of the environment before anything of the project is
imported. `sitecustomize` loads this module, pytest as a plugin; unittest is met where its runner is imported.
PYTEST_DONT_REWRITE
"""
import os
import sys


def _take(known):
    path = os.environ.pop("FTL_REPORT", None) or known
    here = os.path.dirname(os.path.abspath(__file__))
    for name, apart, ours in (("PYTHONPATH", os.pathsep, here), ("PYTEST_PLUGINS", ",", "_ftl_report")):
        if name == "PYTEST_PLUGINS" and path is None:
            continue
        parts = [part for part in os.environ.get(name, "").split(apart) if part and part != ours]
        if parts:
            os.environ[name] = apart.join(parts)
        else:
            os.environ.pop(name, None)
    # What runs other programs behind ours would report is theirs to say, not that of what these start.
    for name in list(os.environ):
        if name.startswith("FTL_REPORT_"):
            _restore(name)
    while here in sys.path:
        sys.path.remove(here)
    return path


def _restore(name):
    value = os.environ.pop(name)
    real = name[len("FTL_REPORT_"):]
    if value:
        os.environ[real] = value
    else:
        os.environ.pop(real, None)


class _Channel:
    def __init__(self):
        self.path = None
        self.taken = False

    def take(self):
        if not self.taken:
            self.taken = True
            self.path = _take(self.path)

    def open(self, runner):
        self.take()
        if self.path is None:
            return None
        return _Report(self.path, runner)


class _Report:
    def __init__(self, path, runner):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._owner = os.getpid()
        self._id = "%s-%d" % (runner, self._owner)
        self.say("start", runner)

    def say(self, *words):
        # A process that was forked off speaks for nobody.
        if os.getpid() != self._owner:
            return
        cells = [words[0], self._id] + [str(word) for word in words[1:]]
        line = "\t".join(" ".join(cell.split("\t")).replace("\n", "\\n").replace("\r", "\\r") for cell in cells)
        os.write(self._file, (line + "\n").encode("utf-8", "backslashreplace"))


_channel = _Channel()


# pytest

class _Pytest:
    def __init__(self, report):
        self._report = report
        self._worst = {}

    def pytest_collection_finish(self, session):
        if session.items:
            self._report.say("collected", len(session.items))

    def pytest_collectreport(self, report):
        if report.failed:
            self._report.say("test", "failed", report.nodeid, report.nodeid)

    def pytest_runtest_logreport(self, report):
        outcome = report.outcome
        if outcome == "rerun":
            self._worst.pop(report.nodeid, None)
            return
        known = self._worst.get(report.nodeid)
        if outcome == "failed" or known is None or (outcome == "skipped" and known != "failed"):
            self._worst[report.nodeid] = outcome

    def pytest_runtest_logfinish(self, nodeid, location):
        outcome = self._worst.pop(nodeid, None)
        if outcome:
            self._report.say("test", outcome, nodeid.split("::")[0], nodeid)

    def pytest_sessionfinish(self, session, exitstatus):
        self._report.say("end", int(getattr(session, "exitstatus", exitstatus)))


def pytest_addoption(parser):
    # Called as the plugin is registered, before any file of the project is loaded.
    _channel.take()


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        _channel.take()
        return
    if config.getoption("collectonly", False) or config.getoption("help", False):
        return
    report = _channel.open("pytest")
    if report is not None:
        config.pluginmanager.register(_Pytest(report), "_ftl_report_tests")


# unittest

def _meet_unittest(module):
    inner_run = module.TextTestRunner.run
    state = {"busy": False}

    def run(self, test):
        report = None if state["busy"] else _channel.open("unittest")
        if report is None:
            return inner_run(self, test)
        state["busy"] = True
        make = self._makeResult
        report.say("collected", test.countTestCases())

        def made():
            return _told(make(), report)

        self._makeResult = made
        try:
            result = inner_run(self, test)
        finally:
            state["busy"] = False
        report.say("end", 0 if result.wasSuccessful() else 1)
        return result

    module.TextTestRunner.run = run


def _told(result, report):
    outcomes = {}
    file_of = {}

    def name_of(test):
        name = test.id()
        module = sys.modules.get(type(test).__module__)
        path = getattr(module, "__file__", None) or ""
        if path:
            path = os.path.relpath(path, _cwd)
        file_of[name] = path
        return name

    def wrap(method, outcome):
        inner = getattr(result, method, None)
        if inner is None:
            return

        def told(test, *rest):
            if method == "addSubTest":
                if rest[-1] is not None:
                    outcomes[name_of(test)] = "failed"
            elif outcomes.get(name_of(test)) != "failed":
                outcomes[name_of(test)] = outcome
            if not hasattr(test, "_testMethodName"):
                # Fixtures of a class or a module that failed or were skipped, and all their tests with them.
                name = name_of(test)
                report.say("loose")
                report.say("test", outcomes.pop(name, outcome), file_of.get(name, ""), name)
            return inner(test, *rest)

        setattr(result, method, told)

    for method, outcome in (
        ("addSuccess", "passed"), ("addError", "failed"), ("addFailure", "failed"), ("addSkip", "skipped"),
        ("addExpectedFailure", "skipped"), ("addUnexpectedSuccess", "failed"), ("addSubTest", ""),
    ):
        wrap(method, outcome)
    inner_stop = result.stopTest

    def stop(test):
        name = name_of(test)
        report.say("test", outcomes.pop(name, "passed"), file_of.get(name, ""), name)
        return inner_stop(test)

    result.stopTest = stop
    return result


_cwd = os.getcwd()


class _Finder:
    """Meets `unittest.runner` when it is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "unittest.runner":
            return None
        sys.meta_path.remove(self)
        import importlib.machinery

        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _meet_unittest(module)

        spec.loader.exec_module = exec_module
        return spec


# Programs that start a runner in a process of its own: what they start must still find the file.
_LAUNCHERS = ("poetry", "hatch", "pipenv", "tox", "nox", "pdm", "rye", "invoke", "inv", "uv", "pip", "pyenv", "go")


def begin():
    words = getattr(sys, "orig_argv", None)
    if words is None:
        # Python before 3.10 does not say how it was called: pytest takes the file when it loads the plugin.
        sys.meta_path.insert(0, _Finder())
        return
    program = [os.path.basename(word) for word in words[1:3] if not word.startswith("-")]
    if words[1:2] == ["-m"]:
        program = words[2:3]
    if any(word in _LAUNCHERS for word in program):
        return
    sys.meta_path.insert(0, _Finder())
    if (program and program[0] in ("pytest", "py.test")) or "pytest" in words:
        # The variable that names the plugin stays until pytest has read it.
        _channel.path = os.environ.pop("FTL_REPORT", None)
        return
    _channel.take()
