"""What `make test` counts, and what the short gate runs of a change: tools/check.py."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import nbformat
import pytest

from tests.notebooks import write_notebook
from tools import check
from tools.text import to_text

TESTS = """
import pytest

def test_passes():
    pass

def test_fails():
    assert False

@pytest.mark.skip(reason="no reason")
def test_skipped():
    pass

@pytest.fixture
def broken():
    raise ValueError

def test_error(broken):
    pass
"""


@pytest.fixture(autouse=True)
def report(tmp_path, monkeypatch):
    """The report of another run stays as it is."""
    monkeypatch.setattr(check, "REPORT", tmp_path / "report.xml")


@pytest.mark.slow
def test_counts_of_a_run(tmp_path, capfd):
    path = tmp_path / "test_sample.py"
    path.write_text(TESTS)
    assert check.pytest(str(path)) == {"passed": 1, "failed": 2, "skipped": 1}
    assert len([line for line in check.times().splitlines() if "test_sample::test_" in line]) == 4
    assert check.pytest(str(tmp_path / "absent.py"))["failed"] == 1
    good, bad = ([sys.executable, "-c", f"raise SystemExit({status})"] for status in (0, 1))
    assert check.style(good, bad, good) == {"passed": 2, "failed": 1}


def test_what_follows_a_failure_is_begun_unless_a_run_is_strict(capsys):
    steps = {"style": lambda: Counter(failed=1), "tests": lambda: Counter(passed=1)}
    assert check.run_steps(steps) == 1
    assert capsys.readouterr().out.endswith("\n1 passed, 1 failed\n")
    assert check.run_steps(steps, strict=True) == 1
    assert capsys.readouterr().out.endswith("\n0 passed, 1 failed\n")


CHAPTER = """%% notebook stacks
%% md title
# Stacks

%% code norm
norm(1)
"""
FILES = {
    "tests/test_pages.py": "BOOK = ROOT / 'book'\n",
    "tests/test_prose.py": "from tools.prose import figures\n",
    "tests/test_stacks.py": "from annotated.stacks import norm\n",
    "tests/test_web_model.py": "its_book = 1\n",
    "tools/prose.py": "open('book/31_stacks.ipynb')\n",
}


def git(root, *arguments):
    done = subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path):
    """A repository with three notebooks, committed."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("31_stacks", "59_training", "notation"):
        write_notebook(tmp_path, name, CHAPTER)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def edit(root, name, old, new):
    path = root / "book" / f"{name}.ipynb"
    previous = nbformat.read(path, as_version=4)
    write_notebook(root, name, to_text(previous).replace(old, new), previous)


def test_a_chapter_runs_when_its_code_or_outputs_changed(root):
    path = root / "book" / "31_stacks.ipynb"
    edit(root, "31_stacks", "# Stacks", "# Stacks of layers")
    assert check.changed_since(None, root).files == {"book/31_stacks.ipynb"}
    assert not check.changed_since(None, root).chapters
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text="1")]
    nbformat.write(notebook, path)
    edit(root, "notation", "norm(1)", "norm(2)")
    write_notebook(root, "99_new", CHAPTER)
    assert check.changed_since(None, root).chapters == {f"book/{n}.ipynb" for n in ("31_stacks", "99_new", "notation")}


def test_untracked_removed_and_committed_files_count(root):
    git(root, "update-ref", "refs/remotes/origin/main", "HEAD")
    (root / "tools" / "prose.py").unlink()
    (root / "tools" / "größer.py").touch()
    (root / "tests" / "test_stacks.py").write_text("")
    git(root, "commit", "-q", "-m", "second", "tests")
    since_main, since_head = check.changed_since(None, root), check.changed_since("HEAD", root)
    assert since_main.files == {"tools/prose.py", "tools/größer.py", "tests/test_stacks.py"}
    assert since_head.files == {"tools/prose.py", "tools/größer.py"}
    for change, revision in ((since_main, "origin/main"), (since_head, "HEAD")):
        assert change.since.partition(" of ")[0] == git(root, "rev-parse", "--short", revision)


@pytest.fixture
def gate(root, monkeypatch):
    """What the short gate runs after a change, chapters and tests, and what it says that it left out."""

    def run(change, named=False):
        ran = []
        monkeypatch.setattr(check, "style", lambda *commands: ran.extend(map(str, commands)))
        monkeypatch.setattr(check, "pytest", lambda *arguments, marks: ran.extend([marks, *arguments]))
        steps, left = check.gate(change, named, root)
        for step in steps.values():
            step()
        assert {str(check.STRUCTURE), "not slow and not browser"} < set(ran)
        return [Path(one).stem.removeprefix("test_") for one in ran if one.endswith((".py", ".ipynb"))], left

    return run


def test_what_runs_after_a_change(root, gate):
    """Of texts, the tests that read the book; of code, its chapter, but for 59, and all quick tests."""
    edit(root, "31_stacks", "# Stacks", "# Stacks of 7613 layers")
    run, left = gate(check.changed_since(None, root))
    assert run == ["pages", "prose"]
    assert left[:2] == ["chapters 31, 59, notation", "quick tests of stacks, web_model"]
    for name in ("31_stacks", "59_training"):
        edit(root, name, "norm(1)", "norm(2)")
    run, left = gate(check.changed_since(None, root))
    assert run == ["31_stacks", "pages", "prose", "stacks", "web_model"]
    assert left[0] == "chapters 59, notation"
    assert "59_training" in gate(check.changed_by_name(["59"], root), named=True)[0]


def test_a_script_of_the_pages_that_changed_brings_its_own_tests():
    found = check.of_scripts(["book/web/widgets/clocks.js", "book/web/book.css"])
    assert {"tests/test_widgets.py", "tests/test_site_widgets.py::test_clocks"} <= set(found)
    assert not [test for test in found if "breaking" in test]


def test_what_ruff_says_of_a_module_is_said_of_the_chapters_cell(root):
    text = "# Written.\nimport os\n\n# book/31_stacks.ipynb#norm\nx = 1\n# book/31_stacks.ipynb#shown\nprint(y)\n"
    (root / "annotated").mkdir()
    (root / "annotated" / "stacks.py").write_text(text)
    for said, expected in (
        ("annotated/stacks.py:5:1: E501 Long", "book/31_stacks.ipynb#norm: E501 Long: x = 1"),
        ("annotated/stacks.py:7:7: F821 Unknown", "book/31_stacks.ipynb#shown: F821 Unknown: print(y)"),
        ("annotated/stacks.py:2:8: F401 Unused", "annotated/stacks.py: F401 Unused: import os"),
        ("tools/build.py:1:1: F401 Unused", "tools/build.py:1:1: F401 Unused"),
    ):
        assert check.in_chapter(said, root) == expected
