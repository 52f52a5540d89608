"""Whether the figures of the book's texts are true: `python -m tools.prose 32` names those that nothing vouches for.

A figure is a number in the text of a chapter of the main line, outside of formulas, code and references. It has to be,
rounded as it is quoted, a whole number in what a cell prints and nbval compares, in the paper's tables
(`data/paper.yml`), in a named value of the chapter's code (`d_model=64`, `LENGTH = 16`), or in a recorded run that the
chapter reads.

That does not tell 12 from 13 where both stand in the chapter, nor one claim from another. So `tests/quoted.yml` has a
hash of what each page quotes in its texts and captions: figures, claims, cells and tests. Who changes one compares it
with what it quotes, and then says so, `python -m tools.prose --read`.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path

import nbformat
import yaml
from nbformat import NotebookNode

from tools import ROOT
from tools.clean import code_cells
from tools.contents import workshops
from tools.outputs import is_exempt

RECORD = ROOT / "tests" / "quoted.yml"
QUOTED = re.compile(r"C-[\dV.]+-[a-z]|\w+#[\w-]+|\w+\.py::\w+|\{cite:?\w*\}`[^`]+`|\d(?:[\d.,]*\d)?")
NUMBER = re.compile(
    r"(?<![\w.,/^-])(?P<number>[-\u2212]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)"
    r"(?P<scale>%| ?(?:million|thousand|billion)\b)?(?![\w/]|[.,]\d)"
)
SCALES = {"%": "0.01", "thousand": "1e3", "million": "1e6", "billion": "1e9"}
NOT_PROSE = (  # in this order
    r"(?ms)^(`{3,}|:{3,}).*?code-cell.*?\1",
    r"(?m)^(?::{3,}|`{3,}).*$",  # what opens or closes a box
    r"(?m)^:\w[\w-]*:.*$",  # an option of a box
    r"(?s)\$\$.*?\$\$",
    r"\$[^$\n]*(?:\n[^$\n]+)*?\$",
    r"\{[a-z:-]+\}`[^`]*`",
    r"`[^`]*`",
    r"\]\([^)]*\)",
    r"https?://\S+",
    r"<[^>]+>",
)
NUMBERED = "chapters? sections? tables? figures? equations? exercises? rows? claims? layers? heads? parts? steps? arXiv"
REFERENCES = re.compile(
    rf"(?i)\b(?:(?:{'|'.join(NUMBERED.split())})\W{{1,2}}\(?[\dA-Z.]+\)?(?:(?:,| and| to| or)\s+\(?[\d.]+\)?)*"
    r"|(?:19|20)\d\d\b|\d+(?:st|nd|rd|th)\b|WMT \d+|newstest\d+|b?float\d+)"
)


def prose_of(cell: NotebookNode) -> str:
    """What a text cell says, without formulas, code, addresses and references by number."""
    text = cell.source
    for pattern in NOT_PROSE:
        text = re.sub(pattern, " ", text)
    return REFERENCES.sub(" ", text)


def figures(text: str) -> list[str]:
    """The figures of a text as they are quoted, such as `1,024`, `0.24` or `4.5 million`."""
    return [match[0] for match in NUMBER.finditer(text)]


def value_of(figure: str) -> tuple[Decimal, Decimal]:
    """A figure's value and the unit of its last digit: 0.24 is 24 hundredths, 4.5 million 45 hundred thousands."""
    match = NUMBER.fullmatch(figure)
    assert match, figure
    number = Decimal(match["number"].lstrip("+").replace(",", "").replace("\u2212", "-"))
    scale = Decimal(SCALES[match["scale"].strip()]) if match["scale"] else Decimal(1)
    return number * scale, Decimal(1).scaleb(number.as_tuple().exponent) * scale


def vouches(source: str, figure: str) -> bool:
    """Whether the number `source`, rounded to the figure's last digit, is the figure; a sign may be left to the words.

    A whole number below 100 is not rounded to: 64 has to be 64. Nor is a share to per cent: 24% is 24, 0.24 or 23.8%.
    """
    (value, unit), (number, precision) = value_of(figure), value_of(source)
    if (abs(value) == abs(number) and precision <= unit) or figure == f"{source}%":  # a column may be in per cent
        return True
    counted = abs(value) < 100 and not re.search(r"[.%]", figure)
    if counted or precision >= unit or figure.endswith("%") != source.endswith("%"):
        return False
    modes = (ROUND_HALF_UP, ROUND_HALF_EVEN)
    return any(abs(value) == abs((number / unit).quantize(Decimal(1), mode) * unit) for mode in modes)


def printed(cell: NotebookNode) -> Iterator[str]:
    """The texts of a cell's outputs; none where they are not compared."""
    for output in [] if is_exempt(cell) else cell.outputs:
        data = output.get("data", {})
        yield output.get("text") or data.get("text/markdown") or data.get("text/plain", "")


def named_values(source: str) -> Iterator[int | float]:
    """The numbers that code gives a name: in assignments, keywords, defaults and dictionaries with such keys."""
    for node in ast.walk(ast.parse(source)):
        values: list[ast.AST | None] = []
        match node:
            case ast.Assign(value=value) | ast.AnnAssign(value=value) | ast.keyword(value=value):
                values = [value]
            case ast.arguments(defaults=defaults, kw_defaults=kw_defaults):
                values = [*defaults, *kw_defaults]
        for value in filter(None, values):
            parts = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
            for part in parts:
                if isinstance(part, ast.Constant) and type(part.value) in (int, float):
                    yield part.value


def written(number: int | float) -> str:
    """A number as it would be printed, all of its digits."""
    return format(Decimal(repr(number)), "f")


def leaves(value: object) -> Iterator[int | float]:
    """The numbers of a JSON or YAML document."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part)
    elif type(value) in (int, float):
        yield value


@cache
def paper_numbers(root: Path) -> frozenset[str]:
    text = (root / "data" / "paper.yml").read_text(encoding="utf-8")
    return frozenset(written(number) for number in leaves(yaml.safe_load(text)))


@cache
def recorded_numbers(folder: Path) -> frozenset[str]:
    """What a recorded run says of itself, without its curves."""
    files = [*folder.glob("run.json"), *folder.glob("evaluation-*.json")]
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    return frozenset(written(number) for number in leaves(documents))


def sources_of(notebook: NotebookNode, root: Path) -> set[str]:
    """Every number that can vouch for a figure of this chapter."""
    found, code = set(paper_numbers(root)), "\n\n".join(cell.source for cell in code_cells(notebook))
    for cell in code_cells(notebook):
        for text in printed(cell):
            found |= set(figures(text))
        found |= {written(value) for value in named_values(cell.source)}
    for folder in (root / "data" / "runs").iterdir():
        if f"runs/{folder.name}" in code or (re.search(r"\bRUNS\b|data/runs", code) and f'"{folder.name}"' in code):
            found |= recorded_numbers(folder)
    return found


def unfounded(notebook: NotebookNode, root: Path = ROOT) -> list[str]:
    """The figures that nothing vouches for, each with its cell."""
    sources = sources_of(notebook, root)
    return [
        f"#{cell.id}: {figure}"
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for figure in figures(prose_of(cell))
        if not any(vouches(source, figure) for source in sources)
    ]


def texts_of(path: Path) -> str:
    """The texts of a page: all of a file, of a notebook its text cells and what describes its pictures."""
    if path.suffix != ".ipynb":
        return path.read_text(encoding="utf-8")
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(
        cell.source if cell.cell_type == "markdown" else cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
        for cell in cells
    )


def quoted(root: Path = ROOT) -> dict[str, str]:
    """For each page, and each file that pages are made from, a hash of what it quotes."""
    paths = [path for path in sorted((root / "book").iterdir()) if path.suffix in (".ipynb", ".md", ".yml")]
    quotes = {path.name: "\0".join(QUOTED.findall(texts_of(path))) for path in paths}
    return {name: hashlib.sha256(text.encode()).hexdigest()[:12] for name, text in quotes.items() if text}


def main_line(root: Path = ROOT) -> dict[str, NotebookNode]:
    """The chapters of the main line by name."""
    names = sorted(path.stem for path in (root / "book").glob("[0-9]*.ipynb"))
    apart = workshops(names, root)
    return {name: nbformat.read(root / "book" / f"{name}.ipynb", as_version=4) for name in names if name not in apart}


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.prose", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("chapters", nargs="*", help="their numbers (default: the main line)")
    parser.add_argument("--read", action="store_true", help="what pages quote was compared: keep its hashes")
    options = parser.parse_args(arguments)
    if options.read:
        RECORD.write_text(yaml.safe_dump(quoted(root)), encoding="utf-8")
        return 0
    found = {
        name: unfounded(notebook, root)
        for name, notebook in main_line(root).items()
        if not options.chapters or name.split("_")[0] in options.chapters
    }
    print("\n".join(f"{name}{said}" for name, lines in found.items() for said in lines) or "all are vouched for")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
