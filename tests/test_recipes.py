"""Named settings to start from, and which corpus gets which: module recipes, chapter 91."""

import argparse
import dataclasses
import itertools
import math
import random

import pytest

from annotated.command.cli import build_parser
from annotated.command.options import settings_of
from annotated.model import TransformerConfig
from annotated.runs.examples import Group, batch_groups
from annotated.runs.recipes import RECIPES, recipe_for
from annotated.text.corpora import EMBEDDED
from annotated.text.pairs import Pairs
from annotated.training import TrainingConfig

FIELDS = {field.name for part in (TransformerConfig, TrainingConfig) for field in dataclasses.fields(part)}


def recipe_options(name: str) -> argparse.Namespace:
    return build_parser().parse_args(["train", "--corpus", "embedded", "--output", "x", "--recipe", name])


def test_the_paper_s_recipes_are_the_paper_s_models():
    for name, make in {"base": TransformerConfig.base, "big": TransformerConfig.big}.items():
        model, config, size = settings_of(recipe_options(name), {})
        assert TransformerConfig(size, **model) == make(37_000)
        assert config.beyond_the_paper() == {}
        assert config.max_tokens * config.accumulation == 25_000
        assert config.warmup_steps == 4000
        assert config.max_steps == {"base": 100_000, "big": 300_000}[name]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "processes"), [("base", 3), ("big", 4)])
def test_the_paper_s_recipes_make_the_same_steps_on_any_number_of_devices(monkeypatch, name, processes):
    """Every batch of a step is made by one process, the same batches as by one alone, in an order dealt out."""
    config = settings_of(recipe_options(name), {})[1]
    choose = random.Random(1)
    lengths = [(choose.randint(2, 250), choose.randint(2, 250)) for _ in range(2500)]
    pairs = Pairs.of([([i % 90 + 4] * source, [5] * target) for i, (source, target) in enumerate(lengths)])

    def steps(rank: int, processes: int) -> list[Group]:
        monkeypatch.setattr("annotated.runs.examples.rank", lambda: rank)
        monkeypatch.setattr("annotated.runs.examples.world_size", lambda: processes)
        return list(itertools.islice(batch_groups(pairs, config, 0, 0), 22))

    alone = steps(0, 1)
    assert {group.epoch for group in alone} == {0, 1}  # a step across the end of an epoch is among them
    assert all(len(group.batches) == 8 for group in alone)
    for whole, *shares in zip(alone, *(steps(rank, processes) for rank in range(processes)), strict=True):
        assert max(len(share.batches) for share in shares) == math.ceil(8 / processes)
        for share in shares:
            assert (share.num_tokens, share.epoch, share.batch) == (whole.num_tokens, whole.epoch, whole.batch)
        dealt = [share.batches[i] for i in range(8) for share in shares if i < len(share.batches)]
        assert len(dealt) == 8
        for found, expected in zip(dealt, whole.batches, strict=True):
            assert found.source.equal(expected.source)
            assert found.target_output.equal(expected.target_output)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_usable(name):
    assert RECIPES[name].keys() <= FIELDS
    model, options, size = settings_of(recipe_options(name), {})
    config = TransformerConfig(size, **model)
    for key, value in RECIPES[name].items():
        assert getattr(config if hasattr(config, key) else options, key) == value


def test_the_corpus_decides_the_recipe():
    assert {recipe_for(name) for name in EMBEDDED} == {"embedded"}
    assert recipe_for("multi30k") == recipe_for("own.tsv") == "small"
