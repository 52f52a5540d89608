# Written by `make export` from book/59_training.ipynb: edit the chapter, not this.
"""Training (section 5 of the paper)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from annotated.batching import Batch
from annotated.model import Transformer, TransformerConfig
from annotated.recurrent import RecurrentTranslator
from annotated.regularization import label_smoothed_loss
from annotated.schedule import learning_rate, set_learning_rate

__all__ = [
    "LossFunction",
    "Model",
    "PRECISIONS",
    "TRAINING_CHOICES",
    "TrainingConfig",
    "total_loss",
    "train_step",
    "training_loss",
    "training_steps",
    "validation_loss",
]


# book/59_training.ipynb#training-loss
Model = Transformer | RecurrentTranslator  # what this loop trains; called alike


def training_loss(
    model: Model, batch: Batch, smoothing: float, precision: torch.dtype = torch.float32
) -> Float[Tensor, ""]:
    """The summed loss of all target positions in one pass: teacher forcing.

    That is section 3.1's mask and shift. `precision` is that of the products.

    Defined in chapter 59: `training-loss`.
    """
    with torch.autocast(batch.source.device.type, precision, enabled=precision != torch.float32):
        logits = model(batch.source, batch.target_input)  # (batch, target, vocab)
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return label_smoothed_loss(exact, batch.target_output, smoothing, model.config.pad_id)


# book/59_training.ipynb#validation-loss
@torch.no_grad()
def total_loss(
    model: Model,
    batches: Sequence[Batch],
    loss_of: Callable[..., Tensor] = training_loss,
) -> float:
    """The summed negative log-probability of the true tokens, in nats.

    It is measured without smoothing and dropout. `loss_of` takes the model, a batch
    and the smoothing, as `training_loss` does.

    Defined in chapter 59: `validation-loss`.
    """
    was_training, device = model.training, model.target_embedding.weight.device
    model.eval()
    total = sum(loss_of(model, batch.to(device), 0.0).item() for batch in batches)
    model.train(was_training)
    return total


def validation_loss(
    model: Model,
    batches: Sequence[Batch],
    loss_of: Callable[..., Tensor] = training_loss,
) -> float:
    """`total_loss` a target token, in nats: what training lowers (section 5.4).

    Defined in chapter 59: `validation-loss`.
    """
    num_tokens = sum(batch.num_tokens for batch in batches)
    return total_loss(model, batches, loss_of) / num_tokens


# book/59_training.ipynb#training-config
PRECISIONS = ("float32", "bfloat16", "float16")  # what a model computes in
TRAINING_CHOICES = {"precision": ("auto", *PRECISIONS)}


@dataclass(frozen=True)
class TrainingConfig:
    """How to train; defaults are the paper's where a small machine allows (section 5).

    Training ends at the first of `max_steps`, `max_epochs` and `max_minutes`. Raises
    ValueError for values of no use.

    Defined in chapter 59: `training-config`.
    """

    max_tokens: int = 4096  # tokens a batch on each side, with padding (paper: 25,000)
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
    patience: int | None = None  # validations without a lower loss before it ends

    def __post_init__(self):
        _check(self)  # defined below

    def beyond_the_paper(self, model: TransformerConfig | None = None) -> dict:
        """The options in use that are not the paper's; with `model`, its pre-norm."""
        names = ("rate_factor", "clip_norm", "average_decay", "piece_dropout", "patience")
        used = {
            name: getattr(self, name) for name in names if getattr(self, name) != getattr(TrainingConfig, name)
        }  # the default
        if model is not None and model.norm_first:
            used["norm_first"] = True
        return used


# book/59_training.ipynb#training-check
def _check(config: TrainingConfig) -> None:
    """Raise ValueError, naming the setting, for a value of no use."""
    ends = ("max_steps", "max_epochs", "max_minutes")
    if all(getattr(config, name) is None for name in ends):
        raise ValueError("say when to stop: max_steps, max_epochs or max_minutes")
    if config.compile and not config.accelerate:
        said = "compile is a part of accelerate: switch both on, or neither"
        raise ValueError(said)
    counts = ("max_tokens", "accumulation", "warmup_steps", "validate_every", "keep_checkpoints")
    known = TRAINING_CHOICES["precision"]
    for names, fits, said in (
        (counts, lambda x: x >= 1, "be at least 1"),
        (("checkpoint_minutes",), lambda x: x >= 0, "be at least 0"),
        (("label_smoothing", "piece_dropout"), lambda x: 0 <= x < 1, "be at least 0 and below 1"),
        ((*ends, "rate_factor", "clip_norm", "patience"), lambda x: x is None or x > 0, "be above 0"),
        (("average_decay",), lambda x: x is None or 0 < x < 1, "lie between 0 and 1"),
        (("precision",), lambda x: x in known, f"be one of {', '.join(known)}"),
    ):
        for name in names:
            if not fits(getattr(config, name)):
                found = getattr(config, name)
                raise ValueError(f"{name} must {said}, not {found!r}")


# book/59_training.ipynb#train-step
LossFunction = Callable[[Batch, float], Tensor]  # of batch and smoothing: summed loss


def train_step(
    model: Model,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Batch],
    config: TrainingConfig,
    loss_of: LossFunction | None = None,
    scaler: torch.amp.GradScaler | None = None,
    num_tokens: int | None = None,
) -> Float[Tensor, ""]:
    """One update from one or more batches, as if they were one large batch.

    Returns the loss a target token. `loss_of` is `training_loss` of the model unless
    given; `scaler` keeps gradients in the range of float16. Where several processes
    have a share of the step each, `num_tokens` counts the target tokens of all, and
    what is returned is this process's part of the loss.

    Defined in chapter 59: `train-step`.
    """
    loss_of = loss_of or partial(training_loss, model)
    scaler = scaler or torch.amp.GradScaler(enabled=False)
    device = model.target_embedding.weight.device
    num_tokens = num_tokens or max(1, sum(batch.num_tokens for batch in batches))
    total = torch.zeros((), device=device)
    for batch in batches:
        loss = loss_of(batch.to(device), config.label_smoothing) / num_tokens
        scaler.scale(loss).backward()
        total += loss.detach()
    if config.clip_norm is not None:
        scaler.unscale_(optimizer)  # clip the gradients as they are
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    return total


# book/59_training.ipynb#training-steps
def training_steps(
    model: Model,
    optimizer: torch.optim.Optimizer,
    groups: Iterable[Sequence[Batch]],
    config: TrainingConfig,
    step: int = 0,
    loss_of: LossFunction | None = None,
    scaler: torch.amp.GradScaler | None = None,
    tokens_of: Callable[[Sequence[Batch]], int | None] = lambda batches: None,
) -> Iterator[tuple[float, Tensor]]:
    """The loop: one step for each group of batches, and after it the rate and the loss.

    `step` is the number of steps before. `loss_of`, `scaler` and what `tokens_of` says
    of a group are those of `train_step`.

    Defined in chapter 59: `training-steps`.
    """
    d_model, factor = model.config.d_model, config.rate_factor
    for number, batches in enumerate(groups, start=step + 1):
        rate = learning_rate(number, d_model, config.warmup_steps, factor)
        set_learning_rate(optimizer, rate)
        tokens = tokens_of(batches)
        yield rate, train_step(model, optimizer, batches, config, loss_of, scaler, tokens)
