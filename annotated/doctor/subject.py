"""Somebody's model, called with ids, whatever way it wants them."""

import copy
import math
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property, partial
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from annotated.doctor.watching import Attention, Mode, Watch

__all__ = ["Broken", "MINE", "StillRunning", "Subject", "Verdict", "WRONG", "copied", "logits_in", "raised"]


RIGHT, WRONG, VARIANT, UNTRIED = "right", "wrong", "variant", "not tried"
DOES_NOT_APPLY = "does not apply"  # not tried either, and nothing is missing: a model of another kind


STANDARD = tuple({sysconfig.get_path(one) for one in ("stdlib", "platstdlib")})  # Python's own library
MINE = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))  # folders of code that is not theirs


DTYPES = (torch.float64, torch.float32)


class Verdict(NamedTuple):
    """What a check has found: a verdict, a name for it (empty where all is right), and the numbers."""

    verdict: str
    found: str
    says: str


class Broken(Exception):
    """The model did not answer with logits: `found` and what to say of it."""

    def __init__(self, found: str, says: str):
        super().__init__(says)
        self.verdict = Verdict(WRONG, found, says)


class StillRunning(BaseException):
    """The time is up: nothing that a check catches."""


class WithoutDropout(Mode):
    """Within it dropout leaves every number as it is, also in training: each coin falls on its mean."""

    coins = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func.overloadpacket.__name__ == "bernoulli_":
            self.coins += 1
            return args[0].fill_(args[1] if len(args) > 1 else 0.5)
        return func(*args, **(kwargs or {}))


def copied(model: nn.Module) -> nn.Module:
    """A copy on the processor. What a model keeps of its last call has a history, and is copied without."""
    model = getattr(model, "_orig_mod", model)  # of what torch.compile has wrapped
    stores = [store for module in model.modules() for store in (vars(module), module._buffers)]
    kept = [one for store in stores for one in store.values() if isinstance(one, Tensor)]
    return copy.deepcopy(model, {id(one): one.detach() for one in kept if not one.is_leaf}).cpu()


def logits_in(out: Any, rows: int, length: int) -> Tensor | None:
    """The logits (rows, length, vocabulary) in what a model returned, which may be in a tuple, a dict or an object.

    They may be (rows x length, vocabulary), or (rows, vocabulary, length), too. None where there are none.
    """
    if isinstance(out, Tensor):
        if out.dim() == 3 and out.shape[:2] == (rows, length):
            return out
        if out.dim() == 2 and len(out) == rows * length and out.is_floating_point():
            return out.unflatten(0, (rows, length))
        if out.dim() == 3 and (len(out), out.shape[2]) == (rows, length):
            return out.mT
        return None
    if isinstance(out, dict):
        parts = [*(out[name] for name in ("logits", "output") if name in out), *out.values()]
    elif hasattr(out, "logits"):
        parts = [out.logits]
    else:
        parts = list(out) if isinstance(out, (tuple, list)) else list(getattr(out, "__dict__", {}).values())
    return next((one for one in (logits_in(part, rows, length) for part in parts) if one is not None), None)


def modules_behind(function: Any, depth: int = 3) -> list[nn.Module]:
    """The modules that a function uses: in its closure, in the globals that it names, or as what it belongs to."""
    if isinstance(function, nn.Module):
        return [function]
    if depth == 0 or function is None or isinstance(function, (type, str, Tensor)):
        return []
    inner: list[Any] = []
    if isinstance(function, (list, tuple)):
        inner = list(function)
    elif isinstance(function, dict):
        inner = list(function.values())
    elif isinstance(function, MethodType):
        inner = [function.__self__]
    elif isinstance(function, partial):
        inner = [function.func, *function.args, *function.keywords.values()]
    elif isinstance(function, FunctionType):
        code = [function.__code__, *(one for one in function.__code__.co_consts if hasattr(one, "co_names"))]
        inner = [function.__globals__.get(name) for one in code for name in one.co_names]
        with suppress(ValueError):  # a cell may still be empty
            inner += [cell.cell_contents for cell in function.__closure__ or ()]
        inner += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    elif not isinstance(function, ModuleType):
        inner = list(getattr(function, "__dict__", {}).values())
    found = {id(one): one for part in inner for one in modules_behind(part, depth - 1)}
    below = {id(one) for module in found.values() for one in module.modules() if one is not module}
    return [one for one in found.values() if id(one) not in below]


class Subject:
    """A copy of somebody's model, called with ids (batch, length), whatever order of axes it wants.

    `call(model, source, target)` says how it is called, if not as `model(source, target)`. A function's own modules
    are looked at as they are used, and are put back by `end`.
    """

    one_text = False
    stores = False  # whether keys come from a store of the model's

    def __init__(self, model: Callable, call: Callable | None, pad: int, bos: int, eos: int, vocab: int | None):
        self.pad, self.bos, self.eos, self.vocab = pad, bos, eos, vocab or 200
        self.module = copied(model) if isinstance(model, nn.Module) else None
        self.model = model if self.module is None else self.module
        self.call = call or (lambda model, source, target: model(source, target))
        self.dtype, self.batch_first, self.shifts = torch.float64, True, False
        self.measured: dict[Callable, Any] = {}
        self.before: list[tuple] = []
        self.modes: list[tuple[nn.Module, bool]] = []
        if self.module is None:
            self.look_at(modules_behind(model))

    def look_at(self, modules: list[nn.Module]) -> None:
        """Take the modules of a function for its module, and remember how they were."""
        self.module = (modules[0] if len(modules) == 1 else nn.ModuleList(modules)) if modules else None
        every = {id(one): one for module in modules for one in module.modules()}.values()
        stores = [store for one in every for store in (one._parameters, one._buffers)]
        self.before = [
            (store, name, one, one.data.clone()) for store in stores for name, one in store.items() if one is not None
        ]
        self.modes = [(one, one.training) for one in every]

    def end(self) -> None:
        """Put a function's modules back as they were."""
        for module, training in self.modes:
            module.training = training
        for store, name, one, data in self.before:
            one.data, store[name] = data, one

    def __call__(
        self, source: Tensor, target: Tensor, training: bool = False, dropout: bool = False, watch: Any = None
    ) -> Tensor:
        """Logits (batch, target, vocabulary). Raises Broken when something else comes out."""
        if training:  # by which means of batches change, for one
            self.measured.clear()
        given = F.pad(target, (0, 1), value=self.pad) if self.shifts else target  # the last is cut off inside
        ids = (source, given) if self.batch_first else (source.T, given.T)
        with self.settings(training), watch or (nullcontext() if dropout or not training else WithoutDropout()):
            out = self.call(self.model, *ids)
        rows, length = target.shape
        logits = logits_in(out, *((rows, length) if self.batch_first else (length, rows)))
        if logits is not None:
            return logits if self.batch_first else logits.transpose(0, 1)
        out = getattr(out, "logits", out)
        if isinstance(out, (tuple, list)):
            out = next((one for one in out if isinstance(one, Tensor) and one.dim() > 1), out)
        if not isinstance(out, Tensor):
            raise Broken("no tensor", f"{type(out).__name__} came out, where a tensor of logits was expected")
        raise Broken("shape", f"{tuple(out.shape)} came out, where {(*target.shape, 'vocabulary')} was expected")

    @contextmanager
    def settings(self, training: bool) -> Iterator[None]:
        """Double precision as default, and all computed as it is written, not compiled; afterwards as before."""
        has_compiler = "torch._dynamo" in sys.modules  # which takes a second to load
        dtype, fast = torch.get_default_dtype(), torch.backends.mha.get_fastpath_enabled()
        try:
            torch.set_default_dtype(self.dtype)
            torch.backends.mha.set_fastpath_enabled(False)
            if self.module is not None and any(one.training != training for one in self.module.modules()):
                self.module.train(training)
            eager = torch.compiler.set_stance("force_eager") if has_compiler else nullcontext()
            with eager, sdpa_kernel(SDPBackend.MATH):
                yield
        finally:
            torch.set_default_dtype(dtype)
            torch.backends.mha.set_fastpath_enabled(fast)

    def begin(self) -> Verdict:
        """Find out how the model wants to be called, and how many ids it knows; raises what it raised."""
        a, b, c = (self.plain_ids * 3)[:3]  # the smallest, since a table may be small
        source, target = torch.tensor([[a, b, c, a, b]] * 3), torch.tensor([[self.bos, a, b, c]] * 3)
        orders = getattr(self.call, "orders", (True, False))
        ways = [(dtype, first, cut) for dtype in DTYPES for cut in (False, True) for first in orders]
        error: Exception | None = None
        for self.dtype, self.batch_first, self.shifts in ways:
            try:
                out = self.first_call(source, target)
            except Exception as one:
                if self.batch_first and not self.shifts:  # of single precision, if that fails too: it is the model's
                    error = one
                continue
            self.vocab = min(self.vocab, out.shape[-1])
            bad = int((~torch.isfinite(out)).sum())
            if bad:
                return Verdict(WRONG, "not finite", f"{bad} of {out.numel()} logits are no numbers")
            order = "(batch, length)" if self.batch_first else "(length, batch)"
            says = f"ids {order} in, {out.shape[-1]} logits for each out, computed in {str(self.dtype)[6:]}"
            says += self.known_ids(source, target)
            if self.shifts:
                says += "; the target loses its last token inside"
            says += f"; {self.call.says}" if getattr(self.call, "says", "") else ""
            return Verdict(RIGHT, "", says) if self.batch_first else Verdict(VARIANT, "batch second", says)
        assert error is not None
        try:  # longer targets than in any call before: with lengths that are equal
            self.dtype, self.batch_first, self.shifts = torch.float32, True, False
            self(source, target[:, [0, 1, 2, 3, 1]])
        except Exception:
            raise error from None
        raise Broken("raises where lengths differ", raised(error))

    def first_call(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits, in another way than before; of a function's modules those that it does not call are let go."""
        called: set[int] = set()
        if self.module is not None:
            self.module._apply(lambda one: one.to(self.dtype) if one.is_floating_point() else one)  # complex stays
        handle = nn.modules.module.register_module_forward_pre_hook(lambda one, _: called.add(id(one)))
        try:
            out = self(source, target)
        finally:
            handle.remove()
        if self.modes and isinstance(self.module, nn.ModuleList):
            used = [one for one in self.module if called & {id(part) for part in one.modules()}]
            self.module = used[0] if len(used) == 1 else nn.ModuleList(used) if used else None
        return out

    def known_ids(self, source: Tensor, target: Tensor) -> str:
        """Lower the vocabulary to what both tables hold, if one is smaller than there are logits, and say so."""

        def holds(number: int) -> bool:
            try:
                self(source.clamp(min=number - 1), target.clamp(min=number - 1))
            except (IndexError, RuntimeError):
                return False
            return True

        if holds(self.vocab):
            return ""
        low, high = int(source.max()) + 1, self.vocab
        while high - low > 1:
            half = (low + high) // 2
            low, high = (half, high) if holds(half) else (low, half)
        self.vocab = low
        return f"; ids below {low}, since a table holds no more"

    @property
    def plain_ids(self) -> list[int]:
        """Ids that are words."""
        return [i for i in range(self.vocab) if i not in (self.pad, self.bos, self.eos)]

    def words(self, rows: int, length: int, seed: int) -> Tensor:
        """Ids (rows, length), as different as the vocabulary allows."""
        draw, some = torch.Generator().manual_seed(seed), torch.tensor(self.plain_ids)
        orders = [some[torch.randperm(len(some), generator=draw)] for _ in range(-(-rows * length // len(some)))]
        return torch.cat(orders)[: rows * length].view(rows, length)

    def pairs(self, rows: int = 1, source: int = 6, target: int = 5) -> tuple[Tensor, Tensor]:
        """Sources and targets; a target begins with `bos`."""
        ids = self.words(rows, target, seed=2)
        ids[:, 0] = self.bos
        return self.words(rows, source, seed=1), ids

    def changed(self, ids: Tensor, at: int) -> Tensor:
        """The same ids with another word at one place."""
        some, ids = self.plain_ids, ids.clone()
        for row in range(len(ids)):
            old = int(ids[row, at])
            ids[row, at] = some[(some.index(old) + 1) % len(some)] if old in some else some[0]
        return ids

    def once(self, measure: Callable[[Any], Any]) -> Any:
        """What is measured of the model, or found, and kept for the next check, until it was in training."""
        if measure not in self.measured:
            self.measured[measure] = measure(self)
        return self.measured[measure]

    def far(self, one: Tensor, other: Tensor) -> Tensor:
        """How far outputs differ at each position, by the size of the largest number; 0 where it is rounding."""
        far = ((one - other).abs().amax(-1) / one.abs().max().clamp(min=1e-30)).detach()
        is_rounding = far <= (1e-10 if one.dtype == torch.float64 else 1e-5)
        return far.nan_to_num(nan=math.inf).masked_fill(is_rounding, 0.0)

    @cached_property
    def seen(self) -> Watch:
        """What two pairs, one of them padded at both sides, are computed by."""
        source, target = self.pairs(2, 7, 5)
        source[1, 5:], target[1, 4:] = self.pad, self.pad
        watch = Watch(self.module, *((source, target) if self.batch_first else (source.T, target.T)))
        with torch.enable_grad():  # products of matrices are written otherwise without
            self(source, target, watch=watch)
        return watch

    def attentions(self, kind: str) -> list[Attention]:
        """Those of the `encoder`, the `decoder` or `cross`, told by how many queries and keys they have."""
        shape = {"encoder": (7, 7), "decoder": (5, 5), "cross": (5, 7)}[kind]
        return [one for one in self.seen.attentions if one.shape == shape]

    def layers(self, kind: str) -> int:
        """How many layers attend so; heads that are computed one by one are of one layer."""
        return len({one.layer for one in self.attentions(kind)})


def raised(error: BaseException) -> str:
    """An exception in one line: what it says, and where, in the last line that is no library's and not ours."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(MINE)]
    library = lambda name: name.startswith(("<", *STANDARD)) or "site-packages" in name  # noqa: E731
    frames = [one for one in frames if not library(one.filename)] or frames
    text = " ".join(str(error).split())[:200]
    if not frames:
        return f"{type(error).__name__}: {text}"
    file, line = frames[-1].filename.rsplit("/", 1)[-1], frames[-1]
    name = "" if isinstance(error, StillRunning) else f"{type(error).__name__}: "
    return f"{name}{text} (line {line.lineno} of {file}: {line.line})"
