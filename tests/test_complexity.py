"""Counting arithmetic, chains and paths of layers (chapter 40; section 4, table 1)."""

import math
from itertools import product

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from annotated.attention import scaled_dot_product_attention
from annotated.complexity import (
    ConvolutionalLayer,
    RecurrentLayer,
    RestrictedAttentionLayer,
    SelfAttentionLayer,
    count_flops,
    exponent,
    layers_to_connect,
    saved_bytes,
    sequential_steps,
)


def test_exponent_is_the_slope_of_a_power_law():
    assert exponent([2, 8, 32], [3 * size**1.5 for size in (2, 8, 32)]) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("build", "formula"),
    [
        (lambda d: SelfAttentionLayer(), lambda n, d: 4 * n * n * d),  # C-4-d
        (RecurrentLayer, lambda n, d: 4 * n * d * d),  # C-4-e
        (lambda d: ConvolutionalLayer(d, 5), lambda n, d: 2 * 5 * n * d * d),  # C-4-f
        (lambda d: RestrictedAttentionLayer(9), lambda n, d: 4 * 9 * n * d),  # C-4-g
        (lambda d: ConvolutionalLayer(d, 5, separable=True), lambda n, d: 2 * 5 * n * d + 2 * n * d * d),  # C-4-k
    ],
)
@pytest.mark.parametrize(("n", "d"), [(7, 4), (16, 12)])
def test_counted_arithmetic_is_the_tables(build, formula, n: int, d: int):
    assert count_flops(build(d), n, d) == formula(n, d)


@pytest.mark.parametrize(
    ("cell", "border"), [(nn.RNNCell, 0), (nn.GRUCell, 16), (nn.LSTMCell, 32)], ids=["tanh", "GRU", "LSTM"]
)
def test_with_its_projections_it_depends_on_the_rival(cell: type[nn.Module], border: int):
    """C-4-h, M-26: less than a GRU below its width, less than an LSTM below twice its width, never less than tanh."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        cell(16, 16)(torch.randn(1, 16))
    for n in range(1, 50):
        attention = 4 * count_flops(nn.Linear(16, 16), n, 16) + count_flops(SelfAttentionLayer(), n, 16)
        assert (attention < n * counter.get_total_flops()) == (n < border)


def test_a_window_is_a_band_of_the_mask():
    """C-4-g, C-4-i"""
    x = torch.randn(10, 6)
    for window in (1, 3, 7, 25):
        near = (torch.arange(10)[:, None] - torch.arange(10)).abs() <= window // 2
        expected = scaled_dot_product_attention(x, x, x, near)[0]
        torch.testing.assert_close(RestrictedAttentionLayer(window)(x), expected)


def test_recurrence_is_pytorchs():
    """C-4-e"""
    layer, reference = RecurrentLayer(5), nn.RNN(5, 5, bias=False)
    reference.load_state_dict({"weight_ih_l0": layer.input.weight, "weight_hh_l0": layer.state.weight})
    x = torch.randn(9, 5)
    torch.testing.assert_close(layer(x), reference(x)[0])


@pytest.mark.parametrize("dilation", [1, 3])
def test_convolution_is_a_sum_over_neighbours(dilation: int):
    """C-4-f: with zeros beyond the ends, and as long as its input."""
    layer, x = ConvolutionalLayer(4, 3, dilation), torch.randn(8, 4)
    weight = layer.layers.weight  # out, in, kernel
    for at in range(8):
        around = [(at + (k - 1) * dilation, k) for k in range(3)]
        expected = sum(weight[:, :, k] @ x[i] for i, k in around if 0 <= i < 8)
        torch.testing.assert_close(layer(x)[at], expected)


@pytest.mark.parametrize("build", [lambda: RestrictedAttentionLayer(4), lambda: ConvolutionalLayer(4, 2)])
def test_even_windows_are_refused(build):
    with pytest.raises(ValueError, match="must be odd"):
        build()


def test_only_recurrence_has_to_wait():
    """C-4-b, C-4-d to C-4-g"""
    for build in (SelfAttentionLayer, lambda: ConvolutionalLayer(4, 3), lambda: RestrictedAttentionLayer(3)):
        assert sequential_steps(build(), 5, 4) == sequential_steps(build(), 50, 4) < 20
    steps = [sequential_steps(RecurrentLayer(4), n, 4) for n in (10, 20, 30)]
    assert steps[2] - steps[1] == steps[1] - steps[0] >= 10


@pytest.mark.slow
def test_layers_until_the_ends_meet():
    """C-4-d to C-4-g, C-4-i, C-4-j: self-attention 1, contiguous n / reach, dilated the logarithm."""
    assert layers_to_connect(lambda i: SelfAttentionLayer(), 40, 3) == 1
    assert layers_to_connect(lambda i: RecurrentLayer(3), 40, 3) == 1  # in which the signal passes n states
    for n, width in product((9, 40, 100), (3, 5, 9)):
        reach = width // 2
        plain, dilated = (
            lambda i, by=by, width=width: ConvolutionalLayer(3, width, dilation=by**i) for by in (1, reach + 1)
        )
        assert layers_to_connect(plain, n, 3) == math.ceil((n - 1) / reach)
        restricted = layers_to_connect(lambda i, width=width: RestrictedAttentionLayer(width), n, 3)
        assert restricted == math.ceil((n - 1) / reach)
        assert layers_to_connect(dilated, n, 3) == math.ceil(math.log(n, reach + 1))
    with pytest.raises(ValueError, match="do not connect 40 positions"):
        layers_to_connect(lambda i: nn.Identity(), 40, 3)


def test_separable_convolution_as_wide_as_the_input_costs_what_the_papers_pair_costs():
    """C-4-l: the same order, not the same number."""
    for n, d in ((33, 32), (65, 32), (65, 64)):
        separable = count_flops(ConvolutionalLayer(d, n, separable=True), n, d)
        pair = count_flops(SelfAttentionLayer(), n, d) + count_flops(nn.Linear(d, d, bias=False), n, d)
        assert pair / 2 <= separable <= pair


def test_attention_keeps_all_pairs_for_the_backward_pass():
    kept = [saved_bytes(SelfAttentionLayer(), n, 8) for n in (100, 200)]
    assert kept[1] > 3 * kept[0]
    assert kept[0] >= 4 * 100 * 100
    linear = nn.Linear(8, 8, bias=False)
    assert saved_bytes(linear, 100, 8) == 4 * (100 * 8 + 8 * 8)
