"""What the book expects of every chapter, all that is missing at once: `python -m tools.structure`.

Each line names the place and says what to write.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbformat import NotebookNode

from tools import ROOT
from tools.build import toc_entries
from tools.clean import code_cells
from tools.contents import in_order, workshops
from tools.drawings import PICTURES
from tools.execute import ChapterError
from tools.export import DIRECTIVE
from tools.outputs import EXEMPT, are_stale

NAME = re.compile(r"\d\d_[a-z][a-z0-9]*(_[a-z0-9]+)*")
EXERCISE = re.compile(r"\{exercise\}(?: .*)?\n:label: (\S+)\n")
ROLE = re.compile(r"\{(cell|claim|cite:[a-z]+|cite)\}`([^`]+)`")
LINK = re.compile(r"\]\(([\w./-]+\.(?:ipynb|md))(?:#[^)]*)?\)")
CLOCKS = "monotonic|perf_counter|process_time|product_speed|seconds_of"
OPEN_LINE = 88  # characters that an open cell shows without being moved sideways
CHOSEN = {EXEMPT, "nbval-skip", "skip-execution"}  # tags that need a reason


class Book:
    """The pages of a book, and what is wrong with them."""

    def __init__(self, root: Path = ROOT):
        self.root, self.book = root, root / "book"
        paths = sorted(self.book.glob("*.ipynb"))
        self.notebooks = {path.stem: nbformat.v4.reads(path.read_text(encoding="utf-8")) for path in paths}
        self.chapters = [name for name in self.notebooks if name[0].isdigit()]

    @cached_property
    def order(self) -> list[str]:
        return in_order(self.chapters, self.root)

    @cached_property
    def main_line(self) -> set[str]:
        return set(self.chapters) - workshops(self.chapters, self.root)

    @cached_property
    def cells(self) -> set[str]:
        return {f"{name}#{cell.id}" for name, notebook in self.notebooks.items() for cell in notebook.cells}

    @cached_property
    def claims(self) -> set[str]:
        ledger = self.book / "ledger.yml"
        return {claim["id"] for claim in yaml.safe_load(ledger.read_text(encoding="utf-8"))["claims"]}

    @cached_property
    def references(self) -> set[str]:
        return set(re.findall(r"(?m)^@\w+\{([^,\s]+)", (self.book / "references.bib").read_text(encoding="utf-8")))

    def problems(self) -> list[str]:
        """Everything that is missing, in the order of the pages."""
        found = list(self.of_the_table())
        for name, notebook in self.notebooks.items():
            found += [f"book/{name}.ipynb{said}" for said in self.of_a_notebook(name, notebook)]
            if name in self.chapters:
                found += [f"book/{name}.ipynb{said}" for said in self.of_a_chapter(name, notebook)]
        return found

    def of_the_table(self) -> Iterator[str]:
        """Pages that the table of contents does not know, or knows and does not find."""
        try:
            pages = toc_entries(self.root)
        except ChapterError as error:
            yield str(error)
            return
        for name in self.notebooks:
            if name not in pages:
                yield f"book/{name}.ipynb: in no part of _toc.yml: add `- file: {name}`, or a glob that finds it"
        for number in sorted({name[:2] for name in self.chapters}):
            same = [name for name in self.chapters if name.startswith(number)]
            if len(same) > 1:
                yield f"book/{same[1]}.ipynb: chapter {number} is there already ({same[0]}): take another number"

    def of_a_notebook(self, name: str, notebook: NotebookNode) -> Iterator[str]:
        """What every notebook needs, appendices too."""
        if are_stale(notebook):
            chapter = name.split("_")[0]
            yield f": its code changed since its outputs were stored: run `make execute CH={chapter}`"
        for cell in notebook.cells:
            tags, about = set(cell.metadata.get("tags", [])), cell.metadata.get("annotated", {})
            if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", cell.id):
                yield f"#{cell.id}: not an id of small letters, digits and hyphens: give the cell a name, as kebab-case"
            if tags & CHOSEN and not about.get("reason"):
                yield f'#{cell.id}: not compared, and no reason: add {{"annotated": {{"reason": "..."}}}}'
            for output in cell.get("outputs", []):
                if output.output_type == "error":
                    yield f"#{cell.id}: its stored output is an error: mend the cell"
                if output.get("name") == "stderr":
                    yield f"#{cell.id}: prints to stderr, a warning perhaps: mend the cell"
                if long := re.search(r"\d\.\d{7,}", output.get("text") or output.get("data", {}).get("text/plain", "")):
                    yield f"#{cell.id}: prints {long[0]}...: round it, four digits at most, or processors differ"
                if PICTURES & set(output.get("data", {})) and not alternative(cell):
                    yield f'#{cell.id}: a picture without words: add {{"mystnb": {{"image": {{"alt": "..."}}}}}}'
            if cell.cell_type == "markdown":
                yield from (f"#{cell.id}: {said}" for said in self.of_prose(cell.source))
            elif decided := decided_by_clocks(cell.source):
                yield f"#{cell.id}: a busy machine can break `{decided[0]}`: assert something that is counted"

    def of_prose(self, text: str) -> Iterator[str]:
        """References that lead nowhere."""
        for kind, target in ROLE.findall(text):
            if kind == "cell" and target not in self.cells:
                yield f"no cell {target}: name one as `32_attention#equivariance`"
            elif kind == "claim" and target not in self.claims:
                yield f"no claim {target} in book/ledger.yml"
            elif kind.startswith("cite"):
                missing = [key for key in re.split(r",\s*", target) if key not in self.references]
                yield from (f"cites {key}: add it to book/references.bib" for key in missing)
        yield from (f"links to {page}, which does not exist" for page in LINK.findall(text) if not self.has(page))

    def has(self, page: str) -> bool:
        return (self.book / page).is_file()

    def of_a_chapter(self, name: str, notebook: NotebookNode) -> Iterator[str]:
        """What a numbered chapter needs beside that."""
        about: dict[str, Any] = notebook.metadata.get("annotated", {})
        texts = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
        prose = "\n\n".join(cell.source for cell in texts)
        if not NAME.fullmatch(name):
            yield ": name it NN_words_like_these.ipynb, after the section of the paper, or by its place in the order"
        if not texts or notebook.cells[0] is not texts[0] or not texts[0].source.startswith("# "):
            yield ": its first cell is not a text that begins with `# Title`"
        if not about.get("shows"):
            yield ': no line for the table of chapters: write `%% notebook MODULE {"shows": "..."}` as its first line'
        if about.get("section", "")[:1].isdigit() and "{admonition} The paper, section" not in prose:
            yield ": no box that says what the paper says: begin one with `:::{admonition} The paper, section ...`"
        yield from self.of_its_end(name, texts)
        if name in self.main_line:
            yield from self.of_its_open_cells(notebook)
        yield from self.of_its_exercises(texts, {cell.id for cell in code_cells(notebook)})
        for module in sorted(exported(notebook)):
            if not (self.root / "tests" / f"test_{module}.py").is_file():
                yield f": exports {module}: add tests/test_{module}.py"

    def of_its_end(self, name: str, texts: list[NotebookNode]) -> Iterator[str]:
        place = self.order.index(name) + 1
        if place < len(self.order) and texts:
            following = self.order[place]
            last = texts[-1]
            if f"({following}.ipynb)" not in last.source:
                link = f"[chapter {following[:2]}]({following}.ipynb)"
                yield f"#{last.id}: the last line does not lead to the next chapter: link to {link}"

    def of_its_open_cells(self, notebook: NotebookNode) -> Iterator[str]:
        """Lines that leave the page on the right, but for those of a file that people copy."""
        copied = notebook.metadata.get("annotated", {}).get("copied")
        for cell in code_cells(notebook):
            folded = any(tag.startswith(("hide-", "remove-")) for tag in cell.metadata.get("tags", []))
            longest = max(map(len, cell.source.splitlines()), default=0)
            if longest > OPEN_LINE and not folded and not (copied and DIRECTIVE.match(cell.source)):
                yield f"#{cell.id}: an open line of {longest} characters: wrap it, {OPEN_LINE} at most are seen"

    def of_its_exercises(self, texts: list[NotebookNode], code: set[str]) -> Iterator[str]:
        labels = [label for cell in texts for label in EXERCISE.findall(cell.source)]
        if len(labels) < 3:
            yield f": {len(labels)} exercises: three are asked for, `:::{{exercise}}` with `:label: ex-...-1` and so on"
        for label in labels:
            number = label.rpartition("-")[2]
            if not {f"solution-{number}", f"solution-{number}-code"} & code:
                yield f": exercise {label} has no solution that runs: add a code cell `solution-{number}`"
        for cell in texts:
            if re.match(r"solution-\d", cell.id) and not cell.source.startswith(":::{dropdown} Solution"):
                yield f"#{cell.id}: not hidden: begin it with `:::{{dropdown}} Solution`"


def decided_by_clocks(source: str) -> list[str]:
    """The assertions of a cell that name a clock, or what a line assigns from one."""
    timed = re.findall(rf"(?m)^ *(\w+) = .*\b(?:{CLOCKS})\b", source)
    return re.findall(rf"(?m)^ *(assert .*\b(?:{'|'.join([CLOCKS, *timed])})\b.*)", source)


def alternative(cell: NotebookNode) -> str:
    """The words for those who do not see a cell's picture."""
    return cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")


def exported(notebook: NotebookNode) -> set[str]:
    """The modules that a chapter writes to."""
    matches = [DIRECTIVE.match(cell.source) for cell in code_cells(notebook)]
    own = notebook.metadata.get("annotated", {}).get("module")
    return {match[1] or own for match in matches if match} - {None}


def main(arguments: list[str], root: Path = ROOT) -> int:
    about = "What the book expects of every chapter: all that is missing at once, with what to write."
    argparse.ArgumentParser(prog="python -m tools.structure", description=about).parse_args(arguments)
    problems = Book(root).problems()
    print("\n".join(problems) or "nothing is missing")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
