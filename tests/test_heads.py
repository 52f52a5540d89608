"""What each head is worth: the measurements of chapter 80, on a few sentences of the shipped model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from annotated.base.files import read_json
from annotated.batching import make_batch
from annotated.interventions import head_means, silenced
from annotated.runs.examples import tokenize_pairs
from annotated.search.translation import Translator
from annotated.text.grammar.splits import embedded_split
from tools import heads

COUNT = 60


@pytest.fixture(scope="module")
def shipped() -> Translator:
    return Translator.load("embedded", "cpu", accelerated=False)


@pytest.fixture(scope="module")
def task(shipped: Translator) -> heads.Pronouns:
    return heads.Pronouns(shipped.model, shipped.tokenizer, embedded_split("pronoun")[:COUNT])


@pytest.mark.slow
def test_the_pronoun_is_what_the_translator_writes(shipped: Translator, task: heads.Pronouns):
    """The choice among three genders is that of the translation, where greedy search comes as far as the pronoun."""
    pairs, right = embedded_split("pronoun")[:COUNT], task.right()
    outputs = shipped.translate([pair.source for pair in pairs], beam_size=1)
    exact = np.array([output == pair.target for output, pair in zip(outputs, pairs, strict=True)])
    assert exact.mean() > 0.8
    assert right[exact].min() == 1.0
    assert torch.equal(task.choices() == task.own, torch.tensor(right[:, 0] == 1))


@pytest.mark.slow
def test_the_record_is_of_the_shipped_model(shipped: Translator):
    """What the book quotes for the shipped model untouched, and without the head that matters most, comes back."""
    found = read_json(heads.ROOT / "data" / "runs" / "heads" / "shipped.json")["silenced"]
    everything, (head, alone) = (
        heads.Pronouns(shipped.model, shipped.tokenizer, embedded_split("pronoun")[: heads.SENTENCES]),
        min(zip(found["heads"], found["zero"]["alone"], strict=True), key=lambda row: row[1][0][0]),
    )
    assert everything.right().mean(axis=0) == pytest.approx([share for share, _ in found["untouched"]], abs=0.002)
    with silenced(shipped.model, [tuple(head)]):
        assert everything.right().mean(axis=0) == pytest.approx([share for share, _ in alone], abs=0.005)


@pytest.mark.slow
def test_batches_change_nothing(task: heads.Pronouns):
    assert np.array_equal(task.right(step=7), task.right())


def test_shares_have_the_scatter_of_twins():
    """Twins that always disagree have no scatter; the same sentences one by one would."""
    values = np.array([[0.0], [1.0]] * 10)
    assert heads.share(values) == [[0.5, 0.0]]
    mixed = np.array([[0.0], [0.0], [1.0], [1.0]] * 5)
    assert heads.share(mixed)[0][1] == pytest.approx(0.5 / np.sqrt(9.0), abs=1e-4)
    assert heads.share(mixed, mixed) == [[0.5, 0.0]]


@pytest.mark.slow
def test_what_is_borrowed_decides(task: heads.Pronouns):
    """With weights and values of the twin everywhere, each sentence gets what its twin would have chosen."""
    found = heads.borrowed(task)
    assert found["sentences"] % 2 == 0
    own, twin = found["shares"]["nothing: weights"]
    assert found["shares"]["nothing: values"] == [own, twin]
    assert found["shares"]["everything: weights and values"] == [twin, own]
    assert found["shares"]["encoder: weights"][0][0] < own[0]


@pytest.mark.slow
def test_pairs_cost_more_than_their_parts_as_counted(shipped: Translator, task: heads.Pronouns, monkeypatch):
    """The extra cost of a pair is the cost of both less the two costs, by zero and by the mean."""
    few = [("encoder", 1, 0), ("encoder", 1, 3), ("cross", 1, 2)]
    monkeypatch.setattr(heads, "all_heads", lambda *_: few)
    batch = make_batch(tokenize_pairs(shipped.tokenizer, embedded_split("valid")[:20], 256))
    means = head_means(shipped.model, [batch])
    found = heads.silencings(task, means)
    untouched = found["untouched"][0][0]
    for name, by in (("zero", None), ("mean", means)):
        alone = [shares[0][0] for shares in found[name]["alone"]]
        for one, other, both, _, extra, _ in found[name]["pairs"]:
            cost = (untouched - both[0]) - (untouched - alone[one]) - (untouched - alone[other])
            assert extra[0] == pytest.approx(cost, abs=1e-4)
        with silenced(shipped.model, [few[1]], by=by):
            assert alone[1] == pytest.approx(task.right()[:, 0].mean(), abs=1e-4)
    assert found["zero"]["alone"] != found["mean"]["alone"]


@pytest.mark.slow
def test_rules_of_grammar_beside_trivial_ones(shipped: Translator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(heads, "RULES_ON", 20)
    found = heads.fits(shipped.model, shipped.tokenizer)
    article = np.array(found["heads"]["article's noun"])
    assert article.shape == (2, 4)
    assert article[1, 3] > found["beside"]["article's noun, word after"] > 0.5
    assert found["beside"]["article's noun, word before"] == 0
