"""Operations counted, and settings that change nothing but the time (chapter 52)."""

import ctypes
import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from annotated import cost
from annotated.acceleration import faster_products, keep_freed_memory, keep_kernels, tune_machine
from annotated.batching import make_batch
from annotated.cost import forward_flops, training_flops
from annotated.model import Transformer, TransformerConfig
from annotated.training import training_loss

SMALL = TransformerConfig(300, d_model=32, d_ff=48, num_heads=4, num_layers=3, dropout=0.0)
VARIANTS = {
    "base": {},
    "head sizes": {"d_k": 5, "d_v": 11},
    "layers": {"num_layers": 1, "num_decoder_layers": 4},
    "biases": {"attention_bias": True, "output_bias": True},
}


@pytest.fixture(autouse=True)
def as_pytorch_comes() -> Iterator[None]:
    yield
    keep_freed_memory(False)
    faster_products(False)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_a_training_step_counts_as_pytorch_counts(changes: dict):
    """Every product, forward and backward, of the model and of the loss in chunks; no sentence is padded here."""
    model = Transformer(replace(SMALL, **changes))
    batch = make_batch([([5, 6, 7, 8, 3], [9, 10, 3]), ([8, 7, 6, 5, 3], [4, 5, 3])])
    with FlopCounterMode(display=False) as counter:
        training_loss(model, batch, 0.1).backward()
    assert training_flops(model.config, 2, 5, 3) == counter.get_total_flops()


def test_the_parts_are_what_their_names_say():
    one, long, deep = (
        forward_flops(config, 1, n, n) for config, n in ((SMALL, 10), (SMALL, 20), (replace(SMALL, num_layers=6), 10))
    )
    assert long["scores and sums"] == 4 * one["scores and sums"]
    assert [long[part] / one[part] for part in ("projections", "feed-forward", "output")] == [2, 2, 2]
    assert deep["output"] == one["output"]
    assert deep["projections"] == 2 * one["projections"]
    assert one["output"] == 2 * 32 * 300 * 10
    assert forward_flops(SMALL, 7, 10, 10) == {part: 7 * flops for part, flops in one.items()}


def test_products_stay_exact():
    """Whatever library multiplies, float32 results are float32 results."""
    a, b = torch.randn(300, 200), torch.randn(200, 100)
    exact = a.double() @ b.double()
    before = (a @ b - exact).abs().max()
    faster_products()
    assert (a @ b - exact).abs().max() <= 8 * before
    faster_products(False)
    assert (a @ b - exact).abs().max() == before


def test_reduced_precision_is_not_taken_for_speed(monkeypatch):
    """Where the switch makes products fast but coarse, as on processors with AMX, it goes back."""
    switch = torch.backends.mkldnn.matmul

    class Coarse:
        def __init__(self, values: torch.Tensor):
            self.values = values

        def double(self):
            return self.values.double()

        def __matmul__(self, other):
            product = self.values @ other.values
            return product.bfloat16().float() if switch.fp32_precision == "bf16" else product

    sin, cos = torch.sin, torch.cos

    class View:
        def __init__(self, values):
            self.values = values

        def view(self, *shape):
            return Coarse(self.values.view(*shape))

    monkeypatch.setattr(cost.torch, "sin", lambda x: View(sin(x)))
    monkeypatch.setattr(cost.torch, "cos", lambda x: View(cos(x)))
    monkeypatch.setattr(cost, "product_speed", lambda: 2.0 if switch.fp32_precision == "bf16" else 1.0)
    assert not faster_products()
    assert switch.fp32_precision == "ieee"


@pytest.mark.parametrize(("speed", "taken"), [(1.1, False), (2.0, True)])
def test_the_switch_stays_on_only_where_it_pays(monkeypatch, speed: float, taken: bool):
    switch = torch.backends.mkldnn.matmul
    monkeypatch.setattr(cost, "product_speed", lambda: speed if switch.fp32_precision == "bf16" else 1.0)
    a, b = torch.randn(64, 256), torch.randn(256, 64)
    switch.fp32_precision = "bf16"
    coarse = (a @ b - a.double() @ b.double()).abs().max() > 1e-3  # a processor that does reduce the precision
    assert faster_products() == (taken and not coarse)


def test_without_the_gnu_library_nothing_happens(monkeypatch):
    def missing(name):
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert keep_freed_memory() is False
    assert tune_machine()["keep_freed_memory"] is False


def test_room_for_kernels_is_made_unless_the_user_has_a_number(monkeypatch):
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    assert keep_kernels(50)
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "50"
    assert not keep_kernels(60)
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "50"


def test_settings_change_no_result():
    model = Transformer(SMALL).eval()
    source, target = torch.randint(4, 300, (3, 9)), torch.randint(4, 300, (3, 7))
    with torch.inference_mode():
        before = model(source, target)
        assert set(tune_machine()) == {"keep_kernels", "keep_freed_memory", "faster_products"}
        assert torch.allclose(model(source, target), before, atol=1e-5)
