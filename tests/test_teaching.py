"""The pages for teachers: the concept test, and the sheets of hunts and stations with their answers."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from annotated.command.cli import main
from annotated.doctor.asking import CHECKS
from annotated.doctor.mistakes import MISTAKES, hunt
from annotated.doctor.running import FUNCTIONS
from annotated.workbook import stations

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "book"
sys.path.insert(0, str(BOOK / "_ext"))

from teaching import SEEDS, SEEN, TYPICAL, hunted, judged, lettered, questions_of  # noqa: E402

QUESTIONS = questions_of(BOOK)
MISREADINGS = yaml.safe_load((BOOK / "misreadings.yml").read_text(encoding="utf-8"))["misreadings"]
SAID = {entry["id"]: entry["misreading"] for entry in MISREADINGS}
WRONG = [(one["id"], option) for one in QUESTIONS for option in one["options"] if not option.get("right")]


def test_twelve_questions_have_four_options_each_and_one_is_right():
    assert [one["id"] for one in QUESTIONS] == [f"T-{number}" for number in range(1, 13)]
    for one in QUESTIONS:
        assert [letter for letter, _ in lettered(one)] == [*"abcd"], one["id"]
        assert sum(option.get("right", False) for option in one["options"]) == 1, one["id"]
        assert len({option["text"] for option in one["options"]}) == 4, one["id"]


def test_every_wrong_option_is_a_misreading_and_says_what_it_reveals():
    used = Counter(option["misreading"] for _, option in WRONG)
    assert set(used) <= set(SAID)
    for one in QUESTIONS:
        of_one = [option["misreading"] for name, option in WRONG if name == one["id"]]
        assert len(set(of_one)) == 3, one["id"]


def test_every_place_is_a_cell():
    named = [one["place"] for one in QUESTIONS] + [option["read"] for _, option in WRONG]
    for chapter, cells in {name.split("#")[0]: set() for name in named}.items():
        notebook = json.loads((BOOK / f"{chapter}.ipynb").read_text(encoding="utf-8"))
        cells |= {f"{chapter}#{cell['id']}" for cell in notebook["cells"]}
        assert [name for name in named if name.startswith(f"{chapter}#") and name not in cells] == []


def asked(capsys: pytest.CaptureFixture, *arguments: str) -> str:
    assert not main(["hunt", *arguments])
    return capsys.readouterr().out


@pytest.mark.parametrize("seed", SEEDS)
def test_the_table_of_hunts_has_what_the_command_says(seed: int, capsys):
    """Mistakes, parts and lines in the command's order; the code is that of the file, and nothing is left out."""
    sheet, file = asked(capsys, "--seed", str(seed), "--answers"), asked(capsys, "--seed", str(seed)).splitlines()
    written = [f"Hunt {seed}: {len(hunted(seed))} {'mistake' if len(hunted(seed)) == 1 else 'mistakes'}"]
    for one in hunted(seed):
        assert [file[row - 1].strip() for row in one.lines] == list(one.lines.values())
        written += ["", f"{one.name}, in {one.part}", f"  line {', '.join(map(str, one.lines))}"]
        written += [f"    {code}" for code in one.lines.values()]
    told = re.sub(r"(?m)^  (seen as|explained|check says): .*\n", "", sheet)
    assert told.splitlines() == written


def test_the_symptoms_of_hunts_are_those_of_the_checks():
    mistakes, symptoms = {one.name: one for one in MISTAKES}, {check.name: check.symptom for check in CHECKS}
    own = []
    for one in (one for seed in SEEDS for one in hunted(seed)):
        said = [found.split(": ")[0] for found in one.found]
        assert one.seen, one.name
        assert (mistakes[one.name].check in said) or said == [one.part], one.name
        own += [one.name] * (one.name in SEEN)
        if one.name not in SEEN:
            assert set(one.seen) <= {symptoms[name] for name in said}, one.name
    assert sorted(own) == sorted(SEEN), "words of our own for a mistake that no hunt has"


@pytest.mark.parametrize("seed", SEEDS)
def test_functions_of_a_hunt_are_found_as_the_table_says(seed: int):
    names: dict = {"__name__": "stranger"}
    exec(compile(hunt(seed)[0], "stranger.py", "exec"), names)
    told = {one.part: one.found for one in hunted(seed)}
    for name, function in FUNCTIONS.items():
        verdict = function.ask(names[name])
        assert (verdict.found and [f"{name}: {verdict.found}"]) == told.get(name, ""), name


def test_every_station_has_a_wrong_solution_that_the_command_refuses():
    assert list(TYPICAL) == [one.name for one in stations.STATIONS]
    for one in stations.STATIONS:
        wrong = judged(one.name)
        assert wrong.name == TYPICAL[one.name].rpartition(", in ")[0]
        assert wrong.said[0].endswith(" is asked with"), one.name
        assert any(re.match(r"\s+expected\s+found$", line) for line in wrong.said), one.name
        assert {line[0] for line in wrong.lines} <= {*"+-"}, one.name
        assert wrong.writes, one.name
