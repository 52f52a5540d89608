"""Charts as SVG, drawn twice: for a page and for a phone.

`tools.execute` loads this as an extension of the chapters' kernels. Each figure is then stored as an SVG document, and
beside it, under `NARROW`, as one for a narrow screen with its panels below each other. Both are tidied: text stays
text, in the font of the page, and nothing in them changes from run to run but what is drawn. The build puts them into
the page, in the colours of its theme (`book/_ext/charts.py`).
"""

from __future__ import annotations

import base64
import io
import re
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Collection

    from IPython.core.interactiveshell import InteractiveShell
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import GridSpec
    from matplotlib.text import Text

SVG, NARROW = "image/svg+xml", "application/vnd.annotated.narrow"
PICTURES = {"image/png", SVG}  # what a figure may be stored as
SPACE, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
NUMBER = re.compile(r"-?\d+\.\d+|-?\d+")
NARROW_INCHES, MOST = 4.0, 1.8  # inches; a row of panels up to so many times as wide is made narrower as a whole
LINE, LEAST = 0.17, 1.4  # inches that a line of labels needs, and a panel with curves
LABEL = 18  # letters in a line of the labels beside a panel, or of a legend with two columns
PHONE, LETTERS = 358, 11  # pixels: a chart on a phone of 390, and its smallest letters there
CELLS = 1200  # a picture of so many cells at most is drawn as rectangles
ElementTree.register_namespace("", SPACE.strip("{}"))


def rounded(text: str) -> str:
    """Text with its decimal numbers rounded to hundredths, and its spaces and breaks as single spaces."""
    return re.sub(r"-?\d+\.\d+(?:e-?\d+)?", lambda found: f"{round(float(found[0]), 2) + 0:g}", " ".join(text.split()))


def tidy(svg: str) -> str:
    """Matplotlib's SVG without what it says about itself, without ids that nothing refers to, and short."""
    root = ElementTree.fromstring(svg)
    for child in list(root):
        if child.tag == f"{SPACE}metadata" or child.find(f"{SPACE}style") is not None:
            root.remove(child)
    wanted = set(re.findall(r"(?:url\(|href=\")#(\w+)", svg))
    for parent in list(root.iter()):
        for place, child in reversed(list(enumerate(parent))):
            if child.tag == f"{SPACE}image":
                parent[place] = as_rectangles(child)
    for node in root.iter():
        if node.get("id") not in wanted:
            node.attrib.pop("id", None)
        if LINK in node.attrib:
            node.set("href", node.attrib.pop(LINK))
        for name, value in node.attrib.items():
            if name != "href":
                node.set(name, rounded(value))
        if node.tag == f"{SPACE}text":
            plain_text(node)
        node.text = node.text if (node.text or "").strip() else None
        node.tail = None
    unwrap(root)
    root.attrib.pop("version", None)
    for side in ("width", "height"):
        root.set(side, f"{float(root.get(side).removesuffix('pt')) * 4 / 3:.0f}")
    root.set("style", "font-family: sans-serif; stroke-linejoin: round; stroke-linecap: butt")
    return ElementTree.tostring(root, encoding="unicode")


def plain_text(node: ElementTree.Element) -> None:
    """Let the page's font set a text: no family, no turn by zero, and pieces of a formula one after the other.

    Matplotlib places every letter of a formula by the widths of its own font. Here a piece follows the one before it,
    higher or lower where it has to be, and the whole is centred where it was.
    """
    if style := without_family(node.attrib.pop("style", "")):
        node.set("style", style)
    if re.match(r"rotate\(-?0 ", node.get("transform", "")):
        del node.attrib["transform"]
    pieces = sorted(node, key=lambda piece: float(piece.get("x")))  # they come sorted by their fonts
    if not pieces:
        return
    size = max(float(re.search(r"font-size: ([\d.]+)", piece.get("style"))[1]) for piece in pieces)
    node.set("x", f"{(float(pieces[0].get('x')) + float(pieces[-1].get('x')) + 0.6 * size) / 2:g}")
    node.set("style", "text-anchor: middle")
    height, joined = 0.0, []
    for piece in pieces:
        style = without_family(piece.get("style"))
        own = float(piece.get("y"))
        if joined and joined[-1].get("style") == style and own == height:
            joined[-1].text += piece.text
            continue
        piece.attrib = {"style": style} | ({"dy": f"{own - height:.2f}"} if own != height else {})
        height = own
        joined.append(piece)
    node[:] = joined


def without_family(style: str) -> str:
    """A style without the family of its font."""
    return re.sub(r"font-family: [^;]*;? ?", "", style).strip("; ")


def as_rectangles(image: ElementTree.Element) -> ElementTree.Element:
    """A picture of few cells as rectangles, each a cell; one of many as it is. Either has the class `ramp`."""
    from matplotlib import image as files

    image.set("class", "ramp")
    data = base64.b64decode(image.get(LINK).partition(",")[2])
    pixels = (files.imread(io.BytesIO(data), format="png") * 255).round().astype(int)
    if pixels.shape[0] * pixels.shape[1] > CELLS:
        return image
    left, top = float(image.get("x", 0)), float(image.get("y", 0))  # a colour bar has its place here
    across, down = float(image.get("width")) / pixels.shape[1], float(image.get("height")) / pixels.shape[0]
    group = ElementTree.Element(f"{SPACE}g", {"class": "ramp", "shape-rendering": "crispEdges"})
    group.attrib |= {name: image.get(name) for name in ("transform", "clip-path") if image.get(name)}
    for row, line in enumerate(pixels):
        starts = [place for place in range(len(line)) if place == 0 or (line[place] != line[place - 1]).any()]
        for start, end in pairwise([*starts, len(line)]):
            red, green, blue, opacity = line[start]
            if opacity:
                box = {"x": left + start * across, "y": top + row * down}
                box |= {"width": (end - start) * across, "height": down}
                box = {name: f"{value:.4f}" for name, value in box.items()}
                style = f"fill: #{red:02x}{green:02x}{blue:02x}"
                ElementTree.SubElement(group, f"{SPACE}rect", {**box, "style": style})
    return group


def unwrap(node: ElementTree.Element) -> None:
    """Replace groups without attributes by what is in them, in place."""
    for place, child in reversed(list(enumerate(node))):
        unwrap(child)
        if child.tag == f"{SPACE}g" and not child.attrib:
            node[place : place + 1] = list(child)


def drawn(figure: Figure) -> str:
    """A figure as tidy SVG."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", bbox_inches="tight")
    return tidy(stream.getvalue())


def narrowed(figure: Figure) -> Figure | None:
    """The figure, changed in place for a narrow screen, with letters that can be read there; None if they do not fit.

    Panels with axes to read stand below each other, and nothing beside them. What has none, such as boxes and arrows,
    is made narrower as it is where that is possible.
    """
    from matplotlib.patches import ConnectionPatch

    known = collisions(figure)
    if hasattr(figure, "narrowed"):  # drawn by book/schematics.py, or as the chapter says
        return fitting(figure.narrowed(), known)
    panels = [axes for axes in figure.axes if axes.get_subplotspec() is not None and axes.get_visible()]
    if not panels:
        return None
    grids = {axes.get_gridspec() for axes in panels}
    is_read = any(axes.axison and len(axes.get_xticks()) + len(axes.get_yticks()) for axes in panels)
    is_whole = len(grids) > 1 or bool(figure.findobj(ConnectionPatch))
    width, height = figure.get_size_inches()
    is_row = max(grid.nrows for grid in grids) == 1 and width > MOST * NARROW_INCHES
    if is_whole or not (is_read or is_row):
        figure.set_size_inches(min(width, NARROW_INCHES), height)
        if fitting(figure, known):
            return figure
        if is_whole or max(grid.ncols for grid in grids) == 1:
            return None
        figure.set_size_inches(width, height)
    figure.set_layout_engine("constrained")
    rearrange(figure, panels, *grids, is_read)
    across = max(axes.get_gridspec().ncols for axes in panels)
    for legend in list(figure.legends):
        names = [text.get_text() for text in legend.get_texts()]
        legend.remove()
        columns = 2 if max(map(len, names)) <= LABEL else 1
        options = {"loc": "outside lower center", "ncols": columns, "frameon": False}
        figure.legend(legend.legend_handles, names, title=legend.get_title().get_text() or None, **options)
    for legend in filter(None, (axes.get_legend() for axes in panels)):
        anchor = legend.get_bbox_to_anchor().transformed(legend.axes.transAxes.inverted())
        if across > 1:
            names = [text.get_text() for text in legend.get_texts()]
            figure.legend(legend.legend_handles, names, loc="outside lower center", ncols=len(names), frameon=False)
            legend.remove()
        elif anchor.x0 >= 1:  # beside its panel
            legend.set(loc="upper center", bbox_to_anchor=(0.5, -0.28))
    titles = [axes.title for axes in panels] + ([figure._suptitle] if figure._suptitle else [])
    wide = (30 if any(axes.images for axes in panels) else 36) // across  # a bar of colours may stand beside it
    for title in titles:
        title.set_text("\n".join(textwrap.wrap(title.get_text(), wide)))
    enlarge(figure)
    for axes in panels:
        texts = [label.get_text() for label in axes.get_yticklabels()]
        if any(len(text) > LABEL and "$" not in text for text in texts):
            axes.set_yticks(axes.get_yticks(), [in_lines(text) for text in texts])
        labels = [label for label in axes.get_xticklabels() if label.get_text()]
        boxes = [label.get_window_extent() for label in labels]
        if any(box.x1 > after.x0 - 1 for box, after in pairwise(boxes)) and not labels[0].get_rotation():
            for label in labels:
                label.set(rotation=60, ha="right", rotation_mode="anchor")
    figure.draw_without_rendering()
    width, height = figure.get_size_inches()
    short = [wanted_height(axes) - axes.get_position().height * height for axes in panels]
    figure.set_size_inches(width, height + max(0.0, *short) * len({axes.get_position().y0 for axes in panels}))
    for _ in range(3):
        if fitting(figure, known):
            return figure
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, 1.2 * height)
    for text in (text for axes in panels if axes.images for text in axes.texts):
        text.set_text(re.sub(r"^0(?=\.\d)", "", text.get_text()))  # of the numbers in a matrix
    return fitting(figure, known)


def rearrange(figure: Figure, panels: list[Axes], grid: GridSpec, is_read: bool) -> None:
    """Put panels below each other: all in one column, or, of more than four in rows, the rows as columns.

    Each keeps the names of its row and its column. Where there are no axes to read, they stand at the edges.
    """
    width, height = figure.get_size_inches()
    if grid.ncols == 1:
        if width > NARROW_INCHES:
            least = height if grid.nrows > 1 else 0.85 * height if panels[0].images else min(height, 3.0)
            figure.set_size_inches(NARROW_INCHES, max(least, height * NARROW_INCHES / width))
        return
    places = {axes: (axes.get_subplotspec().rowspan.start, axes.get_subplotspec().colspan.start) for axes in panels}
    is_turned = grid.nrows > 1 and (len(panels) > 4 or not is_read)
    across = grid.nrows if is_turned else 1
    inside = (height / grid.nrows) / (width / grid.ncols)
    most = 1.1 if any(axes.images for axes in panels) or not is_read else 0.7
    ratio = min(most, max(0.45, inside)) if is_read or is_turned else inside
    new = figure.add_gridspec(grid.ncols, across) if is_turned else figure.add_gridspec(len(panels), 1)
    rows = {row: axes.get_ylabel() for axes, (row, _) in reversed(places.items())}  # as the first of each says
    tops = {column: axes.title for axes, (_, column) in reversed(places.items())}
    feet = {column: axes.get_xlabel() for axes, (_, column) in places.items()}
    named = []
    for number, (axes, (row, column)) in enumerate(places.items()):
        axes.set_subplotspec(new[column, row] if is_turned else new[number, 0])
        if is_turned and not is_read:
            named.append((axes, rows[row] if column == 0 else "", tops[column].get_text() if row == 0 else ""))
        elif axes.axison:
            if not axes.yaxis.get_tick_params()["labelright"]:
                axes.tick_params(labelleft=True)
            axes.tick_params(labelbottom=True)
            if any(shares(one, axes) and places[one][0] == row for one in panels):
                axes.set_ylabel(axes.get_ylabel() or rows[row])
            if grid.nrows > 1:
                axes.set_title(axes.get_title() or tops[column].get_text(), fontsize=tops[column].get_fontsize())
                axes.set_xlabel(feet[column] if not is_turned or column == grid.ncols - 1 else "")
            if is_turned and row > 0 and rows[row] == rows[0]:
                axes.set_ylabel("")
    for axes, title, label in named:
        axes.set_title(title, fontsize=10)
        axes.set_ylabel(label, fontsize=10)
    wide = NARROW_INCHES if is_read or is_turned else min(NARROW_INCHES, width / grid.ncols)
    figure.set_size_inches(wide, new.nrows * wide / across * ratio)


def in_lines(text: str) -> str:
    """A label in lines, as few and as short as words allow."""
    lines = text.split("\n")
    return "\n".join(
        part
        for line in lines
        for part in textwrap.wrap(line, max(LABEL + 4, len(line) // 2 + 3), break_long_words=False)
    )


def wanted_height(axes: Axes) -> float:
    """How many inches a panel must be high: what its curves need, and the names beside it (numbers can be spread)."""
    names = [label.get_text() for label in axes.get_yticklabels()]
    lines = [1 + name.count("\n") if re.search("[a-z]{3}", name) else 0 for name in names]
    pair = max((one + next_one for one, next_one in pairwise(lines)), default=0) / 2  # names that are neighbours
    return max(LINE * pair * len(lines), LEAST if axes.get_aspect() == "auto" else 0.0)


def enlarge(figure: Figure) -> None:
    """Make letters so large that they can be read on a phone."""
    for _ in range(3):  # a larger label widens what is drawn
        figure.draw_without_rendering()
        wide = 72 * (figure.get_tightbbox().width + 0.2)  # with the edge that a file gets
        least = LETTERS * max(wide / PHONE, 0.75)
        for text in written(figure):
            if text.get_fontsize() < least:
                text.set_fontsize(least)


def fitting(figure: Figure, known: Collection[tuple[str, str]]) -> Figure | None:
    """The figure with letters that can be read, or None where more of its texts collide than those `known`."""
    enlarge(figure)
    return None if collisions(figure) - set(known) else figure


def collisions(figure: Figure) -> set[tuple[str, str]]:
    """Pairs of texts that overlap, and texts, with nothing, that are wider than the box in whose middle they stand."""
    figure.draw_without_rendering()
    found = set()
    texts = [(text, text.get_window_extent()) for text in written(figure) if text.get_rotation() % 90 == 0]
    for place, (text, box) in enumerate(texts):
        for other, near in texts[:place]:
            across, down = min(box.x1, near.x1) - max(box.x0, near.x0), min(box.y1, near.y1) - max(box.y0, near.y0)
            if across > 2 and down > 0.2 * min(box.height, near.height):
                found.add((other.get_text(), text.get_text()))
        for edge in (patch.get_window_extent() for patch in (text.axes.patches if text.axes else ())):
            is_its_box = abs(edge.x0 + edge.x1 - box.x0 - box.x1) < 4 and edge.y0 < box.y0 < box.y1 < edge.y1
            if is_its_box and box.width > 1.1 * edge.width:
                found.add((text.get_text(), ""))
    return found


def written(figure: Figure) -> list[Text]:
    """All texts that are seen."""
    from matplotlib.text import Text

    unseen = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            ticks = [tick for tick in ticks if not (axes.axison and low <= tick.get_loc() <= high)]
            unseen |= {text for tick in ticks for text in (tick.label1, tick.label2)}
            if not axes.axison:
                unseen.add(axis.label)
    return [
        text for text in figure.findobj(Text) if text not in unseen and text.get_visible() and text.get_text().strip()
    ]


def shares(one: Axes, other: Axes) -> bool:
    """Whether two panels have their vertical axis in common."""
    return one is not other and one.get_shared_y_axes().joined(one, other)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Let this kernel store its figures as SVG, in both forms."""
    from IPython.core.formatters import BaseFormatter
    from matplotlib.figure import Figure
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    class Narrow(BaseFormatter):
        """The formatter of the form for a narrow screen."""

        format_type = NARROW
        print_method = "_never_"
        _return_type = str

    set_matplotlib_formats("svg")
    formatters, active = shell.display_formatter.formatters, shell.display_formatter.active_types
    formatters[SVG].for_type(Figure, drawn)
    formatters[NARROW] = Narrow(parent=shell.display_formatter)
    formatters[NARROW].for_type(Figure, lambda figure: drawn(narrow) if (narrow := narrowed(figure)) else None)
    shell.display_formatter.active_types = [*active, NARROW]


def look_the_same(first: str, second: str, apart: float = 0.5) -> bool:
    """Whether two drawings differ by no more than the last digits of their numbers, so that nobody sees it."""
    if first == second:
        return True
    numbers = [[float(number) for number in NUMBER.findall(svg)] for svg in (first, second)]
    same = NUMBER.sub("#", first) == NUMBER.sub("#", second)
    return same and all(abs(a - b) <= apart for a, b in zip(*numbers, strict=True))
