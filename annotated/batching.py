# Written by `make export` from book/51_data_and_batching.ipynb: do not edit here, edit the chapter.
"""Training data and batching: chapter 51 of the book, section 5.1 of the paper."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

__all__ = ["Batch", "Example", "in_batches", "make_batch", "pad_sequences", "token_batches"]


# book/51_data_and_batching.ipynb#batching
Example = tuple[list[int], list[int]]  # source ids and target ids, each with eos at its end


def pad_sequences(sequences: Sequence[Sequence[int]], pad_id: int = 0) -> Int[Tensor, "batch length"]:
    """One row a sequence, filled up with `pad_id` at the end.

    Defined in chapter 51: `batching`.
    """
    longest = max(len(sequence) for sequence in sequences)
    return torch.tensor([[*sequence, *[pad_id] * (longest - len(sequence))] for sequence in sequences])


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as tensors. `target_input` is the target shifted right: bos first, the last token left out.

    Defined in chapter 51: `batching`.
    """

    source: Int[Tensor, "batch source"]
    target_input: Int[Tensor, "batch target"]
    target_output: Int[Tensor, "batch target"]
    num_tokens: int  # target tokens, padding not counted

    def to(self, device: torch.device | str) -> "Batch":
        """The batch on another device."""
        fetched = torch.device(device).type == "cuda" and self.source.device.type == "cpu"
        batch = self.pinned() if fetched else self
        tensors = (batch.source, batch.target_input, batch.target_output)
        return Batch(*(tensor.to(device, non_blocking=fetched) for tensor in tensors), self.num_tokens)

    def pinned(self) -> "Batch":
        """The batch where a GPU fetches it from while the CPU goes on; what is there already is not copied."""
        tensors = (self.source, self.target_input, self.target_output)
        return Batch(*(tensor.pin_memory() for tensor in tensors), self.num_tokens)


# book/51_data_and_batching.ipynb#make-batch
def make_batch(
    examples: Sequence[Example],
    pad_id: int = 0,
    start_id: int = 2,
) -> Batch:
    """Pad both sides and shift the targets to the right.

    Defined in chapter 51: `make-batch`.
    """
    sources, targets = zip(*examples, strict=True)
    shifted = [[start_id, *target[:-1]] for target in targets]
    tensors = (pad_sequences(side, pad_id) for side in (sources, shifted, targets))
    return Batch(*tensors, num_tokens=sum(map(len, targets)))


# book/51_data_and_batching.ipynb#padding-share
def padding_share(examples: Sequence[Example], batches: Sequence[Sequence[int]]) -> float:
    """The share of padding among all source and target positions of these batches."""
    real = total = 0
    for batch in batches:
        for side in (0, 1):
            lengths = [len(examples[i][side]) for i in batch]
            real, total = real + sum(lengths), total + max(lengths) * len(lengths)
    return 1 - real / total


# book/51_data_and_batching.ipynb#token-batches
def similar_length(source: list[int], target: list[int]) -> tuple[int, int]:
    """What to sort by so that neighbours need little padding on both sides: the longer side, then the difference.

    The difference runs up and down in turn, so that it does not jump where the longer side grows by one.
    """
    longer, difference = max(len(source), len(target)), len(source) - len(target)
    return longer, difference if longer % 2 else -difference


def token_batches(examples: Sequence[Example], max_tokens: int, seed: int | None = None) -> list[list[int]]:
    """Divide examples of about the same length into batches of at most `max_tokens` source and target tokens each.

    Padding counts. Returns indices into `examples`. With a `seed`, equal lengths are mixed and the batches shuffled;
    without one, the order is by length. An example longer than `max_tokens` is a batch of its own (section 5.1).

    Defined in chapter 51: `token-batches`.
    """
    order = list(range(len(examples)))
    generator = random.Random(seed)
    if seed is not None:
        generator.shuffle(order)
    order.sort(key=lambda i: similar_length(*examples[i]))
    batches: list[list[int]] = []
    longest = 0
    for i in order:
        length = max(len(side) for side in examples[i])
        if not batches or max(longest, length) * (len(batches[-1]) + 1) > max_tokens:
            batches.append([])
            longest = 0
        batches[-1].append(i)
        longest = max(longest, length)
    if seed is not None:
        generator.shuffle(batches)
    return batches


# book/51_data_and_batching.ipynb#in-batches
def in_batches(
    sources: Sequence[list[int]], max_tokens: int, work: Callable[[list[list[list[int]]]], Iterable[Sequence[Any]]]
) -> list[Any]:
    """What `work` finds for each source, in the order of the sources, from batches of about the same length.

    `work` gets all batches, the longest sources first, and returns for each batch one result a source. A batch has at
    most `max_tokens` tokens, padding counted; a source longer than that is a batch of its own.

    Defined in chapter 51: `in-batches`.
    """
    batches = token_batches([(source, source) for source in sources], max_tokens)[::-1]
    found = work([[sources[i] for i in batch] for batch in batches])
    results: list[Any] = [None] * len(sources)
    for batch, outputs in zip(batches, found, strict=True):
        for i, output in zip(batch, outputs, strict=True):
            results[i] = output
    return results
