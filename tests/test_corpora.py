"""Corpora: every split from one interface, and one line that says what is wrong with a file."""

from __future__ import annotations

import bz2
import functools
import gzip
import hashlib
import http.client
import io
import lzma
import os
import re
import shutil
from pathlib import Path

import pytest

from annotated.base.corpus import SentencePair
from annotated.base.files import InputError
from annotated.text import corpora, grammar
from annotated.text.corpora import (
    EMBEDDED,
    HOLD_OUT_EVERY,
    MULTI30K_FILES,
    NAMED,
    download_multi30k,
    generated,
    kept_folder,
    load_corpus,
    multi30k_folder,
    neutral,
    read_lines,
    read_pairs,
    read_tsv,
    shared_pairs,
    split_pairs,
)
from annotated.text.grammar.splits import SPLITS, embedded_split


def texts(pairs: list[SentencePair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]


def write(path: Path, content: str | bytes) -> Path:
    """A file, packed as its name ends."""
    raw = content.encode("utf-8") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    pack = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(raw))
    return path


def numbered(count: int) -> str:
    return "".join(f"source {i}\ttarget {i}\n" for i in range(count))


# Lines


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.xz", "a.bz2"])
def test_lines_of_plain_and_packed_files(tmp_path: Path, name: str) -> None:
    """A last newline adds no line; line ends of Windows and the byte order mark are no text."""
    write(tmp_path / name, "by what it holds\n").rename(tmp_path / "renamed.txt")
    assert read_lines(tmp_path / "renamed.txt") == ["by what it holds"]
    assert read_lines(write(tmp_path / name, "Käse\n\nTür\n")) == ["Käse", "", "Tür"]
    assert read_lines(write(tmp_path / name, "one\ntwo")) == ["one", "two"]
    assert read_lines(write(tmp_path / name, "one\n\n")) == ["one", ""]
    assert read_lines(write(tmp_path / name, "\ufeffone\r\ntwo\r\n")) == ["one", "two"]


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    """`str.splitlines` would break here and shift every later pair."""
    for mark in ("\r", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"):
        assert read_lines(write(tmp_path / "a", f"one{mark}still one\ntwo\n")) == [f"one{mark}still one", "two"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """zlib's own error is no OSError, and would get through as a traceback."""
    damaged = bytearray(gzip.compress(bytes(range(256)) * 40))
    damaged[12:30] = b"\xff" * 18
    for name, content in {
        "empty": b"", "blank": b" \r\n\n", "blank.gz": gzip.compress(b"\n"), "damaged.gz": bytes(damaged),
        "cut.gz": gzip.compress(b"a line\n" * 1000)[:-12],
        "latin.gz": gzip.compress("gut\nTür\n".encode("latin-1")), "cut.xz": lzma.compress(b"a line\n" * 99)[:-20],
        "text.zip": b"PK\x03\x04...", "pointer.txt": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"^{tmp_path / name}: "):
            read_lines(tmp_path / name)
    for path in (tmp_path, tmp_path / "none.gz", tmp_path / "none"):
        with pytest.raises(InputError, match=f"^{path}: "):
            read_lines(path)


# Pairs


def test_pairs_of_two_files_keep_their_order_and_lose_outer_spaces(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.en", " one \n\ntwo\n"), write(tmp_path / "a.de", "eins\nleer\n\tzwei\n")
    assert texts(read_pairs(source, target)) == [("one", "eins"), ("", "leer"), ("two", "zwei")]


def test_tables_ignore_further_columns_and_may_have_an_empty_side(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "one\teins\tlicence\r\n two\tzwei \n\tdrei\nfour\t\n")
    assert texts(read_tsv(path)) == [("one", "eins"), ("two", "zwei"), ("", "drei"), ("four", "")]
    assert len(read_tsv(write(tmp_path / "roman.tsv", "1\tI\n2\tII\n3\tIII\n"))) == 3
    with pytest.raises(InputError, match=r"numbered\.tsv.* 9 in line 3"):
        read_tsv(write(tmp_path / "numbered.tsv", "7\ta\tA\n8\tb\tB\n9\tc\tC\n"))


# Splits of one file


@pytest.mark.parametrize("count", [50, 51, 99, 100, 149, 1_003])
def test_divided_splits_are_disjoint_and_complete(count: int) -> None:
    pairs = [SentencePair(f"source {i}", f"target {i}") for i in range(count)]
    splits = split_pairs(pairs)
    assert list(splits) == ["train", "valid", "test"]
    together = [pair for split in splits.values() for pair in split]
    assert len(together) == count
    assert set(together) == set(pairs)
    assert len(splits["test"]) == count // HOLD_OUT_EVERY
    assert splits["valid"]
    assert len(splits["train"]) >= 0.95 * count


@pytest.mark.parametrize("name", ["mine.tsv", "mine.tsv.gz", "a,b.tsv"])
def test_single_file(tmp_path: Path, name: str) -> None:
    corpus = load_corpus(str(write(tmp_path / name, numbered(120))))
    assert {split: len(corpus.split(split)) for split in corpus.loaders} == {
        "train": 116, "valid": 2, "test": 2, "all": 120
    }  # fmt: skip
    assert texts(corpus.split("valid"))[0] == ("source 48", "target 48")
    few = load_corpus(str(write(tmp_path / name, numbered(HOLD_OUT_EVERY - 1))))
    with pytest.raises(InputError, match="49 pairs"):
        few.split("train")
    assert len(few.split("all")) == 49  # enough to be scored


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_two_files_joined_by_a_comma_are_divided_like_one(tmp_path: Path, ending: str) -> None:
    table = load_corpus(str(write(tmp_path / "a.tsv", numbered(120))))
    sides = [
        write(tmp_path / f"a,b/{s}{ending}", "".join(f"{s} {i}\n" for i in range(120))) for s in ("source", "target")
    ]
    joined = load_corpus(",".join(map(str, sides)), "xx", "yy")
    assert (joined.source_language, joined.target_language) == ("xx", "yy")
    assert all(texts(joined.split(split)) == texts(table.split(split)) for split in ("train", "valid", "test"))


# Folders


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("valid", ["valid", "val", "dev"])
def test_folder_of_pairs_of_files(tmp_path: Path, valid: str, ending: str) -> None:
    for stem in ("train", valid, "test"):
        for language in ("fr", "en"):
            write(tmp_path / f"{stem}.{language}{ending}", f"{stem} {language}\n")
    corpus = load_corpus(str(tmp_path), "fr", "en")
    stems = {"train": "train", "valid": valid, "test": "test"}
    assert {split: texts(corpus.split(split)) for split in corpus.loaders} == {
        split: [(f"{stem} fr", f"{stem} en")] for split, stem in stems.items()
    }


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_folder_of_tables_without_test(tmp_path: Path, ending: str) -> None:
    for stem in ("train", "dev"):
        write(tmp_path / f"{stem}.tsv{ending}", f"{stem}\tziel\n")
    corpus = load_corpus(str(tmp_path))
    assert {split: texts(corpus.split(split)) for split in corpus.loaders} == {
        "train": [("train", "ziel")],
        "valid": [("dev", "ziel")],
    }
    with pytest.raises(InputError, match="'test': choose one of train, valid"):
        corpus.split("test")


def test_folder_without_valid_keeps_some_of_train_apart_and_says_what_test_has_of_it(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", numbered(100))
    write(tmp_path / "test.tsv", numbered(3) + "other\ttarget\n")
    corpus = load_corpus(str(tmp_path))
    every = [pair for split in ("train", "valid") for pair in texts(corpus.split(split))]
    assert sorted(every) == sorted(texts(read_tsv(tmp_path / "train.tsv")))
    assert len(corpus.split("valid")) == 2
    assert shared_pairs(corpus, "test").startswith("3 of 4 pairs in test")
    assert not shared_pairs(corpus, "valid")


# Corpora by name


def with_strange(pair: SentencePair) -> str:
    """The source, with another adjective at its end where that decides what a pronoun means."""
    decides = "pronoun decided by an adjective" in pair.phenomena
    return re.sub(r"( it \w+ \w+ )\w+\.$", r"\1strange.", pair.source) if decides else pair.source


SOURCES = {  # what becomes of a source in the corpora of EMBEDDED
    "embedded": lambda pair: pair.source,
    "embedded-neutral": with_strange,
}


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_corpus_comes_through_the_same_interface(name: str) -> None:
    assert name in SOURCES, f"corpus {name!r} has nothing to compare with: add what it does to SOURCES in this file"
    corpus = load_corpus(name)
    assert list(corpus.loaders) == list(SPLITS)
    assert [pair.source for pair in corpus.split("valid")] == [SOURCES[name](pair) for pair in embedded_split("valid")]


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A cache of our own."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    generated.cache_clear()
    yield tmp_path
    generated.cache_clear()


def test_another_grammar_has_another_folder(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule counts in whatever module it stands, and a word in whatever table."""
    before, copy = kept_folder(), own_home / "grammar"
    shutil.copytree(Path(grammar.__file__).parent, copy)
    monkeypatch.setattr(grammar, "__file__", str(copy / "__init__.py"))
    monkeypatch.setattr(corpora, "TABLES", copy / "data")
    assert kept_folder() == before
    for name in ("clauses.py", "data/nouns.tsv"):
        (copy / name).write_text((copy / name).read_text(encoding="utf-8") + "\n", encoding="utf-8")
        assert kept_folder() != before, name
        before = kept_folder()


@pytest.mark.slow
def test_a_split_is_generated_once_and_anew_where_it_was_damaged(own_home: Path, monkeypatch) -> None:
    first = generated("pronoun")
    assert list(first) == embedded_split("pronoun")
    (file,) = kept_folder().iterdir()
    whole = file.read_bytes()
    for damage in (b"\xff", whole.replace(b"crossed", b"crosses")):
        file.write_bytes(damage)
        generated.cache_clear()
        assert generated("pronoun") == first
        assert file.read_bytes() == whole
    monkeypatch.setattr(corpora, "embedded_split", lambda *_: pytest.fail("generated again"))
    generated.cache_clear()
    assert generated("pronoun") == first


@pytest.mark.slow
def test_a_corpus_needs_no_cache(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_home / ".cache").write_text("a file where a folder should be")
    assert load_corpus("embedded").split("pronoun") == embedded_split("pronoun")

    def homeless():
        raise RuntimeError("no home")

    generated.cache_clear()
    monkeypatch.setattr(Path, "home", homeless)
    assert load_corpus("embedded").split("pronoun") == embedded_split("pronoun")


def test_every_named_corpus_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What messages and help name is loaded; Multi30k needs its files."""
    monkeypatch.setenv("ANNOTATED_DATA", str(tmp_path))
    for name in MULTI30K_FILES:
        write(tmp_path / "multi30k" / name, "one\n")
    assert [load_corpus(name).name for name in NAMED] == list(NAMED)


@pytest.mark.slow
def test_the_neutral_corpus_has_one_word_for_every_deciding_adjective() -> None:
    """Trained and tested on it, nothing but a coin is left to choose the pronoun: minimal pairs have one source."""
    corpus = load_corpus("embedded-neutral")
    pairs = corpus.split("pronoun")
    for first, second in zip(pairs[::2], pairs[1::2], strict=True):
        assert first.source == second.source
        assert first.source.endswith("strange.")
        assert first.target != second.target
        assert "seltsam" in first.target
    assert corpus.split("valid")[:50] == [neutral(pair) for pair in embedded_split("valid")[:50]]
    untouched = [pair for pair in embedded_split("test") if "pronoun decided by an adjective" not in pair.phenomena]
    assert [neutral(pair) for pair in untouched] == untouched


def test_where_multi30k_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container there may be no home (chroma#1962's kind)."""
    monkeypatch.setenv("ANNOTATED_DATA", str(tmp_path))
    with pytest.raises(InputError, match=f"^{tmp_path}/multi30k/train.en.gz: "):
        load_corpus("multi30k")
    with pytest.raises(InputError, match="en and fr"):
        load_corpus("multi30k", "en", "fr")
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in (None, ""):
        monkeypatch.delenv("ANNOTATED_DATA") if value is None else monkeypatch.setenv("ANNOTATED_DATA", value)
        assert multi30k_folder() == tmp_path / ".cache" / "annotated" / "multi30k"
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(InputError, match="ANNOTATED_DATA"):
        multi30k_folder()


# The download, from a folder that plays the repository


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    stems = ("train", "val", "test_2016_flickr")
    for stem in stems:
        for language in ("en", "de"):
            write(folder / f"{stem}.{language}.gz", f"{stem} {language}\n")
    known = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in MULTI30K_FILES}
    monkeypatch.setattr(corpora, "MULTI30K_FILES", known)
    return folder


def test_download_fetches_everything_once(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = repository.as_uri() + "/"
    monkeypatch.setenv("ANNOTATED_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(corpora, "download_multi30k", functools.partial(download_multi30k, url=url))
    corpus = load_corpus("multi30k", "de", "en", download=True)
    assert sorted(path.name for path in multi30k_folder().iterdir()) == sorted(MULTI30K_FILES)
    assert texts(corpus.split("valid")) == [("val de", "val en")]
    assert texts(corpus.split("test")) == [("test_2016_flickr de", "test_2016_flickr en")]
    for path in repository.iterdir():
        path.unlink()
    assert texts(load_corpus("multi30k", download=True).split("train")) == [("train en", "train de")]


def test_a_download_that_fails_is_named_and_the_next_attempt_goes_on(tmp_path: Path, repository: Path) -> None:
    """A file that is missing, or not the pinned one: nothing of it stays, and those that have arrived are kept."""
    folder, url = tmp_path / "data", repository.as_uri() + "/"
    good = {path.name: path.read_bytes() for path in repository.iterdir()}
    (repository / "train.de.gz").unlink()
    write(repository / "val.en.gz", "somebody else's text\n")
    with pytest.raises(InputError, match=f"^{url}train.de.gz: "):
        download_multi30k(folder, url)
    assert [path.name for path in folder.iterdir()] == ["train.en.gz"]
    (repository / "train.de.gz").write_bytes(good["train.de.gz"])
    with pytest.raises(InputError, match=f"^{url}val.en.gz: "):
        download_multi30k(folder, url)
    assert sorted(path.name for path in folder.iterdir()) == ["train.de.gz", "train.en.gz"]
    (repository / "val.en.gz").write_bytes(good["val.en.gz"])
    download_multi30k(folder, url)
    assert sorted(path.name for path in folder.iterdir()) == sorted(MULTI30K_FILES)


def test_what_the_network_sends_in_place_of_a_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A portal's own page, a file without end, and http.client.IncompleteRead, which is no OSError."""

    class Broken(io.BytesIO):
        def read(self, *_: object):
            raise http.client.IncompleteRead(b"half", 100)

    answers = (
        (io.BytesIO(b"<html>Please log in</html>"), "web page"),
        (io.BytesIO(b"x"), ""),
        (Broken(), "4 bytes read"),
    )
    for answer, said in answers:
        monkeypatch.setattr(corpora.urllib.request, "urlopen", lambda *_, answer=answer, **__: answer)
        with pytest.raises(InputError, match=rf"^https://example\.org/train.en.gz: .*{said}"):
            download_multi30k(tmp_path / "data", "https://example.org/")
        assert not (tmp_path / "data").exists()


@pytest.mark.slow
def test_a_small_file_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bomb.tsv.gz").write_bytes(gzip.compress((b"x" * 99_999 + b"\n") * 1_000))
    with pytest.raises(InputError, match=r"bomb\.tsv\.gz.*67,108,864 bytes"):
        read_lines(tmp_path / "bomb.tsv.gz")


# The real data, where it is


@pytest.mark.slow
def test_real_multi30k_is_the_pinned_one_and_can_be_turned() -> None:
    if not os.environ.get("ANNOTATED_DATA") or not (folder := multi30k_folder()).joinpath("train.en.gz").exists():
        pytest.skip("ANNOTATED_DATA names no folder with Multi30k")
    found = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in MULTI30K_FILES}
    assert found == MULTI30K_FILES
    pair, turned = (load_corpus("multi30k", *way).split("train")[0] for way in (("en", "de"), ("de", "en")))
    assert (pair.source, pair.target) == (turned.target, turned.source)
    assert pair.source.startswith("Two young")
