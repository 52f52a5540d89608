"""The one test that names everything a chapter lacks: tools/structure.py."""

from tools.structure import Book


def test_nothing_is_missing():
    problems = Book().problems()
    assert not problems, "\n" + "\n".join(problems)
