"""BLEU against training time: `annotated train --corpus multi30k`, and the best model it had after each validation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from annotated.base.files import InputError, read_json
from annotated.search.translation import Translator
from annotated.text.corpora import load_corpus
from annotated.text.evaluation import evaluate_translations
from benchmarks.common import ROOT, TRAINED, record, say

SNAPSHOTS = ROOT / "runs" / "quality"
COMMAND = ("train", "--corpus", "multi30k", "--output", str(TRAINED.relative_to(ROOT)))
EVERY = 5  # seconds between looks


def keep_newest(run: Path, snapshots: Path) -> None:
    """Copy the best model so far, if it is a new one and was not changed meanwhile."""
    try:
        step = read_json(run / "config.json")["step"]
        if (snapshots / str(step)).exists():
            return
        unfinished = snapshots / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for name in ("model.safetensors", "config.json", "tokenizer.model"):
            shutil.copy(run / name, unfinished)
        if read_json(run / "config.json")["step"] == step:
            unfinished.rename(snapshots / str(step))
    except (FileNotFoundError, InputError):
        return  # no model yet


def train_and_watch() -> None:
    """Train in a process of its own. Raises SystemExit with its status if it fails."""
    child = subprocess.Popen([sys.executable, "-m", "annotated", *COMMAND], cwd=ROOT)
    while child.poll() is None:
        time.sleep(EVERY)
        keep_newest(TRAINED, SNAPSHOTS)
    if child.returncode:
        raise SystemExit(child.returncode)


def scores_over_time(run: Path, snapshots: Path) -> list[dict[str, float]]:
    """Minutes of training, and BLEU of greedy search and of a beam of 4 on the test split, for each kept model."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    minutes = {line["step"]: line["seconds"] / 60 for line in lines}
    rows = []
    for step in sorted(int(path.name) for path in snapshots.iterdir() if path.name.isdigit()):
        translator = Translator.load(snapshots / str(step), "cpu")
        test = load_corpus(translator.notes["corpus"]).split("test")
        row = {"step": step, "minutes": minutes[step]}
        with translator.workers(2):
            for name, width in (("greedy", 1), ("beam 4", 4)):
                found = translator.translate([pair.source for pair in test], beam_size=width)
                row[name] = evaluate_translations(found, [pair.target for pair in test]).bleu
        say(f"  {row['minutes']:5.1f} minutes: BLEU {row['greedy']:.2f} greedy, {row['beam 4']:.2f} with a beam of 4")
        rows.append(row)
    return rows


def run() -> None:
    """Train where no model is yet, and score; printed and recorded."""
    if not (TRAINED / "model.safetensors").exists():
        train_and_watch()
    if not SNAPSHOTS.exists():
        raise SystemExit(f"benchmarks: {SNAPSHOTS.relative_to(ROOT)} is missing: move {TRAINED.relative_to(ROOT)} away")
    say("\nBLEU over training time")
    rows = scores_over_time(TRAINED, SNAPSHOTS)
    record("benchmark-quality", {"training": "annotated " + " ".join(COMMAND), "rows": rows})
