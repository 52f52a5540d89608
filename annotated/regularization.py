# Written by `make export` from book/54_regularization.ipynb: edit the chapter, not this.
"""Regularisation (section 5.4 of the paper)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["label_smoothed_loss", "smoothed_targets"]


# book/54_regularization.ipynb#smoothed-targets
def smoothed_targets(
    targets: Int[Tensor, "*batch"], vocab_size: int, smoothing: float = 0.1
) -> Float[Tensor, "*batch vocab"]:
    """1 - smoothing on the true token, and `smoothing` spread over all tokens.

    That is what a model learns (section 5.4). The form is that of Szegedy et al.:
    the true token has its share of the spread too.

    Defined in chapter 54: `smoothed-targets`.
    """
    spread = torch.full((*targets.shape, vocab_size), smoothing / vocab_size, device=targets.device)
    true_share = torch.full((*targets.shape, 1), 1 - smoothing, device=targets.device)
    return spread.scatter_add(-1, targets[..., None], true_share)


# book/54_regularization.ipynb#label-smoothed-loss
def label_smoothed_loss(
    logits: Float[Tensor, "batch target vocab"],
    targets: Int[Tensor, "batch target"],
    smoothing: float = 0.1,
    pad_id: int = 0,
) -> Float[Tensor, ""]:
    """Cross-entropy against `smoothed_targets` in nats, summed over all but padding.

    Defined in chapter 54: `label-smoothed-loss`.
    """
    return F.cross_entropy(
        logits.flatten(0, 1),
        targets.flatten(),
        ignore_index=pad_id,
        label_smoothing=smoothing,
        reduction="sum",
    )
