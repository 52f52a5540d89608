"""Mistakes that the doctor knows by name, each an edit of chapter 0's file."""

import ast
import difflib
import inspect
import io
import json
import random
import re
import sys
import tokenize
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

from annotated import plain
from annotated.doctor.asking import CHECKS, WRONG
from annotated.doctor.reporting import check
from annotated.doctor.running import FUNCTIONS

__all__ = ["MISTAKES", "Mistake", "changed_lines", "edited", "hunt", "without_comments"]


class Mistake(NamedTuple):
    """A mistake as edits of the plain file: a name, the part it is in, the check meant for it, and what is replaced.

    An edit is an old and a new text. The name of a function after them, such as `EncoderLayer.forward`, says that only
    this function changes.
    """

    name: str
    part: str  # Transformer, loss, learning_rate or translate
    check: str
    edits: tuple[tuple[str, ...], ...]


MISTAKES = [
    Mistake("softmax over the queries", "Transformer", "softmax", (
        (".softmax(-1)  # 2",
         ".softmax(-2)"),
    )),
    Mistake("softmax over the heads", "Transformer", "softmax", (
        (".softmax(-1)  # 2",
         ".softmax(1)"),
    )),
    Mistake("softmax over the batch", "Transformer", "softmax", (
        (".softmax(-1)  # 2",
         ".softmax(0)"),
    )),
    Mistake("scores not scaled", "Transformer", "scale", (
        (" / math.sqrt(k.shape[-1])",
         ""),
    )),
    Mistake("scaled by the model's width", "Transformer", "scale", (
        ("math.sqrt(k.shape[-1])",
         "math.sqrt(x.shape[-1])"),
    )),
    Mistake("multiplied by the root", "Transformer", "scale", (
        ("k.mT / math.sqrt",
         "k.mT * math.sqrt"),
    )),
    Mistake("divided by d_k without the root", "Transformer", "scale", (
        ("math.sqrt(k.shape[-1])",
         "k.shape[-1]"),
    )),
    Mistake("heads split by view", "Transformer", "looks ahead", (
        ("x.unflatten(-1, (self.heads, -1)).transpose(1, 2)",
         "x.reshape(len(x), self.heads, x.shape[1], -1)"),
    )),
    Mistake("heads joined without transposing back", "Transformer", "looks ahead", (
        ("mixed.transpose(1, 2).flatten(2)",
         "mixed.reshape(x.shape)"),
    )),
    Mistake("masked_fill without its result", "Transformer", "looks ahead", (
        ("scores.masked_fill(~mask, -math.inf).softmax(-1)  # 2",
         "scores\n        scores.masked_fill(~mask, -math.inf)\n        self.weights = scores.softmax(-1)"),
    )),
    Mistake("mask in the opposite sense", "Transformer", "call", (
        ("masked_fill(~mask,",
         "masked_fill(mask,"),
    )),
    Mistake("opposite sense, -1e9", "Transformer", "masks", (
        ("masked_fill(~mask, -math.inf)",
         "masked_fill(mask, -1e9)"),
    )),
    Mistake("mask after the softmax", "Transformer", "softmax", (
        (".masked_fill(~mask, -math.inf).softmax(-1)  # 2",
         ".softmax(-1) * mask"),
    )),
    Mistake("mask writes -1e-9", "Transformer", "masks", (
        ("-math.inf",
         "-1e-9"),
    )),
    Mistake("mask writes 0", "Transformer", "masks", (
        ("-math.inf",
         "0.0"),
    )),
    Mistake("cross-attention reads the decoder", "Transformer", "source", (
        ("self.cross_attention(x, memory, memory_mask)",
         "self.cross_attention(x, x, mask)"),
    )),
    Mistake("keys and values from the queries' side", "Transformer", "source", (
        ("k, v = self.split(self.key(memory)), self.split(self.value(memory))",
         "k, v = self.split(self.key(x)), self.split(self.value(x))"),
        ("self.cross_attention(x, memory, memory_mask)",
         "self.cross_attention(x, memory, mask)"),
    )),
    Mistake("no cross-attention", "Transformer", "source", (
        ("        x = self.around_cross_attention(x, self.cross_attention(x, memory, memory_mask))\n",
         ""),
    )),
    Mistake("values from the queries' side", "Transformer", "call", (
        ("self.split(self.value(memory))",
         "self.split(self.value(x))"),
    )),
    Mistake("queries and memory exchanged", "Transformer", "call", (
        ("self.cross_attention(x, memory, memory_mask)",
         "self.cross_attention(memory, x, memory_mask)"),
    )),
    Mistake("keys are queries", "Transformer", "gradients", (
        ("self.split(self.key(memory))",
         "self.split(self.query(memory))"),
    )),
    Mistake("no output matrix", "Transformer", "gradients", (
        ("return self.output(mixed.transpose(1, 2).flatten(2))",
         "return mixed.transpose(1, 2).flatten(2)"),
    )),
    Mistake("source mask where the target's is due", "Transformer", "call", (
        ("self.self_attention(x, x, mask))\n        x = self.around_cross",
         "self.self_attention(x, x, memory_mask))\n        x = self.around_cross"),
    )),
    Mistake("target mask where the source's is due", "Transformer", "call", (
        ("memory, memory_mask))",
         "memory, mask))"),
    )),
    Mistake("causal mask hides the token itself", "Transformer", "masks", (
        (".tril().bool()  # stairs",
         ".tril(-1).bool()\n        mask[0, 0] = True"),
    )),
    Mistake("causal mask one too wide", "Transformer", "looks ahead", (
        (".tril().bool()",
         ".tril(1).bool()"),
    )),
    Mistake("causal mask upside down", "Transformer", "looks ahead", (
        (".tril().bool()",
         ".triu().bool()"),
    )),
    Mistake("no causal mask", "Transformer", "looks ahead", (
        (".tril().bool()",
         ".bool()"),
    )),
    Mistake("encoder with a causal mask", "Transformer", "masks", (
        ("mask = (source != PAD)[:, None, None, :]  # one row for all heads and queries",
         "mask = (source != PAD)[:, None, None, :]\n"
         "        stairs = torch.ones(source.shape[1], source.shape[1]).tril().bool()"),
        ("return self.encoder(self.embed(source), mask), mask",
         "return self.encoder(self.embed(source), mask & stairs), mask"),
    )),
    Mistake("no source mask", "Transformer", "source padding", (
        ("(source != PAD)[:, None, None, :]",
         "(source == source)[:, None, None, :]"),
    )),
    Mistake("padding mask made after positions were added", "Transformer", "source padding", (
        ("(source != PAD)[:, None, None, :]",
         "(self.embed(source).abs().sum(-1) != 0)[:, None, None, :]"),
    )),
    Mistake("padding mask not passed to the decoder", "Transformer", "source padding", (
        ("return self.decode(target, *self.encode(source))",
         "memory, mask = self.encode(source)\n        return self.decode(target, memory, mask | True)"),
    )),
    Mistake("padding of the target taken from the source", "Transformer", "both padded", (
        (".tril().bool()  # stairs",
         ".tril().bool() & memory_mask[..., : target.shape[1]]"),
    )),
    Mistake("another id is padding", "Transformer", "source padding", (
        ("(source != PAD)",
         "(source != 1)"),
    )),
    Mistake("no residual", "Transformer", "norms", (
        ("self.norm(x + self.dropout(y))",
         "self.norm(self.dropout(y))"),
    )),
    Mistake("no normalisation", "Transformer", "gradients", (
        ("self.norm(x + self.dropout(y))",
         "x + self.dropout(y)"),
    )),
    Mistake("added after the normalisation", "Transformer", "norms", (
        ("self.norm(x + self.dropout(y))",
         "x + self.norm(self.dropout(y))"),
    )),
    Mistake("normalised over the batch", "Transformer", "batch", (
        ("nn.LayerNorm(d, eps=1e-6)",
         "nn.BatchNorm1d(d)"),
        ("self.norm(x + self.dropout(y))",
         "self.norm((x + self.dropout(y)).mT).mT"),
    )),
    Mistake("normalised over the sentence", "Transformer", "looks ahead", (
        ("self.norm(x + self.dropout(y))",
         "self.norm(nn.functional.layer_norm((x + self.dropout(y)).mT, (x.shape[1],)).mT)"),
    )),
    Mistake("dropout alive in evaluation", "Transformer", "repeats", (
        ("self.dropout(y)",
         "nn.functional.dropout(y, 0.1)"),
    )),
    Mistake("dropout never drops", "Transformer", "dropout", (
        ("self.norm(x + self.dropout(y))",
         "self.norm(x + y)"),
        ("self.dropout(x + positions(x.shape[1], x.shape[2]).to(x))",
         "x + positions(x.shape[1], x.shape[2]).to(x)"),
    )),
    Mistake("no ReLU", "Transformer", "feed-forward", (
        ("self.outer(self.inner(x).relu())",
         "self.outer(self.inner(x))"),
    )),
    Mistake("ReLU in the decoder only", "Transformer", "feed-forward", (
        ("self.feed_forward(x)",
         "self.feed_forward.outer(self.feed_forward.inner(x))",
         "EncoderLayer.forward"),
    )),
    Mistake("the decoder without a feed-forward layer", "Transformer", "gradients", (
        ("memory, memory_mask))\n        return self.around_feed_forward(x, self.feed_forward(x))",
         "memory, memory_mask))\n        return x"),
    )),
    Mistake("layers copied", "Transformer", "layers", (
        ("self.layers = nn.ModuleList(layers)",
         "import copy\n"
         "        first, *rest = layers\n"
         "        self.layers = nn.ModuleList([first, *(copy.deepcopy(first) for _ in rest)])"),
        ("        draw_weights(self)\n",
         ""),
    )),
    Mistake("one layer several times", "Transformer", "layers", (
        ("self.layers = nn.ModuleList(layers)",
         "first, *rest = layers\n        self.layers = nn.ModuleList([first] * (1 + len(rest)))"),
    )),
    Mistake("layers in a list", "Transformer", "layers", (
        ("nn.ModuleList(layers)",
         "list(layers)"),
    )),
    Mistake("only the first layer", "Transformer", "gradients", (
        ("            x = layer(x, *others)\n        return x",
         "            return layer(x, *others)"),
    )),
    Mistake("every layer reads the first input", "Transformer", "gradients", (
        ("        for layer in self.layers:\n            x = layer(x, *others)\n        return x",
         "        for layer in self.layers:\n            y = layer(x, *others)\n        return y"),
    )),
    Mistake("embedding not scaled", "Transformer", "embedding", (
        ("self.weight[tokens] * math.sqrt(self.weight.shape[1])",
         "self.weight[tokens]"),
    )),
    Mistake("embedding scaled by the width", "Transformer", "embedding", (
        ("* math.sqrt(self.weight.shape[1])",
         "* self.weight.shape[1]"),
    )),
    Mistake("tied output, numbers of size 1", "Transformer", "first loss", (
        ("torch.randn(vocab_size, d) / math.sqrt(d)",
         "torch.randn(vocab_size, d)"),
        ("self.weight[tokens] * math.sqrt(self.weight.shape[1])",
         "self.weight[tokens]"),
    )),
    Mistake("output drawn anew", "Transformer", "repeats", (
        ("return x @ self.target_embedding.weight.T",
         "return x @ torch.randn_like(self.target_embedding.weight).T"),
    )),
    Mistake("no positions", "Transformer", "order of the target", (
        ("x + positions(x.shape[1], x.shape[2]).to(x)",
         "x"),
    )),
    Mistake("no positions in the encoder", "Transformer", "order of the source", (
        ("return self.encoder(self.embed(source), mask), mask",
         "return self.encoder(self.target_embedding(source), mask), mask"),
    )),
    Mistake("positions count the batch", "Transformer", "order of the target", (
        ("positions(x.shape[1], x.shape[2]).to(x)",
         "positions(x.shape[0], x.shape[2]).to(x)[:, None]"),
    )),
    Mistake("positions multiplied", "Transformer", "embedding", (
        ("x + positions(",
         "x * positions("),
    )),
    Mistake("sines only", "Transformer", "positions", (
        ("torch.stack([angles.sin(), angles.cos()], dim=-1)",
         "torch.stack([angles.sin(), angles.sin()], dim=-1)"),
    )),
    Mistake("cosine with its own exponent", "Transformer", "positions", (
        ("return torch.stack([angles.sin(), angles.cos()]",
         "others = torch.arange(length)[:, None] * 10000.0 ** (-(torch.arange(0, d, 2) + 1) / d)\n"
         "    return torch.stack([angles.sin(), others.cos()]"),
    )),
    Mistake("frequencies not divided by the width", "Transformer", "positions", (
        ("(-torch.arange(0, d, 2) / d)",
         "(-torch.arange(0, d, 2) / 2)"),
    )),
    Mistake("frequencies grow", "Transformer", "positions", (
        ("10000.0 ** (-torch",
         "10000.0 ** (torch"),
    )),
    Mistake("softmax twice", "Transformer", "logits", (
        ("return x @ self.target_embedding.weight.T  # (b, m, vocab)",
         "return (x @ self.target_embedding.weight.T).softmax(-1)"),
    )),
    Mistake("softmax over the sentence", "Transformer", "looks ahead", (
        ("return x @ self.target_embedding.weight.T  # (b, m, vocab)",
         "return (x @ self.target_embedding.weight.T).softmax(1)"),
    )),
    Mistake("shifted inside the model", "Transformer", "own past", (
        ("x = self.decoder(self.embed(target),",
         "target = torch.cat([target[:, :1], target[:, :-1]], 1)\n        x = self.decoder(self.embed(target),"),
    )),
    Mistake("encoder's output of the first pair for all", "Transformer", "batch", (
        ("return self.encoder(self.embed(source), mask), mask",
         "return self.encoder(self.embed(source), mask)[:1].expand(len(source), -1, -1), mask"),
    )),
    Mistake("attention across the batch", "Transformer", "batch", (
        ("self.around_self_attention(x, self.self_attention(x, x, mask))\n        return",
         "self.around_self_attention(x, self.self_attention(x.transpose(0, 1), x.transpose(0, 1), "
         "mask.new_ones(1)).transpose(0, 1))\n"
         "        return"),
    )),
    Mistake("heads averaged", "Transformer", "attentions", (
        ("self.output(mixed.transpose(1, 2).flatten(2))",
         "self.output(mixed.mean(1).repeat(1, 1, self.heads))"),
    )),
    Mistake("queries, keys and values not projected", "Transformer", "attentions", (
        ("q = self.split(self.query(x))",
         "q = self.split(x)"),
        ("k, v = self.split(self.key(memory)), self.split(self.value(memory))",
         "k, v = self.split(memory), self.split(memory)"),
    )),
    Mistake("memory from the encoder's layer beside", "Transformer", "attentions", (
        ("        for layer in self.layers:\n            x = layer(x, *others)",
         "        self.outputs = []\n        for i, layer in enumerate(self.layers):\n"
         "            x = layer(x, *(one[i] if isinstance(one, list) else one for one in others))\n"
         "            self.outputs.append(x)"),
        ("return self.encoder(self.embed(source), mask), mask",
         "return self.encoder(self.embed(source), mask) is None or self.encoder.outputs, mask"),
    )),
    Mistake("all layers share one feed-forward layer", "Transformer", "layers", (
        ("self.layers = nn.ModuleList(layers)",
         "self.layers = nn.ModuleList(layers)\n        for layer in self.layers:\n"
         "            layer.feed_forward = self.layers[0].feed_forward"),
    )),
    Mistake("feed-forward layer mixes positions", "Transformer", "looks ahead", (
        ("return self.outer(self.inner(x).relu())",
         "inner = self.inner(x).relu()\n        return self.outer(inner + inner.mean(1, keepdim=True))"),
    )),
    Mistake("positions in every layer", "Transformer", "positions", (
        ("x = layer(x, *others)",
         "x = layer(x + positions(x.shape[1], x.shape[2]).to(x), *others)"),
    )),
    Mistake("positions scaled as well", "Transformer", "embedding", (
        ("self.weight[tokens] * math.sqrt(self.weight.shape[1])",
         "self.weight[tokens]"),
        ("x + positions(x.shape[1], x.shape[2]).to(x)",
         "(x + positions(x.shape[1], x.shape[2]).to(x)) * math.sqrt(x.shape[2])"),
    )),
    Mistake("positions appended", "Transformer", "embedding", (
        ("x + positions(x.shape[1], x.shape[2]).to(x)",
         "torch.cat([x[..., :-1], torch.arange(x.shape[1]).to(x)[:, None].expand(len(x), -1, 1)], -1)"),
    )),
    Mistake("rows of padding masked", "Transformer", "both padded", (
        (".tril().bool()  # stairs",
         ".tril().bool() & (target != PAD)[:, None, :, None]"),
    )),
    Mistake("no mask at all", "Transformer", "masks", (
        (".masked_fill(~mask, -math.inf).softmax(-1)  # 2",
         ".softmax(-1)"),
    )),
    Mistake("encoder unused", "Transformer", "attentions", (
        ("return self.encoder(self.embed(source), mask), mask",
         "self.encoder(self.embed(source), mask)\n        return self.embed(source), mask"),
    )),
    Mistake("encoder cut off from the loss", "Transformer", "gradients", (
        ("return self.encoder(self.embed(source), mask), mask",
         "return self.encoder(self.embed(source), mask).detach(), mask"),
    )),
    Mistake("no positions in the decoder", "Transformer", "positions", (
        ("x = self.decoder(self.embed(target),",
         "x = self.decoder(self.target_embedding(target),"),
    )),
    Mistake("normalised twice", "Transformer", "norms", (
        ("self.norm(x + self.dropout(y))",
         "self.norm(self.norm(x) + self.dropout(y))"),
    )),
    Mistake("residual of what is normalised", "Transformer", "norms", (
        ("x = self.around_self_attention(x, self.self_attention(x, x, mask))",
         "x = self.around_self_attention.norm(x)\n        x = x + self.self_attention(x, x, mask)"),
        ("x = self.around_cross_attention(x, self.cross_attention(x, memory, memory_mask))",
         "x = self.around_cross_attention.norm(x)\n        x = x + self.cross_attention(x, memory, memory_mask)"),
        ("return self.around_feed_forward(x, self.feed_forward(x))",
         "x = self.around_feed_forward.norm(x)\n        return x + self.feed_forward(x)"),
    )),
    Mistake("one residual around the layer", "Transformer", "norms", (
        ("x = self.around_self_attention(x, self.self_attention(x, x, mask))\n        return",
         "y = self.around_self_attention.norm(self.self_attention(x, x, mask))\n"
         "        return self.around_feed_forward(x, self.feed_forward(y))\n        return"),
    )),
    Mistake("divided by the variance", "Transformer", "norms", (
        ("self.norm(x + self.dropout(y))",
         "self.normed(x + self.dropout(y))\n\n    def normed(self, x):\n        x = x - x.mean(-1, keepdim=True)\n"
         "        return self.norm.weight * x / (x.var(-1, keepdim=True) + 1e-6) + self.norm.bias"),
    )),
    Mistake("mean taken away, and not divided", "Transformer", "norms", (
        ("self.norm(x + self.dropout(y))",
         "self.normed(x + self.dropout(y))\n\n    def normed(self, x):\n"
         "        return self.norm.weight * (x - x.mean(-1, keepdim=True)) + self.norm.bias"),
    )),
    Mistake("one gain for all", "Transformer", "norms", (
        ("self.norm, self.dropout = nn.LayerNorm(d, eps=1e-6), nn.Dropout(dropout)",
         "self.gain, self.bias = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))\n"
         "        self.dropout = nn.Dropout(dropout)"),
        ("self.norm(x + self.dropout(y))",
         "self.gain * nn.functional.layer_norm(x + self.dropout(y), x.shape[-1:]) + self.bias"),
    )),
    Mistake("one projection for all heads", "Transformer", "attentions", (
        ("self.query, self.key, self.value, self.output = (nn.Linear(d, d, bias=False) for _ in range(4))",
         "self.query, self.key, self.value = (nn.Linear(d // heads, d // heads, bias=False) for _ in range(3))\n"
         "        self.output = nn.Linear(d, d, bias=False)"),
        ("q = self.split(self.query(x))",
         "q = self.query(self.split(x))"),
        ("k, v = self.split(self.key(memory)), self.split(self.value(memory))",
         "k, v = self.key(self.split(memory)), self.value(self.split(memory))"),
    )),
    Mistake("one head several times", "Transformer", "attentions", (
        ("self.query, self.key, self.value, self.output = (nn.Linear(d, d, bias=False) for _ in range(4))",
         "self.query, self.key, self.value = (nn.Linear(d, d // heads, bias=False) for _ in range(3))\n"
         "        self.output = nn.Linear(d, d, bias=False)"),
        ("x.unflatten(-1, (self.heads, -1)).transpose(1, 2)",
         "x[:, None].expand(-1, self.heads, -1, -1)"),
    )),
    Mistake("num_layers for the encoder only", "Transformer", "layers", (
        ("Stack(DecoderLayer(d_model, d_ff, num_heads, dropout) for _ in range(num_layers))",
         "Stack([DecoderLayer(d_model, d_ff, num_heads, dropout)])"),
    )),
    Mistake("output tied to an unused table", "Transformer", "sharing", (
        ("        self.dropout = nn.Dropout(dropout)\n        draw_weights(self)",
         "        self.dropout, self.output = nn.Dropout(dropout), Embedding(vocab_size, d_model)\n"
         "        draw_weights(self)"),
        ("return x @ self.target_embedding.weight.T  # (b, m, vocab)",
         "return x @ self.output.weight.T"),
    )),
    Mistake("no softmax in the attention", "Transformer", "softmax", (
        (".masked_fill(~mask, -math.inf).softmax(-1)  # 2",
         ".masked_fill(~mask, -math.inf).sigmoid()"),
    )),
    Mistake("target not shifted", "loss", "not shifted", (
        ("model(source, target[:, :-1]).flatten(0, 1)",
         "model(source, target).flatten(0, 1)"),
        ("target[:, 1:].flatten()",
         "target.flatten()"),
    )),
    Mistake("model reads the answer", "loss", "reads the answer", (
        ("model(source, target[:, :-1])",
         "model(source, target[:, 1:])"),
    )),
    Mistake("target shifted twice", "loss", "shifted twice", (
        ("model(source, target[:, :-1])",
         "model(source, target[:, :-2])"),
        ("target[:, 1:].flatten()",
         "target[:, 2:].flatten()"),
    )),
    Mistake("padding counted in the loss", "loss", "padding counted", (
        ("ignore_index=PAD, ",
         ""),
    )),
    Mistake("mean of the rows' means", "loss", "a mean of the rows' means", (
        ("scores = model(source, target[:, :-1]).flatten(0, 1)",
         "scores = model(source, target[:, :-1])"),
        ("wanted = target[:, 1:].flatten()",
         "wanted = target[:, 1:]"),
        ("return nn.functional.cross_entropy(scores, wanted, ignore_index=PAD, label_smoothing=smoothing)",
         "rows = [nn.functional.cross_entropy(s, w, ignore_index=PAD, label_smoothing=smoothing)\n"
         "            for s, w in zip(scores, wanted)]\n"
         "    return torch.stack(rows).mean()"),
    )),
    Mistake("softmax before the loss", "loss", "softmax twice", (
        (".flatten(0, 1)  # reads",
         ".flatten(0, 1).softmax(-1)  # reads"),
    )),
    Mistake("larger of the two rates", "learning_rate", "larger of the two", (
        ("* min(step**-0.5",
         "* max(step**-0.5"),
    )),
    Mistake("no warm-up", "learning_rate", "no warm-up", (
        ("min(step**-0.5, step * warmup**-1.5)",
         "step**-0.5"),
    )),
    Mistake("rate never falls", "learning_rate", "never falls", (
        ("min(step**-0.5, step * warmup**-1.5)",
         "step * warmup**-1.5"),
    )),
    Mistake("warm-up to the power -0.5", "learning_rate", "warm-up to the power -0.5", (
        ("warmup**-1.5)",
         "warmup**-0.5)"),
    )),
    Mistake("as many steps as the source has words", "translate", "ends too early", (
        ("target.shape[1] <= source.shape[1] + extra",
         "target.shape[1] <= source.shape[1]"),
    )),
    Mistake("search never stops", "translate", "never stops", (
        (" and target.shape[1] <= source.shape[1] + extra",
         ""),
    )),
    Mistake("search begins with padding", "translate", "begins with another token", (
        ("(len(source), 1), BOS",
         "(len(source), 1), PAD"),
    )),
    Mistake("search with dropout", "translate", "searches with dropout", (
        ("model.eval().encode",
         "model.encode"),
    )),
    Mistake("search leaves the model in evaluation", "translate", "leaves the model in evaluation", (
        ("    model.train(training)\n    return target",
         "    return target"),
    )),
    Mistake("search takes the first position", "translate", "another output", (
        ("memory, mask)[:, -1].argmax",
         "memory, mask)[:, 0].argmax"),
    )),
    Mistake("search shows the last word only", "translate", "another output", (
        ("model.decode(target, memory, mask)",
         "model.decode(target[:, -1:], memory, mask)"),
    )),
    Mistake("finished rows go on", "translate", "goes on after the end", (
        (".masked_fill(ended, PAD)",
         ""),
    )),
    Mistake("search never looks for the end", "translate", "never looks for the end", (
        ("not (ended := (target == EOS).any(1)).all() and ",
         "(ended := (target == EOS).any(1)) is not None and "),
    )),
]  # fmt: skip


def edited(mistakes: Sequence[Mistake]) -> str | None:
    """The plain file with some mistakes in it; None where an edit finds nothing to replace."""
    text = inspect.getsource(plain)
    for old, new, *within in (edit for one in mistakes for edit in one.edits):
        before, place, after = around(text, *within)
        if old not in place:
            return None
        text = before + place.replace(old, new) + after
    return text


def around(text: str, name: str = "") -> tuple[str, str, str]:
    """A text in three: what stands before a function or class (`Class.method` by name), its own text, and the rest."""
    if not name:
        return "", text, ""
    node: Any = ast.parse(text)
    for part in name.split("."):
        node = next(one for one in node.body if getattr(one, "name", "") == part)
    lines = text.splitlines(keepends=True)
    first, last = node.lineno - 1, node.end_lineno
    return "".join(lines[:first]), "".join(lines[first:last]), "".join(lines[last:])


def planted(name: str) -> ModuleType:
    """The plain file with one mistake in it, run. Raises KeyError for a name that is not in MISTAKES."""
    mistake = {one.name: one for one in MISTAKES}[name]
    text = edited([mistake])
    if text is None:
        raise ValueError(f"{name}: annotated.plain no longer has what this mistake replaces")
    module = ModuleType("plain")
    module.__dict__["source"] = text
    exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    return module


def examined(mistake: Mistake) -> dict[str, str]:
    """What the checks find wrong in the copy of a mistake: what was found, by the name of the check."""
    module = planted(mistake.name)
    if mistake.part in FUNCTIONS:
        verdict = FUNCTIONS[mistake.part].ask(getattr(module, mistake.part))
        return {verdict.found: verdict.says} if verdict.verdict == WRONG else {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = module.Transformer(40, d_model=32, d_ff=48, num_heads=4, num_layers=2)
    return {one.check: one.found for one in check(model).findings if one.verdict == WRONG}


def fingerprints() -> dict[str, list[str]]:
    """What the checks find wrong in each copy of a Transformer: `annotated/doctor/fingerprints.json`."""
    models = [one for one in MISTAKES if one.part == "Transformer"]
    return {one.name: [f"{name}: {found}" for name, found in examined(one).items()] for one in models}


def without_comments(text: str) -> str:
    """Python code with its docstrings and without its comments."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines).strip()) + "\n"


def with_mistakes(mistakes: Sequence[Mistake]) -> str | None:
    """The plain file with some mistakes and without comments; None where one leaves no room for another."""
    text = edited(mistakes)
    return None if text is None else without_comments(text)


def changed_lines(before: str, after: str) -> list[int]:
    """The lines of a text, counted from 1, that are not as before, or where something is missing."""
    blocks = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False).get_opcodes()
    return [
        row + 1 for kind, _, _, start, end in blocks if kind != "equal" for row in range(start, max(end, start + 1))
    ]


def hunt(seed: int, number: int | None = None) -> tuple[str, str]:
    """A stranger's file with mistakes, one to three if no number is given, and the sheet with the answers."""
    draw = random.Random(seed)
    number = draw.randint(1, 3) if number is None else number
    chosen: list[Mistake] = []
    for one in draw.sample(MISTAKES, len(MISTAKES)):
        apart = all(one.check != other.check for other in chosen)
        if len(chosen) < number and apart and with_mistakes([*chosen, one]):
            chosen.append(one)
    text = with_mistakes(chosen)
    assert text is not None
    sheet = [f"Hunt {seed}: {number} {'mistake' if number == 1 else 'mistakes'}"]
    for one in chosen:
        rest = with_mistakes([other for other in chosen if other is not one])
        assert rest is not None
        lines = changed_lines(rest, text)
        check = {check.name: check for check in CHECKS}.get(one.check)
        sheet += ["", f"{one.name}, in {one.part}", f"  line {', '.join(map(str, lines))}"]
        sheet += [f"    {text.splitlines()[row - 1].strip()}" for row in lines]
        sheet += (
            [f"  seen as: {check.symptom}", f"  explained: chapter {check.cell}"]
            if check
            else [f"  check says: {one.check}"]
        )
    return text, "\n".join(sheet) + "\n"


if __name__ == "__main__":  # python -m annotated.doctor.mistakes annotated/doctor/fingerprints.json
    Path(sys.argv[1]).write_text(json.dumps(fingerprints(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
