# Written by `make export` from book/31_stacks.ipynb: do not edit here, edit the chapter.
"""Encoder and decoder stacks: chapter 31 of the book, section 3.1 of the paper."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["AddNorm", "Decoder", "DecoderLayer", "Dropout", "Encoder", "EncoderLayer", "LayerNorm"]


# book/31_stacks.ipynb#layer-norm
def layer_norm(
    x: Float[Tensor, "*batch d_model"],
    gain: Float[Tensor, " d_model"],
    bias: Float[Tensor, " d_model"],
    eps: float = 1e-6,
) -> Float[Tensor, "*batch d_model"]:
    """Normalise every token's vector to mean 0 and variance 1, then scale and shift it (section 3.1; Ba et al. 2016).

    `x` has any leading axes; mean and (biased) variance are taken over the last one alone.

    Defined in chapter 31: `layer-norm`.
    """
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return gain * (x - mean) / torch.sqrt(variance + eps) + bias


# book/31_stacks.ipynb#layer-norm-module
class LayerNorm(nn.Module):
    """Layer normalisation with a learned gain (`weight`) and bias, by PyTorch's fused kernel.

    The paper names neither eps nor the affine parameters; eps is 1e-6 as in the authors' code.
    Same result as `layer_norm`.

    Defined in chapter 31: `layer-norm-module`.
    """

    def __init__(self, d_model: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


# book/31_stacks.ipynb#dropout
class Dropout(nn.Module):
    """Zero each element with probability `p` while training and scale the others by 1 / (1 - p) (section 5.4).

    On the CPU the mask comes from 16-bit integers, four to a 64-bit draw, which is cheaper than `F.dropout`;
    `p` is thereby rounded to a multiple of 1/65536, but not to 0, and the scale is exact for the rounded value.
    A `residual` is added, in the same pass. Raises ValueError unless 0 <= p < 1.

    Defined in chapter 31: `dropout`.
    """

    def __init__(self, p: float):
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, not {p}")
        self.p = p

    def forward(
        self, x: Float[Tensor, "*shape"], residual: Float[Tensor, "..."] | None = None
    ) -> Float[Tensor, "*shape"]:
        if self.training and self.p > 0 and x.device.type == "cpu":
            mask = self.mask(x)
            return x * mask if residual is None else torch.addcmul(residual, x, mask)
        x = F.dropout(x, self.p, self.training)
        return x if residual is None else residual + x

    def mask(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """A factor for each element: zero, or 1 / (1 - p)."""
        dropped = min(max(round(self.p * 65536), 1), 65535)  # of all values that 16 bits can have
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        highest = dropped - 32769  # of those that mean "drop"
        keep = draws.view(torch.int16)[: x.numel()].view(x.shape).clamp_(highest, highest + 1).sub_(highest)
        return keep.to(x.dtype).mul_(65536 / (65536 - dropped))

    def extra_repr(self) -> str:
        return f"p={self.p}"


# book/31_stacks.ipynb#add-norm
class AddNorm(nn.Module):
    """The frame around every sub-layer: `LayerNorm(x + Dropout(Sublayer(x)))` (sections 3.1 and 5.4).

    With `norm_first` the normalisation moves to the sub-layer's input, `x + Dropout(Sublayer(LayerNorm(x)))`: not the
    paper's order, but that of most later code.

    Defined in chapter 31: `add-norm`.
    """

    def __init__(self, d_model: int, dropout: float = 0.1, norm_first: bool = False, norm_eps: float = 1e-6):
        super().__init__()
        self.norm = LayerNorm(d_model, norm_eps)
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first

    def forward(
        self, x: Float[Tensor, "batch length d_model"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch length d_model"]:
        if self.norm_first:
            return self.dropout(sublayer(self.norm(x)), residual=x)
        return self.norm(self.dropout(sublayer(x), residual=x))


# book/31_stacks.ipynb#encoder-layer
class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each inside its own `AddNorm` (section 3.1).

    `self_attention(query, memory, mask)` and `feed_forward(x)` are given; `add_norm` makes a fresh frame for each.

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
    """A stack of encoder layers (section 3.1); `final_norm` is None for the paper's order, needed with `norm_first`.

    Defined in chapter 31: `encoder`.
    """

    def __init__(self, layers: list[EncoderLayer], final_norm: LayerNorm | None = None):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.final_norm = final_norm

    def forward(self, x: Float[Tensor, "batch source d_model"], mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.final_norm is None else self.final_norm(x)


# book/31_stacks.ipynb#decoder-layer
class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, feed-forward network (section 3.1).

    `memory` is the encoder's output, or what `cross_attention` made of it beforehand; `cache` holds the keys and values
    of target positions already decoded (chapter 60) and is handed to the self-attention as it is.

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
        self.self_attention, self.cross_attention, self.feed_forward = self_attention, cross_attention, feed_forward
        self.around_self_attention, self.around_cross_attention = add_norm(), add_norm()
        self.around_feed_forward = add_norm()

    def forward(self, x: Float[Tensor, "batch target d_model"], memory, self_mask=None, cross_mask=None, cache=None):
        x = self.around_self_attention(x, lambda y: self.self_attention(y, y, self_mask, cache))
        x = self.around_cross_attention(x, lambda y: self.cross_attention(y, memory, cross_mask))
        return self.around_feed_forward(x, self.feed_forward)


# book/31_stacks.ipynb#decoder
class Decoder(nn.Module):
    """A stack of decoder layers (section 3.1). Every layer attends to the same `memory`: the encoder's last output.

    While decoding step by step, `memory` and `caches` are lists with one entry a layer.

    Defined in chapter 31: `decoder`.
    """

    def __init__(self, layers: list[DecoderLayer], final_norm: LayerNorm | None = None):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.final_norm = final_norm

    def forward(self, x: Float[Tensor, "batch target d_model"], memory, self_mask=None, cross_mask=None, caches=None):
        memories = memory if isinstance(memory, list) else [memory] * len(self.layers)
        for i, layer in enumerate(self.layers):
            x = layer(x, memories[i], self_mask, cross_mask, caches[i] if caches else None)
        return x if self.final_norm is None else self.final_norm(x)
