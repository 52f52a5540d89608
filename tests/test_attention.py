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
    """C-3.2.1-b, C-3.2.1-c: equation (1) for all queries at once is the sum over keys, query by query."""
    query, key, value = double(queries, d_k), double(keys, d_k), double(keys, d_v)
    output, weights = scaled_dot_product_attention(query, key, value)
    by_loop = loop(query, key, value)
    assert close(output, by_loop[0])
    assert close(weights, by_loop[1])


def test_leading_axes_are_separate_problems():
    query, key, value = double(2, 3, 4, 5), double(2, 3, 6, 5), double(2, 3, 6, 2)
    output, weights = scaled_dot_product_attention(query, key, value)
    for i in range(2):
        for j in range(3):
            expected = loop(query[i, j], key[i, j], value[i, j])
            assert close(output[i, j], expected[0])
            assert close(weights[i, j], expected[1])


def test_output_is_a_weighted_sum_of_the_values():
    """C-3.2-a, C-3.2-b: one query and its pairs give one vector, a sum of values whose weights are shares of 1."""
    query, key, value = double(1, 4), double(5, 4), double(5, 3)
    output, weights = scaled_dot_product_attention(query, key, value)
    assert close(output[0], sum(weight * row for weight, row in zip(weights[0], value)))
    assert (weights > 0).all()
    doubled, _ = scaled_dot_product_attention(query, key, 2 * value)
    assert close(doubled, 2 * output)


def test_weights_sum_to_one_over_keys_not_queries():
    _, weights = scaled_dot_product_attention(double(4, 3), double(6, 3), double(6, 2))
    assert close(weights.sum(dim=-1), torch.ones(4, dtype=torch.float64))
    assert (weights.sum(dim=-2) - 1).abs().min() > 1e-3


def test_better_fitting_key_weighs_more():
    """C-3.2-c: weights are ordered as the fits of keys to query are."""
    query, key = double(3, 8), double(7, 8)
    _, weights = scaled_dot_product_attention(query, key, key)
    assert torch.equal(weights.argsort(dim=-1), (query @ key.T).argsort(dim=-1))


def test_queries_and_keys_share_a_width_values_need_not():
    """C-3.2.1-a: d_k belongs to queries and keys, d_v to values and outputs."""
    output, _ = scaled_dot_product_attention(double(2, 5), double(3, 5), double(3, 9))
    assert output.shape == (2, 9)
    with pytest.raises(TypeError):
        scaled_dot_product_attention(double(2, 5), double(3, 4), double(3, 9))
    with pytest.raises(TypeError):
        scaled_dot_product_attention(double(2, 5), double(3, 5), double(4, 9))


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


def test_causal_mask_breaks_equivariance():
    x, order = double(6, 4), torch.tensor([3, 0, 5, 1, 4, 2])
    before, after = (scaled_dot_product_attention(y, y, y, causal_mask(6))[0] for y in (x, x[order]))
    assert not close(after, before[order], within=1e-2)


def test_order_of_keys_does_not_matter():
    query, key, value, order = double(2, 4), double(5, 4), double(5, 3), torch.tensor([4, 2, 0, 3, 1])
    output, _ = scaled_dot_product_attention(query, key, value)
    assert close(scaled_dot_product_attention(query, key[order], value[order])[0], output)


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


def random_scores(d_k: int, rows: int = 1000, keys: int = 32) -> Tensor:
    return (double(rows, 1, d_k) @ double(rows, d_k, keys)).squeeze(1)


@pytest.mark.slow
@pytest.mark.parametrize("d_k", [4, 64, 512])
def test_variance_of_the_dot_product_is_d_k(d_k):
    """C-3.2.1-j, C-3.2.1-k: mean 0 and variance d_k, and variance 1 after the division that the function makes."""
    scores = random_scores(d_k)
    assert abs(scores.mean().item()) < 0.05 * math.sqrt(d_k)
    assert scores.var().item() == pytest.approx(d_k, rel=0.05)
    query, key = double(1000, 1, d_k), double(1000, 32, d_k)
    _, weights = scaled_dot_product_attention(query, key, key)
    within_rows = weights.log().var(dim=-1).mean().item()  # a weight's logarithm is its score and a row's constant
    assert within_rows == pytest.approx(1, rel=0.08)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("d_k", "scale", "entropy", "largest"),
    [(64, 1.0, 0.47, 0.83), (512, 1.0, 0.15, 0.94), (64, 8.0, 3.01, 0.165), (512, math.sqrt(512), 3.01, 0.165)],
)
def test_wide_dot_products_saturate_the_softmax(d_k, scale, entropy, largest):
    """C-3.2.1-i: mean entropy and mean largest weight over 32 keys, as simulated independently."""
    key, query = double(1000, 32, d_k), double(1000, 1, d_k) * math.sqrt(d_k) / scale
    _, weights = scaled_dot_product_attention(query, key, key)
    assert torch.special.entr(weights).sum(dim=-1).mean().item() == pytest.approx(entropy, abs=0.05)
    assert weights.amax(dim=-1).mean().item() == pytest.approx(largest, abs=0.02)


@pytest.mark.slow
def test_saturated_softmax_passes_little_gradient():
    """C-3.2.1-i, C-3.2.1-k: of the weights with respect to q.k, for which the scaled form has a further 1/sqrt(d_k).

    Without the scale the weakest rows lose their gradient first, at d_k = 1024 the median row as well; the mean over
    rows is larger than with it, since few rows have nearly all.
    """

    def gradients(d_k: int, scale: float) -> Tensor:
        weights = (random_scores(d_k) / scale).softmax(dim=-1)
        jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None, :]
        scores = random_scores(d_k, rows=1)[0].requires_grad_()
        derived = torch.autograd.functional.jacobian(lambda s: (s / scale).softmax(dim=-1), scores)
        w = (scores / scale).softmax(dim=-1)
        assert close(derived, (torch.diag(w) - torch.outer(w, w)) / scale)
        return jacobian.norm(dim=(1, 2)) / scale

    for d_k in (64, 1024):
        plain, scaled = gradients(d_k, 1.0), gradients(d_k, math.sqrt(d_k))
        assert plain.quantile(0.1) < 0.2 * scaled.quantile(0.1)
        assert scaled.quantile(0.1) > 0.8 * scaled.median()
        assert plain.mean() > 3 * scaled.mean()
    assert plain.median() < 0.1 * scaled.median()


def test_scores_are_divided_by_the_root_of_d_k():
    """Not of d_model: at d_k = 64 a division by 8 gives variance 1, and one by sqrt(512) makes the scores too small."""
    query, key = double(500, 64), double(500, 64)
    _, weights = scaled_dot_product_attention(query, key, key)
    scores = query @ key.T
    assert close(weights, (scores / 8).softmax(dim=-1))
    assert not close(weights, (scores / math.sqrt(512)).softmax(dim=-1), within=1e-3)
    assert (scores / 8).var().item() == pytest.approx(1, abs=0.1)
    assert (scores / math.sqrt(512)).var().item() == pytest.approx(1 / 8, abs=0.02)


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


def learned_weights(kind: str, d_k: int, rate: float, seed: int, steps: int = 100) -> tuple[Tensor, Tensor]:
    """Weights of the right keys before and after descent through the attention's output; the chapter's trial."""
    torch.manual_seed(seed)
    asked, offered = double(2, 8, d_k)
    attention = AdditiveAttention(d_k, d_k, d_k).double()
    for parameter in attention.parameters():
        nn.init.normal_(parameter, std=d_k**-0.5)
    optimizer = torch.optim.SGD(attention.parameters(), lr=rate)
    history = []
    for _ in range(steps):
        value = double(8, 256)
        if kind == "additive":
            output, weights = attention(asked, offered, value)
        else:
            query = attention.query(asked) * (math.sqrt(d_k) if kind == "unscaled" else 1)
            output, weights = scaled_dot_product_attention(query, attention.key(offered), value)
        history.append(weights.diagonal().detach())
        optimizer.zero_grad()
        (output - value).square().mean().backward()
        optimizer.step()
    return history[0], history[-1]


@pytest.mark.slow
def test_additive_beats_unscaled_dot_products_only_when_wide():
    """C-3.2.1-h, C-3.2.1-i: only the wide unscaled dot product fails, where the right keys began with no weight."""

    def best(kind: str, d_k: int, *rates: float) -> tuple[Tensor, Tensor]:
        runs = [[learned_weights(kind, d_k, rate, seed) for seed in range(3)] for rate in rates]
        began, ended = max(
            ((torch.cat(a), torch.cat(b)) for a, b in (zip(*run) for run in runs)), key=lambda run: run[1].mean()
        )
        return began, ended

    for kind in ("additive", "unscaled"):
        assert best(kind, 8, 0.3, 1, 3)[1].mean() > 0.75
    for kind in ("additive", "scaled"):
        began, ended = best(kind, 64, 0.3, 1)
        assert began.min() > 1e-6
        assert ended.mean() > 0.9
    began, ended = best("unscaled", 64, 0.003, 0.01, 0.03, 0.1)
    assert ended.mean() < 0.6
    lost = began < 1e-6
    assert lost.sum() > 5
    assert (ended[lost] > 0.5).sum() <= 1


# Several heads


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_equals_a_loop_over_heads(kind, bias):
    """C-3.2.2-a, C-3.2.2-b, C-3.2.2-c, C-3.2.2-f: the formula with separate matrices for every head."""
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


def test_queries_keys_and_values_are_not_the_input():
    """Three different projections of it, three for each head."""
    block, x = MultiHeadAttention(12, 3).double(), double(1, 4, 12)
    projected = [head for part in block.project(x, x) for head in part[0]]
    pieces = list(x[0].split(4, dim=1))
    assert len(projected) == 9
    for i, one in enumerate(projected):
        assert all(not close(one, other, within=1e-2) for other in pieces + projected[:i])


def test_every_head_sees_all_positions_and_the_whole_vector():
    """C-3.2.2-d: each head has weights of its own over all keys, and reads every column of the input."""
    block = MultiHeadAttention(12, 3).double()
    x, memory = double(1, 4, 12).requires_grad_(), double(1, 5, 12)
    weights = block.weights(x, memory)
    assert weights.shape == (1, 3, 4, 5)
    assert (weights > 0).all()
    assert close(weights.sum(dim=-1), torch.ones(1, 3, 4, dtype=torch.float64))
    for i in range(3):
        for j in range(i):
            assert not close(weights[:, i], weights[:, j], within=1e-3)
        (gradient,) = torch.autograd.grad(block.split_heads(block.query(x))[0, i, 2].sum(), x)
        assert (gradient[0, 2] != 0).all()
        assert not gradient[0, :2].any()


def test_heads_are_not_averaged():
    """Each head enters through rows of W^O of its own; the mean of the heads would give another output."""
    block, x = MultiHeadAttention(12, 3).double(), double(1, 4, 12)
    heads = [scaled_dot_product_attention(*parts)[0] for parts in zip(*(part[0] for part in block.project(x, x)))]
    rows = block.output.weight.T.split(4)
    assert close(block(x, x)[0], sum(head @ own for head, own in zip(heads, rows)))
    assert not close(block(x, x)[0], (sum(heads) / 3).repeat(1, 3) @ block.output.weight.T, within=1e-2)


def test_weights_are_those_that_make_the_output():
    block = MultiHeadAttention(12, 3, d_k=2, d_v=5).double()
    x, memory = double(2, 4, 12), double(2, 6, 12)
    mask = padding_mask(torch.tensor([[1, 1, 1, 1, 0, 0], [1] * 6]), 0)
    heads = block.weights(x, memory, mask) @ block.project(x, memory)[2]
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


def test_base_model_has_eight_heads_of_width_64():
    """C-3.2.2-g, and 4 d_model^2 weights."""
    block = MultiHeadAttention(512, 8)
    assert (block.num_heads, block.d_k, block.d_v) == (8, 64, 64)
    assert sum(parameter.numel() for parameter in block.parameters()) == 4 * 512**2 == 1_048_576


def test_biases_are_off_by_default():
    assert [name for name, _ in MultiHeadAttention(8, 2).named_parameters() if "bias" in name] == []
    biased = MultiHeadAttention(8, 2, d_k=3, d_v=5, bias=True)
    assert sum(parameter.numel() for parameter in biased.parameters()) == 8 * (6 + 6 + 10 + 10) + 6 + 6 + 10 + 8


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


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((10, 3), {}, "no multiple of 3"),
        ((10, 3, 4), {}, "no multiple of 3"),
        ((10, 3), {"d_v": 4}, "no multiple of 3"),
        ((8, 2), {"dropout": 1.1}, "dropout"),
        ((8, 2), {"dropout": -0.1}, "dropout"),
    ],
)
def test_bad_sizes_and_options_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(*arguments, **options)


def test_given_widths_need_no_multiple():
    x = torch.randn(2, 3, 10)
    assert MultiHeadAttention(10, 3, d_k=4, d_v=5)(x, x).shape == (2, 3, 10)


# Dropout of the weights


@pytest.mark.parametrize("kind", BLOCKS)
def test_weights_are_dropped_only_in_training(kind):
    block, plain = kind(8, 2, dropout=0.5), kind(8, 2)
    plain.load_state_dict(block.state_dict())
    x = torch.randn(2, 5, 8)
    block.train()
    assert not torch.equal(block(x, x), block(x, x))
    block.eval()
    assert torch.equal(block(x, x), block(x, x))
    plain.train()  # dropout is off by default
    assert close(block(x, x), plain(x, x), within=1e-6)


@pytest.mark.parametrize("kind", BLOCKS)
def test_dropout_zeroes_weights_and_scales_the_others(kind):
    """With the unit vectors as values a head's output is its dropped weights: each 0, or doubled at p = 0.5."""
    block = kind(16, 2, dropout=0.5).train()
    block.output = nn.Identity()
    query, key = torch.randn(2, 2, 40, 8), torch.randn(2, 2, 40, 8)
    value = torch.eye(40).expand(2, 2, 40, 40)
    _, weights = scaled_dot_product_attention(query, key, value)
    dropped = block.attend(query, key, value, None).unflatten(-1, (2, 40)).transpose(1, 2)
    kept = dropped != 0
    assert kept.float().mean().item() == pytest.approx(0.5, abs=0.05)
    assert close(dropped[kept], 2 * weights[kept], within=1e-5)


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
    """C-3.2.3-a to C-3.2.3-e: all pairs in the encoder, none ahead in the decoder, all source positions across."""
    block = kind(8, 2).double()
    source, target = double(1, 5, 8), double(1, 3, 8)
    assert touched(block, source, None).all()
    assert torch.equal(touched(block, target, None, causal_mask(3)), torch.ones(3, 3, dtype=torch.bool).tril())
    assert touched(block, target, source).all()


def test_in_cross_attention_the_decoder_asks():
    """C-3.2.3-b: one output for each query, and nothing but keys and values from the memory."""
    block = MultiHeadAttention(8, 2).double()
    target, source = double(1, 3, 8), double(1, 5, 8)
    assert block.weights(target, source).shape == (1, 2, 3, 5)
    assert block(target, source).shape == (1, 3, 8)
    assert close(block(target[:, 1:2], source), block(target, source)[:, 1:2])


@pytest.mark.parametrize("kind", BLOCKS)
def test_attending_to_projections_is_the_whole(kind):
    """What step-by-step decoding takes apart: queries of `x`, keys and values of `memory`, then all the rest."""
    block, x, memory = kind(8, 2, d_k=3, d_v=5).double(), double(2, 3, 8), double(2, 4, 8)
    mask = padding_mask(torch.tensor([[1, 1, 1, 0], [1] * 4]), 0)
    query, key, value = block.project(x, memory)
    assert (query.shape, key.shape, value.shape) == ((2, 2, 3, 3), (2, 2, 4, 3), (2, 2, 4, 5))
    assert close(query, block.split_heads(block.query(x)))
    assert close(block.attend(query, key, value, mask), block(x, memory, mask))
