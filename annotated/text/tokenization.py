"""Text to ids and back: SentencePiece, and what is saved of it."""

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sentencepiece

from annotated.base.files import COPY_AGAIN, COPY_WHOLE, FETCH, InputError, current, disk, is_pointer

__all__ = [
    "CHARACTERS",
    "NORMALIZATIONS",
    "PairTokenizer",
    "Tokenizer",
    "check_vocabulary",
    "detokenize",
    "load_tokenizer",
    "naming",
    "read_model_file",
    "tokenize",
    "train_tokenizer",
]


OWN_VOCABULARY = "Take the `vocabulary.json` that was saved with the model."


def read_processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """The SentencePiece model in these bytes. Raises InputError when there is none."""
    if is_pointer(model):
        raise InputError("a pointer of Git LFS, not the file", FETCH)
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        processor.vocab_size()
    except (RuntimeError, OSError):
        model = b""
    if not model:
        raise InputError("not a SentencePiece model", COPY_AGAIN)
    return processor


def message_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of the fields in a message of Protocol Buffers, which a SentencePiece model is."""
    at = 0

    def whole() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte, at = message[at], at + 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    while at < len(message):
        key = whole()
        number, kind = key >> 3, key & 7
        if kind == 0:
            yield number, whole()
        else:
            size = whole() if kind == 2 else {1: 8, 5: 4}[kind]
            yield number, message[at : at + size]
            at += size


def normalizer_of(model: bytes) -> tuple[str, bool]:
    """The rule by which a SentencePiece model normalises text, by its name, and whether it drops extra spaces."""
    spec = next((value for number, value in message_fields(model) if number == 3), b"")
    found = dict(message_fields(spec))
    return found.get(1, b"").decode() or "none", bool(found.get(4, True))


class Tokenizer:
    """Text to token ids and back: SentencePiece BPE with one vocabulary for both languages (section 5.1).

    Ids 0 to 3 are pad, unk, bos and eos. Every byte has a piece of its own, so that no text is unknown. `normalization`
    names the rule for text before it is cut; where `exact`, text comes back as it was, but for U+2581 (▁), the mark of
    a space, which comes back as one.
    """

    pad_id, unk_id, bos_id, eos_id = 0, 1, 2, 3

    def __init__(self, model: bytes):
        """`model` is the content of a SentencePiece model file. Raises InputError when it is something else."""
        self.model, self.processor = model, read_processor(model)
        ids = tuple(getattr(self.processor, f"{name}_id")() for name in ("pad", "unk", "bos", "eos"))
        if ids != (0, 1, 2, 3):
            raise InputError(
                f"a SentencePiece model with pad, unk, bos, eos at 0, 1, 2, 3 is needed, not at {ids}",
                "Train the tokenizer with `train_tokenizer`, which numbers them so.",
            )
        self.source_size = self.target_size = self.processor.vocab_size()
        self.normalization, drops_spaces = normalizer_of(model)
        self.exact = self.normalization == "identity" and not drops_spaces

    def __len__(self) -> int:
        return self.target_size

    def encode(self, text: str, target: bool = False) -> list[int]:
        """The token ids of a text, eos at the end: what a model reads, and what it learns to write.

        `target` matters where the languages have models of their own. Raises InputError for a text with a surrogate
        on its own, which is half a character and cannot be encoded.
        """
        return tokenize(self, [text], target)[0]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of target ids; special tokens are left out."""
        return self.to_text(list(ids))

    def to_ids(self, text: str, target: bool = False) -> list[int]:
        """The ids without eos, for a part of a text."""
        return self.processor.encode(text) if text.strip() else []  # blanks alone are nothing

    def to_text(self, ids: list[int]) -> str:
        return self.processor.decode([i for i in ids if i not in (self.pad_id, self.bos_id, self.eos_id)])

    def piece(self, token: int) -> str:
        """The piece of a target token."""
        return self.processor.id_to_piece(token)

    def files(self) -> dict[str, bytes]:
        """What to save, by file name."""
        return {"tokenizer.model": self.model}


def tokenize(tokenizer: Tokenizer, texts: list[str], target: bool = False) -> list[list[int]]:
    """`Tokenizer.encode` for each text. Raises InputError, naming the text, as it does."""
    try:
        return [[*tokenizer.to_ids(text, target), tokenizer.eos_id] for text in texts]
    except (RuntimeError, UnicodeEncodeError):
        for number, text in enumerate(texts, start=1):
            if half := re.search("[\ud800-\udfff]", text):
                raise InputError(
                    f"text {number}: U+{ord(half[0]):04X} is half a character: delete it",
                    'It comes from text that was cut there, or decoded with "surrogateescape": read it again as UTF-8.',
                ) from None
        raise


def detokenize(tokenizer: Tokenizer, sequences: list[list[int]]) -> list[str]:
    """The text of each list of target ids; special tokens are left out."""
    return [tokenizer.to_text(list(ids)) for ids in sequences]


NORMALIZATIONS = ("identity", "nfkc", "nmt_nfkc")  # SentencePiece's names
CHARACTERS = "characters"  # in place of a number of pieces: every character of the texts, and nothing longer


def train_tokenizer(
    texts: Iterable[str], vocab_size: int | str, normalization: str = "identity", at_most: bool = False
) -> Tokenizer:
    """Learn `vocab_size` pieces by byte-pair encoding (Sennrich et al. 2016) from sentences of both languages.

    With "characters" for a size nothing is merged, which suits small data; with `at_most` there may be fewer pieces,
    where the texts do not give so many. `normalization` is one of NORMALIZATIONS; by default text stays as it is.
    Raises InputError when the texts are too few for so many pieces, or the pieces too few for the texts, and ValueError
    for an unknown rule.
    """
    if normalization not in NORMALIZATIONS:
        raise ValueError(f"normalization must be one of {', '.join(NORMALIZATIONS)}, not {normalization!r}")
    sentences = (text.replace("\u2585", " ") for text in texts if text.strip())  # SentencePiece skips those with it
    if vocab_size == CHARACTERS:
        normalizer = sentencepiece.SentencePieceNormalizer(rule_name=normalization)
        known, sentences = {"▁"}, list(sentences)
        known.update(*map(normalizer.normalize, sentences))
        known -= {" ", "\0"}
        vocab_size = 4 + 256 + len(known)  # special tokens, bytes, characters
        sentences.append(" ".join(sorted(known - {"▁"})))  # it cuts out what spells a special token, <s> or <0x41>
    model = io.BytesIO()
    options = {
        "model_type": "bpe", "byte_fallback": True, "character_coverage": 1.0, "max_sentence_length": 1_000_000,
        "pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "num_threads": 1, "minloglevel": 3,
        "normalization_rule_name": normalization, "remove_extra_whitespaces": normalization != "identity",
        "hard_vocab_limit": not at_most,
    }  # fmt: skip
    sentencepiece.set_random_generator_seed(0)
    trainer = sentencepiece.SentencePieceTrainer.train
    try:
        trainer(sentence_iterator=iter(sentences), model_writer=model, vocab_size=vocab_size, **options)
    except RuntimeError as error:
        message = str(error)
        reason = "there is none" if "sentences_.empty" in message else message.split("] ")[-1].strip() or message
        for pattern, bound in (
            (r"value <= (\d+)", "at most {} are possible"),
            (r"_chars\. \d+ vs (\d+)", "at least {} are needed"),
        ):
            if limit := re.search(pattern, message):
                reason = bound.format(limit[1])
        raise InputError(
            f"no vocabulary of {vocab_size} pieces can be learned from this text: {reason}",
            "Set `--vocab-size` within that bound, or give more text.",
        ) from None
    return Tokenizer(model.getvalue())


class PairTokenizer(Tokenizer):
    """Text to token ids and back with a SentencePiece model for each language and lists that number the pieces.

    `vocabulary` gives each piece its id, of both languages or of the source only; then `target_vocabulary` has the
    target's. A piece that is in no list is unknown. A code like `>>fr<<` before a text, which names the language to
    translate into, is one token. `special` are the names of pad, unk and eos; there is no bos.
    """

    def __init__(
        self,
        models: tuple[bytes, bytes],
        vocabulary: dict[str, int],
        target_vocabulary: dict[str, int] | None = None,
        special: tuple[str, str, str] = ("<pad>", "<unk>", "</s>"),
    ):
        """Raises InputError for bytes that are no SentencePiece model, and for what `check_vocabulary` refuses."""
        self.models, self.special = models, special
        self.vocabulary, self.target_vocabulary = vocabulary, target_vocabulary
        self.source, self.target = (read_processor(model) for model in models)
        self.numbers = (vocabulary, target_vocabulary or vocabulary)
        for number_of in self.numbers:
            check_vocabulary(number_of, special)
        self.pieces = {number: piece for piece, number in self.numbers[1].items()}
        self.source_size, self.target_size = map(len, self.numbers)
        self.pad_id, self.unk_id, self.eos_id = (vocabulary[name] for name in special)
        self.bos_id = self.pad_id  # Marian starts with it
        self.normalization, self.exact = normalizer_of(models[1])[0], False  # spaces at the ends are dropped

    def to_ids(self, text: str, target: bool = False) -> list[int]:
        number_of, code = self.numbers[target], re.match(r">>.*?<<", text, re.DOTALL)
        rest = text[code.end() :] if code else text
        pieces = (self.target if target else self.source).encode(rest, out_type=str)
        return [number_of.get(piece, number_of[self.special[1]]) for piece in [*([code[0]] if code else []), *pieces]]

    def to_text(self, ids: list[int]) -> str:
        pieces = [self.pieces[i] for i in ids if i in self.pieces]
        text = self.target.decode([piece for piece in pieces if piece not in self.special])
        return text.replace("▁", " ").strip()  # the rest: marks of pieces that only the source's model knows

    def piece(self, token: int) -> str:
        return self.pieces[token]

    def files(self) -> dict[str, bytes]:
        """What to save, by file name."""
        lists = {"source": self.vocabulary, "target": self.target_vocabulary, "special": self.special}
        content = json.dumps(lists, ensure_ascii=False, indent=1).encode()
        return {"source.spm": self.models[0], "target.spm": self.models[1], "vocabulary.json": content}


def check_vocabulary(vocabulary: Any, special: Sequence[str]) -> None:
    """Raises InputError unless the pieces have the ids 0, 1, 2 ..., each once, special tokens among them."""
    if not isinstance(vocabulary, dict) or not all(type(number) is int for number in vocabulary.values()):
        raise InputError(
            "not a list of pieces with a whole number each", "Take the list of pieces that belongs to the model."
        )
    if not isinstance(special, list | tuple) or [type(name) for name in special] != [str] * 3:
        raise InputError(f"the names of pad, unk and eos are needed, not {special!r}", OWN_VOCABULARY)
    if absent := [name for name in special if name not in vocabulary]:
        raise InputError(
            f"there is no {absent[0]} among the pieces",
            "Take the list of pieces that belongs to the model, or correct the name of the special token.",
        )
    for number, found in enumerate(sorted(vocabulary.values())):
        if number != found:
            problem = f"no piece has the id {number}" if found > number else f"two pieces have the id {found}"
            raise InputError(
                f"{problem}; {len(vocabulary)} pieces need the ids 0 to {len(vocabulary) - 1}",
                "Number the pieces without a gap, each once.",
            )


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """What goes wrong inside with this file becomes an InputError that names it."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", COPY_WHOLE) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})", "Check whether you may read there.") from None
    except InputError as error:
        raise InputError(f"{path}: {error}", error.todo) from None
    except ValueError as error:
        raise InputError(f"{path}: not a JSON file ({error})", OWN_VOCABULARY) from None
    except RecursionError:
        raise InputError(f"{path}: not a JSON file that can be read (nested too deeply)", OWN_VOCABULARY) from None


def read_model_file(path: Path) -> bytes:
    """The content of a SentencePiece model file. Raises InputError, naming it, when it is missing or something else."""
    with naming(path):
        model = disk.read(path)
        read_processor(model)
    return model


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer in a model folder. Raises InputError, naming the file, when one is missing or something else."""
    joint, lists = current(folder, "tokenizer.model"), current(folder, "vocabulary.json")
    if joint.exists() or not lists.exists():
        model = read_model_file(joint)
        with naming(joint):
            return Tokenizer(model)
    models = tuple(read_model_file(current(folder, f"{side}.spm")) for side in ("source", "target"))
    with naming(lists):
        content = json.loads(disk.read(lists))
        if not isinstance(content, dict) or content.keys() != {"source", "target", "special"}:
            raise InputError("not a vocabulary of this package", OWN_VOCABULARY)
        for number_of in (content["source"], content["target"] or content["source"]):
            check_vocabulary(number_of, content["special"])
        return PairTokenizer(models, content["source"], content["target"], tuple(content["special"]))
