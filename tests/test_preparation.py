"""Preparing a store: text as a stream, what is left out, the ids of the tokenizer, and all or nothing (chapter 93)."""

import errno
import gzip
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated.base.files import InputError, locked, read_json, write_json
from annotated.command.cli import main
from annotated.text import preparation
from annotated.text.preparation import StoreSettings, Text, WordCache, prepare, text_of, wmt14
from annotated.text.store import id_kind, open_store
from annotated.text.tokenization import Tokenizer, tokenize, train_tokenizer
from tests.messages import message, refused
from tests.stores import NOUNS, PAIRS, SETTINGS, make, quiet, text, write_pairs
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


@pytest.mark.slow
def test_folders_and_named_corpora(tmp_path):
    for name, content in {"train.en": "a\n", "train.de": "b\n", "dev.tsv": "c\td\n"}.items():
        (tmp_path / name).write_text(content)
    found = text_of([str(tmp_path), "embedded"], "en", "de")
    assert next(found.streams["train"]()) == ("a", "b")
    assert next(found.streams["valid"]()) == ("c", "d")
    assert sum(1 for _ in found.streams["train"]()) == 70_001
    assert set(found.streams) == {"train", "valid", "test"}


BAD_TEXT = {
    "sides": ({"a": b"1\n2\n", "b": b"1\n"}, message("store-sides-differ", "b", 1, "a")),
    "other side": ({"a": b"1\n", "b": b"1\n2\n"}, message("store-sides-differ", "a", 1, "b")),
    "not UTF-8": ({"a": b"1\n\xff\n", "b": b"1\n2\n"}, message("text-not-utf8", "a", 2, "ff")),
    "no end": ({"a": b"x" * 1_000_001, "b": b"1\n"}, message("line-too-long", "a", 1, "1,000,000")),
    "missing": ({"a": b"1\n"}, message("store-corpus-unknown", "b")),
}


@pytest.mark.parametrize("case", BAD_TEXT)
def test_text_that_cannot_be_read(tmp_path, monkeypatch, case):
    files, says = BAD_TEXT[case]
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        Path(name).write_bytes(content)
    with pytest.raises(InputError, match=f"^{says}$"):
        list(text_of(["a,b"], "en", "de").streams["train"]())


def test_a_line_without_a_tab(tmp_path):
    (tmp_path / "a.tsv").write_text("one\teins\ntwo\n")
    with refused("no-tab", tmp_path / "a.tsv", 2):
        list(text_of([f"{tmp_path}/a.tsv"], "en", "de").streams["train"]())


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


def test_the_usual_files_of_wmt14(tmp_path):
    found = wmt14(wmt_folder(tmp_path / "wmt"))
    assert [pair[0].split(".")[0] for pair in found.streams["train"]()] == [
        "commoncrawl",
        "europarl-v7",
        "news-commentary-v9",
    ]
    assert list(found.streams["valid"]()) == [("newstest2013 en", "newstest2013 de")]
    assert len(list(found.streams["test"]())) == 2


def test_a_file_of_wmt14_that_is_missing(tmp_path):
    folder = wmt_folder(tmp_path / "wmt")
    name = "europarl-v7.de-en.de"
    (folder / "training" / name).unlink()
    with refused("wmt14-file-missing", folder, name, name):
        wmt14(folder)
    with refused("wmt14-languages", "de or fr", "en", "cs"):
        wmt14(folder, "en", "cs")
    with refused("wmt14-folder-missing", tmp_path / "nowhere"):
        wmt14(tmp_path / "nowhere")


# What is left out


def test_the_first_reading_leaves_out_empty_pairs_and_duplicates():
    pairs = [("a", "b"), ("", "b"), ("a", "b"), ("a", "c"), ("ab", ""), ("a", "b")]
    found = preparation.scan(lambda: iter(pairs), StoreSettings())
    assert found.kept.tolist() == [True, False, False, True, False, False]
    assert found.left_out == {"empty": 2, "duplicate": 2}


def test_a_tab_or_the_place_of_a_blank_makes_another_pair():
    found = preparation.scan(lambda: iter([("a b", "c"), ("a", "b c"), ("ab", "c")]), StoreSettings())
    assert found.kept.all()


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
    assert left(" ".join([one] * 3), max_ratio=3.0) == {}
    assert left(" ".join([one] * 3), max_ratio=2.9) == {"unlikely ratio": 1}
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
@settings(deadline=None, max_examples=300)
@given(st.lists(st.text(max_size=30) | st.sampled_from((*NOUNS, *ODD)), max_size=6).map(" ".join))
def test_cutting_words_once_gives_the_tokens_of_the_whole(text):
    tokenizer = CUT.setdefault("tokenizer", train_tokenizer((text for pair in PAIRS for text in pair), 300))
    words = CUT.setdefault("words", WordCache(tokenizer, id_kind(len(tokenizer))))
    for _ in range(2):  # new, and known
        assert np.frombuffer(words.encode(text), words.kind).tolist() == tokenize(tokenizer, [text])[0]
        words.learn([text])


CUT: dict = {}


def test_a_full_cache_cuts_each_time(tokenizer):
    words = WordCache(tokenizer, id_kind(300))
    words.LIMIT = 2
    words.learn(["The dog sees"])
    assert len(words) == 2
    assert (
        np.frombuffer(words.encode("The dog sees cats"), "<u2").tolist()
        == tokenize(tokenizer, ["The dog sees cats"])[0]
    )
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


def test_the_same_again_is_found_and_another_refused(tmp_path):
    lines: list[str] = []
    make(tmp_path / "s")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "s").iterdir()}
    make(tmp_path / "s", say=lines.append)
    assert lines[-1] == f"the store is in {tmp_path / 's'} already"
    for pairs, options in ((PAIRS[1:], SETTINGS), (PAIRS, StoreSettings(vocab_size=301, max_ratio=3.0, held_out=2))):
        with refused("store-taken", tmp_path / "s"):
            make(tmp_path / "s", pairs, settings=options)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "s").iterdir()} == before


def test_two_cannot_write_at_once(tmp_path):
    with locked(tmp_path / "s", quiet), refused("folder-locked", tmp_path / "s"):
        make(tmp_path / "s")


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        (PAIRS[:49], message("store-too-few-pairs", "test", 49)),
        (
            [("a b c d e f g h i", str(i)) for i in range(60)],
            message("store-no-pairs", "test", "left out: 58 unlikely ratio"),
        ),
        (PAIRS[:1] * 60, message("store-too-few-pairs", "test", 1)),
    ],
)
def test_too_few_pairs_leave_no_folder(tmp_path, pairs, says):
    with pytest.raises(InputError, match=says):
        make(tmp_path / "s", pairs, settings=StoreSettings(vocab_size=290))
    assert not (tmp_path / "s").exists()


def test_files_that_change_between_the_readings(tmp_path):
    times = iter((PAIRS, PAIRS[:-1]))
    changing = Text("test", "en", "de", {"train": lambda: iter(next(times))})
    with refused("store-files-changed", "test"):
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


def test_a_disk_that_is_full(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(preparation.disk, "append", full)
    with refused("store-unwritable", tmp_path / "s" / "train.source.ids.new", "No space left on device"):
        make(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_what_another_wrote_stays(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "letter.txt").write_text("dear")
    with pytest.raises(InputError):
        make(tmp_path / "s", PAIRS[:10])
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(("name", "value"), [("vocab_size", 0), ("max_length", 1), ("max_ratio", 0.9), ("sample", 0)])
def test_settings_of_no_use(name, value):
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        StoreSettings(**{name: value})


# The command


def test_preparing_wmt14(tmp_path, capsys):
    folder = wmt_folder(tmp_path / "wmt")
    for language in ("en", "de"):
        lines = [f"{a} {b} {language}" for a in NOUNS for b in NOUNS]
        (folder / "training" / f"commoncrawl.de-en.{language}").write_text("\n".join(lines) + "\n")
    options = ["--corpus", "wmt14", "--from", str(folder), "--vocab-size", "290", "--quiet"]
    assert main(["prepare", *options, "--output", str(tmp_path / "store")]) == 0
    assert open_store(tmp_path / "store").notes["corpus"] == "wmt14"
    assert main(["prepare", "--corpus", "wmt14", "--output", str(tmp_path / "other")]) == 2
    assert "--corpus wmt14 and --from go together" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--max-ratio", "0.5"], "max_ratio must be at least 1, not 0.5"),
        (["--max-length", "1"], "max_length must be at least 2, not 1"),
    ],
)
def test_options_of_no_use_are_one_line(tmp_path, capsys, option, says):
    options = ["--corpus", write_pairs(tmp_path / "pairs.tsv"), *option, "--output", str(tmp_path / "store")]
    assert main(["prepare", *options]) == 1
    assert re.fullmatch(f"annotated prepare: {message('store-setting-refused', says)}\n", capsys.readouterr().err)
    assert not (tmp_path / "store").exists()


def test_a_store_is_not_written_over_a_run(tmp_path, capsys):
    write_json(tmp_path / "run.json", {})
    assert main(["prepare", "--corpus", write_pairs(tmp_path / "pairs.tsv"), "--output", str(tmp_path)]) == 1
    assert "holds a run already" in capsys.readouterr().err
