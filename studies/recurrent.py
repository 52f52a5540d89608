"""Train the recurrent translator of chapter 20: `python -m studies.recurrent`.

Its learning rate is searched first: `RATES` are tried for `TRIAL_STEPS` steps each, and the one with the lowest
validation loss at the end trains it to the end. The Transformer's rate gets the same test. All else is as in
`data/runs/embedded-sinusoidal`: data, subwords, batches, warm-up, average of weights, number of steps, one thread.
Each finished training is kept in `runs/recurrent/`; a command that was stopped goes on with the one it was in.
What a step of each takes is measured at the end, both in turn, so that other work during the training does not count.
Written is `data/runs/recurrent/results.json`. Its `partner` names the run that it is shown beside.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch

from annotated.base.files import read_json, write_json
from annotated.batching import pad_sequences
from annotated.model import Transformer, TransformerConfig
from annotated.recurrent import RecurrentConfig, RecurrentTranslator, greedy_translation
from annotated.runs.checkpoint import load_weights
from annotated.runs.examples import tokenize_pairs
from annotated.runs.training import train
from annotated.text.corpora import load_corpus
from annotated.text.evaluation import evaluate_translations
from annotated.text.grammar.splits import corpus_fingerprint
from annotated.text.pairs import in_batches
from annotated.text.tokenization import Tokenizer, detokenize, load_tokenizer, tokenize
from annotated.training import Model, TrainingConfig
from studies.common import begin, keep
from tools import ROOT

PARTNER = ROOT / "data" / "runs" / "embedded-sinusoidal" / "run.json"
RATES = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)  # factors on the schedule of section 5.3
PARTNER_RATES = (0.25, 0.5, 1.0)  # the partner has 0.5
CLIP_NORM = 1.0  # usual for recurrent networks: their gradients can explode
TRIAL_STEPS, STEPS = 1000, None  # the last as many as the partner has
TIMED, ROUNDS = 20, 5  # steps, and rounds of them
SPLITS = ("test", "pronoun", "long")
CORPUS = load_corpus("embedded")


def options(factor: float, steps: int | None = None, clip_norm: float | None = CLIP_NORM) -> TrainingConfig:
    """The partner's options, with a rate factor and a limit on the gradient's norm."""
    partner = TrainingConfig(**read_json(PARTNER)["training"])
    return replace(partner, rate_factor=factor, clip_norm=clip_norm, max_steps=steps or partner.max_steps)


def recurrent(vocab_size: int) -> RecurrentTranslator:
    """The translator of chapter 20."""
    return RecurrentTranslator(RecurrentConfig(vocab_size))


def transformer(vocab_size: int) -> Transformer:
    """The partner's model."""
    return Transformer(TransformerConfig(**read_json(PARTNER)["model"] | {"vocab_size": vocab_size}))


def train_once(build: Callable[[int], Model], config: TrainingConfig, path: Path, scored: bool = False) -> dict:
    """Train a model with these options unless `path` holds the result, which is returned."""
    if path.exists():
        return read_json(path)
    tokenizer = load_tokenizer(ROOT / "data" / "models" / "embedded")
    torch.manual_seed(config.seed)
    model = build(len(tokenizer))
    length = model.config.max_length
    examples, valid = (tokenize_pairs(tokenizer, CORPUS.split(name), length) for name in ("train", "valid"))
    state = train(model, examples, valid, config)
    best = min((line for line in state.history if "valid_loss" in line), key=lambda line: line["valid_loss"])
    result = {"rate_factor": config.rate_factor, "training": asdict(config), "steps": state.step}
    result |= {"parameters": model.num_parameters(), "model": asdict(model.config)}
    result |= {"wall_seconds": round(state.seconds, 1)}
    result |= {"best_valid_loss": best["valid_loss"], "history": state.history}
    if scored:
        load_weights(model, state.average, path)
        result["scores"] = {split: score(model.eval(), tokenizer, split) for split in SPLITS}
    print(f"{path.stem}: validation loss {result['best_valid_loss']:.4f}", flush=True)
    write_json(path, result)
    return result


def seconds_a_step() -> dict[str, float]:
    """What a training step of each takes: both in turn, the fastest round counts, on the same batches."""
    tokenizer = load_tokenizer(ROOT / "data" / "models" / "embedded")
    examples = tokenize_pairs(tokenizer, CORPUS.split("train")[:4000], 256)
    found = {"recurrent": math.inf, "transformer": math.inf}
    for _ in range(ROUNDS):
        for name, build in (("recurrent", recurrent), ("transformer", transformer)):
            torch.manual_seed(1)
            state = train(build(len(tokenizer)), examples, examples[:8], options(1.0, TIMED))
            found[name] = min(found[name], state.seconds / state.step)
    return found


def score(model: RecurrentTranslator, tokenizer: Tokenizer, split: str) -> dict:
    """Exact match and BLEU of greedy translations of a split."""
    pairs = CORPUS.split(split)
    sources = tokenize(tokenizer, [pair.source for pair in pairs])
    rows = in_batches(sources, 4000, partial(translate_batches, model))
    scores = evaluate_translations(detokenize(tokenizer, rows), [pair.target for pair in pairs])
    return asdict(scores)


def translate_batches(model: RecurrentTranslator, batches: list[list[list[int]]]) -> Iterator[list[list[int]]]:
    """The greedy translations of each batch of sources, without what follows eos."""
    end = model.config.end_id
    for batch in batches:
        source = pad_sequences(batch, model.config.pad_id)
        rows = greedy_translation(model, source, source.shape[1] + 50).tolist()
        yield [row[: row.index(end)] if end in row else row for row in rows]


def main(arguments: list[str], folder: Path = ROOT / "runs" / "recurrent") -> None:
    """Go on with what `folder` lacks, measure what a step takes, and write the record."""
    if arguments:
        sys.exit(__doc__)
    begin()
    folder.mkdir(parents=True, exist_ok=True)
    trials = [train_once(recurrent, options(factor, TRIAL_STEPS), folder / f"trial-{factor}.json") for factor in RATES]
    best = min(trials, key=lambda trial: trial["best_valid_loss"])["rate_factor"]
    run = train_once(recurrent, options(best, STEPS), folder / "run.json", scored=True)
    partners = [
        train_once(transformer, options(factor, TRIAL_STEPS, clip_norm=None), folder / f"transformer-{factor}.json")
        for factor in PARTNER_RATES
    ]
    record = {"corpus_version": corpus_fingerprint(), "partner": PARTNER.parent.name}
    record |= {"seconds_a_step": seconds_a_step(), "trials": trials, "partner_trials": partners, "run": run}
    keep("recurrent/results.json", ["recurrent"], record)


if __name__ == "__main__":
    main(sys.argv[1:])
