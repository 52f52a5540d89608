"""The benchmarks compare equals: same weights, same outputs; a turn runs (chapter 92)."""

import copy
import json
import random
import shutil
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from annotated.batching import make_batch, token_batches
from annotated.machine.acceleration import FASTER, accelerate
from annotated.runs.examples import tokenize_pairs
from annotated.search.translation import Translator
from annotated.text.grammar.splits import embedded_split
from benchmarks import common, decoding, engine, gains, quality, training
from benchmarks.peers import TorchTransformer, marian

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(ROOT / "data" / "models" / "embedded", "cpu")


@pytest.fixture(scope="module")
def batches(translator):
    examples = tokenize_pairs(translator.tokenizer, embedded_split("valid")[:60], 256)
    return [make_batch([examples[i] for i in rows]) for rows in token_batches(examples, 120)]


@torch.inference_mode()
def test_torch_transformer_has_our_weights(translator, batches):
    system = TorchTransformer(translator.model).eval()
    for batch in batches:
        ours = translator.model(batch.source, batch.target_input)
        real = batch.target_output != 0
        assert (system(batch.source, batch.target_input) - ours)[real].abs().max() < 1e-4


@pytest.mark.slow
def test_dropout_acts_at_the_same_places(translator):
    """On embeddings and sub-layer outputs: nowhere else in any system."""
    model = copy.deepcopy(translator.model)
    system, theirs = TorchTransformer(model), marian(translator, "eager")
    layer = system.core.decoder.layers[0]
    assert layer.dropout.p == layer.self_attn.dropout == layer.multihead_attn.dropout == 0
    assert layer.dropout1.p == layer.dropout2.p == layer.dropout3.p == model.config.dropout
    assert (theirs.config.attention_dropout, theirs.config.activation_dropout) == (0, 0)
    assert theirs.config.dropout == model.config.dropout


@pytest.mark.slow
def test_every_contestant_trains(translator, batches, monkeypatch):
    monkeypatch.setattr(training, "STEPS", 1)
    works = training.contestants(translator, batches[:2], torch.float32)
    assert len(works) == 2 * len(training.SYSTEMS)
    table = common.interleaved(works, 1)
    assert all(row["lowest"] <= row["median"] <= row["highest"] for row in table.values())
    assert all(row["median"] > 0 for row in table.values())


@pytest.mark.slow
def test_different_weights_are_noticed(translator, batches, monkeypatch):
    training.check_equal(translator, batches[0])

    def other(*given):
        system = marian(*given)
        system.final_logits_bias += 1
        return system

    monkeypatch.setattr(training, "marian", other)
    with pytest.raises(AssertionError, match="computes something else"):
        training.check_equal(translator, batches[0])


@pytest.mark.slow
@torch.inference_mode()
def test_every_system_translates_alike(translator, tmp_path):
    sources = translator.tokenize([pair.source for pair in embedded_split("test")[:3]])
    with ExitStack() as pools:
        systems = decoding.contestants(ROOT / "data" / "models" / "embedded", tmp_path / "engine", pools)
        assert tuple(systems) == decoding.SYSTEMS
        shares = decoding.same_outputs(systems, sources)
        assert {share["greedy"] for name, share in shares.items() if "float32" in name} == {1.0}
        assert shares["annotated, float32, 2 workers"] == {"greedy": 1.0, "beam": 1.0}
        assert len(systems["annotated, float32"](sources, 2)) == 3
        other = {"annotated, float32": systems["annotated, float32"]}
        other["Hugging Face generate, float32"] = lambda sources, size, width: [[5] for _ in sources]
        with pytest.raises(AssertionError, match="generate, float32 writes something else"):
            decoding.same_outputs(other, sources)


def without_dropout(translator: Translator) -> SimpleNamespace:
    """What `gains` needs of a translator, with a model that has no dropout."""
    model = copy.deepcopy(translator.model)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return SimpleNamespace(model=model)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=str)
def test_what_is_taken_back_computes_the_same(precision, translator, batches):
    """Two steps with every part against two without it: the second loss follows from the first gradient."""
    found = gains.variants(without_dropout(translator), precision)
    losses = {part: [step(batch).item() for batch in batches[:2]] for part, step in found.items()}
    whole = losses.pop("")
    parts = {"dropout from integers", "loss in pieces", "everything"}
    assert set(losses) == (parts if precision == torch.float32 else parts | {"working copy"})
    within = 1e-4 if precision == torch.float32 else 0.02
    for part, other in losses.items():
        assert other == pytest.approx(whole, rel=within), part


def test_what_is_taken_back_is_one_part(translator):
    """The model without it has PyTorch's dropout, and still the faster attention; the other way round too."""
    for plain in FASTER:
        model = gains.without(accelerate(copy.deepcopy(translator.model)), plain)
        kinds = {type(module) for module in model.modules()}
        assert plain in kinds
        assert FASTER[plain] not in kinds
        assert {FASTER[other] for other in FASTER if other is not plain} <= kinds


def test_pairs_of_turns_change_their_order():
    """Each goes first as often as the other; the gain is that of the first over the second, in an interval."""
    turns = []
    works = [
        lambda name=name, speed=speed: turns.append(name) or speed for name, speed in (("with", 3.0), ("not", 2.0))
    ]
    row = gains.compare(*works, rounds=4)
    assert turns == ["with", "not", "not", "with"] * 2
    assert row == {"gain": 1.5, "low": 1.5, "high": 1.5, "pairs": 4}
    drawn = random.Random(1)
    row = gains.interval([drawn.gauss(1.0, 0.1) for _ in range(200)])
    assert row["low"] < 1 < row["high"] < row["low"] + 0.1
    assert row["low"] <= row["gain"] <= row["high"]


@pytest.mark.slow
def test_memory_is_the_peak_of_a_process_of_its_own():
    idle = common.in_a_process("benchmarks.memory", "nothing", "PyTorch imported")
    assert 50 < idle <= engine.peak_memory() + 50  # this process has PyTorch too
    with pytest.raises(RuntimeError, match="no_such"):
        common.in_a_process("no_such_module")


def test_a_model_is_kept_once_and_whole(tmp_path):
    run, snapshots = tmp_path / "run", tmp_path / "kept"
    quality.keep_newest(run, snapshots)  # nothing there yet
    assert not snapshots.exists()
    run.mkdir()
    (run / "config.json").write_text('{"step": 500}')
    quality.keep_newest(run, snapshots)  # the weights are still missing
    assert not (snapshots / "500").exists()
    (run / "tokenizer.model").write_text("pieces")
    for step, weights in ((500, "first"), (500, "changed"), (1000, "second")):
        (run / "config.json").write_text(json.dumps({"step": step}))
        (run / "model.safetensors").write_text(weights)
        quality.keep_newest(run, snapshots)
    assert {path.name: (path / "model.safetensors").read_text() for path in snapshots.iterdir()} == {
        "500": "first",
        "1000": "second",
    }


@pytest.mark.slow
def test_scores_over_time_follow_the_kept_models(tmp_path, monkeypatch):
    shipped, run = ROOT / "data" / "models" / "embedded", tmp_path / "run"
    monkeypatch.setattr(
        quality, "load_corpus", lambda name: SimpleNamespace(split=lambda part: embedded_split(part)[:8])
    )
    for step in (100, 20):
        shutil.copytree(shipped, tmp_path / "kept" / str(step))
    run.mkdir()
    lines = [{"step": 20, "seconds": 30.0, "loss": 1.0}, {"step": 100, "seconds": 60.0, "valid_loss": 1.0}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = quality.scores_over_time(run, tmp_path / "kept")
    assert [(row["step"], row["minutes"]) for row in rows] == [(20, 0.5), (100, 1.0)]
    assert rows[0]["beam 4"] == rows[1]["beam 4"] > 50
