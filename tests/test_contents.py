"""The table of contents: parts, workshops, and which chapter leads to which: tools/contents.py."""

from fnmatch import fnmatchcase

from tools import ROOT
from tools.contents import in_order, parts_of, workshops

TOC = """
root: index
parts:
  - caption: Results
    chapters: [glob: "[6-8][0-9]_*", file: 30_named]
  - caption: Workshops
    chapters: [file: 20_rival, glob: "[89][0-9]_*"]
  - caption: Appendices
    chapters: [file: notation]
"""
CHAPTERS = ["90_tools", "20_rival", "30_named", "40_in_no_part", "81_results"]


def test_workshops_stand_under_their_caption_and_come_last(tmp_path):
    (tmp_path / "_toc.yml").write_text(TOC)
    assert workshops(CHAPTERS, tmp_path) == {"20_rival", "90_tools"}, "81 is found by an earlier part"
    assert in_order(CHAPTERS, tmp_path) == ["30_named", "40_in_no_part", "81_results", "20_rival", "90_tools"]


def test_a_chapter_of_any_number_has_one_part_of_this_book():
    globs = [entry["glob"] for _, entries in parts_of(ROOT) for entry in entries if "glob" in entry]
    names = [f"{number:02}_any" for number in range(100)]
    assert {name: sum(fnmatchcase(name, glob) for glob in globs) for name in names} == dict.fromkeys(names, 1)
    assert workshops(names, ROOT) == {name for name in names if name[:2] in ("20", "50") or name > "81"}
