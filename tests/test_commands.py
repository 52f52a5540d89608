"""The commands' names and texts, which need no PyTorch: module commands, chapter 91."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

from annotated import __main__
from annotated.command import cli
from annotated.command.commands import COMMANDS, READERS, answer
from tools import limits

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import sys
from annotated.__main__ import main
for line in {lines}:
    sys.argv[1:] = line.split()
    status = main()
    print(line, status, "torch" in sys.modules, file=sys.stderr)
"""


def test_every_command_has_its_texts_its_options_and_its_work():
    """The list of all commands says of each what its function says of itself."""
    assert [*COMMANDS] == [*cli.OPTIONS] == [*cli.RUN]
    for name, (_, _, line) in COMMANDS.items():
        assert line == cli.RUN[name].__doc__.splitlines()[0]
    assert [*READERS] == [*cli.FORMATS]


def test_what_names_no_command_is_answered_without_pytorch(capsys):
    """In the same words as by the whole command, and with its exit status."""
    lines = ["--help", "-h", "--version", "", "fly", "--fly x"]
    pipes = {"capture_output": True, "text": True, "timeout": limits.PROCESS, "cwd": ROOT}
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(lines=lines)], **pipes)
    for line in lines:
        status = cli.main(line.split())
        print(line, status, False, file=sys.stderr)
    assert capsys.readouterr() == (done.stdout, done.stderr)


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
