"""The icons that pages show, in fonts of their own: book/_ext/icons.py."""

import sys
from pathlib import Path

import pydata_sphinx_theme
import pytest
from fontTools.ttLib import TTFont

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

from icons import FONTS, face_of  # noqa: E402

(THEIRS,) = {path.parent for path in Path(pydata_sphinx_theme.__file__).parent.rglob("fa-solid-900.ttf")}
GITHUB, GLASS = 0xF09B, 0xF002  # the mark of a brand, and a magnifying glass


@pytest.mark.parametrize(("kind", "own", "other"), [("Free", GLASS, GITHUB), ("Brands", GITHUB, GLASS)])
def test_a_font_keeps_what_it_has_of_the_icons(tmp_path, kind, own, other):
    """The link to the repository has the mark of a brand, which the font of all other icons lacks."""
    rule = face_of(kind, THEIRS, tmp_path, {GITHUB, GLASS})
    _, weight, name = FONTS[kind]
    assert TTFont(tmp_path / name).getBestCmap().keys() == {own}
    assert f'"Font Awesome 6 {kind}";font-weight:{weight};src:url(../{name})' in rule
    assert (tmp_path / name).stat().st_size < 5_000


@pytest.mark.parametrize(("kind", "other"), [("Free", GITHUB), ("Brands", GLASS)])
def test_a_font_without_any_of_them_is_not_written(tmp_path, kind, other):
    """A site whose repository nobody knows has no brand to show."""
    assert face_of(kind, THEIRS, tmp_path, {other}) == ""
    assert list(tmp_path.iterdir()) == []
