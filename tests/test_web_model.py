"""The model in the page (book/web/model) computes what the package does: tokens, logits, searches and interventions."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from annotated.base.corpus import SentencePair
from annotated.batching import pad_sequences
from annotated.interventions import edited, head_means, moved, silenced
from annotated.model import Transformer, TransformerConfig
from annotated.runs.checkpoint import save_model
from annotated.runs.examples import batch_all, tokenize_pairs
from annotated.search.beam import beam_search, greedy_search
from annotated.search.translation import Translator
from annotated.text.grammar.splits import embedded_split
from annotated.text.tokenization import load_tokenizer, tokenize, train_tokenizer
from tests.node import answered
from tests.scripts import strings

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "data" / "models" / "embedded"
SPLITS = ("test", "pronoun", "novel")


def ask(*tasks: dict[str, Any], folder: Path = SHIPPED) -> list[Any]:
    """What the engine answers, under node."""
    return answered("engine", {"folder": str(folder), "tasks": tasks})


@pytest.fixture(scope="module")
def shipped() -> Translator:
    return Translator.load(str(SHIPPED), "cpu", accelerated=False)


def strange_texts(count: int) -> list[str]:
    """Sentences, and strings of every kind: markup, emoji, combining and right-to-left marks, control characters."""
    draw = random.Random(5)
    known = [pair.source for pair in embedded_split("valid")[:150]] + [
        pair.target for pair in embedded_split("test")[:150]
    ]
    pools = [
        "abcdefghijklmnopqrstuvwxyzäöüßÄÖÜ .,!?'-", "<b>&amp;</b> \t\n\r\v\f", "😀👩\u200d👩\u200d👧🏳️\u200d🌈❤️",
        "שלוםعربي\u200f\u200e ", "ﬁﬀ①½㎏Åẞ™…　Ⅳⅻªº²", "e\u0301 n\u0303 a\u0300\u0327\u0301", "漢字かなカナ한글ﾊﾝｶｸ",
        "\u200b\u200c\u200d\ufeff\u00ad\u2028\u2029\u00a0\x00\x01\x7f\ufffd▁", "<s></s><unk><0x41>",
    ]  # fmt: skip
    texts = [*known, "", " ", "  ", "▁", "▁▁a", "a" * 10_000, " ".join(known)[:10_000], "A\u030a\u0327" * 50]
    while len(texts) < count:
        size, pool = draw.choice([1, 2, 5, 20, 60]), draw.choice([*pools, "".join(pools)])
        text = "".join(draw.choice(pool) for _ in range(size))
        if draw.random() < 0.15:
            text = "".join(
                chr(code) for code in draw.choices(range(32, 0x2FFFF), k=size) if not 0xD800 <= code < 0xE000
            )
        if draw.random() < 0.3:
            text = draw.choice(known)[: draw.randint(0, 30)] + text + draw.choice(known)[: draw.randint(0, 30)]
        texts.append(text)
    return texts


@pytest.mark.slow
def test_the_tokenizer_is_sentencepieces(shipped: Translator):
    """2,000 strings have the same ids, and ids, also those that no text has, the same text."""
    texts, draw = strange_texts(2000), random.Random(6)
    ids = [shipped.tokenizer.processor.encode(text) for text in texts]
    drawn = [draw.choices(range(len(shipped.tokenizer)), k=draw.randint(1, 12)) for _ in range(500)]
    found, back = ask({"ask": "encode", "texts": texts}, {"ask": "decode", "ids": [*ids, *drawn]})
    wrong = [text[:60] for text, one, other in zip(texts, ids, found, strict=True) if one != other]
    assert not wrong
    expected = [shipped.tokenizer.processor.decode(each) for each in [*ids, *drawn]]
    assert [pair for pair in zip(back, expected, strict=True) if pair[0] != pair[1]] == []


@pytest.mark.slow
@pytest.mark.parametrize(("size", "rule"), [(700, "identity"), ("characters", "identity"), (700, "nfkc")])
def test_the_tokenizer_follows_the_rule_of_the_model(tmp_path: Path, size: int | str, rule: str):
    """Any script: the same ids and the same text as the package, with text as it stands and with NFKC."""
    texts = [pair.target for pair in embedded_split("test")[:300]]
    own = train_tokenizer([*texts, "80 m²", "两只大猫，"], size, rule)
    model = Transformer(TransformerConfig(len(own), d_model=8, d_ff=8, num_heads=1, num_layers=1))
    save_model(model, tmp_path, own)
    some = [*strings(1500), *strange_texts(600), "  two  blanks  "]
    ids = [own.to_ids(text) for text in some]
    found, back = ask({"ask": "encode", "texts": some}, {"ask": "decode", "ids": ids}, folder=tmp_path)
    assert [text[:60] for text, one, other in zip(some, ids, found, strict=True) if one != other] == []
    assert [pair for pair in zip(back, map(own.to_text, ids), strict=True) if pair[0] != pair[1]] == []


@pytest.mark.slow
def test_searches_are_the_packages(shipped: Translator):
    """28 sentences, greedy and with a beam of 4: the same tokens, scores within 1e-4."""
    pairs = [pair for split, count in zip(SPLITS, (10, 10, 8), strict=True) for pair in embedded_split(split)[:count]]
    texts = [pair.source for pair in pairs]
    greedy, beam = ask(
        {"ask": "translate", "texts": texts, "options": {"width": 1}},
        {"ask": "translate", "texts": texts, "options": {"width": 4, "alpha": 0.6}},
    )
    source = pad_sequences(tokenize(shipped.tokenizer, texts), shipped.model.config.pad_id)
    best, winners = (
        greedy_search(shipped.model, source),
        beam_search(shipped.model, source, beam_size=4, length_penalty=0.6),
    )
    for one, four, (expected,), (winner,) in zip(greedy, beam, best, winners, strict=True):
        assert one["tokens"] == expected.tokens
        assert one["logProbability"] == pytest.approx(expected.log_probability, abs=1e-4)
        assert four["tokens"] == winner.tokens
        assert four["score"] == pytest.approx(winner.score, abs=1e-4)


@pytest.mark.slow
def test_the_beams_tree(shipped: Translator):
    """Every hypothesis hangs from one that was kept, at most `width` go on at a step, and the others are pruned."""
    (tree,) = ask({"ask": "tree", "text": "The radio wakes the dog because it is very loud.", "options": {"width": 3}})
    assert tree[0] == {"parent": -1, "token": 2, "kept": True, "finished": False}
    for node in tree[1:]:
        assert tree[node["parent"]]["kept"]
        assert not tree[node["parent"]]["finished"]
        assert not node["finished"] or node["token"] == shipped.tokenizer.eos_id
    assert any(not node["kept"] for node in tree)
    assert any(node["finished"] for node in tree)


def twins(count: int, tokenizer: Any) -> list[tuple[SentencePair, SentencePair, list[int]]]:
    """Sentences with their twins, which have as many tokens, and the German that they begin with."""
    pairs, found = embedded_split("pronoun"), []
    for n, pair in enumerate(pairs):
        twin = pairs[n ^ 1]
        ours, theirs = tokenize(tokenizer, [pair.target, twin.target], target=True)
        same = len(tokenizer.to_ids(pair.source)) == len(tokenizer.to_ids(twin.source))
        at = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
        found += [(pair, twin, ours[:at])] if same else []
    return found[:count]


SENTENCES = 5
CROSS = {"kind": "cross", "layer": 1, "head": 3, "query": 2, "key": 1, "weight": 0.75}


def overwrite(weights: Tensor) -> Tensor:
    """What CROSS says: one weight of a whole map, or of the step that decodes its query."""
    new, rest = weights.clone(), 1 - weights[:, 3, 2, 1]
    new[:, 3, 2] *= ((1 - 0.75) / rest)[:, None]
    new[:, 3, 2, 1] = 0.75
    return new


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zero", "mean", "overwrite", "weights", "values", "both", "moved", "none"])
def test_interventions_are_the_packages(shipped: Translator, kind: str):
    """Each kind on 5 sentences: the logits of the next word after a prefix, within 1e-3, and the translation."""
    model, tokenizer = shipped.model, shipped.tokenizer
    heads = [("encoder", 1, 3), ("cross", 1, 2), ("decoder", 0, 1)]
    valid = batch_all(tokenize_pairs(tokenizer, embedded_split("valid")[:60], 256), 4096)
    means = head_means(model, valid) if kind == "mean" else {}
    as_json = {name: tensor.tolist() for name, tensor in means.items()}
    named = [dict(zip(("kind", "layer", "head"), head, strict=True)) for head in heads]
    parts = {"weights": ["weights"], "values": ["values"], "both": ["weights", "values"]}.get(kind)
    where = [{"kind": "encoder", "layer": layer} for layer in (0, 1)]
    options = {
        "zero": {"silence": named}, "mean": {"silence": named, "means": as_json}, "overwrite": {"overwrite": [CROSS]},
        "moved": {"offset": 3}, "none": {},
    }.get(kind, {"paste": {"where": where, "parts": parts}})  # fmt: skip
    cases = twins(SENTENCES, tokenizer)
    tasks = [
        {"ask": "changed", "text": pair.source, "twin": twin.source, "prefix": prefix, **options}
        for pair, twin, prefix in cases
    ]
    source, other = (
        pad_sequences(tokenize(tokenizer, [case[n].source for case in cases]), model.config.pad_id) for n in (0, 1)
    )
    target = pad_sequences([[model.config.start_id, *prefix] for _, _, prefix in cases], model.config.pad_id)
    if kind in ("zero", "mean"):
        change = silenced(model, heads, by=means if kind == "mean" else None)
    elif kind == "moved":
        change = moved(model, 3)
    elif kind == "overwrite":
        change = edited(model, weights={("cross", 1): overwrite})
    else:
        change = edited(model, **borrowed(model, other, target, parts or ()))
    with torch.no_grad(), change:
        logits = model(source, target)
        best = [()] * len(cases) if kind == "overwrite" else greedy_search(model, source)
    for n, (found, expected) in enumerate(zip(ask(*tasks), best, strict=True)):
        assert np.abs(np.array(found["last"]) - logits[n, len(cases[n][2])].numpy()).max() < 1e-3
        assert found["left"] == 0, "an edit stayed behind"
        for hypothesis in expected:
            assert found["free"]["tokens"] == hypothesis.tokens
            assert found["free"]["logProbability"] == pytest.approx(hypothesis.log_probability, abs=1e-4)


def borrowed(model: Transformer, source: Tensor, target: Tensor, parts: Any) -> dict[str, Any]:
    """Edits that put weights or values of another sentence into the encoder."""
    kept: dict[Any, Tensor] = {}

    def keep(key: Any, x: Tensor) -> Tensor:
        kept[key] = x
        return x

    places = [("encoder", layer) for layer in (0, 1)]
    with torch.no_grad(), edited(model, **{p: {at: lambda x, k=(p, at): keep(k, x) for at in places} for p in parts}):
        model(source, target)
    return {part: {at: lambda _, key=(part, at): kept[key] for at in places} for part in parts}


VARIANTS = [
    {"norm_first": True, "activation": "gelu", "positions": "learned"},
    {"tie_embeddings": False, "tie_output": False, "output_bias": True, "attention_bias": True, "activation": "swish"},
    {"positions": "concatenated", "scale_embeddings": False, "num_decoder_layers": 2, "d_k": 6, "d_v": 10},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", VARIANTS, ids=lambda options: next(iter(options)))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_other_models_of_the_package(tmp_path: Path, options: dict[str, Any], dtype: torch.dtype):
    """Every choice of a configuration gives the package's logits, from weights in either form."""
    torch.manual_seed(1)
    config = TransformerConfig(2000, d_model=32, d_ff=48, num_heads=4, num_layers=1, max_length=64, **options)
    model = Transformer(config)
    for weight in model.parameters():
        weight.data = (weight.data + 0.05 * torch.randn_like(weight)).to(dtype).float()
    save_model(model.eval(), tmp_path, load_tokenizer(SHIPPED), dtype=dtype)
    text = "The old king sees the animal because it is tired."
    (logits,) = ask({"ask": "forward", "text": text, "target": [2, 50, 60, 70]}, folder=tmp_path)
    source = torch.tensor(tokenize(load_tokenizer(SHIPPED), [text]))
    with torch.no_grad():
        expected = model(source, torch.tensor([[2, 50, 60, 70]]))[0].numpy()
    assert np.abs(np.array(logits) - expected).max() < 1e-3


@pytest.mark.slow
def test_every_weight_matters(tmp_path: Path):
    """A model with one other tensor gives other logits: no tensor is read and then forgotten."""
    torch.manual_seed(2)
    config = TransformerConfig(2000, d_model=16, d_ff=24, num_heads=2, num_layers=1, norm_first=True, output_bias=True)
    model, tokenizer = Transformer(config).eval(), load_tokenizer(SHIPPED)
    save_model(model, tmp_path, tokenizer)
    names = list(dict(model.named_parameters()))
    for name in names:
        weight = model.get_parameter(name)
        old = weight.data.clone()
        weight.data = weight.data + 0.3 * torch.randn_like(weight)
        save_model(model, tmp_path / name, tokenizer)
        weight.data = old
    question = {"ask": "forward", "text": "The animal sleeps.", "target": [2, 9]}
    places = [tmp_path, *(tmp_path / name for name in names)]
    before, *others = ask(*(question | {"place": str(place)} for place in places), folder=tmp_path)
    for name, after in zip(names, others, strict=True):
        assert np.abs(np.array(after) - np.array(before)).max() > 1e-4, name


def content(name: str) -> bytes:
    return (SHIPPED / name).read_bytes()


def config_with(**changes: Any) -> bytes:
    config = json.loads(content("config.json"))
    return json.dumps(config | {"model": config["model"] | changes}).encode()


CUT = content("model.safetensors")[:-40]
SPOILED = [  # what is in the place of a file, and what the line names
    ("config.json", b"not json", ""),
    ("config.json", b"[]", ""),
    ("config.json", config_with(d_model=1e9), "d_model"),
    ("config.json", config_with(num_layers=-3), "num_layers"),
    ("config.json", config_with(num_layers=10**6), "num_layers"),
    ("config.json", config_with(activation="constructor"), "constructor"),
    ("tokenizer.model", b"", ""),
    ("tokenizer.model", content("tokenizer.model")[:5000], ""),
    ("model.safetensors", b"", ""),
    ("model.safetensors", CUT, ""),
    ("model.safetensors", b"\xff" * 64, ""),
    ("model.safetensors", None, ""),
    ("config.json", config_with(num_layers=4), "encoder.layers.2.self_attention.query.weight"),
    ("config.json", config_with(d_ff=1024), "feed_forward.inner.weight"),
    ("config.json", config_with(vocab_size=1999), "tokenizer.model: 2000 pieces, but config.json says 1999"),
]


@pytest.mark.slow
def test_what_is_wrong_with_a_folder_is_said_in_a_line():
    """Bring your own: absurd configurations and cut files are refused before anything is made of them."""
    tasks = [
        {"ask": "load", "replace": {name: None if bad is None else base64.b64encode(bad).decode()}}
        for name, bad, _ in SPOILED
    ]
    for (name, _, expected), found in zip(SPOILED, ask(*tasks), strict=True):
        assert expected in found, (name, found)
        assert name in found or "model.safetensors" in found or "tokenizer.model" in found, found
        assert "\n" not in found
    assert ask({"ask": "load"}) == ["loaded"]
