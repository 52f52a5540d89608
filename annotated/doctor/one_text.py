"""A model that takes one text: which of its arguments is which, how it is called, and a copy of it to be asked."""

import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from annotated.doctor.calling import FEW, is_mask
from annotated.doctor.fitting import Hole, kind, signature, small_values, tokens_of
from annotated.doctor.subject import Broken, Subject, Verdict, copied, logits_in
from annotated.doctor.watching import Attention, Mode, Watch

__all__ = ["FORMS", "PADDING", "Reading", "Text", "as_read", "fitted_text"]


HANDLES = [  # what an argument is, by its name; the first that fits
    ("targets", r"^(targets?|labels?|y|ys|tgt|target_ids|next_tokens|next_ids)$"),
    ("flag", r"^(use|return|with)_(kv_)?(cache|past)|^caching$"),
    ("start", r"start_?pos|^(pos_)?offset$|^(past|cache)_len(gth)?$|^start$"),
    ("positions", r"^(positions?|pos|places?)(_ids)?$|^input_pos$"),
    ("cache", r"cache(?!_pos)|^past|(^|_)kvs?$|^layer_past$"),
    ("mask", r"^(real|valid|keep|visible)$"),
]
PADDING = r"attention|padding|pad|real|valid|keep"  # in a mask's name: it says which tokens there are
FORMS = {  # masks as people write them, of (batch, length) True where a token is real, or of True where it may be read
    "1 for tokens": lambda real: real.long(),
    "True for tokens": lambda real: real,
    "True for padding": lambda real: ~real,
    "True where tokens may be read": lambda real: seen_by(real),
    "True where tokens may be read, with an axis for heads": lambda real: seen_by(real)[:, None],
    "True where tokens may not be read": lambda real: ~seen_by(real),
    "-inf where tokens may not be read": lambda real: written(seen_by(real)[:, None]),
}
STAIRS = {  # and those of (length, length)
    "True where tokens may be read": lambda stairs: stairs,
    "True where tokens may not be read": lambda stairs: ~stairs,
    "-inf where tokens may not be read": lambda stairs: written(stairs),
    "1 where tokens may be read, with axes for batch and heads": lambda stairs: stairs[None, None].long(),
}


def seen_by(real: Tensor) -> Tensor:
    """Which tokens each one may read: those before it, and itself."""
    stairs = torch.ones(2 * (real.shape[1],)).tril().bool()
    return stairs & real[:, None] | torch.eye(len(stairs)).bool()


def written(seen: Tensor) -> Tensor:
    """The same as numbers to be added to scores."""
    return torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)


class InDouble(Mode):
    """Within it, what a model computes in single precision on purpose is computed in double precision."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if kwargs and kwargs.get("dtype") == torch.float32:
            kwargs = kwargs | {"dtype": torch.float64}
        return func(*args, **(kwargs or {}))


class Reading:
    """`reading(model, _, tokens)`: hands over one text, and what else a model asks for.

    `handles` are the names of its arguments by what they are; `says` is what is remarkable in how it is called.
    """

    def __init__(self, model: Callable):
        every = signature(getattr(model, "forward", model))
        every = [one for one in every if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
        self.handles: dict[str, str] = {}
        self.asked: dict[str, Any] = {}
        self.text, *rest = every or [inspect.Parameter("tokens", inspect.Parameter.POSITIONAL_ONLY)]
        for one in rest:
            name = "_".join(tokens_of(one.name))
            what = next((what for what, form in HANDLES if re.search(form, name)), "mask" if is_mask(name) else "")
            if what and not re.search("encoder|cross|loss|head|token_type", name):
                self.handles.setdefault(what, one.name)
            if one.default is one.empty:
                self.asked[one.name] = {"start": 0, "flag": False}.get(what, None if what else kind(one.name))
        self.orders: tuple[bool, ...] = (True, False)
        self.says = ""
        self.stairs: Callable | None = None  # makes a mask of later tokens, of a model that is to be given one
        self.all_by_targets = False  # whether it gives logits of all tokens only where it is told what they should be

    def __call__(self, model: Callable, _: Any, tokens: Tensor) -> Any:
        return self.read(model, tokens)

    def read(self, model: Callable, tokens: Tensor, **given: Any) -> Any:
        """What the model returns for tokens; `given` are values by what they are: mask, cache, positions, targets."""
        length = tokens.shape[1 if self.orders[0] else 0]
        if self.stairs and "mask" not in given:
            given["mask"] = self.stairs(torch.ones(length, length).tril().bool())
        elif self.handles.get("mask") in self.asked and "mask" not in given:
            given["mask"] = torch.ones(tokens.shape).bool()
        if self.all_by_targets:
            given.setdefault("targets", tokens)
        named = self.asked | {self.handles[what]: value for what, value in given.items()}
        if self.text.kind is inspect.Parameter.KEYWORD_ONLY:
            return model(**{self.text.name: tokens}, **named)
        return model(tokens, **named)

    @property
    def takes_padding(self) -> bool:
        """Whether there is a mask that may say which tokens are padding."""
        return "mask" in self.handles and self.stairs is None


class Text(Subject):
    """A copy of somebody's model of one text. What is asked of a source and a target is asked of the target alone."""

    one_text = True
    call: Reading
    form = ""  # of masks, as it was found to be
    kept: Callable[[], Callable[..., Tensor]]  # how it reads on, where that was found
    word: list[Attention]  # those of one word in all places

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.rows = 8  # of a batch, at most
        self.stores = "start" in self.call.handles
        forward = getattr(type(self.module), "forward", None)
        self.bared = getattr(forward, "__code__", None) is torch.no_grad()(print).__code__
        if self.bared:  # so that gradients can be seen
            self.module.forward = MethodType(forward.__wrapped__, self.module)

    def end(self) -> None:
        if self.bared:
            del self.module.forward
        super().end()

    def pairs(self, rows: int = 1, source: int = 6, target: int = 5) -> tuple[Tensor, Tensor]:
        """The same, of as many rows as there is room for."""
        return super().pairs(min(rows, self.rows), source, target)

    def begin(self) -> Verdict:
        """The same; a model that drops the last token is wrong."""
        verdict = super().begin()
        try:
            self(*self.pairs(8))
        except Exception:  # there is room for some only
            self.rows = 4
        if self.shifts:
            raise Broken("the last token is dropped", "one output too few: none says what follows the last token")
        return verdict

    @contextmanager
    def settings(self, training: bool) -> Iterator[None]:
        """The same, and double precision where the model asks for single."""
        with super().settings(training), InDouble() if self.dtype == torch.float64 else nullcontext():
            yield

    def __call__(self, source: Tensor, target: Tensor, *how: Any, **more: Any) -> Tensor:
        """Logits, as `Subject` has them. Raises Broken where they are as many as no table has words."""
        out = super().__call__(source, target, *how, **more)
        every = self.module.modules() if self.module is not None else ()
        rows = {len(one.weight) for one in every if isinstance(one, nn.Embedding)}
        if rows and out.shape[-1] < min(max(rows), 40) and out.shape[-1] not in rows:
            raise Broken("no logits", f"{out.shape[-1]} numbers come out for each token, which no table has as rows")
        return out

    def text(self, tokens: Tensor, watch: Any = None, **given: Any) -> Tensor:
        """Logits (batch, length, vocabulary) of a text, as in evaluation; `given` are a mask and positions."""
        with self.settings(False), watch or nullcontext():
            out = self.call.read(self.model, tokens if self.batch_first else tokens.T, **given)
        return self.logits(out, tokens)

    def logits(self, out: Any, tokens: Tensor) -> Tensor:
        """The logits in what came out, of all tokens or of the last."""
        rows, length = tokens.shape
        if not self.batch_first:
            return logits_in(out, length, rows).transpose(0, 1)
        found = next((one for one in (logits_in(out, rows, some) for some in (length, 1)) if one is not None), None)
        if found is None:
            raise Broken("shape", f"no logits for {rows} texts of {length} tokens came out")
        return found

    @cached_property
    def seen(self) -> Watch:
        """What two texts of seven tokens are computed by."""
        return self.watched(self.pairs(2, 7, 7)[1])

    def watched(self, tokens: Tensor) -> Watch:
        """What a text is computed by."""
        watch = Watch(self.module, tokens, stored=self.stores)
        with torch.enable_grad():
            self(tokens, tokens, watch=watch)
        return watch

    def attentions(self, kind: str) -> list[Attention]:
        """All of them, as those of the `decoder`."""
        return [one for one in self.seen.attentions if kind == "decoder" and one.shape == (7, 7)]

    @property
    def tables(self) -> list[str]:
        """The names of what words are looked up in."""
        named = self.module.named_modules() if self.module is not None else ()
        return [f"{name}.weight".lstrip(".") for name, one in named if isinstance(one, nn.Embedding)]

    def sessions(self) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
        """Ways to read on from what was read, each with how it is called: made anew, a function of further tokens."""
        handles, model = self.call.handles, self.model
        space = getattr(getattr(type(model), "forward", model), "__globals__", {})
        count = max(1, self.layers("decoder"))
        flags = {"flag": True} if "flag" in handles else {}
        makers: list[tuple[str, Callable[[Any], Any]]] = []
        form = r"^(new|init|make|create|empty|get|setup|alloc)\w*cache"
        made = [name for name in dir(type(model)) if re.search(form, name)]
        if "cache" in handles:
            makers = [(f"{name}()", lambda one, name=name: filled(getattr(one, name), count, one)) for name in made]
            makers += [(f"None{', and ' + handles['flag'] if flags else ''} at first", lambda _: None)]
            kinds = [one for name, one in space.items() if isinstance(one, type) and re.search("(?i)cache", name)]
            makers += [(f"{one.__name__}()", lambda model, one=one: filled(one, count, model)) for one in kinds]
            makers += [(f"[None] * {count}", lambda _: [None] * count), ("{}", lambda _: {}), ("[]", lambda _: [])]
        elif flags or "start" in handles:
            makers = [(f"{handles.get('flag') or handles['start']}, which it keeps itself", lambda _: ...)]

        def session(make: Callable[[Any], Any], places: bool) -> Callable[..., Tensor]:
            keeps = isinstance(model, nn.Module) and "cache" not in handles  # what was read
            one = copied(model) if keeps else model
            for name in dir(type(one)):
                if re.search(r"^(reset|clear)\w*cache", name):
                    getattr(one, name)()
            state = [make(one), 0]

            def further(tokens: Tensor, watch: Any = None, **more: Any) -> Tensor:
                given = flags | more
                if state[0] is not ...:
                    given["cache"] = state[0]
                if "start" in handles:
                    given["start"] = state[1]
                if self.call.stairs:
                    end = state[1] + tokens.shape[1]
                    given["mask"] = self.call.stairs(torch.ones(end, end).tril().bool()[state[1] :])
                if places:
                    given["positions"] = (torch.arange(tokens.shape[1]) + state[1]).expand(len(tokens), -1)
                with self.settings(False), watch or nullcontext():
                    out = self.call.read(one, tokens, **given)
                kept = getattr(out, "past_key_values", None)
                if isinstance(out, tuple) and kept is None:
                    parts = [part for part in out[1:] if part is not None]
                    kept = next((part for part in parts if not isinstance(part, Tensor) or part.dim() > 2), None)
                if kept is not None and state[0] is not ...:
                    state[0] = kept
                elif state[0] is None:
                    raise Broken("no cache", "nothing came out to be handed over again")
                state[1] += tokens.shape[1]
                return self.logits(out, tokens)

            return further

        for name, make in makers:
            yield name, lambda make=make: session(make, False)
        if "positions" in handles:
            for name, make in makers:
                yield f"{name}, with {handles['positions']}", lambda make=make: session(make, True)


def filled(make: Callable, layers: int, model: Any) -> Any:
    """What makes a cache for two rows of 64 tokens, called with what it asks for."""
    given = []
    for one in signature(make):
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD:
            usual = 2 if re.search("batch|bsz|rows", one.name) else layers if kind(one.name) == "layers" else 64
            given.append(getattr(model, one.name, usual))
    return make(*given)


def fitted_text(model: Callable, values: dict[str, Any]) -> Reading:
    """How a model of one text is called, the best way that is found. Raises what it raised where there is none."""
    best, most, first = None, -1, None
    plain = Reading(model)
    asked = plain.asked
    if hole := next((name for name, what in asked.items() if what == ""), ""):
        raise Hole(hole, type(model).__name__)
    mask = plain.handles.get("mask", "")
    stairs: list[tuple[str, Any]] = [("", None)]
    if mask and not re.search(PADDING, mask):
        stairs = [*STAIRS.items()] if mask in asked else [*stairs, *STAIRS.items()]
    for (form, make), targets, order in itertools.product(stairs, (False, True), (True, False)):
        if targets and ("targets" not in plain.handles or most > 0):
            continue
        one = Reading(model)
        one.asked = {name: values.get(what, what) if isinstance(what, str) else what for name, what in asked.items()}
        one.stairs, one.all_by_targets, one.orders = make, targets, (order,)
        subject = Text(model, one, values["pad"], values["bos"], values["eos"], FEW)
        subject.dtype, subject.batch_first = torch.float32, order
        try:
            with torch.no_grad():
                found = score_of(subject)
        except (Exception, SystemExit) as error:
            first = first or error
            continue
        finally:
            subject.end()
        if found > most:
            best, most = one, found
            says = [f"{mask} handed over: {form}"] * bool(form)
            says += ["targets handed over, for logits of all tokens"] * targets
            one.says = "; ".join(says)
        if found == 5:
            break
    if best is None:
        raise first or Broken("raises", "it could not be called")
    return best


def score_of(subject: Text) -> int:
    """Of five things that a right model does, how many this one does as it is called."""
    _, tokens = subject.pairs(3, 5, 5)
    out = subject(tokens, tokens)
    moved = [subject.far(out, subject(tokens, subject.changed(tokens, at))) for at in (4, 1)]
    alone = subject.far(out[:1], subject(tokens[:1], tokens[:1]))
    return sum([
        bool(torch.isfinite(out).all()), not moved[0][:, :-1].any(), bool(moved[1][:, 1].all()),
        bool(moved[1][:, 2:].all()), not alone.any(),
    ])  # fmt: skip


def as_read(model: Callable, call: Callable | None, pad: int = 0, bos: int = 2, eos: int = 3) -> Reading:
    """How a model of one text is called, as the user's `call(model, tokens)` or the model's own arguments say."""
    if call is None:
        return fitted_text(model, small_values(pad, bos, eos))
    reading = Reading(model)
    reading.handles, reading.asked = {}, {}
    reading.read = lambda model, tokens, **_: call(model, tokens)  # type: ignore[method-assign]
    return reading
