# Written by `make export` from book/60_beam_search.ipynb: edit the chapter, not this.
"""Beam search (section 6.1 of the paper)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import Module

from annotated.masks import padding_mask
from annotated.model import Transformer
from annotated.stacks import DecoderLayer

__all__ = [
    "DecodingState",
    "Hypothesis",
    "KeyValueCache",
    "KeyValues",
    "Result",
    "block_special_tokens",
    "decoding_step",
    "full_logits",
    "inference",
    "layer_step",
    "length_penalty",
    "output_limits",
    "plain_beam_search",
    "plain_greedy_search",
    "start_decoding",
]


# book/60_beam_search.ipynb#length-penalty
def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^alpha, which divides log P (Wu et al. 2016; 6.1).

    Defined in chapter 60: `length-penalty`.
    """
    return ((5 + length) / 6) ** alpha


# book/60_beam_search.ipynb#next-logits
def full_logits(model: Transformer, source: Int[Tensor, "batch source"]) -> Callable[[Tensor], Tensor]:
    """A function from whole prefixes to the logits of their next token.

    Defined in chapter 60: `next-logits`.
    """
    source_mask = padding_mask(source, model.config.pad_id)
    memory = model.encode(source, source_mask)  # (batch, source, d_model)
    return lambda prefix: model.output(model.decode(prefix, memory, source_mask)[:, -1])


# book/60_beam_search.ipynb#next-token-scores
def block_special_tokens(model: Module, logits: Float[Tensor, "*batch vocab"]) -> Float[Tensor, "*batch vocab"]:
    """Make padding and the start symbol impossible, in place.

    Defined in chapter 60: `next-token-scores`.
    """
    config = model.config
    blocked = {config.pad_id, config.start_id} - {config.end_id}  # the end may come
    return logits.index_fill_(-1, torch.tensor(list(blocked), device=logits.device), -math.inf)


# book/60_beam_search.ipynb#output-limits
def output_limits(
    model: Module,
    source: Int[Tensor, "batch source"],
    extra: int = 50,
    limit: int | None = None,
) -> Int[Tensor, " batch"]:
    """The longest output for each sentence: its source's length + `extra`, or `limit`.

    No output is longer than `max_length`. Raises ValueError for a `limit` below 1.

    Defined in chapter 60: `output-limits`.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    longest = (source != model.config.pad_id).sum(dim=1) + extra  # one for each row
    if limit is not None:
        longest = torch.full_like(longest, limit)
    return longest.clamp(min=1, max=model.config.max_length)


# book/60_beam_search.ipynb#inference
Result = TypeVar("Result")


def inference(search: Callable[..., Result]) -> Callable[..., Result]:
    """Makes a function of a model run without gradients and without dropout.

    Defined in chapter 60: `inference`.
    """

    @wraps(search)
    def without_dropout(model: Module, *arguments: Any, **options: Any) -> Result:
        modes = [(module, module.training) for module in model.modules()]
        try:
            with torch.inference_mode():
                model.eval()
                return search(model, *arguments, **options)
        finally:  # after an error, too
            for module, mode in modes:
                module.training = mode

    return without_dropout


# book/60_beam_search.ipynb#hypothesis
@dataclass(frozen=True)
class Hypothesis:
    """An output: its tokens, with the end if it was reached, log P, and its score.

    Defined in chapter 60: `hypothesis`.
    """

    tokens: list[int]
    log_probability: float
    score: float


# book/60_beam_search.ipynb#plain-greedy
@inference
def plain_greedy_search(model: Transformer, source: Int[Tensor, "1 source"], extra: int = 50) -> Hypothesis:
    """The likeliest token at each step, for one sentence (section 6.1).

    Defined in chapter 60: `plain-greedy`.
    """
    next_logits = full_logits(model, source)
    output, total = [model.config.start_id], 0.0
    for _ in range(int(output_limits(model, source, extra))):
        scores = next_logits(source.new_tensor([output])).log_softmax(dim=-1)
        best, token = block_special_tokens(model, scores)[0].max(dim=-1)
        output, total = [*output, int(token)], total + float(best)
        if token == model.config.end_id:
            break
    return Hypothesis(output[1:], total, total)


# book/60_beam_search.ipynb#candidates
def _candidates(
    model: Module,
    prefix: Hypothesis,
    logits: Float[Tensor, " vocab"],
    count: int,
    alpha: float,
) -> list[Hypothesis]:
    """A hypothesis with each of its `count` likeliest next tokens."""
    scores = block_special_tokens(model, logits.log_softmax(dim=-1))
    best, tokens = scores.topk(min(count, len(scores)))
    totals = [prefix.log_probability + value for value in best.tolist()]
    divisor = length_penalty(len(prefix.tokens) + 1, alpha)
    return [
        Hypothesis([*prefix.tokens, token], total, total / divisor)
        for token, total in zip(tokens.tolist(), totals, strict=True)
    ]


# book/60_beam_search.ipynb#plain-beam
@inference
def plain_beam_search(
    model: Transformer,
    source: Int[Tensor, "1 source"],
    width: int = 4,
    alpha: float = 0.6,
    extra: int = 50,
) -> Hypothesis:
    """The best output for one sentence that a beam finds (section 6.1), uncached.

    Defined in chapter 60: `plain-beam`.
    """
    next_logits, config = full_logits(model, source), model.config
    beam, finished = [Hypothesis([], 0.0, 0.0)], []
    limit = int(output_limits(model, source, extra))
    for length in range(1, limit + 1):
        candidates = []
        for prefix in beam:
            tokens = source.new_tensor([[config.start_id, *prefix.tokens]])
            logits = next_logits(tokens)[0]  # (vocab,)
            candidates += _candidates(model, prefix, logits, 2 * width, alpha)
        candidates.sort(key=lambda one: -one.log_probability)
        finished += [one for one in candidates[:width] if one.tokens[-1] == config.end_id or length == limit]
        beam = [one for one in candidates if one.tokens[-1] != config.end_id][:width]
        divisor = max(length_penalty(n, alpha) for n in (length + 1, limit))
        reachable = beam[0].log_probability / divisor
        if finished and max(one.score for one in finished) >= reachable:
            break  # no hypothesis can still win
    return max(finished, key=lambda one: one.score)


# book/60_beam_search.ipynb#key-value-cache
class KeyValues(NamedTuple):
    """Projected keys and values, ready to be attended to.

    Defined in chapter 60: `key-value-cache`.
    """

    keys: Float[Tensor, "batch head key d_k"]
    values: Float[Tensor, "batch head key d_v"]


class KeyValueCache:
    """Keys and values of the target positions so far, in buffers filled in place.

    Defined in chapter 60: `key-value-cache`.
    """

    def __init__(
        self,
        keys: Float[Tensor, "batch head capacity d_k"],
        values: Float[Tensor, "batch head capacity d_v"],
    ):
        self.keys, self.values, self.length = keys, values, 0

    def append(self, new: KeyValues) -> KeyValues:
        """Store new positions and return all; ValueError when the buffers are full."""
        start, end = self.length, self.length + new.keys.shape[2]
        if end > self.keys.shape[2]:
            raise ValueError(f"the cache holds {self.keys.shape[2]} positions, not {end}")
        self.keys[:, :, start:end] = new.keys
        self.values[:, :, start:end] = new.values
        self.length = end
        return KeyValues(self.keys[:, :, :end], self.values[:, :, :end])

    def select(self, rows: Tensor) -> None:
        """Keep these sentences of the batch, when others are finished."""
        self.keys, self.values = (self.kept(buffer, rows) for buffer in (self.keys, self.values))

    def kept(self, buffer: Tensor, rows: Tensor) -> Tensor:
        selected = buffer.new_empty(len(rows), *buffer.shape[1:])
        filled = slice(self.length)  # what is still empty need not be copied
        selected[:, :, filled] = buffer[:, :, filled][rows]
        return selected


# book/60_beam_search.ipynb#decoding-state
@dataclass
class DecodingState:
    """Keys and values of the source and of the steps so far, for step-by-step decoding.

    Step t of `width` hypotheses a sentence fills the slots t * width to (t + 1) * width
    of the caches. `visible` says which slots belong to each hypothesis.

    Defined in chapter 60: `decoding-state`.
    """

    memory: list[KeyValues]  # of the source, layer by layer
    source_mask: Bool[Tensor, "batch 1 1 source"]
    caches: list[KeyValueCache]
    visible: Bool[Tensor, "batch width slots"]
    step: int = 0

    def reorder(self, parents: Int[Tensor, "batch width"]) -> None:
        """Hypothesis i goes on from hypothesis `parents[:, i]`."""
        rows = parents[:, :, None].expand_as(self.visible)  # (batch, width, slots)
        self.visible = self.visible.gather(1, rows)

    def select(self, rows: Tensor) -> None:
        """Keep these sentences of the batch."""
        self.memory = [KeyValues(*(part[rows] for part in one)) for one in self.memory]
        self.source_mask, self.visible = self.source_mask[rows], self.visible[rows]
        for cache in self.caches:
            cache.select(rows)

    def next_logits(self, model: Transformer, tokens: Int[Tensor, "batch width"]) -> Float[Tensor, "batch width vocab"]:
        """What each hypothesis may write next, one step further."""
        return decoding_step(model, tokens, self)  # defined below


# book/60_beam_search.ipynb#start-decoding
def start_decoding(model: Transformer, source: Int[Tensor, "batch source"], width: int, capacity: int) -> DecodingState:
    """Encode the source; make room for `capacity` steps of `width` hypotheses each.

    Defined in chapter 60: `start-decoding`.
    """
    source_mask = padding_mask(source, model.config.pad_id)
    memory, known, caches = model.encode(source, source_mask), [], []
    slots = capacity * width
    for layer in model.decoder.layers:
        cross, own = layer.cross_attention, layer.self_attention
        keys, values = cross.key(memory), cross.value(memory)
        known.append(KeyValues(cross.split_heads(keys), cross.split_heads(values)))
        room = len(source), own.num_heads, slots
        caches.append(KeyValueCache(memory.new_empty(*room, own.d_k), memory.new_empty(*room, own.d_v)))
    visible = torch.zeros(len(source), width, slots, dtype=torch.bool, device=source.device)
    return DecodingState(known, source_mask, caches, visible)


# book/60_beam_search.ipynb#layer-step
def layer_step(
    layer: DecoderLayer,
    x: Tensor,
    memory: KeyValues,
    cache: KeyValueCache,
    self_mask: Tensor,
    source_mask: Tensor,
) -> Float[Tensor, "batch width d_model"]:
    """One decoder layer (section 3.1) for new positions; all others are known.

    Defined in chapter 60: `layer-step`.
    """
    own, cross = layer.self_attention, layer.cross_attention

    def self_attention(y: Tensor) -> Tensor:
        query, key, value = own.project(y, y)  # of the new positions alone
        return own.attend(query, *cache.append(KeyValues(key, value)), self_mask)

    def cross_attention(y: Tensor) -> Tensor:
        return cross.attend(cross.split_heads(cross.query(y)), *memory, source_mask)

    x = layer.around_self_attention(x, self_attention)
    x = layer.around_cross_attention(x, cross_attention)
    return layer.around_feed_forward(x, layer.feed_forward)


# book/60_beam_search.ipynb#decoding-step
def decoding_step(
    model: Transformer, tokens: Int[Tensor, "batch width"], state: DecodingState
) -> Float[Tensor, "batch width vocab"]:
    """Feed each hypothesis's last token, return the next logits, advance the state.

    Defined in chapter 60: `decoding-step`.
    """
    (batch, width), decoder = tokens.shape, model.decoder
    first, end = state.step * width, (state.step + 1) * width
    state.visible[:, :, first:end] = torch.eye(width, dtype=torch.bool, device=tokens.device)
    x = model.embed(  # all at the same position, so each is a row of its own
        model.target_embedding, model.target_positions, tokens.reshape(-1, 1), state.step
    )
    x = x.view(batch, width, -1)  # (batch, width, d_model)
    mask = state.visible[:, None, :, :end]  # the same for all heads
    for layer, memory, cache in zip(decoder.layers, state.memory, state.caches, strict=True):
        x = layer_step(layer, x, memory, cache, mask, state.source_mask)
    state.step += 1
    return model.output(x if decoder.final_norm is None else decoder.final_norm(x))
