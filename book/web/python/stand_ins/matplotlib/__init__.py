"""Draws nothing."""

from nothing import nothing


def __getattr__(name):
    return nothing
