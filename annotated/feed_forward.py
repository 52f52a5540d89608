# Written by `make export` from book/33_feed_forward.ipynb: edit the chapter, not this.
"""Position-wise feed-forward networks (section 3.3 of the paper)."""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["ACTIVATIONS", "FeedForward"]


# book/33_feed_forward.ipynb#activations
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "swish": F.silu,
}


# book/33_feed_forward.ipynb#feed-forward
class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, for each position alone.

    Section 3.3, equation (2). `dropout` acts on the hidden layer, which the paper
    leaves alone. Raises ValueError for an unknown activation.

    Defined in chapter 33: `feed-forward`.
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu", dropout: float = 0.0):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"unknown activation {activation!r}: choose one of {', '.join(ACTIVATIONS)}")
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.outer(self.dropout(self.activation(self.inner(x))))
