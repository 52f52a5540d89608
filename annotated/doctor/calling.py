"""How somebody's model wants to be called: which argument is which, and what its masks look like."""

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from annotated.doctor.fitting import Settings, kind, signature, tokens_of, tree_of
from annotated.doctor.subject import Broken, Subject, logits_in, raised

__all__ = ["FEW", "Call", "Input", "OneText", "fitted", "inputs_of", "is_mask"]


TARGET = {"tgt", "trg", "target", "targets", "output", "outputs", "out", "dec", "decoder", "y", "ys", "label", "labels",
    "tar", "de", "d", "answer", "translation", "trgs", "tgts"}  # fmt: skip
SOURCE = {"src", "source", "sources", "inp", "input", "inputs", "enc", "encoder", "x", "xs", "en", "e", "question",
    "text", "srcs"}  # fmt: skip
LATER = {"look", "ahead", "causal", "subsequent", "nopeak", "future", "combined", "peak", "triangular"}
CROSS = {"memory", "cross", "mem"}


FEW = 6  # ids that every vocabulary has


class OneText(Exception):
    """The model takes one text: no encoder-decoder."""


class Input(NamedTuple):
    """An argument of a model: what it is, and how it is handed over."""

    name: str
    what: str  # source, target, mask, length, or the role of a value
    side: str = ""  # of a mask or a length: source, target, cross
    only_padding: bool = False  # of a mask: it says where padding is
    by_name: bool = False


def side_of(name: str) -> str:
    """Whose a name is: the source's, the target's, or of what crosses."""
    words = set(tokens_of(name))
    if words & CROSS or (words & {"enc", "encoder", "src"} and words & {"dec", "decoder", "tgt", "trg"}):
        return "cross"
    return "target" if words & (TARGET | LATER) else "source" if words & SOURCE else ""


def inputs_of(model: Callable, texts: tuple[str, ...] = ("source", "target")) -> list[Input]:
    """The arguments that a model, or one of a class, is given: `texts`, masks, and others that it asks for.

    Raises OneText where there are fewer texts.
    """
    is_class = isinstance(model, type)
    every = model if isinstance(model, list) else signature(getattr(model, "forward", model))[is_class:]
    if any(one.kind is one.VAR_POSITIONAL for one in every):
        every = []
    every = [one for one in every if one.kind is not one.VAR_KEYWORD]
    if len(inside := read_from(model, every)) > 1:
        return InOne(inputs_of(inside))
    if len(texts) == 2 and takes_one_text(model, every):
        raise OneText(every[0].name)
    asked = [one.name for one in every if one.default is one.empty]
    names = [one.name for one in every if is_text(one.name)]
    ids = [name for name in names if name in asked and not re.search(MEMORY, name)]
    if len(ids) < len(texts):
        ids += [name for name in names if name not in asked and re.search(MAYBE, name)]
    if every and len(ids) < len(texts):
        raise OneText(", ".join(ids))
    target = min(ids, key=lambda name: (side_of(name) != "target", "label" in name, -ids.index(name)), default="target")
    source = min(
        (name for name in ids if name != target or len(texts) == 1),
        key=lambda name: (side_of(name) != "source", ids.index(name)),
        default="source",
    )
    chosen = {source: "source", target: "target"} if len(texts) == 2 else {(ids or [*texts])[0]: texts[0]}
    found, ahead = [], any(set(tokens_of(one.name)) & LATER for one in every)
    for one in every:
        by_name, side = one.kind is one.KEYWORD_ONLY or one.name not in asked, side_of(one.name)
        words = set(tokens_of(one.name))
        if one.name in chosen:
            found.append(Input(one.name, chosen[one.name], by_name=by_name))
        elif is_mask(one.name) and not isinstance(one.default, (bool, int, str)):
            crosses = side == "target" and ahead and not words & LATER and "padding" in words
            only_padding = bool(words & {"padding", "pad", "key"})
            found.append(Input(one.name, "mask", "cross" if crosses else side, only_padding, by_name))
        elif one.name not in asked:
            continue
        elif "source" not in texts and re.search(MEMORY, one.name):
            found.append(Input(one.name, "memory", by_name=by_name))
        elif "len" in one.name:
            found.append(Input(one.name, "length", side or "source", by_name=by_name))
        elif side == "target":  # what it is to say: for a loss beside
            found.append(Input(one.name, "target", by_name=by_name))
        else:
            found.append(Input(one.name, kind(one.name), by_name=by_name))
    found = found or [Input(one, one) for one in texts]
    free = iter(["source", "target", "cross"] if "source" in texts else ["target", "cross"])
    return [one._replace(side=next(free, "source")) if one.what == "mask" and not one.side else one for one in found]


BESIDE = (
    r"^(targets|target_ids|labels?|ys?|position\w*|inputs_embeds|token_type\w*)$"  # a text, what it says, its places
)


def takes_one_text(model: Any, every: list[inspect.Parameter]) -> bool:
    """Whether a model takes a text, and perhaps what is to follow each token: no encoder-decoder."""
    numbers = (int, float, bool, "int", "float", "bool")
    every = [
        one for one in every if one.annotation not in numbers and not re.search("start_?pos|offset|^pos", one.name)
    ]
    names = [one.name for one in every if is_text(one.name)]
    asked = {one.name for one in every if one.default is one.empty}
    others = [name for name in names[1:] if name in asked or (re.search(MAYBE, name) and not re.search(BESIDE, name))]
    pair = isinstance(model, nn.Module) and {"encoder", "decoder"} <= dict(model.named_children()).keys()
    both = pair or re.search("decoder_|src|source|^inp$", " ".join(one.name for one in every))
    return bool(every and names[:1] == [every[0].name] and names[0] not in others and not others and not both)


class InOne(list):
    """Arguments that are handed over as one, by names as attributes or keys: a batch."""


class Batch(dict):
    """Some arguments in one."""

    __getattr__ = dict.__getitem__


def read_from(model: Any, every: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """What a model's `forward` reads by name of its only argument, as if each were an argument."""
    asked = [one.name for one in every if one.default is one.empty]
    tree = tree_of(getattr(model, "forward", model)) if len(asked) == 1 else None
    names = {}
    for one in ast.walk(tree) if tree else ():
        if getattr(getattr(one, "value", None), "id", "") == asked[0]:
            if isinstance(one, ast.Attribute) and not hasattr(Tensor, one.attr):
                names[one.attr] = None
            elif (
                isinstance(one, ast.Subscript)
                and isinstance(one.slice, ast.Constant)
                and isinstance(one.slice.value, str)
            ):
                names[one.slice.value] = None
    return [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]


MAYBE = r"(ids|tokens|tgt|trg|target|src|source|inputs?|labels|seq)$"  # what may be a text, though it has a default
MEMORY = (
    r"mem|enc\w*_?(out|hidden|state)|^e_out|^z$|context|^(enc|encoded|encoding|encoder)$|enc_src|src_enc|hidden|states"
)


def is_mask(name: str) -> bool:
    """Whether an argument is called as masks are."""
    return bool(re.search(r"mask|padding|(^|_)pad$", name)) and "head" not in tokens_of(name)


def is_text(name: str) -> bool:
    """Whether an argument may be ids, by its name."""
    return not is_mask(name) and not re.search(r"len|device|idx|return|use|_states|cache", name)


def steps_of(model: Callable) -> tuple[str, str] | None:
    """The two halves of a model that says nothing of how they are joined, having no `forward`."""
    if isinstance(model, nn.Module) and getattr(type(model).forward, "__name__", "") == "_forward_unimplemented":
        for one, other in (("encode", "decode"), ("encoder", "decoder")):
            if callable(getattr(model, one, None)) and callable(getattr(model, other, None)):
                return one, other
    return None


class Pair(nn.Module):
    """An encoder and a decoder, joined as their arguments say."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder


class Call:
    """`call(model, source, target)`: hands over what a model asks for, masks among it.

    `masks(source, target)` makes them, by the names of the arguments; `size` is (source, target, rows) of a model that
    takes no other ones, 0 where it takes any, and `finish` names a part of the model that turns its output into logits.
    """

    def __init__(self, inputs: list[Input], values: dict[str, Any], masks: Callable | None = None, says: str = ""):
        self.inputs, self.values, self.masks, self.says = inputs, values, masks, says
        self.orders: tuple[bool, ...] = (True, False)
        self.steps: tuple[str, str] | None = None
        self.first: list[Input] = []
        self.size = (0, 0, 0)
        self.finish = ""

    def __call__(self, model: Callable, source: Tensor, target: Tensor) -> Any:
        (rows, length), pad = target.shape, self.values["pad"]
        longest, wide, many = self.size
        source = F.pad(source, (0, longest - source.shape[1]), value=pad) if longest else source
        target = F.pad(target, (0, wide - length), value=pad) if wide else target
        if many:
            source, target = (ids.repeat(-(-many // rows), 1)[:many] for ids in (source, target))
        masks = self.masks(source, target) if self.masks else {}
        texts: dict[str, Any] = {"source": source, "target": target}
        if self.steps:
            given, named = self.arguments(self.first, texts, masks)
            memory = getattr(model, self.steps[0])(*given, **named)
            texts["memory"] = memory[0] if isinstance(memory, (tuple, list)) else memory
        given, named = self.arguments(self.inputs, texts, masks)
        out = (getattr(model, self.steps[1]) if self.steps else model)(*given, **named)
        if self.finish:
            out = getattr(model, self.finish)(logits_in(out, *target.shape))
        if any(self.size):
            logits = logits_in(out, *target.shape)
            return out if logits is None else logits[:rows, :length]
        return out

    def arguments(self, inputs: list[Input], texts: dict[str, Any], masks: dict[str, Tensor]) -> tuple[list, dict]:
        """What is given in its order, and what is given by name."""
        given, named = [], {}
        for one in inputs:
            if one.what == "mask":
                if one.by_name and one.name not in masks:
                    continue
                value = masks.get(one.name)
            elif one.what == "length":
                ids = texts["source" if one.side == "source" else "target"]
                value = (ids != self.values["pad"]).sum(1 if self.orders[0] else 0)
            else:
                value = texts.get(one.what, self.values.get(one.what))
            if one.by_name or isinstance(inputs, InOne):
                named[one.name] = value
            else:
                given.append(value)
        return ([Batch(named)], {}) if isinstance(inputs, InOne) else (given, named)


FORMS = [  # masks as people write them: axes of what hides padding, of what hides later tokens, and what is in them
    *((axes, axes, "keep") for axes in ("4", "3")), ("2", "2", "hide"), ("2", "2", "add"), ("4", "4", "hide"),
    ("3", "3", "hide"), ("4", "4", "ones hide"), ("4", "4", "ones keep"), ("3", "3", "ones keep"), ("4", "4", "large"),
    ("3", "3", "large"), ("full", "3", "large"), ("full", "3", "keep"), ("full", "3", "hide"), ("full4", "4", "keep"),
    ("full4", "4", "large"), ("2", "2", "keep"), ("2", "2", "ones keep"), ("2", "4", "keep"), ("2", "4", "hide"),
    ("2", "3", "keep"), ("2", "3", "hide"), ("4", "2", "keep"), ("4", "2", "hide"), ("3", "2", "keep"),
]  # fmt: skip
WRITTEN = {
    "keep": "True where words may be read",
    "hide": "True where words may not be read",
    "add": "-inf where words may not be read",
    "ones hide": "1.0 where words may not be read",
    "ones keep": "1 where words may be read",
    "large": "-1e9 where words may not be read",
}


def usual(inputs: list[Input], pad: int, form: tuple[str, str, str], batch_first: bool) -> Callable:
    """What makes masks of one of the usual forms."""
    padding, later, inside = form

    def written(keep: Tensor) -> Tensor:
        if inside in ("add", "large"):
            low = -torch.inf if inside == "add" else -1e9
            return torch.zeros(keep.shape).masked_fill(~keep, low)
        return {"keep": keep, "hide": ~keep, "ones hide": (~keep).float(), "ones keep": keep.long()}[inside]

    def make(source: Tensor, target: Tensor) -> dict[str, Tensor]:
        source, target = (source, target) if batch_first else (source.T, target.T)
        made = {}
        for one in inputs:
            if one.what != "mask":
                continue
            keys = (target if one.side == "target" else source) != pad
            rows = source if one.side == "source" else target
            if one.side == "target" and not one.only_padding:
                keep = torch.ones(2 * (keys.shape[1],)).tril().bool()
                keep = keep if later == "2" else keys[:, None] & keep
                made[one.name] = written(keep[:, None] if later == "4" else keep)
            elif not one.only_padding and padding == later == "2":
                made[one.name] = written(torch.ones(rows.shape[1], keys.shape[1]).bool())
            else:
                full = keys[:, None].expand(-1, rows.shape[1], -1)
                every = {"4": keys[:, None, None], "3": keys[:, None], "2": keys, "full": full, "full4": full[:, None]}
                made[one.name] = written(every[padding])
        return made

    return make


def helpers(
    model: Any, names: dict[str, Any], inputs: list[Input], values: dict[str, Any]
) -> Iterator[tuple[str, Callable]]:
    """What of the file makes its masks: a function of both texts, or one for each."""
    masks = [one for one in inputs if one.what == "mask"]
    own = {name: getattr(model, name) for name in dir(type(model)) if "mask" in name.lower()}
    for owner in [one for one in names.values() if inspect.isclass(one) and not one.__module__.startswith("torch")]:
        own |= {
            name: getattr(owner, name)
            for name, one in vars(owner).items()
            if "mask" in name and isinstance(one, staticmethod)
        }
    own |= {name: one for name, one in names.items() if "mask" in name.lower() and inspect.isroutine(one)}

    def asked(helper: Callable, source: Tensor, target: Tensor, side: str) -> Any:
        given = []
        for one in signature(helper):
            if one.default is not one.empty or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
                continue
            of = side_of(one.name) or side
            if (known := kind(one.name)) in ("pad", "device"):
                given.append(values[known])
            elif re.search("config|cfg|opt|args", one.name):
                given.append(Settings(values))
            elif re.search("size|sz|len|dim", one.name):
                given.append((source if of == "source" else target).shape[1])
            else:
                given.append(target if of == "target" else source)
        return helper(*given)

    for name, helper in own.items():
        sides = [side_of(one.name) for one in signature(helper) if one.default is one.empty]
        if "source" in sides and "target" in sides:

            def joint(source: Tensor, target: Tensor, helper: Callable = helper) -> dict[str, Tensor]:
                out = [*asked(helper, source, target, "")]
                out += out[:1] if len(out) == 2 < len(masks) else []
                return {one.name: mask for one, mask in zip(masks, out, strict=True)}

            yield name, joint
    by_side = {}
    for side in ("source", "target"):
        fits = [name for name in own if side_of(name) == side]
        fits += [name for name in own if re.search("std|tri" if side == "target" else "pad", name)]
        by_side[side] = fits[:1]
    if all(by_side.values()) or (len(masks) == 1 and by_side.get(masks[0].side)):

        def apart(source: Tensor, target: Tensor) -> dict[str, Tensor]:
            sides = {one.name: "source" if one.side == "cross" else one.side for one in masks}
            return {name: asked(own[by_side[side][0]], source, target, side) for name, side in sides.items()}

        yield " and ".join(name for found in by_side.values() for name in found), apart


def score(subject: Subject, most: int) -> int:
    """Of five things that a right model does, how many this one does as it is called; no more is asked than `most`.

    No output moves with later tokens, each moves with earlier ones and with the source, and neither with padding.
    """
    source, target = subject.pairs(2)
    asked = [  # and whether outputs stay as they are
        ((source, subject.changed(target, -1)), True),
        ((source, subject.changed(target, 1)), False),
        ((subject.changed(source, 2), target), False),
        ((F.pad(source, (0, 3), value=subject.pad), target), True),
        ((source, F.pad(target, (0, 2), value=subject.pad)), True),
    ]
    with torch.no_grad():
        out = subject(source, target)
        found = 6
        for pair, stays in asked:
            other = subject(*pair)[:, : target.shape[1]]
            found -= stays == bool(subject.far(out, other)[:, :-1].any())
            if found <= most:
                break
    return found if torch.isfinite(out).all() else 0


def fitted(model: Callable, names: dict[str, Any], values: dict[str, Any], sizes: Iterable[tuple] = ()) -> Call:
    """A way to call a model that ends in logits, the best that is found. Raises what it raised where there is none.

    `sizes` are of source, target and batch, for models that take no other ones.
    """
    steps, first_inputs = steps_of(model), []
    if steps:
        first_inputs = inputs_of(getattr(model, steps[0]), ("source",))
        inputs = inputs_of(getattr(model, steps[1]), ("target",))
    else:
        inputs = inputs_of(model)
    every = list({one.name: one for one in (*first_inputs, *inputs)}.values())
    subject = Subject(model, None, values["pad"], values["bos"], values["eos"], FEW)
    subject.dtype = torch.float32
    masks, best, most, first = [one for one in every if one.what == "mask"], None, -1, None
    calls = [] if any(not one.by_name for one in masks) else [Call(inputs, values)]
    if masks:
        own = helpers(model, names, every, values)
        calls += [Call(inputs, values, make, f"masks by {name}") for name, make in own]
        calls += [Call(inputs, values, None, form) for form in FORMS]
    ways = [(cut, order, (0, 0, 0)) for cut in (False, True) for order in (True, False)]
    ways += [(False, True, size) for size in sizes]
    for cut, order, size in ways:
        if any(size) and best is None and calls and not masks and like_lengths(subject, calls[0]):
            raise Broken("raises where lengths differ", raised(first))
        for one in calls if best is None else ():
            call = Call(inputs, values, one.masks, one.says)
            call.orders, call.size, call.steps, call.first = (order,), size, steps, first_inputs
            if isinstance(one.says, tuple):
                call.masks = usual(every, values["pad"], one.says, order)
                call.says = f"masks handed over: {WRITTEN[one.says[2]]}"
            subject.call, subject.batch_first, subject.shifts = call, order, cut
            try:
                found = score(subject, most)
            except (Exception, SystemExit) as error:
                first = first or error
                continue
            if found > most:
                chosen, most = (call, order, cut), found
            if found == 6:
                break
        best = chosen[0] if most >= 0 else None
    if best is None:
        subject.end()
        raise first or Broken("raises", "it could not be called")
    subject.call, subject.batch_first, subject.shifts = chosen
    best.finish = unused(subject)
    subject.end()
    if any(best.size):
        best.says += f"{'; ' * bool(best.says)}it takes {best.size[:2]} ids only: all were padded to these lengths"
    if best.finish:
        best.says += f"{'; ' * bool(best.says)}logits by its {best.finish}"
    return best


def like_lengths(subject: Subject, call: Call) -> bool:
    """Whether the model answers where source and target have as many ids, and no padding."""
    subject.call, subject.batch_first, subject.shifts = call, True, False
    try:
        with torch.no_grad():
            subject(*subject.pairs(2, 5, 5))
    except (Exception, SystemExit):
        return False
    return True


def unused(subject: Subject) -> str:
    """The name of a part that the model does not call, and that makes logits of what it returns; or nothing."""
    if not isinstance(subject.model, nn.Module):
        return ""
    called: set[int] = set()
    handle = nn.modules.module.register_module_forward_pre_hook(lambda one, _: called.add(id(one)))
    with torch.no_grad():
        width = subject(*subject.pairs(2)).shape[-1]
    handle.remove()
    for name, part in subject.model.named_children():
        if id(part) not in called:
            wide = [one.in_features for one in part.modules() if isinstance(one, nn.Linear)]
            if wide[:1] == [width] and not any(isinstance(one, nn.Embedding) for one in part.modules()):
                return name
    return ""
