"""Draws nothing."""

import sys

from nothing import nothing

sys.modules.update({f"matplotlib.{name}": nothing for name in ("patches", "lines", "ticker", "colors", "collections")})

from matplotlib import pyplot  # noqa: E402, F401


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return nothing
