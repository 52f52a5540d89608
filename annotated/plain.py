# Written by `make export` from book/00_whole.ipynb: edit the chapter, not this.
"""The whole Transformer, once."""

import math

import torch
from torch import nn

# book/00_whole.ipynb#imports
PAD, BOS, EOS = 0, 2, 3  # the ids of padding, beginning and end


# book/00_whole.ipynb#attention
class Attention(nn.Module):
    """Section 3.2: `x` looks at `memory`, where `mask` allows it."""

    def __init__(self, d: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(d, d, bias=False) for _ in range(4))

    def split(self, x):  # (b, n, d) -> (b, n, h, d / h) -> (b, h, n, d / h)
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, memory, mask):
        q = self.split(self.query(x))
        k, v = self.split(self.key(memory)), self.split(self.value(memory))
        scores = q @ k.mT / math.sqrt(k.shape[-1])  # 1
        self.weights = scores.masked_fill(~mask, -math.inf).softmax(-1)  # 2
        mixed = self.weights @ v  # 3
        return self.output(mixed.transpose(1, 2).flatten(2))  # joined: (b, n, d)


# book/00_whole.ipynb#layers
class FeedForward(nn.Module):
    """Section 3.3: each position alone, to d_ff numbers, ReLU, and back."""

    def __init__(self, d: int, d_ff: int):
        super().__init__()
        self.inner, self.outer = nn.Linear(d, d_ff), nn.Linear(d_ff, d)

    def forward(self, x):
        return self.outer(self.inner(x).relu())


class AddNorm(nn.Module):
    """Section 3.1: add what came out to what went in, and normalise."""

    def __init__(self, d: int, dropout: float):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(d, eps=1e-6), nn.Dropout(dropout)

    def forward(self, x, y):
        return self.norm(x + self.dropout(y))


# book/00_whole.ipynb#stacks
class EncoderLayer(nn.Module):
    """Section 3.1: look at the sentence, then think about it."""

    def __init__(self, d: int, d_ff: int, heads: int, dropout: float):
        super().__init__()
        self.self_attention = Attention(d, heads)
        self.around_self_attention = AddNorm(d, dropout)
        self.feed_forward = FeedForward(d, d_ff)
        self.around_feed_forward = AddNorm(d, dropout)

    def forward(self, x, mask):
        x = self.around_self_attention(x, self.self_attention(x, x, mask))
        return self.around_feed_forward(x, self.feed_forward(x))


# book/00_whole.ipynb#decoder-layer
class DecoderLayer(nn.Module):
    """Section 3.1: look at what is written and at the source, then think."""

    def __init__(self, d: int, d_ff: int, heads: int, dropout: float):
        super().__init__()
        self.self_attention = Attention(d, heads)
        self.around_self_attention = AddNorm(d, dropout)
        self.cross_attention = Attention(d, heads)
        self.around_cross_attention = AddNorm(d, dropout)
        self.feed_forward = FeedForward(d, d_ff)
        self.around_feed_forward = AddNorm(d, dropout)

    def forward(self, x, memory, mask, memory_mask):
        x = self.around_self_attention(x, self.self_attention(x, x, mask))
        x = self.around_cross_attention(x, self.cross_attention(x, memory, memory_mask))
        return self.around_feed_forward(x, self.feed_forward(x))


class Stack(nn.Module):
    """Layers of one kind, one after the other."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x, *others):  # memory and masks, the same for every layer
        for layer in self.layers:
            x = layer(x, *others)
        return x


def draw_weights(model):
    """Random numbers to start from, of a size that fits each matrix."""
    for linear in (module for module in model.modules() if isinstance(module, nn.Linear)):
        nn.init.xavier_uniform_(linear.weight)
        if linear.bias is not None:
            nn.init.zeros_(linear.bias)


# book/00_whole.ipynb#ends
class Embedding(nn.Module):
    """Section 3.4: a learned vector for each token."""

    def __init__(self, vocab_size: int, d: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab_size, d) / math.sqrt(d))

    def forward(self, tokens):
        return self.weight[tokens] * math.sqrt(self.weight.shape[1])


def positions(length: int, d: int):  # -> (length, d)
    """Section 3.5: a row of sines and cosines for each position."""
    angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


# book/00_whole.ipynb#model
class Transformer(nn.Module):
    """Figure 1, with the paper's base model as defaults. No row of a source may be padding alone."""

    def __init__(self, vocab_size: int, d_model=512, d_ff=2048, num_heads=8, num_layers=6, dropout=0.1):
        super().__init__()
        self.target_embedding = Embedding(vocab_size, d_model)  # the source's as well
        self.encoder = Stack(EncoderLayer(d_model, d_ff, num_heads, dropout) for _ in range(num_layers))
        self.decoder = Stack(DecoderLayer(d_model, d_ff, num_heads, dropout) for _ in range(num_layers))
        self.dropout = nn.Dropout(dropout)
        draw_weights(self)

    def embed(self, tokens):  # (b, n) -> (b, n, d)
        x = self.target_embedding(tokens)
        return self.dropout(x + positions(x.shape[1], x.shape[2]).to(x))

    def encode(self, source):
        mask = (source != PAD)[:, None, None, :]  # one row for all heads and queries
        return self.encoder(self.embed(source), mask), mask

    def decode(self, target, memory, memory_mask):
        mask = target.new_ones(target.shape[1], target.shape[1]).tril().bool()  # stairs
        x = self.decoder(self.embed(target), memory, mask, memory_mask)
        return x @ self.target_embedding.weight.T  # (b, m, vocab)

    def forward(self, source, target):
        return self.decode(target, *self.encode(source))


# book/00_whole.ipynb#greedy
@torch.no_grad()
def translate(model, source, extra=50):
    """Section 6.1 without its beam: the likeliest token, again and again."""
    training = model.training
    memory, mask = model.eval().encode(source)  # without dropout
    target = torch.full((len(source), 1), BOS, device=source.device)
    while not (ended := (target == EOS).any(1)).all() and target.shape[1] <= source.shape[1] + extra:
        best = model.decode(target, memory, mask)[:, -1].argmax(-1).masked_fill(ended, PAD)
        target = torch.cat([target, best[:, None]], dim=1)
    model.train(training)
    return target[:, 1:]


# book/00_whole.ipynb#training
def loss(model, source, target, smoothing=0.1):
    """Section 5.4: how surprising the target's tokens are, on average."""
    scores = model(source, target[:, :-1]).flatten(0, 1)  # reads <s> a b c
    wanted = target[:, 1:].flatten()  # should say a b c </s>
    return nn.functional.cross_entropy(scores, wanted, ignore_index=PAD, label_smoothing=smoothing)


# book/00_whole.ipynb#settings
def learning_rate(step: int, d: int, warmup=4000):
    """Section 5.3, equation (3): up for `warmup` steps, then down."""
    return d**-0.5 * min(step**-0.5, step * warmup**-1.5)


def make_optimizer(model):
    """Section 5.3."""
    return torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)


def train_step(model, optimizer, step: int, source, target, warmup=4000):
    """One batch: loss, gradients, a small step. `step` counts from 1."""
    optimizer.param_groups[0]["lr"] = learning_rate(step, model.target_embedding.weight.shape[1], warmup)
    optimizer.zero_grad()
    value = loss(model, source, target)
    value.backward()
    optimizer.step()
    return value.item()
