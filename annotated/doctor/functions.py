"""What is asked of a loss, a schedule and a search."""

import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from annotated.doctor.fitting import kind
from annotated.doctor.subject import RIGHT, UNTRIED, VARIANT, WRONG, Broken, Verdict, raised

__all__ = ["Scripted"]


MODEL = r"model|^(net|network|transformer|seq2seq|module|m|system)$"
LOGITS = r"logit|pred|out|score|prob|^(x|input|inputs|y_hat|hyp)$"
STEP = r"step|^(t|s|n|i|it|iteration|epoch|num|count|x)$"
IDS = r"^(source|src|ids|tokens|x|batch|inp|input|inputs|input_ids|src_ids|sources)$"


def named(names: list[str], form: str) -> bool:
    """Whether the first of some names is of a form."""
    return bool(names) and bool(re.search(form, names[0].lower()))


def fits(function: Callable, form: str, number: int) -> bool:
    """Whether a function wants so many arguments, the first of a form; what takes any arguments fits."""
    every = parameters(function)
    if any(one.kind is one.VAR_POSITIONAL for one in every.values()):
        return True
    return len(required(function)) == number and not named(list(every), LOGITS if form is MODEL else MODEL)


def other_arguments(function: Callable, wanted: str) -> Verdict:
    """A function of the same name that does something else."""
    says = f"it wants {', '.join(required(function)) or 'none'}, where {wanted} are given"
    return Verdict(UNTRIED, "other arguments", says)


def cost(scores: Tensor, ids: Tensor, smoothing: float, **options: Any) -> float:
    """Cross-entropy of logits (rows, length, vocabulary)."""
    return float(F.cross_entropy(scores.flatten(0, 1), ids.flatten(), label_smoothing=smoothing, **options))


def check_loss_of_logits(loss: Callable, pad: int) -> Verdict:
    """Whether a loss of logits and targets leaves out padding; by value, as far as the value is known."""
    target = torch.tensor([[5, 6, 7, pad, pad], [8, 5, 6, 7, 9]])
    logits = torch.randn(2, 5, max(12, pad + 1), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    more = required(loss)[2:]
    if len(more) > 1 or (more and kind(more[0]) != "pad"):
        return other_arguments(loss, "logits, target")
    value = math.nan
    for scores, ids in ((logits.flatten(0, 1), target.flatten()), (logits, target)):
        try:
            out = loss(scores, ids, *([pad] if more else []))
            value = float(torch.as_tensor(out[0] if isinstance(out, tuple) else out).detach())
            break
        except Exception:  # in the other shape, perhaps
            continue
    usual = cost(logits, target, 0.0, ignore_index=pad)
    says = f"of logits and targets it says {value:.4f}; cross-entropy without padding is {usual:.4f}"
    for smoothing in (0.0, 0.1):
        options = {"smoothing": smoothing, "ignore_index": pad}
        forms = [
            (VARIANT if not smoothing else RIGHT, "no smoothing" * (not smoothing), cost(logits, target, **options)),
            (VARIANT, "summed", cost(logits, target, **options, reduction="sum")),
            (WRONG, "padding counted", cost(logits, target, smoothing)),
            (WRONG, "softmax twice", cost(logits.softmax(-1), target, **options)),
        ]
        for verdict, name, form in forms:
            if math.isclose(form, value, rel_tol=1e-5):
                return Verdict(verdict, name, says)
    return other_arguments(loss, "logits, target") if math.isnan(value) else Verdict(UNTRIED, "another value", says)


class Drawn(nn.Module):
    """A model whose logits were drawn beforehand; it remembers which target it was given."""

    def __init__(self, logits: Tensor):
        super().__init__()
        self.logits, self.given = nn.Parameter(logits), torch.empty(0)

    def forward(self, source: Tensor, target: Tensor | None = None) -> Tensor:
        self.given = target = source if target is None else target
        return self.logits[:, : target.shape[1]]


def check_loss(loss: Callable, pad: int = 0, bos: int = 2, eos: int = 3) -> Verdict:
    """Whether `loss(model, source, target)` shifts, leaves out padding, and means over tokens.

    The model is called as `model(source, target)`, or as `model(tokens)` for a `loss(model, tokens)`. Smoothing by 0.1
    and none are told apart from mistakes by value. A `loss(logits, target)` is asked what it makes of padding.
    """
    names, asked = list(parameters(loss)), required(loss)
    one_text = len(asked) == 2 and named(names[:1], MODEL)
    if named(names[:1], LOGITS) or (len(asked) == 2 and not one_text):
        return check_loss_of_logits(loss, pad)
    if not one_text and not fits(loss, MODEL, 3):
        return other_arguments(loss, "model, source, target")
    a, b, c, d = 5, 6, 7, 8
    source = torch.tensor([[a, b, c, pad], [d, a, b, c]])
    target = torch.tensor([[bos, a, b, eos, pad, pad], [bos, c, d, a, b, eos]])
    model = Drawn(
        torch.randn(
            2, 6, max(12, pad + 1, bos + 1, eos + 1), generator=torch.Generator().manual_seed(0), dtype=torch.float64
        )
    )
    try:
        value = float(torch.as_tensor(loss(model, *([] if one_text else [source]), target)).detach())
    except Exception as error:
        if one_text or (names and not named(names[:1], MODEL)):
            return other_arguments(loss, "model, tokens" if one_text else "model, source, target")
        return Verdict(WRONG, "raises", raised(error))
    given, every, wanted = model.given, model.logits.detach(), target[:, 1:]
    logits = every[:, :5]
    if not given.numel():
        return Verdict(WRONG, "model not called", "the model that was handed over is not asked")

    forms: list[tuple[str, str, float]] = []
    for smoothing in (0.1, 0.0):
        usual = {"smoothing": smoothing, "ignore_index": pad}
        rows = [cost(logits[i : i + 1], wanted[i : i + 1], **usual) for i in range(2)]
        forms += [
            (RIGHT, "", cost(logits, wanted, **usual))
            if smoothing
            else (VARIANT, "no smoothing", cost(logits, wanted, **usual)),
            (VARIANT, "summed", cost(logits, wanted, **usual, reduction="sum")),
            (WRONG, "not shifted", cost(logits, target[:, :-1], **usual)),
            (WRONG, "not shifted", cost(every, target, **usual)),
            (WRONG, "shifted twice", cost(logits[:, :4], target[:, 2:], **usual)),
            (WRONG, "padding counted", cost(logits, wanted, smoothing)),
            (WRONG, "a mean of the rows' means", sum(rows) / 2),
            (WRONG, "softmax twice", cost(logits.softmax(-1), wanted, **usual)),
        ]
    if one_text:  # packed, and nothing to leave out
        forms += [
            (WRONG, "not shifted", cost(every, target, 0.0)),
            (WRONG, "not shifted", cost(logits, target[:, :-1], 0.0)),
            (WRONG, "shifted twice", cost(logits[:, :4], target[:, 2:], 0.0)),
        ]
    verdict, name, _ = next(
        (one for one in forms if math.isclose(one[2], value, rel_tol=1e-5)), (WRONG, "another value", 0)
    )
    if given.shape == wanted.shape and torch.equal(given, wanted):
        verdict, name = WRONG, "reads the answer"
    if one_text and name in ("no smoothing", "padding counted"):  # texts that are packed have no padding
        verdict, name = (RIGHT, "") if name == "no smoothing" else (VARIANT, name)
    smoothing, told = (0.0, "") if one_text else (0.1, ", smoothed by 0.1,")
    right = f"cross-entropy{told} is {cost(logits, wanted, smoothing, ignore_index=pad):.4f}"
    return Verdict(verdict, name, f"it says {value:.4f}; {right}")


def parameters(function: Callable) -> dict[str, inspect.Parameter]:
    """A function's parameters by name; of what is not written in Python nothing is known."""
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def required(function: Callable) -> list[str]:
    """The parameters that a function cannot be called without."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one.name for one in parameters(function).values() if one.kind in kinds and one.default is one.empty]


def check_schedule(
    rate: Callable[..., float], d_model: int = 512, warmup: int = 4000, one_text: bool = False
) -> Verdict:
    """Whether `rate(step)` is equation (3), up to a constant factor; it may want `d_model` and `warmup` as well.

    Beside a model of one text another schedule is no mistake.
    """
    steps = [1, 2, warmup // 4, warmup // 2, warmup, 2 * warmup, 25 * warmup]
    asked = required(rate)
    others: Any = {}
    for one in asked[1:]:
        others |= {one: warmup} if "warm" in one else {one: d_model} if kind(one) == "d_model" else {}
    if len(asked) != 1 + len(others) and len(asked) <= 3:
        others = dict(zip(asked[1:], (d_model, warmup), strict=False))
    if len(asked) > 3 or re.search("opt|sched|model$|group|param|config|cfg|args", "".join(asked[:1])):
        return other_arguments(rate, "step, d_model, warmup")

    def ratios(form: Callable[[int], float]) -> list[float]:
        return [found / (d_model**-0.5 * form(step)) for step, found in zip(steps, rates, strict=True)]

    try:
        rates = [float(rate(step, **others)) for step in steps]
        stride = max(1, warmup // 100)
        peak = max(range(stride, 10 * warmup, stride), key=lambda step: rate(step, **others))
    except Exception as error:
        if asked and not named(asked, STEP):
            return other_arguments(rate, "step, d_model, warmup")
        return Verdict(WRONG, "raises", raised(error))
    forms = {
        "": lambda s: min(s**-0.5, s * warmup**-1.5),
        "larger of the two": lambda s: max(s**-0.5, s * warmup**-1.5),
        "no warm-up": lambda s: s**-0.5,
        "never falls": lambda s: s * warmup**-1.5,
        "counted from 0": lambda s: min((s + 1) ** -0.5, (s + 1) * warmup**-1.5),
        "stays at the peak": lambda s: min(warmup**-0.5, s * warmup**-1.5),
        "warm-up to the power -0.5": lambda s: min(s**-0.5, s * warmup**-0.5),
        "constant": lambda s: 1.0,
    }
    other = VARIANT if one_text else WRONG
    says = f"highest near step {peak}, with {max(rates):.3g}; "
    says += f"the paper's is highest at {warmup}, with {(d_model * warmup) ** -0.5:.3g}"
    for name, form in forms.items():
        found = ratios(form)
        if max(found) > 0 and max(found) - min(found) < 1e-6 * max(found):
            if name:
                return Verdict(other, name, says)
            same = math.isclose(found[0], 1, rel_tol=1e-6)
            if same:
                return Verdict(RIGHT, "", says)
            return Verdict(VARIANT, "another factor", f"{says}; {found[0]:.4g} times the paper's")
    paper = [d_model**-0.5 * forms[""](step) for step in steps]
    step, found, wanted = max(zip(steps, rates, paper, strict=True), key=lambda one: abs(one[1] - one[2]))
    return Verdict(other, "another shape", f"{says}; at step {step} it is {found:.3g}, the paper's {wanted:.3g}")


class Scripted(nn.Module):
    """A model that writes what its script says, if it is asked with what was written so far, and nonsense otherwise.

    It may be called as a whole, or as `encode(source)` and `decode(target, *encoded)`.
    """

    def __init__(self, script: dict[int, list[int]], bos: int, size: int = 30):
        super().__init__()
        self.script, self.bos, self.size = script, bos, size
        self.calls, self.modes, self.starts = 0, set(), set()

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        return source, source[:, None, None, :] != 0

    def decode(self, target: Tensor, memory: Tensor, *_: Tensor) -> Tensor:
        self.calls += 1
        if self.calls > 400:
            raise Broken("never stops", "400 steps, and no end")
        self.modes.add(self.training)
        self.starts = self.starts or set(target[:, 0].tolist())
        logits = torch.zeros(*target.shape, self.size)
        for row, ids in enumerate(target.tolist()):
            script = self.script[int(memory[row, 0])]
            for at in range(len(ids)):
                follows = ids[1 : at + 1] == script[:at] and ids[0] == self.bos and at < len(script)
                logits[row, at, script[at] if follows else self.size - 1] = 9.0
        return logits

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, *self.encode(source))


def check_search(search: Callable, bos: int = 2, eos: int = 3, pad: int = 0) -> Verdict:
    """Whether `search(model, source)` writes what the model says is likeliest, and ends where it should.

    It returns ids, a tensor or lists, with or without `bos` in front. The model can be called as a whole, or has
    `encode(source)` and `decode(target, *encoded)`.
    """
    names = list(parameters(search))
    if not fits(search, MODEL, 2) or any(one.annotation in (str, "str") for one in parameters(search).values()):
        return other_arguments(search, "model, source")
    long = [5, 6, 7, 8, 9, 5, 5, 8, 7, eos]
    script = {5: long, 6: [9, eos], 7: [8] * 1000}

    def written(rows: list[list[int]]) -> tuple[list[list[int]], Scripted]:
        model = Scripted(script, bos).train()
        found = search(model, torch.tensor(rows))
        found = found.tolist() if isinstance(found, Tensor) else [list(map(int, row)) for row in found]
        return [row[1:] if row[:1] == [bos] else row for row in found], model

    try:
        out, model = written([[5, 8, 8], [6, 8, 8]])
        endless = ""
        try:
            written([[7, 8, 8]])
        except Broken as error:
            endless = error.verdict.found
    except Broken as error:
        return error.verdict
    except Exception as error:
        if names and not (named(names, MODEL) and named(names[1:], IDS)):
            return other_arguments(search, "model, source")
        return Verdict(WRONG, "raises", raised(error))
    if len(out) != 2:
        return Verdict(WRONG, "another output", f"{len(out)} rows for 2 sources")
    one, two = out
    says = f"where {long} and {script[6]} are right, it writes {one} and {two}"
    if model.starts - {bos}:
        return Verdict(
            WRONG, "begins with another token", f"the target begins with {sorted(model.starts)}, not with {bos}"
        )
    if True in model.modes:
        return Verdict(WRONG, "searches with dropout", "the model is asked while it is in training")
    strip = lambda row: row[: row.index(eos)] if eos in row else [i for i in row if i != pad]  # noqa: E731
    if strip(one) == long[: len(strip(one))] and len(strip(one)) < len(long) - 1:
        return Verdict(WRONG, "ends too early", says)
    if strip(one) != long[:-1] or strip(two) != [9]:
        return Verdict(WRONG, "another output", says)
    if eos in two and any(i not in (eos, pad) for i in two[two.index(eos) :]):
        return Verdict(WRONG, "goes on after the end", says)
    if endless:
        return Verdict(WRONG, endless, "for a model that never ends a sentence it takes more than 400 steps")
    if model.calls > 2 * len(long):
        return Verdict(WRONG, "never looks for the end", f"{model.calls} steps for {len(long)} tokens")
    if not model.training:
        return Verdict(WRONG, "leaves the model in evaluation", "the next training step will have no dropout")
    return Verdict(RIGHT, "", f"{model.calls} steps, and {len(long)} tokens as the model wants them")
