import math

import torch
from torch import nn


class MHA(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h, self.d = cfg.n_heads, cfg.d_model // cfg.n_heads
        self.proj = nn.ModuleDict({name: nn.Linear(cfg.d_model, cfg.d_model) for name in ("q", "k", "v", "o")})
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, q, kv, bias):
        B, Tq, C = q.shape
        q = self.proj["q"](q).view(B, Tq, self.h, self.d).transpose(1, 2)
        k = self.proj["k"](kv).view(B, -1, self.h, self.d).transpose(1, 2)
        v = self.proj["v"](kv).view(B, -1, self.h, self.d).transpose(1, 2)
        att = q @ k.transpose(-1, -2) * self.d ** -0.5 + bias
        att = self.drop(att.softmax(-1))
        return self.proj["o"]((att @ v).transpose(1, 2).reshape(B, Tq, C))


class FFN(nn.Sequential):
    def __init__(self, cfg):
        super().__init__(nn.Linear(cfg.d_model, cfg.d_ff), nn.ReLU(inplace=True), nn.Linear(cfg.d_ff, cfg.d_model))


class Sub(nn.Module):
    """post-norm residual"""

    def __init__(self, cfg, f):
        super().__init__()
        self.f, self.norm, self.drop = f, nn.LayerNorm(cfg.d_model), nn.Dropout(cfg.dropout)

    def forward(self, x, *args):
        return self.norm(x + self.drop(self.f(x, *args)))


class Embed(nn.Module):
    def __init__(self, n, cfg):
        super().__init__()
        self.tok = nn.Embedding(n, cfg.d_model, padding_idx=cfg.pad_idx)
        self.scale = math.sqrt(cfg.d_model)
        t = torch.arange(cfg.max_len)[:, None] * torch.exp(torch.arange(0, cfg.d_model, 2) * (-math.log(1e4) / cfg.d_model))
        # sines in the first half, cosines in the second, like tensor2tensor
        self.register_buffer("pos", torch.cat([t.sin(), t.cos()], dim=1), persistent=False)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x):
        return self.drop(self.tok(x) * self.scale + self.pos[: x.size(1)])
