"""Faults, tried one by one (chapter 94): `python -m tools.faults points | torn`.

`points` counts the operations on files of training, saving, averaging, exporting and evaluating into a file. It then
lets each of them fail in each way that there is, and looks at what is left. `torn` cuts and flips the files of a
manifest. Each writes its record to `data/runs/faults/`.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from annotated.base.files import InputError, read_json, verify, write_atomically, write_json
from annotated.command.cli import main as annotated
from annotated.formats.marian import load_marian, save_marian
from annotated.machine.devices import describe_machine
from annotated.model import Transformer, TransformerConfig
from annotated.runs.checkpoint import average_weights, load_model, save_model, weights_of
from annotated.runs.folder import prepare_folder, resumable
from annotated.runs.state import load_state, new_state
from annotated.runs.training import train
from annotated.search.translation import Translator
from annotated.text.tokenization import Tokenizer, train_tokenizer
from annotated.training import TrainingConfig
from tools import ROOT
from tools.faulty_disk import KINDS, Crash, FaultyDisk, with_disk

RECORDS = ROOT / "data" / "runs" / "faults"
TEXTS = [f"the dog number {i} sees a cat and der Hund sieht eine Katze" for i in range(30)]
SENTENCES = [([5, 9, 3], [11, 6, 3]), ([8, 3], [7, 7, 9, 3]), ([4, 4, 6, 3], [5, 3]), ([9, 3], [21, 6, 8, 3])]
CONFIG = TrainingConfig(
    max_steps=10, max_tokens=8, warmup_steps=4, validate_every=3, seed=3, precision="float32", checkpoint_minutes=0.0,
    average_decay=0.9,
)  # fmt: skip


def small_model(vocab_size: int = 40, shift: float = 0.0) -> Transformer:
    """The same weights each time, all larger by `shift`."""
    torch.manual_seed(0)
    sizes = {"d_model": 8, "d_ff": 16, "num_heads": 2, "num_layers": 1, "dropout": 0.1}
    model = Transformer(TransformerConfig(vocab_size, **sizes))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(shift)
    return model


def same_weights(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Whether all bits agree."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class Training:
    """A run with a checkpoint after each step; after a fault it goes on, and ends as if nothing had happened."""

    def __init__(self):
        self.unbroken = self.run(None)

    def run(self, folder: Path | None, resume: bool = False) -> dict[str, torch.Tensor]:
        state = train(small_model(), SENTENCES, SENTENCES, CONFIG, folder=folder, resume=resume)
        return {f"average.{name}": weight for name, weight in state.average.items()} | weights_of(state.model)

    def prepare(self, folder: Path) -> None:
        """Nothing is there yet."""

    def act(self, folder: Path) -> None:
        prepare_folder(folder, resume=False)
        write_json(folder / "run.json", {"command": "annotated train"})
        self.run(folder)

    def check(self, folder: Path, disk: FaultyDisk, completed: bool) -> str:
        resume = resumable(folder)
        if disk.completed is not None:
            state = new_state(small_model(), CONFIG)
            load_state(folder, state)
            if state.step < disk.completed:
                return f"the checkpoint of step {disk.completed} was complete, and only step {state.step} is left"
        prepare_folder(folder, resume)  # without a checkpoint, it may start anew
        return "" if same_weights(self.run(folder, resume), self.unbroken) else "the weights differ in the end"


class Saving:
    """A better model replaces an older one; whatever happens, one of them is there, whole, with its own notes."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.weights = {step: weights_of(small_model(len(tokenizer), step)) for step in (1, 2)}

    def save(self, folder: Path, step: int) -> None:
        save_model(small_model(len(self.tokenizer), step), folder, self.tokenizer, step=step)

    def prepare(self, folder: Path) -> None:
        self.save(folder, 1)

    def act(self, folder: Path) -> None:
        self.save(folder, 2)

    def check(self, folder: Path, disk: FaultyDisk, completed: bool) -> str:
        model, _, notes = load_model(folder)
        if not same_weights(weights_of(model), self.weights[notes["step"]]):
            return "weights and notes of different models"
        self.save(folder, 2)  # the next attempt
        return "" if load_model(folder)[2]["step"] == 2 else "the next save had no effect"


class Averaging(Saving):
    """The mean of two files of weights becomes a model."""

    def prepare(self, folder: Path) -> None:
        for step in (1, 2):
            write_atomically(folder.with_name(f"weights-{step}"), save(self.weights[step]))

    def act(self, folder: Path) -> None:
        mean = average_weights([folder.with_name(f"weights-{step}") for step in (1, 2)])
        save_model(small_model(len(self.tokenizer)), folder, self.tokenizer, mean, step=3)

    def check(self, folder: Path, disk: FaultyDisk, completed: bool) -> str:
        if completed or (folder / "manifest.json").exists():
            load_model(folder)
        self.act(folder)
        return "" if load_model(folder)[2]["step"] == 3 else "the next average had no effect"


class Exporting(Saving):
    """A model in Marian's format: it loads, or the folder is refused in one line."""

    def prepare(self, folder: Path) -> None:
        """Nothing is there yet."""

    def act(self, folder: Path) -> None:
        save_marian(Translator(small_model(len(self.tokenizer), 1), self.tokenizer), folder)

    def check(self, folder: Path, disk: FaultyDisk, completed: bool) -> str:
        try:
            load_marian(folder, "cpu")
        except InputError:
            if completed:
                return "an export that was done does not load"
        self.act(folder)
        load_marian(folder, "cpu")
        return ""


class Scoring:
    """The command writes scores and translations into files that were there: the old ones or the new ones are left."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer

    def prepare(self, folder: Path) -> None:
        save_model(small_model(len(self.tokenizer)), folder / "model", self.tokenizer)
        lines = [f"the dog {i} sees\tder Hund {i} sieht\n" for i in range(50)]
        write_atomically(folder / "pairs.tsv", "".join(lines).encode())
        for name in ("scores.json", "translations.txt"):
            write_atomically(folder / name, b'"old"\n')

    def act(self, folder: Path) -> None:
        arguments = ["evaluate", str(folder / "model"), "--corpus", str(folder / "pairs.tsv"), "--workers", "1"]
        arguments += ["--beam-size", "1", "--device", "cpu", "--json", str(folder / "scores.json")]
        said = io.StringIO()
        with redirect_stdout(io.StringIO()), redirect_stderr(said):
            status = annotated([*arguments, "--translations", str(folder / "translations.txt")])
        if status:
            raise InputError(said.getvalue())

    def check(self, folder: Path, disk: FaultyDisk, completed: bool) -> str:
        old = [(folder / name).read_bytes() == b'"old"\n' for name in ("translations.txt", "scores.json")]
        if not old[0] and (folder / "translations.txt").read_bytes().count(b"\n") != 1:
            return "the translations are neither old nor whole"
        if not old[1] and read_json(folder / "scores.json")["sentences"] != 1:
            return "the scores are neither old nor whole"
        return "the command said that it was done" if completed and any(old) else ""


def scenarios() -> dict[str, Any]:
    """What is tried, by name."""
    tokenizer = train_tokenizer(TEXTS, 300)
    return {
        "training": Training(), "saving": Saving(tokenizer), "averaging": Averaging(tokenizer),
        "exporting": Exporting(tokenizer), "scoring": Scoring(tokenizer),
    }  # fmt: skip


def try_point(scenario: Any, folder: Path, at: int, kind: str) -> tuple[str, int]:
    """What is wrong after a fault, or nothing; and how many operations there were."""
    shutil.rmtree(folder, ignore_errors=True)
    scenario.prepare(folder / "place")
    disk, completed = FaultyDisk(at, kind), False
    with with_disk(disk):
        try:
            scenario.act(folder / "place")
            completed = True
        except (InputError, Crash):
            pass
        except OSError as error:  # the command says it in one line, with the file's name if there is one
            if not error.strerror:
                return f"traceback: {error!r}", disk.count
        except Exception as error:
            return f"traceback: {error!r}", disk.count
    try:
        return scenario.check(folder / "place", disk, completed), disk.count
    except Exception as error:
        return f"lost: {error!r}", disk.count


def points(every: int = 1) -> dict[str, Any]:
    """Each scenario with each fault at each operation, or at every so many."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {"scenarios": {}, "faults": []}
    with tempfile.TemporaryDirectory() as name:
        for label, scenario in scenarios().items():
            wrong, operations = try_point(scenario, Path(name) / label, 0, "error")
            if wrong:
                raise RuntimeError(f"{label} fails without a fault: {wrong}")
            tried = 0
            for kind_number, kind in enumerate(KINDS):
                for at in range(1 + kind_number % every, operations + 1, every):
                    tried += 1
                    if wrong := try_point(scenario, Path(name) / label, at, kind)[0]:
                        found["faults"].append([label, kind, at, wrong])
            found["scenarios"][label] = {"operations": operations, "points": tried}
    found["points"] = sum(one["points"] for one in found["scenarios"].values())
    return found


def torn(places: int = 3000) -> dict[str, Any]:
    """Every file that a manifest lists, cut and flipped, at so many places in all: how many were named, and used."""
    choose, counts = random.Random(0), Counter()
    tokenizer = train_tokenizer(TEXTS, 300)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        save_model(small_model(len(tokenizer)), folder, tokenizer)
        listed = sorted(read_json(folder / "manifest.json")["files"])
        for number in range(places):
            path = folder / listed[number % len(listed)]
            content = path.read_bytes()
            if number // len(listed) % 2:
                path.write_bytes(content[: choose.randrange(len(content))])
            else:
                at = choose.randrange(len(content))
                path.write_bytes(content[:at] + bytes([content[at] ^ 1 << choose.randrange(8)]) + content[at + 1 :])
            try:
                load_model(folder)
                counts["used"] += 1
            except InputError as error:
                counts["named" if path.name in str(error) else "not named"] += 1
            path.write_bytes(content)
        verify(folder)
    return {"places": places, "files": listed, **counts}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("points", "torn"))
    what = parser.parse_args(arguments).what
    begun = time.monotonic()
    record = {"command": f"python -m tools.faults {what}"} | describe_machine(torch.device("cpu"))
    record |= {"points": points, "torn": torn}[what]()
    record["seconds"] = round(time.monotonic() - begun)
    write_json(RECORDS / f"{what}.json", record)
    print(json.dumps({name: value for name, value in record.items() if name != "device"}, indent=1)[:4000])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
