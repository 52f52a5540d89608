"""What a change reaches: `python -m tools.affected [--since REV] [FILE...]` names modules, chapters and tests.

A file is reached when it imports, names or reads one that changed, directly or through others. Without files the change
is what differs from REV, uncommitted and untracked files included: by default the merge base with origin/main, or the
last commit where there is none. A chapter may be named by its number. Of a chapter whose prose alone changed nothing
has to run, and only a change of its exported cells reaches a module.
"""

from __future__ import annotations

import argparse
import ast
import heapq
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.clean import ROOT
from tools.execute import ChapterError, find
from tools.export import DIRECTIVE, imported_modules
from tools.outputs import code_cells, code_of

STEP, FOLDER = 1, 2  # how far a file is from one that it uses itself, or owns, and from any of a folder that it reads
FOLDERS = ("annotated", "tools", "benchmarks", "tests", "book", "book/_ext")
SOURCES = (*(f"{folder}/*.py" for folder in FOLDERS), "book/*.ipynb")


@dataclass
class Change:
    """Changed files, and those of them that are chapters with changed code or outputs."""

    files: set[str] = field(default_factory=set)
    chapters: set[str] = field(default_factory=set)


class Project:
    """The files of the project, named by their paths below its root, and what each of them uses."""

    def __init__(self, root: Path = ROOT):
        self.root = root
        self.files = [str(path.relative_to(root)) for pattern in SOURCES for path in sorted(root.glob(pattern))]

    @cached_property
    def public(self) -> dict[str, str]:
        """The package's public names and their modules."""
        init = self.root / "annotated" / "__init__.py"
        body = ast.parse(init.read_text(encoding="utf-8")).body if init.is_file() else []
        homes = [node for node in body if isinstance(node, ast.Assign) and node.targets[0].id == "_HOME"]
        return ast.literal_eval(homes[0].value) if homes else {}

    @cached_property
    def data(self) -> dict[str, set[str]]:
        """The folders that go into the package, by the chapters that name them and the modules these write."""
        found: dict[str, set[str]] = {}
        for file in self.files:
            if file.endswith(".ipynb"):
                notebook = nbformat.v4.reads((self.root / file).read_text(encoding="utf-8"))
                folders = {f"data/{name}" for name in notebook.metadata.get("annotated", {}).get("data", [])}
                for name in [file, *(f"annotated/{module}.py" for module in exported(notebook))] if folders else []:
                    found.setdefault(name, set()).update(folders)
        return found

    @cached_property
    def uses(self) -> dict[str, set[str]]:
        """What each file imports, names or reads: files, and folders that it reads as a whole."""
        return {file: self.used_by(file) - {file} | self.data.get(file, set()) for file in self.files}

    def used_by(self, file: str) -> set[str]:
        path, found = self.root / file, set()
        if path.suffix == ".ipynb":
            sources = [cell.source for cell in code_cells(nbformat.v4.reads(path.read_text(encoding="utf-8")))]
        else:
            sources = [path.read_text(encoding="utf-8")]
        for tree in map(ast.parse, sources):
            found |= {f"annotated/{name}.py" for name in imported_modules(tree, self.public)}
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module:
                    place = node.module.replace(".", "/")
                    found |= {f"{folder}{place}.py" for folder in ("", "book/", "book/_ext/")}
                    found |= {f"{place}/{one.name}.py" for one in node.names}
            if not file.startswith("annotated/"):  # the package does not read the repository
                found |= {place for text, joined in paths_in(tree) for place in self.named(text, joined)}
        if file.startswith("tests/"):
            found |= {"conftest.py", "tests/conftest.py"}
        elif path.suffix == ".py":  # a tool that walks through a folder does not depend on what lies there
            found = {name for name in found if not (self.root / name).is_dir()}
        return {name for name in found if (self.root / name).exists()}

    def named(self, text: str, joined: bool) -> Iterator[str]:
        """The files that a text may name: a path, or a page of the book; and a folder, where paths are joined."""
        if not re.fullmatch(r"[\w./-]{1,200}(#[\w-]+)?", text) or text.startswith("/"):
            return
        name = re.sub(r"^(\.\./)+", "", text.partition("#")[0]).rstrip("/")
        yield from (one for one in (name, f"book/{name}", f"book/{name}.ipynb") if (self.root / one).is_file())
        if (joined or text.startswith("../")) and (self.root / name).is_dir():
            yield name

    def reached(self, changed: Iterable[str]) -> dict[str, int]:
        """Every file that a change reaches, and how far it is from there; 0 is what changed itself."""
        distances: dict[str, int] = {}
        waiting = [(0, file) for file in changed]
        heapq.heapify(waiting)
        while waiting:
            distance, last = heapq.heappop(waiting)
            if last in distances:
                continue
            distances[last] = distance
            for file, used in self.uses.items():
                if last in used:
                    heapq.heappush(waiting, (distance + STEP, file))
                elif folders := {name for name in used if last.startswith(f"{name}/")}:
                    own = folders & self.data.get(file, set())
                    heapq.heappush(waiting, (distance + (STEP if own else FOLDER), file))
        return distances


def paths_in(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """The texts of code, and whether each is put together by slashes: `ROOT / "book" / "api.md"` is one text."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            parts, chain = [], node
            while isinstance(chain, ast.BinOp) and isinstance(chain.op, ast.Div):
                parts.insert(0, chain.right)
                chain = chain.left
            waiting += [chain, *(part for part in parts if not isinstance(part, ast.Constant))]
            known = [part.value if isinstance(part, ast.Constant) else None for part in parts]
            known = known[: known.index(None)] if None in known else known
            if known and all(isinstance(part, str) for part in known):
                yield "/".join(known), True
        else:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value, False
            waiting += ast.iter_child_nodes(node)


def git(*arguments: str, root: Path = ROOT) -> str | None:
    """What git prints; None where it fails."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def changed_since(since: str | None, root: Path = ROOT) -> Change:
    """What differs from a revision, uncommitted and untracked files included. Raises ValueError for an unknown one."""
    base = since or (git("merge-base", "HEAD", "origin/main", root=root) or "HEAD").strip()
    listed = git("diff", "--name-only", "--no-renames", base, "--", root=root)
    if listed is None:
        raise ValueError(f"git knows no revision {base!r}")
    names = [*listed.splitlines(), *git("ls-files", "--others", "--exclude-standard", root=root).splitlines()]
    change = Change(set(names))
    for name in names:
        if Path(name).parent == Path("book") and name.endswith(".ipynb") and (root / name).is_file():
            text = git("show", f"{base}:{name}", root=root)
            before = nbformat.reads(text, as_version=4) if text else None
            ran, modules = chapter_changes(before, nbformat.read(root / name, as_version=4))
            change.chapters |= {name} if ran else set()
            change.files |= {f"annotated/{module}.py" for module in modules}
    return change


def changed_by_name(names: Iterable[str], root: Path = ROOT) -> Change:
    """Files that somebody names, as if all of each had changed. Raises ValueError for one that does not exist."""
    change = Change()
    for name in names:
        if (root / name).is_file() and not name.endswith(".ipynb"):
            change.files.add(str((root / name).resolve().relative_to(root.resolve())))
            continue
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


def chapter_number(file: str) -> str:
    return Path(file).stem.split("_")[0]


def report(project: Project, change: Change) -> Iterator[str]:
    """Lines on what a change reaches, for people."""
    distances = project.reached(change.files)

    def listed(folder: str, ending: str, names: Iterable[str] = distances) -> list[str]:
        return sorted(file for file in names if file.startswith(folder) and file.endswith(ending))

    def line(title: str, words: list[str]) -> str:
        return f"{title:<11}{', '.join(words) or 'none'}"

    prose = [file for file in listed("book/", ".ipynb", change.files) if file not in change.chapters]
    yield line("changed", sorted(change.files))
    yield line("modules", [Path(file).stem for file in listed("annotated/", ".py")])
    yield line("to run", [chapter_number(file) for file in sorted(change.chapters)])
    others = [file for file in listed("book/", ".ipynb") if file not in change.files]
    yield line("reached", [chapter_number(file) for file in others])
    if prose:
        yield line("prose only", [chapter_number(file) for file in prose])
    near, far = [], []
    for file in listed("tests/test_", ".py"):
        (near if distances[file] <= STEP else far).append(file.removeprefix("tests/"))
    yield line("tests", near)
    yield line("and beyond", far)


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.affected", description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="as if these had changed: 33, tools/export.py")
    parser.add_argument(
        "--since", metavar="REV", help="what differs from here (default: the merge base with origin/main)"
    )
    options = parser.parse_args(arguments)
    try:
        change = changed_by_name(options.files, root) if options.files else changed_since(options.since, root)
    except ValueError as error:
        print(f"affected: {error}", file=sys.stderr)
        return 2
    print("\n".join(report(Project(root), change)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
