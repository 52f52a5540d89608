"""Of the theme's style sheets only the rules that a page or a script can use: some 75 KB compressed become 25.

PurgeCSS (from npm) keeps a rule when every name in its selector occurs in some page or script.
"""

import subprocess
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[2]
PURGE = ROOT / "node_modules" / ".bin" / "purgecss"
SHEETS = ("styles/pydata-sphinx-theme.css", "styles/sphinx-book-theme.css", "sphinx-design.min.css", "mystnb.*.css")


def purge(app: Sphinx, error: Exception | None) -> None:
    """Write the style sheets of others anew. Raises ExtensionError where PurgeCSS cannot."""
    if error or app.builder.name != "html":
        return
    if not PURGE.is_file():
        raise ExtensionError("node_modules/purgecss is missing: run `make env`")
    static = Path(app.outdir) / "_static"
    for sheet in (path for pattern in SHEETS for path in static.glob(pattern)):
        content = [f"{app.outdir}/*.html", f"{static}/**/*.js"]
        command = [PURGE, "--css", sheet, "--content", *content, "--output", sheet]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ExtensionError(f"PurgeCSS failed on {sheet.name}: {done.stderr.strip()}")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", purge, priority=900)  # when icons and pages are as they will be
    return {"parallel_read_safe": True, "parallel_write_safe": True}
