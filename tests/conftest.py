"""Shapes and types in signatures are enforced in quick tests; all run on one thread, and none fails by the clock.

How wide the terminal is, and what git is told by a user's settings or by a hook that runs the tests, does not count.

The grammar, the search in it and the trees are left out: they have next to no tensors, and checking each of their
millions of calls would take minutes. Their tests compare every pair and every tree that is written.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jaxtyping
import pytest
import yaml
from beartype import beartype
from hypothesis import HealthCheck, settings

import annotated

GIT = {"user.name": "a", "user.email": "a@b.c", "commit.gpgsign": "false", "safe.directory": "*"}
PACKAGE = Path(annotated.__file__).parent
MODULES = sorted(".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in PACKAGE.rglob("[!_]*.py"))
GRAMMAR = [name for name in MODULES if name.startswith("text.grammar.") and name != "text.grammar.tables"]
CHECKED = [
    f"annotated.{name}" for name in MODULES if name not in (*GRAMMAR, "parsing", "text.treebank", "search.trees")
]
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # which reads the book's lists in a tenth of the time
jaxtyping.install_import_hook(CHECKED, f"{__name__}.checked")
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # before torch is imported, and for all that a test starts
    os.environ[name] = "1"
os.environ["COLUMNS"] = "80"
for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
    os.environ.pop(name, None)
for number, (name, value) in enumerate(GIT.items()):
    os.environ |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
os.environ["GIT_CONFIG_COUNT"] = str(len(GIT))
a_busy_machine_is_no_bug = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("without a clock", **a_busy_machine_is_no_bug)
settings.load_profile("without a clock")


def checked(function: Callable) -> Callable:
    """With its types checked; but one inside another, which names no shapes, is made anew at each call of that."""
    return function if "<locals>" in function.__qualname__ else beartype(function)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Slow tests call the same functions a million times, which would spend a third of their time on types."""
    jaxtyping.config.update("jaxtyping_disable", item.get_closest_marker("slow") is not None)


@pytest.fixture(autouse=True)
def seeded():
    """Each test draws the same random numbers, in whatever order tests run."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture
def no_clock(monkeypatch):
    """What a test runs may not choose by a stopwatch."""

    def read():
        raise AssertionError("a clock was read")

    for name in ("perf_counter", "perf_counter_ns", "time", "monotonic", "process_time"):
        monkeypatch.setattr(time, name, read)
