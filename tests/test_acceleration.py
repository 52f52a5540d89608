"""Chapter 92: what is faster computes the same, and settings of the process change nothing but the time."""

import copy
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from annotated.attention import MultiHeadAttention
from annotated.base.files import InputError
from annotated.batching import make_batch, pad_sequences
from annotated.decoding import DecodingState, start_decoding
from annotated.embeddings import OutputProjection
from annotated.interventions import edited
from annotated.machine import acceleration
from annotated.machine.acceleration import (
    FASTER,
    PROCESS_SETTINGS,
    FastDecodingState,
    FewRowsLinear,
    FewRowsOutput,
    FusedAttention,
    IntegerDropout,
    accelerate,
    check_compiler,
    chunked_loss,
    chunked_training_loss,
    faster_products,
    keep_kernels,
    products_of_few_rows,
    start_fast_decoding,
    tensor_float32,
    top_tokens,
    tune_machine,
    working_copy,
)
from annotated.masks import causal_mask, padding_mask
from annotated.model import CHOICES, Transformer, TransformerConfig
from annotated.regularization import label_smoothed_loss
from annotated.schedule import build_optimizer, set_learning_rate
from annotated.search import translation
from annotated.search.beam import beam_search, greedy_search
from annotated.search.translation import Translator
from annotated.text.grammar.splits import embedded_split
from annotated.training import PRECISIONS, TrainingConfig, train_step, training_loss
from tests.fused import FusedOnCPU, fused_heads


@pytest.fixture(autouse=True)
def as_pytorch_comes() -> Iterator[None]:
    yield
    faster_products(False)
    tensor_float32(False)


# Dropout


def test_dropout_scales_each_element_and_its_gradient():
    x = torch.randn(50, 40, requires_grad=True)
    result = IntegerDropout(0.5)(x.T)
    kept = result != 0
    assert 0 < kept.sum() < kept.numel()
    assert torch.equal(result, torch.where(kept, 2 * x.T, 0))
    assert torch.equal(torch.autograd.grad(result.sum(), x)[0], 2 * kept.T.float())
    assert torch.equal(IntegerDropout(0.9).eval()(x), x)
    assert torch.equal(IntegerDropout(0.0)(x), x)
    assert not IntegerDropout(1.0)(x).any()


@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (2, 3, 5, 7)])
def test_dropout_keeps_shape_and_type(shape):
    for dtype in (torch.float64, torch.bfloat16):
        result = IntegerDropout(0.5)(torch.ones(shape, dtype=dtype))
        assert (result.shape, result.dtype) == (shape, dtype)


@pytest.mark.slow
def test_dropout_rounds_p_to_a_65536th_and_scales_by_the_rounded_value():
    """0.1 becomes 6554/65536; a tiny p drops a little all the same; one close to 1 still keeps a little."""
    assert IntegerDropout(0.1)(torch.ones(5000)).max() == torch.tensor(65536 / (65536 - 6554))
    hardly_any = IntegerDropout(1e-6)(torch.ones(3_000_000))
    assert set(hardly_any.unique().tolist()) == {0.0, torch.tensor(65536 / 65535).item()}
    nearly_all = IntegerDropout(1 - 1e-9)(torch.ones(3_000_000))
    assert set(nearly_all.unique().tolist()) == {0.0, 65536.0}


def test_dropout_masks_are_fresh_and_follow_the_seed():
    dropout, x = IntegerDropout(0.5), torch.ones(1000)
    torch.manual_seed(3)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(3)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)


def test_dropout_decides_for_every_element_by_itself():
    """Four decisions come from one draw: neighbours up to seven apart are uncorrelated, and so are rows."""
    keep = (IntegerDropout(0.5)(torch.ones(400_000)) != 0).float() - 0.5
    for distance in range(1, 8):
        assert abs((keep[distance:] * keep[:-distance]).mean().item()) < 0.25 * 0.01  # 6 standard deviations
    grid = (IntegerDropout(0.5)(torch.ones(1000, 500)) != 0).float()
    assert 0.4 < grid.mean(0).min() < grid.mean(0).max() < 0.6
    assert 0.35 < grid.mean(1).min() < grid.mean(1).max() < 0.65


# Attention


@pytest.mark.parametrize(("d_k", "d_v"), [(4, 4), (3, 7)])
@pytest.mark.parametrize("kind", ["none", "causal", "padding", "both", "empty sentence"])
def test_plain_equals_fused(d_k, d_v, kind):
    """Outputs and all gradients of the two forms agree, whatever the mask and the widths."""
    tokens = torch.tensor([[5, 6, 7, 8, 0, 0], [5, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    if kind != "empty sentence":
        tokens = tokens[:2]
    padding, causal = padding_mask(tokens, 0), causal_mask(6)
    masks = {"none": None, "causal": causal, "padding": padding, "both": padding & causal, "empty sentence": padding}
    x, wanted = torch.randn(2, len(tokens), 6, 10).double()
    plain, results = MultiHeadAttention(10, 2, d_k, d_v).double(), []
    for make in (MultiHeadAttention, FusedOnCPU):
        block = make(10, 2, d_k, d_v).double()
        block.load_state_dict(plain.state_dict())
        given = x.clone().requires_grad_()
        output = block(given, given, masks[kind])
        (output * wanted).sum().backward()
        results.append([output.detach(), given.grad, *(parameter.grad for parameter in block.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
        assert one.any()


def test_fused_form_zeroes_empty_rows_whatever_the_kernel_gives(monkeypatch):
    """PyTorch's kernels have returned NaN for them; the form must not depend on which one runs."""
    nans = torch.full((1, 1, 2, 3), math.nan)
    monkeypatch.setattr(acceleration.F, "scaled_dot_product_attention", lambda *_: nans)
    query, mask = torch.randn(1, 1, 2, 3), torch.tensor([[True, False], [False, False]])
    output = fused_heads(query, query, query, mask)
    assert output[0, 0, 0].isnan().all()
    assert not output[0, 0, 1].any()


def test_on_the_cpu_the_plain_form_runs(monkeypatch):
    """PyTorch's function is slower there at the length of sentences."""
    calls = []
    fused = F.scaled_dot_product_attention
    monkeypatch.setattr(acceleration.F, "scaled_dot_product_attention", lambda *a: calls.append(1) or fused(*a))
    x, blocks = torch.randn(1, 3, 8), [kind(8, 2) for kind in (MultiHeadAttention, FusedAttention, FusedOnCPU)]
    outputs = []
    for block in blocks:
        block.load_state_dict(blocks[0].state_dict())
        outputs.append((block(x, x), len(calls)))
    assert [count for _, count in outputs] == [0, 0, 1]
    assert torch.equal(outputs[0][0], outputs[1][0])


# Faster classes


@st.composite
def configurations(draw: st.DrawFn) -> TransformerConfig:
    """Small models of every kind, without dropout."""
    heads, tied = draw(st.integers(1, 4)), draw(st.booleans())
    sizes = {"d_model": 2 * heads * draw(st.integers(1, 4)), "d_ff": draw(st.integers(1, 40)), "num_heads": heads}
    sizes |= {"num_layers": draw(st.integers(1, 3)), "num_decoder_layers": draw(st.sampled_from([None, 1, 2]))}
    sizes |= {name: draw(st.none() | st.integers(1, 9)) for name in ("d_k", "d_v")}
    flags = ("norm_first", "attention_bias", "output_bias", "tie_output", "scale_embeddings")
    options = {name: draw(st.booleans()) for name in flags}
    options |= {name: draw(st.sampled_from(known)) for name, known in CHOICES.items()}
    other = {"tie_embeddings": tied, "source_vocab_size": None if tied else 31}
    return TransformerConfig(draw(st.sampled_from([23, 640])), dropout=0.0, max_length=40, **sizes, **options, **other)


def both_forms(config: TransformerConfig, attention: type[FusedAttention]) -> tuple[Transformer, Transformer]:
    """A model, and the same accelerated, with that class for its attentions."""
    torch.manual_seed(0)
    plain = Transformer(config)
    for name, parameter in plain.named_parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, mean=1.0 if "norm.weight" in name else 0.0, std=0.3)
    fast = accelerate(copy.deepcopy(plain))
    for module in fast.modules():
        if type(module) is FusedAttention:
            module.__class__ = attention
    return plain, fast


EXAMPLES = [
    ([5, 9, 4, 3], [11, 6, 3]),
    ([8, 3], [7, 7, 9, 12, 3]),
    ([4, 4, 6, 20, 13, 3], [5, 3]),
    ([9, 3], [21, 6, 3]),
]
forms = pytest.mark.parametrize("attention", [FusedAttention, FusedOnCPU])


@pytest.mark.slow
@forms
@settings(max_examples=12, derandomize=True)
@given(configurations())
def test_plain_and_accelerated_learn_the_same(attention: type, config: TransformerConfig):
    """The loss a token and all its gradients, in float32 and without dropout."""
    batch, found = make_batch(EXAMPLES), []
    for model, loss_of in zip(both_forms(config, attention), (training_loss, chunked_training_loss), strict=True):
        loss = loss_of(model.train(), batch, 0.1) / batch.num_tokens
        loss.backward()
        found.append((loss, {name: parameter.grad for name, parameter in model.named_parameters()}))
    (plain, plain_grads), (fast, fast_grads) = found
    assert abs(plain.item() - fast.item()) < 1e-5
    for name, grad in plain_grads.items():
        assert (grad - fast_grads[name]).abs().max() < 1e-4, name


@pytest.mark.slow
@forms
@settings(max_examples=8, derandomize=True)
@given(configurations())
def test_plain_and_accelerated_write_the_same(attention: type, config: TransformerConfig):
    plain, fast = (model.eval() for model in both_forms(config, attention))
    source = pad_sequences([source for source, _ in EXAMPLES], 0)
    assert [h.tokens for (h,) in greedy_search(plain, source, limit=8)] == [
        h.tokens for (h,) in greedy_search(fast, source, limit=8)
    ]
    options = {"limit": 8, "n_best": 3}
    faster = {"topk": top_tokens, "start": start_fast_decoding}
    found = [beam_search(plain, source, **options), beam_search(fast, source, **faster, **options)]
    for one, other in zip(*found, strict=True):
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)
        for mine, theirs in zip(one, other, strict=True):  # of two that score the same, either may come first
            alone = sum(abs(mine.score - another.score) < 1e-4 for another in one) == 1
            assert mine.tokens == theirs.tokens or not alone


SMALL = TransformerConfig(300, d_model=32, d_ff=48, num_heads=4, num_layers=2, attention_dropout=0.1)


def classes(model: nn.Module) -> list[type]:
    return [type(module) for module in model.modules()]


def test_classes_are_exchanged_and_given_back():
    """But for a user's own, also one that is derived from a faster class."""

    class MyAttention(MultiHeadAttention):
        pass

    class MyFaster(IntegerDropout):
        pass

    model = nn.Sequential(Transformer(SMALL), MyAttention(8, 2), MyFaster(0.1))
    before, names = classes(model), list(model.state_dict())
    assert set(FASTER) < set(before)
    fast = [FASTER.get(kind, kind) for kind in before]
    for on, expected in ((True, fast), (True, fast), (False, before), (False, before)):
        assert accelerate(model, on) is model
        assert classes(model) == expected
        assert list(model.state_dict()) == names


def test_a_translator_accelerates_unless_told_not_to():
    folder = Path(__file__).resolve().parents[1] / "data" / "models" / "embedded"
    for on in (True, False):
        translator = Translator.load(folder, "cpu", accelerated=on)
        assert (FusedAttention in classes(translator.model)) is on
        assert (MultiHeadAttention in classes(translator.model)) is not on
        assert translator.topk is (top_tokens if on else torch.topk)
        assert translator.start is (start_fast_decoding if on else start_decoding)


# Few rows, and a step of the search


@pytest.mark.parametrize("shape", [(1, 8), (4, 8), (2, 3, 8), (1, 1, 8), (16, 8), (17, 8), (3, 0, 8), (8,)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_products_of_few_rows_are_products(shape: tuple[int, ...], bias: bool, dtype: torch.dtype):
    """Values, shape and layout of PyTorch's layer, and of the output projection, and their gradients."""
    x, linear = torch.randn(shape, dtype=dtype, requires_grad=True), nn.Linear(8, 5, bias, dtype=dtype).eval()
    output = OutputProjection(nn.Parameter(linear.weight.detach().clone()), bias).to(dtype).eval()
    if bias:
        nn.init.normal_(output.bias)
    for layer, kind in ((linear, FewRowsLinear), (output, FewRowsOutput)):
        found = []
        for faster in (False, True):
            layer.__class__ = kind if faster else kind.__bases__[0]
            y = layer(x)
            found.append((y.detach(), *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])))
            assert y.is_contiguous()
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("rows", "training"), [(4, False), (16, False), (17, False), (4, True)])
def test_the_order_of_the_factors_changes_for_few_rows_only(monkeypatch, rows: int, training: bool):
    """And not in training, whose compiled steps are one program for all numbers of rows."""
    calls, linear = [], F.linear
    monkeypatch.setattr(acceleration.F, "linear", lambda *a: calls.append(1) or linear(*a))
    FewRowsLinear(8, 5).train(training)(torch.randn(rows, 8))
    assert bool(calls) is (rows > 16 or training)


def steps_of(start, model: Transformer, source: Tensor, width: int) -> list[Tensor]:
    """The logits of six steps, during which hypotheses change places and sentences leave."""
    draw = torch.Generator().manual_seed(1)
    state, found = start(model, source, width, 6), []
    for step in range(6):
        tokens = torch.randint(4, model.config.vocab_size, (len(state.visible), width), generator=draw)
        found.append(state.next_logits(model, tokens))
        state.reorder(torch.randint(width, tokens.shape, generator=draw))
        if step in (1, 3):
            state.select(torch.arange(len(tokens))[int(step == 1) :: 2])
    return found


@pytest.mark.slow
@settings(max_examples=15, derandomize=True)
@given(configurations(), st.integers(1, 5), st.booleans())
def test_the_fast_step_is_the_plain_one(config: TransformerConfig, width: int, padded: bool):
    """Logits step by step, for sentences of different lengths and of one, whatever the model."""
    plain, fast = (model.eval() for model in both_forms(config, FusedAttention))
    sources = [source for source, _ in EXAMPLES] if padded else [[5, 9, 4, 3]]
    source = pad_sequences([row for row in sources for _ in range(2)], 0)
    with torch.inference_mode():
        assert type(start_fast_decoding(fast, source, width, 6)) is FastDecodingState
        found = [steps_of(*form, source, width) for form in ((start_decoding, plain), (start_fast_decoding, fast))]
    assert len(found[0][-1]) < len(source)
    for one, other in zip(*found, strict=True):
        assert one.shape == other.shape
        assert (one - other).abs().max() < 5e-5 * max(1, one.abs().max())  # a norm of two numbers is steep


@pytest.mark.slow
def test_the_fast_search_writes_what_the_plain_one_writes():
    """Outputs, scores and their order, of the shipped model, sentences leaving the batch as they are done."""
    folder = Path(__file__).resolve().parents[1] / "data" / "models" / "embedded"
    plain, fast = (Translator.load(folder, "cpu", accelerated=on) for on in (False, True))
    rows = pad_sequences(plain.tokenize([pair.source for pair in embedded_split("test")[:32]]), 0)
    found = [beam_search(t.model, rows, n_best=4, topk=t.topk, start=t.start) for t in (plain, fast)]
    for one, other in zip(*found, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


class OwnAttention(MultiHeadAttention):
    pass


@pytest.mark.parametrize("reason", ["none", "a class of one's own", "edited", "dropout", "an empty sentence", "heads"])
def test_the_plain_step_is_taken_where_the_fast_one_would_differ(reason: str):
    model, source = accelerate(Transformer(SMALL).eval()), torch.tensor([[5, 9, 3], [4, 3, 0]])
    last = model.decoder.layers[1]
    if reason == "a class of one's own":
        last.cross_attention.__class__ = OwnAttention
    elif reason == "edited":
        last.self_attention.attend = last.self_attention.attend
    elif reason == "dropout":
        model.train()
    elif reason == "an empty sentence":
        source[1] = 0
    elif reason == "heads":
        last.self_attention = MultiHeadAttention(32, 2)
    expected = FastDecodingState if reason == "none" else DecodingState
    assert type(start_fast_decoding(model, source, 4, 5)) is expected


@pytest.mark.slow
def test_edits_hold_in_the_fast_search():
    """An intervention of chapter 80 takes place, whichever step is wished for."""
    model, source = accelerate(Transformer(SMALL).eval()), torch.tensor([[5, 9, 3]])
    with edited(model, outputs={("cross", 1): torch.zeros_like}):
        found = [beam_search(model, source, limit=6, start=start) for start in (start_decoding, start_fast_decoding)]
    assert found[0] == found[1]


# The loss in pieces


@pytest.mark.parametrize("rows", [1, 5, 1024])
@pytest.mark.parametrize("with_bias", [False, True])
def test_the_loss_in_chunks_is_the_loss(rows: int, with_bias: bool):
    """Value and all gradients, whatever the size of the chunks; padding has no share in any of them."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(4, 6, 16, requires_grad=True), torch.randn(30, 16, requires_grad=True)
    bias = torch.randn(30, requires_grad=True) if with_bias else None
    targets = torch.randint(1, 30, (4, 6))
    targets[2, 3:] = targets[3, 1:] = 0
    inputs = [hidden, weight, *([bias] if with_bias else [])]
    readable = label_smoothed_loss(F.linear(hidden, weight, bias), targets, 0.1)
    chunked = chunked_loss(hidden, weight, bias, targets, 0.1, rows=rows)
    assert torch.allclose(readable, chunked, atol=1e-4)
    for one, other in zip(torch.autograd.grad(3 * readable, inputs), torch.autograd.grad(3 * chunked, inputs)):
        assert torch.allclose(one, other, atol=1e-4)
    with torch.no_grad():
        assert torch.equal(chunked_loss(hidden, weight, bias, targets, 0.1, rows=rows), chunked)
    nothing = chunked_loss(hidden, weight, bias, torch.zeros_like(targets), rows=rows)
    assert nothing == 0
    assert not any(gradient.any() for gradient in torch.autograd.grad(nothing, inputs))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_loss_in_chunks_in_low_precision(dtype: torch.dtype):
    """Hidden states of 16 bits, weights and sums of 32: the loss of float32, gradients of the inputs' types."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(2, 5, 16), torch.randn(30, 16)
    targets, found = torch.randint(1, 30, (2, 5)), []
    for x in (hidden, hidden.to(dtype)):
        inputs = (x.clone().requires_grad_(), weight.clone().requires_grad_())
        loss = chunked_loss(*inputs, None, targets)
        found.append((loss, *torch.autograd.grad(loss, inputs)))
    assert found[1][0].dtype == found[1][2].dtype == torch.float32
    assert found[1][1].dtype == dtype
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other.float(), rtol=1e-2, atol=0.05)


# The working copy


CONFIG = TrainingConfig(max_steps=4, warmup_steps=10)


def small_model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(TransformerConfig(40, d_model=16, d_ff=32, num_heads=2, num_layers=1, dropout=0.0))


def flat(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_a_working_copy_shares_embeddings_and_follows_the_weights():
    """Only the stacks are of 16 bits; all gradients and weights of the model stay float32."""
    model, low = small_model().train(), torch.bfloat16
    optimizer = build_optimizer(model.parameters())
    set_learning_rate(optimizer, 1e-3)
    assert working_copy(model, optimizer, torch.float32) is model
    worker = working_copy(model, optimizer, low)
    for name in ("source_embedding", "target_embedding", "source_positions", "target_positions", "output"):
        assert getattr(worker, name) is getattr(model, name)
    both = zip(model.parameters(), worker.parameters(), strict=True)
    copies = [(weight, working) for weight, working in both if working is not weight]
    assert sum(weight.numel() for weight, _ in copies) + model.output.weight.numel() == model.num_parameters()
    assert {working.dtype for _, working in copies} == {low}
    for _ in range(2):
        before = flat(model)
        train_step(model, optimizer, [make_batch(EXAMPLES)], CONFIG, partial(chunked_training_loss, worker))
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
        assert (flat(model) != before).float().mean() > 0.5
        for weight, working in copies:
            assert torch.equal(working, weight.to(low))
            assert weight.grad is working.grad is None


def gradient_of(form: str, precision: torch.dtype, parts: list) -> tuple[float, Tensor]:
    """The loss and the gradient that a step meets, before it is thrown away."""
    model = accelerate(small_model(), form == "working copy")
    optimizer = build_optimizer(model.parameters())
    optimizer.zero_grad = lambda **options: None
    loss_of = partial(training_loss, model, precision=precision)
    if form == "working copy":
        loss_of = partial(chunked_training_loss, working_copy(model, optimizer, precision))
    loss = train_step(model, optimizer, [make_batch(part) for part in parts], CONFIG, loss_of)
    return loss.item(), torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("low", PRECISIONS[1:])
@pytest.mark.parametrize("form", ["working copy", "autocast"])
def test_a_step_in_another_precision_points_where_that_in_float32_does(form: str, low: str):
    """Both forms against the plain one in float32; with accumulation the float32 gradients add up."""
    loss, gradient = gradient_of("plain", torch.float32, [EXAMPLES])
    low_loss, low_gradient = gradient_of(form, getattr(torch, low), [EXAMPLES[:1], EXAMPLES[1:]])
    assert abs(low_loss / loss - 1) < 0.01
    assert F.cosine_similarity(gradient, low_gradient, dim=0) > 0.999
    assert 0.98 < low_gradient.norm() / gradient.norm() < 1.02
    assert low_gradient.dtype == torch.float32


# The best tokens


@pytest.mark.parametrize("vocab", [8000, 800, 801, 79, 160])
@pytest.mark.parametrize("k", [1, 8])
def test_top_tokens_is_topk(vocab: int, k: int):
    """For vocabularies that fit the columns and for others, with impossible tokens among them."""
    scores = torch.randn(64, 4, vocab)
    scores[..., ::3] = -math.inf
    scores[0, 0, 5:] = -math.inf  # fewer possible tokens than wanted
    expected, found = scores.topk(k), top_tokens(scores, k)
    assert torch.equal(expected.values, found[0])
    finite = expected.values.isfinite()
    assert torch.equal(expected.indices[finite], found[1][finite])
    assert torch.equal(scores.gather(-1, found[1]), found[0])


# Settings of the process


@pytest.fixture
def coarse() -> bool:
    """Whether the switch reduces the precision on this processor, which has instructions for that."""
    switch, a, b = torch.backends.mkldnn.matmul, torch.randn(64, 256), torch.randn(256, 64)
    switch.fp32_precision = "bf16"
    found = (a @ b - a.double() @ b.double()).abs().max() >= 1e-3
    switch.fp32_precision = "ieee"
    return bool(found)


def test_products_stay_exact():
    """Whatever library multiplies, float32 results are float32 results."""
    a, b = torch.randn(300, 200), torch.randn(200, 100)
    exact = a.double() @ b.double()
    before = (a @ b - exact).abs().max()
    faster_products(True)
    assert (a @ b - exact).abs().max() <= 8 * before
    faster_products(False)
    assert (a @ b - exact).abs().max() == before


def test_reduced_precision_is_not_taken_for_speed(monkeypatch):
    """Where the switch makes products fast but coarse, as on processors with AMX, it goes back."""
    switch = torch.backends.mkldnn.matmul

    class Coarse:
        def __init__(self, values: Tensor):
            self.values = values

        def view(self, *shape):
            return Coarse(self.values.view(*shape))

        def double(self):
            return self.values.double()

        def __matmul__(self, other):
            product = self.values @ other.values
            return product.bfloat16().float() if switch.fp32_precision == "bf16" else product

    sin, cos = torch.sin, torch.cos
    monkeypatch.setattr(acceleration.torch, "sin", lambda x: Coarse(sin(x)))
    monkeypatch.setattr(acceleration.torch, "cos", lambda x: Coarse(cos(x)))
    assert not faster_products(True)
    assert switch.fp32_precision == "ieee"


@pytest.mark.usefixtures("no_clock")
@pytest.mark.parametrize(
    ("about", "suits"), [({"vendor_id": "AuthenticAMD"}, True), ({"vendor_id": "GenuineIntel"}, False), ({}, False)]
)
def test_the_library_of_products_follows_from_the_vendor(monkeypatch, coarse, about: dict, suits: bool):
    """No measurement decides; what the user says does."""
    monkeypatch.setattr(acceleration, "processor", lambda: about)
    for wanted, expected in ((None, suits), (True, True), (False, False), (None, suits)):
        assert faster_products(wanted) is (expected and not coarse)
        on = torch.backends.mkldnn.matmul.fp32_precision == "bf16"
        assert on is (expected and not coarse)


@pytest.mark.parametrize(("before", "texts", "inside"), [("bf16", 2, "ieee"), ("bf16", 3, "bf16"), ("ieee", 1, "ieee")])
def test_a_search_of_few_rows_puts_the_switch_back_for_a_while(monkeypatch, before: str, texts: int, inside: str):
    """Rows are sentences times beam. The switch is as it was afterwards, also after an error, inside another block."""
    switch, seen = SimpleNamespace(fp32_precision=before), []
    monkeypatch.setattr(torch.backends.mkldnn, "matmul", switch)

    def search(*_: object, **__: object) -> None:
        with products_of_few_rows(1):
            pass
        seen.append(switch.fp32_precision)
        raise ZeroDivisionError

    monkeypatch.setattr(translation, "beam_search", search)
    translator = Translator.load(Path(__file__).resolve().parents[1] / "data" / "models" / "embedded", "cpu")
    with pytest.raises(ZeroDivisionError):
        translation.search_batch(translator, [[4, 3]] * texts, {"beam_size": 4})
    assert seen == [inside]
    assert switch.fp32_precision == before
    monkeypatch.setattr(torch.backends.mkldnn, "matmul", None)  # as in PyTorch before 2.9
    assert faster_products(True) is False
    with products_of_few_rows(1):
        pass


def test_room_for_kernels_is_made_unless_the_user_has_a_number(monkeypatch):
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    assert not keep_kernels(False)
    assert "ONEDNN_PRIMITIVE_CACHE_CAPACITY" not in os.environ
    assert keep_kernels(count=50)
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "50"
    assert not keep_kernels(count=60)
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "50"


@pytest.mark.usefixtures("no_clock")
@pytest.mark.parametrize(("capability", "able"), [(None, False), ((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_tf32_is_for_gpus_that_have_it(monkeypatch, capability: tuple[int, int] | None, able: bool):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: capability is not None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    for wanted, expected in ((None, able), (False, False), (True, able)):
        assert tensor_float32(wanted) is expected
        assert (torch.backends.cuda.matmul.fp32_precision == "tf32") is expected


def test_settings_go_to_their_switches(monkeypatch):
    """Each gets what was said of it, and without that nothing; room for kernels comes before oneDNN is used."""
    told = []
    for name in PROCESS_SETTINGS:
        monkeypatch.setitem(
            PROCESS_SETTINGS, name, lambda *given, name=name: told.append((name, given)) or name == "keep_kernels"
        )
    assert tune_machine({"tensor_float32": True}) == {name: name == "keep_kernels" for name in PROCESS_SETTINGS}
    assert told[0][0] == "keep_kernels"
    assert dict(told) == {name: (True,) if name == "tensor_float32" else () for name in PROCESS_SETTINGS}


# Compiled


@pytest.mark.slow
def test_compiled_steps_have_the_same_losses_by_one_program_for_all_shapes(tmp_path: Path):
    """Dropout, whose numbers are drawn in another order, does not cut the program into parts."""
    try:
        check_compiler(torch.device("cpu"))
    except InputError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "tests.compiled"]
    settings = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.getcwd()}
    settings |= {"TORCHINDUCTOR_EMULATE_PRECISION_CASTS": "1"}  # fused operations round as often as single ones
    child = subprocess.run(command, capture_output=True, text=True, env=settings)
    assert child.returncode == 0, child.stderr
    told = json.loads(child.stdout.splitlines()[-1])
    assert told["compiled"][0] == pytest.approx(told["eager"][0], rel=1e-4)
    assert told["compiled"][1:] == pytest.approx(told["eager"][1:], rel=1e-4)
    assert told["eager"][-1] < told["eager"][0] - 0.5  # the steps did something
    assert (told["programs"], told["parts with dropout"]) == (1, 1)


def test_what_compiling_lacks_is_named(monkeypatch: pytest.MonkeyPatch):
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    monkeypatch.setattr(acceleration.sysconfig, "get_path", lambda name: str(Path(__file__).parent))
    with pytest.raises(InputError, match=r"Python\.h"):
        check_compiler(cpu)
    monkeypatch.setattr(Path, "exists", lambda path: True)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(InputError, match=r"a C\+\+ compiler .*CXX"):
        check_compiler(cpu)
    monkeypatch.setenv("CXX", "sh")
    check_compiler(cpu)
    monkeypatch.setattr(acceleration.shutil, "which", lambda name: None)
    for there, lacking in ((None, "Triton"), (object(), "a C compiler .*CC")):
        monkeypatch.setattr(acceleration.importlib.util, "find_spec", lambda module, there=there: there)
        with pytest.raises(InputError, match=lacking):
            check_compiler(gpu)
