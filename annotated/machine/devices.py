"""The device and the precision that are used, and what a run notes of its machine."""

import multiprocessing
import os
import platform
import signal
import subprocess
import threading
from pathlib import Path

import torch

from annotated.base.files import InputError
from annotated.training import PRECISIONS

__all__ = ["best_device", "choose_precision", "describe_machine", "prepare_worker", "processor"]


def processor() -> dict[str, str]:
    """What Linux says of the first processor: `model name`, `vendor_id`, `flags`, ...; nothing on other systems."""
    try:
        first = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def matrix_instructions() -> list[str]:
    """The instructions of this processor that products of matrices use, as far as the system names them."""
    about = processor()
    flags = f"{about.get('flags', '')} {about.get('Features', '')}".split()  # x86, ARM
    return [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "bf16") if flag in flags]


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """The precision of that name; "auto" is one of 16 bits where the device has instructions for it, else float32.

    Raises ValueError for another name, and for 16 bits on Apple's GPUs, which train in float32 here.
    """
    if name != "auto" and name not in PRECISIONS:
        raise InputError(
            f"precision must be auto or one of {', '.join(PRECISIONS)}, not {name!r}", "`auto` is right for most."
        )
    if name not in ("auto", "float32") and device.type == "mps":
        raise InputError(f"precision {name} is not for the device mps: choose float32")
    if name != "auto":
        return getattr(torch, name)
    if device.type == "cuda":
        generation = torch.cuda.get_device_capability(device)[0]
        return torch.bfloat16 if generation >= 8 else torch.float16 if generation == 7 else torch.float32
    native = device.type == "cpu" and {"avx512_bf16", "amx_bf16", "bf16"} & set(matrix_instructions())
    return torch.bfloat16 if native else torch.float32


def best_device(name: str = "auto") -> torch.device:
    """The device of that name; "auto" is a GPU when there is one. Raises ValueError when it cannot be used."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device {name!r} cannot be used: {str(error).splitlines()[0]}",
            "Leave `--device` out: a GPU is found where there is one.",
        ) from None
    if device.type == "meta":
        raise InputError(f"device {name!r} cannot be used: it holds shapes and no numbers", "Leave `--device` out.")
    return device


def prepare_worker() -> None:
    """Make a new process a worker: one thread, Ctrl-C left to the process that started it, and no life without it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", None)):
        if number is not None:
            signal.signal(number, signal.SIG_DFL)
    threading.Thread(target=end_with_parent, daemon=True).start()
    torch.set_num_threads(1)


def end_with_parent() -> None:
    """Wait in a worker until the process that started it is gone, however it went, and go as well."""
    multiprocessing.parent_process().join()
    os._exit(1)


def describe_machine(device: torch.device) -> dict:
    """What a recorded run must say about where it ran."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name()
    return {
        "device": f"{device.type}: {name}",
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "revision": code_revision(),
    }


def processor_name() -> str:
    """The processor's name, and the matrix instructions it has, as far as the system tells."""
    name = processor().get("model name") or platform.processor() or platform.machine()
    known = ", ".join(matrix_instructions())
    return f"{name} ({known})" if known else name


def code_revision() -> str:
    """The commit the package runs from, with a plus sign when files differ from it; "unknown" outside a repository."""
    here = Path(__file__).parents[1]  # the whole package

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, text=True).stdout.strip()

    try:
        revision = git("rev-parse", "HEAD")
        return (revision + ("+" if git("status", "--porcelain", "--", str(here)) else "")) or "unknown"
    except OSError:
        return "unknown"
