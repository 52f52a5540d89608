# Written by `make export` from book/54_regularization.ipynb: do not edit here, edit the chapter.
"""Regularization: chapter 54 of the book, section 5.4 of the paper."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["chunked_loss", "label_smoothed_loss", "smoothed_targets"]


# book/54_regularization.ipynb#smoothed-targets
def smoothed_targets(
    targets: Int[Tensor, "*batch"], vocab_size: int, smoothing: float = 0.1
) -> Float[Tensor, "*batch vocab"]:
    """What to learn: 1 - smoothing on the true token, and `smoothing` spread over all tokens (section 5.4).

    Szegedy et al.'s form: the true token has its share of the spread too.

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
    """Cross-entropy against `smoothed_targets`, in nats, summed over all targets that are not padding.

    Defined in chapter 54: `label-smoothed-loss`.
    """
    return F.cross_entropy(
        logits.flatten(0, 1).float(),
        targets.flatten(),
        ignore_index=pad_id,
        label_smoothing=smoothing,
        reduction="sum",
    )


# book/54_regularization.ipynb#loss-and-surplus
def loss_and_surplus(
    scores: Float[Tensor, "rows vocab"], targets: Int[Tensor, "rows 1"], smoothing: float
) -> Float[Tensor, ""]:
    """The summed label-smoothed loss of float32 logits, which become its gradient: softmax - smoothed targets.

    Defined in chapter 54: `loss-and-surplus`.
    """
    spread = smoothing / scores.shape[-1]
    scores -= scores.amax(dim=-1, keepdim=True)
    loss = -(1 - smoothing) * scores.gather(1, targets).sum() - spread * scores.sum()
    sums = scores.exp_().sum(dim=-1, keepdim=True)
    scores.div_(sums).sub_(spread)
    scores.scatter_add_(1, targets, scores.new_full(targets.shape, smoothing - 1))
    return loss + sums.log().sum()


# book/54_regularization.ipynb#chunked-loss
class ChunkedLoss(torch.autograd.Function):
    """The sum of label-smoothed losses of `hidden @ weight.T + bias`, with the gradients made on the way forward.

    Defined in chapter 54: `chunked-loss`.
    """

    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, smoothing, rows, learning):
        matrix = weight.to(hidden.dtype)
        grads = [torch.empty_like(hidden), torch.zeros_like(weight), None if bias is None else torch.zeros_like(bias)]
        total, block = hidden.new_zeros((), dtype=torch.float32), 64 if hidden.device.type == "cpu" else rows
        for x, y, grad in zip(*(part.split(rows) for part in (hidden, targets, grads[0])), strict=True):
            logits = x @ matrix.T
            for part, tokens in zip(logits.split(block), y[:, None].split(block), strict=True):
                scores = part.float()
                if bias is not None:
                    scores += bias
                total += loss_and_surplus(scores, tokens, smoothing)
                part.copy_(scores)
                if bias is not None:
                    grads[2] += scores.sum(dim=0)
            if learning:
                torch.mm(logits, matrix, out=grad)
                grads[1] += logits.T @ x
        ctx.save_for_backward(*grads)
        return total

    @staticmethod
    def backward(ctx, grad_total):
        grads = [None if grad is None else grad * grad_total for grad in ctx.saved_tensors]
        return *grads, None, None, None, None


# book/54_regularization.ipynb#chunked-loss-function
def chunked_loss(
    hidden: Float[Tensor, "batch target d_model"],
    weight: Float[Tensor, "vocab d_model"],
    bias: Float[Tensor, " vocab"] | None,
    targets: Int[Tensor, "batch target"],
    smoothing: float = 0.1,
    pad_id: int = 0,
    rows: int = 1024,
) -> Float[Tensor, ""]:
    """`label_smoothed_loss` of the logits `hidden @ weight.T + bias`, which never exist as a whole.

    `rows` positions at a time; padding is left out before the product.

    Defined in chapter 54: `chunked-loss-function`.
    """
    real, device = targets != pad_id, hidden.device.type
    if torch.is_autocast_enabled(device):
        hidden = hidden.to(torch.get_autocast_dtype(device))
    with torch.autocast(device, enabled=False):
        return ChunkedLoss.apply(hidden[real], weight, bias, targets[real], smoothing, rows, torch.is_grad_enabled())
