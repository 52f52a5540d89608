"""The search that serves: whole batches, several outputs, prefixes, rules of when to stop."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import Module

from annotated.attention import MultiHeadAttention
from annotated.base.files import InputError
from annotated.decoding import (
    Hypothesis,
    block_special_tokens,
    inference,
    length_penalty,
    output_limits,
    start_decoding,
)
from annotated.masks import padding_mask
from annotated.model import Transformer

__all__ = [
    "PENALTIES",
    "STOPS",
    "beam_search",
    "cached_logits",
    "cut_after",
    "greedy_search",
    "sample_outputs",
    "length_power",
    "score_outputs",
    "score_tokens",
]


@runtime_checkable
class SearchState(Protocol):
    """What a search asks of a model, step by step; `DecodingState` is that of a Transformer.

    A step begins with `next_logits` of the last tokens, `width` a sentence. Then `reorder` says from which hypothesis
    each one goes on, and `select` which sentences stay.
    """

    def next_logits(self, model: Module, tokens: Int[Tensor, "batch width"]) -> Float[Tensor, "batch width vocab"]: ...

    def reorder(self, parents: Int[Tensor, "batch width"]) -> None: ...

    def select(self, rows: Int[Tensor, " kept"]) -> None: ...


Start = Callable[[Module, Tensor, int, int], SearchState]  # from model, source, width and the longest output


Rescore = Callable[[int, list[int], Tensor], Tensor]  # sentence, its tokens so far, log-probabilities of the next


def log_softmax(logits: Float[Tensor, "*batch vocab"]) -> Float[Tensor, "*batch vocab"]:
    """Log-probabilities in float32, or in float64 where the model computes in that."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)


@dataclass
class WholeDecoding:
    """The state of a search without a cache: at each step the decoder runs over all tokens again.

    It asks a model for `encode`, `decode` and `output` only, and so does for attentions of any form.
    """

    memory: Float[Tensor, "batch source d_model"]
    source_mask: Bool[Tensor, "batch 1 1 source"]
    tokens: Int[Tensor, "batch width step"]

    def next_logits(self, model: Transformer, tokens: Int[Tensor, "batch width"]) -> Float[Tensor, "batch width vocab"]:
        self.tokens = torch.cat([self.tokens, tokens[:, :, None]], dim=2)
        width = tokens.shape[1]
        memory, mask = (part.repeat_interleave(width, dim=0) for part in (self.memory, self.source_mask))
        hidden = model.decode(self.tokens.flatten(0, 1), memory, mask)[:, -1]
        return model.output(hidden).view(*tokens.shape, -1)

    def reorder(self, parents: Int[Tensor, "batch width"]) -> None:
        self.tokens = self.tokens.gather(1, parents[:, :, None].expand_as(self.tokens))

    def select(self, rows: Int[Tensor, " kept"]) -> None:
        self.memory, self.source_mask, self.tokens = self.memory[rows], self.source_mask[rows], self.tokens[rows]


def start_whole(model: Transformer, source: Int[Tensor, "batch source"], width: int, capacity: int) -> WholeDecoding:
    """A state without a cache."""
    source_mask = padding_mask(source, model.config.pad_id)
    return WholeDecoding(model.encode(source, source_mask), source_mask, source.new_empty(len(source), width, 0))


def has_cache(model: Module) -> bool:
    """Whether a cache of keys and values computes what the model does.

    Not where a decoder's attention has a `forward` or `project` of its own, which say nothing of single steps.
    """
    if not isinstance(model, Transformer):
        return True
    parts = [part for layer in model.decoder.layers for part in (layer.self_attention, layer.cross_attention)]
    plain = (MultiHeadAttention.forward, MultiHeadAttention.project)
    return all((type(part).forward, getattr(type(part), "project", None)) == plain for part in parts)


def cached_logits(
    model: Module, source: Int[Tensor, "batch source"], capacity: int, start: Start = start_decoding
) -> Callable[[Tensor], Tensor]:
    """The same function as `full_logits` makes, feeding the last token only; keys and values of the others are kept."""
    state = start(model, source, 1, capacity)
    return lambda prefix: state.next_logits(model, prefix[:, -1:])[:, -1]


def no_output(said: str = "", rescore: Rescore | None = None) -> NoReturn:
    """Say why there is no output: the rule allows none (ValueError), or logits are no numbers (InputError)."""
    if rescore is not None:
        raise ValueError(said)
    raise InputError(
        "the model's output is no number: if it computes in 16 bits, choose float32 or bfloat16",
        "In float32 as well? Then training went astray: take an earlier checkpoint.",
    )


@inference
def greedy_search(
    model: Module,
    source: Int[Tensor, "batch source"],
    *,
    extra: int = 50,
    limit: int | None = None,
    cache: bool = True,
    start: Start = start_decoding,
    rescore: Rescore | None = None,
    choose: Callable[[Tensor], Tensor] = lambda scores: scores.argmax(dim=-1),
) -> list[list[Hypothesis]]:
    """The most probable token at every step, until eos or the length limit: one hypothesis a sentence, in a list.

    `choose` makes another choice from the log-probabilities (batch, vocab); the other arguments, and the lists, are
    those of `beam_search`. Raises ValueError where `rescore` allows nothing.
    """
    if not len(source):
        return []
    limits = output_limits(model, source, extra, limit)
    output = torch.full((len(source), 1), model.config.start_id, device=source.device)
    total = torch.zeros(len(source), device=source.device)
    done = torch.zeros(len(source), dtype=torch.bool, device=source.device)
    start = start if cache and has_cache(model) else start_whole
    next_logits = cached_logits(model, source, int(limits.max()), start)
    while not done.all():
        scores = block_special_tokens(model, log_softmax(next_logits(output)))
        for row in (~done).nonzero().flatten().tolist() if rescore else ():
            scores[row] = rescore(row, output[row, 1:].tolist(), scores[row])
        if (~scores.amax(dim=-1).isfinite() & ~done).any():
            no_output("rescore allows nothing more, and the output has not ended", rescore)
        token = choose(scores)
        best = scores.gather(-1, token[:, None]).squeeze(-1)
        token = token.masked_fill(done, model.config.end_id)  # finished sentences wait for the others
        total += best.masked_fill(done, 0.0)
        output = torch.cat([output, token[:, None]], dim=1)
        done |= (token == model.config.end_id) | (output.shape[1] > limits)
    rows = zip(output[:, 1:].tolist(), limits.tolist(), total.tolist(), strict=True)
    tokens = [(cut_after(row[:limit], model.config.end_id), score) for row, limit, score in rows]
    return [[Hypothesis(row, score, score)] for row, score in tokens]


def sample_outputs(
    model: Module,
    source: Int[Tensor, "batch source"],
    seeds: Sequence[int],
    *,
    temperature: float = 1.0,
    limit: int | None = None,
    start: Start = start_decoding,
) -> list[list[Hypothesis]]:
    """One output for each sentence, in a list, each token drawn from softmax(logits / temperature).

    Every sentence draws with a seed of its own, so that its neighbours in the batch make no difference. Its
    log-probability is the model's, at a temperature of 1.
    """
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def draw(scores: Float[Tensor, "batch vocab"]) -> Int[Tensor, " batch"]:
        shares = (scores / temperature).softmax(dim=-1).cpu()
        drawn = [torch.multinomial(row, 1, generator=one) for row, one in zip(shares, generators, strict=True)]
        return torch.cat(drawn).to(scores.device)

    return greedy_search(model, source, limit=limit, start=start, choose=draw)


def cut_after(tokens: list[int], end_id: int) -> list[int]:
    """The tokens up to and including the first `end_id`."""
    return tokens[: tokens.index(end_id) + 1] if end_id in tokens else tokens


def length_power(length: int, alpha: float) -> float:
    """|Y|^alpha, the divisor of fairseq, Marian and Hugging Face's transformers."""
    return length**alpha


PENALTIES = {"gnmt": length_penalty, "power": length_power}


@dataclass
class Beam:
    """The hypotheses of the sentences in the batch, `width` for each, the likeliest first."""

    tokens: Int[Tensor, "batch width step"]
    log_probabilities: Float[Tensor, "batch width"]
    sentences: list[int]  # which input each row belongs to

    def select(self, rows: list[int], index: Tensor) -> None:
        self.tokens, self.log_probabilities = self.tokens[index], self.log_probabilities[index]
        self.sentences = [self.sentences[row] for row in rows]


def first_beam(model: Module, source: Int[Tensor, "batch source"], width: int) -> Beam:
    """Start symbols; all but the first hypothesis are impossible, since they would all be the same."""
    tokens = torch.full((len(source), width, 1), model.config.start_id, device=source.device)
    log_probabilities = torch.full((len(source), width), -math.inf, device=source.device)
    log_probabilities[:, 0] = 0.0
    return Beam(tokens, log_probabilities, list(range(len(source))))


TopK = Callable[[Tensor, int], tuple[Tensor, Tensor]]  # the largest k of the last axis, and where they are


@dataclass(frozen=True)
class Allowed:
    """What may be written: `prefixes` that outputs must begin with, no end before `min_length` tokens, `rescore`."""

    prefixes: list[list[int]]
    min_length: int = 0
    rescore: Rescore | None = None

    def apply(self, scores: Float[Tensor, "batch width vocab"], beam: Beam, end_id: int) -> None:
        """Change the log-probabilities of the next tokens in place; what may not be written gets minus infinity."""
        written = beam.tokens.shape[2] - 1
        if written < self.min_length:
            scores[:, :, end_id] = -math.inf
        for row, sentence in enumerate(beam.sentences) if self.prefixes else ():
            if written < len(self.prefixes[sentence]):
                others = torch.ones(scores.shape[-1], dtype=torch.bool, device=scores.device)
                others[self.prefixes[sentence][written]] = False
                scores[row].masked_fill_(others, -math.inf)
        for row, place in beam.log_probabilities.isfinite().nonzero().tolist() if self.rescore else ():
            prefix = beam.tokens[row, place, 1:].tolist()
            scores[row, place] = self.rescore(beam.sentences[row], prefix, scores[row, place])


def extend(
    model: Module, beam: Beam, state: SearchState, topk: TopK = torch.topk, allowed: Allowed | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The best 2 x width continuations of each sentence's hypotheses: log-probabilities, parents, tokens.

    Twice the width, because up to half of them end here and the beam should stay full.
    """
    width = beam.tokens.shape[1]
    log_probabilities = log_softmax(state.next_logits(model, beam.tokens[:, :, -1]))
    scores = block_special_tokens(model, log_probabilities)
    if allowed:
        allowed.apply(scores, beam, model.config.end_id)
    wanted = min(2 * width, scores.shape[-1])  # no hypothesis can contribute more
    best, tokens = topk(scores, wanted)
    totals = beam.log_probabilities[:, :, None] + best
    totals, order = totals.flatten(1).topk(2 * width, dim=-1)
    return totals, order // wanted, tokens.flatten(1).gather(1, order)


Penalty = Callable[[int], float]  # from an output's length to the divisor of its log-probability


@dataclass
class Finished:
    """The finished hypotheses of one sentence, best first, at most `width`; `done` when its search is over.

    Of those that `reading` gives the same for, the best is kept.
    """

    width: int
    reading: Callable[[list[int]], Hashable] = tuple
    hypotheses: list[Hypothesis] = field(default_factory=list)
    done: bool = False

    def add(self, hypothesis: Hypothesis) -> None:
        ordered = sorted([*self.hypotheses, hypothesis], key=lambda h: h.score)
        best = {self.reading(one.tokens): one for one in ordered}  # the last of a key is its best
        self.hypotheses = sorted(best.values(), key=lambda h: -h.score)[: self.width]


STOPS = ("bound", "heuristic", "first")


@dataclass(frozen=True)
class Stop:
    """When the search for a sentence is over: `rule` is one of `STOPS`, and `gain` the most that a token can add.

    `bound`: no prefix can still come among the best `n_best`, so that the first output does not depend on `n_best`.
    The others are those of Hugging Face's transformers and end too early at times. `heuristic`: as many outputs are
    finished as the beam is wide, and the best prefix, ended here, would not beat the worst of them. `first`: so many
    are finished.
    """

    rule: str
    penalty: Penalty
    n_best: int = 1
    gain: float = 0.0

    def best_possible(self, best: float, length: int, limit: int) -> float:
        """No prefix of `length` tokens, with at most `best` for its log-probability, can still score more."""
        if self.gain <= 0:  # the sum only falls, and the divisor is largest at one of the ends
            return best / max(self.penalty(length + 1), self.penalty(limit))
        return max((best + self.gain * (end - length)) / self.penalty(end) for end in range(length + 1, limit + 1))

    def settled(self, finished: Finished, best: float, length: int, limit: int) -> bool:
        """Whether the search can end, `best` being the log-probability of the likeliest prefix."""
        found, full = finished.hypotheses, len(finished.hypotheses) == finished.width
        if length >= limit or best == -math.inf:  # nothing is left to go on with
            return True
        if self.rule == "first":
            return full
        if self.rule == "heuristic":
            return full and found[-1].score >= best / self.penalty(length)
        return len(found) >= self.n_best and found[self.n_best - 1].score >= self.best_possible(best, length, limit)


def collect_finished(
    model: Module, beam: Beam, continuations, finished: list[Finished], limits: list[int], penalty: Penalty
) -> None:
    """Move continuations that end, and are among the best `width`, to the finished hypotheses; at the limit all end."""
    totals, parents, tokens = (part[:, : beam.tokens.shape[1]] for part in continuations)
    length = beam.tokens.shape[2]  # the start symbol is not counted, eos is
    at_limit = torch.tensor([limits[sentence] <= length for sentence in beam.sentences], device=tokens.device)
    ends = ((tokens == model.config.end_id) | at_limit[:, None]) & totals.isfinite()
    for row, place in ends.nonzero().tolist():
        result = finished[beam.sentences[row]]
        if not result.done:
            output = [*beam.tokens[row, parents[row, place], 1:].tolist(), tokens[row, place].item()]
            total = totals[row, place].item()
            result.add(Hypothesis(output, total, total / penalty(length)))


def keep_unfinished(model: Module, beam: Beam, continuations, state: SearchState) -> None:
    """Go on with the best `width` continuations that do not end."""
    totals, parents, tokens = continuations
    alive = totals.masked_fill(tokens == model.config.end_id, -math.inf)
    beam.log_probabilities, best = alive.topk(beam.tokens.shape[1], dim=-1)
    parents, tokens = parents.gather(1, best), tokens.gather(1, best)
    history = beam.tokens.gather(1, parents[:, :, None].expand_as(beam.tokens))
    beam.tokens = torch.cat([history, tokens[:, :, None]], dim=-1)
    state.reorder(parents)


def drop_settled(beam: Beam, finished: list[Finished], state: SearchState, limits: list[int], stop: Stop) -> None:
    """Mark sentences whose search is over, and take them out of the batch once they are a fifth of it."""
    length = beam.tokens.shape[2] - 1
    rows = []
    for row, best in enumerate(beam.log_probabilities[:, 0].tolist()):
        result, limit = finished[beam.sentences[row]], limits[beam.sentences[row]]
        result.done = result.done or stop.settled(result, best, length, limit)
        if not result.done:
            rows.append(row)
    if len(rows) <= 0.8 * len(beam.sentences):
        index = torch.tensor(rows, dtype=torch.long, device=beam.tokens.device)
        beam.select(rows, index)
        state.select(index)


@inference
def beam_search(
    model: Module,
    source: Int[Tensor, "batch source"],
    *,
    beam_size: int = 4,
    length_penalty: float = 0.6,
    n_best: int = 1,
    extra: int = 50,
    limit: int | None = None,
    min_length: int = 0,
    prefixes: Sequence[Sequence[int]] = (),
    cache: bool = True,
    penalty: str = "gnmt",
    stop: str = "bound",
    topk: TopK = torch.topk,
    start: Start = start_decoding,
    rescore: Rescore | None = None,
    gain: float | None = None,
    reading: Callable[[list[int]], Hashable] = tuple,
) -> list[list[Hypothesis]]:
    """The `n_best` outputs of each sentence by log P(Y | X) / lp(Y) that a beam of `beam_size` finds (section 6.1).

    A hypothesis that ends among the best `beam_size` continuations is finished and leaves the beam; at the length limit
    all of these end. `stop` says when the search for a sentence is over (`Stop`): by default when no prefix can still
    beat the `n_best`-th finished output, so that the first does not depend on `n_best`. `penalty` is lp, by its name in
    `PENALTIES`, and `length_penalty` its exponent. No output ends before it has
    `min_length` tokens, eos not counted; each begins with the tokens that `prefixes` has for its sentence, whose
    log-probabilities count. `cache=False` runs the decoder over the whole prefix again at each step: the same outputs,
    only slower. So it is with attentions of one's own, too.

    `topk` is what finds the best tokens, and `start` makes the state whose steps are taken (`SearchState`), which may
    be that of any model whose `config` has `pad_id`, `start_id`, `end_id` and `max_length`.
    `rescore(row, tokens, log_probabilities)` says what counts in place of the log-probabilities of the next token
    after those of sentence `row`: with some at minus infinity, only what is allowed is written. `gain` is the most that
    it ever returns: 0 where it only forbids. Without it nothing is known, and the search goes on to the limit.
    Of outputs whose tokens have the same `reading`, such as their text, the best is given.
    Raises ValueError unless 1 <= n_best <= beam_size, for an unknown penalty or rule, for a prefix that cannot be
    written, and where `rescore` allows no output at all.
    """
    if beam_size < 1:
        raise ValueError(f"beam_size must be at least 1, not {beam_size}")
    if limit is not None and min_length > limit:
        raise ValueError(f"min_length {min_length} is above limit {limit}")
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"n_best must lie between 1 and beam_size {beam_size}, not {n_best}")
    if penalty not in PENALTIES:
        raise ValueError(f"penalty must be one of {', '.join(PENALTIES)}, not {penalty!r}")
    if stop not in STOPS:
        raise ValueError(f"stop must be one of {', '.join(STOPS)}, not {stop!r}")
    limits = output_limits(model, source, extra, limit).tolist()
    check_prefixes(model, prefixes, limits)
    if not limits:
        return []
    divisor = partial(PENALTIES[penalty], alpha=length_penalty)
    known = 0.0 if rescore is None else math.inf
    rule = Stop(stop, divisor, n_best, known if gain is None else gain)
    allowed = Allowed([list(prefix) for prefix in prefixes], min_length, rescore)
    beam = first_beam(model, source, beam_size)
    finished = [Finished(beam_size, reading) for _ in limits]
    state = (start if cache and has_cache(model) else start_whole)(model, source, beam_size, max(limits))
    while beam.sentences:
        continuations = extend(model, beam, state, topk, allowed)
        collect_finished(model, beam, continuations, finished, limits, divisor)
        keep_unfinished(model, beam, continuations, state)
        drop_settled(beam, finished, state, limits, rule)
    for number, result in enumerate(finished, start=1):
        if not result.hypotheses:
            no_output(f"sentence {number}: rescore allows no output", rescore)
    return [result.hypotheses[:n_best] for result in finished]


def check_prefixes(model: Module, prefixes: Sequence[Sequence[int]], limits: list[int]) -> None:
    """Raises ValueError unless there is a prefix for each sentence or none, and each can be written and continued."""
    if prefixes and len(prefixes) != len(limits):
        raise ValueError(f"{len(prefixes)} prefixes for {len(limits)} sentences")
    special = {model.config.pad_id, model.config.start_id, model.config.end_id}
    for number, (prefix, limit) in enumerate(zip(prefixes, limits), start=1):
        if len(prefix) >= limit:
            raise ValueError(f"sentence {number}: a prefix of {len(prefix)} tokens, but outputs have at most {limit}")
        for token in prefix:
            if token in special:
                raise ValueError(f"sentence {number}: token {token} in the prefix is pad, the start or the end")


@inference
def score_tokens(
    model: Transformer, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
) -> Float[Tensor, "batch target"]:
    """The log-probability of each token of given outputs (eos included, padded), by one pass of teacher forcing."""
    start = torch.full((len(target), 1), model.config.start_id, device=target.device)
    logits = model(source, torch.cat([start, target[:, :-1]], dim=1))
    chosen = log_softmax(logits).gather(-1, target[:, :, None]).squeeze(-1)
    if chosen.isnan().any():
        no_output()
    return chosen.masked_fill(target == model.config.pad_id, 0.0)


def score_outputs(
    model: Transformer, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
) -> Float[Tensor, " batch"]:
    """The log-probability of given outputs (eos included, padded), by one pass of teacher forcing."""
    return score_tokens(model, source, target).sum(dim=-1)
