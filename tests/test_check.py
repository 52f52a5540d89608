"""The one summary of `make test` counts what happened: tools/check.py."""

import sys
from collections import Counter

import pytest

from tools import check

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


SLOW = '<properties><property name="slow" value="True" /></properties>'
CASES = [
    ("book/1.ipynb", "Cell 0", 2.04, ""),
    ("tests.test_a", "test_x", 1, ""),
    ("tests.test_a", "test_y[1]", 2.5, SLOW),
    ("tests.test_site", "test_z", 0.25, ""),
]


def test_the_time_of_a_run_is_said_by_file_and_test(capsys):
    assert check.main(["--times"]) == 0
    assert capsys.readouterr().out == "no test was run yet\n"
    cases = [
        f'<testcase classname="{file}" name="{name}" time="{t}">{part}</testcase>' for file, name, t, part in CASES
    ]
    check.REPORT.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    assert check.main(["--times"]) == 0
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [
        *("6 seconds of all processes", "3.5  tests.test_a", "2.0  book/1.ipynb", "0.2  tests.test_site"),
        *("the slowest tests", "2.5  tests.test_a::test_y[1]", "2.0  book/1.ipynb::Cell 0"),
        *("1.0  tests.test_a::test_x", "0.2  tests.test_site::test_z"),
        *("the slowest that are not marked slow", "1.0  tests.test_a::test_x"),
    ]


@pytest.mark.slow
def test_a_run_that_never_began_has_failed(tmp_path, capfd):
    assert check.pytest(str(tmp_path / "absent.py"))["failed"] == 1
    (tmp_path / "test_syntax.py").write_text("def")
    assert check.pytest(str(tmp_path / "test_syntax.py"))["failed"] == 1


def test_what_style_finds_is_printed_and_counted(capfd):
    good, bad = (
        [sys.executable, "-c", f"print({word!r}); raise SystemExit({word == 'bad'})"] for word in ("ok", "bad")
    )
    assert check.style(good, bad, good) == {"passed": 2, "failed": 1}
    assert capfd.readouterr().out == "bad\n"


def test_what_follows_a_failure_is_begun_unless_a_run_is_strict(capsys):
    steps = {"style": lambda: Counter(failed=1), "tests": lambda: Counter(passed=1)}
    assert check.run_steps(steps) == 1
    assert capsys.readouterr().out.endswith("\n1 passed, 1 failed\n")
    assert check.run_steps(steps, strict=True) == 1
    assert capsys.readouterr().out.endswith("\n0 passed, 1 failed\n")
