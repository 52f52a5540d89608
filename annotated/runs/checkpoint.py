"""Models in folders: saved, loaded, averaged."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from importlib.resources import files
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args

import torch
from safetensors.torch import save
from torch import Tensor

from annotated.base.files import (
    InputError,
    current,
    json_bytes,
    manifest_of,
    read_json,
    read_tensors,
    verify,
    write_together,
)
from annotated.machine.acceleration import PLAIN
from annotated.model import Transformer, TransformerConfig
from annotated.text.tokenization import Tokenizer, load_tokenizer

__all__ = [
    "average_weights",
    "build",
    "SavedModel",
    "check_described",
    "check_finite",
    "find_model",
    "load_config",
    "load_model",
    "load_weights",
    "load_with_tokenizer",
    "own_tokenizer",
    "save_model",
    "uncompiled",
    "weights_of",
]


KEEP_OWN = "`load_model` could not make it. Keep parts of your own by `torch.save(model.state_dict(), ...)`."
SAME_FOLDER = "Take weights and `config.json` from the same folder."


def uncompiled(model: torch.nn.Module) -> torch.nn.Module:
    """The model itself, where `torch.compile` has wrapped it."""
    return getattr(model, "_orig_mod", model)


def weights_of(model: torch.nn.Module) -> dict[str, Tensor]:
    """Every learned tensor by name; a shared matrix appears once."""
    return {name: parameter.detach() for name, parameter in uncompiled(model).named_parameters()}


@torch.no_grad()
def load_weights(model: torch.nn.Module, weights: Mapping[str, Tensor], origin: object) -> None:
    """Copy `weights` into the model. Raises InputError, naming `origin` and the tensor, when they do not fit."""
    own = weights_of(model)
    if missing := sorted(own.keys() - weights.keys()):
        raise InputError(f"{origin}: the tensor {missing[0]} is missing ({len(missing)} in all)", SAME_FOLDER)
    if foreign := sorted(weights.keys() - own.keys()):
        raise InputError(f"{origin}: {foreign[0]} is no tensor of this model ({len(foreign)} in all)", SAME_FOLDER)
    for name, tensor in own.items():
        if tensor.shape != weights[name].shape:
            shapes = f"{list(weights[name].shape)} instead of {list(tensor.shape)}"
            raise InputError(f"{origin}: {name} has the shape {shapes}", SAME_FOLDER)
        if not weights[name].is_floating_point():
            raise InputError(
                f"{origin}: {name} holds no floating-point numbers, but {weights[name].dtype}",
                "Save the weights as numbers of 32 or 16 bits; quantised ones cannot be read.",
            )
    for name, tensor in own.items():
        tensor.copy_(weights[name])


def save_model(
    model: torch.nn.Module,
    folder: str | Path,
    tokenizer: Tokenizer | None = None,
    weights: Mapping[str, Tensor] | None = None,
    dtype: torch.dtype | None = None,
    **notes: Any,
) -> None:
    """Write `model.safetensors`, `config.json`, the tokenizer and their manifest, all or none.

    The model is a `Transformer`, compiled or not. One that works on token ids alone needs no tokenizer; `config.json`
    then says that there is none. `weights` replace the model's own (an average, say); `dtype` stores them in another
    precision; `notes` go into `config.json` beside the configuration. Raises InputError when a weight is not finite,
    and for a model that its configuration does not describe, which `load_model` could not make.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"save_model(model, folder): {model!r} is no model")
    tensors = weights_of(model) if weights is None else weights
    check_described(model)
    tensors = {name: tensor.to(dtype or tensor.dtype).contiguous().cpu() for name, tensor in tensors.items()}
    check_finite(tensors, Path(folder) / "model.safetensors")
    config = {"format": "annotated-1", "model": asdict(model.config), **notes}
    if tokenizer is None:
        config["tokenizer"] = None  # not forgotten: there is none
    contents = {} if tokenizer is None else tokenizer.files()
    contents |= {"config.json": json_bytes(config)}
    write_together(Path(folder), contents | {"model.safetensors": save(tensors)})


def check_described(model: torch.nn.Module) -> None:
    """Raise InputError, naming the first part that differs, unless the model's configuration makes such a model."""
    config = getattr(uncompiled(model), "config", None)
    if not isinstance(config, TransformerConfig):
        raise InputError(f"a model with a TransformerConfig is needed, not {type(model).__name__}", KEEP_OWN)
    with torch.device("meta"):
        made = Transformer(config)
    own, wanted = (parts_of(uncompiled(one)) for one in (model, made))
    if odd := [name for name in own | wanted if own.get(name) != wanted.get(name)]:
        here, there = (found.get(odd[0], "nothing") for found in (own, wanted))
        raise InputError(
            f"the model is not what its configuration describes: {odd[0]} is {here}, not {there}", KEEP_OWN
        )


def parts_of(model: torch.nn.Module) -> dict[str, str]:
    """Every module of a model with its class, the plain one where it has a faster one, and every weight's shape."""
    found = {name: PLAIN.get(type(module), type(module)).__qualname__ for name, module in model.named_modules()}
    return found | {name: str(list(weight.shape)) for name, weight in weights_of(model).items()}


def check_finite(tensors: Mapping[str, Tensor], origin: object) -> None:
    """Raise InputError, naming `origin` and the tensor, when a weight is infinite or no number."""
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise InputError(
                f"{origin}: {name} has values that are not finite; such weights are of no use",
                "Training went astray: take an earlier checkpoint, and train with a lower rate.",
            )


def config_from(values: Any, origin: object) -> TransformerConfig:
    """A configuration from what a file says. Raises InputError, naming `origin` and the setting that is wrong."""
    if not isinstance(values, dict):
        raise InputError(
            f"{origin}: 'model' holds no settings", "Take the `config.json` that was saved with the model."
        )
    known = {field.name: get_args(field.type) or (field.type,) for field in fields(TransformerConfig)}
    found = dict(values)
    for name, value in values.items():
        if name not in known:
            raise InputError(
                f"{origin}: unknown setting {name!r}",
                "Look for a slip of the pen; a newer version may have written the file, and is needed then.",
            )
        if type(value) is int and float in known[name] and abs(value) < 2**53:
            found[name] = float(value)
        elif type(value) not in known[name]:
            kinds = " or ".join(kind.__name__ for kind in known[name] if kind is not NoneType)
            raise InputError(
                f"{origin}: {name} is {value!r}, not of the type {kinds}",
                "Correct it, or take the `config.json` that was saved with the model.",
            )
    try:
        return TransformerConfig(**found)
    except (TypeError, ValueError) as error:
        raise InputError(f"{origin}: {error}") from None


def load_config(folder: Path) -> tuple[TransformerConfig, dict]:
    """The configuration of a saved model and the notes beside it. Raises InputError for a missing or foreign file."""
    path = current(folder, "config.json")
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != "annotated-1":
        raise InputError(
            f"{path}: not a configuration of this package",
            "A Marian model is read by `annotated import-marian`, a Llama, Mistral or Qwen by `annotated write`.",
        )
    return config_from(content.get("model", {}), path), content


def build(
    config: TransformerConfig, tensors: Mapping[str, Tensor], origin: object, absent: int | None = None
) -> Transformer:
    """A model for these weights, which is made only after their number has been looked at.

    Raises InputError, naming `origin`, when the configuration asks for another number of weights than the
    file has; with `absent`, for more than so many beyond those of the file, which may hold others, too.
    """
    count, stored = num_weights(config), sum(tensor.numel() for tensor in tensors.values())
    if count != stored if absent is None else count > stored + absent:
        raise InputError(
            f"{origin}: {stored:,} numbers there, but config.json describes a model of {count:,}", SAME_FOLDER
        )
    return Transformer(config)


def num_weights(config: TransformerConfig) -> int:
    """How many weights a model of these sizes has, without making it."""
    d, bias = config.d_model, config.attention_bias
    d_k, d_v = (size or d // config.num_heads for size in (config.d_k, config.d_v))
    widths = (d_k * config.num_heads, d_k * config.num_heads, d_v * config.num_heads)
    attention = sum(d * width + bias * width for width in widths) + widths[2] * d + bias * d
    feed_forward, norm = 2 * d * config.d_ff + config.d_ff + d, 2 * d
    decoder_layers = config.num_layers if config.num_decoder_layers is None else config.num_decoder_layers
    layers = config.num_layers * (attention + feed_forward + 2 * norm)
    layers += decoder_layers * (2 * attention + feed_forward + 3 * norm) + 2 * norm * config.norm_first
    tables = config.vocab_size + (0 if config.tie_embeddings else config.source_vocab_size or config.vocab_size)
    tables += (0 if config.tie_output else config.vocab_size) + 2 * config.max_length * (config.positions == "learned")
    return layers + tables * d + config.vocab_size * config.output_bias


class SavedModel(NamedTuple):
    """What a model folder holds."""

    model: Transformer  # in evaluation mode, float32
    tokenizer: Tokenizer | None  # None where the model was saved without one
    notes: dict[str, Any]  # of `config.json`


def find_model(name: str | Path) -> Path:
    """The model folder of that name, else, for `embedded`, the book's own model, which comes with the package.

    An installed package holds it in `models`; in a clone it lies in `data/models`, beside the package.
    Raises InputError when there is none.
    """
    places, package = [Path()], Path(str(files("annotated")))
    if str(name) == "embedded":
        places += [package / "models", package.parent / "data" / "models"]
    for place in places:
        if (place / name).is_dir():
            return place / name
    raise InputError(
        f"{name}: no such model folder here; the installed package carries one, named embedded",
        "Check the path: a model is the folder that `annotated train` wrote to, not a file in it. Or write `embedded`.",
    )


def load_model(folder: str | Path, device: torch.device | str = "cpu") -> SavedModel:
    """The model in a folder, or `embedded`, with its tokenizer and the notes of its `config.json`.

    Raises InputError, naming the file, when one is missing, is not what was written, or does not belong to the others.
    """
    folder = find_model(folder)
    while True:
        before = manifest_of(folder)
        try:
            model, tokenizer, notes = read_model(folder)
            return SavedModel(model.to(device).eval(), tokenizer, notes)
        except InputError as error:
            if manifest_of(folder) != before:
                continue  # a training run has saved a better model meanwhile
            whole = sorted((folder / "checkpoints").glob("step-*.safetensors"))
            offer = f"; an earlier one is in {whole[-1].parent}: see annotated average" if whole else ""
            raise InputError(f"{error}{offer}", error.todo) from None


def own_tokenizer(folder: Path, notes: dict) -> Tokenizer | None:
    """The tokenizer of a saved model; None where `config.json` says so, which no longer stands in `notes` then.

    Raises InputError, naming the file, when it is missing or something else.
    """
    return load_tokenizer(folder) if notes.pop("tokenizer", "") is not None else None


def load_with_tokenizer(folder: str | Path, device: torch.device | str = "cpu") -> tuple[Transformer, Tokenizer, dict]:
    """`load_model` for who has text. Raises InputError, naming the folder, for a model without a tokenizer, too."""
    model, tokenizer, notes = load_model(folder, device)
    if tokenizer is None:
        raise InputError(
            f"{folder}: no tokenizer in this folder: load_model and beam_search work on its token ids",
            "It is a model of numbers: no text goes in or out.",
        )
    return model, tokenizer, notes


def read_model(folder: Path) -> tuple[Transformer, Tokenizer | None, dict]:
    """`load_model` in one attempt."""
    verify(folder)
    config, notes = load_config(folder)
    tokenizer = own_tokenizer(folder, notes)
    if tokenizer is not None:
        file = folder / list(tokenizer.files())[-1]
        sizes = {"source_vocab_size": tokenizer.source_size, "vocab_size": tokenizer.target_size}
        for name, size in sizes.items():
            if size != (wanted := getattr(config, name) or config.vocab_size):
                raise InputError(
                    f"{file}: {size} pieces, but config.json says {wanted}",
                    "Take the tokenizer and `config.json` from the same folder.",
                )
    path = current(folder, "model.safetensors")
    tensors = read_tensors(path)
    model = build(config, tensors, path)
    check_finite(tensors, path)
    load_weights(model, tensors, path)
    return model, tokenizer, notes


def average_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in several safetensors files (section 6.1). Raises InputError where shapes differ."""
    if not paths:
        raise InputError("no checkpoints to average")
    total = {name: tensor.double() for name, tensor in read_tensors(paths[0]).items()}
    for path in paths[1:]:
        other = read_tensors(path)
        if {name: t.shape for name, t in other.items()} != {name: t.shape for name, t in total.items()}:
            raise InputError(
                f"{path}: not a checkpoint of the same model as {paths[0]}", "Average checkpoints of one run only."
            )
        for name, tensor in other.items():
            total[name] += tensor
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}
