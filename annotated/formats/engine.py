"""Translation by the engine CTranslate2, from an export that is made once."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from annotated.base.files import InputError, current, disk, listed, locked, manifest_of, write_together
from annotated.decoding import Hypothesis
from annotated.formats.ctranslate2 import save_ctranslate2
from annotated.formats.marian import vocabularies
from annotated.machine.devices import best_device, choose_precision
from annotated.machine.distributed import from_first, world_size
from annotated.runs.checkpoint import find_model, weights_of
from annotated.search.beam import PENALTIES
from annotated.search.translation import Translator

__all__ = ["FastTranslator", "check_search"]


EXTRA = 50  # tokens that an output may have beyond its source (section 6.1)
FORMAT = "annotated-export-2"  # another name where exports become other ones: older ones are then made anew


def export_key(translator: Translator) -> str:
    """A hash of what an export depends on: weights, sizes, tokenizer, and the version of CTranslate2."""
    digest = hashlib.sha256(repr((FORMAT, version("ctranslate2"), translator.model.config)).encode())
    for name, tensor in weights_of(translator.model).items():
        digest.update(name.encode())
        digest.update(tensor.float().cpu().contiguous().numpy())
    for name, content in translator.tokenizer.files().items():
        digest.update(name.encode() + content)
    return digest.hexdigest()


def read_export(folder: Path, key: str) -> dict[str, bytes] | None:
    """The files of an export with this key; None where there is none, or one that is not what was written."""
    try:
        known = manifest_of(folder) or {}
        contents = {name: disk.read(current(folder, name)) for name in known}
    except (InputError, OSError):
        return None
    whole = all(listed(content) == known[name] for name, content in contents.items())
    return contents if whole and contents.pop("key", b"") == key.encode() else None


def export_of(translator: Translator, folder: Path, warn: Callable[[str], None]) -> dict[str, bytes]:
    """The files of a model for CTranslate2: those in `folder`, or new ones, which are kept there if they can be."""
    key = export_key(translator)
    if (contents := read_export(folder, key)) is None:
        with tempfile.TemporaryDirectory() as place:
            save_ctranslate2(translator, Path(place) / "model")
            contents = {path.name: path.read_bytes() for path in sorted((Path(place) / "model").iterdir())}
        try:
            with locked(folder, warn):
                write_together(folder, {"key": key.encode()} | contents)
        except InputError as error:
            warn(f"the export for CTranslate2 is not kept: {error}")
    return contents


class FastTranslator(Translator):
    """A translator whose search is CTranslate2's, for penalties by a power of the length and for a beam of 1.

    In float32 its outputs are those of our own search but for ties, and for where it stops: as soon as `beam_size`
    hypotheses are finished, even if a prefix leads. With `min_length` a beam of several can differ, too: below it the
    engine spreads the end's probability over the other tokens. A prefix keeps its own pieces here, so end it at the end
    of a word. Scores are always those of the model. `workers` batches
    are translated at a time, by threads. Needs the package ctranslate2, of the extra `fast`.
    """

    def __init__(self, translator: Translator, files: Mapping[str, bytes], **settings: Any):
        import ctranslate2

        super().__init__(translator.model, translator.tokenizer, translator.notes, accelerated=False)
        self.engine = ctranslate2.Translator("model", files=dict(files), **settings)
        self.adds_end = json.loads(files["config.json"])["add_source_eos"]
        source, self.number_of = vocabularies(self.tokenizer)
        self.piece_of, self.piece_of_target = (
            {number: piece for piece, number in ids.items()} for ids in (source, self.number_of)
        )

    @classmethod
    def load(
        cls,
        folder: str | Path,
        device: str = "auto",
        precision: str = "float32",
        *,
        workers: int = 1,
        warn: Callable[[str], None] = print,
    ) -> "FastTranslator":
        """Read a model folder, export it if that was not done before, and start the engine.

        `precision` is auto, int8, or another that CTranslate2 has on the device, which is cpu or cuda. `warn` is told
        when the export cannot be kept. Raises InputError, naming what is missing or what does not fit.
        """
        settings = engine_settings(device, precision)
        translator, place = Translator.load(folder, "cpu", accelerated=False), find_model(folder) / "ctranslate2"
        if world_size() > 1:
            from_first(lambda: bool(export_of(translator, place, warn)))  # the others find it there
        threads = {"inter_threads": workers, "intra_threads": max(1, torch.get_num_threads() // workers)}
        return cls(translator, export_of(translator, place, warn), **settings, **threads)

    @contextmanager
    def workers(self, count: int) -> Iterator[None]:
        """Nothing to start: the engine has the threads that it was loaded with."""
        yield

    def search_own(self, batches: Sequence[list[list[int]]], options: dict) -> Iterator[list[list[Hypothesis]]]:
        """The outputs of this process's batches. Raises InputError for a penalty that CTranslate2 does not have."""
        if "temperature" in options:  # drawn by the model itself
            yield from super().search_own(batches, options)
            return
        check_search(options)
        begun = []
        for batch in batches:
            bound = bool(options.get("min_length")) or any(getattr(source, "prefix", ()) for source in batch)
            several = bound or options["n_best"] > 1  # scores anew, order anew; one text can be cut in several ways
            wanted = options | ({"n_best": options["beam_size"]} if several else {})
            limit = max(self.limit(source, options) for source in batch)
            begun.append((batch, bound, wanted, self.begin(batch, limit, wanted, wanted["n_best"])))
        for batch, bound, wanted, results in begun:
            found = [self.outputs(*pair, wanted) for pair in zip(batch, results, strict=True)]
            found = self.scored_anew(batch, found, options) if bound else found
            yield [self.different(hypotheses)[: options["n_best"]] for hypotheses in found]

    def different(self, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """The first of those that read alike."""
        first: dict[str, Hypothesis] = {}
        for one in hypotheses:
            first.setdefault(self.reading(one.tokens), one)
        return list(first.values())

    def limit(self, source: list[int], options: dict) -> int:
        longest = len(source) + EXTRA if options.get("limit") is None else options["limit"]
        return min(longest, self.model.config.max_length)

    def words(self, source: list[int]) -> list[str]:
        """The pieces of a source, without its end where the engine adds one."""
        return [self.piece_of[token] for token in (source[:-1] if self.adds_end else source)]

    def begin(self, sources: list[list[int]], limit: int, options: dict, n_best: int) -> list[Any]:
        """Hand a batch to the engine's threads; the results come when they are asked for."""
        words = [self.words(source) for source in sources]
        prefixes = [[self.piece_of_target[token] for token in getattr(source, "prefix", ())] for source in sources]
        return self.engine.translate_batch(
            words, target_prefix=prefixes if any(prefixes) else None, beam_size=options["beam_size"],
            num_hypotheses=n_best, length_penalty=power(options), max_decoding_length=limit,
            min_decoding_length=options.get("min_length", 0), max_input_length=0, return_end_token=True,
            return_scores=True, asynchronous=True,
        )  # fmt: skip

    def outputs(self, source: list[int], result: Any, options: dict) -> list[Hypothesis]:
        """Hypotheses for one source. Where one has passed its limit, a new search keeps it, the best first."""
        found, limit = self.hypotheses(result.result(), options), self.limit(source, options)
        if all(self.ended(one) and len(one.tokens) <= limit for one in found):
            return found
        (result,) = self.begin([source], limit, options, options["beam_size"])
        found = sorted(self.hypotheses(result.result(), options), key=lambda one: -one.score)
        return found[: options["n_best"]]

    def ended(self, hypothesis: Hypothesis) -> bool:
        return hypothesis.tokens[-1] == self.model.config.end_id

    def hypotheses(self, result: Any, options: dict) -> list[Hypothesis]:
        rows, exponent = [[self.number_of[piece] for piece in row] for row in result.hypotheses], power(options)
        totals = (score * len(row) ** exponent for row, score in zip(rows, result.scores, strict=True))
        return [self.hypothesis(row, total, options) for row, total in zip(rows, totals, strict=True)]

    def hypothesis(self, tokens: list[int], total: float, options: dict) -> Hypothesis:
        penalty = PENALTIES[options["penalty"]](len(tokens), options["length_penalty"])
        return Hypothesis(tokens, total, total / penalty)

    def scored_anew(
        self, batch: list[list[int]], found: list[list[Hypothesis]], options: dict
    ) -> list[list[Hypothesis]]:
        """The hypotheses with their whole log-probability, the best first.

        The engine's search does not count a prefix, and below a least length it shares out what the end would have.
        """
        pairs = [(source, one) for source, hypotheses in zip(batch, found, strict=True) for one in hypotheses]
        rows = [one.tokens[: -1 if self.ended(one) else None] for _, one in pairs]
        written = [[self.piece_of_target[token] for token in row] for row in rows]
        results = self.engine.score_batch([self.words(source) for source, _ in pairs], written, max_input_length=0)
        totals = (sum(one.log_probs[: len(h.tokens)]) for one, (_, h) in zip(results, pairs, strict=True))
        anew = (self.hypothesis(one.tokens, total, options) for total, (_, one) in zip(totals, pairs, strict=True))
        return [sorted(islice(anew, len(one)), key=lambda h: -h.score) for one in found]


def power(options: Mapping[str, Any]) -> float:
    """The exponent of the length for CTranslate2; with one hypothesis at a time there is nothing to weigh."""
    return float(options["length_penalty"]) if options["penalty"] == "power" and options["beam_size"] > 1 else 0.0


def check_search(options: Mapping[str, Any]) -> None:
    """Raises InputError for a penalty that CTranslate2 does not have, where it counts."""
    if options["penalty"] != "power" and options["length_penalty"] and options["beam_size"] > 1:
        raise InputError(
            f"CTranslate2 has no length penalty {options['penalty']}: choose --penalty power, --length-penalty 0 or "
            "--beam-size 1"
        )


def engine_settings(device: str, precision: str) -> dict[str, Any]:
    """What CTranslate2 calls a device and a precision. Raises InputError for what it does not have here."""
    try:
        import ctranslate2
    except ImportError:
        raise InputError('the package ctranslate2 is not installed: pip install "annotated-attention[fast]"') from None
    place = best_device("cpu" if device == "auto" and not ctranslate2.get_cuda_device_count() else device)
    if place.type != "cpu" and not (place.type == "cuda" and ctranslate2.get_cuda_device_count()):
        raise InputError(f"CTranslate2 has no device {place} here: choose --device cpu")
    known = ctranslate2.get_supported_compute_types(place.type, place.index or 0)
    if precision == "auto":
        best = str(choose_precision("auto", place)).removeprefix("torch.")
        precision = best if best in known else "float32"
    if precision not in known:
        fit = ", ".join(name for name in ("float32", "bfloat16", "float16", "int8") if name in known)
        raise InputError(f"CTranslate2 has no precision {precision} on this {place.type}: choose one of {fit}")
    return {"device": place.type, "device_index": place.index or 0, "compute_type": precision}
