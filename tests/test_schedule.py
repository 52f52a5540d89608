"""Chapter 53: Adam and the learning rate of section 5.3."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import yaml
from torch import nn

from annotated.schedule import build_optimizer, learning_rate, set_learning_rate

PAPER = yaml.safe_load((Path(__file__).parents[1] / "data/paper.yml").read_text(encoding="utf-8"))
BASE, BIG = (
    next(row for row in PAPER["tables"]["table_3"]["rows"] if row["id"] == name)["d_model"] for name in ("base", "big")
)


@pytest.mark.parametrize(
    ("d_model", "step", "expected"),
    [
        (512, 1, 1.7469e-7),
        (512, 4000, 6.9877e-4),
        (512, 100_000, 1.3975e-4),
        (512, 300_000, 8.0687e-5),
        (1024, 1, 1.2353e-7),
        (1024, 4000, 4.9411e-4),
        (1024, 100_000, 9.8821e-5),
        (1024, 300_000, 5.7054e-5),
    ],
)
def test_rates_worked_out_elsewhere(d_model: int, step: int, expected: float) -> None:
    """C-5.3-b: equation (3), with four thousand steps of warm-up unless told otherwise (C-5.3-c)."""
    assert learning_rate(step, d_model) == pytest.approx(expected, rel=5e-5)


def test_linear_rise_then_inverse_square_root() -> None:
    """C-5.3-b: the shape of the two branches, each by itself."""
    rise = [learning_rate(step, 64, 100) / step for step in range(1, 101)]
    fall = [learning_rate(step, 64, 100) * math.sqrt(step) for step in range(100, 1000)]
    assert max(rise) == pytest.approx(min(rise), rel=1e-12)
    assert max(fall) == pytest.approx(min(fall), rel=1e-12)


@pytest.mark.parametrize("d_model", [BASE, BIG])
def test_peak_at_the_end_of_the_warm_up(d_model: int) -> None:
    """C-5.3-c: the largest rate is that of the paper's warm-up step, (d_model * warmup)^-0.5 and not d_model^-0.5."""
    warmup = PAPER["training"]["schedule"]["warmup_steps"]
    rates = {step: learning_rate(step, d_model) for step in range(1, 2 * warmup)}
    peak = max(rates, key=rates.get)
    assert peak == warmup == 4000
    assert rates[peak] == pytest.approx((d_model * warmup) ** -0.5, rel=1e-12)


def test_wider_models_train_with_smaller_rates() -> None:
    """C-5.3-d: proportional to d_model^-0.5 at every step."""
    for step in (1, 3999, 4000, 4001, 100_000):
        assert learning_rate(step, 2048) == pytest.approx(learning_rate(step, 512) / 2, rel=1e-12)


def test_factor_multiplies_and_is_one_in_the_paper() -> None:
    assert learning_rate(7, 512, factor=2.0) == 2 * learning_rate(7, 512)
    assert learning_rate(7, 512) == learning_rate(7, 512, 4000, 1.0)


@pytest.mark.parametrize(("step", "warmup"), [(0, 4000), (-1, 4000), (1, 0)])
def test_steps_count_from_one(step: int, warmup: int) -> None:
    with pytest.raises(ValueError, match="count from 1"):
        learning_rate(step, 512, warmup)


def test_updates_follow_adams_formula() -> None:
    """C-5.3-a: with the schedule's rate set before each step, as the formula says, bias correction included."""
    torch.manual_seed(0)
    start, gradients = torch.randn(7, dtype=torch.float64), torch.randn(12, 7, dtype=torch.float64)
    parameter = nn.Parameter(start.clone())
    optimizer = build_optimizer([parameter])
    assert optimizer.param_groups[0]["lr"] == 0  # before the schedule's is set
    expected, m, v = start.clone(), torch.zeros(7, dtype=torch.float64), torch.zeros(7, dtype=torch.float64)
    for t, gradient in enumerate(gradients, start=1):
        rate = learning_rate(t, 16, warmup_steps=5)
        set_learning_rate(optimizer, rate)
        parameter.grad = gradient.clone()
        optimizer.step()
        m = 0.9 * m + 0.1 * gradient
        v = 0.98 * v + 0.02 * gradient * gradient
        expected = expected - rate * (m / (1 - 0.9**t)) / (torch.sqrt(v / (1 - 0.98**t)) + 1e-9)
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-10, atol=1e-12)


def test_set_learning_rate_reaches_every_group() -> None:
    groups = [{"params": [nn.Parameter(torch.zeros(1))]}, {"params": [nn.Parameter(torch.zeros(1))]}]
    optimizer = torch.optim.Adam(groups, lr=1.0)
    set_learning_rate(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]
