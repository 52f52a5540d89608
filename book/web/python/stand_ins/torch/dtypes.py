"""Kinds of numbers, and which one comes of two."""

import array
import math


class dtype:
    def __init__(self, name: str, category: int, itemsize: int):
        self.name, self.category, self.itemsize = name, category, itemsize
        self.is_floating_point = category == 2

    def __repr__(self):
        return f"torch.{self.name}"

    def __lt__(self, other):  # the order in which one gives way to another
        return (self.category, self.itemsize) < (other.category, other.itemsize)


bool_ = dtype("bool", 0, 1)
int32, int64 = dtype("int32", 1, 4), dtype("int64", 1, 8)
float32, float64 = dtype("float32", 2, 4), dtype("float64", 2, 8)
SPOKEN = {bool_: "bool", int32: "int", int64: "long int", float32: "float", float64: "double"}
CODES = {bool_: "B", int32: "i", int64: "d", float32: "f", float64: "d"}
default = [float32]


def of_number(number) -> dtype:
    """The kind that PyTorch gives to a number of Python."""
    if isinstance(number, bool):
        return bool_
    if isinstance(number, int):
        return int64
    if isinstance(number, float):
        return default[0]
    raise TypeError(f"a number is needed, not {type(number).__name__}")


def promoted(*operands) -> dtype:
    """The kind of what comes of tensors and numbers: among tensors with axes first, then without, then numbers."""
    ranks = [], [], []
    for one in operands:
        if hasattr(one, "dtype"):
            ranks[0 if one.shape else 1].append(one.dtype)
        else:
            ranks[2].append(of_number(one))
    found = None
    for kinds in filter(None, ranks):
        top = max(kinds)
        if found is None or top.category > found.category:
            found = top
    return found


def packed(numbers: list, kind: dtype) -> array.array:
    return array.array(CODES[kind], [int(number) for number in numbers] if kind.category < 2 else numbers)


def shown(numbers: list, kind: dtype):
    """What writes each number as PyTorch prints it, all in one width."""
    if kind.category == 0:
        write = str
    elif kind.category == 1:
        write = "{:d}".format
    else:
        finite = [abs(number) for number in numbers if math.isfinite(number) and number]
        top, low = max(finite, default=0), min(finite, default=0)
        if all(number == round(number) for number in finite):
            write = "{:.4e}".format if top >= 1e8 else "{:.0f}.".format
        else:
            write = "{:.4e}".format if finite and (top / low > 1000 or top > 1e8 or low < 1e-4) else "{:.4f}".format
    exact = write
    write = (lambda number: exact(number) if math.isfinite(number) else str(number)) if kind.category == 2 else exact
    width = max((len(write(number)) for number in numbers), default=0)
    return lambda number: write(number).rjust(width)
