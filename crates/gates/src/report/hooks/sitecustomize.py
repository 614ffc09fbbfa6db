"""Loads the report of ftl before anything of the project, and then the file of this name that it hides."""
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _next():
    import importlib.machinery
    import importlib.util

    path = [one for one in sys.path if os.path.abspath(one or ".") != _here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if "FTL_REPORT" in os.environ:
    import _ftl_report

    _ftl_report.begin()
_next()
