"""The pages that are made from what the chapters hold, and what ties pages together.

`{chapters}` is the table of all chapters, `{modules}` the reference of all modules.
`{misreadings}`, `{code-differences}`, `{errata}` and `{places}` show `misreadings.yml`, `released_code.yml`,
`errata.yml` and `places.yml`, `{messages}` what the package's sources refuse, `{exercises}` the exercises of all
chapters with their solutions. The first time a page uses a term of the glossary, it becomes a link there. A strip at
the top of each page is the map of the paper, with the place where one is.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from html import escape, unescape
from pathlib import Path
from typing import Any, ClassVar

import nbformat
import yaml
from annotated_book import DIRECTIVE
from docutils import nodes
from docutils.statemachine import StringList
from ledger import Cells, Table, anchor, guard, load_claims, number_and_words, reference_to
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

from tools.export import LEVELS

NO_TERMS = (nodes.title, nodes.reference, nodes.literal, nodes.math, nodes.caption, nodes.literal_block, nodes.table)
NO_TERMS += (nodes.raw, nodes.emphasis, addnodes.pending_xref, nodes.citation)
EXERCISE = re.compile(r"\{exercise\}(?: .*)?\n:label: (?P<label>\S+)\n(?P<text>.*?)\n:::", re.DOTALL)


class Appendix(Table):
    """A table from a file beside the ledger."""

    columns: ClassVar[dict[str, int]] = {}

    def run(self) -> list[nodes.Node]:
        rows = (({"ids": [name]}, cells) for name, cells in self.rows())
        return [self.table(self.columns, rows, "ledger", type(self).__name__.lower())]

    def rows(self) -> Iterator[tuple[str, Cells]]:
        """The id and the cells of each row; a cell is a list of paragraphs."""
        raise NotImplementedError

    def beside(self, name: str) -> Path:
        """The path of a file beside the ledger."""
        return Path(self.env.srcdir, name)

    def listed(self, name: str) -> list[dict[str, Any]]:
        """What such a file lists, in its order."""
        (entries,) = yaml.safe_load(self.beside(name).read_text(encoding="utf-8")).values()
        return entries

    def entries(self, name: str) -> list[dict[str, Any]]:
        """What such a file lists, in the order of the chapters."""
        return sorted(self.listed(name), key=lambda entry: entry.get("chapter") or entry["cell"].split("#")[0])

    def cell(self, name: str) -> list[nodes.Node]:
        """A link to a cell, in words."""
        return [reference_to("cell", name, self.env.docname, True, "{}: {}".format(*number_and_words(name)))]

    def guard(self, name: str) -> list[nodes.Node]:
        return [guard(name, self.env.docname)]


class Misreadings(Appendix):
    """`{misreadings}`: what is often said of the paper, and the cell or the test that refutes it."""

    columns: ClassVar[dict[str, int]] = {"What is often said": 28, "What is true": 38, "Refuted by, explained in": 24}

    def rows(self) -> Iterator[tuple[str, Cells]]:
        for entry in self.entries("misreadings.yml"):
            if "cell" in entry:
                places = [self.cell(entry["cell"]), self.cell(entry["text"])]
            else:
                places = [[nodes.Text(f"{entry['chapter'][:2]}: "), *self.guard(entry["test"])]]
            yield entry["id"].lower(), [[entry["misreading"]], [entry["truth"]], places]


class CodeDifferences(Appendix):
    """`{code-differences}`: the paper against released code, and the option that reproduces it."""

    columns: ClassVar[dict[str, int]] = {
        "What": 12,
        "The paper": 20,
        "Released code, and others": 30,
        "In this package": 28,
    }

    def rows(self) -> Iterator[tuple[str, Cells]]:
        for entry in self.entries("released_code.yml"):
            option = f"`{entry['option']}`" if entry["option"] else "No option."
            here = [option, entry["note"], self.cell(entry["cell"])]
            yield entry["id"].lower(), [[entry["what"]], [entry["paper"]], [entry["released"]], here]


class Errata(Appendix):
    """`{errata}`: what an earlier edition said wrongly, and since when it is right."""

    columns: ClassVar[dict[str, int]] = {"Where": 16, "What it said": 32, "What is right": 32, "Since": 14}

    def rows(self) -> Iterator[tuple[str, Cells]]:
        entries = self.listed("errata.yml")
        for number, entry in zip(range(len(entries), 0, -1), entries):  # an entry keeps its number
            since = f"{entry['since'].day} {entry['since']:%b %Y}"
            yield f"e-{number}", [[self.cell(entry["cell"])], [entry["said"]], [entry["right"]], [since]]


class Places(Appendix):
    """`{places}`: equations, tables and figures of the paper, each with its cell, its code and its test."""

    columns: ClassVar[dict[str, int]] = {
        "In the paper": 16,
        "What it says": 26,
        "Explained": 16,
        "Code": 22,
        "Test": 24,
    }

    def rows(self) -> Iterator[tuple[str, Cells]]:
        for entry in self.listed("places.yml"):
            what = f"**{entry['what']}**, {'' if entry['section'] == 'appendix' else 'section '}{entry['section']}"
            code = f"{{py:obj}}`~{entry['code']}`" if entry["code"] else ""
            parts = what, entry["says"], self.cell(entry["cell"]), code, self.guard(entry["test"])
            yield entry["id"], [[part] for part in parts]


class Messages(Appendix):
    """`{messages}`: what the package says when it refuses something, and what to do then, from its sources."""

    columns: ClassVar[dict[str, int]] = {"Message": 40, "What to do": 40, "Raised in": 14}

    def rows(self) -> Iterator[tuple[str, list[list[list[nodes.Node]]]]]:
        for path in (self.beside("..").resolve() / "annotated").rglob("*.py"):
            self.env.note_dependency(str(path))
        for number, (module, message, todo) in enumerate(messages_of(self.beside("..").resolve()), start=1):
            parts = filled_in(message), self.line(todo), self.line(f"{{py:mod}}`~{module}`")
            yield f"message-{number}", [[part] for part in parts]


def messages_of(root: Path) -> list[tuple[str, str, str]]:
    """Module, message and what to do of every `raise InputError`, in the order of the modules' names.

    A message that only hands on what another one says has no row.
    """
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted((root / "annotated").rglob("*.py"))}
    texts = {
        one.targets[0].id: one.value.value
        for tree in trees.values()
        for one in tree.body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and isinstance(one.value, ast.Constant)
    }
    found = {}
    for path, tree in trees.items():
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        calls = [one.exc for one in ast.walk(tree) if isinstance(one, ast.Raise) and isinstance(one.exc, ast.Call)]
        for call in sorted(calls, key=lambda call: call.lineno):
            if isinstance(call.func, ast.Name) and call.func.id == "InputError":
                message, todo = template(call.args[0]), call.args[1] if len(call.args) > 1 else ast.Constant("")
                said = texts[todo.id] if isinstance(todo, ast.Name) else getattr(todo, "value", "")
                said = said if isinstance(said, str) else ""  # otherwise it is that of another error
                if said or re.search("[a-z]", re.sub(r"\{.*?\}", "", message)):
                    found.setdefault((module, message), said)
    return [(module, message, todo) for (module, message), todo in found.items()]


READABLE = {
    "strerror": "reason", "error": "reason", "msg": "reason", "lineno": "line", "len": "number", "cuda": "number",
    "parent": "folder", "theirs": "setting", "known": "names", "fit": "names", "named": "names", "repr": "names",
    "arguments": "value", "environ": "value", "alpha": "value", "block": "id", "half": "code", "first": "name",
    "WMT14": "languages",
}  # fmt: skip


def template(node: ast.expr) -> str:
    """A text as it stands in the code; what is filled in is a readable name in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(template, node.values))
    if isinstance(node, ast.FormattedValue):
        return template(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return f"{template(node.left)}/{template(node.right)}"
    return f"{{{readable(node)}}}"


def readable(node: ast.expr) -> str:
    """The last name of an expression, in words."""
    match node:
        case ast.Call(func=ast.Name(id="len")):
            name = "len"
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(name), *_]):
            pass
        case ast.Call(func=ast.Attribute(attr="join" | "get"), args=[argument, *_]) | ast.Call(args=[argument, *_]):
            return readable(argument)
        case ast.Call(func=ast.Attribute(value=inner)) | ast.Subscript(value=ast.Call() as inner):
            return readable(inner)
        case ast.Subscript(slice=ast.Constant(str(name))):
            pass
        case ast.Subscript(value=inner) | ast.BinOp(left=inner) | ast.IfExp(body=inner) | ast.GeneratorExp(elt=inner):
            return readable(inner)
        case ast.Attribute(attr="__name__"):
            name = "type"
        case ast.Call(func=ast.Name(id=name)):
            pass
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(str(name)):
            pass
        case _:
            name = ast.unparse(node)
    return READABLE.get(name, name).strip("_").replace("_", " ").lower()


def filled_in(message: str) -> list[nodes.Node]:
    """A message, with what stands in its braces in italics."""
    parts = enumerate(re.split(r"\{(.*?)\}", message))
    return [nodes.emphasis("", part) if number % 2 else nodes.Text(part) for number, part in parts if part]


class Exercises(Appendix):
    """`{exercises}`: the exercises of all chapters, each with the cell that solves it."""

    columns: ClassVar[dict[str, int]] = {"Number": 8, "Exercise": 56, "Solution": 12}

    def rows(self) -> Iterator[tuple[str, Cells]]:
        for chapter, label, text, asked, solution in exercises_of(self.beside(".")):
            number = f"{chapter[:2]}.{label.rsplit('-', 1)[1]}"
            first = text.strip().split("\n\n")[0].replace("\n", " ")
            numbered = [reference_to("cell", f"{chapter}#{asked}", self.env.docname, True, number)]
            solved = [reference_to("cell", f"{chapter}#{solution}", self.env.docname, True, "solution")]
            yield label, [[numbered], [first], [solved if solution else ""]]


def count_exercises_by_page(app: Sphinx, env: BuildEnvironment) -> None:
    """Number the exercises of each page from 1, as its text and its solutions do, not through the whole book."""
    for numbers in env.toc_fignumbers.values():
        for label in numbers.get("exercise", {}):
            numbers["exercise"][label] = (int(label.rsplit("-", 1)[1]),)


class Chapters(Appendix):
    """`{chapters}`: the chapters in their order, each with its section of the paper and what it shows."""

    columns: ClassVar[dict[str, int]] = {"Section of the paper": 14, "Chapter": 34, "What it shows": 52}

    def rows(self) -> Iterator[tuple[str, Cells]]:
        for name, about in chapters_of(self.beside(".")).items():
            shown = about.get("section"), f"[{about['title']}]({name}.ipynb)", about.get("shows")
            yield f"chapter-{name.replace('_', '-')}", [[part] for part in shown]


class Modules(SphinxDirective):
    """`{modules}`: a section with the reference of each module: the chapters' in their order, then those of folders."""

    def run(self) -> list[nodes.Node]:
        sections = []
        for module in modules_of(Path(self.env.srcdir)):
            name = f"annotated.{module}"
            section = nodes.section("", nodes.title("", name), ids=[nodes.make_id(name)], names=[name])
            self.set_source_info(section)
            text = f"```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n```"
            self.state.nested_parse(StringList(text.splitlines(), source=self.env.docname), 0, section)
            self.state.document.note_implicit_target(section, section)
            sections.append(section)
        return sections


def chapters_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The chapters in their order, with the title and what else each one's metadata says of it."""
    found = {}
    for path in sorted(folder.glob("[0-9]*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        title = next(re.finditer(r"(?m)^# (.+)$", notebook.cells[0].source), None) if notebook.cells else None
        found[path.stem] = {**notebook.metadata.get("annotated", {}), "title": title[1] if title else path.stem}
    return found


def modules_of(folder: Path) -> list[str]:
    """The modules that the chapters write, each where it is first written, then those in the folders of the package."""
    found: dict[str, bool] = {}
    for path in sorted(folder.glob("[0-9]*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code" and (match := DIRECTIVE.match(cell.source)):
                found.setdefault(match[1] or notebook.metadata.annotated.module, True)
    package = folder.parent / "annotated"
    for level in filter(None, LEVELS):
        paths = sorted((package / level).rglob("*.py"))
        names = (".".join(path.relative_to(package).with_suffix("").parts) for path in paths)
        found |= dict.fromkeys(name for name in names if not name.endswith("__init__"))
    return list(found)


def map_of(folder: Path) -> dict[str, list[str]]:
    """The sections of the paper in its order, each with its chapters; the last of them leads on from the section."""
    found: dict[str, list[str]] = {"abstract": ["index"]}
    for name, about in chapters_of(folder).items():
        if section := about.get("section"):
            found.setdefault(section, []).append(name)
    return dict(sorted(found.items(), key=lambda item: (item[0] != "abstract", not item[0][0].isdigit(), item[0])))


def exercises_of(folder: Path) -> Iterator[tuple[str, str, str, str, str | None]]:
    """Chapter, label, text and cell of each exercise, and the code cell that solves it, `solution-1` and so on."""
    for path in sorted(folder.glob("[0-9]*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        code = {cell.id for cell in cells if cell.cell_type == "code"}
        for cell in cells:
            for match in EXERCISE.finditer(cell.source):
                name = f"solution-{match['label'].rsplit('-', 1)[1]}"
                solution = next((one for one in (name, f"{name}-code") if one in code), None)
                yield path.stem, match["label"], match["text"], cell.id, solution


def terms_of(path: Path) -> list[str]:
    """The terms of a page's glossary directive, the longest first."""
    (block,) = re.findall(r"(?ms)^```\{glossary\}\n(.*?)^```", path.read_text(encoding="utf-8"))
    terms = [line.strip() for line in block.splitlines() if line and not line[0].isspace()]
    return sorted((term for term in terms if "$" not in term and len(term) > 1), key=lambda term: -len(term))


@cache
def pattern_of(term: str) -> re.Pattern:
    """Finds a term, its first letter small or a capital, in the singular or with an s."""
    first = f"[{term[0]}{term[0].upper()}]" if term[0].islower() else re.escape(term[0])
    return re.compile(rf"(?<![\w-]){first}{re.escape(term[1:])}s?(?![\w-])")


class GlossaryLinks(SphinxTransform):
    """Make a page's first use of each term of the glossary a link to it."""

    default_priority = 860  # after the exercises and proofs are put together

    def apply(self, **_: object) -> None:
        config, page = self.env.config, self.env.docname[:2]
        if self.env.docname in config.glossary_skip:
            return
        left = [
            term
            for term in terms_of(Path(self.env.srcdir, "glossary.md"))
            if page in config.glossary_only.get(term, [page]) and page not in config.glossary_not.get(term, [])
        ]
        for text in list(self.document.findall(nodes.Text)):
            if not isinstance(text.parent, nodes.paragraph) or any(
                isinstance(one, NO_TERMS) for one in ancestors(text)
            ):
                continue
            parts = list(self.linked(str(text), left))
            if len(parts) > 1:
                place = text.parent.index(text)
                text.parent.children[place : place + 1] = parts
                for part in parts:
                    part.parent = text.parent

    def linked(self, text: str, left: list[str]) -> Iterator[nodes.Node]:
        """The text in parts, with a link for each term that is found; found terms are taken from `left`."""
        while found := [(match, term) for term in left if (match := pattern_of(term).search(text))]:
            match, term = min(found, key=lambda pair: (pair[0].start(), -len(pair[0][0])))
            left.remove(term)
            yield nodes.Text(text[: match.start()])
            link = addnodes.pending_xref(
                "", refdomain="std", reftype="term", reftarget=term, refdoc=self.env.docname, refwarn=True
            )
            link += nodes.inline("", match[0], classes=["glossary-term"])
            yield link
            text = text[match.end() :]
        yield nodes.Text(text)


def ancestors(node: nodes.Node) -> Iterator[nodes.Node]:
    while node.parent is not None:
        node = node.parent
        yield node


# At once, so that nothing moves: on a phone the map, which would take three lines, is folded; and the style sheet keeps
# room for what modules will add, which load from a server only.
FOLD = """<script>
if (matchMedia("(max-width: 600px)").matches) document.currentScript.previousElementSibling.removeAttribute("open");
if (location.protocol !== "file:") document.documentElement.classList.add("served");
</script>"""


def paper_map(app: Sphinx, page: str, template: str, context: dict, document: nodes.document | None) -> None:
    """Put the map of the paper above a page: a link for each section, and a mark on the one that the page treats."""
    if document is None:
        return
    items, place = [], "the paper"
    for section, pages in app.env.paper_map.items():
        target = pages[-1]
        here = ' aria-current="page"' if target == page else ' aria-current="true"' if page in pages else ""
        place = section if here else place
        address = "#" if target == page else app.builder.get_relative_uri(page, target)
        label = escape(f"{section}, chapter {app.env.titles[target].astext()}")
        items.append(f'<li><a href="{address}"{here} aria-label="{label}">{section}</a></li>')
    fold = f"<details open><summary>Paper: {place}</summary><ol>{''.join(items)}</ol></details>{FOLD}"
    strip = f'<nav class="paper-map" aria-label="Map of the paper"><span>Paper</span>{fold}</nav>'
    context["body"] = f'{strip}<div id="page-text" tabindex="-1"></div>{context["body"]}'


def read_map(app: Sphinx) -> None:
    """Read the map once; a page is drawn from it many times."""
    app.env.paper_map = map_of(Path(app.srcdir))


def claim_tips(app: Sphinx) -> None:
    """Let a link to a claim show the claim."""

    def formula(found: re.Match[str]) -> str:
        return app.typesetter.formula(unescape(found[1]), display=False)

    for claim in load_claims(Path(app.srcdir)).values():
        text = re.sub(r"\$(.+?)\$", formula, escape(claim["claim"], quote=False))
        standing = ", ".join(filter(None, [claim["standing"], claim.get("outcome")]))
        tip = f"<p><strong>{claim['id']}</strong> {text}</p><p>{standing.capitalize()}.</p>"
        app.config.tippy_custom_tips[f"ledger.html#{anchor(claim['id'])}"] = tip


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("glossary_skip", [], "env")
    app.add_config_value("glossary_only", {}, "env")
    app.add_config_value("glossary_not", {}, "env")
    app.add_directive("chapters", Chapters)
    app.add_directive("modules", Modules)
    app.add_directive("misreadings", Misreadings)
    app.add_directive("code-differences", CodeDifferences)
    app.add_directive("errata", Errata)
    app.add_directive("places", Places)
    app.add_directive("messages", Messages)
    app.add_directive("exercises", Exercises)
    app.add_transform(GlossaryLinks)
    app.connect("builder-inited", claim_tips, priority=600)  # behind what sets formulas
    app.connect("env-check-consistency", count_exercises_by_page)  # after the environment is stored
    app.connect("builder-inited", read_map)
    app.connect("html-page-context", paper_map, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
