"""A model copied, exported and compiled by anybody, in a process of its own: `python -m tests.other_hands`.

`torch.compile` and `torch.export` cannot look into functions whose shapes are checked while they run. In several
processes it puts the model into anybody's DDP. test_model.py and test_distributed.py ask for it.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import distributed
from torch.export import Dim
from torch.func import functional_call
from torch.nn.parallel import DistributedDataParallel

from annotated.machine.distributed import processes
from annotated.model import Transformer
from tests.models import SMALL, randomised, tokens

LENGTHS = ((5, 9), (100, 90), (150, 140), (200, 31))  # on both sides of the 128 that sinusoids have a table for


def copied(model: Transformer, *_: torch.Tensor) -> Callable:
    return copy.deepcopy(model)


def called_functionally(model: Transformer, *_: torch.Tensor) -> Callable:
    return lambda *given: functional_call(model, dict(model.named_parameters()), given)


def exported(model: Transformer, *example: torch.Tensor) -> Callable:
    any_length = {0: Dim.AUTO, 1: Dim.AUTO}
    return torch.export.export(model, example, dynamic_shapes=(any_length, any_length)).module()


def compiled(model: Transformer, *_: torch.Tensor) -> Callable:
    torch.compiler.reset()
    return torch.compile(model, backend="eager", dynamic=True, fullgraph=True)


def differences(made: Callable) -> Iterator[float]:
    """How far the logits of what is made from one example are from the model's, for examples of all lengths."""
    model = randomised(replace(SMALL, num_layers=1))
    given = [(tokens(2, length, 1), tokens(2, target, 2)) for length, target in LENGTHS]
    for source, _ in given:
        source[0, source.shape[1] // 2 :] = 0
    for example in (given[0], given[-1]):
        other = made(model, *example)
        for source, target in given:
            yield (other(source, target) - model(source, target)).abs().max().item()


def by_several_processes() -> float:
    """How far gradients by anybody's DDP are from their mean without it, each process with sentences of its length."""
    model = randomised(SMALL)
    other = DistributedDataParallel(copy.deepcopy(model))
    lengths = [150, 100] if distributed.get_rank() else [100, 150]
    for length in lengths:  # buffers are sent round before each forward pass
        mine = tokens(2, length, distributed.get_rank()), tokens(2, length, 9)
        for one in (model, other):
            one(*mine).square().mean().backward()
    furthest = 0.0
    for parameter, found in zip(model.parameters(), other.parameters(), strict=True):
        distributed.all_reduce(parameter.grad)
        furthest = max(furthest, (found.grad - parameter.grad / distributed.get_world_size()).abs().max().item())
    return furthest


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "WORLD_SIZE" in os.environ:
        with processes():
            print(f"{by_several_processes()}\n", end="", flush=True)  # in one piece, as others write into the same file
        sys.exit()
    with torch.no_grad():
        ways = (copied, called_functionally, exported, compiled)
        print(json.dumps({made.__name__: list(differences(made)) for made in ways}))
