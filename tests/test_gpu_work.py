"""The slices of `python -m benchmarks gpu`: they stop, go on, and are recorded once (rehearsed without a GPU)."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from annotated.base.files import InputError, read_json
from benchmarks import __main__ as benchmarks
from benchmarks import gpu
from tools import experiments

SLICES = ["multi30k-long", "training-base"]


def rehearse(folder: Path, *options: str) -> int:
    return gpu.main([*SLICES, "--rehearse", "--output", str(folder), *options])


def files(folder: Path) -> dict[str, int]:
    """The records in a folder, and when each was written."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*.json")
            if "states" not in path.parts}  # fmt: skip


def test_without_a_gpu_it_says_so_in_a_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(benchmarks, "tune_machine", dict)
    with pytest.raises(SystemExit, match="benchmarks: no GPU here"):
        benchmarks.main(["gpu"])


@pytest.mark.slow
def test_a_rehearsal_that_is_stopped_goes_on_and_records_each_slice_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """By a clock that counts its questions: time is up after three of four steps."""
    clock = itertools.count()
    monkeypatch.setattr(experiments, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(gpu, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(experiments, "scores_of", lambda *_: {"valid": {"bleu": 1.0}})
    monkeypatch.setattr(experiments, "tune_machine", dict)
    records = experiments.RUNS
    assert rehearse(tmp_path, "--max-minutes", "0.1") == 0  # six questions
    said = capsys.readouterr().out
    assert "recipe 1: 3 steps" in said
    assert "time is up; next is multi30k-long: 0 of 1 units, recipe 1 at step 3 of 4" in said
    assert files(tmp_path) == {}
    assert rehearse(tmp_path, "--max-minutes", "0.4") == 0  # the rest of the unit, but no measurement is begun
    said = capsys.readouterr().out
    assert "multi30k-long: done" in said
    assert "time is up; next is training-base: to do" in said
    first = files(tmp_path)
    assert list(first) == ["multi30k-long/recipe-1.json"]
    assert rehearse(tmp_path, "--max-minutes", "60") == 0
    assert "nothing is left to do" in capsys.readouterr().out
    both = files(tmp_path)
    assert both.keys() == {*first, "gpu/training-base.json"}
    assert rehearse(tmp_path) == 0
    assert files(tmp_path) == both  # nothing twice
    assert both.items() >= first.items()
    rehearse(tmp_path, "--list")
    assert capsys.readouterr().out.split()[-4:] == ["multi30k-long", "done", "training-base", "done"]
    unit, found = (read_json(tmp_path / name) for name in both)
    assert (unit["steps"], unit["scores"]) == (4, {"valid": {"bleu": 1.0}})
    assert found["command"] == "python -m benchmarks gpu training-base"
    assert {"device", "revision", "versions", "ceiling_flops"} <= found.keys()
    assert set(found["table"]) == set(gpu.training.SYSTEMS)
    for row in found["table"].values():
        flops = row["median"] * found["flops_per_target_token"]
        assert row["utilisation"] == pytest.approx(flops / found["ceiling_flops"])
    assert records == experiments.RUNS


@pytest.mark.slow
def test_a_rehearsal_has_every_row_of_every_plan(tmp_path: Path):
    """A row whose settings do not go together is found on the CPU, not after minutes on a GPU."""
    real = {name: experiments.load_plan(name) for name in gpu.PLANS}
    with gpu.rehearsed(tmp_path, experiments.CPU):
        for name, plan in real.items():
            small = experiments.load_plan(name)
            assert [row["id"] for row in small["rows"]] == [row["id"] for row in plan["rows"]]
            tokenizer = range(400)
            for row, seed in experiments.units(small):
                model, config = experiments.start(small, row, seed, tokenizer)
                assert (seed, config.max_steps) == (1, 4)
                assert model.num_parameters() < 200_000
                experiments.start(plan | {"model": plan["model"] | {"num_layers": 1}}, row, seed, tokenizer)


@pytest.mark.parametrize(
    "options", [["--output", "x"], ["--rehearse", "--output", str(gpu.RECORDS / "x")], ["no-slice"]]
)
def test_rehearsals_and_records_are_kept_apart(options: list[str]):
    with pytest.raises(SystemExit):
        gpu.main([*options, "--list"])


def test_what_cannot_be_done_is_said_and_left(capsys: pytest.CaptureFixture[str]):
    """Data that are not there stop the slices that need them, no other."""
    done: list[str] = []

    def refuse(deadline: float) -> None:
        raise InputError("no such corpus")

    slices = [
        gpu.Slice("one", lambda: "to do", refuse),
        gpu.Slice("two", lambda: "done" if done else "to do", lambda deadline: done.append("two")),
        gpu.Slice("three", lambda: "done", refuse),
    ]
    assert gpu.work_through(slices, float("inf")) == 1
    said = capsys.readouterr().out
    assert done == ["two"]
    assert "one: no such corpus" in said
    assert "two: done" in said
