import math

import torch
from torch import nn


class ScaledDotProduct(nn.Module):
    """
    how much does each query (decoder / encoder word) want of each key?
    """

    def __init__(self):
        super(ScaledDotProduct, self).__init__()
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, q, k, v, mask=None, e=-1e4):
        d_head = q.size(-1)

        # 1. similarity of Q and K
        score = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d_head)

        # 2. masking (opt)
        if mask is not None:
            score = score.masked_fill(mask == 0, e)

        # 3. to [0, 1]
        score = self.softmax(score)

        # 4. weighted values
        return torch.matmul(score, v), score


class MultiHead(nn.Module):

    def __init__(self, d_model, n_head):
        super(MultiHead, self).__init__()
        self.n_head = n_head
        self.attention = ScaledDotProduct()
        self.proj_q = nn.Linear(d_model, d_model)
        self.proj_k = nn.Linear(d_model, d_model)
        self.proj_v = nn.Linear(d_model, d_model)
        self.concat_proj = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.split(self.proj_q(q)), self.split(self.proj_k(k)), self.split(self.proj_v(v))
        out, attention = self.attention(q, k, v, mask=mask)
        out = self.concat(out)
        # TODO : visualization of the attention map
        return self.concat_proj(out)

    def split(self, tensor):
        """
        :param tensor: [batch_size, length, d_model]
        :return: [batch_size, head, length, d_head]
        """
        batch_size, length, d_model = tensor.size()
        return tensor.view(batch_size, length, self.n_head, d_model // self.n_head).transpose(1, 2)

    def concat(self, tensor):
        batch_size, head, length, d_head = tensor.size()
        return tensor.transpose(1, 2).contiguous().view(batch_size, length, head * d_head)
