"""Scores of translations (chapter 61) against sacreBLEU called directly."""

import pytest
import sacrebleu

from annotated.evaluation import evaluate_translations

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
    """Chapter 61: the share of outputs that equal their own reference, letter by letter."""
    assert evaluate_translations(OUTPUTS, REFERENCES).exact_match == pytest.approx(1 / 3)
    assert evaluate_translations(REFERENCES, REFERENCES).exact_match == 1
    assert evaluate_translations(REFERENCES[1:] + REFERENCES[:1], REFERENCES).exact_match == 0
    assert evaluate_translations(REFERENCES, REFERENCES).bleu == pytest.approx(100)


@pytest.mark.parametrize(("outputs", "references"), [(OUTPUTS, REFERENCES[:2]), (OUTPUTS[:2], REFERENCES), ([], [])])
def test_lists_that_do_not_fit_are_refused(outputs, references):
    """Chapter 61: a missing line would shift all the others, so it is an error and no score."""
    with pytest.raises(ValueError, match=f"{len(outputs)} translations for {len(references)} references"):
        evaluate_translations(outputs, references)
