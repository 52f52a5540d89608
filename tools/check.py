"""All tests, one summary: `python -m tools.check`, which is `make test`; with `--changed` the short gate, `make check`.

Chapters are run again by nbval, which compares their stored outputs, together with the tests and the site in a browser;
chapter 59, which trains, is the longest and comes first. Pytest runs even when an earlier step failed. `--times` says
where the time of its last run went.

The short gate takes about a minute. It runs style, export and structure, and stops there where one of them fails. Then
come the chapters whose code or outputs changed, the tests named after what changed, and the quick ones among the tests
that use what changed, or what uses that. What it left out it says.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tools import limits
from tools.affected import Change, Project, changed_by_name, changed_since, chapter_number, report
from tools.clean import ROOT
from tools.execute import environment, threads_of

REPORT = ROOT / "_build" / "tests.xml"  # of the last run of pytest
FAR = 2  # steps from a change to the tests that the short gate still runs
STRUCTURE, BUILD = "tests/test_structure.py", "tests/test_build.py"
SITE = ("tests/test_site.py", "tests/test_site_widgets.py")
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-sanitize-with=tests/nbval.cfg"]
NBVAL += [f"--nbval-cell-timeout={limits.CELL}", f"--nbval-kernel-startup-timeout={limits.KERNEL}"]
FILES = ["--dist=loadfile", "--no-loadscope-reorder"]  # a file is one piece of work, and begun in the order given


def command(*arguments: str, threads: int = 1) -> int:
    """Run a module of this Python; returns its exit status."""
    return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, env=environment(threads)).returncode


def single(*arguments: str) -> Counter:
    """A step that passes or fails as a whole."""
    return Counter(failed=1) if command(*arguments) else Counter(passed=1)


def prettier(*files: str) -> Counter:
    """Whether scripts of the page look as Prettier writes them."""
    check = ["node_modules/.bin/prettier", "--check", "--log-level=warn", *files]
    return Counter(failed=1) if subprocess.run(check, cwd=ROOT).returncode else Counter(passed=1)


def pytest(*arguments: str, threads: int = 1) -> Counter:
    """A run of pytest and how many of its tests passed, failed and were skipped."""
    REPORT.unlink(missing_ok=True)
    options = ["-q", "--no-header", "-p", "no:cacheprovider", f"--junitxml={REPORT}"]
    status = command("pytest", *options, *arguments, threads=threads)
    counts = Counter()
    if REPORT.exists():
        for suite in ElementTree.parse(REPORT).getroot().iter("testsuite"):
            failed = int(suite.get("failures")) + int(suite.get("errors"))
            skipped = int(suite.get("skipped"))
            counts.update(passed=int(suite.get("tests")) - failed - skipped, failed=failed, skipped=skipped)
    if status and not counts["failed"]:
        counts["failed"] = 1
    return counts


def times() -> str:
    """The seconds of each file in the last run of pytest, and its ten slowest tests, the longest first."""
    files, tests = Counter(), Counter()
    for case in ElementTree.parse(REPORT).getroot().iter("testcase"):
        files[case.get("classname")] += float(case.get("time"))
        tests[f"{case.get('classname')}::{case.get('name')}"] += float(case.get("time"))
    lines = [f"{seconds:7.1f}  {name}" for name, seconds in files.most_common() + tests.most_common(10)]
    lines.insert(len(files), "the slowest tests")
    return "\n".join([f"{files.total():7.1f}  seconds of all processes together", *lines])


Steps = dict[str, Callable[[], Counter]]
STYLE: Steps = {
    "ruff": lambda: single("ruff", "check", "--quiet", "."),
    "format": lambda: single("ruff", "format", "--check", "--quiet", "."),
    "scripts": lambda: prettier("book/web/**/*.js", "book/_ext/*.cjs", "tests/web/*.mjs"),
    "notebooks": lambda: single("tools.clean", "--check"),
    "export": lambda: single("tools.export", "--check"),
}


def everything() -> Steps:
    """The steps of `make test`. Four processes, since each waits for others at times, keep two cores busy."""
    chapters = sorted((ROOT / "book").glob("*.ipynb"), key=lambda path: (threads_of(path) == 1, path.name))
    tests = sorted((ROOT / "tests").glob("test_*.py"), key=lambda path: (-path.read_text().count("mark.slow"), path))
    files = [str(path.relative_to(ROOT)) for path in [*chapters, *tests]]
    files = [*files[:1], BUILD, *(file for file in files[1:] if file not in (BUILD, *SITE)), *SITE]
    return STYLE | {"tests": lambda: pytest(*NBVAL, "-n4", *FILES, "-m", "not again", *files)}


def gate(project: Project, change: Change, named: bool) -> tuple[Steps, list[str]]:
    """The steps of `make check` after a change, and what they leave out; chapter 59 runs only where it is named."""
    distances = project.reached(change.files)
    tests = sorted(file for file in distances if Path(file).match("tests/test_*.py") and file not in (STRUCTURE, *SITE))
    own = [file for file in tests if name_of(file) in map(name_of, change.files)]
    run = [file for file in tests if distances[file] <= FAR or file in own]
    chapters = sorted(file for file in change.chapters if named or threads_of(Path(file)) == 1)
    options = [*NBVAL, "-n2", *FILES, "-m", "not browser and not again", f"--slow-in={','.join(own)}"]
    threads = max([1, *(threads_of(Path(file)) for file in chapters)])
    steps = STYLE | {
        "structure": lambda: single("tools.structure"),
        "what it reaches": lambda: pytest(*options, *chapters, *run, threads=threads) if chapters + run else Counter(),
    }
    books = {file for file in distances if file.endswith(".ipynb")} - change.files | change.chapters - set(chapters)
    left = {
        "chapters": sorted(map(chapter_number, books)),
        "tests of": [name_of(file) for file in tests if file not in run],
        "slow tests of": [name_of(file) for file in run if file not in own],
    }
    return steps, [f"{what} {', '.join(names)}" for what, names in left.items() if names] + ["the site in a browser"]


def name_of(test: str | Path) -> str:
    """What a file of tests is about: attention for tests/test_attention.py."""
    return Path(test).stem.removeprefix("test_")


def run_steps(steps: Steps, first: str | None = None) -> int:
    """Run all steps, print a line on each and the sum; 1 when anything failed.

    Where one has failed up to the step `first`, the steps after it are not begun.
    """
    began, total, lines = time.monotonic(), Counter(), []
    for number, (name, step) in enumerate(steps.items(), start=1):
        print(f"\n== {number}/{len(steps)} {name}", flush=True)
        start = time.monotonic()
        counts = step()
        total += counts
        said = ", ".join(f"{counts[kind]} {kind}" for kind in ("passed", "failed", "skipped") if counts[kind])
        lines.append(f"{name:<17}{said or 'nothing to do':<32}{time.monotonic() - start:6.0f} s")
        if name == first and total["failed"]:
            lines.append("the rest was not begun; `make format` mends style, `make export` the package")
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("\n" + "\n".join(lines))
    print(f"{time.monotonic() - began:.0f} s in all, {used.ru_utime + used.ru_stime:.0f} s of processors' time")
    skipped = f", {total['skipped']} skipped" if total["skipped"] else ""
    print(f"{total['passed']} passed, {total['failed']} failed{skipped}")
    return 1 if total["failed"] else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.check", description=__doc__.split("\n\n")[0])
    parser.add_argument("--times", action="store_true", help="where the time of the last run of pytest went")
    parser.add_argument(
        "--changed", action="store_true", help="the short gate: only what changed, and what that reaches"
    )
    parser.add_argument("--since", metavar="REV", help="changed since then (default: the merge base with origin/main)")
    parser.add_argument("--chapter", nargs="+", metavar="CH", help="as if these chapters had changed, and nothing else")
    options = parser.parse_args(arguments)
    if options.times:
        print(times() if REPORT.exists() else "no test was run yet")
        return 0
    if not options.changed:
        if options.since or options.chapter:
            parser.error("--since and --chapter go with --changed")
        return run_steps(everything())
    try:
        change = changed_by_name(options.chapter) if options.chapter else changed_since(options.since)
    except ValueError as error:
        parser.error(str(error))
    project = Project()
    print("\n".join(report(project, change)), flush=True)
    steps, left = gate(project, change, named=bool(options.chapter))
    status = run_steps(steps, first="structure")
    print(f"left out: {'; '.join(left)}: `make test` runs all")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
