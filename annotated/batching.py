# Written by `make export` from book/51_data_and_batching.ipynb: edit the chapter, not this.
"""Training data and batching (section 5.1 of the paper)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from annotated.base.files import InputError

__all__ = ["Batch", "Example", "check_pair", "make_batch", "pad_sequences", "padding_share", "token_batches"]


# book/51_data_and_batching.ipynb#pad-sequences
def pad_sequences(sequences: Sequence[Sequence[int]], pad_id: int = 0) -> Int[Tensor, "batch length"]:
    """One row a sequence, filled up with `pad_id` at the end.

    Defined in chapter 51: `pad-sequences`.
    """
    longest = max(map(len, sequences))
    rows = [[*ids, *[pad_id] * (longest - len(ids))] for ids in sequences]
    return torch.tensor(rows, dtype=torch.long)


# book/51_data_and_batching.ipynb#batching
Example = tuple[list[int], list[int]]  # source and target ids, each ends with </s>


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as tensors.

    `target_input` is the target shifted right: <s> first, the last token left out.

    Defined in chapter 51: `batching`.
    """

    source: Int[Tensor, "batch source"]
    target_input: Int[Tensor, "batch target"]
    target_output: Int[Tensor, "batch target"]
    num_tokens: int  # target tokens, padding not counted

    def to(self, device: torch.device | str) -> "Batch":
        """The batch on another device; a GPU fetches it while the CPU goes on."""
        to_gpu = torch.device(device).type == "cuda"
        fetched = to_gpu and self.source.device.type == "cpu"
        batch = self.pinned() if fetched else self
        tensors = (batch.source, batch.target_input, batch.target_output)
        return Batch(
            *(tensor.to(device, non_blocking=fetched) for tensor in tensors),
            self.num_tokens,
        )

    def pinned(self) -> "Batch":
        """The batch where a GPU can fetch it; what is there already is not copied."""
        tensors = (self.source, self.target_input, self.target_output)
        return Batch(*(tensor.pin_memory() for tensor in tensors), self.num_tokens)


# book/51_data_and_batching.ipynb#check-pair
def check_pair(pair: Example, number: int, pad_id: int = 0, end_id: int = 3) -> None:
    """Raises InputError, naming the pair by its number, for what cannot be learned.

    That is an empty side, an id that is no whole number, and a target without an end.

    Defined in chapter 51: `check-pair`.
    """
    for ids in pair:
        if len(ids) == 0:
            raise InputError(f"pair {number} has an empty side", "Leave it out.")
        if odd := [one for one in ids if not hasattr(one, "__index__")]:
            raise InputError(
                f"pair {number} holds {odd[0]!r}, and ids are whole numbers",
                "Give lists of ids, as `tokenizer.encode` makes them.",
            )
    target = [one for one in pair[1] if one != pad_id]
    if target and target[-1] != end_id:
        raise InputError(
            f"the target of pair {number} does not end with {end_id}, so no output would ever end",
            "`tokenizer.encode` puts the end there; with ids of your own, append it.",
        )


# book/51_data_and_batching.ipynb#make-batch
def make_batch(examples: Sequence[Example], pad_id: int = 0, start_id: int = 2, end_id: int = 3) -> Batch:
    """All examples as one batch: both sides padded, the targets shifted right.

    Raises InputError for what `check_pair` refuses.

    Defined in chapter 51: `make-batch`.
    """
    for number, pair in enumerate(examples, start=1):
        check_pair(pair, number, pad_id, end_id)
    sources, targets = zip(*examples)
    shifted = [[start_id, *target][: len(target)] for target in targets]
    batch = (pad_sequences(rows, pad_id) for rows in (sources, shifted, targets))
    source, target_input, target_output = batch
    num_tokens = int((target_output != pad_id).sum())
    return Batch(source, target_input, target_output, num_tokens)


# book/51_data_and_batching.ipynb#padding-share
def padding_share(examples: Sequence[Example], batches: Sequence[Sequence[int]]) -> float:
    """The share of padding among all source and target positions of these batches.

    Defined in chapter 51: `padding-share`.
    """
    real = total = 0
    for batch in batches:
        for side in (0, 1):
            lengths = [len(examples[i][side]) for i in batch]
            real, total = real + sum(lengths), total + max(lengths) * len(lengths)
    return 1 - real / total


# book/51_data_and_batching.ipynb#token-batches
def token_batches(examples: Sequence[Example], max_tokens: int, seed: int | None = None) -> list[list[int]]:
    """Divide examples into batches of at most `max_tokens` a side (section 5.1).

    Gives lists of indices. Padding counts, and a longer example is a batch of its own.
    A `seed` mixes equal lengths and shuffles the batches; None keeps them sorted.

    Defined in chapter 51: `token-batches`.
    """
    generator, order = random.Random(seed), list(range(len(examples)))
    if seed is not None:
        generator.shuffle(order)

    def lengths(i: int) -> tuple[int, int]:
        source, target = map(len, examples[i])
        longer = max(source, target)
        return longer, (source - target) * (1 if longer % 2 else -1)

    batches: list[list[int]] = []
    for i in sorted(order, key=lengths):
        longest, _ = lengths(i)  # the longest so far, as the order is by length
        if batches and (len(batches[-1]) + 1) * longest <= max_tokens:
            batches[-1].append(i)
        else:
            batches.append([i])
    if seed is not None:
        generator.shuffle(batches)
    return batches
