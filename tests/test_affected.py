"""What a change reaches, and what the short gate runs of it: tools/affected.py and tools/check.py."""

import subprocess

import nbformat
import pytest

from tests.notebooks import write_notebook
from tools import affected, check
from tools.clean import ROOT
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
    "annotated/__init__.py": '_HOME = {"norm": "stacks", "Transformer": "model"}\n',
    "annotated/stacks.py": "def norm(x):\n    return x\n",
    "annotated/model.py": "from annotated.stacks import norm\n\n\nclass Transformer: ...\n",
    "annotated/corpora.py": "x = 1\n",
    "data/devices.yml": "rows: []\n",
    "tools/export.py": "from pathlib import Path\n\nBOOK = Path() / 'book'\n",
    "tools/build.py": "from tools.export import x\n",
    "book/web/book.css": "a {}\n",
    "tests/conftest.py": "",
    "tests/test_stacks.py": "from annotated.stacks import norm\n",
    "tests/test_model.py": "import annotated\n\nannotated.Transformer\n",
    "tests/test_corpora.py": "from annotated import corpora\n",
    "tests/test_build.py": "from tools import build\n",
    "tests/test_devices.py": "ROOT = None\nROOT / 'data' / 'devices.yml'\n",
    "tests/test_pages.py": "ROOT = None\nname = 'x'\nROOT / 'book' / f'{name}.ipynb'\n",
    "tests/test_stylesheet.py": "'book/web/book.css'\n",
    "tests/test_page.py": "'39_model#rows'\n",
}


def git(root, *arguments):
    command = ["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    subprocess.run(command, check=True, capture_output=True)


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


def reached_tests(root, *changed):
    distances = affected.Project(root).reached(changed)
    return {file.removeprefix("tests/test_")[:-3]: far for file, far in distances.items() if "/test_" in file}


@pytest.mark.parametrize(
    ("changed", "reached"),
    [
        ("annotated/stacks.py", {"stacks": 1, "model": 2, "page": 2, "pages": 3}),
        ("annotated/corpora.py", {"corpora": 1}),
        ("annotated/model.py", {"model": 1}),
        ("tools/export.py", {"build": 2}),
        ("data/devices.yml", {"devices": 1, "page": 2, "pages": 3}),
        ("book/web/book.css", {"stylesheet": 1, "pages": 2}),
        ("book/39_model.ipynb", {"page": 1, "pages": 2}),
        ("tests/test_model.py", {"model": 0}),
        ("README.md", {}),
    ],
)
def test_what_imports_names_or_reads_a_changed_file_is_reached(root, changed, reached):
    assert reached_tests(root, changed) == reached


def test_the_tests_own_configuration_reaches_all_tests(root):
    assert len(reached_tests(root, "tests/conftest.py")) == sum("/test_" in name for name in FILES)


def test_chapters_are_reached_through_modules_and_data(root):
    project = affected.Project(root)
    assert "book/39_model.ipynb" in project.reached(["annotated/stacks.py"])
    assert "book/39_model.ipynb" in project.reached(["data/devices.yml"])
    assert "book/31_stacks.ipynb" not in project.reached(["annotated/model.py"])


@pytest.mark.parametrize("changed", ["data/grammar/words.tsv", "data/grammar/frames/removed.tsv"])
def test_data_of_the_package_reaches_the_modules_of_its_chapter(root, changed):
    write_notebook(root, "31_stacks", STACKS.replace("notebook stacks", 'notebook stacks {"data": ["grammar"]}'))
    reached = affected.Project(root).reached([changed])
    assert reached["annotated/stacks.py"] == reached["book/31_stacks.ipynb"] == 1
    assert reached["tests/test_stacks.py"] == reached["annotated/model.py"] == 2
    assert "annotated/corpora.py" not in reached
    assert "annotated/stacks.py" not in affected.Project(root).reached(["data/devices.yml"])


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
    (root / "tools" / "new.py").touch()
    (root / "data" / "devices.yml").write_text("rows: [1]\n")
    git(root, "commit", "-q", "-m", "second", "data")
    assert affected.changed_since(None, root).files == {"tools/build.py", "tools/new.py", "data/devices.yml"}
    assert affected.changed_since("HEAD", root).files == {"tools/build.py", "tools/new.py"}


def test_the_command_names_what_a_change_reaches(root, capsys):
    edit(root, "31_stacks", "return x", "return 2 * x")
    edit(root, "39_model", "# Model", "# The model")
    assert affected.main([], root) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.replace("to run", "run").splitlines())
    assert lines["modules"] == "model, stacks"
    assert lines["run"] == "31"
    assert lines["prose"] == "only 39"
    assert lines["tests"] == "test_page.py, test_stacks.py"


def test_files_and_chapters_can_be_named(root, capsys):
    assert affected.main(["31"], root) == 0
    assert "annotated/stacks.py, book/31_stacks.ipynb" in capsys.readouterr().out
    assert affected.changed_by_name(["data/devices.yml"], root).files == {"data/devices.yml"}


@pytest.mark.parametrize(("arguments", "said"), [(["77"], "no chapter '77'"), (["--since", "gone"], "'gone'")])
def test_what_does_not_exist_is_refused(root, arguments, said, capsys):
    assert affected.main(arguments, root) == 2
    assert said in capsys.readouterr().err


def test_the_real_project_is_understood():
    project = affected.Project(ROOT)
    reached = project.reached(["annotated/feed_forward.py"])
    assert reached["tests/test_feed_forward.py"] == 1
    assert reached["annotated/training.py"] > reached["annotated/model.py"] == 1
    assert "book/59_training.ipynb" in reached
    assert "book/20_recurrent_rival.ipynb" not in reached
    assert "tests/test_grammar.py" not in reached
    assert project.reached(["book/_ext/appendices.py"])["tests/test_appendices.py"] == 1
    drawn = project.reached(["book/schematics.py"])
    assert drawn["book/31_stacks.ipynb"] == drawn["tests/test_schematics.py"] == 1


@pytest.mark.parametrize(
    ("far", "run", "left"), [(2, ["model", "page", "pages"], []), (1, [], ["model", "page", "pages"])]
)
def test_the_short_gate_runs_what_is_near_and_says_what_it_leaves_out(root, monkeypatch, far, run, left):
    ran = []
    monkeypatch.setattr(check, "FAR", far)
    monkeypatch.setattr(check, "pytest", lambda *arguments, threads=1: ran.append((arguments, threads)) or {})
    edit(root, "31_stacks", "return x", "return 2 * x")
    steps, said = check.gate(affected.Project(root), affected.changed_since(None, root), named=False)
    assert list(steps) == ["ruff", "format", "scripts", "notebooks", "export", "structure", "what it reaches"]
    steps["what it reaches"]()
    ((arguments, threads),) = ran
    files = [argument for argument in arguments if argument.endswith((".py", ".ipynb")) and "=" not in argument]
    assert files == ["book/31_stacks.ipynb", *(f"tests/test_{name}.py" for name in sorted([*run, "stacks"]))]
    assert "--slow-in=tests/test_stacks.py" in arguments
    assert threads == 1
    beyond = [f"tests of {', '.join(left)}"] if left else []
    slow = [f"slow tests of {', '.join(run)}"] if run else []
    assert said == ["chapters 39", *beyond, *slow, "the site in a browser"]


@pytest.mark.parametrize("named", [True, False])
def test_training_is_left_out_unless_it_is_named(root, named):
    path = str(write_notebook(root, "59_training", MODEL).relative_to(root))
    _, left = check.gate(affected.Project(root), affected.Change({path}, {path}), named=named)
    assert ("chapters 59" in left) == (not named)


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
