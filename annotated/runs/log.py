"""What a run tells while it trains, and how much of it is done."""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from annotated.base.files import InputError, disk, write_atomically
from annotated.machine.distributed import (
    summed,
)
from annotated.runs.state import TrainingState
from annotated.training import TrainingConfig

__all__ = ["TrainingLog"]


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
            raise InputError(
                f"the loss is {mean} near step {self.state.step}: {advice}",
                "A resumed run keeps its settings. What was saved before is good.",
            )
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
                raise InputError(
                    f"{self.path}: cannot be written ({error.strerror})", "Free some space, then go on with `--resume`."
                ) from None

    def say(self, text: str) -> None:
        """A line above the progress bar; without one, for `report`."""
        if self.bar.disable:
            self.report(text)
        else:
            self.bar.write(text, file=sys.stderr)


BAR = "{desc} {percentage:3.0f}% |{bar:20}| {postfix}, {elapsed} gone, {remaining} left"


def share_done(config: TrainingConfig, state: TrainingState) -> float:
    """How much of the training is over, from 0 to 1, by whichever limit comes first."""
    shares = [0.0]
    if config.patience is not None and state.step % config.validate_every == 0:
        losses = [line["valid_loss"] for line in state.history if "valid_loss" in line]
        shares.append(float(bool(losses) and len(losses) - 1 - losses.index(min(losses)) >= config.patience))
    if config.max_steps is not None:
        shares.append(state.step / config.max_steps)
    if config.max_epochs is not None:
        shares.append(state.epoch / config.max_epochs)
    if config.max_minutes is not None:
        shares.append(state.seconds / (60 * config.max_minutes))
    return min(max(shares), 1.0)
