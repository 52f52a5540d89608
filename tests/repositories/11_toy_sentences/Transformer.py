# -*- coding: utf-8 -*-
# Transformer 从零实现，德语 -> 英语，只用两句话的玩具数据
import math
import torch
import numpy as np
import torch.nn as nn
import torch.optim as optim
import torch.utils.data as Data

# S: 解码器输入的开始符号
# E: 解码器输出的结束符号
# P: 句子不够长时用来填充的符号
sentences = [
    # enc_input            dec_input             dec_output
    ['ich mochte ein bier P', 'S i want a beer .', 'i want a beer . E'],
    ['ich mochte ein cola P', 'S i want a coke .', 'i want a coke . E'],
]

# 填充必须是 0
src_vocab = {'P': 0, 'ich': 1, 'mochte': 2, 'ein': 3, 'bier': 4, 'cola': 5}
src_vocab_size = len(src_vocab)

tgt_vocab = {'P': 0, 'i': 1, 'want': 2, 'a': 3, 'beer': 4, 'coke': 5, 'S': 6, 'E': 7, '.': 8}
idx2word = {i: w for i, w in enumerate(tgt_vocab)}
tgt_vocab_size = len(tgt_vocab)

src_len = 5  # 编码器输入长度
tgt_len = 6  # 解码器输入（输出）长度

# 超参数
d_model = 512   # 词向量维度
d_ff = 2048     # 前馈网络维度
d_k = d_v = 64  # K(=Q), V 的维度
n_layers = 6    # 层数
n_heads = 8     # 头数


def make_data(sentences):
    enc_inputs, dec_inputs, dec_outputs = [], [], []
    for enc, dec, out in sentences:
        enc_inputs.append([src_vocab[n] for n in enc.split()])
        dec_inputs.append([tgt_vocab[n] for n in dec.split()])
        dec_outputs.append([tgt_vocab[n] for n in out.split()])
    return torch.LongTensor(enc_inputs), torch.LongTensor(dec_inputs), torch.LongTensor(dec_outputs)


enc_inputs, dec_inputs, dec_outputs = make_data(sentences)
loader = Data.DataLoader(Data.TensorDataset(enc_inputs, dec_inputs, dec_outputs), 2, True)


def get_sinusoid_table(n_position, d_model):
    '''正弦位置编码表 [n_position, d_model]'''
    angle = lambda pos, j: pos / np.power(10000, 2 * (j // 2) / d_model)
    table = np.array([[angle(pos, j) for j in range(d_model)] for pos in range(n_position)])
    table[:, 0::2] = np.sin(table[:, 0::2])
    table[:, 1::2] = np.cos(table[:, 1::2])
    return torch.FloatTensor(table)


def get_pad_mask(seq_q, seq_k):
    '''True 的位置会被遮住  [batch, len_q, len_k]'''
    pad = seq_k.data.eq(0).unsqueeze(1)
    return pad.expand(seq_q.size(0), seq_q.size(1), seq_k.size(1))


def get_subsequence_mask(seq):
    '''遮住未来的词 [batch, tgt_len, tgt_len]'''
    shape = [seq.size(0), seq.size(1), seq.size(1)]
    return torch.from_numpy(np.triu(np.ones(shape), k=1)).byte()


class MultiHeadAttention(nn.Module):
    def __init__(self):
        super(MultiHeadAttention, self).__init__()
        self.W_Q = nn.Linear(d_model, d_k * n_heads, bias=False)
        self.W_K = nn.Linear(d_model, d_k * n_heads, bias=False)
        self.W_V = nn.Linear(d_model, d_v * n_heads, bias=False)
        self.fc = nn.Linear(n_heads * d_v, d_model, bias=False)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, input_Q, input_K, input_V, attn_mask):
        residual, batch_size = input_Q, input_Q.size(0)
        Q = self.W_Q(input_Q).view(batch_size, -1, n_heads, d_k).transpose(1, 2)
        K = self.W_K(input_K).view(batch_size, -1, n_heads, d_k).transpose(1, 2)
        V = self.W_V(input_V).view(batch_size, -1, n_heads, d_v).transpose(1, 2)
        # 每个头用同样的 mask
        attn_mask = attn_mask.unsqueeze(1).repeat(1, n_heads, 1, 1)
        scores = torch.matmul(Q, K.transpose(-1, -2)) / np.sqrt(d_k)
        scores.masked_fill_(attn_mask, -1e9)
        attn = nn.Softmax(dim=-1)(scores)
        context = torch.matmul(attn, V).transpose(1, 2).reshape(batch_size, -1, n_heads * d_v)
        return self.norm(self.fc(context) + residual), attn


class PoswiseFeedForwardNet(nn.Module):
    def __init__(self):
        super(PoswiseFeedForwardNet, self).__init__()
        self.fc = nn.Sequential(
            nn.Linear(d_model, d_ff, bias=False),
            nn.ReLU(),
            nn.Linear(d_ff, d_model, bias=False))
        self.norm = nn.LayerNorm(d_model)

    def forward(self, inputs):
        return self.norm(self.fc(inputs) + inputs)


class EncoderLayer(nn.Module):
    def __init__(self):
        super(EncoderLayer, self).__init__()
        self.enc_self_attn = MultiHeadAttention()
        self.pos_ffn = PoswiseFeedForwardNet()

    def forward(self, enc_inputs, mask):
        enc_outputs, attn = self.enc_self_attn(enc_inputs, enc_inputs, enc_inputs, mask)
        return self.pos_ffn(enc_outputs), attn


class DecoderLayer(nn.Module):
    def __init__(self):
        super(DecoderLayer, self).__init__()
        self.dec_self_attn = MultiHeadAttention()
        self.dec_enc_attn = MultiHeadAttention()
        self.pos_ffn = PoswiseFeedForwardNet()

    def forward(self, dec_inputs, enc_outputs, self_mask, enc_mask):
        dec_outputs, self_attn = self.dec_self_attn(dec_inputs, dec_inputs, dec_inputs, self_mask)
        dec_outputs, enc_attn = self.dec_enc_attn(dec_outputs, enc_outputs, enc_outputs, enc_mask)
        return self.pos_ffn(dec_outputs), self_attn, enc_attn


class Encoder(nn.Module):
    def __init__(self):
        super(Encoder, self).__init__()
        self.src_emb = nn.Embedding(src_vocab_size, d_model)
        self.pos_emb = nn.Embedding.from_pretrained(get_sinusoid_table(src_len, d_model), freeze=True)
        self.layers = nn.ModuleList([EncoderLayer() for _ in range(n_layers)])

    def forward(self, enc_inputs):
        pos = torch.arange(src_len).cuda()
        enc_outputs = self.src_emb(enc_inputs) + self.pos_emb(pos)
        mask = get_pad_mask(enc_inputs, enc_inputs)
        attns = []
        for layer in self.layers:
            enc_outputs, attn = layer(enc_outputs, mask)
            attns.append(attn)
        return enc_outputs, attns


class Decoder(nn.Module):
    def __init__(self):
        super(Decoder, self).__init__()
        self.tgt_emb = nn.Embedding(tgt_vocab_size, d_model)
        self.pos_emb = nn.Embedding.from_pretrained(get_sinusoid_table(tgt_len, d_model), freeze=True)
        self.layers = nn.ModuleList([DecoderLayer() for _ in range(n_layers)])

    def forward(self, dec_inputs, enc_inputs, enc_outputs):
        pos = torch.arange(tgt_len).cuda()
        dec_outputs = self.tgt_emb(dec_inputs) + self.pos_emb(pos)
        pad_mask = get_pad_mask(dec_inputs, dec_inputs).cuda()
        future_mask = get_subsequence_mask(dec_inputs).cuda()
        self_mask = torch.gt(pad_mask + future_mask, 0).cuda()   # 两种 mask 有一个就遮住
        enc_mask = get_pad_mask(dec_inputs, enc_inputs)
        self_attns, enc_attns = [], []
        for layer in self.layers:
            dec_outputs, self_attn, enc_attn = layer(dec_outputs, enc_outputs, self_mask, enc_mask)
            self_attns.append(self_attn)
            enc_attns.append(enc_attn)
        return dec_outputs, self_attns, enc_attns


class Transformer(nn.Module):
    def __init__(self):
        super(Transformer, self).__init__()
        self.encoder = Encoder().cuda()
        self.decoder = Decoder().cuda()
        self.projection = nn.Linear(d_model, tgt_vocab_size, bias=False).cuda()

    def forward(self, enc_inputs, dec_inputs):
        '''
        enc_inputs: [batch, src_len]
        dec_inputs: [batch, tgt_len]
        '''
        enc_outputs, enc_self_attns = self.encoder(enc_inputs)
        dec_outputs, dec_self_attns, dec_enc_attns = self.decoder(dec_inputs, enc_inputs, enc_outputs)
        dec_logits = self.projection(dec_outputs)  # [batch, tgt_len, tgt_vocab_size]
        return dec_logits.view(-1, dec_logits.size(-1)), enc_self_attns, dec_self_attns, dec_enc_attns


model = Transformer().cuda()
criterion = nn.CrossEntropyLoss(ignore_index=0)
optimizer = optim.SGD(model.parameters(), lr=1e-3, momentum=0.99)

for epoch in range(1000):
    for enc_inputs, dec_inputs, dec_outputs in loader:
        enc_inputs, dec_inputs, dec_outputs = enc_inputs.cuda(), dec_inputs.cuda(), dec_outputs.cuda()
        outputs, _, _, _ = model(enc_inputs, dec_inputs)
        loss = criterion(outputs, dec_outputs.view(-1))
        print('Epoch:', '%04d' % (epoch + 1), 'loss =', '{:.6f}'.format(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

# 测试
enc_inputs, dec_inputs, _ = next(iter(loader))
predict, _, _, _ = model(enc_inputs.cuda(), dec_inputs.cuda())
predict = predict.data.max(1, keepdim=True)[1]
print([idx2word[n.item()] for n in predict.squeeze()])
