"""What studies share: how one begins, and where its record goes, with the command, the revision and the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from annotated.base.files import write_json
from annotated.machine.acceleration import tune_machine
from annotated.machine.devices import describe_machine
from tools import experiments
from tools.experiments import CPU


def begin() -> None:
    """One thread, and the settings of the process that training has."""
    torch.set_num_threads(1)
    tune_machine()


def keep(place: str, command: Sequence[object], content: Mapping[str, Any]) -> None:
    """Write a record to data/runs; `command` is the study with its arguments."""
    words = " ".join(map(str, ["python -m", f"studies.{command[0]}", *command[1:]]))
    write_json(experiments.RUNS / place, {"command": words} | describe_machine(CPU) | content)
