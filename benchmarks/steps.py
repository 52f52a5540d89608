"""A step of the beam search: what its faster parts gain, where its time goes, and CTranslate2 beside it.

The model has the sizes of the recipe `small` and random weights, so that none has to be trained: every search makes the
same number of steps. One thread each.
"""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from annotated.batching import pad_sequences
from annotated.cost import seconds_of
from annotated.decoding import Hypothesis, start_decoding
from annotated.embeddings import OutputProjection
from annotated.formats.ctranslate2 import save_ctranslate2
from annotated.machine.acceleration import accelerate, products_of_few_rows, start_fast_decoding, top_tokens
from annotated.model import Transformer, TransformerConfig
from annotated.runs.recipes import RECIPES
from annotated.search.beam import beam_search
from annotated.search.translation import Translator
from annotated.text.tokenization import Tokenizer, train_tokenizer
from benchmarks.common import interleaved, record, say, show, timed
from benchmarks.decoding import engine_search, slices, translated
from benchmarks.engine import Engine
from benchmarks.gains import without
from benchmarks.store import halves

SENTENCES = {1: 24, 32: 64, 100: 100}  # batch size: sentences a turn
STEPS, WIDTH, ROUNDS = 15, 4, 9
ALL = "both, few rows by MKL"
KINDS = {  # what PyTorch calls its operations
    "products": ("mm", "addmm", "bmm", "baddbmm", "linear"),
    "norms, softmax, activation": ("native_layer_norm", "_softmax", "relu", "add", "mul", "div", "bitwise_not"),
    "choosing the best": ("topk", "_log_softmax", "logsumexp", "gather", "amax", "max", "sort", "index", "exp"),
    "copies": ("copy_", "clone", "cat", "index_select", "contiguous", "fill_", "masked_fill", "masked_fill_"),
}


def translator() -> Translator:
    """A model of random weights, with a vocabulary of made-up words."""
    sizes = {name: RECIPES["small"][name] for name in ("d_model", "d_ff", "num_heads", "num_layers", "max_length")}
    torch.manual_seed(1)
    tokenizer: Tokenizer = train_tokenizer(iter(halves(20_000, 7, 1)), RECIPES["small"]["vocab_size"])
    return Translator(accelerate(Transformer(TransformerConfig(len(tokenizer), **sizes)).eval()), tokenizer)


def searches(model: Transformer) -> dict[str, tuple[Transformer, Callable, Callable]]:
    """Our search with its faster parts alone and together: a model, how a search begins, and what holds meanwhile."""
    plain = without(without(copy.deepcopy(model), nn.Linear), OutputProjection)
    return {
        "plain step": (plain, start_decoding, nullcontext),
        "fast step": (plain, start_fast_decoding, nullcontext),
        "few rows": (model, start_decoding, nullcontext),
        "both": (model, start_fast_decoding, nullcontext),
        ALL: (model, start_fast_decoding, products_of_few_rows),
    }


def search(
    model: Transformer, start: Callable, during: Callable, sources: list[list[int]], size: int
) -> list[list[Hypothesis]]:
    found, options = [], {"beam_size": WIDTH, "limit": STEPS, "topk": top_tokens, "penalty": "power", "start": start}
    with during(size * WIDTH):
        for batch in slices(sources, size):
            found += beam_search(model, pad_sequences(batch, model.config.pad_id), **options)
    return found


def where_time_goes(work: Callable[[], object]) -> dict[str, float]:
    """The share of each kind of operation; what is left is Python and the beginning of operations."""
    with profile(activities=[ProfilerActivity.CPU]) as found:
        whole = seconds_of(work)
    seconds = dict.fromkeys(KINDS, 0.0) | {"other operations": 0.0}
    for event in found.key_averages():
        name = event.key.removeprefix("aten::")
        kind = next((kind for kind, names in KINDS.items() if name in names), "other operations")
        seconds[kind] += event.self_cpu_time_total / 1e6
    return {kind: some / whole for kind, some in seconds.items()} | {"Python": 1 - sum(seconds.values()) / whole}


@torch.inference_mode()
def run() -> None:
    """All sizes; printed and recorded."""
    torch.set_num_threads(1)
    whole, choose, tables, shares = translator(), random.Random(1), {}, {}
    pieces = [whole.tokenizer.processor.id_to_piece(i) for i in range(len(whole.tokenizer))]
    with tempfile.TemporaryDirectory() as folder:
        save_ctranslate2(whole, Path(folder) / "model")
        with Engine(Path(folder) / "model", "float32", 1, 1) as engine:
            for size, count in SENTENCES.items():
                lengths = [choose.randint(8, 20) for _ in range(count)]
                sources = [[*choose.choices(range(4, len(pieces)), k=n), whole.tokenizer.eos_id] for n in lengths]
                systems = {name: partial(search, *pair) for name, pair in searches(whole.model).items()}
                systems["CTranslate2 float32"] = partial(engine_search, engine, pieces, width=WIDTH, limit=STEPS)
                works = {name: partial(translated, system, sources, size) for name, system in systems.items()}
                tables[str(size)] = interleaved({name: timed(work) for name, work in works.items()}, ROUNDS)
                show(f"batches of {size}", "sentences/s", tables[str(size)])
                shares[str(size)] = {name: where_time_goes(works[name]) for name in ("plain step", ALL)}
                say(f"  {ALL}: {shares[str(size)][ALL]}")
    record("benchmark-steps", {
        "sentences": SENTENCES, "steps": STEPS, "rounds": ROUNDS, "tables": tables, "shares": shares,
    })  # fmt: skip
