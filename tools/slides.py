"""Slides for three lessons: `make html`, then `python -m tools.slides`, which is `make slides`, writes _build/slides.

A deck is a Markdown file in `book/slides/`. Below its head, with title and minutes, each `##` begins a slide: a line
`{picture} NAME` shows a picture of the gallery, `{widget} NAME` a part that can be touched, and what follows
`Notes (2 min, 32_attention):` is for the speaker. The folder stands alone: from a server its widgets are alive, from
files and as PDF they are pictures. The frame is reveal.js, from npm; S opens the speaker's view.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from markdown_it import MarkdownIt

from tools import ROOT, limits
from tools.browser import chromium_path, launch, new_page, served
from tools.execute import ChapterError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DECKS = ROOT / "book" / "slides"
NEEDED = (
    "favicon.svg",
    "book.js",
    "book.css",
    "widgets.css",
    "slides.css",
    "slides.js",
    "widgets",
    "model",
    "models",
    "stills",
    "picture",
    "sentences.json",
)
REVEAL = ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js")
NOTES = re.compile(r"^Notes \((\d+) min, (\w+)\):\s*", re.MULTILINE)
SHOWN = re.compile(r"^\{(picture|widget)\} (\S+)$", re.MULTILINE)
SIZES = ("1280px", "720px")
PAPER = (1140, 540)  # pixels for a still on a printed slide
REPEATED, CUT = 1.06, 1.75  # columns show so much of it, some twice; they must make it so much larger to be worth it
markdown = MarkdownIt("commonmark", {"html": True, "typographer": True}).enable("table")


@dataclass(frozen=True)
class Slide:
    """A slide: its headline and body as Markdown, what it shows, its notes, minutes and chapter."""

    headline: str
    body: str
    kind: str  # picture, widget or nothing
    name: str
    notes: str
    minutes: int
    chapter: str


@dataclass(frozen=True)
class Deck:
    """A lesson."""

    name: str
    title: str
    minutes: int
    about: str
    slides: list[Slide]


def read_deck(path: Path) -> Deck:
    """The deck of a file. Raises ChapterError that names the slide where something is missing."""
    parts = path.read_text(encoding="utf-8").split("---\n", 2)
    settings = yaml.safe_load(parts[1]) if len(parts) == 3 else {}
    if missing := {"title", "minutes", "about"} - set(settings):
        raise ChapterError(f"{path.name}: its head, between two lines of ---, lacks {', '.join(sorted(missing))}")
    slides = [read_slide(part, f"{path.name}, slide {k}") for k, part in enumerate(parts[2].split("\n## ")[1:], 1)]
    if (total := sum(slide.minutes for slide in slides)) != settings["minutes"]:
        raise ChapterError(f"{path.name}: its slides take {total} minutes, its head says {settings['minutes']}")
    return Deck(path.stem, settings["title"], settings["minutes"], settings["about"], slides)


def read_slide(text: str, place: str) -> Slide:
    """One slide."""
    headline, _, rest = text.partition("\n")
    parts = NOTES.split(rest)
    if len(parts) != 4 or not parts[3].strip():
        raise ChapterError(
            f"{place}: expected one line that begins with `Notes (2 min, 32_attention):`, and notes behind"
        )
    body, minutes, chapter, notes = parts
    shown = SHOWN.findall(body) or [("", "")]
    if len(shown) > 1:
        raise ChapterError(f"{place}: more than one picture or widget")
    return Slide(headline, SHOWN.sub("", body).strip(), *shown[0], notes.strip(), int(minutes), chapter)


def html_of(slide: Slide, site: Path) -> str:
    """A slide in the page. Raises ChapterError for a picture or a widget that the site does not have."""
    parts = [f"<h2>{markdown.renderInline(slide.headline)}</h2>", markdown.render(slide.body)]
    if slide.kind == "picture":
        if not (site / "_static" / "gallery" / f"{slide.name}-light.svg").is_file():
            raise ChapterError(f"the gallery has no picture {slide.name}")
        caption = caption_of(slide.name, site)
        parts.append(f'<img class="drawing" src="_static/gallery/{slide.name}-light.svg" alt="{caption}">')
    elif slide.kind == "widget":
        parts.append(widget_of(slide.name, site))
    place = "the first page" if slide.chapter == "index" else f"chapter {slide.chapter.split('_')[0]}"
    parts.append(f'<p class="source">{place}</p>')
    parts.append(f'<aside class="notes">{markdown.render(slide.notes)}</aside>')
    return f'<section class="{slide.kind or "words"}">{"".join(parts)}</section>'


def caption_of(name: str, site: Path) -> str:
    """What a picture of the gallery shows, as its page says."""
    return re.search(rf'src="_static/gallery/{re.escape(name)}-light\.svg" alt="([^"]*)"', gallery(site))[1]


def gallery(site: Path) -> str:
    return (site / "gallery.html").read_text(encoding="utf-8")


def widget_of(name: str, site: Path) -> str:
    """The figure of a widget, taken from the page of the book that has it, without its caption."""
    for page in sorted(site.glob("*.html")):
        text = page.read_text(encoding="utf-8")
        if found := re.search(
            rf'<figure class="[^"]*" id="widget-{re.escape(name)}">(.*?)<figcaption', text, re.DOTALL
        ):
            picture = found[1] if "<img" in found[1] else photograph("picture", site)
            return f'<figure class="widget" id="widget-{name}">{found[1]}{columns_of(picture)}</figure>'
    raise ChapterError(f"no page has a widget {name}")


def photograph(name: str, site: Path) -> str:
    """The still of a widget that its page draws itself."""
    from PIL import Image  # not among what the package needs

    with Image.open(site / "_static" / "stills" / f"{name}.webp") as picture:
        width, height = picture.size
    return f'<img src="_static/stills/{name}.webp" alt="" width="{width}" height="{height}">'


def columns_of(picture: str) -> str:
    """A still cut into as many columns as make it largest on paper; each repeats a little of the one before."""
    source, width, height = re.search(r'<img [^>]*?src="([^"]+)"[^>]*? width="(\d+)" height="(\d+)"', picture).groups()

    def size(count: int) -> float:
        return min(PAPER[0] / count / int(width), PAPER[1] / (int(height) / count * (REPEATED if count > 1 else 1)))

    count = max(range(1, 5), key=lambda count: size(count) / (CUT if count > 1 else 1))
    tall = PAPER[1] if count > 1 else int(height) * size(1)
    parts = "".join(
        f'<img src="{source}" alt="" style="width: {int(width) * size(count):.0f}px; height: {tall:.0f}px; '
        f'object-position: 0 {100 * k / max(1, count - 1):.0f}%">'
        for k in range(count)
    )
    return f'<div class="columns">{parts}</div>'


def page_of(deck: Deck, site: Path) -> str:
    """The page of a deck."""
    title = f'<section class="title"><h1>{markdown.renderInline(deck.title)}</h1><p>{escape(deck.about)}</p></section>'
    slides = title + "".join(html_of(slide, site) for slide in deck.slides)
    sheets = "".join(f'<link rel="stylesheet" href="{sheet}">' for sheet in (
        "reveal/reset.css", "reveal/reveal.css", "_static/book.css", "_static/widgets.css", "_static/slides.css",
    ))  # fmt: skip
    scripts = "".join(f'<script src="{one}"></script>' for one in (
        "reveal/reveal.js", "reveal/notes.js", "_static/slides.js", "_static/book.js",
    ))  # fmt: skip
    return page(plain(deck.title), sheets, f'<div class="reveal"><div class="slides">{slides}</div></div>{scripts}')


def page(title: str, head: str, body: str) -> str:
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    meta += '<link rel="icon" href="_static/favicon.svg">'
    return (
        f'<!doctype html><html lang="en" data-theme="light"><head>{meta}<title>{escape(title)}</title>{head}</head>'
        f"<body>{body}</body></html>\n"
    )


def plain(text: str) -> str:
    return text.replace("*", "")


def contents(decks: list[Deck]) -> str:
    """The page that leads to the decks."""
    items = "".join(
        f'<li><a href="{deck.name}.html">{markdown.renderInline(deck.title)}</a>, {deck.minutes} minutes, '
        f'as <a href="{deck.name}.pdf">PDF</a>, or with <a href="{deck.name}-notes.pdf">notes</a>. '
        f"{escape(deck.about)}</li>"
        for deck in decks
    )
    told = (
        "Press S for the speaker's view with notes and clock, F for the whole screen, and arrows to go on. What can be "
        "touched on a slide needs a server: run <code>python -m http.server</code> in this folder, and open "
        "http://localhost:8000. Opened from files, and in the PDF, the slides show pictures in its place. CC BY 4.0."
    )
    sheets = '<link rel="stylesheet" href="_static/book.css"><link rel="stylesheet" href="_static/slides.css">'
    return page("Slides", sheets, f'<main class="decks"><h1>Slides</h1><ul>{items}</ul><p>{told}</p></main>')


def write(decks: list[Deck], site: Path, target: Path) -> None:
    """The folder, without PDF, which must not be there yet."""
    (target / "reveal").mkdir(parents=True)
    for name in REVEAL:
        text = (ROOT / "node_modules" / "reveal.js" / name).read_text(encoding="utf-8")
        text = re.sub(r"\n//# sourceMappingURL=.*", "", text)
        (target / "reveal" / Path(name).name).write_text(text, encoding="utf-8")
    for deck in decks:
        (target / f"{deck.name}.html").write_text(page_of(deck, site), encoding="utf-8")
    (target / "index.html").write_text(contents(decks), encoding="utf-8")
    pictures = {f"gallery/{slide.name}-light.svg" for deck in decks for slide in deck.slides if slide.kind == "picture"}
    for name in (*NEEDED, *sorted(pictures)):
        copy(site / "_static" / name, target / "_static" / name)


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


def print_decks(browser: Browser, address: str, decks: list[Deck], target: Path) -> Iterator[Path]:
    """Each deck as PDF, without and with notes."""
    for deck in decks:
        for query, added in (("print-pdf", ""), ("print-pdf&showNotes=separate-page", "-notes")):
            tab = new_page(browser, limits.BOOK)
            tab.goto(f"{address}{deck.name}.html?{query}", wait_until="load")
            tab.wait_for_selector("html.reveal-print .pdf-page", state="attached")
            tab.evaluate("for (const image of document.images) image.loading = 'eager'")
            tab.wait_for_function("[...document.images].every((one) => one.complete)")
            path = target / f"{deck.name}{added}.pdf"
            tab.pdf(path=path, width=SIZES[0], height=SIZES[1], print_background=True, tagged=True)
            tab.close()
            yield path


def main(arguments: list[str], root: Path = ROOT) -> int:
    about = "Slides for three lessons, in _build/slides; needs the pages: make html."
    parser = argparse.ArgumentParser(prog="python -m tools.slides", description=about)
    parser.add_argument("--no-pdf", action="store_true", help="only the pages, which needs no chromium")
    options = parser.parse_args(arguments)
    site, target = root / "_build" / "html", root / "_build" / "slides"
    new = target.with_name("slides.new")
    try:
        if not (site / "gallery.html").is_file():
            raise ChapterError("the slides take their pictures from the pages: run `make html`")
        decks = [read_deck(path) for path in sorted(DECKS.glob("*.md"))]
        shutil.rmtree(new, ignore_errors=True)
        write(decks, site, new)
        count = sum(len(deck.slides) for deck in decks)
        if not options.no_pdf:
            path = chromium_path()
            if path is None:
                raise ChapterError("no chromium found: install one, or name it in CHROMIUM, or ask for --no-pdf")
            from playwright.sync_api import sync_playwright

            with served(new) as address, sync_playwright() as playwright:
                browser = launch(playwright, path)
                for _ in print_decks(browser, address, decks, new):
                    pass
                browser.close()
        shutil.rmtree(target, ignore_errors=True)
        new.rename(target)
    except ChapterError as error:
        print(f"slides: {error}", file=sys.stderr)
        return 1
    print(f"{len(decks)} decks, {count} slides: open {target.relative_to(root)}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
