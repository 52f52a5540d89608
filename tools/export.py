"""The package, written from the chapters: `python -m tools.export` writes annotated/, `--check` only compares.

A code cell whose first line is `#| export` goes to the module named in the notebook's metadata, `#| export masks` to
annotated/masks.py. The cell `#| export __init__` holds PUBLIC, the public names by module, and `__version__`.
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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

import nbformat

ROOT = Path(__file__).resolve().parents[1]
HEADER = "# Written by `make export` from {}: do not edit here, edit the chapter."
DIRECTIVE = re.compile(r"#\| export(?: ([A-Za-z_]\w*))?")
RUFF = Path(sysconfig.get_path("scripts")) / "ruff"
LAZY = '''
def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
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
    """One exported cell: its source without the directive, and where it stands."""

    chapter: Path
    cell: str
    module: str
    source: str
    tree: ast.Module

    @property
    def place(self) -> str:
        return f"book/{self.chapter.name}#{self.cell}"

    @property
    def names(self) -> list[str]:
        """Names that the cell defines at its top level, imports left out."""
        return [name for node in self.tree.body for name in defined_names(node)]


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


def read_blocks(path: Path) -> tuple[list[Block], list[tuple[str, ast.Module]], str]:
    """The exported cells of a chapter, all its code cells that parse, and its module docstring."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception as error:
        raise ExportError(f"book/{path.name}: not a notebook ({error})") from error
    default = notebook.metadata.get("annotated", {}).get("module")
    blocks, code = [], []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        place = f"book/{path.name}#{cell.id}"
        first, _, source = cell.source.partition("\n")
        match = DIRECTIVE.fullmatch(first.rstrip())
        if not match and re.search(r"^\s*#\s?\|", cell.source, re.MULTILINE):
            raise ExportError(f"{place}: unknown directive; write '#| export' or '#| export MODULE' as the first line")
        try:
            tree = ast.parse(source if match else cell.source)
        except SyntaxError as error:
            if match:
                raise ExportError(f"{place}: line {(error.lineno or 0) + 1}: {error.msg}") from error
            continue
        code.append((place, tree))
        if not match:
            continue
        module = match[1] or default
        if not module:
            raise ExportError(f"{place}: '#| export' without a module, and the notebook's metadata names none")
        blocks.append(Block(path, cell.id, module, source, tree))
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    title = re.search(r"^# (.+)$", prose, re.MULTILINE)
    docstring = re.sub(r"[\\\"`$]", "", title[1]).strip() if title else path.stem
    docstring += f": chapter {number(path)} of the book"
    if section := notebook.metadata.get("annotated", {}).get("section"):
        kind = "" if not section[0].isdigit() else "sections " if "," in section else "section "
        docstring += f", {kind}{section} of the paper"
    return blocks, code, f'"""{docstring}."""'


def number(path: Path) -> int:
    """The chapter's number, at the start of its file name."""
    return int(re.match(r"\d+", path.name)[0])


def with_back_link(block: Block) -> list[str]:
    """The cell's lines without its imports, public docstrings ending in the place of their definition."""
    lines = block.source.split("\n")
    for node in reversed(block.tree.body):
        if is_import(node):
            lines[node.lineno - 1 : node.end_lineno] = []
            continue
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node):
            raise ExportError(f"{block.place}: {node.name} is public and has no docstring")
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


def check_order(place: str, chapter: int, tree: ast.Module, homes: dict[str, int], public: dict[str, str]) -> None:
    """Raise ExportError where a cell imports a module of a later chapter, or a public name from one."""
    for name in imported_modules(tree, public):
        if homes.get(name, 0) > chapter:
            raise ExportError(f"{place}: imports annotated.{name}, which chapter {homes[name]} writes later")


def module_text(module: str, blocks: list[Block], docstring: str) -> str:
    """The module's text, before formatting: header, docstring, imports, `__all__`, one block a cell."""
    check_module(module, blocks)
    chapters = ", ".join(dict.fromkeys(f"book/{block.chapter.name}" for block in blocks))
    imports = dict.fromkeys(ast.unparse(node) for block in blocks for node in block.tree.body if is_import(node))
    public = sorted({name for block in blocks for name in block.names if not name.startswith("_")})
    parts = [HEADER.format(chapters), docstring, "", *imports, ""]
    parts += [f"__all__ = {public!r}"] if public else []
    for block in blocks:
        lines = with_back_link(block)
        parts += ["", "", f"# {block.place}", "\n".join(lines).strip("\n")] if lines else []
    return "\n".join(parts) + "\n"


def read_public(block: Block) -> tuple[dict[str, list[str]], str]:
    """PUBLIC and `__version__` of the `#| export __init__` cell."""
    try:
        assigned = [node for node in block.tree.body if isinstance(node, ast.Assign)]
        values = {node.targets[0].id: ast.literal_eval(node.value) for node in assigned}
        return {module: sorted(names) for module, names in values["PUBLIC"].items()}, values["__version__"]
    except (ValueError, KeyError, AttributeError) as error:
        raise ExportError(f"{block.place}: expected PUBLIC = {{module: [names]}} and __version__, literally") from error


def init_text(block: Block | None, modules: dict[str, list[Block]]) -> str:
    """`annotated/__init__.py`: public names that load their module when they are first used."""
    docstring = '"""The Transformer of "Attention Is All You Need", written chapter by chapter in the book."""'
    if block is None:
        return f'{HEADER.format("the chapters")}\n{docstring}\n\n__version__ = "0.1.0"\n'
    public, version = read_public(block)
    homes: dict[str, str] = {}
    for module, names in public.items():
        held = {name for source in modules.get(module, []) for name in source.names}
        for name in names:
            if name not in held:
                raise ExportError(f"{block.place}: annotated.{module} has no {name}")
            if name in homes or name in modules:
                raise ExportError(f"{block.place}: {name} is listed twice, or is a module's name")
            homes[name] = module
    typed = [f"    from annotated.{module} import {', '.join(names)}" for module, names in public.items() if names]
    lines = [HEADER.format(f"book/{block.chapter.name}"), docstring, "", "from importlib import import_module"]
    lines += ["from typing import TYPE_CHECKING, Any", "", *(["if TYPE_CHECKING:", *typed] if typed else []), ""]
    lines += [f"__version__ = {version!r}", f"__all__ = {sorted(homes)!r}", f"_HOME = {dict(sorted(homes.items()))!r}"]
    return "\n".join(lines) + "\n\n" + LAZY


def ruff(arguments: list[str], text: str, root: Path, name: str) -> str:
    """What ruff makes of the text, under the project's configuration."""
    command = [str(RUFF), *arguments, "--quiet", "--stdin-filename", str(root / "annotated" / name), "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", cwd=root)
    if done.returncode:
        raise ExportError(f"annotated/{name}: ruff {arguments[0]}: {done.stderr or done.stdout}")
    return done.stdout


def package_files(root: Path) -> dict[str, str]:
    """Every file of annotated/ and its text. Raises ExportError."""
    modules: dict[str, list[Block]] = {}
    docstrings: dict[str, str] = {}
    code: list[tuple[int, str, ast.Module]] = []
    for path in sorted((root / "book").glob("[0-9]*.ipynb"), key=lambda path: (number(path), path.name)):
        blocks, cells, docstring = read_blocks(path)
        code += [(number(path), place, tree) for place, tree in cells]
        for block in blocks:
            modules.setdefault(block.module, []).append(block)
            docstrings.setdefault(block.module, docstring)
    init = modules.pop("__init__", [])
    if len(init) > 1:
        raise ExportError(f"{init[1].place}: a second '#| export __init__' cell")
    homes = {module: number(blocks[0].chapter) for module, blocks in modules.items()}
    public = {name: module for block in init for module, names in read_public(block)[0].items() for name in names}
    for chapter, place, tree in code:
        check_order(place, chapter, tree, homes, public)
    files = {"py.typed": ""}
    texts = {module: module_text(module, blocks, docstrings[module]) for module, blocks in modules.items()}
    for module, text in {"__init__": init_text(init[0] if init else None, modules), **texts}.items():
        kept = ["--ignore", "F401"] if module == "__init__" else []
        text = ruff(["check", "--select", "F401,I", *kept, "--fix-only"], text, root, f"{module}.py")
        files[f"{module}.py"] = ruff(["format"], text, root, f"{module}.py")
        ast.parse(files[f"{module}.py"])
    return files


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write or compare the package; 0 when it is, or now is, what the chapters say."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.export", description="The package, written from the chapters."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; name the modules that differ")
    options = parser.parse_args(arguments)
    try:
        files = package_files(root)
    except ExportError as error:
        print(f"export: {error}", file=sys.stderr)
        return 1
    folder = root / "annotated"
    folder.mkdir(exist_ok=True)
    here = {path.name: path.read_text(encoding="utf-8") for path in [*folder.glob("*.py"), *folder.glob("py.typed")]}
    differing = sorted(name for name in {*files, *here} if files.get(name) != here.get(name))
    if options.check:
        for name in differing:
            print(f"annotated/{name} is not what the chapters say: run `make export`", file=sys.stderr)
        return 1 if differing else 0
    for name in differing:
        if name in files:
            (folder / f"{name}.new").write_text(files[name], encoding="utf-8")
            os.replace(folder / f"{name}.new", folder / name)
        else:
            (folder / name).unlink()
        print(f"annotated/{name} {'written' if name in files else 'removed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
