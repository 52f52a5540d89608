"""Faster forms of the model, switched on by one call, equal to the plain ones."""

import copy
import importlib.util
import math
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from annotated.attention import MultiHeadAttention
from annotated.base.files import InputError
from annotated.batching import Batch
from annotated.decoding import DecodingState, KeyValueCache, KeyValues, start_decoding
from annotated.embeddings import OutputProjection
from annotated.machine.devices import processor
from annotated.masks import padding_mask
from annotated.model import Transformer
from annotated.recurrent import RecurrentTranslator
from annotated.stacks import DecoderLayer

__all__ = [
    "PLAIN",
    "PROCESS_SETTINGS",
    "accelerate",
    "check_compiler",
    "chunked_training_loss",
    "compiled",
    "hidden_states",
    "own_classes",
    "products_of_few_rows",
    "start_fast_decoding",
    "top_tokens",
    "tune_machine",
    "working_copy",
]


class IntegerDropout(nn.Dropout):
    """Dropout whose masks, on the CPU, come from 16-bit integers, four to a draw of 64 bits (section 5.4).

    `p` is thereby rounded to a multiple of 1/65536, but not to 0, and the scale is exact for the rounded value.
    """

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or not 0 < self.p < 1 or x.device.type != "cpu" or torch.compiler.is_compiling():
            return super().forward(x)
        return x * self.mask(x)

    def mask(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """A factor for each element: zero, or 1 / (1 - p)."""
        dropped = min(max(round(self.p * 65536), 1), 65535)  # of all values that 16 bits can have
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        highest = dropped - 32769  # of those that mean "drop"
        keep = draws.view(torch.int16)[: x.numel()].view(x.shape).clamp_(highest, highest + 1).sub_(highest)
        return keep.to(x.dtype).mul_(65536 / (65536 - dropped))


class FusedAttention(MultiHeadAttention):
    """Multi-head attention that leaves equation (1) to PyTorch's fused kernel, except on the CPU (section 3.2.1).

    The kernel never writes all weights to memory. Rows that may attend to nothing are zero here as well.
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        if query.device.type == "cpu":
            return super().attend(query, key, value, mask)
        heads = F.scaled_dot_product_attention(query, key, value, mask, self.dropout.p if self.training else 0.0)
        if mask is not None:
            heads = heads.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
        return self.output(heads.transpose(1, 2).flatten(2))


def few_rows(layer: nn.Linear | OutputProjection, x: Float[Tensor, "*batch width"], most: int = 16) -> Tensor:
    """The linear layer of x as (W x^T)^T + b: float32 on the CPU, `most` rows at most, not in training."""
    rows = x.shape[:-1]
    if layer.training or x.device.type != "cpu" or x.dtype != torch.float32 or not rows or rows.numel() > most:
        return F.linear(x, layer.weight, layer.bias)
    product = (layer.weight @ x.flatten(0, -2).T).T
    return (product if layer.bias is None else product + layer.bias).contiguous().view(*rows, len(layer.weight))


class FewRowsLinear(nn.Linear):
    """A linear layer whose product takes the faster order when it has few rows."""

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch out"]:
        return few_rows(self, x)


class FewRowsOutput(OutputProjection):
    """The output projection, likewise (section 3.4)."""

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        return few_rows(self, x)


FASTER: dict[type[nn.Module], type[nn.Module]] = {
    nn.Dropout: IntegerDropout,
    MultiHeadAttention: FusedAttention,
    nn.Linear: FewRowsLinear,
    OutputProjection: FewRowsOutput,
}
PLAIN = {faster: plain for plain, faster in FASTER.items()}
AnyModule = TypeVar("AnyModule", bound=nn.Module)


def accelerate(model: AnyModule, on: bool = True) -> AnyModule:
    """Give a model's parts their faster classes, or take them away again; returns the same model.

    Weights, their names and what is saved stay as they are; so do modules of other classes, a user's own
    among them.
    """
    for module in model.modules():
        module.__class__ = (FASTER if on else PLAIN).get(type(module), type(module))
    return model


@contextmanager
def own_classes(model: nn.Module) -> Iterator[None]:
    """Whatever happens within it, a model's parts have their classes back afterwards."""
    classes = [(module, type(module)) for module in model.modules()]
    try:
        yield
    finally:
        for module, own in classes:
            module.__class__ = own


def loss_and_surplus(
    scores: Float[Tensor, "rows vocab"], targets: Int[Tensor, "rows 1"], smoothing: float
) -> Float[Tensor, ""]:
    """The summed smoothed loss of float32 logits; these become its gradient, softmax - smoothed targets."""
    spread = smoothing / scores.shape[-1]
    scores -= scores.amax(dim=-1, keepdim=True)
    loss = -(1 - smoothing) * scores.gather(1, targets).sum() - spread * scores.sum()
    sums = scores.exp_().sum(dim=-1, keepdim=True)
    scores.div_(sums).sub_(spread)
    scores.scatter_add_(1, targets, scores.new_full(targets.shape, smoothing - 1))
    return loss + sums.log().sum()


class ChunkedLoss(torch.autograd.Function):
    """The sum of label-smoothed losses of `hidden @ weight.T + bias`, with the gradients made on the way forward."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, smoothing, rows, learning):
        matrix = weight.to(hidden.dtype)
        grads = [torch.empty_like(hidden), torch.zeros_like(weight), None if bias is None else torch.zeros_like(bias)]
        total, block = hidden.new_zeros((), dtype=torch.float32), 64 if hidden.device.type == "cpu" else rows
        for x, y, grad in zip(*(part.split(rows) for part in (hidden, targets, grads[0])), strict=True):
            logits = x @ matrix.T
            for part, tokens in zip(logits.split(block), y[:, None].split(block), strict=True):
                scores = part.float()
                if bias is not None:
                    scores += bias
                total += loss_and_surplus(scores, tokens, smoothing)
                part.copy_(scores)
                if bias is not None:
                    grads[2] += scores.sum(dim=0)
            if learning:
                torch.mm(logits, matrix, out=grad)
                grads[1] += logits.T @ x
        ctx.save_for_backward(*grads)
        return total

    @staticmethod
    def backward(ctx, grad_total):
        grads = [None if grad is None else grad * grad_total for grad in ctx.saved_tensors]
        return *grads, None, None, None, None


def chunked_loss(
    hidden: Float[Tensor, "batch target d_model"],
    weight: Float[Tensor, "vocab d_model"],
    bias: Float[Tensor, " vocab"] | None,
    targets: Int[Tensor, "batch target"],
    smoothing: float = 0.1,
    pad_id: int = 0,
    rows: int = 1024,
) -> Float[Tensor, ""]:
    """`label_smoothed_loss` of the logits `hidden @ weight.T + bias`, which never exist as a whole (section 5.4).

    At most `rows` positions at a time, on the CPU no more than make 32 MB; padding is left out before the product.
    """
    real, learning = targets != pad_id, torch.is_grad_enabled()
    if hidden.device.type == "cpu":
        rows = max(64, min(rows, 2**23 // len(weight)))
    return ChunkedLoss.apply(hidden[real], weight, bias, targets[real], smoothing, rows, learning)


def hidden_states(
    model: Transformer | RecurrentTranslator, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
) -> Float[Tensor, "batch target d_model"]:
    """What the output projection gets: the decoder's output for every target position."""
    source_mask = padding_mask(source, model.config.pad_id)
    return model.decode(target, model.encode(source, source_mask), source_mask)


def chunked_training_loss(
    model: Transformer | RecurrentTranslator,
    batch: Batch,
    smoothing: float,
    hidden_of: Callable[..., Tensor] = hidden_states,
) -> Tensor:
    """What `training_loss` of chapter 59 returns, by `chunked_loss`."""
    hidden = hidden_of(model, batch.source, batch.target_input)
    weight, bias, pad_id = model.output.weight, model.output.bias, model.config.pad_id
    return chunked_loss(hidden, weight, bias, batch.target_output, smoothing, pad_id)


def working_copy(model: AnyModule, optimizer: torch.optim.Optimizer, precision: torch.dtype) -> AnyModule:
    """What computes the steps of `model`: itself in float32, else a copy with both stacks in `precision`.

    Embeddings, positions and output are shared. The gradient of a copied weight goes to the model's as it is made, and
    after each step of `optimizer` the copy takes the new weights over.
    """
    if precision == torch.float32:
        return model
    shared = [module for name, module in model.named_children() if name not in ("encoder", "decoder")]
    worker = copy.deepcopy(model, {id(module): module for module in shared})
    for stack in (worker.encoder, worker.decoder):
        stack.to(precision).register_forward_pre_hook(lambda _, args: (args[0].to(precision), *args[1:]))
    both = zip(model.parameters(), worker.parameters(), strict=True)
    copies = [(weight, working) for weight, working in both if working is not weight]
    for weight, working in copies:
        working.register_post_accumulate_grad_hook(partial(_hand_over, weight))
    optimizer.register_step_post_hook(partial(_take_over, copies))
    return worker


def _hand_over(weight: Tensor, working: Tensor) -> None:
    grad = working.grad.to(weight.dtype)
    weight.grad = grad if weight.grad is None else weight.grad + grad
    working.grad = None


@torch.no_grad()
def _take_over(copies: list[tuple[Tensor, Tensor]], *_: object) -> None:
    for weight, working in copies:
        working.copy_(weight)


def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function as one program for all shapes, compiled when it is first called."""
    return torch.compile(function, dynamic=True)


def check_compiler(device: torch.device) -> None:
    """Raises InputError when something is missing of what `compiled` needs on this device."""
    needed = {"Python's headers (Python.h)": (Path(sysconfig.get_path("include")) / "Python.h").exists()}
    if device.type == "cuda":
        needed["Triton"] = importlib.util.find_spec("triton") is not None
        needed["a C compiler (gcc, clang, or CC)"] = any(
            shutil.which(name) for name in (os.environ.get("CC", "gcc"), "gcc", "clang")
        )
    else:
        usual = "clang++" if sys.platform == "darwin" else "g++"
        needed[f"a C++ compiler ({usual}, or CXX)"] = shutil.which(os.environ.get("CXX", usual)) is not None
    if missing := [name for name, there in needed.items() if not there]:
        raise InputError(f"compile needs {missing[0]}, which is not there: install it, or train without --compile")


def top_tokens(scores: Float[Tensor, "*batch vocab"], k: int) -> tuple[Tensor, Tensor]:
    """`scores.topk(k)` for many rows: the best k of many columns first, then the best k in those.

    A token is among the best k only if its column's maximum is among the best k maxima (section 6.1).
    """
    column, vocab = 80, scores.shape[-1]
    if vocab % column or k > vocab // column or scores.shape[:-1].numel() < 256:
        return scores.topk(k, dim=-1)
    grid = scores.unflatten(-1, (column, -1))  # column j holds j, j + width, j + 2 width, ...
    columns = grid.amax(dim=-2).topk(k, dim=-1).indices
    inside = grid.gather(-1, columns[..., None, :].expand(*grid.shape[:-1], k)).flatten(-2)
    best, place = inside.topk(k, dim=-1)
    return best, place // k * grid.shape[-1] + columns.gather(-1, place % k)


@dataclass
class FastDecodingState(DecodingState):
    """The state of a search on the CPU: masks are numbers that are added to the scores, 0 or -inf (section 3.2.1).

    Inside a step the hypotheses of all sentences are the rows of one batch.
    """

    source_mask: Float[Tensor, "batch 1 1 source"]
    visible: Float[Tensor, "batch width slots"]

    def next_logits(self, model: Transformer, tokens: Int[Tensor, "batch width"]) -> Float[Tensor, "batch width vocab"]:
        """What `decoding_step` returns, in fewer operations."""
        (batch, width), decoder = tokens.shape, model.decoder
        first, end = self.step * width, (self.step + 1) * width
        self.visible[:, :, first:end] = self.visible.new_full((width, width), -math.inf).fill_diagonal_(0)
        heads = decoder.layers[0].self_attention.num_heads
        masks = [
            mask.expand(-1, heads, -1, -1).flatten(0, 1) for mask in (self.visible[:, None, :, :end], self.source_mask)
        ]
        x = model.embed(model.target_embedding, model.target_positions, tokens.reshape(-1, 1), self.step)
        x = x.transpose(0, 1)
        for layer, memory, cache in zip(decoder.layers, self.memory, self.caches, strict=True):
            x = fast_layer_step(layer, x, memory, cache, *masks)
        self.step += 1
        return model.output(x if decoder.final_norm is None else decoder.final_norm(x)).view(batch, width, -1)


def fast_layer_step(
    layer: DecoderLayer, x: Tensor, memory: KeyValues, cache: KeyValueCache, self_mask: Tensor, source_mask: Tensor
) -> Float[Tensor, "1 rows d_model"]:
    """`layer_step` of chapter 60 for the rows of one batch, and masks that are added (section 3.1)."""

    def self_attention(y: Tensor) -> Tensor:
        attention = layer.self_attention
        new = (heads_of(part, len(memory.keys), attention.num_heads) for part in (attention.key(y), attention.value(y)))
        return attend_to_all(attention, y, cache.append(KeyValues(*new)), self_mask)

    x = layer.around_self_attention(x, self_attention)
    x = layer.around_cross_attention(x, lambda y: attend_to_all(layer.cross_attention, y, memory, source_mask))
    return layer.around_feed_forward(x, layer.feed_forward)


def heads_of(x: Float[Tensor, "1 rows width"], batch: int, heads: int) -> Float[Tensor, "batch head row d_head"]:
    """The rows of each sentence, split into heads."""
    return x.view(batch, -1, heads, x.shape[2] // heads).transpose(1, 2)


def attend_to_all(
    attention: MultiHeadAttention, x: Float[Tensor, "1 rows d_model"], known: KeyValues, mask: Float[Tensor, "n _ key"]
) -> Float[Tensor, "1 rows d_model"]:
    """Equation (1) in three operations; `mask` leaves each row at least one key."""
    query = heads_of(attention.query(x), len(known.keys), attention.num_heads)
    keys, values = (part.flatten(0, 1) for part in known)
    scores = torch.baddbmm(mask, query.flatten(0, 1), keys.transpose(1, 2), alpha=attention.d_k**-0.5)
    heads = torch.bmm(scores.softmax(dim=-1), values).view(*query.shape[:3], -1)
    return attention.output(heads.transpose(1, 2).reshape(1, x.shape[1], -1))


def start_fast_decoding(
    model: Transformer, source: Int[Tensor, "batch source"], width: int, capacity: int
) -> DecodingState:
    """`start_decoding` for the fast step, where that computes the same; else the plain state.

    It does on the CPU, without dropout, for sources that are not all padding, and for attentions of the classes of this
    package with equally many heads.
    """
    state = start_decoding(model, source, width, capacity)
    attentions = [part for layer in model.decoder.layers for part in (layer.self_attention, layer.cross_attention)]
    known = all(
        type(part) in (MultiHeadAttention, FusedAttention) and "attend" not in vars(part) for part in attentions
    )
    alike = len({part.num_heads for part in attentions}) == 1
    if source.device.type != "cpu" or model.training or not (known and alike and state.source_mask.any(-1).all()):
        return state
    memory = [KeyValues(keys.contiguous(), values.contiguous()) for keys, values in state.memory]
    mask = torch.where(state.source_mask, 0.0, -math.inf).to(memory[0].keys.dtype)
    visible = mask.new_full(state.visible.shape, -math.inf)
    return FastDecodingState(memory, mask, state.caches, visible)


def faster_products(wanted: bool | None = None) -> bool:
    """Let oneDNN multiply float32 matrices instead of MKL. Returns whether it does, for the whole process.

    None: on AMD's processors, where MKL leaves arithmetic units idle. Nowhere if the result were less exact.
    """
    switch = getattr(torch.backends.mkldnn, "matmul", None)
    if not hasattr(switch, "fp32_precision"):
        return False
    switch.fp32_precision = "ieee"
    if not (processor().get("vendor_id") == "AuthenticAMD" if wanted is None else wanted):
        return False
    a = torch.sin(torch.arange(512.0 * 768)).view(512, 768)
    b = torch.cos(torch.arange(768.0 * 512)).view(768, 512)
    exact = a.double() @ b.double()
    error = ((a @ b) - exact).abs().max()
    switch.fp32_precision = "bf16"  # the switch is named after what it does where there are such instructions
    if ((a @ b) - exact).abs().max() > 4 * error:
        switch.fp32_precision = "ieee"
    return switch.fp32_precision == "bf16"


@contextmanager
def products_of_few_rows(rows: int, most: int = 8) -> Iterator[None]:
    """Let MKL multiply while the block runs, where oneDNN does and a product has `most` rows at most."""
    switch = getattr(torch.backends.mkldnn, "matmul", None)
    if rows > most or getattr(switch, "fp32_precision", None) != "bf16":
        yield
        return
    switch.fp32_precision = "ieee"
    try:
        yield
    finally:
        switch.fp32_precision = "bf16"


def keep_kernels(wanted: bool = True, count: int = 20_000) -> bool:
    """Make room for `count` compiled kernels of oneDNN; of no effect once oneDNN was used. Returns whether it is so.

    A number that the user gave in the environment stays.
    """
    if not wanted:
        return False
    return os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(count)) == str(count)


def tensor_float32(wanted: bool | None = None) -> bool:
    """Let NVIDIA's GPUs round the factors of float32 products to ten bits (TF32). Returns whether they do.

    None: where there is such a GPU. Embeddings, sums and weights stay in float32.
    """
    able = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 8
    on = able and wanted is not False
    products = torch.backends.cuda.matmul
    if hasattr(products, "fp32_precision"):
        products.fp32_precision = "tf32" if on else "ieee"
    else:
        products.allow_tf32 = on
    return on


PROCESS_SETTINGS = {
    "keep_kernels": keep_kernels,  # before the others, which use oneDNN
    "faster_products": faster_products,
    "tensor_float32": tensor_float32,
}


def tune_machine(settings: Mapping[str, bool] | None = None) -> dict[str, bool]:
    """Switch on the settings of the process that suit its processor, or those given. Returns which are on.

    They hold for the whole process, and follow from what the machine has, never from a measurement.
    """
    chosen = settings or {}
    return {name: switch(chosen[name]) if name in chosen else switch() for name, switch in PROCESS_SETTINGS.items()}
