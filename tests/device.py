"""A device for tests without a GPU: it computes on the CPU, but refuses to mix its tensors with CPU ones, as CUDA does.

Its tensors are plain ones of PyTorch's PrivateUse1 backend, over memory that CPU tensors share: an operator runs on
those. The backend has to be there before the process runs a first backward pass, hence is registered on import; outside
of `strict_device` nothing is told that it can be used. Where there is a real accelerator it is left out.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch.utils import backend_registration

__all__ = ["TESTER", "strict_device"]

CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
FILLING = {f"aten::{name}" for name in ("fill_", "masked_fill", "masked_fill_", "index_put_", "_index_put_impl_")}
INDEXING = {f"aten::{name}" for name in ("index", "index_put", "index_put_", "_index_put_impl_")}
TESTER: torch.device | None = None


class Backend(backend_registration._DummyBackendModule):
    """What `torch.tester` is."""

    available = False  # in `strict_device` alone
    refused: frozenset[torch.dtype] = frozenset()  # types of which the device makes no tensors

    def is_available(self) -> bool:
        return self.available

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


class Hook(backend_registration._DummyPrivateUse1Hook):
    """What PyTorch's C++ side asks."""

    def is_available(self) -> bool:
        return Backend.available

    def has_primary_context(self, dev_id: int) -> bool:
        return Backend.available


def on_device(host: torch.UntypedStorage) -> torch.UntypedStorage:
    """The same memory as a storage of the device, which keeps the CPU's alive."""
    storage = torch._C._construct_storage_from_data_pointer(host.data_ptr(), TESTER, host.nbytes())
    storage.host = host
    return storage


def point(tensor: Tensor, storage: torch.UntypedStorage, offset: int, shape: Sequence[int], stride: Sequence[int] = ()):
    """Make `tensor` that part of a storage of the device."""
    return torch.ops.aten.set_.source_Storage_storage_offset.redispatch(CPU, tensor, storage, offset, shape, stride)


def place_of(tensor: Tensor) -> tuple[int, torch.Size, tuple[int, ...]]:
    """Where in its storage a tensor lies."""
    return tensor.storage_offset(), tensor.shape, tensor.stride()


def on_cpu(tensor: Tensor) -> Tensor:
    """A CPU tensor on the same memory."""
    if tensor.device != TESTER:
        return tensor
    with torch.inference_mode(tensor.is_inference()):
        return torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage().host, *place_of(tensor))


def check_device(op: torch._ops.OpOverload, argument: torch.Argument, tensor: Tensor) -> None:
    """Refuse a CPU tensor, but for a number in a pointwise operator and for positions to index at."""
    number = tensor.dim() == 0 and (torch.Tag.pointwise in op.tags or op._schema.name in FILLING)
    written = argument.alias_info is not None and argument.alias_info.is_write
    position = argument.name == "indices" and op._schema.name in INDEXING
    if tensor.device != TESTER and not position and not (number and not written):
        message = "Expected all tensors to be on the same device, but found at least two devices"
        raise RuntimeError(f"{message}, {TESTER} and {tensor.device} ({argument.name} of {op})")


def run(op: torch._ops.OpOverload, *args, **kwargs):
    """Any operator: the CPU's, on the same memory."""
    tensors: dict[int, tuple[Tensor, Tensor]] = {}  # of the CPU and of the device
    storages: dict[int, torch.UntypedStorage] = {}

    def lend(argument: torch.Argument, value):
        if isinstance(value, list | tuple):
            return [lend(argument, part) for part in value]
        if isinstance(value, Tensor):
            check_device(op, argument, value)
            if value.device == TESTER:
                lent, storage = on_cpu(value), value.untyped_storage()
                tensors[id(lent)], storages[storage.host._cdata] = (lent, value), storage
                return lent
        elif isinstance(value, int | float) and isinstance(argument.type, torch.TensorType):
            return torch.tensor(value)  # a number that C++ took for a tensor
        return torch.device("cpu") if isinstance(value, torch.device) else value

    def take_back(value):
        if isinstance(value, list | tuple):
            return type(value)(map(take_back, value))
        if not isinstance(value, Tensor):
            return value
        host = value.untyped_storage()
        known = storages.get(host._cdata)
        if known is None or (known.data_ptr(), known.nbytes()) != (host.data_ptr(), host.nbytes()):
            if value.dtype in Backend.refused:
                raise TypeError(f"{TESTER} has no {value.dtype}")
            storages[host._cdata] = known = on_device(host)
        if id(value) not in tensors:
            with torch.inference_mode(value.is_inference()):  # a view is what its base is
                return point(torch._C._acc.create_empty_tensor((0,), value.dtype), known, *place_of(value))
        tensor = tensors[id(value)][1]
        unchanged = tensor.data_ptr() == value.data_ptr() and place_of(tensor) == place_of(value)
        return tensor if unchanged else point(tensor, known, *place_of(value))

    arguments = op._schema.arguments
    named = {argument.name: lend(argument, kwargs[argument.name]) for argument in arguments if argument.name in kwargs}
    return take_back(op(*map(lend, arguments, args), **named))


def copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    """Copying is what may go from device to device."""
    on_cpu(target).copy_(on_cpu(source))
    return target


def gru_cell(of_input: Tensor, of_hidden: Tensor, state: Tensor, input_bias=None, hidden_bias=None):
    """A kernel that the CPU lacks."""
    r, u, n = (of_input if input_bias is None else of_input + input_bias).chunk(3, dim=1)
    hidden_r, hidden_u, hidden_n = (of_hidden if hidden_bias is None else of_hidden + hidden_bias).chunk(3, dim=1)
    n, u = torch.tanh(n + torch.sigmoid(r + hidden_r) * hidden_n), torch.sigmoid(u + hidden_u)
    return (1 - u) * n + u * state, torch.empty_like(of_input)


def clone_storage(storage: torch.UntypedStorage, clone=torch.UntypedStorage.clone) -> torch.UntypedStorage:
    """What `copy.deepcopy` makes of a storage."""
    return on_device(clone(storage.host)) if storage.device == TESTER else clone(storage)


if not torch.accelerator.is_available():
    backend_registration._setup_privateuseone_for_python_backend("tester", Backend(), Hook())
    TESTER = torch.device("tester", 0)
    ANY, ATEN = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    ANY.fallback(run, "PrivateUse1")
    ATEN.impl("set_.source_Storage_storage_offset", point, "PrivateUse1")
    ATEN.impl("_copy_from", copy_from, "PrivateUse1")
    ATEN.impl("_fused_sdp_choice", lambda *args, **kwargs: 0, "PrivateUse1")  # 0: written out in other operators
    ANY.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")  # so it changes the settings alone
    for key in ("PrivateUse1", "AutogradPrivateUse1"):
        ATEN.impl("_thnn_fused_gru_cell", gru_cell, key)


@contextmanager
def strict_device(float64: bool = True) -> Iterator[torch.device]:
    """The device; without `float64`, tensors of that type cannot be made on it (TypeError), as on Apple's."""
    if TESTER is None:
        pytest.skip("there is a real accelerator")
    refused = frozenset(() if float64 else (torch.float64, torch.complex128))
    swapping = torch.__future__.get_swap_module_params_on_conversion()
    told = mock.patch.multiple(Backend, available=True, refused=refused)
    with told, mock.patch.object(torch.UntypedStorage, "clone", clone_storage):
        torch.__future__.set_swap_module_params_on_conversion(True)  # else `Module.to` would part tied parameters
        try:
            yield TESTER
        finally:
            torch.__future__.set_swap_module_params_on_conversion(swapping)
