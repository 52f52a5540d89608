# Written by `make export` from book/63_constituency_parsing.ipynb: edit the chapter, not this.
"""Constituency parsing (section 6.3 of the paper)."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate

from annotated.base.files import InputError

__all__ = [
    "EQUAL",
    "Outcome",
    "PUNCTUATION",
    "Parse",
    "TaskScores",
    "Tree",
    "bracket_f1",
    "count_words",
    "labelled_brackets",
    "linearise",
    "parse_brackets",
    "parse_outcome",
    "read_tree",
    "read_trees",
    "total_scores",
]


# book/63_constituency_parsing.ipynb#tree
@dataclass(frozen=True)
class Tree:
    """A constituent: its label and its parts; or a tag and its word (section 6.3).

    Defined in chapter 63: `tree`.
    """

    label: str
    children: tuple["Tree", ...] = ()
    word: str = ""

    def leaves(self) -> list["Tree"]:
        """The words with their parts of speech, in order."""
        return [self] if self.word else [leaf for child in self.children for leaf in child.leaves()]

    def words(self) -> list[str]:
        """The words, in order."""
        return [leaf.word for leaf in self.leaves()]

    def __str__(self) -> str:
        return f"({self.label} {self.word or ' '.join(map(str, self.children))})"


# book/63_constituency_parsing.ipynb#linearise
def linearise(tree: Tree, copied: bool = False) -> str:
    """The tree with a tag for each word, or with a copy of the word (section 6.3).

    Defined in chapter 63: `linearise`.
    """
    if tree.word:
        return tree.word if copied else tree.label
    return f"({tree.label} {' '.join(linearise(child, copied) for child in tree.children)} )"


# book/63_constituency_parsing.ipynb#read-trees
def read_trees(text: str) -> list[Tree]:
    """All trees in a text like "(S (NP (PRP It)) (VP (VBZ works)) (. .))".

    Raises InputError, naming the position, for what is not a tree (section 6.3).

    Defined in chapter 63: `read-trees`.
    """
    # for each open bracket: label and word, parts
    frames: list[tuple[list[str], list[Tree]]] = [([], [])]
    for match in re.finditer(r"[()]|[^\s()]+", text):
        place = f"at position {match.start()}"
        if match[0] == "(":
            frames.append(([], []))
        elif match[0] != ")":
            frames[-1][0].append(match[0])
        elif len(frames) == 1:
            raise InputError(f"{place}: a closing bracket that was not opened")
        else:
            texts, parts = frames.pop()
            if len(texts) + bool(parts) > 2 or not (parts or len(texts) == 2):
                raise InputError(f"{place}: neither a label and its parts nor a part of speech and its word")
            label, word = (*texts, "", "")[:2]
            frames[-1][1].append(Tree(label, tuple(parts), word))
    if len(frames) > 1 or frames[0][0]:
        raise InputError(f"at position {len(text)}: {len(frames) - 1} open brackets, {len(frames[0][0])} stray words")
    return frames[0][1]


# book/63_constituency_parsing.ipynb#read-tree
def read_tree(text: str) -> Tree:
    """The one tree in a text; InputError unless there is exactly one (6.3).

    Defined in chapter 63: `read-tree`.
    """
    trees = read_trees(text)
    if len(trees) != 1:
        raise InputError(f"one tree is expected, not {len(trees)}")
    return trees[0]


# book/63_constituency_parsing.ipynb#count-words
PUNCTUATION = frozenset({",", ":", "``", "''", "."})  # tags that EVALB leaves out


def count_words(tree: Tree) -> int:
    """How many words, without punctuation; 's belongs to the word before (6.3).

    Defined in chapter 63: `count-words`.
    """
    return sum(leaf.label not in PUNCTUATION and leaf.label != "POS" for leaf in tree.leaves())


# book/63_constituency_parsing.ipynb#labelled-brackets
EQUAL = {"PRT": "ADVP"}  # labels that EVALB takes for equal


def labelled_brackets(tree: Tree, skipped: Collection[int] | None = None) -> Counter:
    """The constituents: label, first word, word after the last, and how often (6.3).

    Words at the places in `skipped`, by default punctuation, are not there.

    Defined in chapter 63: `labelled-brackets`.
    """
    leaves = tree.leaves()
    if skipped is None:
        skipped = {i for i, leaf in enumerate(leaves) if leaf.label in PUNCTUATION}
    number = list(accumulate((i not in skipped for i in range(len(leaves))), initial=0))
    brackets: Counter[tuple[str, int, int]] = Counter()

    def visit(node: Tree, start: int) -> int:
        if node.word:
            return start + 1
        end = start
        for child in node.children:
            end = visit(child, end)
        if number[start] < number[end] and node.label != "TOP":
            brackets[EQUAL.get(node.label, node.label), number[start], number[end]] += 1
        return end

    visit(tree, 0)
    return brackets


# book/63_constituency_parsing.ipynb#outcome
@dataclass(frozen=True)
class Outcome:
    """An output beside the truth (section 6.3).

    Defined in chapter 63: `outcome`.
    """

    gold: Counter  # the parts of the truth
    found: Counter  # the parts of the output
    exact: bool  # whether the two are equal
    problems: frozenset[str] = frozenset()  # what was malformed


@dataclass(frozen=True)
class TaskScores:
    """Scores of all parts together from 0 to 100, `exact` from 0 to 1; counts (6.3).

    Defined in chapter 63: `outcome`.
    """

    precision: float
    recall: float
    f1: float
    exact: float
    malformed: int
    sentences: int


# book/63_constituency_parsing.ipynb#total-scores
def total_scores(outcomes: Sequence[Outcome]) -> TaskScores:
    """The scores of all outputs together; ValueError when there is none (6.3).

    Defined in chapter 63: `total-scores`.
    """
    if not outcomes:
        raise ValueError("no outputs to score")
    wanted, found = (sum(getattr(outcome, side).total() for outcome in outcomes) for side in ("gold", "found"))
    right = sum((outcome.gold & outcome.found).total() for outcome in outcomes)
    shares = (right / found if found else 0.0, right / wanted if wanted else 0.0, 2 * right / max(wanted + found, 1))
    exact = sum(outcome.exact for outcome in outcomes) / len(outcomes)
    malformed = sum(bool(outcome.problems) for outcome in outcomes)
    return TaskScores(*(100 * share for share in shares), exact, malformed, len(outcomes))


# book/63_constituency_parsing.ipynb#parse
@dataclass(frozen=True)
class Parse:
    """What an output says: a tree, or None, and what was malformed (section 6.3).

    Defined in chapter 63: `parse`.
    """

    tree: Tree | None
    problems: frozenset[str] = frozenset()


def _close(frames: list[tuple[str, list[Tree]]], problems: set[str]) -> None:
    label, parts = frames.pop()
    if parts:
        frames[-1][1].append(Tree(label, tuple(parts)))
    else:
        problems.add("empty constituent")


# book/63_constituency_parsing.ipynb#parse-brackets
def parse_brackets(text: str, sentence: Sequence[str]) -> Parse:
    """The tree that an output and its sentence's words make, repaired (section 6.3).

    Closes what is open at the end; leaves out surplus and empty brackets.

    Defined in chapter 63: `parse-brackets`.
    """
    frames: list[tuple[str, list[Tree]]] = [("TOP", [])]
    problems, count = set(), 0
    for token in re.findall(r"\([^\s()]*|\)|[^\s()]+", text):
        if token[0] == "(":
            frames.append((token[1:], []))
            problems |= set() if token[1:] else {"no label"}
        elif token != ")":
            frames[-1][1].append(Tree(token, word=sentence[count] if count < len(sentence) else "?"))
            count += 1
        elif len(frames) == 1:
            problems.add("surplus bracket")
        else:
            _close(frames, problems)
    while len(frames) > 1:
        problems.add("open bracket")
        _close(frames, problems)
    parts = frames[0][1]
    if count != len(sentence):
        return Parse(None, frozenset({*problems, "number of words"}))
    if len(parts) == 1 and not parts[0].word:
        return Parse(parts[0], frozenset(problems))
    return Parse(Tree("TOP", tuple(parts)), frozenset({*problems, "no single root"}))


# book/63_constituency_parsing.ipynb#bracket-f1
def parse_outcome(gold: Tree, parse: Parse) -> Outcome:
    """The brackets of both trees; the gold one says what is punctuation (6.3).

    Defined in chapter 63: `bracket-f1`.
    """
    skipped = {i for i, leaf in enumerate(gold.leaves()) if leaf.label in PUNCTUATION}
    found = labelled_brackets(parse.tree, skipped) if parse.tree else Counter()
    wanted = labelled_brackets(gold, skipped)
    return Outcome(wanted, found, wanted == found, parse.problems)


def bracket_f1(gold: Sequence[Tree], parses: Sequence[Parse]) -> TaskScores:
    """Labelled brackets of all sentences against those of the gold trees (6.3).

    Raises ValueError when the two differ in length or are empty.

    Defined in chapter 63: `bracket-f1`.
    """
    if len(gold) != len(parses):
        raise ValueError(f"{len(parses)} parses for {len(gold)} trees")
    return total_scores([parse_outcome(tree, parse) for tree, parse in zip(gold, parses, strict=True)])
