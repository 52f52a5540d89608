"""Charts of the chapters, in the page itself: sharp at any size, and in the colours of the theme.

`tools/drawings.py` stores every figure as SVG in two forms, for a page and for a phone. Both are put into the page, and
the style sheet shows the one that fits. Colours with a meaning become the variables of `book/web/book.css`; black,
white and greys are mixed from the colours of text and page. Any other colour has its light turned over in the dark.
"""

import colorsys
import itertools
import json
import re
from collections import Counter
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).resolve().parents[2]
SVG, NARROW = "image/svg+xml", "application/vnd.annotated.narrow"
TEXT, PAGE = "var(--pst-color-text-base)", "var(--pst-color-background)"
LETTERS, LEGIBLE = r'<text[^>]*font(?:-size)?: [^;"]*?([\d.]+)px', 11  # sizes in a drawing; pixels that one can read
NEARLY = 8  # how far the parts of a grey may lie apart, of 255
COLOUR = re.compile(r"(?<=: )#([0-9a-f]{6})\b", re.IGNORECASE)


def roles() -> dict[str, str]:
    """The variable of each colour with a meaning, by its light form."""
    light = re.search(r'data-theme="light"\] \{(.*?)\}', (ROOT / "book/web/book.css").read_text(encoding="utf-8"), re.S)
    return {colour.lower(): name for name, colour in re.findall(r"(--role-\w+): #(\w{6})", light[1])}


def themed(colour: str, roles: dict[str, str]) -> str:
    """What stands for a colour in the style sheet: a role, a mixture of text and page, or a variable of the page."""
    if colour in roles:
        return f"var({roles[colour]})"
    parts = parts_of(colour)
    if max(parts) - min(parts) > NEARLY:
        return f"var(--hue-{colour})"
    light = sum(parts) / 3
    if light in (0, 255):
        return PAGE if light else TEXT
    return f"color-mix(in srgb, {TEXT} {100 - round(light / 2.55)}%, {PAGE})"


def parts_of(colour: str) -> tuple[int, ...]:
    """Red, green and blue of a colour, 0 to 255."""
    return tuple(int(colour[place : place + 2], 16) for place in (0, 2, 4))


def turned_over(colour: str) -> str:
    """A colour of the light theme for the dark one: its hue, as dark as it was light."""
    hue, light, strength = colorsys.rgb_to_hls(*(part / 255 for part in parts_of(colour)))
    return "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, 1 - light, strength))


def definitions(html: str) -> str:
    """A style for the variables of the page that its drawings use."""
    colours = sorted(set(re.findall(r"--hue-(\w{6})", html)))
    if not colours:
        return ""
    both = ["".join(f"--hue-{one}: #{change(one)};" for one in colours) for change in (str, turned_over)]
    return "<style>html {{{}}} html[data-theme=dark] {{{}}}</style>".format(*both)


def inlined(svg: str, name: str, form: str, alternative: str, roles: dict[str, str]) -> str:
    """A stored drawing as a part of a page; `name` keeps its ids apart from those of others."""
    svg = re.sub(r'(?<= id=")|(?<=url\(#)|(?<=href="#)', f"{name}-", svg)
    parts = re.split(r'(<g class="ramp".*?</g>)', svg, flags=re.S)  # colours of weights stay as they are
    parts[::2] = [COLOUR.sub(lambda found: themed(found[1].lower(), roles), part) for part in parts[::2]]
    width, sizes = re.search(r'width="(\d+)"', svg)[1], [float(size) for size in re.findall(LETTERS, svg)]
    least = float(width) * 0.75 * LEGIBLE / min(sizes, default=LEGIBLE)  # points become pixels
    style = f"max-width: {width}px; --legible: {least:.0f}px"
    head = f'<svg class="{form}" role="img" aria-label="{escape(alternative)}" style="{style}" '
    rest = re.sub(r'<svg xmlns="[^"]*" width="\d+" height="\d+" (viewBox="[^"]*")[^>]*>', r"\1>", "".join(parts))
    return head + rest


class InlineCharts(SphinxTransform):
    """Put the SVG outputs of a notebook into its page."""

    default_priority = 395

    def apply(self, **_: object) -> None:
        path = Path(self.env.doc2path(self.env.docname))
        if path.suffix != ".ipynb":
            return
        notebook, known, count = json.loads(path.read_text(encoding="utf-8")), roles(), itertools.count()
        narrow = {
            joined(output["data"][SVG]): joined(output["data"].get(NARROW, ""))
            for cell in notebook["cells"]
            for output in cell.get("outputs", [])
            if SVG in output.get("data", {})
        }
        charts, seen = [], Counter()
        for image in list(self.document.findall(nodes.image)):
            if not image["uri"].endswith(".svg") or "jupyter_execute" not in image["uri"]:
                continue
            svg = Path(self.env.srcdir, image["uri"].lstrip("/")).read_text(encoding="utf-8").strip()
            forms, alternative = {"wide": svg, "narrow": narrow.get(svg, "")}, image.get("alt", "")
            each = alternative.split(" | ")  # the frames of a cell with several pictures
            own = each[min(seen[alternative], len(each) - 1)]
            seen[alternative] += 1
            drawn = [inlined(text, f"c{next(count)}", form, own, known) for form, text in forms.items() if text]
            charts.append(nodes.raw("", f'<div class="chart">{"".join(drawn)}</div>', format="html"))
            image.replace_self(charts[-1])
        if charts and (style := definitions("".join(chart.astext() for chart in charts))):
            charts[0].parent.insert(charts[0].parent.index(charts[0]), nodes.raw("", style, format="html"))


def joined(text: str | list[str]) -> str:
    """A text of a notebook, which may be stored in lines."""
    return "".join(text).strip()


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(InlineCharts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
