"""How fast the model in the page learns (chapter 83), beside TensorFlow.js on the same step.

TensorFlow.js is installed into `benchmarks/peer` by npm when it is not there; the book does not need it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common import ROOT, interleaved, record, say, show
from benchmarks.page import SITE, needed_chromium
from tools.browser import launch, new_page, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PEER = ROOT / "benchmarks" / "peer"
DIGITS = {"task": "digits", "seed": 1, "width": 32, "layers": 2}
BACKENDS = {"the page's own code": None, "TensorFlow.js, cpu": "cpu", "TensorFlow.js, wasm": "wasm"}
ROUNDS, STEPS, FIRST = 5, 50, 5  # steps of a round, and how many of them are left out: the code is compiled in them
WANTED, SEEDS, LONGEST = 0.95, (1, 2, 3), 400
OWN, RUN_PEER = (
    """async (settings) => (await import("./peer/measure.js")).own(settings)""",
    """async ([backend, settings]) => (await import("./peer/measure.js")).peer(backend, settings)""",
)


def steps_a_second(page: Page, backend: str | None) -> float:
    """Steps a second, by the median step of a run: of a backend of TensorFlow.js, or of the page's own code."""
    settings = DIGITS | {"steps": STEPS}
    own = settings | {"wanted": 2}  # no share is so large
    found = page.evaluate(RUN_PEER, [backend, settings]) if backend else page.evaluate(OWN, own)
    return 1000 / statistics.median(found["milliseconds"][FIRST:])


def until_wanted(page: Page, seed: int) -> dict[str, float | None]:
    """Seconds of training until 95% of unseen examples are right, or until all steps are done."""
    found = page.evaluate(OWN, DIGITS | {"seed": seed, "steps": LONGEST, "wanted": WANTED})
    milliseconds, share = found["milliseconds"], found["shares"][-1]
    return {"seed": seed, "steps": len(milliseconds), "seconds": sum(milliseconds) / 1000, "share": share}


def measure(browser: Browser) -> dict:
    """Steps a second of all three, and how long it takes to learn the digits."""
    if not (PEER / "node_modules").exists():
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(PEER)], check=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, target in (("_static", SITE / "_static"), ("peer", PEER)):
            (Path(folder) / name).symlink_to(target)
        (Path(folder) / "index.html").write_text("<!doctype html><title>benchmark</title>", encoding="utf-8")
        with served(Path(folder)) as address:
            page = new_page(browser, 600)
            page.goto(address)
            contestants = {name: partial(steps_a_second, page, backend) for name, backend in BACKENDS.items()}
            return {
                "steps_a_second": interleaved(contestants, ROUNDS),
                "learned": [until_wanted(page, seed) for seed in SEEDS],
            }


def run() -> None:
    """Steps and seconds, printed and recorded."""
    from playwright.sync_api import sync_playwright

    path = needed_chromium()
    with sync_playwright() as playwright:
        browser = launch(playwright, path)
        found = {"browser": f"chromium {browser.version}", **measure(browser)}
        browser.close()
    show("training in the page: eight digits, batch 32, width 32, 2 + 2 layers", "steps/s", found["steps_a_second"])
    for row in found["learned"]:
        say(f"  seed {row['seed']}: {row['share']:.0%} right after {row['steps']} steps, {row['seconds']:.0f} s")
    record("benchmark-learning", {"peer": json.loads((PEER / "package.json").read_text())["dependencies"], **found})
