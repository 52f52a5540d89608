"""What is seen of a model from inside (chapter 82): products, factors, axes, and where numbers come from.

Masks and parameters that nobody names are asked for by the mistakes of test_mistakes.py.
"""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from annotated.doctor.watching import Watch


class Projected(nn.Module):
    """Queries, keys and values of width 6, from vectors of width 10."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(10, 6, bias=False) for _ in range(3))

    def forward(self, x, y, attend):
        return attend(self.query(x), self.key(y), self.value(y))


FORMS = {
    "divided": lambda q, k, v: (q @ k.mT / math.sqrt(6)).softmax(-1) @ v,
    "multiplied before": lambda q, k, v: (q * 6**-0.5 @ k.mT).softmax(-1) @ v,
    "both by the root of the root": lambda q, k, v: ((q * 6**-0.25) @ (k * 6**-0.25).mT).softmax(-1) @ v,
    "by a tensor": lambda q, k, v: (q @ k.mT / torch.tensor(6.0).sqrt()).softmax(-1) @ v,
    "einsum": lambda q, k, v: torch.einsum(
        "bqk,bkd->bqd", (torch.einsum("bqd,bkd->bqk", q, k) * 6**-0.5).softmax(-1), v
    ),
    "baddbmm": lambda q, k, v: torch.baddbmm(torch.zeros(1), q * 6**-0.5, k.mT).softmax(-1) @ v,
    "masked": lambda q, k, v: (q @ k.mT / 6**0.5).masked_fill(torch.eye(3, 4).bool(), -1e9).softmax(-1) @ v,
    "biased": lambda q, k, v: (q @ k.mT / 6**0.5 + torch.ones(3, 4)).softmax(-1) @ v,
    "PyTorch's": lambda q, k, v: F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None]),
    "over the queries": lambda q, k, v: (q @ k.mT / 6**0.5).softmax(-2) @ v,
    "cut": lambda q, k, v: ((q @ k.mT / 6**0.5).softmax(-1) * torch.eye(3, 4)) @ v,
}


@pytest.mark.parametrize("form", FORMS)
def test_an_attention_is_seen_however_it_is_written(form):
    model = Projected()
    with Watch(model) as watch, nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        model(torch.randn(2, 3, 10), torch.randn(2, 4, 10), FORMS[form])
    (one,) = watch.attentions
    assert one.shape == (3, 4)
    assert (one.scores.inner, one.scores.width, one.scores.by) == (6, 10, "query.weight")
    assert one.scores.factor == pytest.approx(6**-0.5)
    assert one.scores.axis == (-2 if form == "over the queries" else -1)
    assert one.scores.cut == (form == "cut")
    assert (one.off > 0.01) == (form in ("over the queries", "cut"))


NORMS = {  # forms of a norm, whether a mean is taken away, and what is added to the deviation
    "PyTorch's": (lambda x, g: F.layer_norm(x, (6,), g), True, 0),
    "the variance": (lambda x, g: g * (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + 1e-6).sqrt(), True, 0),
    "a deviation and a shift": (lambda x, g: g * (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + 1e-3), True, 1e-3),
    "the inverse": (lambda x, g: (c := x - x.mean(-1, True)) * c.pow(2).mean(-1, True).rsqrt() * g, True, 0),
    "einsum": (
        lambda x, g: (c := x - x.mean(-1, True)) / torch.einsum("bnd,bnd->bn", c, c)[..., None].sqrt() * g, True, 0),
    "the square of the mean": (
        lambda x, g: (x - (m := x.mean(-1, True))) / (x.square().mean(-1, True) - m * m).sqrt() * g, True, 0),
    "both at once": (lambda x, g: (x - (v := torch.var_mean(x, -1, keepdim=True))[1]) / v[0].sqrt() * g, True, 0),
    "in rows": (lambda x, g: ((y := x.view(6, 6)) - y.mean(1, True)) / y.std(1, keepdim=True) * g, True, 0),
    "root mean square": (lambda x, g: g * x * x.pow(2).mean(-1, True).add(1e-6).rsqrt(), False, 0),
    "unit length": (lambda x, g: F.normalize(x, dim=-1) * 6**0.5 * g, False, 0),
}  # fmt: skip


@pytest.mark.parametrize("form", NORMS)
def test_a_norm_is_seen_however_it_is_written(form):
    """One, of the sum of words and what a layer returned, over the last axis, with its gain."""
    table, ids, gain = nn.Embedding(9, 6), torch.tensor([[1, 3, 2], [4, 6, 5]]), nn.Parameter(torch.ones(6))
    compute, centred, shift = NORMS[form]
    with Watch(table, ids) as watch:
        x = table(ids)
        compute(x + x @ nn.Parameter(torch.eye(6)), gain)
    (one,) = watch.norms
    assert (one.centred, one.shift, one.over, one.gain_size, one.new) == (centred, shift, ((-1, 6),), 6, True)
    assert one.parts == {"words", "projected 1"}
    assert "root" in one.steps


@pytest.mark.parametrize(("combine", "how"), [
    (torch.add, "added"), (torch.mul, "multiplied"), (lambda a, b: torch.cat([a, b.expand_as(a)], -1), "appended"),
])  # fmt: skip
def test_how_positions_meet_words(combine, how):
    table, ids = nn.Embedding(9, 4), torch.tensor([[1, 3, 2]])
    with Watch(table, ids) as watch:
        combine(table(ids) * 2, torch.ones(3, 4))
    (one,) = watch.ends
    assert (one.how, one.words.factor, one.words.inner, one.length) == (how, 2.0, 4, 3)
