# Written by `make export` from book/35_positional_encoding.ipynb: edit the chapter, not this.
"""Positional encoding (section 3.5 of the paper)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["LearnedPositions", "SinusoidalPositions", "sinusoidal_encoding"]


# book/35_positional_encoding.ipynb#sinusoidal-encoding
def sinusoidal_encoding(
    length: int, d_model: int, interleaved: bool = True, start: int = 0
) -> Float[Tensor, "length d_model"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), and cos in 2i + 1 (section 3.5).

    Row 0 is position `start`. `interleaved=False` puts all sines before all cosines,
    in the order of the authors' code. Raises ValueError for an odd d_model.

    Defined in chapter 35: `sinusoidal-encoding`.
    """
    if d_model % 2:
        raise ValueError(f"d_model must be even for pairs of sine and cosine, not {d_model}")
    position = torch.arange(start, start + length, dtype=torch.float64)
    frequency = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle = position[:, None] * frequency
    pairs = torch.stack([angle.sin(), angle.cos()], dim=-1 if interleaved else -2)
    return pairs.flatten(1).float()


# book/35_positional_encoding.ipynb#positional-encoding
class SinusoidalPositions(nn.Module):
    """Adds `sinusoidal_encoding` to embeddings; has no parameters.

    Positions behind its table are computed anew. In a graph that PyTorch compiles or
    exports all are, so that one graph serves every length.

    Defined in chapter 35: `positional-encoding`.
    """

    def __init__(self, d_model: int, interleaved: bool = True):
        super().__init__()
        self.d_model, self.interleaved = d_model, interleaved
        self.register_buffer("table", sinusoidal_encoding(128, d_model, interleaved), persistent=False)

    def forward(
        self, x: Float[Tensor, "batch length d_model"], start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        end = start + x.shape[1]
        if not torch.compiler.is_compiling() and end <= len(self.table):
            return x + self.table[start:end]
        return x + sinusoidal_encoding(x.shape[1], self.d_model, self.interleaved, start).to(self.table)


# book/35_positional_encoding.ipynb#learned-positions
class LearnedPositions(nn.Module):
    """Adds one learned vector for each position (section 3.5; row (E) of Table 3).

    They start from N(0, 1/2), whose mean square is that of the sinusoids.
    Raises ValueError for a position beyond `max_length`: there is no vector for it.

    Defined in chapter 35: `learned-positions`.
    """

    def __init__(self, d_model: int, max_length: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(max_length, d_model) * 0.5**0.5)

    def forward(
        self, x: Float[Tensor, "batch length d_model"], start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        end = start + x.shape[1]
        if end > len(self.weight):
            raise ValueError(
                f"{end} positions, but learned ones for {len(self.weight)}: raise max_length and train again"
            )
        return x + self.weight[start:end]
