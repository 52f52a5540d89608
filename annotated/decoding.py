# Written by `make export` from book/60_beam_search.ipynb: do not edit here, edit the chapter.
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
    memory = model.encode(source, source_mask)
    return lambda prefix: model.output(model.decode(prefix, memory, source_mask)[:, -1])


# book/60_beam_search.ipynb#next-token-scores
def block_special_tokens(model: Module, logits: Float[Tensor, "*batch vocab"]) -> Float[Tensor, "*batch vocab"]:
    """Make pad and the start symbol impossible, in place, unless one is the end.

    Defined in chapter 60: `next-token-scores`.
    """
    blocked = list({model.config.pad_id, model.config.start_id} - {model.config.end_id})
    return logits.index_fill_(-1, torch.tensor(blocked, device=logits.device), -math.inf)


# book/60_beam_search.ipynb#output-limits
def output_limits(
    model: Module,
    source: Int[Tensor, "batch source"],
    extra: int = 50,
    limit: int | None = None,
) -> Int[Tensor, " batch"]:
    """The longest output for each sentence, in tokens, within `max_length`.

    It is the source's own length + 50 (section 6.1), or `limit`. Raises ValueError for
    a `limit` below 1.

    Defined in chapter 60: `output-limits`.
    """
    lengths = (source != model.config.pad_id).sum(dim=1) + extra
    if limit is not None:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        lengths = torch.full_like(lengths, limit)
    return lengths.clamp(min=1, max=model.config.max_length)


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
        finally:
            for module, mode in modes:
                module.training = mode

    return without_dropout


# book/60_beam_search.ipynb#plain-greedy
@inference
def plain_greedy_search(
    model: Transformer, source: Int[Tensor, "1 source"], extra: int = 50
) -> tuple[list[int], float]:
    """The likeliest token at each step, for one sentence (section 6.1).

    Gives the output's tokens and its log-probability.

    Defined in chapter 60: `plain-greedy`.
    """
    next_logits, output, total = (full_logits(model, source), [model.config.start_id], 0.0)
    for _ in range(int(output_limits(model, source, extra))):
        log_probabilities = block_special_tokens(model, next_logits(source.new_tensor([output])).log_softmax(dim=-1))
        best, token = log_probabilities[0].max(dim=-1)
        output, total = [*output, int(token)], total + float(best)
        if token == model.config.end_id:
            break
    return output[1:], total


# book/60_beam_search.ipynb#hypothesis
@dataclass(frozen=True)
class Hypothesis:
    """An output: its tokens (with eos, if reached), their summed log P, its score.

    Defined in chapter 60: `hypothesis`.
    """

    tokens: list[int]
    log_probability: float
    score: float


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
    next_logits, end_id = full_logits(model, source), model.config.end_id
    beam, finished = [Hypothesis([], 0.0, 0.0)], []
    limit = int(output_limits(model, source, extra))
    for length in range(1, limit + 1):
        candidates = []
        for prefix in beam:
            logits = next_logits(source.new_tensor([[model.config.start_id, *prefix.tokens]]))[0]
            scores = block_special_tokens(model, logits.log_softmax(dim=-1))
            best = scores.topk(min(2 * width, len(scores)))
            for value, token in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                total = prefix.log_probability + value
                candidates.append(Hypothesis([*prefix.tokens, token], total, total / length_penalty(length, alpha)))
        candidates.sort(key=lambda candidate: -candidate.log_probability)
        finished += [found for found in candidates[:width] if found.tokens[-1] == end_id or length == limit]
        beam = [candidate for candidate in candidates if candidate.tokens[-1] != end_id][:width]
        longest = max(length_penalty(length + 1, alpha), length_penalty(limit, alpha))
        if finished and max(found.score for found in finished) >= beam[0].log_probability / longest:
            break  # no prefix can reach more
    return max(finished, key=lambda found: found.score)


# book/60_beam_search.ipynb#key-values
class KeyValues(NamedTuple):
    """Projected keys and values, ready to be attended to.

    Defined in chapter 60: `key-values`.
    """

    keys: Float[Tensor, "batch head key d_k"]
    values: Float[Tensor, "batch head key d_v"]


# book/60_beam_search.ipynb#key-value-cache
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
        self.length = end
        self.keys[:, :, start:end] = new.keys
        self.values[:, :, start:end] = new.values
        return KeyValues(self.keys[:, :, :end], self.values[:, :, :end])

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch; positions still empty are not copied."""
        self.keys, self.values = (self.kept(buffer, rows) for buffer in (self.keys, self.values))

    def kept(self, buffer: Tensor, rows: Tensor) -> Tensor:
        selected = buffer.new_empty(len(rows), *buffer.shape[1:])
        selected[:, :, : self.length] = buffer[:, :, : self.length][rows]
        return selected


# book/60_beam_search.ipynb#decoding-state
@dataclass
class DecodingState:
    """Keys and values of the source and of the steps so far, for step-by-step decoding.

    Step t of `width` hypotheses a sentence fills the slots t * width to (t + 1) * width
    of the caches. `visible` says which slots belong to each hypothesis.

    Defined in chapter 60: `decoding-state`.
    """

    memory: list[KeyValues]
    source_mask: Bool[Tensor, "batch 1 1 source"]
    caches: list[KeyValueCache]
    visible: Bool[Tensor, "batch width slots"]
    step: int = 0

    def reorder(self, parents: Int[Tensor, "batch width"]) -> None:
        """Hypothesis i goes on from hypothesis `parents[:, i]`."""
        self.visible = self.visible.gather(1, parents[:, :, None].expand_as(self.visible))

    def select(self, rows: Tensor) -> None:
        """Keep these sentences of the batch."""
        self.memory = [KeyValues(known.keys[rows], known.values[rows]) for known in self.memory]
        self.source_mask, self.visible = self.source_mask[rows], self.visible[rows]
        for cache in self.caches:
            cache.select(rows)

    def next_logits(self, model: Transformer, tokens: Int[Tensor, "batch width"]) -> Float[Tensor, "batch width vocab"]:
        """`decoding_step` from this state; chapter 92 has a faster one."""
        return decoding_step(model, tokens, self)


# book/60_beam_search.ipynb#start-decoding
def start_decoding(model: Transformer, source: Int[Tensor, "batch source"], width: int, capacity: int) -> DecodingState:
    """Encode the source; make room for `capacity` steps of `width` hypotheses each.

    Defined in chapter 60: `start-decoding`.
    """
    source_mask = padding_mask(source, model.config.pad_id)
    memory, known, caches = model.encode(source, source_mask), [], []
    for layer in model.decoder.layers:
        attention = layer.cross_attention
        known.append(KeyValues(*map(attention.split_heads, (attention.key(memory), attention.value(memory)))))
        room = (len(source), layer.self_attention.num_heads, capacity * width)
        widths = (layer.self_attention.d_k, layer.self_attention.d_v)
        caches.append(KeyValueCache(*(memory.new_empty(*room, size) for size in widths)))
    visible = torch.zeros(len(source), width, capacity * width, dtype=torch.bool, device=source.device)
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

    def self_attention(y: Tensor) -> Tensor:
        query, *new = layer.self_attention.project(y, y)
        return layer.self_attention.attend(query, *cache.append(KeyValues(*new)), self_mask)

    def cross_attention(y: Tensor) -> Tensor:
        attention = layer.cross_attention
        return attention.attend(attention.split_heads(attention.query(y)), *memory, source_mask)

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
    width, decoder = tokens.shape[1], model.decoder
    first, end = state.step * width, (state.step + 1) * width
    state.visible[:, :, first:end] = torch.eye(width, dtype=torch.bool, device=tokens.device)
    x = model.embed(model.target_embedding, model.target_positions, tokens.reshape(-1, 1), state.step)
    x = x.view(len(tokens), width, -1)
    for layer, memory, cache in zip(decoder.layers, state.memory, state.caches, strict=True):
        x = layer_step(layer, x, memory, cache, state.visible[:, None, :, :end], state.source_mask)
    state.step += 1
    return model.output(x if decoder.final_norm is None else decoder.final_norm(x))
