"""What each step that made training faster gains: our training step with one of them taken back."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.nn.functional as F

from annotated import training as training_module
from annotated.attention import KeyValues, MultiHeadAttention
from annotated.batching import Batch
from annotated.cost import keep_freed_memory, tune_machine
from annotated.regularization import label_smoothed_loss
from annotated.schedule import set_learning_rate
from annotated.stacks import Dropout
from annotated.training import choose_precision, training_loss
from annotated.translation import Translator
from benchmarks import training
from benchmarks.common import in_a_process, interleaved, model_folder, record, show, timed

SHAPES = 100  # together they need more than oneDNN's usual room for kernels


@contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Something else in its place, for as long as the context lasts."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def whole_loss(hidden, weight, bias, targets, smoothing, pad_id):
    """All logits at once, as in the readable form."""
    return label_smoothed_loss(F.linear(hidden, weight.to(hidden.dtype), bias), targets, smoothing, pad_id)


def usual_dropout(self: Dropout, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
    dropped = F.dropout(x, self.p, self.training)
    return dropped if residual is None else residual + dropped


def masked_then_added(self: Dropout, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
    dropped = x * self.mask(x) if self.training and self.p > 0 else x
    return dropped if residual is None else residual + dropped


def one_projection(self: MultiHeadAttention, x, memory, mask=None, cache=None):
    """Queries, keys and values of self-attention in one product."""
    layers = [self.query, self.key, self.value]
    if memory is not x:
        return ORIGINAL(self, x, memory, mask, cache)
    parts = F.linear(x, torch.cat([layer.weight for layer in layers])).unflatten(-1, (3, self.num_heads, -1))
    query, key, value = parts.permute(2, 0, 3, 1, 4).contiguous().unbind(0)
    return self.output(self.attend(query, KeyValues(key, value), mask).transpose(1, 2).flatten(2))


ORIGINAL = MultiHeadAttention.forward


def fused_kernel(self: MultiHeadAttention, query, known, mask):
    return F.scaled_dot_product_attention(query, *known, mask)


@contextmanager
def memory_given_back() -> Iterator[None]:
    keep_freed_memory(False)
    try:
        yield
    finally:
        keep_freed_memory()


VARIANTS: dict[str, Callable] = {
    "all logits at once": partial(replaced, training_module, "chunked_loss", whole_loss),
    "the usual dropout": partial(replaced, Dropout, "forward", usual_dropout),
    "dropout and residual apart": partial(replaced, Dropout, "forward", masked_then_added),
    "the fused attention kernel": partial(replaced, MultiHeadAttention, "attend", fused_kernel),
    "freed memory given back": memory_given_back,
    "one projection for q, k and v": partial(replaced, MultiHeadAttention, "forward", one_projection),
}


def autocast_step(model, precision: torch.dtype) -> Callable[[Batch], None]:
    """One set of weights, and products in low precision by autocast, instead of a working copy."""
    optimizer = training_module.build_optimizer(model.parameters())
    set_learning_rate(optimizer, 1e-4)

    def step(batch: Batch) -> None:
        with torch.autocast("cpu", precision):
            loss = training_loss(model, batch, training.SMOOTHING) / batch.num_tokens
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def unfused_step(model, precision: torch.dtype) -> Callable[[Batch], None]:
    """Adam weight by weight, in many operations."""
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, foreach=False, fused=False)
    return training.our_step(model, precision, optimizer)


def of_different_shapes(batches: list[Batch]) -> list[Batch]:
    """One batch of each shape."""
    return list({(*batch.source.shape, batch.target_input.shape[1]): batch for batch in batches}.values())


def epoch_seconds(precision: torch.dtype) -> float:
    """Seconds for some batches of different shapes, met for the second time."""
    translator = Translator.load(model_folder(), "cpu")
    batches = of_different_shapes(training.real_batches(translator))[:SHAPES]
    step = training.our_step(translator.model, precision)
    for batch in batches:
        step(batch)
    start = time.perf_counter()
    for batch in batches:
        step(batch)
    return time.perf_counter() - start


def run(rounds: int = 3) -> None:
    """Every variant in one interleaved run, in the precision that pays here; printed and recorded."""
    precision = choose_precision("auto", torch.device("cpu"))
    name = str(precision).removeprefix("torch.")
    translator = Translator.load(model_folder(), "cpu")
    batches, shapes = training.some_batches(translator), of_different_shapes(training.real_batches(translator))

    def model():
        return copy.deepcopy(translator.model).train()

    step = training.our_step(model(), precision)

    def in_context(context: Callable, batch: Batch) -> None:
        with context():
            step(batch)

    steps = {"as it is": step} | {variant: partial(in_context, make) for variant, make in VARIANTS.items()}
    steps["Adam weight by weight"] = unfused_step(model(), precision)
    if precision == torch.bfloat16:
        steps["autocast in place of a working copy"] = autocast_step(model(), precision)
    works = {}
    for variant, variant_step in steps.items():
        for batch in batches:
            variant_step(batch)
        works[variant] = timed(training.Contestant(variant_step, batches).turn)
    table = interleaved(works, rounds)
    show(f"training with one thing taken back, {name}, target tokens a second", "tokens/s", table)
    kernels = {
        room: in_a_process("benchmarks.gains", name, ONEDNN_PRIMITIVE_CACHE_CAPACITY=room) for room in ("1024", "20000")
    }
    record("benchmark-gains", {
        "model": model_folder().name, "precision": name, "rounds": rounds, "batches": training.BATCHES,
        "table": table, "shapes": len(shapes[:SHAPES]), "shapes_in_epoch": len(shapes),
        "seconds_by_room_for_kernels": kernels,
    })  # fmt: skip


if __name__ == "__main__":
    tune_machine()
    print(epoch_seconds(getattr(torch, sys.argv[1])))
