# Written by `make export` from book/32_attention.ipynb: edit the chapter, not this.
"""Attention (section 3.2 of the paper)."""

import math
from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

__all__ = ["MultiHeadAttention", "scaled_dot_product_attention"]


# book/32_attention.ipynb#scaled-dot-product-attention
def scaled_dot_product_attention(
    query: Float[Tensor, "*batch query d_k"],
    key: Float[Tensor, "*batch key d_k"],
    value: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query key"]]:
    """softmax(Q K^T / sqrt(d_k)) V and its weights: equation (1) of section 3.2.1.

    `mask` is true where attention is allowed and broadcasts to the weights' shape. A
    query that may attend to nothing gets weights and an output of zero, and no
    gradient. `dropout` acts on the weights used, not on those returned.

    Defined in chapter 32: `scaled-dot-product-attention`.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)  # a query that may attend to nothing
    return (weights if dropout is None else dropout(weights)) @ value, weights


# book/32_attention.ipynb#multi-head-attention
class MultiHeadAttention(nn.Module):
    """`num_heads` attentions side by side, each in its own subspace (section 3.2.2).

    d_k and d_v default to d_model / num_heads, which must then be a whole number
    (ValueError). The paper has neither biases nor dropout of weights.

    Defined in chapter 32: `multi-head-attention`.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_k: int | None = None,
        d_v: int | None = None,
        *,
        bias: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        if None in (d_k, d_v) and d_model % num_heads:
            raise ValueError(f"d_model {d_model} is no multiple of {num_heads} heads: give d_k and d_v")
        self.num_heads = num_heads
        self.d_k, self.d_v = d_k or d_model // num_heads, d_v or d_model // num_heads
        self.query = nn.Linear(d_model, num_heads * self.d_k, bias)
        self.key = nn.Linear(d_model, num_heads * self.d_k, bias)
        self.value = nn.Linear(d_model, num_heads * self.d_v, bias)
        self.output = nn.Linear(num_heads * self.d_v, d_model, bias)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Let every position of `x` attend to the positions of `memory`."""
        return self.attend(*self.project(x, memory), mask)

    def project(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Q W^Q, K W^K and V W^V, split: batch, head, length, d_k or d_v."""
        return (
            self.split_heads(self.query(x)),
            self.split_heads(self.key(memory)),
            self.split_heads(self.value(memory)),
        )

    def split_heads(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch head length d_head"]:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Attention in each head, then the concatenated heads times W^O."""
        heads, _ = scaled_dot_product_attention(query, key, value, mask, self.dropout)
        return self.output(heads.transpose(1, 2).flatten(2))

    def weights(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Float[Tensor, "batch head query key"]:
        """The weights for `x` attending to `memory`: what this book's maps show."""
        return scaled_dot_product_attention(*self.project(x, memory), mask)[1]
