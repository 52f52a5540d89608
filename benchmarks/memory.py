"""Peak memory of training and of decoding, each system in a process of its own."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import torch

from annotated.machine.acceleration import tune_machine
from annotated.search.translation import Translator
from benchmarks import decoding, training
from benchmarks.common import in_a_process, model_folder, pairs, record, say
from benchmarks.engine import Engine, peak_memory

SENTENCES, BATCH = 64, 32
STEPS = 4


def train_some(name: str) -> None:
    """Some steps with the largest batches."""
    translator = Translator.load(model_folder(), "cpu")
    system, precision = name.rsplit(", ", 1)
    batches = sorted(training.real_batches(translator), key=lambda batch: -batch.target_input.numel())[:STEPS]
    step = training.steps(translator, getattr(torch, precision), only=system)[system]
    for batch in batches:
        step(batch)


@torch.inference_mode()
def decode_some(name: str) -> float | None:
    """Two batches of translations; the peak of the process that translates, if that is another one."""
    translator = Translator.load(model_folder(), "cpu")
    sources = translator.tokenize([pair.source for pair in pairs(translator, "test")[:SENTENCES]])
    with tempfile.TemporaryDirectory() as exported, ExitStack() as pools:
        system = decoding.contestants(model_folder(), Path(exported) / "model", pools, only=name)[name]
        system(sorted(sources, key=len), BATCH)
        engine = system.args[0]
        return engine.translate([], beam_size=1)[1] if isinstance(engine, Engine) else None


WORK: dict[str, Callable[[str], float | None]] = {
    "training": train_some,
    "decoding": decode_some,
    "nothing": lambda name: None,
}
SYSTEMS = {
    "nothing": ("PyTorch imported",),
    "training": tuple(f"{name}, {kind}" for kind in ("float32", "bfloat16") for name in training.SYSTEMS),
    "decoding": tuple(name for name in decoding.SYSTEMS if "workers" not in name and "2 x 1" not in name),
}


def run() -> None:
    """One child process for each system; printed and recorded."""
    tables = {}
    for what, names in SYSTEMS.items():
        tables[what] = {name: in_a_process("benchmarks.memory", what, name) for name in names}
        say(f"\n{what}, peak memory in MB")
        for name, peak in sorted(tables[what].items(), key=lambda item: item[1]):
            say(f"  {name:<44} {peak:9.0f} MB")
    record("benchmark-memory", {
        "model": model_folder().name, "max_tokens": training.MAX_TOKENS, "batch": BATCH, "tables": tables,
    })  # fmt: skip


if __name__ == "__main__":
    tune_machine()
    print(WORK[sys.argv[1]](sys.argv[2]) or peak_memory())
