"""Pictures of the parts of the book that can be touched: `make html`, then `python -m tools.pictures [NAME...]`.

Every widget, or those that are named, is photographed in its default state, in both themes, on a wide page and on a
phone, and written to `book/figures/widgets/`, for print and for readers without scripts; where models are trained
(chapter 83), they are trained first, which takes two minutes each. `picture`, the whole machine, is photographed as it
is drawn when the pages are made. What stood in the default state as text goes to `texts.json` there; a test compares
that with the page, so that no picture goes stale. Build the pages again afterwards. `python -m tools.pictures sharing`
draws `book/web/sharing.png`, which other sites show beside a link to the book.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from tools import ROOT, limits
from tools.browser import chromium_path, launch, new_page, served, visit

if TYPE_CHECKING:
    from playwright.sync_api import ElementHandle, Page

SITE, PICTURES = ROOT / "_build" / "html", ROOT / "book" / "figures" / "widgets"
SHARING = ROOT / "book" / "web" / "sharing.png"
CARD = """<style>
  body { background: #fff; color: #23262b; font: 38px/1.35 system-ui, "DejaVu Sans", sans-serif; margin: 0; }
  main { border-left: 18px solid #1c5a8a; box-sizing: border-box; height: 630px; padding: 52px 64px; }
  h1 { font-size: 62px; letter-spacing: -0.01em; line-height: 1.15; margin: 0 0 52px; }
  p { margin: 0 0 26px; }
  small { color: #5b6069; display: block; font-size: 30px; margin-top: 56px; }
  i { border: 3px solid; border-radius: 10px; font-style: normal; padding: 0 14px; }
  .animal { color: #b84d06; } .street { color: #0262e0; }
</style>
<main><h1>Attention Is All You Need,<br>annotated</h1>
<p>The animal did not cross the street<br>
because it was too <b class="animal">tired</b>. &nbsp;it: <i class="animal">es</i></p>
<p>The animal did not cross the street<br>
because it was too <b class="street">wide</b>. &nbsp;it: <i class="street">sie</i></p>
<small>The paper, built in code that runs, and put to the test</small></main>"""
THEMES = {"light": "", "dark": "-dark"}  # what is added to a picture's name
FORMS = {"": (1000, 2200), "-narrow": (360, 3600)}  # the page of each form, in its own pixels
DENSITY = 2


def pages_with_widgets(site: Path = SITE) -> list[str]:
    """The pages that have widgets, in the order of their names."""
    return sorted(path.name for path in site.glob("*.html") if 'id="widget-' in path.read_text(encoding="utf-8"))


def opened(page: Page) -> Iterator[tuple[str, ElementHandle]]:
    """Every widget of a page by its name, in its default state; one that waits for the model is started."""
    for figure in page.query_selector_all("figure.widget:not(:has(.see-stills))"):
        figure.scroll_into_view_if_needed()
        page.wait_for_function("figure => figure.dataset.mounted", arg=figure)
        start = figure.query_selector(".start")
        if start:
            start.click()
        page.wait_for_function("figure => figure.classList.contains('live')", arg=figure)
        yield figure.get_attribute("id").removeprefix("widget-"), figure.query_selector(".widget-live")


def finish(name: str, live: ElementHandle) -> None:
    """Bring a widget to where its picture says something without scripts: after training."""
    if name.startswith("breaking"):
        live.query_selector(".choice label").click()
        live.query_selector("button:text('Train both')").click()
        live.wait_for_selector("text=You guessed", timeout=1000 * limits.PROCESS)
        live.query_selector(".told").evaluate("told => told.replaceChildren()")  # as much room as before training


def text_of(live: ElementHandle) -> str:
    """What a widget says, in one line."""
    return " ".join(live.inner_text().split())


def draw_card(page: Page) -> bytes:
    """The picture for sharing, which has the size that most sites ask for."""
    page.set_viewport_size({"width": 1200, "height": 630})
    page.set_content(CARD)
    return page.screenshot()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.pictures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="widgets, as breaking-mask, or sharing (default: all widgets)"
    )
    names = parser.parse_args(arguments).names
    from PIL import Image  # these two are not among what the package needs
    from playwright.sync_api import sync_playwright

    path = chromium_path()
    if path is None:
        print("no chromium found: install it, or name it in $CHROMIUM", file=sys.stderr)
        return 1
    if not (SITE / "index.html").is_file():
        print("pictures are taken from the pages: run `make html`", file=sys.stderr)
        return 1
    if names == ["sharing"]:
        with sync_playwright() as playwright:
            picture = Image.open(io.BytesIO(draw_card(new_page(launch(playwright, path)))))
            picture.quantize(64, dither=Image.Dither.NONE).save(SHARING, optimize=True)
        return 0
    PICTURES.mkdir(parents=True, exist_ok=True)
    texts = json.loads((PICTURES / "texts.json").read_text(encoding="utf-8")) if names else {}
    taken = set()
    with served(SITE) as address, sync_playwright() as playwright:
        browser = launch(playwright, path)
        page = new_page(browser, limits.PAGE, device_scale_factor=DENSITY)
        for form, name in product(FORMS, pages_with_widgets()):
            page.set_viewport_size(dict(zip(("width", "height"), FORMS[form], strict=True)))
            visit(page, f"{address}{name}")
            still = page.query_selector("#widget-picture .see-stills")
            for widget, live in (*opened(page), *([("picture", still)] if still else ())):
                if names and widget not in names:
                    continue
                taken.add(widget)
                if live != still:
                    if form == "":
                        texts[widget] = text_of(live)
                    finish(widget, live)
                    live.evaluate("place => (place.style.minHeight = '')")  # which keeps the room of the last picture
                for theme, added in THEMES.items():
                    page.emulate_media(color_scheme=theme)
                    picture = Image.open(io.BytesIO(live.screenshot())).quantize(24, dither=Image.Dither.NONE)
                    picture.convert("RGB").save(PICTURES / f"{widget}{form}{added}.webp", lossless=True, method=6)
        browser.close()
    if unknown := set(names) - taken:
        print(f"no page has a widget {', '.join(sorted(unknown))}: choose from {', '.join(texts)}", file=sys.stderr)
        return 1
    content = json.dumps(dict(sorted(texts.items())), ensure_ascii=False, indent=2)
    (PICTURES / "texts.json").write_text(content + "\n", encoding="utf-8")
    print(f"{len(taken)} widgets, wide and narrow, in both themes, in {PICTURES.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
