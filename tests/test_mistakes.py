"""Copies of mistakes (chapter 82): small edits of the plain file, told by their names, also in a stranger's model.

That each is caught by the check meant for it, and leaves the fingerprint that is stored, the chapter asserts.
"""

import ast
import re
from pathlib import Path

import pytest
import torch

from annotated import check, plain
from annotated.command.cli import main
from annotated.doctor.asking import CHECKS, WRONG
from annotated.doctor.mistakes import MISTAKES, hunt, planted
from annotated.doctor.reporting import known_fingerprints
from annotated.doctor.running import FUNCTIONS
from tests import afresh, strangers
from tests.planted_afresh import PLANTED

SMALL = {"d_model": 32, "d_ff": 48, "num_heads": 4, "num_layers": 2}


def test_every_mistake_is_a_small_edit_that_compiles():
    for one in MISTAKES:
        text = vars(planted(one.name))["source"]
        ast.parse(text)
        changed = set(text.splitlines()) - set(Path(plain.__file__).read_text(encoding="utf-8").splitlines())
        assert len(changed) <= 5, one.name
    models = [one.name for one in MISTAKES if one.part == "Transformer"]
    assert list(known_fingerprints()) == models
    assert len(models) >= 60
    assert {one.check for one in MISTAKES if one.part == "Transformer"} <= {"call", *(one.name for one in CHECKS)}


@pytest.mark.parametrize("name", ["scores not scaled", "softmax over the heads", "layers copied", "softmax twice"])
def test_a_mistake_is_called_by_its_name(name):
    report = check(planted(name).Transformer(40, **SMALL))
    assert report.causes[0] == name
    assert not report.ok
    assert f"likely: {name}" in str(report)
    assert name in report._repr_html_()


@pytest.mark.parametrize("one", [one for one in MISTAKES if one.part in FUNCTIONS], ids=lambda one: one.name)
def test_a_wrong_function_is_found(one):
    verdict = FUNCTIONS[one.part].ask(getattr(planted(one.name), one.part))
    assert (verdict.verdict, verdict.found) == (WRONG, one.check)


@pytest.mark.slow
def test_mistakes_in_a_strangers_model_are_called_by_their_names():
    """A file that was written from the paper alone, without sight of this one, and 24 mistakes in it."""
    text = Path(afresh.__file__).read_text(encoding="utf-8")
    sizes = {"d_model": 32, "n_heads": 4, "n_layers": 2, "d_ff": 48}
    assert check(afresh.Seq2Seq(40, **sizes)).ok
    first, named = [], []
    for name, *edit in PLANTED:
        changed = text
        for old, new in zip(*([one] if isinstance(one, str) else one for one in edit), strict=True):
            assert changed.count(old) == 1, name
            changed = changed.replace(old, new)
        space = {"__name__": "afresh"}
        exec(compile(changed, afresh.__file__, "exec"), space)
        torch.manual_seed(0)
        causes = check(space["Seq2Seq"](40, **sizes)).causes
        first += [name] * (causes[:1] == (name,))
        named += [name] * (name in causes)
    assert len(named) == 24
    assert len(first) >= 23


def test_a_hunt_is_a_file_that_runs_and_its_answers():
    """As many mistakes as are asked for, the lines that hold them, and nothing in the file that tells."""
    right = Path(plain.__file__).read_text(encoding="utf-8")
    for seed in range(30):
        text, answers = hunt(seed)
        assert hunt(seed) == (text, answers)
        assert "#" not in text
        names = re.findall(r"^(.*), in (?:Transformer|loss|learning_rate|translate)$", answers, re.MULTILINE)
        assert 1 <= len(names) <= 3
        assert answers.startswith(f"Hunt {seed}: {len(names)} ")
        space = {"__name__": "stranger"}
        exec(compile(text, "stranger.py", "exec"), space)
        assert callable(space["translate"])
        lines = text.splitlines()
        for numbers, told in re.findall(r"  line (.*)\n((?:    .*\n)*)", answers):
            shown = [line.strip() for line in told.splitlines()]
            assert shown == [lines[int(number) - 1].strip() for number in numbers.split(", ")]
        assert set(lines) - set(right.splitlines()), "nothing is wrong"
    for number in (1, 2, 3):
        assert hunt(7, number)[1].count(", in ") >= number


def test_two_mistakes_of_a_hunt_are_both_found():
    text, answers = hunt(3, 2)
    checks = {one.check for one in MISTAKES if f"\n{one.name}, in Transformer\n" in answers}
    space = {"__name__": "stranger"}
    exec(compile(text, "stranger.py", "exec"), space)
    found = {one.check for one in check(space["Transformer"](40, **SMALL)).findings if one.verdict == WRONG}
    assert checks
    assert checks <= found


def test_a_hunt_by_the_command(capsys):
    assert main(["hunt", "--seed", "5"]) == 0
    text = capsys.readouterr().out
    assert main(["hunt", "--seed", "5", "--answers"]) == 0
    assert (text, capsys.readouterr().out) == hunt(5)


IN_TORCH = {  # a mistake: what is replaced in tests/strangers.py
    "no causal mask": ('"tgt_mask": later, ', ""),
    "causal mask one too wide": (".triu(1)", ".triu(2)"),
    "no source mask": (', "src_key_padding_mask": padding, "memory_key_padding_mask": padding', ""),
    "padding mask not passed to the decoder": (', "memory_key_padding_mask": padding', ""),
    "embedding not scaled": ("self.table(ids) * math.sqrt(32)", "self.table(ids)"),
    "embedding scaled by the width": ("math.sqrt(32)", "32"),
    "no positions": (" + (places if self.batch_first else places[:, None])", ""),
    "positions multiplied": (" + (places if", " * (places if"),
    "softmax twice": ("**masks))", "**masks)).softmax(-1)"),
    "dropout alive in evaluation": ("return self.table(ids)", "return nn.functional.dropout(self.table(ids), 0.1)"),
    "layers copied": (
        "self.batch_first = batch_first",
        "self.batch_first = batch_first\n"
        "        self.inner.encoder.layers[1].load_state_dict(self.inner.encoder.layers[0].state_dict())",
    ),
    "one layer several times": (
        "self.batch_first = batch_first",
        "self.batch_first = batch_first\n        self.inner.encoder.layers[1] = self.inner.encoder.layers[0]",
    ),
}


def scaled_by(factor: float):
    def plant(model):
        for one in model.modules():
            if hasattr(one, "scaling"):
                one.scaling = factor

    return plant


def straight(model) -> None:
    for one in model.modules():
        if hasattr(one, "activation_fn"):
            one.activation_fn = torch.nn.Identity()


def twice(model) -> None:
    model.model.encoder.layers[1] = model.model.encoder.layers[0]


def copied(model) -> None:
    model.model.encoder.layers[1].load_state_dict(model.model.encoder.layers[0].state_dict())


IN_BART = {  # a mistake: how it gets into the model
    "scores not scaled": scaled_by(1.0),
    "scaled by the model's width": scaled_by(32**-0.5),
    "divided by d_k without the root": scaled_by(1 / 8),
    "multiplied by the root": scaled_by(8**0.5),
    "no ReLU": straight,
    "one layer several times": twice,
    "layers copied": copied,
}


@pytest.mark.slow
def test_mistakes_in_known_classes_are_called_by_their_names():
    text = Path(strangers.__file__).read_text(encoding="utf-8")
    first = []
    for name, (old, new) in IN_TORCH.items():
        assert text.count(old) >= 1, name
        space = {"__name__": "strangers"}
        exec(compile(text.replace(old, new), strangers.__file__, "exec"), space)
        torch.manual_seed(0)
        first += [name] * (check(space["FromTorch"]()).causes[:1] == (name,))
    for name, plant in IN_BART.items():
        model = strangers.hugging_face("Bart")
        plant(model)
        first += [name] * (check(model, strangers.call).causes[:1] == (name,))
    assert len(first) >= 18, {*IN_TORCH, *IN_BART} - set(first)
