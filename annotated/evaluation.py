# Written by `make export` from book/91_command_line.ipynb: do not edit here, edit the chapter.
"""The command line: chapter 91 of the book."""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import sacrebleu

from annotated.grammar import SentencePair, words

__all__ = [
    "Scores",
    "against_base",
    "alignment_error_rate",
    "antecedent_accuracy",
    "bleu_by_ruler",
    "diagonal_links",
    "evaluate_translations",
    "exact_match_by_phenomenon",
    "judged",
]


# book/91_command_line.ipynb#corpus-scores
@dataclass(frozen=True)
class Scores:
    """Corpus scores: BLEU and chrF from 0 to 100 with sacreBLEU's signatures, exact matches from 0 to 1.

    Defined in chapter 91: `corpus-scores`.
    """

    bleu: float
    chrf: float
    exact_match: float
    bleu_signature: str
    chrf_signature: str
    brevity_penalty: float
    sentences: int


# book/91_command_line.ipynb#evaluate-translations
def evaluate_translations(translations: Sequence[str], references: Sequence[str]) -> Scores:
    """Score detokenised, cased translations against one reference each, by sacreBLEU's defaults (Post 2018).

    Raises ValueError when the two differ in length or are empty.

    Defined in chapter 91: `evaluate-translations`.
    """
    if len(translations) != len(references) or not references:
        raise ValueError(f"{len(translations)} translations for {len(references)} references")
    bleu, chrf = sacrebleu.BLEU(), sacrebleu.CHRF()
    result = bleu.corpus_score(list(translations), [list(references)])
    letters = chrf.corpus_score(list(translations), [list(references)])
    exact = sum(a == b for a, b in zip(translations, references, strict=True)) / len(references)
    signatures = str(bleu.get_signature()), str(chrf.get_signature())
    return Scores(result.score, letters.score, exact, *signatures, result.bp, len(references))


# book/91_command_line.ipynb#split-tokens
PLAIN = str.maketrans({"“": '"', "”": '"', "’": "'", "…": "..."})
KEPT = r"[^\W\d_]|\d{1,2}|\.+|(?=.*[^\W\d_]).*\..*"  # what keeps its dot: an initial, an ordinal, dots, z.B.


def split_tokens(text: str) -> str:
    """The tokens that scores of 2017 counted, with blanks between them: as Moses cuts German, and hyphens split.

    Every sign is a token, but a comma between digits is none, and a dot only at the end of a word that is no initial
    and no ordinal, unless a small letter follows. A hyphen inside a word becomes `##AT##-##AT##`, a token of its own.
    Moses has a list of abbreviations besides, which is not here.
    """
    text = re.sub(r"[^\w\s.,'`-]|_", r" \g<0> ", text.translate(PLAIN))
    tokens = re.sub(r"(?<!\d),|,(?!\d)|\.{2,}|'", r" \g<0> ", text).split()
    for i, (token, following) in enumerate(zip(tokens, [*tokens, ""][1:], strict=True)):
        if token.endswith(".") and not re.fullmatch(KEPT, token[:-1] or ".") and not following[:1].islower():
            tokens[i] = f"{token[:-1]} ."
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", " ".join(tokens))


# book/91_command_line.ipynb#bleu-by-ruler
def bleu_by_ruler(translations: Sequence[str], references: Sequence[str]) -> dict[str, dict[str, Any]]:
    """BLEU of plain texts from 0 to 100, with its signature, by three rulers: `13a`, `intl` and `split`.

    The first two are sacreBLEU's. The third is that of the paper's time and code: `split_tokens` of both sides, one
    reference, capitals count, no smoothing (section 6.1). Raises ValueError when the two differ in length or are empty.

    Defined in chapter 91: `bleu-by-ruler`.
    """
    if len(translations) != len(references) or not references:
        raise ValueError(f"{len(translations)} translations for {len(references)} references")
    whole, split = sacrebleu.BLEU(tokenize="intl"), sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    found = {}
    for name, metric, cut in (("13a", sacrebleu.BLEU(), str), ("intl", whole, str), ("split", split, split_tokens)):
        sides = [[cut(text) for text in side] for side in (translations, references)]
        score, signature = metric.corpus_score(sides[0], [sides[1]]).score, str(metric.get_signature())
        found[name] = {"bleu": score, "signature": signature.replace("tok:none", "tok:moses-like.hyphens-split")}
    return found


# book/91_command_line.ipynb#by-phenomenon
def exact_match_by_phenomenon(translations: Sequence[str], pairs: Sequence[SentencePair]) -> dict[str, tuple[int, int]]:
    """For each phenomenon, most frequent first: how many sentences with it equal the reference, and how many do.

    Defined in chapter 91: `by-phenomenon`.
    """
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for translation, pair in zip(translations, pairs, strict=True):
        total.update(pair.phenomena)
        right.update(pair.phenomena if translation == pair.target else ())
    return {name: (right[name], count) for name, count in sorted(total.items(), key=lambda item: (-item[1], item[0]))}


# book/91_command_line.ipynb#antecedent-accuracy
GENDERED_PRONOUNS = ("er", "sie", "es", "ihn", "ihm")


def antecedent_accuracy(translations: Sequence[str], pairs: Sequence[SentencePair]) -> float:
    """The share of translations whose pronouns have the reference's genders, among pairs with an antecedent.

    Everything else in the translation may be wrong. Raises ValueError when no pair has an antecedent.

    Defined in chapter 91: `antecedent-accuracy`.
    """
    both = [
        (words(text), words(pair.target)) for text, pair in zip(translations, pairs, strict=True) if pair.antecedents
    ]
    if not both:
        raise ValueError("no pair has a pronoun with an antecedent")
    found = [[[word for word in side if word.lower() in GENDERED_PRONOUNS] for side in sides] for sides in both]
    return sum(output == reference for output, reference in found) / len(both)


# book/91_command_line.ipynb#alignment-error-rate
Links = Collection[tuple[int, int]]


def alignment_error_rate(found: Sequence[Links], gold: Sequence[Links]) -> float:
    """1 - 2 |A & G| / (|A| + |G|) over all sentences together, from 0 (equal) to 1; every gold link is a sure one.

    Links are pairs (source word, target word). Raises ValueError for lists of different length and without any link.

    Defined in chapter 91: `alignment-error-rate`.
    """
    if len(found) != len(gold):
        raise ValueError(f"{len(found)} alignments for {len(gold)} gold ones")
    common = sum(len(set(a) & set(b)) for a, b in zip(found, gold, strict=True))
    size = sum(len(set(a)) + len(set(b)) for a, b in zip(found, gold, strict=True))
    if not size:
        raise ValueError("no links to compare")
    return 1 - 2 * common / size


def diagonal_links(pair: SentencePair) -> list[tuple[int, int]]:
    """A link from each target word to the source word at the same relative place: what knows only positions.

    Defined in chapter 91: `alignment-error-rate`.
    """
    source, target = len(words(pair.source)), len(words(pair.target))
    return [(round(row * (source - 1) / max(1, target - 1)), row) for row in range(target)]


# book/91_command_line.ipynb#against-base
def against_base(
    scores: Mapping[str, Sequence[float]], base: str = "base", level: float = 0.95
) -> dict[str, tuple[float, float, float]]:
    """The difference of each row's mean from that of `base`, and its interval: middle, low, high (section 6.2).

    If seeds scatter alike in all rows, as is assumed here in a pooled variance, all intervals hold at once with
    probability `level` (Bonferroni's correction). Needs scipy. Raises ValueError where no row has two runs.

    Defined in chapter 91: `against-base`.
    """
    from scipy.stats import t as student_t  # not among what the package needs

    freedom = sum(len(runs) - 1 for runs in scores.values())
    if freedom < 1:
        raise ValueError("a scatter needs a row with two runs")
    means = {row: mean(runs) for row, runs in scores.items()}
    pooled = sum((score - means[row]) ** 2 for row, runs in scores.items() for score in runs) / freedom
    others = [row for row in scores if row != base]
    t = student_t.ppf(1 - (1 - level) / 2 / len(others), freedom)
    reach = {row: t * math.sqrt(pooled * (1 / len(scores[row]) + 1 / len(scores[base]))) for row in others}
    middles = {row: means[row] - means[base] for row in others}
    return {row: (middles[row], middles[row] - reach[row], middles[row] + reach[row]) for row in others}


def judged(low: float, high: float, margin: float, in_the_paper: float) -> str:
    """What the interval of a difference says beside the paper's: equivalent, same direction, opposite or undecided.

    `margin` is what counts as no difference. If the paper reports none, any clear difference is "opposite".

    Defined in chapter 91: `against-base`.
    """
    if -margin < low and high < margin:
        return "equivalent"
    if low <= 0 <= high:
        return "undecided"
    return "same direction" if (low > 0) == (in_the_paper > 0) and in_the_paper else "opposite"
