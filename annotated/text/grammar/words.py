"""Words and their forms, from tables, and the draw that chooses among them."""

import functools
import re
from collections.abc import Collection, Sequence
from random import Random

from annotated.text.grammar.tables import Row, read_table

__all__ = ["ADJECTIVE_ENTRIES", "Draw", "words"]


def words(text: str) -> list[str]:
    """Split a text into words and punctuation marks, as alignments and trees count them."""
    return re.findall(r"'s\b|\w+|[^\w\s]", text)


CASES = ("nominative", "accusative", "dative", "genitive")


GENDERS = ("m", "f", "n", "p")  # p is the plural, which has no gender


KINDS = [row["kind"] for row in read_table("kinds", unique="kind")]


ENDINGS = {(row["paradigm"], row["gender"]): row for row in read_table("endings", gender=GENDERS)}


STEMS = {row["stem"]: row["paradigm"] for row in read_table("stems", unique="stem")}


def determiner_form(stem: str, gender: str, case: str) -> str:
    """The form of a German determiner from its stem; gender is m, f, n or p for plural.

    >>> [determiner_form("kein", "m", case) for case in CASES]
    ['kein', 'keinen', 'keinem', 'keines']
    """
    return stem if STEMS[stem] == "none" else stem + ENDINGS[STEMS[stem], gender][case]


def adjective_form(stem: str, declension: str, gender: str, case: str) -> str:
    """The form of a German adjective before a noun; declension is weak, mixed or strong.

    >>> [adjective_form("alt", declension, "m", "nominative") for declension in ("weak", "mixed", "strong")]
    ['alte', 'alter', 'alter']
    """
    return stem + ENDINGS[declension, gender][case]


class Noun:
    """A noun; `plurals` are its English and German plural, empty for what is not counted."""

    def __init__(self, row: Row):
        self.english, self.german, self.gender = row["english"], row["german"], row["gender"]
        self.plurals = (row["plural"], row["german plural"])
        self.kinds = tuple(row["kinds"].split())
        self.weak = row["declension"] == "weak"  # der Bär, den Bären

    def german_form(self, plural: bool, case: str) -> str:
        """The German form: dative plurals end in -n, genitives of masculine and neuter nouns in -s or -es.

        >>> [noun.german_form(False, "genitive") for noun in NOUN_ENTRIES if noun.english in ("dog", "cat", "bear")]
        ['Hundes', 'Katze', 'Bären']
        """
        if plural:
            return self.plurals[1] + ("n" if case == "dative" and self.plurals[1][-1] not in "ns" else "")
        if self.weak:
            return self.german if case == "nominative" else self.plurals[1]
        if case != "genitive" or self.gender == "f":
            return self.german
        vowels, end = re.findall("[aeiouyäöü]+", self.german.lower()), self.german[-1]
        short = len(vowels) == 1 and end not in "aeiouäöü" and self.german[-2:] not in ("er", "en")
        return self.german + ("es" if (short and self.plurals[1][-1:] != "s") or end in "sßzx" else "s")


CHECKS: dict[str, Collection[str]] = {"gender": "mfn", "declension": ("weak",), "kinds": KINDS}


NOUN_ENTRIES = [Noun(row) for row in read_table("nouns", unique="german", **CHECKS)]


NAME_ENTRIES = [Noun(row) for row in read_table("names", unique="german", **CHECKS)]


class Adjective:
    """An adjective; `stem` is its German form before an ending, `more` the English and the German comparative."""

    def __init__(self, row: Row):
        self.english, self.german, self.stem = row["english"], row["german"], row["stem"]
        self.more = (row["more"], row["german more"])
        self.kinds = tuple(row["kinds"].split())


ADJECTIVE_ENTRIES = {row["english"]: Adjective(row) for row in read_table("adjectives", unique="english", **CHECKS)}


CLASSES = {row["class"]: row for row in read_table("classes", unique="class")}


NOTES = [row["note"] for row in read_table("notes", unique="note")]


class Verb:
    """A verb: its English and German forms (infinitive, third person, past, participle), and what it goes with."""

    def __init__(self, row: Row):
        self.english = tuple(row[column] for column in ("english", "third", "past", "participle"))
        self.german = tuple(row[column] for column in ("german", "german third", "german past", "german participle"))
        self.particle, self.prefix = row["particle"], row["prefix"]  # *up* in *wake up*, *auf* in *aufmachen*
        self.auxiliary, self.reflexive = row["auxiliary"], bool(row["sich"])
        self.preposition = (row["preposition"], row["german preposition"], row["case"])
        self.frame = row["class"]
        self.subjects, self.objects = tuple(row["subjects"].split()), tuple(row["objects"].split())
        self.notes = tuple(row["notes"].split())

    @property
    def name(self) -> str:
        """The German infinitive with its prefix."""
        return self.prefix + self.german[0]

    def german_finite(self, tense: str, agreement: str) -> str:
        """The finite German form without a separable prefix; agreement is s (third person), p (plural) or 1 (I).

        >>> [COPULA.german_finite("present", agreement) for agreement in "sp1"]
        ['ist', 'sind', 'bin']
        """
        infinitive, third, past = self.german[:3]
        if tense == "past":
            return past if agreement != "p" else past + ("n" if past.endswith("e") else "en")
        irregular = {("sein", "p"): "sind", ("sein", "1"): "bin", ("wissen", "1"): third}
        regular = {"s": third, "p": infinitive, "1": infinitive.removesuffix("n")}
        return irregular.get((infinitive, agreement), regular[agreement])


CHECKS |= {"subjects": KINDS, "objects": KINDS, "case": CASES, "auxiliary": ("haben", "sein"), "notes": NOTES}


VERB_ENTRIES = [Verb(row) for row in read_table("verbs", **CHECKS, **{"class": CLASSES})]


@functools.cache
def nouns_of(kinds: tuple[str, ...], gender: str = "") -> list[Noun]:
    """All nouns of one of these kinds, and of a gender if one is given."""
    fitting = [noun for noun in NOUN_ENTRIES if any(kind in kinds for kind in noun.kinds)]
    return [noun for noun in fitting if gender in ("", noun.gender)]


@functools.cache
def adjectives_of(kinds: tuple[str, ...]) -> list[Adjective]:
    """The adjectives that go with nouns of these kinds."""
    return [adjective for adjective in ADJECTIVE_ENTRIES.values() if set(kinds) & set(adjective.kinds)]


@functools.cache
def verbs_of(frame: str, subject: tuple[str, ...] = (), target: tuple[str, ...] = ()) -> list[Verb]:
    """The verbs of a class that allow a subject (and an object) of one of these kinds; no kinds, no condition."""
    allowed = [verb for verb in VERB_ENTRIES if verb.frame == frame]
    allowed = [verb for verb in allowed if not subject or set(subject) & set(verb.subjects)]
    return [verb for verb in allowed if not target or set(target) & set(verb.objects)]


COPULA = verbs_of("copula")[0]


class Draw:
    """Random choices, and notes of what they were; equal seeds make equal choices."""

    def __init__(self, random: Random, richness: float = 1.0):
        self.random = random.random
        self.richness = richness  # how often optional parts are added
        self.phenomena: set[str] = set()  # the grammar that was used
        self.uses: list[tuple[str, str]] = []  # (construction, German word)
        self.used: list[Noun | Adjective | Verb] = []  # a sentence uses a word once
        self.clauses = 0  # begun so far
        self.barred: set[str] = set()  # German determiners, and roles of adverbials, that would not go with a clause

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random() < probability

    def option(self, probability: float) -> bool:
        """True with this probability, which grows with `richness`."""
        return self.random() < probability * self.richness

    def pick(self, options: Sequence):
        """One of the options, all equally likely."""
        return options[int(self.random() * len(options))]

    def fresh(self, options: Sequence):
        """One of the options that the sentence does not have yet."""
        said = [word.german for word in self.used]  # *carry* and *support* are both *tragen*
        option = self.pick([option for option in options if option.german not in said] or options)
        self.used.append(option)
        return option

    @property
    def denied(self) -> bool:
        """Whether the sentence has a *no* already."""
        return "negation with kein" in self.phenomena


MODALS = ("can", "could", "will", "should", "must")
