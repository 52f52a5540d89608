"""Steps with and without `compile`, told as a line of JSON: `python -m tests.compiled`.

A process of its own, since `torch.compile` cannot look into functions whose shapes are checked while they run. The
backend `aot_eager` goes all the way but for the compiler.
"""

from __future__ import annotations

import json
from functools import partial

import torch
from torch._dynamo.utils import counters

from annotated.batching import make_batch
from annotated.machine.acceleration import accelerate, hidden_states
from annotated.model import Transformer, TransformerConfig
from annotated.runs.training import losses_of
from annotated.schedule import build_optimizer, set_learning_rate
from annotated.training import TrainingConfig, train_step

SIZES = ((5, 7), (4, 10), (8, 12), (6, 9))  # sentences, and target tokens: all shapes differ
BATCHES = [make_batch([([5] * n + [3], [6 + n] * length + [3]) for n in range(1, count)]) for count, length in SIZES]


def small(dropout: float) -> Transformer:
    """The same small model each time."""
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1}
    return accelerate(Transformer(TransformerConfig(50, **sizes, dropout=dropout)).train())


def losses(**options: bool | str) -> list[float]:
    """The losses of some steps, each following from the gradients before."""
    model = small(dropout=0.0)
    optimizer = build_optimizer(model.parameters())
    set_learning_rate(optimizer, 0.01)
    config = TrainingConfig(max_steps=9, **options)
    loss_of, _ = losses_of(model, optimizer, config)
    return [train_step(model, optimizer, [batch], config, loss_of).item() for batch in BATCHES]


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.compile = partial(torch.compile, backend="aot_eager")
    told: dict[str, object] = {"eager": losses(precision="float32")}
    told |= {"compiled": losses(precision="float32", compile=True), "programs": counters["stats"]["unique_graphs"]}
    dropping = torch._dynamo.explain(hidden_states)(small(0.1), BATCHES[0].source, BATCHES[0].target_input)
    print(json.dumps(told | {"parts with dropout": dropping.graph_count}))
