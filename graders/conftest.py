"""Says what to type to whoever runs pytest on a grader, which needs an attempt that only a grading hands it."""

from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Let a grading pass, which brings a plugin of its own, and end every other run in a sentence."""
    kinds = (base for plugin in config.pluginmanager.get_plugins() for base in type(plugin).__mro__)
    if any((base.__module__, base.__name__) == ("dojo.grading.pytest_plugin", "GraderPlugin") for base in kinds):
        return
    named = [Path(word.partition("::")[0]).resolve() for word in config.args]
    name = next((path.parent.name for path in named if path.suffix == ".py"), "softmax")
    raise pytest.UsageError(f"a grader runs on an attempt, not by itself: type `nox -s grade -- {name}`")
