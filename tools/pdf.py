"""The book to print: `python -m tools.pdf`, which is `make pdf`, writes _build/book.pdf, and _build/evening.pdf.

The second has the chapters of the evening only. Sphinx joins all pages into one, with the stored outputs. A chromium
opens the solutions and prints it, with an outline. What only a screen can use is left out: menus, the map, and the code
that a page folds away.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tools import ROOT, limits
from tools.browser import chromium_path, launch, new_page, served, visit
from tools.build import render, stage, toc_entries
from tools.evening import chapters
from tools.execute import ChapterError

OPEN_SOLUTIONS = """
for (const box of document.querySelectorAll('.bd-article details')) {
  if (box.closest('.tag_hide-input')) box.remove(); else box.open = true;
}
document.documentElement.dataset.theme = 'light';
for (const image of document.images) image.loading = 'eager';
"""
KEEP_ONLY = """
(kept) => {
  const whole = document.querySelector('.bd-article'), pages = document.createElement('div');
  const starts = kept.map((page) => document.getElementById(`document-${page}`));
  pages.className = 'toctree-wrapper';
  pages.append(...starts.flatMap((start) => [start, start.nextElementSibling]));
  whole.replaceChildren(pages);
  document.getElementById('print-main-content')?.remove(); // the contents of all of it
  for (const link of whole.querySelectorAll('a[href^="#"]'))
    if (!document.getElementById(decodeURIComponent(link.hash.slice(1)))) link.removeAttribute('href');
}
"""
FOOTER = """
<div style="font: 8px sans-serif; width: 100%; text-align: center; color: #555"><span class="pageNumber"></span></div>
"""


def print_page(browser: Browser, address: str, target: Path, only: Iterable[str] = ()) -> None:
    """Print a page with all that belongs to it, or some chapters of it; `target` is replaced when that is done."""
    tab, new = new_page(browser, limits.BOOK, color_scheme="light"), target.with_suffix(".new")
    visit(tab, address)
    if only:
        tab.evaluate(KEEP_ONLY, list(only))
    tab.evaluate(OPEN_SOLUTIONS)
    tab.wait_for_function("[...document.images].every((image) => image.complete)")
    margin = {"top": "18mm", "bottom": "18mm", "left": "17mm", "right": "17mm"}
    options = {"display_header_footer": True, "header_template": "<span></span>", "footer_template": FOOTER}
    tab.pdf(path=new, format="A4", margin=margin, outline=True, tagged=True, print_background=True, **options)
    tab.close()
    new.replace(target)


def main(arguments: list[str], root: Path = ROOT) -> int:
    about = "The book to print, _build/book.pdf, and the chapters of the evening, _build/evening.pdf."
    argparse.ArgumentParser(prog="python -m tools.pdf", description=about).parse_args(arguments)
    began = time.monotonic()
    try:
        chromium = chromium_path()
        if chromium is None:
            raise ChapterError("no chromium found: install one, or name it in CHROMIUM")
        pages = toc_entries(root)
        folder = render(root, stage(root, {}), "singlehtml")
        targets = {root / "_build" / "book.pdf": [], root / "_build" / "evening.pdf": chapters(root)}
        print(f"printing {len(pages)} pages of the book", flush=True)
        with served(folder) as address, sync_playwright() as playwright:
            browser = launch(playwright, chromium)
            for target, only in targets.items():
                print_page(browser, f"{address}index.html", target, only)
            browser.close()
    except ChapterError as error:
        print(f"pdf: {error}", file=sys.stderr)
        return 1
    sizes = ", ".join(f"{one.relative_to(root)}: {one.stat().st_size / 1e6:.1f} MB" for one in targets)
    print(f"{sizes} ({time.monotonic() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
