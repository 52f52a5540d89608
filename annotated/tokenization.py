# Written by `make export` from book/51_data_and_batching.ipynb: do not edit here, edit the chapter.
"""Training data and batching: chapter 51 of the book, section 5.1 of the paper."""

import io
import re
from collections.abc import Iterable
from pathlib import Path

import sentencepiece

from annotated.corpora import InputError

__all__ = ["Tokenizer", "decode", "encode", "load_tokenizer", "train_tokenizer"]


# book/51_data_and_batching.ipynb#tokenizer
class Tokenizer:
    """Text to token ids and back: SentencePiece BPE with one vocabulary for both languages (section 5.1).

    Ids 0 to 3 are pad, unk, bos and eos. Every byte has a piece of its own, so that no text is unknown.

    Defined in chapter 51: `tokenizer`.
    """

    pad_id, unk_id, bos_id, eos_id = 0, 1, 2, 3

    def __init__(self, model: bytes):
        """`model` is the content of a SentencePiece model file. Raises InputError when it is something else."""
        self.model = model
        try:
            self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            ids = tuple(getattr(self.processor, f"{name}_id")() for name in ("pad", "unk", "bos", "eos"))
        except (RuntimeError, OSError):
            raise InputError("not a SentencePiece model") from None
        if not model or ids != (0, 1, 2, 3):
            wanted = f"a SentencePiece model with pad, unk, bos, eos at 0, 1, 2, 3 is needed, not at {ids}"
            raise InputError(wanted if model else "not a SentencePiece model")

    def __len__(self) -> int:
        return self.processor.vocab_size()


# book/51_data_and_batching.ipynb#train-tokenizer
def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn `vocab_size` pieces by byte-pair encoding (Sennrich et al. 2016) from sentences of both languages.

    Raises InputError when the texts are too few for so many pieces, or the pieces too few for the texts.

    Defined in chapter 51: `train-tokenizer`.
    """
    model = io.BytesIO()
    options = {
        "model_type": "bpe", "byte_fallback": True, "character_coverage": 1.0, "max_sentence_length": 1_000_000,
        "pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "num_threads": 1, "minloglevel": 3,
    }  # fmt: skip
    sentencepiece.set_random_generator_seed(0)
    sentences = (text for text in texts if text.strip())
    trainer = sentencepiece.SentencePieceTrainer.train
    try:
        trainer(sentence_iterator=sentences, model_writer=model, vocab_size=vocab_size, **options)
    except RuntimeError as error:
        message = str(error)
        reason = "there is none" if "sentences_.empty" in message else message.split("] ")[-1].strip() or message
        for pattern, bound in (
            (r"value <= (\d+)", "at most {} are possible"),
            (r"_chars\. \d+ vs (\d+)", "at least {} are needed"),
        ):
            if limit := re.search(pattern, message):
                reason = bound.format(limit[1])
        raise InputError(f"no vocabulary of {vocab_size} pieces can be learned from this text: {reason}") from None
    return Tokenizer(model.getvalue())


# book/51_data_and_batching.ipynb#tokenizer-methods
def encode(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    """Token ids of each text, with eos at the end.

    Defined in chapter 51: `tokenizer-methods`.
    """
    return [[*ids, tokenizer.eos_id] for ids in tokenizer.processor.encode(list(texts))]


def decode(tokenizer: Tokenizer, sequences: list[list[int]]) -> list[str]:
    """The text of each list of ids; special tokens are left out.

    Defined in chapter 51: `tokenizer-methods`.
    """
    special = (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id)
    return [tokenizer.processor.decode([i for i in ids if i not in special]) for ids in sequences]


def load_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer from its file. Raises InputError, naming the file, when it is missing or no SentencePiece model.

    Defined in chapter 51: `tokenizer-methods`.
    """
    try:
        return Tokenizer(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
