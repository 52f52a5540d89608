"""The recurrent translator against PyTorch's cells and plain loops, and the record of its training (sections 1, 2)."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from annotated.base.corpus import SentencePair
from annotated.base.files import read_json
from annotated.recurrent import AdditiveAttention, RecurrentConfig, RecurrentTranslator, greedy_translation, gru_step
from annotated.runs.training import train
from annotated.text.grammar.splits import embedded_split
from annotated.text.tokenization import load_tokenizer
from annotated.training import TrainingConfig
from studies import recurrent as study

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "data" / "runs" / "recurrent" / "results.json"
PARTNER = RECORD.parents[1] / read_json(RECORD)["partner"] / "run.json"


def double(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def close(a: Tensor, b: Tensor, within: float = 1e-10) -> bool:
    return a.shape == b.shape and (a - b).abs().max().item() < within


@pytest.fixture
def model() -> RecurrentTranslator:
    return RecurrentTranslator(RecurrentConfig(50, d_model=8, d_hidden=6, dropout=0.0)).double().eval()


def test_a_gated_step_is_pytorchs():
    """C-1-b: h_t = f(h_{t-1}, x_t)."""
    cell, x, state = nn.GRUCell(5, 4).double(), double(3, 5), double(3, 4)
    assert close(gru_step(x, state, cell), cell(x, state))


def test_additive_attention_equals_a_naive_loop():
    """C-3.2.1-f: the score is a network of one hidden layer."""
    attention = AdditiveAttention(3, 4, 5).double()
    w_q, w_k, v = (layer.weight.tolist() for layer in (attention.query, attention.key, attention.score))
    query, key, value = double(2, 3), double(6, 4), double(6, 2)
    output, weights = attention(query, key, value)
    for row, q in enumerate(query.tolist()):
        scores = []
        for k in key.tolist():
            hidden = [sum(a * b for a, b in zip(x, q)) + sum(a * b for a, b in zip(y, k)) for x, y in zip(w_q, w_k)]
            scores.append(sum(out * math.tanh(h) for out, h in zip(v[0], hidden)))
        powers = [math.exp(score) for score in scores]
        expected = torch.tensor(powers, dtype=torch.float64) / sum(powers)
        assert close(weights[row], expected)
        assert close(output[row], expected @ value)
    batched, _ = attention(query.expand(7, 2, 3), key.expand(7, 6, 4), value.expand(7, 6, 2))
    assert close(batched, output.expand(7, 2, 2))
    assert close(attention.attend(query, attention.key(key), value)[0], output)


def test_additive_attention_obeys_the_mask():
    attention = AdditiveAttention(3, 3, 4).double()
    query, key, value = double(4, 3), double(5, 3), double(5, 2).requires_grad_()
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[0, 3:] = False
    mask[1] = False
    output, weights = attention(query, key, value, mask)
    assert torch.equal(weights != 0, mask)
    assert close(output[0], attention(query[:1], key[:3], value[:3])[0][0])
    output[1].sum().backward()
    assert not output[1].any()
    assert not value.grad.any()


def test_the_translator_is_a_loop_of_cells(model: RecurrentTranslator):
    """C-1-b, C-1-e: one sentence, one step at a time, with a look back at all of the source before each."""
    source, target = [7, 9, 30, 3], [2, 11, 12, 13]
    table, h = model.target_embedding.weight * math.sqrt(8), model.config.d_hidden
    cells = {}
    for name, suffix in (("forward", ""), ("backward", "_reverse")):
        cells[name] = nn.GRUCell(8, h).double()
        state = model.encoder.state_dict()
        cells[name].load_state_dict({key: state[f"{key}_l0{suffix}"] for key in cells[name].state_dict()})
    halves = {}
    for name, words in (("forward", source), ("backward", source[::-1])):
        states = [torch.zeros(1, h).double()]
        for word in words:
            states.append(gru_step(table[word][None], states[-1], cells[name]))
        halves[name] = states[1:] if name == "forward" else states[:0:-1]
    memory = torch.cat([torch.cat(halves["forward"]), torch.cat(halves["backward"])], dim=1)
    state, rows = torch.tanh(model.decoder.first_state(halves["backward"][0])), []
    for word in target:
        read, _ = model.decoder.attention(state, memory, memory)
        state = model.decoder.cell(torch.cat([table[word][None], read], dim=1), state)
        rows.append(torch.tanh(model.decoder.read_out(torch.cat([table[word][None], state, read], dim=1))))
    expected = torch.cat(rows) @ model.target_embedding.weight.T
    assert close(model(torch.tensor([source]), torch.tensor([target]))[0], expected)


def test_its_numbers_are_counted_by_hand(model: RecurrentTranslator):
    """50 words of 8 numbers, once; three gates of 6 in each cell; attention, the first state, and what is read out."""
    both_ways, decoder = 2 * 3 * 6 * (8 + 6 + 2), 3 * 6 * (8 + 12 + 6 + 2)
    attention, first_state, read_out = 6 * 6 + 6 * 12 + 6, 6 * (6 + 1), 8 * (8 + 6 + 12 + 1)
    assert model.num_parameters() == 50 * 8 + both_ways + decoder + attention + first_state + read_out


def test_padding_changes_nothing(model: RecurrentTranslator):
    short, long, target = [7, 9, 3], [8, 5, 6, 10, 3], torch.randint(4, 50, (2, 4))
    both = torch.tensor([[*short, 0, 0], long])
    assert close(model(both, target)[0], model(torch.tensor([short]), target[:1])[0])
    assert close(model(both, target)[1], model(torch.tensor([long]), target[1:])[0])


def test_no_position_sees_later_targets(model: RecurrentTranslator):
    source, target = torch.randint(4, 50, (1, 5)), torch.randint(4, 50, (1, 6))
    changed = target.clone()
    changed[:, 3:] = torch.randint(4, 50, (1, 3))
    assert close(model(source, target)[:, :3], model(source, changed)[:, :3])
    assert not close(model(source, target)[:, 3:], model(source, changed)[:, 3:])


def test_greedy_translation_reads_back_what_it_wrote(model: RecurrentTranslator):
    source = torch.randint(4, 50, (5, 6))
    with torch.no_grad():
        model.decoder.read_out.weight[:] *= 3
        model.target_embedding.weight[3] *= 4  # some sentences end early
    written = greedy_translation(model, source, max_steps=9)
    shifted = torch.cat([torch.full((5, 1), 2), written[:, :-1]], dim=1)
    expected = model(source, shifted).argmax(dim=-1)
    ended = (written == 3).int().cumsum(dim=1) - (written == 3).int() > 0
    assert torch.equal(written, expected.masked_fill(ended, 0))
    alone = greedy_translation(model, source[:1], max_steps=9)[0].tolist()
    assert written[0].tolist()[: len(alone)] == alone


def test_distance_dims_recurrence_and_not_attention():
    """C-1-e: what the last output owes to an early input, for layers with random weights."""
    x = double(1, 60, 16).requires_grad_()
    layer, attention = nn.RNN(16, 16, batch_first=True).double(), AdditiveAttention(16, 16, 16).double()
    near_and_far = {}
    for name, output in {"recurrence": layer(x)[0], "attention": attention(x, x, x)[0]}.items():
        sizes = torch.autograd.grad(output[0, -1].sum(), x)[0][0].norm(dim=-1)
        near_and_far[name] = (sizes[0] / sizes[-2]).item()
    assert near_and_far["recurrence"] < 1e-6
    assert near_and_far["attention"] > 0.2


@pytest.mark.slow
def test_what_is_far_away_is_harder_to_learn():
    """C-2-c: the first of several symbols is to be named at the end; a recurrent layer learns it only when near."""

    def share_learned(recurrent: bool, distance: int) -> float:
        layer = (nn.RNN(9, 32, batch_first=True) if recurrent else AdditiveAttention(9, 9, 32)).double()
        answer = nn.Linear(32 if recurrent else 9, 8).double()
        optimizer = torch.optim.Adam([*layer.parameters(), *answer.parameters()], lr=0.01)
        for _ in range(201):
            symbols = torch.randint(8, (32, distance + 1))
            mark = (torch.arange(distance + 1) == 0).expand_as(symbols).unsqueeze(-1)
            x = torch.cat([nn.functional.one_hot(symbols, 8), mark], dim=-1).double()
            answers = answer((layer(x)[0] if recurrent else layer(x[:, -1:], x, x)[0])[:, -1])
            optimizer.zero_grad()
            nn.functional.cross_entropy(answers, symbols[:, 0]).backward()
            optimizer.step()
        return (answers.argmax(dim=1) == symbols[:, 0]).double().mean().item()

    assert share_learned(True, 3) > 0.9
    assert share_learned(True, 60) < 0.6
    assert share_learned(False, 60) > 0.9


@pytest.mark.slow
def test_the_loop_that_trains_transformers_trains_it():
    pairs = [([w, w + 1, 3], [w + 1, w, 3]) for w in range(4, 44)]
    model = RecurrentTranslator(RecurrentConfig(50, d_model=32, d_hidden=32, dropout=0.0))
    config = TrainingConfig(max_tokens=200, max_steps=120, warmup_steps=20, rate_factor=0.5, label_smoothing=0.0)
    state = train(model, pairs, pairs, replace(config, precision="float32", validate_every=60))
    losses = [line["valid_loss"] for line in state.history if "valid_loss" in line]
    assert losses[-1] < 0.3 < 2 < state.history[0]["loss"]


def test_the_record_is_of_a_fair_rival():
    """C-1-h: as many parameters and steps as its partner, the same data and batches, and a rate of its own."""
    record, partner = read_json(RECORD), read_json(PARTNER)
    run, trials = record["run"], record["trials"]
    assert run["parameters"] == pytest.approx(partner["parameters"], rel=0.01)
    assert run["steps"] == partner["steps"] == run["history"][-1]["step"]
    own = {"rate_factor", "clip_norm"}
    for trial in [*trials, run]:
        same = partner["training"].keys() - own - ({"max_steps"} if trial is not run else set())
        assert {name: trial["training"][name] for name in same} == {name: partner["training"][name] for name in same}
    assert [trial["rate_factor"] for trial in trials] == list(study.RATES)
    losses = [trial["best_valid_loss"] for trial in trials]
    best = losses.index(min(losses))
    assert run["rate_factor"] == study.RATES[best]
    assert 0 < best < len(study.RATES) - 1
    assert record["threads"] == partner["threads"] == 1
    assert record["seconds_a_step"].keys() == {"recurrent", "transformer"}  # measured in turn, on one machine
    assert record["corpus_version"] == partner.get("corpus_version", record["corpus_version"])


def test_the_transformer_gets_further_in_the_same_time():
    """C-7-b, C-1-h: its steps are shorter, and when it ends its loss is the lower; in steps the rival starts better."""
    lines = (PARTNER.parent / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    histories = [json.loads(line) for line in lines], read_json(RECORD)["run"]["history"]
    theirs, rivals = ([line for line in history if "valid_loss" in line] for history in histories)
    assert theirs[-1]["step"] == rivals[-1]["step"]
    times = read_json(RECORD)["seconds_a_step"]
    assert times["transformer"] < times["recurrent"]
    end = theirs[-1]["step"] * times["transformer"]
    in_time = [line for line in rivals if line["step"] * times["recurrent"] <= end]
    assert theirs[-1]["valid_loss"] < in_time[-1]["valid_loss"]
    early = {line["step"]: line["valid_loss"] for line in theirs}[1000]
    assert {line["step"]: line["valid_loss"] for line in rivals}[1000] < early


def test_a_score_is_of_the_outputs_up_to_eos_in_the_order_of_the_sources(monkeypatch):
    """A model that copies its source, and goes on after eos, gets every sentence right that is its own translation."""
    tokenizer = load_tokenizer(ROOT / "data" / "models" / "embedded")
    pairs = [SentencePair(pair.source, pair.source) for pair in embedded_split("valid")[:60]]
    monkeypatch.setattr(study, "CORPUS", SimpleNamespace(split=lambda name: pairs))
    monkeypatch.setattr(study, "greedy_translation", lambda _, source, *__: torch.cat((source, source), 1))
    found = study.score(study.recurrent(len(tokenizer)), tokenizer, "valid")
    assert (found["exact_match"], found["sentences"]) == (1.0, 60)
