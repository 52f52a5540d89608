"""Commands in processes of their own, one or several as torchrun starts them, without importing everything each time.

They are forked from a server that has imported the package once; importing PyTorch takes longer than most of what these
tests let them do.
"""

import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tools import limits

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    ["torch._dynamo", "annotated.cli", "annotated.training", "annotated.distributed", "annotated.translation"]
)


def hearing(*ignored: int) -> Callable[[], None]:
    """For `preexec_fn`: signals but these have their usual effect, also where the tests were started without it."""

    def prepare() -> None:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

    return prepare


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run(processes: int, module: str, *arguments: str, stdin: Path | None = None) -> subprocess.CompletedProcess:
    """`python -m MODULE ARGUMENTS` in so many processes, and what they wrote."""
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for rank in range(processes):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            variables = shared | place if processes > 1 else {}
            given = (variables, str(stdin or os.devnull), folder, [module, *map(str, arguments)])
            started.append(SERVER.Process(target=run_module, args=given))
            started[-1].start()
        try:
            for process in started:
                process.join(limits.PROCESS)
        finally:
            for process in started:
                process.kill()
        texts = [(Path(folder) / name).read_text(encoding="utf-8") for name in ("out", "err")]
    return subprocess.CompletedProcess(arguments, max(process.exitcode or 0 for process in started), *texts)


def run_module(variables: dict[str, str], stdin: str, folder: str, arguments: list[str]) -> None:
    """What each process does: its variables and files, then the module."""
    os.environ.update(variables)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(folder) / name, flags), number)
    os.dup2(os.open(stdin, os.O_RDONLY), 0)
    sys.stdin, sys.argv = os.fdopen(0, encoding="utf-8"), list(arguments)
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
