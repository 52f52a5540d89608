"""Everything that changes while a model trains, saved and restored to the bit."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn

from annotated.base.files import (
    InputError,
    check_listed,
    disk,
    finish,
    read_manifest,
    read_notes,
    read_tensors,
    write_together,
)
from annotated.machine.distributed import (
    from_all,
    rank,
)
from annotated.runs.checkpoint import check_finite, load_weights, weights_of
from annotated.schedule import build_optimizer
from annotated.training import Model, TrainingConfig

__all__ = ["TrainingState", "check_checkpoint", "checkpoints", "load_state"]

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]  # one of Adam's kin
OWN_OPTIONS = "The state is of another model, or was changed: resume with the options that the run began with."


@dataclass
class TrainingState:
    """Everything that changes while a model trains; what `resume` restores."""

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


def new_state(model: Model, config: TrainingConfig, optimizer: MakeOptimizer = build_optimizer) -> TrainingState:
    """Training before its first step."""
    average = None
    if config.average_decay is not None:
        average = {name: weight.clone() for name, weight in weights_of(model).items()}
    scaler = torch.amp.GradScaler(model.target_embedding.weight.device.type, enabled=config.precision == "float16")
    return TrainingState(model, optimizer(model.parameters()), average, scaler)


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


def newest_state(folder: Path) -> tuple[Path, list[str]]:
    """The file of a run's newest whole checkpoint, and what is wrong with newer ones.

    Raises InputError when there is none.
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
        return path, damaged
    path = folder / "state.safetensors"  # of a run before there were manifests
    if not path.exists():
        if damaged:
            raise InputError(damaged[0], "Copy the folder again, or start in another one.")
        raise InputError(f"{folder}: nothing to resume there: start in another folder")
    return path, []


def load_state(folder: Path, state: TrainingState, warn: Callable[[str], None] = lambda text: None) -> None:
    """Restore the newest whole checkpoint of a run; `warn` is told of a damaged one that is newer.

    Raises InputError when there is none, or when it belongs to another model or other options.
    """
    path, damaged = newest_state(folder)
    restore(path, state)
    if damaged:
        warn(f"{damaged[0]}; going on from step {state.step}, which is whole")


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
        raise InputError(
            f"{path}: not the state of a training run (its counters are missing)",
            "Take the file as the training wrote it; weights alone do not say how to go on.",
        ) from None
    load_weights(state.model, part("model."), path)
    if (state.average is None) == any(name.startswith("average.") for name in tensors):
        raise InputError(f"{path}: average_decay was changed since; resume with the same options")
    for name, parameter in state.model.named_parameters():
        moments = part(f"adam.{name}.")
        for key in ("exp_avg", "exp_avg_sq") if counters["step"] else ():
            if key not in moments or moments[key].shape != parameter.shape:
                raise InputError(
                    f"{path}: Adam's average adam.{name}.{key} is missing or of another shape", OWN_OPTIONS
                )
        state.optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in moments.items()}
    for name, tensor in (state.average or {}).items():
        if f"average.{name}" not in tensors or tensors[f"average.{name}"].shape != tensor.shape:
            raise InputError(f"{path}: average.{name} is missing or of another shape", OWN_OPTIONS)
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
        raise InputError(
            f"{path}: the state of the random numbers is missing or of another size",
            "The state was changed, or another version of PyTorch wrote it: resume with that one.",
        ) from None
    if scaler:
        state.scaler.load_state_dict(scaler)
    device = next(state.model.parameters()).device
    state.history, state.losses = history, [loss.to(device) for loss in losses]
    for name, value in zip(COUNTERS, numbers, strict=True):
        setattr(state, name, value)


@contextmanager
def weights_in_place(model: Model, weights: dict[str, Tensor]) -> Iterator[None]:
    """Let the model use other weights for a while."""
    own = {name: weight.clone() for name, weight in weights_of(model).items()}
    load_weights(model, weights, "average")
    try:
        yield
    finally:
        load_weights(model, own, "own weights")


def save_checkpoint(folder: Path, state: TrainingState, keep: int, to_average: bool = True) -> None:
    """Write `checkpoints/step-N`: weights to average, the state to resume from, and the manifest of both.

    Kept are the last `keep` weights and the last two states. Where a run is interrupted there is a state only, since
    its weights are no later than others by as much as the rest, and averages are of such. Raises InputError when a
    weight is no longer a number: then the checkpoints before stay.
    """
    tensors = {name: tensor.contiguous().cpu() for name, tensor in weights_of(state.model).items()}
    for weights in (tensors, state.average or {}):
        check_finite(weights, f"step {state.step}")
    random, losses = random_states(), [sum(parts) for parts in zip(*from_all([loss.item() for loss in state.losses]))]
    if rank():
        return  # one process writes
    name = f"step-{state.step:07d}"
    contents = {f"{name}.safetensors": save(tensors)} if state.step and to_average else {}
    write_together(
        folder / "checkpoints", contents | {f"{name}.state": state_content(state, random, losses)}, f"{name}.json"
    )
    averaged = checkpoints(folder)[-keep:]
    for number, manifest in enumerate(manifests(folder)):
        weights = manifest.with_suffix(".safetensors")
        if number >= 2 and weights not in averaged:
            disk.remove(manifest)
        if weights not in averaged:
            disk.remove(weights)
        if number >= 2:
            disk.remove(manifest.with_suffix(".state"))


def manifests(folder: Path) -> list[Path]:
    """The manifests of a run's checkpoints, newest first, after an interrupted save was finished."""
    for pending in sorted((folder / "checkpoints").glob("step-*.json.new")):
        finish(pending.parent, pending.stem)
    return sorted((folder / "checkpoints").glob("step-*.json"), reverse=True)


def checkpoints(folder: Path) -> list[Path]:
    """The weights that a run kept for averaging, oldest first."""
    return sorted((folder / "checkpoints").glob("step-*.safetensors"))


def check_checkpoint(path: Path) -> None:
    """Raise InputError when kept weights are not what was written, where a manifest knows it."""
    manifest = path.with_suffix(".json")
    if manifest.exists() and path.name in (files := read_manifest(manifest)):
        check_listed(path, files[path.name])
