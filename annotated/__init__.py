"""The Transformer of "Attention Is All You Need": the book writes the files here, folders hold a library around it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from annotated.attention import MultiHeadAttention, scaled_dot_product_attention
    from annotated.base.corpus import Corpus
    from annotated.base.files import InputError
    from annotated.batching import make_batch
    from annotated.doctor.reporting import check
    from annotated.drawing.visualization import attention_maps
    from annotated.formats.marian import load_marian, save_marian
    from annotated.machine.acceleration import accelerate, tune_machine
    from annotated.masks import causal_mask, padding_mask
    from annotated.model import Transformer, TransformerConfig
    from annotated.regularization import label_smoothed_loss
    from annotated.runs.checkpoint import average_weights, load_model, save_model
    from annotated.runs.training import train, train_on_corpus
    from annotated.schedule import build_optimizer, learning_rate
    from annotated.search.beam import beam_search, greedy_search, score_outputs
    from annotated.search.translation import Translation, Translator
    from annotated.text.corpora import load_corpus
    from annotated.text.evaluation import evaluate_translations
    from annotated.text.tokenization import Tokenizer, train_tokenizer
    from annotated.training import TrainingConfig

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
    "make_batch",
    "padding_mask",
    "save_marian",
    "save_model",
    "scaled_dot_product_attention",
    "score_outputs",
    "train",
    "train_on_corpus",
    "train_tokenizer",
    "tune_machine",
]
_HOME = {  # of each name, the module that is imported when it is first used
    "Corpus": "base.corpus",
    "InputError": "base.files",
    "MultiHeadAttention": "attention",
    "Tokenizer": "text.tokenization",
    "TrainingConfig": "training",
    "Transformer": "model",
    "TransformerConfig": "model",
    "Translation": "search.translation",
    "Translator": "search.translation",
    "accelerate": "machine.acceleration",
    "attention_maps": "drawing.visualization",
    "average_weights": "runs.checkpoint",
    "beam_search": "search.beam",
    "build_optimizer": "schedule",
    "causal_mask": "masks",
    "check": "doctor.reporting",
    "evaluate_translations": "text.evaluation",
    "greedy_search": "search.beam",
    "label_smoothed_loss": "regularization",
    "learning_rate": "schedule",
    "load_corpus": "text.corpora",
    "load_marian": "formats.marian",
    "load_model": "runs.checkpoint",
    "make_batch": "batching",
    "padding_mask": "masks",
    "save_marian": "formats.marian",
    "save_model": "runs.checkpoint",
    "scaled_dot_product_attention": "attention",
    "score_outputs": "search.beam",
    "train": "runs.training",
    "train_on_corpus": "runs.training",
    "train_tokenizer": "text.tokenization",
    "tune_machine": "machine.acceleration",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})
