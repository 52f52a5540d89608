# Written by `make export` from book/32_attention.ipynb: do not edit here, edit the chapter.
"""Attention: chapter 32 of the book, section 3.2 of the paper."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from annotated.stacks import Dropout

__all__ = ["KeyValueCache", "KeyValues", "MultiHeadAttention", "scaled_dot_product_attention"]


# book/32_attention.ipynb#scaled-dot-product-attention
def scaled_dot_product_attention(
    query: Float[Tensor, "*batch query d_k"],
    key: Float[Tensor, "*batch key d_k"],
    value: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query key"]]:
    """softmax(Q K^T / sqrt(d_k)) V and the softmax's weights, equation (1) of section 3.2.1.

    `mask` is true where attention is allowed and broadcasts to the weights' shape. A query that may attend to nothing
    gets weights and an output of zero, and no gradient. `dropout` acts on the weights used, not on those returned.

    Defined in chapter 32: `scaled-dot-product-attention`.
    """
    scores = query / math.sqrt(key.shape[-1]) @ key.transpose(-2, -1)
    if mask is not None:
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(scores.dtype)
    if mask is not None:
        weights = weights * mask.any(dim=-1, keepdim=True)
    return (weights if dropout is None else dropout(weights)) @ value, weights


# book/32_attention.ipynb#key-value-cache
class KeyValues(NamedTuple):
    """Projected keys and values, ready to be attended to.

    Defined in chapter 32: `key-value-cache`.
    """

    keys: Float[Tensor, "batch head key d_k"]
    values: Float[Tensor, "batch head key d_v"]


class KeyValueCache:
    """Keys and values of the target positions decoded so far, in buffers that are filled in place (chapter 60).

    Defined in chapter 32: `key-value-cache`.
    """

    def __init__(
        self, keys: Float[Tensor, "batch head capacity d_k"], values: Float[Tensor, "batch head capacity d_v"]
    ):
        self.keys, self.values, self.length = keys, values, 0

    def append(self, new: KeyValues) -> KeyValues:
        """Store the new positions and return all positions so far. Raises ValueError when the buffers are full."""
        start, end = self.length, self.length + new.keys.shape[2]
        if end > self.keys.shape[2]:
            raise ValueError(f"the cache holds {self.keys.shape[2]} positions, not {end}")
        self.length = end
        self.keys[:, :, start:end] = new.keys
        self.values[:, :, start:end] = new.values
        return KeyValues(self.keys[:, :, :end], self.values[:, :, :end])

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch; positions that are still empty are not copied."""
        self.keys, self.values = (self.kept(buffer, rows) for buffer in (self.keys, self.values))

    def kept(self, buffer: Tensor, rows: Tensor) -> Tensor:
        selected = buffer.new_empty(len(rows), *buffer.shape[1:])
        selected[:, :, : self.length] = buffer[:, :, : self.length][rows]
        return selected


# book/32_attention.ipynb#fused-attention
def fused_attention(query, key, value, mask: Tensor | None = None, dropout: float = 0.0) -> Tensor:
    """The output of `scaled_dot_product_attention` by PyTorch's fused kernel, with dropout on the weights.

    Rows that may attend to nothing are zero here as well.

    Defined in chapter 32: `fused-attention`.
    """
    output = F.scaled_dot_product_attention(query, key, value, mask, dropout)
    if mask is None:
        return output
    return output.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)


# book/32_attention.ipynb#multi-head-attention
class MultiHeadAttention(nn.Module):
    """`num_heads` attentions side by side, each in its own learned subspace (section 3.2.2).

    d_k and d_v default to d_model / num_heads, which must then be a whole number (ValueError). The paper writes no
    biases (`bias`) and keeps all softmax weights (`dropout`); both are options. `kernel` chooses the form that runs:
    "readable" is `scaled_dot_product_attention`, "fused" PyTorch's own, "auto" fused on a GPU and readable on the CPU,
    where it is faster at the length of sentences. Any other name raises ValueError.

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
        kernel: str = "auto",
    ):
        super().__init__()
        if None in (d_k, d_v) and d_model % num_heads:
            raise ValueError(f"d_model {d_model} is no multiple of {num_heads} heads: give d_k and d_v")
        if kernel not in ("readable", "fused", "auto"):
            raise ValueError(f"kernel is readable, fused or auto, not {kernel!r}")
        self.num_heads, self.kernel = num_heads, kernel
        self.d_k, self.d_v = d_k or d_model // num_heads, d_v or d_model // num_heads
        self.query = nn.Linear(d_model, num_heads * self.d_k, bias)
        self.key = nn.Linear(d_model, num_heads * self.d_k, bias)
        self.value = nn.Linear(d_model, num_heads * self.d_v, bias)
        self.output = nn.Linear(num_heads * self.d_v, d_model, bias)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"] | KeyValues,
        mask: Bool[Tensor, "..."] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Let every position of `x` attend to `memory`, or to what the cache holds and `memory` adds to it."""
        known = memory if isinstance(memory, KeyValues) else self.keys_and_values(memory)
        if cache is not None:
            known = cache.append(known)
        heads = self.attend(self.split_heads(self.query(x)), known, mask)
        return self.output(heads.transpose(1, 2).flatten(2))  # concatenated heads, times W^O

    def keys_and_values(self, memory: Float[Tensor, "batch key d_model"]) -> KeyValues:
        """K W^K and V W^V, split into heads."""
        return KeyValues(self.split_heads(self.key(memory)), self.split_heads(self.value(memory)))

    def split_heads(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch head length d_head"]:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def attend(self, query: Tensor, known: KeyValues, mask: Tensor | None) -> Float[Tensor, "batch head query d_v"]:
        fused = self.kernel == "fused" or (self.kernel == "auto" and query.device.type != "cpu")
        if fused:
            return fused_attention(query, *known, mask, self.dropout.p if self.training else 0.0)
        return scaled_dot_product_attention(query, *known, mask, self.dropout)[0]

    def weights(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Float[Tensor, "batch head query key"]:
        """The softmax's weights for `x` attending to `memory`: what the maps of this book show."""
        return scaled_dot_product_attention(self.split_heads(self.query(x)), *self.keys_and_values(memory), mask)[1]
