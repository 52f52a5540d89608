# Written by `make export` from book/94_nothing_lost.ipynb: do not edit here, edit the chapter.
"""Nothing lost: chapter 94 of the book."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import load_file
from torch import Tensor

__all__ = ["InputError", "read_json", "read_tensors", "write_atomically", "write_json"]


# book/94_nothing_lost.ipynb#files-imports
class InputError(ValueError):
    """Something the user gave cannot be used. The message is one line: what, where, and what to do.

    Defined in chapter 94: `files-imports`.
    """


# book/94_nothing_lost.ipynb#atomic-writes
def write_atomically(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: under another name first, then renamed.

    Raises InputError, naming the file, when it cannot be written; what was there before stays.

    Defined in chapter 94: `atomic-writes`.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException as error:
        with suppress(OSError):  # in a folder that is gone or read-only nothing was written
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(f"{path}: cannot be written ({error.strerror})") from None
        raise


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON, atomically.

    Defined in chapter 94: `atomic-writes`.
    """
    write_atomically(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


# book/94_nothing_lost.ipynb#read-files
def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises InputError when it is missing or not JSON.

    Defined in chapter 94: `read-files`.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise InputError(f"{path}: not a JSON file ({error})") from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file. Raises InputError when it is missing, truncated or another kind of file.

    Defined in chapter 94: `read-files`.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        return load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a readable safetensors file ({error})") from None
