"""Chapter 31: layer normalisation, the frame around sub-layers, layers and stacks (section 3.1)."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from annotated.model import Transformer, TransformerConfig
from annotated.stacks import AddNorm, Decoder, DecoderLayer, Encoder, EncoderLayer, layer_norm


class Recording(nn.Module):
    """A stand-in sub-layer: notes its name and what it was given, and returns `answer` (default: zeros)."""

    def __init__(self, name: str, calls: list, answer: Tensor | None = None):
        nn.Module.__init__(self)
        self.name, self.calls, self.answer = name, calls, answer

    def forward(self, x: Tensor, *rest):
        self.calls.append((self.name, x, *rest))
        return torch.zeros_like(x) if self.answer is None else self.answer


class RecordingEncoderLayer(Recording, EncoderLayer):
    """A stand-in layer: the stacks' signatures ask for layers."""


class RecordingDecoderLayer(Recording, DecoderLayer):
    """The same for the decoder."""


@pytest.fixture(scope="module")
def small() -> Transformer:
    torch.manual_seed(0)
    return Transformer(TransformerConfig(vocab_size=50, d_model=32, d_ff=64, num_heads=4, num_layers=2)).eval()


def randomise(module: nn.Module) -> None:
    """Give gains and biases values that cannot be mistaken for the initial ones."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()


# Layer normalisation


def loop_norm(x: np.ndarray, gain: np.ndarray, bias: np.ndarray, eps: float) -> np.ndarray:
    """Ba et al. 2016, one vector at a time."""
    result = np.empty_like(x)
    for place in np.ndindex(x.shape[:-1]):
        vector = x[place]
        mean = sum(vector) / len(vector)
        variance = sum((number - mean) ** 2 for number in vector) / len(vector)
        result[place] = [g * (number - mean) / (variance + eps) ** 0.5 + b for number, g, b in zip(vector, gain, bias)]
    return result


@pytest.mark.parametrize("shape", [(7,), (4, 7), (2, 3, 7), (2, 3, 4, 7)])
@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_layer_norm_is_a_loop_over_vectors(shape, eps):
    """E-6, D-25: biased variance, eps inside the root, gain then bias, over the last axis only."""
    x, gain, bias = 3 * torch.randn(*shape, dtype=torch.float64) + 2, torch.randn(7).double(), torch.randn(7).double()
    expected = loop_norm(x.numpy(), gain.numpy(), bias.numpy(), eps)
    assert np.allclose(layer_norm(x, gain, bias, eps).numpy(), expected, atol=1e-12)


def test_the_frames_norm_is_the_written_out_function():
    """PyTorch's module, which every frame has, and the formula agree, in value and in all gradients."""
    norm = AddNorm(16).norm
    assert type(norm) is nn.LayerNorm
    randomise(norm)
    x = (2 * torch.randn(3, 5, 16) - 1).requires_grad_()
    weights, inputs = torch.randn(3, 5, 16), (x, norm.weight, norm.bias)
    results = [norm(x), layer_norm(*inputs)]
    gradients = [torch.autograd.grad((result * weights).sum(), inputs) for result in results]
    assert torch.allclose(*results, atol=1e-5)
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_layer_norm_starts_as_plain_normalisation_with_the_released_epsilon():
    """D-25: gain one, bias zero, eps 1e-6. A tiny vector shows the eps: PyTorch's 1e-5 would shrink it more."""
    norm = AddNorm(2).norm
    assert norm.weight.tolist() == [1, 1]
    assert norm.bias.tolist() == [0, 0]
    tiny = torch.tensor([[1e-3, -1e-3]])  # variance 1e-6, the same as eps
    assert norm(tiny)[0, 0].item() == pytest.approx(0.5**0.5, abs=1e-4)
    assert layer_norm(tiny, norm.weight, norm.bias)[0, 0].item() == pytest.approx(0.5**0.5, abs=1e-4)
    assert not layer_norm(torch.full((1, 2), 3.0), norm.weight, norm.bias).any()


# The frame around a sub-layer


def test_post_norm_is_the_default_and_the_papers_order():
    """C-3.1-c, C-3.1-d: LayerNorm(x + Sublayer(x)); D-2: with `norm_first`, x + Sublayer(LayerNorm(x))."""
    linear, x = nn.Linear(16, 16), torch.randn(2, 5, 16)
    frame, first = AddNorm(16, dropout=0.0), AddNorm(16, dropout=0.0, norm_first=True)
    for one in (frame, first):
        randomise(one)
    assert torch.equal(frame(x, linear), frame.norm(x + linear(x)))
    assert torch.equal(first(x, linear), x + linear(first.norm(x)))


# Layers


def test_encoder_layer_runs_self_attention_then_feed_forward():
    """C-3.1-b, C-3.1-c: two framed sub-layers, self-attention over its own input with the mask."""
    calls: list = []
    first, second = torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    layer = EncoderLayer(
        Recording("attention", calls, first), Recording("network", calls, second), partial(AddNorm, 8, 0.0)
    )
    randomise(layer)
    x, mask = torch.randn(2, 5, 8), torch.ones(2, 1, 1, 5, dtype=torch.bool)
    result = layer(x, mask)
    assert [call[0] for call in calls] == ["attention", "network"]
    _, query, memory, given_mask = calls[0]
    assert query is memory
    assert torch.equal(query, x)
    assert given_mask is mask
    middle = layer.around_self_attention.norm(x + first)
    assert torch.equal(calls[1][1], middle)
    assert torch.equal(result, layer.around_feed_forward.norm(middle + second))


def test_decoder_layer_puts_cross_attention_between_the_others():
    """C-3.1-g: self-attention, attention over the encoder's output, feed-forward, each in the same kind of frame."""
    calls: list = []
    answers = [torch.randn(2, 4, 8) for _ in range(3)]
    names = ("self", "cross", "network")
    parts = [Recording(name, calls, answer) for name, answer in zip(names, answers)]
    layer = DecoderLayer(*parts, partial(AddNorm, 8, 0.0))
    randomise(layer)
    x, memory = torch.randn(2, 4, 8), torch.randn(2, 6, 8)
    self_mask, cross_mask = torch.ones(4, 4).tril().bool(), torch.ones(2, 1, 1, 6).bool()
    result = layer(x, memory, self_mask, cross_mask)

    assert [call[0] for call in calls] == list(names)
    after_self = layer.around_self_attention.norm(x + answers[0])
    after_cross = layer.around_cross_attention.norm(after_self + answers[1])
    assert torch.equal(calls[0][1], x)
    assert calls[0][2] is calls[0][1]
    assert calls[0][3] is self_mask
    assert torch.equal(calls[1][1], after_self)
    assert calls[1][2] is memory
    assert calls[1][3] is cross_mask
    assert torch.equal(calls[2][1], after_cross)
    assert torch.equal(result, layer.around_feed_forward.norm(after_cross + answers[2]))


def test_pre_norm_layers_hand_normalised_vectors_to_every_sub_layer():
    """D-2: with norm_first keys and values of self-attention are normalised too, the encoder's output is not again."""
    calls: list = []
    parts = [Recording(name, calls) for name in ("self", "cross", "network")]
    add_norm = partial(AddNorm, 8, 0.0, True)
    x, memory = 5 + torch.randn(1, 4, 8), torch.randn(1, 6, 8)
    normalised = nn.LayerNorm(8, eps=1e-6)(x)
    assert torch.equal(EncoderLayer(parts[0], parts[2], add_norm)(x), x)  # the stand-ins add nothing
    assert torch.equal(DecoderLayer(*parts, add_norm)(x, memory), x)
    assert [call[0] for call in calls] == ["self", "network", "self", "cross", "network"]
    assert all(torch.equal(call[1], normalised) for call in calls)
    assert all(call[2] is call[1] for call in calls if call[0] == "self")
    assert calls[3][2] is memory


# Stacks


def test_encoder_runs_its_layers_in_order_with_the_mask():
    """C-3.1-a: each layer reads what the one below wrote."""
    calls: list = []
    outputs = [torch.randn(1, 3, 8) for _ in range(3)]
    mask = torch.ones(1, 1, 1, 3, dtype=torch.bool)
    encoder = Encoder([RecordingEncoderLayer(str(i), calls, output) for i, output in enumerate(outputs)])
    x = torch.randn(1, 3, 8)
    assert encoder(x, mask) is outputs[-1]
    assert [call[0] for call in calls] == ["0", "1", "2"]
    assert all(given is expected for (_, given, _), expected in zip(calls, [x, *outputs]))
    assert all(call[2] is mask for call in calls)


def test_every_decoder_layer_reads_the_encoders_last_output():
    """M-19: one memory for all layers; the layers themselves run in order."""
    calls: list = []
    outputs = [torch.randn(1, 3, 8) for _ in range(3)]
    decoder = Decoder([RecordingDecoderLayer(str(i), calls, output) for i, output in enumerate(outputs)])
    x, memory, self_mask, cross_mask = torch.randn(1, 3, 8), torch.randn(1, 5, 8), *torch.ones(2, 3, 3).bool()
    assert decoder(x, memory, self_mask, cross_mask) is outputs[-1]
    assert all(given is expected for (_, given, *_), expected in zip(calls, [x, *outputs]))
    for _, _, given_memory, given_self_mask, given_cross_mask in calls:
        assert given_memory is memory
        assert given_self_mask is self_mask
        assert given_cross_mask is cross_mask


@pytest.mark.parametrize(("stack", "layer"), [(Encoder, RecordingEncoderLayer), (Decoder, RecordingDecoderLayer)])
def test_final_norm_is_applied_last_and_only_if_given(stack, layer):
    """D-2: pre-norm stacks end with a norm, the paper's do not."""
    x, top, norm = torch.randn(1, 3, 8), torch.randn(1, 3, 8), nn.LayerNorm(8)
    randomise(norm)
    memory = () if stack is Encoder else (torch.randn(1, 2, 8),)
    assert stack([layer("top", [], top)])(x, *memory) is top
    assert torch.equal(stack([layer("top", [], top)], norm)(x, *memory), norm(top))


# What a prediction may depend on


def test_mask_and_shift_hide_the_answer_and_all_after_it(small):
    """C-3-c, C-3.1-i: with the target shifted, prediction i depends on target tokens before i and on no other."""
    source, target = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[10, 11, 12, 13, 14]])

    def predict(tokens: Tensor) -> Tensor:
        start = torch.full((1, 1), small.config.start_id)
        return small(source, torch.cat([start, tokens[:, :-1]], dim=1))

    with torch.no_grad():
        for j in range(5):
            changed = target.clone()
            changed[0, j] = 40
            moved = (predict(changed) - predict(target)).abs().amax(-1)[0]
            assert (moved > 1e-3).tolist() == [i > j for i in range(5)]
            assert moved[: j + 1].max() < 1e-5
            seen = (small(source, changed) - small(source, target)).abs().amax(-1)[0, j]
            assert seen > 1e-3  # without the shift, prediction j reads token j
