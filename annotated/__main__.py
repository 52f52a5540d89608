# Written by `make export` from book/91_command_line.ipynb: do not edit here, edit the chapter.
"""The command line: chapter 91 of the book."""

import sys

from annotated.cli import main

# book/91_command_line.ipynb#main-module
if __name__ == "__main__":
    sys.exit(main())
