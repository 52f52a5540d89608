"""The gallery: every picture of the chapters as a file, in both themes, which any program can open."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from tests.pages import SITE

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import gallery  # noqa: E402

FILES = SITE / "_static" / "gallery"
PICTURES = [one for path in sorted((ROOT / "book").glob("[0-9][0-9]_*.ipynb")) for one in gallery.pictures(path)]
NAMES = [f"{one.name}-{theme}" for one in PICTURES for theme in gallery.THEMES]


def test_names_are_unique_and_all_have_a_heading_and_a_caption():
    assert len(PICTURES) == len({one.name for one in PICTURES}) > 100
    assert {"39_transformer-figure-1", "32_attention-figure-2"} <= {one.name for one in PICTURES}
    assert [one.name for one in PICTURES if not one.heading or len(one.caption) < 16] == []


def test_colours_are_those_of_the_style_sheet():
    """A role, a hue of its own, grey, and the weights of a map, in both themes."""
    svg = '<svg viewBox="0 0 9 9" width="9" height="9"><path style="fill: #B84D06"/><path style="fill: #ffffff"/>'
    svg += '<path style="fill: #123456"/><g class="ramp"><path style="fill: #000000"/></g></svg>'
    found = {theme: re.findall(r"fill: (#\w{6})", gallery.resolved(svg, theme)) for theme in gallery.THEMES}
    assert [one.lower() for one in found["light"]] == ["#b84d06", "#ffffff", "#123456", "#000000"]
    assert [one.lower() for one in found["dark"]] == ["#fa8e35", "#15171a", "#a9cbed", "#ffffff"]


@pytest.mark.browser
@pytest.mark.usefixtures("site")
def test_every_picture_has_its_four_files_and_its_place():
    page = (SITE / "gallery.html").read_text(encoding="utf-8")
    for name in NAMES:
        root = ElementTree.parse(FILES / f"{name}.svg").getroot()
        text = (FILES / f"{name}.svg").read_text(encoding="utf-8")
        assert not re.search(r"var\(|currentColor|color-mix", text), name
        sizes = [float(root.get(side)) for side in ("width", "height")]
        with Image.open(FILES / f"{name}.png") as picture:
            assert picture.size == pytest.approx([2 * size for size in sizes], abs=2), name
            assert picture.convert("L").getextrema()[1] - picture.convert("L").getextrema()[0] > 100, name
        assert f'src="_static/gallery/{name}.svg"' in page
    for one in PICTURES:
        assert f'class="thumbnail" href="{one.chapter}.html#cell-{one.cell}"' in page
        assert f'id="cell-{one.cell}"' in (SITE / f"{one.chapter}.html").read_text(encoding="utf-8")
