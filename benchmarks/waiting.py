"""Training alone, and beside another busy program: how threads that wait for each other share the cores."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from annotated.machine.acceleration import tune_machine
from annotated.search.translation import Translator
from benchmarks import training
from benchmarks.common import in_a_process, model_folder, record, say, timed

WAYS = {  # how often a waiting thread looks before it sleeps, as environment variables of GNU's OpenMP
    "as PyTorch comes": {"GOMP_SPINCOUNT": ""},
    "1,000 looks": {"GOMP_SPINCOUNT": "1000"},
    "asleep at once": {"GOMP_SPINCOUNT": "0"},
}
BATCHES, TURNS, ROUNDS = 4, 3, 2


def speed() -> float:
    """Target tokens a second of float32 training in this process, the median of some turns."""
    translator = Translator.load(model_folder(), "cpu")
    batches = training.some_batches(translator)[:BATCHES]
    step = training.our_step(translator.model, torch.float32)
    for batch in batches:
        step(batch)
    turn = timed(training.Contestant(step, batches).turn)
    return statistics.median(turn() for _ in range(TURNS))


@contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """Another process that takes all of a core, if wanted."""
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if wanted else None
    try:
        yield
    finally:
        if child:
            child.kill()
            child.wait()


def run() -> None:
    """Each way of waiting, alone and beside a busy process, in turn; printed and recorded."""
    found: dict[str, dict[str, list[float]]] = {way: {"alone": [], "beside": []} for way in WAYS}
    for _ in range(ROUNDS):
        for place in ("alone", "beside"):
            with busy(place == "beside"):
                for way, variables in WAYS.items():
                    found[way][place].append(in_a_process("benchmarks.waiting", **variables))
    table = {way: {place: statistics.median(speeds) for place, speeds in row.items()} for way, row in found.items()}
    say("\ntraining, float32, target tokens a second")
    for way, row in table.items():
        say(f"  {way:<20} alone {row['alone']:6.0f}, beside a busy process {row['beside']:6.0f}")
    record("benchmark-waiting", {
        "model": model_folder().name, "rounds": ROUNDS, "turns": TURNS, "cores": os.cpu_count(), "table": table,
    })  # fmt: skip


if __name__ == "__main__":
    tune_machine()
    print(speed())
