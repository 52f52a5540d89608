"""The picture of the whole machine (book/web/picture) shows what the package computes, untouched and changed."""

from __future__ import annotations

import re
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from annotated.interventions import attentions, edited
from annotated.search.translation import Translator
from annotated.text.grammar.splits import embedded_split
from annotated.text.tokenization import detokenize, tokenize
from tests.node import answered
from tests.pages import SITE, overflowing, shows, thin_out, violations

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "data" / "models" / "embedded"
SENTENCES, EXTRA = 20, 50


def ask(*tasks: dict[str, Any], hashes: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the picture's scripts answer, under node."""
    return answered("picture", {"folder": str(SHIPPED), "tasks": tasks, "hashes": hashes})


@pytest.fixture(scope="module")
def shipped() -> Translator:
    return Translator.load(str(SHIPPED), "cpu", accelerated=False)


def uncut(weights: Tensor, lines: list[dict[str, Any]]) -> Tensor:
    """Weights without some lines, one after the other; the rest of a row is scaled up."""
    weights = weights.clone()
    for line in lines:
        heads = range(weights.shape[1]) if line["head"] is None else [line["head"]]
        for head in heads:
            if line["query"] < weights.shape[2]:
                row = weights[0, head, line["query"]]
                row[line["key"]] = 0
                row /= row.sum().clamp_min(1e-30)
    return weights


def silent(outputs: Tensor, heads: list[dict[str, Any]]) -> Tensor:
    outputs = outputs.clone()
    for head in heads:
        rows = slice(None) if head["query"] is None else slice(head["query"], head["query"] + 1)
        outputs[0, head["head"], rows] = 0
    return outputs


class Machine:
    """The package's model under the changes of a state, asked for everything that the picture shows."""

    def __init__(self, translator: Translator, state: dict[str, Any]):
        self.translator, self.model, self.state = translator, translator.model, state
        (self.source,) = tokenize(translator.tokenizer, [state["say"]])

    def changed(self, more: list[dict[str, Any]] | None = None) -> ExitStack:
        """Within it the model is changed, and `more` lines are cut."""
        lines, model = [*self.state["cut"], *(more or [])], self.model
        edits: dict[str, Any] = {"weights": {}, "outputs": {}, "vectors": {}}
        for kind, modules in attentions(model).items():
            for layer in range(len(modules)):
                here = partial(lambda one, at: (one["kind"], one["layer"]) == at, at=(kind, layer))
                edits["weights"][kind, layer] = partial(uncut, lines=[one for one in lines if here(one)])
                edits["outputs"][kind, layer] = partial(silent, heads=[one for one in self.state["off"] if here(one)])
        stack = ExitStack()
        for one in self.state["give"]:
            place = f"encoder.layers.{one['layer'] if one['at'] == 'level' else 1}.around_feed_forward"
            vector = self.twins(place)[0, self.twin_key(one["key"])]
            if one["at"] == "level":
                edits["vectors"][place] = partial(put, key=one["key"], vector=vector)
            else:
                module = model.decoder.layers[one["layer"]].cross_attention
                hear = partial(heard, key=one["key"], vector=vector)
                stack.callback(module.register_forward_pre_hook(hear).remove)
        stack.enter_context(edited(model, **edits))
        return stack

    def twin_key(self, key: int) -> int:
        (twin,) = tokenize(self.translator.tokenizer, [self.state["twin"]])
        return key if twin[key] == self.source[key] else key + len(twin) - len(self.source)

    def twins(self, place: str) -> Tensor:
        """What a module puts out for the twin."""
        kept = []
        hook = self.model.get_submodule(place).register_forward_hook(lambda *called: kept.append(called[-1]))
        (twin,) = tokenize(self.translator.tokenizer, [self.state["twin"]])
        self.model.encode(torch.tensor([twin]))
        hook.remove()
        return kept[0]

    def logits(self, read: list[int]) -> Tensor:
        return self.model(torch.tensor([self.source]), torch.tensor([read]))[0]

    def written(self) -> list[int]:
        """Greedy search without a cache."""
        config, tokens = self.model.config, []
        while len(tokens) < len(self.source) + EXTRA and config.end_id not in tokens:
            scores = self.logits([config.start_id, *tokens])[-1]
            scores[[config.pad_id, config.start_id]] = -torch.inf
            tokens.append(int(scores.argmax()))
        return tokens

    def numbers(self, read: list[int]) -> dict[str, Tensor]:
        """All vectors and, by head, queries, keys, values and outputs, under the picture's names."""
        kept: dict[str, Tensor] = {}
        with ExitStack() as undo:
            for side, layers in (("encoder", self.model.encoder.layers), ("decoder", self.model.decoder.layers)):
                for n, layer in enumerate(layers):
                    keep = lambda name, *called, at=f"{side}.{n}": kept.__setitem__(f"{at}.{name}", called[-1][0])  # noqa: E731
                    undo.callback(
                        layer.register_forward_pre_hook(lambda _, args, keep=keep: keep("in", args[0])).remove
                    )
                    parts = {"norm1": layer.around_self_attention, "feed": layer.feed_forward}
                    parts |= {"out": layer.around_feed_forward, "self": layer.self_attention.output}
                    if side == "decoder":
                        parts |= {"norm2": layer.around_cross_attention, "cross": layer.cross_attention.output}
                    for name, module in parts.items():
                        undo.callback(module.register_forward_hook(partial(keep, name)).remove)
            for kind, modules in attentions(self.model).items():
                for n, module in enumerate(modules):
                    for part in ("query", "key", "value"):
                        name = f"{kind}.{n}.{part}"
                        hook = lambda *called, name=name, count=module.num_heads: kept.__setitem__(  # noqa: E731
                            name, called[-1][0].unflatten(-1, (count, -1)).transpose(0, 1)
                        )
                        undo.callback(getattr(module, part).register_forward_hook(hook).remove)
            kept["scores"] = self.logits(read).log_softmax(-1)
        return kept


def put(rows: Tensor, key: int, vector: Tensor) -> Tensor:
    rows = rows.clone()
    rows[:, key] = vector
    return rows


def heard(_: Any, args: tuple[Tensor, ...], key: int, vector: Tensor) -> tuple[Tensor, ...]:
    x, memory, *rest = args
    return x, put(memory, key, vector), *rest


IT = 8  # where it stands in the first pair of twins; elsewhere it is some word
CHANGES: list[dict[str, Any]] = [
    {},
    {"cut": [{"kind": "encoder", "layer": 1, "head": 0, "query": 5, "key": 1}]},
    {"cut": [{"kind": "cross", "layer": 1, "head": None, "query": 6, "key": k} for k in (5, 0)]},
    {"off": [{"kind": "encoder", "layer": 1, "head": 3, "query": None}]},
    {"off": [{"kind": "decoder", "layer": 0, "head": 1, "query": 4}]},
    {"give": [{"at": "door", "layer": 1, "key": 6}]},
    {"give": [{"at": "level", "layer": 0, "key": 6}, {"at": "door", "layer": 0, "key": 5}]},
]


@pytest.mark.slow
def test_every_number_is_the_packages(shipped: Translator):
    """Of twenty sentences, each under one kind of change: vectors, heads, translation, and what lines cost."""
    pairs = embedded_split("pronoun")[:SENTENCES]
    states = []
    for n, pair in enumerate(pairs):
        touched = {"side": ("source", "written")[n % 2], "at": 5}
        states.append(
            {"say": pair.source, "twin": pairs[n ^ 1].source, "touched": touched, "cut": [], "off": [], "give": []}
        )
        states[-1] |= CHANGES[n % len(CHANGES)]
    found = ask(*({"state": state, "priced": 4} for state in states))["answers"]
    with torch.no_grad():
        for state, answer in zip(states, found, strict=True):
            compare(Machine(shipped, state), answer)


def compare(machine: Machine, answer: dict[str, Any]) -> None:
    result, start = answer["result"], machine.model.config.start_id
    with machine.changed():
        tokens = machine.written()
        expected = machine.numbers([start, *tokens[:-1]])
    (text,) = detokenize(machine.translator.tokenizer, [tokens])
    assert result["text"] == text
    shown = result["vectors"] | {"scores": result["scores"]}
    for place, parts in result["attentions"].items():
        shown |= {f"{place}.{part}": parts[part] for part in ("query", "key", "value")}
    for name, numbers in expected.items():
        assert np.abs(np.array(shown[name]) - numbers.numpy()).max() < 1e-4 * max(1, numbers.abs().max()), name
    for place, parts in result["attentions"].items():
        kind, layer = place.split(".")
        query, key = expected[f"{place}.query"], expected[f"{place}.key"]
        scores = query @ key.transpose(1, 2) / query.shape[-1] ** 0.5
        if kind == "decoder":
            scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        lines = [one for one in machine.state["cut"] if (one["kind"], one["layer"]) == (kind, int(layer))]
        weights = uncut(scores.softmax(-1)[None], lines)[0]
        assert np.abs(np.array(parts["weights"]) - weights.numpy()).max() < 1e-4, place
    watch = result["watch"]
    for cost in answer["costs"]:
        with machine.changed([cost["line"]]):
            shares = machine.logits([start, *tokens[:watch]])[-1].softmax(-1)
        assert cost["share"] == pytest.approx(float(shares[tokens[watch]]), abs=1e-4)
        assert cost["isOther"] == (int(shares.argmax()) != tokens[watch])
    assert {**answer["again"], "touched": None} == {**answer["state"], "touched": None}


HOSTILE = (
    "#see-", "#see-say=", "#see-" + "A" * 5000, "#see-open=__proto__&touch=source.999&cut=encoder.9.9.9.9_x",
    "#see-say=" + "a%20" * 400, "#see-cut=cross.1.all.8.8&off=encoder.1.3.all&give=door.7.7_level.0.900",
    "#see-stop=99&model=7", "#lab-x",
)  # fmt: skip


@pytest.mark.slow
def test_an_address_made_by_hand_is_read_as_far_as_it_makes_sense():
    *found, foreign = ask(hashes=HOSTILE)["arrived"]
    assert foreign is None
    assert [one["ids"] for one in found] == [[], [], [], [], [], ["cross.1.all.8.8"], []]
    assert all(one["state"]["stop"] is None and one["state"]["model"] == "1" for one in found)
    assert all(one["notes"] for one in (found[3], found[5]))


def alive(page, name: str = "picture", word: int = 8):
    """The living picture of a page, after a click on an English word of its still."""
    figure = page.locator(f"#widget-{name}")
    figure.scroll_into_view_if_needed()
    page.wait_for_function("name => document.getElementById(name).dataset.mounted", arg=f"widget-{name}")
    figure.locator(f".see-still:visible [data-side=source][data-at='{word}']").click()
    figure.locator(".widget-live .scene").wait_for()
    return figure.locator(".widget-live .see")


def press(page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


@pytest.mark.browser
@pytest.mark.usefixtures("site")
class TestInThePage:
    @pytest.mark.parametrize(("width", "scheme"), [("laptop", "light"), ("phone", "dark")])
    def test_a_guess_is_answered_by_a_picture_that_nobody_loads(self, open_page, width, scheme):
        page, requests, complaints = open_page("index.html", width, scheme)
        figure = page.locator("#widget-picture-guess")
        figure.scroll_into_view_if_needed()
        pronoun = figure.locator(".see-still:visible text.watched").last
        figure.get_by_text("sie, for the street").wait_for()
        assert not pronoun.is_visible()
        figure.get_by_text("sie, for the street").click()
        shows(figure, "Right: Das Tier überquerte die Straße nicht, weil sie zu breit war.")
        assert pronoun.text_content() == "sie"
        figure.get_by_label("tired", exact=False).check(force=True)
        figure.get_by_text("sie, for the street").click()
        shows(figure, "Not this time: Das Tier überquerte die Straße nicht, weil es zu müde war.")
        assert not [url for url in requests if "/models/" in url or "picture/picture.js" in url]
        see = alive(page, "picture-guess", word=1)
        shows(see, "“animal”")
        assert see.locator(".word.touched").first.text_content() == "animal"
        assert overflowing(page) == []
        thin_out(page)
        assert violations(page, {}, "#widget-picture-guess") == []
        assert complaints == []

    def test_by_keys_from_the_machine_to_a_row_and_back(self, open_page, site):
        """What is touched keeps its place; a cut is told, undone, and kept by the address."""
        page, requests, complaints = open_page("81_laboratory.html")
        see = alive(page)
        row = see.locator(".word.touched").first.bounding_box()["y"] - see.locator(".scene").bounding_box()["y"]
        for column in ("decoder.1", "cross.1.3", "cross.1.3.weights"):
            see.locator(f"[data-open='{column}']").focus()
            press(page, "Enter")
            assert see.locator(f"[data-open='{column}']").get_attribute("aria-expanded") == "true"
        shows(see.locator(".see-path"), "head 4")
        assert re.match(r"−?\d+\.\d\d", see.locator("[data-column='cross.1.3.score'] text").nth(2).text_content())
        now = see.locator(".word.touched").first.bounding_box()["y"] - see.locator(".scene").bounding_box()["y"]
        assert abs(now - row) < 1
        assert "#see-open_3Dcross_2E1_2E3_2Eweights" in page.url
        for _ in range(3):
            press(page, "Escape")
        shows(see.locator(".see-path"), "the machine")
        see.locator(".word.touched").first.focus()
        press(page, "ArrowUp", "ArrowDown", "Home")
        assert page.evaluate("document.activeElement.textContent") == "it"
        see.get_by_role("button", name="at door 2").focus()
        press(page, "Enter")
        shows(see.locator(".told"), "It writes now: Das Tier überquerte die Straße nicht, weil es zu breit war.")
        address = page.url
        see.get_by_role("button", name="undo: door 2").focus()
        press(page, "Enter")
        shows(see.locator(".told"), "It writes now: Das Tier überquerte die Straße nicht, weil sie zu breit war.")
        page.goto(site)
        page.goto(address)
        shows(page.locator("#widget-picture .see-answer"), "weil es zu breit war")
        assert [url for url in requests if not url.startswith((site, "data:", "blob:", "about:"))] == []
        assert complaints == []

    def test_what_comes_while_the_model_looks_is_not_lost(self, open_page):
        """Two lines are cut at once, and a word is touched before the answer."""
        page, _, complaints = open_page("81_laboratory.html")
        see = alive(page)
        click = "one => one.dispatchEvent(new MouseEvent('click', { bubbles: true }))"
        page.evaluate(f"document.querySelectorAll('.widget-live .grip').forEach((one, n) => n < 2 && ({click})(one))")
        see.locator("[data-side=source][data-at='1']").click()
        see.get_by_role("button", name="undo all").wait_for()
        shows(see, "“animal”")
        assert see.locator(".done button").count() == 3
        assert complaints == []

    def test_eight_stops_tell_the_case(self, open_page):
        """Each is an address, its proof is a cell of chapter 80, and what it says of its picture is so."""
        page, _, complaints = open_page("81_laboratory.html")
        see = alive(page)
        see.get_by_role("button", name="The case in eight stops").click()
        said = []
        for stop in range(1, 9):
            shows(see.locator(".see-story h2"), f"{stop} of 8")
            assert page.url.endswith(f"#see-stop_3D{stop}")
            proof = see.locator(".see-story a").get_attribute("href")
            chapter, cell = proof.split("#")
            assert f'id="{cell}"' in (SITE / chapter).read_text(encoding="utf-8")
            said.append(see.locator(".see-answer b").first.inner_text())
            if stop < 8:
                see.get_by_role("button", name="next").click()
        assert [" sie " in text for text in said] == [False, False, True, True, False, False, True, False]
        assert complaints == []

    def test_whatever_is_typed_is_text(self, open_page):
        page, _, complaints = open_page("00_whole.html")
        see = alive(page, "picture-once")
        see.get_by_text("Another sentence").click()
        for text in ("<img src=x onerror=alert(1)>", "\u202eabc 😀 {{0}} </script>", "a " * 150):
            see.get_by_label("an English sentence").fill(text)
            press(page, "Enter")
            shows(see.locator(".told"), "It")
            assert see.locator("img, script").count() == 0
            assert overflowing(page) == []
        assert complaints == []
