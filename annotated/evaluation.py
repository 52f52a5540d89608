# Written by `make export` from book/61_machine_translation.ipynb: do not edit here, edit the chapter.
"""Machine translation: chapter 61 of the book, section 6.1 of the paper."""

from collections.abc import Sequence
from dataclasses import dataclass

import sacrebleu

__all__ = ["Scores", "evaluate_translations"]


# book/61_machine_translation.ipynb#scores
@dataclass(frozen=True)
class Scores:
    """Corpus scores: BLEU and chrF from 0 to 100 with sacreBLEU's signatures, exact matches from 0 to 1.

    Defined in chapter 61: `scores`.
    """

    bleu: float
    chrf: float
    exact_match: float
    bleu_signature: str
    chrf_signature: str
    brevity_penalty: float
    sentences: int


# book/61_machine_translation.ipynb#evaluate-translations
def evaluate_translations(translations: Sequence[str], references: Sequence[str]) -> Scores:
    """Score detokenised, cased translations against one reference each, by sacreBLEU's defaults (Post 2018).

    Raises ValueError when the two differ in length or are empty.

    Defined in chapter 61: `evaluate-translations`.
    """
    if len(translations) != len(references) or not references:
        raise ValueError(f"{len(translations)} translations for {len(references)} references")
    bleu, chrf = sacrebleu.BLEU(), sacrebleu.CHRF()
    result = bleu.corpus_score(list(translations), [list(references)])
    letters = chrf.corpus_score(list(translations), [list(references)])
    exact = sum(a == b for a, b in zip(translations, references, strict=True)) / len(references)
    signatures = str(bleu.get_signature()), str(chrf.get_signature())
    return Scores(result.score, letters.score, exact, *signatures, result.bp, len(references))
