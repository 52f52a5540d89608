"""Options made from the configuration dataclasses, and settings made from options: module options, chapter 91."""

import argparse
import dataclasses

import pytest

from annotated.command.cli import build_parser
from annotated.command.options import FIXED, HELP, LISTED, flag, given, resumed, settings_of
from annotated.model import TransformerConfig
from annotated.runs.recipes import RECIPES
from annotated.training import TrainingConfig


def options_of(line: str) -> argparse.Namespace:
    return build_parser().parse_args(f"train --corpus embedded --output x {line}".split())


def test_every_field_is_an_option_and_every_choice_is_taken():
    fields = {field.name for part in (TransformerConfig, TrainingConfig) for field in dataclasses.fields(part)}
    assert fields - set(FIXED) == HELP.keys()
    for name, values in LISTED.items():
        for value in values:
            assert getattr(options_of(f"{flag(name)} {value}"), name) == value


def test_the_least_numbers_that_make_sense():
    options = options_of("--d-model 1 --dropout 0 --seed 0 --max-minutes 0.01")
    assert (options.d_model, options.dropout, options.seed, options.max_minutes) == (1, 0.0, 0, 0.01)


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


def test_a_resumed_run_takes_new_limits_and_keeps_all_else(record):
    own = record["training"]
    assert resumed(options_of(""), record) == own
    assert resumed(options_of("--max-steps 999 --d-model 16 --precision auto"), record) == own | {"max_steps": 999}
    changed = resumed(options_of("--max-minutes 2"), record)
    assert (changed["max_steps"], changed["max_minutes"]) == (None, 2.0)
    model, training, size = settings_of(options_of("--max-steps 999"), record)
    assert TransformerConfig(size, **model) == TransformerConfig(**record["model"])
    assert training == TrainingConfig(**own | {"max_steps": 999})
