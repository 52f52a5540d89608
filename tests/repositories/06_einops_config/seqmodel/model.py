import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from einops.layers.torch import Rearrange
from torch import einsum, nn

from .config import TransformerConfig


def exists(val):
    return val is not None


def default(val, d):
    return val if exists(val) else d


# helpers

class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fn = fn

    def forward(self, x, **kwargs):
        return self.fn(self.norm(x), **kwargs) + x


class GEGLU(nn.Module):
    def forward(self, x):
        x, gates = x.chunk(2, dim = -1)
        return x * F.gelu(gates)


def FeedForward(dim, mult = 4, dropout = 0.):
    return nn.Sequential(
        nn.Linear(dim, dim * mult * 2),
        GEGLU(),
        nn.Dropout(dropout),
        nn.Linear(dim * mult, dim),
    )


class Attention(nn.Module):
    def __init__(self, dim, heads = 8, dim_head = 64, causal = False, dropout = 0.):
        super().__init__()
        inner_dim = heads * dim_head
        self.heads = heads
        self.causal = causal
        self.scale = dim_head ** -0.5

        self.to_q = nn.Linear(dim, inner_dim, bias = False)
        self.to_kv = nn.Linear(dim, inner_dim * 2, bias = False)
        self.dropout = nn.Dropout(dropout)
        self.to_out = nn.Sequential(Rearrange('b h n d -> b n (h d)'), nn.Linear(inner_dim, dim))

    def forward(self, x, context = None, mask = None):
        h = self.heads
        kv_input = default(context, x)
        q = self.to_q(x)
        k, v = self.to_kv(kv_input).chunk(2, dim = -1)
        q, k, v = map(lambda t: rearrange(t, 'b n (h d) -> b h n d', h = h), (q, k, v))

        sim = einsum('b h i d, b h j d -> b h i j', q * self.scale, k)
        mask_value = -torch.finfo(sim.dtype).max

        if exists(mask):
            sim = sim.masked_fill(~rearrange(mask, 'b j -> b 1 1 j'), mask_value)

        if self.causal:
            i, j = sim.shape[-2:]
            future = torch.ones((i, j), device = x.device, dtype = torch.bool).triu(j - i + 1)
            sim = sim.masked_fill(future, mask_value)

        attn = self.dropout(sim.softmax(dim = -1))
        return self.to_out(einsum('b h i j, b h j d -> b h i d', attn, v))


class Encoder(nn.Module):
    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        c = cfg.encoder
        self.layers = nn.ModuleList([nn.ModuleList([
            PreNorm(cfg.dim, Attention(cfg.dim, cfg.heads, cfg.dim_head, dropout = c.dropout)),
            PreNorm(cfg.dim, FeedForward(cfg.dim, c.ff_mult, c.dropout)),
        ]) for _ in range(c.depth)])
        self.norm = nn.LayerNorm(cfg.dim)

    def forward(self, x, mask = None):
        for attn, ff in self.layers:
            x = attn(x, mask = mask)
            x = ff(x)
        return self.norm(x)


class Decoder(nn.Module):
    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        c = cfg.decoder
        self.layers = nn.ModuleList([nn.ModuleList([
            PreNorm(cfg.dim, Attention(cfg.dim, cfg.heads, cfg.dim_head, causal = True, dropout = c.dropout)),
            PreNorm(cfg.dim, Attention(cfg.dim, cfg.heads, cfg.dim_head, dropout = c.dropout)),
            PreNorm(cfg.dim, FeedForward(cfg.dim, c.ff_mult, c.dropout)),
        ]) for _ in range(c.depth)])
        self.norm = nn.LayerNorm(cfg.dim)

    def forward(self, x, context, mask = None, context_mask = None):
        for attn, cross, ff in self.layers:
            x = attn(x, mask = mask)
            x = cross(x, context = context, mask = context_mask)
            x = ff(x)
        return self.norm(x)


class Transformer(nn.Module):
    def __init__(self, cfg: TransformerConfig):
        super().__init__()
        self.cfg = cfg
        self.token_emb = nn.Embedding(cfg.vocab_size, cfg.dim)
        self.pos_emb = nn.Embedding(cfg.max_seq_len, cfg.dim)
        self.encoder = Encoder(cfg)
        self.decoder = Decoder(cfg)
        self.to_logits = nn.Linear(cfg.dim, cfg.vocab_size, bias = False)
        nn.init.normal_(self.token_emb.weight, std = 0.02)
        nn.init.normal_(self.pos_emb.weight, std = 0.02)

        if cfg.tie_embeddings:
            self.to_logits.weight = self.token_emb.weight

    def embed(self, ids):
        positions = repeat(torch.arange(ids.shape[1], device = ids.device), 'n -> b n', b = ids.shape[0])
        return self.token_emb(ids) + self.pos_emb(positions)

    def forward(self, src, tgt, return_embeddings = False):
        src_mask = src != self.cfg.pad_id
        tgt_mask = tgt != self.cfg.pad_id

        enc = self.encoder(self.embed(src), mask = src_mask)
        dec = self.decoder(self.embed(tgt), enc, mask = tgt_mask, context_mask = src_mask)

        out = {'encoder_hidden': enc, 'logits': self.to_logits(dec)}
        if return_embeddings:
            out['decoder_hidden'] = dec
        return out
