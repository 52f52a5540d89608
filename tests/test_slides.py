"""The slides: their texts are whole, their numbers are the chapters', and their folder stands alone."""

import json
import re
from pathlib import Path

import pytest

from tests.pages import SITE
from tools import slides
from tools.browser import new_page, served
from tools.execute import ChapterError

ROOT = Path(__file__).resolve().parents[1]
DECKS = [slides.read_deck(path) for path in sorted(slides.DECKS.glob("*.md"))]
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@pytest.fixture(scope="module")
def folder(site, tmp_path_factory):
    """The slides as `make slides` writes them."""
    target = tmp_path_factory.mktemp("slides") / "slides"
    slides.write(DECKS, SITE, target)
    return target


def said(chapter: str) -> str:
    """All that a chapter says and prints, with thousands written together."""
    cells = json.loads((ROOT / "book" / f"{chapter}.ipynb").read_text(encoding="utf-8"))["cells"]
    return re.sub(r"(?<=\d)(?:,|\{,\})(?=\d\d\d)", "", json.dumps(cells, ensure_ascii=False))


@pytest.mark.parametrize("deck", DECKS, ids=lambda deck: deck.name)
def test_numbers_stand_in_the_chapter_that_a_slide_names(deck):
    missing = []
    for slide in deck.slides:
        text, there = f"{slide.headline} {slide.body} {slide.notes}", set(NUMBER.findall(said(slide.chapter)))
        text = re.sub(r"(?<=\d),(?=\d\d\d)", "", text)
        missing += [(slide.headline, one) for one in NUMBER.findall(text) if len(one) > 1 and one not in there]
    assert missing == []


@pytest.mark.parametrize(
    "text",
    [
        "## A\nwords\n",
        "## A\nNotes (2 min, 32_attention):\n",
        "## A\n{picture} a\n{widget} b\nNotes (2 min, 32_attention): Words.\n",
        "## A\nNotes (3 min, 32_attention): Words.\n",  # its head says 2
    ],
)
def test_a_deck_that_is_not_whole_is_named(tmp_path, text):
    path = tmp_path / "short.md"
    path.write_text(f"---\ntitle: T\nminutes: 2\nabout: A\n---\n\n{text}", encoding="utf-8")
    with pytest.raises(ChapterError, match=r"short\.md"):
        slides.read_deck(path)


def test_slides_that_are_there_survive_a_deck_that_fails(tmp_path, monkeypatch, capsys):
    (tmp_path / "_build" / "html").mkdir(parents=True)
    (tmp_path / "_build" / "html" / "gallery.html").write_text("", encoding="utf-8")
    old = tmp_path / "_build" / "slides" / "short.html"
    old.parent.mkdir()
    old.write_text("old", encoding="utf-8")
    assert slides.main(["--no-pdf"], tmp_path) == 1
    assert "the gallery has no picture" in capsys.readouterr().err
    assert old.read_text(encoding="utf-8") == "old"


@pytest.mark.browser
@pytest.mark.parametrize("deck", DECKS, ids=lambda deck: deck.name)
def test_slides_run_from_a_server_and_fit(browser, folder, deck):
    """Every slide shows all that it has, and nothing comes from elsewhere."""
    page, complaints, requests = new_page(browser, viewport={"width": 1280, "height": 720}), [], []
    page.on("console", lambda one: complaints.append(one.text) if one.type in ("error", "warning") else None)
    page.on("pageerror", lambda one: complaints.append(str(one)))
    page.on("request", lambda one: requests.append(one.url))
    with served(folder) as address:
        page.goto(f"{address}{deck.name}.html")
        page.wait_for_function("window.Reveal?.isReady()")
        for number, slide in enumerate(deck.slides, 1):
            below = page.evaluate(
                """number => {
                  Reveal.slide(number);
                  const slide = Reveal.getCurrentSlide(), end = slide.getBoundingClientRect().bottom;
                  const shown = [...slide.children].filter((one) => !one.matches(".notes"));
                  const low = shown.filter((one) => one.getBoundingClientRect().bottom > end + 1);
                  const small = shown.filter((one) => one.matches(".drawing, .widget") && one.offsetHeight < 250);
                  return [...low, ...small].map((one) => one.tagName);
                }""",
                number,
            )
            assert below == [], slide.headline
        links = page.locator("a").evaluate_all("all => all.map(one => new URL(one.href).pathname)")
        assert [link for link in links if not (folder / link[1:]).exists()] == []
        assert all(url.startswith((address, "data:")) for url in requests)
    assert complaints == []
    page.context.close()


@pytest.mark.browser
def test_slides_from_files_and_on_paper_show_pictures(browser, folder):
    """From files the still is there with a hint; on paper each slide is a page with its picture; so are its notes."""
    deck = next(deck for deck in DECKS if deck.name == "short")
    page = new_page(browser, viewport={"width": 1280, "height": 720})
    page.goto((folder / "short.html").as_uri())
    page.wait_for_function("window.Reveal?.isReady()")
    number = next(k for k, slide in enumerate(deck.slides, 1) if slide.kind == "widget")
    page.evaluate("number => Reveal.slide(number)", number)
    page.locator("section.present .widget-live", has_text="python -m http.server").wait_for()
    assert page.locator("section.present :is(.still-light img, .see-still):visible").count() == 1
    page.context.close()
    with served(folder) as address:
        page = new_page(browser)
        page.goto(f"{address}attention.html?print-pdf")
        page.wait_for_selector("html.reveal-print .pdf-page", state="attached")
        sizes = page.evaluate(
            "[...document.querySelectorAll('.drawing, .columns img')].map((one) => [one.offsetWidth, one.offsetHeight])"
        )
        attention = next(deck for deck in DECKS if deck.name == "attention")
        assert len(sizes) >= sum(slide.kind != "" for slide in attention.slides)
        assert min(min(size) for size in sizes) > 250
        page.context.close()
        for path in slides.print_decks(browser, address, [deck], folder):
            pages = len(re.findall(rb"/Type\s*/Page\b", path.read_bytes()))
            assert pages == (1 if path.stem == "short" else 2) * (len(deck.slides) + 1)
