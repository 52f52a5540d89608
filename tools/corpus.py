"""Write the small splits of the embedded corpus to data/embedded, and sizes and checksums to data/README.md.

`python -m tools.corpus` after a change of the grammar. The training split is not written but generated when needed;
only its English words are, in words.txt, for the page, which marks those that the model has never seen.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from annotated.base.files import write_atomically
from annotated.text.grammar.splits import SPLITS, canonical_text, embedded_split, split_checksum
from annotated.text.grammar.words import words
from tools import ROOT


def write_corpus(data: Path = ROOT / "data") -> None:
    """Write every split but the training split, and the table of the datasheet."""
    rows = []
    for name, (_, seed) in SPLITS.items():
        pairs = embedded_split(name)
        longest = max(len(pair.source.split()) for pair in pairs)
        rows.append(f"| {name} | {len(pairs):,} | {longest} | {seed} | `{split_checksum(name)}` |")
        if name != "train":
            write_atomically(data / "embedded" / f"{name}.tsv", canonical_text(pairs).encode())
    write_atomically(data / "embedded" / "words.txt", "".join(f"{word}\n" for word in known_words()).encode())
    sheet = data / "README.md"
    text = sheet.read_text(encoding="utf-8")
    table = re.compile(r"(?<=\| --- \| --- \| --- \| --- \| --- \|\n)(\|.*\|\n)+")
    write_atomically(sheet, table.sub("\n".join(rows) + "\n", text, count=1).encode())


def known_words() -> list[str]:
    """The English words of the training split, in lower case."""
    return sorted({word.lower() for pair in embedded_split("train") for word in words(pair.source)})


def main(arguments: list[str]) -> int:
    about = "Write the small splits of the embedded corpus to data/embedded, after a change of the grammar."
    argparse.ArgumentParser(prog="python -m tools.corpus", description=about).parse_args(arguments)
    write_corpus()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
