"""Batches: by length, within a budget on both sides, each example once, targets shifted to the right."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from annotated.base.files import InputError
from annotated.batching import Batch, Example, make_batch, pad_sequences, padding_share, token_batches
from annotated.text.pairs import Pairs, in_batches, prefetch


def examples_of(lengths: list[tuple[int, int]]) -> list[Example]:
    return [([5] * source, [*[6] * (target - 1), 3]) for source, target in lengths]


def caption_lengths(count: int, seed: int = 0) -> list[tuple[int, int]]:
    """Lengths as in real captions: about fourteen tokens, a tail of long ones, two sides that go together."""
    generator = random.Random(seed)
    sources = [max(4, round(generator.lognormvariate(2.6, 0.35))) for _ in range(count)]
    return [(source, max(4, source + round(generator.gauss(0, 2)))) for source in sources]


def plain_batches(examples: list[Example], max_tokens: int, seed: int | None) -> list[list[int]]:
    """One example after the other: mixed, sorted, and a new batch where the next would be too much."""
    order, chance = list(range(len(examples))), random.Random(seed)
    if seed is not None:
        chance.shuffle(order)

    def similar(i: int) -> tuple[int, int]:
        source, target = map(len, examples[i])
        longer, difference = max(source, target), source - target
        return longer, difference if longer % 2 else -difference

    batches: list[list[int]] = []
    for i in sorted(order, key=similar):
        if not batches or (len(batches[-1]) + 1) * max(map(len, examples[i])) > max_tokens:
            batches.append([])
        batches[-1].append(i)
    if seed is not None:
        chance.shuffle(batches)
    return batches


@pytest.mark.parametrize("number", [0, 1, 2, 7, 400])
@pytest.mark.parametrize("max_tokens", [1, 25, 60, 1000])
@pytest.mark.parametrize("seed", [None, 0, 5])
def test_batches_are_those_of_a_plain_loop(number: int, max_tokens: int, seed: int | None) -> None:
    """Also where a sentence is longer than a batch, or all of them fit into one."""
    choose = random.Random(number)
    examples = examples_of([(choose.randint(1, 40), choose.randint(1, 40)) for _ in range(number)])
    assert token_batches(examples, max_tokens, seed) == plain_batches(examples, max_tokens, seed)


@pytest.mark.parametrize("seed", [None, 3])
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60), st.integers(1, 100))
def test_the_plain_forms_agree_with_the_fast_ones(
    seed: int | None, lengths: list[tuple[int, int]], max_tokens: int
) -> None:
    """Lists (chapter 51) and flat rows: the same batches and tensors, above the limit, too."""
    choose = random.Random(len(lengths))
    examples = [tuple([*(choose.randint(4, 99) for _ in range(length)), 3] for length in pair) for pair in lengths]
    batches, pairs = token_batches(examples, max_tokens, seed), Pairs.of(examples)
    planned = pairs.plan(max_tokens, seed)
    assert [batch.tolist() for batch in planned] == batches
    for chosen in planned:
        plain, fast = make_batch([examples[i] for i in chosen], 1, 7), pairs.batch(chosen, pad_id=1, start_id=7)
        for name in ("source", "target_input", "target_output"):
            assert getattr(plain, name).dtype == getattr(fast, name).dtype
            assert getattr(plain, name).tolist() == getattr(fast, name).tolist()
        assert plain.num_tokens == fast.num_tokens


def test_the_paper_counts_each_side_by_itself() -> None:
    """M-28: with a limit of 25,000 a batch has nearly 25,000 tokens on either side, not in all."""
    examples = examples_of([(25, 25)] * 3_000)
    fullest = max(token_batches(examples, 25_000, seed=1), key=len)
    assert [sum(len(examples[i][side]) for i in fullest) for side in (0, 1)] == [25_000, 25_000]


def test_every_epoch_has_batches_of_the_same_shapes() -> None:
    """So that kernels compiled for a shape are used again (chapter 92), although the batches hold other pairs."""
    examples = examples_of(caption_lengths(400))
    shapes = []
    for seed in (1, 2):
        batches = [[examples[i] for i in batch] for batch in token_batches(examples, 200, seed=seed)]
        shapes.append(
            sorted((len(batch), *(max(map(len, side)) for side in zip(*batch, strict=True))) for batch in batches)
        )
    assert shapes[0] == shapes[1]
    assert len(set(shapes[0])) > 10


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 30), max_size=60), st.integers(1, 100))
def test_results_come_in_the_order_of_the_sources(lengths: list[int], max_tokens: int) -> None:
    """Whoever works on the batches sees each source once, within the limit, and the longest first."""
    sources = [[i] * length for i, length in enumerate(lengths)]
    seen: list[list[list[int]]] = []

    def work(batches: list[list[list[int]]]) -> Iterator[list[tuple[int, int]]]:
        seen.extend(batches)
        return ([(source[0], len(source)) for source in batch] for batch in batches)

    assert in_batches(sources, max_tokens, work) == list(enumerate(lengths))
    assert sorted(source for batch in seen for source in batch) == sources
    assert all(len(batch) * max(map(len, batch)) <= max_tokens or len(batch) == 1 for batch in seen)
    longest = [max(map(len, batch)) for batch in seen]
    assert longest == sorted(longest, reverse=True)


@pytest.mark.parametrize("lost", [lambda batches: batches[1:], lambda batches: [batch[1:] for batch in batches]])
def test_a_result_that_is_missing_is_an_error(lost) -> None:
    with pytest.raises(ValueError, match=r"zip\(\)"):
        in_batches([[1, 2], [3], [4, 5, 6]], 4, lost)


@pytest.mark.slow
def test_padding_is_below_five_percent_on_real_lengths() -> None:
    """C-5.1-d: batches of similar lengths; the same batches filled at random waste several times as much."""
    examples = examples_of(caption_lengths(15_000))
    for seed in (None, 1):
        assert padding_share(examples, token_batches(examples, 2_048, seed)) < 0.05
    order = list(range(len(examples)))
    random.Random(0).shuffle(order)
    assert padding_share(examples, [order[i : i + 200] for i in range(0, len(order), 100)]) > 0.25


def test_padding_share_by_hand() -> None:
    examples = examples_of([(2, 4), (4, 3), (5, 5)])
    assert padding_share(examples, [[0, 1], [2]]) == pytest.approx(3 / 26)
    assert padding_share(examples, [[0], [1], [2]]) == 0


def test_padding_fills_rows_at_the_end() -> None:
    padded = pad_sequences([[5, 6, 7], [8], []], pad_id=9)
    assert padded.tolist() == [[5, 6, 7], [8, 9, 9], [9, 9, 9]]
    assert padded.dtype == torch.int64


def test_targets_are_shifted_to_the_right() -> None:
    """The decoder's input begins with the start token and lacks eos; what it must predict ends with eos."""
    batch = make_batch([([5, 3], [7, 8, 3]), ([5, 6, 9, 3], [4, 3])])
    assert batch.source.tolist() == [[5, 3, 0, 0], [5, 6, 9, 3]]
    assert batch.target_input.tolist() == [[2, 7, 8], [2, 4, 0]]
    assert batch.target_output.tolist() == [[7, 8, 3], [4, 3, 0]]
    assert batch.num_tokens == 5


def test_other_special_tokens() -> None:
    """Imported models pad with another id and start with it."""
    batch = make_batch([([5, 1], [7, 8, 1]), ([5, 6, 1], [4, 1])], pad_id=99, start_id=99, end_id=1)
    assert batch.source.tolist() == [[5, 1, 99], [5, 6, 1]]
    assert batch.target_input.tolist() == [[99, 7, 8], [99, 4, 99]]
    assert batch.target_output.tolist() == [[7, 8, 1], [4, 1, 99]]


def test_a_batch_moves_as_a_whole() -> None:
    batch = make_batch(examples_of([(3, 2), (2, 5)]))
    moved = batch.to("meta")
    assert isinstance(moved, Batch)
    assert {tensor.device.type for tensor in (moved.source, moved.target_input, moved.target_output)} == {"meta"}
    assert moved.num_tokens == batch.num_tokens == 7


def test_pairs_are_a_sequence() -> None:
    lists = examples_of([(3, 2), (2, 5), (4, 1), (1, 1), (9, 6)])
    pairs = Pairs.of(lists)
    assert list(pairs) == lists
    assert pairs[-1] == lists[-1]
    assert len(pairs) == 5
    assert Pairs.of(pairs) is pairs
    assert pairs.longest() == 9
    for i in (5, -6):
        with pytest.raises(IndexError):
            pairs[i]


def test_what_is_made_ahead_comes_in_order_and_its_error_in_its_place() -> None:
    def failing() -> Iterator[int]:
        yield from range(5)
        raise InputError("the sixth")

    items = prefetch(failing())
    assert [next(items) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match="the sixth"):
        next(items)
    assert list(prefetch([])) == []


def test_only_so_many_are_made_ahead_and_the_thread_ends_with_its_reader() -> None:
    made = []

    def numbers() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    before = threading.active_count()
    items = prefetch(numbers(), count=2)
    assert next(items) == 0
    time.sleep(0.3)
    assert made == [0, 1, 2]
    items.close()  # at once: a thread that still lets go of tensors when Python ends aborts the process
    assert threading.active_count() == before


@pytest.mark.parametrize(("target", "pinned"), [("cuda", 3), ("cuda:1", 3), ("mps", 0), ("cpu", 0)])
def test_copies_to_cuda_are_from_pinned_memory(monkeypatch: pytest.MonkeyPatch, target: str, pinned: int) -> None:
    """Only from there does `non_blocking` let the CPU go on; elsewhere the copy is a plain one."""
    calls: list[str] = []

    def pin_memory(tensor: torch.Tensor) -> torch.Tensor:
        calls.append("pinned")
        return tensor

    def to(tensor: torch.Tensor, device: str, non_blocking: bool = False) -> torch.Tensor:
        assert (device, non_blocking) == (target, bool(pinned))
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    monkeypatch.setattr(torch.Tensor, "to", to)
    make_batch(examples_of([(3, 2), (2, 5)])).to(target)
    assert len(calls) == pinned


def test_padding_that_is_given_is_not_counted():
    """transformers#7546's kind: lists that were filled up with 0 already have the losses of those that were not."""
    short, filled = ([7, 3], [8, 3]), ([7, 3, 0, 0], [8, 3, 0, 0])
    assert make_batch([short, filled]).num_tokens == 4
    assert Pairs.of([short, filled]).num_tokens(np.array([0, 1])) == 4
    assert Pairs.of([short]).num_tokens(np.array([0]), pad_id=3) == 1
