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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from tools import limits

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        "torch._dynamo",
        "annotated.command.cli",
        "annotated.training",
        "annotated.machine.distributed",
        "annotated.search.translation",
    ]
)


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


def hearing(*ignored: int) -> Callable[[], None]:
    """For `preexec_fn`: signals but these have their usual effect, also where the tests were started without it."""
    usual = {signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}

    def prepare() -> None:
        for number, effect in usual.items():
            signal.signal(number, signal.SIG_IGN if number in ignored else effect)

    return prepare


def run(processes: int, module: str, *arguments: str, stdin: Path | None = None) -> subprocess.CompletedProcess:
    """`python -m MODULE ARGUMENTS` in so many processes, and what they wrote."""
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    with tempfile.TemporaryDirectory() as folder:
        with ExitStack() as stack:
            all_of_them = []
            for rank in range(processes):
                place = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                variables = shared | place if processes > 1 else {}
                one = started(Path(folder), module, *arguments, stdin=stdin, variables=variables)
                all_of_them.append(stack.enter_context(one))
            for process in all_of_them:
                process.join(limits.PROCESS)
            # None where a process hangs, negative where a signal ended it
            ends = [process.exitcode for process in all_of_them]
        texts = [(Path(folder) / name).read_text(encoding="utf-8") for name in ("out", "err")]
    assert None not in ends, f"still running after {limits.PROCESS} s: {arguments}: {texts[1]}"
    return subprocess.CompletedProcess(arguments, next(filter(None, ends), 0), *texts)


@contextmanager
def started(
    folder: Path, module: str, *arguments: object, stdin: Path | None = None, variables: dict[str, str] | None = None,
    ignored: tuple[int, ...] = (),
) -> Iterator[BaseProcess]:  # fmt: skip
    """A process that does so, and writes into `out` and `err` of the folder; it is gone in the end."""
    given = (variables or {}, ignored, str(stdin or os.devnull), str(folder), [module, *map(str, arguments)])
    process = SERVER.Process(target=run_module, args=given)
    process.start()
    try:
        yield process
    finally:
        process.kill()


def run_module(
    variables: dict[str, str], ignored: tuple[int, ...], stdin: str, folder: str, arguments: list[str]
) -> None:
    """What each process does: its variables, signals and files, then the module."""
    hearing(*ignored)()
    os.environ.update(variables)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(folder) / name, flags), number)
    os.dup2(os.open(stdin, os.O_RDONLY), 0)
    sys.stdin, sys.argv = os.fdopen(0, encoding="utf-8"), list(arguments)
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
