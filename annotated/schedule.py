# Written by `make export` from book/53_optimizer.ipynb: edit the chapter, not this.
"""Optimizer (section 5.3 of the paper)."""

from collections.abc import Iterable

import torch
from torch import nn

__all__ = ["build_optimizer", "learning_rate", "set_learning_rate"]


# book/53_optimizer.ipynb#optimizer
def build_optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Adam:
    """Adam with beta_1 = 0.9, beta_2 = 0.98 and eps = 1e-9 (section 5.3).

    The rate is 0 until `set_learning_rate` sets it, before each step.

    Defined in chapter 53: `optimizer`.
    """
    return torch.optim.Adam(parameters, lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Use `rate` from the next step on.

    Defined in chapter 53: `optimizer`.
    """
    for group in optimizer.param_groups:
        group["lr"] = rate


# book/53_optimizer.ipynb#learning-rate
def learning_rate(step: int, d_model: int, warmup_steps: int = 4000, factor: float = 1.0) -> float:
    """d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), equation (3).

    Steps count from 1 (section 5.3). `factor` is 1 in the paper.
    Raises ValueError for a step or warm-up below 1.

    Defined in chapter 53: `learning-rate`.
    """
    if step < 1 or warmup_steps < 1:
        raise ValueError(f"step and warmup_steps count from 1, not {step} and {warmup_steps}")
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
