"""Clauses: verbs, tenses, complements, word order, subordinate and relative clauses."""

import functools
from dataclasses import dataclass, field, replace

from annotated.text.grammar.phrases import (
    PRONOUNS,
    German,
    Phrase,
    Word,
    adverb,
    adverbs,
    aligned,
    bracket,
    commas,
    comparative,
    group_of,
    noun_phrase,
    predicate,
    prepositional,
    pronoun,
)
from annotated.text.grammar.tables import read_table
from annotated.text.grammar.words import (
    ADJECTIVE_ENTRIES,
    CLASSES,
    ENDINGS,
    KINDS,
    MODALS,
    Adjective,
    Draw,
    Verb,
    adjectives_of,
    nouns_of,
    verbs_of,
)

__all__ = []


AUXILIARIES = {(row["english"], row["german"]): row for row in read_table("auxiliaries")}


FORMS = {row["english"]: row for row in AUXILIARIES.values()}


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
