"""The sentences that the laboratory offers: a stated part of the grammar of chapter 50, small enough for a page.

One frame of `coreference.tsv` with two nouns of different gender and an adjective that decides which of
them *it* means: active, without adverbs, in the present or the past, with *because* or *although*. The page puts a
sentence and its German together from parts; a test compares some thousands of them with what the grammar writes.
"""

from __future__ import annotations

import functools
from pathlib import Path
from random import Random
from typing import Any

from annotated.base.corpus import SentencePair
from annotated.text.grammar.phrases import PRONOUNS
from annotated.text.grammar.sentences import FRAMES, SIDES, coreference, derive
from annotated.text.grammar.words import ADJECTIVE_ENTRIES, Draw, Noun, determiner_form, nouns_of

ROOT = Path(__file__).resolve().parents[2]
TENSES, CONJUNCTIONS = ("past", "present"), ("because", "although")
IT = {gender: PRONOUNS["it", gender]["nominative"] for gender in "mfn"}


class Chosen(Draw):
    """Choices that are made already: of any options the wanted one, else the first; nothing optional is added."""

    def __init__(self, *wanted: object):
        super().__init__(Random(0))
        self.wanted = wanted

    def chance(self, probability: float) -> bool:
        return False

    option = chance

    def pick(self, options):
        return next((one for one in options if any(one is want or one == want for want in self.wanted)), options[0])


def written(
    frame: dict, subject: Noun, target: Noun, conjunction: str, tense: str, side: int, word: str
) -> SentencePair:
    """What the grammar writes for these choices. `side` 0 is the subject."""
    draw = Chosen(frame, (subject.gender, target.gender), subject, target, conjunction, tense, word)
    return derive(draw, functools.partial(coreference, side=side))


def choices(frame: dict) -> tuple[list[Noun], list[Noun], list[list[str]]]:
    """The nouns for subject and object, and the adjectives of each."""
    return nouns_of((frame["subject"],)), nouns_of((frame["object"],)), [frame[side].split() for side in SIDES]


def parts() -> dict[str, Any]:
    """Nouns, adjectives and frames, whose sentences have numbers in the place of choices; and all known words."""
    nouns: dict[str, dict[str, str]] = {}
    frames = []
    for frame in FRAMES:
        subjects, targets, adjectives = choices(frame)
        subject, target = next((s, t) for s in subjects for t in targets if s.gender != t.gender)
        forms = {}
        for conjunction in CONJUNCTIONS:
            for tense in TENSES:
                pair = written(frame, subject, target, conjunction, tense, 0, adjectives[0][0])
                forms[f"{conjunction} {tense}"] = [
                    with_gaps(pair.source, f"The {subject.english}", f"the {target.english}", "it", adjectives[0][0]),
                    with_gaps(
                        pair.target, capital(form(subject, "nominative")), form(target, "accusative"),
                        IT[subject.gender], ADJECTIVE_ENTRIES[adjectives[0][0]].german,
                    ),
                ]  # fmt: skip
        for noun in (*subjects, *targets):
            german = [form(noun, "nominative"), form(noun, "accusative")]
            nouns[noun.german] = {"english": noun.english, "german": german, "gender": noun.gender}
        roles = {"subjects": [noun.german for noun in subjects], "objects": [noun.german for noun in targets]}
        frames.append({**roles, "adjectives": adjectives, "forms": forms})
    words = {word: ADJECTIVE_ENTRIES[word].german for frame in frames for side in frame["adjectives"] for word in side}
    known = (ROOT / "data" / "embedded" / "words.txt").read_text(encoding="utf-8").split()
    return {"nouns": nouns, "adjectives": words, "pronouns": IT, "frames": frames, "known": known}


def form(noun: Noun, case: str) -> str:
    """A noun with its article."""
    return f"{determiner_form('d', noun.gender, case)} {noun.german_form(False, case)}"


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def with_gaps(sentence: str, *texts: str) -> str:
    """The sentence with {0}, {1}, ... for these texts, each once, in their order."""
    result, rest = "", sentence
    for number, text in enumerate(texts):
        before, found, rest = rest.partition(text if not number else f" {text}")
        if not found:
            raise ValueError(f"{sentence}: there is no {text!r}")
        result += f"{before}{' ' if number else ''}{{{number}}}"
    return result + rest
