"""What a model does inside as it runs: products, norms, residuals, seen without its names."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Attention", "Watch"]


@dataclass(frozen=True)
class Note:
    """Where a tensor comes from, as far as `Watch` has seen it."""

    kind: str  # parameter, words, places, projected, scores, weights, mixed, sum, norm
    factor: float = 1.0  # the numbers that it was multiplied by since
    inner: int = 0  # of scores: how many products one sums up; of words: how wide they are
    width: int = 0  # of a projection: how wide the vectors were before
    by: str = ""  # the parameter that it was made with
    spread: float = 1.0  # of words: standard deviation of the table; of scores: of queries, divided by that of keys
    axis: int = 0  # of weights: the softmax's, counted from the end
    learned: bool = False  # of a parameter and what was looked up in it
    cut: bool = False  # of weights: multiplied by a tensor after the softmax
    raw: bool = False  # of scores: of vectors that nothing has projected
    serial: int = 0  # of what was normalised: its number
    of: int = 0  # of a projection: the number of what was projected; of scores, of the keys


@dataclass(frozen=True)
class Attention:
    """One use of attention: what the scores were multiplied by, and the weights (batch and heads, queries, keys)."""

    scores: Note
    weights: Tensor
    layer: int  # how many normalisations came before
    off: float  # how far the weights of a query are from a sum of 1, at most

    @property
    def shape(self) -> tuple[int, int]:
        """Queries and keys."""
        return tuple(self.weights.shape[-2:])


@dataclass(frozen=True)
class Ends:
    """How tokens became vectors: rows of a table, times a factor, and what was done with positions."""

    words: Note
    length: int
    how: str  # added, multiplied, appended, nothing
    places: Tensor | None = None
    learned: bool = False


PASSED_ON = {  # operations that change the shape or the place of numbers, and by which a note stays true
    "view", "_unsafe_view", "reshape", "_reshape_alias", "transpose", "permute", "t", "expand", "clone", "contiguous",
    "unsqueeze", "squeeze", "alias", "detach", "_to_copy", "slice", "select", "masked_fill", "masked_fill_", "where",
    "copy_", "repeat", "split", "unbind", "split_with_sizes",
}  # fmt: skip
BENT = {
    "relu", "relu_", "gelu", "silu", "silu_", "clamp", "clamp_min", "clamp_min_", "maximum", "threshold", "tanh", "elu",
    "leaky_relu", "sigmoid", "erf", "softplus", "mish", "glu", "_prelu_kernel", "hardswish", "celu",
}  # fmt: skip


class Watch(TorchDispatchMode):
    """Within it, what PyTorch computes for somebody's model is written down: attentions, normalisations, sums.

    `tokens` are the ids that the model is given, by which its tables are told from its positions. What is computed in
    another way than by matrix products, a softmax and a layer normalisation of PyTorch's is not seen.
    """

    def __init__(self, model: nn.Module | None, *tokens: Tensor):
        super().__init__()
        self.names = {id(one): name for name, one in model.named_parameters()} if model is not None else {}
        self.tokens = [ids.flatten().sort().values for ids in tokens]
        self.lengths = {size for ids in tokens for size in ids.shape}
        self.notes: dict[int, Note] = {}
        self.kept: list[Tensor] = []  # so that no other tensor gets the id of one that has a note
        self.attentions: list[Attention] = []
        self.ends: list[Ends] = []
        self.norms: list[tuple[str, tuple[int, ...]]] = []  # of what kind a normalisation's input was, over which shape
        self.sums: list[tuple[str, str]] = []  # the kinds of two activations that were added
        self.bent: list[str] = []
        self.strays: dict[int, tuple[int, ...]] = {}  # shapes of parameters that the model does not name
        self.used: Counter[tuple[str, int]] = Counter()  # how often a matrix was used, by name and place
        self.averaged = False  # whether heads are
        self.late = 0  # how often a table was added to what a layer had returned

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = func.overloadpacket.__name__
        notes = [self.note(one) for one in args]  # before the call, which may work in place
        out = func(*args, **(kwargs or {}))
        chosen = name in ("where", "masked_fill") and any(note and note.kind == "projected" for note in notes)
        if name in BENT or chosen:
            self.bent.append(name.rstrip("_"))
        if see := getattr(self, f"see_{name.strip('_')}", None):
            see(args, notes, out)
        elif name in PASSED_ON:
            note = next((note for note in notes if note), None)
            for one in out if isinstance(out, (tuple, list)) else (out,):
                self.keep(one, note)
        return out

    def note(self, one: Any) -> Note | None:
        """What is known of an argument; a parameter is told by its type."""
        if not isinstance(one, Tensor):
            return None
        if id(one) not in self.notes and (isinstance(one, nn.Parameter) or (one.is_leaf and one.requires_grad)):
            if id(one) not in self.names:
                self.strays[id(one)] = tuple(one.shape)
            self.keep(one, Note("parameter", by=self.names.get(id(one), "?"), learned=one.requires_grad))
        return self.notes.get(id(one))

    def keep(self, tensor: Tensor, note: Note | None) -> None:
        if note:
            self.notes[id(tensor)] = note
            self.kept.append(tensor)

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
            found = ids.flatten().sort().values
            words = any(torch.equal(found, tokens) for tokens in self.tokens)
            spread = float(table.detach().std())
            kind = "words" if words else "places"
            self.keep(out, replace(note, kind=kind, inner=table.shape[1], spread=spread))

    def see_cat(self, args: tuple, notes: list, out: Tensor) -> None:
        found = [note for note in map(self.note, args[0]) if note]
        words = next((note for note in found if note.kind == "words"), None)
        if words and out.shape[-1] > args[0][0].shape[-1]:
            self.meet(words, out, "appended")
        elif found:  # keys of earlier steps, and those of this one
            self.keep(out, found[-1])

    def see_stack(self, args: tuple, notes: list, out: Tensor) -> None:
        self.keep(out, next((note for note in map(self.note, args[0]) if note), None))

    def meet(self, words: Note, out: Tensor, how: str, places: Tensor | None = None, learned: bool = False) -> None:
        length = max((size for size in self.lengths if size in out.shape[:-1]), default=0)
        self.ends.append(Ends(words, length, how, places, learned))
        self.keep(out, Note("sum", by="ends"))

    # multiplied and added

    def see_mul(self, args: tuple, notes: list, out: Tensor) -> None:
        one, other = args[:2]
        if isinstance(one, Tensor) and one.numel() == 1 and isinstance(other, Tensor):
            one, other, notes = other, one, notes[1::-1]
        if not isinstance(other, Tensor) or other.numel() == 1:
            if notes[0] and notes[0].by == "ends" and float(other) != 1:
                self.ends[-1] = replace(self.ends[-1], how="scaled as well")
            self.keep(out, notes[0] and replace(notes[0], factor=notes[0].factor * float(other)))
        elif notes[0] and notes[0].kind == "words" and other.dim() > 1 and other.shape[-1] == one.shape[-1]:
            self.meet(notes[0], out, "multiplied")
        else:
            if isinstance(other, Tensor) and other.dtype == torch.bool and notes[0] and notes[0].kind == "projected":
                self.bent.append("maximum")  # what is positive, times whether it is
            kinds = ("weights", "scores", "words", "projected")
            found = next((note for note in notes if note and note.kind in kinds), None)
            self.keep(out, found and replace(found, cut=found.kind == "weights"))

    def see_div(self, args: tuple, notes: list, out: Tensor) -> None:
        divisor = args[1]
        if not isinstance(divisor, Tensor) or divisor.numel() == 1:
            self.keep(out, notes[0] and replace(notes[0], factor=notes[0].factor / float(divisor)))
        else:
            self.keep(out, notes[0])

    def see_add(self, args: tuple, notes: list, out: Tensor) -> None:
        kinds = [note.kind if note else "" for note in notes[:2]]
        if not all(isinstance(one, Tensor) and one.dim() for one in args[:2]):
            self.keep(out, notes[0])
        elif kinds in (["words", ""], ["", "words"]) and args[kinds.index("")].shape[-1] != out.shape[-1]:
            self.keep(out, notes[kinds.index("words")])  # a mean is taken away, say
        elif kinds == ["projected", "projected"] and notes[0].by == notes[1].by:
            self.keep(out, notes[0])  # turned by its position
        elif "words" in kinds and out.is_floating_point():
            at = kinds.index("words")
            if kinds[1 - at] in ("projected", "mixed", "norm", "sum"):  # around a layer: no position came before
                self.sums.append((kinds[0], kinds[1]))
                self.meet(notes[at], out, "nothing")
            else:
                other = notes[1 - at]
                self.meet(notes[at], out, "added", args[1 - at].detach(), bool(other and other.learned))
        elif "scores" in kinds or "weights" in kinds:  # a mask, or a bias for each distance
            self.keep(out, next(note for note in notes if note and note.kind in ("scores", "weights")))
        elif "parameter" in kinds:  # a bias
            self.keep(out, notes[1 - kinds.index("parameter")])
        elif (
            {"norm", "sum"} & set(kinds)
            and "" in kinds
            and args[kinds.index("")].shape in (out.shape[1:], (1, *out.shape[1:]))
        ):
            self.late += 1
            self.keep(out, Note("sum"))
        elif any(kinds) and out.dim() > 1 and args[0].shape == args[1].shape and out.is_floating_point():
            self.sums.append((kinds[0], kinds[1]))
            self.keep(out, Note("sum"))

    see_sub = see_add

    # projections, and products of what was projected

    def see_mm(self, args: tuple, notes: list, out: Tensor) -> None:
        self.project(args[0], args[1], notes[:2], out)

    def see_addmm(self, args: tuple, notes: list, out: Tensor) -> None:
        self.project(args[1], args[2], notes[1:3], out)

    def project(self, x: Tensor, matrix: Tensor, notes: list, out: Tensor) -> None:
        by = next((note.by for note in reversed(notes) if note and note.kind == "parameter"), "")
        of = next((note.serial for note in notes if note and note.kind != "parameter"), 0)
        self.used[by, matrix.storage_offset()] += 1
        self.keep(out, Note("projected", width=x.shape[-1], by=by, of=of))

    def see_bmm(self, args: tuple, notes: list, out: Tensor) -> None:
        (one, other), (left, right) = args[:2], notes[:2]
        kinds = [note.kind if note else "" for note in notes[:2]]
        if "weights" in kinds:
            weights = (one, other.mT)[kinds.index("weights")].detach()
            sums = weights.sum(-1)
            off = (sums[sums != 0] - 1).abs()  # a row without any weight is another matter
            far = float(off.max()) if len(off) else 1.0
            note = notes[kinds.index("weights")]
            self.attentions.append(Attention(note, weights, len(self.norms), far))
            self.keep(out, Note("mixed"))
        elif left and right and "parameter" not in kinds:
            sizes = [float(x.detach().std()) / note.factor for x, note in ((one, left), (other, right))]
            raw = {left.kind, right.kind} <= {"words", "sum", "norm"}
            scores = replace(left, kind="scores", inner=one.shape[-1], factor=left.factor * right.factor, of=right.of)
            scores = replace(scores, raw=raw)
            self.keep(out, replace(scores, spread=sizes[0] / max(sizes[1], 1e-30)))
        elif left or right:
            self.project(one, other, notes[:2], out)

    def see_baddbmm(self, args: tuple, notes: list, out: Tensor) -> None:
        self.see_bmm(args[1:], notes[1:], out)

    def see_softmax(self, args: tuple, notes: list, out: Tensor) -> None:
        if notes[0] and notes[0].kind == "scores":
            axis = args[1] if args[1] < 0 else args[1] - args[0].dim()
            self.keep(out, replace(notes[0], kind="weights", axis=axis))

    see_safe_softmax = see_softmax

    def see_native_layer_norm(self, args: tuple, notes: list, out: tuple) -> None:
        kind = notes[0].kind if notes[0] else ""
        if kind == "projected" and self.ends and args[1][-1] != self.ends[0].words.inner:
            self.keep(out[0], notes[0])  # queries or keys of one head
            return
        self.norms.append((kind, tuple(args[1])))
        self.keep(out[0], Note("norm", serial=len(self.norms)))

    def see_mean(self, args: tuple, notes: list, out: Tensor) -> None:
        self.averaged |= bool(notes[0] and notes[0].kind == "mixed")

    def see_native_batch_norm(self, args: tuple, notes: list, out: tuple) -> None:
        self.norms.append(("batch", ()))
        self.keep(out[0], Note("norm"))
