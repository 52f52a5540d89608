"""The package, written from the chapters: `python -m tools.export` writes annotated/, `--check` only compares.

A code cell whose first line is `#| export` goes to the module named in the notebook's metadata, `#| export masks` to
annotated/masks.py. Files in annotated/ are written from chapters, but for `__init__.py` and `__main__.py`; the folders
in it are source, which this leaves alone. A text at the top of a module's first cell is the module's docstring; without
one it is the chapter's title. The metadata may name `copied`, modules that people copy as a file: without
`__all__` and links back. What ruff finds in a module (an unknown name, no docstring) `make lint` says of its cell.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat

from tools import ROOT
from tools.clean import code_cells
from tools.contents import workshops

HEADER = "# Written by `make export` from {}: edit the chapter, not this."
DIRECTIVE = re.compile(r"#\| export(?: ([A-Za-z_]\w*))?")
WHOLE = (0, 39)  # chapters that show the whole: what they do not export may import everything
RUFF = Path(sysconfig.get_path("scripts")) / "ruff"
BY_HAND = ("__init__", "__main__")
# the folders of the package, and "" for what the chapters write: each may import those before it
LEVELS = (
    "base", "", "machine", "text", "runs", "search", "formats", "drawing", "doctor", "workbook", "command",
)  # fmt: skip


class ExportError(Exception):
    """Something that a chapter must put right; the message names notebook and cell."""


@dataclass
class Block:
    """One code cell: its source without the directive, where it stands, and its module; "" where it is not exported."""

    chapter: Path
    cell: str
    module: str
    source: str
    tree: ast.Module
    case: bool  # about the case that runs through the book, which takes what it needs

    @property
    def place(self) -> str:
        return f"book/{self.chapter.name}#{self.cell}"

    @property
    def number(self) -> int:
        """The chapter's number, at the start of its file name."""
        return int(re.match(r"\d+", self.chapter.name)[0])


@dataclass
class Chapter:
    """A notebook as the exporter sees it: its code cells that parse, and what its metadata says."""

    name: str
    cells: list[Block]
    docstring: str
    copied: list[str]


def is_head(node: ast.stmt) -> bool:
    """Whether a statement goes to the top of a module: an import, or the text that says what the module is for."""
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return text or isinstance(node, ast.Import | ast.ImportFrom)


def defined_names(node: ast.stmt) -> Iterator[str]:
    """What one top-level statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))
    else:
        for child in [*getattr(node, "body", []), *getattr(node, "orelse", [])]:
            yield from defined_names(child)


def read_chapter(path: Path) -> Chapter:
    """A chapter's code and what its metadata says. Raises ExportError."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception as error:
        raise ExportError(f"book/{path.name}: not a notebook ({error})") from error
    about = notebook.metadata.get("annotated", {})
    copied = about.get("copied", [])
    cells = []
    for cell in code_cells(notebook):
        place, tags = f"book/{path.name}#{cell.id}", cell.metadata.get("tags", [])
        first, _, source = cell.source.partition("\n")
        match = DIRECTIVE.fullmatch(first.rstrip())
        if not match and re.search(r"^\s*#\s?\|", cell.source, re.MULTILINE):
            raise ExportError(f"{place}: unknown directive; write '#| export' or '#| export MODULE' as the first line")
        module = (match[1] or about.get("module")) if match else ""
        source = source if match else cell.source
        try:
            tree = ast.parse(source)
        except SyntaxError as error:
            if match:
                raise ExportError(f"{place}: line {(error.lineno or 0) + 1}: {error.msg}") from error
            continue
        if match and (not module or module in BY_HAND):
            raise ExportError(f"{place}: exports to no module of the chapters: name one, '#| export MODULE'")
        if match and module not in copied and (folded := [tag for tag in tags if tag.startswith(("hide-", "remove-"))]):
            said = f"is exported and folded: what is read is what runs, so take away the tag {folded[0]}, or the export"
            raise ExportError(f"{place}: {said}")
        cells.append(Block(path, cell.id, module, source, tree, "case" in tags))
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    title = re.search(r"^# (.+)$", prose, re.MULTILINE)
    docstring = re.sub(r"[\\\"`$]", "", title[1]).strip() if title else path.stem
    if section := about.get("section"):
        kind = "" if not section[0].isdigit() else "sections " if "," in section else "section "
        docstring += f" ({kind}{section} of the paper)"
    return Chapter(path.stem, cells, docstring, copied)


def with_back_link(block: Block, listed: set[str]) -> list[str]:
    """The cell's lines without its imports, docstrings of the listed names ending in the place of their definition."""
    lines = block.source.split("\n")
    for node in reversed(block.tree.body):
        if is_head(node):
            lines[node.lineno - 1 : node.end_lineno] = []
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in listed and ast.get_docstring(node):
            docstring = node.body[0]
            last = lines[docstring.end_lineno - 1].encode()[: docstring.end_col_offset].decode()
            if not last.endswith('"""'):
                raise ExportError(f'{block.place}: the docstring of {node.name} is not in """triple quotes"""')
            after = lines[docstring.end_lineno - 1][len(last) :]
            indent, text = " " * docstring.col_offset, last[:-3].rstrip()
            link = f"{indent}Defined in chapter {block.number}: `{block.cell}`."
            ending = [text] if text else []
            lines[docstring.end_lineno - 1 : docstring.end_lineno] = [*ending, "", link, f'{indent}"""{after}']
    rest = [node for node in block.tree.body if not is_head(node)]
    if len(ast.parse("\n".join(lines)).body) != len(rest):
        raise ExportError(f"{block.place}: an import shares its line with other code")
    return lines if rest else []


def imported_modules(tree: ast.Module, public: dict[str, str] | None = None) -> Iterator[str]:
    """Modules of the package that code may import, dotted, or whose public names it takes from `annotated`."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.partition(".")[2] for alias in node.names if alias.name.startswith("annotated.")]
        elif isinstance(node, ast.ImportFrom) and node.module == "annotated":
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("annotated."):
            home = node.module.partition(".")[2]
            names = [home, *(f"{home}.{alias.name}" for alias in node.names)]  # a name may be that of a module
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "annotated":
            names = [node.attr]
        yield from ((public or {}).get(name, name) for name in names)


def check_imports(chapters: list[Chapter], root: Path) -> None:
    """Raise ExportError where an exported cell imports from a folder other than base.

    Or where a cell of the main line imports what a later chapter writes; workshops import what they like.
    """
    shops = workshops((chapter.name for chapter in chapters), root)
    line = [cell for chapter in chapters if chapter.name not in shops for cell in chapter.cells]
    homes = {cell.module: cell.number for cell in reversed(line) if cell.module}
    public = public_names(root)
    for cell in (cell for chapter in chapters for cell in chapter.cells):
        bound = cell.chapter.stem not in shops and (cell.module or not (cell.case or cell.number in WHOLE))
        for name in imported_modules(cell.tree, public):
            if cell.module and name.partition(".")[0] in LEVELS[2:]:
                said = "and what is exported may import annotated.base and other chapters only"
                raise ExportError(f"{cell.place}: imports annotated.{name}, {said}")
            if bound and homes.get(name, 0) > cell.number:
                raise ExportError(f"{cell.place}: imports annotated.{name}, which chapter {homes[name]} writes later")


def public_names(root: Path) -> dict[str, str]:
    """The names of the package's top level and their modules, as its `__init__.py` lists them."""
    file = root / "annotated" / "__init__.py"
    for node in ast.parse(file.read_text(encoding="utf-8")).body if file.is_file() else []:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOME":
            return ast.literal_eval(node.value)
    return {}


def module_text(blocks: list[Block], docstring: str, copied: bool) -> str:
    """The module's text, before formatting: header, docstring, imports, `__all__`, one block a cell."""
    chapters = ", ".join(dict.fromkeys(f"book/{block.chapter.name}" for block in blocks))
    head = (node for block in blocks for node in block.tree.body if is_head(node))
    imports = dict.fromkeys(ast.unparse(node) for node in head if not isinstance(node, ast.Expr))
    names = {name for block in blocks for node in block.tree.body for name in defined_names(node)}
    listed = {name for name in names if not (copied or name.startswith("_"))}
    parts = [HEADER.format(chapters), f'"""{docstring}"""', "", *imports, ""]
    parts += [f"__all__ = {sorted(listed)!r}"] if listed else []
    for block in blocks:
        lines = with_back_link(block, listed)
        parts += ["", "", f"# {block.place}", "\n".join(lines).strip("\n")] if lines else []
    return "\n".join(parts) + "\n"


def ruff(arguments: list[str], text: str, root: Path, name: str) -> str:
    """What ruff makes of the text, under the project's configuration."""
    command = [str(RUFF), *arguments, "--quiet", "--stdin-filename", str(root / "annotated" / name), "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", cwd=root)
    if done.returncode:
        raise ExportError(f"annotated/{name}: ruff {arguments[0]}: {done.stderr or done.stdout}")
    return done.stdout


def package_files(root: Path) -> dict[str, str]:
    """Every file of annotated/ that chapters write, and its text. Raises ExportError."""
    chapters = [read_chapter(path) for path in sorted((root / "book").glob("[0-9]*.ipynb"))]
    check_imports(chapters, root)
    copied = {module for chapter in chapters for module in chapter.copied}
    modules: dict[str, list[Block]] = {}
    docstrings: dict[str, str] = {}
    for chapter in chapters:
        for block in filter(lambda cell: cell.module, chapter.cells):
            modules.setdefault(block.module, []).append(block)
            docstrings.setdefault(block.module, ast.get_docstring(block.tree) or f"{chapter.docstring}.")
    files = {}
    for module, blocks in modules.items():
        name, text = f"{module}.py", module_text(blocks, docstrings[module], module in copied)
        text = ruff(["check", "--select", "F401,I", "--fix-only"], text, root, name)
        files[name] = ruff(["format"], text, root, name)
    return files


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or compare what chapters write of the package; 0 when it is, or now is, what they say."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.export", description="The package's modules that the chapters write."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; name the files that differ")
    options = parser.parse_args(arguments)
    try:
        files = package_files(root)
    except ExportError as error:
        print(f"export: {error}", file=sys.stderr)
        return 1
    folder = root / "annotated"
    folder.mkdir(exist_ok=True)
    here = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.py") if path.stem not in BY_HAND}
    by_hand = [name for name in here if name not in files and not here[name].startswith(HEADER.partition("{")[0])]
    for name in by_hand:
        print(f"annotated/{name}: no chapter writes it: move it into a folder of annotated/", file=sys.stderr)
    differing = sorted(name for name in {*files, *here} - {*by_hand} if files.get(name) != here.get(name))
    for name in differing:
        if options.check:
            said = "is not what the chapters say: carry an edit of yours into the chapter, then run `make export`"
            print(f"annotated/{name} {said}", file=sys.stderr)
        elif name in files:
            (folder / f"{name}.new").write_text(files[name], encoding="utf-8")
            os.replace(folder / f"{name}.new", folder / name)
            print(f"annotated/{name} written")
        else:
            (folder / name).unlink()
            print(f"annotated/{name} removed")
    return 1 if by_hand or (options.check and differing) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
