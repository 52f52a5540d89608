"""`python -m benchmarks [PART...]`: print and record the tables; `--help` names the parts.

Without arguments the first three, which are the comparison with other systems. `python -m benchmarks gpu` has options
of its own.
"""

from __future__ import annotations

import argparse
import sys

from annotated.base.files import InputError
from annotated.machine.acceleration import tune_machine
from benchmarks import decoding, gains, gpu, memory, page, paint, quality, training
from benchmarks.common import ROOT, model_folder, say

PARTS = {
    "training": training.run,
    "decoding": decoding.run,
    "memory": memory.run,
    "quality": quality.run,
    "gains": gains.run,
    "kernels": gains.run_kernels,
    "page": page.run,
    "paint": paint.run,
}
COMPARISON = ("training", "decoding", "memory")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Compare speed and memory with other systems."
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: {', '.join(COMPARISON)}), or gpu"
    )
    try:
        if arguments[:1] == ["gpu"]:
            tune_machine()
            sys.exit(gpu.main(arguments[1:]))
        chosen = parser.parse_args(arguments).parts or COMPARISON
        if unknown := [name for name in chosen if name not in PARTS]:
            parser.error(f"no part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
        say(f"settings for this process: {tune_machine()}")
        say(f"model: {model_folder().relative_to(ROOT)}")
        for name in chosen:
            PARTS[name]()
    except InputError as error:  # no data of the model's corpus, or no GPU
        sys.exit(f"benchmarks: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
