"""Nothing stays on the CPU: the package on a device that refuses to mix tensors, and that device's own rules."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from annotated import decoding
from annotated import model as model_module
from annotated.batching import make_batch
from annotated.drawing.visualization import attention_maps, sentence_maps
from annotated.interventions import silenced
from annotated.machine.acceleration import accelerate, chunked_training_loss, top_tokens
from annotated.machine.devices import best_device
from annotated.model import Transformer, TransformerConfig
from annotated.recurrent import RecurrentConfig, RecurrentTranslator, greedy_translation
from annotated.runs.checkpoint import load_model, save_model
from annotated.runs.state import load_state, new_state, save_checkpoint
from annotated.runs.training import train
from annotated.schedule import build_optimizer, set_learning_rate
from annotated.search import beam
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
    "pre-norm": {"norm_first": True, "activation": "gelu", "attention_bias": True},
    "learned": {"positions": "learned", "max_length": 30, "tie_embeddings": False, "output_bias": True},
    "untied": {"positions": "concatenated", "tie_output": False, "d_k": 6, "scale_embeddings": False},
}
MIXED = pytest.raises(RuntimeError, match="Expected all tensors to be on the same device")


@pytest.fixture
def device() -> Iterator[torch.device]:
    with strict_device() as device:
        yield device


def transformer(name: str = "paper", **changes) -> Transformer:
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_ff": 64, "num_heads": 4, "num_layers": 2, "dropout": 0.0}
    return Transformer(TransformerConfig(50, **(sizes | VARIANTS[name] | changes)))


def recurrent() -> RecurrentTranslator:
    torch.manual_seed(0)
    return RecurrentTranslator(RecurrentConfig(50, d_model=16, d_hidden=12, dropout=0.0))


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


# The device


CPU_TENSORS: dict[str, Callable[[Tensor], object]] = {
    "add": lambda x: x + torch.ones(4),
    "add from the left": lambda x: torch.ones(4) + x,
    "add to the CPU": lambda x: torch.ones(3, 4) + x.sum(),
    "add in place": lambda x: torch.zeros(3, 4).add_(x),
    "count on the CPU": lambda x: torch.zeros(()).add_(x.sum()),
    "product": lambda x: x @ torch.ones(4, 2),
    "linear": lambda x: F.linear(x, torch.ones(2, 4)),
    "layer norm": lambda x: F.layer_norm(x, (4,), torch.ones(4)),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], torch.ones(3, 3).bool()),
    "masked_fill": lambda x: x.masked_fill(torch.ones(3, 4).bool(), 0.0),
    "where": lambda x: torch.where(torch.ones(3, 4).bool(), x, 0.0),
    "cat": lambda x: torch.cat([x, torch.ones(1, 4)]),
    "stack": lambda x: torch.stack([x, torch.ones(3, 4)]),
    "gather": lambda x: x.gather(1, torch.zeros(3, 1).long()),
    "gather on the CPU": lambda x: torch.ones(3, 4).gather(1, x.argmax(dim=1, keepdim=True)),
    "scatter_add": lambda x: x.scatter_add(1, torch.zeros(3, 1).long(), x),
    "scatter_add of values": lambda x: x.scatter_add(1, x.argmax(dim=1, keepdim=True), torch.ones(3, 1)),
    "index_select": lambda x: x.index_select(0, torch.tensor([1])),
    "index_fill": lambda x: x.index_fill(0, torch.tensor([1]), 0.0),
    "embedding": lambda x: F.embedding(torch.tensor([[0, 2]]), x),
    "embedding on the CPU": lambda x: F.embedding(x.argmax(dim=1), torch.ones(5, 2)),
    "values at positions": lambda x: x.index_put_((torch.tensor([0, 2]),), torch.ones(2, 4)),
    "lerp": lambda x: x.lerp_(torch.ones(3, 4), 0.5),
    "equal": lambda x: torch.equal(x, x.cpu()),
    "cross entropy": lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2])),
    "fused Adam": lambda x: torch._fused_adam_(
        [x], [x + 1], [x + 2], [x + 3], [], [torch.ones(())],
        lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-9, amsgrad=False, maximize=False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CPU_TENSORS)
def test_the_device_refuses_to_mix(device: torch.device, name: str):
    with MIXED:
        CPU_TENSORS[name](torch.arange(12.0, device=device).view(3, 4))


def test_the_device_refuses_numpy_and_indices_for_the_cpu(device: torch.device):
    x = torch.ones(3, device=device)
    with pytest.raises(TypeError, match="numpy"):
        x.numpy()
    with pytest.raises(RuntimeError, match="on the same device"):
        torch.ones(3)[x.argsort()]


def test_the_device_takes_numbers_and_positions_of_the_cpu(device: torch.device):
    x = torch.arange(12.0, device=device).view(3, 4)
    here = torch.arange(12.0).view(3, 4)
    rows, mask, number = torch.tensor([2, 0]), torch.tensor([True, False, True]), torch.tensor(5.0)
    for result, expected in (
        (x[rows], here[rows]), (x[mask], here[mask]), (x[:, rows], here[:, rows]), (x[x > 5], here[here > 5]),
        (x + number, here + 5), (number - x, 5 - here), (x.masked_fill(x > 5, number), here.clamp(max=5)),
        (torch.where(x > 5, x, number), here.clamp(min=5)),
    ):  # fmt: skip
        assert result.device == device
        assert torch.equal(result.cpu(), expected)
    x[rows], here[rows] = number, number
    assert torch.equal(x.cpu(), here)


def test_tensors_are_made_on_the_device(device: torch.device):
    made = [
        torch.zeros(2, device="tester"), torch.ones(2, dtype=torch.bool, device=device), torch.eye(2, device=device),
        torch.full((2,), 3, device=device), torch.arange(2, device=device), torch.randperm(2, device=device),
        torch.tensor([1, 2], device=device), torch.tensor(1.0, device=device), torch.empty(0, device=device),
        torch.ones(2).to(device), torch.ones(2).to("tester", torch.int64), torch.randn(2, device=device),
    ]  # fmt: skip
    made += [make(made[0]) for make in (torch.empty_like, torch.zeros_like, lambda x: x.new_zeros(2), Tensor.clone)]
    assert all(type(x) is Tensor and x.device == device for x in made)
    assert made[7].item() == made[7].tolist() == float(made[7])
    assert bool(made[7])
    assert made[2].tolist() == [[1, 0], [0, 1]]
    assert [x.device.type for x in (made[0].cpu(), made[0].to("cpu"), torch.zeros_like(made[0], device="cpu"))] == [
        "cpu"
    ] * 3
    assert repr(made[6]) == "tensor([1, 2], device='tester:0')"
    assert made[6].nonzero().device == made[6].topk(1).indices.device == device


def test_views_share_their_memory(device: torch.device):
    def write(x: Tensor) -> Tensor:
        x[..., 0] = True
        x[:, 1:3] = torch.tensor([[5.0], [6.0], [7.0]])  # copying may go from device to device
        x.t()[3, 1:].fill_(8.0)
        x.view(-1)[::5] += 1
        x.unsqueeze(0).expand(2, 3, 4)[0].unflatten(1, (2, 2)).transpose(0, 1)[0, 2].mul_(3)
        return x

    assert torch.equal(write(torch.zeros(3, 4, device=device)).cpu(), write(torch.zeros(3, 4)))
    x = torch.zeros(3, 4, device=device)
    assert x.t().stride() == (1, 4)
    assert not x.t().is_contiguous()
    assert x[1:].storage_offset() == 4
    assert x.t().contiguous().stride() == (3, 1)
    assert torch.mm(x, x.t(), out=torch.empty(0, device=device)).shape == (3, 3)  # makes room for the result


def test_gradients_through_views_and_dropout(device: torch.device):
    def gradient(w: Tensor) -> Tensor:
        torch.manual_seed(1)
        y = F.dropout(w.requires_grad_() * 2, 0.5)
        y[:, 0] = w[:, 1] * 3
        y.select(1, 1).mul_(w.detach()[:, 0])
        y.square().sum().backward()
        return w.grad

    values = torch.arange(1.0, 13.0).view(3, 4)
    assert torch.equal(gradient(values.to(device)).cpu(), gradient(values.clone()))
    a, b = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, device=device)
    (a.to(device) * b).sum().backward()
    assert a.grad.tolist() == [3, 3]
    with torch.inference_mode():
        x = torch.zeros(3, device=device)
        x[1:] += 1
    assert x.tolist() == [0, 1, 1]


def test_ties_stay_when_a_model_moves(device: torch.device):
    model = transformer()
    first = model.target_embedding.weight
    optimizer = build_optimizer(model.parameters())
    for other in (model.to(device), copy.deepcopy(model), model.to("cpu")):
        weight = other.target_embedding.weight
        assert weight is other.source_embedding.weight is other.output.weight
        assert type(weight) is nn.Parameter
    assert first is model.target_embedding.weight is optimizer.param_groups[0]["params"][0]
    model.to(device)
    devices = {x.device for x in (*model.parameters(), *model.buffers(), *model.state_dict().values())}
    assert devices == {device}


def test_a_device_without_float64():
    with strict_device(float64=False) as device:
        for make in (
            lambda: torch.zeros(2, dtype=torch.float64, device=device),
            lambda: torch.zeros(2, device=device).double(),
            lambda: torch.zeros(2, dtype=torch.float64).to(device),
            lambda: torch.zeros(2, device=device).sum(dtype=torch.float64),
        ):
            with pytest.raises(TypeError, match="float64"):
                make()
        assert (torch.ones(2, device=device) * 3.5 + torch.tensor(1.0, dtype=torch.float64)).tolist() == [4.5, 4.5]
    with strict_device() as device:
        assert torch.zeros(2, device=device).double().dtype == torch.float64


def test_autocast_is_known(device: torch.device):
    assert not torch.is_autocast_enabled("tester")
    with torch.autocast("tester", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("tester")
        assert torch.get_autocast_dtype("tester") == torch.bfloat16
        assert (torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)).tolist() == [[2, 2], [2, 2]]


def test_elsewhere_nothing_changes():
    with strict_device():
        assert torch.accelerator.is_available()
    assert not torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator(check_available=True) is None
    assert not torch.__future__.get_swap_module_params_on_conversion()
    assert torch.get_default_device() == torch.device("cpu")
    assert best_device() == torch.device("cpu")
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    assert not optimizer.state[model.weight]["step"].is_pinned()


# The package on it


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_a_model_computes_the_same(device: torch.device, name: str):
    model, moved = both(transformer(name).eval(), device)
    logits = moved(SOURCE.to(device), TARGET.to(device))
    assert logits.device == device
    assert close(logits, model(SOURCE, TARGET))
    long = torch.randint(4, 50, (1, 29 if name == "learned" else 150))
    assert close(moved(long.to(device), long.to(device)), model(long, long))


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_a_model_learns_the_same(device: torch.device, name: str):
    model, moved = both(transformer(name), device)
    assert losses(moved) == pytest.approx(losses(model), rel=1e-4)
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
def test_a_model_learns_with_dropout(device: torch.device):
    model = transformer(dropout=0.2, attention_dropout=0.1, activation_dropout=0.1).to(device)
    found = losses(model, 3)
    assert found[2] < found[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_searches_find_the_same(device: torch.device, name: str):
    model, moved = both(transformer(name).eval(), device)
    options = {"limit": 6}
    expected = [h.tokens for h in greedy_search(model, SOURCE, **options)]
    for cache in (True, False):
        found = greedy_search(moved, SOURCE.to(device), cache=cache, **options)
        assert [h.tokens for h in found] == expected
    found, expected = (beam_search(m, SOURCE.to(d), n_best=3, **options) for m, d in ((moved, device), (model, "cpu")))
    assert [[h.tokens for h in best] for best in found] == [[h.tokens for h in best] for best in expected]
    assert close(score_outputs(moved, SOURCE.to(device), TARGET.to(device)), score_outputs(model, SOURCE, TARGET))


@pytest.mark.slow
def test_maps_and_silenced_heads_are_the_same(device: torch.device):
    model, moved = both(transformer().eval(), device)
    maps, expected = attention_maps(moved, SOURCE.to(device), TARGET.to(device)), attention_maps(model, SOURCE, TARGET)
    for kind in ("encoder", "decoder", "cross"):
        assert getattr(maps, kind).device == device
        assert close(getattr(maps, kind), getattr(expected, kind))
    heads = [("encoder", 0, 1), ("cross", 1, 3)]
    with silenced(model, heads), silenced(moved, heads):
        assert close(moved(SOURCE.to(device), TARGET.to(device)), model(SOURCE, TARGET))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "precision"), [(transformer, "float32"), (transformer, "bfloat16"), (recurrent, "float32")]
)
def test_training_stops_and_goes_on(device: torch.device, tmp_path: Path, make: Callable, precision: str):
    config = replace(CONFIG, precision=precision, clip_norm=1.0, average_decay=0.9, accumulation=2)
    train(make().to(device), EXAMPLES, BATCHES, replace(config, max_steps=1), folder=tmp_path)
    state = train(make().to(device), EXAMPLES, BATCHES, config, folder=tmp_path, resume=True)
    unbroken = train(make().to(device), EXAMPLES, BATCHES, config)
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
    model, moved = both(recurrent(), device)
    assert losses(moved) == pytest.approx(losses(model), rel=1e-4)
    model, moved = both(recurrent().eval(), device)
    assert close(moved(SOURCE.to(device), TARGET.to(device)), model(SOURCE, TARGET))
    written = greedy_translation(moved, SOURCE.to(device), 9)
    assert torch.equal(written.cpu(), greedy_translation(model, SOURCE, 9))


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
    save_model(tmp_path, there.model, there.tokenizer, dtype=torch.float16)
    again, _, _ = load_model(tmp_path, device)
    assert close(again.output.weight, here.model.output.weight, 1e-2)
    Translator.load(SHIPPED, "tester", "bfloat16").translate(TEXTS[:2])


@pytest.mark.slow
@pytest.mark.parametrize("make", [transformer, recurrent])
def test_nothing_needs_float64(tmp_path: Path, make: Callable):
    with strict_device(float64=False) as device:
        model = make().to(device)
        train(model, EXAMPLES, BATCHES, CONFIG, folder=tmp_path)
        if make is transformer:
            long = torch.randint(4, 50, (1, 150), device=device)  # a longer table of positions
            beam_search(model.eval(), torch.cat([long, long]), limit=5)
            score_outputs(model, long, long)
            attention_maps(model, SOURCE.to(device), TARGET.to(device))
        else:
            greedy_translation(model, SOURCE.to(device), 9)


# What it is for: mistakes that the CPU does not show


def taking(function: Callable) -> Callable:
    """The function, given its tensors on the CPU."""
    return lambda *given: function(*(one.cpu() if isinstance(one, Tensor) else one for one in given))


def giving(function: Callable) -> Callable:
    """The function, with its result on the CPU."""
    return lambda *given, **options: function(*given, **options).cpu()


def search(model: Transformer, device: torch.device | str) -> None:
    beam_search(model.eval(), SOURCE.to(device), limit=6)


def learn(model: Transformer, device: torch.device | str) -> None:
    losses(model)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "name", "fault", "use"),
    [
        (decoding.DecodingState, "reorder", taking, search),
        (beam, "block_special_tokens", giving, search),
        (model_module, "causal_mask", giving, learn),
    ],
)
def test_a_planted_fault_is_found(device: torch.device, monkeypatch, place: object, name: str, fault, use):
    model, moved = both(transformer(), device)
    use(moved, device)
    monkeypatch.setattr(place, name, fault(getattr(place, name)))
    use(model, "cpu")
    with MIXED:
        use(moved, device)
