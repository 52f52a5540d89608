"""Outputs that begin with a given text, in whatever pieces the model would write it."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from annotated.text.tokenization import Tokenizer

__all__ = ["Spellings", "begun_with"]


def spelled(piece: str) -> bytes:
    """What a piece writes; one for a single byte is named after it."""
    byte = re.fullmatch("<0x([0-9A-F]{2})>", piece)
    return bytes.fromhex(byte[1]) if byte else piece.encode()


class Spellings:
    """A vocabulary by what its pieces write, in bytes; special tokens write nothing."""

    def __init__(self, tokenizer: Tokenizer):
        special = {tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id}
        self.pieces = [b"" if i in special else spelled(tokenizer.piece(i)) for i in range(len(tokenizer))]
        self.ordered = sorted((piece, i) for i, piece in enumerate(self.pieces) if piece)

    def beginning_with(self, text: bytes) -> list[int]:
        """The pieces that begin with a text, which has a byte at least."""
        first = bisect_left(self.ordered, (text, 0))
        last = first
        while last < len(self.ordered) and self.ordered[last][0].startswith(text):
            last += 1
        return [i for _, i in self.ordered[first:last]]

    def exactly(self, text: bytes) -> list[int]:
        """The pieces that write a text and no more."""
        return [i for i in self.beginning_with(text) if self.pieces[i] == text]

    def followers(self, text: bytes) -> list[list[int]]:
        """For each place in a text, the pieces that can be written there on the way to its end, or past it."""
        found: list[list[int]] = [[] for _ in text]
        for place in reversed(range(len(text))):
            ends = [end for end in range(place + 1, len(text)) if found[end]]  # from there the rest can be written
            exact = [i for end in ends for i in self.exactly(text[place:end])]
            found[place] = self.beginning_with(text[place:]) + exact
        return found


def begun_with(spellings: Spellings, prefixes: Sequence[Sequence[int]]) -> dict[str, Any]:
    """What `beam_search` is told so that outputs begin with the texts of these tokens.

    The pieces of a prefix's last word stay open, since the model may write that word, or a longer one, in others: a
    date's year is a piece of its own only where the date ends there. What is written has to spell it out.
    """
    kept, followers = [], []
    for prefix in prefixes:
        pieces = [spellings.pieces[i] for i in prefix]
        begins = [n for n, piece in enumerate(pieces) if piece.startswith("▁".encode())]
        place = begins[-1] if begins else 0
        place = place if all(pieces[place:]) else len(pieces)  # an unknown piece spells nothing
        kept.append(list(prefix[:place]))
        followers.append(spellings.followers(b"".join(pieces[place:])))

    def rescore(row: int, tokens: list[int], scores: Float[Tensor, " vocab"]) -> Float[Tensor, " vocab"]:
        written = sum(len(spellings.pieces[i]) for i in tokens[len(kept[row]) :])
        if len(tokens) < len(kept[row]) or written >= len(followers[row]):
            return scores
        allowed = torch.tensor(followers[row][written], device=scores.device)
        return torch.full_like(scores, -torch.inf).index_copy(0, allowed, scores[allowed])

    return {"prefixes": kept, "rescore": rescore, "gain": 0.0}
