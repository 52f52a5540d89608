"""Decoding the test split: beam 4, length penalty 0.6, at most source + 50 tokens, the same weights everywhere."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch

from annotated.batching import pad_sequences
from annotated.formats.ctranslate2 import save_ctranslate2
from annotated.formats.marian import vocabularies
from annotated.search.translation import Translator
from benchmarks.common import both_settings, interleaved, model_folder, pairs, record, say, show, timed
from benchmarks.engine import Engine
from benchmarks.peers import marian

SENTENCES = {1: 30, 32: 128, 100: 200}  # batch size: sentences a turn
EXTRA, WORKERS, CHECKED = 50, 2, 48
BEAM = {"beam_size": 4, "length_penalty": 0.6, "penalty": "power"}  # the others divide by |Y|^alpha too
ENGINES = [(precision, *threads) for precision in ("float32", "int8") for threads in ((1, 2), (2, 1))]
SYSTEMS = (
    *(f"annotated, {kind}{end}" for kind in ("float32", "bfloat16") for end in ("", f", {WORKERS} workers")),
    *(f"Hugging Face generate, {kind}" for kind in ("float32", "bfloat16")),
    *(f"CTranslate2 {precision}, {workers} x {threads} threads" for precision, workers, threads in ENGINES),
)


def slices(sources: list[list[int]], size: int) -> list[list[list[int]]]:
    return [sources[i : i + size] for i in range(0, len(sources), size)]


def our_search(translator: Translator, sources: list[list[int]], size: int, width: int = 4) -> list[list[int]]:
    """Our search, in the translator's worker processes if it has some. Outputs here and below are without eos."""
    found = translator.search_all(slices(sources, size), BEAM | {"beam_size": width})
    end = translator.model.config.end_id
    return [[token for token in best.tokens if token != end] for batch in found for (best,) in batch]


def their_generate(model, sources: list[list[int]], size: int, width: int = 4) -> list[list[int]]:
    outputs = []
    for batch in slices(sources, size):
        rows = pad_sequences(batch, model.config.pad_token_id).to(model.device)
        mask, limit = (rows != model.config.pad_token_id).long(), rows.shape[1] + EXTRA
        settings = {"num_beams": width, "do_sample": False, "max_length": None, "max_new_tokens": limit}
        settings |= {"length_penalty": 0.6} if width > 1 else {}
        outputs += model.generate(rows, attention_mask=mask, **settings)[:, 1:].tolist()
    special = (model.config.pad_token_id, model.config.eos_token_id)
    return [[token for token in output if token not in special] for output in outputs]


def engine_search(engine: Engine, pieces: list[str], sources, size: int, width: int = 4) -> list[list[int]]:
    words = [[pieces[i] for i in source[:-1]] for source in sources]
    number_of = {name: i for i, name in enumerate(pieces)}
    limit = max(map(len, sources)) + EXTRA
    settings = {"beam_size": width, "length_penalty": 0.6, "max_decoding_length": limit, "max_batch_size": size}
    return [[number_of[piece] for piece in output] for output in engine.translate(words, **settings)[0]]


def contestants(
    folder: Path, exported: Path, pools: ExitStack, only: str | None = None
) -> dict[str, Callable[..., list[list[int]]]]:
    """Every system as a function from sources, batch size and beam width to outputs."""
    translator = Translator.load(folder, "cpu")
    number_of = vocabularies(translator.tokenizer)[0]
    pieces = sorted(number_of, key=number_of.__getitem__)
    if only is None or only.startswith("CTranslate2"):
        save_ctranslate2(translator, exported)
    systems: dict[str, Callable] = {}
    for name in SYSTEMS if only is None else [only]:
        system, _, kind = name.partition(", ")
        if system == "annotated":
            own = Translator.load(folder, "cpu", kind.partition(", ")[0])
            if kind.endswith("workers"):
                pools.enter_context(own.workers(WORKERS))
            systems[name] = partial(our_search, own)
        elif system.startswith("Hugging Face"):
            systems[name] = partial(their_generate, marian(translator, "sdpa").eval().to(getattr(torch, kind)))
    for engine in ENGINES:
        name = "CTranslate2 {}, {} x {} threads".format(*engine)
        if only in (None, name):
            systems[name] = partial(engine_search, pools.enter_context(Engine(exported, *engine)), pieces)
    return systems


def same_outputs(systems: dict[str, Callable], sources: list[list[int]]) -> dict[str, dict[str, float]]:
    """The share of outputs that are ours in float32, by system, for greedy search and for the beam.

    Raises AssertionError when another system in float32 has other outputs than a search that ends early explains.
    """
    shares: dict[str, dict[str, float]] = {}
    for search, width in (("greedy", 1), ("beam", 4)):
        outputs = {name: system(sources, len(sources), width) for name, system in systems.items()}
        ours = outputs["annotated, float32"]
        for name, found in outputs.items():
            same = sum(one == other for one, other in zip(ours, found, strict=True)) / len(ours)
            shares.setdefault(name, {})[search] = same
            assert "float32" not in name or same > (0.97 if width == 1 else 0.8), f"{name} writes something else"
    return shares


def translated(system: Callable, sources: list[list[int]], size: int) -> int:
    """Translate, and return how many sentences that were."""
    return len(system(sources, size))


def run(rounds: int = 3) -> None:
    """Three batch sizes, each one interleaved run; printed and recorded."""
    folder = model_folder()
    translator = Translator.load(folder, "cpu")
    texts = [pair.source for pair in pairs(translator, "test")]
    sources = sorted(translator.tokenize(texts), key=len)
    tables = {}
    with tempfile.TemporaryDirectory() as exported, ExitStack() as pools, torch.inference_mode():
        systems = contestants(folder, Path(exported) / "model", pools)
        shares = same_outputs(systems, sources[:: max(1, len(sources) // CHECKED)][:CHECKED])
        say(f"\nthe same outputs as annotated, float32, of {CHECKED} sentences")
        for name, share in shares.items():
            say(f"  {name:<44} greedy {share['greedy']:.2f}, beam {share['beam']:.2f}")
        for size, count in SENTENCES.items():
            chosen = sources[:: max(1, len(sources) // count)][:count]
            works: dict[str, Callable[[], float]] = {}
            for name, system in systems.items():
                work = timed(partial(translated, system, chosen, size))
                fixed = name.startswith("CTranslate2") or name.endswith("workers")  # processes keep their settings
                works |= {name: work} if fixed else both_settings(name, lambda work=work: work, one_thread=size == 1)
                translated(system, chosen[:: len(chosen) // 10], size)  # to warm up
            tables[str(size)] = interleaved(works, rounds)
            show(f"decoding, batch {size}, sentences a second", "sentences/s", tables[str(size)])
    record("benchmark-decoding", {
        "model": folder.name, "rounds": rounds, "sentences": SENTENCES, "same_outputs": shares, "tables": tables,
    })  # fmt: skip
