"""The training loop: one pass equals many, accumulation the large batch, a resumed run an unbroken one."""

import json
import math
import re
import threading
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from inspect import unwrap
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save
from torch import nn

from annotated.base.files import InputError, locked, read_json, read_notes, read_tensors, write_json
from annotated.batching import Batch, check_pair, make_batch
from annotated.machine.acceleration import FusedAttention, chunked_training_loss
from annotated.model import Transformer, TransformerConfig
from annotated.regularization import label_smoothed_loss
from annotated.runs.checkpoint import load_model, save_model, weights_of
from annotated.runs.examples import batch_all, batch_groups, examples_by_epoch, tokenize_pairs
from annotated.runs.folder import prepare_folder
from annotated.runs.log import TrainingLog, share_done
from annotated.runs.state import TrainingState, checkpoints, load_state, new_state, save_checkpoint, weights_in_place
from annotated.runs.training import losses_of, ready, train, train_on_corpus, validate
from annotated.schedule import build_optimizer, learning_rate, set_learning_rate
from annotated.text.corpora import load_corpus
from annotated.text.pairs import prefetch
from annotated.text.tokenization import PairTokenizer, train_tokenizer
from annotated.training import PRECISIONS, TrainingConfig, train_step, training_loss, validation_loss
from tests.stores import make

SIZES = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1}
PAIRS = [([5, 9, 3], [11, 6, 3]), ([8, 3], [7, 7, 9, 3]), ([4, 4, 6, 3], [5, 3]), ([9, 3], [21, 6, 8, 3])]
CONFIG = TrainingConfig(max_steps=4, max_tokens=16, warmup_steps=10, validate_every=2, seed=3)
FORMS = pytest.mark.parametrize("faster", [False, True], ids=["plain", "accelerated"])


def small_model(dropout: float = 0.0, seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(40, dropout=dropout, **SIZES))


def flat(model: Transformer) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in weights_of(model).values()])


def run(config: TrainingConfig = CONFIG, dropout: float = 0.0, seed: int = 0, **options) -> TrainingState:
    """A small model trained on a few pairs."""
    return train(small_model(dropout, seed), PAIRS, PAIRS, config, **options)


def same_states(one: TrainingState, other: TrainingState) -> bool:
    """Weights, averages, counters and losses, to the bit."""
    keys = ("step", "tokens", "loss", "valid_loss", "rate")
    lines = [[{k: line[k] for k in keys if k in line} for line in state.history] for state in (one, other)]
    counters = [(s.step, s.epoch, s.batch, s.tokens, s.best_loss) for s in (one, other)]
    tensors = [[flat(s.model), *(s.average or {}).values()] for s in (one, other)]
    return lines[0] == lines[1] and counters[0] == counters[1] and all(map(torch.equal, *tensors))


# One step


def test_one_pass_equals_prefix_by_prefix():
    """C-3.1-i: mask and shift train every position on the tokens before it; batching changes nothing."""
    model, apart = small_model().eval(), 0.0
    for pair in PAIRS:
        batch = make_batch([pair])
        for end in range(1, batch.target_input.shape[1] + 1):
            logits = model(batch.source, batch.target_input[:, :end])[:, -1:]
            apart += label_smoothed_loss(logits, batch.target_output[:, end - 1 : end]).item()
    assert training_loss(model, make_batch(PAIRS), 0.1).item() == pytest.approx(apart, abs=1e-4)


def test_accumulation_equals_the_large_batch():
    """Two parts of unequal token counts give the loss and the step of the whole."""
    moved, losses = [], []
    for batches in ([make_batch(PAIRS)], [make_batch(PAIRS[:1]), make_batch(PAIRS[1:])]):
        model = small_model()
        optimizer = build_optimizer(model.parameters())
        set_learning_rate(optimizer, 1e-3)
        losses.append(train_step(model, optimizer, batches, CONFIG).item())
        moved.append(flat(model))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert (moved[0] - flat(small_model())).abs().max() > 5e-4
    assert (moved[0] - moved[1]).abs().max() < 1e-5


@FORMS
def test_losses_are_computed_in_the_configured_form_and_precision(faster: bool):
    """The plain form casts at every product; the other one has stacks of 16 bits. Validation is in float32 in both."""
    for precision in ("float32", "bfloat16"):
        model, seen = small_model(), []
        config = replace(CONFIG, precision=precision, accelerate=faster)
        step_loss, valid_loss = losses_of(model, build_optimizer(model.parameters()), config)
        assert valid_loss is (chunked_training_loss if faster else training_loss)
        assert isinstance(model.encoder.layers[0].self_attention, FusedAttention) is faster
        handle = nn.modules.module.register_module_forward_hook(
            lambda module, _, result, seen=seen: seen.append(result.dtype) if isinstance(module, nn.Linear) else None
        )
        with handle:
            loss = step_loss(make_batch(PAIRS), 0.1)
            assert set(seen) == {getattr(torch, precision)}
            seen.clear()
            validation_loss(model, [make_batch(PAIRS)], valid_loss)
            assert set(seen) == {torch.float32}
        assert loss.dtype == torch.float32
        loss.backward()
        assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())


@pytest.mark.slow
def test_plain_and_accelerated_training_have_the_same_losses():
    config = replace(CONFIG, max_steps=5, validate_every=1, precision="float32", max_tokens=12, accumulation=2)
    plain, fast = (run(replace(config, accelerate=on)) for on in (False, True))
    losses, fast_losses = ([line["valid_loss"] for line in s.history if "valid_loss" in line] for s in (plain, fast))
    assert losses[-1] < losses[0] - 0.01
    assert losses == pytest.approx(fast_losses, abs=1e-4)
    torch.testing.assert_close(flat(plain.model), flat(fast.model), rtol=0, atol=1e-3)
    kinds = [[type(module) for module in model.modules()] for model in (small_model(), fast.model)]
    assert kinds[0] == kinds[1], "the model has its classes back"


@pytest.mark.slow
@FORMS
@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_steps_in_float16_are_those_in_float32(faster: bool, clip_norm: float | None, monkeypatch: pytest.MonkeyPatch):
    """The scale is taken out of the gradients before they are clipped, which Adam would hide."""
    losses, norms, clip = {}, [], torch.nn.utils.clip_grad_norm_

    def clipped(parameters, limit: float) -> None:
        parameters = list(parameters)
        before = clip(parameters, limit).item()
        norms.append((before, torch.nn.utils.get_total_norm([p.grad for p in parameters]).item()))

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clipped)
    for precision in ("float16", "float32"):
        config = replace(CONFIG, precision=precision, accelerate=faster, clip_norm=clip_norm)
        state = new_state(small_model().train(), config)
        loss_of, _ = losses_of(state.model, state.optimizer, config)
        set_learning_rate(state.optimizer, 1e-3)
        batches = [make_batch(PAIRS[:2]), make_batch(PAIRS[2:])]
        steps = [train_step(state.model, state.optimizer, batches, config, loss_of, state.scaler) for _ in range(8)]
        losses[precision] = [loss.item() for loss in steps]
    assert losses["float16"][-1] < losses["float16"][0] - 0.1
    assert losses["float16"] == pytest.approx(losses["float32"], rel=0.01)
    if clip_norm is None:
        assert norms == []  # off by default: not in the paper
    else:
        assert [before for before, _ in norms[:8]] == pytest.approx([before for before, _ in norms[8:]], rel=0.05)
        assert [after for _, after in norms] == pytest.approx([clip_norm] * 16, rel=1e-4)


@FORMS
def test_an_infinite_gradient_skips_the_step_and_lowers_the_scale(faster: bool):
    config = replace(CONFIG, precision="float16", accelerate=faster)
    state = new_state(small_model().train(), config)
    model, scaler = state.model, state.scaler
    set_learning_rate(state.optimizer, 1e-3)
    before, scale = flat(model), scaler.get_scale()
    step_loss, _ = losses_of(model, state.optimizer, config)
    (worker,) = step_loss.args  # the model, or its working copy
    weight = worker.encoder.layers[0].feed_forward.inner.weight
    with weight.register_hook(lambda grad: torch.full_like(grad, math.inf)):
        train_step(model, state.optimizer, [make_batch(PAIRS)], config, step_loss, scaler)
    assert torch.equal(flat(model), before)
    assert scaler.get_scale() == scale / 2
    train_step(model, state.optimizer, [make_batch(PAIRS)], config, step_loss, scaler)
    assert (flat(model) != before).float().mean() > 0.5
    assert flat(model).isfinite().all()
    assert scaler.get_scale() == scale / 2


# Examples


def test_every_epoch_uses_each_pair_once_and_goes_on_from_any_place():
    config = replace(CONFIG, max_tokens=4, accumulation=2)

    def take(epoch: int, position: int, count: int) -> list[tuple[list[list], int, int]]:
        groups = batch_groups(PAIRS, config, epoch, position)
        parts = [next(groups) for _ in range(count)]
        return [([batch.target_output.tolist() for batch in part.batches], part.epoch, part.batch) for part in parts]

    unbroken = take(0, 0, 8)
    batches = [batch for part, *_ in unbroken for batch in part]
    wanted = sorted([target] for _, target in PAIRS)
    assert [sorted(batches[i : i + 4]) for i in range(0, 16, 4)] == [wanted] * 4
    assert batches[:4] != batches[4:8]
    for i in range(3):
        assert take(*unbroken[i][1:], 4) == unbroken[i + 1 : i + 5]


def test_batches_for_a_gpu_are_pinned_by_the_thread_that_works_ahead(monkeypatch: pytest.MonkeyPatch):
    """In the context of this process's GPU, and before the step asks for them."""
    where, entered, asked = [], [], []

    def pinned(batch: Batch) -> Batch:
        where.append(threading.current_thread())
        return replace(batch, num_tokens=-batch.num_tokens)

    monkeypatch.setattr(Batch, "pinned", pinned)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext(entered.append(str(device))))
    config = replace(CONFIG, accumulation=2)
    plain = next(batch_groups(PAIRS, config, 0, 0))
    with closing(prefetch(ready(batch_groups(PAIRS, config, 0, 0), torch.device("cuda:3")))) as groups:
        group = next(groups)
    assert entered == ["cuda:3"]
    assert threading.main_thread() not in where
    assert [-batch.num_tokens for batch in group.batches] == [batch.num_tokens for batch in plain.batches]
    assert (group.num_tokens, group.epoch, group.batch) == (plain.num_tokens, plain.epoch, plain.batch)
    where.clear()
    monkeypatch.setattr("annotated.runs.training.ready", lambda *given: asked.append(given[1]) or ready(*given))
    run(replace(CONFIG, max_steps=1))
    assert (asked, where) == ([torch.device("cpu")], [])


def test_pairs_that_are_empty_or_too_long_are_left_out():
    tokenizer = train_tokenizer(["a b c d e f g h"] * 30, 275)
    (pair,) = load_corpus("embedded").split("valid")[:1]
    texts = [("a b c " * 50, "a"), ("a", ""), ("a b", "c d")]
    pairs = [replace(pair, source=source, target=target) for source, target in texts]
    assert tokenize_pairs(tokenizer, pairs, max_length=20) == tokenize_pairs(tokenizer, pairs[2:], max_length=20)


def test_what_cannot_be_trained_on_is_said_before_the_first_step():
    """MONAI's research-contributions#181 and pytorch-seq2seq#89: by name, and not after the training."""
    model, valid = small_model(), PAIRS
    untied = Transformer(TransformerConfig(40, **SIZES, tie_embeddings=False, source_vocab_size=60))
    for given, examples, held, says in (
        (model, [], valid, "to train on"),
        (model, PAIRS, [], "to validate by"),
        (model, [PAIRS[0], ([5, 3], [40, 3])], valid, "pair 2 .*40"),
        (model, [PAIRS[0], ([5, 3], [-1, 3])], valid, "pair 2 .*-1"),
        (model, [PAIRS[0], ([5, 3], [6])], valid, "pair 2 "),
        (model, [PAIRS[0], ([], [6, 3])], valid, "pair 2 .*empty"),
        (model, PAIRS, [([5, 3], [6])], "pair 1 .*end"),
        (untied, [([60, 3], [5, 3])], valid, "pair 1 .*60"),
    ):
        with pytest.raises(InputError, match=says):
            train(given, examples, held, CONFIG)
    for ids in ([4.5, 3], ["▁the", "</s>"]):  # annotations, which tests check and users do not, forbid it
        with pytest.raises(InputError, match=re.escape(f"pair 1 holds {ids[0]!r}")):
            unwrap(check_pair)(([5, 3], ids), 1)
    with pytest.raises(InputError, match="piece_dropout"):  # sentencepiece#371's kind: two vocabularies drop no merges
        examples_by_epoch(object.__new__(PairTokenizer), PAIRS, replace(CONFIG, piece_dropout=0.1), model.config)


def test_training_and_validation_use_the_model_s_own_ids():
    """With pad and start elsewhere in the vocabulary, and the rows of the matrix likewise, nothing else changes."""
    usual = small_model()
    other = Transformer(TransformerConfig(40, dropout=0.0, pad_id=37, start_id=30, **SIZES))
    other.load_state_dict(usual.state_dict())
    rows = torch.arange(40)
    rows[[0, 37, 2, 30]] = torch.tensor([37, 0, 30, 2])
    with torch.no_grad():
        other.target_embedding.weight.copy_(usual.target_embedding.weight[rows])
    config = replace(CONFIG, max_tokens=100, max_steps=3, precision="float32")
    losses = [[line["valid_loss"] for line in train(model, PAIRS, PAIRS, config).history] for model in (usual, other)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


@pytest.mark.slow
def test_lists_that_are_filled_up_have_the_losses_of_short_ones():
    """transformers#7546's kind; also where all of a batch is padding."""
    filled = [(source + [0] * 3, target + [0] * 5) for source, target in PAIRS]
    config = replace(CONFIG, max_tokens=100, precision="float32")
    states = [train(small_model(), pairs, pairs, config) for pairs in (PAIRS, filled)]
    assert states[0].tokens == states[1].tokens
    assert states[0].best_loss == pytest.approx(states[1].best_loss, rel=1e-5)
    torch.testing.assert_close(flat(states[0].model), flat(states[1].model), rtol=1e-4, atol=1e-6)
    nothing = train(small_model(), [([5, 3], [0, 0])], PAIRS, config)
    assert flat(nothing.model).isfinite().all()


# Validation


def test_validation_is_unsmoothed_without_dropout_and_per_token():
    """C-5.4-f: perplexity is measured against the true tokens; the model is left in the mode it was in."""
    model = small_model(dropout=0.5)
    batches = [make_batch(PAIRS[:2]), make_batch(PAIRS[2:])]
    found = []
    for training in (True, False, True):
        found.append(validation_loss(model.train(training), batches))
        assert {module.training for module in model.modules()} == {training}
    tokens = sum(len(target) for _, target in PAIRS)
    expected = training_loss(model.eval(), make_batch(PAIRS), 0.0).item() / tokens
    assert found == pytest.approx([expected] * 3, rel=1e-5)


def test_a_run_measures_its_averages_without_dropout_and_goes_on_with_its_own_weights():
    state = new_state(small_model(0.5).train(), replace(CONFIG, average_decay=0.5))
    own, average = flat(state.model), {name: torch.zeros_like(weight) for name, weight in state.average.items()}
    state.average, kept, log = average, [], TrainingLog(CONFIG, state, path=None, progress=False)

    def measure(model: Transformer) -> dict[str, float]:
        assert not any(module.training for module in model.modules())
        return {"largest": flat(model).abs().max().item()}

    loss = validate(state, [make_batch(PAIRS)], log, kept.append, measure=measure)
    assert loss == pytest.approx(math.log(40))  # of weights that are all zero
    assert state.history[-1]["largest"] == 0
    assert torch.equal(flat(state.model), own)
    assert all(module.training for module in state.model.modules())
    with pytest.raises(ZeroDivisionError):
        validate(state, [make_batch(PAIRS)], log, kept.append, measure=lambda model: 1 / 0)
    assert all(module.training for module in state.model.modules())
    validate(state, [make_batch(PAIRS)], log, kept.append)
    assert kept == [state]  # not where the loss is no lower
    state.average["target_embedding.weight"].fill_(math.nan)
    with pytest.raises(InputError, match="nan"):
        validate(state, [make_batch(PAIRS)], log, on_best=lambda _: pytest.fail("it was kept"))
    assert state.best_loss == loss
    with pytest.raises(ZeroDivisionError), weights_in_place(state.model, average):
        raise ZeroDivisionError
    assert torch.equal(flat(state.model), own)


# A run


@pytest.mark.slow
def test_training_learns_by_equation_3_and_a_fixed_seed_repeats():
    """C-5.3-b: each step uses the rate of its own number, counted from 1."""
    config = replace(CONFIG, validate_every=25)
    runs = [run(replace(config, max_steps=steps), dropout=0.1) for steps in (150, 50)]
    losses = [[line["valid_loss"] for line in state.history if "valid_loss" in line] for state in runs]
    assert losses[0][-1] < 0.5 < 3 < validation_loss(small_model(), [make_batch(PAIRS)])
    assert losses[0][:2] == losses[1]
    rates = {line["step"]: line["rate"] for line in runs[0].history if "rate" in line}
    assert rates == pytest.approx({step: learning_rate(step, 16, 10) for step in rates}, rel=1e-6)
    assert rates


def test_the_exponential_average_is_an_average_of_the_weights():
    config = replace(CONFIG, average_decay=0.5)
    state = new_state(small_model(), config)
    state.step = 100  # past the first steps, where the average follows more closely
    start = {name: tensor.clone() for name, tensor in state.average.items()}
    with torch.no_grad():
        for parameter in state.model.parameters():
            parameter.add_(1.0)
    state.advance(20, config, 1.0)
    for name, tensor in state.average.items():
        torch.testing.assert_close(tensor, start[name] + 0.5)
    assert state.weights() is state.average


def test_the_first_limit_reached_ends_the_run():
    state = new_state(small_model(), CONFIG)
    state.step, state.epoch, state.seconds = 5, 1, 90.0
    assert share_done(TrainingConfig(max_steps=10), state) == 0.5
    assert share_done(TrainingConfig(max_steps=10, max_epochs=1), state) == 1.0
    assert share_done(TrainingConfig(max_minutes=3.0, max_steps=100), state) == 0.5
    by_epoch = run(TrainingConfig(max_epochs=2, max_tokens=4))
    assert (by_epoch.epoch, by_epoch.batch) == (2, 0)


@pytest.mark.slow
def test_patience_ends_a_run_that_learns_no_more(tmp_path: Path):
    """With a rate at which no weight changes, the first loss stays the lowest: two validations later it is over."""
    config = replace(CONFIG, max_steps=90, validate_every=3, rate_factor=1e-12, patience=2)
    assert run(config, folder=tmp_path).step == 9
    assert run(config, folder=tmp_path, resume=True).step == 9
    assert run(replace(config, patience=3), folder=tmp_path, resume=True).step == 12
    assert run(replace(config, rate_factor=1.0, max_steps=15, patience=2)).step == 15


def test_the_time_left_is_counted_from_where_a_run_was_resumed():
    """Ten steps of a hundred in ten seconds leave forty for the rest, also when fifty were done before."""
    state = new_state(small_model(), CONFIG)
    state.step = 50
    log = TrainingLog(TrainingConfig(max_steps=100), state, path=None, progress=True)
    with closing(log.bar):
        line = log.bar.format_meter(**log.bar.format_dict | {"n": 60, "elapsed": 10})
    assert "00:40" in line


def test_metrics_that_cannot_be_written_are_named(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    log = TrainingLog(CONFIG, new_state(small_model(), CONFIG), path, progress=False)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match=str(path)):
        log.record(loss=1.0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_refused(value: float):
    state = new_state(small_model(), CONFIG)
    log = TrainingLog(CONFIG, state, None, progress=False)
    state.losses = [torch.tensor(1.0)] * (log.every - 1)
    with pytest.raises(InputError, match=str(value)):
        log.after_step(torch.tensor(value), 0.1)


@pytest.mark.slow
def test_a_loss_that_is_no_number_stops_the_run_and_keeps_what_was_saved(tmp_path: Path):
    run(folder=tmp_path)
    kept = {path: path.read_bytes() for path in (tmp_path / "checkpoints").iterdir()}
    config = replace(CONFIG, max_steps=100, rate_factor=1e30, validate_every=200)
    with pytest.raises(InputError, match=r"(nan|inf) .*\d+"):
        run(config, folder=tmp_path, resume=True)
    assert {path: path.read_bytes() for path in (tmp_path / "checkpoints").iterdir()} == kept


# Stopped, and gone on


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faster", "precision"), [(False, PRECISIONS[0]), (True, PRECISIONS[1]), (True, PRECISIONS[2])]
)
def test_a_resumed_run_equals_an_unbroken_one(tmp_path: Path, faster: bool, precision: str):
    """Weights, Adam's moments, the average, the dropout's random numbers and the place in the epoch all come back."""
    config = replace(CONFIG, max_steps=9, max_tokens=4, average_decay=0.9, accumulation=2, clip_norm=1.0)
    config = replace(config, precision=precision, accelerate=faster)
    whole = run(config, dropout=0.3)
    run(config, dropout=0.3, folder=tmp_path, stop=lambda: True)  # before its first step
    assert checkpoints(tmp_path) == []
    options = {"dropout": 0.3, "folder": tmp_path, "resume": True}
    run(replace(config, max_steps=5), **options)
    resumed = run(config, seed=5, **options)
    assert same_states(whole, resumed)
    assert list(map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())) == resumed.history
    assert run(config, **options).history == resumed.history  # it was finished


@pytest.mark.slow
def test_a_run_in_parts_delivers_what_an_unbroken_one_does(tmp_path: Path):
    """Stopped anywhere, by a signal, a limit or the time: weights, losses and delivered model, to the bit."""
    config = replace(CONFIG, max_steps=26, max_tokens=100, validate_every=10, average_decay=0.9, rate_factor=2.0)
    corpus = load_corpus(str(write_corpus(tmp_path / "corpus")))

    def go(name: str, config: TrainingConfig, **options) -> TrainingState:
        return train_on_corpus(
            corpus, lambda size: TransformerConfig(size, **SIZES | {"dropout": 0.2}), config, tmp_path / name,
            vocab_size=290, device=torch.device("cpu"), progress=False, warn=lambda text: None, **options,
        )  # fmt: skip

    unbroken, last = go("unbroken", config), 0
    for number, end in enumerate((1, 9, 13, 20, 23)):
        calls = iter([False] * (end - last) + [True])
        if number % 2:
            state = go("parts", replace(config, max_steps=end), resume=True)  # and validated once more
            go("parts", replace(config, max_minutes=1e-9), resume=True)
        else:
            state = go("parts", config, resume=last > 0, stop=lambda calls=calls: next(calls))
        assert state.step == end
        last = end
    assert same_states(unbroken, go("parts", config, resume=True))
    models = [load_file(tmp_path / name / "model.safetensors") for name in ("unbroken", "parts")]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
    assert len({read_json(tmp_path / name / "config.json")["step"] for name in ("unbroken", "parts")}) == 1


def test_a_run_stopped_before_its_first_validation_leaves_a_model(tmp_path: Path):
    calls, kept = iter([False, True]), []
    options = {"folder": tmp_path, "on_best": lambda state: kept.append((state.step, state.best_loss))}
    run(stop=lambda: next(calls), **options)
    assert kept == [(1, math.inf)]
    assert checkpoints(tmp_path) == [], "where a run happens to be interrupted is no part of an average"
    run(resume=True, **options)
    assert all(math.isfinite(loss) for _, loss in kept[1:])
    assert len(kept) > 1


# Checkpoints


def saved(folder: Path, steps: int, keep: int = 5) -> TrainingState:
    """A state after so many steps, each of which was saved."""
    config = replace(CONFIG, average_decay=0.9)
    state = new_state(small_model(), config)
    set_learning_rate(state.optimizer, 1e-3)
    for _ in range(steps):
        train_step(state.model, state.optimizer, [make_batch(PAIRS)], config)
        state.advance(13, config, 1.0)
        save_checkpoint(folder, state, keep)
    return state


def fresh(**changes) -> TrainingState:
    """A state to load into."""
    return new_state(small_model(seed=1), replace(CONFIG, average_decay=0.9, **changes))


@pytest.mark.parametrize("keep", [1, 3])
def test_the_last_checkpoints_and_two_states_are_kept(tmp_path: Path, keep: int):
    state = saved(tmp_path, 5, keep)
    assert [path.stem[-1] for path in checkpoints(tmp_path)] == ["3", "4", "5"][-keep:]
    state.step = 6
    save_checkpoint(tmp_path, state, keep, to_average=False)
    assert [path.stem[-1] for path in checkpoints(tmp_path)] == ["3", "4", "5"][-keep:], "a state takes no place"
    assert sorted(path.stem[-1] for path in (tmp_path / "checkpoints").glob("*.state")) == ["5", "6"]


def test_a_damaged_state_is_named_and_the_one_before_is_used(tmp_path: Path):
    saved(tmp_path, 2)
    before, last = sorted((tmp_path / "checkpoints").glob("*.state"))
    content, said = last.read_bytes(), []
    last.write_bytes(content[:500] + bytes([content[500] ^ 4]) + content[501:])
    state = fresh()
    load_state(tmp_path, state, said.append)
    assert state.step == 1
    assert torch.equal(flat(state.model), flat(saved(tmp_path / "again", 1).model))
    assert len(said) == 1
    assert said[0].startswith(str(last))
    before.write_bytes(before.read_bytes()[:-1])
    with pytest.raises(InputError, match=str(last)):
        load_state(tmp_path, state)


WEIGHT = "target_embedding.weight"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda t: None, None),
        (lambda t: t.pop(f"adam.{WEIGHT}.exp_avg"), rf"adam\.{WEIGHT}\.exp_avg "),
        (lambda t: t.update({f"adam.{WEIGHT}.exp_avg_sq": torch.ones(3)}), rf"adam\.{WEIGHT}\.exp_avg_sq "),
        (lambda t: t.update({f"average.{WEIGHT}": torch.ones(3)}), rf"average\.{WEIGHT}"),
        (lambda t: [t.pop(name) for name in list(t) if name.startswith("average.")], "average_decay"),
        (lambda t: t.pop("random.cpu"), "random"),
        (lambda t: t.update({"random.cpu": torch.ones(5, dtype=torch.uint8)}), "random"),
        (lambda t: t.pop(f"model.{WEIGHT}"), WEIGHT),
    ],
)
def test_a_state_from_before_there_were_manifests_is_whole_or_refused(tmp_path: Path, spoil, says: str | None):
    state, path = saved(tmp_path, 1), tmp_path / "old" / "state.safetensors"
    (found,) = (tmp_path / "checkpoints").glob("*.state")
    (tmp_path / "old").mkdir()
    found.rename(path)
    tensors, notes = read_tensors(path), read_notes(path)
    spoil(tensors)
    path.write_bytes(save(tensors, notes))
    other = fresh()
    if says is None:
        load_state(path.parent, other)
        assert same_states(state, other)
    else:
        with pytest.raises(InputError, match=f"{path}: .*{says}"):
            load_state(path.parent, other)


def test_without_a_state_a_run_cannot_go_on(tmp_path: Path):
    path = tmp_path / "state.safetensors"
    for go_on in (lambda: load_state(tmp_path, fresh()), lambda: prepare_folder(tmp_path, resume=True)):
        with pytest.raises(InputError, match=str(tmp_path)):
            go_on()
    path.write_bytes(save({"random.cpu": torch.get_rng_state()}))
    with pytest.raises(InputError, match=f"{path}.*counters"):
        load_state(tmp_path, fresh())


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("averaged", [False, True])
def test_weights_that_are_not_finite_replace_no_checkpoint(tmp_path: Path, value: float, averaged: bool):
    state = saved(tmp_path, 1)
    before = {path: path.read_bytes() for path in (tmp_path / "checkpoints").iterdir()}
    weights = state.average if averaged else weights_of(state.model)
    weights["encoder.layers.0.feed_forward.inner.bias"][3] = value
    state.step = 2
    with pytest.raises(InputError, match=r"step 2.*encoder\.layers\.0\.feed_forward\.inner\.bias"):
        save_checkpoint(tmp_path, state, 5)
    assert {path: path.read_bytes() for path in (tmp_path / "checkpoints").iterdir()} == before


def test_the_scale_is_saved_with_the_state(tmp_path: Path):
    state = fresh(precision="float16")
    loss_of = partial(training_loss, state.model, precision=torch.float16)
    train_step(state.model, state.optimizer, [make_batch(PAIRS)], CONFIG, loss_of, state.scaler)
    state.scaler.update(32.0)
    save_checkpoint(tmp_path, state, 5)
    other, float32 = fresh(precision="float16"), fresh(precision="float32")
    assert other.scaler.state_dict() != state.scaler.state_dict()
    load_state(tmp_path, other)
    assert other.scaler.state_dict() == state.scaler.state_dict()
    load_state(tmp_path, float32)  # goes on in another precision, without a scale
    assert not float32.scaler.is_enabled()
    save_checkpoint(tmp_path, float32, 5)
    load_state(tmp_path, other)  # and back again, with the scale at hand
    assert other.scaler.get_scale() == 32.0


# From a corpus


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"max_steps": None}, "max_steps, max_epochs or max_minutes"),
        *(({name: 0}, name) for name in ("max_steps", "max_tokens")),
        *(({name: 0.0}, name) for name in ("max_minutes", "clip_norm", "rate_factor")),
        ({"checkpoint_minutes": -1.0}, "checkpoint_minutes"),
        ({"label_smoothing": 1.0}, "label_smoothing"),
        ({"piece_dropout": -0.1}, "piece_dropout"),
        ({"average_decay": 1.5}, "average_decay"),
        ({"compile": True, "accelerate": False}, "compile"),
        ({"precision": "none"}, "precision .*'none'"),
    ],
)
def test_configurations_of_no_use(values: dict, named: str):
    with pytest.raises(ValueError, match=named):
        replace(CONFIG, **values)


def test_what_is_not_in_the_paper_is_off_and_stated():
    assert TrainingConfig(max_steps=1).beyond_the_paper(TransformerConfig(40, **SIZES)) == {}
    options = {"rate_factor": 0.5, "clip_norm": 1.0, "average_decay": 0.9, "piece_dropout": 0.1}
    stated = TrainingConfig(max_steps=1, **options).beyond_the_paper(TransformerConfig(40, norm_first=True, **SIZES))
    assert stated == options | {"norm_first": True}


def write_corpus(folder: Path) -> Path:
    folder.mkdir()
    for split, count in (("train", 60), ("valid", 6)):
        lines = [f"the dog {i % 7} sees {i} cats\tder Hund {i % 7} sieht {i} Katzen\n" for i in range(count)]
        (folder / f"{split}.tsv").write_text("".join(lines) + "an empty side\t\n")
    return folder


@pytest.fixture
def options(tmp_path: Path) -> dict:
    """A small corpus in a folder, and what else `train_on_corpus` wants."""
    config = TrainingConfig(max_steps=4, max_tokens=200, warmup_steps=10, validate_every=2, precision="float32")
    return {
        "corpus": load_corpus(str(write_corpus(tmp_path / "corpus"))), "config": config, "folder": tmp_path / "run",
        "model_config": lambda size: TransformerConfig(size, **SIZES), "vocab_size": 290,
        "device": torch.device("cpu"), "progress": False, "warn": lambda text: None,
    }  # fmt: skip


@pytest.mark.slow
def test_from_raw_text_to_a_model_folder(tmp_path: Path, options: dict):
    """The folder holds the best model by validation loss and says how it came about."""
    said, settings = [], {"keep_kernels": True, "faster_products": False}
    write_json(tmp_path / "run" / "run.json", {"command": "annotated train"})  # ended before its first checkpoint
    state = train_on_corpus(**options | {"settings": settings, "warn": said.append})
    model, tokenizer, notes = load_model(tmp_path / "run")
    record = read_json(tmp_path / "run" / "run.json")
    valid = batch_all(tokenize_pairs(tokenizer, options["corpus"].split("valid"), 1024), 200)
    assert math.isclose(validation_loss(model, valid), state.best_loss, rel_tol=1e-5)
    assert notes["valid_loss"] == record["best_valid_loss"] == state.best_loss
    assert (record["pairs"], record["pairs_left_out"], record["valid_pairs_left_out"]) == (60, 1, 1)
    assert record["finished"]
    assert record["settings"] == settings
    assert record["training"]["precision"] == "float32"
    assert {"command", "revision", "device", "threads", "torch", "beyond_the_paper"} <= record.keys()
    assert not list((tmp_path / "run").rglob("*.partial"))
    assert len(said) == 3
    resumed = options | {"config": replace(options["config"], max_steps=6), "resume": True}
    assert train_on_corpus(**resumed).step == 6
    record = read_json(tmp_path / "run" / "run.json")
    for state_file in (tmp_path / "run" / "checkpoints").glob("*.state"):
        state_file.rename(state_file.with_suffix(".aside"))
    with pytest.raises(InputError, match="cannot be read"):
        train_on_corpus(**resumed)
    assert read_json(tmp_path / "run" / "run.json") == record, "nothing is written before the state is found"
    for state_file in (tmp_path / "run" / "checkpoints").glob("*.aside"):
        state_file.rename(state_file.with_suffix(".state"))
    path = tmp_path / "corpus" / "train.tsv"
    path.write_text(path.read_text().replace("dog 3", "dog 4"))
    with pytest.raises(InputError, match=str(tmp_path / "corpus")):
        train_on_corpus(**resumed | {"corpus": load_corpus(str(tmp_path / "corpus"))})


def test_what_a_run_cannot_begin_with_is_refused_and_leaves_nothing(
    tmp_path: Path, options: dict, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        "annotated.runs.examples.train_tokenizer", lambda *_, **__: pytest.fail("a vocabulary was learned")
    )
    monkeypatch.setenv("CXX", "no-such-compiler")
    save_model(small_model(), tmp_path / "numbers")
    compiling, corpus = replace(options["config"], compile=True), options["corpus"]
    for changes, says in (
        ({"config": compiling}, r"C\+\+|Python\.h"),
        ({"resume": True}, str(tmp_path / "run")),
        ({"begin_from": tmp_path / "numbers"}, str(tmp_path / "numbers")),  # chapter 94's has no vocabulary
        ({"corpus": replace(corpus, loaders={"train": corpus.loaders["train"]})}, "'valid'"),
        ({"corpus": replace(corpus, loaders=corpus.loaders | {"valid": list})}, "valid"),
    ):
        with pytest.raises(InputError, match=says):
            train_on_corpus(**options | changes)
        assert not (tmp_path / "run").exists(), "a folder in which nothing was written does not stay"
    with pytest.raises(InputError, match=r"C\+\+|Python\.h"):
        run(compiling, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    with locked(tmp_path / "run", warn=pytest.fail), pytest.raises(InputError, match=str(tmp_path / "run")):
        train_on_corpus(**options)
    assert list((tmp_path / "run").iterdir()) == []
    for begin in (train_on_corpus, lambda folder, **_: prepare_folder(folder, resume=False)):
        with pytest.raises(InputError, match=f"{tmp_path / 'numbers' / 'config.json'}"):
            begin(**options | {"folder": tmp_path / "numbers" / "config.json"})


def test_a_corpus_without_a_usable_pair_is_named(tmp_path: Path, options: dict):
    (tmp_path / "corpus" / "valid.tsv").write_text("an empty side\t\n")
    with pytest.raises(InputError, match=f"{tmp_path / 'corpus'}.*valid"):
        train_on_corpus(**options)


@pytest.mark.slow
def test_a_store_of_other_pieces_than_the_model_to_begin_with_is_refused(tmp_path: Path, options: dict):
    train_on_corpus(**options | {"config": replace(options["config"], max_steps=1)})
    store = make(tmp_path / "store")
    options |= {"corpus": store, "vocab_size": None, "folder": tmp_path / "next", "begin_from": tmp_path / "run"}
    with pytest.raises(InputError, match=f"{store.name}.*{tmp_path / 'run'}"):
        train_on_corpus(**options)


def test_a_folder_keeps_one_run(tmp_path: Path):
    """By `train` as by the command: a second run would mix its checkpoints with those of the first."""
    config = replace(CONFIG, max_steps=1)
    run(config, folder=str(tmp_path))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for begin in (lambda: run(config, folder=str(tmp_path)), lambda: prepare_folder(tmp_path, resume=False)):
        with pytest.raises(InputError, match=str(tmp_path)):
            begin()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
