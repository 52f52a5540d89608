# Written by `make export` from book/91_command_line.ipynb: do not edit here, edit the chapter.
"""The command line: chapter 91 of the book."""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from types import UnionType
from typing import Any, get_args

from annotated.files import InputError
from annotated.model import CHOICES, TransformerConfig
from annotated.recipes import RECIPES, recipe_for
from annotated.training import TRAINING_CHOICES, TrainingConfig

__all__ = ["HELP", "add_options", "count", "flag", "not_negative", "penalty", "settings_of"]


# book/91_command_line.ipynb#help-model
HELP = {
    "d_model": "width of embeddings and of every sub-layer's output",
    "d_ff": "inner width of the feed-forward networks",
    "num_heads": "attention heads",
    "num_layers": "layers of the encoder, and of the decoder unless --num-decoder-layers says otherwise",
    "d_k": "width of queries and keys in a head (default: d_model / num_heads)",
    "d_v": "width of values in a head (default: d_model / num_heads)",
    "dropout": "dropout on sub-layer outputs and on the sums of embedding and position",
    "attention_bias": "biases in the attention's projections",
    "attention_dropout": "dropout on attention weights",
    "activation": "between the two maps of the feed-forward networks",
    "activation_dropout": "dropout inside the feed-forward networks",
    "positions": "concatenated has all sines first",
    "max_length": "longest sentence in tokens; longer pairs are left out of training",
    "norm_first": "normalise the sub-layers' inputs (pre-norm) instead of the sums",
    "norm_eps": "epsilon of layer normalisation",
    "tie_embeddings": "one matrix for source and target embedding",
    "tie_output": "one matrix for target embedding and output projection",
    "scale_embeddings": "multiply embeddings by sqrt(d_model)",
    "output_bias": "a bias on the logits",
    "num_decoder_layers": "layers of the decoder (default: num_layers)",
}


# book/91_command_line.ipynb#help-training
TRAINING_HELP = {
    "max_tokens": "source and target tokens a batch, each side, padding counted (paper: 25000)",
    "accumulation": "batches summed up before one step",
    "max_steps": "stop after so many steps",
    "max_epochs": "stop after so many passes over the training pairs",
    "max_minutes": "stop after so many minutes",
    "warmup_steps": "steps over which the learning rate rises",
    "label_smoothing": "probability spread over the whole vocabulary",
    "precision": "auto takes bfloat16, or float16 on some GPUs, where the device has instructions for it",
    "accelerate": "faster forms of the same mathematics (chapter 92), and settings of the process that suit them",
    "compile": "compile training steps for the device, which takes a minute and a C++ compiler, or Triton on a GPU",
    "validate_every": "steps between measurements of the validation loss",
    "checkpoint_minutes": "minutes between checkpoints kept for averaging",
    "keep_checkpoints": "how many of them to keep",
    "seed": "seed of initial weights, dropout and order",
    "rate_factor": "multiplies the paper's learning rate (beyond the paper)",
    "clip_norm": "largest norm of the gradient (beyond the paper; default: no limit)",
    "average_decay": "decay of an exponential average of the weights (beyond the paper; default: no average)",
    "piece_dropout": "how often training leaves out a merge of byte-pair encoding (beyond the paper)",
}
HELP.update(TRAINING_HELP)
FIXED = ("vocab_size", "source_vocab_size", "pad_id", "start_id", "end_id")  # these follow from the tokenizer
STOPS = ("max_steps", "max_epochs", "max_minutes")
CHANGEABLE = (*STOPS, "compile")  # what a resumed run may have otherwise than before
LISTED = CHOICES | TRAINING_CHOICES  # the options that have a list of values


# book/91_command_line.ipynb#numbers
def number(kind: type, wanted: str, fits: Callable[[float], bool]) -> Callable[[str], int | float]:
    """A function that reads a finite number from an option's text, and refuses one that does not fit."""

    def parse(text: str) -> int | float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not (-math.inf < value < math.inf and fits(value)):
            raise argparse.ArgumentTypeError(f"{wanted} is needed, not {text!r}")
        return value

    return parse


count = number(int, "a whole number of at least 1", lambda value: value >= 1)
positive = number(float, "a number above 0", lambda value: value > 0)
not_negative = number(float, "a number of at least 0", lambda value: value >= 0)
penalty = number(float, "a number from 0 to 100", lambda value: 0 <= value <= 100)
NUMBERS = {
    "seed": number(int, "a whole number of at least 0", lambda value: 0 <= value < 2**63),
    **dict.fromkeys(("max_minutes", "rate_factor", "clip_norm", "norm_eps"), positive),
}  # the others: counts are at least 1, real numbers at least 0


# book/91_command_line.ipynb#options-from-dataclass
def flag(name: str) -> str:
    """The option of a field: --d-model for d_model.

    Defined in chapter 91: `options-from-dataclass`.
    """
    return "--" + name.replace("_", "-")


def one_of(values: Sequence[str]) -> str:
    """The values of a list in words: relu, gelu or swish."""
    return " or ".join(filter(None, (", ".join(values[:-1]), values[-1])))


# book/91_command_line.ipynb#add-options
def add_options(parser: argparse.ArgumentParser, title: str, configuration: type, about: str = "") -> None:
    """An option for every field of a configuration dataclass. Unset ones stay None: recipe or dataclass give them.

    Defined in chapter 91: `add-options`.
    """
    group = parser.add_argument_group(title, about)
    for field in fields(configuration):
        if field.name in FIXED:
            continue
        kind, note, values = field.type, HELP[field.name], LISTED.get(field.name)
        if values:
            note = f"{one_of(values)}; {note}"
        if isinstance(kind, UnionType):
            kind = get_args(kind)[0]
        if field.default not in (None, MISSING):
            shown = {True: "on", False: "off"}.get(field.default, field.default) if kind is bool else field.default
            note = f"{note[:-1]}; default: {shown})" if note.endswith(")") else f"{note} (default: {shown})"
        if kind is bool:
            group.add_argument(flag(field.name), action=argparse.BooleanOptionalAction, default=None, help=note)
        else:
            parse = NUMBERS.get(field.name) or {int: count, float: not_negative, str: str}[kind]
            metavar = {int: "N", float: "X", str: "NAME"}[kind]
            group.add_argument(flag(field.name), type=parse, choices=values, metavar=metavar, help=note)


# book/91_command_line.ipynb#chosen
def given(arguments: argparse.Namespace, configuration: type) -> dict[str, Any]:
    """The fields of a configuration that the user set."""
    names = [field.name for field in fields(configuration) if field.name not in FIXED]
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


def chosen(arguments: argparse.Namespace, configuration: type) -> dict[str, Any]:
    """The fields of a configuration that the recipe or the user set; the user wins."""
    recipe, own = RECIPES[arguments.recipe or recipe_for(arguments.corpus)], given(arguments, configuration)
    if any(name in own for name in STOPS):  # the user's limit replaces the recipe's
        recipe = {name: value for name, value in recipe.items() if name not in STOPS}
    known = {field.name for field in fields(configuration)} - set(FIXED)
    return {name: value for name, value in recipe.items() if name in known} | own


# book/91_command_line.ipynb#resumed
def resumed(arguments: argparse.Namespace, run: dict[str, Any]) -> dict[str, Any]:
    """The training settings of a run to resume, with the user's limits if there are any.

    Raises InputError when the user, or the recipe asked for, wants another setting changed.
    """
    wanted = dict(RECIPES[arguments.recipe]) if arguments.recipe else {}
    own = given(arguments, TrainingConfig)
    wanted |= given(arguments, TransformerConfig) | own
    if arguments.vocab_size:
        wanted["vocab_size"] = arguments.vocab_size
    settings = run["model"] | run["training"]
    for name, value in wanted.items():
        if name not in CHANGEABLE and settings.get(name) != value and (name, value) != ("precision", "auto"):
            raise InputError(f"{flag(name)} cannot become {value}: the run began with {settings.get(name)}")
    limits = {name: value for name, value in own.items() if name in STOPS}
    how = {name: value for name, value in own.items() if name in CHANGEABLE and name not in STOPS}
    return run["training"] | (dict.fromkeys(STOPS) | limits if limits else {}) | how


# book/91_command_line.ipynb#train-settings
def settings_of(arguments: argparse.Namespace, run: dict) -> tuple[dict[str, Any], TrainingConfig, int]:
    """Model settings, training settings and vocabulary size, of the run to resume or of a new one.

    Defined in chapter 91: `train-settings`.
    """
    if run:
        model = {name: value for name, value in run["model"].items() if name != "vocab_size"}
        try:
            return model, TrainingConfig(**resumed(arguments, run)), run["model"]["vocab_size"]
        except ValueError as error:
            raise InputError(str(error)) from None
    size = arguments.vocab_size or RECIPES[arguments.recipe or recipe_for(arguments.corpus)]["vocab_size"]
    model = chosen(arguments, TransformerConfig)
    try:
        TransformerConfig(size, **model)  # a mistake shows now, not after the vocabulary has been learned
        return model, TrainingConfig(**chosen(arguments, TrainingConfig)), size
    except ValueError as error:
        raise InputError(str(error)) from None
