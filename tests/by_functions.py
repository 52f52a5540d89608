"""A right Transformer of functions and tensors, for the doctor; mistakes are put in by tests/blind_spots.py."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from annotated.plain import positions

PAD, VOCAB, D, HEADS, D_FF, LAYERS, P = 0, 40, 16, 2, 24, 2, 0.1


def drawn():
    """All weights by name."""
    one = {"table": torch.randn(VOCAB, D) * D**-0.5}
    for layer in (f"{side}{i}" for side in ("enc", "dec") for i in range(LAYERS)):
        parts = ("self", "cross") if layer.startswith("dec") else ("self",)
        one |= {f"{layer}_{part}_{name}": torch.randn(D, D) * D**-0.5 for part in parts for name in "qkvo"}
        one |= {f"{layer}_in": torch.randn(D_FF, D) * D**-0.5, f"{layer}_out": torch.randn(D, D_FF) * D_FF**-0.5}
        for i in range(len(parts) + 1):
            one |= {f"{layer}_gain{i}": torch.ones(D), f"{layer}_bias{i}": torch.zeros(D)}
    return one


def heads(x):
    return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)


def attend(w, name, x, y, mask):
    q, k, v = (heads(F.linear(one, w[f"{name}_{by}"])) for one, by in ((x, "q"), (y, "k"), (y, "v")))
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~mask, -1e9)
    weights = F.softmax(scores, dim=-1)
    return F.linear(torch.matmul(weights, v).transpose(1, 2).flatten(2), w[f"{name}_o"])


def feed(w, name, x):
    return F.linear(F.relu(F.linear(x, w[f"{name}_in"])), w[f"{name}_out"])


def norm(x, gain, bias):
    return F.layer_norm(x, (D,), gain, bias)


def around(w, name, i, x, y, training):
    return norm(x + F.dropout(y, P, training), w[f"{name}_gain{i}"], w[f"{name}_bias{i}"])


def embed(w, ids):
    return F.embedding(ids, w["table"]) * math.sqrt(D) + positions(ids.shape[1], D)


def run(w, source, target, training=False):
    pad, stairs = (source != PAD)[:, None, None, :], torch.ones(2 * (target.shape[1],)).tril().bool()
    x, y = embed(w, source), embed(w, target)
    for name in (f"enc{i}" for i in range(LAYERS)):
        x = around(w, name, 0, x, attend(w, f"{name}_self", x, x, pad), training)
        x = around(w, name, 1, x, feed(w, name, x), training)
    for name in (f"dec{i}" for i in range(LAYERS)):
        y = around(w, name, 0, y, attend(w, f"{name}_self", y, y, stairs), training)
        y = around(w, name, 1, y, attend(w, f"{name}_cross", y, x, pad), training)
        y = around(w, name, 2, y, feed(w, name, y), training)
    return y @ w["table"].T


class Model(nn.Module):
    """The same, with weights that PyTorch knows."""

    def __init__(self, dropout=P):
        super().__init__()
        self.w = nn.ParameterDict({name: nn.Parameter(one) for name, one in drawn().items()})
        self.dropout = dropout

    def forward(self, source, target):
        return run(self.w, source, target, self.training)
