"""Scores of translations (chapter 91) against sacreBLEU called directly."""

import math
import re
from urllib.error import URLError

import pytest
import sacrebleu

from annotated.base.corpus import SentencePair
from annotated.base.files import InputError
from annotated.text.evaluation import (
    LANGUAGE_RULERS,
    RULERS,
    alignment_error_rate,
    antecedent_accuracy,
    bleu_by_ruler,
    choose_ruler,
    evaluate_translations,
    exact_match_by_phenomenon,
    split_tokens,
    too_short,
)

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
    """D-16: BLEU and chrF are sacreBLEU's over the whole corpus, not means over sentences, and have a signature."""
    scores = evaluate_translations(OUTPUTS, REFERENCES)
    assert scores.bleu == pytest.approx(sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES]).score, abs=1e-9)
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf(OUTPUTS, [REFERENCES]).score, abs=1e-9)
    mean = sum(sacrebleu.sentence_bleu(o, [r]).score for o, r in zip(OUTPUTS, REFERENCES, strict=True)) / 3
    assert abs(scores.bleu - mean) > 0.1
    assert scores.bleu_signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert scores.chrf_signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0")
    assert (scores.sentences, scores.remarks) == (3, ())
    assert evaluate_translations(OUTPUTS, REFERENCES, "de") == scores
    assert evaluate_translations(OUTPUTS, REFERENCES, "zh", "13a") == scores


def test_case_and_order_matter_and_exact_matches_are_counted():
    """D-16: outputs and references may not change places, and a missing line would shift all the others."""
    scores = evaluate_translations(OUTPUTS, REFERENCES)
    assert evaluate_translations([text.lower() for text in OUTPUTS], REFERENCES).bleu < scores.bleu
    short = [text.rsplit(" ", 2)[0] for text in REFERENCES]
    assert evaluate_translations(short, REFERENCES).brevity_penalty < 1
    assert evaluate_translations(REFERENCES, short).brevity_penalty == 1
    assert scores.exact_match == pytest.approx(1 / 3)
    assert evaluate_translations(REFERENCES, REFERENCES).exact_match == 1
    assert evaluate_translations(REFERENCES[1:] + REFERENCES[:1], REFERENCES).exact_match == 0
    for outputs, references in ((OUTPUTS, REFERENCES[:2]), (OUTPUTS[:2], REFERENCES), ([], [])):
        with pytest.raises(ValueError, match=f"{len(outputs)} translations for {len(references)} references"):
            evaluate_translations(outputs, references)


# By language

CHINESE = ["那只大猫看见那只老女孩，然后它睡觉！", "今天我们在学校里读这本新的书，很好。"]


def one_wrong(references: list[str]) -> list[str]:
    """Each with one wrong character, at every place in turn."""
    return [text[: i % len(text)] + "错" + text[i % len(text) + 1 :] for i, text in enumerate(references)]


def test_chinese_is_counted_by_characters():
    """Reported: 200 references of 18 characters with one wrong each have BLEU 0 by 13a, which cuts at spaces alone."""
    references = CHINESE * 100
    outputs = one_wrong(references)
    assert {len(text) for text in references} == {18}
    scores = evaluate_translations(outputs, references, "zh")
    assert scores.bleu == sacrebleu.BLEU(trg_lang="zh").corpus_score(outputs, [references]).score
    assert 84 < scores.bleu < 90
    assert "|tok:zh|" in scores.bleu_signature
    assert scores.remarks == ()
    for code in ("zh-Hant", "zh_CN", "ZH"):
        assert evaluate_translations(outputs, references, code) == scores
    plain = evaluate_translations(outputs, references)
    assert plain.bleu == 0
    assert "|tok:13a|" in plain.bleu_signature
    few = "most references have fewer than 4 tokens by the ruler 13a"
    assert plain.remarks == (f"{few}: BLEU says nothing here, look at chrF and exact matches",)


def test_the_rulers_of_languages_are_those_of_sacrebleu_s_command():
    assert sacrebleu.BLEU._TOKENIZER_MAP == LANGUAGE_RULERS
    assert set(LANGUAGE_RULERS.values()) < set(RULERS)
    for language in ("de", "en", "", None, "x"):
        assert choose_ruler(language) == ("13a", ())


def test_a_ruler_wins_over_the_language(monkeypatch):
    for ruler in ("none", "char", "intl"):
        scores = evaluate_translations(OUTPUTS, REFERENCES, "zh", ruler)
        assert scores.bleu == sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES], tokenize=ruler).score
        assert f"|tok:{ruler}|" in scores.bleu_signature
    with pytest.raises(ValueError, match="'moses'"):
        evaluate_translations(OUTPUTS, REFERENCES, ruler="moses")

    def no_network(*_: object) -> None:  # some rulers of sacreBLEU are files there
        raise URLError("no network")

    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.TokenizerSPM.__init__", no_network)
    with pytest.raises(InputError, match=r"flores200.*no network"):
        evaluate_translations(OUTPUTS, REFERENCES, ruler="flores200")


class Halves:
    """A Japanese tokenizer where there is none: it cuts after every second character."""

    def __call__(self, line: str) -> str:
        return " ".join(line[i : i + 2] for i in range(0, len(line), 2))

    def signature(self) -> str:
        return "ja-mecab-halves"


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_without_its_package_a_language_is_counted_by_characters(monkeypatch, language: str):
    module = f"sacrebleu.tokenizers.tokenizer_{language}_mecab"
    monkeypatch.setattr(f"{module}.MeCab", None)
    missing = rf'{language}-mecab.*"sacrebleu\[{language}\]"'
    outputs = one_wrong(CHINESE)
    scores = evaluate_translations(outputs, CHINESE, language)
    assert scores.bleu == sacrebleu.corpus_bleu(outputs, [CHINESE], tokenize="char").score
    assert "|tok:char|" in scores.bleu_signature
    (said,) = scores.remarks
    assert re.search(missing, said)
    with pytest.raises(InputError, match=missing):
        evaluate_translations(outputs, CHINESE, "de", f"{language}-mecab")
    monkeypatch.setattr(f"{module}.Tokenizer{language.title()}Mecab", Halves)
    assert "|tok:ja-mecab-halves|" in evaluate_translations(outputs, CHINESE, language).bleu_signature


def test_short_references_are_remarked_where_they_are_most():
    """By four-token sequences: with three tokens a sentence has none."""
    short, long = ["Der Hund."] * 3, ["Der alte Hund."] * 3  # 3 and 4 tokens
    assert evaluate_translations(short + long, short + long).remarks == ()
    (said,) = evaluate_translations([*short, *long[1:]], [*short, *long[1:]]).remarks
    assert said.startswith("most references have fewer than 4 tokens by the ruler 13a: BLEU says nothing here")
    assert evaluate_translations(short, short, ruler="char").remarks == ()
    dates = ["2026-11-25", "1999-01-02"]  # one token by intl
    assert [too_short(ruler, dates) for ruler in ("13a", "intl", "split")] == [False, True, False]
    assert not too_short("intl", ["2026-11-25", "Der Hund sieht die alte Frau."])  # half of them


PAIRS = [
    SentencePair(
        "The cat is big because it ...", "Die Katze ist groß, weil sie müde ist.", ("a", "b"), antecedents=((5, 1),)
    ),
    SentencePair("The dog sees it.", "Der Hund sieht ihn.", ("a",), antecedents=((3, 1),)),
    SentencePair("She sleeps.", "Sie schläft.", ("b", "c")),
]


def test_exact_match_is_counted_for_every_phenomenon_of_a_sentence():
    """A sentence counts for each of its phenomena, right or wrong as a whole."""
    outputs = [PAIRS[0].target, "Der Hund sieht sie.", PAIRS[2].target]
    found = exact_match_by_phenomenon(outputs, PAIRS)
    assert list(found.items()) == [("a", (1, 2)), ("b", (2, 2)), ("c", (1, 1))]  # the frequent first, then by name
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


# Rulers: BLEU counted by hand


def by_ruler(output: str, reference: str) -> dict[str, float]:
    return {name: one["bleu"] for name, one in bleu_by_ruler([output], [reference]).items()}


def by_hand(shares: str, brevity: float = 1.0) -> float:
    """100 times the fourth root of the four shares' product, times the penalty."""
    product = 1.0
    for share in shares.split():
        right, _, of = share.partition("/")
        product *= int(right) / int(of)
    return 100 * brevity * product**0.25


def test_a_split_compound_has_more_right_sequences():
    """13a has 7 tokens, `a-b-c` one of them; split and intl cut the compound, so that more is right.

    The fifth token of 13a is wrong, and so is every sequence with it: 6 of 7, 4 of 6, 2 of 5 and 1 of 4 are right.
    Split makes 9 tokens, the wrong one the seventh: 8 of 9, 6 of 8, 4 of 7 and 3 of 6 are right; by intl as many.
    """
    output, reference = "Der rot-blaue Vogel singt laut heute .", "Der rot-blaue Vogel singt leise heute ."
    found = by_ruler(output, reference)
    assert found["13a"] == pytest.approx(by_hand("6/7 4/6 2/5 1/4"))
    assert found["split"] == pytest.approx(by_hand("8/9 6/8 4/7 3/6"))
    assert found["intl"] == pytest.approx(found["split"])
    assert found["split"] > found["13a"] + 10


def test_without_hyphens_and_quotes_the_rulers_agree():
    """Seven tokens, of which the last but one is wrong: 6 of 7, 4 of 6, 3 of 5, 2 of 4 are right."""
    found = by_ruler("Der Hund sieht die alte Frau.", "Der Hund sieht die alte Dame.")
    assert found == pytest.approx(dict.fromkeys(("13a", "intl", "split"), by_hand("6/7 4/6 3/5 2/4")))


def test_quotes_of_unicode_are_tokens_except_for_13a():
    """The reference has no quotes. 13a leaves „Ja“ whole, and wrong; the others cut it, and *Ja* is right.

    13a: 6 tokens, of which 5 are right, then 3 of 5, 1 of 4, and 0 of 3, which sacreBLEU's smoothing counts as a half.
    intl: 8 tokens, of which 6 are right, then 3 of 7, 1 of 6, and 0 of 5. Split has the same, and does not smooth.
    """
    found = by_ruler("Er sagt „Ja“ zu dir.", "Er sagt Ja zu dir.")
    assert found["13a"] == pytest.approx(100 * (5 / 6 * 3 / 5 * 1 / 4 * 1 / 6) ** 0.25)
    assert found["intl"] == pytest.approx(100 * (6 / 8 * 3 / 7 * 1 / 6 * 1 / 10) ** 0.25)
    assert found["split"] == 0.0


def test_an_output_that_is_too_short_is_punished_by_each_ruler():
    """All right, but 5 tokens for 7 by 13a, and 7 for 9 once the compound is split."""
    found = by_ruler("Der rot-blaue Vogel singt laut", "Der rot-blaue Vogel singt laut heute .")
    assert found["13a"] == pytest.approx(by_hand("5/5 4/4 3/3 2/2", math.exp(1 - 7 / 5)))
    assert found["split"] == pytest.approx(by_hand("7/7 6/6 5/5 4/4", math.exp(1 - 9 / 7)))


CUT = {
    "Die 3,5-Zimmer-Wohnung kostet 1.000 $.": "Die 3,5 ##AT##-##AT## Zimmer ##AT##-##AT## Wohnung kostet 1.000 $ .",
    "Er sagt: „Ja, gern“ – so.": 'Er sagt : „ Ja , gern " – so .',
    "z.B. am 3. Mai 1999. Das geht’s": "z.B. am 3. Mai 1999 . Das geht ' s",
    "J. S. Bach kam um 1.000. Und dann …": "J. S. Bach kam um 1.000 . Und dann ...",
    "Das war bzw. ist Nr. Eins.": "Das war bzw. ist Nr . Eins .",
    "a-b-c - ein_Wort ja...": "a ##AT##-##AT## b-c - ein _ Wort ja ...",  # the script's own way with single letters
    "": "",
}


def test_tokens_of_the_time():
    assert {text: split_tokens(text) for text in CUT} == CUT


def test_other_rulers_can_be_asked_for_and_each_says_what_was_done():
    found = bleu_by_ruler(one_wrong(CHINESE), CHINESE, ["zh", "split", "none"])
    assert list(found) == ["zh", "split", "none"]
    assert found["zh"]["bleu"] == evaluate_translations(one_wrong(CHINESE), CHINESE, "zh").bleu
    found = bleu_by_ruler(OUTPUTS, REFERENCES)
    end = f"version:{sacrebleu.__version__}"
    assert [one["signature"] for one in found.values()] == [
        f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{end}",
        f"nrefs:1|case:mixed|eff:no|tok:intl|smooth:exp|{end}",
        f"nrefs:1|case:mixed|eff:no|tok:moses-like.hyphens-split|smooth:none|{end}",
    ]
    assert found["13a"]["bleu"] == evaluate_translations(OUTPUTS, REFERENCES).bleu
    assert found["intl"]["bleu"] == sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES], tokenize="intl").score
    with pytest.raises(ValueError, match="ruler must be one of"):
        bleu_by_ruler(OUTPUTS, REFERENCES, ["moses"])
    with pytest.raises(ValueError, match="2 translations for 3 references"):
        bleu_by_ruler(OUTPUTS[:2], REFERENCES)
