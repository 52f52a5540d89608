"""CTranslate2 behind our command: module engine, chapter 90."""

import io
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from annotated.base.files import InputError, locked, read_json
from annotated.batching import pad_sequences
from annotated.command import cli
from annotated.decoding import Hypothesis
from annotated.formats import engine
from annotated.formats.engine import (
    FastTranslator,
    check_search,
    engine_settings,
    export_key,
    export_of,
    read_export,
)
from annotated.model import TransformerConfig
from annotated.search.beam import score_outputs
from annotated.search.translation import Source, Translator
from annotated.text.grammar.splits import embedded_split
from annotated.text.tokenization import train_tokenizer
from tests import forked
from tests.models import PORTABLE, random_translator, sources_to_translate
from tools.faulty_disk import Crash, FaultyDisk, with_disk
from tools.parity import beside_engine, random_sources

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "data" / "models" / "embedded"
FLOAT = {"compute_type": "float32", "intra_threads": 1}
LINES = "The animal did not cross the street because it was too tired.\n\nThe street was wide.\r\nThe king\n"


@pytest.fixture(scope="module")
def shipped() -> Translator:
    return Translator.load(SHIPPED, "cpu")


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    """A copy of the shipped model with its export."""
    folder = Path(shutil.copytree(SHIPPED, tmp_path_factory.mktemp("models") / "model"))
    FastTranslator.load(folder, "cpu", warn=pytest.fail)
    return folder


@pytest.fixture(scope="module")
def fast(exported) -> FastTranslator:
    return FastTranslator.load(exported, "cpu", warn=pytest.fail)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([text for pair in embedded_split("valid")[:100] for text in (pair.source, pair.target)], 340)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "alpha"), [(1, 0.0), (4, 0.0), (4, 1.0)])
def test_the_lines_are_those_of_our_own_search(shipped, fast, width: int, alpha: float):
    """Multi30k, where it is, is foreign to this model, so that prefixes lead after the beam's size has finished."""
    corpus, texts = sources_to_translate()
    kinds = beside_engine(shipped, fast, texts[:30], alpha, width)
    assert kinds["unexplained"] == 0
    assert kinds["tie"] <= 2
    if width == 1 or alpha == 0 or corpus == "embedded":
        assert kinds["early end"] == 0
    assert kinds["same"] >= 0.85 * kinds.total()


@pytest.mark.slow
def test_greedy_search_has_no_use_for_a_penalty(shipped, fast):
    texts = [pair.source for pair in embedded_split("test")[:10]]
    options = {"beam_size": 1, "penalty": "gnmt", "length_penalty": 0.6}
    for ours, theirs in zip(*(one.translate_n_best(texts, **options) for one in (shipped, fast)), strict=True):
        assert [one.text for one in theirs] == [one.text for one in ours]
        assert theirs[0].score == pytest.approx(ours[0].score, abs=1e-4)
        assert theirs[0].log_probability == pytest.approx(ours[0].log_probability, abs=1e-4)


@pytest.mark.slow
def test_each_output_has_its_own_limit(tokenizer, tmp_path):
    """Random weights do not end: every output is cut, 50 tokens after its source or at the model's longest."""
    translator = random_translator(replace(PORTABLE, max_length=80), tokenizer)
    fast = FastTranslator(translator, export_of(translator, tmp_path / "export", pytest.fail), **FLOAT)
    sources = random_sources(translator, 60)[1:40:6]
    for width in (1, 4):
        options = {"beam_size": width, "length_penalty": 0.0, "penalty": "power", "n_best": 1}
        ours, theirs = (next(iter(one.search_all([sources], options))) for one in (translator, fast))
        assert [found[0].tokens for found in theirs] == [found[0].tokens for found in ours]
        cut = [i for i, (found,) in enumerate(ours) if found.tokens[-1] != translator.model.config.end_id]
        lengths = {len(theirs[i][0].tokens) for i in cut}
        assert lengths == {min(len(sources[i]) + 50, 80) for i in cut}
        assert len(lengths) > 2


def test_an_empty_output_is_possible(tokenizer, tmp_path):
    """A model that wants to end at once: CTranslate2 by itself would write a token first."""
    translator = random_translator(replace(PORTABLE, output_bias=True), tokenizer)
    with torch.no_grad():
        translator.model.output.bias[translator.model.config.end_id] = 100.0
    fast = FastTranslator(translator, export_of(translator, tmp_path / "export", pytest.fail), **FLOAT)
    texts, search = ["The street was wide.", "The king"], {"penalty": "power"}
    for width in (1, 4):
        for one in (translator, fast):
            assert one.translate(texts, beam_size=width, **search) == ["", ""]
            assert "" not in one.translate(texts, beam_size=width, min_length=1, **search)


ODD = ["Heute", "", "Zebra", "Der", "Nein, die", "xyz"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "searches"),
    [
        ({"limit": 5}, ((1, 0.6), (4, 1.0))),
        ({"min_length": 4, "limit": 30}, ((4, 0.0),)),
        ({"prefixes": "own"}, ((1, 0.6), (4, 1.0))),
        ({"prefixes": "odd", "limit": 12}, ((4, 1.0),)),
        ({"prefixes": "odd", "min_length": 25}, ((1, 0.6),)),  # below a least length a beam may differ
    ],
    ids=str,
)
def test_limits_and_prefixes_hold_for_the_engine(shipped, fast, told: dict, searches: tuple, monkeypatch):
    """With its own rule for the end (`first`), and prefixes kept in their own pieces, our search writes the same."""
    monkeypatch.setattr("annotated.search.translation.begun_with", lambda _, prefixes: {"prefixes": prefixes})
    pairs = embedded_split("test")[:12]
    texts, own = [pair.source for pair in pairs], [" ".join(pair.target.split()[:3]) for pair in pairs]
    prefixes = {"own": own, "odd": ODD * 2}.get(told.get("prefixes"))
    for width, alpha in searches:
        search = told | {"beam_size": width, "length_penalty": alpha, "penalty": "power", "stop": "first", "n_best": 1}
        pair = (one.translate_n_best(texts, **search | {"prefixes": prefixes}) for one in (shipped, fast))
        ours, theirs = ([found[0] for found in each] for each in pair)
        assert [one.text for one in theirs] == [one.text for one in ours]
        for name in ("score", "log_probability"):
            scores = [getattr(one, name) for one in ours]
            assert [getattr(one, name) for one in theirs] == pytest.approx(scores, abs=1e-3)


@pytest.mark.slow
def test_scores_are_those_of_the_model_whatever_a_search_is_told(shipped, fast):
    """CTranslate2's own leave out a prefix, and are higher below a least length."""
    texts = [pair.source for pair in embedded_split("test")[:6]]
    search = {"beam_size": 4, "length_penalty": 1.0, "penalty": "power", "min_length": 25, "prefixes": ODD}
    found = fast.translate_n_best(texts, **search)
    assert [len(each) for each in found] == [4] * 6
    for prefix, each in zip(ODD, found, strict=True):
        assert [one.score for one in each] == sorted((one.score for one in each), reverse=True)
        for one in each:
            assert one.text.startswith(prefix)
            assert one.score * 25 >= one.log_probability
    sources = [Source(ids) for ids in shipped.tokenize(texts)]
    shipped.take_prefixes(sources, ODD, None)
    (rows,) = fast.search_all([sources], search | {"n_best": 4, "limit": None})
    for source, each in zip(sources, rows, strict=True):
        outputs = pad_sequences([one.tokens for one in each], 0)
        totals = score_outputs(shipped.model, torch.tensor([source] * 4), outputs)
        assert [one.log_probability for one in each] == pytest.approx(totals.tolist(), abs=1e-3)
        assert all(len(one.tokens) > 25 for one in each)


@pytest.mark.parametrize("finished", [-2.0, -0.5])
def test_at_the_limit_unfinished_outputs_compete_by_their_score(fast, finished: float):
    """As in our own search."""
    end, result = fast.model.config.end_id, type("Result", (), {"result": lambda self: self})()
    words = {number: piece for piece, number in fast.number_of.items()}
    result.hypotheses, result.scores = [[words[9]] * 53, [words[9], words[end]]], [-1.0, finished]
    fast.begin, before = (lambda *_: [result]), fast.begin
    try:
        found = fast.outputs(
            [9, 9, end], result, {"beam_size": 2, "length_penalty": 0.0, "penalty": "power", "n_best": 1}
        )
    finally:
        fast.begin = before
    wanted = ([9, end], finished, finished) if finished > -1 else ([9] * 53, -1.0, -1.0)
    assert found == [Hypothesis(*wanted)]


def test_a_model_is_exported_once(exported, monkeypatch):
    monkeypatch.setattr(engine, "save_ctranslate2", lambda *_: pytest.fail("exported again"))
    assert FastTranslator.load(exported, "cpu", warn=pytest.fail).translate(["The street was wide."], beam_size=1)


def test_the_key_knows_weights_sizes_tokenizer_and_version(tokenizer, monkeypatch):
    def key(config: TransformerConfig = PORTABLE, pieces=tokenizer, shift: float = 0.0) -> str:
        translator = random_translator(config, pieces)
        with torch.no_grad():
            translator.model.encoder.layers[1].feed_forward.inner.bias[3] += shift
        return export_key(translator)

    other = train_tokenizer([pair.source for pair in embedded_split("test")[:200]], 340)
    keys = [key(), key(shift=1e-3), key(replace(PORTABLE, num_heads=2)), key(pieces=other)]
    assert key() == keys[0]
    monkeypatch.setattr(engine, "version", lambda _: "99")
    keys.append(key())
    monkeypatch.setattr(engine, "FORMAT", "annotated-export-1")
    assert len({*keys, key()}) == 6


def test_a_changed_model_is_exported_anew(tokenizer, tmp_path):
    first = random_translator(PORTABLE, tokenizer)
    before = export_of(first, tmp_path / "export", pytest.fail)
    with torch.no_grad():
        first.model.output.weight.mul_(-1)
    after = export_of(first, tmp_path / "export", pytest.fail)
    assert before["model.bin"] != after["model.bin"]
    assert read_export(tmp_path / "export", export_key(first)) == after
    assert sorted(path.name for path in (tmp_path / "export").iterdir()) == sorted([*after, "key", "manifest.json"])


@pytest.mark.parametrize("name", ["model.bin", "manifest.json"])
def test_a_damaged_export_is_made_anew(exported, tmp_path, name: str):
    folder = Path(shutil.copytree(exported, tmp_path / "model"))
    path = folder / "ctranslate2" / name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    again = FastTranslator.load(folder, "cpu", warn=pytest.fail)
    assert again.translate(["The street was wide."], beam_size=1) == ["Die Straße war breit."]
    assert path.read_bytes() == whole


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["error", "crash half"])
def test_no_fault_leaves_half_an_export(tokenizer, tmp_path, kind: str):
    translator = random_translator(PORTABLE, tokenizer)
    counting = FaultyDisk()
    with with_disk(counting):
        whole = export_of(translator, tmp_path / "counted", pytest.fail)
    assert counting.count > 10
    key = export_key(translator)
    for at in range(1, counting.count + 1):
        folder, said = tmp_path / str(at), []
        try:
            with with_disk(FaultyDisk(at, kind)):
                assert export_of(translator, folder, said.append) == whole
            assert len(said) <= 1
        except Crash:
            assert kind != "error"
        assert read_export(folder, key) in (None, whole)
        assert export_of(translator, folder, pytest.fail) == whole
        assert read_export(folder, key) == whole


def test_where_nothing_can_be_kept_it_is_said_and_translated_all_the_same(tmp_path, capsys, monkeypatch):
    folder = Path(shutil.copytree(SHIPPED, tmp_path / "model", ignore=shutil.ignore_patterns("ctranslate2")))
    (folder / "ctranslate2").write_text("in the way of the folder", encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"The street was wide.\n")))
    assert cli.main(["translate", str(folder), "--engine", "ctranslate2", "--beam-size", "1", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert out == "Die Straße war breit.\n"
    assert str(folder / "ctranslate2") in err


def test_while_another_process_writes_the_export_is_kept_in_memory(tokenizer, tmp_path):
    translator, said = random_translator(PORTABLE, tokenizer), []
    with locked(tmp_path / "export", pytest.fail):
        assert export_of(translator, tmp_path / "export", said.append)
    assert len(said) == 1
    assert "another run is writing there" in said[0]
    assert export_of(translator, tmp_path / "export", pytest.fail)


@pytest.mark.slow
def test_the_command_writes_what_it_writes_with_our_search(exported, capsys, monkeypatch):
    """Empty lines, other line ends, a line that is too long, several chunks and several threads."""
    lines = (LINES + "the king " * 300 + "\n" + LINES.rstrip("\n")).encode()
    found = []
    for name in ("annotated", "ctranslate2"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines), newline="\n"))
        line = ["translate", str(exported), "--device", "cpu", "--chunk", "3", "--engine", name, "--penalty", "power"]
        assert cli.main([*line, "--beam-size", "2", "--n-best", "1", "--workers", "2"]) == 0
        out, err = capsys.readouterr()
        found.append(([line.split("\t")[0::2] for line in out.splitlines()], err))
    assert found[0] == found[1]
    assert "line 5 " in found[1][1]
    assert len(found[1][0]) == 9


@pytest.mark.slow
def test_two_processes(exported, tmp_path):
    """The order is that of one process, and only the first exports and says something."""
    folder = Path(shutil.copytree(exported, tmp_path / "model", ignore=shutil.ignore_patterns("ctranslate2")))
    lines = [pair.source for pair in embedded_split("test")[:40]]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    line = ["annotated", "translate", str(folder), "--engine", "ctranslate2", "--penalty", "power", "--chunk", "9"]
    done = forked.run(2, *line, stdin=tmp_path / "lines.txt")
    assert done.returncode == 0, done.stderr
    own = Translator.load(SHIPPED, "cpu").translate(lines, penalty="power")
    assert done.stdout.splitlines() == own
    assert (folder / "ctranslate2" / "model.bin").exists()


@pytest.mark.slow
def test_evaluate_says_which_engine_and_penalty(exported, tmp_path, capsys):
    line = ["evaluate", str(exported), "--engine", "ctranslate2", "--penalty", "power", "--precision", "int8"]
    assert cli.main([*line, "--device", "cpu", "--max-words", "5", "--json", str(tmp_path / "scores.json")]) == 0
    about = read_json(tmp_path / "scores.json")
    assert (about["engine"], about["penalty"], about["precision"]) == ("ctranslate2", "power", "int8")
    assert about["exact_match"] > 0.8


def test_workers_and_precision_reach_the_engine(exported):
    translator = FastTranslator.load(exported, "cpu", "int8", workers=3, warn=pytest.fail)
    assert (translator.engine.num_translators, translator.engine.device) == (3, "cpu")
    assert translator.engine.compute_type.startswith("int8")
    assert FastTranslator.load(exported, "cpu", "auto").engine.compute_type in ("float32", "bfloat16")
    assert translator.translate(["The street was wide."] * 7, beam_size=1, max_tokens=20) == (
        ["Die Straße war breit."] * 7
    )


REFUSED = [  # what is typed; exit status; what is named
    ("", 1, "gnmt"),
    ("--beam-size 1 --precision float16", 1, "float16"),
    ("--penalty power --no-accelerate", 2, "--no-accelerate"),
    ("--penalty power --n-best 5", 2, "--n-best"),
    ("--engine annotated --precision int8", 2, "--precision"),
]


@pytest.mark.parametrize(("options", "status", "named"), REFUSED, ids=[options for options, *_ in REFUSED])
def test_what_the_engine_does_not_have_is_refused(tmp_path, capsys, options: str, status: int, named: str):
    folder = Path(shutil.copytree(SHIPPED, tmp_path / "model", ignore=shutil.ignore_patterns("ctranslate2")))
    line = ["translate", str(folder), "--engine", "ctranslate2", "--device", "cpu", *options.split()]
    assert cli.main(line) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert named in err.splitlines()[-1]
    assert status == 2 or not (folder / "ctranslate2").exists()  # what is refused before the work costs no export


def test_a_penalty_without_weight_is_none(fast):
    for options in ({"length_penalty": 0, "beam_size": 4}, {"length_penalty": 0.6, "beam_size": 1}):
        check_search(options | {"penalty": "gnmt"})
    with pytest.raises(InputError, match="gnmt"):
        fast.translate(["The street was wide."])


def test_a_device_that_it_does_not_have(monkeypatch):
    monkeypatch.setattr(engine, "best_device", lambda _: torch.device("mps"))
    with pytest.raises(InputError, match="mps"):
        engine_settings("mps", "float32")


def test_without_the_package(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert cli.main(["translate", "embedded", "--engine", "ctranslate2", "--penalty", "power"]) == 1
    assert "ctranslate2" in capsys.readouterr().err
