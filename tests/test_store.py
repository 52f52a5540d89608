"""Stores: a folder that is read without loading it, or refused in one line; and training on it (chapter 93)."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from annotated.base.files import InputError, read_json, write_json
from annotated.command.cli import main
from annotated.text import store
from annotated.text.preparation import prepare, text_of
from annotated.text.store import id_kind, open_store
from annotated.text.tokenization import tokenize, train_tokenizer
from tests.stores import PAIRS, SETTINGS, make, quiet, write_pairs


def test_ids_take_16_bits_where_they_fit():
    assert id_kind(2**16).itemsize == 2
    assert id_kind(2**16 + 1).itemsize == 4


def test_ids_that_cannot_be_read(tmp_path, monkeypatch):
    def broken(path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    make(tmp_path / "s")
    (tmp_path / "s" / "manifest.json").unlink()
    monkeypatch.setattr(store.disk, "open", broken)
    with pytest.raises(InputError, match=str(tmp_path / "s" / "train.source.ids")):
        open_store(tmp_path / "s")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells the pages of a mapped file")
def test_pages_of_a_store_are_released(tmp_path):
    """A process that has read all of a store does not keep it; looked at again, it is the same."""
    kept = open_store(make(tmp_path / "s").folder)

    def resident() -> int:
        parts = Path("/proc/self/smaps").read_text().split(str(tmp_path))[1:]
        return sum(int(part.split("\nRss:")[1].split()[0]) for part in parts)

    first = kept.train[0]
    assert resident() > 0
    for chosen in kept.train.plan(100, seed=1):
        kept.train.batch(chosen)
        assert resident() == 0
    assert kept.train[0] == first


def no_manifest(change: Callable[[Path], None]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        (folder / "manifest.json").unlink()
        change(folder)

    return changed


def notes(**values) -> Callable[[Path], None]:
    return no_manifest(lambda folder: write_json(folder / "store.json", read_json(folder / "store.json") | values))


def numbers(name: str, change: Callable[[np.ndarray], np.ndarray], kind: str = "<i8") -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        path = folder / name
        change_to = np.fromfile(path, kind)
        path.write_bytes(change(change_to).astype(kind).tobytes())

    return no_manifest(changed)


def with_other(values: np.ndarray, at: int, value: int) -> np.ndarray:
    values[at] = value
    return values


REFUSED = {  # what is wrong; what is named
    "no store": (lambda folder: (folder / "store.json").unlink(), "store.json"),
    "cut": (lambda folder: (folder / "train.source.ids").write_bytes(b"1234"), "train.source.ids: .* 4 "),
    "cut unlisted": (numbers("train.source.ids", lambda ids: ids[:-3], "<u2"), "train.source.offsets"),
    "half a number": (no_manifest(lambda folder: (folder / "train.target.ids").write_bytes(b"123")),
        "train.target.ids"),
    "empty": (no_manifest(lambda folder: (folder / "train.target.ids").write_bytes(b"")), "train.target.ids"),
    "missing": (no_manifest(lambda folder: (folder / "train.target.ids").unlink()), "train.target.ids"),
    "other version": (notes(format="annotated-store-2"), "store.json"),
    "no object": (no_manifest(lambda folder: write_json(folder / "store.json", [])), "store.json"),
    "pairs": (notes(pairs="many"), "store.json: .*'pairs'"),
    "other tokenizer": (no_manifest(lambda folder: (folder / "tokenizer.model").write_bytes(
        train_tokenizer((text for pair in PAIRS for text in pair), 290).model)), "290 .* 300"),
    "ids beyond": (numbers("train.target.ids", lambda ids: with_other(ids, 7, 300), "<u2"),
        "train.target.ids: .* 300"),
    "backwards": (numbers("train.source.offsets", lambda offsets: with_other(offsets, 3, 10**6)),
        "train.source.offsets"),
    "not from 0": (numbers("train.source.offsets", lambda offsets: with_other(offsets, 0, 1)),
        "train.source.offsets"),
    "one pair more": (notes(pairs=999), "train.source.offsets"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_stores_that_are_refused(tmp_path, case):
    change, named = REFUSED[case]
    make(tmp_path / "s")
    change(tmp_path / "s")
    with pytest.raises(InputError, match=f"^{tmp_path / 's'}.*{named}") as error:
        open_store(tmp_path / "s")
    assert "\n" not in str(error.value)


# The command


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    options = ["--corpus", write_pairs(folder / "pairs.tsv"), "--vocab-size", "300", "--max-ratio", "3", "--quiet"]
    assert main(["prepare", *options, "--workers", "2", "--output", str(folder / "store")]) == 0
    return folder


SMALL = [
    "--d-model", "16", "--d-ff", "16", "--num-heads", "2", "--num-layers", "1", "--max-steps", "4",
    "--validate-every", "2", "--quiet",
]  # fmt: skip


@pytest.mark.slow
def test_training_on_a_store_and_resuming(prepared, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", "--corpus", str(prepared / "store"), "--output", str(run), *SMALL]) == 0
    record = read_json(run / "run.json")
    assert record["examples"] == open_store(prepared / "store").notes["key"]
    assert record["pairs_left_out"] == 0
    assert record["model"]["vocab_size"] == 300
    assert main(["train", "--resume", "--output", str(run), "--max-steps", "6", "--quiet"]) == 0
    assert main(["evaluate", str(run), "--split", "valid", "--beam-size", "1", "--workers", "1"]) == 0
    assert "valid: 2 sentences" in capsys.readouterr().out


@pytest.mark.slow
def test_a_store_trains_like_its_text(prepared, tmp_path):
    """The same pairs with the same vocabulary: the same batches, and so the same losses to the last bit."""
    opened = open_store(prepared / "store")
    texts = [[opened.tokenizer.to_text(side) for side in pair] for pair in opened.train]
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "train.tsv").write_text("".join("\t".join(pair) + "\n" for pair in texts))
    shutil.copy(prepared / "store" / "valid.tsv", folder)
    again = prepare(text_of([str(folder)], "en", "de"), tmp_path / "again", SETTINGS, say=quiet)
    assert [list(pair) for pair in again.train] == [tokenize(again.tokenizer, pair) for pair in texts]
    losses = []
    for name in (str(folder), str(tmp_path / "again")):
        run = tmp_path / f"run-{len(losses)}"
        assert main(["train", "--corpus", name, "--output", str(run), *SMALL, "--vocab-size", "300"]) == 0
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        losses.append([line["valid_loss"] for line in lines if "valid_loss" in line])
    assert losses[0] == losses[1]
    assert len(losses[0]) == 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--vocab-size", "400"], ("300", "400")),
        (["--max-length", "5"], ("--max-length 5",)),
        (["--target", "fr"], ("de", "fr")),
    ],
)
def test_options_that_do_not_fit_a_store(prepared, tmp_path, capsys, options, named):
    assert main(["train", "--corpus", str(prepared / "store"), "--output", str(tmp_path / "r"), *SMALL, *options]) == 1
    said = capsys.readouterr().err
    assert all(word in said for word in (str(prepared / "store"), *named))
    assert not (tmp_path / "r" / "run.json").exists()


@pytest.mark.slow
def test_a_run_on_another_store_is_not_resumed(prepared, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", "--corpus", str(prepared / "store"), "--output", str(run), *SMALL]) == 0
    make(tmp_path / "other", PAIRS[3:])
    resumed = ["train", "--resume", "--corpus", str(tmp_path / "other"), "--output", str(run), "--max-steps", "8"]
    assert main(resumed) == 1
    assert str(tmp_path / "other") in capsys.readouterr().err
