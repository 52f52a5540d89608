"""Every study of `studies/` runs at its smallest size, and its record has what the book reads in the real one."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from types import ModuleType, SimpleNamespace
from zlib import crc32

import pytest
import torch
import yaml

from annotated.base.corpus import Corpus, SentencePair
from annotated.base.files import read_json
from annotated.command.cli import main as annotated
from annotated.decoding import Hypothesis
from annotated.interventions import silenced
from annotated.model import TransformerConfig
from annotated.parsing import linearise, read_tree
from annotated.runs.checkpoint import average_weights, weights_of
from annotated.runs.examples import tokenize_pairs
from annotated.runs.state import checkpoints
from annotated.search.translation import Translator
from annotated.text.grammar.splits import SPLITS, embedded_split
from annotated.text.tokenization import load_tokenizer
from studies import breaking, heads, length, parity, real_text, recurrent, sentence, warm_up
from tests.models import randomised
from tools import ROOT, experiments
from tools.case import Pronouns

RECORDS = ROOT / "data" / "runs"


def few(name: str) -> list[SentencePair]:
    return embedded_split("valid" if name == "train" else name)[:12]


def corpus_of(name: str, *_: object) -> Corpus:
    return Corpus(name, "en", "de", {split: partial(few, split) for split in SPLITS})


def shrink(monkeypatch: pytest.MonkeyPatch, module: ModuleType, **sizes: object) -> None:
    for name, size in sizes.items():
        monkeypatch.setattr(module, name, size)


def plan(folder: Path, name: str, **more: object) -> None:
    """The plan of an experiment with one tiny unit."""
    asked = {
        "corpus": "embedded", "vocab_size": 350, "seeds": [1], "rows": [{"id": "base"}], "splits": ["valid"],
        "model": {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1, "dropout": 0.1, "max_length": 512},
        "training": {"max_steps": 6, "max_tokens": 800, "precision": "float32", "checkpoint_minutes": 0.0},
    }  # fmt: skip
    (folder / name).mkdir()
    (folder / name / "plan.yml").write_text(yaml.safe_dump(asked | more), encoding="utf-8")


def run_breaking(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two runs of a narrow model; the first is taken from the record when the second is made."""
    tiny = [({"task": "digits", "width": 8, "steps": 50}, [["mask"]])]
    shrink(monkeypatch, breaking, EXPERIMENTS=tiny, SEEDS=(1,))
    for count in (1, 2):
        breaking.main([], count)
    one, other = read_json(folder / "breaking" / "runs.json")["runs"]
    assert {"map", "ahead"} <= one.keys()
    assert (one["fault"], other["fault"]) == (None, "mask one place too wide")
    return "breaking/runs"


def run_heads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The extra cost of a pair is that of both less the two."""
    chosen = [("encoder", 1, 0), ("encoder", 1, 3), ("cross", 1, 2)]
    shrink(monkeypatch, heads, RULES_ON=8, embedded_split=few, all_heads=lambda _: chosen)
    heads.main(["means"])
    assert read_json(folder / "heads" / "means.json").keys() == read_json(RECORDS / "heads" / "means.json").keys()
    heads.main([], 12)
    found = read_json(folder / "heads" / "shipped.json")
    for shares in (found["silenced"][name] for name in ("zero", "mean")):
        untouched, alone = found["silenced"]["untouched"][0][0], [row[0][0] for row in shares["alone"]]
        for one, other, both, _, extra, _ in shares["pairs"]:
            cost = (untouched - both[0]) - (untouched - alone[one]) - (untouched - alone[other])
            assert extra[0] == pytest.approx(cost, abs=1e-4)
    assert found["rules"]["beside"]["article's noun, word before"] == 0 < found["rules"]["answers"]["noun's verb"]
    return "heads/shipped"


def run_length(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Through the runner, which hands its unit to the study that the plan's word names."""
    monkeypatch.setattr(experiments, "corpus_of", corpus_of)
    plan(folder, "length", max_words=9, buckets=[[4, 9], [10, 19]], sentences=3)
    experiments.run_unit("length", "base", 1, float("inf"))
    scores = read_json(folder / "length" / "base-1.json")["scores"]
    assert [row["sentences"] for row in scores.values()] == [3, 3]
    return "length/base-1"


def run_parity(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What tests/test_marian.py compares is made up here; what is recorded already is not compared again."""
    made_up = parity.Result(parity.GRID[0].name, 4)
    counts = {"sentences": 12, "transformers": 12, "ctranslate2": 12}
    shrink(monkeypatch, parity, GRID=parity.GRID[:1], compare=lambda *_: made_up, way_back=lambda *_: counts)
    shrink(monkeypatch, parity, SENTENCES=2, load_corpus=corpus_of)
    parity.main([str(ROOT / "data" / "models" / "embedded")])
    found, wanted = (read_json(runs / "marian-parity" / "way-back-embedded.json") for runs in (folder, RECORDS))
    assert found.keys() == wanted.keys()
    assert all(row["same"] == 2 for row in found["engine"] if row["beam_size"] == 1)
    parity.main([])
    shrink(monkeypatch, parity, compare=None)
    parity.main([])
    return "marian-parity/results"


def run_parsing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A parser that has learned nothing: by the rules it writes trees all the same."""
    as_trees = {
        split: lambda split=split: [replace(pair, target=linearise(read_tree(pair.tree))) for pair in few(split)]
        for split in SPLITS
    }
    monkeypatch.setattr(experiments, "corpus_of", lambda *_: Corpus("parsing", "en", "parsing", as_trees))
    searches = [{"split": "test", "beam": 1}, {"split": "test", "beam": 1, "rules": True}]
    rows, shipped = [{"id": "parsing", "corpus": "parsing"}], {"parsing-1": "data/models/parser"}
    plan(folder, "tasks", copied=False, searches=searches, sentences=2, ship=shipped, rows=rows)
    experiments.run_unit("tasks", "parsing", 1, float("inf"))
    scores, wanted = (read_json(runs / "tasks" / "parsing-1.json")["scores"] for runs in (folder, RECORDS))
    assert {name: row.keys() for name, row in scores.items()} == {name: wanted[name].keys() for name in scores}
    assert (scores["test-1"]["malformed"], scores["test-1-rules"]["malformed"]) == (2, 0)
    assert len((folder / "tasks" / "parsing-1-test-1-rules.txt").read_text(encoding="utf-8").splitlines()) == 2
    assert Translator.load(folder / "states" / "tasks" / "parsing-1" / "model", "cpu").search["beam_size"] == 21
    return "tasks/parsing-1"


def run_real_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a unit has on valid is kept, and its weights are of the kind that is named."""
    monkeypatch.setattr(experiments, "corpus_of", corpus_of)
    here = nullcontext(SimpleNamespace(map=map))
    shrink(monkeypatch, real_text, load_corpus=corpus_of, ProcessPoolExecutor=lambda _: here, OWN=["A dog runs."])
    shrink(
        monkeypatch,
        real_text,
        ALPHAS=(0.0, 1.0),
        WIDER=(0.6,),
        with_intervals=lambda *_: {},
        KINDS_OF_A_RUN=real_text.KINDS_OF_A_RUN[:2],
    )
    plan(folder, "multi30k", corpus="multi30k")
    experiments.run_unit("multi30k", "base", 1, float("inf"))
    real_text.main(["choose"])
    unit, last = folder / "states" / "multi30k" / "base-1", "mean of the last 3"
    found = weights_of(real_text.load_unit("multi30k", "base", 1, last).model)
    wanted = average_weights(checkpoints(unit)[-3:])
    assert all(torch.allclose(found[name], tensor, atol=1e-6) for name, tensor in wanted.items())
    with monkeypatch.context() as patched:
        patched.delattr(real_text, "load_unit")
        grid = read_json(folder / "multi30k" / "choose.json")["valid"]
        assert real_text.on_valid("multi30k", ("base", 1, last)) == [row for row in grid if row["weights"] == last]
    run = folder / "run"
    sizes = "--d-model 16 --d-ff 32 --num-heads 2 --num-layers 1 --vocab-size 350 --max-tokens 400 --quiet --device cpu"
    sizes += " --max-steps 4 --checkpoint-minutes 0 --keep-checkpoints 4"
    (folder / "pairs.tsv").write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in few("valid") * 8), "utf-8")
    assert annotated(["train", "--corpus", str(folder / "pairs.tsv"), "--output", str(run), *sizes.split()]) == 0
    real_text.main(["best", str(run)])
    both = (read_json(runs / "multi30k-best" / "choose.json") for runs in (folder, RECORDS))
    assert len({frozenset(record) for record in both}) == 1
    assert read_json(folder / "multi30k-best" / "run.json") == read_json(run / "run.json")
    (folder / "multi30k-cpu").mkdir()
    lines = "".join(f"{pair.target}\n" for pair in few("test"))
    (folder / "multi30k-cpu" / "translations-greedy.txt").write_text(lines, "utf-8")
    real_text.main(["rulers"])
    scores, wanted = (read_json(runs / "multi30k-cpu" / "rulers.json")["greedy"] for runs in (folder, RECORDS))
    assert scores.keys() == wanted.keys()
    return "multi30k/choose"


def run_recurrent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two rates, tried for a step each; a training that is finished is not done again."""
    shrink(monkeypatch, recurrent, RATES=(0.5, 1.0), PARTNER_RATES=(0.5,), TRIAL_STEPS=1, STEPS=2, TIMED=1, ROUNDS=1)
    shrink(monkeypatch, recurrent, CORPUS=corpus_of("embedded"), SPLITS=("test",))
    recurrent.main([], folder / "kept")
    first = read_json(folder / "recurrent" / "results.json")
    recurrent.main([], folder / "kept")
    found = read_json(folder / "recurrent" / "results.json")
    assert all(found[name] == first[name] for name in ("trials", "partner_trials", "run"))
    assert found["run"].keys() == read_json(RECORDS / "recurrent" / "results.json")["run"].keys()
    assert (found["run"]["steps"], found["trials"][0]["steps"]) == (2, 1)
    best = min(found["trials"], key=lambda trial: trial["best_valid_loss"])
    assert found["run"]["rate_factor"] == best["rate_factor"]
    return "recurrent/results"


def run_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The first step of the book's model, with a few sentences."""
    shrink(monkeypatch, sentence, load_corpus=corpus_of)
    sentence.main(["1"])
    found = read_json(folder / "sentence" / "steps.json")
    (line,) = found["lines"]
    assert line["step"] == 1
    assert 0 <= line["right"] < 0.1
    assert len(line["written"]) == len(found["sentences"]) == 2
    return "sentence/steps"


def run_warm_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Without the climb the first step is a longer one, from the same weights."""
    here = nullcontext(SimpleNamespace(submit=lambda work, *known: SimpleNamespace(result=partial(work, *known))))
    shrink(monkeypatch, warm_up, load_corpus=corpus_of, ProcessPoolExecutor=lambda _: here, RUNS=warm_up.RUNS[:4:3])
    warm_up.main(["20"])
    climbs, peak = read_json(folder / "sentence" / "warm-up.json")["runs"]
    assert (climbs["climbs"], peak["climbs"]) == (True, False)
    assert climbs["loss"].keys() == peak["loss"].keys() == {"10", "20"}
    assert peak["loss"]["10"] < climbs["loss"]["10"]
    warm_up.main(["alike", "2"])
    climbs, peak = read_json(folder / "sentence" / "alike.json")["runs"]
    assert climbs["alike"]["0"] == peak["alike"]["0"]
    assert climbs["alike"]["1"]["vectors"] < peak["alike"]["1"]["vectors"] <= 1
    return "sentence/warm-up"


RUN: list[Callable[[Path, pytest.MonkeyPatch], str]] = [
    run_breaking, run_heads, run_length, run_parity, run_parsing, run_real_text, run_recurrent, run_sentence,
    run_warm_up,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("run", RUN)
def test_a_study_runs_at_its_smallest_size(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    with experiments.kept_in(tmp_path, tmp_path / "states"):
        name = run(tmp_path, monkeypatch)
    record = read_json(tmp_path / f"{name}.json")
    assert record["command"].startswith(("python -m studies.", "python -m tools.experiments "))
    recorded = RECORDS / f"{name}.json"
    if recorded.exists():  # else it waits for its first run
        assert record.keys() == read_json(recorded).keys()


@pytest.mark.parametrize("study", [breaking, heads, parity, real_text, recurrent, sentence, warm_up])
def test_what_is_not_known_starts_nothing(study, tmp_path: Path):
    """A study takes an hour, and would write over its record."""
    with experiments.kept_in(tmp_path, tmp_path), pytest.raises(SystemExit):
        study.main(["--help"])


def test_the_best_mean_on_valid_is_scored_on_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """By made-up scores; each seed once."""

    def on_valid(name: str, job: tuple, alphas: tuple[float, ...], **_: object) -> list[dict]:
        rows = [{"weights": job[2], "alpha": alpha} for alpha in alphas]
        return [row | {"bleu": crc32(repr((job, row)).encode())} for row in rows]

    shrink(monkeypatch, real_text, on_valid=on_valid, on_test=lambda *given, **_: list(given))
    plan(tmp_path, "made-up", seeds=[1, 2])
    with experiments.kept_in(tmp_path, tmp_path):
        found = real_text.choose("made-up", map, alphas=(0.0, 1.0))
    settings = {(row["weights"], row["alpha"]) for row in found["valid"]}
    scores = {
        one: mean(row["bleu"] for row in found["valid"] if one == (row["weights"], row["alpha"])) for one in settings
    }
    weights, alpha = max(scores, key=lambda one: scores[one])
    assert len(scores) == 2 * len(real_text.KINDS)
    assert found["chosen"] == {"weights": weights, "alpha": alpha}
    assert found["test"] == [["made-up", alpha, ("base", seed, weights)] for seed in (1, 2)]


def test_scores_on_test_are_numbers_that_json_has():
    """The bootstrap of sacreBLEU gives numbers of NumPy; a record that cannot be written loses hours."""
    references = [f"Ein Hund rennt am Tag {n} durch den Schnee ." for n in range(30)]
    outputs = [text if n % 3 else text.replace("Hund", "Kater") for n, text in enumerate(references)]
    translator = SimpleNamespace(translate=lambda texts, **_: outputs[: len(texts)])
    found = real_text.with_intervals(translator, (references, references), 0.6, {"row": "recipe", "seed": 1})
    assert json.loads(json.dumps(found)) == found
    assert 0 < found["bleu_half_width"] < found["bleu"] < 100
    assert found.keys() == read_json(RECORDS / "multi30k" / "choose.json")["test"][0].keys()


def test_scores_by_length_tell_early_ends_apart(monkeypatch: pytest.MonkeyPatch):
    """A model that always writes the reference scores 1, and one that stops after a token ends early."""
    short = [SentencePair("the dog sees a cat", "der Hund sieht eine Katze")] * 3
    pairs = short + [SentencePair("the dog sees a cat and a dog", "der Hund sieht eine Katze und einen Hund")] * 2
    corpus = Corpus("made up", "en", "de", {"train": lambda: pairs, "test": lambda: pairs})
    asked = {"max_words": 6, "buckets": [[1, 6], [7, 9]], "sentences": 2}
    tokenizer, written = load_tokenizer(ROOT / "data" / "models" / "embedded"), {}
    model = randomised(TransformerConfig(len(tokenizer), d_model=16, d_ff=32, num_heads=2, num_layers=1))

    def search(model, source, **options):
        assert options == {"cache": False}
        return [[Hypothesis(written[tuple(row[row != 0].tolist())], 0.0, 0.0)] for row in source]

    monkeypatch.setattr(length, "greedy_search", search)
    for source, target in tokenize_pairs(tokenizer, pairs, 256):
        written[tuple(source)] = target
    right = length.scores_by_length(model, tokenizer, corpus, asked)
    assert [(row["sentences"], row["exact"], row["early"]) for row in right.values()] == [(2, 1.0, 0.0)] * 2
    written = {source: target[:1] for source, target in written.items()}
    wrong = length.scores_by_length(model, tokenizer, corpus, asked)
    assert [(row["exact"], row["early"]) for row in wrong.values()] == [(0.0, 1.0)] * 2
    assert all(row["forced"] <= row["tokens"] < 1 for row in wrong.values())


@pytest.mark.slow
def test_the_record_of_heads_is_of_the_shipped_model():
    """What the book quotes comes back: untouched, and without the head that matters most."""
    shipped = Translator.load("embedded", "cpu", accelerated=False)
    found = read_json(RECORDS / "heads" / "shipped.json")["silenced"]
    everything = Pronouns(shipped.model, shipped.tokenizer, embedded_split("pronoun"))
    rows = zip(found["heads"], found["zero"]["alone"], strict=True)
    head, alone = min(rows, key=lambda row: row[1][0][0])
    assert everything.right().mean(axis=0) == pytest.approx([share for share, _ in found["untouched"]], abs=0.002)
    with silenced(shipped.model, [tuple(head)]):
        assert everything.right().mean(axis=0) == pytest.approx([share for share, _ in alone], abs=0.005)
