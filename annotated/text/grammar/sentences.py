"""The rules for whole sentences, and a pair with all that is known of it."""

import functools
import itertools
import re
from collections.abc import Callable
from dataclasses import replace

from annotated.base.corpus import SentencePair
from annotated.text.grammar.clauses import (
    DOING,
    VERB_CLASSES,
    Clause,
    agent,
    clear_subject,
    english_side,
    fitting_verbs,
    german_side,
    inner_clause,
    inverted,
    make_clause,
    past_is_visible,
    subject_for,
    subordinate,
    suits,
    tag_of,
    tense_of,
    verb_group,
    with_relative,
)
from annotated.text.grammar.phrases import (
    German,
    Phrase,
    Word,
    adverb,
    aligned,
    bracket,
    commas,
    comparative,
    group_of,
    note_noun,
    noun_phrase,
    predicate,
    prepositional,
    refer,
)
from annotated.text.grammar.tables import Row, read_table
from annotated.text.grammar.words import (
    ADJECTIVE_ENTRIES,
    COPULA,
    KINDS,
    VERB_ENTRIES,
    Adjective,
    Draw,
    Noun,
    Verb,
    adjectives_of,
    determiner_form,
    nouns_of,
    verbs_of,
)

__all__ = ["derive", "detokenise"]


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
