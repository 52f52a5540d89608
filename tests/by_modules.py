"""A right Transformer made of PyTorch's modules, for the doctor; mistakes are put in by tests/blind_spots.py."""

import math

import torch
from torch import nn

from annotated.plain import positions

PAD = 0


class Layer(nn.Module):
    """Attention to itself, in the decoder to the memory, and a feed-forward layer, each followed by a norm."""

    def __init__(self, d, heads, d_ff, p, cross):
        super().__init__()
        self.attention = nn.MultiheadAttention(d, heads, dropout=p, batch_first=True)
        self.cross = nn.MultiheadAttention(d, heads, dropout=p, batch_first=True) if cross else None
        self.feed = nn.Sequential(nn.Linear(d, d_ff), nn.ReLU(), nn.Linear(d_ff, d))
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(3 if cross else 2)])
        self.drop = nn.Dropout(p)

    def around(self, i, x, layer):
        return self.norms[i](x + self.drop(layer(x)))

    def forward(self, x, later=None, pad=None, memory=None, memory_pad=None):
        x = self.around(0, x, lambda x: self.attention(x, x, x, attn_mask=later, key_padding_mask=pad)[0])
        if self.cross is not None:
            x = self.around(1, x, lambda x: self.cross(x, memory, memory, key_padding_mask=memory_pad)[0])
        return self.around(-1, x, self.feed)


class Model(nn.Module):
    def __init__(self, vocab=40, d=16, heads=2, d_ff=24, num_layers=2, dropout=0.1):
        super().__init__()
        self.table = nn.Embedding(vocab, d)
        nn.init.normal_(self.table.weight, std=d**-0.5)
        self.encoder = nn.ModuleList([Layer(d, heads, d_ff, dropout, False) for _ in range(num_layers)])
        self.decoder = nn.ModuleList([Layer(d, heads, d_ff, dropout, True) for _ in range(num_layers)])
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(d, vocab)

    def embed(self, ids):
        x = self.table(ids) * math.sqrt(self.table.embedding_dim)
        return self.drop(x + positions(ids.shape[1], x.shape[-1]))

    def forward(self, source, target):
        pad, later = source == PAD, torch.ones(2 * (target.shape[1],)).triu(1).bool()
        x, y = self.embed(source), self.embed(target)
        for layer in self.encoder:
            x = layer(x, pad=pad)
        for layer in self.decoder:
            y = layer(y, later, memory=x, memory_pad=pad)
        return self.out(y)
