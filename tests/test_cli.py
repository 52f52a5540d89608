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
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from itertools import product
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace

import pytest
import sacrebleu
import torch
from safetensors.torch import load_file

from annotated.command import cli
from annotated.command.commands import COMMANDS
from annotated.machine import acceleration
from annotated.machine import devices as machine
from annotated.model import Transformer, TransformerConfig
from annotated.runs.checkpoint import load_model, save_model
from annotated.search.translation import Translator
from tests import forked
from tests.forked import children, hearing
from tools import limits

ROOT = Path(__file__).resolve().parents[1]
SIZES = "--vocab-size 340 --d-model 16 --num-heads 2 --d-ff 32 --num-layers 1 --dropout 0 --max-length 24"
LIMITS = "--max-tokens 400 --warmup-steps 30 --rate-factor 0.4 --precision float32 --device cpu --quiet"
TINY = f"--recipe base --accumulation 1 {SIZES} {LIMITS}".split()
STEPS = 150


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
    limits = f"--max-steps {STEPS} --validate-every 40 --checkpoint-minutes 0".split()
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        assert cli.main(["train", "--corpus", str(corpus), "--output", str(folder), *TINY, *limits]) == 0
    last = said.getvalue().splitlines()[-1]
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
def test_train_writes_a_complete_run_folder_and_info_tells_of_it(run, corpus, says):
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
    status, out, err = says("info", run)
    assert (status, err) == (0, "")
    shown = dict(re.split("  +", line, maxsplit=1) for line in out.splitlines())
    config = TransformerConfig(340, d_model=16, d_ff=32, num_heads=2, num_layers=1)
    assert shown["parameters"] == f"{Transformer(config).num_parameters():,}"
    assert (shown["vocabulary"], shown["d_model"], shown["source"], shown["target"]) == ("340 pieces", "16", "en", "de")
    assert math.isfinite(float(shown["valid_loss"]))
    assert (shown["run: steps"], shown["run: checkpoints"]) == (str(STEPS), "5")


@pytest.mark.slow
def test_a_resumed_run_has_the_bits_of_an_unbroken_one(corpus, says, tmp_path):
    """In bfloat16, too, where the working copy is made anew from the saved float32 weights."""
    limit, parts = ["--precision", "bfloat16", "--validate-every", 6, "--max-steps"], tmp_path / "parts"
    assert says("train", "--corpus", corpus, "--output", tmp_path / "whole", *TINY, *limit, 20)[0] == 0
    assert says("train", "--corpus", corpus, "--output", parts, *TINY, *limit, 12)[0] == 0
    described = json.loads((parts / "run.json").read_text())
    (parts / "run.json").write_text(json.dumps(described | {"command": "what started it"}))
    resume = ["train", "--resume", "--output", parts, "--quiet", "--device", "cpu"]
    status, _, err = says(*resume, "--max-steps", 20)
    assert (status, err.count("resuming the run in")) == (0, 1)
    assert_in_order(metrics(parts))
    assert metrics(parts)[-1]["step"] == 20
    whole, other = (load_file(folder / "checkpoints/step-0000020.state") for folder in (tmp_path / "whole", parts))
    assert [name for name, tensor in whole.items() if not torch.equal(tensor, other[name])] == []
    one, two = (json.loads((folder / "run.json").read_text()) for folder in (tmp_path / "whole", parts))
    same = ("model", "training", "steps", "target_tokens", "beyond_the_paper", "corpus", "best_valid_loss")
    assert [one[key] for key in same] == [two[key] for key in same]
    assert two["command"] == "what started it"  # the command that can be repeated, not that of the resume
    status, _, err = says(*resume)
    assert (status, "had reached its limit already" in err) == (0, True)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signals here")
@pytest.mark.parametrize(("name", "ignored"), [("SIGINT", []), ("SIGHUP", []), ("SIGTERM", ["SIGHUP"])])
def test_a_signal_saves_the_state_and_resume_goes_on(corpus, says, tmp_path, name, ignored):
    """Ctrl-C, a closed terminal, a request to end; one that is ignored, as under nohup, changes nothing."""
    folder = tmp_path / "run"
    said = endless(corpus, folder, getattr(signal, name), tuple(getattr(signal, one) for one in ignored))
    assert "Traceback" not in said
    assert f"`annotated train --resume --output {folder}` goes on" in said.splitlines()[-1]
    record = json.loads((folder / "run.json").read_text())
    assert record["finished"] is False
    assert list(folder.rglob("*.partial")) == []
    last = record["steps"] + 9
    assert says("train", "--resume", "--output", folder, "--quiet", "--max-steps", last)[0] == 0
    assert_in_order(metrics(folder))
    assert json.loads((folder / "run.json").read_text())["steps"] == last


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


def wait_for(condition, process: BaseProcess) -> None:
    end = time.monotonic() + limits.PROCESS
    while not condition():
        assert process.exitcode is None, "the command ended early"
        assert time.monotonic() < end, "the command took too long"
        time.sleep(0.05)


@pytest.mark.parametrize(("flags", "precision"), [("avx2", "float32"), ("avx2 avx512_bf16", "bfloat16")])
def test_train_says_what_the_processor_chose_and_what_is_beyond_the_paper(
    corpus, says, tmp_path, monkeypatch, flags, precision
):
    monkeypatch.setattr(machine, "processor", lambda: {"flags": flags})
    options = [*TINY, "--precision", "auto", "--norm-first", "--max-steps", 1]
    status, _, err = says("train", "--corpus", corpus, "--output", tmp_path / "run", *options)
    assert status == 0
    (line,) = [line for line in err.splitlines() if "products in" in line]
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert f"products in {precision}" in line
    assert run["training"]["precision"] == precision
    assert line.partition("on: ")[2] == (", ".join(name for name, on in run["settings"].items() if on) or "nothing")
    assert re.search("beyond the paper: .*norm_first True", err)


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


def test_training_works_outside_the_main_thread(corpus, tmp_path):
    status = []
    arguments = ["train", "--corpus", str(corpus), "--output", str(tmp_path / "run"), *TINY, "--max-steps", "2"]
    thread = threading.Thread(target=lambda: status.append(cli.main(arguments)))
    thread.start()
    thread.join()
    assert status == [0]


def test_a_disk_that_fills_up_when_the_state_is_saved(corpus, tmp_path, says, monkeypatch):
    real = Path.replace

    def full_later(self: Path, target: Path) -> Path:
        if Path(target).suffix == ".state":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", full_later)
    status, _, err = says("train", "--corpus", corpus, *TINY, "--max-steps", 3, "--output", tmp_path / "run")
    assert status == 1
    assert "step-0000000.state: cannot be written (No space left on device)" in err.splitlines()[-1]
    assert list(tmp_path.rglob("*.partial")) == []


# Translating


@pytest.mark.slow
def test_one_line_for_one_line_in_order_whatever_the_locale(run, corpus):
    """As a process of its own, which nothing else here has to be."""
    sources = [line.split("\t")[0] for line in corpus.read_text(encoding="utf-8").splitlines()[48::50]]
    sources[3:3], sources[7:7] = [""], ["   ", "Größe \u2028 東京 😀"]
    mixed = "\ufeff" + "".join(line + ("\r\n" if i % 3 == 0 else "\n") for i, line in enumerate(sources)).rstrip("\n")
    settings = environment({"env": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}})
    words = command("translate", run, "--chunk", 4, "--device", "cpu")
    done = subprocess.run(words, input=mixed.encode(), capture_output=True, timeout=limits.PROCESS, **settings)
    assert (done.returncode, done.stderr) == (0, b"")
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
def test_translate_stops_at_a_line_that_is_not_utf8(run, says, monkeypatch):
    type_in(monkeypatch, b"The dog sees the old bird.\n\nThe man sees the big dog.\nB\xfccher\nThe king.\n")
    status, out, err = says("translate", run, "--chunk", 2, "--device", "cpu")
    assert (status, err.count("\n")) == (1, 1)
    assert "line 4 is not UTF-8 (byte 0xfc). Convert the text" in err  # the note follows
    assert [bool(line) for line in out.split("\n")] == [True, False, True, False]
    type_in(monkeypatch, b"")
    assert says("translate", run, "--device", "cpu") == (0, "", "")


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
    type_in(monkeypatch, f"{text}\t{given}\nno tab\n".encode())
    status, begun, err = says("score", run, "--device", "cpu")
    assert (status, begun, "line 2" in err) == (1, out.splitlines()[0] + "\n", True)


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_command_works_where_an_output_is_closed(run, monkeypatch, name):
    type_in(monkeypatch, b"The dog sees the old bird.\n")
    monkeypatch.setattr(sys, name, None)
    assert cli.main(["translate", str(run), "--device", "cpu"]) == 0


def test_a_progress_bar_is_for_eyes(monkeypatch):
    for eyes, quiet, drawn in ((True, False, True), (True, True, False), (False, False, False)):
        monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda eyes=eyes: eyes))
        assert cli.with_bar(argparse.Namespace(quiet=quiet)) is drawn


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
def test_drawn_lines_are_the_same_in_any_chunks(run, says, monkeypatch):
    drawn = []
    for options in (("--chunk", 1), (), ("--seed", 2)):
        type_in(monkeypatch, b"The dog sees the old bird.\n" * 6)
        status, out, err = says("translate", run, "--sample", 3, "--device", "cpu", *options)
        assert (status, err) == (0, "")
        drawn.append(out.splitlines())
    assert len(set(drawn[0])) > 1
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_piece_ends_no_column():
    """sentencepiece#907's kind."""
    assert cli.in_a_column("▁a\tb\r\n") == "▁a<0x09>b<0x0D><0x0A>"


@pytest.mark.slow
def test_train_from_a_model_keeps_its_vocabulary_and_begins_with_its_weights(run, corpus, says, tmp_path):
    """Wanted by users of other systems: go on with a finished model on other data."""
    options = ["--from", run, "--corpus", corpus, "--max-steps", 1, "--max-tokens", 400, "--rate-factor", 1e-9]
    options += ["--average-decay", 0.5, "--recipe", "base", "--accumulation", 1, "--device", "cpu"]
    status, _, err = says("train", *options, "--dropout", 0.2, "--output", tmp_path / "next", "--quiet")
    assert status == 0, err
    assert re.search(r"^step 1: validation loss \d", err, re.M), "--quiet takes the bar away, not the losses"
    before, after = (Translator.load(folder, "cpu") for folder in (run, tmp_path / "next"))
    assert after.tokenizer.model == before.tokenizer.model
    assert after.model.config == replace(before.model.config, dropout=0.2)
    for one, other in zip(before.model.parameters(), after.model.parameters(), strict=True):
        assert (one - other).abs().max() < 1e-4
    assert after.notes["begun_from"] == str(run)
    assert says("train", "--resume", "--output", tmp_path / "next", "--max-steps", 2, "--quiet")[0] == 0
    assert json.loads((tmp_path / "next" / "run.json").read_text())["begun_from"] == str(run)


@pytest.mark.slow
def test_a_vocabulary_of_characters_for_small_data(says, tmp_path):
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
    assert re.search(r"^normalization +identity", out, re.M)
    translator = Translator.load(tmp_path / "run", "cpu")
    assert translator.tokenizer.to_text(translator.tokenizer.to_ids("1960-03-10 m²")) == "1960-03-10 m²"
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
@pytest.mark.parametrize(("error", "status", "said"), [
    (KeyboardInterrupt(), 130, "interrupted"), (MemoryError(), 1, "out of memory"),
    (RuntimeError("CUDA out of memory."), 1, "out of memory"),
    (RuntimeError("can't allocate memory: 8 bytes"), 1, "out of memory"),
])  # fmt: skip
def test_what_ends_a_translation_is_one_line(run, says, monkeypatch, error, status, said):
    def fail(*_: object, **__: object):
        raise error

    monkeypatch.setattr(Translator, "translate_n_best", fail)
    type_in(monkeypatch, b"The dog.\n")
    found, out, err = says("translate", run, "--device", "cpu")
    assert (found, out) == (status, "")
    assert re.fullmatch(f"annotated translate: {said}.*; stopped after line 0\n", err)


@pytest.mark.parametrize("fault", [RuntimeError, ValueError])
def test_a_fault_of_the_program_keeps_its_traceback(monkeypatch, fault):
    """It is not called the user's."""

    def fail(*_: object, **__: object):
        raise fault("shapes do not match")

    monkeypatch.setattr(cli.Translator, "load", fail)
    with pytest.raises(fault, match="shapes do not match"):
        cli.main(["translate", "embedded"])


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
    (tmp_path / "test.zh").write_text("那只狗看见那只老鸟。\n那只狗。", encoding="utf-8")
    monkeypatch.setattr(cli.Translator, "translate", lambda *_, **__: ["那只狗看见那只老猫。", "那只狗。"])
    arguments = ["evaluate", run, "--corpus", tmp_path, "--target", "zh", "--device", "cpu"]
    for options, ruler in (([], "zh"), (["--ruler", "intl"], "intl")):
        status, out, err = says(*arguments, *options, "--json", tmp_path / "scores.json")
        scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
        assert (status, out.count("BLEU")) == (0, 1)
        assert f"|tok:{ruler}|" in out
        assert f"|tok:{ruler}|" in scores["bleu_signature"]
        assert (list(scores["rulers"]), scores["exact_match"]) == ([ruler], 0.5)
        assert err.splitlines() == scores["remarks"]
        assert len(scores["remarks"]) == (ruler == "intl")  # too few tokens
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    (tmp_path / "test.zh").rename(tmp_path / "test.ja")
    arguments[5] = "ja"
    assert "counts characters here" in says(*arguments)[2]
    monkeypatch.setattr(cli.Translator, "translate", lambda *_, **__: pytest.fail("translated first"))
    status, _, err = says(*arguments, "--ruler", "ja-mecab")
    assert (status, err.count("\n")) == (1, 1)


@pytest.mark.slow
def test_evaluate_does_not_count_empty_pairs(run, says, tmp_path):
    """Blank lines in both files: nothing is translated right there. The files stay parallel."""
    (tmp_path / "test.en").write_text("\nThe dog sees the old bird.\n  \nThe dog.\n\n", encoding="utf-8")
    (tmp_path / "test.de").write_text("\nnot that\n\nnor that\n\n", encoding="utf-8")
    files = ["--json", tmp_path / "scores.json", "--translations", tmp_path / "out.de"]
    options = ["evaluate", run, "--corpus", tmp_path, "--device", "cpu"]
    status, out, err = says(*options, *files)
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert (status, scores["sentences"], scores["left_out"], scores["exact_match"]) == (0, 2, 3, 0)
    assert "test: 2 sentences" in out
    assert "3 of 5 pairs" in err
    lines = (tmp_path / "out.de").read_text(encoding="utf-8").split("\n")
    assert [bool(line) for line in lines] == [False, True, False, True, False, False]
    assert says(*options, "--max-words", 1)[0] == 1  # only empty ones are left
    (tmp_path / "test.en").write_text("The dog.\n\n", encoding="utf-8")
    (tmp_path / "test.de").write_text("\nDer Hund.\n", encoding="utf-8")  # a side is there: both count
    says(*options, *files)
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert (scores["sentences"], scores["left_out"]) == (2, 0)


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
def test_a_model_on_numbers_is_described_and_averaged(own_run, says, tmp_path):
    """Chapter 94: such a folder has no tokenizer, and its config.json says so."""
    model, _, notes = load_model(own_run)
    save_model(model, own_run, corpus=notes["corpus"])
    (own_run / "tokenizer.model").unlink()
    status, out, err = says("info", own_run)
    assert (status, err) == (0, "")
    shown = dict(re.split("  +", line, maxsplit=1) for line in out.splitlines())
    assert shown["vocabulary"] == f"{model.config.vocab_size:,} token ids, no tokenizer"
    assert "tokenizer" not in shown
    assert says("average", own_run, "--last", 2, "--output", tmp_path / "mean")[0] == 0
    assert load_model(tmp_path / "mean")[1] is None
    assert not (tmp_path / "mean" / "tokenizer.model").exists()


def test_info_of_the_installation_and_of_the_model_that_it_carries(says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, _ = says("info")
    assert status == 0
    assert re.search(rf"^torch +{re.escape(torch.__version__)}$", out, re.MULTILINE)
    assert re.search(r"^device +(cpu|cuda): ", out, re.MULTILINE)
    assert says("info", "embedded") == says("info", ROOT / "data" / "models" / "embedded")


# Options and help


def test_help_of_every_command(says):
    """An example that the parser refuses would be worse than none."""
    for name in COMMANDS:
        status, out, err = says(name, "--help")
        assert (status, err) == (0, "")
        assert out.startswith(f"usage: annotated {name} ")
        examples = [
            re.sub(r"^.*?\| |[<>] \S+", "", line).split() for line in out.partition("examples:\n")[2].splitlines()
        ]
        assert {words[0] for words in examples} == {"annotated"}
        assert name in {cli.build_parser().parse_args(words[1:]).command for words in examples}


def test_every_option_has_a_help_text():
    for name in COMMANDS:
        parser = argparse.ArgumentParser()
        cli.OPTIONS[name](parser)
        assert [action.dest for action in parser._actions if len(action.help or "") <= 8] == []
