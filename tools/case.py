"""What *it* means, in three models that were trained alike: `python -m tools.case`, for the chapters of the case.

The first model is the shipped one, the others are those that `python -m tools.experiments case` keeps. Asked are 600
sentences of the split `pronoun`, twins that differ in an adjective: a model reads the German up to the pronoun, and
chooses among er, sie and es. Recorded is

- what can be read, by a linear probe that is fitted on sentences of the training split, at *it* and where the pronoun
  will be written, after every sub-layer; and what the output matrix reads there;
- how many pronouns are right when no attention leads from one group of words to another (an arrow is cut), each arrow
  alone and in pairs, and when the decoder may look at nothing but one group;
- how many follow a noun that has another gender from the start: to its row of the embedding the difference between the
  mean rows of two genders is added, without its own row;
- how many turn when the vectors of a group are the twin's: in the encoder, and at each of the decoder's two doors;
- apart from these, with `--others`, the cuts once more for four kinds of other words, and for the German that has been
  written when the pronoun is due;
- with `--outsiders`, how many pronouns are right in 60 twins that were written from the words of the
  grammar alone, without sight of its rules.

Words are swapped by word, since adjectives have different numbers of tokens. Each share has its standard error, of the
difference from the untouched model, over pairs of twins.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from annotated.base.corpus import SentencePair
from annotated.base.files import read_tensors, write_json
from annotated.batching import pad_sequences
from annotated.drawing.visualization import word_of_piece
from annotated.interventions import Place, attentions, edited
from annotated.machine.acceleration import tune_machine
from annotated.machine.devices import describe_machine
from annotated.masks import causal_mask, padding_mask
from annotated.model import Transformer
from annotated.runs.checkpoint import load_weights
from annotated.search.translation import Translator
from annotated.text.corpora import generated
from annotated.text.grammar.splits import corpus_fingerprint, embedded_split
from annotated.text.grammar.words import NOUN_ENTRIES, words
from annotated.text.tokenization import Tokenizer, tokenize
from tools import ROOT

FOLDER = ROOT / "data" / "runs" / "case"
MODELS = {1: "", 2: "base-2.safetensors", 3: "base-3.safetensors"}  # the first is the shipped one
SENTENCES = 600  # of the split pronoun: 300 pairs of twins
FITTED_ON = 4000  # training sentences for the probes
GROUPS = ("adjective", "nouns", "it", "others")  # of words; every word is in one of them
OPEN = [*((group,) for group in GROUPS[:3]), *itertools.combinations(GROUPS[:3], 2), ("it", "end")]  # and nothing else
DECIDED = "pronoun decided by an adjective"
GENDERS = {"er": "m", "ihn": "m", "sie": "f", "ihr": "f", "es": "n"}  # of German pronouns; ihm is of two
EXPLAINED = {"he": "m", "she": "f", "they": "f", "there": "n"}  # English words for which there is such a pronoun, too


class Pronouns:
    """Sentences with a pronoun that stands for a noun, ready to ask a model for genders and for all other tokens."""

    def __init__(self, model: Transformer, tokenizer: Tokenizer, pairs: Sequence[SentencePair]):
        self.model, count = model, len(pairs)
        self.sources = tokenize(tokenizer, [pair.source for pair in pairs])
        targets = tokenize(tokenizer, [pair.target for pair in pairs], target=True)
        its = [pair.antecedents[-1][0] for pair in pairs]  # words; what follows are tokens
        german = [dict(pair.alignment)[it] for pair, it in zip(pairs, its, strict=True)]
        self.words = [word_of_piece(tokenizer, pair.source) for pair in pairs]  # of every token of the source
        self.its = torch.tensor([known.index(it) for known, it in zip(self.words, its, strict=True)])
        known = [word_of_piece(tokenizer, pair.target, target=True) for pair in pairs]
        self.pronouns = torch.tensor([words.index(word) for words, word in zip(known, german, strict=True)])
        self.genders = torch.tensor([tokenize(tokenizer, [f"X {word}"])[0][-2] for word in ("er", "sie", "es")])
        self.source = pad_sequences(self.sources, model.config.pad_id)
        self.wanted = pad_sequences(targets, model.config.pad_id)
        self.own = self.wanted[torch.arange(count), self.pronouns]
        starts = [[model.config.start_id, *target[:-1]] for target in targets]
        self.read = pad_sequences(starts, model.config.pad_id)

    @torch.no_grad()
    def logits(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of every token, and the gender that the model chooses for each sentence."""
        logits = self.model(self.source[rows], self.read[rows])
        asked = logits[torch.arange(len(rows)), self.pronouns[rows]]
        return logits, self.genders[asked[:, self.genders].argmax(-1)]

    def right(self, step: int = 150) -> np.ndarray:
        """For each sentence, whether the pronoun's gender is right and the share of other tokens that are."""
        found = []
        for rows in torch.arange(len(self.source)).split(step):
            (logits, chosen), wanted = self.logits(rows), self.wanted[rows]
            other = (wanted != self.model.config.pad_id).scatter(1, self.pronouns[rows, None], False)
            hits = ((logits.argmax(-1) == wanted) & other).sum(1) / other.sum(1)
            found.append(torch.stack([(chosen == self.own[rows]).float(), hits], dim=1))
        return torch.cat(found).numpy()

    def choices(self) -> Tensor:
        """The gender that the model chooses for each sentence, as a token, all in one batch."""
        return self.logits(torch.arange(len(self.source)))[1]


def share(values: np.ndarray, untouched: np.ndarray | None = None) -> list[list[float]]:
    """Means, and the standard errors of their differences from `untouched`, over pairs of twins."""
    compared = values if untouched is None else values - untouched
    twins = compared.reshape(-1, 2, values.shape[-1]).mean(axis=1)
    errors = twins.std(axis=0, ddof=1) / np.sqrt(len(twins))
    return np.stack([values.mean(axis=0), errors], axis=1).round(5).tolist()


class Twins(Pronouns):
    """Sentences whose pronoun an adjective decides, each beside its twin; their words in groups."""

    def __init__(self, model: Transformer, tokenizer: Tokenizer, pairs: Sequence[SentencePair]):
        super().__init__(model, tokenizer, pairs)
        self.groups = [divided(pair, pairs[n ^ 1]) for n, pair in enumerate(pairs)]
        self.twins = torch.arange(len(pairs)) ^ 1
        self.real = self.source != model.config.pad_id
        self.due = nn.functional.one_hot(self.pronouns, self.read.shape[1]).bool()  # where the pronoun will be written
        self.depth = len(model.decoder.layers)
        with torch.no_grad():
            self.untouched = self.written([self.encoded()] * self.depth)

    def tokens(self, *groups: str) -> Tensor:
        """Which tokens belong to these groups: (sentence, source)."""
        chosen = [set().union(*(known[name] for name in groups)) for known in self.groups]
        rows = [[int(word in wanted) for word in line] for line, wanted in zip(self.words, chosen, strict=True)]
        return pad_sequences(rows, 0).bool()

    def answers(self, x: Tensor) -> Tensor:
        """From vectors where the pronoun is due: whether the right gender leads, and whether the twin's does."""
        chosen = self.genders[self.model.output(x)[:, self.genders].argmax(-1)]
        return torch.stack([chosen == self.own, chosen == self.own[self.twins]], dim=1).float()

    def chosen(self) -> list[list[float]]:
        """`shares` of the model as it stands."""
        return self.shares([self.encoded()] * self.depth)

    def encoded(self) -> tuple[Tensor, Tensor]:
        """The encoder's output, and which of its places are real."""
        return self.model.encode(self.source, self.real[:, None, None]), self.real

    def shares(self, memories: Sequence[tuple[Tensor, Tensor]]) -> list[list[float]]:
        """The shares of right genders and of the twin's, with the standard errors of what differs from `untouched`."""
        return share(self.written(memories).numpy(), self.untouched.numpy())

    def written(self, memories: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """The answers of the decoder, whose layers have a memory each."""
        return self.answers(self.asked(memories))

    def asked(self, memories: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """The last vectors of the decoder where the pronoun is due."""
        model = self.model
        seen = causal_mask(self.read.shape[1]) & padding_mask(self.read, model.config.pad_id)
        y = model.embed(model.target_embedding, model.target_positions, self.read)
        for layer, (memory, real) in zip(model.decoder.layers, memories, strict=True):
            y = layer(y, memory, seen, real[:, None, None])
        return y[self.due]


def divided(pair: SentencePair, twin: SentencePair) -> dict[str, set[int]]:
    """The words of each group; beside GROUPS the noun that the pronoun means, its rival, and the end."""
    (it, noun), (_, rival), every = pair.antecedents[-1], twin.antecedents[-1], [*words(pair.source), "</s>"]
    adjective = next(n for n, (own, other) in enumerate(zip(every, words(twin.source))) if own != other)
    others = set(range(len(every))) - {it, noun, rival, adjective}
    found = {"adjective": {adjective}, "nouns": {noun, rival}, "it": {it}, "others": others}
    return found | {"noun": {noun}, "rival": {rival}, "end": {len(every) - 1}}


# What can be read


def stations(task: Pronouns) -> dict[str, Tensor]:
    """The vectors of *it*, and where the pronoun will be written, after every sub-layer: (sentence, d_model) each."""
    model, rows, found = task.model, torch.arange(len(task.its)), {}
    real = padding_mask(task.source, model.config.pad_id)
    seen = causal_mask(task.read.shape[1]) & padding_mask(task.read, model.config.pad_id)
    x = model.embed(model.source_embedding, model.source_positions, task.source)
    found["it: embedding"] = x[rows, task.its]
    for n, layer in enumerate(model.encoder.layers, start=1):
        x = layer.around_self_attention(x, lambda y, own=layer: own.self_attention(y, y, real))
        found[f"it: layer {n}, attention"] = x[rows, task.its]
        x = layer.around_feed_forward(x, layer.feed_forward)
        found[f"it: layer {n}, feed-forward"] = x[rows, task.its]
    y = model.embed(model.target_embedding, model.target_positions, task.read)
    found["pronoun: embedding"] = y[rows, task.pronouns]
    for n, layer in enumerate(model.decoder.layers, start=1):
        y = layer.around_self_attention(y, lambda z, own=layer: own.self_attention(z, z, seen))
        found[f"pronoun: layer {n}, self-attention"] = y[rows, task.pronouns]
        y = layer.around_cross_attention(y, lambda z, own=layer: own.cross_attention(z, x, real))
        found[f"pronoun: layer {n}, cross-attention"] = y[rows, task.pronouns]
        y = layer.around_feed_forward(y, layer.feed_forward)
        found[f"pronoun: layer {n}, feed-forward"] = y[rows, task.pronouns]
    return found


def probe(known: Tensor, answers: Tensor, asked: Tensor) -> Tensor:
    """The answer, as a number, for each vector asked: multinomial logistic regression, fitted on the known ones."""
    mean, spread = known.mean(dim=0), known.std(dim=0) + 1e-6
    x = (known - mean) / spread
    weight = torch.zeros(x.shape[1] + 1, int(answers.max()) + 1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        total = nn.functional.cross_entropy(x @ weight[1:] + weight[0], answers) + 1e-3 * weight[1:].square().sum()
        total.backward()
        return total

    optimizer.step(loss)
    return (((asked - mean) / spread) @ weight[1:] + weight[0]).argmax(dim=-1).detach()


def readings(task: Twins, known: Pronouns) -> dict[str, Any]:
    """The shares of sentences whose gender a probe, and the output matrix, read at each station."""
    with torch.no_grad():
        fitted, asked = stations(known), stations(task)
    numbers = {int(gender): n for n, gender in enumerate(task.genders)}
    answers = torch.tensor([numbers[int(gender)] for gender in known.own])
    found: dict[str, Any] = {}
    for name, x in asked.items():
        guessed = task.genders[probe(fitted[name], answers, x)]
        found[name] = {"probe": share((guessed == task.own).float()[:, None].numpy())[0]}
        if name.startswith("pronoun"):
            with torch.no_grad():
                found[name]["output matrix"] = share(task.answers(x)[:, :1].numpy())[0]
    return found


# What the rows hold


def regendered(task: Twins, tokenizer: Tokenizer, pairs: Sequence[SentencePair]) -> dict[str, Any]:
    """Where the pronoun goes when the row of its noun, or of the rival, gets each of the two other genders.

    Of each: the shares that follow into the new gender, that stay with the right one, and that take the twin's.
    """
    found: dict[str, Any] = {}
    for which in ("noun", "rival"):
        answers = []
        for x, wanted, fitting, nouns in rewritten(task, tokenizer, pairs, which):
            vectors = task.asked([(x, task.real)] * task.depth)
            follows = (task.genders[task.model.output(vectors)[:, task.genders].argmax(-1)] == wanted).float()[:, None]
            answers.append(torch.cat([follows, task.answers(vectors)], dim=1)[fitting])
            found |= {"sentences": len(fitting), "nouns": nouns}
        found[which] = share(torch.stack(answers).mean(dim=0).numpy())
    return found


def rewritten(
    task: Twins, tokenizer: Tokenizer, pairs: Sequence[SentencePair], which: str
) -> Iterator[tuple[Tensor, Tensor, list[int], int]]:
    """The encoder's output when the row of a noun gets another gender, and that gender, for each of the two others.

    Also which sentences can be asked, those both of whose nouns are single tokens, and how many such nouns there are.
    """
    model, processor = task.model, tokenizer.processor
    ids = {noun.english: processor.piece_to_id("\u2581" + noun.english) for noun in NOUN_ENTRIES}
    single = {
        noun.english: "mfn".index(noun.gender) for noun in NOUN_ENTRIES if ids[noun.english] != processor.unk_id()
    }
    rows = model.source_embedding(torch.tensor([[ids[word] for word in single]]))[0]  # times the root of d_model
    of_gender = nn.functional.one_hot(torch.tensor(list(single.values())), 3).float()
    total, count = of_gender.T @ rows, of_gender.sum(dim=0)
    named = [words(pair.source) for pair in pairs]
    fitting = [n for n, known in enumerate(task.groups) if all(named[n][word] in single for word in known["nouns"])]
    numbers = {word: n for n, word in enumerate(single)}
    for step in (1, 2):
        moves, wanted = torch.zeros(len(pairs), rows.shape[1]), torch.zeros(len(pairs), dtype=torch.long)
        for n in fitting:
            (word,) = task.groups[n][which]
            number, old = numbers[named[n][word]], single[named[n][word]]
            new = wanted[n] = (old + step) % 3
            moves[n] = total[new] / count[new] - (total[old] - rows[number]) / (count[old] - 1)
        x = model.embed(model.source_embedding, model.source_positions, task.source)
        x = x + task.tokens(which)[:, :, None] * moves[:, None]
        for layer in model.encoder.layers:
            x = layer(x, task.real[:, None, None])
        yield x, task.genders[wanted], fitting, len(single)


# What is needed: arrows cut


Arrow = tuple[str, int, str, str]  # encoder or cross, a layer from 1, from which words, to which


def arrows(model: Transformer) -> list[Arrow]:
    """Every arrow from one group to another in the encoder, and from each to the pronoun's place in the decoder."""
    found = [
        ("encoder", n + 1, *ends)
        for n in range(len(model.encoder.layers))
        for ends in itertools.permutations(GROUPS, 2)
    ]
    return found + [("cross", n + 1, group, "pronoun") for n in range(len(model.decoder.layers)) for group in GROUPS]


def gone(task: Twins, arrow: Arrow) -> dict[Place, Tensor]:
    """Which weights an arrow is made of: (sentence, query, key)."""
    kind, layer, start, end = arrow
    queries = task.due if kind == "cross" else task.tokens(end)
    return {(kind, layer - 1): queries[:, :, None] & task.tokens(start)[:, None]}


def without(lost: Tensor, weights: Tensor) -> Tensor:
    """The weights without those that are lost; the others of the row share what these had."""
    kept = weights.masked_fill(lost[:, None], 0.0)
    return kept / kept.sum(dim=-1, keepdim=True).clamp_min(1e-9)


def cut(task: Twins, lost: Sequence[Mapping[Place, Tensor]]) -> list[list[float]]:
    """The shares chosen without these weights."""
    together: dict[Place, Tensor] = {}
    for one in lost:
        for place, mask in one.items():
            together[place] = together[place] | mask if place in together else mask
    with edited(task.model, weights={place: partial(without, mask) for place, mask in together.items()}):
        return task.chosen()


def cuts(task: Twins) -> dict[str, Any]:
    """The shares of every arrow cut alone and in pairs, and of doors that are open for some groups only."""
    every = arrows(task.model)
    masks = [gone(task, arrow) for arrow in every]
    pairs = itertools.combinations(range(len(every)), 2)
    doors = {"1": [0], "2": [1], "both": [0, 1]}
    shut: dict[str, Any] = {}
    for name, which in doors.items():
        for group in (*GROUPS, "noun", "rival"):
            lost = [{("cross", layer): task.due[:, :, None] & task.tokens(group)[:, None]} for layer in which]
            shut[f"door {name}: not {group}"] = cut(task, lost)
        for groups in OPEN:
            lost = [{("cross", layer): task.due[:, :, None] & ~task.tokens(*groups)[:, None]} for layer in which]
            shut[f"door {name}: only {' and '.join(groups)}"] = cut(task, lost)
    return {
        "arrows": [list(arrow) for arrow in every],
        "alone": [cut(task, [mask]) for mask in masks],
        "pairs": [[one, other, cut(task, [masks[one], masks[other]])] for one, other in pairs],
        "doors": shut,
    }


# Who the others are, and what the German tells

KINDS = ("articles", "clause", "main clause", "ends")  # of the other words


def of_kinds(pair: SentencePair, known: Mapping[str, set[int]]) -> dict[str, set[int]]:
    """The other words: before the two nouns, in the clause of *it*, in the main clause, and what ends the sentence."""
    its, rest = min(known["it"]), known["others"]
    articles = {noun - 1 for noun in known["nouns"]} & rest
    ends = {min(known["end"]) - 1, *known["end"]}
    clause = {word for word in rest - ends if word >= its - 1}  # from its conjunction on
    return dict(zip(KINDS, (articles, clause, rest - articles - clause - ends, ends), strict=True))


def others(task: Twins, tokenizer: Tokenizer, pairs: Sequence[SentencePair]) -> dict[str, Any]:
    """The shares without the arrows of four kinds of other words, and without the German already written."""
    for pair, known in zip(pairs, task.groups, strict=True):
        known |= of_kinds(pair, known)
    ends = [*(("it", kind) for kind in KINDS), *((kind, "nouns") for kind in KINDS)]
    encoder = [("encoder", n + 1, start, end) for n in range(len(task.model.encoder.layers)) for end, start in ends]
    doors = [("cross", n + 1, kind, "pronoun") for n in range(task.depth) for kind in KINDS]
    opened, swapped, own, last = {}, {}, [task.encoded()] * task.depth, task.depth - 1
    for kind in KINDS:
        lost = {("cross", last): task.due[:, :, None] & ~task.tokens("it", kind)[:, None]}
        opened[f"door {task.depth}: only it and {kind}"] = cut(task, [lost])
        for groups in ((kind,), ("it", kind)):
            other = mixed(task, own[0][0], groups)
            swapped[f"door {task.depth}: {' and '.join(groups)}"] = task.shares([*own[:last], other])
    return {
        "arrows": [list(arrow) for arrow in [*encoder, *doors]],
        "alone": [cut(task, [gone(task, arrow)]) for arrow in [*encoder, *doors]],
        "doors": opened,
        "swaps": swapped,
        "german": german(task, tokenizer, pairs),
    }


def already_written(task: Twins, tokenizer: Tokenizer, pairs: Sequence[SentencePair]) -> dict[str, Tensor]:
    """Which tokens of the German before the pronoun are the two nouns, or the words before them: (sentence, target)."""
    rows: dict[str, list[list[int]]] = {"nouns": [], "articles": []}
    for pair, known, due in zip(pairs, task.groups, task.pronouns.tolist(), strict=True):
        nouns = {dict(pair.alignment)[noun] for noun in known["nouns"]}
        read = [-1, *word_of_piece(tokenizer, pair.target, target=True)[:due]]  # the start, and what has been written
        for name, chosen in {"nouns": nouns, "articles": {noun - 1 for noun in nouns}}.items():
            rows[name].append([int(word in chosen) for word in read])
    width = task.read.shape[1]
    padded = {name: pad_sequences(lines, 0) for name, lines in rows.items()}
    return {name: nn.functional.pad(lines, (0, width - lines.shape[1])).bool() for name, lines in padded.items()}


def german(task: Twins, tokenizer: Tokenizer, pairs: Sequence[SentencePair]) -> dict[str, Any]:
    """The shares when the pronoun's place may not attend, in any layer, to nouns or articles of the German before it.

    And the same where the last layer of the decoder may not look at the English nouns either.
    """
    chosen, found = already_written(task, tokenizer, pairs), {}
    unseen = gone(task, ("cross", task.depth, "nouns", "pronoun"))
    for name, keys in {**chosen, "nouns and articles": chosen["nouns"] | chosen["articles"]}.items():
        hidden = task.due[:, :, None] & keys[:, None]
        unread = {("decoder", layer): hidden for layer in range(task.depth)}
        found[f"not {name}"] = cut(task, [unread])
        found[f"not {name}, and door {task.depth}: not nouns"] = cut(task, [unread, unseen])
    return found


# What decides: vectors of the twin


def mixed(task: Twins, x: Tensor, groups: Sequence[str]) -> tuple[Tensor, Tensor]:
    """The vectors, those of the groups' words from the twin, and which places are real."""
    rows = []
    for n, known in enumerate(task.groups):
        twin, swapped = n ^ 1, set().union(*(known[name] for name in groups))
        own, other = torch.tensor(task.words[n]), torch.tensor(task.words[twin])
        parts = []
        for word in own.unique().tolist():
            vectors, of_token = (x[twin], other) if word in swapped else (x[n], own)
            parts.append(vectors[: len(of_token)][of_token == word])
        rows.append(torch.cat(parts))
    lengths = torch.tensor(list(map(len, rows)))
    return nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.arange(int(lengths.max())) < lengths[:, None]


def swaps(task: Twins) -> dict[str, Any]:
    """The shares when the vectors of some groups are the twin's, after a layer of the encoder or at a door."""
    model, own, found = task.model, [task.encoded()] * task.depth, {}
    x = model.embed(model.source_embedding, model.source_positions, task.source)
    first = model.encoder.layers[0](x, task.real[:, None, None])
    chosen = [groups for size in range(1, len(GROUPS) + 1) for groups in itertools.combinations(GROUPS, size)]
    for groups in chosen:
        name = " and ".join(groups)
        x, real = mixed(task, first, groups)
        for layer in model.encoder.layers[1:]:
            x = layer(x, real[:, None, None])
        found[f"after layer 1: {name}"] = task.shares([(x, real)] * task.depth)
        other = mixed(task, own[0][0], groups)
        for number in range(task.depth):
            found[f"door {number + 1}: {name}"] = task.shares([*own[:number], other, *own[number + 1 :]])
        found[f"all doors: {name}"] = task.shares([other] * task.depth)
    return found


def looks(task: Twins) -> list[list[dict[str, float]]]:
    """The mean weight that each head of cross-attention gives each group where the pronoun will be written."""
    kept: dict[int, Tensor] = {}

    def keep(layer: int, weights: Tensor) -> Tensor:
        kept[layer] = weights.transpose(1, 2)[task.due]  # sentence, head, key
        return weights

    with edited(task.model, weights={("cross", layer): partial(keep, layer) for layer in range(task.depth)}):
        task.chosen()
    groups = {name: task.tokens(name)[:, None] for name in (*GROUPS, "noun", "rival", "end")}
    return [
        [
            {name: round(float((kept[layer] * mask).sum(-1).mean(0)[head]), 4) for name, mask in groups.items()}
            for head in range(kept[layer].shape[1])
        ]
        for layer in range(task.depth)
    ]


# The same by four rules: row by row, means beside cuts, by pair and by place, donors beside twins

PLACES = ("1st", "2nd")  # the noun that the pronoun means: the first one of the sentence, or the second
HIDDEN = ("it", "first article", "second article", "adjective", "nouns", "first noun", "second noun", "others")
ALONE = (("it",), ("first article",), ("it", "articles"), ("it", "first article"))  # and nothing else
PASSED = (("first article",), ("second article",), ("articles",), ("it",), ("it", "first article"), ("nouns",))
DONATED = {  # words from a sentence whose first or second noun has the third gender, or the same gender
    "first article": ("first", "third", ["first article"]),
    "second article": ("second", "third", ["second article"]),
    "it, by its first noun": ("first", "third", ["it"]),
    "it, by its second noun": ("second", "third", ["it"]),
    "it and first article, by the first noun": ("first", "third", ["it", "first article"]),
    "first article, the same gender": ("first", "same", ["first article"]),
    "it, the same gender of its second noun": ("second", "same", ["it"]),
}
DRAWS = 3  # of donors

Outcome = dict[str, dict[str, Any]]


class Crossed(Twins):
    """Twins whose pronoun's place alone hears something else, told by place and by pair."""

    def __init__(self, model: Transformer, tokenizer: Tokenizer, pairs: Sequence[SentencePair]):
        super().__init__(model, tokenizer, pairs)
        self.second = torch.tensor([min(known["noun"]) > min(known["rival"]) for known in self.groups]).long()
        tags: list[dict[int, tuple[str, ...]]] = []
        for pair, known in zip(pairs, self.groups, strict=True):
            known |= of_kinds(pair, known)
            first, second = sorted(known["nouns"])
            known |= {"first noun": {first}, "second noun": {second}}
            known |= {"first article": {first - 1}, "second article": {second - 1}}
            spoken = [*re.findall(r"\((\S+) [^\s()]+\)", pair.tree), "</s>"]
            names = ("adjective", "first noun", "second noun", "first article", "second article", "it", *KINDS[1:])
            tags.append({word: (name, spoken[word]) for name in names for word in known[name]})
        often = Counter(kind for n, known in enumerate(tags) for kind in known.values() if n % 2)
        chosen = [[known[word] for word in line] for line, known in zip(self.words, tags, strict=True)]
        kinds = [[kind if often[kind] > 2 else kind[:1] for kind in line] for line in chosen]
        numbers = {kind: n for n, kind in enumerate(sorted({kind for line in kinds for kind in line}), start=1)}
        self.kinds = pad_sequences([[numbers[kind] for kind in line] for line in kinds], 0)  # of every token
        self.before: list[Tensor] = []  # what enters each layer of the decoder
        self.memory, _ = self.encoded()
        y = model.embed(model.target_embedding, model.target_positions, self.read)
        seen = causal_mask(self.read.shape[1]) & padding_mask(self.read, model.config.pad_id)
        for layer in model.decoder.layers:
            self.before.append(y)
            y = layer(y, self.memory, seen, self.real[:, None, None])
        self.sound = self.gender(y[self.due])

    def spoken(self) -> Tensor:
        """The gender chosen by the model as it stands."""
        return self.gender(self.asked([self.encoded()] * self.depth))

    def gender(self, x: Tensor) -> Tensor:
        """The gender chosen, as a token, from vectors where the pronoun is due."""
        return self.genders[self.model.output(x)[:, self.genders].argmax(-1)]

    def heard(self, doors: Mapping[int, Tensor]) -> Tensor:
        """The gender chosen when the pronoun's place hears these vectors at these doors; no other place does."""
        seen = (torch.arange(self.read.shape[1]) <= self.pronouns[:, None])[:, None, None]
        y, real = self.before[0][self.due][:, None], self.real[:, None, None]
        for n, (layer, before) in enumerate(zip(self.model.decoder.layers, self.before, strict=True)):
            known, memory = torch.where(self.due[:, :, None], y, before), doors.get(n, self.memory)
            y = layer.around_self_attention(y, partial(layer.self_attention, memory=known, mask=seen))
            y = layer.around_cross_attention(y, partial(layer.cross_attention, memory=memory, mask=real))
            y = layer.around_feed_forward(y, layer.feed_forward)
        return self.gender(y[:, 0])

    def mean(self, x: Tensor) -> Tensor:
        """For each token the mean over the tokens of the same kind in other pairs; `x` is (sentence, source, width)."""
        pairs, count = torch.arange(len(x))[:, None] // 2, int(self.kinds.max()) + 1
        own = (pairs * count + self.kinds).flatten()
        total, number = torch.zeros(len(x) // 2 * count, x.shape[-1]), torch.zeros(len(x) // 2 * count, 1)
        total.index_add_(0, own, x.flatten(0, 1))
        number.index_add_(0, own, torch.ones(len(own), 1))
        others = [
            every.view(-1, count, every.shape[1]).sum(0)[self.kinds.flatten()] - every[own] for every in (total, number)
        ]
        return (others[0] / others[1].clamp_min(1)).view_as(x)

    def donors(self, seed: int) -> Tensor:
        """For each token another one of the same kind, of another pair: its place among all of them."""
        found, kinds, width = (
            torch.arange(self.kinds.numel()),
            self.kinds.flatten(),
            2 * self.kinds.shape[1],
        )  # of a pair
        for kind in range(1, int(kinds.max()) + 1):
            places = (kinds == kind).nonzero()[:, 0]
            found[places] = places[drawn(places[:, None] // width != places // width, seed)]
        return found

    def told(self, *chosen: Tensor, wanted: Sequence[Tensor] = (), asked: Sequence[int] | None = None) -> Outcome:
        """The shares of genders that are right, the twin's and neither, all and by place, and what pairs of twins do.

        With several choices the shares are means over them. With `wanted`, also the share that chooses what is wanted.
        A share has its own standard error, over pairs; asked are all sentences, or whole pairs of them.
        """
        rows = torch.arange(len(self.own)) if asked is None else torch.tensor(asked)
        own, other, second = self.own[rows], self.own[self.twins[rows]], self.second[rows].bool().numpy()
        hits = {"right": [one[rows] == own for one in chosen], "twin's": [one[rows] == other for one in chosen]}
        hits["neither"] = [~(right | turned) for right, turned in zip(*hits.values(), strict=True)]
        if wanted:
            hits["turned"] = [one[rows] == new[rows] for one, new in zip(chosen, wanted, strict=True)]
        values = {name: torch.stack(found).float().mean(dim=0).numpy()[:, None] for name, found in hits.items()}
        found: Outcome = {
            name: {
                "all": share(x)[0],
                **{place: share(x[second == n].repeat(2, axis=0))[0] for n, place in enumerate(PLACES)},
            }
            for name, x in values.items()
        }
        if len(chosen) == 1:
            found["pairs"] = self.by_pair(chosen[0][rows], rows)
        return found

    def by_pair(self, chosen: Tensor, rows: Tensor) -> dict[str, int]:
        """How many pairs name the first noun twice, the second twice, both right, both exchanged, or a third gender."""
        right, turned = chosen == self.own[rows], chosen == self.own[self.twins[rows]]
        first = torch.where(self.second[rows].bool(), turned, right)  # the first noun's gender
        counted = Counter()
        for n in range(0, len(rows), 2):
            same = "first" if first[n] else "second"
            kind = same if right[n] != right[n + 1] else "right" if right[n] else "exchanged"
            counted[kind if (right | turned)[n : n + 2].all() else "neither"] += 1
        return {kind: counted[kind] for kind in ("first", "second", "right", "exchanged", "neither")}


def openings(task: Crossed) -> dict[str, Tensor]:
    """Which tokens the pronoun's place does not hear, by name."""
    shut = {f"not {name}": task.tokens(name) for name in HIDDEN}
    return shut | {f"only {' and '.join(names)}": task.real & ~task.tokens(*names) for names in ALONE}


def doors(task: Crossed) -> dict[str, list[int]]:
    """The cross-attentions by name: each, and all of them."""
    return {**{f"door {n + 1}": [n] for n in range(task.depth)}, "both": list(range(task.depth))}


def hidden(task: Crossed) -> dict[str, Any]:
    """What is chosen when words are cut at the doors, or become means.

    At each door alone also when only their values become means, and when they are other sentences' words of their kind.
    """
    flat, found = task.memory.flatten(0, 1), {}
    mean, others = task.mean(task.memory), [flat[task.donors(seed)].view_as(task.memory) for seed in range(DRAWS)]
    for door, which in doors(task).items():
        for name, lost in openings(task).items():
            with edited(task.model, weights={("cross", n): partial(without, lost[:, None]) for n in which}):
                one = {"cut": task.told(task.heard({}))}
            one["mean"] = task.told(task.heard(dict.fromkeys(which, torch.where(lost[:, :, None], mean, task.memory))))
            if len(which) == 1 and name.startswith("not"):
                with edited(task.model, values={("cross", n): partial(averaged, task, lost) for n in which}):
                    one["mean values"] = task.told(task.heard({}))
                replaced = [torch.where(lost[:, :, None], other, task.memory) for other in others]
                one["another's"] = task.told(*(task.heard(dict.fromkeys(which, x)) for x in replaced))
            found.setdefault(door, {})[name] = one
    return found


def averaged(task: Crossed, which: Tensor, values: Tensor) -> Tensor:
    """The values, those of some tokens the mean over tokens of the same kind: (sentence, head, source, d_v)."""
    mean = task.mean(values.transpose(1, 2).flatten(2)).unflatten(2, (values.shape[1], -1)).transpose(1, 2)
    return torch.where(which[:, None, :, None], mean, values)


def passed(task: Crossed, tokenizer: Tokenizer, pairs: Sequence[SentencePair]) -> dict[str, Any]:
    """What is chosen when the row of the noun has another gender and only some words let that pass at a door.

    `both genders` is the mean over the two other genders, `third` the gender that neither noun has.
    """
    changed = list(rewritten(task, tokenizer, pairs, "noun"))
    fitting, found = changed[0][2], {}
    groups = {" and ".join(names): task.tokens(*names) for names in PASSED} | {"all": task.real}
    groups["everything else"] = task.real & ~task.tokens("it", "articles")
    third = task.genders.sum() - task.own - task.own[task.twins]
    for door, which in doors(task).items():
        for name, let in groups.items():
            chosen = [
                task.heard(dict.fromkeys(which, torch.where(let[:, :, None], x, task.memory))) for x, *_ in changed
            ]
            wanted = [new for _, new, *_ in changed]
            thirds = torch.where(wanted[0] == third, *chosen)
            found.setdefault(door, {})[name] = {
                "both genders": task.told(*chosen, wanted=wanted, asked=fitting),
                "third": task.told(thirds, wanted=[third], asked=fitting),
            }
    return {"sentences": len(fitting)} | found


def drawn(fits: Tensor, seed: int) -> Tensor:
    """For each row one of the columns that fit, by chance; a column where none does."""
    chances = torch.rand(fits.shape, generator=torch.Generator().manual_seed(seed))
    return chances.masked_fill(~fits, -1).argmax(dim=1)


def donated(task: Crossed) -> dict[str, Any]:
    """What is chosen with words from a sentence that means the noun at the same place; `turned`: its noun's gender."""
    other, second = task.own[task.twins], task.second.bool()
    nouns = {"first": torch.where(second, other, task.own), "second": torch.where(second, task.own, other)}
    third, pairs, found = task.genders.sum() - task.own - other, torch.arange(len(other)) // 2, {}
    for door, which in doors(task).items():
        for name, (place, gender, groups) in DONATED.items():
            wanted, chosen = third if gender == "third" else nouns[place], []
            fits = (nouns[place] == wanted[:, None]) & (task.second == task.second[:, None]) & (pairs != pairs[:, None])
            for seed in range(DRAWS):
                donor, x = drawn(fits, seed), task.memory.clone()
                for group in groups:
                    x[task.tokens(group)] = task.memory[donor][task.tokens(group)[donor]]
                chosen.append(task.heard(dict.fromkeys(which, x)))
            found.setdefault(door, {})[name] = task.told(*chosen, wanted=[wanted] * DRAWS)
    return found


def same_adjectives(task: Crossed, pairs: Sequence[SentencePair]) -> dict[str, Any]:
    """What is chosen with *it* from a sentence with other nouns whose two twins have the same two adjectives.

    Of its twins the one with the same adjective, or the other. `turned` is to the gender of the donor's noun that the
    sentence's own adjective fits, `rival` to that of the donor's other noun.
    """
    spoken = [words(pair.source) for pair in pairs]
    nouns = [{line[word] for word in known["nouns"]} for line, known in zip(spoken, task.groups, strict=True)]
    own = [line[min(known["adjective"])] for line, known in zip(spoken, task.groups, strict=True)]
    both = [(adjective, own[n ^ 1]) for n, adjective in enumerate(own)]
    fits = torch.tensor(
        [[a == b and not x & y for b, y in zip(both, nouns, strict=True)] for a, x in zip(both, nouns, strict=True)]
    )
    asked = fits.any(dim=1).nonzero()[:, 0].tolist()
    found: dict[str, Any] = {"sentences": len(asked)}
    for door, which in doors(task).items():
        for name, turn in (("its twin with the same adjective", 0), ("its twin with the other adjective", 1)):
            chosen, wanted = [], []
            for seed in range(DRAWS):
                donor, x = drawn(fits, seed), task.memory.clone()
                x[task.tokens("it")] = task.memory[donor ^ turn][task.tokens("it")[donor ^ turn]]
                chosen.append(task.heard(dict.fromkeys(which, x)))
                wanted.append(donor)
            told = task.told(*chosen, wanted=[task.own[one] for one in wanted], asked=asked)
            told["rival"] = task.told(*chosen, wanted=[task.own[one ^ 1] for one in wanted], asked=asked)["turned"]
            found.setdefault(door, {})[name] = told
    return found


def voices(task: Crossed, pairs: Sequence[SentencePair]) -> dict[str, Any]:
    """Some of `hidden` at the last door, apart for active sentences, whose first noun acts, and for passive ones."""
    passive = [n for n, pair in enumerate(pairs) if "passive" in pair.phenomena]
    asked = {"active": sorted({*range(len(pairs))} - {*passive}), "passive": passive}
    found: dict[str, Any] = {name: {"sentences": len(rows)} for name, rows in asked.items()}
    for name in ("not it", "not first article", "only it", "only it and articles"):
        lost = openings(task)[name]
        with edited(task.model, weights={("cross", task.depth - 1): partial(without, lost[:, None])}):
            chosen = task.heard({})
        for voice, rows in asked.items():
            found[voice][name] = task.told(chosen, asked=rows)
    return found


# Inside the encoder: weights and values of the twin, single paths, heads row by row

Way = Callable[[Tensor, Tensor, Tensor], Tensor]  # from outputs, weights and values of an attention to other outputs


def recorded(task: Pronouns) -> dict[str, dict[Place, Tensor]]:
    """The weights and the values of every attention when nothing is changed."""
    places = [(kind, n) for kind, modules in attentions(task.model).items() for n in range(len(modules))]
    kept: dict[str, dict[Place, Tensor]] = {"weights": {}, "values": {}}

    def keep(what: str, place: Place, x: Tensor) -> Tensor:
        kept[what][place] = x
        return x

    with edited(task.model, **{what: {place: partial(keep, what, place) for place in places} for what in kept}):
        task.choices()
    return kept


def borrowed(task: Crossed) -> dict[str, Any]:
    """What is chosen with the twin's weights, values or both; twins with other numbers of tokens are left out.

    `values without the adjective's` are those of all other words; `neutral`: the adjective's values are means over
    other sentences, alone and with the twin's weights.
    """
    sizes = [len(source) for source in task.sources]
    fitting = [n for n, size in enumerate(sizes) if size == sizes[n ^ 1]]
    kept, adjective = recorded(task), task.tokens("adjective")
    column, twins = adjective[:, None, :, None], task.twins
    found: dict[str, Any] = {"sentences": len(fitting), "nothing": task.told(task.sound, asked=fitting)}
    layers = [("encoder", n) for n in range(len(task.model.encoder.layers))]
    groups = {f"encoder, layer {n + 1}": [place] for n, place in enumerate(layers)} | {"encoder": layers}
    groups |= {"cross-attention": [("cross", n) for n in range(task.depth)], "everything": list(kept["weights"])}
    for name, places in groups.items():
        weights = {place: lambda _, new=kept["weights"][place][twins]: new for place in places}
        values = {place: lambda _, new=kept["values"][place][twins]: new for place in places}
        ways = {"weights": (weights, {}), "values": ({}, values), "weights and values": (weights, values)}
        if name in ("encoder", "cross-attention"):
            rest = {place: lambda x, new=edit: torch.where(column, x, new(x)) for place, edit in values.items()}
            alone = {place: lambda x, new=edit: torch.where(column, new(x), x) for place, edit in values.items()}
            ways |= {"values without the adjective's": ({}, rest), "the adjective's values": ({}, alone)}
            neutral = dict.fromkeys(places, partial(averaged, task, adjective))
            ways |= {"neutral": ({}, neutral), "weights, neutral": (weights, neutral)}
        for way, (of_weights, of_values) in ways.items():
            with edited(task.model, weights=of_weights, values=of_values):
                found[f"{name}: {way}"] = task.told(task.spoken(), asked=fitting)
    return found


def rerouted(task: Crossed, ways: Mapping[int, Way]) -> Tensor:
    """The gender chosen when in the row of *it* layers of the encoder put out what these ways make of theirs."""
    kept, row = {}, task.tokens("it")[:, None, :, None]

    def keep(key: tuple[str, int], x: Tensor) -> Tensor:
        kept[key] = x
        return x

    edits = {what: {("encoder", n): partial(keep, (what, n)) for n in ways} for what in ("weights", "values")}
    outputs = {
        ("encoder", n): lambda x, n=n, way=way: torch.where(row, way(x, kept["weights", n], kept["values", n]), x)
        for n, way in ways.items()
    }
    with edited(task.model, **edits, outputs=outputs):
        return task.spoken()


def part(weights: Tensor, values: Tensor, tokens: Tensor) -> Tensor:
    """What these tokens add to each row."""
    return (weights * tokens[:, None, None]) @ values


def paths(task: Crossed) -> dict[str, Any]:
    """What is chosen when single parts of what *it* hears are the twin's, in one layer of the encoder or in both.

    A part is what a group of words adds to the row of *it*. `weights`: the twin's weights, the sentence's own values;
    `frozen`: the nouns add what they add in the untouched sentence, although *it* asks otherwise by then.
    """
    kept, twins, last = recorded(task), task.twins, len(task.model.encoder.layers) - 1

    def way(layer: int, group: str, source: str) -> Way:
        weights, values = (kept[what]["encoder", layer] for what in ("weights", "values"))
        tokens = task.tokens(group)
        own = part(weights, values, tokens)

        def change(outputs: Tensor, live: Tensor, said: Tensor) -> Tensor:
            new = {"twin": own[twins], "frozen": own, "weights": part(weights[twins], said, tokens)}[source]
            return outputs + new - part(live, said, tokens)

        return change

    heard = {f"layer {n + 1}": {n: way(n, "adjective", "twin")} for n in range(last + 1)}
    both = {n: ways[n] for n, ways in enumerate(heard.values())}
    freeze = way(last, "nouns", "frozen")
    frozen = both | {last: lambda x, weights, values: freeze(both[last](x, weights, values), weights, values)}
    heard |= {"both layers": both, "both layers, the nouns' part frozen": frozen}
    found = {f"adjective to it, {name}": task.told(rerouted(task, ways)) for name, ways in heard.items()}
    for name, source in (("", "twin"), (": weights", "weights")):
        chosen = rerouted(task, {last: way(last, "nouns", source)})
        found[f"nouns to it, layer {last + 1}{name}"] = task.told(chosen)
    return found


UNHEARD = {"main clause": (0, 1), "adjective": (0, 1), "nouns": (1,), "first noun": (1,), "second noun": (1,)}


def unheard(task: Crossed) -> dict[str, Any]:
    """What is chosen when *it* does not hear a group of words in a layer of the encoder.

    By a cut, with means for their values, and with the values of other sentences' words of the same kind.
    """
    row, donors, found = task.tokens("it"), task.donors(0), {}

    def means(tokens: Tensor, _: Tensor, weights: Tensor, values: Tensor) -> Tensor:
        return weights @ averaged(task, tokens, values)

    def another(tokens: Tensor, _: Tensor, weights: Tensor, values: Tensor) -> Tensor:
        ordered = values.transpose(1, 2)
        new = ordered.flatten(0, 1)[donors].view_as(ordered).transpose(1, 2)
        return weights @ torch.where(tokens[:, None, :, None], new, values)

    for name, layers in UNHEARD.items():
        tokens = task.tokens(name)
        for layer in layers:
            with edited(task.model, weights={("encoder", layer): partial(without, row[:, :, None] & tokens[:, None])}):
                one = {"cut": task.told(task.spoken())}
            one["mean values"] = task.told(rerouted(task, {layer: partial(means, tokens)}))
            one["another's values"] = task.told(rerouted(task, {layer: partial(another, tokens)}))
            found[f"layer {layer + 1}: {name}"] = one
    return found


def heads_by_row(task: Crossed, tokenizer: Tokenizer, pairs: Sequence[SentencePair]) -> dict[str, Any]:
    """What is chosen without heads of the encoder's last layer, in some rows only: head 4, and heads 1 and 4 together.

    Of the two together also how many tokens of the German are wrong, of how many.
    """
    last, found = len(task.model.encoder.layers) - 1, {}
    rows = {name: task.tokens(name) for name in ("it", "first article", "second article", "articles")}
    rows["articles and it"] = task.tokens("articles", "it")
    rows |= {"every row but these": ~rows["articles and it"], "every row": torch.ones_like(task.real)}
    for heads in ((3,), (0, 3)):
        silent = torch.zeros(task.model.encoder.layers[last].self_attention.num_heads, 1, 1, dtype=torch.bool)
        silent[list(heads)] = True
        for name, where in rows.items():
            still = partial(torch.masked_fill, mask=silent & where[:, None, :, None], value=0.0)
            with edited(task.model, outputs={("encoder", last): still}):
                told = task.told(task.spoken())
                if len(heads) > 1 and name in ("it", "every row"):
                    told["wrong tokens"] = wrong_tokens(task, tokenizer, pairs)
            found.setdefault(" and ".join(f"{last + 1}.{head + 1}" for head in heads), {})[name] = told
    return found


def wrong_tokens(task: Crossed, tokenizer: Tokenizer, pairs: Sequence[SentencePair]) -> dict[str, list[int]]:
    """How many tokens of the German are wrong, of how many: nouns and articles before the pronoun, and others."""
    logits, wanted = task.logits(torch.arange(len(pairs)))[0].argmax(-1), task.wanted
    asked = {
        name: keys[:, 1:] for name, keys in already_written(task, tokenizer, pairs).items()
    }  # a token is read later
    asked = {name: nn.functional.pad(keys, (0, 1)) for name, keys in asked.items()}
    real, places = wanted != task.model.config.pad_id, torch.arange(wanted.shape[1])
    asked["before the pronoun, others"] = (places < task.pronouns[:, None]) & ~asked["nouns"] & ~asked["articles"]
    asked["after the pronoun"] = (places > task.pronouns[:, None]) & real
    return {name: [int(((logits != wanted) & mask).sum()), int(mask.sum())] for name, mask in asked.items()}


# A probe that may bend

WIDTH, STEPS, SEEDS = 64, 500, (0, 1, 2)


def network(known: Tensor, answers: Tensor, asked: Tensor, seed: int) -> Tensor:
    """The answer, as a number, for each vector asked: a network of two layers, fitted on the known ones."""
    mean, spread = known.mean(dim=0), known.std(dim=0) + 1e-6
    torch.manual_seed(seed)
    layers = nn.Sequential(nn.Linear(known.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, int(answers.max()) + 1))
    optimizer = torch.optim.AdamW(layers.parameters(), lr=3e-3, weight_decay=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(layers((known - mean) / spread), answers).backward()
        optimizer.step()
    return layers((asked - mean) / spread).argmax(dim=-1).detach()


def probed(task: Crossed, known: Pronouns) -> dict[str, Any]:
    """What a linear probe and networks of two layers, one of each seed, read at *it* after the encoder."""
    with torch.no_grad():
        rows = torch.arange(len(known.its))
        mask = padding_mask(known.source, task.model.config.pad_id)
        fitted = task.model.encode(known.source, mask)[rows, known.its]
        asked = task.memory[torch.arange(len(task.its)), task.its]
    answers = (known.own[:, None] == task.genders).long().argmax(dim=1)
    found = [task.genders[network(fitted, answers, asked, seed)] for seed in SEEDS]
    return {
        "fitted on": len(rows), "width": WIDTH, "seeds": list(SEEDS),
        "linear": task.told(task.genders[probe(fitted, answers, asked)]),
        "network": task.told(*found), "each seed": [task.told(one)["right"]["all"] for one in found],
    }  # fmt: skip


def decided(count: int) -> list[SentencePair]:
    """Training sentences whose pronoun an adjective decides."""
    return [pair for pair in generated("train") if DECIDED in pair.phenomena][:count]


def measure_crossed(
    model: Transformer, tokenizer: Tokenizer, sentences: int = SENTENCES, fitted: int = FITTED_ON
) -> dict[str, Any]:
    """What is asked again by the four rules, of one model."""
    pairs = embedded_split("pronoun")[:sentences]
    with torch.no_grad():
        task = Crossed(model.eval(), tokenizer, pairs)
        found = {"sentences": sentences, "draws": DRAWS, "untouched": task.told(task.sound), "hidden": hidden(task)}
        found |= {"passed": passed(task, tokenizer, pairs), "donated": donated(task)}
        found |= {"borrowed": borrowed(task), "paths": paths(task), "unheard": unheard(task)}
        found |= {"heads": heads_by_row(task, tokenizer, pairs), "same adjectives": same_adjectives(task, pairs)}
        found["voices"] = voices(task, pairs)
    return found | {"probed": probed(task, Pronouns(model, tokenizer, decided(fitted)))}


# Order or distance: the clause of *it* comes first

BEGINNINGS = {"because": ", weil ", "although": ", obwohl "}


def fronted(pair: SentencePair) -> SentencePair | None:
    """A sentence with its clause in front, as a condition: "If it was too tired, the animal did not cross the street."

    Then the first noun is the nearer one. None for a sentence that has a third clause, or begins otherwise.
    """
    ((it, noun),), english = pair.antecedents, words(pair.source)
    tags = re.findall(r"\((\S+) [^\s()]+\)", pair.tree)
    main, _, clause = pair.target.rstrip(".").partition(BEGINNINGS.get(english[it - 1], "\n"))
    article, first, verb, *rest = main.split()
    if not clause or "," in main or tags[:2] != ["DT", "NN"] or not first[0].isupper():
        return None
    order = [*range(it, len(english) - 1), *range(it - 1)]
    moved, comma = [english[n].lower() for n in order], len(english) - 1 - it
    source = f"If {' '.join(moved[:comma])}, {' '.join(moved[comma:])}."
    target = f"Wenn {clause}, {' '.join([verb, article.lower(), first, *rest])}."
    spoken = ["If", *moved[:comma], ",", *moved[comma:], "."]
    kinds = ["IN", *(tags[n] for n in order[:comma]), ",", *(tags[n] for n in order[comma:]), "."]
    tree = " ".join(f"({kind} {word})" for kind, word in zip(kinds, spoken, strict=True))
    return SentencePair(source, target, pair.phenomena, ((1, 1),), ((1, noun + comma + 2),), f"(S {tree})")


def sound(pairs: Sequence[SentencePair], written: Sequence[str]) -> list[SentencePair]:
    """The twins both of whose translations are right but for the gender of the pronoun, the second word."""

    def known(text: str) -> bool:
        return text.split()[1:2] in (["er"], ["sie"], ["es"])

    def rest(text: str) -> list[str]:
        return [*text.split()[:1], *text.split()[2:]]

    fine = [known(german) and rest(german) == rest(pair.target) for pair, german in zip(pairs, written, strict=True)]
    return [pair for n, pair in enumerate(pairs) if fine[n] and fine[n ^ 1]]


@torch.no_grad()
def measure_fronted(translator: Translator, sentences: int = SENTENCES) -> dict[str, Any]:
    """`hidden` and `passed` where the first noun is the nearer one, in twins that a model translates soundly."""
    every, model = [fronted(pair) for pair in embedded_split("pronoun")[:sentences]], translator.model.eval()
    pairs = [pair for n, pair in enumerate(every) if pair and every[n ^ 1]]
    written = translator.translate([pair.source for pair in pairs], beam_size=1)
    asked = sound(pairs, written)
    found: dict[str, Any] = {"asked": len(pairs), "sentences": len(asked)}
    if len(asked) < FEW:
        return found
    task = Crossed(model, translator.tokenizer, asked)
    found |= {"untouched": task.told(task.sound), "hidden": hidden(task)}
    return found | {"passed": passed(task, translator.tokenizer, asked)}


FEW = 40  # sentences, of which nothing more is asked


# Sentences that nobody drew from the grammar


def outsiders() -> list[tuple[str, str, str]]:
    """The sentences of data/outsiders.tsv with the right gender and the twin's, twin after twin."""
    _, _, *lines = (ROOT / "data" / "outsiders.tsv").read_text(encoding="utf-8").splitlines()
    twins = [line.split("\t") for line in lines]
    return [row for a, _, own, b, _, other in twins for row in ((a, own, other), (b, other, own))]


def genders_written(source: str, german: str) -> list[str]:
    """The genders of the pronouns in a translation, without those of he, she, they and there in the source."""
    found = [GENDERS[word] for word in words(german.lower()) if word in GENDERS]
    for word in words(source.lower()):
        if EXPLAINED.get(word) in found:
            found.remove(EXPLAINED[word])
    return found


def told_apart(translator: Translator) -> dict[str, Any]:
    """How many of the outsiders' pronouns a translator has right, how many are the twin's, and each translation.

    `neither` is a translation that has no pronoun for *it*, or several, or another gender.
    """
    asked = outsiders()
    written = translator.translate([source for source, _, _ in asked], beam_size=1)
    kinds = []
    for (source, own, other), german in zip(asked, written, strict=True):
        found = genders_written(source, german)
        kinds.append("right" if found == [own] else "twin's" if found == [other] else "neither")
    both = sum(pair == ("right", "right") for pair in zip(kinds[::2], kinds[1::2], strict=True))
    found = {kind: kinds.count(kind) for kind in ("right", "twin's", "neither")} | {"both twins right": both}
    return {"sentences": len(asked), **found, "translations": written}


def measure(
    model: Transformer, tokenizer: Tokenizer, sentences: int = SENTENCES, fitted: int = FITTED_ON
) -> dict[str, Any]:
    """Everything that the chapters say of one model, but for `others` and outsiders."""
    model = model.eval()
    pairs = embedded_split("pronoun")[:sentences]
    task = Twins(model, tokenizer, pairs)
    known = Pronouns(model, tokenizer, decided(fitted))
    with torch.no_grad():
        found = {"sentences": sentences, "untouched": task.chosen()}
        found |= {"looks": looks(task), "cuts": cuts(task), "swaps": swaps(task)}
        found["regendered"] = regendered(task, tokenizer, pairs)
    return found | {"fitted_on": len(known.its), "readings": readings(task, known)}


@torch.no_grad()
def measure_others(model: Transformer, tokenizer: Tokenizer, sentences: int = SENTENCES) -> dict[str, Any]:
    """`others` of one model."""
    pairs = embedded_split("pronoun")[:sentences]
    task = Twins(model.eval(), tokenizer, pairs)
    return {"sentences": sentences, "untouched": task.chosen(), **others(task, tokenizer, pairs)}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.case", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=int, choices=MODELS, action="append", help="only this one (default: all)")
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--others", action="store_true", help="only the four kinds of other words, and the German written"
    )
    only.add_argument("--crossed", action="store_true", help="only what is asked again by four rules")
    only.add_argument("--fronted", action="store_true", help="only sentences that begin with the clause of *it*")
    only.add_argument("--outsiders", action="store_true", help="only the sentences of data/outsiders.tsv")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    tune_machine()
    for number in options.model or MODELS:
        translator = Translator.load("embedded", "cpu", accelerated=False)
        if MODELS[number]:
            path = FOLDER / MODELS[number]
            load_weights(translator.model, read_tensors(path), path)
        part = next((part for part in ("others", "crossed", "fronted", "outsiders") if getattr(options, part)), "")
        command = f"python -m tools.case --model {number}" + f" --{part}" * bool(part)
        record = {"command": command, **describe_machine(torch.device("cpu"))}
        record |= {"weights": MODELS[number] or "data/models/embedded", "corpus_version": corpus_fingerprint()}
        if options.outsiders:
            record |= told_apart(translator)
        elif options.fronted:
            record |= measure_fronted(translator)
        else:
            parts = {"others": measure_others, "crossed": measure_crossed}
            record |= parts.get(part, measure)(translator.model, translator.tokenizer)
        write_json(FOLDER / "measured" / (f"{part}-" * bool(part) + f"{number}.json"), record)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
