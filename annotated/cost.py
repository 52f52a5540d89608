# Written by `make export` from book/52_hardware_and_schedule.ipynb: do not edit here, edit the chapter.
"""Hardware and schedule (section 5.2 of the paper)."""

import time
from collections.abc import Callable

import torch

from annotated.model import TransformerConfig

__all__ = ["attention_flops", "forward_flops", "product_speed", "seconds_of", "training_flops"]


# book/52_hardware_and_schedule.ipynb#forward-flops
def attention_flops(config: TransformerConfig, queries: int, keys: int) -> tuple[int, int]:
    """FLOPs of one attention for one sentence: of its projections, and of its scores and weighted sums.

    Defined in chapter 52: `forward-flops`.
    """
    d_k = config.d_k or config.d_model // config.num_heads
    d_v = config.d_v or config.d_model // config.num_heads
    projections = 2 * config.d_model * config.num_heads * (queries + keys) * (d_k + d_v)
    return projections, 2 * config.num_heads * queries * keys * (d_k + d_v)


def forward_flops(config: TransformerConfig, batch: int, source: int, target: int) -> dict[str, int]:
    """FLOPs of a forward pass by part, for `batch` sentences of `source` and `target` positions, padding counted.

    Defined in chapter 52: `forward-flops`.
    """
    encoder, decoder = config.num_layers, config.num_decoder_layers or config.num_layers
    attentions = [attention_flops(config, source, source)] * encoder
    attentions += [attention_flops(config, target, target), attention_flops(config, target, source)] * decoder
    parts = {
        "projections": sum(projections for projections, _ in attentions),
        "scores and sums": sum(products for _, products in attentions),
        "feed-forward": 4 * config.d_model * config.d_ff * (encoder * source + decoder * target),
        "output": 2 * config.d_model * config.vocab_size * target,
    }
    return {part: batch * flops for part, flops in parts.items()}


def training_flops(config: TransformerConfig, batch: int, source: int, target: int) -> int:
    """FLOPs of a training step: three forward passes' worth, since the backward pass has two products for each one.

    One gives the gradient of the matrix, the other that of the input.

    Defined in chapter 52: `forward-flops`.
    """
    return 3 * sum(forward_flops(config, batch, source, target).values())


# book/52_hardware_and_schedule.ipynb#ceiling
def product_speed(dtype: torch.dtype = torch.float32, size: int = 1024, runs: int = 8) -> float:
    """FLOPs a second of a product of two square matrices, the best of `runs`.

    Defined in chapter 52: `ceiling`.
    """
    a, b = (torch.ones(size, size, dtype=dtype) for _ in range(2))  # no random number is drawn
    return 2 * size**3 / min(seconds_of(lambda: a @ b) for _ in range(runs))


def seconds_of(work: Callable[[], object]) -> float:
    """How long `work` takes.

    Defined in chapter 52: `ceiling`.
    """
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
