"""Experiments of several runs: `python -m tools.experiments table-3 --minutes 60`.

`data/runs/NAME/plan.yml` says what is compared, with which seeds, and what counts as the same. It is committed before
the first run. A unit is a row of the plan with one seed. Units run in processes of one thread each, all rows with one
seed before the next seed. A unit that was stopped goes on where it was; one that is done is
`data/runs/NAME/ROW-SEED.json`. A record names its commit, so run it where nobody edits, after
`git worktree add ../runs HEAD`. Units are judged by BLEU, chrF and exact matches, or by the study that `JUDGES` names.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import math
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import yaml
from safetensors.torch import save

from annotated.base.corpus import Corpus, SentencePair
from annotated.base.files import InputError, read_json, write_atomically, write_json
from annotated.batching import Example
from annotated.machine.acceleration import tune_machine
from annotated.machine.devices import best_device, describe_machine
from annotated.model import Transformer, TransformerConfig
from annotated.runs.checkpoint import load_weights, weights_of
from annotated.runs.examples import examples_by_epoch, tokenize_pairs
from annotated.runs.folder import resumable
from annotated.runs.state import TrainingState
from annotated.runs.training import train
from annotated.schedule import build_optimizer
from annotated.search.translation import Translator
from annotated.text.corpora import load_corpus
from annotated.text.evaluation import antecedent_accuracy, evaluate_translations
from annotated.text.grammar.splits import corpus_fingerprint
from annotated.text.grammar.words import words
from annotated.text.tokenization import Tokenizer, load_tokenizer, train_tokenizer
from annotated.text.treebank import TASKS, task_corpus, treebank_corpus
from annotated.training import TrainingConfig
from annotated.variations import CHANGES
from tools import ROOT

RUNS = ROOT / "data" / "runs"
WORK = ROOT / "runs" / "experiments"  # what a stopped unit goes on from
CPU = torch.device("cpu")
JUDGES = {"edits": "since_2017", "buckets": "length", "searches": "parsing"}  # a word of a plan: the study that judges
Plan = dict[str, Any]


@contextmanager
def kept_in(records: Path, work: Path) -> Iterator[None]:
    """For a while, read plans from and write records to another folder, and what units go on from to `work`."""
    global RUNS, WORK
    before, (RUNS, WORK) = (RUNS, WORK), (records, work)
    try:
        yield
    finally:
        RUNS, WORK = before


def load_plan(name: str) -> Plan:
    """The plan of an experiment. Raises InputError when there is none."""
    path = RUNS / name / "plan.yml"
    if not path.is_file():
        raise InputError(f"{path}: no such plan")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def units(plan: Plan) -> list[tuple[str, int]]:
    """Every row with each of its seeds (its own, or the plan's), all rows with their first seed before the next."""
    seeds = {row["id"]: row.get("seeds", plan["seeds"]) for row in plan["rows"]}
    rounds = range(max(map(len, seeds.values())))
    return [(row, own[turn]) for turn in rounds for row, own in seeds.items() if turn < len(own)]


def row_of(plan: Plan, row: str) -> dict[str, Any]:
    """A row of the plan by its id."""
    return next(one for one in plan["rows"] if one["id"] == row)


def tokenizer_of(corpus: Corpus, vocab_size: int) -> Tokenizer:
    """The shipped tokenizer for the embedded corpus, else one learned from the training pairs, as records have it."""
    if corpus.name == "embedded":
        return load_tokenizer(ROOT / "data" / "models" / "embedded")
    texts = (text for pair in corpus.split("train") for text in (pair.source, pair.target))
    return train_tokenizer(texts, vocab_size, "nmt_nfkc")


def corpus_of(name: str, pairs: int | None = None, copied: bool = True) -> Corpus:
    """The corpus of that name, also those of chapter 63; `pairs` limits the embedded splits."""
    if name == "treebank":
        return treebank_corpus(copied=copied)
    return task_corpus(name, pairs) if name in TASKS else load_corpus(name)


@lru_cache(maxsize=1)  # rows of a plan mostly share it
def prepared(
    name: str, pairs: int | None, copied: bool, vocab_size: int, max_words: float, max_length: int
) -> tuple[Corpus, Tokenizer, list[Example], list[Example]]:
    """A corpus, its tokenizer, and the examples of training and validation; sources of more words are left out."""
    corpus = corpus_of(name, pairs, copied)
    tokenizer = tokenizer_of(corpus, vocab_size)
    short = partial(in_bucket, low=0, high=max_words)
    train, valid = ([pair for pair in corpus.split(part) if short(pair)] for part in ("train", "valid"))
    return corpus, tokenizer, *(tokenize_pairs(tokenizer, part, max_length) for part in (train, valid))


def data_of(plan: Plan, row: str) -> tuple[Corpus, Tokenizer, list[Example], list[Example]]:
    """What a row learns from: the plan's corpus or its own, translations or a task of chapter 63."""
    asked, model = plan | row_of(plan, row), plan["model"] | row_of(plan, row).get("model", {})
    options = asked.get("pairs"), asked.get("copied", True), plan.get("vocab_size", 0), asked.get("max_words", math.inf)
    return prepared(asked["corpus"], *options, model.get("max_length", TransformerConfig.max_length))


def studied(word: str) -> ModuleType:
    """The study that a word of a plan calls for."""
    return importlib.import_module(f"studies.{JUDGES[word]}")


def start(plan: Plan, row: str, seed: int, tokenizer: Tokenizer) -> tuple[Transformer, TrainingConfig]:
    """The model of a unit before its first step, and how it trains."""
    chosen = row_of(plan, row)
    config = TransformerConfig(len(tokenizer), **plan["model"] | chosen.get("model", {}))
    training = TrainingConfig(**plan["training"] | chosen.get("training", {}), seed=seed)
    torch.manual_seed(seed)
    model = (
        studied("edits").edited(config, chosen["edits"], **chosen.get("stack", {}))
        if "edits" in chosen
        else Transformer(config)
    )
    if "change" in chosen:
        CHANGES[chosen["change"]](model)
    return model, training


def train_unit(
    plan: Plan,
    row: str,
    seed: int,
    folder: Path | None = None,
    stop: Callable[[], bool] = lambda: False,
    device: torch.device = CPU,
) -> tuple[TrainingState, Tokenizer, Corpus]:
    """Train a unit, or go on with it where `folder` has a state of it."""
    corpus, tokenizer, examples, valid = data_of(plan, row)
    model, config = start(plan, row, seed, tokenizer)
    resume = folder is not None and resumable(folder)
    training = examples_by_epoch(tokenizer, examples, config, model.config)
    model = model.to(device)
    measure = pronouns_right(tokenizer, corpus) if plan.get("curve") == "pronouns" else lambda model: {}
    edits = row_of(plan, row).get("edits", ())
    optimizer = studied("edits").optimizer_for(edits, config, model.config.d_model) if edits else build_optimizer
    state = train(
        model, training, valid, config, folder=folder, resume=resume, measure=measure, stop=stop, optimizer=optimizer
    )
    return state, tokenizer, corpus


def pronouns_right(tokenizer: Tokenizer, corpus: Corpus) -> Callable[[Transformer], dict[str, float]]:
    """For a curve: the share of validation sentences whose pronouns a greedy translation gets right."""
    pairs = [pair for pair in corpus.split("valid") if pair.antecedents]

    def measure(model: Transformer) -> dict[str, float]:
        outputs = Translator(model, tokenizer).translate([pair.source for pair in pairs], beam_size=1)
        return {"pronouns": antecedent_accuracy(outputs, pairs)}

    return measure


def trained(state: TrainingState) -> Transformer:
    """The model with the weights that are judged: the running average where there is one."""
    load_weights(state.model, state.weights(), "the running average")
    return state.model.eval()


def keep_weights(path: Path, model: Transformer) -> None:
    """Write a model's weights in half precision, and give it these, so that what is judged is what was kept."""
    half = {name: weight.half().contiguous().cpu() for name, weight in weights_of(model).items()}
    write_atomically(path, save(half))
    load_weights(model, {name: weight.float() for name, weight in half.items()}, str(path))


def in_bucket(pair: SentencePair, low: float, high: float) -> bool:
    """Whether the source has so many words, punctuation not counted."""
    return low <= sum(token.isalpha() for token in words(pair.source)) <= high


def scores_of(model: Transformer, tokenizer: Tokenizer, corpus: Corpus, plan: Plan) -> dict[str, Any]:
    """BLEU, chrF and exact matches on each split with a beam of 4, and pronouns where the corpus has antecedents."""
    translator, found = Translator(model, tokenizer), {}
    for split in plan["splits"]:
        pairs = corpus.split(split)
        outputs = translator.translate([pair.source for pair in pairs], beam_size=4)
        scores = evaluate_translations(outputs, [pair.target for pair in pairs])
        found[split] = {"sentences": len(pairs), "exact": scores.exact_match, "bleu": scores.bleu, "chrf": scores.chrf}
        found[split]["signature"] = scores.bleu_signature
        if any(pair.antecedents for pair in pairs):
            found[split]["pronouns"] = antecedent_accuracy(outputs, pairs)
    return found


def judge(
    plan: Plan, row: str, path: Path, state: TrainingState, tokenizer: Tokenizer, corpus: Corpus
) -> dict[str, Any]:
    """The scores that the plan asks for, for the record at `path`."""
    model, asked = trained(state), plan | row_of(plan, row)
    if path.stem in plan.get("keep", []):
        keep_weights(path.with_suffix(".safetensors"), model)
    for word in JUDGES:
        if word in asked:
            return studied(word).judge(asked, path, state, tokenizer, corpus)
    return scores_of(model, tokenizer, corpus, plan)


def run_unit(name: str, row: str, seed: int, deadline: float, device: torch.device = CPU) -> str:
    """Run a unit in this process until it is done or time is up; say in a line what came of it."""
    plan = load_plan(name)
    torch.set_num_threads(plan.get("threads", 1))
    tune_machine()
    folder, begun = WORK / name / f"{row}-{seed}", time.monotonic()
    state, tokenizer, corpus = train_unit(plan, row, seed, folder, lambda: time.monotonic() > deadline, device)
    done = f"{name}, {row} {seed}: {state.step} steps"
    if state.step < train_steps(plan, row):
        return f"{done}, to be continued"
    losses = {line["step"]: line["valid_loss"] for line in state.history if "valid_loss" in line}
    done += f", validation loss {losses[state.step]:.4f}"
    command = f"python -m tools.experiments {name}" + ("" if device == CPU else f" --device {device}")
    result = {"row": row, "seed": seed, "command": command, "plan": plan_hash(name)}
    result |= describe_machine(device)
    result |= {"corpus_version": corpus_fingerprint()} if corpus.name == "embedded" else {}
    result |= {"parameters": state.model.num_parameters(), "steps": state.step, "target_tokens": state.tokens}
    lines = [line for line in state.history if "loss" in line and (line["step"] == 20 or line["step"] % 500 == 0)]
    result |= {"seconds": round(state.seconds, 1), "valid_loss": losses}
    result |= {"loss": {line["step"]: line["loss"] for line in lines}}  # that of 20 steps is to be repeated
    if curve := {line["step"]: line["pronouns"] for line in state.history if "pronouns" in line}:
        result |= {"pronouns": curve}
    path = RUNS / name / f"{row}-{seed}.json"
    result |= {"scores": judge(plan, row, path, state, tokenizer, corpus)}
    write_json(path, result)
    parts = [(part, found) for part, found in result["scores"].items() if isinstance(found, dict) and "exact" in found]
    shown = ", ".join(f"{part} {found['exact']:.1%} exact" for part, found in parts)
    return f"{done}; {shown} ({time.monotonic() - begun:.0f} s)"


def reached(name: str, row: str, seed: int) -> int:
    """The step from which a unit that was stopped would go on."""
    states = (WORK / name / f"{row}-{seed}" / "checkpoints").glob("step-*.state")
    return max((int(path.stem.removeprefix("step-")) for path in states), default=0)


def train_steps(plan: Plan, row: str) -> int:
    """How many steps a row takes."""
    return (plan["training"] | row_of(plan, row).get("training", {}))["max_steps"]


def plan_hash(name: str) -> str:
    """A hash of the plan, which every record of the experiment carries."""
    return hashlib.sha256((RUNS / name / "plan.yml").read_bytes()).hexdigest()[:16]


def missing(name: str) -> list[tuple[str, int]]:
    """The units that are not done, or were done by another plan."""
    plan, left = load_plan(name), []
    for row, seed in units(plan):
        path = RUNS / name / f"{row}-{seed}.json"
        if not path.exists() or read_json(path)["plan"] != plan_hash(name):
            left.append((row, seed))
    return left


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.experiments", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="a folder in data/runs that has a plan")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after so many (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="how many units at a time (default: %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, or auto (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        device = best_device(options.device)
        left = [(name, row, seed) for name in options.names for row, seed in missing(name)]
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    deadline = time.monotonic() + 60 * options.minutes
    print(f"{len(left)} of {sum(len(units(load_plan(name))) for name in options.names)} units to do", flush=True)
    for line in run_units(left, deadline, options.processes, device):
        print(line, flush=True)
    return 0


def run_units(
    left: Sequence[tuple[str, str, int]], deadline: float, processes: int, device: torch.device = CPU
) -> Iterator[str]:
    """Run units side by side, each in a process of its own, or one after another in this one; a line of each."""
    if processes == 1:
        yield from (in_time(deadline, *unit, device) for unit in left)
        return
    fresh = multiprocessing.get_context("spawn")  # a forked process could not use a GPU
    with ProcessPoolExecutor(processes, fresh, become_unit, (RUNS, WORK), max_tasks_per_child=1) as pool:
        for future in as_completed([pool.submit(in_time, deadline, *unit, device) for unit in left]):
            yield future.result()


def become_unit(records: Path, work: Path) -> None:
    """Let a new process keep its records where the first one does."""
    global RUNS, WORK
    RUNS, WORK = records, work


def in_time(deadline: float, name: str, row: str, seed: int, device: torch.device = CPU) -> str:
    """Run a unit, unless the time was up before it could begin."""
    if time.monotonic() < deadline:
        return run_unit(name, row, seed, deadline, device)
    return f"{name}, {row} {seed}: not begun"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
