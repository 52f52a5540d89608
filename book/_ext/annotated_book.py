"""What the rendered book needs beyond Jupyter Book.

Exported cells show the module they are written to instead of the export directive, as a link to its reference; the
reference links back. Where one is folded, its closed line names what it defines. The scripts of hover explanations come
from node_modules, so that no page asks another host for anything, and are loaded when somebody points at a link;
sphinx-thebe, which would ask, is switched off. Launch buttons take the repository from the git remote. A few attributes
that the theme leaves out make the pages readable by assistive technology. Where the remote is on GitHub, each section
of a chapter ends with a link for those who are stuck.
"""

import ast
import json
import posixpath
import re
import tomllib
from html import escape
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

from tools.repository import origin

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "node_modules"
TIPPY = (MODULES / "@popperjs/core/dist/umd/popper.min.js", MODULES / "tippy.js/dist/tippy-bundle.umd.min.js")
SIDEBAR = 'id="pst-primary-sidebar" class="bd-sidebar-primary bd-sidebar"'
UNUSED = ("sphinx_highlight.js", "doctools.js", "togglebutton.js", "togglebutton.css", "design-tabs.js")
REPAIRS = {
    # names that differ from the visible words
    r'<summary aria-label="Toggle hidden content">': "<summary>",
    r'(<button class="btn search-button-field [^"]*") title="Search" aria-label="Search"': r"\1",
    r'(data-mode="\w+") +title="[^"]*"': r"\1",
    # the book's title stands outside every landmark
    f"<div {SIDEBAR}>": f'<div {SIDEBAR} role="complementary" aria-label="Chapters">',
    # Colab opens the copy that fetches the rest of the book (tools/colab.py)
    r'(https://colab\.research\.google\.com/github/[^"]+?/blob/)main/book/': r"\1colab/",
    # light or dark at once, where the theme waits for a script: until then its colours and lines are not there
    r'(dataset\.theme = localStorage\.getItem\("theme"\)) \|\| ""': (
        r'\1 || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")'
    ),
    r'(dataset\.mode = localStorage\.getItem\("mode"\)) \|\| ""': r'\1 || "auto"',
    # past the map of the paper, to what the page says
    r'href="#main-content"(?=.*id="page-text")': 'href="#page-text"',
    # each exercise has this name
    r'<section id="exercise-content">': "<section>",
    # no script keeps the page from being drawn; this one would come too early, and only a menu of versions needs it
    r"<script>DOCUMENTATION_OPTIONS\.pagename = '[^']*';</script>": "",
    r'<script (?=(?:data-[\w-]+="[^"]*" )?src="_static/)': "<script defer ",
    r'\s*<link rel="preload" as="script" [^>]*/>': "",
    # these mark words that Sphinx's search found, step through pages by keys, open boxes and switch tabs: none is used
    rf'\s*<script [^>]*src="_static/(?:{"|".join(map(re.escape, UNUSED))})[^"]*"[^>]*></script>': "",
    rf'\s*<link [^>]*href="_static/(?:{"|".join(map(re.escape, UNUSED))})[^"]*" />': "",
    r"\s*<script>(?:let toggle(?:Hint|Open)|var togglebutton)[^<]*</script>": "",
    # a list needs items, and this role is no longer in the standard
    r'role="doc-biblioentry"': 'role="listitem"',
}
TIPS = re.compile(r'<script defer="defer" src="(_static/tippy/[^"]+)"></script>\s*')
NAMED = 4  # of the names that a folded cell defines, its closed line says so many
UNEXPLAINED = re.compile(r'<pre>.*?</pre>|<div class="chart">.*?</div>', re.DOTALL)
DIRECTIVE = re.compile(r"#\| export(?: ([A-Za-z_]\w*))?[ ]*(?:\n|$)")


def defined_in(source: str) -> list[str]:
    """The names that a cell defines at its top level, without those for inner use."""
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign):
            found += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in found if not name.startswith("_")]


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
                module = match[1] or (default := default or self.default_module())
                name = f"annotated/{module}.py"
                text = block.astext()[match.end() :]
                block.children = [nodes.Text(text)]
                block.rawsource = text
                link = addnodes.pending_xref(
                    "", nodes.literal(name, name), refdomain="py", reftype="mod", refdoc=self.env.docname,
                    reftarget=name.removesuffix(".py").replace("/", "."),
                )  # fmt: skip
                caption = nodes.paragraph("", "", link, classes=["module-name"])
                block.parent.insert(block.parent.index(block), caption)
                if "prompt_show" in (whole := cell.parent):  # folded: its closed line says what is inside
                    whole["prompt_show"] = whole["prompt_hide"] = f"{name}: {', '.join(defined_in(text)) or 'imports'}"
                break

    def default_module(self) -> str:
        notebook = json.loads(Path(self.env.doc2path(self.env.docname)).read_text(encoding="utf-8"))
        return notebook["metadata"]["annotated"]["module"]


class SayWhatIsFolded(SphinxTransform):
    """The closed line of a folded cell says what is inside; ModuleCaption does it for exported ones."""

    default_priority = 388  # before charts become part of the page

    def apply(self, **_: object) -> None:
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") == "cell_code" and "prompt_show" in cell and cell.get("hide_mode"):
                source = "\n".join(block.astext() for block in cell.children[0].findall(nodes.literal_block))
                cell["prompt_show"] = cell["prompt_hide"] = inside(source, cell)


def inside(source: str, cell: nodes.container) -> str:
    """What a folded cell does, in a few words."""
    imported = re.search(r"^(import|from) ", source, re.MULTILINE) is not None
    names = ", ".join(defined_in(source)[:NAMED])
    if any(cell.findall(nodes.image)):
        return "The picture, and how it is drawn" if cell["hide_mode"] == "all" else "How the picture is drawn"
    if any(cell.findall(nodes.table)):
        return "The table, and how it is made" if cell["hide_mode"] == "all" else "How the table is made"
    if imported:
        return f"Imports, and {names}" if names else "Imports"
    if cell["hide_mode"] == "all":
        return "Code and output" + (f": {names}" if names else "")
    return f"Code: {names}" if names else "The code"


class NumberTitles(SphinxTransform):
    """Put a chapter's number before its title: in the page, the sidebar, the search and wherever links take it from."""

    default_priority = 385

    def apply(self, **_: object) -> None:
        number = posixpath.basename(self.env.docname)[:2]
        title = self.document.next_node(nodes.title)
        if number.isdigit() and title:
            title.insert(0, [nodes.inline("", number, classes=["chapter-number"]), nodes.Text(" ")])


class MarkChecks(SphinxTransform):
    """Give cells that assert something, and are not exported, the edge of a check."""

    default_priority = 390

    def apply(self, **_: object) -> None:
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") != "cell_code":
                continue
            source = "\n".join(block.astext() for block in cell.findall(nodes.literal_block))
            if re.search(r"^\s*assert ", source, re.MULTILINE) and not DIRECTIVE.match(source):
                cell["classes"].append("tag_check")


def moved_sections(app: Sphinx, page: str, template: str, context: dict, document: nodes.document | None) -> None:
    """At the top of a page, what shows when somebody comes for a section that stands in another chapter now."""
    moved = yaml.safe_load((ROOT / "book" / "moved.yml").read_text(encoding="utf-8"))
    for address, goal in moved.items():
        chapter, _, section = address.partition("#")
        if document is not None and posixpath.basename(page) == chapter:
            goal_chapter, _, title = goal.partition("#")
            link = f"{goal_chapter}.html#{nodes.make_id(title)}"
            context["body"] = (
                f'<a class="moved" id="{section}" href="{link}">This section stands in another chapter now: '
                f"{escape(title)}</a>\n{context['body']}"
            )


def hide_code(app: Sphinx, page: str, template: str, context: dict, document: nodes.document | None) -> None:
    """Take code and charts out of a page while sphinx_tippy reads it: it needs none of them, and most of the time."""
    if document is not None:
        context["whole"] = context["body"]
        context["body"] = UNEXPLAINED.sub("", context["body"])


def show_code(app: Sphinx, page: str, template: str, context: dict, document: nodes.document | None) -> None:
    if document is not None:
        context["body"] = context.pop("whole")


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
            text = re.sub(old, new, text, flags=re.DOTALL)
        tips = f'<meta name="tips" content="{" ".join(TIPS.findall(text))}">'
        text = TIPS.sub("", text).replace("</head>", f"{tips}</head>")
        path.write_text(text, encoding="utf-8")
    for name in UNUSED:
        for left in Path(app.outdir, "_static").glob(name):
            left.unlink()


def copy_tippy(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    target = Path(app.outdir) / "_static" / "tippy"
    target.mkdir(parents=True, exist_ok=True)
    for script in TIPPY:
        if not script.is_file():
            raise ExtensionError(f"{script.relative_to(ROOT)} is missing: run `make env`")
        text = script.read_text(encoding="utf-8")  # without the address of a map that is not there
        (target / script.name).write_text(re.sub(r"\n//# sourceMappingURL=.*", "", text), encoding="utf-8")


DEFINED = re.compile(r"Defined in chapter (\d+): `([^`]+)`\.")


def docstring(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text with code between backticks; their last line leads to the chapter."""
    lines[:] = [
        line for line in lines if not line.startswith("Alias for field number")
    ]  # Python's own, of a NamedTuple
    text = "\n".join(lines)
    parts = re.split(r"(`[^`]+`)", DEFINED.sub(r"\0\1#\2\0", text))
    for number, part in enumerate(parts):
        if part.startswith("`"):
            parts[number] = f"`{part}`"
        else:
            parts[number] = re.sub(r"([*|\\]|_\b)", r"\\\1", part)
    text = "".join(parts)
    for chapter, cell in re.findall(r"\0(\d+)#(.+?)\0", text):
        (path,) = (ROOT / "book").glob(f"{chapter:0>2}_*.ipynb")
        text = text.replace(f"\0{chapter}#{cell}\0", f"Defined in :cell:`{path.stem}#{cell}`.".replace("\\", ""))
    lines[:] = text.split("\n")


def signature(app: Sphinx, what: str, name: str, thing: object, options: object, text: str | None, result: str | None):
    """A default that a dataclass makes anew each time is no Python; without it Sphinx can read the types beside it."""
    return text and text.replace("<factory>", "..."), result


class Repository(SphinxDirective):
    """`{repository}`: where the book's repository is, when the git remote says so."""

    def run(self) -> list[nodes.Node]:
        address = self.config.html_theme_options.get("repository_url")
        if not address:
            return []
        link = nodes.reference("", address, refuri=address)
        said = nodes.Text("It lies at "), link, nodes.Text(": clone it with git, or download and unpack it.")
        return [nodes.paragraph("", "", *said)]


def launch_buttons(app: Sphinx, config: Config) -> None:
    """Buttons for Colab, Binder and the source, when the git remote says where the repository is."""
    repository = origin(ROOT)
    if not repository.startswith("https://"):
        return
    config.html_theme_options |= {
        "repository_url": repository,
        "repository_branch": "main",
        "path_to_docs": "book",
        "use_repository_button": True,
    }
    if urlsplit(repository).hostname == "github.com":
        buttons = {"colab_url": "https://colab.research.google.com", "binderhub_url": "https://mybinder.org"}
        config.html_theme_options["launch_buttons"] = buttons | {"notebook_interface": "jupyterlab"}


STUCK = """\
Page: {page}
Section: {title}
Source: {repository}/blob/main/book/{page}.ipynb ({section})
Version: {version}

What I expected:

What I did not understand:
"""
OPENED = r'<section\b[^>]*?\bid="([^"]+)"[^>]*>\s*(?:<span [^>]*></span>\s*)*(<h[23]\b)?'
SECTION = re.compile(rf"{OPENED}|<section\b|</section>")


def with_stuck_links(body: str, page: str, titles: dict[str, str], repository: str | None, version: str) -> str:
    """A chapter's HTML with a link at the end of each section's own text: it opens a prepared issue on GitHub."""
    if repository is None or urlsplit(repository).hostname != "github.com":
        return body
    parts, done, open_sections = [], 0, []  # a section is named as long as its link is still to come

    def link(place: int) -> None:
        nonlocal done
        if open_sections and (section := open_sections[-1]):
            title = titles.get(section, section)
            about = {"page": page, "title": title, "section": section, "repository": repository, "version": version}
            asked = urlencode({"title": f"Stuck at {page}: {title}", "body": STUCK.format(**about)})
            name = escape(f"stuck here? {title}: write an issue")
            address = escape(f"{repository}/issues/new?{asked}")
            parts.append(body[done:place])
            parts.append(f'<p class="stuck"><a href="{address}" aria-label="{name}">stuck here?</a></p>\n')
            open_sections[-1], done = None, place

    for match in SECTION.finditer(body):
        if match[0] == "</section>":
            link(match.start())
            open_sections.pop()
        else:
            if match[2]:  # a section inside another begins where the other's own text ends
                link(match.start())
            open_sections.append(match[1] if match[2] else None)
    return "".join(parts) + body[done:]


def stuck_links(app: Sphinx, page: str, template: str, context: dict, document: nodes.document | None) -> None:
    """The links of a chapter; none on paper, in appendices, and where nobody knows the repository."""
    if document is not None and app.builder.name == "html" and page[:1].isdigit():
        named = [(one["ids"], one.next_node(nodes.title)) for one in document.findall(nodes.section)]
        titles = {name: title.astext() for names, title in named for name in names if title}
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        repository = app.config.html_theme_options.get("repository_url")
        context["body"] = with_stuck_links(context["body"], page, titles, repository, project["version"])


def share_nodes(app: Sphinx) -> None:
    """What extensions register for pages of HTML holds for a single page, too; Sphinx forgets some of it."""
    handlers = app.registry.translation_handlers
    if app.builder.name != "html" and app.builder.format == "html":
        handlers[app.builder.name] = {**handlers.get("html", {}), **handlers.get(app.builder.name, {})}


def setup(app: Sphinx) -> dict[str, bool]:
    without_thebe(app)
    app.add_directive("repository", Repository)
    app.add_transform(NumberTitles)
    app.add_transform(SayWhatIsFolded)
    app.add_transform(MarkChecks)
    app.add_transform(ModuleCaption)
    app.connect("builder-inited", share_nodes)
    app.connect("config-inited", launch_buttons)
    app.connect("html-page-context", moved_sections)
    app.connect("html-page-context", hide_code, priority=449)
    app.connect("html-page-context", show_code, priority=451)
    app.connect("html-page-context", stuck_links, priority=600)  # behind all that reads a page
    app.connect("autodoc-process-docstring", docstring)
    app.connect("autodoc-process-signature", signature)
    app.connect("build-finished", copy_tippy)
    app.connect("build-finished", repair_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
