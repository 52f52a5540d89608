"""The examples in the grammar's docstrings, each asked of the grammar, and the search that asks."""

from __future__ import annotations

import doctest
import inspect
import re

import pytest

from annotated.text import grammar
from annotated.text.grammar import clauses, phrases, sentences, words
from annotated.text.grammar.clauses import Clause
from annotated.text.grammar.derivation import DeadEnd, Wanted, english_forms, express
from annotated.text.grammar.phrases import Phrase
from annotated.text.grammar.sentences import RULES, coreference, relative, that_clause
from annotated.text.grammar.words import COPULA, NOUN_ENTRIES

MODULES = (phrases, clauses, sentences)
FUNCTIONS = {name: rule for one in MODULES for name, rule in vars(one).items() if inspect.isfunction(rule)}
EXAMPLES = {
    name: tuple(found[1].strip().split(" | "))
    for name, rule in FUNCTIONS.items()
    if (found := re.search(r"Example: ([^\n]+)", inspect.getdoc(rule) or ""))
}

WITHIN = {  # sentences with two clauses take long to find, if one does not know the rule that begins
    "with_relative": relative, "inner_clause": that_clause, "coreference_clause": coreference,
}  # fmt: skip


def test_every_rule_of_a_sentence_has_an_example() -> None:
    """What takes a draw and gives a phrase or a clause is a rule, apart from helpers that only put parts together."""
    own = {name: rule for name, rule in FUNCTIONS.items() if rule.__module__.startswith(grammar.__name__)}
    hints = {name: inspect.signature(rule) for name, rule in own.items()}
    writes = {name for name, hint in hints.items() if hint.return_annotation in (Phrase, Clause)}
    rules = {name for name in writes if next(iter(hints[name].parameters), "") == "draw"}
    assert rules - set(EXAMPLES) == {"singular", "said"}
    assert len(EXAMPLES) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_rule_is_what_it_writes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The grammar has the English sentence, gives it this German one, and calls the rule on the way."""
    source, target = EXAMPLES[name]
    calls = []

    def noted(*arguments, **options):
        calls.append(name)
        return FUNCTIONS[name](*arguments, **options)

    for module in MODULES:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, noted)
    inside = WITHIN.get(name) or (noted if FUNCTIONS[name] in RULES else None)
    pair = express(source, inside)
    assert pair is not None, f"the grammar does not have {source!r}"
    assert pair.target == target
    assert calls


def test_the_examples_of_words_are_what_they_print() -> None:
    failed, tried = doctest.testmod(words)
    assert tried >= 4
    assert not failed


@pytest.mark.slow
def test_what_the_grammar_does_not_have() -> None:
    assert express("The soup helps her.", limit=300) is None
    assert express("Tom helps her.").target == "Tom hilft ihr."


def test_a_wanted_draw_offers_what_the_sentence_has() -> None:
    draw = Wanted("The dog sees an old cat.", [])
    dog, cat, cow = (next(noun for noun in NOUN_ENTRIES if noun.english == name) for name in ("dog", "cat", "cow"))
    assert draw.fresh([cow, cat, dog]) is cat
    assert draw.fresh([cow, cat, dog]) is dog, "each word once"
    with pytest.raises(DeadEnd):
        draw.pick([cow])
    assert not draw.chance(0.2)
    assert Wanted("", [0]).chance(0.2), "a prescribed decision"
    assert "are" in english_forms(COPULA)
