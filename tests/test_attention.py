"""Attention against loops and formulas, the block of heads, and the paper's claims about both (section 3.2)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from annotated.attention import MultiHeadAttention, scaled_dot_product_attention
from annotated.masks import causal_mask, padding_mask
from annotated.recurrent import AdditiveAttention
from tests.fused import FusedOnCPU

BLOCKS = [MultiHeadAttention, FusedOnCPU]  # the plain one and that of chapter 92


def double(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def loop(query: Tensor, key: Tensor, value: Tensor, score=None) -> tuple[Tensor, Tensor]:
    """Equation (1) for matrices, one number at a time; `score` replaces the scaled dot product."""
    score = score or (lambda q, k: sum(a * b for a, b in zip(q, k)) / math.sqrt(len(q)))
    output, weights = [], []
    for q in query.tolist():
        powers = [math.exp(score(q, k)) for k in key.tolist()]
        weights.append([power / sum(powers) for power in powers])
        output.append([sum(w * v for w, v in zip(weights[-1], column)) for column in zip(*value.tolist())])
    return torch.tensor(output, dtype=query.dtype), torch.tensor(weights, dtype=query.dtype)


def close(a: Tensor, b: Tensor, within: float = 1e-10) -> bool:
    return a.shape == b.shape and (a - b).abs().max().item() < within


# Scaled dot-product attention


@pytest.mark.parametrize(("queries", "keys", "d_k", "d_v"), [(3, 5, 4, 2), (1, 1, 1, 1), (6, 2, 3, 7)])
def test_attention_equals_a_naive_loop(queries, keys, d_k, d_v):
    """C-3.2.1-a to C-3.2.1-c: equation (1) for all queries at once; leading axes are problems of their own."""
    query, key, value = double(2, 3, queries, d_k), double(2, 3, keys, d_k), double(2, 3, keys, d_v)
    output, weights = scaled_dot_product_attention(query, key, value)
    for i in range(2):
        for j in range(3):
            expected = loop(query[i, j], key[i, j], value[i, j])
            assert close(output[i, j], expected[0])
            assert close(weights[i, j], expected[1])
    with pytest.raises(TypeError):
        scaled_dot_product_attention(query, double(2, 3, keys, d_k + 1), value)
    with pytest.raises(TypeError):
        scaled_dot_product_attention(query, key, double(2, 3, keys + 1, d_v))


def test_output_is_a_weighted_sum_of_the_values():
    """C-3.2-a to C-3.2-c: the weights are shares of 1 over the keys, not the queries, ordered as keys fit the query."""
    query, key, value = double(4, 8), double(7, 8), double(7, 3)
    output, weights = scaled_dot_product_attention(query, key, value)
    assert close(output[0], sum(weight * row for weight, row in zip(weights[0], value)))
    assert (weights > 0).all()
    assert close(weights.sum(dim=-1), torch.ones(4, dtype=torch.float64))
    assert (weights.sum(dim=-2) - 1).abs().min() > 1e-3
    assert torch.equal(weights.argsort(dim=-1), (query @ key.T).argsort(dim=-1))


def test_without_the_scale_it_is_dot_product_attention():
    """C-3.2.1-e: queries longer by sqrt(d_k) undo the division and leave plain dot products."""
    query, key, value = double(3, 9), double(4, 9), double(4, 2)
    plain = loop(query, key, value, score=lambda q, k: sum(a * b for a, b in zip(q, k)))
    assert close(scaled_dot_product_attention(query * 3, key, value)[0], plain[0])


def test_attention_is_equivariant_and_not_invariant():
    x, order = double(6, 4), torch.tensor([3, 0, 5, 1, 4, 2])
    before, after = (scaled_dot_product_attention(y, y, y)[0] for y in (x, x[order]))
    assert close(after, before[order])
    assert not close(after, before, within=1e-2)
    assert close(after.mean(dim=0), before.mean(dim=0))
    before, after = (scaled_dot_product_attention(y, y, y, causal_mask(6))[0] for y in (x, x[order]))
    assert not close(after, before[order], within=1e-2)


def test_weights_are_not_symmetric():
    """Different projections make different scores; and where scores are symmetric, each row has a sum of its own."""
    x, w_q, w_k = double(5, 6), double(6, 4), double(6, 4)
    for query, key in ((x @ w_q, x @ w_k), (x, x)):
        _, weights = scaled_dot_product_attention(query, key, x)
        assert not close(weights, weights.T, within=1e-2)
    assert close(x @ x.T, (x @ x.T).T)


def test_diagonal_need_not_win():
    """Equally long vectors prefer themselves; different lengths or different projections end that."""
    x = double(100, 8)
    unit = x / x.norm(dim=1, keepdim=True)

    def wins(query: Tensor, key: Tensor) -> int:
        _, weights = scaled_dot_product_attention(query, key, key)
        return (weights.argmax(dim=-1) == torch.arange(100)).sum().item()

    assert wins(unit, unit) == 100
    assert wins(x, x) < 90
    assert wins(x @ double(8, 8), x @ double(8, 8)) < 20


# Why divide by sqrt(d_k)


@pytest.mark.slow
@pytest.mark.parametrize("d_k", [4, 64])
def test_variance_of_the_dot_product_is_d_k(d_k):
    """C-3.2.1-j, C-3.2.1-k: mean 0 and variance d_k, and variance 1 after the division that the function makes."""
    query, key = double(1000, 1, d_k), double(1000, 32, d_k)
    scores = query @ key.mT
    assert abs(scores.mean().item()) < 0.05 * math.sqrt(d_k)
    assert scores.var().item() == pytest.approx(d_k, rel=0.05)
    _, weights = scaled_dot_product_attention(query, key, key)
    within_rows = weights.log().var(dim=-1).mean().item()  # a weight's logarithm is its score and a row's constant
    assert within_rows == pytest.approx(1, rel=0.08)


@pytest.mark.slow
def test_saturated_softmax_passes_little_gradient():
    """C-3.2.1-i, C-3.2.1-k: of the weights with respect to q.k, for which the scaled form has a further 1/sqrt(d_k).

    Without the scale the weakest rows lose their gradient first, at d_k = 1024 the median row as well; the mean over
    rows is larger than with it, since few rows have nearly all.
    """

    def gradients(d_k: int, scale: float) -> Tensor:
        weights = ((double(300, 1, d_k) @ double(300, d_k, 32))[:, 0] / scale).softmax(dim=-1)
        jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
        return jacobian.norm(dim=(1, 2)) / scale

    for d_k in (64, 1024):
        plain, scaled = gradients(d_k, 1.0), gradients(d_k, math.sqrt(d_k))
        assert plain.quantile(0.1) < 0.2 * scaled.quantile(0.1)
        assert scaled.quantile(0.1) > 0.8 * scaled.median()
        assert plain.mean() > 3 * scaled.mean()
    assert plain.median() < 0.1 * scaled.median()


def test_softmax_does_not_overflow_without_the_scale():
    """Scores of ten thousand are no danger to the weights; what is lost is the gradient."""
    scores = torch.tensor([10_000.0, 9_000.0, -10_000.0], requires_grad=True)
    weights = scores.softmax(dim=0)
    assert weights.isfinite().all()
    (gradient,) = torch.autograd.grad(weights[0], scores)
    assert gradient.abs().max() == 0


# Additive attention


def test_additive_attention_holds_a_hidden_vector_for_each_pair():
    """C-3.2.1-g: it holds d_hidden numbers for a pair, where the dot product holds one."""
    attention, seen = AdditiveAttention(16, 16, 8), []
    attention.score.register_forward_hook(lambda _, inputs, output: seen.append((inputs[0].shape, output.shape)))
    query, key = torch.randn(1, 10, 16), torch.randn(1, 12, 16)
    _, weights = attention(query, key, key)
    assert seen == [((1, 10, 12, 8), (1, 10, 12, 1))]
    assert scaled_dot_product_attention(query, key, key)[1].shape == weights.shape == (1, 10, 12)


RATES = {8: {"additive": 3, "unscaled": 0.3}, 64: {"additive": 1, "unscaled": 0.1}}


def learned(kind: str, d_k: int, rate: float) -> float:
    """The mean weight of the right keys after descent through the attention's output; a trial of chapter 32."""
    torch.manual_seed(1)
    asked, offered = double(2, 8, d_k)
    attention = AdditiveAttention(d_k, d_k, d_k).double()
    for parameter in attention.parameters():
        nn.init.normal_(parameter, std=d_k**-0.5)
    optimizer = torch.optim.SGD(attention.parameters(), lr=rate)
    for _ in range(100):
        value = double(8, 256)
        if kind == "additive":
            output, weights = attention(asked, offered, value)
        else:
            query = math.sqrt(d_k) * attention.query(asked)
            output, weights = scaled_dot_product_attention(query, attention.key(offered), value)
        optimizer.zero_grad()
        (output - value).square().mean().backward()
        optimizer.step()
    return weights.diagonal().mean().item()


@pytest.mark.slow
def test_additive_beats_unscaled_dot_products_only_when_wide():
    """C-3.2.1-h, C-3.2.1-i: each at a rate that suits it; only the wide unscaled dot product fails."""
    narrow, wide = ({kind: learned(kind, d_k, rate) for kind, rate in rates.items()} for d_k, rates in RATES.items())
    assert min(narrow.values()) > 0.7
    assert wide["unscaled"] < 0.6 < 0.9 < wide["additive"]


# Several heads


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_equals_a_loop_over_heads(kind, bias):
    """C-3.2.2-a to C-3.2.2-d, C-3.2.2-f: separate matrices for every head, in one pass and step by step."""
    d_model, num_heads, d_k, d_v = 12, 3, 5, 2
    w_q, w_k = double(2, num_heads, d_model, d_k)
    w_v, w_o = double(num_heads, d_model, d_v), double(num_heads * d_v, d_model)
    block = kind(d_model, num_heads, d_k, d_v, bias=bias).double()
    with torch.no_grad():
        for linear, matrices in ((block.query, w_q), (block.key, w_k), (block.value, w_v)):
            linear.weight.copy_(torch.cat(list(matrices), dim=1).T)
        block.output.weight.copy_(w_o.T)
    x, memory = double(2, 4, d_model), double(2, 6, d_model)
    b_q, b_k, b_v = (
        linear.bias.view(num_heads, 1, -1) if bias else double(num_heads, 1, 1) * 0
        for linear in (block.query, block.key, block.value)
    )
    expected = []
    for sentence, source in zip(x, memory):
        heads = [
            loop(sentence @ w_q[i] + b_q[i], source @ w_k[i] + b_k[i], source @ w_v[i] + b_v[i])[0]
            for i in range(num_heads)
        ]
        expected.append(torch.cat(heads, dim=1) @ w_o + (block.output.bias if bias else 0))
    assert close(block(x, memory), torch.stack(expected))
    mask = padding_mask(torch.tensor([[1, 1, 1, 1, 0, 0], [1] * 6]), 0)
    query, key, value = block.project(x, memory)
    assert (query.shape, key.shape, value.shape) == ((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 2))
    assert close(block.attend(query, key, value, mask), block(x, memory, mask))
    heads = block.weights(x, memory, mask) @ value  # the weights are those that make the output
    assert close(block(x, memory, mask), block.output(heads.transpose(1, 2).flatten(2)))
    assert not block.weights(x, memory, mask)[0, :, :, 4:].any()


def test_two_heads_tell_apart_what_one_head_averages():
    """C-3.2.2-d, C-3.2.2-e: two heads keep two positions apart; one that watches both cannot tell which was which."""
    two_heads = MultiHeadAttention(4, 2, d_k=2, d_v=2).double()
    one_head = MultiHeadAttention(4, 1, d_k=2, d_v=2).double()
    content, place = double(2, 2), torch.eye(2, dtype=torch.float64)
    asking = torch.tensor([[[0.0, 0.0, 1.0, 1.0]]], dtype=torch.float64)
    with torch.no_grad():
        for block in (two_heads, one_head):
            block.value.weight.zero_()
            for rows in block.value.weight.split(2):
                rows[:, :2] = torch.eye(2)  # values are the content
            block.key.weight.zero_()
            block.query.weight.zero_()
            for head, rows in enumerate(block.key.weight.split(2)):
                rows[:, 2:] = 50 * torch.eye(2)
                block.query.weight[2 * head, 2] = 1.0 if head == 0 else 0.0
                block.query.weight[2 * head + 1, 3] = 1.0 if head == 1 or block is one_head else 0.0
    one, other = (torch.cat([words, place], dim=1)[None] for words in (content, content.flip(0)))
    assert close(one_head(asking, one), one_head(asking, other))
    assert not close(two_heads(asking, one), two_heads(asking, other), within=1e-2)
    assert close(two_heads.weights(asking, one)[0, :, 0], torch.eye(2, dtype=torch.float64))


@pytest.mark.slow
def test_cost_does_not_depend_on_the_number_of_heads():
    """C-3.2.2-h: the same weights and the same multiplications for one wide head and many narrow ones."""
    costs = set()
    for num_heads in (1, 2, 8):
        block, x = MultiHeadAttention(64, num_heads), torch.randn(1, 10, 64)
        with FlopCounterMode(display=False) as counter:
            block(x, x)
        costs.add((sum(parameter.numel() for parameter in block.parameters()), counter.get_total_flops() // 2))
    assert costs == {(4 * 64**2, 4 * 10 * 64**2 + 2 * 10**2 * 64)}


@pytest.mark.parametrize("widths", [{}, {"d_k": 4}, {"d_v": 4}])
def test_widths_that_do_not_divide_are_refused_unless_given(widths):
    with pytest.raises(ValueError, match="no multiple of 3"):
        MultiHeadAttention(10, 3, **widths)
    x = torch.randn(2, 3, 10)
    assert MultiHeadAttention(10, 3, **{"d_k": 4, "d_v": 5} | widths)(x, x).shape == (2, 3, 10)


# Dropout of the weights


@pytest.mark.parametrize("kind", BLOCKS)
def test_dropout_zeroes_weights_and_scales_the_others_in_training(kind):
    """With the unit vectors as values a head's output is its dropped weights: each 0, or doubled at p = 0.5."""
    block = kind(16, 2, dropout=0.5)
    block.output = nn.Identity()
    query, key = torch.randn(2, 2, 40, 8), torch.randn(2, 2, 40, 8)
    value = torch.eye(40).expand(2, 2, 40, 40)
    _, weights = scaled_dot_product_attention(query, key, value)
    for training in (True, False):
        used = block.train(training).attend(query, key, value, None).unflatten(-1, (2, 40)).transpose(1, 2)
        kept = used != 0
        assert kept.float().mean().item() == pytest.approx(0.5 if training else 1.0, abs=0.05)
        assert close(used[kept], (2 if training else 1) * weights[kept], within=1e-5)
    assert kind(16, 2).dropout.p == 0


def test_returned_weights_are_not_dropped():
    query, key = double(3, 4), double(5, 4)
    output, weights = scaled_dot_product_attention(query, key, key, dropout=torch.zeros_like)
    assert not output.any()
    assert close(weights, scaled_dot_product_attention(query, key, key)[1])


# Three uses


def touched(block: MultiHeadAttention, x: Tensor, memory: Tensor | None, mask: Tensor | None = None) -> Tensor:
    """Which positions of the memory (or of `x` itself) each output depends on."""
    x = x.clone().requires_grad_()
    source = x if memory is None else memory.clone().requires_grad_()
    output = block(x, source, mask)
    rows = [torch.autograd.grad(row.square().sum(), source, retain_graph=True)[0][0] for row in output[0]]
    return torch.stack([(row != 0).any(dim=-1) for row in rows])


@pytest.mark.parametrize("kind", BLOCKS)
def test_three_uses_reach_what_they_should(kind):
    """C-3.2.3-a to C-3.2.3-e: all pairs in the encoder, none ahead in the decoder; across, the target asks."""
    block = kind(8, 2).double()
    source, target = double(1, 5, 8), double(1, 3, 8)
    assert touched(block, source, None).all()
    assert torch.equal(touched(block, target, None, causal_mask(3)), torch.ones(3, 3, dtype=torch.bool).tril())
    assert touched(block, target, source).all()
    assert close(block(target[:, 1:2], source), block(target, source)[:, 1:2])
