"""Noun phrases, pronouns, adjectives, adverbials: English and German side by side, with their alignment."""

import functools
from dataclasses import dataclass, field, replace

from annotated.text.grammar.tables import Row, read_table
from annotated.text.grammar.words import (
    CASES,
    GENDERS,
    KINDS,
    MODALS,
    NAME_ENTRIES,
    STEMS,
    Adjective,
    Draw,
    Noun,
    adjective_form,
    adjectives_of,
    determiner_form,
    nouns_of,
)

__all__ = []


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
