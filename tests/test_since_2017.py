"""The study of chapter 95: what an edit changes in the paper's model, and what it leaves alone."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import yaml
from torch import nn

from annotated import today
from annotated.attention import MultiHeadAttention
from annotated.base.files import InputError
from annotated.embeddings import TokenEmbedding
from annotated.model import Transformer, TransformerConfig
from annotated.runs.checkpoint import load_model
from annotated.schedule import learning_rate
from annotated.search.translation import Translator
from annotated.text.grammar.splits import embedded_split
from annotated.text.tokenization import load_tokenizer
from annotated.training import TrainingConfig
from studies.since_2017 import EDITS, Case, OneText, edited, lenders, optimizer_for, step_seconds, translations, ways
from tools import experiments
from tools.experiments import ROOT

CONFIG = TransformerConfig(40, d_model=24, d_ff=48, num_heads=4, num_layers=1, dropout=0.0)
PLAN = yaml.safe_load((ROOT / "data" / "runs" / "since-2017" / "plan.yml").read_text(encoding="utf-8"))
SOURCE, TARGET = torch.tensor([[7, 8, 9, 3], [9, 8, 3, 0]]), torch.tensor([[2, 11, 12], [2, 13, 14]])


def test_without_edits_it_is_the_papers_model():
    own, paper = edited(CONFIG, []), Transformer(CONFIG)
    paper.load_state_dict(own.state_dict())
    assert torch.allclose(own(SOURCE, TARGET), paper(SOURCE, TARGET), atol=1e-6)


@pytest.mark.parametrize("row", PLAN["rows"], ids=lambda row: row["id"])
def test_every_row_is_built_and_sees_no_later_word(row: dict):
    model = edited(CONFIG, row["edits"], num_layers=2, d_ff=60).eval()
    changed = torch.cat([TARGET[:, :-1], TARGET[:, -1:] + 1], dim=1)
    out, other = model(SOURCE, TARGET), model(SOURCE, changed)
    assert torch.equal(out[:, :-1], other[:, :-1])
    assert not torch.equal(out[:, -1], other[:, -1])
    longer = nn.functional.pad(SOURCE, (0, 2))
    assert torch.allclose(model(longer, TARGET), out, atol=1e-5)


def test_each_edit_is_in_the_model():
    parts = {edit: {type(part) for part in edited(CONFIG, [edit]).modules()} for edit in EDITS}
    assert nn.LayerNorm not in parts["rms-norm"]
    assert today.SwiGLU in parts["swiglu"]
    assert OneText in parts["one-stack"]
    assert edited(CONFIG, ["pre-norm"]).config.norm_first
    assert not any(name.endswith("bias") for name, _ in edited(CONFIG, ["no-biases"]).named_parameters())
    attention = edited(CONFIG, ["grouped-queries"]).decoder.layers[0].cross_attention
    assert len(attention.key.weight) == len(attention.value.weight) == CONFIG.d_model // CONFIG.num_heads
    with pytest.raises(InputError, match="rotery"):
        edited(CONFIG, ["rotery"])
    with pytest.raises(InputError, match="alone or with all"):
        edited(CONFIG, ["one-stack", "rotary"])


def test_turned_places_depend_on_distance_alone_and_normed_queries_on_no_size():
    turned = edited(CONFIG, ["rotary"]).encoder.layers[0].self_attention
    query, key, _ = turned.project(x := torch.randn(1, 1, 24).repeat(1, 5, 1), x)
    scores = query @ key.mT
    assert torch.allclose(scores[..., 1:, 1:], scores[..., :-1, :-1], atol=1e-5)
    assert not torch.allclose(scores[..., 0, 0], scores[..., 0, 1], atol=1e-3)
    assert edited(CONFIG, ["rotary"]).source_positions(x).equal(x)  # nothing is added any more
    normed: MultiHeadAttention = edited(CONFIG, ["qk-norm"]).encoder.layers[0].self_attention
    before = normed.project(x, x)[0]
    nn.init.normal_(normed.query.weight, std=30.0)
    assert normed.project(x, x)[0].square().mean().item() == pytest.approx(before.square().mean().item(), rel=1e-3)


def test_rows_of_the_plan_have_as_many_parameters_where_it_says_so():
    config, sizes = TransformerConfig(2000, **PLAN["model"]), {}
    for row in PLAN["rows"]:
        sizes[row["id"]] = edited(config, row["edits"], **row.get("stack", {})).num_parameters()
    assert sizes["swiglu"] == sizes["base"]
    assert sizes["one-stack"] == pytest.approx(sizes["base"], rel=0.005)
    assert sizes["all"] == pytest.approx(sizes["base"], rel=0.005)


def test_rates_reach_the_same_peak_and_a_cold_one_starts_there():
    config, rates = TrainingConfig(max_steps=40, warmup_steps=10, rate_factor=0.5), {}
    for edits in (("adamw-cosine",), ("cold",), ()):
        weight = nn.Parameter(torch.ones(2, 2))
        optimizer = optimizer_for(edits, config, 24)([weight])
        rates[edits] = []
        for step in range(1, 41):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, 24, 10, 0.5)
            weight.grad = torch.ones_like(weight)
            optimizer.step()
            rates[edits].append(optimizer.param_groups[-1]["lr"])
    cosine, cold, paper = rates.values()
    assert max(cosine) == pytest.approx(max(paper)) == pytest.approx(cold[0])
    assert cosine[24] == pytest.approx(max(paper) * 0.55, rel=1e-6)  # half-way down
    assert cosine[-1] == pytest.approx(max(paper) / 10)
    assert cold[10:] == paper[10:]
    assert math.isclose(cosine[4], max(paper) / 2)


def test_seconds_are_taken_of_every_row_that_trains_as_usual(monkeypatch: pytest.MonkeyPatch):
    def train(plan, row: str, seed: int):
        assert plan["rows"][0]["training"]["max_steps"] == 5
        return [SimpleNamespace(seconds=0.5)]

    monkeypatch.setattr(experiments, "train_unit", train)
    usual = {row["id"] for row in PLAN["rows"] if not row["id"].endswith(("-cold", "-short"))}
    assert step_seconds(rounds=2, steps=5) == {row: [0.1, 0.1] for row in usual}


@pytest.mark.slow
@pytest.mark.parametrize("edits", [["one-stack"], list(EDITS)], ids=["one stack", "all"])
def test_ways_end_at_the_last_token(edits):
    """After the last layer nothing else reaches the output; after the first the adjective does, or what has read it."""
    tokenizer = load_tokenizer(ROOT / "data" / "models" / "embedded")
    torch.manual_seed(0)
    model = edited(replace(CONFIG, vocab_size=len(tokenizer)), edits, num_layers=2, d_ff=60).eval()
    for part in model.modules():  # as drawn, hardly any decision depends on the adjective
        if isinstance(part, nn.Linear if len(edits) > 1 else TokenEmbedding):
            part.weight.data *= 10
    found = ways(model, tokenizer, embedded_split("pronoun"))
    assert found["sentences"] > 0
    assert found["turned"]["last token"][1] == 1.0
    assert found["turned"]["adjective"][1] == found["turned"]["translation"][1] == 0.0
    assert found["turned"]["adjective"][0] + found["turned"]["last token"][0] > 0.0
    asked = [kind for kind, count in found["asked"].items() if count]
    assert asked
    assert all(found["lent"][kind][1] == 0.0 for kind in asked)


def test_lenders_differ_in_one_thing():
    def case(adjective: int, right: int, far: bool, pronouns: tuple[int, int] = (7, 8)) -> Case:
        return Case(torch.tensor([5, adjective, 6]), [*pronouns], right, far, [1], 3, [])

    twins = [case(1, 0, True), case(2, 1, False)]
    others = [case(1, 1, True), case(1, 0, False), case(1, 0, True), case(2, 0, True), case(2, 1, True)]
    found = lenders([*twins, *others[:4], others[4], others[0]], 0)  # before the others, which it could lend to itself
    assert list(map(id, found.values())) == list(map(id, others[:4]))


def test_vectors_are_exchanged_at_all_places_from_the_adjective_on():
    spans = Case(torch.arange(10), [7, 8], 0, True, [3, 4], 7, []).spans()
    assert [[*places] for places in spans.values()] == [[3, 4], [5, 6], [7, 8], [9]]


@pytest.mark.slow
def test_translations_are_those_of_greedy_search():
    model, tokenizer, *_ = load_model(ROOT / "data" / "models" / "embedded")
    texts = [pair.source for pair in embedded_split("test")[:8]]
    assert translations(model, tokenizer, texts) == Translator(model, tokenizer).translate(texts, beam_size=1)


def test_weight_decay_spares_gains():
    model = edited(CONFIG, list(EDITS), num_layers=1, d_ff=60)
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    before = [weight.detach().clone() for weight in model.parameters()]
    today.make_optimizer(model.parameters(), rate=0.5, decay=0.1).step()
    for weight, old in zip(model.parameters(), before, strict=True):
        assert torch.allclose(weight, old if weight.dim() == 1 else 0.95 * old)
