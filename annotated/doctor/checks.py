"""The doctor: what it asks a model, and what it says."""

import copy
import inspect
import json
import math
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from annotated.base.files import InputError
from annotated.doctor.watching import Attention, Watch

__all__ = [
    "Broken",
    "CHECKS",
    "FUNCTIONS",
    "MINE",
    "Scripted",
    "StillRunning",
    "WRONG",
    "at_most",
    "check",
    "check_file",
    "run_file",
]


RIGHT, WRONG, VARIANT, UNTRIED = "right", "wrong", "variant", "not tried"
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
        found = self.attentions(kind)
        return len({one.layer for one in found}) if self.seen.norms else len(found)


def check_logits(subject: Subject) -> Verdict:
    """Logits, and not yet probabilities."""
    out = subject(*subject.pairs()).detach()[0]
    lowest = math.log(1 + (out.shape[-1] - 1) / math.e)
    if (out >= 0).all() and (out.sum(-1) - 1).abs().max() < 1e-4:
        says = (
            f"each position's numbers sum to 1; with another softmax in the loss, that cannot fall below {lowest:.2f}"
        )
        return Verdict(WRONG, "probabilities", says)
    if (out.exp().sum(-1) - 1).abs().max() < 1e-4:
        return Verdict(VARIANT, "log-probabilities", "log-probabilities come out, which cross-entropy takes as well")
    return Verdict(RIGHT, "", f"numbers between {out.min():.2g} and {out.max():.2g}")


def check_repeats(subject: Subject) -> Verdict:
    """In evaluation nothing is left to chance."""
    pairs = subject.pairs(2)
    far = subject.far(subject(*pairs), subject(*pairs)).max()
    if far:
        return Verdict(
            WRONG, "random in evaluation", f"the same input twice: outputs differ by {far:.1g} of their size"
        )
    return Verdict(RIGHT, "", "the same input twice gives the same output")


def check_dropout(subject: Subject) -> Verdict:
    """In training something is dropped, where a rate says so."""
    if subject.module is None:
        return Verdict(UNTRIED, "", "a function cannot be put into training: hand over the module")
    pairs = subject.pairs(2)
    rates = [float(getattr(one, "p", 0)) for one in subject.module.modules() if "Dropout" in type(one).__name__]
    if subject.far(*(subject(*pairs, training=True, dropout=True) for _ in range(2))).max():
        return Verdict(RIGHT, "", "in training the same input gives other outputs")
    if any(rates):
        says = f"a rate of {max(rates)} stands in the model, and in training the same input gives the same output"
        return Verdict(WRONG, "dropout never drops", says)
    return Verdict(UNTRIED, "", "no rate of dropout is above 0")


def influence(subject: Subject) -> Tensor:
    """How far output t moves when token j of the target is another: (j, t)."""
    source, target = subject.pairs(target=6)
    base = subject(source, target)
    return torch.stack([subject.far(base, subject(source, subject.changed(target, j)))[0] for j in range(6)])


def check_ahead(subject: Subject) -> Verdict:
    """No output depends on a later token."""
    moved = influence(subject)
    ahead = [(int(t), int(j)) for j, t in moved.tril(-1).nonzero()]
    if not ahead:
        return Verdict(RIGHT, "", "no output moves when a later token is another")
    (t, j), next_only = ahead[0], all(j == t + 1 for t, j in ahead)
    found = (
        "sees the next token" if next_only else "sees later tokens" if len(ahead) == 15 else "sees some later tokens"
    )
    says = f"output {t} moves by {moved[j, t]:.1g} of its size when token {j} is another ({len(ahead)} of 15 pairs)"
    return Verdict(WRONG, found, says)


def check_past(subject: Subject) -> Verdict:
    """Every output depends on its own token and on all before it."""
    moved = influence(subject) > 0
    own, past = moved.diagonal(), moved[torch.ones(6, 6).triu(1).bool()]
    missing = [(int(t), int(j)) for j, t in (~moved).nonzero() if j <= t]
    if not missing:
        return Verdict(RIGHT, "", "every output moves when its own token or one before it is another")
    if not own.any():
        found = "target unused" if not past.any() else "own token unseen"
        return Verdict(WRONG, found, f"output {missing[0][0]} does not depend on its own token, nor does any other")
    if not past.any():
        return Verdict(WRONG, "past unseen", "each output depends on its own token alone")
    says = f"output {missing[0][0]} does not depend on token {missing[0][1]} ({len(missing)} of 21 pairs)"
    return Verdict(WRONG, "part of the past unseen", says)


def check_source(subject: Subject) -> Verdict:
    """Every output depends on every token of the source."""
    source, target = subject.pairs()
    base = subject(source, target)
    moved = torch.stack([subject.far(base, subject(subject.changed(source, i), target))[0] for i in range(6)])
    if moved.all():
        return Verdict(RIGHT, "", f"every output moves with every token of the source, by {moved.min():.1g} or more")
    if not moved.any():
        return Verdict(WRONG, "source unused", "another source, the same output: nothing crosses to the decoder")
    i, t = map(int, (moved == 0).nonzero()[0])
    return Verdict(WRONG, "part of the source unused", f"output {t} does not depend on token {i} of the source")


def check_source_padding(subject: Subject) -> Verdict:
    """Padding after a source changes nothing."""
    source, target = subject.pairs()
    far = subject.far(subject(source, target), subject(F.pad(source, (0, 3), value=subject.pad), target)).max()
    if far:
        return Verdict(WRONG, "source padding seen", f"three paddings move the output by {far:.1g} of its size")
    return Verdict(RIGHT, "", "three paddings after the source change nothing")


def check_both_padded(subject: Subject) -> Verdict:
    """Two pairs, one padded at its source and one at its target, have the outputs that each has alone."""
    source, target = subject.pairs(2, 6, 7)
    source[1, 4:], target[0, 5:] = subject.pad, subject.pad
    both = subject(source, target)
    if not torch.isfinite(both).all():
        return Verdict(WRONG, "padding gives no numbers", "where a target is padded, outputs are no numbers")
    alone = [subject(source[:1], target[:1, :5]), subject(source[1:, :4], target[1:])]
    far = max(float(subject.far(one, both[i : i + 1, : one.shape[1]]).max()) for i, one in enumerate(alone))
    if far:
        return Verdict(
            WRONG, "padded differently", f"outputs differ from those of each pair alone by {far:.1g} of their size"
        )
    return Verdict(RIGHT, "", "one padded at its source, one at its target: each as if alone")


def check_batch(subject: Subject) -> Verdict:
    """A pair has the same output alone and beside others, in training, too."""
    source, target = subject.pairs(3)
    for training in (False, True):
        beside = subject(source, target, training)
        if training and subject.far(beside, subject(source, target, training)).max():
            break  # there is chance in it that could not be taken out
        far = subject.far(subject(source[2:], target[2:], training), beside[2:]).max()
        if far:
            says = f"beside two others the output differs by {far:.1g} of its size{', in training' if training else ''}"
            return Verdict(WRONG, "rows meet in training" if training else "rows meet", says)
    return Verdict(RIGHT, "", "the same output alone and beside others")


def check_source_order(subject: Subject) -> Verdict:
    """The order of the source counts."""
    source, target = subject.pairs()
    far = subject.far(subject(source, target), subject(source.flip(1), target)).max()
    if far:
        return Verdict(RIGHT, "", f"the source read backwards moves the output by {far:.1g} of its size")
    return Verdict(WRONG, "source order unseen", "the source read backwards gives the same output")


def check_target_order(subject: Subject) -> Verdict:
    """The same word five times: its outputs differ, or at least the weights do."""
    source, _ = subject.pairs()
    target = subject.words(1, 1, seed=3).expand(1, 5)
    watch = Watch(subject.module)
    out = subject(source, target, watch=watch)
    far = subject.far(out[:, :1].expand_as(out), out).max()
    if far:
        return Verdict(RIGHT, "", f"one word five times: its outputs differ by {far:.1g} of their size")
    rows = [one.weights[..., -1, :] for one in watch.attentions if one.shape == (5, 5)]
    if any((row.amax(-1) - row.amin(-1)).max() > 1e-6 for row in rows):
        return Verdict(VARIANT, "relative positions", "positions are in the weights of attention, not in the words")
    if not rows:
        return Verdict(UNTRIED, "", "one word five times: all its outputs are equal, and the weights were not seen")
    return Verdict(WRONG, "target order unseen", "one word five times: all its outputs are equal")


UNSEEN = Verdict(UNTRIED, "", "no product of queries and keys was seen that goes through a softmax of PyTorch's")


def check_attentions(subject: Subject) -> Verdict:
    """Every decoder layer looks at the target and at the source."""
    counts = [len(subject.attentions(kind)) for kind in ("encoder", "decoder", "cross")]
    encoder, decoder, cross = counts
    others = len(subject.seen.attentions) - sum(counts)
    if not decoder + cross:
        return UNSEEN
    says = f"{encoder} in the encoder, {decoder} in the decoder, {cross} from the decoder to the encoder"
    if not encoder or cross != decoder or others:
        if check_source(subject).verdict == RIGHT and check_batch(subject).verdict == RIGHT:
            return Verdict(UNTRIED, "", f"not all attentions were seen: {says}, {others} others")
        return Verdict(WRONG, "no cross-attention" if cross < decoder else "odd attentions", f"{says}, {others} others")
    if subject.seen.averaged:
        return Verdict(WRONG, "heads averaged", "a mean is taken over what was mixed, where heads are to be joined")
    if any(one.scores.raw for one in subject.seen.attentions):
        return Verdict(WRONG, "not projected", "scores are products of the vectors themselves, not of projections")
    if len({one.scores.of for one in subject.attentions("cross")}) > 1:
        return Verdict(WRONG, "several memories", "decoder layers read different outputs of the encoder, not its last")
    return Verdict(RIGHT, "", says)


def check_softmax(subject: Subject) -> Verdict:
    """The weights of a query sum to 1."""
    if not subject.seen.attentions:
        return UNSEEN
    wrong = [one for one in subject.seen.attentions if not one.off <= 1e-4]
    if not wrong:
        return Verdict(RIGHT, "", "the weights of each query sum to 1")
    axes = {-2: "queries", -3: "heads", -4: "batch"}
    over = next((axes[one.scores.axis] for one in wrong if one.scores.axis in axes), "")
    says = f"the weights of a query sum to something else than 1, by up to {max(one.off for one in wrong):.2g}"
    if over:
        return Verdict(WRONG, f"softmax over the {over}", f"the softmax runs over the {over}: {says}")
    if any(one.scores.cut for one in wrong):
        return Verdict(WRONG, "masked after the softmax", f"they are multiplied after the softmax: {says}")
    return Verdict(WRONG, "no weights", says)


def check_scale(subject: Subject) -> Verdict:
    """Scores are divided by the root of how many products they sum up."""
    if not subject.seen.attentions:
        return UNSEEN
    every = [one.scores for one in subject.seen.attentions]
    is_near = lambda a, b: math.isclose(a, b, rel_tol=1e-3)  # noqa: E731
    note = next((one for one in every if not is_near(one.factor, one.inner**-0.5)), None)
    if note is None:
        n = every[0].inner
        return Verdict(RIGHT, "", f"sums of {n} products, times {every[0].factor:.4g}, which is 1/sqrt({n})")
    n = note.inner
    says = f"sums of {n} products, times {note.factor:.4g}; 1/sqrt({n}) is {n**-0.5:.4g}"
    if is_near(note.factor, 1) and 0.7 < note.spread * n**0.5 < 1.4:
        return Verdict(VARIANT, "scale in the weights", "not divided, but the queries are drawn smaller by that root")
    names = {1.0: "no scale", 1 / n: "scale without a root", n**0.5: "multiplied by the root"}
    if note.width:
        names[note.width**-0.5] = "scale by the model's width"
    found = next((name for factor, name in names.items() if is_near(note.factor, factor)), "another scale")
    return Verdict(WRONG, found, says)


def check_masks(subject: Subject) -> Verdict:
    """Weights are zero on padding and on later tokens, and nowhere else."""
    if not subject.seen.attentions:
        return UNSEEN
    found = set()
    for kind in ("encoder", "decoder", "cross"):
        for one in subject.attentions(kind):
            if one.scores.axis != -1 or len(one.weights) % 2:
                continue
            rows = one.weights.unflatten(0, (2, -1))  # batch and heads, or heads and batch
            turned = one.weights.unflatten(0, (-1, 2)).transpose(0, 1)
            if kind != "decoder" and turned[1, :, :, 5:].max() <= 1e-12 < rows[1, :, :, 5:].max():
                rows = turned
            whole, padded = rows
            allowed = torch.ones(one.shape).tril().bool() if kind == "decoder" else torch.ones(one.shape).bool()
            if (whole * ~allowed).max() > 1e-12:
                found.add("decoder reads ahead")
            if whole[:, allowed].min() == 0:
                found.add(f"{kind} hides words")
            if kind != "decoder" and padded[:, :, 5:].max() > 1e-12:
                found.add(f"{kind} reads padding")
    if found:
        return Verdict(WRONG, ", ".join(sorted(found)), "seen in the weights of attention")
    return Verdict(RIGHT, "", "weights are zero on padding and on later tokens, and nowhere else")


def check_embedding(subject: Subject) -> Verdict:
    """Rows of the embedding are multiplied by the root of their width, and positions are added."""
    if not subject.seen.ends:
        return Verdict(UNTRIED, "", "no row of a table was seen to which something was added")
    odd = next((one.how for one in subject.seen.ends if one.how not in ("added", "nothing")), None)
    if odd:
        says = "the root multiplies the sum" if odd == "scaled as well" else f"positions are {odd}, not added"
        return Verdict(WRONG, f"positions {odd}", says)
    factors = sorted({one.words.factor for one in subject.seen.ends})
    words, root = subject.seen.ends[0].words, subject.seen.ends[0].words.inner ** 0.5
    if all(math.isclose(factor, root, rel_tol=1e-3) for factor in factors):
        return Verdict(RIGHT, "", f"rows are multiplied by {root:.4g}, which is sqrt({words.inner})")
    times = ", ".join(f"{one:.4g}" for one in factors)
    says = f"rows with a standard deviation of {words.spread:.2g} are multiplied by {times}"
    if factors != [1.0]:
        return Verdict(WRONG, "embedding scaled otherwise", f"{says}; sqrt({words.inner}) is {root:.4g}")
    if 0.8 < words.spread * root < 1.25:  # drawn for the factor that is missing
        return Verdict(WRONG, "embedding not scaled", f"{says}, not by sqrt({words.inner}) = {root:.4g}")
    return Verdict(VARIANT, "embedding not scaled", says)


def check_sharing(subject: Subject) -> Verdict:
    """Source, target and output share one table."""
    tables = {one.words.by for one in subject.seen.ends}
    if not tables or "?" in tables or "" in tables:
        return Verdict(UNTRIED, "", "no table with a name was seen")
    if len(tables) == 1 and any(name in tables for name, _ in subject.seen.used):
        return Verdict(RIGHT, "", "source, target and output share one table")
    shared = (
        "source and target share a table, the output has its own"
        if len(tables) == 1
        else f"{len(tables)} tables of words"
    )
    return Verdict(VARIANT, "untied", shared)


def check_positions(subject: Subject) -> Verdict:
    """Sines and cosines of the paper's frequencies, or learned ones."""
    added = [one for one in subject.seen.ends if one.places is not None]
    if subject.seen.late:
        return Verdict(
            WRONG, "positions in every layer", f"a table is added {subject.seen.late} times above the first layer"
        )
    if len(added) < 2:
        return Verdict(UNTRIED, "", "it was not seen on both sides that something is added to the words")
    if any(one.learned for one in added):
        return Verdict(VARIANT, "learned positions", "positions are learned, as in row (E) of Table 3")
    for one in added:
        table = one.places.double()
        while table.dim() > 2:  # (batch, length, d), or (length, batch, d)
            table = table.select(0 if subject.batch_first or len(table) == 1 else 1, 0)
        length, width = table.shape
        if length < one.length:
            return Verdict(WRONG, "positions count the batch", f"{length} rows are added to {one.length} tokens")
        rates = 10000.0 ** (-torch.arange(0, width, 2).double() / width)
        forms = {}
        for start in range(4):
            angles = (torch.arange(length).double()[:, None] + start) * rates
            forms[start, "woven"] = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
            forms[start, "halves"] = torch.cat([angles.sin(), angles.cos()], 1)
            rates_to_the_end = 10000.0 ** (-torch.arange(width // 2).double() / max(width // 2 - 1, 1))
            angles = (torch.arange(length).double()[:, None] + start) * rates_to_the_end
            forms[start, "released"] = torch.cat([angles.sin(), angles.cos()], 1)
        form = next((form for form, rows in forms.items() if torch.allclose(table, rows, atol=1e-3)), None)
        if form is None:
            circle = (table.square().sum(-1) - width / 2).abs().max() < 1e-3
            if torch.allclose(table[:, 0::2], table[:, 1::2]):
                return Verdict(WRONG, "sine and cosine alike", "the two numbers of each pair are equal")
            if (table == table[:1]).all():
                return Verdict(WRONG, "positions all alike", "every token gets the same position")
            if circle:
                return Verdict(WRONG, "other frequencies", "sines and cosines, but not of the paper's frequencies")
            return Verdict(WRONG, "not on a circle", "the squares of sine and cosine do not sum to 1 in every pair")
        if form[1] == "released":
            return Verdict(VARIANT, "released positions", "sines first, and the frequencies of the released code")
        if form[1] == "halves":
            return Verdict(VARIANT, "sines, then cosines", "all sines come first, then all cosines")
        if form[0]:
            return Verdict(VARIANT, "positions from another start", f"positions begin at {form[0]}")
    return Verdict(RIGHT, "", "sines and cosines of the paper's frequencies")


def check_norms(subject: Subject) -> Verdict:
    """Each layer's output is added to its input, and the sum is normalised, for each token alone."""
    norms, sums = subject.seen.norms, subject.seen.sums
    wanted = 2 * subject.layers("encoder") + 3 * subject.layers("decoder")
    bare = sum(kind not in ("sum", "norm", "words", "places") for kind, _ in norms)
    if not norms:
        return Verdict(UNTRIED, "", "no layer normalisation of PyTorch's was seen")
    if any(kind == "batch" for kind, _ in norms):
        return Verdict(WRONG, "normalised over the batch", "means are taken over the batch")
    if any(len(shape) > 1 or shape[0] in (5, 7) for _, shape in norms):  # the lengths of the two sentences
        return Verdict(WRONG, "normalised over the sentence", "means are taken over more than one token")
    if bare:
        says = f"{bare} of {len(norms)} normalisations get what a layer returned, without what went into it"
        return Verdict(WRONG, "no residual", says)
    if sum("sum" in kinds or "words" in kinds for kinds in sums) > len(sums) / 2:
        return Verdict(VARIANT, "pre-norm", "normalised before each layer, as in released code and later models")
    if len(norms) < wanted:
        return Verdict(WRONG, "normalisations missing", f"{len(norms)}, where the layers ask for {wanted}")
    if len(norms) > wanted:
        return Verdict(
            VARIANT, "normalised once more", f"{len(norms)} normalisations, where the layers ask for {wanted}"
        )
    return Verdict(RIGHT, "", f"{len(norms)} normalisations, each of a sum of what went in and what came out")


def check_feed_forward(subject: Subject) -> Verdict:
    """Something bends between the two matrices of each layer."""
    wanted = subject.layers("encoder") + subject.layers("decoder")
    bent, names = subject.seen.bent, "/".join(sorted(set(subject.seen.bent)))
    if not bent and not wanted:
        return Verdict(UNTRIED, "", "no layer was seen")
    if not wanted:
        return Verdict(RIGHT, "", names)
    if not bent:
        return Verdict(WRONG, "nothing bends", "no ReLU and nothing like it: two matrices in a row are one matrix")
    if len(bent) < wanted:
        return Verdict(WRONG, "ReLU missing", f"{names} {len(bent)} times in {wanted} layers")
    if not set(bent) <= {"relu", "clamp", "clamp_min", "maximum", "threshold"}:
        return Verdict(VARIANT, "not ReLU", f"{names}, where the paper has ReLU")
    return Verdict(RIGHT, "", f"ReLU in each of {wanted} layers")


def check_layers(subject: Subject) -> Verdict:
    """Each layer has weights of its own, drawn on their own, and the optimiser will be given all of them."""
    if subject.module is None:
        return Verdict(UNTRIED, "", "a function has no parameters to look at: hand over the module")
    strays = list(subject.seen.strays.values())
    if strays:
        return Verdict(
            WRONG, "not registered", f"{len(strays)} parameters are used that it does not name, one {strays[0]}"
        )
    for kind in ("encoder", "decoder", "cross"):
        uses = {(one.scores.by, one.layer) for one in subject.attentions(kind) if one.scores.by}
        matrices = {name for name, _ in uses}
        if len(matrices) < len(uses):
            says = f"{kind}: {len(uses)} layers with {len(matrices)} query matrices"
            return Verdict(WRONG, "one layer several times", says)
    often = [name for (name, _), times in subject.seen.used.items() if times > 1 and name.strip("?")]
    if often:
        return Verdict(
            WRONG, "one matrix several times", f"{len(often)} matrices are used more than once, one is {often[0]}"
        )
    first: dict[tuple, tuple[str, Tensor]] = {}
    for name, one in subject.module.named_parameters():
        if one.requires_grad and one.dim() > 1 and one.detach().std() > 0:
            key = (tuple(one.shape), float(one.detach().double().sum()))
            before, other = first.setdefault(key, (name, one))
            if before != name and torch.equal(one, other):
                return Verdict(WRONG, "layers start alike", f"{before} and {name} hold the same numbers")
    return Verdict(RIGHT, "", "each layer has numbers of its own, and all are registered")


def check_gradients(subject: Subject) -> Verdict:
    """A gradient reaches every parameter."""
    if subject.module is None:
        return Verdict(UNTRIED, "", "a function has no parameters to look at: hand over the module")
    source, target = subject.pairs(4, 7, 6)
    subject.module.zero_grad()
    named = [(name, one) for name, one in subject.module.named_parameters() if one.requires_grad]
    if not named:
        return Verdict(UNTRIED, "", "all parameters are frozen")
    with torch.enable_grad():
        out = subject(source, target, training=True)
        F.cross_entropy(out[:, :-1].flatten(0, 1), target[:, 1:].flatten()).backward()
    left = [name for name, one in named if one.grad is None or (one.dim() > 1 and not one.grad.any())]
    subject.module.zero_grad()
    if left:
        layers = {re.split(r"\.\d+\.", name)[0] + re.search(r"(\.\d+\.|$)", name)[0] for name in left}
        whole = any(all(name in left for name, _ in named if name.startswith(one)) for one in layers)
        found = "whole layers never reached" if whole else "never reached"
        return Verdict(WRONG, found, f"{len(left)} of {len(named)} parameters get no gradient, one is {left[0]}")
    return Verdict(RIGHT, "", "a gradient reaches every parameter")


def check_first_loss(subject: Subject) -> Verdict:
    """Untrained, a model knows nothing, and not the wrong thing."""
    modules = [] if subject.module is None else subject.module.modules()
    gains = [getattr(one, "weight", None) for one in modules if "Norm" in type(one).__name__]
    gains = [one for one in gains if isinstance(one, Tensor)]
    if not gains or not all(bool((one == 1).all()) for one in gains):
        return Verdict(UNTRIED, "", "nothing says that it is untrained: no gains of a normalisation that are all 1")
    source, target = subject.pairs(8, 7, 7)
    out = subject(source, target)
    value = float(F.cross_entropy(out[:, :-1].flatten(0, 1), target[:, 1:].flatten()).detach())
    even = math.log(out.shape[-1])
    says = f"untrained, its loss is {value:.1f}; knowing nothing costs ln {out.shape[-1]} = {even:.1f}"
    return Verdict(WRONG, "first loss too high", says) if value > even + 5 else Verdict(RIGHT, "", says)


def check_learning(subject: Subject) -> Verdict:
    """Some hundred steps on copying five words; then it writes by itself."""
    if subject.module is None:
        return Verdict(UNTRIED, "", "a function cannot be trained: hand over the module")
    some = torch.tensor(subject.plain_ids[:12])
    draw = torch.Generator().manual_seed(0)

    def batch(rows: int) -> tuple[Tensor, Tensor]:
        words = some[torch.randint(len(some), (rows, 5), generator=draw)]
        ends = [torch.full((rows, 1), one) for one in (subject.bos, subject.eos)]
        return words, torch.cat([ends[0], words, ends[1]], 1)

    optimizer = torch.optim.Adam(subject.module.parameters(), lr=0.002, betas=(0.9, 0.98))
    for _ in range(300):
        source, target = batch(32)
        out = subject(source, target[:, :-1])  # without dropout
        loss = F.cross_entropy(out.flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    source, target = batch(50)
    written = target[:, :1]
    with torch.no_grad():
        for _ in range(6):
            written = torch.cat([written, subject(source, written)[:, -1:].argmax(-1)], 1)
    share = float((written == target).all(1).double().mean())
    says = f"after 300 steps of copying five words its loss is {loss:.2f}, and by itself it copies {share:.0%} rightly"
    if share >= 0.9:
        return Verdict(RIGHT, "", says)
    return Verdict(WRONG, "reads the answer" if loss < 0.2 else "does not learn", says)


class Check(NamedTuple):
    """A question to a model: its name, how it is asked, the cell of the book that explains it, and the symptom."""

    name: str
    ask: Callable[[Subject], Verdict]
    cell: str
    symptom: str


CHECKS = [
    Check("logits", check_logits, "34_embeddings#next-token", "The loss stops falling early."),
    Check("repeats", check_repeats, "54_regularization#switches", "The same sentence is translated in several ways."),
    Check("dropout", check_dropout, "54_regularization#switches", "Training loss far below validation loss."),
    Check(
        "looks ahead",
        check_ahead,
        "32_attention#leak",
        "The loss falls towards zero, and what it writes by itself is nonsense.",
    ),
    Check("own past", check_past, "32_attention#masks-picture", "It learns slowly, and repeats or forgets words."),
    Check(
        "source", check_source, "39_transformer#dependence", "Fluent sentences that have nothing to do with the source."
    ),
    Check(
        "source padding",
        check_source_padding,
        "32_attention#masks-plain",
        "A sentence is translated in another way when it stands in another batch.",
    ),
    Check(
        "both padded",
        check_both_padded,
        "51_data_and_batching#batch-by-hand",
        "It works with one sentence and not with a batch, or only where lengths are equal.",
    ),
    Check(
        "batch", check_batch, "31_stacks#layer-norm-per-token", "The same sentence has another output beside others."
    ),
    Check(
        "order of the source",
        check_source_order,
        "35_positional_encoding#bag-of-words",
        "It translates the right words into the wrong sentence.",
    ),
    Check(
        "order of the target",
        check_target_order,
        "35_positional_encoding#bag-of-words",
        "It repeats words, or stops early.",
    ),
    Check("attentions", check_attentions, "31_stacks#decoder-picture", "It writes without reading."),
    Check(
        "softmax", check_softmax, "32_attention#love-attention", "It learns, and worse than it should; lengths matter."
    ),
    Check(
        "scale",
        check_scale,
        "32_attention#variance",
        "Heads that look at one word from the first step, and learning that is slow.",
    ),
    Check("masks", check_masks, "32_attention#masks-plain", "See the checks above: this one says where."),
    Check(
        "embedding",
        check_embedding,
        "34_embeddings#scale-measured",
        "Positions drown the words at first: a slow start.",
    ),
    Check("sharing", check_sharing, "34_embeddings#same-storage", ""),
    Check("positions", check_positions, "35_positional_encoding#position-table", "Worse with long sentences."),
    Check("norms", check_norms, "31_stacks#add-norm-plain", "It does not train when it is deep."),
    Check(
        "feed-forward",
        check_feed_forward,
        "33_feed_forward#best-linear",
        "It trains, and stays below what its size promises.",
    ),
    Check("layers", check_layers, "31_stacks#chain", "More layers do not help."),
    Check("gradients", check_gradients, "34_embeddings#gradients", "Parts of it stay as they were drawn."),
    Check(
        "first loss",
        check_first_loss,
        "34_embeddings#first-loss",
        "The first losses are far above the logarithm of the vocabulary.",
    ),
]
LEARNING = Check("learning", check_learning, "39_transformer#copying", "Whatever you have seen.")


class Drawn(nn.Module):
    """A model whose logits were drawn beforehand; it remembers which target it was given."""

    def __init__(self, logits: Tensor):
        super().__init__()
        self.logits, self.given = nn.Parameter(logits), torch.empty(0)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        self.given = target
        return self.logits[:, : target.shape[1]]


def check_loss(loss: Callable, pad: int = 0, bos: int = 2, eos: int = 3) -> Verdict:
    """Whether `loss(model, source, target)` shifts, leaves out padding, and means over tokens.

    The model is called as `model(source, target)`. Smoothing by 0.1 and none are told apart from mistakes by value.
    """
    a, b, c, d = 5, 6, 7, 8
    source = torch.tensor([[a, b, c, pad], [d, a, b, c]])
    target = torch.tensor([[bos, a, b, eos, pad, pad], [bos, c, d, a, b, eos]])
    model = Drawn(
        torch.randn(
            2, 6, max(12, pad + 1, bos + 1, eos + 1), generator=torch.Generator().manual_seed(0), dtype=torch.float64
        )
    )
    try:
        value = float(torch.as_tensor(loss(model, source, target)).detach())
    except Exception as error:
        return Verdict(WRONG, "raises", raised(error))
    given, every, wanted = model.given, model.logits.detach(), target[:, 1:]
    logits = every[:, :5]
    if not given.numel():
        return Verdict(WRONG, "model not called", "the model that was handed over is not asked")

    def cost(scores: Tensor, ids: Tensor, smoothing: float, **options: Any) -> float:
        return float(F.cross_entropy(scores.flatten(0, 1), ids.flatten(), label_smoothing=smoothing, **options))

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
    verdict, name, _ = next(
        (one for one in forms if math.isclose(one[2], value, rel_tol=1e-5)), (WRONG, "another value", 0)
    )
    if given.shape == wanted.shape and torch.equal(given, wanted):
        verdict, name = WRONG, "reads the answer"
    return Verdict(verdict, name, f"it says {value:.4f}; cross-entropy, smoothed by 0.1, is {forms[0][2]:.4f}")


def parameters(function: Callable) -> list[str]:
    """The names of a function's parameters; of what is not written in Python nothing is known."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def required(function: Callable) -> list[str]:
    """The parameters that a function cannot be called without."""
    every = inspect.signature(function).parameters.values() if parameters(function) else ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one.name for one in every if one.kind in kinds and one.default is one.empty]


def asked_with(rate: Callable, others: tuple, step: int) -> float:
    """A rate that wants the width, too, and perhaps the warm-up."""
    return rate(step, *others)


def check_schedule(rate: Callable[[int], float], d_model: int = 512, warmup: int = 4000) -> Verdict:
    """Whether `rate(step)` is equation (3), up to a constant factor; it may want `d_model` and `warmup` as well."""
    steps = [1, 2, warmup // 4, warmup // 2, warmup, 2 * warmup, 25 * warmup]
    if (wanted := len(required(rate))) > 1:  # step, width, warm-up
        rate = partial(asked_with, rate, (d_model, warmup)[: wanted - 1])

    def ratios(form: Callable[[int], float]) -> list[float]:
        return [found / (d_model**-0.5 * form(step)) for step, found in zip(steps, rates, strict=True)]

    try:
        rates = [float(rate(step)) for step in steps]
        peak = max(range(1, 10 * warmup, max(1, warmup // 100)), key=rate)
    except Exception as error:
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
    says = f"highest near step {peak}, with {max(rates):.3g}; "
    says += f"the paper's is highest at {warmup}, with {(d_model * warmup) ** -0.5:.3g}"
    for name, form in forms.items():
        found = ratios(form)
        if max(found) > 0 and max(found) - min(found) < 1e-6 * max(found):
            if name:
                return Verdict(WRONG, name, says)
            same = math.isclose(found[0], 1, rel_tol=1e-6)
            if same:
                return Verdict(RIGHT, "", says)
            return Verdict(VARIANT, "another factor", f"{says}; {found[0]:.4g} times the paper's")
    return Verdict(WRONG, "another shape", says)


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


def raised(error: BaseException) -> str:
    """An exception in one line: what it says, and where, in the last line that is neither PyTorch's nor ours."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(MINE)]
    text = " ".join(str(error).split())[:200]
    if not frames:
        return f"{type(error).__name__}: {text}"
    file, line = frames[-1].filename.rsplit("/", 1)[-1], frames[-1]
    name = "" if isinstance(error, StillRunning) else f"{type(error).__name__}: "
    return f"{name}{text} (line {line.lineno} of {file}: {line.line})"


class Finding(NamedTuple):
    """What one check has found."""

    check: str
    verdict: str
    found: str
    says: str
    symptom: str
    cell: str


@dataclass(frozen=True, repr=False)
class Report:
    """The findings of all checks, and what is likely wrong, the likeliest first: names of `MISTAKES`."""

    findings: tuple[Finding, ...]
    causes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong. A variant is not wrong, and what was not tried may be."""
        return all(one.verdict != WRONG for one in self.findings)

    @property
    def in_order(self) -> list[Finding]:
        """What is wrong comes first, then variants, then what was not tried, each in the order of the checks."""
        return sorted(self.findings, key=lambda one: (WRONG, VARIANT, UNTRIED, RIGHT).index(one.verdict))

    def __str__(self) -> str:
        lines = []
        for one in self.in_order:
            says = f"{one.found}: {one.says}" if one.found else one.says
            lines.append(f"{one.check:20} {one.verdict:9} {says}")
            if one.verdict == WRONG:
                lines += [f"{'':30} seen as: {one.symptom}"] if one.symptom else []
                lines += [f"{'':30} explained: chapter {one.cell.replace('#', ', cell ')}"] if one.cell else []
        if self.causes:
            lines.append(f"likely: {'; or '.join(self.causes)}")
        return "\n".join([*lines, summary(self.findings)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = []
        for one in self.in_order:
            page, _, cell = one.cell.partition("#")
            name = f'<a href="{page}.html#cell-{cell}">{escape(one.check)}</a>' if cell else escape(one.check)
            says = f"<b>{escape(one.found)}</b>: {escape(one.says)}" if one.found else escape(one.says)
            says += f"<br><i>{escape(one.symptom)}</i>" if one.verdict == WRONG and one.symptom else ""
            verdict = f"<b>{one.verdict}</b>" if one.verdict == WRONG else one.verdict
            rows.append(f"<tr><td>{name}</td><td>{verdict}</td><td>{says}</td></tr>")
        likely = f"<p>Likely: {escape('; or '.join(self.causes))}.</p>" if self.causes else ""
        head = "<thead><tr><th>check</th><th>verdict</th><th>what was found</th></tr></thead>"
        return f"<table>{head}<tbody>{''.join(rows)}</tbody></table>{likely}<p>{summary(self.findings)}</p>"


def summary(findings: tuple[Finding, ...]) -> str:
    """How many findings there are of each verdict."""
    counts = {one: sum(finding.verdict == one for finding in findings) for one in (WRONG, VARIANT, UNTRIED, RIGHT)}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)


def check(
    model: Callable,
    call: Callable[[Any, Tensor, Tensor], Tensor] | None = None,
    *,
    pad: int = 0,
    bos: int = 2,
    eos: int = 3,
    vocab: int | None = None,
    learn: bool = False,
) -> Report:
    """Ask an encoder-decoder what a Transformer must answer (chapter 82). The model itself stays as it is.

    `model` is a module or a function: ids of a source (batch, source) and of a target (batch, target) in, logits
    (batch, target, vocabulary) out, or all of them with the batch second. `call(model, source, target)` says how it is
    called, if otherwise. `pad`, `bos` and `eos` are its special ids, and `vocab` is how many ids it knows, if that is
    not the number of logits. With `learn` a copy is trained for three hundred steps on copying.
    """
    subject = Subject(model, call, pad, bos, eos, vocab)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        first = answer(lambda _: subject.begin(), subject)
        findings = [Finding("call", *first, "", "")]
        if first.verdict == WRONG and first.found != "not finite":
            return Report(tuple(findings), likely(findings))
        numbers = first.verdict != WRONG
        for one in [*CHECKS, *([LEARNING] if learn else [])]:
            if one.ask in COMPARING and any(finding.found == "random in evaluation" for finding in findings):
                findings.append(Finding(one.name, UNTRIED, "", "outputs are random: nothing can be compared", "", ""))
            elif numbers or one.ask in FROM_INSIDE:
                findings.append(Finding(one.name, *answer(one.ask, subject), one.symptom, one.cell))
    return Report(tuple(findings), likely(findings))


COMPARING = (
    check_ahead, check_past, check_source, check_source_padding, check_both_padded, check_batch, check_source_order,
    check_target_order,
)  # fmt: skip
FROM_INSIDE = (check_attentions, check_softmax, check_scale, check_embedding, check_positions, check_layers)


def answer(ask: Callable[[Subject], Verdict], subject: Subject) -> Verdict:
    """The verdict of a check; an exception in the model is one."""
    try:
        return ask(subject)
    except Broken as error:
        return error.verdict
    except Exception as error:
        return Verdict(WRONG, "raises", raised(error))


def known_fingerprints() -> dict[str, list[str]]:
    """What each mistake of `annotated.doctor.mistakes` leaves, as check and what it found."""
    file = resources.files("annotated").joinpath("doctor/fingerprints.json")
    return json.loads(file.read_text(encoding="utf-8"))


def likely(findings: list[Finding] | tuple[Finding, ...]) -> tuple[str, ...]:
    """Up to three mistakes that leave nearly these findings, the likeliest first; those that leave the same together.

    What few mistakes leave counts more than what many do.
    """
    found = {f"{one.check}: {one.found}" for one in findings if one.verdict == WRONG and one.found != "raises"}
    if not found:
        return ()
    known = known_fingerprints()
    weight = {one: 1 / sum(one in marks for marks in known.values()) for marks in known.values() for one in marks}
    scores = {}
    for name, marks in known.items():
        common, either = found & set(marks), found | set(marks)
        scores[name] = sum(weight.get(one, 0.5) for one in common) / sum(weight.get(one, 0.5) for one in either)
    best = sorted(scores, key=lambda name: -scores[name])
    return tuple(name for name in best[:3] if scores[name] > 0.3 and scores[name] > 0.6 * scores[best[0]])


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
        text = path.read_text(encoding="utf-8")
        code = compile(text, str(path), "exec")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path}: line {getattr(error, 'lineno', '?')}: {getattr(error, 'msg', error)}") from None
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    before = sys.path[:], sys.modules.get(path.stem)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules[path.stem] = module  # dataclasses and pickles look for it there
    try:
        with at_most(seconds), redirect_stdout(sys.stderr):
            exec(code, module.__dict__)
    except (Exception, SystemExit, StillRunning) as error:
        raise InputError(f"{path}: {raised(error)}") from None
    finally:
        sys.path[:] = before[0]
        sys.modules.pop(path.stem) if before[1] is None else sys.modules.update({path.stem: before[1]})
    return vars(module)


def made(path: Path, name: str, value: Any) -> Any:
    """A model as it is, or what a class or function without further arguments makes. Raises InputError."""
    if isinstance(value, nn.Module):
        return value
    if not callable(value):
        raise InputError(f"{path}: {name} is no model, but of the type {type(value).__name__}")
    given = {one: ARGUMENTS[one] for one in parameters(value) if one in ARGUMENTS}
    missing = [one for one in required(value) if one not in given]
    if not isinstance(value, type) and len(missing) == 2 and not given:
        return value  # a function of source and target
    if missing:
        raise InputError(f"{path}: {name} wants {missing[0]!r}; name a function without arguments that makes a model")
    try:
        return value(**given)
    except (Exception, SystemExit) as error:
        raise InputError(f"{path}: {name}: {raised(error)}") from None


def check_file(path: str | Path, name: str = "", *, seconds: float = 60.0, **options: Any) -> dict[str, Report]:
    """Run a file and check what is in it, by name: its model, and `loss`, `learning_rate` and `translate` if they fit.

    With a name, only that: a model, a class or function that makes one, a function of source and target, or one of
    those three. `options` are those of `check`. Raises InputError when the file fails, or holds nothing to check.
    """
    path = Path(path)
    found = run_file(path, seconds)
    if name and name not in found:
        raise InputError(f"{path}: no {name} in it")
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
        raise InputError(f"{path}: no model in it; name one as {path}:NAME, or a function that makes one")
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
            raise InputError(f"{path}: {one}: {raised(error)}") from None
    return reports
