"""In chapters, too, nothing stays on the CPU: their cells run on the device that refuses to mix tensors.

A trained model is on the GPU if there is one. A cell that makes a tensor for it has to say where; without, it works on
the CPU and nowhere else.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
import torch
from matplotlib import pyplot as plt

import annotated
from annotated.text import corpora
from annotated.text.grammar.splits import embedded_split
from tests.device import strict_device

BOOK = Path(__file__).resolve().parents[1] / "book"
FEW = 6  # sentences of a split
NAMES = ((), ("auto",))  # with which chapters ask for the best device
LONG = {"figure-3-counted", "two-genders"}  # cells of chapter 80 that need more sentences than a few


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """What `best_device` finds; as on Apple's, there is no float64."""
    names = [module.name for module in pkgutil.walk_packages(annotated.__path__, "annotated.")]
    modules = [importlib.import_module(name) for name in names if name != "annotated.__main__"]  # so all are put back
    monkeypatch.chdir(BOOK)
    monkeypatch.syspath_prepend(BOOK)  # where a chapter's kernel finds schematics.py
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    plt.switch_backend("Agg")
    with strict_device(float64=False) as device:
        for module in modules:
            if hasattr(module, "best_device"):
                monkeypatch.setattr(
                    module, "best_device", lambda *name: device if name in NAMES else torch.device(*name)
                )
        yield device


def run_cells(chapter: str, left_out: set[str] = frozenset(), last: str = "", old: str = "", new: str = "") -> dict:
    """Run the code cells of a chapter but for some, with `new` in place of `old`, up to `last`; return their names."""
    cells = {cell.id: cell for cell in nbformat.read(BOOK / f"{chapter}.ipynb", as_version=4).cells}
    assert left_out | ({last} - {""}) <= cells.keys()
    assert any(old in cell.source for cell in cells.values())
    names = {"__name__": "__main__"}
    for id, cell in cells.items():
        if cell.cell_type == "code" and id not in left_out:
            exec(compile(cell.source.replace(old, new), f"{chapter}#{id}", "exec"), names)
        if id == last:
            break
    return names


@pytest.mark.slow
def test_models_trained_in_a_chapter(device: torch.device):
    names = run_cells(
        "35_positional_encoding", {"experiment-curves", "experiment-picture"}, old="range(300)", new="range(2)"
    )
    assert {weight.device for model in names["models"].values() for weight in model.parameters()} == {device}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a tensor is does not depend on how many sentences there are."""
    monkeypatch.setattr(corpora, "embedded_split", lambda *split: embedded_split(*split)[:FEW])


@pytest.mark.slow
def test_pretrained_models(device: torch.device, few: None):
    assert run_cells("90_pretrained")["source"].device == device


@pytest.mark.slow
def test_attention_maps_of_the_shipped_model(device: torch.device, few: None):
    names = run_cells("80_attention_visualizations", LONG, "words-right", "SENTENCES = 600", "SENTENCES = 20")
    assert {weight.device for weight in names["model"].parameters()} == {names["genders"].device} == {device}
