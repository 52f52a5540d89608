"""Other people's weights on this code, and back (chapter 90). Nothing is downloaded: folders are made here."""

import copy
import io
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import sentencepiece
import torch
from safetensors.torch import load_file, save_file

from annotated.base.files import InputError, read_json, write_json
from annotated.batching import pad_sequences
from annotated.command.cli import FORMATS, main
from annotated.decoding import block_special_tokens
from annotated.feed_forward import ACTIVATIONS
from annotated.formats.ctranslate2 import CTRANSLATE2, save_ctranslate2
from annotated.formats.marian import (
    ACTIVATION_NAMES,
    MARIAN,
    SETTINGS,
    load_marian,
    option_limits,
    save_marian,
    to_concatenated,
    vocabularies,
)
from annotated.model import CHOICES, Transformer, TransformerConfig
from annotated.search.beam import beam_search, cut_after, greedy_search, score_outputs
from annotated.search.translation import Translator
from annotated.text.grammar.splits import embedded_split
from annotated.text.tokenization import PairTokenizer, detokenize, tokenize, train_tokenizer
from tests.messages import TEXTS, message, refused
from tests.models import PORTABLE, random_translator, sources_to_translate
from tools import limits
from tools.parity import (
    EXACT,
    GRID,
    LOGITS,
    SHARE,
    Case,
    compare,
    generate,
    quiet,
    random_sources,
    way_back,
    write_folder,
)

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "data" / "models" / "embedded"
TESTED = [case for case in GRID if case.d_model == 64]
QUICK = [case for case in TESTED if case.layers == 2 and case.shared == (case.activation == "relu")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[bool, Path]:
    """A Marian folder with a shared vocabulary, and one with separate vocabularies; tests that change one copy it."""
    made = {shared: tmp_path_factory.mktemp("marian") / "folder" for shared in (True, False)}
    for shared, folder in made.items():
        with quiet():
            write_folder(Case("swish", shared, 2, 64), folder)
    return made


@pytest.fixture
def folder(folders, tmp_path) -> Path:
    """A copy that a test may spoil."""
    copy = tmp_path / "opus"
    copy.mkdir()
    for path in folders[True].iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


@pytest.fixture(scope="module")
def shipped() -> Translator:
    return Translator.load(SHIPPED, "cpu")


def theirs(folder: Path) -> Any:
    """The folder's model in transformers, which only those import who ask for it: that takes seconds."""
    with quiet():
        import transformers

        return transformers.MarianMTModel.from_pretrained(folder).eval()


def their_tokenizer(folder: Path) -> Any:
    with quiet():
        import transformers

        return transformers.MarianTokenizer.from_pretrained(folder)


@torch.inference_mode()
def convert(folder: Path, output: Path) -> None:
    """With CTranslate2's own converter."""
    with quiet():
        from ctranslate2.converters import TransformersConverter

        TransformersConverter(str(folder)).convert(str(output))


def their_logits(model: Any, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    mask = (source != model.config.pad_token_id).long()
    return model(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits


# Reading


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[] if case in QUICK else pytest.mark.again) for case in TESTED],
)
def test_logits_and_outputs_are_those_of_transformers(case: Case, tmp_path: Path):
    """The full grid, 200 inputs each, is `python -m tools.parity`."""
    result = compare(case, tmp_path / "marian", 12)
    assert result.largest_logit_difference < LOGITS
    assert result.in_double < EXACT
    assert result.logit_spread > 1
    assert result.distinct_outputs >= 5
    assert result.greedy == {"equal": 12}
    assert result.beam_without_penalty == {"equal": 12}
    assert set(result.beam) <= {"equal", "tie"}
    assert result.beam["equal"] >= 11


def test_the_recorded_grid_is_whole():
    record = read_json(ROOT / "data" / "runs" / "marian-parity" / "results.json")
    assert [result["name"] for result in record["results"]] == [case.name for case in GRID]
    for result in record["results"]:
        assert result["inputs"] == 200
        assert result["in_double"] < EXACT
        for name in ("greedy", "beam", "beam_without_penalty"):
            assert sum(result[name].values()) == 200
            assert set(result[name]) <= {"equal", "tie"}


def test_the_configuration_says_what_the_folder_says(folders):
    config = load_marian(folders[False], "cpu").model.config
    assert (config.activation, config.positions, config.norm_eps) == ("swish", "concatenated", 1e-5)
    assert config.attention_bias
    assert config.output_bias
    assert config.scale_embeddings
    assert config.tie_output
    assert not config.tie_embeddings
    assert config.pad_id == config.start_id == config.vocab_size - 1
    assert load_marian(folders[True], "cpu").model.config.tie_embeddings


@pytest.mark.slow
def test_the_start_symbol_is_seen_though_it_is_padding(folders):
    """Teacher forcing, full decoding and cached decoding agree: none of them masks the first place."""
    translator = load_marian(folders[True], "cpu")
    sources = pad_sequences(random_sources(translator, 6), translator.model.config.pad_id)
    cached = greedy_search(translator.model, sources, limit=12)
    full = greedy_search(translator.model, sources, limit=12, cache=False)
    assert [h.tokens for h in cached] == [h.tokens for h in full]
    outputs = pad_sequences([h.tokens for h in cached], translator.model.config.pad_id)
    totals = score_outputs(translator.model, sources, outputs)
    assert torch.allclose(totals, torch.tensor([h.log_probability for h in cached]), atol=1e-3)


@pytest.mark.slow
def test_a_model_may_start_with_its_end_symbol(folder: Path):
    """As BART does: the end symbol must stay possible, or no output would ever end."""
    write_json(folder / "config.json", read_json(folder / "config.json") | {"decoder_start_token_id": 0})
    translator = load_marian(folder, "cpu")
    sources = pad_sequences(random_sources(translator, 6), translator.model.config.pad_id)
    with torch.no_grad():
        translator.model.output.bias[0] += 100.0  # as probable as can be, unless it is masked
    assert all(h.tokens[-1] == 0 for h in greedy_search(translator.model, sources, limit=40))


@pytest.mark.parametrize("names", [
    ["model.encoder.embed_tokens.weight"],
    ["model.decoder.embed_tokens.weight", "lm_head.weight"],
    ["model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"],
])  # fmt: skip
def test_a_shared_matrix_is_found_under_any_of_its_names(folder: Path, names: list[str]):
    before = load_marian(folder, "cpu").model.target_embedding.weight
    tensors = load_file(folder / "model.safetensors")
    shared = tensors.pop("model.shared.weight")
    save_file(tensors | {name: shared.clone() for name in names}, folder / "model.safetensors")
    assert load_marian(folder, "cpu").model.target_embedding.weight.equal(before)


def test_half_precision_weights_become_float32(folder: Path):
    tensors = load_file(folder / "model.safetensors")
    save_file({name: tensor.half() for name, tensor in tensors.items()}, folder / "model.safetensors")
    assert {p.dtype for p in load_marian(folder, "cpu").model.parameters()} == {torch.float32}


def test_a_stored_table_of_sinusoids_and_a_missing_bias_are_fine(folder: Path):
    tensors = load_file(folder / "model.safetensors")
    model = theirs(folder)
    tensors["model.encoder.embed_positions.weight"] = model.model.encoder.embed_positions.weight.detach().clone()
    del tensors["final_logits_bias"]
    save_file(tensors, folder / "model.safetensors")
    assert load_marian(folder, "cpu").model.output.bias.abs().max() == 0


# Settings of the search


@pytest.mark.slow
def test_the_search_settings_come_with_the_folder(folder: Path):
    write_json(folder / "generation_config.json", {"num_beams": 3, "length_penalty": 0.5, "no_repeat_ngram_size": 2})
    translator = load_marian(folder, "cpu")
    assert translator.search == {"beam_size": 3, "length_penalty": 0.5, "penalty": "power", "stop": "heuristic"}
    assert translator.notes["ignored"] == ["no_repeat_ngram_size"]
    text = embedded_split("test")[0].source
    (translations,) = translator.translate_n_best([text])
    source = torch.tensor(translator.tokenize([text]))
    ((first, *others),) = beam_search(translator.model, source, n_best=3, **translator.search)
    assert [t.score for t in translations] == pytest.approx([first.score, *(h.score for h in others)], abs=1e-4)
    assert translations[0].score == pytest.approx(first.log_probability / len(first.tokens) ** 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("early_stopping", [False, True, "never"])
def test_the_search_ends_where_generate_ends_it(folder: Path, early_stopping):
    """Chapter 90: every output of a list is that of `generate` by the folder's own rule, for lists of every length."""
    from transformers import MarianMTModel

    options = {"num_beams": 4, "length_penalty": 1.4, "early_stopping": early_stopping}
    write_json(folder / "generation_config.json", read_json(folder / "generation_config.json") | options)
    translator = load_marian(folder, "cpu")
    config = translator.model.config
    with quiet():
        theirs = MarianMTModel.from_pretrained(folder).eval()
    sources = random_sources(translator, 40, seed=3)
    batch = pad_sequences(sources, config.pad_id)
    for n_best in (1, 4):
        own = beam_search(translator.model, batch, n_best=n_best, limit=24, **translator.search)
        mask = (batch != config.pad_id).long()
        with torch.no_grad():
            rows = theirs.generate(
                batch, attention_mask=mask, max_new_tokens=24, num_return_sequences=n_best, do_sample=False, **options
            )
        found = [cut_after(row, config.end_id) for row in rows[:, 1:].tolist()]
        found = [[token for token in row if token != config.pad_id] for row in found]
        assert [h.tokens for hypotheses in own for h in hypotheses] == found


@pytest.mark.parametrize("value", ["soon", 7, [True]])
def test_an_unknown_rule_for_stopping_is_named(folder: Path, value):
    write_json(folder / "generation_config.json", {"early_stopping": value})
    with refused("marian-early-stopping", folder / "generation_config.json", repr(value)):
        load_marian(folder, "cpu")


def test_older_folders_have_them_in_the_configuration(folder: Path):
    (folder / "generation_config.json").unlink()
    values = read_json(folder / "config.json") | {"num_beams": 6, "bad_words_ids": [[5], [read_pad(folder)]]}
    write_json(folder / "config.json", values)
    translator = load_marian(folder, "cpu")
    assert translator.search["beam_size"] == 6
    assert translator.search["length_penalty"] == 1.0
    assert translator.notes["ignored"] == ["bad_words_ids"]


@pytest.mark.parametrize("banned", [[1], 7, [[3, 4]], "ab"])
def test_other_banned_words_are_named(folder: Path, banned):
    write_json(folder / "generation_config.json", {"bad_words_ids": banned})
    assert load_marian(folder, "cpu").notes["ignored"] == ["bad_words_ids"]


def test_a_token_may_be_written_with_its_properties(folder: Path):
    known = {"content": "<pad>", "lstrip": False, "__type": "AddedToken"}
    write_json(folder / "tokenizer_config.json", {"pad_token": known, "source_lang": "en"})
    translator = load_marian(folder, "cpu")
    assert translator.tokenizer.special[0] == "<pad>"
    assert translator.notes["source"] == "en"


def read_pad(folder: Path) -> int:
    return read_json(folder / "config.json")["pad_token_id"]


# The tokenizer


def strings() -> list[str]:
    """A thousand texts: real ones, odd ones, and random ones from all of Unicode."""
    odd = [
        "", " ", "\t\n", "a", "😀", "👩‍👩‍👧‍👦 family", "ﬁne ﬂow", "Ⅷ ½ ²", "ＦＵＬＬ　ｗｉｄｔｈ", "e\u0301 é", "Å Å",
        "日本語のテキスト", "Привет мир", "שלום", "\u200bzero\u200dwidth", "\ufeffmark", "tab\tand\nline",
        "  many   spaces  ", "▁piece", ">>fra<< Hello", ">>de<<", ">> no code", "x >>fra<< y", ">>a<<>>b<< c", "<<>>",
        "naïve café", "…—–“”", "\x00\x01", "word " * 2000, "x" * 5000, "😀" * 300, "the" * 700, "Zürich Straße Öl",
        "1,234.5%", "a\u00a0b", "<pad", "</ s>",
    ]  # fmt: skip
    generator = random.Random(0)
    real = [text for pair in embedded_split("test")[:250] for text in (pair.source, pair.target)]
    blocks = ((32, 127), (160, 600), (0x370, 0x5FF), (0x4E00, 0x5000), (0x1F300, 0x1F700), (0xFB00, 0xFF70))
    random_ones = []
    while len(odd) + len(real) + len(random_ones) < 1000:
        spans = [blocks[int(generator.random() * len(blocks))] for _ in range(1 + int(generator.random() * 40))]
        random_ones.append("".join(chr(low + int(generator.random() * (high - low))) for low, high in spans))
    return odd + real + random_ones


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_ids_are_those_of_marian_tokenizer(folders, shared: bool):
    texts = strings()
    assert len(texts) == 1000
    ours, known = load_marian(folders[shared], "cpu").tokenizer, their_tokenizer(folders[shared])
    assert tokenize(ours, texts) == [known(text).input_ids for text in texts]
    assert tokenize(ours, texts, target=True) == [known(text_target=text).input_ids for text in texts]
    assert sum(ours.unk_id in ids for ids in tokenize(ours, texts)) > 100


@pytest.mark.parametrize("shared", [True, False])
def test_texts_are_those_of_marian_tokenizer(folders, shared: bool):
    ours, known = load_marian(folders[shared], "cpu").tokenizer, their_tokenizer(folders[shared])
    generator = random.Random(1)
    rows = [[int(generator.random() * len(ours)) for _ in range(int(generator.random() * 20))] for _ in range(300)]
    assert detokenize(ours, rows) == known.batch_decode(rows, skip_special_tokens=True)


def test_special_tokens_written_in_a_text_stay_text(folders):
    """The one documented difference: MarianTokenizer would end the sentence here."""
    ours, known = load_marian(folders[True], "cpu").tokenizer, their_tokenizer(folders[True])
    text = "The child </s> sleeps."
    assert tokenize(ours, [text])[0].count(ours.eos_id) == 1
    assert known(text).input_ids.count(known.eos_token_id) == 2


# The way back


@pytest.mark.slow
def test_our_model_gives_the_same_tokens_in_transformers_and_ctranslate2(shipped, tmp_path: Path):
    """Multi30k is foreign to this model, so its outputs are odd there; they must be equal all the same."""
    corpus, texts = sources_to_translate()
    texts = texts[::5]  # all of them by `python -m tools.parity --model data/models/embedded`
    equal = way_back(shipped, texts, tmp_path)
    assert equal["sentences"] == len(texts)
    for system in ("transformers", "ctranslate2"):
        assert equal[system] >= SHARE * len(texts), f"{system}: {equal} on {corpus}"


TABLES = {"marian": MARIAN, "ctranslate2": CTRANSLATE2}
OTHERS = {  # another value of each option, with what it needs besides
    "vocab_size": {"vocab_size": 350},
    "d_model": {"d_model": 48},
    "d_ff": {"d_ff": 40},
    "num_heads": {"num_heads": 3, "d_k": 10, "d_v": 10},
    "num_layers": {"num_layers": 3},
    "d_k": {"d_k": 4},
    "d_v": {"d_v": 4},
    "dropout": {"dropout": 0.3},
    "attention_bias": {"attention_bias": True},
    "attention_dropout": {"attention_dropout": 0.2},
    "activation": {"activation": "swish"},
    "activation_dropout": {"activation_dropout": 0.2},
    "positions": {"positions": "learned"},
    "max_length": {"max_length": 120},
    "norm_first": {"norm_first": True},
    "norm_eps": {"norm_eps": 0.01},
    "tie_embeddings": {"tie_embeddings": False},
    "tie_output": {"tie_output": False},
    "source_vocab_size": {"source_vocab_size": 350, "tie_embeddings": False},
    "scale_embeddings": {"scale_embeddings": False},
    "output_bias": {"output_bias": True},
    "num_decoder_layers": {"num_decoder_layers": 1},
    "pad_id": {"pad_id": 1},
    "start_id": {"start_id": 1},
    "end_id": {"end_id": 2},
}
TOKENS = {
    "vocab_size",
    "source_vocab_size",
    "num_heads",
    "d_k",
    "d_v",
}  # neither format has a place for these of OTHERS
REFUSED = {
    "marian": TOKENS | {"positions", "norm_first", "norm_eps", "pad_id", "end_id"},
    "ctranslate2": TOKENS,
}


def variants(form: str) -> dict[str, dict]:
    """By name, what to change in PORTABLE: all that a format can express, one by one, and some of it together."""
    single = {name: changes for name, changes in OTHERS.items() if name not in REFUSED[form]}
    choices = {
        f"{option} {value}": {option: value}
        for option, known in CHOICES.items()
        for value in known
        if value in TABLES[form][option]
    }
    together = {
        "paper": {},
        "biases": {"attention_bias": True, "output_bias": True},
        "concatenated, swish": {"positions": "concatenated", "activation": "swish"},
        "gelu, unscaled": {"activation": "gelu", "scale_embeddings": False},
        "nothing tied": {"tie_embeddings": False, "tie_output": False, "output_bias": True},
        "deep encoder": {"num_layers": 3, "num_decoder_layers": 1},
        "small epsilon": {"norm_eps": 1e-6},
    }
    return together | single | choices


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([text for pair in embedded_split("valid")[:100] for text in (pair.source, pair.target)], 340)


@pytest.mark.slow
@pytest.mark.parametrize("changes", variants("marian").values(), ids=variants("marian"))
@torch.inference_mode()
def test_every_layout_goes_out_and_comes_back(changes: dict, tokenizer, tmp_path: Path):
    translator = random_translator(replace(PORTABLE, **changes), tokenizer)
    save_marian(translator, tmp_path / "marian")
    source = pad_sequences(random_sources(translator, 10)[:6], 0)
    target = torch.randint(4, 340, (6, 9))
    expected = translator.model(source, target)
    assert (their_logits(theirs(tmp_path / "marian"), source, target) - expected).abs().max() < LOGITS
    back = load_marian(tmp_path / "marian", "cpu")
    assert (back.model(source, target) - expected).abs().max() < LOGITS
    kept = {*SETTINGS, "vocab_size", "start_id", "activation"} - {"source_vocab_size", "num_decoder_layers"}
    assert all(getattr(back.model.config, name) == getattr(translator.model.config, name) for name in kept)
    assert back.notes["source"] == "en"
    # GNMT's penalty has no place there
    assert back.search == {"beam_size": 4, "length_penalty": 1.0, "penalty": "power", "stop": "bound"}
    texts = [pair.source for pair in embedded_split("test")[:50]]
    assert tokenize(back.tokenizer, texts) == tokenize(tokenizer, texts)
    known = their_tokenizer(tmp_path / "marian")
    assert [known(text).input_ids for text in texts] == tokenize(tokenizer, texts)


@pytest.mark.parametrize("changes", variants("ctranslate2").values(), ids=variants("ctranslate2"))
def test_ctranslate2_scores_outputs_as_we_do(changes: dict, tokenizer, tmp_path: Path):
    """Log-probabilities of given outputs, not only the likeliest tokens: they show a wrong epsilon or start too."""
    translator = random_translator(replace(PORTABLE, **changes), tokenizer)
    save_ctranslate2(translator, tmp_path / "model")
    engine = ctranslate2.Translator(str(tmp_path / "model"), compute_type="float32", intra_threads=1)
    sources, config = random_sources(translator, 10)[:6], translator.model.config
    outputs = [[*(i for i in source[::-1] if i > 3), config.end_id] for source in sources]
    pieces = list(vocabularies(tokenizer)[0])
    given = [source[:-1] if config.end_id == tokenizer.eos_id else source for source in sources]  # it adds its own end
    words = [[[pieces[i] for i in row] for row in side] for side in (given, [row[:-1] for row in outputs])]
    totals = [sum(scores.log_probs) for scores in engine.score_batch(*words)]
    source, target = (pad_sequences(side, config.pad_id) for side in (sources, outputs))
    shifted = torch.cat([torch.full((len(target), 1), config.start_id), target[:, :-1]], dim=1)
    with torch.inference_mode():  # there, blocked tokens have no share of the probability
        own = block_special_tokens(translator.model, translator.model(source, shifted)).log_softmax(dim=-1)
    chosen = own.gather(-1, target[:, :, None])[..., 0].masked_fill(target == config.pad_id, 0.0)
    assert totals == pytest.approx(chosen.sum(dim=-1).tolist(), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["own", "shared", "separate"])
@pytest.mark.parametrize("width", [1, 2])
def test_an_exported_folder_works_as_its_readers_use_it(shipped, folders, kind: str, width: int, tmp_path: Path):
    """Pieces of the SentencePiece model beside it, without an end; 2 is CTranslate2's own beam, its penalty a power."""
    translator = shipped if kind == "own" else load_marian(folders[kind == "shared"], "cpu")
    save_ctranslate2(translator, tmp_path / "model")
    names = ["tokenizer.model"] * 2 if kind == "own" else ["source.spm", "target.spm"]
    cut, join = (sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "model" / name)) for name in names)
    texts = [pair.source for pair in embedded_split("test")[:60]]
    engine = ctranslate2.Translator(str(tmp_path / "model"), intra_threads=1)
    limits = {"max_decoding_length": 40, "min_decoding_length": 0}  # by default it writes at least a token
    results = engine.translate_batch(cut.encode(texts, out_type=str), beam_size=width, **limits)
    found = [" ".join(join.decode(result.hypotheses[0]).replace("▁", " ").split()) for result in results]
    options = {"length_penalty": 1.0, "penalty": "power", "stop": "first", "limit": 40}
    assert found == translator.translate(texts, beam_size=width, **options)


@pytest.mark.slow
def test_ctranslate2_never_writes_padding(folder: Path, tmp_path: Path):
    """A padding row of zeros has the best logit where all others are negative; every system must block it."""
    translator = load_marian(folder, "cpu")
    translator.model.output.bias.data -= 12
    translator.model.output.bias.data[-1] = 0
    save_ctranslate2(translator, tmp_path / "engine")
    engine = ctranslate2.Translator(str(tmp_path / "engine"), compute_type="float32", intra_threads=1)
    pieces = {i: piece for piece, i in translator.tokenizer.vocabulary.items()}
    sources = random_sources(translator, 20)[1:]
    words = [[pieces[i] for i in source[:-1]] for source in sources]
    found = [r.hypotheses[0] for r in engine.translate_batch(words, beam_size=1, max_decoding_length=20)]
    batch = pad_sequences(sources, translator.model.config.pad_id)
    own = [[pieces[i] for i in h.tokens if i != 0] for h in greedy_search(translator.model, batch, limit=20)]
    assert found == own


def test_the_stock_converter_refuses_our_layout(shipped, tmp_path: Path):
    """It takes the last row for padding and drops it; a silent success here would be a wrong model."""
    save_marian(shipped, tmp_path / "marian")
    with pytest.raises(ValueError, match="vocabulary"):
        convert(tmp_path / "marian", tmp_path / "stock")


@pytest.mark.slow
def test_a_folder_from_outside_survives_the_round_trip(folders, tmp_path: Path):
    """Names, values and vocabularies; then the stock converter is right about it, and agrees with ours."""
    translator = load_marian(folders[True], "cpu")
    translator.model.output.bias.data[translator.model.config.pad_id] = -50.0  # never written, as in a trained model
    save_marian(translator, tmp_path / "marian")
    before, after = load_file(folders[True] / "model.safetensors"), load_file(tmp_path / "marian" / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(before[name].equal(after[name]) for name in before if name != "final_logits_bias")
    for name in ("source.spm", "target.spm"):
        assert (folders[True] / name).read_bytes() == (tmp_path / "marian" / name).read_bytes()
    assert read_json(folders[True] / "vocab.json") == read_json(tmp_path / "marian" / "vocab.json")
    convert(tmp_path / "marian", tmp_path / "stock")
    save_ctranslate2(translator, tmp_path / "ours")
    pieces = {i: piece for piece, i in translator.tokenizer.vocabulary.items()}
    sources = random_sources(translator, 20)[1:]  # CTranslate2 does not translate nothing
    outputs = []
    for name, end in (("stock", None), ("ours", -1)):  # ours ends a source by itself
        engine = ctranslate2.Translator(str(tmp_path / name), compute_type="float32", intra_threads=1)
        words = [[pieces[i] for i in source[:end]] for source in sources]
        results = engine.translate_batch(words, beam_size=1, max_decoding_length=30)
        outputs.append([result.hypotheses[0] for result in results])
    assert outputs[0] == outputs[1]
    batch = pad_sequences(sources, translator.model.config.pad_id)
    own = [[i for i in h.tokens if i != 0] for h in greedy_search(translator.model, batch, limit=30)]
    assert [[pieces[i] for i in row] for row in own] == outputs[1]
    assert [row + [0] * (len(row) < 30) for row in own] == generate(theirs(tmp_path / "marian"), batch, 30, num_beams=1)


def test_separate_vocabularies_survive_too(folders, tmp_path: Path):
    save_marian(load_marian(folders[False], "cpu"), tmp_path / "marian")
    for name in ("vocab.json", "target_vocab.json"):
        assert read_json(folders[False] / name) == read_json(tmp_path / "marian" / name)
    known = their_tokenizer(tmp_path / "marian")
    assert known("The child sleeps.").input_ids == their_tokenizer(folders[False])("The child sleeps.").input_ids


@pytest.mark.slow
@torch.inference_mode()
def test_our_own_folder_format_keeps_an_imported_model(folders, tmp_path: Path):
    for shared, name in ((True, "shared"), (False, "separate")):
        translator = load_marian(folders[shared], "cpu")
        translator.save(tmp_path / name)
        back = Translator.load(tmp_path / name, "cpu")
        assert isinstance(back.tokenizer, PairTokenizer)
        assert back.search == translator.search
        assert back.model.config == translator.model.config
        texts = [pair.source for pair in embedded_split("test")[:5]]
        assert back.translate(texts, beam_size=1) == translator.translate(texts, beam_size=1)


def test_channels_are_renumbered_where_a_tensor_has_them():
    tensor = torch.arange(6.0)[None].expand(4, 6)
    part = "encoder.layers.0.feed_forward"
    assert to_concatenated(f"{part}.inner.weight", tensor, 6)[0].tolist() == [0, 2, 4, 1, 3, 5]
    assert to_concatenated(f"{part}.outer.weight", tensor.T, 6)[:, 0].tolist() == [0, 2, 4, 1, 3, 5]
    bias = torch.arange(6.0)
    assert to_concatenated(f"{part}.inner.bias", bias, 6) is bias


def refusal(form: str, translator: Translator, folder: Path) -> str:
    """What an export says that writes nothing."""
    with pytest.raises(InputError) as caught:
        FORMATS[form][0](translator, folder / "exported")
    assert list(folder.iterdir()) == []
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("form", "name"), [(form, name) for form, names in REFUSED.items() for name in sorted(names)])
def test_what_a_format_cannot_express_is_refused(form: str, name: str, tokenizer, tmp_path: Path):
    value = OTHERS[name][name]
    said = refusal(form, random_translator(replace(PORTABLE, **OTHERS[name]), tokenizer), tmp_path)
    assert re.fullmatch(message("format-cannot-express", ..., name, repr(value)), said)


@pytest.mark.parametrize("form", FORMATS)
def test_every_option_has_its_place_in_every_format(form: str, tokenizer):
    """A new field of TransformerConfig is written, does not matter, or is refused; somebody has to decide which."""
    assert form in TABLES, f"format {form!r} has no table of what it can express: add it to TABLES in this file"
    limits = option_limits(random_translator(PORTABLE, tokenizer), TABLES[form])
    names = {field.name for field in fields(TransformerConfig)}
    for name in sorted(names):
        assert name in limits, f"can {form} express {name!r}? Say so in the cell `limits` of chapter 90"
        assert name in OTHERS, f"give {name!r} another value in OTHERS in this file, and say in REFUSED who refuses it"
    assert set(limits) == set(OTHERS) == names


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("option", CHOICES)
def test_a_choice_that_a_format_does_not_know_is_refused(form: str, option: str, tokenizer, tmp_path: Path):
    """Also one that was added to the list today; the message names those that the format can express."""
    translator = random_translator(PORTABLE, tokenizer)
    translator.model.config = copy.copy(PORTABLE)
    object.__setattr__(translator.model.config, option, "new")
    fit = ", ".join(TABLES[form][option])
    assert re.fullmatch(
        message("format-cannot-express", ..., option, "'new'", fit), refusal(form, translator, tmp_path)
    )


def test_every_name_of_an_activation_is_read(folder: Path):
    for ours, names in ACTIVATION_NAMES.items():
        assert ours in ACTIVATIONS
        for name in names:
            change("config.json", activation_function=name)(folder)
            assert load_marian(folder, "cpu").model.config.activation == ours
    assert "silu" in ACTIVATION_NAMES["swish"]  # the other name that transformers has for it


def test_an_option_that_no_table_knows_may_only_have_its_default(tokenizer, tmp_path: Path, monkeypatch):
    monkeypatch.delitem(CTRANSLATE2, "scale_embeddings")
    save_ctranslate2(random_translator(PORTABLE, tokenizer), tmp_path / "default")
    (tmp_path / "empty").mkdir()
    other = random_translator(replace(PORTABLE, scale_embeddings=False), tokenizer)
    assert (
        refusal("ctranslate2", other, tmp_path / "empty")
        == "CTranslate2 cannot express scale_embeddings False (only True)"
    )


def test_the_end_may_have_another_number_in_the_target_s_list(folders, tmp_path: Path):
    """With separate lists, the padding's number is the source's, the end's is the target's."""
    old = load_marian(folders[False], "cpu")
    numbers, pieces = dict(old.tokenizer.target_vocabulary), {n: p for p, n in old.tokenizer.target_vocabulary.items()}
    numbers["</s>"], numbers[pieces[7]] = 7, numbers["</s>"]
    tokenizer = PairTokenizer(old.tokenizer.models, old.tokenizer.vocabulary, numbers, old.tokenizer.special)
    save_marian(Translator(Transformer(replace(old.model.config, end_id=7)), tokenizer), tmp_path / "marian")
    assert load_marian(tmp_path / "marian", "cpu").model.config.end_id == 7


# Bad input


def change(name: str, **values) -> Callable[[Path], None]:
    return lambda folder: write_json(folder / name, read_json(folder / name) | values)


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def put(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content)


def tensors(edit: Callable[[dict], object]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        found = load_file(folder / "model.safetensors")
        edit(found)
        save_file(found, folder / "model.safetensors")

    return spoil


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def truncated(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def vocabulary(edit: Callable[[dict], object]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        pieces = read_json(folder / "vocab.json")
        edit(pieces)
        write_json(folder / "vocab.json", pieces)

    return spoil


BAD = {
    "empty": (lambda folder: [path.unlink() for path in folder.iterdir()], message("file-unreadable", "config.json")),
    "config foreign": (change("config.json", model_type="bart"), message("marian-foreign", "config.json", "'bart'")),
    "config text": (put("config.json", b"hello"), message("not-json", "config.json")),
    "config list": (put("config.json", b"[]"), message("marian-not-settings", "config.json", "list")),
    "config value missing": (change("config.json", d_model=None),
        message("marian-setting-missing", "config.json", "d_model")),
    "config text for number": (change("config.json", d_model="64"),
        message("marian-setting-type", "config.json", "d_model", "'64'", "a whole number")),
    "activation": (change("config.json", activation_function="gelu_new"),
        message("marian-activation", "config.json", "'gelu_new'")),
    "layout": (change("config.json", normalize_before=True),
        message("marian-unsupported", "config.json", "normalize_before", True, False)),
    "learned positions": (change("config.json", static_position_embeddings=False),
        message("marian-unsupported", "config.json", "static_position_embeddings", False, True)),
    "heads differ": (change("config.json", decoder_attention_heads=1),
        message("marian-unsupported", "config.json", "decoder_attention_heads", 1)),
    "inner layers differ": (change("config.json", decoder_ffn_dim=8),
        message("marian-unsupported", "config.json", "decoder_ffn_dim", 8)),
    "half a head": (change("config.json", encoder_attention_heads=3, decoder_attention_heads=3),
        message("marian-setting-refused", "config.json", "d_model 64 is no multiple of num_heads 3: give d_k and d_v")),
    "several ends": (change("config.json", eos_token_id=[0, 1]),
        message("marian-setting-type", "config.json", "eos_token_id", [0, 1], "a whole number")),
    "end elsewhere": (change("config.json", eos_token_id=5),
        message("marian-token-elsewhere", "config.json", "eos_token_id", 5, 0)),
    "padding elsewhere": (change("config.json", pad_token_id=5),
        message("marian-token-elsewhere", "config.json", "pad_token_id", 5)),
    "start outside": (change("config.json", decoder_start_token_id=10**6),
        message("marian-token-id", "config.json", "decoder_start_token_id", 1000000)),
    "fewer rows": (change("config.json", vocab_size=50, decoder_vocab_size=50),
        message("marian-token-id", "config.json", "pad_token_id")),
    "pickle": (pickled, message("marian-pickle", "pytorch_model.bin")),
    "pickle renamed": (put("model.safetensors", b"PK\x03\x04" * 50),
        message("not-safetensors", "model.safetensors")),
    "no weights": (remove("model.safetensors"), message("tensors-not-there", "model.safetensors")),
    "shards": (lambda folder: (remove("model.safetensors")(folder), put("model.safetensors.index.json", b"{}")(folder)),
        message("marian-shards", "model.safetensors")),
    "truncated": (truncated, message("not-safetensors", "model.safetensors")),
    "tensor missing": (tensors(lambda t: t.pop("model.encoder.layers.1.fc1.bias")),
        message("marian-tensor-missing", "model.safetensors", "model.encoder.layers.1.fc1.bias")),
    "tensor foreign": (tensors(lambda t: t.update(adapter=torch.ones(1))),
        message("marian-tensor-unknown", "model.safetensors", "adapter")),
    "shape": (tensors(lambda t: t.update({"model.decoder.layers.0.fc2.weight": torch.ones(256, 64)})),
        message("marian-tensor-shape", "model.safetensors", "model.decoder.layers.0.fc2.weight", [256, 64], [64, 256])),
    "layers without end": (change("config.json", encoder_layers=10**9),
        message("model-size", "model.safetensors")),
    "activation in a list": (change("config.json", activation_function=["relu"]),
        message("marian-activation", "config.json", ["relu"])),
    "size in letters": (change("config.json", decoder_vocab_size="no"),
        message("marian-vocabulary-size", "config.json", "'no'")),
    "deep list": (put("vocab.json", b"[" * 100_000), message("vocabulary-too-deep", "vocab.json")),
    "bias shape": (tensors(lambda t: t.update(final_logits_bias=torch.ones(1, 4))),
        message("marian-tensor-shape", "model.safetensors", "final_logits_bias", [1, 4])),
    "not finite": (tensors(lambda t: t["model.shared.weight"].fill_(float("nan"))),
        message("weights-not-finite", "model.safetensors", "model.shared.weight")),
    "two matrices": (tensors(lambda t: t.update({"lm_head.weight": t["model.shared.weight"] + 1})),
        message("marian-two-matrices", "model.safetensors", "lm_head.weight", "model.shared.weight")),
    "positions": (tensors(lambda t: t.update({"model.encoder.embed_positions.weight": torch.ones(9, 64)})),
        message("marian-learned-positions", "model.safetensors", "model.encoder.embed_positions.weight")),
    "vocabulary missing": (remove("vocab.json"), message("tokenizer-missing", "vocab.json")),
    "vocabulary text": (put("vocab.json", b"a b"), message("vocabulary-not-json", "vocab.json")),
    "vocabulary list": (put("vocab.json", b'["a"]'), message("pieces-not-a-list")),
    "vocabulary too short": (vocabulary(dict.popitem), message("piece-missing", "<pad>")),
    "id twice": (vocabulary(lambda pieces: pieces.update({"<unk>": 0})),
        message("pieces-ids", "vocab.json: two pieces have the id 0")),
    "id missing": (vocabulary(lambda pieces: pieces.update({"<unk>": 9999})),
        message("pieces-ids", "vocab.json: no piece has the id 1")),
    "one piece more": (vocabulary(lambda pieces: pieces.update({"<new>": len(pieces)})),
        message("marian-pieces", "vocab.json")),
    "no end": (vocabulary(lambda pieces: pieces.update({"x": pieces.pop("</s>")})), message("piece-missing", "</s>")),
    "model missing": (remove("source.spm"), message("tokenizer-missing", "source.spm")),
    "model text": (put("target.spm", b"pieces"),
        message("tokenizer-refused", "target.spm", TEXTS["not-sentencepiece"])),
    "target vocabulary missing": (change("tokenizer_config.json", separate_vocabs=True),
        message("tokenizer-missing", "target_vocab.json")),
    "beams": (change("generation_config.json", num_beams="four"),
        message("marian-beams", "generation_config.json", "'four'")),
    "penalty": (change("generation_config.json", length_penalty=True),
        message("marian-length-penalty", "generation_config.json", True)),
    "token dictionary": (change("tokenizer_config.json", pad_token={"x": 1}),
        message("marian-token", "tokenizer_config.json", "pad_token", {"x": 1})),
    "token list": (change("tokenizer_config.json", eos_token=["a"]),
        message("marian-token", "tokenizer_config.json", "eos_token", ["a"])),
    "token unknown": (change("tokenizer_config.json", unk_token="<u>"), message("piece-missing", "<u>")),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "says"), BAD.values(), ids=BAD)
def test_bad_folders_get_one_line(folder: Path, spoil: Callable, says: str):
    spoil(folder)
    with pytest.raises(InputError, match=f"{says}$") as caught:
        load_marian(folder, "cpu")
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


def test_no_folder(tmp_path: Path):
    with refused("marian-folder-missing", tmp_path / "nowhere"):
        load_marian(tmp_path / "nowhere")


# The command line


@pytest.mark.slow
def test_import_translate_and_export(folder: Path, tmp_path: Path, capsys, monkeypatch):
    model, again, engine = (tmp_path / name for name in ("model", "again", "engine"))
    write_json(folder / "generation_config.json", {"num_beams": 2, "do_sample": True})
    assert main(["import-marian", str(folder), str(model)]) == 0
    said = capsys.readouterr().err
    assert "settings of" in said
    assert "do_sample" in said
    assert "parameters is in" in said
    assert main(["info", str(model)]) == 0
    assert "'beam_size': 2" in capsys.readouterr().out
    texts = [pair.source for pair in embedded_split("test")[:3]]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(texts).encode())))
    assert main(["translate", str(model), "--device", "cpu"]) == 0
    assert capsys.readouterr().out.splitlines() == load_marian(folder, "cpu").translate(texts)
    assert main(["export", "--format", "marian", str(model), str(again)]) == 0
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("to use it: ")
    assert all(f'{name}.from_pretrained("{again}")' in said for name in ("MarianMTModel", "MarianTokenizer"))
    assert read_json(again / "vocab.json") == read_json(folder / "vocab.json")
    assert main(["export", "--format", "ctranslate2", str(model), str(engine)]) == 0
    assert (engine / "model.bin").exists()
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f'to use it: ctranslate2.Translator("{engine}")')
    assert "cuts with source.spm in that folder" in said
    assert said.endswith("joined with target.spm")
    assert main(["export", "--format", "ctranslate2", "embedded", str(tmp_path / "own")]) == 0
    assert capsys.readouterr().err.count("tokenizer.model") == 2
    assert (tmp_path / "own" / "tokenizer.model").read_bytes() == (SHIPPED / "tokenizer.model").read_bytes()
    for command in (["import-marian", folder, model], ["export", "--format", "ctranslate2", model, engine]):
        assert main([str(word) for word in command]) == 1
        assert "holds a model already" in capsys.readouterr().err


def test_a_bad_folder_leaves_no_model_behind(folder: Path, tmp_path: Path, capsys):
    truncated(folder)
    assert main(["import-marian", str(folder), str(tmp_path / "model")]) == 1
    assert capsys.readouterr().err.startswith(
        f"annotated import-marian: {folder / 'model.safetensors'}: not a readable"
    )
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
def test_nothing_here_needs_the_optional_packages(folder: Path, tmp_path: Path):
    """Marian folders are read and written without transformers and CTranslate2; the export to the latter says so."""
    program = f"""
import sys
sys.modules.update(transformers=None, ctranslate2=None)
import annotated
from annotated.formats.ctranslate2 import save_ctranslate2
translator = annotated.load_marian({str(folder)!r}, "cpu")
annotated.save_marian(translator, {str(tmp_path / "out")!r})
print(len(translator.translate(["The child sleeps."], beam_size=1)))
try:
    save_ctranslate2(translator, {str(tmp_path / "engine")!r})
except annotated.InputError as error:
    print(error)
"""
    options = {"capture_output": True, "text": True, "cwd": ROOT, "timeout": limits.PROCESS}
    done = subprocess.run([sys.executable, "-c", program], **options)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(f"1\n{message('export-not-installed')}\n", done.stdout)
    assert not (tmp_path / "engine").exists()


def test_json_of_the_vocabulary_is_what_marian_tokenizer_reads(folders):
    assert json.loads((folders[True] / "vocab.json").read_text(encoding="utf-8"))["</s>"] == 0
