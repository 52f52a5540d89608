"""What `make execute` stores anew and what it leaves: tools/outputs.py; nbval compares cells without counts."""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from matplotlib import pyplot as plt
from matplotlib import rc_params_from_file

from tests.notebooks import write_notebook
from tools import ROOT, execute, outputs
from tools.clean import clean
from tools.drawings import NARROW, SVG

TIMED = """%% notebook timing

%% code imports
#| export
import yaml

%% code slow
#| export
def slow():
    "Slow on purpose."
    return 3.5

%% code rows
rows = yaml.safe_load(open("../data/devices.yml"))["rows"]
elsewhere = 1

%% code time {"annotated": {"reason": "a timing"}, "tags": ["nbval-ignore-output"]}
for row in rows:
    print(f"{row}: {slow():.1f} ms on cpu: Intel(R) Xeon(R) (avx2)")
"""
LIVE = TIMED.replace('{"reason": "a timing"}', '{"reason": "live training", "renewed_by": ["loop"]}')


def stream(text):
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def ran(root, chapter, text):
    """The chapter's notebook as a run leaves it, its last code cell with the given output."""
    path = write_notebook(root, "52_hardware", chapter)
    notebook = clean(nbformat.read(path, as_version=4))
    outputs.code_cells(notebook)[-1].outputs = [stream(text)]
    return notebook


def stored(notebook):
    return outputs.code_cells(notebook)[-1].outputs[0].text


@pytest.fixture
def root(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "devices.yml").write_text("rows: [P100]\n")
    (tmp_path / "annotated").mkdir()
    (tmp_path / "annotated" / "loop.py").write_text("from annotated.model import f\n")
    (tmp_path / "annotated" / "model.py").write_text('def f():\n    "Doc."\n    return 1\n')
    return tmp_path


OLD, NEW = "P100: 3.5 ms on cpu: Intel(R) Xeon(R) (avx2)\n", "P100: 12 ms  on cpu: AMD EPYC (avx2, avx512f)\n"


def second_run(root, chapter=TIMED, changed=None, text=NEW, refresh=False):
    """What is stored when the chapter, changed meanwhile, runs again."""
    first = outputs.settle(ran(root, chapter, OLD), ran(root, chapter, OLD), root)
    return stored(outputs.settle(first, ran(root, changed or chapter, text), root, refresh))


def test_a_timing_stays_while_nothing_behind_it_changed(root):
    assert second_run(root) == OLD
    assert second_run(root, refresh=True) == NEW


@pytest.mark.parametrize("text", [NEW.replace("P100", "V100"), NEW + "another line\n", ""])
def test_new_words_are_stored(root, text):
    assert second_run(root, text=text) == text


@pytest.mark.parametrize(
    ("before", "after", "renewed"),
    [
        ("return 3.5", "return 4.5", True),  # a function that it calls
        (":.1f} ms", ":.0f} ms", True),  # the cell itself
        ("Slow on purpose", "Slow", False),  # a docstring
        ("return 3.5", "return 3.5  # on purpose", False),
        ("elsewhere = 1", "elsewhere = 2", True),  # a cell that it goes back to, in another line
        ("%% code slow", "%% code apart\napart = 1\n\n%% code slow", False),  # a cell that it has nothing to do with
    ],
)
def test_code_behind_a_timing_renews_it(root, before, after, renewed):
    assert second_run(root, changed=TIMED.replace(before, after)) == (NEW if renewed else OLD)


def test_data_behind_a_timing_renews_it(root):
    first = outputs.settle(ran(root, TIMED, OLD), ran(root, TIMED, OLD), root)
    (root / "data" / "other.yml").write_text("rows: []\n")
    assert stored(outputs.settle(first, ran(root, TIMED, NEW), root)) == OLD
    (root / "data" / "devices.yml").write_text("rows: [P100, V100]\n")
    assert stored(outputs.settle(first, ran(root, TIMED, NEW), root)) == NEW


def test_live_training_is_renewed_by_its_modules_and_not_by_the_chapters_own(root):
    assert second_run(root, LIVE, LIVE.replace("return 3.5", "return 4.5")) == OLD
    first = outputs.settle(ran(root, LIVE, OLD), ran(root, LIVE, OLD), root)
    module = root / "annotated" / "model.py"
    module.write_text(module.read_text().replace("Doc.", "Documented."))
    assert stored(outputs.settle(first, ran(root, LIVE, NEW), root)) == OLD
    module.write_text('__all__ = ["f"]\n' + module.read_text())
    assert stored(outputs.settle(first, ran(root, LIVE, NEW), root)) == OLD
    module.write_text(module.read_text().replace("return 1", "return 2"))
    assert stored(outputs.settle(first, ran(root, LIVE, NEW), root)) == NEW


def test_data_of_the_package_renews_live_training_and_no_timing(root):
    first = {text: outputs.settle(ran(root, text, OLD), ran(root, text, OLD), root) for text in (LIVE, TIMED)}
    (root / "annotated" / "data").mkdir()
    (root / "annotated" / "data" / "words.tsv").write_text("dog\n")
    assert stored(outputs.settle(first[LIVE], ran(root, LIVE, NEW), root)) == NEW
    assert stored(outputs.settle(first[TIMED], ran(root, TIMED, NEW), root)) == OLD


def test_an_output_that_is_compared_is_always_stored(root):
    compared = TIMED.replace(', "tags": ["nbval-ignore-output"]', "")
    assert second_run(root, compared) == NEW


def test_a_drawing_has_the_same_names_each_time():
    """SVG is text with made-up names; the salt that every chapter reads makes them up in one way."""
    rules = rc_params_from_file(ROOT / "book" / "matplotlibrc", use_default_template=False)
    assert rules["font.family"] == ["DejaVu Sans"]
    drawn = []
    for salted in (rules, rules, {}):
        with plt.rc_context(rules | {"svg.hashsalt": None} | dict(salted)):
            figure, axes = plt.subplots(figsize=(2, 1))
            axes.plot([0, 1], clip_on=True)
            file = io.BytesIO()
            figure.savefig(file, format="svg", metadata={"Date": None})
            plt.close(figure)
            drawn.append(file.getvalue())
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("kind", [SVG, NARROW])
@pytest.mark.parametrize(("drawn", "kept"), [("M 1.3 2", True), ("M 3 2", False), ("L 1.2 2", False)])
def test_a_picture_stays_while_it_looks_the_same(kind, drawn, kept):
    old, new = ([nbformat.v4.new_output("display_data", data={kind: one})] for one in ("M 1.2 2", drawn))
    assert outputs.with_old_pictures(old, new)[0].data[kind] == ("M 1.2 2" if kept else drawn)


QUICK = ("33_feed_forward", "index")


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_executing_an_unchanged_chapter_leaves_no_difference(tmp_path, name):
    (tmp_path / "data").symlink_to(ROOT / "data")
    (tmp_path / "annotated").symlink_to(ROOT / "annotated")
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "figures").symlink_to(ROOT / "book" / "figures")
    path = tmp_path / "book" / f"{name}.ipynb"
    shutil.copy(ROOT / "book" / path.name, path)
    for beside in ("matplotlibrc", "schematics.py"):
        shutil.copy(ROOT / "book" / beside, path.parent)
    assert execute.store(path) == "unchanged"
    assert path.read_bytes() == (ROOT / "book" / path.name).read_bytes()


COMPARED = """%% notebook -

%% code shown
print("one")

%% code silent
x = 1

%% code value
x + 1
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({}, 0, "3 passed"),
        ({0: [stream("two\n")], 1: [stream("gone\n")], 2: []}, 1, "3 failed"),  # one changed, one lost, one new
    ],
)
def test_nbval_compares_cells_without_counts(tmp_path, changes, status, said):
    path = write_notebook(tmp_path, "31_first", COMPARED)
    execute.store(path)
    notebook = nbformat.read(path, as_version=4)
    assert [one.execution_count for one in notebook.cells] == [None, None, None]
    for cell, stored_outputs in changes.items():
        notebook.cells[cell].outputs = stored_outputs
    nbformat.write(notebook, path)
    shutil.copy(ROOT / "conftest.py", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env", path]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # what the root conftest imports
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == status, done.stdout
    assert f"\n{said} in " in done.stdout


def test_the_root_conftest_is_what_the_chapters_are_run_with():
    assert (ROOT / "conftest.py").is_file()
    assert Path(sys.modules["conftest"].__file__) == ROOT / "conftest.py"
