"""What the record of the case is made of: `tools.case`, on forty sentences of the shipped model."""

import numpy as np
import pytest
import torch

from annotated.base.files import read_json
from annotated.search.translation import Translator
from annotated.text.grammar.splits import embedded_split
from annotated.text.grammar.words import words
from tools import case

COUNT = 40


@pytest.fixture(scope="module")
def shipped():
    return Translator.load("embedded", "cpu", accelerated=False)


@pytest.fixture(scope="module")
def twins(shipped):
    task = case.Twins(shipped.model, shipped.tokenizer, embedded_split("pronoun")[:COUNT])
    with torch.no_grad():
        yield task


def test_every_token_is_in_one_group(twins):
    counted = torch.stack([twins.tokens(group) for group in case.GROUPS]).sum(dim=0)
    assert torch.equal(counted, twins.real.long())
    assert torch.equal(twins.tokens("noun") | twins.tokens("rival"), twins.tokens("nouns"))
    assert torch.equal(twins.tokens("end").sum(dim=1), torch.ones(COUNT, dtype=torch.long))


def test_the_pronoun_is_what_the_translator_writes(twins, shipped):
    """The choice among three genders is that of the translation, where greedy search comes as far as the pronoun."""
    pairs, right = embedded_split("pronoun")[:COUNT], twins.right(step=7)
    outputs = shipped.translate([pair.source for pair in pairs], beam_size=1)
    exact = np.array([output == pair.target for output, pair in zip(outputs, pairs, strict=True)])
    assert exact.mean() > 0.8
    assert right[exact].min() == 1.0
    assert torch.equal(twins.choices() == twins.own, torch.tensor(right[:, 0] == 1))


def test_shares_have_the_scatter_of_twins():
    """Twins that always disagree have no scatter; the same sentences one by one would."""
    assert case.share(np.array([[0.0], [1.0]] * 10)) == [[0.5, 0.0]]
    mixed = np.array([[0.0], [0.0], [1.0], [1.0]] * 5)
    assert case.share(mixed)[0][1] == pytest.approx(0.5 / np.sqrt(9.0), abs=1e-4)
    assert case.share(mixed, mixed) == [[0.5, 0.0]]


def test_the_words_of_the_famous_pair_and_its_german(twins, shipped):
    """Each word is of one kind; the German nouns and articles stand where the decoder has read them."""
    pair, groups = embedded_split("pronoun")[0], twins.groups[0]
    famous = [*words(pair.source), "</s>"]
    kinds = {name: groups[name] for name in ("adjective", "noun", "rival", "it", "end")} | case.of_kinds(pair, groups)
    assert {kind: [famous[word] for word in sorted(chosen)] for kind, chosen in kinds.items()} == {
        "adjective": ["tired"], "noun": ["animal"], "rival": ["street"], "it": ["it"], "end": ["</s>"],
        "articles": ["The", "the"], "clause": ["because", "was", "too"], "main clause": ["did", "not", "cross"],
        "ends": [".", "</s>"],
    }  # fmt: skip
    written = case.already_written(twins, shipped.tokenizer, embedded_split("pronoun")[:COUNT])
    said = {name: shipped.tokenizer.to_text(twins.read[0, keys[0]].tolist()) for name, keys in written.items()}
    assert said == {"nouns": "Tier Straße", "articles": "Das die"}


def test_with_all_vectors_of_the_twin_a_model_answers_as_for_the_twin(twins):
    """The German before the pronoun is the same in twins, so nothing else is left to tell them apart."""
    untouched, found = twins.chosen(), case.swaps(twins)
    everything = " and ".join(case.GROUPS)
    for name in (f"after layer 1: {everything}", f"all doors: {everything}"):
        assert [share for share, _ in found[name]] == [share for share, _ in untouched[::-1]]
    assert found[f"door 1: {everything}"] != found[f"all doors: {everything}"]


def test_a_pronoun_follows_the_gender_of_its_noun_s_row_and_not_of_the_rival_s(twins, shipped):
    """Were the row moved too little, the wrong way, or another word's, the pronoun would not follow."""
    pairs = embedded_split("pronoun")[:COUNT]
    found = case.regendered(twins, shipped.tokenizer, pairs)
    assert found["nouns"] == 119  # as in chapter 34
    assert 10 < found["sentences"] < COUNT
    follows, stays, _ = (share for share, _ in found["noun"])
    assert (follows, stays) == (pytest.approx(1, abs=0.1), 0)
    follows, stays, turned = (share for share, _ in found["rival"])
    assert (stays, turned) == (pytest.approx(1, abs=0.1), 0)
    assert follows < 0.6  # one of the two new genders may be the right one


def test_cut_arrows_carry_nothing(twins):
    """What no arrow leads from may hold anything: the choice stays."""
    lost = [case.gone(twins, ("cross", layer, "it", "pronoun")) for layer in (1, 2)]
    shut = case.cut(twins, lost)
    memory, real = twins.encoded()
    other = torch.where(twins.tokens("it")[:, :, None], torch.randn_like(memory), memory)
    places = {place: mask for one in lost for place, mask in one.items()}
    edits = {place: case.partial(case.without, mask) for place, mask in places.items()}
    with case.edited(twins.model, weights=edits):
        assert twins.shares([(other, real)] * 2) == shut
    nothing = torch.zeros(COUNT, twins.read.shape[1], twins.source.shape[1], dtype=torch.bool)
    assert case.cut(twins, [{("cross", 1): nothing}]) == twins.chosen()


def test_weights_that_are_lost_are_shared_out():
    weights = torch.tensor([[[[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]]]])
    lost = torch.tensor([[[False, False, True], [False, False, False]]])
    expected = torch.tensor([[[[0.4, 0.6, 0.0], [0.2, 0.3, 0.5]]]])
    assert torch.allclose(case.without(lost, weights), expected)


def test_stations_end_where_the_model_ends(twins):
    found = case.stations(twins)
    memory, _ = twins.encoded()
    rows = torch.arange(COUNT)
    assert torch.allclose(found["it: layer 2, feed-forward"], memory[rows, twins.its], atol=1e-5)
    logits, _ = twins.logits(rows)
    own = twins.model.output(found["pronoun: layer 2, feed-forward"])
    assert torch.allclose(own, logits[rows, twins.pronouns], atol=1e-4)


def test_a_probe_reads_what_is_there_and_nothing_else():
    generator = torch.Generator().manual_seed(1)
    answers = torch.randint(0, 3, (600,), generator=generator)
    x = torch.randn(600, 8, generator=generator)
    x[:, :3] += 4 * torch.nn.functional.one_hot(answers, 3)
    assert (case.probe(x[:400], answers[:400], x[400:]) == answers[400:]).float().mean() > 0.95
    noise = torch.randn(600, 8, generator=generator)
    assert (case.probe(noise[:400], answers[:400], noise[400:]) == answers[400:]).float().mean() < 0.5


@pytest.mark.slow
def test_the_records_are_of_the_shipped_model(shipped):
    """What the chapters quote comes back: untouched, without *it*, with its twin's vector, and of the outsiders."""
    folder = case.FOLDER / "measured"
    found, others = read_json(folder / "1.json"), read_json(folder / "outsiders-1.json")
    with torch.no_grad():
        task = case.Twins(shipped.model, shipped.tokenizer, embedded_split("pronoun")[: found["sentences"]])
        cut = case.cut(task, [case.gone(task, ("cross", 2, "it", "pronoun"))])
        own = task.encoded()
        swapped = task.shares([own, case.mixed(task, own[0], ["it"])])
        pairs, more = embedded_split("pronoun")[: found["sentences"]], read_json(folder / "others-1.json")
        for pair, known in zip(pairs, task.groups, strict=True):
            known |= case.of_kinds(pair, known)
        unheard = case.cut(task, [case.gone(task, ("cross", 2, "articles", "pronoun"))])
        german = case.german(task, shipped.tokenizer, pairs)["not articles"]
    for again, recorded in (
        (task.chosen(), found["untouched"]),
        (unheard, more["alone"][ALONE["cross", 2, "articles", "pronoun"]]),
        (german, more["german"]["not articles"]),
        (cut, found["cuts"]["doors"]["door 2: not it"]),
        (swapped, found["swaps"]["door 2: it"]),
    ):
        assert [one for one, _ in again] == pytest.approx([one for one, _ in recorded], abs=0.005)
    told = case.told_apart(shipped)
    for kind in ("right", "twin's", "neither", "both twins right"):
        assert told[kind] == pytest.approx(others[kind], abs=2)  # another processor may round a beginning otherwise


ALONE = {tuple(arrow): n for n, arrow in enumerate(read_json(case.FOLDER / "measured" / "others-1.json")["arrows"])}


def test_the_outsiders_twins_are_twins():
    """Sixty, with two genders that differ, and one word that does."""
    rows = case.outsiders()
    assert len(rows) == len(set(rows)) == 120
    for (one, own, other), (two, its, others) in zip(rows[::2], rows[1::2], strict=True):
        assert (own, other) == (others, its)
        assert own != other
        assert {own, other} <= {"m", "f", "n"}
        assert sum(a != b for a, b in zip(words(one), words(two), strict=True)) == 1
        assert words(one.lower()).count("it") == 1


@pytest.mark.parametrize(
    ("source", "german", "genders"),
    [
        ("The boy could not read it.", "Der Junge konnte ihn nicht lesen.", ["m"]),
        ("She bought it.", "Sie kaufte es.", ["n"]),
        ("There was a box, and it was full.", "Es gab eine Kiste, und sie war voll.", ["f"]),
        ("The dog sleeps.", "Der Hund schläft.", []),
    ],
)
def test_genders_of_the_pronouns_that_stand_for_it(source, german, genders):
    assert case.genders_written(source, german) == genders
