"""Somebody's file: run, and what is in it checked."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from annotated.base.files import InputError
from annotated.doctor.asking import StillRunning, Verdict, raised
from annotated.doctor.functions import check_loss, check_schedule, check_search, parameters, required
from annotated.doctor.opening import opened
from annotated.doctor.reporting import Finding, Report, check

__all__ = ["FUNCTIONS", "at_most", "check_file", "run_file"]


ARGUMENTS = {  # what a class is made with, if it asks for it: names that people give to such arguments
    "vocab": 40, "vocab_size": 40, "src_vocab": 40, "tgt_vocab": 40, "src_vocab_size": 40, "tgt_vocab_size": 40,
    "source_vocab_size": 40, "target_vocab_size": 40, "num_tokens": 40, "d_model": 32, "d": 32, "dim": 32, "d_ff": 48,
    "dim_feedforward": 48, "num_heads": 4, "heads": 4, "nhead": 4, "h": 4, "n_heads": 4, "num_layers": 2, "n_layers": 2,
    "layers": 2, "N": 2, "num_encoder_layers": 2, "num_decoder_layers": 2, "max_len": 64, "max_length": 64,
}  # fmt: skip


class Asked(NamedTuple):
    """How a function is checked, how many arguments it may need, and whether it is told the special ids."""

    ask: Callable[..., Verdict]
    asked: tuple[int, ...]
    by_ids: bool

    def given(self, options: dict[str, Any]) -> dict[str, int]:
        """Those of the options that the check takes."""
        return {name: options[name] for name in ("pad", "bos", "eos") if name in options} if self.by_ids else {}


FUNCTIONS = {
    "loss": Asked(check_loss, (3,), True),
    "learning_rate": Asked(check_schedule, (1, 2, 3), False),
    "translate": Asked(check_search, (2,), True),
}


PATIENCE = 6  # how many times as long an answer may take by the clock on the wall, asleep or beside other programs


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise StillRunning in what computes longer, in the line where it is; where there is no such clock, wait.

    Only the processor time of this thread counts, since other programs may keep the machine busy. What sleeps needs
    none: it ends when six times as long has passed.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    computed, waited = time.thread_time(), time.monotonic()

    def look(*_: Any) -> None:
        rest = seconds - (time.thread_time() - computed)
        patience = PATIENCE * seconds - (time.monotonic() - waited)
        if rest <= 0:
            signal.setitimer(signal.ITIMER_REAL, max(1.0, seconds / 10))  # again, for what goes on all the same
            raise StillRunning(f"still running after {seconds:g} seconds")
        if patience <= 0:
            raise StillRunning(f"still waiting after {PATIENCE * seconds:g} seconds")
        signal.setitimer(signal.ITIMER_REAL, max(min(rest, patience), 0.01))

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run_file(path: Path, seconds: float = 60.0) -> dict[str, Any]:
    """The names that a Python file defines. Raises InputError for what goes wrong in it, with its line."""
    try:
        with at_most(seconds), redirect_stdout(sys.stderr), opened(path, strict=True) as one:
            return one.names
    except InputError:
        raise
    except (Exception, SystemExit, StillRunning) as error:
        raise InputError(
            f"{path}: {raised(error)}", 'Run the file by itself. What trains stands below `if __name__ == "__main__":`.'
        ) from None


def made(path: Path, name: str, value: Any) -> Any:
    """A model as it is, or what a class or function without further arguments makes. Raises InputError."""
    if isinstance(value, nn.Module):
        return value
    if not callable(value):
        raise InputError(
            f"{path}: {name} is no model, but of the type {type(value).__name__}",
            "Name a module, a class or function that makes one, or a function of source and target ids.",
        )
    given = {one: ARGUMENTS[one] for one in parameters(value) if one in ARGUMENTS}
    missing = [one for one in required(value) if one not in given]
    if not isinstance(value, type) and len(missing) == 2 and not given:
        return value  # a function of source and target
    if missing:
        raise InputError(
            f"{path}: {name} wants {missing[0]!r}; name a function without arguments that makes a model",
            "Such as `def make_model(): return Mine(...)`, with small sizes.",
        )
    try:
        return value(**given)
    except (Exception, SystemExit) as error:
        raise InputError(f"{path}: {name}: {raised(error)}", "Mend that line, or allow more `--seconds`.") from None


def check_file(path: str | Path, name: str = "", *, seconds: float = 60.0, **options: Any) -> dict[str, Report]:
    """Run a file and check what is in it, by name: its model, and `loss`, `learning_rate` and `translate` if they fit.

    With a name, only that: a model, a class or function that makes one, a function of source and target, or one of
    those three. `options` are those of `check`. Raises InputError when the file fails, or holds nothing to check.
    """
    path = Path(path)
    found = run_file(path, seconds)
    if name and name not in found:
        raise InputError(f"{path}: no {name} in it", "What stands after the colon is a name that the file defines.")
    modules = {
        one: sum(p.numel() for p in value.parameters()) for one, value in found.items() if isinstance(value, nn.Module)
    }
    models = ["model"] if "model" in modules else sorted(modules, key=lambda one: -modules[one])
    own = {one for one, value in found.items() if getattr(value, "__module__", "") == path.stem}
    models += [one for one in ("make_model", "build_model", "Transformer", "Model", "Seq2Seq") if one in own]
    functions = [
        one for one in FUNCTIONS if callable(found.get(one)) and len(required(found[one])) in FUNCTIONS[one].asked
    ]
    names = [name] if name else [*models[:1], *functions]
    if not names:
        raise InputError(
            f"{path}: no model in it; name one as {path}:NAME, or a function that makes one",
            "A class called Transformer, Model or Seq2Seq is found without a name.",
        )
    reports = {}
    for one in names:
        try:
            with at_most(seconds), redirect_stdout(sys.stderr):
                if one in FUNCTIONS:
                    verdict = FUNCTIONS[one].ask(found[one], **FUNCTIONS[one].given(options))
                    reports[one] = Report((Finding(one, *verdict, "", ""),))
                else:
                    reports[one] = check(made(path, one, found[one]), **options)
        except StillRunning as error:
            raise InputError(f"{path}: {one}: {raised(error)}", "Mend that line, or allow more `--seconds`.") from None
    return reports
