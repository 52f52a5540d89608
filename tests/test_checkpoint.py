"""Saving and loading: whole files or none, nothing foreign, nothing unpickled (design: a saved model is a folder)."""

import copy
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from annotated.base.files import InputError, read_json, read_tensors, write_json
from annotated.model import Transformer, TransformerConfig
from annotated.runs import checkpoint
from annotated.runs.checkpoint import (
    average_weights,
    load_model,
    load_weights,
    load_with_tokenizer,
    num_weights,
    save_model,
    weights_of,
)
from annotated.runs.state import new_state, save_checkpoint
from annotated.text.tokenization import Tokenizer, train_tokenizer
from annotated.training import TrainingConfig
from annotated.variations import RotaryAttention

TEXTS = [f"the dog number {i} sees a cat and der Hund sieht eine Katze" for i in range(30)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(TEXTS, 300)


def small_model(vocab_size: int = 300, **changes) -> Transformer:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1} | changes
    return Transformer(TransformerConfig(vocab_size, **sizes))


@pytest.fixture
def folder(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    save_model(small_model(), tmp_path / "model", tokenizer, corpus="tiny")
    return tmp_path / "model"


@pytest.fixture
def unlisted(folder: Path) -> Path:
    """A model folder without a manifest, as one from a stranger: what is wrong in it has to be found otherwise."""
    (folder / "manifest.json").unlink()
    return folder


def test_a_saved_model_comes_back_equal(folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder.parent)
    for place in (folder, "model"):  # by its name, too
        model, loaded, notes = load_model(place)
        assert notes["corpus"] == "tiny"
        assert loaded.model == tokenizer.model
        assert not model.training
        for name, tensor in weights_of(small_model()).items():
            assert torch.equal(weights_of(model)[name], tensor), name
    with pytest.raises(InputError, match="nowhere"):
        load_model("nowhere")


def test_a_model_on_numbers_needs_no_tokenizer(tmp_path: Path):
    """Chapter 94: the folder says that there is none, so that a lost file is still a lost file."""
    save_model(small_model(), tmp_path / "model", step=3)
    assert not (tmp_path / "model" / "tokenizer.model").exists()
    _, tokenizer, notes = load_model(tmp_path / "model")
    assert tokenizer is None
    assert (notes.keys(), notes["step"]) == ({"format", "model", "step"}, 3)
    with pytest.raises(InputError, match=str(tmp_path / "model")):
        load_with_tokenizer(tmp_path / "model")


def test_the_books_own_model_has_a_name():
    loaded = load_model("embedded")
    assert loaded == (loaded.model, loaded.tokenizer, loaded.notes)
    assert loaded.tokenizer.decode(loaded.tokenizer.encode("Der Hund schläft.")) == "Der Hund schläft."


@pytest.mark.parametrize("part", ["attention", "layers", "class"])
def test_a_model_that_could_not_be_made_again_is_not_saved(tmp_path: Path, part: str):
    """E4: what `load_model` would refuse, or make another model of, is refused before anything is written."""
    model = small_model()
    layer = model.decoder.layers[0]
    if part == "attention":
        layer.self_attention = torch.nn.Linear(16, 16)
    elif part == "layers":
        model.encoder.layers.append(copy.deepcopy(model.encoder.layers[0]))
    else:
        layer.self_attention.__class__ = RotaryAttention
    with pytest.raises(InputError, match=r"(encoder\.layers\.1|decoder\.layers\.0\.self_attention) is"):
        save_model(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_tokenizer_that_was_there_before_is_not_taken(folder: Path, tokenizer: Tokenizer):
    """A model saved over another one has its own tokenizer, or none, whatever file lies there."""
    save_model(small_model(), folder)
    assert (folder / "tokenizer.model").exists()
    assert load_model(folder)[1] is None
    save_model(small_model(), folder, tokenizer)
    assert load_with_tokenizer(folder)[1].model == tokenizer.model


def test_a_shared_matrix_is_stored_once_and_shared_again(folder: Path):
    """C-3.4-c: one matrix serves both embeddings and the output."""
    names = read_tensors(folder / "model.safetensors").keys()
    assert [name for name in names if "embedding" in name or name == "output.weight"] == ["target_embedding.weight"]
    model = load_model(folder)[0]
    assert model.source_embedding.weight is model.target_embedding.weight is model.output.weight


def test_half_precision_halves_the_file_and_loads_as_float32(folder: Path, tokenizer: Tokenizer, tmp_path: Path):
    save_model(small_model(), tmp_path / "half", tokenizer, dtype=torch.float16)
    sizes = [(path / "model.safetensors").stat().st_size for path in (tmp_path / "half", folder)]
    assert sizes[0] < 0.6 * sizes[1]
    weights = weights_of(load_model(tmp_path / "half")[0])
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert all(torch.allclose(weights[k], v, atol=2e-3) for k, v in weights_of(small_model()).items())


@pytest.mark.parametrize("content", [None, b"\x80\x04 something else entirely"])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.model"])
def test_a_missing_or_foreign_file_is_named(unlisted: Path, name: str, content: bytes | None):
    (unlisted / name).unlink()
    if content:
        (unlisted / name).write_bytes(content)
    with pytest.raises(InputError, match=str(unlisted / name)) as caught:
        load_model(unlisted)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"d_modell": 16}, "config.json: .*'d_modell'"),
        ({"num_heads": 0}, "config.json: num_heads"),
        ({"num_layers": 10**9}, "model.safetensors: "),
        ({"d_model": 2**40}, "model.safetensors: "),
        ({"tie_output": "no"}, "config.json: tie_output is 'no'"),
        ({"num_heads": True}, "config.json: num_heads is True"),
        ({"dropout": "0.1"}, "config.json: dropout is '0.1'"),
    ],
)
def test_settings_are_looked_at_before_anything_is_built(unlisted: Path, change: dict, named: str):
    content = read_json(unlisted / "config.json")
    write_json(unlisted / "config.json", content | {"model": content["model"] | change})
    with pytest.raises(InputError, match=named):
        load_model(unlisted)


@pytest.mark.parametrize("content", [{"model_type": "marian"}, {"format": "annotated-1", "model": []}, []])
def test_a_configuration_of_another_program(unlisted: Path, content: object):
    write_json(unlisted / "config.json", content)
    with pytest.raises(InputError, match=str(unlisted / "config.json")):
        load_model(unlisted)


def test_a_whole_number_may_stand_for_another(unlisted: Path):
    content = read_json(unlisted / "config.json")
    write_json(unlisted / "config.json", content | {"model": content["model"] | {"dropout": 0}})
    assert load_model(unlisted)[0].config.dropout == 0.0


def test_a_tokenizer_of_another_model(unlisted: Path):
    (unlisted / "tokenizer.model").write_bytes(train_tokenizer(TEXTS, 290).model)
    with pytest.raises(InputError, match=r"tokenizer\.model: 290 .* 300"):
        load_model(unlisted)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"encoder.layers.0.feed_forward.inner.bias": None}, "file: .*encoder.layers.0.feed_forward.inner.bias"),
        ({"extra": torch.zeros(1)}, "file: extra"),
        ({"target_embedding.weight": torch.zeros(2, 2)}, r"file: target_embedding.weight .*\[2, 2\] .* \[300, 16\]"),
        ({"target_embedding.weight": torch.zeros(300, 16).long()}, "file: target_embedding.weight .*int64"),
    ],
)
def test_weights_that_do_not_fit_are_named_and_change_nothing(changes: dict, named: str):
    model = small_model()
    before = {name: tensor.clone() for name, tensor in weights_of(model).items()}
    given = {name: torch.full_like(tensor, 7.0) for name, tensor in before.items()} | changes
    with pytest.raises(InputError, match=named):
        load_weights(model, {name: tensor for name, tensor in given.items() if tensor is not None}, "file")
    assert all(torch.equal(weights_of(model)[name], tensor) for name, tensor in before.items())


def test_averaging_is_the_mean_of_each_weight(tmp_path: Path):
    """C-6.1-e: the paper tests the mean of the last checkpoints."""
    torch.manual_seed(0)
    parts = [{"a": torch.randn(3, 2), "b": torch.randn(4)} for _ in range(5)]
    paths = [tmp_path / f"{i}.safetensors" for i in range(5)]
    for part, path in zip(parts, paths, strict=True):
        save_file(part, path)
    mean = average_weights(paths)
    for name in ("a", "b"):
        torch.testing.assert_close(mean[name], sum(part[name] for part in parts) / 5)


def test_averaging_refuses_another_model(tmp_path: Path):
    one, two = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    save_file({"a": torch.zeros(2)}, one)
    save_file({"a": torch.zeros(3)}, two)
    with pytest.raises(InputError, match=f"{two}.*{one}"):
        average_weights([one, two])
    with pytest.raises(InputError):
        average_weights([])


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"num_layers": 3, "num_decoder_layers": 1}, {"norm_first": True, "attention_bias": True},
        {"positions": "learned", "max_length": 20}, {"d_k": 3, "d_v": 5}, {"output_bias": True, "tie_output": False},
        {"tie_embeddings": False, "source_vocab_size": 70},
    ],
)  # fmt: skip
def test_weights_are_counted_without_a_model(changes: dict):
    model = small_model(**changes)
    assert num_weights(model.config) == model.num_parameters()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_are_neither_saved_nor_loaded(unlisted: Path, tokenizer: Tokenizer, value: float):
    model, before = small_model(), (unlisted / "model.safetensors").read_bytes()
    with torch.no_grad():
        model.target_embedding.weight[7, 3] = value
    with pytest.raises(InputError, match=r"model.safetensors: target_embedding\.weight"):
        save_model(model, unlisted, tokenizer)
    assert (unlisted / "model.safetensors").read_bytes() == before
    tensors = {name: tensor.contiguous() for name, tensor in weights_of(model).items()}
    save_file(tensors, unlisted / "model.safetensors")
    with pytest.raises(InputError, match=r"model.safetensors: target_embedding\.weight"):
        load_model(unlisted)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_checkpoint_that_is_not_finite_is_not_written(tmp_path: Path, value: float):
    """Neither of the weights nor of their average."""
    state = new_state(small_model(), TrainingConfig(max_steps=1, average_decay=0.9))
    save_checkpoint(tmp_path, state, keep=2)
    for weights in (state.average, weights_of(state.model)):
        weights["target_embedding.weight"][7, 3] = value
        state.step += 1
        with pytest.raises(InputError, match=r"target_embedding\.weight"):
            save_checkpoint(tmp_path, state, keep=2)
        weights["target_embedding.weight"][7, 3] = 0.0
    assert {path.stem for path in (tmp_path / "checkpoints").iterdir()} == {"step-0000000"}


def test_weights_that_overflow_in_half_precision_are_not_saved(folder: Path, tokenizer: Tokenizer):
    model = small_model()
    with torch.no_grad():
        model.target_embedding.weight[7, 3] = 1e6
    with pytest.raises(InputError, match=r"target_embedding\.weight"):
        save_model(model, folder, tokenizer, dtype=torch.float16)


def test_a_damaged_model_is_named_and_an_earlier_one_offered(folder: Path):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match=str(folder / "model.safetensors")) as caught:
        load_model(folder)
    assert "checkpoints" not in str(caught.value)
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "step-0000005.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=f"{folder / 'model.safetensors'}: .*{folder / 'checkpoints'}"):
        load_model(folder)


def test_a_reader_follows_a_writer(folder: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    """A model that is replaced while it is being read is read again, and not called damaged."""
    real, count = checkpoint.load_tokenizer, []

    def slow(*place: Path) -> Tokenizer:
        if not count:
            count.append(1)
            save_model(small_model(d_model=32), folder, tokenizer, step=2)
        return real(*place)

    monkeypatch.setattr(checkpoint, "load_tokenizer", slow)
    model, _, notes = load_model(folder)
    assert (notes["step"], model.config.d_model) == (2, 32)


def test_a_compiled_model_is_saved_as_what_it_is(tmp_path: Path):
    """nanoGPT#325's kind: names that begin with `_orig_mod.` fit no model."""
    model = Transformer(TransformerConfig(20, d_model=8, d_ff=8, num_heads=1, num_layers=1))
    save_model(torch.compile(model), tmp_path)
    back, _, _ = load_model(tmp_path)
    assert torch.equal(back.output.weight, model.output.weight)
    load_weights(torch.compile(back), weights_of(model), "model")
