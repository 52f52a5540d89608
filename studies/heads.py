"""What each head is worth, for chapter 80: `python -m studies.heads` measures the shipped model.

For the 600 sentences of the split `pronoun` it reads the German up to the pronoun and chooses among er, sie and es;
beside it stands the share of other tokens that are still predicted. Every head and every pair of heads is silenced, by
zero and by its mean over the validation split. Each share has its standard error: of the difference from the untouched
model, over pairs of twins. `python -m studies.heads means` writes the heads' means alone, for the page.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections import defaultdict
from typing import Any

import numpy as np

from annotated.base.corpus import SentencePair
from annotated.drawing.visualization import sentence_maps
from annotated.interventions import HeadMeans, attentions, head_means, silenced
from annotated.model import Transformer
from annotated.runs.examples import batch_all, tokenize_pairs
from annotated.search.translation import Translator
from annotated.text.grammar.splits import corpus_fingerprint, embedded_split
from annotated.text.tokenization import Tokenizer
from studies.common import begin, keep
from tools.case import SENTENCES, Pronouns, share

Head = tuple[str, int, int]
RULES_ON = 150  # sentences of the test split


def all_heads(model: Transformer) -> list[Head]:
    return [
        (kind, layer, head)
        for kind, modules in attentions(model).items()
        for layer, module in enumerate(modules)
        for head in range(module.num_heads)
    ]


def silencings(task: Pronouns, means: Any) -> dict[str, Any]:
    """Every head and every pair silenced; of a pair also what it costs more than the two alone, with its error."""
    untouched, heads, found = task.right(), all_heads(task.model), {}
    for name, by in (("zero", None), ("mean", means)):
        alone = {}
        for head in heads:
            with silenced(task.model, [head], by=by):
                alone[head] = task.right()
        pairs = []
        for one, other in itertools.combinations(heads, 2):
            with silenced(task.model, [one, other], by=by):
                both = task.right()
            extra = alone[one] + alone[other] - untouched - both  # cost of both, less the two costs
            pairs.append([heads.index(one), heads.index(other), *share(both, untouched), *share(extra)])
        found[name] = {"alone": [share(alone[head], untouched) for head in heads], "pairs": pairs}
    return {"heads": [list(head) for head in heads], "untouched": share(untouched)} | found


def rules(pair: SentencePair) -> dict[str, dict[int, int]]:
    """For each rule, the word that it points to from each word of the source that it has an answer for."""
    tags = re.findall(r"\((\S+) [^\s()]+\)", pair.tree)
    nouns = [at for at, tag in enumerate(tags) if tag.startswith("NN")]
    verbs = [at for at, tag in enumerate(tags) if tag.startswith(("VB", "MD"))]
    articles = [at for at, tag in enumerate(tags) if tag == "DT" and nouns and nouns[-1] > at]
    return {
        "itself": {at: at for at in range(len(tags))},
        "word before": {at: at - 1 for at in range(1, len(tags))},
        "word after": {at: at + 1 for at in range(len(tags))},
        "article's noun": {at: next(noun for noun in nouns if noun > at) for at in articles},
        "noun's verb": {at: max(verb for verb in verbs if verb < at) for at in nouns if verbs and verbs[0] < at},
    }


def fits(model: Transformer, tokenizer: Tokenizer) -> dict[str, Any]:
    """How often each head of the encoder has its largest weight where a rule points, and the trivial rules beside it.

    `beside` asks, for the words that a rule of grammar has an answer for, how often a trivial rule gives the same one.
    """
    hits, beside = defaultdict(list), defaultdict(list)
    for pair in embedded_split("test")[:RULES_ON]:
        largest = sentence_maps(model, tokenizer, pair.source, pair.target)["encoder"].argmax(axis=-1)
        answers = rules(pair)
        for name, links in answers.items():
            hits[name] += [largest[:, :, query] == key for query, key in links.items()]
        for name in ("article's noun", "noun's verb"):
            for trivial in ("word before", "word after"):
                beside[f"{name}, {trivial}"] += [
                    answers[trivial].get(query) == key for query, key in answers[name].items()
                ]
    return {
        "heads": {name: np.mean(found, axis=0).round(4).tolist() for name, found in hits.items()},
        "answers": {name: len(found) for name, found in hits.items()},
        "beside": {name: round(float(np.mean(found)), 4) for name, found in beside.items()},
    }


def on_the_nouns(model: Transformer, tokenizer: Tokenizer, count: int) -> dict[str, Any]:
    """For each head of the encoder: the pronoun's weight on one noun, how often that is right, and the nearer one."""
    pairs = embedded_split("pronoun")[:count]
    found, near = [], []
    for n, pair in enumerate(pairs):
        (it, noun), (_, rival) = pair.antecedents[-1], pairs[n ^ 1].antecedents[-1]
        row = sentence_maps(model, tokenizer, pair.source, pair.target)["encoder"][:, :, it]
        found.append([row[..., noun], row[..., rival]])
        near.append(noun > rival)
    weights, nearer = np.array(found), np.array(near)
    right = weights[:, 0] > weights[:, 1]
    return {
        "sharpest": weights.max(axis=1).mean(axis=0).round(4).tolist(),
        "right": right.mean(axis=0).round(4).tolist(),
        "nearer": (right == nearer[:, None, None]).mean(axis=0).round(4).tolist(),
        "always the nearer": round(float(nearer.mean()), 4),
    }


def means_of(model: Transformer, tokenizer: Tokenizer) -> HeadMeans:
    """What each head puts out on average on the validation split."""
    return head_means(
        model, batch_all(tokenize_pairs(tokenizer, embedded_split("valid"), model.config.max_length), 4096)
    )


def measure(model: Transformer, tokenizer: Tokenizer, sentences: int = SENTENCES) -> dict[str, Any]:
    """Everything that chapter 80 says of heads, for one model."""
    model = model.eval()
    task = Pronouns(model, tokenizer, embedded_split("pronoun")[:sentences])
    return {
        "sentences": sentences,
        "silenced": silencings(task, means_of(model, tokenizer)),
        "rules": fits(model, tokenizer),
        "nouns": on_the_nouns(model, tokenizer, sentences),
    }


def main(arguments: list[str], sentences: int = SENTENCES) -> None:
    """Measure the shipped model, or with `means` write what each of its heads puts out on average."""
    if arguments not in ([], ["means"]):
        sys.exit(__doc__)
    begin()
    translator = Translator.load("embedded", "cpu", accelerated=False)
    about = {"model": "embedded", "corpus_version": corpus_fingerprint()}
    if arguments == ["means"]:
        means = means_of(translator.model, translator.tokenizer)
        found = {
            name: [[[round(x, 6) for x in head] for head in layer] for layer in means[name].tolist()] for name in means
        }
    else:
        found = measure(translator.model, translator.tokenizer, sentences)
    keep(f"heads/{'means' if arguments else 'shipped'}.json", ["heads", *arguments], about | found)


if __name__ == "__main__":
    main(sys.argv[1:])
