# Written by `make export` from book/20_recurrent_rival.ipynb: edit the chapter, not this.
"""The recurrent rival."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

__all__ = [
    "AdditiveAttention",
    "RecurrentConfig",
    "RecurrentDecoder",
    "RecurrentTranslator",
    "greedy_translation",
    "gru_step",
]


# book/20_recurrent_rival.ipynb#gru-step
def gru_step(
    x: Float[Tensor, "batch d_input"],
    state: Float[Tensor, "batch d_hidden"],
    cell: nn.GRUCell,
) -> Float[Tensor, "batch d_hidden"]:
    """One step h_t = f(h_{t-1}, x_t) of a gated recurrent unit (section 1), in full.

    The weights are those of a PyTorch cell.

    Defined in chapter 20: `gru-step`.
    """
    of_x = (x @ cell.weight_ih.T + cell.bias_ih).chunk(3, dim=-1)
    of_state = (state @ cell.weight_hh.T + cell.bias_hh).chunk(3, dim=-1)
    r, u = (torch.sigmoid(of_x[gate] + of_state[gate]) for gate in (0, 1))
    n = torch.tanh(of_x[2] + r * of_state[2])
    return (1 - u) * n + u * state


# book/20_recurrent_rival.ipynb#additive-attention
class AdditiveAttention(nn.Module):
    """Attention whose score is a network with one hidden layer (section 3.2.1).

    score(q, k) = a . tanh(q W_q + k W_k), with a hidden layer of width `d_hidden`
    (Bahdanau et al. 2014).

    Defined in chapter 20: `additive-attention`.
    """

    def __init__(self, d_query: int, d_key: int, d_hidden: int):
        super().__init__()
        self.query = nn.Linear(d_query, d_hidden, bias=False)
        self.key = nn.Linear(d_key, d_hidden, bias=False)
        self.score = nn.Linear(d_hidden, 1, bias=False)

    def forward(
        self,
        query: Float[Tensor, "*batch query d_query"],
        key: Float[Tensor, "*batch key d_key"],
        value: Float[Tensor, "*batch key d_v"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query key"]]:
        return self.attend(query, self.key(key), value, mask)

    def attend(
        self,
        query: Float[Tensor, "*batch query d_query"],
        projected: Float[Tensor, "*batch key d_hidden"],
        value: Float[Tensor, "*batch key d_v"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query key"]]:
        """The same, with keys that were projected once for many queries."""
        hidden = torch.tanh(self.query(query).unsqueeze(-2) + projected.unsqueeze(-3))
        scores = self.score(hidden).squeeze(-1)
        if mask is not None:
            scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        if mask is not None:
            weights = weights * mask.any(dim=-1, keepdim=True)  # nothing to read: zeros
        return weights @ value, weights


# book/20_recurrent_rival.ipynb#recurrent-config
@dataclass(frozen=True)
class RecurrentConfig:
    """Sizes of the recurrent translator.

    The default has as many parameters as the Transformer of chapter 59.

    Defined in chapter 20: `recurrent-config`.
    """

    vocab_size: int
    d_model: int = 128  # embeddings and read-out
    d_hidden: int = 181  # states, and the hidden layer of attention
    dropout: float = 0.05
    max_length: int = 256  # longest input or output that training keeps, in tokens
    pad_id: int = 0
    start_id: int = 2
    end_id: int = 3


# book/20_recurrent_rival.ipynb#recurrent-decoder
class RecurrentDecoder(nn.Module):
    """A loop of gated cells that looks back at the source before each step.

    Section 1; Bahdanau et al. 2014.

    Defined in chapter 20: `recurrent-decoder`.
    """

    def __init__(self, config: RecurrentConfig):
        super().__init__()
        d, h = config.d_model, config.d_hidden
        self.first_state = nn.Linear(h, h)
        self.attention = AdditiveAttention(h, 2 * h, h)
        self.cell = nn.GRUCell(d + 2 * h, h)
        self.read_out = nn.Linear(d + 3 * h, d)

    def start(self, memory: Float[Tensor, "batch source d_memory"]) -> tuple[Tensor, Tensor]:
        """The first state, and the keys, which are projected once."""
        backward = memory[:, 0, memory.shape[-1] // 2 :]
        return torch.tanh(self.first_state(backward)), self.attention.key(memory)

    def step(
        self, word: Tensor, state: Tensor, projected: Tensor, memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Look back, then advance: the new state, and what the output layer reads."""
        context = self.attention.attend(state.unsqueeze(1), projected, memory, mask)[0].squeeze(1)
        state = self.cell(torch.cat([word, context], dim=-1), state)
        return state, torch.tanh(self.read_out(torch.cat([word, state, context], dim=-1)))

    def forward(
        self,
        words: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_memory"],
        mask: Bool[Tensor, "batch 1 source"],
    ) -> Float[Tensor, "batch target d_model"]:
        (state, projected), outputs = self.start(memory), []
        for word in words.unbind(dim=1):
            state, output = self.step(word, state, projected, memory, mask)
            outputs.append(output)
        return torch.stack(outputs, dim=1)


# book/20_recurrent_rival.ipynb#recurrent-translator
class RecurrentTranslator(nn.Module):
    """A recurrent encoder and decoder with additive attention: what the paper replaces.

    It is called as `Transformer` is, so the same loop trains both:
    `forward(source, target)` gives the logits of the token after each target
    position (section 1; Bahdanau et al. 2014).

    Defined in chapter 20: `recurrent-translator`.
    """

    def __init__(self, config: RecurrentConfig):
        super().__init__()
        self.config = config
        self.target_embedding = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.target_embedding.weight, std=config.d_model**-0.5)
        self.encoder = nn.GRU(config.d_model, config.d_hidden, batch_first=True, bidirectional=True)
        self.decoder = RecurrentDecoder(config)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.output.weight = self.target_embedding.weight

    def forward(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits for every target position; `target` begins with the start token."""
        mask = (source != self.config.pad_id)[:, None, None]
        return self.output(self.decode(target, self.encode(source), mask))

    def embed(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length d_model"]:
        """Vectors from the shared table, with entries of size about 1."""
        return self.dropout(self.target_embedding(tokens) * self.config.d_model**0.5)

    def encode(
        self,
        source: Int[Tensor, "batch source"],
        source_mask: Bool[Tensor, "batch 1 1 source"] | None = None,
    ) -> Float[Tensor, "batch source d_memory"]:
        """A state for each source token, read both ways; needs no `source_mask`."""
        lengths = (source != self.config.pad_id).sum(dim=1).cpu()
        packed = pack_padded_sequence(self.embed(source), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.encoder(packed)[0], batch_first=True, total_length=source.shape[1])
        return self.dropout(states)

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_memory"],
        source_mask: Bool[Tensor, "batch 1 1 source"],
    ) -> Float[Tensor, "batch target d_model"]:
        """What the output layer reads at each target position."""
        return self.dropout(self.decoder(self.embed(target), memory, source_mask.squeeze(1)))

    def num_parameters(self) -> int:
        """How many numbers are learned; the shared matrix counts once."""
        return sum(parameter.numel() for parameter in self.parameters())


# book/20_recurrent_rival.ipynb#greedy
@torch.no_grad()
def greedy_translation(
    model: RecurrentTranslator, source: Int[Tensor, "batch source"], max_steps: int
) -> Int[Tensor, "batch steps"]:
    """The likeliest tokens, `max_steps` at most; pads after a sentence's end.

    Defined in chapter 20: `greedy`.
    """
    config, memory, mask = (
        model.config,
        model.encode(source),
        (source != model.config.pad_id)[:, None],
    )
    state, projected = model.decoder.start(memory)
    tokens = source.new_full((len(source), 1), config.start_id)
    ended, written = (
        torch.zeros(len(source), dtype=torch.bool, device=source.device),
        [],
    )
    while len(written) < max_steps and not ended.all():
        state, hidden = model.decoder.step(model.embed(tokens).squeeze(1), state, projected, memory, mask)
        chosen = model.output(hidden).argmax(dim=-1).masked_fill(ended, config.pad_id)
        written.append(chosen)
        ended, tokens = ended | (chosen == config.end_id), chosen.unsqueeze(1)
    return torch.stack(written, dim=1)
