# مدل ترنسفورمر برای ترجمه انگلیسی به فارسی
# پروژه درس پردازش زبان طبیعی
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

# ---- تنظیمات ----
PAD = 0      # توکن خالی
SOS = 1      # شروع جمله
EOS = 2      # پایان جمله
DEVICE = torch.device('cuda' if torch.cuda.is_available() else 'cpu')


class PositionalEncoding(nn.Module):
    """ جایگاه هر کلمه در جمله """
    def __init__(self, d_model, max_len=1000):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(max_len).unsqueeze(1).float()
        freq = torch.exp(torch.arange(0, d_model, 2).float() * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * freq)
        pe[:, 1::2] = torch.cos(position * freq)
        self.register_buffer('pe', pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, :x.size(1)]


class MultiHeadAttention(nn.Module):
    """ توجه چندسر """
    def __init__(self, d_model, num_heads, dropout):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def split_heads(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.num_heads, self.head_dim).permute(0, 2, 1, 3)

    def forward(self, query, key, value, mask):
        q = self.split_heads(self.wq(query))
        k = self.split_heads(self.wk(key))
        v = self.split_heads(self.wv(value))
        # امتیاز شباهت
        scores = torch.matmul(q, k.permute(0, 1, 3, 2)) / math.sqrt(self.head_dim)
        # جاهایی که ماسک True است دیده نمی‌شوند
        scores = scores.masked_fill(mask, -1e9)
        weights = self.dropout(F.softmax(scores, dim=-1))
        out = torch.matmul(weights, v).permute(0, 2, 1, 3).contiguous()
        out = out.view(query.size(0), -1, self.num_heads * self.head_dim)
        return self.wo(out)


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model))

    def forward(self, x):
        return self.net(x)


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout):
        super().__init__()
        self.attn = MultiHeadAttention(d_model, num_heads, dropout)
        self.ff = FeedForward(d_model, d_ff, dropout)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask):
        x = self.norm1(x + self.drop(self.attn(x, x, x, mask)))
        return self.norm2(x + self.drop(self.ff(x)))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads, dropout)
        self.cross_attn = MultiHeadAttention(d_model, num_heads, dropout)
        self.ff = FeedForward(d_model, d_ff, dropout)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, memory, src_mask, trg_mask):
        x = self.norm1(x + self.drop(self.self_attn(x, x, x, trg_mask)))
        # توجه به جمله مبدأ
        x = self.norm2(x + self.drop(self.cross_attn(x, memory, memory, src_mask)))
        return self.norm3(x + self.drop(self.ff(x)))


class TranslationModel(nn.Module):
    """
    ورودی: src و trg با شکل (batch, length)
    trg هم <sos> دارد و هم <eos>، شیفت داخل خود مدل انجام می‌شود
    خروجی: (batch, length - 1, vocab)
    """
    def __init__(self, en_vocab_size, fa_vocab_size, d_model=256, num_heads=8, num_layers=3, d_ff=1024, dropout=0.1):
        super().__init__()
        self.d_model = d_model
        self.en_embedding = nn.Embedding(en_vocab_size, d_model)
        self.fa_embedding = nn.Embedding(fa_vocab_size, d_model)
        self.position = PositionalEncoding(d_model)
        self.encoder = nn.ModuleList([EncoderLayer(d_model, num_heads, d_ff, dropout) for _ in range(num_layers)])
        self.decoder = nn.ModuleList([DecoderLayer(d_model, num_heads, d_ff, dropout) for _ in range(num_layers)])
        self.output = nn.Linear(d_model, fa_vocab_size)
        self.drop = nn.Dropout(dropout)

    def masks(self, src, trg):
        src_mask = (src == PAD)[:, None, None, :]
        size = trg.size(1)
        future = torch.triu(torch.ones(size, size, dtype=torch.bool, device=trg.device), diagonal=1)
        trg_mask = (trg == PAD)[:, None, None, :] | future
        return src_mask, trg_mask

    def encode(self, src, src_mask):
        x = self.drop(self.position(self.en_embedding(src) * math.sqrt(self.d_model)))
        for layer in self.encoder:
            x = layer(x, src_mask)
        return x

    def decode(self, trg, memory, src_mask, trg_mask):
        x = self.drop(self.position(self.fa_embedding(trg) * math.sqrt(self.d_model)))
        for layer in self.decoder:
            x = layer(x, memory, src_mask, trg_mask)
        return self.output(x)

    def forward(self, src, trg):
        trg = trg[:, :-1]          # کلمه آخر ورودی نیست
        src_mask, trg_mask = self.masks(src, trg)
        memory = self.encode(src, src_mask)
        return self.decode(trg, memory, src_mask, trg_mask)

    @torch.no_grad()
    def translate(self, src, max_len=50):
        self.eval()
        out = torch.full((src.size(0), 1), SOS, dtype=torch.long, device=src.device)
        for _ in range(max_len):
            src_mask, trg_mask = self.masks(src, out)
            logits = self.decode(out, self.encode(src, src_mask), src_mask, trg_mask)
            out = torch.cat([out, logits[:, -1:].argmax(-1)], dim=1)
        return out


def train(model, loader, epochs=10):
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for epoch in range(epochs):
        for src, trg in loader:
            src, trg = src.to(DEVICE), trg.to(DEVICE)
            pred = model(src, trg)
            loss = criterion(pred.reshape(-1, pred.size(-1)), trg[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f'دوره {epoch + 1}: خطا {loss.item():.3f}')
