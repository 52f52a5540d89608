"""Choosing on valid and scoring on test, and beams of many widths, on a tiny corpus (chapters 60 and 61)."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from zlib import crc32

import pytest
import torch

from annotated.base.files import InputError, read_json, write_json
from annotated.command.cli import main as annotated
from annotated.runs.checkpoint import average_weights, weights_of
from annotated.runs.state import checkpoints
from annotated.text.corpora import load_corpus
from tests.test_experiments import small  # noqa: F401 (a fixture)
from tools import experiments, real_text

load = real_text.load_unit


@pytest.fixture
def done(small: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    """The small experiment with both seeds of its first row run, and the tools pointed at it."""
    path = small / "plan.yml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.index("- change")] + text[text.index("seeds:") :], encoding="utf-8")
    for seed in (1, 2):
        experiments.run_unit("small", "base", seed, float("inf"))
    monkeypatch.setattr(real_text, "ALPHAS", (0.0, 1.0))
    monkeypatch.setattr(real_text, "WIDER", (0.0, 1.0))
    monkeypatch.setattr(real_text, "DRAWS", 20)
    monkeypatch.setattr(real_text, "OWN", ["the ba dog sees a cat"])
    return small


@pytest.mark.slow
def test_what_is_best_on_valid_is_scored_on_test(done: Path, monkeypatch: pytest.MonkeyPatch):
    """By made-up scores, since models of six steps all write the same."""

    def each_penalty(_translator: object, _pairs: object, about: dict, alphas: tuple[float, ...]) -> list[dict]:
        return [about | {"alpha": alpha, "bleu": crc32(repr((about, alpha)).encode())} for alpha in alphas]

    monkeypatch.setattr(real_text, "each_penalty", each_penalty)
    assert real_text.main(["choose", "--name", "small"]) == 0
    record = read_json(done / "choose.json")
    assert len(record["valid"]) == 2 * len(real_text.KINDS) * 2
    means = {}
    for one in record["valid"]:
        means.setdefault((one["weights"], one["alpha"]), []).append(one["bleu"])
    assert all(len(scores) == 2 for scores in means.values())
    best = max(means, key=lambda setting: sum(means[setting]))
    assert sum(means[best]) > min(map(sum, means.values()))
    assert sum(means[record["chosen"]["weights"], record["chosen"]["alpha"]]) == sum(means[best])
    assert [one["seed"] for one in record["test"]] == [1, 2]
    assert all(one["bleu_half_width"] >= 0 and len(one["own"]) == 1 for one in record["test"])


@pytest.mark.slow
def test_each_kind_of_weights_is_what_its_name_says(done: Path):
    folder = experiments.WORK / "small" / "base-1"
    own = {kind: weights_of(real_text.load_unit("small", "base", 1, kind).model) for kind in real_text.KINDS[1:]}
    for kind, last in (("mean of the last 3", 3), ("mean of the last 5", 5)):
        wanted = average_weights(checkpoints(folder)[-last:])
        assert all(torch.allclose(own[kind][name], tensor, atol=1e-6) for name, tensor in wanted.items())
    last = average_weights(checkpoints(folder)[-1:])
    assert all(torch.allclose(own["last weights"][name], tensor, atol=1e-6) for name, tensor in last.items())
    assert any(not torch.equal(own["last weights"][name], own["mean of the last 3"][name]) for name in last)


@pytest.mark.slow
def test_a_wider_beam_is_searched_with_the_same_penalty(done: Path):
    narrow, wide = (real_text.one_width("small", 0.0, width) for width in (1, 4))
    assert len(narrow["scores"]) == len(wide["scores"])
    assert sum(wide["scores"]) >= sum(narrow["scores"])
    assert narrow["length_ratio"] > 0


@pytest.mark.slow
def test_what_one_unit_has_on_valid_is_kept(done: Path, monkeypatch: pytest.MonkeyPatch):
    """A second seed that is not done ends the choice; what the first had is there when it is."""
    other, hidden = experiments.WORK / "small" / "base-2", experiments.WORK / "small" / "hidden"
    other.rename(hidden)
    monkeypatch.setattr(real_text, "ProcessPoolExecutor", lambda _: nullcontext(SimpleNamespace(map=map)))
    assert real_text.main(["choose", "--name", "small"]) == 1
    hidden.rename(other)
    begun = []
    monkeypatch.setattr(real_text, "load_unit", lambda *unit: begun.append(unit) or load(*unit))
    assert real_text.main(["choose", "--name", "small"]) == 0
    assert [unit[2] for unit in begun[: len(real_text.KINDS)]] == [2] * len(real_text.KINDS)


@pytest.mark.slow
def test_a_unit_that_was_stopped_or_has_no_state_is_not_judged(done: Path):
    with pytest.raises(InputError, match="base-9"):
        real_text.load_unit("small", "base", 9)
    path = done / "plan.yml"
    path.write_text(path.read_text(encoding="utf-8").replace("max_steps: 6", "max_steps: 9"), encoding="utf-8")
    with pytest.raises(InputError, match="base-1: stopped at step 6 of 9"):
        real_text.load_unit("small", "base", 1)


@pytest.fixture
def run(done: Path) -> Path:
    """A run of the command on the small corpus, with a checkpoint after each of its twelve steps."""
    corpus = str(done.parent / "pairs.tsv")
    options = (
        "--vocab-size 300 --d-model 16 --d-ff 32 --num-heads 2 --num-layers 1 --max-tokens 40 --quiet --device cpu"
    )
    options += " --max-length 32 --checkpoint-minutes 0 --keep-checkpoints 10 --max-steps 12 --validate-every 4"
    assert annotated(["train", "--corpus", corpus, "--output", str(done / "run"), *options.split()]) == 0
    return done / "run"


@pytest.mark.slow
def test_a_run_is_recorded_with_what_was_best_on_valid(run: Path, done: Path):
    assert real_text.main(["best", str(run), "--name", "best"]) == 0
    record = read_json(done.parent / "best" / "choose.json")
    assert len(record["valid"]) == 2 * len(real_text.KINDS_OF_A_RUN)
    assert {one["weights"] for one in record["valid"]} == set(real_text.KINDS_OF_A_RUN)
    best = max(record["valid"], key=lambda one: one["bleu"])
    assert record["chosen"] == {name: best[name] for name in ("weights", "alpha")}
    assert record["test"]["sentences"] == len(load_corpus(read_json(run / "run.json")["corpus"]).split("test"))
    assert read_json(done.parent / "best" / "run.json") == read_json(run / "run.json")
    wanted = average_weights(checkpoints(run)[-3:])
    own = weights_of(real_text.translator_of(run, "mean of the last 3").model)
    assert all(torch.equal(own[name], tensor) for name, tensor in wanted.items())


@pytest.mark.slow
def test_a_run_that_is_not_finished_or_has_too_few_checkpoints_is_named(run: Path, capsys: pytest.CaptureFixture[str]):
    checkpoints(run)[0].unlink()
    assert real_text.main(["best", str(run)]) == 1
    assert "9 checkpoints there, for mean of the last 10 10 are needed" in capsys.readouterr().err
    write_json(run / "run.json", read_json(run / "run.json") | {"finished": False})
    assert real_text.main(["best", str(run)]) == 1
    assert "the run is not finished; resume it first" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        real_text.main(["best"])


def test_scores_on_test_are_numbers_that_json_has(monkeypatch: pytest.MonkeyPatch):
    """The bootstrap of sacreBLEU gives numbers of NumPy; a record that cannot be written loses hours."""
    references = [f"Ein Hund rennt am Tag {n} durch den Schnee ." for n in range(30)]
    outputs = [text if n % 3 else text.replace("Hund", "Kater") for n, text in enumerate(references)]
    translator = SimpleNamespace(translate=lambda texts, **_: outputs[: len(texts)])
    monkeypatch.setattr(real_text, "load_unit", lambda *_: translator)
    monkeypatch.setattr(real_text, "pairs_of", lambda *_: (references, references))
    found = real_text.on_test("multi30k", 0.6, ("recipe", 1, "last weights"))
    assert json.loads(json.dumps(found)) == found
    assert 0 < found["bleu_half_width"] < found["bleu"] < 100
