# Written by `make export` from book/80_attention_visualizations.ipynb: edit the chapter, not this.
"""A trained model changed from outside: heads silenced, weights and values edited."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from annotated.attention import MultiHeadAttention, scaled_dot_product_attention
from annotated.batching import Batch
from annotated.model import Transformer

__all__ = ["Edit", "HeadMeans", "Place", "attentions", "edited", "head_means", "moved", "silenced"]


# book/80_attention_visualizations.ipynb#attentions
def attentions(model: Transformer) -> dict[str, list[nn.Module]]:
    """The attention modules by kind (encoder, decoder, cross), first layer to last.

    Defined in chapter 80: `attentions`.
    """
    return {
        "encoder": [layer.self_attention for layer in model.encoder.layers],
        "decoder": [layer.self_attention for layer in model.decoder.layers],
        "cross": [layer.cross_attention for layer in model.decoder.layers],
    }


def _attention(model: Transformer, kind: str, layer: int) -> MultiHeadAttention:
    module = attentions(model)[kind][layer]
    if getattr(type(module), "forward", None) is not MultiHeadAttention.forward:
        said = f"a {type(module).__name__} has no heads that could be edited"
        raise ValueError(f"{kind}, layer {layer}: {said}")
    return module


# book/80_attention_visualizations.ipynb#attend
Edit = Callable[[Tensor], Tensor]
Place = tuple[str, int]  # encoder, decoder or cross, and a layer, from 0


def _attend(
    module: MultiHeadAttention,
    edits: Sequence[Edit],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
) -> Tensor:
    of_weights, of_values, of_outputs = edits
    _, weights = scaled_dot_product_attention(query, key, value, mask)
    heads = of_outputs(of_weights(weights) @ of_values(value))
    return module.output(heads.transpose(1, 2).flatten(2))  # (batch, query, d_model)


# book/80_attention_visualizations.ipynb#edited
@contextmanager
def edited(
    model: Transformer,
    *,
    weights: Mapping[Place, Edit] | None = None,
    values: Mapping[Place, Edit] | None = None,
    outputs: Mapping[Place, Edit] | None = None,
    vectors: Mapping[str, Edit] | None = None,
) -> Iterator[None]:
    """Within it, attentions use what functions make of weights, values and outputs.

    All heads at once: weights are (batch, head, query, key), values (batch, head, key,
    d_v), outputs (batch, head, query, d_v), before $W^O$. `vectors` are what any other
    module puts out, (batch, length, d_model), by its name in the model, such as
    `encoder.layers.0.feed_forward`. All hold for the searches, too. Raises ValueError
    for an attention that is being edited already, or that the edits would not reach.

    Defined in chapter 80: `edited`.
    """
    given = [weights or {}, values or {}, outputs or {}]
    with ExitStack() as undo:
        for kind, layer in dict.fromkeys(place for edits in given for place in edits):
            module = _attention(model, kind, layer)
            if "attend" in vars(module):
                said = "is being edited already; give all edits at once"
                raise ValueError(f"{kind}, layer {layer}: {said}")
            edits = [edit.get((kind, layer), lambda same: same) for edit in given]
            module.attend = partial(_attend, module, edits)
            undo.callback(delattr, module, "attend")
        for name, edit in (vectors or {}).items():
            undo.enter_context(_edited_output(model, name, edit))
        yield


def _edited_output(model: Transformer, name: str, edit: Edit) -> RemovableHandle:
    module = model.get_submodule(name)
    if isinstance(module, MultiHeadAttention):  # the searches do not call it as a whole
        raise ValueError(f"{name}: is an attention; name {name}.output")
    return module.register_forward_hook(lambda *called: edit(called[-1]))


# book/80_attention_visualizations.ipynb#silenced
HeadMeans = dict[str, Float[Tensor, "layer head d_v"]]


@contextmanager
def silenced(
    model: Transformer,
    heads: Sequence[tuple[str, int, int]],
    by: HeadMeans | None = None,
) -> Iterator[None]:
    """Within it, these heads contribute nothing, or always their mean.

    Each is a kind, a layer and a head, from 0. `by` are the means, from `head_means`.
    Raises ValueError for a head that is not there.

    Defined in chapter 80: `silenced`.
    """
    for kind, layer, head in heads:
        count = _attention(model, kind, layer).num_heads
        if not 0 <= head < count:
            said = f"layer {layer} has the heads 0 to {count - 1}"
            raise ValueError(f"head {head}: {said}")

    def still(place: Place, outputs: Tensor) -> Tensor:
        outputs = outputs.clone()  # (batch, head, query, d_v)
        for kind, layer, head in heads:
            if (kind, layer) == place:
                mean = 0.0 if by is None else by[kind][layer, head].to(outputs)
                outputs[:, head] = mean
        return outputs

    places = [(kind, layer) for kind, layer, _ in heads]
    with edited(model, outputs={place: partial(still, place) for place in places}):
        yield


# book/80_attention_visualizations.ipynb#head-means
@torch.no_grad()
def head_means(model: Transformer, batches: Sequence[Batch]) -> HeadMeans:
    """What each head puts out on average, over all positions that are no padding.

    Defined in chapter 80: `head-means`.
    """
    modules, kept = attentions(model), defaultdict(list)
    places = [(kind, layer) for kind in modules for layer in range(len(modules[kind]))]

    def keep(place: Place, real: Tensor, outputs: Tensor) -> Tensor:
        kept[place].append(outputs.transpose(1, 2)[real])  # (position, head, d_v)
        return outputs

    for batch in batches:
        source = batch.source != model.config.pad_id
        target = batch.target_input != model.config.pad_id
        real = {"encoder": source, "decoder": target, "cross": target}
        edits = {place: partial(keep, place, real[place[0]]) for place in places}
        with edited(model, outputs=edits):
            model(batch.source, batch.target_input)
    means = {place: torch.cat(kept[place]).mean(dim=0) for place in places}
    return {kind: torch.stack([means[kind, layer] for layer in range(len(modules[kind]))]) for kind in modules}


# book/80_attention_visualizations.ipynb#moved
@contextmanager
def moved(model: Transformer, offset: int) -> Iterator[None]:
    """Within it, positions are counted from `offset`, in source and target.

    Defined in chapter 80: `moved`.
    """

    def later(_: nn.Module, args: tuple) -> tuple:
        x, start = (*args, 0)[:2]
        return x, start + offset

    with ExitStack() as hooks:
        for module in {model.source_positions, model.target_positions}:
            hooks.enter_context(module.register_forward_pre_hook(later))
        yield
