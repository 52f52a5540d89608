"""The derivation of a sentence that is given."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

from annotated.base.corpus import SentencePair
from annotated.text.grammar.clauses import CONJUNCTIONS, FORMS, PEOPLE
from annotated.text.grammar.phrases import PRONOUNS
from annotated.text.grammar.sentences import derive
from annotated.text.grammar.tables import Row
from annotated.text.grammar.words import MODALS, Adjective, Draw, Noun, Verb, words

__all__ = ["DeadEnd", "NEEDS", "Wanted", "english_forms", "express"]


class DeadEnd(Exception):
    """No option goes with the sentence that is wanted."""


class Wanted(Draw):
    """A draw that takes prescribed decisions, then the likeliest of those that go with an English sentence."""

    def __init__(self, source: str, path: list[int], known: dict[int, tuple[object, bool]] | None = None):
        super().__init__(Random(0))
        self.known = {} if known is None else known  # options, and whether the sentence has them
        self.text = f" {' '.join(words(source.lower()))} "
        self.path = path
        self.taken: list[int] = []
        self.weights: list[list[float]] = []  # of the options of each decision

    def decide(self, options: Sequence, weights: list[float]):
        """The option that is prescribed, or the likeliest."""
        if not options:
            raise DeadEnd
        at = len(self.taken)
        self.taken.append(self.path[at] if at < len(self.path) else weights.index(max(weights)))
        self.weights.append(weights)
        return options[self.taken[-1]]

    def chance(self, probability: float) -> bool:
        """True or False."""
        return self.decide((True, False), [probability, 1 - probability])

    def option(self, probability: float) -> bool:
        """True or False."""
        return self.chance(probability)

    def fresh(self, options: Sequence):
        """One of the options that the sentence has and the derivation does not have yet."""
        return super().fresh([option for option in options if self.has(option)])

    def pick(self, options: Sequence):
        """One of the options that the sentence has."""
        fitting = {id(option): option for option in options if self.has(option)}
        counts = Counter(id(option) for option in options if id(option) in fitting)
        return self.decide(list(fitting.values()), [count / counts.total() for count in counts.values()])

    def has(self, option: object) -> bool:
        """Whether a form of a word stands in the sentence; what has no English form may always."""
        if isinstance(option, list):
            return any(self.has(item) for item in option)
        if id(option) not in self.known:
            forms = [f" {form.lower()} " for form in english_forms(option) if form]
            self.known[id(option)] = option, not forms or any(form in self.text for form in forms)
        return self.known[id(option)][1]


NEEDS = {  # words without which a rule writes nothing
    "question": ("?",), "wh_question": ("?",), "cleft": ("it is", "it was"), "comparison": ("than", "as"),
    "relative": ("who", "whom", "that"), "that_clause": ("that",), "coreference": ("because", "although"),
    "adjunct": ("because", "although", "before", "while"), "condition": ("when", "whenever", "if"),
    "chain": ("and", "but"), "joint_subject": ("and",), "sequence": ("and",),
    "perfect": ("has", "have"), "modal": MODALS,
}  # fmt: skip


def english_forms(option: object) -> Sequence[str]:
    """The English forms of which an option of a draw brings one into a sentence; none where that cannot be told."""
    if isinstance(option, Noun):
        return option.english, option.plurals[0]
    if isinstance(option, Adjective):
        return option.english, option.more[0]
    if isinstance(option, Verb):
        be = [FORMS[f"be {tense}"][who] for tense in ("present", "past") for who in "sp1"]
        return be if option.frame == "copula" else option.english
    if isinstance(option, tuple) and isinstance(option[0], Row):
        return english_forms(option[0])
    if isinstance(option, Row):
        return option.get("english", ""), option.get("plural", "")
    if option in PEOPLE:
        return [PRONOUNS[option][column] for column in ("subject", "object", "possessive")]
    name = getattr(option, "__name__", option)
    if not isinstance(name, str):
        return ()
    if name in CONJUNCTIONS or name in MODALS:
        return (name,)
    return name.split()[:1] if " " in name else NEEDS.get(name, ())


def express(source: str, rule: Callable | None = None, limit: int = 10_000) -> SentencePair | None:
    """The pair whose English is `source`, by one rule or any, found by trying derivations, the most promising first.

    None when the grammar does not have it, as far as so many derivations can tell.
    """
    wanted, known = Counter(words(source.lower())), {}
    heap: list[tuple[float, float, list[int]]] = [(0.0, 0.0, [])]  # priority, cost and decisions to begin with
    for _ in range(limit):
        if not heap:
            return None
        priority, start, path = heapq.heappop(heap)
        draw, bonus = Wanted(source, path, known), start - priority
        with suppress(DeadEnd):
            pair = derive(draw, rule)
            if pair.source == source:
                return pair
            found = Counter(words(pair.source.lower()))
            bonus = 2.0 * ((found & wanted).total() - (found - wanted).total())
        cost = 0.0
        for at, (taken, weights) in enumerate(zip(draw.taken, draw.weights, strict=True)):
            for other, weight in enumerate(weights if at >= len(path) else ()):
                if other != taken and weight > 0:
                    higher = cost - math.log(weight)
                    heapq.heappush(heap, (higher - bonus, higher, [*draw.taken[:at], other]))
            cost -= math.log(weights[taken])
    return None
