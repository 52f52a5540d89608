"""The faults that are drawn by lot: what may be changed, and where a fault is once its line has moved."""

from pathlib import Path

import pytest

from tools import mutants

CODE = '''def area(width, height, *, scale=2):
    """The width times the height."""
    assert width > 0
    if width < 1 and not height:
        return False
    print(width, scale=scale)
    return width * height
'''


def changed(text: str, finds) -> set[tuple[str, str]]:
    """Each operator and the line that it leaves."""
    found = set()
    for _, operator, begin, end, new in finds(text):
        first, last = mutants.lines_around(text, begin, end)
        found.add((operator, (text[first:begin] + new + text[end:last]).strip()))
    return found


def test_python_is_changed_in_one_place_and_assertions_stay():
    assert changed(CODE, mutants.python_sites) == {
        ("constant", "def area(width, height, *, scale=3):"),
        ("comparison", "if width <= 1 and not height:"),
        ("constant", "if width < 2 and not height:"),
        ("logic", "if width < 1 or not height:"),
        ("negation", "if width < 1 and height:"),
        ("condition", "if not (width < 1 and not height):"),
        ("constant", "return True"),
        ("keyword", "print(width)"),
        ("statement", "pass"),
        ("arithmetic", "return width / height"),
    }


@pytest.mark.parametrize(
    ("finds", "text", "lines"),
    [
        (mutants.script_sites, "if (a < 1) b = 'a < 1'; // a < 1", {"if (a <= 1)", "if (a < 2)"}),
        (mutants.number_sites, '{"a": 1.25, "b-9": 8}', {'{"a": 2.25, "b-9": 8}', '{"a": 1.25, "b-9": 9}'}),
        (mutants.word_sites, "dog\tHund\n", {"do\tHund", "dog\tHun"}),
    ],
)  # fmt: skip
def test_scripts_records_and_data(finds, text, lines):
    assert {line.split(" b =")[0] for _, line in changed(text, finds)} == lines


def test_a_fault_is_found_where_its_line_is_now(tmp_path: Path):
    """By its line and its function's name: in another place of the file, but not in another function."""
    place = tmp_path / "tools" / "export.py"
    place.parent.mkdir()
    line = "    return width * height\n"
    fault = {"kind": "exporter", "place": "tools/export.py", "name": "area", "operator": "arithmetic", "nth": 0}
    fault |= {"line": line, "changed": line.replace("*", "/")}
    place.write_text("# moved\n\n\n" + CODE)
    assert mutants.located(fault, tmp_path) == (
        "tools/export.py",
        "# moved\n\n\n" + CODE.replace("* height", "/ height"),
    )
    place.write_text(CODE.replace("area", "volume"))
    assert mutants.located(fault, tmp_path) is None
