"""`python -m benchmarks [training] [decoding]`: print and record the tables."""

from __future__ import annotations

import sys

from annotated.cost import tune_machine
from benchmarks import decoding, training

PARTS = {"training": training.run, "decoding": decoding.run}

if __name__ == "__main__":
    print(f"settings for this process: {tune_machine()}")
    for name in sys.argv[1:] or PARTS:
        PARTS[name.removeprefix("benchmark-")]()
