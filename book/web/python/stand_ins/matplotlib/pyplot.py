"""Draws nothing."""

from nothing import nothing


def subplots(rows=1, columns=1, **_):
    panels = [[nothing] * columns] * rows
    if 1 in (rows, columns):
        panels = [nothing] * (rows * columns) if rows * columns > 1 else nothing
    return nothing, panels


def __getattr__(name):
    return nothing
