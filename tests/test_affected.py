"""What a change reaches, and what the short gate runs of it: tools/affected.py and tools/check.py."""

import subprocess
from pathlib import Path

import nbformat
import pytest

from tests.notebooks import write_notebook
from tools import affected, check
from tools.text import to_text

STACKS = """%% notebook stacks
%% md title
# Stacks

%% code norm
#| export
def norm(x):
    "Doc."
    return x

%% code shown
norm(1)
"""
MODEL = """%% notebook model
%% md title
# Model

%% code imports
#| export
from annotated.stacks import norm

%% code rows
open("../data/devices.yml").read()
"""
FILES = {
    "annotated/stacks.py": "def norm(x):\n    return x\n",
    "data/devices.yml": "rows: []\n",
    "annotated/text/grammar/data/words.tsv": "a\n",
    "tools/export.py": "x = 1\n",
    "tools/build.py": "from tools.export import x\n",
    "tests/device.py": "",
    "tests/test_stacks.py": "from annotated.stacks import norm\n",
    "tests/test_model.py": "from annotated.stacks import norm\nfrom tests.device import x\n",
    "tests/test_export.py": "",
    "tests/test_build.py": "from tools import build, export\n",
    "tests/test_devices.py": "",
    "tests/test_grammar.py": "export = 1\n",
    "tests/test_pages.py": "import pytest\n\nBOOK = ROOT / 'book'\n\n@pytest.mark.slow\ndef test_all(): ...\n",
    "tests/test_web_model.py": "its_book = 1\n",
    "tests/test_prose.py": "from tools.prose import figures\n",
    "tools/prose.py": "open('book/31_stacks.ipynb')\n",
}


def git(root, *arguments):
    done = subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path):
    """A repository with two chapters, committed."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    write_notebook(tmp_path, "31_stacks", STACKS)
    write_notebook(tmp_path, "39_model", MODEL)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "own"),
    [
        ("annotated/stacks.py", ["stacks"]),
        ("tools/export.py", ["build", "export"]),
        ("tests/device.py", ["model"]),
        ("tests/test_model.py", ["model"]),
        ("data/devices.yml", ["devices"]),
        ("annotated/text/grammar/data/words.tsv", ["grammar"]),
        ("annotated/text/grammar/data/removed.tsv", ["grammar"]),
        ("book/web/model/stacks.js", ["model", "stacks", "web_model"]),
        ("README.md", []),
    ],
)
def test_a_tests_subject_is_in_its_name_or_its_imports(root, changed, own):
    assert affected.own_tests(affected.Change({changed}), root) == [f"tests/test_{name}.py" for name in own]


def edit(root, name, old, new):
    path = root / "book" / f"{name}.ipynb"
    previous = nbformat.read(path, as_version=4)
    assert old in to_text(previous)
    write_notebook(root, name, to_text(previous).replace(old, new), previous)


@pytest.mark.parametrize(
    ("old", "new", "runs", "modules"),
    [
        ("# Stacks", "# Stacks of layers", False, set()),  # prose
        ("norm(1)", "norm(2)", True, set()),  # a cell that is not exported
        ("return x", "return 2 * x", True, {"annotated/stacks.py"}),
        ('"Doc."', '"Another."', True, set()),  # a docstring changes no module's behaviour
        ("#| export", "#| export masks", True, {"annotated/stacks.py", "annotated/masks.py"}),
    ],
)
def test_what_of_a_chapter_changed(root, old, new, runs, modules):
    edit(root, "31_stacks", old, new)
    change = affected.changed_since(None, root)
    assert change.files == {"book/31_stacks.ipynb", *modules}
    assert change.chapters == ({"book/31_stacks.ipynb"} if runs else set())


def test_a_changed_output_makes_a_chapter_run(root):
    path = root / "book" / "31_stacks.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[2].outputs = [nbformat.v4.new_output("stream", text="1")]
    nbformat.write(notebook, path)
    assert affected.changed_since(None, root).chapters == {"book/31_stacks.ipynb"}


def test_untracked_removed_and_committed_files_count(root):
    git(root, "update-ref", "refs/remotes/origin/main", "HEAD")
    (root / "tools" / "build.py").unlink()
    (root / "tools" / "größer.py").touch()
    (root / "data" / "devices.yml").write_text("rows: [1]\n")
    git(root, "commit", "-q", "-m", "second", "data")
    since_main, since_head = affected.changed_since(None, root), affected.changed_since("HEAD", root)
    assert since_main.files == {"tools/build.py", "tools/größer.py", "data/devices.yml"}
    assert since_head.files == {"tools/build.py", "tools/größer.py"}
    for change, revision in ((since_main, "origin/main"), (since_head, "HEAD")):
        assert change.since.partition(" of ")[0] == git(root, "rev-parse", "--short", revision)


def test_chapters_can_be_named(root):
    files = affected.changed_by_name(["31"], root).files
    assert files == {"annotated/stacks.py", "book/31_stacks.ipynb"}
    with pytest.raises(ValueError, match="no chapter '77'"):
        affected.changed_by_name(["77"], root)
    with pytest.raises(ValueError, match="'gone'"):
        affected.changed_since("gone", root)


def gate(root, monkeypatch, named=False):
    """What the short gate runs in a repository: chapters, tests, and those of these whose slow tests run, too."""
    ran = []
    monkeypatch.setattr(check, "pytest", lambda *arguments, marks: ran.extend(arguments))
    steps, left = check.gate(affected.changed_since(None, root), named, root)
    assert list(steps) == ["style", "tests"]
    steps["tests"]()
    files = [Path(argument) for argument in ran if argument.endswith((".py", ".ipynb")) and "=" not in argument]
    (slow,) = [argument.removeprefix("--slow-in=") for argument in ran if argument.startswith("--slow-in=")]
    return [check.name_of(file) for file in files], slow, left


def test_the_short_gate_runs_what_changed_and_all_quick_tests(root, monkeypatch):
    edit(root, "31_stacks", "return x", "return 2 * x")
    run, slow, left = gate(root, monkeypatch)
    assert run == ["31_stacks", *sorted(Path(name).stem[5:] for name in FILES if "/test_" in name)]
    assert slow == "tests/test_stacks.py"
    assert left == ["chapters 39", "slow tests of pages", "the site in a browser"]


def test_after_a_change_of_text_the_tests_that_read_the_book_run(root, monkeypatch):
    """A figure in a sentence is held against what cells print: such tests stood out once, unnamed."""
    edit(root, "31_stacks", "# Stacks", "# Stacks of 7613 layers")
    run, _, left = gate(root, monkeypatch)
    assert run == ["pages", "prose"]
    others = "build, devices, export, grammar, model, stacks, web_model"
    assert left == ["chapters 31, 39", f"tests of {others}", "slow tests of pages", "the site in a browser"]


@pytest.mark.parametrize("named", [True, False])
def test_training_is_left_out_unless_it_is_named(root, monkeypatch, named):
    write_notebook(root, "59_training", MODEL)
    run, _, left = gate(root, monkeypatch, named)
    assert ("59_training" in run) == named
    assert ("chapters 31, 39, 59" in left) == (not named)


def test_what_ruff_says_of_a_module_is_said_of_the_chapters_cell(root):
    text = "# Written.\nimport os\n\n# book/31_stacks.ipynb#norm\nx = 1\n# book/31_stacks.ipynb#shown\nprint(y)\n"
    (root / "annotated" / "stacks.py").write_text(text)
    for said, expected in (
        ("annotated/stacks.py:5:1: E501 Long", "book/31_stacks.ipynb#norm: E501 Long: x = 1"),
        ("annotated/stacks.py:7:7: F821 Unknown", "book/31_stacks.ipynb#shown: F821 Unknown: print(y)"),
        ("annotated/stacks.py:2:8: F401 Unused", "annotated/stacks.py: F401 Unused: import os"),
        ("tools/build.py:1:1: F401 Unused", "tools/build.py:1:1: F401 Unused"),
    ):
        assert check.in_chapter(said, root) == expected


TESTS = """
import pytest

@pytest.mark.slow
def test_slow():
    assert {}

def test_quick():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(("own", "counts"), [("one", {"passed": 2, "failed": 1}), ("none", {"passed": 2})])
def test_slow_tests_run_only_in_the_files_that_are_named(tmp_path, own, counts, capfd, monkeypatch):
    monkeypatch.setattr(check, "REPORT", tmp_path / "report.xml")
    for name, passes in (("one", False), ("two", False)):
        (tmp_path / f"test_{name}.py").write_text(TESTS.format(passes))
    found = check.pytest("-p", "conftest", f"--slow-in={tmp_path / f'test_{own}.py'}", str(tmp_path))
    assert {kind: count for kind, count in found.items() if count} == counts


@pytest.mark.parametrize("arguments", [["--nonsense"], ["33"], ["--since", "HEAD"], ["--changed", "--chapter", "77"]])
def test_arguments_that_the_gate_does_not_know_are_refused(arguments, monkeypatch, capsys):
    monkeypatch.setattr(check, "run_steps", lambda steps: pytest.fail("something ran"))
    with pytest.raises(SystemExit) as stopped:
        check.main(arguments)
    assert stopped.value.code == 2
    assert "usage" in capsys.readouterr().err
