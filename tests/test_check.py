"""The one summary of `make test` counts what happened: tools/check.py."""

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


@pytest.mark.slow
def test_counts_of_a_run(tmp_path, capfd):
    path = tmp_path / "test_sample.py"
    path.write_text(TESTS)
    assert check.pytest(str(path)) == {"passed": 1, "failed": 2, "skipped": 1}


@pytest.mark.slow
def test_a_run_that_never_began_has_failed(tmp_path, capfd):
    assert check.pytest(str(tmp_path / "absent.py"))["failed"] == 1
    (tmp_path / "test_syntax.py").write_text("def")
    assert check.pytest(str(tmp_path / "test_syntax.py"))["failed"] == 1


def test_a_single_step(capfd):
    assert check.single("json.tool", "--help") == {"passed": 1}
    assert check.single("json.tool", "absent.json") == {"failed": 1}
