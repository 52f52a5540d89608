"""What *it* means, asked again by four rules: `python -m tools.case --crossed` and `--fronted`, for chapter 80.

- Row by row: only the place where the pronoun will be written hears something else, or only the row of *it*.
- Means beside cuts: a cut shares its weight out among the other words of the row. A mean does not: a vector becomes the
  mean over words of the same kind in other pairs.
- By place and by pair: whether the pronoun means the first noun of the sentence or the second (`1st`, `2nd`), and
  whether both twins get the same noun, which is right in half of the cases.
- Donors beside twins: words of sentences with other nouns.

In all 600 sentences, as in the training split, both nouns stand before *it*, so the first noun is always the farther
one, and order and distance cannot be told apart. `--fronted` asks sentences that begin with the clause of *it*, in
which the first noun is the nearer one: those that a model translates soundly but for the pronoun. The first noun is
always the subject; in the passive ones of the 600 it is not the one that acts: `voices`.

Every share stands with its own standard error, over pairs of twins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from annotated.base.corpus import SentencePair
from annotated.batching import pad_sequences
from annotated.interventions import edited
from annotated.masks import causal_mask, padding_mask
from annotated.model import Transformer
from annotated.search.translation import Translator
from annotated.text.grammar.splits import embedded_split
from annotated.text.grammar.words import words
from annotated.text.tokenization import Tokenizer
from studies.heads import fits
from tools.case import (
    FITTED_ON,
    KINDS,
    SENTENCES,
    Pronouns,
    Twins,
    already_written,
    decided,
    of_kinds,
    probe,
    recorded,
    rewritten,
    share,
    without,
)

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
        found, kinds = torch.arange(self.kinds.numel()), self.kinds.flatten()
        width = 2 * self.kinds.shape[1]  # of a pair
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
    mean = task.mean(task.memory)
    for name in ("not it", "not first article", "only it", "only it and articles"):
        lost = openings(task)[name]
        with edited(task.model, weights={("cross", task.depth - 1): partial(without, lost[:, None])}):
            cut = task.heard({})
        means = task.heard({task.depth - 1: torch.where(lost[:, :, None], mean, task.memory)})
        for voice, rows in asked.items():
            found[voice][name] = {"cut": task.told(cut, asked=rows), "mean": task.told(means, asked=rows)}
    return found


def twins_articles(task: Crossed) -> dict[str, Any]:
    """What is chosen with the twin's articles at the last door, with and without *it*, and how many choices differ."""
    x, lost, last = task.memory.clone(), task.tokens("it"), task.depth - 1
    x[task.tokens("articles")] = task.memory[task.twins][task.tokens("articles")[task.twins]]
    found: dict[str, Any] = {"with it": task.told(task.heard({last: x}))}
    with edited(task.model, weights={("cross", last): partial(without, lost[:, None])}):
        own, theirs = task.heard({}), task.heard({last: x})
    return found | {"without it": task.told(theirs), "without it, differ": int((own != theirs).sum())}


# Inside the encoder: weights and values of the twin, single paths, heads row by row

Way = Callable[[Tensor, Tensor, Tensor], Tensor]  # from outputs, weights and values of an attention to other outputs


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
    read = already_written(task, tokenizer, pairs)  # a place after it is written
    asked = {name: nn.functional.pad(keys[:, 1:], (0, 1)) for name, keys in read.items()}
    real, places = wanted != task.model.config.pad_id, torch.arange(wanted.shape[1])
    asked["before the pronoun, others"] = (places < task.pronouns[:, None]) & ~asked["nouns"] & ~asked["articles"]
    asked["after the pronoun"] = (places > task.pronouns[:, None]) & real
    return {name: [int(((logits != wanted) & mask).sum()), int(mask.sum())] for name, mask in asked.items()}


# A probe that may bend

WIDTH, STEPS, SEEDS = 64, 500, (0, 1, 2)


@torch.enable_grad()
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


def measure(
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
        found |= {"voices": voices(task, pairs), "twin's articles": twins_articles(task)}
        found["rules"] = fits(model, tokenizer)
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
    last = f"door {task.depth}"
    found |= {"untouched": task.told(task.sound), "hidden": {last: hidden(task)[last]}}
    return found | {"passed": {last: passed(task, translator.tokenizer, asked)[last]}}


FEW = 40  # sentences, of which nothing more is asked
