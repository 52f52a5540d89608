"""The stations of `annotated learn`: what each asks, and how it judges."""

import ast
import inspect
import math
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from annotated import plain
from annotated.doctor.asking import Broken
from annotated.doctor.functions import Scripted
from annotated.doctor.mistakes import Mistake
from annotated.masks import causal_mask, padding_mask
from annotated.regularization import smoothed_targets
from annotated.runs.checkpoint import find_model
from annotated.text.tokenization import Tokenizer, detokenize, load_tokenizer, tokenize

__all__ = [
    "ALL",
    "Case",
    "EXAMPLE",
    "STATIONS",
    "Station",
    "Transfer",
    "as_stations",
    "beside",
    "book",
    "emptied",
    "functions",
    "leading",
    "made_of",
    "mistaken_transfer",
    "pieces",
    "places",
    "reference",
    "same",
    "solution",
    "translated",
    "unwritten",
]


ATTENTION = '''def attention(q, k, v, mask):
    """Equation (1). q (..., m, d_k), k (..., n, d_k), v (..., n, d_v); mask (..., m, n), True where q may look at k."""
{}
    return weights, mixed


class Attention('''
MASKS = '''def source_mask(source):  # (b, n) -> (b, 1, 1, n)
    """Section 3.2.3: True where there is a word to look at, for all heads and all queries."""
    return {}


def target_mask(target):  # (b, m) -> (m, m)
    """Section 3.2.3: True where query i, a row, may look at key j, a column."""
    return {}


class Transformer('''


def as_stations(text: str) -> str:
    """The plain file's text, but with equation (1) and the two masks as functions of their own."""
    found = re.search(r"( {8}k, v = [^\n]*\n)(.*?)\n( {8}return [^\n]*\n)", text, re.DOTALL)
    masks = re.findall(r" {8}mask = ([^\n]+?)(?:  #[^\n]*)?\n", text)
    assert found is not None
    lines = textwrap.indent(textwrap.dedent(found[2]), "    ").replace("self.weights", "weights")
    called = f"{found[1]}        self.weights, mixed = attention(q, k, v, mask)\n{found[3]}"
    text = text.replace(found[0], called).replace("class Attention(", ATTENTION.format(lines))
    for expression, call in zip(masks[:2], ("source_mask(source)", "target_mask(target)")):
        text = text.replace(f"mask = {expression}", f"mask = {call}", 1)
    return text.replace("class Transformer(", MASKS.format(*masks[:2]))


def made_of(text: str) -> dict[str, Any]:
    """The names that a text defines."""
    names: dict[str, Any] = {"__name__": "my_transformer"}
    exec(compile(text, "<solution>", "exec"), names)
    return names


SOFTMAX = """


def softmax(scores):  # (..., n) -> (..., n)
    return scores.exp() / scores.exp().sum(-1, keepdim=True)
"""


@cache
def solution() -> str:
    """The plain file in the form of the stations, with the example's function."""
    return as_stations(inspect.getsource(plain)) + SOFTMAX


def places(text: str) -> dict[str, slice]:
    """The lines of each function, class and constant of a text, by name."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            found[node.name] = slice(first - 1, node.end_lineno)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = slice(node.lineno - 1, node.end_lineno)
    return found


def pieces(text: str) -> dict[str, str]:
    """The text of each function, class and constant, by name."""
    lines = text.splitlines()
    return {name: "\n".join(lines[place]) for name, place in places(text).items()}


def replaced(text: str, new: dict[str, str]) -> str:
    """A text with other definitions of some names; one that it lacks comes below the one before it in `new`."""
    lines, there, before = text.splitlines(), places(text), ""
    definitions: dict[str, str] = {}
    for name, definition in new.items():
        if name in there:
            before, definitions[name] = name, definition
        else:
            definitions[before] += f"\n\n\n{definition}"
    for name in sorted(definitions, key=lambda name: -there[name].start):
        lines[there[name]] = [definitions[name]]
    return "\n".join(lines) + "\n"


def functions(tree: ast.AST, of: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a text and its classes, `Class.method` by name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield of + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{node.name}.")


def emptied(text: str, blanks: tuple[str, ...], begun: Mapping[str, str] = MappingProxyType({})) -> str:
    """A piece with blanks in the place of some functions' bodies, or with what is begun of them."""
    lines = text.splitlines()
    for name, node in reversed([*functions(ast.parse(text))]):
        if name in blanks:
            body = node.body[1:] if ast.get_docstring(node) else node.body
            left = textwrap.indent(begun.get(name, "...").strip(), " " * body[0].col_offset)
            lines[body[0].lineno - 1 : node.end_lineno] = left.splitlines()
    return "\n".join(lines)


def unwritten(node: ast.AST) -> int:
    """The line of the first blank that is left in a function, or 0. In an index, as in x[..., 0], dots are none."""
    if isinstance(node, ast.Subscript):
        return unwritten(node.value)
    if isinstance(node, ast.Constant) and node.value is ...:
        return node.lineno
    return next(filter(None, map(unwritten, ast.iter_child_nodes(node))), 0)


class Unfit(Exception):
    """A part that the book's numbers do not fit into."""


def hand_over(part: nn.Module, numbers: dict[str, Tensor]) -> nn.Module:
    """Give a part of somebody's model its learned numbers: by name or, where names differ, in their order.

    Biases that the paper does not have become zero. Raises Unfit where sizes differ.
    """
    own, given = dict(part.named_parameters()), list(numbers.items())
    if own.keys() == numbers.keys():
        given = [(name, numbers[name]) for name in own]
    with torch.no_grad():
        for name, parameter in own.items():
            is_bias = name.endswith("bias")
            if given and parameter.shape == given[0][1].shape and is_bias == given[0][0].endswith("bias"):
                parameter.copy_(given.pop(0)[1])
            elif is_bias:
                parameter.zero_()
            else:
                given = [("", torch.empty(0))]
                break
    if given:
        theirs, ours = ([tuple(one.shape) for one in some] for some in (own.values(), numbers.values()))
        wanted, found = (", ".join(map(str, sizes)) or "none" for sizes in (ours, theirs))
        raise Unfit(f"{type(part).__name__} has learned numbers of the sizes {found}, where {wanted} are due")
    return part


@cache
def random_numbers(part: str, *sizes: Any) -> dict[str, Tensor]:
    """Numbers for a part, the same whoever has written it."""
    draw = torch.Generator().manual_seed(1)
    right = reference()[part](*sizes)
    return {name: torch.randn(one.shape, generator=draw) / 2 for name, one in right.named_parameters()}


def filled(names: dict[str, Any], part: str, *sizes: Any) -> nn.Module:
    """A part made of `names`, with numbers in it."""
    return hand_over(names[part](*sizes), random_numbers(part, *sizes)).eval()


@cache
def reference() -> dict[str, Any]:
    """What the solution defines."""
    transfers = (batch_second, target_mask_with_padding, heads_one_by_one, pre_norm, positions_at, smoothed,
                 one_step_of_many, beam)  # fmt: skip
    return made_of(solution()) | {one.__name__: one for one in transfers}


SIZES = {"vocab_size": 2000, "d_model": 128, "d_ff": 512, "num_heads": 4, "num_layers": 2}
TWINS = [f"The animal did not cross the street because it was too {word}." for word in ("tired", "wide")]


class Book(NamedTuple):
    """The book's own model: its tokenizer, its weights, and the twins as it reads them."""

    tokenizer: Tokenizer
    weights: dict[str, Tensor]
    source: Tensor

    def model(self, names: dict[str, Any]) -> nn.Module:
        """Somebody's Transformer with the book's weights in it."""
        return hand_over(names["Transformer"](**SIZES), self.weights).eval()

    def text(self, ids: Tensor) -> list[str]:
        """What ids say in German, cut where it runs on."""
        return [text if len(text) < 75 else f"{text[:70]} ..." for text in detokenize(self.tokenizer, ids.tolist())]

    def ids(self, german: str) -> Tensor:
        """A German sentence as a target."""
        return torch.tensor([[plain.BOS, *tokenize(self.tokenizer, [german], target=True)[0]]])

    def pieces(self, ids: list[int]) -> list[str]:
        """The pieces behind ids, without the mark of a new word."""
        return [self.tokenizer.processor.id_to_piece(one).lstrip("▁") for one in ids]


@cache
def book() -> Book:
    """The book's model, which comes with the package."""
    folder = find_model("embedded")
    tokenizer = load_tokenizer(folder)
    rows = tokenize(tokenizer, TWINS)
    longest = max(map(len, rows))
    source = torch.tensor([row + [plain.PAD] * (longest - len(row)) for row in rows])
    weights = load_file(folder / "model.safetensors")
    order = [name for name, _ in reference()["Transformer"](**SIZES).named_parameters()]
    return Book(tokenizer, {name: weights[name] for name in order}, source)


def batch_second(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention with the batch second and values of another width."""
    q, k, v = (one.transpose(0, 1) for one in (q, k, v))
    weights = (q @ k.mT / k.shape[-1] ** 0.5).softmax(-1)
    return (weights @ v).transpose(0, 1)


def target_mask_with_padding(target: Tensor) -> Tensor:
    """What a place of a padded target may look at."""
    return causal_mask(target.shape[1]) & padding_mask(target, plain.PAD)


def heads_one_by_one(x: Tensor, queries: Tensor, keys: Tensor, values: Tensor, output: Tensor) -> Tensor:
    """The paper's own form: matrices for each head."""
    heard = []
    for of_queries, of_keys, of_values in zip(queries, keys, values):
        scores = (x @ of_queries) @ (x @ of_keys).mT / of_keys.shape[-1] ** 0.5
        heard.append(scores.softmax(-1) @ (x @ of_values))
    return torch.cat(heard, -1) @ output


def pre_norm(x: Tensor, sublayer: Callable[[Tensor], Tensor], norm: Callable[[Tensor], Tensor]) -> Tensor:
    """Normalised before a sub-layer: what is added up is never normalised."""
    return x + sublayer(norm(x))


def positions_at(places: Tensor, d: int) -> Tensor:
    """The rows of places, in any order."""
    return plain.positions(int(places.max()) + 1, d)[places]


def smoothed(scores: Tensor, wanted: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy with smoothed targets, as a mean over what is no padding."""
    losses = -(smoothed_targets(wanted, scores.shape[-1], smoothing) * scores.log_softmax(-1)).sum(-1)
    return losses[wanted != plain.PAD].mean()


def one_step_of_many(model: nn.Module, optimizer: torch.optim.Optimizer, batches: list[tuple[Tensor, Tensor]]) -> None:
    """One step with a batch in parts: each part's mean counts by its ids."""
    counts = [int((target[:, 1:] != plain.PAD).sum()) for _, target in batches]
    optimizer.zero_grad()
    for (source, target), count in zip(batches, counts):
        (plain.loss(model, source, target, 0.0) * count / sum(counts)).backward()
    optimizer.step()


def beam(next_scores: Callable[[tuple], dict[str, float]], width: int) -> tuple:
    """The likeliest finished sentence that a beam finds."""
    kept: dict[tuple, float] = {(): 0.0}
    finished: dict[tuple, float] = {}
    while kept and max(finished.values(), default=-math.inf) < max(kept.values()):
        longer = {
            (*words, word): sum_ + score for words, sum_ in kept.items() for word, score in next_scores(words).items()
        }
        best = sorted(longer, key=lambda words: -longer[words])[:width]
        finished.update({words: longer[words] for words in best if words[-1] == "eos"})
        kept = {words: longer[words] for words in best if words[-1] != "eos"}
    return max(finished, key=lambda words: finished[words])


class Case(NamedTuple):
    """A small input for a part: which function it asks, what it looks like, how it is asked, and what it returns.

    Where an answer is wrong, there may be more to show; where it is wrong twice, a question leads to the mistake.
    `axes` are what stands in front of the rows and columns of an answer.
    """

    part: str
    shows: str
    run: Callable[[dict[str, Any]], Any]
    returns: tuple[str, ...] = ()
    question: str = ""
    more: Callable[[], list[str]] = list
    axes: tuple[str, ...] = ("sentence", "head")


def same(one: Any, other: Any) -> bool:
    """Whether two answers are equal but for rounding."""
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.shape != other.shape or (one.dtype == torch.bool) != (other.dtype == torch.bool):
            return False
        return torch.allclose(one.double(), other.double(), rtol=1e-4, atol=1e-6, equal_nan=True)
    if isinstance(one, float) and isinstance(other, (float, Tensor)):
        return same(torch.tensor(one), torch.as_tensor(float(other))) if numel(other) == 1 else False
    if isinstance(one, Tensor) and isinstance(other, (float, int)):
        return one.dim() == 0 and same(float(one), float(other))
    return type(one) is type(other) and one == other


def numel(value: Any) -> int:
    """How many numbers a value is."""
    return value.numel() if isinstance(value, Tensor) else 1


def rows(value: Any) -> list[str]:
    """A value in a few lines; of tensors at most six rows and columns."""
    if isinstance(value, Tensor) and value.dim() in (1, 2) and value.numel():
        table = value.detach().reshape(-1, value.shape[-1])[:6, :6].tolist()
        cells = [[str(one) if isinstance(one, (bool, int)) else f"{one + 0.0:.4g}" for one in row] for row in table]
        widths = [max(map(len, column)) for column in zip(*cells)]
        return ["  ".join(f"{one:>{width}}" for one, width in zip(row, widths)) for row in cells]
    if isinstance(value, (Tensor, float)) and numel(value) == 1:
        return [f"{float(torch.as_tensor(value).detach()):.4g}"]
    if isinstance(value, list) and value and all(isinstance(one, list) for one in value):
        shown = [" ".join(map(str, one[:8])) + (f" ... ({len(one)} in all)" if len(one) > 8 else "") for one in value]
        return shown[:6]
    return textwrap.wrap(str(value), 40)[:4] or [""]


def kind(value: Any) -> str:
    """What a value is."""
    if value is None:
        return "nothing (is a return missing?)"
    if isinstance(value, Tensor):
        what = "True and False" if value.dtype == torch.bool else "numbers"
        return f"a tensor of {what}, {tuple(value.shape)}"
    if isinstance(value, (tuple, list)) and any(isinstance(one, Tensor) for one in value):
        return f"{len(value)} values: {'; '.join(map(kind, value))}"
    return value if isinstance(value, str) else f"{type(value).__name__} {value!r}"


def differs(expected: Tensor, found: Tensor) -> tuple[int, ...]:
    """Where the first table of rows and columns is that is another in `found`."""
    at: tuple[int, ...] = ()
    while expected[at].dim() > 2:
        at = (*at, next(i for i in range(len(expected[at])) if not same(expected[at][i], found[at][i])))
    return at


def beside(
    expected: Any, found: Any, returns: tuple[str, ...] = (), axes: tuple[str, ...] = Case._field_defaults["axes"]
) -> list[str]:
    """The first place where two answers differ, expected beside found."""
    if isinstance(expected, tuple) and isinstance(found, (tuple, list)) and len(expected) == len(found) and returns:
        at, pair = next((i, pair) for i, pair in enumerate(zip(expected, found)) if not same(*pair))
        return [f"{returns[at]}, value {at + 1} of {len(expected)} that are returned:", *beside(*pair, (), axes)]
    if isinstance(expected, Tensor) and isinstance(found, Tensor) and expected.dtype.is_floating_point:
        found = found if found.dtype == torch.bool else found.to(expected.dtype)
    comparable = isinstance(expected, (float, list)) and type(expected) is type(found)
    alike = isinstance(expected, Tensor) and isinstance(found, Tensor) and expected.shape == found.shape
    if not (comparable or (alike and (expected.dtype == torch.bool) == (found.dtype == torch.bool))):
        return [f"expected  {kind(expected)}", f"found     {kind(found)}"]
    place, shape = [], tuple(getattr(expected, "shape", ()))
    if isinstance(expected, Tensor):
        at = differs(expected, found)
        place = [f"{axis} {i + 1} of {n}" for axis, i, n in zip((*axes, *["slice"] * len(at)), at, shape)]
        expected, found = expected[at], found[at]
    left, right = rows(expected), rows(found)
    width = max(map(len, [*left, "expected"])) + 6
    cut = isinstance(expected, Tensor) and max(expected.shape, default=0) > 6
    lines = [f"{', '.join(place)}, of a tensor {shape}:"] if place else []
    lines += [f"{'expected':{width}}found{'      (cut to six rows and columns)' if cut else ''}"]
    return [*lines, *(f"{a:{width}}{b}" for a, b in zip_longest(left, right, fillvalue=""))]


def leading(case: Case, expected: Any, found: Any) -> str:
    """A question that leads to what is wrong: about the kind of an answer, its shape, or what the case is about."""
    if isinstance(expected, tuple) and isinstance(found, (tuple, list)) and len(expected) == len(found):
        expected, found = next(pair for pair in zip(expected, found) if not same(*pair))
    if found is None:
        return ""  # that nothing came back says it
    if not (isinstance(expected, Tensor) and isinstance(found, Tensor)):
        return case.question
    if (expected.dtype == torch.bool) != (found.dtype == torch.bool):
        return "Where do you need True and False, and where numbers? Which comparison makes one of the other?"
    if expected.shape != found.shape:
        return "Write its shape beside each of your lines. At which line does it become another than you meant?"
    at = differs(expected, found)
    expected, found = expected[at], found[at]  # as they are shown
    if found.isnan().any():
        return NAN
    if case.part in SCORING and shares(found):
        return SHARES
    return case.question


NAN = (
    "Which numbers are nan? A division of 0 by 0 gives that, and so does a softmax of a row that is minus infinity "
    "throughout: what is hidden there?"
)
SCORING = ("Transformer.decode", "Transformer.forward")  # what comes out of them goes into a softmax later
SHARES = (
    "Your numbers add up to 1, or their exponentials do: you have taken a softmax, or its logarithm. Is one due here, "
    "or is it taken later, by what uses this part?"
)


def shares(found: Tensor) -> bool:
    """Whether a softmax, or its logarithm, gave these rows or these columns of more than one number."""
    if found.dim() < 2 or not found.dtype.is_floating_point:
        return False
    for axis in (axis for axis in (-1, -2) if found.shape[axis] > 1):
        chances = [one for one in (found, found.exp()) if (one >= 0).all()]
        if any(same(torch.ones_like(one.sum(axis)), one.sum(axis)) for one in chances):
            return True
    return False


def sequence(*shape: int, seed: int = 0) -> Tensor:
    """Numbers with one digit behind the point, the same whenever they are asked for."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).mul(10).round() / 10


def spread(mask: Any, *shape: int) -> Any:
    """A mask for every row, head, query and key, if it can be spread so."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        return mask
    while mask.dim() > len(shape) and len(mask) == 1:
        mask = mask[0]
    if mask.shape[-1:] != shape[-1:]:
        return mask  # the axis of the keys has to be there
    try:
        return mask.broadcast_to(shape)
    except RuntimeError:
        return mask


def tokens(*ids: list[int]) -> Tensor:
    """Rows of ids."""
    return torch.tensor(ids)


TABLE = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 2]])
SHOWN = "the table of three words  1 0 0 0\n                          0 1 0 0\n                          0 0 1 2"
OPEN = (sequence(2, 1, 3, 5, seed=2) > -0.5) | torch.eye(3, 5).bool()  # what may be seen
PADDED = tokens([1, 1, 1, 1, 0], [1, 1, 0, 0, 0]).bool()[:, None, None]
SOURCES, TARGETS = tokens([5, 6, 7, 3], [8, 3, 0, 0]), tokens([2, 9, 5], [2, 6, 0])
TREE = {  # next words by how many there are, and by the first: the second one leads further
    (0, ()): {"a": math.log(0.6), "b": math.log(0.4)},
    (1, ("a",)): {"c": math.log(0.5), "d": math.log(0.5)}, (1, ("b",)): {"c": math.log(0.9), "d": math.log(0.1)},
    (2, ("a",)): {"eos": math.log(0.9), "c": math.log(0.1)}, (2, ("b",)): {"eos": math.log(0.9), "c": math.log(0.1)},
    (3, ("a",)): {"eos": 0.0}, (3, ("b",)): {"eos": 0.0},
}  # fmt: skip

SHORT = {(): {"eos": math.log(0.4), "a": math.log(0.6)}, ("a",): {"eos": 0.0}}
LATER = {(): {"eos": math.log(0.45), "a": math.log(0.55)}, ("a",): {"eos": math.log(0.8), "b": math.log(0.2)}}


def searched_by_beam(names: dict[str, Any], following: Callable[[tuple], dict[str, float]], width: int) -> Any:
    """What a beam finds. What it asks when it should have ended is told: Broken."""
    asked = []

    def next_scores(words: tuple) -> dict[str, float]:
        asked.append(words)
        if "eos" in words:
            raise Broken("goes on", f"next_scores was asked what follows {words}, which has ended already")
        if len(asked) > 100:
            raise Broken("no end", f"next_scores was asked 100 times, at last what follows {len(words)} words: your "
                                   "loop does not see that the best sentence is finished")  # fmt: skip
        return following(words)

    return names["beam"](next_scores, width)


class Through(nn.Module):
    """Layers that leave everything as it is."""

    def forward(self, x: Tensor, *_: Tensor) -> Tensor:
        return x


def bare(names: dict[str, Any], dropout: float = 0.0) -> nn.Module:
    """A Transformer of width 4 with three words and without layers, so that what it embeds comes out at once."""
    model = names["Transformer"](3, 4, 1, 1, 1, dropout)
    model.encoder, model.decoder = Through(), Through()
    return hand_over(model, {"target_embedding.weight": TABLE}).eval()


def whole(names: dict[str, Any], dropout: float = 0.0) -> nn.Module:
    """A small Transformer with numbers in it."""
    return filled(names, "Transformer", 12, 8, 16, 2, 2, dropout)


def memory_and_mask(found: Any) -> Any:
    """What `encode` returns, the mask spread over queries."""
    return (found[0], spread(found[1], 2, 1, 1, 4)) if isinstance(found, tuple) and len(found) == 2 else found


class Reads(nn.Module):
    """A model whose scores of four words depend on the word read last alone, out of six, and are all 0 at first."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(6, 4))

    @property
    def target_embedding(self) -> nn.Module:
        return self

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.weight[target]


def after_one_step(step: Callable) -> Tensor:
    """The weights of a small model, after somebody has taken a step with a batch in two parts."""
    model = Reads()
    optimizer = torch.optim.SGD(model.parameters(), lr=16.0)
    step(model, optimizer, [(tokens([5]), tokens([2, 1, 1, 3])), (tokens([5]), tokens([2, 3, 0, 0, 0]))])
    return model.weight.detach()[1:3]


class Says(nn.Module):
    """A model whose scores depend on the word read last, and on the sum of the source: 14 words, d = 8."""

    def __init__(self):
        super().__init__()
        self.weight, self.read = nn.Parameter(sequence(14, 8, seed=5)), None

    @property
    def target_embedding(self) -> nn.Module:
        return self

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        self.read = target
        return (self.weight[target] + 0.1 * self.weight[source].sum(1, keepdim=True)) @ self.weight.T


SCRIPT = {5: [6, 7, 8, 6, plain.EOS], 6: [9, plain.EOS], 7: [8] * 1000}


def searched(
    names: dict[str, Any], *sources: list[int], training: bool = True, about: str = "ids", extra: int = 50
) -> Any:
    """What a search writes with a model that has a script, or how it has asked it."""
    model = Scripted(SCRIPT, plain.BOS).train(training)
    try:
        found = names["translate"](model, tokens(*sources), extra)
    except Broken:
        return "no end after 400 steps"
    if found is None or about == "ids":
        return found.tolist() if isinstance(found, Tensor) else found
    if about == "modes":
        how = "training" if True in model.modes else "evaluation"
        return f"asked in {how}, left in {'training' if model.training else 'evaluation'}"
    if about == "length":
        return f"{max(map(len, found))} ids"
    return f"{'at most' if model.calls < 8 else 'more than'} 7 steps"


def three_steps(names: dict[str, Any], about: str = "losses") -> Any:
    """The losses of three training steps, their rates, whether there is a new rate at all, or what a step returns."""
    model, losses, rates = Reads(), [], []
    optimizer = names["make_optimizer"](model)
    before = optimizer.param_groups[0]["lr"]
    source, target = tokens([5]), tokens([2, 1, 3])
    for step in (1, 2, 3):
        losses.append(names["train_step"](model, optimizer, step, source, target, 2))
        rates.append(optimizer.param_groups[0]["lr"])
    if about == "change":
        return "as before the step" if rates[0] == before else "another than before the step"
    if about == "kind" and isinstance(losses[0], (float, Tensor)):
        history = " with its history" if isinstance(losses[0], Tensor) and losses[0].requires_grad else ""
        return "a Python number" if isinstance(losses[0], float) else f"a tensor{history}"
    return (
        losses[0] if about == "kind" else torch.tensor([float(one) for one in (losses if about == "losses" else rates)])
    )


def rates_of(names: dict[str, Any], *given: int, steps: tuple[int, ...]) -> Any:
    """The learning rates of some steps; if one is no number, what it is."""
    found = [names["learning_rate"](step, *given) for step in steps]
    odd = [one for one in found if numel(one) != 1 or not isinstance(one, (int, float, Tensor))]
    return odd[0] if odd else torch.tensor([float(one) for one in found])


def settings(names: dict[str, Any]) -> Any:
    """The optimizer's settings, in words."""
    optimizer = names["make_optimizer"](Says())
    group = optimizer.param_groups[0]
    return f"{type(optimizer).__name__}, betas {group.get('betas')}, eps {group.get('eps')}"


class Transfer(NamedTuple):
    """The same idea where the lines just written do not fit."""

    name: str
    arguments: str
    asks: str
    solved: str
    cases: tuple[Case, ...]
    more: tuple[Mistake, ...]
    begun: str = "..."

    @property
    def pieces(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def blanks(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def cell(self) -> str:
        return self.solved

    @property
    def cells(self) -> dict[str, str]:
        return {}

    @property
    def blank(self) -> str:
        """The function, as it is to be written."""
        return f"def {self.name}({self.arguments}):\n{textwrap.indent(self.begun.strip(), '    ')}"


class Station(NamedTuple):
    """A part of the Transformer, to be written by the reader: what it is, and its texts, which `stations.toml` has."""

    name: str
    pieces: tuple[str, ...]
    blanks: tuple[str, ...]
    computed: Callable[[], dict[str, Any]]  # for the worked example
    cases: tuple[Case, ...]
    payoff: Callable[[dict[str, Any]], list[str]]
    transfer: Transfer | None
    more: tuple[Mistake, ...]
    task: str
    asks: str  # a guess before anything runs: what comes of a mistake in this part
    options: dict[str, str]
    right: str
    mistake: str
    because: str
    explain: str
    answer: str
    cell: str
    example: str
    cells: Mapping[str, str] = MappingProxyType({})
    begun: Mapping[str, str] = MappingProxyType({})
    given: tuple[str, ...] = ()
    minutes: tuple[float, ...] = ()  # that it took: up to its sentence, and with its transfer, its hunt and slips

    def watch(self) -> list[str]:
        """A worked example: its text, with what is computed in the place of braces."""
        values, lines = self.computed(), []
        for line in self.example.splitlines():
            found = values.get(line[1:-1])
            lines += found if isinstance(found, list) else [line.format(**values)]
        return lines


TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def station(
    name: str, pieces: tuple, blanks: tuple, computed: Callable, cases: tuple[Case, ...], payoff: Callable,
    transfer: tuple[Case, ...] = (), more: tuple[tuple, ...] = (), moved: tuple[tuple, ...] = (), **others: Any,
) -> Station:  # fmt: skip
    """A station with its texts.

    Each of `more` is a mistake: its name, the part that it is in, and its edits. `moved` are those of the transfer.
    """
    said = dict(TEXTS[name])

    def asking(cases: tuple[Case, ...], questions: list[str]) -> tuple[Case, ...]:
        return tuple(case._replace(question=one) for case, one in zip(cases, questions, strict=True))

    def mistakes(some: tuple[tuple, ...]) -> tuple[Mistake, ...]:
        return tuple(Mistake(one, part, "", edits) for one, part, *edits in some)

    also = said.pop("transfer", {})
    there = asking(transfer, also.pop("questions", []))
    return Station(
        name, pieces, blanks, computed, asking(cases, said.pop("questions")), payoff,
        Transfer(**also, cases=there, more=mistakes(moved)) if also else None, mistakes(more), **said, **others,
    )  # fmt: skip


def mistaken_transfer(mistake: Mistake) -> dict[str, Any]:
    """The names that the solution defines, but with a mistake in a transfer."""
    text, names = inspect.getsource(reference()[mistake.part]), dict(globals())
    for old, new in mistake.edits:
        assert old in text, mistake.name
        text = text.replace(old, new)
    exec(compile(text, "<transfer>", "exec"), names)
    return reference() | {mistake.part: names[mistake.part]}


def translated(names: dict[str, Any]) -> list[str]:
    """What the book's weights write in somebody's Transformer."""
    model = book().model(names)
    german = book().text(names["translate"](model, book().source))
    return [f"... too {word}  ->  {text or '(nothing)'}" for word, text in zip(("tired", "wide"), german)]


@torch.no_grad()
def inside() -> tuple[nn.Module, list[list[str]], dict[str, Tensor]]:
    """The book's model after it has read the twins, their pieces, and what its second encoder layer was given."""
    model, seen = book().model(reference()), {}
    attention = model.encoder.layers[1].self_attention
    hook = attention.register_forward_pre_hook(lambda _, inputs: seen.update(x=inputs[0]))
    model.encode(book().source)
    hook.remove()
    return model, [book().pieces(row) for row in book().source.tolist()], seen


def table(head: list[str], *lines: list[Any]) -> list[str]:
    """Columns under a head; numbers stand right."""
    cells = [head, *([one if isinstance(one, str) else f"{one:.2f}" for one in line] for line in lines)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = [
        [f"{one:<{w}}" if at == 0 else f"{one:>{w}}" for at, (one, w) in enumerate(zip(row, widths))] for row in cells
    ]
    return ["  ".join(line).rstrip() for line in lines]


def watch_attention() -> dict[str, Any]:
    """A head of the book's model at the word *it*: scores, scores divided by the root, weights."""
    model, (english, other), seen = inside()
    layer, at = model.encoder.layers[1].self_attention, english.index("it")
    with torch.no_grad():
        scores = layer.split(layer.query(seen["x"]))[0, 0, at] @ layer.split(layer.key(seen["x"]))[0, 0].mT
    weights, shown = layer.weights[0, 0, at], ("animal", "cross", "street", "tired")
    lines = [
        [word, *(float(one[english.index(word)]) for one in (scores, scores / 32**0.5, weights))] for word in shown
    ]
    weights = layer.weights[1, 0, other.index("it")]
    for line, word in zip(lines, ("animal", "cross", "street", "w")):
        line.append(float(weights[other.index(word)]))
    lines[-1][0] = "tired / w(ide)"
    return {
        "weights": table(["key of", "product", "/ root of 32", "weight", "in the other twin"], *lines),
    }


def watch_example() -> dict[str, Any]:
    """The twins with their translations; three scores, and the shares that they become."""
    twins = zip(TWINS, translated(reference()))
    scores = torch.tensor([2.0, 1.0, 0.0])
    lines = (("score", scores), ("exp(score)", scores.exp()), ("weight", scores.softmax(-1)))
    return {
        "twins": [f"  {one}" for english, german in twins for one in (english, f"  {german.partition('->  ')[2]}")],
        "shares": table(["", "animal", "street", "it"], *([name, *row.tolist()] for name, row in lines)),
    }


def softened(names: dict[str, Any]) -> list[str]:
    """What the book's model writes when its attention uses somebody's softmax. The names are changed."""

    def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        scores = (q @ k.mT / math.sqrt(k.shape[-1])).masked_fill(~mask, -math.inf)
        weights = names["softmax"](scores)
        return weights, weights @ v

    names["attention"] = attention
    return translated(names)


EXAMPLE = station(
    "example", ("softmax",), ("softmax",), watch_example,
    (
        Case("softmax", "one row of three scores:  2 1 0",
             lambda names: names["softmax"](torch.tensor([[2.0, 1, 0]]))),
        Case("softmax", "two rows of three scores\nscores  2 1 0\n        0 0 0",
             lambda names: names["softmax"](torch.tensor([[2.0, 1, 0], [0, 0, 0]]))),
        Case("softmax", "2 sentences, 2 heads, 3 queries, 5 keys",
             lambda names: names["softmax"](sequence(2, 2, 3, 5))),
    ), softened,
    more=(
        ("divided by the sum of all rows", "softmax", (".sum(-1, keepdim=True)", ".sum()")),
        ("divided by the sum of each column", "softmax", (".sum(-1, keepdim=True)", ".sum(-2, keepdim=True)")),
        ("the exponential forgotten", "softmax",
         ("scores.exp() / scores.exp().sum(-1, keepdim=True)", "scores / scores.sum(-1, keepdim=True)")),
    ),
)  # fmt: skip
QUERIES, KEYS = torch.tensor([[2.0, 0, 0, 0], [0, 2, 0, 0]]), torch.tensor([[2.0, 0, 0, 0], [0, 1, 0, 0]])
ATTENTION_STATION = station(
    "attention", ("attention",), ("attention",), watch_attention,
    (
        Case("attention", "2 queries and 2 keys; nothing is hidden\n"
             "q  2 0 0 0     k  2 0 0 0     v  1 0\n   0 2 0 0        0 1 0 0        0 1",
             lambda names: names["attention"](QUERIES, KEYS, torch.eye(2), torch.ones(2, 2, dtype=torch.bool)),
             ("weights", "mixed")),
        Case("attention", "2 queries and 2 keys; the first query may not look at the second key\n"
             "q  2 0 0 0     k  2 0 0 0     v  1 0     mask  True False\n"
             "   0 2 0 0        0 1 0 0        0 1           True True",
             lambda names: names["attention"](QUERIES, KEYS, torch.eye(2), torch.ones(2, 2).tril().bool()),
             ("weights", "mixed")),
        Case("attention", "2 sentences, 2 heads, 2 queries, 3 keys, in this order of axes; all scores are 0\n"
             "In the second sentence, the third key is hidden. The three values are 1, 2 and 6 everywhere.",
             lambda names: names["attention"](torch.zeros(2, 2, 2, 4), torch.ones(2, 2, 3, 4),
                                              torch.tensor([[1.0], [2], [6]]).expand(2, 2, 3, 1),
                                              tokens([1, 1, 1], [1, 1, 0]).bool()[:, None, None]),
             ("weights", "mixed")),
        Case("attention", "2 sentences, 2 heads, 3 queries, 5 keys, in this order of axes; some keys are hidden",
             lambda names: names["attention"](sequence(2, 2, 3, 4), sequence(2, 2, 5, 4, seed=1),
                                              sequence(2, 2, 5, 4, seed=3), OPEN), ("weights", "mixed")),
    ), translated,
    transfer=(
        Case("batch_second", "2 queries and 2 keys of 1 number, 2 values of 1, for 1 sentence\n"
             "q  0     k  1     v  2\n   1        0        4",
             lambda names: names["batch_second"](*(torch.tensor(one)[:, None, None] for one in
                                                   ([0.0, 1], [1.0, 0], [2.0, 4]))), axes=("query",)),
        Case("batch_second", "3 queries and 5 keys of 4 numbers, 5 values of 6, for 2 sentences",
             lambda names: names["batch_second"](
                 sequence(3, 2, 4), sequence(5, 2, 4, seed=1), sequence(5, 2, 6, seed=2)), axes=("query",)),
    ),
    moved=(
        ("axes left as they are", "batch_second",
         ("    q, k, v = (one.transpose(0, 1) for one in (q, k, v))\n", ""), (".transpose(0, 1)", "")),
        ("the batch left in front", "batch_second", ("(weights @ v).transpose(0, 1)", "weights @ v")),
    ),
    more=(
        ("divided by the root of the number of keys", "attention",
         ("math.sqrt(k.shape[-1])", "math.sqrt(k.shape[-2])")),
        ("divided by the root of the number of queries", "attention",
         ("math.sqrt(k.shape[-1])", "math.sqrt(q.shape[-2])")),
        ("divided by the root of d_v", "attention", ("math.sqrt(k.shape[-1])", "math.sqrt(v.shape[-1])")),
        ("divided after the softmax", "attention",
         (" / math.sqrt(k.shape[-1])", ""), (".softmax(-1)  # 2", ".softmax(-1) / math.sqrt(k.shape[-1])")),
        ("keys mixed instead of values", "attention", ("weights @ v", "weights @ k")),
        ("weights transposed", "attention", ("weights @ v", "weights.mT @ v")),
    ),
)  # fmt: skip


def watch_masks() -> dict[str, Any]:
    """Both masks for a few words."""
    names, words = reference(), ["<s>", "Das", "Tier", "war"]
    padded = names["source_mask"](book().source)[:, 0, 0]
    lines = [[word, *("yes" if one else "-" for one in row)]
             for word, row in zip(words, names["target_mask"](torch.ones(1, 4, dtype=torch.long)))]  # fmt: skip
    return {
        "mask": table(["", *words], *lines),
        "pieces": int(padded[0].sum()),
        "others": int(padded[1].sum()),
        "padding": int((~padded[0]).sum()),
    }


MASKS_STATION = station(
    "masks", ("source_mask", "target_mask"), ("source_mask", "target_mask"), watch_masks,
    (
        Case("source_mask", "sources  7 8 0     0 is padding\n         1 0 0",
             lambda names: spread(names["source_mask"](tokens([7, 8, 0], [1, 0, 0])), 2, 1, 1, 3)),
        Case("target_mask", "a target of three ids: 2 7 8",
             lambda names: spread(names["target_mask"](tokens([2, 7, 8])), 3, 3)),
        Case("target_mask", "two targets of four ids",
             lambda names: spread(names["target_mask"](tokens([2, 7, 8, 3], [2, 9, 3, 0])), 2, 1, 4, 4)),
    ), translated,
    transfer=(
        Case("target_mask_with_padding", "targets  2 7 8 0     2 is the beginning, 0 is padding\n"
             "         0 2 9 9",
             lambda names: spread(names["target_mask_with_padding"](tokens([2, 7, 8, 0], [0, 2, 9, 9])),
                                  2, 1, 4, 4)),
    ),
    moved=(
        ("padding not hidden", "target_mask_with_padding",
         (" & padding_mask(target, plain.PAD)", ".expand(len(target), 1, -1, -1)")),
        ("what comes later not hidden", "target_mask_with_padding",
         ("causal_mask(target.shape[1]) & padding_mask(target, plain.PAD)",
          "padding_mask(target, plain.PAD).expand(-1, 1, target.shape[1], -1)")),
        ("one mask or the other", "target_mask_with_padding", (" & ", " | ")),
        ("rows of padding hidden instead of columns", "target_mask_with_padding",
         ("padding_mask(target, plain.PAD)", "padding_mask(target, plain.PAD).mT")),
    ),
    more=(
        ("True where it is hidden", "source_mask", ("(source != PAD)", "(source == PAD)")),
        ("queries hidden instead of keys", "source_mask",
         ("(source != PAD)[:, None, None, :]", "(source != PAD)[:, None, :, None]")),
        ("True where it is hidden", "target_mask", (".tril().bool()", ".triu(1).bool()")),
        ("a mask of numbers, not of True and False", "target_mask", (".tril().bool()", ".tril()")),
        ("a mask of numbers, not of True and False", "source_mask",
         ("(source != PAD)[:, None, None, :]", "(source != PAD)[:, None, None, :].float()")),
    ),
)  # fmt: skip


def watch_heads() -> dict[str, Any]:
    """What each head of the second layer looks at most, from *it*."""
    model, words, _ = inside()
    lines = []
    for head in range(4):
        line = [f"head {head + 1}"]
        for row, english in enumerate(words):
            weights = model.encoder.layers[1].self_attention.weights[row, head, english.index("it")]
            best = int(weights.argmax())
            line.append(f"{english[best]} {float(weights[best]):.2f}")
        lines.append(line)
    return {"heads": table(["", "... too tired", "... too wide"], *lines)}


WORDS = torch.tensor([[[1.0, 0, 2, 0], [0, 3, 0, 1]]])
TURNS = "three matrices leave a vector as it is\nThe output matrix turns the order of its four numbers round."
TURNING = dict.fromkeys("qkv", torch.eye(4)) | {"o": torch.eye(4).flip(0)}
DIFFERENT = {"q": torch.tensor([[1.0, 0], [0, 2]]), "k": torch.tensor([[0.0, 1], [1, 0]]),
             "v": torch.tensor([[3.0, 0], [0, 1]]), "o": torch.tensor([[1.0, 1], [1, 0]])}  # fmt: skip
ONE_HEAD = (torch.eye(2, 3)[None], torch.eye(3, 2)[None], 2 * torch.eye(3, 2)[None],
            torch.tensor([[[1.0], [0], [0]]]), torch.tensor([[1.0, 0, 2]]))  # fmt: skip


def scores_and_weights() -> list[str]:
    """What the first small input of the heads' transfer comes to on its way."""
    x, queries, keys, *_ = ONE_HEAD
    products = x[0] @ queries[0] @ (x[0] @ keys[0]).T
    scores = products / keys.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    lines = [
        [f"word {i + 1}", *(f"{a:.4g}  {b:.4g}" for a, b in (one[i].tolist() for one in (products, scores, weights)))]
        for i in range(2)
    ]
    return [
        "On the way, for each word that asks; the value of word 1 is 1, that of word 2 is 0:",
        *table(["", "products", "scores", "weights"], *lines),
    ]


HEADS_STATION = station(
    "heads", ("Attention",), ("Attention.split", "Attention.forward"), watch_heads,
    (
        Case("Attention.split", "one sentence of 2 words, 4 numbers each, for 2 heads\nx  0 1 2 3\n   4 5 6 7",
             lambda names: names["Attention"](4, 2).split(torch.arange(8.0).view(1, 2, 4))),
        Case("Attention.forward", f"2 words look at each other, 2 heads; {TURNS}\n"
             "x and memory  1 0 2 0\n              0 3 0 1",
             lambda names: hand_over(names["Attention"](4, 2), TURNING)(
                 WORDS, WORDS, torch.ones(2, 2, dtype=torch.bool))),
        Case("Attention.forward", f"1 word looks at 2 others, 2 heads; {TURNS}\n"
             "x  1 1 1 1     memory  1 0 2 0\n                       0 3 0 1",
             lambda names: hand_over(names["Attention"](4, 2), TURNING)(
                 torch.ones(1, 1, 4), WORDS, torch.ones(1, 2, dtype=torch.bool))),
        Case("Attention.forward", "2 words look at 3 others, 2 heads of one number; word 1 may not look at the third\n"
             "x  1 0     memory  1 0     query.weight  1 0     key.weight  0 1     value.weight  3 0     "
             "output.weight  1 1\n"
             "   0 1             0 2                   0 2                 1 0                   0 1     "
             "               1 0\n                   1 1",
             lambda names: hand_over(names["Attention"](2, 2), DIFFERENT)(
                 torch.eye(2)[None], torch.tensor([[[1.0, 0], [0, 2], [1, 1]]]),
                 tokens([1, 1, 0], [1, 1, 1]).bool())),
        Case("Attention.forward", "2 sentences: 3 words look at 5 others, some are hidden; 8 numbers, 2 heads",
             lambda names: filled(names, "Attention", 8, 2)(sequence(2, 3, 8), sequence(2, 5, 8, seed=1), OPEN)),
    ), translated,
    transfer=(
        Case("heads_one_by_one", "1 head, d = 3, d_k = 2, d_v = 1, a sentence of 2 words\n"
             "x  1 0 0     queries  1 0     keys  2 0     values  1     output  1 0 2\n"
             "   0 1 0              0 1           0 2             0\n"
             "                      0 0           0 0             0",
             lambda names: names["heads_one_by_one"](*ONE_HEAD), more=scores_and_weights),
        Case("heads_one_by_one", "2 heads, d = 6, d_k = 2, d_v = 5, 3 sentences of 4 words",
             lambda names: names["heads_one_by_one"](
                 sequence(3, 4, 6), sequence(2, 6, 2, seed=1), sequence(2, 6, 2, seed=2),
                 sequence(2, 6, 5, seed=3), sequence(10, 6, seed=4))),
    ),
    moved=(
        ("divided by the root of d_v", "heads_one_by_one", ("of_keys.shape[-1]", "of_values.shape[-1]")),
        ("divided by the root of d", "heads_one_by_one", ("of_keys.shape[-1]", "x.shape[-1]")),
        ("not divided by a root", "heads_one_by_one", (" / of_keys.shape[-1] ** 0.5", "")),
        ("the softmax forgotten", "heads_one_by_one", ("scores.softmax(-1)", "scores")),
        ("no output matrix", "heads_one_by_one", (" @ output", "")),
    ),
    more=(
        ("heads added up", "Attention", ("mixed.transpose(1, 2).flatten(2)", "mixed.sum(1).repeat(1, 1, self.heads)")),
        ("every second number to a head", "Attention",
         ("x.unflatten(-1, (self.heads, -1)).transpose(1, 2)",
          "x.unflatten(-1, (-1, self.heads)).permute(0, 3, 1, 2)")),
        ("keys and values from x", "Attention",
         ("self.split(self.key(memory)), self.split(self.value(memory))",
          "self.split(self.key(x)), self.split(self.value(x))")),
        ("the axis of the heads not moved", "Attention", ("(self.heads, -1)).transpose(1, 2)", "(self.heads, -1))")),
    ),
)  # fmt: skip


def watch_layers() -> dict[str, Any]:
    """What a layer does to the vector of *it*: how long it is, and how many inner units are awake."""
    model, (english, _), seen = inside()
    layer, at = model.encoder.layers[1], english.index("it")
    with torch.no_grad():
        x, mask = seen["x"][:1], reference()["source_mask"](book().source[:1])
        heard = layer.self_attention(x, x, mask)
        after = layer.around_self_attention(x, heard)
        inner = layer.feed_forward.inner(after)[0, at]
    vectors = {"as it comes in": x, "what attention adds": heard, "the sum": x + heard, "normalised": after}
    sizes = [[name, float(one[0, at].norm()), float(one[0, at].var(correction=0))] for name, one in vectors.items()]
    return {"sizes": table(["", "length", "variance"], *sizes), "awake": int((inner > 0).sum())}


SMALL = {"inner.weight": torch.tensor([[1.0, 0], [0, 1], [1, -1]]), "inner.bias": torch.zeros(3),
         "outer.weight": torch.tensor([[1.0, 1, 1], [0, 1, 2]]), "outer.bias": torch.zeros(2)}  # fmt: skip
OUTER = {"EncoderLayer": torch.tensor([[0], [1.5]]), "DecoderLayer": torch.tensor([[3.0], [0]])}
BY_HAND = """the attention's matrices leave a vector as it is
inner.weight  2 1     outer.weight  {}
                                    {}
There are no biases. Of two numbers, the normalisation makes the larger 1 and the smaller -1."""
DECODER = f"one word of 2 numbers; {BY_HAND.format(3, 0)}"
SEEN = torch.ones(1, 1, dtype=torch.bool)


ADDED: list[str] = []  # what each add and norm of the layer that was asked last was given


class Noted(nn.Module):
    """An add and norm that notes what it is given."""

    def __init__(self, name: str, part: nn.Module):
        super().__init__()
        self.name, self.part = name, part

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        ADDED.append(f"  {self.name:23}  x  {rows(x[0])[0]:8}  y  {rows(y[0])[0]}")
        return self.part(x, y)


def by_hand(layer: nn.Module) -> nn.Module:
    """A layer of width 2 with so few numbers that it can be followed by hand."""
    kind = type(layer).__name__
    feed_forward = {"inner.weight": torch.tensor([[2.0, 1]]), "outer.weight": OUTER[kind]}
    ADDED[:] = ["In yours, each add and norm was given:"]
    for name, _ in reference()[kind](2, 1, 1, 0.0).named_children():
        if "around" in name:
            setattr(layer, name, Noted(name, getattr(layer, name)))
        elif "attention" in name:
            hand_over(getattr(layer, name), dict.fromkeys("qkvo", torch.eye(2)))
        else:
            hand_over(getattr(layer, name), feed_forward)
    return layer.eval()


SELF = "self.around_self_attention(x, self.self_attention(x, x, mask))"
CROSS = "self.around_cross_attention(x, self.cross_attention(x, memory, memory_mask))"
LAST, OTHER = (
    "return self.around_feed_forward(x, self.feed_forward(x))",
    "return self.around_feed_forward(y, self.feed_forward(x))",
)
LAYERS_STATION = station(
    "layers", ("FeedForward", "AddNorm", "EncoderLayer", "DecoderLayer"),
    ("FeedForward.forward", "AddNorm.forward", "DecoderLayer.forward"), watch_layers,
    (
        Case("FeedForward.forward", "one word of 2 numbers, 3 inner units, no biases\n"
             "x  1 -2     inner.weight  1  0     outer.weight  1 1 1\n"
             "                          0  1                   0 1 2\n                          1 -1",
             lambda names: hand_over(names["FeedForward"](2, 3), SMALL)(torch.tensor([[[1.0, -2.0]]]))),
        Case("AddNorm.forward", "one word of 4 numbers, in evaluation\nx  1 2 3 4     y  0 0 0 8",
             lambda names: names["AddNorm"](4, 0.0).eval()(torch.tensor([[[1.0, 2, 3, 4]]]),
                                                           torch.tensor([[[0.0, 0, 0, 8]]]))),
        Case("AddNorm.forward", "one word of 4 numbers, in training; all of y is dropped\nx  1 2 3 4     y  0 0 0 8",
             lambda names: names["AddNorm"](4, 1.0).train()(torch.tensor([[[1.0, 2, 3, 4]]]),
                                                            torch.tensor([[[0.0, 0, 0, 8]]]))),
        Case("EncoderLayer.forward", f"one word of 2 numbers; {BY_HAND.format(0, 1.5)}\nx  1 0",
             lambda names: by_hand(names["EncoderLayer"](2, 1, 1, 0.0))(torch.tensor([[[1.0, 0]]]), SEEN),
             more=lambda: [*ADDED]),
        Case("EncoderLayer.forward", "2 sentences of 5 words, padded differently; 8 numbers, 2 heads",
             lambda names: filled(names, "EncoderLayer", 8, 16, 2, 0.0)(sequence(2, 5, 8, seed=1), PADDED)),
        Case("DecoderLayer.forward", f"{DECODER}\nx  3 0     memory  0 2.5\n                   9 0     (hidden)",
             lambda names: by_hand(names["DecoderLayer"](2, 1, 1, 0.0))(
                 torch.tensor([[[3.0, 0]]]), torch.tensor([[[0, 2.5], [9, 0]]]), SEEN, tokens([1, 0]).bool()),
             more=lambda: [*ADDED]),
        Case("DecoderLayer.forward", f"{DECODER}\nx  3 0     memory  0 -8\n                   0 16\n"
             "Both words of the memory may be seen. Equal scores share the weight equally; of scores that are far\n"
             "apart, the larger one gets all of it.",
             lambda names: by_hand(names["DecoderLayer"](2, 1, 1, 0.0))(
                 torch.tensor([[[3.0, 0]]]), torch.tensor([[[0, -8.0], [0, 16]]]), SEEN, tokens([1, 1]).bool()),
             more=lambda: [*ADDED]),
        Case("DecoderLayer.forward", "3 words of each target, 5 of each source, padded differently; 8 numbers, 2 heads",
             lambda names: filled(names, "DecoderLayer", 8, 16, 2, 0.0)(
                 sequence(2, 3, 8), sequence(2, 5, 8, seed=1), torch.ones(3, 3).tril().bool(), PADDED)),
    ), translated,
    transfer=(
        Case("pre_norm", "x  1 2 3; the sub-layer squares, the norm subtracts the mean",
             lambda names: names["pre_norm"](torch.tensor([[1.0, 2.0, 3.0]]), torch.square,
                                             lambda one: one - one.mean(-1, keepdim=True))),
    ),
    moved=(
        ("normalised after the sum", "pre_norm", ("x + sublayer(norm(x))", "norm(x + sublayer(x))")),
        ("the output normalised", "pre_norm", ("sublayer(norm(x))", "norm(sublayer(x))")),
        ("what is added is normalised", "pre_norm", ("x + sublayer", "norm(x) + sublayer")),
        ("nothing added", "pre_norm", ("x + sublayer", "sublayer")),
    ),
    more=(
        ("dropout on the sum", "AddNorm", ("x + self.dropout(y)", "self.dropout(x + y)")),
        ("dropout after the normalisation", "AddNorm",
         ("self.norm(x + self.dropout(y))", "self.dropout(self.norm(x + y))")),
        ("dropout on what goes in", "AddNorm", ("x + self.dropout(y)", "self.dropout(x) + y")),
        ("dropout forgotten", "AddNorm", ("self.norm(x + self.dropout(y))", "self.norm(x + y)")),
        ("ReLU at the end", "FeedForward", ("self.outer(self.inner(x).relu())", "self.outer(self.inner(x)).relu()")),
        ("the second sum adds the layer's input, not what went into the feed-forward layer", "EncoderLayer",
         (f"x = {SELF}\n        {LAST}", f"y, x = x, {SELF}\n        {OTHER}")),
        ("the feed-forward layer gets the layer's input", "EncoderLayer",
         (f"x = {SELF}\n        {LAST}", f"y = {SELF}\n        {OTHER}")),
        ("the second sum adds the layer's input, not what went into the attention", "DecoderLayer",
         (f"x = {SELF}\n        x = {CROSS}", f"y, x = x, {SELF}\n        x = {CROSS.replace('(x', '(y', 1)}")),
        ("the last sum adds the layer's input, not what went into the feed-forward layer", "DecoderLayer",
         (f"x = {SELF}\n        x = {CROSS}\n        {LAST}",
          f"y, x = x, {SELF}\n        x = {CROSS}\n        {OTHER}")),
        ("the last sum adds what went into the attention to the memory", "DecoderLayer",
         (f"x = {CROSS}\n        {LAST}", f"y, x = x, {CROSS}\n        {OTHER}")),
        ("the attention to the memory asks with the layer's input", "DecoderLayer",
         (f"x = {SELF}\n        x = {CROSS}",
          f"y, x = x, {SELF}\n        x = {CROSS.replace('attention(x, memory', 'attention(y, memory')}")),
        ("the last feed-forward layer gets what went into the attention to the memory", "DecoderLayer",
         (f"x = {CROSS}\n        {LAST}", f"y, x = x, {CROSS}\n        {LAST.replace('forward(x)', 'forward(y)')}")),
        ("memory before the target", "DecoderLayer",
         ("        x = self.around_self_attention(x, self.self_attention(x, x, mask))\n"
             "        x = self.around_cross_attention(x, self.cross_attention(x, memory, memory_mask))\n",
          "        x = self.around_cross_attention(x, self.cross_attention(x, memory, memory_mask))\n"
             "        x = self.around_self_attention(x, self.self_attention(x, x, mask))\n")),
    ),
)  # fmt: skip


def watch_ends() -> dict[str, Any]:
    """How long the vectors of a word and of a place are, and the first numbers of three places."""
    model, (english, _), _ = inside()
    row, at = model.target_embedding.weight[book().source[0, english.index("it")]].detach(), english.index("it")
    places = reference()["positions"](16, 128)
    rows = [[str(i), *(float(places[i, j]) for j in range(4)), "...", *places[i, 126:].tolist()] for i in (0, 1, 8)]
    return {
        "row": float(row.norm()),
        "scaled": float(row.norm()) * 128**0.5,
        "place": float(places[at].norm()),
        "places": table(["place", "sine", "cosine", "sine", "cosine", "...", "sine", "cosine"], *rows),
    }


ENDS_STATION = station(
    "ends", ("Embedding", "positions", "Transformer"),
    ("Embedding.forward", "positions", "Transformer.embed", "Transformer.decode"), watch_ends,
    (
        Case("Embedding.forward", f"the words 2 and 0\n{SHOWN}",
             lambda names: hand_over(names["Embedding"](3, 4), {"weight": TABLE})(tokens([2, 0]))),
        Case("positions", "3 places, d = 4", lambda names: names["positions"](3, 4)),
        Case("positions", "6 places, d = 6", lambda names: names["positions"](6, 6)),
        Case("Transformer.embed", f"the ids 2 2 0, in evaluation\n{SHOWN}",
             lambda names: bare(names).embed(tokens([2, 2, 0]))),
        Case("Transformer.embed", f"the ids 2 2 0, in training, where everything is dropped\n{SHOWN}",
             lambda names: bare(names, 1.0).train().embed(tokens([2, 2, 0]))),
        Case("Transformer.encode", "two sources, padded differently: the memory, and what may be seen of it",
             lambda names: memory_and_mask(whole(names).encode(SOURCES)), ("memory", "mask")),
        Case("Transformer.decode", "the target 2 0, in a model without layers, so that what `embed` makes of it comes "
             f"out at once\n{SHOWN}",
             lambda names: bare(names).decode(tokens([2, 0]), torch.zeros(1, 1, 4), SEEN)),
        Case("Transformer.decode", "what encode returns, and two targets",
             lambda names: whole(names).decode(TARGETS, sequence(2, 4, 8), (SOURCES != 0)[:, None, None])),
        Case("Transformer.forward", "two sources and two targets", lambda names: whole(names)(SOURCES, TARGETS)),
    ), translated,
    transfer=(
        Case("positions_at", "places  0 0 1 2     d = 6\n        0 1 2 9",
             lambda names: names["positions_at"](tokens([0, 0, 1, 2], [0, 1, 2, 9]), 6)),
    ),
    moved=(
        ("the columns taken, not the places", "positions_at",
         ("[places]", "[: places.shape[1]].expand(len(places), -1, -1)")),
    ), given=("Stack", "draw_weights"),
    more=(
        ("times the root of the vocabulary's size", "Embedding", ("self.weight.shape[1]", "self.weight.shape[0]")),
        ("columns counted twice in the exponent", "positions",
         ("torch.arange(0, d, 2) / d", "2 * torch.arange(0, d, 2) / d")),
        ("pairs counted where columns are due", "positions", ("torch.arange(0, d, 2) / d", "torch.arange(d // 2) / d")),
        ("the decoder's vectors returned instead of scores", "Transformer",
         ("return x @ self.target_embedding.weight.T", "return x")),
        ("logarithms of chances returned instead of scores", "Transformer",
         ("return x @ self.target_embedding.weight.T", "return (x @ self.target_embedding.weight.T).log_softmax(-1)")),
        ("divided by the root", "Embedding", ("self.weight[tokens] * math.sqrt", "self.weight[tokens] / math.sqrt")),
        ("cosines where sines are due", "positions", ("[angles.sin(), angles.cos()]", "[angles.cos(), angles.sin()]")),
        ("all sines in front of all cosines, as others have it", "positions",
         ("torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)",
          "torch.cat([angles.sin(), angles.cos()], dim=-1)")),
        ("places counted from 1", "positions",
         ("torch.arange(length)[:, None]", "torch.arange(1, length + 1)[:, None]")),
        ("dropout before the positions", "Transformer",
         ("self.dropout(x + positions(x.shape[1], x.shape[2]).to(x))",
          "self.dropout(x) + positions(x.shape[1], x.shape[2]).to(x)")),
        ("dropout forgotten", "Transformer",
         ("self.dropout(x + positions(x.shape[1], x.shape[2]).to(x))",
          "x + positions(x.shape[1], x.shape[2]).to(x)")),
    ),
)  # fmt: skip


GERMAN = [[f"Das Tier überquerte die Straße nicht, weil {pronoun} zu {word} war." for pronoun in ("es", "sie", "er")]
          for word in ("müde", "breit")]  # fmt: skip


def watch_loss() -> dict[str, Any]:
    """What the decoder reads at the end of two translations, what it should say, and how sure it is."""
    model, lines = book().model(reference()), []
    for german in GERMAN[0][:2]:
        target = book().ids(german)
        with torch.no_grad():
            chances = model(book().source[:1], target[:, :-1])[0].softmax(-1)
        reads, wanted = book().pieces(target[0, :-1].tolist()), book().pieces(target[0, 1:].tolist())
        at = reads.index("weil")
        for i in (at, at + 1, at + 2):
            chance = float(chances[i, target[0, i + 1]])
            lines.append([f"... {' '.join(reads[at : i + 1])}", wanted[i], f"{chance:.6f}", abs(math.log(chance))])
    return {"chances": table(["has read", "should say", "chance", "costs"], *lines)}


def judged(names: dict[str, Any]) -> list[str]:
    """Which pronoun each twin gets, when somebody's loss is the judge of three translations."""
    model, lines = book().model(names), []
    for row, (word, translations) in enumerate(zip(("tired", "wide"), GERMAN)):
        source = book().source[row : row + 1]
        with torch.no_grad():
            values = [float(names["loss"](model, source, book().ids(one), 0.0)) for one in translations]
        losses = f"es {values[0]:.2f}, sie {values[1]:.2f}, er {values[2]:.2f}"
        known = {value: pronoun for pronoun, value in zip(("es", "sie", "er"), values) if value == value}
        best = f"the smallest  ->  {known[min(known)]}" if known else "no smallest: all are nan"
        lines.append(f"... too {word}: loss of a translation with {losses}; {best}")
    return lines


def loss_case(shows: str, source: Tensor, target: Tensor, *smoothing: float) -> Case:
    """A case for the loss: beside its answer stand what the model was asked with, and what each id to predict costs."""
    asked: list[Says] = []  # the model that was asked last

    def run(names: dict[str, Any]) -> Any:
        asked[:] = [Says()]
        return names["loss"](asked[0], source, target, *smoothing)

    def costs() -> list[str]:
        read, wanted = asked[0].read, target[:, 1:]
        with torch.no_grad():
            chances = Says()(source, target[:, :-1]).log_softmax(-1)
        rows = [["the cost of each, -log of its chance", -chances.gather(-1, wanted[..., None])]]
        rows += [["the mean cost of all 14 words there", -chances.mean(-1)]] if not smoothing else []
        predicted = ["what it had to predict", *map(str, wanted.flatten().tolist())]
        return [
            f"your loss asked the model with  {'nothing' if read is None else read.tolist()}",
            *table(predicted, *([name, *values.flatten().tolist()] for name, values in rows)),
        ]

    return Case("loss", shows, run, more=costs)


LOSS_STATION = station(
    "loss", ("loss",), ("loss",), watch_loss,
    (
        loss_case("one target: 2 5 3 (beginning, a word, end), without smoothing", tokens([5]), tokens([2, 5, 3]), 0.0),
        loss_case("two targets, one with padding (0): 2 5 6 7 3 and 2 8 3 0 0, without smoothing",
                  tokens([5], [6]), tokens([2, 5, 6, 7, 3], [2, 8, 3, 0, 0]), 0.0),
        loss_case("two targets, 2 5 6 7 3 and 2 8 3 0 0, with a smoothing of 0.1",
                  tokens([5], [6]), tokens([2, 5, 6, 7, 3], [2, 8, 3, 0, 0])),
    ), judged,
    transfer=(
        Case("smoothed", "one word of three, the second is right; smoothing 0.3\nscores  0 1 3",
             lambda names: names["smoothed"](torch.tensor([[0.0, 1, 3]]), torch.tensor([1]), 0.3)),
        Case("smoothed", "the same word twice, and a third, which is padding (0); smoothing 0.3\n"
             "scores  0 1 3\n        0 1 3\n        5 0 0",
             lambda names: names["smoothed"](torch.tensor([[0.0, 1, 3], [0, 1, 3], [5, 0, 0]]),
                                             torch.tensor([1, 1, 0]), 0.3)),
    ),
    moved=(
        ("the rest forgotten", "smoothed",
         ("smoothed_targets(wanted, scores.shape[-1], smoothing) * scores.log_softmax(-1)).sum(-1)",
          "(1 - smoothing) * scores.log_softmax(-1)).gather(-1, wanted[:, None])[:, 0]")),
        ("the smoothing forgotten", "smoothed", ("scores.shape[-1], smoothing", "scores.shape[-1], 0.0")),
        ("the rest divided among the other words alone", "smoothed",
         ("scores.shape[-1], smoothing", "scores.shape[-1], smoothing * scores.shape[-1] / (scores.shape[-1] - 1)")),
        ("padding counted", "smoothed", ("losses[wanted != plain.PAD]", "losses")),
        ("a sum instead of a mean", "smoothed", (".mean()", ".sum()")),
    ),
    more=(
        ("the shift the wrong way round", "loss",
         ("model(source, target[:, :-1])", "model(source, target[:, 1:])"),
         ("wanted = target[:, 1:]", "wanted = target[:, :-1]")),
        ("smoothing forgotten", "loss", (", label_smoothing=smoothing", "")),
        ("a sum instead of a mean", "loss",
         ("label_smoothing=smoothing)", 'label_smoothing=smoothing, reduction="sum")')),
    ),
)  # fmt: skip


LION = "Der Löwe überquerte die Straße nicht, weil er zu müde war."


def watch_step() -> dict[str, Any]:
    """Learning rates of a few steps, and how much the book's model expects a lion."""
    names = reference()
    with torch.no_grad():
        value = float(names["loss"](book().model(names), book().source[:1], book().ids(LION), 0.0))
    steps = (1, 5, 20, 400, 1600)
    rates = [f"{names['learning_rate'](step, 128, 400):.6f}" for step in steps]
    return {
        "twin": TWINS[0],
        "lion": LION,
        "loss": value,
        "rates": table(["step", *map(str, steps)], ["rate", *rates]),
    }


def taught(names: dict[str, Any]) -> list[str]:
    """What the book's model writes after twenty of somebody's steps on a single sentence, which has a lion in it."""
    torch.manual_seed(0)
    model = book().model(names).train()
    optimizer = names["make_optimizer"](model)
    for step in range(1, 21):
        names["train_step"](model, optimizer, step, book().source[:1], book().ids(LION), 400)
    german = book().text(names["translate"](model.eval(), book().source))
    return [f"... too {word}  ->  {text or '(nothing)'}" for word, text in zip(("tired", "wide"), german)]


STEP_STATION = station(
    "step", ("learning_rate", "make_optimizer", "train_step"), ("learning_rate", "train_step"), watch_step,
    (
        Case("learning_rate", "d = 4, a warm-up of 4, the steps 1, 4 and 16",
             lambda names: rates_of(names, 4, 4, steps=(1, 4, 16))),
        Case("learning_rate", "d = 512, the paper's warm-up, the steps 1, 4000 and 100000",
             lambda names: rates_of(names, 512, steps=(1, 4000, 100_000))),
        Case("make_optimizer", "its settings", settings),
        Case("train_step", "a small model, one step: the optimizer's rate afterwards",
             lambda names: three_steps(names, about="change")),
        Case("train_step", "a small model with 6 words and d = 4, three steps, a warm-up of 2; the rates that are set",
             lambda names: three_steps(names, about="rates")),
        Case("train_step", "a small model, one step: what is returned",
             lambda names: three_steps(names, about="kind")),
        Case("train_step", "a small model, the same batch three times, a warm-up of 2; the losses\n"
             "At first all four words have the same chance, and a loss of log 4. Adam's first step moves the score\n"
             "of a word that is due up by the rate, 0.1768, and those of the other words down by as much.",
             three_steps),
    ), taught,
    transfer=(
        Case("one_step_of_many", "two parts, 2 1 1 3 and 2 3 0 0 0, so 3 ids and 1 to predict, at a rate of 16\n"
             "The model has a row of four scores for each word it may read, and all are 0. The gradient of one id's\n"
             "loss is 1/4 for each of the four words, and 1/4 - 1 for the right one. The rows of the words 1 and 2 "
             "afterwards:",
             lambda names: after_one_step(names["one_step_of_many"])),
    ),
    moved=(
        ("a mean of the parts' means", "one_step_of_many", ("* count / sum(counts)", "/ len(batches)")),
        ("the parts' means added up", "one_step_of_many", (" * count / sum(counts)", "")),
        ("padding counted", "one_step_of_many", ("int((target[:, 1:] != plain.PAD).sum())", "target[:, 1:].numel()")),
        ("a step for each part", "one_step_of_many",
         (".backward()\n", ".backward()\n        optimizer.step()\n        optimizer.zero_grad()\n")),
        ("gradients cleared before the last step", "one_step_of_many",
         ("        (plain.loss", "        optimizer.zero_grad()\n        (plain.loss")),
    ),
    more=(
        ("gradients never cleared", "train_step", ("    optimizer.zero_grad()\n", "")),
        ("the vocabulary's size taken for the width", "train_step",
         ("model.target_embedding.weight.shape[1]", "model.target_embedding.weight.shape[0]")),
        ("the loss returned with its history", "train_step", ("value.item()", "value")),
        ("no gradients computed", "train_step", ("    value.backward()\n", "")),
        ("no weights moved", "train_step", ("    optimizer.step()\n", "")),
        ("moved before the gradients are computed", "train_step",
         ("    value.backward()\n    optimizer.step()\n", "    optimizer.step()\n    value.backward()\n")),
        ("gradients cleared before the move", "train_step",
         ("    optimizer.step()\n", "    optimizer.zero_grad()\n    optimizer.step()\n")),
        ("the rate never reaches the optimizer's `param_groups`", "train_step",
         ("    optimizer.param_groups[0][\"lr\"] = learning_rate(step, model.target_embedding.weight.shape[1], "
             "warmup)\n",
          "")),
        ("the warm-up not handed on", "train_step", ("weight.shape[1], warmup)", "weight.shape[1])")),
        ("steps counted one too far", "train_step", ("learning_rate(step,", "learning_rate(step + 1,")),
        ("Adam as PyTorch has it", "make_optimizer", (", betas=(0.9, 0.98), eps=1e-9", "")),
        ("the width as it is, without its root", "learning_rate", ("d**-0.5", "d**-1")),
    ),
)  # fmt: skip


def watch_search() -> dict[str, Any]:
    """What the model would write next, around the pronoun of each twin."""
    names = reference()
    model, lines = book().model(names), []
    with torch.no_grad():
        for row, word in enumerate(("tired", "wide")):
            memory, mask = model.encode(book().source[row : row + 1])
            target = book().ids(GERMAN[row][row])
            before = book().pieces(target[0].tolist()).index(("es", "sie")[row])
            chances = model.decode(target[:, :before], memory, mask)[0, -1].softmax(-1).topk(2)
            best = zip(book().pieces(chances.indices.tolist()), chances.values.tolist())
            lines.append([f"... too {word}", *(f"{piece} {chance:.3f}" for piece, chance in best)])
    return {"chances": table(["", "likeliest", "second"], *lines)}


SEARCH_STATION = station(
    "search", ("translate",), ("translate",), watch_search,
    (
        Case("translate", "a model that wants to write 9 and the end (3), for one source",
             lambda names: searched(names, [6, 8, 8])),
        Case("translate", "two sources: one wants 6 7 8 6 3, the other 9 3",
             lambda names: searched(names, [5, 8], [6, 8])),
        Case("translate", "the mode of a model in training, while it is asked and afterwards",
             lambda names: searched(names, [6, 8, 8], about="modes")),
        Case("translate", "the mode of a model in evaluation, while it is asked and afterwards",
             lambda names: searched(names, [6, 8, 8], training=False, about="modes")),
        Case("translate", "a source of 3 ids and a model that never ends its sentence, with extra = 3: what is written",
             lambda names: searched(names, [7, 8, 8], about="length", extra=3)),
        Case("translate", "a model that wants 9 and the end: how often it is asked",
             lambda names: searched(names, [6, 8, 8], about="steps")),
    ), translated,
    transfer=(
        Case("beam", "width 2; chances of the next word, of which next_scores returns the logarithms:\n"
             "first  a 0.6, b 0.4     after a  c 0.5, d 0.5     after b  c 0.9, d 0.1\n"
             "as third word  eos 0.9, c 0.1     as fourth  eos 1",
             lambda names: searched_by_beam(names, lambda words: TREE[len(words), words[:1]], 2)),
        Case("beam", "width 2; chances of the next word, of which next_scores returns the logarithms:\n"
             "first  eos 0.4, a 0.6     after a  eos 1",
             lambda names: searched_by_beam(names, lambda words: SHORT[words[:1]], 2)),
        Case("beam", "width 2; chances of the next word, of which next_scores returns the logarithms:\n"
             "first  eos 0.45, a 0.55     after a  eos 0.8, b 0.2",
             lambda names: searched_by_beam(names, lambda words: LATER[words[:1]], 2)),
        Case("beam", "width 1, the same scores as at first",
             lambda names: searched_by_beam(names, lambda words: TREE[len(words), words[:1]], 1)),
    ),
    moved=(
        ("the likeliest next word alone", "beam", ("[:width]", "[:1]")),
        ("the first sentence that ends", "beam",
         ("while kept and max(finished.values(), default=-math.inf) < max(kept.values())", "while not finished")),
        ("the last finished sentence", "beam",
         ("return max(finished, key=lambda words: finished[words])", "return [*finished][-1]")),
        ("the scores of the last word alone", "beam", ("sum_ + score", "score")),
        ("all that is longer kept", "beam",
         ('for words in best if words[-1] != "eos"', 'for words in longer if words[-1] != "eos"')),
    ),
    more=(
        ("the longest answer one id too short", "translate",
         ("target.shape[1] <= source.shape[1] + extra", "target.shape[1] < source.shape[1] + extra")),
    ),
)  # fmt: skip
STATIONS = (ATTENTION_STATION, MASKS_STATION, HEADS_STATION, LAYERS_STATION, ENDS_STATION, LOSS_STATION, STEP_STATION,
            SEARCH_STATION)  # fmt: skip
ALL = (EXAMPLE, *STATIONS)  # by number: the example, which is no station, is 0
