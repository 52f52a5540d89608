"""README.md: what it says was measured is what the records say, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.readme import PARTS, marks, measured, written

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_numbers_are_those_of_the_records():
    assert written(TEXT, ROOT) == TEXT, "run python -m tools.readme"


@pytest.mark.slow
def test_a_changed_number_is_put_right():
    table = measured(ROOT)
    number = re.search(r"\d+\.\d", table)[0]
    assert written(TEXT.replace(number, "99.9", 1), ROOT) == TEXT


@pytest.mark.parametrize("part", PARTS)
def test_missing_marks_are_named(part):
    begin, _ = marks(part)
    with pytest.raises(ValueError, match=f"marks {begin}"):
        written(TEXT.replace(begin, ""), ROOT)


def test_files_and_commands_that_it_names_exist():
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT):
        assert (ROOT / link).exists(), link
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for name in re.findall(r"`make ([a-z-]+)", TEXT) + re.findall(r"^make ([a-z-]+)", TEXT, re.MULTILINE):
        assert name in targets, name
    for module in re.findall(r"python -m (tools\.\w+)", TEXT):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), module
