import argparse
import os
import random
from types import SimpleNamespace

import torch
import yaml
from torch import nn
from torch.utils.tensorboard import SummaryWriter

from net.blocks import FFN, MHA, Embed, Sub

parser = argparse.ArgumentParser(description="train a translation transformer")
parser.add_argument("--config", default="configs/base.yaml")
parser.add_argument("--data", required=True, help="folder with train.pt and valid.pt")
parser.add_argument("--out", default="runs/base")
parser.add_argument("--gpu", type=int, default=0)
parser.add_argument("--seed", type=int, default=1234)
args = parser.parse_args()

random.seed(args.seed)
torch.manual_seed(args.seed)
torch.cuda.set_device(args.gpu)
device = torch.device("cuda", args.gpu)

with open(args.config) as f:
    raw = yaml.safe_load(f)
cfg = SimpleNamespace(**{k: SimpleNamespace(**v) for k, v in raw.items()})

os.makedirs(args.out, exist_ok=True)
writer = SummaryWriter(args.out)


class EncLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.att, self.ffn = Sub(cfg, MHA(cfg)), Sub(cfg, FFN(cfg))

    def forward(self, x, bias):
        return self.ffn(self.att(x, x, bias))


class DecLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.att, self.cross, self.ffn = Sub(cfg, MHA(cfg)), Sub(cfg, MHA(cfg)), Sub(cfg, FFN(cfg))

    def forward(self, y, bias, mem, mem_bias):
        return self.ffn(self.cross(self.att(y, y, bias), mem, mem_bias))


class Transformer(nn.Module):
    """cfg is the `model` part of the yaml"""

    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.src = Embed(cfg.src_vocab_size, cfg)
        self.tgt = Embed(cfg.tgt_vocab_size, cfg)
        self.enc = nn.ModuleList(EncLayer(cfg) for _ in range(cfg.n_layers))
        self.dec = nn.ModuleList(DecLayer(cfg) for _ in range(cfg.n_layers))
        self.out = nn.Sequential(nn.Linear(cfg.d_model, cfg.tgt_vocab_size), nn.LogSoftmax(dim=-1))

    def pad_bias(self, ids):
        # 0 for words, -1e9 for padding
        return (ids == self.cfg.pad_idx).float()[:, None, None, :] * -1e9

    def forward(self, src, tgt):
        mem_bias = self.pad_bias(src)
        mem = self.src(src)
        for layer in self.enc:
            mem = layer(mem, mem_bias)

        T = tgt.size(1)
        bias = self.pad_bias(tgt) + torch.full((T, T), -1e9, device=tgt.device).triu(1)
        y = self.tgt(tgt)
        for layer in self.dec:
            y = layer(y, bias, mem, mem_bias)
        return self.out(y)  # log-probabilities (B, T, V)


def smoothed_kl(logp, gold, eps=0.1):
    V = logp.size(-1)
    q = torch.full_like(logp, eps / (V - 2)).scatter_(-1, gold[..., None], 1 - eps)
    q[..., cfg.model.pad_idx] = 0
    q = q * (gold != cfg.model.pad_idx)[..., None]
    return nn.functional.kl_div(logp, q, reduction="sum") / (gold != cfg.model.pad_idx).sum()


model = Transformer(cfg.model).to(device)
for p in model.parameters():
    if p.dim() > 1:
        nn.init.xavier_uniform_(p)
print("parameters: %.1fM" % (sum(p.numel() for p in model.parameters()) / 1e6))

opt = torch.optim.Adam(model.parameters(), lr=cfg.train.lr, betas=(0.9, 0.98), eps=1e-9)
sched = torch.optim.lr_scheduler.LambdaLR(
    opt, lambda s: cfg.model.d_model ** -0.5 * min((s + 1) ** -0.5, (s + 1) * cfg.train.warmup ** -1.5))

train_data = torch.load(os.path.join(args.data, "train.pt"))  # list of (src, tgt) batches, padded
step = 0
while step < cfg.train.steps:
    random.shuffle(train_data)
    for src, tgt in train_data:
        src, tgt = src.to(device), tgt.to(device)
        loss = smoothed_kl(model(src, tgt[:, :-1]), tgt[:, 1:])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        step += 1
        if step % 100 == 0:
            writer.add_scalar("loss", loss.item(), step)
        if step % 5000 == 0:
            torch.save(model.state_dict(), f"{args.out}/{step}.pt")
