"""The rows of Table 3 at this book's size, how they are compared, and what came of them (section 6.2)."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from annotated.attention import MultiHeadAttention
from annotated.base.files import read_json
from annotated.machine.acceleration import accelerate
from annotated.model import Transformer, TransformerConfig
from annotated.positional_encoding import SinusoidalPositions
from annotated.runs.examples import batch_all, tokenize_pairs
from annotated.text.evaluation import against_base, judged
from annotated.text.grammar.splits import embedded_split
from annotated.text.tokenization import load_tokenizer
from annotated.training import validation_loss
from annotated.variations import CHANGES, RandomStart, RotaryAttention, turned
from tools.experiments import load_plan

ROOT = Path(__file__).resolve().parents[1]
ROWS = yaml.safe_load((ROOT / "data" / "paper.yml").read_text(encoding="utf-8"))["tables"]["table_3"]["rows"]
FIELD_OF = {"N": "num_layers", "h": "num_heads", "d_ff": "d_ff", "positions": "positions"}


@pytest.fixture(scope="module")
def plan() -> dict:
    return load_plan("table-3")


def test_rows_differ_from_base_where_the_papers_rows_do(plan):
    """C-6.2-a: one change each, of the same field and in the same direction as in the row of Table 3 that it names."""
    paper, base = {row["id"]: row for row in ROWS}, TransformerConfig(2000, **plan["model"])
    named = [row for row in plan["rows"] if "paper" in row]
    assert len(named) == 5
    for row in named:
        ((field, value),) = row["model"].items()
        theirs = paper[row["paper"]]
        changed = {name for name in FIELD_OF if theirs[name] is not None and theirs[name] != ROWS[0][name]}
        assert field in {FIELD_OF[name] for name in changed}
        if field == "positions":
            assert value == theirs["positions"] == "learned"
        else:
            (name,) = (name for name in changed if FIELD_OF[name] == field)
            assert (value > getattr(base, field)) == (theirs[name] > ROWS[0][name])


def test_perplexity_is_of_a_subword():
    """C-6.2-b: the validation loss is the mean of minus the log of each subword's probability, the end included."""
    torch.manual_seed(0)
    tokenizer, pairs = load_tokenizer(ROOT / "data" / "models" / "embedded"), embedded_split("valid")[:6]
    model = Transformer(TransformerConfig(2000, d_model=32, d_ff=64, num_heads=4, num_layers=1)).eval()
    examples, losses = tokenize_pairs(tokenizer, pairs, 256), []
    for source, target in examples:
        with torch.no_grad():
            logits = model(torch.tensor([source]), torch.tensor([[tokenizer.bos_id, *target[:-1]]]))[0]
        losses += (-logits.log_softmax(dim=-1)[range(len(target)), target]).tolist()
    assert validation_loss(model, batch_all(examples, 4000)) == pytest.approx(np.mean(losses), rel=1e-4)


@pytest.fixture(scope="module")
def verdicts(plan) -> dict[tuple[str, str], str]:
    """The verdict of each row on loss and exact matches, from the records."""
    runs: dict[str, list[dict]] = {}
    for path in sorted((ROOT / "data" / "runs").glob("table-3*/*-[0-9].json")):  # the pilot's seeds have three digits
        runs.setdefault(read_json(path)["row"], []).append(read_json(path))
    loss = {row: [math.log(run["valid_loss"][str(run["steps"])]) for run in found] for row, found in runs.items()}
    exact = {row: [run["scores"]["test"]["exact"] for run in found] for row, found in runs.items()}
    worse = dict.fromkeys(runs, 1.0) | {"learned": 0.0, "base-again": 0.0}  # the paper's rows, and what was to be
    kinds = {"loss": (loss, plan["margin"], 1), "exact": (exact, plan["margin_exact"], -1)}
    return {
        (row, kind): judged(low, high, margin, sign * worse[row])
        for kind, (values, margin, sign) in kinds.items()
        for row, (_, low, high) in against_base(values).items()
    }


@pytest.mark.parametrize(
    ("claim", "expected"),  # what the ledger and the chapter's text say of it
    [
        ("C-6.2-c", {("heads-1", "loss"): "undecided", ("heads-1", "exact"): "undecided"}),
        ("C-6.2-e", {("layers-1", "loss"): "same direction", ("layers-1", "exact"): "undecided"}),
        ("C-6.2-e", {("inner-128", "loss"): "undecided", ("inner-128", "exact"): "undecided"}),
        ("C-6.2-h", {("learned", "loss"): "undecided", ("learned", "exact"): "undecided"}),
        ("C-3.5-a", {("no-positions", "loss"): "same direction", ("no-positions", "exact"): "same direction"}),
    ],
)
def test_the_records_bear_out_what_is_said_of_them(claim, expected, verdicts):
    assert {key: verdicts[key] for key in expected} == expected, claim


def test_without_dropout_real_text_is_translated_worse():
    """C-6.2-f and C-5.4-f: BLEU falls beyond the margin's side of zero, and the validation loss turns upwards."""
    plan, runs = load_plan("multi30k-rows"), ROOT / "data" / "runs" / "multi30k-rows"
    found = {row: [read_json(path) for path in sorted(runs.glob(f"{row}-[0-9].json"))] for row in ("base", "dropout-0")}
    bleu = {row: [run["scores"]["test"]["bleu"] for run in own] for row, own in found.items()}
    bleu["dropout-0.3"] = [
        read_json(path)["scores"]["test"]["bleu"] for path in sorted(runs.glob("dropout-0.3-[0-9].json"))
    ]
    _, low, high = against_base(bleu)["dropout-0"]
    assert judged(low, high, plan["margin"], -1.0) == "same direction"
    for run in found["dropout-0"]:
        assert min(run["valid_loss"], key=run["valid_loss"].get) == "1480"
    for run in found["base"]:
        assert min(run["valid_loss"], key=run["valid_loss"].get) == "1850"


def rotary_layer(seed: int = 0) -> RotaryAttention:
    torch.manual_seed(seed)
    return RotaryAttention(32, 4).double().eval()


def test_turned_keeps_lengths_and_does_nothing_at_the_first_position():
    x = torch.randn(2, 4, 9, 8, dtype=torch.float64)
    assert torch.allclose(turned(x).norm(dim=-1), x.norm(dim=-1))
    assert torch.allclose(turned(x)[:, :, 0], x[:, :, 0])
    assert (turned(x) - x)[:, :, 1:].abs().max() > 0.1


def test_rotary_scores_depend_on_the_distance_alone():
    """The same tokens further right have the same scores among themselves; in another order they have not."""
    layer, x = rotary_layer(), torch.randn(1, 6, 32, dtype=torch.float64)
    later = torch.cat([torch.randn(1, 5, 32, dtype=torch.float64), x], dim=1)

    def scores(words):
        query, key, _ = layer.project(words, words)
        return query @ key.mT

    assert torch.allclose(scores(later)[:, :, 5:, 5:], scores(x), atol=1e-6)
    swapped = x[:, [1, 0, 2, 3, 4, 5]]
    assert not torch.allclose(scores(swapped)[:, :, 0, 1], scores(x)[:, :, 1, 0])


def test_rotary_changes_self_attention_alone_and_is_not_accelerated_away():
    model = Transformer(TransformerConfig(30, d_model=32, d_ff=64, num_heads=4, num_layers=2, dropout=0.0)).eval()
    CHANGES["rotary"](model)
    words, target = torch.tensor([[5, 9, 7, 3]]), torch.tensor([[2, 8, 6]])
    plain = model(words, target)
    kinds = [type(module) for module in accelerate(model).modules() if isinstance(module, MultiHeadAttention)]
    assert kinds.count(RotaryAttention) == 4
    assert len(kinds) == 6
    assert torch.allclose(model(words, target), plain, atol=1e-5)
    assert not torch.allclose(model.encode(words.flip(1)).flip(1), model.encode(words), atol=1e-3), "order counts"


def test_without_positions_the_order_of_the_source_is_lost():
    model = Transformer(TransformerConfig(30, d_model=32, d_ff=64, num_heads=4, num_layers=1, dropout=0.0)).eval()
    words = torch.tensor([[5, 9, 7, 3]])
    assert not torch.allclose(model.encode(words.flip(1)).flip(1), model.encode(words), atol=1e-3)
    CHANGES["no positions"](model)
    assert torch.allclose(model.encode(words.flip(1)).flip(1), model.encode(words), atol=1e-5)


def test_a_random_start_is_for_training_only():
    model = Transformer(TransformerConfig(30, d_model=32, d_ff=64, num_heads=4, num_layers=1, dropout=0.0))
    zeros = torch.zeros(1, 4, 32)
    usual = model.source_positions(zeros)
    CHANGES["random start"](model)
    torch.manual_seed(0)
    starts = {model.source_positions(zeros)[0, 0].sum().item() for _ in range(200)}
    assert 20 < len(starts) <= RandomStart.most
    model.eval()
    assert torch.equal(model.source_positions(zeros), usual)
    assert torch.equal(model.target_positions(zeros, 2), SinusoidalPositions(32)(zeros, 2))


def test_intervals_of_two_rows_are_students():
    """With one row beside base and as many runs of each, the pooled interval is that of the ordinary t test."""
    from scipy.stats import ttest_ind  # here, since it takes a second

    scores = {"base": [31.0, 33.0, 35.0], "row": [34.0, 36.0, 38.0]}
    ((middle, low, high),) = against_base(scores).values()
    expected = ttest_ind(scores["row"], scores["base"]).confidence_interval(0.95)
    assert middle == 3.0
    assert (low, high) == pytest.approx((expected.low, expected.high))


def test_the_more_rows_are_compared_the_wider_each_interval():
    """Seven rows like base, drawn again and again: in at least 95 of 100 trials no interval leaves out zero."""
    generator, wrong, alone = np.random.default_rng(0), 0, 0
    for _ in range(300):
        scores = {f"row {n}": generator.normal(size=3).tolist() for n in range(7)} | {
            "base": generator.normal(size=3).tolist()
        }
        found = against_base(scores)
        wrong += any(low > 0 or high < 0 for _, low, high in found.values())
        one = against_base({"base": scores["base"], "row": scores["row 0"]})["row"]
        alone += one[1] > 0 or one[2] < 0
    assert wrong / 300 < 0.07
    assert alone / 300 < 0.08


@pytest.mark.parametrize(
    ("low", "high", "paper", "verdict"),
    [
        (-0.4, 0.3, 1.0, "equivalent"),
        (0.1, 0.4, -1.0, "equivalent"),
        (-0.6, 0.3, 1.0, "undecided"),
        (0.1, 0.9, 1.0, "same direction"),
        (-0.9, -0.1, 1.0, "opposite"),
        (0.1, 0.9, 0.0, "opposite"),
    ],
)
def test_what_an_interval_says(low, high, paper, verdict):
    assert judged(low, high, margin=0.5, in_the_paper=paper) == verdict


def test_a_scatter_needs_two_runs():
    with pytest.raises(ValueError, match="two runs"):
        against_base({"base": [1.0], "row": [2.0]})


def test_no_positions_carry_over_whole():
    """C-3.5-i: tokens of longer sentences than in training, sinusoids beside what was there before and after them."""
    shares = {}
    for path in sorted((ROOT / "data" / "runs" / "length").glob("*-[0-9].json")):
        record = read_json(path)
        shares.setdefault(record["row"], []).append(record["scores"])
    inside, beyond = (
        {row: [run[bucket]["tokens"] for run in runs] for row, runs in shares.items()}
        for bucket in ("10 to 14 words", "19 to 22 words")
    )
    assert min(map(min, inside.values())) > 0.98
    assert max(beyond["base"]) < 0.93
    margin = load_plan("length")["margin"]
    found = {row: judged(low, high, margin, 1.0) for row, (_, low, high) in against_base(beyond).items()}
    assert found == {"random-start": "same direction", "learned": "equivalent", "rotary": "same direction"}
