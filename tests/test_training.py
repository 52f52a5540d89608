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
from random import Random

import pytest
import torch
from safetensors.torch import load_file, save
from torch import nn

from annotated.attention import MultiHeadAttention
from annotated.base.files import InputError, locked, read_json, read_notes, read_tensors, write_json
from annotated.batching import Batch, make_batch, token_batches
from annotated.machine.acceleration import FusedAttention, chunked_training_loss
from annotated.model import Transformer, TransformerConfig
from annotated.regularization import label_smoothed_loss
from annotated.runs.checkpoint import load_model, save_model, weights_of
from annotated.runs.examples import batch_all, batch_groups, check_ids, examples_by_epoch, tokenize_pairs
from annotated.runs.folder import prepare_folder, resumable
from annotated.runs.log import TrainingLog, share_done
from annotated.runs.state import TrainingState, checkpoints, load_state, new_state, save_checkpoint
from annotated.runs.training import losses_of, ready, train, train_on_corpus, validate
from annotated.schedule import build_optimizer, learning_rate, set_learning_rate
from annotated.text.corpora import load_corpus
from annotated.text.pairs import prefetch
from annotated.text.tokenization import PairTokenizer, train_tokenizer
from annotated.training import PRECISIONS, TRAINING_CHOICES, TrainingConfig, train_step, training_loss, validation_loss
from tests.messages import message, refused
from tests.stores import make

SIZES = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1}
PAIRS = [([5, 9, 3], [11, 6, 3]), ([8, 3], [7, 7, 9, 3]), ([4, 4, 6, 3], [5, 3]), ([9, 3], [21, 6, 8, 3])]
CONFIG = TrainingConfig(max_steps=4, max_tokens=16, warmup_steps=10, validate_every=2, seed=3)


def small_model(dropout: float = 0.0, seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(40, dropout=dropout, **SIZES))


def gradients(model: Transformer) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def flat(model: Transformer) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in weights_of(model).values()])


def test_one_pass_equals_prefix_by_prefix():
    """C-3.1-i: mask and shift together make one pass train every position on the tokens before it."""
    model, batch = small_model().eval(), make_batch(PAIRS[:1])
    apart = sum(
        label_smoothed_loss(
            model(batch.source, batch.target_input[:, :end])[:, -1:], batch.target_output[:, end - 1 : end]
        )
        for end in range(1, batch.target_input.shape[1] + 1)
    )
    torch.testing.assert_close(training_loss(model, batch, 0.1), apart, atol=1e-5, rtol=1e-5)


def test_the_loss_of_a_sentence_is_the_same_alone_and_in_any_batch():
    """Issue: batching changes nothing (float32, within 1e-4)."""
    model = small_model().eval()
    together = training_loss(model, make_batch(PAIRS), 0.1)
    alone = sum(training_loss(model, make_batch([pair]), 0.1) for pair in PAIRS)
    assert abs(together.item() - alone.item()) < 1e-4


def test_accumulation_equals_the_large_batch():
    """Two halves, accumulated, give the gradient of the whole, also when their token counts differ."""
    results = []
    for batches in ([make_batch(PAIRS)], [make_batch(PAIRS[:1]), make_batch(PAIRS[1:])]):
        model = small_model()
        num_tokens = sum(batch.num_tokens for batch in batches)
        optimizer = build_optimizer(model.parameters())
        loss = train_step(model, optimizer, batches, CONFIG)  # the rate is 0: nothing moves
        assert num_tokens == sum(len(target) for _, target in PAIRS)
        for batch in batches:
            (training_loss(model, batch, CONFIG.label_smoothing) / num_tokens).backward()
        results.append((loss.item(), gradients(model), flat(model)))
    assert math.isclose(results[0][0], results[1][0], rel_tol=1e-5)
    torch.testing.assert_close(results[0][1], results[1][1], atol=1e-6, rtol=1e-4)


def test_accumulated_steps_move_the_weights_alike():
    moved = []
    for batches in ([make_batch(PAIRS)], [make_batch(PAIRS[:2]), make_batch(PAIRS[2:])]):
        model = small_model()
        optimizer = build_optimizer(model.parameters())
        set_learning_rate(optimizer, 1e-3)
        train_step(model, optimizer, batches, CONFIG)
        moved.append(flat(model))
    assert (moved[0] - flat(small_model())).abs().max() > 5e-4
    assert (moved[0] - moved[1]).abs().max() < 1e-5


@pytest.mark.parametrize("low", PRECISIONS[1:])
@pytest.mark.parametrize("faster", [False, True], ids=["plain", "accelerated"])
def test_losses_are_computed_in_the_configured_form_and_precision(faster: bool, low: str):
    """The plain form casts at every product; the other one has stacks of 16 bits. Validation is in float32 in both."""
    for precision in ("float32", low):
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


def test_the_plain_form_leaves_the_classes_alone():
    model = small_model(0.1)
    before = [type(module) for module in model.modules()]
    train(model, PAIRS, [make_batch(PAIRS)], replace(CONFIG, accelerate=False))
    assert [type(module) for module in model.modules()] == before
    assert {MultiHeadAttention, nn.Dropout} < set(before)


def weights_after(config: TrainingConfig, **options) -> tuple[torch.Tensor, list[float]]:
    """The weights after a training without dropout, and the losses of validation on the way."""
    state = train(small_model(), PAIRS, [make_batch(PAIRS)], config, **options)
    return flat(state.model), [line["valid_loss"] for line in state.history if "valid_loss" in line]


@pytest.mark.slow
def test_plain_and_accelerated_training_have_the_same_losses():
    """Five steps, in float32 and without dropout, each with its validation."""
    config = replace(CONFIG, max_steps=5, validate_every=1, precision="float32", max_tokens=12, accumulation=2)
    (plain, losses), (fast, fast_losses) = (weights_after(replace(config, accelerate=on)) for on in (False, True))
    assert len(losses) == 5
    assert losses[-1] < losses[0] - 0.01
    assert losses == pytest.approx(fast_losses, abs=1e-4)
    torch.testing.assert_close(plain, fast, rtol=0, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("faster", [False, True], ids=["plain", "accelerated"])
def test_both_forms_go_on_where_they_stood(tmp_path: Path, faster: bool, precision: str):
    config = replace(CONFIG, precision=precision, accelerate=faster, average_decay=0.9, clip_norm=1.0)
    whole = weights_after(config)
    weights_after(replace(config, max_steps=2), folder=tmp_path)
    resumed = weights_after(config, folder=tmp_path, resume=True)
    assert torch.equal(whole[0], resumed[0])
    assert whole[1] == resumed[1]


# Gradients in the range of float16


HALF = replace(CONFIG, precision="float16")


@pytest.mark.slow
@pytest.mark.parametrize("faster", [False, True], ids=["plain", "accelerated"])
@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_steps_in_float16_learn(faster: bool, clip_norm: float | None):
    """As in float32, step for step: the scale is taken out of the gradients again, before they are clipped."""
    found = []
    for precision in ("float16", "float32"):
        config = replace(HALF, precision=precision, accelerate=faster, clip_norm=clip_norm)
        model = small_model().train()
        state = new_state(model, config)
        assert state.scaler.is_enabled() is (precision == "float16")
        loss_of, _ = losses_of(model, state.optimizer, config)
        set_learning_rate(state.optimizer, 1e-3)
        batches = [make_batch(PAIRS[:2]), make_batch(PAIRS[2:])]
        steps = [train_step(model, state.optimizer, batches, config, loss_of, state.scaler) for _ in range(8)]
        found.append([loss.item() for loss in steps])
    assert found[0][-1] < found[0][0] - 0.1
    assert found[0] == pytest.approx(found[1], rel=0.01)


@pytest.mark.parametrize("faster", [False, True], ids=["plain", "accelerated"])
def test_the_scale_is_taken_out_before_clipping(faster: bool, monkeypatch: pytest.MonkeyPatch):
    """Adam would hide it: gradients that are all too small by one factor move the weights alike."""
    norms = []
    monkeypatch.setattr(
        torch.nn.utils, "clip_grad_norm_", lambda p, _: norms.append(torch.nn.utils.get_total_norm([x.grad for x in p]))
    )
    for precision in ("float16", "float32"):
        config = replace(HALF, precision=precision, accelerate=faster, clip_norm=0.5)
        state = new_state(small_model().train(), config)
        loss_of, _ = losses_of(state.model, state.optimizer, config)
        train_step(state.model, state.optimizer, [make_batch(PAIRS)], config, loss_of, state.scaler)
    assert norms[0].item() == pytest.approx(norms[1].item(), rel=0.01)


@pytest.mark.parametrize("faster", [False, True], ids=["plain", "accelerated"])
def test_an_infinite_gradient_skips_the_step_and_lowers_the_scale(faster: bool):
    model = small_model().train()
    state = new_state(model, HALF)
    set_learning_rate(state.optimizer, 1e-3)
    before, scale = flat(model), state.scaler.get_scale()
    step_loss, _ = losses_of(model, state.optimizer, replace(HALF, accelerate=faster))
    (worker,) = step_loss.args  # the model, or its working copy
    weight = worker.encoder.layers[0].feed_forward.inner.weight
    handle = weight.register_hook(lambda grad: torch.full_like(grad, math.inf))
    train_step(model, state.optimizer, [make_batch(PAIRS)], HALF, step_loss, state.scaler)
    assert torch.equal(flat(model), before)
    assert state.scaler.get_scale() == scale / 2
    handle.remove()
    train_step(model, state.optimizer, [make_batch(PAIRS)], HALF, step_loss, state.scaler)
    assert (flat(model) != before).float().mean() > 0.5
    assert flat(model).isfinite().all()
    assert state.scaler.get_scale() == scale / 2


def test_the_scale_is_saved_with_the_state(tmp_path: Path):
    state = new_state(small_model(), HALF)
    loss_of = partial(training_loss, state.model, precision=torch.float16)
    for _ in range(2):
        train_step(state.model, state.optimizer, [make_batch(PAIRS)], HALF, loss_of, state.scaler)
    state.scaler.update(32.0)
    save_checkpoint(tmp_path, state, 5)
    other = new_state(small_model(seed=1), HALF)
    assert other.scaler.state_dict() != state.scaler.state_dict()
    load_state(tmp_path, other)
    assert other.scaler.state_dict() == state.scaler.state_dict()
    assert other.scaler.get_scale() == 32.0
    float32 = new_state(small_model(), replace(CONFIG, precision="float32"))
    load_state(tmp_path, float32)  # goes on in another precision, without a scale
    assert not float32.scaler.is_enabled()
    save_checkpoint(tmp_path, float32, 5)
    load_state(tmp_path, other)  # and back again, with the scale at hand
    assert other.scaler.get_scale() == 32.0


def test_clipping_bounds_the_gradient(monkeypatch: pytest.MonkeyPatch):
    norms = []
    clip = torch.nn.utils.clip_grad_norm_
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda p, limit: norms.append((clip(p, limit), limit)))
    train_step(small_model(), build_optimizer(small_model().parameters()), [make_batch(PAIRS)], CONFIG)
    assert norms == []  # off by default: not in the paper
    model = small_model()
    train_step(model, build_optimizer(model.parameters()), [make_batch(PAIRS)], replace(CONFIG, clip_norm=0.01))
    assert norms[0][1] == 0.01
    assert norms[0][0] > 0.01  # there was something to clip


def test_validation_is_unsmoothed_without_dropout_and_per_token():
    """C-5.4-f: perplexity is measured against the true tokens, not the smoothed ones."""
    model = small_model(dropout=0.5).train()
    first = validation_loss(model, [make_batch(PAIRS[:2]), make_batch(PAIRS[2:])])
    assert first == validation_loss(model, [make_batch(PAIRS[:2]), make_batch(PAIRS[2:])])
    assert model.training
    model.eval()
    tokens = sum(len(target) for _, target in PAIRS)
    assert math.isclose(first, training_loss(model, make_batch(PAIRS), 0.0).item() / tokens, rel_tol=1e-5)


def test_an_epoch_uses_every_pair_once_and_epochs_differ():
    groups = batch_groups(PAIRS, replace(CONFIG, max_tokens=4), epoch=0, position=0)
    seen: list[list[tuple]] = [[], []]
    epoch = 0
    while epoch < 2:
        group = next(groups)
        rows = zip(group.batches[0].source.tolist(), group.batches[0].target_output.tolist(), strict=True)
        seen[epoch] += [(tuple(s), tuple(t)) for s, t in rows]
        epoch = group.epoch
    wanted = sorted((tuple(filter(None, s)), tuple(filter(None, t))) for s, t in PAIRS)
    stripped = [[(tuple(filter(None, s)), tuple(filter(None, t))) for s, t in rows] for rows in seen]
    assert sorted(stripped[0]) == sorted(stripped[1]) == wanted


def test_batch_groups_go_on_from_any_place():
    config = replace(CONFIG, max_tokens=4, accumulation=3)

    def take(epoch: int, position: int, count: int) -> list[tuple[list[list], int, int]]:
        groups = batch_groups(PAIRS, config, epoch, position)
        parts = [next(groups) for _ in range(count)]
        return [([batch.source.tolist() for batch in part.batches], part.epoch, part.batch) for part in parts]

    unbroken = take(0, 0, 5)
    assert take(unbroken[1][1], unbroken[1][2], 3) == unbroken[2:]


def test_batches_for_a_gpu_are_pinned_by_the_thread_that_works_ahead(monkeypatch: pytest.MonkeyPatch):
    """In the context of this process's GPU, and before the step asks for them."""
    where, entered = [], []

    def pinned(batch: Batch) -> Batch:
        where.append(threading.current_thread())
        return replace(batch, num_tokens=-batch.num_tokens)

    monkeypatch.setattr(Batch, "pinned", pinned)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext(entered.append(str(device))))
    gpu, config = torch.device("cuda:3"), replace(CONFIG, accumulation=2)
    plain = next(batch_groups(PAIRS, config, 0, 0))
    with closing(prefetch(ready(batch_groups(PAIRS, config, 0, 0), gpu))) as groups:
        group = next(groups)
    assert entered == ["cuda:3"]
    assert threading.main_thread() not in where
    assert len(where) >= 2
    assert [-batch.num_tokens for batch in group.batches] == [batch.num_tokens for batch in plain.batches]
    assert (group.num_tokens, group.epoch, group.batch) == (plain.num_tokens, plain.epoch, plain.batch)
    where.clear()
    untouched = next(ready(batch_groups(PAIRS, config, 0, 0), torch.device("cpu")))
    assert [batch.num_tokens for batch in untouched.batches] == [batch.num_tokens for batch in plain.batches]
    assert not where


def test_training_makes_its_batches_ready_for_its_device(monkeypatch: pytest.MonkeyPatch):
    seen = []

    def spy(*given):
        seen.append(given[-1])
        for group in ready(*given):
            seen.append(threading.current_thread())
            yield group

    monkeypatch.setattr("annotated.runs.training.ready", spy)
    train(small_model(), PAIRS, [make_batch(PAIRS)], replace(CONFIG, max_steps=2))
    assert seen[0] == torch.device("cpu")
    assert threading.main_thread() not in seen


def test_without_a_compiler_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    options = options_for(tmp_path)
    options["config"] = replace(options["config"], compile=True)
    with refused("compile-needs"):
        train_on_corpus(**options)
    config, valid = replace(CONFIG, compile=True), [make_batch(PAIRS)]
    with refused("compile-needs"):
        train(small_model(), PAIRS, valid, config, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_rate_follows_equation_3():
    """C-5.3-b: each step uses the rate of its own number, counted from 1."""
    state = train(small_model(), PAIRS, [make_batch(PAIRS)], replace(CONFIG, max_steps=20, validate_every=50))
    recorded = [line for line in state.history if "rate" in line]
    assert recorded
    assert all(math.isclose(line["rate"], learning_rate(line["step"], 16, 10), rel_tol=1e-6) for line in recorded)


@pytest.mark.slow
def test_training_learns_and_a_fixed_seed_repeats():
    config = replace(CONFIG, validate_every=25)
    runs = [
        train(small_model(0.1), PAIRS, [make_batch(PAIRS)], replace(config, max_steps=steps)) for steps in (150, 50)
    ]
    losses = [[line["valid_loss"] for line in run.history if "valid_loss" in line] for run in runs]
    assert losses[0][-1] < 0.5 < 3 < validation_loss(small_model(), [make_batch(PAIRS)])
    assert losses[0][:2] == losses[1]


@pytest.mark.slow
def test_a_resumed_run_equals_an_unbroken_one(tmp_path: Path):
    """Weights, Adam's moments, the average, the dropout's random numbers and the place in the epoch all come back."""
    options = replace(CONFIG, max_steps=12, max_tokens=4, average_decay=0.9, accumulation=2, validate_every=5)
    whole = train(small_model(0.3), PAIRS, [make_batch(PAIRS)], options)
    train(small_model(0.3), PAIRS, [make_batch(PAIRS)], replace(options, max_steps=7), folder=tmp_path)
    torch.manual_seed(99)
    resumed = train(small_model(0.3, seed=5), PAIRS, [make_batch(PAIRS)], options, folder=tmp_path, resume=True)
    assert torch.equal(flat(whole.model), flat(resumed.model))
    assert all(torch.equal(whole.average[name], resumed.average[name]) for name in whole.average)
    assert (whole.step, whole.epoch, whole.batch, whole.tokens) == (
        resumed.step,
        resumed.epoch,
        resumed.batch,
        resumed.tokens,
    )
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == resumed.history
    assert [line["step"] for line in lines] == sorted(line["step"] for line in lines)


@pytest.mark.slow
def test_resuming_a_finished_run_changes_nothing(tmp_path: Path):
    config = replace(CONFIG, max_steps=5, validate_every=2)
    first = train(small_model(), PAIRS, [make_batch(PAIRS)], config, folder=tmp_path)
    again = train(small_model(), PAIRS, [make_batch(PAIRS)], config, folder=tmp_path, resume=True)
    assert again.history == first.history
    assert torch.equal(flat(again.model), flat(first.model))


def test_resuming_with_another_average_is_refused(tmp_path: Path):
    train(small_model(), PAIRS, [make_batch(PAIRS)], CONFIG, folder=tmp_path)
    changed = replace(CONFIG, average_decay=0.9)
    with refused("state-average-changed"):
        train(small_model(), PAIRS, [make_batch(PAIRS)], changed, folder=tmp_path, resume=True)


@pytest.mark.slow
def test_a_loss_that_is_no_number_stops_the_run_and_keeps_what_was_saved(tmp_path: Path):
    train(small_model(), PAIRS, [make_batch(PAIRS)], CONFIG, folder=tmp_path)
    kept = {path: path.read_bytes() for path in checkpoints(tmp_path)}
    config = replace(CONFIG, max_steps=100, rate_factor=1e30, validate_every=200)
    with refused("loss-not-finite", ..., ..., "lower rate_factor, raise warmup_steps or set clip_norm") as stopped:
        train(small_model(), PAIRS, [make_batch(PAIRS)], config, folder=tmp_path, resume=True)
    assert re.match(r"the loss is (nan|inf) near step \d+: ", str(stopped.value))
    assert {path: path.read_bytes() for path in checkpoints(tmp_path)} == kept
    assert all(tensor.isfinite().all() for tensor in weights_of(small_model()).values())


def test_a_validation_loss_that_is_no_number_replaces_no_model():
    state = new_state(small_model(), CONFIG)
    state.model.target_embedding.weight.data.fill_(math.nan)
    log = TrainingLog(CONFIG, state, path=None, progress=False)
    with refused("validation-not-finite", "nan", 0):
        validate(state, [make_batch(PAIRS)], log, on_best=lambda _: pytest.fail("it was kept"))
    assert state.best_loss == math.inf


def test_metrics_that_cannot_be_written_are_named(tmp_path: Path):
    log = TrainingLog(CONFIG, new_state(small_model(), CONFIG), tmp_path / "metrics.jsonl", progress=False)
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").mkdir()
    with refused("metrics-unwritable", tmp_path / "metrics.jsonl", "Is a directory"):
        log.record(loss=1.0)


def test_the_exponential_average_is_an_average_of_the_weights():
    state = new_state(small_model(), replace(CONFIG, average_decay=0.5))
    state.step = 100  # past the first steps, where the average follows more closely
    start = {name: tensor.clone() for name, tensor in state.average.items()}
    with torch.no_grad():
        for parameter in state.model.parameters():
            parameter.add_(1.0)
    state.advance(20, replace(CONFIG, average_decay=0.5), 1.0)
    for name, tensor in state.average.items():
        torch.testing.assert_close(tensor, start[name] + 0.5)
    assert state.weights() is state.average


def test_the_first_limit_reached_ends_the_run():
    state = new_state(small_model(), CONFIG)
    state.step, state.epoch, state.seconds = 5, 1, 90.0
    assert share_done(TrainingConfig(max_steps=10), state) == 0.5
    assert share_done(TrainingConfig(max_steps=10, max_epochs=1), state) == 1.0
    assert share_done(TrainingConfig(max_minutes=3.0, max_steps=100), state) == 0.5
    by_epoch = train(small_model(), PAIRS, [make_batch(PAIRS)], TrainingConfig(max_epochs=2, max_tokens=4))
    assert (by_epoch.epoch, by_epoch.batch) == (2, 0)


def test_the_time_left_is_counted_from_where_a_run_was_resumed():
    """Ten steps of a hundred in ten seconds leave forty for the rest, also when fifty were done before."""
    state = new_state(small_model(), CONFIG)
    state.step = 50
    log = TrainingLog(TrainingConfig(max_steps=100), state, path=None, progress=True)
    with closing(log.bar):
        line = log.bar.format_meter(**log.bar.format_dict | {"n": 60, "elapsed": 10})
    assert "00:10 gone, 00:40 left" in line


def test_stop_ends_after_the_step_at_hand(tmp_path: Path):
    calls = iter([False, False, True])
    state = train(small_model(), PAIRS, [make_batch(PAIRS)], CONFIG, folder=tmp_path, stop=lambda: next(calls))
    assert state.step == 2
    assert (tmp_path / "checkpoints" / "step-0000002.state").exists()


@pytest.mark.slow
def test_a_stop_moves_neither_the_best_loss_nor_the_delivered_model(tmp_path: Path):
    """Stopped between two validations and resumed, a run delivers the models of an unbroken one, at the same steps."""
    config = replace(CONFIG, max_steps=6, validate_every=2)
    runs: dict[str, list] = {"unbroken": [], "stopped": []}

    def run(name: str, **options) -> float:
        def keep(state):
            runs[name].append((state.step, state.best_loss, flat(state.model)))

        state = train(
            small_model(), PAIRS, [make_batch(PAIRS)], config, folder=tmp_path / name, on_best=keep, **options
        )
        return state.best_loss

    calls = iter([False] * 3 + [True])
    unbroken = run("unbroken")
    run("stopped", stop=lambda: next(calls))
    assert run("stopped", resume=True) == unbroken
    assert [step for step, *_ in runs["stopped"]] == [2, 4, 6]
    for one, other in zip(runs["unbroken"], runs["stopped"], strict=True):
        assert one[:2] == other[:2]
        assert torch.equal(one[2], other[2])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["signal", "raised limit", "time"])
def test_a_run_in_parts_delivers_what_an_unbroken_one_does(tmp_path: Path, how: str):
    """Stopped anywhere: weights, averages, losses of each window, best loss and delivered model, to the bit."""
    whole = replace(
        CONFIG, max_steps=47, max_tokens=100, validate_every=10, warmup_steps=20, average_decay=0.9, rate_factor=2.0
    )

    corpus = load_corpus(str(write_corpus(tmp_path / "corpus")))

    def run(name: str, config: TrainingConfig, **options) -> TrainingState:
        return train_on_corpus(
            corpus, lambda size: TransformerConfig(size, **SIZES | {"dropout": 0.2}), config, tmp_path / name / "run",
            vocab_size=290, device=torch.device("cpu"), progress=False, warn=lambda text: None, **options,
        )  # fmt: skip

    unbroken, resume, draw = run("unbroken", whole), False, Random(how)
    for end in (1, 9, 13, 20, 37, 46):
        if how == "signal":
            calls = iter(range(end + 1))
            state = run(how, whole, resume=resume, stop=lambda calls=calls: next(calls, 5) >= 5)
        else:
            state = run(how, replace(whole, max_steps=end), resume=resume)
            if how == "time" and draw.random() < 0.5:  # nothing is done, and validated again
                run(how, replace(whole, max_minutes=1e-9), resume=True)
        resume = True
    state = run(how, whole, resume=True)
    assert torch.equal(flat(unbroken.model), flat(state.model))
    assert all(torch.equal(unbroken.average[name], state.average[name]) for name in unbroken.average)
    assert unbroken.best_loss == state.best_loss
    keys = ("step", "loss", "valid_loss", "rate")
    lines = [[{k: line[k] for k in keys if k in line} for line in one.history] for one in (unbroken, state)]
    assert lines[0] == lines[1]
    models = [load_file(tmp_path / name / "run" / "model.safetensors") for name in ("unbroken", how)]
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
    notes = [json.loads((tmp_path / name / "run" / "config.json").read_text()) for name in ("unbroken", how)]
    assert notes[0]["step"] == notes[1]["step"]


def test_a_run_stopped_before_its_first_validation_leaves_a_model(tmp_path: Path):
    calls, kept = iter([False, True]), []
    options = {"folder": tmp_path, "on_best": lambda state: kept.append((state.step, state.best_loss))}
    train(small_model(), PAIRS, [make_batch(PAIRS)], CONFIG, stop=lambda: next(calls), **options)
    assert kept == [(1, math.inf)]
    train(small_model(), PAIRS, [make_batch(PAIRS)], CONFIG, resume=True, **options)
    assert all(math.isfinite(loss) for _, loss in kept[1:])
    assert len(kept) > 1


@pytest.mark.slow
def test_only_the_last_checkpoints_are_kept(tmp_path: Path):
    config = replace(CONFIG, max_steps=6, checkpoint_minutes=0.0, keep_checkpoints=3)
    train(small_model(), PAIRS, [make_batch(PAIRS)], config, folder=tmp_path)
    assert [path.name for path in checkpoints(tmp_path)] == [f"step-{i:07d}.safetensors" for i in (4, 5, 6)]


@pytest.mark.slow
def test_the_last_two_states_are_kept_however_few_checkpoints(tmp_path: Path):
    config = replace(CONFIG, max_steps=6, checkpoint_minutes=0.0, keep_checkpoints=1)
    train(small_model(), PAIRS, [make_batch(PAIRS)], config, folder=tmp_path)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-0000006.safetensors"]
    names = sorted(path.name for path in (tmp_path / "checkpoints").glob("*.state"))
    assert names == ["step-0000005.state", "step-0000006.state"]


def broken_off(tmp_path: Path, **changes) -> tuple[TrainingConfig, dict]:
    """A run of six steps in the folder, with a checkpoint after each; how it goes on, and its unbroken weights."""
    config = replace(CONFIG, max_steps=6, checkpoint_minutes=0.0, average_decay=0.9, **changes)
    train(small_model(0.1), PAIRS, [make_batch(PAIRS)], config, folder=tmp_path)
    config = replace(config, max_steps=9)
    return config, weights_of(train(small_model(0.1), PAIRS, [make_batch(PAIRS)], config).model)


@pytest.mark.slow
def test_a_damaged_state_is_named_and_the_one_before_is_used(tmp_path: Path):
    config, unbroken = broken_off(tmp_path)
    path, said = tmp_path / "checkpoints" / "step-0000006.state", []
    content = path.read_bytes()
    path.write_bytes(content[:500] + bytes([content[500] ^ 4]) + content[501:])
    state = train(small_model(0.1), PAIRS, [make_batch(PAIRS)], config, folder=tmp_path, resume=True, warn=said.append)
    assert said == [f"{path}: damaged: not the bytes that were written (SHA-256); going on from step 5, which is whole"]
    assert all(torch.equal(weights_of(state.model)[name], weight) for name, weight in unbroken.items())


@pytest.mark.slow
def test_when_no_state_is_whole_nothing_is_used(tmp_path: Path):
    config, _ = broken_off(tmp_path)
    for path in (tmp_path / "checkpoints").glob("*.state"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=message("state-damaged", "step-0000006.state: damaged")):
        train(small_model(0.1), PAIRS, [make_batch(PAIRS)], config, folder=tmp_path, resume=True)


OLD = "old/state.safetensors"  # where the state was before there were manifests


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (
            lambda t: t.pop("adam.encoder.layers.0.feed_forward.inner.bias.exp_avg"),
            message("state-adam", OLD, "encoder.layers.0.feed_forward.inner.bias", "exp_avg"),
        ),
        (
            lambda t: t.update({"adam.target_embedding.weight.exp_avg_sq": torch.ones(3)}),
            message("state-adam", OLD, "target_embedding.weight", "exp_avg_sq"),
        ),
        (
            lambda t: t.update({"average.target_embedding.weight": torch.ones(3)}),
            message("state-average", OLD, "target_embedding.weight"),
        ),
        (lambda t: t.pop("random.cpu"), message("state-random", OLD)),
        (lambda t: t.update({"random.cpu": torch.ones(5, dtype=torch.uint8)}), message("state-random", OLD)),
        (lambda t: t.pop("model.target_embedding.weight"), message("tensor-missing", OLD, "target_embedding.weight")),
    ],
)
def test_a_state_that_lacks_something_is_refused(tmp_path: Path, spoil, says: str):
    """From a file of that time, too, nothing is left out."""
    config, _ = broken_off(tmp_path)
    content = (tmp_path / "checkpoints" / "step-0000006.state").read_bytes()
    (tmp_path / "state").write_bytes(content)
    tensors, notes = read_tensors(tmp_path / "state"), read_notes(tmp_path / "state")
    spoil(tensors)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "state.safetensors").write_bytes(save(tensors, notes))
    with pytest.raises(InputError, match=says):
        train(small_model(0.1), PAIRS, [make_batch(PAIRS)], config, folder=tmp_path / "old", resume=True)


def test_a_state_without_counters_is_refused(tmp_path: Path):
    (tmp_path / "state.safetensors").write_bytes(save({"random.cpu": torch.get_rng_state()}))
    with refused("state-no-counters", tmp_path / "state.safetensors"):
        load_state(tmp_path, new_state(small_model(), CONFIG))


def test_without_any_state_a_run_cannot_go_on(tmp_path: Path):
    with refused("state-missing", tmp_path):
        load_state(tmp_path, new_state(small_model(), CONFIG))
    with refused("resume-no-checkpoint", tmp_path):
        prepare_folder(tmp_path, resume=True)


@pytest.mark.slow
def test_a_run_from_before_there_were_manifests_goes_on(tmp_path: Path):
    config, unbroken = broken_off(tmp_path)
    (tmp_path / "old").mkdir()
    (tmp_path / "checkpoints" / "step-0000006.state").rename(tmp_path / "old" / "state.safetensors")
    state = train(small_model(0.1), PAIRS, [make_batch(PAIRS)], config, folder=tmp_path / "old", resume=True)
    assert all(torch.equal(weights_of(state.model)[name], weight) for name, weight in unbroken.items())


@pytest.mark.slow
def test_weights_that_are_no_numbers_replace_no_checkpoint(tmp_path: Path):
    """A rate far too high, and no loss looked at before the next checkpoint: what is whole stays."""
    broken_off(tmp_path)
    good = tmp_path / "checkpoints" / "step-0000006.state"
    before = good.read_bytes()
    config = replace(CONFIG, max_steps=9, average_decay=0.9, rate_factor=1e30, warmup_steps=1, checkpoint_minutes=0.0)
    config = replace(config, validate_every=100)
    with pytest.raises(InputError, match=r"step [78]" + message("weights-not-finite", "")):
        train(
            small_model(0.1),
            PAIRS,
            [make_batch(PAIRS)],
            replace(config, validate_every=100),
            folder=tmp_path,
            resume=True,
        )
    assert good.read_bytes() == before
    for path in checkpoints(tmp_path):
        assert all(tensor.isfinite().all() for tensor in read_tensors(path).values())


@pytest.mark.slow
def test_a_run_can_go_on_from_its_very_beginning(tmp_path: Path):
    """A state is there before the first step, without weights to average."""
    train(small_model(), PAIRS, [make_batch(PAIRS)], CONFIG, folder=tmp_path, stop=lambda: True)
    assert resumable(tmp_path)
    assert checkpoints(tmp_path) == []
    state = train(small_model(), PAIRS, [make_batch(PAIRS)], CONFIG, folder=tmp_path, resume=True)
    unbroken = train(small_model(), PAIRS, [make_batch(PAIRS)], CONFIG)
    assert torch.equal(flat(state.model), flat(unbroken.model))


def test_without_examples_training_says_so():
    with refused("no-examples"):
        train(small_model(), [], [make_batch(PAIRS)], CONFIG)


def test_training_and_validation_use_the_model_s_own_ids():
    """With pad and start elsewhere in the vocabulary, and the rows of the matrix likewise, nothing else changes."""
    torch.manual_seed(0)
    usual = Transformer(TransformerConfig(40, dropout=0.0, **SIZES))
    other = Transformer(TransformerConfig(40, dropout=0.0, pad_id=37, start_id=30, **SIZES))
    other.load_state_dict(usual.state_dict())
    rows = torch.arange(40)
    rows[[0, 37, 2, 30]] = torch.tensor([37, 0, 30, 2])
    with torch.no_grad():
        other.target_embedding.weight.copy_(usual.target_embedding.weight[rows])
    (batch,) = batch_all(PAIRS, 100, 37, 30)
    assert set(batch.target_input[:, 0].tolist()) == {30}
    config = replace(CONFIG, max_tokens=100, max_steps=3, precision="float32")
    losses = [
        [line["valid_loss"] for line in train(model, PAIRS, batch_all(PAIRS, 100, *ids), config).history]
        for model, ids in ((usual, ()), (other, (37, 30)))
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "say when to stop"),
        ({"max_steps": 0}, "max_steps must be above 0"),
        ({"max_minutes": 0.0}, "max_minutes must be above 0"),
        ({"max_steps": 1, "clip_norm": -1.0}, "clip_norm must be above 0"),
        ({"max_steps": 1, "checkpoint_minutes": -1.0}, "checkpoint_minutes"),
        ({"max_steps": 1, "max_tokens": 0}, "max_tokens"),
        ({"max_steps": 1, "label_smoothing": 1.0}, "label_smoothing"),
        ({"max_steps": 1, "average_decay": 1.5}, "average_decay"),
        ({"max_steps": 1, "compile": True, "accelerate": False}, "compile is a part of accelerate"),
        ({"max_steps": 1, "piece_dropout": 1.0}, "piece_dropout must be at least 0 and below 1"),
        *(
            ({"max_steps": 1, name: "none"}, f"{name} must be one of {', '.join(known)}, not 'none'")
            for name, known in TRAINING_CHOICES.items()
        ),
    ],
)
def test_configurations_of_no_use(values: dict, message: str):
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**values)


def test_what_is_not_in_the_paper_is_off_and_stated():
    assert TrainingConfig(max_steps=1).beyond_the_paper() == {}
    options = {"rate_factor": 0.5, "clip_norm": 1.0, "average_decay": 0.9, "piece_dropout": 0.1}
    assert TrainingConfig(max_steps=1, **options).beyond_the_paper() == options
    for norm_first, stated in ((False, {}), (True, {"norm_first": True})):
        model = TransformerConfig(40, norm_first=norm_first, **SIZES)
        assert TrainingConfig(max_steps=1).beyond_the_paper(model) == stated


def write_corpus(folder: Path) -> Path:
    folder.mkdir()
    for split, count in (("train", 60), ("valid", 6)):
        lines = [f"the dog {i % 7} sees {i} cats\tder Hund {i % 7} sieht {i} Katzen\n" for i in range(count)]
        (folder / f"{split}.tsv").write_text("".join(lines) + "an empty side\t\n")
    return folder


@pytest.mark.slow
def test_from_raw_text_to_a_model_folder(tmp_path: Path):
    """The folder holds the best model by validation loss and says how it came about."""
    corpus = load_corpus(str(write_corpus(tmp_path / "corpus")))
    config = TrainingConfig(max_steps=30, max_tokens=200, warmup_steps=10, validate_every=10, precision="float32")
    settings = {"keep_kernels": True, "faster_products": False}
    options = {"vocab_size": 290, "device": torch.device("cpu"), "progress": False, "settings": settings}
    state = train_on_corpus(corpus, lambda size: TransformerConfig(size, **SIZES), config, tmp_path / "run", **options)
    model, tokenizer, notes = load_model(tmp_path / "run")
    run = read_json(tmp_path / "run" / "run.json")
    valid = batch_all(tokenize_pairs(tokenizer, corpus.split("valid"), 1024), 200)
    assert math.isclose(validation_loss(model, valid), state.best_loss, rel_tol=1e-5)
    assert notes["valid_loss"] == run["best_valid_loss"] == state.best_loss
    assert run["pairs"] == 60
    assert run["pairs_left_out"] == 1  # the one with an empty side
    assert run["finished"]
    assert run["settings"] == settings
    assert run["training"]["accelerate"]
    assert run["training"]["precision"] == "float32"
    assert {"command", "revision", "device", "threads", "torch", "beyond_the_paper"} <= run.keys()
    assert not list((tmp_path / "run").rglob("*.partial"))
    with refused("run-taken", tmp_path / "run"):
        train_on_corpus(corpus, lambda size: TransformerConfig(size, **SIZES), config, tmp_path / "run", **options)


def options_for(tmp_path: Path, **changes) -> dict:
    """A small corpus in the folder, and what else `train_on_corpus` wants."""
    corpus = load_corpus(str(write_corpus(tmp_path / "corpus")))
    config = TrainingConfig(max_steps=4, max_tokens=200, warmup_steps=10, validate_every=2, precision="float32")
    return {
        "corpus": corpus, "model_config": lambda size: TransformerConfig(size, **SIZES), "config": config,
        "folder": tmp_path / "run", "vocab_size": 290, "device": torch.device("cpu"), "progress": False,
    } | changes  # fmt: skip


def test_a_model_without_a_tokenizer_is_nothing_to_begin_with(tmp_path: Path):
    """Chapter 94: it has no vocabulary into which the corpus could be cut."""
    save_model(tmp_path / "numbers", small_model())
    with refused("model-without-tokenizer", tmp_path / "numbers"):
        train_on_corpus(**options_for(tmp_path), begin_from=tmp_path / "numbers")
    assert not (tmp_path / "run").exists(), "a folder in which nothing was written does not stay"


def test_a_run_that_ended_before_its_first_checkpoint_can_be_started_anew(tmp_path: Path):
    options = options_for(tmp_path)
    write_json(tmp_path / "run" / "run.json", {"command": "annotated train"})
    assert train_on_corpus(**options).step == 4


@pytest.mark.slow
def test_a_resumed_run_has_the_same_texts(tmp_path: Path):
    options, said = options_for(tmp_path), []
    train_on_corpus(**options, warn=said.append)
    why = "are left out: a side is empty, or longer than max_length"
    assert said == [f"1 of 61 pairs {why}", f"1 of 7 validation pairs {why}"]
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (run["pairs_left_out"], run["valid_pairs_left_out"]) == (1, 1)
    options["config"] = replace(options["config"], max_steps=6)
    assert train_on_corpus(**options, resume=True, warn=said.append).step == 6
    path = tmp_path / "corpus" / "train.tsv"
    path.write_text(path.read_text().replace("dog 3", "dog 4"))
    options["corpus"] = load_corpus(str(tmp_path / "corpus"))
    with refused("corpus-changed", tmp_path / "corpus"):
        train_on_corpus(**options, resume=True)


def test_two_runs_in_one_folder(tmp_path: Path):
    options = options_for(tmp_path)
    (tmp_path / "run").mkdir()
    with locked(tmp_path / "run", warn=pytest.fail), refused("folder-locked", tmp_path / "run"):
        train_on_corpus(**options)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_missing_split_is_noticed_before_anything_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    options = options_for(tmp_path)
    (tmp_path / "corpus" / "valid.tsv").unlink()
    monkeypatch.setattr(
        "annotated.runs.examples.train_tokenizer", lambda *_: pytest.fail("a vocabulary was learned first")
    )
    with refused("split-unknown", tmp_path / "corpus", "'valid'"):
        train_on_corpus(**options | {"corpus": load_corpus(str(tmp_path / "corpus"))})


def test_a_corpus_without_a_pair_to_learn_from_is_named(tmp_path: Path):
    options = options_for(tmp_path)
    nothing = replace(options["corpus"], loaders=options["corpus"].loaders | {"valid": list})
    with refused("split-empty", tmp_path / "corpus", "valid"):
        train_on_corpus(**options | {"corpus": nothing})
    (tmp_path / "corpus" / "valid.tsv").write_text("an empty side\t\n")
    with refused("no-usable-pairs", tmp_path / "corpus"):
        train_on_corpus(**options)


def test_a_file_is_no_folder_for_a_run(tmp_path: Path):
    options = options_for(tmp_path)
    (tmp_path / "run").write_text("kept")
    for begin in (lambda: train_on_corpus(**options), lambda: prepare_folder(tmp_path / "run", resume=False)):
        with refused("run-is-a-file", tmp_path / "run"):
            begin()
    assert (tmp_path / "run").read_text() == "kept"


def test_nothing_to_resume(tmp_path: Path):
    corpus = load_corpus(str(write_corpus(tmp_path / "corpus")))
    with refused("resume-nothing", tmp_path / "run"):
        train_on_corpus(
            corpus, lambda size: TransformerConfig(size, **SIZES), CONFIG, tmp_path / "run",
            vocab_size=290, device=torch.device("cpu"), resume=True,
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_pairs_that_are_empty_or_too_long_are_left_out():
    tokenizer = train_tokenizer(["a b c d e f g h"] * 30, 275)
    pairs = load_corpus("embedded").split("valid")[:1]
    long = replace(pairs[0], source="a b c " * 50)
    empty = replace(pairs[0], target="")
    short = replace(pairs[0], source="a b", target="c d")
    assert len(tokenize_pairs(tokenizer, [long, empty, short], max_length=20)) == 1


def test_batches_of_validation_hold_every_pair():
    batches = batch_all(PAIRS, 8)
    assert sum(batch.num_tokens for batch in batches) == sum(len(target) for _, target in PAIRS)
    assert all(isinstance(batch, Batch) for batch in batches)
    assert len(batches) == len(token_batches(PAIRS, 8))


@pytest.mark.slow
def test_a_store_of_other_pieces_than_the_model_to_begin_with_is_refused(tmp_path: Path):
    options = options_for(tmp_path)
    train_on_corpus(**options | {"config": replace(options["config"], max_steps=1)})
    store = make(tmp_path / "store")
    options |= {"corpus": store, "vocab_size": None, "folder": tmp_path / "next", "begin_from": tmp_path / "run"}
    with refused("store-vocabulary", store.name, tmp_path / "run"):
        train_on_corpus(**options)


def test_what_cannot_be_trained_on_is_said_before_the_first_step():
    """MONAI's research-contributions#181 and pytorch-seq2seq#89: by name, and not after the training."""
    model = small_model()
    with refused("no-examples-to-validate"):
        train(model, PAIRS, [], CONFIG)
    for wrong in (40, -1):
        with refused("id-unknown", 2, wrong, 39):
            train(model, [PAIRS[0], ([5, 3], [wrong, 3])], [make_batch(PAIRS)], CONFIG)
    with refused("id-not-whole", 1, 4.5):
        unwrap(check_ids)([([5, 3], [4.5, 3])], model)  # annotations, which tests check and users do not, forbid it
    with refused("target-without-end", 2, 3):
        train(model, [PAIRS[0], ([5, 3], [6])], [make_batch(PAIRS)], CONFIG)
    untied = Transformer(TransformerConfig(40, **SIZES, tie_embeddings=False, source_vocab_size=60))
    with refused("id-unknown", 1, 60, 59):
        train(untied, [([60, 3], [5, 3])], [make_batch(PAIRS)], CONFIG)


def test_a_folder_keeps_one_run(tmp_path: Path):
    """By `train` as by the command: a second run would mix its checkpoints with those of the first."""
    config = replace(CONFIG, max_steps=1)
    train(small_model(), PAIRS, [make_batch(PAIRS)], config, folder=str(tmp_path))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for begin in (
        lambda: train(small_model(), PAIRS, [make_batch(PAIRS)], config, folder=str(tmp_path)),
        lambda: prepare_folder(tmp_path, resume=False),
    ):
        with refused("run-taken", tmp_path):
            begin()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_lists_that_are_filled_up_have_the_losses_of_short_ones():
    """transformers#7546's kind; also where all of a batch is padding."""
    filled = [(source + [0] * 3, target + [0] * 5) for source, target in PAIRS]
    config = replace(CONFIG, max_tokens=100, precision="float32")
    states = [train(small_model(), pairs, [make_batch(pairs)], config) for pairs in (PAIRS, filled)]
    assert states[0].tokens == states[1].tokens
    assert states[0].best_loss == pytest.approx(states[1].best_loss, rel=1e-5)
    torch.testing.assert_close(flat(states[0].model), flat(states[1].model), rtol=1e-4, atol=1e-6)
    nothing = train(small_model(), [([5, 3], [0, 0])], [make_batch(PAIRS)], config)
    assert flat(nothing.model).isfinite().all()


def test_two_vocabularies_are_not_cut_by_chance():
    """sentencepiece#371's kind: what an imported model has in place of a vocabulary cannot drop merges."""
    pair = object.__new__(PairTokenizer)
    with refused("piece-dropout-two"):
        examples_by_epoch(pair, PAIRS, replace(CONFIG, piece_dropout=0.1), small_model().config)
