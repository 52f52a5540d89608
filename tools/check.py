"""All tests, one summary: `python -m tools.check`, which is `make test`; with `--changed` the short gate, `make check`.

Chapters are run again by nbval, which compares their stored outputs, together with the tests and the site in a browser;
chapter 59, which trains, is the longest and comes first. Pytest runs even when the style is wrong. `--times` says
where the time of its last run went.

The short gate takes about a minute. It runs style, export and structure, and stops there where one of them fails. Then
come the chapters whose code or outputs changed, and all quick tests; after a change of texts alone those that may read
the book. A script of the pages that changed brings its own tests, under node and in the browser. What it left out it
names.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import nbformat

from tools import ROOT, limits
from tools.clean import code_cells
from tools.execute import TRAINING, ChapterError, environment, find, longest_first

REPORT = ROOT / "_build" / "tests.xml"  # of the last run of pytest
BUILD = "tests/test_build.py"
SITE = ("tests/test_site.py", "tests/test_site_widgets.py")
SCRIPTS = {  # of the pages: the tests that run them under node
    "book/web/search.js": ["tests/test_search.py"],
    "book/web/widgets/": ["tests/test_widgets.py"],
    "book/web/model/": ["tests/test_web_model.py", "tests/test_web_training.py"],
    "book/web/python/": ["tests/test_running.py"],
}
PARTS = {"lab": "laboratory", "break": "breaking"}  # a folder of scripts, and the widget that has them
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-sanitize-with=tests/nbval.cfg"]
NBVAL += [f"--nbval-cell-timeout={limits.CELL}", f"--nbval-kernel-startup-timeout={limits.KERNEL}"]
PRETTIER = ["node_modules/.bin/prettier", "--check", "--log-level=warn"]
STYLE = [
    [sys.executable, "-m", "tools.export", "--check"],
    [*PRETTIER, "book/web/**/*.js", "book/_ext/*.cjs", "tests/web/*.mjs", "studies/*.mjs"],
    [sys.executable, "-m", "tools.clean", "--check"],
    [sys.executable, "-m", "ruff", "format", "--check", "--quiet", "."],
    [sys.executable, "-m", "ruff", "check", "--quiet", "--output-format=concise", "."],
    ["node_modules/.bin/pyright", "-p", "tests/typed"],  # a user's program, strictly, and so the public names
]
STRUCTURE = [sys.executable, "-m", "tools.structure"]
FILES = ["--dist=loadfile", "--no-loadscope-reorder"]  # a file is one piece of work, and begun in the order given


def style(*commands: list[str]) -> Counter:
    """Run commands, two at a time; print what those say that fail, and count."""

    def passes(command: list[str]) -> bool:
        done = subprocess.run(command, cwd=ROOT, env=environment(1), capture_output=True, text=True)
        if done.returncode:
            print("\n".join(map(in_chapter, (done.stdout + done.stderr).splitlines())), flush=True)
        return done.returncode == 0

    with ThreadPoolExecutor(2) as pool:
        passed = sum(pool.map(passes, commands))
    return Counter(passed=passed, failed=len(commands) - passed)


def in_chapter(complaint: str, root: Path = ROOT) -> str:
    """A line of ruff's about the package, said of the cell that the package's line comes from; others as they are."""
    found = re.match(r"(annotated/\w+\.py):(\d+):\d+: (.*)", complaint)
    if not found:
        return complaint
    lines = (root / found[1]).read_text(encoding="utf-8").splitlines()[: int(found[2])]
    cells = [line.removeprefix("# ") for line in lines if re.match(r"# book/\S+#\S+$", line)]
    return f"{cells[-1] if cells else found[1]}: {found[3]}: {lines[-1].strip()}"


class Case(NamedTuple):
    """A test in a report of pytest."""

    file: str
    name: str
    seconds: float
    outcome: str  # passed, failed or skipped
    slow: bool  # marked so


def options(report: Path, marks: str) -> list[str]:
    """Pytest's options for chapters and tests with these marks, and for its report."""
    return ["-q", "--no-header", "-p", "no:cacheprovider", f"--junitxml={report}", "-m", marks, *NBVAL]


def reported(report: Path) -> list[Case]:
    """The tests of a report; a file that could not be read is one that failed."""
    outcomes = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    found = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        outcome = next((outcomes[part.tag] for part in case if part.tag in outcomes), "passed")
        slow = case.find("properties") is not None
        found.append(Case(case.get("classname", ""), case.get("name"), float(case.get("time")), outcome, slow))
    return found


def pytest(*arguments: str, marks: str = "") -> Counter:
    """A run of pytest and how many of its tests passed, failed and were skipped."""
    REPORT.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *options(REPORT, marks), *arguments]
    status = subprocess.run(command, cwd=ROOT, env=environment(1)).returncode
    counts = Counter(case.outcome for case in reported(REPORT)) if REPORT.exists() else Counter()
    if status and not counts["failed"]:
        counts["failed"] = 1
    return counts


def times() -> str:
    """The seconds of each file in the last run of pytest, its ten slowest tests, and those that want the mark slow."""
    files, tests, unmarked = Counter(), Counter(), Counter()
    for file, name, seconds, _, slow in reported(REPORT):
        files[file] += seconds
        tests[f"{file}::{name}"] += seconds
        if file.startswith("tests.") and not file.startswith("tests.test_site") and not slow:
            unmarked[f"{file}::{name}"] += seconds
    parts = {
        f"{files.total():.0f} seconds of all processes": files.most_common(),
        "the slowest tests": tests.most_common(10),
        "the slowest that are not marked slow": unmarked.most_common(10),
    }
    return "\n".join(
        line
        for part, found in parts.items()
        for line in (part, *(f"{seconds:7.1f}  {name}" for name, seconds in found))
    )


Steps = dict[str, Callable[[], Counter]]


def everything() -> Steps:
    """The steps of `make test`. Four processes, since each waits for others at times, keep two cores busy.

    The site comes between chapters and tests: its files are the longest but for chapter 59, and want the book built.
    """
    trains, *chapters = longest_first((ROOT / "book").glob("*.ipynb"))
    tests = sorted((ROOT / "tests").glob("test_*.py"), key=lambda path: (-path.read_text().count("mark.slow"), path))
    others = [path for path in tests if str(path.relative_to(ROOT)) not in (BUILD, *SITE)]
    files = [trains, ROOT / BUILD, *chapters, *(ROOT / file for file in SITE), *others]
    return {
        "style": lambda: style(*STYLE),
        "tests": lambda: pytest("-n4", *FILES, *(str(path.relative_to(ROOT)) for path in files)),
    }


@dataclass
class Change:
    """Changed files, the notebooks among them whose code or outputs changed, and since when."""

    files: set[str]
    chapters: set[str]
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
    files = set((listed + git("ls-files", "--others", "--exclude-standard", "-z", root=root)).split("\0")[:-1])
    notebooks = {file for file in files if re.fullmatch(r"book/[^/]+\.ipynb", file) and (root / file).is_file()}
    chapters = {
        file
        for file in notebooks
        if ran(git("show", f"{base}:{file}", root=root)) != ran((root / file).read_text(encoding="utf-8"))
    }
    return Change(files, chapters, (git("log", "-1", "--format=%h of %cs", base, root=root) or base).strip())


def ran(text: str | None) -> list:
    """What of a notebook is code or outputs; nothing where there was none."""
    cells = code_cells(nbformat.reads(text, as_version=4)) if text else []
    return [(cell.id, cell.source, cell.metadata, cell.outputs) for cell in cells]


def changed_by_name(names: Iterable[str], root: Path = ROOT) -> Change:
    """Chapters that somebody names, as if each had changed. Raises ChapterError for one that does not exist."""
    chapters = {f"book/{find(name, root / 'book').name}" for name in names}
    return Change(chapters, chapters)


def gate(change: Change, named: bool, root: Path = ROOT) -> tuple[Steps, list[str]]:
    """The steps of `make check` after a change, and what they leave out; chapter 59 runs only where it is named."""
    tests = sorted(str(path.relative_to(root)) for path in (root / "tests").glob("test_*.py"))
    run = [file for file in (reading_the_book(root) if change.is_prose else tests) if file not in SITE]
    chapters = sorted(file for file in change.chapters if named or Path(file).name != TRAINING)
    steps = {
        "style": lambda: style(STRUCTURE, *STYLE),
        "tests": lambda: pytest("-n3", *FILES, *chapters, *run, marks="not slow and not browser"),
    }
    if pages := of_scripts(change.files, root):
        steps["pages"] = lambda: pytest("-n2", *pages)
    books = [str(path.relative_to(root)) for path in sorted((root / "book").glob("*.ipynb"))]
    left = {
        "chapters": [Path(file).stem.split("_")[0] for file in books if file not in chapters],
        "quick tests of": [Path(file).stem.removeprefix("test_") for file in tests if file not in (*run, *SITE)],
    }
    some = [f"{what} {', '.join(names)}" for what, names in left.items() if names]
    return steps, [*some, "all slow tests", "the site in a browser"]


def of_scripts(files: Iterable[str], root: Path = ROOT) -> list[str]:
    """The tests of page scripts that changed: files for node, and the browser's tests that have a widget's name."""
    if not (scripts := [Path(file) for file in sorted(files) if re.fullmatch(r"book/web/.*\.js", file)]):
        return []
    found = [test for path in scripts for start in SCRIPTS if str(path).startswith(start) for test in SCRIPTS[start]]
    names = [PARTS.get(path.parent.name, path.stem) for path in scripts]
    for file in SITE:
        tests = re.findall(r"^def (test_\w+)", (root / file).read_text(encoding="utf-8"), re.MULTILINE)
        found += [f"{file}::{test}" for test in tests if any(name in test.replace("_", "") for name in names)]
    return list(dict.fromkeys(found))


def reading_the_book(root: Path = ROOT) -> list[str]:
    """The test files that name the book's folder, or whose tool does: they may read its texts."""
    found = []
    for path in sorted((root / "tests").glob("test_*.py")):
        sources = [path, root / "tools" / path.name.removeprefix("test_")]
        if any(re.search("[\"'/]book[\"'/]", one.read_text("utf-8")) for one in sources if one.is_file()):
            found.append(str(path.relative_to(root)))
    return found


def run_steps(steps: Steps, strict: bool = False) -> int:
    """Run all steps, print a line on each and the sum; 1 when anything failed. If strict, nothing follows a failure."""
    began, total, lines = time.monotonic(), Counter(), []
    for name, step in steps.items():
        if strict and total["failed"]:
            lines.append(f"{name:<8}not begun: mend the lines above first; `make format` lays out what is no chapter")
            break
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        counts = step()
        total += counts
        said = ", ".join(f"{counts[kind]} {kind}" for kind in ("passed", "failed", "skipped") if counts[kind])
        lines.append(f"{name:<8}{said:<36}{time.monotonic() - start:6.0f} s")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("\n" + "\n".join(lines))
    print(f"{time.monotonic() - began:.0f} s in all, {used.ru_utime + used.ru_stime:.0f} s of processors' time")
    skipped = f", {total['skipped']} skipped" if total["skipped"] else ""
    print(f"{total['passed']} passed, {total['failed']} failed{skipped}")
    return 1 if total["failed"] else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.check", description=__doc__.split("\n\n")[0])
    parser.add_argument("--times", action="store_true", help="where the time of the last run of pytest went")
    parser.add_argument("--style", action="store_true", help="style and export alone, which is `make lint`")
    parser.add_argument("--changed", action="store_true", help="the short gate: what changed, and what that can break")
    parser.add_argument("--since", metavar="REV", help="changed since then (default: the merge base with origin/main)")
    parser.add_argument("--chapter", nargs="+", metavar="CH", help="as if these chapters had changed, and nothing else")
    options = parser.parse_args(arguments)
    if options.times:
        print(times() if REPORT.exists() else "no test was run yet")
        return 0
    if options.style:
        return 1 if style(*STYLE)["failed"] else 0
    if not options.changed:
        if options.since or options.chapter:
            parser.error("--since and --chapter go with --changed")
        return run_steps(everything())
    try:
        change = changed_by_name(options.chapter) if options.chapter else changed_since(options.since)
    except (ValueError, ChapterError) as error:
        parser.error(str(error))
    since = f" since {change.since}" if change.since else ""
    print(f"changed{since}: {', '.join(sorted(change.files)) or 'nothing'}", flush=True)
    steps, left = gate(change, named=bool(options.chapter))
    status = run_steps(steps, strict=True)
    print(f"left out: {'; '.join(left)}: `make test` runs all")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
