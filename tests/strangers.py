"""Encoder-decoders of other people: PyTorch's own, and small ones of transformers with random weights."""

import inspect
import math
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from annotated import plain

LAYERS = {f"{side}_{what}": size for side in ("encoder", "decoder") for what, size in
    {"layers": 2, "attention_heads": 4, "ffn_dim": 48}.items()}  # fmt: skip


class FromTorch(nn.Module):
    """PyTorch's own, wired as its documentation says."""

    def __init__(self, vocab=40, d=32, batch_first=True):
        super().__init__()
        self.table = nn.Embedding(vocab, d)
        nn.init.normal_(self.table.weight, std=d**-0.5)
        self.inner = nn.Transformer(d, 4, 2, 2, 48, batch_first=batch_first)
        self.out = nn.Linear(d, vocab)
        self.batch_first = batch_first

    def embed(self, ids):
        places = plain.positions(ids.shape[1 if self.batch_first else 0], 32)
        return self.table(ids) * math.sqrt(32) + (places if self.batch_first else places[:, None])

    def forward(self, source, target):
        later = torch.ones(2 * (target.shape[1 if self.batch_first else 0],)).triu(1).bool()
        padding = source == 0 if self.batch_first else (source == 0).T
        masks = {"tgt_mask": later, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
        return self.out(self.inner(self.embed(source), self.embed(target), **masks))


def hugging_face(name: str) -> nn.Module:
    """A small encoder-decoder of transformers with random weights."""
    transformers = pytest.importorskip("transformers")
    ids = {"vocab_size": 40, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}
    if name == "T5":
        config = transformers.T5Config(**ids, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
        return transformers.T5ForConditionalGeneration(config)
    kind = "MarianMTModel" if name == "Marian" else f"{name}ForConditionalGeneration"
    config = getattr(transformers, f"{name}Config")(**ids, **LAYERS, d_model=32, max_position_embeddings=64)
    return getattr(transformers, kind)(config)


def call(model, source, target):
    return model(source, (source != 0).long(), decoder_input_ids=target).logits


def with_edits(module: ModuleType, edits: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """What a module's file defines after some of its text is replaced, each time where it stands once or first."""
    text = inspect.getsource(module)
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    space = {"__name__": "other"}
    exec(compile(text, "other.py", "exec"), space)
    return space
