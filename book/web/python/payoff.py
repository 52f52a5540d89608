"""What the shipped weights do in the reader's own classes: sentences, translated by edited modules."""

import json
import linecache
import re
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch
from running import told
from safetensors.torch import load_file

from annotated import plain
from annotated.text.tokenization import detokenize, load_tokenizer, tokenize

ROOT = Path(plain.__file__).parents[1]
MODEL = ROOT / "data" / "models" / "embedded"
MARK = re.compile(r"^# book/(\w+)\.ipynb#(.+)\n", re.MULTILINE)
PARTS = ("masks", "attention", "feed_forward", "embeddings", "positional_encoding", "stacks", "model")
SHARED = {"source_embedding.weight", "output.weight"}  # names of chapter 39 for the matrix that the file has once
EXTRA = 12  # tokens of a translation beyond its source: a broken model may never end


def built(name, edits):
    """A module of `annotated`, in which the reader's texts ({"chapter#cell": text}) stand for the cells' own."""
    module = ModuleType(f"annotated.{name}")
    sys.modules[module.__name__] = module  # dataclasses look there
    path = ROOT / "annotated" / f"{name}.py"
    head, *blocks = MARK.split(path.read_text(encoding="utf-8"))
    exec(compile(head, str(path), "exec"), vars(module))
    for chapter, cell, text in zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True):
        file = str(path)
        if f"{chapter}#{cell}" in edits:
            text, file = edits[f"{chapter}#{cell}"], f"<cell {cell}>"
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), vars(module))
    return module


@cache
def weights():
    """The shipped weights, by name."""
    return load_file(MODEL / "model.safetensors")


def reader(edits):
    """The reader's model with the shipped weights, and the function that translates with it."""
    config = json.loads((MODEL / "config.json").read_text(encoding="utf-8"))["model"]
    kept = {f"annotated.{name}": import_module(f"annotated.{name}") for name in (*PARTS, "plain")}
    try:
        if any(cell.startswith("00_") for cell in edits):
            module = built("plain", edits)
            names = ("vocab_size", "d_model", "d_ff", "num_heads", "num_layers")
            model, translate = module.Transformer(**{name: config[name] for name in names}), module.translate
        else:
            module = [built(name, edits) for name in PARTS][-1]
            model, translate = module.Transformer(module.TransformerConfig(**config)), greedy
        shared = dict.fromkeys(SHARED & model.state_dict().keys(), weights()["target_embedding.weight"])
        model.load_state_dict(weights() | shared)
        return model.eval(), translate
    finally:
        sys.modules.update(kept)


@torch.no_grad()
def greedy(model, source, extra):
    """As `plain.translate`, for the model of chapter 39 and one sentence."""
    memory, mask = model.encode(source), (source != plain.PAD)[:, None, None]
    target = torch.tensor([[plain.BOS]])
    while target[0, -1].item() != plain.EOS and target.shape[1] <= source.shape[1] + extra:
        best = model.output(model.decode(target, memory, mask)[:, -1:]).argmax(-1)
        target = torch.cat([target, best], dim=1)
    return target[:, 1:]


@torch.no_grad()
def chance(model, source, answer):
    """How likely the model finds its own translation: the chances of all tokens, multiplied."""
    read = torch.cat([torch.tensor([[plain.BOS]]), answer[:, :-1]], dim=1)
    logits = model(source, read)
    if not (logits.argmax(-1) == answer).all():  # it saw ahead: as when it was written, word by word
        logits = torch.cat([model(source, read[:, : n + 1])[:, -1:] for n in range(read.shape[1])], dim=1)
    found = logits.log_softmax(-1).gather(-1, answer[:, :, None]).sum().exp().item()
    return found if found == found else None  # not a number


def translations(edits, sentences, emit):
    """Send (place, translation, its chance) for each sentence. Returns None, or an error: `step`, and as `told`."""
    step = "the model cannot be built"
    try:
        model, translate = reader(edits)
        step = "the model cannot translate"
        tokenizer = load_tokenizer(MODEL)
        for place, row in enumerate(tokenize(tokenizer, sentences)):
            source = torch.tensor([row])
            answer = translate(model, source, extra=EXTRA)
            found = detokenize(tokenizer, answer.tolist())[0], chance(model, source, answer)
            emit("translation", json.dumps([place, *found]))
    except BaseException as error:
        return {"step": step} | told(error)
    return None
