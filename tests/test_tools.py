"""Every tool says what it does, and refuses arguments that it does not know, before it does anything."""

import importlib
import re

import pytest

from tools import ROOT

PATHS = sorted((ROOT / "tools").glob("*.py"))
TOOLS = [path.stem for path in PATHS if '__name__ == "__main__"' in path.read_text(encoding="utf-8")]
COMMANDS = [*(f"tools.{name}" for name in TOOLS), "benchmarks.__main__"]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(("arguments", "status"), [(["--help"], 0), (["--nonsense"], 2)])
def test_a_tool_answers_and_refuses(name, arguments, status, capsys):
    with pytest.raises(SystemExit) as stopped:
        importlib.import_module(name).main(arguments)
    assert stopped.value.code == status
    said = capsys.readouterr()
    assert re.match(rf"usage: python -m {name.removesuffix('.__main__')}\b", said.err if status else said.out)
