# Written by `make export` from book/51_data_and_batching.ipynb: do not edit here, edit the chapter.
"""Training data and batching: chapter 51 of the book."""

from dataclasses import dataclass

__all__ = ["SPLITS", "SentencePair", "embedded_split"]


# book/51_data_and_batching.ipynb#stub
@dataclass(frozen=True)
class SentencePair:
    """A pair.

    Defined in chapter 51: `stub`.
    """

    source: str
    target: str
    phenomena: tuple[str, ...] = ()
    alignment: tuple[tuple[int, int], ...] = ()
    antecedents: tuple[tuple[int, int], ...] = ()
    tree: str = ""


SPLITS = {"train": 1}


def embedded_split(name: str) -> list[SentencePair]:
    """Stub.

    Defined in chapter 51: `stub`.
    """
    return []
