"""Chapter 33: the position-wise feed-forward network (section 3.3)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from annotated.attention import MultiHeadAttention
from annotated.feed_forward import ACTIVATIONS, FeedForward
from annotated.model import Transformer, TransformerConfig

ORACLES = {  # the formulas of ACTIVATIONS
    "relu": lambda x: np.maximum(0, x),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / 2**0.5)),
    "swish": lambda x: x / (1 + np.exp(-x)),
}


def networks_of(model: nn.Module) -> list[FeedForward]:
    return [part for part in model.modules() if isinstance(part, FeedForward)]


@pytest.fixture(scope="module")
def base() -> Transformer:
    return Transformer(TransformerConfig.base(vocab_size=50)).eval()


def test_feed_forward_is_equation_2():
    """C-3.3-b: max(0, x W_1 + b_1) W_2 + b_2, both biases included, in plain NumPy loops."""
    ffn = FeedForward(6, 10).double()
    w_1, b_1, w_2, b_2 = (p.detach().numpy() for linear in (ffn.inner, ffn.outer) for p in linear.parameters())
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    expected = np.empty((2, 3, 6))
    for place in np.ndindex(2, 3):
        token = x[place].numpy()
        hidden = [max(0.0, sum(token[i] * w_1[unit, i] for i in range(6)) + b_1[unit]) for unit in range(10)]
        for j in range(6):
            expected[(*place, j)] = sum(hidden[unit] * w_2[j, unit] for unit in range(10)) + b_2[j]
    assert np.allclose(ffn(x).detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("shape", [(16,), (5, 16), (2, 5, 16), (2, 3, 5, 16)])
def test_any_leading_axes_are_positions(shape):
    ffn, x = FeedForward(16, 32), torch.randn(shape)
    rows = torch.stack([ffn(row) for row in x.reshape(-1, 16)])
    assert torch.allclose(ffn(x), rows.reshape(shape), atol=1e-5)


def test_each_position_is_treated_alone_and_alike(base):
    """C-3.3-a, M-21, in every layer: change one token, only its row changes; permute tokens, rows permute."""
    ffns = networks_of(base)
    assert len(ffns) == 12
    x, order = torch.randn(1, 7, 512), torch.randperm(7)
    changed = x.clone()
    changed[0, 3] = torch.randn(512)
    with torch.no_grad():
        for ffn in ffns:
            y = ffn(x)
            moved = (ffn(changed) - y).abs().amax(-1)[0]
            assert (moved > 1e-3).nonzero().flatten().tolist() == [3]
            assert moved[[0, 1, 2, 4, 5, 6]].max() < 1e-5
            assert torch.allclose(ffn(x[:, order]), y[:, order], atol=1e-5)


def test_gradient_stays_with_its_position():
    """M-21: the derivative of row 2 with respect to any other row is exactly zero."""
    ffn, x = FeedForward(8, 16), torch.randn(1, 5, 8, requires_grad=True)
    gradient = torch.autograd.grad(ffn(x)[0, 2].square().sum(), x)[0]
    assert gradient[0].abs().sum(-1).nonzero().flatten().tolist() == [2]


def test_equals_two_convolutions_of_width_1():
    """C-3.3-d: the same weights in two Conv1d layers give the same output and the same gradient."""
    ffn = FeedForward(12, 20)
    first, second = nn.Conv1d(12, 20, kernel_size=1), nn.Conv1d(20, 12, kernel_size=1)
    with torch.no_grad():
        for convolution, linear in ((first, ffn.inner), (second, ffn.outer)):
            convolution.weight.copy_(linear.weight[:, :, None])
            convolution.bias.copy_(linear.bias)
    x = torch.randn(3, 9, 12, requires_grad=True)
    by_convolution = second(torch.relu(first(x.transpose(1, 2)))).transpose(1, 2)
    assert torch.allclose(ffn(x), by_convolution, atol=1e-5)
    ours, theirs = (torch.autograd.grad(y.square().sum(), x)[0] for y in (ffn(x), by_convolution))
    assert torch.allclose(ours, theirs, atol=1e-4)


def test_layers_have_weights_of_their_own(base):
    """C-3.3-c, M-22: twelve networks, no parameter shared or equal between two of them."""
    ffns = networks_of(base)
    pointers = [p.data_ptr() for ffn in ffns for p in ffn.parameters()]
    assert len(set(pointers)) == len(pointers) == 12 * 4
    for i, ffn in enumerate(ffns):
        assert all(not torch.equal(ffn.inner.weight, other.inner.weight) for other in ffns[:i])


def test_base_widths(base):
    """C-3.3-e: 512 outside, 2048 inside, in every layer."""
    for ffn in networks_of(base):
        assert ffn.inner.weight.shape == (2048, 512)
        assert ffn.outer.weight.shape == (512, 2048)
        assert ffn.inner.bias.shape == (2048,)
        assert ffn.outer.bias.shape == (512,)


def test_feed_forward_holds_two_thirds_of_an_encoder_layer(base):
    """Chapter 33's picture: twice the parameters of one attention block, up to biases and norms."""

    def count(module: nn.Module) -> int:
        return sum(p.numel() for p in module.parameters())

    layer = base.encoder.layers[0]
    assert isinstance(layer.self_attention, MultiHeadAttention)
    assert count(layer.self_attention) == 4 * 512**2
    assert count(layer.feed_forward) == 8 * 512**2 + 2048 + 512
    assert count(layer) == 3_150_336
    assert count(base.decoder.layers[0]) == 4_199_936


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_is_the_named_function(name):
    """ReLU is the paper's; the others are options, each against its formula."""
    assert name in ORACLES, f"activation {name!r} has no formula to compare with: add it to ORACLES in this file"
    ffn, x = FeedForward(4, 6, activation=name).double(), torch.randn(5, 4, dtype=torch.float64)
    hidden = torch.from_numpy(ORACLES[name](ffn.inner(x).detach().numpy()))
    assert torch.allclose(ffn(x), ffn.outer(hidden), atol=1e-12)


def test_relu_is_the_default():
    """C-3.3-b."""
    x = torch.tensor([-2.0, 0.0, 3.0])
    assert FeedForward(4, 8).activation(x).tolist() == [0, 0, 3]


def test_unknown_activation_is_refused_with_the_choices():
    with pytest.raises(ValueError, match=f"unknown activation 'none': choose one of {', '.join(ACTIVATIONS)}$"):
        FeedForward(4, 8, activation="none")


def test_no_dropout_inside_unless_asked_for():
    """D-4: the paper leaves the hidden layer alone."""
    ffn, x = FeedForward(8, 16), torch.randn(2, 3, 8)
    assert ffn.training
    assert torch.equal(ffn(x), ffn(x))


def test_dropout_option_acts_on_the_hidden_layer():
    """With the outer map an identity, each hidden value is either zero or doubled; in use it is whole."""
    ffn, x = FeedForward(16, 16, dropout=0.5), torch.randn(50, 16)
    with torch.no_grad():
        ffn.outer.weight.copy_(torch.eye(16))
        ffn.outer.bias.fill_(100)  # a dropped output would be 0, not 100
    hidden = torch.relu(ffn.inner(x))
    result = ffn(x) - 100
    dropped, doubled = result.abs() < 1e-4, (result - 2 * hidden).abs() < 1e-4
    assert (dropped | doubled).all()
    assert 0.3 < dropped[hidden > 0.01].float().mean() < 0.7
    assert torch.allclose(ffn.eval()(x) - 100, hidden, atol=1e-4)


def test_impossible_dropout_is_refused():
    with pytest.raises(ValueError, match="dropout"):
        FeedForward(8, 16, dropout=-0.1)


def test_relu_network_is_linear_while_its_pattern_of_active_units_stays():
    """Chapter 33: the matrix of the active units gives the token's output."""
    ffn, x = FeedForward(8, 32).double(), torch.randn(8, dtype=torch.float64)
    units = ffn.inner(x) > 0
    assert 0 < units.sum() < 32
    w_1, w_2 = ffn.inner.weight.T[:, units], ffn.outer.weight.T[units]
    output = x @ w_1 @ w_2 + ffn.inner.bias[units] @ w_2 + ffn.outer.bias
    assert torch.allclose(ffn(x), output, atol=1e-12)
