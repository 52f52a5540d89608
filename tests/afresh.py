"""A Transformer that was written afresh, from the paper alone, without sight of this project: for test_mistakes.py."""

import math

import torch
import torch.nn.functional as F
from torch import nn

PAD, BOS, EOS = 0, 2, 3


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention, run in n_heads subspaces side by side."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model % n_heads:
            raise ValueError("d_model must be divisible by n_heads")
        self.d_model = d_model
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def _split(self, x):
        # (batch, time, d_model) -> (batch, heads, time, d_head)
        b, t, _ = x.shape
        return x.view(b, t, self.n_heads, self.d_head).transpose(1, 2)

    def _join(self, x):
        # (batch, heads, time, d_head) -> (batch, time, d_model)
        b, _, t, _ = x.shape
        return x.transpose(1, 2).reshape(b, t, self.d_model)

    def forward(self, query, key, value, mask):
        """mask is boolean, True where a query may look at a key, and must
        broadcast to (batch, heads, query time, key time)."""
        q = self._split(self.w_q(query))
        k = self._split(self.w_k(key))
        v = self._split(self.w_v(value))

        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(self.d_head)
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        context = torch.einsum("bhqk,bhkd->bhqd", weights, v)
        return self.w_o(self._join(context))


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.outer(F.relu(self.inner(x)))


class AddNorm(nn.Module):
    """Post-norm wrapper around a sublayer: LayerNorm(x + Dropout(sublayer(x)))."""

    def __init__(self, d_model, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.p = dropout

    def forward(self, x, update):
        update = F.dropout(update, p=self.p, training=self.training)
        return self.norm(x + update)


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, n_heads)
        self.ffn = FeedForward(d_model, d_ff)
        self.after_attn = AddNorm(d_model, dropout)
        self.after_ffn = AddNorm(d_model, dropout)

    def forward(self, x, mask):
        x = self.after_attn(x, self.self_attn(x, x, x, mask))
        return self.after_ffn(x, self.ffn(x))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, n_heads)
        self.cross_attn = MultiHeadAttention(d_model, n_heads)
        self.ffn = FeedForward(d_model, d_ff)
        self.after_self = AddNorm(d_model, dropout)
        self.after_cross = AddNorm(d_model, dropout)
        self.after_ffn = AddNorm(d_model, dropout)

    def forward(self, y, memory, tgt_mask, src_mask):
        y = self.after_self(y, self.self_attn(y, y, y, tgt_mask))
        y = self.after_cross(y, self.cross_attn(y, memory, memory, src_mask))
        return self.after_ffn(y, self.ffn(y))


class PositionalEncoding(nn.Module):
    """Adds fixed sinusoids: sine on even channels, cosine on odd ones."""

    def __init__(self, d_model, max_len):
        super().__init__()
        position = torch.arange(max_len, dtype=torch.float).unsqueeze(1)
        even = torch.arange(0, d_model, 2, dtype=torch.float)
        angle = position * torch.exp(-math.log(10000.0) * even / d_model)
        table = torch.zeros(max_len, d_model)
        table[:, 0::2] = angle.sin()
        table[:, 1::2] = angle[:, : d_model // 2].cos()
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        if x.size(1) > self.table.size(0):
            raise ValueError("sequence is longer than max_len")
        return x + self.table[: x.size(1)]


class Seq2Seq(nn.Module):
    def __init__(self, vocab_size, d_model=512, n_heads=8, n_layers=6, d_ff=2048, dropout=0.1, max_len=128):
        super().__init__()
        self.d_model = d_model
        self.max_len = max_len
        sizes = (d_model, n_heads, d_ff, dropout)
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positions = PositionalEncoding(d_model, max_len)
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.ModuleList([EncoderLayer(*sizes) for _ in range(n_layers)])
        self.decoder = nn.ModuleList([DecoderLayer(*sizes) for _ in range(n_layers)])
        self.project = nn.Linear(d_model, vocab_size, bias=False)
        self._init_weights()
        # source, target and output share one matrix (section 3.4 of the paper)
        self.project.weight = self.embedding.weight

    def _init_weights(self):
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        nn.init.normal_(self.embedding.weight, std=self.d_model**-0.5)

    def _embed(self, tokens):
        x = self.embedding(tokens) * math.sqrt(self.d_model)
        return self.dropout(self.positions(x))

    def encode(self, src, src_mask):
        x = self._embed(src)
        for layer in self.encoder:
            x = layer(x, src_mask)
        return x

    def decode(self, tgt, memory, tgt_mask, src_mask):
        y = self._embed(tgt)
        for layer in self.decoder:
            y = layer(y, memory, tgt_mask, src_mask)
        return y

    def forward(self, src, tgt):
        """src (batch, S) and tgt (batch, T) are token ids, tgt starting at BOS;
        logits[:, i] score the token that follows tgt[:, i]."""
        steps = tgt.size(1)
        src_mask = (src != PAD)[:, None, None, :]
        causal = torch.ones(steps, steps, dtype=torch.bool, device=tgt.device).tril()
        tgt_mask = (tgt != PAD)[:, None, None, :] & causal
        memory = self.encode(src, src_mask)
        return self.project(self.decode(tgt, memory, tgt_mask, src_mask))

    @torch.no_grad()
    def greedy(self, src, max_steps=None):
        """Most likely token at each step; rows that reached EOS are padded."""
        max_steps = min(max_steps or self.max_len - 1, self.max_len - 1)
        out = src.new_full((src.size(0), 1), BOS)
        done = torch.zeros(src.size(0), dtype=torch.bool, device=src.device)
        for _ in range(max_steps):
            token = self(src, out)[:, -1].argmax(dim=-1).masked_fill(done, PAD)
            out = torch.cat([out, token[:, None]], dim=1)
            done = done | (token == EOS)
            if done.all():
                break
        return out
