"""Chapter 54: the dropouts of section 5.4 and where they sit; label smoothing as a loss."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import yaml
from torch import nn

from annotated.batching import make_batch
from annotated.machine.acceleration import accelerate
from annotated.model import Transformer, TransformerConfig
from annotated.regularization import label_smoothed_loss, smoothed_targets
from annotated.stacks import AddNorm
from annotated.training import training_loss

PAPER = yaml.safe_load((Path(__file__).parents[1] / "data/paper.yml").read_text(encoding="utf-8"))
TABLE_3 = {row["id"]: row for row in PAPER["tables"]["table_3"]["rows"]}
SMALL = {"vocab_size": 20, "d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 2}


def dropouts_called(config: TransformerConfig) -> list[str]:
    """Names of the dropouts that act in one training pass."""
    model, called = Transformer(config).train(), []
    for name, module in model.named_modules():
        if isinstance(module, nn.Dropout) and module.p > 0:
            module.register_forward_hook(lambda *_, name=name: called.append(name))
    tokens = torch.randint(4, 20, (2, 5))
    model(tokens, tokens)
    return called


def test_dropout_in_the_papers_places_and_nowhere_else() -> None:
    """C-5.4-b, C-5.4-c: by default neither attention weights nor the hidden layer are dropped; only the two places."""
    expected = ["dropout"]
    for layer in range(2):
        frames = ("around_self_attention", "around_feed_forward")
        expected += [f"encoder.layers.{layer}.{frame}.dropout" for frame in frames]
    expected.append("dropout")
    for layer in range(2):
        frames = ("around_self_attention", "around_cross_attention", "around_feed_forward")
        expected += [f"decoder.layers.{layer}.{frame}.dropout" for frame in frames]
    assert dropouts_called(TransformerConfig(**SMALL)) == expected
    assert dropouts_called(TransformerConfig(**SMALL, dropout=0.0)) == []


@pytest.mark.parametrize(
    ("option", "places"), [("attention_dropout", "_attention.dropout"), ("activation_dropout", ".feed_forward.dropout")]
)
def test_further_dropouts_are_switches(option: str, places: str) -> None:
    """C-5.4-b, C-5.4-c: each switch turns on its own places, in every layer, and no other."""
    called = dropouts_called(TransformerConfig(**SMALL, dropout=0.0, **{option: 0.2}))
    assert len(called) == {"attention_dropout": 2 + 4, "activation_dropout": 2 + 2}[option]
    assert all(name.endswith(places) and "around" not in name for name in called)


def test_dropout_acts_on_the_sublayers_output_before_sum_and_norm() -> None:
    """C-5.4-b: the dropped tensor is the sub-layer's output, and what is normalised is x plus that."""
    torch.manual_seed(0)
    x, output, frame = torch.randn(2, 3, 8), torch.randn(2, 3, 8), AddNorm(8, dropout=0.5).train()
    dropped, normalised = [], []
    frame.dropout.register_forward_hook(lambda _, inputs, result: dropped.append((inputs[0], result)))
    frame.norm.register_forward_hook(lambda _, inputs, result: normalised.append((inputs[0], result)))
    result = frame(x, lambda _: output)
    torch.testing.assert_close(dropped[0][0], output)
    kept = dropped[0][1] != 0
    assert 0 < kept.sum() < kept.numel()
    torch.testing.assert_close(dropped[0][1], torch.where(kept, 2 * output, 0.0))
    torch.testing.assert_close(normalised[0][0], x + dropped[0][1])
    torch.testing.assert_close(result, normalised[0][1])


def test_dropout_acts_on_embedding_plus_positions_of_both_stacks() -> None:
    """C-5.4-c: on the sum, not on one of its parts, and the source's as well as the target's."""
    torch.manual_seed(0)
    model, inputs = Transformer(TransformerConfig(**SMALL)).train(), []
    model.dropout.register_forward_hook(lambda _, given, result: inputs.append(given[0]))
    source, target = torch.randint(4, 20, (1, 6)), torch.randint(4, 20, (1, 4))
    model(source, target)
    for tokens, given in zip((source, target), inputs, strict=True):
        table = model.source_positions.table[: tokens.shape[1]]
        torch.testing.assert_close(given, 4.0 * model.target_embedding.weight[tokens] + table)


def test_drop_probabilities_are_the_papers() -> None:
    """C-5.4-d: 0.1 for base, 0.3 for big, in every dropout of the two places."""
    with torch.device("meta"):
        for name, make in (("base", TransformerConfig.base), ("big", TransformerConfig.big)):
            model = Transformer(make(100))
            framed = [module.dropout.p for module in model.modules() if isinstance(module, AddNorm)]
            assert len(framed) == 6 * 2 + 6 * 3
            assert {*framed, model.dropout.p} == {TABLE_3[name]["dropout"]}


@pytest.mark.parametrize("faster", [False, True], ids=["plain", "accelerated"])
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_statistics(p: float, faster: bool) -> None:
    """C-5.4-d: the share of zeros is P_drop, the rest is scaled by 1 / (1 - P_drop), neighbours are independent."""
    torch.manual_seed(0)
    dropout = accelerate(AddNorm(8, p), faster).dropout.train()
    result = dropout(torch.ones(1000, 999))
    zero = (result == 0).double()
    assert zero.mean().item() == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / zero.numel()))
    torch.testing.assert_close(result.max().item(), 1 / (1 - p), rtol=1e-4, atol=0)
    assert result.unique().numel() == 2
    for axis in (0, 1):
        together = (zero.narrow(axis, 1, 900) * zero.narrow(axis, 0, 900)).mean().item()
        assert together == pytest.approx(p * p, abs=0.002)


def test_smoothed_targets() -> None:
    """C-5.4-e: the true token has 1 - eps + eps / K, every other one eps / K; each row sums to one."""
    targets = torch.tensor([[3, 0, 7], [9, 3, 3]])
    shares = smoothed_targets(targets, 10, 0.2)
    assert shares.shape == (2, 3, 10)
    torch.testing.assert_close(shares.sum(-1), torch.ones(2, 3))
    expected = torch.full((2, 3, 10), 0.02)
    for row in range(2):
        for column in range(3):
            expected[row, column, targets[row, column]] = 0.82
    torch.testing.assert_close(shares, expected)
    torch.testing.assert_close(smoothed_targets(targets, 10, 0.0), F.one_hot(targets, 10).float())


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_loss_is_cross_entropy_with_smoothed_targets(smoothing: float) -> None:
    """C-5.4-e: against a NumPy loop that writes the targets out; summed, and pads count for nothing."""
    torch.manual_seed(1)
    logits, targets, pad_id = torch.randn(2, 5, 11), torch.randint(0, 7, (2, 5)), 7
    targets[0, 4] = targets[1, 3] = targets[1, 4] = pad_id
    total = 0.0
    for row, target in zip(logits.flatten(0, 1).double().numpy(), targets.flatten().tolist(), strict=True):
        if target == pad_id:
            continue
        log_probabilities = row - np.log(np.exp(row).sum())
        for token in range(11):
            share = smoothing / 11 + (1 - smoothing if token == target else 0.0)
            total -= share * log_probabilities[token]
    assert label_smoothed_loss(logits, targets, smoothing, pad_id).item() == pytest.approx(total, rel=1e-5)


def test_padding_gets_no_gradient_and_real_tokens_get_p_minus_q() -> None:
    """C-5.4-e: the gradient of the loss in the logits."""
    torch.manual_seed(3)
    logits, targets = torch.randn(1, 4, 8, requires_grad=True), torch.tensor([[3, 5, 0, 0]])
    label_smoothed_loss(logits, targets).backward()
    assert torch.equal(logits.grad[0, 2:], torch.zeros(2, 8))
    expected = logits.detach().softmax(-1) - smoothed_targets(targets, 8)
    torch.testing.assert_close(logits.grad[0, :2], expected[0, :2])


def test_losses_of_low_precision_are_summed_in_float32() -> None:
    """Under autocast the logits are bfloat16; a sum of so many terms in bfloat16 would be off by percents."""
    torch.manual_seed(4)
    model = Transformer(TransformerConfig(**SMALL | {"dropout": 0.0}))
    batch = make_batch([([5, 6, 3], [*torch.randint(4, 20, (50,)).tolist(), 3]) for _ in range(40)])
    low, full = (training_loss(model, batch, 0.1, precision) for precision in (torch.bfloat16, torch.float32))
    assert low.dtype == torch.float32
    torch.testing.assert_close(low, full, rtol=2e-3, atol=0)


def test_smoothing_raises_perplexity() -> None:
    """C-5.4-f: the prediction that is best for the smoothed loss, where its gradient is zero, is less sure."""
    truth = torch.tensor([0, 10, 5, 3, 2] + [0] * 45)  # token 0 is padding
    targets, perplexities = torch.arange(50).repeat_interleave(truth)[None], []
    for smoothing in (0.0, 0.1, 0.2):
        best = (1 - smoothing) * truth / 20 + smoothing / 50
        logits = best.clamp(min=1e-9).log().requires_grad_()
        label_smoothed_loss(logits.expand(1, 20, 50), targets, smoothing).backward()
        assert logits.grad.abs().max() < 1e-4
        perplexities.append(math.exp(label_smoothed_loss(logits.detach().expand(1, 20, 50), targets, 0.0) / 20))
    assert perplexities[0] * 1.05 < perplexities[1] < perplexities[2] / 1.05
