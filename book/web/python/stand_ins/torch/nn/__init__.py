"""Modules: parts that hold learned numbers."""

from types import MappingProxyType

import torch
from torch.nn import functional, init
from torch.tensor import JUPYTER, Tensor
from torch.utils.hooks import RemovableHandle


class Parameter(Tensor):
    requires_grad = True

    def __init__(self, data, requires_grad=True):
        self.__dict__.update(data.__dict__)
        self.requires_grad = requires_grad

    def __repr__(self):
        return f"Parameter containing:\n{super().__repr__()}"


class Module:
    training = True
    _before, _after = MappingProxyType({}), MappingProxyType({})  # of a module whose __init__ was not called

    def __init__(self):
        self.__dict__.update(_parameters={}, _modules={}, _buffers={}, _before={}, _after={})

    def __setattr__(self, name, value):
        kinds = {"_parameters": Parameter, "_modules": Module, "_buffers": ()}
        if isinstance(value, (Parameter, Module)) and "_modules" not in self.__dict__:
            raise AttributeError("cannot assign module before Module.__init__() call")
        for where, kind in kinds.items():
            held = self.__dict__.get(where, {})
            if isinstance(value, kind) or (name in held and where == "_buffers"):
                self.__dict__.pop(name, None)
                held[name] = value
                return
            held.pop(name, None)
        self.__dict__[name] = value

    def __getattr__(self, name):
        for where in ("_parameters", "_modules", "_buffers"):
            if name in self.__dict__.get(where, {}):
                return self.__dict__[where][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __call__(self, *given, **named):
        for hook in [*self._before.values()]:
            changed = hook(self, given)
            given = given if changed is None else changed if isinstance(changed, tuple) else (changed,)
        found = self.forward(*given, **named)
        for hook in [*self._after.values()]:
            changed = hook(self, given, found)
            found = found if changed is None else changed
        return found

    def register_forward_pre_hook(self, hook):
        return RemovableHandle(self._before, hook)

    def register_forward_hook(self, hook):
        return RemovableHandle(self._after, hook)

    def forward(self, *_):
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def register_parameter(self, name, value):
        self._parameters[name] = value

    def register_buffer(self, name, value, persistent=True):
        self._buffers[name] = value
        self.__dict__.setdefault("_passing", set()).update(() if persistent else [name])

    def tree(self, prefix=""):
        yield prefix, self
        for name, module in self._modules.items():
            yield from module.tree(f"{prefix}.{name}".lstrip("."))

    def named_modules(self):
        seen = set()
        return ((name, one) for name, one in self.tree() if not (one in seen or seen.add(one)))

    def modules(self):
        return (module for _, module in self.named_modules())

    def named_children(self):
        return iter(self._modules.items())

    def children(self):
        return iter(self._modules.values())

    def named_parameters(self):
        seen = set()
        for prefix, module in self.named_modules():
            for name, one in module._parameters.items():
                if one is not None and id(one) not in seen:
                    seen.add(id(one))
                    yield f"{prefix}.{name}".lstrip("."), one

    def parameters(self):
        return (one for _, one in self.named_parameters())

    def buffers(self):
        return (one for module in self.modules() for one in module._buffers.values())

    def state_dict(self):
        return {
            f"{prefix}.{name}".lstrip("."): one
            for prefix, module in self.tree()
            for name, one in [*module._parameters.items(), *module._buffers.items()]
            if one is not None and name not in module.__dict__.get("_passing", ())
        }

    def load_state_dict(self, given, strict=True):
        own, kind = self.state_dict(), type(self).__name__
        missing, foreign = [name for name in own if name not in given], [name for name in given if name not in own]
        said = [f"Missing key(s) in state_dict: {', '.join(map(quoted, missing))}. "] if missing and strict else []
        said += [f"Unexpected key(s) in state_dict: {', '.join(map(quoted, foreign))}. "] if foreign and strict else []
        said += [
            f"size mismatch for {name}: copying a param with shape {given[name].shape!r} from checkpoint, "
            f"the shape in current model is {one.shape!r}."
            for name, one in own.items()
            if name in given and given[name].shape != one.shape
        ]
        if said:
            raise RuntimeError(f"Error(s) in loading state_dict for {kind}:\n\t" + "\n\t".join(said))
        for name, one in own.items():
            if name in given:
                one.copy_(given[name])

    def apply(self, change):
        for module in self.children():
            module.apply(change)
        change(self)
        return self

    def train(self, mode=True):
        for module in self.modules():
            module.training = mode
        return self

    def eval(self):
        return self.train(False)

    def to(self, *what, **named):
        moved = {}  # what several modules share stays one
        for module in self.modules():
            for held in (module._parameters, module._buffers):
                for name, one in held.items():
                    if one is not None and one.is_floating_point():
                        new = one.to(*what, **named)
                        if new is not one and isinstance(one, Parameter):
                            new = moved.setdefault(one, Parameter(new))
                        held[name] = new
        return self

    def double(self):
        return self.to(torch.float64)

    def float(self):
        return self.to(torch.float32)

    def requires_grad_(self, *_):
        return self

    cpu = zero_grad = requires_grad_

    def extra_repr(self):
        return ""

    def __repr__(self):
        parts = [f"({name}): {module!r}".replace("\n", "\n  ") for name, module in self._modules.items()]
        inner = "\n  ".join(parts)
        return f"{type(self).__name__}(\n  {inner}\n)" if parts else f"{type(self).__name__}({self.extra_repr()})"


def quoted(name):
    return f'"{name}"'


class ModuleList(Module):
    def __init__(self, modules=()):
        super().__init__()
        self.extend(modules)

    def append(self, module):
        self._modules[str(len(self))] = module
        return self

    def extend(self, modules):
        for module in modules:
            self.append(module)
        return self

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, at):
        held = [*self._modules.values()]
        return type(self)(held[at]) if isinstance(at, slice) else held[at]


class Sequential(ModuleList):
    def __init__(self, *modules):
        super().__init__(modules)

    def forward(self, x):
        for module in self:
            x = module(x)
        return x


class Linear(Module):
    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(torch.empty(out_features, in_features))
        init.uniform_(self.weight, -(limit := in_features**-0.5), limit)
        self.bias = Parameter(init.uniform_(torch.empty(out_features), -limit, limit)) if bias else None

    def forward(self, x):
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    def __init__(self, num_embeddings, embedding_dim, padding_idx=None):
        super().__init__()
        self.weight = Parameter(torch.randn(num_embeddings, embedding_dim))

    def forward(self, tokens):
        return functional.embedding(tokens, self.weight)


class LayerNorm(Module):
    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight = Parameter(torch.ones(self.normalized_shape)) if elementwise_affine else None
        self.bias = Parameter(torch.zeros(self.normalized_shape)) if elementwise_affine and bias else None

    def forward(self, x):
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        own, biased = self.weight is not None, self.bias is not None
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={own}, bias={biased}"


class Dropout(Module):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, x):
        return functional.dropout(x, self.p, self.training)

    def extra_repr(self):
        return f"p={self.p}, inplace=False"


class Identity(Module):
    def forward(self, x):
        return x


class ReLU(Module):
    def forward(self, x):
        return x.relu()


class Softmax(Module):
    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return x.softmax(self.dim)


def __getattr__(name):
    raise AttributeError(f"this page's torch has no nn.{name}; {JUPYTER}")
