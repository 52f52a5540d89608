"""Small models with random weights, in all their shapes, and sentences to give them."""

from __future__ import annotations

import torch
from torch import nn

from annotated.base.files import InputError
from annotated.model import CHOICES, Transformer, TransformerConfig
from annotated.search.translation import Translator
from annotated.text.corpora import load_corpus
from annotated.text.grammar.splits import embedded_split
from annotated.text.tokenization import Tokenizer

SMALL = TransformerConfig(vocab_size=40, d_model=32, d_ff=48, num_heads=4, num_layers=3, max_length=64)
SHAPES = {
    "paper": {},
    "pre-norm": {"norm_first": True},
    "free widths": {"d_k": 5, "d_v": 11, "num_heads": 3},
    "biases": {"attention_bias": True, "output_bias": True},
    "untied": {"tie_embeddings": False, "tie_output": False},
    "two vocabularies": {"tie_embeddings": False, "source_vocab_size": 60},
    "shallow decoder": {"num_decoder_layers": 1},
    "unscaled": {"scale_embeddings": False},
    **{choice: {option: choice} for option, choices in CHOICES.items() for choice in choices},
}
PORTABLE = TransformerConfig(
    340, d_model=32, d_ff=48, num_heads=4, num_layers=2, max_length=64, norm_eps=1e-5, scale_embeddings=True
)


def randomised(config: TransformerConfig, seed: int = 0) -> Transformer:
    """A model whose biases and gains are random too, so that mixing them up is noticed."""
    torch.manual_seed(seed)
    model = Transformer(config).eval()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, mean=1.0 if "norm.weight" in name else 0.0, std=0.3)
    return model


def tokens(batch: int, length: int, seed: int, vocab_size: int = 40) -> torch.Tensor:
    return torch.randint(4, vocab_size, (batch, length), generator=torch.Generator().manual_seed(seed))


def random_translator(config: TransformerConfig, tokenizer: Tokenizer) -> Translator:
    return Translator(randomised(config), tokenizer, {"source": "en", "target": "de"})


def sources_to_translate() -> tuple[str, list[str]]:
    """Multi30k's test sources where they are, else those of the embedded corpus."""
    try:
        return "multi30k", [pair.source for pair in load_corpus("multi30k").split("test")]
    except InputError:
        return "embedded", [pair.source for pair in embedded_split("test")]
