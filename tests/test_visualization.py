"""Attention maps, heads that are silenced, and alignments (chapter 80; claims C-V-a to C-V-e and C-4-m)."""

import functools
import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt

from annotated.base.corpus import SentencePair
from annotated.drawing.visualization import (
    IBMModel1,
    attention_maps,
    attentions,
    by_words,
    draw_heads,
    sentence_maps,
    strongest_links,
    word_of_piece,
)
from annotated.interventions import silenced
from annotated.model import Transformer, TransformerConfig
from annotated.search.translation import Translator
from annotated.text.evaluation import antecedent_accuracy
from annotated.text.grammar.splits import embedded_split
from annotated.text.grammar.words import words
from annotated.text.tokenization import Tokenizer, tokenize, train_tokenizer

pytestmark = pytest.mark.slow  # what all of them need takes seconds

SOURCE, TARGET = torch.tensor([[7, 8, 9, 10, 3]]), torch.tensor([[2, 11, 12, 13]])


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=20, d_model=16, d_ff=32, num_heads=4, num_layers=2, dropout=0.0)
    return Transformer(config).eval()


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(Path(__file__).resolve().parents[1] / "data" / "models" / "embedded", device="cpu")


@functools.cache
def maps_of(translator: Translator, pair: SentencePair) -> dict[str, np.ndarray]:
    return sentence_maps(translator.model, translator.tokenizer, pair.source, pair.target)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    pairs = embedded_split("valid")[:60]
    return train_tokenizer([text for pair in pairs for text in (pair.source, pair.target)], 330)


def hooks_of(model: Transformer) -> int:
    return sum(len(module._forward_pre_hooks) + len(module._forward_hooks) for module in model.modules())


def test_maps_are_distributions_and_the_decoder_does_not_look_ahead(model: Transformer):
    maps = attention_maps(model, SOURCE, TARGET)
    assert maps.encoder.shape == (2, 1, 4, 5, 5)
    assert maps.decoder.shape == (2, 1, 4, 4, 4)
    assert maps.cross.shape == (2, 1, 4, 4, 5)
    for weights in (maps.encoder, maps.decoder, maps.cross):
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
    assert maps.decoder.triu(1).abs().max() == 0


def test_maps_are_those_that_the_layers_used(model: Transformer):
    """The output of each cross-attention, computed again from its map and its values."""
    given = []
    modules = attentions(model)["cross"]
    hooks = [
        module.register_forward_hook(lambda module, args, output: given.append((args, output))) for module in modules
    ]
    model(SOURCE, TARGET)
    for hook in hooks:
        hook.remove()
    cross = attention_maps(model, SOURCE, TARGET).cross
    for layer, (module, (args, output)) in enumerate(zip(modules, given, strict=True)):
        values = module.split_heads(module.value(args[1]))
        joined = (cross[layer] @ values).transpose(1, 2).flatten(2)
        torch.testing.assert_close(module.output(joined), output)


def test_padding_gets_no_weight(model: Transformer):
    maps = attention_maps(model, torch.cat([SOURCE, torch.zeros(1, 2, dtype=torch.long)], dim=1), TARGET)
    assert maps.encoder[..., :5, 5:].abs().max() == 0
    assert maps.cross[..., 5:].abs().max() == 0
    torch.testing.assert_close(maps.cross[..., :5], attention_maps(model, SOURCE, TARGET).cross)


def test_pieces_are_counted_to_the_words_they_begin_in(tokenizer: Tokenizer):
    for pair in embedded_split("valid")[:60]:
        for text, target in ((pair.source, False), (pair.target, True)):
            pieces = tokenize(tokenizer, [text], target)[0]
            found = word_of_piece(tokenizer, text, target)
            assert len(found) == len(pieces)
            assert sorted(set(found)) == list(range(len(words(text)) + 1))
            assert found == sorted(found)
            for word, expected in enumerate(words(text)):
                own = [tokenizer.processor.id_to_piece(piece) for piece, at in zip(pieces, found) if at == word]
                assert "".join(own).replace("\u2581", "") == expected


def test_bytes_of_a_character_that_no_piece_has_belong_to_its_word(tokenizer: Tokenizer):
    """Letters that the tokenizer has never seen are several bytes each; the words after them are not moved."""
    text = "The Ωmega 中文 dog."
    pieces = tokenize(tokenizer, [text])[0]
    assert sum(map(tokenizer.processor.is_byte, pieces)) == 2 + 3 + 3
    found = word_of_piece(tokenizer, text)
    own = [at for piece, at in zip(pieces, found) if tokenizer.processor.is_byte(piece)]
    assert own == [1, 1, 2, 2, 2, 2, 2, 2]
    assert found[-2:] == [4, 5]
    assert sorted(set(found)) == [0, 1, 2, 3, 4, 5]


def test_word_maps_sum_keys_and_average_queries():
    weights = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.5, 0.25, 0.25]])
    expected = [[(0.3 + 0.6) / 2, (0.7 + 0.4) / 2], [0.75, 0.25]]
    assert by_words(weights, [0, 0, 1], [0, 0, 1]) == pytest.approx(np.array(expected))


def test_sentence_maps_have_a_row_for_each_word_and_eos(tokenizer: Tokenizer):
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=len(tokenizer), d_model=16, d_ff=32, num_heads=2, num_layers=1, dropout=0.0)
    pair = embedded_split("valid")[0]
    maps = sentence_maps(Transformer(config).eval(), tokenizer, pair.source, pair.target)
    source, target = len(words(pair.source)) + 1, len(words(pair.target)) + 1
    assert {kind: array.shape for kind, array in maps.items()} == {
        "encoder": (1, 2, source, source),
        "decoder": (1, 2, target, target),
        "cross": (1, 2, target, source),
    }
    for array in maps.values():
        assert array.sum(axis=-1) == pytest.approx(1.0, abs=1e-5)
    assert np.triu(maps["decoder"], 2).max() == 0  # a word sees the words before it, and its own first pieces
    assert maps["decoder"][..., 1, 1].min() > 0  # key 1 is the first word


def test_a_silenced_head_is_a_head_whose_output_weights_are_zero(model: Transformer):
    """C-V-d: what an intervention removes is one head's part of the sum, and nothing else."""
    expected = Transformer(model.config).eval()
    expected.load_state_dict(model.state_dict())
    with torch.no_grad():
        expected.encoder.layers[1].self_attention.output.weight[:, 8:12] = 0
        expected.decoder.layers[0].cross_attention.output.weight[:, :4] = 0
    with silenced(model, [("encoder", 1, 2), ("cross", 0, 0)]):
        found = model(SOURCE, TARGET)
    torch.testing.assert_close(found, expected(SOURCE, TARGET))
    assert (found - model(SOURCE, TARGET)).abs().max() > 1e-3
    with pytest.raises(RuntimeError, match="inside"), silenced(model, [("encoder", 0, 0)]):
        raise RuntimeError("inside")
    for head in (-1, 4):
        with pytest.raises(ValueError, match=f"head {head}"), silenced(model, [("encoder", 0, head)]):
            pass
    with pytest.raises(IndexError):
        attention_maps(model, torch.tensor([[99]]), TARGET)
    assert hooks_of(model) == 0


def test_curves_are_as_opaque_as_the_weights():
    """C-V-a: one curve for each weight that is not tiny, in the colour of its head."""
    weights = np.array([[[0.9, 0.1], [0.02, 0.98]], [[0.5, 0.5], [1.0, 0.0]]])
    _, ax = plt.subplots()
    draw_heads(ax, weights, ["a", "b"], ["c", "d"])
    drawn = sorted((line.get_color(), round(line.get_alpha(), 2)) for line in ax.lines)
    assert drawn == [("C0", 0.1), ("C0", 0.9), ("C0", 0.98), ("C1", 0.5), ("C1", 0.5), ("C1", 1.0)]
    _, ax = plt.subplots()
    draw_heads(ax, weights, ["a", "b"], ["c", "d"], only=[1])
    assert [(round(line.get_ydata()[0]), round(line.get_ydata()[-1])) for line in ax.lines] == [(1, 1), (1, 0)]
    assert len({line.get_ydata()[0] for line in ax.lines}) == 2  # heads lie side by side
    assert [(text.get_text(), text.get_fontweight()) for text in ax.texts[:2]] == [("a", "normal"), ("b", "bold")]
    plt.close("all")


def test_strongest_links_leave_out_eos():
    weights = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.2, 0.6, 0.2], [0.9, 0.1, 0.0]])
    assert strongest_links(weights) == [(0, 0), (1, 2)]


TOY = [SentencePair("the house", "das Haus"), SentencePair("the book", "das Buch"), SentencePair("a book", "ein Buch")]


def test_ibm_model_1_is_expectation_maximisation():
    """The same probabilities as loops over dictionaries give, after each number of iterations."""
    both = [(["", *words(pair.source)], [word.lower() for word in words(pair.target)]) for pair in TOY]
    target = sorted({word for _, right in both for word in right})
    table = {(left, right): 1 / len(target) for lefts, _ in both for left in lefts for right in target}
    for iterations in range(1, 4):
        counts: dict[tuple[str, str], float] = dict.fromkeys(table, 0.0)
        for lefts, rights in both:
            for right in rights:
                whole = sum(table[left, right] for left in lefts)
                for left in lefts:
                    counts[left, right] += table[left, right] / whole
        sums = {left: sum(count for (other, _), count in counts.items() if other == left) for left, _ in table}
        table = {(left, right): count / sums[left] for (left, right), count in counts.items()}
        ibm = IBMModel1(TOY, iterations)
        for (left, right), probability in table.items():
            assert math.isclose(ibm.probability(left, right), probability, rel_tol=1e-9)


def test_a_head_looks_at_a_noun_and_often_at_the_wrong_one(translator: Translator):
    """C-V-c, measured: a head gives a noun most of the pronoun's weight; none is near the share of genders decided."""
    pairs = embedded_split("pronoun")[:60]
    right, wrong = [], []
    for i, pair in enumerate(pairs):
        (pronoun, noun), (_, rival) = pair.antecedents[-1], pairs[i ^ 1].antecedents[-1]
        weights = maps_of(translator, pair)["encoder"][:, :, pronoun]
        right.append(weights[:, :, noun])
        wrong.append(weights[:, :, rival])
    assert np.mean(np.add(right, wrong), axis=0).max() > 0.5
    best = np.mean(np.greater(right, wrong), axis=0).max()
    assert 0.5 < best < antecedent_accuracy(translator.translate([pair.source for pair in pairs]), pairs) - 0.15


def test_no_head_leads_from_the_verb_to_its_adjective(translator: Translator):
    """C-V-a, measured: from *make* no head of the encoder gives its adjective more than an equal share and a half."""
    form = re.compile(r"\b(?:make|makes|made) (?:\w+ ){2,5}?(more dangerous|sweeter|saltier)\b")
    given, equal = [], []
    for pair in itertools.chain.from_iterable(map(embedded_split, ("valid", "test", "novel"))):
        for match in form.finditer(pair.source):
            verb, first, end = (len(words(pair.source[:at])) for at in (match.start(), match.start(1), match.end()))
            row = maps_of(translator, pair)["encoder"][:, :, verb]
            given.append(row[..., first:end].sum(axis=-1))
            equal.append((end - first) / row.shape[-1])
    assert len(given) > 30
    assert np.mean(given, axis=0).max() < 1.5 * np.mean(equal)


def test_one_head_leads_from_articles_to_their_nouns(translator: Translator):
    """C-V-d and C-4-m, measured: heads differ, and one of them follows a relation of grammar, not the next word."""
    hits: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for pair in embedded_split("test")[:60]:
        tags = re.findall(r"\((\S+) [^\s()]+\)", pair.tree)
        largest = maps_of(translator, pair)["encoder"].argmax(axis=-1)
        nouns = [at for at, tag in enumerate(tags) if tag.startswith("NN")]
        for at, tag in enumerate(tags):
            noun = next((noun for noun in nouns if noun > at), None)
            if tag == "DT" and noun is not None:
                hits[noun == at + 1].append(largest[:, :, at] == noun)
    near, apart = (np.mean(hits[kind], axis=0) for kind in (True, False))
    best = np.unravel_index(near.argmax(), near.shape)
    assert near[best] > 0.8
    assert near.min() < 0.3
    assert len(hits[False]) > 10
    assert apart[best] > 0.9  # where the next word would be wrong
