# Written by `make export` from book/62_model_variations.ipynb: edit the chapter, not this.
"""Model variations (section 6.2 of the paper)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annotated.attention import MultiHeadAttention
from annotated.model import Transformer
from annotated.positional_encoding import SinusoidalPositions, sinusoidal_encoding

__all__ = [
    "CHANGES",
    "NoPositions",
    "RandomStart",
    "RotaryAttention",
    "random_start",
    "rotary",
    "turned",
    "without_positions",
]


# book/62_model_variations.ipynb#changes
class NoPositions(nn.Module):
    """In the place of positions: leaves embeddings as they are (section 3.5).

    The order of tokens is lost.

    Defined in chapter 62: `changes`.
    """

    def forward(
        self, x: Float[Tensor, "batch length d_model"], start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        return x


def without_positions(model: Transformer) -> None:
    """Take the positions out of a model.

    Defined in chapter 62: `changes`.
    """
    model.source_positions = model.target_positions = NoPositions()


# book/62_model_variations.ipynb#random-start
class RandomStart(SinusoidalPositions):
    """Sinusoids that begin at a random position below `most` in training.

    Otherwise they begin at 0 (section 3.5).

    Defined in chapter 62: `random-start`.
    """

    most = 32

    def forward(
        self, x: Float[Tensor, "batch length d_model"], start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        return super().forward(x, start + (int(torch.randint(self.most, ())) if self.training else 0))


def random_start(model: Transformer) -> None:
    """Let each batch begin elsewhere, so that training sees later sinusoids.

    Defined in chapter 62: `random-start`.
    """
    model.source_positions, model.target_positions = (RandomStart(model.config.d_model) for _ in range(2))


# book/62_model_variations.ipynb#rotary
def turned(
    x: Float[Tensor, "batch head length d_k"],
) -> Float[Tensor, "batch head length d_k"]:
    """Each pair of numbers turned, at position p by the sinusoids' angle there.

    Defined in chapter 62: `rotary`.
    """
    waves = sinusoidal_encoding(x.shape[-2], x.shape[-1]).to(x)
    (sine, cosine), (a, b) = ((pairs[..., 0::2], pairs[..., 1::2]) for pairs in (waves, x))
    return torch.stack([a * cosine - b * sine, a * sine + b * cosine], dim=-1).flatten(-2)


class RotaryAttention(MultiHeadAttention):
    """Self-attention with turned queries and keys (Su et al. 2021).

    A score depends on their distance alone. Positions count from the first of `x`,
    so it needs whole sequences: decode without a cache.

    Defined in chapter 62: `rotary`.
    """

    def project(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = super().project(x, memory)
        return turned(query), turned(key), value


# book/62_model_variations.ipynb#rotary-model
def rotary(model: Transformer) -> None:
    """Positions in every self-attention instead of below the stacks.

    Many later models have them there.

    Defined in chapter 62: `rotary-model`.
    """
    without_positions(model)
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.self_attention.__class__ = RotaryAttention


CHANGES = {  # what no option of a model's configuration can say
    "no positions": without_positions,
    "random start": random_start,
    "rotary": rotary,
}
