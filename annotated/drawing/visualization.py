"""Pictures of attention."""

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from annotated.base.corpus import SentencePair
from annotated.interventions import attentions
from annotated.model import Transformer
from annotated.text.grammar.words import words
from annotated.text.tokenization import Tokenizer, tokenize

__all__ = ["IBMModel1", "attention_maps", "draw_heads", "sentence_maps", "strongest_links"]


if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class AttentionMaps:
    """The softmax weights of all attentions of a model, ordered layer, sentence, head, query, key (section 3.2)."""

    encoder: Float[Tensor, "layer batch head source source"]
    decoder: Float[Tensor, "layer batch head target target"]
    cross: Float[Tensor, "layer batch head target source"]


@torch.no_grad()
def attention_maps(
    model: Transformer, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
) -> AttentionMaps:
    """Run the model on source tokens and decoder inputs and keep every head's weights; it should be in eval mode."""
    kept: dict[str, list[Tensor]] = {kind: [] for kind in attentions(model)}

    def keep(kind: str, module: nn.Module, args: tuple) -> None:
        x, memory, mask, *_ = (*args, None)
        if not hasattr(module, "weights"):
            raise ValueError(f"{kind}: a {type(module).__name__} has no method weights(x, memory, mask) for maps")
        kept[kind].append(module.weights(x, memory, mask))

    with ExitStack() as hooks:  # removes them at its end
        for kind, modules in attentions(model).items():
            for module in modules:
                hooks.enter_context(module.register_forward_pre_hook(partial(keep, kind)))
        model(source, target)
    return AttentionMaps(**{kind: torch.stack(layers) for kind, layers in kept.items()})


def word_of_piece(tokenizer: Tokenizer, text: str, target: bool = False) -> list[int]:
    """For each token of a text, the word (as `words` counts) that it begins in; eos is one word more."""
    ends = list(itertools.accumulate(len(word) for word in words(text)))  # without the spaces
    result, position, start = [], 0, 0
    for number in tokenize(tokenizer, [text], target)[0]:
        piece, byte = tokenizer.processor.id_to_piece(number), tokenizer.processor.is_byte(number)
        if not byte or int(piece[3:5], 16) & 0xC0 != 0x80:  # a byte of the form 10xxxxxx continues a character
            start, position = position, position + (1 if byte else len(piece.replace("\u2581", "")))
        result.append(bisect_right(ends, start))
    return [*result[:-1], len(ends)]


def by_words(
    weights: Float[np.ndarray, "*axes query key"], queries: Sequence[int], keys: Sequence[int]
) -> Float[np.ndarray, "*axes query_word key_word"]:
    """Weights between tokens as weights between words: summed over a word's keys, averaged over its queries."""
    gather = np.eye(max(keys) + 1)[list(keys)]
    spread = np.eye(max(queries) + 1)[list(queries)]
    spread = spread / spread.sum(axis=0)
    return spread.T @ weights[..., : len(queries), : len(keys)] @ gather


def sentence_maps(model: Transformer, tokenizer: Tokenizer, source: str, target: str) -> dict[str, np.ndarray]:
    """The word maps of one pair, by kind: layer, head, query, key.

    Each side ends with eos. The queries of the decoder, in `decoder` and `cross`, are the words that it predicts. The
    keys of `decoder` are the words before them, from the start symbol on.
    """
    rows, columns = word_of_piece(tokenizer, target, target=True), word_of_piece(tokenizer, source)
    (ids,), (german,) = tokenize(tokenizer, [source]), tokenize(tokenizer, [target], target=True)
    device = model.target_embedding.weight.device
    both = (torch.tensor([tokens], device=device) for tokens in (ids, [model.config.start_id, *german[:-1]]))
    maps = attention_maps(model, *both)
    sides = {
        "encoder": (columns, columns),
        "decoder": (rows, [0, *(row + 1 for row in rows[:-1])]),
        "cross": (rows, columns),
    }
    return {kind: by_words(getattr(maps, kind)[:, 0].cpu().numpy(), *ends) for kind, ends in sides.items()}


def draw_heads(
    ax: "Axes",
    weights: Float[np.ndarray, "head query key"],
    queries: Sequence[str],
    keys: Sequence[str],
    only: Sequence[int] | None = None,
    least: float = 0.05,
) -> None:
    """Curves from attending words to what they attend to, one colour per head, as opaque as the weight (figures 3-5).

    `only` are the positions of the attending words to draw; weights below `least` are left out.
    """
    curve = np.linspace(0, 1, 30)
    bend = curve**2 * (3 - 2 * curve)  # leaves and arrives level
    shown = range(len(queries)) if only is None else only
    shift = 0.12 * (np.arange(len(weights)) - (len(weights) - 1) / 2)  # curves to one word lie side by side
    for head, matrix in enumerate(weights):
        for query in shown:
            for key in np.flatnonzero(matrix[query] >= least):
                height = query + (key - query) * bend + shift[head]
                ax.plot(curve, height, color=f"C{head}", alpha=float(min(1.0, matrix[query, key])), linewidth=2.5)
    for position, word in enumerate(queries):
        weight = "bold" if only is not None and position in shown else "normal"
        ax.text(-0.03, position, word, ha="right", va="center", fontsize=9, fontweight=weight)
    for position, word in enumerate(keys):
        ax.text(1.03, position, word, ha="left", va="center", fontsize=9)
    ax.set(xlim=(0, 1), ylim=(max(len(queries), len(keys)) - 0.5, -0.5))
    ax.axis("off")


def strongest_links(weights: Float[np.ndarray, "target source"]) -> list[tuple[int, int]]:
    """A link from each target word to the source word with the largest weight; none where that is eos.

    Both sides of the map end with eos, as those of `sentence_maps` do. Links are pairs (source word, target word).
    """
    largest = weights[:-1].argmax(axis=-1)
    return [(int(key), row) for row, key in enumerate(largest) if key < weights.shape[1] - 1]


class IBMModel1:
    """Translation probabilities of words by expectation maximisation (Brown et al. 1993, model 1), for alignments.

    Each target word comes from a source word of its sentence or from none. Case is ignored.
    """

    def __init__(self, pairs: Sequence[SentencePair], iterations: int = 6):
        self.source: dict[str, int] = {"": 0}  # the empty word, which stands for none
        self.target: dict[str, int] = {}
        numbered = [
            ([0, *self.numbers(self.source, pair.source)], self.numbers(self.target, pair.target)) for pair in pairs
        ]
        source = np.concatenate([np.tile(left, len(right)) for left, right in numbered])
        target = np.concatenate([np.repeat(right, len(left)) for left, right in numbered])
        sizes = np.concatenate([np.full(len(right), len(left)) for left, right in numbered])
        token = np.repeat(np.arange(len(sizes)), sizes)  # the target token that each possible link is for
        cell = source * len(self.target) + target
        self.table = np.full(len(self.source) * len(self.target), 1.0 / len(self.target))
        for _ in range(iterations):
            share = self.table[cell]
            share /= np.bincount(token, share)[token]  # expected links
            counts = np.bincount(cell, share, len(self.table)).reshape(len(self.source), -1)
            self.table = (counts / counts.sum(axis=1, keepdims=True).clip(1e-12)).reshape(-1)

    @staticmethod
    def numbers(known: dict[str, int], text: str) -> list[int]:
        return [known.setdefault(word.lower(), len(known)) for word in words(text)]

    def probability(self, source: str, target: str) -> float:
        """The probability that a source word ("" for none) becomes this target word; 0 for words never seen."""
        left, right = self.source.get(source.lower()), self.target.get(target.lower())
        return 0.0 if left is None or right is None else float(self.table[left * len(self.target) + right])

    def links(self, pair: SentencePair) -> list[tuple[int, int]]:
        """The most probable source word of each target word; none where that is the empty word."""
        source, result = ["", *words(pair.source)], []
        for row, word in enumerate(words(pair.target)):
            best = int(np.argmax([self.probability(left, word) for left in source]))
            result += [(best - 1, row)] if best else []
        return result
