"""This package beside MarianMT and CTranslate2 (chapter 90): `python -m studies.parity`, and `... parity MODEL`.

The first compares logits and outputs for random weights in all configurations of `GRID`, which takes half an hour, and
goes on where it was stopped. The second exports a model to both, and compares on its corpus.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from annotated.base.files import InputError, read_json
from annotated.formats.engine import FastTranslator, export_of
from annotated.search.translation import Translator
from annotated.text.corpora import load_corpus
from studies.common import keep
from tools import experiments
from tools.parity import GRID, Result, beside_engine, compare, way_back

INPUTS, SENTENCES = 200, 500  # a configuration; of a corpus, for the engine
OTHERS = ("transformers", "ctranslate2")


def engine_counts(translator: Translator, fast: FastTranslator) -> list[dict[str, Any]]:
    """`beside_engine` on the model's own corpus, and on Multi30k where it is, for four settings of the search."""
    corpora, found = dict.fromkeys((translator.notes["corpus"], "multi30k")), []
    for corpus in corpora:
        try:
            texts = [pair.source for pair in load_corpus(corpus).split("test")[:SENTENCES]]
        except InputError:
            continue  # not on this machine
        for width, alpha in ((1, 0.0), (4, 0.0), (4, 0.6), (4, 1.0)):
            kinds = beside_engine(translator, fast, texts, alpha, width)
            found.append({"corpus": corpus, "beam_size": width, "alpha": alpha} | dict(kinds))
    return found


def one_model(model: Path) -> None:
    """The way back of one model, recorded."""
    translator = Translator.load(model, "cpu")
    corpus = translator.notes["corpus"]
    texts = [pair.source for pair in load_corpus(corpus).split("test")]
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = way_back(translator, texts, Path(folder))
        files = export_of(translator, Path(folder) / "export", print)
        found["engine"] = engine_counts(translator, FastTranslator(translator, files, compute_type="float32"))
    print(json.dumps(found))
    keep(f"marian-parity/way-back-{corpus}.json", ["parity", model], {"corpus": corpus} | versions() | found)


def grid() -> None:
    """Every configuration, recorded as it goes; those of the same versions are kept."""
    path, about = experiments.RUNS / "marian-parity" / "results.json", versions()
    record = read_json(path) if path.exists() else {}
    same = record.get("torch") == torch.__version__ and all(record.get(name) == about[name] for name in OTHERS)
    results = {result["name"]: Result(**result) for result in record["results"]} if same else {}
    for case in GRID:
        if case.name not in results:
            with tempfile.TemporaryDirectory() as folder:
                results[case.name] = compare(case, Path(folder) / "marian", INPUTS)
            done = [asdict(results[known.name]) for known in GRID if known.name in results]
            keep("marian-parity/results.json", ["parity"], about | {"results": done})
        print(json.dumps(asdict(results[case.name])), flush=True)


def versions() -> dict[str, str]:
    """The versions of what is compared."""
    return {name: importlib.metadata.version(name) for name in OTHERS}


def main(arguments: list[str]) -> None:
    """Record one model, or the grid."""
    if any(one.startswith("-") for one in arguments):
        raise SystemExit("python -m studies.parity [FOLDER]")
    if arguments:
        one_model(Path(arguments[0]))
    else:
        grid()


if __name__ == "__main__":
    main(sys.argv[1:])
