# Written by `make export` from book/59_training.ipynb: do not edit here, edit the chapter.
"""Training: chapter 59 of the book, section 5 of the paper."""

import hashlib
import json
import math
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import save
from torch import Tensor
from tqdm import tqdm

from annotated.base.corpus import Corpus, SentencePair
from annotated.base.files import (
    MANIFEST,
    InputError,
    check_listed,
    current,
    disk,
    finish,
    locked,
    manifest_of,
    read_json,
    read_manifest,
    read_notes,
    read_tensors,
    write_atomically,
    write_json,
    write_together,
)
from annotated.batching import Batch, Example, Pairs, prefetch
from annotated.machine.acceleration import (
    accelerate,
    check_compiler,
    chunked_training_loss,
    compiled,
    hidden_states,
    working_copy,
)
from annotated.machine.devices import PRECISIONS, choose_precision, describe_machine
from annotated.machine.distributed import (
    any_process,
    data_parallel,
    from_all,
    from_first,
    no_sync,
    own_share,
    rank,
    summed,
    world_size,
)
from annotated.model import Transformer, TransformerConfig
from annotated.recurrent import RecurrentTranslator
from annotated.regularization import label_smoothed_loss
from annotated.runs.checkpoint import (
    check_finite,
    load_weights,
    load_with_tokenizer,
    save_model,
    uncompiled,
    weights_of,
)
from annotated.schedule import build_optimizer, learning_rate, set_learning_rate
from annotated.text.store import Store
from annotated.text.subwords import PieceDropout
from annotated.text.tokenization import PairTokenizer, Tokenizer, load_tokenizer, tokenize, train_tokenizer

__all__ = [
    "TRAINING_CHOICES",
    "TrainingConfig",
    "TrainingState",
    "batch_all",
    "check_checkpoint",
    "checkpoints",
    "load_state",
    "prepare_folder",
    "tokenize_pairs",
    "train",
    "train_on_corpus",
    "training_loss",
    "validation_loss",
]


# book/59_training.ipynb#training-loss
Model = Transformer | RecurrentTranslator  # what this loop trains: both are called alike


def training_loss(
    model: Model, batch: Batch, smoothing: float, precision: torch.dtype = torch.float32
) -> Float[Tensor, ""]:
    """The summed loss of all target positions in one pass: teacher forcing (section 3.1's mask and shift).

    `precision` is that of the products, by PyTorch's autocast.

    Defined in chapter 59: `training-loss`.
    """
    with torch.autocast(batch.source.device.type, precision, enabled=precision != torch.float32):
        logits = model(batch.source, batch.target_input)
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return label_smoothed_loss(exact, batch.target_output, smoothing, model.config.pad_id)


# book/59_training.ipynb#training-config
TRAINING_CHOICES = {"precision": ("auto", *PRECISIONS)}


@dataclass(frozen=True)
class TrainingConfig:
    """How to train; the defaults are the paper's where a small machine allows (sections 5.1 to 5.4).

    Training ends at the first of `max_steps`, `max_epochs` and `max_minutes`. Raises ValueError for values of no use.

    Defined in chapter 59: `training-config`.
    """

    max_tokens: int = 4096  # source and target tokens a batch, each side, padding counted (paper: 25,000)
    accumulation: int = 1  # batches summed up before one step
    max_steps: int | None = None
    max_epochs: int | None = None
    max_minutes: float | None = None
    warmup_steps: int = 4000
    label_smoothing: float = 0.1
    precision: str = "auto"  # or one of PRECISIONS
    accelerate: bool = True  # by what chapter 92 has; the same mathematics
    compile: bool = False  # the step's forward and backward pass, by torch.compile
    validate_every: int = 500  # steps
    checkpoint_minutes: float = 10.0  # between checkpoints kept for averaging
    keep_checkpoints: int = 5
    seed: int = 1
    # Beyond the paper; a run states which it used:
    rate_factor: float = 1.0
    clip_norm: float | None = None
    average_decay: float | None = None  # exponential average of the weights, per step
    piece_dropout: float = 0.0  # how often a merge of byte-pair encoding is left out

    def __post_init__(self):
        if self.max_steps is None and self.max_epochs is None and self.max_minutes is None:
            raise ValueError("say when to stop: max_steps, max_epochs or max_minutes")
        for name in ("max_tokens", "accumulation", "warmup_steps", "validate_every", "keep_checkpoints"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("max_steps", "max_epochs", "max_minutes", "rate_factor", "clip_norm"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        if not self.checkpoint_minutes >= 0:
            raise ValueError(f"checkpoint_minutes must be at least 0, not {self.checkpoint_minutes}")
        for name in ("label_smoothing", "piece_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}")
        if self.compile and not self.accelerate:
            raise ValueError("compile is a part of accelerate: switch both on, or neither")
        if self.average_decay is not None and not 0 < self.average_decay < 1:
            raise ValueError(f"average_decay must lie between 0 and 1, not {self.average_decay}")
        for name, known in TRAINING_CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")

    def beyond_the_paper(self, model: TransformerConfig | None = None) -> dict:
        """The options in use that the paper does not have; with `model`, its pre-norm too."""
        options = {"rate_factor": 1.0, "clip_norm": None, "average_decay": None, "piece_dropout": 0.0}
        used = {name: getattr(self, name) for name, off in options.items() if getattr(self, name) != off}
        return used | ({"norm_first": True} if model is not None and model.norm_first else {})


# book/59_training.ipynb#train-step
LossFunction = Callable[[Batch, float], Tensor]  # from a batch and the smoothing to the summed loss


def train_step(
    model: Model,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Batch],
    config: TrainingConfig,
    loss_of: LossFunction | None = None,
    scaler: torch.amp.GradScaler | None = None,
    num_tokens: int | None = None,
) -> Float[Tensor, ""]:
    """One update from one or more batches, as if they were one large batch. Returns the loss a target token.

    `loss_of` is `training_loss` of the model unless given; `scaler` keeps gradients in the range of float16. Where
    several processes have a share of the step each, `num_tokens` counts the target tokens of all, and what is returned
    is this process's part of the loss.
    """
    loss_of = loss_of or partial(training_loss, model)
    scaler = scaler or torch.amp.GradScaler(enabled=False)
    device = model.target_embedding.weight.device
    num_tokens = num_tokens or max(1, sum(batch.num_tokens for batch in batches))
    total = torch.zeros((), device=device)
    for number, batch in enumerate(batches, start=1):
        with no_sync(loss_of, last=number == len(batches)):
            loss = loss_of(batch.to(device), config.label_smoothing) / num_tokens
            scaler.scale(loss).backward()
        total += loss.detach()
    if config.clip_norm is not None:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    return total


# book/59_training.ipynb#validation-loss
@torch.no_grad()
def validation_loss(model: Model, batches: Sequence[Batch], loss_of: Callable[..., Tensor] = training_loss) -> float:
    """The mean negative log-probability of the true tokens, in nats a token, without smoothing and without dropout.

    `loss_of` takes the model, a batch and the smoothing, as `training_loss` does.

    Defined in chapter 59: `validation-loss`.
    """
    was_training = model.training
    model.eval()
    device = model.target_embedding.weight.device
    own = sum(loss_of(model, batch.to(device), 0.0).item() for batch in own_share(batches))
    model.train(was_training)
    return summed(own) / sum(batch.num_tokens for batch in batches)


# book/59_training.ipynb#tokenize-pairs
def tokenize_pairs(tokenizer: Tokenizer, pairs: Sequence[SentencePair], max_length: int) -> list[Example]:
    """Token ids of both sides; pairs with an empty side or more than `max_length` tokens are left out.

    Defined in chapter 59: `tokenize-pairs`.
    """
    sources = tokenize(tokenizer, [pair.source for pair in pairs])
    targets = tokenize(tokenizer, [pair.target for pair in pairs], target=True)
    both = zip(sources, targets, strict=True)
    return [pair for pair in both if all(1 < len(side) <= max_length for side in pair)]


Examples = Sequence[Example] | Callable[[int], Sequence[Example]]  # the same in every epoch, or a function of it


def examples_by_epoch(
    tokenizer: Tokenizer, examples: Sequence[Example], config: TrainingConfig, model: TransformerConfig
) -> Examples:
    """The examples for `train`: with `piece_dropout`, their words are cut into other pieces in each epoch."""
    if not config.piece_dropout:
        return examples
    if isinstance(tokenizer, PairTokenizer):
        raise InputError("piece_dropout cuts words by one vocabulary for both languages, and this model has two")
    return partial(PieceDropout(tokenizer, config.piece_dropout, config.seed, model.max_length), examples)


def check_ids(examples: Sequence[Example], model: Model) -> None:
    """Raises InputError, naming the pair, for an id unknown or no whole number, and a target without end."""
    size, end = model.config.vocab_size, model.config.end_id
    sizes = getattr(model.config, "source_vocab_size", None) or size, size
    for number, pair in enumerate(examples, start=1):
        for ids, size in zip(pair, sizes, strict=True):
            if odd := [one for one in ids if not hasattr(one, "__index__")]:
                raise InputError(f"pair {number} holds {odd[0]!r}, and ids are whole numbers")
            if ids and not 0 <= min(ids) <= max(ids) < size:
                wrong = min(ids) if min(ids) < 0 else max(ids)
                raise InputError(f"pair {number} holds the id {wrong}, and the model knows 0 to {size - 1}")
        target = [one for one in pair[1] if one != model.config.pad_id]
        if target and target[-1] != end:
            raise InputError(f"the target of pair {number} does not end with {end}, so no output would ever end")


def batch_all(examples: Sequence[Example], max_tokens: int, pad_id: int = 0, start_id: int = 2) -> list[Batch]:
    """All examples as batches of similar length, in a fixed order: for validation.

    Defined in chapter 59: `tokenize-pairs`.
    """
    pairs = Pairs.of(examples)
    return [pairs.batch(chosen, pad_id, start_id) for chosen in pairs.plan(max_tokens)]


# book/59_training.ipynb#training-state
@dataclass
class TrainingState:
    """Everything that changes while a model trains; what `resume` restores.

    Defined in chapter 59: `training-state`.
    """

    model: Model
    optimizer: torch.optim.Optimizer
    average: dict[str, Tensor] | None = None  # exponential average of the weights
    scaler: torch.amp.GradScaler = field(default_factory=lambda: torch.amp.GradScaler(enabled=False))
    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch already used
    tokens: int = 0  # target tokens seen
    seconds: float = 0.0
    best_loss: float = math.inf
    losses: list[Tensor] = field(default_factory=list)  # of the steps since the last line of metrics.jsonl
    history: list[dict] = field(default_factory=list)  # the lines of metrics.jsonl

    def weights(self) -> dict[str, Tensor]:
        """The weights to validate and to save: the average where there is one."""
        return weights_of(self.model) if self.average is None else self.average

    def advance(self, num_tokens: int, config: TrainingConfig, seconds: float) -> None:
        """Count a step, and move the average towards the new weights; early on it follows them closely."""
        self.step, self.seconds = self.step + 1, seconds
        self.tokens += num_tokens
        if self.average is not None:
            decay = min(config.average_decay, (1 + self.step) / (10 + self.step))
            for name, weight in weights_of(self.model).items():
                self.average[name].lerp_(weight, 1 - decay)


# book/59_training.ipynb#new-state
def new_state(model: Model, config: TrainingConfig) -> TrainingState:
    """Training before its first step."""
    average = None
    if config.average_decay is not None:
        average = {name: weight.clone() for name, weight in weights_of(model).items()}
    scaler = torch.amp.GradScaler(model.target_embedding.weight.device.type, enabled=config.precision == "float16")
    return TrainingState(model, build_optimizer(model.parameters()), average, scaler)


# book/59_training.ipynb#save-state
COUNTERS = ("step", "epoch", "batch", "tokens", "seconds", "best_loss")


def random_states() -> dict[str, Tensor]:
    """The states of the random numbers of each process; the first one's have no number."""
    own = {"random.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        own["random.cuda"] = torch.cuda.get_rng_state()
    return {numbered(name, i): state for i, states in enumerate(from_all(own)) for name, state in states.items()}


def numbered(name: str, number: int) -> str:
    """The name under which the process of that number has its random state."""
    return f"{name}.{number}" if number else name


def state_content(state: TrainingState, random: Mapping[str, Tensor], losses: Sequence[float] = ()) -> bytes:
    """All that `load_state` needs to go on exactly where training stands, as one safetensors file."""
    tensors = {f"model.{name}": tensor for name, tensor in weights_of(state.model).items()}
    for name, parameter in state.model.named_parameters():
        tensors |= {f"adam.{name}.{key}": value for key, value in state.optimizer.state[parameter].items()}
    tensors |= {f"average.{name}": tensor for name, tensor in (state.average or {}).items()}
    tensors |= random
    counters = {name: getattr(state, name) for name in COUNTERS} | {"history": state.history}
    counters |= {"losses": losses, "scaler": state.scaler.state_dict()}
    tensors = {name: tensor.contiguous().cpu() for name, tensor in tensors.items()}
    return save(tensors, {"counters": json.dumps(counters)})


# book/59_training.ipynb#load-state
def load_state(folder: Path, state: TrainingState, warn: Callable[[str], None] = lambda text: None) -> None:
    """Restore the newest whole checkpoint of a run; `warn` is told of a damaged one that is newer.

    Raises InputError when there is none, or when it belongs to another model or other options.

    Defined in chapter 59: `load-state`.
    """
    damaged: list[str] = []
    for manifest in manifests(folder):
        path = manifest.with_suffix(".state")
        try:
            about = read_manifest(manifest)
            if path.name not in about:
                continue
            check_listed(path, about[path.name])
        except InputError as error:
            damaged.append(str(error))
            continue
        restore(path, state)
        if damaged:
            warn(f"{damaged[0]}; going on from step {state.step}, which is whole")
        break
    else:
        path = folder / "state.safetensors"  # of a run before there were manifests
        if not path.exists():
            raise InputError(damaged[0] if damaged else f"{folder}: nothing to resume there: start in another folder")
        restore(path, state)


def restore(path: Path, state: TrainingState) -> None:
    """Take everything over from what `state_content` wrote. Raises InputError, naming the file and what is missing."""
    tensors = read_tensors(path)

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}

    try:
        counters = json.loads(read_notes(path)["counters"])
        numbers = [counters[name] for name in COUNTERS]
        history, scaler = list(counters["history"]), counters.get("scaler", {})
        losses = [torch.tensor(0.0 if rank() else loss) for loss in counters.get("losses", ())]  # sums over processes
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path}: not the state of a training run (its counters are missing)") from None
    load_weights(state.model, part("model."), path)
    if (state.average is None) == any(name.startswith("average.") for name in tensors):
        raise InputError(f"{path}: average_decay was changed since; resume with the same options")
    for name, parameter in state.model.named_parameters():
        moments = part(f"adam.{name}.")
        for key in ("exp_avg", "exp_avg_sq") if counters["step"] else ():
            if key not in moments or moments[key].shape != parameter.shape:
                raise InputError(f"{path}: Adam's average adam.{name}.{key} is missing or of another shape")
        state.optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in moments.items()}
    for name, tensor in (state.average or {}).items():
        if f"average.{name}" not in tensors or tensors[f"average.{name}"].shape != tensor.shape:
            raise InputError(f"{path}: average.{name} is missing or of another shape")
        tensor.copy_(tensors[f"average.{name}"])
    own, own_cuda = (numbered(name, rank()) for name in ("random.cpu", "random.cuda"))
    try:
        if rank() and own not in tensors:  # there are more processes now
            torch.manual_seed(torch.initial_seed() + counters["step"])
        else:
            torch.set_rng_state(tensors[own])
        if own_cuda in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors[own_cuda])
    except (KeyError, TypeError, RuntimeError):
        raise InputError(f"{path}: the state of the random numbers is missing or of another size") from None
    if scaler:
        state.scaler.load_state_dict(scaler)
    state.history, state.losses = history, losses
    for name, value in zip(COUNTERS, numbers, strict=True):
        setattr(state, name, value)


# book/59_training.ipynb#batch-groups
@dataclass(frozen=True)
class Group:
    """The batches of a step, of which each process has its share, and the place after them."""

    batches: list[Batch]
    num_tokens: int  # target tokens, those of other processes included
    epoch: int
    batch: int


def batch_groups(
    source: Examples, config: TrainingConfig, epoch: int, position: int, pad_id: int = 0, start_id: int = 2
) -> Iterator[Group]:
    """Endless groups of `accumulation` batches, beginning at batch `position` of `epoch`.

    Each epoch has an order of its own, which depends on the seed alone. Every process plans it and makes its own
    batches only. Raises InputError when there is nothing to learn from.
    """
    group: list[Batch] = []
    count = num_tokens = 0
    while True:
        examples = source(epoch) if callable(source) else source
        if not examples:
            raise InputError("there are no examples to train on")
        pairs = Pairs.of(examples)
        batches = pairs.plan(config.max_tokens, seed=config.seed * 1_000_003 + epoch)
        for done in range(position, len(batches)):
            if count % world_size() == rank():
                group.append(pairs.batch(batches[done], pad_id, start_id))
                num_tokens += group[-1].num_tokens
            else:  # another process has it
                num_tokens += pairs.num_tokens(batches[done], pad_id)
            count += 1
            if count == config.accumulation:
                last = done + 1 == len(batches)
                yield Group(group, num_tokens, epoch + last, 0 if last else done + 1)
                group, count, num_tokens = [], 0, 0
        epoch, position = epoch + 1, 0


# book/59_training.ipynb#training-log
class TrainingLog:
    """Metrics as JSON lines and, if wanted, a progress bar with loss, speed and time left.

    `every` steps the mean loss since the last line is recorded; a loss that is no number raises InputError then.
    """

    def __init__(
        self, config: TrainingConfig, state: TrainingState, path: Path | None, progress: bool, every: int = 20,
        report: Callable[[str], None] = lambda text: None,
    ):  # fmt: skip
        self.config, self.state, self.path, self.every, self.report = config, state, path, every, report
        self.tokens, self.seconds = state.tokens, state.seconds
        done = 100 * share_done(config, state)  # after a resume: not part of what the time left is counted by
        self.bar = tqdm(total=100, initial=done, disable=not progress, bar_format=BAR, mininterval=1)
        if path is not None:  # after a resume: only what happened up to the saved state
            write_atomically(path, "".join(json.dumps(line) + "\n" for line in state.history).encode())

    def after_step(self, loss: Tensor, rate: float) -> None:
        self.state.losses.append(loss)
        if len(self.state.losses) < self.every:
            return
        mean = summed(torch.stack(self.state.losses).mean().item())  # each process has its part of each loss
        if not math.isfinite(mean):
            advice = "lower rate_factor, raise warmup_steps or set clip_norm"
            raise InputError(f"the loss is {mean} near step {self.state.step}: {advice}")
        speed = (self.state.tokens - self.tokens) / max(self.state.seconds - self.seconds, 1e-9)
        self.state.losses, self.tokens, self.seconds = [], self.state.tokens, self.state.seconds
        self.record(loss=mean, rate=rate, tokens_per_second=round(speed))
        self.bar.n = round(100 * share_done(self.config, self.state), 1)
        self.bar.set_description_str(f"step {self.state.step}")
        self.bar.set_postfix_str(f"loss {mean:.3f}, {speed:,.0f} tokens/s")

    def record(self, **values: float | int) -> None:
        """Append one line to the history and to the file."""
        state = self.state
        place = {"step": state.step, "epoch": state.epoch, "tokens": state.tokens, "seconds": round(state.seconds, 1)}
        state.history.append(place | values)
        if self.path is not None:
            try:
                disk.append(self.path, (json.dumps(state.history[-1]) + "\n").encode())
            except OSError as error:
                raise InputError(f"{self.path}: cannot be written ({error.strerror})") from None

    def say(self, text: str) -> None:
        """A line above the progress bar; without one, for `report`."""
        if self.bar.disable:
            self.report(text)
        else:
            self.bar.write(text, file=sys.stderr)


BAR = "{desc} {percentage:3.0f}% |{bar:20}| {postfix}, {elapsed} gone, {remaining} left"


# book/59_training.ipynb#when-to-stop
def share_done(config: TrainingConfig, state: TrainingState) -> float:
    """How much of the training is over, from 0 to 1, by whichever limit comes first."""
    shares = [0.0]
    if config.max_steps is not None:
        shares.append(state.step / config.max_steps)
    if config.max_epochs is not None:
        shares.append(state.epoch / config.max_epochs)
    if config.max_minutes is not None:
        shares.append(state.seconds / (60 * config.max_minutes))
    return min(max(shares), 1.0)


@contextmanager
def weights_in_place(model: Model, weights: dict[str, Tensor]) -> Iterator[None]:
    """Let the model use other weights for a while."""
    own = {name: weight.clone() for name, weight in weights_of(model).items()}
    load_weights(model, weights, "average")
    try:
        yield
    finally:
        load_weights(model, own, "own weights")


# book/59_training.ipynb#validate
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
        loss = validation_loss(state.model, valid, loss_of)
        measured = measure(state.model.eval())
        state.model.train()
    if not math.isfinite(loss):
        raise InputError(f"the validation loss is {loss} at step {state.step}: the last good model is kept")
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


# book/59_training.ipynb#save-checkpoint
def save_checkpoint(folder: Path, state: TrainingState, keep: int) -> None:
    """Write `checkpoints/step-N`: weights to average, the state to resume from, and the manifest of both.

    Kept are the last `keep` weights and the last two states. Raises InputError when a weight is no longer a number:
    then the checkpoints before stay.
    """
    tensors = {name: tensor.contiguous().cpu() for name, tensor in weights_of(state.model).items()}
    for weights in (tensors, state.average or {}):
        check_finite(weights, f"step {state.step}")
    random, losses = random_states(), [sum(parts) for parts in zip(*from_all([loss.item() for loss in state.losses]))]
    if rank():
        return  # one process writes
    name = f"step-{state.step:07d}"
    contents = {f"{name}.safetensors": save(tensors)} if state.step else {}  # nobody averages a model before training
    write_together(
        folder / "checkpoints", contents | {f"{name}.state": state_content(state, random, losses)}, f"{name}.json"
    )
    for number, manifest in enumerate(manifests(folder)):
        if number >= max(keep, 2):
            disk.remove(manifest)
        if number >= keep:
            disk.remove(manifest.with_suffix(".safetensors"))
        if number >= 2:
            disk.remove(manifest.with_suffix(".state"))


def manifests(folder: Path) -> list[Path]:
    """The manifests of a run's checkpoints, newest first, after an interrupted save was finished."""
    for pending in sorted((folder / "checkpoints").glob("step-*.json.new")):
        finish(pending.parent, pending.stem)
    return sorted((folder / "checkpoints").glob("step-*.json"), reverse=True)


def checkpoints(folder: Path) -> list[Path]:
    """The weights that a run kept for averaging, oldest first.

    Defined in chapter 59: `save-checkpoint`.
    """
    return sorted((folder / "checkpoints").glob("step-*.safetensors"))


def check_checkpoint(path: Path) -> None:
    """Raise InputError when kept weights are not what was written, where a manifest knows it.

    Defined in chapter 59: `save-checkpoint`.
    """
    manifest = path.with_suffix(".json")
    if manifest.exists() and path.name in (files := read_manifest(manifest)):
        check_listed(path, files[path.name])


# book/59_training.ipynb#train
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
    if not config.accelerate or (world_size() > 1 and precision != torch.float32):
        return data_parallel(model, partial(training_loss, model, precision=precision)), validation
    worker = working_copy(model, optimizer, precision)
    hidden_of = compiled(hidden_states) if config.compile else hidden_states
    return data_parallel(model, partial(chunked_training_loss, worker, hidden_of=hidden_of)), validation


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
    valid: Sequence[Batch],
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
) -> TrainingState:
    """Train `model` in place until `config`, or `stop()`, says enough; return the final state with its history.

    `examples` may be a function that gives those of an epoch, as `examples_by_epoch` makes one for `piece_dropout`.
    With a `folder`, `metrics.jsonl` and checkpoints are written there, the first before the first step. `on_best` is
    called when the validation loss is the lowest so far, and once where `stop` ends a run before there is one; the
    figures that `measure` gives are recorded with each validation loss; `warn` is called when a damaged checkpoint is
    passed over, and `report` is told the validation losses where there is no progress bar. Each of several processes
    calls this with the same arguments; a step's batches are dealt out to them (chapter 93). Raises InputError when the
    folder holds a run already and `resume` is not asked for, the loss is no longer a number, nothing is there to learn
    from, a step has fewer batches than there are processes, or what `compile` needs is missing.

    Defined in chapter 59: `train`.
    """
    if config.accumulation < world_size():
        raise InputError(
            f"accumulation is {config.accumulation}: a step needs a batch for each of {world_size()} processes"
        )
    model = uncompiled(model)
    if not any(batch.num_tokens for batch in valid):
        raise InputError("there are no examples to validate by")
    if isinstance(examples, list | tuple):
        check_ids(examples, model)
    folder = None if folder is None else Path(folder)
    device = model.target_embedding.weight.device
    if config.compile:
        check_compiler(device)
    precision = choose_precision(config.precision, device)
    config = replace(config, precision=str(precision).removeprefix("torch."))
    torch.manual_seed(config.seed + rank() * 1_000_003)  # each process has dropout of its own
    state = new_state(model.train(), config)
    if resume:
        load_state(folder, state, warn)
    elif folder:
        from_first(lambda: refuse_begun(folder))
        save_checkpoint(folder, state, config.keep_checkpoints)
    path = folder / "metrics.jsonl" if folder and not rank() else None
    log = TrainingLog(config, state, path, progress, report=report)
    ids = model.config.pad_id, model.config.start_id
    groups = prefetch(ready(batch_groups(examples, config, state.epoch, state.batch, *ids), device))
    start, saved = time.perf_counter() - state.seconds, state.seconds
    step_loss, valid_loss = losses_of(model, state.optimizer, config)
    with closing(log.bar), closing(groups):
        while not any_process(share_done(config, state) >= 1 or stop()):
            group = next(groups)
            state.epoch, state.batch = group.epoch, group.batch
            rate = learning_rate(state.step + 1, model.config.d_model, config.warmup_steps, config.rate_factor)
            set_learning_rate(state.optimizer, rate)
            loss = train_step(model, state.optimizer, group.batches, config, step_loss, state.scaler, group.num_tokens)
            state.advance(group.num_tokens, config, time.perf_counter() - start)
            log.after_step(loss, rate)
            if state.step % config.validate_every == 0:
                validate(state, valid, log, on_best, valid_loss, measure)
            if folder and any_process(state.seconds - saved > 60 * config.checkpoint_minutes):
                save_checkpoint(folder, state, config.keep_checkpoints)
                saved = state.seconds
        if folder:  # before a last validation, which a longer run would not have here
            save_checkpoint(folder, state, config.keep_checkpoints)
        over = any_process(share_done(config, state) >= 1)
        if over and not any(line["step"] == state.step and "valid_loss" in line for line in state.history):
            validate(state, valid, log, on_best, valid_loss, measure)
        elif not over and math.isinf(state.best_loss):
            on_best(state)  # stopped before the first validation, which will replace this model
    return state


# book/59_training.ipynb#prepare-folder
def prepare_folder(folder: Path, resume: bool) -> None:
    """See that training can begin in `folder` before hours are spent. Raises InputError, saying what to do, if not.

    What a run left that ended before its first checkpoint is nothing to lose, and may be written over.

    Defined in chapter 59: `prepare-folder`.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file, not a folder")
    finish(folder)
    if not resume:
        refuse_begun(folder)
    elif not resumable(folder):
        raise InputError(f"{folder}: nothing to resume there (no checkpoint): start anew, without --resume")
    write_atomically(folder / ".writable", b"")
    disk.remove(folder / ".writable")


def resumable(folder: Path) -> bool:
    """Whether a run in this folder has got as far as its first checkpoint."""
    return (folder / "state.safetensors").exists() or bool(manifests(folder))


def refuse_begun(folder: Path) -> None:
    """Raises InputError where a run would mix its checkpoints with those of another."""
    if resumable(folder):
        raise InputError(f"{folder}: holds a run already; add --resume, or choose another folder")


@contextmanager
def run_folder(folder: Path, resume: bool, warn: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Keep a folder for one run; gives the record of the run to resume, else an empty one."""
    if resume and not folder.exists():
        raise InputError(f"{folder}: nothing to resume there")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file, not a folder")
    with nullcontext() if rank() else locked(folder, warn):
        from_first(lambda: prepare_folder(folder, resume))
        yield read_json(folder / "run.json") if resume else {}


# book/59_training.ipynb#run-examples
def texts_of(corpus: Corpus | Store) -> tuple[list[SentencePair], list[SentencePair]]:
    """The pairs of train, which a store has as ids only, and of valid. Raises InputError when there are none."""
    pairs, kept_apart = [] if isinstance(corpus, Store) else corpus.split("train"), corpus.split("valid")
    if not isinstance(corpus, Store) and not (pairs and kept_apart):
        raise InputError(f"corpus {corpus.name}: no pairs in {'valid' if pairs else 'train'}")
    return pairs, kept_apart


def learn_pieces(
    corpus: Corpus | Store, pairs: Sequence[SentencePair], vocab_size: int | str | None, options: Mapping[str, Any]
) -> Tokenizer:
    """A vocabulary for the corpus; a store brings its own. Raises InputError when that has another size."""
    if isinstance(corpus, Store):
        if vocab_size not in (None, size := len(corpus.tokenizer)):
            raise InputError(f"{corpus.name}: has {size} pieces, not {vocab_size}: leave that out, or prepare another")
        return corpus.tokenizer
    texts = (text for pair in pairs for text in (pair.source, pair.target))
    return train_tokenizer(texts, vocab_size, **options)


def begin_with(folder: Path, corpus: Corpus | Store) -> tuple[Transformer, Tokenizer, dict[str, Any]]:
    """The model to begin with, its vocabulary, and what a run keeps of its notes.

    Raises InputError when it cannot be read, or a store was cut into other pieces.
    """
    model, tokenizer, notes = load_with_tokenizer(folder)
    if isinstance(corpus, Store) and corpus.tokenizer.files() != tokenizer.files():
        raise InputError(f"{corpus.name}: was cut into pieces of another vocabulary than that of {folder}")
    kept = {"search": notes["search"]} if "search" in notes else {}
    return model, tokenizer, {"begun_from": str(folder)} | kept


def examples_of(
    corpus: Corpus | Store, pairs: Sequence[SentencePair], kept_apart: Sequence[SentencePair], tokenizer: Tokenizer,
    max_length: int,
) -> tuple[Sequence[Example], list[Example]]:  # fmt: skip
    """The examples to train on, and those to validate by.

    Raises InputError when there are none, or when a store has longer ones than the model takes.
    """
    if not isinstance(corpus, Store):
        examples = tokenize_pairs(tokenizer, pairs, max_length)
    elif (longest := corpus.train.longest()) <= max_length:
        examples = corpus.train
    else:
        advice = f"prepare it with --max-length {max_length}, or train with a larger one"
        raise InputError(f"{corpus.name}: has sentences of {longest} tokens, max_length is {max_length}: {advice}")
    valid = tokenize_pairs(tokenizer, kept_apart, max_length)
    for name, found in (("train", examples), ("valid", valid)):
        if not found:
            reason = f"a side of each is empty, or has more than {max_length} tokens (max_length)"
            raise InputError(f"corpus {corpus.name}: no usable pairs in {name}: {reason}")
    return examples, valid


# book/59_training.ipynb#run-record
def fingerprint(corpus: Corpus | Store, examples: Sequence[Example]) -> str:
    """A hash of what a run learns from; a resumed run must have the same."""
    if isinstance(corpus, Store):
        return corpus.notes["key"]
    found = hashlib.sha256()
    for example in examples:
        found.update(repr(example).encode())
    return found.hexdigest()


def best_of(state: TrainingState, name: str) -> dict[str, float]:
    """The lowest validation loss, for a record; nothing before the first validation."""
    return {name: state.best_loss} if math.isfinite(state.best_loss) else {}


def command_line() -> str:
    """The command that started this process, as one would type it."""
    program, *arguments = sys.argv
    name = Path(program).name
    return shlex.join(["annotated" if name == "__main__.py" else name, *arguments])


def run_record(
    before: Mapping[str, Any], corpus: Corpus | Store, examples: Sequence[Example], left_out: Mapping[str, int],
    model: Transformer, config: TrainingConfig, settings: Mapping[str, bool] | None, device: torch.device,
) -> dict[str, Any]:  # fmt: skip
    """What `run.json` says of a run that begins. Raises InputError when the run to resume had other examples."""
    known_by = fingerprint(corpus, examples)
    if before.get("examples", known_by) != known_by:
        raise InputError(f"corpus {corpus.name}: not the pairs, or not the vocabulary, that the run began with")
    run = {"command": before.get("command", command_line()), "corpus": corpus.name}
    run |= {"source": corpus.source_language, "target": corpus.target_language, "pairs": len(examples)}
    run |= {f"{name}_left_out": count for name, count in left_out.items()} | {"examples": known_by}
    run |= {"parameters": model.num_parameters(), "model": asdict(model.config), "training": asdict(config)}
    run |= {"beyond_the_paper": config.beyond_the_paper(model.config), "settings": dict(settings or {})}
    run |= describe_machine(device)  # now: the files may change while it trains
    return run | ({"processes": world_size()} if world_size() > 1 else {})


def result_of(state: TrainingState, config: TrainingConfig) -> dict[str, Any]:
    """What `run.json` says of a run that has ended."""
    found = {"finished": share_done(config, state) >= 1, "steps": state.step, "epochs": state.epoch}
    found |= {"target_tokens": state.tokens, "wall_seconds": round(state.seconds, 1)}
    return found | best_of(state, "best_valid_loss")


SCHEDULED = "scheduled"  # in a run's folder: the best model up to its last scheduled validation


def copy_model(source: Path, target: Path) -> None:
    """Write a model's files, which its manifest lists, into another folder, all or none."""
    write_together(target, {name: disk.read(current(source, name)) for name in manifest_of(source) or {}})


def save_best(
    folder: Path, tokenizer: Tokenizer, run: Mapping[str, Any], config: TrainingConfig, state: TrainingState
) -> None:
    """Make the weights of `state` the model in a run's folder; one process writes.

    A run that ends between two validations is validated once more. If its model is the best then, the one before is
    kept aside: a longer run, which has no validation there, goes on with that one (`back_on_schedule`).
    """
    if not rank():
        if state.step % config.validate_every and math.isfinite(state.best_loss) and manifest_of(folder):
            copy_model(folder, folder / SCHEDULED)
        notes = {name: run[name] for name in ("corpus", "source", "target", "begun_from", "search") if name in run}
        notes |= {"step": state.step, **best_of(state, "valid_loss")}
        save_model(folder, state.model, tokenizer, state.weights(), **notes)


def back_on_schedule(folder: Path) -> None:
    """Before a run goes on: put back the model that the validation at its end had replaced."""
    kept = folder / SCHEDULED
    if not manifest_of(kept):
        return
    copy_model(kept, folder)
    for path in sorted(kept.iterdir(), key=lambda path: path.name != MANIFEST):  # the manifest first
        disk.remove(path)
    kept.rmdir()


# book/59_training.ipynb#run-training
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

    Defined in chapter 59: `run-training`.
    """
    warn = warn or (lambda text: print(text, file=sys.stderr))
    if config.compile:
        check_compiler(device)
    with run_folder(folder, resume, warn) as before:
        config = replace(config, precision=str(choose_precision(config.precision, device)).removeprefix("torch."))
        pairs, kept_apart = texts_of(corpus)
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
            back_on_schedule(folder)
            write_json(folder / "run.json", before | run | {"finished": False})
            for name, content in {} if resume else tokenizer.files().items():
                write_atomically(folder / name, content)
        state = train(
            model, examples_by_epoch(tokenizer, examples, config, model.config),
            batch_all(valid, config.max_tokens, model.config.pad_id, model.config.start_id), config, folder=folder,
            resume=resume, progress=progress, stop=stop, warn=warn,
            on_best=partial(save_best, folder, tokenizer, run, config), report=report,
        )  # fmt: skip
        if not rank():
            write_json(folder / "run.json", run | result_of(state, config))
        return state
