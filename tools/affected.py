"""What changed: files, chapters whose code or outputs did, and the tests whose subject that is.

A test file's subject is what it is named after: a file (tests/test_export.py: tools/export.py, and any other export) or
a folder (tests/test_web_model.py: book/web/model/) or its data/, and what of tools, benchmarks, tests or book/_ext it
imports. Nothing else is guessed: all other quick tests run always.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools import ROOT
from tools.clean import code_cells
from tools.execute import ChapterError, find
from tools.export import DIRECTIVE
from tools.outputs import code_of


@dataclass
class Change:
    """Changed files, those of modules whose exported code changed among them, chapters to run again, since when."""

    files: set[str] = field(default_factory=set)
    chapters: set[str] = field(default_factory=set)
    since: str = ""

    @property
    def is_prose(self) -> bool:
        """Whether only texts changed, pages and references of the book."""
        texts = (".ipynb", ".md", ".bib")
        return not self.chapters and all(file.endswith(texts) and file.startswith("book/") for file in self.files)


def git(*arguments: str, root: Path = ROOT) -> str | None:
    """What git prints; None where it fails."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def changed_since(since: str | None, root: Path = ROOT) -> Change:
    """What differs from a revision, uncommitted and untracked files included. Raises ValueError for an unknown one."""
    base = since or (git("merge-base", "HEAD", "origin/main", root=root) or "HEAD").strip()
    listed = git("diff", "--name-only", "--no-renames", "-z", base, "--", root=root)
    if listed is None:
        raise ValueError(f"git knows no revision {base!r}")
    names = (listed + git("ls-files", "--others", "--exclude-standard", "-z", root=root)).split("\0")[:-1]
    change = Change(set(names), since=(git("log", "-1", "--format=%h of %cs", base, root=root) or base).strip())
    for name in names:
        if Path(name).parent == Path("book") and name.endswith(".ipynb") and (root / name).is_file():
            text = git("show", f"{base}:{name}", root=root)
            before = nbformat.reads(text, as_version=4) if text else None
            ran, modules = chapter_changes(before, nbformat.read(root / name, as_version=4))
            change.chapters |= {name} if ran else set()
            change.files |= {f"annotated/{module}.py" for module in modules}
    return change


def changed_by_name(names: Iterable[str], root: Path = ROOT) -> Change:
    """Chapters that somebody names, as if all of each had changed. Raises ValueError for one that does not exist."""
    change = Change()
    for name in names:
        try:
            path = find(name, root / "book")
        except ChapterError as error:
            raise ValueError(str(error)) from None
        place = f"book/{path.name}"
        _, modules = chapter_changes(None, nbformat.read(path, as_version=4))
        change.files |= {place, *(f"annotated/{module}.py" for module in modules)}
        change.chapters.add(place)
    return change


def chapter_changes(before: NotebookNode | None, after: NotebookNode) -> tuple[bool, set[str]]:
    """Whether code or outputs of a chapter changed, and the modules whose exported code did."""

    def shown(notebook: NotebookNode) -> list:
        return [(cell.id, cell.source, cell.metadata, cell.outputs) for cell in code_cells(notebook)]

    old, new = exported(before) if before else {}, exported(after)
    ran = before is None or shown(before) != shown(after)
    return ran, {module for module in {*old, *new} if old.get(module) != new.get(module)}


def exported(notebook: NotebookNode) -> dict[str, str]:
    """The exported code of a chapter by module."""
    texts: dict[str, str] = {}
    for cell in code_cells(notebook):
        if match := DIRECTIVE.match(cell.source):
            module = match[1] or notebook.metadata.get("annotated", {}).get("module", "")
            texts[module] = texts.get(module, "") + "\n" + code_of(cell.source)
    return texts


def own_tests(change: Change, root: Path = ROOT) -> list[str]:
    """The test files whose subject changed."""
    stems = set()
    for path in map(Path, change.files):
        folders = [name for name in path.parent.parts if name != "data"]
        stems |= {path.stem, *("_".join(folders[first:]) for first in range(len(folders)))}
    known = []
    for path in (Path(file) for file in change.files if file.endswith(".py") and not file.startswith("annotated/")):
        folder, name = path.parts[0], path.stem
        known += [rf"from {folder} import .*\b{name}\b", rf"(?:from|import) (?:{folder}\.)?{name}\b"]
    imports = re.compile(rf"^(?:{'|'.join(known) or '(?!)'})", re.MULTILINE)
    tests = sorted((root / "tests").glob("test_*.py"))
    own = [
        path
        for path in tests
        if path.stem in stems or path.stem.removeprefix("test_") in stems or imports.search(path.read_text("utf-8"))
    ]
    return [str(path.relative_to(root)) for path in own]


def reading_the_book(root: Path = ROOT) -> list[str]:
    """The test files that name the book's folder, or whose tool does: they may read its texts."""
    found = []
    for path in sorted((root / "tests").glob("test_*.py")):
        sources = [path, root / "tools" / path.name.removeprefix("test_")]
        if any(re.search("[\"'/]book[\"'/]", one.read_text("utf-8")) for one in sources if one.is_file()):
            found.append(str(path.relative_to(root)))
    return found
