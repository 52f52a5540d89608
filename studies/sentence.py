"""What becomes of two sentences while the book's model trains (chapter 59): `python -m studies.sentence [STEPS]`.

The training of `data/models/embedded` once more, for its first 6,000 steps, with the same settings, weights at the
beginning and batches. After every 100 steps the averaged weights translate the book's two sentences greedily, and say
what share of the validation tokens they have right when the true ones come before. The record is
`data/runs/sentence/steps.json`.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from annotated.base.files import read_json
from annotated.batching import Batch
from annotated.machine.acceleration import tune_machine
from annotated.model import Transformer, TransformerConfig
from annotated.runs.examples import batch_all, tokenize_pairs
from annotated.runs.training import train
from annotated.search.translation import Translator
from annotated.text.corpora import load_corpus
from annotated.text.tokenization import load_tokenizer
from annotated.training import TrainingConfig
from studies.common import keep
from tools import ROOT

TWINS = [f"The animal did not cross the street because it was too {adjective}." for adjective in ("tired", "wide")]


@torch.no_grad()
def share_right(model: Transformer, batches: list[Batch]) -> float:
    """The share of target tokens that are the likeliest after the true ones before them."""
    right = total = 0
    for batch in batches:
        real = batch.target_output != model.config.pad_id
        guesses = model(batch.source, batch.target_input).argmax(dim=-1)
        right, total = right + (guesses == batch.target_output)[real].sum().item(), total + real.sum().item()
    return right / total


def follow(steps: int, **smaller: Any) -> dict[str, Any]:
    """The run, with a line for each validation; `smaller` replaces settings of the training."""
    recorded = read_json(ROOT / "data" / "runs" / "embedded" / "run.json")
    corpus, tokenizer = load_corpus("embedded"), load_tokenizer(ROOT / "data" / "models" / "embedded")
    config = TrainingConfig(**recorded["training"] | {"max_steps": steps} | smaller)
    model = TransformerConfig(**recorded["model"])
    train_pairs, valid_pairs = (tokenize_pairs(tokenizer, corpus.split(name), 256) for name in ("train", "valid"))
    batches, written = batch_all(valid_pairs, config.max_tokens), []

    def measure(model: Transformer) -> dict[str, float]:
        written.append(Translator(model, tokenizer).translate(TWINS, beam_size=1))
        return {"right": share_right(model.eval(), batches)}

    torch.manual_seed(config.seed)
    state = train(Transformer(model), train_pairs, valid_pairs, config, measure=measure)
    seen = [line for line in state.history if "valid_loss" in line]
    lines = [
        {name: line[name] for name in ("step", "valid_loss", "right")} | {"written": texts}
        for line, texts in zip(seen, written, strict=True)
    ]
    return {"seconds": round(state.seconds, 1), "sentences": TWINS, "lines": lines}


def main(arguments: list[str]) -> None:
    """Follow the sentences and write the record."""
    if not all(map(str.isdigit, arguments)):
        raise SystemExit("python -m studies.sentence [STEPS]")
    tune_machine()
    keep("sentence/steps.json", ["sentence", *arguments], follow(int(arguments[0]) if arguments else 6_000))


if __name__ == "__main__":
    main(sys.argv[1:])
