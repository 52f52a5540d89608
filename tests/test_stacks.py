"""Chapter 31: layer normalisation, the frame around sub-layers, layers and stacks (section 3.1)."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
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
def base() -> Transformer:
    """The base model, with a small vocabulary."""
    return Transformer(TransformerConfig.base(vocab_size=50)).eval()


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


def test_layer_norm_of_equal_features_is_finite():
    x, ones, zeros = torch.full((1, 8), 3.0), torch.ones(8), torch.zeros(8)
    assert torch.equal(AddNorm(8).norm(x), zeros[None])
    assert torch.equal(layer_norm(x, ones, zeros), zeros[None])


@pytest.mark.parametrize("write_out", [False, True])
def test_layer_norm_treats_every_token_alone(write_out):
    """M-8: another token, another sentence and the length change nothing."""
    module = AddNorm(16).norm
    norm = partial(layer_norm, gain=module.weight, bias=module.bias) if write_out else module
    x = torch.randn(2, 6, 16)
    changed = x.clone()
    changed[0, 2] = 10 * torch.randn(16)
    assert (norm(x) != norm(changed)).any(-1).nonzero().tolist() == [[0, 2]]
    assert torch.allclose(norm(x[:1, :3]), norm(x)[:1, :3], atol=1e-6)


# The frame around a sub-layer


def test_post_norm_is_the_default_and_the_papers_order():
    """C-3.1-c, C-3.1-d: LayerNorm(x + Sublayer(x))."""
    frame, linear, x = AddNorm(16, dropout=0.0), nn.Linear(16, 16), torch.randn(2, 5, 16)
    randomise(frame)
    assert torch.equal(frame(x, linear), frame.norm(x + linear(x)))


def test_pre_norm_normalises_the_input_of_the_sub_layer():
    """D-2: x + Sublayer(LayerNorm(x))."""
    frame, linear, x = AddNorm(16, dropout=0.0, norm_first=True), nn.Linear(16, 16), torch.randn(2, 5, 16)
    randomise(frame)
    assert torch.equal(frame(x, linear), x + linear(frame.norm(x)))


@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_acts_before_the_sum(norm_first):
    """M-36: with the norm taken out, x is whole everywhere, and each element gets nothing or ones / (1 - p)."""
    frame, x = AddNorm(16, dropout=0.5, norm_first=norm_first), 10 + torch.rand(2, 50, 16)
    frame.norm = nn.Identity()
    result = frame(x, torch.ones_like)
    assert ((result == x) | (result == x + 2)).all()
    assert 0.4 < (result == x).float().mean() < 0.6


def test_dropout_of_the_frame_is_the_base_models_and_is_off_in_use():
    """Section 5.4: 0.1 unless told otherwise."""
    frame, x = AddNorm(8), torch.randn(1, 3, 8)
    assert frame.dropout.p == 0.1
    frame.eval()
    assert torch.equal(frame(x, torch.zeros_like), frame.norm(x))


def test_frame_hands_its_epsilon_to_the_norm():
    assert AddNorm(8, norm_eps=0.25).norm.eps == 0.25
    assert AddNorm(8).norm.eps == 1e-6


@pytest.mark.parametrize("width", [8, 15, 32])
def test_sub_layer_of_another_width_cannot_be_added(width):
    """C-3.1-e: the residual sum needs equal widths."""
    with pytest.raises(RuntimeError, match="must match the size"):
        AddNorm(16, dropout=0.0)(torch.randn(1, 3, 16), nn.Linear(16, width))


def gradient_at_the_bottom(step, depth: int = 40) -> float:
    """The size of the gradient at the input of a deep stack of ReLU networks, relative to that at the top."""
    states = [torch.randn(1, 16, 32, requires_grad=True)]
    for _ in range(depth):
        linear = nn.Linear(32, 32)
        nn.init.xavier_uniform_(linear.weight)
        states.append(step(states[-1], lambda x, linear=linear: torch.relu(linear(x))))
    loss = (states[-1] * torch.randn_like(states[-1])).sum()
    bottom, top = torch.autograd.grad(loss, [states[0], states[-1]])
    return (bottom.norm() / top.norm()).item()


@pytest.mark.parametrize("norm_first", [False, True])
def test_gradient_reaches_the_bottom_through_frames_only(norm_first):
    """Chapter 31: a bare stack loses the gradient, framed sub-layers keep its size."""
    frame = AddNorm(32, dropout=0.0, norm_first=norm_first)
    assert gradient_at_the_bottom(lambda x, sublayer: sublayer(x)) < 1e-4
    assert 0.02 < gradient_at_the_bottom(frame) < 50


def test_residual_path_passes_the_gradient_of_a_dead_sub_layer():
    """The identity in the derivative of x + Sublayer(x): pre-norm with a zero sub-layer hands the gradient on whole."""
    x, weights = torch.randn(1, 4, 8, requires_grad=True), torch.randn(1, 4, 8)
    result = AddNorm(8, dropout=0.0, norm_first=True)(x, torch.zeros_like)
    assert torch.equal(torch.autograd.grad((result * weights).sum(), x)[0], weights)


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


@pytest.mark.parametrize("norm_first", [False, True])
def test_every_sub_layer_has_a_frame_of_its_own(norm_first):
    """Gains and biases are not shared between frames."""
    add_norm = partial(AddNorm, 8, norm_first=norm_first)
    none = nn.Identity()
    encoder_layer, decoder_layer = EncoderLayer(none, none, add_norm), DecoderLayer(none, none, none, add_norm)
    frames = [part for layer in (encoder_layer, decoder_layer) for part in layer.modules() if isinstance(part, AddNorm)]
    assert len({id(frame) for frame in frames}) == 5
    assert len({id(frame.norm.weight) for frame in frames}) == 5
    assert all(frame.norm_first is norm_first for frame in frames)


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


def test_pre_norm_sums_grow_with_depth_and_post_norm_does_not():
    """Why pre-norm needs the final norm."""

    def size_after(depth: int, norm_first: bool) -> float:
        def network() -> nn.Module:
            linear = nn.Linear(32, 32)
            nn.init.xavier_uniform_(linear.weight)
            return linear

        add_norm = partial(AddNorm, 32, 0.0, norm_first)
        attention = Recording("nothing", [])
        layers = [EncoderLayer(attention, network(), add_norm) for _ in range(depth)]
        return Encoder(layers)(torch.randn(1, 16, 32)).square().mean().sqrt().item()

    assert size_after(32, norm_first=True) > 2 * size_after(2, norm_first=True)
    assert size_after(32, norm_first=False) == pytest.approx(1, abs=1e-3)


class Averaging(nn.Module):
    """A stand-in for attention whose weights are all equal."""

    def __init__(self, d_model: int):
        super().__init__()
        self.linear = nn.Linear(d_model, d_model, bias=False)
        nn.init.xavier_uniform_(self.linear.weight)

    def forward(self, query: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            mask = torch.ones(query.shape[1], memory.shape[1], dtype=torch.bool)
        return self.linear(mask / mask.sum(dim=-1, keepdim=True) @ memory)


def decoder_gradients(depth: int, norm_first: bool, cross: bool = True) -> Tensor:
    """Sizes of the loss's gradient at the networks of a decoder with random weights, lowest layer first."""
    d, length, add_norm = 32, 8, partial(AddNorm, 32, 0.0, norm_first)

    def network() -> nn.Sequential:
        parts = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
        for linear in (parts[0], parts[2]):  # as the model's
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        return parts

    memory = torch.randn(8, 1, d).expand(-1, length, -1)  # the vectors of an encoder at random weights are much alike
    x, output = torch.randn(8, length, d), torch.randn(d, 20) / d**0.5
    mask, wanted = torch.ones(length, length).tril().bool(), torch.randint(20, (8 * length,))
    final_norm = nn.LayerNorm(d) if norm_first else None
    if cross:
        layers = [DecoderLayer(Averaging(d), Averaging(d), network(), add_norm) for _ in range(depth)]
        result = Decoder(layers, final_norm)(x, memory, mask, torch.ones(length, length).bool())
    else:
        layers = [EncoderLayer(Averaging(d), network(), add_norm) for _ in range(depth)]
        result = Encoder(layers, final_norm)(x, mask)
    F.cross_entropy((result @ output).flatten(0, 1), wanted).backward()
    return torch.stack([layer.feed_forward[2].weight.grad.norm() for layer in layers])


def test_gradient_at_the_top_shrinks_with_depth_in_pre_norm_only():
    """Chapter 31, after Xiong et al. 2020: at random weights, whatever the depth in post-norm."""
    top = {(order, depth): decoder_gradients(depth, order)[-1] for order in (False, True) for depth in (4, 36)}
    assert top[False, 36] > 0.5 * top[False, 4]
    assert top[True, 36] < 0.6 * top[True, 4]


def test_post_norm_decoder_loses_its_gradient_to_cross_attention():
    """Chapter 31: it falls from the top to the bottom, not in pre-norm, and not where cross-attention is missing."""
    post, pre, alone = (decoder_gradients(16, *options) for options in ((False,), (True,), (False, False)))
    assert post[0] < 0.2 * post[-1]
    assert pre[0] > pre[-1]
    assert alone[0] > 0.1 * alone[-1]


def test_pytorch_normalises_a_post_norm_stack_once_more():
    """D-2: its encoder and decoder end with a norm though norm_first is off; before training it changes nothing."""
    model = nn.Transformer(8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, batch_first=True)
    assert not model.encoder.layers[0].norm_first
    assert isinstance(model.encoder.norm, nn.LayerNorm)
    assert isinstance(model.decoder.norm, nn.LayerNorm)
    normalised = AddNorm(8).norm(torch.randn(4, 8))
    assert torch.allclose(model.encoder.norm(normalised), normalised, atol=1e-3)


# The base model


def test_base_model_stacks_six_layers_of_one_design(base):
    """C-3.1-a, C-3.1-f: N = 6 in both stacks, with the same parts but separate weights."""
    for stack, kind in ((base.encoder, EncoderLayer), (base.decoder, DecoderLayer)):
        assert len(stack.layers) == 6
        assert all(type(layer) is kind for layer in stack.layers)
        designs = {tuple((name, tuple(p.shape)) for name, p in layer.named_parameters()) for layer in stack.layers}
        assert len(designs) == 1
        assert stack.final_norm is None
        pointers = [p.data_ptr() for p in stack.parameters()]
        assert len(set(pointers)) == len(pointers) == 6 * len(list(stack.layers[0].parameters()))


def test_base_model_is_512_wide_everywhere(base):
    """C-3.1-e: embeddings, sub-layers and frames all give vectors of width 512."""
    widths = {}

    def note(name):
        def hook(_module, _inputs, output):
            widths[name] = (output[0] if isinstance(output, tuple) else output).shape[-1]

        return hook

    kinds = ("self_attention", "cross_attention", "feed_forward")
    wanted = [(name, part) for name, part in base.named_modules() if name.split(".")[-1] in kinds]
    wanted += [(name, part) for name, part in base.named_modules() if isinstance(part, AddNorm)]
    wanted += [("embedding", base.source_embedding), ("positions", base.source_positions)]
    handles = [part.register_forward_hook(note(name)) for name, part in wanted]
    with torch.no_grad():
        base(torch.tensor([[4, 5, 6]]), torch.tensor([[2, 7]]))
    for handle in handles:
        handle.remove()
    assert len(widths) == 30 + 30 + 2
    assert set(widths.values()) == {512}


# What a prediction may depend on


def test_decoder_position_sees_no_later_one(small):
    """C-3.1-h: change the decoder's input at j; outputs before j stay as they are, the output at j changes."""
    source, inputs = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[2, 10, 11, 12, 13, 14]])
    with torch.no_grad():
        before = small(source, inputs)
        for j in range(1, inputs.shape[1]):
            changed = inputs.clone()
            changed[0, j] = 40
            moved = (small(source, changed) - before).abs().amax(-1)[0]
            assert moved[:j].max() < 1e-5
            assert moved[j:].min() > 1e-3


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


def test_mask_alone_lets_a_prediction_see_its_answer(small):
    """C-3.1-i, the other way round: without the shift, prediction i reads token i."""
    source, target = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[10, 11, 12, 13, 14]])
    changed = target.clone()
    changed[0, 2] = 40
    with torch.no_grad():
        assert (small(source, changed) - small(source, target)).abs().amax(-1)[0, 2] > 1e-3


def test_one_set_of_weights_serves_any_length(small):
    """M-10: three tokens and three hundred; padding to a fixed length is not part of the model."""
    with torch.no_grad():
        for length in (3, 300):
            assert small.encode(torch.full((1, length), 7)).shape == (1, length, 32)


def test_jaxtyping_is_on():
    """A gain of another width is refused: the shapes in signatures are enforced while the tests run."""
    with pytest.raises(Exception, match="gain"):
        layer_norm(torch.randn(2, 8), torch.ones(1), torch.zeros(8))


def test_written_out_formula_needs_no_kernel():
    """The readable form and PyTorch's function are independent: eps enters both alike."""
    x = 1e-3 * torch.randn(4, 8)
    gain, bias = torch.randn(8), torch.randn(8)
    assert torch.allclose(layer_norm(x, gain, bias, 1e-4), F.layer_norm(x, (8,), gain, bias, 1e-4), atol=1e-5)
