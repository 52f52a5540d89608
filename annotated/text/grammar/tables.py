"""The grammar's words and frames, read from tables."""

from collections.abc import Collection
from importlib import resources
from importlib.resources.abc import Traversable

from annotated.base.files import InputError

__all__ = ["Row", "TABLES", "read_table"]


TABLES = resources.files("annotated") / "text" / "grammar" / "data"


class Row(dict[str, str]):
    """An entry of a table by the names of its columns; what stands as "-" is empty."""

    def __missing__(self, column: str) -> str:
        raise InputError(
            f"{self['file']}, line 2: a column named {column!r} is missing",
            "Add the column to the header and to every line.",
        )


def read_table(name: str, folder: Traversable = TABLES, unique: str = "", **allowed: Collection[str]) -> list[Row]:
    """The rows of a table: a comment, the names of the columns, then an entry a line, all with tabs between.

    `allowed` names the words that may stand in a column, and no two entries agree in the column `unique`. Raises
    InputError, naming file, line and column, for anything else.
    """
    file = f"{name}.tsv"
    _, header, *lines = folder.joinpath(file).read_text(encoding="utf-8").splitlines()
    columns = header.split("\t")
    rows: list[Row] = []
    for number, line in enumerate(lines, start=3):
        cells = line.split("\t")
        if len(cells) != len(columns):
            raise InputError(
                f"{file}, line {number}: {len(cells)} columns, but the header names {len(columns)}",
                "Count the tabs of the line; an empty column is written as a hyphen.",
            )
        row = Row(zip(columns, ("" if cell == "-" else cell for cell in cells), strict=True), file=file)
        for column, cell in zip(columns, cells, strict=True):
            where = f"{file}, line {number}, column {column!r}"
            if not cell or cell != " ".join(cell.split()):
                raise InputError(
                    f"{where}: words with one space between them, or - for none, instead of {cell!r}",
                    "Take the superfluous spaces out, or write a hyphen.",
                )
            wrong = [word for word in row[column].split() if column in allowed and word not in allowed[column]]
            if wrong:
                raise InputError(f"{where}: {wrong[0]!r} is none of {', '.join(allowed[column])}")
            if column == unique and any(cell == other[column] for other in rows):
                raise InputError(f"{where}: {cell!r} stands in an earlier line, too", "Delete one of the two lines.")
        rows.append(row)
    return rows
