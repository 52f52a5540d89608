"""The evening: the chapters that tell the story on their own, as a path that one can walk.

Which they are stands in _config.yml (`evening`), and how long each takes is counted (tools/evening.py). Each of them
says at its top where in the evening one is, and leads to the next where its story ends and at the end of the page;
`{evening}` lists them, and so does the sidebar of every page. No script is needed for any of this.
"""

import re
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from tools.evening import listed, minutes

HOME, AFTERWARDS = "index", "81_laboratory"
STORY_ENDS = re.compile(r'(?=<section id="(?:more|exercises)">)')
SIDEBAR = re.compile(r'(<nav class="bd-links bd-docs-nav"[^>]*>\s*<div[^>]*>)')


class Evening(SphinxDirective):
    """`{evening}`: the chapters with their titles and minutes, and how long all of them take."""

    def run(self) -> list[nodes.Node]:
        holder = nodes.Element()
        self.state.nested_parse(StringList(listed().split("\n"), "evening"), self.content_offset, holder)
        return holder.children


def leading_on(app: Sphinx, page: str) -> str:
    """What leads from a chapter of the evening to the next, and from the last one out of it."""
    evening = app.config.evening
    if page == evening[-1]:
        return (
            f'That was the evening. Now <a href="{AFTERWARDS}.html">ask the machine yourself</a> in the laboratory, '
            f'or go <a href="{HOME}.html">back to the first page</a>.'
        )
    following = evening[evening.index(page) + 1]
    title, spent = escape(app.env.titles[following].astext()), minutes(following)
    return (
        f'<a class="evening-next" href="{following}.html"><span>Next this evening</span> <strong>{title}</strong> '
        f"<span>{spent} minutes</span></a>"
    )


def lead_on(app: Sphinx, page: str, template: str, context: dict, document: nodes.document | None) -> None:
    """The row at the top of a chapter of the evening, and the links to the next."""
    if page not in app.config.evening or app.builder.name != "html":
        return
    place, on = app.config.evening.index(page) + 1, leading_on(app, page)
    row = f"chapter {place} of {len(app.config.evening)}, {minutes(page)} minutes"
    row = f'<p class="evening-row"><a href="{HOME}.html#one-evening">One evening</a>: {row}</p>'
    story_ends = f'<p class="evening-on">{on} <em>The rest of this page can wait for another day.</em></p>\n'
    body, found = STORY_ENDS.subn(story_ends, context["body"], count=1)
    if not found:
        raise ExtensionError(f"{page}: no section More and no Exercises, before which its story ends")
    context["body"] = f'{row}{body}<p class="evening-on at-the-end">{on}</p>'


def list_in_sidebars(app: Sphinx, error: Exception | None) -> None:
    """The evening above the other parts; it stands open on its own chapters, and is what the sidebar then shows."""
    if error or app.builder.name != "html":
        return
    for path in Path(app.outdir).glob("*.html"):
        text, items = path.read_text(encoding="utf-8"), ""
        for name in app.config.evening:
            here = (" current active", "#") if name == path.stem else ("", f"{name}.html")
            title, spent = escape(app.env.titles[name].astext()), minutes(name)
            link = f'<a class="reference internal" href="{here[1]}">{title} <small>{spent} min</small></a>'
            items += f'<li class="toctree-l1{here[0]}">{link}</li>'
        if path.stem in app.config.evening:
            text = text.replace('<li class="toctree-l1 current active">', '<li class="toctree-l1 current">')
        opened = " open" * (path.stem in app.config.evening)
        group = (
            f'<details class="evening"{opened}><summary>One evening</summary><ol class="nav bd-sidenav">{items}</ol>'
        )
        path.write_text(SIDEBAR.sub(rf"\1{group}</details>", text, count=1), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("evening", [], "env")
    app.add_directive("evening", Evening)
    app.connect("html-page-context", lead_on, priority=800)  # below the map of the paper
    app.connect("build-finished", list_in_sidebars)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
