# Written by `make export` from book/39_transformer.ipynb: edit the chapter, not this.
"""The Transformer (section 3 of the paper)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from annotated.attention import MultiHeadAttention
from annotated.embeddings import OutputProjection, TokenEmbedding
from annotated.feed_forward import ACTIVATIONS, FeedForward
from annotated.masks import causal_mask, padding_mask
from annotated.positional_encoding import LearnedPositions, SinusoidalPositions
from annotated.stacks import AddNorm, Decoder, DecoderLayer, Encoder, EncoderLayer

__all__ = [
    "CHOICES",
    "MakeAttention",
    "OPTIONAL_SIZES",
    "POSITIONS",
    "REQUIRED_SIZES",
    "Transformer",
    "TransformerConfig",
    "build_decoder",
    "build_encoder",
]


# book/39_transformer.ipynb#configuration
@dataclass(frozen=True)
class TransformerConfig:
    """Sizes and choices of a model; the defaults are the paper's base model (Table 3).

    Raises ValueError, naming the field, when a value cannot be used.

    Defined in chapter 39: `configuration`.
    """

    vocab_size: int
    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    num_layers: int = 6
    d_k: int | None = None  # None: d_model / num_heads
    d_v: int | None = None
    dropout: float = 0.1  # on sub-layer outputs and on embedding + position sums
    # What the paper leaves open, or others do differently:
    attention_bias: bool = False
    attention_dropout: float = 0.0
    activation: str = "relu"  # or another of ACTIVATIONS
    activation_dropout: float = 0.0
    positions: str = "sinusoidal"  # or another of POSITIONS
    max_length: int = 1024  # longest input or output, in tokens
    norm_first: bool = False
    norm_eps: float = 1e-6
    tie_embeddings: bool = True  # source and target embedding are one matrix
    tie_output: bool = True  # target embedding and output projection are one matrix
    source_vocab_size: int | None = None  # None: vocab_size; else tie_embeddings=False
    scale_embeddings: bool = True
    output_bias: bool = False
    num_decoder_layers: int | None = None  # None: num_layers
    pad_id: int = 0
    start_id: int = 2  # the decoder's first input: bos
    end_id: int = 3

    def __post_init__(self):
        _check(self)

    @classmethod
    def base(cls, vocab_size: int, **changes) -> "TransformerConfig":
        """The paper's base model; `changes` replace single fields."""
        return cls(vocab_size, **changes)

    @classmethod
    def big(cls, vocab_size: int, **changes) -> "TransformerConfig":
        """The paper's big model (last row of Table 3)."""
        return cls(vocab_size, **{"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3, **changes})


# book/39_transformer.ipynb#options
REQUIRED_SIZES = ("vocab_size", "d_model", "d_ff", "num_heads", "num_layers", "max_length")
OPTIONAL_SIZES = ("d_k", "d_v", "source_vocab_size", "num_decoder_layers")
POSITIONS: dict[str, Callable[["TransformerConfig"], nn.Module]] = {
    "sinusoidal": lambda config: SinusoidalPositions(config.d_model),
    "concatenated": lambda config: SinusoidalPositions(config.d_model, interleaved=False),  # sines, then cosines
    "learned": lambda config: LearnedPositions(config.d_model, config.max_length),
}
CHOICES = {"activation": tuple(ACTIVATIONS), "positions": tuple(POSITIONS)}


# book/39_transformer.ipynb#configuration-checks
def _check(config: "TransformerConfig") -> None:
    for name in REQUIRED_SIZES + OPTIONAL_SIZES:
        size = getattr(config, name)
        if size is None and name in OPTIONAL_SIZES:
            continue
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, not {size!r}")
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        if not 0 <= getattr(config, name) < 1:
            raise ValueError(f"{name} must be at least 0 and below 1, not {getattr(config, name)}")
    for name, known in CHOICES.items():
        if getattr(config, name) not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, not {getattr(config, name)!r}")
    for name in ("pad_id", "start_id", "end_id"):
        if not 0 <= getattr(config, name) < config.vocab_size:
            raise ValueError(f"{name} {getattr(config, name)} is no token of a vocabulary of {config.vocab_size}")
    if not 0 < config.norm_eps < math.inf:
        raise ValueError(f"norm_eps must be above 0, not {config.norm_eps}")
    if None in (config.d_k, config.d_v) and config.d_model % config.num_heads:
        raise ValueError(f"d_model {config.d_model} is no multiple of num_heads {config.num_heads}: give d_k and d_v")
    if config.positions != "learned" and config.d_model % 2:
        raise ValueError(f"d_model must be even for sinusoidal positions, not {config.d_model}")
    if config.tie_embeddings and config.source_vocab_size not in (None, config.vocab_size):
        raise ValueError("source_vocab_size differs from vocab_size: set tie_embeddings to False")


# book/39_transformer.ipynb#layers
MakeAttention = Callable[[TransformerConfig], nn.Module]


def _attention(config: TransformerConfig) -> MultiHeadAttention:
    sizes = (config.d_model, config.num_heads, config.d_k, config.d_v)
    return MultiHeadAttention(*sizes, bias=config.attention_bias, dropout=config.attention_dropout)


def _feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(config.d_model, config.d_ff, config.activation, config.activation_dropout)


def build_encoder(config: TransformerConfig, attention: MakeAttention = _attention) -> Encoder:
    """N encoder layers (section 3.1), and a final normalisation if `norm_first`.

    Defined in chapter 39: `layers`.
    """
    add_norm = partial(AddNorm, config.d_model, config.dropout, config.norm_first, config.norm_eps)
    layers = [EncoderLayer(attention(config), _feed_forward(config), add_norm) for _ in range(config.num_layers)]
    return Encoder(layers, nn.LayerNorm(config.d_model, config.norm_eps) if config.norm_first else None)


# book/39_transformer.ipynb#decoder-layers
def build_decoder(config: TransformerConfig, attention: MakeAttention = _attention) -> Decoder:
    """N decoder layers (section 3.1), and a final normalisation if `norm_first`.

    Defined in chapter 39: `decoder-layers`.
    """
    add_norm = partial(AddNorm, config.d_model, config.dropout, config.norm_first, config.norm_eps)
    layers = [
        DecoderLayer(attention(config), attention(config), _feed_forward(config), add_norm)
        for _ in range(config.num_decoder_layers or config.num_layers)
    ]
    return Decoder(layers, nn.LayerNorm(config.d_model, config.norm_eps) if config.norm_first else None)


# book/39_transformer.ipynb#ends
def _initialise(model: nn.Module) -> None:
    """Glorot-uniform matrices and zero biases; embeddings keep N(0, 1 / d_model)."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


# book/39_transformer.ipynb#transformer
class Transformer(nn.Module):
    """The encoder-decoder of the paper (section 3, Figure 1).

    `forward(source, target)` gives the logits of the token after each target position.
    Token ids are integers; `config.pad_id` marks padding, which changes nothing.
    `attention` makes each attention from the configuration; it is called as
    `attention(x, memory, mask)`.

    Defined in chapter 39: `transformer`.
    """

    def __init__(self, config: TransformerConfig, attention: MakeAttention = _attention):
        super().__init__()
        if not isinstance(config, TransformerConfig):
            raise TypeError(f"Transformer takes a TransformerConfig, not {config!r}")
        self.config = config
        self.target_embedding = TokenEmbedding(config.vocab_size, config.d_model, config.scale_embeddings)
        shared = self.target_embedding.weight if config.tie_embeddings else None
        source_size = config.source_vocab_size or config.vocab_size
        self.source_embedding = TokenEmbedding(source_size, config.d_model, config.scale_embeddings, shared)
        self.source_positions, self.target_positions = (POSITIONS[config.positions](config) for _ in range(2))
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = build_encoder(config, attention)
        self.decoder = build_decoder(config, attention)
        _initialise(self)
        tied = self.target_embedding if config.tie_output else TokenEmbedding(config.vocab_size, config.d_model)
        self.output = OutputProjection(tied.weight, config.output_bias)

    def forward(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target vocab"]:
        """Logits for every target position at once: teacher forcing.

        `target` begins with the start token.
        """
        source_mask = padding_mask(source, self.config.pad_id)
        return self.output(self.decode(target, self.encode(source, source_mask), source_mask))

    def embed(
        self, embedding: TokenEmbedding, positions: nn.Module, tokens: Int[Tensor, "batch length"], start: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        """Dropout(sqrt(d_model) E[token] + PE[position]) (sections 3.4, 3.5, 5.4)."""
        return self.dropout(positions(embedding(tokens), start))

    def encode(
        self, source: Int[Tensor, "batch source"], source_mask: Bool[Tensor, "batch 1 1 source"] | None = None
    ) -> Float[Tensor, "batch source d_model"]:
        """The encoder's output z, one vector for each source token."""
        if source_mask is None:
            source_mask = padding_mask(source, self.config.pad_id)
        return self.encoder(self.embed(self.source_embedding, self.source_positions, source), source_mask)

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_model"],
        source_mask: Bool[Tensor, "batch 1 1 source"],
    ) -> Float[Tensor, "batch target d_model"]:
        """The decoder's output for a whole target prefix; i sees tokens up to i."""
        self_mask = causal_mask(target.shape[1], target.device) & padding_mask(target, self.config.pad_id)
        self_mask[..., 0] = True  # the start symbol, even where that is the pad token
        x = self.embed(self.target_embedding, self.target_positions, target)
        return self.decoder(x, memory, self_mask, source_mask)

    def num_parameters(self) -> int:
        """How many numbers are learned; a shared matrix counts once."""
        return sum(parameter.numel() for parameter in self.parameters())
