"""Preparing a store: text as a stream, what is left out, the ids of the tokenizer, and all or nothing (chapter 93)."""

import errno
import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated.base.files import InputError, locked, read_json
from annotated.command.cli import main
from annotated.text import preparation
from annotated.text.corpora import load_corpus
from annotated.text.preparation import StoreSettings, Text, WordCache, prepare, text_of, wmt14
from annotated.text.store import id_kind, open_store
from annotated.text.tokenization import Tokenizer, tokenize, train_tokenizer
from tests.stores import NOUNS, PAIRS, SETTINGS, make, quiet, text
from tools.faulty_disk import KINDS, Crash, FaultyDisk, with_disk


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer((text for pair in PAIRS for text in pair), 300)


# Text as a stream


def test_pairs_from_files_of_all_kinds(tmp_path):
    (tmp_path / "a.en").write_bytes("\ufeffone\r\ntwo \n".encode())
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"eins\n zwei\n"))
    (tmp_path / "b.tsv").write_text("three\tdrei\tmore\n")
    (tmp_path / "c.en.sgm").write_text('<doc>\n<seg id="1">A &amp; B</seg>\n</doc>\n')
    (tmp_path / "c.de.sgm").write_text('<doc>\n  <SEG id="1">A &lt; B</SEG>\n</doc>\n')
    found = text_of([f"{tmp_path}/a.en,{tmp_path}/a.de.gz", f"{tmp_path}/b.tsv"], "en", "de")
    for _ in range(2):  # from the beginning each time
        assert list(found.streams["train"]()) == [("one", "eins"), ("two", "zwei"), ("three", "drei")]
    assert list(preparation.stream_pairs(tmp_path / "c.en.sgm", tmp_path / "c.de.sgm")) == [("A & B", "A < B")]


def test_folders_and_named_corpora(tmp_path):
    for name, content in {"train.en": "a\n", "train.de": "b\n", "dev.tsv": "c\td\n"}.items():
        (tmp_path / name).write_text(content)
    found = text_of([str(tmp_path), "embedded"], "en", "de")
    assert next(found.streams["train"]()) == ("a", "b")
    held = [("c", "d"), *((pair.source, pair.target) for pair in load_corpus("embedded").split("valid"))]
    assert list(found.streams["valid"]()) == held
    assert set(found.streams) == {"train", "valid", "test"}


def wmt_folder(folder: Path) -> Path:
    (folder / "training").mkdir(parents=True)
    for stem in ("commoncrawl.de-en", "europarl-v7.de-en", "news-commentary-v9.de-en"):
        for language in ("en", "de"):
            (folder / "training" / f"{stem}.{language}").write_text(f"{stem} {language}\n")
    for stem, role, language in (("newstest2013", "src", "en"), ("newstest2013", "ref", "de")):
        (folder / f"{stem}-{role}.{language}.sgm").write_text(f'<seg id="1">{stem} {language}</seg>\n')
    for role, language in (("src", "en"), ("ref", "de")):
        (folder / f"newstest2014-deen-{role}.{language}.sgm").write_text('<seg id="1">x</seg>\n<seg id="2">y</seg>\n')
    return folder


def test_the_usual_files_of_wmt14(tmp_path, capsys):
    found = wmt14(wmt_folder(tmp_path / "wmt"))
    assert [pair[0].split(".")[0] for pair in found.streams["train"]()] == [
        "commoncrawl",
        "europarl-v7",
        "news-commentary-v9",
    ]
    assert list(found.streams["valid"]()) == [("newstest2013 en", "newstest2013 de")]
    assert len(list(found.streams["test"]())) == 2
    folder = tmp_path / "wmt"
    for language in ("en", "de"):
        lines = [f"{a} {b} {language}" for a in NOUNS for b in NOUNS]
        (folder / "training" / f"commoncrawl.de-en.{language}").write_text("\n".join(lines) + "\n")
    options = ["--corpus", "wmt14", "--from", str(folder), "--vocab-size", "290", "--quiet"]
    assert main(["prepare", *options, "--output", str(tmp_path / "store")]) == 0
    assert open_store(tmp_path / "store").notes["corpus"] == "wmt14"
    (folder / "training" / "europarl-v7.de-en.de").unlink()
    with pytest.raises(InputError, match=r"europarl-v7\.de-en\.de"):
        wmt14(folder)


# What is left out


def test_the_first_reading_leaves_out_empty_pairs_and_duplicates():
    """A tab, or the place of a blank, makes another pair."""
    pairs = [("a", "b"), ("", "b"), ("a", "b"), ("a", "c"), ("ab", ""), ("a", "b")]
    found = preparation.scan(lambda: iter(pairs), StoreSettings())
    assert found.kept.tolist() == [True, False, False, True, False, False]
    assert found.left_out == {"empty": 2, "duplicate": 2}
    assert preparation.scan(lambda: iter([("a b", "c"), ("a", "b c"), ("ab", "c")]), StoreSettings()).kept.all()


def test_the_sample_is_drawn_from_all_and_the_same_each_time():
    """Each pair has the same chance: of a hundred, ten times 0.1, and 300 draws stay within four deviations."""
    pairs = [(str(i), str(i)) for i in range(100)]
    drawn = [preparation.scan(lambda: iter(pairs), StoreSettings(sample=10, seed=seed)).sample for seed in range(300)]
    assert all(len(set(sample)) == 10 for sample in drawn)
    counts = [sum((str(i), str(i)) in sample for sample in drawn) for i in range(100)]
    assert all(abs(count - 30) < 4 * (300 * 0.1 * 0.9) ** 0.5 for count in counts)
    assert drawn[0] == preparation.scan(lambda: iter(pairs), StoreSettings(sample=10, seed=0)).sample


def test_lengths_and_their_ratio_are_counted_in_tokens(tokenizer):
    one = "The dog"
    length = len(tokenizer.to_ids(one)) + 1

    def left(other: str, **options) -> dict[str, int]:
        return dict(preparation.encode_chunk(tokenizer, StoreSettings(**options), [(one, other)]).left_out)

    assert left(one, max_length=length) == {}
    assert left(one, max_length=length - 1) == {"too long": 1}
    assert left(" ".join([one] * 9), max_ratio=9.0) == {}
    assert left(" ".join([one] * 9), max_ratio=8.9) == {"unlikely ratio": 1}
    assert left(" ".join([one] * 2), max_ratio=1.0) == {}, "a few tokens more say nothing"
    assert left(" ", max_ratio=100.0) == {"empty": 1}


ODD = (
    "two  blanks",
    " before",
    "after ",
    "fi \ufb01 ½ Ǆ",
    "a\u0301 e\u0308",
    "▁ ▁a",
    "a\u00a0b",
    "",
    "a\tb",
    "<s> </s>",
)


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(st.lists(st.text(max_size=30) | st.sampled_from((*NOUNS, *ODD)), max_size=6).map(" ".join))
def test_cutting_words_once_gives_the_tokens_of_the_whole(text):
    tokenizer = CUT.setdefault("tokenizer", train_tokenizer((text for pair in PAIRS for text in pair), 300))
    words = CUT.setdefault("words", WordCache(tokenizer, id_kind(len(tokenizer))))
    for _ in range(2):  # new, and known
        assert np.frombuffer(words.encode(text), words.kind).tolist() == tokenize(tokenizer, [text])[0]
        words.learn([text])


CUT: dict = {}


def test_a_full_cache_cuts_each_time(tokenizer, monkeypatch):
    words, text = WordCache(tokenizer, id_kind(300)), "The dog sees cats"
    monkeypatch.setattr(words, "LIMIT", 2, raising=False)
    words.learn([text])
    assert len(words) == 2
    assert np.frombuffer(words.encode(text), "<u2").tolist() == tokenize(tokenizer, [text])[0]
    assert len(words) == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_encoded_by_any_number_of_processes(tokenizer, workers, monkeypatch):
    monkeypatch.setattr(preparation, "CHUNK", 7)
    chunks = [PAIRS[i : i + 7] for i in range(0, len(PAIRS), 7)]
    parts = list(preparation.encode_all(iter(chunks), tokenizer, SETTINGS, workers))
    ids = b"".join(part.ids[0] for part in parts)
    wanted = [i for source in tokenize(tokenizer, [pair[0] for pair in PAIRS]) for i in source]
    assert np.frombuffer(ids, "<u2").tolist() == wanted


def test_few_chunks_are_under_way(tokenizer):
    """A corpus that does not fit into memory must not be read ahead of its encoding."""
    read = []

    def chunks():
        for i in range(50):
            read.append(i)
            yield PAIRS[:5]

    parts = preparation.encode_all(chunks(), tokenizer, SETTINGS, 2)
    next(parts)
    assert len(read) <= 6
    parts.close()


# The folder


def test_a_store_gives_back_what_the_tokenizer_makes(tmp_path):
    made = make(tmp_path / "s", workers=2)
    kept = read_json(tmp_path / "s" / "store.json")
    assert kept["pairs"] == len(made.train) == len(PAIRS) - 4
    held = {(pair.source, pair.target) for split in ("valid", "test") for pair in made.split(split)}
    assert len(held) == 4
    rest = [pair for pair in PAIRS if pair not in held]
    assert list(made.train) == [tuple(tokenize(made.tokenizer, list(pair))) for pair in rest]


def test_splits_with_text_of_their_own_take_nothing_from_train(tmp_path):
    held = {"valid": [("a\tb", "c"), ("", "d")], "test": [("e", "f")]}
    made = prepare(text(**held), tmp_path / "s", SETTINGS, say=quiet)
    assert len(made.train) == len(PAIRS)
    assert [(pair.source, pair.target) for pair in made.split("valid")] == [("a b", "c")]
    assert [(pair.source, pair.target) for pair in made.split("test")] == [("e", "f")]


@pytest.mark.slow
def test_much_that_a_rule_leaves_out_is_said_and_the_vocabulary_fits(tmp_path):
    """Nobody asked for a size: there are fewer pieces than the default, and no error."""
    lines: list[str] = []
    many = PAIRS + [(source, target * 5) for source, target in PAIRS[::8]]
    make(tmp_path / "few", settings=StoreSettings(), say=lines.append)
    assert "--max" not in "".join(lines)
    made = make(tmp_path / "many", many, settings=StoreSettings(), say=lines.append)
    assert len(made.train) <= len(PAIRS)
    assert 300 < len(made.tokenizer) < 1000
    assert [line for line in lines if "`--max-ratio`" in line]


def test_the_same_again_is_found_and_another_refused(tmp_path):
    lines: list[str] = []
    make(tmp_path / "s")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "s").iterdir()}
    make(tmp_path / "s", say=lines.append)
    assert lines[-1] == f"the store is in {tmp_path / 's'} already"
    for pairs, options in ((PAIRS[1:], SETTINGS), (PAIRS, StoreSettings(vocab_size=301, max_ratio=3.0, held_out=2))):
        with pytest.raises(InputError, match=str(tmp_path / "s")):
            make(tmp_path / "s", pairs, settings=options)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "s").iterdir()} == before


def test_two_cannot_write_at_once(tmp_path):
    with locked(tmp_path / "s", quiet), pytest.raises(InputError, match=str(tmp_path / "s")):
        make(tmp_path / "s")


def test_files_that_change_between_the_readings(tmp_path):
    times = iter((PAIRS, PAIRS[:-1]))
    changing = Text("test", "en", "de", {"train": lambda: iter(next(times))})
    with pytest.raises(InputError, match="changed while they were read"):
        prepare(changing, tmp_path / "s", SETTINGS, say=quiet)


def is_whole(folder: Path) -> bool:
    try:
        return len(open_store(folder).train) == len(PAIRS) - 4
    except InputError as error:
        if "no store there" in str(error):
            return False
        raise


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_is_whole_or_not_there(tmp_path, kind):
    """Each operation on files fails once: afterwards all is there or nothing, and preparing again makes it whole."""
    counter = FaultyDisk()
    with with_disk(counter):
        make(tmp_path / "whole")
    assert counter.count > 30
    for at in range(1, counter.count + 1, 3):
        folder, refused, lines = tmp_path / f"s{at}", False, []
        with with_disk(FaultyDisk(at, kind)):
            try:
                make(folder, say=lines.append)
            except InputError:
                refused = True
            except Crash:
                pass
        assert is_whole(folder) or not refused or not folder.exists() or not any(folder.glob("*.new")), at
        assert is_whole(make(folder).folder), at
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            path.name for path in (tmp_path / "whole").iterdir()
        )


def test_a_disk_that_is_full_leaves_what_others_wrote(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(preparation.disk, "append", full)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    for name in ("s", "mine"):
        with pytest.raises(InputError, match=f"{name}/train.source.ids.new.*No space left on device"):
            make(tmp_path / name)
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "letter.txt"]


def test_settings_of_no_use():
    for name, value in {"vocab_size": 0, "max_length": 1, "max_ratio": 0.9, "sample": 0}.items():
        with pytest.raises(ValueError, match=f"{name} must be at least"):
            StoreSettings(**{name: value})
