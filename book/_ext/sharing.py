"""What search engines and other sites are told of a page: its title, a description and a picture.

The description is `description` of a page's front matter, or else its first plain sentences. Other sites need whole
addresses, and these are known where ANNOTATED_URL names that of the site. Only then a page names its own address and
that of the picture (`book/web/sharing.png`, by tools/pictures.py), and `sitemap.xml` has all pages.
"""

import os
import re
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from urllib.parse import quote, urlsplit

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

LEAST, LONGEST = 60, 160  # characters of a description: a list of results shows about as many
PICTURE, SIZE = "_static/sharing.png", (1200, 630)
SEEN = "The two sentences of the book: the animal did not cross the street because it was too tired, or too wide."
NOT_PLAIN = (nodes.math, nodes.image, nodes.raw)


def address_of_site(environment: Mapping[str, str]) -> str | None:
    """The address in ANNOTATED_URL, with a slash at its end; None where it is not set. Raises ExtensionError."""
    address = environment.get("ANNOTATED_URL", "").strip()
    if not address:
        return None
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ExtensionError(f"ANNOTATED_URL is {address}: give the whole address, as https://example.org/book/")
    return f"{address.rstrip('/')}/"


def address_of_page(site: str, page: str) -> str:
    return f"{site}{quote(page)}.html"


def shortened(text: str) -> str:
    """The first sentences that fit into a description, or, where these say little, as many words as fit."""
    text = " ".join(text.split())
    if len(text) <= LONGEST:
        return text
    ends = [match.start() for match in re.finditer(r"(?<=[.!?])(?= )", text) if LEAST <= match.start() <= LONGEST]
    return text[: ends[-1]] if ends else text[: LONGEST - 1].rpartition(" ")[0].rstrip(",:;.") + "…"


def description_of(document: nodes.document) -> str:
    """The beginning of what a page says in its text itself, not in boxes, and in words alone."""
    text = ""
    for paragraph in document.findall(nodes.paragraph):
        is_text = isinstance(paragraph.parent, nodes.section | nodes.document)
        if is_text and not any(paragraph.findall(lambda node: isinstance(node, NOT_PLAIN))):
            text += f" {paragraph.astext()}"
        if len(text) > LONGEST:
            break
    return shortened(text)


def tags_of(site: str | None, book: str, page: str, title: str, description: str, is_first: bool) -> str:
    """The lines for a page's head."""
    card = "summary_large_image" if site else "summary"
    tags = [("name", "description", description), ("property", "og:title", title)]
    tags += [("property", "og:description", description), ("property", "og:site_name", book)]
    tags += [("property", "og:type", "website" if is_first else "article"), ("name", "twitter:card", card)]
    if site:
        picture = {"": site + PICTURE, ":width": SIZE[0], ":height": SIZE[1], ":alt": SEEN}
        tags += [("property", "og:url", address_of_page(site, page))]
        tags += [("property", f"og:image{part}", str(value)) for part, value in picture.items()]
    return "".join(f'\n    <meta {kind}="{name}" content="{escape(said)}"/>' for kind, name, said in tags if said)


def sitemap(site: str, pages: Iterable[str]) -> str:
    """The addresses of all pages, as search engines read them."""
    entries = "".join(f"<url><loc>{escape(address_of_page(site, page))}</loc></url>\n" for page in sorted(pages))
    schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{schema}">\n{entries}</urlset>\n'


def read_address(app: Sphinx, config: Config) -> None:
    """Sphinx itself adds the canonical address of each page."""
    config.html_baseurl = address_of_site(os.environ) or ""


def add_tags(app: Sphinx, page: str, template: str, context: dict, document: nodes.document | None) -> None:
    if document is None or app.builder.name != "html":
        return
    title, is_first = app.env.titles[page].astext(), page == app.config.root_doc
    said = shortened((context.get("meta") or {}).get("description", "")) or description_of(document)
    context["metatags"] += tags_of(app.config.html_baseurl, app.config.html_title, page, title, said, is_first)


def write_sitemap(app: Sphinx, error: Exception | None) -> None:
    if not error and app.builder.name == "html" and app.config.html_baseurl:
        text = sitemap(app.config.html_baseurl, app.env.found_docs)
        Path(app.outdir, "sitemap.xml").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", read_address)
    app.connect("html-page-context", add_tags)
    app.connect("build-finished", write_sitemap)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
