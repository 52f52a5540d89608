"""The model in the page, in headless chromium: sizes, the first translation, those after it, and a phone's pace.

Needs the pages: `make html`. A phone is imitated by chromium's own brake, which makes the processor four times slower.
"""

from __future__ import annotations

import gzip
import statistics
from typing import TYPE_CHECKING

from annotated.base.files import InputError
from annotated.text.grammar.splits import embedded_split
from benchmarks.common import ROOT, record, say
from tools.browser import chromium_path, launch, new_page, served, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SITE = ROOT / "_build" / "html"
BRAKES = {"two idle cores": 1, "four times slower": 4}
FIRST, SENTENCES = 5, 30  # how often a page is opened; sentences of the test split
PARTS = {
    "code": ("widgets", "model", "widgets.css"),
    "sentences": ("sentences.json",),
    "model": ("models/embedded",),
}
MEASURE = """async ({ sentences, base }) => {
  const { Translator } = await import(base + "model/translation.js");
  const translator = await Translator.load(base + "models/embedded/");
  const clock = (run) => {
    const start = performance.now();
    const result = run();
    return [performance.now() - start, result];
  };
  const rows = sentences.map((text) => {
    const [greedy] = clock(() => translator.translate(text));
    const [beam, { tokens }] = clock(() => translator.translate(text, { width: 4 }));
    return { greedy, step: beam / tokens.length };
  });
  return rows.slice(5); // the first ones are compiled
}"""


def needed_chromium() -> str:
    """The browser. Raises InputError where it is missing, or the pages are."""
    path = chromium_path()
    if path is None or not (SITE / "index.html").is_file():
        raise InputError("the page needs a chromium and the pages: run `make html`")
    return path


def compressed(names: tuple[str, ...]) -> int:
    """Bytes of these files and folders of `_static`, each compressed alone, as a host sends them."""
    paths = [path for name in names for path in [SITE / "_static" / name, *(SITE / "_static" / name).rglob("*")]]
    return sum(len(gzip.compress(path.read_bytes())) for path in paths if path.is_file())


def first_translation(browser: Browser, address: str, brake: int) -> float:
    """Milliseconds from the click on the landing page to the translation, the model's way included."""
    page = new_page(browser)
    visit(page, f"{address}index.html")
    page.locator("#widget-twins").scroll_into_view_if_needed()
    start = page.get_by_role("button", name="Type your own sentence")
    start.wait_for()
    slow(page, brake)
    page.evaluate("""() => {
      const figure = document.getElementById("widget-twins");
      figure.addEventListener("click", () => { window.clicked = performance.now(); }, { once: true });
      const look = () => { if (figure.querySelector(".own")) window.shown ??= performance.now(); };
      new MutationObserver(look).observe(figure, { childList: true, subtree: true });
    }""")
    start.click()
    page.wait_for_function("window.shown")
    milliseconds = page.evaluate("window.shown - window.clicked")
    page.context.close()
    return milliseconds


def slow(page: Page, brake: int) -> None:
    """Make the page's processor so many times slower."""
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": brake})


def measure(browser: Browser, address: str, brake: int) -> dict[str, float]:
    """Medians of all that takes time."""
    first = [first_translation(browser, address, brake) for _ in range(FIRST)]
    page = new_page(browser)
    visit(page, f"{address}index.html")
    slow(page, brake)
    sentences = [pair.source for pair in embedded_split("test")[: SENTENCES + 5]]
    rows = page.evaluate(MEASURE, {"sentences": sentences, "base": f"{address}_static/"})
    page.context.close()
    medians = {name: statistics.median(row[name] for row in rows) for name in ("greedy", "step")}
    return {
        "first translation": statistics.median(first),
        "greedy translation": medians["greedy"],
        "beam step": medians["step"],
    }


def run() -> None:
    """Sizes and times, printed and recorded."""
    from playwright.sync_api import sync_playwright

    path = needed_chromium()
    sizes = {name: compressed(names) for name, names in PARTS.items()}
    with served(SITE) as address, sync_playwright() as playwright:
        browser = launch(playwright, path)
        version = browser.version
        table = {name: measure(browser, address, brake) for name, brake in BRAKES.items()}
        browser.close()
    say(f"\nthe page's own additions, compressed: {sum(sizes.values()) / 1e6:.2f} MB " + str(sizes))
    for name, row in table.items():
        say(f"{name:<18} " + ", ".join(f"{what} {milliseconds:.0f} ms" for what, milliseconds in row.items()))
    record("benchmark-page", {
        "browser": f"chromium {version}", "sentences": SENTENCES, "pages_opened": FIRST, "bytes": sizes,
        "milliseconds": table,
    })  # fmt: skip
