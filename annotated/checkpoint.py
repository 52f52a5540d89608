# Written by `make export` from book/94_nothing_lost.ipynb: do not edit here, edit the chapter.
"""Nothing lost: chapter 94 of the book."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from annotated.files import InputError, read_json, read_tensors, write_atomically, write_json
from annotated.model import Transformer, TransformerConfig
from annotated.tokenization import Tokenizer, load_tokenizer

__all__ = ["average_weights", "load_config", "load_model", "load_weights", "save_model", "save_tokenizer", "weights_of"]


# book/94_nothing_lost.ipynb#weights
def weights_of(model: torch.nn.Module) -> dict[str, Tensor]:
    """Every learned tensor by name; a shared matrix appears once.

    Defined in chapter 94: `weights`.
    """
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@torch.no_grad()
def load_weights(model: torch.nn.Module, weights: Mapping[str, Tensor], origin: object) -> None:
    """Copy `weights` into the model. Raises InputError, naming `origin` and the tensor, when they do not fit.

    Defined in chapter 94: `weights`.
    """
    own = weights_of(model)
    if missing := sorted(own.keys() - weights.keys()):
        raise InputError(f"{origin}: the tensor {missing[0]} is missing ({len(missing)} in all)")
    if foreign := sorted(weights.keys() - own.keys()):
        raise InputError(f"{origin}: {foreign[0]} is no tensor of this model ({len(foreign)} in all)")
    for name, tensor in own.items():
        if tensor.shape != weights[name].shape:
            shapes = f"{list(weights[name].shape)} instead of {list(tensor.shape)}"
            raise InputError(f"{origin}: {name} has the shape {shapes}")
    for name, tensor in own.items():
        tensor.copy_(weights[name])


# book/94_nothing_lost.ipynb#save-model
def save_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    """Write the tokenizer's file or files.

    Defined in chapter 94: `save-model`.
    """
    for name, content in tokenizer.files().items():
        write_atomically(folder / name, content)


def save_model(
    folder: Path,
    model: Transformer,
    tokenizer: Tokenizer,
    weights: Mapping[str, Tensor] | None = None,
    dtype: torch.dtype | None = None,
    **notes: Any,
) -> None:
    """Write `model.safetensors`, `config.json` and the tokenizer.

    `weights` replace the model's own (an average, say); `dtype` stores them in another precision; `notes` go into
    `config.json` beside the configuration.

    Defined in chapter 94: `save-model`.
    """
    tensors = weights_of(model) if weights is None else weights
    tensors = {name: tensor.to(dtype or tensor.dtype).contiguous().cpu() for name, tensor in tensors.items()}
    save_tokenizer(folder, tokenizer)
    write_json(folder / "config.json", {"format": "annotated-1", "model": asdict(model.config), **notes})
    write_atomically(folder / "model.safetensors", save(tensors))


# book/94_nothing_lost.ipynb#load-model
def load_config(folder: Path) -> tuple[TransformerConfig, dict]:
    """The configuration of a saved model and the notes beside it. Raises InputError for a missing or foreign file.

    Defined in chapter 94: `load-model`.
    """
    content = read_json(folder / "config.json")
    if not isinstance(content, dict) or content.get("format") != "annotated-1":
        raise InputError(f"{folder / 'config.json'}: not a configuration of this package")
    values = content.get("model", {})
    if unknown := sorted(values.keys() - {field.name for field in fields(TransformerConfig)}):
        raise InputError(f"{folder / 'config.json'}: unknown setting {unknown[0]!r}")
    try:
        return TransformerConfig(**values), content
    except (TypeError, ValueError) as error:
        raise InputError(f"{folder / 'config.json'}: {error}") from None


def load_model(folder: Path, device: torch.device | str = "cpu") -> tuple[Transformer, Tokenizer, dict]:
    """The model (in evaluation mode, float32), its tokenizer and the notes of `config.json`.

    Raises InputError, naming the file, when one is missing or does not belong to the others.

    Defined in chapter 94: `load-model`.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such model folder")
    config, notes = load_config(folder)
    tokenizer = load_tokenizer(folder)
    file = folder / list(tokenizer.files())[-1]
    sizes = {"source_vocab_size": tokenizer.source_size, "vocab_size": tokenizer.target_size}
    for name, size in sizes.items():
        if size != (wanted := getattr(config, name) or config.vocab_size):
            raise InputError(f"{file}: {size} pieces, but config.json says {wanted}")
    model = Transformer(config)
    load_weights(model, read_tensors(folder / "model.safetensors"), folder / "model.safetensors")
    return model.to(device).eval(), tokenizer, notes


# book/94_nothing_lost.ipynb#average-weights
def average_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in several safetensors files (section 6.1). Raises InputError when they differ in shape.

    Defined in chapter 94: `average-weights`.
    """
    if not paths:
        raise InputError("no checkpoints to average")
    total = {name: tensor.double() for name, tensor in read_tensors(paths[0]).items()}
    for path in paths[1:]:
        other = read_tensors(path)
        if {name: t.shape for name, t in other.items()} != {name: t.shape for name, t in total.items()}:
            raise InputError(f"{path}: not a checkpoint of the same model as {paths[0]}")
        for name, tensor in other.items():
            total[name] += tensor
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}
