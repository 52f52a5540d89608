"""The embedded corpus: English-German sentence pairs from a synchronous grammar."""

import functools
import hashlib
import itertools
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from annotated.base.corpus import SentencePair
from annotated.text.grammar.tables import Row, read_table

__all__ = [
    "ADJECTIVE_ENTRIES",
    "Draw",
    "LIMIT",
    "LONGEST",
    "SPLITS",
    "derive",
    "detokenise",
    "embedded_split",
    "words",
]


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


@dataclass(eq=False)
class Word:
    """An English word with its part of speech; `antecedent` is the noun that a pronoun refers to."""

    text: str
    tag: str
    antecedent: "Word | None" = None


German = list[tuple[str, tuple[Word, ...]]]  # German words, each with the English words that it translates


@dataclass(eq=False)
class Phrase:
    """A phrase in both languages: English words and brackets; German words with the English ones they translate."""

    english: list[Word | str] = field(default_factory=list)
    german: German = field(default_factory=list)
    head: Word | None = None  # the noun that a pronoun or possessive points to
    gender: str = ""  # m, f, n, p for plural, or 1 for I
    pronoun: str = ""  # the English pronoun that can stand for it, or that it is
    kinds: tuple[str, ...] = ()
    is_pronoun: bool = False
    bare: bool = False  # without article, and no name

    @property
    def agreement(self) -> str:
        """What a verb agrees with: s, p or 1."""
        return self.gender if self.gender in ("p", "1") else "s"


def aligned(english: str, german: str, tags: str) -> Phrase:
    """Words and their translations, one by one; where their numbers differ, each German word translates them all."""
    if " " not in english + german:
        word = Word(english, tags)
        return Phrase([word], [(german, (word,))])
    texts, parts, targets = english.split(), tags.split(), german.split()
    items = [Word(text, parts[min(index, len(parts) - 1)]) for index, text in enumerate(texts)]
    groups = [(item,) for item in items] if len(targets) == len(items) else [tuple(items)] * len(targets)
    return Phrase(list(items), list(zip(targets, groups, strict=True)))


def bracket(label: str, *parts: Phrase) -> Phrase:
    """The parts one after the other on both sides, under one node of the tree."""
    english = [f"({label}", *(item for part in parts for item in part.english), ")"]
    return Phrase(english, [item for part in parts for item in part.german])


def commas(phrase: Phrase) -> Phrase:
    """The phrase between German commas; those that meet other marks are dropped at the end."""
    return replace(phrase, german=[(",", ()), *phrase.german, (",", ())])


def noun_phrase(
    draw: Draw,
    case: str,
    kinds: tuple[str, ...],
    owner: Phrase | None = None,
    *,
    definite: bool = False,
    allow_no: bool = False,
    names: bool = True,
    noun: Noun | None = None,
    plain: bool = False,
    avoid: str = "",
) -> Phrase:
    """A noun phrase in a German case: what stands before the noun, perhaps an adjective, the noun, perhaps a genitive.

    `owner` may be named by a possessive, and `names` allows names and owners in the genitive. A given noun is singular;
    `plain` is without adjective. A gender to `avoid` is that of a singular noun that could be misread.

    Example: The clever girl finds a long letter. | Das kluge Mädchen findet einen langen Brief.
    """
    draw.phenomena.add(case)
    if noun is None and names and case != "genitive" and "person" in kinds and draw.chance(0.2):
        return proper_name(draw)
    plural = noun is None and draw.chance(0.25)
    options = nouns_of(kinds) if plural or not avoid else [noun for noun in nouns_of(kinds) if noun.gender != avoid]
    noun = noun or draw.fresh(options)
    plural = plural and bool(noun.plurals[0])
    gender = "p" if plural else noun.gender
    owning = "" if plain or (plural and "parent" in noun.kinds) else "any" if names else "possessive"
    before, declension, after = specifier(draw, noun, gender, case, owner, definite, allow_no, owning)
    middle = Phrase() if plain else attribute(draw, noun, declension, gender, case)
    head = Word(noun.plurals[0] if plural else noun.english, "NNS" if plural else "NN")
    note_noun(draw, noun, plural, case)
    english = ["(NP", *before.english, *middle.english, head, ")"]
    english = ["(NP", *english, *after.english, ")"] if after.english else english
    german = [*before.german, *middle.german, (noun.german_form(plural, case), (head,)), *after.german]
    return Phrase(english, german, head, gender, pronoun_for(noun, plural), noun.kinds, bare=not before.german)


GENDER_NAMES = {"m": "masculine", "f": "feminine", "n": "neuter", "p": "plural"}


def note_noun(draw: Draw, noun: Noun, plural: bool, case: str) -> None:
    """Note the phenomena of a noun: its gender or the class of its plural, and a weak masculine."""
    draw.phenomena.add(GENDER_NAMES["p" if plural else noun.gender])
    draw.uses.append((case, noun.german))
    if noun.weak and case != "nominative" and not plural:
        draw.phenomena.add("weak noun")
    if plural:
        form = noun.plurals[1]
        ending = "" if len(form) == len(noun.german) else next(e for e in ("er", "n", "s", "e") if form.endswith(e))
        draw.phenomena.add(f"plural in -{ending.replace('n', '(e)n')}" if ending else "plural without ending")


def proper_name(draw: Draw) -> Phrase:
    """A name, which is the same in every case but the genitive. Example: Paul greets Anna. | Paul grüßt Anna."""
    noun = draw.fresh(NAME_ENTRIES)
    head = Word(noun.english, "NNP")
    draw.phenomena.add("name")
    return Phrase(["(NP", head, ")"], [(noun.german, (head,))], head, noun.gender, pronoun_for(noun, False), noun.kinds)


OWNERS = read_table("owners", owner=KINDS, kinds=KINDS, possessive=("yes",), genitive=("yes",))


@functools.cache
def owned(kinds: tuple[str, ...], owner: tuple[str, ...], how: str) -> bool:
    """Whether these kinds may own things of those, expressed by a possessive or a genitive."""
    return any(row[how] and row["owner"] in owner and set(row["kinds"].split()) & set(kinds) for row in OWNERS)


def specifier(
    draw: Draw, noun: Noun, gender: str, case: str, owner: Phrase | None, definite: bool, allow_no: bool, owning: str
) -> tuple[Phrase, str, Phrase]:
    """What stands before the adjective, the declension that it calls for, and a genitive after the noun.

    `owning` is what may express an owner: "any" phrase, a "possessive" of `owner` only, or nothing.
    """
    young = owner and "child" in owner.kinds and "child" in noun.kinds
    if owner and owning and not young and draw.chance(0.5) and owned(noun.kinds, owner.kinds, "possessive"):
        return possessive(draw, owner.pronoun, owner.gender, owner.head, gender, case), "mixed", Phrase()
    if "kin" in noun.kinds and gender != "p" and owning == "any" and draw.chance(0.3):
        return possessive(draw, *draw.pick((("I", "1"), ("we", "p"))), None, gender, case), "mixed", Phrase()
    adult = "adult" if "child" in noun.kinds else "person"  # a girl has no daughter
    owners = [kind for kind in ("person", "building") if owned(noun.kinds, (kind,), "genitive")]
    if owners and owning == "any" and draw.option(0.1):
        return genitive(draw, adult if owners[0] == "person" else owners[0], gender, case)
    row = determiner(draw, noun, gender == "p", definite, allow_no)
    return article(draw, row, gender, case), row["declension"], Phrase()


DETERMINERS = read_table(
    "determiners", german=STEMS, declension=("weak", "mixed", "strong"), numbers=("one", "many", "mass")
)
QUANTIFIERS = {row["german"] for row in DETERMINERS if row["quantifier"]}  # whose negation leaves open what is denied
THE = next(row for row in DETERMINERS if row["german"] == "d")


def determiner(draw: Draw, noun: Noun, plural: bool, definite: bool, allow_no: bool) -> Row:
    """The entry of a determiner that suits the noun; *no* comes once a sentence, and no *every* or *some* after it.

    Example: This boy drinks no milk. | Dieser Junge trinkt keine Milch.
    """
    number = "mass" if not noun.plurals[0] else "many" if plural else "one"
    if definite or draw.chance(0.4) or ("kin" in noun.kinds and not plural):
        return THE
    barred = draw.barred | (set() if allow_no else {"kein"}) | (QUANTIFIERS if draw.denied else set())
    barred |= {"", "viel", "einig"} if "kin" in noun.kinds else set()
    row = draw.pick(determiners(number, frozenset(barred)))
    draw.barred |= {"kein"} if row["german"] in QUANTIFIERS else set()
    return row


@functools.cache
def determiners(number: str, barred: frozenset[str]) -> list[Row]:
    """The entries for one, many or a mass, without some German stems."""
    return [row for row in DETERMINERS if number in row["numbers"].split() and row["german"] not in barred]


def article(draw: Draw, row: Row, gender: str, case: str) -> Phrase:
    """A determiner on both sides, or none. Example: Ten dogs sleep. | Zehn Hunde schlafen."""
    english = row["plural" if gender == "p" else "english"]
    if not english:
        return Phrase()
    draw.phenomena |= {"negation with kein"} if english == "no" else {"number"} if row["tag"] == "CD" else set()
    return aligned(english, determiner_form(row["german"], gender, case), row["tag"])


PRONOUNS = {(row["subject"], row["gender"]): row for row in read_table("pronouns", gender=(*GENDERS, "1"))}


def possessive(draw: Draw, english: str, owner: str, head: Word | None, gender: str, case: str) -> Phrase:
    """His, her, its, our, their, my: the German stem depends on the owner, the ending on what is owned.

    Example: The cow eats its carrot. | Die Kuh frisst ihre Karotte.
    """
    row = PRONOUNS[english, owner]
    word, stem = Word(row["possessive"], "PRP$", head), row["german possessive"]
    draw.phenomena |= {"possessive"} | ({f"its as {stem}"} if row["possessive"] == "its" else set())
    return Phrase([word], [(determiner_form(stem, gender, case), (word,))])


def genitive(draw: Draw, kind: str, gender: str, case: str) -> tuple[Phrase, str, Phrase]:
    """An owner: *Anna's car*, *the teacher's car*, *the door of the house*.

    Example: The baker's son finds Anna's key. | Der Sohn des Bäckers findet Annas Schlüssel.
    """
    draw.phenomena |= {"genitive"}
    mark = Word("'s", "POS")
    if kind != "building" and "f" not in draw.barred and draw.chance(0.4):
        name = proper_name(draw)
        german = [(name.german[0][0] + "s", (name.head, mark))]
        return Phrase(["(NP", name.head, mark, ")"], german), "strong", Phrase()
    the = aligned("the", determiner_form("d", gender, case), "DT")
    options = [noun for noun in nouns_of((kind,)) if noun.gender not in draw.barred]  # *der Freund der Frau das Buch*
    owner = noun_phrase(draw, "genitive", (kind,), definite=True, plain=True, noun=draw.fresh(options))
    if kind == "building":
        of = Word("of", "IN")
        first, *rest = owner.german
        owner.german = [(first[0], (of, *first[1])), *rest]
        return the, "weak", replace(owner, english=["(PP", of, *owner.english, ")"])
    english = [*owner.english[:-1], mark, ")"]
    return Phrase(english, [(the.german[0][0], (mark,))]), "weak", Phrase([], owner.german)


def pronoun(draw: Draw, english: str, gender: str, case: str, head: Word | None = None) -> Phrase:
    """A pronoun; `head` is the noun that it refers to. Example: She helps him. | Sie hilft ihm."""
    row = PRONOUNS[english, gender]
    word = Word(row["subject" if case == "nominative" else "object"], "PRP", head)
    draw.phenomena |= {case, "pronoun"} | ({"pronoun with antecedent"} if head else set())
    return Phrase(["(NP", word, ")"], [(row[case], (word,))], head, gender, english, ("person",), True)


def pronoun_for(noun: Noun, plural: bool) -> str:
    """The English pronoun that stands for a noun; none for a child or a girl, where German and English differ."""
    if plural:
        return "they"
    return {"m": "he", "f": "she", "n": ""}[noun.gender] if "person" in noun.kinds else "it"


def refer(draw: Draw, phrase: Phrase, case: str) -> Phrase:
    """The pronoun for a phrase. Example: He buys a book and reads it. | Er kauft ein Buch und liest es."""
    return replace(pronoun(draw, phrase.pronoun, phrase.gender, case, phrase.head), kinds=phrase.kinds)


def attribute(draw: Draw, noun: Noun, declension: str, gender: str, case: str) -> Phrase:
    """An adjective, or none. Example: A hungry bear sees the old church. | Ein hungriger Bär sieht die alte Kirche."""
    options = adjectives_of(noun.kinds)
    if not options or not draw.option(0.22):
        return Phrase()
    adjective = draw.fresh(options)
    draw.phenomena.add(f"{declension} adjective")
    return aligned(adjective.english, adjective_form(adjective.stem, declension, gender, case), "JJ")


def predicate(draw: Draw, adjective: Adjective, degrees: tuple[str, ...]) -> Phrase:
    """An adjective after *be*, which has no ending, perhaps with an adverb of degree.

    Example: The rooms were too dark. | Die Zimmer waren zu dunkel.
    """
    adverb = draw.pick(degrees if adjective.more[0] or len(degrees) == 1 else ("",))
    before = [aligned(*adverb.split(), "RB")] if adverb else []
    draw.phenomena.add("predicate adjective")
    return bracket("ADJP", *before, aligned(adjective.english, adjective.german, "JJ"))


def comparative(draw: Draw, adjective: Adjective, than: Phrase | None = None, equal: bool = False) -> Phrase:
    """*bigger than the dog* or, of equals, *as big as the dog*.

    Example: The church is taller than the tower. | Die Kirche ist höher als der Turm.
    """
    draw.phenomena.add("comparison")
    draw.uses.append(("comparative", adjective.german))
    if equal:
        head = bracket("ADJP", aligned("as", "so", "RB"), aligned(adjective.english, adjective.german, "JJ"))
    else:
        head = bracket("ADJP", aligned(*adjective.more, "RBR JJ" if " " in adjective.more[0] else "JJR"))
    if than is None:
        return head
    link = aligned("as", "wie", "IN") if equal else aligned("than", "als", "IN")
    return bracket("ADJP", head, bracket("PP", link, than))


PREPOSITIONS = read_table("prepositions", case=CASES, kinds=KINDS)
ADVERBS = read_table("adverbs", tenses=("present", "past", "perfect", "modal"))


def prepositional(draw: Draw, role: str, definite: bool = False, kinds: tuple[str, ...] = ()) -> Phrase:
    """A prepositional phrase; two-way prepositions take the dative for a place, the accusative for a direction.

    Example: The cat runs into the kitchen. | Die Katze läuft in die Küche.
    """
    row, allowed = draw.pick(prepositions(role, kinds))
    case = row["case"]
    if row["two way"]:
        draw.phenomena.add("two-way preposition, place" if case == "dative" else "two-way preposition, direction")
    definite = definite or case == "genitive" or draw.chance(0.6)
    noun = None if row["english"] in ("with", "without", "for") else draw.fresh(nouns_of(allowed))
    barred, draw.barred = draw.barred, draw.barred | QUANTIFIERS | {"kein"}  # one stone is not put on every shelf
    part = noun_phrase(draw, case, allowed, definite=definite, plain=case == "genitive", noun=noun)
    draw.barred = barred
    return bracket("PP", aligned(row["english"], row["german"], row["tags"]), part)


@functools.cache
def prepositions(role: str, kinds: tuple[str, ...]) -> list[tuple[Row, tuple[str, ...]]]:
    """The prepositions of a role, each with the kinds of its nouns: those that are allowed, or all."""
    rows = [row for row in PREPOSITIONS if row["role"] == role]
    fitting = [(row, tuple(kind for kind in row["kinds"].split() if not kinds or kind in kinds)) for row in rows]
    return [(row, allowed) for row, allowed in fitting if allowed]


def adverb(draw: Draw, roles: tuple[str, ...], tense: str) -> Phrase:
    """An adverb that suits the tense. Example: He runs slowly into a room. | Er läuft langsam in ein Zimmer."""
    row = draw.pick(adverbs(roles, group_of(tense)))
    return bracket(row["label"], aligned(row["english"], row["german"], row["tags"]))


def group_of(tense: str) -> str:
    """What an adverb of time goes with: present, past, perfect or modal."""
    return {"could": "past"}.get(tense, "modal" if tense in MODALS else tense)


@functools.cache
def adverbs(roles: tuple[str, ...], tense: str) -> list[Row]:
    """The adverbs of these roles that go with a tense."""
    return [row for row in ADVERBS if row["role"] in roles and tense in (row["tenses"] or tense).split()]


AUXILIARIES = {(row["english"], row["german"]): row for row in read_table("auxiliaries")}
FORMS = {row["english"]: row for row in AUXILIARIES.values()}
MODALS = ("can", "could", "will", "should", "must")
PARTICLES = {row["particle"]: row["tag"] for row in read_table("particles", unique="particle")}


def tag_of(tense: str, agreement: str) -> str:
    """The part of speech of a finite English verb."""
    return "VBD" if tense == "past" else "VBZ" if agreement == "s" else "VBP"


def simple_tense(verb: Verb, tense: str, agreement: str, support: bool) -> tuple[list[Word], list[Word]]:
    """English auxiliary and main verb of the present or past; negation and questions need a form of do.

    Example: Does Peter cook the potato? | Kocht Peter die Kartoffel?
    """
    base, third, past = verb.english[:3]
    tag = tag_of(tense, agreement)
    if base == "be":
        return [Word(FORMS[f"be {tense}"][agreement], tag)], []
    if support:
        return [Word(FORMS[f"do {tense}"][agreement], tag)], [Word(base, "VB")]
    return [], [Word(past if tense == "past" else third if agreement == "s" else base, tag)]


ORDERS = {
    row["clause"]: (row["label"], row["english"].split(), row["german"].split())
    for row in read_table("orders", unique="clause")
}
MIDDLE = ORDERS["middle"][2]
EARLY = ("mich", "mir", "uns", "ihn", "ihm", "ihr", "ihnen", "sich")  # could not be taken for the subject


@dataclass(eq=False)
class Clause:
    """The parts of a clause, in no order yet."""

    subject: Phrase
    auxiliary: list[Word]
    negation: list[Word]
    verb: list[Word]
    finite: tuple[str, tuple[Word, ...]]
    end: German
    prefixed: bool  # `end` is a separable prefix
    tense: str
    parts: list[tuple[str, Phrase]] = field(default_factory=list)  # complements and adverbials, in English order
    tail: Phrase = field(default_factory=Phrase)

    def german_parts(self, *slots: str) -> German:
        """The German words of the parts in these slots, in the order of the slots."""
        found = [(slots.index(name), phrase) for name, phrase in self.parts if name in slots]
        return [item for _, phrase in sorted(found, key=lambda place: place[0]) for item in phrase.german]

    def phrase(self, order: str) -> Phrase:
        """Both sides."""
        return Phrase(english_side(self, order), german_side(self, order))


def english_side(clause: Clause, order: str) -> list[Word | str]:
    """The English words of a clause and the brackets of its tree."""
    rest = [*clause.verb, *(item for _, part in clause.parts for item in part.english), *clause.tail.english]
    label, fields, _ = ORDERS[order]
    inverted = "auxiliary" in fields
    if clause.auxiliary and clause.verb:
        rest = ["(VP", *rest, ")"]
    head = [*([] if inverted else clause.auxiliary), *clause.negation]
    predicate = rest if inverted else ["(VP", *head, *rest, ")"]
    by_name = {"subject": clause.subject.english, "auxiliary": clause.auxiliary, "predicate": predicate}
    return [f"({label}", *(item for name in fields for item in by_name[name]), ")"]


def german_side(clause: Clause, order: str) -> German:
    """The German words of a clause; a separable prefix joins its verb at the end of a subordinate clause.

    Behind the finite verb or a conjunction, pronouns and, before a bare noun, the time come before the subject.

    Example: Tom knows that the boy opens the window. | Tom weiß, dass der Junge das Fenster aufmacht.
    """
    finite, end = [clause.finite], clause.end
    if order == "subordinate" and clause.prefixed:
        finite, end = [(clause.end[0][0] + clause.finite[0], clause.finite[1])], []
    subject, pronouns, middle = clause.subject.german, clause.german_parts("pronoun"), MIDDLE
    if order != "main" and not clause.subject.is_pronoun:
        times = clause.german_parts("time") if clause.subject.bare else []
        subject, middle = [*times, *subject], [slot for slot in MIDDLE if not times or slot != "time"]
        apart = times or not clause.subject.bare  # *uns Frauen*, *ihr Frauen* would be one phrase
        if any(text in EARLY and (apart or text not in ("uns", "ihr")) for text, _ in pronouns):
            subject, pronouns = pronouns, subject
    by_name = {"subject": subject, "finite": finite, "end": end, "tail": clause.tail.german}
    by_name |= {"pronoun": pronouns, "middle": clause.german_parts(*middle)}
    return [item for name in ORDERS[order][2] for item in by_name[name]]


def verb_group(
    draw: Draw, verb: Verb, subject: Phrase, tense: str, negated: bool, question: bool, passive: bool = False
) -> Clause:
    """A clause of a subject and the forms of a verb, without complements; a tense may be the name of a modal.

    Example: The baker will wake up tomorrow. | Der Bäcker wird morgen aufwachen.
    """
    draw.clauses += 1
    agreement, simple = subject.agreement, tense in ("present", "past") and not passive
    base, participle, ends = verb.english[0], Word(verb.english[3], "VBN"), verb.german[3]
    end: German
    if simple:
        auxiliary, main = simple_tense(verb, tense, agreement, negated or question)
        finite, end = verb.german_finite(tense, agreement), [(verb.prefix, tuple(main))] if verb.prefix else []
    elif tense in MODALS:
        infinitive, be = Word(base, "VB"), Word("be", "VB")
        auxiliary = [Word("cannot" if negated and tense == "can" else tense, "MD")]
        main = [be, participle] if passive else [infinitive]
        finite = FORMS[f"{tense} not" if negated and f"{tense} not" in FORMS else tense][f"german {agreement}"]
        end = [(ends, (participle,)), ("werden", (be,))] if passive else [(verb.name, tuple(main))]
    else:
        helper = AUXILIARIES[f"be {tense}", "werden"] if passive else AUXILIARIES["have", verb.auxiliary]
        auxiliary, main = [Word(helper[agreement], tag_of(tense, agreement))], [participle]
        finite, end = helper[f"german {agreement}"], [(ends, (participle,))]
    particles = [Word(word, PARTICLES[word]) for word in verb.particle.split()]
    main, end = [*main, *particles], [(text, (*links, *(particles if text != "werden" else ()))) for text, links in end]
    negation = [Word("not", "RB")] if negated and auxiliary[0].text != "cannot" else []
    links = (*auxiliary, *main) if simple else tuple(auxiliary)
    clause = Clause(subject, auxiliary, negation, main, (finite, links), end, simple and bool(verb.prefix), tense)
    if negated:
        clause.parts.append(("not", Phrase([], [("nicht", tuple(negation or auxiliary))])))
    if verb.reflexive:
        clause.parts.append(("pronoun", reflexive(draw, verb, subject, main)))
    note_verb(draw, verb, tense, negated, passive)
    return clause


def reflexive(draw: Draw, verb: Verb, subject: Phrase, main: list[Word]) -> Phrase:
    """*sich* and its like, which English expresses by *himself* or not at all.

    Example: The cat washes itself because we hurry. | Die Katze wäscht sich, weil wir uns beeilen.
    """
    draw.phenomena.add("reflexive")
    plain = {"p": "they", "1": "I", "f": "she", "n": "it"}.get(subject.gender, "he")
    row = PRONOUNS.get((subject.pronoun, subject.gender)) or PRONOUNS[plain, subject.gender]
    if "self" not in verb.notes:
        return Phrase([], [(row["german reflexive"], tuple(main))])
    word = Word(row["reflexive"], "PRP")
    return Phrase(["(NP", word, ")"], [(row["german reflexive"], (word,))])


def note_verb(draw: Draw, verb: Verb, tense: str, negated: bool, passive: bool) -> None:
    """Note the phenomena of a verb group."""
    modal = tense in MODALS
    construction = "passive" if passive else "modal" if modal else tense
    tags = {
        "passive": passive, "modal": modal, "past": tense == "past", "separable verb": bool(verb.prefix),
        f"perfect with {verb.auxiliary}": tense == "perfect", "negation with nicht": negated,
    }  # fmt: skip
    draw.phenomena |= {tag for tag, shown in tags.items() if shown}
    draw.uses.append((construction, verb.name))


PEOPLE = (("he", "m"), ("she", "f"), ("they", "p"), ("we", "p"), ("I", "1"))
FIRST = PEOPLE[3:]
VERB_CLASSES = [name for name, row in CLASSES.items() for _ in range(int(row["share"]))]
DOING = [name for name in VERB_CLASSES if name not in ("resultative", "copula")]
TENSES = [row["tense"] for row in read_table("tenses", unique="tense") for _ in range(int(row["share"]))]


def past_is_visible(verb: Verb) -> bool:
    """False for 'they read', which would have two translations: such a verb is used with an auxiliary only."""
    return verb.english[0] != verb.english[2]


def tense_of(draw: Draw, verb: Verb, after: str = "") -> str:
    """A tense, or a modal verb, that suits the verb and the tense of the clause it depends on.

    Example: She must not sing. | Sie darf nicht singen.
    """
    tense = draw.pick(tenses_of(verb, after))
    if tense != "modal":
        return tense
    if "slip" in verb.notes:
        return "will"
    return draw.pick(("can", "will") if "unwilled" in verb.notes else ("can", "will", "should", "must"))


@functools.cache
def tenses_of(verb: Verb, after: str) -> list[str]:
    """The tenses that suit, each as often as it is used."""
    return [tense for tense in TENSES if suits(verb, tense, after)] or ["perfect"]


def suits(verb: Verb, tense: str, after: str = "") -> bool:
    """Whether a verb has a tense, after a clause in another one: a state has no perfect, *read* no past of its own."""
    past, modal = after in ("past", "could"), tense == "modal" or tense in MODALS
    if after and tense in TENSES and (tense == "past") != past:
        return False
    if tense in ("past", "present") and not past_is_visible(verb):
        return False
    if verb.frame in ("copula", "saying") and (modal or tense == "perfect"):
        return False
    return not ("state" in verb.notes and (tense == "perfect" or (modal and "unwilled" in verb.notes)))


def subject_for(draw: Draw, verb: Verb, definite: bool = False, allow_no: bool = False) -> Phrase:
    """A subject that suits the verb. Example: They hurry. | Sie beeilen sich."""
    draw.barred |= {"jed"} if "once" in verb.notes else set()  # not every storm destroys the house
    people = {"person", "adult", "kin", "known"} & set(verb.subjects)
    if people and verb.frame != "copula" and draw.chance(0.15):
        return pronoun(draw, *draw.pick(PEOPLE if not draw.clauses else FIRST), "nominative")
    copula = verb.frame == "copula"
    kinds = (draw.pick(verb.subjects),) if copula or len(verb.subjects) > 1 else verb.subjects
    noun = draw.fresh(nouns_of(kinds)) if "single" in verb.notes else None
    definite = definite or copula
    return noun_phrase(draw, "nominative", kinds, definite=definite, allow_no=allow_no, plain=copula, noun=noun)


def clear_subject(draw: Draw, verb: Verb, gender: str) -> Phrase | None:
    """A subject that cannot be taken for an object of this gender before it; none where the object's form is clear.

    Example: Which cat does the man find? | Welche Katze findet der Mann?
    """
    if gender == "m":
        return None
    if "person" in verb.subjects and draw.chance(0.4):
        return pronoun(draw, *draw.pick(FIRST if draw.clauses else (PEOPLE[0], *FIRST)), "nominative")
    return noun_phrase(draw, "nominative", (), noun=draw.fresh(nouns_of(verb.subjects, "m")), names=False)


def object_pronoun(draw: Draw, subject: Phrase, case: str, main: bool) -> Phrase:
    """A pronoun for somebody: not the subject, and nobody whom an earlier clause could mean.

    Outside of a main clause, *sie* beside a noun could be the subject.

    Example: The guests help us. | Die Gäste helfen uns.
    """
    allowed = PEOPLE if draw.clauses < 2 else FIRST
    first = subject.pronoun in ("we", "I")
    others = [person for person in allowed if person[0] != subject.pronoun and not (person in FIRST and first)]
    clear = main or subject.is_pronoun or case == "dative"
    others = [person for person in others if clear or person[0] not in ("she", "they")] or [("they", "p")]
    return pronoun(draw, *draw.pick(others), case)


@functools.cache
def fitting_verbs(kinds: tuple[str, ...], tense: str, after: str, avoid: tuple[str, ...]) -> list[list[Verb]]:
    """The verbs for a subject of these kinds and a tense, without notes to avoid: a list for each share of a class."""
    lists = [
        [
            verb
            for verb in verbs_of(name, kinds)
            if not set(avoid) & set(verb.notes)
            and (not tense or suits(verb, tense))
            and (past_is_visible(verb) or group_of(after) != "past")
        ]
        for name in VERB_CLASSES
    ]
    return [verbs for verbs in lists if verbs]


def make_clause(
    draw: Draw,
    *,
    subject: Phrase | None = None,
    verb: Verb | None = None,
    tense: str = "",
    negated: bool | None = None,
    question: bool = False,
    gap: str = "",
    adverbial: float = 0.25,
    after: str = "",
    plain: bool = False,
    avoid: tuple[str, ...] = (),
) -> Clause:
    """A clause; `gap` is a complement left out, `after` the tense of the clause it depends on.

    A verb is without the notes to `avoid`. A `plain` clause will have the order of a main clause, where the finite verb
    keeps apart what would else be read together: *das Bild von der Ziege*, *der Freund Paul*.

    Example: The farmer does not show Maria the car. | Der Bauer zeigt Maria das Auto nicht.
    """
    free, allow_no = subject is None and verb is None, not (question or gap or draw.denied)
    if verb is None:
        kinds = subject.kinds if subject else ()
        fitting = fitting_verbs(kinds, tense, after, avoid) or fitting_verbs(kinds, tense, after, ())
        fitting = [verbs for verbs in fitting if not set(verbs) <= set(draw.used)] or fitting
        verb = draw.fresh(draw.pick(fitting))
    allow_no = allow_no and verb.frame != "resultative"
    tense = tense or tense_of(draw, verb, after)
    tense = "perfect" if tense in ("present", "past") and not past_is_visible(verb) else tense
    negated = not question and not gap and draw.chance(0.15) if negated is None else negated
    negated = negated and tense != "perfect" and "kein" not in draw.barred
    passive = free and plain and verb.frame == "transitive" and "moves" not in verb.notes and tense != "perfect"
    if passive and draw.chance(0.3):
        return passive_clause(draw, verb, tense, negated)
    draw.barred |= set() if plain else {"f"}
    subject = subject or subject_for(draw, verb, negated, allow_no)
    result = verb_group(draw, verb, subject, tense, negated, question)
    add_complements(draw, result, verb, negated, allow_no, gap, plain)
    if allow_no and draw.denied and tense == "must":
        forbid(result)
    if not gap and draw.option(adverbial):
        add_adverbial(draw, result, verb, tense, negated or draw.denied)
    return result


def forbid(clause: Clause) -> None:
    """Turn *muss* into *darf*, which the German of *must ... no* needs: *muss kein* would mean *need not*.

    Example: Otto must open no parcel. | Otto darf kein Paket aufmachen.
    """
    clause.finite = (FORMS["must not"][f"german {clause.subject.agreement}"], clause.finite[1])


def passive_clause(draw: Draw, verb: Verb, tense: str, negated: bool) -> Clause:
    """A clause whose subject undergoes what the verb says, with an agent or, to tell it from a state, a time.

    Example: The car is repaired by the doctor. | Das Auto wird vom Arzt repariert.
    """
    subject = noun_phrase(draw, "nominative", verb.objects, definite=negated, names=False)
    tense = "can" if tense == "will" and subject.agreement == "p" else tense  # *gesehen werden werden* hurts
    result = verb_group(draw, verb, subject, tense, negated, False, passive=True)
    timeless = "state" in verb.notes or {"closed", "part"} & set(verb.objects)
    if timeless or not adverbs(("time",), group_of(tense)) or draw.chance(0.6):
        kinds = (draw.pick(verb.subjects),)
        result.parts.append(agent(draw, noun_phrase(draw, "dative", kinds, definite=negated, names=False)))
    else:
        result.parts.append(("time", adverb(draw, ("time",), tense)))
    return result


def agent(draw: Draw, phrase: Phrase) -> tuple[str, Phrase]:
    """*by* with the dative. Example: The car was sold by the king. | Das Auto wurde vom König verkauft."""
    draw.phenomena.add("dative")
    return "agent", bracket("PP", aligned("by", "von", "IN"), phrase)


RESULTS = read_table("results", kinds=KINDS, adjectives=ADJECTIVE_ENTRIES)
SLOTS = {"target": "direction", "result": "adjective"}  # the place in the middle field, where it has another name


def add_complements(
    draw: Draw, clause: Clause, verb: Verb, negated: bool, allow_no: bool, gap: str, main: bool
) -> None:
    """Add the complements of a verb, but for the gap; the subject may own one: *his*, *its*.

    Example: The woman gives her friend a pear. | Die Frau gibt ihrem Freund eine Birne.
    """
    subject = clause.subject
    clear = draw.clauses < 2 or subject.pronoun in ("I", "we")  # *sein* could be anybody's who came before
    owner = subject if clear and subject.pronoun and (subject.is_pronoun or subject.head) else None
    owner = owner if draw.chance(0.6) else None
    for number, slot in enumerate(CLASSES[verb.frame]["complements"].split()):
        if slot != gap:
            no = allow_no and not negated and not draw.denied
            part = complement(draw, slot, verb, subject, owner, negated, no, main and not number)
            owner = None if slot == "dative" and not part.is_pronoun else owner  # *einem Mann seine Tassen*
            name = part.head is not None and part.head.tag == "NNP"  # pronouns and names stand further to the front
            clause.parts.append(("pronoun" if part.is_pronoun else "name" if name else SLOTS.get(slot, slot), part))


def complement(
    draw: Draw, name: str, verb: Verb, subject: Phrase, owner: Phrase | None, negated: bool, allow_no: bool, main: bool
) -> Phrase:
    """A complement of a verb: an object, a place, a direction or an adjective.

    Example: My son will put the vase on the table. | Mein Sohn wird die Vase auf den Tisch stellen.
    """
    if name in ("place", "direction", "target"):
        return prepositional(draw, name, negated, verb.objects if name != "target" else ())
    if name == "adjective":
        degrees = ("", "", "very sehr") if "too" in draw.barred else ("", "", "very sehr", "too zu")
        return predicate(draw, draw.fresh(adjectives_of(subject.kinds or ("person",))), degrees)
    if name == "result":
        row = next(row for row in RESULTS if row["kinds"] in verb.objects)
        return comparative(draw, ADJECTIVE_ENTRIES[draw.pick(row["adjectives"].split())])
    if name == "prepositional":
        english, german, case = verb.preposition
        part = noun_phrase(draw, case, verb.objects, owner, definite=negated)
        return bracket("PP", aligned(english, german, "IN"), part)
    kinds = ("person",) if verb.frame == "ditransitive" and name == "dative" else verb.objects
    if "person" in kinds and draw.chance(0.2):
        return object_pronoun(draw, subject, name, main)
    avoid = "f" if name == "dative" and not subject.is_pronoun else ""  # *die Schwester der Tochter* is a genitive
    made = "makes" in verb.notes or verb.frame == "resultative"  # not there yet: neither cheap nor somebody's
    draw.barred |= {""} if name == "dative" or verb.frame == "resultative" else {"jed"} if made else set()
    definite = negated or (subject.pronoun == "we" and subject.is_pronoun and not main)  # *wir drei Studenten*
    noun = draw.fresh(nouns_of(kinds)) if "single" in verb.notes else None
    options = {"definite": definite, "allow_no": allow_no, "avoid": avoid, "names": main, "plain": made, "noun": noun}
    return noun_phrase(draw, name, kinds, None if made else owner, **options)


def add_adverbial(draw: Draw, clause: Clause, verb: Verb, tense: str, negated: bool) -> None:
    """Add one adverbial at the end of the clause; what is done once is not done every day, and a state has no time.

    Example: Tom cooks a sausage for the guest. | Tom kocht eine Wurst für den Gast.
    """
    general = ("manner",) if "state" in verb.notes else ("manner", "time")
    roles = [role for role in CLASSES[verb.frame]["adverbials"].split() if role in (*general, *verb.notes)]
    habit = not (negated or "once" in verb.notes or "habit" in draw.barred)
    times = ("time", *(("habit",) if habit else ()), *(("season",) if habit and "place" in verb.notes else ()))
    times = ("time",) if "dative" in CLASSES[verb.frame]["complements"] else (*times, "week")  # *jeden Tag der Tante*
    group = group_of(tense)
    roles = [role for role in roles if role not in draw.barred and (role != "time" or adverbs(times, group))]
    roles = [role for role in roles if role != "cause" or group != "modal"]
    if not roles:
        return
    role = draw.pick(roles)
    if role == "time" and "place" in verb.notes and tense != "perfect" and draw.chance(0.15):
        part = prepositional(draw, "event")
    elif role in ("time", "manner", "mood"):
        part = adverb(draw, times if role == "time" else (role,), tense)
    else:
        part = prepositional(draw, role, negated, ("room", "town") if role == "place" else ())
    before = role in ("manner", "mood")  # *runs slowly into the forest*
    clause.parts.insert(0 if before else len(clause.parts), ("manner" if before else role, part))


CONJUNCTIONS = {row["english"]: row for row in read_table("conjunctions", unique="english")}


def subordinate(draw: Draw, conjunction: str, clause: Clause, once: bool = False) -> Phrase:
    """A subordinate clause without its commas; *when* is *als* for what happened once and *wenn* otherwise.

    Example: When Tom hurried, Anna slept. | Als sich Tom beeilte, schlief Anna.
    """
    row = CONJUNCTIONS[conjunction]
    word = aligned(conjunction, row["once" if once else "german"], row["tag"])
    draw.phenomena |= {"verb-final clause", f"{conjunction} clause"}
    note_joined(draw, clause)
    return bracket("SBAR", bracket("WHADVP", word) if row["tag"] == "WRB" else word, clause.phrase("subordinate"))


def note_joined(draw: Draw, clause: Clause) -> None:
    """Note a separable verb whose prefix joins it at the end of a clause."""
    if clause.prefixed:
        draw.phenomena.add("separable verb, joined")
        draw.uses.append(("verb-final", clause.end[0][0] + clause.finite[0]))


def inner_clause(draw: Draw, after: str, nested: bool = True, **options) -> Clause:
    """A clause that depends on another, and if `nested` now and then has one that depends on it.

    Example: I know that Anna sleeps because Tom sings. | Ich weiß, dass Anna schläft, weil Tom singt.
    """
    clause = make_clause(draw, after=after, adverbial=0.1, **options)
    if nested and draw.option(0.12):
        draw.phenomena.add("nested clause")
        clause.tail = commas(subordinate(draw, "because", make_clause(draw, after=after, adverbial=0.1)))
    return clause


def inverted(draw: Draw, front: Phrase, clause: Clause, comma: bool = False) -> Phrase:
    """A main clause with something before it; in German the subject then follows the finite verb.

    Example: Yesterday the girl laughed. | Gestern lachte das Mädchen.
    """
    draw.phenomena.add("inversion")
    marks = aligned(",", ",", ",") if comma else Phrase()
    label, *rest = english_side(clause, "inverted")
    german = [*front.german, *marks.german, *german_side(clause, "inverted")]
    return Phrase([label, *front.english, *marks.english, *rest], german)


def with_relative(draw: Draw, phrase: Phrase, kind: str, tense: str = "") -> Phrase:
    """A noun phrase with a relative clause whose pronoun is the subject or the object of its clause.

    Example: I see the dog that Tom loves. | Ich sehe den Hund, den Tom liebt.
    """
    person = "person" in phrase.kinds
    if kind == "subject":
        case, english = "nominative", Word("who" if person else "that", "WP" if person else "WDT")
    else:
        dative = draw.chance(0.5) and phrase.kinds[0] in ("person", "animal")
        verbs = verbs_of("dative" if dative else "transitive", (), phrase.kinds)
        verbs = [verb for verb in verbs if past_is_visible(verb) or tense != "past"]
        said = [word.german for word in draw.used]
        verbs = [verb for verb in verbs if not {"makes", "ends"} & set(verb.notes) and verb.german not in said]
        if not verbs:
            return with_relative(draw, phrase, "subject", tense)
        verb = draw.fresh(verbs)
        case = "dative" if dative else "accusative"
        english = Word("whom" if person else "that", "WP" if person else "WDT")
    german = (ENDINGS["relative", phrase.gender][case], (english,))
    if kind == "subject":
        gap = replace(phrase, english=[], german=[german], is_pronoun=True, bare=False)
        described = any(isinstance(word, Adjective) for word in draw.used)  # no *cheap mirror that is expensive*
        avoid = ("change", "state", "trait") if described else ("change",)
        clause = make_clause(draw, subject=gap, after=tense, avoid=avoid)
    else:
        subject = clear_subject(draw, verb, phrase.gender if case == "accusative" else "m")
        clause = make_clause(draw, subject=subject, verb=verb, gap=case, after=tense)
    inner = clause.phrase("subordinate")
    if kind == "object":
        inner.german.insert(0, german)
    note_joined(draw, clause)
    draw.phenomena |= {"relative clause", f"relative clause, {case}", "verb-final clause"}
    tree = ["(NP", *phrase.english, "(SBAR", "(WHNP", english, ")", *inner.english, ")", ")"]
    return replace(phrase, english=tree, german=[*phrase.german, *commas(inner).german])


def relative(draw: Draw) -> Phrase:
    """A clause with a relative clause in it. Example: I see the boy who sings. | Ich sehe den Jungen, der singt."""
    kind, tense = draw.pick(("subject", "object")), draw.pick(("present", "present", "past"))
    draw.barred |= {"dies", "jed", "too", ""}  # nobody crosses the bridge that is too short
    if draw.chance(0.5):
        kinds = draw.pick((("person",), ("animal",), ("vehicle",)))
        subject = noun_phrase(draw, "nominative", kinds, names=False)
        subject = with_relative(draw, subject, kind, tense)
        return make_clause(draw, subject=subject, after=tense, plain=True, avoid=("change",)).phrase("main")
    verbs = [verb for verb in verbs_of("transitive") if not {"makes", "change"} & set(verb.notes)]
    verb = draw.fresh([verb for verb in verbs if suits(verb, tense)])
    main = verb_group(draw, verb, subject_for(draw, verb), tense, False, False)
    target = noun_phrase(draw, "accusative", verb.objects, names=False)
    long, size = with_relative(draw, target, kind, main.tense), len(target.german)
    main.parts.append(("accusative", replace(long, german=long.german[:size])))
    main.tail = Phrase([], long.german[size:])  # after the end of the German clause
    return main.phrase("main")


def simple(draw: Draw, after: str = "") -> Phrase:
    """A statement, after one in a given tense. Example: He opens the box. | Er macht die Kiste auf."""
    draw.phenomena.add("verb second")
    return make_clause(draw, after=after, plain=True).phrase("main")


def fronted(draw: Draw) -> Phrase:
    """A statement that begins with an adverbial: German then puts the subject after the finite verb.

    Example: In the garden the cat slept. | Im Garten schlief die Katze.
    """
    draw.phenomena.add("inversion after an adverbial")
    negated = False
    if draw.chance(0.3):
        role = draw.pick(("place", "place", "event", "cause"))
        options = [verb for name in ("intransitive", "reflexive") for verb in verbs_of(name)]
        verb = draw.pick([verb for verb in options if ("cause" if role == "cause" else "place") in verb.notes])
        tense, negated = draw.pick(("present", "past", "past")), draw.chance(0.15)
        front = prepositional(draw, role, True, ("room", "town") if role == "place" else ())
        draw.barred.add("")
    else:
        verb = draw.pick([verb for verb in verbs_of(draw.pick(DOING)) if "state" not in verb.notes])
        tense = tense_of(draw, verb)
        habit = "once" not in verb.notes and tense in ("present", "past") and draw.chance(0.5)
        tense = "will" if tense == "present" and not habit else tense
        front = adverb(draw, ("habit",) if habit else ("time", "week"), tense)
        draw.barred |= {"jed", "kein", ""} if habit else {""}
    return inverted(draw, front, make_clause(draw, verb=verb, tense=tense, negated=negated, adverbial=0.0))


def cleft(draw: Draw) -> Phrase:
    """A statement about one object among others: English says *It is ... that*, German begins with the object.

    Example: It was the wolf that he did not see. | Den Wolf sah er nicht.
    """
    verb = draw.pick([verb for verb in verbs_of("transitive", ("person",)) if "alone" not in verb.notes])
    draw.barred.add("jed")
    noun = draw.fresh([noun for noun in nouns_of(verb.objects) if noun.gender == "m" or "person" not in noun.kinds])
    front = noun_phrase(draw, "accusative", (), noun=noun, definite=True, names=False)
    subject = clear_subject(draw, verb, noun.gender) or subject_for(draw, verb, True)
    tense = tense_of(draw, verb)
    negated = tense != "perfect" and draw.chance(0.4)
    clause = make_clause(draw, subject=subject, verb=verb, tense=tense, negated=negated, gap="accusative")
    draw.phenomena |= {"inversion", "inversion after an object"}
    it, be = Word("it", "PRP"), Word("was" if tense == "past" else "is", tag_of(tense, "s"))
    that = Word("whom", "WP") if "person" in noun.kinds else Word("that", "WDT")
    (first, links), *rest = front.german  # the first place of the German clause says what *it is that* says
    inner = ["(SBAR", "(WHNP", that, ")", *english_side(clause, "main"), ")"]
    tree = ["(S", "(NP", it, ")", "(VP", be, "(NP", *front.english, *inner, ")", ")", ")"]
    return Phrase(tree, [(first, (it, be, *links, that)), *rest, *german_side(clause, "inverted")])


def singular(draw: Draw, noun: Noun, case: str) -> Phrase:
    """A noun in the singular, without anything before it."""
    draw.phenomena.add(case)
    note_noun(draw, noun, False, case)
    head = Word(noun.english, "NN")
    return Phrase([head], [(noun.german_form(False, case), (head,))])


def comparison(draw: Draw) -> Phrase:
    """Two things are compared. Example: The lamp is brighter than the candle. | Die Lampe ist heller als die Kerze."""
    kind = draw.pick(COMPARED)
    first, second = (noun_phrase(draw, "nominative", (kind,), definite=True, names=False, plain=True) for _ in range(2))
    clause = verb_group(draw, COPULA, first, draw.pick(("present", "past")), False, False)
    clause.parts.append(("adjective", comparative(draw, draw.pick(compared(kind)), second, draw.chance(0.3))))
    return clause.phrase("main")


@functools.cache
def compared(kind: str) -> list[Adjective]:
    """The adjectives with a comparative that go with a kind of more than one noun."""
    return [adjective for adjective in adjectives_of((kind,)) if adjective.more[0] and len(nouns_of((kind,))) > 1]


COMPARED = [kind for verb in verbs_of("copula") for kind in verb.subjects if compared(kind)]


def question(draw: Draw) -> Phrase:
    """A yes/no question. Example: Did the storm destroy the church? | Zerstörte der Sturm die Kirche?"""
    draw.phenomena.add("yes/no question")
    verbs = verbs_of(draw.pick(VERB_CLASSES))
    verb = draw.pick([verb for verb in verbs if verb.frame != "position" or "state" not in verb.notes])
    draw.uses.append(("question", verb.name))
    draw.barred.add("einig")
    return make_clause(draw, question=True, verb=verb).phrase("question")


ASKED = {(row["english"], row["class"]): row["german"] for row in read_table("questions")}


def wh_question(draw: Draw) -> Phrase:
    """A question with a question word: for the subject, an object, a time, a reason or a place.

    Example: Where does the doctor live? | Wo wohnt der Arzt?
    """
    draw.phenomena.add("wh question")
    kind = draw.pick(("subject", "object", "object", "when", "why", "where"))
    if kind == "subject":
        verb = draw.pick(verbs_of(draw.pick(DOING), ("person",)) or verbs_of("intransitive", ("person",)))
        who = Word("who", "WP")
        subject = Phrase(["(WHNP", who, ")"], [("wer", (who,))], gender="m", kinds=("person",), is_pronoun=True)
        return make_clause(draw, subject=subject, verb=verb, negated=False).phrase("main")
    if kind == "object":
        return object_question(draw)
    where = {"where": ("intransitive", "position", "motion")}.get(kind, ("intransitive", "transitive", "reflexive"))
    options = verbs_of(draw.pick(where))
    if kind == "where":  # *where does he run* may ask for a place or a direction
        asked = ("go", "live", "sit", "stand")
        options = [verb for verb in options if "place" in verb.notes or verb.english[0] in asked]
        options = [verb for verb in options if "upright" not in verb.subjects]
    verb = draw.pick([verb for verb in options if kind == "where" or "state" not in verb.notes])
    german = ASKED.get((kind, verb.frame), ASKED[kind, ""])
    gap = "direction" if verb.frame == "motion" else "place"  # what is asked for, or not said
    tense = tense_of(draw, verb)
    tense = "will" if tense == "perfect" and kind == "when" else tense
    gap = gap if kind == "where" else "adverbial"
    clause = make_clause(draw, subject=subject_for(draw, verb, True), verb=verb, tense=tense, question=True, gap=gap)
    return bracket("SBARQ", bracket("WHADVP", aligned(kind, german, "WRB")), clause.phrase("question"))


def object_question(draw: Draw) -> Phrase:
    """A question for an object, with what, whom or which. Example: Whom does the king thank? | Wem dankt der König?"""
    frame = draw.pick(("transitive", "transitive", "dative"))
    verb = draw.pick(verbs_of(frame, ("person",)))
    case, subject = "accusative" if frame == "transitive" else "dative", None
    if set(verb.objects) <= {"person", "animal", "known", "pet"} or case == "dative":
        front = bracket("WHNP", aligned("whom", "wen" if case == "accusative" else "wem", "WP"))
    elif draw.chance(0.5):
        front = bracket("WHNP", aligned("what", "was", "WP"))
        subject = None if verb.subjects in (("person",), ("adult",)) else clear_subject(draw, verb, "n")
    else:
        noun = draw.fresh([noun for noun in nouns_of(verb.objects) if "person" not in noun.kinds])
        which = aligned("which", determiner_form("welch", noun.gender, case), "WDT")
        front = bracket("WHNP", which, singular(draw, noun, case))
        subject = clear_subject(draw, verb, noun.gender)
    draw.phenomena.add(case)
    subject = subject or subject_for(draw, verb, True)
    clause = make_clause(draw, subject=subject, verb=verb, question=True, gap=case)
    return bracket("SBARQ", front, clause.phrase("question"))


def said(draw: Draw, tense: str, gender: str = "") -> Clause:
    """Somebody, perhaps of a given gender, says, knows, believes or hears; what it is comes later."""
    verb = draw.pick(verbs_of("saying"))
    noun = draw.fresh(nouns_of(verb.subjects, gender)) if gender else None
    subject = noun_phrase(draw, "nominative", (), noun=noun) if noun else subject_for(draw, verb)
    return verb_group(draw, verb, subject, tense, False, False)


def that_clause(draw: Draw) -> Phrase:
    """Somebody knows or says something. Example: I know that Anna sleeps. | Ich weiß, dass Anna schläft."""
    tense = draw.pick(("present", "past"))
    main = said(draw, tense)
    main.tail = commas(subordinate(draw, "that", inner_clause(draw, tense)))
    return main.phrase("main")


def adjunct(draw: Draw) -> Phrase:
    """A clause and another that depends on it, whose subject may be a pronoun for the subject of the first.

    Example: The guest hurries because he is hungry. | Der Gast beeilt sich, weil er hungrig ist.
    """
    conjunction = draw.pick(("because", "because", "because", "although", "although", "before", "while"))
    timed = conjunction in ("before", "while")
    tense = draw.pick(("present", "past") if timed else ("present", "past", "past", "past", "modal"))
    verbs = verbs_of(draw.pick(("intransitive", "transitive", "dative", "position", "reflexive")))
    verbs = [verb for verb in verbs if not timed or (past_is_visible(verb) and "slip" not in verb.notes)]
    verb = draw.fresh([verb for verb in verbs if "state" not in verb.notes or not (timed or tense == "modal")])
    draw.barred |= {"cause", *(("kein", "habit", "jed") if timed else ())}
    verb_tense = draw.pick(("will",) if "slip" in verb.notes else ("can", "will")) if tense == "modal" else tense
    negated = False if timed else None
    main = make_clause(draw, tense=verb_tense, adverbial=0.2, verb=verb, negated=negated, plain=True)
    options: dict = {}
    if timed:
        avoid = ("state", "trait") if conjunction == "before" else ("state", "once")
        options = {"tense": tense, "negated": False, "avoid": avoid}
    subject, clear = main.subject, main.subject.pronoun != "it" or not main.parts
    clear = clear and conjunction != "while" and verb.frame != "position"  # nobody lies while running away
    wanted = bool(subject.pronoun) and clear and not draw.denied and draw.chance(0.7)
    if main.tense == "perfect":
        tense = options["tense"] = draw.pick(("present", "perfect"))
    if wanted and fitting_verbs(subject.kinds, options.get("tense", ""), tense, options.get("avoid", ())):
        options["subject"] = refer(draw, subject, "nominative")
    second = inner_clause(draw, tense, nested=timed, **options)
    main.tail = commas(subordinate(draw, conjunction, second))
    return main.phrase("main")


def condition(draw: Draw) -> Phrase:
    """Clauses joined by *when*, *if*. Example: Whenever Tom sings, Otto cries. | Immer wenn Tom singt, weint Otto."""
    conjunction = draw.pick(("when", "when", "whenever", "if"))
    tense = "present" if conjunction == "if" else draw.pick(("present", "past"))
    outer = draw.pick(("present", "will", "can")) if conjunction == "if" else tense
    draw.barred |= {"jed", "habit"} if conjunction == "if" else {"jed", "habit", "kein"}
    avoid = ("state", "trait", *(("slip",) if outer == "can" else ("once",) if conjunction == "whenever" else ()))
    draw.clauses = 2  # either clause may come first, so neither has a *she* that the other could explain
    main = make_clause(draw, tense=outer, adverbial=0.0, negated=False, avoid=avoid)
    once = (conjunction, tense) == ("when", "past")
    inner = make_clause(draw, tense=tense, adverbial=0.3 if once else 0.0, avoid=avoid)
    case = subordinate(draw, conjunction, inner, once)
    if draw.chance(0.5):
        return inverted(draw, case, main, comma=True)
    main.tail = commas(case)
    return main.phrase("main")


def chain(draw: Draw) -> Phrase:
    """Two clauses joined by *and* or *but*. Example: Emma sings, but Tom sleeps. | Emma singt, aber Tom schläft."""
    draw.phenomena.add("coordination")
    both = draw.richness > 1 and draw.chance(0.8)
    if both:
        first, second = draw.pick((adjunct, relative))(draw), draw.pick((adjunct, that_clause, relative))(draw)
    else:
        clause = make_clause(draw, plain=True)
        first, second = clause.phrase("main"), simple(draw, "past" if group_of(clause.tense) == "past" else "present")
    conjunction = aligned("but", "aber", "CC") if draw.chance(0.4) else aligned("and", "und", "CC")
    return bracket("S", first, aligned(",", ",", ","), conjunction, second)


def joint_subject(draw: Draw) -> Phrase:
    """Two subjects joined by *and*. Example: The king and Maria laugh. | Der König und Maria lachen."""
    draw.phenomena.add("coordination")
    kinds = draw.pick((("person",), ("person",), ("animal",)))
    one = noun_phrase(draw, "nominative", kinds, definite=True, names=False)  # no *Emma and Anna's guest*
    other = noun_phrase(draw, "nominative", kinds, definite=True)
    subject = replace(bracket("NP", one, aligned("and", "und", "CC"), other), gender="p", kinds=kinds)
    return make_clause(draw, subject=subject, plain=True, avoid=("trait",)).phrase("main")


SEQUENCES = read_table("sequences", kinds=KINDS)


def sequence(draw: Draw) -> Phrase:
    """Two things are done to an object. Example: He cooks the egg and eats it. | Er kocht das Ei und isst es."""
    row = draw.pick(SEQUENCES)
    doing = verbs_of("transitive", ("person", "adult"))
    first, second = (next(verb for verb in doing if verb.english[0] == row[name]) for name in ("first", "second"))
    tense = draw.pick(("present", "past")) if past_is_visible(second) else "present"
    draw.barred.add("jed")
    subject = subject_for(draw, first if "makes" in first.notes else second)
    target = noun_phrase(draw, "accusative", (row["kinds"],), plain="makes" in first.notes)
    main = verb_group(draw, first, subject, tense, False, False)
    main.parts.append(("accusative", target))
    silent = replace(subject, english=[], german=[])
    rest = verb_group(draw, second, silent, tense, False, False)
    rest.parts.append(("pronoun", refer(draw, target, "accusative")))
    conjunction, both = aligned("and", "und", "CC"), rest.phrase("main")
    main.tail = Phrase([*conjunction.english, *both.english], [*conjunction.german, *both.german])
    draw.phenomena.add("coordination")
    return main.phrase("main")


SIDES = {"of subject": ADJECTIVE_ENTRIES, "of object": ADJECTIVE_ENTRIES}
FRAMES = read_table("coreference", reason=("not", "so"), subject=KINDS, object=KINDS, **SIDES)
GENDER_PAIRS = list(itertools.permutations("mfn", 2))


def frame_verb(row: Row) -> Verb:
    """The verb of a frame; subject and object decide between *essen* and *fressen*."""
    both = [verb for verb in VERB_ENTRIES if verb.english[0] == row["verb"] and row["subject"] in verb.subjects]
    return next(verb for verb in both if row["object"] in verb.objects)


def coreference(draw: Draw, side: int | None = None) -> Phrase:
    """A clause and a reason whose adjective decides which of two nouns its pronoun means: `side` 0 is the subject.

    Example: The dog hears the bell because it is so loud. | Der Hund hört die Glocke, weil sie so laut ist.
    """
    row = draw.pick(FRAMES)
    kinds, genders = (row["subject"], row["object"]), draw.pick(GENDER_PAIRS)
    nouns = [draw.fresh(nouns_of((kind,), gender)) for kind, gender in zip(kinds, genders, strict=True)]
    conjunction = draw.pick(("because", "because", "although"))
    negated = (row["reason"] == "not") == (conjunction == "because")
    tense = draw.pick(("present", "past", "past"))
    main, phrases = coreference_clause(draw, frame_verb(row), nouns, tense, negated)
    too = (row["reason"], conjunction) == ("not", "because")
    degree = draw.pick(("too zu", "too zu", "very sehr") if too else ("so so", "very sehr"))
    nested = "passive" not in draw.phenomena and draw.chance(0.24)  # somebody whom the pronoun could not mean
    outer = said(draw, tense, next(gender for gender in "mfn" if gender not in genders)) if nested else None
    side = int(draw.chance(0.5)) if side is None else side
    adjective = ADJECTIVE_ENTRIES[draw.pick(row[list(SIDES)[side]].split())]
    reason = verb_group(draw, COPULA, refer(draw, phrases[side], "nominative"), tense, False, False)
    reason.parts.append(("adjective", predicate(draw, adjective, (degree,))))
    main.tail = commas(subordinate(draw, conjunction, reason))
    near = (side == 1) != ("passive" in draw.phenomena)
    draw.phenomena |= {"pronoun decided by an adjective", "antecedent near" if near else "antecedent far"}
    if outer is None:
        return main.phrase("main")
    draw.phenomena.add("nested clause")
    outer.tail = commas(subordinate(draw, "that", main))
    return outer.phrase("main")


def coreference_clause(
    draw: Draw, verb: Verb, nouns: list[Noun], tense: str, negated: bool
) -> tuple[Clause, tuple[Phrase, Phrase]]:
    """The first clause of such a sentence and its two noun phrases; half of them are passives, with the second first.

    Example: The cow is woken by the radio because it is so loud. | Die Kuh wird vom Radio geweckt, weil es so laut ist.
    """
    passive, ability = draw.chance(0.5), draw.chance(0.4) and (negated or tense == "present")  # no *could* for a deed
    first, second = (
        noun_phrase(draw, case, (), noun=noun, definite=True, plain=True)
        for case, noun in zip(("dative", "nominative") if passive else ("nominative", "accusative"), nouns, strict=True)
    )
    group = {"present": "can", "past": "could"}[tense] if ability else tense
    clause = verb_group(draw, verb, second if passive else first, group, negated, False, passive)
    clause.parts.append(agent(draw, first) if passive else ("accusative", second))
    if group != "present" and draw.option(0.15):
        clause.parts.append(("time", adverb(draw, ("time",), group)))
    return clause, (first, second)


SENTENCES = (  # rule, share of the sentences
    (simple, 7), (fronted, 4), (cleft, 2), (question, 3), (wh_question, 4), (adjunct, 4), (coreference, 6),
    (that_clause, 3), (condition, 4), (comparison, 3), (chain, 2), (joint_subject, 2), (sequence, 4), (relative, 4),
)  # fmt: skip
RULES = [rule for rule, share in SENTENCES for _ in range(share)]
LONG_RULES = (chain, chain, chain, adjunct, that_clause, relative, condition)
CONTRACTIONS = {f"{row['preposition']} {row['article']}": row["contraction"] for row in read_table("contractions")}


def german_words(german: German) -> German:
    """The words of a German sentence with contractions, without needless commas."""
    result: German = []
    for text, links in german:
        previous = result[-1] if result else ("", ())
        if previous[0] == "," and text in ",.?":
            links = previous[1] + links if text == "," else links
            result.pop()
        if f"{previous[0]} {text}" in CONTRACTIONS:
            text, links = CONTRACTIONS[f"{previous[0]} {text}"], result.pop()[1] + links
        result.append((text, links))
    return result


def detokenise(tokens: list[str]) -> str:
    """Words and punctuation marks as a text that begins with a capital letter."""
    text = re.sub(r" ([,.?]|'s\b)", r"\1", " ".join(tokens))
    return text[0].upper() + text[1:]


def derive(draw: Draw, rule: Callable[[Draw], Phrase] | None = None) -> SentencePair:
    """One sentence pair, by one rule or any; equal draws give equal pairs."""
    rule = rule or draw.pick(RULES)
    phrase = rule(draw)
    stop = aligned(*"??", ".") if rule in (question, wh_question) else aligned(*"..", ".")
    english = [*phrase.english[:-1], *stop.english, ")"]
    german = german_words([*phrase.german, *stop.german])
    leaves = [item for item in english if isinstance(item, Word)]
    for word, following in itertools.pairwise(leaves):
        word.text = "an" if word.text == "a" and following.text[0] in "aeiou" else word.text
    leaves[0].text = leaves[0].text[0].upper() + leaves[0].text[1:]
    position = {id(word): index for index, word in enumerate(leaves)}
    alignment = sorted({(position[id(word)], index) for index, (_, links) in enumerate(german) for word in links})
    antecedents = [(position[id(word)], position[id(word.antecedent)]) for word in leaves if word.antecedent]
    tree = " ".join(item if isinstance(item, str) else f"({item.tag} {item.text})" for item in english)
    if any(text in CONTRACTIONS.values() for text, _ in german):
        draw.phenomena.add("contraction")
    source, target = detokenise([word.text for word in leaves]), detokenise([text for text, _ in german])
    tree = tree.replace(" )", ")")
    return SentencePair(source, target, tuple(sorted(draw.phenomena)), tuple(alignment), tuple(antecedents), tree)


HELD_OUT_USES = {(row["construction"], word) for row in read_table("held_out") for word in row["words"].split()}
ROLES = [(row["subject"], row["object"]) for row in FRAMES]


@functools.cache
def apart(first: Noun, second: Noun) -> bool:
    """Whether two nouns are kept for the split `pronoun`: some of the pairs that could meet in a frame."""
    kinds = ((first.kinds, second.kinds), (second.kinds, first.kinds))
    framed = any(subject in one and target in other for subject, target in ROLES for one, other in kinds)
    lot = zlib.crc32(" ".join(sorted((first.german, second.german))).encode())  # the same on every machine
    return framed and first.gender != second.gender and lot % 11 == 10


def novel_uses(draw: Draw) -> list[str]:
    """The constructions of a sentence that meet a word they are kept from in training."""
    return sorted({construction for construction, word in draw.uses if (construction, word) in HELD_OUT_USES})


def has_pair_apart(draw: Draw) -> bool:
    """Whether two nouns of a sentence are kept apart in training."""
    nouns = [word for word in draw.used if isinstance(word, Noun) and word not in NAME_ENTRIES]
    return any(apart(first, second) for first, second in itertools.combinations(nouns, 2))


SPLITS = {row["split"]: (int(row["pairs"]), int(row["seed"])) for row in read_table("splits", unique="split")}
SHORTEST, LONGEST, LIMIT = 4, 22, 45  # English words, without punctuation
QUOTED = 64878  # the seed that draws the sentence that everybody quotes


def minimal_pair(seed: int) -> list[tuple[SentencePair, Draw]]:
    """Two sentences that differ in one adjective: it is about the subject in the first, the object in the second."""
    draws = [Draw(Random(seed)), Draw(Random(seed))]
    return [(derive(draw, functools.partial(coreference, side=side)), draw) for side, draw in enumerate(draws)]


def candidates(name: str, random: Random) -> Iterator[list[tuple[SentencePair, Draw]]]:
    """Sentences for a split, before any are refused; those of a minimal pair come together."""
    if name == "pronoun":
        yield minimal_pair(QUOTED)
    while True:
        if name == "pronoun":
            yield minimal_pair(int(random.random() * 2**48))
        else:
            draw = Draw(random, 3.0 if name == "long" else 1.0)
            yield [(derive(draw, draw.pick(LONG_RULES) if name == "long" else None), draw)]


def belongs(name: str, pair: SentencePair, draw: Draw) -> bool:
    """Whether a sentence may be in a split."""
    length = len(pair.source.split())
    longest, shortest = (LIMIT, LONGEST + 1) if name == "long" else (LONGEST, SHORTEST)
    novel, held = bool(novel_uses(draw)), has_pair_apart(draw)
    return shortest <= length <= longest and novel == (name == "novel") and held == (name == "pronoun")


@functools.cache
def _split(name: str) -> tuple[SentencePair, ...]:
    taken = {"train": ("test", "valid"), "valid": ("test",)}.get(name, ())
    seen = {pair.source for other in taken for pair in _split(other)}
    size, seed = SPLITS[name]
    pairs: list[SentencePair] = []
    for group in candidates(name, Random(seed)):
        if any(pair.source in seen or not belongs(name, pair, draw) for pair, draw in group):
            continue
        for pair, draw in group:
            seen.add(pair.source)
            notes = [f"novel: {construction}" for construction in novel_uses(draw)]
            pairs.append(replace(pair, phenomena=tuple(sorted([*pair.phenomena, *notes]))) if notes else pair)
        if len(pairs) >= size:
            return tuple(pairs)
    raise AssertionError("candidates never end")


def embedded_split(name: str) -> list[SentencePair]:
    """The sentence pairs of a split of the embedded corpus, always the same; raises ValueError for an unknown name."""
    if name not in SPLITS:
        raise ValueError(f"unknown split {name!r}; the embedded corpus has {', '.join(SPLITS)}")
    return list(_split(name))


def canonical_text(pairs: list[SentencePair]) -> str:
    """The pairs as text, one a line, fields separated by tabs: the form of the files in `data/embedded`."""

    def links(field: tuple[tuple[int, int], ...]) -> str:
        return " ".join(f"{first}-{second}" for first, second in field)

    lines = [
        (pair.source, pair.target, "; ".join(pair.phenomena), links(pair.alignment), links(pair.antecedents), pair.tree)
        for pair in pairs
    ]
    return "".join("\t".join(line) + "\n" for line in lines)


def read_canonical(text: str) -> list[SentencePair]:
    """The pairs of such a text. Raises ValueError for anything else."""

    def links(field: str) -> tuple[tuple[int, int], ...]:
        return tuple((int(first), int(second)) for first, second in (link.split("-") for link in field.split()))

    pairs = []
    for line in text.splitlines():
        source, target, phenomena, alignment, antecedents, tree = line.split("\t")
        tags = tuple(phenomena.split("; ")) if phenomena else ()
        pairs.append(SentencePair(source, target, tags, links(alignment), links(antecedents), tree))
    return pairs


def split_checksum(name: str) -> str:
    """SHA-256 of a split's canonical text in UTF-8."""
    return hashlib.sha256(canonical_text(embedded_split(name)).encode()).hexdigest()


def corpus_fingerprint() -> str:
    """The version of the corpus that a trained model belongs to: SHA-256 over the splits valid and test."""
    return hashlib.sha256((split_checksum("valid") + split_checksum("test")).encode()).hexdigest()
