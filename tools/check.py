"""All tests, one summary: `python -m tools.check`, which is `make test`.

Chapter 59 trains, so it comes first, alone, with two threads. Chapters are run again by nbval, which compares their
stored outputs. A later step runs even when an earlier one failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from tools.clean import ROOT
from tools.execute import threads_of

NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=900", "--nbval-sanitize-with=tests/nbval.cfg"]
PARALLEL = ["-n", "2", "--dist"]


def command(*arguments: str, threads: int = 1) -> int:
    """Run a module of this Python; returns its exit status."""
    count = str(threads)
    environment = {**os.environ, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "PYTHONHASHSEED": "0"}
    environment |= {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    environment.pop("MPLBACKEND", None)
    return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, env=environment).returncode


def single(*arguments: str) -> Counter:
    """A step that passes or fails as a whole."""
    return Counter(failed=1) if command(*arguments) else Counter(passed=1)


def pytest(*arguments: str, threads: int = 1) -> Counter:
    """A run of pytest and how many of its tests passed, failed and were skipped."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-q", "--no-header", "-p", "no:cacheprovider", f"--junitxml={report}"]
        status = command("pytest", *options, *arguments, threads=threads)
        counts = Counter()
        if report.exists():
            for suite in ElementTree.parse(report).getroot().iter("testsuite"):
                failed = int(suite.get("failures")) + int(suite.get("errors"))
                skipped = int(suite.get("skipped"))
                counts.update(passed=int(suite.get("tests")) - failed - skipped, failed=failed, skipped=skipped)
    if status and not counts["failed"]:
        counts["failed"] = 1
    return counts


def main() -> int:
    chapters = sorted((ROOT / "book").glob("*.ipynb"))
    training = [f"book/{path.name}" for path in chapters if threads_of(path) > 1]
    others = [f"book/{path.name}" for path in chapters if threads_of(path) == 1]
    steps = {
        "ruff": lambda: single("ruff", "check", "--quiet", "."),
        "format": lambda: single("ruff", "format", "--check", "--quiet", "."),
        "notebooks": lambda: single("tools.clean", "--check"),
        "export": lambda: single("tools.export", "--check"),
        "chapter 59": lambda: pytest(*NBVAL, *training, threads=2) if training else Counter(),
        "chapters": lambda: pytest(*NBVAL, *PARALLEL, "loadfile", *others) if others else Counter(),
        "tests": lambda: pytest(*PARALLEL, "loadfile", "-m", "not browser", "tests"),
        "html": lambda: single("tools.build"),
        "browser": lambda: pytest(*PARALLEL, "load", "-m", "browser", "tests/test_site.py"),
    }
    began, total, lines = time.monotonic(), Counter(), []
    for number, (name, step) in enumerate(steps.items(), start=1):
        print(f"\n== {number}/{len(steps)} {name}", flush=True)
        start = time.monotonic()
        counts = step()
        total += counts
        said = ", ".join(f"{counts[kind]} {kind}" for kind in ("passed", "failed", "skipped") if counts[kind])
        lines.append(f"{name:<12}{said or 'nothing to do':<32}{time.monotonic() - start:6.0f} s")
    print("\n" + "\n".join(lines), f"\n{time.monotonic() - began:.0f} s in all")
    skipped = f", {total['skipped']} skipped" if total["skipped"] else ""
    print(f"{total['passed']} passed, {total['failed']} failed{skipped}")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
