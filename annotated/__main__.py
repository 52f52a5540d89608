"""`python -m annotated`, and the `annotated` command."""

import os
import sys

from annotated.command.commands import answer

__all__ = ["main"]


def main() -> int:
    """Run the command. Threads that wait for each other sleep soon, and leave a busy machine to other programs."""
    status = answer(sys.argv[1:])
    if status is not None:
        return status
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # turns of a waiting thread; read when PyTorch is loaded
    try:
        from annotated.command.cli import main as command
    except KeyboardInterrupt:  # loading PyTorch takes a second or two
        print("annotated: interrupted", file=sys.stderr)
        return 130
    return command()


if __name__ == "__main__":
    sys.exit(main())
