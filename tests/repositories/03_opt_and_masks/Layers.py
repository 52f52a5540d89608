import torch.nn as nn
from Sublayers import FeedForward, MultiHeadAttention, Norm

class EncoderLayer(nn.Module):
    def __init__(self, d_model, heads, dropout=0.1):
        super().__init__()
        self.norm_1 = Norm(d_model)
        self.norm_2 = Norm(d_model)
        self.attn = MultiHeadAttention(heads, d_model, dropout=dropout)
        self.ff = FeedForward(d_model, dropout=dropout)
        self.dropout_1 = nn.Dropout(dropout)
        self.dropout_2 = nn.Dropout(dropout)

    def forward(self, x, mask):
        y = self.norm_1(x)
        x = x + self.dropout_1(self.attn(y, y, y, mask))
        y = self.norm_2(x)
        x = x + self.dropout_2(self.ff(y))
        return x

# build a decoder layer with two multi-head attention layers and one feed-forward layer
class DecoderLayer(nn.Module):
    def __init__(self, d_model, heads, dropout=0.1):
        super().__init__()
        self.norm_1, self.norm_2, self.norm_3 = Norm(d_model), Norm(d_model), Norm(d_model)
        self.dropout_1, self.dropout_2, self.dropout_3 = nn.Dropout(dropout), nn.Dropout(dropout), nn.Dropout(dropout)
        self.attn_1 = MultiHeadAttention(heads, d_model, dropout=dropout)
        self.attn_2 = MultiHeadAttention(heads, d_model, dropout=dropout)
        self.ff = FeedForward(d_model, dropout=dropout)

    def forward(self, x, e_outputs, src_mask, trg_mask):
        y = self.norm_1(x)
        x = x + self.dropout_1(self.attn_1(y, y, y, trg_mask))
        y = self.norm_2(x)
        x = x + self.dropout_2(self.attn_2(y, e_outputs, e_outputs, src_mask))
        y = self.norm_3(x)
        x = x + self.dropout_3(self.ff(y))
        return x
