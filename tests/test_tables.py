"""Tables of words: what is read, and how a wrong line is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from annotated.base.files import InputError
from annotated.text.grammar.tables import TABLES, read_table
from tests.messages import message, refused

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


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("cat\tf", message("columns-differ", "nouns.tsv", 5, 2, 3)),
        ("cat\tx\tanimal", message("cell-unknown", "nouns.tsv, line 5, column 'gender'", "'x'", "m, f, n")),
        ("cat\tf\tanimal plant", message("cell-unknown", "line 5, column 'kinds'", "'plant'", "animal, pet")),
        ("\tf\tanimal", message("cell-not-words", "nouns.tsv, line 5, column 'english'", "''")),
        ("big  cat\tf\tanimal", message("cell-not-words", "nouns.tsv, line 5, column 'english'", "'big  cat'")),
        ("dog\tf\tanimal", message("cell-twice", "nouns.tsv, line 5, column 'english'", "'dog'")),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(InputError, match=f"{says}$"):
        read(tmp_path, [*GOOD, line])


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    row = read(tmp_path, GOOD)[0]
    with refused("column-missing", "nouns.tsv", "'plural'"):
        row["plural"]


@pytest.mark.parametrize("path", sorted((GRAMMAR / "data").glob("*")), ids=lambda path: path.stem)
def test_every_table_says_what_it_is_and_is_read(path: Path) -> None:
    comment, header, *lines = path.read_text(encoding="utf-8").split("\n")
    assert re.fullmatch(r"# [A-Z].*\.", comment)
    assert header.split("\t") == [column for column in header.split("\t") if re.fullmatch(r"[a-z0-9 ]+", column)]
    assert len(lines) > 1
    assert lines[-1] == "", "the last line ends, too"
    assert re.search(
        rf'read_table\(\s*"{path.stem}"', "".join(path.read_text(encoding="utf-8") for path in GRAMMAR.glob("*.py"))
    )


def test_the_package_reads_what_is_edited() -> None:
    """The exporter's check compares the copies byte for byte; here they are where the package looks."""
    edited = {path.name: path.read_bytes() for path in (GRAMMAR / "data").iterdir()}
    assert edited == {file.name: file.read_bytes() for file in TABLES.iterdir()}
