"""Training around the paper's step: steps of several processes, validation, checkpoints, records."""

import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from annotated.base.corpus import Corpus
from annotated.base.files import InputError, write_atomically, write_json
from annotated.batching import Batch, Example
from annotated.machine.acceleration import (
    accelerate,
    check_compiler,
    chunked_training_loss,
    compiled,
    hidden_states,
    own_classes,
    working_copy,
)
from annotated.machine.devices import choose_precision
from annotated.machine.distributed import (
    any_process,
    data_parallel,
    from_first,
    no_sync,
    own_share,
    rank,
    summed,
    world_size,
)
from annotated.model import Transformer, TransformerConfig
from annotated.runs.checkpoint import load_weights, uncompiled, weights_of
from annotated.runs.examples import (
    Examples,
    Group,
    batch_all,
    batch_groups,
    begin_with,
    check_ids,
    examples_by_epoch,
    examples_of,
    learn_pieces,
    texts_of,
)
from annotated.runs.folder import back_on_schedule, refuse_begun, result_of, run_folder, run_record, save_best
from annotated.runs.log import TrainingLog, share_done
from annotated.runs.state import (
    MakeOptimizer,
    TrainingState,
    load_state,
    new_state,
    newest_state,
    save_checkpoint,
    weights_in_place,
)
from annotated.schedule import build_optimizer
from annotated.text.corpora import shared_pairs
from annotated.text.pairs import prefetch
from annotated.text.store import Store
from annotated.text.tokenization import Tokenizer, load_tokenizer
from annotated.training import LossFunction, Model, TrainingConfig, total_loss, training_loss, training_steps

__all__ = ["train", "train_on_corpus"]


Measure = Callable[[Model], Mapping[str, float]]  # from a model in evaluation mode to named figures


def validate(
    state: TrainingState,
    valid: Sequence[Batch],
    log: TrainingLog,
    on_best: Callable[[TrainingState], None],
    loss_of: Callable[..., Tensor] = training_loss,
    measure: Measure = lambda model: {},
) -> float:
    """Measure the validation loss, record it, and call `on_best` when it is the lowest so far."""
    with weights_in_place(state.model, state.weights()):
        loss = summed(total_loss(state.model, own_share(valid), loss_of)) / sum(batch.num_tokens for batch in valid)
        try:
            measured = measure(state.model.eval())
        finally:
            state.model.train()
    if not math.isfinite(loss):
        raise InputError(
            f"the validation loss is {loss} at step {state.step}: the last good model is kept",
            "Start anew with a lower `--rate-factor`, more `--warmup-steps` or `--clip-norm 1`.",
        )
    best = loss < state.best_loss
    state.best_loss = min(loss, state.best_loss)
    log.record(valid_loss=loss, **measured)
    log.say(
        f"step {state.step}: validation loss {loss:.4f}, perplexity {math.exp(min(loss, 700)):.2f}"
        f"{' (best)' if best else ''}"
    )
    if best:
        on_best(state)
    return loss


def losses_of(
    model: Model, optimizer: torch.optim.Optimizer, config: TrainingConfig
) -> tuple[LossFunction, Callable[..., Tensor]]:
    """The loss of a training step and that of validation, in the plain form or in that of chapter 92.

    Several processes work in 16 bits by autocast, since their engine adds up the gradients of the model itself.
    """
    precision = getattr(torch, config.precision) if isinstance(model, Transformer) else torch.float32
    if config.accelerate:
        accelerate(model)
    validation = chunked_training_loss if config.accelerate else training_loss
    own = len(range(rank(), config.accumulation, world_size()))  # batches of a step that are this process's
    if not config.accelerate or (world_size() > 1 and precision != torch.float32):
        loss = data_parallel(model, partial(training_loss, model, precision=precision))
        return exchanged_last(loss, own), validation
    worker = working_copy(model, optimizer, precision)
    hidden_of = compiled(hidden_states) if config.compile else hidden_states
    loss = data_parallel(model, partial(chunked_training_loss, worker, hidden_of=hidden_of))
    return exchanged_last(loss, own), validation


def exchanged_last(loss_of: LossFunction, count: int) -> LossFunction:
    """A loss whose gradients several processes exchange once a step: at the last of its `count` batches here."""
    if world_size() == 1:
        return loss_of
    numbers = itertools.cycle(range(count))

    def loss(batch: Batch, smoothing: float) -> Tensor:
        with no_sync(loss_of, last=next(numbers) == count - 1):
            return loss_of(batch, smoothing)

    return loss


def ready(groups: Iterator[Group], device: torch.device) -> Iterator[Group]:
    """Groups whose batches lie where a GPU can fetch them at once; for other devices as they are."""
    if device.type == "cuda":
        with torch.cuda.device(device):  # that of this process, also in the thread that prefetches
            yield from (replace(group, batches=[batch.pinned() for batch in group.batches]) for group in groups)
    else:
        yield from groups


def train(
    model: Model,
    examples: Examples,
    valid: Sequence[Example],
    config: TrainingConfig,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: bool = False,
    on_best: Callable[[TrainingState], None] = lambda state: None,
    measure: Measure = lambda model: {},
    stop: Callable[[], bool] = lambda: False,
    warn: Callable[[str], None] = lambda text: None,
    report: Callable[[str], None] = lambda text: None,
    optimizer: MakeOptimizer = build_optimizer,
) -> TrainingState:
    """Train `model` in place until `config`, or `stop()`, says enough; return the final state with its history.

    `examples` to learn from and `valid` to validate by are pairs of lists of ids, each with the end symbol. `examples`
    may be a function that gives those of an epoch, as `examples_by_epoch` makes one for `piece_dropout`.
    With a `folder`, `metrics.jsonl` and checkpoints are written there, the first before the first step. `on_best` is
    called when the validation loss is the lowest so far, and once where `stop` ends a run before there is one; the
    figures that `measure` gives are recorded with each validation loss; `warn` is called when a damaged checkpoint is
    passed over, and `report` is told the validation losses where there is no progress bar. `optimizer` makes one of
    Adam's kin from the weights; its rate is set before each step. Each of several processes calls this with the same
    arguments; a step's batches are dealt out to them (chapter 93). Raises InputError when the folder holds a run
    already and `resume` is not asked for, the loss is no longer a number, nothing is there to learn from, a step has
    fewer batches than there are processes, or what `compile` needs is missing.
    """
    if config.accumulation < world_size():
        raise InputError(
            f"accumulation is {config.accumulation}: a step needs a batch for each of {world_size()} processes",
            "Set `--accumulation` to at least that number; with smaller batches a step stays as large as "
            "it was. A new run of the command does so itself.",
        )
    model = uncompiled(model)
    for some in (examples, valid):
        if isinstance(some, list | tuple):
            check_ids(some, model)
    ids = model.config.pad_id, model.config.start_id
    batches = batch_all(valid, config.max_tokens, *ids) if valid else []
    if not any(batch.num_tokens for batch in batches):
        raise InputError("there are no examples to validate by", "Give `train` at least one pair with a target.")
    folder = None if folder is None else Path(folder)
    device = model.target_embedding.weight.device
    if config.compile:
        check_compiler(device)
    precision = choose_precision(config.precision, device)
    config = replace(config, precision=str(precision).removeprefix("torch."))
    torch.manual_seed(config.seed + rank() * 1_000_003)  # each process has dropout of its own
    state = new_state(model.train(), config, optimizer)
    if resume:
        load_state(folder, state, warn)
    elif folder:
        from_first(lambda: refuse_begun(folder))
        save_checkpoint(folder, state, config.keep_checkpoints)
    path = folder / "metrics.jsonl" if folder and not rank() else None
    log = TrainingLog(config, state, path, progress, report=report)
    groups = prefetch(ready(batch_groups(examples, config, state.epoch, state.batch, *ids), device))
    start, saved = time.perf_counter() - state.seconds, state.seconds

    def taken() -> Iterator[list[Batch]]:
        nonlocal group
        for group in groups:
            yield group.batches

    group = Group([], 0, state.epoch, state.batch)  # the last one that was taken
    with closing(log.bar), closing(groups), own_classes(model):
        step_loss, valid_loss = losses_of(model, state.optimizer, config)
        steps = training_steps(
            model, state.optimizer, taken(), config, state.step, step_loss, state.scaler, lambda _: group.num_tokens
        )
        while not any_process(share_done(config, state) >= 1 or stop()):
            rate, loss = next(steps)
            state.epoch, state.batch = group.epoch, group.batch
            state.advance(group.num_tokens, config, time.perf_counter() - start)
            log.after_step(loss, rate)
            if state.step % config.validate_every == 0:
                validate(state, batches, log, on_best, valid_loss, measure)
            if folder and any_process(state.seconds - saved > 60 * config.checkpoint_minutes):
                save_checkpoint(folder, state, config.keep_checkpoints)
                saved = state.seconds
        over = any_process(share_done(config, state) >= 1)
        if folder:  # before a last validation, which a longer run would not have here
            save_checkpoint(folder, state, config.keep_checkpoints, to_average=over)
        if over and not any(line["step"] == state.step and "valid_loss" in line for line in state.history):
            validate(state, batches, log, on_best, valid_loss, measure)
        elif not over and math.isinf(state.best_loss):
            on_best(state)  # stopped before the first validation, which will replace this model
    return state


def train_on_corpus(
    corpus: Corpus | Store,
    model_config: Callable[[int], TransformerConfig],
    config: TrainingConfig,
    folder: Path,
    *,
    vocab_size: int | str | None,
    device: torch.device,
    vocabulary: Mapping[str, Any] | None = None,
    begin_from: Path | None = None,
    resume: bool = False,
    progress: bool = True,
    settings: Mapping[str, bool] | None = None,
    stop: Callable[[], bool] = lambda: False,
    warn: Callable[[str], None] | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> TrainingState:
    """From raw text to a model folder: tokenizer, batches, training. The best model by validation loss stays there.

    `model_config` makes the configuration from the vocabulary's size, which may be None for a store; `vocabulary`
    has further options of `train_tokenizer`. With `begin_from`, the weights and the vocabulary are those of that model
    folder, and `model_config` must fit them. `settings` of the process, as `tune_machine` returns them, are recorded;
    `warn` is told what a person should know, by default on standard error, and `report` the validation losses where
    there is no progress bar. Raises InputError for a folder that holds a run already (unless `resume`) or in which
    another one is writing, for a resumed run whose texts have changed, and when there are no training or validation
    pairs.
    """
    warn = warn or (lambda text: print(text, file=sys.stderr))
    if config.compile:
        check_compiler(device)
    with run_folder(folder, resume, warn) as before:
        config = replace(config, precision=str(choose_precision(config.precision, device)).removeprefix("torch."))
        pairs, kept_apart = texts_of(corpus)
        for split in ("valid", "test") if pairs else ():
            if said := shared_pairs(corpus, split):
                warn(said)
        kept = {name: before[name] for name in ("begun_from", "search") if name in before}
        if resume:
            tokenizer = load_tokenizer(folder)
        elif begin_from is not None:
            begun, tokenizer, kept = begin_with(begin_from, corpus)
        else:
            learn = partial(learn_pieces, corpus, pairs, vocab_size, vocabulary or {})
            tokenizer = Tokenizer(from_first(lambda: learn().model))
        torch.manual_seed(config.seed)
        model = Transformer(model_config(len(tokenizer)))
        if begin_from is not None and not resume:
            load_weights(model, weights_of(begun), begin_from)
        model = model.to(device)
        examples, valid = examples_of(corpus, pairs, kept_apart, tokenizer, model.config.max_length)
        left_out = {"pairs": len(pairs) - len(examples), "valid_pairs": len(kept_apart) - len(valid)}
        left_out = {name: max(count, 0) for name, count in left_out.items()}  # a store has left them out before
        for (name, count), total in zip(left_out.items(), (len(pairs), len(kept_apart)), strict=True):
            if count:
                what = name.replace("valid_", "validation ")
                warn(f"{count} of {total} {what} are left out: a side is empty, or longer than max_length")
        run = run_record(before, corpus, examples, left_out, model, config, settings, device) | kept
        if not rank():
            if resume:
                newest_state(folder)  # before anything is written
            back_on_schedule(folder)
            write_json(folder / "run.json", before | run | {"finished": False})
            for name, content in {} if resume else tokenizer.files().items():
                write_atomically(folder / name, content)
        state = train(
            model, examples_by_epoch(tokenizer, examples, config, model.config),
            valid, config, folder=folder, resume=resume, progress=progress, stop=stop, warn=warn,
            on_best=partial(save_best, folder, tokenizer, run, config), report=report,
        )  # fmt: skip
        if not rank():
            write_json(folder / "run.json", run | result_of(state, config))
        return state
