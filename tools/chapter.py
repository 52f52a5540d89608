"""A new chapter that passes all checks, to be filled: `python -m tools.chapter 55_gradient_clipping [--section 5.3]`.

It is `make chapter NAME=55_gradient_clipping`. Written are the notebook with its outputs, the module that it exports
and a test of that; the chapter before leads to the new one, which leads on to where that led.
"""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from pathlib import Path

import nbformat

from tools import ROOT
from tools.clean import clean, write_if_changed
from tools.contents import in_order
from tools.execute import run_all, store
from tools.export import main as export
from tools.structure import NAME
from tools.text import from_text

CHAPTER = '''%% notebook {module} {{{section}"shows": "what this chapter shows, in a few words"}}
%% md title
# {title}

Which question does the chapter answer, and why would a reader want to know? Say so in two or three sentences.
{paper}

%% code imports
#| export
from jaxtyping import Float
from torch import Tensor

%% code setup {{"tags": ["hide-input"]}}
import torch
from matplotlib import pyplot as plt

_ = torch.manual_seed(0)

%% md idea
## The question as a heading

The idea in plain words, and what the picture shows.

%% code picture {picture}
_, axes = plt.subplots(figsize=(5, 3), layout="constrained")
_ = axes.plot([0, 1, 2], [0, 1, 2])
_ = axes.set(xlabel="what is changed", ylabel="what is measured")
plt.show()

%% md by-hand
The numbers of a tiny example, by hand, and then the code, with the equation beside it.

%% code {label}
#| export
def {module}(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """What the function returns, in a sentence."""
    return x

%% code {label}-by-hand
{module}(torch.tensor([1.0, 2.0]))

{exercises}%% md next
{next}
'''
PICTURE = '{"mystnb": {"image": {"alt": "What is seen: a line that rises, say."}}, "tags": ["hide-input"]}'
BOX = """
:::{{admonition}} The paper, section {section}
:class: paper
What the section says, in our own words.
:::"""
EXERCISE = """%% md exercise-{number}
:::{{exercise}}
:label: ex-{label}-{number}
What is asked?
:::

:::{{dropdown}} Solution
The answer in words.
:::

%% code solution-{number} {{"tags": ["hide-cell"]}}
print({module}(torch.tensor([{number}.0])).item())

"""
TEST = '''"""{title}: what chapter {number} says holds."""

import torch

from annotated.{module} import {module}


def test_shape_and_type_stay():
    x = torch.randn(2, 3)
    assert {module}(x).shape == x.shape
    assert {module}(x).dtype == x.dtype
'''


def chapter_text(name: str, section: str | None, after: str) -> str:
    """The new chapter as text; `after` is how it leads to the next one."""
    module = name.partition("_")[2]
    paper = "It belongs to no section of the paper, so there is no box with what the paper says."
    words = {"module": module, "label": module.replace("_", "-")}
    return CHAPTER.format(
        title=module.replace("_", " ").capitalize(),
        section=f'"section": "{section}", ' if section else "",
        paper=BOX.format(section=section) if section else paper,
        picture=PICTURE,
        exercises="".join(EXERCISE.format(number=number, **words) for number in (1, 2, 3)),
        next=after,
        **words,
    )


def make_chapter(root: Path, name: str, section: str | None = None) -> list[Path]:
    """Write the chapter and its test, and lead to it; returns the new files. Raises ValueError for an unfit name."""
    book, module = root / "book", name.partition("_")[2]
    chapters = sorted(path.stem for path in book.glob("[0-9]*.ipynb"))
    test = root / "tests" / f"test_{module}.py"
    if not NAME.fullmatch(name) or keyword.iskeyword(module):
        raise ValueError(f"{name!r} does not name a chapter: write it like 55_gradient_clipping")
    if taken := [other for other in chapters if other[:2] == name[:2]]:
        raise ValueError(f"chapter {name[:2]} is there already: {taken[0]}")
    if (root / "annotated" / f"{module}.py").exists() or test.exists():
        raise ValueError(f"there is a module {module} already, or a test of one: take another name")
    order = ["", *in_order([*chapters, name], root), ""]
    place = order.index(name)
    before, after = order[place - 1], order[place + 1]
    closing = f"Next: [chapter {after[:2]}]({after}.ipynb)." if after else "This is the last chapter."
    if before:
        path = book / f"{before}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        last = [cell for cell in notebook.cells if cell.cell_type == "markdown"][-1]
        lines = last.source.split("\n\n")
        if after and f"({after}.ipynb)" in lines[-1]:
            closing = lines.pop()
        last.source = "\n\n".join([*lines, f"Next: [chapter {name[:2]}]({name}.ipynb)."])
        write_if_changed(clean(notebook), path)
    new = book / f"{name}.ipynb"
    write_if_changed(clean(from_text(chapter_text(name, section, closing))), new)
    test.write_text(TEST.format(title=module.replace("_", " ").capitalize(), number=name[:2], module=module))
    return [new, test]


def main(arguments: list[str], root: Path = ROOT) -> int:
    about = "A new chapter that passes all checks, to be filled."
    parser = argparse.ArgumentParser(prog="python -m tools.chapter", description=about)
    parser.add_argument("name", metavar="NAME", help="55_gradient_clipping: its number, and the module that it exports")
    parser.add_argument("--section", metavar="S", help="the section of the paper that it treats, such as 5.3")
    options = parser.parse_args(arguments)
    if options.section and not re.fullmatch(r"\d(\.\d)?", options.section):
        parser.error(f"--section {options.section}: a section of the paper looks like 5.3")
    try:
        new, test = make_chapter(root, options.name, options.section)
    except ValueError as error:
        parser.error(str(error))
    if export([], root) or run_all([new], store):
        return 1
    print(f"written: {new.relative_to(root)}, {test.relative_to(root)}; fill them, then run `make check`")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
