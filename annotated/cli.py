# Written by `make export` from book/91_command_line.ipynb: do not edit here, edit the chapter.
"""The command line: chapter 91 of the book."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from types import FrameType, UnionType
from typing import Any, get_args

from annotated import __version__
from annotated.checkpoint import average_weights, load_model, read_json, save_model, write_json
from annotated.corpora import InputError, load_corpus
from annotated.evaluation import evaluate_translations
from annotated.model import TransformerConfig
from annotated.training import TrainingConfig, checkpoints, describe_machine, train_on_corpus
from annotated.translation import Translator, best_device

__all__ = [
    "FIXED",
    "HELP",
    "RECIPES",
    "add_options",
    "add_search_options",
    "add_train",
    "average_command",
    "build_parser",
    "chosen",
    "chunks",
    "evaluate_command",
    "info_command",
    "input_lines",
    "main",
    "recipe_for",
    "say",
    "stop_on_signal",
    "train_command",
    "translate_command",
]


# book/91_command_line.ipynb#recipes
RECIPES: dict[str, dict[str, Any]] = {
    "paper": {"vocab_size": 37_000, "max_tokens": 25_000, "max_steps": 100_000},
    "embedded": {
        "vocab_size": 1000, "d_model": 128, "d_ff": 512, "num_heads": 4, "num_layers": 2, "max_length": 256,
        "max_tokens": 2000, "warmup_steps": 300, "average_decay": 0.99, "precision": "float32",
        "validate_every": 100, "max_steps": 4000,
    },
    "small": {
        "vocab_size": 8000, "d_model": 256, "d_ff": 1024, "num_heads": 4, "num_layers": 3, "max_length": 256,
        "dropout": 0.3, "max_tokens": 3072, "warmup_steps": 600, "rate_factor": 0.6, "clip_norm": 1.0,
        "average_decay": 0.998, "max_minutes": 45.0,
        "checkpoint_minutes": 2.0,
    },
}  # fmt: skip


def recipe_for(corpus: str) -> str:
    """The recipe that fits a corpus: "embedded" for the book's own, "small" for some ten thousand pairs of real text.

    Defined in chapter 91: `recipes`.
    """
    return "embedded" if corpus == "embedded" else "small"


# book/91_command_line.ipynb#help-texts
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
    "activation": "relu, gelu or swish",
    "activation_dropout": "dropout inside the feed-forward networks",
    "positions": "sinusoidal, concatenated (all sines first) or learned",
    "max_length": "longest sentence in tokens; longer pairs are left out of training",
    "norm_first": "normalise the sub-layers' inputs (pre-norm) instead of the sums",
    "norm_eps": "epsilon of layer normalisation",
    "tie_embeddings": "one matrix for source and target embedding",
    "tie_output": "one matrix for target embedding and output projection",
    "scale_embeddings": "multiply embeddings by sqrt(d_model)",
    "output_bias": "a bias on the logits",
    "num_decoder_layers": "layers of the decoder (default: num_layers)",
    "max_tokens": "source and target tokens a batch, each side, padding counted",
    "accumulation": "batches summed up before one step",
    "max_steps": "stop after so many steps",
    "max_epochs": "stop after so many passes over the training pairs",
    "max_minutes": "stop after so many minutes",
    "warmup_steps": "steps over which the learning rate rises",
    "label_smoothing": "probability spread over the whole vocabulary",
    "precision": "auto, float32 or bfloat16",
    "validate_every": "steps between measurements of the validation loss",
    "checkpoint_minutes": "minutes between checkpoints kept for averaging",
    "keep_checkpoints": "how many of them to keep",
    "seed": "seed of initial weights, dropout and order",
    "rate_factor": "multiplies the paper's learning rate (beyond the paper)",
    "clip_norm": "largest norm of the gradient (beyond the paper; off by default)",
    "average_decay": "decay of an exponential average of the weights (beyond the paper; off by default)",
}
FIXED = ("vocab_size", "source_vocab_size", "pad_id", "start_id", "end_id")  # these follow from the tokenizer


# book/91_command_line.ipynb#options-from-dataclass
def add_options(parser: argparse.ArgumentParser, title: str, configuration: type) -> None:
    """An option for every field of a configuration dataclass, without default: the recipe gives it.

    Defined in chapter 91: `options-from-dataclass`.
    """
    group = parser.add_argument_group(title)
    for field in fields(configuration):
        if field.name in FIXED:
            continue
        flag, kind = "--" + field.name.replace("_", "-"), field.type
        if isinstance(kind, UnionType):
            kind = get_args(kind)[0]
        if kind is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=HELP[field.name])
        else:
            metavar = {int: "N", float: "X", str: "NAME"}[kind]
            group.add_argument(flag, type=kind, default=None, metavar=metavar, help=HELP[field.name])


def chosen(arguments: argparse.Namespace, configuration: type) -> dict[str, Any]:
    """The fields of a configuration that the recipe or the user set; the user wins.

    Defined in chapter 91: `options-from-dataclass`.
    """
    recipe = RECIPES[arguments.recipe or recipe_for(arguments.corpus)]
    names = [field.name for field in fields(configuration) if field.name not in FIXED]
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    stops = {"max_steps", "max_epochs", "max_minutes"}
    if stops & given.keys():  # the user's limit replaces the recipe's
        recipe = {name: value for name, value in recipe.items() if name not in stops}
    return {name: recipe[name] for name in names if name in recipe} | given


# book/91_command_line.ipynb#train-command
def train_command(arguments: argparse.Namespace) -> None:
    """Train on a corpus; the best model by validation loss ends in the output folder.

    Defined in chapter 91: `train-command`.
    """
    corpus = load_corpus(arguments.corpus, arguments.source, arguments.target, arguments.download)
    model_options, training_options = chosen(arguments, TransformerConfig), chosen(arguments, TrainingConfig)
    folder, device = Path(arguments.output), best_device(arguments.device)
    recipe = arguments.recipe or recipe_for(arguments.corpus)
    if arguments.resume:
        run = read_json(folder / "run.json")
        stops = {name: training_options.get(name) for name in ("max_steps", "max_epochs", "max_minutes")}
        model_options = {name: value for name, value in run["model"].items() if name != "vocab_size"}
        training_options = run["training"] | stops
    config = TrainingConfig(**training_options)
    beyond = config.beyond_the_paper()
    say(f"{corpus.name}, {corpus.source_language} to {corpus.target_language}, on {describe_machine(device)['device']}")
    say(f"recipe {recipe}; beyond the paper: {', '.join(f'{k} {v}' for k, v in beyond.items()) or 'nothing'}")
    state = train_on_corpus(
        corpus,
        lambda vocab_size: TransformerConfig(vocab_size, **model_options),
        config,
        folder,
        vocab_size=arguments.vocab_size or RECIPES[recipe]["vocab_size"],
        device=device,
        resume=arguments.resume,
        progress=not arguments.quiet,
        stop=stop_on_signal(),
    )
    say(f"{state.step} steps, {state.tokens:,} target tokens, {state.seconds / 60:.1f} minutes")
    say(f"best validation loss {state.best_loss:.4f}; the model is in {folder}")


def stop_on_signal() -> Callable[[], bool]:
    """True after Ctrl-C or a request to end: the step at hand is finished and the state saved. A second Ctrl-C aborts.

    Defined in chapter 91: `train-command`.
    """
    received: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, remember)
    return lambda: bool(received)


# book/91_command_line.ipynb#translate-command
def translate_command(arguments: argparse.Namespace) -> None:
    """Translate standard input to standard output: one line out for one line in.

    Defined in chapter 91: `translate-command`.
    """
    translator = Translator.load(arguments.model, arguments.device)
    options = {"beam_size": arguments.beam_size, "length_penalty": arguments.length_penalty}
    done = 0
    for lines in chunks(input_lines(), arguments.chunk):
        warn = lambda message, first=done: say(f"input after line {first}: {message}")  # noqa: E731
        results = translator.translate_n_best(lines, n_best=arguments.n_best or 1, warn=warn, **options)
        for number, translations in enumerate(results, start=done + 1):
            if arguments.n_best is None:
                print(translations[0].text)
            else:
                for translation in translations:
                    print(number, f"{translation.score:.4f}", translation.text, sep="\t")
        sys.stdout.flush()
        done += len(lines)


def input_lines() -> Iterator[str]:
    """Lines of standard input as UTF-8. Raises InputError, naming the line, where it is not.

    Defined in chapter 91: `translate-command`.
    """
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise InputError(f"standard input: line {number} is not UTF-8 (byte 0x{byte:02x})") from None


def chunks(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """Lists of `size` lines; the last may be shorter. What came before an error is still handed on.

    Defined in chapter 91: `translate-command`.
    """
    chunk: list[str] = []
    try:
        for line in lines:
            chunk.append(line)
            if len(chunk) == size:
                yield chunk
                chunk = []
    except InputError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


# book/91_command_line.ipynb#evaluate-command
def evaluate_command(arguments: argparse.Namespace) -> None:
    """Translate a split of a corpus and score it.

    Defined in chapter 91: `evaluate-command`.
    """
    translator = Translator.load(arguments.model, arguments.device)
    notes = translator.notes
    name = arguments.corpus or notes.get("corpus", "embedded")
    languages = arguments.source or notes.get("source", "en"), arguments.target or notes.get("target", "de")
    pairs = load_corpus(name, *languages).split(arguments.split)
    if arguments.max_words:
        pairs = [pair for pair in pairs if len(pair.source.split()) <= arguments.max_words]
    if not pairs:
        raise InputError(f"corpus {name}: no pair in {arguments.split} to evaluate on")
    options = {"beam_size": arguments.beam_size, "length_penalty": arguments.length_penalty}
    start = time.perf_counter()
    translations = translator.translate([pair.source for pair in pairs], warn=say, **options)
    seconds = time.perf_counter() - start
    scores = evaluate_translations(translations, [pair.target for pair in pairs])
    print(f"{name}, {arguments.split}: {scores.sentences} sentences, beam {arguments.beam_size}, "
          f"length penalty {arguments.length_penalty}, {scores.sentences / seconds:.1f} sentences/s")  # fmt: skip
    print(f"BLEU {scores.bleu:.2f} ({scores.bleu_signature}, brevity penalty {scores.brevity_penalty:.3f})")
    print(f"chrF {scores.chrf:.2f} ({scores.chrf_signature})")
    print(f"exact match {100 * scores.exact_match:.2f}%")
    if arguments.translations:
        Path(arguments.translations).write_text("".join(line + "\n" for line in translations), encoding="utf-8")
    if arguments.json:
        about = {"corpus": name, "split": arguments.split, "max_words": arguments.max_words, **options}
        machine = describe_machine(translator.model.output.weight.device)
        write_json(Path(arguments.json), about | asdict(scores) | {"seconds": round(seconds, 2)} | machine)


# book/91_command_line.ipynb#average-and-info
def average_command(arguments: argparse.Namespace) -> None:
    """Average the last checkpoints of a run into a model of its own (section 6.1).

    Defined in chapter 91: `average-and-info`.
    """
    folder, output = Path(arguments.run), Path(arguments.output)
    model, tokenizer, notes = load_model(folder)
    paths = checkpoints(folder)[-arguments.last :]
    if len(paths) < arguments.last:
        raise InputError(f"{folder / 'checkpoints'}: {len(paths)} checkpoints there, {arguments.last} wanted")
    notes = {key: value for key, value in notes.items() if key not in ("format", "model", "step", "valid_loss")}
    names = [path.name for path in paths]
    save_model(output, model, tokenizer, average_weights(paths), **notes, average_of=names)
    say(f"the average of {', '.join(names)} is in {output}")


def info_command(arguments: argparse.Namespace) -> None:
    """Say what a model folder holds, or, without one, what this installation is.

    Defined in chapter 91: `average-and-info`.
    """
    if arguments.model is None:
        print(f"annotated {__version__}")
        about = describe_machine(best_device())
    else:
        model, tokenizer, notes = load_model(Path(arguments.model))
        about = {"parameters": f"{model.num_parameters():,}", "vocabulary": f"{len(tokenizer):,} pieces"}
        about |= {key: value for key, value in notes.items() if key not in ("format", "model")} | asdict(model.config)
    width = max(map(len, about))
    for key, value in about.items():
        print(f"{key:<{width}}  {value}")


# book/91_command_line.ipynb#parser
def build_parser() -> argparse.ArgumentParser:
    """The command's options; those of `train` come from the configuration dataclasses.

    Defined in chapter 91: `parser`.
    """
    parser = argparse.ArgumentParser(
        prog="annotated", description="Train the Transformer of 'Attention Is All You Need', and translate with it."
    )
    parser.add_argument("--version", action="version", version=f"annotated {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], None], **options) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=run.__doc__.splitlines()[0], description=run.__doc__, **options)
        command.set_defaults(run=run)
        command.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 ...; auto takes a GPU if there is one")
        return command

    add_train(add("train", train_command))
    translate = add("translate", translate_command)
    translate.add_argument("model", help="model folder")
    add_search_options(translate)
    translate.add_argument(
        "--n-best", type=int, metavar="N", help="print N lines a sentence: number, score, translation"
    )
    translate.add_argument("--chunk", type=int, default=1000, metavar="N", help="lines to read before translating them")
    evaluate = add("evaluate", evaluate_command)
    evaluate.add_argument("model", help="model folder")
    evaluate.add_argument("--corpus", help="default: the corpus that the model was trained on")
    evaluate.add_argument("--source", help="source language")
    evaluate.add_argument("--target", help="target language")
    evaluate.add_argument("--split", default="test", help="train, valid, test ... (default: test)")
    evaluate.add_argument("--max-words", type=int, metavar="N", help="only sources of at most N words")
    evaluate.add_argument("--translations", metavar="FILE", help="write the translations there")
    evaluate.add_argument("--json", metavar="FILE", help="write scores and settings there")
    add_search_options(evaluate)
    average = add("average", average_command)
    average.add_argument("run", help="folder of a training run")
    average.add_argument(
        "--last", type=int, default=5, metavar="N", help="how many checkpoints (paper: 5 base, 20 big)"
    )
    average.add_argument("--output", required=True, help="folder for the averaged model")
    add("info", info_command).add_argument("model", nargs="?", help="model folder")
    return parser


# book/91_command_line.ipynb#parser-parts
def add_train(command: argparse.ArgumentParser) -> None:
    """The options of `train`.

    Defined in chapter 91: `parser-parts`.
    """
    command.add_argument("--corpus", required=True,
        help="embedded, multi30k, a folder with train.en and train.de (or train.tsv), a TSV file, "
             "or two text files joined by a comma")  # fmt: skip
    command.add_argument("--source", default="en", help="source language, as in the files' names (default: en)")
    command.add_argument("--target", default="de", help="target language (default: de)")
    command.add_argument("--download", action="store_true", help="fetch multi30k from its public repository")
    command.add_argument("--output", required=True, help="folder for model, metrics and checkpoints")
    command.add_argument("--resume", action="store_true", help="go on with the run in the output folder")
    command.add_argument("--quiet", action="store_true", help="no progress bar")
    recipes = "; ".join(f"{name}: {' '.join(f'{k}={v}' for k, v in r.items())}" for name, r in RECIPES.items())
    command.add_argument("--recipe", choices=RECIPES,
        help=f"settings to start from; the options below change them (default: by corpus). {recipes}")  # fmt: skip
    command.add_argument("--vocab-size", type=int, metavar="N", help="pieces of the shared vocabulary")
    add_options(command, "model", TransformerConfig)
    add_options(command, "training", TrainingConfig)


def add_search_options(command: argparse.ArgumentParser) -> None:
    """The options of searching for a translation.

    Defined in chapter 91: `parser-parts`.
    """
    command.add_argument("--beam-size", type=int, default=4, metavar="N", help="1 is greedy search (paper: 4)")
    command.add_argument("--length-penalty", type=float, default=0.6, metavar="A", help="alpha of GNMT (paper: 0.6)")


# book/91_command_line.ipynb#main
def say(text: str) -> None:
    """A line for people, on standard error.

    Defined in chapter 91: `main`.
    """
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Whatever the user can mend is one line on standard error and exit status 1.

    Defined in chapter 91: `main`.
    """
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    sys.stderr.reconfigure(encoding="utf-8", errors="replace")
    options = build_parser().parse_args(arguments)
    try:
        options.run(options)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader went away: nothing left to say
        return 0
    except (ValueError, OSError) as error:
        say(f"annotated {options.command}: {' '.join(str(error).split())}")
        return 1
    except KeyboardInterrupt:
        say(f"annotated {options.command}: interrupted")
        return 130
    return 0
