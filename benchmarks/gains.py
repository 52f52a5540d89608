"""What each part of `acceleration` gains: the same work with everything, and with one part taken back."""

from __future__ import annotations

import copy
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from annotated.attention import MultiHeadAttention
from annotated.batching import Batch, pad_sequences
from annotated.decoding import start_decoding
from annotated.embeddings import OutputProjection
from annotated.machine.acceleration import (
    FASTER,
    accelerate,
    chunked_loss,
    chunked_training_loss,
    faster_products,
    hidden_states,
    start_fast_decoding,
    top_tokens,
    tune_machine,
    working_copy,
)
from annotated.machine.devices import best_device, choose_precision
from annotated.model import Transformer
from annotated.regularization import label_smoothed_loss
from annotated.schedule import build_optimizer, set_learning_rate
from annotated.search.beam import beam_search
from annotated.search.translation import Translator
from annotated.training import LossFunction, TrainingConfig, train_step, training_loss
from benchmarks import training
from benchmarks.common import in_a_process, model_folder, pairs, record, say, timed

SHAPES, FEW_TOKENS = 110, 1024  # so many small batches need more than oneDNN's usual room for kernels
Work = Callable[[], float]  # returns how much it did a second


def interval(ratios: Sequence[float], draws: int = 4000) -> dict[str, float]:
    """The median of some ratios, and where it lies in 95 of 100 bootstrap samples."""
    drawn = random.Random(0)
    medians = sorted(statistics.median(drawn.choices(ratios, k=len(ratios))) for _ in range(draws))
    ends = {"low": medians[draws // 40], "high": medians[draws - 1 - draws // 40]}
    return {"gain": statistics.median(ratios), **ends, "pairs": len(ratios)}


def compare(with_it: Work, without: Work, rounds: int) -> dict[str, float]:
    """The speed with a part over that without it, from pairs of turns, each going first as often as the other."""
    ratios = []
    for turn in range(rounds):
        works = [with_it, without]
        speeds = [work() for work in (works if turn % 2 == 0 else works[::-1])]
        ratios.append(speeds[0] / speeds[1] if turn % 2 == 0 else speeds[1] / speeds[0])
    return interval(ratios)


def without(model: Transformer, plain: type) -> Transformer:
    """The model with one of its faster classes taken back."""
    for module in model.modules():
        if type(module) is FASTER[plain]:
            module.__class__ = plain
    return model


def whole_loss(worker: Transformer, batch: Batch, smoothing: float) -> torch.Tensor:
    """All logits at once, as in the plain form, in the precision of the worker."""
    hidden = hidden_states(worker, batch.source, batch.target_input)
    logits = F.linear(hidden, worker.output.weight.to(hidden.dtype), worker.output.bias).float()
    return label_smoothed_loss(logits, batch.target_output, smoothing, worker.config.pad_id)


def autocast_loss(precision: torch.dtype, model: Transformer, batch: Batch, smoothing: float) -> torch.Tensor:
    """One set of weights, cast at every product, in place of a working copy."""
    with torch.autocast(batch.source.device.type, precision):
        hidden = hidden_states(model, batch.source, batch.target_input)
    weight, bias, pad_id = model.output.weight, model.output.bias, model.config.pad_id
    return chunked_loss(hidden.to(precision), weight, bias, batch.target_output, smoothing, pad_id)


def step_of(model: Transformer, loss_of: Callable[[Transformer, torch.optim.Optimizer], LossFunction]) -> Callable:
    """A training step whose loss is made from model and optimizer."""
    optimizer, config = build_optimizer(model.train().parameters()), TrainingConfig(max_steps=1)
    set_learning_rate(optimizer, 1e-4)
    loss = loss_of(model, optimizer)
    return lambda batch: train_step(model, optimizer, [batch], config, loss)


def variants(translator: Translator, precision: torch.dtype) -> dict[str, Callable]:
    """Training steps by the part that each of them lacks; "" lacks none, and "everything" has none."""

    def model() -> Transformer:
        return accelerate(copy.deepcopy(translator.model))

    def copied(loss: Callable) -> Callable:
        return lambda model, optimizer: partial(loss, working_copy(model, optimizer, precision))

    found = {
        "": step_of(model(), copied(chunked_training_loss)),
        "dropout from integers": step_of(without(model(), torch.nn.Dropout), copied(chunked_training_loss)),
        "loss in pieces": step_of(model(), copied(whole_loss)),
        "everything": step_of(
            accelerate(model(), False), lambda model, _: partial(training_loss, model, precision=precision)
        ),
    }
    if precision != torch.float32:
        autocast = partial(autocast_loss, precision)
        found["working copy"] = step_of(model(), lambda model, _: partial(autocast, model))
    if translator.model.target_embedding.weight.device.type != "cpu":
        found["fused attention"] = step_of(without(model(), MultiHeadAttention), copied(chunked_training_loss))
    return found


def switched(switch: Callable[[bool], object], on: bool, work: Work) -> float:
    """The work with a setting of the process on or off; afterwards it is on."""
    switch(on)
    try:
        return work()
    finally:
        switch(True)


def training_gains(translator: Translator, precision: torch.dtype, rounds: int) -> dict[str, dict[str, float]]:
    """Rows for the parts that training uses."""
    batches, works = training.some_batches(translator), {}
    for part, step in variants(translator, precision).items():
        for batch in batches:
            step(batch)
        works[part] = timed(training.Contestant(step, batches).turn)
    whole = works.pop("")
    rows = {part: compare(whole, work, rounds) for part, work in works.items()}
    if precision == torch.float32 and faster_products():
        turns = (partial(switched, faster_products, on, whole) for on in (True, False))
        rows["products by oneDNN"] = compare(*turns, rounds)
    return rows


@torch.inference_mode()
def decoding_gains(translator: Translator, size: int, count: int, rounds: int) -> dict[str, dict[str, float]]:
    """Rows for the parts that translating uses, in batches of one size."""
    sources = sorted(translator.tokenize([pair.source for pair in pairs(translator, "test")]), key=len)
    sources = sources[:: max(1, len(sources) // count)][:count]
    batches = [sources[i : i + size] for i in range(0, len(sources), size)]

    def search(model: Transformer, topk: Callable, start: Callable = start_fast_decoding) -> float:
        for batch in batches:
            rows = pad_sequences(batch, model.config.pad_id).to(model.target_embedding.weight.device)
            beam_search(model, rows, topk=topk, start=start)
        return len(sources)

    fast = accelerate(copy.deepcopy(translator.model))
    whole = timed(partial(search, fast, top_tokens))
    works = {"top-k by columns": timed(partial(search, fast, torch.topk))}
    if fast.target_embedding.weight.device.type == "cpu":
        works["fast step"] = timed(partial(search, fast, top_tokens, start_decoding))
    if size == 1:
        plain = without(without(copy.deepcopy(fast), nn.Linear), OutputProjection)
        works["products of few rows"] = timed(partial(search, plain, top_tokens))
    if fast.target_embedding.weight.device.type != "cpu":
        plain = without(accelerate(copy.deepcopy(translator.model)), MultiHeadAttention)
        works["fused attention"] = timed(partial(search, plain, top_tokens))
    for work in (whole, *works.values()):
        work()
    return {part: compare(whole, work, rounds) for part, work in works.items()}


def of_different_shapes(batches: list[Batch]) -> list[Batch]:
    """One batch of each shape."""
    return list({(*batch.source.shape, batch.target_input.shape[1]): batch for batch in batches}.values())


def epoch_speed(precision: torch.dtype) -> float:
    """Batches of different shapes a second, met for the second time."""
    translator = Translator.load(model_folder(), "cpu")
    batches = of_different_shapes(training.real_batches(translator, FEW_TOKENS))[:SHAPES]
    step = training.our_step(translator.model, precision)
    for batch in batches:
        step(batch)
    start = time.perf_counter()
    for batch in batches:
        step(batch)
    return len(batches) / (time.perf_counter() - start)


def kernel_gains(precision: torch.dtype, rounds: int) -> dict[str, float]:
    """The row for oneDNN's room for kernels, which a process can choose only once."""
    name = str(precision).removeprefix("torch.")
    rooms = ("20000", "1024")
    works = [partial(in_a_process, "benchmarks.gains", name, ONEDNN_PRIMITIVE_CACHE_CAPACITY=room) for room in rooms]
    return compare(*works, rounds)


def run_kernels(rounds: int = 6) -> None:
    """The row for the room for kernels from more pairs, each of two processes; printed and recorded."""
    precision = choose_precision("auto", torch.device("cpu"))
    name = str(precision).removeprefix("torch.")
    row = kernel_gains(precision, rounds)
    show_gains(f"training, {name}", {"room for kernels": row})
    record("benchmark-kernels", {
        "model": model_folder().name, "precision": name, "shapes": SHAPES, "few_tokens": FEW_TOKENS, "row": row,
    })  # fmt: skip


def run(rounds: int = 12) -> None:
    """Every part in pairs of turns, training in each precision that pays here; printed and recorded."""
    translator = Translator.load(model_folder(), "auto")
    precisions = list(dict.fromkeys((torch.float32, last := choose_precision("auto", best_device()))))
    tables: dict[str, dict] = {}
    for precision in precisions:
        title = f"training, {str(precision).removeprefix('torch.')}"
        tables[title] = training_gains(translator, precision, rounds)
        if precision == last and best_device().type == "cpu":
            tables[title]["room for kernels"] = kernel_gains(precision, rounds // 3)
        show_gains(title, tables[title])
    for size, count in ((1, 16), (32, 128), (100, 200)):
        title = f"translating, batches of {size}"
        tables[title] = decoding_gains(translator, size, count, rounds)
        show_gains(title, tables[title])
    record("benchmark-gains", {
        "model": model_folder().name, "batches": training.BATCHES, "steps": training.STEPS,
        "shapes": SHAPES, "few_tokens": FEW_TOKENS,
        "tables": tables,
    }, best_device())  # fmt: skip


def show_gains(title: str, rows: dict[str, dict[str, float]]) -> None:
    """Print the rows of one kind of work, the largest gain first."""
    say(f"\n{title}: how much faster with each part, and the 95% interval")
    for part, row in sorted(rows.items(), key=lambda item: -item[1]["gain"]):
        verdict = "" if row["low"] > 1 else ", no gain shown"
        say(f"  {part:<24} {row['gain']:.2f} times ({row['low']:.2f} to {row['high']:.2f}){verdict}")


if __name__ == "__main__":
    tune_machine()
    print(epoch_speed(getattr(torch, sys.argv[1])))
