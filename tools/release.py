"""Whether everything is ready for a tag: `python -m tools.release v1.2.3` says what disagrees with it.

A version stands in three files, and its date in two. CHANGELOG.md has a section for it, `## 1.2.3 - 2030-01-31` and the
lines below; `--notes` prints these. `.github/workflows/release.yml` asks before anything is installed, so this needs
the standard library alone. RELEASING.md has the steps.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tools import ROOT

NUMBER = r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?"
PLACES = {  # a file, and what stands before and behind the version
    "pyproject.toml": r'(?m)^version = "(.*)"$',
    "CITATION.cff": r"(?m)^version: (.*)$",
    "annotated/__init__.py": r'(?m)^__version__ = "(.*)"$',
}
CHANGES = "CHANGELOG.md"


def section_of(changes: str, version: str) -> tuple[str, str] | None:
    """The date and the text of a version's section in the changelog; None where it has none."""
    match = re.search(rf"(?ms)^## {re.escape(version)} - (\d{{4}}-\d\d-\d\d)$\n(.*?)(?=^## |\Z)", changes)
    return (match[1], match[2].strip()) if match else None


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """What disagrees with a tag, a line each."""
    version = tag.removeprefix("v")
    if not tag.startswith("v") or not re.fullmatch(NUMBER, version):
        return [f"{tag}: not a tag of a release: write it as v1.2.3, or v1.2.3rc1 before one"]
    found = []
    texts = {name: (root / name).read_text(encoding="utf-8") for name in (*PLACES, CHANGES)}
    for name, pattern in PLACES.items():
        there = re.findall(pattern, texts[name])
        if there != [version]:
            found.append(f"{name}: has version {' and '.join(there) or 'none'}, and the tag says {version}")
    date = re.search(r"(?m)^date-released: (.*)$", texts["CITATION.cff"])
    section = section_of(texts[CHANGES], version)
    if section is None or not section[1]:
        found.append(f"{CHANGES}: no section for it: begin one with `## {version} - YEAR-MONTH-DAY`")
    elif date is None or date[1] != section[0]:
        found.append(f"CITATION.cff: released {date[1] if date else 'on no date'}, and {CHANGES} says {section[0]}")
    return found


def main(arguments: list[str], root: Path = ROOT) -> int:
    about = "Whether all places of the version, and the changelog, agree with a tag."
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=about)
    parser.add_argument("tag", help="as v1.2.3")
    parser.add_argument("--notes", action="store_true", help="print the changelog's section for it")
    options = parser.parse_args(arguments)
    if found := problems(options.tag, root):
        print("\n".join(f"release: {line}" for line in found), file=sys.stderr)
        return 1
    section = section_of((root / CHANGES).read_text(encoding="utf-8"), options.tag.removeprefix("v"))
    print(section[1] if options.notes else f"{options.tag}: all places agree, released {section[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
