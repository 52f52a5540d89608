"""Token ids of a prepared corpus, read from disk as they are needed."""

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from annotated.base.corpus import SentencePair
from annotated.base.files import InputError, current, disk, read_json, verify
from annotated.text.corpora import read_tsv
from annotated.text.pairs import Ids, Pairs, Side
from annotated.text.tokenization import Tokenizer, load_tokenizer

__all__ = ["FORMAT", "Store", "id_kind", "is_store", "open_store"]


FORMAT = "annotated-store-1"
PREPARE_AGAIN = "Prepare the store again."


@dataclass(frozen=True)
class Store:
    """A prepared corpus: training pairs in mapped files, the tokenizer, and what `store.json` says."""

    folder: Path
    notes: dict[str, Any]
    tokenizer: Tokenizer
    train: Pairs

    @property
    def name(self) -> str:
        return str(self.folder)

    @property
    def source_language(self) -> str:
        return self.notes["source"]

    @property
    def target_language(self) -> str:
        return self.notes["target"]

    def split(self, name: str) -> list[SentencePair]:
        """The pairs of valid or test, as text. Raises InputError when it is not there."""
        return read_tsv(current(self.folder, f"{name}.tsv"))


def is_store(name: str | Path) -> bool:
    """Whether this names a folder with a store."""
    return current(Path(name), "store.json").exists()


def open_store(folder: Path) -> Store:
    """A store that `prepare` made. Raises InputError, naming the file, when it is damaged, foreign, or not whole."""
    folder = Path(folder)
    if not is_store(folder):
        raise InputError(f"{folder}: no store there (no store.json)", "Make one with `annotated prepare`.")
    verify(folder)
    path, kinds = (
        current(folder, "store.json"),
        {"pairs": int, "vocab_size": int, "source": str, "target": str, "key": str},
    )
    notes = read_json(path)
    if not isinstance(notes, dict) or notes.get("format") != FORMAT:
        raise InputError(f"{path}: not a store of this version ({FORMAT}): prepare it anew")
    for name, kind in kinds.items():
        if type(notes.get(name)) is not kind:
            raise InputError(f"{path}: {name!r} is missing, or something else", PREPARE_AGAIN)
    tokenizer = load_tokenizer(folder)
    if len(tokenizer) != notes["vocab_size"]:
        raise InputError(
            f"{folder}: its tokenizer has {len(tokenizer)} pieces, store.json says {notes['vocab_size']}",
            "Prepare the store again: its files are of different stores.",
        )
    sides = [open_side(folder, side, notes["pairs"], len(tokenizer)) for side in ("source", "target")]
    return Store(folder, notes, tokenizer, Pairs(*sides))


def id_kind(vocab_size: int) -> np.dtype:
    """The smallest type that ids of so many pieces fit into: 16 bits, or 32."""
    return np.dtype("<u2" if vocab_size <= 2**16 else "<u4")


def open_side(folder: Path, side: str, pairs: int, vocab_size: int) -> Side:
    """One side of the training pairs, mapped. Raises InputError when offsets or ids cannot be right."""
    paths = [current(folder, f"train.{side}.{what}") for what in ("ids", "offsets")]
    kinds = [id_kind(vocab_size), np.dtype("<i8")]
    for path, kind in zip(paths, kinds, strict=True):
        if not path.is_file() or not (size := path.stat().st_size) or size % kind.itemsize:
            raise InputError(
                f"{path}: missing, empty or cut", "Copy the whole folder again, or prepare the store again."
            )
    maps = tuple(map(mapped, paths))
    ids, offsets = (np.frombuffer(one, kind) for one, kind in zip(maps, kinds, strict=True))
    if len(offsets) != pairs + 1 or offsets[0] or offsets[-1] != len(ids):
        raise InputError(
            f"{paths[1]}: does not fit {paths[0].name} and store.json",
            "Prepare the store again: its files are of different stores, or one was cut.",
        )
    last = 0
    for block in blocks(paths[1], kinds[1]):
        if (np.diff(block, prepend=last) < 0).any():
            raise InputError(f"{paths[1]}: a sentence ends before it begins", PREPARE_AGAIN)
        last = block[-1]
    for block in blocks(paths[0], kinds[0]):
        if block.max() >= vocab_size:
            raise InputError(
                f"{paths[0]}: has the id {block.max()}, but the vocabulary ends at {vocab_size - 1}",
                "Prepare the store again: the file is damaged, or of another vocabulary.",
            )
    return Side(ids, offsets, maps)


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """The file, open. Raises InputError when it cannot be read."""
    try:
        with disk.open(path) as file:
            yield file
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror})", "If it is damaged, prepare the store again."
        ) from None


def mapped(path: Path) -> mmap.mmap:
    """The file as memory, of which a page is read when somebody looks there."""
    with reading(path) as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def blocks(path: Path, kind: np.dtype, size: int = 2**20) -> Iterator[Ids]:
    """A file's numbers, a million at a time: so they need not stay in memory."""
    with reading(path) as file:
        while content := file.read(size * kind.itemsize):
            yield np.frombuffer(content, kind)
