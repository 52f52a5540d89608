"""Cells that run in the page: what `web/python/` needs beside its scripts, in `_static/python/`.

On the pages of PAGES each open code cell gets the class `runs`, for which `book.js` loads `python/button.js`. A file
`<page>.json` describes the page's cells, the sentences that its model translates, and the parts of a Python: Pyodide
from npm, the sources that the cells import, and the files that they read. Python's library, and what the page has in
PyTorch's place, come compiled. Large parts are compressed here, so that any static host serves them small; an address
names what is in its file, so that a browser can keep it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import inspect
import io
import json
import re
import subprocess
import sys
import zipfile
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import nbformat
import yaml
from annotated_book import DIRECTIVE
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "book" / "web"
PYODIDE = ROOT / "node_modules" / "pyodide"
MODEL = "data/models/embedded"
PAGES = (
    "00_whole", "31_stacks", "32_attention", "33_feed_forward", "34_embeddings", "35_positional_encoding",
    "39_transformer",
)  # fmt: skip
STATIONS = "84_build_it_yourself"  # whose stations are written in the page
ASIDE = {"hide-input", "hide-cell", "remove-cell", "remove-input", "case"}  # cells that run where one below needs them
LEFT_OUT = {"command", "doctor", "formats"}  # folders of the package that no cell of these pages imports
NOT_IN_THE_PAGE = re.compile(
    r"(_aix_support|_android_support|_apple_support|_ios_support|_osx_support|_pyio|_pyrepl|antigravity"
    r"|bdb|cgi|cmd|code|compileall|configparser|cProfile|ctypes|curses|dbm|doctest|filecmp|fileinput|ftplib|getpass"
    r"|imaplib|mailbox|mimetypes|modulefinder|netrc|optparse|pdb|pickletools|plistlib"
    r"|poplib|profile|pty|py_compile|pyclbr|pydoc|pydoc_data|quopri|rlcompleter|runpy|sched|shelve|site-packages|smtplib"
    r"|socketserver|sqlite3|stringprep|tabnanny|tarfile|this|trace|tty|unittest|uuid|wave|webbrowser|wsgiref|xml"
    r"|xmlrpc|zipapp|zoneinfo|__phello__|encodings/(?!(__init__|aliases|ascii|cp437|latin_1|\w*unicode_escape|utf_\w+)\b)"
    r"\w+)\b"
)  # modules of Python's library that no cell needs
IMPORT = re.compile(r'\bfrom\s*"(\.[^"]+)"')
READS = re.compile(r'"(?:\.\./)?((?:data|figures|annotated)/[^"{]*)')
LIKE_THE_TWINS = re.compile(r"The \w+ did not \w+ the \w+ because it was too \w+\.")
SENTENCES = 10  # the twins, and eight like them
HEAD = (
    '<script>if (location.protocol != "file:" && window.Worker && window.WebAssembly && window.CompressionStream)'
    ' document.documentElement.dataset.runs = "";</script>'
)


class MarkCells(SphinxTransform):
    """Open cells of the pages that can run get the class `runs`, and the changes that are prepared for them."""

    default_priority = 390

    def apply(self, **_: object) -> None:
        page = self.env.docname
        if page not in PAGES:
            return
        names = [cell.id for cell in notebook(page).cells]
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") == "cell_code" and not cell.get("hide_mode"):
                cell["classes"].append("runs")
                prepared = [one["name"] for one in changes(page) if one["cell"] == names[cell["cell_index"]]]
                if prepared:
                    cell += nodes.raw("", offers(prepared), format="html")


def offers(names: list[str]) -> str:
    """Buttons for prepared changes of a cell."""
    buttons = (
        f'<button type="button" data-change="{place}">{escape(name)}</button>' for place, name in enumerate(names)
    )
    return f'<p class="run-offers">Change it, after a guess: {" ".join(buttons)}</p>'


def head(app: Sphinx, page: str, template: str, context: dict, document: nodes.document | None) -> None:
    """The style of cells that run, and room for their buttons, on their pages alone."""
    if page in (*PAGES, STATIONS) and app.builder.name == "html":
        app.add_css_file("python/python.css")
        context["metatags"] = context.get("metatags", "") + HEAD


def notebook(page: str) -> nbformat.NotebookNode:
    """A page's notebook, as it stands in `book/`."""
    return nbformat.read(ROOT / "book" / f"{page}.ipynb", as_version=4)


def cells_of(page: str) -> tuple[list[dict[str, Any]], str]:
    """A page's code cells, without directives, and all their code."""
    whole, cells = notebook(page), []
    for cell in whole.cells:
        if cell.cell_type == "code":
            directive = DIRECTIVE.match(cell.source)
            module = directive and (directive[1] or whole.metadata["annotated"]["module"])
            source = cell.source[directive.end() :] if directive else cell.source
            cells.append(
                {
                    "id": cell.id,
                    "source": source,
                    "open": not ASIDE & set(cell.metadata.get("tags", [])),
                    "module": module,
                }
            )
    return cells, "\n".join(cell["source"] for cell in cells)


def files_read(code: str) -> list[Path]:
    """The files that cells name, each folder that they name with all its files; without the model's own."""
    found = set()
    for name in READS.findall(code):
        path = ROOT / "book" / name if name.startswith("figures") else ROOT / name
        found |= set(path.rglob("*")) if path.is_dir() else {path}
    return sorted(path for path in found if path.is_file() and ROOT / MODEL not in path.parents)


def texts_read(code: str) -> dict[str, str]:
    """The same, by their path in the page's file system; YAML as JSON, which the page can read."""
    texts = {f"/book/{path.relative_to(ROOT)}": path.read_text(encoding="utf-8") for path in files_read(code)}
    return {
        name: json.dumps(yaml.safe_load(text), default=str) if name.endswith(".yml") else text
        for name, text in texts.items()
    }


def sources() -> dict[str, str]:
    """What a cell can import, by its path in the page's file system; some modules are the page's own."""
    found = {}
    for path in (ROOT / "annotated").rglob("*"):
        if path.suffix in (".py", ".toml", ".tsv") and not LEFT_OUT & set(path.parts):
            found[f"/book/{path.relative_to(ROOT)}"] = path
    found["/book/annotated/doctor/mistakes.py"] = ROOT / "annotated" / "doctor" / "mistakes.py"
    for path in (WEB / "python").glob("*.py"):
        found[f"/book/python/{path.name}"] = path
    for path in (WEB / "python" / "instead").rglob("*.py"):
        found[f"/book/{path.relative_to(WEB / 'python' / 'instead')}"] = path
    texts = {name: path.read_text(encoding="utf-8") for name, path in found.items()} | of_the_doctor()
    return dict(sorted(texts.items()))


def compiled(modules: dict[str, tuple[str, str]]) -> dict[str, bytes]:
    """The bytecode of modules, each a file of the page's file system and its text, by the page's Python."""
    command = ["node", str(Path(__file__).with_name("bytecode.mjs"))]
    done = subprocess.run(command, input=json.dumps(modules), stdout=subprocess.PIPE, text=True, encoding="utf-8")
    if done.returncode:
        raise ExtensionError("Python's library cannot be compiled for the page")
    return {name: base64.b64decode(code) for name, code in json.loads(done.stdout).items()}


@cache
def library() -> bytes:
    """Python's library, as far as cells may need it, and what stands in PyTorch's place: an archive of bytecode."""
    modules, others = {}, {}
    with zipfile.ZipFile(PYODIDE / "python_stdlib.zip") as archive:
        for name in archive.namelist():
            if NOT_IN_THE_PAGE.match(name) or name.endswith("/"):
                continue
            if name.endswith(".py"):
                modules[f"{name}c"] = f"/lib/python314.zip/{name}", archive.read(name).decode()
            else:
                others[name] = archive.read(name)
    for path in (WEB / "python" / "stand_ins").rglob("*.py"):
        place = path.relative_to(WEB / "python" / "stand_ins")
        modules[f"stand_ins/{place}c"] = f"/book/python/stand_ins/{place}", path.read_text(encoding="utf-8")
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:  # not compressed, since the whole is
        for name, content in sorted((others | compiled(modules)).items()):
            archive.writestr(zipfile.ZipInfo(name), content)
    return written.getvalue()


def of_the_doctor() -> dict[str, str]:
    """What the stations take of the doctor, cut from its sources: as a whole it needs all of PyTorch."""
    from annotated.doctor import asking, functions, subject

    parts = [subject.Verdict, subject.Broken, subject.StillRunning, subject.raised]
    checks = [(one.name, one.symptom) for one in asking.CHECKS]
    return {
        "/book/annotated/doctor/asking.py": "\n\n".join(
            [
                "import sysconfig\nimport traceback\nfrom collections import namedtuple\nfrom typing import NamedTuple",
                f"WRONG = {subject.WRONG!r}",
                'MINE = "/book/python", "/book/annotated"',
                'STANDARD = (sysconfig.get_path("stdlib"),)',
                *map(inspect.getsource, parts),
                f'CHECKS = [namedtuple("Check", "name symptom")(*one) for one in {checks!r}]\n',
            ]
        ),
        "/book/annotated/doctor/functions.py": "\n\n".join(
            [
                "import torch\nfrom torch import Tensor, nn\n\nfrom annotated.doctor.asking import Broken",
                inspect.getsource(functions.Scripted),
            ]
        ),
    }


def scripts() -> list[Path]:
    """The modules of the worker, each behind those that it imports."""
    found: list[Path] = []

    def visit(path: Path) -> None:
        if path not in found:
            for name in IMPORT.findall(path.read_text(encoding="utf-8")):
                visit((path.parent / name).resolve())
            found.append(path)

    visit((WEB / "python" / "worker.js").resolve())
    return found


def changes(page: str) -> list[dict[str, Any]]:
    """The changes that `changes.yml` prepares for a page's cells."""
    return yaml.safe_load((ROOT / "book" / "changes.yml").read_text(encoding="utf-8"))[page]


@cache
def sentences() -> list[tuple[str, str, float]]:
    """The twins and the next sentences of their construction, as the shipped model translates them, with the chance."""
    sys.path.append(str(WEB / "python"))
    from payoff import translations

    lines = (ROOT / "data" / "embedded" / "pronoun.tsv").read_text(encoding="utf-8").splitlines()
    like = [english for english in (line.split("\t")[0] for line in lines) if LIKE_THE_TWINS.fullmatch(english)]
    like = like[:SENTENCES]
    answers: list[list] = []
    error = translations({}, like, lambda kind, value: answers.append(json.loads(value)[1:]))
    if error:
        raise ExtensionError(f"the shipped model does not translate: {error}")
    return [(english, *answer) for english, answer in zip(like, answers, strict=True)]


class Parts:
    """The files of a Python, written once for all pages: `about` says what each is."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("pyodide.asm.wasm", "pyodide.asm.mjs", "pyodide.mjs", "python_stdlib.zip", "pyodide-lock.json"):
            if not (PYODIDE / name).is_file():
                raise ExtensionError(f"node_modules/pyodide/{name} is missing: run `make env`")
        lock = json.loads((PYODIDE / "pyodide-lock.json").read_text(encoding="utf-8")) | {"packages": {}}
        model = [f for f in sorted((ROOT / MODEL).iterdir()) if f.is_file()]
        self.shared = [
            self.packed("wasm", "pyodide.asm.wasm", (PYODIDE / "pyodide.asm.wasm").read_bytes()),
            self.packed("library", "python_stdlib.zip", library()),
            self.packed("lock", "pyodide-lock.json", json.dumps(lock).encode()),
            self.packed("script", "pyodide/pyodide.asm.mjs", plain_script("pyodide.asm.mjs")),
            self.packed("script", "pyodide/pyodide.mjs", plain_script("pyodide.mjs")),
            *(self.there("script", path.relative_to(WEB).as_posix(), path) for path in scripts()),
            *(self.there("file", f"/book/{MODEL}/{path.name}", path, f"models/embedded/{path.name}") for path in model),
            self.packed("texts", "sources.json", json.dumps(sources()).encode()),
        ]

    def packed(self, kind: str, name: str, content: bytes) -> dict[str, Any]:
        return self.written(kind, name, gzip.compress(content, 9, mtime=0), ".gz") | {"size": len(content)}

    def written(self, kind: str, name: str, content: bytes, ending: str = "") -> dict[str, Any]:
        file = f"{name.split('/')[-1]}{ending}"
        (self.folder / file).write_bytes(content)
        return about(kind, name, file, content)

    def there(self, kind: str, name: str, path: Path, place: str = "") -> dict[str, Any]:
        """A file that the site has anyway."""
        return about(kind, name, f"../{place or name}", path.read_bytes())

    def describe(self, page: str) -> dict[str, Any]:
        """All that the script of a page has to know."""
        cells, code = cells_of(page)
        read = self.packed("texts", f"{page}.files.json", json.dumps(texts_read(code)).encode())
        parts = [*self.shared, read]
        return {"cells": cells, "sentences": sentences(), "changes": changes(page), "parts": parts}


def about(kind: str, name: str, place: str, content: bytes) -> dict[str, Any]:
    """A file as the page's description has it: `bytes` come, and are `size` bytes when they are unpacked."""
    version = hashlib.sha256(content).hexdigest()[:12]
    return {"kind": kind, "name": name, "url": f"{place}?v={version}", "bytes": len(content), "size": len(content)}


def plain_script(name: str) -> bytes:
    """A script of Pyodide without the address of a map that is not there."""
    return re.sub(rb"\n//# sourceMappingURL=.*", b"", (PYODIDE / name).read_bytes())


def write(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.name != "html":
        return
    make(Path(app.outdir) / "_static")


def make(static: Path) -> None:
    """Write what the pages of PAGES need into `_static/python/`."""
    parts = Parts(static / "python")
    for page in PAGES:
        described = json.dumps(parts.describe(page), ensure_ascii=False)
        (static / "python" / f"{page}.json").write_text(described, encoding="utf-8")
    (static / "python" / f"{STATIONS}.json").write_text(json.dumps({"parts": parts.shared}), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(MarkCells)
    app.connect("html-page-context", head)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
