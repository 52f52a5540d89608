"""The embedded corpus: paradigms written out by hand, pairs drawn anew, and the checksums of its splits."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from annotated.base.corpus import SentencePair
from annotated.text.grammar.clauses import fitting_verbs, german_side, verb_group
from annotated.text.grammar.phrases import PRONOUNS, Word, pronoun
from annotated.text.grammar.sentences import derive, german_words
from annotated.text.grammar.splits import SPLITS, canonical_text, embedded_split, read_canonical, split_checksum
from annotated.text.grammar.words import (
    ADJECTIVE_ENTRIES,
    CASES,
    GENDERS,
    NAME_ENTRIES,
    NOUN_ENTRIES,
    VERB_ENTRIES,
    Draw,
    adjective_form,
    determiner_form,
    words,
)
from tools.corpus import known_words

ROOT = Path(__file__).resolve().parents[1]
SMALL = [name for name in SPLITS if name != "train"]

# Rows are nominative, accusative, dative, genitive; columns masculine, feminine, neuter, plural.
DETERMINER_TABLES = {
    "d": "der die das die | den die das die | dem der dem den | des der des der",
    "dies": "dieser diese dieses diese | diesen diese dieses diese | diesem dieser diesem diesen "
    "| dieses dieser dieses dieser",
    "kein": "kein keine kein keine | keinen keine kein keine | keinem keiner keinem keinen "
    "| keines keiner keines keiner",
    "unser": "unser unsere unser unsere | unseren unsere unser unsere | unserem unserer unserem unseren "
    "| unseres unserer unseres unserer",
    "zwei": "zwei zwei zwei zwei | zwei zwei zwei zwei | zwei zwei zwei zwei | zwei zwei zwei zwei",
}


ADJECTIVE_TABLES = {
    "weak": "alte alte alte alten | alten alte alte alten | alten alten alten alten | alten alten alten alten",
    "mixed": "alter alte altes alten | alten alte altes alten | alten alten alten alten | alten alten alten alten",
    "strong": "alter alte altes alte | alten alte altes alte | altem alter altem alten | alten alter alten alter",
}


def rows(table: str) -> list[list[str]]:
    return [row.split() for row in table.split("|")]


def test_determiners_and_adjectives_have_their_paradigms() -> None:
    for stem, table in DETERMINER_TABLES.items():
        assert [[determiner_form(stem, gender, case) for gender in GENDERS] for case in CASES] == rows(table)
    for declension, table in ADJECTIVE_TABLES.items():
        forms = [[adjective_form("alt", declension, gender, case) for gender in GENDERS] for case in CASES]
        assert forms == rows(table)
    for stem in ("viel", "einig", "all"):
        assert [determiner_form(stem, "p", case) for case in CASES] == [
            stem + ending for ending in ("e", "e", "en", "er")
        ]
    assert [determiner_form("jed", gender, "accusative") for gender in "mfn"] == ["jeden", "jede", "jedes"]
    assert adjective_form(ADJECTIVE_ENTRIES["tired"].stem, "mixed", "m", "nominative") == "müder"  # keeps one e


NOUN_TABLES = """
man    Mann Mann Mann Mannes             | Männer Männer Männern Männer
woman  Frau Frau Frau Frau               | Frauen Frauen Frauen Frauen
boy    Junge Jungen Jungen Jungen        | Jungen Jungen Jungen Jungen
bear   Bär Bären Bären Bären             | Bären Bären Bären Bären
neighbour Nachbar Nachbarn Nachbarn Nachbarn | Nachbarn Nachbarn Nachbarn Nachbarn
girl   Mädchen Mädchen Mädchen Mädchens  | Mädchen Mädchen Mädchen Mädchen
teacher Lehrer Lehrer Lehrer Lehrers     | Lehrer Lehrer Lehrern Lehrer
queen  Königin Königin Königin Königin   | Königinnen Königinnen Königinnen Königinnen
car    Auto Auto Auto Autos              | Autos Autos Autos Autos
river  Fluss Fluss Fluss Flusses         | Flüsse Flüsse Flüssen Flüsse
weight Gewicht Gewicht Gewicht Gewichts  | Gewichte Gewichte Gewichten Gewichte
coconut Kokosnuss Kokosnuss Kokosnuss Kokosnuss | Kokosnüsse Kokosnüsse Kokosnüssen Kokosnüsse
"""


@pytest.mark.parametrize("line", NOUN_TABLES.strip().splitlines(), ids=lambda line: line.split()[0])
def test_noun_paradigm(line: str) -> None:
    singular, plural = (part.split() for part in line.split("|"))
    noun = next(noun for noun in NOUN_ENTRIES if noun.english == singular[0])
    assert [noun.german_form(False, case) for case in CASES] == singular[1:]
    assert [noun.german_form(True, case) for case in CASES] == plural


@pytest.mark.parametrize(
    ("infinitive", "forms"),
    [
        ("sein", "ist sind bin war waren war"),
        ("wissen", "weiß wissen weiß wusste wussten wusste"),
        ("lesen", "liest lesen lese las lasen las"),
        ("arbeiten", "arbeitet arbeiten arbeite arbeitete arbeiteten arbeitete"),
        ("laden", "lädt laden lade lud luden lud"),
        ("fressen", "frisst fressen fresse fraß fraßen fraß"),
    ],
)
def test_finite_forms(infinitive: str, forms: str) -> None:
    verb = next(verb for verb in VERB_ENTRIES if verb.german[0] == infinitive)
    built = [verb.german_finite(tense, agreement) for tense in ("present", "past") for agreement in "sp1"]
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
    "separable, negated": ("greifen", "past", True, "main", "er griff nicht an"),
    "modal": ("schlafen", "must", False, "subordinate", "er schlafen muss"),
    "reflexive": ("beeilen", "past", False, "main", "er beeilte sich"),
    "reflexive, inverted": ("beeilen", "present", False, "inverted", "beeilt er sich"),
    "passive": ("fangen", "present passive", False, "main", "er wird gefangen"),
    "passive, past": ("angreifen", "past passive", True, "subordinate", "er nicht angegriffen wurde"),
    "passive with a modal": ("fangen", "could passive", False, "main", "er konnte gefangen werden"),
}


@pytest.mark.parametrize("name", GERMAN)
def test_word_order_of_small_derivations(name: str) -> None:
    infinitive, tense, negated, order, expected = GERMAN[name]
    draw = Draw(Random(1))
    verb = next(verb for verb in VERB_ENTRIES if infinitive in (verb.german[0], verb.prefix + verb.german[0]))
    subject = pronoun(draw, "he", "m", "nominative")
    tense, _, voice = tense.partition(" ")
    clause = verb_group(draw, verb, subject, tense, negated, order == "question", voice == "passive")
    assert " ".join(text for text, _ in german_side(clause, order)) == expected


def test_contraction_keeps_both_links_and_commas_merge() -> None:
    preposition, article = Word("in", "IN"), Word("the", "DT")
    german = [(",", ()), ("in", (preposition,)), ("dem", (article,)), (",", ()), (".", ())]
    assert german_words(german) == [(",", ()), ("im", (preposition, article)), (".", ())]


def test_every_noun_can_be_a_subject() -> None:
    """Else a derivation would look for a verb in vain; an event is only when something happens."""
    for noun in NOUN_ENTRIES:
        assert noun.kinds == ("event",) or fitting_verbs(noun.kinds, "", "", ()), noun.english


# Pairs beyond the splits, which no checksum holds


@pytest.fixture(scope="module")
def drawn() -> list[SentencePair]:
    random = Random(7)
    return [derive(Draw(random)) for _ in range(2000)]


@pytest.mark.slow
def test_every_pair_is_well_formed(drawn: list[SentencePair]) -> None:
    for pair in drawn:
        source, target = words(pair.source), words(pair.target)
        assert re.findall(r" ([^\s()]+)\)", pair.tree) == source
        depth = 0
        for position, mark in enumerate(pair.tree):
            depth += (mark == "(") - (mark == ")")
            assert depth > 0 or position == len(pair.tree) - 1
        assert depth == 0
        assert {i for i, _ in pair.alignment} == set(range(len(source)))
        aligned = {j for _, j in pair.alignment}
        assert {j for j, token in enumerate(target) if token != ","} <= aligned <= set(range(len(target)))
        assert pair.alignment == tuple(sorted(set(pair.alignment)))
        assert pair.source[0].isupper()
        assert pair.target[0].isupper()
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", pair.source)
        assert not re.search(r" [,.?]|,,|\b([Ii]n dem|[Ii]n das|[Zz]u dem|[Zz]u der|[Vv]on dem)\b", pair.target)


@pytest.mark.slow
def test_repeated_sentences_have_one_translation(drawn: list[SentencePair]) -> None:
    known = {pair.source: pair.target for name in SPLITS if name != "train" for pair in embedded_split(name)}
    assert all(known.setdefault(pair.source, pair.target) == pair.target for pair in drawn)


@pytest.mark.slow
def test_pronouns_have_the_gender_of_their_antecedents(drawn: list[SentencePair]) -> None:
    names = {noun.english: noun.gender for noun in NAME_ENTRIES}
    gender = {noun.english: noun.gender for noun in NOUN_ENTRIES}
    gender |= {noun.plurals[0]: "p" for noun in NOUN_ENTRIES}
    gender |= {noun.capitalize(): of for noun, of in gender.items()} | names
    personal = {(row[case], row["gender"]) for row in PRONOUNS.values() for case in CASES[:3]}
    stems = {(row["german possessive"], row["gender"]) for row in PRONOUNS.values()}
    seen = set()
    for pair in drawn:
        source, target = words(pair.source), words(pair.target)
        for at, noun_at in pair.antecedents:
            (german,) = (target[j].lower() for i, j in pair.alignment if i == at)
            of = gender[source[noun_at]]
            possessive = source[at].lower() in ("his", "its", "their") or f"(PRP$ {source[at]})" in pair.tree
            if possessive and (german, of) not in personal:
                assert any(re.fullmatch(f"{stem}(e|en|em|er|es)?", german) and of == g for stem, g in stems), pair
            else:
                assert (german, of) in personal, pair
            seen.add((source[at].lower(), of))
    assert {("it", "m"), ("it", "f"), ("it", "n"), ("its", "n"), ("he", "m"), ("she", "f")} <= seen


# The splits


def test_unknown_split_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'dev'"):
        embedded_split("dev")


@pytest.mark.slow
def test_checksums_stand_in_the_datasheet() -> None:
    datasheet = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    for name in SPLITS:
        assert re.search(rf"\| {name} \|.*`{split_checksum(name)}`", datasheet)


@pytest.mark.slow
def test_the_corpus_does_not_depend_on_the_hash_seed() -> None:
    names = ["test", "long", "pronoun"]  # all rules, what makes sentences long, and those that come in pairs
    code = f"from annotated.text.grammar.splits import split_checksum as of; print(*[of(name) for name in {names}])"
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = os.environ | {"PYTHONHASHSEED": other}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.split() == [split_checksum(name) for name in names]


@pytest.mark.slow
def test_the_committed_splits_are_the_generated_ones() -> None:
    folder = ROOT / "data" / "embedded"
    assert sorted(path.stem for path in folder.glob("*.tsv")) == sorted(SMALL)
    for name in SMALL:
        text = (folder / f"{name}.tsv").read_text(encoding="utf-8")
        assert text == canonical_text(embedded_split(name)), name
        assert read_canonical(text) == embedded_split(name), name
        assert hashlib.sha256(text.encode()).hexdigest() == split_checksum(name)
    assert (folder / "words.txt").read_text(encoding="utf-8").split() == known_words()
