"""The link "stuck here?" at the end of each section of a chapter: book/_ext/annotated_book.py."""

import re
import sys
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

from annotated_book import with_stuck_links  # noqa: E402

GITHUB = "https://github.com/someone/book"
BODY = """\
<nav>map</nav><section class="tex2jax_ignore" id="attention">
<h1>Attention</h1>
<p>Opening.</p>
<section id="masks">
<span id="cell-masks"></span><h2>Masks<a class="headerlink" href="#masks">#</a></h2>
<p>About masks.</p>
<section id="causal">
<h3>A &amp; B</h3>
<p>About one.</p>
</section>
</section>
<section id="exercises">
<h2>Exercises</h2>
<div class="exercise"><section id="exercise-content"><p>First.</p></section></div>
<p>Last.</p>
</section>
</section>
"""
TITLES = {"attention": "Attention", "masks": "Masks", "causal": "A & B", "exercises": "Exercises"}
LINK = re.compile(r'<p class="stuck"><a href="([^"]+)" aria-label="([^"]+)">stuck here\?</a></p>\n')


def linked(body=BODY, repository=GITHUB):
    return with_stuck_links(body, "32_attention", TITLES, repository, "1.2.3")


@pytest.mark.parametrize("repository", [None, "https://example.org/someone/book", "https://github.com.example.org/a/b"])
def test_where_no_issue_can_be_opened_nothing_changes(repository):
    """A link to a host that nobody named, or to one without this form of address, would lead nowhere."""
    assert linked(repository=repository) == BODY


def test_each_section_has_one_at_the_end_of_its_own_text():
    """Before its subsections, where the text ends that a reader has just read; an exercise is no section of its own."""
    before = [re.findall(r"<p>([^<]+)</p>", part)[-1] for part in LINK.split(linked())[:-1:3]]
    assert before == ["About masks.", "About one.", "Last."]
    assert LINK.sub("", linked()) == BODY
    assert len({name for _, name in LINK.findall(linked())}) == 3, "an accessible name tells it from the others"


def test_the_issue_names_the_place_and_the_version():
    address = urlsplit(unescape(LINK.findall(linked())[1][0]))
    assert f"{address.scheme}://{address.netloc}{address.path}" == f"{GITHUB}/issues/new"
    asked = {name: value for name, (value,) in parse_qs(address.query, strict_parsing=True).items()}
    assert asked["title"] == "Stuck at 32_attention: A & B"
    assert asked["body"].splitlines()[2:4] == [
        f"Source: {GITHUB}/blob/main/book/32_attention.ipynb (causal)",
        "Version: 1.2.3",
    ]
