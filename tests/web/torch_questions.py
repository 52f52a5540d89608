"""Questions to a torch, with the same answers from PyTorch and from the small one of the page.

Run under both by tests/test_running.py: `answers()` gives for each question its value, or its error.
"""

import math
import random

import torch
from torch import nn
from torch.nn import functional as F


def plain(x):
    """What a question's answer is, in numbers and text."""
    if isinstance(x, torch.Tensor):
        numbers = x.detach().tolist()
        return [str(x.dtype), list(x.shape), numbers]
    if isinstance(x, (list, tuple)):
        return [plain(one) for one in x]
    return x if isinstance(x, (bool, int, float, str, type(None))) else repr(x)


def answer(question):
    try:
        return plain(question())
    except Exception as error:
        return [type(error).__name__, str(error).splitlines()[0] if str(error) else ""]


def numbers(draw, shape, kind=torch.float32):
    count = math.prod(shape)
    if kind == torch.bool:
        flat = [draw.random() < 0.5 for _ in range(count)]
    elif kind == torch.int64:
        flat = [draw.randint(-3, 4) for _ in range(count)]
    else:
        flat = [round(draw.uniform(-2, 2), 3) for _ in range(count)]
    return torch.tensor(flat, dtype=kind).reshape(shape)


def shapes(draw):
    """Two shapes: mostly such that fit by broadcasting, sometimes not."""
    whole = [draw.choice([1, 2, 3, 4]) for _ in range(draw.randint(0, 4))]
    one, other = ([size if draw.random() < 0.8 else 1 for size in whole] for _ in range(2))
    other = other[draw.randint(0, len(other)) :]
    if other and draw.random() < 0.15:
        other[draw.randrange(len(other))] += 1
    return (one, other) if draw.random() < 0.5 else (other, one)


def seen(draw, x):
    """One more look at the same numbers: a question as text, and what answers it."""
    axes = len(x.shape)
    if not axes:
        return lambda: x
    a, b = draw.randint(-axes - 1, axes), draw.randint(-axes, max(axes - 1, 0))
    return draw.choice(
        [
            lambda: x.transpose(a, b),
            lambda: x.permute(*draw.sample(range(axes), axes)),
            lambda: x.mT,
            lambda: x.unsqueeze(a),
            lambda: x.squeeze(b),
            lambda: x.flatten(a, b),
            lambda: x.flatten(1),
            lambda: x.unflatten(b, (2, -1)),
            lambda: x.view(-1, 2),
            lambda: x.reshape(2, -1),
            lambda: x[..., : draw.randint(-3, 3)],
            lambda: x[draw.randint(-3, 3)],
            lambda: x[:, None],
            lambda: x[..., ::2],
            lambda: x[[0, -1]],
            lambda: x[:, torch.tensor([[1], [0]])],
            lambda: x[x > 0],
            lambda: x.chunk(2, dim=b)[0],
            lambda: x.expand(2, *x.shape),
            lambda: x.movedim(a, b),
            lambda: x.diagonal(),
        ]
    )


def looks():
    draw = random.Random(1)
    for number in range(400):
        x = numbers(draw, [draw.choice([1, 2, 3, 4]) for _ in range(draw.randint(1, 4))])

        def question(x=x, number=number):
            draw, views = random.Random(number), x
            for _ in range(draw.randint(1, 4)):
                views = seen(draw, views)()
            kept = views.clone()
            views += 1  # in the same place, or in a copy: as PyTorch
            return kept, x

        yield f"look {number}", question


def pairs():
    draw = random.Random(2)
    names = ["add", "sub", "mul", "div", "eq", "lt", "ge", "maximum", "pow", "remainder", "floor_divide", "bitwise_and"]
    for number in range(400):
        one, other = shapes(draw)
        kinds = [draw.choice([torch.float32, torch.float64, torch.int64, torch.bool]) for _ in range(2)]
        name = draw.choice(names)
        if name in ("remainder", "floor_divide", "pow", "bitwise_and"):  # by 0, and of bits: left to PyTorch
            kinds = [torch.bool, torch.bool] if name == "bitwise_and" else [torch.float32, torch.float32]
        x, y = (numbers(draw, shape, kind) for shape, kind in zip((one, other), kinds))
        if name in ("remainder", "floor_divide", "div"):
            y = y.double().abs().float() + 0.3
        if name == "pow":
            x, y = x.abs() + 0.1, y.round()
        yield f"{name} {number}", lambda name=name, x=x, y=y: getattr(torch, name)(x, y)
    for number in range(60):
        x, scalar = (
            numbers(draw, shapes(draw)[0], draw.choice([torch.float32, torch.int64, torch.bool])),
            draw.choice([2, 0.5, True]),
        )
        yield f"scalar {number}", lambda x=x, s=scalar: (x + s, s * x, x == s, x < s)
        yield f"minus {number}", lambda x=x, s=scalar: s - x


def products():
    draw = random.Random(3)
    for number in range(150):
        batch = [draw.choice([1, 2, 3]) for _ in range(draw.randint(0, 2))]
        n, k, m = (draw.randint(1, 6) for _ in range(3))
        one, other = [*batch, n, k], [*batch[draw.randint(0, len(batch)) :], k, m]
        if draw.random() < 0.2:
            other[-2] += 1
        if draw.random() < 0.2:
            one = [k]
        if draw.random() < 0.2:
            other = [k + draw.randint(0, 1)]
        x, y = numbers(draw, one), numbers(draw, other, torch.float64 if draw.random() < 0.05 else torch.float32)
        yield f"product {number}", lambda x=x, y=y: x @ y
        yield f"turned {number}", lambda x=x: x.mT @ x


def reductions():
    draw = random.Random(4)
    for number in range(200):
        kind = draw.choice([torch.float32, torch.int64, torch.bool])
        x = numbers(draw, [draw.randint(1, 4) for _ in range(draw.randint(0, 4))], kind)
        dim, keep = draw.choice([-2, -1, 0, 1, (0, 1)]), draw.random() < 0.5
        name = draw.choice(["sum", "mean", "amax", "amin", "any", "all"])
        yield f"{name} {number}", lambda x=x, n=name, d=dim, k=keep: getattr(x, n)(dim=d, keepdim=k)
        yield f"{name} of all {number}", lambda x=x, n=name: getattr(x, n)()
    for number in range(60):
        x = numbers(draw, [draw.randint(2, 4) for _ in range(draw.randint(1, 3))])
        dim = draw.choice([-1, 0, 1, 2])
        yield f"rows {number}", lambda x=x, d=dim: (
            x.softmax(d), x.log_softmax(d), x.cumsum(d), x.argmax(d), x.max(d), x.std(d), x.var(d), x.logsumexp(d),
            x.sort(d), x.topk(2, d), x.norm(dim=d),
        )  # fmt: skip


SINGLE = "abs ceil cos erf exp floor isfinite log neg relu round rsqrt sigmoid sign sin sqrt square tanh trunc"


def single():
    x = torch.tensor([[1.5, -2.0, 0.25], [0.0, 3.0, -0.5]])
    whole, mask = torch.arange(6).view(2, 3), torch.tensor([[True, False, True], [False, False, True]])
    for name in SINGLE.split():
        yield name, lambda name=name: getattr(torch, name)(x.abs() + 0.5)
    yield "masked_fill", lambda: x.masked_fill(mask, -math.inf).softmax(-1)
    yield "masked_fill of a wrong kind", lambda: x.masked_fill(whole, 0)
    yield "masked_fill of a wrong size", lambda: x.masked_fill(mask[:, :2], 0)
    yield "invert", lambda: (~mask, ~whole, ~x)
    yield "truth", lambda: bool(x)
    yield "one number", lambda: (x[0, 0].item(), float(x[1, 1]), int(whole[1, 1]), x.item())
    yield "triangles", lambda: (torch.ones(3, 3).tril(), torch.ones(2, 3, 3).triu(1), mask.tril())
    yield "where", lambda: torch.where(mask, x, torch.tensor(0.0))
    yield "cat", lambda: (torch.cat([x, x]), torch.cat([x, x], dim=-1), torch.stack([x, x], -1))
    yield "cat of wrong sizes", lambda: torch.cat([x, x[:, :2]])
    yield "stack of wrong sizes", lambda: torch.stack([x, x[:, :2]])
    yield "ragged", lambda: torch.tensor([[1, 2], [3]])
    yield "places", lambda: (mask.nonzero(), whole[mask], x[:, [0, 2]], x[[1], :], x.gather(1, whole[:, :2] % 3))
    yield "a place that is not there", lambda: x[2]
    yield "places that are not there", lambda: x[:, torch.tensor([3])]
    yield "too many places", lambda: x[0, 0, 0]
    yield "a mask of a wrong size", lambda: x[torch.tensor([True, False, True])]
    yield (
        "written",
        lambda: [
            str(one)
            for one in (
                x,
                whole,
                mask,
                x[0, 0],
                x * 1e6,
                x.double(),
                torch.zeros(2, 0),
                torch.arange(1200),
                x[None, None],
            )
        ],
    )
    yield "formats", lambda: (f"{x[0, 0]:.3f}", f"{whole[1, 2]:4}", f"{x[0, 0]}")
    yield (
        "made",
        lambda: (
            torch.zeros(2, 2),
            torch.full((2,), 3),
            torch.eye(2),
            torch.arange(1, 2, 0.25),
            torch.linspace(0, 1, 3),
            torch.ones_like(whole),
            x.new_ones(2),
        ),
    )
    yield (
        "einsum",
        lambda: (
            torch.einsum("ij,kj->ik", x, x),
            torch.einsum("ij,ij->", x, x),
            torch.einsum("bij,bjk->bik", x[None], x.T[None]),
        ),
    )
    yield "blocks", lambda: torch.block_diag(x, x[:, :1])
    yield "hooks", lambda: hooked(x)
    yield "written in place", lambda: written_in_place()
    for seed in (0, 1, 2**31):
        yield f"drawn by {seed}", lambda seed=seed: drawn(seed)
    yield (
        "relu and others",
        lambda: (F.relu(x), F.gelu(x), F.silu(x), F.one_hot(whole), F.softmax(x, -1), F.gelu(x, approximate="tanh")),
    )
    yield "embedding", lambda: (F.embedding(whole % 2, x), F.embedding(whole, x))
    yield "embedding with a token that is not there", lambda: F.embedding(whole, x)
    yield "norm", lambda: F.layer_norm(x, (3,), torch.ones(3) * 2, torch.ones(3))
    yield "norm of a wrong size", lambda: F.layer_norm(x, (4,))
    yield (
        "surprise",
        lambda: (
            F.cross_entropy(x, torch.tensor([1, 2])),
            F.cross_entropy(x, torch.tensor([1, 0]), ignore_index=0, label_smoothing=0.1),
        ),
    )
    yield "attention", lambda: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)
    yield "linear of a wrong size", lambda: nn.Linear(4, 2)(x)
    yield "modules", lambda: modules()
    yield "weights of other sizes", lambda: nn.Linear(2, 3).load_state_dict(nn.Linear(3, 3).state_dict())
    yield (
        "weights that lack",
        lambda: nn.Linear(2, 3).load_state_dict({"weight": torch.zeros(3, 2), "other": torch.zeros(1)}),
    )
    yield "of another kind", lambda: other_kinds()
    yield "in place, of another kind", lambda: whole.__iadd__(0.5)
    yield "dropped", lambda: (F.dropout(x, 1.0), F.dropout(x, 0.5, training=False), F.dropout(x, 0.0))
    yield "heard", lambda: heard()
    yield "no init", lambda: NoInit(1)
    yield "no forward", lambda: nn.Module()(1)
    yield "no part", lambda: nn.Module().part


def written_in_place():
    x = torch.zeros(3, 4)
    x[1] = 1
    x[:, ::2] += 2
    x[x > 2] = 9
    x[[0, 2], 1] = torch.tensor([5.0, 6.0])
    x.T[3].fill_(-1)
    x[..., 0].mul_(3)
    other = x.clone()
    other.zero_()
    return x, other


def hooked(x):
    seen, module = [], nn.Identity()
    before = module.register_forward_pre_hook(lambda module, given: given[0] + 1)
    after = module.register_forward_hook(lambda module, given, found: seen.append(given[0]))
    with module.register_forward_hook(lambda module, given, found: found * 2):
        inside = module(x)
    before.remove()
    outside = module(x)
    after.remove()
    return inside, outside, module(x), seen


def drawn(seed):
    torch.manual_seed(seed)
    kinds = (
        torch.randn(3),
        torch.rand(4),
        torch.randn(17),
        torch.randint(-2, 9, (7,)),
        torch.randperm(9),
        torch.randn(2, 9),
    )
    generator = torch.Generator().manual_seed(seed + 1)
    doubles = torch.randn(20, generator=generator, dtype=torch.float64), torch.rand(2, generator=generator)
    with torch.random.fork_rng(devices=[]):
        torch.rand(3)
    return kinds, doubles, nn.Linear(3, 2).weight, nn.init.xavier_uniform_(torch.empty(3, 5)), torch.randn(5)


def other_kinds():
    x = torch.tensor([1, 2])
    x[0] = 1.5
    tied = Twice()
    tied.double()
    return (
        x * 2,
        torch.full((2,), 2, dtype=torch.bool),
        tied.shared.weight is tied.parts[0].weight,
        torch.tensor([3.0, -4.0]).norm(p=math.inf),
    )


def heard():
    twice, said = Twice(), []
    twice.parts[0].register_forward_pre_hook(lambda part, given: said.append(given[0]))
    with twice.parts[1].register_forward_hook(lambda part, given, found: found * 0):
        nothing = twice(torch.ones(1, 3))
    return said, nothing, (twice(torch.ones(1, 3)) == nothing).all()


class NoInit(nn.Module):
    def __init__(self, size):
        self.part = nn.Linear(size, size)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(3, 3, bias=False), nn.LayerNorm(3)])
        self.shared = self.parts[0]
        self.register_buffer("table", torch.ones(3), persistent=False)
        self.free = nn.Parameter(torch.zeros(2))
        self.none = None

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x + self.table


def modules():
    torch.manual_seed(3)
    twice = Twice().eval()
    names = (
        [name for name, _ in twice.named_parameters()],
        [*twice.state_dict()],
        [name for name, _ in twice.named_modules()],
    )
    other = Twice()
    other.load_state_dict(twice.state_dict())
    x = torch.ones(2, 3)
    count = sum(one.numel() for one in twice.parameters())
    return (
        names,
        twice(x),
        (other(x) == twice(x)).all(),
        count,
        repr(twice),
        twice.parts[0].training,
        twice.double()(x.double()),
    )


def answers():
    groups = looks(), pairs(), products(), reductions(), single()
    return {name: answer(question) for group in groups for name, question in group}
