"""The work that wants a GPU, in slices: `python -m benchmarks gpu --max-minutes 8`.

A call does the first slices that are not done, for as long as it may, and the next call goes on where it stopped: units
of an experiment at the step they had reached, a measurement with the next one. A result is written when it is there,
experiments to `data/runs/NAME`, measurements to `data/runs/gpu/SLICE.json`. `--list` says how far all this is.

`--rehearse` goes through the same slices on the CPU with tiny sizes, in some minutes, and records elsewhere. It needs
no data: what it learns from is cut from the embedded corpus.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml

from annotated.base.files import InputError, read_json, write_json
from annotated.batching import Batch
from annotated.cost import seconds_of, training_flops
from annotated.machine.acceleration import check_compiler
from annotated.machine.devices import describe_machine
from annotated.model import Transformer, TransformerConfig
from annotated.search.translation import Translator
from annotated.text.grammar.splits import embedded_split
from benchmarks import decoding, training
from benchmarks.common import RECORDS, interleaved, model_folder, say, show, timed
from benchmarks.peers import TorchTransformer, marian, marian_of
from studies import real_text
from tools import experiments
from tools.experiments import load_plan, missing, plan_hash, reached, train_steps, units

PLANS = {  # in the order of what they are worth; whether weights and penalty are chosen on valid afterwards
    "multi30k": False,
    "multi30k-long": True,
    "multi30k-best-long": True,
    "multi30k-table-3": False,
    "depth-512": False,
}
AFTER = "multi30k-best-long"  # Multi30k comes first, then the measurements, then the other experiments
TRAINED = ("multi30k-long", "recipe", 1)  # the unit whose model translates, where it was trained here


@dataclass(frozen=True)
class Sizes:
    """What is measured, and how large."""

    models: dict[str, TransformerConfig] = field(
        default_factory=lambda: {"base": TransformerConfig.base(37_000), "big": TransformerConfig.big(37_000)}
    )
    tokens: int = 25_000  # a batch, each side: the paper's
    lengths: tuple[int, ...] = (16, 24, 32, 48)  # of its sentences, one batch of each
    squares: tuple[int, ...] = (2048, 4096, 8192)  # products by which the ceiling is found
    at_once: tuple[int, ...] = (1, 8, 32, 128, 512)  # sentences translated
    sentences: int = 16  # translated at least
    alphas: tuple[float, ...] = real_text.WIDER
    rounds: int = 3


TINY_MODEL = TransformerConfig(60, d_model=16, d_ff=32, num_heads=2, num_layers=1, max_length=128)
TINY = Sizes({"base": TINY_MODEL, "big": TINY_MODEL}, 80, (8, 10, 16, 20), (64, 128), (1, 4), 4, (0.0, 0.6), 1)


@dataclass(frozen=True)
class Site:
    """Where slices run, and where their results go."""

    device: torch.device
    records: Path
    sizes: Sizes
    processes: int

    def keep(self, name: str, content: dict[str, Any]) -> None:
        """Write what a slice has measured, with command, machine and versions."""
        versions = {package: importlib.metadata.version(package) for package in ("torch", "transformers")}
        about = {"command": f"python -m benchmarks gpu {name}"} | describe_machine(self.device)
        write_json(self.records / "gpu" / f"{name}.json", about | {"versions": versions} | content)


@dataclass(frozen=True)
class Slice:
    """A piece of work with a name: how far it is, "done" at last, and how to go on with it until a deadline."""

    name: str
    state: Callable[[], str]
    work: Callable[[float], None]
    minutes: float = 0.0  # it takes in one piece: with less left it waits for the next call


# experiments


def state_of(name: str) -> str:
    """How many units of an experiment are done, and how far those are that were begun."""
    plan = load_plan(name)
    if not (left := missing(name)):
        return "done"
    begun = [f"{row} {seed} at step {step} of {train_steps(plan, row)}" for row, seed in left
             if (step := reached(name, row, seed))]  # fmt: skip
    return ", ".join([f"{len(units(plan)) - len(left)} of {len(units(plan))} units", *begun])


def go_on(site: Site, name: str, deadline: float) -> None:
    """Run what is missing of an experiment."""
    left = [(name, *unit) for unit in missing(name)]
    for line in experiments.run_units(left, deadline, site.processes, site.device):
        say(f"  {line}")


def state_of_choice(name: str) -> str:
    """Whether weights and penalty of an experiment were chosen, by its present plan."""
    path = experiments.RUNS / name / "choose.json"
    return "done" if path.exists() and read_json(path)["plan"] == plan_hash(name) else "to do"


def choose(site: Site, name: str, deadline: float) -> None:
    """Choose weights and penalty on valid, and score test; what one unit has on valid is kept."""

    def in_time(work: Callable, jobs: list) -> Iterator:
        for job in jobs:
            if time.monotonic() > deadline:
                raise TimeoutError
            yield work(job)

    try:
        found = real_text.choose(name, in_time, site.device, site.sizes.alphas)
    except TimeoutError:
        return
    about = {"command": f"python -m benchmarks gpu {name}/choose", "plan": plan_hash(name)}
    write_json(experiments.RUNS / name / "choose.json", about | describe_machine(site.device) | found)


# measurements


def finished(device: torch.device) -> None:
    """Wait for what the device still has to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def ceiling(device: torch.device, squares: tuple[int, ...]) -> float:
    """FLOPs a second of the fastest products of square matrices in bfloat16."""
    best = 0.0
    for size in squares:
        a, b = (torch.randn(size, size, device=device).to(torch.bfloat16) for _ in range(2))

        def work(a=a, b=b) -> None:
            for _ in range(10):
                a @ b
            finished(device)

        best = max(best, 10 * 2 * size**3 / min(seconds_of(work) for _ in range(6)))
    return best


def full_batches(config: TransformerConfig, sizes: Sizes, device: torch.device) -> list[Batch]:
    """One batch of each length without padding, of random tokens."""
    batches = []
    for length in sizes.lengths:
        shape = (sizes.tokens // length, length)
        source, target = (torch.randint(4, config.vocab_size, shape, device=device) for _ in range(2))
        batches.append(Batch(source, target, target, target.numel()))
    return batches


def trainers(model: Transformer, device: torch.device) -> dict[str, Callable[[], Callable[[Batch], None]]]:
    """Every system's training step in bfloat16, made when it is asked for, from copies of the same weights."""
    makers: dict[str, Callable] = {"torch.nn.Transformer": lambda: TorchTransformer(model)}
    makers |= {f"Hugging Face Marian, {kind}": partial(marian_of, model, kind) for kind in ("eager", "sdpa")}

    def ours(**options: bool) -> Callable[[Batch], None]:
        own = Transformer(model.config)
        own.load_state_dict(model.state_dict())
        return training.our_step(own.to(device), torch.bfloat16, **options)

    def theirs(make: Callable, **options: bool) -> Callable[[Batch], None]:
        system = make().to(device).train()
        return training.plain_step(system, training.logits_of(system), torch.bfloat16, **options)

    found = {"annotated": ours} | {name: partial(theirs, make) for name, make in makers.items()}
    if device.type == "cuda":  # elsewhere it takes minutes and gains nothing (`data/runs/benchmark-compile`)
        with suppress(InputError):
            check_compiler(device)
            found |= {
                f"{name}, compiled": partial(make, compile=True) for name, make in found.items() if "eager" not in name
            }
    return found


def utilise(site: Site, name: str, deadline: float) -> None:
    """Training at the paper's batch: tokens a second, peak memory, and the share of the ceiling, beside the peers."""
    sizes, device = site.sizes, site.device
    config, on_gpu = sizes.models[name], device.type == "cuda"
    torch.manual_seed(0)
    model, batches = Transformer(config), full_batches(config, sizes, device)
    works, peaks = {}, {}
    for system, make in trainers(model, device).items():
        before = torch.cuda.memory_allocated(device) if on_gpu else 0
        if on_gpu:
            torch.cuda.reset_peak_memory_stats(device)
        try:
            step = make()
            for batch in batches:
                step(batch)
        except RuntimeError as error:  # no memory, or not to be compiled
            say(f"  {system}: {str(error).splitlines()[0]}")
            continue
        peaks[system] = (torch.cuda.max_memory_allocated(device) - before) / 2**20 if on_gpu else None
        works[system] = timed(training.Contestant(step, batches).turn)
    top = ceiling(device, sizes.squares)
    table = interleaved(works, sizes.rounds)
    shapes = [(*batch.source.shape, batch.target_input.shape[1]) for batch in batches]
    flops = sum(training_flops(config, *shape) for shape in shapes) / sum(batch.num_tokens for batch in batches)
    for system, row in table.items():
        row |= {"peak_mb": peaks[system], "utilisation": row["median"] * flops / top}
    show(f"{name}, {sizes.tokens:,} + {sizes.tokens:,} tokens, bfloat16", "tokens/s", table)
    say(f"  the ceiling: {top / 1e12:.1f} TFLOP/s; of it, " + ", ".join(
        f"{system} {row['utilisation']:.0%}" for system, row in table.items()
    ))  # fmt: skip
    site.keep(f"training-{name}", {
        "tokens": sizes.tokens, "lengths": sizes.lengths, "rounds": sizes.rounds, "ceiling_flops": top,
        "flops_per_target_token": flops, "table": table,
    })  # fmt: skip


def to_translate() -> tuple[str, Translator, list[str]]:
    """A model, its name, and the sources of its test split: one of Multi30k where one was trained here."""
    name, row, seed = TRAINED
    try:
        translator = real_text.load_unit(*TRAINED)
        return f"{name}/{row}-{seed}", translator, real_text.pairs_of(name, "test")[0]
    except InputError:  # neither its state nor, perhaps, the data
        folder = model_folder()
        translator = Translator.load(folder, "cpu")
        sources, _ = real_text.sides_of(translator.notes["corpus"], "test")
        return folder.name, translator, sources


def searches(translator: Translator, device: torch.device) -> dict[str, Callable[..., list[list[int]]]]:
    """Our search and `generate` on the same weights, in both precisions."""
    found: dict[str, Callable] = {}
    for precision in (torch.float32, torch.bfloat16):
        kind = str(precision).removeprefix("torch.")
        own = Transformer(translator.model.config)
        own.load_state_dict(translator.model.state_dict())
        moved = Translator(own.to(device, precision), translator.tokenizer, translator.notes)
        found[f"annotated, {kind}"] = partial(decoding.our_search, moved)
        theirs = marian(translator, "sdpa").eval().to(device, precision)
        found[f"Hugging Face generate, {kind}"] = partial(decoding.their_generate, theirs)
    return found


@torch.inference_mode()
def translate(site: Site, size: int, deadline: float) -> None:
    """A beam of 4 over `size` sentences at once: sentences a second, and how many outputs are ours in float32."""
    name, translator, texts = to_translate()
    sources = sorted(translator.tokenize(texts), key=len)
    count = max(site.sizes.sentences, 2 * size)
    chosen = sources[:: max(1, len(sources) // count)][:count]
    works, same, first = {}, {}, None
    for system, search in searches(translator, site.device).items():
        outputs = search(chosen, size)  # which warms it up as well
        first = first or outputs
        same[system] = sum(one == other for one, other in zip(first, outputs, strict=True)) / len(chosen)
        works[system] = timed(partial(decoding.translated, search, chosen, size))
    table = interleaved(works, site.sizes.rounds)
    show(f"decoding, batch {size}, beam 4", "sentences/s", table)
    site.keep(f"decoding-{size}", {
        "model": name, "sentences": len(chosen), "rounds": site.sizes.rounds, "same_outputs": same, "table": table,
    })  # fmt: skip


# all of it


def slices_of(site: Site) -> list[Slice]:
    """Everything there is to do, in the order of what it is worth."""
    found = []
    for name, chosen in PLANS.items():
        found.append(Slice(name, partial(state_of, name), partial(go_on, site, name)))
        if chosen:
            work = partial(choose, site, name)
            found.append(Slice(f"{name}/choose", partial(state_of_choice, name), work))
        if name == AFTER:
            found += measurements(site)
    return found


def measurements(site: Site) -> list[Slice]:
    """The slices that are done in one piece, with a file of their own each."""

    def state(name: str) -> str:
        return "done" if (site.records / "gpu" / f"{name}.json").exists() else "to do"

    works = {f"training-{name}": partial(utilise, site, name) for name in site.sizes.models}
    works |= {f"decoding-{size}": partial(translate, site, size) for size in site.sizes.at_once}
    return [Slice(name, partial(state, name), work, minutes=2.0) for name, work in works.items()]


@contextmanager
def real(processes: int) -> Iterator[Site]:
    """This machine's GPU, or what there is of it for `--list`, and data/runs."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    yield Site(device, RECORDS, Sizes(), processes)


@contextmanager
def rehearsed(folder: Path, device: torch.device) -> Iterator[Site]:
    """Tiny sizes, in a folder that holds its own plans, records, states and corpus."""
    corpus = folder / "pairs.tsv"
    if not corpus.exists():
        folder.mkdir(parents=True, exist_ok=True)
        lines = (f"{pair.source}\t{pair.target}\n" for pair in embedded_split("valid")[:100])
        corpus.write_text("".join(lines), encoding="utf-8")
    for name in PLANS:
        path = folder / name / "plan.yml"
        if not path.exists():
            path.parent.mkdir()
            path.write_text(yaml.safe_dump(tiny(load_plan(name), corpus)), encoding="utf-8")
    with experiments.kept_in(folder, folder / "states"):
        yield Site(device, folder, TINY, 1)


def tiny(plan: dict[str, Any], corpus: Path) -> dict[str, Any]:
    """The plan with all its rows, each with one seed, a sixteenth of the width and four steps."""

    def smaller(model: dict[str, Any]) -> dict[str, Any]:
        return {name: max(1, size // 16) if name.startswith("d_") else size for name, size in model.items()}

    steps = {"max_steps": 4, "max_tokens": 120, "warmup_steps": 2, "validate_every": 2, "checkpoint_minutes": 0.0}
    rows = [row | {"model": smaller(row.get("model", {}))} for row in plan["rows"]]
    for row in rows:
        row["training"] = {name: value for name, value in row.get("training", {}).items() if name not in steps}
    sizes = {"corpus": str(corpus), "vocab_size": 400, "seeds": [1], "splits": plan.get("splits", ["test"])}
    model = smaller(plan["model"]) | {"max_length": 128}
    left = {name: value for name, value in plan.items() if name not in ("measure", "buckets", "searches")}
    return left | sizes | {"model": model, "training": plan["training"] | steps, "rows": rows}


def work_through(slices: list[Slice], deadline: float) -> int:
    """Go on with what is not done until time is up; returns 1 when something could not be done, and says why."""
    refused, begun = 0, False
    for one in slices:
        if one.state() == "done":
            continue
        left = deadline - time.monotonic()
        if left <= 0 or (begun and left < 60 * one.minutes):
            say(f"time is up; next is {one.name}: {one.state()}")
            return refused
        begun = True
        say(f"\n{one.name}: {one.state()}")
        try:
            one.work(deadline)
        except InputError as error:
            say(f"{one.name}: {error}")
            refused = 1
            continue
        if one.state() != "done":
            say(f"time is up; next is {one.name}: {one.state()}")
            return refused
        say(f"{one.name}: done")
    say("nothing is left to do" if not refused else "nothing else is left to do")
    return refused


def main(arguments: list[str], device: torch.device = experiments.CPU) -> int:
    """Raises InputError without a GPU, unless it is a rehearsal, which runs on `device`."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("slices", nargs="*", metavar="SLICE", help="only these (default: all)")
    parser.add_argument("--max-minutes", type=float, default=8.0, help="stop after so many (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=4, help="units side by side (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="say what is done and what is next, and end")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes, on the CPU, recorded elsewhere")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where a rehearsal keeps its records")
    options = parser.parse_args(arguments)
    if options.output and not options.rehearse:
        parser.error("--output is for --rehearse; all else is recorded in data/runs")
    if options.output and options.output.resolve().is_relative_to(RECORDS):
        parser.error("--output: a rehearsal is no record, choose a folder outside data/runs")
    if not (options.rehearse or options.list or torch.cuda.is_available()):
        raise InputError("no GPU here; --rehearse goes through all of it on the CPU, with tiny sizes")
    deadline = time.monotonic() + 60 * options.max_minutes
    with ExitStack() as stack:
        if options.rehearse:
            folder = options.output or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            site = stack.enter_context(rehearsed(folder.resolve(), device))
        else:
            site = stack.enter_context(real(options.processes))
        slices = slices_of(site)
        if unknown := set(options.slices) - {one.name for one in slices}:
            parser.error(f"no slice {', '.join(sorted(unknown))}: choose from {', '.join(one.name for one in slices)}")
        slices = [one for one in slices if one.name in options.slices] or slices
        if options.list:
            for one in slices:
                say(f"{one.name:<28} {one.state()}")
            return 0
        return work_through(slices, deadline)
