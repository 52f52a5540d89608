"""Every tool says what it does, and refuses arguments that it does not know, before it does anything."""

import ast
import importlib
import re

import pytest

from tools import ROOT

SOURCES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tools").glob("*.py"))}
TOOLS = [
    name
    for name, text in SOURCES.items()
    if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in ast.parse(text).body)
]
COMMANDS = [*(f"tools.{name}" for name in TOOLS), "benchmarks.__main__"]


def test_every_tool_that_can_be_run_is_asked():
    can_run = {name for name, text in SOURCES.items() if '__name__ == "__main__"' in text}
    assert can_run == set(TOOLS)
    assert {"check", "export", "structure"} <= can_run


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(("arguments", "status"), [(["--help"], 0), (["--nonsense"], 2)])
def test_a_tool_answers_and_refuses(name, arguments, status, capsys):
    with pytest.raises(SystemExit) as stopped:
        importlib.import_module(name).main(arguments)
    assert stopped.value.code == status
    said = capsys.readouterr()
    assert re.match(rf"usage: python -m {name.removesuffix('.__main__')}\b", said.err if status else said.out)
