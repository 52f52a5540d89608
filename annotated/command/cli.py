"""The `annotated` command."""

import argparse
import io
import math
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch

from annotated import __version__, today
from annotated.base.corpus import Corpus, SentencePair
from annotated.base.files import (
    FREE_SPACE,
    InputError,
    disk,
    manifest_of,
    missing_folders,
    read_json,
    remove_folders,
    with_todo,
    write_atomically,
    write_json,
)
from annotated.command.commands import forget_output, outline
from annotated.command.options import FORMATS, OPTIONS, STORE_OPTIONS, epilog, settings_of
from annotated.command.terminal import Stop, chunks, columns, ended_like_ctrl_c, input_lines, say, shared, tell
from annotated.formats.engine import FastTranslator, check_search
from annotated.formats.marian import load_marian
from annotated.formats.published import load_published, read_config, read_tokenizer, texts
from annotated.machine.acceleration import PROCESS_SETTINGS, tune_machine
from annotated.machine.devices import best_device, choose_precision, describe_machine
from annotated.machine.distributed import Abandoned, first_to_tell, from_first, processes, rank, world_size
from annotated.model import Transformer, TransformerConfig
from annotated.runs.checkpoint import (
    average_weights,
    find_model,
    load_config,
    load_model,
    load_weights,
    own_tokenizer,
    save_model,
)
from annotated.runs.recipes import recipe_for
from annotated.runs.state import TrainingState, check_checkpoint, checkpoints
from annotated.runs.training import train_on_corpus
from annotated.search.translation import Translator, search_from
from annotated.text.corpora import NAMED, files_of, load_corpus, shared_pairs
from annotated.text.evaluation import antecedent_accuracy, bleu_by_ruler, choose_ruler, evaluate_translations, too_short
from annotated.text.preparation import StoreSettings, prepare, text_of, wmt14
from annotated.text.store import Store, is_store, open_store
from annotated.training import PRECISIONS, TrainingConfig

__all__ = ["main"]


def refuse_to_overwrite(folder: Path) -> None:
    """Raise InputError when a run or a model is in the folder already."""
    for name, what in {"run.json": "run", "model.safetensors": "model", "model.bin": "model"}.items():
        if (folder / name).exists():
            raise InputError(f"{folder}: holds a {what} already; choose another folder")


def recorded_run(folder: Path) -> dict[str, Any]:
    """What a run's `run.json` says. Raises InputError when it is missing, or is not the record of a run."""
    path = folder / "run.json"
    if not path.exists():
        raise InputError(
            f"{folder}: no run to resume there (no run.json)",
            "Check the path after `--output`, or start anew without `--resume`.",
        )
    run = read_json(path)
    kinds = {"corpus": str, "source": str, "target": str, "model": dict, "training": dict, "settings": dict}
    for key, kind in kinds.items():
        if not isinstance(run, dict) or not isinstance(run.get(key, {} if key == "settings" else None), kind):
            raise InputError(
                f"{path}: not the record of a training run ({key!r} is missing, or something else)",
                "Put back the `run.json` that the training wrote.",
            )
    try:
        TransformerConfig(**run["model"])
        TrainingConfig(**run["training"])
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{path}: not the record of a training run ({error})",
            "Put back the `run.json` that the training wrote, or use the version that wrote it.",
        ) from None
    return run


def train_command(arguments: argparse.Namespace) -> int:
    """Train on a corpus; the best model by validation loss ends in the output folder."""
    if not (arguments.corpus or arguments.resume):
        arguments.error("the following arguments are required: --corpus")
    if arguments.begin_from and arguments.resume:
        arguments.error("argument --from: a run to resume has its own weights")
    folder, device = Path(arguments.output), best_device(arguments.device)
    run = recorded_run(folder) if arguments.resume else {}
    if not run and not (folder / "run.json").exists():  # whether a run may be written over, `prepare_folder` says
        refuse_to_overwrite(folder)
    corpus = corpus_of(arguments, run)
    if not run:
        arguments.recipe = arguments.recipe or recipe_for(arguments.corpus, len(training_pairs(corpus)))
    model_options, training, vocab_size = settings_of(arguments, run)
    about = [corpus.name, f"{corpus.source_language} to {corpus.target_language}"]
    alone = not isinstance(corpus, Store) and "all" in corpus.loaders  # a file, whose name says no language
    if alone and not (run or arguments.source or arguments.target):
        about[1] = f"taken as {about[1]} (--source, --target)"
    if not isinstance(corpus, Store) and corpus.name not in NAMED:
        about += [f"{len(corpus.split(name)):,} pairs in {name}" for name in corpus.loaders if name != "all"]
    say(f"{', '.join(about)}, on {describe_machine(device)['device']}")
    sizes = TransformerConfig(vocab_size if isinstance(vocab_size, int) else 1000, **model_options)
    options = training.beyond_the_paper(sizes)
    beyond = ", ".join(f"{name} {value}" for name, value in options.items()) or "nothing"
    begun = f"resuming the run in {folder}" if run else f"recipe {arguments.recipe}"
    if arguments.begin_from:
        begun += f", beginning with {arguments.begin_from}"
    say(f"{begun}; beyond the paper: {beyond}")
    if not run and training.max_steps and training.max_steps < training.warmup_steps:
        say(f"the run ends at step {training.max_steps}, while the rate still rises for {training.warmup_steps} steps: "
            f"`--warmup-steps {max(1, training.max_steps // 4)}` would be over by then")  # fmt: skip
    if not run and arguments.accumulation is None and training.accumulation < world_size():
        training = replace(training, accumulation=world_size())
        say(f"a step takes a batch of each of the {world_size()} processes: accumulation {world_size()}")
    if training.label_smoothing or sizes.dropout:
        noisy = {"dropout": sizes.dropout, "label smoothing": training.label_smoothing}
        said = " and ".join(f"{name} {value}" for name, value in noisy.items() if value)
        say(f"the loss of training is measured with {said}, that of validation without: it may be far lower")
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
            vocabulary={"normalization": arguments.normalization or "identity", "at_most": not arguments.vocab_size},
            begin_from=find_model(arguments.begin_from) if arguments.begin_from else None, device=device,
            resume=arguments.resume, progress=with_bar(arguments), settings=settings, stop=received, warn=say,
            report=say,
        )  # fmt: skip
    report_training(state, folder, run)
    if received.number:
        say(f"stopped before its limit; `annotated train --resume --output {folder}` goes on")
    return 128 + received.number if received.number else 0


def tuned(wanted: bool, recorded: dict[str, bool] | None = None) -> dict[str, bool]:
    """Settings of the process for a command: none unless wanted, those of the run to resume if it recorded some.

    Returns which are on, and says which of the recorded ones cannot be had here.
    """
    settings = tune_machine((recorded or None) if wanted else dict.fromkeys(PROCESS_SETTINGS, False))
    for name, on in (recorded or {}).items():
        if wanted and settings.get(name) != on:
            say(f"{name} was {'on' if on else 'off'} when the run began, and cannot be so here: results may differ")
    return settings


def corpus_of(arguments: argparse.Namespace, run: dict) -> Corpus | Store:
    """The corpus to train on; a resumed run has its own, which may have moved."""
    name = arguments.corpus or run["corpus"]
    if run and name != run["corpus"]:
        say(f"the run began on {run['corpus']} and goes on with {name}")
    store = open_store(Path(name)) if is_store(name) else None
    known = {"source": store.source_language, "target": store.target_language} if store else run
    for option in ("source", "target"):
        if (own := known.get(option)) and getattr(arguments, option) not in (None, own):
            place = name if store else arguments.output
            raise InputError(
                f"{place}: its {option} language is {own}, not {getattr(arguments, option)}",
                "Leave `--source` and `--target` out: a store, and a run to resume, know their languages.",
            )
    if store:
        return store
    load = load_corpus if arguments.corpus else known_corpus
    languages = arguments.source or run.get("source", "en"), arguments.target or run.get("target", "de")
    return load(name, *languages, arguments.download)


def with_bar(arguments: argparse.Namespace) -> bool:
    """Whether to draw a progress bar: it is for eyes, and a log is better without."""
    return sys.stderr.isatty() and not arguments.quiet


def training_pairs(corpus: Corpus | Store) -> Sequence:
    """What there is to train on, to be counted."""
    return corpus.train if isinstance(corpus, Store) else corpus.split("train")


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
    prepare(text, Path(arguments.output), settings, workers=workers, say=say, progress=with_bar(arguments))


def report_training(state: TrainingState, folder: Path, run: dict) -> None:
    """Say how far training came."""
    if run and run.get("steps") == state.step:
        say("the run had reached its limit already: give a later --max-steps, --max-epochs or --max-minutes")
    say(f"{state.step} steps, {state.tokens:,} target tokens, {state.seconds / 60:.1f} minutes")
    if math.isfinite(state.best_loss):
        say(f"best validation loss {state.best_loss:.4f}; the model is in {folder}")


def translate_command(arguments: argparse.Namespace) -> None:
    """Translate standard input to standard output: one line out for one line in."""
    tuned(arguments.accelerate)
    size = arguments.chunk or from_first(lambda: 1 if sys.stdin and sys.stdin.isatty() else 1000 * world_size())
    workers = arguments.workers or (1 if size == 1 or world_size() > 1 else torch.get_num_threads())
    if arguments.sample is not None and (arguments.n_best or arguments.prefixes or arguments.min_length):
        arguments.error("argument --sample: draws one translation a line, without --n-best, --prefixes, --min-length")
    translator, n_best = load_translator(arguments, workers), arguments.n_best or 1
    options = search_options(arguments, translator.search)
    if n_best > options["beam_size"]:
        arguments.error(f"argument --n-best: a beam of {options['beam_size']} has no {n_best} translations")
    options |= {"max_tokens": arguments.max_tokens, "n_best": n_best}
    if arguments.sample is not None:
        options |= {"temperature": arguments.sample}
    if arguments.prefixes and arguments.engine == "ctranslate2":
        say("CTranslate2 keeps the pieces of a prefix as they are: end it at the end of a word")
    printed = flushed = 0  # lines; those that are only printed come out at the end, unless the output itself fails
    try:
        with ended_like_ctrl_c(), translator.workers(workers):
            for lines in shared(chunks(input_lines(), size)):
                if arguments.prefixes:
                    lines, _, options["prefixes"] = zip(*map(columns, lines), strict=True)
                else:
                    lines = [line.strip() for line in lines]
                options |= {"seed": 1_000_003 * arguments.seed + printed} if arguments.sample is not None else {}
                for translations in translator.translate_n_best(lines, warn=about_lines(printed), **options):
                    number = printed + 1
                    if arguments.n_best is None:
                        sys.stdout.write(f"{in_a_line(translations[0].text)}\n")
                    else:
                        shown = (f"{number}\t{one.score:.4f}\t{in_a_line(one.text)}\n" for one in translations)
                        sys.stdout.write("".join(shown))
                    printed = number
                sys.stdout.flush()
                flushed = printed
    except InputError:  # it names a line itself
        raise
    except BaseException as error:
        error.add_note(f"stopped after line {flushed if isinstance(error, OSError) else printed}")
        raise


def search_options(arguments: argparse.Namespace, own: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the search, as `translate` takes them: the given ones, else the model's own."""
    given = {name: getattr(arguments, name) for name in own}
    options = {name: own[name] if value is None else value for name, value in given.items()}
    if arguments.limit is not None and arguments.min_length > arguments.limit:
        arguments.error(f"argument --min-length: {arguments.min_length} is above --limit {arguments.limit}")
    return options | {"limit": arguments.limit, "min_length": arguments.min_length}


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
    check_search(options)
    return FastTranslator.load(arguments.model, arguments.device, arguments.precision, workers=workers, warn=say)


def in_a_column(piece: str) -> str:
    """A piece of a vocabulary; tabs and line breaks, which would end its column, by the names of their bytes."""
    return re.sub(r"[\t\r\n]", lambda found: f"<0x{ord(found[0]):02X}>", piece)


def in_a_line(text: str) -> str:
    """The text without line breaks, which a model can write, byte by byte."""
    return re.sub(r"[\r\n]+", " ", text)


def about_lines(done: int) -> Callable[[str], None]:
    """What says the translator's remarks: its "sentence 3" is a line of the whole input, `done` lines later."""
    return lambda text: say(re.sub(r"^sentence (\d+)", lambda found: f"line {done + int(found[1])}", text))


def score_command(arguments: argparse.Namespace) -> None:
    """Say how likely given translations are, by token: lines of a source, a tab and a translation."""
    translator, done = Translator.load(arguments.model, arguments.device, arguments.precision), 0

    def pairs() -> Iterator[tuple[str, str]]:
        for number, line in enumerate(input_lines(), start=1):
            source, tab, translation = columns(line)
            if source and not tab:
                raise InputError(
                    f"standard input: line {number} has no tab between source and translation",
                    "Write a source, a tab and its translation on each line; the lines before it are done.",
                )
            yield source, translation

    for lines in chunks(pairs(), 1000):
        sources, translations = map(list, zip(*lines, strict=True))
        about = {"max_tokens": arguments.max_tokens, "warn": about_lines(done)}
        for tokens in translator.score(sources, translations, **about):
            total = sum(value for _, value in tokens)
            sys.stdout.write(
                "\t".join([f"{total:.4f}", *(f"{in_a_column(piece)} {value:.4f}" for piece, value in tokens)]) + "\n"
            )
        done += len(lines)


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
    if "all" in corpus.loaders and arguments.split != "all":
        whole = f"{len(corpus.split('all')):,} pairs"
        say(f"{arguments.split} is a part of {corpus.name}: --split all takes all of its {whole}")
    if said := shared_pairs(corpus, arguments.split):
        say(said)
    ruler, remarks = choose_ruler(corpus.target_language, arguments.ruler)  # said before the translating, which is long
    for line in remarks:
        say(line)
    options, start = search_options(arguments, translator.search), time.perf_counter()
    sources = [pair.source for pair in pairs]
    with translator.workers(workers):
        translations = translator.translate(sources, warn=say, max_tokens=arguments.max_tokens, **options)
    seconds = time.perf_counter() - start
    if rank():
        return  # one process scores and writes
    counted = [(line, pair.target) for line, pair in zip(translations, pairs, strict=True) if has_text(pair)]
    sides, pronouns = [list(side) for side in zip(*counted, strict=True)], {}
    others = [name for name in beside(ruler, corpus) if not too_short(name, sides[1])]
    scores = evaluate_translations(*sides, ruler=ruler)
    rulers = {ruler: {"bleu": scores.bleu, "signature": scores.bleu_signature}} | bleu_by_ruler(*sides, others)
    if left_out := len(pairs) - len(counted):
        say(f"not counted, since both sides of a pair are empty: {left_out} of {len(pairs)} pairs")
    for line in scores.remarks:
        say(line)
    if any(pair.antecedents for pair in pairs):
        pronouns["antecedent_accuracy"] = antecedent_accuracy(translations, pairs)
    if "translations" in outputs:
        write_atomically(outputs["translations"], "".join(in_a_line(line) + "\n" for line in translations).encode())
    if "json" in outputs:
        about = {"model": arguments.model, "corpus": corpus.name, "split": arguments.split}
        about |= {"max_words": arguments.max_words} | options
        about |= {"engine": arguments.engine, "precision": arguments.precision} | asdict(scores) | pronouns
        about |= {"remarks": [*remarks, *scores.remarks], "left_out": left_out}
        about |= {"rulers": rulers, "seconds": round(seconds, 2)}
        write_json(outputs["json"], about | describe_machine(translator.model.target_embedding.weight.device))
    print(f"{corpus.name}, {arguments.split}: {scores.sentences} sentences, beam {options['beam_size']}, "
          f"length penalty {options['length_penalty']}, {scores.sentences / seconds:.1f} sentences/s")  # fmt: skip
    print(f"BLEU {scores.bleu:.2f} ({scores.bleu_signature}, brevity penalty {scores.brevity_penalty:.3f})")
    for name in others:
        print(f"by another ruler: BLEU {rulers[name]['bleu']:.2f} ({rulers[name]['signature']})")
    print(f"chrF {scores.chrf:.2f} ({scores.chrf_signature})")
    print(f"exact match {100 * scores.exact_match:.2f}%")
    if pronouns:
        print(
            f"pronouns of the right gender {100 * pronouns['antecedent_accuracy']:.2f}% (where there is an antecedent)"
        )


def corpus_to_score(arguments: argparse.Namespace, notes: dict[str, Any]) -> Corpus:
    """The corpus that the user names, or the one that the model was trained on."""
    languages = arguments.source or notes.get("source", "en"), arguments.target or notes.get("target", "de")
    if arguments.corpus:
        return load_corpus(arguments.corpus, *languages, arguments.download)
    return known_corpus(notes.get("corpus", "embedded"), *languages, arguments.download)


def known_corpus(name: str, source: str, target: str, download: bool = False) -> Corpus:
    """The corpus of a model or a run. Raises InputError where it is not there any more, or not from here."""
    if name not in NAMED and not any(path.exists() for path in files_of(name)):
        raise InputError(
            f"{name}: the corpus of this model is not there, seen from {Path.cwd()}", "Name it with `--corpus`."
        )
    return load_corpus(name, source, target, download)


def pairs_to_score(corpus: Corpus, split: str, max_words: int | None) -> list[SentencePair]:
    """The pairs of a split whose sources have at most `max_words` words. Raises InputError when there is none."""
    pairs = corpus.split(split)
    if max_words is not None:
        pairs = [pair for pair in pairs if len(pair.source.split()) <= max_words]
    if not any(map(has_text, pairs)):
        raise InputError(
            f"corpus {corpus.name}: no pair in {split} to evaluate on", "Raise `--max-words`: every sentence is longer."
        )
    return pairs


def has_text(pair: SentencePair) -> bool:
    """Whether there is something on a side of the pair; files have empty pairs where lines are blank."""
    return bool(pair.source.strip() or pair.target.strip())


def beside(ruler: str, corpus: Corpus) -> list[str]:
    """The rulers shown beside the chosen one, where words have spaces between them; `split` is the paper's."""
    if choose_ruler(corpus.target_language)[0] != "13a":
        return []
    return [name for name in ("13a", "intl", "split") if name != ruler]


def check_writable(path: Path) -> None:
    """Raise InputError when a file cannot be written there; leave nothing behind."""
    if path.is_symlink() or (path.exists() and not path.is_file()):  # /dev/stdout is both, and would be replaced
        raise InputError(
            f"{path}: cannot be written (it is a link, or no file)", "Name a file; a link would be replaced."
        )
    trial, fresh = path.with_name(path.name + ".partial"), missing_folders(path)
    try:
        disk.make_folder(path.parent)
        try:
            disk.write(trial, b"")
        finally:
            with suppress(OSError):
                disk.remove(trial)
            remove_folders(fresh)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{path}: cannot be written ({path.parent} is no folder)") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})", FREE_SPACE) from None


def average_command(arguments: argparse.Namespace) -> None:
    """Average the last checkpoints of a run into a model of its own (section 6.1)."""
    folder, output = Path(arguments.run_folder), Path(arguments.output)
    if not folder.is_dir():
        raise InputError(
            f"{folder}: no such run folder", "Check the path. A run is the folder that `annotated train` wrote to."
        )
    refuse_to_overwrite(output)
    config, notes = load_config(folder)
    paths = checkpoints(folder)[-arguments.last :]
    if len(paths) < arguments.last:
        raise InputError(
            f"{folder / 'checkpoints'}: {len(paths)} checkpoints there, --last asks for {arguments.last}",
            "Ask for fewer with `--last`; in the next training, `--keep-checkpoints` keeps more.",
        )
    for path in paths:
        check_checkpoint(path)
    model, tokenizer = Transformer(config), own_tokenizer(folder, notes)
    load_weights(model, average_weights(paths), folder / "checkpoints")
    notes = {key: value for key, value in notes.items() if key not in ("format", "model", "step", "valid_loss")}
    names = [path.name for path in paths]
    save_model(model, output, tokenizer, **notes, average_of=names)
    say(f"the average of {', '.join(names)} is in {output}")


def write_command(arguments: argparse.Namespace) -> None:
    """Continue a text from standard input with a published model of today."""
    if arguments.top_p is not None and arguments.temperature is None:
        arguments.error("argument --top-p: says what to draw among, so it goes with --temperature")
    folder, device = Path(arguments.folder), best_device(arguments.device)
    dtype = getattr(torch, arguments.precision) if arguments.precision else None
    read_config(folder / "config.json")  # what cannot be read at all is said first, and what takes long comes last
    tokenizer = read_tokenizer(folder)
    model, length, start, ends = load_published(folder, device, dtype)
    before = tokenizer.encode("\n".join(input_lines())).ids or ([] if start is None else [start])
    if not before:
        raise InputError(
            "standard input: empty, and this model has no token that begins a text", "Write some words to go on with."
        )
    if max(before) >= (size := model.embedding.num_embeddings):
        raise InputError(
            f"{folder / 'tokenizer.json'}: has a token {max(before)}, but the model knows {size}",
            "Take the tokenizer and `config.json` from the same folder.",
        )
    if len(before) >= length:
        raise InputError(
            f"standard input: {len(before):,} tokens leave no room, as the model knows {length:,} places",
            "Leave out the beginning.",
        )
    if (count := min(arguments.tokens, length - len(before))) < arguments.tokens:
        say(f"ends after {count} tokens at most, not {arguments.tokens}: the model knows {length:,} places")
    torch.manual_seed(arguments.seed)
    how = {"temperature": arguments.temperature or 0.0, "top_p": arguments.top_p or 1.0}
    cache, prompt = model.new_cache(), torch.tensor([before], device=device)
    with torch.no_grad():
        for i in range(0, last := len(before) - 1, 512):  # the scores of a long text at once need much memory
            model(prompt[:, i : min(i + 512, last)], cache=cache)
    rows = today.write(model, prompt[:, last:], count, cache=cache, **how)
    try:
        with ended_like_ctrl_c():
            for text in texts(tokenizer, before, takewhile(lambda token: token not in ends, map(int, rows))):
                print(text, end="", flush=True)
    finally:
        print(flush=True)  # also where it was ended: what is said then has a line of its own


def info_command(arguments: argparse.Namespace) -> None:
    """Say what a model folder holds, or, without one, what this installation is."""
    about: dict[str, Any] = {"annotated": __version__} | describe_machine(best_device())
    if arguments.model is not None:
        folder = find_model(arguments.model)
        model, tokenizer, notes = load_model(folder)
        kind = "token ids, no tokenizer" if tokenizer is None else "pieces"
        about = {"parameters": f"{model.num_parameters():,}", "vocabulary": f"{model.config.vocab_size:,} {kind}"}
        if tokenizer is not None:
            about["normalization"] = f"{tokenizer.normalization}, of text before it is cut"
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


def check_command(arguments: argparse.Namespace) -> int:
    """Ask somebody's encoder-decoder or language model what a Transformer must answer. This runs the file."""
    from annotated.doctor.running import FUNCTIONS, Closed, check_file
    from annotated.doctor.wrapping import write_wrapper

    file, _, name = arguments.file.rpartition(":")
    if not file or not name.isidentifier():  # a path of another system may have a colon in it
        file, name = arguments.file, ""
    options = {one: getattr(arguments, one) for one in ("seconds", "wrap", "pad", "bos", "eos", "vocab", "learn")}
    options["one_text"] = arguments.one_text or None
    print(f"running {file}", file=sys.stderr)
    try:
        reports = check_file(file, name, **options)
    except InputError as error:
        if isinstance(error, Closed) and not arguments.wrap:
            tell(f"annotated check: {error}. Write these lines at the end of {file}, fill in each `...`, and run")
            tell(f"    annotated check {file}:mine")
            tell(f"Or let `annotated check --wrap {arguments.file}` write them to a file of their own.")
            print(f"\n{error.lines}")
            return 2
        if isinstance(error, Closed):
            path = write_wrapper(error.file, error.lines)
            print(f"{path} is written: fill in each `...`, then run\n    annotated check {path}:mine")
            return 0
        tell(f"annotated check: {with_todo(error)}")
        return 2
    for note in reports.notes:
        print(f"note: {note}\n")
    print("\n\n".join(f"{name}\n{report}" for name, report in reports.items()))
    wrong = any(not report.ok for report in reports.values())
    return 1 if wrong else max([0, *(report.status for name, report in reports.items() if name not in FUNCTIONS)])


def hunt_command(arguments: argparse.Namespace) -> None:
    """Write a Transformer with mistakes in it, to be found; or its answers."""
    from annotated.doctor.mistakes import hunt

    print(hunt(arguments.seed, arguments.mistakes)[arguments.answers], end="")


def learn_command(arguments: argparse.Namespace) -> int:
    """Write a Transformer yourself, station by station, and be told what becomes of it. This runs the file."""
    from annotated.workbook.learn import watch_file, write_notebook

    path = Path(arguments.file)
    if arguments.notebook:
        write_notebook(path.with_suffix(".ipynb"))
        say(f"{path.with_suffix('.ipynb')} is written: open it in Jupyter, or upload it to Colab")
        return 0
    return watch_file(path, partial(print, flush=True), once=arguments.once, again=arguments.again, seed=arguments.seed)


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
    write, _, use = FORMATS[arguments.format]
    translator = Translator.load(arguments.model, "cpu")
    write(translator, output)
    say(f"the model is in {output}, in the format of {arguments.format}")
    models = [name for name in translator.tokenizer.files() if name.endswith((".model", ".spm"))]
    say(f"to use it: {use.format(folder=output, cut=models[0], join=models[-1])}")


RUN = {
    "train": train_command, "prepare": prepare_command, "translate": translate_command, "score": score_command,
    "evaluate": evaluate_command, "average": average_command, "write": write_command, "info": info_command,
    "import-marian": import_command, "export": export_command, "check": check_command, "hunt": hunt_command,
    "learn": learn_command,
}  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    """The command's options; those of `train` come from the configuration dataclasses."""
    parser, commands = outline()
    for name, command in commands.items():
        command.epilog = epilog(name)
        command.set_defaults(run=RUN[name], error=command.error)
        OPTIONS[name](command)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. What the user can mend is one line on standard error."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: what is written goes nowhere
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    for stream, options in ((sys.stdout, {"newline": "\n"}), (sys.stderr, {"errors": "replace"})):
        if isinstance(stream, io.TextIOWrapper):  # in a notebook it is something else, and UTF-8 already
            stream.reconfigure(encoding="utf-8", **options)
    name, status = "annotated", 0
    try:
        options, unknown = build_parser().parse_known_args(arguments)
        if unknown:  # said with the usage of the command, which argparse would not do
            options.error(f"unrecognized arguments: {' '.join(unknown)}")
        name = f"annotated {options.command}"
        with processes() if options.run in DISTRIBUTED else nullcontext():
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
            tell(f"{name}: {with_todo(error, line)}")
    return status


DISTRIBUTED = (train_command, translate_command, evaluate_command)  # what several processes do together


def explained(error: BaseException) -> tuple[int, str]:
    """The exit status of an error, and its line. Raises again what is a fault of the program."""
    if isinstance(error, KeyboardInterrupt):
        return 128 + (error.args[0] if error.args else signal.SIGINT), "interrupted"
    if isinstance(error, BrokenPipeError):
        return 141, ""  # the reader went away: nobody is left to tell
    if isinstance(error, Abandoned):
        return 1, "another process of this run has ended; after training, --resume goes on from the last checkpoint"
    if isinstance(error, BrokenProcessPool):
        return 1, "a worker process ended; if memory was short, lower --max-tokens or --workers"
    if isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error):
        return 1, "out of memory: choose a smaller model, or lower --max-tokens where the command has it"
    if isinstance(error, OSError) and error.strerror:
        return 1, f"{error.filename or 'standard output'}: {error.strerror}"
    if isinstance(error, InputError | OSError):
        return 1, str(error)
    raise error
