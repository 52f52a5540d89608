"""The pages for teachers: a concept test, and the sheets of hunts and stations, each with its answers on another page.

`{concept-test}` shows the questions of `concept_test.yml` without their answers, `{concept-key}` the right letters in a
row, and `{concept-answers}` what each option means. `{hunt-sheet}` and `{station-sheet}` are tables to be filled in by
hand. `{hunt-answers}` is what `annotated hunt --seed N --answers` says for the first seeds, with the checks of the
doctor that find each mistake, and `{station-answers}` gives a wrong solution of each station to the checks of
`annotated learn`. Both are worked out while the page is made, so they cannot say anything that the commands do not.
"""

import ast
import difflib
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from docutils import nodes
from ledger import Table, number_and_words, reference_to
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

from annotated.doctor.asking import CHECKS
from annotated.doctor.mistakes import MISTAKES, examined, hunt
from annotated.doctor.reporting import known_fingerprints
from annotated.doctor.running import FUNCTIONS
from annotated.workbook import learn, stations

SEEDS = range(1, 7)
TYPICAL = {  # a wrong solution of each station, by its name in the checks of `annotated learn`
    "attention": "masked_fill without its result, in Transformer",
    "masks": "True where it is hidden, in target_mask",
    "heads": "heads split by view, in Transformer",
    "layers": "dropout on the sum, in AddNorm",
    "ends": "cosine with its own exponent, in Transformer",
    "loss": "softmax before the loss, in loss",
    "step": "gradients never cleared, in train_step",
    "search": "finished rows go on, in translate",
}

SEEN = {  # what the owner of a mistake notices, where the command of hunts does not say it
    "mask in the opposite sense": "The loss is not a number, from the first step on.",
    "mean of the rows' means": "A short sentence counts as much as a long one in the same batch.",
    "search takes the first position": "Trained well, it writes the same token over and over.",
}


def questions_of(book: Path) -> list[dict[str, Any]]:
    """The questions of the concept test, each with the letter of its right option."""
    questions = yaml.safe_load((book / "concept_test.yml").read_text(encoding="utf-8"))["questions"]
    for one in questions:
        (one["letter"],) = (letter for letter, option in lettered(one) if option.get("right"))
    return questions


def lettered(question: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The options of a question with their letters."""
    return list(zip("abcd", question["options"], strict=True))


class Planted(NamedTuple):
    """A mistake of a hunt: its name, the part that it is in, the lines with their code, and what finds it."""

    name: str
    part: str
    lines: dict[int, str]
    seen: list[str]  # what its owner notices
    found: list[str]  # what the doctor says


@cache
def hunted(seed: int) -> list[Planted]:
    """The answers of a hunt, as its command gives them."""
    _, sheet = hunt(seed)
    found = []
    for block in sheet.split("\n\n")[1:]:
        head, where, *rest = block.splitlines()
        name, _, part = head.rpartition(", in ")
        rows = [int(row) for row in re.findall(r"\d+", where)]
        lines = dict(zip(rows, (one.strip() for one in rest[: len(rows)]), strict=True))
        found.append(Planted(name, part, lines, *symptoms(name)))
    return found


def symptoms(name: str) -> tuple[list[str], list[str]]:
    """What the owner of a mistake notices, and what the doctor says of it, the check that is meant for it first."""
    (mistake,) = (one for one in MISTAKES if one.name == name)
    if mistake.part in FUNCTIONS:
        ((what, _),) = examined(mistake).items()
        return [SEEN[name]], [f"{mistake.part}: {what}"]
    said = dict(mark.split(": ", 1) for mark in known_fingerprints()[name])
    said = {mistake.check: said[mistake.check], **said}
    of_check = {check.name: check.symptom for check in CHECKS}
    seen = [SEEN[name]] if name in SEEN else [of_check[check] for check in said if "See the" not in of_check[check]]
    return seen, [f"{check}: {what}" for check, what in said.items()]


class Judged(NamedTuple):
    """A wrong solution of a station: its name, its lines, what the command answers, what the book's model writes."""

    name: str
    lines: list[str]
    said: list[str]
    writes: list[str]


@cache
def judged(station: str) -> Judged:
    """What the checks say to the typical wrong solution of a station."""
    (one,) = (each for each in stations.STATIONS if each.name == station)
    mistake, text, parts = learn.mistaken()[TYPICAL[station]]
    right = stations.pieces(stations.solution())
    before, after = ("\n".join(some[name] for name in one.pieces) for some in (right, parts))
    texts = (learn.without_comments(one).splitlines() for one in (before, after))
    lines = [row for row in list(difflib.unified_diff(*texts, lineterm="", n=0))[2:] if row[:2] != "@@"]
    mine = learn.Mine(text, dict(stations.functions(ast.parse(text))), stations.made_of(text))
    said = learn.judge(one.cases, mine).lines
    return Judged(mistake.name, lines, said, learn.payoff(one, mine.names))


class Sheet(Table):
    """What the directives of these pages have in common."""

    def paragraph(self, text: str) -> nodes.paragraph:
        return nodes.paragraph("", "", *self.line(text))

    def cell(self, name: str) -> nodes.Node:
        """A link to a cell, in words."""
        return reference_to("cell", name, self.env.docname, True, "chapter {}, {}".format(*number_and_words(name)))

    def misreading(self, name: str) -> nodes.Node:
        """A link to a row of the page of misreadings."""
        link = addnodes.pending_xref(
            "", refdomain="", reftype="misreading", reftarget=name, refdoc=self.env.docname, refwarn=True
        )
        link += nodes.inline("", name, classes=["text-nowrap"])
        return link

    def questions(self) -> list[dict[str, Any]]:
        return questions_of(Path(self.env.srcdir))


class ConceptTest(Sheet):
    """`{concept-test}`: the questions with their options."""

    def run(self) -> list[nodes.Node]:
        questions = nodes.enumerated_list(classes=["concept-test"], enumtype="arabic", suffix=".")
        for one in self.questions():
            options = nodes.enumerated_list(enumtype="loweralpha", suffix=".")
            options += [nodes.list_item("", self.paragraph(option["text"])) for option in one["options"]]
            stem = self.paragraph(one["stem"])
            questions += nodes.list_item("", stem, options, ids=[f"question-{one['id'].lower()}"])
        return [questions]


class ConceptKey(Sheet):
    """`{concept-key}`: the number and the right letter of each question."""

    def run(self) -> list[nodes.Node]:
        key = ", ".join(f"{number} **{one['letter']}**" for number, one in enumerate(self.questions(), 1))
        return [self.paragraph(f"{key}.")]


class ConceptAnswers(Sheet):
    """`{concept-answers}`: why the right option is right, and what each of the others reveals."""

    def run(self) -> list[nodes.Node]:
        answers = nodes.enumerated_list(classes=["concept-answers"], enumtype="arabic", suffix=".")
        for one in self.questions():
            right = self.paragraph(
                f"**{one['about'][0].upper()}{one['about'][1:]}: {one['letter']}.** {one['why']} See "
            )
            right += [self.cell(one["place"]), nodes.Text(".")]
            wrong = nodes.bullet_list(bullet="-")
            for letter, option in lettered(one):
                if not option.get("right"):
                    text = nodes.paragraph("", "", nodes.strong("", letter), nodes.Text(", "))
                    text += [self.misreading(option["misreading"]), nodes.Text(". "), *self.line(option["reveals"])]
                    text += [nodes.Text(" Let her read "), self.cell(option["read"]), nodes.Text(".")]
                    wrong += nodes.list_item("", text)
            answers += nodes.list_item("", right, wrong, ids=[f"answer-{one['id'].lower()}"])
        return [answers]


class HuntSheet(Sheet):
    """`{hunt-sheet}`: a table for what somebody finds in a stranger's file."""

    def run(self) -> list[nodes.Node]:
        columns = {"Line": 10, "What should stand there": 34, "What the owner notices": 30, "How to find out": 26}
        return [self.table(columns, 3 * [({}, [[]] * len(columns))], "sheet", "colwidths-given")]


class HuntAnswers(Sheet):
    """`{hunt-answers}`: the mistakes of the first hunts."""

    def run(self) -> list[nodes.Node]:
        columns = {"Seed": 6, "Mistake and its lines": 46, "What the owner notices": 26, "What the doctor says": 22}
        rows = []
        for seed in SEEDS:
            for one in hunted(seed):
                name = f"**{one.name[0].upper()}{one.name[1:]}**, in `{one.part}`"
                lines = [[nodes.Text(f"{row}: "), code_that_breaks(code)] for row, code in one.lines.items()]
                seen, found = ([[nodes.Text(text)] for text in texts] for texts in (one.seen, one.found))
                if any(text.startswith("call: ") for text in one.found):
                    found.append("While this mistake is there, little else can be asked.")
                rows.append(({}, [[str(seed)], [name, *lines], seen, found]))
        return [self.table(columns, rows, "ledger", "hunts")]


class StationSheet(Sheet):
    """`{station-sheet}`: a table for what somebody guesses and gets wrong in the eight stations."""

    def run(self) -> list[nodes.Node]:
        columns = {"Station": 16, "You write": 29, "Guess": 13, "What went wrong first, and why": 42}
        rows = []
        for number, one in enumerate(stations.STATIONS, 1):
            written = [[code_that_breaks(blank)] for blank in one.blanks]
            rows.append(({}, [[f"{number} {one.name}"], written, [], []]))
        return [self.table(columns, rows, "sheet", "colwidths-given")]


class StationAnswers(Sheet):
    """`{station-answers}`: each station's question, its reason, and a wrong solution with what the command says."""

    def run(self) -> list[nodes.Node]:
        found = []
        for number, one in enumerate(stations.STATIONS, 1):
            wrong = judged(one.name)
            name = f"Station {number}: {one.name}"
            section = nodes.section(
                "", nodes.title("", name), ids=[f"station-{one.name}"], names=[f"station-{one.name}"]
            )
            self.set_source_info(section)
            section += self.labelled("What it asks.", one.task)
            guess = f"{one.asks} The answer is {one.right}, {one.options[one.right]}. {one.because}"
            section += self.labelled("The guess.", guess)
            section += self.labelled("The sentence.", f"{one.explain} {one.answer}")
            section += self.labelled("A wrong solution.", f"The command calls it: {wrong.name}. What is changed:")
            section += literal(wrong.lines, "diff")
            section += nodes.paragraph("", "The command answers:")
            section += literal([*wrong.said, "", "With this part the book's model gives:", *wrong.writes], "none")
            found.append(section)
        return found

    def labelled(self, label: str, text: str) -> nodes.paragraph:
        """A paragraph of the command's plain text, under a few words in bold."""
        marked = re.split(r"(`[^`]+`)", text)
        parts = [nodes.literal("", part[1:-1]) if part[:1] == "`" else nodes.Text(part) for part in marked if part]
        return nodes.paragraph("", "", nodes.strong("", label), nodes.Text(" "), *parts)


def literal(lines: list[str], language: str) -> nodes.literal_block:
    text = "\n".join(lines)
    return nodes.literal_block(text, text, language=language)


def code_that_breaks(code: str) -> nodes.raw:
    """A line of code that may go on in a new line, or the table would be twice as wide."""
    marked = re.sub(r"([._(,\[]|==)(?=\S)", r"\1<wbr>", escape(code, quote=False))
    return nodes.raw("", f"<code>{marked}</code>", format="html")


def resolve(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Element) -> Any:
    """Turn a link to a misreading into a reference; None when there is no such row."""
    if node["reftype"] != "misreading":
        return None
    entries = yaml.safe_load(Path(env.srcdir, "misreadings.yml").read_text(encoding="utf-8"))["misreadings"]
    if node["reftarget"] not in {entry["id"] for entry in entries}:
        return None
    return make_refnode(app.builder, node["refdoc"], "misreadings", node["reftarget"].lower(), content)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("concept-test", ConceptTest)
    app.add_directive("concept-key", ConceptKey)
    app.add_directive("concept-answers", ConceptAnswers)
    app.add_directive("hunt-sheet", HuntSheet)
    app.add_directive("hunt-answers", HuntAnswers)
    app.add_directive("station-sheet", StationSheet)
    app.add_directive("station-answers", StationAnswers)
    app.connect("missing-reference", resolve, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
