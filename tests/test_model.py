"""Chapter 39: the assembled Transformer of section 3."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

from annotated.attention import MultiHeadAttention
from annotated.feed_forward import FeedForward
from annotated.model import CHOICES, Transformer, TransformerConfig
from annotated.positional_encoding import LearnedPositions, SinusoidalPositions
from tests import forked
from tests.models import SHAPES, SMALL, randomised, tokens

PAPER = yaml.safe_load((Path(__file__).parents[1] / "data/paper.yml").read_text(encoding="utf-8"))
ROWS = {row["id"]: row for row in PAPER["tables"]["table_3"]["rows"]}
COLUMNS = {"N": "num_layers", "d_model": "d_model", "d_ff": "d_ff", "h": "num_heads", "d_k": "d_k", "d_v": "d_v"}
TABLES = {  # what POSITIONS add at a position, to a channel
    "sinusoidal": lambda _, position, i: math.sin(position / 1e4 ** ((i - i % 2) / 32) + (i % 2) * math.pi / 2),
    "concatenated": lambda _, position, i: math.sin(position / 1e4 ** (i % 16 / 16) + (i >= 16) * math.pi / 2),
    "learned": lambda module, position, i: module.weight[position, i].item(),
}


def meta_model(config: TransformerConfig) -> Transformer:
    with torch.device("meta"):
        return Transformer(config)


# The same mathematics


def torch_transformer(model: Transformer) -> nn.Transformer:
    """PyTorch's own model with the weights of `model`; its final norms stay only where `model` has them."""
    config = model.config
    theirs = nn.Transformer(
        config.d_model,
        config.num_heads,
        config.num_layers,
        config.num_layers,
        config.d_ff,
        dropout=0.0,
        layer_norm_eps=config.norm_eps,
        batch_first=True,
        norm_first=config.norm_first,
    )

    def attention(ours: MultiHeadAttention, copy: nn.MultiheadAttention) -> None:
        width = config.d_model
        for i, projection in enumerate((ours.query, ours.key, ours.value)):
            copy.in_proj_weight[i * width : (i + 1) * width] = projection.weight
            copy.in_proj_bias[i * width : (i + 1) * width] = projection.bias
        copy.out_proj.weight.copy_(ours.output.weight)
        copy.out_proj.bias.copy_(ours.output.bias)

    def plain(ours: nn.Module, copy: nn.Module) -> None:
        copy.weight.copy_(ours.weight)
        copy.bias.copy_(ours.bias)

    with torch.no_grad():
        for ours, copy in zip(model.encoder.layers, theirs.encoder.layers, strict=True):
            attention(ours.self_attention, copy.self_attn)
            plain(ours.feed_forward.inner, copy.linear1)
            plain(ours.feed_forward.outer, copy.linear2)
            plain(ours.around_self_attention.norm, copy.norm1)
            plain(ours.around_feed_forward.norm, copy.norm2)
        for ours, copy in zip(model.decoder.layers, theirs.decoder.layers, strict=True):
            attention(ours.self_attention, copy.self_attn)
            attention(ours.cross_attention, copy.multihead_attn)
            plain(ours.feed_forward.inner, copy.linear1)
            plain(ours.feed_forward.outer, copy.linear2)
            plain(ours.around_self_attention.norm, copy.norm1)
            plain(ours.around_cross_attention.norm, copy.norm2)
            plain(ours.around_feed_forward.norm, copy.norm3)
        for ours, stack in ((model.encoder, theirs.encoder), (model.decoder, theirs.decoder)):
            if config.norm_first:
                plain(ours.final_norm, stack.norm)
            else:
                stack.norm = None
    return theirs


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_torch_transformer(norm_first: bool, seed: int) -> None:
    """C-3-d, C-3.1-d: encoder and decoder outputs are those of an independent implementation, in float32."""
    config = TransformerConfig(60, 64, 160, 4, 4, attention_bias=True, norm_first=norm_first)
    model = randomised(config, seed)
    source, target = tokens(4, 11, seed, 60), tokens(4, 8, seed + 10, 60)
    source[1, 6:], source[3, 1:], target[2, 5:], target[3, 2:] = 0, 0, 0, 0
    theirs = torch_transformer(model)
    table = SinusoidalPositions(64).table
    vectors = [8.0 * model.target_embedding.weight[side] + table[: side.shape[1]] for side in (source, target)]
    future = torch.ones(8, 8, dtype=torch.bool).triu(1)
    memory = theirs.encoder(vectors[0], src_key_padding_mask=source == 0)
    output = theirs.decoder(
        vectors[1],
        memory,
        tgt_mask=future,
        tgt_key_padding_mask=target == 0,
        memory_key_padding_mask=source == 0,
    )
    ours = model.encode(source)
    assert (ours - memory)[source != 0].abs().max() < 1e-5
    hidden = model.decode(target, ours, (source != 0)[:, None, None, :])
    assert (hidden - output)[target != 0].abs().max() < 1e-5
    logits = output @ model.target_embedding.weight.T
    torch.testing.assert_close(model(source, target)[target != 0], logits[target != 0], rtol=1e-5, atol=5e-5)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row["params_millions"] is not None])
def test_parameter_counts_of_table_3(name: str) -> None:
    """Table 3: at 40,960 pieces with attention biases every stated count is met after rounding, but for big's."""
    sizes = {field: ROWS[name][column] or ROWS["base"][column] for column, field in COLUMNS.items()}
    count = meta_model(TransformerConfig(40_960, attention_bias=True, **sizes)).num_parameters()
    if name == "big":
        assert round(count / 1e6, 2) == 218.30
        assert ROWS[name]["params_millions"] == 213
    else:
        assert round(count / 1e6) == ROWS[name]["params_millions"]


def test_parameter_counts_of_the_base_model() -> None:
    """C-3.1-a, C-3.1-f: six layers a stack, and the totals worked out by hand; no attention biases."""
    model = meta_model(TransformerConfig.base(37_000))
    assert model.num_parameters() == 63_045_632
    assert model.num_parameters() - model.target_embedding.weight.numel() == 44_101_632
    assert len(model.encoder.layers) == len(model.decoder.layers) == 6
    for layers, count in ((model.encoder.layers, 3_150_336), (model.decoder.layers, 4_199_936)):
        assert all(sum(p.numel() for p in layer.parameters()) == count for layer in layers)
    assert meta_model(TransformerConfig.base(37_000, attention_bias=True)).num_parameters() == 63_045_632 + 36_864
    untied = TransformerConfig.base(37_000, tie_embeddings=False, tie_output=False)
    assert meta_model(untied).num_parameters() == 44_101_632 + 3 * 18_944_000


@pytest.mark.parametrize("name", ["base", "big"])
def test_default_sizes_are_the_papers(name: str) -> None:
    """C-3.1-e: the rows base and big of Table 3."""
    model = meta_model(getattr(TransformerConfig, name)(100))
    row = {column: ROWS[name][column] or ROWS["base"][column] for column in [*COLUMNS, "dropout"]}
    attention, network = model.encoder.layers[0].self_attention, model.decoder.layers[-1].feed_forward
    assert (attention.num_heads, attention.d_k, attention.d_v) == (row["h"], row["d_k"], row["d_v"])
    assert network.inner.weight.shape == (row["d_ff"], row["d_model"])
    assert (len(model.encoder.layers), model.dropout.p) == (row["N"], row["dropout"])


def test_every_layer_has_its_own_weights() -> None:
    """C-3.3-c: no matrix of attention or feed-forward network is shared between layers or sub-layers."""
    model = Transformer(SMALL)
    kinds = {MultiHeadAttention: 3 + 2 * 3, FeedForward: 3 + 3, nn.LayerNorm: 2 * 3 + 3 * 3}
    for kind, number in kinds.items():
        modules = [module for module in model.modules() if isinstance(module, kind)]
        assert len(modules) == number
        pointers = [parameter.data_ptr() for module in modules for parameter in module.parameters()]
        assert len(set(pointers)) == len(pointers)


def test_initial_weights() -> None:
    """Embeddings N(0, 1 / d_model), matrices Glorot-uniform, biases zero, gains one."""
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(2000, 64, 256, 4, 1, attention_bias=True, tie_output=False))
    for weight in (model.target_embedding.weight, model.output.weight):
        assert weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert len(linear) == 4 * 3 + 2 * 2
    for module in linear:
        bound = (6 / sum(module.weight.shape)) ** 0.5
        assert 0.95 * bound < module.weight.abs().max() <= bound
        assert not module.bias.any()
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            assert bool((module.weight == 1).all())
            assert not module.bias.any()


# Structure and leaks


def test_n_vectors_for_n_symbols() -> None:
    """C-3-a: the encoder's output is as long as its input, for any length."""
    model = Transformer(SMALL).eval()
    for length in (1, 7, 300):
        assert model.encode(tokens(2, length, length)).shape == (2, length, 32)


def test_target_length_is_free() -> None:
    """C-3-b: m differs from n; each position gets a distribution over the vocabulary that depends on the source."""
    model = Transformer(SMALL).eval()
    source = tokens(2, 7, 1)
    for length in (1, 7, 30):
        assert model(source, tokens(2, length, 2)).shape == (2, length, 40)
    changed = source.clone()
    changed[:, 6] = 39 - changed[:, 6] + 4
    difference = (model(source, tokens(2, 5, 2)) - model(changed, tokens(2, 5, 2))).abs().amax(-1)
    assert (difference > 1e-4).all()


def test_sublayers_run_in_figure_1s_order() -> None:
    """C-3-d: two and three sub-layers, each followed by its norm, layer after layer; positions once per stack."""
    model, called = randomised(SMALL), []
    watched = (MultiHeadAttention, FeedForward, nn.LayerNorm, SinusoidalPositions)
    for name, module in model.named_modules():
        if isinstance(module, watched):
            module.register_forward_hook(lambda *_, name=name: called.append(name))
    model(tokens(1, 5, 1), tokens(1, 4, 2))
    expected = []
    for stack, sublayers in (
        ("encoder", ["self_attention", "feed_forward"]),
        ("decoder", ["self_attention", "cross_attention", "feed_forward"]),
    ):
        expected.append("source_positions" if stack == "encoder" else "target_positions")
        for i in range(3):
            for sublayer in sublayers:
                expected += [f"{stack}.layers.{i}.{sublayer}", f"{stack}.layers.{i}.around_{sublayer}.norm"]
    assert called == expected


@pytest.mark.parametrize("shape", ["paper", "pre-norm"])
def test_encoder_output_feeds_every_decoder_layer(shape: str) -> None:
    """C-3.2.3-b: keys and values of every cross-attention are the encoder's last output, queries are the decoder's."""
    model, received = randomised(replace(SMALL, **SHAPES[shape])), []
    for layer in model.decoder.layers:
        layer.cross_attention.register_forward_pre_hook(lambda _, given: received.append(given))
    memory = model.encode(tokens(2, 6, 1))
    model.decode(tokens(2, 4, 2), memory, torch.ones(2, 1, 1, 6, dtype=torch.bool))
    assert len(received) == 3
    assert all(given[1] is memory for given in received)
    assert all(given[0].shape == (2, 4, 32) for given in received)
    final = model.encoder.final_norm if shape == "pre-norm" else model.encoder.layers[-1].around_feed_forward.norm
    last = []
    final.register_forward_hook(lambda _, given, result: last.append(result))
    assert model.encode(tokens(2, 6, 1)) is last[-1]


@pytest.mark.parametrize("shape", ["paper", "pre-norm", "learned", "biases", "free widths"])
def test_no_gradient_from_the_future_and_from_padding(shape: str) -> None:
    """C-3.1-h, C-3.1-i, C-3.2.3-f: exactly zero from every later target token and from every pad of both sides."""
    model = randomised(replace(SMALL, **SHAPES[shape]))
    source, target = tokens(1, 7, 1), tokens(1, 6, 2)
    source[0, 5:], target[0, 4:] = 0, 0
    vectors = {}

    def keep(name: str):
        def hook(_: nn.Module, given: tuple, result: torch.Tensor) -> torch.Tensor:
            vectors[name] = result.detach().requires_grad_()
            return vectors[name]

        return hook

    hooks = iter((keep("source"), keep("target")))
    model.dropout.register_forward_hook(lambda *given: next(hooks)(*given))
    logits = model(source, target)[0]
    for i in range(4):
        for direction in torch.randn(3, 40, generator=torch.Generator().manual_seed(i)):
            both = torch.autograd.grad(logits[i] @ direction, list(vectors.values()), retain_graph=True)
            from_source, from_target = (gradient[0].abs().amax(-1) for gradient in both)
            assert (from_target[: i + 1] > 0).all()
            assert (from_target[i + 1 :] == 0).all()
            assert (from_source[:5] > 0).all()
            assert (from_source[5:] == 0).all()


@pytest.mark.parametrize("shape", list(SHAPES))
def test_padding_changes_nothing(shape: str) -> None:
    """A pair alone and the same pair in a padded batch have the same logits."""
    model = randomised(replace(SMALL, **SHAPES[shape]))
    source, target = tokens(3, 9, 1), tokens(3, 7, 2)
    source[0, 4:], target[0, 3:] = 0, 0
    together, alone = model(source, target), model(source[:1, :4], target[:1, :3])
    torch.testing.assert_close(together[:1, :3], alone, rtol=1e-5, atol=2e-5)


def test_padding_within_the_target_is_hidden_too() -> None:
    """The causal mask alone would let later tokens see a pad that stands before them."""
    model = randomised(SMALL)
    target, embedded = tokens(1, 6, 2), []
    target[0, 2] = 0
    hook = model.target_embedding.register_forward_hook(lambda _, given, result: embedded.append(result.detach()))
    before = model(tokens(1, 5, 1), target)[0].detach()
    hook.remove()
    noise = torch.zeros_like(embedded[0])
    noise[0, 2] = 1.0
    model.target_embedding.register_forward_hook(lambda _, given, result: result + noise)
    moved = (model(tokens(1, 5, 1), target)[0] != before).any(-1)
    assert moved.tolist() == [False, False, True, False, False, False]


@pytest.mark.parametrize("shape", ["paper", "pre-norm", "biases"])
def test_source_that_is_all_padding(shape: str) -> None:
    """No NaN in outputs or gradients, training and evaluating; the pads' number does not matter, nor do neighbours."""
    model = randomised(replace(SMALL, **SHAPES[shape]))
    source, target = tokens(2, 5, 1), tokens(2, 4, 2)
    source[0] = 0
    target[1, 2:] = 0
    alone, empty = model(source[1:], target[1:]), model(source[:1], target[:1])
    torch.testing.assert_close(empty, model(source[:1, :2], target[:1]), rtol=1e-5, atol=1e-5)  # nothing is attended to
    for training in (False, True):
        model.train(training)
        model.zero_grad()
        logits = model(source, target)
        assert logits.isfinite().all()
        logits.square().sum().backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
        if not training:
            torch.testing.assert_close(logits[1:, :2], alone[:, :2], rtol=1e-5, atol=1e-5)


def test_pytorchs_masks_allow_in_the_function_and_forbid_in_the_module() -> None:
    """Chapter 39: true allows in F.scaled_dot_product_attention, as in this book; in nn.Transformer true forbids."""
    allowed = torch.ones(4, 4, dtype=torch.bool).tril()
    x = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=allowed)[0, 0], x[0, 0])
    layer = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    changed = x.clone()
    changed[0, 1:] += 1.0
    for forbidden, kept in ((~allowed, True), (allowed.tril(-1), False)):
        same = torch.allclose(layer(x, x, tgt_mask=forbidden)[0, 0], layer(changed, x, tgt_mask=forbidden)[0, 0])
        assert same is kept


# Options


@pytest.mark.parametrize(
    ("changes", "extra"),
    [
        ({"tie_output": False}, 40 * 32),
        ({"tie_embeddings": False}, 40 * 32),
        ({"tie_embeddings": False, "tie_output": False}, 2 * 40 * 32),
        ({"tie_embeddings": False, "source_vocab_size": 60}, 60 * 32),
        ({"positions": "learned"}, 2 * 64 * 32),
        ({"positions": "concatenated"}, 0),
        ({"norm_first": True}, 2 * 2 * 32),
        ({"output_bias": True}, 40),
        ({"attention_bias": True}, 9 * 4 * 32),
        ({"d_k": 5}, 9 * 2 * 32 * 4 * (5 - 8)),
        ({"d_v": 11}, 9 * 2 * 32 * 4 * (11 - 8)),
        ({"num_decoder_layers": 1}, -2 * (2 * 4 * 32 * 32 + 2 * 32 * 48 + 48 + 32 + 3 * 2 * 32)),
    ],
)
def test_options_change_the_count_by_what_they_add(changes: dict, extra: int) -> None:
    """C-3.2.2-f and design options: untied matrices, positions, pre-norm, biases, free widths, decoder depth."""
    config = replace(SMALL, **changes)
    assert Transformer(config).num_parameters() == Transformer(SMALL).num_parameters() + extra


def test_untied_matrices_are_separate() -> None:
    """Changing one untied matrix leaves the other two alone; a tied pair keeps moving together."""
    model = Transformer(replace(SMALL, tie_embeddings=False, tie_output=False))
    matrices = (model.source_embedding.weight, model.target_embedding.weight, model.output.weight)
    assert len({matrix.data_ptr() for matrix in matrices}) == 3
    half = Transformer(replace(SMALL, tie_embeddings=False))
    assert half.output.weight is half.target_embedding.weight
    assert half.source_embedding.weight is not half.output.weight
    other = Transformer(replace(SMALL, tie_output=False))
    assert other.source_embedding.weight is other.target_embedding.weight
    assert other.output.weight is not other.target_embedding.weight


def test_two_vocabularies() -> None:
    """Source ids beyond the target's vocabulary work, and the output has the target's size."""
    model = randomised(replace(SMALL, tie_embeddings=False, source_vocab_size=60))
    source = torch.tensor([[59, 41, 7]])
    assert model(source, tokens(1, 4, 2)).shape == (1, 4, 40)


def test_learned_positions_are_separate_and_limited() -> None:
    """C-3.5-h, Table 3 (E): one table a stack, and a clear message for a sentence that is too long."""
    model = Transformer(replace(SMALL, positions="learned", max_length=8)).eval()
    assert isinstance(model.source_positions, LearnedPositions)
    assert model.source_positions.weight is not model.target_positions.weight
    assert model(tokens(1, 8, 1), tokens(1, 8, 2)).shape == (1, 8, 40)
    for source, target in ((9, 2), (2, 9)):
        with pytest.raises(ValueError, match="max_length"):
            model(tokens(1, source, 1), tokens(1, target, 2))


def test_concatenated_positions_are_the_same_numbers_in_another_order() -> None:
    """Paper and released code: all sines first, then all cosines."""
    ours = Transformer(SMALL).source_positions.table
    theirs = Transformer(replace(SMALL, positions="concatenated")).source_positions.table
    assert not torch.equal(ours, theirs)
    assert torch.equal(torch.cat([ours[:, 0::2], ours[:, 1::2]], dim=1), theirs)


@pytest.mark.parametrize("name", CHOICES["positions"])
def test_positions_are_those_of_their_name(name: str) -> None:
    """Source and target get the table that the option names, also from a later start."""
    assert name in TABLES, f"positions {name!r} have nothing to compare with: add their formula to TABLES in this file"
    model = Transformer(replace(SMALL, positions=name))
    for module in (model.source_positions, model.target_positions):
        added = module(torch.zeros(1, 10, 32), start=3)[0]
        expected = [[TABLES[name](module, position, i) for i in range(32)] for position in range(3, 13)]
        torch.testing.assert_close(added, torch.tensor(expected), rtol=0, atol=1e-5)


def test_norm_first_ends_each_stack_with_a_norm() -> None:
    """C-3.1-d: none after the paper's stacks, one after each pre-norm stack, and outputs are normalised."""
    for norm_first in (False, True):
        model = Transformer(replace(SMALL, norm_first=norm_first)).eval()
        finals = [stack.final_norm for stack in (model.encoder, model.decoder)]
        assert [isinstance(final, nn.LayerNorm) for final in finals] == [norm_first] * 2
        memory = model.encode(tokens(2, 6, 1))
        torch.testing.assert_close(memory.mean(-1), torch.zeros(2, 6), rtol=0, atol=1e-5)
        torch.testing.assert_close(memory.var(-1, unbiased=False), torch.ones(2, 6), rtol=0, atol=1e-3)


def test_output_bias_is_added_to_the_logits() -> None:
    config = replace(SMALL, output_bias=True)
    model = randomised(config)
    source, target = tokens(1, 4, 1), tokens(1, 4, 2)
    with_bias, bias = model(source, target).detach(), model.output.bias.detach().clone()
    nn.init.zeros_(model.output.bias)
    torch.testing.assert_close(with_bias - bias, model(source, target).detach(), rtol=1e-5, atol=1e-5)
    assert bias.abs().max() > 0.1
    assert Transformer(SMALL).output.bias is None


@pytest.mark.parametrize(
    ("option", "other"),
    [("norm_eps", 0.5), ("scale_embeddings", False), *(("activation", name) for name in CHOICES["activation"][1:])],
)
def test_remaining_options_reach_the_model(option: str, other: object) -> None:
    """With equal weights another activation, epsilon or scale gives other logits."""
    model, changed = randomised(SMALL), randomised(replace(SMALL, **{option: other}))
    changed.load_state_dict(model.state_dict())
    difference = model(tokens(1, 5, 1), tokens(1, 4, 2)) - changed(tokens(1, 5, 1), tokens(1, 4, 2))
    assert difference.abs().max() > 1e-3


def test_padding_masks_use_the_configured_pad() -> None:
    """`pad_id` is the configuration's, not always 0."""
    model = randomised(replace(SMALL, pad_id=9))
    source = torch.tensor([[5, 6, 9, 9]])
    with_pad = model(source, torch.tensor([[2, 7]]))
    torch.testing.assert_close(with_pad, model(source[:, :2], torch.tensor([[2, 7]])), rtol=1e-5, atol=1e-5)
    real_zero = torch.tensor([[5, 6, 0, 0]])
    assert (model(real_zero, torch.tensor([[2, 7]])) - with_pad).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 0}, "vocab_size"),
        ({"d_model": 0}, "d_model"),
        ({"d_ff": -1}, "d_ff"),
        ({"num_heads": 0}, "num_heads"),
        ({"num_layers": 0}, "num_layers"),
        ({"max_length": 0}, "max_length"),
        ({"d_k": 0}, "d_k"),
        ({"d_v": -2}, "d_v"),
        ({"num_decoder_layers": 0}, "num_decoder_layers"),
        ({"source_vocab_size": 0, "tie_embeddings": False}, "source_vocab_size"),
        ({"dropout": 1.0}, "dropout"),
        ({"dropout": -0.1}, "dropout"),
        ({"attention_dropout": 1.0}, "attention_dropout"),
        ({"activation_dropout": 2.0}, "activation_dropout"),
        *(({name: "none"}, f"{name} must be one of {', '.join(known)}, not 'none'") for name, known in CHOICES.items()),
        ({"num_heads": 5}, "num_heads 5"),
        ({"d_model": 33, "num_heads": 3}, "d_model must be even"),
        ({"source_vocab_size": 50}, "tie_embeddings"),
    ],
)
def test_impossible_configurations_are_refused(changes: dict, message: str) -> None:
    """The message names the field."""
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changes)


def test_odd_widths_work_where_they_can() -> None:
    """An odd d_model has no pairs of sine and cosine, but learned positions; heads may be wider than d_model / h."""
    config = TransformerConfig(40, 33, 48, 5, 1, d_k=7, d_v=3, positions="learned", max_length=16)
    assert Transformer(config)(tokens(1, 5, 1), tokens(1, 4, 2)).shape == (1, 4, 40)


def test_attention_alone_without_recurrence_or_convolution():
    """C-0-b: of PyTorch's own layers only linear maps and norms have weights; what mixes positions is attention."""
    model = Transformer(TransformerConfig(vocab_size=20, d_model=16, d_ff=32, num_heads=2, num_layers=2))
    theirs = {type(module).__name__ for module in model.modules() if type(module).__module__.startswith("torch.")}
    assert theirs == {"Linear", "LayerNorm", "Dropout", "ModuleList"}


# In other people's hands


@pytest.mark.slow
def test_a_model_in_other_hands_computes_the_same() -> None:
    """Copied, called by functions, exported, compiled; from a short and a long example, for sentences of any length."""
    done = forked.run(1, "tests.other_hands")
    assert done.returncode == 0, done.stderr
    for made, differences in json.loads(done.stdout).items():
        assert len(differences) == 8, made
        assert max(differences) < 1e-4, made


def test_gradients_by_functions_leave_the_model_as_it_was() -> None:
    """A module under two names is restored wrongly by functional_call, and the model is no longer tied afterwards."""
    model, source, target = randomised(SMALL), tokens(2, 150, 1), tokens(2, 140, 2)
    parameters, before = dict(model.named_parameters()), model(source, target).square().mean()
    before.backward()
    slopes = grad(lambda given: functional_call(model, given, (source, target)).square().mean())(parameters)
    assert model.source_embedding.weight is model.target_embedding.weight is model.output.weight
    assert isinstance(model.output.weight, nn.Parameter)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(slopes[name], parameter.grad)


def test_several_models_at_once() -> None:
    """PyTorch's way to ensembles: stacked states under vmap, buffers among them."""
    models = [randomised(SMALL, seed) for seed in range(3)]
    source, target = tokens(2, 150, 1), tokens(2, 140, 2)
    base, states = copy.deepcopy(models[0]), stack_module_state(models)
    at_once = vmap(lambda *state: functional_call(base, state, (source, target)))(*states)
    torch.testing.assert_close(at_once, torch.stack([model(source, target) for model in models]), rtol=1e-4, atol=1e-5)
    assert base.source_positions.table.shape == models[0].source_positions.table.shape
