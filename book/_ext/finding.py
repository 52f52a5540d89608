"""What the search page finds: every section of the book with its text, and the words that readers type for it.

`book/search.yml` knows these words, and ways of writing the same; equations, tables and figures of the paper come from
`book/places.yml`. The page itself searches by MiniSearch (from npm) with `book/web/search.js`, in place of Sphinx's
search, which knows words and titles only. It can keep to the chapters of the evening.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "node_modules" / "minisearch" / "dist" / "umd" / "index.js"
WEIGHTS = {  # of pages that repeat what chapters say, or are looked things up in
    "questions": 0.8, "glossary": 0.5, "misreadings": 0.5, "released_code": 0.5, "notation": 0.6, "cheat_sheet": 0.4,
    "seminar": 0.4, "teaching": 0.3, "teaching_answers": 0.2, "hyperparameters": 0.4, "messages": 0.3, "places": 0.3,
    "errata": 0.2, "exercises": 0.2, "ledger": 0.2, "api": 0.2, "bibliography": 0.2, "gallery": 0.2,
}  # fmt: skip
LESS = {"exercises": 0.4}  # of sections that each chapter has
SILENT = (nodes.literal_block, nodes.raw, nodes.comment, nodes.target, nodes.title)
SPHINX = re.compile(
    r'\s*<script [^>]*src="(?:_static/(?:searchtools|language_data)|searchindex)\.js[^"]*"[^>]*></script>'
)
SCRIPTS = "".join(f'<script defer src="_static/{name}.js"></script>' for name in ("minisearch", "sections", "search"))


def formula(tex: str) -> str:
    """A formula in letters."""
    tex = re.sub(r"\\sqrt\{?", "√", re.sub(r"\\(?:text|operatorname|mathbf|mathrm|boldsymbol)\b", "", tex))
    return re.sub(r"\\\w+|[\\{}$]", " ", tex).strip()


def words_of(node: nodes.Node) -> str:
    """What a node says, with formulas in letters."""
    parts = [
        formula(one.astext()) if isinstance(one.parent, nodes.math) else one.astext()
        for one in node.findall(nodes.Text)
    ]
    return "".join(parts)


def title_of(node: nodes.Node) -> str:
    """The title of a section; nothing for all else, as for the insides of exercises."""
    titles = [child for child in node.children if isinstance(child, nodes.title)]
    return words_of(titles[0]) if titles and isinstance(node, nodes.section) else ""


def text_of(node: nodes.Node) -> str:
    """The words of a section, without code, and without the sections inside it."""
    parts = [
        words_of(child) if isinstance(child, nodes.Text | nodes.TextElement) else text_of(child)
        for child in node.children
        if not isinstance(child, SILENT) and not title_of(child)
    ]
    return " ".join(part for part in parts if part)


def sections_of(page: str, document: nodes.document) -> Iterator[dict]:
    """Every section of a page: its place, its titles, its text, and what the page weighs."""
    whole = words_of(next(document.findall(nodes.title)))
    for number, section in enumerate(filter(title_of, document.findall(nodes.section))):
        anchor = section["ids"][0]
        yield {
            "id": f"{page}#{anchor}", "top": number == 0, "page": whole, "title": title_of(section), "words": [],
            "weight": weight(page, anchor), "text": " ".join(text_of(section).split()),
        }  # fmt: skip


def weight(page: str, anchor: str) -> float:
    kind = re.sub(r"-?\d+$", "", anchor)
    return WEIGHTS.get(page, 1.0) * next((less for name, less in LESS.items() if kind.startswith(name)), 1.0)


def section_of_cell(document: nodes.document, cell: str) -> str | None:
    """The anchor of the section in which a cell stands."""
    for node in document.findall(nodes.Element):
        if f"cell-{cell}" in node.get("ids", []):
            while node is not None and not title_of(node):
                node = node.parent
            return node and node["ids"][0]
    return None


def collected(app: Sphinx) -> dict:
    """All sections, and the ways of writing the same. Raises ExtensionError for a place that does not exist."""
    documents = {page: app.env.get_doctree(page) for page in sorted(app.env.found_docs)}
    sections = {one["id"]: one for page, document in documents.items() for one in sections_of(page, document)}
    tops = {one["id"].partition("#")[0]: one["id"] for one in sections.values() if one["top"]}
    known = yaml.safe_load((ROOT / "book" / "search.yml").read_text(encoding="utf-8"))
    words = dict(known["words"])
    for place in yaml.safe_load((ROOT / "book" / "places.yml").read_text(encoding="utf-8"))["places"]:
        page, _, cell = place["cell"].partition("#")
        if page in documents:
            at = f"{page}#{section_of_cell(documents[page], cell)}"
            if at not in sections:
                raise ExtensionError(f"book/places.yml: {page} has no section with a cell {cell}")
            words[at] = f"{words.get(at, '')}, {place['what']}"
    for place, each in words.items():
        if (at := tops.get(place, place)) not in sections:
            raise ExtensionError(f"book/search.yml: there is no section {place}")
        sections[at]["words"] += [word for word in re.split(r",\s*", each) if word]
    for one in sections.values():
        one["evening"] = one["id"].partition("#")[0] in app.config.evening
    return {"same": known["same"], "sections": list(sections.values())}


def write(app: Sphinx, error: Exception | None) -> None:
    """Put sections and scripts beside the search page, and take Sphinx's out of it."""
    if error or app.builder.name != "html":
        return
    if not LIBRARY.is_file():
        raise ExtensionError("node_modules/minisearch is missing: run `make env`")
    static = Path(app.outdir) / "_static"
    content = json.dumps(collected(app), ensure_ascii=False)
    (static / "sections.js").write_text(f"globalThis.SECTIONS = {content};\n", encoding="utf-8")
    library = re.sub(r"\n//# sourceMappingURL=.*", "", LIBRARY.read_text(encoding="utf-8"))
    (static / "minisearch.js").write_text(library, encoding="utf-8")
    page = Path(app.outdir) / "search.html"
    html = SPHINX.sub("", page.read_text(encoding="utf-8"))
    page.write_text(html.replace("</head>", f"{SCRIPTS}</head>"), encoding="utf-8")
    for left in ("searchtools.js", "language_data.js"):
        (static / left).unlink(missing_ok=True)
    (Path(app.outdir) / "searchindex.js").unlink(missing_ok=True)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", write, priority=600)  # behind the builder's own index
    return {"parallel_read_safe": True, "parallel_write_safe": True}
