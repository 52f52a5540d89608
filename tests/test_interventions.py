"""Interventions on attention: heads silenced, weights and values edited, positions moved (chapter 80)."""

from pathlib import Path

import pytest
import torch

from annotated.batching import make_batch
from annotated.drawing.visualization import attention_maps
from annotated.interventions import attentions, edited, head_means, moved, silenced
from annotated.model import Transformer, TransformerConfig
from annotated.search.beam import beam_search, greedy_search, score_outputs
from annotated.search.translation import Translator
from annotated.text.tokenization import tokenize

SOURCE, TARGET = torch.tensor([[7, 8, 9, 10, 3]]), torch.tensor([[2, 11, 12, 13]])
PLACES = [(kind, layer) for kind in ("encoder", "decoder", "cross") for layer in (0, 1)]


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=20, d_model=16, d_ff=32, num_heads=4, num_layers=2, dropout=0.0)
    return Transformer(config).eval()


def untouched(model: Transformer) -> bool:
    hooks = sum(len(module._forward_pre_hooks) + len(module._forward_hooks) for module in model.modules())
    return hooks == 0 and not any("attend" in vars(module) for module in model.modules())


@torch.no_grad()
@pytest.mark.parametrize("what", ["weights", "values", "outputs"])
def test_an_edit_that_changes_nothing_changes_nothing(model: Transformer, what: str):
    with edited(model, **{what: dict.fromkeys(PLACES, lambda x: x.clone())}):
        found = model(SOURCE, TARGET)
    torch.testing.assert_close(found, model(SOURCE, TARGET))
    assert untouched(model)


@torch.no_grad()
def test_edits_see_what_the_model_itself_makes(model: Transformer):
    maps, seen = attention_maps(model, SOURCE, TARGET), {}
    with edited(model, weights={place: lambda w, place=place: seen.setdefault(place, w) for place in PLACES}):
        model(SOURCE, TARGET)
    for kind, layer in PLACES:
        torch.testing.assert_close(seen[kind, layer], getattr(maps, kind)[layer])


@torch.no_grad()
def test_with_all_its_weights_borrowed_attention_reads_its_own_values(model: Transformer):
    """Weights from another sentence: the attention's result, computed again from that map and these values."""
    other = torch.tensor([[3, 14, 5, 6, 7]])
    borrowed, given = attention_maps(model, other, TARGET).encoder[0], []
    attention = model.encoder.layers[0].self_attention
    with edited(model, weights={("encoder", 0): lambda _: borrowed}):
        hook = attention.register_forward_hook(lambda module, args, output: given.append((args[0], output)))
        model(SOURCE, TARGET)
        hook.remove()
    ((x, output),) = given
    values = attention.split_heads(attention.value(x))
    torch.testing.assert_close(output, attention.output((borrowed @ values).transpose(1, 2).flatten(2)))


@torch.no_grad()
def test_values_of_zero_silence_all_heads(model: Transformer):
    with edited(model, values={("cross", 1): torch.zeros_like}):
        by_values = model(SOURCE, TARGET)
    with silenced(model, [("cross", 1, head) for head in range(4)]):
        by_heads = model(SOURCE, TARGET)
    torch.testing.assert_close(by_values, by_heads)
    assert (by_values - model(SOURCE, TARGET)).abs().max() > 1e-3


@torch.no_grad()
def test_a_mean_is_that_of_all_positions_but_padding(model: Transformer):
    """Of one position, a head's mean is what it puts out there, so silencing by it changes nothing."""
    one = make_batch([([7, 3], [3])])
    means = head_means(model, [one])
    assert {kind: tuple(mean.shape) for kind, mean in means.items()} == dict.fromkeys(attentions(model), (2, 4, 4))
    with silenced(model, [("decoder", 0, 1), ("cross", 1, 2)], by=means):
        found = model(one.source, one.target_input)
    torch.testing.assert_close(found, model(one.source, one.target_input))
    padded = make_batch([([7, 3], [3]), ([8, 9, 10, 3], [11, 12, 3])])
    alone = make_batch([([8, 9, 10, 3], [11, 12, 3])])
    for kind, count in (("encoder", (2, 4)), ("cross", (1, 3))):
        parts = [mean[kind] * n for mean, n in zip((means, head_means(model, [alone])), count, strict=True)]
        torch.testing.assert_close(head_means(model, [padded])[kind], sum(parts) / sum(count))


@pytest.mark.slow
@torch.no_grad()
def test_a_silenced_head_is_silent_in_every_search():
    """The searches with a cache and without one go the same way, which is another one than before."""
    translator = Translator.load(Path(__file__).resolve().parents[1] / "data" / "models" / "embedded", device="cpu")
    model = translator.model
    sentence = "The animal did not cross the street because it was too wide."
    source = torch.tensor(tokenize(translator.tokenizer, [sentence]))
    before = greedy_search(model, source)[0][0].tokens
    with silenced(model, [("encoder", 1, 3), ("decoder", 0, 0), *(("cross", 1, head) for head in range(4))]):
        ways = [greedy_search(model, source, cache=cache)[0][0].tokens for cache in (True, False)]
        ways.append(beam_search(model, source, beam_size=1, length_penalty=0.0)[0][0].tokens)
    assert ways[0] == ways[1] == ways[2] != before
    assert greedy_search(model, source)[0][0].tokens == before


@torch.no_grad()
def test_any_vector_can_be_read_and_replaced(model: Transformer):
    """What another run had at one place, put back there, brings its output; in every search, too."""
    other, seen = torch.tensor([[7, 15, 9, 10, 3]]), {}
    names = ["source_embedding", "encoder.layers.1.around_feed_forward", "encoder"]
    with edited(model, vectors={name: lambda x, name=name: seen.setdefault(name, x) for name in names}):
        expected, free = model(other, TARGET), greedy_search(model, other, limit=4)
    for name in names:
        with edited(model, vectors={name: lambda _, name=name: seen[name]}):
            torch.testing.assert_close(model(SOURCE, TARGET), expected)
            assert greedy_search(model, SOURCE, limit=4) == free
    zeros = {f"decoder.layers.0.{part}": torch.zeros_like for part in ("feed_forward", "self_attention.output")}
    with edited(model, vectors=zeros):
        ways = [greedy_search(model, SOURCE, limit=6, cache=cache)[0][0].tokens for cache in (True, False)]
    assert ways[0] == ways[1]
    assert untouched(model)
    whole = edited(model, vectors={"decoder.layers.0.self_attention": torch.clone})
    with pytest.raises(ValueError, match=r"self_attention\.output"), whole:
        pass


@torch.no_grad()
def test_an_attention_of_one_s_own_is_searched_and_told_from_the_book_s():
    """E4: any `forward(x, memory, mask)`. The searches need no more; maps and edits say what they miss."""

    class Mean(torch.nn.Module):
        def __init__(self, config: TransformerConfig):
            super().__init__()
            self.output = torch.nn.Linear(config.d_model, config.d_model)

        def forward(self, x: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            seen = mask.squeeze(1).expand(len(x), x.shape[1], -1).to(x)
            return self.output(seen @ memory / seen.sum(-1, keepdim=True))

    torch.manual_seed(0)
    model = Transformer(TransformerConfig(20, 16, 32, 4, 2, dropout=0.0), attention=Mean).eval()
    source = torch.tensor([[7, 8, 9, 3], [5, 3, 0, 0]])
    for row, found in enumerate(beam_search(model, source, limit=7, n_best=3)):
        for one in found:
            (total,) = score_outputs(model, source[row : row + 1], torch.tensor([one.tokens])).tolist()
            assert one.log_probability == pytest.approx(total, abs=1e-4)
    for broken in (
        lambda: attention_maps(model, SOURCE, TARGET),
        lambda: edited(model, weights={("cross", 0): torch.clone}).__enter__(),
        lambda: silenced(model, [("encoder", 0, 1)]).__enter__(),
    ):
        with pytest.raises(ValueError, match="Mean has no"):
            broken()


def test_what_is_edited_already_is_named_and_all_is_put_back(model: Transformer):
    with (
        edited(model, weights={("cross", 0): torch.clone}),
        pytest.raises(ValueError, match="cross, layer 0: is being edited"),
        silenced(model, [("encoder", 0, 1), ("cross", 0, 1)]),
    ):
        pass
    assert untouched(model)
    with pytest.raises(IndexError), edited(model, values={("encoder", 0): torch.clone, ("encoder", 5): torch.clone}):
        pass
    assert untouched(model)


@torch.no_grad()
def test_positions_are_counted_from_the_offset(model: Transformer):
    before = model(SOURCE, TARGET)
    with moved(model, 3):
        zeros = torch.zeros(1, 2, 16)
        assert torch.equal(model.source_positions(zeros), model.target_positions(zeros))
        later = model.source_positions(zeros)
        changed = model(SOURCE, TARGET)
    assert torch.equal(later, model.source_positions(zeros, 3))
    assert (changed - before).abs().max() > 1e-3
    assert torch.equal(model(SOURCE, TARGET), before)
    assert untouched(model)
