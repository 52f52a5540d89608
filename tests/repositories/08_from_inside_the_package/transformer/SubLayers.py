''' Define the sublayers in encoder/decoder layer '''
import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    ''' Multi-Head Attention module '''

    def __init__(self, n_head, d_model, d_k, d_v, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_ks = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_vs = nn.Linear(d_model, n_head * d_v, bias=False)
        self.fc = nn.Linear(n_head * d_v, d_model, bias=False)
        self.attn_dropout = nn.Dropout(dropout)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(d_model, eps=1e-6)

    def forward(self, q, k, v, mask=None):
        sz_b, len_q, len_k = q.size(0), q.size(1), k.size(1)
        residual = q

        # b x lq x (n*dv)  ->  (n*b) x lq x dv, as the first version of the code did
        qs = self.w_qs(q).view(sz_b, len_q, self.n_head, self.d_k).permute(2, 0, 1, 3).reshape(-1, len_q, self.d_k)
        ks = self.w_ks(k).view(sz_b, len_k, self.n_head, self.d_k).permute(2, 0, 1, 3).reshape(-1, len_k, self.d_k)
        vs = self.w_vs(v).view(sz_b, len_k, self.n_head, self.d_v).permute(2, 0, 1, 3).reshape(-1, len_k, self.d_v)

        attn = torch.bmm(qs, ks.transpose(1, 2)) / self.d_k ** 0.5
        if mask is not None:
            mask = mask.expand(sz_b, len_q, len_k).repeat(self.n_head, 1, 1)
            attn = attn.masked_fill(mask == 0, -1e9)
        attn = self.attn_dropout(F.softmax(attn, dim=2))

        output = torch.bmm(attn, vs).view(self.n_head, sz_b, len_q, self.d_v)
        output = output.permute(1, 2, 0, 3).contiguous().view(sz_b, len_q, -1)
        output = self.dropout(self.fc(output))
        return self.layer_norm(output + residual), attn


class PositionwiseFeedForward(nn.Module):
    ''' A two-feed-forward-layer module, as convolutions of width 1 '''

    def __init__(self, d_in, d_hid, dropout=0.1):
        super().__init__()
        self.w_1 = nn.Conv1d(d_in, d_hid, 1)
        self.w_2 = nn.Conv1d(d_hid, d_in, 1)
        self.layer_norm = nn.LayerNorm(d_in, eps=1e-6)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        output = self.w_2(F.relu(self.w_1(x.transpose(1, 2)))).transpose(1, 2)
        return self.layer_norm(x + self.dropout(output))
