"""Other implementations of the same model, with the same weights."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save
from torch import nn

from annotated.base.files import write_atomically, write_json
from annotated.formats.marian import marian_values, marian_weights, save_marian
from annotated.model import Transformer
from annotated.search.translation import Translator
from tools.parity import quiet


def marian(translator: Translator, attention: str):
    """Hugging Face's MarianMTModel, with `eager` or `sdpa` attention."""
    from transformers import MarianMTModel

    with tempfile.TemporaryDirectory() as folder, quiet():
        save_marian(translator, Path(folder))
        return MarianMTModel.from_pretrained(folder, attn_implementation=attention)


def marian_of(model: Transformer, attention: str):
    """The same for a model that has no tokenizer."""
    from transformers import MarianMTModel

    with tempfile.TemporaryDirectory() as folder, quiet():
        write_json(Path(folder) / "config.json", marian_values(model.config))
        write_atomically(Path(folder) / "model.safetensors", save(marian_weights(model), {"format": "pt"}))
        return MarianMTModel.from_pretrained(folder, attn_implementation=attention)


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` with embeddings, positions and output of our model, and its weights.

    Dropout acts where ours does: on embeddings and on sub-layer outputs, not on attention weights and inner layers.
    """

    def __init__(self, model: Transformer):
        super().__init__()
        config = model.config
        self.config, self.embedding = config, nn.Embedding(config.vocab_size, config.d_model)
        sizes = (config.d_model, config.num_heads, config.num_layers, config.num_layers, config.d_ff)
        self.core = nn.Transformer(*sizes, config.dropout, batch_first=True, layer_norm_eps=config.norm_eps)
        self.core.encoder.norm = self.core.decoder.norm = None  # post-norm needs no final one
        self.core.encoder.use_nested_tensor = False  # only for evaluation, and it warns
        self.dropout = nn.Dropout(config.dropout)
        for layer in [*self.core.encoder.layers, *self.core.decoder.layers]:
            layer.dropout.p = layer.self_attn.dropout = 0.0
            if hasattr(layer, "multihead_attn"):
                layer.multihead_attn.dropout = 0.0
        self.register_buffer("table", model.source_positions.table.clone())
        self.load(model)

    @torch.no_grad()
    def load(self, model: Transformer) -> None:
        self.embedding.weight.copy_(model.target_embedding.weight)
        for stack, own in ((self.core.encoder, model.encoder), (self.core.decoder, model.decoder)):
            for layer, ours in zip(stack.layers, own.layers, strict=True):
                attentions = [(layer.self_attn, ours.self_attention)]
                norms = [ours.around_self_attention.norm, ours.around_feed_forward.norm]
                if hasattr(ours, "cross_attention"):
                    attentions.append((layer.multihead_attn, ours.cross_attention))
                    norms.insert(1, ours.around_cross_attention.norm)
                for theirs, attention in attentions:
                    parts = (attention.query.weight, attention.key.weight, attention.value.weight)
                    theirs.in_proj_weight.copy_(torch.cat(parts))
                    theirs.in_proj_bias.zero_()
                    theirs.out_proj.weight.copy_(attention.output.weight)
                    theirs.out_proj.bias.zero_()
                for i, norm in enumerate(norms, start=1):
                    getattr(layer, f"norm{i}").load_state_dict(norm.state_dict())
                layer.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
                layer.linear2.load_state_dict(ours.feed_forward.outer.state_dict())

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        scale, pad = math.sqrt(self.config.d_model), self.config.pad_id
        x, y = (self.dropout(self.embedding(t) * scale + self.table[: t.shape[1]]) for t in (source, target))
        padding = source == pad
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1], target.device)
        hidden = self.core(
            x, y, tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        return hidden @ self.embedding.weight.T
