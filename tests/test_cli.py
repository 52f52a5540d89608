"""The `annotated` command: module cli, chapter 91."""

import argparse
import errno
import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import product
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
import sacrebleu
import torch
from safetensors.torch import load_file, save_file

from annotated.command import cli
from annotated.command.commands import COMMANDS
from annotated.machine import acceleration
from annotated.machine import devices as machine
from annotated.model import Transformer, TransformerConfig
from annotated.runs.checkpoint import load_model, save_model
from annotated.search.translation import Translator
from annotated.text.corpora import NAMED
from annotated.text.grammar.splits import SPLITS
from tests import forked
from tests.forked import hearing
from tests.messages import message
from tools import limits
from tools.processes import children

ROOT = Path(__file__).resolve().parents[1]
SIZES = "--vocab-size 340 --d-model 16 --num-heads 2 --d-ff 32 --num-layers 1 --dropout 0 --max-length 24"
LIMITS = "--max-tokens 400 --warmup-steps 30 --rate-factor 0.4 --precision float32 --device cpu --quiet"
TINY = f"--recipe base --accumulation 1 {SIZES} {LIMITS}".split()
STEPS = 150


def annotated(*arguments: object, stdin: bytes = b"", **options) -> subprocess.CompletedProcess:
    """The command in a process of its own; the output stays bytes."""
    pipes = {"input": stdin, "capture_output": True, "timeout": limits.PROCESS}
    return subprocess.run(command(*arguments), **pipes, **environment(options))


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "annotated", *map(str, arguments)]


def environment(options: dict) -> dict:
    changes = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "", **options.pop("env", {})}
    return {"env": {**os.environ, **changes}, **options}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """Six hundred pairs in a TSV file; split_pairs holds out every 49th and 50th."""
    nouns = {"dog": "Hund", "king": "König", "bird": "Vogel", "man": "Mann", "garden": "Garten"}
    verbs = {"sees": "sieht", "hears": "hört", "likes": "mag", "knows": "kennt"}
    adjectives = {"big": "große", "nice": "schöne", "old": "alte"}
    triples = product(nouns, verbs, adjectives, nouns, range(2))
    lines = [
        f"The {a} {v} the {adjective} {b}{' now' * late}.\t"
        f"Der {nouns[a]} {verbs[v]} der {adjectives[adjective]} {nouns[b]}{' jetzt' * late}.\n"
        for a, v, adjective, b, late in triples
    ]
    path = tmp_path_factory.mktemp("corpus") / "pairs.tsv"
    path.write_text("".join(lines[i * 7 % len(lines)] for i in range(len(lines))), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def run(corpus, tmp_path_factory) -> Path:
    """A run folder, trained by the command; tests that change it copy it first."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    limits = ["--max-steps", STEPS, "--validate-every", 40, "--checkpoint-minutes", 0]
    done = forked.run(1, "annotated", "train", "--corpus", corpus, "--output", folder, *TINY, *limits)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(rf"best validation loss \d\.\d+; the model is in {re.escape(str(folder))}", last)
    return folder


@pytest.fixture
def own_run(run, tmp_path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "run"))


@pytest.fixture
def says(capsys):
    """Run main in this process; returns exit status, output and what was said on standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture
def refuses(says, tmp_path):
    """Run main, and check that it fails as a command should: one line of error, status 1, no half-written file."""

    def call(*arguments: object) -> str:
        status, out, err = says(*arguments)
        assert status == 1
        assert out == ""
        *before, last = err.splitlines()
        assert last.startswith(f"annotated {arguments[0]}: ")
        assert "Traceback" not in err
        assert len(before) <= 5, (
            err
        )  # `train` says what it begins with: corpus, recipe, losses, precision, pairs left out
        assert not [line for line in before if line.startswith("annotated")]
        assert list(tmp_path.rglob("*.partial")) == []
        return last

    return call


def type_in(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def metrics(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def assert_in_order(lines: list[dict]) -> None:
    """Steps rise within the training losses and within the validation losses, and no line is there twice."""
    for key in ("loss", "valid_loss"):
        steps = [line["step"] for line in lines if key in line]
        assert steps == sorted(set(steps)), key
    assert [line["step"] for line in lines] == sorted(line["step"] for line in lines)


# Training


@pytest.mark.slow
def test_train_writes_a_complete_run_folder(run, corpus):
    names = {path.name for path in run.iterdir()}
    model = {"config.json", "model.safetensors", "tokenizer.model"}
    assert names - {"scheduled"} == model | {"run.json", "metrics.jsonl", "manifest.json", "checkpoints"}
    record = json.loads((run / "run.json").read_text())
    assert record["finished"] is True
    assert record["steps"] == STEPS
    assert record["corpus"] == str(corpus)
    assert (record["model"]["d_model"], record["model"]["vocab_size"]) == (16, 340)
    assert record["training"]["rate_factor"] == 0.4
    assert record["beyond_the_paper"] == {"rate_factor": 0.4}
    assert record["pairs"] + record["pairs_left_out"] == 600 - 24
    assert 0 < record["pairs_left_out"] < 10  # the longest ones
    kept = {f"step-{step:07d}{ending}" for step in range(STEPS - 4, STEPS + 1) for ending in (".safetensors", ".json")}
    kept |= {f"step-{step:07d}.state" for step in (STEPS - 1, STEPS)}
    assert {path.name for path in (run / "checkpoints").iterdir()} == kept
    assert_in_order(metrics(run))
    assert {line["step"] for line in metrics(run) if "valid_loss" in line} == {40, 80, 120, 150}


@pytest.mark.slow
def test_train_refuses_a_folder_with_a_run_or_a_model(own_run, corpus, refuses):
    before = {path: path.read_bytes() for path in own_run.rglob("*") if path.is_file()}
    said = refuses("train", "--corpus", corpus, "--output", own_run, *TINY)
    assert re.search(message("run-taken", own_run), said)
    assert {path: path.read_bytes() for path in own_run.rglob("*") if path.is_file()} == before
    (own_run / "run.json").unlink()
    said = refuses("train", "--corpus", corpus, "--output", own_run, *TINY)
    assert re.search(message("folder-taken", own_run, "model"), said)


@pytest.mark.slow
def test_resume_continues_as_if_never_stopped(corpus, says, tmp_path):
    limit = ["--validate-every", 6, "--max-steps"]
    assert says("train", "--corpus", corpus, "--output", tmp_path / "whole", *TINY, *limit, 20)[0] == 0
    assert says("train", "--corpus", corpus, "--output", tmp_path / "parts", *TINY, *limit, 12)[0] == 0
    described = json.loads((tmp_path / "parts" / "run.json").read_text())
    (tmp_path / "parts" / "run.json").write_text(json.dumps(described | {"command": "what started it"}))
    status, _, err = says("train", "--resume", "--output", tmp_path / "parts", "--max-steps", 20, "--quiet")
    assert (status, err.count("resuming the run in")) == (0, 1)
    assert_in_order(metrics(tmp_path / "parts"))
    assert metrics(tmp_path / "parts")[-1]["step"] == 20
    name = "checkpoints/step-0000020.safetensors"
    whole, parts = (load_file(tmp_path / folder / name) for folder in ("whole", "parts"))
    assert all(torch.allclose(whole[key], parts[key], atol=1e-6) for key in whole)
    records = [json.loads((tmp_path / folder / "run.json").read_text()) for folder in ("whole", "parts")]
    for key in ("model", "training", "steps", "target_tokens", "beyond_the_paper", "corpus"):
        assert records[0][key] == records[1][key], key
    assert records[1]["command"] == "what started it"  # the command that can be repeated, not that of the resume
    assert records[0]["best_valid_loss"] == pytest.approx(records[1]["best_valid_loss"], abs=1e-6)


@pytest.mark.slow
def test_resume_keeps_the_run_s_settings(own_run, refuses):
    resume = ["train", "--resume", "--output", own_run, "--max-steps", 999]
    for option, value in {"--d-model": 32, "--seed": 2, "--vocab-size": 400, "--label-smoothing": 0.2}.items():
        assert re.search(message("resume-option-changed", option, value), refuses(*resume, option, value))
    assert re.search(message("resume-option-changed", "--norm-first", True), refuses(*resume, "--norm-first"))
    assert "cannot become" in refuses(*resume, "--recipe", "embedded")
    for option, own in {"source": "en", "target": "de"}.items():
        assert re.search(message("store-language", own_run, option, own, "fr"), refuses(*resume, f"--{option}", "fr"))


@pytest.mark.slow
def test_a_run_from_before_compiling_may_be_resumed_with_it(own_run, refuses, monkeypatch):
    """It is the same mathematics. Here there is no compiler, which is said before anything is written."""
    monkeypatch.setenv("CXX", "no-such-compiler")
    run = json.loads((own_run / "run.json").read_text())
    del run["training"]["compile"]
    (own_run / "run.json").write_text(json.dumps(run))
    said = refuses("train", "--resume", "--output", own_run, "--max-steps", 999, "--compile", "--device", "cpu")
    assert re.search(message("compile-needs"), said)
    assert json.loads((own_run / "run.json").read_text()) == run


@pytest.mark.slow
def test_resume_of_a_finished_run_says_so(own_run, says):
    status, _, err = says("train", "--resume", "--output", own_run, "--quiet", "--device", "cpu")
    assert status == 0
    assert "had reached its limit already" in err
    assert json.loads((own_run / "run.json").read_text())["steps"] == STEPS


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, message("resume-no-record")),
        ("[]", message("record-lacks", "run.json", "'corpus'")),
        (
            '{"corpus": "x", "source": "en", "target": "de", "model": {}}',
            message("record-lacks", "run.json", "'training'"),
        ),
        (
            '{"corpus": "x", "source": "en", "target": "de", "model": {"depth": 6}, "training": {}}',
            message("record-refused", "run.json"),
        ),
        (
            '{"corpus": "x", "source": "en", "target": "de", "model": 3, "training": {}}',
            message("record-lacks", "run.json"),
        ),
        ("{", message("not-json", "run.json")),
    ],
)
def test_resume_needs_the_record_of_a_run(tmp_path, refuses, content, said):
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    assert re.search(said, refuses("train", "--resume", "--output", tmp_path))


@pytest.mark.slow
def test_resume_without_the_saved_state(own_run, refuses):
    for path in (own_run / "checkpoints").glob("*.state"):
        path.unlink()
    said = refuses("train", "--resume", "--output", own_run, "--max-steps", 999, "--quiet")
    assert re.search(message("listed-unreadable", f"step-{STEPS:07d}.state"), said)


@pytest.mark.slow
def test_ctrl_c_saves_the_state_and_resume_goes_on(corpus, says, tmp_path):
    folder = tmp_path / "run"
    said = endless(corpus, folder, signal.SIGINT)
    assert "Traceback" not in said
    assert said.splitlines()[-1] == (f"stopped before its limit; `annotated train --resume --output {folder}` goes on")
    record = json.loads((folder / "run.json").read_text())
    assert record["finished"] is False
    assert list(folder.glob("checkpoints/*.state"))
    assert list(folder.rglob("*.partial")) == []
    done = record["steps"]
    status, _, err = says("train", "--resume", "--output", folder, "--quiet", "--max-steps", done + 25)
    assert status == 0, err
    assert_in_order(metrics(folder))
    assert json.loads((folder / "run.json").read_text())["steps"] == done + 25


def endless(corpus: Path, folder: Path, number: int, ignored: tuple[int, ...] = ()) -> str:
    """What a training says that a signal ends; those that it ignores come first."""
    train = ["train", "--corpus", corpus, "--output", folder, *TINY, "--max-steps", 10**6]
    with forked.started(folder.parent, "annotated", *train, ignored=ignored) as process:
        wait_for((folder / "metrics.jsonl").exists, process)
        for each in (*ignored, number):
            lines = len(metrics(folder))
            wait_for(lambda seen=lines: len(metrics(folder)) > seen + 1, process)
            os.kill(process.pid, each)
        process.join(limits.PROCESS)
    said = (folder.parent / "err").read_text(encoding="utf-8")
    assert process.exitcode == 128 + number, said
    return said


@pytest.mark.again
@pytest.mark.skipif(not hasattr(signal, "SIGTERM"), reason="no such signals here")
@pytest.mark.parametrize("seed", range(5))
def test_ten_stops_and_the_bits_of_an_unbroken_run(corpus, tmp_path, seed):
    """Ctrl-C, SIGTERM, limits of time and of steps that are raised: ten stops at any moment, five times."""
    draw, ways, parts, record = Random(seed), [], tmp_path / "parts", {"steps": 0, "wall_seconds": 0.0}
    new = ["--corpus", corpus, *TINY, "--dropout", "0.2", "--average-decay", "0.9", "--validate-every", "7"]
    for number in range(10):
        way = draw.choice(("SIGINT", "SIGTERM", "minutes", "steps"))
        end = ["--max-steps", record["steps"] + draw.randint(1, 9) if way == "steps" else 10**6]
        end += ["--max-minutes", (record["wall_seconds"] + draw.random()) / 60 if way == "minutes" else 10**6]
        more = ["--resume", "--quiet"] if number else new
        with forked.started(tmp_path, "annotated", "train", *more, "--output", parts, *end) as process:
            if way in ("SIGINT", "SIGTERM"):
                wait_for((parts / "checkpoints").exists, process)
                time.sleep(draw.uniform(0.2, 2.0))
                os.kill(process.pid, getattr(signal, way))
            process.join(limits.PROCESS)
        ways.append((way, process.exitcode))
        record |= json.loads((parts / "run.json").read_text())  # a first one may end before its first step
    said = (tmp_path / "err").read_text(encoding="utf-8")
    assert {status for way, status in ways if way in ("minutes", "steps")} <= {0}, said
    ended = {(way, status) for way, status in ways if status}  # before there is anything to save, as signals do it
    assert ended <= {("SIGINT", 130), ("SIGTERM", 143), ("SIGTERM", -signal.SIGTERM)}, said
    last = record["steps"] + 5
    end = ["--max-steps", str(last), "--max-minutes", "1000"]
    for more, folder in (["--resume", "--quiet"], parts), (new, tmp_path / "whole"):
        done = forked.run(1, "annotated", "train", *map(str, more), *end, "--output", str(folder))
        assert done.returncode == 0, done.stderr
    compared = [tmp_path / "whole", parts]
    for file in ("model.safetensors", f"checkpoints/step-{last:07d}.safetensors"):
        whole, other = (load_file(folder / file) for folder in compared)
        assert all(torch.equal(whole[name], other[name]) for name in whole), (file, ways)
    kept = ("step", "loss", "valid_loss", "rate")
    whole, other = ([{k: line[k] for k in kept if k in line} for line in metrics(folder)] for folder in compared)
    assert whole == other, ways
    whole, other = (json.loads((folder / "run.json").read_text()) for folder in compared)
    assert whole["best_valid_loss"] == other["best_valid_loss"]


def wait_for(condition, process: BaseProcess) -> None:
    end = time.monotonic() + limits.PROCESS
    while not condition():
        assert process.exitcode is None, "the command ended early"
        assert time.monotonic() < end, "the command took too long"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signals here")
@pytest.mark.parametrize(("name", "ignored"), [("SIGHUP", []), ("SIGTERM", ["SIGHUP"])])
def test_other_signals_save_as_well(corpus, tmp_path, name, ignored):
    """A closed terminal and a request to end; one that is ignored, as under nohup, changes nothing."""
    folder = tmp_path / "run"
    said = endless(corpus, folder, getattr(signal, name), tuple(getattr(signal, one) for one in ignored))
    assert "stopping after this step; once more ends at once" in said
    assert json.loads((folder / "run.json").read_text())["finished"] is False


@pytest.mark.parametrize(("flags", "precision", "said"), [
    ("avx2", "float32", "matrix products in float32; switched on: "),
    ("avx2 avx512_bf16", "bfloat16", "matrix products in bfloat16, which cpu has instructions for; switched on: "),
])  # fmt: skip
def test_train_says_once_what_the_processor_chose(corpus, says, tmp_path, monkeypatch, flags, precision, said):
    monkeypatch.setattr(machine, "processor", lambda: {"flags": flags})
    options = [*TINY, "--precision", "auto", "--max-steps", 3]
    status, _, err = says("train", "--corpus", corpus, "--output", tmp_path / "run", *options)
    assert status == 0
    (line,) = [line for line in err.splitlines() if "products in" in line]
    assert line.startswith(said)
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["training"]["precision"] == precision
    assert line.removeprefix(said) == (", ".join(name for name, on in run["settings"].items() if on) or "nothing")


@pytest.mark.slow
def test_settings_are_those_of_the_run_that_is_resumed_and_none_without_acceleration(
    corpus, says, tmp_path, monkeypatch
):
    """What a run recorded is switched again; what cannot be had is said; an option leaves all off."""
    switched = []
    settings = {name: lambda *on, name=name: switched.append((name, *on)) or bool(on and on[0]) for name in ("a", "b")}
    monkeypatch.setattr(acceleration, "PROCESS_SETTINGS", settings)
    monkeypatch.setattr(cli, "PROCESS_SETTINGS", settings)
    run = tmp_path / "run"
    options = [*TINY, "--max-steps", 2, "--no-accelerate"]
    assert says("train", "--corpus", corpus, "--output", run, *options)[0] == 0
    assert switched == [("a", False), ("b", False)]
    content = json.loads((run / "run.json").read_text())
    assert content["settings"] == {"a": False, "b": False}
    assert content["training"]["accelerate"] is False
    content["settings"], content["training"]["accelerate"] = {"a": True, "b": False}, True
    (run / "run.json").write_text(json.dumps(content))
    switched.clear()
    settings["a"] = lambda on: switched.append(("a", on)) or False  # cannot be had here
    _, _, err = says("train", "--resume", "--output", run, "--max-steps", 3, "--quiet")
    assert switched == [("a", True), ("b", False)]
    assert "a was on when the run began, and cannot be so here: results may differ" in err


@pytest.mark.slow
def test_a_resumed_run_in_bfloat16_equals_an_unbroken_one(corpus, says, tmp_path):
    """The working copy is made anew from the saved float32 weights."""
    limit = ["--precision", "bfloat16", "--max-steps"]
    assert says("train", "--corpus", corpus, "--output", tmp_path / "whole", *TINY, *limit, 12)[0] == 0
    assert says("train", "--corpus", corpus, "--output", tmp_path / "parts", *TINY, *limit, 7)[0] == 0
    assert says("train", "--resume", "--output", tmp_path / "parts", "--max-steps", 12, "--quiet")[0] == 0
    one, other = (load_file(tmp_path / name / "checkpoints" / "step-0000012.state") for name in ("whole", "parts"))
    for name in one:
        assert torch.equal(one[name], other[name]), name


def test_training_works_outside_the_main_thread(corpus, tmp_path):
    status = []
    arguments = ["train", "--corpus", str(corpus), "--output", str(tmp_path / "run"), *TINY, "--max-steps", "2"]
    thread = threading.Thread(target=lambda: status.append(cli.main(arguments)))
    thread.start()
    thread.join()
    assert status == [0]


# What training refuses


@pytest.mark.slow
def test_train_with_a_loss_that_is_no_number(corpus, refuses, tmp_path):
    arguments = ["train", "--corpus", corpus, "--output", tmp_path / "run", *TINY, "--max-steps", 40]
    said = refuses(*arguments, "--rate-factor", "1e30")
    assert re.search(r"the (validation )?loss is (nan|inf)", said)
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_train_with_a_vocabulary_that_the_text_cannot_fill(corpus, refuses, tmp_path):
    arguments = ["train", "--corpus", corpus, "--output", tmp_path / "run", *TINY, "--max-steps", 5]
    assert re.search(message("vocabulary-too-large", 37_000), refuses(*arguments, "--vocab-size", 37_000))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []  # the next attempt may use the folder


def test_train_checks_the_model_before_it_learns_a_vocabulary(corpus, refuses, tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "train_on_corpus", lambda *_, **__: pytest.fail("training began"))
    arguments = ["train", "--corpus", corpus, "--output", tmp_path / "run", *TINY]
    assert re.search(message("option-refused", "d_model 15"), refuses(*arguments, "--d-model", 15))
    assert "label_smoothing" in refuses(*arguments, "--label-smoothing", 1.5)
    assert re.search(message("device-unusable", "'tpu'"), refuses(*arguments, "--device", "tpu"))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no such file or folder, and no corpus of that name"),
        ({"data": b""}, "the file is empty"),
        ({"data": b"a dog\tein Hund\na c\xe4t\teine Katze\n"}, "line 2 is not UTF-8 (byte 0xe4)"),
        ({"data": b"a dog\tein Hund\na cat\n"}, "line 2 has no tab"),
        ({"data/train.en": b"a\nb\nc\n", "data/train.de": b"a\nb\n"}, "must have the same number"),
        ({"data/train.en": b"a\n"}, "train.de: no such file"),
        ({"data/notes.txt": b"a\n"}, "no train.en and train.de there"),
    ],
)
def test_train_with_a_corpus_that_cannot_be_read(tmp_path, refuses, files, said):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    last = refuses("train", "--corpus", tmp_path / "data", "--output", tmp_path / "run", *TINY)
    assert said in last
    assert str(tmp_path / "data") in last


@pytest.mark.parametrize("output", ["{tmp}/file/run", "{tmp}/file", "/proc/annotated/run"])
def test_train_where_nothing_can_be_written(corpus, tmp_path, refuses, output):
    (tmp_path / "file").write_text("not a folder")
    output = output.format(tmp=tmp_path)
    if output.startswith("/proc") and not Path("/proc").is_dir():
        pytest.skip("no /proc here")
    last = refuses("train", "--corpus", corpus, "--output", output, *TINY, "--max-steps", 2)
    assert output in last
    assert (tmp_path / "file").read_text() == "not a folder"


def full_disk(*_: object, **__: object):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_train_on_a_full_disk(corpus, tmp_path, refuses, monkeypatch):
    """The disk is full from the beginning, or fills up when the state is saved."""
    arguments = ["train", "--corpus", corpus, *TINY, "--max-steps", 3, "--output"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        assert "No space left on device" in refuses(*arguments, tmp_path / "first")
    real = Path.replace

    def full_later(self: Path, target: Path) -> Path:
        return full_disk() if Path(target).suffix == ".state" else real(self, target)

    monkeypatch.setattr(Path, "replace", full_later)
    said = refuses(*arguments, tmp_path / "second")
    assert re.search(message("file-unwritable", "step-0000000.state", "No space left on device"), said)


# Translating


@pytest.mark.slow
def test_translate_gives_one_line_for_one_line_in_order_whatever_the_locale(run, corpus):
    sources = [line.split("\t")[0] for line in corpus.read_text(encoding="utf-8").splitlines()[48::50]]
    sources[3:3], sources[7:7] = [""], ["   ", "Größe \u2028 東京 😀"]
    mixed = "\ufeff" + "".join(line + ("\r\n" if i % 3 == 0 else "\n") for i, line in enumerate(sources)).rstrip("\n")
    assert not mixed.endswith("\n")
    settings = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}
    done = annotated("translate", run, "--chunk", 4, "--device", "cpu", stdin=mixed.encode(), env=settings)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    translator = Translator.load(run, "cpu")
    alone = [translator.translate([source])[0] for source in sources]
    assert done.stdout.decode("utf-8") == "".join(line + "\n" for line in alone)
    assert alone[3] == alone[7] == ""
    assert len(set(alone)) > 8  # else the order would not show
    assert any(letter in "".join(alone) for letter in "äöüß")


@pytest.mark.slow
def test_translate_says_what_was_cut_and_does_the_other_lines(run, says, monkeypatch):
    lines = ["The dog sees the old bird.", "The king likes the big man. " * 30, "The man hears the nice dog now."]
    type_in(monkeypatch, "\n".join(["", "", "", *lines]).encode())
    status, out, err = says("translate", run, "--chunk", 2, "--device", "cpu")
    assert status == 0
    (said,) = err.splitlines()
    assert re.fullmatch(r"line 5 has \d+ tokens, the model takes 24: the rest is left out", said)
    translator = Translator.load(run, "cpu")
    translated = out.removesuffix("\n").split("\n")
    assert len(translated) == 6
    assert [translated[3], translated[5]] == [translator.translate([lines[i]])[0] for i in (0, 2)]
    assert translated[4] != ""


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 2, 1000])
def test_translate_stops_at_a_line_that_is_not_utf8(run, says, monkeypatch, chunk):
    type_in(monkeypatch, b"The dog sees the old bird.\n\nThe man sees the big dog.\nB\xfccher\nThe king.\n")
    status, out, err = says("translate", run, "--chunk", chunk, "--device", "cpu")
    assert status == 1
    assert re.fullmatch(f"annotated translate: {message('input-not-utf8', 4, 'fc')}\n", err)
    first, empty, third, end = out.split("\n")
    assert "" not in (first, third)
    assert empty == end == ""


@pytest.mark.slow
def test_translate_nothing(run, says, monkeypatch):
    type_in(monkeypatch, b"")
    assert says("translate", run, "--device", "cpu") == (0, "", "")


@pytest.mark.slow
def test_translate_with_prefixes_and_limits(run, says, monkeypatch):
    type_in(monkeypatch, "The dog sees the old bird.\tDer König\nThe man sees the big dog.\n".encode())
    status, out, err = says("translate", run, "--prefixes", "--limit", 9, "--min-length", 4, "--device", "cpu")
    assert (status, err) == (0, "")
    translator = Translator.load(run, "cpu")
    texts = ["The dog sees the old bird.", "The man sees the big dog."]
    expected = translator.translate(texts, prefixes=["Der König", ""], limit=9, min_length=4)
    assert out.splitlines() == expected
    assert expected[0].startswith("Der König")


@pytest.mark.slow
def test_score_says_how_likely_a_translation_is_by_token(run, says, monkeypatch):
    text, given = "The dog sees the old bird.", "Der Hund sieht der alte Vogel."
    type_in(monkeypatch, f"{text}\t {given}\n\t\n{text}\t\n".encode())
    status, out, err = says("score", run, "--device", "cpu")
    assert (status, err) == (0, "")
    assert len(out.splitlines()) == 3  # an empty translation has a score as well
    (tokens,) = Translator.load(run, "cpu").score([text], [given])
    total, *shown = out.splitlines()[0].split("\t")
    assert shown == [f"{piece} {value:.4f}" for piece, value in tokens]
    assert float(total) == pytest.approx(sum(value for _, value in tokens), abs=1e-3)
    type_in(monkeypatch, f"{text}\t{given}\n{text}\n".encode())
    status, out, err = says("score", run, "--device", "cpu")
    assert (status, err) == (1, f"annotated score: {message('score-no-tab', 2)}\n".replace("\\ ", " "))


@pytest.mark.slow
def test_a_least_length_above_the_limit_is_refused(run, says):
    status, out, err = says("translate", run, "--limit", 3, "--min-length", 4, "--device", "cpu")
    assert (status, out) == (2, "")
    assert err.endswith("annotated translate: error: argument --min-length: 4 is above --limit 3\n")


@pytest.mark.parametrize(("eyes", "quiet", "drawn"), [(True, False, True), (True, True, False), (False, False, False)])
def test_a_progress_bar_is_for_eyes(monkeypatch, eyes, quiet, drawn):
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: eyes))
    assert cli.with_bar(argparse.Namespace(quiet=quiet)) is drawn


def test_a_piece_ends_no_column():
    """sentencepiece#907's kind."""
    assert cli.in_a_column("▁a\tb\r\n") == "▁a<0x09>b<0x0D><0x0A>"


@pytest.mark.slow
def test_train_from_a_model_keeps_its_vocabulary_and_begins_with_its_weights(run, corpus, says, refuses, tmp_path):
    """Wanted by users of other systems: go on with a finished model on other data."""
    options = ["--from", run, "--corpus", corpus, "--max-steps", 1, "--max-tokens", 400, "--rate-factor", 1e-9]
    options += ["--average-decay", 0.5, "--recipe", "base", "--accumulation", 1, "--device", "cpu"]
    status, _, err = says("train", *options, "--dropout", 0.2, "--output", tmp_path / "next", "--quiet")
    assert status == 0, err
    assert f"recipe base, beginning with {run}" in err
    assert re.search(r"^step 1: validation loss \d", err, re.M), "--quiet takes the bar away, not the losses"
    before, after = (Translator.load(folder, "cpu") for folder in (run, tmp_path / "next"))
    assert after.tokenizer.model == before.tokenizer.model
    assert after.model.config == replace(before.model.config, dropout=0.2)
    for one, other in zip(before.model.parameters(), after.model.parameters(), strict=True):
        assert (one - other).abs().max() < 1e-4
    assert after.notes["begun_from"] == str(run)
    status, _, err = says("train", "--resume", "--output", tmp_path / "next", "--max-steps", 2, "--quiet")
    assert status == 0, err
    assert json.loads((tmp_path / "next" / "run.json").read_text())["begun_from"] == str(run)
    for option, value, known in (("--d-model", 32, "has 16"), ("--vocab-size", 500, "has 340")):
        line = refuses("train", *options, option, value, "--output", tmp_path / "other")
        assert re.search(f"{message('from-option-changed', option, value, run, known)}$", line)
    assert says("train", *options, "--resume", "--output", tmp_path / "next")[0] == 2


@pytest.mark.slow
def test_a_vocabulary_of_characters_for_small_data(says, refuses, tmp_path):
    """Few pairs: the recipe is another, and what the vocabulary is can be asked of the model."""
    lines = "".join(f"{day}. 3. 19{year}\t19{year}-03-{day} m²\n" for day in range(10, 29) for year in range(60, 69))
    (tmp_path / "dates.tsv").write_text(lines + "\n", encoding="utf-8")  # a blank line at the end
    options = ["--corpus", tmp_path / "dates.tsv", "--output", tmp_path / "run", "--max-steps", 2, "--device", "cpu"]
    status, _, err = says("train", *options, "--vocab-size", "characters", "--d-model", 16, "--d-ff", 16)
    assert status == 0, err
    assert "166 pairs in train, 3 pairs in valid, 3 pairs in test" in err
    assert "recipe tiny" in err
    _, out, _ = says("info", tmp_path / "run")
    assert re.search(r"^vocabulary +2\d\d pieces$", out, re.M)
    assert re.search(r"^normalization +identity, of text before it is cut$", out, re.M)
    translator = Translator.load(tmp_path / "run", "cpu")
    assert translator.tokenizer.to_text(translator.tokenizer.to_ids("1960-03-10 m²")) == "1960-03-10 m²"
    line = refuses("train", "--resume", "--output", tmp_path / "run", "--vocab-size", 300)
    assert "--vocab-size cannot become 300" in line
    status, _, err = says("train", *options[:3], tmp_path / "nfkc", *options[4:], "--normalization", "nfkc")
    assert status == 0, err
    assert Translator.load(tmp_path / "nfkc", "cpu").tokenizer.normalization == "nfkc"


@pytest.mark.slow
def test_n_best_lists(run, says, monkeypatch):
    type_in(monkeypatch, b"The dog sees the old bird.\n\nThe man sees the big dog.\n")
    status, out, err = says("translate", run, "--n-best", 3, "--beam-size", 5, "--chunk", 1, "--device", "cpu")
    assert (status, err) == (0, "")
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "1", "2", "3", "3", "3"]
    assert rows[3] == ["2", "0.0000", ""]
    for number in "13":
        scores = [float(row[1]) for row in rows if row[0] == number]
        assert scores == sorted(scores, reverse=True)
        assert max(scores) < 0
    type_in(monkeypatch, b"The dog sees the old bird.\n")
    assert says("translate", run, "--beam-size", 5, "--device", "cpu")[1] == rows[0][2] + "\n"


@pytest.mark.slow
def test_a_reader_that_goes_away_gets_no_traceback(run):
    lines = b"The dog sees the old bird.\n" * 20_000
    arguments = command("translate", run, "--chunk", 1, "--beam-size", 1, "--device", "cpu")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(arguments, **pipes, **environment({}))
    feeder = threading.Thread(target=feed, args=(process, lines))
    feeder.start()
    assert process.stdout.readline().strip()
    process.stdout.close()  # as `head -1` does
    said = process.stderr.read()
    assert process.wait(limits.PROCESS) == 141
    feeder.join()
    assert said == b""


def feed(process: subprocess.Popen, content: bytes) -> None:
    try:
        process.stdin.write(content)
        process.stdin.close()
    except BrokenPipeError:
        pass


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("name", ["info", "translate"])
def test_output_to_a_full_disk(run, name):
    """Few lines fail when the command ends; many, while it prints, and then the rest must not fail once more."""
    arguments = command("translate", run, "--beam-size", 1, "--device", "cpu") if name == "translate" else command(name)
    lines = b"The dog sees the old bird.\n" * 900
    with open("/dev/full", "wb") as full:
        done = subprocess.run(arguments, input=lines, stdout=full, stderr=subprocess.PIPE, **environment({}))
    assert done.returncode == 1
    stopped = "; stopped after line 0" if name == "translate" else ""
    assert done.stderr.decode() == f"annotated {name}: standard output: No space left on device{stopped}\n"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("line", ["info --help", "--help"])
def test_help_to_a_full_disk_fails_quietly(line):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command(*line.split()), stdout=full, stderr=subprocess.PIPE, **environment({}))
    assert (done.returncode, done.stderr) == (0, b"")  # not Python's "Exception ignored", and not its status 120


@pytest.mark.slow
def test_interrupted_while_translating(run, says, monkeypatch):
    def interrupt(*_: object, **__: object):
        raise KeyboardInterrupt

    monkeypatch.setattr(Translator, "translate_n_best", interrupt)
    type_in(monkeypatch, b"The dog.\n")
    said = "annotated translate: interrupted; stopped after line 0\n"
    assert says("translate", run, "--device", "cpu") == (130, "", said)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="workers are processes on Linux alone")
@pytest.mark.parametrize("ended", ["the command", "a worker"])
def test_translate_says_after_which_line_it_was_stopped(run, ended):
    """What is out by then are the translations of just those lines."""
    arguments = command("translate", run, "--device", "cpu", "--workers", 2, "--chunk", 2)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(arguments, **pipes, preexec_fn=hearing(), **environment({}))
    process.stdin.write(b"The dog.\nThe king.\nThe bird.\n")
    process.stdin.flush()
    lines = [process.stdout.readline() for _ in range(2)]  # the third waits for a fourth
    if ended == "the command":
        process.terminate()
    else:
        os.kill(children(process.pid)[0], signal.SIGTERM)
        end = time.monotonic() + limits.PROCESS
        while children(process.pid) and time.monotonic() < end:  # until then the other would take the next lines
            time.sleep(0.05)
        process.stdin.write(b"The man.\n")
    rest, said = process.communicate(timeout=limits.PROCESS)
    assert all(line.endswith(b"\n") for line in lines)
    assert rest == b""
    reason = "interrupted"
    if ended == "a worker":
        reason = "a worker process ended; if memory was short, lower --max-tokens or --workers"
    assert said.decode() == f"annotated translate: {reason}; stopped after line 2\n"
    assert process.returncode == (1 if ended == "a worker" else 128 + signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("CUDA out of memory."), RuntimeError("can't allocate memory: 8 bytes")]
)
def test_out_of_memory_says_what_to_do(run, refuses, monkeypatch, error):
    def fail(*_: object, **__: object):
        raise error

    monkeypatch.setattr(Translator, "translate_n_best", fail)
    type_in(monkeypatch, b"The dog.\n")
    assert "out of memory: lower --max-tokens" in refuses("translate", run, "--device", "cpu")


@pytest.mark.slow
def test_a_fault_of_the_program_keeps_its_traceback(run, monkeypatch):
    def fail(*_: object, **__: object):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(Translator, "translate_n_best", fail)
    type_in(monkeypatch, b"The dog.\n")
    with pytest.raises(RuntimeError, match="shapes do not match"):
        cli.main(["translate", str(run), "--device", "cpu"])


def spoil(folder: Path, kind: str) -> None:
    """Make one file of a model folder missing or foreign."""
    name, _, fault = kind.partition(" ")
    path = folder / name
    if fault == "missing":
        path.unlink()
    elif fault == "text":
        path.write_text("something else altogether\n" * 10)
    elif fault == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    elif fault == "other":
        path.write_text('{"architectures": ["MarianMTModel"]}')
    elif fault == "smaller":
        save_file({key: value[:1].clone() for key, value in load_file(path).items()}, path)
    else:
        shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    ["folder", "config.json missing", "config.json text", "config.json other", "tokenizer.model missing",
     "tokenizer.model text", "model.safetensors missing", "model.safetensors text", "model.safetensors truncated",
     "model.safetensors smaller"],
)  # fmt: skip
def test_a_model_folder_with_a_missing_or_foreign_file(own_run, refuses, monkeypatch, kind):
    spoil(own_run, kind)
    type_in(monkeypatch, b"The dog.\n")
    last = refuses("translate", own_run, "--device", "cpu")
    assert str(own_run if kind == "folder" else own_run / kind.split()[0]) in last


# Evaluating


@pytest.mark.slow
def test_evaluate_prints_and_writes_scores(run, corpus, says, tmp_path):
    files = ["--json", tmp_path / "new" / "scores.json", "--translations", tmp_path / "test.de"]
    status, out, err = says("evaluate", run, "--beam-size", 2, "--device", "cpu", *files)
    assert (status, err) == (0, f"test is a part of {corpus}: --split all takes all of its 600 pairs\n")
    references = [line.split("\t")[1] for line in corpus.read_text(encoding="utf-8").splitlines()[49::50]]
    translations = (tmp_path / "test.de").read_text(encoding="utf-8").splitlines()
    assert len(translations) == len(references) == 12
    expected = sacrebleu.corpus_bleu(translations, [references])
    scores = json.loads((tmp_path / "new" / "scores.json").read_text())
    assert scores["bleu"] == pytest.approx(expected.score)
    assert scores["exact_match"] == sum(map(str.__eq__, translations, references)) / 12
    assert (scores["split"], scores["beam_size"], scores["sentences"]) == ("test", 2, 12)
    assert (scores["model"], scores["corpus"]) == (str(run), str(corpus))
    assert {"device", "threads", "torch", "revision", "seconds", "length_penalty"} <= scores.keys()
    signature = f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert f"BLEU {expected.score:.2f} ({signature}, brevity penalty" in out
    assert f"exact match {100 * scores['exact_match']:.2f}%" in out
    assert list(tmp_path.rglob("*.partial")) == []


@pytest.mark.slow
def test_evaluate_another_split_of_another_corpus(run, says, tmp_path):
    (tmp_path / "dev.en").write_text("The dog sees the old bird.\nThe dog.\nThe big man knows it.\n")
    (tmp_path / "dev.de").write_text("Der Hund sieht der alte Vogel.\nDer Hund.\nDer große Mann kennt es.\n")
    arguments = ["evaluate", run, "--corpus", tmp_path, "--split", "valid", "--max-words", 5, "--device", "cpu"]
    status, out, _ = says(*arguments, "--json", tmp_path / "scores.json")
    assert status == 0
    assert out.startswith(f"{tmp_path}, valid: 2 sentences, beam 4")
    assert json.loads((tmp_path / "scores.json").read_text())["max_words"] == 5


@pytest.mark.slow
def test_evaluate_counts_chinese_by_characters(run, says, tmp_path, monkeypatch):
    """The ruler follows from the target language; `--ruler` is another one; German keeps its three."""
    (tmp_path / "test.en").write_text("The dog sees the old bird.\nThe dog.\n", encoding="utf-8")
    wanted = ["那只狗看见那只老鸟。", "那只狗。"]
    (tmp_path / "test.zh").write_text("\n".join(wanted), encoding="utf-8")
    monkeypatch.setattr(cli.Translator, "translate", lambda *_, **__: ["那只狗看见那只老猫。", "那只狗。"])
    arguments = ["evaluate", run, "--corpus", tmp_path, "--target", "zh", "--device", "cpu"]
    for options, ruler in (([], "zh"), (["--ruler", "char"], "char"), (["--ruler", "intl"], "intl")):
        status, out, err = says(*arguments, *options, "--json", tmp_path / "scores.json")
        scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
        assert (status, out.count("BLEU")) == (0, 1)
        assert f"|tok:{ruler}|" in out
        assert f"|tok:{ruler}|" in scores["bleu_signature"]
        assert list(scores["rulers"]) == [ruler]
        assert scores["exact_match"] == 0.5
        few = ["most references have fewer than 4 tokens by the ruler intl: BLEU says nothing here, look at chrF and "
               "exact matches"]  # fmt: skip
        assert scores["remarks"] == (few if ruler == "intl" else [])
        assert err.splitlines() == scores["remarks"]
    assert says(*arguments, "--ruler", "moses")[0] == 2
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    (tmp_path / "test.zh").rename(tmp_path / "test.ja")
    arguments[5] = "ja"
    (said,) = says(*arguments)[2].splitlines()
    assert re.fullmatch(f"BLEU counts characters here: {message('ruler-package')}", said)
    monkeypatch.setattr(cli.Translator, "translate", lambda *_, **__: pytest.fail("translated first"))
    status, _, err = says(*arguments, "--ruler", "ja-mecab")
    assert (status, err.count("\n")) == (1, 1)


@pytest.mark.slow
def test_evaluate_does_not_count_empty_pairs(run, says, refuses, tmp_path):
    """Blank lines in both files: nothing is translated right there. The files stay parallel."""
    (tmp_path / "test.en").write_text("\nThe dog sees the old bird.\n  \nThe dog.\n\n", encoding="utf-8")
    (tmp_path / "test.de").write_text("\nnot that\n\nnor that\n\n", encoding="utf-8")
    files = ["--json", tmp_path / "scores.json", "--translations", tmp_path / "out.de"]
    status, out, err = says("evaluate", run, "--corpus", tmp_path, "--device", "cpu", *files)
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert (status, scores["sentences"], scores["left_out"], scores["exact_match"]) == (0, 2, 3, 0)
    assert "test: 2 sentences" in out
    assert "not counted, since both sides of a pair are empty: 3 of 5 pairs\n" in err
    lines = (tmp_path / "out.de").read_text(encoding="utf-8").split("\n")
    assert [bool(line) for line in lines] == [False, True, False, True, False, False]
    (tmp_path / "scores.json").unlink()
    (tmp_path / "out.de").unlink()
    last = refuses("evaluate", run, "--corpus", tmp_path, "--max-words", 1, "--device", "cpu")
    assert re.search(message("evaluate-no-pair", tmp_path, "test"), last)
    (tmp_path / "test.en").write_text("The dog.\n\n", encoding="utf-8")
    (tmp_path / "test.de").write_text("\nDer Hund.\n", encoding="utf-8")  # a side is there: both count
    says("evaluate", run, "--corpus", tmp_path, "--device", "cpu", *files)
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert (scores["sentences"], scores["left_out"]) == (2, 0)


@pytest.mark.slow
def test_evaluate_refuses_what_it_cannot_score(run, corpus, refuses, tmp_path):
    for options, says in (
        (["--split", "dev"], message("split-unknown", corpus, "'dev'")),
        (["--max-words", 1], message("evaluate-no-pair", corpus, "test")),
        (["--corpus", tmp_path / "x"], message("corpus-unknown", tmp_path / "x")),
    ):
        assert re.search(says, refuses("evaluate", run, *options, "--device", "cpu"))


@pytest.mark.slow
def test_evaluate_does_not_write_two_things_into_one_file(run, capsys, tmp_path):
    both = ["--json", str(tmp_path / "out"), "--translations", str(tmp_path / "x" / ".." / "out")]
    assert cli.main(["evaluate", str(run), *both]) == 2
    assert "would both write" in capsys.readouterr().err


@pytest.mark.slow
def test_a_fault_of_the_program_is_not_called_the_user_s(run, monkeypatch):
    """A ValueError that nobody foresaw keeps its traceback."""

    def fails(*_: object) -> None:
        raise ValueError("shapes do not match")

    monkeypatch.setattr(cli.Translator, "load", fails)
    with pytest.raises(ValueError, match="shapes do not match"):
        cli.main(["translate", str(run)])


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--json", "--translations"])
def test_evaluate_tries_its_output_files_first(run, refuses, monkeypatch, tmp_path, option):
    monkeypatch.setattr(cli.Translator, "load", lambda *_: pytest.fail("the model was loaded first"))
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    inside, link = tmp_path / "file" / "out", tmp_path / "link"
    for path, says in {
        inside: message("output-no-folder", inside, inside.parent),
        tmp_path: message("output-is-link", tmp_path),
        link: message("output-is-link", link),
    }.items():
        assert re.search(says, refuses("evaluate", run, option, path, "--device", "cpu"))
    monkeypatch.setattr(os, "fsync", full_disk)
    last = refuses("evaluate", run, option, tmp_path / "out")
    assert re.search(message("output-unwritable", tmp_path / "out", "No space left on device"), last)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--json", "--translations"])
def test_evaluate_on_a_disk_that_fills_up(run, refuses, monkeypatch, tmp_path, option):
    (tmp_path / "out").write_text("from before")
    monkeypatch.setattr(os, "fsync", full_disk)
    last = refuses("evaluate", run, option, tmp_path / "out", "--device", "cpu")
    assert re.search(message("output-unwritable", tmp_path / "out", "No space left on device"), last)
    assert (tmp_path / "out").read_text() == "from before"


# Averaging, and saying what is there


@pytest.mark.slow
def test_average_is_the_mean_of_the_last_checkpoints(run, says, tmp_path):
    status, out, err = says("average", run, "--last", 3, "--output", tmp_path / "mean")
    assert (status, out) == (0, "")
    names = [f"step-{step:07d}.safetensors" for step in (STEPS - 2, STEPS - 1, STEPS)]
    assert err == f"the average of {', '.join(names)} is in {tmp_path / 'mean'}\n"
    mean = load_file(tmp_path / "mean" / "model.safetensors")
    parts = [load_file(run / "checkpoints" / name) for name in names]
    for key, value in mean.items():
        assert torch.allclose(value, torch.stack([part[key] for part in parts]).mean(0), atol=1e-6), key
    config = json.loads((tmp_path / "mean" / "config.json").read_text())
    assert config["average_of"] == names
    assert not {"step", "valid_loss"} & config.keys()  # those were the best model's
    assert Translator.load(tmp_path / "mean", "cpu").translate(["The dog sees the old bird."]) != [""]


@pytest.mark.slow
def test_average_refuses(own_run, refuses, tmp_path):
    before = (own_run / "model.safetensors").read_bytes()
    assert re.search(message("folder-taken", own_run, "run"), refuses("average", own_run, "--output", own_run))
    assert (own_run / "model.safetensors").read_bytes() == before
    new = ["--output", tmp_path / "mean"]
    assert re.search(
        message("too-few-checkpoints", own_run / "checkpoints", 5, 6), refuses("average", own_run, "--last", 6, *new)
    )
    nothing = tmp_path / "nothing"
    assert re.search(message("run-folder-missing", nothing), refuses("average", nothing, *new))
    weights = sorted((own_run / "checkpoints").glob("*.safetensors"))
    for path in weights:
        save_file({"weight": torch.zeros(2)}, path)
    assert re.search(message("damaged-size", weights[0]), refuses("average", own_run, *new))
    for path in weights:
        path.with_suffix(".json").unlink()
    assert re.search(message("tensor-missing", own_run / "checkpoints"), refuses("average", own_run, *new))
    weights[0].write_text("not a checkpoint")
    assert re.search(message("not-safetensors", weights[0]), refuses("average", own_run, *new))
    assert not (tmp_path / "mean").exists()


@pytest.mark.slow
def test_a_model_on_numbers_is_described_and_averaged_but_takes_no_text(own_run, says, refuses, monkeypatch, tmp_path):
    """Chapter 94: such a folder has no tokenizer, and its config.json says so."""
    model, _, notes = load_model(own_run)
    save_model(own_run, model, corpus=notes["corpus"])
    (own_run / "tokenizer.model").unlink()
    status, out, err = says("info", own_run)
    assert (status, err) == (0, "")
    shown = dict(re.split("  +", line, maxsplit=1) for line in out.splitlines())
    assert shown["vocabulary"] == f"{model.config.vocab_size:,} token ids, no tokenizer"
    assert "tokenizer" not in shown
    type_in(monkeypatch, b"The dog sees the king.\n")
    assert re.search(message("model-without-tokenizer", own_run), refuses("translate", own_run))
    assert says("average", own_run, "--last", 2, "--output", tmp_path / "mean")[0] == 0
    assert load_model(tmp_path / "mean")[1] is None
    assert not (tmp_path / "mean" / "tokenizer.model").exists()


@pytest.mark.slow
def test_average_on_a_full_disk(run, refuses, monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "replace", full_disk)
    assert "No space left on device" in refuses("average", run, "--output", tmp_path / "mean")


@pytest.mark.slow
def test_info_of_a_run(run, says):
    status, out, err = says("info", run)
    assert (status, err) == (0, "")
    shown = dict(line.split(maxsplit=1) for line in out.splitlines() if not line.startswith("run: "))
    config = TransformerConfig(340, d_model=16, d_ff=32, num_heads=2, num_layers=1)
    assert shown["parameters"] == f"{Transformer(config).num_parameters():,}"
    assert shown["vocabulary"] == "340 pieces"
    assert (shown["d_model"], shown["num_layers"], shown["source"], shown["target"]) == ("16", "1", "en", "de")
    assert math.isfinite(float(shown["valid_loss"]))
    assert re.search(rf"^run: steps +{STEPS}$", out, re.MULTILINE)
    assert re.search(r"^run: checkpoints +5$", out, re.MULTILINE)


def test_info_of_the_model_that_the_package_carries(says, refuses, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert says("info", "embedded") == says("info", ROOT / "data" / "models" / "embedded")
    assert re.search(message("model-name-unknown", "elsewhere"), refuses("info", "elsewhere"))


def test_info_of_the_installation(says):
    status, out, _ = says("info")
    assert status == 0
    assert re.search(rf"^torch +{re.escape(torch.__version__)}$", out, re.MULTILINE)
    assert re.search(r"^device +(cpu|cuda): ", out, re.MULTILINE)


def test_info_refuses_a_folder_without_a_model(refuses, tmp_path):
    assert re.search(message("file-unreadable", tmp_path / "config.json"), refuses("info", tmp_path))


# Options and help


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command(says, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "100")
    status, out, err = says(name, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: annotated {name} ")
    examples = out.partition("examples:\n")[2].splitlines()
    shown = []
    for line in examples:  # an example that the parser refuses would be worse than none
        words = re.sub(r"^.*?\| |[<>] \S+", "", line).split()
        assert words[0] == "annotated"
        shown.append(cli.build_parser().parse_args(words[1:]).command)
    assert name in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_help_text(name):
    parser = argparse.ArgumentParser()
    cli.OPTIONS[name](parser)
    for action in parser._actions:
        assert len(action.help or "") > 8, action.option_strings


def test_help_names_every_format_corpus_and_split(says, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    assert f"--format {'|'.join(cli.FORMATS)} MODEL" in says("export", "--help")[1]
    for _, readers, _ in cli.FORMATS.values():
        assert readers in " ".join(says("export", "--help")[1].split())
    assert f"--corpus NAME  {', '.join(NAMED)}, a folder" in re.sub("  +", "  ", says("train", "--help")[1])
    assert f" {', '.join(SPLITS)} (default: test)" in says("evaluate", "--help")[1]


def test_top_help_and_version(says):
    out = says("--help")[1]
    for name in COMMANDS:
        assert re.search(rf"^    {name}\b", out, re.MULTILINE)
    assert "exit status" in out
    assert says("--version") == (0, f"annotated {cli.__version__}\n", "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "required: COMMAND"),
        ("fly", "invalid choice"),
        ("train --output x", "required: --corpus"),
        ("train --corpus embedded", "required: --output"),
        ("train --corpus embedded --output x --depth 6", "unrecognized arguments: --depth 6"),
        ("train --corpus embedded --output x --max-step 6", "unrecognized arguments: --max-step 6"),
        ("train --corpus embedded --output x --recipe huge", "invalid choice: 'huge'"),
        ("train --corpus embedded --output x --vocab-size 0", "--vocab-size: a whole number of at least 1"),
        ("translate", "required: MODEL"),
        ("translate x --beam-size 0", "--beam-size: a whole number of at least 1"),
        ("translate x --beam-size four", "--beam-size: a whole number of at least 1 is needed, not 'four'"),
        ("translate x --n-best 0", "--n-best: a whole number of at least 1"),
        ("translate x --chunk 0", "--chunk: a whole number of at least 1"),
        ("translate x --length-penalty 10000", "--length-penalty: a number from 0 to 100"),
        ("translate x --length-penalty nan", "--length-penalty: a number from 0 to 100"),
        ("evaluate x --max-words 0", "--max-words: a whole number of at least 1"),
        ("average x --output y --last 0", "--last: a whole number of at least 1"),
        ("average x", "required: --output"),
    ],
)
def test_wrong_options_exit_with_two(says, line, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = says(*line.split())
    assert (status, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 2  # usage, error


@pytest.mark.slow
@pytest.mark.parametrize(("options", "beam"), [([], 4), (["--beam-size", 2], 2)])
def test_more_translations_than_the_beam_has(says, run, options, beam):
    """How wide the beam is may depend on the model, so this comes after loading it."""
    status, out, err = says("translate", run, "--device", "cpu", "--n-best", 5, *options)
    assert (status, out) == (2, "")
    assert f"--n-best: a beam of {beam} has no 5 translations" in err


def test_train_states_pre_norm_before_it_begins(corpus, says, tmp_path):
    """A run says which options beyond the paper it uses, the norm's place among them."""
    options = ["--output", tmp_path / "run", *TINY, "--norm-first", "--max-steps", 1]
    status, _, err = says("train", "--corpus", corpus, *options)
    assert status == 0
    assert "norm_first True" in next(line for line in err.splitlines() if "beyond the paper" in line)
