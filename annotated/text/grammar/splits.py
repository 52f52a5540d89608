"""The splits of the embedded corpus, what is held out, and its checksums."""

import functools
import hashlib
import itertools
import zlib
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from annotated.base.corpus import SentencePair
from annotated.text.grammar.sentences import FRAMES, LONG_RULES, coreference, derive
from annotated.text.grammar.tables import read_table
from annotated.text.grammar.words import NAME_ENTRIES, Draw, Noun

__all__ = ["LIMIT", "LONGEST", "SPLITS", "canonical_text", "embedded_split", "read_canonical"]


HELD_OUT_USES = {(row["construction"], word) for row in read_table("held_out") for word in row["words"].split()}


ROLES = [(row["subject"], row["object"]) for row in FRAMES]


@functools.cache
def apart(first: Noun, second: Noun) -> bool:
    """Whether two nouns are kept for the split `pronoun`: some of the pairs that could meet in a frame."""
    kinds = ((first.kinds, second.kinds), (second.kinds, first.kinds))
    framed = any(subject in one and target in other for subject, target in ROLES for one, other in kinds)
    lot = zlib.crc32(" ".join(sorted((first.german, second.german))).encode())  # the same on every machine
    return framed and first.gender != second.gender and lot % 11 == 10


def novel_uses(draw: Draw) -> list[str]:
    """The constructions of a sentence that meet a word they are kept from in training."""
    return sorted({construction for construction, word in draw.uses if (construction, word) in HELD_OUT_USES})


def has_pair_apart(draw: Draw) -> bool:
    """Whether two nouns of a sentence are kept apart in training."""
    nouns = [word for word in draw.used if isinstance(word, Noun) and word not in NAME_ENTRIES]
    return any(apart(first, second) for first, second in itertools.combinations(nouns, 2))


SPLITS = {row["split"]: (int(row["pairs"]), int(row["seed"])) for row in read_table("splits", unique="split")}


SHORTEST, LONGEST, LIMIT = 4, 22, 45  # English words, without punctuation


QUOTED = 64878  # the seed that draws the sentence that everybody quotes


def minimal_pair(seed: int) -> list[tuple[SentencePair, Draw]]:
    """Two sentences that differ in one adjective: it is about the subject in the first, the object in the second."""
    draws = [Draw(Random(seed)), Draw(Random(seed))]
    return [(derive(draw, functools.partial(coreference, side=side)), draw) for side, draw in enumerate(draws)]


def candidates(name: str, random: Random) -> Iterator[list[tuple[SentencePair, Draw]]]:
    """Sentences for a split, before any are refused; those of a minimal pair come together."""
    if name == "pronoun":
        yield minimal_pair(QUOTED)
    while True:
        if name == "pronoun":
            yield minimal_pair(int(random.random() * 2**48))
        else:
            draw = Draw(random, 3.0 if name == "long" else 1.0)
            yield [(derive(draw, draw.pick(LONG_RULES) if name == "long" else None), draw)]


def belongs(name: str, pair: SentencePair, draw: Draw) -> bool:
    """Whether a sentence may be in a split."""
    length = len(pair.source.split())
    longest, shortest = (LIMIT, LONGEST + 1) if name == "long" else (LONGEST, SHORTEST)
    novel, held = bool(novel_uses(draw)), has_pair_apart(draw)
    return shortest <= length <= longest and novel == (name == "novel") and held == (name == "pronoun")


@functools.cache
def _split(name: str) -> tuple[SentencePair, ...]:
    taken = {"train": ("test", "valid"), "valid": ("test",)}.get(name, ())
    seen = {pair.source for other in taken for pair in _split(other)}
    size, seed = SPLITS[name]
    pairs: list[SentencePair] = []
    for group in candidates(name, Random(seed)):
        if any(pair.source in seen or not belongs(name, pair, draw) for pair, draw in group):
            continue
        for pair, draw in group:
            seen.add(pair.source)
            notes = [f"novel: {construction}" for construction in novel_uses(draw)]
            pairs.append(replace(pair, phenomena=tuple(sorted([*pair.phenomena, *notes]))) if notes else pair)
        if len(pairs) >= size:
            return tuple(pairs)
    raise AssertionError("candidates never end")


def embedded_split(name: str) -> list[SentencePair]:
    """The sentence pairs of a split of the embedded corpus, always the same; raises ValueError for an unknown name."""
    if name not in SPLITS:
        raise ValueError(f"unknown split {name!r}; the embedded corpus has {', '.join(SPLITS)}")
    return list(_split(name))


def canonical_text(pairs: list[SentencePair]) -> str:
    """The pairs as text, one a line, fields separated by tabs: the form of the files in `data/embedded`."""

    def links(field: tuple[tuple[int, int], ...]) -> str:
        return " ".join(f"{first}-{second}" for first, second in field)

    lines = [
        (pair.source, pair.target, "; ".join(pair.phenomena), links(pair.alignment), links(pair.antecedents), pair.tree)
        for pair in pairs
    ]
    return "".join("\t".join(line) + "\n" for line in lines)


def read_canonical(text: str) -> list[SentencePair]:
    """The pairs of such a text. Raises ValueError for anything else."""

    def links(field: str) -> tuple[tuple[int, int], ...]:
        return tuple((int(first), int(second)) for first, second in (link.split("-") for link in field.split()))

    pairs = []
    for line in text.splitlines():
        source, target, phenomena, alignment, antecedents, tree = line.split("\t")
        tags = tuple(phenomena.split("; ")) if phenomena else ()
        pairs.append(SentencePair(source, target, tags, links(alignment), links(antecedents), tree))
    return pairs


def split_checksum(name: str) -> str:
    """SHA-256 of a split's canonical text in UTF-8."""
    return hashlib.sha256(canonical_text(embedded_split(name)).encode()).hexdigest()


def corpus_fingerprint() -> str:
    """The version of the corpus that a trained model belongs to: SHA-256 over the splits valid and test."""
    return hashlib.sha256((split_checksum("valid") + split_checksum("test")).encode()).hexdigest()
