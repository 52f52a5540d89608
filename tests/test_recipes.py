"""Named settings to start from, and which corpus gets which: module recipes, chapter 91."""

import argparse
import dataclasses

import pytest

from annotated.cli import build_parser
from annotated.corpora import EMBEDDED
from annotated.model import TransformerConfig
from annotated.options import flag, settings_of
from annotated.recipes import RECIPES, recipe_for
from annotated.training import TrainingConfig

FIELDS = {field.name for part in (TransformerConfig, TrainingConfig) for field in dataclasses.fields(part)}


def recipe_options(name: str) -> argparse.Namespace:
    return build_parser().parse_args(["train", "--corpus", "embedded", "--output", "x", "--recipe", name])


def test_the_paper_s_recipes_are_the_paper_s_models():
    for name, make in {"paper": TransformerConfig.base, "paper-big": TransformerConfig.big}.items():
        model, training, size = settings_of(recipe_options(name), {})
        assert TransformerConfig(size, **model) == make(37_000)
        assert training.beyond_the_paper() == {}
        assert training.max_tokens == 25_000
        assert training.warmup_steps == 4000
        assert training.max_steps == {"paper": 100_000, "paper-big": 300_000}[name]


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_usable(name):
    assert RECIPES[name].keys() <= FIELDS
    model, training, size = settings_of(recipe_options(name), {})
    config = TransformerConfig(size, **model)
    for key, value in RECIPES[name].items():
        assert getattr(config if hasattr(config, key) else training, key) == value


def test_the_corpus_decides_the_recipe():
    assert {recipe_for(name) for name in EMBEDDED} == {"embedded"}
    assert recipe_for("multi30k") == recipe_for("own.tsv") == "small"


def recipes_in_help(monkeypatch: pytest.MonkeyPatch, columns: int) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    text = build_parser()._subparsers._group_actions[0].choices["train"].format_help()
    return text.partition("recipes,")[2].partition("examples:")[0]


def test_the_help_of_train_writes_recipes_as_options(monkeypatch):
    text = " ".join(recipes_in_help(monkeypatch, 400).split())
    for recipe in RECIPES.values():
        options = [flag(key) if value is True else f"{flag(key)} {value}" for key, value in recipe.items()]
        assert " ".join(options) in text
    assert max(map(len, recipes_in_help(monkeypatch, 80).splitlines())) <= 80
