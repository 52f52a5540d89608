"""Processes: those that one has started, and how torchrun starts several."""

from __future__ import annotations

import socket
import subprocess
import sys


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True)
    return [int(one) for one in listed.stdout.split()]


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def torchrun(processes: int) -> list[str]:
    """The command by which torchrun starts so many processes of a module here."""
    launcher = [sys.executable, "-m", "torch.distributed.run"]
    return [*launcher, f"--nproc-per-node={processes}", f"--master-port={free_port()}"]
