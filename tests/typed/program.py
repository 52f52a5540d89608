"""A program as a user writes it, with the public names: pyright reads it strictly, and a test runs it."""

from pathlib import Path
from typing import assert_type

import torch
from torch import Tensor

import annotated
from annotated import (
    Tokenizer,
    TrainingConfig,
    Transformer,
    TransformerConfig,
    Translation,
    Translator,
)


def main(folder: Path) -> list[str]:
    """Train a model on dates, save it, read it again, search, translate, score."""
    pairs = [(f"{day} May", f"05-{day:02}") for day in range(1, 29)]
    tokenizer = annotated.train_tokenizer((text for pair in pairs for text in pair), "characters")
    assert_type(tokenizer, Tokenizer)
    examples = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
    config = TransformerConfig(len(tokenizer), d_model=32, d_ff=64, num_heads=4, num_layers=1)
    model = Transformer(config)
    state = annotated.train(model, examples, examples[:5], TrainingConfig(max_steps=5, warmup_steps=5))
    assert_type(state.best_loss, float)
    annotated.save_model(model, folder, tokenizer)
    loaded = annotated.load_model(folder)
    assert_type(loaded.model, Transformer)
    batch = annotated.make_batch(examples[:2])
    best = annotated.beam_search(loaded.model, batch.source, beam_size=2)
    assert_type(best[0][0].tokens, list[int])
    greedy = annotated.greedy_search(loaded.model, batch.source)
    assert_type(greedy[0][0].score, float)
    mask = annotated.padding_mask(batch.source, tokenizer.pad_id) & annotated.causal_mask(batch.source.shape[1])
    assert_type(mask, Tensor)
    assert_type(annotated.learning_rate(10, config.d_model), float)
    print(annotated.check(loaded.model, vocab=config.vocab_size))
    translator = Translator.load(folder, "cpu")
    lists = translator.translate_n_best(["3 May"], n_best=2)
    assert_type(lists, list[list[Translation]])
    assert_type(translator.score(["3 May"], ["05-03"]), list[list[tuple[str, float]]])
    with torch.no_grad():
        return translator.translate(["3 May"], beam_size=1)
