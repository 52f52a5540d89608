"""The package, written from the chapters: `python -m tools.export` writes annotated/, `--check` only compares.

A code cell whose first line is `#| export` goes to the module named in the notebook's metadata, `#| export masks` to
annotated/masks.py. Files in annotated/ are written from chapters, but for `__init__.py` and `__main__.py`; the folders
in it are source, which this leaves alone. A text at the top of a module's first cell is the module's docstring; without
one it is the chapter's title. The metadata may name `copied`, modules that people copy as a file: without
`__all__` and links back.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import dis
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

import nbformat

from tools import ROOT
from tools.clean import code_cells
from tools.contents import workshops

HEADER = "# Written by `make export` from {}: do not edit here, edit the chapter."
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
    case: bool = False  # about the case that runs through the book, which takes what it needs

    @property
    def place(self) -> str:
        return f"book/{self.chapter.name}#{self.cell}"

    @property
    def names(self) -> list[str]:
        """Names that the cell defines at its top level, imports left out."""
        return [name for node in self.tree.body for name in defined_names(node)]


@dataclass
class Chapter:
    """A notebook as the exporter sees it: its code cells that parse, and what its metadata says."""

    path: Path
    cells: list[Block]
    docstring: str
    copied: list[str]

    @property
    def blocks(self) -> list[Block]:
        """The exported cells."""
        return [cell for cell in self.cells if cell.module]


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


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Every name that code binds somewhere, imports included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).split(".")[0]


def read_chapter(path: Path) -> Chapter:
    """A chapter's code and what its metadata says. Raises ExportError."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception as error:
        raise ExportError(f"book/{path.name}: not a notebook ({error})") from error
    about = notebook.metadata.get("annotated", {})
    copied = about.get("copied", [])
    if not isinstance(copied, list) or not all(isinstance(name, str) for name in copied):
        raise ExportError(f'book/{path.name}: "copied" in its metadata is no list of names: write "copied": ["..."]')
    cells = []
    for cell in code_cells(notebook):
        place = f"book/{path.name}#{cell.id}"
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
        if match and not module:
            raise ExportError(f"{place}: '#| export' without a module, and the notebook's metadata names none")
        if module in BY_HAND:
            raise ExportError(f"{place}: annotated/{module}.py is written by hand: export to another module")
        tags = cell.metadata.get("tags", [])
        if match and module not in copied and (folded := [tag for tag in tags if tag.startswith(("hide-", "remove-"))]):
            said = f"is exported and folded: what is read is what runs, so take away the tag {folded[0]}, or the export"
            raise ExportError(f"{place}: {said}")
        case = "case" in tags
        if case and match:
            raise ExportError(f"{place}: a cell tagged `case` imports what it needs and is not exported: take one away")
        cells.append(Block(path, cell.id, module, source, tree, case))
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    title = re.search(r"^# (.+)$", prose, re.MULTILINE)
    docstring = re.sub(r"[\\\"`$]", "", title[1]).strip() if title else path.stem
    if section := about.get("section"):
        kind = "" if not section[0].isdigit() else "sections " if "," in section else "section "
        docstring += f" ({kind}{section} of the paper)"
    chapter = Chapter(path, cells, f'"""{docstring}."""', copied)
    if missing := sorted(set(copied) - {block.module for block in chapter.blocks}):
        said = f'"copied" in its metadata names {", ".join(missing)}, which no cell of it exports'
        raise ExportError(f"book/{path.name}: {said}")
    return chapter


def number(path: Path) -> int:
    """The chapter's number, at the start of its file name."""
    return int(re.match(r"\d+", path.name)[0])


def with_back_link(block: Block, listed: set[str]) -> list[str]:
    """The cell's lines without its imports, docstrings of the listed names ending in the place of their definition."""
    lines = block.source.split("\n")
    for node in reversed(block.tree.body):
        if is_head(node):
            lines[node.lineno - 1 : node.end_lineno] = []
            continue
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node):
            raise ExportError(f"{block.place}: {node.name} is public and has no docstring")
        if node.name not in listed:
            continue
        docstring = node.body[0]
        last = lines[docstring.end_lineno - 1].encode()[: docstring.end_col_offset].decode()
        if not last.endswith('"""'):
            raise ExportError(f'{block.place}: the docstring of {node.name} is not in """triple quotes"""')
        after = lines[docstring.end_lineno - 1][len(last) :]
        indent, text = " " * docstring.col_offset, last[:-3].rstrip()
        link = f"{indent}Defined in chapter {number(block.chapter)}: `{block.cell}`."
        ending = [text] if text else []
        lines[docstring.end_lineno - 1 : docstring.end_lineno] = [*ending, "", link, f'{indent}"""{after}']
    rest = [node for node in block.tree.body if not is_head(node)]
    if len(ast.parse("\n".join(lines)).body) != len(rest):
        raise ExportError(f"{block.place}: an import shares its line with other code")
    return lines if rest else []


def used_names(code: CodeType) -> Iterator[str]:
    """Global names that compiled code reads, without those that the same scope binds."""
    read, bound = set(), set()
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_NAME" or (step.opname.startswith("LOAD_") and "GLOBAL" in step.opname):
            read.add(step.argval)
        elif step.opname == "STORE_NAME":
            bound.add(step.argval)
    yield from (name for name in read - bound if not name.startswith("__"))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from used_names(constant)


def check_module(module: str, blocks: list[Block]) -> None:
    """Raise ExportError for a public name defined twice, or a name that no exported cell of the module defines."""
    homes: dict[str, str] = {}
    known = {*dir(builtins), *(name for block in blocks for name in bound_names(block.tree))}
    for block in blocks:
        for name in block.names:
            if homes.setdefault(name, block.place) != block.place and not name.startswith("_"):
                raise ExportError(f"{block.place}: {name} is already in annotated/{module}.py, from {homes[name]}")
        unknown = sorted(set(used_names(compile(block.source, block.place, "exec"))) - known)
        if unknown:
            raise ExportError(f"{block.place}: no cell exported to {module} defines or imports {', '.join(unknown)}")


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


def check_level(block: Block) -> None:
    """Raise ExportError where an exported cell imports from a folder other than base."""
    for name in imported_modules(block.tree):
        if name.partition(".")[0] in LEVELS[2:]:
            said = f"imports annotated.{name}, and what is exported may import annotated.base and other chapters only"
            raise ExportError(f"{block.place}: {said}")


def check_order(cell: Block, homes: dict[str, int], public: dict[str, str]) -> None:
    """Raise ExportError where a cell imports a module of a later chapter, or a public name from one."""
    for name in imported_modules(cell.tree, public):
        if homes.get(name, 0) > number(cell.chapter):
            raise ExportError(f"{cell.place}: imports annotated.{name}, which chapter {homes[name]} writes later")


def check_orders(chapters: list[Chapter], public: dict[str, str], root: Path) -> None:
    """Check the cells of the main line; workshops import what they like, and all may import them."""
    shops = workshops((chapter.path.stem for chapter in chapters), root)
    line = [chapter for chapter in chapters if chapter.path.stem not in shops]
    homes: dict[str, int] = {}
    for chapter in line:
        for block in chapter.blocks:
            homes.setdefault(block.module, number(chapter.path))
    for chapter in line:
        for cell in chapter.cells:
            if cell.module or not (cell.case or number(chapter.path) in WHOLE):
                check_order(cell, homes, public)


class AtRunTime(ast.NodeTransformer):
    """Takes away what only type checkers read."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING") else node


def check_circles(blocks: Iterable[Block], public: dict[str, str]) -> None:
    """Raise ExportError for the import that lets modules import each other in a circle."""
    imports: dict[str, set[str]] = {}
    for block in blocks:
        for name in imported_modules(AtRunTime().visit(ast.parse(block.source)), public):
            if way := way_between(name, block.module, imports):
                circle = " -> ".join(f"annotated.{module}" for module in [block.module, *way])
                raise ExportError(f"{block.place}: closes a circle of imports, {circle}: do without one of them")
            imports.setdefault(block.module, set()).add(name)


def way_between(start: str, end: str, imports: dict[str, set[str]]) -> list[str]:
    """The modules on a shortest way along imports; none where there is no way."""
    ways, seen = [[start]], {start}
    for way in ways:
        if way[-1] == end:
            return way
        following = sorted(imports.get(way[-1], set()) - seen)
        seen.update(following)
        ways += [[*way, name] for name in following]  # the loop comes to these, too
    return []


def public_names(root: Path) -> dict[str, str]:
    """The names of the package's top level and their modules, as its `__init__.py` lists them."""
    file = root / "annotated" / "__init__.py"
    for node in ast.parse(file.read_text(encoding="utf-8")).body if file.is_file() else []:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOME":
            return ast.literal_eval(node.value)
    return {}


def module_text(module: str, blocks: list[Block], docstring: str, copied: bool) -> str:
    """The module's text, before formatting: header, docstring, imports, `__all__`, one block a cell.

    `copied` is a file that people copy, which has no list and no links.
    """
    check_module(module, blocks)
    chapters = ", ".join(dict.fromkeys(f"book/{block.chapter.name}" for block in blocks))
    head = (node for block in blocks for node in block.tree.body if is_head(node))
    imports = dict.fromkeys(ast.unparse(node) for node in head if not isinstance(node, ast.Expr))
    listed = {name for block in blocks for name in block.names if not (copied or name.startswith("_"))}
    parts = [HEADER.format(chapters), docstring, "", *imports, ""]
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
    paths = sorted((root / "book").glob("[0-9]*.ipynb"), key=lambda path: (number(path), path.name))
    chapters = [read_chapter(path) for path in paths]
    modules: dict[str, list[Block]] = {}
    docstrings: dict[str, str] = {}
    for chapter in chapters:
        for block in chapter.blocks:
            modules.setdefault(block.module, []).append(block)
            own = ast.get_docstring(block.tree)
            docstrings.setdefault(block.module, f'"""{own}"""' if own else chapter.docstring)
    public = public_names(root)
    for name, home in public.items():
        if home in modules and name not in {held for block in modules[home] for held in block.names}:
            raise ExportError(f"annotated/__init__.py: annotated.{home} has no {name}")
    for block in (block for chapter in chapters for block in chapter.blocks):
        check_level(block)
    check_orders(chapters, public, root)
    check_circles((block for chapter in chapters for block in chapter.blocks), public)
    copied = {module for chapter in chapters for module in chapter.copied}
    files = {}
    for module, held in modules.items():
        text = module_text(module, held, docstrings[module], module in copied)
        text = ruff(["check", "--select", "F401,I", "--fix-only"], text, root, f"{module}.py")
        files[f"{module}.py"] = ruff(["format"], text, root, f"{module}.py")
        ast.parse(files[f"{module}.py"])
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
    found = [path for path in folder.glob("*.py") if path.stem not in BY_HAND]
    here = {path.name: path.read_text(encoding="utf-8") for path in found}
    by_hand = [name for name in here if name not in files and not here[name].startswith(HEADER.partition("{")[0])]
    for name in by_hand:
        print(f"annotated/{name}: no chapter writes it: move it into a folder of annotated/", file=sys.stderr)
    differing = sorted(name for name in {*files, *here} - {*by_hand} if files.get(name) != here.get(name))
    if options.check:
        for name in differing:
            said = "is not what the chapters say: carry an edit of yours into the chapter, then run `make export`"
            print(f"annotated/{name} {said}", file=sys.stderr)
        return 1 if differing or by_hand else 0
    for name in differing:
        if name in files:
            (folder / f"{name}.new").write_text(files[name], encoding="utf-8")
            os.replace(folder / f"{name}.new", folder / name)
        else:
            (folder / name).unlink()
        print(f"annotated/{name} {'written' if name in files else 'removed'}")
    return 1 if by_hand else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
