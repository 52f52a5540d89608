"""Nothing stays on the CPU: the package on a device that refuses to mix tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from annotated import decoding
from annotated.batching import make_batch
from annotated.drawing.visualization import attention_maps, sentence_maps
from annotated.interventions import head_means, silenced
from annotated.machine.acceleration import accelerate, chunked_training_loss, top_tokens
from annotated.model import Transformer, TransformerConfig
from annotated.recurrent import RecurrentConfig, RecurrentTranslator, greedy_translation
from annotated.runs.checkpoint import load_model, save_model
from annotated.runs.state import load_state, new_state, save_checkpoint
from annotated.runs.training import train
from annotated.schedule import build_optimizer, set_learning_rate
from annotated.search.beam import beam_search, greedy_search, score_outputs
from annotated.search.translation import Translator
from annotated.text.grammar.splits import embedded_split
from annotated.training import TrainingConfig, train_step, training_loss, validation_loss
from tests.device import strict_device

SHIPPED = Path(__file__).resolve().parents[1] / "data" / "models" / "embedded"
TEXTS = sorted((pair.source for pair in embedded_split("test")), key=len)[:60:10]  # short: each step takes long there
EXAMPLES = [([w, w + 1, *range(4, 4 + w % 5), 3], [w + 1, w, 3]) for w in range(6, 46)]
BATCHES = [make_batch(EXAMPLES[:20]), make_batch(EXAMPLES[20:])]
CONFIG = TrainingConfig(max_steps=2, max_tokens=200, warmup_steps=10, validate_every=2, precision="float32")
SOURCE = torch.tensor([[7, 9, 30, 3], [8, 5, 3, 0], [40, 3, 0, 0]])
TARGET = torch.tensor([[2, 11, 12, 13], [2, 20, 21, 0], [2, 30, 0, 0]])
VARIANTS = {
    "paper": {},
    "learned": {"positions": "learned", "max_length": 30, "tie_embeddings": False, "output_bias": True, "d_k": 6}
    | {"norm_first": True, "attention_bias": True, "scale_embeddings": False},
}


@pytest.fixture
def device() -> Iterator[torch.device]:
    with strict_device() as device:
        yield device


def transformer(name: str = "paper", **changes) -> Transformer:
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_ff": 64, "num_heads": 4, "num_layers": 2, "dropout": 0.0}
    return Transformer(TransformerConfig(50, **(sizes | VARIANTS[name] | changes)))


def recurrent(dropout: float = 0.0) -> RecurrentTranslator:
    torch.manual_seed(0)
    return RecurrentTranslator(RecurrentConfig(50, d_model=16, d_hidden=12, dropout=dropout))


def both(model: nn.Module, device: torch.device) -> tuple[nn.Module, nn.Module]:
    """The model, and the same on the device."""
    return model, copy.deepcopy(model).to(device)


def close(a: Tensor, b: Tensor, within: float = 1e-5) -> bool:
    return a.shape == b.shape and (a.cpu() - b.cpu()).abs().max().item() < within


def losses(model: nn.Module, steps: int = 2) -> list[float]:
    """The losses of a few steps, and of a validation after them."""
    optimizer = build_optimizer(model.parameters())
    set_learning_rate(optimizer, 1e-3)
    found = [train_step(model, optimizer, BATCHES, CONFIG).item() for _ in range(steps)]
    return [*found, validation_loss(model, BATCHES)]


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_a_model_computes_learns_and_searches_the_same(device: torch.device, name: str):
    model, moved = both(transformer(name).eval(), device)
    logits = moved(SOURCE.to(device), TARGET.to(device))
    assert logits.device == device
    assert close(logits, model(SOURCE, TARGET))
    long = torch.randint(4, 50, (1, 29 if name == "learned" else 150))
    assert close(moved(long.to(device), long.to(device)), model(long, long))
    expected = [h.tokens for (h,) in greedy_search(model, SOURCE, limit=6)]
    for cache in (True, False):
        assert [h.tokens for (h,) in greedy_search(moved, SOURCE.to(device), cache=cache, limit=6)] == expected
    assert close(score_outputs(moved, SOURCE.to(device), TARGET.to(device)), score_outputs(model, SOURCE, TARGET))
    heads = [("encoder", 0, 1), ("cross", 1, 3)]
    means = [head_means(one, [BATCHES[0].to(where)]) for one, where in ((model, "cpu"), (moved, device))]
    for by in ((None, None), means):
        with silenced(model, heads, by=by[0]), silenced(moved, heads, by=by[1]):
            assert close(moved(SOURCE.to(device), TARGET.to(device)), model(SOURCE, TARGET))
    assert losses(moved.train()) == pytest.approx(losses(model.train()), rel=1e-4)
    assert {weight.device for weight in moved.parameters()} == {device}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_faster_computes_the_same(device: torch.device, name: str):
    """Chapter 92 there, with the fused attention, against the plain form here."""
    model, moved = both(transformer(name), device)
    accelerate(moved)
    batch = BATCHES[0]
    loss, fast_loss = training_loss(model, batch, 0.1), chunked_training_loss(moved, batch.to(device), 0.1)
    assert fast_loss.item() == pytest.approx(loss.item(), rel=1e-5)
    for part in (loss, fast_loss):
        (part / batch.num_tokens).backward()
    for weight, other in zip(model.parameters(), moved.parameters(), strict=True):
        assert other.grad.device == device
        assert close(weight.grad, other.grad, 1e-4)
    found = beam_search(moved.eval(), SOURCE.to(device), n_best=3, limit=6, topk=top_tokens)
    expected = beam_search(model.eval(), SOURCE, n_best=3, limit=6)
    assert [[h.tokens for h in best] for best in found] == [[h.tokens for h in best] for best in expected]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "precision"), [(transformer, "bfloat16"), (recurrent, "float32")])
def test_training_stops_and_goes_on(device: torch.device, tmp_path: Path, make: Callable, precision: str):
    config = replace(CONFIG, precision=precision, clip_norm=1.0, average_decay=0.9, accumulation=2)
    train(make(dropout=0.2).to(device), EXAMPLES, EXAMPLES, replace(config, max_steps=1), folder=tmp_path)
    state = train(make(dropout=0.2).to(device), EXAMPLES, EXAMPLES, config, folder=tmp_path, resume=True)
    unbroken = train(make(dropout=0.2).to(device), EXAMPLES, EXAMPLES, config)
    assert state.step == CONFIG.max_steps
    for name, weight in state.weights().items():
        assert weight.device == device
        assert torch.equal(weight.cpu(), unbroken.weights()[name].cpu())


@pytest.mark.slow
def test_a_state_goes_from_device_to_device(device: torch.device, tmp_path: Path):
    model, moved = both(transformer(), device)
    state = new_state(moved, CONFIG)
    set_learning_rate(state.optimizer, 1e-3)
    state.losses = [train_step(moved, state.optimizer, BATCHES, CONFIG)]
    save_checkpoint(tmp_path, state, 5)
    for target in (model, transformer().to(device)):
        loaded = new_state(target, CONFIG)
        load_state(tmp_path, loaded)
        assert [loss.device for loss in loaded.losses] == [target.target_embedding.weight.device]
        for weight, other in zip(target.parameters(), moved.parameters(), strict=True):
            assert torch.equal(weight.cpu(), other.cpu())
            for key, value in loaded.optimizer.state[weight].items():
                assert value.device == weight.device
                assert torch.equal(value.cpu(), state.optimizer.state[other][key].cpu())
        set_learning_rate(loaded.optimizer, 1e-3)
        train_step(target, loaded.optimizer, BATCHES, CONFIG)


@pytest.mark.slow
def test_the_recurrent_translator_is_the_same(device: torch.device):
    model, moved = both(recurrent().eval(), device)
    assert close(moved(SOURCE.to(device), TARGET.to(device)), model(SOURCE, TARGET))
    written = greedy_translation(moved, SOURCE.to(device), 9)
    assert torch.equal(written.cpu(), greedy_translation(model, SOURCE, 9))
    assert losses(moved.train()) == pytest.approx(losses(model.train()), rel=1e-4)


@pytest.mark.slow
def test_the_shipped_model_translates_the_same(device: torch.device, tmp_path: Path):
    here, there = Translator.load(SHIPPED, "cpu"), Translator.load(SHIPPED, "tester")
    assert {weight.device for weight in there.model.parameters()} == {device}
    assert there.translate(TEXTS, beam_size=4) == here.translate(TEXTS, beam_size=4)
    with there.workers(2):
        assert there.translate(TEXTS, beam_size=1) == here.translate(TEXTS, beam_size=1)
    source, target = TEXTS[0], here.translate(TEXTS[:1])[0]
    maps, expected = (sentence_maps(t.model, t.tokenizer, source, target) for t in (there, here))
    assert all(np.allclose(maps[kind], expected[kind], atol=1e-5) for kind in expected)
    save_model(there.model, tmp_path, there.tokenizer, dtype=torch.float16)
    again, _, _ = load_model(tmp_path, device)
    assert close(again.output.weight, here.model.output.weight, 1e-2)
    Translator.load(SHIPPED, "tester", "bfloat16").translate(TEXTS[:2])


@pytest.mark.slow
@pytest.mark.parametrize("make", [transformer, recurrent])
def test_nothing_needs_float64(tmp_path: Path, make: Callable):
    with strict_device(float64=False) as device:
        model = make().to(device)
        train(model, EXAMPLES, EXAMPLES, CONFIG, folder=tmp_path)
        if make is transformer:
            long = torch.randint(4, 50, (1, 150), device=device)  # a longer table of positions
            beam_search(model.eval(), torch.cat([long, long]), limit=5)
            score_outputs(model, long, long)
            attention_maps(model, SOURCE.to(device), TARGET.to(device))
        else:
            greedy_translation(model, SOURCE.to(device), 9)


@pytest.mark.slow
def test_a_tensor_left_on_the_cpu_is_found(device: torch.device, monkeypatch):
    """What this file is for: the CPU does not show it."""
    model, moved = both(transformer().eval(), device)
    reorder = decoding.DecodingState.reorder
    monkeypatch.setattr(decoding.DecodingState, "reorder", lambda state, order: reorder(state, order.cpu()))
    beam_search(model, SOURCE, limit=6)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        beam_search(moved, SOURCE.to(device), limit=6)
