"""The picture of the whole machine as it stands before anything is loaded: drawn by its own scripts, without a browser.

For each of the two sentences of the landing page there is one for wide pages and one for a phone.
"""

from __future__ import annotations

import functools
import json
import subprocess
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "data" / "models" / "embedded"
SAID = "The animal did not cross the street because it was too {}."
TWINS = {"wide": "tired", "tired": "wide"}
WIDTHS = {"wide": 700, "narrow": 326}  # of pages, in pixels


@functools.cache
def stills() -> dict[str, dict[str, str]]:
    """By "adjective width": the drawing, the translation and its pronoun."""
    wanted = [
        {
            "name": f"{adjective} {form}",
            "state": {"say": SAID.format(adjective), "twin": SAID.format(twin)},
            "width": width,
            "isNarrow": form == "narrow",
        }
        for adjective, twin in TWINS.items()
        for form, width in WIDTHS.items()
    ]
    question = json.dumps({"folder": str(MODEL), "stills": wanted})
    script = ROOT / "book" / "_ext" / "still.mjs"
    done = subprocess.run(["node", str(script)], input=question, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def drawn(alternative: str) -> str:
    """The drawings as markup, of which style sheets show one."""
    link = '<link rel="stylesheet" href="_static/picture/picture.css">'
    boxes = []
    for name, still in stills().items():
        adjective, form = name.split()
        about = f'data-adjective="{adjective}" data-pronoun="{still["pronoun"]}" data-text="{escape(still["text"])}"'
        label = f'role="img" aria-label="{escape(alternative)}"'
        boxes.append(f'<div class="see-still {form}" {about} {label}>{still["svg"]}</div>')
    return f'{link}<div class="see see-stills" data-shown="wide">{"".join(boxes)}</div>'
