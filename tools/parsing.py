"""The runs of chapter 63, section 6.3 at this book's size: `python -m tools.parsing`.

Parsing, two ways to tag entities, and compression are learned from the embedded corpus, and parsing from NLTK's sample
of the Penn Treebank, which is read from $ANNOTATED_DATA/ptb_sample/treebank.zip. For the treebank a few dropouts and
learning rates are tried for `TRIAL_STEPS` steps each; those with the lowest loss on its development part train to the
end. One more trial has no parts of speech in its trees. The beam is the paper's; smaller ones are scored beside it.

Each run has one thread; two run at a time. Finished runs and evaluations are kept in `runs/parsing/`, so a command that
was stopped goes on where it was. When all are done, `data/runs/parsing/` gets `results.json` and the outputs on the
embedded corpus's splits; of the treebank it holds scores and counts only. The parser of the embedded corpus becomes
`data/models/parser`, in half precision, and is scored as such. When only the embedded corpus has changed,
`--keep-treebank` leaves the recorded runs on the treebank as they are.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch

from annotated.acceleration import tune_machine
from annotated.checkpoint import load_model, save_model
from annotated.corpora import Corpus
from annotated.files import read_json, write_atomically, write_json
from annotated.grammar import SentencePair, corpus_fingerprint
from annotated.machine import describe_machine
from annotated.model import TransformerConfig
from annotated.parsing import (
    PARSING_SEARCH,
    Outcome,
    compression_outcome,
    count_words,
    marking_outcome,
    parse_brackets,
    parse_outcome,
    read_tree,
    tagging_outcome,
    task_corpus,
    total_scores,
    transduce,
    treebank_corpus,
)
from annotated.tokenization import load_tokenizer
from annotated.training import TrainingConfig, tokenize_pairs, train_on_corpus
from annotated.translation import Translator
from tools.clean import ROOT

PAIRS = 20_000  # of the embedded corpus's training split
SIZES = {"d_model": 128, "d_ff": 512, "num_heads": 4, "num_layers": 2}  # as in data/runs/embedded-sinusoidal
TRAINING = TrainingConfig(
    max_tokens=2000, max_steps=1, warmup_steps=300, rate_factor=0.5, average_decay=0.995, precision="float32",
    validate_every=100, checkpoint_minutes=1.0, keep_checkpoints=1,
)  # fmt: skip
STEPS = {"parsing": 2200, "tagging": 900, "marking": 900, "compression": 900, "treebank": 4500}
EMBEDDED_TASKS = ("parsing", "tagging", "marking", "compression")
TRIAL_STEPS = 700
TRIALS = (  # dropout, attention dropout, factor on the schedule of section 5.3
    (0.1, 0.0, 0.5),
    (0.2, 0.2, 0.5),
    (0.2, 0.2, 0.25),
)
UNTAGGED = TRIALS[0]  # once more, with XX for every part of speech
BEAMS = (1, 4, PARSING_SEARCH["beam_size"])
SPLITS = {  # what is scored, with which beams
    "parsing": {"test": BEAMS, "long": BEAMS[-1:]},
    "tagging": {"test": BEAMS[-1:]},
    "marking": {"test": BEAMS[-1:]},
    "compression": {"test": BEAMS[-1:]},
    "treebank": {"valid": BEAMS, "test": BEAMS},
}


@dataclass(frozen=True)
class Run:
    """One training: its name, its corpus, the size of its vocabulary, the model's options, and the training's."""

    name: str
    task: str
    vocab_size: int
    model: dict
    training: TrainingConfig
    tags: bool = True

    def corpus(self) -> Corpus:
        return treebank_corpus(tags=self.tags) if self.task == "treebank" else task_corpus(self.task, PAIRS)


def all_scores(run: Run) -> list[tuple[str, int]]:
    """The splits and beams to score a run with; a trial has one of each."""
    splits = {"valid": BEAMS[:1]} if run.name.startswith("trial") else SPLITS[run.task]
    return [(split, beam) for split, beams in splits.items() for beam in beams]


def embedded_run(task: str, share: float) -> Run:
    """A task on the embedded corpus; `share` of the steps are done."""
    training = replace(TRAINING, max_steps=max(1, round(share * STEPS[task])))
    return Run(task, task, 1000, SIZES | {"dropout": 0.1, "max_length": 512}, training)


def treebank_run(
    name: str, steps: int, dropout: float, attention_dropout: float, factor: float, tags: bool = True
) -> Run:
    """The treebank with one setting."""
    model = SIZES | {"dropout": dropout, "attention_dropout": attention_dropout, "max_length": 1024}
    training = replace(TRAINING, max_steps=max(1, steps), rate_factor=factor)
    return Run(name, "treebank", 2000, model, training, tags)


def train_run(run: Run, folder: Path) -> dict:
    """Train, or go on training, in a process of its own; returns what is recorded of it."""
    torch.set_num_threads(1)
    tune_machine()
    path = folder / run.name
    if not ((path / "run.json").exists() and read_json(path / "run.json")["finished"]):
        resume = (path / "state.safetensors").exists() and (path / "run.json").exists()
        if not resume:
            shutil.rmtree(path, ignore_errors=True)
        sizes = partial(TransformerConfig, **run.model)
        options = {"vocab_size": run.vocab_size, "device": torch.device("cpu"), "resume": resume, "progress": False}
        state = train_on_corpus(run.corpus(), sizes, run.training, path, **options)
        write_json(path / "history.json", state.history)
    description, history = read_json(path / "run.json"), read_json(path / "history.json")
    curves = {
        name: [(line["step"], round(line[name], 5)) for line in history if name in line]
        for name in ("loss", "valid_loss")
    }
    drop = ("command", "finished", "device", "threads", "python", "torch", "revision")
    result = {key: value for key, value in description.items() if key not in drop}
    result["sentences_seen"] = sentences_seen(run, path, result["target_tokens"])
    return {"tags": run.tags} | result | {"curves": curves}


def sentences_seen(run: Run, path: Path, tokens: int) -> int:
    """About how many sentences have so many target tokens, with those of the training split as they are on average."""
    tokenizer = load_tokenizer(path)
    examples = tokenize_pairs(tokenizer, run.corpus().split("train"), run.model["max_length"])
    return round(tokens * len(examples) / sum(len(target) for _, target in examples))


def outcomes_of(task: str, pairs: Sequence[SentencePair], outputs: Sequence[str]) -> list[Outcome]:
    """What each output says, beside the truth."""

    def parsed(pair: SentencePair, output: str) -> Outcome:
        gold = read_tree(pair.tree)
        return parse_outcome(gold, parse_brackets(output, gold.words()))

    others = {"tagging": tagging_outcome, "marking": marking_outcome, "compression": compression_outcome}
    judge: Callable = others.get(task, parsed)
    return [judge(pair, output) for pair, output in zip(pairs, outputs, strict=True)]


def evaluate(run: Run, folder: Path, split: str, beam: int, limit: int, model: Path | None) -> dict:
    """Score one split with one beam, in a process of its own, unless that was done before; keep result and outputs.

    `model` is scored instead of the run's, if there is one.
    """
    path = folder / run.name / f"scores-{split}-{beam}.json"
    if path.exists():
        return read_json(path)
    torch.set_num_threads(1)
    tune_machine()
    translator = Translator.load(model or folder / run.name, "cpu")
    pairs = run.corpus().split(split)[:limit]
    start = time.perf_counter()
    outputs = transduce(translator, [pair.source for pair in pairs], beam_size=beam)
    seconds = time.perf_counter() - start
    outcomes = outcomes_of(run.task, pairs, outputs)
    by_label: dict[str, list[int]] = {}
    for outcome in outcomes:
        for i, side in enumerate((outcome.gold, outcome.found, outcome.gold & outcome.found)):
            for part, count in side.items():
                by_label.setdefault(part[0] if isinstance(part, tuple) else "words", [0, 0, 0])[i] += count
    result = {"split": split, **PARSING_SEARCH, "beam_size": beam, "seconds": round(seconds, 1)}
    result |= asdict(total_scores(outcomes))
    result["problems"] = dict(Counter(problem for outcome in outcomes for problem in sorted(outcome.problems)))
    result["by_label"] = dict(sorted(by_label.items()))  # gold, found, right
    if run.task == "treebank":
        result["by_sentence"] = [by_sentence(pair, outcome) for pair, outcome in zip(pairs, outcomes, strict=True)]
    write_atomically(path.with_suffix(".txt"), "".join(f"{output}\n" for output in outputs).encode())
    write_json(path, result)
    return result


def by_sentence(pair: SentencePair, outcome: Outcome) -> tuple[int | bool, ...]:
    """Words without punctuation; gold, found and right brackets; malformed; and whether that left no tree."""
    counts = (side.total() for side in (outcome.gold, outcome.found, outcome.gold & outcome.found))
    no_tree = "number of words" in outcome.problems
    return count_words(read_tree(pair.tree)), *counts, bool(outcome.problems), no_tree


def corpus_sizes() -> dict:
    """Sentences, words without punctuation and symbols of the treebank's parts: counts only."""
    corpus, sizes = treebank_corpus(), {}
    for split in ("train", "valid", "test"):
        pairs = corpus.split(split)
        counts = [count_words(read_tree(pair.tree)) for pair in pairs]
        symbols = sum(len(pair.target.split()) for pair in pairs)
        sizes[split] = {"sentences": len(pairs), "words": sum(counts), "symbols": symbols, "longest": max(counts)}
    return sizes


def run_all(
    folder: Path, target: Path, model: Path, processes: int, share: float, limit: int, keep_treebank: bool
) -> None:
    """Train and score what `folder` does not hold yet; gather everything in `target`, the parser in `model`.

    With `keep_treebank` the runs on the treebank stay as `target` has them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    embedded = [embedded_run(task, share) for task in EMBEDDED_TASKS]
    steps = round(share * TRIAL_STEPS)
    trials = [treebank_run(f"trial-{i}", steps, *trial) for i, trial in enumerate(TRIALS, start=1)]
    untagged = treebank_run("trial-untagged", steps, *UNTAGGED, tags=False)
    with ProcessPoolExecutor(processes, max_tasks_per_child=1) as pool:
        first = embedded if keep_treebank else [*trials, untagged, *embedded]
        training = {run.name: pool.submit(train_run, run, folder) for run in first}
        runs = list(first)
        if not keep_treebank:
            best = min(range(len(trials)), key=lambda i: training[trials[i].name].result()["best_valid_loss"])
            final = treebank_run("treebank", round(share * STEPS["treebank"]), *TRIALS[best])
            training[final.name] = pool.submit(train_run, final, folder)
            runs.append(final)
        results = {name: future.result() for name, future in training.items()}
        for name, result in results.items():
            print(f"{name}: {result['wall_seconds']} s, loss {result['best_valid_loss']:.4f}", flush=True)
        ship(folder / "parsing", model)
        jobs = [(run, split, beam) for run in runs for split, beam in all_scores(run)]
        shipped = {"parsing": model}
        scoring = [pool.submit(evaluate, run, folder, *job, limit, shipped.get(run.name)) for run, *job in jobs]
        for (run, split, beam), future in zip(jobs, scoring, strict=True):
            found = future.result()
            results[run.name].setdefault("evaluations", []).append(found)
            scores = f"F1 {found['f1']:.2f}, exact {found['exact']:.1%}, malformed {found['malformed']}"
            print(f"{run.name}, {split}, beam {beam}: {scores}, {found['seconds']} s", flush=True)
    torch.set_num_threads(1)  # as in the processes
    command = "python -m tools.parsing" + (" --keep-treebank" if keep_treebank else "")
    record = {"command": command, **describe_machine(torch.device("cpu")), "processes": processes}
    record["share"] = share
    if keep_treebank:
        old = read_json(target / "results.json")
        made = ("device", "threads", "python", "torch", "revision", "processes")
        record["treebank_made"] = old.get("treebank_made", {key: old[key] for key in made})
        record |= {key: old[key] for key in ("treebank", "best_trial")}
        results |= {name: run for name, run in old["runs"].items() if run["corpus"] == "treebank"}
    else:
        record |= {"treebank": corpus_sizes(), "best_trial": trials[best].name}
    write_json(target / "results.json", record | {"runs": results})
    for run in embedded:
        for path in sorted((folder / run.name).glob("scores-*.txt")):
            shutil.copy(path, target / f"outputs-{run.name}-{path.stem.removeprefix('scores-')}.txt")


def ship(run: Path, target: Path) -> None:
    """The run's model in half precision, with the search of section 6.3 as its own."""
    model, tokenizer, notes = load_model(run)
    search = {"beam_size": PARSING_SEARCH["beam_size"], "length_penalty": PARSING_SEARCH["alpha"]}
    notes = {key: value for key, value in notes.items() if key not in ("format", "model")} | {"search": search}
    notes["corpus_version"] = corpus_fingerprint()
    save_model(target, model, tokenizer, dtype=torch.float16, **notes)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.parsing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "parsing")
    parser.add_argument("--output", type=Path, default=ROOT / "data" / "runs" / "parsing")
    parser.add_argument("--model", type=Path, default=ROOT / "data" / "models" / "parser")
    parser.add_argument("--processes", type=int, default=2, help="how many at a time (default: %(default)s)")
    parser.add_argument("--share", type=float, default=1.0, help="of the steps, for a trial (default: %(default)s)")
    parser.add_argument("--sentences", type=int, default=500, help="to score of each split (default: %(default)s)")
    parser.add_argument(
        "--keep-treebank", action="store_true", help="leave the recorded runs on the treebank as they are"
    )
    options = parser.parse_args(arguments)
    where = (options.folder, options.output, options.model)
    run_all(*where, options.processes, options.share, options.sentences, options.keep_treebank)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
