"""The benchmarks compare equals: same weights, same outputs; a turn runs (chapter 52)."""

import copy
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from annotated.batching import make_batch, token_batches
from annotated.grammar import embedded_split
from annotated.training import encode_pairs
from annotated.translation import Translator
from benchmarks import common, decoding, training
from benchmarks.peers import TorchTransformer, marian

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(ROOT / "data" / "models" / "embedded", "cpu")


@pytest.fixture(scope="module")
def batches(translator):
    examples = encode_pairs(translator.tokenizer, embedded_split("valid")[:60], 256)
    return [make_batch([examples[i] for i in rows]) for rows in token_batches(examples, 300)]


@torch.inference_mode()
def test_torch_transformer_has_our_weights(translator, batches):
    system = TorchTransformer(translator.model).eval()
    for batch in batches:
        ours = translator.model(batch.source, batch.target_input)
        real = batch.target_output != 0
        assert (system(batch.source, batch.target_input) - ours)[real].abs().max() < 1e-4


def test_dropout_acts_at_the_same_places(translator):
    """On embeddings and sub-layer outputs: nowhere else in any system."""
    model = copy.deepcopy(translator.model)
    system, theirs = TorchTransformer(model), marian(translator, "eager")
    layer = system.core.decoder.layers[0]
    assert layer.dropout.p == layer.self_attn.dropout == layer.multihead_attn.dropout == 0
    assert layer.dropout1.p == layer.dropout2.p == layer.dropout3.p == model.config.dropout
    assert (theirs.config.attention_dropout, theirs.config.activation_dropout) == (0, 0)
    assert theirs.config.dropout == model.config.dropout


def test_every_contestant_trains(translator, batches, monkeypatch):
    monkeypatch.setattr(training, "STEPS", 1)
    works = training.contestants(translator, batches, torch.float32)
    assert len(works) == 8
    table = common.interleaved(works, 1)
    assert all(row["lowest"] <= row["median"] <= row["highest"] for row in table.values())
    assert all(row["median"] > 0 for row in table.values())


def test_different_weights_are_noticed(translator, batches, monkeypatch):
    def other(source, kind):
        system = marian(source, kind)
        system.final_logits_bias += 1
        return system

    monkeypatch.setattr(training, "marian", other)
    with pytest.raises(AssertionError, match="computes something else"):
        training.contestants(translator, batches, torch.float32)


def test_every_system_translates(translator, tmp_path):
    sources = translator.encode([pair.source for pair in embedded_split("test")[:4]])
    with ExitStack() as pools:
        systems = decoding.contestants(ROOT / "data" / "models" / "embedded", tmp_path / "engine", pools)
        assert len(systems) == 10
        lengths = {name: [len(row) for row in system(sources, 2)] for name, system in systems.items()}
    assert all(len(found) == 4 for found in lengths.values())
    assert lengths["annotated, float32, 2 workers"] == lengths["annotated, float32"]
    ours = decoding.our_search(translator, sources, 2)
    pieces = [translator.tokenizer.processor.id_to_piece(i) for i in range(len(translator.tokenizer))]
    words = [[pieces[i] for i in row[:-1]] for row in ours]
    assert systems["CTranslate2 float32, 1 x 2 threads"](sources, 2) == words
    theirs = systems["Hugging Face generate, float32"](sources, 2)
    assert [row[: len(own)] for row, own in zip(theirs, ours)] == ours
