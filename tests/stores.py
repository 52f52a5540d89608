"""A small corpus, and stores made of it."""

from __future__ import annotations

from pathlib import Path

from annotated.text.preparation import StoreSettings, Text, prepare
from annotated.text.store import Store

NOUNS = ("dog", "cat", "house", "river", "teacher", "garden")
PAIRS = [(f"The {a} number {i} sees the {b}.", f"Der {b} Nummer {i} sieht {a}.") for i in range(3) for a in NOUNS
         for b in NOUNS]  # fmt: skip
SETTINGS = StoreSettings(vocab_size=300, max_ratio=3.0, held_out=2)


def text(pairs: list[tuple[str, str]] = PAIRS, **held: list[tuple[str, str]]) -> Text:
    return Text(
        "test", "en", "de", {name: (lambda some=some: iter(some)) for name, some in {"train": pairs, **held}.items()}
    )


def quiet(line: str) -> None:
    pass


def make(folder: Path, pairs: list[tuple[str, str]] = PAIRS, **options) -> Store:
    return prepare(text(pairs), folder, options.pop("settings", SETTINGS), say=options.pop("say", quiet), **options)


def write_pairs(path: Path) -> str:
    """A TSV of the corpus; its name, as `--corpus` takes it."""
    path.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    return str(path)
