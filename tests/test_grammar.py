"""The embedded corpus: paradigms and gold sentences written out by hand, and properties of every pair."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from annotated.grammar import (
    CASES,
    COPULA,
    NOUN_ENTRIES,
    PRONOUN_ENTRIES,
    SPLITS,
    VERB_ENTRIES,
    Draw,
    SentencePair,
    Word,
    adjective_form,
    bracket,
    derive,
    determiner_form,
    embedded_split,
    german_words,
    pronoun,
    split_checksum,
    verb_group,
    words,
)

ROOT = Path(__file__).resolve().parents[1]
GENDERS = ("m", "f", "n", "p")


@pytest.fixture(scope="module")
def corpus() -> dict[str, SentencePair]:
    return {pair.source: pair for name in SPLITS for pair in embedded_split(name)}


# Rows are nominative, accusative, dative; columns masculine, feminine, neuter, plural.
DETERMINER_TABLES = {
    "d": "der die das die | den die das die | dem der dem den",
    "dies": "dieser diese dieses diese | diesen diese dieses diese | diesem dieser diesem diesen",
    "kein": "kein keine kein keine | keinen keine kein keine | keinem keiner keinem keinen",
    "ihr": "ihr ihre ihr ihre | ihren ihre ihr ihre | ihrem ihrer ihrem ihren",
    "sein": "sein seine sein seine | seinen seine sein seine | seinem seiner seinem seinen",
    "unser": "unser unsere unser unsere | unseren unsere unser unsere | unserem unserer unserem unseren",
    "zwei": "zwei zwei zwei zwei | zwei zwei zwei zwei | zwei zwei zwei zwei",
}
ADJECTIVE_TABLES = {
    "weak": "alte alte alte alten | alten alte alte alten | alten alten alten alten",
    "mixed": "alter alte altes alten | alten alte altes alten | alten alten alten alten",
    "strong": "alter alte altes alte | alten alte altes alte | altem alter altem alten",
}


@pytest.mark.parametrize("stem", DETERMINER_TABLES)
def test_determiner_paradigm(stem: str) -> None:
    expected = [row.split() for row in DETERMINER_TABLES[stem].split("|")]
    assert [[determiner_form(stem, gender, case) for gender in GENDERS] for case in CASES] == expected


def test_ein_and_jeder_and_viele() -> None:
    singular = [[determiner_form(stem, gender, case) for gender in "mfn"] for stem in ("ein", "jed") for case in CASES]
    assert singular == [
        ["ein", "eine", "ein"],
        ["einen", "eine", "ein"],
        ["einem", "einer", "einem"],
        ["jeder", "jede", "jedes"],
        ["jeden", "jede", "jedes"],
        ["jedem", "jeder", "jedem"],
    ]
    assert [determiner_form("viel", "p", case) for case in CASES] == ["viele", "viele", "vielen"]


@pytest.mark.parametrize("declension", ADJECTIVE_TABLES)
def test_adjective_paradigm(declension: str) -> None:
    expected = [row.split() for row in ADJECTIVE_TABLES[declension].split("|")]
    assert [[adjective_form("alt", declension, gender, case) for gender in GENDERS] for case in CASES] == expected


def test_adjective_in_e_keeps_one_e() -> None:
    assert adjective_form("müde", "mixed", "m", "nominative") == "müder"
    assert adjective_form("müde", "weak", "f", "nominative") == "müde"


@pytest.mark.parametrize(
    ("english", "singular", "plural", "dative_plural"),
    [
        ("man", "Mann", "Männer", "Männern"),
        ("woman", "Frau", "Frauen", "Frauen"),
        ("car", "Auto", "Autos", "Autos"),
        ("teacher", "Lehrer", "Lehrer", "Lehrern"),
        ("apple", "Apfel", "Äpfel", "Äpfeln"),
        ("mouse", "Maus", "Mäuse", "Mäusen"),
        ("queen", "Königin", "Königinnen", "Königinnen"),
        ("cake", "Kuchen", "Kuchen", "Kuchen"),
    ],
)
def test_noun_forms(english: str, singular: str, plural: str, dative_plural: str) -> None:
    noun = next(noun for noun in NOUN_ENTRIES if noun.english == english)
    assert [noun.german_form(False, case) for case in CASES] == [singular] * 3
    assert [noun.german_form(True, case) for case in CASES] == [plural, plural, dative_plural]


@pytest.mark.parametrize(
    ("infinitive", "forms"),
    [
        ("sein", "ist sind war waren"),
        ("wissen", "weiß wissen wusste wussten"),
        ("lesen", "liest lesen las lasen"),
        ("arbeiten", "arbeitet arbeiten arbeitete arbeiteten"),
        ("laden", "lädt laden lud luden"),
        ("fressen", "frisst fressen fraß fraßen"),
    ],
)
def test_finite_forms(infinitive: str, forms: str) -> None:
    verb = next(verb for verb in VERB_ENTRIES if verb.german[0] == infinitive)
    built = [verb.german_finite(tense, plural) for tense in ("present", "past") for plural in (False, True)]
    assert built == forms.split()


GERMAN = {  # the verb, tense, negation, type of clause, subject, expected
    "statement": ("schlafen", "present", False, "main", "er schläft"),
    "negation": ("schlafen", "past", True, "main", "er schlief nicht"),
    "separable, split": ("wachen", "present", False, "main", "er wacht auf"),
    "separable, joined": ("wachen", "present", False, "subordinate", "er aufwacht"),
    "separable, question": ("wachen", "past", False, "question", "wachte er auf"),
    "perfect with sein": ("wachen", "perfect", False, "main", "er ist aufgewacht"),
    "perfect with haben": ("schlafen", "perfect", False, "subordinate", "er geschlafen hat"),
    "perfect, inverted": ("schlafen", "perfect", False, "inverted", "hat er geschlafen"),
    "separable, negated": ("stehen", "past", True, "main", "er stand nicht auf"),
}


@pytest.mark.parametrize("name", GERMAN)
def test_word_order_of_small_derivations(name: str) -> None:
    infinitive, tense, negated, order, expected = GERMAN[name]
    draw = Draw(Random(1))
    verb = next(verb for verb in VERB_ENTRIES if verb.german[0] == infinitive)
    subject = pronoun(draw, "he", "m", "nominative")
    clause = verb_group(draw, verb, subject, tense, negated, order == "question")
    assert " ".join(text for text, _ in clause.german(order)) == expected


def test_contraction_keeps_both_links_and_commas_merge() -> None:
    preposition, article = Word("in", "IN"), Word("the", "DT")
    german = [(",", ()), ("in", (preposition,)), ("dem", (article,)), (",", ()), (".", ())]
    assert german_words(german) == [(",", ()), ("im", (preposition, article)), (".", ())]


GOLD = {
    "The animal did not cross the street because it was too tired.": (
        "Das Tier überquerte die Straße nicht, weil es zu müde war."
    ),
    "The animal did not cross the street because it was too wide.": (
        "Das Tier überquerte die Straße nicht, weil sie zu breit war."
    ),
}


@pytest.mark.parametrize("source", GOLD)
def test_the_sentence_that_everybody_quotes(corpus: dict[str, SentencePair], source: str) -> None:
    pair = corpus[source]
    assert pair.target == GOLD[source]
    tokens = words(source)
    noun = "animal" if "tired" in source else tokens[6]
    assert pair.antecedents == ((8, tokens.index(noun)),)
    assert "pronoun decided by an adjective" in pair.phenomena


def test_a_wide_river_is_masculine(corpus: dict[str, SentencePair]) -> None:
    found = [pair for pair in corpus.values() if pair.source.endswith("not cross the river because it was too wide.")]
    assert found
    assert all(pair.target.endswith("den Fluss nicht, weil er zu breit war.") for pair in found)


def test_alignment_and_tree_written_by_hand(corpus: dict[str, SentencePair]) -> None:
    pair = corpus["The animal did not cross the street because it was too tired."]
    expected = "The-Das animal-Tier did-überquerte cross-überquerte not-nicht the-die street-Straße because-weil it-es "
    expected += "was-war too-zu tired-müde .-."
    source, target = words(pair.source), words(pair.target)
    assert {f"{source[i]}-{target[j]}" for i, j in pair.alignment} == set(expected.split())
    assert pair.tree == (
        "(S (NP (DT The) (NN animal)) (VP (VBD did) (RB not) (VP (VB cross) (NP (DT the) (NN street)) "
        "(SBAR (IN because) (S (NP (PRP it)) (VP (VBD was) (ADJP (RB too) (JJ tired))))))) (. .))"
    )


PATTERNS = {  # phenomenon: what its German must contain
    "negation with kein": r"\b[Kk]ein(e|en|em|er)?\b",
    "negation with nicht": r"\bnicht\b",
    "because clause": r", weil\b",
    "that clause": r", dass\b",
    "when clause": r"\b([Ww]enn|[Aa]ls)\b",
    "relative clause": r", (der|die|das|den|dem|denen)\b",
    "contraction": r"\b([Ii]m|[Ii]ns|[Zz]um|[Zz]ur)\b",
    "question": r"\?$",
    "coordination": r"\bund\b",
    "perfect with haben": r"\b(hat|haben|Hat|Haben)\b",
    "perfect with sein": r"\b(ist|sind|Ist|Sind)\b",
    "possessive": r"\b(sein|ihr|unser)(e|en|em|er)?\b",
}


@pytest.mark.parametrize("phenomenon", PATTERNS)
def test_phenomenon_is_visible_and_not_rare(corpus: dict[str, SentencePair], phenomenon: str) -> None:
    tagged = [pair for pair in corpus.values() if phenomenon in pair.phenomena]
    assert len(tagged) > 0.02 * len(corpus)
    assert all(re.search(PATTERNS[phenomenon], pair.target) for pair in tagged)


EXACT = ["negation with nicht", "negation with kein", "because clause", "that clause", "question"]


@pytest.mark.parametrize("phenomenon", EXACT)
def test_phenomenon_is_tagged_wherever_it_is(corpus: dict[str, SentencePair], phenomenon: str) -> None:
    visible = [pair for pair in corpus.values() if re.search(PATTERNS[phenomenon], pair.target)]
    assert all(phenomenon in pair.phenomena for pair in visible)


def test_every_pair_is_well_formed(corpus: dict[str, SentencePair]) -> None:
    for pair in corpus.values():
        source, target = words(pair.source), words(pair.target)
        assert 4 <= sum(token.isalpha() for token in source) <= 22
        assert re.findall(r" ([^\s()]+)\)", pair.tree) == source
        depth = 0
        for position, mark in enumerate(pair.tree):
            depth += (mark == "(") - (mark == ")")
            assert depth > 0 or position == len(pair.tree) - 1
        assert depth == 0
        assert all(0 <= i < len(source) and 0 <= j < len(target) for i, j in pair.alignment)
        assert {i for i, _ in pair.alignment} == set(range(len(source)))
        assert {j for j, token in enumerate(target) if token != ","} <= {j for _, j in pair.alignment}
        assert pair.alignment == tuple(sorted(set(pair.alignment)))
        assert pair.phenomena == tuple(sorted(set(pair.phenomena)))
        assert pair.source[0].isupper()
        assert pair.target[0].isupper()
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", pair.source)
        assert not re.search(r" [,.?]|,,|\b([Ii]n dem|[Ii]n das|[Zz]u dem|[Zz]u der)\b", pair.target)


def test_pronouns_have_the_gender_of_their_antecedents(corpus: dict[str, SentencePair]) -> None:
    names = {"Paul": "m", "Peter": "m", "Anna": "f", "Maria": "f"}
    gender = {noun.english: noun.gender for noun in NOUN_ENTRIES}
    gender |= {noun.plurals[0]: "p" for noun in NOUN_ENTRIES}
    gender |= {noun.capitalize(): of for noun, of in gender.items()} | names
    personal = {(row[4 + k], row[3]) for row in PRONOUN_ENTRIES.values() for k in range(3)}
    stems = {(row[7], row[3]) for row in PRONOUN_ENTRIES.values()}
    seen = set()
    for pair in corpus.values():
        source, target = words(pair.source), words(pair.target)
        for at, noun_at in pair.antecedents:
            (german,) = (target[j].lower() for i, j in pair.alignment if i == at)
            of = gender[source[noun_at]]
            possessive = source[at].lower() in ("his", "its", "their") or f"(PRP$ {source[at]})" in pair.tree
            if possessive and (german, of) not in personal:
                assert any(re.fullmatch(f"{stem}(e|en|em|er)?", german) and of == g for stem, g in stems), pair
            else:
                assert (german, of) in personal, pair
            seen.add((source[at].lower(), of))
    assert {("it", "m"), ("it", "f"), ("it", "n"), ("its", "f"), ("its", "n"), ("he", "m"), ("she", "f")} <= seen


def test_one_translation_and_disjoint_splits() -> None:
    sources = [pair.source for name in SPLITS for pair in embedded_split(name)]
    assert {name: len(embedded_split(name)) for name in SPLITS} == {"train": 40_000, "valid": 500, "test": 1_000}
    assert len(sources) == len(set(sources))


def test_one_translation_beyond_the_splits(corpus: dict[str, SentencePair]) -> None:
    """Sentences drawn again, under another seed: whatever is repeated has the same translation."""
    random, repeated = Random(7), 0
    known = {source: pair.target for source, pair in corpus.items()}
    for _ in range(20_000):
        pair = derive(Draw(random))
        repeated += pair.source in known
        assert known.setdefault(pair.source, pair.target) == pair.target
    assert repeated > 1_000


def test_be_is_the_copula() -> None:
    assert COPULA.english[0] == "be"
    assert bracket("NP").english == ["(NP", ")"]


def test_unknown_split_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="train, valid, test"):
        embedded_split("dev")


def test_checksums_stand_in_the_datasheet() -> None:
    datasheet = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    for name in SPLITS:
        assert re.search(rf"\| {name} \|.*`{split_checksum(name)}`", datasheet)


def test_the_corpus_does_not_depend_on_the_hash_seed() -> None:
    code = "from annotated.grammar import split_checksum; print(split_checksum('valid'), split_checksum('test'))"
    outputs = []
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        outputs.append(run.stdout.split())
    assert outputs[0] == outputs[1] == [split_checksum("valid"), split_checksum("test")]
