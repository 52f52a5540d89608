"""What a run learns from: token ids, their order in each epoch, the batches of a step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from annotated.base.corpus import Corpus, SentencePair
from annotated.base.files import InputError
from annotated.batching import Batch, Example, check_pair
from annotated.machine.distributed import rank, world_size
from annotated.model import Transformer, TransformerConfig
from annotated.runs.checkpoint import load_with_tokenizer
from annotated.text.pairs import Pairs
from annotated.text.store import Store
from annotated.text.subwords import PieceDropout
from annotated.text.tokenization import PairTokenizer, Tokenizer, tokenize, train_tokenizer
from annotated.training import Model, TrainingConfig

__all__ = ["batch_all", "tokenize_pairs"]


def tokenize_pairs(tokenizer: Tokenizer, pairs: Sequence[SentencePair], max_length: int) -> list[Example]:
    """Token ids of both sides; pairs with an empty side or more than `max_length` tokens are left out."""
    sources = tokenize(tokenizer, [pair.source for pair in pairs])
    targets = tokenize(tokenizer, [pair.target for pair in pairs], target=True)
    both = zip(sources, targets, strict=True)
    return [pair for pair in both if all(1 < len(side) <= max_length for side in pair)]


Examples = Sequence[Example] | Callable[[int], Sequence[Example]]  # the same in every epoch, or a function of it


def examples_by_epoch(
    tokenizer: Tokenizer, examples: Sequence[Example], config: TrainingConfig, model: TransformerConfig
) -> Examples:
    """The examples for `train`: with `piece_dropout`, their words are cut into other pieces in each epoch."""
    if not config.piece_dropout:
        return examples
    if isinstance(tokenizer, PairTokenizer):
        raise InputError(
            "piece_dropout cuts words by one vocabulary for both languages, and this model has two",
            "Leave `--piece-dropout` out, or train a model from the beginning.",
        )
    return partial(PieceDropout(tokenizer, config.piece_dropout, config.seed, model.max_length), examples)


def check_ids(examples: Sequence[Example], model: Model) -> None:
    """Raises InputError, naming the pair, for an id that the model does not know, and for what `check_pair` refuses."""
    if examples and isinstance(examples[0], Batch):
        raise InputError("`train` makes its batches itself", "Give it pairs of lists of ids, to validate by as well.")
    size = model.config.vocab_size
    sizes = getattr(model.config, "source_vocab_size", None) or size, size
    for number, pair in enumerate(examples, start=1):
        check_pair(pair, number, model.config.pad_id, model.config.end_id)
        for ids, size in zip(pair, sizes, strict=True):
            if not 0 <= min(ids) <= max(ids) < size:
                wrong = min(ids) if min(ids) < 0 else max(ids)
                raise InputError(
                    f"pair {number} holds the id {wrong}, and the model knows 0 to {size - 1}",
                    "Give the configuration the size of the vocabulary, or look where the id comes from.",
                )


def batch_all(examples: Sequence[Example], max_tokens: int, pad_id: int = 0, start_id: int = 2) -> list[Batch]:
    """All examples as batches of similar length, in a fixed order: for validation."""
    pairs = Pairs.of(examples)
    return [pairs.batch(chosen, pad_id, start_id) for chosen in pairs.plan(max_tokens)]


@dataclass(frozen=True)
class Group:
    """The batches of a step, of which each process has its share, and the place after them."""

    batches: list[Batch]
    num_tokens: int  # target tokens, those of other processes included
    epoch: int
    batch: int


def batch_groups(
    source: Examples, config: TrainingConfig, epoch: int, position: int, pad_id: int = 0, start_id: int = 2
) -> Iterator[Group]:
    """Endless groups of `accumulation` batches, beginning at batch `position` of `epoch`.

    Each epoch has an order of its own, which depends on the seed alone. Every process plans it and makes its own
    batches only. Raises InputError when there is nothing to learn from.
    """
    group: list[Batch] = []
    count = num_tokens = 0
    while True:
        examples = source(epoch) if callable(source) else source
        if not examples:
            raise InputError("there are no examples to train on", "Give `train` at least one pair.")
        pairs = Pairs.of(examples)
        batches = pairs.plan(config.max_tokens, seed=config.seed * 1_000_003 + epoch)
        for done in range(position, len(batches)):
            if count % world_size() == rank():
                group.append(pairs.batch(batches[done], pad_id, start_id))
                num_tokens += group[-1].num_tokens
            else:  # another process has it
                num_tokens += pairs.num_tokens(batches[done], pad_id)
            count += 1
            if count == config.accumulation:
                last = done + 1 == len(batches)
                yield Group(group, num_tokens, epoch + last, 0 if last else done + 1)
                group, count, num_tokens = [], 0, 0
        epoch, position = epoch + 1, 0


def texts_of(corpus: Corpus | Store) -> tuple[list[SentencePair], list[SentencePair]]:
    """The pairs of train, which a store has as ids only, and of valid. Raises InputError when there are none."""
    pairs, kept_apart = [] if isinstance(corpus, Store) else corpus.split("train"), corpus.split("valid")
    if not isinstance(corpus, Store) and not (pairs and kept_apart):
        raise InputError(f"corpus {corpus.name}: no pairs in {'valid' if pairs else 'train'}")
    return pairs, kept_apart


def learn_pieces(
    corpus: Corpus | Store, pairs: Sequence[SentencePair], vocab_size: int | str | None, options: Mapping[str, Any]
) -> Tokenizer:
    """A vocabulary for the corpus; a store brings its own. Raises InputError when that has another size."""
    if isinstance(corpus, Store):
        if vocab_size not in (None, size := len(corpus.tokenizer)):
            raise InputError(f"{corpus.name}: has {size} pieces, not {vocab_size}: leave that out, or prepare another")
        return corpus.tokenizer
    texts = (text for pair in pairs for text in (pair.source, pair.target))
    return train_tokenizer(texts, vocab_size, **options)


def begin_with(folder: Path, corpus: Corpus | Store) -> tuple[Transformer, Tokenizer, dict[str, Any]]:
    """The model to begin with, its vocabulary, and what a run keeps of its notes.

    Raises InputError when it cannot be read, or a store was cut into other pieces.
    """
    model, tokenizer, notes = load_with_tokenizer(folder)
    if isinstance(corpus, Store) and corpus.tokenizer.files() != tokenizer.files():
        raise InputError(
            f"{corpus.name}: was cut into pieces of another vocabulary than that of {folder}",
            "Prepare a store with that vocabulary, or train on the texts themselves.",
        )
    kept = {"search": notes["search"]} if "search" in notes else {}
    return model, tokenizer, {"begun_from": str(folder)} | kept


def examples_of(
    corpus: Corpus | Store, pairs: Sequence[SentencePair], kept_apart: Sequence[SentencePair], tokenizer: Tokenizer,
    max_length: int,
) -> tuple[Sequence[Example], list[Example]]:  # fmt: skip
    """The examples to train on, and those to validate by.

    Raises InputError when there are none, or when a store has longer ones than the model takes.
    """
    if not isinstance(corpus, Store):
        examples = tokenize_pairs(tokenizer, pairs, max_length)
    elif (longest := corpus.train.longest()) <= max_length:
        examples = corpus.train
    else:
        advice = f"prepare it with --max-length {max_length}, or train with a larger one"
        raise InputError(f"{corpus.name}: has sentences of {longest} tokens, max_length is {max_length}: {advice}")
    valid = tokenize_pairs(tokenizer, kept_apart, max_length)
    for name, found in (("train", examples), ("valid", valid)):
        if not found:
            reason = f"a side of each is empty, or has more than {max_length} tokens (max_length)"
            raise InputError(
                f"corpus {corpus.name}: no usable pairs in {name}: {reason}",
                "Raise `--max-length`, or look for a column that is missing.",
            )
    return examples, valid
