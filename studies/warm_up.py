"""The book's model with and without the climb of the rate (chapter 59): `python -m studies.warm_up [STEPS]`.

Its training once more, for the 300 steps of the climb, from three seeds: at the rate of the paper's formula and at half
of it, which the book's model has; each with the climb, and with a rate that is from the first step as high as the other
one gets in the end. Weights at the beginning and batches are the same. Recorded are the mean training loss of every ten
steps, and the validation loss at the end. The record is `data/runs/sentence/warm-up.json`.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, product
from statistics import mean
from typing import Any

import torch

from annotated.base.files import read_json
from annotated.model import Transformer, TransformerConfig
from annotated.runs.examples import batch_all, batch_groups, tokenize_pairs
from annotated.schedule import learning_rate, set_learning_rate
from annotated.text.corpora import load_corpus
from annotated.text.tokenization import load_tokenizer
from annotated.training import TrainingConfig, train_step, validation_loss
from studies.common import begin, keep
from tools import ROOT

RUNS = list(product((1.0, 0.5), (True, False), (1, 2, 3)))  # factor of the rate, whether it climbs, seed


def run(factor: float, climbs: bool, seed: int, steps: int) -> dict[str, Any]:
    """One training."""
    begin()
    recorded = read_json(ROOT / "data" / "runs" / "embedded" / "run.json")
    corpus, tokenizer = load_corpus("embedded"), load_tokenizer(ROOT / "data" / "models" / "embedded")
    config = TrainingConfig(**recorded["training"] | {"max_steps": steps, "seed": seed})
    examples, valid = (tokenize_pairs(tokenizer, corpus.split(name), 256) for name in ("train", "valid"))
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(**recorded["model"]))
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for step, group in enumerate(islice(batch_groups(examples, config, 0, 0), steps), start=1):
        counted = step if climbs else max(step, config.warmup_steps)
        set_learning_rate(optimizer, learning_rate(counted, model.config.d_model, config.warmup_steps, factor))
        losses.append(train_step(model, optimizer, group.batches, config).item())
    means = {str(step): round(mean(losses[step - 10 : step]), 4) for step in range(10, steps + 1, 10)}
    at_end = round(validation_loss(model, batch_all(valid, config.max_tokens)), 4)
    return {"factor": factor, "climbs": climbs, "seed": seed, "loss": means, "valid_loss": at_end}


def main(arguments: list[str], processes: int = 2) -> None:
    """Train all, and write the record."""
    if not all(map(str.isdigit, arguments)):
        raise SystemExit("python -m studies.warm_up [STEPS]")
    begin()
    steps = int(arguments[0]) if arguments else 300
    with ProcessPoolExecutor(processes) as pool:
        runs = [pool.submit(run, *one, steps) for one in RUNS]
        keep("sentence/warm-up.json", ["warm_up", *arguments], {"runs": [one.result() for one in runs]})


if __name__ == "__main__":
    main(sys.argv[1:])
