"""How time and memory grow: a training step and a search of models with random weights, while one size changes."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from torch.autograd.graph import saved_tensors_hooks

from annotated.batching import Batch
from annotated.cost import seconds_of, training_flops
from annotated.decoding import start_decoding
from annotated.machine.acceleration import chunked_training_loss
from annotated.model import Transformer, TransformerConfig
from annotated.search.beam import beam_search
from benchmarks import training
from benchmarks.common import record, say

TRAINING = {"length": 32, "d_model": 256, "layers": 3, "batch": 32}
TRAINING_SWEEPS = {
    "length": (8, 16, 32, 64, 128, 256),
    "d_model": (64, 128, 256, 512, 1024),
    "layers": (1, 2, 4, 8),
    "batch": (2, 8, 32, 128),
}
DECODING = {"beam": 4, "batch": 16, "length": 16}
DECODING_SWEEPS = {"beam": (1, 2, 4, 8, 16, 32), "batch": (1, 4, 16, 64, 128), "length": (8, 16, 32, 64, 128)}
RUNS = 3


def random_model(d_model: int = 256, layers: int = 3) -> Transformer:
    sizes = {"d_model": d_model, "d_ff": 4 * d_model, "num_heads": 4, "num_layers": layers, "max_length": 512}
    torch.manual_seed(0)
    return Transformer(TransformerConfig(8000, **sizes))


def random_batch(batch: int, length: int) -> Batch:
    source, target = torch.randint(4, 8000, (batch, length)), torch.randint(4, 8000, (batch, length))
    return Batch(source, target, target, batch * length)


def kept_bytes(model: Transformer, batch: Batch) -> int:
    """What the forward pass keeps for the backward pass, weights not counted."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = chunked_training_loss(model, batch, 0.1)
        total = sum(storage.nbytes() for storage in kept.values())
    del loss
    return total


def middle_of(work: Callable[[], object]) -> float:
    """The median time of some runs, after one that does not count."""
    work()
    return statistics.median(seconds_of(work) for _ in range(RUNS))


def training_point(sizes: dict[str, int]) -> dict[str, float]:
    model, batch = random_model(sizes["d_model"], sizes["layers"]), random_batch(sizes["batch"], sizes["length"])
    flops = training_flops(model.config, sizes["batch"], sizes["length"], sizes["length"])
    kept, step = kept_bytes(model.train(), batch), training.our_step(model, torch.float32)
    return {"seconds": middle_of(lambda: step(batch)), "bytes": kept, "flops": flops}


@torch.inference_mode()
def decoding_point(sizes: dict[str, int]) -> dict[str, float]:
    """A search of `length` steps; the weights are random, so that hardly any output ends earlier."""
    model, source = random_model().eval(), random_batch(sizes["batch"], 16).source
    state = start_decoding(model, source, sizes["beam"], sizes["length"])
    kept = sum(part.nbytes for known in state.memory for part in known)
    kept += sum(cache.keys.nbytes + cache.values.nbytes for cache in state.caches)
    search = {"beam_size": sizes["beam"], "limit": sizes["length"]}
    return {"seconds": middle_of(lambda: beam_search(model, source, **search)), "bytes": kept}


def run() -> None:
    """Seven sweeps, printed and recorded."""
    points: dict[str, list[dict]] = {}
    sweeps = (
        ("training", TRAINING, TRAINING_SWEEPS, training_point),
        ("decoding", DECODING, DECODING_SWEEPS, decoding_point),
    )
    for what, usual, chosen, measure in sweeps:
        for size, values in chosen.items():
            rows = [{"size": value} | measure(usual | {size: value}) for value in values]
            points[f"{what}, {size}"] = rows
            say(f"\n{what} while the {size} changes")
            for row in rows:
                say(f"  {row['size']:>5}  {1e3 * row['seconds']:9.1f} ms  {row['bytes'] / 2**20:9.1f} MB")
    record("benchmark-growth", {"training": TRAINING, "decoding": DECODING, "points": points})
