import math

import torch
import torch.nn.functional as F
from torch import nn

NEG_INFTY = -1e9
MAX_SEQUENCE_LENGTH = 100
BATCH_SIZE = 30  # the loader drops the last batch


def get_device():
    return torch.device('cuda') if torch.cuda.is_available() else torch.device('cpu')


def scaled_dot_product(q, k, v, mask=None):
    # q: 30 x 8 x 100 x 64, k: 30 x 8 x 100 x 64, v: 30 x 8 x 100 x 64, mask 30 x 100 x 100
    d_k = q.size()[-1]
    scaled = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(d_k)  # 30 x 8 x 100 x 100
    if mask is not None:
        # broadcasting add, so the heads have to come first for a moment
        scaled = scaled.permute(1, 0, 2, 3) + mask
        scaled = scaled.permute(1, 0, 2, 3)
    attention = F.softmax(scaled, dim=-1)
    return torch.matmul(attention, v), attention


def create_masks(src, tgt, pad=0):
    """0 where a word may look, NEG_INFTY where it may not."""
    length = src.size(1)
    look_ahead = torch.triu(torch.full((length, length), True, device=src.device), diagonal=1)
    src_pad = (src == pad).unsqueeze(1).expand(-1, length, -1)
    tgt_pad = (tgt == pad).unsqueeze(1).expand(-1, length, -1)
    encoder_mask = torch.where(src_pad, NEG_INFTY, 0.)
    decoder_self_mask = torch.where(tgt_pad | look_ahead, NEG_INFTY, 0.)
    decoder_cross_mask = torch.where(src_pad, NEG_INFTY, 0.)
    return encoder_mask, decoder_self_mask, decoder_cross_mask


class SentenceEmbedding(nn.Module):
    "For a given batch of (padded) sentences, create the embedding"
    def __init__(self, max_sequence_length, d_model, vocab_size, drop_prob):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.dropout = nn.Dropout(p=drop_prob)
        even_i = torch.arange(0, d_model, 2).float()
        denominator = torch.pow(10000, even_i / d_model)
        position = torch.arange(max_sequence_length).reshape(max_sequence_length, 1)
        stacked = torch.stack([torch.sin(position / denominator), torch.cos(position / denominator)], dim=2)
        self.PE = torch.flatten(stacked, start_dim=1, end_dim=2)

    def forward(self, x):  # 30 x 100
        x = self.embedding(x)
        return self.dropout(x + self.PE.to(get_device()))  # 30 x 100 x 512


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.qkv_layer = nn.Linear(d_model, 3 * d_model)
        self.linear_layer = nn.Linear(d_model, d_model)

    def forward(self, x, mask):
        batch_size, sequence_length, d_model = x.size()
        qkv = self.qkv_layer(x)  # 30 x 100 x 1536
        qkv = qkv.reshape(BATCH_SIZE, sequence_length, self.num_heads, 3 * self.head_dim)
        qkv = qkv.permute(0, 2, 1, 3)  # 30 x 8 x 100 x 192
        q, k, v = qkv.chunk(3, dim=-1)
        values, attention = scaled_dot_product(q, k, v, mask)  # 30 x 8 x 100 x 64
        values = values.reshape(batch_size, sequence_length, self.num_heads * self.head_dim)  # 30 x 100 x 512
        return self.linear_layer(values)


class MultiHeadCrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.kv_layer = nn.Linear(d_model, 2 * d_model)
        self.q_layer = nn.Linear(d_model, d_model)
        self.linear_layer = nn.Linear(d_model, d_model)

    def forward(self, x, y, mask):
        # x comes from the encoder, y from the decoder
        batch_size, sequence_length, d_model = x.size()
        kv = self.kv_layer(x).reshape(BATCH_SIZE, sequence_length, self.num_heads, 2 * self.head_dim)
        q = self.q_layer(y).reshape(BATCH_SIZE, sequence_length, self.num_heads, self.head_dim)
        kv = kv.permute(0, 2, 1, 3)
        q = q.permute(0, 2, 1, 3)
        k, v = kv.chunk(2, dim=-1)
        values, attention = scaled_dot_product(q, k, v, mask)
        values = values.reshape(batch_size, sequence_length, d_model)
        return self.linear_layer(values)


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, hidden, drop_prob=0.1):
        super().__init__()
        self.linear1 = nn.Linear(d_model, hidden)
        self.linear2 = nn.Linear(hidden, d_model)
        self.relu = nn.ReLU()
        self.dropout = nn.Dropout(p=drop_prob)

    def forward(self, x):
        return self.linear2(self.dropout(self.relu(self.linear1(x))))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, ffn_hidden, num_heads, drop_prob):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.dropout1 = nn.Dropout(p=drop_prob)
        self.ffn = PositionwiseFeedForward(d_model, ffn_hidden, drop_prob)
        self.norm2 = nn.LayerNorm(d_model)
        self.dropout2 = nn.Dropout(p=drop_prob)

    def forward(self, x, mask):
        x = self.norm1(x + self.dropout1(self.attention(x, mask)))
        return self.norm2(x + self.dropout2(self.ffn(x)))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, ffn_hidden, num_heads, drop_prob):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.dropout1 = nn.Dropout(p=drop_prob)
        self.cross_attention = MultiHeadCrossAttention(d_model, num_heads)
        self.norm2 = nn.LayerNorm(d_model)
        self.dropout2 = nn.Dropout(p=drop_prob)
        self.ffn = PositionwiseFeedForward(d_model, ffn_hidden, drop_prob)
        self.norm3 = nn.LayerNorm(d_model)
        self.dropout3 = nn.Dropout(p=drop_prob)

    def forward(self, x, y, self_mask, cross_mask):
        y = self.norm1(y + self.dropout1(self.self_attention(y, self_mask)))
        y = self.norm2(y + self.dropout2(self.cross_attention(x, y, cross_mask)))
        return self.norm3(y + self.dropout3(self.ffn(y)))


class Transformer(nn.Module):
    def __init__(self, d_model, ffn_hidden, num_heads, drop_prob, num_layers, max_sequence_length,
                 src_vocab_size, tgt_vocab_size):
        super().__init__()
        self.max_sequence_length = max_sequence_length
        self.src_embedding = SentenceEmbedding(max_sequence_length, d_model, src_vocab_size, drop_prob)
        self.tgt_embedding = SentenceEmbedding(max_sequence_length, d_model, tgt_vocab_size, drop_prob)
        self.encoder = nn.ModuleList([EncoderLayer(d_model, ffn_hidden, num_heads, drop_prob) for _ in range(num_layers)])
        self.decoder = nn.ModuleList([DecoderLayer(d_model, ffn_hidden, num_heads, drop_prob) for _ in range(num_layers)])
        self.linear = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, x, y, encoder_self_attention_mask=None, decoder_self_attention_mask=None,
                decoder_cross_attention_mask=None):
        x = self.src_embedding(x)
        for layer in self.encoder:
            x = layer(x, encoder_self_attention_mask)
        y = self.tgt_embedding(y)
        for layer in self.decoder:
            y = layer(x, y, decoder_self_attention_mask, decoder_cross_attention_mask)
        return self.linear(y)  # 30 x 100 x vocab
