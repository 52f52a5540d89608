"""What other sites are told of a page: book/_ext/sharing.py, without a build of the book."""

import struct
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from docutils import nodes
from docutils.utils import new_document
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import sharing  # noqa: E402
from sharing import LONGEST, address_of_site, description_of, shortened, tags_of  # noqa: E402

SITE = "https://example.org/book/"
FIRST = "A first sentence that says enough to stand alone in a list of results."
ADDRESSED = {"og:url", "og:image", "og:image:width", "og:image:height", "og:image:alt"}


class Tags(HTMLParser):
    """The meta tags of a head, by their names."""

    def __init__(self, html: str):
        super().__init__()
        self.found: dict[str, str] = {}
        self.feed(html)

    def handle_startendtag(self, tag: str, attributes: list) -> None:
        named = dict(attributes)
        name = named.get("name") or named["property"]
        assert (tag, name in self.found) == ("meta", False)
        self.found[name] = named["content"]


def tags(site=None, title="Attention", description="A few words.", is_first=False):
    return Tags(tags_of(site, "The Book", "32_attention", title, description, is_first)).found


def page(*parts):
    """A page with a title and these parts; a text becomes a paragraph."""
    document = new_document("page")
    section = nodes.section("", nodes.title("", "Title"))
    section += [nodes.paragraph("", part) if isinstance(part, str) else part for part in parts]
    document += section
    return document


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ({}, None),
        ({"ANNOTATED_URL": " "}, None),
        ({"ANNOTATED_URL": "https://example.org/book"}, SITE),
        ({"ANNOTATED_URL": "https://example.org/book/\n"}, SITE),
        ({"ANNOTATED_URL": "http://127.0.0.1:8000//"}, "http://127.0.0.1:8000/"),
    ],
)
def test_the_address_of_the_site_ends_with_one_slash(value, address):
    assert address_of_site(value) == address


@pytest.mark.parametrize("wrong", ["example.org/book", "https://", "ftp://example.org", f"{SITE}?a=b"])
def test_half_an_address_stops_the_build(wrong):
    """It would end in every page, and nobody would see it there."""
    with pytest.raises(ExtensionError, match="ANNOTATED_URL"):
        address_of_site({"ANNOTATED_URL": wrong})


def test_page_and_picture_have_their_addresses_where_the_site_has_one():
    """A relative picture is shown nowhere; what is said cannot leave its quotes."""
    said = 'He said "no" & <b>left</b>'
    assert tags(title=said, description=said) == {
        **dict.fromkeys(("description", "og:title", "og:description"), said),
        "og:site_name": "The Book",
        "og:type": "article",
        "twitter:card": "summary",
    }
    found = tags(SITE, is_first=True)
    assert found.keys() - tags().keys() == ADDRESSED
    assert found["og:url"] == f"{SITE}32_attention.html"
    assert found["og:image"] == f"{SITE}_static/sharing.png"
    assert (found["og:type"], found["twitter:card"]) == ("website", "summary_large_image")
    assert tags().keys() - tags(description="").keys() == {"description", "og:description"}
    data = (ROOT / "book" / "web" / "sharing.png").read_bytes()
    assert struct.unpack(">II", data[16:24]) == sharing.SIZE


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("One.  Two\nlines! Three?", "One. Two lines! Three?"),
        (f"{FIRST} {'x ' * LONGEST}.", FIRST),
        ("A short one. " + "words " * 40, "A short one. " + "words " * 23 + "words…"),
        (f"{'x' * (LONGEST - 1)}.", f"{'x' * (LONGEST - 1)}."),
        ("It is 0.91 of all, as section 3.2 says.", "It is 0.91 of all, as section 3.2 says."),
        ("words, " * 40, "words, " * 21 + "words…"),
        ("no end", "no end"),
        ("", ""),
    ],
)
def test_a_description_ends_with_a_sentence_where_it_can(text, kept):
    assert shortened(text) == kept
    assert len(kept) <= LONGEST


def test_the_description_is_made_of_text_that_is_words_alone():
    """Neither a box, nor a quotation, nor a formula, which would be shown as TeX; as many paragraphs as are wanted."""
    box = nodes.admonition("", nodes.paragraph("", "In a box."))
    quotation = nodes.block_quote("", nodes.paragraph("", "Quoted."))
    formula = nodes.paragraph("", "Here is ", nodes.math("", r"\sqrt{d_k}"), nodes.Text("."))
    plain = nodes.paragraph("", "", nodes.Text("Here is "), nodes.emphasis("", "it"), nodes.Text(". More."))
    assert description_of(page(box, quotation, formula, plain, "Last.")) == "Here is it. More. Last."
    assert description_of(page(box)) == ""


@pytest.mark.parametrize("site", ["", SITE])
def test_front_matter_goes_before_the_first_sentence(site):
    config = SimpleNamespace(html_baseurl=site, html_title="The Book", root_doc="index")
    env = SimpleNamespace(titles={"index": nodes.title("", "T")})
    app = SimpleNamespace(builder=SimpleNamespace(name="html"), config=config, env=env)
    for meta, said in ((None, "First."), ({"description": "Chosen."}, "Chosen.")):
        context = {"metatags": '<meta name="generator" content="g"/>', "meta": meta}
        sharing.add_tags(app, "index", "page.html", context, page("First."))
        found = Tags(context["metatags"]).found
        assert (found["generator"], found["description"], found["og:type"]) == ("g", said, "website")
        assert ("og:image" in found) == bool(site)


@pytest.mark.parametrize("site", ["", SITE])
def test_a_sitemap_is_written_where_the_address_is_known(tmp_path, site):
    config = SimpleNamespace(html_baseurl=site)
    env = SimpleNamespace(found_docs={"index", "a&b"})
    app = SimpleNamespace(builder=SimpleNamespace(name="html"), config=config, env=env, outdir=tmp_path)
    sharing.write_sitemap(app, None)
    assert [path.name for path in tmp_path.iterdir()] == ["sitemap.xml"] * bool(site)
    if site:
        tree = ElementTree.parse(tmp_path / "sitemap.xml")
        found = [place.text for place in tree.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")]
        assert found == [f"{SITE}a%26b.html", f"{SITE}index.html"]
