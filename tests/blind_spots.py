"""What a doctor overlooks or calls wrong by mistake, put into three right models: by hand, of modules, of functions.

By name: what stands in tests/afresh.py, tests/by_modules.py and tests/by_functions.py and what stands there instead,
and what is to be found: "" where all is right, and a name of a mistake after a bar where one is to be likely.
"""

OWN = """
class Own(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))

    def forward(self, x):
        gain, bias = self.gain, self.bias
        return {}


class """
BY_HAND = "gain * (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + 1e-6).sqrt() + bias"


def own(form):
    """A norm of one's own in all three."""
    text = OWN.format(form)
    return (
        [("\nclass MultiHeadAttention", text + "MultiHeadAttention"), ("nn.LayerNorm(d_model)", "Own(d_model)")],
        [("\nclass Layer(", text + "Layer("), ("nn.LayerNorm(d)", "Own(d)")],
        [("F.layer_norm(x, (D,), gain, bias)", form)],
    )


def with_own(form, hand, modules, functions):
    return tuple([*one, *more] for one, more in zip(own(form), (hand, modules, functions), strict=True))


SUM = "self.norm(x + update)", "self.norms[i](x + self.drop(layer(x)))", "norm(x + F.dropout(y, P, training), "
JOINED = "torch.cat([{}, positions(ids.shape[1], 2).expand(len(ids), -1, -1)], -1)"
LEAF = "torch.tensor([], requires_grad=True).sum()"
SHIFT = "(x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + {}) * gain + bias"
SEEN = {
    "no residual, own norm": (*with_own(BY_HAND, [(SUM[0], "self.norm(update)")],
        [(SUM[1], "self.norms[i](self.drop(layer(x)))")], [(SUM[2], "norm(F.dropout(y, P, training), ")]),
        "norms: no residual|no residual"),
    "norm after the layer": (*with_own(BY_HAND, [(SUM[0], "x + self.norm(update)")],
        [(SUM[1], "x + self.norms[i](self.drop(layer(x)))")], [(SUM[2], "x + norm(F.dropout(y, P, training), ")]),
        "norms: added after the normalisation|added after the normalisation"),
    "root mean square": (*own("gain * (x / x.pow(2).mean(-1, True).add(1e-6).sqrt()) + bias"),
        "norms: root mean square"),
    "a shift": (*own(SHIFT.format(1e-6)), "norms: deviation and a shift"),
    "a large shift": (*own(SHIFT.format(1.0)), "norms: deviation and a large shift|"),
    "one gain": (*with_own(BY_HAND,
        [("torch.ones(d)), ", "torch.ones(1)), ")], [("torch.ones(d)), ", "torch.ones(1)), ")],
        [("torch.ones(D)", "torch.ones(1)")]), "norms: one gain for all|one gain for all"),
    "a norm of a norm": ([(SUM[0], "self.norm(self.norm(x) + update)")],
        [(SUM[1], "self.norms[i](self.norms[i](x) + self.drop(layer(x)))")],
        [(SUM[2], 'norm(norm(x, w[f"{name}_gain{i}"], w[f"{name}_bias{i}"]) + F.dropout(y, P, training), ')],
        "norms: normalised twice|normalised twice"),
    "a shift by padding": ([("y = self._embed(tgt)", "y = F.pad(self._embed(tgt), (0, 0, 1, 0))[:, 1:]")],
        [(", self.embed(target)", ", nn.functional.pad(self.embed(target), (0, 0, 1, 0))[:, 1:]")],
        [(", embed(w, target)", ", F.pad(embed(w, target), (0, 0, 1, 0))[:, 1:]")], ""),
    "words joined with positions": (
        [("self.dropout(self.positions(x))", "torch.cat([x[..., :-2], self.positions(x)[..., :2]], -1)")],
        [("x + positions(ids.shape[1], x.shape[-1])", JOINED.format("x[..., :-2]"))],
        [('F.embedding(ids, w["table"]) * math.sqrt(D) + positions(ids.shape[1], D)',
          JOINED.format('F.embedding(ids, w["table"])[..., :-2]'))],
        "embedding: positions appended|positions appended"),
    "an empty leaf": ([("x = self._embed(src)", f"x = self._embed(src) + {LEAF}")],
        [("self.out(y)", f"self.out(y) + {LEAF}")], [("return y @", f"return {LEAF} + y @")], ""),
    "zeros after the softmax": ([("scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)", "pass"),
        ("scores.softmax(dim=-1)", "scores.softmax(dim=-1).masked_fill(~mask, 0)")], None,
        [("    scores = scores.masked_fill(~mask, -1e9)\n", ""), ("dim=-1)", "dim=-1).masked_fill(~mask, 0)")],
        "softmax: masked after the softmax|mask after the softmax"),
    "zeros where zeros are": (
        [("scores.softmax(dim=-1)", "scores.softmax(dim=-1).nan_to_num().masked_fill(~mask, 0)")], None,
        [("dim=-1)", "dim=-1).nan_to_num().masked_fill(~mask, 0)")], ""),
    "no dropout for an argument": ([("self.p = dropout", "self.p = 0.0"), ("nn.Dropout(dropout)", "nn.Dropout(0.0)")],
        [("dropout=p", "dropout=0.0"), ("dropout=p", "dropout=0.0"), ("nn.Dropout(p)", "nn.Dropout(0.0)"),
         ("nn.Dropout(dropout)", "nn.Dropout(0.0)")],
        [("F.dropout(y, P, training)", "y")], "dropout: dropout never drops|dropout never drops"),
    "encoder unused": ([("x = layer(x, src_mask)", "layer(x, src_mask)")],
        [("x = layer(x, pad=pad)", "layer(x, pad=pad)")],
        [("y, x, pad)", "y, embed(w, source), pad)")], "attentions: encoder unused|encoder unused"),
    "no mask": ([("scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)", "pass")],
        [(", attn_mask=later, key_padding_mask=pad", ""), (", key_padding_mask=memory_pad", "")],
        [("    scores = scores.masked_fill(~mask, -1e9)\n", "")],
        "masks: cross reads padding, decoder reads ahead, encoder reads padding, no mask at all|no mask at all"),
    "no positions in the decoder": ([("y = self._embed(tgt)", "y = self.embedding(tgt) * math.sqrt(self.d_model)")],
        [("self.embed(source), self.embed(target)", "self.embed(source), self.table(target) * 4")],
        [("embed(w, source), embed(w, target)", 'embed(w, source), F.embedding(target, w["table"]) * 4')],
        "positions: no positions in the decoder|no positions in the decoder"),
    "not itself": ([(".tril()", ".tril(-1)")], [(".triu(1)", ".triu()")], [(".tril()", ".tril(-1)")],
        "masks: decoder hides each token from itself|causal mask hides the token itself"),
    "one decoder layer": ([("DecoderLayer(*sizes) for _ in range(n_layers)", "DecoderLayer(*sizes)")],
        [("dropout, True) for _ in range(num_layers)", "dropout, True)")],
        [('(f"dec{i}" for i in range(LAYERS))', '["dec0"]'),
         ("in range(LAYERS)):\n        parts", "in range(LAYERS if side == 'enc' else 1)):\n        parts")],
        "layers: other layers in the decoder"),
    "an unused table": (
        [("self.project.weight = self.embedding.weight",
          "self.third = nn.Embedding(vocab_size, d_model)\n        self.project.weight = self.third.weight")],
        [("        self.out = nn.Linear(d, vocab)",
          "        self.out, self.third = nn.Linear(d, vocab), nn.Embedding(vocab, d)\n"
          "        self.out.weight = self.third.weight")],
        [('w["table"].T', 'w["third"].T'), ('one = {', 'one = {"third": torch.randn(VOCAB, D), ')], "sharing: "),
    "one projection": (
        [("self.w_q = nn.Linear(d_model, d_model)", "self.w_q = nn.Linear(self.d_head, self.d_head)"),
        ("self._split(self.w_q(query))", "self.w_q(self._split(query))")], None,
        [('heads(F.linear(one, w[f"{name}_{by}"]))', 'F.linear(heads(one), w[f"{name}_{by}"][:8, :8])')],
        "attentions: one projection for all heads|one projection for all heads"),
    "shifted inside": ([("y = self._embed(tgt)", "y = self._embed(F.pad(tgt, (1, 0), value=2)[:, :-1])")],
        [("self.embed(target)", "self.embed(nn.functional.pad(target, (1, 0), value=2)[:, :-1])")],
        [("embed(w, target)", "embed(w, F.pad(target, (1, 0), value=2)[:, :-1])")],
        "own past: shifted inside the model|shifted inside the model"),
    "of no known kind": ([("x = layer(x, src_mask)", "x = layer(x, src_mask).flip(1)")],
        [("x = layer(x, pad=pad)", "x = layer(x, pad=pad).flip(1)")],
        [("x = around(w, name, 1, x,", "x = around(w, name, 1, x.flip(1),")],
        "source padding: source padding seen|"),
}  # fmt: skip
