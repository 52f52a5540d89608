"""A search that writes only trees."""

import math
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from annotated.batching import pad_sequences, token_batches
from annotated.decoding import output_limits
from annotated.parsing import Tree
from annotated.search.beam import beam_search
from annotated.search.translation import Translator
from annotated.text.pairs import in_batches
from annotated.text.tokenization import Tokenizer

__all__ = ["PARSING_SEARCH", "TreeRules", "Written", "follow", "transduce", "tree_symbols", "write_trees"]


PARSING_SEARCH = {"beam_size": 21, "length_penalty": 0.3, "extra": 300}  # section 6.3


def transduce(translator: Translator, texts: Sequence[str], max_tokens: int = 400, **search) -> list[str]:
    """The best output for each text, in order, with the search of section 6.3 where `search` does not say otherwise.

    Batches hold at most `max_tokens` source tokens, padding counted.
    """
    options = PARSING_SEARCH | search
    sources = translator.tokenize(texts)
    found = in_batches(sources, max_tokens, lambda batches: translator.search_all(batches, options))
    return [translator.to_text(best).text for best, *_ in found]


class Written(NamedTuple):
    """How far a tree is written: pieces, words, open constituents, and whether the innermost one has a part."""

    pieces: int = 0
    words: int = 0
    depth: int = 0
    filled: bool = False


class TreeRules:
    """Which pieces may follow while a tree is written, so that it closes what it opens and has each word once (6.3).

    `leaves` are for each word the symbols that may stand for it: every tag, or the word itself. A word to be copied is
    known, so of its pieces only the first counts, with the probability that any word comes. An output has at most
    `limit` pieces, eos counted. Raises ValueError when no tree of the sentence has so few.
    """

    def __init__(self, tokenizer: Tokenizer, labels: Collection[str], leaves: Sequence[Collection[str]], limit: int):
        self.limit, self.end = limit, (tokenizer.eos_id,)
        self.close = tuple(tokenizer.to_ids(")", target=True))
        self.opens = {tuple(tokenizer.to_ids(f"({label}", target=True)) for label in labels}
        self.leaves = [{tuple(tokenizer.to_ids(text, target=True)) for text in texts} for texts in leaves]
        self.copied = all(len(symbols) == 1 for symbols in self.leaves)
        longest = [max(map(len, symbols)) for symbols in reversed(self.leaves)]
        self.rest = list(accumulate(longest, initial=0))[::-1]  # pieces that the words from the i-th on may need
        self.known = {(): (Written(), ())}
        marks = {symbol[0] for symbol in (self.close, *self.opens)}
        first = [i for i in range(len(tokenizer)) if tokenizer.processor.id_to_piece(i).startswith("▁")]
        self.word_pieces = torch.tensor([i for i in first if i not in marks])
        if not self.symbols(Written()):
            raise ValueError(f"no tree of {len(leaves)} words fits in {limit} pieces")

    def symbols(self, written: Written) -> set[tuple[int, ...]]:
        """The symbols that may come next, as pieces."""
        pieces, words, depth, filled = written
        if words == len(self.leaves):
            return {self.close} if depth else {self.end}
        room = self.limit - pieces - self.rest[words] - (depth + 1) * len(self.close) - len(self.end)
        found = {symbol for symbol in self.opens if len(symbol) <= room}
        found |= self.leaves[words] if depth else set()
        return found | ({self.close} if filled and depth > 1 else set())

    def after(self, written: Written, symbol: tuple[int, ...]) -> Written:
        """How far the tree is written with one more symbol."""
        pieces, words, depth, _ = written
        if symbol in (self.close, self.end):
            return Written(pieces + len(symbol), words, depth - 1, True)
        if symbol in self.opens:
            return Written(pieces + len(symbol), words, depth + 1, False)
        return Written(pieces + len(symbol), words + 1, depth, True)

    def read(self, tokens: tuple[int, ...]) -> tuple[Written, tuple[int, ...]]:
        """How far the tree is written, and the pieces of the symbol that may not be whole yet."""
        if tokens not in self.known:
            (written, begun), token = self.read(tokens[:-1]), tokens[-1]
            longer = (*begun, token)
            if not any(symbol[: len(longer)] == longer for symbol in self.symbols(written)):
                written, longer = self.after(written, begun), (token,)
            self.known[tokens] = written, longer
        return self.known[tokens]

    def allowed(self, tokens: Sequence[int]) -> set[int]:
        """The pieces that may come next: they go on with a symbol, or begin the one after it."""
        written, begun = self.read(tuple(tokens))
        symbols = self.symbols(written)
        found = {symbol[len(begun)] for symbol in symbols if symbol[: len(begun)] == begun != symbol}
        if begun in symbols:
            found |= {symbol[0] for symbol in self.symbols(self.after(written, begun))}
        return found

    def rescore(self, tokens: Sequence[int], scores: Float[Tensor, " vocab"]) -> Float[Tensor, " vocab"]:
        """The log-probabilities of what may come next; all else is impossible."""
        pieces = list(self.allowed(tokens))
        kept = torch.full_like(scores, -math.inf)
        kept[pieces] = scores[pieces]
        written, begun = self.read(tuple(tokens))
        if begun in self.symbols(written):
            written, begun = self.after(written, begun), ()
        if self.copied and written.words < len(self.leaves):
            (word,) = self.leaves[written.words]
            if begun and begun == word[: len(begun)]:
                kept[word[len(begun)]] = 0.0
            elif not begun and word[0] in pieces:
                kept[word[0]] = scores[self.word_pieces].logsumexp(dim=0)
        return kept


def tree_symbols(trees: Iterable[Tree]) -> tuple[set[str], set[str]]:
    """The labels of the constituents in some trees, and the tags of their words (section 6.3)."""
    labels, tags = set(), set()
    for tree in trees:
        (tags if tree.word else labels).add(tree.label)
        for found, more in zip((labels, tags), tree_symbols(tree.children), strict=True):
            found |= more
    return labels, tags


def write_trees(
    translator: Translator,
    texts: Sequence[str],
    sentences: Sequence[Sequence[str]],
    labels: Collection[str],
    tags: Collection[str] | None = None,
    max_tokens: int = 400,
    **search,
) -> list[str]:
    """The best linearised tree for each text, whose words are `sentences`, by a beam that writes only trees (6.3).

    Without `tags` the model copies words. The search is that of `transduce`. Raises ValueError where no tree fits.
    """
    options, model = PARSING_SEARCH | search, translator.model
    device = model.target_embedding.weight.device
    sources, outputs = translator.tokenize(texts), {}
    for batch in token_batches([(source, source) for source in sources], max_tokens):
        source = pad_sequences([sources[i] for i in batch], model.config.pad_id).to(device)
        rules = []
        for i, limit in zip(batch, output_limits(model, source, options["extra"]).tolist(), strict=True):
            leaves = [tags or {word} for word in sentences[i]]
            rules.append(TreeRules(translator.tokenizer, labels, leaves, limit))
        rescore = partial(follow, rules)
        found = beam_search(model, source, rescore=rescore, gain=0.0, **options)  # the rules only forbid
        for i, (best, *_) in zip(batch, found, strict=True):
            outputs[i] = translator.to_text(best).text
    return [outputs[i] for i in range(len(texts))]


def follow(rules: Sequence[TreeRules], row: int, prefix: list[int], scores: Tensor) -> Tensor:
    """The rules of each row, in the form that `beam_search` asks for."""
    return rules[row].rescore(prefix, scores)
