"""`python -m benchmarks [PART...]`: print and record the tables; `--help` names the parts.

Without arguments the first three, which are the comparison with other systems. `python -m benchmarks gpu` has options
of its own.
"""

from __future__ import annotations

import argparse
import sys

from annotated.base.files import InputError
from annotated.machine.acceleration import tune_machine
from benchmarks import (
    costs,
    decoding,
    gains,
    gpu,
    growth,
    learning,
    memory,
    page,
    paint,
    quality,
    steps,
    store,
    together,
    training,
    waiting,
)
from benchmarks.common import ROOT, model_folder, say

PARTS = {
    "training": training.run,
    "decoding": decoding.run,
    "memory": memory.run,
    "quality": quality.run,
    "gains": gains.run,
    "kernels": gains.run_kernels,
    "compile": gains.run_compile,
    "growth": growth.run,
    "waiting": waiting.run,
    "page": lambda: (page.run(), learning.run()),
    "learning": learning.run,
    "paint": paint.run,
    "store": store.run,
    "steps": steps.run,
    "together": together.run,
    "costs": costs.run,
}
COMPARISON = ("training", "decoding", "memory")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Compare speed and memory with other systems."
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: {', '.join(COMPARISON)}), or gpu"
    )
    if arguments[:1] == ["gpu"]:
        sys.exit(run_gpu(arguments[1:]))
    chosen = parser.parse_args(arguments).parts or COMPARISON
    if unknown := [name for name in chosen if name not in PARTS]:
        parser.error(f"no part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    say(f"settings for this process: {tune_machine()}")
    say(f"model: {model_folder().relative_to(ROOT)}")
    try:
        for name in chosen:
            PARTS[name]()
    except InputError as error:  # the data of the model's corpus are not there
        sys.exit(f"benchmarks: {error}")


def run_gpu(arguments: list[str]) -> int:
    """The part that has slices; what it refuses is said in a line."""
    tune_machine()
    try:
        return gpu.main(arguments)
    except InputError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    main(sys.argv[1:])
