"""The book's model with and without the climb of the rate (chapter 59): `python -m studies.warm_up [alike] [STEPS]`.

Its training once more, for the 300 steps of the climb, from three seeds: at the rate of the paper's formula and at half
of it, which the book's model has; each with the climb, and with a rate that is from the first step as high as the other
one gets in the end. Weights at the beginning and batches are the same. Recorded are the mean training loss of every ten
steps, and the validation loss at the end. The record is `data/runs/sentence/warm-up.json`. With `alike`, at the rate of
the formula, for 60 steps: how alike the encoder's vectors are for all tokens of 64 validation sentences, and the
model's answers at all their places, as the mean cosine of two of them; in `data/runs/sentence/alike.json`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, product
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from annotated.base.files import read_json
from annotated.batching import Batch, make_batch
from annotated.model import Transformer, TransformerConfig
from annotated.runs.examples import batch_all, batch_groups, tokenize_pairs
from annotated.schedule import learning_rate, set_learning_rate
from annotated.text.corpora import load_corpus
from annotated.text.tokenization import load_tokenizer
from annotated.training import TrainingConfig, train_step, validation_loss
from studies.common import begin, keep
from tools import ROOT

LOOKS = (0, 1, 2, 5, 10, 20, 30, 40, 50, 60)  # steps after which `alike` looks
RUNS = list(product((1.0, 0.5), (True, False), (1, 2, 3)))  # factor of the rate, whether it climbs, seed


def cosine(x: Tensor) -> float:
    """The mean cosine of two of these vectors, each with each and with itself."""
    return nn.functional.normalize(x, dim=-1).mean(dim=0).square().sum().item()


@torch.no_grad()
def alikeness(model: Transformer, batch: Batch) -> dict[str, float]:
    """How alike vectors and answers are, without dropout."""
    model.eval()
    vectors = model.encode(batch.source)[batch.source != model.config.pad_id]
    answers = model(batch.source, batch.target_input).softmax(dim=-1)[batch.target_output != model.config.pad_id]
    model.train()
    return {"vectors": round(cosine(vectors), 4), "answers": round(cosine(answers), 4)}


def run(factor: float, climbs: bool, seed: int, steps: int, looks: Sequence[int] = ()) -> dict[str, Any]:
    """One training."""
    begin()
    recorded = read_json(ROOT / "data" / "runs" / "embedded" / "run.json")
    corpus, tokenizer = load_corpus("embedded"), load_tokenizer(ROOT / "data" / "models" / "embedded")
    config = TrainingConfig(**recorded["training"] | {"max_steps": steps, "seed": seed})
    examples, valid = (tokenize_pairs(tokenizer, corpus.split(name), 256) for name in ("train", "valid"))
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(**recorded["model"]))
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    losses, asked = [], make_batch(valid[:64])
    seen = {"0": alikeness(model, asked)} if looks else {}
    for step, group in enumerate(islice(batch_groups(examples, config, 0, 0), steps), start=1):
        counted = step if climbs else max(step, config.warmup_steps)
        set_learning_rate(optimizer, learning_rate(counted, model.config.d_model, config.warmup_steps, factor))
        losses.append(train_step(model, optimizer, group.batches, config).item())
        if step in looks:
            seen[str(step)] = alikeness(model, asked)
    about = {"factor": factor, "climbs": climbs, "seed": seed}
    if looks:
        return about | {"alike": seen}
    means = {str(step): round(mean(losses[step - 10 : step]), 4) for step in range(10, steps + 1, 10)}
    return about | {"loss": means, "valid_loss": round(validation_loss(model, batch_all(valid, config.max_tokens)), 4)}


def main(arguments: list[str], processes: int = 2) -> None:
    """Train all, and write the record."""
    asked, words = arguments[:1] == ["alike"], arguments[arguments[:1] == ["alike"] :]
    if len(words) > 1 or not all(map(str.isdigit, words)):
        raise SystemExit("python -m studies.warm_up [alike] [STEPS]")
    begin()
    steps = int(words[0]) if words else max(LOOKS) if asked else 300
    some = [one for one in RUNS if not asked or one[0] == 1]
    with ProcessPoolExecutor(processes) as pool:
        runs = [pool.submit(run, *one, steps, LOOKS if asked else ()) for one in some]
        place = f"sentence/{'alike' if asked else 'warm-up'}.json"
        keep(place, ["warm_up", *arguments], {"runs": [one.result() for one in runs]})


if __name__ == "__main__":
    main(sys.argv[1:])
