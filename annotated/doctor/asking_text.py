"""What is asked of a model that takes one text, and what each answer means."""

import linecache
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from annotated.doctor import asking
from annotated.doctor.asking import Check, influence, unseen
from annotated.doctor.one_text import FORMS, PADDING, Text
from annotated.doctor.subject import DOES_NOT_APPLY, RIGHT, UNTRIED, VARIANT, WRONG, Verdict, copied, logits_in, raised
from annotated.doctor.watching import Attention, Mode, Watch

__all__ = ["TEXT_CHECKS"]

right, untried, apart = (partial(Verdict, one, "") for one in (RIGHT, UNTRIED, DOES_NOT_APPLY))
wrong, variant = (partial(Verdict, one) for one in (WRONG, VARIANT))


# what may be read: later tokens never, earlier ones always, but for a window


def windows(subject: Text) -> list[int]:
    """For each attention, how many tokens the last one reads, itself included, if those are the last ones."""
    found = []
    for one in subject.attentions("decoder"):
        reads = (one.weights.nan_to_num().amax(0) > 1e-12)[-1]
        count = int(reads.sum())
        found.append(count if reads[7 - count :].all() else 7)
    return found


def check_past(subject: Text) -> Verdict:
    """Every output depends on its own token and on all before it, as far as its windows reach."""
    verdict = asking.check_past(subject)
    reach = 1 + sum(one - 1 for one in windows(subject)) if min(windows(subject), default=7) < 7 else 6
    if verdict.found in ("part of the past unseen", "past unseen") and reach > 1:
        back = torch.arange(6) - torch.arange(6)[:, None]
        if torch.equal(subject.once(influence) > 0, (back >= 0) & (back < reach)):
            return right(f"every output moves with its own token and with {reach - 1} before, as far as windows reach")
    return verdict


def check_ahead(subject: Text) -> Verdict:
    """No output depends on a later token, unless a model's name says that it reads both ways."""
    verdict = asking.check_ahead(subject)
    both = re.search("(?i)bert|mlm|masked|bidirectional|encoder", type(subject.model).__name__)
    if both and verdict.found == "sees later tokens":
        return variant("reads both ways", f"{verdict.says}, as its name says")
    return verdict


def check_masks(subject: Text) -> Verdict:
    """In every layer and head, weights are zero on later tokens, and on no earlier ones but beyond a window."""
    every = subject.attentions("decoder")
    if subject.once(check_ahead).verdict == VARIANT:
        return apart("it reads both ways")
    if not every:
        return unseen(subject)
    stairs, ahead, hides = torch.ones(7, 7).tril().bool(), [], []
    for one, width in zip(every, windows(subject), strict=True):
        reads = one.weights.nan_to_num() > 1e-12  # (batch and heads, queries, keys)
        ahead.append(reads & ~stairs)
        band = stairs & ~torch.ones(7, 7).tril(-width).bool()
        hides.append((~reads & band).all(0))
    if all(one.diagonal()[1:].all() and one[1:, 0].sum() == 0 for one in hides):
        return wrong("hides each token from itself", "no token has weight on itself, where there is one before")
    leaks = [i for i, one in enumerate(ahead) if one.any()]
    if leaks:
        rows = torch.cat([one.flatten(1).any(1) for one in ahead])
        next_only = all(not (one & ~torch.ones(7, 7).tril(1).bool()).any() for one in ahead)
        found = "the mask lets the next token through" if next_only else "reads ahead"
        if len(leaks) < len(every):
            found = "the last layer reads ahead" if leaks == [len(every) - 1] else "some layers read ahead"
        elif rows.double().mean() < 1:
            found = "some heads read ahead"
        fills = {one.scores.fill for one in every}
        if found == "reads ahead" and None not in fills and min(fills) > -100:
            found = "mask writes 0" if fills == {0.0} else "mask writes too little"
        return wrong(found, f"{int(rows.sum())} of {len(rows)} heads have weight on later tokens")
    if any(one.any() for one in hides):
        return wrong("hides words", f"{sum(map(torch.any, hides))} attentions have no weight on some earlier token")
    return right("weights are zero on later tokens, and on no earlier ones within reach")


def numbers_called(subject: Text, form: str, but: str = "^$") -> list[float]:
    """All numbers that the model keeps under a name of a form, in its modules and in its settings."""
    found: list[float] = []

    def look(value: Any, is_it: bool, depth: int) -> None:
        if is_it and isinstance(value, (int, float)) and not isinstance(value, bool):
            found.append(float(value))
        elif is_it and isinstance(value, (tuple, list)):
            for one in value:
                look(one, True, depth)
        elif depth and (
            isinstance(value, dict) or (hasattr(value, "__dict__") and not isinstance(value, (type, nn.Module, Tensor)))
        ):
            for name, one in list((value if isinstance(value, dict) else vars(value)).items()):
                named = isinstance(name, str) and re.search(form, name.lower()) and not re.search(but, name.lower())
                look(one, bool(named), depth - 1)

    for module in subject.module.modules() if subject.module is not None else ():
        own = {name: one for name, one in vars(module).items() if name not in ("_parameters", "_buffers", "_modules")}
        look(own, False, 3)
    return found


def check_windows(subject: Text) -> Verdict:
    """A window holds as many tokens as its number says, the token itself among them."""
    said = {int(one) for one in numbers_called(subject, "window", "context|max_window|layers") if one > 0}
    if not subject.attentions("decoder"):
        return unseen(subject)
    seen = sorted(set(windows(subject)) - {7})
    shown = ", ".join(map(str, sorted(said)))
    if not seen and not any(one < 7 for one in said):
        far = [one for one in said if one < 200]
        return longer_windows(subject, set(far)) if far else apart("every token reads all before it")
    if not seen:
        return wrong("window unused", f"a window of {shown} is kept, and every token reads all seven")
    if not said:
        return variant("windows", f"tokens read the last {', '.join(map(str, seen))}, themselves included")
    return window_verdict(seen, said)


def window_verdict(seen: list[int], said: set[int]) -> Verdict:
    """What windows that were seen are, beside those that are said."""
    odd = [one for one in seen if one not in said]
    shown = ", ".join(map(str, sorted(said)))
    if not odd:
        return right(f"tokens read the last {', '.join(map(str, seen))}, themselves included, as it says")
    more = next((one for one in odd if one - 1 in said), 0)
    found = "window one too wide" if more else "window one too narrow" if odd[0] + 1 in said else "another window"
    return wrong(found, f"a window of {shown} is kept, and tokens read the last {odd[0]}, themselves included")


def longer_windows(subject: Text, said: set[int]) -> Verdict:
    """The same of windows that seven tokens do not fill."""
    length = max(said) + 3
    try:
        seen = subject.watched(subject.words(1, length, seed=4)).attentions
    except Exception:
        return untried(f"a window of {max(said)} is kept, and a text of {length} tokens was not taken")
    counts = {int((one.weights[:, -1] > 0).any(0).sum()) for one in seen if one.shape == (length, length)}
    if not counts:
        return untried(f"a window of {max(said)} is kept, and no attention of {length} tokens was seen")
    if counts == {length}:
        return wrong("window unused", f"a window of {max(said)} is kept, and every token reads all {length}")
    return window_verdict(sorted(counts - {length}), said)


# reading on from what was read


PIECES = (3, 1, 2)


def check_cache(subject: Text) -> Verdict:
    """With a cache, a text read token by token, or in pieces, has the same outputs."""
    if not {"cache", "flag", "start"} & subject.call.handles.keys():
        return apart("it takes no cache")
    if not subject.batch_first:
        return untried("it takes the batch second")
    if subject.once(check_ahead).verdict == WRONG:
        return untried("outputs depend on later tokens: nothing can be compared")
    tokens = subject.words(2, sum(PIECES), seed=5)
    whole = subject.text(tokens)
    kept, first, how = None, None, ""
    for name, make in subject.sessions():
        try:
            odd = steps_off(subject, make, whole, tokens, (1,) * sum(PIECES))
        except Exception as error:
            first = first or error
            continue
        if kept is None or not odd:
            kept, how, bad = make, name, odd
        if not odd:
            break
    if kept is None:
        says = raised(first) if first else "it is not known how"
        return untried(f"it was not found how a cache is handed over: {says}")
    if bad:
        return unlike(subject, kept, tokens, bad, how)
    try:
        far = steps_off(subject, kept, whole, tokens, PIECES)
    except Exception as error:
        return variant("one token at a time", f"read so ({how}) all is equal; pieces raise {raised(error)}")
    if far:
        return unlike_piece(subject, kept, tokens, far)
    subject.kept = kept
    if how.endswith(f"with {subject.call.handles.get('positions')}"):
        return variant("positions are to be given", f"it does not count them itself; with them all is equal ({how})")
    return right(f"token by token, and in pieces of 3, 1 and 2, outputs are those of the whole text ({how})")


def steps_off(subject: Text, make: Callable, whole: Tensor, tokens: Tensor, sizes: tuple[int, ...]) -> tuple:
    """At which place outputs differ first from those of the whole text, and by how much; nothing where none does."""
    further, start = make(), 0
    for size in sizes:
        out = further(tokens[:, start : start + size])
        wanted = whole[:, start : start + size][:, -out.shape[1] :]
        if (far := subject.far(wanted, out)).any():
            return start, float(far.max())
        start += size
    return ()


def stepped(subject: Text, make: Callable, tokens: Tensor, sizes: tuple[int, ...]) -> list[Attention]:
    """The attentions of the last of some pieces."""
    further, start = make(), 0
    for size in sizes:
        watch = Watch(None, tokens, stored=True)
        with torch.enable_grad():  # products of matrices are written otherwise without
            further(tokens[:, start : start + size], watch=watch)
        start += size
    return watch.attentions


def unlike(subject: Text, make: Callable, tokens: Tensor, off: tuple, how: str) -> Verdict:
    """Why a text that is read token by token has other outputs."""
    start, far = off
    says = f"read token by token ({how}), output {start} differs by {far:.1g} of its size"
    if not start:
        return wrong("the first token differs", says)
    same = subject.words(1, 1, seed=5).expand(2, start + 1)  # one word: what differs is its place
    whole, one = subject.watched(same).attentions, stepped(subject, make, same, (1,) * (start + 1))
    if not one or len(one) != len(whole):
        return wrong("cached differs", says)
    lengths = {each.shape[1] for each in one}
    if lengths == {1}:
        return wrong("cache not read", f"{says}: it has no keys of earlier tokens")
    if min(lengths) <= start:
        return wrong("cache does not grow", f"{says}: of {start + 1} tokens it has {min(lengths)} keys")
    if max(lengths) > start + 1:
        return wrong("cache holds too much", f"{says}: of {start + 1} tokens it has {max(lengths)} keys")
    near = lambda a, b: a.shape == b.shape and torch.allclose(a, b, atol=1e-6)  # noqa: E731
    queries = whole[0].queries
    if not near(one[0].queries[:, 0], queries[:, start]):
        at = next((i for i in range(start) if near(one[0].queries[:, 0], queries[:, i])), None)
        if at is not None:
            return wrong("places begin anew", f"{says}: its place is counted as {at}")
        return wrong("another place", f"{says}: the query is not that of place {start}")
    whole, one = subject.watched(tokens[:, : start + 1]).attentions, stepped(subject, make, tokens, (1,) * (start + 1))
    for i, (a, b) in enumerate(zip(whole, one, strict=True)):  # what comes after the first that differs does as well
        for what in ("keys", "values"):
            ours, theirs = getattr(a, what), getattr(b, what)
            if near(ours, theirs):
                continue
            past = [getattr(other, what)[:, :start] for other in whole]
            at = next((k for k, other in enumerate(past) if k != i and near(other, theirs[:, :start])), None)
            if at is not None:
                return wrong("cache of another layer", f"{says}: layer {i + 1} has {what} of layer {at + 1}")
            if near(theirs[:, 0], ours[:, start]):
                return wrong("cache overwritten", f"{says}: in layer {i + 1} its {what} stand at the first place")
            return wrong(f"other {what} in the cache", f"{says}: in layer {i + 1}")
        if not near(a.weights[:, -1:], b.weights):
            return wrong("mask of a step", f"{says}: layer {i + 1} does not read all that came before")
    return wrong("cached differs", says)


def unlike_piece(subject: Text, make: Callable, tokens: Tensor, off: tuple) -> Verdict:
    """Why a text that is read in pieces has other outputs."""
    start, far = off
    says = f"read in pieces of 3, 1 and 2, an output of the piece at {start} differs by {far:.1g} of its size"
    for one in stepped(subject, make, tokens, PIECES[: (0, 3, 4).index(start) + 1]):
        queries, keys = one.shape
        back = torch.arange(start, start + queries)[:, None] - torch.arange(keys)
        reads = one.weights.nan_to_num().amax(0) > 1e-12
        if keys == start + queries and (reads & (back < 0)).any():
            return wrong("a piece reads ahead", f"{says}: tokens in it have weight on later ones")
        if keys == start + queries and not reads[back >= 0].all() and min(windows(subject)) == 7:
            return wrong("mask of a piece begins at the first token", f"{says}: tokens in it do not read all before")
    return wrong("pieces differ", says)


# padding on the left


def check_left_padding(subject: Text) -> Verdict:
    """Padding on the left, where a mask says that it is padding, moves nothing."""
    handles = subject.call.handles
    if not subject.call.takes_padding:
        return apart("it takes no mask of padding")
    if not subject.batch_first:
        return untried("it takes the batch second")
    if subject.once(check_ahead).verdict == WRONG:
        return untried("outputs depend on later tokens: nothing can be compared")
    tokens = subject.words(2, 6, seed=6)
    padded = F.pad(tokens, (3, 0), value=subject.pad)
    other = padded.clone()
    other[:, :3] = tokens[:, :3]
    real = torch.ones(padded.shape).bool()
    real[:, :3] = False
    alone, bare = subject.text(tokens), subject.text(padded)
    given = {"positions": (real.cumsum(-1) - 1).clamp(min=0)} if "positions" in handles else {}
    best, first = None, None
    for form, make in FORMS.items():
        try:
            out, moved = (subject.text(ids, mask=make(real), **given) for ids in (padded, other))
        except Exception as error:
            first = first or error
            continue
        far = float(subject.far(alone, out[:, -alone.shape[1] :]).max())
        reads = bool(subject.far(out, moved)[:, 3:].any())
        acts = bool(subject.far(bare, out).any())
        if far < 1e-5:  # tables of sines may be in single precision
            subject.form = form
            if verdict := padded_steps(subject, padded, real, alone, make):
                return verdict
            return right(f"three paddings before a text move nothing ({handles['mask']}: {form})")
        if best is None or (reads, not acts) < best[:2]:
            best = reads, not acts, far, form
    if best is None:
        return untried(f"it was not found what {handles['mask']!r} is to be: {raised(first)}")
    reads, idle, far, form = best
    says = f"three paddings before a text move its outputs by {far:.1g} of their size ({handles['mask']}: {form})"
    if math.isinf(far):
        return wrong("padding gives no numbers", says)
    if not re.search(PADDING, handles["mask"]):
        return untried(f"{says}; it is not known what that mask is to be")
    if idle:
        return wrong("mask without effect", f"{says}; with the mask and without it, outputs are the same")
    if reads:
        return wrong("padding read", f"{says}, and so does another word in their place")
    if "positions" not in handles and subject.once(check_rotary).verdict == DOES_NOT_APPLY:
        return variant("places count padding", f"{says}: pad on the right")
    return wrong("left padding moves", f"{says}; the padding itself is not read")


def padded_steps(subject: Text, padded: Tensor, real: Tensor, alone: Tensor, form: Callable) -> Verdict | None:
    """What is wrong where a padded text is read token by token after its beginning."""
    if subject.once(check_cache).verdict != RIGHT:
        return None
    least, places = math.inf, (real.cumsum(-1) - 1).clamp(min=0)
    for start_of in ((0, 0, 0), (0, 5, 6)):  # a mask of all tokens so far, or of those that are handed over
        try:
            further, far = subject.kept(), 0.0
            for first, start, end in zip(start_of, (0, 5, 6), (5, 6, 9), strict=True):
                given = {"positions": places[:, start:end]} if "positions" in subject.call.handles else {}
                out = further(padded[:, start:end], mask=form(real[:, first:end]), **given)
                wanted = alone[:, max(start - 3, 0) : end - 3]
                far = max(far, float(subject.far(wanted, out[:, -wanted.shape[1] :]).max()))
        except Exception:  # not so
            continue
        least = min(least, far)
    if 1e-5 < least < math.inf:
        return wrong("padding moves cached steps", f"after three paddings, they differ by {least:.1g} of their size")
    return None


# places: none, added, or turned into queries and keys


@contextmanager
def shaken(subject: Text) -> Iterator[None]:
    """Within it, gains are no longer all alike, so that it matters what comes before them."""
    vectors = [one for one in (subject.module.parameters() if subject.module is not None else ()) if one.dim() == 1]
    before = [one.data.clone() for one in vectors]
    draw = torch.Generator().manual_seed(0)
    for one in vectors:
        one.data *= 0.5 + torch.rand(one.shape, generator=draw).to(one.dtype)
    try:
        yield
    finally:
        for one, data in zip(vectors, before, strict=True):
            one.data = data


class Turned(NamedTuple):
    """How vectors of one word differ from place to place: layout, angles from one place to the next."""

    layout: str  # still, halves, neighbours, or empty where lengths of pairs change
    angles: Tensor


def turned(x: Tensor) -> Turned:
    """The same of queries or keys (heads, places, d)."""
    size = x.abs().max().clamp(min=1e-30)
    moves = ((x - x[:, :1]).abs().amax((0, 1)) > 1e-7 * size).nonzero().flatten().tolist()
    if not moves:
        return Turned("still", torch.empty(0))
    for low, high in dict.fromkeys([(moves[0], moves[-1] + 1), (0, moves[-1] + 1), (0, x.shape[-1])]):
        part = x[..., low:high]
        if (high - low) % 2:
            continue
        for layout, (a, b) in {"halves": part.chunk(2, -1), "neighbours": (part[..., ::2], part[..., 1::2])}.items():
            lengths = a.square() + b.square()
            if (lengths - lengths[:, :1]).abs().max() < 1e-5 * size.square():
                pairs = torch.complex(a.double(), b.double())
                return Turned(layout, (pairs[:, 1] * pairs[:, 0].conj()).sum(0).angle())
    return Turned("", torch.empty(0))


LAYOUTS = {"halves": "(i, i + d/2)", "neighbours": "(2i, 2i + 1)"}


def same_word(subject: Text) -> list[Attention]:
    """The attentions of one word seven times, whose vectors are alike but for their places."""
    if not hasattr(subject, "word"):
        with shaken(subject):
            subject.word = subject.watched(subject.words(1, 1, seed=3).expand(1, 7)).attentions
    return [one for one in subject.word if one.shape == (7, 7)]


def check_rotary(subject: Text) -> Verdict:
    """Queries and keys, and nothing else, are turned by their places, in pairs of one layout, by speeds as said."""
    every = same_word(subject)
    if not every:
        return unseen(subject)
    told = ""
    for i, one in enumerate(every):
        q, k, v = (turned(x.detach()) for x in (one.queries, one.keys, one.values))
        if v.layout == "" or (v.layout != "still" and q.layout == k.layout == "still"):
            break  # places were added to the words before
        if v.layout != "still":
            return wrong("values turned", f"layer {i + 1}: values of one word differ from place to place")
        if q.layout == k.layout == "still":
            continue
        if "still" in (q.layout, k.layout):
            return wrong(f"{'queries' if q.layout == 'still' else 'keys'} not turned", "only the others are")
        if "" in (q.layout, k.layout):
            return not_in_pairs(subject, one, q, k)
        if q.layout != k.layout and one.queries.shape[-1] > 2:
            says = f"queries are turned in pairs {LAYOUTS[q.layout]}, keys in pairs {LAYOUTS[k.layout]}"
            return wrong("two layouts", says)
        scores = (one.queries @ one.keys.mT).detach()
        if (scores[:, 1:, 1:] - scores[:, :-1, :-1]).abs().max() > 1e-5 * scores.abs().max():
            back = torch.allclose(q.angles, -k.angles, atol=1e-6)
            found = "turned apart" if back else "not relative"
            return wrong(found, "scores of one word depend on its places, not only on how far they are apart")
        told = told or q.layout
        if verdict := speeds(subject, one, q):
            return verdict
    if not told:
        return apart("queries and keys are not turned by their places")
    return right(f"queries and keys are turned in pairs {LAYOUTS[told]}; scores depend on the distance only")


def not_in_pairs(subject: Text, one: Attention, q: Turned, k: Turned) -> Verdict:
    """Queries or keys that change from place to place, and not as if they were turned."""
    with shaken(subject):
        gains = [x.detach() for x in subject.module.parameters() if x.dim() == 1 and len(x) == one.queries.shape[-1]]
        for gain in gains:
            if any(turned(x.detach() / gain).layout and not y.layout for x, y in ((one.queries, q), (one.keys, k))):
                return wrong("normalised after turning", "gains come after it: distances no longer count alone")
    scores = (one.queries @ one.keys.mT).detach()
    if (scores[:, 1:, 1:] - scores[:, :-1, :-1]).abs().max() <= 1e-5 * scores.abs().max():
        return variant("turned otherwise", "in no pairs that are known; scores depend on the distance only")
    return wrong("not turned in pairs", "neither (i, i + d/2) nor (2i, 2i + 1) keep their lengths")


def speeds(subject: Text, one: Attention, q: Turned) -> Verdict | None:
    """What is wrong with how far each pair is turned from one place to the next."""
    angles = q.angles.abs()
    if len(angles) < 2:
        return None
    if (angles - angles[0]).abs().max() < 1e-9:
        return wrong("one speed for all pairs", f"each pair is turned by {angles[0]:.3g} from place to place")
    if (angles.diff() > 1e-7).any():
        return wrong("other speeds", "pairs are not turned ever more slowly")
    if first := quarter(subject, one, q):
        return first
    if angles[1] < 1e-5 * angles[0]:
        return wrong("other speeds", f"the second pair is {angles[0] / angles[1]:.0e} times as slow as the first")
    rates = -angles.log().diff() * len(angles)
    if abs(float(angles[0]) - 1) > 1e-4 or (rates - rates[0]).abs().max() > 1e-3 * rates[0].abs():
        return None  # scaled, as for longer texts
    base, said = float(rates[0].exp()), [x for x in numbers_called(subject, "theta|rope|rotary|(^|_)base$") if x >= 100]
    if said and 2 * len(angles) == one.queries.shape[-1] and all(abs(base / x - 1) > 0.01 for x in said):
        return wrong("theta not used", f"speeds are those of {base:.6g}, and {max(said):g} is kept")
    return None


def quarter(subject: Text, one: Attention, q: Turned) -> Verdict | None:
    """Whether the first place is turned by a right angle, as where cosine and sine are exchanged."""
    table = dict(subject.module.named_parameters()).get(one.scores.by) if subject.module is not None else None
    if table is None or not (q.angles < 0).all():
        return None
    width = one.queries.shape[-1]
    partner = width // 2 if q.layout == "halves" else 1
    with torch.enable_grad():
        (grads,) = torch.autograd.grad(one.queries[0, 0, 0], table, retain_graph=True)
    rows = (grads.abs().sum(1) > 1e-7 * grads.abs().sum(1).max()).nonzero().flatten() % width
    if rows.tolist() == [partner]:
        return wrong("cosine and sine exchanged", "the first place is turned by a right angle, where it is to stay")
    return None


def check_positions(subject: Text) -> Verdict:
    """The place of a word counts, and it is told how."""
    verdict = asking.check_target_order(subject)
    learned = [one.learned for one in subject.seen.ends if one.places is not None]
    if verdict.verdict == WRONG and subject.once(check_rotary).verdict == WRONG:
        return untried("queries and keys are turned wrongly: see rotary")
    if verdict.verdict == RIGHT:
        how = "learned places are added" if any(learned) else "places are added" if learned else "places count"
        return right(f"{how}: {verdict.says}")
    if verdict.verdict == VARIANT:
        turns = subject.once(check_rotary).verdict != DOES_NOT_APPLY
        return right(f"relative: {'queries and keys are turned' if turns else 'weights depend on the distance'}")
    if verdict.verdict == WRONG:
        return wrong("no positions", "one word seven times: outputs and weights are those of no place")
    return verdict


def check_given_positions(subject: Text) -> Verdict:
    """Positions that are handed over count; where they are relative, a shift of all moves nothing."""
    if "positions" not in subject.call.handles or not subject.batch_first:
        return apart("it takes no positions")
    tokens, places = subject.words(1, 6, seed=6), torch.arange(6)[None]
    try:
        plain, usual, later, mixed = (
            subject.text(tokens, **given)
            for given in ({}, {"positions": places}, {"positions": places + 3}, {"positions": places * 2})
        )
    except Exception as error:
        return untried(f"it was not found how positions are given: {raised(error)}")
    if not subject.far(usual, mixed).any():
        return wrong("positions unread", "other positions, the same output")
    if subject.far(plain, usual).any():
        return variant("positions counted otherwise", "without positions outputs are not those of 0, 1, 2 and so on")
    if subject.once(check_rotary).verdict == RIGHT and subject.far(usual, later).max() > 1e-5:
        return wrong("not relative", "all positions three later: outputs are others")
    return right("they count" + "; all three later, nothing moves" * bool(subject.far(usual, later).max() <= 1e-5))


# heads that share keys, the query-key norm


def rows_of(subject: Text, one: Attention, which: str) -> list[int]:
    """For each head, as it is computed, where in its matrix its numbers begin; nothing where that cannot be seen."""
    by = one.scores.by if which == "queries" else one.scores.keys.rpartition(" ")[0]
    table = dict(subject.module.named_parameters()).get(by) if subject.module is not None else None
    found = []
    for i in range(len(one.queries) if table is not None else 0):
        with torch.enable_grad():
            head = getattr(one, which)[i].sum()
            (grads,) = torch.autograd.grad(head, table, retain_graph=True, allow_unused=True)
        lines = [grads.abs().sum(axis) > 0 for axis in (1, 0)] if grads is not None else []
        found += [int(line.nonzero()[0]) for line in lines if line.any() and not line.all()][:1]
    return found if len(set(found)) > 1 else []


def check_groups(subject: Text) -> Verdict:
    """Query heads that stand together share keys, and the values that belong to them."""
    every = same_word(subject)
    if not every:
        return unseen(subject)
    for one in every:
        heads = len(one.keys)
        alike = [next(j for j in range(heads) if torch.equal(one.keys[j], one.keys[i])) for i in range(heads)]
        values = [next(j for j in range(heads) if torch.equal(one.values[j], one.values[i])) for i in range(heads)]
        groups = len(set(alike))
        if groups == heads == len(set(values)):
            continue
        if alike != values:
            return wrong("values of other heads", "query heads that share keys do not share values")
        rows = rows_of(subject, one, "queries")
        if len(set(rows)) < heads:
            return untried("it was not seen which query heads share keys")
        order = sorted(range(heads), key=rows.__getitem__)
        starts = rows_of(subject, one, "keys") or alike
        shared = [starts[i] for i in order]
        if groups > 1 and shared != sorted(shared):
            some = ", ".join(str(k) for k in range(heads) if shared[k] == shared[0])
            return wrong("groups interleaved", f"query heads {some} share keys; with published weights, neighbours do")
        return right(f"{heads} query heads share {groups} of keys and values, neighbours the same")
    return apart("each query head has keys of its own")


def check_scale(subject: Text) -> Verdict:
    """Scores are divided by the root of how many products they sum up, or by what the settings say."""
    verdict = asking.check_scale(subject)
    if verdict.found in ("no scale", "another scale"):
        factor = subject.seen.attentions[0].scores.factor
        said = numbers_called(subject, "pre_attn_scalar|attention_multiplier|softmax_scale")
        if any(one > 0 and min(abs(factor / one - 1), abs(factor * one**0.5 - 1)) < 1e-3 for one in said):
            return variant("scale as it says", verdict.says)
        if verdict.found == "no scale" and normed(subject):
            return variant("no scale, but a norm", f"{verdict.says}; queries are normalised")
    return verdict


def check_attentions(subject: Text) -> Verdict:
    """Queries, keys and values are projected, each by a matrix of its own, and what was mixed once more."""
    every = subject.attentions("decoder")
    if verdict := asking.heads_torn(subject):
        return verdict
    if not every:
        return unseen(subject)
    if verdict := asking.matrices_missing(subject):
        return verdict
    others = len(subject.seen.attentions) - len(every)
    says = f"{len(every)} in {subject.layers('decoder')} layers"
    if others:
        return untried(f"{says}, and {others} of other lengths, which were not looked at")
    return asking.heads_alike(subject) or right(says)


def normed(subject: Text) -> str:
    """Whether queries have been normalised: each head, all heads together, or not."""
    if subject.module is None or not subject.attentions("decoder"):
        return ""
    first = next(one for one in subject.seen.attentions if one.shape == (7, 7))
    sizes = first.queries.detach().square().sum(-1)  # (batch and heads, places)
    even = lambda x: float((x - x.mean()).abs().max()) < 0.01 * float(x.mean())  # noqa: E731
    pairs = [sizes.unflatten(0, (2, -1)), sizes.unflatten(0, (-1, 2)).transpose(0, 1)] if len(sizes) % 2 == 0 else []
    return "each" if even(sizes) else "all" if any(even(one.sum(1)) for one in pairs) else ""


def check_query_norm(subject: Text) -> Verdict:
    """Where queries and keys are normalised, each head is by itself."""
    if not (how := normed(subject)):
        return apart("queries are not normalised")
    inner = subject.seen.attentions[0].queries.shape[-1]
    if how == "each":
        return right(f"the {inner} numbers of each query are normalised by themselves")
    gains = [name for name, one in subject.module.named_parameters() if one.dim() == 1 and len(one) > inner]
    wide = any(re.search(r"(^|[._])q(uery)?_|_q(uery)?\.", name) for name in gains)
    says = "the queries of all heads are normalised together"
    return Verdict(VARIANT if wide else WRONG, "heads normalised together", says + ", as in OLMo 2" * wide)


# norms: where they are, what stands under the root, how precisely they are computed


def check_norms(subject: Text) -> Verdict:
    """Each layer reads what is normalised, and adds to what is not; so does the output's matrix."""
    norms, seen, layers = subject.seen.norms, subject.seen, subject.layers("decoder")
    if not norms:
        if not layers or None in seen.projected:
            return untried("no normalisation was seen; it may be written in a way that is not known")
        return wrong("no normalisation", f"none in {layers} layers")
    wide = asking.width(subject)
    if any(len(one.over) > 1 or one.over[0][1] in {2, 7} - {wide} for one in norms):
        return wrong("normalised over the sentence", "means are taken over more than one token")
    branches = lambda one: all(part.startswith("branch") for part in one)  # noqa: E731
    beside = any(branches(one) and branches(other) for one, other in seen.sums)
    unseen_too = sum(bool(one and one.kind == "bent") for one in seen.projected) < layers
    if verdict := asking.computed(subject) or asking.residuals(subject, 0 if beside or unseen_too else 2 * layers):
        kind = VARIANT if verdict.found == "added after the normalisation" else verdict.verdict  # as OLMo 2 does
        return verdict._replace(verdict=kind)
    if any(one.shift for one in norms):
        kind = VARIANT if all(one.centred for one in norms) else WRONG
        shift = max(one.shift for one in norms)
        return Verdict(kind, "epsilon outside the root", f"{shift:g} is added to the root, not under it")
    parts = [one.parts or frozenset() for one in norms]
    before = sum(bool(one & (asking.ENDS | {"?"})) for one in parts) > len(parts) / 2
    if before and seen.last and seen.last.kind == "sum":
        return wrong("no last norm", "logits are made of a sum that nothing has normalised, where layers read what is")
    bare = sum(bool(one and one.kind in ("sum", "words")) for one in seen.projected[:-1])
    if before and bare:
        return wrong("normalisations missing", f"{bare} matrices read a sum that nothing has normalised")
    if before and (beside or len(norms) < 2 * layers):
        says = f"{len(norms)} normalisations in {layers} layers: both halves of a layer read the same sum"
        return variant("attention and network side by side", says)
    kinds = "means of squares" if not any(one.centred for one in norms) else "means and deviations"
    where = f"in {layers} layers, {'before' if before else 'after'} each"
    return epsilon(subject) or right(f"{len(norms)} normalisations by {kinds} {where}")


def epsilon(subject: Text) -> Verdict | None:
    """Whether the number under the root is another than is said, or the machine's."""
    guards = {one.guard for one in subject.seen.norms}
    said = [one for one in numbers_called(subject, "eps") if one > 0]
    machine = [torch.finfo(one).eps for one in (torch.float64, torch.float32)]
    near = lambda one, others: any(math.isclose(one, other, rel_tol=0.01) for other in others)  # noqa: E731
    shown = ", ".join(f"{one:.2g}" for one in sorted(set(said)))
    if own := [one for one in guards if near(one, machine)]:
        says = f"under the root stands {own[0]:.2g}, which is the machine's"
        modules = subject.module.modules() if subject.module is not None else ()
        given = [one.default for one in (asking.argument(each, "eps") for each in modules) if one and one.default]
        if said or given:
            return wrong("the machine's epsilon", f"{says}; the model says {shown or given[0]}")
        return variant("the machine's epsilon", f"{says}: nothing says another")
    if guards == {0.0} and said:
        return wrong("no epsilon", f"{shown} is kept, and nothing stands under the root")
    if said and (odd := [one for one in guards if one and not near(one, said)]):
        return wrong("another epsilon", f"under the root stands {odd[0]:.2g}; the model says {shown}")
    return None


class Precision(Mode):
    """Within it, it is written down in what precision norms and angles are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.low: set[str] = set()
        self.high: set[str] = set()
        self.cast: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name, one = func.overloadpacket.__name__, args[0] if args else None
        if isinstance(one, Tensor) and one.is_floating_point():
            what = {"rsqrt": "norm", "sqrt": "norm", "cos": "angle", "sin": "angle", "_softmax": "softmax"}.get(name)
            if what and (what != "norm" or one.shape[-1:] == (1,)):
                (self.low if one.dtype in HALF else self.high).add(what)
        if name == "_to_copy" and (kwargs or {}).get("dtype") in HALF:
            counted = not one.is_floating_point() and one.dim() and one.shape[-1] > 2 and bool((one.diff() == 1).all())
            self.low |= {"angle"} if counted else set()  # places
            if one.is_floating_point() and one.dtype not in HALF:
                self.cast.append(str(kwargs["dtype"])[6:])
        return func(*args, **(kwargs or {}))


HALF = (torch.float16, torch.bfloat16)


def check_precision(subject: Text) -> Verdict:
    """With weights in half precision, norms and angles are computed in single precision."""
    tokens = subject.words(1, 5, seed=2)
    with torch.no_grad():
        subject.text(tokens, watch=(whole := Precision()))
        if whole.cast:
            return wrong("half precision inside", f"some numbers are turned into {whole.cast[0]}")
        if subject.model is not subject.module:
            return untried("a function's weights are left as they are: hand over the module")
        before, dtype = subject.module, subject.dtype
        subject.module = subject.model = copied(before)
        try:
            subject.module._apply(lambda one: one.to(torch.bfloat16) if one.is_floating_point() else one)
            subject.dtype = torch.float32
            subject.text(tokens, watch=(half := Precision()))
        except Exception as error:
            return untried(f"with weights in bfloat16: {raised(error)}")
        finally:
            subject.module = subject.model = before
            subject.dtype = dtype
    if "angle" in half.low:
        return wrong("angles in half precision", "with weights in bfloat16, places or angles are in bfloat16")
    if "norm" in half.low:
        says = "with weights in bfloat16, norms are computed in bfloat16"
        if "softmax" in half.high:
            return wrong("norms in half precision", f"{says}, while the softmax is not")
        return variant("norms in half precision", f"{says}, and so is all else")
    return right("with weights in bfloat16, norms and angles are computed more precisely")


# what is said of the output, and what it costs


def check_tied(subject: Text) -> Verdict:
    """Words and output share a table where the model says so."""
    tables = {one.words.by for one in subject.seen.ends} - {""} or set(subject.tables)
    said = said_of(subject, r"^tied?(_|$)|_tied$|tying|^share_\w*embed")
    output = next(reversed(subject.seen.used), ("", 0))[0]
    if not output or not tables:
        return untried("it was not seen by which matrix logits are made")
    tied, named = output in tables, dict(subject.module.named_parameters()) if subject.module is not None else {}
    for name in tables - {output} if not tied else ():
        if name in named and output in named and torch.equal(named[name], named[output]):
            return wrong("copied, not tied", f"{name} and {output} hold the same numbers, and each will learn its own")
    if said and any(said) != tied:
        return wrong("not tied" if any(said) else "tied", f"the model says {any(said)}; logits are made by {output}")
    return right(f"words and output share {output}" if tied else "words and output have a table each")


def said_of(subject: Text, form: str) -> list[bool]:
    """What the model keeps, as true or false, under a name of a form."""
    found = []
    for module in subject.module.modules() if subject.module is not None else ():
        for store in (module, *(getattr(module, one, None) for one in ("config", "cfg", "args", "params"))):
            kept = store if isinstance(store, dict) else getattr(store, "__dict__", {})
            found += [one for name, one in kept.items() if isinstance(one, bool) and re.search(form, str(name))]
    return found


def loss_in(subject: Text, out: Any) -> float | None:
    """The loss in what came out, or that the model keeps."""
    parts = list(out) if isinstance(out, tuple) else [out.get("loss")] if isinstance(out, dict) else []
    parts += [getattr(out, "loss", None)]
    parts += [one for name, one in vars(subject.module).items() if "loss" in name] if subject.module is not None else []
    return next((float(one) for one in parts if isinstance(one, Tensor) and one.numel() == 1), None)


def check_own_loss(subject: Text) -> Verdict:
    """The loss that the model gives with its logits compares each output with the token that follows, once."""
    if "targets" not in subject.call.handles or not subject.batch_first:
        return apart("it takes no targets")
    name = subject.call.handles["targets"]
    tokens, wanted = subject.words(2, 6, seed=6), subject.words(2, 6, seed=7)
    with subject.settings(False):
        try:
            out = subject.call.read(subject.model, tokens, targets=wanted)
        except Exception as error:
            return untried(f"with {name}: {raised(error)}")
    logits = logits_in(out, 2, 6)
    value = loss_in(subject, out)
    if value is None:
        return untried(f"with {name}, no loss came out")
    logits = subject.text(tokens) if logits is None else logits
    costs = [float(F.cross_entropy(logits[:, : 6 - i].flatten(0, 1), wanted[:, i:].flatten())) for i in range(3)]
    at = next((i for i, one in enumerate(costs) if math.isclose(one, value, rel_tol=1e-5)), None)
    if at is None:
        return untried(f"a loss of {value:.4f} came out, which is no plain mean of cross-entropies")
    if at == 2:
        return wrong("shifted twice", f"each output is compared with the token two after its own in {name}")
    named = name == "labels" and subject.call.text.name == "input_ids"
    if not at and subject.once(check_ahead).verdict != VARIANT and (named or handed_alike(subject, name)):
        return wrong("not shifted", f"the ids themselves come as {name}, and are compared with their own outputs")
    if padding_counts(subject, tokens, wanted, at):
        return variant("padding counted", f"of {name}, those at padding count too: hand over -100 there")
    return right(f"{name} are {'the ids: they are shifted' if at else 'what follows: nothing is shifted'} inside")


def handed_alike(subject: Text, name: str) -> bool:
    """Whether the model's file shows a call that hands over the same ids as text and as what is to follow."""
    code = getattr(getattr(type(subject.model), "forward", subject.model), "__code__", None)
    text = "".join(linecache.getlines(code.co_filename)) if code else ""
    return bool(re.search(rf"\((\w+),[^()]*\b{name}=\1\b", text))


def padding_counts(subject: Text, tokens: Tensor, wanted: Tensor, shift: int) -> bool:
    """Whether what is to follow padding counts in the loss, where a mask says what is padding."""
    if not subject.call.takes_padding or subject.once(check_left_padding).verdict != RIGHT:
        return False
    real = torch.ones(tokens.shape).bool()
    real[0, :3] = False
    other = wanted.clone()
    other[0, : 2 + shift] = wanted[1, : 2 + shift]
    read = partial(subject.call.read, subject.model, tokens, mask=FORMS[subject.form](real))
    with subject.settings(False):
        return loss_in(subject, read(targets=wanted)) != loss_in(subject, read(targets=other))


TEXT_CHECKS = [
    Check("logits", asking.check_logits, "34_embeddings#next-token", "The loss stops falling early."),
    Check("repeats", asking.check_repeats, "54_regularization#switches", "The same beginning goes on in several ways."),
    Check("dropout", asking.check_dropout, "54_regularization#switches", "Training loss far below validation loss."),
    Check("batch", asking.check_batch, "31_stacks#layer-norm-per-token",
          "The same text has another output beside others."),
    Check("looks ahead", check_ahead, "32_attention#leak",
          "A perplexity too good to be true, and what it writes by itself is nonsense."),
    Check("own past", check_past, "32_attention#masks-picture", "It learns slowly, and repeats or forgets words."),
    Check("masks", check_masks, "32_attention#masks-plain",
          "The loss is too good, or forgets: this check says in which layers."),
    Check("windows", check_windows, "95_since_2017#seen-text",
          "Published weights are a little worse than they should be, with long texts."),
    Check("cache", check_cache, "95_since_2017#attention",
          "It writes well without a cache, and repeats itself or rambles with one."),
    Check("left padding", check_left_padding, "95_since_2017#seen-text",
          "A text goes on in another way when it stands in another batch."),
    Check("positions", check_positions, "35_positional_encoding#bag-of-words",
          "It knows which words there were, and not where."),
    Check("positions given", check_given_positions, "95_since_2017#rotary",
          "Worse as soon as texts are packed, padded or cached."),
    Check("rotary", check_rotary, "95_since_2017#rotary",
          "Published weights begin well, and after some words the text falls apart."),
    Check("groups", check_groups, "95_since_2017#attention",
          "Published weights write nonsense, while each part is right."),
    Check("query norm", check_query_norm, "95_since_2017#attention", "Published weights write nonsense."),
    Check("softmax", asking.check_softmax, "32_attention#love-attention",
          "It learns, and worse than it should; lengths matter."),
    Check("scale", check_scale, "32_attention#variance", "Attention too sharp or too even from the first step."),
    Check("attentions", check_attentions, "31_stacks#decoder-picture", "It learns slowly."),
    Check("norms", check_norms, "95_since_2017#rms-norm",
          "It does not train when it is deep, or published weights write nonsense."),
    Check("precision", check_precision, "95_since_2017#rms-norm",
          "Worse in half precision, the more the longer the text."),
    Check("feed-forward", asking.check_feed_forward, "95_since_2017#swiglu",
          "It trains, and stays below what its size promises."),
    Check("tied", check_tied, "34_embeddings#same-storage",
          "More parameters than are said, or an output that was never loaded."),
    Check("layers", asking.check_layers, "31_stacks#chain", "More layers do not help."),
    Check("gradients", asking.check_gradients, "34_embeddings#gradients", "Parts of it stay as they were drawn."),
    Check("first loss", asking.check_first_loss, "34_embeddings#first-loss",
          "The first losses are far above the logarithm of the vocabulary."),
    Check("its loss", check_own_loss, "51_data_and_batching#shift-text",
          "The loss falls to nearly nothing, or not below that of guessing."),
]  # fmt: skip
