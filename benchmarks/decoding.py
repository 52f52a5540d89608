"""Decoding the test split: beam 4, length penalty 0.6, at most source + 50 tokens, the same weights everywhere."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch

from annotated.batching import pad_sequences
from annotated.marian import save_ctranslate2, vocabularies
from annotated.translation import Translator
from benchmarks.common import both_settings, interleaved, model_folder, pairs, record, show, timed
from benchmarks.peers import marian

SENTENCES = {1: 40, 32: 160, 100: 200}  # batch size: sentences a turn
EXTRA, WORKERS = 50, 2


def in_batches(sources: list[list[int]], size: int) -> list[list[list[int]]]:
    return [sources[i : i + size] for i in range(0, len(sources), size)]


def our_search(translator: Translator, sources: list[list[int]], size: int) -> list[list[int]]:
    """Our search, in the translator's worker processes if it has some."""
    found = translator.search_all(in_batches(sources, size), {"beam_size": 4})
    return [best.tokens for batch in found for (best,) in batch]


def their_generate(model, sources: list[list[int]], size: int) -> list[list[int]]:
    outputs = []
    for batch in in_batches(sources, size):
        rows = pad_sequences(batch, model.config.pad_token_id)
        mask, limit = (rows != model.config.pad_token_id).long(), rows.shape[1] + EXTRA
        settings = {"num_beams": 4, "length_penalty": 0.6, "do_sample": False, "max_length": None}
        outputs += model.generate(rows, attention_mask=mask, max_new_tokens=limit, **settings)[:, 1:].tolist()
    return outputs


def engine_search(engine, pieces: list[str], sources: list[list[int]], size: int) -> list[list[str]]:
    words = [[pieces[i] for i in source] for source in sources]
    limit = max(map(len, sources)) + EXTRA
    settings = {"beam_size": 4, "length_penalty": 0.6, "max_decoding_length": limit}
    results = engine.translate_batch(words, max_batch_size=size, **settings)
    return [result.hypotheses[0] for result in results]


def contestants(folder: Path, exported: Path, pools: ExitStack) -> dict[str, Callable[[list[list[int]], int], list]]:
    """Every system as a function from sources and batch size to outputs."""
    import ctranslate2

    translator = Translator.load(folder, "cpu")
    number_of = vocabularies(translator.tokenizer)[0]
    pieces = sorted(number_of, key=number_of.__getitem__)
    save_ctranslate2(translator, exported)
    systems: dict[str, Callable] = {}
    for precision in ("float32", "bfloat16"):
        systems[f"annotated, {precision}"] = partial(our_search, Translator.load(folder, "cpu", precision))
        shared = Translator.load(folder, "cpu", precision)
        pools.enter_context(shared.workers(WORKERS))
        systems[f"annotated, {precision}, {WORKERS} workers"] = partial(our_search, shared)
    for precision in (torch.float32, torch.bfloat16):
        model = marian(translator, "sdpa").eval().to(precision)
        name = f"Hugging Face generate, {str(precision).removeprefix('torch.')}"
        systems[name] = partial(their_generate, model)
    for precision in ("float32", "int8"):
        for workers, threads in ((1, 2), (2, 1)):
            engine = ctranslate2.Translator(
                str(exported), compute_type=precision, inter_threads=workers, intra_threads=threads
            )
            name = f"CTranslate2 {precision}, {workers} x {threads} threads"
            systems[name] = partial(engine_search, engine, pieces)
    return systems


def translated(system: Callable, sources: list[list[int]], size: int) -> int:
    """Translate, and return how many sentences that were."""
    return len(system(sources, size))


def run(rounds: int = 3) -> None:
    """Three batch sizes, each one interleaved run; printed and recorded."""
    folder = model_folder()
    translator = Translator.load(folder, "cpu")
    texts = [pair.source for pair in pairs(translator, "test")]
    sources = sorted(translator.encode(texts), key=len)
    tables = {}
    with tempfile.TemporaryDirectory() as exported, ExitStack() as pools, torch.inference_mode():
        systems = contestants(folder, Path(exported) / "model", pools)
        for size, count in SENTENCES.items():
            chosen = sources[:: max(1, len(sources) // count)][:count]
            works: dict[str, Callable[[], float]] = {}
            for name, system in systems.items():
                work = timed(partial(translated, system, chosen, size))
                fixed = name.startswith("CTranslate2") or name.endswith("workers")  # processes keep their settings
                works |= {name: work} if fixed else both_settings(name, work, one_thread=True)
            interleaved(works, 1)  # to warm up
            tables[str(size)] = interleaved(works, rounds)
            show(f"decoding, batch {size}, sentences a second", "sentences/s", tables[str(size)])
    record("benchmark-decoding", {"model": folder.name, "rounds": rounds, "sentences": SENTENCES, "tables": tables})
