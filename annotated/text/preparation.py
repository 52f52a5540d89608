"""A corpus that does not fit into memory, cleaned, cut into pieces and stored."""

import array
import hashlib
import html
import itertools
import json
import random
import re
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from annotated.base.files import FREE_SPACE, InputError, disk, finish, json_bytes, locked, read_json, write_together
from annotated.machine.devices import prepare_worker
from annotated.text.corpora import (
    ENDINGS,
    FIND_THE_LINE,
    NAMED,
    files_of,
    load_corpus,
    split_files,
    stream_lines,
    tab_separated,
)
from annotated.text.pairs import Ids
from annotated.text.store import FORMAT, Store, id_kind, open_store
from annotated.text.tokenization import CHARACTERS, NORMALIZATIONS, Tokenizer, train_tokenizer

__all__ = ["StoreSettings", "prepare", "text_of", "wmt14"]


Stream = Callable[[], Iterator[tuple[str, str]]]


@dataclass(frozen=True)
class Text:
    """A corpus whose pairs are read one by one, by split: train, and valid and test where it has them."""

    name: str
    source_language: str
    target_language: str
    streams: Mapping[str, Stream]


def sentences(path: Path) -> Iterator[str]:
    """The sentences of a file: its lines, or what stands in the segments of an `.sgm` file."""
    for line in stream_lines(path):
        if ".sgm" not in path.suffixes:
            yield line.strip()
        elif found := re.match(r"\s*<seg[^>]*>(.*)</seg>", line, re.IGNORECASE):
            yield html.unescape(found[1]).strip()


def stream_pairs(source: Path, target: Path | None = None) -> Iterator[tuple[str, str]]:
    """Pairs from two files, or from one with a tab. Raises InputError for sides that differ in length, and no tab."""
    if target is None:
        yield from tab_separated(source, stream_lines(source))
        return
    for number, pair in enumerate(itertools.zip_longest(sentences(source), sentences(target))):
        if None in pair:
            shorter, longer = (source, target) if pair[0] is None else (target, source)
            raise InputError(
                f"{shorter} ends after {number} lines, {longer} goes on: both must have the same number", FIND_THE_LINE
            )
        yield pair


def streams_of(name: str, source: str, target: str, download: bool) -> dict[str, Stream]:
    """The splits of one corpus, which is named as `load_corpus` names it, as streams."""
    if name in NAMED:
        corpus = load_corpus(name, source, target, download)

        def pairs_of(split: str) -> Iterator[tuple[str, str]]:
            return ((pair.source, pair.target) for pair in corpus.split(split))

        return {split: partial(pairs_of, split) for split in ("train", "valid", "test")}
    if Path(name).is_dir():
        return {
            split: partial(stream_pairs, *files) for split, files in split_files(Path(name), source, target).items()
        }
    files = files_of(name)
    if missing := [path for path in files if not path.is_file()]:
        raise InputError(
            f"{missing[0]}: no such file or folder, and no corpus of that name ({', '.join(NAMED)}, wmt14)",
            "Check the path; two files of a corpus are joined by a comma.",
        )
    return {"train": partial(stream_pairs, *files)}


def chained(streams: Sequence[Stream]) -> Iterator[tuple[str, str]]:
    """The pairs of all streams, one after the other."""
    return itertools.chain.from_iterable(stream() for stream in streams)


def text_of(names: Sequence[str], source: str, target: str, download: bool = False) -> Text:
    """The corpora of these names, one after the other. Raises InputError when one is missing."""
    parts = [streams_of(name, source, target, download) for name in names]
    splits = {split: [part[split] for part in parts if split in part] for split in ("train", "valid", "test")}
    return Text(" ".join(names), source, target, {s: partial(chained, found) for s, found in splits.items() if found})


WMT14 = {  # target language: the files of section 5.1, without their endings; newstest2013 to choose by
    "de": {
        "train": ["commoncrawl.de-en", "europarl-v7.de-en", "news-commentary-v9.de-en"],
        "valid": ["newstest2013"], "test": ["newstest2014-deen"],
    },
    "fr": {
        "train": ["commoncrawl.fr-en", "europarl-v7.fr-en", "giga-fren.release2.fixed", "news-commentary-v9.fr-en",
                  "undoc.2000.fr-en"],
        "valid": ["newstest2013"], "test": ["newstest2014-fren"],
    },
}  # fmt: skip


def wmt14(folder: Path, source: str = "en", target: str = "de") -> Text:
    """WMT14 from a folder into which its archives were unpacked. Raises InputError, naming a file that is missing."""
    if source != "en" or target not in WMT14:
        raise InputError(
            f"wmt14 is read from en to {' or '.join(WMT14)} here, not from {source} to {target}",
            "The paper has English to German and to French; for others, give the files to `--corpus`.",
        )
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder", "Give `--from` the folder into which the archives were unpacked.")
    there = {path.name: path for path in sorted(folder.rglob("*")) if path.is_file()}

    def find(stem: str, language: str, role: str) -> Path:
        names = [f"{stem}.{language}", f"{stem}-{role}.{language}.sgm"]
        for name in (f"{name}{ending}" for ending in ENDINGS for name in names):
            if name in there:
                return there[name]
        raise InputError(
            f"{folder}: no {names[0]} in it, nor {names[0]}.gz, nor {names[1]}",
            "Unpack all archives of the task there; chapter 93 names them.",
        )

    def stream(stem: str) -> Stream:
        return partial(stream_pairs, find(stem, source, "src"), find(stem, target, "ref"))

    splits = {split: list(map(stream, stems)) for split, stems in WMT14[target].items()}
    return Text("wmt14", source, target, {split: partial(chained, found) for split, found in splits.items()})


FEW = 10  # tokens: in a date or a name, a difference of so few makes any ratio, and says nothing


def fitting_size(pairs: int) -> int:
    """A vocabulary for so many pairs: the paper's 37,000 for many, fewer pieces where each would be seen too seldom."""
    return 1000 if pairs < 10_000 else 8000 if pairs < 100_000 else 37_000


@dataclass(frozen=True)
class StoreSettings:
    """How a store is made; lengths and their ratio are counted in tokens. Raises ValueError for values of no use."""

    vocab_size: int | str | None = None  # None: what fits the number of pairs (`fitting_size`); or "characters"
    normalization: str = "identity"  # of text before it is cut
    max_length: int = 250  # of a side, eos included
    max_ratio: float = 1.5  # of the longer side to the shorter, where they differ by more than FEW tokens
    sample: int = 500_000  # pairs to learn the vocabulary from
    held_out: int = 3000  # pairs for valid and for test, where the corpus has none; at most a fiftieth
    seed: int = 1

    def __post_init__(self):
        if self.normalization not in NORMALIZATIONS:
            raise ValueError(f"normalization must be one of {', '.join(NORMALIZATIONS)}, not {self.normalization!r}")
        for name, least in {"vocab_size": 1, "max_length": 2, "max_ratio": 1, "sample": 1, "held_out": 1}.items():
            if getattr(self, name) not in (None, CHARACTERS) and not getattr(self, name) >= least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")


@dataclass(frozen=True)
class Scan:
    """What the first reading finds: which pairs to keep, a sample of them, and a hash of all."""

    kept: Ids
    sample: list[tuple[str, str]]
    left_out: dict[str, int]
    digest: str


def scan(stream: Stream, settings: StoreSettings) -> Scan:
    """Read all pairs once: leave out those with an empty side, and those that came before."""
    hashes, sample, seen, choose = array.array("Q"), [], 0, random.Random(settings.seed)
    for source, target in stream():
        if not (source and target):
            hashes.append(0)
            continue
        digest = hashlib.blake2b(f"{source}\t{target}".encode(), digest_size=8).digest()
        hashes.append(int.from_bytes(digest, "little") or 1)
        seen += 1
        if len(sample) < settings.sample:
            sample.append((source, target))
        elif (place := choose.randrange(seen)) < settings.sample:  # each has the same chance
            sample[place] = (source, target)
    found = np.frombuffer(hashes, np.uint64) if hashes else np.zeros(0, np.uint64)
    kept = np.zeros(len(found), bool)
    kept[np.unique(found, return_index=True)[1]] = True
    kept[found == 0] = False
    left_out = Counter({"empty": len(found) - seen, "duplicate": seen - int(kept.sum())})
    choose.shuffle(sample)
    return Scan(kept, sample, left_out, hashlib.sha256(found.tobytes()).hexdigest())


class WordCache(dict[str, bytes]):
    """Token ids of texts as bytes. Each word is cut once: pieces do not cross blanks."""

    LIMIT = 400_000  # words; later ones are cut each time

    def __init__(self, tokenizer: Tokenizer, kind: np.dtype):
        self.tokenizer, self.kind, self.eos = tokenizer, kind, kind.type(tokenizer.eos_id).tobytes()
        # letters that SentencePiece leaves as they are
        same = (chr(n) for n in range(0x21, 0x250) if tokenizer.processor.normalize(chr(n)) == f"▁{chr(n)}")
        letters = "".join(map(re.escape, same))
        self.simple = re.compile(f"[{letters}]+( [{letters}]+)*")

    def __missing__(self, word: str) -> bytes:
        found = self.cut(word)
        if len(self) < self.LIMIT:
            self[word] = found
        return found

    def cut(self, text: str) -> bytes:
        return np.array(self.tokenizer.to_ids(text), self.kind).tobytes()

    def learn(self, texts: Iterable[str]) -> None:
        """Cut the new words of these texts together, which is faster than one by one."""
        new = {word for text in texts if self.simple.fullmatch(text) for word in text.split(" ")} - self.keys()
        new = list(itertools.islice(new, max(self.LIMIT - len(self), 0)))
        for word, ids in zip(new, self.tokenizer.processor.encode(new, num_threads=1), strict=True):
            self[word] = np.array(ids, self.kind).tobytes()

    def encode(self, text: str) -> bytes:
        """The ids of `tokenize`, eos at the end."""
        if self.simple.fullmatch(text):
            return b"".join([*map(self.__getitem__, text.split(" ")), self.eos])
        return self.cut(text) + self.eos


@dataclass(frozen=True)
class Encoded:
    """Some pairs as ids: for each side the ids as bytes and the lengths; and why others were left out."""

    ids: tuple[bytes, bytes]
    lengths: tuple[list[int], list[int]]
    left_out: dict[str, int]


def encode_chunk(
    tokenizer: Tokenizer | WordCache, settings: StoreSettings, pairs: Sequence[tuple[str, str]]
) -> Encoded:
    """Ids of pairs, without those that are empty, too long, or of an unlikely ratio."""
    words = tokenizer if isinstance(tokenizer, WordCache) else WordCache(tokenizer, id_kind(len(tokenizer)))
    size, ids, lengths, left_out = words.kind.itemsize, ([], []), ([], []), Counter()
    words.learn(itertools.chain.from_iterable(pairs))
    for pair in pairs:
        found = [words.encode(text) for text in pair]
        shorter, longer = sorted(len(one) // size for one in found)  # tokens, eos included
        if shorter < 2:
            left_out["empty"] += 1
        elif longer > settings.max_length:
            left_out["too long"] += 1
        elif longer - shorter > FEW and longer - 1 > settings.max_ratio * (shorter - 1):
            left_out["unlikely ratio"] += 1
        else:
            for side, one in enumerate(found):
                ids[side].append(one)
                lengths[side].append(len(one) // size)
    return Encoded(tuple(map(b"".join, ids)), lengths, left_out)


WORKER: dict[str, Any] = {}  # in a worker process: its words and the settings
CHUNK = 10_000  # pairs


def become_encoder(model: bytes, settings: StoreSettings) -> None:
    """Prepare a process for its work."""
    prepare_worker()
    tokenizer = Tokenizer(model)
    WORKER.update(words=WordCache(tokenizer, id_kind(len(tokenizer))), settings=settings)


def encode_in_worker(pairs: Sequence[tuple[str, str]]) -> Encoded:
    """`encode_chunk` in a worker."""
    return encode_chunk(WORKER["words"], WORKER["settings"], pairs)


def encode_all(
    chunks: Iterable[list[tuple[str, str]]], tokenizer: Tokenizer, settings: StoreSettings, workers: int
) -> Iterator[Encoded]:
    """The chunks encoded, in their order, by `workers` processes. Only a few chunks are under way at a time."""
    if workers == 1 or sys.platform != "linux":
        yield from map(partial(encode_chunk, WordCache(tokenizer, id_kind(len(tokenizer))), settings), chunks)
        return
    options = {"initializer": become_encoder, "initargs": (tokenizer.model, settings)}
    with ProcessPoolExecutor(workers, get_context("fork"), **options) as pool:
        under_way: deque = deque()
        try:
            for chunk in chunks:
                under_way.append(pool.submit(encode_in_worker, chunk))
                if len(under_way) > 2 * workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


ARRAYS = [f"train.{side}.{what}" for side in ("source", "target") for what in ("ids", "offsets")]


class HashingWriter:
    """A file NAME.new that is written and hashed piece by piece, and what a manifest says of it."""

    def __init__(self, folder: Path, name: str):
        self.path, self.bytes, self.digest = folder / f"{name}.new", 0, hashlib.sha256()
        self.change(disk.remove)
        self.append(b"")

    def change(self, operation: Callable[..., None], *arguments: Any) -> None:
        try:
            operation(self.path, *arguments)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror})", FREE_SPACE) from None

    def append(self, content: bytes, wait: bool = False) -> None:
        self.change(disk.append, content, wait)
        self.bytes += len(content)
        self.digest.update(content)

    def about(self) -> dict[str, Any]:
        """What a manifest says, after all of it has reached the disk."""
        self.append(b"", wait=True)
        return {"bytes": self.bytes, "sha256": self.digest.hexdigest()}


def write_arrays(folder: Path, parts: Iterable[Encoded]) -> tuple[dict[str, Any], list[int], dict[str, int]]:
    """Write the training pairs; returns the files for the manifest, the tokens of each side, and what was left out."""
    files, tokens, left_out = {name: HashingWriter(folder, name) for name in ARRAYS}, [0, 0], Counter()
    for side in ("source", "target"):
        files[f"train.{side}.offsets"].append(np.zeros(1, "<i8").tobytes())
    for part in parts:
        left_out.update(part.left_out)
        for number, side in enumerate(("source", "target")):
            offsets = tokens[number] + np.cumsum(part.lengths[number], dtype="<i8")
            files[f"train.{side}.ids"].append(part.ids[number])
            files[f"train.{side}.offsets"].append(offsets.tobytes())
            tokens[number] = int(offsets[-1]) if len(offsets) else tokens[number]
    return {name: file.about() for name, file in files.items()}, tokens, dict(left_out)


SPLITS = ("train", "valid", "test")


def hold_out(text: Text, found: Scan, settings: StoreSettings) -> tuple[Ids, dict[str, list[tuple[str, str]]]]:
    """The split of each training pair, as an index into SPLITS or 255, and the splits that have text of their own.

    Where the corpus has no valid, pairs at equal distances are held out. Raises InputError when they are too few.
    """
    held: dict[str, list[tuple[str, str]]] = {split: [] for split in SPLITS[1:]}
    for split in held.keys() & text.streams.keys():
        held[split] = [pair for pair in text.streams[split]() if all(pair)]
    place = np.where(found.kept, 0, 255).astype(np.uint8)
    if not held["valid"]:
        kept = np.flatnonzero(found.kept)
        count = min(settings.held_out, len(kept) // 50)
        if not count:
            raise InputError(
                f"{text.name}: {len(kept)} pairs are too few to hold some out: at least 50 are needed",
                "Give a folder that has its own `valid` beside `train`.",
            )
        chosen = kept[np.linspace(0, len(kept) - 1, 2 * count).astype(int)]
        place[chosen[::2]] = 1
        if not held["test"]:
            place[chosen[1::2]] = 2
    return place, held


def second_reading(
    text: Text, place: Ids, held: Mapping[str, list[tuple[str, str]]]
) -> Iterator[list[tuple[str, str]]]:
    """The pairs to train on in chunks; those to hold out are put into `held`."""
    chunk: list[tuple[str, str]] = []
    try:
        for where, pair in zip(place.tobytes(), text.streams["train"](), strict=True):
            if where == 0:
                chunk.append(pair)
            elif where < len(SPLITS):
                held[SPLITS[where]].append(pair)
            if len(chunk) == CHUNK:
                yield chunk
                chunk = []
    except InputError:
        raise
    except ValueError:
        raise InputError(
            f"{text.name}: its files changed while they were read", "Wait until they are complete, and prepare again."
        ) from None
    if chunk:
        yield chunk


def counted(left_out: Mapping[str, int]) -> str:
    """What was left out, in words."""
    return "left out: " + (", ".join(f"{number:,} {why}" for why, number in left_out.items() if number) or "none")


def write_store(
    folder: Path, text: Text, settings: StoreSettings, found: Scan, place: Ids,
    held: Mapping[str, list[tuple[str, str]]], notes: dict[str, Any], workers: int, say: Callable[[str], None],
    progress: bool,
) -> None:  # fmt: skip
    """Learn the vocabulary, encode the pairs, and write everything, all or nothing."""
    begun = time.perf_counter()
    size = notes["settings"]["vocab_size"]
    texts = itertools.chain.from_iterable(found.sample)
    tokenizer = train_tokenizer(texts, size, settings.normalization, at_most=settings.vocab_size is None)
    say(f"{len(tokenizer):,} pieces learned from {2 * len(found.sample):,} sentences "
        f"in {time.perf_counter() - begun:.0f} s")  # fmt: skip
    found.sample.clear()
    begun, chunks = time.perf_counter(), second_reading(text, place, held)
    parts = encode_all(chunks, tokenizer, settings, workers)
    total = -(-int((place == 0).sum()) // CHUNK)
    with tqdm(parts, total=total, unit=" pairs", unit_scale=CHUNK, disable=not progress) as bar:
        files, tokens, left_out = write_arrays(folder, iter(bar))
    all_left_out = dict(Counter(found.left_out) + Counter(left_out))
    pairs = files["train.source.offsets"]["bytes"] // 8 - 1
    say(f"{pairs:,} pairs encoded; {counted(left_out)}")
    for why, option in {"unlikely ratio": "--max-ratio", "too long": "--max-length"}.items():
        if (number := left_out.get(why, 0)) > (pairs + sum(left_out.values())) / 10:
            say(f"{why}: {number:,} pairs are more than a tenth; if they are good ones, raise `{option}`")
    if not pairs:
        raise InputError(
            f"{text.name}: no pairs are left to train on; {counted(all_left_out)}",
            "Raise `--max-length` or `--max-ratio`, or look whether the sides belong together.",
        )
    notes |= {"pairs": pairs, "tokens": tokens, "left_out": all_left_out, "vocab_size": len(tokenizer)}
    contents = {
        f"{split}.tsv": "".join("\t".join(" ".join(t.split("\t")) for t in pair) + "\n" for pair in some).encode()
        for split, some in held.items() if some
    }  # fmt: skip
    contents |= tokenizer.files() | {"store.json": json_bytes(notes)}
    write_together(folder, contents, large=files)
    say(f"{pairs / (time.perf_counter() - begun):,.0f} pairs a second; the store is in {folder}")


def prepare(
    text: Text, folder: Path, settings: StoreSettings, *, workers: int = 1, say: Callable[[str], None] = print,
    progress: bool = False,
) -> Store:  # fmt: skip
    """Make a store of the text in `folder`, or open the one that is there, if it is of the same text and settings.

    `say` is told what was found. Raises InputError when another store is there, another process is making one, or too
    few pairs are left; then nothing is written.
    """
    there = folder.exists()
    try:
        with locked(folder, say):
            finish(folder)
            try:
                return made_or_found(text, folder, settings, workers, say, progress)
            except BaseException:
                if not (folder / "manifest.json.new").exists():
                    for path in folder.glob("*.new"):
                        with suppress(OSError):
                            disk.remove(path)
                raise
    except BaseException:
        if not there:
            with suppress(OSError):  # something is in it, or it cannot be removed
                folder.rmdir()
        raise


def made_or_found(
    text: Text, folder: Path, settings: StoreSettings, workers: int, say: Callable[[str], None], progress: bool
) -> Store:
    """`prepare` in a folder that is locked."""
    found = scan(text.streams["train"], settings)
    say(f"{len(found.kept):,} pairs read; {counted(found.left_out)}")
    place, held = hold_out(text, found, settings)
    notes = {"format": FORMAT, "corpus": text.name, "source": text.source_language, "target": text.target_language}
    size = settings.vocab_size or fitting_size(int(found.kept.sum()))
    notes["settings"] = asdict(settings) | {"vocab_size": size}
    about = json.dumps([FORMAT, text.source_language, text.target_language, notes["settings"], found.digest, held])
    notes["key"] = hashlib.sha256(about.encode()).hexdigest()
    if not (folder / "store.json").exists():
        write_store(folder, text, settings, found, place, held, notes, workers, say, progress)
    elif read_json(folder / "store.json").get("key") == notes["key"]:
        say(f"the store is in {folder} already")
    else:
        raise InputError(f"{folder}: holds another store already; choose another folder")
    return open_store(folder)
