"""What `torchrun` starts in test_distributed.py: a training in float64 that says what it saw.

`python -m tests.shared_training FOLDER STEPS [resume]`, or `torchrun --nproc-per-node=N -m tests.shared_training ...`.
"""

import json
import random
import sys
from pathlib import Path

import torch

from annotated.machine.distributed import from_all, processes, rank
from annotated.model import Transformer, TransformerConfig
from annotated.runs import training
from annotated.text.pairs import Pairs
from annotated.training import TrainingConfig

ACCUMULATION = 4
CONFIG = TrainingConfig(
    max_steps=1, max_tokens=60, accumulation=ACCUMULATION, warmup_steps=20, validate_every=10, precision="float32",
    accelerate=False, checkpoint_minutes=0.0, seed=3,
)  # fmt: skip


def examples() -> list[tuple[list[int], list[int]]]:
    """Pairs whose lengths differ, so that batches and processes have unequal numbers of tokens."""
    choose = random.Random(0)
    sides = [[choose.randint(4, 39) for _ in range(choose.randint(1, 12))] + [3] for _ in range(606)]
    return list(zip(sides[::2], sides[1::2], strict=True))


def main(folder: str, steps: str, resume: str = "") -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(40, d_model=16, d_ff=32, num_heads=2, num_layers=1, dropout=0.0)).double()
    pairs, seen = examples(), []
    make = Pairs.batch

    def noted(self, chosen, *ids):
        seen.extend(chosen.tolist() if len(self) == len(pairs) else ())  # not those to validate by
        return make(self, chosen, *ids)

    valid = pairs[:150]
    Pairs.batch, training.prefetch = noted, iter  # nothing made ahead: what is made is used
    config = TrainingConfig(**{**CONFIG.__dict__, "max_steps": int(steps)})
    state = training.train(model, pairs, valid, config, folder=Path(folder), resume=bool(resume))
    shares, drawn = from_all(seen), from_all(torch.rand(()).item())
    if not rank():
        found = {"history": state.history, "seen": shares, "drawn": drawn, "tokens": state.tokens, "epoch": state.epoch}
        (Path(folder) / f"seen-{steps}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    with processes():
        main(*sys.argv[1:])
