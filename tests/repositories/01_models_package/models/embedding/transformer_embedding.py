import torch
from torch import nn


class SinusoidEncoding(nn.Module):

    def __init__(self, d_model, max_len, device):
        super(SinusoidEncoding, self).__init__()

        # same size as the input matrix (for adding with it)
        self.encoding = torch.zeros(max_len, d_model, device=device)
        self.encoding.requires_grad = False

        pos = torch.arange(0, max_len, device=device).float().unsqueeze(dim=1)
        two_i = torch.arange(0, d_model, step=2, device=device).float()
        self.encoding[:, 0::2] = torch.sin(pos / (10000 ** (two_i / d_model)))
        self.encoding[:, 1::2] = torch.cos(pos / (10000 ** (two_i / d_model)))

    def forward(self, x):
        _, seq_len = x.size()
        return self.encoding[:seq_len, :]


class TransformerEmbedding(nn.Module):
    """
    token embedding + positional encoding
    """

    def __init__(self, vocab_size, d_model, max_len, drop_prob, device):
        super(TransformerEmbedding, self).__init__()
        self.tok_emb = nn.Embedding(vocab_size, d_model, padding_idx=1)
        self.pos_emb = SinusoidEncoding(d_model, max_len, device)
        self.drop_out = nn.Dropout(p=drop_prob)

    def forward(self, x):
        return self.drop_out(self.tok_emb(x) + self.pos_emb(x))
