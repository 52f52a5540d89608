"""A run's folder: who may write there, and what it says of the run."""

import hashlib
import math
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from annotated.base.corpus import Corpus
from annotated.base.files import (
    MANIFEST,
    InputError,
    current,
    disk,
    finish,
    locked,
    manifest_of,
    read_json,
    write_atomically,
    write_together,
)
from annotated.batching import Example
from annotated.machine.devices import describe_machine
from annotated.machine.distributed import (
    from_first,
    rank,
    world_size,
)
from annotated.model import Transformer
from annotated.runs.checkpoint import (
    save_model,
)
from annotated.runs.log import share_done
from annotated.runs.state import TrainingState, manifests
from annotated.text.store import Store
from annotated.text.tokenization import Tokenizer
from annotated.training import TrainingConfig

__all__ = ["prepare_folder"]


def prepare_folder(folder: Path, resume: bool) -> None:
    """See that training can begin in `folder` before hours are spent. Raises InputError, saying what to do, if not.

    What a run left that ended before its first checkpoint is nothing to lose, and may be written over.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file, not a folder", "Name a folder after `--output`.")
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
        raise InputError(f"{folder}: nothing to resume there", "Check the path, or leave `resume` out.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file, not a folder", "Name a folder after `--output`.")
    with nullcontext() if rank() else locked(folder, warn):
        from_first(lambda: prepare_folder(folder, resume))
        yield read_json(folder / "run.json") if resume else {}


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
        raise InputError(
            f"corpus {corpus.name}: not the pairs, or not the vocabulary, that the run began with",
            "Put the corpus back as it was, or start in another folder.",
        )
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
        save_model(state.model, folder, tokenizer, state.weights(), **notes)


def back_on_schedule(folder: Path) -> None:
    """Before a run goes on: put back the model that the validation at its end had replaced."""
    kept = folder / SCHEDULED
    if not manifest_of(kept):
        return
    copy_model(kept, folder)
    for path in sorted(kept.iterdir(), key=lambda path: path.name != MANIFEST):  # the manifest first
        disk.remove(path)
    kept.rmdir()
