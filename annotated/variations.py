# Written by `make export` from book/62_model_variations.ipynb: do not edit here, edit the chapter.
"""Model variations: chapter 62 of the book, section 6.2 of the paper."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annotated.attention import MultiHeadAttention
from annotated.evaluation import evaluate_translations
from annotated.grammar import SentencePair
from annotated.machine import best_device
from annotated.model import Transformer, TransformerConfig
from annotated.positional_encoding import SinusoidalPositions, sinusoidal_encoding
from annotated.tokenization import Tokenizer
from annotated.training import TrainingConfig, TrainingState, batch_all, tokenize_pairs, train
from annotated.translation import Translator

__all__ = [
    "CHANGES",
    "DEPTH",
    "NoPositions",
    "PAIRS",
    "RandomStart",
    "RotaryAttention",
    "TRAINING",
    "Variation",
    "WIDTH",
    "further_rows",
    "random_start",
    "rotary",
    "run_variation",
    "scale_row",
    "train_variation",
    "turned",
    "verdict",
    "without_positions",
]


# book/62_model_variations.ipynb#variation
@dataclass(frozen=True)
class Variation:
    """A row of Table 3 at this book's size: a model, and the options of its training (section 6.2).

    `id` is the row's in `data/paper.yml`, or our own.

    Defined in chapter 62: `variation`.
    """

    id: str
    group: str
    model: TransformerConfig
    training: TrainingConfig


# book/62_model_variations.ipynb#training-options
PAIRS = 3000  # of the training split, so that 800 steps go through them about as often as the paper's did
TRAINING = TrainingConfig(
    max_tokens=1000, max_steps=800, warmup_steps=200, rate_factor=0.35, validate_every=100, precision="float32"
)  # fmt: skip
WIDTH, DEPTH = 8, 2  # the paper's widths are divided by 8, its layers by 2; heads, dropout and smoothing stay


def scale_row(row: Mapping, base: Mapping, vocab_size: int, training: TrainingConfig = TRAINING) -> Variation:
    """A row of Table 3, as in `data/paper.yml`, at this book's size. An empty cell has the value of `base`.

    Defined in chapter 62: `training-options`.
    """
    full = {name: base[name] if row[name] is None else row[name] for name in base}
    widths = {name: full[name] // WIDTH for name in ("d_model", "d_ff", "d_k", "d_v")}
    sizes = {"num_layers": full["N"] // DEPTH, "num_heads": full["h"], **widths}
    options = {"dropout": full["dropout"], "positions": full["positions"], "max_length": 256}
    model = TransformerConfig(vocab_size, **sizes, **options)
    return Variation(row["id"], row["group"], model, replace(training, label_smoothing=full["label_smoothing"]))


# book/62_model_variations.ipynb#further-rows
def further_rows(base: Variation) -> list[Variation]:
    """Rows that Table 3 does not have: the norm's place, at two depths, and the warm-up (sections 3.1 and 5.3).

    Defined in chapter 62: `further-rows`.
    """
    pre_norm = replace(base.model, norm_first=True)
    deeper = replace(pre_norm, num_layers=base.model.num_layers + 1)
    cold, slow = (replace(base.training, warmup_steps=steps) for steps in (1, 2 * base.training.warmup_steps))
    return [
        replace(base, id="pre-norm", group="norm", model=pre_norm),
        replace(base, id="pre-norm-deeper", group="norm", model=deeper),
        replace(base, id="no-warm-up", group="warm-up", training=cold),
        replace(base, id="pre-norm-no-warm-up", group="warm-up", model=pre_norm, training=cold),
        replace(base, id="long-warm-up", group="warm-up", training=slow),
    ]


# book/62_model_variations.ipynb#changes
class NoPositions(nn.Module):
    """In the place of positions: leaves embeddings as they are, so that the order of tokens is lost (section 3.5).

    Defined in chapter 62: `changes`.
    """

    def forward(
        self, x: Float[Tensor, "batch length d_model"], start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        return x


def without_positions(model: Transformer) -> None:
    """Take the positions out of a model.

    Defined in chapter 62: `changes`.
    """
    model.source_positions = model.target_positions = NoPositions()


class RandomStart(SinusoidalPositions):
    """Sinusoids that begin at a random position below `most` in training, and at 0 otherwise (section 3.5).

    Defined in chapter 62: `changes`.
    """

    most = 32

    def forward(
        self, x: Float[Tensor, "batch length d_model"], start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        return super().forward(x, start + (int(torch.randint(self.most, ())) if self.training else 0))


def random_start(model: Transformer) -> None:
    """Let each batch begin at another position, so that training sees the sinusoids of later ones.

    Defined in chapter 62: `changes`.
    """
    model.source_positions, model.target_positions = (RandomStart(model.config.d_model) for _ in range(2))


# book/62_model_variations.ipynb#rotary
def turned(x: Float[Tensor, "batch head length d_k"]) -> Float[Tensor, "batch head length d_k"]:
    """Each pair of numbers of the vector at position p, turned by the angle that the sinusoids have there.

    Defined in chapter 62: `rotary`.
    """
    waves = sinusoidal_encoding(x.shape[-2], x.shape[-1]).to(x)
    (sine, cosine), (a, b) = ((pairs[..., 0::2], pairs[..., 1::2]) for pairs in (waves, x))
    return torch.stack([a * cosine - b * sine, a * sine + b * cosine], dim=-1).flatten(-2)


class RotaryAttention(MultiHeadAttention):
    """Self-attention with turned queries and keys: a score depends on their distance alone (Su et al. 2021).

    It counts positions from the first of `x`, so it needs whole sequences: decode without a cache.

    Defined in chapter 62: `rotary`.
    """

    def project(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = super().project(x, memory)
        return turned(query), turned(key), value


def rotary(model: Transformer) -> None:
    """Positions in every self-attention instead of below the stacks, as many later models have them.

    Defined in chapter 62: `rotary`.
    """
    without_positions(model)
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.self_attention.__class__ = RotaryAttention


CHANGES = {  # what no option of a model's configuration can say
    "no positions": without_positions,
    "random start": random_start,
    "rotary": rotary,
}


# book/62_model_variations.ipynb#train-variation
def train_variation(
    variation: Variation,
    seed: int,
    tokenizer: Tokenizer,
    pairs: Sequence[SentencePair],
    valid: Sequence[SentencePair],
    device: str = "auto",
) -> TrainingState:
    """Train a row. The seed changes the first weights, the order of the batches and dropout.

    Defined in chapter 62: `train-variation`.
    """
    torch.manual_seed(seed)
    model = Transformer(variation.model).to(best_device(device))
    examples, batches = (tokenize_pairs(tokenizer, some, variation.model.max_length) for some in (pairs, valid))
    return train(model, examples, batch_all(batches, 4000), replace(variation.training, seed=seed))


# book/62_model_variations.ipynb#run-variation
def run_variation(
    variation: Variation,
    seed: int,
    tokenizer: Tokenizer,
    pairs: Sequence[SentencePair],
    valid: Sequence[SentencePair],
    device: str = "auto",
) -> dict:
    """Train a row and score its last weights: perplexity a subword, and BLEU with the paper's beam search.

    Defined in chapter 62: `run-variation`.
    """
    start = time.process_time()
    state = train_variation(variation, seed, tokenizer, pairs, valid, device)
    seconds = time.process_time() - start  # of the processor, whatever else it has to do
    translations = Translator(state.model.eval(), tokenizer).translate([pair.source for pair in valid], beam_size=4)
    scores = evaluate_translations(translations, [pair.target for pair in valid])
    curves = {
        name: [(line["step"], round(line[name], 5)) for line in state.history if name in line]
        for name in ("loss", "valid_loss")
    }
    result = {"id": variation.id, "seed": seed, "parameters": state.model.num_parameters()}
    result |= {"seconds": round(seconds, 1), "steps": state.step, "epochs": state.epoch, "target_tokens": state.tokens}
    result |= {"perplexity": math.exp(curves["valid_loss"][-1][1]), "bleu": scores.bleu}
    return result | {"exact_match": scores.exact_match, "signature": scores.bleu_signature, "curves": curves}


# book/62_model_variations.ipynb#verdict
def verdict(low: float, high: float, in_the_paper: float, least: float = 0.0) -> str:
    """What an interval of a difference from base says about the paper's, which is none if not above `least` (6.2).

    Defined in chapter 62: `verdict`.
    """
    if abs(in_the_paper) <= least:  # what has to hold is that there is none
        if -least <= low and high <= least:
            return "holds"
        return "contradicted here" if low > least or high < -least else "undecided"
    if low <= 0 <= high:
        return "undecided"
    return "holds" if (low > 0) == (in_the_paper > 0) else "contradicted here"
