# Written by `make export` from book/91_command_line.ipynb: do not edit here, edit the chapter.
"""The command line: chapter 91 of the book."""

import os
import sys

from annotated.commands import answer

__all__ = ["main"]


# book/91_command_line.ipynb#main-module
def main() -> int:
    """Run the command. Threads that wait for each other sleep soon, so that another busy program costs its share only.

    Defined in chapter 91: `main-module`.
    """
    status = answer(sys.argv[1:])
    if status is not None:
        return status
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # turns of a waiting thread; read when PyTorch is loaded
    try:
        from annotated.cli import main as command
    except KeyboardInterrupt:  # loading PyTorch takes a second or two
        print("annotated: interrupted", file=sys.stderr)
        return 130
    return command()


if __name__ == "__main__":
    sys.exit(main())
