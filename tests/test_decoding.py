"""Decoding step by step, greedy and beam search (chapter 60), against slower ways to the same result."""

import copy
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

import pytest
import torch

from annotated.attention import MultiHeadAttention
from annotated.base.files import InputError
from annotated.batching import make_batch, pad_sequences
from annotated.decoding import (
    DecodingState,
    KeyValueCache,
    KeyValues,
    decoding_step,
    length_penalty,
    output_limits,
    plain_beam_search,
    plain_greedy_search,
    start_decoding,
)
from annotated.masks import causal_mask
from annotated.model import Transformer, TransformerConfig
from annotated.search.beam import (
    PENALTIES,
    STOPS,
    beam_search,
    extend,
    first_beam,
    greedy_search,
    keep_unfinished,
    score_outputs,
)
from annotated.training import training_loss
from tests.fused import FusedOnCPU
from tests.models import SHAPES, SMALL, randomised, tokens

PAD, UNK, BOS, EOS = range(4)
DIVISORS = {  # the formulas of PENALTIES
    "gnmt": lambda length, alpha: math.exp(alpha * (math.log(5 + length) - math.log(6))),
    "power": lambda length, alpha: math.exp(alpha * math.log(length)),
}
SIZES = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 2, "dropout": 0.0}


def random_model(vocab_size: int = 13, seed: int = 0, sharpness: float = 3.0, **changes) -> Transformer:
    """An untrained model; `sharpness` spreads its logits, so that its choices are not all alike."""
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(vocab_size, **SIZES | {"tie_output": False} | changes)).eval()
    with torch.no_grad():
        model.output.weight.mul_(sharpness)
    return model


def never_ending(model: Transformer) -> Transformer:
    """The model with an end that it almost never chooses."""
    model.output.bias = torch.nn.Parameter(torch.zeros(model.config.vocab_size))
    with torch.no_grad():
        model.output.bias[EOS] = -1e4
    return model


def random_sources(count: int, vocab_size: int = 13, seed: int = 0, longest: int = 9) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    return [[*torch.randint(4, vocab_size, (n,), generator=generator).tolist(), EOS] for n in lengths]


@pytest.fixture(scope="module")
def copier() -> Transformer:
    """A model that has begun to learn to repeat its input: it ends its outputs, and is unsure of some tokens."""
    model = random_model(sharpness=1.0, num_layers=1, d_model=32, d_ff=64).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(120):
        examples = [(source, source) for source in random_sources(32, seed=1000 + step)]
        optimizer.zero_grad()
        training_loss(model, make_batch(examples), 0.1).backward()
        optimizer.step()
    return model.eval()


def padded(sources: list[list[int]]) -> torch.Tensor:
    return pad_sequences(sources, PAD)


def every_output(
    model: Transformer,
    source: torch.Tensor,
    limit: int,
    alpha: float,
    lp: Callable[[int, float], float] = length_penalty,
) -> list[tuple[float, list[int]]]:
    """All outputs that end in eos or have `limit` tokens, scored one by one by teacher forcing, best first."""
    words = [token for token in range(model.config.vocab_size) if token not in (PAD, BOS, EOS)]
    outputs = [[*body, EOS] for n in range(limit) for body in itertools.product(words, repeat=n)]
    outputs += map(list, itertools.product(words, repeat=limit))
    totals = score_outputs(model, source.expand(len(outputs), -1), padded(outputs)).tolist()
    scored = [(t / lp(len(o), alpha), o) for t, o in zip(totals, outputs, strict=True)]
    return sorted(scored, reverse=True)


# Keys and values


def test_cache_appends_and_returns_all_so_far():
    cache = KeyValueCache(torch.full((2, 3, 6, 4), math.nan), torch.full((2, 3, 6, 5), math.nan))
    keys, values = torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 5)
    start = 0
    for end in (1, 3, 6):
        known = cache.append(KeyValues(keys[:, :, start:end], values[:, :, start:end]))
        assert torch.equal(known.keys, keys[:, :, :end])
        assert torch.equal(known.values, values[:, :, :end])
        start = end
    with pytest.raises(ValueError, match="6 positions"):
        cache.append(KeyValues(keys[:, :, :1], values[:, :, :1]))
    assert cache.length == 6


@pytest.mark.parametrize("kind", [MultiHeadAttention, FusedOnCPU])
def test_cached_steps_equal_one_masked_pass(kind):
    block, x = kind(8, 2, d_k=3, d_v=5).double(), torch.randn(2, 6, 8).double()
    cache = KeyValueCache(torch.randn(2, 2, 6, 3).double(), torch.randn(2, 2, 6, 5).double())
    steps = []
    with torch.no_grad():
        for i in range(6):
            query, *new = block.project(x[:, i : i + 1], x[:, i : i + 1])
            steps.append(block.attend(query, *cache.append(KeyValues(*new)), None))
        torch.testing.assert_close(torch.cat(steps, dim=1), block(x, x, causal_mask(6)))


# Step by step


@pytest.mark.slow
@pytest.mark.parametrize("shape", list(SHAPES))
def test_cached_steps_equal_the_full_pass(shape: str) -> None:
    """C-3-c: one token at a time gives the logits of the pass over the whole prefix, in a padded batch too."""
    model = randomised(replace(SMALL, **SHAPES[shape]))
    source, target = tokens(3, 6, 1), tokens(3, 9, 2)
    source[1, 3:] = 0
    target[:, 0] = SMALL.start_id
    with torch.no_grad():
        state = start_decoding(model, source, width=1, capacity=9)
        steps = torch.cat([decoding_step(model, target[:, i : i + 1], state) for i in range(9)], dim=1)
        torch.testing.assert_close(steps, model(source, target), rtol=1e-5, atol=2e-5)
    assert state.step == 9


@pytest.mark.slow
def test_hypotheses_follow_their_parents() -> None:
    """After changes of places, and with sentences dropped, each hypothesis sees its own past and no other's."""
    model, width, random = randomised(SMALL), 3, torch.Generator().manual_seed(4)
    source = tokens(3, 6, 1)
    source[2, 4:] = 0
    rows = torch.arange(3)
    with torch.no_grad():
        state: DecodingState = start_decoding(model, source, width, capacity=6)
        past = torch.full((3, width, 1), SMALL.start_id)
        for step in range(6):
            logits = decoding_step(model, past[:, :, -1], state)
            for row, sentence in enumerate(rows.tolist()):
                full = model(source[[sentence] * width], past[row])[:, -1]
                torch.testing.assert_close(logits[row], full, rtol=1e-5, atol=2e-5)
            parents = torch.randint(0, width, (len(rows), width), generator=random)
            state.reorder(parents)
            new = torch.randint(4, 40, (len(rows), width, 1), generator=random)
            past = torch.cat([past.gather(1, parents[:, :, None].expand_as(past)), new], dim=2)
            if step == 2:
                kept = torch.tensor([0, 2])
                state.select(kept)
                past, rows = past[kept], rows[kept]


def test_a_start_symbol_that_is_also_padding_is_not_hidden():
    """Marian starts with its pad token (chapter 90): the first place counts, whatever stands there."""
    torch.manual_seed(0)
    model = Transformer(replace(SMALL, start_id=SMALL.pad_id)).eval()
    source = torch.tensor([[5, 6, 3]])
    target = torch.tensor([[SMALL.pad_id, 7, 8]])
    with torch.inference_mode():
        state = start_decoding(model, source, 1, 3)
        steps = [decoding_step(model, target[:, i : i + 1], state)[0, 0] for i in range(3)]
        assert torch.allclose(model(source, target)[0], torch.stack(steps), atol=1e-5)


def test_steps_hide_the_configured_pad():
    """`pad_id` is the configuration's, not always 0."""
    model = randomised(replace(SMALL, pad_id=9))
    with torch.no_grad():
        padded, short = (
            decoding_step(model, torch.tensor([[2]]), start_decoding(model, source, width=1, capacity=1))
            for source in (torch.tensor([[5, 6, 9, 9]]), torch.tensor([[5, 6]]))
        )
    torch.testing.assert_close(padded, short, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PENALTIES)
def test_penalty_is_the_named_function(name):
    """E-10, C-6.1-g: lp(Y) = ((5 + |Y|) / 6)^alpha; and the divisor of other systems."""
    assert name in DIVISORS, f"penalty {name!r} has no formula to compare with: add it to DIVISORS in this file"
    for length, alpha in itertools.product((1, 2, 17, 60), (0.0, 0.6, 1.0)):
        assert PENALTIES[name](length, alpha) == pytest.approx(DIVISORS[name](length, alpha))


# Beam search


@pytest.mark.slow
@pytest.mark.parametrize(("penalty", "alpha"), [("gnmt", 0.0), ("gnmt", 0.6), ("power", 1.0)])
def test_full_width_beam_search_is_exhaustive_search(penalty, alpha):
    """C-6.1-g: with room for every prefix the beam finds the best of all outputs, and ranks all of them right."""
    for seed in range(2):
        model = random_model(7, seed)
        source = padded(random_sources(1, 7, seed))
        limit = 4
        best = every_output(model, source, limit, alpha, PENALTIES[penalty])
        options = {"beam_size": 4**limit, "length_penalty": alpha, "penalty": penalty, "limit": limit}
        (ranked,) = beam_search(model, source, n_best=20, **options)
        assert ranked[0].tokens == best[0][1]
        assert [h.score for h in ranked] == pytest.approx([score for score, _ in best[:20]], abs=1e-4)


class RowOfPosition(torch.nn.Module):
    """The output of a model in which only positions count: the row of logits that belongs to each."""

    def __init__(self, steps: list[dict[int, float]]):
        super().__init__()
        self.rows = torch.full((len(steps), 13), math.log(1e-5))
        for row, probabilities in zip(self.rows, steps, strict=True):
            for token, probability in probabilities.items():
                row[token] = math.log(probability)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rows[x.argmax(dim=-1)]


def scripted_model(*steps: dict[int, float]) -> Transformer:
    """Its next-token probabilities are those of `steps`, whatever the prefix."""
    options = {"positions": "learned", "max_length": 64, "norm_first": True, "dropout": 0.0}
    model = Transformer(TransformerConfig(13, d_model=64, d_ff=8, num_heads=1, num_layers=1, **options)).eval()
    model.target_positions.weight.data = 1000 * torch.eye(64)
    model.output = RowOfPosition(steps)
    return model


def test_search_does_not_stop_before_a_longer_output_can_win():
    """C-6.1-h: "earlier where possible" does not cost the best hypothesis; the bound uses the penalty at the limit.

    The first step offers the end with probability 0.55 and a 7 with 0.4; after that 7 is almost certain. With alpha 1
    the longest output wins, although for some steps no prefix scores as well as the short output.
    """
    model = scripted_model({EOS: 0.55, 7: 0.4}, *[{7: 0.999}] * 8, {EOS: 0.999})
    source = padded(random_sources(1))
    ((best,),) = beam_search(model, source, beam_size=4, length_penalty=1.0, extra=10 - source.shape[1])
    assert best.tokens == [7] * 9 + [EOS]
    assert plain_beam_search(model, source, 4, 1.0, 10 - source.shape[1]).tokens == best.tokens


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_stumps_do_not_end_the_search(alpha):
    """C-6.1-h: poor endings may fill the list while a prefix leads; nobody waits for the limit once it has ended."""
    model = scripted_model(*[{7: 0.9, EOS: 0.09}] * 5, *[{EOS: 0.95}] * 3)  # a ninth step would be an IndexError
    for width in (1, 2, 4):
        ((best,),) = beam_search(model, padded(random_sources(1)), beam_size=width, length_penalty=alpha)
        assert best.tokens == [7] * 5 + [EOS]
        assert plain_beam_search(model, padded(random_sources(1)), width, alpha).tokens == best.tokens


def test_the_beam_stays_full_when_hypotheses_end():
    """Of 2 x width candidates at least width go on, however many of the best ones end."""
    model = random_model()
    model.output.bias = torch.nn.Parameter(torch.zeros(13))
    with torch.no_grad():
        model.output.bias[EOS] = 20.0
        source, width = padded(random_sources(3)), 4
        beam, state = first_beam(model, source, width), start_decoding(model, source, width, 5)
        for _ in range(3):
            continuations = extend(model, beam, state)
            keep_unfinished(model, beam, continuations, state)
            assert beam.log_probabilities.isfinite().all()
            assert not (beam.tokens == EOS).any()
    assert (continuations[2][:, :width] == EOS).all()  # the likeliest continuations did end


@pytest.mark.slow
def test_beam_of_one_is_greedy_search(copier):
    for model in (copier, random_model()):
        sources = random_sources(8, seed=2)
        greedy = greedy_search(model, padded(sources), extra=8)
        beam = beam_search(model, padded(sources), beam_size=1, extra=8)
        for source, (one,), (other,) in zip(sources, greedy, beam, strict=True):
            plain = plain_beam_search(model, torch.tensor([source]), width=1, alpha=0.0, extra=8)
            assert one.tokens == other.tokens == plain.tokens
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)


@pytest.mark.slow
def test_a_sentence_alone_and_in_any_batch_give_the_same(copier):
    """Neither padding nor neighbours that finish sooner or later change an output."""
    sources = random_sources(11, seed=4)
    together = beam_search(copier, padded(sources), n_best=3, extra=8)
    backwards = beam_search(copier, padded(sources[::-1]), n_best=3, extra=8)[::-1]
    for source, first, second in zip(sources, together, backwards, strict=True):
        (alone,) = beam_search(copier, torch.tensor([source]), n_best=3, extra=8)
        for other in (first, second):
            assert [h.tokens for h in other] == [h.tokens for h in alone]
            assert [h.score for h in other] == pytest.approx([h.score for h in alone], abs=1e-4)


def test_sentences_leave_the_batch_a_fifth_at_a_time(copier, monkeypatch):
    """The caches are copied rarely, and rows that wait to be dropped are not searched any further."""
    sizes = []
    select = DecodingState.select

    def counted(state, *given):
        sizes.append((len(state.source_mask), len(given[0])))
        select(state, *given)

    monkeypatch.setattr(DecodingState, "select", counted)
    sources = [[4 + i % 9] * (1 + i) + [EOS] for i in range(10)]
    results = beam_search(copier, padded(sources), beam_size=2)
    assert len(sizes) > 1
    assert all(after <= 0.8 * before for before, after in sizes)
    assert sizes[-1][1] == 0
    assert all(1 <= len(hypotheses) <= 2 for hypotheses in results)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_hypotheses_are_sorted_distinct_and_scored_as_by_teacher_forcing(copier, alpha):
    """E-10: a score is log P(Y | X) / lp(Y), and log P is what one pass over the finished output gives."""
    source = padded(random_sources(6, seed=9))
    for row, hypotheses in enumerate(beam_search(copier, source, beam_size=5, n_best=5, length_penalty=alpha)):
        outputs = padded([h.tokens for h in hypotheses])
        totals = score_outputs(copier, source[row : row + 1].expand(len(outputs), -1), outputs).tolist()
        assert len({tuple(h.tokens) for h in hypotheses}) == 5
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for hypothesis, total in zip(hypotheses, totals, strict=True):
            assert hypothesis.tokens.index(EOS) == len(hypothesis.tokens) - 1
            assert not {PAD, BOS} & set(hypothesis.tokens)
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-4)
            assert hypothesis.score == pytest.approx(total / length_penalty(len(hypothesis.tokens), alpha), abs=1e-4)


@pytest.mark.slow
def test_only_what_is_allowed_is_written(copier):
    """Each sentence follows its own rule, also after others have left; scores stay those of the model.

    The rules: write your own number n, then n times token 5 or 6, and end.
    """
    sources = random_sources(8, seed=3)

    def rescore(row: int, prefix: list[int], scores: torch.Tensor) -> torch.Tensor:
        allowed = [4 + row] if not prefix else [5, 6] if len(prefix) <= row else [EOS]
        return torch.full_like(scores, -math.inf).index_copy(0, torch.tensor(allowed), scores[allowed])

    results = beam_search(copier, padded(sources), beam_size=4, n_best=2, length_penalty=0.0, rescore=rescore)
    for row, hypotheses in enumerate(results):
        bodies = [[4 + row, *body, EOS] for body in itertools.product((5, 6), repeat=row)]
        source = padded([sources[row]]).expand(len(bodies), -1)
        totals = score_outputs(copier, source, padded(bodies)).tolist()
        found = {tuple(h.tokens): h.log_probability for h in hypotheses}
        known = {tuple(body): total for body, total in zip(bodies, totals, strict=True)}
        assert found.keys() <= known.keys()
        assert all(total == pytest.approx(known[tokens], abs=1e-4) for tokens, total in found.items())
        if row <= 2:  # no more outputs than the beam has places
            assert max(found.values()) == pytest.approx(max(totals), abs=1e-4)


def test_everything_allowed_changes_nothing(copier):
    source = padded(random_sources(6, seed=4))
    free = beam_search(copier, source)
    assert beam_search(copier, source, rescore=lambda row, prefix, scores: scores, gain=0.0) == free


# The plain forms


def confident(seed: int, **changes) -> Transformer:
    """A random model with large logits, so that hypotheses differ by more than rounding."""
    return random_model(9, seed, 6.0, **changes)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"norm_first": True}, {"positions": "learned", "output_bias": True}], ids=str)
def test_greedy_search_is_the_plain_one(changes):
    """Batch and cache change nothing; each sentence gives what the loop gives, and what teacher forcing gives."""
    model, sources = confident(0, **changes), random_sources(5, 9)
    for extra, cache in ((0, False), (7, True), (7, False)):
        found = greedy_search(model, padded(sources), extra=extra, cache=cache)
        for source, (hypothesis,) in zip(sources, found, strict=True):
            plain = plain_greedy_search(model, torch.tensor([source]), extra)
            tokens, total = plain.tokens, plain.score
            assert hypothesis.tokens == tokens
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-4)
            logits = model(torch.tensor([source]), torch.tensor([[BOS, *tokens[:-1]]]))
            logits[..., [PAD, BOS]] = -math.inf
            assert logits.argmax(-1)[0].tolist() == tokens


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "end", "width", "alpha"), [(0, 0.0, 2, 0.6), (1, 0.0, 4, 1.0), (2, 4.0, 6, 0.0), (3, 6.0, 4, 0.6)]
)
def test_beam_search_is_the_plain_one(seed, end, width, alpha):
    """Neither the batch, the cache, nor the bound that ends a search early changes what it finds.

    `end` makes the end likelier: outputs of many lengths then compete.
    """
    model, sources = confident(seed, output_bias=True), random_sources(4, 9, seed)
    with torch.no_grad():
        model.output.bias[EOS] = end
    found = beam_search(model, padded(sources), beam_size=width, length_penalty=alpha, extra=6)
    for source, (hypothesis,) in zip(sources, found, strict=True):
        plain = plain_beam_search(model, torch.tensor([source]), width, alpha, extra=6)
        assert hypothesis.tokens == plain.tokens
        assert hypothesis.score == pytest.approx(plain.score, abs=1e-4)
        assert hypothesis.log_probability == pytest.approx(plain.log_probability, abs=1e-4)


# Limits


@pytest.mark.slow
def test_outputs_are_at_most_fifty_tokens_longer_than_the_source():
    """C-6.1-h: a model that never ends stops at source length + 50, each sentence at its own limit.

    It stops earlier where the model's positions end, or where a limit replaces the rule.
    """
    model = never_ending(random_model())
    sources = random_sources(3, seed=6)
    source = padded(sources)
    fifty = [len(one) + 50 for one in sources]
    wanted = [
        ({}, fifty),
        ({"extra": 3}, [length - 47 for length in fifty]),
        ({"limit": 7}, [7, 7, 7]),
        ({"limit": 10**6}, [model.config.max_length] * 3),
    ]
    for options, lengths in wanted:
        assert output_limits(model, source, **options).tolist() == lengths
    for options, lengths in wanted[:3]:
        assert [len(h.tokens) for (h,) in greedy_search(model, source, **options)] == lengths
        for width in (1, 3):
            assert [len(h.tokens) for (h,) in beam_search(model, source, beam_size=width, **options)] == lengths
    short = never_ending(random_model(positions="learned", max_length=12))
    assert [len(h.tokens) for (h,) in greedy_search(short, source)] == [12, 12, 12]
    assert [len(best.tokens) for (best,) in beam_search(short, source)] == [12, 12, 12]


@pytest.mark.slow
def test_at_the_limit_unfinished_hypotheses_compete_by_their_score():
    """A finished output of -2.3 does not come before an unfinished one of -0.03."""
    model = never_ending(random_model())
    for hypotheses in beam_search(model, padded(random_sources(4)), n_best=4, extra=3):
        assert len(hypotheses) == len({tuple(h.tokens) for h in hypotheses}) == 4
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
    source = padded(random_sources(1))
    for n_best, extra in itertools.product((1, 4), (1, 5)):
        model = scripted_model(*[{7: 0.9, EOS: 0.1}] * (source.shape[1] + extra))
        (found,) = beam_search(model, source, n_best=n_best, extra=extra, length_penalty=1.0)
        assert found[0].tokens == [7] * (source.shape[1] + extra)
        assert plain_beam_search(model, source, 4, 1.0, extra).tokens == found[0].tokens
    assert [h.tokens[-1] == EOS for h in found] == [False, True, True, True]


# One best


def small_search(seed: int) -> tuple[Transformer, torch.Tensor, dict]:
    """A tiny model whose weights are large enough for surprises, sources, and settings of a search."""
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(8, d_model=8, d_ff=8, num_heads=1, num_layers=1, dropout=0.0)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight *= 1.5
    draw = Random(seed)
    options = {"beam_size": draw.randint(2, 5), "limit": draw.randint(2, 12), "penalty": draw.choice(list(PENALTIES))}
    options |= {"length_penalty": draw.choice((-1.0, -0.3, 0.0, 0.6, 1.0, 2.0)), "min_length": draw.choice((0, 0, 2))}
    return model, padded(random_sources(3, vocab_size=8, seed=seed)), options


def bonus(row: int, tokens: list[int], scores: torch.Tensor) -> torch.Tensor:
    """A rule that pays for a 5, and not for the same twice."""
    return scores.index_add(0, torch.tensor([5]), torch.tensor([0.0 if 5 in tokens else 2.0 + row]))


@pytest.mark.slow
@pytest.mark.parametrize("rescore", [None, bonus])
@pytest.mark.parametrize("stop", STOPS)
def test_the_first_output_is_the_same_for_every_n_best(stop, rescore):
    """With powers, negative penalties, bonuses and a least length, and by every rule for stopping."""
    for seed in range(8):
        model, source, options = small_search(seed)
        options |= {"stop": stop, "rescore": rescore}
        ranked = beam_search(model, source, n_best=options["beam_size"], **options)
        for n_best in range(1, options["beam_size"]):
            for some, every in zip(beam_search(model, source, n_best=n_best, **options), ranked, strict=True):
                assert [h.tokens for h in some] == [h.tokens for h in every[: len(some)]], (seed, n_best)


@pytest.mark.slow
@pytest.mark.parametrize(("rescore", "gain"), [(None, None), (bonus, 4.0)])
def test_a_search_that_stops_by_its_bound_misses_nothing(rescore, gain):
    """Whoever goes on to the limit finds nothing better; `gain` is the most that the rule adds."""
    earlier = 0
    for seed in range(25):
        model, source, options = small_search(seed)
        steps = []

        def start(*arguments, steps=steps):
            state = start_decoding(*arguments)
            usual = state.next_logits
            state.next_logits = lambda *step: (steps.append(len(step[1])), usual(*step))[1]
            return state

        found = beam_search(model, source, start=start, rescore=rescore, gain=gain, **options)
        taken = len(steps)
        whole = beam_search(model, source, start=start, rescore=rescore, gain=math.inf, **options)
        earlier += taken < len(steps) - taken
        for (one,), (other,) in zip(found, whole, strict=True):
            assert (one.tokens, one.score) == (other.tokens, pytest.approx(other.score, abs=1e-5))
    assert earlier >= 2


def test_a_bonus_that_comes_late_is_found():
    """Eos has .6 and A .4; B after A brings 2. A search that trusted the model's bound would write eos."""
    model, source = scripted_model({EOS: 0.6, 7: 0.4}, {8: 0.99}, {EOS: 0.99}, {EOS: 0.99}), padded(random_sources(1))

    def rescore(row: int, tokens: list[int], scores: torch.Tensor) -> torch.Tensor:
        return scores + 2.0 * torch.nn.functional.one_hot(torch.tensor(8), 13) * (tokens == [7])

    options = {"beam_size": 2, "length_penalty": 0.0, "limit": 3, "rescore": rescore}
    assert beam_search(model, source, **options)[0][0].tokens == [7, 8, EOS]
    assert beam_search(model, source, gain=2.0, **options)[0][0].tokens == [7, 8, EOS]
    assert beam_search(model, source, gain=0.0, **options)[0][0].tokens == [EOS]


def test_nothing_allowed_is_an_error():
    """A rule that forbids everything gets no empty output, in either search."""
    source = padded(random_sources(2))

    def forbidden(row: int, tokens: list[int], scores: torch.Tensor) -> torch.Tensor:
        return torch.full_like(scores, -math.inf) if row == 1 and tokens else scores

    for n_best in (1, 3):
        with pytest.raises(ValueError, match="sentence 2: rescore allows no output"):
            beam_search(never_ending(random_model()), source, n_best=n_best, rescore=forbidden, extra=3)
    with pytest.raises(ValueError, match="rescore allows nothing more"):
        greedy_search(never_ending(random_model()), source, rescore=forbidden, extra=3)


def test_rules_for_stopping_differ_where_they_should():
    """`first` ends when the beam is full of outputs, `heuristic` when no prefix, ended now, would win."""
    model = scripted_model({EOS: 0.55, 7: 0.4}, {EOS: 0.3, 7: 0.6}, *[{7: 0.999}] * 8, {EOS: 0.999})
    source, options = (
        padded(random_sources(1)),
        {"beam_size": 2, "length_penalty": 1.5, "penalty": "power", "limit": 11},
    )
    found = {stop: beam_search(model, source, stop=stop, **options)[0][0].tokens for stop in STOPS}
    assert found == {"bound": [7] * 10 + [EOS], "heuristic": [7] * 10 + [EOS], "first": [EOS]}
    model = scripted_model({EOS: 0.6, 7: 0.3}, {EOS: 0.5, 7: 0.3}, *[{7: 0.999}] * 8, {EOS: 0.999})
    options["length_penalty"] = 2.0
    found = {stop: beam_search(model, source, stop=stop, **options)[0][0].tokens for stop in STOPS}
    assert found["bound"] == [7] * 10 + [EOS]
    assert found["heuristic"] != found["bound"]


# What may be written


@pytest.mark.slow
def test_outputs_begin_with_their_prefixes(copier):
    """Each sentence with its own, none or long; scores count the prefix, and the best follows it."""
    sources, prefixes = random_sources(5, seed=5), [[], [5], [7, 8, 9], [4, 4], []]
    results = beam_search(copier, padded(sources), prefixes=prefixes, n_best=2)
    for source, prefix, hypotheses in zip(sources, prefixes, results, strict=True):
        ((alone, _),) = beam_search(copier, torch.tensor([source]), prefixes=[prefix], n_best=2)
        assert alone.tokens == hypotheses[0].tokens
        for one in hypotheses:
            assert one.tokens[: len(prefix)] == prefix
            (total,) = score_outputs(copier, torch.tensor([source]), torch.tensor([one.tokens])).tolist()
            assert one.log_probability == pytest.approx(total, abs=1e-4)
    free = beam_search(copier, padded(sources), n_best=2)
    for row in (0, 4):  # in another batch sums are rounded otherwise
        assert [one.tokens for one in results[row]] == [one.tokens for one in free[row]]
        assert [one.score for one in results[row]] == pytest.approx([one.score for one in free[row]], abs=1e-5)
    again = beam_search(copier, padded(sources), prefixes=[row[0].tokens[:2] for row in free])
    assert [row[0].tokens for row in again] == [row[0].tokens for row in free]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"prefixes": [[5]]}, "1 prefixes for 2 sentences"),
        ({"prefixes": [[5], [6] * 4]}, "sentence 2: a prefix of 4 tokens"),
        ({"prefixes": [[5], [EOS]]}, f"sentence 2: token {EOS}"),
        ({"penalty": "none"}, "penalty"),
        ({"stop": "soon"}, "stop"),
        ({"beam_size": 0}, "beam_size"),
        ({"limit": 0}, "limit"),
        ({"min_length": 5}, "min_length"),
        ({"n_best": 0}, "n_best"),
        ({"n_best": 5}, "n_best"),
    ],
)
def test_options_that_cannot_be_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        beam_search(random_model(), torch.tensor([[5, EOS], [6, EOS]]), **{"limit": 4} | options)


def test_no_output_ends_before_its_least_length(copier):
    """The end is not counted."""
    source = padded(random_sources(4, longest=2))
    for least in (1, 5):
        found = beam_search(copier, source, min_length=least, n_best=4, limit=9)
        assert min(len(h.tokens) - (h.tokens[-1] == EOS) for hypotheses in found for h in hypotheses) == least
    assert beam_search(copier, source, min_length=0) == beam_search(copier, source)


def test_greedy_search_follows_a_rule(copier):
    """What is forbidden is not written, and a sentence that has ended is not asked again."""
    sources, asked = random_sources(4, seed=6), []

    def rescore(row: int, tokens: list[int], scores: torch.Tensor) -> torch.Tensor:
        asked.append((row, tuple(tokens)))
        return scores.index_fill(0, torch.tensor([5, EOS] if len(tokens) < 2 + row else [5]), -math.inf)

    for row, (found,) in enumerate(greedy_search(copier, padded(sources), rescore=rescore)):
        assert 5 not in found.tokens
        assert len(found.tokens) >= 2 + row
        assert [tokens for other, tokens in asked if other == row][-1] == tuple(found.tokens[:-1])
        (total,) = score_outputs(copier, torch.tensor([sources[row]]), torch.tensor([found.tokens])).tolist()
        assert found.log_probability == pytest.approx(total, abs=1e-4)


def test_a_source_of_padding_alone_is_translated_without_a_crash():
    """A row with nothing to attend to gives finite scores; a batch without rows gives no outputs."""
    source, model = torch.tensor([[PAD, PAD, PAD], [5, 6, EOS]]), random_model()
    found = [best for (best,) in beam_search(model, source, extra=5) + greedy_search(model, source, extra=0)]
    assert len(found) == 4
    assert all(best.tokens and math.isfinite(best.score) for best in found)
    for shape in ((0, 5), (0, 0)):
        nothing = torch.empty(*shape, dtype=torch.long)
        assert greedy_search(model, nothing) == beam_search(model, nothing) == []


def test_a_beam_wider_than_the_vocabulary_works():
    """A step has fewer than 2 x width continuations, and impossible ones are never returned."""
    model = random_model(6)
    (hypotheses,) = beam_search(model, torch.tensor([[4, 5, EOS]]), beam_size=20, n_best=20, extra=0)
    assert len(hypotheses) == len({tuple(h.tokens) for h in hypotheses})
    assert all(math.isfinite(h.score) for h in hypotheses)
    assert not {PAD, BOS} & {token for h in hypotheses for token in h.tokens}


def test_an_output_that_is_no_number_is_refused():
    """Transformers#4287's kind: what overflows in 16 bits is no word, and no rule's fault."""
    model, source = random_model(), padded(random_sources(2))
    model.output.weight.data[5] = math.nan
    for search in (greedy_search, beam_search, partial(score_outputs, target=source)):
        with pytest.raises(InputError):
            search(model, source)


def test_searches_have_no_dropout_and_leave_the_modes_as_they_were(copier):
    """Tensor2tensor#666's kind: whoever decodes in the middle of a training decodes without dropout."""
    model, source = copy.deepcopy(copier).train(), padded(random_sources(3))
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    model.encoder.eval()  # as somebody freezes a part
    modes = [module.training for module in model.modules()]
    for search in (greedy_search, beam_search):
        assert search(model, source) == search(copier, source)
    torch.testing.assert_close(score_outputs(model, source, source), score_outputs(copier, source, source))
    assert [module.training for module in model.modules()] == modes
    assert plain_greedy_search(model, source[:1]) == plain_greedy_search(copier, source[:1])
