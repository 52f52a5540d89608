"""All schematics and charts of the chapters to take along: the directive `gallery`, and the files that it offers.

Each picture is written as SVG and as PNG at twice its size (by resvg, from npm), for a light and for a dark page. Its
colours, which in a page are those of the style sheet, are resolved in the files.
"""

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

import matplotlib
from charts import COLOUR, SVG, joined, parts_of, roles, themed, turned_over
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
RESVG = ROOT / "node_modules" / "@resvg" / "resvg-js"
KEPT = ROOT / ".cache" / "gallery"  # pictures that were made before
FONTS = [
    Path(matplotlib.get_data_path(), "fonts", "ttf", f"DejaVuSans{kind}.ttf") for kind in ("", "-Bold", "-Oblique")
]
HTML, THEMES = "text/html", ("light", "dark")
VARIABLE = re.compile(r"var\((--[\w-]+)(?:, *([^()]*))?\)")


@dataclass(frozen=True)
class Picture:
    """A picture of a chapter: where it stands, below which heading, what it shows, and its SVG in the light theme."""

    chapter: str
    cell: str
    frame: int
    heading: str
    caption: str
    svg: str

    @property
    def name(self) -> str:
        return f"{self.chapter}-{self.cell}" + (f"-{self.frame}" if self.frame else "")


def pictures(path: Path) -> Iterator[Picture]:
    """The pictures of a notebook, in their order."""
    heading = ""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = joined(cell["source"])
        if cell["cell_type"] == "markdown":
            found = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", source, flags=re.M | re.S), re.MULTILINE)
            heading = plain(found[-1]) if found else heading
            continue
        drawn = [one for output in cell.get("outputs", []) if (one := drawing(output.get("data", {})))]
        alternatives = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "").split(" | ")
        for k, svg in enumerate(drawn):
            caption = described(svg) or alternatives[min(k, len(alternatives) - 1)]
            yield Picture(path.stem, cell["id"], k + 1 if len(drawn) > 1 else 0, heading, caption, svg)


def drawing(data: dict) -> str:
    """The SVG of an output, a chart or a schematic; nothing where it has none."""
    html = joined(data.get(HTML, ""))
    return joined(data.get(SVG, "")) or (html if html.startswith("<svg") and "<desc" in html else "")


def described(svg: str) -> str:
    """What a schematic says of itself."""
    found = re.search(r"<desc[^>]*>(.*?)</desc>", svg, re.S)
    return " ".join(found[1].split()) if found else ""


def plain(text: str) -> str:
    """A heading without roles, links and marks."""
    text = re.sub(r"\{\w+\}`([^`<]*)[^`]*`|\[([^\]]*)\]\([^)]*\)", lambda found: found[1] or found[2], text)
    return re.sub(r"[*`]", "", re.sub(r"\$([^$]*)\$", lambda found: re.sub(r"\\\w+|[{}]", "", found[1]), text)).strip()


def values_of(theme: str) -> dict[str, str]:
    """The variables of the style sheet in a theme."""
    style = (ROOT / "book/web/book.css").read_text(encoding="utf-8")
    blocks = [re.search(rf'data-theme="{one}"\] \{{(.*?)\}}', style, re.S)[1] for one in THEMES]
    values = {"--pst-color-background": "#ffffff"}
    for block in blocks if theme == "dark" else blocks[:1]:
        values |= dict(re.findall(r"(--[\w-]+): ([^;]+);", block))
    return values | {"--book-sans": "sans-serif"}


def mixed(one: str, other: str, share: float) -> str:
    """A colour with so large a share of the first."""
    both = zip(parts_of(one.lstrip("#")), parts_of(other.lstrip("#")), strict=True)
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in both)


def inverted(colour: str) -> str:
    """As the style sheet turns the colours of weights over in the dark: inverted, and the hue turned back."""
    red, green, blue = (255 - part for part in parts_of(colour))
    turned = (
        -0.574 * red + 1.43 * green + 0.144 * blue,
        0.426 * red + 0.43 * green + 0.144 * blue,
        0.426 * red + 1.43 * green - 0.856 * blue,
    )
    return "#" + "".join(f"{min(255, max(0, round(part))):02x}" for part in turned)


def resolved(svg: str, theme: str) -> str:
    """A drawing as a file of its own, in the colours of a theme, on that theme's paper."""
    values, known = values_of(theme), roles()
    text, paper = values["--pst-color-text-base"], values["--pst-color-background"]

    def final(found: re.Match) -> str:
        said = themed(found[1].lower(), known)
        if mix := re.search(r"(\d+)%", said):
            return mixed(text, paper, int(mix[1]) / 100)
        name = VARIABLE.match(said)[1]
        if name.startswith("--hue-"):
            return f"#{found[1] if theme == 'light' else turned_over(found[1])}"
        return values[name]

    def value_of(found: re.Match[str]) -> str:
        value = values.get(found[1], found[2])
        if value is None:
            raise ExtensionError(f"a schematic has the colour {found[1]}, which has no value")
        return value

    if "<style>" in svg:  # a schematic
        values |= dict(re.findall(r"(--figure-\d-[\w-]+): ([^;]+);", svg))
        while VARIABLE.search(svg):
            svg = VARIABLE.sub(value_of, svg)
        in_page = r"\.text_html|--figure|#figure-\d a|(?:display|width|max-width|height|margin|overflow):"
        svg = re.sub(rf"^ *(?:{in_page}).*\n", "", svg, flags=re.MULTILINE)
        svg = svg.replace("currentColor", text)
    else:
        parts = re.split(r'(<g class="ramp".*?</g>)', svg, flags=re.S)
        parts[::2] = [COLOUR.sub(final, part) for part in parts[::2]]
        if theme == "dark":
            parts[1::2] = [COLOUR.sub(lambda found: inverted(found[1].lower()), part) for part in parts[1::2]]
        svg = "".join(parts)
    box = re.search(r'viewBox="([^"]*)"', svg)[1].split()
    head = re.match(r"<svg[^>]*>", svg)[0]
    sized = head if " width=" in head else head[:-1] + f' width="{box[2]}" height="{box[3]}">'
    sheet = f'<rect width="{box[2]}" height="{box[3]}" fill="{paper}"/>'
    return f'{sized[:-1]} fill="{text}">{sheet}{svg[len(head) :]}'


class Gallery(SphinxDirective):
    """Every picture of the chapters, with what it shows, where it stands, how to cite it, and its files."""

    def run(self) -> list[nodes.Node]:
        if self.env.app.builder.name != "html":
            return [nodes.paragraph("", "The gallery shows the pictures of all chapters in the pages of the book.")]
        sections = []
        for page, found in sorted(self.env.app.gallery.items()):
            section = nodes.section(ids=[f"gallery-{page.replace('_', '-')}"])
            title = re.search(r"^# (.+)$", source_of(Path(self.env.srcdir) / f"{page}.ipynb"), re.MULTILINE)[1]
            section += nodes.title("", plain(title))
            section += nodes.raw("", f'<div class="gallery">{"".join(map(shown, found))}</div>', format="html")
            sections.append(section)
        return sections


def source_of(path: Path) -> str:
    """The first cell of a notebook."""
    return joined(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])


def shown(picture: Picture) -> str:
    """A picture in the gallery."""
    base, number = f"_static/gallery/{picture.name}", picture.chapter.split("_")[0]
    head = re.match(r"<svg[^>]*>", resolved(picture.svg, "light"))[0]
    size = " ".join(re.findall(r' ((?:width|height)="\d+")', head))
    images = "".join(
        f'<img class="still-{theme} dark-light" src="{base}-{theme}.svg" alt="{escape(picture.caption)}" {size} '
        'loading="lazy" decoding="async">'
        for theme in THEMES
    )
    kinds = [(kind, theme) for kind in ("svg", "png") for theme in THEMES]
    files = " ".join(f'<a href="{base}-{theme}.{kind}" download>{kind.upper()} {theme}</a>' for kind, theme in kinds)
    place = f"{picture.chapter}.html#cell-{picture.cell}"
    frame = f", frame {picture.frame}" if picture.frame else ""
    cite = (
        f"<i>Attention Is All You Need, annotated</i>, chapter {number}, <code>{picture.cell}</code>{frame}, CC BY 4.0"
    )
    return (
        f'<figure id="{picture.name}"><a class="thumbnail" href="{place}">{images}</a><figcaption>'
        f"<p>{escape(picture.caption)}</p><details><summary>take it along</summary>"
        f'<p>From <a href="{place}">chapter {number}, {escape(picture.heading)}</a>{frame}. Cite as: {cite}.</p>'
        f'<p class="files">{files}</p></details></figcaption></figure>'
    )


def collect(app: Sphinx) -> None:
    """Find the pictures of all chapters."""
    found = {path.stem: list(pictures(path)) for path in sorted(Path(app.srcdir).glob("[0-9][0-9]_*.ipynb"))}
    app.gallery = {page: each for page, each in found.items() if each}


def write_files(app: Sphinx, error: Exception | None) -> None:
    """Write all files. Raises ExtensionError where the library is missing or fails."""
    if error or app.builder.name != "html":
        return
    if not RESVG.is_dir():
        raise ExtensionError("node_modules/@resvg/resvg-js is missing: run `make env`")
    folder, due, copies = Path(app.outdir) / "_static" / "gallery", [], {}
    folder.mkdir(parents=True, exist_ok=True)
    KEPT.mkdir(parents=True, exist_ok=True)
    for picture in (one for found in app.gallery.values() for one in found):
        for theme in THEMES:
            target, svg = folder / f"{picture.name}-{theme}.svg", resolved(picture.svg, theme)
            target.write_text(svg, encoding="utf-8")
            kept = KEPT / f"{hashlib.sha256(svg.encode()).hexdigest()}.png"
            copies[target.with_suffix(".png")] = kept
            if not kept.is_file():
                due.append({"from": str(target), "to": str(kept)})
    command = ["node", str(Path(__file__).with_name("rasterize.cjs"))]
    request = json.dumps({"files": due, "fonts": [str(font) for font in FONTS]})
    done = subprocess.run(command, input=request, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise ExtensionError(f"resvg failed: {done.stderr.strip()}")
    for target, kept in copies.items():
        shutil.copy(kept, target)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("gallery", Gallery)
    app.connect("builder-inited", collect)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
