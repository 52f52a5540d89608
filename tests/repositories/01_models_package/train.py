from torch import nn, optim

from conf import *
from data import enc_voc_size, dec_voc_size, src_pad_idx, trg_pad_idx, trg_sos_idx, train_iter
from models.model.transformer import Transformer

model = Transformer(src_pad_idx=src_pad_idx, trg_pad_idx=trg_pad_idx, trg_sos_idx=trg_sos_idx,
                    d_model=d_model, enc_voc_size=enc_voc_size, dec_voc_size=dec_voc_size, max_len=max_len,
                    ffn_hidden=ffn_hidden, n_head=n_heads, n_layers=n_layers, drop_prob=drop_prob,
                    device=device).to(device)

optimizer = optim.Adam(params=model.parameters(), lr=init_lr, weight_decay=weight_decay)
criterion = nn.CrossEntropyLoss(ignore_index=src_pad_idx)

if __name__ == '__main__':
    for step in range(epoch):
        for batch in train_iter:
            optimizer.zero_grad()
            output = model(batch.src, batch.trg[:, :-1])
            loss = criterion(output.contiguous().view(-1, output.shape[-1]), batch.trg[:, 1:].contiguous().view(-1))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
