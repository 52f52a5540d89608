# Written by `make export` from book/59_training.ipynb: do not edit here, edit the chapter.
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

    That is section 3.1's mask and shift. `precision` is that of the products, by
    PyTorch's autocast.

    Defined in chapter 59: `training-loss`.
    """
    with torch.autocast(batch.source.device.type, precision, enabled=precision != torch.float32):
        logits = model(batch.source, batch.target_input)
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
    was_training = model.training
    model.eval()
    device = model.target_embedding.weight.device
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
    return total_loss(model, batches, loss_of) / sum(batch.num_tokens for batch in batches)


# book/59_training.ipynb#training-config
# What a model computes in, by torch's names:
PRECISIONS = ("float32", "bfloat16", "float16")
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

    def __post_init__(self):
        limits = ("max_steps", "max_epochs", "max_minutes")
        if all(getattr(self, name) is None for name in limits):
            raise ValueError("say when to stop: max_steps, max_epochs or max_minutes")
        for name in (
            "max_tokens",
            "accumulation",
            "warmup_steps",
            "validate_every",
            "keep_checkpoints",
        ):
            if getattr(self, name) < 1:
                found = getattr(self, name)
                raise ValueError(f"{name} must be at least 1, not {found}")
        for name in (*limits, "rate_factor", "clip_norm"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        if not self.checkpoint_minutes >= 0:
            raise ValueError(f"checkpoint_minutes must be at least 0, not {self.checkpoint_minutes}")
        for name in ("label_smoothing", "piece_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}")
        if self.compile and not self.accelerate:
            said = "compile is a part of accelerate: switch both on, or neither"
            raise ValueError(said)
        if self.average_decay is not None and not 0 < self.average_decay < 1:
            raise ValueError(f"average_decay must lie between 0 and 1, not {self.average_decay}")
        for name, known in TRAINING_CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")

    def beyond_the_paper(self, model: TransformerConfig | None = None) -> dict:
        """The options in use that are not the paper's; with `model`, its pre-norm."""
        options = {
            "rate_factor": 1.0,
            "clip_norm": None,
            "average_decay": None,
            "piece_dropout": 0.0,
        }
        used = {name: getattr(self, name) for name, off in options.items() if getattr(self, name) != off}
        return used | ({"norm_first": True} if model is not None and model.norm_first else {})


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
        scaler.unscale_(optimizer)
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
