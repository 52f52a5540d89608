"""The page's translator: the book's model and the plainest search. The package's own searches faster, with a beam."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from annotated.decoding import plain_greedy_search
from annotated.model import Transformer, TransformerConfig
from annotated.text.tokenization import detokenize, load_tokenizer, tokenize


class Translator:
    def __init__(self, model, tokenizer):
        self.model, self.tokenizer = model, tokenizer

    @classmethod
    def load(cls, folder, device="cpu"):
        config = json.loads((Path(folder) / "config.json").read_text())["model"]
        model = Transformer(TransformerConfig(**config)).eval()
        model.load_state_dict(load_file(Path(folder) / "model.safetensors"), strict=False)
        return cls(model, load_tokenizer(Path(folder)))

    def translate(self, texts):
        rows = [torch.tensor([row]) for row in tokenize(self.tokenizer, list(texts))]
        return detokenize(self.tokenizer, [plain_greedy_search(self.model, row).tokens for row in rows])
