"""Try the doctor on public forms: `python -m studies.doors` writes `data/runs/doors/results.json` (half a minute).

Each file that the `repositories.toml` of a folder names (by default `tests/repositories`) is asked as somebody would
who has just cloned it: one command in their folder, `annotated check FILE`, nothing else. The manifest says what is
really wrong with it. Files that train are stopped early, so that the study is short; what they define is the same.

The records `later-first` and `later` are of fifteen files that were written afterwards, and that are too close to other
people's code to be kept here; `later-first` is what the doctor of its revision said when it met them. `alone` is of
sixteen models of one text and of thirty copies of another with a mistake in each (chapter 82), not kept for the same
reason.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import tomllib
import warnings
from pathlib import Path

from annotated.base.files import InputError
from annotated.doctor import running
from annotated.doctor.asking import UNTRIED, WRONG
from annotated.doctor.running import check_file
from studies.common import begin, keep
from tools import ROOT

REPOSITORIES = ROOT / "tests" / "repositories"
FOR_A_FILE = 0.05  # of the time, before what a file has not defined by then is left out


def first_command(folder: Path, file: str) -> dict:
    """What `annotated check` says of a file, to somebody who stands in this folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        reports = check_file(os.path.relpath(file, folder))
    except InputError as error:
        return {"verdict": False, "says": str(error), "todo": error.todo}
    finally:
        os.chdir(before)
    model = next(name for name in reports if name not in running.FUNCTIONS)
    findings = [one for report in reports.values() for one in report.findings]
    return {
        "verdict": True,
        "model": model,
        "wrong": [f"{one.check}: {one.found}" for one in findings if one.verdict == WRONG],
        "not_asked": [one.check for one in reports[model].findings if one.verdict == UNTRIED],
        "likely": list(reports[model].causes),
    }


def main() -> None:
    """Ask all of them, and write down what was said."""
    parser = argparse.ArgumentParser(prog="python -m studies.doors", description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=REPOSITORIES, help="where repositories.toml lies")
    parser.add_argument("--into", default="results", help="the record's name (default: %(default)s)")
    args = parser.parse_args()
    begin()
    running.SHARE = FOR_A_FILE
    warnings.simplefilter("ignore")
    manifest = tomllib.loads((args.folder / "repositories.toml").read_text(encoding="utf-8"))
    results = {}
    for name, one in manifest.items():
        folder = args.folder / name
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            said = first_command(folder / one["cwd"], str(folder / one["file"]))
        results[name] = {"file": one["file"], "mistake": one["wrong"], **said}
        print(name, said, flush=True)
    asked = [] if args.folder == REPOSITORIES else [args.folder.name, "--into", args.into]
    keep(f"doors/{args.into}.json", ["doors", *asked], {"results": results})


if __name__ == "__main__":
    main()
