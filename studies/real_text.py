"""Real text (chapters 60 and 61): `python -m studies.real_text choose`, or `best RUN`, or `rulers`.

`choose` needs the states of `python -m tools.experiments multi30k`. It tries the running average of the weights, the
last weights and means of the last checkpoints, each with several length penalties, on the validation sentences with
all three seeds; what has the best mean BLEU is scored on the test sentences, once for each seed, with sacreBLEU's
bootstrap. What one unit has on valid is kept beside its state, so that it goes on where it was stopped. `best` does
the same for one run of `annotated train --recipe best`, and records it with the run. `rulers` scores the recorded
translations of the test sentences by the three rulers of chapter 91. Of Multi30k nothing is kept but scores; the
outputs in the records are those of our own sentences.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import sacrebleu
import torch

from annotated.base.files import InputError, read_json, write_json
from annotated.runs.checkpoint import average_weights, load_weights, weights_of
from annotated.runs.state import TrainingState, checkpoints, load_state, new_state
from annotated.search.translation import Translator
from annotated.text.corpora import load_corpus
from annotated.text.evaluation import bleu_by_ruler, evaluate_translations
from studies.common import begin, keep
from tools import experiments
from tools.experiments import CPU, data_of, load_plan, start, units
from tools.record import SAMPLES

ALPHAS = (0.0, 0.6, 1.0, 1.4, 1.8, 2.2, 2.6, 3.0, 3.4)
Sides = tuple[list[str], list[str]]  # sources, references
WIDER = (0.0, 0.6, 1.4, 2.2, 3.0, 3.8, 4.6, 5.4)  # for the recipe `best`, whose outputs are shorter
KINDS = ("running average", "last weights", "mean of the last 3", "mean of the last 5")
KINDS_OF_A_RUN = ("best on valid", "mean of the last 3", "mean of the last 5", "mean of the last 10")
DRAWS = 1000  # of the bootstrap
OWN = [  # in the manner of the corpus, but ours
    *SAMPLES,
    "A girl with a yellow umbrella jumps over a puddle.",
    "Two women in aprons are cutting vegetables in a small kitchen.",
    "A boy is drawing a ship on the wall of his room.",
    "A cyclist in a blue helmet rides past a row of parked cars.",
    "Four musicians are tuning their instruments on a stage.",
    "A man holding a baby looks out of the window of a train.",
    "A brown horse and a white horse are drinking from a river.",
    "People with candles are walking slowly down a dark street.",
    "A waiter carries six glasses on a tray.",
    "A mechanic lies under an old truck and repairs it.",
    "The girl is laughing at the clown who lost his shoe.",
    "A crowd is watching a man who walks on a rope between two towers.",
    "Two dogs are fighting over a stick on the beach.",
    "A young couple is dancing in front of a church.",
    "A fisherman is mending his net while his son watches him.",
    "A teacher is writing numbers on a blackboard.",
    "A baker in a white hat puts bread into an oven.",
    "Some tourists take pictures of a fountain at night.",
    "A toddler in pajamas is sleeping on a sofa next to a cat.",
]


def weights_of_kind(folder: Path, kind: str, state: TrainingState) -> dict[str, torch.Tensor]:
    """The weights of that kind, of a unit that is done."""
    if kind == "running average":
        return state.weights()
    if kind == "last weights":
        return weights_of(state.model)
    return average_weights(checkpoints(folder)[-int(kind.split()[-1]) :])


def load_unit(name: str, row: str, seed: int, kind: str = KINDS[0], device: torch.device = CPU) -> Translator:
    """The translator of a unit that is done and has its state still. Raises InputError otherwise."""
    begin()
    plan, folder = load_plan(name), experiments.WORK / name / f"{row}-{seed}"
    _, tokenizer, *_ = data_of(plan, row)
    model, config = start(plan, row, seed, tokenizer)
    state = new_state(model.to(device), config)
    load_state(folder, state)
    if state.step < config.max_steps:
        raise InputError(f"{folder}: stopped at step {state.step} of {config.max_steps}")
    load_weights(model, weights_of_kind(folder, kind, state), kind)
    return Translator(model, tokenizer)


def pairs_of(name: str, split: str) -> Sides:
    """The sources and the references of a split of the corpus of an experiment."""
    return sides_of(load_plan(name)["corpus"], split)


def sides_of(corpus: str, split: str) -> Sides:
    """The sources and the references of a split."""
    pairs = load_corpus(corpus).split(split)
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def on_valid(
    name: str, job: tuple[str, int, str], device: torch.device = CPU, alphas: Sequence[float] | None = None
) -> list[dict[str, Any]]:
    """Scores on valid with every length penalty, for a unit and a kind of weights."""
    alphas = alphas or ALPHAS
    row, seed, kind = job
    kept = experiments.WORK / name / f"{row}-{seed}" / f"valid-{kind.replace(' ', '-')}.json"
    if kept.exists() and [one["alpha"] for one in read_json(kept)] == list(alphas):
        return read_json(kept)
    about = {"row": row, "seed": seed, "weights": kind}
    found = each_penalty(load_unit(name, *job, device), pairs_of(name, "valid"), about, alphas)
    write_json(kept, found)
    return found


def each_penalty(
    translator: Translator, pairs: Sides, about: dict[str, Any], alphas: Sequence[float]
) -> list[dict[str, Any]]:
    """BLEU, chrF and the brevity penalty with each length penalty; `about` stands in each entry."""
    sources, references = pairs
    found = []
    for alpha in alphas:
        scores = evaluate_translations(translator.translate(sources, beam_size=4, length_penalty=alpha), references)
        found.append(about | {"alpha": alpha, "bleu": scores.bleu, "chrf": scores.chrf})
        found[-1]["brevity_penalty"] = scores.brevity_penalty
    print(max(found, key=lambda one: one["bleu"]), flush=True)
    return found


def on_test(name: str, alpha: float, job: tuple[str, int, str], device: torch.device = CPU) -> dict[str, Any]:
    """The scores of a unit on test."""
    about = {"row": job[0], "seed": job[1]}
    return with_intervals(load_unit(name, *job, device), pairs_of(name, "test"), alpha, about)


def with_intervals(translator: Translator, pairs: Sides, alpha: float, about: dict[str, Any]) -> dict[str, Any]:
    """BLEU and chrF with the half width of their 95% intervals; the outputs for our own sentences."""
    sources, references = pairs
    outputs = translator.translate(sources, beam_size=4, length_penalty=alpha)
    found: dict[str, Any] = about | {"sentences": len(sources)}
    for kind, metric in (("bleu", sacrebleu.BLEU()), ("chrf", sacrebleu.CHRF())):
        score = metric.corpus_score(outputs, [references], n_bootstrap=DRAWS)
        found |= {kind: score.score, f"{kind}_half_width": float(score._ci)}
        found |= {f"{kind}_signature": str(metric.get_signature())}
    found["brevity_penalty"] = evaluate_translations(outputs, references).brevity_penalty
    return found | {"own": translator.translate(OWN, beam_size=4, length_penalty=alpha)}


def choose(
    name: str, each: Callable[..., Iterable], device: torch.device = CPU, alphas: Sequence[float] | None = None
) -> dict[str, Any]:
    """The grid on valid; the kind of weights and the penalty with the best mean BLEU; the test sentences, once.

    `each` applies a function to every unit of a list, as `map` does, or several at a time.
    """
    jobs, alphas = units(load_plan(name)), alphas or ALPHAS
    valid = partial(on_valid, name, device=device, alphas=alphas)
    grid = [found for part in each(valid, [(*job, kind) for job in jobs for kind in KINDS]) for found in part]
    means: dict[tuple[str, float], float] = {}
    for kind in KINDS:
        for alpha in alphas:
            scores = [one["bleu"] for one in grid if one["weights"] == kind and one["alpha"] == alpha]
            means[kind, alpha] = mean(scores)
    kind, alpha = max(means, key=lambda one: means[one])
    tested = list(each(partial(on_test, name, alpha, device=device), [(*job, kind) for job in jobs]))
    return {"valid": grid, "chosen": {"weights": kind, "alpha": alpha}, "test": tested}


def translator_of(run: Path, kind: str) -> Translator:
    """The translator of a run with weights of `KINDS_OF_A_RUN`. Raises InputError when it has too few checkpoints."""
    translator = Translator.load(run, "cpu")
    if kind != KINDS_OF_A_RUN[0]:
        count, known = int(kind.split()[-1]), checkpoints(run)
        if len(known) < count:
            raise InputError(f"{run}: {len(known)} checkpoints there, for {kind} {count} are needed")
        load_weights(translator.model, average_weights(known[-count:]), run)
    return translator


def best(run: Path, target: Path) -> dict[str, Any]:
    """Choose weights and penalty of a run on valid, and score them on test, once; the run's description goes along."""
    about = read_json(run / "run.json")
    if not about.get("finished"):
        raise InputError(f"{run}: the run is not finished; resume it first")
    valid, grid = sides_of(about["corpus"], "valid"), []
    for kind in KINDS_OF_A_RUN:
        grid += each_penalty(translator_of(run, kind), valid, {"weights": kind}, WIDER)
    chosen = max(grid, key=lambda one: one["bleu"])
    translator = translator_of(run, chosen["weights"])
    test = with_intervals(translator, sides_of(about["corpus"], "test"), chosen["alpha"], {})
    target.mkdir(parents=True, exist_ok=True)
    for file in ("run.json", "metrics.jsonl"):
        shutil.copy(run / file, target / file)
    return {"valid": grid, "chosen": {name: chosen[name] for name in ("weights", "alpha")}, "test": test}


def rulers(target: Path) -> dict[str, Any]:
    """BLEU by three rulers of the translations of the test sentences that lie in a record."""
    _, references = sides_of("multi30k", "test")
    found = {}
    for path in sorted(target.glob("translations-*.txt")):
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) == len(references):
            found[path.stem.removeprefix("translations-")] = bleu_by_ruler(lines, references)
    return found


def main(arguments: list[str]) -> None:
    """Write the record of what is asked for. Raises InputError when a run or a state is missing."""
    match arguments:
        case ["choose"]:
            begin()
            with ProcessPoolExecutor(2) as pool:
                found = {"processes": 2} | choose("multi30k", pool.map)
            keep("multi30k/choose.json", ["real_text", "choose"], found)
        case ["best", run]:
            found = best(Path(run), experiments.RUNS / "multi30k-best")
            keep("multi30k-best/choose.json", ["real_text", *arguments], found)
        case ["rulers"]:
            found = rulers(experiments.RUNS / "multi30k-cpu")
            keep("multi30k-cpu/rulers.json", ["real_text", "rulers"], found)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
