"""What the tables need: a model and data, peers with the same weights, interleaved rounds, a record."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from annotated.base.files import write_json
from annotated.machine.acceleration import tune_machine
from annotated.machine.devices import describe_machine
from annotated.search.translation import Translator
from annotated.text.corpora import load_corpus
from tools import ROOT

TRAINED, SHIPPED = ROOT / "runs" / "multi30k", ROOT / "data" / "models" / "embedded"
RECORDS = ROOT / "data" / "runs"
THREADS = torch.get_num_threads()


def say(text: str) -> None:
    print(text, flush=True)


def model_folder() -> Path:
    """The Multi30k model if it was trained here, else the shipped one."""
    return TRAINED if (TRAINED / "model.safetensors").exists() else SHIPPED


def in_a_process(module: str, *arguments: str, **environment: str) -> float:
    """The number that `python -m module arguments` prints last. Raises RuntimeError with its errors if it fails."""
    command = [sys.executable, "-m", module, *arguments]
    own = {name: value for name, value in os.environ.items() if name != "ONEDNN_PRIMITIVE_CACHE_CAPACITY"}
    settings = {name: value for name, value in (own | environment).items() if value}  # an empty one is left out
    child = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=settings)
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{child.stderr}")
    return json.loads(child.stdout.splitlines()[-1])


def pairs(translator: Translator, split: str) -> list:
    """The split of the corpus that the model was trained on."""
    return load_corpus(translator.notes["corpus"]).split(split)


def interleaved(contestants: dict[str, Callable[[], float]], rounds: int) -> dict[str, dict[str, float]]:
    """Let all run once a round, in turn; from each the amounts a second that it returns, as median and range."""
    speeds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds):
        names = list(contestants)
        for name in names if turn % 2 == 0 else names[::-1]:
            gc.collect()
            speeds[name].append(contestants[name]())
    return {
        name: {"median": statistics.median(found), "lowest": min(found), "highest": max(found)}
        for name, found in speeds.items()
    }


def timed(work: Callable[[], float]) -> Callable[[], float]:
    """What `work` returns the amount of, a second."""

    def run() -> float:
        start = time.perf_counter()
        amount = work()
        if torch.cuda.is_available():  # where work goes on after the call
            torch.cuda.synchronize()
        return amount / (time.perf_counter() - start)

    return run


def both_settings(
    name: str, make: Callable[[], Callable[[], float]], one_thread: bool = False
) -> dict[str, Callable[[], float]]:
    """The same work with PyTorch as it comes, and with the settings of `acceleration` where they took effect.

    `make` makes the work anew for each. With `one_thread` the second also with one thread, which is the better choice
    for small pieces of work. The room for oneDNN's kernels cannot be taken back: every system here has it.
    """
    took = tune_machine()

    def run(work: Callable[[], float], tuned: bool, threads: int) -> float:
        torch.set_num_threads(threads)
        if took["faster_products"]:
            torch.backends.mkldnn.matmul.fp32_precision = "bf16" if tuned else "ieee"
        return work()

    choices = {"as PyTorch comes": (False, THREADS), "tuned": (True, THREADS)}
    if one_thread:
        choices["tuned, one thread"] = (True, 1)
    return {f"{name}, {choice}": partial(run, make(), *setting) for choice, setting in choices.items()}


def record(name: str, content: dict, device: torch.device = torch.device("cpu")) -> None:  # noqa: B008
    """Write a table with machine and versions to `data/runs/`."""
    versions = {package: importlib.metadata.version(package) for package in ("torch", "transformers", "ctranslate2")}
    torch.set_num_threads(THREADS)
    about = describe_machine(device) | {"versions": versions}
    command = f"python -m benchmarks {name.removeprefix('benchmark-')}"
    write_json(RECORDS / name / "results.json", {"command": command} | about | content)


def show(title: str, unit: str, table: dict[str, dict[str, float]]) -> None:
    """Print a table, fastest first."""
    say(f"\n{title}")
    best = max(row["median"] for row in table.values())
    for name, row in sorted(table.items(), key=lambda item: -item[1]["median"]):
        span = f"{row['lowest']:.0f} to {row['highest']:.0f}"
        say(f"  {name:<44} {row['median']:9.0f} {unit} ({span}), {row['median'] / best:.2f} of the best")
