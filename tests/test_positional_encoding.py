"""Chapter 35: where a token stands, by sinusoids or learned vectors (section 3.5 of the paper)."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated.attention import MultiHeadAttention, scaled_dot_product_attention
from annotated.feed_forward import FeedForward
from annotated.model import Transformer, TransformerConfig
from annotated.positional_encoding import LearnedPositions, SinusoidalPositions, sinusoidal_encoding
from annotated.stacks import AddNorm, Encoder, EncoderLayer


def encoder(d_model: int, num_layers: int) -> Encoder:
    add_norm = partial(AddNorm, d_model, dropout=0.0)
    parts = [(MultiHeadAttention(d_model, 4), FeedForward(d_model, 64)) for _ in range(num_layers)]
    return Encoder([EncoderLayer(attention, network, add_norm) for attention, network in parts])


def shift_matrix(k: int, d_model: int) -> torch.Tensor:
    angles = [k / 10000 ** (2 * i / d_model) for i in range(d_model // 2)]
    turns = [[[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]] for a in angles]
    return torch.block_diag(*torch.tensor(turns, dtype=torch.float64))


def test_table_holds_the_papers_numbers():
    """C-3.5-e: sine and cosine with one exponent, interleaved; values worked out from the formula by hand."""
    assert torch.allclose(
        sinusoidal_encoding(2, 4)[1], torch.tensor([0.841471, 0.540302, 0.0099998, 0.99995]), atol=1e-6
    )
    expected = torch.tensor([-0.544021, -0.839072, -0.220023, -0.975495])
    table = sinusoidal_encoding(100, 512)
    assert torch.allclose(table[10, :4], expected, atol=1e-6)
    assert torch.allclose(table[0], torch.tensor([0.0, 1.0]).repeat(256))
    assert table[0].dot(table[10]).item() == pytest.approx(173.7897, abs=1e-3)
    assert table[40].dot(table[50]).item() == pytest.approx(173.7897, abs=1e-3)
    assert table[0].dot(table[1]).item() == pytest.approx(249.1021, abs=1e-3)


def test_table_stays_exact_at_large_positions():
    """Angles are computed in double precision: a float32 angle at position 100,000 is off in its third decimal."""
    row = sinusoidal_encoding(1, 8, start=100_003)[0]
    for i in range(4):
        angle = 100_003 / 10000 ** (2 * i / 8)
        assert row[2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert row[2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_every_pair_is_a_point_on_the_unit_circle():
    """C-3.5-e (misreading M-1): with 2i in both exponents sin^2 + cos^2 = 1 in each pair; the squared norm is d/2."""
    table = sinusoidal_encoding(300, 512)
    assert torch.allclose(table.unflatten(1, (256, 2)).square().sum(-1), torch.ones(300, 256), atol=1e-5)
    assert torch.allclose(table.square().sum(-1), torch.full((300,), 256.0), atol=1e-3)


def test_wavelengths_are_geometric_from_2_pi():
    """C-3.5-f: from 2 pi, each a fixed multiple of the one before, up to 2 pi * 10000^((d - 2) / d), short of 10000."""
    step = sinusoidal_encoding(2, 512)[1].double().unflatten(0, (-1, 2))
    lengths = 2 * math.pi / torch.atan2(step[:, 0], step[:, 1])
    assert lengths[0].item() == pytest.approx(2 * math.pi, rel=1e-5)
    assert torch.allclose(lengths[1:] / lengths[:-1], torch.tensor(10000 ** (1 / 256), dtype=torch.float64), atol=1e-5)
    assert lengths[-1].item() == pytest.approx(2 * math.pi * 9646.6, rel=1e-4)


@settings(deadline=None, max_examples=40)
@given(half=st.integers(1, 40), k=st.integers(-60, 60))
def test_one_rotation_shifts_every_position(half, k):
    """C-3.5-g (M-25): PE_{p+k} = M_k PE_p with one M_k for all p, at any width."""
    table = sinusoidal_encoding(400, 2 * half).double()
    shifted = table[60:340] @ shift_matrix(k, 2 * half).T
    assert torch.allclose(shifted, table[60 + k : 340 + k], atol=1e-5)


@pytest.mark.parametrize("offset", [-1, 2])
def test_a_head_with_one_query_map_looks_at_a_relative_position(offset):
    """C-3.5-g: queries M_k PE, keys PE: every position attends to the one k further on, wherever it stands."""
    table = sinusoidal_encoding(600, 64)
    query = 30 * table @ shift_matrix(offset, 64).float().T
    seen = scaled_dot_product_attention(query, table, table)[1].argmax(-1)
    inside = torch.arange(2, 598)
    assert torch.equal(seen[inside], inside + offset)


def test_halves_are_the_same_columns_in_another_order():
    """D-3: `interleaved=False` puts all sines before all cosines and changes nothing else."""
    alternating, halves = sinusoidal_encoding(50, 16), sinusoidal_encoding(50, 16, interleaved=False)
    assert torch.equal(halves[:, :8], alternating[:, 0::2])
    assert torch.equal(halves[:, 8:], alternating[:, 1::2])
    x = torch.zeros(1, 200, 16)
    expected = sinusoidal_encoding(200, 16, interleaved=False)
    assert torch.equal(SinusoidalPositions(16, interleaved=False)(x)[0], expected)  # also behind the table


@pytest.mark.parametrize("d_model", [1, 7, 511])
def test_odd_width_is_refused(d_model):
    """An odd width has no pairs: an error that names it, from the function and from the module."""
    for make in (partial(sinusoidal_encoding, 3), SinusoidalPositions):
        with pytest.raises(ValueError, match=f"must be even.*{d_model}"):
            make(d_model)


def test_positions_are_added_and_the_width_stays():
    """C-3.5-b, C-3.5-c (M-2, M-35): the encoding itself, not scaled, is added to each sentence; the width stays.

    And its entries do, unlike a number of the position in an extra dimension.
    """
    x = torch.randn(3, 10, 32)
    place = SinusoidalPositions(32)
    y = place(x)
    assert y.shape == x.shape
    assert torch.allclose(y - x, sinusoidal_encoding(10, 32).expand(3, 10, 32), atol=1e-6)
    assert sinusoidal_encoding(1000, 32).abs().max() <= 1
    assert list(place.parameters()) == []  # C-3.5-d: nothing is learned, nor saved
    assert place.state_dict() == {}


def test_model_scales_tokens_only_and_adds_positions_once_for_each_stack():
    """C-3.5-b (M-23, M-35): sqrt(d_model) E + PE below the encoder and below the decoder, and nowhere else."""
    model = Transformer(TransformerConfig(vocab_size=9, d_model=16, d_ff=8, num_heads=2, num_layers=3)).eval()
    calls, inputs = [], {}
    for positions in (model.source_positions, model.target_positions):
        positions.register_forward_hook(lambda *_: calls.append("once"))
        assert list(positions.parameters()) == []
    for name in ("encoder", "decoder"):
        stack = getattr(model, name)
        stack.register_forward_pre_hook(lambda _, arguments, name=name: inputs.update({name: arguments[0][0]}))
    source, target = torch.tensor([[4, 5, 6, 7]]), torch.tensor([[2, 8, 8]])
    model(source, target)
    assert len(calls) == 2
    for name, tokens in {"encoder": source[0], "decoder": target[0]}.items():
        expected = 4 * model.target_embedding.weight[tokens] + sinusoidal_encoding(len(tokens), 16)
        assert torch.allclose(inputs[name], expected, atol=1e-5)


def test_without_positions_the_encoder_is_blind_to_order():
    """C-3.5-a: words that change places give the same outputs in other places; with positions they do not."""
    stack, x, order = encoder(32, 2), torch.randn(1, 6, 32), torch.tensor([3, 1, 5, 0, 4, 2])
    assert torch.allclose(stack(x[:, order]), stack(x)[:, order], atol=1e-5)
    place = SinusoidalPositions(32)
    changed = (stack(place(x[:, order])) - stack(place(x))[:, order]).norm(dim=-1)
    assert changed.min() > 1e-2


def test_any_length_has_its_rows_and_the_table_stays_as_it_is():
    """Processes that train together hand each other their buffers, which must keep their size (chapter 93)."""
    place = SinusoidalPositions(16)
    table = place.table
    for length in (128, 129, 1000, 5):
        assert torch.equal(place(torch.zeros(2, length, 16))[1], sinusoidal_encoding(length, 16))
    assert torch.equal(place(torch.zeros(1, 1, 16), start=5000)[0], sinusoidal_encoding(1, 16, start=5000))
    assert place.table is table
    assert table.shape == (128, 16)


def test_rows_made_while_decoding_do_not_stop_training():
    """Long outputs under inference mode leave nothing behind that a later backward pass could not use."""
    place = SinusoidalPositions(16)
    with torch.inference_mode():
        place(torch.zeros(1, 300, 16))
    x = torch.zeros(1, 300, 16, requires_grad=True)
    place(x).sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))


@pytest.mark.parametrize("place", [SinusoidalPositions(16), LearnedPositions(16, 300)], ids=["sinusoidal", "learned"])
def test_start_offset_equals_the_slice(place):
    """A token decoded alone gets the vector of its own position, not that of position 0."""
    x = torch.randn(2, 260, 16)
    whole = place(x)
    for start, end in ((0, 1), (1, 2), (100, 140), (259, 260)):
        assert torch.equal(place(x[:, start:end], start=start), whole[:, start:end])


def test_sum_keeps_the_embeddings_type():
    """In a model of bfloat16 the sum stays bfloat16, also behind the table, so that no layer above changes type."""
    place = SinusoidalPositions(16).bfloat16()
    for length in (3, 300):
        assert place(torch.zeros(1, length, 16, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_learned_positions_end_at_max_length():
    """C-3.5-d: one vector for each position; beyond the last there is none, and the error says so."""
    place = LearnedPositions(16, max_length=10)
    x = torch.randn(2, 10, 16)
    assert torch.allclose(place(x) - x, place.weight.expand(2, 10, 16), atol=1e-6)
    for length, start in ((11, 0), (1, 10), (5, 6)):
        with pytest.raises(ValueError, match=rf"{start + length} positions.*for 10"):
            place(torch.zeros(1, length, 16), start=start)


def test_learned_positions_begin_as_large_as_sinusoids_and_train_only_where_used():
    """The mean square is that of the sinusoids at every width; a position that no input reaches gets no gradient."""
    for d_model in (16, 64, 512):
        size = sinusoidal_encoding(2000, d_model).square().mean().item()
        assert LearnedPositions(d_model, 2000).weight.square().mean().item() == pytest.approx(size, rel=0.03)
    place = LearnedPositions(64, max_length=2000)
    place(torch.zeros(3, 7, 64)).sum().backward()
    assert place.weight.grad.abs().sum(-1).nonzero().flatten().tolist() == list(range(7))
