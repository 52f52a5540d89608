"""Somebody's model, called with ids, whatever way it wants them."""

import copy
import math
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from annotated.doctor.watching import Attention, Watch

__all__ = ["Broken", "MINE", "StillRunning", "Subject", "Verdict", "WRONG", "raised"]


RIGHT, WRONG, VARIANT, UNTRIED = "right", "wrong", "variant", "not tried"
DOES_NOT_APPLY = "does not apply"  # not tried either, and nothing is missing: a model of another kind


MINE = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))  # folders of code that is not theirs


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


class WithoutDropout(TorchDispatchMode):
    """Within it dropout leaves every number as it is, also in training: each coin falls on its mean."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func.overloadpacket.__name__ == "bernoulli_":
            return args[0].fill_(args[1] if len(args) > 1 else 0.5)
        return func(*args, **(kwargs or {}))


def copied(model: nn.Module) -> nn.Module:
    """A copy on the processor. What a model keeps of its last call has a history, and is copied without."""
    model = getattr(model, "_orig_mod", model)  # of what torch.compile has wrapped
    kept = [one for module in model.modules() for one in vars(module).values() if isinstance(one, Tensor)]
    return copy.deepcopy(model, {id(one): one.detach() for one in kept if not one.is_leaf}).cpu()


class Subject:
    """A copy of somebody's model, called with ids (batch, length), whatever order of axes it wants.

    `call(model, source, target)` says how it is called, if not as `model(source, target)`.
    """

    def __init__(self, model: Callable, call: Callable | None, pad: int, bos: int, eos: int, vocab: int | None):
        self.pad, self.bos, self.eos, self.vocab = pad, bos, eos, vocab or 200
        self.module = copied(model) if isinstance(model, nn.Module) else None
        self.model = model if self.module is None else self.module
        self.call = call or (lambda model, source, target: model(source, target))
        self.dtype, self.batch_first = torch.float64, True

    def __call__(
        self, source: Tensor, target: Tensor, training: bool = False, dropout: bool = False, watch: Any = None
    ) -> Tensor:
        """Logits (batch, target, vocabulary). Raises Broken when something else comes out."""
        ids = (source, target) if self.batch_first else (source.T, target.T)
        with self.settings(training), watch or (nullcontext() if dropout or not training else WithoutDropout()):
            out = self.call(self.model, *ids)
        out = getattr(out, "logits", out)
        if isinstance(out, (tuple, list)):
            out = next((one for one in out if isinstance(one, Tensor) and one.dim() == 3), out)
        if not isinstance(out, Tensor):
            raise Broken("no tensor", f"{type(out).__name__} came out, where a tensor of logits was expected")
        out = out if self.batch_first or out.dim() < 2 else out.transpose(0, 1)
        if out.dim() != 3 or out.shape[:2] != target.shape:
            raise Broken("shape", f"{tuple(out.shape)} came out, where {(*target.shape, 'vocabulary')} was expected")
        return out

    @contextmanager
    def settings(self, training: bool) -> Iterator[None]:
        """Double precision as default, and attention computed as it is written; afterwards as before."""
        dtype, fast = torch.get_default_dtype(), torch.backends.mha.get_fastpath_enabled()
        try:
            torch.set_default_dtype(self.dtype)
            torch.backends.mha.set_fastpath_enabled(False)
            if self.module is not None:
                self.module.train(training)
            with sdpa_kernel(SDPBackend.MATH):
                yield
        finally:
            torch.set_default_dtype(dtype)
            torch.backends.mha.set_fastpath_enabled(fast)

    def begin(self) -> Verdict:
        """Find out how the model wants to be called, and how many ids it knows; raises what it raised."""
        a, b, c = (self.plain_ids * 3)[2:5] if len(self.plain_ids) > 4 else (self.plain_ids * 3)[:3]
        source, target = torch.tensor([[a, b, c, a, b]] * 3), torch.tensor([[self.bos, a, b, c]] * 3)
        first: Exception | None = None
        for dtype in (torch.float64, torch.float32):
            for batch_first in (True, False):
                self.dtype, self.batch_first = dtype, batch_first
                if self.module is not None:
                    self.module.to(dtype)
                try:
                    out = self(source, target)
                except Exception as error:
                    if batch_first:  # and in single precision, if that fails as well: there it is the model's own
                        first = error
                    continue
                self.vocab = min(self.vocab, out.shape[-1])
                bad = int((~torch.isfinite(out)).sum())
                if bad:
                    return Verdict(WRONG, "not finite", f"{bad} of {out.numel()} logits are no numbers")
                order = "(batch, length)" if batch_first else "(length, batch)"
                says = f"ids {order} in, {out.shape[-1]} logits for each out, computed in {str(dtype)[6:]}"
                return Verdict(RIGHT, "", says) if batch_first else Verdict(VARIANT, "batch second", says)
        assert first is not None
        try:  # longer targets than in any call before: with lengths that are equal
            self.dtype, self.batch_first = torch.float32, True
            self(source, target[:, [0, 1, 2, 3, 1]])
        except Exception:
            raise first from None
        raise Broken("raises where lengths differ", raised(first))

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
    """An exception in one line: what it says, and where, in the last line that is neither PyTorch's nor ours."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(MINE)]
    text = " ".join(str(error).split())[:200]
    if not frames:
        return f"{type(error).__name__}: {text}"
    file, line = frames[-1].filename.rsplit("/", 1)[-1], frames[-1]
    name = "" if isinstance(error, StillRunning) else f"{type(error).__name__}: "
    return f"{name}{text} (line {line.lineno} of {file}: {line.line})"
