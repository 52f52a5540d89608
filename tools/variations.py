"""All rows of Table 3 at this book's size, and a few more: `python -m tools.variations`.

Each run has one thread; two run at a time. A finished run is kept in `runs/variations/`, so a command that was stopped
goes on where it was. When all are done, `data/runs/variations/results.json` is written.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch
import yaml

from annotated.acceleration import tune_machine
from annotated.files import read_json, write_json
from annotated.grammar import corpus_fingerprint, embedded_split
from annotated.machine import describe_machine
from annotated.tokenization import load_tokenizer
from annotated.variations import PAIRS, Variation, further_rows, run_variation, scale_row
from tools.clean import ROOT

SEEDS, BASE_SEEDS = 3, 6  # base is compared with every row
TOKENIZER = ROOT / "data" / "models" / "embedded"


def all_rows() -> list[Variation]:
    """The rows of Table 3 in `data/paper.yml` at this book's size, and our own."""
    rows = yaml.safe_load((ROOT / "data" / "paper.yml").read_text(encoding="utf-8"))["tables"]["table_3"]["rows"]
    size = len(load_tokenizer(TOKENIZER))
    scaled = [scale_row(row, rows[0], size) for row in rows]
    return scaled + further_rows(scaled[0])


def run_one(variation: Variation, seed: int, path: Path) -> str:
    """Train and score one row with one seed, in a process of its own, and keep the result."""
    torch.set_num_threads(1)
    tune_machine()
    tokenizer = load_tokenizer(TOKENIZER)
    result = run_variation(variation, seed, tokenizer, embedded_split("train")[:PAIRS], embedded_split("valid"), "cpu")
    write_json(path, result)
    found = f"perplexity {result['perplexity']:.3f}, BLEU {result['bleu']:.1f}, {result['seconds']:.0f} s"
    return f"{variation.id:20} seed {seed}: {found}"


def run_all(folder: Path, target: Path, rows: list[Variation], processes: int) -> None:
    """Run what `folder` does not hold yet, all rows with one seed before the next; gather everything in `target`."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [(row, seed) for seed in range(1, BASE_SEEDS + 1) for row in rows if seed <= SEEDS or row.id == "base"]
    paths = {(row.id, seed): folder / f"{row.id}-{seed}.json" for row, seed in wanted}
    missing = [(row, seed) for row, seed in wanted if not paths[row.id, seed].exists()]
    print(f"{len(missing)} of {len(wanted)} runs to do", flush=True)
    with ProcessPoolExecutor(processes) as pool:
        for future in as_completed([pool.submit(run_one, row, seed, paths[row.id, seed]) for row, seed in missing]):
            print(future.result(), flush=True)
    torch.set_num_threads(1)  # as in the processes
    record = {"command": "python -m tools.variations", **describe_machine(torch.device("cpu"))}
    record["corpus_version"] = corpus_fingerprint()
    write_json(target, record | {"processes": processes, "runs": [read_json(path) for path in paths.values()]})


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.variations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "variations")
    parser.add_argument("--output", type=Path, default=ROOT / "data" / "runs" / "variations" / "results.json")
    parser.add_argument("--processes", type=int, default=2, help="how many at a time (default: %(default)s)")
    options = parser.parse_args(arguments)
    run_all(options.folder, options.output, all_rows(), options.processes)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
