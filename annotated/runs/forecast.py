"""What a training will take, before it begins."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from annotated import cost
from annotated.model import Transformer, TransformerConfig

__all__ = [
    "Device",
    "all_reduce_seconds",
    "data_sheet",
    "depths",
    "kept_bytes",
    "moved_numbers",
    "num_calls",
    "num_weights",
    "product_seconds",
    "step_seconds",
]


@dataclass(frozen=True)
class Device:
    """What a device does in a second, and what holds it up."""

    products: Mapping[int, float]  # FLOPs a second of products of matrices, by their size
    memory: float  # bytes a second to and from its memory
    cache: float  # the same for what stays close: a block of logits
    call: float  # seconds to begin an operation
    link: float = math.inf  # bytes a second to another device, in one direction
    latency: float = 0.0  # seconds until the first byte has arrived
    input: float = 0.0  # seconds to make a batch, a target token
    number: int = 4  # bytes of a number
    beside: bool = False  # whether the next operations are begun, and gradients added up, while others run

    def speed(self, rows: int, columns: int) -> float:
        """FLOPs a second of products with a matrix of this size; between two known sizes, interpolated."""
        sizes = [math.log(size) for size in self.products]
        return float(np.interp(math.log(rows * columns) / 2, sizes, list(self.products.values())))


def data_sheet(row: Mapping[str, Any], call: float, share: float = 0.4, network: float = math.inf) -> Device:
    """A row of `data/devices.yml` as a device that reaches `share` of its peak in products, and 0.8 of its bandwidths.

    `network` limits the link, in bytes a second, where the devices are in several machines.
    """
    memory, link = 0.8e9 * row["bandwidth_gb_s"], min(0.8e9 * row["link_gb_s"], network)
    number = 4 if row["format"] == "float32" else 2
    products = {1: share * 1e12 * row["teraflops"]}
    return Device(products, memory, memory, call, link, latency=1e-5, number=number, beside=True)


def depths(config: TransformerConfig) -> tuple[int, int]:
    """Layers of the encoder and of the decoder."""
    return config.num_layers, config.num_decoder_layers or config.num_layers


def num_weights(config: TransformerConfig) -> int:
    """The weights of the model, counted without making them."""
    with torch.device("meta"):
        return Transformer(config).num_parameters()


def moved_numbers(config: TransformerConfig, batch: int, source: int, target: int) -> int:
    """How many numbers operations other than products read and write in a pass forward and back, without the logits.

    Counted on the CPU: 37 for each number that enters a sub-layer, 6 for each inner one of a feed-forward network, 17
    for each attention weight, 25 for each number of an embedding.
    """
    encoder, decoder = depths(config)
    numbers = 37 * config.d_model * (2 * encoder * source + 3 * decoder * target)
    numbers += 6 * config.d_ff * (encoder * source + decoder * target)
    numbers += 17 * config.num_heads * (encoder * source * source + decoder * target * (source + target))
    return batch * (numbers + 25 * config.d_model * (source + target))


def num_calls(config: TransformerConfig, batch: int, target: int, rows: int = 64) -> int:
    """How many operations are begun in a pass; the loss has 19 for each block of `rows` target positions."""
    encoder, decoder = depths(config)
    return 85 + 200 * encoder + 316 * decoder + 19 * math.ceil(batch * target / rows)


def kept_bytes(config: TransformerConfig, batch: int, source: int, target: int) -> int:
    """Memory of a pass in float32: weights, gradients and Adam's averages, and what the backward pass needs.

    Of the latter, 5.4 numbers for each that enters a sub-layer, one for each inner one, two for each attention weight.
    """
    encoder, decoder = depths(config)
    numbers = 5.4 * config.d_model * (2 * encoder * source + 3 * decoder * target)
    numbers += config.d_ff * (encoder * source + decoder * target)
    numbers += 2 * config.num_heads * (encoder * source * source + decoder * target * (source + target))
    numbers += 2 * config.d_model * (source + target)
    return 16 * num_weights(config) + 4 * round(batch * numbers + config.vocab_size * config.d_model)


def all_reduce_seconds(size: int, devices: int, device: Device) -> float:
    """Adding up `size` bytes over all devices in a ring: twice around, each time with a part of the bytes."""
    if devices == 1:
        return 0.0
    return 2 * (devices - 1) * (size / devices / device.link + device.latency)


def product_seconds(config: TransformerConfig, device: Device, batch: int, source: int, target: int) -> float:
    """The products of a pass forward and back, each kind at the speed that the device has for its size."""
    head = config.d_k or config.d_model // config.num_heads
    sizes = {"projections": (config.d_model, config.d_model), "scores and sums": (head, target)}
    sizes |= {"feed-forward": (config.d_model, config.d_ff), "output": (config.d_model, config.vocab_size)}
    flops = cost.forward_flops(config, batch, source, target)
    return 3 * sum(flops[part] / device.speed(*sizes[part]) for part in sizes)


def step_seconds(
    config: TransformerConfig, device: Device, batch: int, source: int, target: int,
    devices: int = 1, passes: int = 1,
) -> dict[str, float]:  # fmt: skip
    """The seconds of a training step by part; their sum is the step.

    Each of `devices` makes `passes` passes with `batch` sentence pairs, then gradients are added up and
    Adam's step is made. What happens beside something else counts with what it takes longer than that.
    """
    weights, table = num_weights(config), config.vocab_size * config.d_model
    products = product_seconds(config, device, batch, source, target)
    logits = 17 * device.number * batch * target * config.vocab_size / device.cache
    memory = device.number * moved_numbers(config, batch, source, target) / device.memory + logits
    calls = device.call * num_calls(config, batch, target, rows=1024 if device.beside else 64)
    if device.beside:
        calls = max(calls - products - memory, 0.0)
    # Adam, gradients and their copies
    once = 4 * ((8 + 4 * (devices > 1)) * weights + 15 * table) / device.memory
    reduce = all_reduce_seconds(4 * weights, devices, device)
    if device.beside:
        reduce = max(reduce - 2 / 3 * (products + memory + calls), 0.0)  # in the last backward pass
    parts = {"products": passes * products, "memory": passes * memory + once, "calls": passes * calls}
    parts["all-reduce"] = reduce
    parts["input"] = max(passes * batch * target * device.input - sum(parts.values()), 0.0)
    return parts
