"""A browser, tabs and pages for tests of the rendered book: what tests/test_site.py and test_site_widgets.py share."""

import fcntl
import os
from functools import cache
from pathlib import Path

import pytest

from tools import limits
from tools.browser import chromium_path, launch, new_page, served, visit
from tools.build import build
from tools.execute import ChapterError

ROOT = Path(__file__).resolve().parents[1]
SITE = Path(os.environ.get("ANNOTATED_SITE", ROOT / "_build" / "html"))
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
ARGUMENTS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
ARGUMENTS += ["--disable-component-update", "--disable-sync"]
ARGUMENTS += ["--js-flags=--min-semi-space-size=64 --max-semi-space-size=128"]  # axe makes much garbage
WIDTHS = {"laptop": (1440, 900), "phone": (390, 844)}


def missing(reason: str) -> None:
    """Skip, except where the tests must not be skipped."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def site():
    """The address of the site, built where something changed since it was, and served on this machine."""
    if "ANNOTATED_SITE" not in os.environ:
        (ROOT / "_build").mkdir(exist_ok=True)
        with open(ROOT / "_build" / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one process builds, the others wait
            try:
                build(ROOT, execute_chapters=False)
            except ChapterError as error:
                pytest.fail(f"the site cannot be built: {error}", pytrace=False)
    with served(SITE) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        path = chromium_path() or playwright.chromium.executable_path
        if not Path(path).exists():
            missing("no chromium found: browser tests skipped")
        chromium = launch(playwright, path, *ARGUMENTS)
        yield chromium
        chromium.close()


def sized(width: str) -> dict[str, int]:
    return dict(zip(("width", "height"), WIDTHS[width], strict=True))


def new_tab(browser, width: str, scheme: str):
    """A tab with a profile of its own, and lists of the requests and complaints that its pages make."""
    page = new_page(browser, viewport=sized(width), color_scheme=scheme, reduced_motion="reduce")
    requests, complaints = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("response", lambda answer: complaints.append(answer.url) if answer.status >= 400 else None)
    page.on("console", lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    stored = f"localStorage.setItem('mode', '{scheme}'); localStorage.setItem('theme', '{scheme}')"
    page.add_init_script(f"localStorage.clear(); sessionStorage.clear(); {stored}")
    return page, requests, complaints


@pytest.fixture(scope="session")
def tabs(browser):
    """The tab of each view. It opens one page after the other: a new tab costs as much as loading three pages."""
    made = {}
    yield made
    for page, _, _ in made.values():
        page.context.close()


@pytest.fixture
def open_page(browser, tabs, site):
    """Open a page and wait until its scripts have run; returns it with the requests and complaints it made.

    Every call loads the page anew, at its size, with the mouse outside.
    """

    def opened(name: str, width: str = "laptop", scheme: str = "light"):
        if (width, scheme) not in tabs:
            tabs[width, scheme] = new_tab(browser, width, scheme)
        page, requests, complaints = tabs[width, scheme]
        page.goto("about:blank")  # the page before must not answer to the new size
        page.mouse.move(-1, -1)
        page.unroute_all()
        page.emulate_media(media="null")
        page.set_viewport_size(sized(width))
        requests.clear()
        complaints.clear()
        visit(page, f"{site}{name}")
        return page, requests, complaints

    return opened


def overflowing(page) -> list[str]:
    """What makes the page scroll sideways; empty when it does not."""
    return page.evaluate(
        """() => {
          const width = document.documentElement.clientWidth;
          if (document.documentElement.scrollWidth <= width) return [];
          return [...document.querySelectorAll('main *')]
            .filter(one => one.getBoundingClientRect().right > width + 1)
            .map(one => `${one.tagName}.${one.className}`).slice(0, 8).concat('page');
        }"""
    )


def cropped(page) -> list[str]:
    """What is wider than the place it has, and can neither be scrolled nor seen."""
    return page.evaluate(
        """() => [...document.querySelectorAll('article *')]
          .filter(one => one.clientWidth > 1 && one.scrollWidth > one.clientWidth + 1)
          .filter(one => !one.closest('svg, mjx-container'))
          .filter(one => ['hidden', 'clip'].includes(getComputedStyle(one).overflowX))
          .map(one => `${one.tagName}.${one.className}: ${one.textContent.slice(0, 60)}`).slice(0, 8)"""
    )


@cache
def axe() -> str:
    return AXE.read_text(encoding="utf-8")


def thin_out(page) -> None:
    """Leave one token of each look in code, and no parts in charts: axe would look at twenty times as many elements.

    A look is what the classes of a token and of all around it say. The text stays, and so do charts as pictures. The
    token that is left is one that axe judges: in sight, and of more than one sign.
    """
    page.evaluate(
        """() => {
          for (const chart of document.querySelectorAll('.chart > svg')) chart.replaceChildren();
          const seen = new Set(), alike = new Set();
          for (const part of [...document.querySelectorAll(':is(pre, .sig) span')].reverse()) {
            if (part.attributes.length > 1 || [...part.children].some(one => !alike.has(one))) continue;
            let look = '';
            for (let one = part; one; one = one.parentElement) look += `${one.localName}.${one.className} `;
            if (seen.has(look) || part.textContent.trim().length < 2 || !part.checkVisibility()) alike.add(part);
            else if (part.getBoundingClientRect().right < part.closest('pre, .sig').getBoundingClientRect().right)
              seen.add(look);
          }
          for (const part of alike) part.replaceWith(...part.childNodes);
        }"""
    )


def violations(page, options: dict, inside: str = "html") -> list[str]:
    """What axe finds fault with. Every rule runs in full; only for violations it describes more than one place."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe())
    options = options | {"resultTypes": ["violations"]}
    run = "([what, options]) => axe.run(what, options).then(result => result.violations)"
    found = page.evaluate(run, [inside, options])
    return [f"{one['id']}: {', '.join(node['html'][:160] for node in one['nodes'][:3])}" for one in found]


def shows(place, words: str) -> None:
    """Wait until words can be read there: some events come to a page only after the click that causes them."""
    import playwright.sync_api

    playwright.sync_api.expect(place).to_contain_text(words, use_inner_text=True, timeout=1000 * limits.PAGE)
