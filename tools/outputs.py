"""Which outputs of a chapter are stored anew after it ran, and what says that stored outputs are those of its cells.

Most outputs are compared with the stored ones by the tests, so what a run writes is stored. Two kinds of outputs differ
from run to run and would fill a diff with what nobody changed:

- those of a cell that is exempt from comparison (`nbval-ignore-output`). They stay while the code and the data behind
  them are as they were and the new text differs in numbers and names of machines alone;
- pictures that look the same, drawn from numbers whose last digits differ between processors.

`{"annotated": {"renewed_by": ["training"]}}` in an exempt cell's metadata names modules, here because the cell shows
live training: its outputs are renewed when one of these, or what they import, has changed.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from nbformat import NotebookNode

from tools.clean import code_cells
from tools.drawings import NARROW, SVG, look_the_same
from tools.export import DIRECTIVE, bound_names, defined_names, imported_modules, used_names

EXEMPT = "nbval-ignore-output"
NUMBER = re.compile(r"[-+]?\d[\d.,_]*(?:[eE][-+]?\d+)?")
MACHINE = re.compile(r"\b(?:cpu|cuda(?::\d+)?|mps): [^\n]*|\b(?:Intel|AMD|NVIDIA|Apple M|ARM|Ampere|Neoverse)[^\n,;)]*")


def short_hash(parts: Iterable[str]) -> str:
    """A hash of texts in their order; short, since it stands in diffs and protects against accidents alone."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def sources_hash(notebook: NotebookNode) -> str:
    """A hash of a chapter's code: its outputs are those of these cells."""
    return short_hash(part for cell in code_cells(notebook) for part in (cell.id, cell.source))


def executed_hash(notebook: NotebookNode) -> str | None:
    """The hash of the code that made the stored outputs; None for a chapter that never ran."""
    return notebook.metadata.get("annotated", {}).get("executed", {}).get("sources")


def is_exempt(cell: NotebookNode) -> bool:
    return EXEMPT in cell.metadata.get("tags", [])


def template(outputs: list[NotebookNode]) -> list[tuple[str, ...]]:
    """Outputs without what changes from run to run: numbers, names of machines, and pictures."""

    def plain(text: str) -> str:
        return " ".join(NUMBER.sub("#", MACHINE.sub("MACHINE", text)).split())

    found = []
    for output in outputs:
        texts = {"text": output.text} if output.output_type == "stream" else dict(output.get("data", {}))
        shown = {f"{kind} {plain(text)}" if kind.startswith("text") else "picture" for kind, text in texts.items()}
        found.append((output.output_type, *sorted(shown)))
    return found


def code_of(source: str) -> str:
    """Source without comments, layout, docstrings and `__all__`: what has to change for the code to have changed."""
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if "__all__" not in defined_names(node)]
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(body) > 1:
                del body[0]
    return ast.unparse(tree)


def behind(cells: list[NotebookNode], group: list[NotebookNode]) -> list[NotebookNode]:
    """These cells and the earlier ones that they go back to, directly or through others, in the chapter's order.

    A cell goes back to those that define a name it uses, or that name a file it names. One that shows live training
    does not go back to exported cells: its modules stand for them.
    """
    live = bool(renewed_by(group[0]))
    before = [one for one in cells[: cells.index(group[-1])] if not (live and DIRECTIVE.match(one.source))]
    binds = {one.id: {*bound_names(ast.parse(one.source)), *files_named(one)} for one in before}
    found, waiting = set(), list(group)
    while waiting:
        last = waiting.pop()
        found.add(last.id)
        uses = {*used_names(compile(last.source, "cell", "exec")), *files_named(last)}
        waiting += [one for one in before if one.id not in found and binds[one.id] & uses]
    return [one for one in cells if one.id in found]


def renewed_by(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("annotated", {}).get("renewed_by", [])


def constants(cells: Iterable[NotebookNode]) -> Iterator[str]:
    """The texts in the code of cells."""
    nodes = (node for cell in cells for node in ast.walk(ast.parse(cell.source)))
    yield from (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def files_named(cell: NotebookNode) -> set[str]:
    """What looks like the name of a file in the texts of a cell that is not exported."""
    texts = [] if DIRECTIVE.match(cell.source) else constants([cell])
    return {name for text in texts for name in re.findall(r"[\w-]+\.[a-z]{2,8}\b", text)}


def file_of(module: str, package: Path) -> Path | None:
    """The file of a module of the package, named with dots from there; None where there is none."""
    place = package.joinpath(*module.split("."))
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


def modules_behind(names: Iterable[str], package: Path) -> list[Path]:
    """The files of these modules of the package, and of all that they import from it."""
    found: dict[str, Path] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found and (file := file_of(name, package)):
            found[name] = file
            waiting += imported_modules(ast.parse(file.read_text(encoding="utf-8")))
    return [found[name] for name in sorted(found)]


def data_behind(cells: list[NotebookNode], book: Path) -> list[Path]:
    """The files that cells name, below folders that they name as well; of a folder alone the files in it."""
    said = {text for text in constants(cells) if len(text) < 200 and "\n" not in text and text.strip("./")}

    def files(path: Path) -> Iterator[Path]:
        if path.is_file():
            yield path
        elif path.is_dir():
            parts = [path / text for text in said if (path / text).exists() and not text.startswith(("/", ".."))]
            yield from (file for part in parts for file in files(part))
            if not parts:
                yield from (file for file in path.iterdir() if file.is_file())

    named = [book / text for text in said if text.startswith("../data")]
    return sorted({file.resolve() for path in named for file in files(path)})


def group_of(cell: NotebookNode) -> str:
    """What an exempt cell is renewed with: itself, or all cells of its chapter that show live training."""
    return "live" if renewed_by(cell) else cell.id


def exempt_groups(cells: list[NotebookNode]) -> dict[str, list[NotebookNode]]:
    """The exempt cells of a chapter by what they are renewed with."""
    groups: dict[str, list[NotebookNode]] = {}
    for cell in filter(is_exempt, cells):
        groups.setdefault(group_of(cell), []).append(cell)
    return groups


def fingerprint(cells: list[NotebookNode], group: list[NotebookNode], root: Path) -> str:
    """A hash of the code and the data behind the outputs of exempt cells."""
    reached = behind(cells, group)
    files = modules_behind({name for cell in group for name in renewed_by(cell)}, root / "annotated")
    parts = [code_of(one.source) for one in reached] + [code_of(file.read_text(encoding="utf-8")) for file in files]
    data = data_behind(reached, root / "book")
    data += sorted(path for path in (root / "annotated").rglob("data/*") if files and path.is_file())
    return short_hash(parts + [hashlib.sha256(file.read_bytes()).hexdigest() for file in data])


def settle(before: NotebookNode, after: NotebookNode, root: Path, refresh: bool = False) -> NotebookNode:
    """Put back, in place, what a run need not have changed, and note what the outputs belong to; returns `after`."""
    cells, old = code_cells(after), {cell.id: cell for cell in code_cells(before)}
    known = before.metadata.get("annotated", {}).get("executed", {}).get("exempt", {})
    exempt = {name: fingerprint(cells, group, root) for name, group in exempt_groups(cells).items()}
    for cell in cells:
        if refresh or cell.id not in old:
            continue
        outputs, name = old[cell.id].outputs, group_of(cell)
        if not is_exempt(cell):
            cell.outputs = with_old_pictures(outputs, cell.outputs)
        elif known.get(name) == exempt[name] and template(outputs) == template(cell.outputs):
            cell.outputs = outputs
    executed = NotebookNode(sources=sources_hash(after), **({"exempt": exempt} if exempt else {}))
    after.metadata["annotated"] = NotebookNode({**after.metadata.get("annotated", {}), "executed": executed})
    return after


def with_old_pictures(old: list[NotebookNode], new: list[NotebookNode]) -> list[NotebookNode]:
    """New outputs with the old ones' pictures, where a cell draws as many as before and they look the same."""
    for kind in (SVG, NARROW):
        drawn = [[output.data for output in outputs if kind in output.get("data", {})] for outputs in (old, new)]
        if len(drawn[0]) == len(drawn[1]):
            for before, after in zip(*drawn, strict=True):
                if look_the_same(before[kind], after[kind]):
                    after[kind] = before[kind]
    return new


def are_stale(notebook: NotebookNode) -> bool:
    """Whether a notebook's outputs are not those of its cells."""
    return bool(code_cells(notebook)) and executed_hash(notebook) != sources_hash(notebook)
