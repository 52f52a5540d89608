"""The commands' names and texts, which need no PyTorch: module commands, chapter 91."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from annotated import __main__
from annotated.command import cli
from annotated.command.commands import COMMANDS, READERS, answer
from tools import limits

ROOT = Path(__file__).resolve().parents[1]


def test_every_command_has_its_texts_its_options_and_its_work():
    """The list of all commands says of each what its function says of itself."""
    assert [*COMMANDS] == [*cli.OPTIONS] == [*cli.RUN]
    for name, (_, _, line) in COMMANDS.items():
        assert line == cli.RUN[name].__doc__.splitlines()[0]
    assert [*READERS] == [*cli.FORMATS]


@pytest.mark.slow
@pytest.mark.parametrize("line", ["--help", "-h", "--version", "", "fly", "--fly x"])
def test_what_names_no_command_is_answered_without_pytorch(line, capsys):
    """In the same words as by the whole command, and with its exit status."""
    program = "import sys; from annotated.__main__ import main; status = main(); "
    program += "print('torch' in sys.modules, status, file=sys.stderr)"
    pipes = {"capture_output": True, "text": True, "timeout": limits.PROCESS, "cwd": ROOT}
    done = subprocess.run([sys.executable, "-c", program, *line.split()], **pipes)
    status = cli.main(line.split())
    said = capsys.readouterr()
    assert (done.stdout, done.stderr) == (said.out, f"{said.err}False {status}\n")


def test_ctrl_c_while_pytorch_is_loaded_is_one_line(monkeypatch, capsys):
    class Interrupted(ModuleType):
        def __getattr__(self, name: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "annotated.command.cli", Interrupted("annotated.command.cli"))
    monkeypatch.setattr(sys, "argv", ["annotated", "info"])
    assert __main__.main() == 130
    assert capsys.readouterr() == ("", "annotated: interrupted\n")


def test_a_command_is_left_to_those_who_know_its_options(capsys):
    assert [answer(["train"]), answer(["--version", "train"]), answer(["info", "--help"])] == [None] * 3
    assert capsys.readouterr() == ("", "")
