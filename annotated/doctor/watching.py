"""What a model does inside as it runs: products, norms, residuals, seen without its names."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Attention", "ENDS", "Mode", "Norm", "Watch"]

Parts = frozenset[str]


@dataclass(frozen=True)
class Note:
    """Where a tensor comes from, as far as `Watch` has seen it."""

    kind: str  # parameter, words, places, projected, bent, scores, weights, mixed, sum, norm, and those of a norm
    factor: float = 1.0  # the numbers that it was multiplied by since
    times: bool = False  # of words: whether a number was written there, be it 1
    inner: int = 0  # of scores: how many products one sums up; of words: how wide they are
    width: int = 0  # of a projection: how wide the vectors were before
    by: str = ""  # the parameter that it was made with
    at: int = 0  # where in that parameter its matrix begins, or where in what it made
    spread: float = 1.0  # of words: standard deviation of the table; of scores: of queries, divided by that of keys
    axis: int = 0  # of weights: the softmax's, counted from the end
    learned: bool = False  # of a parameter and what was looked up in it
    cut: bool = False  # of weights: changed by a mask after the softmax
    raw: bool = False  # of scores: of vectors that nothing has projected
    fill: float | None = None  # of scores: the lowest number that a mask has written
    parts: Parts = frozenset()  # what it is the sum of
    of: Parts | None = None  # of a projection: the parts of what was projected; of scores, of the keys'
    keys: str = ""  # of scores and weights: the matrix of the keys
    before: int = 0  # of a projection and of scores: the number of what was projected, of the queries'
    base: int = 0  # of what is centred, squared or a mean: the number of the tensor that it was made of
    steps: tuple[str, ...] = ()  # of a mean: what was done
    over: tuple[tuple[int, int], ...] = ()  # of a mean: the axes, counted from the end, and their sizes
    shift: float = 0.0  # of a deviation: the number that was added to it
    guard: float = 0.0  # of a variance: the same
    gain: tuple[str, int, bool] = ("", 0, False)  # of what is centred: name, size of what multiplied it; if all is 1
    pair: int = -1  # of scores: where in `products` its queries and keys are


@dataclass(frozen=True)
class Attention:
    """One use of attention: what the scores were multiplied by, and the weights (batch and heads, queries, keys)."""

    scores: Note
    weights: Tensor
    layer: int  # the number of what its queries are projections of
    off: float  # how far the weights of a query are from a sum of 1, at most
    queries: Tensor  # (batch and heads, length, d), as the values; and the keys, whose last axes are exchanged
    turned_keys: Tensor
    values: Tensor

    @property
    def keys(self) -> Tensor:
        """The keys (batch and heads, length, d)."""
        return self.turned_keys.mT

    @property
    def shape(self) -> tuple[int, int]:
        """Queries and keys."""
        return tuple(self.weights.shape[-2:])


@dataclass
class Norm:
    """A normalisation: of the sum of which parts (None where that was not seen), over which axes, and how."""

    parts: Parts | None
    over: tuple[tuple[int, int], ...]  # axes, counted from the end, and their sizes
    centred: bool = True
    steps: tuple[str, ...] = ("square", "mean", "root")
    shift: float = 0.0
    gain: str = ""
    gain_size: int = 0
    new: bool = False  # whether all its gains are 1
    guard: float = 0.0  # what is added to the variance
    before: str = ""  # the matrix of queries that has used it first


@dataclass(frozen=True)
class Ends:
    """How tokens became vectors: rows of a table, times a factor, and what was done with positions."""

    words: Note
    length: int
    how: str  # added, multiplied, appended, nothing
    places: Tensor | None = None
    learned: bool = False
    ratio: float = 1.0  # how large words are, compared with what is added


PASSED_ON = {  # operations that change the shape or the place of numbers, and by which a note stays true
    "view", "_unsafe_view", "reshape", "_reshape_alias", "transpose", "permute", "t", "expand", "clone", "contiguous",
    "unsqueeze", "squeeze", "alias", "detach", "_to_copy", "slice", "select", "masked_fill", "masked_fill_", "where",
    "copy_", "repeat", "split", "unbind", "split_with_sizes", "nan_to_num", "nan_to_num_", "constant_pad_nd",
    "neg", "view_as_complex", "view_as_real", "unfold", "as_strided", "index_put", "index_put_", "flatten", "movedim",
    "chunk",
}  # fmt: skip
SAME = {  # of these, those that show all numbers as they were
    "view", "_unsafe_view", "reshape", "_reshape_alias", "transpose", "permute", "t", "expand", "clone", "contiguous",
    "unsqueeze", "squeeze", "alias", "detach", "_to_copy",
}  # fmt: skip
PIECES = {"slice", "select", "split", "unbind", "chunk", "split_with_sizes"}  # and those that show a part
BENT = {
    "relu", "relu_", "gelu", "silu", "silu_", "clamp", "clamp_min", "clamp_min_", "maximum", "threshold", "tanh", "elu",
    "leaky_relu", "sigmoid", "erf", "softplus", "mish", "glu", "_prelu_kernel", "hardswish", "celu",
}  # fmt: skip
OF_A_NORM = {"statistic", "centred", "powers"}
ENDS = frozenset({"words", "places"})


class Mode(TorchDispatchMode):
    """A mode whose method is not wrapped, since that would load the compiler, which takes a second."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class Watch(Mode):
    """Within it, what PyTorch computes for somebody's model is written down: attentions, normalisations, sums.

    `tokens` are the ids that the model is given, by which its tables are told from its positions. What is computed in
    another way than by products of matrices, means, deviations and exponents is not seen.
    """

    def __init__(self, model: nn.Module | None, *tokens: Tensor, stored: bool = False):
        super().__init__()
        self.stored = stored  # whether keys may come from a store, of which nothing is known
        self.names = {id(one): name for name, one in model.named_parameters()} if model is not None else {}
        self.buffers = {id(one) for one in model.buffers()} if model is not None else set()
        self.tokens = [ids.flatten() for ids in tokens]
        self.lengths = {size for ids in tokens for size in ids.shape}
        self.notes: dict[int, Note] = {}
        self.numbers: dict[int, int] = {}  # of tensors: views have that of what they show
        self.wholes: dict[int, int] = {}  # of parts of tensors: the number of the whole
        self.known: dict[int, Note] = {}  # by number
        self.counted = itertools.count(1)
        self.kept: list[Tensor] = []  # so that no other tensor gets the id of one that has a note
        self.attentions: list[Attention] = []
        self.ends: list[Ends] = []
        self.norms: list[Norm] = []
        self.sums: list[Parts] = []  # the parts of activations that were added
        self.bent: list[str] = []
        self.taken = 0  # how often what a layer returned is taken away
        self.early = 0  # how often what goes round the layers is bent
        self.strays: dict[int, Tensor] = {}  # parameters that the model does not name
        self.used: Counter[tuple[str, int]] = Counter()  # how often a matrix was used, by name and place
        self.outside: dict[int, str] = {}  # names for parameters without one
        self.projected: list[Note | None] = []  # what all that was projected was
        self.last: Note | None = None  # what was projected last: into logits
        self.gains: dict[int, tuple[str, int, bool]] = {}  # what has multiplied a tensor, by number
        self.torn: set[str] = set()  # what was cut into heads, or joined, so that tokens are mixed
        self.blurred = 0  # how often a mean over the sentence came to its tokens
        self.masked = 0  # how often a mask was written into scores
        self.averaged = False  # whether heads are
        self.alpha = 1.0  # what a product is multiplied by as it is made
        self.products: list[tuple[Tensor, Tensor]] = []  # queries and keys
        self.late = 0  # how often a table was added to what a layer had returned

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = func.overloadpacket.__name__
        notes = [self.note(one) for one in args]  # before the call, which may work in place
        numbers = [self.number(one) for one in args]
        self.alpha = (kwargs or {}).get("alpha", 1.0)
        coins = name == "bernoulli_"  # of a dropout that is alive: each falls on its mean
        out = args[0].fill_(args[1] if len(args) > 1 else 0.5) if coins else func(*args, **(kwargs or {}))
        self.look(name, args, notes, numbers, out)
        return out

    def look(self, name: str, args: tuple, notes: list, numbers: list, out: Any) -> None:
        """Write down where the result of an operation comes from."""
        outs = out if isinstance(out, (tuple, list)) else (out,)
        for one in outs:
            self.came(one, name, next((number for number in numbers if number), 0))
        if name.endswith("_") and isinstance(args[0], Tensor):  # what stood there before has its number and its note
            args = (args[0].detach(), *args[1:])
            self.number(args[0], numbers[0])
            self.keep(args[0], notes[0])
        chosen = name in ("where", "masked_fill") and any(note and note.kind == "projected" for note in notes)
        if name in BENT or (chosen and args[name == "masked_fill"].shape == out.shape):
            self.bend(name.rstrip("_"), notes, out)
        if see := getattr(self, f"see_{name.strip('_')}", None):
            with suppress(Exception):  # arguments in a form that is not known: nothing is known of the result
                see(args, notes, out)
        elif name in PASSED_ON:
            note = next((note for note in notes if note), None)
            for one in outs:
                piece = note and note.kind == "projected" and name in PIECES and one.storage_offset()
                self.keep(one, replace(note, at=note.at + piece) if piece else note)
            if (
                note
                and "view" in name
                and "as_" not in name
                and note.kind in ("projected", "mixed")
                and self.tears(args[0], out)
            ):
                self.torn.add(note.kind)

    def tears(self, x: Tensor, out: Tensor) -> bool:
        """Whether numbers of one token come to another one, where the shape alone changes."""
        after = [
            [math.prod(one.shape[axis + 1 :]) for axis, size in enumerate(one.shape) if size == length]
            for length in self.lengths - {1, 2}
            for one in (x, out)
        ]
        pairs = zip(after[::2], after[1::2], strict=True)
        return any(len(one) == len(other) == 1 and one != other for one, other in pairs)

    def came(self, out: Any, name: str, number: int) -> None:
        """Number what an operation has returned: what shows the same numbers has the same number."""
        if isinstance(out, Tensor):
            new = number if number and name in SAME else next(self.counted)
            if name in PASSED_ON and new != number:
                self.wholes[new] = self.wholes.get(number, number)
            if name.endswith("_"):
                self.notes.pop(id(out), None)
            self.number(out, new)

    def number(self, one: Any, number: int = 0) -> int:
        """The number of a tensor, a new one if it has none; 0 for what is no tensor."""
        if not isinstance(one, Tensor):
            return 0
        if number or id(one) not in self.numbers:
            self.numbers[id(one)] = number or next(self.counted)
            self.kept.append(one)
        return self.numbers[id(one)]

    def note(self, one: Any) -> Note | None:
        """What is known of an argument. What comes from outside, and is not computed here, is a parameter."""
        if not isinstance(one, Tensor):
            return None
        if id(one) not in self.numbers and one.is_floating_point() and one.numel():
            learned = isinstance(one, nn.Parameter) or (one.is_leaf and one.requires_grad)
            name = self.names.get(id(one), "")
            if learned and not name:
                self.strays[id(one)] = one
            if learned or (one.dim() and id(one) not in self.buffers and not self.stored):
                name = name or self.outside.setdefault(id(one), f"?{len(self.outside)}")
                self.number(one)
                self.keep(one, Note("parameter", by=name, learned=one.requires_grad))
        return self.notes.get(id(one))

    def keep(self, tensor: Tensor, note: Note | None) -> None:
        if note:
            self.notes[id(tensor)] = note
            self.known.setdefault(self.number(tensor), note)
        else:
            self.notes.pop(id(tensor), None)

    def base(self, tensor: Tensor) -> int:
        """The number of a tensor, or of that which it is a mean of, or centred."""
        note = self.notes.get(id(tensor))
        return (note.base if note else 0) or self.number(tensor)

    def whole(self, tensor: Tensor) -> int:
        """The number of what a tensor is a part of."""
        return self.wholes.get(self.number(tensor), self.number(tensor))

    # tokens become vectors

    def see_embedding(self, args: tuple, notes: list, out: Tensor) -> None:
        self.look_up(args[0], args[1], notes[0], out)

    def see_index(self, args: tuple, notes: list, out: Tensor) -> None:
        if len(args[1]) == 1 and isinstance(args[1][0], Tensor):
            self.look_up(args[0], args[1][0], notes[0], out)

    def see_index_select(self, args: tuple, notes: list, out: Tensor) -> None:
        self.look_up(args[0], args[2], notes[0], out)

    def look_up(self, table: Tensor, ids: Tensor, note: Note | None, out: Tensor) -> None:
        if note and note.kind == "parameter" and table.dim() == 2:
            counted = any(size > 1 and bool((ids.diff(dim=axis) == 1).all()) for axis, size in enumerate(ids.shape))
            words = not counted and any(self.holds(ids, tokens) for tokens in self.tokens)
            spread = float(table.detach().std())
            self.lengths |= set(ids.shape) if words else set()
            kind = "words" if words else "places"
            self.keep(out, replace(note, kind=kind, inner=table.shape[1], spread=spread, parts=frozenset({kind})))

    def holds(self, found: Tensor, tokens: Tensor) -> bool:
        """Whether ids are the given tokens, perhaps with some put to them, or without the last of each row."""
        here, given = set(found.flatten().tolist()), set(tokens.tolist())
        return found.numel() >= len(tokens) and len(given - here) <= 2 and len(here - given) <= 2

    def see_cat(self, args: tuple, notes: list, out: Tensor) -> None:
        found = [note for note in map(self.note, args[0]) if note]
        words = next((note for note in found if note.kind == "words"), None)
        if words and out.shape[-1] > args[0][0].shape[-1]:
            self.meet(words, out, "appended")
        elif found:  # keys of earlier steps, and those of this one; heads
            self.keep(out, found[-1])

    def see_stack(self, args: tuple, notes: list, out: Tensor) -> None:
        self.keep(out, next((note for note in map(self.note, args[0]) if note), None))

    def meet(self, words: Note, out: Tensor, how: str, pair: tuple = (), other: Note | None = None) -> None:
        """Words, and what is added to them: the second of a pair, if it is one of positions."""
        length = max((size for size in self.lengths if size in out.shape[:-1]), default=0)
        places, ratio = None, 1.0
        if pair:
            places = pair[1].detach()
            ratio = float(pair[0].detach().square().mean() / places.square().mean().clamp(min=1e-30)) ** 0.5
        self.ends.append(Ends(words, length, how, places, bool(other and other.learned), ratio))
        parts = ENDS if how != "nothing" else words.parts | self.parts(other)
        self.keep(out, Note("sum", by="ends", parts=parts))

    # multiplied and divided

    def see_mul(self, args: tuple, notes: list, out: Tensor) -> None:
        one, other = args[:2]
        if isinstance(one, Tensor) and one.numel() == 1 and isinstance(other, Tensor):
            one, other, notes = other, one, notes[1::-1]
        kinds = [note.kind if note else "" for note in notes[:2]]
        if "coins" in kinds:
            self.keep(out, notes[1 - kinds.index("coins")])
            self.number(out, self.number((other, one)[kinds.index("coins")]))
        elif self.numbers.get(id(one), 0) == self.numbers.get(id(other), -1):
            self.square(one, notes[0], out)
        elif self.see_norm((one, other), notes, out) or self.see_norm((other, one), notes[1::-1], out):
            return
        elif "parameter" in kinds and {"norm", "centred"} & set(kinds):
            at = kinds.index("parameter")
            self.see_gain(notes[1 - at], notes[at], (one, other)[at], out)
        elif (
            "parameter" in kinds
            and any(kinds)
            and kinds != ["parameter", "parameter"]
            and self.see_gain_before((one, other), notes, out)
        ):
            return
        elif is_number(other):
            self.keep(out, notes[0] and replace(notes[0], factor=notes[0].factor * float(other), times=True))
            self.number(out, self.number(one))
        elif kinds[0] == "words" and other.dim() > 1 and other.shape[-1] == one.shape[-1]:
            self.meet(notes[0], out, "multiplied")
        else:
            if other.dtype == torch.bool and kinds[0] == "projected":
                self.bent.append("maximum")  # what is positive, times whether it is
            kinds = ("weights", "scores", "words", "projected", "bent")
            found = next((note for note in notes if note and note.kind in kinds), None)
            found = found or (notes[0] if notes[0] and notes[0].kind == "parameter" else None)
            if found and found.kind == "scores" and None in notes:
                self.masked += 1
                found = replace(found, fill=-torch.inf if "exp" in found.steps else lowest(0.0, found.fill))
            self.keep(out, found and replace(found, cut=found.cut or found.kind == "weights"))

    def see_bernoulli(self, args: tuple, notes: list, out: Tensor) -> None:
        self.keep(out, Note("coins"))

    def see_native_dropout(self, args: tuple, notes: list, out: tuple) -> None:
        self.keep(out[0], notes[0])
        self.number(out[0], self.number(args[0]))

    def see_div(self, args: tuple, notes: list, out: Tensor) -> None:
        one, other = args[:2]
        if self.see_norm(args, notes, out):
            return
        if is_number(other):
            self.keep(out, notes[0] and replace(notes[0], factor=notes[0].factor / float(other), times=True))
            self.number(out, self.number(one))
        elif notes[0] and notes[0].kind == "scores" and notes[1] and notes[1].base == self.number(one):  # exponents
            self.keep(
                out, replace(notes[0], kind="weights", axis=notes[1].over[0][0] if len(notes[1].over) == 1 else 0)
            )
        else:
            self.keep(out, notes[0])

    # added

    def see_add(self, args: tuple, notes: list, out: Tensor, sign: int = 1) -> None:
        one, other = args[:2]
        kinds = [note.kind if note else "" for note in notes[:2]]
        if is_number(one) or is_number(other):
            note = next((note for note in notes if note and note.kind != "parameter"), notes[0])
            if note and note.kind == "statistic" and is_number(other):
                one = "shift" if "root" in note.steps else "guard"
                note = replace(note, **{one: getattr(note, one) + float(other)})
            self.keep(out, note)
        elif "scores" in kinds or "weights" in kinds:  # a mask, or a bias for each distance; or the largest taken away
            at = next(i for i, kind in enumerate(kinds) if kind in ("scores", "weights"))
            note, rest = notes[at], notes[1 - at]
            if rest and rest.kind == "statistic":
                if rest.steps == ("logsumexp",):
                    note = replace(note, steps=("log",), axis=rest.over[0][0])
            elif note.kind == "scores" and not (rest and rest.learned):
                self.masked += 1
                note = replace(note, fill=lowest(float((sign * args[1 - at]).detach().min()), note.fill))
            self.keep(out, note)
        elif (
            kinds[1:] == ["statistic"] and kinds[0] == "statistic"
        ):  # the mean of squares, without the square of the mean
            self.keep(out, notes[0])
        elif sign < 0 and kinds[1:] == ["statistic"] and self.base(one) == notes[1].base:
            self.keep(out, Note("centred", base=notes[1].base, over=notes[1].over))
        elif "statistic" in kinds:
            at = kinds.index("statistic")
            self.blurred += any(axis != -1 and size in self.lengths - {1, 2} for axis, size in notes[at].over)
            self.keep(out, notes[1 - at])
        elif kinds in (["words", ""], ["", "words"]) and args[kinds.index("")].shape[-1] != out.shape[-1]:
            self.keep(out, notes[kinds.index("words")])
        elif kinds == ["projected", "projected"] and notes[0].by == notes[1].by and notes[0].before == notes[1].before:
            self.keep(out, notes[0])  # turned by its position
        elif "parameter" in kinds and args[kinds.index("parameter")].numel() <= out.shape[-1]:  # a bias
            self.keep(out, notes[1 - kinds.index("parameter")])
        elif "words" in kinds and out.is_floating_point():
            at = kinds.index("words")
            if kinds[1 - at] in ("projected", "mixed", "norm", "sum"):  # around a layer: no position came before
                self.sums.append((self.parts(notes[0]), self.parts(notes[1])))
                self.meet(notes[at], out, "nothing", (), notes[1 - at])
            else:
                self.meet(notes[at], out, "added", (args[at], args[1 - at]), notes[1 - at])
        elif {"norm", "sum"} & set(kinds) and {"", "parameter"} & set(kinds) and one.shape != other.shape:
            at = 0 if kinds[0] in ("norm", "sum") else 1
            self.late += not self.parts(notes[at]) <= ENDS
            self.keep(out, notes[at])
        elif any(kinds) and out.dim() > 1 and one.shape == other.shape and out.is_floating_point():
            self.add_up(notes[0], notes[1], out)
            self.taken += sign < 0 and not self.parts(notes[1]) <= {"?"}

    def see_sub(self, args: tuple, notes: list, out: Tensor) -> None:
        self.see_add(args, notes, out, -1)

    def enter(self, note: Note | None) -> None:
        """What goes into a layer; words with positions that were multiplied together are remarkable."""
        if note and note.by == "ends" and not math.isclose(note.factor, 1) and self.ends[-1].how == "added":
            root = math.isclose(note.factor, self.ends[-1].words.inner ** 0.5, rel_tol=1e-3)
            self.ends[-1] = replace(self.ends[-1], how="scaled as well" if root else "scaled otherwise")

    def add_up(self, one: Note | None, other: Note | None, out: Tensor) -> None:
        pair = self.parts(one), self.parts(other)
        self.sums.append(pair)
        self.keep(out, Note("sum", parts=pair[0] | pair[1]))

    def parts(self, note: Note | None) -> Parts:
        """What a tensor is the sum of; of what is not known, one part that has no name."""
        return frozenset({"?"}) if note is None else note.parts or frozenset({note.kind})

    # projections, and products of what was projected

    def see_mm(self, args: tuple, notes: list, out: Tensor) -> None:
        self.project(args[0], args[1], notes[:2], out)

    def see_addmm(self, args: tuple, notes: list, out: Tensor) -> None:
        self.project(args[1], args[2], notes[1:3], out)
        if notes[0] and notes[0].kind in ("norm", "sum", "words"):
            self.add_up(notes[0], self.notes.get(id(out)), out)

    def see_convolution(self, args: tuple, notes: list, out: Tensor) -> None:
        if args[1].shape[2:].numel() == 1:
            self.project(args[0].transpose(1, -1), args[1], notes[:2], out)

    def project(self, x: Tensor, matrix: Tensor, notes: list, out: Tensor) -> None:
        if not any(notes):
            return
        by = next((note.by for note in reversed(notes) if note and note.kind == "parameter"), "")
        given = next((note for note in notes if note and note.kind != "parameter"), None)
        self.used[by, matrix.storage_offset()] += 1
        self.projected.append(given)
        self.enter(given)
        self.last = given
        if given and given.kind == "norm" and not self.norm_of(given).before:
            self.norm_of(given).before = by
        kind = "?" if given is None else "branch" if given.kind in ("mixed", "bent", "projected") else "projected"
        self.keep(out, Note(
            "projected", width=x.shape[-1], by=by, at=matrix.storage_offset(), of=given and self.parts(given),
            before=self.whole(x), parts=frozenset({f"{kind} {len(self.projected)}"}),
        ))  # fmt: skip

    def see_bmm(self, args: tuple, notes: list, out: Tensor) -> None:
        (one, other), (left, right) = args[:2], notes[:2]
        kinds = [note.kind if note else "" for note in notes[:2]]
        if "weights" in kinds or ("scores" in kinds and left and right):
            at = 0 if kinds[0] in ("weights", "scores") else 1
            weights = (one, other.mT)[at].detach()
            sums = weights.sum(-1)
            off = (sums[(sums != 0) & sums.isfinite()] - 1).abs()  # a row without any weight is another matter
            far = float(off.max()) if len(off) else float(sums.isfinite().any())
            pair = self.products[notes[at].pair]
            self.attentions.append(Attention(notes[at], weights, notes[at].before, far, *pair, one.mT if at else other))
            self.keep(out, Note("mixed", parts=frozenset({f"mixed {len(self.attentions)}"})))
        elif out.shape[-2:] == (1, 1) and self.base(one) == self.base(other):
            self.reduce((one, -1), notes, out, "square", "mean")
        elif left and (right or self.stored) and "parameter" not in kinds:
            right = right or Note("projected")
            sizes = [float(x.detach().std()) / note.factor for x, note in ((one, left), (other, right))]
            raw = {left.kind, right.kind} <= {"words", "sum", "norm"}
            scores = replace(left, kind="scores", inner=one.shape[-1], factor=left.factor * right.factor, raw=raw)
            scores = replace(scores, keys=f"{right.by} {right.at}" if right.by else "")
            scores = replace(scores, of=self.parts(right) if raw else right.of, before=left.before or self.whole(one))
            scores = replace(scores, pair=len(self.products))
            self.products.append((one, other))
            self.keep(out, replace(scores, spread=sizes[0] / max(sizes[1], 1e-30), parts=frozenset()))
        elif left or right:
            self.project(one, other, notes[:2], out)

    def see_baddbmm(self, args: tuple, notes: list, out: Tensor) -> None:
        self.see_bmm(args[1:], notes[1:], out)
        if note := self.notes.get(id(out)):
            self.keep(out, replace(note, factor=note.factor * self.alpha))
        if (note := self.notes.get(id(out))) and note.kind == "scores" and args[0].numel() > 1:
            self.masked += 1
            self.keep(out, replace(note, fill=float(args[0].detach().min())))

    # masks and the softmax

    def see_masked_fill(self, args: tuple, notes: list, out: Tensor) -> None:
        self.fill(notes[0], args[2], out)

    def see_where(self, args: tuple, notes: list, out: Tensor) -> None:
        at = next((i for i, note in enumerate(notes) if note), 0)
        self.fill(notes[at], args[3 - at] if at else 0.0, out)

    def fill(self, note: Note | None, value: Any, out: Tensor) -> None:
        """A mask has written a value where it hides something."""
        if note and note.kind == "scores":
            self.masked += 1
            note = replace(note, fill=lowest(float(torch.as_tensor(value).detach().min()), note.fill))
        elif note and note.kind == "weights":
            note = replace(note, cut=True)
        self.keep(out, note)

    def see_softmax(self, args: tuple, notes: list, out: Tensor) -> None:
        if notes[0] and notes[0].kind in ("scores", "weights"):
            axis = args[1] if args[1] < 0 else args[1] - args[0].dim()
            twice = ("twice",) if notes[0].kind == "weights" else ()
            self.keep(out, replace(notes[0], kind="weights", axis=axis, steps=twice))

    see_safe_softmax = see_softmax

    def see_log_softmax(self, args: tuple, notes: list, out: Tensor) -> None:
        if notes[0] and notes[0].kind == "scores":
            axis = args[1] if args[1] < 0 else args[1] - args[0].dim()
            self.keep(out, replace(notes[0], steps=("log",), axis=axis))

    def see_exp(self, args: tuple, notes: list, out: Tensor) -> None:
        if notes[0] and notes[0].kind == "scores":
            kind = "weights" if notes[0].steps == ("log",) else "scores"
            self.keep(out, replace(notes[0], kind=kind, steps=("exp",)))

    def bend(self, name: str, notes: list, out: Tensor) -> None:
        """Something that bends; what a norm or an attention is made of passes it as it is."""
        note = next((note for note in notes if note), None)
        if note and note.kind in ("statistic", "scores", "weights"):
            self.keep(out, note)
            return
        if not out.is_floating_point():
            return
        self.bent.append(name)
        self.early += bool(note and note.kind in ("norm", "sum", "words"))
        self.keep(out, replace(note, kind="bent") if note and note.kind == "projected" else None)

    # normalised: what was centred or not, by the root of a mean of squares

    def reduce(self, args: tuple, notes: list, out: Any, *steps: str) -> None:
        """A mean or the like of a tensor, over some axes or all."""
        x = args[0]
        axes = args[1] if len(args) > 1 and args[1] not in (None, []) else list(range(x.dim()))
        axes = [axis % x.dim() - x.dim() for axis in (axes if isinstance(axes, Sequence) else [axes])]
        over = tuple((axis, x.shape[axis]) for axis in sorted(axes))
        before = notes[0].steps if notes[0] and notes[0].kind in ("powers", "statistic") else ()
        self.keep(out, Note("statistic", base=self.base(x), over=over, steps=(*before, *steps)))

    def see_mean(self, args: tuple, notes: list, out: Tensor) -> None:
        if (
            notes[0]
            and notes[0].kind == "mixed"
            and len(args) > 1
            and args[0].dim() - 1 not in [axis % args[0].dim() for axis in args[1]]
        ):
            self.averaged = True
            self.keep(out, notes[0])
        elif args[0].dim() > 1 and args[0].is_floating_point():
            self.reduce(args, notes, out, "mean")

    see_sum = see_mean

    def see_var(self, args: tuple, notes: list, out: Tensor) -> None:
        self.reduce(args, notes, out, "centred", "square", "mean")

    def see_std(self, args: tuple, notes: list, out: Tensor) -> None:
        self.reduce(args, notes, out, "centred", "square", "mean", "root")

    def see_var_mean(self, args: tuple, notes: list, out: tuple) -> None:
        self.see_var(args, notes, out[0])
        self.see_mean(args, notes, out[1])

    def see_linalg_vector_norm(self, args: tuple, notes: list, out: Tensor) -> None:
        if len(args) > 1 and args[1] == 2:
            self.reduce((args[0], *args[2:]), notes, out, "square", "mean", "root")

    def see_amax(self, args: tuple, notes: list, out: Tensor) -> None:
        self.reduce(args, notes, out, "max")

    def see_max(self, args: tuple, notes: list, out: Any) -> None:
        if len(args) > 1 and not isinstance(args[1], Tensor):
            self.reduce(args, notes, out[0], "max")

    def see_logsumexp(self, args: tuple, notes: list, out: Tensor) -> None:
        self.reduce(args, notes, out, "logsumexp")

    def see_sqrt(self, args: tuple, notes: list, out: Tensor) -> None:
        if notes[0] and notes[0].kind == "statistic":
            self.keep(out, replace(notes[0], steps=(*notes[0].steps, "root")))

    see_rsqrt = see_sqrt

    def see_reciprocal(self, args: tuple, notes: list, out: Tensor) -> None:
        if notes[0] and notes[0].kind == "statistic":
            self.keep(out, notes[0])

    def see_pow(self, args: tuple, notes: list, out: Tensor) -> None:
        if is_number(args[1]) and float(args[1]) == 2:
            self.square(args[0], notes[0], out)
        elif notes[0] and notes[0].kind == "statistic":
            self.see_sqrt(args, notes, out)
        elif notes[0] and notes[0].kind == "projected":  # within GELU
            self.keep(out, notes[0])

    def square(self, x: Tensor, note: Note | None, out: Tensor) -> None:
        if note and note.kind == "statistic":
            self.keep(out, note)
        elif x.dim() > 1:
            steps = ("centred", "square") if note and note.kind == "centred" else ("square",)
            self.keep(out, Note("powers", base=self.base(x), steps=steps))

    def see_norm(self, args: Sequence, notes: list, out: Tensor) -> bool:
        """Whether something is multiplied or divided by what was computed of it."""
        note, by = notes[:2]
        if not by or by.kind != "statistic":
            return False
        if is_number(args[0]) or (note and note.kind == "statistic"):
            self.keep(out, by)
        elif "square" in by.steps and self.base(args[0]) == by.base:
            how = {
                "steps": by.steps,
                "shift": by.shift,
                "guard": by.guard,
                "centred": bool(note and note.kind == "centred"),
            }
            gain = note.gain if note and note.kind == "centred" else self.gains.get(by.base, ("", 0, False))
            how |= dict(zip(("gain", "gain_size", "new"), gain, strict=True))
            self.normalise(self.known.get(by.base), by.over, out, **how)
        else:
            return False
        return True

    def normalise(self, note: Note | None, over: tuple, out: Tensor, **how: Any) -> None:
        """A normalisation, unless it is one of queries, keys, or of a matrix."""
        if (
            note
            and (note.kind in ("projected", "parameter", "scores", "weights"))
            and not any("branch" in one for one in note.parts)
        ):
            self.keep(out, note)
            return
        self.enter(note)
        self.norms.append(Norm(note and self.parts(note), over, **how))
        self.keep(out, Note("norm", parts=frozenset({f"norm {len(self.norms)}"})))

    def norm_of(self, note: Note) -> Norm:
        return self.norms[int(next(iter(note.parts)).split()[-1]) - 1]

    def see_gain(self, note: Note, gain: Note, values: Tensor, out: Tensor) -> None:
        said = (gain.by, values.numel(), bool((values == 1).all()))
        if note.kind == "norm":
            one = self.norm_of(note)
            one.gain, one.gain_size, one.new = said
        self.keep(out, note if note.kind == "norm" else replace(note, gain=said))

    def see_gain_before(self, pair: tuple, notes: list, out: Tensor) -> bool:
        """Whether a gain for each number of a vector comes before it is normalised, or where nothing is."""
        at = 0 if notes[0] and notes[0].kind == "parameter" else 1
        x, gain = pair[1 - at], pair[at]
        if (
            not isinstance(x, Tensor)
            or not isinstance(gain, Tensor)
            or notes[1 - at] is None
            or gain.numel() not in (1, x.shape[-1])
        ):
            return False
        if notes[1 - at].kind == "words" and gain.numel() == 1:
            return False
        self.keep(out, notes[1 - at])
        self.number(out, self.number(x))
        self.gains[self.number(x)] = (notes[at].by, gain.numel(), bool((gain == 1).all()))
        return True

    def see_addcmul(self, args: tuple, notes: list, out: Tensor) -> None:
        self.see_mul(args[1:], notes[1:], out)
        note = self.notes.get(id(out))
        if notes[0] and notes[0].kind in ("norm", "sum", "words"):
            self.add_up(notes[0], note, out)

    def see_native_layer_norm(self, args: tuple, notes: list, out: tuple) -> None:
        size = len(args[1])
        guard = args[-1] if isinstance(args[-1], float) else 0.0
        self.normalise(notes[0], tuple((i - size, one) for i, one in enumerate(args[1])), out[0], guard=guard)
        if notes[2] and (note := self.notes.get(id(out[0]))) and note.kind == "norm":
            self.see_gain(note, notes[2], args[2], out[0])

    def see_fused_rms_norm(self, args: tuple, notes: list, out: tuple) -> None:
        self.see_native_layer_norm((*args[:1], args[1], args[2]), notes, out)
        if self.norms:
            self.norms[-1].centred = False

    def see_native_group_norm(self, args: tuple, notes: list, out: tuple) -> None:
        channels, rest, groups = args[4:7]
        over = ((-1, channels // groups),) if rest == 1 else ((-2, channels // groups), (-1, rest))
        self.normalise(notes[0], over, out[0])

    def see_native_batch_norm(self, args: tuple, notes: list, out: tuple) -> None:
        self.norms.append(Norm(notes[0] and self.parts(notes[0]), ((0, 0),)))
        self.keep(out[0], Note("norm", parts=frozenset({f"norm {len(self.norms)}"})))


def is_number(one: Any) -> bool:
    """Whether it is one number, of Python's or of PyTorch's."""
    return not isinstance(one, Tensor) or one.numel() == 1


def lowest(one: float, other: float | None) -> float:
    """The smaller of two numbers, the second of which may be missing."""
    return one if other is None else min(one, other)
