"""Operations counted (chapter 52)."""

from dataclasses import replace

import pytest
from torch.utils.flop_counter import FlopCounterMode

from annotated.batching import make_batch
from annotated.cost import forward_flops, training_flops
from annotated.machine.acceleration import chunked_training_loss
from annotated.model import Transformer, TransformerConfig
from annotated.training import training_loss

SMALL = TransformerConfig(300, d_model=32, d_ff=48, num_heads=4, num_layers=3, dropout=0.0)
VARIANTS = {
    "base": {},
    "head sizes": {"d_k": 5, "d_v": 11},
    "layers": {"num_layers": 1, "num_decoder_layers": 4},
    "biases": {"attention_bias": True, "output_bias": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_a_training_step_counts_as_pytorch_counts(changes: dict):
    """Every product, forward and backward, of the model and of its loss; no sentence is padded here."""
    model = Transformer(replace(SMALL, **changes))
    batch = make_batch([([5, 6, 7, 8, 3], [9, 10, 3]), ([8, 7, 6, 5, 3], [4, 5, 3])])
    for loss_of in (training_loss, chunked_training_loss):
        with FlopCounterMode(display=False) as counter:
            loss_of(model, batch, 0.1).backward()
        assert training_flops(model.config, 2, 5, 3) == counter.get_total_flops()


def test_the_parts_are_what_their_names_say():
    one, long, deep = (
        forward_flops(config, 1, n, n) for config, n in ((SMALL, 10), (SMALL, 20), (replace(SMALL, num_layers=6), 10))
    )
    assert long["scores and sums"] == 4 * one["scores and sums"]
    assert [long[part] / one[part] for part in ("projections", "feed-forward", "output")] == [2, 2, 2]
    assert deep["output"] == one["output"]
    assert deep["projections"] == 2 * one["projections"]
    assert one["output"] == 2 * 32 * 300 * 10
    assert forward_flops(SMALL, 7, 10, 10) == {part: 7 * flops for part, flops in one.items()}
