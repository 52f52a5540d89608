"""The page has one model."""

from pathlib import Path


def find_model(name):
    return Path("/book/data/models") / name
