"""A browser, its pages and a server on this machine: what printing the book and testing its pages have in common."""

from __future__ import annotations

import functools
import gzip
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools import limits

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

PACKED = (".png", ".webp", ".woff", ".safetensors")  # compressed already, or hardly to be compressed
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium_path() -> str | None:
    """The chromium that $CHROMIUM names, or the first one found; None when there is none."""
    found = [os.environ.get("CHROMIUM", ""), *(shutil.which(name) or "" for name in CHROMIUMS)]
    return next((path for path in found if path and Path(path).exists()), None)


def launch(playwright: Playwright, path: str, *arguments: str) -> Browser:
    """Start the chromium at `path`."""
    options = {"executable_path": path, "args": ["--no-sandbox", *arguments], "timeout": 1000 * limits.PAGE}
    return playwright.chromium.launch(**options)


def new_page(browser: Browser, patience: int = limits.PAGE, **options: Any) -> Page:
    """An empty page with a profile of its own; whatever it is asked for may take `patience` seconds."""
    page = browser.new_page(**options)
    page.set_default_timeout(1000 * patience)
    return page


def visit(page: Page, address: str) -> None:
    """Open an address, and wait until the page's own script has run."""
    page.goto(address, wait_until="load")
    page.wait_for_selector("html[data-ready=true]", state="attached")


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line for each request."""

    def log_message(self, *_: object) -> None:
        pass


class Compressing(Quiet):
    """Sends texts compressed, as web hosts do."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.suffix in PACKED or not path.is_file():
            super().do_GET()
            return
        body = gzip.compress(path.read_bytes())
        self.send_response(200)
        for name, value in (("Type", self.guess_type(path)), ("Length", str(len(body))), ("Encoding", "gzip")):
            self.send_header(f"Content-{name}", value)
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """Keeps silent about readers that went away before they had all, as a browser does, and about nothing else."""

    def handle_error(self, *arguments: object) -> None:
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
            super().handle_error(*arguments)


@contextmanager
def served(folder: Path, handler: type[Quiet] = Quiet) -> Iterator[str]:
    """The address of a folder, served on this machine."""
    server = Server(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
