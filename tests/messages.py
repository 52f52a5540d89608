"""The messages of the package by their ids in `book/messages.yml`, so that their words stand there and in the code."""

import re
from pathlib import Path

import pytest
import yaml

from annotated import InputError

FILE = Path(__file__).resolve().parents[1] / "book" / "messages.yml"
ENTRIES = yaml.safe_load(FILE.read_text(encoding="utf-8"))["messages"]
TEXTS = {entry["id"]: entry["message"] for entry in ENTRIES}


def message(name: str, *values: object) -> str:
    """The regular expression of a message, its braces filled in their order; `...`, or no value, is anything."""
    first, *others = re.split(r"\{.*?\}", TEXTS[name])
    assert len(values) <= len(others), f"{name} has {len(others)} places to fill"
    given = [*values, *[...] * (len(others) - len(values))]
    filled = (".*" if value is ... else re.escape(str(value)) for value in given)
    return re.escape(first) + "".join(value + re.escape(text) for value, text in zip(filled, others, strict=True))


def refused(name: str, *values: object) -> pytest.RaisesExc:
    """What is under it raises an InputError that says this and nothing else, in one line; notes may come after it."""
    return pytest.raises(InputError, match=rf"^{message(name, *values)}(?:\n|$)")
