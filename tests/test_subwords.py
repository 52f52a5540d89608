"""BPE dropout: words in other pieces in every epoch (chapter 51; after the paper)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from annotated.runs.examples import tokenize_pairs
from annotated.text.grammar.splits import embedded_split
from annotated.text.subwords import WAYS, PieceDropout, cut_word
from annotated.text.tokenization import Tokenizer, load_tokenizer

MODEL = Path(__file__).parents[1] / "data" / "models" / "embedded"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer(MODEL)


@pytest.fixture(scope="module")
def examples(tokenizer: Tokenizer) -> list:
    return tokenize_pairs(tokenizer, embedded_split("valid")[:200], 256)


@pytest.mark.slow
def test_without_dropout_these_are_the_usual_pieces(tokenizer, examples):
    """SentencePiece merges in the same order."""
    assert PieceDropout(tokenizer, 0.0, 1, 256)(examples, 0) == examples


def test_merges_of_one_word_by_hand():
    merges = {"ab": -1.0, "abc": -2.0, "bc": -0.5, "abcd": -3.0}
    assert cut_word("abcd", merges, 0.0, Random(0)) == ["abcd"]
    assert cut_word("abcd", merges, 1.0, Random(0)) == list("abcd")
    del merges["abc"]
    assert cut_word("abcd", merges, 0.0, Random(0)) == ["a", "bc", "d"]  # bc is older than ab


@pytest.mark.slow
def test_the_text_stays_and_the_pieces_change(tokenizer, examples):
    dropout = PieceDropout(tokenizer, 0.1, 1, 256)
    first, second = dropout(examples, 0), dropout(examples, 1)
    longer = 0
    for usual, one, other in zip(examples, first, second, strict=True):
        for side in (0, 1):
            assert tokenizer.to_text(one[side]) == tokenizer.to_text(other[side]) == tokenizer.to_text(usual[side])
            assert one[side][-1] == tokenizer.eos_id
        longer += len(one[1]) > len(usual[1])
    assert first != second
    assert longer > len(examples) / 2
    assert all(len(ways) <= WAYS for ways in dropout.ways.values())


@pytest.mark.slow
def test_an_epoch_is_the_same_whenever_it_is_made(tokenizer, examples):
    """So that a run that was stopped goes on as if it had not been."""
    dropout = PieceDropout(tokenizer, 0.2, 3, 256)
    dropout(examples[:50], 4)
    fresh = PieceDropout(tokenizer, 0.2, 3, 256)
    assert fresh(examples, 2) == dropout(examples, 2)
    assert PieceDropout(tokenizer, 0.2, 4, 256)(examples, 2) != fresh(examples, 2)


def test_long_sentences_and_unknown_letters_stay(tokenizer):
    strange = [*tokenizer.to_ids("Der Hund sieht 犬 und frisst."), tokenizer.eos_id]
    ((source, _target),) = PieceDropout(tokenizer, 0.9, 1, 256)([(strange, strange)], 0)
    assert tokenizer.to_text(source) == tokenizer.to_text(strange)
    known = [*tokenizer.to_ids("Der Hund sieht die Katze."), tokenizer.eos_id]
    assert PieceDropout(tokenizer, 0.9, 1, len(known))([(known, known)], 0) == [(known, known)]
    assert len(PieceDropout(tokenizer, 0.9, 1, 256)([(known, known)], 0)[0][0]) > len(known)
