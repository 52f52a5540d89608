"""What a corpus is: sentence pairs in splits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from annotated.base.files import InputError

__all__ = ["Corpus", "SentencePair"]


@dataclass(frozen=True)
class SentencePair:
    """An English sentence, its German translation, and what the grammar knows about them."""

    source: str
    target: str
    phenomena: tuple[str, ...] = ()  # sorted names
    alignment: tuple[tuple[int, int], ...] = ()  # (source word, target word)
    antecedents: tuple[tuple[int, int], ...] = ()  # (pronoun, head noun of its antecedent), both in the source
    tree: str = ""  # bracketed constituency tree of the source


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs in named splits: train, valid, test, and others a corpus may have, each read when asked for."""

    name: str
    source_language: str
    target_language: str
    loaders: Mapping[str, Callable[[], list[SentencePair]]] = field(repr=False)

    def split(self, name: str) -> list[SentencePair]:
        """The pairs of a split, in order. Raises InputError when there is no such split or it cannot be read."""
        if name not in self.loaders:
            known = ", ".join(self.loaders)
            raise InputError(f"corpus {self.name} has no split {name!r}: choose one of {known}")
        return self.loaders[name]()
