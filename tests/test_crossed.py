"""What is asked again of the case: `tools.crossed`, on forty sentences of the shipped model, and on planted answers."""

import pytest
import torch

from annotated.base.files import read_json
from annotated.search.translation import Translator
from annotated.text.grammar.splits import embedded_split
from annotated.text.grammar.words import words
from tools import case, crossed

COUNT = 40


@pytest.fixture(scope="module")
def shipped():
    return Translator.load("embedded", "cpu", accelerated=False)


@pytest.fixture(scope="module")
def task(shipped):
    with torch.no_grad():
        yield crossed.Crossed(shipped.model, shipped.tokenizer, embedded_split("pronoun")[:COUNT])


def test_what_the_pronoun_s_place_hears_is_what_the_decoder_would_hear(task):
    """With nothing changed the model's own choice; without a word the choice of the whole decoder without it."""
    assert torch.equal(task.heard({}), task.sound)
    lost = task.tokens("it")
    with case.edited(task.model, weights={("cross", 1): case.partial(case.without, lost[:, None])}):
        told = task.told(task.heard({}))
    whole = case.cut(task, [case.gone(task, ("cross", 2, "it", "pronoun"))])
    assert [told["right"]["all"][0], told["twin's"]["all"][0]] == [share for share, _ in whole]


def test_a_model_that_always_names_the_first_noun_is_found_out(task):
    """Half of it is right, without any scatter, and that says nothing: by place it is all or nothing."""
    first = torch.where(task.second.bool(), task.own[task.twins], task.own)
    told = task.told(first)
    assert told["right"] == {"all": [0.5, 0.0], "1st": [1.0, 0.0], "2nd": [0.0, 0.0]}
    assert told["pairs"] == {"first": COUNT // 2, "second": 0, "right": 0, "exchanged": 0, "neither": 0}


def test_every_pair_is_counted_as_what_it_is(task):
    third = task.genders.sum() - task.own - task.own[task.twins]
    planted = task.own.clone()
    planted[2:4] = task.own[[3, 2]]
    planted[5] = third[5]
    planted[6:8] = task.own[6]
    told = task.told(planted)
    assert told["pairs"]["exchanged"] == told["pairs"]["neither"] == 1
    assert told["pairs"]["first"] + told["pairs"]["second"] == 1
    assert told["pairs"]["right"] == COUNT // 2 - 3
    assert task.told(third, wanted=[third])["turned"]["all"][0] == task.told(third)["neither"]["all"][0] == 1


def test_a_mean_is_over_the_same_kind_of_word_in_other_pairs(task):
    kinds = task.kinds[:, :, None].float()
    assert torch.allclose(task.mean(kinds)[task.real], kinds[task.real], atol=1e-4)
    pairs = torch.nn.functional.one_hot(torch.arange(COUNT) // 2)[:, None].expand(-1, task.kinds.shape[1], -1).float()
    mean = task.mean(pairs)
    assert (mean * pairs)[task.real].abs().max() == 0
    assert torch.allclose(mean[task.real].sum(dim=-1), torch.ones(int(task.real.sum())), atol=1e-5)


def test_a_donor_is_a_word_of_the_same_kind_in_another_pair(task):
    donors, width = task.donors(0), task.kinds.shape[1]
    real = task.real.flatten()
    assert torch.equal(task.kinds.flatten()[donors], task.kinds.flatten())
    assert (donors // width // 2 != torch.arange(len(donors)) // width // 2)[real].all()


def test_a_change_that_all_words_let_pass_is_the_change_itself(task, shipped):
    """The noun's row with another gender: through all words at both doors the pronoun follows."""
    found = crossed.passed(task, shipped.tokenizer, embedded_split("pronoun")[:COUNT])
    assert found["both"]["all"]["third"]["turned"]["all"][0] > 0.9
    assert found["both"]["second article"]["third"]["turned"]["all"][0] == 0


def test_what_is_rerouted_stays_so_for_one_choice(task):
    """Ways that change nothing change no choice, and nothing of a way stays behind."""
    same = {0: lambda outputs, *_: outputs, 1: lambda _, weights, values: weights @ values}
    assert torch.equal(crossed.rerouted(task, same), task.sound)
    silent = {1: lambda outputs, *_: outputs * 0}
    assert not torch.equal(crossed.rerouted(task, silent), task.sound)
    assert torch.equal(task.encoded()[0], task.memory)


def test_parts_add_up_to_what_a_head_puts_out():
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(2, 3, 4, 5, generator=generator)
    values = torch.rand(2, 3, 5, 6, generator=generator)
    tokens = torch.tensor([[True, False, True, False, False], [False, False, True, True, True]])
    parts = crossed.part(weights, values, tokens) + crossed.part(weights, values, ~tokens)
    assert torch.allclose(parts, weights @ values, atol=1e-6)


def test_all_weights_and_values_of_the_twin_make_the_twin_s_choice(task):
    found = crossed.borrowed(task)
    assert found["everything: weights and values"]["twin's"] == found["nothing"]["right"]


def test_every_token_but_the_pronoun_is_counted_once(task, shipped):
    found = crossed.wrong_tokens(task, shipped.tokenizer, embedded_split("pronoun")[:COUNT])
    real = task.wanted != task.model.config.pad_id
    assert sum(count for _, count in found.values()) == int(real.sum()) - COUNT


def test_a_network_reads_what_no_straight_line_does():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(900, 6, generator=generator)
    answers = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).long()
    known, asked = slice(600), slice(600, 900)
    bent = crossed.network(x[known], answers[known], x[asked], seed=0)
    straight = case.probe(x[known], answers[known], x[asked])
    assert (bent == answers[asked]).float().mean() > 0.85
    assert (straight == answers[asked]).float().mean() < 0.65


def test_the_clause_in_front():
    pair = crossed.fronted(embedded_split("pronoun")[1])
    assert pair.source == "If it was too wide, the animal did not cross the street."
    assert pair.target == "Wenn sie zu breit war, überquerte das Tier die Straße nicht."
    assert [words(pair.source)[word] for word in pair.antecedents[0]] == ["it", "street"]
    assert pair.tree.count("(") == len(words(pair.source)) + 1


def test_a_translation_is_sound_when_only_the_gender_is_wrong_and_its_twin_s_is_too():
    pairs = [crossed.fronted(pair) for pair in embedded_split("pronoun")[:4]]
    written = [pair.target for pair in pairs]
    assert crossed.sound(pairs, written) == pairs
    assert crossed.sound(pairs, [written[0].replace(" es ", " er "), *written[1:]]) == pairs
    assert crossed.sound(pairs, [written[0].replace(" es ", " das "), *written[1:]]) == pairs[2:]
    assert crossed.sound(pairs, [*written[:3], written[3] + " Und"]) == pairs[:2]


@pytest.mark.slow
def test_the_record_is_of_the_shipped_model(shipped):
    """What the chapters quote comes back: who the second witness is."""
    found = read_json(case.FOLDER / "measured" / "crossed-1.json")
    with torch.no_grad():
        whole = crossed.Crossed(shipped.model, shipped.tokenizer, embedded_split("pronoun")[: found["sentences"]])
        for name in ("not it", "not first article", "only it"):
            with case.edited(
                shipped.model,
                weights={("cross", 1): case.partial(case.without, crossed.openings(whole)[name][:, None])},
            ):
                told = whole.told(whole.heard({}))
            for place in ("1st", "2nd"):
                again, recorded = (one["right"][place][0] for one in (told, found["hidden"]["door 2"][name]["cut"]))
                assert again == pytest.approx(recorded, abs=0.007)
