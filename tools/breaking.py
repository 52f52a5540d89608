"""The record of chapter 83: each part taken away, for both tasks and three seeds: `python -m tools.breaking`.

The models are trained by the page's own code, in node; two at a time, which takes twelve minutes. The record is
`data/runs/breaking/runs.json`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import torch

from annotated.files import write_json
from annotated.machine import describe_machine
from tools import ROOT

PARTS = ["", "mask", "shift", "root", "positions", "warm-up", "heads"]
TASKS = {"digits": {"width": 32, "steps": 300}, "pronouns": {"width": 32, "steps": 300}}


def trained(settings: dict) -> dict:
    """What came of one run."""
    command = ["node", str(ROOT / "tools" / "breaking.mjs")]
    done = subprocess.run(command, input=json.dumps(settings), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.breaking", description=__doc__)
    parser.parse_args(arguments)
    runs = [
        {"task": task, "part": part, "seed": seed, "layers": 2, **TASKS[task]}
        for task, part, seed in product(TASKS, PARTS, (1, 2, 3))
    ]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(trained, runs))
    node = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    about = {"command": "python -m tools.breaking", **describe_machine(torch.device("cpu")), "node": node}
    write_json(ROOT / "data" / "runs" / "breaking" / "runs.json", about | {"runs": found})


if __name__ == "__main__":
    main(sys.argv[1:])
