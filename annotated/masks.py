# Written by `make export` from book/32_attention.ipynb: edit the chapter, not this.
"""Which positions may be seen (section 3.2.3): no padding, nothing to come."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

__all__ = ["causal_mask", "padding_mask"]


# book/32_attention.ipynb#masks
def padding_mask(tokens: Int[Tensor, "batch key"], pad_id: int) -> Bool[Tensor, "batch 1 1 key"]:
    """True at real tokens: keys that every head and every query may attend to.

    Defined in chapter 32: `masks`.
    """
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(size: int, device: torch.device | str | None = None) -> Bool[Tensor, "size size"]:
    """True on and below the diagonal: i attends to places up to i (section 3.2.3).

    Defined in chapter 32: `masks`.
    """
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()
