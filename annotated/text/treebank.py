"""Trees to learn from: the treebank sample, and those of the embedded corpus."""

import os
import re
import zipfile
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from annotated.base.corpus import Corpus, SentencePair
from annotated.base.files import InputError
from annotated.parsing import Tree, linearise, read_tree, read_trees
from annotated.text.corpora import generated
from annotated.text.grammar.splits import SPLITS

__all__ = [
    "TASKS",
    "TREEBANK_SPLITS",
    "clean_tree",
    "read_treebank",
    "task_corpus",
    "tree_pair",
    "treebank_corpus",
    "treebank_path",
]


def clean_tree(tree: Tree) -> Tree | None:
    """A treebank's tree as parsers are scored on it: without traces and function tags (NP-SBJ is NP) (section 6.3).

    Constituents left without words go, and so does a nameless outer bracket. None when nothing is left.
    """
    if tree.word:
        return None if tree.label == "-NONE-" else tree
    children = tuple(child for child in map(clean_tree, tree.children) if child)
    if not children:
        return None
    if not tree.label and len(children) == 1:
        return children[0]
    return Tree(re.split(r"[-=|]", tree.label)[0] or "TOP", children)


TREEBANK_SPLITS = {"train": range(1, 160), "valid": range(160, 180), "test": range(180, 200)}  # by number of document


def treebank_path() -> Path:
    """Where NLTK's sample of the Penn Treebank is looked for: $ANNOTATED_DATA, else ~/.cache/annotated (6.3)."""
    root = os.environ.get("ANNOTATED_DATA")
    return (Path(root) if root else Path.home() / ".cache" / "annotated") / "ptb_sample" / "treebank.zip"


def read_treebank(path: Path, documents: Collection[int]) -> list[Tree]:
    """The clean trees of documents `wsj_0001.mrg` and so on (section 6.3).

    Raises InputError when there is no such file, or it is another.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            texts = [archive.read(f"treebank/combined/wsj_{number:04}.mrg").decode() for number in documents]
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path}: not NLTK's treebank sample ({error})",
            "Fetch `treebank.zip` from NLTK's data, and set `ANNOTATED_DATA` to the folder that holds `ptb_sample/`.",
        ) from None
    trees = [clean_tree(tree) for text in texts for tree in read_trees(text)]
    return [tree for tree in trees if tree]


def tree_pair(tree: Tree, copied: bool) -> SentencePair:
    """A sentence, its words separated by blanks, and its linearised tree as the translation (section 6.3)."""
    return SentencePair(" ".join(tree.words()), linearise(tree, copied), tree=str(tree))


def treebank_corpus(path: Path | None = None, copied: bool = True) -> Corpus:
    """The treebank sample, divided by document, as a corpus to translate from words into brackets (section 6.3).

    `path` is that of the archive, if it is not where `treebank_path` says; `copied` is that of `linearise`.
    """

    def load(documents: Collection[int]) -> list[SentencePair]:
        return [tree_pair(tree, copied) for tree in read_treebank(path or treebank_path(), documents)]

    loaders = {name: lambda documents=documents: load(documents) for name, documents in TREEBANK_SPLITS.items()}
    return Corpus("treebank", "words", "brackets", loaders)


TASKS: dict[str, Callable[[Tree], str]] = {"parsing": linearise}  # what the target is, from the sentence's tree


def task_corpus(task: str, pairs: int | None = None) -> Corpus:
    """The embedded corpus with the targets of a task in `TASKS`; `pairs` limits each split (section 6.3).

    Raises InputError for an unknown task.
    """
    if task not in TASKS:
        raise InputError(f"unknown task {task!r}: choose one of {', '.join(TASKS)}")

    def load(split: str) -> list[SentencePair]:
        return [replace(pair, target=TASKS[task](read_tree(pair.tree))) for pair in generated(split)[:pairs]]

    return Corpus(task, "en", task, {split: lambda split=split: load(split) for split in SPLITS})
