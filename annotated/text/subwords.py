"""Other cuts of the same words while training."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

from annotated.batching import Example
from annotated.text.tokenization import Tokenizer

__all__ = ["PieceDropout"]


def cut_word(word: str, merges: dict[str, float], rate: float, random: Random) -> list[str]:
    """The pieces of a word when each possible merge is left out with probability `rate`; the best one comes first."""
    pieces = list(word)
    while True:
        pairs = enumerate(pairwise(pieces))
        possible = [(merges[a + b], -i) for i, (a, b) in pairs if a + b in merges and random.random() >= rate]
        if not possible:
            return pieces
        i = -max(possible)[1]
        pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]


WAYS = 10  # in which a word may be cut, drawn once for each word


class PieceDropout:
    """Examples whose words are cut in one of `WAYS` ways, drawn anew in each epoch (Provilkov et al. 2020).

    Not in the paper. The same seed and epoch give the same pieces. A word with bytes in place of letters stays as it
    is, and so does a sentence that would have more than `max_length` tokens.
    """

    def __init__(self, tokenizer: Tokenizer, rate: float, seed: int, max_length: int):
        self.rate, self.seed, self.max_length, processor = rate, seed, max_length, tokenizer.processor
        plain = [i for i in range(len(tokenizer)) if not processor.is_byte(i) and not processor.is_control(i)]
        self.texts = {i: processor.id_to_piece(i) for i in plain if not processor.is_unknown(i)}
        self.ids = {text: i for i, text in self.texts.items()}
        self.merges = {text: processor.get_score(i) for i, text in self.texts.items()}
        self.ways: dict[tuple[int, ...], list[tuple[int, ...]]] = {}

    def __call__(self, examples: Sequence[Example], epoch: int) -> list[Example]:
        """The examples in the pieces of an epoch."""
        random = Random(self.seed * 1_000_003 + epoch)
        return [(self.cut(source, random), self.cut(target, random)) for source, target in examples]

    def cut(self, tokens: list[int], random: Random) -> list[int]:
        """The tokens of a sentence, eos at its end, in other pieces."""
        found = [piece for word in self.words(tokens[:-1]) for piece in random.choice(self.ways_of(word))]
        return [*found, tokens[-1]] if len(found) < self.max_length else tokens

    def words(self, tokens: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """The tokens of each word: one that begins with a blank begins a word."""
        begin = 0
        for i, token in enumerate(tokens):
            if i and self.texts.get(token, "").startswith("▁"):
                yield tuple(tokens[begin:i])
                begin = i
        yield tuple(tokens[begin:])

    def ways_of(self, word: tuple[int, ...]) -> list[tuple[int, ...]]:
        """`WAYS` ways to cut a word, the same whenever it is asked for."""
        if word not in self.ways:
            text, random = "".join(self.texts.get(i, "\0") for i in word), Random(f"{self.seed} {word}")
            cuts = [cut_word(text, self.merges, self.rate, random) for _ in range(WAYS)]
            known = "\0" not in text and all(piece in self.ids for pieces in cuts for piece in pieces)
            self.ways[word] = [tuple(self.ids[piece] for piece in pieces) for pieces in cuts] if known else [word]
        return self.ways[word]
