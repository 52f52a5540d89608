from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torchmetrics.text import SacreBLEUScore

from .modules import Block, LearnedPositions


class LitTransformer(pl.LightningModule):
    """Encoder-decoder Transformer as a LightningModule.

    Batches come from ``ParallelDataModule`` as ``(src, tgt)``, both of shape (B, L), with
    ``<s>`` in front and ``</s>`` behind, filled up with ``pad_id``.
    """

    def __init__(
        self,
        *,
        src_vocab_size: int,
        tgt_vocab_size: int,
        pad_id: int = 0,
        bos_id: int = 2,
        eos_id: int = 3,
        d_model: int = 512,
        n_heads: int = 8,
        n_encoder_layers: int = 6,
        n_decoder_layers: int = 6,
        d_ff: int = 2048,
        dropout: float = 0.1,
        max_len: int = 512,
        lr: float = 5e-4,
        warmup_steps: int = 4000,
        label_smoothing: float = 0.1,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.pad_id = pad_id

        self.src_embed = nn.Embedding(src_vocab_size, d_model, padding_idx=pad_id)
        self.tgt_embed = nn.Embedding(tgt_vocab_size, d_model, padding_idx=pad_id)
        for embed in (self.src_embed, self.tgt_embed):
            nn.init.normal_(embed.weight, std=d_model**-0.5)
        self.src_pos = LearnedPositions(max_len, d_model)
        self.tgt_pos = LearnedPositions(max_len, d_model)
        self.drop = nn.Dropout(dropout)

        self.encoder = nn.ModuleList(Block(d_model, n_heads, d_ff, dropout) for _ in range(n_encoder_layers))
        self.decoder = nn.ModuleList(Block(d_model, n_heads, d_ff, dropout, cross=True) for _ in range(n_decoder_layers))
        self.ln_enc, self.ln_dec = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, tgt_vocab_size, bias=False)
        self.head.weight = self.tgt_embed.weight  # tied

        self.criterion = nn.CrossEntropyLoss(ignore_index=pad_id, label_smoothing=label_smoothing)
        self.bleu = SacreBLEUScore()

    # ------------------------------------------------------------------ model
    def encode(self, src: Tensor) -> tuple[Tensor, Tensor]:
        mask = (src != self.pad_id)[:, None, None, :]
        x = self.drop(self.src_pos(self.src_embed(src)))
        for block in self.encoder:
            x = block(x, mask)
        return self.ln_enc(x), mask

    def decode(self, tgt: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        length = tgt.size(1)
        causal = torch.ones(length, length, dtype=torch.bool, device=tgt.device).tril()
        mask = causal & (tgt != self.pad_id)[:, None, None, :]
        x = self.drop(self.tgt_pos(self.tgt_embed(tgt)))
        for block in self.decoder:
            x = block(x, mask, memory, memory_mask)
        return self.head(self.ln_dec(x))

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        memory, memory_mask = self.encode(src)
        return self.decode(tgt, memory, memory_mask)

    @torch.inference_mode()
    def translate(self, src: Tensor, max_new_tokens: int = 100) -> Tensor:
        memory, memory_mask = self.encode(src)
        out = src.new_full((src.size(0), 1), self.hparams.bos_id)
        for _ in range(max_new_tokens):
            step = self.decode(out, memory, memory_mask)[:, -1].argmax(-1, keepdim=True)
            out = torch.cat([out, step], dim=1)
            if (out == self.hparams.eos_id).any(1).all():
                break
        return out

    # --------------------------------------------------------------- training
    def _step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        src, tgt = batch
        logits = self(src, tgt[:, :-1])
        return self.criterion(logits.flatten(0, 1), tgt[:, 1:].flatten())

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss = self._step(batch)
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        loss = self._step(batch)
        self.log_dict({"val/loss": loss, "val/ppl": math.exp(loss.item())}, prog_bar=True, sync_dist=True)

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, betas=(0.9, 0.98), eps=1e-9)
        warmup = self.hparams.warmup_steps
        sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min((s + 1) / warmup, (warmup / (s + 1)) ** 0.5))
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}
