"""Formulas that are set when the site is built, in `book/_ext/mathematics.py`."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import mathematics  # noqa: E402
from sphinx.errors import ExtensionError  # noqa: E402


@pytest.fixture(scope="module")
def typesetter():
    if not mathematics.MATHJAX.is_dir():
        pytest.skip("no MathJax: run `make env`")
    typesetter = mathematics.Typesetter({"R": r"\mathbb{R}"})
    yield typesetter
    typesetter.close()


def test_a_formula_is_seen_and_read(typesetter):
    html = typesetter.formula(r"x \in \R^{d_k} \tag{7}", display=True)
    assert 'display="true"' in html
    assert '<mjx-math aria-hidden="true"' in html
    assert "<mjx-assistive-mml><math" in html
    assert "<mi>x</mi>" in html
    assert " id=" not in html
    assert "\n" not in html
    style = typesetter.style()
    assert "mjx-c1D465" in style  # the letter x, as it is used
    assert "mathjax/output/chtml/fonts/woff-v2/MathJax_Math-Italic.woff" in style


@pytest.mark.parametrize("tex", [r"\frac{1}{", r"\unknown{x}"])
def test_one_that_cannot_be_read_ends_the_build(typesetter, tex):
    with pytest.raises(ExtensionError, match="MathJax cannot read"):
        typesetter.formula(tex, display=False)


@pytest.mark.slow
def test_lines_and_paragraphs_of_a_displayed_formula():
    assert mathematics.block("a = b") == "a = b"
    assert mathematics.block("a \\\\ b") == r"\begin{split}a \\ b\end{split}"
    assert mathematics.block("a\n\nb") == r"\begin{align}\begin{aligned}a \\ b\end{aligned}\end{align}"
