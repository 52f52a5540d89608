"""Faults, tried one by one: tools/faults.py (chapter 94) in short form, and that it would find what it looks for."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from annotated.base import files
from annotated.base.files import read_json, write_atomically, write_json
from annotated.runs import checkpoint
from annotated.text.tokenization import Tokenizer, train_tokenizer
from tests.messages import refused
from tools import faults
from tools.faults import CONFIG, Saving, mutated_json, mutated_tensors, try_point
from tools.faulty_disk import KINDS, Crash, FaultyDisk, with_disk


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(faults.TEXTS, 300)


@pytest.fixture(scope="module")
def training(tmp_path_factory) -> tuple[faults.Training, int]:
    """The scenario, and in which operation its fourth checkpoint is being written."""
    scenario = faults.Training()
    operations = try_point(scenario, tmp_path_factory.mktemp("training"), 0, "error")[1]
    return scenario, operations * 4 // (CONFIG.max_steps + 1)


@pytest.mark.slow
def test_nothing_is_lost_at_any_point_that_is_tried():
    """Every hundredth point of all scenarios; all of them by `python -m tools.faults points`."""
    found = faults.points(every=100)
    assert found["faults"] == []
    assert found["points"] > 20
    assert all(scenario["points"] >= 1 for scenario in found["scenarios"].values())


@pytest.mark.slow
def test_a_model_is_the_old_one_or_the_new_one_wherever_saving_crashes(tokenizer: Tokenizer, tmp_path: Path):
    saving = Saving(tokenizer)
    operations = try_point(saving, tmp_path, 0, "error")[1]
    for at in range(1, operations + 1):
        assert try_point(saving, tmp_path, at, "crash half")[0] == "", at


@pytest.mark.slow
def test_files_written_one_by_one_are_found_out(tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Guards the test above: without the manifest's single act there is a point at which the model is a mixture."""

    def one_by_one(folder: Path, contents: dict[str, bytes]) -> None:
        for name, content in contents.items():
            write_atomically(folder / name, content)

    monkeypatch.setattr(checkpoint, "write_together", one_by_one)
    saving = Saving(tokenizer)
    operations = try_point(saving, tmp_path, 0, "error")[1]
    found = [try_point(saving, tmp_path, at, "crash before")[0] for at in range(1, operations + 1)]
    assert any("different models" in one for one in found), found


def test_a_file_that_is_not_synced_is_found_out(tmp_path: Path):
    """What a power cut leaves is an empty file under the new name, if nobody waited for the disk."""
    write_json(tmp_path / "file", "old")
    with with_disk(FaultyDisk(2, "power cut")), pytest.raises(Crash):
        write_json(tmp_path / "file", "new")
    assert read_json(tmp_path / "file") == "old"
    assert (tmp_path / "file.partial").read_bytes() == b""  # and would be here, were it renamed at once


def test_a_disk_that_is_gone_does_nothing_any_more(tmp_path: Path):
    disk = FaultyDisk(1, "crash before")
    with with_disk(disk):
        for _ in range(3):
            with pytest.raises(Crash):
                write_atomically(tmp_path / "file", b"content")
    assert not (tmp_path / "file").exists()
    assert "write" not in vars(files.disk)  # the real one is back


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_training_goes_on_after_each_kind_of_fault(kind: str, training: tuple, tmp_path: Path):
    scenario, at = training
    assert try_point(scenario, tmp_path, at, kind)[0] == ""


@pytest.mark.slow
def test_a_checkpoint_that_was_complete_and_is_gone_is_found_out(training: tuple, tmp_path: Path):
    """Guards the test above: a run that merely starts anew ends with the right weights as well."""
    (scenario, _), disk = training, FaultyDisk()
    with with_disk(disk):
        scenario.act(tmp_path)
    assert disk.completed == CONFIG.max_steps
    assert scenario.check(tmp_path, disk, True) == ""
    disk.completed += 1
    assert f"only step {CONFIG.max_steps} is left" in scenario.check(tmp_path, disk, True)


def test_torn_files_are_named_and_not_used():
    assert faults.torn(60) == {
        "places": 60,
        "files": ["config.json", "model.safetensors", "tokenizer.model"],
        "named": 60,
    }


@pytest.mark.slow
def test_readers_refuse_what_is_damaged():
    found = faults.fuzz(minutes=0.1)
    assert found["faults"] == []
    assert found["executions"] > 20
    assert found["distinct"] > 5


def test_mutations_differ_and_repeat():
    """The same seed makes the same damage; nearly all of it changes the file."""
    content, tensors = b'{"a": [1, {"b": null}], "c": "d"}', save({"a": torch.zeros(3)})
    for mutate, whole in ((mutated_json, content), (mutated_tensors, tensors)):
        found = [mutate(whole, random.Random(seed)) for seed in range(200)]
        assert found == [mutate(whole, random.Random(seed)) for seed in range(200)]
        assert len(set(found)) > 50


@pytest.mark.slow
def test_a_killed_training_ends_like_one_that_was_left_alone():
    """Once; fifty times by `python -m tools.faults kill`."""
    found = faults.kill(kills=1, cases=faults.CASES[1:2])
    assert found["kills"] == 1
    assert (found["equal"], found["unequal"]) == (1, [])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="workers are processes on Linux alone")
def test_hostile_lines_keep_their_order_and_a_stop_is_said():
    """Six hundred lines; a hundred thousand by `python -m tools.faults lines`."""
    found = faults.lines(600, stops=2)
    assert found["faults"] == []
    assert (found["status"], found["lines out"], found["in order"]) == (0, 600, "60 of 60")


def test_hostile_lines_are_one_line_each_and_repeat():
    texts = faults.hostile_lines(5000, ["known"])
    assert texts == faults.hostile_lines(5000, ["known"])
    assert not any("\n" in text for text in texts)
    assert texts[0::10] == ["known"] * 500
    assert set(faults.ODD) <= set(texts) | set(faults.hostile_lines(50_000, ["known"]))


def test_what_is_no_manifest_is_refused():
    with refused("not-a-manifest", faults.ROOT / "package.json"):
        files.read_manifest(faults.ROOT / "package.json")
