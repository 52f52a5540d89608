"""Two more tasks on the embedded corpus, not the paper's: marking entities, and shortening a sentence.

Chapter 63 writes a tree as a sequence. So can be written where the persons, animals, places and times of a sentence
are, as a tag for each word ("tagging") or as brackets in the sentence ("marking"), and what is left of a sentence
without what its grammar can do without ("compression"). The runs are in `data/runs/tasks`; `tools.parsing` adds the
tasks to those of `annotated.parsing`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from annotated.base.corpus import SentencePair
from annotated.parsing import Outcome, Tree, labelled_brackets, parse_brackets
from annotated.text.grammar.sentences import detokenise
from annotated.text.grammar.words import NAME_ENTRIES, NOUN_ENTRIES, VERB_ENTRIES, words

ENTITY_KINDS = {  # tag: kinds of nouns in the tables of chapter 50
    "PER": {"person"}, "ANI": {"animal"}, "LOC": {"building", "home", "room", "town", "way", "road"},
}  # fmt: skip
TIME_WORDS = {"day", "evening", "week", "Monday", "summer", "today", "yesterday", "tomorrow"}
BEFORE_NOUN = {"DT", "CD", "PRP$", "JJ"}


def entity_kinds() -> dict[str, str]:
    """The entity tag of each noun, name and word for a time that has one."""
    kinds = dict.fromkeys(TIME_WORDS, "TIM")
    for noun in [*NOUN_ENTRIES, *NAME_ENTRIES]:
        tags = [tag for tag, wanted in ENTITY_KINDS.items() if wanted & set(noun.kinds)]
        kinds |= dict.fromkeys((noun.english, noun.plurals[0]), tags[0]) if tags else {}
    return kinds


KIND_OF = entity_kinds()


def entity_tags(tree: Tree) -> list[str]:
    """A tag for each word: B-PER for the first of a person, I-PER for the others, O outside.

    An entity is a noun, name or time with the articles, numbers, possessives and adjectives before it in its phrase.
    """
    if tree.word:
        return ["O"]
    tags: list[str] = []
    begin = None
    for child in tree.children:
        before = child.word and child.label in BEFORE_NOUN
        if before and begin is None:
            begin = len(tags)
        tags += entity_tags(child)
        kind = KIND_OF.get(child.word) or KIND_OF.get(child.word.lower())
        if kind and child.label in ("NN", "NNS", "NNP", "RB"):
            if begin is None:
                begin = len(tags) - 1
            tags[begin:] = [f"B-{kind}", *[f"I-{kind}"] * (len(tags) - begin - 1)]
        if not before:
            begin = None
    return tags


def entities(tags: Sequence[str]) -> Counter:
    """The entities as (kind, first word, word after the last); an I- that follows nothing of its kind begins one."""
    found: list[tuple[str, int, int]] = []
    for place, tag in enumerate(tags):
        mark, _, kind = tag.partition("-")
        if mark == "I" and found and found[-1][0] == kind and found[-1][2] == place:
            found[-1] = (kind, found[-1][1], place + 1)
        elif mark in ("B", "I"):
            found.append((kind, place, place + 1))
    return Counter(found)


def tagging_outcome(pair: SentencePair, output: str) -> Outcome:
    """The entities of both; an output with the wrong number of tags has none."""
    wanted, tags = pair.target.split(), output.split()
    fits = len(tags) == len(wanted)
    problems = frozenset() if fits else frozenset({"number of words"})
    return Outcome(entities(wanted), entities(tags if fits else []), tags == wanted, problems)


def mark_entities(tree: Tree) -> str:
    """The words with a bracket around each entity, "(PER The old king ) saw (ANI a fox ) ."."""
    marked = tree.words()
    for kind, start, end in entities(entity_tags(tree)):
        marked[start] = f"({kind} {marked[start]}"
        marked[end - 1] += " )"
    return " ".join(marked)


def marking_outcome(pair: SentencePair, output: str) -> Outcome:
    """The marked entities of both; an output with other words than the sentence has none."""
    sentence = words(pair.source)
    gold, parse = (parse_brackets(text, sentence) for text in (pair.target, output))
    same = parse.tree is not None and [leaf.label for leaf in parse.tree.leaves()] == sentence
    problems = (parse.problems - {"no single root"}) | (frozenset() if same or not parse.tree else {"other words"})
    found = labelled_brackets(parse.tree, ()) if same else Counter()
    return Outcome(labelled_brackets(gold.tree, ()), found, output == pair.target, problems)


NEEDS_PLACE = {  # forms of verbs that may need their first prepositional phrase
    form for verb in VERB_ENTRIES if verb.frame in ("motion", "position", "placing", "prepositional")
    for form in verb.english[:4]
}  # fmt: skip
CLAUSES = {"because", "although", "before", "while", "if", "when", "whenever"}  # not that: what is said or known stays


def when_or_why(phrase: Tree) -> bool:
    """Whether a prepositional phrase says when or why: *on Monday*, *in summer*, *during the storm*."""
    return all(child.word for child in phrase.children) or phrase.words()[0].lower() in ("during", "because")


def needs_place(tree: Tree) -> bool:
    """Whether the verb of a phrase or clause may need a prepositional phrase and has none deeper in the tree."""
    inner = next((child for child in tree.children if child.label == "VP"), None)
    if inner is None:  # but not of *run away*
        own = [child for child in tree.children if child.word]
        return any(child.word in NEEDS_PLACE for child in own) and all(child.label != "RP" for child in own)
    return needs_place(inner) and all(child.label != "PP" or when_or_why(child) for child in inner.children)


def optional(node: Tree, parent: Tree, needed: bool) -> bool:
    """Whether a part may go; `needed` if its verb may need a prepositional phrase."""
    leaves = node.words()
    if node.label == "SBAR":
        return parent.label == "NP" or leaves[0].lower() in CLAUSES
    if node.label == "PP" and parent.label != "ADJP":
        return when_or_why(node) or not needed
    if node.label == "NP":  # every day, last week
        return parent.label != "PP" and leaves[-1] in TIME_WORDS and all(child.word for child in node.children)
    adjective = node.label == "JJ" and node.word.lower() != "many" and parent.label in ("NP", "WHNP")
    return node.label == "ADVP" or adjective


def shorten(tree: Tree) -> list[str]:
    """The words that stay."""
    if tree.word:
        return [tree.word]
    kept: list[str] = []
    needed = needs_place(tree)
    for child in tree.children:
        if optional(child, tree, needed):
            continue
        needed = needed and child.label != "PP"
        if kept or child.word != ",":  # the comma after a clause that is gone
            kept += shorten(child)
    return kept


def compress(tree: Tree) -> str:
    """The sentence without what its grammar can do without, as text; "an old man" becomes "a man"."""
    kept = shorten(tree)
    for i, word in enumerate(kept[:-1]):
        if word.lower() in ("a", "an"):
            kept[i] = word[0] + ("n" if kept[i + 1][0] in "aeiou" else "")
    return detokenise(kept)


def compression_outcome(pair: SentencePair, output: str) -> Outcome:
    """The words of both, in lower case and any order; malformed is what its source does not have in this order.

    *A* and *an* are the same word in the source.
    """
    wanted, found, source = (words(text.lower()) for text in (pair.target, output, pair.source))
    rest = iter("a" if word == "an" else word for word in source)
    kept = all(("a" if word == "an" else word) in rest for word in found)
    problems = frozenset() if kept else frozenset({"not a part of the source"})
    return Outcome(Counter(wanted), Counter(found), output == pair.target, problems)


TARGETS = {
    "tagging": lambda tree: " ".join(entity_tags(tree)), "marking": mark_entities, "compression": compress,
}  # fmt: skip
OUTCOMES = {"tagging": tagging_outcome, "marking": marking_outcome, "compression": compression_outcome}
