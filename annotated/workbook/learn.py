"""The `annotated learn` command: a file is watched, and each save gets a verdict."""

import ast
import hashlib
import io
import json
import linecache
import math
import multiprocessing
import random
import re
import subprocess
import sys
import sysconfig
import textwrap
import time
import tokenize
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from datetime import datetime, timedelta
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, distribution
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import torch

from annotated.base.files import InputError, read_json, with_todo, write_atomically, write_json
from annotated.doctor.asking import CHECKS, MINE, Broken, StillRunning
from annotated.doctor.mistakes import MISTAKES, Mistake, changed_lines, edited, without_comments
from annotated.doctor.running import at_most, run_file
from annotated.workbook.stations import (
    ALL,
    EXAMPLE,
    STATIONS,
    Case,
    Station,
    Transfer,
    as_stations,
    beside,
    emptied,
    functions,
    leading,
    made_of,
    mistaken_transfer,
    pieces,
    places,
    reference,
    replaced,
    same,
    solution,
    translated,
    unwritten,
)

__all__ = ["watch_file", "write_notebook"]


def short(text: str) -> str:
    """A few letters that stand for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Mine(NamedTuple):
    """What somebody has written: its text, its functions by name, and what it has defined."""

    text: str
    nodes: dict[str, ast.FunctionDef]
    names: dict[str, Any]

    def is_blank(self, function: str) -> bool:
        """Whether a function is still to be written."""
        return function not in self.nodes or unwritten(self.nodes[function]) > 0

    def mark(self, blanks: Sequence[str]) -> str:
        """The same for the same code, whatever its comments and its layout."""
        return short("|".join(ast.dump(self.nodes[one]) for one in blanks if one in self.nodes))


SECONDS = 5.0  # how long a file or an answer may compute
OTHERS = (*(sysconfig.get_path(one) for one in ("stdlib", "purelib", "platlib")), *MINE)  # whose lines are not shown


def failure(error: BaseException) -> list[str]:
    """What an exception says, and the lines of somebody's own file that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if not one.filename.startswith(OTHERS)]
    own = [one for one, after in zip(own, [*own[1:], None]) if not after or one.lineno != after.lineno]  # a line once
    text = " ".join(str(error).split())[:300]
    said = text if isinstance(error, (StillRunning, Broken)) else f"{type(error).__name__}: {text}"
    return [*(f"line {one.lineno}, in {one.name}:  {one.line}" for one in own[-3:]), said]


def endless(error: BaseException, mine: Mine) -> list[str]:
    """Which loop of somebody's file was still going on, and what its condition looked at."""
    loops = [one for one in ast.walk(ast.parse(mine.text)) if isinstance(one, (ast.While, ast.For))]
    lines = mine.text.splitlines()
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        shown = linecache.getline(frame.f_code.co_filename, line).strip()
        around = [one for one in loops if one.lineno <= line <= (one.end_lineno or 0)]
        if not around or shown != lines[line - 1].strip():
            continue
        loop = max(around, key=lambda one: one.lineno)
        head = loop.test if isinstance(loop, ast.While) else loop.iter
        names = dict.fromkeys(
            one.id for one in ast.walk(head) if isinstance(one, ast.Name) and one.id in frame.f_locals
        )
        values = (f"{name} = {' '.join(repr(frame.f_locals[name]).split())[:80]}" for name in names)
        return [f"The loop of line {loop.lineno} does not end: {lines[loop.lineno - 1].strip()}",
                *(f"  {one}" for one in values)]  # fmt: skip
    return []


def answer(case: Case, names: dict[str, Any]) -> Any:
    """What a part answers to a case; where it fails, how."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return case.run(names)


class Judgement(NamedTuple):
    """Whether a part is `unwritten`, `partly` written, `wrong` or `right`, what there is to say, and what failed."""

    verdict: str
    lines: list[str] = []  # noqa: RUF012
    part: str = ""
    how: str = ""  # that it `raised`, was `late`, or is `gone`
    question: str = ""  # what leads to the mistake
    kind: str = ""  # the same where the same small input fails in the same way


def judge(cases: tuple[Case, ...], mine: Mine) -> Judgement:
    """Ask the parts of a station, one after the other, until one is wrong or still to be written."""
    parts = list(dict.fromkeys(case.part for case in cases))
    gone = [part for part in parts if part not in mine.nodes]
    if gone:
        return Judgement("wrong", [f"{gone[0]} is no longer in the file."], gone[0], "gone")
    for case in cases:
        if mine.is_blank(case.part):
            if case.part == parts[0]:
                line = unwritten(mine.nodes[case.part])
                return Judgement("unwritten", [f"{case.part} still has a `...` in line {line}."])
            return Judgement("partly", [f"Right so far; {case.part} comes next."])
        shown = textwrap.indent(case.shows, "  ").splitlines()
        expected = answer(case, reference())  # first: what PyTorch loads late for an optimizer is not on their clock
        printed = io.StringIO()
        try:
            with at_most(SECONDS), redirect_stdout(printed), redirect_stderr(printed):
                found = answer(case, mine.names)
        except (Exception, StillRunning) as error:
            sys.stderr.write(printed.getvalue())  # of the other cases, nothing is shown
            late = isinstance(error, StillRunning)
            why = [*failure(error), *(endless(error, mine) if late else [])]
            lines = [f"{case.part} fails. It was asked with", *shown, *(f"    {one}" for one in why)]
            how, question = ("late", LATE) if late else ("raised", RAISED)
            if isinstance(error, Broken):
                question = case.question  # it is no accident
            if re.search(r"\buse\b.* instead\b", str(error), re.IGNORECASE | re.DOTALL):
                question = ""  # PyTorch names the cure
            return Judgement("wrong", lines, case.part, how, question, case.shows + question)
        if not same(expected, found):
            sys.stderr.write(printed.getvalue())
            compared = [*beside(expected, found, case.returns, case.axes), *case.more()]
            lines = [f"{case.part} is asked with", *shown, *(f"    {one}" for one in compared)]
            question = leading(case, expected, found)
            return Judgement("wrong", lines, case.part, "", question, case.shows + question)
    return Judgement("right")


LATE = "What ends your loop, and does anything in the loop bring that about?"
RAISED = "What is each thing in those lines, and which shape does it have? Begin with what the part was asked with."


@cache
def mistaken() -> dict[str, tuple[Mistake, str, dict[str, str]]]:
    """The text of each mistake's copy, in the form of the stations, and its pieces."""
    found = {}
    for one in (*(one for station in ALL for one in station.more), *MISTAKES):
        text = as_stations(edited([one]) or "") if one in MISTAKES else solution()
        for old, new in () if one in MISTAKES else one.edits:
            text = text.replace(old, new)
        with suppress(SyntaxError):  # a mistake that does not fit into a function of its own
            found[f"{one.name}, in {one.part}"] = one, text, pieces(text)
    return found


def copies(station: Station | Transfer) -> Iterator[tuple[Mistake, dict[str, Any]]]:
    """The mistakes that can be made in a station or a transfer, each with the names that its copy defines."""
    if isinstance(station, Transfer):
        yield from ((one, mistaken_transfer(one)) for one in station.more)
        return
    right = pieces(solution())
    for one, text, parts in mistaken().values():
        if any(parts.get(name, right[name]) != right[name] for name in station.pieces):
            yield one, made_of(text)


def answered(case: Case, names: dict[str, Any]) -> Any:
    """What somebody's part answers to a case; where it fails, how, in words."""
    try:
        with at_most(2.0), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            return answer(case, names)
    except (Exception, StillRunning) as error:
        return f"{type(error).__name__}: {error}"


def alike(station: Station | Transfer, mine: Mine, part: str) -> list[Mistake]:
    """The mistakes whose copies answer all cases of a part as somebody's does."""
    theirs = [(case, answered(case, mine.names)) for case in station.cases if case.part == part]
    return [one for one, names in copies(station) if all(same(answered(case, names), found) for case, found in theirs)]


def named(station: Station | Transfer, judged: Judgement, found: Sequence[Mistake]) -> list[str]:
    """The names of mistakes whose copies answer as somebody's part does, and what their owner sees; else a question."""
    if found:
        comes = "This usually comes of" if judged.how else "A known mistake gives exactly these answers"
        seen = [check.symptom for check in CHECKS if check.name == found[0].check]
        seen = [one for one in seen if one and not re.search("See the|this check", one)]
        names = ", or ".join(one.name for one in found[:3])
        return [f"{comes}: {names}.", *(f"What you would notice: {one[0].lower()}{one[1:]}" for one in seen)]
    page, _, cell = station.cells.get(judged.part, station.cell).partition("#")
    is_told = "solved" if isinstance(station, Transfer) else "explained"
    where = f"{judged.part} is {is_told} in chapter {page[:2]}, cell {cell}."
    known = [] if judged.how else ["No single mistake that the book knows gives these answers."]
    return [judged.question, *known, where]


def transplanted(station: Station, names: dict[str, Any]) -> dict[str, Any]:
    """The solution with somebody's parts in it, up to a station."""
    host = made_of(solution())
    for one in ALL[: number(station) + 1]:
        host.update({piece: names[piece] for piece in one.pieces if piece in names})
    return host


def payoff(station: Station, names: dict[str, Any], seconds: float = 10.0) -> list[str]:
    """What the book's model makes of somebody's part, or of nothing where it fails."""
    try:
        with at_most(seconds), redirect_stdout(sys.stderr), torch.random.fork_rng(devices=[]):
            return [f"  {one}" for one in station.payoff(transplanted(station, names))]
    except (Exception, StillRunning):
        return []


@cache
def right_payoff(n: int) -> list[str]:
    """What the book's model makes of the solution of station n."""
    with torch.random.fork_rng(devices=[]):
        return ALL[n].payoff(made_of(solution()))


def in_the_end(payoff: Sequence[str]) -> list[str]:
    """What the lines of a payoff come to: what is written, or which translation is chosen."""
    return [one.rpartition("->")[2].strip() for one in payoff]


def outcome(station: Station, mistake: str) -> list[str]:
    """What a mistake makes of the book's model."""
    text = next(text for one, text, _ in mistaken().values() if one.name == mistake)
    names = made_of(text)
    with torch.random.fork_rng(devices=[]):
        return [f"  {one}" for one in station.payoff(names)]


def folded(text: str, width: int = 90) -> list[str]:
    """Lines of at most 90 characters, none of which ends within code."""
    whole = re.sub("`[^`]*`", lambda code: code[0].replace(" ", "\xa0"), text)
    return [one.replace("\xa0", " ") for one in textwrap.wrap(whole, width, break_on_hyphens=False)]


def number(station: Station) -> int:
    """Its place in the order, from 1; the example is 0."""
    return ALL.index(station)


def heading(station: Station) -> str:
    """Its number and its name."""
    n = number(station)
    return f"Station {n} of {len(STATIONS)}: {station.name}" if n else "Station 0: an example"


def minutes(station: Station) -> str:
    """How many minutes it took, in words; nothing where nobody has looked."""
    if not station.minutes:
        return ""
    written, whole = (math.ceil(one) for one in station.minutes)
    return f", about {written} minutes, {whole} with its transfer and slips"


def introduced(station: Station) -> list[str]:
    """Its head, with the minutes that it took, and a worked example."""
    head = f"{heading(station)}{minutes(station)}"
    return [
        "",
        head,
        "=" * len(head),
        "",
        *(part for one in station.watch() for part in (folded(one) if len(one) > 96 else [one])),
    ]


def asked(station: Station) -> list[str]:
    """The question, with its options."""
    return [*folded(f"Predict. {station.asks}"), *(f"  {one}  {option}" for one, option in station.options.items())]


def guessed(station: Station, letter: str) -> list[str]:
    """What really comes of the mistake that a question is about."""
    wrong = f"You guessed {letter}. The answer is {station.right}, {station.options[station.right]}."
    return [
        "With that mistake, the book's model gives:",
        *outcome(station, station.mistake),
        "You guessed right." if letter == station.right else wrong,
        *folded(station.because),
    ]


def explained(station: Station) -> list[str]:
    """The book's answer, to be compared with the reader's."""
    return ["Compare your sentence with the book's answer:", *(f"  {one}" for one in folded(station.answer, 86))]


IMPORTS = """import math

import torch
from torch import nn

PAD, BOS, EOS = 0, 2, 3  # the ids of padding, beginning and end
"""
HEAD = (
    '''"""My Transformer, in {count} stations.

Let `annotated learn` run in a terminal beside this file. It reads the file whenever you save it, runs what you have
written, and tells you what it found. In each station you guess, replace each `...`, explain in a sentence, and then
use the idea in another place (you can leave that for later). The comment above a station says what to write. Keep
the names of functions and classes; inside them, name things as you like.

Where a part fails, you see what was expected beside what it gave. If it fails again in the same way, you get a
question, and after that the name of the mistake. A comment `# ?` in the part asks for the name at once. To begin
station 3 anew, its sentence and its transfer too, write PREDICT_3 = "anew"; to pass over it, PREDICT_3 = "pass", and
the book's own code is filled in.
"""

'''
    + IMPORTS
)


def comment(text: str) -> list[str]:
    """A text as comments."""
    return [f"# {one}".rstrip() for line in text.splitlines() for one in (folded(line, 110) or [""])]


def template(station: Station, full: bool = True) -> str:
    """A station as it is found in the reader's file; if not full, only what is to be written."""
    right, n, transfer = pieces(solution()), number(station), station.transfer
    head = f"# ---- {heading(station)}{minutes(station)} ".ljust(112, "-")
    begin, end = [head, *comment(station.task)], []
    if full:
        begin += ["#", *comment(f"Predict first. {station.asks}")]
        begin += [f"#   {letter}  {option}" for letter, option in station.options.items()] + [f'PREDICT_{n} = ""']
        end += [[*comment(f"Explain in a sentence: {station.explain}"), f'EXPLAIN_{n} = ""']]
    if full and transfer:
        end += [[*comment(f"Transfer. {transfer.asks}"), transfer.blank]]
    if full and n % 2 == 0 and transfer:
        hunt = (
            f"Hunt. When you get here, the command writes a stranger's stations 1 to {n}, with one mistake, into a "
            "file next to this one. It lists three things that the book's model may write with it, each from another "
            f"place. Set HUNT_{n} to the number of the wrong line and the letter, as in (12, 'b')."
        )
        end += [[*comment(hunt), f'HUNT_{n} = (0, "")']]
    parts = [right[name] for name in station.given]
    parts += [emptied(right[name], station.blanks, station.begun if full else {}) for name in station.pieces]
    return "\n\n\n".join(["\n".join(begin), *parts, *("\n".join(one) for one in end)]) + "\n"


def new_file() -> str:
    """The reader's file before anything is written."""
    return "\n\n".join([HEAD.format(count=len(STATIONS)), *map(template, ALL)])


class Option(NamedTuple):
    """A mistake of a hunt: its name, the stations with it in them, and what the book's model then does."""

    name: str
    text: str
    does: tuple[str, ...]


class Hunt(NamedTuple):
    """Three mistakes in three places of the first stations; a stranger has made the one whose letter is `right`."""

    count: int
    options: tuple[Option, ...]
    right: str

    @property
    def made(self) -> Option:
        return self.options["abc".index(self.right)]

    @property
    def lines(self) -> list[int]:
        return changed_lines(stations_text(pieces(solution()), self.count), self.made.text)


def stations_text(parts: dict[str, str], count: int) -> str:
    """The first stations, without comments."""
    chosen = [parts[name] for one in STATIONS[:count] for name in (*one.given, *one.pieces)]
    return without_comments("\n\n".join([IMPORTS, *(f"{one}\n" for one in chosen)]))


@cache
def hunt_for(count: int, seed: int, made: tuple[tuple[str, ...], ...] = ()) -> Hunt:
    """A hunt through the first stations, with its mistake in one of the last two of them.

    Each option is a mistake in another function or class, and no earlier hunt of this seed has had it. `made` are the
    mistakes that its reader has made before the first hunt, the second, and so on: others come first.
    """
    draw, right = random.Random(f"{seed}-{count}"), pieces(solution())
    earlier = [one for n in range(2, count, 2) for one in hunt_for(n, seed, made[: n // 2]).options]
    own = made[count // 2 - 1 : count // 2]
    seen, names = {one.does for one in earlier} | {tuple(right_payoff(count))}, {one.name for one in earlier}
    names |= {one.mistake for one in STATIONS}  # which the guesses give away
    written, new = ({name for one in STATIONS[first:count] for name in one.pieces} for first in (0, count - 2))
    known = []
    for one, text, parts in draw.sample([*mistaken().values()], len(mistaken())):
        changed = {name for name in right if parts.get(name, right[name]) != right[name]}
        if len(changed) == 1 and one.name not in names:
            known.append((*changed, one.name, text, parts))
    options: list[Option] = []
    known.sort(key=lambda one: (one[0] not in new, any(one[1] in some for some in own)))  # those of new parts first
    for place, name, text, parts in known:
        if place not in written:
            continue
        try:
            with torch.random.fork_rng(devices=[]):
                does = tuple(STATIONS[count - 1].payoff(made_of(text)))
        except Exception:
            continue
        if does not in seen:
            options.append(Option(name, stations_text(parts, count), does))
            seen, written = seen | {does}, written - {place}  # another place comes next
        if len(options) == 3:
            break
    made = options[0]
    draw.shuffle(options)
    return Hunt(count, tuple(options), "abc"[options.index(made)])


def is_answer(guess: Any) -> bool:
    """Whether somebody has answered a hunt: with a line and a letter."""
    return isinstance(guess, (tuple, list)) and len(guess) == 2 and bool(guess[0])


def hunt_beside(path: Path, n: int) -> Path:
    """Where the hunt of a reader's file lies; a file of another name has a hunt of its own."""
    return path.with_name(f"hunt_{n}.py" if path.stem == "my_transformer" else f"{path.stem}_hunt_{n}.py")


def hunted(n: int, hunt: Hunt, path: Path, guess: Any) -> tuple[list[str], bool]:
    """Write the file of a hunt, if it is not there, and say what to make of a guess, and whether it is right.

    A letter is judged when the line is right. If it is wrong, what would have led to it stands beside what is there.
    """
    made = hunt.made
    if not path.exists():
        write_atomically(path, made.text.encode())
    if path.read_text(encoding="utf-8", errors="replace").split() != made.text.split():
        told = f"Hunt {n}: {path.name} is not the file that would be judged. Move it away, and it is written anew."
        return ["", told], False
    if not is_answer(guess):
        lines = [
            "",
            f"Hunt. {path.name}, a stranger's stations, has one mistake. With it the book's model gives one of these:",
        ]
        for letter, option in zip("abc", hunt.options):
            lines += [f"  {letter}  {option.does[0]}", *(f"     {one}" for one in option.does[1:])]
        told = f"When you know the line and the letter, write them into HUNT_{n}. Of a missing line, take the next."
        return [*lines, told], False
    row, letter = guess
    text = made.text.splitlines()
    if row not in range(1, len(text) + 1):
        return ["", f"Hunt {n}: {row!r} is no line of {path.name}, which has the lines 1 to {len(text)}."], False
    if row not in hunt.lines:
        shown = f", `{text[row - 1].strip()}`," if text[row - 1].strip() else ""
        told = f"Hunt {n}: line {row}{shown} is as it should be. The letter is judged when the line is found."
        return ["", *folded(told)], False
    if letter == hunt.right:
        return ["", f"Hunt {n}: found. {made.name[0].upper()}{made.name[1:]}."], True
    if letter not in (*"abc",):
        return ["", f"Hunt {n}: line {row} is wrong, as you say. Which of a, b and c does the model give?"], False
    other, right = hunt.options["abc".index(letter)], stations_text(pieces(solution()), n)
    told = f"Hunt {n}: line {row} is wrong, as you say. It does not give {letter}, which comes of another mistake:"
    lines = ["", *folded(told)]
    for where, text, before in (("for that", other.text, right), ("found", right, other.text)):
        lines += [f"  {where:8}  {text.splitlines()[at - 1].strip()}" for at in changed_lines(before, text)[:4]]
    return lines, False


def today() -> str:
    """The time, as the record has it."""
    return datetime.now().isoformat(timespec="seconds")


class Look(NamedTuple):
    """What there is to say of a file, the new record of attempts, and whether nothing is wrong, and all is done."""

    lines: list[str]
    record: dict[str, Any]
    fine: bool = True
    done: bool = False


def parsed(path: Path) -> tuple[str, ast.Module]:
    """A file's text, in the encoding that it names, and its tree. Raises InputError where it is no Python."""
    try:
        with tokenize.open(path) as file:
            text = file.read()
        return text, ast.parse(text)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path}: line {getattr(error, 'lineno', '?')}: {getattr(error, 'msg', error)}") from None


def rearranged(path: Path, record: dict[str, Any]) -> list[str]:
    """Begin stations anew, or pass over them, where the file asks for it: it is changed, and a copy of it is kept.

    Returns what there is to say.
    """
    try:
        text, tree = parsed(path)
    except InputError:
        return []  # the look says it
    given, wishes = settings_in(tree), []
    for one in ALL:
        wish = given.get(f"PREDICT_{number(one)}")
        if wish == "anew" or (wish == "pass" and "over" not in record.get(one.name, {})):
            wishes.append((one, wish))
    if not wishes:
        return []
    content, lines = path.read_bytes(), []
    record.pop("end", None)  # it comes again when all is written
    kept = path.with_name(f"{path.stem}_before_{datetime.now():%Y-%m-%d_%H%M%S}.py")
    write_atomically(kept, content)
    for station, wish in wishes:
        old, there, setting = record.get(station.name, {}), pieces(text), f"PREDICT_{number(station)}"
        new = pieces(template(station))
        state = {"attempts": 0, "begun": today(), "made": old.get("made", []), "before": old}
        if wish == "pass":
            book = {name: f"# The book's own code.\n{pieces(solution())[name]}" for name in station.pieces}
            new = {setting: there[setting], **{name: new[name] for name in station.given}, **book}
            state = (old or {"attempts": 0}) | {"over": today(), "passed": today()}
        new = {name: one for name, one in new.items() if name not in station.given or name not in there}
        text, record[station.name] = replaced(text, new), state
        lines.append(f"{heading(station)}: {SAID[wish]}")
    lines.append(f"What you had is in {kept.name}.")
    with open(path, "rb") as file:
        encoding, _ = tokenize.detect_encoding(file.readline)
    ends = "\r\n" if b"\r\n" in content else "\n"
    write_atomically(path, text.replace("\n", ends).encode(encoding))
    return lines


SAID = {
    "anew": "it begins anew, and so do its sentence and its transfer.",
    "pass": "passed over; the book's own code is in your file now.",
}


def look(path: Path, record: dict[str, Any], first: bool = False) -> Look:
    """Look at a file, station by station. Raises InputError where the file cannot be run."""
    printed = io.StringIO()
    text, tree = parsed(path)
    mine = Mine(text, dict(functions(tree)), {})
    if not any(name in mine.nodes for one in STATIONS for name in one.blanks):
        raise InputError(
            f"{path}: no station is in it",
            "Undo in your editor, or move the file away: `annotated learn` then writes a new one.",
        )
    for node in tree.body:  # a name would fail as soon as the file is run
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            setting, letter = ast.unparse(node.targets[0]), node.value.id
            if setting.startswith("PREDICT_"):
                raise InputError(f'{path}: line {node.lineno}: write {setting} = "{letter}", with quotes')
    given, mark = settings_in(tree), short(ast.dump(tree))
    stations = [one for one in STATIONS if one.name in record.get("again", [one.name])]
    if "again" not in record and "softmax" in mine.nodes:
        stations.insert(0, EXAMPLE)
    lines, here, verdict, fine = [], None, "done", True
    with redirect_stderr(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for station in stations:
            state = record.setdefault(station.name, {"attempts": 0, "begun": today()})
            if "passed" not in state or record.get("file") != mark:
                if not mine.names and ("passed" in state or given.get(f"PREDICT_{number(station)}") != ""):
                    mine.names.update(run_file(path, seconds=SECONDS))
                said, verdict = visit(station, state, mine, given, first and not lines)
                lines += said
            if verdict != "done":
                here, fine = station, fine and verdict != "wrong"
                break
            said, right = extras(station, state, mine, given, path, record, first)
            lines, fine = lines + said, fine and right
    record["file"] = mark if verdict == "done" else ""
    if first and not lines and here:
        lines = [*introduced(here), "", *asked(here)]
    return Look([*heard(printed), *lines, "", *left(stations, here, record)], record, fine, verdict == "done")


def heard(printed: io.StringIO) -> list[str]:
    """What a file has printed, labelled and cut."""
    lines = printed.getvalue().splitlines()
    more = [f"  ... and {len(lines) - 5} lines more"] if len(lines) > 5 else []
    return ["Your file printed:", *(f"  {one[:100]}" for one in lines[:5]), *more] if lines else []


def visit(station: Station, state: dict[str, Any], mine: Mine, given: dict, first: bool) -> tuple[list[str], str]:
    """What there is to say of one station, and whether it is `done`, `wrong`, or `waiting` for its reader."""
    n, lines, was_right = number(station), [], "passed" in state
    guess = given.get(f"PREDICT_{n}")
    if guess is not None and "guess" not in state and not was_right:
        guess = str(guess).strip().lower()
        if "shown" not in state or (first and not guess):
            lines, state["shown"] = [*introduced(station), "", *asked(station)], True
        if guess not in (*"abcd",):
            said = f"{guess!r} is none of a, b, c and d." if guess else "Nothing runs before you have guessed."
            return [*lines, "", f"{said} Write a letter into PREDICT_{n}, and save."], "waiting"
        state["guess"] = guess
        lines += ["", *guessed(station, guess)]
    judged = judge(station.cases, mine)
    mended = ["", f"Right again: station {n}, {station.name}."]
    if judged.verdict == "right" and was_right:
        return mended if state.pop("broken", False) else [], "done"
    shown, printed = [], io.StringIO()
    if not judged.how and not any(map(mine.is_blank, station.blanks)):
        with redirect_stderr(printed):
            shown = payoff(station, mine.names)
    if judged.verdict == "right" and [one.strip() for one in shown] != right_payoff(n):
        sys.stderr.write(printed.getvalue())
        judged = Judgement("wrong", [f"{station.name}: all small inputs are answered as they should be, but look:"])
    elif judged.verdict == "wrong" and shown and in_the_end(shown) == in_the_end(right_payoff(n)):
        shown.append("The twins do not notice; the small input above does.")
    if judged.verdict != "right" and ("right" in state or was_right):
        state["broken"] = True
    if judged.verdict == "unwritten" and (first or "told" not in state):
        state["told"] = True
        return [*lines, "", *folded(f"Now it is your turn. {station.task}")], "waiting"
    if judged.verdict in ("unwritten", "partly"):
        return [*lines, "", *judged.lines], "waiting"
    if judged.how == "gone":
        undo = f'Undo in your editor, or write PREDICT_{n} = "anew".' if guess is not None else "Undo in your editor."
        return [*lines, "", f"{judged.lines[0]} {undo}"], "wrong"
    if judged.verdict == "wrong":
        return [*lines, "", *judged.lines, *missed(station, state, mine, judged, shown)], "wrong"
    if "right" not in state:
        state["right"] = today()
        lines += ["", "Right. With your part in it, the book's model gives:", *shown]
    elif state.pop("broken", False):
        lines += mended
    reason = given.get(f"EXPLAIN_{n}")
    if reason is not None and len(str(reason).split()) < 4:
        found = f"{reason!r} is too short. " if reason else ""
        asks = f"{found}Write a sentence of four words or more into EXPLAIN_{n}; nobody grades it. {station.explain}"
        return [*lines, "", *folded(asks)], "waiting"
    if reason is not None:
        lines += ["", *explained(station)]
        lines += [f"A transfer waits for you, now or later: {station.transfer.name}."] if station.transfer else []
    state["passed"] = today()
    return lines, "done"


def settings_in(tree: ast.Module) -> dict[str, Any]:
    """What a file assigns to names as constants, without running it."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def asks_for_name(text: str, names: Sequence[str]) -> bool:
    """Whether a comment begins with `?` in one of these definitions, or below it, still indented."""
    lines, there = text.splitlines(), places(text)
    for place in (there[name] for name in names if name in there):
        below = takewhile(lambda line: not line.strip() or line[0].isspace(), lines[place.stop :])
        if any(re.search(r"#\s*\?", line) for line in [*lines[place], *below]):
            return True
    return False


def missed(
    station: Station | Transfer, state: dict[str, Any], mine: Mine, judged: Judgement, shown: Sequence[str] = ()
) -> list[str]:
    """Count an attempt, and give a hint by degrees.

    When the same small input fails again in the same way there is a question; from the third time on, or where it is
    asked for, the name of the mistake. It is no attempt unless the part that fails has changed. What was made is noted,
    since no hunt should be after it.
    """
    mark, times = mine.mark([judged.part] if judged.part else station.blanks), state.setdefault("times", 0)
    new = state.get("failed") != mark
    wants = state.pop("name it", False) or asks_for_name(mine.text, station.pieces)
    found = []
    if judged.part and judged.how != "late" and (new or wants or times > 2):
        found = alike(station, mine, judged.part)
        state["made"] = sorted({*state.get("made", []), *(one.name for one in found)})
    if new:
        again = state.get("kind") == judged.kind
        times = times + 1 if again else 1
        state |= {"attempts": state.get("attempts", 0) + 1, "failed": mark, "kind": judged.kind, "times": times}
    lines = ["", "With this part the book's model gives:", *shown] if shown else []
    if judged.part and (times > 2 or wants) and judged.how != "late":
        asked = ["Take the `# ?` out again, or your next mistake has its name at once."] if wants and found else []
        return [*lines, "", *(part for one in (*named(station, judged, found), *asked) for part in folded(one))]
    return [*lines, "", *folded(judged.question)] if times > 1 and judged.question else lines


def extras(
    station: Station, state: dict[str, Any], mine: Mine, given: dict, path: Path, record: dict, first: bool
) -> tuple[list[str], bool]:
    """What is new of the transfer and the hunt of a station that is passed, and whether nothing in them is wrong."""
    n, lines, transfer = number(station), [], station.transfer
    if transfer is None:
        return [], True
    there, tried = transfer.name in mine.nodes, state.get("transfer tried")
    mark, wants = mine.mark([transfer.name]), asks_for_name(mine.text, [transfer.name])
    told = tried == mark and (state.get("transfer") or not (first or wants))
    if there and mine.is_blank(transfer.name):
        state["transfer"] = False
        state.pop("transfer tried", None)
    elif (there or tried) and not told:
        if not mine.names:
            mine.names.update(run_file(path, seconds=SECONDS))
        judged, state["transfer tried"] = judge(transfer.cases, mine), mark
        state["transfer"] = judged.verdict == "right"
        said, *more = judged.lines or ["right."]
        lines += ["", f"Transfer {n}: {said}", *more]
        if judged.verdict == "wrong" and judged.how != "gone":
            lines += missed(transfer, state.setdefault("transfer hints", {}), mine, judged)
    guess = given.get(f"HUNT_{n}")
    beside_it = hunt_beside(path, n)
    new = first or state.get("hunt guess") != repr(guess) or not beside_it.exists()
    if guess is not None and not state.get("hunt") and new:
        state["hunt guess"] = repr(guess)
        hunt = hunt_for(n, record.get("seed", 0), made_before(n, record, drawn=beside_it.exists()))
        said, state["hunt"] = hunted(n, hunt, beside_it, guess)
        lines += said
    missed_it = not state.get("hunt") and is_answer(guess)
    return lines, not missed_it and ("transfer tried" not in state or state["transfer"])


def made_before(n: int, record: dict[str, Any], drawn: bool) -> tuple[tuple[str, ...], ...]:
    """The mistakes that a reader had made before each hunt up to this one; noted when it is drawn, since it stays."""
    noted = record.setdefault("made", {})
    if not drawn and str(n) not in noted:
        noted[str(n)] = sorted({name for one in ALL for name in record.get(one.name, {}).get("made", [])})
    return tuple(tuple(noted.get(str(one), [])) for one in range(2, n + 1, 2))


def of_stations(what: str, numbers: list[int]) -> str:
    """Of which stations something is open, in words."""
    *others, last = map(str, numbers)
    return f"{what}s of stations {', '.join(others)} and {last}" if others else f"{what} of station {last}"


def still_open(record: dict[str, Any]) -> str:
    """Which transfers and hunts are open of the stations that are passed, in words."""
    states = [(number(one), record[one.name]) for one in STATIONS if "passed" in record.get(one.name, {})]
    transfers = [n for n, state in states if not state.get("transfer")]
    hunts = [n for n, state in states if n % 2 == 0 and not state.get("hunt")]
    return ", ".join(of_stations(*one) for one in (("transfer", transfers), ("hunt", hunts)) if one[1])


def passed_over(record: dict[str, Any]) -> list[Station]:
    """The stations that are the book's own code."""
    return [one for one in STATIONS if "over" in record.get(one.name, {})]


def left(stations: Sequence[Station], here: Station | None, record: dict[str, Any]) -> list[str]:
    """Which station is next, how many are the reader's own, and what is passed over or open."""
    stations, over = [one for one in stations if one is not EXAMPLE], passed_over(record)
    states = [record.get(one.name, {}) for one in stations]
    done = sum("passed" in state and not state.keys() & {"over", "broken"} for state in states)
    more = f", {len(over)} passed over" if over else ""
    more += f"; open: {still_open(record)}" if "again" not in record and still_open(record) else ""
    if here is None and not over:
        return [f"All {done} stations are done{more}."]
    count = f"{done} of {len(stations)} stations done{more}"
    if here is None:
        names, n = ", ".join(f"{number(one)} {one.name}" for one in over), number(over[0])
        return [
            f"[{count}]",
            f"The book's own code: {names}. The end waits until you have written that; begin with "
            f'PREDICT_{n} = "anew".',
        ]
    tries = record.get(here.name, {}).get("attempts", 0)
    tried = f", {tries} {'attempt' if tries == 1 else 'attempts'} so far" if tries else ""
    return [f"[{here.name}{tried}; {count}]"]


def unread(what: str, record: dict[str, Any]) -> Look:
    """Why a file could not be looked at, and where its reader stands."""
    stations = [one for one in ALL if one.name in record.get("again", [one.name for one in ALL])]
    here = next((one for one in stations if "passed" not in record.get(one.name, {})), None)
    stands = left(stations, here, record)
    return Look([what, "", *(stands if here else [f"At the save before: {one}" for one in stands])], record, fine=False)


def the_end(names: dict[str, Any], say: Callable[[str], None], seconds: float = 60.0) -> bool:
    """Somebody's model and own step, from nothing: it is trained until it reverses five digits. Whether it does."""
    say("The end. Your file holds the book's weights, and your own search writes:")
    for line in translated(names):
        say(f"  {line}")
    say(
        "Now your own step trains your own model, starting from random weights: it has to learn to write five digits "
        "backwards."
    )
    torch.manual_seed(0)
    model = names["Transformer"](14, d_model=32, d_ff=64, num_heads=4, num_layers=1, dropout=0.0)
    optimizer, unseen = names["make_optimizer"](model), torch.randint(4, 14, (100, 5))
    begin, end, started = torch.full((64, 1), 2), torch.full((64, 1), 3), time.thread_time()
    for step in range(1, 1001):
        digits = torch.randint(4, 14, (64, 5))
        value = names["train_step"](model, optimizer, step, digits, torch.cat([begin, digits.flip(1), end], 1), 200)
        if step % 50 == 0:
            written = names["translate"](model, unseen)[:, :5]
            right = int((written == unseen.flip(1)).all(1).sum()) if written.shape[1] == 5 else 0
            shown = [
                " ".join(str(one - 4) if one > 3 else "-" for one in row.tolist()) for row in (unseen[0], written[0])
            ]
            say(f"  step {step:4}, loss {value:.2f}: {shown[0]} -> {shown[1]:9}  {right} of 100 right")
            if right >= 99:
                say("It reverses what it has never seen. You have written a Transformer, and it is yours.")
                return True
        if time.thread_time() - started > seconds:
            break
    say("It does not get there: every station is right by itself, and together they do not learn.")
    return False


def in_fork(task: Callable[[Any], None], seconds: float, once: bool = False) -> Iterator[Any]:
    """What a task sends, run in a process of its own, which is ended when its time is up.

    It is a copy of a server that has loaded PyTorch and never computed a gradient, since those do not survive a copy;
    or, if this is to happen once, of this process, which spares the server's start.
    """
    methods = multiprocessing.get_all_start_methods()
    method = "fork" if once and sys.platform != "darwin" else "forkserver"
    context = multiprocessing.get_context(method if method in methods else "spawn")
    if method == "forkserver":
        context.set_forkserver_preload(
            ["annotated.workbook.learn", "torch._dynamo"]
        )  # which optimizers would load late
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=task, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        while ours.poll(seconds):
            yield ours.recv()
    except EOFError:
        process.join()
        if process.exitcode:
            yield "died"
        return
    else:
        yield "late"
    finally:
        process.kill()
        process.join()
        ours.close()


def looked(send: Any, path: Path, record: dict[str, Any], first: bool, limit: float) -> None:
    """A look in a process of its own."""
    global SECONDS
    torch.set_num_threads(1)
    SECONDS = limit
    try:
        send.send(look(path, record, first))
    except InputError as error:
        send.send(unread(with_todo(error), record))


def ended(send: Any, path: Path) -> None:
    """The end in a process of its own: what it says, and at last whether it was reached."""
    torch.set_num_threads(1)
    try:
        send.send(the_end(run_file(path, seconds=SECONDS), send.send))
    except Exception as error:
        send.send("\n".join(failure(error)))
        send.send(False)


def seen_in_fork(
    path: Path, record: dict[str, Any], first: bool = False, once: bool = False, seconds: float = 120.0
) -> Look:
    """A look that nothing in the file can break."""
    found = next(in_fork(partial(looked, path=path, record=record, first=first, limit=SECONDS), seconds, once), "died")
    if found == "late":
        return unread(f"{path}: no answer after {seconds:g} seconds: something in it does not come back", record)
    if found == "died":
        return unread(f"{path}: Python itself has ended while it ran this file", record)
    return found


def watch_file(
    path: Path, say: Callable[[str], None] = print, *, once: bool = False, again: bool = False, seed: int | None = None
) -> int:
    """Write a file with eight stations, if it is not there, and say after each save what to make of it.

    It is watched until all stations are the reader's own and no transfer and no hunt is open. With `once` it is looked
    at once; with `again`, three stations that were right a day ago are asked anew, in another file. Returns an exit
    status: 0 where nothing is wrong. Raises InputError for files that cannot be read or written.
    """
    if again:
        path = asked_again(path, random.Random(seed))
        say(f"{path} asks three stations again.")
    elif not path.exists():
        write_atomically(path, new_file().encode())
        told = (
            ", and give this command again after each save."
            if once
            else (". This window says after each save what to make of it.")
        )
        say(f"{path} is written: open it in your editor{told}")
    beside_it = path.with_suffix(".json")
    record = recorded(beside_it) or {"seed": random.Random(seed).randrange(10**6)}
    first, before = True, None
    while True:
        if stamp(path) != before:
            changed = rearranged(path, record)
            for line in ["", *changed] if changed else []:
                say(line)
            before = stamp(path)
            mark = short(path.read_text(encoding="utf-8", errors="replace")) if once and path.exists() else ""
            first = first and (not once or record.get("looked", mark) == mark)  # a call after a save is no beginning
            record["looked"] = mark
            found = seen_in_fork(path, record, first, once)
            record = found.record
            write_json(beside_it, record)
            for line in ["", *found.lines] if found.lines and found.lines[0] else found.lines:
                say(line)
            again_done = found.done and "again" in record
            own = found.done and not again_done and not passed_over(record)
            complete = own and not still_open(record)
            if own and (not record.get("end") or (first and complete)):
                for said in in_fork(partial(ended, path=path), 120.0, once):
                    if isinstance(said, bool):
                        record["end"] = today() if said else ""
                        break
                    say("no answer after two minutes" if said == "late" else said)
                write_json(beside_it, record)
                if still_open(record) and not once:
                    say(f"This window goes on watching; open: {still_open(record)}.")
            if once or again_done or (complete and record.get("end")):
                return 0 if found.fine else 1
            first = False
        time.sleep(0.2)


def recorded(path: Path) -> dict[str, Any]:
    """The record of attempts, empty if there is none yet. Raises InputError where it is something else."""
    record = read_json(path) if path.exists() else {}
    if not isinstance(record, dict) or not all(isinstance(record.get(one.name, {}), dict) for one in ALL):
        raise InputError(
            f"{path}: not the record of `annotated learn`; move it away to begin anew",
            "It holds attempts and guesses only; your file stays as it is.",
        )
    return record


def stamp(path: Path) -> tuple[int, int]:
    """What changes when a file is saved."""
    try:
        state = path.stat()
    except OSError:
        return 0, 0
    return state.st_mtime_ns, state.st_size


def asked_again(path: Path, draw: random.Random) -> Path:
    """A file that asks three stations anew which were right a day ago. Raises InputError if there is none."""
    beside_it = path.with_suffix(".json")
    record = recorded(beside_it)
    right = {one.name: datetime.fromisoformat(record[one.name]["right"]) for one in STATIONS
             if "right" in record.get(one.name, {})}  # fmt: skip
    if not right:
        raise InputError(
            f"{path}: no station in it is right yet, so none can be asked again",
            "Write a station first: `annotated learn`.",
        )
    old = [name for name, when in right.items() if datetime.now() - when >= timedelta(days=1)]
    if not old:
        soonest = min(right.values()) + timedelta(days=1)
        raise InputError(f"{path}: no station is a day old; come back after {soonest:%Y-%m-%d %H:%M}")
    new = path.with_name(f"{path.stem}_again_{datetime.now():%Y-%m-%d}.py")
    if not new.exists():
        chosen = sorted(draw.sample(old, min(3, len(old))), key=[one.name for one in STATIONS].index)
        text, parts = pieces(solution()), [AGAIN.format(names=", ".join(chosen))]
        for one in STATIONS:
            parts.append(template(one, full=False) if one.name in chosen
                         else "\n\n\n".join(text[name] for name in (*one.given, *one.pieces)) + "\n")  # fmt: skip
        write_atomically(new, "\n\n".join(parts).encode())
        write_json(new.with_suffix(".json"), {"seed": 0, "again": chosen})
    return new


AGAIN = f'"""Some stations again, from an empty page: {{names}}. All others are written."""\n\n{IMPORTS}'


class Notebook:
    """The stations in a notebook: what the reader has defined in it is asked by number of the station."""

    def __init__(self, names: dict[str, Any]):
        self.names, self.states = names, {one.name: {"attempts": 0} for one in ALL}
        torch.set_num_threads(1)

    def mine(self) -> Mine:
        """What the cells that have run define, the latest of each name."""
        cells = []
        for cell in self.names.get("In", []):
            try:
                ast.parse(cell)
                cells.append(cell)
            except SyntaxError:  # a magic
                continue
        text = "\n".join(cells)
        return Mine(text, dict(functions(ast.parse(text))), self.names)

    def watch(self, n: int) -> None:
        """A worked example."""
        print("\n".join(introduced(ALL[n])[1:]))

    def predict(self, n: int, letter: str) -> None:
        """A guess, and what really happens."""
        if letter not in (*"abcd",):
            print("Guess: a, b, c or d.")
            return
        self.states[ALL[n].name]["guess"] = letter
        print("\n".join(guessed(ALL[n], letter)))

    def run(self, n: int, name_it: bool = False) -> None:
        """Ask the station's parts; from the second attempt on, or where it is asked for, with the mistake's name."""
        station, mine = ALL[n], self.mine()
        state = self.states[station.name]
        if "guess" not in state:
            print("Nothing runs before you have guessed.")
            return
        state["name it"] = name_it
        lines, _ = visit(station, state, mine, {}, first=False)
        print("\n".join(lines).strip() or "Right.")

    def explain(self, n: int, sentence: str) -> None:
        """The book's answer beside one's own."""
        station = ALL[n]
        if len(sentence.split()) < 4:
            print("\n".join(folded(f"In a sentence of your own: {station.explain}")))
        elif "right" not in self.states[station.name]:
            print("First the station has to be right.")
        else:
            print("\n".join(explained(station)))

    def transfer(self, n: int) -> None:
        """Ask for the same idea in another place."""
        transfer = ALL[n].transfer
        mine = self.mine()
        judged = judge(transfer.cases, mine) if transfer.name in mine.nodes else Judgement("unwritten")
        hints = self.states[ALL[n].name].setdefault("transfer hints", {})
        more = missed(transfer, hints, mine, judged) if judged.verdict == "wrong" else []
        said = {"right": "Right.", "unwritten": f"{transfer.name} is not written yet."}
        print("\n".join([*(judged.lines or [said[judged.verdict]]), *more]))

    def pass_over(self, n: int) -> None:
        """Show the book's own code, to be put into the station's cell."""
        print("\n\n\n".join(pieces(solution())[name] for name in ALL[n].pieces))

    def end(self) -> None:
        """The end: one's own model, trained by one's own step."""
        open_ones = [one.name for one in STATIONS if "right" not in self.states[one.name]]
        if open_ones:
            print(f"Still to be written: {', '.join(open_ones)}.")
            return
        the_end(self.names, print)


def notebook() -> dict[str, Any]:
    """The stations as a notebook, in the form of its JSON."""
    cells: list[tuple[str, str]] = [
        ("markdown", NOTEBOOK_HEAD),
        ("code", NOTEBOOK_FIRST.format(install=installation())),
    ]
    for station in ALL:
        n, right = number(station), pieces(solution())
        options = "\n".join(f"- **{letter}** {option}" for letter, option in station.options.items())
        blanks = [emptied(right[name], station.blanks, station.begun) for name in station.pieces]
        transfer = station.transfer
        cells += [
            ("markdown", f"## {heading(station)}"),
            ("code", f"mine.watch({n})"),
            ("markdown", f"**Predict.** {station.asks}\n\n{options}"),
            ("code", f'mine.predict({n}, "")'),
            ("markdown", f"**Write.** {station.task}"),
            ("code", "\n\n\n".join([*(right[name] for name in station.given), *blanks])),
            ("code", f"mine.run({n})"),
            ("markdown", f"**Explain.** {station.explain}"),
            ("code", f'mine.explain({n}, "")'),
        ]
        cells += [
            ("markdown", f"**Transfer.** {transfer.asks}"),
            ("code", transfer.blank),
            ("code", f"mine.transfer({n})"),
        ] if transfer else []  # fmt: skip
    cells += [("markdown", "## The end"), ("code", "mine.end()")]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"name": "python3", "language": "python",
            "display_name": "Python 3"}}, "cells": [cell_of(i, *one) for i, one in enumerate(cells)]}  # fmt: skip


def write_notebook(path: Path) -> None:
    """Write the stations as a notebook. Raises InputError where a file of that name is there."""
    if path.exists():
        raise InputError(f"{path}: is there already; move it away, or name another file")
    write_json(path, notebook())


def cell_of(i: int, kind: str, text: str) -> dict[str, Any]:
    """A cell in the form of a notebook's JSON."""
    more = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "id": f"cell-{i}", "metadata": {}, "source": text, **more}


def installation() -> str:
    """A line that installs this package where it lacks, if it came from a repository, or lies in a clone of one."""
    with suppress(PackageNotFoundError, KeyError, ValueError):
        about = json.loads(distribution("annotated-attention").read_text("direct_url.json") or "{}")
        return f"%pip install --quiet {about['vcs_info']['vcs']}+{about['url']}\n"
    with suppress(OSError):
        asked = ["git", "-C", str(Path(__file__).parent), "remote", "get-url", "origin"]
        origin = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
        if origin.startswith("http"):
            return f"%pip install --quiet git+{origin}\n"
    return "# On a machine without the package, install it first, as the book's README says.\n"


NOTEBOOK_HEAD = """# My Transformer

Eight stations. In each of them, run the first cell, guess, write wherever you see `...`, and run the cell below it
until it says that the part is right. Then explain it in a sentence, and use the idea in another place. If you are
stuck, `mine.run(1, name_it=True)` names the mistake of station 1, and `mine.pass_over(1)` prints the book's own code.
Station 0 is an example."""
NOTEBOOK_FIRST = """{install}import math

import torch
from torch import nn

from annotated.workbook.learn import Notebook

PAD, BOS, EOS = 0, 2, 3  # the ids of padding, beginning and end
mine = Notebook(globals())"""
