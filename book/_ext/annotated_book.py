"""What the rendered book needs beyond Jupyter Book.

Exported cells show the module they are written to instead of the export directive. MathJax comes from node_modules, so
that no page asks another host for anything; sphinx-thebe, which would, is switched off. A few attributes that the theme
leaves out make the pages readable by assistive technology.
"""

import json
import re
import shutil
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform

MATHJAX = Path(__file__).resolve().parents[2] / "node_modules" / "mathjax" / "es5"
SIDEBAR = 'id="pst-primary-sidebar" class="bd-sidebar-primary bd-sidebar"'
REPAIRS = {
    # names that differ from the visible words
    r'<summary aria-label="Toggle hidden content">': "<summary>",
    r'(<button class="btn search-button-field [^"]*") title="Search" aria-label="Search"': r"\1",
    r'(data-mode="\w+") +title="[^"]*"': r"\1",
    # the book's title stands outside every landmark
    f"<div {SIDEBAR}>": f'<div {SIDEBAR} role="complementary" aria-label="Chapters">',
    # a list needs items, and this role is no longer in the standard
    r'role="doc-biblioentry"': 'role="listitem"',
}
DIRECTIVE = re.compile(r"#\| export(?: ([A-Za-z_]\w*))?[ ]*(?:\n|$)")


class ModuleCaption(SphinxTransform):
    """Replace the export directive of a code cell by a caption with the module's path."""

    default_priority = 400

    def apply(self, **_: object) -> None:
        default = None
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") != "cell_code_source":
                continue
            for block in cell.findall(nodes.literal_block):
                match = DIRECTIVE.match(block.astext())
                if not match:
                    continue
                default = default or self.default_module()
                name = f"annotated/{match[1] or default}.py"
                text = block.astext()[match.end() :]
                block.children = [nodes.Text(text)]
                block.rawsource = text
                caption = nodes.paragraph("", "", nodes.literal(name, name), classes=["module-name"])
                block.parent.insert(block.parent.index(block), caption)
                break

    def default_module(self) -> str:
        notebook = json.loads(Path(self.env.doc2path(self.env.docname)).read_text(encoding="utf-8"))
        return notebook["metadata"]["annotated"]["module"]


def without_thebe(app: Sphinx) -> None:
    app.setup_extension("sphinx_thebe")
    for listeners in app.events.listeners.values():
        listeners[:] = [
            one for one in listeners if not getattr(one.handler, "__module__", "").startswith("sphinx_thebe")
        ]
    app.registry.css_files[:] = [file for file in app.registry.css_files if "thebe" not in file[0]]


def repair_pages(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    for path in Path(app.outdir).glob("*.html"):
        text = path.read_text(encoding="utf-8")
        for old, new in REPAIRS.items():
            text = re.sub(old, new, text)
        path.write_text(text, encoding="utf-8")


def copy_mathjax(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    if not MATHJAX.is_dir():
        raise ExtensionError("node_modules/mathjax is missing: run `make env`")
    target, fonts = Path(app.outdir) / "_static" / "mathjax", Path("output") / "chtml" / "fonts" / "woff-v2"
    (target / fonts).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(MATHJAX / "tex-chtml-full.js", target)
    shutil.copytree(MATHJAX / fonts, target / fonts, dirs_exist_ok=True)


def setup(app: Sphinx) -> dict[str, bool]:
    without_thebe(app)
    app.add_transform(ModuleCaption)
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", repair_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
