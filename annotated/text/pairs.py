"""Examples in flat rows, from which batches are cut; made ahead by a thread."""

import array
import itertools
import mmap
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from annotated.batching import Batch, Example, token_batches

__all__ = ["Ids", "Pairs", "Side", "in_batches", "prefetch"]


T = TypeVar("T")


Ids = np.ndarray  # of whole numbers


@dataclass(frozen=True)
class Side:
    """The sentences of one language as two flat rows: sentence i is `ids[offsets[i] : offsets[i + 1]]`."""

    ids: Ids
    offsets: Ids  # one more than there are sentences; the first is 0
    maps: tuple[mmap.mmap, ...] = ()  # the files, if the rows lie in some

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> "Side":
        """The same sentences, from lists."""
        offsets = np.cumsum([0, *map(len, sentences)])
        ids = np.fromiter(itertools.chain.from_iterable(sentences), np.int32, offsets[-1])
        return cls(ids, offsets)

    def __getitem__(self, i: int) -> list[int]:
        return self.ids[self.offsets[i] : self.offsets[i + 1]].tolist()

    def lengths(self) -> Ids:
        """Tokens of each sentence."""
        return np.subtract(self.offsets[1:], self.offsets[:-1], dtype=np.int32, casting="unsafe")

    def release_pages(self) -> None:
        """Count the pages that were looked at no longer as this process's; the system keeps them while it has room."""
        for one in self.maps:
            if hasattr(mmap, "MADV_DONTNEED"):
                one.madvise(mmap.MADV_DONTNEED)

    def rectangle(self, chosen: Ids, pad_id: int) -> Ids:
        """The chosen sentences, one a row, filled up with `pad_id` at the end."""
        begin, end = self.offsets[chosen], self.offsets[chosen + 1]
        inside = np.arange((end - begin).max()) < (end - begin)[:, None]
        found = np.full(inside.shape, pad_id, np.int64)
        found[inside] = np.concatenate([self.ids[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)])
        return found


@dataclass(frozen=True)
class Pairs(Sequence[Example]):
    """Examples in flat rows, in memory or mapped from a file. An index gives lists, as `tokenize_pairs` does."""

    source: Side
    target: Side

    @classmethod
    def of(cls, examples: Sequence[Example]) -> "Pairs":
        """The same examples; those that lie in rows already stay where they are."""
        if isinstance(examples, cls):
            return examples
        return cls(*(Side.of([example[side] for example in examples]) for side in (0, 1)))

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    def __getitem__(self, i: int) -> Example:
        if not -len(self) <= i < len(self):
            raise IndexError(f"pair {i} of {len(self)}")
        return self.source[i % len(self)], self.target[i % len(self)]

    def longest(self) -> int:
        """The most tokens that a side has."""
        return max(int(side.lengths().max()) for side in (self.source, self.target))

    def plan(self, max_tokens: int, seed: int | None = None) -> list[Ids]:
        """`plan_batches` of these examples."""
        lengths = self.source.lengths(), self.target.lengths()
        self.release_pages()
        return plan_batches(*lengths, max_tokens, seed)

    def release_pages(self) -> None:
        """Release those of both sides."""
        self.source.release_pages()
        self.target.release_pages()

    def num_tokens(self, chosen: Ids, pad_id: int = 0) -> int:
        """Target tokens of the chosen examples, padding not counted."""
        return int((self.target.rectangle(chosen, pad_id) != pad_id).sum())

    def batch(self, chosen: Ids, pad_id: int = 0, start_id: int = 2) -> Batch:
        """The chosen examples padded, and their targets shifted to the right."""
        source, output = (side.rectangle(chosen, pad_id) for side in (self.source, self.target))
        lengths = self.target.offsets[chosen + 1] - self.target.offsets[chosen]
        shifted = np.concatenate((np.full((len(output), 1), start_id), output[:, :-1]), axis=1)
        shifted[np.arange(output.shape[1]) >= lengths[:, None]] = pad_id
        self.release_pages()
        return Batch(*map(torch.from_numpy, (source, shifted, output)), int((output != pad_id).sum()))


def plan_batches(source: Ids, target: Ids, max_tokens: int, seed: int | None = None) -> list[Ids]:
    """Divide examples of these lengths into batches of at most `max_tokens` source and target tokens each.

    Padding counts. Neighbours have about the same longer side, and of those about the same difference, which runs up
    and down in turn, so that it does not jump where the longer side grows by one. With a `seed`, equal lengths are
    mixed and the batches shuffled; without one, the order is by length. An example longer than `max_tokens` is a batch
    of its own (section 5.1).
    """
    generator, order = random.Random(seed), np.arange(len(source), dtype=np.uint32)
    if seed is not None:
        mixed = array.array("I", order.tobytes())
        generator.shuffle(mixed)
        order = np.frombuffer(mixed, np.uint32)
    longer, parts = np.maximum(source, target)[order], [order[:0]]
    for length in np.unique(longer).tolist():  # one length after the other needs the least memory
        same = order[longer == length]
        difference = source[same] - target[same]
        parts.append(same[np.argsort(difference if length % 2 else -difference, kind="stable")])
    order = np.concatenate(parts)
    longer = np.maximum(source[order], target[order])
    batches, begin = [], 0
    while begin < len(order):
        end = begin + 1
        # sentences of the next length, as many of them as there are, or as still fit
        while end < len(order) and (most := max_tokens // int(longer[end])) > end - begin:
            end = min(begin + most, int(np.searchsorted(longer, longer[end], side="right")))
        batches.append(order[begin:end])
        begin = end
    if seed is not None:
        generator.shuffle(batches)
    return batches


def prefetch(items: Iterable[T], count: int = 2) -> Iterator[T]:
    """The items, of which up to `count` are made by a thread before they are asked for. An error comes in its place."""
    source, end = iter(items), object()
    pool = ThreadPoolExecutor(1)
    try:
        made = deque(pool.submit(next, source, end) for _ in range(count))
        while (item := made.popleft().result()) is not end:
            made.append(pool.submit(next, source, end))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)  # waits: a thread within PyTorch when Python ends would abort the process


def in_batches(
    sources: Sequence[list[int]], max_tokens: int, work: Callable[[list[list[list[int]]]], Iterable[Sequence[Any]]]
) -> list[Any]:
    """What `work` finds for each source, in the order of the sources, from batches of about the same length.

    `work` gets all batches, the longest sources first, and returns for each batch one result a source. A batch has at
    most `max_tokens` tokens, padding counted; a source longer than that is a batch of its own.
    """
    batches = token_batches([(source, source) for source in sources], max_tokens)[::-1]
    found = work([[sources[i] for i in batch] for batch in batches])
    results: list[Any] = [None] * len(sources)
    for batch, outputs in zip(batches, found, strict=True):
        for i, output in zip(batch, outputs, strict=True):
            results[i] = output
    return results
