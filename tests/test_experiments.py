"""Experiments of several runs: plans, units that stop and go on, and records that are younger than their plan."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from annotated.base.corpus import Corpus, SentencePair
from annotated.base.files import read_json
from annotated.machine.devices import describe_machine
from annotated.runs.checkpoint import weights_of
from tools import experiments
from tools.experiments import ROOT, load_plan, main, missing, plan_hash, train_unit, units

PLANS = sorted(path.parent.name for path in (ROOT / "data" / "runs").glob("*/plan.yml"))
WORDS = [f"{a}{b}" for a in "bdfgklmnprst" for b in "aeiou"]
PAIRS = "\n".join(f"the {word} dog sees a cat\tder {word} Hund sieht eine Katze" for word in WORDS)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of experiments with one plan: two rows, two seeds, six steps."""
    (tmp_path / "pairs.tsv").write_text(PAIRS + "\n", encoding="utf-8")
    plan = {
        "corpus": str(tmp_path / "pairs.tsv"), "vocab_size": 300, "seeds": [1, 2], "splits": ["test"],
        "model": {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1, "dropout": 0.1, "max_length": 32},
        "training": {"max_steps": 6, "max_tokens": 40, "precision": "float32", "checkpoint_minutes": 0.0},
        "rows": [{"id": "base", "training": {"piece_dropout": 0.2}}, {"id": "blind", "change": "no positions"}],
    }  # fmt: skip
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "plan.yml").write_text(yaml.safe_dump(plan), encoding="utf-8")
    monkeypatch.setattr(experiments, "RUNS", tmp_path)
    monkeypatch.setattr(experiments, "WORK", tmp_path / "work")
    return tmp_path / "small"


def test_all_rows_come_with_their_first_seed_before_the_next():
    plan = {"seeds": [1, 2], "rows": [{"id": "a"}, {"id": "b", "seeds": [7]}, {"id": "c", "seeds": [5, 6, 9]}]}
    assert units(plan) == [("a", 1), ("b", 7), ("c", 5), ("a", 2), ("c", 6), ("c", 9)]


@pytest.mark.slow
def test_a_unit_that_was_stopped_ends_like_one_that_was_not(small: Path):
    plan, whole = load_plan("small"), train_unit(load_plan("small"), "base", 1)[0]
    asked = iter([False] * 3 + [True] * 9)
    half = train_unit(plan, "base", 1, small / "work", lambda: next(asked))[0]
    assert half.step == 3
    state = train_unit(plan, "base", 1, small / "work")[0]
    assert state.step == 6
    for one, other in zip(whole.model.parameters(), state.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
def test_what_is_recorded_is_not_done_again_until_the_plan_changes(small: Path):
    assert experiments.run_unit("small", "blind", 2, float("inf")).startswith("small, blind 2: 6 steps")
    record = read_json(small / "blind-2.json")
    assert {"row": "blind", "seed": 2, "steps": 6, "plan": plan_hash("small")}.items() <= record.items()
    assert record["revision"] == describe_machine(torch.device("cpu"))["revision"]
    assert record["scores"]["test"].keys() == {"sentences", "exact", "bleu", "chrf", "signature"}
    assert set(record["valid_loss"]) == {"6"}
    assert missing("small") == [("base", 1), ("blind", 1), ("base", 2)]
    path = small / "plan.yml"
    path.write_text(path.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    assert len(missing("small")) == 4


@pytest.mark.slow
def test_what_is_judged_is_what_was_kept(small: Path):
    """`keep` writes weights in half precision, and the scores are of these, not of the trained ones."""
    plan = load_plan("small") | {"keep": ["base-1"]}
    state, tokenizer, corpus = train_unit(plan, "base", 1)
    before = weights_of(state.model)["target_embedding.weight"].clone()
    experiments.judge(plan, "base", small / "base-1.json", state, tokenizer, corpus)
    kept = load_file(small / "base-1.safetensors")
    assert kept.keys() == weights_of(state.model).keys()
    for name, weight in weights_of(state.model).items():
        assert kept[name].dtype == torch.float16
        assert torch.equal(kept[name].float(), weight)
    assert not torch.equal(before, weights_of(state.model)["target_embedding.weight"])


@pytest.mark.slow
def test_a_curve_of_pronouns_is_recorded_at_every_validation(small: Path, monkeypatch: pytest.MonkeyPatch):
    """A model that writes `er` for one of two sentences has half of them right, and trains on as if unobserved."""
    pairs = [SentencePair("it sleeps", word, antecedents=((0, 0),)) for word in ("er schlaeft", "sie schlaeft")]
    path = small / "plan.yml"
    more = "curve: pronouns\n"
    path.write_text(
        path.read_text(encoding="utf-8").replace("max_steps: 6", "max_steps: 6\n  validate_every: 2") + more
    )
    unobserved = train_unit(load_plan("small") | {"curve": None}, "base", 1)[0]
    real = experiments.pronouns_right
    corpus = Corpus("made up", "en", "de", {"valid": lambda: [*pairs, SentencePair("a dog", "ein Hund")]})
    monkeypatch.setattr(experiments, "pronouns_right", lambda tokenizer, _: real(tokenizer, corpus))
    monkeypatch.setattr(
        experiments.Translator, "translate", lambda self, texts, beam_size: ["er schlaeft"] * len(texts)
    )
    observed = train_unit(load_plan("small"), "base", 1)[0]
    assert [line["pronouns"] for line in observed.history if "valid_loss" in line] == [0.5] * 3
    for one, other in zip(observed.model.parameters(), unobserved.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_no_unit_begins_when_time_is_up(small: Path, capsys: pytest.CaptureFixture):
    path = small / "plan.yml"
    path.write_text(path.read_text(encoding="utf-8").replace("- 1\n- 2\n", "- 1\n"), encoding="utf-8")
    assert main(["small", "--minutes", "0", "--processes", "1"]) == 0
    assert capsys.readouterr().out.count("not begun") == 2
    assert sorted(path.name for path in small.iterdir()) == ["plan.yml"]


@pytest.mark.slow
def test_twenty_steps_of_a_record_are_repeated():
    """A recorded run can be made again: in float32 its loss at step 20 comes back within 0.001."""
    recorded, steps = read_json(ROOT / "data" / "runs" / "table-3" / "base-1.json"), iter(range(21))
    state = train_unit(load_plan("table-3"), "base", 1, stop=lambda: next(steps) == 20)[0]
    assert state.step == 20
    (loss,) = (line["loss"] for line in state.history if line.get("step") == 20 and "loss" in line)
    assert loss == pytest.approx(recorded["loss"]["20"], abs=1e-3)


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_older_than_its_records(name: str):
    """Rows, margin and test stand in a commit that came before the revision of every run."""

    def git(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)

    remade = yaml.safe_load((ROOT / "data" / "runs" / "remade.yml").read_text(encoding="utf-8"))
    records = [read_json(path) for path in sorted((ROOT / "data" / "runs" / name).glob("*-[0-9]*.json"))]
    planned = git("log", "-1", "--format=%H", "--", f"data/runs/{name}/plan.yml").stdout.strip()
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false" or not planned:
        pytest.skip("no history to ask")
    for record in records:
        assert record["plan"] == plan_hash(name)
        assert not record["revision"].endswith("+"), "files differed from the commit"
        revision = remade.get(record["revision"], record["revision"])
        assert git("merge-base", "--is-ancestor", planned, revision).returncode == 0, record["row"]
