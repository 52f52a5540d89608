"""Masks: what they hide is hidden exactly, forwards and backwards, in both forms (sections 3.2.1 and 3.2.3)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from annotated.attention import scaled_dot_product_attention
from annotated.masks import causal_mask, padding_mask
from tests.fused import fused_heads


def plain(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    return scaled_dot_product_attention(query, key, value, mask)[0]


forms = pytest.mark.parametrize("attention", [plain, fused_heads], ids=["plain", "fused"])
widths = pytest.mark.parametrize(("d_k", "d_v"), [(8, 8), (4, 6)])


def tensors(d_k: int = 8, d_v: int = 8, queries: int = 5, keys: int = 5, dtype: torch.dtype = torch.float32):
    """Queries, keys and values of two sentences and three heads, which take gradients."""
    generator = torch.Generator().manual_seed(0)
    sizes = ((queries, d_k), (keys, d_k), (keys, d_v))
    return [torch.randn(2, 3, *size, generator=generator).to(dtype).requires_grad_() for size in sizes]


def test_padding_mask_is_true_at_tokens():
    tokens = torch.tensor([[4, 5, 9, 9], [9, 4, 4, 9]])
    mask = padding_mask(tokens, pad_id=9)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[[[True, True, False, False]]], [[[False, True, True, False]]]]


def test_causal_mask_is_true_up_to_and_on_the_diagonal():
    """C-3.2.3-e: position i sees all positions up to and including i."""
    mask = causal_mask(4)
    assert mask.dtype == torch.bool
    assert [[i >= j for j in range(4)] for i in range(4)] == mask.tolist()
    assert causal_mask(2, "meta").device.type == "meta"


def test_masked_weights_equal_a_softmax_over_minus_infinity():
    """C-3.2.3-g: forbidden scores are minus infinity before the softmax; the open ones share all the weight."""
    query, key, value = tensors(dtype=torch.float64)
    mask = causal_mask(5) & padding_mask(torch.tensor([[1, 1, 1, 0, 0], [1] * 5]), 0)
    _, weights = scaled_dot_product_attention(query, key, value, mask)
    scores = (query @ key.transpose(-2, -1) / math.sqrt(8)).masked_fill(~mask, -math.inf)
    assert torch.equal(weights, scores.softmax(dim=-1))
    assert not weights.masked_select(~mask).any()
    assert (weights.sum(dim=-1) - 1).abs().max() < 1e-12


@forms
@widths
def test_masking_keys_equals_leaving_them_out(attention, d_k, d_v):
    query, key, value = tensors(d_k, d_v)
    mask = padding_mask(torch.tensor([[1, 0, 1, 0, 1]] * 2), 0)
    shorter = attention(query, key[:, :, ::2], value[:, :, ::2])
    assert (attention(query, key, value, mask) - shorter).abs().max() < 1e-6


@forms
@widths
def test_masked_keys_and_values_get_no_gradient(attention, d_k, d_v):
    """The gradient of every output with respect to every pad is exactly zero."""
    query, key, value = tensors(d_k, d_v)
    mask = padding_mask(torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]), 0)
    attention(query, key, value, mask).square().sum().backward()
    for tensor in (key, value):
        assert not tensor.grad[0, :, 3:].any()
        assert not tensor.grad[1, :, 4:].any()
        assert (tensor.grad[0, :, :3] != 0).any(dim=-1).all()
        assert (tensor.grad[1, :, :4] != 0).any(dim=-1).all()


@forms
@widths
def test_future_keys_and_values_get_no_gradient(attention, d_k, d_v):
    """C-3.2.3-f: the gradient of output i with respect to keys and values after i is exactly zero."""
    query, key, value = tensors(d_k, d_v)
    output = attention(query, key, value, causal_mask(5))
    for i in range(5):
        gradients = torch.autograd.grad(output[:, :, i].square().sum(), (key, value), retain_graph=True)
        for gradient in gradients:
            assert not gradient[:, :, i + 1 :].any()
        assert (gradients[1][:, :, : i + 1] != 0).any(dim=-1).all()


@forms
def test_future_cannot_be_seen(attention):
    """C-3.2.3-f: changing a later key or value, however much, leaves earlier outputs exactly as they were."""
    query, key, value = tensors()
    before = attention(query, key, value, causal_mask(5))
    changed_key, changed_value = key.detach().clone(), value.detach().clone()
    changed_key[:, :, 3] += 1e4
    changed_value[:, :, 3] += 1e4
    after = attention(query, changed_key, changed_value, causal_mask(5))
    assert torch.equal(after[:, :, :3], before[:, :, :3])
    assert not torch.equal(after[:, :, 3:], before[:, :, 3:])
    unmasked = attention(query, changed_key, changed_value)
    assert (unmasked - attention(query, key, value)).abs().amax(dim=(0, 1, 3)).min() > 1e-3


@forms
@widths
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_query_that_may_attend_to_nothing(attention, d_k, d_v, dtype):
    """Zeros, no NaN and no gradient in its row; the other rows are as if it were not there."""
    query, key, value = tensors(d_k, d_v, dtype=dtype)
    mask = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    mask[0, :, 1] = False
    mask[1] = False
    output = attention(query, key, value, mask)
    assert not output[0, :, 1].any()
    assert not output[1].any()
    output.float().square().sum().backward()
    for tensor in (output, query.grad, key.grad, value.grad):
        assert not tensor.isnan().any()
    assert not query.grad[0, :, 1].any()
    for tensor in (query, key, value):
        assert not tensor.grad[1].any()
        assert tensor.grad[0].any()
    others = [0, 2, 3, 4]
    expected = attention(query[:1, :, others], key[:1], value[:1])
    assert (output[:1, :, others] - expected).abs().max() < (1e-6 if dtype == torch.float32 else 0.05)


@forms
@pytest.mark.parametrize("scores", [-1e6, 1e6])
def test_open_keys_share_the_weight_however_small_their_scores_are(attention, scores):
    """A large negative number in place of minus infinity would leave weight with what is hidden."""
    query, key, value = torch.ones(1, 1, 1, 1), torch.tensor([scores, scores, 0.0]).view(1, 1, 3, 1), torch.eye(3)
    output = attention(query, key, value.view(1, 1, 3, 3), torch.tensor([[True, True, False]]))
    assert output.flatten().tolist() == [0.5, 0.5, 0]
