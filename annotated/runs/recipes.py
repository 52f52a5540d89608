"""Settings of a training by name."""

from typing import Any

from annotated.text.corpora import EMBEDDED

__all__ = ["RECIPES", "TINY", "recipe_for"]


RECIPES: dict[str, dict[str, Any]] = {
    "base": {"vocab_size": 37_000, "max_tokens": 3125, "accumulation": 8, "max_steps": 100_000},
    "big": {
        "vocab_size": 37_000, "d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3,
        "max_tokens": 3125, "accumulation": 8, "max_steps": 300_000, "keep_checkpoints": 20,
    },
    "embedded": {
        "vocab_size": 2000, "d_model": 128, "d_ff": 512, "num_heads": 4, "num_layers": 2, "max_length": 256,
        "dropout": 0.05, "label_smoothing": 0.0, "max_tokens": 2000, "warmup_steps": 300, "rate_factor": 0.5,
        "average_decay": 0.995, "precision": "float32", "validate_every": 100, "max_steps": 24_000,
    },
    "tiny": {
        "vocab_size": 1000, "d_model": 128, "d_ff": 512, "num_heads": 4, "num_layers": 2, "max_length": 256,
        "dropout": 0.1, "max_tokens": 2000, "warmup_steps": 300, "rate_factor": 0.5, "average_decay": 0.995,
        "validate_every": 100, "max_minutes": 10.0, "checkpoint_minutes": 2.0,
    },
    "small": {
        "vocab_size": 8000, "d_model": 256, "d_ff": 1024, "num_heads": 4, "num_layers": 3, "max_length": 256,
        "dropout": 0.3, "max_tokens": 3072, "warmup_steps": 600, "rate_factor": 0.6, "clip_norm": 1.0,
        "average_decay": 0.998, "max_minutes": 25.0, "checkpoint_minutes": 2.0,
    },
    "best": {
        "vocab_size": 8000, "d_model": 128, "d_ff": 256, "num_heads": 4, "num_layers": 4, "max_length": 256,
        "dropout": 0.3, "norm_first": True, "max_tokens": 3072, "warmup_steps": 1500, "rate_factor": 2.0,
        "clip_norm": 1.0, "average_decay": 0.999, "max_steps": 8200, "checkpoint_minutes": 2.0, "keep_checkpoints": 10,
    },
}  # fmt: skip


TINY = 10_000  # pairs; below, the recipe is another


def recipe_for(corpus: str, pairs: int = TINY) -> str:
    """The recipe that fits a corpus: "embedded" for the book's own, else "small", or "tiny" where pairs are few."""
    return "embedded" if corpus in EMBEDDED else "small" if pairs >= TINY else "tiny"
