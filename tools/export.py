"""The package, written from the chapters: `python -m tools.export` writes annotated/, `--check` only compares.

A code cell whose first line is `#| export` goes to the module named in the notebook's metadata, `#| export masks` to
annotated/masks.py. The cell `#| export __init__` holds `__version__`, PUBLIC, the names of the package's top level by
module, and MOVED, names that work there as well and are not listed. The metadata may name `data`, folders below data/
that are copied into the package, and `copied`, modules that people copy as a file: without `__all__` and links back.
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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import nbformat

from tools import ROOT
from tools.clean import code_cells
from tools.contents import workshops

HEADER = "# Written by `make export` from {}: do not edit here, edit the chapter."
DIRECTIVE = re.compile(r"#\| export(?: ([A-Za-z_]\w*))?")
WHOLE = (0, 39)  # chapters that show the whole: what they do not export may import everything
RUFF = Path(sysconfig.get_path("scripts")) / "ruff"
LAZY = '''
def __getattr__(name: str) -> Any:
    """Import a module or a public name when it is first used; a moved name still comes from its module."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    value = getattr(import_module(home if "." in home else f"{__name__}.{home}"), name)
    if name in __all__:
        globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})
'''


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
    data: list[str]
    copied: list[str]

    @property
    def blocks(self) -> list[Block]:
        """The exported cells."""
        return [cell for cell in self.cells if cell.module]


@dataclass
class Front:
    """What the `#| export __init__` cell lists: names of the top level by module, and the version."""

    public: dict[str, list[str]]
    moved: dict[str, list[str]]
    version: str

    @property
    def listed(self) -> list[tuple[str, str]]:
        """Each name and its module."""
        return [(name, home) for names in (self.public, self.moved) for home in names for name in names[home]]


def is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


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
        case = "case" in cell.metadata.get("tags", [])
        if case and match:
            raise ExportError(f"{place}: a cell tagged `case` imports what it needs and is not exported: take one away")
        cells.append(Block(path, cell.id, module, source, tree, case))
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    title = re.search(r"^# (.+)$", prose, re.MULTILINE)
    docstring = re.sub(r"[\\\"`$]", "", title[1]).strip() if title else path.stem
    docstring += f": chapter {number(path)} of the book"
    if section := about.get("section"):
        kind = "" if not section[0].isdigit() else "sections " if "," in section else "section "
        docstring += f", {kind}{section} of the paper"
    data, copied = (named(path, about, key) for key in ("data", "copied"))
    chapter = Chapter(path, cells, f'"""{docstring}."""', data, copied)
    if missing := sorted(set(copied) - {block.module for block in chapter.blocks}):
        said = f'"copied" in its metadata names {", ".join(missing)}, which no cell of it exports'
        raise ExportError(f"book/{path.name}: {said}")
    return chapter


def named(path: Path, about: dict[str, Any], key: str) -> list[str]:
    """The names that a chapter's metadata lists under a key. Raises ExportError where it is no list."""
    names = about.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ExportError(f'book/{path.name}: "{key}" in its metadata is no list of names: write "{key}": ["..."]')
    return names


def number(path: Path) -> int:
    """The chapter's number, at the start of its file name."""
    return int(re.match(r"\d+", path.name)[0])


def with_back_link(block: Block, listed: set[str]) -> list[str]:
    """The cell's lines without its imports, docstrings of the listed names ending in the place of their definition."""
    lines = block.source.split("\n")
    for node in reversed(block.tree.body):
        if is_import(node):
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
    rest = [node for node in block.tree.body if not is_import(node)]
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
    """Modules of the package that code imports, or whose public names it takes from `annotated` (name -> module)."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".")[1] for alias in node.names if alias.name.startswith("annotated.")]
        elif isinstance(node, ast.ImportFrom) and node.module == "annotated":
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("annotated."):
            names = [node.module.split(".")[1]]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "annotated":
            names = [node.attr]
        yield from ((public or {}).get(name, name) for name in names)


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


def names_in_use(cells: Sequence[Block], front: Front | None) -> dict[str, set[str]]:
    """By module, the names that the top level lists or that another module or chapter imports.

    A chapter that tries its own finished module in a cell that it does not export is no use of it.
    """
    found: dict[str, set[str]] = {}
    own = {(cell.chapter, cell.module, name) for cell in cells if cell.module for name in cell.names}
    for home, names in front.public.items() if front else []:
        found.setdefault(home, set()).update(names)
    for cell in cells:
        for node in ast.walk(cell.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("annotated."):
                home = node.module.split(".")[1]
                names = {
                    alias.name for alias in node.names if cell.module or (cell.chapter, home, alias.name) not in own
                }
                found.setdefault(home, set()).update(names)
    for home, names in front.moved.items() if front else []:
        if found.get(home):  # a name that has only moved makes no list that leaves out all others
            found[home].update(names)
    return found


def module_text(module: str, blocks: list[Block], docstring: str, used: set[str] | None) -> str:
    """The module's text, before formatting: header, docstring, imports, `__all__`, one block a cell.

    `used` are the names that others use; None for a file that people copy, which has no list and no links.
    """
    check_module(module, blocks)
    chapters = ", ".join(dict.fromkeys(f"book/{block.chapter.name}" for block in blocks))
    imports = dict.fromkeys(ast.unparse(node) for block in blocks for node in block.tree.body if is_import(node))
    names = {name for block in blocks for name in block.names if not name.startswith("_")}
    parts = [HEADER.format(chapters), docstring, "", *imports, ""]
    listed = set() if used is None else names & used or names  # what nothing uses is there for its reader
    parts += [f"__all__ = {sorted(listed)!r}"] if listed else []
    for block in blocks:
        lines = with_back_link(block, listed)
        parts += ["", "", f"# {block.place}", "\n".join(lines).strip("\n")] if lines else []
    return "\n".join(parts) + "\n"


def read_front(block: Block) -> Front:
    """PUBLIC, MOVED and `__version__` of the `#| export __init__` cell."""
    try:
        assigned = [node for node in block.tree.body if isinstance(node, ast.Assign)]
        values = {node.targets[0].id: ast.literal_eval(node.value) for node in assigned}
        lists = (values["PUBLIC"], values.get("MOVED", {}))
        return Front(*({home: sorted(names) for home, names in one.items()} for one in lists), values["__version__"])
    except (ValueError, KeyError, AttributeError) as error:
        said = "expected PUBLIC = {module: [names]}, MOVED like it, or none, and __version__, literally"
        raise ExportError(f"{block.place}: {said}") from error


def init_text(block: Block | None, front: Front | None, modules: dict[str, list[Block]]) -> str:
    """`annotated/__init__.py`: modules and public names that are loaded when they are first used."""
    docstring = '"""The Transformer of "Attention Is All You Need", written chapter by chapter in the book."""'
    if block is None:
        return f'{HEADER.format("the chapters")}\n{docstring}\n\n__version__ = "0.1.0"\n'
    homes: dict[str, str] = {}
    for name, home in front.listed:
        outside = "." in home and home not in front.public
        if not outside and name not in {held for source in modules.get(home, []) for held in source.names}:
            raise ExportError(f"{block.place}: annotated.{home} has no {name}")
        if name in homes or name in modules:
            raise ExportError(f"{block.place}: {name} is listed twice, or is a module's name")
        homes[name] = home
    public = sorted(name for names in front.public.values() for name in names)
    typed = [f"    from annotated.{home} import {', '.join(names)}" for home, names in front.public.items() if names]
    for home, names in front.moved.items():  # a type checker takes `name as name` as meant for others
        source = home if "." in home else f"annotated.{home}"
        typed += [f"    from {source} import {name} as {name}" for name in names]
    parts = sorted(name for name in modules if not name.startswith("_"))
    typed += [f"    from annotated import {name} as {name}" for name in parts]
    lines = [HEADER.format(f"book/{block.chapter.name}"), docstring, "", "from importlib import import_module"]
    lines += ["from typing import TYPE_CHECKING, Any", "", *(["if TYPE_CHECKING:", *typed] if typed else []), ""]
    lines += [f"__version__ = {front.version!r}", f"__all__ = {public!r}", f"_HOME = {dict(sorted(homes.items()))!r}"]
    lines += [f"_MODULES = {parts!r}"]
    return "\n".join(lines) + "\n\n" + LAZY


def ruff(arguments: list[str], text: str, root: Path, name: str) -> str:
    """What ruff makes of the text, under the project's configuration."""
    command = [str(RUFF), *arguments, "--quiet", "--stdin-filename", str(root / "annotated" / name), "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", cwd=root)
    if done.returncode:
        raise ExportError(f"annotated/{name}: ruff {arguments[0]}: {done.stderr or done.stdout}")
    return done.stdout


def data_files(chapter: Chapter, root: Path) -> dict[str, bytes]:
    """The files of the folders that a chapter gives to the package, as they are. Raises ExportError."""
    files = {}
    for name in chapter.data:
        folder = root / "data" / name
        if not re.fullmatch(r"[\w-]+(/[\w-]+)*", name) or not folder.is_dir():
            raise ExportError(f"book/{chapter.path.name}: no folder data/{name}: make it, or mend its metadata")
        for path in sorted(folder.rglob("*")):
            place = path.relative_to(root)
            if path.is_file() and not any(part.startswith(".") for part in place.parts):
                files[place.as_posix()] = path.read_bytes()
    return files


def package_files(root: Path) -> dict[str, bytes]:
    """Every file of annotated/ and what it holds. Raises ExportError."""
    paths = sorted((root / "book").glob("[0-9]*.ipynb"), key=lambda path: (number(path), path.name))
    chapters = [read_chapter(path) for path in paths]
    modules: dict[str, list[Block]] = {}
    docstrings: dict[str, str] = {}
    for chapter in chapters:
        for block in chapter.blocks:
            modules.setdefault(block.module, []).append(block)
            docstrings.setdefault(block.module, chapter.docstring)
    init = modules.pop("__init__", [])
    if len(init) > 1:
        raise ExportError(f"{init[1].place}: a second '#| export __init__' cell")
    front = read_front(init[0]) if init else None
    public = {name: home for name, home in front.listed if "." not in home} if front else {}
    check_orders(chapters, public, root)
    blocks = [block for chapter in chapters for block in chapter.blocks]
    check_circles(blocks, public)
    used = names_in_use([cell for chapter in chapters for cell in chapter.cells], front)
    files = {"py.typed": b""}
    for chapter in chapters:
        files |= data_files(chapter, root)
    copied = {module for chapter in chapters for module in chapter.copied}
    texts = {
        name: module_text(name, held, docstrings[name], None if name in copied else used.get(name, set()))
        for name, held in modules.items()
    }
    for module, text in {"__init__": init_text(init[0] if init else None, front, modules), **texts}.items():
        kept = ["--ignore", "F401"] if module == "__init__" else []
        text = ruff(["check", "--select", "F401,I", *kept, "--fix-only"], text, root, f"{module}.py")
        text = ruff(["format"], text, root, f"{module}.py")
        ast.parse(text)
        files[f"{module}.py"] = text.encode()
    return files


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or compare the package; 0 when it is, or now is, what the chapters say."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.export", description="The package, written from the chapters."
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
    found = [*folder.glob("*.py"), *folder.glob("py.typed"), *(folder / "data").rglob("*")]
    here = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found if path.is_file()}
    differing = sorted(name for name in {*files, *here} if files.get(name) != here.get(name))
    if options.check:
        for name in differing:
            print(f"annotated/{name} is not what the chapters say: run `make export`", file=sys.stderr)
        return 1 if differing else 0
    for name in differing:
        if name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.new").write_bytes(files[name])
            os.replace(folder / f"{name}.new", folder / name)
        else:
            (folder / name).unlink()
        print(f"annotated/{name} {'written' if name in files else 'removed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
