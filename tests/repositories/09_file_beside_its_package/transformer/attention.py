import torch
from torch import nn


class SelfAttention(nn.Module):
    """Also used for cross attention: keys and values may come from elsewhere."""

    def __init__(self, embed_size, heads):
        super().__init__()
        assert embed_size % heads == 0, "Embedding size needs to be divisible by heads"
        self.embed_size = embed_size
        self.heads = heads
        self.head_dim = embed_size // heads
        self.values = nn.Linear(embed_size, embed_size)
        self.keys = nn.Linear(embed_size, embed_size)
        self.queries = nn.Linear(embed_size, embed_size)
        self.fc_out = nn.Linear(embed_size, embed_size)

    def forward(self, values, keys, query, mask):
        N = query.shape[0]
        v = self.values(values).reshape(N, -1, self.heads, self.head_dim)
        k = self.keys(keys).reshape(N, -1, self.heads, self.head_dim)
        q = self.queries(query).reshape(N, -1, self.heads, self.head_dim)

        # q: (N, q_len, heads, dim)   k: (N, k_len, heads, dim)   energy: (N, heads, q_len, k_len)
        energy = torch.einsum("nqhd,nkhd->nhqk", q, k) / self.head_dim ** 0.5
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        attention = torch.softmax(energy, dim=3)
        out = torch.einsum("nhqk,nkhd->nqhd", attention, v)
        return self.fc_out(out.reshape(N, -1, self.embed_size))
