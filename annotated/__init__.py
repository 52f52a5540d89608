# Written by `make export` from book/91_command_line.ipynb: do not edit here, edit the chapter.
"""The Transformer of "Attention Is All You Need", written chapter by chapter in the book."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.nn import LayerNorm as LayerNorm

    from annotated import acceleration as acceleration
    from annotated import attention as attention
    from annotated import batching as batching
    from annotated import checkpoint as checkpoint
    from annotated import checks as checks
    from annotated import cli as cli
    from annotated import commands as commands
    from annotated import complexity as complexity
    from annotated import corpora as corpora
    from annotated import cost as cost
    from annotated import decoding as decoding
    from annotated import derivation as derivation
    from annotated import distributed as distributed
    from annotated import embeddings as embeddings
    from annotated import engine as engine
    from annotated import evaluation as evaluation
    from annotated import feed_forward as feed_forward
    from annotated import files as files
    from annotated import forecast as forecast
    from annotated import grammar as grammar
    from annotated import interventions as interventions
    from annotated import learn as learn
    from annotated import machine as machine
    from annotated import marian as marian
    from annotated import masks as masks
    from annotated import mistakes as mistakes
    from annotated import model as model
    from annotated import options as options
    from annotated import parsing as parsing
    from annotated import plain as plain
    from annotated import positional_encoding as positional_encoding
    from annotated import preparation as preparation
    from annotated import recipes as recipes
    from annotated import recurrent as recurrent
    from annotated import regularization as regularization
    from annotated import schedule as schedule
    from annotated import stacks as stacks
    from annotated import stations as stations
    from annotated import store as store
    from annotated import subwords as subwords
    from annotated import tables as tables
    from annotated import terminal as terminal
    from annotated import tokenization as tokenization
    from annotated import training as training
    from annotated import translation as translation
    from annotated import variations as variations
    from annotated import visualization as visualization
    from annotated import watching as watching
    from annotated.acceleration import accelerate
    from annotated.acceleration import tune_machine as tune_machine
    from annotated.attention import MultiHeadAttention, scaled_dot_product_attention
    from annotated.batching import Batch as Batch
    from annotated.batching import make_batch as make_batch
    from annotated.batching import token_batches as token_batches
    from annotated.checkpoint import average_weights, load_model, save_model
    from annotated.checks import check
    from annotated.corpora import Corpus, load_corpus
    from annotated.cost import forward_flops as forward_flops
    from annotated.cost import training_flops as training_flops
    from annotated.decoding import Hypothesis as Hypothesis
    from annotated.decoding import beam_search, greedy_search
    from annotated.decoding import length_penalty as length_penalty
    from annotated.decoding import score_outputs as score_outputs
    from annotated.embeddings import OutputProjection as OutputProjection
    from annotated.embeddings import TokenEmbedding as TokenEmbedding
    from annotated.evaluation import Scores as Scores
    from annotated.evaluation import evaluate_translations
    from annotated.feed_forward import FeedForward as FeedForward
    from annotated.files import InputError
    from annotated.grammar import SentencePair as SentencePair
    from annotated.grammar import embedded_split as embedded_split
    from annotated.interventions import silenced as silenced
    from annotated.marian import load_marian, save_marian
    from annotated.marian import save_ctranslate2 as save_ctranslate2
    from annotated.masks import causal_mask, padding_mask
    from annotated.model import Transformer, TransformerConfig
    from annotated.positional_encoding import LearnedPositions as LearnedPositions
    from annotated.positional_encoding import SinusoidalPositions as SinusoidalPositions
    from annotated.positional_encoding import sinusoidal_encoding as sinusoidal_encoding
    from annotated.recurrent import AdditiveAttention as AdditiveAttention
    from annotated.recurrent import RecurrentConfig as RecurrentConfig
    from annotated.recurrent import RecurrentTranslator as RecurrentTranslator
    from annotated.regularization import label_smoothed_loss
    from annotated.regularization import smoothed_targets as smoothed_targets
    from annotated.schedule import build_optimizer, learning_rate
    from annotated.stacks import AddNorm as AddNorm
    from annotated.stacks import Decoder as Decoder
    from annotated.stacks import DecoderLayer as DecoderLayer
    from annotated.stacks import Encoder as Encoder
    from annotated.stacks import EncoderLayer as EncoderLayer
    from annotated.tokenization import Tokenizer, train_tokenizer
    from annotated.training import TrainingConfig, train, train_on_corpus
    from annotated.translation import Translation, Translator
    from annotated.visualization import attention_maps
    from annotated.visualization import sentence_maps as sentence_maps

__version__ = "1.0.0"
__all__ = [
    "Corpus",
    "InputError",
    "MultiHeadAttention",
    "Tokenizer",
    "TrainingConfig",
    "Transformer",
    "TransformerConfig",
    "Translation",
    "Translator",
    "accelerate",
    "attention_maps",
    "average_weights",
    "beam_search",
    "build_optimizer",
    "causal_mask",
    "check",
    "evaluate_translations",
    "greedy_search",
    "label_smoothed_loss",
    "learning_rate",
    "load_corpus",
    "load_marian",
    "load_model",
    "padding_mask",
    "save_marian",
    "save_model",
    "scaled_dot_product_attention",
    "train",
    "train_on_corpus",
    "train_tokenizer",
]
_HOME = {
    "AddNorm": "stacks",
    "AdditiveAttention": "recurrent",
    "Batch": "batching",
    "Corpus": "corpora",
    "Decoder": "stacks",
    "DecoderLayer": "stacks",
    "Encoder": "stacks",
    "EncoderLayer": "stacks",
    "FeedForward": "feed_forward",
    "Hypothesis": "decoding",
    "InputError": "files",
    "LayerNorm": "torch.nn",
    "LearnedPositions": "positional_encoding",
    "MultiHeadAttention": "attention",
    "OutputProjection": "embeddings",
    "RecurrentConfig": "recurrent",
    "RecurrentTranslator": "recurrent",
    "Scores": "evaluation",
    "SentencePair": "grammar",
    "SinusoidalPositions": "positional_encoding",
    "TokenEmbedding": "embeddings",
    "Tokenizer": "tokenization",
    "TrainingConfig": "training",
    "Transformer": "model",
    "TransformerConfig": "model",
    "Translation": "translation",
    "Translator": "translation",
    "accelerate": "acceleration",
    "attention_maps": "visualization",
    "average_weights": "checkpoint",
    "beam_search": "decoding",
    "build_optimizer": "schedule",
    "causal_mask": "masks",
    "check": "checks",
    "embedded_split": "grammar",
    "evaluate_translations": "evaluation",
    "forward_flops": "cost",
    "greedy_search": "decoding",
    "label_smoothed_loss": "regularization",
    "learning_rate": "schedule",
    "length_penalty": "decoding",
    "load_corpus": "corpora",
    "load_marian": "marian",
    "load_model": "checkpoint",
    "make_batch": "batching",
    "padding_mask": "masks",
    "save_ctranslate2": "marian",
    "save_marian": "marian",
    "save_model": "checkpoint",
    "scaled_dot_product_attention": "attention",
    "score_outputs": "decoding",
    "sentence_maps": "visualization",
    "silenced": "interventions",
    "sinusoidal_encoding": "positional_encoding",
    "smoothed_targets": "regularization",
    "token_batches": "batching",
    "train": "training",
    "train_on_corpus": "training",
    "train_tokenizer": "tokenization",
    "training_flops": "cost",
    "tune_machine": "acceleration",
}
_MODULES = [
    "acceleration",
    "attention",
    "batching",
    "checkpoint",
    "checks",
    "cli",
    "commands",
    "complexity",
    "corpora",
    "cost",
    "decoding",
    "derivation",
    "distributed",
    "embeddings",
    "engine",
    "evaluation",
    "feed_forward",
    "files",
    "forecast",
    "grammar",
    "interventions",
    "learn",
    "machine",
    "marian",
    "masks",
    "mistakes",
    "model",
    "options",
    "parsing",
    "plain",
    "positional_encoding",
    "preparation",
    "recipes",
    "recurrent",
    "regularization",
    "schedule",
    "stacks",
    "stations",
    "store",
    "subwords",
    "tables",
    "terminal",
    "tokenization",
    "training",
    "translation",
    "variations",
    "visualization",
    "watching",
]


def __getattr__(name: str) -> Any:
    """Import a module or a public name when it is first used; a moved name still comes from its module."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    value = getattr(import_module(home if "." in home else f"{__name__}.{home}"), name)
    if name in __all__:
        globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})
