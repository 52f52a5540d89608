# Written by `make export` from book/91_command_line.ipynb: do not edit here, edit the chapter.
"""The command line: chapter 91 of the book."""

import argparse
import io
import math
import os
import re
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from annotated import __version__
from annotated.acceleration import PROCESS_SETTINGS, tune_machine
from annotated.checkpoint import average_weights, load_config, load_model, load_weights, save_model
from annotated.corpora import NAMED, Corpus, load_corpus
from annotated.decoding import PENALTIES
from annotated.distributed import Abandoned, first_to_tell, from_first, processes, rank, world_size
from annotated.engine import FastTranslator, check_search
from annotated.evaluation import antecedent_accuracy, bleu_by_ruler, evaluate_translations
from annotated.files import InputError, disk, manifest_of, read_json, write_atomically, write_json
from annotated.grammar import SPLITS, SentencePair
from annotated.machine import PRECISIONS, best_device, choose_precision, describe_machine
from annotated.marian import load_marian, save_ctranslate2, save_marian
from annotated.model import Transformer, TransformerConfig
from annotated.options import HELP, add_options, count, flag, not_negative, penalty, settings_of
from annotated.preparation import StoreSettings, prepare, text_of, wmt14
from annotated.recipes import RECIPES, recipe_for
from annotated.store import Store, is_store, open_store
from annotated.tokenization import load_tokenizer
from annotated.training import TrainingConfig, TrainingState, check_checkpoint, checkpoints, train_on_corpus
from annotated.translation import Translator, find_model, search_from

__all__ = ["main"]


# book/91_command_line.ipynb#run-folders
def refuse_to_overwrite(folder: Path) -> None:
    """Raise InputError when a run or a model is in the folder already."""
    for name, what in {"run.json": "run", "model.safetensors": "model", "model.bin": "model"}.items():
        if (folder / name).exists():
            raise InputError(f"{folder}: holds a {what} already; choose another folder")


def recorded_run(folder: Path) -> dict[str, Any]:
    """What a run's `run.json` says. Raises InputError when it is missing, or is not the record of a run."""
    path = folder / "run.json"
    if not path.exists():
        raise InputError(f"{folder}: no run to resume there (no run.json)")
    run = read_json(path)
    kinds = {"corpus": str, "source": str, "target": str, "model": dict, "training": dict, "settings": dict}
    for key, kind in kinds.items():
        if not isinstance(run, dict) or not isinstance(run.get(key, {} if key == "settings" else None), kind):
            raise InputError(f"{path}: not the record of a training run ({key!r} is missing, or something else)")
    try:
        TransformerConfig(**run["model"])
        TrainingConfig(**run["training"])
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: not the record of a training run ({error})") from None
    return run


# book/91_command_line.ipynb#train-command
def train_command(arguments: argparse.Namespace) -> int:
    """Train on a corpus; the best model by validation loss ends in the output folder."""
    if not (arguments.corpus or arguments.resume):
        arguments.error("the following arguments are required: --corpus")
    folder, device = Path(arguments.output), best_device(arguments.device)
    run = recorded_run(folder) if arguments.resume else {}
    if not run and not (folder / "run.json").exists():  # whether a run may be written over, `prepare_folder` says
        refuse_to_overwrite(folder)
    model_options, training, vocab_size = settings_of(arguments, run)
    corpus = corpus_of(arguments, run)
    say(f"{corpus.name}, {corpus.source_language} to {corpus.target_language}, on {describe_machine(device)['device']}")
    options = training.beyond_the_paper(TransformerConfig(vocab_size, **model_options))
    beyond = ", ".join(f"{name} {value}" for name, value in options.items()) or "nothing"
    begun = f"resuming the run in {folder}" if run else f"recipe {arguments.recipe or recipe_for(arguments.corpus)}"
    say(f"{begun}; beyond the paper: {beyond}")
    share, left = divmod(training.accumulation, world_size())
    if share and left:
        dealt = f"{left} make {share + 1}, the others {share} and wait"
        say(f"{training.accumulation} batches a step, {world_size()} processes: {dealt}")
    settings = tuned(training.accelerate, run.get("settings"))
    precision = str(choose_precision(training.precision, device)).removeprefix("torch.")
    why = (
        f", which {device.type} has instructions for" if (training.precision, precision) == ("auto", "bfloat16") else ""
    )
    say(f"matrix products in {precision}{why}; switched on: {', '.join(filter(settings.get, settings)) or 'nothing'}")
    training = replace(training, precision=precision)
    if isinstance(corpus, Store):  # it has its vocabulary, which the user may name
        vocab_size = arguments.vocab_size
    with Stop() as received:
        state = train_on_corpus(
            corpus, lambda size: TransformerConfig(size, **model_options), training, folder, vocab_size=vocab_size,
            device=device, resume=arguments.resume, progress=not arguments.quiet, settings=settings,
            stop=received, warn=say,
        )  # fmt: skip
    report_training(state, folder, run)
    if received.number:
        say(f"stopped before its limit; `annotated train --resume --output {folder}` goes on")
    return 128 + received.number if received.number else 0


# book/91_command_line.ipynb#tuned
def tuned(wanted: bool, recorded: dict[str, bool] | None = None) -> dict[str, bool]:
    """Settings of the process for a command: none unless wanted, those of the run to resume if it recorded some.

    Returns which are on, and says which of the recorded ones cannot be had here.
    """
    settings = tune_machine((recorded or None) if wanted else dict.fromkeys(PROCESS_SETTINGS, False))
    for name, on in (recorded or {}).items():
        if wanted and settings.get(name) != on:
            say(f"{name} was {'on' if on else 'off'} when the run began, and cannot be so here: results may differ")
    return settings


# book/91_command_line.ipynb#train-parts
def corpus_of(arguments: argparse.Namespace, run: dict) -> Corpus | Store:
    """The corpus to train on; a resumed run has its own, which may have moved."""
    name = arguments.corpus or run["corpus"]
    if run and name != run["corpus"]:
        say(f"the run began on {run['corpus']} and goes on with {name}")
    if is_store(name):
        store = open_store(Path(name))
        for option, own in (("source", store.source_language), ("target", store.target_language)):
            if getattr(arguments, option) not in (None, own):
                raise InputError(f"{name}: its {option} language is {own}, not {getattr(arguments, option)}")
        return store
    source = arguments.source or run.get("source", "en")
    return load_corpus(name, source, arguments.target or run.get("target", "de"), arguments.download)


def prepare_command(arguments: argparse.Namespace) -> None:
    """Make a store of a corpus: filtered, cut into pieces, and written so that training reads it without loading."""
    if (arguments.corpus == ["wmt14"]) != (arguments.folder is not None):
        arguments.error("--corpus wmt14 and --from go together")
    source, target = arguments.source or "en", arguments.target or "de"
    given = {name: value for name in STORE_OPTIONS if (value := getattr(arguments, name)) is not None}
    try:
        settings = StoreSettings(**given)
    except ValueError as error:
        raise InputError(str(error)) from None
    if arguments.folder is not None:
        text = wmt14(Path(arguments.folder), source, target)
    else:
        text = text_of(arguments.corpus, source, target, arguments.download)
    refuse_to_overwrite(Path(arguments.output))
    workers = arguments.workers or torch.get_num_threads()
    prepare(text, Path(arguments.output), settings, workers=workers, say=say, progress=not arguments.quiet)


def report_training(state: TrainingState, folder: Path, run: dict) -> None:
    """Say how far training came."""
    if run and run.get("steps") == state.step:
        say("the run had reached its limit already: give a later --max-steps, --max-epochs or --max-minutes")
    say(f"{state.step} steps, {state.tokens:,} target tokens, {state.seconds / 60:.1f} minutes")
    if math.isfinite(state.best_loss):
        say(f"best validation loss {state.best_loss:.4f}; the model is in {folder}")


# book/91_command_line.ipynb#signals
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Stop:
    """Whether a signal asked training to stop: called before each step.

    From the first call on, the first signal (Ctrl-C, a request to end, a closed terminal) is kept in `number`, said,
    and obeyed after the step; the second ends the process at once. Until then, while nothing is there to be saved,
    signals do what they always do. One that is ignored, as under `nohup`, stays so. Outside the main thread, which
    alone gets signals, nothing changes.
    """

    def __init__(self):
        self.number = 0
        self.before: dict[int, Any] = {}

    def __call__(self) -> bool:
        if not self.before and threading.current_thread() is threading.main_thread():
            heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
            self.before = {number: signal.signal(number, self.remember) for number in heard}
        return self.number > 0

    def __enter__(self) -> "Stop":
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler or signal.SIG_DFL)

    def remember(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        for one in self.before:
            signal.signal(one, signal.default_int_handler if one == signal.SIGINT else signal.SIG_DFL)
        if world_size() == 1:  # torchrun tells all of them, also when one has died
            say("stopping after this step; once more ends at once, without saving")


# book/91_command_line.ipynb#translate-command
def translate_command(arguments: argparse.Namespace) -> None:
    """Translate standard input to standard output: one line out for one line in."""
    tuned(arguments.accelerate)
    size = arguments.chunk or from_first(lambda: 1 if sys.stdin and sys.stdin.isatty() else 1000 * world_size())
    workers = arguments.workers or (1 if size == 1 or world_size() > 1 else torch.get_num_threads())
    translator, n_best = load_translator(arguments, workers), arguments.n_best or 1
    options = search_options(arguments, translator.search)
    if n_best > options["beam_size"]:
        arguments.error(f"argument --n-best: a beam of {options['beam_size']} has no {n_best} translations")
    options |= {"max_tokens": arguments.max_tokens, "n_best": n_best}
    printed = flushed = 0  # lines; those that are only printed come out at the end, unless the output itself fails
    try:
        with ended_like_ctrl_c(), translator.workers(workers):
            for lines in shared(chunks(input_lines(), size)):
                for translations in translator.translate_n_best(lines, warn=about_lines(printed), **options):
                    number = printed + 1
                    if arguments.n_best is None:
                        sys.stdout.write(f"{translations[0].text}\n")
                    else:
                        shown = (f"{number}\t{one.score:.4f}\t{one.text}\n" for one in translations)
                        sys.stdout.write("".join(shown))
                    printed = number
                sys.stdout.flush()
                flushed = printed
    except InputError:  # it names a line itself
        raise
    except BaseException as error:
        error.add_note(f"stopped after line {flushed if isinstance(error, OSError) else printed}")
        raise


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Let a request to end, or a closed terminal, raise KeyboardInterrupt: a command can say how far it came."""

    def end(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    heard = [number for number in SIGNALS if number != signal.SIGINT and signal.getsignal(number) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        heard = []
    try:
        for number in heard:
            signal.signal(number, end)
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


# book/91_command_line.ipynb#translate-parts
def search_options(arguments: argparse.Namespace, own: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the search, as `translate` takes them: the given ones, else the model's own."""
    given = {name: getattr(arguments, name) for name in ("beam_size", "length_penalty", "penalty")}
    return {name: own[name] if value is None else value for name, value in given.items()}


def load_translator(arguments: argparse.Namespace, workers: int) -> Translator:
    """The model with the engine that the user chose; what that engine does not have is refused first."""
    if arguments.engine != "ctranslate2":
        if arguments.precision not in PRECISIONS:
            arguments.error(f"argument --precision: {arguments.precision} needs --engine ctranslate2")
        return Translator.load(arguments.model, arguments.device, arguments.precision, arguments.accelerate)
    if not arguments.accelerate:
        arguments.error("argument --no-accelerate: --engine ctranslate2 has no plain form")
    _, notes = load_config(find_model(arguments.model))
    options = search_options(arguments, search_from(notes.get("search", {})))
    check_search(options | {"alpha": options["length_penalty"]})
    return FastTranslator.load(arguments.model, arguments.device, arguments.precision, workers=workers, warn=say)


def about_lines(done: int) -> Callable[[str], None]:
    """What says the translator's remarks: its "sentence 3" is a line of the whole input, `done` lines later."""
    return lambda text: say(re.sub(r"^sentence (\d+)", lambda found: f"line {done + int(found[1])}", text))


# book/91_command_line.ipynb#input-lines
def input_lines() -> Iterator[str]:
    """Lines of standard input as UTF-8. Raises InputError, naming the line, where it is not."""
    for number, line in enumerate(sys.stdin.buffer if sys.stdin else (), start=1):
        try:
            yield line.decode("utf-8").removeprefix("\ufeff").strip()
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise InputError(f"standard input: line {number} is not UTF-8 (byte 0x{byte:02x})") from None


# book/91_command_line.ipynb#chunks
def chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Lists of `size` lines; the last may be shorter. What came before an error is still handed on."""
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


# book/91_command_line.ipynb#shared-lines
def shared(chunks: Iterator[list[str]]) -> Iterator[list[str]]:
    """What the first process reads, in all of them."""
    while chunk := from_first(lambda: next(chunks, None)):
        yield chunk


# book/91_command_line.ipynb#evaluate-command
def evaluate_command(arguments: argparse.Namespace) -> None:
    """Translate a split of a corpus and score it."""
    outputs = {name: Path(path) for name in ("translations", "json") if (path := getattr(arguments, name))}
    if len({path.resolve() for path in outputs.values()}) < len(outputs):
        arguments.error(f"--translations and --json would both write {arguments.json}")
    for path in outputs.values():
        from_first(partial(check_writable, path))
    tuned(arguments.accelerate)
    workers = arguments.workers or (1 if world_size() > 1 else torch.get_num_threads())
    translator = load_translator(arguments, workers)
    corpus = corpus_to_score(arguments, translator.notes)
    pairs = pairs_to_score(corpus, arguments.split, arguments.max_words)
    options, start = search_options(arguments, translator.search), time.perf_counter()
    sources = [pair.source for pair in pairs]
    with translator.workers(workers):
        translations = translator.translate(sources, warn=say, max_tokens=arguments.max_tokens, **options)
    seconds = time.perf_counter() - start
    if rank():
        return  # one process scores and writes
    references, pronouns = [pair.target for pair in pairs], {}
    scores, rulers = evaluate_translations(translations, references), bleu_by_ruler(translations, references)
    if any(pair.antecedents for pair in pairs):
        pronouns["antecedent_accuracy"] = antecedent_accuracy(translations, pairs)
    if "translations" in outputs:
        write_atomically(outputs["translations"], "".join(line + "\n" for line in translations).encode())
    if "json" in outputs:
        about = {"model": arguments.model, "corpus": corpus.name, "split": arguments.split}
        about |= {"max_words": arguments.max_words} | options
        about |= {"engine": arguments.engine, "precision": arguments.precision} | asdict(scores) | pronouns
        about |= {"rulers": rulers, "seconds": round(seconds, 2)}
        write_json(outputs["json"], about | describe_machine(translator.model.target_embedding.weight.device))
    print(f"{corpus.name}, {arguments.split}: {scores.sentences} sentences, beam {options['beam_size']}, "
          f"length penalty {options['length_penalty']}, {scores.sentences / seconds:.1f} sentences/s")  # fmt: skip
    print(f"BLEU {scores.bleu:.2f} ({scores.bleu_signature}, brevity penalty {scores.brevity_penalty:.3f})")
    for name in ("intl", "split"):
        print(f"BLEU {rulers[name]['bleu']:.2f} ({rulers[name]['signature']})")
    print(f"chrF {scores.chrf:.2f} ({scores.chrf_signature})")
    print(f"exact match {100 * scores.exact_match:.2f}%")
    if pronouns:
        print(
            f"pronouns of the right gender {100 * pronouns['antecedent_accuracy']:.2f}% (where there is an antecedent)"
        )


# book/91_command_line.ipynb#evaluate-parts
def corpus_to_score(arguments: argparse.Namespace, notes: dict[str, Any]) -> Corpus:
    """The corpus that the user names, or the one that the model was trained on."""
    source = arguments.source or notes.get("source", "en")
    return load_corpus(
        arguments.corpus or notes.get("corpus", "embedded"), source, arguments.target or notes.get("target", "de")
    )


def pairs_to_score(corpus: Corpus, split: str, max_words: int | None) -> list[SentencePair]:
    """The pairs of a split whose sources have at most `max_words` words. Raises InputError when there is none."""
    pairs = corpus.split(split)
    if max_words is not None:
        pairs = [pair for pair in pairs if len(pair.source.split()) <= max_words]
    if not pairs:
        raise InputError(f"corpus {corpus.name}: no pair in {split} to evaluate on")
    return pairs


# book/91_command_line.ipynb#check-writable
def check_writable(path: Path) -> None:
    """Raise InputError when a file cannot be written there; leave no file behind."""
    if path.is_symlink() or (path.exists() and not path.is_file()):  # /dev/stdout is both, and would be replaced
        raise InputError(f"{path}: cannot be written (it is a link, or no file)")
    trial = path.with_name(path.name + ".partial")
    try:
        disk.make_folder(path.parent)
        try:
            disk.write(trial, b"")
        finally:
            with suppress(OSError):
                disk.remove(trial)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{path}: cannot be written ({path.parent} is no folder)") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


# book/91_command_line.ipynb#average-command
def average_command(arguments: argparse.Namespace) -> None:
    """Average the last checkpoints of a run into a model of its own (section 6.1)."""
    folder, output = Path(arguments.run_folder), Path(arguments.output)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such run folder")
    refuse_to_overwrite(output)
    config, notes = load_config(folder)
    paths = checkpoints(folder)[-arguments.last :]
    if len(paths) < arguments.last:
        raise InputError(f"{folder / 'checkpoints'}: {len(paths)} checkpoints there, --last asks for {arguments.last}")
    for path in paths:
        check_checkpoint(path)
    model = Transformer(config)
    load_weights(model, average_weights(paths), folder / "checkpoints")
    notes = {key: value for key, value in notes.items() if key not in ("format", "model", "step", "valid_loss")}
    names = [path.name for path in paths]
    save_model(output, model, load_tokenizer(folder), **notes, average_of=names)
    say(f"the average of {', '.join(names)} is in {output}")


# book/91_command_line.ipynb#info-command
def info_command(arguments: argparse.Namespace) -> None:
    """Say what a model folder holds, or, without one, what this installation is."""
    about: dict[str, Any] = {"annotated": __version__} | describe_machine(best_device())
    if arguments.model is not None:
        folder = find_model(arguments.model)
        model, tokenizer, notes = load_model(folder)
        about = {"parameters": f"{model.num_parameters():,}", "vocabulary": f"{len(tokenizer):,} pieces"}
        about["files"] = "whole, by their manifest" if manifest_of(folder) else "unverified: no manifest"
        about |= {key: value for key, value in notes.items() if key not in ("format", "model")}
        if (folder / "run.json").exists():
            run = recorded_run(folder)
            about |= {f"run: {key}": run[key] for key in ("command", "finished", "steps", "wall_seconds") if key in run}
            about["run: checkpoints"] = len(checkpoints(folder))
        about |= asdict(model.config)
    width = max(map(len, about))
    for key, value in about.items():
        print(f"{key:<{width}}  {value}")


# book/91_command_line.ipynb#formats
FORMATS = {  # name: what writes it, and for whom
    "marian": (save_marian, "MarianMTModel and MarianTokenizer of transformers"),
    "ctranslate2": (save_ctranslate2, "CTranslate2, which needs the package ctranslate2"),
}


def import_command(arguments: argparse.Namespace) -> None:
    """Make a model folder from one in Hugging Face's MarianMT format."""
    output = Path(arguments.output)
    refuse_to_overwrite(output)
    translator = load_marian(arguments.folder, "cpu")
    translator.save(output)
    if ignored := translator.notes.get("ignored"):
        say(f"settings of {arguments.folder} that are not followed: {', '.join(ignored)}")
    say(f"a model of {translator.model.num_parameters():,} parameters is in {output}")


def export_command(arguments: argparse.Namespace) -> None:
    """Write a model in another system's format."""
    output = Path(arguments.output)
    refuse_to_overwrite(output)
    write, _ = FORMATS[arguments.format]
    write(Translator.load(arguments.model, "cpu"), output)
    say(f"the model is in {output}, in the format of {arguments.format}")


# book/91_command_line.ipynb#format-options
def add_import_options(command: argparse.ArgumentParser) -> None:
    """The options of `import-marian`."""
    command.add_argument("folder", metavar="FOLDER", help="folder with config.json, model.safetensors, source.spm, "
        "target.spm and vocab.json, such as a downloaded OPUS-MT model")  # fmt: skip
    command.add_argument("output", metavar="OUTPUT", help="folder for the model")


def add_export_options(command: argparse.ArgumentParser) -> None:
    """The options of `export`."""
    command.add_argument("--format", choices=tuple(FORMATS), required=True, help="the format to write")
    command.add_argument("model", **MODEL)
    command.add_argument("output", metavar="OUTPUT", help="folder for the exported model")


# book/91_command_line.ipynb#examples
EXAMPLES = {
    "train": """
        annotated train --corpus embedded --output runs/embedded
        annotated train --corpus multi30k --download --output runs/multi30k --max-minutes 30
        annotated train --corpus pairs.tsv --vocab-size 2000 --output runs/own
        annotated train --corpus news.en,news.fr --target fr --output runs/news
        annotated train --resume --output runs/own --max-minutes 60""",
    "prepare": """
        annotated prepare --corpus news.en.gz,news.de.gz --output stores/news
        annotated train --corpus stores/news --recipe base --output runs/news
        annotated prepare --corpus europarl/ crawl.en,crawl.de --vocab-size 32000 --output stores/both
        annotated prepare --corpus wmt14 --from downloads/wmt14 --output stores/wmt14""",
    "translate": """
        echo "The old aunt found the keys yesterday." | annotated translate embedded
        annotated translate runs/multi30k < input.txt > output.txt
        echo "A dog runs through the snow." | annotated translate runs/multi30k --n-best 4
        annotated translate runs/multi30k --engine ctranslate2 --penalty power < input.txt""",
    "evaluate": """
        annotated evaluate runs/multi30k
        annotated evaluate runs/multi30k --beam-size 1 --json greedy.json
        annotated evaluate runs/multi30k --corpus pairs.tsv --split valid --translations out.txt""",
    "average": """
        annotated average runs/multi30k --last 5 --output runs/multi30k-average""",
    "info": """
        annotated info
        annotated info runs/multi30k""",
    "import-marian": """
        annotated import-marian opus-mt-en-de models/opus-mt-en-de
        annotated translate models/opus-mt-en-de < input.txt""",
    "export": """
        annotated export --format marian runs/multi30k marian
        annotated export --format ctranslate2 runs/multi30k ctranslate2""",
}


# book/91_command_line.ipynb#epilog
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


# book/91_command_line.ipynb#about-commands
COMMANDS = {  # name: usage, description
    "train": ("--corpus NAME --output FOLDER [options]",
        "Learn a vocabulary and train a model on a corpus. The output folder gets the best model by validation loss, "
        "run.json (settings, machine, result), metrics.jsonl, and checkpoints to average. Training ends at the first "
        "limit of steps, epochs and minutes. Ctrl-C saves the state; --resume goes on with it."),
    "prepare": ("--corpus NAME [NAME ...] --output FOLDER [options]",
        "Read corpora as a stream, leave out pairs that are empty, too long, of an unlikely ratio or there already, "
        "learn a vocabulary, and write a store: a folder that `train --corpus` reads without loading it."),
    "translate": ("MODEL [options] < input.txt > output.txt",
        "Translate standard input to standard output, both UTF-8: one line out for one line in, in the same order, "
        "also for empty lines. A line longer than the model allows is cut, and said on standard error."),
    "evaluate": ("MODEL [options]",
        "Translate a split of a corpus and score it with sacreBLEU: BLEU by three rulers and chrF, each with its "
        "signature, and the share of exact matches. The rulers: 13a, international tokens, and hyphens split as in "
        "the paper's time."),
    "average": ("RUN --output FOLDER [--last N]",
        "Write the mean of a run's last checkpoints as a model of its own (section 6.1 of the paper)."),
    "info": ("[MODEL]",
        "Say what a model folder holds, or, without one, what this installation is and which device it would use."),
    "import-marian": ("FOLDER OUTPUT",
        "Make a model folder from one in Hugging Face's MarianMT format, such as a downloaded OPUS-MT model with "
        "weights in model.safetensors. Beam size and length penalty come with it."),
    "export": (f"--format {'|'.join(FORMATS)} MODEL OUTPUT",
        f"Write a model for {', or for '.join(readers for _, readers in FORMATS.values())}."),
}  # fmt: skip
EXIT = (
    "exit status: 0 done; 1 something is wrong with the input, said in one line; 2 wrong options; "
    "130 ended by Ctrl-C, 128 + N by signal N; 141 nobody read the output"
)


# book/91_command_line.ipynb#parser
def build_parser() -> argparse.ArgumentParser:
    """The command's options; those of `train` come from the configuration dataclasses."""
    form = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    about = "Train the Transformer of 'Attention Is All You Need', and translate with it."
    more = f"`annotated COMMAND --help` says more about each, with examples.\n\n{EXIT}"
    parser = argparse.ArgumentParser(prog="annotated", description=about, epilog=more, **form)
    parser.add_argument("--version", action="version", version=f"annotated {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parts = {
        "train": (train_command, add_train_options),
        "prepare": (prepare_command, add_prepare_options),
        "translate": (translate_command, add_translate_options),
        "evaluate": (evaluate_command, add_evaluate_options),
        "average": (average_command, add_average_options),
        "info": (info_command, add_info_options),
        "import-marian": (import_command, add_import_options),
        "export": (export_command, add_export_options),
    }
    for name, (run, add) in parts.items():
        usage, about = COMMANDS[name]
        texts = {"description": textwrap.fill(about, 90), "epilog": epilog(name), "help": run.__doc__.splitlines()[0]}
        command = commands.add_parser(name, usage=f"annotated {name} {usage}", **texts, **form)
        command.set_defaults(run=run, error=command.error)
        add(command)
    return parser


# book/91_command_line.ipynb#train-options
MODEL = {"metavar": "MODEL", "help": "model folder, or embedded: the book's own model, which the package carries"}
DEVICE = {"default": "auto", "metavar": "NAME", "help": "cpu, cuda, cuda:1 ...; auto takes a GPU if there is one"}


def add_train_options(command: argparse.ArgumentParser) -> None:
    """The options of `train`."""
    command.add_argument("--corpus", metavar="NAME",
        help=f"{', '.join(NAMED)}, a folder with train.en and train.de (or train.tsv), a TSV file, "
             "two text files joined by a comma, or a store; needed unless --resume")  # fmt: skip
    command.add_argument("--source", metavar="CODE", help="source language, as in the files' names (default: en)")
    command.add_argument("--target", metavar="CODE", help="target language (default: de)")
    command.add_argument("--download", action="store_true", help="fetch multi30k from its public repository")
    command.add_argument("--output", required=True, metavar="FOLDER", help="folder for model, metrics and checkpoints")
    command.add_argument("--resume", action="store_true",
        help="go on with the run in the output folder, with its settings; only the limits may change")  # fmt: skip
    command.add_argument("--recipe", choices=RECIPES, help="settings to start from (default: embedded for that corpus, "
        "else small); see the end of this help")  # fmt: skip
    command.add_argument("--vocab-size", type=count, metavar="N", help="pieces of the shared vocabulary; by the recipe")
    command.add_argument("--device", **DEVICE)
    command.add_argument("--quiet", action="store_true", help="no progress bar")
    add_options(command, "model", TransformerConfig, "The defaults are the paper's base model; a recipe changes some.")
    add_options(command, "training", TrainingConfig, "A recipe changes some of these, too. An option wins over both.")


# book/91_command_line.ipynb#prepare-options
STORE_OPTIONS = {  # name: parser, what it is
    "vocab_size": (count, "N", "pieces of the shared vocabulary"),
    "max_length": (count, "N", "longest sentence in tokens"),
    "max_ratio": (not_negative, "X", "largest ratio of the sides' tokens"),
    "sample": (count, "N", "pairs from which the vocabulary is learned"),
    "held_out": (count, "N", "pairs for valid and for test where the corpus has none, at most a fiftieth"),
}


def add_prepare_options(command: argparse.ArgumentParser) -> None:
    """The options of `prepare`."""
    command.add_argument("--corpus", metavar="NAME", nargs="+", required=True,
        help=f"{', '.join(NAMED)}, folders with train.en and train.de (or train.tsv), TSV files, pairs of text files "
             "joined by a comma, .gz or not; or wmt14")  # fmt: skip
    command.add_argument("--from", dest="folder", metavar="FOLDER", help="where the files of wmt14 were unpacked")
    command.add_argument("--source", metavar="CODE", help="source language, as in the files' names (default: en)")
    command.add_argument("--target", metavar="CODE", help="target language (default: de)")
    command.add_argument("--download", action="store_true", help="fetch multi30k from its public repository")
    command.add_argument("--output", required=True, metavar="FOLDER", help="folder for the store")
    for name, (parse, metavar, what) in STORE_OPTIONS.items():
        default = getattr(StoreSettings, name)
        command.add_argument(flag(name), type=parse, metavar=metavar, help=f"{what} (default: {default})")
    command.add_argument("--workers", type=count, metavar="N", help="processes that encode (default: one a core)")
    command.add_argument("--quiet", action="store_true", help="no progress bar")


# book/91_command_line.ipynb#search-options
def add_search_options(command: argparse.ArgumentParser) -> None:
    """The options of searching for a translation."""
    command.add_argument("--beam-size", type=count, metavar="N",
        help="1 is greedy search (default: 4, or what an imported model brings)")  # fmt: skip
    command.add_argument("--length-penalty", type=penalty, metavar="A",
        help="alpha of the length penalty; more favours longer outputs (default: 0.6, or likewise)")  # fmt: skip
    command.add_argument("--penalty", choices=tuple(PENALTIES),
        help="what is raised to alpha: (5 + length) / 6, or the length (default: gnmt, or likewise)")  # fmt: skip
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
    command.add_argument("--chunk", type=count, metavar="N",
        help="lines to read before translating them (default: 1000, on a terminal 1)")  # fmt: skip
    add_search_options(command)


# book/91_command_line.ipynb#other-options
def add_evaluate_options(command: argparse.ArgumentParser) -> None:
    """The options of `evaluate`."""
    command.add_argument("model", **MODEL)
    command.add_argument("--corpus", metavar="NAME", help="default: the corpus that the model was trained on")
    command.add_argument("--source", metavar="CODE", help="source language (default: the model's)")
    command.add_argument("--target", metavar="CODE", help="target language (default: the model's)")
    command.add_argument("--split", default="test", metavar="NAME",
        help=f"part of the corpus; the book's own has {', '.join(SPLITS)} (default: test)")  # fmt: skip
    command.add_argument("--max-words", type=count, metavar="N", help="only sources of at most N words")
    command.add_argument("--translations", metavar="FILE", help="write the translations there")
    command.add_argument("--json", metavar="FILE", help="write scores, settings and machine there")
    add_search_options(command)


def add_average_options(command: argparse.ArgumentParser) -> None:
    """The options of `average`."""
    command.add_argument("run_folder", metavar="RUN", help="folder of a training run")
    command.add_argument("--last", type=count, default=5, metavar="N",
        help="how many checkpoints (default: 5, as in the paper for the base model; 20 for the big one)")  # fmt: skip
    command.add_argument("--output", required=True, metavar="FOLDER", help="folder for the averaged model")


def add_info_options(command: argparse.ArgumentParser) -> None:
    """The options of `info`."""
    command.add_argument("model", nargs="?", **MODEL)


# book/91_command_line.ipynb#main
def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. What the user can mend is one line on standard error.

    Defined in chapter 91: `main`.
    """
    for stream, options in ((sys.stdout, {"newline": "\n"}), (sys.stderr, {"errors": "replace"})):
        if isinstance(stream, io.TextIOWrapper):  # in a notebook it is something else, and UTF-8 already
            stream.reconfigure(encoding="utf-8", **options)
    name, status = "annotated", 0
    try:
        options = build_parser().parse_args(arguments)
        name = f"annotated {options.command}"
        with processes() if options.run in TOGETHER else nullcontext():
            if rank():  # one process speaks
                sys.stdout = open(os.devnull, "w")  # noqa: SIM115
            status = options.run(options) or 0
            print(end="", flush=True)
    except SystemExit as end:  # --help, --version, or an option that argparse refused and has explained
        status = end.code
        forget_output()
    except (Exception, KeyboardInterrupt) as error:
        status, line = explained(error)
        forget_output()
        if line and first_to_tell():
            tell(f"{name}: {' '.join('; '.join([line, *getattr(error, '__notes__', [])]).split())}")
    return status


# book/91_command_line.ipynb#explained
TOGETHER = (train_command, translate_command, evaluate_command)  # what several processes do together


def explained(error: BaseException) -> tuple[int, str]:
    """The exit status of an error, and its line. Raises the error again when it is a fault of the program."""
    if isinstance(error, KeyboardInterrupt):
        return 128 + (error.args[0] if error.args else signal.SIGINT), "interrupted"
    if isinstance(error, BrokenPipeError):
        return 141, ""  # the reader went away: nobody is left to tell
    if isinstance(error, Abandoned):
        return 1, "another process of this run has ended; after training, --resume goes on from the last checkpoint"
    if isinstance(error, BrokenProcessPool):
        return 1, "a worker process ended; if memory was short, lower --max-tokens or --workers"
    if isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error):
        return 1, "out of memory: lower --max-tokens, or choose a smaller model"
    if isinstance(error, OSError) and error.strerror:
        return 1, f"{error.filename or 'standard output'}: {error.strerror}"
    if isinstance(error, InputError | OSError):
        return 1, str(error)
    raise error


# book/91_command_line.ipynb#say
def say(text: str) -> None:
    """A line for people, on standard error; of several processes only the first says it."""
    if not rank():
        tell(text)


def tell(text: str) -> None:
    """`say` of any process."""
    if sys.stderr is not None:
        with suppress(OSError):  # a command goes on when nobody listens
            print(text, file=sys.stderr, flush=True)


def forget_output() -> None:
    """After an error: write out what can be written, and keep Python's exit from failing on the rest."""
    try:
        print(end="", flush=True)
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
