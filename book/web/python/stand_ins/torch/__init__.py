"""The part of PyTorch that this book's model needs, under its names, for the page: without gradients, without devices.

Numbers lie in typed arrays; `kernels.js` has the loops over them. What is not here says so in one line.
"""

import builtins
import contextlib
import math

import kernels

from torch.dtypes import bool_, default, dtype, float32, float64, int32, int64, promoted
from torch.tensor import (
    JUPYTER,
    Size,
    Tensor,
    arange,
    cat,
    device,
    filled,
    no_grad,
    spread,
    stack,
    tensor,
    unpacked,
)
from torch.tensor import (
    where_ as where,
)

globals()["bool"] = bool_
float, double, long, int = float32, float64, int64, int32
inf, nan, pi = math.inf, math.nan, math.pi
enable_grad = inference_mode = no_grad
__version__ = "2.13.0 (the small one of this page)"


def get_default_dtype():
    return default[0]


def set_default_dtype(kind):
    default[0] = kind


def as_tensor(data, dtype=None, device=None):
    return data.to(dtype=dtype) if isinstance(data, Tensor) else tensor(data, dtype)


def is_tensor(x):
    return isinstance(x, Tensor)


def zeros(*shape, dtype=None, device=None):
    return filled(unpacked(shape), 0, dtype or default[0])


def ones(*shape, dtype=None, device=None):
    return filled(unpacked(shape), 1, dtype or default[0])


empty = zeros


def full(shape, value, dtype=None, device=None):
    return filled(shape, value, dtype)


def zeros_like(x, dtype=None):
    return filled(x.shape, 0, dtype or x.dtype)


def ones_like(x, dtype=None):
    return filled(x.shape, 1, dtype or x.dtype)


def full_like(x, value, dtype=None):
    return filled(x.shape, value, dtype or x.dtype)


def eye(n, m=None, dtype=None):
    return (arange(n)[:, None] == arange(m or n)).to(dtype or default[0])


def linspace(start, end, steps):
    return tensor([start + (end - start) * i / (steps - 1 or 1) for i in range(steps)], default[0])


class Generator:
    def __init__(self, device="cpu"):
        self.numbers = kernels.Generator.new(0)

    def manual_seed(self, seed):
        self.numbers.seed(seed % 2**32)
        return self

    def get_state(self):
        return self.numbers.state

    def set_state(self, state):
        self.numbers.state = state


default_generator = Generator()
manual_seed = default_generator.manual_seed


class random:
    @staticmethod
    @contextlib.contextmanager
    def fork_rng(devices=()):
        kept = default_generator.get_state()
        try:
            yield
        finally:
            default_generator.set_state(kept)


def drawn(how, shape, kind, generator, *limits):
    numbers, x = (generator or default_generator).numbers, filled(shape, 0, kind)
    getattr(numbers, how)(x.view_, *limits)
    return x


def rand(*shape, dtype=None, generator=None, device=None):
    return drawn("uniform", unpacked(shape), dtype or default[0], generator)


def randn(*shape, dtype=None, generator=None, device=None):
    return drawn("normal", unpacked(shape), dtype or default[0], generator)


def randn_like(x):
    return randn(x.shape, dtype=x.dtype)


def randint(low, high, size=None, generator=None, dtype=None, device=None):
    low, high, size = (0, low, high) if size is None else (low, high, size)
    return drawn("whole", size, dtype or int64, generator, low, high)


def randperm(n, generator=None):
    return drawn("order", [n], int64, generator)


def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    near = ((a - b).abs() <= atol + rtol * b.abs()) | (a == b)
    return all(near | (a.isnan() & b.isnan()) if equal_nan else near).item()


def equal(a, b):
    return a.shape == b.shape and all(a == b).item()


def outer(a, b):
    return a[:, None] * b


def block_diag(*blocks):
    whole = zeros(*map(builtins.sum, zip(*(one.shape for one in blocks))), dtype=promoted(*blocks))
    row = column = 0
    for one in blocks:
        rows, columns = one.shape
        whole[row : row + rows, column : column + columns] = one
        row, column = row + rows, column + columns
    return whole


def einsum(form, *tensors):
    """Sums of products: an axis for each letter, and sums over the letters that are gone."""
    before, _, after = form.replace(" ", "").partition("->")
    named = before.split(",")
    letters = sorted({*before} - {","})
    product = 1
    for names, x in zip(named, tensors):
        if len(names) != len(x.shape):
            raise RuntimeError(
                f"einsum(): the number of subscripts in {names} does not match the {len(x.shape)} dimensions"
            )
        order = sorted(range(len(names)), key=lambda i: names[i])
        x = x.permute(*order)
        product = x[tuple(slice(None) if one in names else None for one in letters)] * product
    gone = [i for i, one in enumerate(letters) if one not in after]
    product = product.sum(gone) if gone else product
    left = [one for one in letters if one in after]
    return product.permute(*(left.index(one) for one in after))


def _function(name):
    return lambda x, *others, **options: getattr(x, name)(*others, **options)


for _name in (
    "abs acos add all amax amin any argmax argmin argsort bitwise_and bmm ceil chunk clamp cos cumsum "
    "diagonal div dot eq erf exp flatten flip broadcast_to floor floor_divide gather ge gt isfinite isinf isnan le log "
    "log1p log2 log_softmax logical_and logical_not logical_or logsumexp lt masked_fill matmul max "
    "maximum mean min minimum mm movedim mul ne neg nonzero norm numel permute pow prod reciprocal relu "
    "remainder repeat_interleave reshape round rsqrt sigmoid sign sin softmax sort split sqrt square "
    "squeeze std sub sum tan tanh topk transpose tril triu trunc unbind unsqueeze var"
).split():
    globals()[_name] = _function(_name)
concat = cat


class compiler:
    is_compiling = staticmethod(lambda: False)


def __getattr__(name):
    raise AttributeError(f"this page's torch has no {name}; {JUPYTER}")


from torch import nn  # noqa: E402
