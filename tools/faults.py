"""Faults, tried one by one (chapter 94): `python -m tools.faults points`; kill, torn, lines, cost, fuzz --minutes 30.

`points` counts the operations on files of training, saving, averaging, exporting and evaluating into a file. It then
lets each of them fail in each way that there is, and looks at what is left. `kill` ends trainings at random moments,
goes on with them, and compares the end with that of a run that was left alone. `torn` cuts and flips the files of a
manifest. `fuzz` gives damaged files to everything that reads. `lines` translates a hundred thousand hostile lines, and
then stops translating them in each way that there is. `cost` measures what saving takes. Each writes its record to
`data/runs/faults/`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save

from annotated.base.files import InputError, read_json, verify, write_atomically, write_json
from annotated.batching import make_batch
from annotated.command.cli import main as annotated
from annotated.formats.marian import load_marian, save_marian
from annotated.machine.devices import describe_machine
from annotated.model import Transformer, TransformerConfig
from annotated.runs.checkpoint import average_weights, load_model, save_model, weights_of
from annotated.runs.folder import prepare_folder, resumable
from annotated.runs.state import TrainingState, load_state, new_state, save_checkpoint
from annotated.runs.training import train
from annotated.search.translation import Translator
from annotated.text.corpora import load_corpus
from annotated.text.tokenization import Tokenizer, train_tokenizer
from annotated.training import TrainingConfig
from tools import ROOT
from tools.faulty_disk import KINDS, Crash, FaultyDisk, with_disk
from tools.processes import children

RECORDS = ROOT / "data" / "runs" / "faults"
TEXTS = [f"the dog number {i} sees a cat and der Hund sieht eine Katze" for i in range(30)]
SENTENCES = [([5, 9, 3], [11, 6, 3]), ([8, 3], [7, 7, 9, 3]), ([4, 4, 6, 3], [5, 3]), ([9, 3], [21, 6, 8, 3])]
CONFIG = TrainingConfig(
    max_steps=10, max_tokens=8, warmup_steps=4, validate_every=3, seed=3, precision="float32", checkpoint_minutes=0.0,
    average_decay=0.9,
)  # fmt: skip


class Hang(BaseException):
    """A reader takes longer than anybody would wait."""


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
        state = train(small_model(), SENTENCES, [make_batch(SENTENCES)], CONFIG, folder=folder, resume=resume)
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
        save_model(folder, small_model(len(self.tokenizer), step), self.tokenizer, step=step)

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
        save_model(folder, small_model(len(self.tokenizer)), self.tokenizer, mean, step=3)

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
        save_model(folder / "model", small_model(len(self.tokenizer)), self.tokenizer)
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
        save_model(folder, small_model(len(tokenizer)), tokenizer)
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


CASES = [  # what a killed training does, and its threads
    (["--precision", "float32"], 1),
    (["--precision", "float32", "--accumulation", "2", "--average-decay", "0.9"], 2),
    (["--precision", "bfloat16", "--average-decay", "0.9"], 1),
    (["--precision", "bfloat16", "--accumulation", "2"], 2),
]
TINY = "--vocab-size 300 --d-model 16 --d-ff 32 --num-heads 2 --num-layers 1 --max-tokens 60 --warmup-steps 10"
TINY += " --checkpoint-minutes 0 --validate-every 5 --max-steps 40"


def command(*arguments: str, threads: int, stdout: Any = subprocess.DEVNULL, stdin: Any = None) -> subprocess.Popen:
    """The command in a process of its own."""
    env = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-m", "annotated", *arguments]
    return subprocess.Popen(program, env=env, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, cwd=ROOT)


def last_state(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors of a run's last state."""
    return load_file(sorted((folder / "checkpoints").glob("*.state"))[-1])


def kill(kills: int = 50, seed: int = 0, cases: list[tuple[list[str], int]] = CASES) -> dict[str, Any]:
    """Trainings that are killed at random moments and go on, beside those that were left alone."""
    choose, found = random.Random(seed), {"kills": 0, "while saving": 0, "equal": 0, "unequal": []}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        words = [(a, b) for a in ("old", "new", "big") for b in "abcdefghijklmnopqrstuvwxyz"]
        lines = [f"the {a} {b} sees it\tdas {a} {b} sieht es" for a, b in words]
        (place / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for number, (options, threads) in enumerate(cases):
            start = ["train", "--quiet", "--corpus", str(place / "pairs.tsv"), *TINY.split(), *options, "--output"]
            whole = place / f"whole-{number}"
            begun = time.monotonic()
            alone = command(*start, str(whole), threads=threads)
            said = alone.communicate()[1].decode()
            if alone.returncode:
                raise RuntimeError(f"a run that nobody killed failed with {alone.returncode}: {said.strip()}")
            seconds = time.monotonic() - begun
            share = kills // len(cases) + (number < kills % len(cases))
            while share:
                folder = place / f"run-{number}-{share}"
                again: list[str] = []
                for _ in range(min(share, 3)):  # killed up to three times, then left alone
                    process = command(*(again or start), str(folder), threads=threads)
                    time.sleep(choose.uniform(0.3, 1.0) * seconds)
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    found["kills"] += 1
                    share -= 1
                    found["while saving"] += any(folder.rglob("*.new")) or any(folder.rglob("*.partial"))
                    if folder.exists() and resumable(folder):
                        again = ["train", "--quiet", "--resume", "--output"]
                process = command(*(again or start), str(folder), threads=threads)
                said = process.communicate()[1].decode()
                if not process.returncode and same_weights(last_state(whole), last_state(folder)):
                    found["equal"] += 1
                else:
                    found["unequal"].append([options, threads, said.strip().splitlines()[-1:]])
    return found


NUMBERS = (0, 1, -1, 2, 10**9, 10**30, 0.5, -0.0, 1e308, None, True, "", "no", [], {}, [[]], "\u202e", "\0")


def mutated_json(content: bytes, choose: random.Random) -> bytes:
    """JSON with a value changed, taken out, or put elsewhere; sometimes something deep or huge."""
    value = json.loads(content)
    places: list[tuple[Any, Any]] = []

    def walk(part: Any) -> None:
        for key in part if isinstance(part, dict) else range(len(part)):
            places.append((part, key))
            if isinstance(part[key], dict | list):
                walk(part[key])

    if isinstance(value, dict | list):
        walk(value)
    for _ in range(choose.choice((1, 1, 2, 3))):
        if not places or choose.random() < 0.03:
            return choose.choice((b"[" * 100_000, b"{}", b"[]", b"null", b"\xff", b'{"a": 1e999}'))
        part, key = choose.choice(places)
        if choose.random() < 0.2 and isinstance(part, dict):
            part.pop(key, None)
        elif isinstance(part, list) and key >= len(part):
            continue
        else:
            part[key] = choose.choice(NUMBERS)
    return json.dumps(value).encode()


def mutated_bytes(content: bytes, choose: random.Random) -> bytes:
    """Bytes cut, flipped, doubled, or with others among them."""
    kind, at = choose.randrange(5), choose.randrange(len(content) + 1)
    if kind == 0:
        return content[:at]
    if kind == 1:
        flips = bytearray(content)
        for _ in range(choose.choice((1, 3, 20)) if flips else 0):
            flips[choose.randrange(len(flips))] ^= 1 << choose.randrange(8)
        return bytes(flips)
    if kind == 2:
        return content[:at] + content[choose.randrange(len(content) + 1) :]
    if kind == 3:
        return content[:at] + choose.randbytes(choose.choice((1, 8, 300))) + content[at:]
    return content + content[:at]


def mutated_tensors(content: bytes, choose: random.Random) -> bytes:
    """A safetensors file with its header changed."""
    length = int.from_bytes(content[:8], "little")
    if choose.random() < 0.3:
        return mutated_bytes(content, choose)
    header = mutated_json(content[8 : 8 + length], choose)
    size = len(header) if choose.random() < 0.8 else choose.choice((0, 2**62, length, len(header) + 1))
    return size.to_bytes(8, "little") + header + content[8 + length :]


MUTATIONS = {".json": mutated_json, ".safetensors": mutated_tensors, ".state": mutated_tensors}


def readers(place: Path) -> dict[str, tuple[Path, list[str], Callable[[Path], Any]]]:
    """What reads files from outside: a good folder, the files that are damaged, and the reader."""
    tokenizer = train_tokenizer(TEXTS, 300)
    model = small_model(len(tokenizer))
    save_model(place / "model", model, tokenizer, search={"beam_size": 2}, corpus="embedded")
    (place / "model" / "manifest.json").unlink()
    shutil.copytree(place / "model", place / "listed")
    save_model(place / "listed", model, tokenizer)
    save_marian(Translator(model, tokenizer), place / "marian")
    shutil.rmtree(place / "imported", ignore_errors=True)
    load_marian(place / "marian", "cpu").save(place / "imported")
    (place / "imported" / "manifest.json").unlink()
    train(small_model(), SENTENCES, [make_batch(SENTENCES)], CONFIG, folder=place / "run")
    (place / "corpus").mkdir()
    (place / "corpus" / "pairs.tsv").write_text("\n".join(f"{text}\t{text}" for text in 2 * TEXTS), encoding="utf-8")

    def state_of(folder: Path) -> TrainingState:
        state = new_state(small_model(), CONFIG)
        load_state(folder, state)
        return state

    def listed(folder: Path) -> list[str]:
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

    found = {
        "model": Translator.load, "listed": Translator.load, "imported": Translator.load,
        "marian": partial(load_marian, device="cpu"), "run": state_of,
        "corpus": lambda folder: load_corpus(str(folder / "pairs.tsv")).split("train"),
    }  # fmt: skip
    return {name: (place / name, listed(place / name), read) for name, read in found.items()}


def fuzz(minutes: float = 30.0, seed: int = 0) -> dict[str, Any]:
    """Damaged files for every reader, until time is up; distinct messages and cases, crashes, hangs, peak memory."""
    choose, counts, messages, faults = random.Random(seed), Counter(), Counter(), []

    def too_long(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, too_long)
    with tempfile.TemporaryDirectory() as name:
        known = readers(Path(name))
        for folder, _, read in known.values():
            read(folder)
        idle = peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        end, most = time.monotonic() + 60 * minutes, 0.0
        while time.monotonic() < end:
            label = choose.choice(list(known))
            folder, names, read = known[label]
            path = folder / choose.choice(names)
            content = path.read_bytes()
            mutate = MUTATIONS.get(path.suffix, mutated_bytes)
            if mutate is mutated_json and choose.random() >= 0.8:
                mutate = mutated_bytes
            damaged = mutate(content, choose)
            path.write_bytes(damaged)
            signal.alarm(20)
            try:
                read(folder)
                counts[f"{label}: taken"] += 1
            except InputError as error:
                counts[f"{label}: refused"] += 1
                said = "".join(letter for letter in str(error).split(name)[-1] if letter.isalpha())
                messages[f"{label} {path.name}: {said[:60]}"] += 1
                if "\n" in str(error):
                    faults.append([label, path.name, "more than a line", str(error)[:200]])
            except BaseException as error:
                faults.append([label, path.name, repr(error)[:200], damaged[:2000].hex()])
                if isinstance(error, KeyboardInterrupt):
                    raise
            finally:
                signal.alarm(0)
                path.write_bytes(content)
            now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if now > peak:
                peak, most = now, max(most, (now - idle) / 1024)
                if (now - idle) / 1024 > 64 + 10 * len(damaged) / 2**20:
                    faults.append([label, path.name, f"{(now - idle) / 1024:.0f} MB", damaged[:2000].hex()])
    signal.signal(signal.SIGALRM, before)
    return {
        "minutes": minutes, "executions": sum(counts.values()) + len(faults), "distinct": len(messages),
        "by reader": dict(sorted(counts.items())), "faults": faults, "memory_mb": round(most, 1),
    }  # fmt: skip


ODD = [  # lines as nobody would write them; none has a line feed, which would make it two
    "", " ", "\t\t", "\r", "a\rb", "\0", "\x1b[31mred", "\ufeff", "\u2028", "one\u2028two\u2029three\x85four",
    "\x0b\x0c\x1c\x1d", "\u202eabc", "</s>", "<s> <pad> <unk>", "▁▁▁", "🐕" * 30, "e" + "\u0301" * 200, "שלום עולם",
    "你好,世界", "a" * 3000, "the " * 400, "%s %n {0} $(ls) `ls`", "-1", "--help", "\ud7ff\ue000\uffff\U0010ffff",
]  # fmt: skip


def hostile_lines(count: int, known: list[str], seed: int = 0) -> list[str]:
    """Odd lines and random ones; every tenth is a sentence whose translation is known, which tells about the order."""
    choose = random.Random(seed)
    planes = [(32, 127), (0x80, 0x24F), (0x370, 0x3FF), (0x4E00, 0x9FFF), (0x1F300, 0x1F6FF), (11, 32)]

    def line(number: int) -> str:
        if number % 10 == 0:
            return choose.choice(known)
        if number % 200 == 7:
            return choose.choice(ODD)
        low, high = choose.choice(planes)
        return "".join(chr(choose.randrange(low, high)) for _ in range(choose.randrange(8)))

    return [line(number) for number in range(count)]


def lines(count: int = 100_000, stops: int = 12, seed: int = 0) -> dict[str, Any]:
    """Hostile lines through `translate`: all of them, then stopped at random moments in three ways.

    It is well when what is out are the first lines of the whole translation, and their number is said, unless the
    reader itself went away. A command that was ended before it began has nothing out and says nothing.
    """
    known = [pair.source for pair in load_corpus("embedded").split("test")[:50]]
    texts, choose = hostile_lines(count, known, seed), random.Random(seed)
    translated = dict(zip(known, Translator.load("embedded", "cpu").translate(known, beam_size=1), strict=True))
    found: dict[str, Any] = {"lines": count, "stopped": Counter(), "places": [], "faults": []}
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name) / "source", Path(name) / "target"
        source.write_bytes("".join(f"{text}\n" for text in texts).encode())

        def begin(**pipes: Any) -> subprocess.Popen:
            arguments = ["translate", "embedded", "--beam-size", "1", "--workers", "2", "--chunk", "500"]
            with source.open("rb") as texts_in:
                return command(*arguments, threads=1, stdin=texts_in, **pipes)

        begun = time.monotonic()
        with target.open("wb") as out:
            process = begin(stdout=out)
            process.communicate()
        seconds, whole = time.monotonic() - begun, target.read_bytes().split(b"\n")[:-1]
        right = [whole[i].decode() == translated[text] for i, text in enumerate(texts) if text in translated]
        found |= {"status": process.returncode, "lines out": len(whole), "in order": f"{sum(right)} of {len(right)}"}
        for number in range(stops):
            way = ("the command", "a worker", "the reader")[number % 3]
            with target.open("wb") as out:
                process = begin(stdout=subprocess.PIPE if way == "the reader" else out)
                if way == "the reader":
                    out.write(b"".join(process.stdout.readline() for _ in range(choose.randrange(1, count // 10))))
                    process.stdout.close()
                else:
                    time.sleep(choose.uniform(0.02, 0.3) * seconds)
                    workers = children(process.pid)
                    os.kill(workers[0] if way == "a worker" and workers else process.pid, signal.SIGTERM)
                said = process.communicate()[1].decode().splitlines()
            written = target.read_bytes()
            done = written.count(b"\n")
            found["stopped"][way] += 1
            found["places"].append(done)
            last = said[-1] if said else ""
            ok = written == b"".join(line + b"\n" for line in whole[:done]) and process.returncode
            if way == "the reader":
                ok &= process.returncode == 141
            elif done or process.returncode != -signal.SIGTERM:
                ok &= last.endswith(f"stopped after line {done}")
            if not ok:
                found["faults"].append([way, done, process.returncode, last])
    return found


def cost(times: int = 5) -> dict[str, Any]:
    """Seconds that saving takes with the model of the recipe `small`, and what share of training that is.

    A checkpoint comes every `checkpoint_minutes`, a better model at most as often as there is a validation; how long
    the steps between two validations take is that of the recorded run on Multi30k.
    """
    recorded = read_json(ROOT / "data" / "runs" / "multi30k-cpu" / "run.json")
    config = TrainingConfig(**recorded["training"])
    model = Transformer(TransformerConfig(**recorded["model"]))
    state, tokenizer, batch = new_state(model, config), train_tokenizer(TEXTS, 300), make_batch(SENTENCES)
    model(batch.source, batch.target_input).sum().backward()
    state.optimizer.step()  # now there are moments
    seconds: dict[str, list[float]] = {"checkpoint": [], "model": []}
    with tempfile.TemporaryDirectory(dir=ROOT) as name:
        for number in range(times):
            state.step = number + 1
            for what, save_it in (
                ("checkpoint", partial(save_checkpoint, Path(name), state, config.keep_checkpoints)),
                ("model", partial(save_model, Path(name), model, tokenizer, state.weights())),
            ):
                begun = time.perf_counter()
                save_it()
                seconds[what].append(time.perf_counter() - begun)
        size = sum(path.stat().st_size for path in Path(name).rglob("*"))
    between = {"checkpoint": 60 * config.checkpoint_minutes}
    between["model"] = config.validate_every * recorded["wall_seconds"] / recorded["steps"]
    middle = {what: statistics.median(found) for what, found in seconds.items()}
    found = {"share": sum(middle[what] / between[what] for what in middle), "megabytes": round(size / 1e6)}
    return found | {"seconds_each": {what: round(one, 3) for what, one in middle.items()}, "seconds_between": between}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("points", "kill", "torn", "lines", "cost", "fuzz"))
    parser.add_argument("--minutes", type=float, default=30.0, help="of fuzzing (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=50, help="how often to kill (default: %(default)s)")
    options = parser.parse_args(arguments)
    work = {
        "points": points, "torn": torn, "kill": partial(kill, options.kills), "lines": lines,
        "cost": cost, "fuzz": partial(fuzz, options.minutes),
    }  # fmt: skip
    begun = time.monotonic()
    record = {"command": f"python -m tools.faults {options.what}"} | describe_machine(torch.device("cpu"))
    record |= work[options.what]()
    record["seconds"] = round(time.monotonic() - begun)
    write_json(RECORDS / f"{options.what}.json", record)
    print(json.dumps({name: value for name, value in record.items() if name != "device"}, indent=1)[:4000])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
