# Written by `make export` from book/52_hardware_and_schedule.ipynb: do not edit here, edit the chapter.
"""Hardware and schedule: chapter 52 of the book, section 5.2 of the paper."""

import ctypes
import os
import time
from collections.abc import Callable

import torch

from annotated.model import TransformerConfig

__all__ = ["forward_flops", "product_speed", "training_flops", "tune_machine"]


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


# book/52_hardware_and_schedule.ipynb#settings
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # the GNU C library's names for options of mallopt


def keep_freed_memory(keep: bool = True) -> bool:
    """Let the C library keep the memory of freed tensors for the next ones. Returns whether it could be told so.

    The process then never shrinks; elsewhere than with the GNU C library nothing happens.

    Defined in chapter 52: `settings`.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    choices = ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 2**26))
    if not keep:
        choices = ((M_MMAP_MAX, 65536), (M_TRIM_THRESHOLD, 2**17), (M_TOP_PAD, 2**17))
    told = [mallopt(option, value) for option, value in choices]
    return all(told)


# book/52_hardware_and_schedule.ipynb#faster-products
def faster_products(wanted: bool = True) -> bool:
    """Let oneDNN multiply float32 matrices if that is faster here and nearly as exact as what PyTorch takes by itself.

    Returns whether it does. The setting holds for the whole process.

    Defined in chapter 52: `faster-products`.
    """
    switch = getattr(torch.backends.mkldnn, "matmul", None)
    if not hasattr(switch, "fp32_precision"):
        return False
    switch.fp32_precision = "ieee"
    if not wanted:
        return False
    a = torch.sin(torch.arange(512.0 * 768)).view(512, 768)
    b = torch.cos(torch.arange(768.0 * 512)).view(768, 512)
    exact = a.double() @ b.double()
    error, speed = ((a @ b) - exact).abs().max(), product_speed()
    switch.fp32_precision = "bf16"
    if ((a @ b) - exact).abs().max() > 4 * error or product_speed() < 1.2 * speed:
        switch.fp32_precision = "ieee"
    return switch.fp32_precision == "bf16"


# book/52_hardware_and_schedule.ipynb#keep-kernels
def keep_kernels(count: int = 20_000) -> bool:
    """Make room for `count` compiled kernels of oneDNN; of no effect once oneDNN was used. Returns whether it is so.

    A number that the user gave in the environment stays.

    Defined in chapter 52: `keep-kernels`.
    """
    return os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(count)) == str(count)


def tune_machine() -> dict[str, bool]:
    """All settings at once, for training and translating on a CPU. Returns which took effect.

    Defined in chapter 52: `keep-kernels`.
    """
    return {
        "keep_kernels": keep_kernels(),  # before the others, which use oneDNN
        "keep_freed_memory": keep_freed_memory(),
        "faster_products": faster_products(),
    }
