"""How soon a page is there, how much it weighs, and whether anything in it moves: headless chromium, as on a phone.

The processor is four times slower, and the network gives 1.6 Mbit a second with answers after 150 ms. Every page is
opened without a cache, then scrolled through from its top to its end; once more it is opened at its last section. Needs
the pages: `make html`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchmarks.common import record, say
from benchmarks.page import SITE, needed_chromium
from tools.browser import Compressing, launch, new_page, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page

BRAKE, BYTES_A_SECOND, LATENCY = 4, 1.6e6 / 8, 150
SIZES = {"1440": (1440, 900), "390": (390, 844)}
NOTED = 0.005  # a shift from which on it is printed what moved
SHOWN = {"milliseconds": 0, "before": 0, "all": 0, "scrolled": 0, "shift": 3, "at the end": 3}  # and their digits
OBSERVE = """
window.seen = { shift: 0, moved: [], paint: 0 };
new PerformanceObserver((list) => {
  for (const entry of list.getEntries().filter(({ hadRecentInput }) => !hadRecentInput)) {
    window.seen.shift += entry.value;
    const nodes = entry.sources.map(({ node }) => node?.id || node?.className || node?.nodeName);
    window.seen.moved.push([Math.round(entry.startTime), entry.value, ...nodes]);
  }
}).observe({ type: "layout-shift", buffered: true });
new PerformanceObserver((list) => {
  window.seen.paint = list.getEntries().at(-1).startTime;
}).observe({ type: "largest-contentful-paint", buffered: true });
"""
SCROLL = """async () => {
  for (let y = 0; y < document.documentElement.scrollHeight; y += 500) {
    window.scrollTo({ top: y, behavior: "instant" });
    await new Promise((done) => setTimeout(done, 120));
  }
  await new Promise((done) => setTimeout(done, 1000));
}"""
LAST = """() => [...document.querySelectorAll(".bd-article section[id]")].at(-1)?.id ?? """ + '""'


class Traffic:
    """What a page has received, and when: seconds since its first request."""

    def __init__(self, session: CDPSession) -> None:
        self.began: float | None = None
        self.read: dict[str, list[tuple[float, int]]] = {}  # moments, and bytes after decompression
        self.size: dict[str, int] = {}  # compressed
        session.on("Network.requestWillBeSent", self.begin)
        session.on("Network.dataReceived", self.receive)
        session.on("Network.loadingFinished", self.finish)

    def begin(self, event: dict) -> None:
        self.began = self.began or event["timestamp"]

    def receive(self, event: dict) -> None:
        self.read.setdefault(event["requestId"], []).append((event["timestamp"] - self.began, event["dataLength"]))

    def finish(self, event: dict) -> None:
        self.size[event["requestId"]] = event["encodedDataLength"]

    def compressed(self, until: float = math.inf) -> float:
        """Bytes received until then; of an unfinished file so much as its share of what it holds."""
        total = 0.0
        for request, size in self.size.items():
            pieces = self.read.get(request, [])
            whole = sum(length for _, length in pieces)
            total += size * sum(length for time, length in pieces if time <= until) / (whole or 1)
        return total


def braked(browser: Browser, size: tuple[int, int]) -> tuple[Page, Traffic]:
    """An empty page on a slow machine with a slow network, which notes what moves, and what it receives."""
    width, height = size
    page = new_page(browser, viewport={"width": width, "height": height})
    page.add_init_script(OBSERVE)
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    network = {"latency": LATENCY, "downloadThroughput": BYTES_A_SECOND, "uploadThroughput": BYTES_A_SECOND / 2}
    session.send("Network.emulateNetworkConditions", {"offline": False, **network})
    session.send("Emulation.setCPUThrottlingRate", {"rate": BRAKE})
    return page, Traffic(session)


def measure(browser: Browser, address: str, size: tuple[int, int]) -> dict[str, float]:
    """A page's largest paint, its weight before that and in all, and how far its parts were moved."""
    page, traffic = braked(browser, size)
    page.goto(address, wait_until="load")
    page.wait_for_timeout(1500)
    paint = page.evaluate("window.seen.paint")
    found = {"milliseconds": paint, "before": traffic.compressed(paint / 1000), "all": traffic.compressed()}
    page.evaluate(SCROLL)
    seen, found["scrolled"] = page.evaluate("window.seen"), traffic.compressed()
    last = page.evaluate(LAST)
    page.context.close()
    page, _ = braked(browser, size)
    page.goto(f"{address}#{last}", wait_until="load")
    page.wait_for_timeout(1500)
    again = page.evaluate("window.seen")
    page.context.close()
    return found | {"shift": seen["shift"], "at the end": again["shift"], "moved": seen["moved"] + again["moved"]}


def run() -> None:
    """All pages, printed and recorded."""
    from playwright.sync_api import sync_playwright

    path, rows = needed_chromium(), {}
    with served(SITE, Compressing) as address, sync_playwright() as playwright:
        browser = launch(playwright, path)
        version = browser.version
        for page in ["index", *sorted(page.stem for page in SITE.glob("[0-9][0-9]_*.html"))]:
            for width, size in SIZES.items():
                row = measure(browser, f"{address}{page}.html", size)
                moved = [one for one in row.pop("moved") if one[1] > NOTED]
                rows[f"{page} {width}"] = {name: round(value, 4) for name, value in row.items()}
                told = ", ".join(f"{name} {row[name]:.{digits}f}" for name, digits in SHOWN.items())
                say(f"{page:<30} {width:>4} {told} {moved or ''}")
        browser.close()
    worst = {name: max(row[name] for row in rows.values()) for name in next(iter(rows.values()))}
    say(f"worst: {worst}")
    record("benchmark-paint", {
        "browser": f"chromium {version}", "brake": BRAKE, "bytes_a_second": BYTES_A_SECOND, "latency_ms": LATENCY,
        "worst": worst, "pages": rows,
    })  # fmt: skip
