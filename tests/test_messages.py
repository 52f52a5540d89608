"""What a message means: `book/messages.yml` has every message of the package once, and a test of its words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
MESSAGES = yaml.safe_load((ROOT / "book" / "messages.yml").read_text(encoding="utf-8"))["messages"]
ADVICE = re.compile(r"choose|start|add |delete|convert|save|install|resume with")  # a message that says what to do


def texts(node: ast.AST) -> Iterator[str]:
    """The strings in some code but docstrings, with {} for what an f-string fills in."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        for part in ast.iter_child_nodes(node):
            yield from texts(part)


def templates(node: ast.expr, function: ast.AST) -> list[str]:
    """What may be the message of an exception: a text, one of two, one that has a name, or somebody else's."""
    if isinstance(node, ast.IfExp):
        return templates(node.body, function) + templates(node.orelse, function)
    if isinstance(node, ast.Name):
        values = (one.value for one in ast.walk(function) if isinstance(one, ast.Assign) and node.id in names(one))
        return [found for value in values for found in templates(value, function)]
    return list(texts(node)) if isinstance(node, ast.JoinedStr | ast.Constant) else ["{}"]


def names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def raised() -> set[tuple[str, str]]:
    """The module and the template of every InputError that the package raises."""
    found = set()
    for path in (ROOT / "annotated").glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                errors = [one.exc for one in ast.walk(function) if isinstance(one, ast.Raise)]
                calls = [one for one in errors if isinstance(one, ast.Call) and "InputError" in names(one.func)]
                found |= {(path.stem, text) for call in calls for text in templates(call.args[0], function)}
    return found


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.replace("\\", " "))


def pieces(message: str) -> list[list[str]]:
    return [words(piece) for piece in re.split(r"\{.*?\}", message)]


def threes(message: str) -> set[str]:
    """Each three words that follow each other in a message, without what is filled in."""
    return {" ".join(piece[i : i + 3]) for piece in pieces(message) for i in range(len(piece) - 2)}


@cache
def module(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


def asserted(test: str) -> list[str]:
    """The strings of a test, and of the tables of cases at the top of its file that it uses."""
    file, _, name = test.partition("::")
    function = next((one for one in module(file).body if isinstance(one, ast.FunctionDef) and one.name == name), None)
    assert function, f"there is no {test}"
    used = [one for one in module(file).body if isinstance(one, ast.Assign) and names(one.targets[0]) & names(function)]
    return [" ".join(words(text)) for part in (function, *used) for text in texts(part)]


def test_every_message_is_there_once():
    listed = [(entry["module"], re.sub(r"\{.*?\}", "{}", entry["message"])) for entry in MESSAGES]
    found = raised()
    assert len(set(listed)) == len(listed)
    assert found - set(listed) == set(), "messages of the code that book/messages.yml lacks"
    assert set(listed) - found == set(), "messages of book/messages.yml that no code raises"


@pytest.mark.parametrize("entry", MESSAGES, ids=lambda entry: entry["module"])
def test_a_message_says_what_to_do_and_has_a_test(entry):
    """The test has three words of it that follow each other, and that no other message of the module has, if it can.

    Of a message in shorter pieces it has all words, in their order; one that hands on another's words has none itself.
    """
    message, siblings = entry["message"], [other["message"] for other in MESSAGES if other["module"] == entry["module"]]
    assert ADVICE.search(message) if entry["todo"] == "" else entry["todo"].endswith("."), f"{message}: what then?"
    others = {three for other in siblings if other != message for three in threes(other)}
    short = ".*".join(" ".join(piece) for piece in pieces(message) if piece)
    wanted = threes(message) - others or threes(message) or {short}
    found = [text for text in asserted(entry["test"]) if any(re.search(rf"\b{one}\b", text) for one in wanted)]
    assert found, f"{entry['test']} does not assert {message!r}"
