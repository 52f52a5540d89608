"""What `make execute` stores anew and what it leaves: tools/outputs.py; nbval compares cells without counts."""

import io
import os
import shutil
import subprocess
import sys

import nbformat
import pytest
from matplotlib import pyplot as plt
from matplotlib import rc_params_from_file

from tests.notebooks import write_notebook
from tools import ROOT, execute, outputs
from tools.drawings import NARROW, SVG
from tools.text import from_text

TIMED = """%% notebook timing

%% code time {"annotated": {"reason": "a timing"}, "tags": ["nbval-ignore-output"]}
print(f"{slow():.1f} ms on cpu: Intel(R) Xeon(R) (avx2)")
"""
OLD, NEW = "P100: 3.5 ms on cpu: Intel(R) Xeon(R) (avx2)\n", "P100: 12 ms  on cpu: AMD EPYC (avx2, avx512f)\n"


def stream(text):
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def ran(chapter, text):
    """The chapter's notebook as a run leaves it, its cell with the given output."""
    notebook = from_text(chapter)
    notebook.cells[0].outputs = [stream(text)]
    return notebook


@pytest.mark.parametrize(
    ("chapter", "text", "refresh", "renewed"),
    [
        (TIMED, NEW, False, False),
        (TIMED, NEW, True, True),
        (TIMED.replace(":.1f}", ":.0f}"), NEW, False, True),
        (TIMED, NEW.replace("P100", "V100"), False, True),
        (TIMED, "", False, True),
        (TIMED.replace(', "tags": ["nbval-ignore-output"]', ""), NEW, False, True),  # what is compared
    ],
)
def test_a_timing_stays_while_code_and_words_stay(chapter, text, refresh, renewed):
    first = outputs.settle(ran(TIMED, OLD), ran(TIMED, OLD))
    again = outputs.settle(first, ran(chapter, text), refresh)
    assert again.cells[0].outputs[0].text == (text if renewed else OLD)
    assert not outputs.are_stale(again)


def test_a_drawing_has_the_same_names_each_time():
    """SVG is text with made-up names; the salt that every chapter reads makes them up in one way."""
    rules = rc_params_from_file(ROOT / "book" / "matplotlibrc", use_default_template=False)
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
@pytest.mark.parametrize(("drawn", "kept"), [("M 1.3 2", True), ("M 3 2", False)])
def test_a_picture_stays_while_it_looks_the_same(kind, drawn, kept):
    old, new = ([nbformat.v4.new_output("display_data", data={kind: one})] for one in ("M 1.2 2", drawn))
    outputs.keep_pictures(old, new)
    assert new[0].data[kind] == ("M 1.2 2" if kept else drawn)


@pytest.mark.slow
def test_executing_an_unchanged_chapter_leaves_no_difference(tmp_path):
    (tmp_path / "book").mkdir()
    for name in ("data", "annotated", "book/figures"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("33_feed_forward.ipynb", "matplotlibrc", "schematics.py"):
        shutil.copy(ROOT / "book" / name, tmp_path / "book")
    path = tmp_path / "book" / "33_feed_forward.ipynb"
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
def test_nbval_compares_cells_without_counts(tmp_path):
    """One cell that is as it was, one that lost an output, and one that has another."""
    path = write_notebook(tmp_path, "31_first", COMPARED)
    execute.store(path)
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].outputs = [stream("gone\n")]
    notebook.cells[2].outputs = []
    nbformat.write(notebook, path)
    shutil.copy(ROOT / "conftest.py", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env", path]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # what the root conftest imports
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "\n2 failed, 1 passed in " in done.stdout
