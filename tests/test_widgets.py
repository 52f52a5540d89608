"""What the parts of the page compute that need no page: sentences, addresses, and the small forms of equations."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from annotated.attention import scaled_dot_product_attention
from annotated.base.files import read_json
from annotated.masks import causal_mask
from annotated.schedule import learning_rate
from annotated.text.grammar.splits import embedded_split
from tests.node import answered

ROOT = Path(__file__).resolve().parents[1]


def ask(*tasks: dict[str, Any]) -> list[Any]:
    """What the modules answer, under node."""
    return answered("widgets", tasks)


@pytest.fixture(scope="module")
def offered() -> ModuleType:
    """The module of the site's own extension that makes the sentences."""
    spec = importlib.util.spec_from_file_location("sentences", ROOT / "book" / "_ext" / "sentences.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["sentences"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def parts(offered: ModuleType) -> dict[str, Any]:
    return offered.parts()


@pytest.fixture(scope="module")
def choices(offered: ModuleType) -> list[tuple[dict[str, Any], Any]]:
    """Choices with what the grammar writes for them: every frame, form and adjective, every noun in every role."""
    found = []
    for number, frame in enumerate(offered.FRAMES):
        subjects, targets, adjectives = offered.choices(frame)
        pairs = [(s, t) for s in subjects for t in targets if s.gender != t.gender]
        forms = itertools.product(offered.CONJUNCTIONS, offered.TENSES, (0, 1))
        cases = itertools.cycle((*form, word) for form in forms for word in adjectives[form[2]])
        longest = 4 * sum(map(len, adjectives))
        for (subject, target), case in zip(itertools.islice(itertools.cycle(pairs), max(longest, len(pairs))), cases):
            conjunction, tense, side, word = case
            choice = {"frame": number, "subject": subject.german, "object": target.german, "adjective": word}
            pair = offered.written(frame, subject, target, conjunction, tense, side, word)
            found.append(({**choice, "conjunction": conjunction, "tense": tense}, pair))
    return found


@pytest.mark.slow
def test_the_page_writes_what_the_grammar_writes(parts, choices):
    """Every sentence that can be put together is one of the corpus' grammar, with its translation."""
    assert len(choices) > 2500
    wrong = []
    for (_, pair), text in zip(choices, ask({"ask": "texts", "parts": parts, "choices": [c for c, _ in choices]})[0]):
        if (text["source"], text["target"]) != (pair.source, pair.target):
            wrong.append((text, pair.source, pair.target))
    assert not wrong[:5]


@pytest.mark.slow
def test_a_sentence_leads_back_to_its_choices(parts, choices):
    """The address holds the sentence; the lists are set from it."""
    some = choices[::41]
    found, none = ask(
        {"ask": "find", "parts": parts, "sources": [pair.source for _, pair in some]},
        {"ask": "find", "parts": parts, "sources": ["", "The animal", "Attention is all you need.", "The animal {1}"]},
    )
    texts = ask({"ask": "texts", "parts": parts, "choices": found})[0]
    assert [text["source"] for text in texts] == [pair.source for _, pair in some]
    assert none == [None] * 4


@pytest.mark.slow
def test_choices_that_do_not_fit_are_settled(parts, choices):
    """Two nouns always differ in gender, and the adjective belongs to the frame; the twin speaks of the other noun."""
    wild = [{**choice, "subject": "Straße", "object": "Straße", "adjective": "salty"} for choice, _ in choices[::37]]
    settled, twins = ask(
        {"ask": "settle", "parts": parts, "choices": wild},
        {"ask": "twins", "parts": parts, "choices": [choice for choice, _ in choices[::37]]},
    )
    for choice in settled:
        frame, nouns = parts["frames"][choice["frame"]], parts["nouns"]
        assert choice["subject"] in frame["subjects"]
        assert choice["object"] in frame["objects"]
        assert nouns[choice["subject"]]["gender"] != nouns[choice["object"]]["gender"]
        assert choice["adjective"] in [*frame["adjectives"][0], *frame["adjectives"][1]]
    for (choice, _), twin in zip(choices[::37], twins, strict=True):
        sides = parts["frames"][choice["frame"]]["adjectives"]
        assert (choice["adjective"] in sides[0]) == (twin["adjective"] in sides[1])


@pytest.mark.slow
def test_known_words_are_those_of_the_training_split(parts):
    """The page marks what the model has never seen."""
    text = "The elephant's bell, isn't <b>Peter's</b> 'animal'?"
    (marked,) = ask({"ask": "words", "text": text, "known": parts["known"]})
    assert "".join(one["word"] for one in marked) == text.replace(" ", "")
    unknown = {one["word"] for one in marked if not one["known"]}
    assert {"elephant's", "isn", "<", ">"} <= unknown
    assert not {"bell", "Peter's", "animal", "The", ","} & unknown
    sources = [pair.source for pair in embedded_split("test")[:50]]
    (marked,) = ask({"ask": "words", "text": " ".join(sources), "known": parts["known"]})
    assert all(one["known"] for one in marked)


STATE = {
    "model": "3",
    "say": "Ä <b>&amp;=#?_-", "twin": "x", "off": ["encoder.2.4", "cross.1.1"], "by": "mean", "paste": "both",
    "set": [{"at": "decoder.1.2", "query": 3, "key": 0, "weight": 0.35}], "where": "all", "begin": [323, 1821],
    "see": "cross.2.3", "as": "grid", "width": 5, "alpha": 1.7,
}  # fmt: skip


@pytest.mark.slow
def test_an_address_holds_the_whole_state():
    """An experiment that is sent arrives as it was."""
    (start,) = ask({"ask": "start"})
    assert STATE.keys() == start.keys()
    assert all(STATE[name] != start[name] for name in start), "each part is tried with another value than at the start"
    states = [{}, STATE, *({name: value} for name, value in STATE.items())]
    for state, (hash_, back) in zip(states, ask(*({"ask": "address", "state": state} for state in states))):
        assert back == {**start, **state}
        assert re.fullmatch(r"#lab(-\w+)?", hash_, re.ASCII), "a selector"
    assert ask({"ask": "address", "state": {}})[0][0] == "#lab"


HOSTILE = [
    "#lab-model=4&off=encoder.0.x_nothing_cross.9.9.9&by=magic&set=a-b-c-d_encoder.1.1-1-1-900&paste=all&where=here",
    "#lab-begin=1e9--x&see=<b>&as=pie&width=1e9&alpha=-1",
    "#lab-say=" + "x" * 10_000 + "&off=" + "encoder.1.1_" * 10_000 + "&width=NaN&alpha=Infinity",
    "#lab-%",
    "#lab-off=encoder.0.0_cross.1.0&see=encoder.0.1&set=decoder.1.0-1-1-50",  # heads are counted from 1
]


def test_what_an_address_should_not_say_is_passed_over():
    """Hostile: whatever stands in an address, the state is one that the laboratory knows; others are left alone."""
    others = ["", "#exercises", "#label", "#laboratory"]
    start, *states = ask({"ask": "start"}, *({"ask": "read", "hash": hash_} for hash_ in [*HOSTILE, *others]))
    assert states[len(HOSTILE) :] == [None] * 4
    for found in states[: len(HOSTILE)]:
        assert found.keys() == start.keys()
        assert len(found["say"]) <= 500
        assert len(found["off"]) <= 100
        assert not [name for name in found["off"] + [one["at"] for one in found["set"]] if ".0" in name]
        assert found["by"] in ("zero", "mean")
        assert found["as"] in ("arcs", "grid")
        assert (found["where"], found["model"]) == ("encoder", "1")
        assert 1 <= found["width"] <= 6
        assert 0 <= found["alpha"] <= 3
        assert all(0 <= one["weight"] <= 1 for one in found["set"])
        assert found["see"] == "encoder.2.4"
        assert all(isinstance(token, int) for token in found["begin"])


EXPERIMENT = {"seed": 3, "width": 48, "layers": 1, "heads": 2, "rate": 1000}


def test_an_address_holds_an_experiment():
    """Chapter 83: what is sent arrives, and what is absurd is as at the start."""
    start = {
        "parts": ["mask"], "task": "digits", "seed": 1, "width": 32, "layers": 2, "heads": 4, "rate": 1, "steps": 400,
    }  # fmt: skip
    sent = [
        {"parts": parts, "task": task, "settings": settings}
        for parts in (["mask"], ["root"], ["warm-up"], ["mask", "positions"])
        for task in ("digits", "pronouns")
        for settings in ({}, EXPERIMENT, *({name: value} for name, value in EXPERIMENT.items()))
    ]
    for hash_, wanted, back in ask(*({"ask": "experiment", **one} for one in sent)):
        assert back == wanted
        assert re.fullmatch(r"#break(-[\w=&,-]+)?", hash_, re.ASCII)
    assert ask({"ask": "experiments", "hashes": ["#break-part=shift,root,mask"]})[0][0]["parts"] == [
        "mask", "shift", "root",
    ]  # fmt: skip
    hostile = [
        "#break-part=__proto__&task=constructor&seed=1e9&width=31&layers=-1&steps=9&rate=1e3",
        "#break-seed=NaN&width=Infinity&layers=2.5",
        "#break-%", "#break-" + "seed=2.1&" * 10_000, "#break",
    ]  # fmt: skip
    assert ask({"ask": "experiments", "hashes": hostile})[0] == [start] * 5
    assert ask({"ask": "experiments", "hashes": ["", "#breaking", "#lab", "#exercises"]})[0] == [None] * 4


def test_the_recorded_runs_are_as_the_page_says():
    """Chapter 83: what is told at the end of an experiment (`found` in experiments.js) came out with all seeds."""
    runs = read_json(ROOT / "data" / "runs" / "breaking" / "runs.json")["runs"]

    def of(task: str, *parts: str, width: int = 32) -> list[dict]:
        wanted = {"task": task, "parts": list(parts), "width": width, "fault": None}
        found = [run for run in runs if wanted.items() <= run.items()]
        assert [run["seed"] for run in found] == [1, 2, 3]
        return found

    for task in ("digits", "pronouns"):
        whole, mask, shift = of(task), of(task, "mask"), of(task, "shift")
        assert not any(share for run in mask + shift + of(task, "warm-up") for share in run["shares"])
        assert all(min(run["losses"]) < min(one["losses"]) + 0.02 for run in mask + shift for one in whole)
        assert all(len(set(run["written"])) == 1 for run in shift)
        for runs_of_one_head in (of(task, "heads"), of(task, "heads", width=64)):
            assert all(max(run["shares"]) > 0.85 for run in runs_of_one_head)
        assert not any(run["shares"][-1] for run in of(task, "root", "heads", width=64))
    assert all(max(max(row) for row in run["ahead"]) > 0.5 for run in of("digits", "mask"))
    for run in of("digits", "positions"):
        assert not any(run["shares"])
        assert len(Counter(run["written"]) & Counter("31415926")) >= 6  # of the eight digits
    assert all(max(run["shares"]) == 1 for run in of("pronouns", "positions"))


ANSWERS = {"mask": 1, "shift": 2, "root": 0, "positions": 2, "warm-up": 2, "heads": 2}  # that the records bear out


def reported(loss: float, share: float, written: Sequence[str] = ()) -> dict:
    return {"loss": loss, "share": share, "written": written, "read": list("31415926")}


def test_the_recorded_runs_get_the_recorded_verdict():
    """Chapter 83: each of them, when it comes out in the page as it is in the record; one seed came out otherwise."""
    runs = read_json(ROOT / "data" / "runs" / "breaking" / "runs.json")["runs"]
    at = {(run["task"], run["width"], *run["parts"], run["seed"]): run for run in runs if not run["fault"]}
    tasks, keys = [], []
    for task, part, seed in itertools.product(("digits", "pronouns"), ANSWERS, (1, 2, 3)):
        width, gone = (64, ["heads"]) if part == "root" else (32, [])
        pair = at[task, width, *gone, seed], at[task, width, part, *gone, seed]
        both = [reported(run["losses"][-1], run["shares"][-1], run["written"]) for run in pair]
        guess = 0 if (part, task) == ("positions", "pronouns") else ANSWERS[part]
        asked = {"ask": "verdict", "parts": [part], "task": task, "settings": {"seed": seed}}
        tasks.append({**asked, "both": both, "guess": guess})
        keys.append((part, task, seed))
    said = dict(zip(keys, ask(*tasks)))
    assert [key for key, text in said.items() if "say so, too." not in text] == [("positions", "pronouns", 2)]
    assert "This run, with seed 2, came out otherwise, and so did the recorded one." in said["positions", "pronouns", 2]
    excepted = {key[:2] for key, text in said.items() if "seed 2" in text}
    assert excepted == {("positions", "pronouns")}


OTHERS = {  # settings that are not recorded, and how the recorded ones differ
    ("mask", "width", 16, "layers", 1, "rate", 1000): "width 32, 2 layers, the plain learning rate",
    ("root", "width", 32, "heads", 4): "width 64, 1 head",
    ("heads", "heads", 2): "4 heads",
    ("shift", "seed", 4): "seeds 1 to 3",
}


def test_the_record_does_not_answer_for_another_run():
    """Chapter 83: its answer is told only for its settings, its reason for its outcome; else what the run shows."""
    asked = {"ask": "verdict", "parts": ["root"], "task": "digits", "settings": {}, "guess": 0}
    otherwise = {**asked, "both": [reported(0.6, 0.9), reported(0.7, 0.45)]}
    tasks = []
    for part, *settings in OTHERS:
        given = {"parts": [part], "settings": dict(zip(settings[::2], settings[1::2])), "guess": ANSWERS[part]}
        tasks.append({**asked, **given, "both": [reported(3102, 0), reported(1761, 0)]})
    differs, *others = ask(otherwise, *tasks)
    assert "say “It does not learn the task.” This run, with seed 1, came out otherwise." in differs
    assert "eight times" not in differs
    for text, recorded in zip(others, OTHERS.values(), strict=True):
        said, _, rest = text.partition("” ")[2].partition(" The recorded runs of chapter 83 have other settings ")
        assert rest == f"({recorded}), so they do not answer for this run."
        assert said.startswith("This run cannot tell: ")  # since the whole model learned nothing


def test_a_run_is_told_as_it_came_out():
    """Chapter 83: for each kind of outcome, whether a guess fits; also where several parts are gone."""
    whole, (high, low) = reported(0.6, 0.95), (reported(2.4, 0), reported(0.55, 0))
    ran = {  # parts, guess, the second model, and what must be said
        (("mask",), 0): (high, "This run bears it out: by itself the second model writes as good as nothing"),
        (("mask",), 1): (
            low,
            "This run bears it out: by itself the second model writes as good as nothing right, although",
        ),
        (("mask",), 2): (low, "This run came out otherwise: by itself the second model"),
        (("root",), 0): (reported(0.65, 0.45), "This run came out otherwise: the second model writes less right"),
        (("root",), 1): (
            {**reported(0.6, 0.9), "half": 200},
            "This run bears it out: the second model writes about as",
        ),
        (("root",), 2): ({**reported(0.6, 0.9), "half": 100}, "Half of the examples were right by step 100, and by"),
        (("mask", "heads"), 0): ({**reported(0.9, 0.3), "best": 1}, "second model had had more right, and lost it"),
    }
    keys = [{"parts": parts, "guess": guess} for parts, guess in ran]
    asked = [
        {"ask": "verdict", "task": "digits", "settings": {"seed": 5}, **key, "both": [{**whole, "half": 150}, without]}
        for key, (without, _) in zip(keys, ran.values())
    ]
    for text, (_, expected) in zip(ask(*asked), ran.values(), strict=True):
        assert expected in text


@pytest.mark.slow
def test_verbs_can_be_told_apart(parts):
    """The list of verbs has every frame once, under a name of its own."""
    for conjunction, tense in itertools.product(("because", "although"), ("past", "present")):
        (verbs,) = ask({"ask": "verbs", "parts": parts, "choice": {"conjunction": conjunction, "tense": tense}})
        assert [number for number, _ in verbs] == list(range(len(parts["frames"])))
        assert len({label for _, label in verbs}) == len(verbs)


@pytest.mark.slow
def test_a_row_of_equation_1():
    """Chapter 32: the stages in the page are the package's attention, masked keys included."""
    generator = torch.Generator().manual_seed(3)
    query, key, value = (
        torch.randn(size, generator=generator, dtype=torch.float64) for size in ((1, 4), (5, 4), (5, 3))
    )
    for hidden in ((), (2,), (0, 4)):
        visible = [n not in hidden for n in range(5)]
        output, weights = scaled_dot_product_attention(query[None], key[None], value[None], torch.tensor([visible]))
        task = {"scores": (query @ key.T)[0].tolist(), "visible": visible, "values": value.tolist(), "width": 4}
        (found,) = ask({"ask": "row", **task})
        assert torch.allclose(torch.tensor(found["weights"], dtype=torch.float64), weights[0, 0], atol=1e-6)
        assert torch.allclose(torch.tensor(found["output"], dtype=torch.float64), output[0, 0], atol=1e-6)


def test_only_mask_and_shift_together_leave_no_leak():
    """Chapter 31: a position that sees its answer."""
    found = ask(*({"ask": "leaks", "length": 6, "mask": m, "shift": s} for m in (True, False) for s in (True, False)))
    counts = [sum(any(leak for _, leak in row) for row in rows) for rows in found]
    assert counts == [0, 6, 5, 6]
    assert [[seen for seen, _ in row] for row in found[0]] == causal_mask(6).tolist()


def test_the_rate_is_equation_3():
    """Chapter 53: the curve in the page is the package's schedule."""
    settings = [
        (step, width, warmup) for step in (1, 500, 4000, 40_000) for width in (64, 512) for warmup in (500, 4000)
    ]
    expected = [learning_rate(*setting) for setting in settings]
    assert ask({"ask": "rates", "settings": settings})[0] == pytest.approx(expected, rel=1e-12)


def test_no_module_makes_markup_of_a_text():
    for path in (ROOT / "book" / "web" / "widgets").rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), path.name
