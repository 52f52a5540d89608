"""What a corpus costs that does not fit: pairs prepared a second, memory, and how long a step waits for its batch.

The text is made here: halves of sentences, put together at random, with more than 200,000 different words.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from annotated.model import Transformer, TransformerConfig
from annotated.runs import training
from annotated.runs.examples import batch_all, tokenize_pairs
from annotated.runs.recipes import RECIPES
from annotated.text.corpora import multi30k_folder
from annotated.text.pairs import prefetch
from annotated.text.preparation import StoreSettings, prepare, text_of
from annotated.text.store import open_store
from annotated.training import TrainingConfig
from benchmarks.common import ROOT, THREADS, in_a_process, record, say
from benchmarks.engine import peak_memory
from tools.processes import children

MANY, MOST = 1_000_000, 10_000_000  # pairs
PIECES, STEPS = 37_000, 50
WMT14 = {"en-de": 4_508_785, "en-fr": 36_000_000}  # pairs; the second as the paper has it
SYLLABLES = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "an", "er", "is")]


def halves(number: int, words: int, seed: int) -> list[str]:
    """Parts of sentences; a few words are frequent, and most are rare, as in real text."""
    choose = random.Random(seed)
    known = sorted({"".join(choose.choices(SYLLABLES, k=choose.randint(1, 4))) for _ in range(400_000)})
    choose.shuffle(known)
    weights = list(itertools.accumulate(1 / (rank + 20) for rank in range(len(known))))
    return [" ".join(choose.choices(known, cum_weights=weights, k=words)) for _ in range(number)]


def write_text(folder: Path, pairs: int) -> int:
    """`train.en` and `train.de`; returns how many different words are in them."""
    types: set[str] = set()
    for seed, language in enumerate(("en", "de")):
        parts, choose = halves(100_000, 7, seed), random.Random(seed)
        for part in parts:
            types.update(part.split())
        with open(folder / f"train.{language}", "w") as file:
            for _ in range(pairs // 10_000):
                chosen = choose.choices(parts, k=20_000)
                file.writelines(f"{one} {other}.\n" for one, other in zip(chosen[::2], chosen[1::2], strict=True))
    return len(types)


def prepare_it(folder: str) -> dict[str, float]:
    """Prepare the text of a folder; seconds of reading, learning and encoding, and the peak of memory in MB."""
    begun, moments = time.perf_counter(), {}

    def say_when(line: str) -> None:
        kind = next(word for word in ("read", "learned", "encoded", "store") if word in line)
        moments[kind] = time.perf_counter() - begun

    settings, text = StoreSettings(vocab_size=PIECES, max_ratio=9.0), text_of([folder], "en", "de")
    made = prepare(text, Path(folder) / "store", settings, workers=THREADS, say=say_when)
    tokens = made.notes["tokens"][0] / len(made.train)
    seconds = {"reading": moments["read"], "learning": moments["learned"] - moments["read"]}
    seconds["encoding"] = moments["store"] - moments["learned"]
    return {"pairs": len(made.train), "tokens": tokens, "seconds": seconds, "first_process_mb": peak_memory()}


def train_on(folder: str, wait: str = "") -> dict[str, float]:
    """Some steps of the recipe `small`; the share of time that was waited for batches, and the peak in MB.

    With `wait`, the process then stays until its input ends, so that its memory can be looked at.
    """
    opened, recipe = open_store(Path(folder)), RECIPES["small"]
    sizes = {name: recipe[name] for name in ("d_model", "d_ff", "num_heads", "num_layers", "max_length", "dropout")}
    torch.manual_seed(1)
    model = Transformer(TransformerConfig(len(opened.tokenizer), **sizes))
    config = TrainingConfig(max_tokens=recipe["max_tokens"], max_steps=STEPS, precision="float32", validate_every=10**9)
    waited = []

    def timed(items: Iterable) -> Iterator:
        found = prefetch(items)
        while True:
            begun = time.perf_counter()
            item = next(found)
            waited.append(time.perf_counter() - begun)
            yield item

    training.prefetch = timed
    valid = batch_all(tokenize_pairs(opened.tokenizer, opened.split("valid")[:50], 256), 2000)
    state = training.train(model, opened.train, valid, config)
    found = {"first_batch_seconds": waited[0], "share_waited": sum(waited[1:]) / (state.seconds - waited[0])}
    found |= {"memory_mb": peak_memory(), "seconds": state.seconds}
    if wait:
        print(json.dumps(found), flush=True)
        sys.stdin.read()
    return found


def proportional(process: int) -> float:
    """The memory of a process in MB, in which a page that n processes share counts as one n-th; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0) / 1024


def descendants(process: int) -> Iterator[int]:
    """The processes that this one has started, and those that they have."""
    for child in children(process):
        yield child
        yield from descendants(child)


@contextmanager
def all_memory() -> Iterator[list[float]]:
    """What this process's descendants take together in MB, once a second, while the block runs."""
    found, ended = [], threading.Event()

    def watch() -> None:
        while not ended.wait(1):
            found.append(sum(map(proportional, descendants(os.getpid()))))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def second_process(folder: Path) -> dict[str, float]:
    """What one training process takes, and what a second one on the same store adds."""
    command = [sys.executable, "-m", "benchmarks.store", "train_on", str(folder), "wait"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    running: list[subprocess.Popen] = []
    found = []
    try:
        for _ in range(2):
            running.append(subprocess.Popen(command, **pipes))
            running[-1].stdout.readline()
            found.append(sum(proportional(process.pid) for process in running))
    finally:
        for process in running:
            process.communicate()
    return {"one_mb": found[0], "both_mb": found[1], "added_mb": found[1] - found[0]}


def measure(folder: Path, pairs: int) -> dict[str, object]:
    """Prepare so many pairs of made-up text, and train on them."""
    types = write_text(folder, pairs)
    with all_memory() as memory:
        found = in_a_process("benchmarks.store", "prepare_it", str(folder)) | {"word_types": types}
    speed, found["memory_mb"] = found["pairs"] / found["seconds"]["encoding"], max(memory)
    say(f"{pairs:,} pairs, {types:,} words: {speed:,.0f} pairs a second encoded, {found['memory_mb']:.0f} MB")
    found["training"] = in_a_process("benchmarks.store", "train_on", f"{folder}/store")
    say(f"training on them: {found['training']}")
    return found | {"pairs_a_second": speed}


def run() -> None:
    """A million pairs for the speed, ten million for the memory, Multi30k if it is there; printed and recorded."""
    tables: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as name:
        tables[f"{MANY:,} pairs"] = measure(Path(name), MANY)
    if multi30k_folder().is_dir():
        with tempfile.TemporaryDirectory() as name:
            text = text_of(["multi30k"], "en", "de")
            prepare(text, Path(name) / "store", StoreSettings(8000), workers=THREADS)
            tables["Multi30k"] = {"training": in_a_process("benchmarks.store", "train_on", f"{name}/store")}
            say(f"training on Multi30k: {tables['Multi30k']['training']}")
    with tempfile.TemporaryDirectory() as name:
        tables[f"{MOST:,} pairs"] = measure(Path(name), MOST) | {"second process": second_process(Path(name) / "store")}
        say(f"two processes: {tables[f'{MOST:,} pairs']['second process']}")
    each = tables[f"{MANY:,} pairs"]["seconds"]
    minutes = {
        name: {part: each[part] * pairs / MANY / 60 for part in ("reading", "encoding")}
        for name, pairs in WMT14.items()
    }
    record("benchmark-store", {"pieces": PIECES, "steps": STEPS, "tables": tables, "wmt14_minutes": minutes})


if __name__ == "__main__":
    print(json.dumps({"prepare_it": prepare_it, "train_on": train_on}[sys.argv[1]](*sys.argv[2:])))
