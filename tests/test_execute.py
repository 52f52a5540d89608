"""Chapters run, keep their ids and fail readably: tools/execute.py and tools/clean.py."""

import re

import nbformat
import pytest

from tests.notebooks import write_notebook
from tools import clean, execute
from tools import outputs as outputs_tool

GOOD = """%% notebook -

%% md title
# Title

%% code threads
import os
print("threads", os.environ["OMP_NUM_THREADS"], os.path.basename(os.getcwd()))

%% code value {"tags": ["check"]}
1 + 1
"""


def outputs(path):
    return [output for cell in nbformat.read(path, as_version=4).cells for output in cell.get("outputs", [])]


@pytest.mark.slow
def test_outputs_are_stored_and_a_second_run_changes_nothing(tmp_path, capsys):
    path = write_notebook(tmp_path, "31_first", GOOD)
    assert execute.main(["31"], tmp_path) == 0
    assert outputs(path)[0].text == "threads 1 book\n"
    assert outputs(path)[1].data["text/plain"] == "2"
    notebook = nbformat.read(path, as_version=4)
    assert [cell.id for cell in notebook.cells] == ["title", "threads", "value"]
    assert notebook.cells[2].metadata == {"tags": ["check"]}
    assert notebook.cells[2].execution_count is None
    assert notebook.cells[2].outputs[0].execution_count is None
    assert not outputs_tool.are_stale(notebook)
    assert "version" not in notebook.metadata.language_info
    before = path.stat().st_mtime_ns
    assert execute.main(["--all"], tmp_path) == 0
    assert path.stat().st_mtime_ns == before
    said = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\[1/1\] 31_first  [\d.]+ s  stored", said[0])
    assert said[1].endswith("unchanged")


@pytest.mark.slow
def test_failure_names_chapter_cell_and_error_and_stores_nothing(tmp_path, capsys):
    path = write_notebook(tmp_path, "31_first", GOOD + "\n%% code fails\n{}['absent']\n")
    before = path.read_bytes()
    assert execute.main(["31_first"], tmp_path) == 1
    said = capsys.readouterr().out
    assert "chapter 31_first, cell fails: KeyError: 'absent'" in said
    assert "\x1b" not in said
    assert path.read_bytes() == before


@pytest.mark.slow
def test_a_chapter_edited_meanwhile_is_not_overwritten(tmp_path, monkeypatch):
    path = write_notebook(tmp_path, "31_first", GOOD)
    run = execute.run

    def run_and_edit(*arguments):
        executed = run(*arguments)
        write_notebook(tmp_path, "31_first", GOOD.replace("1 + 1", "2 + 2"))
        return executed

    monkeypatch.setattr(execute, "run", run_and_edit)
    with pytest.raises(execute.ChapterError, match="edited while it ran"):
        execute.store(path)
    assert nbformat.read(path, as_version=4).cells[2].source == "2 + 2"
    assert outputs_tool.are_stale(nbformat.read(path, as_version=4))


def test_clean_strips_what_changes_and_keeps_the_rest(tmp_path):
    path = write_notebook(tmp_path, "31_first", GOOD)
    tidy = nbformat.read(path, as_version=4)
    clean.write_if_changed(clean.clean(tidy), path)
    expected = path.read_bytes()
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata["widgets"] = {"a": 1}
    notebook.metadata.language_info["version"] = "3.11.0"
    notebook.cells[1].metadata["execution"] = {"iopub.status.busy": "2026-01-01"}
    notebook.cells[2].metadata["scrolled"] = True
    notebook.cells[1].execution_count = 7
    nbformat.write(notebook, path)
    assert clean.main(["--check"], tmp_path) == 1
    assert clean.main([], tmp_path) == 0
    assert path.read_bytes() == expected
    assert clean.main(["--check"], tmp_path) == 0


TIMED = """%% notebook -

%% md title
# Title

%% code time {"annotated": {"reason": "a time"}, "tags": ["nbval-ignore-output"]}
import time
print(time.time(), "seconds")
"""


@pytest.mark.slow
def test_a_time_stays_until_it_is_refreshed_and_what_was_renewed_is_said(tmp_path, capsys, monkeypatch):
    path = write_notebook(tmp_path, "31_first", TIMED)
    for arguments, refresh, said in (
        (["--refresh", "31"], "", "stored; exempt outputs renewed: time"),
        (["31"], "0", "unchanged"),
        (["31"], "1", "stored; exempt outputs renewed: time"),
    ):
        monkeypatch.setenv("REFRESH", refresh)
        before = outputs(path)
        assert execute.main(arguments, tmp_path) == 0
        assert capsys.readouterr().out.strip().endswith(f" s  {said}")
        assert (outputs(path) == before) == (said == "unchanged")
