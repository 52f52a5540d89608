"""The two sentences of the landing page, as the shipped model reads and translates them.

The landing page shows this at once; the model itself comes when a reader asks for another sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from annotated.drawing.visualization import sentence_maps
from annotated.search.translation import Translator
from annotated.text.grammar.words import words

HEADS = (0, 3)  # of the last layer of the encoder: the two that lead from "it" to nouns


def states(model: Path) -> dict[str, dict[str, Any]]:
    """For each adjective: the words, the row of *it* in both heads, and the translation."""
    translator = Translator.load(model)
    return {
        adjective: state(translator, f"The animal did not cross the street because it was too {adjective}.")
        for adjective in ("tired", "wide")
    }


def state(translator: Translator, source: str) -> dict[str, Any]:
    """The same for one sentence."""
    (german,) = translator.translate([source])
    maps = sentence_maps(translator.model, translator.tokenizer, source, german)["encoder"][-1]
    english = words(source)
    rows = [[round(float(weight), 4) for weight in maps[head, english.index("it")]] for head in HEADS]
    return {"words": [*english, "end"], "rows": rows, "text": german}
