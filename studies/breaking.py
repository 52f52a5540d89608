"""The record of chapter 83: each part taken away, for both tasks and three seeds: `python -m studies.breaking`.

The models are trained by the page's own code, in node; two at a time, which takes half an hour. The record is
`data/runs/breaking/runs.json`. Runs that it holds are kept: remove it to make all of them again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

from annotated.base.files import read_json
from studies.common import keep
from tools import ROOT, experiments

PARTS = ["mask", "shift", "root", "positions", "warm-up", "heads"]
EXPERIMENTS = [
    ({"task": "digits", "width": 32, "steps": 400}, [[], *([part] for part in PARTS)]),
    ({"task": "pronouns", "width": 32, "steps": 300}, [[], *([part] for part in PARTS)]),
    ({"task": "digits", "width": 64, "steps": 300}, [[], ["root"], ["heads"], ["root", "heads"]]),
    ({"task": "pronouns", "width": 64, "steps": 300}, [["heads"], ["root", "heads"]]),
]
FAULTS = [  # as in breaking.mjs
    "mask one place too wide", "causal mask in the encoder", "cross-attention gives zeros", "the end is not a target",
    "no sums", "no positions in the encoder",
]  # fmt: skip
SEEDS = (1, 2, 3)


def trained(settings: dict) -> dict:
    """What came of one run."""
    command = ["node", str(ROOT / "studies" / "breaking.mjs")]
    done = subprocess.run(command, input=json.dumps(settings), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def key(run: dict) -> str:
    """What tells a run from others."""
    return json.dumps(
        [run.get(name) for name in ("task", "parts", "seed", "width", "layers", "steps", "look", "fault")]
    )


def main(arguments: list[str], count: int | None = None) -> None:
    """Make what the record lacks, or of all runs the first `count`."""
    if arguments:
        sys.exit(__doc__)
    runs = [
        {"parts": parts, "fault": None, "seed": seed, "look": "decoder" if "mask" in parts else "cross", **settings}
        for settings, choices in EXPERIMENTS
        for parts, seed in product(choices, SEEDS)
    ]
    runs += [
        {"parts": [], "fault": fault, "seed": seed, "look": "decoder", **EXPERIMENTS[0][0]}
        for fault, seed in product(FAULTS, SEEDS)
    ]
    runs = [{"layers": 2, **run} for run in runs[:count]]
    path = experiments.RUNS / "breaking" / "runs.json"
    known = {key(run): run for run in read_json(path)["runs"]} if path.exists() else {}
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda settings: known.get(key(settings)) or trained(settings), runs))
    node = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    keep("breaking/runs.json", ["breaking"], {"node": node, "runs": found})


if __name__ == "__main__":
    main(sys.argv[1:])
