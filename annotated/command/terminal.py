"""Lines in and out: chunks, bars, interruptions."""

import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from annotated.base.files import InputError
from annotated.machine.distributed import from_first, rank, world_size

__all__ = ["Stop", "chunks", "columns", "ended_like_ctrl_c", "input_lines", "say", "shared", "tell"]


SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Stop:
    """Whether a signal asked training to stop: called before each step.

    From the first call on, the first signal (Ctrl-C, a request to end, a closed terminal) is kept in `number`, said,
    and obeyed after the step; the second ends the process at once. Until then, while nothing is there to be saved,
    signals do what they always do. One that is ignored, as under `nohup`, stays so. Outside the main thread, which
    alone gets signals, nothing changes.
    """

    def __init__(self):
        self.number = 0
        self.before: dict[int, Any] = {}

    def __call__(self) -> bool:
        if not self.before and threading.current_thread() is threading.main_thread():
            heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
            self.before = {number: signal.signal(number, self.remember) for number in heard}
        return self.number > 0

    def __enter__(self) -> "Stop":
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler or signal.SIG_DFL)

    def remember(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        for one in self.before:
            signal.signal(one, signal.default_int_handler if one == signal.SIGINT else signal.SIG_DFL)
        if world_size() == 1:  # torchrun tells all of them, also when one has died
            say("stopping after this step; once more ends at once, without saving")


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Let a request to end, or a closed terminal, raise KeyboardInterrupt: a command can say how far it came."""

    def end(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    heard = [number for number in SIGNALS if number != signal.SIGINT and signal.getsignal(number) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        heard = []
    try:
        for number in heard:
            signal.signal(number, end)
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


def input_lines() -> Iterator[str]:
    """Lines of standard input as UTF-8. Raises InputError, naming the line, where it is not."""
    for number, line in enumerate(sys.stdin.buffer if sys.stdin else (), start=1):
        try:
            yield line.decode("utf-8").removeprefix("\ufeff").rstrip("\r\n")
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise InputError(
                f"standard input: line {number} is not UTF-8 (byte 0x{byte:02x})",
                "Convert the text, for example with `iconv -f latin1 -t utf-8`.",
            ) from None


def columns(line: str) -> tuple[str, str, str]:
    """What comes before the first tab of a line, the tab, and what comes after it, without blanks around."""
    before, tab, after = line.partition("\t")
    return before.strip(), tab, after.strip()


def chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lists of `size` lines; the last may be shorter. What came before an error is still handed on."""
    chunk: list[str] = []
    try:
        for line in lines:
            chunk.append(line)
            if len(chunk) == size:
                yield chunk
                chunk = []
    except InputError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def shared(chunks: Iterator[list[str]]) -> Iterator[list[str]]:
    """What the first process reads, in all of them."""
    while chunk := from_first(lambda: next(chunks, None)):
        yield chunk


def say(text: str) -> None:
    """A line for people, on standard error; of several processes only the first says it."""
    if not rank():
        tell(text)


def tell(text: str) -> None:
    """`say` of any process."""
    with suppress(OSError):  # a command goes on when nobody listens
        print(text, file=sys.stderr, flush=True)
