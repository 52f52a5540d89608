"""A page's text as plain Markdown, which reads the same in Colab, VS Code and JupyterLab.

The site's parser finds MyST's directives and roles, which these programs show as they are in the source. They become:

| exercise | *Exercise 1* in bold, numbered as on the page |
| --- | --- |
| dropdown, a solution among them | `<details>`, with its title as the summary |
| admonition | a quote, with its title in bold |
| widget | its picture, its caption, and that it can be touched on the book's page |
| container, figure, `{chapters}`, `{evening}` | what is inside, the picture, the table, the list |
| literalinclude | the function or class that it quotes from the package, as code |
| cell, claim | a link to the cell, a link to the claim's row on the site |
| citation, other roles | authors and year with a link to the work, their text |
| link to a page that is no notebook | a link to the site |
| label of an equation, macro | `\\tag`, what the macro stands for |

Where the site's address is not known, a link's words stay without the link. What is not known here is refused, so that
nothing is lost in silence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from html import escape
from pathlib import Path
from textwrap import dedent
from urllib.parse import urlsplit

import yaml
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser
from pybtex.database import Entry, parse_file
from pybtex.richtext import Text

from tools import ROOT
from tools.contents import chapter_table
from tools.evening import listed

OPTION, OPTIONS = re.compile(r":([\w-]+):[ \t]*(.*)"), re.compile(r"(?::[\w-]+:.*\n)*")


@cache
def settings(root: Path) -> tuple[MarkdownIt, dict[str, str], dict[str, Entry]]:
    """The site's parser, the macros of its formulas, and the works that it cites."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    extensions = set(config["parse"]["myst_enable_extensions"])
    parser = create_md_parser(MdParserConfig(enable_extensions=extensions), RendererHTML)
    works = parse_file(str(root / "book" / "references.bib")).entries
    return parser, config["sphinx"]["config"].get("typeset_macros", {}), works


class Page:
    """Translates the texts of one page in their order.

    `site` is the address of the rendered book, or empty. `cell` stands before the id in a link to a cell, in JupyterLab
    `#cell-id=`, in Colab `#scrollTo=`. `pictures` says that the book's pictures lie beside the copy.
    """

    def __init__(self, name: str, site: str = "", cell: str = "#cell-id=", pictures: bool = True, root: Path = ROOT):
        self.name, self.cell, self.pictures, self.root = name, cell, pictures, root
        self.site, self.exercises = site.rstrip("/"), 0
        self.parser, self.macros, self.works = settings(root)

    def text(self, source: str) -> str:
        """The text as plain Markdown. Raises ValueError where there is something that this module does not know."""
        lines: list[str | None] = list(source.split("\n"))
        span = [0, 0]
        for token in self.parser.parse(source):
            start, end = span = token.map or span
            new = None
            if token.type == "colon_fence" or (token.type == "fence" and token.info.startswith("{")):
                new = self.directive(token)
            elif token.type in ("myst_target", "myst_line_comment", "myst_block_break"):
                new = ""
            elif token.type == "math_block_label":
                new = f"$${self.formula(token.content)}\\tag{{{token.info}}}$$"
            for part in [token, *(token.children or [])]:
                self.inline(part, lines, span)
            if new is not None:
                if new:  # a block needs blank lines around it
                    before, after = start > 0 and lines[start - 1] != "", end < len(lines) and lines[end] != ""
                    new = "\n" * before + new + "\n" * after
                lines[start:end] = [new or None, *[None] * (end - start - 1)]
        return "\n".join(line for line in lines if line is not None).strip("\n")

    def inline(self, part: Token, lines: list[str | None], span: list[int]) -> None:
        """Replace one part of a line where plain Markdown has no such thing, or another address for it."""
        if part.type == "myst_role":
            swap(lines, span, f"{{{part.meta['name']}}}`{part.content}`", self.role(part.meta["name"], part.content))
        elif part.type in ("math_block", "math_inline", "math_inline_double"):
            swap(lines, span, part.content, self.formula(part.content))
        elif part.type in ("html_block", "html_inline"):
            swap(lines, span, part.content.rstrip("\n"), self.html(part.content.rstrip("\n")))
        elif part.type == "link_open" and (href := part.attrs["href"]) != (goal := self.goal(href)):
            old = re.compile(rf"\[((?:[^\[\]]|\[[^\]]*\])*)\]\({re.escape(href)}\)")
            swap(lines, span, old, lambda match: linked(match[1], goal))
        elif part.type == "image":
            src = part.attrs["src"]
            swap(lines, span, f"![{part.content}]({src})", self.picture(part.content, src))

    def directive(self, token: Token) -> str:
        """A block `:::{name} argument`, with what is inside. Raises ValueError for a name that is not known here."""
        if token.level:
            raise ValueError(f"{self.name}: a directive inside a list or a quote: {token.info}")
        name, argument = (part.strip() for part in token.info.lstrip("{ ").split("}", 1))
        head = OPTIONS.match(token.content)[0]
        content, options = self.text(token.content[len(head) :]), dict(OPTION.findall(head))
        match name:
            case "exercise":
                self.exercises += 1
                return f"**Exercise {self.exercises}**\n\n{content}"
            case "dropdown":
                summary = escape(self.text(argument), quote=False)
                return f"<details>\n<summary>{summary}</summary>\n\n{content}\n\n</details>"
            case "admonition":
                box = f"**{self.text(argument)}**\n\n{content}"
                return "\n".join(f"> {line}".rstrip() for line in box.split("\n"))
            case "widget":
                name = "picture" if argument.startswith("picture-") else argument  # of which there are several
                picture = self.picture(options["alt"], f"figures/widgets/{name}.webp")
                page = linked("the book's page", self.on_site(f"{self.name}.html#widget-{argument}"))
                return f"{picture}\n\n*On {page} this picture can be touched.* {content}"
            case "figure":
                return f"{self.picture(options.get('alt', ''), argument)}\n\n{content}"
            case "container":
                return content.replace("\n", " ·\n") if argument == "buttons" else content
            case "chapters":
                return chapter_table(self.root)
            case "evening":
                return listed(self.root)
            case "repository":  # a copy is read beside it, or was opened from it
                return ""
            case "literalinclude":
                code = quoted((self.root / "book" / argument).read_text(encoding="utf-8"), options["pyobject"])
                return f"`{options['caption'].strip('`')}`\n\n```python\n{code}\n```"
        raise ValueError(f"{self.name}: what {{{name}}} is in plain Markdown, tools/plain_markdown.py does not know")

    def role(self, name: str, content: str) -> str:
        """What a role says, with a link where one leads somewhere."""
        if name == "cell":
            chapter, _, cell = content.partition("#")
            words = re.sub("-(text|reading|words)$", "", cell).replace("-", " ")  # as on the site: _ext/ledger.py
            return f"[chapter {chapter[:2]}, {words}]({chapter}.ipynb{self.cell}{cell})"
        if name == "claim":
            return linked(content, self.on_site(f"ledger.html#claim-{content.replace('.', '-')}"))
        if name in ("cite:p", "cite:t"):
            works = [self.citation(key.strip(), textual=name == "cite:t") for key in content.split(",")]
            return ", ".join(works) if name == "cite:t" else f"[{'; '.join(works)}]"
        return re.sub(r"\s*<[^<>]*>$", "", content)

    def citation(self, key: str, textual: bool) -> str:
        """Authors and year, with a link to the work, or else to the site's bibliography."""
        work = self.works[key]
        names = [str(Text.from_latex(" ".join(one.prelast_names + one.last_names))) for one in work.persons["author"]]
        who = " and ".join(names) if len(names) < 3 and names[-1] != "others" else f"{names[0]} et al."
        arxiv = work.fields.get("eprint") or next(iter(re.findall(r"arXiv:(\S+)", work.fields.get("journal", ""))), "")
        doi = work.fields.get("doi")
        elsewhere = f"https://doi.org/{doi}" if doi else self.on_site("bibliography.html")
        words = f"{who} ({work.fields['year']})" if textual else f"{who}, {work.fields['year']}"
        return linked(words, f"https://arxiv.org/abs/{arxiv}" if arxiv else elsewhere)

    def goal(self, href: str) -> str:
        """Where a link leads from a copy: to other notebooks as it is, to other pages on the site, or nowhere."""
        path = urlsplit(href).path
        if urlsplit(href).scheme or not path or path.endswith(".ipynb"):
            return href
        return self.on_site(re.sub(r"\.md(?=#|$)", ".html", href))

    def on_site(self, path: str) -> str:
        return f"{self.site}/{path}" if self.site else ""

    def html(self, source: str) -> str:
        """HTML whose links lead to the site, or nowhere."""
        found = re.search(r'(?<=<a) href="([^"]*)"', source)
        goal = found and self.goal(found[1])
        return source.replace(found[0], f' href="{goal}"' if goal else "") if found else source

    def picture(self, alt: str, path: str) -> str:
        """A picture of the book, or what it shows where it cannot be reached."""
        folder = "_static/stills" if path.startswith("figures/widgets/") else "_images"
        there = path if self.pictures or "://" in path else self.on_site(f"{folder}/{Path(path).name}")
        return f"![{alt}]({there})" if there else f"*The picture shows: {alt}*"

    def formula(self, tex: str) -> str:
        """Without macros, and in one line: in a quote, Jupyter would take the next line's `>` as part of a formula."""
        tex = " ".join(tex.split("\n"))
        for name, meaning in self.macros.items():
            tex = re.sub(rf"\\{name}(?![A-Za-z])", lambda _, meaning=meaning: meaning, tex)
        return tex


def quoted(source: str, name: str) -> str:
    """The function, class or `Class.method` of this name as it stands in the source. Raises ValueError for another."""
    there, kinds = ast.parse(source), (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for part in name.split("."):
        there = next((node for node in there.body if isinstance(node, kinds) and node.name == part), None)
        if there is None:
            raise ValueError(f"{name} is not in the file that it is to be quoted from")
    start = min([there.lineno, *(decorator.lineno for decorator in there.decorator_list)])
    return dedent("\n".join(source.splitlines()[start - 1 : there.end_lineno]))


def swap(lines: list[str | None], span: list[int], old: str | re.Pattern, new: str | Callable) -> None:
    """Replace the first `old` in these lines. Raises ValueError where it is not found as it was read."""
    if old == new:
        return
    start, end = span
    there = "\n".join(line for line in lines[start:end] if line is not None)
    pattern = old if isinstance(old, re.Pattern) else re.compile(re.escape(old))
    changed, count = pattern.subn(new if callable(new) else lambda _: new, there, count=1)
    if not count:
        raise ValueError(f"{pattern.pattern} is not in: {there}")
    lines[start:end] = [changed, *[None] * (end - start - 1)]


def linked(words: str, goal: str) -> str:
    return f"[{words}]({goal})" if goal else words
