"""Training steps: forward, label-smoothed loss, backward, Adam, on real and changing batches."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

from annotated.batching import Batch, make_batch, token_batches
from annotated.cost import training_flops
from annotated.machine.acceleration import compiled
from annotated.model import Transformer
from annotated.runs.examples import tokenize_pairs
from annotated.runs.training import losses_of
from annotated.schedule import build_optimizer, set_learning_rate
from annotated.search.translation import Translator
from annotated.training import TrainingConfig, train_step
from benchmarks.common import both_settings, interleaved, model_folder, pairs, record, show, timed
from benchmarks.peers import TorchTransformer, marian

MAX_TOKENS = 3072
BATCHES = 12  # spread over an epoch
STEPS = 4  # a turn
SMOOTHING = 0.1
SYSTEMS = ("annotated", "torch.nn.Transformer", "Hugging Face Marian, eager", "Hugging Face Marian, sdpa")


class Contestant:
    """A model that trains on the same batches as the others, one after another."""

    def __init__(self, step: Callable[[Batch], None], batches: list[Batch]):
        self.step, self.batches, self.place = step, batches, 0

    def turn(self) -> float:
        """Some steps; returns their target tokens."""
        tokens = 0
        for _ in range(STEPS):
            batch = self.batches[self.place % len(self.batches)]
            self.step(batch)
            self.place, tokens = self.place + 1, tokens + batch.num_tokens
        return tokens


def plain_step(model, logits_of, precision: torch.dtype, compile: bool = False) -> Callable[[Batch], None]:
    """The usual training step of a PyTorch model: cross-entropy of all logits, autocast, fused Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def loss_of(batch: Batch) -> torch.Tensor:
        with torch.autocast(batch.source.device.type, torch.bfloat16, enabled=precision == torch.bfloat16):
            logits = logits_of(batch)
        flat, targets = logits.flatten(0, 1).float(), batch.target_output.flatten()
        return F.cross_entropy(flat, targets, ignore_index=0, label_smoothing=SMOOTHING, reduction="sum")

    loss_of = compiled(loss_of) if compile else loss_of

    def step(batch: Batch) -> None:
        (loss_of(batch) / batch.num_tokens).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def logits_of(system) -> Callable[[Batch], torch.Tensor]:
    """How to call a peer."""
    if isinstance(system, TorchTransformer):
        return lambda batch: system(batch.source, batch.target_input)
    return lambda batch: (
        system(
            input_ids=batch.source, attention_mask=(batch.source != 0).long(), decoder_input_ids=batch.target_input
        ).logits
    )


def peers(translator: Translator, only: str | None = None) -> dict:
    """The other systems, with copies of the same weights."""
    makers: dict[str, Callable] = {"torch.nn.Transformer": lambda: TorchTransformer(translator.model)}
    for kind in ("eager", "sdpa"):
        makers[f"Hugging Face Marian, {kind}"] = partial(marian, translator, kind)
    return {name: make() for name, make in makers.items() if only in (None, name)}


@torch.inference_mode()
def check_equal(translator: Translator, batch: Batch) -> None:
    """Raises AssertionError when a system's logits differ from ours."""
    expected = translator.model.eval()(batch.source, batch.target_input)[batch.target_output != 0]
    for name, system in peers(translator).items():
        found = logits_of(system.eval())(batch)[batch.target_output != 0]
        assert (found - expected).abs().max() < 1e-3, f"{name} computes something else"


def our_step(model: Transformer, precision: torch.dtype, **options: bool) -> Callable[[Batch], None]:
    """This package's training step; `options` are those of `TrainingConfig`."""
    optimizer = build_optimizer(model.parameters())
    set_learning_rate(optimizer, 1e-4)
    config = TrainingConfig(max_steps=1, precision=str(precision).removeprefix("torch."), **options)
    loss_of, _ = losses_of(model.train(), optimizer, config)
    return lambda batch: train_step(model, optimizer, [batch], config, loss_of)


def steps(translator: Translator, precision: torch.dtype, only: str | None = None) -> dict[str, Callable]:
    """Every system's training step, by name."""
    found = {}
    if only not in (None, *SYSTEMS):
        raise ValueError(f"no such system: {only}")
    if only in (None, "annotated"):
        found["annotated"] = our_step(copy.deepcopy(translator.model), precision)
    for name, system in peers(translator, only).items():
        found[name] = plain_step(system.train(), logits_of(system), precision)
    return found


def real_batches(translator: Translator, max_tokens: int = MAX_TOKENS) -> list[Batch]:
    """An epoch of the corpus that the model was trained on."""
    examples = tokenize_pairs(translator.tokenizer, pairs(translator, "train"), translator.model.config.max_length)
    return [make_batch([examples[i] for i in rows]) for rows in token_batches(examples, max_tokens, seed=1)]


def some_batches(translator: Translator) -> list[Batch]:
    """A few of them, of all lengths."""
    epoch = real_batches(translator)
    return epoch[:: max(1, len(epoch) // BATCHES)][:BATCHES]


def contestants(translator: Translator, batches: list[Batch], precision: torch.dtype) -> dict[str, Callable[[], float]]:
    """Every system's turn, in every setting, after each has met all batches once."""
    works: dict[str, Callable[[], float]] = {}
    for name, step in steps(translator, precision).items():
        for batch in batches:
            step(batch)
        works |= both_settings(name, lambda step=step: timed(Contestant(step, batches).turn))
    return works


def run(rounds: int = 3) -> None:
    """Both precisions, each one interleaved run; printed and recorded."""
    folder = model_folder()
    translator = Translator.load(folder, "cpu")
    batches = some_batches(translator)
    check_equal(translator, batches[0])
    tables = {}
    for precision in (torch.float32, torch.bfloat16):
        name = str(precision).removeprefix("torch.")
        table = interleaved(contestants(translator, batches, precision), rounds)
        show(f"training, {name}, target tokens a second", "tokens/s", table)
        tables[name] = table
    shapes = [(*batch.source.shape, batch.target_input.shape[1]) for batch in batches]
    flops = sum(training_flops(translator.model.config, *shape) for shape in shapes)
    record("benchmark-training", {
        "model": folder.name, "max_tokens": MAX_TOKENS, "batches": BATCHES, "rounds": rounds, "steps": STEPS,
        "flops_per_target_token": flops / sum(batch.num_tokens for batch in batches), "tables": tables,
    })  # fmt: skip
