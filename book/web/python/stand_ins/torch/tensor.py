"""A tensor: numbers that lie in an array of the page, with a shape and a stride for each axis."""

import itertools
import math
from contextlib import ContextDecorator
from functools import cached_property
from types import SimpleNamespace

import kernels as loops
from pyodide.ffi import JsException, to_js

from torch.dtypes import (
    SPOKEN,
    bool_,
    default,
    float32,
    float64,
    int32,
    int64,
    of_number,
    packed,
    promoted,
    shown,
)

kernels = SimpleNamespace(**{name: getattr(loops, name) for name in dir(loops)})  # looked up once
JUPYTER = "run the chapter in Jupyter"


class Size(tuple):
    def numel(self):
        return math.prod(self)

    def __repr__(self):
        return f"torch.Size({list(self)})"

    def __getitem__(self, at):
        found = tuple.__getitem__(self, at)
        return Size(found) if isinstance(at, slice) else found


class device:
    def __init__(self, type="cpu"):
        if str(type) != "cpu":
            raise RuntimeError(f"this page's torch has no {type}, only cpu")
        self.type = "cpu"

    def __repr__(self):
        return "device(type='cpu')"

    def __str__(self):
        return "cpu"

    def __eq__(self, other):
        return str(other) == "cpu"

    __hash__ = object.__hash__


CPU = device()


def spread(a, b):
    """The shape of what comes of two shapes, from the right, where a size of 1 fits every other."""
    size = max(len(a), len(b))
    left, right = (1,) * (size - len(a)) + tuple(a), (1,) * (size - len(b)) + tuple(b)
    for axis, (m, n) in enumerate(zip(left, right)):
        if m != n and 1 not in (m, n):
            raise RuntimeError(
                f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-singleton dimension {axis}"
            )
    return Size(n if m == 1 else m for m, n in zip(left, right))


def steps(shape):
    """The strides of numbers that lie one after the other."""
    return tuple(itertools.accumulate(reversed(shape[1:]), lambda a, b: a * b, initial=1))[::-1] if shape else ()


def made(call, *arguments):
    try:
        return call(*arguments)
    except JsException as error:
        if "RangeError" not in str(type(error)) + str(error):
            raise
        raise MemoryError("so many numbers are too much for this page") from None


def filled(shape, value, kind=None):
    kind = kind or of_number(value)
    shape = Size(shape)
    if any(size < 0 for size in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    return Tensor(made(kernels.constant, kind.name, float(value), *shape), shape, kind)


def tensor(data, dtype=None, device=None, requires_grad=False):
    if isinstance(data, Tensor):
        return data.clone() if dtype is None else data.to(dtype).clone()
    shape, numbers = [], [data]
    while numbers and isinstance(numbers[0], (list, tuple, range, Tensor)):
        rows = [one.tolist() if isinstance(one, Tensor) else one for one in numbers]
        if not isinstance(rows[0], (list, tuple, range)):
            numbers = rows
            break
        for row in rows:
            if not isinstance(row, (list, tuple, range)) or len(row) != len(rows[0]):
                got = len(row) if isinstance(row, (list, tuple, range)) else 0
                raise ValueError(f"expected sequence of length {len(rows[0])} at dim {len(shape)} (got {got})")
        shape.append(len(rows[0]))
        numbers = [one for row in rows for one in row]
    shape = Size(shape)
    kind = dtype or max((of_number(number) for number in numbers), default=default[0])
    return Tensor(made(kernels.holding, kind.name, to_js(packed(numbers, kind)), *shape), shape, kind)


class Tensor:
    requires_grad, grad, is_leaf = False, None, True
    device, is_cuda = CPU, False
    __hash__ = object.__hash__

    def __init__(self, view, shape, kind):
        self.view_, self.shape, self.dtype = view, shape, kind
        self.base_, self.offset_ = view, 0

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name.endswith("_") and hasattr(type(self), name[:-1]):  # add_ and its like: the result in the old place
            return lambda *others, **options: self.copy_(getattr(self, name[:-1])(*others, **options))
        raise AttributeError(f"this page's torch has no Tensor.{name}; {JUPYTER}")

    # Another look at the same numbers

    def seen(self, shape, strides, offset):
        other = Tensor.__new__(Tensor)
        other.base_, other.shape, other.dtype = self.base_, Size(shape), self.dtype
        other.strides_, other.offset_ = tuple(strides), offset
        return other

    @cached_property
    def view_(self):  # what the loops take, made when one of them asks: most looks are looked at once more
        return kernels.view(self.base_, self.offset_, *self.shape, *self.strides_)

    @cached_property
    def strides_(self):
        return steps(self.shape)

    def axis(self, dim, more=0):
        size = max(len(self.shape) + more, 1)
        if not -size <= dim < size:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {dim})"
            )
        return dim % size

    def permute(self, *order):
        order = [self.axis(one) for one in unpacked(order)]
        if sorted(order) != list(range(len(self.shape))):
            raise RuntimeError("permute(sparse_coo): number of dimensions in the tensor input does not match")
        return self.seen([self.shape[i] for i in order], [self.strides_[i] for i in order], self.offset_)

    def transpose(self, a, b):
        order = [*range(len(self.shape))]
        a, b = self.axis(a), self.axis(b)
        if order:
            order[a], order[b] = order[b], order[a]
        return self.permute(order)

    def movedim(self, source, destination):
        order = [i for i in range(len(self.shape)) if i != self.axis(source)]
        order.insert(self.axis(destination), self.axis(source))
        return self.permute(order)

    @property
    def T(self):
        return self.permute(range(len(self.shape))[::-1])

    @property
    def mT(self):
        if len(self.shape) < 2:
            raise RuntimeError(
                f"tensor.mT is only supported on matrices or batches of matrices. Got {len(self.shape)}-D tensor."
            )
        return self.transpose(-2, -1)

    def t(self):
        return self.T

    def unsqueeze(self, dim):
        dim = self.axis(dim, 1)
        shape, strides = [*self.shape], [*self.strides_]
        shape.insert(dim, 1)
        strides.insert(dim, 1)
        return self.seen(shape, strides, self.offset_)

    def squeeze(self, dim=None):
        gone = range(len(self.shape)) if dim is None else [self.axis(dim)]
        kept = [i for i, size in enumerate(self.shape) if size != 1 or i not in gone]
        return self.seen([self.shape[i] for i in kept], [self.strides_[i] for i in kept], self.offset_)

    def expand(self, *sizes):
        sizes = unpacked(sizes)
        more = len(sizes) - len(self.shape)
        shape, strides = (1,) * more + tuple(self.shape), (0,) * more + self.strides_
        wanted = [old if new == -1 else new for old, new in zip(shape, sizes)]
        for axis, (old, new) in enumerate(zip(shape, wanted)):
            if old not in (1, new):
                raise RuntimeError(
                    f"The expanded size of the tensor ({new}) must match the existing size ({old}) at non-singleton "
                    f"dimension {axis}.  Target sizes: {list(sizes)}.  Tensor sizes: {list(self.shape)}"
                )
        return self.seen(wanted, [0 if o == 1 else s for o, s in zip(shape, strides)], self.offset_)

    def expand_as(self, other):
        return self.expand(other.shape)

    def broadcast_to(self, shape):
        return self.expand(*shape)

    def is_contiguous(self):
        return not self.numel() or all(
            size == 1 or a == b for size, a, b in zip(self.shape, self.strides_, steps(self.shape))
        )

    def contiguous(self):
        return self if self.is_contiguous() else self.clone()

    def view(self, *sizes):
        sizes = [*unpacked(sizes)]
        count = self.numel()
        if sizes.count(-1) == 1:
            rest = math.prod(size for size in sizes if size != -1)
            if rest and count % rest == 0:
                sizes[sizes.index(-1)] = count // rest
        if math.prod(sizes) != count or -1 in sizes:
            raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {count}")
        strides = steps(sizes) if self.is_contiguous() else self.strides_as(sizes)
        if strides is None:
            raise RuntimeError(
                "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
                "two contiguous subspaces). Use .reshape(...) instead."
            )
        return self.seen(sizes, strides, self.offset_)

    def strides_as(self, sizes):
        """Strides for other sizes without moving a number, or None."""
        strides, new = [], len(sizes) - 1
        axis = len(self.shape) - 1
        while axis >= 0:
            step, run = self.strides_[axis], self.shape[axis]
            while axis > 0 and self.strides_[axis - 1] == self.strides_[axis] * self.shape[axis]:
                axis -= 1
                run *= self.shape[axis]
            taken = 1
            while new >= 0 and (taken < run or sizes[new] == 1):
                strides.insert(0, step * taken)
                taken *= sizes[new]
                new -= 1
            if taken != run:
                return None
            axis -= 1
        return [1] * (new + 1) + strides

    def reshape(self, *sizes):
        try:
            return self.view(*sizes)
        except RuntimeError as error:
            if not str(error).startswith("view size"):
                raise
            return self.clone().view(*sizes)

    def flatten(self, start_dim=0, end_dim=-1):
        if not self.shape:
            return self.reshape(1)
        start, end = self.axis(start_dim), self.axis(end_dim)
        if start > end:
            raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
        return self.reshape(*self.shape[:start], math.prod(self.shape[start : end + 1]), *self.shape[end + 1 :])

    def unflatten(self, dim, sizes):
        dim, given = self.axis(dim), [*sizes]
        size = self.shape[dim]
        rest = abs(math.prod(given))
        sizes = [size // rest if one == -1 and rest else one for one in given]
        if math.prod(sizes) != size:
            raise RuntimeError(
                f"unflatten: Provided sizes {given} don't multiply up to the size of dim {dim} ({size}) in the input "
                "tensor"
            )
        return self.view(*self.shape[:dim], *sizes, *self.shape[dim + 1 :])

    def diagonal(self, offset=0, dim1=0, dim2=1):
        moved = self.movedim(dim1, -1)
        rows = moved.movedim(self.axis(dim2) - (self.axis(dim1) < self.axis(dim2)), -1)  # ..., dim1, dim2
        (n, m), (a, b) = rows.shape[-2:], rows.strides_[-2:]
        size = max(min(n, m - offset) if offset >= 0 else min(n + offset, m), 0)
        start = rows.offset_ + (offset * b if offset >= 0 else -offset * a)
        return rows.seen([*rows.shape[:-2], size], [*rows.strides_[:-2], a + b], start)

    def flip(self, *dims):
        gone = {self.axis(dim) for dim in unpacked(dims)}
        strides = [-step if axis in gone else step for axis, step in enumerate(self.strides_)]
        start = sum((self.shape[axis] - 1) * self.strides_[axis] for axis in gone)
        return self.seen(self.shape, strides, self.offset_ + start).clone()

    def narrow(self, dim, start, length):
        return self[(slice(None),) * self.axis(dim) + (slice(start, start + length),)]

    def select(self, dim, index):
        return self[(slice(None),) * self.axis(dim) + (index,)]

    def unbind(self, dim=0):
        return tuple(self.select(dim, i) for i in range(self.shape[self.axis(dim)]))

    def split(self, size, dim=0):
        total, start, parts = self.shape[self.axis(dim)], 0, []
        sizes = [min(size, total - at) for at in range(0, total, size)] if isinstance(size, int) else size
        if sum(sizes) != total:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's size at dimension "
                f"{dim}), but got split_sizes={list(sizes)}"
            )
        for one in sizes:
            parts.append(self.narrow(dim, start, one))
            start += one
        return tuple(parts)

    def chunk(self, chunks, dim=0):
        return self.split(max(-(-self.shape[self.axis(dim)] // chunks), 1), dim)

    def repeat(self, *times):
        times = unpacked(times)
        shape = (1,) * (len(times) - len(self.shape)) + tuple(self.shape)
        twice = self.reshape([n for size in shape for n in (1, size)])
        return twice.expand([n for pair in zip(times, shape) for n in pair]).reshape(
            [m * n for m, n in zip(times, shape)]
        )

    def repeat_interleave(self, times, dim=None):
        flat = self.flatten() if dim is None else self
        dim = 0 if dim is None else self.axis(dim)
        shape = flat.shape
        return flat.unsqueeze(dim + 1).expand(*shape[: dim + 1], times, *shape[dim + 1 :]).flatten(dim, dim + 1)

    # Places

    def looked_up(self, index):
        """A view where the index has no tensors; else the places of the numbers."""
        index = [*index] if isinstance(index, tuple) else [index]
        index = [tensor(one) if isinstance(one, list) else one for one in index]
        axes = sum(
            len(one.shape) if isinstance(one, Tensor) and one.dtype is bool_ else one is not None and one is not ...
            for one in index
        )
        if axes > len(self.shape):
            raise IndexError(f"too many indices for tensor of dimension {len(self.shape)}")
        fill = [slice(None)] * (len(self.shape) - axes)
        at = next((i for i, one in enumerate(index) if one is ...), len(index))
        index[at : at + 1] = fill
        shape, strides, offset, tensors, axis = [], [], self.offset_, [], 0
        for one in index:
            if one is None:
                shape.append(1)
                strides.append(1)
                continue
            if isinstance(one, Tensor) and one.dtype is bool_ and one.shape:
                for size, mask in zip(self.shape[axis:], one.shape):
                    if size != mask:
                        raise IndexError(
                            f"The shape of the mask {list(one.shape)} at index {axis} does not match the shape of the "
                            f"indexed tensor {list(self.shape)} at index {axis}"
                        )
                for column in one.nonzero().unbind(1):
                    tensors.append((len(shape), column, self.strides_[axis]))
                    axis += 1
                continue
            size, step = self.shape[axis], self.strides_[axis]
            if isinstance(one, slice):
                if one.step is not None and one.step <= 0:
                    raise ValueError("step must be greater than zero")
                places = range(size)[one]
                shape.append(len(places))
                strides.append(step * places.step)
                offset += step * places.start if len(places) else 0
            elif isinstance(one, Tensor) and (one.shape or tensors):
                if one.dtype.category != 1:
                    raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
                off = one[(one < -size) | (one >= size)].tolist()
                if off and 0 not in shape and 0 not in self.shape[axis + 1 :]:  # nobody looks where nothing is
                    raise IndexError(f"index {off[0]} is out of bounds for dimension {axis} with size {size}")
                tensors.append((len(shape), one.remainder(size) if size else one, step))
            else:
                place = int(one)
                if not -size <= place < size:
                    raise IndexError(f"index {place} is out of bounds for dimension {axis} with size {size}")
                offset += step * (place % size)
            axis += 1
        if not tensors:
            return self.seen(shape, strides, offset), None
        common = ()
        for _, one, _ in tensors:
            common = spread(common, one.shape)
        first = tensors[0][0] if all(at == tensors[0][0] for at, _, _ in tensors) else 0
        whole = filled((*shape[:first], *common, *shape[first:]), offset, int64)
        for _, one, step in tensors:
            whole = whole + (one * step).reshape(
                *(1,) * (len(common) - len(one.shape)), *one.shape, *(1,) * (len(shape) - first)
            )
        for axis, (size, step) in enumerate(zip(shape, strides)):
            after = len(shape) - axis - 1 + (len(common) if axis < first else 0)
            whole = whole + (arange(size) * step).reshape(size, *(1,) * after)
        return None, whole

    def __getitem__(self, index):
        view, places = self.looked_up(index)
        if places is None:
            return view
        return Tensor(kernels.take(self.view_, places.view_), places.shape, self.dtype)

    def __setitem__(self, index, value):
        view, places = self.looked_up(index)
        if places is None:
            view.copy_(value)
        else:
            value = value if isinstance(value, Tensor) else filled((), value, self.dtype)
            value.expand(places.shape)  # fits
            kernels.put(self.view_, places.view_, value.view_)

    def gather(self, dim, index):
        axes = [arange(size).reshape(size, *(1,) * (len(index.shape) - i - 1)) for i, size in enumerate(index.shape)]
        axes[self.axis(dim)] = index
        return self[tuple(axes)]

    def index_select(self, dim, index):
        return self[(slice(None),) * self.axis(dim) + (index,)]

    def copy_(self, other):
        if self.numel() and any(size > 1 and not step for size, step in zip(self.shape, self.strides_)):
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation."
            )
        if isinstance(other, Tensor):
            try:
                if spread(self.shape, other.shape) != self.shape:
                    raise RuntimeError
            except RuntimeError:
                other.expand(self.shape)
                raise
            kernels.assign(self.view_, other.view_)
        else:
            kernels.assign(self.view_, float(other))
        return self

    fill_ = copy_

    def zero_(self):
        return self.copy_(0)

    # One number from each, or from each two

    def each(self, name, kind=None):
        return Tensor(kernels.unary(name, (kind or self.dtype).name, self.view_), self.shape, kind or self.dtype)

    def with_(self, name, other, kind=None, turned=False):
        if not isinstance(other, (Tensor, int, float)):
            return NotImplemented
        kind = kind or promoted(self, other)
        if isinstance(other, Tensor):
            shape, second = spread(self.shape, other.shape), other.view_
        else:
            shape, second = self.shape, float(other)
        pair = (second, self.view_) if turned else (self.view_, second)
        return Tensor(made(kernels.binary, name, kind.name, *pair), shape, kind)

    def to(self, *what, dtype=None, **_):
        for one in what:
            if isinstance(one, Tensor):
                dtype = one.dtype
            elif hasattr(one, "category"):
                dtype = one
            else:
                device(one)
        return self if dtype in (None, self.dtype) else self.converted(dtype)

    def converted(self, kind):
        if kind is bool_:
            return self.each("nonzero", kind)
        return self.each("trunc" if kind.category == 1 and self.dtype.category == 2 else "copy", kind)

    def float(self):
        return self.to(float32)

    def double(self):
        return self.to(float64)

    def long(self):
        return self.to(int64)

    def int(self):
        return self.to(int32)

    def bool(self):
        return self.to(bool_)

    def type_as(self, other):
        return self.to(other.dtype)

    def clone(self):
        return self.each("copy")

    def detach(self):
        return self.seen(self.shape, self.strides_, self.offset_)

    def same(self, *_, **__):
        return self

    cpu = requires_grad_ = same
    data = property(detach)

    def cuda(self, *_):
        raise RuntimeError("this page's torch has no cuda, only cpu")

    def backward(self, *_, **__):
        raise RuntimeError(f"this page's torch has no gradients; {JUPYTER}")

    def __invert__(self):
        if self.dtype.category == 2:
            raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
        return self.each("logical_not" if self.dtype is bool_ else "bitwise_not")

    def __neg__(self):
        if self.dtype is bool_:
            raise RuntimeError(MINUS.format("Negation, the `-` operator, on a bool tensor"))
        return self.each("neg")

    def clamp(self, min=None, max=None):
        x = self if min is None else self.with_("maximum", min)
        return x if max is None else x.with_("minimum", max)

    def masked_fill(self, mask, value):
        if mask.dtype is not bool_:
            raise RuntimeError(
                f"masked_fill_ only supports boolean masks, but got mask with dtype {SPOKEN[mask.dtype]}"
            )
        value = value.item() if isinstance(value, Tensor) else value
        shape = spread(mask.shape, self.shape)
        return Tensor(kernels.where(self.dtype.name, mask.view_, float(value), self.view_), shape, self.dtype)

    def triangle(self, keep):
        rows, columns = arange(self.shape[-2])[:, None], arange(self.shape[-1])
        return self.masked_fill(~keep(columns - rows), 0)

    def tril(self, diagonal=0):
        return self.triangle(lambda ahead: ahead <= diagonal)

    def triu(self, diagonal=0):
        return self.triangle(lambda ahead: ahead >= diagonal)

    # One number from many

    def reduce(self, name, dim, keepdim, kind):
        if not self.shape and dim is not None:
            [self.axis(one) for one in (dim if isinstance(dim, (tuple, list)) else [dim])]
            dim = None
        if dim is None:
            x, axes = self.reshape(1, -1) if self.shape else self.reshape(1, 1), None
        else:
            axes = sorted({self.axis(one) for one in (dim if isinstance(dim, (tuple, list)) else [dim])})
            kept = [i for i in range(len(self.shape)) if i not in axes]
            x = self.permute(*kept, *axes) if self.shape else self
            x = x.reshape([*(self.shape[i] for i in kept), math.prod(self.shape[i] for i in axes)])
        if x.shape[-1] == 0 and name in ("amax", "amin", "argmax", "argmin"):
            raise RuntimeError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
        found = Tensor(kernels.reduce(name, kind.name, x.view_), x.shape[:-1], kind)
        if axes is None:
            return found.reshape([1] * len(self.shape) if keepdim else [])
        return found.reshape([1 if i in axes else n for i, n in enumerate(self.shape)]) if keepdim else found

    def sum(self, dim=None, keepdim=False, dtype=None):
        return self.reduce("sum", dim, keepdim, dtype or (self.dtype if self.dtype.category == 2 else int64))

    def prod(self, dim=None, keepdim=False):
        return self.reduce("prod", dim, keepdim, self.dtype if self.dtype.category == 2 else int64)

    def mean(self, dim=None, keepdim=False):
        if self.dtype.category < 2:
            raise RuntimeError(
                "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
                f"Got: {repr(self.dtype)[6:].replace('int64', 'Long').replace('bool', 'Bool').replace('int32', 'Int')}"
            )
        total = self.sum(dim, keepdim)
        return total / (self.numel() / max(total.numel(), 1))

    def var(self, dim=None, keepdim=False, correction=1, unbiased=None):
        apart = (self - self.mean(dim, True)).square().sum(dim, keepdim)
        count = self.numel() // max(apart.numel(), 1)
        return apart / max(count - (correction if unbiased is None else unbiased), 0)

    def std(self, *dim, **options):
        return self.var(*dim, **options).sqrt()

    def norm(self, p=2, dim=None, keepdim=False):
        if p == math.inf:
            return self.abs().reduce("amax", dim, keepdim, self.dtype)
        return self.abs().pow(p).sum(dim, keepdim).pow(1 / p)

    def best(self, name, dim, keepdim):
        if dim is None:
            return self.reduce("a" + name, None, False, self.dtype)
        at = self.reduce("arg" + name, dim, True, int64)
        best = self.gather(dim, at)
        return Found(best if keepdim else best.squeeze(dim), at if keepdim else at.squeeze(dim))

    def max(self, dim=None, keepdim=False):
        return self.with_("maximum", dim) if isinstance(dim, Tensor) else self.best("max", dim, keepdim)

    def min(self, dim=None, keepdim=False):
        return self.with_("minimum", dim) if isinstance(dim, Tensor) else self.best("min", dim, keepdim)

    def rows(self, name, dim, kind=None, *more):
        kind = kind or (self.dtype if self.dtype.category == 2 or name == "cumsum" else default[0])
        if not self.shape:
            return self.reshape(1).rows(name, 0, kind, *more).reshape([])
        x = self.movedim(dim, -1)
        return Tensor(kernels.rows(name, kind.name, x.view_, *more), x.shape, kind).movedim(-1, self.axis(dim))

    def softmax(self, dim, dtype=None):
        return self.rows("softmax", dim, dtype)

    def log_softmax(self, dim, dtype=None):
        return self.rows("log_softmax", dim, dtype)

    def logsumexp(self, dim, keepdim=False):
        top = self.amax(dim, True)
        total = (self - top).exp().sum(dim, True).log() + top
        return total if keepdim else total.squeeze(dim)

    def cumsum(self, dim):
        return self.rows("cumsum", dim, self.dtype if self.dtype.category == 2 else int64)

    def argsort(self, dim=-1, descending=False, stable=False):
        return self.rows("argsort_down" if descending else "argsort", dim, int64)

    def sort(self, dim=-1, descending=False, stable=False):
        at = self.argsort(dim, descending)
        return Found(self.gather(dim, at), at)

    def topk(self, k, dim=-1, largest=True, sorted=True):
        if k > self.shape[self.axis(dim)]:
            raise RuntimeError("selected index k out of range")
        at = self.argsort(dim, largest).narrow(dim, 0, k)
        return Found(self.gather(dim, at), at)

    def nonzero(self, as_tuple=False):
        flat = made(kernels.places, self.view_)
        at = Tensor(kernels.holding("int64", flat, len(flat)), Size([len(flat)]), int64)
        found = (
            stack([(at // step) % size for step, size in zip(steps(self.shape), self.shape)], 1)
            if self.shape
            else at[:, None][:, :0]
        )
        return found.unbind(1) if as_tuple else found

    # Products

    def __matmul__(self, other):
        a, b = self, other
        if not isinstance(b, Tensor):
            return NotImplemented
        if not a.shape or not b.shape:
            raise RuntimeError(
                f"both arguments to matmul need to be at least 1D, but they are {len(a.shape)}D and {len(b.shape)}D"
            )
        left, right = len(a.shape) == 1, len(b.shape) == 1
        a, b = a[None] if left else a, b[:, None] if right else b
        if a.shape[-1] != b.shape[-2]:
            raise RuntimeError(unfit(self.shape, other.shape))
        if a.dtype is not b.dtype:
            one, two = SPOKEN[a.dtype], SPOKEN[b.dtype]
            raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {one} != {two}")
        shape = Size((*spread(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]))
        product = Tensor(made(kernels.matmul, a.dtype.name, a.view_, b.view_), shape, a.dtype)
        product = product.squeeze(-1) if right else product
        return product.squeeze(-1 if right else -2) if left else product

    def dot(self, other):
        if self.shape != other.shape:
            raise RuntimeError(unfit(self.shape, other.shape))
        return self @ other

    # Numbers of Python

    def numel(self):
        return math.prod(self.shape)

    def dim(self):
        return len(self.shape)

    ndim = property(dim)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[self.axis(dim)]

    def stride(self, dim=None):
        return self.strides_ if dim is None else self.strides_[dim]

    def is_floating_point(self):
        return self.dtype.category == 2

    def data_ptr(self):
        return id(self.base_), self.offset_

    def numbers(self):
        found = kernels.list(self.view_).to_py().tolist()
        return found if self.dtype.category == 2 else [*map(bool if self.dtype is bool_ else int, found)]

    def tolist(self):
        found = self.numbers()
        if not self.shape:
            return found[0]
        for axis in range(len(self.shape) - 1, 0, -1):
            size = self.shape[axis]
            found = [found[i * size : (i + 1) * size] for i in range(math.prod(self.shape[:axis]))]
        return found

    def item(self):
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return self.numbers()[0]

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __index__(self):
        if self.dtype.category == 2 or self.numel() != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __bool__(self):
        if self.numel() != 1:
            many = "more than one value" if self.numel() else "no values"
            raise RuntimeError(f"Boolean value of Tensor with {many} is ambiguous")
        return bool(self.item())

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self):
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, value):
        return bool((self == value).any())

    def __format__(self, form):
        return format(repr(self) if self.shape else self.item(), form)

    def __deepcopy__(self, memo):
        return self.clone()

    def __repr__(self):
        return written(self)


class Found(tuple):
    """Numbers and their places."""

    def __new__(cls, values, indices):
        return super().__new__(cls, (values, indices))

    values, indices = (property(lambda self, i=i: self[i]) for i in (0, 1))


def unpacked(sizes):
    return sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes


def unfit(a, b):
    """What PyTorch says of two shapes that cannot be multiplied."""
    if len(a) == len(b) == 1:
        return (
            f"inconsistent tensor size, expected tensor [{a[0]}] and src [{b[0]}] to have the same number of "
            f"elements, but got {a[0]} and {b[0]} elements respectively"
        )
    if len(b) == 1:
        rows = math.prod(a[:-1])
        return f"size mismatch, got input ({rows}), mat ({rows}x{a[-1]}), vec ({b[0]})"
    if len(b) <= 2:
        rows = math.prod(a[:-1])
        return f"mat1 and mat2 shapes cannot be multiplied ({rows}x{a[-1]} and {b[0]}x{b[1]})"
    batch = math.prod(spread(a[:-2], b[:-2]))
    wanted, got = [batch, a[-1]], [batch, b[-2]]
    return f"Expected size for first two dimensions of batch2 tensor to be: {wanted} but got: {got}."


MINUS = "{} is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."


def subtracted(self, other, turned):
    kinds = self.dtype, other.dtype if isinstance(other, Tensor) else bool_ if isinstance(other, bool) else None
    if kinds == (bool_, bool_):
        two = "Subtraction, the `-` operator, with two bool tensors is not supported."
        raise RuntimeError(two + " Use the `^` or `logical_xor()` operator instead.")
    if bool_ in kinds:
        raise RuntimeError(MINUS.format("Subtraction, the `-` operator, with a bool tensor"))
    return self.with_("sub", other, turned=turned)


def in_place(self, found):
    if found.dtype.category > self.dtype.category:
        one, other = (SPOKEN[x.dtype].split()[0].capitalize() for x in (found, self))
        raise RuntimeError(f"result type {one} can't be cast to the desired output type {other}")
    return self.copy_(found)


def divided(self, other, turned=False):
    kind = promoted(self, other)
    return self.with_("div", other, kind if kind.category == 2 else default[0], turned)


for name in "abs ceil floor neg relu round sign square trunc".split():
    setattr(Tensor, name, lambda self, name=name: self.each(name))
FLOATING = "acos cos erf exp log log1p log2 reciprocal rsqrt sigmoid sin sqrt tan tanh"
for name in FLOATING.split():
    setattr(
        Tensor, name, lambda self, name=name: self.each(name, self.dtype if self.dtype.category == 2 else default[0])
    )
for name in ["isfinite", "isinf", "isnan", "logical_not"]:
    setattr(Tensor, name, lambda self, name=name: self.each(name, bool_))
for name in ["any", "all"]:
    setattr(Tensor, name, lambda self, dim=None, keepdim=False, name=name: self.reduce(name, dim, keepdim, bool_))
for name in ["amax", "amin"]:
    setattr(Tensor, name, lambda self, dim=None, keepdim=False, name=name: self.reduce(name, dim, keepdim, self.dtype))
for name in ["argmax", "argmin"]:
    setattr(Tensor, name, lambda self, dim=None, keepdim=False, name=name: self.reduce(name, dim, keepdim, int64))
for name in "eq ne lt le gt ge".split():
    setattr(Tensor, name, lambda self, other, name=name: self.with_(name, other, bool_))
    setattr(Tensor, f"__{name}__", getattr(Tensor, name))
for name, sign in {
    "add": "add",
    "mul": "mul",
    "remainder": "mod",
    "floor_divide": "floordiv",
    "maximum": "",
    "minimum": "",
    "pow": "pow",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}.items():
    setattr(Tensor, name, lambda self, other, name=name: self.with_(name, other))
    if sign:
        setattr(Tensor, f"__{sign}__", getattr(Tensor, name))
        setattr(Tensor, f"__r{sign}__", lambda self, other, name=name: self.with_(name, other, turned=True))
Tensor.sub = Tensor.__sub__ = lambda self, other: subtracted(self, other, False)
Tensor.__rsub__ = lambda self, other: subtracted(self, other, True)
Tensor.div = Tensor.__truediv__ = divided
Tensor.__rtruediv__ = lambda self, other: divided(self, other, True)
Tensor.logical_and, Tensor.logical_or = Tensor.bitwise_and, Tensor.bitwise_or
Tensor.matmul = Tensor.bmm = Tensor.mm = Tensor.__matmul__
for sign, name in {
    "iadd": "add",
    "isub": "sub",
    "imul": "mul",
    "itruediv": "div",
    "iand": "bitwise_and",
    "ior": "bitwise_or",
}.items():
    setattr(Tensor, f"__{sign}__", lambda self, other, name=name: in_place(self, getattr(self, name)(other)))
for name, value in {"zeros": 0, "ones": 1}.items():
    setattr(
        Tensor,
        f"new_{name}",
        lambda self, *shape, dtype=None, device=None, value=value: filled(unpacked(shape), value, dtype or self.dtype),
    )
Tensor.new_full = lambda self, shape, value, dtype=None, device=None: filled(shape, value, dtype or self.dtype)
Tensor.new_tensor = lambda self, data, dtype=None: tensor(data, dtype or self.dtype)


def arange(start, end=None, step=1, dtype=None, device=None):
    start, end = (0, start) if end is None else (start, end)
    count = max(math.ceil((end - start) / step), 0)
    return tensor([start + i * step for i in range(count)], dtype or promoted(start, end, step))


def where_(condition, a, b):
    kind = promoted(a, b)
    shape = condition.shape
    for one in (a, b):
        shape = spread(shape, one.shape) if isinstance(one, Tensor) else shape
    views = (one.view_ if isinstance(one, Tensor) else float(one) for one in (a, b))
    return Tensor(kernels.where(kind.name, condition.view_, *views), shape, kind)


def cat(tensors, dim=0):
    tensors = [*tensors]
    if not tensors:
        raise RuntimeError("torch.cat(): expected a non-empty list of Tensors")
    dim, sizes = tensors[0].axis(dim), [*tensors[0].shape]
    for number, one in enumerate(tensors):
        if len(one.shape) != len(sizes):
            raise RuntimeError(f"Tensors must have same number of dimensions: got {len(sizes)} and {len(one.shape)}")
        for axis, (a, b) in enumerate(zip(sizes, one.shape)):
            if a != b and axis != dim:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {a} but got size {b} for "
                    f"tensor number {number} in the list."
                )
    sizes[dim] = sum(one.shape[dim] for one in tensors)
    whole, start = filled(sizes, 0, promoted(*tensors)), 0
    for one in tensors:
        whole.narrow(dim, start, one.shape[dim]).copy_(one)
        start += one.shape[dim]
    return whole


def stack(tensors, dim=0):
    tensors = [*tensors]
    for number, one in enumerate(tensors):
        if one.shape != tensors[0].shape:
            shapes = f"{list(tensors[0].shape)} at entry 0 and {list(one.shape)} at entry {number}"
            raise RuntimeError(f"stack expects each tensor to be equal size, but got {shapes}")
    return cat([one.unsqueeze(dim) for one in tensors], tensors[0].axis(dim, 1))


def written(x):
    """As PyTorch prints it: four digits, one width, brackets."""
    if not x.numel():
        size = [f"size={tuple(x.shape)}"] if len(x.shape) > 1 else []
        kind = [] if x.dtype is default[0] else [f"dtype={x.dtype!r}"]
        return f"tensor({', '.join(['[]', *size, *kind])})"
    corner = x if x.numel() <= 1000 else None
    write = shown((corner if corner is not None else edges(x)).numbers(), x.dtype)

    def block(x, indent):
        if not x.shape:
            return write(x.item())
        rows = [*x] if corner is not None or x.shape[0] <= 6 else [*x[:3], None, *x[-3:]]
        if len(x.shape) == 1:
            texts = [" ..." if one is None else write(one.item()) for one in rows]
            per_line = max((80 - indent) // (len(texts[0]) + 2), 1) if texts else 1
            lines = [", ".join(texts[at : at + per_line]) for at in range(0, len(texts), per_line)]
            return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
        gap = "," + "\n" * (len(x.shape) - 1) + " " * (indent + 1)
        return "[" + gap.join("..." if one is None else block(one, indent + 1) for one in rows) + "]"

    extra = [] if x.dtype in (default[0], int64, bool_) else [f"dtype={x.dtype!r}"]
    extra += ["requires_grad=True"] if x.requires_grad else []
    return f"tensor({', '.join([block(x, 7), *extra])})"


def edges(x):
    for axis, size in enumerate(x.shape):
        if size > 6:
            x = cat([x.narrow(axis, 0, 3), x.narrow(axis, size - 3, 3)], axis)
    return x


class no_grad(ContextDecorator):
    def __init__(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def __call__(self, function=None):
        return super().__call__(function) if function else self
