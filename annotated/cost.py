# Written by `make export` from book/52_hardware_and_schedule.ipynb: edit the chapter, not this.
"""Hardware and schedule (section 5.2 of the paper)."""

import time
from collections.abc import Callable

from annotated.model import TransformerConfig

__all__ = ["attention_flops", "forward_flops", "seconds_of", "training_flops"]


# book/52_hardware_and_schedule.ipynb#attention-flops
def attention_flops(config: TransformerConfig, queries: int, keys: int) -> tuple[int, int]:
    """FLOPs of one attention for one sentence: of its projections, and of the rest.

    The rest are the scores and the weighted sums.

    Defined in chapter 52: `attention-flops`.
    """
    d_k = config.d_k or config.d_model // config.num_heads
    d_v = config.d_v or config.d_model // config.num_heads
    projections = 2 * config.d_model * config.num_heads * (queries + keys) * (d_k + d_v)
    return projections, 2 * config.num_heads * queries * keys * (d_k + d_v)


# book/52_hardware_and_schedule.ipynb#forward-flops
def forward_flops(config: TransformerConfig, batch: int, source: int, target: int) -> dict[str, int]:
    """FLOPs of a forward pass by part, for `batch` pairs of sentences.

    Each pair has `source` and `target` positions, padding counted.

    Defined in chapter 52: `forward-flops`.
    """
    encoder, decoder = config.num_layers, config.num_decoder_layers or config.num_layers
    attentions = [attention_flops(config, source, source)] * encoder
    attentions += [
        attention_flops(config, target, target),
        attention_flops(config, target, source),
    ] * decoder
    parts = {
        "projections": sum(projections for projections, _ in attentions),
        "scores and sums": sum(products for _, products in attentions),
        "feed-forward": 4 * config.d_model * config.d_ff * (encoder * source + decoder * target),
        "output": 2 * config.d_model * config.vocab_size * target,
    }
    return {part: batch * flops for part, flops in parts.items()}


# book/52_hardware_and_schedule.ipynb#training-flops
def training_flops(config: TransformerConfig, batch: int, source: int, target: int) -> int:
    """FLOPs of a training step: three forward passes' worth.

    The backward pass has two products for each one of the forward pass. One gives
    the gradient of the matrix, the other that of the input.

    Defined in chapter 52: `training-flops`.
    """
    return 3 * sum(forward_flops(config, batch, source, target).values())


# book/52_hardware_and_schedule.ipynb#seconds-of
def seconds_of(work: Callable[[], object]) -> float:
    """How long `work` takes.

    Defined in chapter 52: `seconds-of`.
    """
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
