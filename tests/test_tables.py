"""Tables of words: what is read, and how a wrong line is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from annotated.base.files import InputError
from annotated.text.grammar.tables import read_table

ROOT = Path(__file__).resolve().parents[1]
GRAMMAR = ROOT / "annotated" / "text" / "grammar"
GOOD = ["# Two nouns.", "english\tgender\tkinds", "dog\tm\tanimal pet", "bridge\tf\t-"]


def read(folder: Path, lines: list[str]) -> list[dict[str, str]]:
    (folder / "nouns.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return read_table("nouns", folder, unique="english", gender="mfn", kinds=("animal", "pet"))


def test_entries_by_the_names_of_their_columns(tmp_path: Path) -> None:
    dog, bridge = read(tmp_path, GOOD)
    assert (dog["english"], dog["gender"], dog["kinds"]) == ("dog", "m", "animal pet")
    assert bridge["kinds"] == "", "a hyphen is none"
    with pytest.raises(InputError, match="'plural'"):
        dog["plural"]


@pytest.mark.parametrize(
    ("line", "column", "value"),
    [
        ("cat\tf", "", "2 columns"),
        ("cat\tx\tanimal", "gender", "'x'"),
        ("cat\tf\tanimal plant", "kinds", "'plant'"),
        ("\tf\tanimal", "english", "''"),
        ("big  cat\tf\tanimal", "english", "'big  cat'"),
        ("dog\tf\tanimal", "english", "'dog'"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, column: str, value: str) -> None:
    with pytest.raises(InputError, match=rf"nouns\.tsv, line 5.*{column}.*{value}"):
        read(tmp_path, [*GOOD, line])


def test_every_table_says_what_it_is_and_is_read() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in GRAMMAR.glob("*.py"))
    for path in (GRAMMAR / "data").glob("*"):
        comment, header, *lines = path.read_text(encoding="utf-8").split("\n")
        assert re.fullmatch(r"# [A-Z].*\.", comment)
        assert all(re.fullmatch(r"[a-z0-9 ]+", column) for column in header.split("\t"))
        assert (len(lines) > 1, lines[-1]) == (True, ""), "the last line ends, too"
        assert re.search(rf'read_table\(\s*"{path.stem}"', code)
