"""Several processes: who is first, what all know, sums, gradients over all."""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from annotated.base.files import InputError
from annotated.batching import Batch

__all__ = [
    "Abandoned",
    "any_process",
    "data_parallel",
    "first_to_tell",
    "from_all",
    "from_first",
    "no_sync",
    "own_share",
    "processes",
    "rank",
    "summed",
    "world_size",
]


T = TypeVar("T")
PATIENCE = timedelta(hours=2)  # the first process may learn a vocabulary; a dead one is noticed at once


def rank() -> int:
    """The number of this process among those of the run; 0 when it is alone."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """How many processes the run has."""
    return dist.get_world_size() if dist.is_initialized() else 1


def own_share(items: Sequence[T]) -> Sequence[T]:
    """What this process takes of a list that all have: as cards are dealt."""
    return items[rank() :: world_size()]


def any_process(flag: bool) -> bool:
    """Whether the flag is set in any process; all of them get the same answer."""
    if world_size() == 1:
        return flag
    found = torch.tensor(int(flag))
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return bool(found)


def summed(value: float) -> float:
    """The sum over all processes."""
    if world_size() == 1:
        return value
    found = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(found)
    return found.item()


def from_all(value: T) -> list[T]:
    """The value of each process, in order, in every process."""
    if world_size() == 1:
        return [value]
    found: list[Any] = [None] * world_size()
    dist.all_gather_object(found, value)
    return found


def from_first(make: Callable[[], T]) -> T:
    """What the first process makes, in all of them. Its InputError is raised in all of them, too."""
    if world_size() == 1:
        return make()
    made: list[Any] = [None, None]  # the value, or what an error says
    if rank() == 0:
        try:
            made[0] = make()
        except InputError as error:
            made[1] = str(error), error.todo
    dist.broadcast_object_list(made, src=0)
    if made[1] is not None:
        raise InputError(*made[1])
    return made[0]


VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")  # what torchrun sets


def launched() -> tuple[int, int, int] | None:
    """This process's rank, their number, and its number on this machine; None if torchrun has not started it.

    Raises InputError when the variables that torchrun sets contradict each other.
    """
    if "RANK" not in os.environ and "WORLD_SIZE" not in os.environ:
        return None
    if missing := [name for name in VARIABLES if not os.environ.get(name)]:
        raise InputError(f"{missing[0]} is not set, though RANK or WORLD_SIZE is: start with torchrun, or unset them")
    numbers = []
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        if not os.environ[name].isdecimal():
            raise InputError(f"{name} is {os.environ[name]!r}, not a whole number: start with torchrun")
        numbers.append(int(os.environ[name]))
    if not numbers[2] <= numbers[0] < numbers[1]:
        raise InputError(
            f"RANK {numbers[0]} and LOCAL_RANK {numbers[2]} do not fit into WORLD_SIZE {numbers[1]}",
            "Start with `torchrun`, or unset them.",
        )
    return tuple(numbers)


@contextmanager
def processes() -> Iterator[None]:
    """Be one of the processes that torchrun has started, if it has; they talk by gloo, and on GPUs by NCCL."""
    if dist.is_initialized() or (place := launched()) is None or place[1] == 1:
        yield
        return
    backend = "gloo"
    if torch.cuda.is_available():
        if place[2] >= torch.cuda.device_count():
            raise InputError(
                f"LOCAL_RANK {place[2]}: this machine has {torch.cuda.device_count()} GPUs",
                "Start as many processes on each machine as it has GPUs: `--nproc-per-node`.",
            )
        torch.cuda.set_device(place[2])
        backend = "cpu:gloo,cuda:nccl"
    try:
        dist.init_process_group(backend, timeout=PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"the {place[1]} processes did not find each other: {one_line(error)}",
            "Each machine must reach the address and port that `torchrun` was given.",
        ) from None
    try:
        yield
    except RuntimeError as error:
        if not is_about_others(error):
            raise
        raise Abandoned from None
    gc.collect()  # DistributedDataParallel is in a circle: freed after its group, it may wait forever (pytorch#56297)
    dist.destroy_process_group()  # after an error they are still needed, to agree on who tells it


class Abandoned(Exception):
    """Another process of the run has ended, so that this one cannot go on."""


def is_about_others(error: RuntimeError) -> bool:
    """Whether an error comes from talking with other processes."""
    return isinstance(error, dist.DistError) or any(word in str(error) for word in ("gloo", "NCCL", "Connection"))


def one_line(error: Exception) -> str:
    """The beginning of what an error says."""
    return " ".join(str(error).split())[:200]


def first_to_tell() -> bool:
    """Whether this process is the first that has to tell why the run ends; the others then keep silent."""
    if world_size() == 1:
        return True
    try:
        return dist.distributed_c10d._get_default_store().add("annotated/told", 1) == 1
    except RuntimeError:
        return rank() == 0


class LossOf(nn.Module):
    """A model whose forward pass is the loss of a batch: what `DistributedDataParallel` wraps."""

    def __init__(self, model: nn.Module, loss_of: Callable[[Batch, float], Tensor]):
        super().__init__()
        self.model, self.loss_of = model, loss_of

    def forward(self, batch: Batch, smoothing: float) -> Tensor:
        return self.loss_of(batch, smoothing)


def data_parallel(model: nn.Module, loss_of: Callable[[Batch, float], Tensor]) -> Callable[[Batch, float], Tensor]:
    """The loss of a batch, after whose backward pass each process has the sum of all gradients.

    That is PyTorch's `DistributedDataParallel`, which adds up gradients while the backward pass goes on. It would then
    divide by the number of processes; here each loss is divided by all target tokens already, so the sum is right.
    """
    if world_size() == 1:
        return loss_of
    engine = DistributedDataParallel(LossOf(model, loss_of))
    engine.register_comm_hook(None, all_reduce_hook)
    _rehearse(engine, next(model.parameters()).device)
    return engine


def _rehearse(engine: DistributedDataParallel, device: torch.device) -> None:
    """A pass that counts for nothing. After its first one the engine packs gradients anew, as they came.

    Of three and more numbers, the sum's last bit depends on which come first, and with it on the packing. A run that
    goes on would otherwise add for one step in another way than an unbroken one.
    """
    source, target = (torch.full((2, length), 3, device=device) for length in (4, 3))
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        engine(Batch(source, target, target, num_tokens=6), 0.0).backward()
    engine.zero_grad()


def all_reduce_hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """Gradients summed over the processes, without a mean."""
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def no_sync(loss_of: Callable[[Batch, float], Tensor], last: bool) -> Any:
    """A context in which gradients stay in this process, but for the last of the batches that make a step."""
    return nullcontext() if last or not isinstance(loss_of, DistributedDataParallel) else loss_of.no_sync()
