"""A disk that fails at one chosen operation, in one chosen way (chapter 94)."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from unittest import mock

from annotated.base import files
from annotated.base.files import Disk

KINDS = ("no space", "error", "short", "crash before", "crash after", "crash half", "power cut")


class Crash(BaseException):
    """The process is gone: no handler runs, no file is cleaned up."""


class FaultyDisk(Disk):
    """A disk whose operation number `at` goes wrong in one of `KINDS`; with 0, it only counts them."""

    def __init__(self, at: int = 0, kind: str = "error"):
        self.at, self.kind, self.count, self.dead = at, kind, 0, False
        self.completed: int | None = None  # the step of the last checkpoint whose manifest got its name

    def attempt(self, act: Callable[[], Any], path: Path, content: bytes | None = None) -> Any:
        """Do an operation; if its turn to fail has come, do as much of it as the kind of fault allows, and raise."""
        if self.dead:
            raise Crash
        self.count += 1
        if self.count != self.at:
            return act()
        if content is not None and self.kind in ("short", "crash half", "power cut"):
            path.write_bytes(b"" if self.kind == "power cut" else content[: len(content) // 2])
        elif self.kind == "crash after":
            act()
        if self.kind.startswith("crash") or self.kind == "power cut":
            self.dead = True
            raise Crash
        number = errno.EIO if self.kind == "error" else errno.ENOSPC
        raise OSError(number, os.strerror(number))

    def read(self, path: Path) -> bytes:
        return self.attempt(partial(super().read, path), path)

    def open(self, path: Path) -> BinaryIO:
        return self.attempt(partial(super().open, path), path)

    def write(self, path: Path, content: bytes) -> None:
        self.attempt(partial(super().write, path, content), path, content)

    def append(self, path: Path, content: bytes, wait: bool = False) -> None:
        before = path.read_bytes() if path.exists() else b""
        self.attempt(partial(super().append, path, content, wait), path, before + content)

    def rename(self, old: Path, new: Path) -> None:
        self.attempt(partial(super().rename, old, new), new)
        if new.match("checkpoints/step-*.json"):
            self.completed = int(new.stem.removeprefix("step-"))

    def remove(self, path: Path) -> None:
        self.attempt(partial(super().remove, path), path)

    def make_folder(self, path: Path) -> None:
        self.attempt(partial(super().make_folder, path), path)


def with_disk(disk: Disk) -> AbstractContextManager:
    """Let the whole package work on this disk for a while."""
    operations = (name for name in vars(Disk) if not name.startswith("_"))
    return mock.patch.multiple(files.disk, **{name: getattr(disk, name) for name in operations})
