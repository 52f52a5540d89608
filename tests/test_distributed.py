"""Several processes by torchrun (chapter 93): the same run as one, whatever their number, and an end when one dies."""

import json
import os
import random
import signal
import subprocess
import time
import weakref
from collections import Counter
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from annotated.base.files import InputError
from annotated.command import cli
from annotated.command.cli import main
from annotated.machine import distributed
from annotated.machine.distributed import (
    any_process,
    data_parallel,
    from_all,
    from_first,
    launched,
    own_share,
    summed,
    world_size,
)
from annotated.model import Transformer, TransformerConfig
from annotated.runs.checkpoint import load_model
from annotated.runs.training import train
from annotated.text.corpora import load_corpus
from annotated.training import TrainingConfig
from tests import forked
from tests.forked import children, torchrun
from tests.shared_training import ACCUMULATION, examples
from tools import limits

ROOT = Path(__file__).resolve().parents[1]
SMALL = [
    "--vocab-size", "300", "--d-model", "16", "--d-ff", "32", "--num-heads", "2", "--num-layers", "1", "--dropout", "0",
    "--max-tokens", "500", "--accumulation", "2", "--validate-every", "15", "--precision", "float32",
    "--warmup-steps", "50", "--quiet",
]  # fmt: skip


def by_torchrun(*arguments: str) -> subprocess.Popen:
    """A command in two processes, each with one thread."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.Popen([*torchrun(2), "-m", *arguments], env=environment, text=True, **pipes)


def own_lines(stderr: str) -> list[str]:
    """What our command says of a failure, without torchrun's report."""
    return [line for line in stderr.splitlines() if line.startswith("annotated ") and "FAILED" not in line]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    """Pairs of unequal lengths, some of more tokens than the positions have a table for."""
    path = tmp_path_factory.mktemp("text") / "pairs.tsv"
    longer = [(list(range(4, 4 + length)), [4, 5]) for length in (36, 40, 44)]
    sides = [
        " ".join(f"{chr(97 + token % 26)}{token}" for token in side) for pair in examples() + longer for side in pair
    ]
    path.write_text("".join(f"{one}\t{other}\n" for one, other in zip(sides[::2], sides[1::2], strict=True)))
    return path


@pytest.mark.slow
def test_two_processes_have_the_bits_of_one(text, tmp_path):
    """Steps of two batches of unequal token counts, in float32 and the faster forms: two epochs."""
    arguments = ["annotated", "train", "--corpus", str(text), *SMALL, "--max-steps", "30", "--output"]
    for processes in (1, 2):
        found = forked.run(processes, *arguments, str(tmp_path / f"run{processes}"))
        assert found.returncode == 0, found.stderr
    alone, both = (load_file(tmp_path / f"run{n}" / "checkpoints" / "step-0000030.safetensors") for n in (1, 2))
    assert all(alone[name].equal(both[name]) for name in alone)
    lines = [(tmp_path / f"run{n}" / "metrics.jsonl").read_text().splitlines() for n in (1, 2)]
    losses = [[line["valid_loss"] for line in map(json.loads, one) if "valid_loss" in line] for one in lines]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    records = [json.loads((tmp_path / f"run{n}" / "run.json").read_text()) for n in (1, 2)]
    assert records[0]["target_tokens"] == records[1]["target_tokens"]
    assert records[1]["processes"] == 2
    assert records[1]["epochs"] >= 2


@pytest.mark.slow
def test_anybody_s_own_processes_may_have_sentences_of_unequal_lengths():
    """CoCa-pytorch#17's kind: a buffer that grows with a sentence ended the processes when they sent buffers round."""
    done = forked.run(2, "tests.other_hands")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 2
    assert max(map(float, done.stdout.split())) < 1e-6


def test_what_is_left_of_a_training_is_freed_before_its_group(monkeypatch):
    """pytorch#56297's kind: the group's last user, freed later by Python's collector, may wait for ever."""
    in_a_world(monkeypatch)
    circle = nn.Module()
    circle.__dict__["itself"] = circle  # as DistributedDataParallel is
    left, ended = weakref.ref(circle), []
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda *_, **__: None)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: ended.append(left()))
    with distributed.processes():
        del circle
    assert ended == [None]


@pytest.mark.slow
def test_lines_of_all_lengths_stopped_and_resumed(tmp_path):
    """Lines of 1 to 200 tokens, dropout: a run that was stopped ends with the bits of one that was not."""
    draw, text = random.Random(0), tmp_path / "pairs.tsv"
    sizes = [(round(200 ** draw.random()), round(200 ** draw.random())) for _ in range(100)] + [(199, 199)]
    text.write_text("".join("\t".join("".join(draw.choices("abcdef", k=n)) for n in pair) + "\n" for pair in sizes))
    new = ["--corpus", str(text), *SMALL, "--vocab-size", "characters", "--max-tokens", "250", "--accumulation", "4"]
    new += ["--dropout", "0.1"]
    for name, steps, settings in (
        ("whole", 4, new),
        ("parts", 2, new),
        ("parts", 4, ["--resume"]),
    ):
        command = ["annotated", "train", *settings, "--max-steps", str(steps), "--output", str(tmp_path / name)]
        found = forked.run(2, *command, "--quiet")
        assert found.returncode == 0, found.stderr
    for file in ("model.safetensors", "checkpoints/step-0000004.safetensors"):
        whole, parts = (load_file(tmp_path / name / file) for name in ("whole", "parts"))
        assert all(parts[name].equal(whole[name]) for name in whole), file


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_processes(tmp_path):
    """Two, one, four, two, in float64: the losses of an unbroken run, and each pair once an epoch."""
    whole = forked.run(1, "tests.shared_training", str(tmp_path / "whole"), "40")
    assert whole.returncode == 0, whole.stderr
    for number, (processes, steps) in enumerate(((2, "10"), (1, "20"), (4, "30"), (2, "40"))):
        arguments = ["tests.shared_training", str(tmp_path / "parts"), steps, *(["resume"] if number else [])]
        found = forked.run(processes, *arguments)
        assert found.returncode == 0, found.stderr
    unbroken = json.loads((tmp_path / "whole" / "seen-40.json").read_text())
    parts = [json.loads((tmp_path / "parts" / f"seen-{steps}.json").read_text()) for steps in (10, 20, 30, 40)]
    lines = [line for line in unbroken["history"] if "valid_loss" in line]
    others = [line for line in parts[-1]["history"] if "valid_loss" in line]
    assert [line["step"] for line in others] == [10, 20, 30, 40]
    losses = [[line["loss"] for line in each["history"] if "loss" in line] for each in (unbroken, parts[-1])]
    assert losses[1] == pytest.approx(losses[0]), "what was pending when it stopped counts once"
    for one, other in zip(lines, others, strict=True):
        assert abs(one["valid_loss"] - other["valid_loss"]) < 1e-9
        assert one["tokens"] == other["tokens"]
    weights = [load_file(tmp_path / name / "checkpoints" / "step-0000040.safetensors") for name in ("whole", "parts")]
    assert max((weights[0][name] - weights[1][name]).abs().max() for name in weights[0]) < 1e-9
    assert all(len(set(part["drawn"])) == len(part["drawn"]) for part in parts)  # each has random numbers of its own
    assert parts[-1]["epoch"] >= 2
    used = Counter(i for part in parts for share in part["seen"] for i in share)
    assert used == Counter(unbroken["seen"][0])  # no pair twice in an epoch, none left out
    assert set(used.values()) <= {parts[-1]["epoch"], parts[-1]["epoch"] + 1}
    assert all(share for part in parts for share in part["seen"])  # and each process had some of them


@pytest.mark.slow
def test_a_killed_process_ends_the_others(text, tmp_path):
    """One line of ours, nothing left running, and a checkpoint that loads."""
    arguments = ["annotated", "train", "--corpus", str(text), *SMALL, "--max-steps", "100000"]
    process = by_torchrun(*arguments, "--checkpoint-minutes", "0.01", "--output", str(tmp_path / "run"))
    until = time.monotonic() + limits.PROCESS
    weights, model = tmp_path / "run" / "checkpoints", tmp_path / "run" / "config.json"
    while not (model.exists() and len(list(weights.glob("*.safetensors"))) > 1) and time.monotonic() < until:
        time.sleep(0.05)
    workers = children(process.pid)
    assert len(workers) == 2
    os.kill(workers[1], signal.SIGKILL)
    _, err = process.communicate(timeout=limits.PROCESS)
    assert process.returncode != 0
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    said = own_lines(err)
    assert said in ([], said[:1])
    assert all("another process of this run has ended" in line for line in said)
    assert "Traceback (most recent call last)" not in err.split("elastic")[0]
    load_model(tmp_path / "run")
    again = ["train", "--resume", "--output", tmp_path / "run", "--max-steps", "1", "--quiet"]
    resumed = forked.run(1, "annotated", *again)
    assert resumed.returncode == 0, resumed.stderr


@pytest.mark.slow
def test_two_processes_translate_and_evaluate_as_one(tmp_path):
    sources = [pair.source for pair in load_corpus("embedded").split("test")[:50]]
    (tmp_path / "in").write_text("".join(f"{one}\n" for one in ["", *sources, "a line that\u2028looks like two"]))
    outputs = []
    for processes in (1, 2):
        options = ["--workers", "1", "--beam-size", "2", "--chunk", "20", "--max-tokens", "400"]
        found = forked.run(processes, "annotated", "translate", "embedded", *options, stdin=tmp_path / "in")
        assert found.returncode == 0, found.stderr
        outputs.append(found.stdout)
        scores = ["--split", "valid", "--max-words", "6", "--workers", "1"]
        output = ["--translations", str(tmp_path / f"out{processes}")]
        found = forked.run(processes, "annotated", "evaluate", "embedded", *scores, *output)
        assert found.returncode == 0, found.stderr
        assert found.stdout.count("BLEU") == 3  # by three rulers
    assert outputs[0] == outputs[1]
    assert outputs[0].count("\n") == 52
    assert (tmp_path / "out1").read_bytes() == (tmp_path / "out2").read_bytes()


def test_only_the_first_process_scores_and_writes(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(cli, "rank", lambda: 1)
    files = ["--json", str(tmp_path / "scores"), "--translations", str(tmp_path / "out")]
    assert main(["evaluate", "embedded", "--split", "valid", "--max-words", "4", "--workers", "1", *files]) == 0
    assert (list(tmp_path.iterdir()), capsys.readouterr().out) == ([], "")


@pytest.mark.slow
def test_what_is_refused_is_said_once(text, tmp_path):
    """The first process finds it, and all of them end."""
    train = ["annotated", "train", "--corpus", text, *SMALL, "--vocab-size", "100000", "--output", tmp_path / "run"]
    found = forked.run(2, *train)
    assert found.returncode == 1
    (line,) = own_lines(found.stderr)
    assert "100000" in line


def test_processes_that_have_unequal_shares_are_told_so(monkeypatch, capsys, tmp_path):
    class Begun(Exception):
        pass

    def begin(*_: object, **__: object) -> None:
        raise Begun

    monkeypatch.setattr("annotated.command.cli.train_on_corpus", begin)
    arguments = ["train", "--corpus", "embedded", "--recipe", "base", "--output", str(tmp_path / "run")]
    for processes, said in ((1, ""), (2, ""), (3, "2 make 3, the others 2"), (8, ""), (9, "")):  # 9 are too many
        monkeypatch.setattr("annotated.command.cli.world_size", lambda processes=processes: processes)
        with pytest.raises(Begun):
            main(arguments)
        lines = [line for line in capsys.readouterr().err.splitlines() if "batches a step" in line]
        assert len(lines) == bool(said)
        assert all(said in line for line in lines)


VARIABLES = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


def in_a_world(monkeypatch, **changes: str) -> None:
    for name, value in (VARIABLES | changes).items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"RANK": "2"}, "RANK 2 .*WORLD_SIZE 2"),
        ({"LOCAL_RANK": "1"}, "LOCAL_RANK 1"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE .*'two'"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR"),
        ({"RANK": ""}, "RANK"),
    ],
)
def test_variables_that_contradict_each_other(monkeypatch, changes, says):
    in_a_world(monkeypatch, **changes)
    with pytest.raises(InputError, match=says):
        launched()


def test_processes_that_cannot_begin_are_told_why(monkeypatch, capsys):
    def nobody(*_: object, **options: object) -> None:
        raise RuntimeError("timed out\nafter 3 s")

    in_a_world(monkeypatch, RANK="1", LOCAL_RANK="1")
    monkeypatch.setattr(torch.distributed, "init_process_group", nobody)
    assert main(["evaluate", "embedded"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("annotated evaluate: ")
    assert "timed out after 3 s" in line
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(InputError, match="LOCAL_RANK 1"), distributed.processes():
        pass


def test_alone_everything_is_as_it_was(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert launched() is None
    assert world_size() == 1
    assert own_share([1, 2, 3]) == [1, 2, 3]
    assert from_all("a") == ["a"]
    assert from_first(lambda: 5) == 5
    assert any_process(True)
    assert not any_process(False)
    assert summed(0.1) == 0.1

    def loss(batch, smoothing):
        return torch.zeros(())

    assert data_parallel(torch.nn.Linear(1, 1), loss) is loss


def test_a_step_without_a_batch_for_each_is_refused(monkeypatch):
    monkeypatch.setattr("annotated.runs.training.world_size", lambda: ACCUMULATION + 1)
    config = TrainingConfig(max_steps=1, accumulation=ACCUMULATION)
    with pytest.raises(InputError, match=r"accumulation is 4.* 5 "):
        train(Transformer(TransformerConfig(10, d_model=4, num_heads=1, num_layers=1)), [], [], config)


def test_errors_of_others_are_known():
    closed = "[../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:13452"
    assert distributed.is_about_others(RuntimeError(closed))
    assert not distributed.is_about_others(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
