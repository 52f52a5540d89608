"""Other people's weights on this code, and back (chapter 90). Nothing is downloaded: folders are made here."""

import copy
import io
import random
import shutil
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
from annotated.formats.ctranslate2 import CTRANSLATE2, save_ctranslate2
from annotated.formats.marian import (
    ACTIVATION_NAMES,
    MARIAN,
    SETTINGS,
    load_marian,
    option_limits,
    save_marian,
    vocabularies,
)
from annotated.model import CHOICES, Transformer, TransformerConfig
from annotated.search.beam import beam_search, greedy_search
from annotated.search.translation import Translator
from annotated.text.grammar.splits import embedded_split
from annotated.text.tokenization import PairTokenizer, detokenize, tokenize, train_tokenizer
from tests.models import PORTABLE, random_translator, sources_to_translate
from tools.parity import EXACT, LOGITS, SHARE, Case, compare, generate, quiet, random_sources, way_back, write_folder

SHIPPED = Path(__file__).resolve().parents[1] / "data" / "models" / "embedded"
TEXTS = [pair.source for pair in embedded_split("test")[:50]]


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
    return shutil.copytree(folders[True], tmp_path / "opus")


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


def convert(folder: Path, output: Path) -> None:
    """With CTranslate2's own converter."""
    with quiet():
        from ctranslate2.converters import TransformersConverter

        with torch.inference_mode():
            TransformersConverter(str(folder)).convert(str(output))


def their_logits(model: Any, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    mask = (source != model.config.pad_token_id).long()
    return model(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits


# Reading


@pytest.mark.slow
@pytest.mark.parametrize("case", [Case("relu", True, 2, 64), Case("swish", False, 2, 64)], ids=lambda case: case.name)
def test_logits_and_outputs_are_those_of_transformers(case: Case, tmp_path: Path):
    """The full grid, 200 inputs each, is `python -m studies.parity`."""
    result = compare(case, tmp_path / "marian", 8)
    assert result.largest_logit_difference < LOGITS
    assert result.in_double < EXACT
    assert result.logit_spread > 1
    assert result.distinct_outputs >= 4
    assert result.greedy == {"equal": 8}
    assert result.beam_without_penalty == {"equal": 8}
    assert set(result.beam) <= {"equal", "tie"}
    assert result.beam["equal"] >= 7


@pytest.mark.slow
def test_a_model_may_start_with_its_end_symbol(folder: Path):
    """As BART does: the end symbol must stay possible, or no output would ever end."""
    write_json(folder / "config.json", read_json(folder / "config.json") | {"decoder_start_token_id": 0})
    translator = load_marian(folder, "cpu")
    sources = pad_sequences(random_sources(translator, 3), translator.model.config.pad_id)
    with torch.no_grad():
        translator.model.output.bias[0] += 100.0  # as probable as can be, unless it is masked
    assert all(h.tokens[-1] == 0 for (h,) in greedy_search(translator.model, sources, limit=4))


@pytest.mark.parametrize("names", [
    ["model.encoder.embed_tokens.weight"],
    ["model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"],
])  # fmt: skip
def test_a_shared_matrix_is_found_under_any_of_its_names(folder: Path, names: list[str]):
    before = load_marian(folder, "cpu").model.target_embedding.weight
    tensors = load_file(folder / "model.safetensors")
    shared = tensors.pop("model.shared.weight")
    save_file(tensors | {name: shared.clone() for name in names}, folder / "model.safetensors")
    assert load_marian(folder, "cpu").model.target_embedding.weight.equal(before)


@pytest.mark.slow
def test_weights_may_be_halves_with_a_table_of_sinusoids_and_without_a_bias(folder: Path):
    tensors = load_file(folder / "model.safetensors")
    tensors["model.encoder.embed_positions.weight"] = theirs(folder).model.encoder.embed_positions.weight.data.clone()
    del tensors["final_logits_bias"]
    save_file({name: tensor.half() for name, tensor in tensors.items()}, folder / "model.safetensors")
    model = load_marian(folder, "cpu").model
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert model.output.bias.abs().max() == 0


# Settings of the search


def test_the_search_settings_come_with_the_folder(folder: Path):
    write_json(folder / "generation_config.json", {"num_beams": 3, "length_penalty": 0.5, "no_repeat_ngram_size": 2})
    translator = load_marian(folder, "cpu")
    assert translator.search == {"beam_size": 3, "length_penalty": 0.5, "penalty": "power", "stop": "heuristic"}
    assert translator.notes["ignored"] == ["no_repeat_ngram_size"]


@pytest.mark.slow
def test_the_search_ends_where_generate_ends_it(folder: Path):
    """Chapter 90: every output of a list is that of `generate` by the folder's own rule, for lists of every length."""
    known = theirs(folder)
    usual = read_json(folder / "generation_config.json")
    for early_stopping in (False, True, "never"):
        options = {"num_beams": 4, "length_penalty": 1.4, "early_stopping": early_stopping}
        write_json(folder / "generation_config.json", usual | options)
        translator = load_marian(folder, "cpu")
        config = translator.model.config
        batch = pad_sequences(random_sources(translator, 20, seed=3), config.pad_id)
        for n_best in (1, 4):
            own = beam_search(translator.model, batch, n_best=n_best, limit=16, **translator.search)
            rows = generate(known, batch, 16, num_return_sequences=n_best, **options)
            found = [[token for token in row if token != config.pad_id] for row in rows]
            assert [h.tokens for hypotheses in own for h in hypotheses] == found, options


def test_older_folders_have_them_in_the_configuration(folder: Path):
    (folder / "generation_config.json").unlink()
    values = read_json(folder / "config.json") | {"num_beams": 6}
    padding = [values["pad_token_id"]]
    for banned, ignored in (([padding], False), ([[5], padding], True), ([[3, 4]], True), (7, True)):
        write_json(folder / "config.json", values | {"bad_words_ids": banned})
        translator = load_marian(folder, "cpu")
        assert translator.search["beam_size"] == 6
        assert translator.search["length_penalty"] == 1.0
        assert translator.notes.get("ignored", []) == ["bad_words_ids"] * ignored


def test_a_token_may_be_written_with_its_properties(folder: Path):
    known = {"content": "<pad>", "lstrip": False, "__type": "AddedToken"}
    write_json(folder / "tokenizer_config.json", {"pad_token": known, "source_lang": "en"})
    translator = load_marian(folder, "cpu")
    assert translator.tokenizer.special[0] == "<pad>"
    assert translator.notes["source"] == "en"


# The tokenizer


def strings() -> list[str]:
    """Real texts, odd ones, and random ones from all of Unicode."""
    odd = [
        "", " ", "\t\n", "a", "😀", "👩‍👩‍👧‍👦 family", "ﬁne ﬂow", "Ⅷ ½ ²", "ＦＵＬＬ　ｗｉｄｔｈ", "e\u0301 é", "Å Å",
        "日本語のテキスト", "Привет мир", "שלום", "\u200bzero\u200dwidth", "\ufeffmark", "tab\tand\nline",
        "  many   spaces  ", "▁piece", ">>fra<< Hello", ">>de<<", ">> no code", "x >>fra<< y", ">>a<<>>b<< c", "<<>>",
        "naïve café", "…—–“”", "\x00\x01", "word " * 2000, "x" * 5000, "😀" * 300, "the" * 700, "Zürich Straße Öl",
        "1,234.5%", "a\u00a0b", "<pad", "</ s>",
    ]  # fmt: skip
    draw = random.Random(0)
    blocks = ((32, 127), (160, 600), (0x370, 0x5FF), (0x4E00, 0x5000), (0x1F300, 0x1F700), (0xFB00, 0xFF70))
    spans = [[draw.choice(blocks) for _ in range(draw.randint(1, 40))] for _ in range(200)]
    return odd + TEXTS + ["".join(chr(draw.randrange(*block)) for block in span) for span in spans]


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_ids_and_texts_are_those_of_marian_tokenizer(folders, shared: bool):
    texts = strings()
    ours, known = load_marian(folders[shared], "cpu").tokenizer, their_tokenizer(folders[shared])
    assert tokenize(ours, texts) == [known(text).input_ids for text in texts]
    assert tokenize(ours, texts, target=True) == [known(text_target=text).input_ids for text in texts]
    assert sum(ours.unk_id in ids for ids in tokenize(ours, texts)) > 50
    draw = random.Random(1)
    rows = [[draw.randrange(len(ours)) for _ in range(draw.randrange(20))] for _ in range(200)]
    assert detokenize(ours, rows) == known.batch_decode(rows, skip_special_tokens=True)


def test_special_tokens_written_in_a_text_stay_text(folders):
    """The one documented difference: MarianTokenizer would end the sentence here."""
    ours = load_marian(folders[True], "cpu").tokenizer
    assert tokenize(ours, ["The child </s> sleeps."])[0].count(ours.eos_id) == 1


# The way back


@pytest.mark.slow
def test_our_model_gives_the_same_tokens_in_transformers_and_ctranslate2(shipped, tmp_path: Path):
    """Multi30k is foreign to this model, so its outputs are odd there; they must be equal all the same."""
    corpus, texts = sources_to_translate()
    texts = texts[::25]  # all of them by `python -m studies.parity data/models/embedded`
    equal = way_back(shipped, texts, tmp_path)
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


TOKENS = {"vocab_size", "source_vocab_size", "num_heads", "d_k", "d_v"}  # no format has a place for these of OTHERS
REFUSED = {
    "marian": TOKENS | {"positions", "norm_first", "norm_eps", "pad_id", "end_id"},
    "ctranslate2": TOKENS,
}
LAYOUTS = {  # what to change in PORTABLE: together, all that both formats can express
    "paper": {},
    "biases": {"attention_bias": True, "output_bias": True, "activation": "gelu", "scale_embeddings": False},
    "nothing tied": {"tie_embeddings": False, "tie_output": False, "d_model": 48, "d_ff": 40, "num_layers": 3,
        "num_decoder_layers": 1, "max_length": 120},
    "concatenated": {"positions": "concatenated", "activation": "swish", "norm_eps": 1e-6, "start_id": 1},
}  # fmt: skip
MORE = {"pre-norm": {"norm_first": True, "norm_eps": 0.01}, "learned": {"positions": "learned"}}
MORE |= {"other ids": {"pad_id": 1, "start_id": 0}, "another end": {"end_id": 2}}


def layouts(form: str) -> dict[str, dict]:
    """By name; with each value of a choice that none of these has, if the format knows it."""
    found = LAYOUTS | (MORE if form == "ctranslate2" else {})
    for option, values in CHOICES.items():
        tried = {getattr(replace(PORTABLE, **changes), option) for changes in found.values()}
        found |= {value: {option: value} for value in values if value in TABLES[form][option] and value not in tried}
    return found


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer([text for pair in embedded_split("valid")[:100] for text in (pair.source, pair.target)], 340)


@pytest.mark.slow
@pytest.mark.parametrize("changes", layouts("marian").values(), ids=layouts("marian"))
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
    known, ids = their_tokenizer(tmp_path / "marian"), tokenize(tokenizer, TEXTS)
    assert tokenize(back.tokenizer, TEXTS) == ids == [known(text).input_ids for text in TEXTS]


@pytest.mark.parametrize("changes", layouts("ctranslate2").values(), ids=layouts("ctranslate2"))
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
@pytest.mark.parametrize(("kind", "width"), [("own", 1), ("shared", 2), ("separate", 2)])
def test_an_exported_folder_works_as_its_readers_use_it(shipped, folders, kind: str, width: int, tmp_path: Path):
    """Pieces of the SentencePiece model beside it, without an end; 2 is CTranslate2's own beam, its penalty a power."""
    translator = shipped if kind == "own" else load_marian(folders[kind == "shared"], "cpu")
    save_ctranslate2(translator, tmp_path / "model")
    names = ["tokenizer.model"] * 2 if kind == "own" else ["source.spm", "target.spm"]
    cut, join = (sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "model" / name)) for name in names)
    engine = ctranslate2.Translator(str(tmp_path / "model"), intra_threads=1)
    limits = {"max_decoding_length": 40, "min_decoding_length": 0}  # by default it writes at least a token
    results = engine.translate_batch(cut.encode(TEXTS, out_type=str), beam_size=width, **limits)
    found = [" ".join(join.decode(result.hypotheses[0]).replace("▁", " ").split()) for result in results]
    options = {"length_penalty": 1.0, "penalty": "power", "stop": "first", "limit": 40}
    assert found == translator.translate(TEXTS, beam_size=width, **options)


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
    own = [[pieces[i] for i in h.tokens if i != 0] for (h,) in greedy_search(translator.model, batch, limit=20)]
    assert found == own


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
    own = [[i for i in h.tokens if i != 0] for (h,) in greedy_search(translator.model, batch, limit=30)]
    assert [[pieces[i] for i in row] for row in own] == outputs[1]
    assert [row + [0] * (len(row) < 30) for row in own] == generate(theirs(tmp_path / "marian"), batch, 30, num_beams=1)


def test_separate_vocabularies_survive_too(folders, tmp_path: Path):
    save_marian(load_marian(folders[False], "cpu"), tmp_path / "marian")
    for name in ("vocab.json", "target_vocab.json"):
        assert read_json(folders[False] / name) == read_json(tmp_path / "marian" / name)
    text = "The child sleeps."
    known, before = (their_tokenizer(folder) for folder in (tmp_path / "marian", folders[False]))
    assert known(text).input_ids == before(text).input_ids


@torch.inference_mode()
def test_our_own_folder_format_keeps_an_imported_model(folders, tmp_path: Path):
    translator = load_marian(folders[False], "cpu")
    translator.save(tmp_path / "own")
    back = Translator.load(tmp_path / "own", "cpu")
    assert isinstance(back.tokenizer, PairTokenizer)
    assert back.search == translator.search
    assert back.model.config == translator.model.config
    assert back.translate(TEXTS[:2], beam_size=1, limit=9) == translator.translate(TEXTS[:2], beam_size=1, limit=9)


# What a format cannot express


def refusal(form: str, translator: Translator, folder: Path) -> str:
    """What an export says that writes nothing."""
    with pytest.raises(InputError) as caught:
        FORMATS[form][0](translator, folder / "exported")
    assert list(folder.iterdir()) == []
    return str(caught.value)


@pytest.mark.parametrize("form", FORMATS)
def test_what_a_format_cannot_express_is_refused(form: str, tokenizer, tmp_path: Path):
    """A new field of TransformerConfig is written, does not matter, or is refused; somebody has to decide which."""
    assert form in TABLES, f"format {form!r} has no table of what it can express: add it to TABLES in this file"
    limits = option_limits(random_translator(PORTABLE, tokenizer), TABLES[form])
    names = {field.name for field in fields(TransformerConfig)}
    for name in sorted(names):
        assert name in limits, f"can {form} express {name!r}? Say so in the cell `limits` of chapter 90"
        assert name in OTHERS, f"give {name!r} another value in OTHERS in this file, and say in REFUSED who refuses it"
    assert set(limits) == set(OTHERS) == names
    for name in REFUSED[form]:
        said = refusal(form, random_translator(replace(PORTABLE, **OTHERS[name]), tokenizer), tmp_path)
        assert f"{name} {OTHERS[name][name]!r}" in said


@pytest.mark.parametrize("form", FORMATS)
def test_a_choice_or_an_option_that_a_format_does_not_know_is_refused(
    form: str, tokenizer, tmp_path: Path, monkeypatch
):
    """Also one that was added to the list today."""
    for option in CHOICES:
        translator = random_translator(PORTABLE, tokenizer)
        translator.model.config = copy.copy(PORTABLE)
        object.__setattr__(translator.model.config, option, "new")
        assert f"{option} 'new'" in refusal(form, translator, tmp_path)
    monkeypatch.delitem(TABLES[form], "scale_embeddings")
    other = random_translator(replace(PORTABLE, scale_embeddings=False), tokenizer)
    assert "scale_embeddings False (only True)" in refusal(form, other, tmp_path)
    FORMATS[form][0](random_translator(PORTABLE, tokenizer), tmp_path / "default")


def test_every_name_of_an_activation_is_read(folder: Path):
    for ours, names in ACTIVATION_NAMES.items():
        for name in names:
            change("config.json", activation_function=name)(folder)
            assert load_marian(folder, "cpu").model.config.activation == ours


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


def no_weights(instead: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "model.safetensors").rename(folder / instead)


def vocabulary(edit: Callable[[dict], object]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        pieces = read_json(folder / "vocab.json")
        edit(pieces)
        write_json(folder / "vocab.json", pieces)

    return spoil


BAD = {  # what is wrong; what is named
    "no folder": (shutil.rmtree, ": no such folder"),
    "config foreign": (change("config.json", model_type="bart"), "config.json.*'bart'"),
    "config list": (put("config.json", b"[]"), "config.json.*list"),
    "config value missing": (change("config.json", d_model=None), "config.json: d_model"),
    "config text for number": (change("config.json", d_model="64"), "config.json: d_model is '64'"),
    "activation": (change("config.json", activation_function="gelu_new"), "config.json: .*'gelu_new'"),
    "activation in a list": (change("config.json", activation_function=["relu"]), r"config.json: .*\['relu'\]"),
    "layout": (change("config.json", normalize_before=True), "config.json: normalize_before True"),
    "heads differ": (change("config.json", decoder_attention_heads=1), "config.json: decoder_attention_heads 1"),
    "half a head": (change("config.json", encoder_attention_heads=3, decoder_attention_heads=3), "json: .*num_heads 3"),
    "end elsewhere": (change("config.json", eos_token_id=5), "config.json: eos_token_id is 5"),
    "padding elsewhere": (change("config.json", pad_token_id=5), "config.json: pad_token_id is 5"),
    "start outside": (change("config.json", decoder_start_token_id=10**6), "decoder_start_token_id 1000000"),
    "another size": (change("config.json", vocab_size=9), "config.json: vocab_size 9 and decoder_vocab_size"),
    "size in letters": (change("config.json", decoder_vocab_size="no"), "config.json: .*'no'"),
    "layers without end": (change("config.json", encoder_layers=10**9), "model.safetensors: "),
    "pickle": (no_weights("pytorch_model.bin"), "pytorch_model.bin: a pickle"),
    "shards": (no_weights("model.safetensors.index.json"), "model.safetensors: .*several files"),
    "no weights": (remove("model.safetensors"), "model.safetensors: no such file"),
    "tensor missing": (tensors(lambda t: t.pop("model.encoder.layers.1.fc1.bias")), "model.encoder.layers.1.fc1.bias"),
    "tensor foreign": (tensors(lambda t: t.update(adapter=torch.ones(1))), "model.safetensors: adapter"),
    "shape": (tensors(lambda t: t.update({"model.decoder.layers.0.fc2.weight": torch.ones(256, 64)})),
        r"model.safetensors: model.decoder.layers.0.fc2.weight .*\[256, 64\] instead of \[64, 256\]"),
    "bias shape": (tensors(lambda t: t.update(final_logits_bias=torch.ones(1, 4))), r"final_logits_bias .*\[1, 4\]"),
    "infinite": (tensors(lambda t: t["model.shared.weight"][3].fill_(float("-inf"))), "model.shared.weight"),
    "no number": (tensors(lambda t: t["model.decoder.layers.1.fc1.bias"].fill_(float("nan"))), "layers.1.fc1.bias"),
    "two matrices": (tensors(lambda t: t.update({"lm_head.weight": t["model.shared.weight"] + 1})),
        "model.safetensors: lm_head.weight .*model.shared.weight"),
    "positions": (tensors(lambda t: t.update({"model.encoder.embed_positions.weight": torch.ones(9, 64)})),
        "model.safetensors: model.encoder.embed_positions.weight"),
    "vocabulary missing": (remove("vocab.json"), "vocab.json"),
    "vocabulary text": (put("vocab.json", b"a b"), "vocab.json"),
    "vocabulary list": (put("vocab.json", b'["a"]'), "vocab.json"),
    "vocabulary deep": (put("vocab.json", b"[" * 100_000), "vocab.json"),
    "target vocabulary missing": (change("tokenizer_config.json", separate_vocabs=True), "target_vocab.json"),
    "id twice": (vocabulary(lambda pieces: pieces.update({"<unk>": 0})), "vocab.json: two pieces have the id 0"),
    "id missing": (vocabulary(lambda pieces: pieces.update({"<unk>": 9999})), "vocab.json: no piece has the id 1"),
    "one piece more": (vocabulary(lambda pieces: pieces.update({"<new>": len(pieces)})), "vocab.json: .* pieces"),
    "no end": (vocabulary(lambda pieces: pieces.update({"x": pieces.pop("</s>")})), "vocab.json: .*</s>"),
    "model missing": (remove("source.spm"), "source.spm"),
    "model text": (put("target.spm", b"pieces"), "target.spm"),
    "beams": (change("generation_config.json", num_beams="four"), "generation_config.json: num_beams 'four'"),
    "penalty": (change("generation_config.json", length_penalty=True), "generation_config.json: length_penalty True"),
    "early stopping": (change("generation_config.json", early_stopping="soon"), "generation_config.json: .*'soon'"),
    "stopping in a list": (change("generation_config.json", early_stopping=[1]), r"generation_config.json: .*\[1\]"),
    "token": (change("tokenizer_config.json", pad_token={"x": 1}), "tokenizer_config.json: pad_token {'x': 1}"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "named"), BAD.values(), ids=BAD)
def test_bad_folders_get_one_line(folder: Path, spoil: Callable, named: str):
    spoil(folder)
    with pytest.raises(InputError, match=f"^{folder}.*{named}") as caught:
        load_marian(folder, "cpu")
    assert "\n" not in str(caught.value)


# The command line


@pytest.mark.slow
def test_import_translate_and_export(folder: Path, tmp_path: Path, capsys, monkeypatch):
    model, again, engine = (tmp_path / name for name in ("model", "again", "engine"))
    write_json(folder / "generation_config.json", {"num_beams": 2, "do_sample": True})
    assert main(["import-marian", str(folder), "--output", str(model)]) == 0
    assert "do_sample" in capsys.readouterr().err
    assert main(["info", str(model)]) == 0
    assert "'beam_size': 2" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(TEXTS[:3]).encode())))
    assert main(["translate", str(model), "--device", "cpu"]) == 0
    assert capsys.readouterr().out.splitlines() == load_marian(folder, "cpu").translate(TEXTS[:3])
    assert main(["export", "--format", "marian", str(model), "--output", str(again)]) == 0
    assert read_json(again / "vocab.json") == read_json(folder / "vocab.json")
    said = capsys.readouterr().err.splitlines()[-1]
    assert all(f'{name}.from_pretrained("{again}")' in said for name in ("MarianMTModel", "MarianTokenizer"))
    assert main(["export", "--format", "ctranslate2", str(model), "--output", str(engine)]) == 0
    assert (engine / "model.bin").exists()
    said = capsys.readouterr().err.splitlines()[-1]
    assert all(part in said for part in (f'ctranslate2.Translator("{engine}")', "source.spm", "target.spm"))
    assert main(["export", "--format", "ctranslate2", "embedded", "--output", str(tmp_path / "own")]) == 0
    assert capsys.readouterr().err.count("tokenizer.model") == 2
    assert (tmp_path / "own" / "tokenizer.model").read_bytes() == (SHIPPED / "tokenizer.model").read_bytes()
    for command in (["import-marian", folder], ["export", "--format", "ctranslate2", model]):
        assert main([str(word) for word in (*command, "--output", engine)]) == 1
        assert "holds a model already" in capsys.readouterr().err


def test_a_bad_folder_leaves_no_model_behind(folder: Path, tmp_path: Path, capsys):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])
    assert main(["import-marian", str(folder), "--output", str(tmp_path / "model")]) == 1
    assert str(folder / "model.safetensors") in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_nothing_here_needs_the_optional_packages(folder: Path, tmp_path: Path, monkeypatch):
    """Marian folders are read and written without transformers and CTranslate2; the export to the latter says so."""
    for name in {"transformers", "ctranslate2", *sys.modules}:
        if name.partition(".")[0] in ("transformers", "ctranslate2"):
            monkeypatch.setitem(sys.modules, name, None)
    translator = load_marian(folder, "cpu")
    save_marian(translator, tmp_path / "out")
    with pytest.raises(InputError, match="not installed"):
        save_ctranslate2(translator, tmp_path / "engine")
    assert not (tmp_path / "engine").exists()
