"""The stations of `annotated learn` in the page: the same look at the same file, in the same words."""

import random
from pathlib import Path

from annotated.base.files import InputError, with_todo
from annotated.workbook import learn
from annotated.workbook.stations import ALL, STATIONS

FILE = Path("my_transformer.py")
NOT_HERE = ("loss", "step")  # stations that need gradients
TOLD = (
    "Stations 6 and 7 need gradients, which this page does not have: the book's own code stands there now. Download "
    'your file, and `annotated learn` lets you write them as well, after PREDICT_6 = "anew" and PREDICT_7 = "anew".'
)
END = (
    "These are all stations that the page has. Download your file and its record: `annotated learn` goes on with loss "
    "and step, and then puts all that you wrote into one model."
)


def unless(station_is_elsewhere, judge):
    """A function of the command that is not called for stations whose code the page cannot run."""
    return lambda station, *others: station_is_elsewhere if station.name in NOT_HERE else judge(station, *others)


def open_here(record, still_open=learn.still_open):
    """Transfers and hunts that are open, without those of stations that the page does not have."""
    return still_open(record | {name: record.get(name, {}) | {"transfer": True, "hunt": True} for name in NOT_HERE})


learn.still_open = open_here
learn.visit, learn.extras = unless(([], "done"), learn.visit), unless(([], True), learn.extras)


def look(text, record, first, emit):
    """Look at a file, a new one where `text` is empty, and at its record: what `annotated learn` does at each save."""
    record = record or {"seed": random.randrange(10**6)}
    FILE.write_text(text or learn.new_file(), encoding="utf-8")
    lines = looked(record, first)
    here = next((one for one in STATIONS if "passed" not in record.get(one.name, {})), None)
    if here and here.name in NOT_HERE and "passed" in record.get(STATIONS[STATIONS.index(here) - 1].name, {}):
        passed = FILE.read_text(encoding="utf-8")
        for station in (one for one in STATIONS if one.name in NOT_HERE):
            n = learn.number(station)
            passed = passed.replace(f'PREDICT_{n} = ""', f'PREDICT_{n} = "pass"')
        FILE.write_text(passed, encoding="utf-8")
        looked(record, first=False)  # which takes note of what is passed over; what comes next was said already
        lines = [TOLD, "", *lines]
    if all("passed" in record.get(one.name, {}) for one in STATIONS):
        lines = [END if line.startswith("The book's own code:") else line for line in lines]
    hunts = {path.name: path.read_text(encoding="utf-8") for path in sorted(Path().glob("hunt_*.py"))}
    return {
        "text": FILE.read_text(encoding="utf-8"),
        "record": record,
        "lines": lines,
        "stations": [[one.name, state(record.get(one.name, {}))] for one in ALL],
        "hunts": hunts,
    }


def looked(record, first):
    changed = learn.rearranged(FILE, record)
    try:
        return [*changed, *learn.look(FILE, record, first).lines]
    except InputError as error:
        return [*changed, *learn.unread(with_todo(error), record).lines]


def state(told):
    """How far a station is, in a word."""
    if "over" in told:
        return "passed over"
    return "broken" if "broken" in told else "done" if "passed" in told else ""
