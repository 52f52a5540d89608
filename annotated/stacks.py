# Written by `make export` from book/31_stacks.ipynb: edit the chapter, not this.
"""Encoder and decoder stacks (section 3.1 of the paper)."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["AddNorm", "Decoder", "DecoderLayer", "Encoder", "EncoderLayer", "layer_norm"]


# book/31_stacks.ipynb#layer-norm
def layer_norm(
    x: Float[Tensor, "*batch d_model"],
    gain: Float[Tensor, " d_model"],
    bias: Float[Tensor, " d_model"],
    eps: float = 1e-6,
) -> Float[Tensor, "*batch d_model"]:
    """Normalise every token's vector, then scale and shift it (section 3.1).

    `x` has any leading axes. Mean and (biased) variance are taken over the last axis
    alone (Ba et al. 2016).

    Defined in chapter 31: `layer-norm`.
    """
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return gain * (x - mean) / torch.sqrt(variance + eps) + bias


# book/31_stacks.ipynb#add-norm
class AddNorm(nn.Module):
    """The frame around every sub-layer: `LayerNorm(x + Dropout(Sublayer(x)))`.

    Sections 3.1 and 5.4. With `norm_first` the normalisation moves to the sub-layer's
    input, `x + Dropout(Sublayer(LayerNorm(x)))`: not the paper's order, but that of
    most later code. The paper does not name `norm_eps`; the authors' code has 1e-6.

    Defined in chapter 31: `add-norm`.
    """

    def __init__(self, d_model: int, dropout: float = 0.1, norm_first: bool = False, norm_eps: float = 1e-6):
        super().__init__()
        self.norm = nn.LayerNorm(d_model, norm_eps)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(
        self, x: Float[Tensor, "batch length d_model"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch length d_model"]:
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


# book/31_stacks.ipynb#encoder-layer
class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each in its own frame (section 3.1).

    `self_attention(query, memory, mask)` and `feed_forward(x)` are given; `add_norm`
    makes a fresh `AddNorm` for each.

    Defined in chapter 31: `encoder-layer`.
    """

    def __init__(self, self_attention: nn.Module, feed_forward: nn.Module, add_norm: Callable[[], AddNorm]):
        super().__init__()
        self.self_attention, self.feed_forward = self_attention, feed_forward
        self.around_self_attention, self.around_feed_forward = add_norm(), add_norm()

    def forward(self, x: Float[Tensor, "batch source d_model"], mask: Tensor | None = None) -> Tensor:
        x = self.around_self_attention(x, lambda y: self.self_attention(y, y, mask))
        return self.around_feed_forward(x, self.feed_forward)


# book/31_stacks.ipynb#encoder
class Encoder(nn.Module):
    """A stack of encoder layers (section 3.1).

    `final_norm` is None in the paper's order, and needed with `norm_first`.

    Defined in chapter 31: `encoder`.
    """

    def __init__(self, layers: list[EncoderLayer], final_norm: nn.LayerNorm | None = None):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.final_norm = final_norm

    def forward(self, x: Float[Tensor, "batch source d_model"], mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.final_norm is None else self.final_norm(x)


# book/31_stacks.ipynb#decoder-layer
class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the memory, a network (section 3.1).

    `memory` is the encoder's output. `self_mask` says which target positions a target
    position may see, `cross_mask` which source positions.

    Defined in chapter 31: `decoder-layer`.
    """

    def __init__(
        self,
        self_attention: nn.Module,
        cross_attention: nn.Module,
        feed_forward: nn.Module,
        add_norm: Callable[[], AddNorm],
    ):
        super().__init__()
        self.self_attention, self.cross_attention, self.feed_forward = (self_attention, cross_attention, feed_forward)
        self.around_self_attention, self.around_cross_attention = add_norm(), add_norm()
        self.around_feed_forward = add_norm()

    def forward(
        self,
        x: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_model"],
        self_mask: Tensor | None = None,
        cross_mask: Tensor | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        x = self.around_self_attention(x, lambda y: self.self_attention(y, y, self_mask))
        x = self.around_cross_attention(x, lambda y: self.cross_attention(y, memory, cross_mask))
        return self.around_feed_forward(x, self.feed_forward)


# book/31_stacks.ipynb#decoder
class Decoder(nn.Module):
    """A stack of decoder layers (section 3.1).

    Every layer attends to the same `memory`: the encoder's last output.

    Defined in chapter 31: `decoder`.
    """

    def __init__(self, layers: list[DecoderLayer], final_norm: nn.LayerNorm | None = None):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.final_norm = final_norm

    def forward(
        self,
        x: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_model"],
        self_mask: Tensor | None = None,
        cross_mask: Tensor | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        for layer in self.layers:
            x = layer(x, memory, self_mask, cross_mask)
        return x if self.final_norm is None else self.final_norm(x)
