"""What a training step takes: this machine's parts measured, then ten steps forecast from them and measured.

`python -m benchmarks.costs step NAME` trains one of the models for some steps and prints the seconds of the fastest,
`... together` those of adding up gradients; `torchrun` may start either.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace

import torch
import torch.distributed as dist
import torch.nn.functional as F

from annotated.batching import make_batch
from annotated.cost import seconds_of
from annotated.machine.acceleration import loss_and_surplus, tune_machine
from annotated.machine.distributed import processes, rank
from annotated.model import Transformer, TransformerConfig
from annotated.runs.forecast import Device, moved_numbers, num_calls, num_weights, step_seconds
from annotated.runs.training import train
from annotated.text.pairs import Pairs
from annotated.training import TrainingConfig
from benchmarks.common import ROOT, record, say
from tools.processes import torchrun

SIZES, MANY, STREAM = (16, 32, 64, 128, 256, 512, 1024), 2**22, 2**25  # of square matrices; numbers to add up
ROWS, LOGITS, ROUNDS, STEPS = 1000, (64, 8000), 2, 5
TURN, TURNS = 0.2, 5  # seconds
Model = tuple[int, int, int, int, int, int, int, int]
# d_model, d_ff, heads, layers, vocabulary, sentences, tokens of each, processes
CASES: dict[str, Model] = {
    "narrow": (64, 256, 4, 2, 1000, 80, 25, 1),
    "narrow, many words": (64, 128, 2, 1, 8000, 100, 20, 1),
    "two layers": (128, 512, 4, 2, 2000, 80, 25, 1),
    "four layers": (128, 256, 4, 4, 2000, 120, 25, 1),
    "many words": (128, 512, 4, 2, 16000, 40, 25, 1),
    "recipe small": (256, 1024, 4, 3, 8000, 60, 25, 1),
    "long sentences": (256, 512, 8, 2, 4000, 20, 60, 1),
    "wide": (512, 1024, 8, 1, 1000, 40, 25, 1),
    "two processes": (128, 512, 4, 2, 2000, 80, 25, 2),
    "two processes, wide": (256, 1024, 4, 2, 4000, 40, 25, 2),
}
OTHERS: dict[str, Model] = {  # what a byte takes is found from these
    "of memory, narrow": (96, 384, 4, 3, 500, 80, 25, 1),
    "of memory, wide": (320, 640, 8, 2, 500, 60, 25, 1),
}
SMALLEST: Model = (8, 16, 1, 1, 100, 1, 2, 1)  # all of it is beginning operations


def config_of(model: Model) -> TransformerConfig:
    d_model, d_ff, heads, layers, vocabulary = model[:5]
    return TransformerConfig(vocabulary, d_model=d_model, d_ff=d_ff, num_heads=heads, num_layers=layers, dropout=0.1)


def sustained(work: Callable[[], object]) -> float:
    """Seconds that `work` takes in the fastest of some turns, each as long as a step, since steps are no sprints."""
    work()
    times = max(1, round(TURN / seconds_of(work)))
    return min(seconds_of(lambda: [work() for _ in range(times)]) for _ in range(TURNS)) / times


def measured_step(model: Model, steps: int = STEPS) -> float:
    """Seconds of the fastest step of `train`, from the end of the one before, so with all that a step has."""
    *_, batch, length, number = model
    config, moments = config_of(model), []
    pairs = [([i % 90 + 4] * (length - 1) + [3],) * 2 for i in range(batch * number * (steps + 4))]
    settings = TrainingConfig(
        max_steps=steps + 2, max_tokens=batch * length, accumulation=number, precision="float32", validate_every=10**9
    )

    def note() -> bool:
        moments.append(time.perf_counter())
        return False

    train(Transformer(config), Pairs.of(pairs), [make_batch(pairs[:1])], settings, stop=note)
    return min(after - before for before, after in itertools.pairwise(moments[1:]))


def product_speed_of(size: int) -> float:
    """FLOPs a second of the three products of a square linear layer, forward and back."""
    x, weight = torch.randn(ROWS, size, requires_grad=True), torch.randn(size, size, requires_grad=True)
    grad = torch.randn(ROWS, size)
    seconds = sustained(lambda: torch.autograd.grad(F.linear(x, weight), (x, weight), grad))
    return 6 * ROWS * size * size / seconds


def cache_speed() -> float:
    """Bytes a second of the loss of one block of logits, each of which is moved 17 times."""
    scores, targets = torch.randn(LOGITS), torch.randint(LOGITS[1], (LOGITS[0], 1))
    return 17 * scores.nbytes / sustained(lambda: loss_and_surplus(scores.clone(), targets, 0.1))


def stream_speed() -> float:
    """Bytes a second of adding numbers to numbers, of which there are more than any cache holds."""
    numbers, others = torch.zeros(STREAM), torch.zeros(STREAM)
    return 3 * numbers.nbytes / sustained(lambda: numbers.add_(others))


def batch_seconds() -> float:
    """Seconds to make a batch, a target token."""
    pairs = Pairs.of([([i % 90 + 4] * 24 + [3],) * 2 for i in range(4000)])
    plan = pairs.plan(2000, seed=1)
    return sustained(lambda: [pairs.batch(chosen) for chosen in plan]) / 100_000


def all_reduce_seconds(numbers: int) -> float:
    """Seconds of adding up so many numbers over all processes, the fastest of some turns."""
    gradients = torch.zeros(numbers)
    return min(seconds_of(lambda: dist.all_reduce(gradients)) for _ in range(20))


SHARED: dict[str, Callable[[], float]] = {  # speeds of which a process keeps a share beside others
    "products": lambda: product_speed_of(256),
    "cache": cache_speed,
    "memory": stream_speed,
}


def together() -> dict[str, float]:
    """Seconds of adding up one number and four million, and the speeds when all processes do the same."""
    found = {"one": all_reduce_seconds(1), "many": all_reduce_seconds(MANY)}
    for name, speed in SHARED.items():
        dist.barrier()
        found[name] = speed()
    return found


def in_processes(number: int, *arguments: str) -> dict | float:
    """What `python -m benchmarks.costs` prints when torchrun starts it, one thread a process."""
    done = subprocess.run(
        [*torchrun(number), "-m", "benchmarks.costs", *arguments],
        cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def device_of(found: dict, memory: float = math.inf) -> Device:
    """The machine as the forecast wants it; `memory` is found from what the other parts leave of a step."""
    both = found["together"]
    link, latency = 4 * MANY / (both["many"] - both["one"]), both["one"] / 2  # each sends half the bytes, twice
    call = found["smallest"] / num_calls(config_of(SMALLEST), 1, 2)
    return Device(found["products"], memory, found["alone"]["cache"], call, link, latency, found["batch"])


def crowded(device: Device, shares: dict[str, float]) -> Device:
    """The machine for one of several processes, which keeps these shares of its speeds."""
    products = {size: shares["products"] * speed for size, speed in device.products.items()}
    memory, cache = shares["memory"] * device.memory, shares["cache"] * device.cache
    return replace(device, products=products, memory=memory, cache=cache)


def forecast(model: Model, device: Device) -> dict[str, float]:
    *_, batch, length, number = model
    return step_seconds(config_of(model), device, batch, length, length, devices=number)


def memory_speed(found: dict) -> float:
    """Bytes a second: those of both other models by the seconds that all but memory leaves of their steps."""
    device, moved, left = device_of(found), 0, 0.0
    for name, model in OTHERS.items():
        *_, batch, length, _ = model
        config = config_of(model)
        moved += 4 * (moved_numbers(config, batch, length, length) + 8 * num_weights(config))
        moved += 4 * 15 * config.vocab_size * config.d_model
        left += found["others"][name] - sum(forecast(model, device).values())
    return moved / left


def measured() -> tuple[dict, dict[str, float]]:
    """Parts and cases in turn, some rounds; of each the fastest."""
    found: dict = {"products": dict.fromkeys(SIZES, 0.0), "others": dict.fromkeys(OTHERS, math.inf)}
    found |= {"smallest": math.inf, "batch": math.inf, "together": {}, "alone": dict.fromkeys(SHARED, 0.0)}
    steps = dict.fromkeys(CASES, math.inf)
    for _ in range(ROUNDS):
        for size in SIZES:
            found["products"][size] = max(found["products"][size], product_speed_of(size))
        for name, speed in SHARED.items():
            found["alone"][name] = max(found["alone"][name], speed())
        found["batch"] = min(found["batch"], batch_seconds())
        found["smallest"] = min(found["smallest"], measured_step(SMALLEST, 50))
        for name, model in OTHERS.items():
            found["others"][name] = min(found["others"][name], measured_step(model))
        for name, value in in_processes(2, "together").items():
            best = max if name in SHARED else min
            found["together"][name] = best(value, found["together"].get(name, value))
        for name, model in CASES.items():
            seconds = measured_step(model) if model[-1] == 1 else in_processes(model[-1], "step", name)
            steps[name] = min(steps[name], seconds)
    return found, steps


def run() -> None:
    """The parts, and the ten cases forecast and measured; printed and recorded."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found, steps = measured()
    device = device_of(found, memory_speed(found))
    shares = {name: found["together"][name] / found["alone"][name] for name in SHARED}
    cases, several = {}, crowded(device, shares)
    for name, model in CASES.items():
        parts = forecast(model, device if model[-1] == 1 else several)
        cases[name] = {"model": model, "parts": parts, "forecast": sum(parts.values()), "measured": steps[name]}
        say(f"{name:20} {1e3 * cases[name]['forecast']:6.0f} ms forecast, {1e3 * steps[name]:6.0f} ms measured")
    say(f"{asdict(device)}, beside another process {shares}")
    columns = ["d_model", "d_ff", "heads", "layers", "vocabulary", "sentences", "tokens", "processes"]
    record(
        "benchmark-costs",
        {"columns": columns, "found": found, "machine": asdict(device), "shares": shares, "cases": cases},
    )


if __name__ == "__main__":
    tune_machine()
    with processes():
        answer = together() if sys.argv[1] == "together" else measured_step(CASES[sys.argv[2]])
        if not rank():
            print(json.dumps(answer))
