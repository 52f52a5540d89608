import torch
import torch.nn as nn
import math
from torch.autograd import Variable

class Embedder(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.d_model = d_model
        self.embed = nn.Embedding(vocab_size, d_model)
    def forward(self, x):
        return self.embed(x)

class PositionalEncoder(nn.Module):
    def __init__(self, d_model, max_seq_len = 200, dropout = 0.1):
        super().__init__()
        self.d_model = d_model
        self.dropout = nn.Dropout(dropout)
        # one row per position, sin on even columns and cos on odd ones
        table = torch.zeros(max_seq_len, d_model)
        for pos in range(max_seq_len):
            for i in range(0, d_model, 2):
                angle = pos / (10000 ** (i / d_model))
                table[pos, i] = math.sin(angle)
                table[pos, i + 1] = math.cos(angle)
        self.register_buffer('pe', table.unsqueeze(0))

    def forward(self, x):
        # make embeddings larger, so that the position does not drown them
        x = x * math.sqrt(self.d_model)
        pe = Variable(self.pe[:, :x.size(1)], requires_grad=False)
        if x.is_cuda:
            pe = pe.cuda()
        return self.dropout(x + pe)
