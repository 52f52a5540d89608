# Written by `make export` from book/63_constituency_parsing.ipynb: do not edit here, edit the chapter.
"""Constituency parsing: chapter 63 of the book, section 6.3 of the paper."""

import math
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from annotated.base.corpus import Corpus, SentencePair
from annotated.base.files import InputError
from annotated.batching import in_batches, pad_sequences, token_batches
from annotated.decoding import beam_search, output_limits
from annotated.search.translation import Translator
from annotated.text.corpora import generated
from annotated.text.grammar import SPLITS
from annotated.text.tokenization import Tokenizer

__all__ = [
    "EQUAL",
    "Outcome",
    "PARSING_SEARCH",
    "PUNCTUATION",
    "Parse",
    "TASKS",
    "TREEBANK_SPLITS",
    "TaskScores",
    "Tree",
    "TreeRules",
    "Written",
    "bracket_f1",
    "clean_tree",
    "count_words",
    "follow",
    "labelled_brackets",
    "linearise",
    "parse_brackets",
    "parse_outcome",
    "read_tree",
    "read_treebank",
    "read_trees",
    "task_corpus",
    "total_scores",
    "transduce",
    "tree_pair",
    "tree_symbols",
    "treebank_corpus",
    "treebank_path",
    "write_trees",
]


# book/63_constituency_parsing.ipynb#tree
@dataclass(frozen=True)
class Tree:
    """A constituent, its label and its parts; a word has its part of speech as label, and no parts (section 6.3).

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


# book/63_constituency_parsing.ipynb#read-trees
def read_trees(text: str) -> list[Tree]:
    """All trees in a text with brackets, such as "(S (NP (PRP It)) (VP (VBZ works)) (. .))" (section 6.3).

    Raises InputError, naming the position, where brackets do not match or something else stands between them.

    Defined in chapter 63: `read-trees`.
    """
    frames: list[tuple[list[str], list[Tree]]] = [([], [])]  # for each open bracket: label and word, parts
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


def read_tree(text: str) -> Tree:
    """The one tree in a text; raises InputError when there is none, or more, or what `read_trees` refuses (6.3).

    Defined in chapter 63: `read-trees`.
    """
    trees = read_trees(text)
    if len(trees) != 1:
        raise InputError(f"one tree is expected, not {len(trees)}")
    return trees[0]


# book/63_constituency_parsing.ipynb#parse
PUNCTUATION = frozenset({",", ":", "``", "''", "."})  # parts of speech that EVALB leaves out


def count_words(tree: Tree) -> int:
    """How many words, without punctuation; 's belongs to the word before, as in `LONGEST` of chapter 50 (6.3).

    Defined in chapter 63: `parse`.
    """
    return sum(leaf.label not in PUNCTUATION and leaf.label != "POS" for leaf in tree.leaves())


def linearise(tree: Tree, copied: bool = False) -> str:
    """The tree with a tag for each word, "(S (NP PRP ) (VP VBZ ) . )", or with a copy of the word (section 6.3).

    Defined in chapter 63: `parse`.
    """
    if tree.word:
        return tree.word if copied else tree.label
    return f"({tree.label} {' '.join(linearise(child, copied) for child in tree.children)} )"


@dataclass(frozen=True)
class Parse:
    """What an output says: a tree, None if it has the wrong number of words, and what was malformed (section 6.3).

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
    """The tree of a linearised one and its sentence's words; what is malformed is repaired and named (section 6.3).

    Brackets still open at the end are closed; surplus closing ones, and constituents without words, are left out.
    Nothing can be done about a wrong number of words.

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


# book/63_constituency_parsing.ipynb#labelled-brackets
EQUAL = {"PRT": "ADVP"}  # labels that EVALB takes for equal


def labelled_brackets(tree: Tree, skipped: Collection[int] | None = None) -> Counter:
    """The constituents as (label, first word, word after the last) with their numbers, by EVALB's rules (section 6.3).

    Words at the places in `skipped`, by default those tagged as punctuation, are not there. Parts of speech, an outer
    TOP and constituents of skipped words only are not counted; PRT is ADVP.

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


# book/63_constituency_parsing.ipynb#total-scores
@dataclass(frozen=True)
class Outcome:
    """An output beside the truth: the parts of both, whether they are equal, and what was malformed (section 6.3).

    Defined in chapter 63: `total-scores`.
    """

    gold: Counter
    found: Counter
    exact: bool
    problems: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TaskScores:
    """Precision, recall and F1 of all parts together from 0 to 100; exact outputs from 0 to 1; counts (section 6.3).

    Defined in chapter 63: `total-scores`.
    """

    precision: float
    recall: float
    f1: float
    exact: float
    malformed: int
    sentences: int


def total_scores(outcomes: Sequence[Outcome]) -> TaskScores:
    """The scores of all outputs together; raises ValueError when there is none (section 6.3).

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


# book/63_constituency_parsing.ipynb#bracket-f1
def parse_outcome(gold: Tree, parse: Parse) -> Outcome:
    """The brackets of both trees; the gold one says which words are punctuation, and no tree has no brackets (6.3).

    Defined in chapter 63: `bracket-f1`.
    """
    skipped = {i for i, leaf in enumerate(gold.leaves()) if leaf.label in PUNCTUATION}
    found = labelled_brackets(parse.tree, skipped) if parse.tree else Counter()
    wanted = labelled_brackets(gold, skipped)
    return Outcome(wanted, found, wanted == found, parse.problems)


def bracket_f1(gold: Sequence[Tree], parses: Sequence[Parse]) -> TaskScores:
    """Labelled brackets of all sentences against those of the gold trees, by EVALB's rules (section 6.3).

    Raises ValueError when the two differ in length or are empty.

    Defined in chapter 63: `bracket-f1`.
    """
    if len(gold) != len(parses):
        raise ValueError(f"{len(parses)} parses for {len(gold)} trees")
    return total_scores([parse_outcome(tree, parse) for tree, parse in zip(gold, parses, strict=True)])


# book/63_constituency_parsing.ipynb#read-treebank
def clean_tree(tree: Tree) -> Tree | None:
    """A treebank's tree as parsers are scored on it: without traces and function tags (NP-SBJ is NP) (section 6.3).

    Constituents left without words go, and so does a nameless outer bracket. None when nothing is left.

    Defined in chapter 63: `read-treebank`.
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
    """Where NLTK's sample of the Penn Treebank is looked for: $ANNOTATED_DATA, else ~/.cache/annotated (6.3).

    Defined in chapter 63: `read-treebank`.
    """
    root = os.environ.get("ANNOTATED_DATA")
    return (Path(root) if root else Path.home() / ".cache" / "annotated") / "ptb_sample" / "treebank.zip"


def read_treebank(path: Path, documents: Collection[int]) -> list[Tree]:
    """The clean trees of documents `wsj_0001.mrg` and so on (section 6.3).

    Raises InputError when there is no such file, or it is another.

    Defined in chapter 63: `read-treebank`.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            texts = [archive.read(f"treebank/combined/wsj_{number:04}.mrg").decode() for number in documents]
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: not NLTK's treebank sample ({error})") from None
    trees = [clean_tree(tree) for text in texts for tree in read_trees(text)]
    return [tree for tree in trees if tree]


# book/63_constituency_parsing.ipynb#corpora
def tree_pair(tree: Tree, copied: bool) -> SentencePair:
    """A sentence, its words separated by blanks, and its linearised tree as the translation (section 6.3).

    Defined in chapter 63: `corpora`.
    """
    return SentencePair(" ".join(tree.words()), linearise(tree, copied), tree=str(tree))


def treebank_corpus(path: Path | None = None, copied: bool = True) -> Corpus:
    """The treebank sample, divided by document, as a corpus to translate from words into brackets (section 6.3).

    `path` is that of the archive, if it is not where `treebank_path` says; `copied` is that of `linearise`.

    Defined in chapter 63: `corpora`.
    """

    def load(documents: Collection[int]) -> list[SentencePair]:
        return [tree_pair(tree, copied) for tree in read_treebank(path or treebank_path(), documents)]

    loaders = {name: lambda documents=documents: load(documents) for name, documents in TREEBANK_SPLITS.items()}
    return Corpus("treebank", "words", "brackets", loaders)


TASKS: dict[str, Callable[[Tree], str]] = {"parsing": linearise}  # what the target is, from the sentence's tree


def task_corpus(task: str, pairs: int | None = None) -> Corpus:
    """The embedded corpus with the targets of a task in `TASKS`; `pairs` limits each split (section 6.3).

    Raises InputError for an unknown task.

    Defined in chapter 63: `corpora`.
    """
    if task not in TASKS:
        raise InputError(f"unknown task {task!r}: choose one of {', '.join(TASKS)}")

    def load(split: str) -> list[SentencePair]:
        return [replace(pair, target=TASKS[task](read_tree(pair.tree))) for pair in generated(split)[:pairs]]

    return Corpus(task, "en", task, {split: lambda split=split: load(split) for split in SPLITS})


# book/63_constituency_parsing.ipynb#transduce
PARSING_SEARCH = {"beam_size": 21, "length_penalty": 0.3, "extra": 300}  # section 6.3


def transduce(translator: Translator, texts: Sequence[str], max_tokens: int = 400, **search) -> list[str]:
    """The best output for each text, in order, with the search of section 6.3 where `search` does not say otherwise.

    Batches hold at most `max_tokens` source tokens, padding counted.

    Defined in chapter 63: `transduce`.
    """
    options = PARSING_SEARCH | search
    sources = translator.tokenize(texts)
    found = in_batches(sources, max_tokens, lambda batches: translator.search_all(batches, options))
    return [translator.to_text(best).text for best, *_ in found]


# book/63_constituency_parsing.ipynb#tree-rules
class Written(NamedTuple):
    """How far a tree is written: pieces, words, open constituents, and whether the innermost one has a part.

    Defined in chapter 63: `tree-rules`.
    """

    pieces: int = 0
    words: int = 0
    depth: int = 0
    filled: bool = False


class TreeRules:
    """Which pieces may follow while a tree is written, so that it closes what it opens and has each word once (6.3).

    `leaves` are for each word the symbols that may stand for it: every tag, or the word itself. A word to be copied is
    known, so of its pieces only the first counts, with the probability that any word comes. An output has at most
    `limit` pieces, eos counted. Raises ValueError when no tree of the sentence has so few.

    Defined in chapter 63: `tree-rules`.
    """

    def __init__(self, tokenizer: Tokenizer, labels: Collection[str], leaves: Sequence[Collection[str]], limit: int):
        self.limit, self.end = limit, (tokenizer.eos_id,)
        self.close = tuple(tokenizer.to_ids(")", target=True))
        self.opens = {tuple(tokenizer.to_ids(f"({label}", target=True)) for label in labels}
        self.leaves = [{tuple(tokenizer.to_ids(text, target=True)) for text in texts} for texts in leaves]
        self.copied = all(len(symbols) == 1 for symbols in self.leaves)
        longest = [max(map(len, symbols)) for symbols in reversed(self.leaves)]
        self.rest = list(accumulate(longest, initial=0))[::-1]  # pieces that the words from the i-th on may need
        self.known = {(): (Written(), ())}
        marks = {symbol[0] for symbol in (self.close, *self.opens)}
        first = [i for i in range(len(tokenizer)) if tokenizer.processor.id_to_piece(i).startswith("▁")]
        self.word_pieces = torch.tensor([i for i in first if i not in marks])
        if not self.symbols(Written()):
            raise ValueError(f"no tree of {len(leaves)} words fits in {limit} pieces")

    def symbols(self, written: Written) -> set[tuple[int, ...]]:
        """The symbols that may come next, as pieces."""
        pieces, words, depth, filled = written
        if words == len(self.leaves):
            return {self.close} if depth else {self.end}
        room = self.limit - pieces - self.rest[words] - (depth + 1) * len(self.close) - len(self.end)
        found = {symbol for symbol in self.opens if len(symbol) <= room}
        found |= self.leaves[words] if depth else set()
        return found | ({self.close} if filled and depth > 1 else set())

    def after(self, written: Written, symbol: tuple[int, ...]) -> Written:
        """How far the tree is written with one more symbol."""
        pieces, words, depth, _ = written
        if symbol in (self.close, self.end):
            return Written(pieces + len(symbol), words, depth - 1, True)
        if symbol in self.opens:
            return Written(pieces + len(symbol), words, depth + 1, False)
        return Written(pieces + len(symbol), words + 1, depth, True)

    def read(self, tokens: tuple[int, ...]) -> tuple[Written, tuple[int, ...]]:
        """How far the tree is written, and the pieces of the symbol that may not be whole yet."""
        if tokens not in self.known:
            (written, begun), token = self.read(tokens[:-1]), tokens[-1]
            longer = (*begun, token)
            if not any(symbol[: len(longer)] == longer for symbol in self.symbols(written)):
                written, longer = self.after(written, begun), (token,)
            self.known[tokens] = written, longer
        return self.known[tokens]

    def allowed(self, tokens: Sequence[int]) -> set[int]:
        """The pieces that may come next: they go on with a symbol, or begin the one after it."""
        written, begun = self.read(tuple(tokens))
        symbols = self.symbols(written)
        found = {symbol[len(begun)] for symbol in symbols if symbol[: len(begun)] == begun != symbol}
        if begun in symbols:
            found |= {symbol[0] for symbol in self.symbols(self.after(written, begun))}
        return found

    def rescore(self, tokens: Sequence[int], scores: Float[Tensor, " vocab"]) -> Float[Tensor, " vocab"]:
        """The log-probabilities of what may come next; all else is impossible."""
        pieces = list(self.allowed(tokens))
        kept = torch.full_like(scores, -math.inf)
        kept[pieces] = scores[pieces]
        written, begun = self.read(tuple(tokens))
        if begun in self.symbols(written):
            written, begun = self.after(written, begun), ()
        if self.copied and written.words < len(self.leaves):
            (word,) = self.leaves[written.words]
            if begun and begun == word[: len(begun)]:
                kept[word[len(begun)]] = 0.0
            elif not begun and word[0] in pieces:
                kept[word[0]] = scores[self.word_pieces].logsumexp(dim=0)
        return kept


# book/63_constituency_parsing.ipynb#write-trees
def tree_symbols(trees: Iterable[Tree]) -> tuple[set[str], set[str]]:
    """The labels of the constituents in some trees, and the tags of their words (section 6.3).

    Defined in chapter 63: `write-trees`.
    """
    labels, tags = set(), set()
    for tree in trees:
        (tags if tree.word else labels).add(tree.label)
        for found, more in zip((labels, tags), tree_symbols(tree.children), strict=True):
            found |= more
    return labels, tags


def write_trees(
    translator: Translator,
    texts: Sequence[str],
    sentences: Sequence[Sequence[str]],
    labels: Collection[str],
    tags: Collection[str] | None = None,
    max_tokens: int = 400,
    **search,
) -> list[str]:
    """The best linearised tree for each text, whose words are `sentences`, by a beam that writes only trees (6.3).

    Without `tags` the model copies words. The search is that of `transduce`. Raises ValueError where no tree fits.

    Defined in chapter 63: `write-trees`.
    """
    options, model = PARSING_SEARCH | search, translator.model
    device = model.target_embedding.weight.device
    sources, outputs = translator.tokenize(texts), {}
    for batch in token_batches([(source, source) for source in sources], max_tokens):
        source = pad_sequences([sources[i] for i in batch], model.config.pad_id).to(device)
        rules = []
        for i, limit in zip(batch, output_limits(model, source, options["extra"]).tolist(), strict=True):
            leaves = [tags or {word} for word in sentences[i]]
            rules.append(TreeRules(translator.tokenizer, labels, leaves, limit))
        rescore = partial(follow, rules)
        found = beam_search(model, source, rescore=rescore, gain=0.0, **options)  # the rules only forbid
        for i, (best, *_) in zip(batch, found, strict=True):
            outputs[i] = translator.to_text(best).text
    return [outputs[i] for i in range(len(texts))]


def follow(rules: Sequence[TreeRules], row: int, prefix: list[int], scores: Tensor) -> Tensor:
    """The rules of each row, in the form that `beam_search` asks for.

    Defined in chapter 63: `write-trees`.
    """
    return rules[row].rescore(prefix, scores)
