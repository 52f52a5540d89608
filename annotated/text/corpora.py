"""Corpora by name or from files, as sentence pairs in splits."""

import bz2
import functools
import gzip
import hashlib
import http.client
import io
import lzma
import os
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from annotated.base import corpus
from annotated.base.corpus import Corpus, SentencePair
from annotated.base.files import FETCH, InputError, disk, is_pointer, write_atomically
from annotated.text import grammar
from annotated.text.grammar.sentences import detokenise
from annotated.text.grammar.splits import SPLITS, canonical_text, embedded_split, read_canonical
from annotated.text.grammar.tables import TABLES
from annotated.text.grammar.words import ADJECTIVE_ENTRIES, words

__all__ = [
    "EMBEDDED",
    "NAMED",
    "files_of",
    "generated",
    "load_corpus",
    "neutral",
    "read_tsv",
    "shared_pairs",
    "split_files",
    "stream_lines",
    "tab_separated",
]


LONGEST_LINE = 1_000_000  # bytes
PACKED = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ": lzma.open, b"BZh": bz2.open}  # how such files begin
NO_TEXT = {b"PK\3\4": "a zip archive", b"\x28\xb5\x2f\xfd": "packed by zstd", b"7z\xbc\xaf": "a 7z archive"}
ENDINGS = ("", ".gz", ".xz", ".bz2")
FIND_THE_LINE = "Find the line that is missing or divided: from there on every pair is wrong."


def stream_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 text file, packed or not (gzip, xz, bzip2), one by one, without their ends (newline, CRLF).

    Raises InputError for a file that is missing or damaged, and, naming it, for a line that is no UTF-8 or has no end.
    """
    number, unpacked = 0, 0
    try:
        with disk.open(path) as raw:
            file = unpacked_file(path, raw)
            limit = max(2**26, 100 * path.stat().st_size)
            while line := file.readline(LONGEST_LINE + 1):
                number, unpacked = number + 1, unpacked + len(line)
                if unpacked > limit:
                    raise OSError(f"it unpacks to more than {limit:,} bytes, which no text of its size does")
                if len(line) > LONGEST_LINE:
                    raise InputError(
                        f"{path}: line {number} has more than {LONGEST_LINE:,} bytes: one sentence a line",
                        "A text without line ends is no corpus.",
                    )
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")  # the byte order mark that some editors write
                yield line.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", "Check the path; both sides of a corpus are needed.") from None
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise InputError(
            f"{path}: line {number} is not UTF-8 (byte 0x{byte:02x}): convert the file to UTF-8",
            "For example with `iconv -f latin1 -t utf-8`.",
        ) from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise InputError(
            f"{path}: cannot be read ({error})", "A packed file that is cut or damaged has to be fetched again."
        ) from None


def unpacked_file(path: Path, raw: io.BufferedIOBase) -> io.BufferedIOBase:
    """The text in an open file, by how it begins. Raises InputError for what is no text and cannot be unpacked here."""
    begin = raw.read(64)
    raw.seek(0)
    if is_pointer(begin):
        raise InputError(f"{path}: a pointer of Git LFS, not the file", FETCH)
    if what := next((what for mark, what in NO_TEXT.items() if begin.startswith(mark)), ""):
        raise InputError(f"{path}: {what}, and no text", "Unpack it; gzip, xz and bzip2 are read as they are.")
    return next((kind(raw) for mark, kind in PACKED.items() if begin.startswith(mark)), raw)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, as `stream_lines` reads them. Raises InputError, too, when the file is empty."""
    lines = list(stream_lines(path))
    if not any(line.strip() for line in lines):
        raise InputError(
            f"{path}: the file is empty", "Put a sentence in each line, or leave the file out of the folder."
        )
    return lines


def read_pairs(source: Path, target: Path) -> list[SentencePair]:
    """Pairs from two text files, one sentence a line. Raises InputError when the sides differ in length."""
    sides = read_lines(source), read_lines(target)
    if len(sides[0]) != len(sides[1]):
        counts = f"{source} has {len(sides[0])} lines, {target} has {len(sides[1])}"
        raise InputError(f"{counts}: the two sides must have the same number", FIND_THE_LINE)
    return [SentencePair(one.strip(), other.strip()) for one, other in zip(*sides, strict=True)]


def tab_separated(path: Path, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Source and target in lines that have a tab between them; further columns are ignored.

    Raises InputError for a line without a tab, and where a number stands before source and target.
    """
    numbered = 0
    for number, line in enumerate(lines, start=1):
        columns = line.split("\t") if line.strip() else ["", ""]  # an empty pair, as in two files
        numbered += len(columns) > 2 and columns[0].strip().isdecimal()
        if number == numbered == 3:
            raise InputError(
                f"{path}: each line begins with a number, {columns[0]} in line 3: expected source, tab, target",
                "Leave the numbers out, for example with `cut -f2,3`.",
            )
        if len(columns) < 2:
            raise InputError(
                f"{path}: line {number} has no tab: expected source, tab, target", "Some editors make blanks of a tab."
            )
        yield columns[0].strip(), columns[1].strip()


def read_tsv(path: Path) -> list[SentencePair]:
    """Pairs from a file with one pair a line, source and target separated by a tab."""
    return [SentencePair(*pair) for pair in tab_separated(path, read_lines(path))]


MULTI30K_URL = (
    "https://raw.githubusercontent.com/multi30k/dataset/331f697e45acf3753745a789a3c0aae13f3a982b/data/task1/raw/"
)
MULTI30K_FILES = {  # name: SHA-256
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
}


LARGEST = 10_000_000  # bytes; no file of Multi30k has as many


def multi30k_folder() -> Path:
    """Where Multi30k is, or would be downloaded to: $ANNOTATED_DATA/multi30k, else ~/.cache/annotated/multi30k."""
    root = os.environ.get("ANNOTATED_DATA")
    if not root and os.path.expanduser("~") == "~":
        raise InputError("there is no home folder: set ANNOTATED_DATA to the folder that holds multi30k/")
    return (Path(root) if root else Path.home() / ".cache" / "annotated") / "multi30k"


def download_multi30k(folder: Path, url: str = MULTI30K_URL) -> None:
    """Fetch the six files from the data set's public repository at a pinned commit, and check each one's SHA-256.

    Files already there are kept. Raises InputError when a file cannot be fetched or is not the expected one.
    """
    for name, expected in MULTI30K_FILES.items():
        if (folder / name).exists():
            continue
        try:
            with urllib.request.urlopen(url + name, timeout=60) as response:
                content = response.read(LARGEST + 1)
        except (OSError, http.client.HTTPException) as error:
            raise InputError(
                f"{url + name}: cannot be downloaded ({error})",
                "Look after the network and try again; files that have arrived are kept.",
            ) from None
        if len(content) > LARGEST or hashlib.sha256(content).hexdigest() != expected:
            page = " but a web page" if content.lstrip()[:1] == b"<" else ""
            raise InputError(
                f"{url + name}: not the expected file{page} (its SHA-256 differs)",
                "A network with a login page answers so: log in and try again.",
            )
        write_atomically(folder / name, content)


def multi30k(source: str, target: str, download: bool = False) -> Corpus:
    """Multi30k English-German: 29,000 / 1,014 / 1,000 captions (Elliott et al. 2016); test is test_2016_flickr.

    Raises InputError for another pair of languages, or when the files are not there and `download` is false.
    """
    if {source, target} != {"en", "de"}:
        raise InputError(
            f"multi30k is read in en and de here, not {source} and {target}",
            "Use `--source` and `--target` with these two, or give another corpus as a folder.",
        )
    folder = multi30k_folder()
    if download:
        download_multi30k(folder)
    if missing := [name for name in MULTI30K_FILES if not (folder / name).exists()]:
        advice = "set ANNOTATED_DATA to the folder that holds multi30k/, or ask for --download"
        raise InputError(f"{folder / missing[0]}: no such file; {advice}")
    files = {"train": "train", "valid": "val", "test": "test_2016_flickr"}

    def loader(stem: str) -> Callable[[], list[SentencePair]]:
        return lambda: read_pairs(folder / f"{stem}.{source}.gz", folder / f"{stem}.{target}.gz")

    return Corpus("multi30k", source, target, {split: loader(stem) for split, stem in files.items()})


HOLD_OUT_EVERY = 50  # of a single file, every 50th pair goes to test and the one before it to valid


def kept_apart(pairs: list[SentencePair], folder: Path) -> tuple[list[SentencePair], list[SentencePair]]:
    """The pairs without every 50th, and those. Raises InputError below fifty."""
    if len(pairs) < HOLD_OUT_EVERY:
        raise InputError(
            f"{folder}: {len(pairs)} pairs in train are too few to keep some apart: {HOLD_OUT_EVERY} are needed",
            "Put a few pairs into files of their own, named valid as the others are named train.",
        )
    return [pair for i, pair in enumerate(pairs, 1) if i % HOLD_OUT_EVERY], pairs[HOLD_OUT_EVERY - 1 :: HOLD_OUT_EVERY]


def split_pairs(pairs: list[SentencePair]) -> dict[str, list[SentencePair]]:
    """Train, valid and test out of one list: two of every fifty pairs are held out. Raises InputError below fifty."""
    if len(pairs) < HOLD_OUT_EVERY:
        advice = "a file on its own is divided into train, valid and test; give a folder with the splits instead"
        raise InputError(f"{len(pairs)} pairs are too few, at least {HOLD_OUT_EVERY} are needed: {advice}")
    held = {"valid": pairs[HOLD_OUT_EVERY - 2 :: HOLD_OUT_EVERY], "test": pairs[HOLD_OUT_EVERY - 1 :: HOLD_OUT_EVERY]}
    train = [pair for i, pair in enumerate(pairs) if i % HOLD_OUT_EVERY < HOLD_OUT_EVERY - 2]
    return {"train": train, **held}


def files_of(name: str) -> list[Path]:
    """A file of pairs, or the two sides joined by a comma, which may stand in their paths as well."""
    cuts = [i for i, letter in enumerate(name) if letter == ","]
    sides = [[Path(name[:i]), Path(name[i + 1 :])] for i in cuts]
    both = [pair for pair in sides if all(path.is_file() for path in pair)]
    return [Path(name)] if Path(name).is_file() else next(iter(both or sides), [Path(name)])


def shared_pairs(corpus: Corpus, split: str) -> str:
    """What to say of a split whose pairs stand in train, too; the book's own corpora are made without such."""
    if corpus.name in EMBEDDED or split in ("train", "all") or not {split, "train"} <= corpus.loaders.keys():
        return ""
    known, pairs = {(pair.source, pair.target) for pair in corpus.split("train")}, corpus.split(split)
    count = sum((pair.source, pair.target) in known for pair in pairs)
    said = f"{count:,} of {len(pairs):,} pairs in {split} stand in train, too: the model has seen their answers"
    return said if count else ""


def split_files(folder: Path, source: str, target: str) -> dict[str, list[Path]]:
    """The files of each split in a folder: train, valid (or val, dev) and test, as two sides or one TSV file.

    Raises InputError when there are none.
    """
    files: dict[str, list[Path]] = {}
    for split, stems in {"train": ["train"], "valid": ["valid", "val", "dev"], "test": ["test"]}.items():
        for stem, ending in ((stem, ending) for stem in stems for ending in ENDINGS):
            sides = [folder / f"{stem}.{language}{ending}" for language in (source, target)]
            table = folder / f"{stem}.tsv{ending}"
            if any(side.exists() for side in sides):
                files.setdefault(split, sides)
            elif table.exists():
                files.setdefault(split, [table])
    if not files:
        raise InputError(
            f"{folder}: no train.{source} and train.{target} there, and no train.tsv",
            "Rename the files to one of these names, or say with `--source` and `--target` how yours end.",
        )
    return files


def folder_corpus(folder: Path, source: str, target: str) -> Corpus:
    """A folder with train, valid (or val, dev) and test: `train.en` and `train.de`, or `train.tsv`.

    Where it has no valid, every 50th pair of train is kept apart.
    """
    files = split_files(folder, source, target)
    readers = {1: read_tsv, 2: read_pairs}
    loaders = {split: partial(readers[len(each)], *each) for split, each in files.items()}
    if "train" in loaders and "valid" not in loaders:
        every = loaders["train"]
        loaders |= {split: lambda i=i: kept_apart(every(), folder)[i] for i, split in enumerate(("train", "valid"))}
    return Corpus(str(folder), source, target, loaders)


def neutral(pair: SentencePair) -> SentencePair:
    """The pair with a neutral word in place of the adjective that decides what its pronoun means, if it has one."""
    if "pronoun decided by an adjective" not in pair.phenomena:
        return pair
    source, target = words(pair.source), words(pair.target)
    at = next(position for position, _ in pair.antecedents if source[position] == "it") + 3  # it was too ...
    adjective = ADJECTIVE_ENTRIES[source[at]]
    there = next(german for english, german in pair.alignment if english == at)
    source[at], target[there] = "strange", target[there].replace(adjective.german, "seltsam")
    return replace(pair, source=detokenise(source), target=detokenise(target), tree="")


def kept_folder() -> Path:
    """Where generated splits are kept; the name follows from the grammar and its tables."""
    digest, code = hashlib.sha256(), Path(grammar.__file__).parent
    tables = sorted(TABLES.iterdir(), key=lambda table: table.name)
    for file in [Path(corpus.__file__), *sorted(code.glob("*.py")), *tables]:
        digest.update(file.read_bytes())
    return Path.home() / ".cache" / "annotated" / f"embedded-{digest.hexdigest()[:16]}"


@functools.cache
def generated(split: str) -> tuple[SentencePair, ...]:
    """A split of the embedded corpus: generated once, then read. Without a cache it is the same, only later."""
    file = None
    with suppress(OSError, RuntimeError, ValueError):  # nothing is kept, no home, or not what was written
        file = kept_folder() / f"{split}.tsv"
        checksum, _, text = disk.read(file).decode().partition("\n")
        if hashlib.sha256(text.encode()).hexdigest() == checksum:
            return tuple(read_canonical(text))
    pairs = embedded_split(split)
    text = canonical_text(pairs)
    with suppress(OSError, InputError):
        if file is not None:
            write_atomically(file, f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}".encode())
    return tuple(pairs)


EMBEDDED: dict[str, Callable[[SentencePair], SentencePair]] = {  # name: what becomes of each pair
    "embedded": lambda pair: pair,
    "embedded-neutral": neutral,
}
NAMED = (*EMBEDDED, "multi30k")


def load_corpus(name: str, source: str = "en", target: str = "de", download: bool = False) -> Corpus:
    """A corpus by name, or from the user's own files.

    `name` is "embedded" (the book's own; "embedded-neutral" has one word for all adjectives that decide what a pronoun
    means), "multi30k", a folder (see `folder_corpus`), a TSV file, or two text files
    joined by a comma. A single file or pair of files is divided by `split_pairs`, and has the split "all", too.
    Raises InputError when it is none of them.
    """
    if name in EMBEDDED:
        if (source, target) != ("en", "de"):
            raise InputError(
                f"the embedded corpus goes from en to de, not from {source} to {target}",
                "Leave `--source` and `--target` out; for the other way give your own corpus.",
            )
        change = EMBEDDED[name]
        loaders = {split: lambda split=split: [change(pair) for pair in generated(split)] for split in SPLITS}
        return Corpus(name, source, target, loaders)
    if name == "multi30k":
        return multi30k(source, target, download)
    if Path(name).is_dir():
        return folder_corpus(Path(name), source, target)
    files = files_of(name)
    if missing := [path for path in files if not path.is_file()]:
        joined = f", nor a file {name}" if len(files) == 2 else f", and no corpus of that name ({', '.join(NAMED)})"
        raise InputError(
            f"{missing[0]}: no such file or folder{joined}", "Check the path; two files are joined by a comma."
        )
    pairs = read_pairs(*files) if len(files) == 2 else read_tsv(*files)
    loaders = {split: lambda split=split: split_pairs(pairs)[split] for split in ("train", "valid", "test")}
    return Corpus(name, source, target, loaders | {"all": lambda: pairs})
