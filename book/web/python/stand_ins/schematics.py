"""Draws nothing."""

from nothing import nothing


def drawing(*sizes, **_):
    return [nothing] * len(sizes)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return nothing
