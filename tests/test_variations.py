"""The rows of Table 3 at this book's size, how they are compared, and the record of their training (section 6.2)."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from scipy.stats import ttest_ind

from annotated.acceleration import accelerate
from annotated.attention import MultiHeadAttention
from annotated.evaluation import against_base, judged
from annotated.files import read_json
from annotated.grammar import corpus_fingerprint, embedded_split
from annotated.model import Transformer, TransformerConfig
from annotated.positional_encoding import SinusoidalPositions
from annotated.tokenization import load_tokenizer
from annotated.training import tokenize_pairs
from annotated.translation import Translator
from annotated.variations import (
    CHANGES,
    TRAINING,
    RandomStart,
    RotaryAttention,
    Variation,
    further_rows,
    run_variation,
    scale_row,
    train_variation,
    turned,
    verdict,
)
from tests.device import strict_device
from tools.experiments import load_plan
from tools.variations import BASE_SEEDS, SEEDS, TOKENIZER, all_rows, run_all

ROOT = Path(__file__).resolve().parents[1]
ROWS = yaml.safe_load((ROOT / "data" / "paper.yml").read_text(encoding="utf-8"))["tables"]["table_3"]["rows"]
FIELD_OF = {"N": "num_layers", "h": "num_heads", "d_model": "d_model", "d_ff": "d_ff", "d_k": "d_k", "d_v": "d_v"}


@pytest.fixture(scope="module")
def scaled() -> dict[str, Variation]:
    return {row["id"]: scale_row(row, ROWS[0], 2000) for row in ROWS}


def test_base_is_the_papers_divided(scaled):
    model = scaled["base"].model
    assert (model.num_layers, model.d_model, model.d_ff, model.num_heads, model.d_k, model.d_v) == (3, 64, 256, 8, 8, 8)
    assert (model.dropout, model.positions, model.norm_first) == (0.1, "sinusoidal", False)
    assert scaled["base"].training == replace(TRAINING, label_smoothing=0.1)


@pytest.mark.parametrize("row", ROWS[1:], ids=lambda row: row["id"])
def test_a_row_changes_what_the_papers_row_changes_by_the_same_factor(row, scaled):
    """C-6.2-a: ratios to base are the paper's; what its row leaves empty is base's."""
    ours, base = asdict(scaled[row["id"]].model), asdict(scaled["base"].model)
    for theirs, name in FIELD_OF.items():
        paper = ROWS[0][theirs] if row[theirs] is None else row[theirs]
        assert ours[name] / base[name] == paper / ROWS[0][theirs], name
    changed = {name for name in ours if ours[name] != base[name]}
    known = {**FIELD_OF, "dropout": "dropout", "positions": "positions"}
    assert changed == {known[name] for name in known if row[name] not in (None, ROWS[0][name])}
    smoothing = ROWS[0]["label_smoothing"] if row["label_smoothing"] is None else row["label_smoothing"]
    assert scaled[row["id"]].training.label_smoothing == smoothing


def test_heads_change_no_parameters(scaled):
    """C-6.2-c: the rows of group A have equal cost."""
    counts = {Transformer(scaled[name].model).num_parameters() for name in ("base", "A-1", "A-2", "A-3", "A-4")}
    assert len(counts) == 1


def test_our_rows_change_norm_and_warm_up_only(scaled):
    """C-5.3-c, C-3.1-b: each differs from base by its name."""
    base = scaled["base"]
    found = {
        row.id: (row.model.norm_first, row.model.num_layers, row.training.warmup_steps) for row in further_rows(base)
    }
    expected = {"pre-norm": (True, 3, 200), "pre-norm-deeper": (True, 4, 200), "no-warm-up": (False, 3, 1)}
    assert found == expected | {"pre-norm-no-warm-up": (True, 3, 1), "long-warm-up": (False, 3, 400)}
    for row in further_rows(base):
        assert replace(row.model, norm_first=False, num_layers=3) == base.model
        assert replace(row.training, warmup_steps=base.training.warmup_steps) == base.training


HOLDS, UNDECIDED, CONTRADICTED = "holds", "undecided", "contradicted here"


@pytest.mark.parametrize(
    ("low", "high", "paper", "expected"),  # differences in the paper of up to 0.05 are none
    [
        (0.1, 0.3, 0.2, HOLDS),
        (-0.3, -0.1, -2.0, HOLDS),
        (-0.3, -0.1, 0.2, CONTRADICTED),
        (0.1, 0.3, -0.2, CONTRADICTED),
        (-22.6, 1.1, 0.2, UNDECIDED),  # a wide interval is no equality
        (0.0, 0.3, 0.2, UNDECIDED),
        (-0.01, 0.01, 0.2, UNDECIDED),
        (0.1, 0.3, 0.0, CONTRADICTED),
        (-0.3, -0.1, -0.05, CONTRADICTED),
        (-0.1, 0.3, 0.0, UNDECIDED),
        (0.02, 0.3, 0.0, UNDECIDED),  # it may be as small as what counts as none
        (-0.04, 0.05, -0.05, HOLDS),
        (0.01, 0.04, 0.0, HOLDS),
    ],
)
def test_verdicts(low, high, paper, expected):
    assert verdict(low, high, paper, 0.05) == expected


@pytest.fixture(scope="module")
def tiny(scaled) -> Variation:
    return replace(scaled["C-1"], training=replace(TRAINING, max_steps=3, max_tokens=200))


def test_a_run_is_repeatable_and_seeds_differ(tiny):
    tokenizer, pairs = load_tokenizer(TOKENIZER), embedded_split("valid")[:40]
    first, again, other = (train_variation(tiny, seed, tokenizer, pairs, pairs[:5], "cpu") for seed in (1, 1, 2))
    assert first.history[-1]["valid_loss"] == again.history[-1]["valid_loss"] != other.history[-1]["valid_loss"]


def test_what_a_run_reports(tiny, monkeypatch):
    """C-6.2-a: the last weights are scored, with the paper's beam."""
    pairs, widths, translate = embedded_split("valid")[:20], [], Translator.translate

    def noted(self, sentences, beam_size):
        widths.append(beam_size)
        return translate(self, sentences, beam_size=beam_size)

    monkeypatch.setattr(Translator, "translate", noted)
    result = run_variation(tiny, 1, load_tokenizer(TOKENIZER), pairs, pairs[:4], "cpu")
    assert result["steps"] == 3
    assert widths == [4]
    assert math.log(result["perplexity"]) == pytest.approx(result["curves"]["valid_loss"][-1][1])
    assert result["parameters"] == Transformer(tiny.model).num_parameters()
    assert 0 <= result["bleu"] <= 100


def test_a_row_is_trained_where_it_is_told_to_be(tiny):
    short, pairs = replace(tiny, training=replace(tiny.training, max_steps=1)), embedded_split("valid")[:5]
    with strict_device() as device:
        state = train_variation(short, 1, load_tokenizer(TOKENIZER), pairs, pairs, "tester")
        assert {weight.device for weight in state.model.parameters()} == {device}


def test_perplexity_is_of_a_subword(tiny):
    """C-6.2-b: e to the mean of minus the log of each subword's probability, the end of the sentence included."""
    tokenizer, pairs = load_tokenizer(TOKENIZER), embedded_split("valid")[:20]
    result = run_variation(tiny, 1, tokenizer, pairs, pairs[:4], "cpu")
    model = train_variation(tiny, 1, tokenizer, pairs, pairs[:4], "cpu").model.eval()
    losses = []
    for source, target in tokenize_pairs(tokenizer, pairs[:4], tiny.model.max_length):
        with torch.no_grad():
            logits = model(torch.tensor([source]), torch.tensor([[tokenizer.bos_id, *target[:-1]]]))[0]
        losses += (-logits.log_softmax(dim=-1)[range(len(target)), target]).tolist()
    assert result["perplexity"] == pytest.approx(math.exp(np.mean(losses)), rel=1e-4)


def test_the_command_goes_on_where_it_was_stopped(tiny, tmp_path, capsys):
    for seed in range(1, SEEDS + 1):
        (tmp_path / f"C-1-{seed}.json").write_text(f'{{"id": "C-1", "seed": {seed}}}')
    run_all(tmp_path, tmp_path / "results.json", [tiny], processes=1)
    assert "0 of 3 runs to do" in capsys.readouterr().out
    record = read_json(tmp_path / "results.json")
    assert [run["seed"] for run in record["runs"]] == [1, 2, 3]
    assert record["command"] == "python -m tools.variations"
    assert record["corpus_version"] == corpus_fingerprint()
    assert record["threads"] == 1


def test_the_record_holds_every_row_and_seed():
    """C-6.2-c to C-6.2-i: at least three seeds a row, and at most three minutes a run."""
    record = read_json(ROOT / "data" / "runs" / "variations" / "results.json")
    found = {(run["id"], run["seed"]) for run in record["runs"]}
    wanted = {(row.id, seed) for row in all_rows() for seed in range(1, SEEDS + 1)}
    assert found == wanted | {("base", seed) for seed in range(1, BASE_SEEDS + 1)}
    assert len(record["runs"]) == len(found)
    sizes = {row.id: Transformer(row.model).num_parameters() for row in all_rows()}
    for run in record["runs"]:
        assert run["seconds"] <= 180, (run["id"], run["seed"])
        assert run["steps"] == TRAINING.max_steps
        assert run["parameters"] == sizes[run["id"]]
        assert run["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp")
        assert run["exact_match"] < 0.9


@pytest.fixture(scope="module")
def verdicts() -> dict[tuple[str, str], str]:
    """The verdict of each row of the paper on loss and BLEU, from the record."""
    runs: dict[str, list[dict]] = {}
    for run in read_json(ROOT / "data" / "runs" / "variations" / "results.json")["runs"]:
        runs.setdefault(run["id"], []).append(run)
    kinds = {"loss": (lambda run: math.log(run["perplexity"]), 0.01), "bleu": (lambda run: run["bleu"], 0.1)}
    found = {}
    for row in ROWS[1:]:
        paper = {"loss": math.log(row["ppl_dev"] / ROWS[0]["ppl_dev"]), "bleu": row["bleu_dev"] - ROWS[0]["bleu_dev"]}
        for kind, (measure, least) in kinds.items():
            ours, base = ([measure(run) for run in runs[name]] for name in (row["id"], "base"))
            interval = ttest_ind(ours, base, equal_var=False).confidence_interval(0.95)
            found[row["id"], kind] = verdict(*interval, round(paper[kind], 3), least)
    return found


@pytest.mark.parametrize(
    ("claim", "expected"),  # what the ledger and the chapter's text say of it
    [
        ("C-6.2-c", {("A-1", "loss"): CONTRADICTED, ("A-1", "bleu"): CONTRADICTED, ("A-2", "bleu"): CONTRADICTED}),
        ("C-6.2-c", {("A-3", "bleu"): UNDECIDED, ("A-4", "bleu"): HOLDS}),
        ("C-6.2-d", {(row, kind): HOLDS for row in ("B-1", "B-2") for kind in ("loss", "bleu")}),
        ("C-6.2-e", {("C-1", "bleu"): CONTRADICTED, ("C-2", "bleu"): CONTRADICTED, ("C-3", "loss"): CONTRADICTED}),
        ("C-6.2-e", {(row, kind): HOLDS for row in ("C-4", "C-5") for kind in ("loss", "bleu")}),
        ("C-6.2-e", {(row, kind): UNDECIDED for row in ("C-6", "C-7") for kind in ("loss", "bleu")}),
        ("C-6.2-f", {("D-1", "loss"): HOLDS, ("D-1", "bleu"): UNDECIDED, ("D-2", "loss"): CONTRADICTED}),
        ("C-6.2-g", {("D-3", "loss"): UNDECIDED, ("D-3", "bleu"): UNDECIDED}),
        ("C-6.2-g", {("D-4", "loss"): HOLDS, ("D-4", "bleu"): UNDECIDED}),
        ("C-6.2-h", {("E-1", "loss"): CONTRADICTED, ("E-1", "bleu"): CONTRADICTED}),
        ("C-6.2-i", {("big", "loss"): CONTRADICTED, ("big", "bleu"): CONTRADICTED}),
    ],
)
def test_the_record_bears_out_what_is_said_of_it(claim, expected, verdicts):
    assert {key: verdicts[key] for key in expected} == expected, claim


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


def test_a_broken_row_is_found():
    generator = np.random.default_rng(1)
    scores = {
        name: (generator.normal(size=3) + (8 if name == "broken" else 0)).tolist() for name in ("base", "a", "broken")
    }
    found = against_base(scores)
    assert judged(*found["broken"][1:], margin=0.5, in_the_paper=1.0) == "same direction"
    assert judged(*found["a"][1:], margin=0.5, in_the_paper=1.0) == "undecided"


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
