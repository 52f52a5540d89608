"""Copies of mistakes (chapter 82): small edits of the plain file, told by their names, also in a stranger's model."""

import re
from pathlib import Path

import pytest
import torch

from annotated import check, plain
from annotated.doctor.asking import WRONG
from annotated.doctor.mistakes import MISTAKES, fingerprints, hunt, planted
from annotated.doctor.reporting import Finding, known_fingerprints, likely
from annotated.doctor.running import FUNCTIONS
from tests import afresh, strangers
from tests.planted_afresh import PLANTED

SMALL = {"d_model": 32, "d_ff": 48, "num_heads": 4, "num_layers": 2}


@pytest.mark.slow
def test_a_mistake_leaves_the_fingerprint_that_is_stored():
    """Among it what the check that is meant for it finds."""
    left = fingerprints()
    assert left == known_fingerprints()
    checks = {one.name: one.check for one in MISTAKES}
    assert all(any(mark.startswith(f"{checks[name]}: ") for mark in marks) for name, marks in left.items())


@pytest.mark.slow
def test_a_mistake_is_called_by_its_name():
    """By what it leaves, or by the name of one that leaves the same; and so does the report."""
    known = known_fingerprints()
    assert list(known) == [one.name for one in MISTAKES if one.part == "Transformer"]
    for name, marks in known.items():
        split = [mark.split(": ", 1) for mark in marks]
        causes = likely([Finding(of, WRONG, found, "", "", "") for of, found in split])
        same = [set(known[one]) == set(marks) for one in causes[:1]]
        assert same == ([] if [found for _, found in split] == ["raises"] else [True]), name
    report = check(planted("layers copied").Transformer(40, **SMALL))
    assert not report.ok
    assert report.causes[0] == "layers copied"
    assert "likely: layers copied" in str(report)
    assert "explained: chapter 31_stacks#chain" in str(report)
    assert "layers copied" in report._repr_html_()
    assert 'href="31_stacks.html#cell-chain"' in report._repr_html_()


@pytest.mark.parametrize("one", [one for one in MISTAKES if one.part in FUNCTIONS], ids=lambda one: one.name)
def test_a_wrong_function_is_found(one):
    verdict = FUNCTIONS[one.part].ask(getattr(planted(one.name), one.part))
    assert (verdict.verdict, verdict.found) == (WRONG, one.check)


IN_TORCH = {  # a mistake: what is replaced in tests/strangers.py
    "no causal mask": ('"tgt_mask": later, ', ""),
    "padding mask not passed to the decoder": (', "memory_key_padding_mask": padding', ""),
    "embedding scaled by the width": ("math.sqrt(32)", "32"),
    "positions multiplied": (" + (places if", " * (places if"),
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


def set_all(model: torch.nn.Module, name: str, value: object) -> None:
    for one in model.modules():
        if hasattr(one, name):
            setattr(one, name, value)


IN_BART = {  # a mistake: how it gets into the model
    "scores not scaled": lambda model: set_all(model, "scaling", 1.0),
    "no ReLU": lambda model: set_all(model, "activation_fn", torch.nn.Identity()),
}


@pytest.mark.slow
def test_mistakes_in_strangers_models_are_called_by_their_names():
    """In a file that was written from the paper alone, without sight of this one, in PyTorch's class, and in Bart."""
    sizes = {"d_model": 32, "n_heads": 4, "n_layers": 2, "d_ff": 48}
    assert check(afresh.Seq2Seq(40, **sizes)).ok
    causes = {}
    for name, edits in PLANTED.items():
        made = strangers.with_edits(afresh, edits)["Seq2Seq"]
        torch.manual_seed(0)
        causes["afresh", name] = check(made(40, **sizes)).causes
    for name, edit in IN_TORCH.items():
        made = strangers.with_edits(strangers, [edit])["FromTorch"]
        torch.manual_seed(0)
        causes["PyTorch", name] = check(made()).causes
    for name, plant in IN_BART.items():
        plant(model := strangers.hugging_face("Bart"))
        causes["Bart", name] = check(model, strangers.call).causes
    assert [one for one, found in causes.items() if one[0] == "afresh" and one[1] not in found] == []
    later = [one for one, found in causes.items() if found[:1] != one[1:]]
    assert len(later) <= 2, later


@pytest.mark.slow
def test_a_hunt_is_a_file_that_runs_and_its_answers():
    """Lines and code of one to three mistakes, which the checks find, and nothing in the file that tells."""
    right = set(Path(plain.__file__).read_text(encoding="utf-8").splitlines())
    for seed, number in [(7, 1), (7, 2), (7, 3), *((seed, None) for seed in range(9))]:
        text, answers = hunt(seed, number)
        assert hunt(seed, number) == (text, answers)
        assert "#" not in text
        names = re.findall(r"^(.*), in (?:Transformer|loss|learning_rate|translate)$", answers, re.MULTILINE)
        assert len(names) in ([number] if number else [1, 2, 3])
        assert answers.startswith(f"Hunt {seed}: {len(names)} ")
        lines, space = text.splitlines(), {"__name__": "stranger"}
        exec(compile(text, "stranger.py", "exec"), space)
        for rows, told in re.findall(r"  line (.*)\n((?:    .*\n)*)", answers):
            shown = [line.strip() for line in told.splitlines()]
            assert shown == [lines[int(row) - 1].strip() for row in rows.split(", ")]
        assert set(lines) - right, "nothing is wrong"
    space: dict = {"__name__": "stranger"}
    text, answers = hunt(3, 2)
    exec(compile(text, "stranger.py", "exec"), space)
    meant = {one.check for one in MISTAKES if f"\n{one.name}, in Transformer\n" in answers}
    found = {one.check for one in check(space["Transformer"](40, **SMALL)).findings if one.verdict == WRONG}
    assert meant
    assert meant <= found
