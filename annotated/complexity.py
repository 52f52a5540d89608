# Written by `make export` from book/40_why_self_attention.ipynb: edit the chapter, not this.
"""Why self-attention (section 4 of the paper)."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from annotated.attention import scaled_dot_product_attention

__all__ = [
    "ConvolutionalLayer",
    "RecurrentLayer",
    "RestrictedAttentionLayer",
    "SelfAttentionLayer",
    "count_flops",
    "exponent",
    "layers_to_connect",
    "saved_bytes",
    "sequential_steps",
]


# book/40_why_self_attention.ipynb#attention-layer
class SelfAttentionLayer(nn.Module):
    """Bare self-attention of all positions to all, without projections.

    The first row of table 1.

    Defined in chapter 40: `attention-layer`.
    """

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return scaled_dot_product_attention(x, x, x)[0]


# book/40_why_self_attention.ipynb#recurrent-layer
class RecurrentLayer(nn.Module):
    """z_t = tanh(W x_t + U z_{t-1}): each position waits for the one before it.

    The second row of table 1.

    Defined in chapter 40: `recurrent-layer`.
    """

    def __init__(self, d: int):
        super().__init__()
        self.input, self.state = (
            nn.Linear(d, d, bias=False),
            nn.Linear(d, d, bias=False),
        )

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        given, state, states = self.input(x), torch.zeros_like(x[0]), []
        for vector in given:
            state = torch.tanh(vector + self.state(state))  # waits for the state before
            states.append(state)
        return torch.stack(states)


# book/40_why_self_attention.ipynb#count-flops
def count_flops(layer: nn.Module, n: int, d: int) -> int:
    """Floating point operations of a layer for n vectors of width d, as it runs.

    Products and convolutions are counted, a multiplication and its addition as two.
    Softmax and tanh are left out.

    Defined in chapter 40: `count-flops`.
    """
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(torch.randn(n, d))
    return counter.get_total_flops()


# book/40_why_self_attention.ipynb#sequential
def sequential_steps(layer: nn.Module, n: int, d: int) -> int:
    """The longest chain of recorded operations from a layer's input to its output.

    That is what has to wait, for n vectors of width d.

    Defined in chapter 40: `sequential`.
    """
    output = layer(torch.randn(n, d, requires_grad=True))
    depth: dict[torch.autograd.graph.Node, int] = {}
    waiting = [output.grad_fn]
    while waiting:
        node = waiting[-1]
        inputs = [before for before, _ in node.next_functions if before is not None]
        unknown = [before for before in inputs if before not in depth]
        waiting += unknown
        if not unknown:
            depth[waiting.pop()] = 1 + max((depth[before] for before in inputs), default=0)
    return depth[output.grad_fn]


# book/40_why_self_attention.ipynb#convolutional-layers
class ConvolutionalLayer(nn.Module):
    """A convolution over `kernel` neighbours, `dilation` positions apart (row 3).

    Beyond the ends there are zeros. `separable` mixes positions within each channel
    first, and then channels within each position.

    Defined in chapter 40: `convolutional-layers`.
    """

    def __init__(self, d: int, kernel: int, dilation: int = 1, separable: bool = False):
        super().__init__()
        if kernel % 2 == 0:
            raise ValueError(f"the kernel must be odd, to be centred on a position, not {kernel}")
        size = {
            "kernel_size": kernel,
            "dilation": dilation,
            "padding": kernel // 2 * dilation,
            "bias": False,
        }
        mixed = [nn.Conv1d(d, d, groups=d, **size), nn.Conv1d(d, d, 1, bias=False)]
        self.layers = nn.Sequential(*mixed) if separable else nn.Conv1d(d, d, **size)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return self.layers(x.T.unsqueeze(0)).squeeze(0).T


# book/40_why_self_attention.ipynb#restricted-layer
class RestrictedAttentionLayer(nn.Module):
    """Self-attention to the `window` positions around each position (row 4).

    What lies beyond the ends is left out.

    Defined in chapter 40: `restricted-layer`.
    """

    def __init__(self, window: int):
        super().__init__()
        if window % 2 == 0:
            raise ValueError(f"the window must be odd, to be centred on a position, not {window}")
        self.window = window

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        reach = self.window // 2
        near = F.pad(x, (0, 0, reach, reach)).unfold(0, self.window, 1)  # n d window
        there = F.pad(x.new_ones(len(x)), (reach, reach)).unfold(0, self.window, 1).bool()
        scores = (x.unsqueeze(1) @ near).squeeze(1) / x.shape[-1] ** 0.5
        weights = scores.masked_fill(~there, float("-inf")).softmax(dim=-1)
        return (near @ weights.unsqueeze(-1)).squeeze(-1)


# book/40_why_self_attention.ipynb#path
def layers_to_connect(build: Callable[[int], nn.Module], n: int, d: int) -> int:
    """How many layers it takes until the last output depends on the first input.

    The layers are `build(0)`, `build(1)`, and so on, for n vectors of width d.
    Raises ValueError where n layers do not connect them.

    Defined in chapter 40: `path`.
    """
    x = torch.randn(n, d, dtype=torch.float64, requires_grad=True)
    z, count = x, 0
    while count < n:
        z, count = build(count).double()(z), count + 1
        (gradient,) = torch.autograd.grad(z[-1].sum(), x, retain_graph=True)
        if gradient[0].any():
            return count
    raise ValueError(f"{n} layers do not connect {n} positions")


# book/40_why_self_attention.ipynb#exponent
def exponent(sizes: list[int], amounts: list[float]) -> float:
    """The power p with which amounts grow: like size to the power p.

    It is the slope of log amount against log size, by least squares.

    Defined in chapter 40: `exponent`.
    """
    x, y = torch.tensor(sizes).double().log(), torch.tensor(amounts).double().log()
    x, y = x - x.mean(), y - y.mean()
    return float((x @ y) / (x @ x))


# book/40_why_self_attention.ipynb#memory
def saved_bytes(layer: Callable[[Tensor], Tensor], n: int, d: int) -> int:
    """Bytes that a layer keeps for the backward pass of n vectors of width d.

    What is kept twice is counted once.

    Defined in chapter 40: `memory`.
    """
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = layer(torch.randn(n, d, requires_grad=True))
    assert output.requires_grad
    return sum(kept.values())
