"""The commands and their help, without a library that takes time to load."""

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress

from annotated import __version__

__all__ = ["READERS", "answer", "forget_output", "outline"]


READERS = {  # of `export`: who reads them
    "marian": "MarianMTModel and MarianTokenizer of transformers",
    "ctranslate2": "CTranslate2, which needs the package ctranslate2",
}
COMMANDS = {  # name: usage, description, and its line in the list of all commands
    "train": ("--corpus NAME --output FOLDER [options]",
        "Learn a vocabulary and train a model on a corpus. The output folder gets the best model by validation loss, "
        "run.json (settings, machine, result), metrics.jsonl, and checkpoints to average. Training ends at the first "
        "limit of steps, epochs and minutes. Ctrl-C saves the state; --resume goes on with it.",
        "Train on a corpus; the best model by validation loss ends in the output folder."),
    "prepare": ("--corpus NAME [NAME ...] --output FOLDER [options]",
        "Read corpora as a stream, leave out pairs that are empty, too long, of an unlikely ratio or there already, "
        "learn a vocabulary, and write a store: a folder that `train --corpus` reads without loading it.",
        "Make a store of a corpus: filtered, cut into pieces, and written so that training reads it without loading."),
    "translate": ("MODEL [options] < input.txt > output.txt",
        "Translate standard input to standard output, both UTF-8: one line out for one line in, in the same order, "
        "also for empty lines. A line longer than the model allows is cut, and said on standard error.",
        "Translate standard input to standard output: one line out for one line in."),
    "score": ("MODEL [options] < pairs.tsv",
        "Say how likely given translations are. A line in is a source, a tab and a translation; a line out the "
        "log-probability of the translation in nats, and then, after tabs, each of its pieces with its own.",
        "Say how likely given translations are, by token: lines of a source, a tab and a translation."),
    "evaluate": ("MODEL [options]",
        "Translate a split of a corpus and score it with sacreBLEU: BLEU by the ruler of the target language and chrF, "
        "each with its signature, and the share of exact matches. Where that ruler is 13a, there are two more: "
        "international tokens, and hyphens split as in the paper's time.",
        "Translate a split of a corpus and score it."),
    "average": ("RUN --output FOLDER [--last N]",
        "Write the mean of a run's last checkpoints as a model of its own (section 6.1 of the paper).",
        "Average the last checkpoints of a run into a model of its own (section 6.1)."),
    "write": ("FOLDER [options] < begun.txt",
        "Continue a text from standard input with a model of today (chapter 95): Llama, Mistral, Qwen2 or Qwen3 "
        "without experts, in a folder as it is published, with its config.json, safetensors and tokenizer.json. What "
        "the model adds goes to standard output as it comes, without the text itself. The line break that ends the "
        "input does not count; where the input is empty, the model begins. Nothing is downloaded or unpickled. Ctrl-C "
        "ends. Needs the extra today.",
        "Continue a text from standard input with a published model of today."),
    "info": ("[MODEL]",
        "Say what a model folder holds, or, without one, what this installation is and which device it would use.",
        "Say what a model folder holds, or, without one, what this installation is."),
    "import-marian": ("FOLDER --output FOLDER",
        "Make a model folder from one in Hugging Face's MarianMT format, such as a downloaded OPUS-MT model with "
        "weights in model.safetensors. Beam size and length penalty come with it.",
        "Make a model folder from one in Hugging Face's MarianMT format."),
    "export": (f"MODEL --format {'|'.join(READERS)} --output FOLDER",
        f"Write a model for {', or for '.join(READERS.values())}.",
        "Write a model in another system's format."),
    "check": ("FILE.py[:NAME] [options]",
        "Run a Python file or a notebook as it lies in its repository, and ask the encoder-decoder or the language "
        "model in it what a Transformer must answer (chapter 82). The command runs the file: its imports, and all "
        "outside of functions. NAME is a model, a class or function that makes one, or a function of source and "
        "target ids, or of the ids of one text. Functions called loss, learning_rate and translate are asked as well. "
        "Where a model cannot be made or called, lines to fill in "
        "are printed. The exit status is 0 where nothing is wrong, 1 where something is, 2 where no model could be "
        "asked, 3 where nothing is wrong and something could not be asked.",
        "Ask somebody's encoder-decoder or language model what a Transformer must answer. This runs the file."),
    "hunt": ("--seed N [options]",
        "Write a stranger's Transformer with one to three mistakes in it to standard output (chapter 82): find the "
        "lines without help, and say what their owner has noticed. A seed gives the same file again, and its answers.",
        "Write a Transformer with mistakes in it, to be found; or its answers."),
    "learn": ("[FILE.py] [options]",
        "Write a file with eight stations, in which you write a Transformer, and watch it (chapter 84): after each "
        "save the file is run, and what is right moves into the book's trained model. A record of attempts lies beside "
        "it. Ctrl-C ends, and the same command goes on. With --once, the exit status is 0 where nothing is wrong.",
        "Write a Transformer yourself, station by station, and be told what becomes of it. This runs the file."),
}  # fmt: skip
EXIT = (
    "exit status: 0 done; 1 something is wrong with the input, said in one line; 2 wrong options; "
    "130 ended by Ctrl-C, 128 + N by signal N; 141 nobody read the output"
)


def outline() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The command's parser, and by name those of its commands, which have no options yet."""
    form = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    about = "Train the Transformer of 'Attention Is All You Need', and translate with it."
    more = f"`annotated COMMAND --help` says more about each, with examples.\n\n{EXIT}"
    parser = argparse.ArgumentParser(prog="annotated", description=about, epilog=more, **form)
    parser.add_argument("--version", action="version", version=f"annotated {__version__}")
    add, found = parser.add_subparsers(dest="command", required=True, metavar="COMMAND").add_parser, {}
    for name, (usage, about, line) in COMMANDS.items():
        texts = {"usage": f"annotated {name} {usage}", "description": textwrap.fill(about, 90), "help": line}
        found[name] = add(name, **texts, **form)
    return parser, found


def answer(arguments: Sequence[str]) -> int | None:
    """The exit status where no command is named, as with `--help` and `--version`; None where there is one to run."""
    if COMMANDS.keys().isdisjoint(arguments):
        try:
            outline()[0].parse_args(arguments)
        except SystemExit as end:  # it has been printed
            forget_output()
            return end.code
    return None


def forget_output() -> None:
    """After an error: write out what can be written, and keep Python's exit from failing on the rest."""
    try:
        print(end="", flush=True)
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
