"""Corpora: every split from one interface, and one line that says what is wrong with a file."""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.client
import io
import os
import re
import shutil
from pathlib import Path

import pytest

from annotated.base.corpus import SentencePair
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
    split_pairs,
)
from annotated.text.grammar.splits import SPLITS, embedded_split
from tests.messages import refused


def texts(pairs: list[SentencePair]) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]


def write(path: Path, content: str | bytes) -> Path:
    """A file, packed when its name ends in .gz."""
    raw = content.encode("utf-8") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def numbered(count: int) -> str:
    return "".join(f"source {i}\ttarget {i}\n" for i in range(count))


# Lines


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_of_plain_and_packed_files(tmp_path: Path, name: str) -> None:
    assert read_lines(write(tmp_path / name, "Käse\n\nTür\n")) == ["Käse", "", "Tür"]


def test_a_last_line_without_a_newline_counts_and_a_last_newline_adds_none(tmp_path: Path) -> None:
    assert read_lines(write(tmp_path / "a", "one\ntwo")) == read_lines(write(tmp_path / "b", "one\ntwo\n"))
    assert read_lines(write(tmp_path / "c", "one\n\n")) == ["one", ""]


def test_windows_line_ends_and_byte_order_mark_are_no_text(tmp_path: Path) -> None:
    assert read_lines(write(tmp_path / "a", "\ufeffone\r\ntwo\r\n")) == ["one", "two"]


@pytest.mark.parametrize("mark", ["\r", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_only_a_newline_ends_a_line(tmp_path: Path, mark: str) -> None:
    """`str.splitlines` would break here and shift every later pair."""
    path = write(tmp_path / "a", f"one{mark}still one\ntwo\n")
    assert read_lines(path) == [f"one{mark}still one", "two"]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_invalid_utf8_names_line_and_byte(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "gut\nTür\n".encode("latin-1"))
    with refused("text-not-utf8", path, 2, "fc"):
        read_lines(path)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("content", ["", "\n", " \r\n\n"])
def test_empty_file(tmp_path: Path, name: str, content: str) -> None:
    path = write(tmp_path / name, content)
    with refused("text-empty", path):
        read_lines(path)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_missing_file(tmp_path: Path, name: str) -> None:
    with refused("text-missing", tmp_path / name):
        read_lines(tmp_path / name)


def test_truncated_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"a line\n" * 1000)[:-12])
    reason = "Compressed file ended before the end-of-stream marker was reached"
    with refused("text-unreadable", path, reason):
        read_lines(path)


def test_damaged_and_misnamed_gzip(tmp_path: Path) -> None:
    """zlib's own error is no OSError, and would get through as a traceback."""
    damaged = bytearray(gzip.compress(bytes(range(256)) * 40))
    damaged[12:30] = b"\xff" * 18
    for name, content in {"damaged.gz": bytes(damaged), "plain.gz": b"not packed at all\n"}.items():
        path = tmp_path / name
        path.write_bytes(content)
        with refused("text-unreadable", path):
            read_lines(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with refused("text-unreadable", tmp_path):
        read_lines(tmp_path)


# Pairs


def test_pairs_of_two_files_keep_their_order_and_lose_outer_spaces(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.en", " one \n\ntwo\n"), write(tmp_path / "a.de", "eins\nleer\n\tzwei\n")
    assert texts(read_pairs(source, target)) == [("one", "eins"), ("", "leer"), ("two", "zwei")]


def test_sides_of_different_length(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.en", "one\ntwo\n"), write(tmp_path / "a.de", "eins\nzwei\ndrei\n")
    with refused("sides-differ", f"{source} has 2 lines, {target} has 3"):
        read_pairs(source, target)


def test_tsv_ignores_further_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "one\teins\tlicence\r\n two\tzwei \n")
    assert texts(read_tsv(path)) == [("one", "eins"), ("two", "zwei")]


def test_tsv_with_an_empty_side_has_a_tab(tmp_path: Path) -> None:
    assert texts(read_tsv(write(tmp_path / "a.tsv", "one\t\n\tzwei\n"))) == [("one", ""), ("", "zwei")]


def test_tsv_line_without_tab(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "one\teins\ntwo zwei\n")
    with refused("no-tab", path, 2):
        read_tsv(path)


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


def test_too_few_pairs_to_divide(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", numbered(HOLD_OUT_EVERY - 1))
    advice = "a file on its own is divided into train, valid and test; give a folder with the splits instead"
    corpus = load_corpus(str(path))
    with refused("too-few-pairs", 49, 50, advice):
        corpus.split("train")
    assert len(corpus.split("all")) == 49  # enough to be scored


@pytest.mark.parametrize("name", ["mine.tsv", "mine.tsv.gz", "a,b.tsv"])
def test_single_file(tmp_path: Path, name: str) -> None:
    corpus = load_corpus(str(write(tmp_path / name, numbered(120))))
    assert {split: len(corpus.split(split)) for split in corpus.loaders} == {
        "train": 116, "valid": 2, "test": 2, "all": 120
    }  # fmt: skip
    assert texts(corpus.split("valid"))[0] == ("source 48", "target 48")


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_two_files_joined_by_a_comma_are_divided_like_one(tmp_path: Path, ending: str) -> None:
    table = load_corpus(str(write(tmp_path / "a.tsv", numbered(120))))
    sides = [write(tmp_path / f"{s}{ending}", "".join(f"{s} {i}\n" for i in range(120))) for s in ("source", "target")]
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
    with refused("split-unknown", tmp_path, "'test'", "train, valid"):
        corpus.split("test")


def test_folder_with_one_side_missing_names_it(tmp_path: Path) -> None:
    write(tmp_path / "train.en", "one\n")
    corpus = load_corpus(str(tmp_path))
    with refused("text-missing", tmp_path / "train.de"):
        corpus.split("train")


def test_folder_without_a_corpus(tmp_path: Path) -> None:
    write(tmp_path / "train.en", "one\n")
    with refused("folder-without-corpus", tmp_path, "fr", "de"):
        load_corpus(str(tmp_path), "fr", "de")


def test_neither_a_name_nor_a_file(tmp_path: Path) -> None:
    name = str(tmp_path / "nowhere")
    with refused("corpus-unknown", name, ", ".join(NAMED)):
        load_corpus(name)


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


@pytest.mark.slow
def test_a_split_is_generated_once_and_then_read(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = generated("pronoun")
    assert list(first) == embedded_split("pronoun")
    monkeypatch.setattr(corpora, "embedded_split", lambda *_: pytest.fail("generated again"))
    generated.cache_clear()
    assert generated("pronoun") == first


@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"", b"\xff", b"of another grammar\n", None])
def test_a_damaged_file_of_the_cache_is_generated_anew(own_home: Path, damage: bytes | None) -> None:
    first = generated("pronoun")
    (file,) = kept_folder().iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"crossed", b"crosses") if damage is None else damage)
    generated.cache_clear()
    assert generated("pronoun") == first
    assert file.read_bytes() == whole


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


def test_unknown_split_names_the_known_ones() -> None:
    corpus = load_corpus("embedded")
    splits = "train, valid, test, long, novel, pronoun"
    with refused("split-unknown", "embedded", "'dev'", splits):
        corpus.split("dev")


def test_wrong_languages() -> None:
    with refused("embedded-languages", "de", "en"):
        load_corpus("embedded", "de", "en")
    with refused("multi30k-languages", "en", "fr"):
        load_corpus("multi30k", "en", "fr")


def test_missing_multi30k_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANNOTATED_DATA", str(tmp_path))
    way = "set ANNOTATED_DATA to the folder that holds multi30k/, or ask for --download"
    with refused("multi30k-missing", tmp_path / "multi30k" / "train.en.gz", way):
        load_corpus("multi30k")


def test_multi30k_folder_without_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in (None, ""):
        monkeypatch.delenv("ANNOTATED_DATA", raising=False)
        if value is not None:
            monkeypatch.setenv("ANNOTATED_DATA", value)
        assert multi30k_folder() == tmp_path / ".cache" / "annotated" / "multi30k"


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


def test_download_of_a_changed_file(tmp_path: Path, repository: Path) -> None:
    """A file that is not the pinned one is refused and nothing of it stays, so the next attempt starts afresh."""
    folder, url = tmp_path / "data", repository.as_uri() + "/"
    good = (repository / "val.en.gz").read_bytes()
    write(repository / "val.en.gz", "somebody else's text\n")
    with refused("download-differs", f"{url}val.en.gz", ""):
        download_multi30k(folder, url)
    assert sorted(path.name for path in folder.iterdir()) == ["train.de.gz", "train.en.gz"]
    (repository / "val.en.gz").write_bytes(good)
    download_multi30k(folder, url)
    assert sorted(path.name for path in folder.iterdir()) == sorted(MULTI30K_FILES)


def test_download_of_a_missing_file(tmp_path: Path, repository: Path) -> None:
    (repository / "train.de.gz").unlink()
    folder, url = tmp_path / "data", repository.as_uri() + "/"
    with refused("download-failed", f"{url}train.de.gz"):
        download_multi30k(folder, url)
    assert [path.name for path in folder.iterdir()] == ["train.en.gz"]


def test_download_that_breaks_off(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """http.client.IncompleteRead is no OSError, and would get through as a traceback."""

    class Broken:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def read(self, _):
            raise http.client.IncompleteRead(b"half", 100)

    monkeypatch.setattr(corpora.urllib.request, "urlopen", lambda *_, **__: Broken())
    with refused(
        "download-failed", "https://example.org/train.en.gz", "IncompleteRead(4 bytes read, 100 more expected)"
    ):
        download_multi30k(tmp_path / "data", "https://example.org/")
    assert not (tmp_path / "data").exists()


def test_a_web_page_in_place_of_the_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A portal that answers everything with its own page, or a file without end."""
    for content, other in ((b"<html>Please log in</html>", " but a web page"), (b"x", "")):
        monkeypatch.setattr(corpora.urllib.request, "urlopen", lambda *_, content=content, **__: io.BytesIO(content))
        with refused("download-differs", "https://example.org/train.en.gz", other):
            download_multi30k(tmp_path / "data", "https://example.org/")
        assert not (tmp_path / "data").exists()


@pytest.mark.slow
def test_a_small_file_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bomb.tsv.gz").write_bytes(gzip.compress((b"x" * 99_999 + b"\n") * 1_000))
    reason = "it unpacks to more than 67,108,864 bytes, which no text of its size does"
    with refused("text-unreadable", tmp_path / "bomb.tsv.gz", reason):
        read_lines(tmp_path / "bomb.tsv.gz")


def test_pinned_address_and_checksums_are_complete() -> None:
    assert re.search(r"/[0-9a-f]{40}/", corpora.MULTI30K_URL), "no commit is pinned"
    assert len(set(MULTI30K_FILES.values())) == 6
    assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in MULTI30K_FILES.values())


# The real data, where it is


def real_multi30k() -> Path:
    if not os.environ.get("ANNOTATED_DATA"):
        pytest.skip("ANNOTATED_DATA is not set: no Multi30k to read")
    if not (multi30k_folder() / "train.en.gz").exists():
        pytest.skip(f"no Multi30k in {multi30k_folder()}")
    return multi30k_folder()


@pytest.mark.slow
def test_real_multi30k_has_its_known_size_and_first_pair() -> None:
    real_multi30k()
    corpus = load_corpus("multi30k")
    sizes = {split: len(corpus.split(split)) for split in corpus.loaders}
    assert sizes == {"train": 29_000, "valid": 1_014, "test": 1_000}
    pair, turned = corpus.split("train")[0], load_corpus("multi30k", "de", "en").split("train")[0]
    assert (pair.source, pair.target) == (turned.target, turned.source)
    assert pair.source.startswith("Two young")
    assert all(pair.source and pair.target for split in corpus.loaders for pair in corpus.split(split))


def test_real_multi30k_files_are_the_pinned_ones() -> None:
    folder = real_multi30k()
    found = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in MULTI30K_FILES}
    assert found == MULTI30K_FILES


def test_without_a_home_folder_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch):
    """chroma#1962's kind: a user of a container may have none."""
    monkeypatch.delenv("ANNOTATED_DATA", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with refused("home-missing"):
        corpora.multi30k_folder()
