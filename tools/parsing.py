"""Chapter 63: how its tasks are scored, and the parsers beside the Transformer: `python -m tools.parsing`.

The runs are experiments: `python -m tools.experiments tasks` for the embedded corpus, which also makes the shipped
parser, and `treebank` for NLTK's sample of the Penn Treebank, read from $ANNOTATED_DATA/ptb_sample/treebank.zip.
This command scores two simple parsers on the same sentences: one whose trees branch to the right, and a
probabilistic context-free grammar, which NLTK reads off the training trees and searches. That takes half an hour. Of
the treebank nothing is kept but scores and counts.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from annotated.base.corpus import Corpus, SentencePair
from annotated.base.files import InputError, write_json
from annotated.machine.acceleration import tune_machine
from annotated.machine.devices import describe_machine
from annotated.model import Transformer
from annotated.parsing import (
    Outcome,
    Parse,
    Tree,
    bracket_f1,
    count_words,
    parse_brackets,
    parse_outcome,
    read_tree,
    total_scores,
)
from annotated.runs.checkpoint import save_model
from annotated.search.translation import Translator
from annotated.search.trees import PARSING_SEARCH, transduce, tree_symbols, write_trees
from annotated.text.corpora import load_corpus
from annotated.text.grammar.splits import corpus_fingerprint
from annotated.text.tokenization import Tokenizer
from annotated.text.treebank import TASKS, TREEBANK_SPLITS, read_treebank, task_corpus, treebank_corpus, treebank_path
from tools import ROOT
from tools.tasks import OUTCOMES, TARGETS

LONGEST = 20  # words of the sentences that the grammar parses; its time grows with their cube
TRIED_ON = 12  # words of those that it is chosen on
RARE = 1  # words seen so often in training, or less, count by their shape
TASKS.update(TARGETS)


# The tasks of the Transformer


def corpus_of(name: str, pairs: int | None = None, copied: bool = True) -> Corpus:
    """The corpus of that name, also those of chapter 63; `pairs` limits the embedded splits."""
    if name == "treebank":
        return treebank_corpus(copied=copied)
    return task_corpus(name, pairs) if name in TASKS else load_corpus(name)


def outcomes_of(task: str, pairs: Sequence[SentencePair], outputs: Sequence[str]) -> list[Outcome]:
    """What each output says, beside the truth."""

    def parsed(pair: SentencePair, output: str) -> Outcome:
        gold = read_tree(pair.tree)
        return parse_outcome(gold, parse_brackets(output, gold.words()))

    judge: Callable = OUTCOMES.get(task, parsed)
    return [judge(pair, output) for pair, output in zip(pairs, outputs, strict=True)]


def scores_of_task(
    translator: Translator, corpus: Corpus, searches: Iterable[dict[str, Any]], copied: bool, sentences: int
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Scores, and outputs, of the searches: each has a split and a beam, and with `rules` it writes only trees."""
    scores, texts = {}, {}
    for search in searches:
        pairs, beam = corpus.split(search["split"])[:sentences], search["beam"]
        sources, start = [pair.source for pair in pairs], time.perf_counter()
        gold = [read_tree(pair.tree) for pair in pairs]
        if search.get("rules"):
            trees = [read_tree(pair.tree) for pair in corpus.split("train")[:5000]]
            labels, tags = tree_symbols(trees)
            words = [tree.words() for tree in gold]
            outputs = write_trees(translator, sources, words, labels, None if copied else tags, beam_size=beam)
        else:
            outputs = transduce(translator, sources, beam_size=beam)
        name = f"{search['split']}-{beam}" + ("-rules" if search.get("rules") else "")
        outcomes, texts[name] = outcomes_of(corpus.name, pairs, outputs), outputs
        found = asdict(total_scores(outcomes)) | {"seconds": round(time.perf_counter() - start, 1)}
        found["problems"] = dict(Counter(problem for outcome in outcomes for problem in sorted(outcome.problems)))
        if corpus.name == "treebank":
            found["by_sentence"] = [by_sentence(tree, outcome) for tree, outcome in zip(gold, outcomes, strict=True)]
        scores[name] = found
    return scores, texts


def by_sentence(tree: Tree, outcome: Outcome) -> tuple[int | bool, ...]:
    """Words without punctuation; gold, found and right brackets; malformed; and whether that left no tree."""
    counts = (side.total() for side in (outcome.gold, outcome.found, outcome.gold & outcome.found))
    return count_words(tree), *counts, bool(outcome.problems), "number of words" in outcome.problems


def ship(model: Transformer, tokenizer: Tokenizer, folder: Path, **notes: Any) -> Translator:
    """Save a parser in half precision, with the search of section 6.3 as its own; return it as saved."""
    search = {"beam_size": PARSING_SEARCH["beam_size"], "length_penalty": PARSING_SEARCH["length_penalty"]}
    about = {"corpus": "parsing", "source": "en", "target": "parsing", **notes, "search": search}
    save_model(folder, model, tokenizer, dtype=torch.float16, **about, corpus_version=corpus_fingerprint())
    return Translator.load(folder, "cpu")


# Two simple parsers


class RightBranching:
    """Every word but the last begins a constituent that runs to the end; its label is the commonest for that word."""

    def __init__(self, trees: Sequence[Tree]):
        self.seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for tree in trees:
            self.count(tree, tree.words(), 0)
        total = sum(self.seen.values(), Counter())
        self.common = total.most_common(1)[0][0]

    def count(self, node: Tree, words: Sequence[str], start: int) -> int:
        """Count the constituents that begin after the first word and run to the last one or the mark after it."""
        end = start + 1 if node.word else start
        for child in node.children:
            end = self.count(child, words, end)
        if not node.word and start > 0 and end >= len(words) - 1:
            self.seen[words[start]][node.label] += 1
        return end

    def parse(self, tree: Tree) -> Parse:
        """The tree of the words of `tree`: the first word, the rest, and the last mark hang from one S."""
        *leaves, last = tree.leaves()
        if len(leaves) < 2:
            return Parse(Tree("S", (*leaves, last)))
        node = leaves[-1]
        for leaf in reversed(leaves[1:-1]):
            label = self.seen[leaf.word].most_common(1)[0][0] if leaf.word in self.seen else self.common
            node = Tree(label, (leaf, node))
        return Parse(Tree("S", (leaves[0], node, last)))


def shape(word: str) -> str:
    """What a word that was seen too rarely counts as: its capital, digits, hyphen and ending."""
    marks = [
        "digit" if re.search(r"\d", word) else "capital" if word[0].isupper() else "",
        "hyphen" if "-" in word[1:-1] else "",
        next((ending for ending in ("ing", "ed", "ly", "er", "s") if word.endswith(ending)), ""),
    ]
    return "-".join(["RARE", *filter(None, marks)])


class TreebankGrammar:
    """A probabilistic context-free grammar read off trees by NLTK: chains in one label, rules of two parts."""

    def __init__(self, trees: Sequence[Tree], context: int, parents: int):
        """`context` is how many sisters a new label remembers, `parents` how many labels above it it carries."""
        from nltk import Nonterminal, induce_pcfg

        counts = Counter(word for tree in trees for word in tree.words())
        self.known = {word for word, count in counts.items() if count > RARE}
        self.top, rules = Nonterminal("TOP"), []
        for tree in trees:
            binary = self.to_nltk(Tree("TOP", (tree,)))
            binary.collapse_unary()
            binary.chomsky_normal_form(horzMarkov=context, vertMarkov=parents)
            rules += binary.productions()
        self.inner, self.words = [], defaultdict(list)
        for rule in induce_pcfg(self.top, rules).productions():
            self.words[rule.rhs()[0]].append(rule) if rule.is_lexical() else self.inner.append(rule)

    def seen_as(self, word: str) -> str:
        return word if word in self.known else shape(word)

    def to_nltk(self, tree: Tree) -> Any:
        from nltk import Tree as Bracket

        parts = [self.seen_as(tree.word)] if tree.word else [self.to_nltk(child) for child in tree.children]
        return Bracket(tree.label, parts)

    def parse(self, tree: Tree) -> Parse:
        """The likeliest tree of the words of `tree`, with no brackets where the grammar has none."""
        from nltk.grammar import PCFG
        from nltk.parse import ViterbiParser

        seen = [word if word in self.words else "RARE" for word in map(self.seen_as, tree.words())]
        if not all(word in self.words for word in seen):
            return Parse(None, frozenset({"no tree"}))
        rules = [*self.inner, *(rule for word in sorted(set(seen)) for rule in self.words[word])]
        grammar = PCFG.__new__(PCFG)  # its own start would check that all rules of a left side sum to 1
        super(PCFG, grammar).__init__(self.top, rules, calculate_leftcorners=False)
        for found in ViterbiParser(grammar, max_time=None).parse(seen):
            found.un_chomsky_normal_form()
            return Parse(from_nltk(found[0], iter(tree.words())))
        return Parse(None, frozenset({"no tree"}))


def from_nltk(bracket: Any, words: Any) -> Tree:
    if isinstance(bracket[0], str):
        return Tree(bracket.label(), word=next(words))
    return Tree(bracket.label(), tuple(from_nltk(part, words) for part in bracket))


def parse_in_process(setting: tuple[int, int], tree: Tree, grammars: dict = {}) -> Parse:  # noqa: B006 (made once)
    if setting not in grammars:
        torch.set_num_threads(1)
        grammars[setting] = TreebankGrammar(read_treebank(treebank_path(), TREEBANK_SPLITS["train"]), *setting)
    return grammars[setting].parse(tree)


def baselines(pool: ProcessPoolExecutor) -> dict[str, Any]:
    """The scores of both parsers; of three grammars the one with the best F1 on short sentences of valid goes on."""
    trees = {split: read_treebank(treebank_path(), documents) for split, documents in TREEBANK_SPLITS.items()}
    short = {split: [tree for tree in trees[split] if count_words(tree) <= LONGEST] for split in ("valid", "test")}
    simple, branching, tried = RightBranching(trees["train"]), {}, {}
    for split in short:
        for name, some in (("all", trees[split]), (f"at most {LONGEST} words", short[split])):
            branching[f"{split}, {name}"] = asdict(bracket_f1(some, [simple.parse(tree) for tree in some]))
    for setting in ((1, 0), (2, 0), (2, 1)):
        shorter = [tree for tree in short["valid"] if count_words(tree) <= TRIED_ON]
        parses = list(pool.map(partial(parse_in_process, setting), shorter))
        tried[setting] = asdict(bracket_f1(shorter, parses)) | {"setting": setting}
        print(setting, tried[setting], flush=True)
    best = max(tried, key=lambda setting: tried[setting]["f1"])
    parses = list(pool.map(partial(parse_in_process, best), short["test"]))
    scores = asdict(bracket_f1(short["test"], parses)) | {"setting": best}
    return {"right_branching": branching, "grammar": {"valid": list(tried.values()), "test": scores}}


def corpus_sizes() -> dict[str, dict[str, int]]:
    """Sentences, words without punctuation and symbols of the treebank's parts: counts only."""
    corpus, sizes = treebank_corpus(copied=False), {}
    for split in ("train", "valid", "test"):
        pairs = corpus.split(split)
        counts = [count_words(read_tree(pair.tree)) for pair in pairs]
        symbols = sum(len(pair.target.split()) for pair in pairs)
        sizes[split] = {"sentences": len(pairs), "words": sum(counts), "symbols": symbols, "longest": max(counts)}
    return sizes


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.parsing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args(arguments)
    tune_machine()
    try:
        sizes = corpus_sizes()
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    torch.set_num_threads(1)  # as in the processes
    record = {"command": "python -m tools.parsing", **describe_machine(torch.device("cpu")), "sizes": sizes}
    with ProcessPoolExecutor(2) as pool:
        record |= baselines(pool)
    write_json(ROOT / "data" / "runs" / "treebank" / "baselines.json", record)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
