"""The rendered book in a real browser: `pytest tests/test_site.py`.

The site is _build/html, built anew where something changed, or the folder that ANNOTATED_SITE names. Without a chromium
these tests are skipped; with CI set, that is a failure.
"""

import gzip
import json
import re
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import nbformat
import pytest
import yaml

from tests.pages import SITE, WIDTHS, cropped, overflowing, thin_out, violations
from tools.browser import new_page
from tools.build import toc_entries
from tools.pdf import main as make_pdf
from tools.pdf import print_page

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {path.stem: path for path in sorted((ROOT / "book").glob("*")) if path.suffix in (".ipynb", ".md")}

PAGES = toc_entries(ROOT)
HEAVIEST = 350_000  # bytes of a page and all that it loads before anybody touches it, compressed
LEDGER = yaml.safe_load((ROOT / "book" / "ledger.yml").read_text(encoding="utf-8"))["claims"]
MOVED = yaml.safe_load((ROOT / "book" / "moved.yml").read_text(encoding="utf-8"))

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("site")]


ALL: dict = {}
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}  # the rules that depend on the theme, and the slow ones
SHAPE = {"rules": {rule: {"enabled": False} for rule in COLOURS["runOnly"]}}
CHECKED = {"laptop": {"light": ALL, "dark": COLOURS}, "phone": {"light": SHAPE, "dark": COLOURS}}  # by axe
COLOURED = {  # pages which have together all that has dark colours of its own, and what has them on phones alone
    "laptop": (
        *("index", "00_whole", "31_stacks", "32_attention", "60_beam_search", "81_laboratory", "91_command_line"),
        *("api", "cheat_sheet", "exercises", "glossary", "hyperparameters", "ledger", "questions", "released_code"),
    ),
    "phone": ("index", "32_attention", "ledger"),
}


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


@cache
def compressed(path: Path) -> int:
    """The bytes of a file as a server sends it."""
    data = path.read_bytes()
    return len(data) if path.suffix in (".png", ".webp", ".woff") else len(gzip.compress(data))


def first_view(requests: list[str], site: str) -> int:
    """The bytes that a page asks for before anybody touches it."""
    names = {unquote(urlsplit(url.removeprefix(site)).path) for url in requests if url.startswith(site)}
    return sum(compressed(SITE / (name or "index.html")) for name in names)


def faults(page, name: str, width: str) -> list[str]:
    """What axe finds at one width; the dark theme, on some pages, is chosen without loading again."""
    thin_out(page)
    found = []
    for theme, rules in CHECKED[width].items():
        if rules is COLOURS and name not in COLOURED[width]:
            continue
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        found += [f"{theme}: {one}" for one in violations(page, rules)]
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_the_map_is_folded_on_a_phone(open_page, width):
    page, _, _ = open_page("32_attention.html", width)
    sections = page.locator(".paper-map ol")
    assert sections.is_visible() == (width == "laptop")
    if width == "phone":
        page.locator(".paper-map summary", has_text="3.2").click()
        assert sections.is_visible()


def test_the_sections_of_a_page_stand_beside_it(open_page):
    page, _, _ = open_page("32_attention.html")
    menu, text = page.locator(".bd-sidebar-secondary"), page.locator("article")
    for width in (1000, 1024, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        assert menu.locator("a", has_text="Masks").is_visible()
        assert menu.bounding_box()["x"] >= text.bounding_box()["x"] + text.bounding_box()["width"]
        assert overflowing(page) == []


def test_below_that_a_button_opens_them(open_page):
    page, _, _ = open_page("32_attention.html", "phone")
    page.locator(".secondary-toggle:visible").click()
    link = page.locator("dialog[open] a, .bd-sidebar-secondary[open] a", has_text=re.compile("^Masks$")).first
    link.click()
    assert page.url.endswith("#masks")


def test_icons_are_drawn(open_page):
    """Those of a page are in the font that is left of two thousand."""
    page, requests, _ = open_page("32_attention.html")
    assert [url for url in requests if "fontawesome" in url] == []
    used = set(page.locator("[class*='fa-solid'], .fas").evaluate_all("all => all.map(one => one.className)"))
    assert len(used) > 5
    drawn = "all => all.filter(one => getComputedStyle(one, '::before').content === 'none').map(one => one.className)"
    assert page.locator("[class*='fa-solid'], .fas").evaluate_all(drawn) == []
    loaded = "[...document.fonts].filter(one => one.status === 'loaded').map(one => one.family).join()"
    assert "Font Awesome 6 Free" in page.evaluate(loaded)


@pytest.mark.parametrize("width", CHECKED)
def test_a_chart_has_the_colours_and_the_width_of_its_page(open_page, width):
    """Text in the colour of text, in the dark, too; on a phone the narrow form, where there is one."""
    page, _, _ = open_page("35_positional_encoding.html", width, "dark")
    inks = "all => all.map(node => getComputedStyle(node).fill)"
    paper = page.locator("body").evaluate("node => getComputedStyle(node).color")
    both = page.locator(".chart:has(.narrow):visible").all()  # others are in closed boxes
    assert len(both) > 3
    for chart in both:
        assert chart.locator("svg:visible").get_attribute("class") == ("narrow" if width == "phone" else "wide")
        colours = set(chart.locator("svg:visible text").evaluate_all(inks))
        assert {paper} <= colours <= {paper, "rgb(169, 176, 186)"}  # that of what is muted, in the dark
    alone = page.locator(".chart:not(:has(.narrow)) svg").first
    assert alone.is_visible()
    assert alone.bounding_box()["width"] > (450 if width == "phone" else 600)


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
    assert back.is_hidden()
    assert complaints == []


def test_a_long_table_is_filtered_and_sorted(open_page):
    page, _, complaints = open_page("exercises.html")
    rows = page.locator("table.exercises tbody tr:visible")
    every = rows.count()
    page.get_by_label("Only rows with").fill("MASK position")
    assert 0 < rows.count() < every
    assert all("mask" in text.lower() and "position" in text.lower() for text in rows.all_inner_texts())
    assert page.locator(".table-filter output").inner_text() == f"{rows.count()} of {every} rows"
    page.get_by_label("Only rows with").fill("")
    numbers = rows.locator("td:first-child").all_inner_texts()
    heading = page.locator("table.exercises th", has_text="Number")
    for direction in ("ascending", "descending"):
        heading.get_by_role("button").click()
        assert heading.get_attribute("aria-sort") == direction
        found = rows.locator("td:first-child").all_inner_texts()
        assert [float(number) for number in found] == sorted(map(float, numbers), reverse=direction == "descending")
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_keeps_the_theme_that_was_chosen(open_page, scheme):
    page, _, _ = open_page("index.html", "laptop", scheme)
    assert page.locator("html").get_attribute("data-theme") == scheme


@pytest.mark.parametrize("name", ["genindex", "py-modindex"])
def test_an_index_that_is_made_for_the_book_fits_every_width(open_page, name):
    """These pages have no source in `book/`, so they are none of PAGES."""
    page, _, complaints = open_page(f"{name}.html")
    assert page.locator(".indextable a").count() > 30
    for across in (WIDTHS["laptop"][0], 768, 767, 360, 320):
        page.set_viewport_size({"width": across, "height": 900})
        assert overflowing(page) + cropped(page) == [], across
    assert complaints == []


@pytest.mark.parametrize("name", PAGES)
def test_page_stands_alone_and_is_accessible(open_page, site, name):
    """All that holds for every page at every width; it is loaded once, and then made narrower."""
    page, requests, complaints = open_page(f"{name}.html")
    assert page.locator("article h1").count() == 1
    assert first_view(requests, site) < HEAVIEST
    assert overflowing(page) + cropped(page) == []
    assert unset(page, name) == []
    assert undescribed(page) == []
    assert faults(page, name, "laptop") == []
    for across in (1024, 768, 360, WIDTHS["phone"][0]):
        page.set_viewport_size({"width": across, "height": 900})
        assert overflowing(page) + cropped(page) == [], across
    page.evaluate(
        "markScrollers(), document.querySelector('.paper-map details')?.removeAttribute('open')"
    )  # as loaded so
    assert faults(page, name, "phone") == []
    assert [url for url in requests if not url.startswith((site, "data:", "blob:"))] == []
    assert complaints == []


@pytest.mark.parametrize("name", PAGES)
def test_exported_cells_show_their_module(name):
    html = (SITE / f"{name}.html").read_text(encoding="utf-8")
    plain = re.sub(r"<[^>]+>", "", re.sub(r"<pre>", "\n<pre>", html))
    assert not re.search(r"^\s*#\| ", plain, re.MULTILINE)
    if SOURCES[name].suffix != ".ipynb":
        return
    notebook = nbformat.read(SOURCES[name], as_version=4)
    default = notebook.metadata.get("annotated", {}).get("module")
    lines = [cell.source.split("\n")[0].split() for cell in notebook.cells if cell.source.startswith("#| export")]
    expected = [f"annotated/{line[2] if len(line) > 2 else default}.py" for line in lines]
    assert re.findall(r'<p class="module-name">.*?(annotated/\w+\.py)', html) == expected


def test_a_folded_cell_says_what_is_inside():
    html = "".join((SITE / f"{name}.html").read_text(encoding="utf-8") for name in ("00_whole", "59_training"))
    lines = re.findall(r"<summary[^>]*>(.*?)</summary>", html, re.DOTALL)
    texts = [" ".join(re.sub(r"<[^>]+>", " ", line).split()) for line in lines]
    assert any("annotated/plain.py: learning_rate, make_optimizer, train_step" in text for text in texts)
    pictures = {"How the picture is drawn", "The picture, and how it is drawn"}  # the second is folded with its code
    assert pictures | {"Imports, and RUNS, device, metrics, held_out_loss"} <= {
        text[: len(text) // 2] for text in texts
    }
    assert not any("Show code cell" in text for text in texts)


def test_checks_have_their_edge_and_other_cells_have_none():
    html = (SITE / "33_feed_forward.html").read_text(encoding="utf-8")
    for cell in nbformat.read(SOURCES["33_feed_forward"], as_version=4).cells:
        if cell.cell_type == "code":
            (classes,) = re.findall(rf'<div class="([^"]*)"[^>]*id="cell-{cell.id}"', html)
            checks = "assert " in cell.source and not cell.source.startswith("#| export")
            assert ("tag_check" in classes.split()) == checks, cell.id


@pytest.mark.parametrize("name", [name for name in PAGES if SOURCES[name].suffix == ".ipynb"])
def test_a_table_that_a_cell_displays_is_a_table(name):
    """Markdown in an output is typeset, not shown as it was written."""
    html = (SITE / f"{name}.html").read_text(encoding="utf-8")
    for cell in nbformat.read(SOURCES[name], as_version=4).cells:
        shown = [output.get("data", {}).get("text/markdown", "") for output in cell.get("outputs", [])]
        tables = [markdown for markdown in shown if markdown.startswith("|")]
        rows = sum(len(table.splitlines()) - 1 for table in tables)  # all but the rule below the head
        if tables:
            page = html.split(f'id="cell-{cell.id}"')[1].split('id="cell-')[0]
            assert page.count("<tr") == rows, cell.id


def test_exercises_are_counted_on_each_page():
    """As text, solutions and the list of exercises count them."""
    for name in PAGES:
        html = (SITE / f"{name}.html").read_text(encoding="utf-8")
        numbers = [int(number) for number in re.findall(r'caption-number">Exercise (\d+)', html)]
        labels = re.findall(r'id="ex-[\w-]+?-(\d+)"', html) if SOURCES[name].suffix == ".ipynb" else []
        assert numbers == list(range(1, len(numbers) + 1)) == [int(label) for label in labels], name


def test_internal_links_resolve():
    pages = {path.name: path.read_text(encoding="utf-8") for path in SITE.glob("*.html")}
    targets = {name: set(re.findall(r'\s(?:id|name)="([^"]+)"', html)) for name, html in pages.items()}
    broken = []
    for name, html in pages.items():
        for link in re.findall(r'<a\s[^>]*?href="([^"]+)"', html):
            if urlsplit(link).scheme or link in ("#", ""):
                continue
            address, fragment = urldefrag(urljoin(name, link))
            file = unquote(address.split("?")[0])
            if fragment.startswith("lab-"):
                continue  # a state of the laboratory: tests/test_widgets.py
            if not (SITE / file).is_file() or (fragment and file in targets and unquote(fragment) not in targets[file]):
                broken.append(f"{name}: {link}")
    assert broken == []


def test_every_page_says_of_itself_what_no_other_page_says():
    """In a list of results; a page whose first words are all in boxes or formulas would say nothing."""
    said = {}
    for name in PAGES:
        (words,) = re.findall(r'<meta name="description" content="([^"]*)"', (SITE / f"{name}.html").read_text("utf-8"))
        assert len(unescape(words)) > 40, name
        assert said.setdefault(words, name) == name


def test_figure_1_is_text_and_its_boxes_lead_to_their_chapters(open_page, site):
    """A drawing shown as an image would have neither; a shape that lies over a box would take its click."""
    page, _, complaints = open_page("39_transformer.html")
    figure = page.locator("svg#figure-1")
    selected = figure.evaluate("one => { getSelection().selectAllChildren(one); return getSelection().toString(); }")
    for words in ("Masked multi-head", "Add & norm", "Positional", "(shifted right)", "Output probabilities"):
        assert words in selected, words
    links = figure.locator("a").evaluate_all("all => all.map(one => one.getAttribute('href'))")
    assert {link[:2] for link in links} >= {"31", "32", "33", "34", "35"}
    page.route("**/*.html", lambda route: route.fulfill(status=204))  # asked for, and this page stays
    for number, link in enumerate(links):
        if link in links[:number]:
            continue
        with page.expect_request(lambda request: request.is_navigation_request()) as asked:
            figure.locator("a").nth(number).click()
        assert asked.value.url == urldefrag(f"{site}{link}").url
        assert urldefrag(link).url.removesuffix(".html") in PAGES, "a page that is not tested above"
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", list(WIDTHS))
@pytest.mark.parametrize(("name", "figure"), [("39_transformer", "figure-1"), ("32_attention", "figure-2")])
def test_drawing_fits_its_page(open_page, name, figure, width, scheme):
    """No word leaves its box or the drawing, and the page's own ground is behind it, also in the dark."""
    page, _, _ = open_page(f"{name}.html", width, scheme)
    found = page.locator(f"svg#{figure}").evaluate(
        """svg => {
          const inside = (inner, outer) => inner.left >= outer.left - 1 && inner.right <= outer.right + 1
            && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
          const frame = svg.getBoundingClientRect();
          const boxes = [...svg.querySelectorAll('rect.box')].map(one => one.getBoundingClientRect());
          const holds = (box, x, y) => x > box.left && x < box.right && y > box.top && y < box.bottom;
          const out = [...svg.querySelectorAll('text')].filter(text => {
            const words = text.getBoundingClientRect();
            const [x, y] = [(words.left + words.right) / 2, (words.top + words.bottom) / 2];
            const around = boxes.filter(box => holds(box, x, y));
            return !inside(words, frame) || (around.length && !around.some(box => inside(words, box)));
          });
          const grounds = [];
          for (let one = svg; one.localName !== 'main'; one = one.parentElement)
            grounds.push(getComputedStyle(one).backgroundColor);
          return {out: out.map(text => text.textContent), ground: grounds.filter(one => one !== 'rgba(0, 0, 0, 0)')};
        }"""
    )
    assert found == {"out": [], "ground": []}


@pytest.mark.parametrize(
    ("link", "words"),
    [("a:has(.glossary-term)", "Chapter"), ("a[href='ledger.html#claim-C-3-2-1-a']", "C-3.2.1-a")],
)
@pytest.mark.parametrize("way", ["hover", "focus"])
def test_pointing_at_a_link_explains_a_term_and_a_claim(open_page, site, link, words, way):
    page, requests, complaints = open_page("32_attention.html")
    getattr(page.locator(f"article {link}").first, way)()
    tip = page.locator(".tippy-box")
    tip.wait_for()
    assert words in tip.inner_text()
    assert not re.search(r"\$|\\\(", tip.inner_text())
    assert tip.locator("mjx-container").count() == (2 if words == "C-3.2.1-a" else 0)
    assert all(url.startswith(site) for url in requests)
    assert complaints == []


def test_the_ledger_shows_the_claims_that_one_asks_for(open_page):
    page, _, complaints = open_page("ledger.html")
    buttons = page.locator(".ledger-filters button")
    counts = {name.rpartition(" ")[0]: int(name.rpartition(" ")[2]) for name in buttons.all_inner_texts()}
    assert {"holds", "in part", "undecided", "contradicted here", "told"} <= counts.keys()
    assert counts.pop("all") == sum(counts.values()) == len(LEDGER)
    buttons.filter(has_text="contradicted here").click()
    shown = page.locator("table.ledger tbody tr:visible")
    assert shown.count() == counts["contradicted here"]
    ids = shown.locator("td:first-child").all_inner_texts()
    assert ids == [claim["id"] for claim in LEDGER if claim.get("outcome") == "contradicted here"]
    assert complaints == []


def test_the_old_address_of_a_section_leads_to_it(browser, site):
    old, new = next(iter(MOVED.items()))
    page = new_page(browser)
    page.goto(f"{site}{old.replace('#', '.html#')}")
    page.wait_for_url(f"{site}{new.partition('#')[0]}.html#*")
    assert page.locator("section:target > :is(h2, h3)").inner_text().startswith(new.partition("#")[2])
    page.context.close()


def test_every_section_that_moved_has_its_link():
    for old in MOVED:  # where the links lead, test_internal_links_resolve asks
        page, _, section = old.partition("#")
        tags = re.findall(rf'<[^>]* id="{section}"[^>]*>', (SITE / f"{page}.html").read_text(encoding="utf-8"))
        assert ['class="moved"' in tag for tag in tags] == [True], (old, tags)


def test_terms_are_linked_once_a_page():
    found = 0
    for name in PAGES:
        html = (SITE / f"{name}.html").read_text(encoding="utf-8")
        linked = re.findall(r'href="glossary\.html#(term-[^"]+)"[^>]*><span class="glossary-term', html)
        assert len(linked) == len(set(linked)), name
        found += len(linked)
    assert found > 100


def test_the_map_of_the_paper_says_where_one_is():
    here = {}
    for name in PAGES:
        strip = re.search(
            r'<nav class="paper-map".*?</nav>', (SITE / f"{name}.html").read_text(encoding="utf-8"), re.S
        )[0]
        assert strip.count("<a ") == 19, name
        here[name] = re.findall(r'aria-current="\w+"[^>]*>([^<]+)<', strip)
    assert here["32_attention"] == ["3.2"]
    assert here["10_introduction"] == ["1, 2"]
    assert here["glossary"] == []
    assert here["60_beam_search"] == here["61_machine_translation"] == ["6.1"]
    assert sum(map(len, here.values())) == 20


def test_reference_and_chapters_lead_to_each_other():
    reference = (SITE / "api.html").read_text(encoding="utf-8")
    assert 'id="annotated.attention.scaled_dot_product_attention"' in reference
    assert 'href="32_attention.html#cell-scaled-dot-product-attention"' in reference
    chapter = (SITE / "32_attention.html").read_text(encoding="utf-8")
    assert re.search(r'class="module-name"><a [^>]*href="api\.html#module-annotated\.attention"', chapter)


@pytest.mark.parametrize("name", PAGES)
def test_one_can_leaf_through_the_book(name):
    html = (SITE / f"{name}.html").read_text(encoding="utf-8")
    place = PAGES.index(name)
    around = {"left-prev": PAGES[place - 1] if place else None, "right-next": [*PAGES, None][place + 1]}
    for side, other in around.items():
        found = re.search(rf'<a class="{side}"\s+href="([^"]+)"', html)
        assert (found[1] if found else None) == (f"{other}.html" if other else None)


def test_a_page_is_printed_with_its_solutions(browser, tmp_path):
    """What is folded is opened, except code: with its text the page is longer than one sheet."""
    words = "<p>word</p>" * 200
    page = (
        "<html data-ready=true><title>t</title><article class=bd-article><h1>One</h1><details{}>{}</details></article>"
    )
    sheets = {}
    for name, mark in (("solution", ""), ("code", " class=tag_hide-input")):
        (tmp_path / "index.html").write_text(page.format(mark, words))
        print_page(browser, (tmp_path / "index.html").as_uri(), tmp_path / "book.pdf")
        printed = (tmp_path / "book.pdf").read_bytes()
        assert printed.startswith(b"%PDF")
        sheets[name] = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert sheets["solution"] > sheets["code"] == 1
    assert not (tmp_path / "book.new").exists()


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
    assert len(before) > 30
    assert sum(before) == 1
    assert page.evaluate(unseen) == []
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert all(page.evaluate(states))
    assert page.evaluate(unseen) == []
    assert page.evaluate("document.getAnimations().length") == 0  # what begins to appear is printed as white space
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(states) == before
    page.evaluate(f"addEventListener('beforeprint', () => {{ printed = {states}; }})")
    page.pdf(format="A4")
    assert all(page.evaluate("printed"))
    assert page.evaluate(states) == before
    page.emulate_media(reduced_motion="reduce")


@pytest.mark.parametrize("name", ["32_attention", "60_beam_search", "hyperparameters", "places"])
def test_nothing_of_a_printed_page_is_cut_off(open_page, name):
    """Neither at the sheet's edge nor in a box that scrolls on the screen; what one can only press is left out."""
    page = on_paper(open_page, name)
    cut = """() => [...document.querySelectorAll('article *')]
      .filter(one => one.clientWidth > 1 && one.checkVisibility() && !one.closest('svg, mjx-assistive-mml'))
      .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1
        || (getComputedStyle(one).overflowX !== 'visible' && one.scrollWidth > one.clientWidth + 1))
      .map(one => `${one.tagName}.${one.className}: ${one.textContent.trim().slice(0, 60)}`).slice(0, 8)"""
    assert page.evaluate(cut) == []
    pressed = (
        "button:not(.sorts), input, select, .bd-sidebar-primary, .bd-sidebar-secondary, .bd-header, .bd-header-article"
    )
    assert page.locator(pressed).locator("visible=true").count() == 0


def test_the_cheat_sheet_fits_on_one_sheet(open_page):
    """A4 in chromium, with the margins that a browser offers."""
    page, _, _ = open_page("cheat_sheet.html")
    margins = dict.fromkeys(("top", "bottom", "left", "right"), "10mm")
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4", margin=margins))) == 1


def test_printing_without_a_chromium_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    assert make_pdf([], tmp_path) == 1
    assert capsys.readouterr().err == "pdf: no chromium found: install one, or name it in CHROMIUM\n"


def test_search_finds_a_section_offline(open_page, site):
    page, requests, complaints = open_page("search.html?q=why+scale")
    page.locator("#search-results li a").first.click()
    page.wait_for_url("**/32_attention.html#why-divide-by-sqrt-d-k")
    assert all(url.startswith(site) for url in requests)
    assert complaints == []


def test_search_works_without_a_server(browser):
    page = new_page(browser)
    page.goto(f"{(SITE / 'search.html').as_uri()}?q=<b>kv cache</b>")
    page.locator("#search-results li a").first.wait_for()
    assert page.locator("#search-results b").count() == 0
    page.context.close()


@pytest.mark.parametrize(
    ("width", "grey", "fault"),  # grey on white, and grey on the dark page
    [
        ("laptop", "#999", "light: color-contrast"),
        ("laptop", "#444", "dark: color-contrast"),
        ("phone", "#444", "dark: color-contrast"),
        ("phone", "#444", "light: image-alt"),
    ],
)
def test_axe_would_find_a_fault(open_page, width, grey, fault):
    """Guards the checks above: a picture without a description is reported, and text unreadable in one theme alone.

    So is one kind of token in the last block of code.
    """
    page, _, _ = open_page(f"{PAGES[0]}.html", width)
    page.evaluate("document.querySelector('article').append(new Image())")
    text = f'<style>.hard {{color: {grey}}}</style><p class="hard">hard to read</p>'
    text += '<pre>hard <span class="hard">to</span> <span class="hard">read</span></pre>'
    page.evaluate("html => document.querySelector('article').insertAdjacentHTML('beforeend', html)", text)
    found = faults(page, PAGES[0], width)
    assert any(line.startswith(fault) for line in found), json.dumps(found)
    if "contrast" in fault:
        assert any('<p class="hard">' in line and '<span class="hard">' in line for line in found), json.dumps(found)
    assert not any(line.startswith({"#999": "dark", "#444": "light"}[grey] + ": color-contrast") for line in found)
