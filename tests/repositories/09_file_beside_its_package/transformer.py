"""Glues encoder and decoder together, and trains: python transformer.py data/train.tsv"""
import sys

import torch
from torch import nn
from tqdm import tqdm

from transformer import Decoder, Encoder, Vocab

EPOCHS = 20
BATCH = 64


class Transformer(nn.Module):
    def __init__(
        self,
        src_vocab,
        trg_vocab,
        embed_size=512,
        num_layers=6,
        forward_expansion=4,
        heads=8,
        dropout=0.1,
        max_length=100,
    ):
        super().__init__()
        self.encoder = Encoder(len(src_vocab), embed_size, num_layers, heads, forward_expansion, dropout, max_length)
        self.decoder = Decoder(len(trg_vocab), embed_size, num_layers, heads, forward_expansion, dropout, max_length)
        self.src_pad_idx = src_vocab.pad_index
        self.trg_pad_idx = trg_vocab.pad_index

    def make_src_mask(self, src):
        # (N, 1, 1, src_len)
        return (src != self.src_pad_idx).unsqueeze(1).unsqueeze(2)

    def make_trg_mask(self, trg):
        N, trg_len = trg.shape
        causal = torch.tril(torch.ones((trg_len, trg_len), device=trg.device)).expand(N, 1, trg_len, trg_len)
        return causal * (trg != self.trg_pad_idx)[:, None, None, :]

    def forward(self, src, trg):
        src_mask = self.make_src_mask(src)
        trg_mask = self.make_trg_mask(trg)
        enc_src = self.encoder(src, src_mask)
        out = self.decoder(trg, enc_src, src_mask, trg_mask)
        # CrossEntropyLoss wants the classes in the second dimension
        return out.permute(0, 2, 1)


def read_pairs(path):
    with open(path, encoding="utf-8") as f:
        pairs = [line.rstrip("\n").lower().split("\t")[:2] for line in f]
    return [(src.split(), trg.split()) for src, trg in pairs]


def batches(pairs, src_vocab, trg_vocab):
    for i in range(0, len(pairs), BATCH):
        columns = zip(*pairs[i:i + BATCH])
        yield tuple(
            nn.utils.rnn.pad_sequence(
                [torch.tensor([v["<sos>"]] + [v[w] for w in s] + [v["<eos>"]]) for s in column],
                batch_first=True, padding_value=v.pad_index)
            for column, v in zip(columns, (src_vocab, trg_vocab)))


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pairs = read_pairs(sys.argv[1])
    src_vocab, trg_vocab = Vocab(s for s, _ in pairs), Vocab(t for _, t in pairs)
    model = Transformer(src_vocab, trg_vocab).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    loss_fn = nn.CrossEntropyLoss(ignore_index=trg_vocab.pad_index)
    for epoch in range(EPOCHS):
        bar = tqdm(batches(pairs, src_vocab, trg_vocab))
        for src, trg in bar:
            src, trg = src.to(device), trg.to(device)
            loss = loss_fn(model(src, trg[:, :-1]), trg[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            bar.set_postfix(epoch=epoch, loss=loss.item())
