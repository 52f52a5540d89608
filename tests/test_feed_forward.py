"""Chapter 33: the position-wise feed-forward network (section 3.3)."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from annotated.feed_forward import ACTIVATIONS, FeedForward

ORACLES = {  # the formulas of ACTIVATIONS
    "relu": lambda x: np.maximum(0, x),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / 2**0.5)),
    "swish": lambda x: x / (1 + np.exp(-x)),
}


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


@pytest.mark.parametrize("shape", [(16,), (2, 3, 5, 16)])
def test_each_position_is_treated_alone_and_alike(shape):
    """C-3.3-a, M-21: whatever axes lead, each row is what the network makes of it alone."""
    ffn, x = FeedForward(16, 32), torch.randn(shape)
    rows = torch.stack([ffn(row) for row in x.reshape(-1, 16)])
    assert torch.allclose(ffn(x), rows.reshape(shape), atol=1e-5)


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


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_is_the_named_function(name):
    """ReLU is the paper's; the others are options, each against its formula, and can be sent to another process."""
    assert name in ORACLES, f"activation {name!r} has no formula to compare with: add it to ORACLES in this file"
    ffn, x = FeedForward(4, 6, activation=name).double(), torch.randn(5, 4, dtype=torch.float64)
    hidden = torch.from_numpy(ORACLES[name](ffn.inner(x).detach().numpy()))
    assert torch.allclose(ffn(x), ffn.outer(hidden), atol=1e-12)
    assert torch.equal(pickle.loads(pickle.dumps(ffn))(x), ffn(x)), "a lambda does not pickle: name a function"


def test_unknown_activation_is_refused_with_the_choices():
    with pytest.raises(ValueError, match=f"unknown activation 'none': choose one of {', '.join(ACTIVATIONS)}$"):
        FeedForward(4, 8, activation="none")


def test_dropout_option_acts_on_the_hidden_layer():
    """With the outer map an identity, each hidden value is either zero or doubled; in use it is whole (D-4)."""
    assert FeedForward(16, 16).dropout.p == 0
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
