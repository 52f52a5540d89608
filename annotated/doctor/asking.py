"""What is asked of a model, and what each answer means."""

import dis
import inspect
import math
import re
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from annotated.doctor.subject import (
    DOES_NOT_APPLY,
    MINE,
    RIGHT,
    UNTRIED,
    VARIANT,
    WRONG,
    Broken,
    StillRunning,
    Subject,
    Verdict,
    WithoutDropout,
    raised,
)
from annotated.doctor.watching import ENDS, Attention, Watch

__all__ = ["Broken", "CHECKS", "DOES_NOT_APPLY", "MINE", "StillRunning", "WRONG", "raised"]


def check_logits(subject: Subject) -> Verdict:
    """Logits, and not yet probabilities."""
    out = subject(*subject.pairs())[0]
    lowest = math.log(1 + (out.shape[-1] - 1) / math.e)
    if (out >= 0).all() and (out.sum(0) - 1).abs().max() < 1e-4:
        return Verdict(WRONG, "softmax over the sentence", "the numbers of each word sum to 1 over the sentence")
    if (out >= 0).all() and (out.sum(-1) - 1).abs().max() < 1e-4:
        says = (
            f"each position's numbers sum to 1; with another softmax in the loss, that cannot fall below {lowest:.2f}"
        )
        return Verdict(WRONG, "probabilities", says)
    if (out.exp().sum(-1) - 1).abs().max() < 1e-4:
        return Verdict(VARIANT, "log-probabilities", "log-probabilities come out, which cross-entropy takes as well")
    if (out >= 0).all() and 0.1 < (out == 0).double().mean() < 1:
        return Verdict(WRONG, "cut at 0", "no logit is below 0, and many are 0: something bends after the last matrix")
    return Verdict(RIGHT, "", f"numbers between {out.min():.2g} and {out.max():.2g}")


def check_repeats(subject: Subject) -> Verdict:
    """In evaluation nothing is left to chance."""
    pairs = subject.pairs(2)
    far = subject.far(subject(*pairs), subject(*pairs)).max()
    if not far:
        return Verdict(RIGHT, "", "the same input twice gives the same output")
    says = f"the same input twice: outputs differ by {far:.1g} of their size"
    if subject.module is None:
        says += "; a model that the function calls may be in training: say model.eval() before"
    return Verdict(WRONG, "random in evaluation", says)


def check_dropout(subject: Subject) -> Verdict:
    """In training something is dropped, where a rate or an argument says so."""
    if subject.module is None:
        return Verdict(UNTRIED, "", "a function cannot be put into training: hand over the module")
    pairs = subject.pairs(2)
    alive = subject.far(*(subject(*pairs, training=True, dropout=True) for _ in range(2))).max()
    modules = list(subject.module.modules())
    ignored = next(
        (found for kind in {type(one) for one in modules} for found in unread(kind) if re.search("drop|^p$", found)), ""
    )
    if ignored:
        says = "dropout argument unread" if alive else "dropout never drops"
        return Verdict(WRONG, says, f"nothing reads the argument {ignored!r}")
    if alive:
        return Verdict(RIGHT, "", "in training the same input gives other outputs")
    out = subject(*pairs, training=True, watch=(mode := WithoutDropout()))
    if mode.coins and subject.far(out[:1], out[1:]).max():  # and something comes through
        return Verdict(WRONG, "dropout never drops", "numbers are dropped, and the result is not used")
    rate = max((value for one in modules for value in rates(one)), default=0.0)
    if rate:
        says = f"a rate of {rate:g} stands in the model, and in training the same input gives the same output"
        return Verdict(WRONG, "dropout never drops", says)
    given = argument(subject.module, "drop")
    if given and given.default and not any("drop" in name for name in vars(subject.module)):
        says = f"no rate of dropout is above 0, and {given.name}={given.default} stands in its class"
        return Verdict(UNTRIED, "", says)
    return Verdict(DOES_NOT_APPLY, "", "no rate of dropout is above 0")


def rates(module: nn.Module) -> list[float]:
    """The rates of dropout that a module keeps."""
    kept = vars(module).items()
    named = [value for name, value in kept if "drop" in name or (name == "p" and "Drop" in type(module).__name__)]
    return [float(value) for value in named if isinstance(value, (int, float)) and 0 < value < 1]


def unread(kind: type) -> list[str]:
    """Arguments of a class that its constructor never reads."""
    code = getattr(vars(kind).get("__init__"), "__code__", None)
    if code is None or kind.__module__.startswith("torch."):
        return []
    loads = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "STORE_FAST_LOAD")
    read = {
        name for one in dis.get_instructions(code) if one.opname.startswith(loads)
        for name in re.findall(r"\w+", one.argrepr)
    }  # fmt: skip
    inner = {name for one in code.co_consts if hasattr(one, "co_freevars") for name in one.co_freevars}
    return [
        name for name in code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount] if name not in read | inner
    ]


def argument(module: nn.Module, word: str) -> inspect.Parameter | None:
    """The argument of a module's class whose name has a word in it."""
    every = inspect.signature(type(module)).parameters.values()
    return next((one for one in every if word in one.name and one.default is not one.empty), None)


def influence(subject: Subject) -> Tensor:
    """How far output t moves when token j of the target is another: (j, t)."""
    source, target = subject.pairs(target=6)
    base = subject(source, target)
    return torch.stack([subject.far(base, subject(source, subject.changed(target, j)))[0] for j in range(6)])


def check_ahead(subject: Subject) -> Verdict:
    """No output depends on a later token."""
    moved = subject.once(influence)
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
    moved = subject.once(influence) > 0
    own, past = moved.diagonal(), moved[torch.ones(6, 6).triu(1).bool()]
    missing = [(int(t), int(j)) for j, t in (~moved).nonzero() if j <= t]
    if not missing:
        return Verdict(RIGHT, "", "every output moves when its own token or one before it is another")
    if not moved.any():
        return Verdict(WRONG, "target unused", "another target, the same output")
    if not past.any():
        if not own[1:].any():
            return Verdict(
                WRONG, "past unseen", f"output {missing[0][0]} depends neither on its own token nor on the past"
            )
        return Verdict(WRONG, "past unseen", "each output depends on its own token alone")
    if not own[1:].any():
        shifted = torch.equal(moved[1:], torch.ones(6, 6).triu(1).bool()[1:])
        says = "an output depends on the tokens before its own, and not on its own: "
        says += "the model shifts its target itself; give it the target that is not shifted, or take the shift out"
        return Verdict(WRONG, "shifted inside the model" if shifted else "own token unseen", says)
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
    alone = subject(source, target)
    far = subject.far(alone, subject(F.pad(source, (0, 3), value=subject.pad), target)).max()
    if far:
        for other in range(min(8, subject.vocab)):
            if not subject.far(alone, subject(F.pad(source, (0, 3), value=other), target)).max():
                says = f"{other} after the source changes nothing, and {subject.pad}, which is to be padding, does"
                return Verdict(WRONG, "another id is padding", says)
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
        far = subject.far(subject(source[2:], target[2:], training), beside[2:]).max()
        if far and training and subject.far(beside, subject(source, target, training)).max():
            break  # there is chance in it that could not be taken out
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
    out = subject(source, target, watch=WithoutDropout())
    far = subject.far(out[:, :1].expand_as(out), out).max()
    if far:
        return Verdict(RIGHT, "", f"one word five times: its outputs differ by {far:.1g} of their size")
    with torch.enable_grad():
        subject(source, target, watch=(watch := Watch(subject.module, stored=subject.stores)))
    rows = [one.weights[..., -1, :] for one in watch.attentions if one.shape == (5, 5)]
    if any((row.amax(-1) - row.amin(-1)).max() > 1e-6 for row in rows):
        return Verdict(VARIANT, "relative positions", "positions are in the weights of attention, not in the words")
    if not rows:
        return Verdict(UNTRIED, "", "one word five times: all its outputs are equal, and the weights were not seen")
    return Verdict(WRONG, "target order unseen", "one word five times: all its outputs are equal")


def unseen(subject: Subject) -> Verdict:
    """What to say where no attention of the decoder was seen."""
    lengths = sorted({one.shape for one in subject.seen.attentions})
    if not lengths:
        return Verdict(UNTRIED, "", "no product of queries and keys was seen that goes through a softmax")
    shown = ", ".join(f"{queries} and {keys}" for queries, keys in lengths)
    given = "7 tokens" if subject.one_text else "5 and 7"
    return Verdict(UNTRIED, "", f"it attends with queries and keys of the lengths {shown}, where {given} were given")


def width(subject: Subject) -> int:
    """How wide the vectors between layers are; 0 where that was not seen."""
    sizes = [one.over[0][1] for one in subject.seen.norms if len(one.over) == 1 and one.over[0][0] == -1]
    return max(sizes, key=sizes.count) if sizes else next((one.words.inner for one in subject.seen.ends), 0)


def check_attentions(subject: Subject) -> Verdict:
    """Every decoder layer looks at the target and at the source."""
    counts = [len(subject.attentions(kind)) for kind in ("encoder", "decoder", "cross")]
    encoder, decoder, cross = counts
    others = len(subject.seen.attentions) - sum(counts)
    if verdict := heads_torn(subject):
        return verdict
    if not decoder + cross:
        return unseen(subject)
    says = f"{encoder} in the encoder, {decoder} in the decoder, {cross} from the decoder to the encoder"
    memories = {one.scores.of for one in subject.attentions("cross") if one.scores.of}
    if cross and memories and all(is_embedding(subject, one) for one in memories):
        return Verdict(
            WRONG, "encoder unused", "the decoder's layers read embedded words, not what the encoder returns"
        )
    if encoder and not others and 0 < cross < decoder:
        return Verdict(WRONG, "cross-attention in some layers", says)
    if not encoder or cross != decoder or others:
        apart = check_batch(subject).verdict == RIGHT
        if check_source(subject).verdict == RIGHT and apart:
            return Verdict(UNTRIED, "", f"not all attentions were seen: {says}, {others} others")
        odd = "attentions of other lengths" if apart else "odd attentions"
        found = "no cross-attention" if cross < decoder and not others else odd
        inputs = {(layer_of(one.scores.by), one.layer) for one in subject.attentions("decoder")}
        if found == "no cross-attention" and not cross and len(inputs) > len({layer for layer, _ in inputs}):
            found = "cross-attention reads the decoder"
        return Verdict(WRONG, found, f"{says}, {others} others")
    if verdict := matrices_missing(subject):
        return verdict
    if len(memories) > 1:
        return Verdict(WRONG, "several memories", "decoder layers read different outputs of the encoder, not its last")
    return heads_alike(subject) or Verdict(RIGHT, "", says)


def heads_torn(subject: Subject) -> Verdict | None:
    """Whether heads are cut, or joined, across tokens."""
    if not subject.seen.torn:
        return None
    found = "heads cut across tokens" if "projected" in subject.seen.torn else "heads joined across tokens"
    return Verdict(WRONG, found, "a view puts numbers of several tokens together: the axes are not transposed before")


def matrices_missing(subject: Subject) -> Verdict | None:
    """Whether an attention lacks a matrix of its own for queries, keys or what was mixed, or takes a mean of heads."""
    if any(one.scores.raw for one in subject.seen.attentions):
        return Verdict(WRONG, "not projected", "scores are products of the vectors themselves, not of projections")
    if any("mixed" in part for pair in subject.seen.sums for one in pair for part in one):
        return Verdict(WRONG, "no output matrix", "what was mixed is added as it is: no matrix after the heads")
    same = next((one.scores.by for one in subject.seen.attentions if one.scores.by and one.scores.keys == key(one)), "")
    if same:
        return Verdict(WRONG, "keys are queries", f"{same} makes both queries and keys")
    if subject.seen.averaged:
        return Verdict(WRONG, "heads averaged", "a mean is taken over what was mixed, where heads are to be joined")
    return None


def key(one: Attention) -> str:
    """The matrix of the queries, as that of the keys is written."""
    return f"{one.scores.by} {one.scores.at}"


def is_embedding(subject: Subject, parts: frozenset[str]) -> bool:
    """Whether something is the sum of words and positions, normalised or not."""
    norms = {f"norm {i + 1}": one.parts for i, one in enumerate(subject.seen.norms)}
    return all(part in ENDS or (part in norms and (norms[part] or {""}) <= ENDS) for part in parts)


def heads_alike(subject: Subject) -> Verdict | None:
    """Heads that are projected by one matrix, or attend in the same way."""
    narrow = [one.scores for one in subject.seen.attentions if one.scores.inner <= one.scores.width < width(subject)]
    if narrow:
        says = f"queries are projections of {narrow[0].width} numbers, where vectors have {width(subject)}"
        several = len({(one.by, one.at) for one in narrow}) > len({one.before for one in narrow})
        if several:
            return Verdict(VARIANT, "a part of the vector for each head", says)
        return Verdict(WRONG, "one projection for all heads", f"{says}: each head uses the same matrix")
    layers: dict[tuple, list[Tensor]] = {}
    for one in subject.seen.attentions:
        layers.setdefault((one.shape, one.layer), []).append(one.weights)
    for found in layers.values():
        rows = torch.stack(found) if len(found) > 1 else found[0].unflatten(0, (2, -1)).transpose(0, 1)
        turned = found[0].unflatten(0, (-1, 2))
        shown = rows[:, 0] if len(found) == 1 else rows
        even = len(rows) < 2 or (shown[..., -1, :2].diff().abs() <= 1e-9).all()
        if not even and any(len(each) > 1 and (each - each[:1]).abs().max() < 1e-12 for each in (rows, turned)):
            return Verdict(WRONG, "heads all alike", "all heads of a layer have the same weights")
    return None


def check_softmax(subject: Subject) -> Verdict:
    """The weights of a query sum to 1."""
    if not subject.seen.attentions:
        return unseen(subject)
    if any(one.scores.kind == "scores" for one in subject.seen.attentions):
        return Verdict(
            WRONG, "no softmax", "values are summed up by scores, or by something of them that is no softmax"
        )
    if any("twice" in one.scores.steps for one in subject.seen.attentions):
        return Verdict(WRONG, "two softmaxes", "the weights of attention go through another softmax")
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
        return unseen(subject)
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
        return unseen(subject)
    found, fills = set(), []
    for kind in ("encoder", "decoder", "cross"):
        for one in subject.attentions(kind):
            if one.scores.axis != -1 or len(one.weights) % 2:
                continue
            weights = one.weights.nan_to_num()
            if one is not subject.attentions(kind)[0] and not torch.isfinite(one.weights).all():
                continue  # what was no number before
            rows = weights.unflatten(0, (2, -1))  # batch and heads, or heads and batch
            turned = weights.unflatten(0, (-1, 2)).transpose(0, 1)
            if kind != "decoder":
                seen = torch.isfinite(one.weights).all(-1).all(0)
                if not seen.any():
                    continue
                rows, turned = rows[:, :, seen], turned[:, :, seen]
            here = min((hidden(kind, *rows), hidden(kind, *turned)), key=len)
            found |= here
            if any("reads" in one for one in here):
                fills.append(one.scores.fill)
    if not found:
        return Verdict(RIGHT, "", "weights are zero on padding and on later tokens, and nowhere else")
    if fills and set(fills) == {None}:
        used = sum(one.scores.fill is not None for one in subject.seen.attentions)
        if subject.seen.masked > used:
            found.add("mask without effect")
        elif not used:
            found.add("no mask at all")
    elif fills and all(fill is not None and fill > -100 for fill in fills):
        found.add("mask writes 0" if set(fills) == {0.0} else "mask writes too little")
    return Verdict(WRONG, ", ".join(sorted(found)), "seen in the weights of attention")


def hidden(kind: str, whole: Tensor, padded: Tensor) -> set[str]:
    """What is wrong with the zeros in weights (heads, queries, keys) of a pair, and of one with padding."""
    found, stairs = set(), torch.ones(whole.shape[1:]).tril().bool()
    allowed = stairs if kind == "decoder" else torch.ones_like(stairs)
    ahead = bool((whole * ~allowed).max() > 1e-12)
    hides = bool(whole.amax(0)[allowed].min() == 0)  # by all heads: one alone may come to 0 by rounding
    if kind == "decoder" and ahead and whole[:, :-1].mul(stairs[:-1]).max() <= 1e-12:
        return {"decoder reads only ahead"}
    if (
        kind == "decoder"
        and hides
        and whole.diagonal(dim1=1, dim2=2)[:, 1:].max() <= 1e-12 < whole[:, 1:].mul(stairs.tril(-1)[1:])[:, :, 0].min()
    ):
        return {"decoder hides each token from itself"}
    if ahead:
        found.add("decoder reads ahead")
    if hides:
        found.add(f"{kind} hides words")
    if kind != "decoder" and padded[:, :, 5:].max() > 1e-12:
        found.add(f"{kind} reads {'only ' if padded[:, :, :5].max() <= 1e-12 else ''}padding")
    return found


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
    ratio = min(one.ratio for one in subject.seen.ends)
    if ratio >= 0.5:
        return Verdict(VARIANT, "embedding not scaled", says)
    says = f"words are {ratio:.2g} times as large as the positions that are added to them, and not multiplied"
    table = dict(subject.module.named_parameters()).get(words.by) if subject.module is not None else None
    even = table is not None and float(table.detach().abs().max()) < 2 * float(table.detach().std())
    if words.times or even:  # by a number that somebody has chosen to be 1; drawn evenly, as all matrices are by Xavier
        return Verdict(VARIANT, "embedding not scaled", says)
    return Verdict(WRONG, "embedding not scaled", f"{says} by sqrt({words.inner}) = {root:.4g}")


def check_sharing(subject: Subject) -> Verdict:
    """Source, target and output share one table."""
    tables = {one.words.by for one in subject.seen.ends}
    if not tables or "" in tables:
        return Verdict(UNTRIED, "", "no table was seen in which words are looked up")
    if len(tables) == 1 and any(name in tables for name, _ in subject.seen.used):
        return Verdict(RIGHT, "", "source, target and output share one table")
    output = next(reversed(subject.seen.used), ("", 0))[0]
    if subject.module is not None and output not in tables:
        matrix = dict(subject.module.named_parameters()).get(output)
        owners = [one for one in subject.module.modules() if any(own is matrix for own in one._parameters.values())]
        if matrix is not None and (len(owners) > 1 or any("mbed" in type(one).__name__ for one in owners)):
            return Verdict(
                WRONG, "tied to an unused table", f"the output is tied to {output}, in which no word is looked up"
            )
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
    sides = {one.length: one.how for one in subject.seen.ends}
    if sorted(sides.values()) == ["added", "nothing"] and {*sides} == {5, 7}:
        side = "encoder" if sides[7] == "nothing" else "decoder"
        order = check_source_order if side == "encoder" else check_target_order
        if order(subject).verdict == WRONG:
            return Verdict(WRONG, f"no positions in the {side}", f"nothing is added to the words of the {side}")
    if not added and check_target_order(subject).found == "relative positions":
        return Verdict(DOES_NOT_APPLY, "", "nothing is added to the words: positions are in the weights of attention")
    if subject.seen.ends and all(one.how == "appended" for one in subject.seen.ends):
        return Verdict(DOES_NOT_APPLY, "", "positions are appended to the words, not added")
    if len(added) < 2:
        return Verdict(UNTRIED, "", "it was not seen on both sides that something is added to the words")
    if any(one.learned for one in added):
        return Verdict(VARIANT, "learned positions", "positions are learned, as in row (E) of Table 3")
    for one in added:
        table = one.places.double()
        while table.dim() > 2:  # (batch, length, d), or (length, batch, d)
            first = len(table) == one.length and table.shape[1] != one.length
            table = table.select(1 if first else 0, 0)
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
            steps = torch.arange(length).double()[:, None]
            others = {  # those that somebody has taken for the paper's, by name
                "frequencies not divided by the width": 10000.0 ** -torch.arange(width // 2).double(),
                "frequencies grow": 1 / rates,
            }
            made = {name: torch.stack([(steps * one).sin(), (steps * one).cos()], -1) for name, one in others.items()}
            own = 10000.0 ** (-(torch.arange(0, width, 2).double() + 1) / width)
            made["cosine with its own exponent"] = torch.stack([(steps * rates).sin(), (steps * own).cos()], -1)
            name = next((name for name, rows in made.items() if torch.allclose(table, rows.flatten(1), atol=1e-3)), "")
            if name:
                return Verdict(WRONG, name, "sines and cosines, but not the paper's")
            if any(torch.allclose(table.flip(0), rows, atol=1e-3) for rows in forms.values()):
                return Verdict(WRONG, "positions run backwards", "the last token has the first row")
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
    norms, (encoder, decoder) = subject.seen.norms, depths(subject)
    wanted = 2 * encoder + 3 * decoder if encoder and decoder else 0
    wide, unknown = width(subject), None in subject.seen.projected
    if not wanted and not norms:
        return unseen(subject)
    if any(one.over == ((0, 0),) or any(size == 2 != wide for _, size in one.over) for one in norms):
        return Verdict(WRONG, "normalised over the batch", "means are taken over the batch")
    if any(len(one.over) > 1 or one.over[0][1] in {5, 7} - {wide} for one in norms):  # the lengths of the two sentences
        return Verdict(WRONG, "normalised over the sentence", "means are taken over more than one token")
    if verdict := computed(subject) or residuals(subject, wanted):
        return verdict
    inputs = [one.parts for one in norms if one.parts and one.parts != {"?"}]
    growing = [one for one in inputs if one & starts(subject)]
    found, says = [], []
    if wanted and len(norms) < wanted:
        said = f"{len(norms)}, where the layers ask for {wanted}"
        if unknown:
            return Verdict(
                UNTRIED, "", f"normalisations were seen: {said}; some may be written in a way that is not known"
            )
        return Verdict(WRONG, "normalisations missing" if norms else "no normalisation", said)
    if len(inputs) < len(norms):
        return Verdict(
            UNTRIED, "", f"what {len(norms) - len(inputs)} of {len(norms)} normalisations are given was not seen"
        )
    if len(growing) > len(norms) / 2:
        found, says = ["pre-norm"], ["normalised before each layer, as in released code and later models"]
    elif wanted and len(norms) > wanted:
        found, says = ["normalised once more"], [f"{len(norms)} normalisations, where the layers ask for {wanted}"]
    if any(one.shift for one in norms):
        found += ["deviation and a shift"]
        says += [
            f"divided by the deviation and {max(one.shift for one in norms):g}, where others add it before the root"
        ]
    if not all(one.centred for one in norms):
        found += ["root mean square"]
        says += ["no mean is taken away"]
        if any(one.gain_size == 1 < wide for one in norms):
            found, says = [*found, "one gain for all"], [*says, "one number multiplies all of a vector"]
    if found:
        return Verdict(VARIANT, ", ".join(found), "; ".join(says))
    if not wanted:
        return unseen(subject)
    return Verdict(RIGHT, "", f"{len(norms)} normalisations, each of a sum of what went in and what came out")


def residuals(subject: Subject, wanted: int) -> Verdict | None:
    """What is wrong with what goes round the layers, as far as norms and sums show it."""
    norms, sums = subject.seen.norms, subject.seen.sums
    names = {f"norm {i + 1}": one for i, one in enumerate(norms)}
    inputs = {name: one.parts for name, one in names.items() if one.parts}
    bare = [name for name, parts in inputs.items() if all(part.startswith(("branch", "mixed")) for part in parts)]
    later = [name for name in bare if any({name} in pair and pair[0] != pair[1] for pair in sums)]
    if later and len(later) == len(bare):
        if len(norms) - len(bare) >= wanted:  # before the layer as well
            return Verdict(VARIANT, "normalised once more", f"{len(bare)} layers are normalised before and after")
        says = f"{len(bare)} of {len(norms)} normalisations get what a layer returned; what went in is added later"
        return Verdict(WRONG, "added after the normalisation", says)
    if bare:
        says = f"{len(bare)} of {len(norms)} normalisations get what a layer returned, without what went into it"
        return Verdict(WRONG, "no residual", says)
    twice = [name for name, parts in inputs.items() if parts <= names.keys()]
    if len(twice) > 2:  # once at the end of each stack is what PyTorch does
        says = f"{len(twice)} of {len(norms)} normalisations get what is normalised already"
        return Verdict(WRONG, "normalised twice", says)
    if any((one & other) - {"?"} for one, other in sums):
        return Verdict(WRONG, "added twice", "what goes round a layer is added twice to what it returns")
    if subject.seen.taken:
        return Verdict(WRONG, "taken away", "what a layer returned is taken away from what went in, not added")
    start = starts(subject)
    first = [name for name, parts in inputs.items() if parts <= start]
    added = [parts for parts in inputs.values() if not parts <= start]
    inside = [name for name in first if names[name].gain and layer_of(names[name].gain) == layer_of(names[name].before)]
    lost = [parts for parts in added if not parts & start and parts & names.keys()]
    if first and lost and (len(lost) < len(added) - len(twice) or inside or len(norms) == wanted):
        says = f"{len(lost)} sums begin with what was normalised for a layer, not with what went into it"
        return Verdict(WRONG, "residual of what is normalised", says)
    around = [pair for pair in sums if any(one & ({"?"} | ENDS | names.keys()) for one in pair)]
    if len(around) < wanted <= (len(norms) or wanted) and None not in subject.seen.projected and (norms or sums):
        return Verdict(
            WRONG, "no residual", f"{len(around)} sums of what went in and what came out, in {wanted} layers"
        )
    return None


def starts(subject: Subject) -> frozenset[str]:
    """What goes round all layers: words and positions, or these normalised."""
    inputs = [one.parts or frozenset() for one in subject.seen.norms]
    first = {f"norm {i + 1}" for i, parts in enumerate(inputs) if parts and parts <= ENDS}
    return ENDS | {name for name in first if sum(name in parts for parts in inputs) > 1}


def layer_of(name: str) -> str:
    """The name of a parameter up to the number of its layer; something else for each that has none."""
    return name[: found.end()] if (found := re.search(r"\d+", name)) else f"{name}?"


def computed(subject: Subject) -> Verdict | None:
    """What is wrong with how norms are computed."""
    norms, wide = subject.seen.norms, width(subject)
    if any(note and note.kind == "centred" for note in subject.seen.projected):
        return Verdict(WRONG, "not divided", "a mean is taken away, and nothing is divided by a deviation")
    if any("root" not in one.steps for one in norms):
        return Verdict(WRONG, "divided by the variance", "the root of the variance is not taken")
    if any("centred" in one.steps and not one.centred for one in norms):
        return Verdict(WRONG, "mean not taken away", "divided by the deviation, and the mean stays")
    if (guard := max((one.guard for one in norms), default=0.0)) >= 0.01:
        return Verdict(WRONG, "a large number under the root", f"{guard:g} is added to the variance")
    if (shift := max((one.shift for one in norms), default=0.0)) >= 0.1:
        return Verdict(WRONG, "deviation and a large shift", f"divided by the deviation and {shift:g}")
    if any(one.gain_size == 1 < wide and one.centred for one in norms):
        return Verdict(WRONG, "one gain for all", f"one number multiplies all {wide}, where each has its own")
    return None


def check_feed_forward(subject: Subject) -> Verdict:
    """Something bends between the two matrices of each layer."""
    wanted = sum(depths(subject))
    bent, names = subject.seen.bent, "/".join(sorted(set(subject.seen.bent)))
    if not wanted:
        return unseen(subject) if not bent else Verdict(RIGHT, "", names)
    if subject.seen.blurred:
        return Verdict(WRONG, "a mean over the sentence", "it is added to its tokens, where each is to be alone")
    if not bent:
        return Verdict(WRONG, "nothing bends", "no ReLU and nothing like it: two matrices in a row are one matrix")
    if subject.seen.early:
        return Verdict(WRONG, "bent before the matrix", f"{names} of what goes into a layer, not between two matrices")
    if len(bent) < wanted:
        return Verdict(WRONG, "ReLU missing", f"{names} {len(bent)} times in {wanted} layers")
    if not subject.one_text and not set(bent) <= {"relu", "clamp", "clamp_min", "maximum", "threshold"}:
        return Verdict(VARIANT, "not ReLU", f"{names}, where the paper has ReLU")
    return Verdict(RIGHT, "", f"{names if subject.one_text else 'ReLU'} in each of {wanted} layers")


def check_layers(subject: Subject) -> Verdict:
    """Each layer has weights of its own, drawn on their own, and the optimiser will be given all of them."""
    if subject.module is None:
        return Verdict(UNTRIED, "", "a function has no parameters to look at: hand over the module")
    strays = [tuple(one.shape) for one in subject.seen.strays.values() if (one != one.flatten()[0]).any()]
    if strays:  # but for gains of 1 and shifts of 0, which a normalisation made in each call brings along
        return Verdict(
            WRONG, "not registered", f"{len(strays)} parameters are used that it does not name, one {strays[0]}"
        )
    for kind in ("encoder", "decoder", "cross"):
        uses = {(one.scores.by, one.scores.at, one.layer) for one in subject.attentions(kind) if one.scores.by}
        matrices = {(name, at) for name, at, _ in uses}
        if len(matrices) < len(uses):
            says = f"{kind}: {len(uses)} layers with {len(matrices)} query matrices"
            return Verdict(WRONG, "one layer several times", says)
    often = [name for (name, _), times in subject.seen.used.items() if times > 1 and name and name[0] != "?"]
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
    return depth(subject) or Verdict(RIGHT, "", "each layer has numbers of its own, and all are registered")


def depth(subject: Subject) -> Verdict | None:
    """What is odd about the numbers of layers."""
    counts = dict(zip(("encoder", "decoder"), depths(subject), strict=True))
    names = inspect.signature(type(subject.module)).parameters
    one_for_both = next((name for name in names if name in DEPTHS), "")
    said = vars(subject.module).get(one_for_both)
    says = f"{counts['encoder']} in the encoder, {counts['decoder']} in the decoder"
    for kind, count in counts.items():
        if one_for_both and count and count == (said if isinstance(said, int) else max(counts.values())):
            continue
        if one_for_both and count and all(counts.values()):
            return Verdict(WRONG, f"other layers in the {kind}", f"{says}, and {one_for_both!r} is for both")
    if all(counts.values()) and counts["encoder"] != counts["decoder"]:
        return Verdict(VARIANT, "other layers in the decoder", says)
    return None


def check_gradients(subject: Subject) -> Verdict:
    """A gradient reaches every parameter."""
    if subject.module is None:
        return Verdict(UNTRIED, "", "a function has no parameters to look at: hand over the module")
    source, target = subject.pairs(4, 7, 6)
    subject.module.zero_grad()
    named = [(name, one) for name, one in subject.module.named_parameters() if one.requires_grad]
    if not named:
        return Verdict(DOES_NOT_APPLY, "", "all parameters are frozen")
    with torch.enable_grad():
        out = subject(source, target, training=True)
        F.cross_entropy(out[:, :-1].flatten(0, 1), target[:, 1:].flatten()).backward()
    left = [name for name, one in named if one.grad is None or (one.dim() > 1 and not one.grad.any())]
    subject.module.zero_grad()
    if left:
        layers = {layer_of(name) for name in left}
        sizes = {one: [name in left for name, _ in named if layer_of(name) == one] for one in layers}
        whole = any(len(each) > 3 and all(each) for each in sizes.values())
        found = "whole layers never reached" if whole else "never reached"
        if {name for name, _ in subject.seen.used} & set(left):
            uses = [(one.layer, one.scores.by) for one in subject.seen.attentions]
            lost = {layer for layer, by in uses if by in left} & {layer for layer, by in uses if by not in left}
            found = "layers beside each other" if lost else "whole layers cut off" if whole else "cut off"
        return Verdict(WRONG, found, f"{len(left)} of {len(named)} parameters get no gradient, one is {left[0]}")
    frozen = {one.words.by for one in subject.seen.ends} - {"", *(name for name, _ in named)}
    if frozen:
        return Verdict(VARIANT, "table of words frozen", f"{', '.join(sorted(frozen))} does not ask for a gradient")
    return Verdict(RIGHT, "", "a gradient reaches every parameter")


def check_first_loss(subject: Subject) -> Verdict:
    """Untrained, a model knows nothing, and not the wrong thing."""
    modules = [] if subject.module is None else subject.module.modules()
    gains = [getattr(one, "weight", None) for one in modules if "Norm" in type(one).__name__]
    new = [bool((one == 1).all()) for one in gains if isinstance(one, Tensor)]
    new = new or [one.new for one in subject.seen.norms if one.gain]
    if not new:
        return Verdict(UNTRIED, "", "nothing says that it is untrained: no gains of a normalisation were seen")
    if not all(new):
        return Verdict(DOES_NOT_APPLY, "", "it is trained: not all gains of its normalisations are 1")
    source, target = subject.pairs(8, 7, 7)
    out = subject(source, target)
    value = float(F.cross_entropy(out[:, :-1].flatten(0, 1), target[:, 1:].flatten()).detach())
    even = math.log(out.shape[-1])
    says = f"untrained, its loss is {value:.1f}; knowing nothing costs ln {out.shape[-1]} = {even:.1f}"
    if value <= even + 5:
        return Verdict(RIGHT, "", says)
    output = next(reversed(subject.seen.used), ("", 0))[0]
    large = any(one.words.by == output and one.words.spread > 0.5 for one in subject.seen.ends)
    return Verdict(WRONG, "tied to numbers of size 1" if large else "first loss too high", says)


def check_learning(subject: Subject) -> Verdict:
    """Some hundred steps on copying five words, which one text holds before; then it writes by itself."""
    if subject.module is None:
        return Verdict(UNTRIED, "", "a function cannot be trained: hand over the module")
    some = torch.tensor(subject.plain_ids[:12])
    draw = torch.Generator().manual_seed(0)

    def batch(rows: int) -> tuple[Tensor, Tensor]:
        words = some[torch.randint(len(some), (rows, 5), generator=draw)]
        ends = [torch.full((rows, 1), one) for one in (subject.bos, subject.eos)]
        return words, torch.cat([*([words] if subject.one_text else []), ends[0], words, ends[1]], 1)

    optimizer = torch.optim.Adam(subject.module.parameters(), lr=0.002, betas=(0.9, 0.98))
    with torch.enable_grad():
        for _ in range(300):
            source, target = batch(32)
            out = subject(source, target[:, :-1])[:, -6:]  # without dropout
            loss = F.cross_entropy(out.flatten(0, 1), target[:, -6:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    source, target = batch(50)
    written = target[:, :-6]
    for _ in range(6):
        written = torch.cat([written, subject(source, written)[:, -1:].argmax(-1)], 1)
    share = float((written == target).all(1).double().mean())
    says = f"after 300 steps of copying five words its loss is {loss:.2f}, and by itself it copies {share:.0%} rightly"
    if share >= 0.9:
        return Verdict(RIGHT, "", says)
    return Verdict(WRONG, "reads the answer" if loss < 0.2 else "does not learn", says)


def depths(subject: Subject) -> tuple[int, int]:
    """How many layers encoder and decoder have; 0 for a decoder in which not every layer reads the source."""
    decoder = subject.layers("decoder")
    return subject.layers("encoder"), decoder if subject.one_text or subject.layers("cross") == decoder else 0


DEPTHS = {"num_layers", "n_layers", "n_layer", "num_layer", "layers", "N", "depth", "n_blocks", "num_blocks", "blocks"}


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
        "Attention that is too sharp or too even from the first step, and learning that is slow.",
    ),
    Check(
        "masks",
        check_masks,
        "32_attention#masks-plain",
        "The loss is too good, or padding matters: this check says where.",
    ),
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
