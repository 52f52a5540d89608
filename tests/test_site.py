"""The rendered book in a real browser: `pytest tests/test_site.py`.

The site is _build/html, built anew where something changed, or the folder that ANNOTATED_SITE names. Without a chromium
these tests are skipped; with CI set, that is a failure.
"""

import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import nbformat
import pytest
import yaml

from tests.pages import SITE, WIDTHS, cropped, overflowing, thin_out, violations
from tools.browser import new_page, visit
from tools.build import toc_entries
from tools.evening import chapters as evening
from tools.pdf import main as make_pdf
from tools.pdf import print_page

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {path.stem: path for path in sorted((ROOT / "book").glob("*")) if path.suffix in (".ipynb", ".md")}
PAGES = toc_entries(ROOT)
CLOSELY = ("index", "00_whole", "32_attention", "60_beam_search", "81_laboratory", "ledger")  # at every width
LEDGER = yaml.safe_load((ROOT / "book" / "ledger.yml").read_text(encoding="utf-8"))["claims"]
MOVED = yaml.safe_load((ROOT / "book" / "moved.yml").read_text(encoding="utf-8"))
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}  # the rules that depend on the theme

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("site")]


def html_of(name: str) -> str:
    return (SITE / f"{name}.html").read_text(encoding="utf-8")


def unset(page, name: str) -> list[str]:
    """Mathematics that is left as it was written, or that MathJax could not read."""
    wrong = ".math:not(:has(mjx-container)), mjx-container:not(:has(mjx-assistive-mml > math)), mjx-merror"
    found = page.locator(wrong).all_inner_texts()
    displayed = re.search(r"\$\$|\{math\}", SOURCES[name].read_text(encoding="utf-8"))
    if displayed and page.locator("mjx-container[display=true]").count() == 0:
        found.append("no displayed formula")
    return found


def undescribed(page) -> list[str]:
    """Pictures that did not arrive, or whose description is missing, too short, or their file's path."""
    pictures = page.locator("article img").evaluate_all(
        "all => all.map(one => [one.src, one.alt, one.loading === 'lazy' || (one.complete && one.naturalWidth > 0)])"
    )  # those that wait are there: the build looks for their files
    charts = page.locator("article .chart > svg").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    pictures += [["chart", words, True] for words in charts]
    return [src for src, alt, arrived in pictures if not arrived or len(alt) <= 15 or "/" in alt.split()[0]]


@pytest.mark.parametrize("name", PAGES)
def test_page_stands_alone_and_is_accessible(open_page, site, name):
    page, requests, complaints = open_page(f"{name}.html")
    assert page.locator("article h1").count() == 1
    assert overflowing(page) == []
    assert unset(page, name) == []
    assert undescribed(page) == []
    icons = "all => all.filter(one => getComputedStyle(one, '::before').content === 'none').map(one => one.className)"
    assert page.locator("[class*='fa-solid'], .fas").evaluate_all(icons) == []
    thin_out(page)
    assert violations(page, {}) == []
    assert [url for url in requests if not url.startswith((site, "data:", "blob:"))] == []
    assert complaints == []


@pytest.mark.parametrize("name", CLOSELY)
def test_some_pages_at_every_width_and_in_both_themes(open_page, name):
    page, _, complaints = open_page(f"{name}.html", "phone", "dark")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    shown = page.locator(".chart:has(.narrow):visible svg:visible")
    assert {one.get_attribute("class") for one in shown.all()} <= {"narrow"}
    thin_out(page)
    assert violations(page, {}) == []
    for across in (320, 360, 768, 1024, WIDTHS["laptop"][0]):
        page.set_viewport_size({"width": across, "height": 900})
        assert overflowing(page) + cropped(page) == [], across
    assert violations(page, COLOURS) == []
    assert complaints == []


def test_on_a_phone_the_map_and_the_sections_are_opened(open_page):
    page, _, _ = open_page("32_attention.html", "phone")
    page.locator(".paper-map summary", has_text="3.2").click()
    assert page.locator(".paper-map ol").is_visible()
    page.locator(".secondary-toggle:visible").click()
    page.locator("dialog[open] a, .bd-sidebar-secondary[open] a", has_text=re.compile("^Masks$")).first.click()
    assert page.url.endswith("#masks")


def test_a_picture_in_frames_shows_one_at_a_time(open_page):
    """Buttons lead through them, and a screen reader hears what each shows; on paper all are seen."""
    page, _, complaints = open_page("10_introduction.html")
    stepper = page.locator(".tag_stepper").first
    shown = stepper.locator(".chart:visible svg:visible")
    back, further = (stepper.get_by_role("button", name=name) for name in ("Back", "Next"))
    assert back.is_disabled()
    for tick in range(1, 6):
        assert shown.count() == 1
        assert shown.get_attribute("aria-label").startswith(f"Tick {tick}:")
        assert stepper.locator("[aria-live]").inner_text().startswith(f"Tick {tick}:")
        if tick < 5:
            further.click()
    assert further.is_disabled()
    back.click()
    assert shown.get_attribute("aria-label").startswith("Tick 4:")
    page.emulate_media(media="print")
    assert stepper.locator(".chart:visible").count() == 5
    assert complaints == []


SORTED = ["−1,500", "−5", "0.25", "7%", "30", "999", "1,024", "12,500", "b 9", "b 10", ""]


def test_a_long_table_is_filtered_and_sorted(open_page):
    """Numbers by their size, all else by its letters, what is empty last, whichever way."""
    page, _, complaints = open_page("exercises.html")
    rows = page.locator("table.exercises tbody tr:visible")
    every = rows.count()
    page.get_by_label("Only rows with").fill("MASK position")
    assert 0 < rows.count() < every
    assert all("mask" in text.lower() and "position" in text.lower() for text in rows.all_inner_texts())
    assert page.locator(".table-filter output").inner_text() == f"{rows.count()} of {every} rows"
    page.get_by_label("Only rows with").fill("")
    column = page.locator("table.exercises tbody tr:visible td:first-child")
    page.evaluate(
        """texts => document.querySelectorAll('table.exercises tbody tr').forEach((row, n) => {
          if (n < texts.length) row.cells[0].textContent = texts[n]; else row.remove();
        })""",
        SORTED[1::2] + SORTED[::2],
    )
    heading = page.locator("table.exercises th", has_text="Number")
    for direction, expected in (("ascending", SORTED), ("descending", [*SORTED[-2::-1], ""])):
        heading.get_by_role("button").click()
        assert heading.get_attribute("aria-sort") == direction
        assert column.all_inner_texts() == expected
    assert complaints == []


def test_internal_links_resolve():
    """Those of sections that moved, too; and no name stands twice on a page."""
    pages = {path.name: path.read_text(encoding="utf-8") for path in SITE.glob("*.html")}
    names = [(page, Counter(re.findall(r'<[^>]*\sid="([^"]+)"', html))) for page, html in pages.items()]
    assert [(page, name) for page, count in names for name in count if count[name] > 1] == []
    targets = {name: set(re.findall(r'\s(?:id|name)="([^"]+)"', html)) for name, html in pages.items()}
    broken = []
    for name, html in pages.items():
        for link in re.findall(r'<a\s[^>]*?href="([^"]+)"', html):
            if urlsplit(link).scheme or link in ("#", ""):
                continue
            address, fragment = urldefrag(urljoin(name, link))
            file = unquote(address.split("?")[0])
            if fragment.startswith(("lab-", "see-")):
                continue  # a state of the laboratory, or of the picture
            if not (SITE / file).is_file() or (fragment and file in targets and unquote(fragment) not in targets[file]):
                broken.append(f"{name}: {link}")
    assert broken == []
    for old in MOVED:
        page, _, section = old.partition("#")
        assert ['class="moved"' in tag for tag in re.findall(rf'<[^>]* id="{section}"[^>]*>', html_of(page))] == [True]


def test_the_old_address_of_a_section_leads_to_it(browser, site):
    old, new = next(iter(MOVED.items()))
    page = new_page(browser)
    page.goto(f"{site}{old.replace('#', '.html#')}")
    page.wait_for_url(f"{site}{new.partition('#')[0]}.html#*")
    assert page.locator("section:target > :is(h2, h3)").inner_text().startswith(new.partition("#")[2])
    page.context.close()


@pytest.mark.parametrize("name", [name for name in PAGES if SOURCES[name].suffix == ".ipynb"])
def test_a_cell_shows_its_module_and_its_tables(name):
    """An exported cell names where it goes, without its directive; Markdown in an output is typeset."""
    html, notebook = html_of(name), nbformat.read(SOURCES[name], as_version=4)
    assert not re.search(r"^\s*#\| ", re.sub(r"<[^>]+>", "", re.sub(r"<pre>", "\n<pre>", html)), re.MULTILINE)
    lines = [cell.source.split("\n")[0].split() for cell in notebook.cells if cell.source.startswith("#| export")]
    default = notebook.metadata.get("annotated", {}).get("module")
    expected = [f"annotated/{line[2] if len(line) > 2 else default}.py" for line in lines]
    assert re.findall(r'<p class="module-name">.*?(annotated/\w+\.py)', html) == expected
    for cell in notebook.cells:
        shown = [output.get("data", {}).get("text/markdown", "") for output in cell.get("outputs", [])]
        tables = [markdown for markdown in shown if markdown.startswith("|")]
        if tables:
            page = html.split(f'id="cell-{cell.id}"')[1].split('id="cell-')[0]
            assert page.count("<tr") == sum(len(table.splitlines()) - 1 for table in tables), cell.id


def test_who_only_goes_on_reads_the_evening_and_then_it_ends():
    """From *Read for an evening* on the first page by *Next this evening* alone, as the pages are without scripts."""
    (first,) = re.findall(r'href="(\w+)\.html"[^>]*><span[^>]*>Read for an evening', html_of("index"))
    read = [first]
    while found := set(re.findall(r'class="evening-next" href="(\w+)\.html"', html_of(read[-1]))):
        read += found
        assert len(read) == len(set(read))
    assert read == evening()


def test_reference_and_chapters_lead_to_each_other():
    assert 'href="32_attention.html#cell-scaled-dot-product-attention"' in html_of("api")
    assert re.search(
        r'class="module-name"><a [^>]*href="api\.html#module-annotated\.attention"', html_of("32_attention")
    )


def test_figure_1_is_text_and_its_boxes_lead_to_their_chapters(open_page):
    """A drawing shown as an image would have neither; a shape that lies over a box would take its click."""
    page, _, complaints = open_page("39_transformer.html")
    figure = page.locator("svg#figure-1")
    selected = figure.evaluate("one => { getSelection().selectAllChildren(one); return getSelection().toString(); }")
    assert "Masked multi-head" in selected
    figure.scroll_into_view_if_needed()
    hit = """all => all.map(link => {
      link.scrollIntoView({ block: 'center' });
      const box = link.getBoundingClientRect();
      const at = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
      return [link.getAttribute('href'), link.contains(at)];
    })"""
    links = figure.locator("a").evaluate_all(hit)
    assert {link[:2] for link, _ in links} >= {"31", "32", "33", "34", "35"}
    assert [link for link, reached in links if not reached] == []
    assert complaints == []


@pytest.mark.parametrize(
    ("link", "words", "way"),
    [
        ("a:has(.glossary-term)", "Chapter", "hover"),
        ("a[href='ledger.html#claim-C-3-2-1-a']", "C-3.2.1-a", "focus"),
    ],
)
def test_pointing_at_a_link_explains_a_term_and_a_claim(open_page, site, link, words, way):
    page, requests, complaints = open_page("32_attention.html")
    getattr(page.locator(f"article {link}").first, way)()
    tip = page.locator(".tippy-box")
    tip.wait_for()
    assert words in tip.inner_text()
    assert not re.search(r"\$|\\\(", tip.inner_text())
    assert all(url.startswith(site) for url in requests)
    assert complaints == []


def test_the_ledger_shows_the_claims_that_one_asks_for(open_page):
    page, _, complaints = open_page("ledger.html")
    buttons = page.locator(".ledger-filters button")
    counts = {name.rpartition(" ")[0]: int(name.rpartition(" ")[2]) for name in buttons.all_inner_texts()}
    assert counts.pop("all") == sum(counts.values()) == len(LEDGER)
    buttons.filter(has_text="contradicted here").click()
    ids = page.locator("table.ledger tbody tr:visible td:first-child").all_inner_texts()
    assert ids == [claim["id"] for claim in LEDGER if claim.get("outcome") == "contradicted here"]
    assert complaints == []


def test_a_page_is_printed_with_its_solutions(browser, tmp_path, monkeypatch):
    """What is folded is opened, except code: with its text the page is longer than one sheet."""
    words = "<p>word</p>" * 200
    page = (
        "<html data-ready=true><title>t</title><article class=bd-article><h1>One</h1><details{}>{}</details></article>"
    )
    sheets = {}
    for name, mark in (("solution", ""), ("code", " class=tag_hide-input")):
        (tmp_path / "index.html").write_text(page.format(mark, words))
        print_page(browser, (tmp_path / "index.html").as_uri(), tmp_path / "book.pdf")
        sheets[name] = len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "book.pdf").read_bytes()))
    assert sheets["solution"] > sheets["code"] == 1
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    assert make_pdf([], tmp_path) == 1


def on_paper(open_page, name: str):
    """A page as it is printed on A4."""
    page, _, _ = open_page(f"{name}.html")
    page.set_viewport_size({"width": 718, "height": 1000})
    page.emulate_media(media="print")
    return page


def test_a_printed_page_has_all_that_it_folds(open_page):
    """Each fold with its title, as a script opens it and without one; afterwards all are as they were."""
    page = on_paper(open_page, "32_attention")
    page.emulate_media(reduced_motion="no-preference")
    page.evaluate("folds = [...document.querySelectorAll('.bd-article details:not(.paper-map *)')]")
    page.evaluate("folds[3].open = true")
    unseen = """() => folds.flatMap(one => [...one.children])
      .filter(part => !part.checkVisibility({ opacityProperty: true }) || part.getBoundingClientRect().height < 10)
      .map(part => part.textContent.trim().slice(0, 60))"""
    states = "folds.map(one => one.open)"
    before = page.evaluate(states)
    assert sum(before) == 1
    assert page.evaluate(unseen) == []
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert all(page.evaluate(states))
    assert page.evaluate(unseen) == []
    assert page.evaluate("document.getAnimations().length") == 0  # what begins to appear is printed as white space
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(states) == before
    page.emulate_media(reduced_motion="reduce")


def test_in_the_dark_a_page_is_printed_in_dark_letters_on_white(open_page):
    """As a browser prints, without backgrounds; afterwards it is dark again."""
    page, _, _ = open_page("54_regularization.html", "laptop", "dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    light = """all => all.filter(one => one.checkVisibility()).map(one => getComputedStyle(one).color)
      .filter(colour => Math.min(...colour.match(/[\\d.]+/g).slice(0, 3).map(Number)) > 130)"""
    assert page.locator("article :is(h1, h2, p, pre span, figcaption, th, td)").evaluate_all(light) == []
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_who_comes_for_a_section_finds_its_title_below_the_header(browser, site):
    """On a first visit, whose theme nobody has chosen yet, without a complaint."""
    page, complaints = new_page(browser, viewport={"width": 1440, "height": 900}), []
    page.on("console", lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None)
    visit(page, f"{site}50_corpus.html#longer-than-in-training")
    page.wait_for_timeout(1500)  # a slow scroll would take as long
    title = page.locator("section:target > :is(h2, h3)").bounding_box()["y"]
    header = page.locator(".bd-header-article").bounding_box()["height"]
    assert header <= title < header + 40
    assert complaints == []
    page.context.close()


def test_the_skip_link_leads_to_what_the_page_says(open_page):
    """Past the header and the map of the paper: the first link behind it is one of the text."""
    page, _, _ = open_page("83_break_one.html")
    for key in ("Tab", "Enter", "Tab"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.closest('article section') !== null")


def test_no_line_begins_with_the_comma_behind_a_formula(open_page):
    page, _, _ = open_page("32_attention.html", "phone")
    torn = """() => [...document.querySelectorAll('article :is(p, li) .math')].flatMap(one => {
      const next = one.nextSibling;
      if (next?.nodeType !== 3 || !/^[,.;:)?]/.test(next.data)) return [];
      const range = document.createRange();
      range.setStart(next, 0);
      range.setEnd(next, 1);
      const below = range.getBoundingClientRect().top > one.getBoundingClientRect().bottom;
      return below ? [one.parentElement.textContent] : [];
    })"""
    for across in range(320, 400, 16):
        page.set_viewport_size({"width": across, "height": 900})
        assert page.evaluate(torn) == []


def test_nothing_of_a_printed_page_is_cut_off(open_page):
    """Neither at the sheet's edge nor in a box that scrolls on the screen; what one can only press is left out."""
    page = on_paper(open_page, "60_beam_search")
    cut = """() => [...document.querySelectorAll('article *')]
      .filter(one => one.clientWidth > 1 && one.checkVisibility() && !one.closest('svg, mjx-assistive-mml'))
      .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1
        || (getComputedStyle(one).overflowX !== 'visible' && one.scrollWidth > one.clientWidth + 1))
      .map(one => `${one.tagName}.${one.className}: ${one.textContent.trim().slice(0, 60)}`).slice(0, 8)"""
    assert page.evaluate(cut) == []
    pressed = "button:not(.sorts), input, select, .bd-sidebar-primary, .bd-sidebar-secondary, .bd-header, p.stuck"
    assert page.locator(pressed).locator("visible=true").count() == 0


def test_the_cheat_sheet_fits_on_one_sheet(open_page):
    """A4 in chromium, with the margins that a browser offers."""
    page, _, _ = open_page("cheat_sheet.html")
    margins = dict.fromkeys(("top", "bottom", "left", "right"), "10mm")
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4", margin=margins))) == 1


def test_the_search_can_keep_to_the_evening(open_page):
    page, _, complaints = open_page("search.html?q=positions")
    pages = "all => all.map(one => one.getAttribute('href').split('.')[0])"
    found = page.locator("#search-results li > a")
    assert {word.lower() for word in page.locator("#search-results mark").all_inner_texts()} == {
        "position",
        "positions",
    }
    assert not set(found.evaluate_all(pages)) <= set(evening())
    page.get_by_label("only the evening").check()
    assert set() < set(found.evaluate_all(pages)) <= set(evening())
    assert complaints == []


def test_search_finds_a_section_offline_and_without_a_server(open_page, site, browser):
    page, requests, complaints = open_page("search.html?q=why+scale")
    page.locator("#search-results li a").first.click()
    page.wait_for_url("**/32_attention.html#why-divide-by-sqrt-d-k")
    assert all(url.startswith(site) for url in requests)
    assert complaints == []
    page = new_page(browser)
    page.goto(f"{(SITE / 'search.html').as_uri()}?q=<b>kv cache</b>")
    page.locator("#search-results li a").first.wait_for()
    assert page.locator("#search-results b").count() == 0
    page.context.close()
