# Written by `make export` from book/95_since_2017.ipynb: edit the chapter, not this.
"""The decoder of today, as Llama and Qwen3 have it."""

import math

import torch
from torch import nn


# book/95_since_2017.ipynb#rms-norm
class RMSNorm(nn.Module):
    """Divide by the root of the mean square; no mean, no shift. Computed in float32."""

    def __init__(self, d: int, eps: float = 1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        wide = x.float()  # today's weights often have 16 bits
        size = (wide.square().mean(-1, keepdim=True) + self.eps).sqrt()
        return self.weight * (wide / size).to(x.dtype)


# book/95_since_2017.ipynb#rotary
def speeds(d_k, theta=1e4):  # -> (d_k / 2,)
    """The angle that each pair turns by from one position to the next."""
    return theta ** -(torch.arange(0, d_k, 2) / d_k)


def turn(x, angles):  # (b, h, n, d_k) and (..., n, d_k / 2)
    """Turn each pair (i, i + d_k / 2) by the angle of its position."""
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)


# book/95_since_2017.ipynb#swiglu
class SwiGLU(nn.Module):
    """An inner layer, opened and shut by a second one."""

    def __init__(self, d: int, d_ff: int):
        super().__init__()
        self.gate, self.inner = (nn.Linear(d, d_ff, bias=False) for _ in range(2))
        self.outer = nn.Linear(d_ff, d, bias=False)

    def forward(self, x):
        return self.outer(nn.functional.silu(self.gate(x)) * self.inner(x))


# book/95_since_2017.ipynb#rate
def learning_rate(step: int, steps: int, peak: float, warmup: int, last: float = 0.1):
    """Up in a line, then down as half a cosine to `last` of the peak. Counts from 1."""
    if step <= warmup:
        return peak * step / warmup
    share = min(1, (step - warmup) / (steps - warmup))
    return peak * (last + (1 - last) * (1 + math.cos(math.pi * share)) / 2)


# book/95_since_2017.ipynb#training
def make_optimizer(weights, rate: float, decay: float = 0.1):
    """AdamW: a step shrinks matrices by `rate * decay` of themselves, but not gains."""
    weights = list(weights)
    gains = [weight for weight in weights if weight.dim() < 2]
    matrices = [weight for weight in weights if weight.dim() > 1]
    groups = [{"params": gains, "weight_decay": 0}, {"params": matrices}]
    return torch.optim.AdamW(groups, rate, betas=(0.9, 0.95), weight_decay=decay)


# book/95_since_2017.ipynb#scaling
def stretched(speed, factor, low, high, length):
    """Llama 3.1's speeds. `low`, `high`: how often a pair came round in `length`."""
    kept = ((length * speed / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
    return speed * (kept + (1 - kept) / factor)


# book/95_since_2017.ipynb#seen
def seen(real, before=0, window=None):  # (b, n) -> (b, n - before, n)
    """What each query sees: itself and the real tokens before it, in its window."""
    number = torch.arange(real.shape[1], device=real.device)
    back = number[before:, None] - number  # how far each query looks back
    near = (back >= 0) & (back < (window or math.inf)) & real[:, None]
    return near | (back == 0)  # a pad sees itself, too


# book/95_since_2017.ipynb#attention
class Attention(nn.Module):
    """Equation (1), with turned queries and keys, shared heads, and a cache."""

    def __init__(self, d, heads, kv_heads, d_k, qk_norm, eps):
        super().__init__()
        self.d_k, self.share = d_k, heads // kv_heads
        self.query = nn.Linear(d, heads * d_k, bias=False)
        self.key = nn.Linear(d, kv_heads * d_k, bias=False)
        self.value = nn.Linear(d, kv_heads * d_k, bias=False)
        self.output = nn.Linear(heads * d_k, d, bias=False)
        self.query_norm = RMSNorm(d_k, eps) if qk_norm else nn.Identity()
        self.key_norm = RMSNorm(d_k, eps) if qk_norm else nn.Identity()

    def split(self, x):  # (b, n, h * d_k) -> (b, h, n, d_k)
        return x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)

    def forward(self, x, angles, mask, cache=None):
        q, k, v = (self.split(f(x)) for f in (self.query, self.key, self.value))
        q, k = turn(self.query_norm(q), angles), turn(self.key_norm(k), angles)
        if cache is not None:
            if cache:
                k, v = (torch.cat(pair, dim=2) for pair in zip(cache, (k, v)))
            cache[:] = k, v
        k, v = (part.repeat_interleave(self.share, dim=1) for part in (k, v))
        scores = q @ k.mT / math.sqrt(self.d_k)
        weights = scores.masked_fill(~mask, -math.inf).float().softmax(-1)
        mixed = weights.to(x.dtype) @ v
        return self.output(mixed.transpose(1, 2).flatten(2))


# book/95_since_2017.ipynb#layer
class Layer(nn.Module):
    """x + attention(norm(x)), then x + network(norm(x))."""

    def __init__(self, d, attention, feed_forward, eps, dropout=0.0):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.first_norm, self.second_norm = RMSNorm(d, eps), RMSNorm(d, eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, angles, mask, cache=None):
        x = x + self.dropout(self.attention(self.first_norm(x), angles, mask, cache))
        return x + self.dropout(self.feed_forward(self.second_norm(x)))


# book/95_since_2017.ipynb#decoder
class Decoder(nn.Module):
    """Today's model. `windows` says how many tokens each layer sees, or None: all."""

    def __init__(
        self, vocab_size, d_model, d_ff, num_heads, num_layers, num_kv_heads=None,
        d_k=None, theta=1e4, scaling=None, windows=None, eps=1e-6, qk_norm=False,
        tied=False, dropout=0.0,
    ):  # fmt: skip
        super().__init__()
        d, d_k, kv = d_model, d_k or d_model // num_heads, num_kv_heads or num_heads
        self.rotary, self.scaling = (d_k, theta), scaling
        self.windows = windows or [None] * num_layers
        self.embedding, self.layers = nn.Embedding(vocab_size, d), nn.ModuleList()
        for _ in range(num_layers):
            attention = Attention(d, num_heads, kv, d_k, qk_norm, eps)
            self.layers.append(Layer(d, attention, SwiGLU(d, d_ff), eps, dropout))
        self.norm, self.output = RMSNorm(d, eps), nn.Linear(d, vocab_size, bias=False)
        if tied:  # the output matrix is the embedding, as in the paper
            self.output.weight = self.embedding.weight

    def new_cache(self):
        """Room for each layer's keys and values; `forward` adds to it."""
        return [[] for _ in self.layers]

    def angles(self, real):  # (b, n) -> (b, 1, n, d_k / 2)
        """By how much each token turns its pairs. Pads do not count as places."""
        speed = speeds(*self.rotary)
        speed = stretched(speed, *self.scaling) if self.scaling else speed
        return (real.cumsum(-1) - 1)[:, None, :, None] * speed.to(real.device)

    def forward(self, tokens, real=None, cache=None):  # (b, n) -> (b, n, vocab)
        """Logits of each next token. `real` is false at pads: (b, before + n)."""
        before = cache[0][0].shape[2] if cache and cache[0] else 0  # tokens in it
        if real is None:
            real = tokens.new_ones(1, before + tokens.shape[1]).bool()
        angles, x = self.angles(real)[:, :, before:], self.embedding(tokens)
        for i, layer in enumerate(self.layers):
            mask = seen(real, before, self.windows[i])[:, None]
            x = layer(x, angles, mask, cache[i] if cache else None)
        return self.output(self.norm(x))


# book/95_since_2017.ipynb#chosen
def chosen(logits, temperature=0.0, top_p=1.0):  # (b, vocab) -> (b, 1)
    """The likeliest token, or one drawn among those that together have `top_p`."""
    if not temperature:
        return logits.argmax(-1, keepdim=True)
    shares, order = (logits / temperature).softmax(-1).sort(descending=True)
    likelier = shares.cumsum(-1) - shares  # what all likelier tokens have together
    shares[likelier >= top_p] = 0
    return order.gather(-1, shares.multinomial(1))  # draw a place, look up its token


# book/95_since_2017.ipynb#write
@torch.no_grad()
def write(model, tokens, count, temperature=0.0, top_p=1.0, real=None, cache=None):
    """Yield the next token of every text, (b,), `count` times."""
    cache = cache or model.new_cache()  # pass one in to go on after earlier tokens
    for _ in range(count):
        logits = model(tokens, real, cache)[:, -1].float()
        tokens = chosen(logits, temperature, top_p)
        yield tokens[:, 0]
        real = None if real is None else nn.functional.pad(real, (0, 1), value=True)


# book/95_since_2017.ipynb#layouts
def from_neighbours(rows, heads):  # (h * d_k, ...), of queries or keys
    """Rows for pairs of neighbours, in the order that `turn` expects: halves."""
    return rows.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)
