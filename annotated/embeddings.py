# Written by `make export` from book/34_embeddings.ipynb: edit the chapter, not this.
"""Embeddings and softmax (section 3.4 of the paper)."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

__all__ = ["OutputProjection", "TokenEmbedding"]


# book/34_embeddings.ipynb#token-embedding
class TokenEmbedding(nn.Module):
    """A learned vector for each token, times sqrt(d_model) (section 3.4).

    Weights start from N(0, 1 / d_model), so that the scaled vectors have unit variance.
    `scale=False` leaves the factor out; `weight` is another embedding's matrix, which
    the two then share.

    Defined in chapter 34: `token-embedding`.
    """

    def __init__(self, vocab_size: int, d_model: int, scale: bool = True, weight: nn.Parameter | None = None):
        super().__init__()
        if weight is None:
            weight = nn.Parameter(torch.randn(vocab_size, d_model) / math.sqrt(d_model))
        self.weight = weight
        self.scale = math.sqrt(d_model) if scale else 1.0

    def forward(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length d_model"]:
        return F.embedding(tokens, self.weight) * self.scale


# book/34_embeddings.ipynb#output-projection
class OutputProjection(nn.Module):
    """Logits for the next token: `x E^T`, without bias (section 3.4).

    E is the embedding's own `weight` (tied, as in the paper) or a matrix of its own.

    Defined in chapter 34: `output-projection`.
    """

    def __init__(self, weight: nn.Parameter, bias: bool = False):
        super().__init__()
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(len(weight))) if bias else None

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        return F.linear(x, self.weight, self.bias)
