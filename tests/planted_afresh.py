"""Mistakes for tests/afresh.py, by name: what stands there, and what stands there instead."""

_SCALED = 'torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(self.d_head)'
_PRODUCT = 'torch.einsum("bhqd,bhkd->bhqk", q, k)'
_SOFTMAX = "weights = scores.softmax(dim=-1)"
_FILL = "        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)\n"
_ENC = "nn.ModuleList([EncoderLayer(*sizes) for _ in range(n_layers)])"
_DEC = "nn.ModuleList([DecoderLayer(*sizes) for _ in range(n_layers)])"

PLANTED = {
    "softmax over the queries": [(_SOFTMAX, "weights = scores.softmax(dim=-2)")],
    "softmax over the heads": [(_SOFTMAX, "weights = scores.softmax(dim=1)")],
    "scores not scaled": [(_SCALED, _PRODUCT)],
    "scaled by the model's width": [(_SCALED, _PRODUCT + " / math.sqrt(self.d_model)")],
    "divided by d_k without the root": [(_SCALED, _PRODUCT + " / self.d_head")],
    "multiplied by the root": [(_SCALED, _PRODUCT + " * math.sqrt(self.d_head)")],
    "heads joined without transposing back": [
        ("x.transpose(1, 2).reshape(b, t, self.d_model)", "x.reshape(b, t, self.d_model)")
    ],
    "heads split by view": [
        ("x.view(b, t, self.n_heads, self.d_head).transpose(1, 2)", "x.view(b, self.n_heads, t, self.d_head)")
    ],
    "masked_fill without its result": [("scores = scores.masked_fill(", "scores.masked_fill(")],
    "mask after the softmax": [(_FILL, ""), (_SOFTMAX, _SOFTMAX + " * mask")],
    "no causal mask": [
        ("tgt_mask = (tgt != PAD)[:, None, None, :] & causal", "tgt_mask = (tgt != PAD)[:, None, None, :]")
    ],
    "causal mask one too wide": [(".tril()", ".tril(diagonal=1)")],
    "no source mask": [
        (
            "src_mask = (src != PAD)[:, None, None, :]",
            "src_mask = torch.ones_like(src, dtype=torch.bool)[:, None, None, :]",
        )
    ],
    "cross-attention reads the decoder": [
        ("self.cross_attn(y, memory, memory, src_mask)", "self.cross_attn(y, y, y, tgt_mask)")
    ],
    "no residual": [("self.norm(x + update)", "self.norm(update)")],
    "normalised over the batch": [
        ("self.norm = nn.LayerNorm(d_model)", "self.norm = nn.BatchNorm1d(d_model)"),
        ("self.norm(x + update)", "self.norm((x + update).transpose(1, 2)).transpose(1, 2)"),
    ],
    "dropout alive in evaluation": [
        ("F.dropout(update, p=self.p, training=self.training)", "F.dropout(update, p=self.p)")
    ],
    "no ReLU": [("F.relu(self.inner(x))", "self.inner(x)")],
    "one layer several times": [
        (_ENC, "nn.ModuleList([EncoderLayer(*sizes)] * n_layers)"),
        (_DEC, "nn.ModuleList([DecoderLayer(*sizes)] * n_layers)"),
    ],
    "layers in a list": [
        (_ENC, "[EncoderLayer(*sizes) for _ in range(n_layers)]"),
        (_DEC, "[DecoderLayer(*sizes) for _ in range(n_layers)]"),
    ],
    "only the first layer": [
        (
            "            x = layer(x, src_mask)\n        return x\n",
            "            x = layer(x, src_mask)\n            return x\n",
        ),
        (
            "            y = layer(y, memory, tgt_mask, src_mask)\n        return y\n",
            "            y = layer(y, memory, tgt_mask, src_mask)\n            return y\n",
        ),
    ],
    "embedding not scaled": [("self.embedding(tokens) * math.sqrt(self.d_model)", "self.embedding(tokens)")],
    "no positions": [("self.dropout(self.positions(x))", "self.dropout(x)")],
    "no softmax in the attention": [(_SOFTMAX, "weights = scores.sigmoid()")],
    "mask writes 0": [("torch.finfo(scores.dtype).min", "0.0")],
    "keys are queries": [("k = self._split(self.w_k(key))", "k = self._split(self.w_q(key))")],
    "no output matrix": [("return self.w_o(self._join(context))", "return self._join(context)")],
    "another id is padding": [("PAD, BOS, EOS = 0, 2, 3", "PAD, BOS, EOS = 1, 2, 3")],
    "encoder cut off from the loss": [
        (
            "            x = layer(x, src_mask)\n        return x",
            "            x = layer(x, src_mask)\n        return x.detach()",
        )
    ],
    "softmax twice": [
        (
            "return self.project(self.decode(tgt, memory, tgt_mask, src_mask))",
            "return self.project(self.decode(tgt, memory, tgt_mask, src_mask)).softmax(dim=-1)",
        )
    ],
}
