"""What a step takes (chapter 93): its counts are those of real steps, and its parts behave as their names say."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch.utils._python_dispatch import TorchDispatchMode

from annotated.batching import Batch, make_batch
from annotated.cost import training_flops
from annotated.machine.acceleration import accelerate, chunked_training_loss
from annotated.model import Transformer, TransformerConfig
from annotated.runs.forecast import (
    Device,
    all_reduce_seconds,
    data_sheet,
    kept_bytes,
    moved_numbers,
    num_calls,
    num_weights,
    step_seconds,
)
from annotated.runs.training import losses_of
from annotated.schedule import build_optimizer, set_learning_rate
from annotated.training import TrainingConfig, train_step

ROOT = Path(__file__).resolve().parents[1]
ROWS = {row["device"]: row for row in yaml.safe_load((ROOT / "data/devices.yml").read_text("utf-8"))["devices"]}
CONFIG = TransformerConfig(900, d_model=64, d_ff=160, num_heads=4, num_layers=2)
VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "wide": {"d_model": 128, "d_ff": 320},
    "heads": {"num_heads": 8, "vocab_size": 2700},
    "layers": {"num_layers": 3, "num_decoder_layers": 1},
}
DEVICE = Device({1: 1e9}, memory=1e9, cache=1e9, call=0.0)


class Counter(TorchDispatchMode):
    """Bytes that operations read and write, except products, allocations and views, and how many there are."""

    FREE = ("mm", "addmm", "bmm", "empty", "empty_like", "new_empty", "empty_strided", "detach", "_unsafe_view")

    def __init__(self):
        super().__init__()
        self.bytes = self.calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found, name = function(*args, **(kwargs or {})), function.overloadpacket.__name__
        self.calls += 1
        if name in self.FREE or function.is_view:
            return found
        schema, given = function._schema, kwargs or {}
        for place, argument in enumerate(schema.arguments):
            value = args[place] if place < len(args) else given.get(argument.name)
            tensors = value if isinstance(value, list | tuple) else [value]
            size = sum(one.nbytes for one in tensors if isinstance(one, torch.Tensor))
            if name == "embedding" and argument.name == "weight":
                size = found.nbytes  # the rows that are looked up
            both = argument.is_write and name not in ("copy_", "fill_", "zero_", "random_")
            self.bytes += 2 * size if both else size
        results = found if isinstance(found, list | tuple) else [found]
        self.bytes += sum(
            value.nbytes
            for value, result in zip(results, schema.returns, strict=False)
            if isinstance(value, torch.Tensor) and result.alias_info is None
        )
        return found


def some_batch(config: TransformerConfig, sentences: int, source: int, target: int) -> Batch:
    """Pairs of these lengths, without padding."""
    return make_batch([([5] * (source - 1) + [3], [7] * (target - 1) + [3])] * sentences)


@pytest.mark.slow
@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_what_is_moved_and_begun_is_what_a_real_step_has(changes):
    sentences, source, target = (24, 12, 30) if changes else (10, 20, 20)
    config = replace(CONFIG, **changes)
    model = Transformer(config)
    optimizer = build_optimizer(model.parameters())
    set_learning_rate(optimizer, 1e-4)
    settings = TrainingConfig(max_steps=1, precision="float32")
    loss_of, _ = losses_of(model.train(), optimizer, settings)
    batch = some_batch(config, sentences, source, target)
    train_step(model, optimizer, [batch], settings, loss_of)  # Adam's averages are made
    with Counter() as counter:
        train_step(model, optimizer, [batch], settings, loss_of)
    numbers = moved_numbers(config, sentences, source, target) + 17 * sentences * target * config.vocab_size
    numbers += 8 * num_weights(config) + 15 * config.vocab_size * config.d_model
    assert counter.bytes == pytest.approx(4 * numbers, rel=0.02)
    assert counter.calls == pytest.approx(num_calls(config, sentences, target), rel=0.02)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_what_is_kept_is_what_a_real_pass_keeps(changes):
    config = replace(CONFIG, **changes)
    model = accelerate(Transformer(config)).train()
    kept: dict[int, torch.Tensor] = {}
    own = {weight.data_ptr() for weight in model.parameters()}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        if (place := tensor.untyped_storage().data_ptr()) not in own:
            kept[place] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        chunked_training_loss(model, some_batch(config, 10, 20, 20), 0.1)
    found = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    expected = kept_bytes(config, 10, 20, 20)
    assert found == pytest.approx(expected - 16 * model.num_parameters(), rel=0.05)


def test_the_parts_are_counts_divided_by_speeds():
    parts = step_seconds(CONFIG, DEVICE, 10, 20, 30, passes=3)
    assert parts["products"] == pytest.approx(3 * training_flops(CONFIG, 10, 20, 30) / 1e9)
    once = 8 * num_weights(CONFIG) + 15 * CONFIG.vocab_size * CONFIG.d_model
    numbers = 3 * (moved_numbers(CONFIG, 10, 20, 30) + 17 * 10 * 30 * CONFIG.vocab_size) + once
    assert parts["memory"] == pytest.approx(4 * numbers / 1e9)
    assert parts["calls"] == parts["all-reduce"] == parts["input"] == 0
    slow = step_seconds(CONFIG, replace(DEVICE, call=1e-3), 10, 20, 30, passes=3)
    assert slow["calls"] == pytest.approx(3e-3 * num_calls(CONFIG, 10, 30))


def test_speeds_between_two_sizes_lie_between():
    device = replace(DEVICE, products={16: 1e9, 64: 3e9})
    assert device.speed(8, 8) == 1e9
    assert device.speed(64, 64) == device.speed(100, 1000) == 3e9
    assert device.speed(32, 32) == device.speed(16, 64) == pytest.approx(2e9)


@pytest.mark.parametrize(("devices", "share"), [(1, 0), (2, 1), (4, 1.5), (8, 1.75)])
def test_a_ring_sends_nearly_twice_the_gradients(devices, share):
    device = replace(DEVICE, link=1e9)
    assert all_reduce_seconds(1000, devices, device) == pytest.approx(share * 1e-6)
    late = replace(device, latency=1.0)
    assert all_reduce_seconds(0, devices, late) == 2 * (devices - 1)


def test_what_happens_beside_counts_only_where_it_takes_longer():
    turns, beside = (replace(DEVICE, call=1e-6, link=1e9, beside=flag) for flag in (False, True))
    one, other = (step_seconds(CONFIG, device, 10, 20, 20, devices=2) for device in (turns, beside))
    assert one["calls"] > 0
    assert one["all-reduce"] == pytest.approx(4 * num_weights(CONFIG) / 1e9)
    assert other["calls"] == other["all-reduce"] == 0  # hidden behind a long pass
    short = step_seconds(CONFIG, replace(beside, call=1.0), 10, 20, 20)
    assert sum(short.values()) == pytest.approx(num_calls(CONFIG, 10, 20, rows=1024), rel=1e-2)
    far = replace(beside, link=1e3)
    waits = step_seconds(CONFIG, far, 10, 20, 20, devices=2)
    passed = waits["products"] + waits["memory"] + waits["calls"]
    whole = 4 * num_weights(CONFIG) / 1e3
    assert whole - passed < waits["all-reduce"] < whole


def test_input_counts_where_it_is_slower_than_the_step():
    step = sum(step_seconds(CONFIG, DEVICE, 10, 20, 20).values())
    fast, slow = (replace(DEVICE, input=share * step / 200) for share in (0.9, 3.0))
    assert step_seconds(CONFIG, fast, 10, 20, 20)["input"] == 0
    assert sum(step_seconds(CONFIG, slow, 10, 20, 20).values()) == pytest.approx(3 * step)


def test_a_data_sheet_becomes_a_device():
    h100, p100 = (data_sheet(ROWS[name], call=1e-6) for name in ("H100 (SXM)", "P100 (NVLink)"))
    assert h100.speed(512, 512) == pytest.approx(0.4 * 989.5e12)
    assert h100.memory == pytest.approx(0.8 * 3350e9)
    assert h100.link == pytest.approx(0.8 * 450e9)
    assert (h100.number, p100.number) == (2, 4)
    assert h100.beside
    assert data_sheet(ROWS["H100 (SXM)"], 1e-6, network=12.5e9).link == 12.5e9
    assert data_sheet(ROWS["T4"], 1e-6, network=math.inf).link == pytest.approx(0.8 * 16e9)
