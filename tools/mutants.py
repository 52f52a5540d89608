"""Small faults drawn by lot, and which of them the tests find: `python -m tools.mutants draw | try NAME | gate NAME`.

`draw` writes data/runs/mutants/draw.json: by a seed, faults of the kinds that `WANTED` names. Those that change nothing
are named in `equivalent` by hand, with the reason, and the next of the same kind takes their place. `try` puts each
into a clone, runs the tests that reach it, up to the first failure, and gives those that survive to the whole suite,
all at once; what fails there is asked of each half of them, down to the single fault. `gate` asks of those that were
caught whether `make check` catches them as well. A fault is found by the name of its function and its line, wherever
these stand now; what is gone is listed. Every result is kept: a run that was stopped goes on.

    git clone . ../trial && make -C ../trial env && python -m tools.mutants try before --clone ../trial
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import nbformat
import torch

from annotated.base.files import read_json, write_json
from annotated.machine.devices import describe_machine
from tools import ROOT, check
from tools.clean import code_cells, write_if_changed
from tools.execute import environment, threads_of
from tools.export import DIRECTIVE
from tools.outputs import is_exempt, sources_hash

FOLDER = ROOT / "data" / "runs" / "mutants"
SEED = 49
WANTED = {"package": 120, "page": 30}
COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "is not": "is"}
COMPARED |= {"in": "not in", "not in": "in"}
REPLACED = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "**": "*", "%": "*", "@": "*"}
IN_SCRIPTS = {"<": "<=", ">": ">=", "===": "!==", "!==": "===", "&&": "||", "||": "&&", "+": "-", "-": "+", "*": "/"}
MISSED = ("survives", "survives the whole", "gone")
Site = tuple[str, str, int, int, str]  # qualified name, operator, begin, end, new text


def python_sites(text: str) -> Iterator[Site]:
    """Where Python code can be changed in one place, and to what. Assertions, messages and annotations stay."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    raw = text.encode()

    def at(node: ast.AST, end: bool = False) -> int:
        place = (node.end_lineno, node.end_col_offset) if end else (node.lineno, node.col_offset)
        return len(raw[: starts[place[0] - 1] + place[1]].decode())

    def between(left: ast.AST, right: ast.AST, table: dict[str, str]) -> tuple[int, int, str] | None:
        begin, end = at(left, end=True), at(right)
        found = re.search("|".join(map(re.escape, sorted(table, key=len, reverse=True))), text[begin:end])
        return (begin + found.start(), begin + found.end(), table[found[0]]) if found else None

    def changes(node: ast.AST) -> Iterator[tuple[str, int, int, str] | None]:
        match node:
            case ast.Compare(left=left, comparators=[right, *_]):
                yield "comparison", *(between(left, right, COMPARED) or ())
            case ast.BinOp(left=left, right=right):
                yield "arithmetic", *(between(left, right, REPLACED) or ())
            case ast.BoolOp(values=[left, right, *_]):
                yield "logic", *(between(left, right, {"and": "or", "or": "and"}) or ())
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield "negation", at(node), at(operand), ""
            case ast.Constant(value=bool(value)):
                yield "constant", at(node), at(node, end=True), str(not value)
            case ast.Constant(value=int(value)):
                yield "constant", at(node), at(node, end=True), str(value + 1)
            case ast.Constant(value=float(value)):
                yield "constant", at(node), at(node, end=True), repr(value * 2 or 1.0)
            case ast.Call(func=func, args=args, keywords=keywords):
                if isinstance(func, ast.Attribute) and not isinstance(func.value, ast.Name):
                    yield "call left out", at(func.value, end=True), at(node, end=True), ""
                if len(args) > 1 and not any(isinstance(one, ast.Starred) for one in args[:2]):
                    one, two = (text[at(part) : at(part, end=True)] for part in args[:2])
                    yield "arguments", at(args[0]), at(args[1], end=True), f"{two}, {one}"
                if keywords and keywords[-1].arg:
                    before = args[-1] if len(keywords) == 1 and args else None
                    before = keywords[-2].value if len(keywords) > 1 else before
                    if before is not None:
                        yield "keyword", at(before, end=True), at(keywords[-1].value, end=True), ""
            case ast.Expr(value=ast.Call()) | ast.AugAssign():
                yield "statement", at(node), at(node, end=True), "pass"
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            begin, end = at(node.test), at(node.test, end=True)
            yield "condition", begin, end, f"not ({text[begin:end]})"

    def walk(node: ast.AST, name: str) -> Iterator[Site]:
        if isinstance(node, ast.Assert | ast.JoinedStr | ast.Raise | ast.arg | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = f"{name}.{node.name}".lstrip(".")
        yield from ((name, *change) for change in changes(node) if len(change) == 4)
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns", "decorator_list"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        yield from walk(child, name)

    yield from walk(ast.parse(text), "")


def script_sites(text: str) -> Iterator[Site]:
    """The same of JavaScript, by its signs, outside of comments and texts."""
    other = r"//[^\n]*|/\*.*?\*/|`[^`]*`|\"[^\"\n]*\"|'[^'\n]*'"
    name, kept = "", re.sub(other, lambda found: " " * len(found[0]), text, flags=re.S)
    signs = r"(?<= )(?:===|!==|&&|\|\||[<>+*-])(?= )|(?<![\w.])\d+(?:\.\d+)?(?![\w.])"
    for found in re.finditer(rf"\bfunction\*? (\w+)|^  (?:async )?(\w+)\(.*\{{$|({signs})", kept, re.M):
        name = found[1] or found[2] or name
        if sign := found[3]:
            new = IN_SCRIPTS.get(sign) or str(float(sign) * 2 if "." in sign else int(sign) + 1)
            yield name, "sign", found.start(3), found.end(3), new


def number_sites(text: str) -> Iterator[Site]:
    """Numbers of a record or a table, each with its first digit changed."""
    for found in re.finditer(r"(?<![\w.\"-])\d+(?:\.\d+)?(?![\w\"])", text):
        yield "", "number", found.start(), found.start() + 1, str((int(found[0][0]) + 1) % 10)


def word_sites(text: str) -> Iterator[Site]:
    """Words of a list or of sentences, each without its last letter."""
    for found in re.finditer(r"[^\W\d_]{2,}", text):
        yield "", "word", found.end() - 1, found.end(), ""


def texts_of(kind: str, root: Path) -> Iterator[tuple[str, str, Any]]:
    """Where faults of a kind may be: the place, its text, and what finds them."""
    if kind in ("package", "chapters"):
        for path in sorted((root / "book").glob("[0-9]*.ipynb")):
            for cell in code_cells(nbformat.read(path, as_version=4)):
                if bool(DIRECTIVE.match(cell.source)) == (kind == "package") and not is_exempt(cell):
                    yield f"book/{path.name}#{cell.id}", cell.source, python_sites
        for path in sorted((root / "annotated").glob("*/**/*.py")) if kind == "package" else ():
            yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"), python_sites
        return
    patterns = {
        "page": (["book/web/*.js", "book/web/*/*.js", "book/web/*/*/*.js"], script_sites),
        "exporter": (["tools/export.py"], python_sites),
        "records": (["data/runs/*/*.json", "data/runs/*/*.jsonl"], number_sites),
        "data": (
            ["annotated/text/grammar/data/*.tsv", "data/embedded/*.tsv", "data/paper.yml", "data/devices.yml"],
            None,
        ),
    }
    for pattern in patterns[kind][0]:
        for path in sorted(root.glob(pattern)):
            finds = patterns[kind][1] or (number_sites if path.suffix == ".yml" else word_sites)
            if path.parent != FOLDER:
                yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"), finds


def lines_around(text: str, begin: int, end: int) -> tuple[int, int]:
    """The whole lines from one place to another."""
    first = text.rfind("\n", 0, begin) + 1
    last = text.find("\n", end)
    return first, len(text) if last < 0 else last


def drawn(kind: str, count: int, root: Path) -> list[dict[str, Any]]:
    """Faults of a kind: first a name by lot, of those one operator, of its places one."""
    sites: dict[tuple[str, str], dict[str, list]] = {}
    for place, text, finds in texts_of(kind, root):
        for name, operator, begin, end, new in finds(text):
            first, last = lines_around(text, begin, end)
            if (one := text[first:last]) != text[first:begin] + new + text[end:last]:
                fault = {"place": place, "name": name, "operator": operator, "line": one}
                fault["changed"] = text[first:begin] + new + text[end:last]
                fault["nth"] = text[:first].count(one)
                sites.setdefault((place, name), {}).setdefault(operator, []).append(fault)
    chance, found = Random(f"{SEED} {kind}"), []
    names = sorted(sites)
    while len(found) < count:
        operators = sites[chance.choice(names)]
        fault = {"kind": kind} | chance.choice(operators[chance.choice(sorted(operators))])
        if fault not in found:
            found.append(fault)
    return found


def located(fault: dict[str, Any], root: Path) -> tuple[str, str] | None:
    """Where a fault's line is now, and the text with the fault in it; None where the line is gone."""
    here = list(texts_of(fault["kind"], root))
    for place, text, finds in sorted(here, key=lambda one: one[0] != fault["place"]):
        at, line, nth = -1, fault["line"], fault["nth"] if place == fault["place"] else 0
        for _ in range(nth + 1):
            at = text.find(line, at + 1)
        if at < 0 and nth:
            at = text.find(line)
        end = at + len(line)
        if at < 0 or lines_around(text, at, end) != (at, end):
            continue
        if fault["name"] in {name for name, _, first, last, _ in finds(text) if at <= first <= last <= end}:
            return place, text[:at] + fault["changed"] + text[end:]
    return None


def put(place: str, text: str, clone: Path) -> None:
    """Write a text to its place; a chapter's outputs count as those of its changed code."""
    path = clone / place.partition("#")[0]
    if path.suffix != ".ipynb":
        path.write_text(text, encoding="utf-8")
        return
    notebook = nbformat.read(path, as_version=4)
    cell = next(cell for cell in notebook.cells if cell.id == place.partition("#")[2])
    cell.source = text
    notebook.metadata["annotated"]["executed"]["sources"] = sources_hash(notebook)
    write_if_changed(notebook, path)


class Trial:
    """A clone with its own environment, in which faults are tried."""

    def __init__(self, clone: Path):
        self.clone, self.python = clone, clone / ".venv" / "bin" / "python"

    def run(self, *arguments: str, seconds: int = 1200, **more: str) -> int:
        """The exit status of a module of the clone's Python; 124 where it did not end in time."""
        variables = environment(threads=1) | {"PYTHONPATH": str(self.clone), "CI": "true"} | more
        command = [str(self.python), "-m", *arguments]
        with open(self.clone / ".mutants.log", "ab") as log:
            begun = subprocess.Popen(
                command, cwd=self.clone, env=variables, stdout=log, stderr=log, start_new_session=True
            )
            try:
                return begun.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(begun.pid, signal.SIGKILL)
                begun.wait()
                return 124

    def restore(self) -> None:
        subprocess.run(["git", "-C", self.clone, "checkout", "-q", "--", "."], check=True)

    def put(self, faults: list[dict[str, Any]]) -> bool:
        """Put faults into the clean clone and export; False where the exporter refuses."""
        self.restore()
        for fault in faults:
            if found := located(fault, self.clone):
                put(*found, self.clone)
        return self.run("tools.export") == 0

    def pytest(self, *arguments: str, marks: str = "", seconds: int = 1200) -> list[str]:
        """The tests that fail, as pytest would be given them; a whole file where it cannot even be read."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            status = self.run("pytest", *check.options(report, marks), *arguments, seconds=seconds)
            if not report.exists():
                return [f"pytest ended with {status}"] if status not in (0, 5) else []
            failed = [self.name_of(case) for case in check.reported(report) if case.outcome == "failed"]
        return failed or ([f"pytest ended with {status}"] if status not in (0, 5) else [])

    def name_of(self, case: check.Case) -> str:
        home = case.file.replace(".", "/")
        if "ipynb" in case.file:
            return re.sub(r"/ipynb.*", ".ipynb", home).removeprefix("/")
        return f"{home}.py::{case.name}" if home else case.name.replace(".", "/") + ".py"

    def near(self, fault: dict[str, Any], place: str) -> list[str]:
        """The first eight files of tests that reach a fault, the nearest first."""
        path = Path(place.partition("#")[0])
        tests = {file: file.read_text(encoding="utf-8") for file in sorted((self.clone / "tests").glob("test_*.py"))}
        chapters = sorted((self.clone / "book").glob("*.ipynb"))
        files: list[Path] = []
        words = [path.stem, path.parent.name] if fault["kind"] in ("records", "data") else [path.stem]
        if fault["kind"] == "package":
            changed = subprocess.run(
                ["git", "-C", self.clone, "diff", "--name-only", "--", "annotated"], capture_output=True, text=True
            )
            words = [Path(name).stem for name in changed.stdout.split()]
            files += [*(self.clone / "tests" / f"test_{word}.py" for word in words), self.clone / path]
            words = [fault["name"].rpartition(".")[2] or f"annotated.{word}" for word in words]
        elif fault["kind"] == "chapters":
            files += [self.clone / path]
        elif fault["kind"] == "page":
            files += [self.clone / "tests" / f"test_{word}.py" for word in ("web_model", "widgets")]
        pattern = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in words if word))
        if words and fault["kind"] != "chapters":
            files += [file for file, text in tests.items() if pattern.search(text)]
            if fault["kind"] in ("records", "data"):
                files += [file for file in chapters if pattern.search(file.read_text(encoding="utf-8"))]
        found = dict.fromkeys(file for file in files if file.is_file() and "test_site" not in file.name)
        return [str(file.relative_to(self.clone)) for file in found if threads_of(file) == 1][:8]

    def whole(self) -> list[str]:
        """All tests that fail, on the clone as it is."""
        files = [*sorted(self.clone.glob("book/*.ipynb")), *sorted(self.clone.glob("tests/test_*.py"))]
        rest = [str(file.relative_to(self.clone)) for file in files if "test_site" not in file.name]
        failed = self.pytest("-n", "4", "--dist", "loadfile", *rest, seconds=5400)
        failed += ["the site"] if self.run("tools.build") else []
        return failed + self.pytest("-n", "2", "tests/test_site.py", "tests/test_site_widgets.py")

    def again(self, failed: list[str]) -> list[str]:
        """Which of these tests fail on the clone as it is."""
        functions = {name.partition("[")[0] for name in failed if "/" in name}  # some cases depend on the faults
        pages = sorted(name for name in functions if "test_site" in name)
        rest = sorted(functions - set(pages))
        found = self.pytest("-n", "2", "--dist", "loadfile", *rest) if rest else []
        if not (pages or "the site" in failed):
            return found
        if self.run("tools.build"):
            return [*found, "the site"]
        return found + (self.pytest("-n", "2", *pages) if pages else [])


def counted() -> list[dict[str, Any]]:
    """The faults that count: the first of each kind that are not equivalent."""
    draw = read_json(FOLDER / "draw.json")
    faults = [fault for fault in draw["faults"] if str(fault["number"]) not in draw["equivalent"]]
    return [fault for kind, count in WANTED.items() for fault in [one for one in faults if one["kind"] == kind][:count]]


def owed(trial: Trial, faults: list[dict[str, Any]], failed: list[str]) -> Iterator[tuple[list[dict[str, Any]], str]]:
    """Which of the tests that fail with all faults each of them owes, by halves: a half meets what failed around it."""
    for some in (faults[: len(faults) // 2], faults[len(faults) // 2 :]):
        if some:
            trial.put(some)
            found = trial.again(failed)
            if not found:
                yield some, "survives the whole"
            elif len(some) == 1:
                yield some, found[0]
            else:
                yield from owed(trial, some, found)


def attempt(name: str, trial: Trial, gated: bool) -> None:
    """Try every fault that has no result yet; then the whole suite for those that survived the near tests."""
    path = FOLDER / f"{name}.json"
    results = read_json(path) if path.exists() else {}
    revision = subprocess.run(["git", "-C", trial.clone, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    about = {
        "command": f"python -m tools.mutants try {name}",
        **describe_machine(torch.device("cpu")),
        "revision": revision.strip(),
    }
    caught, checked = results.get("caught", {}), results.get("gate", {})
    together = results.get("together", {})  # the survivors, and which tests of the whole suite fail with all of them

    def keep() -> None:
        more = {"together": together, "gate": checked}
        write_json(path, about | {"caught": caught} | {key: value for key, value in more.items() if value})

    faults = counted()
    trial.restore()  # what a stopped run has left
    for fault in faults:
        number = str(fault["number"])
        if gated and caught.get(number, "survives") not in MISSED and number not in checked:
            gate = partial(trial.run, "tools.check", "--changed", PYTEST_ADDOPTS="-x")
            checked[number] = "refused" if not trial.put([fault]) else bool(gate())
        elif not gated and number not in caught:
            found = located(fault, trial.clone)
            if found is None:
                caught[number] = "gone"
            elif not trial.put([fault]):
                caught[number] = "export"
            else:
                files = trial.near(fault, found[0])
                rounds = [("not slow", files[:1]), ("not slow", files[1:]), ("slow", files)]
                rounds = [(f"{marks} and not browser", some) for marks, some in rounds if some]
                found = (trial.pytest("-x", *some, marks=marks) for marks, some in rounds)
                caught[number] = next((failed[0] for failed in found if failed), "survives")
        else:
            continue
        keep()
        print(number, fault["kind"], fault["name"], (checked if gated else caught)[number], flush=True)
    survivors = [fault for fault in faults if caught.get(str(fault["number"])) == "survives"]
    if not gated and survivors:
        if not together:
            trial.put(survivors)
            together = {"faults": [fault["number"] for fault in survivors], "fail": trial.whole()}
            keep()
        if "anyway" not in together:  # what fails without any fault says nothing
            trial.put([])
            together["anyway"] = trial.again(together["fail"])
            keep()
        failed = [name for name in together["fail"] if name not in together["anyway"]]
        print(f"{len(together['faults'])} at once: {len(failed)} fail", flush=True)
        for some, test in owed(trial, survivors, failed):
            for fault in some:
                caught[str(fault["number"])] = test
                print(fault["number"], test, flush=True)
            keep()
    trial.restore()
    trial.run("tools.export")
    kept = [said for said in caught.values() if said not in MISSED]
    print(f"{len(kept)} of {len(faults)} caught, {list(caught.values()).count('gone')} gone")
    if checked:
        print(f"{sum(map(bool, checked.values()))} of {len(checked)} caught by make check")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.split("\n\n")[0])
    parser.add_argument("action", choices=["draw", "try", "gate"])
    parser.add_argument("name", nargs="?", help="of the results: before, after")
    parser.add_argument("--clone", type=Path, default=Path("../trial"), help="a clone with its own .venv")
    options = parser.parse_args(arguments)
    if (options.action == "draw") != (options.name is None):
        parser.error("draw takes no name; try and gate take one")
    if options.action == "draw":
        faults = [fault for kind, count in WANTED.items() for fault in drawn(kind, count * 2, ROOT)]
        numbered = [{"number": number, **fault} for number, fault in enumerate(faults, start=1)]
        FOLDER.mkdir(exist_ok=True)
        about = {"command": "python -m tools.mutants draw", **describe_machine(torch.device("cpu")), "seed": SEED}
        write_json(FOLDER / "draw.json", about | {"equivalent": {}, "faults": numbered})
        return 0
    if not (options.clone / ".venv" / "bin" / "python").exists():
        parser.error(f"{options.clone} is no clone with an environment: see --help")
    os.nice(5)
    attempt(options.name, Trial(options.clone.resolve()), gated=options.action == "gate")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
