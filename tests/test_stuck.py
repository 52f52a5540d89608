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


def test_the_page_stays_as_it_is_otherwise():
    assert LINK.sub("", linked()) == BODY


def test_a_title_alone_has_none():
    assert linked('<section id="attention"><h1>Attention</h1><p>Text.</p></section>').count("stuck") == 0


def test_the_issue_names_the_place_and_the_version():
    address = urlsplit(unescape(LINK.findall(linked())[1][0]))
    assert f"{address.scheme}://{address.netloc}{address.path}" == f"{GITHUB}/issues/new"
    asked = {name: value for name, (value,) in parse_qs(address.query, strict_parsing=True).items()}
    assert asked["title"] == "Stuck at 32_attention: A & B"
    assert asked["body"].splitlines() == [
        "Page: 32_attention",
        "Section: A & B",
        f"Source: {GITHUB}/blob/main/book/32_attention.ipynb (causal)",
        "Version: 1.2.3",
        "",
        "What I expected:",
        "",
        "What I did not understand:",
    ]


def test_its_accessible_name_begins_with_its_words_and_tells_it_from_the_others():
    names = [unescape(name) for _, name in LINK.findall(linked())]
    assert names[1] == "stuck here? A & B: write an issue"
    assert len(set(names)) == len(names) == 3
    assert all(name.startswith("stuck here?") for name in names)


def test_a_section_that_has_no_title_in_the_source_is_called_by_its_id():
    body = '<section id="made"><h2>Made</h2></section>'
    assert LINK.findall(linked(body))[0][1] == "stuck here? made: write an issue"


def test_paper_shows_none():
    style = (ROOT / "book" / "web" / "book.css").read_text(encoding="utf-8")
    hidden = re.findall(r"@media print \{[^@]*?([^{}]+)\{ display: none !important; \}", style)
    assert any("p.stuck" in selectors for selectors in hidden)
