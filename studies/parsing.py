"""How the parsers of chapter 63 are scored: the scores of `python -m tools.experiments tasks`, and of `treebank`.

The first also makes the shipped parser. The second reads NLTK's sample of the Penn Treebank from
$ANNOTATED_DATA/ptb_sample/treebank.zip, and keeps nothing of it but scores and counts.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from annotated.base.corpus import Corpus
from annotated.base.files import write_atomically
from annotated.parsing import Outcome, Tree, count_words, parse_brackets, parse_outcome, read_tree, total_scores
from annotated.runs.checkpoint import save_model
from annotated.runs.state import TrainingState
from annotated.search.translation import Translator
from annotated.search.trees import PARSING_SEARCH, transduce, tree_symbols, write_trees
from annotated.text.grammar.splits import corpus_fingerprint
from annotated.text.tokenization import Tokenizer
from annotated.text.treebank import TASKS
from tools import experiments


def judge(
    plan: Mapping[str, Any], path: Path, state: TrainingState, tokenizer: Tokenizer, corpus: Corpus
) -> dict[str, Any]:
    """Scores of each search of the plan; outputs go beside the record, and a parser may be shipped first.

    A search has a split and a beam; with `rules` it writes only trees.
    """
    translator, scores = Translator(state.model, tokenizer), {}
    if path.stem in plan.get("ship", {}):
        folder = experiments.WORK / path.parent.name / path.stem / "model"  # to be copied to where the plan says
        translator = ship(state, tokenizer, folder)
    for search in plan["searches"]:
        begun, pairs = time.perf_counter(), corpus.split(search["split"])[: plan["sentences"]]
        gold = [read_tree(pair.tree) for pair in pairs]
        outputs = searched(translator, corpus, [pair.source for pair in pairs], gold, search, plan.get("copied", True))
        outcomes = [parse_outcome(tree, parse_brackets(text, tree.words())) for tree, text in zip(gold, outputs)]
        found = asdict(total_scores(outcomes)) | {"seconds": round(time.perf_counter() - begun, 1)}
        found["problems"] = dict(Counter(problem for outcome in outcomes for problem in sorted(outcome.problems)))
        name = f"{search['split']}-{search['beam']}" + ("-rules" if search.get("rules") else "")
        if corpus.name in TASKS:  # the treebank's words are not ours
            lines = "".join(f"{text}\n" for text in outputs)
            write_atomically(path.with_name(f"{path.stem}-{name}.txt"), lines.encode())
        else:
            found["by_sentence"] = [by_sentence(tree, outcome) for tree, outcome in zip(gold, outcomes, strict=True)]
        scores[name] = found
    return scores


def searched(
    translator: Translator,
    corpus: Corpus,
    sources: list[str],
    gold: list[Tree],
    search: Mapping[str, Any],
    copied: bool,
) -> list[str]:
    """What the search writes; `copied` says whether words stand in the trees, or tags alone."""
    if not search.get("rules"):
        return transduce(translator, sources, beam_size=search["beam"])
    labels, tags = tree_symbols([read_tree(pair.tree) for pair in corpus.split("train")[:5000]])
    words = [tree.words() for tree in gold]
    return write_trees(translator, sources, words, labels, None if copied else tags, beam_size=search["beam"])


def by_sentence(tree: Tree, outcome: Outcome) -> tuple[int | bool, ...]:
    """Words without punctuation; gold, found and right brackets; malformed; and whether that left no tree."""
    counts = (side.total() for side in (outcome.gold, outcome.found, outcome.gold & outcome.found))
    return count_words(tree), *counts, bool(outcome.problems), "number of words" in outcome.problems


def ship(state: TrainingState, tokenizer: Tokenizer, folder: Path) -> Translator:
    """Save a parser in half precision, with the search of section 6.3 as its own; return it as saved."""
    search = {name: PARSING_SEARCH[name] for name in ("beam_size", "length_penalty")}
    about = {"corpus": "parsing", "source": "en", "target": "parsing", "search": search, "step": state.step}
    about |= {"valid_loss": state.history[-1]["valid_loss"], "corpus_version": corpus_fingerprint()}
    save_model(state.model, folder, tokenizer, dtype=torch.float16, **about)
    return Translator.load(folder, "cpu")
