"""Options made from the configuration dataclasses, and settings made from options: module options, chapter 91."""

import argparse
import dataclasses
import re

import pytest

from annotated.command.cli import build_parser
from annotated.command.options import FIXED, HELP, LISTED, flag, given, one_of, resumed, settings_of
from annotated.model import TransformerConfig
from annotated.runs.recipes import RECIPES
from annotated.training import TrainingConfig
from tests.messages import refused

FIELDS = [field for part in (TransformerConfig, TrainingConfig) for field in dataclasses.fields(part)]


def options_of(line: str) -> argparse.Namespace:
    return build_parser().parse_args(f"train --corpus embedded --output x {line}".split())


@pytest.fixture
def train_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> str:
    monkeypatch.setenv("COLUMNS", "400")
    with pytest.raises(SystemExit, match="0"):
        build_parser().parse_args(["train", "--help"])
    return capsys.readouterr().out


def test_help_covers_every_field():
    wanted = {field.name for field in FIELDS} - set(FIXED)
    assert wanted == HELP.keys()
    assert all(len(text) > 10 for text in HELP.values())


def test_train_help_lists_every_field_and_its_default(train_help):
    for field in FIELDS:
        if field.name in FIXED:
            assert not re.search(rf"^  {flag(field.name)}\b", train_help, re.MULTILINE) or field.name == "vocab_size"
            continue
        (line,) = re.findall(rf"^  {flag(field.name)}[, ].*(?:\n {{8,}}.*)*", train_help, re.MULTILINE)
        if field.default not in (None, dataclasses.MISSING):
            shown = {"True": "on", "False": "off"}.get(str(field.default), str(field.default))
            assert re.search(rf"default: {re.escape(shown)}\)", line), line


@pytest.mark.parametrize("name", LISTED)
def test_an_option_with_a_list_names_it_in_help_and_refusal(train_help, capsys, name):
    values, option = LISTED[name], flag(name)
    (line,) = re.findall(rf"^  {option} .*", train_help, re.MULTILINE)
    assert f" {', '.join(values[:-1])} or {values[-1]}; " in line
    for value in values:
        assert getattr(options_of(f"{option} {value}"), name) == value
    with pytest.raises(SystemExit, match="2"):
        options_of(f"{option} none")
    said = capsys.readouterr().err.splitlines()[-1]
    assert re.search(rf"argument {option}: invalid choice: 'none' .*{'.*'.join(values)}", said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--d-model 0", "--d-model: a whole number of at least 1"),
        ("--num-heads 2.5", "--num-heads: a whole number of at least 1 is needed, not '2.5'"),
        ("--max-steps 0", "--max-steps: a whole number of at least 1"),
        ("--max-minutes 0", "--max-minutes: a number above 0"),
        ("--max-minutes inf", "--max-minutes: a number above 0"),
        ("--rate-factor nan", "--rate-factor: a number above 0"),
        ("--clip-norm -1", "--clip-norm: a number above 0"),
        ("--dropout -0.1", "--dropout: a number of at least 0"),
        ("--seed 99999999999999999999", "--seed: a whole number of at least 0"),
        ("--seed -1", "--seed: a whole number of at least 0"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_while_it_is_typed(capsys, line, said):
    with pytest.raises(SystemExit, match="2"):
        options_of(line)
    assert said in capsys.readouterr().err


def test_the_least_numbers_that_make_sense():
    options = options_of("--d-model 1 --dropout 0 --seed 0 --max-minutes 0.01")
    assert (options.d_model, options.dropout, options.seed, options.max_minutes) == (1, 0.0, 0, 0.01)


def test_values_in_words():
    assert [one_of(values) for values in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a or b", "a, b or c"]


def test_only_what_the_user_set_is_given():
    options = options_of("--d-model 64 --no-tie-output --vocab-size 500")
    assert given(options, TransformerConfig) == {"d_model": 64, "tie_output": False}
    assert given(options, TrainingConfig) == {}


def test_the_user_wins_over_the_recipe_and_the_recipe_over_the_default():
    model, training, size = settings_of(options_of("--d-model 64 --no-tie-output --max-epochs 3"), {})
    assert (model["d_model"], model["tie_output"], model["d_ff"]) == (64, False, 512)  # the last from `embedded`
    assert (training.max_epochs, training.max_steps) == (3, None)  # a limit replaces the recipe's
    assert training.keep_checkpoints == TrainingConfig(max_steps=1).keep_checkpoints
    assert size == RECIPES["embedded"]["vocab_size"]


@pytest.fixture
def record() -> dict:
    """What a run of 150 steps says of its settings."""
    model = TransformerConfig(340, d_model=16, d_ff=32, num_heads=2, num_layers=1)
    training = TrainingConfig(max_steps=150, precision="float32")
    return {"model": dataclasses.asdict(model), "training": dataclasses.asdict(training)}


def test_a_resumed_run_takes_new_limits_only(record):
    own = record["training"]
    assert resumed(options_of(""), record) == own
    assert resumed(options_of("--max-steps 999 --d-model 16 --precision auto"), record) == own | {"max_steps": 999}
    changed = resumed(options_of("--max-minutes 2"), record)
    assert (changed["max_steps"], changed["max_minutes"]) == (None, 2.0)
    with refused("resume-option-changed", "--d-model", 32, 16):
        resumed(options_of("--d-model 32"), record)
    with refused("resume-option-changed", "--vocab-size", 400):
        resumed(options_of("--vocab-size 400"), record)


def test_a_resumed_run_s_settings_are_its_own(record):
    model, training, size = settings_of(options_of("--max-steps 999"), record)
    assert TransformerConfig(size, **model) == TransformerConfig(**record["model"])
    assert training == TrainingConfig(**record["training"] | {"max_steps": 999})
