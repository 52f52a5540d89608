"""The quick tests under other conditions, whose verdict must be the same: `python -m tools.everywhere [NAME...]`.

Each condition is a command in front of pytest, or variables, in a clone of the last commit; one line each, and the
tests whose outcome is another than under `as it is`. `--all` runs everything once under all that go together.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools import ROOT, check
from tools.execute import environment

QUICK, EVERYTHING = "not slow and not browser and not again", "not again"
PYTHON = ROOT / ".venv" / "bin" / "python"
NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups"
IGNORED = "trap '' HUP INT QUIT TERM PIPE; exec \"$@\""
CONDITIONS: dict[str, tuple[list[str], dict[str, str]]] = {
    "as it is": ([], {}),
    "older kernels": ([], {"ATEN_CPU_CAPABILITY": "default"}),
    "older oneDNN": ([], {"ONEDNN_MAX_CPU_ISA": "SSE41"}),
    "older MKL": ([], {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}),
    "one core": (["taskset", "-c", "0"], {}),
    "nohup": (["nohup"], {}),
    "no terminal": (["setsid", "--wait"], {}),
    "signals ignored": (["bash", "-c", IGNORED, "bash"], {}),
    "another user": (NOBODY.split(), {"USER": "nobody", "LOGNAME": "nobody"}),
    "another time": ([], {"TZ": "Pacific/Kiritimati"}),
    "another language": ([], {"LC_ALL": "C", "LANGUAGE": "de"}),
    "a narrow terminal": ([], {"COLUMNS": "40", "TERM": "dumb", "NO_COLOR": "1"}),
    "read-only home": ([], {"HOME": "read-only"}),
    "a folder with a space": ([], {}),
    "another order": ([], {"PYTEST_ADDOPTS": "--random-order --random-order-seed=7"}),
}
COMBINED = [name for name in CONDITIONS if name not in ("as it is", "no terminal", "another user")]


def clone(place: Path) -> None:
    """The last commit in a folder of its own, with this one's environment and npm's packages."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(place)], check=True)
    for name in (".venv", "node_modules"):
        (place / name).symlink_to(ROOT / name)
    subprocess.run(["chmod", "-R", "a+rwX", str(place)], check=True)


def outcomes(names: list[str], marks: str, files: list[str]) -> dict[str, str]:
    """Every test and whether it passed, failed or was skipped, under the conditions of these names together."""
    commands = [part for name in names for part in CONDITIONS[name][0]]
    variables = {key: value for name in names for key, value in CONDITIONS[name][1].items()}
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        place = Path(folder) / ("the book" if "a folder with a space" in names else "book")
        clone(place)
        if "HOME" in variables:
            (home := Path(folder) / "home").mkdir(mode=0o555)
            variables["HOME"] = str(home)
        elif "another user" in names:
            variables["HOME"] = folder
        report = Path(folder) / "report.xml"
        program = [*commands, str(PYTHON), "-m", "pytest"]
        command = [*program, *check.options(report, marks), "-n2", "--dist=loadfile", *files]
        variables |= {"PYTHONPATH": str(place), "CI": "true", "TMPDIR": folder}
        done = subprocess.run(command, cwd=place, env=environment(1) | variables, capture_output=True, text=True)
        if not report.exists():
            return {f"pytest itself: {(done.stdout + done.stderr).strip().splitlines()[-1]}": "failed"}
        return {f"{case.file}::{case.name}": case.outcome for case in check.reported(report)}


def another_user() -> bool:
    """Whether a user without rights can run the environment's Python, and it itself again."""
    again = "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
    if os.geteuid() or not shutil.which("setpriv"):
        return False
    return not subprocess.run([*NOBODY.split(), PYTHON, "-c", again], cwd="/", capture_output=True).returncode


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.everywhere", description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of a condition: {', '.join(CONDITIONS)}")
    parser.add_argument("--all", action="store_true", help="every test, chapters too, under all that go together")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(CONDITIONS):
        parser.error(f"no condition {', '.join(sorted(unknown))}")
    names = options.names or [name for name in CONDITIONS if name != "as it is"]
    if "another user" in names and not another_user():
        print(f"another user: left out; it needs root, setpriv, and a Python for all users, not {PYTHON.resolve()}")
        names.remove("another user")
    usual = outcomes(["as it is"], QUICK, ["tests"])
    print(f"as it is: {summary(usual)}", flush=True)
    different = 0
    for name in names:
        found = outcomes([name], QUICK, ["tests"])
        apart = {test: outcome for test, outcome in found.items() if usual.get(test) != outcome}
        different += len(apart)
        print(f"{name}: {summary(found)}", *(f"    {outcome}: {test}" for test, outcome in apart.items()), sep="\n")
        sys.stdout.flush()
    if options.all:
        found = outcomes(COMBINED, EVERYTHING, ["book", "tests"])
        apart = {test: outcome for test, outcome in found.items() if outcome == "failed"}
        different += len(apart)
        print(
            f"all together: {summary(found)}", *(f"    {outcome}: {test}" for test, outcome in apart.items()), sep="\n"
        )
    return 1 if different else 0


def summary(found: dict[str, str]) -> str:
    """How many tests had which outcome."""
    kinds = list(found.values())
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(sorted(kinds, key=len)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
