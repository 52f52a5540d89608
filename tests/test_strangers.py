"""Input from strangers (chapter 94): whatever a file or a text holds, it is used, or refused in one line."""

from __future__ import annotations

import dataclasses
import json
import math
import string
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from annotated.base.files import InputError, read_json, read_manifest, read_tensors
from annotated.model import TransformerConfig
from annotated.parsing import read_trees
from annotated.runs.checkpoint import config_from, load_weights, weights_of
from annotated.search.translation import Translator
from annotated.text.corpora import read_lines, read_tsv
from annotated.text.grammar.splits import canonical_text, read_canonical
from annotated.text.tokenization import Tokenizer, detokenize, tokenize, train_tokenizer
from annotated.training import TrainingConfig
from tools.faults import TEXTS, small_model

TEXT = st.text(max_size=60)  # of all of Unicode but lone surrogates, which UTF-8 does not have
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3))
GOOD = dataclasses.asdict(TransformerConfig(40, d_model=8, d_ff=16, num_heads=2, num_layers=1))
FIELDS = get_type_hints(TrainingConfig)

few = settings(max_examples=60)


def used_or_refused(read: Callable[[], Any]) -> Any:
    """What a reader returns, or None when it refuses in one line; anything else it raises is a fault."""
    try:
        return read()
    except InputError as error:
        said = str(error)
    assert len(said) > 10
    assert "\n" not in said
    return None


@cache
def translator() -> Translator:
    tokenizer = train_tokenizer(TEXTS, 300)
    return Translator(small_model(len(tokenizer)), tokenizer)


def tokenizer() -> Tokenizer:
    return translator().tokenizer


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("strangers")


@few
@given(content=st.binary(max_size=80))
@example(content=b"\xef\xbb\xbf")
@example(content=b"a\tb\r\n\tc\n")
def test_any_bytes_as_a_corpus(place: Path, content: bytes):
    path = place / "pairs.tsv"
    path.write_bytes(content)
    lines, pairs = used_or_refused(lambda: read_lines(path)), used_or_refused(lambda: read_tsv(path))
    assert lines is None or not any("\n" in line for line in lines)
    assert pairs is None or len(pairs) <= len(lines)


@pytest.mark.slow
@few
@given(content=st.binary(max_size=80) | JSON.map(lambda value: json.dumps(value).encode()))
@example(content=b"[" * 100_000)
@example(content=b'{"version": 1, "files": {"../secret": {"size": 1, "sha256": "00"}}}')
def test_any_bytes_as_json_and_as_a_manifest(place: Path, content: bytes):
    path = place / "manifest.json"
    path.write_bytes(content)
    used_or_refused(lambda: read_json(path))
    files = used_or_refused(lambda: read_manifest(path))
    assert files is None or all(Path(name).name == name for name in files)


@few
@given(values=JSON | st.tuples(st.sampled_from(sorted(GOOD)), LEAVES).map(lambda pair: GOOD | dict([pair])))
@example(values=GOOD | {"num_layers": 10**9})
@example(values=GOOD | {"tie_output": "no"})
def test_any_values_as_a_model_s_configuration(values: Any):
    """What is taken is what was written; nothing is built from it here."""
    config = used_or_refused(lambda: config_from(values, "config.json"))
    if config is not None:
        assert all(getattr(config, name) == value for name, value in values.items())


@few
@given(st.sampled_from(sorted(FIELDS.items())).flatmap(lambda one: st.tuples(st.just(one[0]), st.from_type(one[1]))))
@example(("rate_factor", math.nan))
@example(("checkpoint_minutes", math.nan))
def test_any_value_as_an_option_of_training(one: tuple[str, Any]):
    """A value of its kind is taken, or refused by name."""
    name, value = one
    try:
        TrainingConfig(**{"max_steps": 1} | dict([one]))
    except ValueError as error:
        said = str(error)
        assert name in said
    else:
        assert value == value, "no number was taken for one"


@pytest.mark.slow
@few
@given(
    cut=st.floats(0, 1),
    at=st.floats(0, 0.999),
    byte=st.integers(0, 255),
    shape=st.lists(st.integers(0, 2**62), max_size=3),
)
def test_any_damage_to_weights(place: Path, cut: float, at: float, byte: int, shape: list[int]):
    """A file is cut, has another byte, or says another shape; what still loads has the model's own tensors."""
    model = small_model()
    whole = save(weights_of(model))
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    header[min(header)]["shape"] = shape
    said = json.dumps(header).encode()
    damaged = bytearray(whole)
    damaged[int(at * len(whole))] = byte
    for content in (
        whole[: int(cut * len(whole))], bytes(damaged), len(said).to_bytes(8, "little") + said + whole[8 + length :]
    ):  # fmt: skip
        path = place / "model.safetensors"
        path.write_bytes(content)
        tensors = used_or_refused(lambda path=path: read_tensors(path))
        if tensors is not None:
            used_or_refused(lambda tensors=tensors, path=path: load_weights(model, tensors, path))


@few
@given(texts=st.lists(TEXT, max_size=4))
@example(texts=["\x00", "</s>", "<pad>", "\u2028", "ﬁ", "e\u0301" * 20])
def test_any_text_as_tokens(texts: list[str]):
    """Ids lie within the vocabulary, none of them special; nothing comes back as more than a line."""
    ids = tokenize(tokenizer(), texts)
    assert len(ids) == len(texts)
    assert all(3 < number < len(tokenizer()) for row in ids for number in row[:-1])
    assert all(row[-1] == tokenizer().eos_id for row in ids)
    assert len(detokenize(tokenizer(), ids)) == len(texts)


@pytest.mark.slow
@settings(max_examples=12)
@given(texts=st.lists(TEXT, max_size=3))
@example(texts=["", " ", "\x0b\x0c", "a\u2028b"])
def test_any_text_is_translated_into_one_line(texts: list[str]):
    outputs = translator().translate(texts, beam_size=1, max_tokens=500)
    assert len(outputs) == len(texts)
    assert not any(len(output.splitlines()) > 1 for output in outputs)


@pytest.mark.slow
@few
@given(text=st.text(alphabet="() \nSNPx", max_size=40) | TEXT)
@example(text="(" * 50_000)
def test_any_text_as_trees(text: str):
    trees = used_or_refused(lambda: read_trees(text))
    assert trees is None or [tree for one in trees for tree in read_trees(str(one))] == trees


@few
@given(text=st.text(alphabet=string.ascii_letters + "\t\n-; 1", max_size=60))
def test_any_text_as_the_corpus_that_is_kept(text: str):
    """What is read is what would be written; everything else is a ValueError, upon which the corpus is made anew."""
    try:
        pairs = read_canonical(text)
    except ValueError:
        return
    assert read_canonical(canonical_text(pairs)) == pairs
