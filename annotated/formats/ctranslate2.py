"""Models for the engine CTranslate2, written."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from annotated.base.files import InputError
from annotated.formats.marian import FREE, check_options, vocabularies
from annotated.model import Transformer, TransformerConfig
from annotated.search.translation import Translator

__all__ = ["save_ctranslate2"]


CTRANSLATE2 = FREE | dict.fromkeys(("norm_first", "norm_eps", "pad_id", "end_id")) | {
    "activation": {"relu": "RELU", "swish": "SWISH", "gelu": "GELU"},  # ours: theirs
    "positions": ("sinusoidal", "concatenated", "learned"),  # it stores any table
}  # fmt: skip


def fill_linear(spec: Any, *layers: nn.Module) -> None:
    """Give CTranslate2 the weights of a linear layer, or of several that it runs as one."""
    spec.weight = torch.cat([layer.weight for layer in layers]).detach().cpu().numpy()
    if layers[0].bias is not None:
        spec.bias = torch.cat([layer.bias for layer in layers]).detach().cpu().numpy()


def fill_norm(spec: Any, norm: nn.Module) -> None:
    """Give CTranslate2 the weights of a layer normalisation."""
    spec.gamma, spec.beta = norm.weight.detach().cpu().numpy(), norm.bias.detach().cpu().numpy()


def fill_stack(spec: Any, stack: nn.Module, config: TransformerConfig) -> None:
    """Give CTranslate2 the weights of an encoder or a decoder."""
    if config.norm_first:
        fill_norm(spec.layer_norm, stack.final_norm)
    for known, layer in zip(spec.layer, stack.layers, strict=True):
        attention = layer.self_attention
        fill_linear(known.self_attention.linear[0], attention.query, attention.key, attention.value)
        fill_linear(known.self_attention.linear[1], attention.output)
        fill_norm(known.self_attention.layer_norm, layer.around_self_attention.norm)
        if (cross := getattr(layer, "cross_attention", None)) is not None:
            parts = ((cross.query,), (cross.key, cross.value), (cross.output,))
            for linear, layers in zip(known.attention.linear, parts, strict=True):
                fill_linear(linear, *layers)
            fill_norm(known.attention.layer_norm, layer.around_cross_attention.norm)
        fill_linear(known.ffn.linear_0, layer.feed_forward.inner)
        fill_linear(known.ffn.linear_1, layer.feed_forward.outer)
        fill_norm(known.ffn.layer_norm, layer.around_feed_forward.norm)


def ctranslate2_spec(model: Transformer) -> Any:
    """The model as CTranslate2 describes it, still without vocabularies."""
    from ctranslate2.specs import common_spec, transformer_spec

    config = model.config
    spec = transformer_spec.TransformerSpec.from_config(
        (len(model.encoder.layers), len(model.decoder.layers)),
        config.num_heads,
        pre_norm=config.norm_first,
        activation=common_spec.Activation[CTRANSLATE2["activation"][config.activation]],
    )
    nothing = torch.zeros(1, config.max_length, config.d_model, device=model.target_embedding.weight.device)
    for part, known, embedding, positions in (
        (spec.encoder, spec.encoder.embeddings[0], model.source_embedding, model.source_positions),
        (spec.decoder, spec.decoder.embeddings, model.target_embedding, model.target_positions),
    ):
        known.weight = embedding.weight.detach().cpu().numpy()
        part.scale_embeddings = embedding.scale
        part.position_encodings.encodings = positions(nothing)[0].detach().cpu().numpy()
    fill_stack(spec.encoder, model.encoder, config)
    fill_stack(spec.decoder, model.decoder, config)
    fill_linear(spec.decoder.projection, model.output)
    bias = torch.zeros(config.vocab_size) if model.output.bias is None else model.output.bias.detach().cpu().clone()
    bias[list({config.pad_id, config.start_id} - {config.end_id})] = torch.finfo(torch.float16).min  # as in chapter 60
    spec.decoder.projection.bias = bias.numpy()
    return spec


def save_ctranslate2(translator: Translator, folder: str | Path) -> None:
    """Write a translator for CTranslate2, which needs the package `ctranslate2`, and the tokenizer's files beside it.

    The engine adds the end to a source by itself: it takes the pieces that SentencePiece makes, as they are.
    Raises InputError when that is not installed, or when the model has something that the format cannot express.
    """
    folder, config = Path(folder), translator.model.config
    check_options(translator, "CTranslate2", CTRANSLATE2)
    try:
        spec = ctranslate2_spec(translator.model)
    except ImportError:
        raise InputError('the package ctranslate2 is not installed: pip install "annotated-attention[fast]"') from None
    source, target = (sorted(ids, key=ids.__getitem__) for ids in vocabularies(translator.tokenizer))
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.layer_norm_epsilon = config.norm_eps
    spec.config.decoder_start_token, spec.config.eos_token = target[config.start_id], target[config.end_id]
    spec.config.unk_token = target[translator.tokenizer.unk_id]
    spec.config.add_source_eos = source[translator.tokenizer.eos_id] == target[config.end_id]  # it knows one end only
    spec.validate()
    spec.optimize()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
        spec.save(unfinished)
        for name, content in translator.tokenizer.files().items():
            if name.endswith((".model", ".spm")):  # the lists of pieces are there in the engine's own form
                (Path(unfinished) / name).write_bytes(content)
        shutil.copytree(unfinished, folder, dirs_exist_ok=True)
