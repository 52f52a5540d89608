"""Scores of translations (chapter 91) against sacreBLEU called directly."""

import pytest
import sacrebleu

from annotated.evaluation import (
    alignment_error_rate,
    antecedent_accuracy,
    evaluate_translations,
    exact_match_by_phenomenon,
)
from annotated.grammar import SentencePair

REFERENCES = [
    "Die Katze überquerte den Fluss nicht, weil er zu breit war.",
    "Anna liebt ihre Mäuse.",
    "Heute hat das glückliche Kind getanzt.",
]
OUTPUTS = [
    "Die Katze überquerte den Fluss nicht, weil sie zu breit war.",
    "Anna liebt ihre Mäuse.",
    "heute hat ein Kind im Garten getanzt",
]


def test_scores_are_those_of_sacrebleu():
    """D-16: BLEU and chrF are sacreBLEU's over the whole corpus, not means over sentences."""
    scores = evaluate_translations(OUTPUTS, REFERENCES)
    assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES]).score, abs=1e-9)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(OUTPUTS, [REFERENCES]).score, abs=1e-9)
    mean = sum(sacrebleu.sentence_bleu(o, [r]).score for o, r in zip(OUTPUTS, REFERENCES, strict=True)) / 3
    assert abs(scores.bleu - mean) > 0.1
    assert scores.sentences == 3


def test_signatures_name_the_settings():
    """D-16: a BLEU score comes with its signature: one reference, case kept, tokenisation 13a, smoothing."""
    scores = evaluate_translations(OUTPUTS, REFERENCES)
    assert scores.bleu_signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert scores.chrf_signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0")


def test_case_and_order_matter():
    """D-16: scores are cased, and outputs and references may not change places."""
    scores = evaluate_translations(OUTPUTS, REFERENCES)
    assert evaluate_translations([text.lower() for text in OUTPUTS], REFERENCES).bleu < scores.bleu
    short = [text.rsplit(" ", 2)[0] for text in REFERENCES]
    assert evaluate_translations(short, REFERENCES).brevity_penalty < 1
    assert evaluate_translations(REFERENCES, short).brevity_penalty == 1


def test_exact_match_counts_equal_texts():
    """Chapter 91: the share of outputs that equal their own reference, letter by letter."""
    assert evaluate_translations(OUTPUTS, REFERENCES).exact_match == pytest.approx(1 / 3)
    assert evaluate_translations(REFERENCES, REFERENCES).exact_match == 1
    assert evaluate_translations(REFERENCES[1:] + REFERENCES[:1], REFERENCES).exact_match == 0
    assert evaluate_translations(REFERENCES, REFERENCES).bleu == pytest.approx(100)


@pytest.mark.parametrize(("outputs", "references"), [(OUTPUTS, REFERENCES[:2]), (OUTPUTS[:2], REFERENCES), ([], [])])
def test_lists_that_do_not_fit_are_refused(outputs, references):
    """Chapter 91: a missing line would shift all the others, so it is an error and no score."""
    with pytest.raises(ValueError, match=f"{len(outputs)} translations for {len(references)} references"):
        evaluate_translations(outputs, references)


PAIRS = [
    SentencePair(
        "The cat is big because it ...", "Die Katze ist groß, weil sie müde ist.", ("a", "b"), antecedents=((5, 1),)
    ),
    SentencePair("The dog sees it.", "Der Hund sieht ihn.", ("a",), antecedents=((3, 1),)),
    SentencePair("She sleeps.", "Sie schläft.", ("b", "c")),
]


def test_exact_match_is_counted_for_every_phenomenon_of_a_sentence():
    """Issue: exact match by phenomenon; a sentence counts for each of its phenomena, right or wrong as a whole."""
    outputs = [PAIRS[0].target, "Der Hund sieht sie.", PAIRS[2].target]
    assert exact_match_by_phenomenon(outputs, PAIRS) == {"a": (1, 2), "b": (2, 2), "c": (1, 1)}
    with pytest.raises(ValueError, match="zip"):
        exact_match_by_phenomenon(outputs[:2], PAIRS)


def test_antecedent_accuracy_looks_at_pronouns_alone():
    """The gender of the pronoun is scored where there is an antecedent, whatever else is wrong."""
    assert antecedent_accuracy([pair.target for pair in PAIRS], PAIRS) == 1
    outputs = ["Die Kuh ist alt, weil sie klein ist.", "Der Hund sieht sie.", "Er schläft."]
    assert antecedent_accuracy(outputs, PAIRS) == 1 / 2
    assert antecedent_accuracy(["Die Katze ist groß, weil es müde ist.", "Es sieht der Hund.", ""], PAIRS) == 0
    with pytest.raises(ValueError, match="antecedent"):
        antecedent_accuracy(outputs[2:], PAIRS[2:])


def test_alignment_error_rate_by_hand():
    """Och and Ney's formula with sure links only, over all sentences together."""
    gold = [[(0, 0), (1, 1)], [(0, 0), (1, 0), (2, 1)]]
    assert alignment_error_rate(gold, gold) == 0
    assert alignment_error_rate([[(1, 0)], []], gold) == 1
    assert alignment_error_rate([[(0, 0)], [(0, 0), (2, 1), (2, 0)]], gold) == pytest.approx(1 - 2 * 3 / 9)
    assert alignment_error_rate([[(0, 0), (0, 0)], []], [[(0, 0)], []]) == 0  # a link said twice is one link
    for found, wanted in (([[]], gold), ([[]], [[]])):
        with pytest.raises(ValueError, match=r"alignments|links"):
            alignment_error_rate(found, wanted)
