"""The drawings in book/figures: what they say, where they lead, and that the chapters show them as they are."""

import re
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from docutils.nodes import make_id

from tools.build import toc_entries

ROOT = Path(__file__).resolve().parents[1]
FIGURES = sorted((ROOT / "book" / "figures").glob("*.svg"))
SHOWN_IN = {"figure-1": "39_transformer", "figure-2": "32_attention"}
SVG = "{http://www.w3.org/2000/svg}"

PAGES = set(toc_entries(ROOT))


def drawing(name: str) -> ElementTree.Element:
    return ElementTree.parse(ROOT / "book" / "figures" / f"{name}.svg").getroot()


def headings(page: str) -> set[str]:
    """The anchors of a chapter's headings."""
    cells = nbformat.read(ROOT / "book" / f"{page}.ipynb", as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return {make_id(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def box_of(rect: ElementTree.Element) -> tuple[float, float, float, float]:
    """Left, top, right and bottom."""
    x, y, width, height = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def arrows(root: ElementTree.Element) -> list[tuple[str, float, float]]:
    """Kind of line and the point where it ends, just before its head; the head is 7 long."""
    ends = []
    for group in root.iter(f"{SVG}g"):
        if group.get("class") == "lines":
            for path in group:
                x, y = re.findall(r"-?[\d.]+", path.get("d"))[-2:]
                ends.append((path.get("class", ""), float(x), float(y)))
    return ends


def from_below(root: ElementTree.Element, rect: ElementTree.Element) -> list[str]:
    """The kinds of the lines whose arrowheads touch a box's lower edge, from left to right."""
    left, _, right, bottom = box_of(rect)
    return [kind for kind, x, y in sorted(arrows(root), key=lambda end: end[1]) if left < x < right and y - bottom == 7]


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_links_lead_to_headings_of_chapters_and_ids_are_the_drawings_own(path):
    """Two drawings on one page do not clash, and none of them runs a script or asks another host."""
    text, root = path.read_text(encoding="utf-8"), drawing(path.stem)
    links = [link.get("href") for link in root.iter(f"{SVG}a")]
    for link in links:
        page, _, anchor = link.partition("#")
        assert page.removesuffix(".html") in PAGES, link
        assert not anchor or anchor in headings(page.removesuffix(".html")), link
    assert bool(links) == (path.stem == "figure-1")
    ids = [one.get("id") for one in root.iter() if one.get("id")]
    assert len(ids) == len(set(ids))
    assert all(name == path.stem or name.startswith(f"{path.stem}-") for name in ids)
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(ids)
    assert not re.search(r"<script|<image|<foreignObject|@import|\bon\w+=", text)
    assert re.findall(r"https?://\S+?(?=\")", text) == ["http://www.w3.org/2000/svg"]
    title, description = (root.find(f"{SVG}{tag}") for tag in ("title", "desc"))
    assert root.get("aria-labelledby") == title.get("id")
    assert root.get("aria-describedby") == description.get("id")


@pytest.mark.parametrize(("name", "chapter"), SHOWN_IN.items())
def test_chapter_shows_the_drawing_as_it_is(name, chapter):
    """Guards against a drawing that was changed without running the chapter again."""
    assert {path.stem for path in FIGURES} == set(SHOWN_IN)
    cells = {cell.id: cell for cell in nbformat.read(ROOT / "book" / f"{chapter}.ipynb", as_version=4).cells}
    (output,) = cells[name].outputs
    assert output.data["text/html"] == (ROOT / "book" / "figures" / f"{name}.svg").read_text(encoding="utf-8")


def test_figure_1_has_the_papers_lines():
    """C-3-d, C-3.2.3-b: three arrowheads at each attention; in the decoder's second, two come from the encoder."""
    root = drawing("figure-1")
    boxes = {rect.get("id", ""): rect for rect in root.iter(f"{SVG}rect")}
    for name, kinds in {
        "encoder-self-attention": ["", "", ""],
        "encoder-feed-forward": [""],
        "decoder-self-attention": ["", "", ""],
        "decoder-cross-attention": ["source", "source", ""],
        "decoder-feed-forward": [""],
    }.items():
        assert from_below(root, boxes[f"figure-1-{name}"]) == kinds, name


def test_figure_1_has_a_residual_line_into_every_norm():
    """C-3.1-c: around every sub-layer, into the norm after it."""
    root = drawing("figure-1")
    norms = [link.find(f"{SVG}rect") for link in root.iter(f"{SVG}a") if "Add & norm" in "".join(link.itertext())]
    assert len(norms) == 2 + 3
    for rect in norms:
        left, top, right, bottom = box_of(rect)
        beside = [x for _, x, y in arrows(root) if y == (top + bottom) / 2 and (left - x == 7 or x - right == 7)]
        assert len(beside) == 1
        assert from_below(root, rect) == [""]


def test_figure_2_has_the_papers_order():
    """C-3.2.3-g: mask after scale and before softmax; values, keys and queries from left to right."""
    scaled, heads = (
        [(float(text.get("x")), -float(text.get("y")), "".join(text.itertext())) for text in group.iter(f"{SVG}text")]
        for group in drawing("figure-2").findall(f"{SVG}g")
    )
    upwards = [words for _, _, words in sorted(scaled, key=lambda one: one[1])]
    assert upwards[3:] == [
        *("MatMul", "Scale by 1/√dk", "Mask (optional)", "Softmax", "MatMul"),
        "Scaled dot-product attention",
    ]
    lowest = min(y for _, y, _ in heads)
    assert [words for _, y, words in sorted(heads) if y == lowest] == ["V", "K", "Q"]
    words = [words for _, _, words in sorted(heads, key=lambda one: one[1])]
    assert [word for word in words if len(word) > 1][3:] == [
        *("Scaled dot-product attention", "Concat", "Linear", "Multi-head attention"),
    ]
    assert words.count("Linear") == 3 + 1
    assert "h" in words
