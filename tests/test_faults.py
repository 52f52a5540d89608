"""Faults, tried one by one: tools/faults.py (chapter 94) in short form, and damaged files for all that reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from annotated.base.files import InputError, read_manifest
from annotated.formats.marian import load_marian, save_marian
from annotated.runs.checkpoint import load_model, save_model
from annotated.runs.state import new_state, restore
from annotated.runs.training import train
from annotated.search.translation import Translator
from annotated.text.tokenization import Tokenizer, train_tokenizer
from tools import faults
from tools.faults import CONFIG, SENTENCES, Saving, small_model, try_point


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(faults.TEXTS, 300)


@pytest.mark.slow
def test_nothing_is_lost_at_any_point_that_is_tried():
    """Every eightieth point of all scenarios; all of them by `python -m tools.faults points`."""
    found = faults.points(every=80)
    assert found["faults"] == []
    assert all(scenario["points"] >= 1 for scenario in found["scenarios"].values())


@pytest.mark.slow
def test_a_model_is_the_old_one_or_the_new_one_wherever_saving_crashes(tokenizer: Tokenizer, tmp_path: Path):
    saving = Saving(tokenizer)
    operations = try_point(saving, tmp_path, 0, "error")[1]
    assert operations > 10
    for at in range(1, operations + 1):
        assert try_point(saving, tmp_path, at, "crash half")[0] == "", at


def test_torn_files_are_named_and_not_used():
    found = faults.torn(30)
    assert found["named"] == found["places"] == 30


def restored(folder: Path) -> None:
    for path in sorted(folder.glob("checkpoints/*.state")):
        restore(path, new_state(small_model(), CONFIG))


READERS = {"model": load_model, "marian": lambda folder: load_marian(folder, "cpu"), "run": restored}
VALUES = (0, -1, 10**9, 10**30, 0.5, 1e308, None, True, "", "no", [], {}, [[]], "\0")


@pytest.fixture(scope="module")
def good(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each reader; no manifest finds the damage before it."""
    place = tmp_path_factory.mktemp("good")
    model = small_model(len(tokenizer))
    save_model(model, place / "model", tokenizer)
    (place / "model" / "manifest.json").unlink()
    save_marian(Translator(model, tokenizer), place / "marian")
    train(small_model(), SENTENCES, SENTENCES, CONFIG, folder=place / "run")
    return place


def other_value(content: bytes, draw: Random) -> bytes:
    """JSON with one of its values changed, or taken out."""
    settings = json.loads(content)
    part = settings["model"] if "model" in settings and draw.random() < 0.8 else settings
    name = draw.choice(sorted(part))
    if draw.random() < 0.2:
        del part[name]
    else:
        part[name] = draw.choice(VALUES)
    return json.dumps(settings).encode()


def other_bytes(content: bytes, draw: Random) -> bytes:
    """Cut, with a bit turned, or with bytes put in."""
    at, kind = draw.randrange(len(content)), draw.randrange(3)
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]
    return content[:at] + draw.randbytes(8) + content[at:]


def other_header(content: bytes, draw: Random) -> bytes:
    """Tensors with another header, which begins after its length."""
    length = int.from_bytes(content[:8], "little")
    header = other_bytes(content[8 : 8 + length], draw)
    size = len(header) if draw.random() < 0.7 else draw.choice((0, 2**62, length))
    return size.to_bytes(8, "little") + header + content[8 + length :]


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_readers_refuse_what_is_damaged_in_one_line(good: Path, reader: str):
    """Whatever is in a file, it is read or refused: there is no other exception."""
    draw, said = Random(0), []
    mutations: dict[str, Callable] = {".json": other_value, ".safetensors": other_header, ".state": other_header}
    for path in sorted(path for path in (good / reader).rglob("*") if path.is_file()):
        whole = path.read_bytes()
        for number in range(12):
            mutate = other_bytes if number % 3 == 0 else mutations.get(path.suffix, other_bytes)
            path.write_bytes(mutate(whole, draw))
            try:
                READERS[reader](good / reader)
            except InputError as error:
                said.append(str(error))
        path.write_bytes(whole)
    assert len(said) > 10
    assert not any("\n" in one for one in said)
    READERS[reader](good / reader)


def test_what_is_no_manifest_is_refused():
    with pytest.raises(InputError, match=str(faults.ROOT / "package.json")):
        read_manifest(faults.ROOT / "package.json")
