"""What a message means: `book/messages.yml` has every message of the package once, and tests assert it by its id."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.messages import ENTRIES

ROOT = Path(__file__).resolve().parents[1]
ADVICE = re.compile(r"choose|start|add |delete|convert|save|install|resume with")  # a message that says what to do


def templates(node: ast.expr, function: ast.AST) -> list[str]:
    """What may be the message of an exception: a text, one of two, one that has a name, or somebody else's."""
    if isinstance(node, ast.IfExp):
        return templates(node.body, function) + templates(node.orelse, function)
    if isinstance(node, ast.Name):
        values = (one.value for one in ast.walk(function) if isinstance(one, ast.Assign) and node.id in names(one))
        return [found for value in values for found in templates(value, function)]
    if isinstance(node, ast.JoinedStr):
        return ["".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)]
    return [node.value if isinstance(node, ast.Constant) else "{}"]


def names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def raised() -> set[tuple[str, str]]:
    """The module and the template of every InputError that the package raises."""
    found = set()
    for path in (ROOT / "annotated").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT / "annotated").with_suffix("").parts).removesuffix(".__init__")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                errors = [one.exc for one in ast.walk(function) if isinstance(one, ast.Raise)]
                calls = [one for one in errors if isinstance(one, ast.Call) and "InputError" in names(one.func)]
                found |= {(module, text) for call in calls for text in templates(call.args[0], function)}
    return found


def test_every_message_is_there_once():
    listed = [(entry["module"], re.sub(r"\{.*?\}", "{}", entry["message"])) for entry in ENTRIES]
    found = raised()
    assert len(set(listed)) == len(listed)
    assert found - set(listed) == set(), "messages of the code that book/messages.yml lacks"
    assert set(listed) - found == set(), "messages of book/messages.yml that no code raises"


def test_every_message_has_a_name_and_is_asserted_by_it():
    ids = [entry["id"] for entry in ENTRIES]
    assert len(set(ids)) == len(ids)
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_*.py"))
    assert set(ids) - set(re.findall(r"(?:message|refused)\(\s*[\"']([a-z0-9-]+)", tests)) == set()


def test_every_message_says_what_to_do_or_has_it_beside_it():
    assert [entry["message"] for entry in ENTRIES if not entry["todo"] and not ADVICE.search(entry["message"])] == []
    assert [entry["todo"] for entry in ENTRIES if entry["todo"] and not entry["todo"].endswith(".")] == []
