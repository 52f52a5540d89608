"""Bad input of every command: one line on standard error, an exit status, and no file is written or changed."""

import errno
import gzip
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import save_file

from annotated.base.files import COPY_WHOLE, write_json
from annotated.command.cli import main
from annotated.runs.checkpoint import load_model, save_model
from tests.stores import make, write_pairs

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

from appendices import messages_of  # noqa: E402

SIZES = "--vocab-size 300 --d-model 16 --num-heads 2 --d-ff 32 --num-layers 1 --dropout 0 --max-length 24"
TINY = f"--recipe base --accumulation 1 {SIZES} --max-tokens 400 --precision float32 --device cpu --quiet"
TRAIN = f"train --corpus pairs.tsv --output new {TINY}"
RESUME = "train --resume --output run --max-steps 99 --quiet"
FILES = "prepare --output new --corpus"
WEIGHTS = "run/model.safetensors"
LAST = "run/checkpoints/step-0000002"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs, a run of two steps, the same model without its tokenizer, a store, a file."""
    folder = tmp_path_factory.mktemp("home")
    write_pairs(folder / "pairs.tsv")
    command = f"train --corpus {folder}/pairs.tsv --output {folder}/run {TINY} --max-steps 2 --checkpoint-minutes 0"
    assert main(command.split()) == 0
    run = json.loads((folder / "run" / "run.json").read_text())
    write_json(folder / "run" / "run.json", run | {"corpus": "pairs.tsv"})
    save_model(load_model(folder / "run").model, folder / "numbers")
    make(folder / "store")
    (folder / "file").write_text("not a folder")
    return folder


class Bad(NamedTuple):
    """A command line, what its error names, what is spoiled before, the exit status, and standard input."""

    line: str
    names: str
    spoil: Callable[[pytest.MonkeyPatch], object] = lambda monkeypatch: None
    status: int = 1
    stdin: bytes = b"The dog.\n"


def put(files: dict[str, bytes | None]) -> Callable:
    """Files with this content, or none of this name."""

    def spoil(_: pytest.MonkeyPatch) -> None:
        for name, content in files.items():
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).unlink() if content is None else Path(name).write_bytes(content)

    return spoil


def unlisted(spoil: Callable) -> Callable:
    """As in a folder that has no manifest."""

    def both(monkeypatch: pytest.MonkeyPatch) -> None:
        Path("run/manifest.json").unlink()
        spoil(monkeypatch)

    return both


def cut(name: str) -> Callable:
    return lambda _: Path(name).write_bytes(Path(name).read_bytes()[:-100])


def others(name: str, listed: bool = True) -> Callable:
    """Weights of another model."""

    def spoil(_: pytest.MonkeyPatch) -> None:
        save_file({"weight": torch.zeros(2)}, name)
        if not listed:
            Path(name).with_suffix(".json").unlink()

    return spoil


def record(**changes: object) -> Callable:
    """Another record of the run; None takes a key away."""

    def spoil(_: pytest.MonkeyPatch) -> None:
        run = json.loads(Path("run/run.json").read_text())
        changed = {name: value for name, value in (run | changes).items() if value is not None}
        write_json(Path("run/run.json"), changed)

    return spoil


def before_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run from before there was this option; and here there is no compiler."""
    monkeypatch.setenv("CXX", "no-such-compiler")
    training = json.loads(Path("run/run.json").read_text())["training"]
    del training["compile"]
    record(training=training)(monkeypatch)


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)


def link(_: pytest.MonkeyPatch) -> None:
    Path("link").symlink_to("file")


usage = partial(Bad, status=2)

BAD = [
    usage("", "required: COMMAND"),
    usage("fly", "'fly'"),
    # Training: options
    usage("train --output new", "required: --corpus"),
    usage("train --corpus pairs.tsv", "required: --output"),
    usage(f"{TRAIN} --depth 6", "unrecognized arguments: --depth 6"),
    usage(f"{TRAIN} --max-step 6", "unrecognized arguments: --max-step 6"),
    usage(f"{TRAIN} --recipe huge", "--recipe: invalid choice: 'huge'"),
    usage(f"{TRAIN} --activation none", "--activation: invalid choice: 'none'"),
    usage(f"{TRAIN} --from run --resume", "--from"),
    usage(f"{TRAIN} --vocab-size 0", "--vocab-size: a whole number of at least 1"),
    usage(f"{TRAIN} --num-heads 2.5", "--num-heads: a whole number of at least 1 is needed, not '2.5'"),
    usage(f"{TRAIN} --max-minutes 0", "--max-minutes: a number above 0"),
    usage(f"{TRAIN} --max-minutes inf", "--max-minutes: a number above 0"),
    usage(f"{TRAIN} --rate-factor inf", "--rate-factor: a number above 0"),
    usage(f"{TRAIN} --dropout -0.1", "--dropout: a number of at least 0"),
    usage(f"{TRAIN} --seed -1", "--seed: a whole number of at least 0"),
    usage(f"{TRAIN} --seed 99999999999999999999", "--seed: a whole number of at least 0"),
    Bad(f"{TRAIN} --d-model 15", "d_model 15"),
    Bad(f"{TRAIN} --label-smoothing 1.5", "label_smoothing"),
    Bad(f"{TRAIN} --device tpu", "'tpu'"),
    Bad(f"{TRAIN} --vocab-size 37000", "37000"),
    # Training: the corpus
    Bad(f"{TRAIN} --corpus data", "data: no such file or folder"),
    Bad(f"{TRAIN} --corpus data", "data: the file is empty", put({"data": b""})),
    Bad(f"{TRAIN} --corpus data", "data: line 2 is not UTF-8 (byte 0xe4)", put({"data": b"a\tb\nc\xe4t\td\n"})),
    Bad(f"{TRAIN} --corpus data", "data: line 2 has no tab", put({"data": b"a dog\tein Hund\na cat\n"})),
    Bad(f"{TRAIN} --corpus data.gz", "data.gz: cannot be read", put({"data.gz": gzip.compress(b"a\tb\n" * 99)[:-9]})),
    Bad(f"{TRAIN} --corpus data", "49 pairs", put({"data": b"a\tb\n" * 49})),
    Bad(
        f"{TRAIN} --corpus data", "train.en has 3 lines",
        put({"data/train.en": b"a\nb\nc\n", "data/train.de": b"a\nb\n"}),
    ),
    Bad(f"{TRAIN} --corpus data", "train.de: no such file", put({"data/train.en": b"a\n"})),
    Bad(f"{TRAIN} --corpus data", "no train.en and train.de", put({"data/notes.txt": b"a\n"})),
    Bad(f"{TRAIN} --corpus data", "dev.tsv: the file is", put({"data/train.tsv": b"a\tb\n", "data/dev.tsv": b""})),
    Bad(f"{TRAIN} --corpus data", "data", put({"data/train.tsv": b"a\tb\n"})),
    Bad(f"{TRAIN} --corpus embedded --source de --target en", "from de to en"),
    Bad(f"{TRAIN} --corpus store --target fr", "store: its target language is de, not fr"),
    Bad(f"{TRAIN} --corpus store --vocab-size 400", "store: has 300 pieces, not 400"),
    Bad(f"{TRAIN} --corpus store --max-length 5", "max_length is 5"),
    Bad(f"{TRAIN} --corpus store", "store/train.source.ids", cut("store/train.source.ids")),
    # Training: the folder
    Bad(f"{TRAIN} --output run", "run: holds a run already"),
    Bad(f"{TRAIN} --output numbers", "numbers: holds a model already"),
    Bad(f"{TRAIN} --output file", "file: is a file"),
    Bad(f"{TRAIN} --output file/run", "file/run"),
    Bad(f"{TRAIN} --output /proc/annotated/run", "/proc/annotated/run"),
    Bad(TRAIN, "No space left on device", full_disk),
    # Training: a run to resume, a model to begin with
    *(Bad(f"{RESUME} --{option}", f"--{option.split()[0]} cannot become")
      for option in ("d-model 32", "seed 2", "vocab-size 400", "label-smoothing 0.2", "norm-first")),
    Bad(f"{RESUME} --recipe embedded", "cannot become"),
    Bad(f"{RESUME} --source fr", "run: its source language is en, not fr"),
    Bad(f"{RESUME} --target fr", "run: its target language is de, not fr"),
    Bad(f"{RESUME} --compile --device cpu", "C++ compiler", before_compiling),
    Bad(RESUME, "run: no run to resume there", put({"run/run.json": None})),
    Bad(RESUME, "run.json: not a JSON file", put({"run/run.json": b"{"})),
    Bad(RESUME, "run.json: not a JSON file", put({"run/run.json": b"[" * 100_000})),
    Bad(RESUME, "'corpus' is missing", put({"run/run.json": b"[]"})),
    Bad(RESUME, "'training' is missing", record(training=None)),
    Bad(RESUME, "'model' is missing, or something else", record(model=3)),
    Bad(RESUME, "'depth'", record(model={"depth": 6})),
    Bad(RESUME, "pairs.tsv", put({"pairs.tsv": b"a\tb\n" * 60})),
    Bad(f"{TRAIN} --from run --d-model 32", "--d-model cannot be 32"),
    Bad(f"{TRAIN} --from run --vocab-size 500", "--vocab-size cannot be 500"),
    Bad(f"{TRAIN} --from nowhere", "nowhere"),
    # Preparing
    usage("prepare --corpus wmt14 --output new", "--corpus wmt14 and --from go together"),
    usage(f"{FILES} pairs.tsv --from data", "--corpus wmt14 and --from go together"),
    Bad(f"{FILES} pairs.tsv --max-ratio 0.5", "max_ratio must be at least 1, not 0.5"),
    Bad(f"{FILES} pairs.tsv --max-length 1", "max_length must be at least 2, not 1"),
    Bad(f"{FILES} pairs.tsv --output run", "run: holds a run already"),
    Bad(f"{FILES} pairs.tsv --output store --vocab-size 301", "store: holds another store already"),
    Bad(f"{FILES} pairs.tsv --vocab-size 290", "No space left on device", full_disk),
    Bad(f"{FILES} a,b", "b: no such file or folder", put({"a": b"1\n"})),
    Bad(f"{FILES} a,b", "b ends after 1 lines, a goes on", put({"a": b"1\n2\n", "b": b"1\n"})),
    Bad(f"{FILES} a,b", "a ends after 1 lines, b goes on", put({"a": b"1\n", "b": b"1\n2\n"})),
    Bad(f"{FILES} a,b", "a: line 2 is not UTF-8 (byte 0xff)", put({"a": b"1\n\xff\n", "b": b"1\n2\n"})),
    Bad(f"{FILES} a,b", "a: line 1 has more than 1,000,000 bytes", put({"a": b"x" * 1_000_001, "b": b"1\n"})),
    Bad(f"{FILES} data", "data: line 2 has no tab", put({"data": b"one\teins\ntwo\n"})),
    Bad(f"{FILES} data --vocab-size 290", "data: 49 pairs are too few",
        put({"data": b"".join(b"%d\t%d\n" % (i, i) for i in range(49))})),
    Bad(f"{FILES} data --vocab-size 290", "left out: 58 unlikely ratio",
        put({"data": b"".join(b"a b c d e f g h i j k l m n\t%d\n" % i for i in range(60))})),
    Bad("prepare --corpus wmt14 --from nowhere --output new", "nowhere: no such folder"),
    Bad("prepare --corpus wmt14 --from run --output new", "run: no commoncrawl"),
    Bad("prepare --corpus wmt14 --from run --target cs --output new", "from en to cs"),
    # Models
    Bad("translate nowhere", "nowhere: no such model folder"),
    Bad("translate numbers", "numbers: no tokenizer"),
    Bad("info store", "store/config.json: cannot be read"),
    *(Bad("translate run", f"run/{name}", spoil) for name in ("config.json", "tokenizer.model", "model.safetensors")
      for spoil in (put({f"run/{name}": None}), unlisted(put({f"run/{name}": None})),
                    unlisted(put({f"run/{name}": b"text"})))),
    Bad("translate run", "run/config.json", unlisted(put({"run/config.json": b'{"architectures": ["Marian"]}'}))),
    Bad("translate run", WEIGHTS, unlisted(cut(WEIGHTS))),
    Bad("translate run", WEIGHTS, unlisted(others(WEIGHTS))),
    # Translating and scoring
    usage("translate", "required: MODEL"),
    usage("translate run --beam-size 0", "--beam-size: a whole number of at least 1 is needed, not '0'"),
    usage("translate run --beam-size four", "--beam-size: a whole number of at least 1 is needed, not 'four'"),
    usage("translate run --length-penalty 10000", "--length-penalty: a number from 0 to 100"),
    usage("translate run --length-penalty nan", "--length-penalty: a number from 0 to 100"),
    usage("translate run --n-best 5", "--n-best: a beam of 4 has no 5 translations"),
    usage("translate run --n-best 5 --beam-size 2", "--n-best: a beam of 2 has no 5 translations"),
    usage("translate run --limit 3 --min-length 4", "--min-length: 4 is above --limit 3"),
    Bad("translate run --beam-size 1000000000", "1000000000"),
    Bad("translate run", "line 1 is not UTF-8 (byte 0xfc)", stdin=b"B\xfccher\n"),
    Bad("translate run --device abacus", "'abacus'"),
    Bad("score run", "line 1 has no tab"),
    Bad("score run", "line 1 is not UTF-8 (byte 0xfc)", stdin=b"B\xfccher\t\n"),
    # Evaluating
    usage("evaluate run --max-words 0", "--max-words: a whole number of at least 1"),
    usage("evaluate run --ruler moses", "--ruler: invalid choice: 'moses'"),
    usage("evaluate run --json new/out --translations new/x/../out", "would both write new/out"),
    Bad("evaluate run --split dev", "pairs.tsv has no split 'dev'"),
    Bad("evaluate run --max-words 1", "pairs.tsv: no pair in test"),
    Bad("evaluate run --corpus nowhere", "nowhere: no such file"),
    Bad("evaluate run --corpus data", "test.tsv: the file is empty", put({"data/test.tsv": b"\n"})),
    *(Bad(f"evaluate run --{output} {place}", f"{place}: cannot be written", spoil)
      for output in ("json", "translations")
      for place, spoil in (("file/out", full_disk), ("store", full_disk), ("link", link), ("new/new/out", full_disk))),
    Bad("evaluate run --json new/out --split dev", "'dev'"),
    # Averaging, exporting, importing
    usage("average run", "required: --output"),
    usage("average run --output new --last 0", "--last: a whole number of at least 1"),
    Bad("average run --output run", "run: holds a run already"),
    Bad("average run --output numbers --last 1", "numbers: holds a model already"),
    Bad("average run --output new --last 6", "checkpoints there, --last asks for 6"),
    Bad("average nowhere --output new", "nowhere: no such run folder"),
    Bad("average run --last 1 --output new", "No space left on device", full_disk),
    Bad("average run --last 1 --output new", f"{LAST}.safetensors: damaged", others(f"{LAST}.safetensors")),
    Bad("average run --last 1 --output new", "run/checkpoints: the tensor", others(f"{LAST}.safetensors", False)),
    Bad("average run --last 1 --output new", f"{LAST}.safetensors: not a readable",
        put({f"{LAST}.json": None, f"{LAST}.safetensors": b"not a checkpoint"})),
    usage("translate run --sample 1 --n-best 2", "--sample: draws one"),
    usage("export run --output new", "required: --format"),
    usage("export --format marian run new", "required: --output"),
    Bad("export --format marian run --output store", "store", lambda _: shutil.copy(WEIGHTS, "store")),
    Bad("export --format marian nowhere --output new", "nowhere"),
    Bad("export --format marian embedded --output new/folder", "new/folder", full_disk),
    Bad("import-marian nowhere --output new", "nowhere: no such folder"),
    Bad("import-marian run --output new", "run/config.json: not a Marian model"),
    Bad("import-marian run --output numbers", "numbers: holds a model already"),
    usage("write run --temperature 0", "--temperature: a number of at least 0.001"),
    usage("write run --top-p 0.9", "--top-p: says what to draw among"),
    usage("write run --temperature 1 --top-p 1.1", "--top-p: a number above 0, at most 1"),
    usage("write run --precision int8", "--precision: invalid choice: 'int8'"),
    Bad("write run", "run/config.json: models of the kind None cannot be read"),
    Bad("write nowhere", "nowhere: no such folder"),
    # Other people's models
    usage("check mine.py --seconds 0", "--seconds: a number above 0"),
    usage("hunt", "required: --seed"),
    usage("hunt --seed 1 --mistakes 4", "--mistakes: invalid choice: 4"),
    Bad("check none.py", "none.py: cannot be read", status=2),
    Bad("check mine.py", "mine.py: line 1", put({"mine.py": b"def f(:\n"}), 2),
    Bad("check mine.py:model", "mine.py: no model in it", put({"mine.py": b"x = 1\n"}), 2),
    Bad("learn mine.py --once", "mine.json: not the record", put({"mine.py": b"x = 1\n", "mine.json": b"[]"})),
    Bad("learn mine.py --notebook", "mine.ipynb: is there already", put({"mine.ipynb": b"{}"})),
]  # fmt: skip


def contents(folder: Path) -> dict[str, bytes | str | None]:
    """All files, links and folders under a folder."""

    def of(path: Path) -> bytes | str | None:
        return os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None

    return {str(path.relative_to(folder)): of(path) for path in folder.rglob("*")}


@pytest.mark.slow
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad.line.replace(TINY, '')}: {bad.names}"[:80])
def test_bad_input_is_one_line_and_changes_nothing(home, tmp_path, monkeypatch, capsys, bad: Bad):
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    bad.spoil(monkeypatch)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bad.stdin)))
    before = contents(tmp_path)
    status = main(bad.line.split())
    said = capsys.readouterr()
    *others, last = said.err.splitlines()
    assert (status, said.out) == (bad.status, "")
    assert last.startswith(f"annotated {bad.line.split()[0]}: " if status == 1 else "annotated")
    assert bad.names in last
    if status == 2 and others[:1] != ["running none.py"] and others[:1] != ["running mine.py"]:
        assert [line.split()[0] for line in others] == ["usage:"]
    assert not [line for line in others if line.startswith(("annotated", "Traceback"))]
    assert contents(tmp_path) == before


def test_the_page_of_messages_has_what_is_said_and_what_to_do():
    rows = {(module, message): todo for module, message, todo in messages_of(ROOT)}
    assert rows["annotated.base.files", "{path}: no such file"] == COPY_WHOLE
    missing = "{name}: no such model folder here; the installed package carries one, named embedded"
    assert rows["annotated.runs.checkpoint", missing].startswith("Check the path")
    filled = {name for _, message in rows for name in re.findall(r"\{(.*?)\}", message)}
    assert [name for name in filled if not re.fullmatch("[a-z][a-z ]*", name)] == []
    assert [todo for todo in rows.values() if todo and not todo.endswith(".")] == []
