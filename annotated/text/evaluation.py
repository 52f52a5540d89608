"""Scores of translations: BLEU, chrF, exact matches, what a pronoun means."""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import sacrebleu

from annotated.base.corpus import SentencePair
from annotated.base.files import InputError
from annotated.text.grammar.words import words

__all__ = [
    "LANGUAGE_RULERS",
    "RULERS",
    "Scores",
    "against_base",
    "alignment_error_rate",
    "antecedent_accuracy",
    "bleu_by_ruler",
    "choose_ruler",
    "diagonal_links",
    "evaluate_translations",
    "exact_match_by_phenomenon",
    "judged",
    "too_short",
]


@dataclass(frozen=True)
class Scores:
    """Corpus scores: BLEU and chrF from 0 to 100 with sacreBLEU's signatures, exact matches from 0 to 1.

    `remarks` are lines for whoever reads the scores: what they cannot say here.
    """

    bleu: float
    chrf: float
    exact_match: float
    bleu_signature: str
    chrf_signature: str
    brevity_penalty: float
    sentences: int
    remarks: tuple[str, ...] = ()


RULERS = tuple(sacrebleu.BLEU.TOKENIZERS)  # what cuts a text into the tokens that BLEU counts, by sacreBLEU's names
LANGUAGE_RULERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}  # as in sacreBLEU's own command; 13a for all others


def bleu_by(ruler: str) -> sacrebleu.BLEU:
    """BLEU by one of RULERS. Raises InputError where that needs what is not here, and ValueError for another name."""
    if ruler not in RULERS:
        raise ValueError(f"ruler must be one of {', '.join(RULERS)}, not {ruler!r}")
    try:
        return sacrebleu.BLEU(tokenize=ruler)
    except (RuntimeError, AssertionError, ImportError, OSError) as error:
        if ruler.endswith("-mecab"):
            extra = f'"sacrebleu[{ruler.removesuffix("-mecab")}]"'
            raise InputError(f"the ruler {ruler} needs a package that is not installed: pip install {extra}") from None
        raise InputError(
            f"the ruler {ruler} needs a file that cannot be fetched or read ({error})",
            "sacreBLEU fetches it once, to `~/.sacrebleu`: try again with a network, delete it there if "
            "it is cut, or choose another ruler.",
        ) from None


def choose_ruler(language: str | None, ruler: str | None = None) -> tuple[str, tuple[str, ...]]:
    """The ruler asked for, else that of the target language, and remarks: where its package is missing, it is `char`.

    Raises InputError when the ruler asked for cannot be had, and ValueError when there is none of that name.
    """
    name = ruler or LANGUAGE_RULERS.get(re.split("[-_]", (language or "").lower())[0], "13a")
    try:
        bleu_by(name)
    except InputError as error:
        if ruler:
            raise
        return "char", (f"BLEU counts characters here: {error}",)
    return name, ()


def too_short(ruler: str, references: Sequence[str]) -> bool:
    """Whether most references have too few tokens by this ruler for BLEU, which counts up to four in a row."""
    counted = bleu_by("none" if ruler == "split" else ruler)
    texts = map(split_tokens, references) if ruler == "split" else references
    lengths = [len(counted.tokenizer(text.rstrip()).split()) for text in texts]
    return sum(length < counted.max_ngram_order for length in lengths) > len(lengths) / 2


def evaluate_translations(
    translations: Sequence[str], references: Sequence[str], language: str | None = None, ruler: str | None = None
) -> Scores:
    """Score detokenised, cased translations against one reference each, by sacreBLEU's defaults (Post 2018).

    BLEU counts the tokens that suit the target `language`, which is a code such as `zh`, or those of `ruler`, which is
    one of sacreBLEU's names (`choose_ruler`). Raises ValueError when the two differ in length or are empty, and for an
    unknown ruler, and InputError for one that needs what is not installed.
    """
    if len(translations) != len(references) or not references:
        raise ValueError(f"{len(translations)} translations for {len(references)} references")
    name, remarks = choose_ruler(language, ruler)
    bleu, chrf = bleu_by(name), sacrebleu.CHRF()
    result = bleu.corpus_score(list(translations), [list(references)])
    letters = chrf.corpus_score(list(translations), [list(references)])
    exact = sum(a == b for a, b in zip(translations, references, strict=True)) / len(references)
    if too_short(name, references):
        few = f"most references have fewer than {bleu.max_ngram_order} tokens by the ruler {name}"
        remarks = (*remarks, f"{few}: BLEU says nothing here, look at chrF and exact matches")
    signatures = str(bleu.get_signature()), str(chrf.get_signature())
    return Scores(result.score, letters.score, exact, *signatures, result.bp, len(references), remarks)


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


def bleu_by_ruler(
    translations: Sequence[str], references: Sequence[str], rulers: Sequence[str] = ("13a", "intl", "split")
) -> dict[str, dict[str, Any]]:
    """BLEU of plain texts from 0 to 100, with its signature, by several rulers: some of RULERS, and `split`.

    `split` is that of the paper's time and code: `split_tokens` of both sides, one reference, capitals count, no
    smoothing (section 6.1). Raises ValueError when the two differ in length or are empty, and for an unknown ruler,
    and InputError for one that needs what is not installed.
    """
    if len(translations) != len(references) or not references:
        raise ValueError(f"{len(translations)} translations for {len(references)} references")
    found = {}
    for name in rulers:
        sides, metric = [list(translations), list(references)], None if name == "split" else bleu_by(name)
        if metric is None:
            sides = [[split_tokens(text) for text in side] for side in sides]
            metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
        score, signature = metric.corpus_score(sides[0], [sides[1]]).score, str(metric.get_signature())
        if name == "split":
            signature = signature.replace("tok:none", "tok:moses-like.hyphens-split")
        found[name] = {"bleu": score, "signature": signature}
    return found


def exact_match_by_phenomenon(translations: Sequence[str], pairs: Sequence[SentencePair]) -> dict[str, tuple[int, int]]:
    """For each phenomenon, most frequent first: how many sentences with it equal the reference, and how many do."""
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for translation, pair in zip(translations, pairs, strict=True):
        total.update(pair.phenomena)
        right.update(pair.phenomena if translation == pair.target else ())
    return {name: (right[name], count) for name, count in sorted(total.items(), key=lambda item: (-item[1], item[0]))}


GENDERED_PRONOUNS = ("er", "sie", "es", "ihn", "ihm")


def antecedent_accuracy(translations: Sequence[str], pairs: Sequence[SentencePair]) -> float:
    """The share of translations whose pronouns have the reference's genders, among pairs with an antecedent.

    Everything else in the translation may be wrong. Raises ValueError when no pair has an antecedent.
    """
    both = [
        (words(text), words(pair.target)) for text, pair in zip(translations, pairs, strict=True) if pair.antecedents
    ]
    if not both:
        raise ValueError("no pair has a pronoun with an antecedent")
    found = [[[word for word in side if word.lower() in GENDERED_PRONOUNS] for side in sides] for sides in both]
    return sum(output == reference for output, reference in found) / len(both)


Links = Collection[tuple[int, int]]


def alignment_error_rate(found: Sequence[Links], gold: Sequence[Links]) -> float:
    """1 - 2 |A & G| / (|A| + |G|) over all sentences together, from 0 (equal) to 1; every gold link is a sure one.

    Links are pairs (source word, target word). Raises ValueError for lists of different length and without any link.
    """
    if len(found) != len(gold):
        raise ValueError(f"{len(found)} alignments for {len(gold)} gold ones")
    common = sum(len(set(a) & set(b)) for a, b in zip(found, gold, strict=True))
    size = sum(len(set(a)) + len(set(b)) for a, b in zip(found, gold, strict=True))
    if not size:
        raise ValueError("no links to compare")
    return 1 - 2 * common / size


def diagonal_links(pair: SentencePair) -> list[tuple[int, int]]:
    """A link from each target word to the source word at the same relative place: what knows only positions."""
    source, target = len(words(pair.source)), len(words(pair.target))
    return [(round(row * (source - 1) / max(1, target - 1)), row) for row in range(target)]


def against_base(
    scores: Mapping[str, Sequence[float]], base: str = "base", level: float = 0.95
) -> dict[str, tuple[float, float, float]]:
    """The difference of each row's mean from that of `base`, and its interval: middle, low, high (section 6.2).

    If seeds scatter alike in all rows, as is assumed here in a pooled variance, all intervals hold at once with
    probability `level` (Bonferroni's correction). Needs scipy. Raises ValueError where no row has two runs.
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
    """
    if -margin < low and high < margin:
        return "equivalent"
    if low <= 0 <= high:
        return "undecided"
    return "same direction" if (low > 0) == (in_the_paper > 0) and in_the_paper else "opposite"
