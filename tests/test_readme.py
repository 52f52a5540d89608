"""README.md says what the records say; what it and CONTRIBUTING.md name exists."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
import torch

import annotated
from tools.readme import measured, written

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def program_of(heading: str) -> str:
    """The lines of Python below a heading."""
    (found,) = re.findall(rf"## {heading}\n.*?```python\n(.*?)```", TEXT, re.DOTALL)
    return found


def test_the_numbers_are_those_of_the_records():
    assert written(TEXT, ROOT) == TEXT, "run python -m tools.readme"


@pytest.mark.slow
def test_a_changed_number_is_put_right():
    table = measured(ROOT)
    number = re.search(r"\d+\.\d", table)[0]
    assert written(TEXT.replace(number, "99.9", 1), ROOT) == TEXT


@pytest.mark.slow
def test_its_lines_train_on_integers(tmp_path, monkeypatch, capsys):
    """Exactly these lines: they end with the same right answer twice, and with as much on pairs not trained on."""
    program = program_of("Train on your own integers")
    assert len(program.splitlines()) <= 15
    monkeypatch.chdir(tmp_path)
    random.seed(0)
    torch.manual_seed(0)
    names: dict = {}
    exec(program, names)
    wanted = re.search(r"# (\[.*\])", program)[1]
    assert capsys.readouterr().out == f"{wanted}\n{wanted}\n"
    sources, targets = zip(*names["pairs"][:100], strict=True)
    found = annotated.greedy_search(names["model"], torch.tensor(sources))
    assert sum(one.tokens == target for (one,), target in zip(found, targets, strict=True)) >= 95
    assert not list(tmp_path.rglob("tokenizer*"))


@pytest.mark.slow
def test_its_loop_learns_to_stop(capsys):
    """E1: by nothing but `encode`, `make_batch` and PyTorch; dates that it was shown come out whole."""
    torch.manual_seed(0)
    names: dict = {}
    exec(program_of("A loop of your own"), names)
    assert capsys.readouterr().out == "['1999-03-12']\n"
    sources, targets = zip(*names["texts"][:100], strict=True)
    found = annotated.Translator(names["model"], names["tokenizer"]).translate(sources)
    assert sum(one == target for one, target in zip(found, targets, strict=True)) >= 95


def test_its_first_lines_run():
    names: dict = {}
    exec(program_of("In Python").replace(".base(vocab_size=37_000)", "(100, 16, 32, 2, 1)"), names)
    translator, source = names["translator"], [names["source"]]
    assert translator.translate(source, prefixes=["Die Ti"])[0].startswith("Die Ti")
    assert len(translator.score(source, ["Das Tier war zu müde."])[0]) > 3


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_files_and_commands_that_it_names_exist(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for path in re.findall(r"\]\((?!https?:)([^)#]+)\)|`((?:book|data|tests|tools|benchmarks)/[a-z\d_/.]+)`", text):
        assert (ROOT / "".join(path)).exists(), path
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for target in re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE):
        assert target in targets, target
    for module in re.findall(r"python -m (tools\.\w+)", text):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), module
    parts = (ROOT / "benchmarks" / "__main__.py").read_text(encoding="utf-8")
    for part in re.findall(r"python -m benchmarks (\w+)", text):
        assert f'"{part}"' in parts, part
