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
from annotated.model import CHOICES, OPTIONAL_SIZES, REQUIRED_SIZES, Transformer, TransformerConfig
from annotated.positional_encoding import SinusoidalPositions
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
    sizes = (config.d_model, config.num_heads, config.num_layers, config.num_layers, config.d_ff)
    options = {"dropout": 0.0, "layer_norm_eps": config.norm_eps, "norm_first": config.norm_first}
    theirs, state = nn.Transformer(*sizes, batch_first=True, **options), {}

    def take(name: str, *parts: nn.Module) -> None:
        for kind in ("weight", "bias"):
            state[name + kind] = torch.cat([getattr(part, kind) for part in parts])

    attentions = {"self": "self_attn", "cross": "multihead_attn"}
    frames = {"encoder": ("self_attention", "feed_forward")}
    frames["decoder"] = ("self_attention", "cross_attention", "feed_forward")
    for stack in ("encoder", "decoder"):
        for i, layer in enumerate(getattr(model, stack).layers):
            at = f"{stack}.layers.{i}."
            for kind, name in attentions.items():
                if ours := getattr(layer, f"{kind}_attention", None):
                    take(f"{at}{name}.in_proj_", ours.query, ours.key, ours.value)
                    take(f"{at}{name}.out_proj.", ours.output)
            take(f"{at}linear1.", layer.feed_forward.inner)
            take(f"{at}linear2.", layer.feed_forward.outer)
            for number, frame in enumerate(frames[stack], start=1):
                take(f"{at}norm{number}.", getattr(layer, f"around_{frame}").norm)
        if config.norm_first:
            take(f"{stack}.norm.", getattr(model, stack).final_norm)
        else:
            getattr(theirs, stack).norm = None
    theirs.load_state_dict(state)
    return theirs


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
def test_equals_torch_transformer(norm_first: bool) -> None:
    """C-3-d, C-3.1-d: encoder and decoder outputs are those of an independent implementation, in float32."""
    config = TransformerConfig(60, 64, 160, 4, 4, attention_bias=True, norm_first=norm_first)
    model = randomised(config)
    source, target = tokens(4, 11, 0, 60), tokens(4, 8, 10, 60)
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


@pytest.mark.parametrize("name", ["base", "big"])
def test_default_sizes_are_the_papers(name: str) -> None:
    """C-3.1-a, C-3.1-e, C-3.1-f, C-3.2.2-g, C-3.3-e: the rows base and big of Table 3, in every layer."""
    model = meta_model(getattr(TransformerConfig, name)(100))
    row = {column: ROWS[name][column] or ROWS["base"][column] for column in [*COLUMNS, "dropout"]}
    assert len(model.encoder.layers) == len(model.decoder.layers) == row["N"]
    assert model.dropout.p == row["dropout"]
    assert model.target_embedding.weight.shape == (100, row["d_model"])
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            assert (part.num_heads, part.d_k, part.d_v) == (row["h"], row["d_k"], row["d_v"])
            assert part.query.weight.shape == part.output.weight.shape == (row["d_model"], row["d_model"])
            assert part.query.bias is None
        elif isinstance(part, FeedForward):
            assert part.inner.weight.shape == part.outer.weight.T.shape == (row["d_ff"], row["d_model"])


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


def test_target_length_is_free() -> None:
    """C-3-a, C-3-b: n vectors for n symbols; m differs from n, and each position depends on the source."""
    model = Transformer(SMALL).eval()
    source = tokens(2, 7, 1)
    for length in (1, 7, 30, 300):
        assert model.encode(tokens(2, length, length)).shape == (2, length, 32)
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


@pytest.mark.parametrize("shape", ["paper", "pre-norm", "learned"])
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


@pytest.mark.parametrize("shape", ["pre-norm", "biases"])
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


def test_matrices_are_shared_only_where_they_are_tied() -> None:
    for embeddings in (True, False):
        for output in (True, False):
            tied = Transformer(replace(SMALL, tie_embeddings=embeddings, tie_output=output))
            assert (tied.source_embedding.weight is tied.target_embedding.weight) is embeddings
            assert (tied.output.weight is tied.target_embedding.weight) is output
    model = randomised(replace(SMALL, tie_embeddings=False, source_vocab_size=60))
    assert model(torch.tensor([[59, 41, 7]]), tokens(1, 4, 2)).shape == (1, 4, 40)


@pytest.mark.parametrize("name", CHOICES["positions"])
def test_positions_are_those_of_their_name(name: str) -> None:
    """Source and target get the table that the option names, also from a later start."""
    assert name in TABLES, f"positions {name!r} have nothing to compare with: add their formula to TABLES in this file"
    model = Transformer(replace(SMALL, positions=name))
    for module in (model.source_positions, model.target_positions):
        added = module(torch.zeros(1, 10, 32), start=3)[0]
        expected = [[TABLES[name](module, position, i) for i in range(32)] for position in range(3, 13)]
        torch.testing.assert_close(added, torch.tensor(expected), rtol=0, atol=1e-5)


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


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        *(({name: 0}, name) for name in (*REQUIRED_SIZES, *OPTIONAL_SIZES)),
        *(({name: 1.0}, name) for name in ("dropout", "attention_dropout", "activation_dropout")),
        ({"dropout": -0.1}, "dropout"),
        *(({name: 40}, name) for name in ("pad_id", "start_id", "end_id")),
        *(({name: "none"}, f"{name} .*{', '.join(known)}.*'none'") for name, known in CHOICES.items()),
        ({"norm_eps": 0.0}, "norm_eps"),
        ({"num_heads": 5}, "num_heads 5"),
        ({"d_model": 33, "num_heads": 3}, "d_model must be even"),
        ({"source_vocab_size": 50}, "tie_embeddings"),
    ],
)
def test_impossible_configurations_are_refused(changes: dict, named: str) -> None:
    with pytest.raises(ValueError, match=named):
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
