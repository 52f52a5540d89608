"""How sentences fare that are longer than those of the training: the scores of `python -m tools.experiments length`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from annotated.base.corpus import Corpus
from annotated.batching import make_batch
from annotated.model import Transformer
from annotated.runs.examples import tokenize_pairs
from annotated.runs.state import TrainingState
from annotated.search.beam import greedy_search
from annotated.text.tokenization import Tokenizer
from tools.experiments import in_bucket


def judge(
    plan: Mapping[str, Any], path: Path, state: TrainingState, tokenizer: Tokenizer, corpus: Corpus
) -> dict[str, Any]:
    """`scores_by_length` of a unit."""
    return scores_by_length(state.model.cpu(), tokenizer, corpus, plan)


@torch.no_grad()
def scores_by_length(
    model: Transformer, tokenizer: Tokenizer, corpus: Corpus, plan: Mapping[str, Any]
) -> dict[str, Any]:
    """For each bucket of source lengths: right under teacher forcing and in free translation, and what ended early.

    Sentences longer than `max_words` come from the training split, where training has left them out, others from test.
    `tokens` and `forced` are the shares of tokens and of sentences that are right when the true words come before;
    `exact` is that of free greedy translations, `early` of those more than two tokens shorter than the reference.
    """
    found = {}
    for low, high in plan["buckets"]:
        split = corpus.split("test" if high <= plan["max_words"] else "train")
        pairs = [pair for pair in split if in_bucket(pair, low, high)][: plan["sentences"]]
        examples = tokenize_pairs(tokenizer, pairs, model.config.max_length)
        count = {"tokens": 0.0, "forced": 0, "exact": 0, "early": 0}
        for batch in (make_batch(examples[i : i + 50]) for i in range(0, len(examples), 50)):
            real = batch.target_output != model.config.pad_id
            right = (model(batch.source, batch.target_input).argmax(-1) == batch.target_output) | ~real
            outputs = [output.tokens for (output,) in greedy_search(model, batch.source, cache=False)]
            wanted = [row[keep].tolist() for row, keep in zip(batch.target_output, real, strict=True)]
            count["tokens"] += ((right & real).sum(1) / real.sum(1)).sum().item()
            count["forced"] += right.all(1).sum().item()
            count["exact"] += sum(one == other for one, other in zip(outputs, wanted, strict=True))
            count["early"] += sum(len(one) < len(other) - 2 for one, other in zip(outputs, wanted, strict=True))
        shares = {name: number / len(examples) for name, number in count.items()}
        found[f"{low} to {high} words"] = {"sentences": len(examples), **shares}
    return found
