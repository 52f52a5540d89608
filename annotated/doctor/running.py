"""Somebody's file: run, and what is in it checked."""

import inspect
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from annotated.base.files import InputError
from annotated.doctor.calling import Call, OneText, Pair, fitted, inputs_of, side_of
from annotated.doctor.fitting import SIZES, Hole, candidates, is_size, kind, missing, small_values, ways, words_in
from annotated.doctor.functions import check_loss, check_schedule, check_search, parameters, required
from annotated.doctor.one_text import Reading, fitted_text
from annotated.doctor.opening import Absent, Opened, opened
from annotated.doctor.reporting import Finding, Report, check
from annotated.doctor.subject import Broken, StillRunning, Verdict, raised
from annotated.doctor.wrapping import lines_for

__all__ = ["FUNCTIONS", "Closed", "at_most", "check_file", "names_in", "run_file"]


class Asked(NamedTuple):
    """How a function is checked, and which options the check takes."""

    ask: Callable[..., Verdict]
    options: tuple[str, ...]

    def given(self, options: dict[str, Any]) -> dict[str, Any]:
        """Those of the options that the check takes."""
        return {name: options[name] for name in self.options if options.get(name) is not None}


FUNCTIONS = {
    "loss": Asked(check_loss, ("pad", "bos", "eos")),
    "learning_rate": Asked(check_schedule, ("one_text",)),
    "translate": Asked(check_search, ("pad", "bos", "eos")),
}


SHARE = 0.5  # of the time, for running a file, before what it has not defined by then is left out
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


def names_in(path: str | Path, seconds: float = 60.0) -> dict[str, Any]:
    """The names that a file defines, as `annotated check` runs it: also of a notebook, or of one that fails.

    For a wrapper that cannot import it.
    """
    with opened(Path(path)) as one:
        return one.names


class Closed(InputError):
    """A model could not be made or called; `lines` are what to write, and `file` is what was run."""

    def __init__(self, message: str, todo: str, lines: str = "", file: Opened | None = None):
        super().__init__(message, todo)
        self.lines, self.file = lines, file


class Reports(dict[str, Report]):
    """Reports by the name of what was asked, and `notes` on how the file ran, a line each."""

    notes: list[str]


IDS = {  # what people call the ids of padding, of the beginning and of the end
    "pad": r"(^|_)pad(ding)?(_?(id|idx|index|ix|token|tok|token_id|symbol))?$",
    "bos": r"(^|_)(bos|sos|go|(start|decoder_start)_(token|id|idx|symbol))(_?(id|idx|index|ix|token|token_id))?$",
    "eos": r"(^|_)(eos|end_(token|id|idx|symbol))(_?(id|idx|index|ix|token|token_id))?$",
}


def special_ids(names: dict[str, Any], options: dict[str, Any]) -> dict[str, int]:
    """The special ids: as the user says, else as a model, a constructor or a name of the file does, else 0, 2, 3."""
    places: list[dict[str, Any]] = []
    for one in names.values():
        if isinstance(one, nn.Module):
            places += [vars(one), getattr(getattr(one, "config", None), "__dict__", {})]
    places.append(names)
    for one in names.values():
        if inspect.isclass(one) and not one.__module__.startswith(("torch", "builtins")):
            places += [{name: value for name, value in vars(one).items() if not name.startswith("__")}]
            places += [{name: value.default for name, value in parameters(one).items()}]
    found: dict[str, int] = {}
    for role, usual in {"pad": 0, "bos": 2, "eos": 3}.items():
        if options.get(role) is not None:
            found[role] = options[role]
            continue
        said = [
            value
            for place in places
            for name, value in place.items()
            if re.search(IDS[role], str(name).lower()) and is_size(value) and 0 <= value < SIZES["vocab"]
        ]
        free = [one for one in (*said, usual, 2, 3, 1, 0) if one not in found.values()]
        found[role] = free[0]
    return found


class Raising(Exception):
    """A model that is the user's own in all its sizes, and raises something when it is called: that is a finding."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model


IDS_OF_A_TEXT = r"^(in_|input_|token_)?(tokens?|ids|idx|x|text)$"


def answers(value: Any, one_text: bool = False) -> bool:
    """Whether a function is one of a source and a target, or of a text, and not one that makes a model."""
    asked = required(value)
    return (
        not isinstance(value, type)
        and (len(asked) > 1 or (len(asked) == 1 and (one_text or re.search(IDS_OF_A_TEXT, asked[0].lower()))))
        and all("mask" in one or re.search(IDS_OF_A_TEXT, one.lower()) or kind(one) in ("", "side") for one in asked)
    )


def sizes_in(names: dict[str, Any], values: dict[str, Any]) -> Iterator[tuple[int, int, int]]:
    """Lengths of source and target, and sizes of a batch, that a file may have fixed, by its names."""
    sizes = {name: one for name, one in names.items() if is_size(one) and 0 < one <= 1000}
    rows = [one for name, one in sizes.items() if re.search("batch_?size", name.lower())]
    lengths = {side: [one for name, one in sizes.items() if kind(name) == "max_len" and side_of(name) in ("", side)]
        for side in ("source", "target")}  # fmt: skip
    for many in (0, *rows[:1]):
        for source in (values["max_len"], *lengths["source"][:2]):
            for target in dict.fromkeys((source, *lengths["target"][:2])):
                yield source, target, many


def entered(file: Opened, name: str, values: dict[str, Any], one_text: bool = False) -> tuple[Any, Call | Reading]:
    """A model, and how it is called, with a source and a target or with one text.

    Raises what the first way to make it, or to call it, raised.
    """
    value, first = file.names[name], None
    if is_whole := isinstance(value, nn.Module) or answers(value, one_text):
        made = iter([value])
    else:
        made = ways(value, file.names, values)
    for model in made:
        if isinstance(model, (tuple, list)):
            model = next((one for one in model if isinstance(one, nn.Module)), model)
        if not callable(model):
            raise InputError(f"{file.shown}: {name} is no model, but makes one of the type {type(model).__name__}")
        try:
            if one_text:
                return model, fitted_text(model, values)
            return model, fitted(model, file.names, values, sizes_in(file.names, values))
        except (Exception, SystemExit) as error:
            first = first or error
            own = (is_whole or not required(value)) and not (file.failures and isinstance(error, NameError))
            own = own or (isinstance(error, Broken) and error.verdict.found == "raises where lengths differ")
            if (
                own
                and not one_text
                and not isinstance(error, OneText)
                and all(one.what != "mask" for one in inputs_of(model))
            ):
                first = Raising(model)
    raise first


def check_file(
    path: str | Path, name: str = "", *, seconds: float = 60.0, wrap: bool = False, **options: Any
) -> Reports:
    """Run a file and check what is in it: its model, and `loss`, `learning_rate` and `translate` if they fit.

    With a name, only that: a model, a class or function that makes one, a function of source and target ids, or of the
    ids of one text, or one of those three. With `wrap` no model is looked for, and the lines to write are raised.
    `options` are those of `check`; special ids that are None are read from the file. Raises InputError when the file
    fails, or holds nothing to check, and `Closed` with the lines to write where a model could not be made or called.
    """
    path = Path(path)
    with ExitStack() as stack:
        try:
            with at_most(SHARE * seconds), redirect_stdout(sys.stderr):
                file = stack.enter_context(opened(path))
        except (Exception, SystemExit, StillRunning) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path}: {raised(error)}", "Run the file by itself.") from None
        if name and name not in file.names:
            raise InputError(
                f"{path}: no {name} in it",
                f"What stands after the colon is a name that the file defines. {' '.join(file.notes)}".strip(),
            )
        if name and not callable(value := file.names[name]):
            raise InputError(
                f"{path}: {name} is no model, but of the type {type(value).__name__}",
                "Name a module, a class or function that makes one, or a function of source and target ids, or of the "
                "ids of one text.",
            )
        options |= special_ids(file.names, options)
        functions = [one for one in FUNCTIONS if inspect.isroutine(file.names.get(one)) and required(file.names[one])]
        models = [] if name in FUNCTIONS else [name] if name else candidates(file.names, file.module)
        if {"Encoder", "Decoder"} <= set(models):
            words = {word for one in models for word in words_in(file.names[one])}
            if not {"Encoder", "encoder", "encode"} & words:  # nothing joins them
                file.names["Encoder and Decoder"] = Pair
                models.append("Encoder and Decoder")
        if not models and not functions:
            if file.failures:
                raise InputError(
                    f"{path}: {file.failures[0]}",
                    'Run the file by itself. What trains stands below `if __name__ == "__main__":`.',
                )
            raise InputError(
                f"{path}: no model in it; name one as {path}:NAME, or a function that makes one",
                "A class that is a module, a module, and a function called make_model are found without a name.",
            )
        reports = Reports()
        reports.notes = file.notes
        if models:
            found, model, call = look_for(file, models, seconds, wrap, options)
            options["one_text"] = isinstance(call, Reading)
            reports |= ask(path, found, seconds, lambda: check(model, call, **options))
        for one in [name] if name in FUNCTIONS else [] if name else functions:
            asked = FUNCTIONS[one]
            reports |= ask(path, one, seconds, lambda one=one, asked=asked: Report((
                Finding(one, *asked.ask(file.names[one], **asked.given(options)), "", ""),
            )))  # fmt: skip
        return reports


def look_for(
    file: Opened, models: list[str], seconds: float, wrap: bool, options: dict[str, Any]
) -> tuple[str, Any, Any]:
    """The first of these names that can be entered, its model, and how it is called."""
    values = small_values(*(options[one] for one in ("pad", "bos", "eos")))
    errors: dict[str, BaseException] = {}
    raising: tuple | None = None
    some = [*models[:8], *(one for one in models[8:] if one == "Encoder and Decoder")]

    def tried(one: str, one_text: bool) -> tuple[str, Any, Any]:
        with at_most(seconds), redirect_stdout(sys.stderr), torch.random.fork_rng(devices=[]):
            while True:
                try:
                    return one, *entered(file, one, values, one_text)
                except NameError as error:
                    if not file.failures or not missing(error, values):
                        raise

    for one in [] if wrap or options.get("one_text") else some:
        try:
            return tried(one, False)
        except InputError:
            if len(models) == 1:
                raise
        except Raising as error:  # a part tells nothing of a whole that could not be entered
            raising = raising or (None if errors else (one, error.model, None))
        except (Exception, SystemExit, StillRunning, Absent) as error:
            errors[one] = error
    if raising:
        return raising
    takes_one = [one for one in some if isinstance(errors.get(one), OneText) or not errors]
    reads = takes_one[:1] == [*errors][:1] or bool(options.get("one_text"))
    for one in takes_one if reads and not wrap else ():
        try:
            return tried(one, True)
        except (Exception, SystemExit, StillRunning, Absent) as error:
            errors[one] = error
    path, name = file.shown, next(iter(errors), models[0])
    error = errors.get(name)
    if isinstance(error, Absent):
        package = str(error).partition(".")[0]
        raise InputError(f"{path}: {name} itself calls {error}, which cannot be imported", f"Install {package}.")
    if isinstance(error, StillRunning):
        raise InputError(f"{path}: {name}: {raised(error)}", "Mend that line, or allow more `--seconds`.")
    if isinstance(error, Broken) and error.verdict.found == "no logits":
        raise InputError(
            f"{path}: {name} takes one text, and {error}", f"Name the model with its output, as {path}:NAME."
        )
    says = str(error) if isinstance(error, Hole) else f"{name}: {raised(error)}" if error else "the lines to fill in"
    raise Closed(f"{path}: {says}", "", lines_for(file, name, values, wrap, reads), file)


def ask(path: Path, name: str, seconds: float, question: Callable[[], Report]) -> dict[str, Report]:
    """What is found, by its name. Raises InputError where it takes too long, or needs what is not installed."""
    try:
        with at_most(seconds), redirect_stdout(sys.stderr):
            return {name: question()}
    except StillRunning as error:
        raise InputError(f"{path}: {name}: {raised(error)}", "Mend that line, or allow more `--seconds`.") from None
    except Absent as error:
        package = str(error).partition(".")[0]
        raise InputError(
            f"{path}: {name} itself calls {error}, which cannot be imported", f"Install {package}."
        ) from None
