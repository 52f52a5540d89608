"""Weights from a file of the format safetensors: a header in JSON, then the numbers."""

import array
import json
from pathlib import Path

import kernels
from pyodide.ffi import to_js
from torch import float32
from torch.tensor import Size, Tensor


def load_file(path):
    return load(Path(path).read_bytes())


def load(content):
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    return {name: _tensor(about, content[8 + length :]) for name, about in header.items()}


def _tensor(about, content):
    start, end = about["data_offsets"]
    shape = Size(about["shape"])
    view = kernels.halves if about["dtype"] == "F16" else None
    numbers = to_js(array.array("H" if view else "f", content[start:end]))
    return Tensor(kernels.holding("float32", view(numbers) if view else numbers, *shape), shape, float32)


def save(tensors, metadata=None):
    raise OSError("weights are not saved in this page; run the chapter in Jupyter")
