"""Formulas are set when the site is built, so that a page needs no script for them: a reader loads 300 KB less.

A process of Node runs MathJax (`typeset.cjs`) for the whole build. Of its fonts only the signs that are used are kept.
What is on the screen is hidden from screen readers, which get MathML instead.
"""

import json
import re
import subprocess
from pathlib import Path

from docutils import nodes
from fontTools import subset, ttLib
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform
from sphinx.writers.html5 import HTML5Translator

ROOT = Path(__file__).resolve().parents[2]
BEHIND = re.compile(r"[,.;:!?)\]]+")
MATHJAX, FONTS = ROOT / "node_modules" / "mathjax" / "es5", Path("output", "chtml", "fonts", "woff-v2")


class Typesetter:
    """Sets formulas, each once."""

    def __init__(self, macros: dict[str, str]):
        if not MATHJAX.is_dir():
            raise ExtensionError("node_modules/mathjax is missing: run `make env`")
        command = ["node", str(Path(__file__).with_name("typeset.cjs")), json.dumps(macros)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self.known: dict[str, str] = {}

    def ask(self, **question: object) -> str:
        """The answer of the process, which is asked every question once. Raises ExtensionError where it ended."""
        line = json.dumps(question)
        if line not in self.known:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            if not answer:
                raise ExtensionError(f"MathJax stopped at {line}")
            self.known[line] = json.loads(answer)
        return self.known[line]

    def formula(self, tex: str, display: bool) -> str:
        """A formula as HTML. Raises ExtensionError where it cannot be read."""
        html = self.ask(tex=tex, display=display)
        if "<mjx-merror" in html:
            raise ExtensionError(f"MathJax cannot read {tex}")
        return html

    def style(self) -> str:
        """The style sheet of all formulas so far."""
        return self.ask(style=True)

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()


def block(tex: str) -> str:
    """The source of a displayed formula: lines of one are aligned, paragraphs are formulas below each other."""
    parts = [part for part in tex.split("\n\n") if part.strip()]
    parts = [rf"\begin{{split}}{part}\end{{split}}" if r"\\" in part else part for part in parts]
    whole = r" \\ ".join(parts)
    return rf"\begin{{align}}\begin{{aligned}}{whole}\end{{aligned}}\end{{align}}" if len(parts) > 1 else whole


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    html = self.builder.app.typesetter.formula(node.astext(), display=False)
    self.body.append(self.starttag(node, "span", "", CLASS="math notranslate nohighlight") + html + "</span>")
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    tex = node.astext() if node.get("no-wrap", node.get("nowrap")) else block(node.astext())
    html = self.builder.app.typesetter.formula(tex, display=True)
    self.body.append(self.starttag(node, "div", CLASS="math notranslate nohighlight") + html + "</div>\n")
    raise nodes.SkipNode


class KeepTogether(SphinxTransform):
    """Bind the comma behind a formula to it, so that no line begins with one."""

    default_priority = 800  # when quotation marks are as they stay

    def apply(self, **_: object) -> None:
        for formula in list(self.document.findall(nodes.math)):
            parent, place = formula.parent, formula.parent.index(formula)
            text = parent[place + 1] if place + 1 < len(parent) else None
            if isinstance(text, nodes.Text) and (found := BEHIND.match(text)):
                bound = nodes.inline("", "", formula, nodes.Text(found[0]), classes=["unbroken"])
                parent[place : place + 2] = [bound, nodes.Text(text[found.end() :])]


def begin(app: Sphinx) -> None:
    app.typesetter = Typesetter(app.config.typeset_macros)


def finish(app: Sphinx, error: Exception | None) -> None:
    """Write the style sheet, and copy the fonts."""
    if not error and app.builder.format == "html":
        target, style = Path(app.outdir) / "_static", app.typesetter.style()
        (target / "mathematics.css").write_text(style, encoding="utf-8")
        (target / "mathjax" / FONTS).mkdir(parents=True, exist_ok=True)
        for name in sorted(set(re.findall(r"[\w-]+\.woff\b", style))):
            reduced(MATHJAX / FONTS / name, signs_in(style)).save(target / "mathjax" / FONTS / name)
    app.typesetter.close()


def signs_in(style: str) -> set[int]:
    """The code points that rules of a style sheet write."""
    texts = re.findall(r'content: ?"((?:[^"\\]|\\.)*)"', style)
    plain = re.sub(r"\\([0-9A-Fa-f]{1,6}) ?", lambda code: chr(int(code[1], 16)), " ".join(texts))
    return {ord(sign) for sign in plain}


def reduced(path: Path, signs: set[int]) -> ttLib.TTFont:
    """A font without all other signs; one that has none of them stays whole, as browsers refuse an empty one."""
    font, subsetter = ttLib.TTFont(path), subset.Subsetter()
    if used := signs & font.getBestCmap().keys():
        subsetter.populate(unicodes=used)
        subsetter.subset(font)
    return font


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("typeset_macros", {}, "html")
    app.add_html_math_renderer("typeset", (visit_inline, None), (visit_block, None))
    app.add_css_file("mathematics.css")
    app.add_transform(KeepTogether)
    app.connect("builder-inited", begin)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
