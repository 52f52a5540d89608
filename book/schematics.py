"""Drawings of boxes, arrows, matrices, arcs and trees, and the frame of the case, in one look for all chapters.

A drawing has one panel or more, and in all of them a unit is equally long. Positions are in units, from the lower left
corner of a panel, and information flows upwards, as in the paper's Figure 1. On a narrow screen the panels stand below
each other.
"""

from __future__ import annotations

import functools
import html
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from IPython.display import HTML
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

UNIT, MARGIN, TITLE, NARROW = 0.45, 0.25, 0.3, 4.2  # inches: a unit, between panels, above a panel, a narrow screen
INK, PALE = "#5B6069", "#E4E6EA"
QUERY, KEY, VALUE, ENCODER, DECODER = "#B84D06", "#0262E0", "#087A50", "#3F1C82", "#7A1560"
LIGHT = {QUERY: "#F9D8BC", KEY: "#CFE1FB", VALUE: "#C9EBDD", INK: PALE}

GLOSSES = {"es": "a neuter noun, as das Tier", "sie": "a feminine noun, as die Straße", "er": "a masculine noun"}
INKS = {"es": f"var(--role-key, {KEY})", "sie": f"var(--role-query, {QUERY})", "er": f"var(--role-value, {VALUE})"}

if TYPE_CHECKING:
    from annotated.parsing import Tree

Point = tuple[float, float]


def drawing(*sizes: Point, titles: Sequence[str] = (), unit: float = UNIT) -> list[Axes]:
    """Empty panels side by side, each as wide and as high as its size says, in units of so many inches."""
    figure = plt.figure()
    panels = [figure.add_axes((0, 0, 1, 1)) for _ in sizes]
    for axes, (width, height) in zip(panels, sizes, strict=True):
        axes.set(xlim=(0, width), ylim=(0, height))
        axes.axis("off")
    for axes, title in zip(panels, titles):
        axes.set_title(title, fontsize=10)
    inches = [(width * unit, height * unit) for width, height in sizes]
    total = sum(width for width, _ in inches) + MARGIN * (len(inches) - 1)
    top, left = max(height for _, height in inches) + TITLE, 0.0
    figure.set_size_inches(total, top)
    for axes, (width, height) in zip(panels, inches, strict=True):
        axes.set_position((left / total, 0, width / total, height / top))
        left += width + MARGIN
    figure.narrowed = functools.partial(below, panels, inches)  # called by tools/drawings.py
    return panels


def below(panels: Sequence[Axes], inches: Sequence[Point]) -> Figure:
    """The drawing with its panels below each other, and narrower if one of them is too wide for a narrow screen."""
    figure, widest = panels[0].figure, max(width for width, _ in inches)
    total = top = sum(height + TITLE for _, height in inches) + MARGIN * (len(inches) - 1)
    figure.set_size_inches(min(widest, NARROW), total)
    for axes, (width, height) in zip(panels, inches, strict=True):
        top -= height + TITLE
        axes.set_position((0, top / total, width / widest, height / total))
        top -= MARGIN
    return figure


def box(
    axes: Axes,
    left: float,
    bottom: float,
    width: float,
    text: object = "",
    *,
    height: float = 1.0,
    colour: str = "white",
    edge: str = INK,
    hatch: str | None = None,
    size: float = 9,
    thick: float = 1.1,
) -> None:
    """A box with round corners and a text in its middle."""
    corners = f"round,pad=0,rounding_size={min(0.13, height / 4, width / 2)}"
    shape = {"facecolor": colour, "edgecolor": edge, "hatch": hatch, "linewidth": thick, "zorder": 2}
    axes.add_patch(FancyBboxPatch((left, bottom), width, height, boxstyle=corners, **shape))
    axes.text(left + width / 2, bottom + height / 2, text, ha="center", va="center", fontsize=size, zorder=3)


def note(axes: Axes, x: float, y: float, text: object, *, side: str = "center", size: float = 9, **looks) -> None:
    """A text beside a part of the drawing; `side` says where it begins: left, center or right."""
    axes.text(x, y, text, ha=side, va="center", fontsize=size, zorder=4, **looks)


def arrow(
    axes: Axes,
    *points: Point,
    colour: str = INK,
    thick: float = 1.2,
    bend: float = 0.0,
    head: bool = True,
    dashed=False,
) -> None:
    """An arrow along some points; of two points it may be bent, to the right of its way for positive numbers."""
    looks = {"color": colour, "linewidth": thick, "linestyle": ":" if dashed else "-", "zorder": 1.5}
    if len(points) > 2:
        axes.plot(*zip(*points[:-1]), solid_joinstyle="round", **looks)
    style = "-|>,head_length=4,head_width=2" if head else "-"
    ends = {"shrinkA": 0, "shrinkB": 0, "mutation_scale": 1, "connectionstyle": f"arc3,rad={bend}"}
    axes.add_patch(FancyArrowPatch(*points[-2:], arrowstyle=style, **ends, **looks))


def arc(axes: Axes, start: Point, end: Point, *, colour: str = KEY, thick: float = 1.5, rise: float = 0.5) -> None:
    """A bow from one point to another, `rise` of its width high, or deep if negative."""
    arrow(axes, start, end, colour=colour, thick=thick, bend=-rise if end[0] > start[0] else rise, head=False)


def matrix(
    axes: Axes,
    left: float,
    bottom: float,
    values: Sequence | np.ndarray,
    *,
    cell: Point = (1.0, 1.0),
    ramp: str | None = None,
    span: Point | None = None,
    colour: str = "white",
    form: str = "",
    outlined: Sequence[int] = (),
) -> None:
    """The numbers of a matrix as cells, first row on top: in one colour, or in those of a ramp; `form` writes them.

    Rows that are `outlined` get a frame.
    """
    values = np.asarray(values, dtype=float)
    (rows, columns), (across, down) = values.shape, cell
    edges = {"xmin": left, "xmax": left + columns * across, "ymin": bottom, "ymax": bottom + rows * down}
    if ramp:
        low, high = span or (values.min(), values.max())
        axes.imshow(values, cmap=ramp, vmin=low, vmax=high, extent=(*edges.values(),), aspect="auto", zorder=2)
    else:
        axes.add_patch(Rectangle((left, bottom), columns * across, rows * down, facecolor=colour, zorder=2))
    lines = {"colors": INK, "linewidth": 0.6, "zorder": 2}
    axes.hlines([bottom + row * down for row in range(rows + 1)], edges["xmin"], edges["xmax"], **lines)
    axes.vlines([left + column * across for column in range(columns + 1)], edges["ymin"], edges["ymax"], **lines)
    for (row, column), value in np.ndenumerate(values if form else np.empty((0, 0))):
        middle = (left + (column + 0.5) * across, bottom + (rows - row - 0.5) * down)
        dark = ramp and sum(plt.get_cmap(ramp)((value - low) / (high - low))[:3]) < 1.5
        note(axes, *middle, form.format(value), size=8, color="white" if dark else "black")
    for row in outlined:
        frame = {"facecolor": "none", "edgecolor": "black", "linewidth": 1.8, "zorder": 2}
        axes.add_patch(Rectangle((left, bottom + (rows - 1 - row) * down), columns * across, down, **frame))


def as_tuples(tree: Tree) -> tuple:
    """A tree of the package as one of tuples, each a label and its parts, or a tag and its word."""
    return (tree.label, tree.word) if tree.word else (tree.label, *map(as_tuples, tree.children))


def draw_tree(axes: Axes, tree: tuple, marked: Collection[tuple[str, int, int]] = ()) -> None:
    """A tree of tuples, with its words in a row, a unit apart; the `marked` brackets, label and span, are orange.

    A tag stands in grey above its word; where it is empty, the lines end at the word itself.
    """
    left, look = Counter(marked), {"ha": "center", "va": "center", "fontsize": 9}

    def place(node: tuple, start: int) -> tuple[float, float, int]:
        label, *parts = node
        if isinstance(parts[0], str):
            axes.text(start, 0, parts[0], **look)
            if label:
                axes.text(start, 0.7, label, color="0.45", **look)
            return start, 1.0 if label else 0.35, start + 1
        spots, end = [], start
        for part in parts:
            x, y, end = place(part, end)
            spots.append((x, y))
        x, y = (spots[0][0] + spots[-1][0]) / 2, 1 + max(y for _, y in spots)
        for below, height in spots:
            axes.plot([x, x, below, below], [y, y - 0.5, y - 0.5, height], color="0.75", lw=1, zorder=0)
        found = left[label, start, end] > 0
        box = {"facecolor": "white", "edgecolor": QUERY if found else "none", "pad": 1.5}
        axes.text(x, y, label, color=QUERY if found else "k", bbox=box, **look)
        left[label, start, end] -= 1
        return x, y, end

    _, height, end = place(tree, 0)
    axes.set(xlim=(-0.6, end - 0.4), ylim=(-0.5, height + 0.6))
    axes.axis("off")


def frame(rows: Mapping[str, tuple[str, str]]) -> HTML:
    """What a model writes for the sentence with *tired* and the one with *wide*, in two columns; a row has a name.

    The pronoun behind *weil* has its colour, and below stands which nouns it may mean.
    """
    marked = {word: f'<b style="color: {ink}">{word}</b>' for word, ink in INKS.items()}
    pronoun, used = re.compile(r"(?<=weil )(es|sie|er)\b"), set()
    lines = ["<tr><td></td>" + "".join(f"<th>… because it was too {word}</th>" for word in ("tired", "wide")) + "</tr>"]
    for name, both in rows.items():
        used.update(word for german in both for word in pronoun.findall(german))
        cells = "".join(
            f"<td>{pronoun.sub(lambda found: marked[found[0]], html.escape(german))}</td>" for german in both
        )
        lines.append(f'<tr><th scope="row" style="border: 0">{html.escape(name)}</th>{cells}</tr>')
    glosses = "; ".join(f"{marked[word]}: {meaning}" for word, meaning in GLOSSES.items() if word in used)
    return HTML(f"<table><thead>{lines[0]}</thead><tbody>{''.join(lines[1:])}</tbody></table><p>{glosses}</p>")
