"""`annotated learn`: what it says after each save, what it keeps, and that nothing in a file can break it."""

import ast
import json
import re
import threading
import time
from datetime import datetime, timedelta

import pytest

from annotated.base.files import InputError
from annotated.command.cli import main
from annotated.doctor import running
from annotated.doctor.mistakes import MISTAKES
from annotated.workbook import learn, stations
from annotated.workbook.stations import ALL, EXAMPLE, STATIONS, pieces, reference, solution

FIRST = STATIONS[0]
WRONG = (".softmax(-1)", ".softmax(-2)")  # a first try for station 1, which is not right


class Learner:
    """Somebody who fills in the file, and what was said after the last save."""

    def __init__(self, folder):
        self.path = folder / "my_transformer.py"
        self.record = {"seed": 1, "example": {"attempts": 0, "guess": "c", "passed": learn.today()}}
        self.path.write_text(learn.new_file(), encoding="utf-8")
        self.write(EXAMPLE)

    def put(self, *edits):
        text = self.path.read_text(encoding="utf-8")
        for old, new in edits:
            assert old in text, old
            text = text.replace(old, new, 1)
        self.path.write_text(text, encoding="utf-8")
        return self

    def save(self, first=False):
        found = learn.look(self.path, self.record, first)
        self.record, self.fine = found.record, found.fine
        return "\n".join(found.lines)

    def guess(self, station):
        n = learn.number(station)
        return self.put((f'PREDICT_{n} = ""', f'PREDICT_{n} = "{station.right}"'))

    def explain(self, station):
        n = learn.number(station)
        return self.put((f'EXPLAIN_{n} = ""', f'EXPLAIN_{n} = "Because it has to be so, I believe."'))

    def write(self, station, *edits):
        now, right = pieces(self.path.read_text(encoding="utf-8")), pieces(solution())
        for name in station.pieces:
            new = right[name]
            for old, other in edits:
                new = new.replace(old, other)
            self.put((now[name], new))
        return self

    def transfer(self, station):
        """It asks the solution."""
        name, arguments = station.transfer.name, station.transfer.arguments
        body = f"from annotated.workbook import stations\n    return stations.{name}({arguments})"
        return self.put((station.transfer.blank, f"def {name}({arguments}):\n    {body}"))

    def pass_until(self, station):
        """The stations before this one are right, and known to be."""
        for one in STATIONS[: STATIONS.index(station)]:
            self.guess(one).write(one).explain(one)
            self.record[one.name] = {"attempts": 0, "guess": "a", "right": learn.today(), "passed": learn.today()}
        return self

    def keep(self):
        self.path.with_suffix(".json").write_text(json.dumps(self.record), encoding="utf-8")

    def kept(self):
        return json.loads(self.path.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.fixture
def learner(tmp_path):
    return Learner(tmp_path)


def test_a_new_file_is_a_program_that_shows_no_solution():
    text = learn.new_file()
    assert {name for station in STATIONS for name in station.pieces} <= stations.made_of(text).keys()
    nodes = dict(stations.functions(ast.parse(text)))
    assert all(stations.unwritten(nodes[blank]) for station in STATIONS for blank in station.blanks)


@pytest.mark.slow
def test_a_station_from_guess_to_explanation(learner):
    """Nothing runs before the guess; expected beside found, then a question, then the name, and the payoff."""
    for _ in range(2):  # also where the command was ended, and starts again
        assert "Predict. " in learner.save(first=True)
    assert "Predict. " not in learner.save()
    learner.put(('PREDICT_1 = ""', 'PREDICT_1 = "x"'))
    assert "'x' is none of" in learner.save()
    learner.put(('PREDICT_1 = "x"', 'PREDICT_1 = "c"'))
    assert "The answer is a, the same two sentences." in learner.save()
    assert learner.record["attention"]["attempts"] == 0
    said = learner.write(FIRST, WRONG).save()
    assert "expected" in said
    assert not learner.fine
    said = learner.put(("# Explain in a sentence: Why are", "# Explain, in a sentence: Why are")).save()
    assert learner.record["attention"]["attempts"] == 1, "a comment elsewhere is no attempt"
    question = FIRST.cases[0].question[:50]
    assert question not in said
    said = learner.write(FIRST, (".softmax(-1)", ".softmax(0)")).save()
    assert question in said
    assert "softmax over" not in said
    assert ": softmax over the queries." in learner.write(FIRST, WRONG).save()
    assert learner.record["attention"]["attempts"] == 3
    said = learner.write(FIRST, ("scores.masked_fill(~mask, -math.inf)", "scores")).save()
    assert "may not look" in said
    assert FIRST.cases[1].question[:50] not in said, "another input that fails begins with the two answers again"
    said = learner.write(FIRST).save()
    assert "weil es zu müde war" in said
    assert FIRST.answer[:30] not in said
    assert learner.fine
    said = learner.put(('EXPLAIN_1 = ""', 'EXPLAIN_1 = "large"')).save()
    assert "'large' is too short" in said
    assert FIRST.answer[:30] not in said
    said = learner.put(('EXPLAIN_1 = "large"', 'EXPLAIN_1 = ""')).explain(FIRST).save()
    assert FIRST.answer[:30] in said
    assert "Station 2 of 8: masks" in said


@pytest.mark.slow
def test_the_example_goes_as_its_text_says(learner):
    """Its first line is refused, its second is right; then station 1 begins, and nothing was counted as a station."""
    learner.write(EXAMPLE, (pieces(solution())["softmax"], pieces(learn.template(EXAMPLE))["softmax"]))
    del learner.record["example"]
    wrong, right = re.findall("`(return .*?)`", EXAMPLE.task)
    head = "def softmax(scores):  # (..., n) -> (..., n)\n    "
    assert "Station 0" in learner.save()
    learner.guess(EXAMPLE).save()
    assert "two rows of three scores" in learner.put((f"{head}...", head + wrong)).save()
    assert not learner.fine
    assert "weil sie zu breit war" in learner.put((head + wrong, head + right)).save()
    said = learner.explain(EXAMPLE).save()
    assert "Station 1 of 8" in said
    assert "0 of 8 stations done]" in said


def test_what_is_half_written_or_gone_is_told_in_a_line_and_is_no_attempt(learner):
    """A letter without quotes, a part that is begun, one that was deleted, and a file that was emptied."""
    learner.put(('PREDICT_1 = ""', "PREDICT_1 = c"))
    with pytest.raises(InputError, match='write PREDICT_1 = "c", with quotes'):
        learner.save()
    learner.put(("PREDICT_1 = c", 'PREDICT_1 = ""'))
    said = learner.guess(FIRST).save()
    assert FIRST.task[:40] in said
    said = learner.put(("scores = ...", "scores = q @ k.mT")).save()
    line = learner.path.read_text(encoding="utf-8").splitlines().index("    weights = ...  # 2") + 1
    assert [line for line in said.splitlines() if line][:-1] == [f"attention still has a `...` in line {line}."]
    learner.put(("def attention(", "def attentive("))
    assert 'PREDICT_1 = "anew"' in learner.save()
    learner.path.write_text("", encoding="utf-8")
    said, *_ = learn.seen_in_fork(learner.path, learner.record, once=True).lines
    assert said.endswith("`annotated learn` then writes a new one.")
    assert learner.record["attention"]["attempts"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_a_station_is_passed_over_and_begun_anew(learner, encoding):
    """In the file, whatever its encoding: the book's code, or the blanks; a copy and the record are kept."""
    text = learner.pass_until(STATIONS[2]).path.read_text(encoding="utf-8").replace("# Explain", "# Erklär", 1)
    text = f"# -*- coding: {encoding.removesuffix('-sig')} -*-\n{text}"
    learner.path.write_bytes(text.replace("\n", "\r\n").encode(encoding))
    assert learn.rearranged(learner.path, learner.record) == []

    def wish(old, new):
        before = learner.path.read_bytes().replace(old.encode(), new.encode())
        learner.path.write_bytes(before)
        learn.rearranged(learner.path, learner.record)
        assert before in [one.read_bytes() for one in learner.path.parent.glob("my_transformer_before_*.py")]
        now = learner.path.read_bytes()
        assert now.count(b"\n") == now.count(b"\r\n") > 0
        return now.decode(encoding)

    text = wish('PREDICT_3 = ""', 'PREDICT_3 = "pass"')
    assert "# Erklär" in text
    parts = pieces(text)
    assert parts["Attention"] == pieces(solution())["Attention"]
    assert parts["heads_one_by_one"] == pieces(learn.template(STATIONS[2]))["heads_one_by_one"]
    gone = f"{pieces(text)['source_mask']}\n".replace("\n", "\r\n")
    learner.path.write_bytes(learner.path.read_bytes().replace(gone.encode(encoding), b""))
    text = wish('PREDICT_2 = "b"', 'PREDICT_2 = "anew"')
    assert {**pieces(text), **pieces(learn.template(STATIONS[1]))} == pieces(text)
    order = list(pieces(text))
    assert order.index("source_mask") == order.index("PREDICT_2") + 1, "what had gone stands in its place"
    assert learner.record["masks"]["before"]["guess"] == "a"
    assert learn.rearranged(learner.path, learner.record) == []
    assert "Station 2 of 8" in learner.save()
    learner.path.write_bytes(learner.path.read_bytes().decode(encoding).encode())
    learner.guess(STATIONS[1]).write(STATIONS[1]).explain(STATIONS[1])
    assert "2 of 8 stations done, 1 passed over" in learner.save()


def test_a_station_that_is_begun_anew_leaves_those_after_it_done(learner):
    learner.pass_until(STATIONS[3]).put(('PREDICT_2 = "b"', 'PREDICT_2 = "anew"'))
    learn.rearranged(learner.path, learner.record)
    assert "[masks; 2 of 8 stations done" in learner.save()


@pytest.mark.slow
def test_only_a_change_of_the_part_that_fails_is_an_attempt(learner):
    learner.pass_until(STATIONS[1]).guess(STATIONS[1]).write(STATIONS[1], (".tril()", ".triu()")).save()
    learner.put(("(source != PAD)", "(source.ne(PAD))")).save()
    assert learner.record["masks"]["attempts"] == 1
    learner.put((".triu()", ".triu(0)")).save()
    assert learner.record["masks"]["attempts"] == 2


def test_a_comment_asks_for_the_name(learner):
    """Anywhere in the part, also before another comment and at the part's end."""
    learner.guess(FIRST).write(FIRST, WRONG).save()
    for old, new in (("v  # 3", "v  # ?  # 3"), ("mixed\n\n", "mixed\n    # ? why\n")):
        learner.put((old, new))
        assert ": softmax over the queries." in learner.save()
        learner.put((new, old))
        assert ": softmax over the queries." not in learner.save()
    assert learner.record["attention"]["attempts"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (WRONG, "attention is asked with"),
        (("import torch\n", ""), "name 'torch' is not defined"),
        (("class AddNorm", "class AddNorms"), "AddNorm.forward is no longer in the file"),
        (("PAD, BOS, EOS = 0, 2, 3", "PAD, BOS, EOS = 7, 2, 3"), "source_mask is asked with"),
    ],
)
def test_what_was_right_is_asked_again_when_anything_changes(learner, edit, said):
    """Also what stands outside the stations, as an import or a constant, and what has gone."""
    learner.pass_until(STATIONS[4]).save()
    assert learner.fine
    learner.put(edit)
    try:
        found = learner.save()
    except InputError as error:
        found, learner.fine = str(error), False
    assert said in found
    assert not learner.fine
    mended = learner.put(edit[::-1] if edit[1] else ("import math\n", "import math\nimport torch\n")).save()
    assert learner.fine
    assert ("Right again" in mended) == ("import" not in edit[0])


def test_small_inputs_are_not_all(learner):
    """A part that passes all of them, and makes something else of the trained model, is not right.

    What it prints is labelled, and cut; where a small input fails, nothing that others have printed is shown.
    """
    small = "    weights = scores"
    odd = f"    print('here', len(q))\n    scores = scores * 0 if k.shape[-1] == 32 else scores\n{small}"
    said = learner.guess(FIRST).write(FIRST, (small, odd)).save().splitlines()
    assert said[1] == "  here 2"
    assert "more" in said[6]
    assert any(line.startswith("attention: all small inputs") for line in said)
    assert not learner.fine
    hidden = ("scores.masked_fill(~mask, -math.inf)", "scores")
    said = learner.write(FIRST, hidden, (small, f"    print('mask', mask.tolist())\n{small}")).save()
    assert re.findall(r"mask \[.*", said) == ["mask [[True, False], [True, True]]"]


@pytest.mark.slow
def test_where_the_twins_do_not_notice_it_is_said(learner):
    unscaled, uneven = (" / math.sqrt(k.shape[-1])", ""), (".softmax(-1)", ".softmax(0)")
    learner.guess(FIRST)
    said = [learner.write(FIRST, one).save() for one in (unscaled, uneven)]
    assert ["The twins do not notice" in one for one in said] == [True, False]


@pytest.mark.slow
def test_transfers_wait_and_are_told_once(learner):
    assert "Transfer 1" not in learner.pass_until(STATIONS[1]).save()
    head = "def batch_second(q, k, v):\n    "
    learner.put((FIRST.transfer.blank, f"{head}return attention(q, k, v, True)"))
    said = learner.save()
    assert "Transfer 1: batch_second fails" in said
    assert "1 of 8 stations done; open: transfer of station 1]" in said
    assert not learner.fine
    assert "Transfer 1" not in learner.save()
    assert not learner.fine
    assert "cell solutions-text" in learner.put(("q, k, v, True)", "q, k, v, True)  # ?")).save()
    learner.put(("True)  # ?", "True)"))
    wrong = ["q, k, v, 1 == torch.ones(1))[1]", "q, k, v, torch.ones(1) == 1)[1]", "q, k, v, torch.ones(1).bool())[1]"]
    told = [learner.put((old, new)).save() for old, new in zip(["q, k, v, True)", *wrong], wrong)]
    question = FIRST.transfer.cases[0].question[:40]
    assert ["expected" in one for one in told] == [True] * 3, "what is expected, a question, and the name"
    assert [question in one for one in told] == [False, True, False]
    assert "gives exactly these answers: axes left as they are." in told[-1]
    learner.put((wrong[-1], "q, k, v, True)"))
    right = "q, k, v = (x.transpose(0, 1) for x in (q, k, v))\n    mask = torch.ones(q.shape[1], k.shape[1]).bool()"
    learner.put(("return attention(q, k, v, True)", f"{right}\n    return attention(q, k, v, mask)[1].transpose(0, 1)"))
    assert "Transfer 1: right." in learner.save()
    assert "Transfer 1" not in learner.save()
    assert learner.fine
    assert "no longer in the file" in learner.put(("def batch_second", "def second")).save()
    assert not learner.fine


@pytest.mark.slow
def test_a_hunt_is_laid_true_and_found(learner):
    """The line is where the text differs from the solution's, and the right option is what the model does with it."""
    said = learner.pass_until(STATIONS[2]).save()
    assert "Hunt 2:" not in said
    assert "open: transfers of stations 1 and 2, hunt of station 2]" in said
    text = learner.path.with_name("hunt_2.py").read_text(encoding="utf-8")
    hunt = learn.hunt_for(2, learner.record["seed"])
    assert learn.hunt_beside(learner.path.with_name("other.py"), 2).name != "hunt_2.py", "another file has its own"
    assert text == hunt.made.text != learn.hunt_for(2, 3).made.text
    names = stations.made_of(solution())
    names.update({name: value for name, value in stations.made_of(text).items() if name in pieces(solution())})
    assert tuple(STATIONS[1].payoff(names)) == hunt.made.does
    lines, right = text.splitlines(), learn.stations_text(pieces(solution()), 2).splitlines()
    assert "#" not in text
    assert all(lines[line - 1 : line] != right[line - 1 : line] for line in hunt.lines)
    learner.put(('HUNT_2 = (0, "")', 'HUNT_2 = (99, "b")'))
    assert f"99 is no line of hunt_2.py, which has the lines 1 to {len(lines)}." in learner.save()
    learner.put(('HUNT_2 = (99, "b")', 'HUNT_2 = (0, "")'))
    wrong = next(line for line in range(1, 99) if line not in hunt.lines)
    learner.put(('HUNT_2 = (0, "")', f'HUNT_2 = ({wrong}, "{hunt.right}")'))
    said = learner.save()
    assert f"line {wrong}, `{lines[wrong - 1]}`, is as it should be. The letter is judged" in said
    assert not learner.fine
    letter = next(one for one in "abc" if one != hunt.right)
    learner.put((f'({wrong}, "{hunt.right}")', f'({hunt.lines[0]}, "{letter}")'))
    said = learner.save()
    other = hunt.options["abc".index(letter)].text.splitlines()
    (there,) = (line for line in other if line not in right)
    assert f"for that  {there.strip()}" in said, "what would have led to that option, beside what is there"
    assert f"found     {right[other.index(there)].strip()}" in said
    file = learner.path.with_name("hunt_2.py")
    file.write_text(text.replace("return", "return 1 +", 1), encoding="utf-8")
    learner.put((f'{hunt.lines[0]}, "{letter}")', f'{hunt.lines[0]}, "{hunt.right}")'))
    assert "hunt_2.py is not the file that would be judged" in learner.save(), "it may be another version's"
    file.unlink()
    assert "Hunt 2: found." in learner.save()
    assert learner.fine
    assert "Hunt 2" not in learner.save()


@pytest.mark.slow
def test_no_option_of_a_hunt_comes_again():
    """Each is a mistake in another place, with another outcome, and the one to be found is in the latest stations."""
    hunts = [learn.hunt_for(n, 3) for n in (2, 4, 6, 8)]
    right = pieces(learn.stations_text(pieces(solution()), 8))
    does = [one.does for hunt in hunts for one in hunt.options]
    assert len({*does, *(tuple(learn.right_payoff(n)) for n in (6, 8))}) == 14
    known = {one.name for one in MISTAKES} & {one.name for hunt in hunts for one in hunt.options}
    assert known, "those of chapter 82 are among them"
    for hunt in hunts:
        written = [name for one in STATIONS[: hunt.count] for name in one.pieces]
        places = [name for one in hunt.options for name in written if pieces(one.text)[name] != right[name]]
        assert len({*places}) == 3
        made = places[hunt.options.index(hunt.made)]
        assert made in {name for one in STATIONS[hunt.count - 2 : hunt.count] for name in one.pieces}


@pytest.mark.slow
def test_no_hunt_is_after_a_mistake_that_its_reader_has_made(learner):
    """And it stays the same whatever is made later."""
    made = learn.hunt_for(2, learner.record["seed"]).made.name
    _, text, _ = next(one for one in learn.mistaken().values() if one[0].name == made)
    station = next(one for one in STATIONS[:2] if any(pieces(text)[p] != pieces(solution())[p] for p in one.pieces))
    learner.pass_until(station).guess(station)
    for name in station.pieces:
        learner.put((pieces(learn.new_file())[name], pieces(text)[name]))
    learner.save()
    assert made in learner.record[station.name]["made"]
    learner.write(station)
    learner.explain(station).save()
    for one in STATIONS[:2]:
        if "passed" not in learner.record[one.name]:
            learner.guess(one).write(one).explain(one).save()
    hunt = learner.path.with_name("hunt_2.py").read_text(encoding="utf-8")
    assert hunt not in [learn.stations_text(pieces(one), 2) for one in (text, solution())]
    drawn = learn.hunt_for(2, learner.record["seed"], (tuple(learner.record["made"]["2"]),)).made.name
    learner.record[station.name]["made"].append(drawn)
    assert "not the file" not in learner.save(first=True)


def test_the_end_is_not_reached_without_learning():
    steps, lines = [], []
    idle = {"train_step": lambda *given: steps.append(given[2]) or 1.0, "translate": lambda model, rows: 0 * rows}
    assert not learn.the_end(stations.made_of(solution()) | idle, lines.append, seconds=float("inf"))
    assert steps == [*range(1, 1001)]
    assert sum(" 0 of 100" in line for line in lines) == 20


@pytest.mark.slow
def test_nothing_in_a_file_breaks_the_command(learner, capfd, monkeypatch):
    """It prints, it is no Python, it ends, it never ends, it kills its process, it does not wake up, it is gone."""
    monkeypatch.setattr(learn, "SECONDS", 1.0)
    monkeypatch.setattr(running, "PATIENCE", 1000)
    line = (
        learn.new_file().splitlines().index(head := "PAD, BOS, EOS = 0, 2, 3  # the ids of padding, beginning and end")
    )

    def looked(text, seconds=120.0):
        learner.path.write_text(now.replace(head, text), encoding="utf-8")
        return learn.seen_in_fork(learner.path, learner.record, once=True, seconds=seconds).lines

    now = learner.guess(FIRST).path.read_text(encoding="utf-8")
    assert looked(f"print('from me')\n{head}")[:2] == ["Your file printed:", "  from me"]
    assert "from me" not in capfd.readouterr().err
    broken = {
        "PAD, BOS, EOS = 0, 2,,": f"my_transformer.py: line {line + 1}: ",
        "raise SystemExit(3)": f"(line {line + 1} of my_transformer.py: raise SystemExit(3))",
        "while True: pass": "still running after 1 seconds",
        "import os; os._exit(3)": "Python itself has ended",
    }
    for text, expected in broken.items():
        said, *_, stands = looked(text)
        assert expected in said
        assert stands.startswith("[attention")
    asleep = "import signal, time; signal.signal(signal.SIGALRM, signal.SIG_IGN); time.sleep(600)"
    assert "no answer after 2 seconds" in looked(asleep, seconds=2.0)[0]
    learner.path.unlink()
    assert str(learner.path) in learn.seen_in_fork(learner.path, {"seed": 1}, once=True).lines[0]


@pytest.mark.slow
def test_the_command_watches_until_all_is_done(learner):
    """A thread saves while the command watches: the last station, and then its transfer, which is still open."""
    said = []

    def save():
        while not any("PREDICT_8" in line for line in said):
            time.sleep(0.05)
        learner.guess(STATIONS[-1]).write(STATIONS[-1]).explain(STATIONS[-1])
        while "All 8 stations are done; open: transfer of station 8." not in said:
            time.sleep(0.05)
        learner.transfer(STATIONS[-1])

    learner.pass_until(STATIONS[-1]).record["end"] = learn.today()
    for station in STATIONS:
        learner.record.setdefault(station.name, {"attempts": 0})["hunt"] = True
        if station is not STATIONS[-1]:
            learner.transfer(station)
    learner.keep()
    thread = threading.Thread(target=save)
    thread.start()
    assert learn.watch_file(learner.path, said.append, seed=1) == 0
    thread.join()
    assert all(learner.kept()[station.name]["transfer"] for station in STATIONS)


@pytest.mark.parametrize("reached", [True, False])
def test_the_end_comes_when_all_stations_are_done(learner, monkeypatch, reached):
    monkeypatch.setattr(learn, "the_end", lambda names, say: say("it learns") or reached)
    monkeypatch.setattr(learn, "look", lambda path, record, first: learn.Look([], record, done=True))
    learner.path.write_text(solution(), encoding="utf-8")
    said = []
    assert learn.watch_file(learner.path, said.append, once=True) == 0
    assert said == ["it learns"]
    assert bool(learner.kept()["end"]) == reached
    learn.watch_file(learner.path, said.append, once=True)
    assert said == ["it learns", "it learns"], "also where the command starts again"
    learner.record |= {"heads": {"over": learn.today(), "passed": learn.today()}}
    learner.keep()
    learn.watch_file(learner.path, said.append, once=True)
    assert len(said) == 2, "a station is the book's"


def test_what_lies_beside_the_file_is_checked(learner):
    learner.path.with_suffix(".json").write_text("[1]", encoding="utf-8")
    with pytest.raises(InputError, match=r"my_transformer\.json"):
        learn.watch_file(learner.path, print, once=True)


@pytest.mark.slow
def test_old_stations_are_asked_again_after_a_day(learner):
    """Three that were right a day ago, from an empty page; the others are written. Before that, a line says when."""
    with pytest.raises(InputError, match="no station in it is right"):
        learn.watch_file(learner.path, print, again=True)
    learner.pass_until(STATIONS[4]).keep()
    with pytest.raises(InputError, match=f"{datetime.now() + timedelta(days=1):%Y-%m-%d}"):
        learn.watch_file(learner.path, print, again=True)
    for station in STATIONS[:4]:
        learner.record[station.name]["right"] = (datetime.now() - timedelta(days=1, minutes=1)).isoformat()
    learner.keep()
    said = []
    assert learn.watch_file(learner.path, said.append, again=True, once=True, seed=3) == 0
    (path,) = learner.path.parent.glob("my_transformer_again_*.py")
    chosen = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["again"]
    assert len(chosen) == 3
    nodes = dict(stations.functions(ast.parse(path.read_text(encoding="utf-8"))))
    for station in STATIONS:
        assert {stations.unwritten(nodes[name]) > 0 for name in station.blanks} == {station.name in chosen}
    assert "0 of 3 stations done" in said[-1]
    path.write_text(solution(), encoding="utf-8")
    assert learn.watch_file(learner.path, said.append, again=True) == 0
    assert "All 3 stations are done." in said[-1]


@pytest.mark.slow
def test_the_notebook_is_filled_in_and_runs(tmp_path, capsys):
    """In IPython itself. As it is written, nothing is right; the latest cell counts, and a magic is no Python."""
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    learn.write_notebook(path := tmp_path / "mine.ipynb")
    with pytest.raises(InputError, match=r"mine\.ipynb"):
        learn.write_notebook(path)
    cells = [cell["source"] for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    right, transfers = pieces(solution()), reference().keys() - pieces(solution()).keys()

    def run(*cells):
        capsys.readouterr()
        for cell in cells:
            assert shell.run_cell(cell, store_history=True).success, cell
        return capsys.readouterr().out

    def filled(cell):
        for name in pieces(cell).keys() - {"mine"}:
            cell = cell.replace(pieces(cell)[name], "" if name in transfers else right[name])
        for n, station in enumerate(ALL):
            cell = cell.replace(f'mine.predict({n}, "")', f'mine.predict({n}, "{station.right}")')
            cell = cell.replace(f'mine.explain({n}, "")', f'mine.explain({n}, "It has to be so, I think.")')
        return cell

    shell = interactive.InteractiveShell()
    said = run(*cells)
    assert "Right" not in said
    assert said.count("Nothing runs before you have guessed.") == 9
    assert "Still to be written: attention, masks" in said
    assert run("mine.pass_over(1)").strip() == right["attention"]
    wrong = right["attention"].replace(*WRONG)
    said = run(wrong, "%time 1 + 1", 'mine.predict(1, "a")', "mine.run(1, name_it=True)")
    assert "softmax over the queries" in said
    said = run(*map(filled, cells))
    assert said.count("Right. With your part in it") == 9
    assert said.count("Compare your sentence") == 9
    assert "You have written a Transformer" in said
    assert "batch_second still has" in said


@pytest.mark.slow
def test_the_command_by_itself(tmp_path, monkeypatch, capsys):
    """As somebody types it: the file is written once, never again; the exit status says whether anything is wrong."""
    monkeypatch.chdir(tmp_path)
    assert main(["learn", "--once", "--seed", "1"]) == 0
    path = tmp_path / "my_transformer.py"
    wrong = (
        path.read_text(encoding="utf-8")
        .replace('PREDICT_0 = ""', 'PREDICT_0 = "a"')
        .replace("...\n", "return scores\n", 1)
    )
    path.write_text(wrong, encoding="utf-8")
    assert main(["learn", "--once"]) == 1
    assert path.read_text(encoding="utf-8") == wrong
    assert main(["learn", "--notebook"]) == 0
    assert main(["learn", "--notebook"]) == 1
    assert "my_transformer.ipynb" in capsys.readouterr().err
