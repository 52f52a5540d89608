"""Real text (chapters 60 and 61): `python -m tools.real_text choose`, then `python -m tools.real_text beams`.

Both need the states of `python -m tools.experiments multi30k`. The first tries the running average of the weights, the
last weights and means of the last checkpoints, each with several length penalties, on the validation sentences with
all three seeds; what has the best mean BLEU is scored on the test sentences, once for each seed, with sacreBLEU's
bootstrap. What one unit has on valid is kept beside its state, so that it goes on where it was stopped.
The second searches the validation sentences with beams of many widths. Of Multi30k nothing is kept but scores; the
outputs in the records are those of our own sentences.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import sacrebleu
import torch

from annotated.acceleration import tune_machine
from annotated.checkpoint import average_weights, load_weights, weights_of
from annotated.corpora import load_corpus
from annotated.evaluation import evaluate_translations
from annotated.files import InputError, read_json, write_json
from annotated.machine import describe_machine
from annotated.training import TrainingState, checkpoints, load_state, new_state
from annotated.translation import Translator
from tools.experiments import RUNS, WORK, data_of, load_plan, start, units

ALPHAS = (0.0, 0.6, 1.0, 1.4, 1.8, 2.2, 2.6, 3.0, 3.4)
KINDS = ("running average", "last weights", "mean of the last 3", "mean of the last 5")
WIDTHS = (1, 2, 4, 8, 16, 32, 64)  # all without a penalty, up to 16 with one
DRAWS = 1000  # of the bootstrap
OWN = [  # in the manner of the corpus, but ours
    "A dog runs through the snow.",
    "Two children are playing football in a park.",
    "A woman in a red coat is waiting for the bus.",
    "Three men are sitting around a fire and singing.",
    "An old man is selling fruit at the market because his shop is closed.",
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


def load_unit(name: str, row: str, seed: int, kind: str = KINDS[0]) -> Translator:
    """The translator of a unit that is done and has its state still. Raises InputError otherwise."""
    torch.set_num_threads(1)
    tune_machine()
    plan, folder = load_plan(name), WORK / name / f"{row}-{seed}"
    _, tokenizer, *_ = data_of(plan, row)
    model, config = start(plan, row, seed, tokenizer)
    state = new_state(model, config)
    load_state(folder, state)
    if state.step < config.max_steps:
        raise InputError(f"{folder}: stopped at step {state.step} of {config.max_steps}")
    load_weights(model, weights_of_kind(folder, kind, state), kind)
    return Translator(model, tokenizer)


def pairs_of(name: str, split: str) -> tuple[list[str], list[str]]:
    """The sources and the references of a split of the corpus of an experiment."""
    pairs = load_corpus(load_plan(name)["corpus"]).split(split)
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def on_valid(name: str, job: tuple[str, int, str]) -> list[dict[str, Any]]:
    """Scores on valid with every length penalty, for a unit and a kind of weights."""
    row, seed, kind = job
    kept = WORK / name / f"{row}-{seed}" / f"valid-{kind.replace(' ', '-')}.json"
    if kept.exists() and [one["alpha"] for one in read_json(kept)] == list(ALPHAS):
        return read_json(kept)
    translator, (sources, references) = load_unit(name, *job), pairs_of(name, "valid")
    found = []
    for alpha in ALPHAS:
        outputs = translator.translate(sources, beam_size=4, length_penalty=alpha)
        scores = evaluate_translations(outputs, references)
        found.append({"row": row, "seed": seed, "weights": kind, "alpha": alpha, "bleu": scores.bleu})
        found[-1] |= {"chrf": scores.chrf, "brevity_penalty": scores.brevity_penalty}
    write_json(kept, found)
    print(*job, max(found, key=lambda one: one["bleu"]), flush=True)
    return found


def on_test(name: str, alpha: float, job: tuple[str, int, str]) -> dict[str, Any]:
    """BLEU and chrF on test with the half width of their 95% intervals; the outputs for our own sentences."""
    translator, (sources, references) = load_unit(name, *job), pairs_of(name, "test")
    outputs = translator.translate(sources, beam_size=4, length_penalty=alpha)
    found: dict[str, Any] = {"row": job[0], "seed": job[1], "sentences": len(sources)}
    for kind, metric in (("bleu", sacrebleu.BLEU()), ("chrf", sacrebleu.CHRF())):
        score = metric.corpus_score(outputs, [references], n_bootstrap=DRAWS)
        found |= {kind: score.score, f"{kind}_half_width": float(score._ci)}
        found |= {f"{kind}_signature": str(metric.get_signature())}
    found["brevity_penalty"] = evaluate_translations(outputs, references).brevity_penalty
    return found | {"own": translator.translate(OWN, beam_size=4, length_penalty=alpha)}


def choose(name: str) -> dict[str, Any]:
    """The grid on valid; the kind of weights and the penalty with the best mean BLEU; the test sentences, once."""
    jobs = units(load_plan(name))
    with ProcessPoolExecutor(2) as pool:
        grid = [
            found
            for part in pool.map(partial(on_valid, name), [(*job, kind) for job in jobs for kind in KINDS])
            for found in part
        ]
        means: dict[tuple[str, float], float] = {}
        for kind in KINDS:
            for alpha in ALPHAS:
                scores = [one["bleu"] for one in grid if one["weights"] == kind and one["alpha"] == alpha]
                means[kind, alpha] = mean(scores)
        kind, alpha = max(means, key=lambda one: means[one])
        tested = list(pool.map(partial(on_test, name, alpha), [(*job, kind) for job in jobs]))
    return {"valid": grid, "chosen": {"weights": kind, "alpha": alpha}, "test": tested}


def one_width(name: str, alpha: float, width: int) -> dict[str, Any]:
    """The search of valid with one width: scores, the ratio of lengths, the time, and each output's own score."""
    translator, (sources, references) = load_unit(name, *units(load_plan(name))[0]), pairs_of(name, "valid")
    begun = time.perf_counter()
    options = {"beam_size": width, "length_penalty": alpha, "max_tokens": max(256, 4096 // width)}
    found = [best[0] for best in translator.translate_n_best(sources, n_best=1, **options)]
    seconds, outputs = time.perf_counter() - begun, [one.text for one in found]
    score = sacrebleu.BLEU().corpus_score(outputs, [references])
    own = [best[0] for best in translator.translate_n_best(OWN, n_best=1, **options)]
    print(alpha, width, score, f"{seconds:.0f} s", flush=True)
    return {
        "alpha": alpha, "width": width, "bleu": score.score, "length_ratio": score.sys_len / score.ref_len,
        "chrf": evaluate_translations(outputs, references).chrf, "seconds": round(seconds, 1),
        "scores": [round(one.score, 4) for one in found],
        "own": [[one.text, round(one.log_probability, 3)] for one in own],
    }  # fmt: skip


def beams(name: str) -> dict[str, Any]:
    """Every width without a penalty, most with the paper's and with more; the widest first, which take longest."""
    jobs = [(alpha, width) for width in reversed(WIDTHS) for alpha in (0.0, 0.6, 1.2) if not alpha or width <= 16]
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(partial(one_width, name), *zip(*jobs, strict=True)))
    return {"searches": found, "sources": OWN}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.real_text", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("choose", "beams"))
    parser.add_argument("--name", default="multi30k", help="the experiment (default: %(default)s)")
    options = parser.parse_args(arguments)
    record = {"command": f"python -m tools.real_text {options.what}"}
    record |= describe_machine(torch.device("cpu")) | {"threads": 1, "processes": 2}
    try:
        record |= {"choose": choose, "beams": beams}[options.what](options.name)
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    write_json(RUNS / options.name / f"{options.what}.json", record)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
