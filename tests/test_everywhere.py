"""The quick tests under other conditions: tools/everywhere.py."""

import pytest

from tools import everywhere


@pytest.fixture
def runs(monkeypatch):
    """What was asked to run; one test fails where signals are ignored."""
    asked = []

    def outcomes(names, marks, files):
        asked.append((names, marks, files))
        return {"tests.test_a::test_x": "failed" if names == ["signals ignored"] else "passed"}

    monkeypatch.setattr(everywhere, "outcomes", outcomes)
    return asked


def test_a_test_that_fails_under_one_condition_alone_is_named(runs, capsys):
    assert everywhere.main(["nohup"]) == 0
    assert everywhere.main(["nohup", "signals ignored"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[-2:] == ["signals ignored: 1 failed", "    failed: tests.test_a::test_x"]
    assert [names for names, *_ in runs[2:]] == [["as it is"], ["nohup"], ["signals ignored"]]


def test_without_names_every_condition_is_tried_and_at_last_all_together(runs):
    assert everywhere.main(["--all"]) == 1
    tried = {name for names, *_ in runs[:-1] for name in names}
    assert set(everywhere.CONDITIONS) - tried <= {"another user"}  # which needs root
    assert runs[-1] == (everywhere.COMBINED, everywhere.EVERYTHING, ["book", "tests"])


@pytest.mark.slow
def test_a_condition_is_that_of_the_tests(tmp_path, monkeypatch):
    """In a folder with a space, with a home that cannot be written to, a sample of tests passes."""
    found = everywhere.outcomes(["read-only home", "a folder with a space"], "not slow", ["tests/test_schedule.py"])
    assert len(found) > 10
    assert set(found.values()) == {"passed"}
