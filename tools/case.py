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
- with `--crossed` and `--fronted`, what `tools/crossed.py` asks again: row by row, with means beside cuts, by place and
  by pair, with donors beside twins;
- with `--outsiders`, how many pronouns are right in 60 twins that were written from the words of the
  grammar alone, without sight of its rules.

Words are swapped by word, since adjectives have different numbers of tokens. Each share has its standard error, of the
difference from the untouched model, over pairs of twins.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
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

    def gender(self, x: Tensor) -> Tensor:
        """The gender chosen, as a token, from vectors where the pronoun is due."""
        return self.genders[self.model.output(x)[:, self.genders].argmax(-1)]

    def answers(self, x: Tensor) -> Tensor:
        """From vectors where the pronoun is due: whether the right gender leads, and whether the twin's does."""
        chosen = self.gender(x)
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
            follows = (task.gender(vectors) == wanted).float()[:, None]
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


def decided(count: int) -> list[SentencePair]:
    """Training sentences whose pronoun an adjective decides."""
    return [pair for pair in generated("train") if DECIDED in pair.phenomena][:count]


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
    from tools import crossed  # which needs this module

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
            record |= crossed.measure_fronted(translator)
        else:
            parts = {"others": measure_others, "crossed": crossed.measure}
            record |= parts.get(part, measure)(translator.model, translator.tokenizer)
        write_json(FOLDER / "measured" / (f"{part}-" * bool(part) + f"{number}.json"), record)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
