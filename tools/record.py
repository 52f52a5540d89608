"""Record a finished training run in the repository: `python -m tools.record RUN NAME [--ship]`.

Copies the run's description and metrics to `data/runs/NAME`, and scores its model on the corpus's test split: greedy,
beam 4, and beam 4 on sources of at most 15 words.

A run on the embedded corpus is scored on its other splits, too. With `--ship` its model, in half precision, becomes the
book's own, `data/models/NAME`, and is what is scored.

Of any other run, the average of the last five checkpoints is scored where there are five. The length penalty is also
chosen on the validation split, as the paper did on its development set, and used once on the test split ("tuned"). A
few English sentences of our own are translated as samples.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

import torch

from annotated.base.files import read_json, write_json
from annotated.command.cli import main as annotated
from annotated.runs.state import checkpoints
from annotated.search.translation import Translator
from annotated.text.corpora import EMBEDDED
from annotated.text.grammar.splits import corpus_fingerprint
from tools import ROOT

SCORES = {
    "greedy": ["--beam-size", "1"],
    "beam4": ["--beam-size", "4"],
    "beam4-short": ["--beam-size", "4", "--max-words", "15"],
}
EMBEDDED_SCORES = {
    "pronoun-greedy": ["--split", "pronoun", "--beam-size", "1"],
    "pronoun-beam4": ["--split", "pronoun", "--beam-size", "4"],
    "long-beam4": ["--split", "long", "--beam-size", "4"],
    "novel-beam4": ["--split", "novel", "--beam-size", "4"],
}
AVERAGED = 5  # the paper's number of checkpoints for the base model
ALPHAS = ("0.6", "1.0", "1.4")  # length penalties to choose from
SAMPLES = [  # ours, since the sentences of other people's corpora are not committed
    "A dog runs through the snow.",
    "Two children are playing football in a park.",
    "A woman in a red coat is waiting for the bus.",
    "Three men are sitting around a fire and singing.",
    "An old man is selling fruit at the market because his shop is closed.",
]


def record(run: Path, name: str, ship: bool = False, data: Path = ROOT / "data") -> None:
    """Copy what describes the run, and score its model. Raises SystemExit when the run is not finished."""
    if not read_json(run / "run.json").get("finished"):
        raise SystemExit(f"record: {run} is not finished: resume it first")
    target = data / "runs" / name
    target.mkdir(parents=True, exist_ok=True)
    for file in ("run.json", "metrics.jsonl"):
        shutil.copy(run / file, target / file)
    model = run
    if ship:
        model = data / "models" / name
        translator = Translator.load(run, device="cpu")
        translator.notes["corpus_version"] = corpus_fingerprint()
        translator.save(model, dtype=torch.float16)
    embedded = read_json(run / "run.json")["corpus"] in EMBEDDED
    for scores, options in (SCORES | (EMBEDDED_SCORES if embedded else {})).items():
        evaluate(model, target, scores, options, keep=scores != "beam4-short")
    if ship or embedded:
        return
    translations = Translator.load(model, device="cpu").translate(SAMPLES)
    samples = [{"source": a, "translation": b} for a, b in zip(SAMPLES, translations, strict=True)]
    write_json(target / "samples.json", samples)
    for alpha in ALPHAS:
        evaluate(model, target, f"valid-alpha-{alpha}", ["--split", "valid", "--length-penalty", alpha], keep=False)
    best = max(ALPHAS, key=lambda alpha: read_json(target / f"evaluation-valid-alpha-{alpha}.json")["bleu"])
    evaluate(model, target, "tuned", ["--length-penalty", best])
    if len(checkpoints(run)) >= AVERAGED:
        averaged = run / "averaged"
        if annotated(["average", str(run), "--last", str(AVERAGED), "--output", str(averaged)]):
            raise SystemExit(f"record: the checkpoints of {run} could not be averaged")
        evaluate(averaged, target, "averaged", [])


def evaluate(model: Path, target: Path, scores: str, options: list[str], keep: bool = True) -> None:
    """Score `model` by the command that anybody can repeat; `keep` its translations. Raises SystemExit if it fails."""
    files = ["--json", str(target / f"evaluation-{scores}.json")]
    if keep:
        files += ["--translations", str(target / f"translations-{scores}.txt")]
    if annotated(["evaluate", os.path.relpath(model), *options, *files]):
        raise SystemExit(f"record: {model} could not be evaluated")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.record", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--ship", action="store_true")
    options = parser.parse_args(arguments)
    record(options.run, options.name, options.ship)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
