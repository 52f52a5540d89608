"""The book as one file to print: `python -m tools.pdf`, which is `make pdf`, writes _build/book.pdf.

Sphinx joins all pages into one, with the stored outputs. A chromium sets the mathematics, opens the solutions and
prints it, with an outline. What only a screen can use is left out: menus, the map, cells that are hidden by default.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tools.build import render, stage, toc_entries
from tools.clean import ROOT
from tools.execute import ChapterError

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPEN_SOLUTIONS = """
for (const box of document.querySelectorAll('.bd-article details')) {
  if (box.closest('.tag_hide-input')) box.remove(); else box.open = true;
}
document.documentElement.dataset.theme = 'light';
"""
FOOTER = """
<div style="font: 8px sans-serif; width: 100%; text-align: center; color: #555"><span class="pageNumber"></span></div>
"""


def chromium_path() -> str:
    """The chromium that $CHROMIUM names, or the first one found. Raises ChapterError when there is none."""
    found = [os.environ.get("CHROMIUM", ""), *(shutil.which(name) or "" for name in CHROMIUMS)]
    path = next((path for path in found if path and Path(path).exists()), None)
    if path is None:
        raise ChapterError("no chromium found: install one, or name it in CHROMIUM")
    return path


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def print_page(folder: Path, page: str, target: Path) -> None:
    """Print a page of a folder with all that belongs to it; `target` is replaced when the new one is whole."""
    from playwright.sync_api import sync_playwright

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    new = target.with_suffix(".new")
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
            tab = browser.new_page(color_scheme="light")
            tab.set_default_timeout(300_000)
            tab.goto(f"http://127.0.0.1:{server.server_port}/{page}", wait_until="load")
            tab.wait_for_selector("html[data-ready=true]", state="attached")
            tab.evaluate(OPEN_SOLUTIONS)
            margin = {"top": "18mm", "bottom": "18mm", "left": "17mm", "right": "17mm"}
            options = {"display_header_footer": True, "header_template": "<span></span>", "footer_template": FOOTER}
            tab.pdf(path=new, format="A4", margin=margin, outline=True, tagged=True, print_background=True, **options)
            browser.close()
    finally:
        server.shutdown()
    new.replace(target)


def main(root: Path = ROOT) -> int:
    began = time.monotonic()
    try:
        chromium_path()
        pages = toc_entries(root)
        folder = render(root, stage(root, {}), "singlehtml")
        target = root / "_build" / "book.pdf"
        print(f"printing {len(pages)} pages of the book", flush=True)
        print_page(folder, "index.html", target)
    except ChapterError as error:
        print(f"pdf: {error}", file=sys.stderr)
        return 1
    print(f"{target.relative_to(root)}: {target.stat().st_size / 1e6:.1f} MB ({time.monotonic() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
