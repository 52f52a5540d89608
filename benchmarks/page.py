"""The model in the page, in headless chromium: sizes, the first look, translations, and how smoothly the picture moves.

Needs the pages: `make html`. A phone is imitated by chromium's own brake, which makes the processor four times slower.
The picture's work is that of the page's main thread between two frames, from chromium's own trace.
"""

from __future__ import annotations

import gzip
import json
import statistics
from collections.abc import Callable
from itertools import pairwise
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
    "code": ("widgets", "model", "picture", "widgets.css"),
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


def first_look(browser: Browser, address: str, brake: int) -> float:
    """Milliseconds from the click on the landing page's picture until it can be touched, the model's way included."""
    page = new_page(browser)
    visit(page, f"{address}index.html")
    start = page.locator("#widget-picture-guess .start")
    start.scroll_into_view_if_needed()
    slow(page, brake)
    page.evaluate("""() => {
      const figure = document.getElementById("widget-picture-guess");
      figure.addEventListener("click", () => { window.clicked = performance.now(); }, { once: true });
      const look = () => { if (figure.querySelector(".widget-live .scene")) window.shown ??= performance.now(); };
      new MutationObserver(look).observe(figure, { childList: true, subtree: true });
    }""")
    start.click()
    page.wait_for_function("window.shown")
    milliseconds = page.evaluate("window.shown - window.clicked")
    page.context.close()
    return milliseconds


def open_and_close(page: Page) -> None:
    for column in ("encoder.1", "encoder.1.0"):
        page.locator(f".widget-live [data-open='{column}']").dispatch_event("click")
        page.wait_for_timeout(900)
    for _ in range(2):
        page.locator(".widget-live .scene").press("Escape")
        page.wait_for_timeout(900)


def point(page: Page) -> None:
    for row in range(12):
        page.locator(f".widget-live [data-side=source][data-at='{row}']").hover()
        page.wait_for_timeout(100)


def scrub(page: Page) -> None:
    for _ in range(10):
        page.locator(".widget-live .see-scrub input").press("ArrowLeft")
        page.wait_for_timeout(100)


def cut(page: Page) -> None:
    for _ in range(2):
        page.locator(".widget-live .grip").first.dispatch_event("click")
        page.wait_for_timeout(1500)


GESTURES: dict[str, Callable[[Page], None]] = {"zoom": open_and_close, "hover": point, "scrub": scrub, "cut": cut}


def smoothness(browser: Browser, address: str, brake: int) -> dict[str, dict[str, float]]:
    """For each gesture the main thread's work a frame in milliseconds: its median and its 95th percentile."""
    page = new_page(browser)
    visit(page, f"{address}81_laboratory.html")
    page.locator("#widget-picture .start").click()
    page.locator(".widget-live .scene").scroll_into_view_if_needed()
    page.wait_for_timeout(4000)  # until all prices have come
    slow(page, brake)
    table = {}
    for name, gesture in GESTURES.items():
        browser.start_tracing(page=page, categories=["disabled-by-default-devtools.timeline", "devtools.timeline"])
        gesture(page)
        work = sorted(frames(json.loads(browser.stop_tracing())["traceEvents"]))
        table[name] = {"frames": len(work), "median": statistics.median(work), "95th": work[int(0.95 * len(work))]}
    page.context.close()
    return table


def frames(events: list[dict]) -> list[float]:
    """Milliseconds of work of the thread that handles the page's events, between two frames that it drew."""
    place = next((one["pid"], one["tid"]) for one in events if one["name"] in ("EventDispatch", "FireAnimationFrame"))
    own = [one for one in events if (one.get("pid"), one.get("tid")) == place]
    drawn = sorted(one["ts"] for one in own if one["name"] == "Commit")
    tasks = [(one["ts"], one["dur"] / 1000) for one in own if one["name"] == "RunTask" and "dur" in one]
    work = [sum(spent for at, spent in tasks if start <= at < end) for start, end in pairwise(drawn)]
    return [spent for spent in work if spent > 0.5]  # in others nothing happened


def slow(page: Page, brake: int) -> None:
    """Make the page's processor so many times slower."""
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": brake})


def measure(browser: Browser, address: str, brake: int) -> dict[str, float]:
    """Medians of all that takes time."""
    first = [first_look(browser, address, brake) for _ in range(FIRST)]
    page = new_page(browser)
    visit(page, f"{address}index.html")
    slow(page, brake)
    sentences = [pair.source for pair in embedded_split("test")[: SENTENCES + 5]]
    rows = page.evaluate(MEASURE, {"sentences": sentences, "base": f"{address}_static/"})
    page.context.close()
    medians = {name: statistics.median(row[name] for row in rows) for name in ("greedy", "step")}
    return {
        "first look": statistics.median(first),
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
        moves = smoothness(browser, address, max(BRAKES.values()))
        browser.close()
    say(f"\nthe page's own additions, compressed: {sum(sizes.values()) / 1e6:.2f} MB " + str(sizes))
    for name, row in table.items():
        say(f"{name:<18} " + ", ".join(f"{what} {milliseconds:.0f} ms" for what, milliseconds in row.items()))
    for name, row in moves.items():
        say(f"{name:<18} work a frame, four times slower: median {row['median']:.0f} ms, 95th {row['95th']:.0f} ms")
    record("benchmark-page", {
        "browser": f"chromium {version}", "sentences": SENTENCES, "pages_opened": FIRST, "bytes": sizes,
        "milliseconds": table, "frames": moves,
    })  # fmt: skip
