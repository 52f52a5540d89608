"""A file is run without a limit of time: the page ends its worker instead. The doctor itself stays outside."""

import sys
from contextlib import nullcontext, redirect_stdout

from annotated.base.files import InputError
from annotated.doctor.asking import raised

FUNCTIONS = {}


def at_most(seconds):
    return nullcontext()


def run_file(path, seconds=60.0):
    names = {"__name__": path.stem, "__file__": str(path)}
    try:
        with redirect_stdout(sys.stderr):
            exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    except (Exception, SystemExit) as error:
        todo = 'What trains stands below `if __name__ == "__main__":`.'
        raise InputError(f"{path}: {raised(error)}", todo) from None
    return names
