"""Sentences in, sentences out: a model with its tokenizer."""

import math
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch

from annotated.base.files import InputError
from annotated.batching import pad_sequences, token_batches
from annotated.decoding import Hypothesis, output_limits, start_decoding
from annotated.machine.acceleration import accelerate, products_of_few_rows, start_fast_decoding, top_tokens
from annotated.machine.devices import best_device, choose_precision, prepare_worker
from annotated.machine.distributed import from_all, own_share, world_size
from annotated.model import Transformer
from annotated.runs.checkpoint import load_with_tokenizer, save_model
from annotated.search.beam import PENALTIES, STOPS, beam_search, sample_outputs, score_tokens
from annotated.search.prefixes import Spellings, begun_with
from annotated.text.pairs import in_batches
from annotated.text.tokenization import Tokenizer, detokenize, tokenize

__all__ = ["Translation", "Translator", "search_from"]


@dataclass(frozen=True)
class Translation:
    """An output text, its score (log-probability over length penalty, in nats), its log-probability, its pieces."""

    text: str
    score: float
    log_probability: float
    pieces: tuple[str, ...] = ()


def tokenize_sources(
    tokenizer: Tokenizer, texts: Sequence[str], max_length: int, warn: Callable[[str], None] | None = None
) -> list[list[int]]:
    """Token ids of the sources; one longer than `max_length` is cut there, eos kept, and `warn` is told.

    Without `warn` the message goes to standard error.
    """
    warn = warn or (lambda message: print(message, file=sys.stderr))
    sources = tokenize(tokenizer, list(texts))
    for i, source in enumerate(sources):
        if len(source) > max_length:
            warn(f"sentence {i + 1} has {len(source)} tokens, the model takes {max_length}: the rest is left out")
            sources[i] = [*source[: max_length - 1], source[-1]]
    return sources


SEARCH = {"beam_size": 4, "length_penalty": 0.6, "penalty": "gnmt", "stop": "bound"}  # section 6.1, and chapter 60


def search_from(values: Any) -> dict[str, Any]:
    """The settings of the search that a model brings, else the paper's. Raises InputError, naming the wrong one."""
    if not isinstance(values, dict) or values.keys() - SEARCH.keys():
        raise InputError(
            f"config.json: search has the settings {', '.join(SEARCH)}, not {values!r}",
            "Delete what is not named there.",
        )
    search = SEARCH | values
    if type(search["beam_size"]) is not int or search["beam_size"] < 1:
        raise InputError(
            f"config.json: beam_size {search['beam_size']!r} in search is no number of at least 1",
            "Write a whole number, such as 4.",
        )
    if type(search["length_penalty"]) not in (int, float) or not abs(search["length_penalty"]) <= 100:
        raise InputError(
            f"config.json: length_penalty {search['length_penalty']!r} in search is no number up to 100",
            "Write a number, such as 0.6.",
        )
    for name, known in (("penalty", tuple(PENALTIES)), ("stop", STOPS)):
        if search[name] not in known:
            raise InputError(f"config.json: {name} {search[name]!r} in search is none of {', '.join(known)}")
    return search


class Source(list[int]):
    """The token ids of a text, those that its translation begins with, and the seed of a translation that is drawn."""

    prefix: Sequence[int] = ()
    seed: int = 0


class SearchOptions(TypedDict, total=False):
    """The options of `Translator.translate`, which are those of `translate_n_best` but for `n_best`."""

    beam_size: int | None
    length_penalty: float | None
    penalty: str | None
    stop: str | None
    limit: int | None
    min_length: int
    prefixes: Sequence[str] | None
    temperature: float | None
    seed: int
    max_tokens: int
    warn: Callable[[str], None] | None


class Translator:
    """A model and its tokenizer: text in, text out.

    `translate` keeps the order of its inputs, whatever the order it works in. `notes` is what the model's `config.json`
    says beside its sizes. Its `search`, if there is one, replaces the paper's settings in `SEARCH`. `accelerated` makes
    the model's parts those of chapter 92; without it, they are the plain ones.
    """

    def __init__(self, model: Transformer, tokenizer: Tokenizer, notes: dict | None = None, accelerated: bool = True):
        self.model, self.tokenizer, self.notes = accelerate(model.eval(), accelerated), tokenizer, notes or {}
        self.topk = top_tokens if accelerated else torch.topk
        self.start = start_fast_decoding if accelerated else start_decoding
        self.search = search_from(self.notes.get("search", {}))
        self.pool: ProcessPoolExecutor | None = None

    @classmethod
    def load(
        cls, folder: str | Path, device: str = "auto", precision: str = "float32", accelerated: bool = True
    ) -> "Translator":
        """Read a model folder (`model.safetensors`, `config.json`, and the tokenizer's file or files), or `embedded`.

        `precision` is one of PRECISIONS, or auto; 16 bits are faster where the device has instructions for them.
        Raises InputError, naming the file, when one is missing or foreign, or the folder, when the model was saved
        without a tokenizer, and ValueError for another precision.
        """
        place = best_device(device)
        dtype = choose_precision(precision, place)
        model, tokenizer, notes = load_with_tokenizer(folder, place)
        return cls(model.to(dtype), tokenizer, notes, accelerated)

    def save(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write the model folder; `dtype=torch.float16` halves its size."""
        notes = {key: value for key, value in self.notes.items() if key not in ("format", "model")}
        save_model(self.model, folder, self.tokenizer, dtype=dtype, **notes)

    def tokenize(self, texts: Sequence[str], warn: Callable[[str], None] | None = None) -> list[list[int]]:
        """Token ids of the sources; one longer than the model's `max_length` is cut there, and `warn` is told."""
        return tokenize_sources(self.tokenizer, texts, self.model.config.max_length, warn)

    def translate(self, texts: Sequence[str], **options: Unpack[SearchOptions]) -> list[str]:
        """The best translation of each text; the options are those of `translate_n_best`, but for `n_best`.

        Raises TypeError for an option that there is not.
        """
        if unknown := options.keys() - SearchOptions.__annotations__.keys():
            known = ", ".join(SearchOptions.__annotations__)
            raise TypeError(f"translate has no option {min(unknown)}, only {known}; n_best is translate_n_best's")
        return [best[0].text for best in self.translate_n_best(texts, n_best=1, **options)]

    def translate_n_best(
        self,
        texts: Sequence[str],
        *,
        n_best: int | None = None,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        penalty: str | None = None,
        stop: str | None = None,
        limit: int | None = None,
        min_length: int = 0,
        prefixes: Sequence[str] | None = None,
        temperature: float | None = None,
        seed: int = 1,
        max_tokens: int = 2048,
        warn: Callable[[str], None] | None = None,
    ) -> list[list[Translation]]:
        """Up to `n_best` different translations of each text, best first; an empty text has one empty translation.

        `beam_size` (1 is greedy search), `length_penalty` (alpha), `penalty` (one of PENALTIES) and `stop` (one of
        STOPS, chapter 60) are those of `search` if not given, and `n_best` is the beam's size. A translation has at
        most `limit` tokens, by default 50 more than its source, and at least `min_length`; it begins with the text
        that `prefixes` has for it, whose log-probability counts; its last word may be cut short, and go on. Batches
        hold at most `max_tokens` source tokens, padding counted. Raises InputError for a prefix that leaves no room for
        a translation.

        With a `temperature` nothing is searched for: each token is drawn, by the model's own probabilities at 1, the
        likelier ones more often below it. Text i draws with `seed` + i, whatever batch it is in.
        """
        if isinstance(texts, str) or isinstance(prefixes, str):
            raise TypeError("a list of texts is needed, not a single text, whose letters would be translated")
        given = {"beam_size": beam_size, "length_penalty": length_penalty, "penalty": penalty, "stop": stop}
        options = self.search | {name: value for name, value in given.items() if value is not None}
        width = options["beam_size"]
        options |= {"n_best": width if n_best is None else n_best, "limit": limit, "min_length": min_length}
        if width > self.model.config.vocab_size:
            raise InputError(
                f"a beam of {width} is wider than the vocabulary, which has {self.model.config.vocab_size}",
                "Lower `--beam-size`; more than ten seldom helps.",
            )
        if temperature is not None:
            if not 0 < temperature < math.inf or prefixes is not None or (n_best or 1) > 1 or min_length:
                raise ValueError(f"temperature {temperature}: one above 0, without prefixes, n_best or min_length")
            options = {"temperature": temperature, "limit": limit}
        sources = [Source(ids) for ids in self.tokenize(texts, warn)]
        for number, source in enumerate(sources):
            source.seed = seed + number
        self.take_prefixes(sources, prefixes, limit)
        wanted = [source for source in sources if len(source) > 1]  # more than eos
        found = iter(in_batches(wanted, max_tokens, lambda batches: self.search_all(batches, options)))
        return [
            [self.to_text(hypothesis) for hypothesis in next(found)] if len(source) > 1 else [Translation("", 0.0, 0.0)]
            for source in sources
        ]

    def take_prefixes(self, sources: list[Source], prefixes: Sequence[str] | None, limit: int | None) -> None:
        """Give the sources what their translations begin with, where that is wanted."""
        if prefixes is None:
            return
        if len(prefixes) != len(sources):
            raise ValueError(f"{len(prefixes)} prefixes for {len(sources)} texts")
        for number, (source, ids) in enumerate(zip(sources, tokenize(self.tokenizer, list(prefixes), target=True)), 1):
            source.prefix = ids[:-1]  # without eos
            room = int(output_limits(self.model, torch.tensor([source]), limit=limit))
            if len(source.prefix) >= room:
                raise InputError(
                    f"sentence {number}: its prefix has {len(source.prefix)} tokens, and translations at most {room}",
                    "Shorten the prefix, or raise `--limit`.",
                )

    def score(
        self,
        texts: Sequence[str],
        translations: Sequence[str],
        *,
        max_tokens: int = 2048,
        warn: Callable[[str], None] | None = None,
    ) -> list[list[tuple[str, float]]]:
        """The tokens of given translations, eos included, each with its log-probability in nats (section 3.4).

        Their sum is the log-probability of the whole. Raises ValueError when the lists differ in length, and
        InputError for a translation that is longer than the model's `max_length`.
        """
        if isinstance(texts, str) or isinstance(translations, str):
            raise TypeError("lists of texts are needed, not single texts")
        if len(texts) != len(translations):
            raise ValueError(f"{len(translations)} translations for {len(texts)} texts")
        sources, found = self.tokenize(texts, warn), {}
        targets = tokenize(self.tokenizer, list(translations), target=True)
        for number, target in enumerate(targets, start=1):
            if len(target) > (longest := self.model.config.max_length):
                raise InputError(
                    f"sentence {number}: its translation has {len(target)} tokens, the model {longest}",
                    "Score a shorter translation: the model was made for so many tokens.",
                )
        pad, device = self.model.config.pad_id, self.model.target_embedding.weight.device
        for batch in token_batches(list(zip(sources, targets, strict=True)), max_tokens):
            sides = ([side[i] for i in batch] for side in (sources, targets))
            values = score_tokens(self.model, *(pad_sequences(side, pad).to(device) for side in sides)).tolist()
            found |= {
                i: list(zip(map(self.tokenizer.piece, targets[i]), row, strict=False)) for i, row in zip(batch, values)
            }
        return [found[i] for i in range(len(texts))]

    def search_all(self, batches: list[list[list[int]]], options: dict) -> Iterator[list[list[Hypothesis]]]:
        """Beam search for each batch of sources, shared out between the processes of a run."""
        found = self.search_own(own_share(batches), options)
        if world_size() == 1:
            return iter(found)
        shares = from_all(list(found))
        return (shares[i % world_size()][i // world_size()] for i in range(len(batches)))

    def search_own(self, batches: Sequence[list[list[int]]], options: dict) -> Iterator[list[list[Hypothesis]]]:
        """Beam search for the batches of this process, in the worker processes where there are some."""
        if self.pool is None:
            return (search_batch(self, batch, options) for batch in batches)
        return self.pool.map(search_in_worker, batches, [options] * len(batches))

    @contextmanager
    def workers(self, count: int) -> Iterator[None]:
        """Translate in `count` processes of one thread each, for as long as the context lasts.

        On the CPU that is faster than threads inside one search while batches are small: their steps are too short to
        be shared. Elsewhere than on Linux, on a GPU, and for a count of 1 everything stays in this process.
        """
        on_cpu = self.model.target_embedding.weight.device.type == "cpu"
        if count == 1 or not on_cpu or sys.platform != "linux":
            yield
            return
        context = multiprocessing.get_context("fork")  # the workers share this process's weights
        with ProcessPoolExecutor(count, context, initializer=become_worker, initargs=(self,)) as self.pool:
            try:
                yield
            finally:
                self.pool.shutdown(cancel_futures=True)
                self.pool = None

    @cached_property
    def spellings(self) -> Spellings:
        """The vocabulary by what its pieces write, for prefixes."""
        return Spellings(self.tokenizer)

    def to_text(self, hypothesis: Hypothesis) -> Translation:
        pieces = tuple(map(self.tokenizer.piece, hypothesis.tokens))
        return Translation(self.reading(hypothesis.tokens), hypothesis.score, hypothesis.log_probability, pieces)

    def reading(self, tokens: list[int]) -> str:
        """The text of an output."""
        text = detokenize(self.tokenizer, [tokens])[0]
        return text if self.tokenizer.exact else " ".join(text.split())


WORKER: dict[str, Translator] = {}  # in a worker process: the translator it was started with


def become_worker(translator: Translator) -> None:
    """Prepare a process for its work; it has no pool of its own."""
    prepare_worker()
    translator.pool = None
    WORKER["translator"] = translator


def search_in_worker(sources: list[list[int]], options: dict) -> list[list[Hypothesis]]:
    """`search_batch` in a worker."""
    return search_batch(WORKER["translator"], sources, options)


def search_batch(translator: Translator, sources: list[list[int]], options: dict) -> list[list[Hypothesis]]:
    """Beam search for one batch of sources, or what is drawn for them."""
    model = translator.model
    batch = pad_sequences(sources, model.config.pad_id).to(model.target_embedding.weight.device)
    if "temperature" in options:
        return sample_outputs(model, batch, [source.seed for source in sources], start=translator.start, **options)
    prefixes = [getattr(source, "prefix", ()) for source in sources]
    with products_of_few_rows(len(sources) * options["beam_size"]):
        own = {"topk": translator.topk, "start": translator.start}
        own |= begun_with(translator.spellings, prefixes) if any(prefixes) else {}
        if options.get("n_best", 1) > 1:  # one text can be cut in several ways
            own["reading"] = translator.reading
        return beam_search(model, batch, **own, **options)
