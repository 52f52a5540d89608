"""Parts of a page that can be touched: the directive `widget`, and the files that they load.

    :::{widget} clocks
    :alt: what its picture shows
    The caption, with what to see.
    :::

puts the picture `figures/widgets/clocks.webp` with its caption, on a phone `clocks-narrow.webp`, and in the dark those
that end in `-dark`; where scripts run, `book.js` loads the module `widgets/clocks.js` and gives it the place. In print
and without scripts the picture stays. `breaking-mask` is a widget that `widgets/breaking.js` makes, with a picture of
its own. The picture of the whole machine (`picture`) is drawn when the pages are made (`stills.py`). The shipped model,
the means of its heads, the weights of the other two models of the case and the sentences of the laboratory are copied
into the site unchanged.
"""

from __future__ import annotations

import json
import shutil
from html import escape
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from PIL import Image
from sentences import parts
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from stills import drawn

ROOT = Path(__file__).resolve().parents[2]
CASE = ROOT / "data" / "runs" / "case"
STILLS = ROOT / "book" / "figures" / "widgets"
DENSITY, NARROW = 2, 600  # pixels of a picture for one of the page; the widest page that gets the narrow one
MODEL, MEANS = ROOT / "data" / "models" / "embedded", ROOT / "data" / "runs" / "heads" / "means.json"


class Widget(SphinxDirective):
    """A picture with a caption, in whose place a script puts something that can be touched."""

    required_arguments = 1
    option_spec: ClassVar = {"alt": directives.unchanged_required}
    has_content = True

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        module = name.split("-")[0]
        script = ROOT / "book" / "web" / "widgets" / f"{module}.js"
        if not script.is_file():
            raise self.error(f"there is no book/web/widgets/{module}.js")
        if "alt" not in self.options:
            raise self.error(f"{name}: `alt` says what the picture shows")
        waits = ["waits"] if "export const waits = true" in script.read_text(encoding="utf-8") else []
        figure = nodes.figure("", classes=["widget", *waits], names=[f"widget-{name}"])
        self.add_name(figure)
        self.state.document.note_explicit_target(figure)
        if module == "picture":
            figure += nodes.raw("", drawn(self.options["alt"]), format="html")
        for theme, added in (("light", ""), ("dark", "-dark")) if module != "picture" else ():
            if not (STILLS / f"{name}-narrow{added}.webp").is_file():
                continue  # a new one: `python -m tools.pictures` needs its page
            picture = still(name, added, self.options["alt"])
            figure += nodes.raw("", f'<picture class="still-{theme}">{picture}</picture>', format="html")
        figure += nodes.caption("", "", *self.state.inline_text(" ".join(self.content), self.lineno)[0])
        return [figure]


def still(name: str, theme: str, alternative: str) -> str:
    """The picture of a widget for wide and narrow pages, with its size, so that nothing moves when it comes.

    The theme leaves pictures of the class `dark-light` as they are in the dark.
    """
    sized = []
    for form in ("", "-narrow"):
        with Image.open(STILLS / f"{name}{form}{theme}.webp") as picture:
            width, height = (side // DENSITY for side in picture.size)
        sized.append((f"_static/stills/{name}{form}{theme}.webp", f'width="{width}" height="{height}"'))
    (wide, size), (narrow, narrow_size) = sized
    source = f'<source media="(max-width: {NARROW}px)" srcset="{narrow}" {narrow_size}>'
    rest = f'alt="{escape(alternative)}" {size} loading="lazy" decoding="async"'
    return f'{source}<img class="dark-light" src="{wide}" {rest}>'


def copy_files(app: Sphinx, error: Exception | None) -> None:
    """The model and what belongs to it, beside the scripts."""
    if error or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    shutil.copytree(MODEL, static / "models" / "embedded", dirs_exist_ok=True)
    shutil.copy(MEANS, static / "models" / "embedded" / "means.json")
    shutil.copytree(STILLS, static / "stills", dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.json"))
    (static / "models" / "case").mkdir(exist_ok=True)
    for weights in CASE.glob("*.safetensors"):
        shutil.copy(weights, static / "models" / "case")
    (static / "sentences.json").write_text(json.dumps(parts(), ensure_ascii=False), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("widget", Widget)
    app.connect("build-finished", copy_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
