from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LearnedPositions(nn.Module):
    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_len, d_model))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight[: x.size(1)]


class Attention(nn.Module):
    """Multi-head attention on top of ``F.scaled_dot_product_attention``."""

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads, self.dropout = n_heads, dropout
        self.q = nn.Linear(d_model, d_model, bias=False)
        self.kv = nn.Linear(d_model, 2 * d_model, bias=False)
        self.o = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        memory = x if memory is None else memory
        q = self._heads(self.q(x))
        k, v = (self._heads(t) for t in self.kv(memory).chunk(2, dim=-1))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0)
        return self.o(out.transpose(1, 2).flatten(2))

    def _heads(self, t: Tensor) -> Tensor:
        return t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float, cross: bool = False) -> None:
        super().__init__()
        self.ln_self, self.self_attn = nn.LayerNorm(d_model), Attention(d_model, n_heads, dropout)
        if cross:
            self.ln_cross, self.cross_attn = nn.LayerNorm(d_model), Attention(d_model, n_heads, dropout)
        self.ln_mlp = nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model))
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None = None, memory_mask: Tensor | None = None) -> Tensor:
        x = x + self.drop(self.self_attn(self.ln_self(x), mask=mask))
        if memory is not None:
            x = x + self.drop(self.cross_attn(self.ln_cross(x), memory, memory_mask))
        return x + self.drop(self.mlp(self.ln_mlp(x)))
