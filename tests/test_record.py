"""Recording a run: description, metrics and scores land in data/runs, the shipped model in data/models."""

from pathlib import Path

import pytest
import torch
import yaml

from annotated.base.files import read_json, read_tensors, write_json
from annotated.model import TransformerConfig
from annotated.runs.training import train_on_corpus
from annotated.text.corpora import EMBEDDED, load_corpus
from annotated.text.grammar.splits import corpus_fingerprint
from annotated.training import TrainingConfig
from tools.record import record

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "data" / "runs"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    lines = [f"the dog {i % 7} sees {i} cats\tder Hund {i % 7} sieht {i} Katzen\n" for i in range(60)]
    (folder / "pairs.tsv").write_text("".join(lines))
    config = TrainingConfig(max_steps=6, max_tokens=200, checkpoint_minutes=0.0, precision="float32")
    sizes = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1, "max_length": 32}
    train_on_corpus(
        load_corpus(str(folder / "pairs.tsv")), lambda size: TransformerConfig(size, **sizes), config, folder / "run",
        vocab_size=290, device=torch.device("cpu"), progress=False,
    )  # fmt: skip
    return folder / "run"


@pytest.mark.slow
def test_what_is_recorded(run: Path, tmp_path: Path):
    record(run, "tiny", data=tmp_path)
    names = {path.name for path in (tmp_path / "runs" / "tiny").iterdir()}
    kinds = ("greedy", "beam4", "tuned", "averaged")
    scores = {f"{file}-{kind}" for file in ("evaluation", "translations") for kind in kinds}
    assert {name.split(".")[0] for name in names} >= scores | {"run", "metrics"}
    assert read_json(tmp_path / "runs" / "tiny" / "evaluation-greedy.json")["beam_size"] == 1
    recorded = tmp_path / "runs" / "tiny"
    alphas = {path.stem: read_json(path)["bleu"] for path in recorded.glob("evaluation-valid-*.json")}
    chosen = read_json(recorded / "evaluation-tuned.json")["length_penalty"]
    assert alphas[f"evaluation-valid-alpha-{chosen}"] == max(alphas.values())  # on valid, never on test
    assert not (tmp_path / "models").exists()


@pytest.mark.slow
def test_a_shipped_model_is_half_precision_and_knows_its_corpus(run: Path, tmp_path: Path):
    record(run, "tiny", ship=True, data=tmp_path)
    model = tmp_path / "models" / "tiny"
    assert {tensor.dtype for tensor in read_tensors(model / "model.safetensors").values()} == {torch.float16}
    assert read_json(model / "config.json")["corpus_version"] == corpus_fingerprint()


@pytest.mark.slow
def test_an_unfinished_run_is_refused(run: Path, tmp_path: Path):
    write_json(tmp_path / "half" / "run.json", read_json(run / "run.json") | {"finished": False})
    with pytest.raises(SystemExit, match="not finished"):
        record(tmp_path / "half", "half", data=tmp_path)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_run_that_names_no_version_learned_from_the_corpus_of_now():
    """Its recorded translations score against today's sentences as they did then."""
    for path in sorted(RUNS.glob("*/run.json")):
        run = read_json(path)
        if run["corpus"] in EMBEDDED and run.get("corpus_version") in (None, corpus_fingerprint()):
            lines = (path.parent / "translations-greedy.txt").read_text(encoding="utf-8").splitlines()
            pairs = load_corpus(run["corpus"]).split("test")
            right = sum(line == pair.target for line, pair in zip(lines, pairs, strict=True))
            recorded = read_json(path.parent / "evaluation-greedy.json")
            assert right / len(pairs) == recorded["exact_match"], path.parent.name


def test_every_record_says_what_makes_it_now():
    """A module that is there, and for `benchmarks` and the command one of their parts, or the last commit with it."""
    from annotated.command.commands import COMMANDS
    from benchmarks.__main__ import PARTS

    made_by = yaml.safe_load((RUNS / "made_by.yml").read_text(encoding="utf-8"))
    assert set(made_by) == {path.name for path in RUNS.iterdir() if path.is_dir()}
    parts = {"annotated": COMMANDS, "benchmarks": {*PARTS, "gpu"}}
    for name, commands in made_by.items():
        for command, commit in (next(iter(one.items())) if isinstance(one, dict) else (one, None) for one in commands):
            words = command.split()
            program, *rest = words[2:] if words[0] == "python" else words
            is_there = (
                rest[0] in parts[program] if program in parts else (ROOT / f"{program.replace('.', '/')}.py").is_file()
            )
            assert is_there == (commit is None), name
            assert program != "tools.experiments" or rest == [name], "its own plan"
