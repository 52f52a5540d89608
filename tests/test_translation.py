"""Text in, text out (chapter 91)."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from torch import nn

from annotated.base.files import InputError
from annotated.batching import make_batch
from annotated.decoding import full_logits
from annotated.formats.engine import FastTranslator
from annotated.model import Transformer, TransformerConfig
from annotated.runs.checkpoint import find_model
from annotated.search.beam import beam_search, greedy_search, sample_outputs
from annotated.search.translation import Translation, Translator
from annotated.text.tokenization import detokenize, tokenize, train_tokenizer
from annotated.training import PRECISIONS, training_loss
from tests.forked import children, hearing
from tools import limits

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("Anna", "Paul", "Marie", "Peter", "Lisa")
VERBS = {"sees": "sieht", "loves": "liebt", "finds": "findet", "buys": "kauft"}
NOUNS = {"dog": "Hund", "table": "Tisch", "tree": "Baum", "apple": "Apfel"}
PAIRS = [
    (f"{name} {verb} the {noun}.", f"{name} {german} den {NOUNS[noun]}.")
    for name in NAMES
    for verb, german in VERBS.items()
    for noun in NOUNS
]
SOURCES = [source for source, _ in PAIRS]


@pytest.fixture(scope="module")
def translator() -> Translator:
    """A small model that has learned eighty sentences by heart, and takes 24 tokens at most."""
    tokenizer = train_tokenizer([text for pair in PAIRS for text in pair], 330)
    torch.manual_seed(0)
    config = TransformerConfig(
        len(tokenizer), d_model=32, d_ff=64, num_heads=2, num_layers=1, dropout=0.0, max_length=24
    )
    model = Transformer(config)
    examples = list(zip(*(tokenize(tokenizer, list(side)) for side in zip(*PAIRS, strict=True)), strict=True))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(90):
        batch = make_batch(examples[step % 2 :: 2])
        optimizer.zero_grad()
        (training_loss(model, batch, 0.0) / batch.num_tokens).backward()
        optimizer.step()
    return Translator(model, tokenizer, {"corpus": "names"})


@pytest.mark.slow
def test_a_translation_begins_with_its_prefix(translator):
    """Chapter 91: each text with its own, whatever batch it is in; without one it is as free as ever."""
    texts = SOURCES[:12]
    prefixes = ["", "Paul", "Lisa findet", *[""] * 8, "Marie sieht den"]
    found = translator.translate(texts, prefixes=prefixes, max_tokens=40)
    free = translator.translate(texts)
    for text, prefix, one, other in zip(texts, prefixes, found, free, strict=True):
        assert one.startswith(prefix)
        assert one == (translator.translate([text], prefixes=[prefix])[0] if prefix else other)
    with translator.workers(2):
        assert translator.translate(texts, prefixes=prefixes, max_tokens=40) == found
    with pytest.raises(InputError, match=r"sentence 1.* at most 2"):
        translator.translate(texts[:1], prefixes=["Marie sieht den"], limit=2)
    with pytest.raises(ValueError, match="1 prefixes for 2 texts"):
        translator.translate(texts[:2], prefixes=[""])
    with pytest.raises(TypeError, match="a list of texts"):
        translator.translate(texts[:2], prefixes="Die")


@pytest.mark.slow
def test_a_prefix_may_end_anywhere(translator):
    """E6: within a piece the model goes on as if it had not been cut there, and the text begins with it exactly."""
    (free,) = translator.translate(SOURCES[:1])
    for end in range(1, len(free)):
        assert translator.translate(SOURCES[:1], prefixes=[free[:end]]) == [free], free[:end]
    for prefix in ("Annabel", "Anna  s", "é", "▁x"):
        (found,) = translator.translate_n_best(SOURCES[:1], prefixes=[prefix])
        assert all(one.text.startswith(prefix.replace("▁", " ")) for one in found)


@pytest.mark.slow
def test_drawn_translations_have_the_model_s_probabilities(translator):
    """As often as the model says, whoever is in the batch; the same seed gives the same again."""
    model, tokens = translator.model, translator.tokenize(["Anna"])
    wanted = full_logits(model, torch.tensor(tokens))(torch.tensor([[model.config.start_id]]))[0].detach()
    wanted[[model.config.pad_id, model.config.start_id]] = -math.inf
    drawn = [one[0].tokens[0] for one in sample_outputs(model, torch.tensor(tokens * 4000), range(4000), limit=1)]
    shares = torch.bincount(torch.tensor(drawn), minlength=len(wanted)) / 4000
    assert (shares - wanted.softmax(-1)).abs().max() < 4 * (0.25 / 4000) ** 0.5
    several = translator.translate(["Anna"] * 6 + SOURCES[:2], temperature=2.0, seed=3)
    assert len(set(several[:6])) > 1
    assert several == translator.translate(["Anna"] * 6 + SOURCES[:2], temperature=2.0, seed=3, max_tokens=8)
    assert several[5:6] == translator.translate(["Anna"], temperature=2.0, seed=8)
    assert translator.translate(SOURCES[:3], temperature=1e-4) == translator.translate(SOURCES[:3], beam_size=1)
    with pytest.raises(TypeError, match="beamsize"):
        translator.translate(SOURCES[:1], beamsize=3)


@pytest.mark.slow
def test_a_translation_keeps_to_its_limits(translator):
    """Chapter 91: tokens, the end not counted among the least and counted among the most."""
    count = lambda text: len(translator.tokenizer.to_ids(text, target=True))  # noqa: E731
    free = translator.translate(SOURCES[:6])
    short = translator.translate(SOURCES[:6], limit=3)
    assert max(map(count, short)) <= 3 < min(map(count, free))
    long = translator.translate(SOURCES[:6], min_length=16, limit=18)
    assert max(map(count, free)) < 14 <= min(map(count, long))  # a text may have been cut into more pieces


@pytest.mark.slow
def test_given_translations_are_scored_by_token(translator):
    """Chapter 91: the log-probabilities of a translation's tokens add up to that of the search."""
    texts = SOURCES[:7]
    best = [some[0] for some in translator.translate_n_best(texts, length_penalty=0.0)]
    found = translator.score(texts, [one.text for one in best], max_tokens=40)
    for tokens, one in zip(found, best, strict=True):
        assert sum(value for _, value in tokens) == pytest.approx(one.log_probability, abs=1e-4)
        assert "".join(piece for piece, _ in tokens[:-1]).replace("▁", " ").strip() == one.text
        assert tokens[-1][0] == "</s>"
    ((_, *_, wrong),) = translator.score(texts[:1], ["Anna sieht den Hund"])
    assert wrong[1] < -1  # the end, where a full stop is due
    with pytest.raises(InputError, match=r"sentence 2.* 24"):
        translator.score(texts[:2], ["", "Hund " * 30])
    with pytest.raises(ValueError, match="1 translations for 2 texts"):
        translator.score(texts[:2], [""])
    with pytest.raises(TypeError, match="lists of texts"):
        translator.score("a", "b")


@pytest.mark.slow
def test_translations_come_in_the_order_of_the_sources(translator):
    """Chapter 91: batches are made by length, the results are not."""
    mixed = [*SOURCES[::4], "Paul sees.", *SOURCES[1::8]]
    alone = [translator.translate([source])[0] for source in mixed]
    assert len(set(alone)) > 20  # else any order would do
    assert translator.translate(mixed, max_tokens=60) == alone
    assert translator.translate(mixed[::-1]) == alone[::-1]


@pytest.mark.slow
def test_the_model_translates_what_it_has_learned(translator):
    """Chapter 91: text goes through tokenizer, model, search and back, and nothing on the way is lost."""
    assert translator.translate(SOURCES) == [target for _, target in PAIRS]


@pytest.mark.slow
def test_a_text_that_can_be_cut_in_several_ways_stands_once_in_a_list(tmp_path):
    """Chapter 91: the better of its two outputs, and the list is as long as was asked for."""
    sources = ["We get up when we wear the hat.", "The boy will sit in a bright room."]
    translator = Translator.load("embedded", "cpu")
    for number, source in enumerate(sources):
        (raw,) = beam_search(translator.model, torch.tensor(translator.tokenize([source])), beam_size=8, n_best=8)
        texts = [translator.reading(one.tokens) for one in raw]
        assert len(set(texts)) < 8
        found = translator.translate_n_best(sources, n_best=8, beam_size=8)[number]
        assert len({one.text for one in found}) == len(found) == 8
        assert [one.text for one in found][:7] == list(dict.fromkeys(texts))
    pytest.importorskip("ctranslate2")
    translator.save(tmp_path)
    options = {"n_best": 7, "beam_size": 8, "penalty": "power"}
    for found in FastTranslator.load(tmp_path, "cpu").translate_n_best(sources, **options):
        assert len({one.text for one in found}) == len(found) == 7


def test_an_empty_line_stays_empty(translator):
    """Chapter 91: one line out for each line in, and nothing is made up for an empty one."""
    outputs = translator.translate(["", SOURCES[0], "   ", SOURCES[9], ""])
    assert outputs == ["", PAIRS[0][1], "", PAIRS[9][1], ""]
    assert translator.translate([]) == []
    assert translator.translate_n_best([""]) == [[Translation("", 0.0, 0.0)]]


def test_a_long_sentence_is_cut_and_said_and_the_others_are_not_touched(translator, capsys):
    """Chapter 91: a source beyond `max_length` loses its end, the caller is told which, and its neighbours stay."""
    long = " ".join(SOURCES[:8])
    told = []
    outputs = translator.translate([SOURCES[3], long, SOURCES[4]], warn=told.append)
    assert [outputs[0], outputs[2]] == [PAIRS[3][1], PAIRS[4][1]]
    (message,) = told
    assert message.startswith("sentence 2 has ")
    assert "the model takes 24" in message
    cut = translator.tokenize([long], told.append)[0]
    whole = tokenize(translator.tokenizer, [long])[0]
    assert len(cut) == 24
    assert cut == [*whole[:23], translator.tokenizer.eos_id]
    assert capsys.readouterr().err == ""
    translator.translate([long])
    assert "sentence 1 has" in capsys.readouterr().err


def test_what_is_no_list_of_texts_and_a_wish_for_several_are_refused(translator):
    with pytest.raises(TypeError, match="a list of texts is needed"):
        translator.translate("Paul sees the dog.")  # else letter by letter
    with pytest.raises(TypeError, match="translate_n_best"):
        translator.translate(SOURCES[:1], n_best=2)


@pytest.mark.slow
def test_n_best_lists_are_sorted_and_start_with_the_best(translator):
    """Chapter 91: the first of the list is what `translate` gives, scores fall, log-probabilities belong to them."""
    for source in SOURCES[:6]:
        (translations,) = translator.translate_n_best([source], n_best=3)
        assert len(translations) == 3
        assert translations[0].text == translator.translate([source])[0]
        scores = [translation.score for translation in translations]
        assert scores == sorted(scores, reverse=True)
        for translation in translations:
            assert translation.log_probability <= translation.score <= 0
            assert math.isfinite(translation.log_probability)
    with pytest.raises(ValueError, match="n_best"):
        translator.translate_n_best(SOURCES[:1], n_best=5, beam_size=4)


@pytest.mark.slow
def test_the_options_reach_the_search(translator):
    """Chapter 91: beam size 1 is greedy search, and the length penalty changes the scores."""
    source = torch.tensor(tokenize(translator.tokenizer, SOURCES[:1]))
    ((greedy,),) = greedy_search(translator.model, source)
    ((found,),) = translator.translate_n_best(SOURCES[:1], beam_size=1, n_best=1, length_penalty=0.0)
    assert found.text == detokenize(translator.tokenizer, [greedy.tokens])[0]
    assert found.score == pytest.approx(greedy.log_probability, abs=1e-4)
    ((penalised,),) = translator.translate_n_best(SOURCES[:1], beam_size=1, n_best=1, length_penalty=1.0)
    assert penalised.log_probability == pytest.approx(found.log_probability, abs=1e-4)
    expected = found.log_probability / ((5 + len(greedy.tokens)) / 6)
    assert penalised.score == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [None, torch.float16, torch.bfloat16])
def test_a_saved_translator_translates_the_same(translator, tmp_path, dtype):
    """A model is a folder of three files; half precision is half as large."""
    translator.save(tmp_path / "model", dtype=dtype)
    again = Translator.load(tmp_path / "model", "cpu")
    assert again.translate(SOURCES[::7]) == translator.translate(SOURCES[::7])
    assert again.notes["corpus"] == "names"
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "config.json", "manifest.json", "model.safetensors", "tokenizer.model",
    ]  # fmt: skip
    for name, parameter in again.model.named_parameters():
        stored = translator.model.get_parameter(name)
        assert parameter.dtype == torch.float32
        assert torch.equal(parameter, stored.to(dtype).float() if dtype else stored)
    size = (tmp_path / "model" / "model.safetensors").stat().st_size
    assert size < (0.6 if dtype else 1.1) * 4 * translator.model.num_parameters()
    again.save(tmp_path / "second", dtype=dtype)  # saving what was loaded changes nothing
    first, second = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("model", "second"))
    assert first == second


def test_embedded_is_the_book_s_own_model_where_no_folder_has_that_name(tmp_path, monkeypatch):
    """In a clone; tests/test_wheel.py looks at an installed package."""
    monkeypatch.chdir(tmp_path)
    Path("embedded").touch()  # a file is no model folder
    assert find_model("embedded") == find_model(Path("embedded")) == ROOT / "data" / "models" / "embedded"
    Path("embedded").unlink()
    Path("embedded").mkdir()
    assert find_model("embedded") == Path("embedded")
    assert find_model(tmp_path) == tmp_path
    for name in ("parser", "models/embedded", tmp_path / "nowhere"):
        with pytest.raises(InputError, match=f"^{name}: "):
            find_model(name)


def test_big_for_french_drops_less():
    """C-6.1-d: everything of the big model, except a dropout of 0.1."""
    paper = yaml.safe_load((ROOT / "data" / "paper.yml").read_text(encoding="utf-8"))
    rate = paper["training"]["dropout"]["exception"]["dropout"]
    big, french = TransformerConfig.big(100), TransformerConfig.big(100, dropout=rate)
    assert (big.dropout, french.dropout) == (0.3, 0.1)
    assert replace(big, dropout=rate) == french
    with torch.device("meta"):
        model = Transformer(french)
    assert {module.p for module in model.modules() if isinstance(module, nn.Dropout) and module.p} == {0.1}


@pytest.mark.slow
def test_a_model_translates_in_every_precision_and_in_its_plain_form(translator, tmp_path):
    """Chapter 92 changes the time, not the words; loaded either way."""
    translator.save(tmp_path)
    for precision in PRECISIONS:
        other = Translator.load(tmp_path, "cpu", precision)
        assert other.model.target_embedding.weight.dtype == getattr(torch, precision)
        same = sum(map(str.__eq__, other.translate(SOURCES), translator.translate(SOURCES)))
        assert same >= 0.9 * len(SOURCES)
    plain = Translator.load(tmp_path, "cpu", accelerated=False)
    assert type(plain.model.dropout) is nn.Dropout
    for one, other in zip(*(t.translate_n_best(SOURCES[::9]) for t in (plain, translator)), strict=True):
        assert [translation.text for translation in one] == [translation.text for translation in other]
        assert [t.score for t in one] == pytest.approx([t.score for t in other], abs=1e-4)
    with pytest.raises(ValueError, match="'int3'"):
        Translator.load(tmp_path, "cpu", "int3")


@pytest.mark.slow
def test_workers_translate_as_one_process_does(translator):
    """Same translations in the same order, from processes that end with the block."""
    texts = [*SOURCES[::4], "", *SOURCES[::-4]]
    alone = translator.translate_n_best(texts, max_tokens=100)
    with translator.workers(2):
        assert translator.pool is not None
        together = translator.translate_n_best(texts, max_tokens=100)
        processes = list(translator.pool._processes.values())
        assert len(processes) == 2
    assert translator.pool is None
    assert not any(process.is_alive() for process in processes)
    assert [[t.text for t in row] for row in together] == [[t.text for t in row] for row in alone]
    with translator.workers(1):
        assert translator.pool is None


def test_an_error_in_a_worker_is_raised_here(translator):
    with translator.workers(2), pytest.raises(ValueError, match="n_best must lie between 1 and beam_size 2, not 3"):
        translator.translate_n_best(SOURCES, beam_size=2, n_best=3)
    assert translator.pool is None


def test_a_worker_that_dies_is_noticed(translator, monkeypatch):
    """As when the system ends a process for memory: an error, not an endless wait."""
    monkeypatch.setattr("annotated.search.translation.search_batch", lambda *_: os._exit(9))
    with pytest.raises(BrokenProcessPool), translator.workers(2):
        translator.translate(SOURCES)


def test_settings_of_the_search_that_a_model_brings_are_looked_at(translator):
    """Its config.json may say anything."""
    for search, said in (
        (5, "not 5"), ({"beams": 4}, "'beams'"), ({"beam_size": 0}, "beam_size 0"), ({"beam_size": True}, "True"),
        ({"length_penalty": "1"}, "'1'"), ({"length_penalty": math.nan}, "nan"), ({"length_penalty": 1e5}, "100000"),
        ({"penalty": "none"}, "'none'"), ({"penalty": ["gnmt"]}, "gnmt"), ({"stop": "soon"}, "'soon'"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            Translator(translator.model, translator.tokenizer, {"search": search})


def lives(process: int) -> bool:
    """Whether it still runs; of one that has ended nothing is left, or its number until somebody asks."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True).stdout
    return state[:1] not in ("", "Z")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="workers are processes on Linux alone")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(number):
    """However it ends: a worker that lived on would keep its share of the memory, and nobody would know of it."""
    arguments = [sys.executable, "-m", "annotated", "translate", "embedded", "--workers", "2", "--chunk", "1"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "cwd": ROOT}
    process = subprocess.Popen(arguments, **pipes, preexec_fn=hearing(), env=os.environ | {"OMP_NUM_THREADS": "1"})
    process.stdin.write(b"The dog sees the cat.\n" * 2)
    process.stdin.flush()
    process.stdout.readline()  # the workers are there now
    workers = children(process.pid)
    assert len(workers) == 2
    process.send_signal(number)
    process.wait(timeout=limits.PROCESS)
    end = time.monotonic() + limits.PROCESS
    while any(lives(worker) for worker in workers):
        assert time.monotonic() < end, "a worker lives on"
        time.sleep(0.1)
