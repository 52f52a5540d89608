"""The commands' options."""

import argparse
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import MISSING, asdict, fields
from types import UnionType
from typing import Any, get_args

from annotated.base.files import InputError
from annotated.command.commands import READERS
from annotated.formats.ctranslate2 import save_ctranslate2
from annotated.formats.marian import save_marian
from annotated.model import CHOICES, TransformerConfig
from annotated.runs.checkpoint import find_model, load_config
from annotated.runs.recipes import RECIPES, TINY, recipe_for
from annotated.search.beam import PENALTIES, STOPS
from annotated.text.corpora import NAMED
from annotated.text.evaluation import LANGUAGE_RULERS, RULERS
from annotated.text.grammar.splits import SPLITS
from annotated.text.preparation import StoreSettings
from annotated.text.tokenization import CHARACTERS, NORMALIZATIONS
from annotated.training import PRECISIONS, TRAINING_CHOICES, TrainingConfig

__all__ = ["FORMATS", "OPTIONS", "STORE_OPTIONS", "epilog", "settings_of"]


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
    "patience": "end after so many validations in a row without a lower loss (beyond the paper; default: never)",
}
HELP.update(TRAINING_HELP)
FIXED = ("vocab_size", "source_vocab_size", "pad_id", "start_id", "end_id")  # these follow from the tokenizer
LIMITS = ("max_steps", "max_epochs", "max_minutes")
CHANGEABLE = (*LIMITS, "patience", "compile")  # what a resumed run may have otherwise than before
LISTED = CHOICES | TRAINING_CHOICES  # the options that have a list of values


def number(kind: type, wanted: str, fits: Callable[[float], bool]) -> Callable[[str], int | float]:
    """A function that reads a finite number from an option's text, and refuses what does not fit."""

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


def pieces(text: str) -> int | str:
    """The size of a vocabulary: a number, or the word for characters only."""
    return text if text == CHARACTERS else count(text)


positive = number(float, "a number above 0", lambda value: value > 0)
not_negative = number(float, "a number of at least 0", lambda value: value >= 0)
temperature = number(float, "a number of at least 0.001", lambda value: value >= 0.001)
share = number(float, "a number above 0, at most 1", lambda value: 0 < value <= 1)
penalty = number(float, "a number from 0 to 100", lambda value: 0 <= value <= 100)
NUMBERS = {
    "seed": number(int, "a whole number of at least 0", lambda value: 0 <= value < 2**63),
    **dict.fromkeys(("max_minutes", "rate_factor", "clip_norm", "norm_eps"), positive),
}  # the others: counts are at least 1, real numbers at least 0


def flag(name: str) -> str:
    """The option of a field: --d-model for d_model."""
    return "--" + name.replace("_", "-")


def one_of(values: Sequence[str]) -> str:
    """The values of a list in words: relu, gelu or swish."""
    return " or ".join(filter(None, (", ".join(values[:-1]), values[-1])))


def add_options(parser: argparse.ArgumentParser, title: str, configuration: type, about: str = "") -> None:
    """An option for every field of a configuration dataclass. Unset ones stay None: recipe or dataclass give them."""
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


def given(arguments: argparse.Namespace, configuration: type) -> dict[str, Any]:
    """The fields of a configuration that the user set."""
    names = [field.name for field in fields(configuration) if field.name not in FIXED]
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


def chosen(arguments: argparse.Namespace, configuration: type) -> dict[str, Any]:
    """The fields of a configuration that the recipe or the user set; the user wins."""
    recipe, own = RECIPES[arguments.recipe or recipe_for(arguments.corpus)], given(arguments, configuration)
    if any(name in own for name in LIMITS):  # the user's limit replaces the recipe's
        recipe = {name: value for name, value in recipe.items() if name not in LIMITS}
    known = {field.name for field in fields(configuration)} - set(FIXED)
    return {name: value for name, value in recipe.items() if name in known} | own


def resumed(arguments: argparse.Namespace, run: dict[str, Any]) -> dict[str, Any]:
    """The training settings of a run to resume, with the user's limits if there are any.

    Raises InputError when the user, or the recipe asked for, wants another setting changed.
    """
    wanted = dict(RECIPES[arguments.recipe]) if arguments.recipe else {}
    own = given(arguments, TrainingConfig)
    wanted |= given(arguments, TransformerConfig) | own
    for name in ("vocab_size", "normalization"):
        if getattr(arguments, name):
            wanted[name] = getattr(arguments, name)
    settings = run["model"] | run["training"]
    for name, value in wanted.items():
        if name not in CHANGEABLE and settings.get(name) != value and (name, value) != ("precision", "auto"):
            known = settings.get(name, "its own")
            raise InputError(
                f"{flag(name)} cannot become {value}: the run began with {known}",
                "Only when to stop may change; for other settings start in another folder.",
            )
    limits = {name: value for name, value in own.items() if name in LIMITS}
    how = {name: value for name, value in own.items() if name in CHANGEABLE and name not in LIMITS}
    return run["training"] | (dict.fromkeys(LIMITS) | limits if limits else {}) | how


def begun(arguments: argparse.Namespace) -> tuple[dict[str, Any], int]:
    """The sizes of the model that `--from` names, with the user's dropouts if there are any, and of its vocabulary.

    Raises InputError for anything else that the user wants otherwise.
    """
    config, _ = load_config(find_model(arguments.begin_from))
    own, settings = given(arguments, TransformerConfig), asdict(config)
    own |= {name: value for name in ("vocab_size", "normalization") if (value := getattr(arguments, name)) is not None}
    for name, value in own.items():
        if "dropout" not in name and settings.get(name) != value:
            known = f"has {settings[name]}" if name in settings else "has its own"
            raise InputError(
                f"{flag(name)} cannot be {value}: {arguments.begin_from}, which --from names, {known}",
                "Leave the option out: a model that is trained further keeps its sizes and its vocabulary.",
            )
    dropouts = {name: value for name, value in own.items() if "dropout" in name}
    return {name: value for name, value in settings.items() if name != "vocab_size"} | dropouts, config.vocab_size


def settings_of(arguments: argparse.Namespace, run: dict) -> tuple[dict[str, Any], TrainingConfig, int | str]:
    """Model settings, training settings and vocabulary size, of the run to resume or of a new one."""
    if run:
        model = {name: value for name, value in run["model"].items() if name != "vocab_size"}
        try:
            return model, TrainingConfig(**resumed(arguments, run)), run["model"]["vocab_size"]
        except ValueError as error:
            raise InputError(str(error)) from None
    size = arguments.vocab_size or RECIPES[arguments.recipe or recipe_for(arguments.corpus)]["vocab_size"]
    model = chosen(arguments, TransformerConfig)
    if arguments.begin_from:
        model, size = begun(arguments)
    try:  # a mistake shows now, not after the vocabulary has been learned
        TransformerConfig(1000 if size == CHARACTERS else size, **model)
        return model, TrainingConfig(**chosen(arguments, TrainingConfig)), size
    except ValueError as error:
        raise InputError(str(error)) from None


FORMATS = {  # name: what writes it, for whom, and how they use the folder
    "marian": (save_marian, READERS["marian"],
        'MarianMTModel.from_pretrained("{folder}") and MarianTokenizer.from_pretrained("{folder}") of transformers, '
        "which needs the package sentencepiece for that"),
    "ctranslate2": (save_ctranslate2, READERS["ctranslate2"],
        'ctranslate2.Translator("{folder}").translate_batch reads the pieces that SentencePiece cuts with {cut} '
        "in that folder, and writes pieces to be joined with {join}"),
}  # fmt: skip


def add_import_options(command: argparse.ArgumentParser) -> None:
    """The options of `import-marian`."""
    command.add_argument("folder", metavar="FOLDER", help="folder with config.json, model.safetensors, source.spm, "
        "target.spm and vocab.json, such as a downloaded OPUS-MT model")  # fmt: skip
    add_output(command, "the model")


def add_export_options(command: argparse.ArgumentParser) -> None:
    """The options of `export`."""
    command.add_argument("--format", choices=tuple(FORMATS), required=True, help="the format to write")
    command.add_argument("model", **MODEL)
    add_output(command, "the exported model")


EXAMPLES = {
    "train": """
        annotated train --corpus embedded --output runs/embedded
        annotated train --corpus multi30k --download --output runs/multi30k --max-minutes 30
        annotated train --corpus pairs.tsv --vocab-size 2000 --output runs/own
        annotated train --corpus news.en,news.fr --target fr --output runs/news
        annotated train --resume --output runs/own --max-minutes 60
        annotated train --from runs/multi30k --corpus pairs.tsv --output runs/adapted""",
    "prepare": """
        annotated prepare --corpus news.en.gz,news.de.gz --output stores/news
        annotated train --corpus stores/news --recipe base --output runs/news
        annotated prepare --corpus europarl/ crawl.en,crawl.de --vocab-size 32000 --output stores/both
        annotated prepare --corpus wmt14 --from downloads/wmt14 --output stores/wmt14""",
    "translate": """
        echo "The old aunt found the keys yesterday." | annotated translate embedded
        annotated translate runs/multi30k < input.txt > output.txt
        echo "A dog runs through the snow." | annotated translate runs/multi30k --n-best 4
        printf 'The cat sleeps.\\tHeu' | annotated translate embedded --prefixes
        echo "The cat sleeps." | annotated translate embedded --sample 0.8 --seed 3
        annotated translate runs/multi30k --engine ctranslate2 --penalty power < input.txt""",
    "score": """
        printf 'The cat sleeps.\\tDie Katze schläft.\\n' | annotated score embedded""",
    "evaluate": """
        annotated evaluate runs/multi30k
        annotated evaluate runs/multi30k --beam-size 1 --json greedy.json
        annotated evaluate runs/chinese --ruler char
        annotated evaluate runs/multi30k --corpus pairs.tsv --split valid --translations out.txt""",
    "average": """
        annotated average runs/multi30k --last 5 --output runs/multi30k-average""",
    "write": """
        echo "Once upon a time" | annotated write Llama-3.2-1B
        annotated write Qwen3-0.6B --tokens 300 --temperature 0.7 --top-p 0.9 --seed 3 < begun.txt
        printf "" | annotated write Mistral-7B-v0.3 --precision float32""",
    "info": """
        annotated info
        annotated info runs/multi30k""",
    "import-marian": """
        annotated import-marian opus-mt-en-de --output models/opus-mt-en-de
        annotated translate models/opus-mt-en-de < input.txt""",
    "export": """
        annotated export runs/multi30k --format marian --output marian
        annotated export runs/multi30k --format ctranslate2 --output ctranslate2""",
    "check": """
        annotated check my_transformer.py
        annotated check my_transformer.py:Transformer --learn
        annotated check my_gpt.py:GPT --one-text
        annotated check --wrap models/transformer.py""",
    "hunt": """
        annotated hunt --seed 1 > stranger.py
        annotated hunt --seed 1 --answers""",
    "learn": """
        annotated learn
        annotated learn my_transformer.py --once
        annotated learn --again
        annotated learn --notebook""",
}


def epilog(command: str) -> str:
    """What follows the options in a command's help: examples, and for `train` the recipes before them."""
    text = "examples:\n" + textwrap.indent(textwrap.dedent(EXAMPLES[command]).strip(), "  ")
    if command != "train":
        return text
    parts = ["recipes, as the options they stand for:"]
    for name, recipe in RECIPES.items():
        options = " ".join(flag(key) if value is True else f"{flag(key)}\u00a0{value}" for key, value in recipe.items())
        lines = textwrap.wrap(options, 72, break_on_hyphens=False, break_long_words=False)
        parts += [f"  {name}", *(f"      {line}" for line in lines)]
    return "\n".join(parts).replace("\u00a0", " ") + "\n\n" + text


MODEL = {"metavar": "MODEL", "help": "model folder, or embedded: the book's own model, which the package carries"}
DEVICE = {"default": "auto", "metavar": "NAME", "help": "cpu, cuda, cuda:1 ...; auto takes a GPU if there is one"}


CORPUS = (
    f"{', '.join(NAMED)}, a folder with train.en and train.de (or train.tsv), a TSV file, or two text files joined by "
    "a comma, packed or not"
)


def add_corpus(
    command: argparse.ArgumentParser, about: str, languages: tuple[str, str] = ("en", "de"), **how: Any
) -> None:
    """Which corpus, and in which languages: alike in all commands that read one."""
    command.add_argument("--corpus", metavar="NAME", help=about, **how)
    for option, default in zip(("source", "target"), languages, strict=True):
        command.add_argument(f"--{option}", metavar="CODE",
            help=f"{option} language, as in the files' names (default: {default})")  # fmt: skip
    command.add_argument("--download", action="store_true", help="fetch multi30k from its public repository")


def add_output(command: argparse.ArgumentParser, what: str) -> None:
    """Where a command writes."""
    command.add_argument("--output", required=True, metavar="FOLDER", help=f"folder for {what}")


def add_train_options(command: argparse.ArgumentParser) -> None:
    """The options of `train`."""
    add_corpus(command, f"{CORPUS}, or a store; needed unless --resume. A TSV file has source, tab, target in each "
        "line; of a file alone, every 50th pair is kept for test, the one before for valid")  # fmt: skip
    add_output(command, "model, metrics and checkpoints")
    command.add_argument("--resume", action="store_true",
        help="go on with the run in the output folder, with its settings; only the limits may change")  # fmt: skip
    command.add_argument("--recipe", choices=RECIPES, help="settings to start from (default: embedded for that "
        f"corpus, tiny below {TINY:,} pairs, else small); see the end of this help")  # fmt: skip
    command.add_argument("--vocab-size", type=pieces, metavar="N",
        help=f"pieces of the shared vocabulary, or {CHARACTERS}, which suits small data; by the recipe")  # fmt: skip
    command.add_argument("--normalization", choices=NORMALIZATIONS, help="what becomes of text before it is cut: by "
        "default nothing, so that what stands in the target can be written")  # fmt: skip
    command.add_argument("--from", dest="begin_from", metavar="MODEL", help="begin with this model's weights, sizes "
        "and vocabulary, own or imported; the optimiser begins anew")  # fmt: skip
    command.add_argument("--device", **DEVICE)
    command.add_argument("--quiet", action="store_true", help="no progress bar; validation losses are still printed")
    add_options(command, "model", TransformerConfig, "The defaults are the paper's base model; a recipe changes some.")
    add_options(command, "training", TrainingConfig, "A recipe changes some of these, too. An option wins over both.")


STORE_OPTIONS = {  # name: parser, what it is
    "vocab_size": (pieces, "N", f"pieces of the shared vocabulary, or {CHARACTERS}"),
    "normalization": (str, "NAME", f"{one_of(NORMALIZATIONS)}: what becomes of text before it is cut"),
    "max_length": (count, "N", "longest sentence in tokens"),
    "max_ratio": (not_negative, "X", "largest ratio of the sides' tokens"),
    "sample": (count, "N", "pairs from which the vocabulary is learned"),
    "held_out": (count, "N", "pairs for valid and for test where the corpus has none, at most a fiftieth"),
}


def add_prepare_options(command: argparse.ArgumentParser) -> None:
    """The options of `prepare`."""
    add_corpus(command, f"{CORPUS}, or wmt14; several are read one after the other", nargs="+", required=True)
    command.add_argument("--from", dest="folder", metavar="FOLDER", help="where the files of wmt14 were unpacked")
    add_output(command, "the store")
    for name, (parse, metavar, what) in STORE_OPTIONS.items():
        default = getattr(StoreSettings, name) or "by the number of pairs"
        command.add_argument(flag(name), type=parse, metavar=metavar, help=f"{what} (default: {default})")
    command.add_argument("--workers", type=count, metavar="N", help="processes that encode (default: one a core)")
    command.add_argument("--quiet", action="store_true", help="no progress bar")


def add_search_options(command: argparse.ArgumentParser) -> None:
    """The options of searching for a translation."""
    command.add_argument("--beam-size", type=count, metavar="N",
        help="1 is greedy search (default: 4, or what an imported model brings)")  # fmt: skip
    command.add_argument("--length-penalty", type=penalty, metavar="A",
        help="alpha of the length penalty; more favours longer outputs (default: 0.6, or likewise)")  # fmt: skip
    command.add_argument("--penalty", choices=tuple(PENALTIES),
        help="what is raised to alpha: (5 + length) / 6, or the length (default: gnmt, or likewise)")  # fmt: skip
    command.add_argument("--stop", choices=STOPS,
        help="when a search ends: when no prefix can still win (bound), or earlier, as other systems do (chapter 60; "
             "default: bound, or likewise)")  # fmt: skip
    command.add_argument("--limit", type=count, metavar="N",
        help="longest translation in tokens (default: 50 more than the source)")  # fmt: skip
    command.add_argument("--min-length", type=NUMBERS["seed"], default=0, metavar="N",
        help="shortest translation in tokens, the end not counted (default: 0)")  # fmt: skip
    command.add_argument("--engine", choices=("annotated", "ctranslate2"), default="annotated",
        help="whose search; CTranslate2's is faster, and needs the extra fast (default: annotated)")  # fmt: skip
    command.add_argument("--max-tokens", type=count, default=2048, metavar="N",
        help="source tokens a batch, padding counted; fewer need less memory (default: 2048)")  # fmt: skip
    command.add_argument("--precision", choices=(*PRECISIONS, "int8"), default="float32",
        help="bfloat16 is faster where the processor has instructions for it, int8 needs --engine ctranslate2 "
             "(default: float32)")  # fmt: skip
    command.add_argument("--workers", type=count, metavar="N",
        help="processes that translate, on the CPU; with CTranslate2, batches at a time (default: one a core; for line "
             "by line, one)")  # fmt: skip
    command.add_argument("--accelerate", action=argparse.BooleanOptionalAction, default=True, help=HELP["accelerate"])
    command.add_argument("--device", **DEVICE)


def add_translate_options(command: argparse.ArgumentParser) -> None:
    """The options of `translate`."""
    command.add_argument("model", **MODEL)
    command.add_argument("--n-best", type=count, metavar="N",
        help="print up to N lines a sentence, at most the beam's size: line number, score, translation")  # fmt: skip
    command.add_argument("--prefixes", action="store_true",
        help="a line is a source, a tab, and what its translation begins with, even within a word")  # fmt: skip
    command.add_argument("--sample", type=positive, metavar="T", help="draw each token by its probability instead of "
        "searching for the best: at 1 as the model has it, below 1 the likelier ones more often")  # fmt: skip
    command.add_argument("--seed", type=NUMBERS["seed"], default=1, metavar="N",
        help="of --sample: the same again gives the same translations (default: 1)")  # fmt: skip
    command.add_argument("--chunk", type=count, metavar="N",
        help="lines to read before translating them (default: 1000, on a terminal 1)")  # fmt: skip
    add_search_options(command)


def add_score_options(command: argparse.ArgumentParser) -> None:
    """The options of `score`."""
    command.add_argument("model", **MODEL)
    command.add_argument("--max-tokens", type=count, default=2048, metavar="N",
        help="tokens a batch, padding counted; fewer need less memory (default: 2048)")  # fmt: skip
    command.add_argument("--precision", choices=PRECISIONS, default="float32", help="default: float32")
    command.add_argument("--device", **DEVICE)


def add_evaluate_options(command: argparse.ArgumentParser) -> None:
    """The options of `evaluate`."""
    command.add_argument("model", **MODEL)
    add_corpus(command, f"{CORPUS} (default: what the model was trained on)", ("the model's", "the model's"))
    command.add_argument("--split", default="test", metavar="NAME",
        help=f"part of the corpus; the book's own has {', '.join(SPLITS)} (default: test)")  # fmt: skip
    command.add_argument("--max-words", type=count, metavar="N", help="only sources of at most N words")
    command.add_argument("--ruler", choices=RULERS, metavar="NAME",
        help=f"what cuts the tokens that BLEU counts: {one_of(RULERS)} (default: by the target language, "
             f"{', '.join(LANGUAGE_RULERS.values())}, else 13a)")  # fmt: skip
    command.add_argument("--translations", metavar="FILE", help="write the translations there")
    command.add_argument("--json", metavar="FILE", help="write scores, settings and machine there")
    add_search_options(command)


def add_average_options(command: argparse.ArgumentParser) -> None:
    """The options of `average`."""
    command.add_argument("run_folder", metavar="RUN", help="folder of a training run")
    command.add_argument("--last", type=count, default=5, metavar="N",
        help="how many checkpoints (default: 5, as in the paper for the base model; 20 for the big one)")  # fmt: skip
    add_output(command, "the averaged model")


def add_write_options(command: argparse.ArgumentParser) -> None:
    """The options of `write`."""
    command.add_argument("folder", metavar="FOLDER",
        help="folder with config.json, tokenizer.json, and model.safetensors or its parts")  # fmt: skip
    command.add_argument("--tokens", type=count, default=100, metavar="N",
        help="tokens to write at most (default: 100)")  # fmt: skip
    command.add_argument("--temperature", type=temperature, metavar="T", help="draw each token by its probability, not "
        "take the likeliest: at 1 as the model has it, below 1 the likelier ones more often")  # fmt: skip
    command.add_argument("--top-p", type=share, metavar="P",
        help="with --temperature: draw only from the likeliest with this share together (default: all)")  # fmt: skip
    command.add_argument("--seed", type=NUMBERS["seed"], default=1, metavar="N",
        help="of --temperature: the same again gives the same text (default: 1)")  # fmt: skip
    command.add_argument("--precision", choices=PRECISIONS,
        help="what to compute in (default: what the model is published in)")  # fmt: skip
    command.add_argument("--device", **DEVICE)


def add_info_options(command: argparse.ArgumentParser) -> None:
    """The options of `info`."""
    command.add_argument("model", nargs="?", **MODEL)


def add_check_options(command: argparse.ArgumentParser) -> None:
    """The options of `check`."""
    command.add_argument(
        "file", metavar="FILE.py[:NAME]", help="a file or notebook to run, and what in it is to be checked"
    )
    for name, default, what in (("pad", 0, "padding"), ("bos", 2, "the beginning"), ("eos", 3, "the end")):
        command.add_argument(
            f"--{name}", type=int, metavar="ID", help=f"id of {what} (default: the file's, or {default})"
        )
    command.add_argument("--vocab", type=count, metavar="N", help="ids that it knows (default: as many as logits)")
    command.add_argument("--learn", action="store_true",
        help="train a copy of an encoder-decoder on copying as well: some seconds")  # fmt: skip
    command.add_argument("--one-text", action="store_true",
        help="the model takes one text, as language models do (default: as its arguments say)")  # fmt: skip
    command.add_argument("--wrap", action="store_true",
        help="write lines that make and call the model to a new file, to be filled in, and end")  # fmt: skip
    command.add_argument("--seconds", type=positive, default=60.0, metavar="X",
        help="how long the file, or a check of what is in it, may take (default: 60)")  # fmt: skip


def add_hunt_options(command: argparse.ArgumentParser) -> None:
    """The options of `hunt`."""
    command.add_argument("--seed", type=int, required=True, metavar="N", help="which file")
    command.add_argument("--mistakes", type=int, choices=(1, 2, 3), help="how many (default: drawn by the seed)")
    command.add_argument("--answers", action="store_true", help="the answers instead of the file")


def add_learn_options(command: argparse.ArgumentParser) -> None:
    """The options of `learn`."""
    command.add_argument(
        "file",
        nargs="?",
        default="my_transformer.py",
        metavar="FILE.py",
        help="your file, written if it is not there (default: my_transformer.py)",
    )
    which = command.add_mutually_exclusive_group()
    which.add_argument("--once", action="store_true", help="look once, and end; without it, after each save")
    which.add_argument("--again", action="store_true", help="three stations that were right a day ago, asked anew")
    which.add_argument("--notebook", action="store_true", help="write the stations as a notebook, and end")
    command.add_argument(
        "--seed", type=int, metavar="N", help="of the hunts, and of what --again asks (default: drawn)"
    )


OPTIONS = {
    "train": add_train_options, "prepare": add_prepare_options, "translate": add_translate_options,
    "score": add_score_options, "evaluate": add_evaluate_options, "average": add_average_options,
    "write": add_write_options, "info": add_info_options, "import-marian": add_import_options,
    "export": add_export_options, "check": add_check_options, "hunt": add_hunt_options, "learn": add_learn_options,
}  # fmt: skip
