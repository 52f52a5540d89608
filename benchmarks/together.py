"""Several processes by torchrun: the bits of one, translations beside those of one, and what is left after a kill."""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from safetensors.torch import load_file

from annotated.text.corpora import load_corpus
from benchmarks.common import ROOT, record, say
from tools.processes import children, torchrun

STEPS, LINES, KILLS, ROUNDS = 200, 20_000, 10, 3
SIZES = (
    "--d-model 64 --d-ff 128 --num-heads 4 --num-layers 2 --dropout 0 --max-tokens 600 --accumulation 2 "
    "--precision float32 --warmup-steps 100 --validate-every 100 --vocab-size 1000 --quiet"
)


def command(processes: int, *arguments: str) -> list[str]:
    """`annotated` in one process, or in several by torchrun."""
    launcher = [sys.executable] if processes == 1 else torchrun(processes)
    return [*launcher, "-m", "annotated", *arguments]


def begin(processes: int, *arguments: str, **options) -> subprocess.Popen:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options
    return subprocess.Popen(command(processes, *arguments), cwd=ROOT, env=environment, **pipes)


def finished(process: subprocess.Popen) -> None:
    if process.wait():
        raise RuntimeError(f"{' '.join(map(str, process.args))} failed")


def bits(folder: Path) -> dict[str, object]:
    """The weights after the same steps in one process and in two."""
    train = ["train", "--corpus", "embedded", *SIZES.split(), "--max-steps", str(STEPS), "--output"]
    for processes in (1, 2):
        finished(begin(processes, *train, str(folder / f"bits{processes}")))
    one, two = (load_file(folder / f"bits{n}" / "checkpoints" / f"step-{STEPS:07d}.safetensors") for n in (1, 2))
    return {"steps": STEPS, "tensors": len(one), "equal": sum(one[name].equal(two[name]) for name in one)}


def kills(folder: Path, seed: int = 0) -> dict[str, object]:
    """One of two processes is killed at random moments; how long the run still takes, and what is left."""
    choose, seconds, found = random.Random(seed), [], {"kills": KILLS, "still running": 0, "loads": 0}
    train = ["train", "--corpus", "embedded", *SIZES.split(), "--max-steps", "100000", "--checkpoint-minutes", "0.01"]
    for number in range(KILLS):
        output = folder / f"kill{number}"
        process = begin(2, *train, "--output", str(output))
        while not list(output.glob("checkpoints/*.safetensors")):
            time.sleep(0.1)
        time.sleep(choose.uniform(0, 5))
        workers = children(process.pid)
        os.kill(choose.choice(workers), signal.SIGKILL)
        begun = time.monotonic()
        process.wait()
        seconds.append(time.monotonic() - begun)
        found["still running"] += sum(Path(f"/proc/{worker}").exists() for worker in workers)
        resumed = begin(1, "train", "--resume", "--output", str(output), "--max-steps", "1", "--quiet")
        found["loads"] += resumed.wait() == 0
    return found | {"most_seconds": max(seconds)}


def translations(folder: Path) -> dict[str, object]:
    """The same lines by one process and by two, one thread each, in turn; the middle of some rounds."""
    sources = [pair.source for pair in load_corpus("embedded").split("train")[:LINES]]
    (folder / "in").write_text("".join(f"{one}\n" for one in sources))
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(ROUNDS):
        for processes in (1, 2):
            with (folder / "in").open("rb") as lines, (folder / f"out{processes}").open("wb") as out:
                begun = time.monotonic()
                finished(begin(processes, "translate", "embedded", "--workers", "1", stdin=lines, stdout=out))
                seconds[processes].append(time.monotonic() - begun)
    middle = {processes: statistics.median(found) for processes, found in seconds.items()}
    same = (folder / "out1").read_bytes() == (folder / "out2").read_bytes()
    return {"lines": LINES, "same": same, "seconds": middle, "times_as_fast": middle[1] / middle[2]}


def run() -> None:
    """All three; printed and recorded."""
    with tempfile.TemporaryDirectory() as name:
        found = {work.__name__: work(Path(name)) for work in (bits, kills, translations)}
    for name, table in found.items():
        say(f"{name}: {table}")
    record("benchmark-together", found)
