"""Functions of modules."""

import math

import torch
from torch.tensor import JUPYTER

relu, log_softmax, sigmoid, tanh = torch.relu, torch.log_softmax, torch.sigmoid, torch.tanh


def softmax(x, dim, dtype=None):
    return x.softmax(dim, dtype)


def gelu(x, approximate="none"):
    if approximate == "tanh":
        return 0.5 * x * (1 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)).tanh())
    return 0.5 * x * (1 + (x / math.sqrt(2)).erf())


def silu(x):
    return x * x.sigmoid()


def linear(x, weight, bias=None):
    product = x @ weight.T
    return product if bias is None else product + bias


def embedding(tokens, weight):
    size = weight.shape[0]
    if ((tokens < 0) | (tokens >= size)).any():
        raise IndexError("index out of range in self")
    return weight[tokens]


def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    shape = tuple(shape)
    if tuple(x.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], "
            f"but got input of size{list(x.shape)}"
        )
    y = x.flatten(-len(shape)).rows("normalized", -1, None, eps).view(x.shape)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def dropout(x, p=0.5, training=True):
    return x * (torch.rand(x.shape, dtype=x.dtype) >= p) / (1 - p or 1) if training and p else x


def one_hot(tokens, num_classes=-1):
    count = tokens.max().item() + 1 if num_classes == -1 else num_classes
    return (tokens[..., None] == torch.arange(count)).long()


def cross_entropy(scores, wanted, ignore_index=-100, label_smoothing=0.0, reduction="mean"):
    logs = scores.log_softmax(1).movedim(1, -1).reshape(-1, scores.shape[1])
    wanted = wanted.flatten()
    real = wanted != ignore_index
    right = -logs.gather(1, wanted.masked_fill(~real, 0)[:, None])[:, 0]
    each = ((1 - label_smoothing) * right - label_smoothing * logs.mean(1)) * real
    return {"mean": lambda: each.sum() / real.sum(), "sum": each.sum, "none": lambda: each}[reduction]()


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    scores = query @ key.mT * (scale or query.shape[-1] ** -0.5)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype is torch.bool else scores + attn_mask
    return scores.softmax(-1) @ value


def __getattr__(name):
    raise AttributeError(f"this page's torch has no {name}; {JUPYTER}")
