"""`annotated learn`: what it says after each save, what it keeps, and that nothing in a file can break it."""

import ast
import json
import os
import re
import threading
import time
from datetime import datetime, timedelta

import pytest
import torch

from annotated.base.files import InputError
from annotated.command.cli import main
from annotated.doctor import running
from annotated.workbook import learn, stations
from annotated.workbook.stations import STATIONS, pieces, reference, solution
from tests.messages import message, refused

WRONG = {  # a first try for each station, which is not right
    "attention": (".softmax(-1)", ".softmax(-2)"),
    "masks": (".tril()", ".triu()"),
    "heads": ("mixed.transpose(1, 2).flatten(2)", "mixed.reshape(x.shape)"),
    "layers": ("self.norm(x + self.dropout(y))", "self.norm(self.dropout(y))"),
    "ends": ("10000.0 ** (-torch", "10000.0 ** (torch"),
    "loss": ("ignore_index=PAD, ", ""),
    "step": ("    optimizer.zero_grad()\n", ""),
    "search": ("len(source), 1), BOS", "len(source), 1), PAD"),
}


LINE = learn.new_file().splitlines().index("PAD, BOS, EOS = 0, 2, 3  # the ids of padding, beginning and end") + 1


class Learner:
    """Somebody who fills in the file, and what was said after the last save."""

    def __init__(self, folder):
        self.path, self.record = folder / "my_transformer.py", {"seed": 1}
        self.path.write_text(learn.new_file(), encoding="utf-8")
        self.said, self.fine = "", True

    def put(self, *edits):
        text = self.path.read_text(encoding="utf-8")
        for old, new in edits:
            assert old in text, old
            text = text.replace(old, new, 1)
        self.path.write_text(text, encoding="utf-8")
        return self

    def save(self, first=False):
        found = learn.look(self.path, self.record, first)
        self.said, self.record, self.fine = "\n".join(found.lines), found.record, found.fine
        return self.said

    def guess(self, station, letter=None):
        n = learn.number(station)
        return self.put((f'PREDICT_{n} = ""', f'PREDICT_{n} = "{letter or station.question.right}"'))

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

    def pass_until(self, station):
        """The stations before this one are right, and known to be."""
        for one in STATIONS[: STATIONS.index(station)]:
            self.guess(one).write(one).explain(one)
        text = self.path.read_text(encoding="utf-8")
        theirs = learn.Mine(text, dict(stations.functions(ast.parse(text))), {})
        for one in STATIONS[: STATIONS.index(station)]:
            self.record[one.name] = {"attempts": 0, "guess": "a", "right": learn.today()}
            self.record[one.name]["passed"] = theirs.mark(one.blanks)
        return self


@pytest.fixture
def learner(tmp_path):
    return Learner(tmp_path)


def test_a_new_file_is_a_program_that_shows_no_solution():
    text = learn.new_file()
    names = stations.made_of(text)
    assert {name for station in STATIONS for name in station.pieces} <= names.keys()
    for station in STATIONS:
        for blank in station.blanks:
            node = dict(stations.functions(ast.parse(text)))[blank]
            assert stations.unwritten(node), blank


def test_a_station_from_guess_to_explanation(learner):
    """Nothing runs before the guess; expected beside found first, the name at the second attempt, then the payoff."""
    station = STATIONS[0]
    assert "Nothing runs before you have guessed" in learner.save(first=True)
    assert "'it'" in learner.said
    learner.put(('PREDICT_1 = ""', 'PREDICT_1 = "x"'))
    assert "'x' is none of a, b, c and d." in learner.save()
    learner.put(('PREDICT_1 = "x"', 'PREDICT_1 = "c"'))
    assert "You guessed c. The answer is a, the same two sentences." in learner.save()
    assert "Now it is your turn." in learner.said
    assert learner.record["attention"]["attempts"] == 0
    learner.write(station, WRONG["attention"])
    assert "expected" in learner.save()
    assert "softmax over the queries" not in learner.said
    assert not learner.fine
    assert "1 attempt so far" in learner.said
    learner.put(("# Explain in a sentence: Why are", "# Explain, in a sentence: Why are"))
    assert "1 attempt so far" in learner.save(), "a comment elsewhere is no attempt"
    learner.write(station, (".softmax(-1)", ".softmax(0)"))
    assert "2 attempts so far" in learner.save()
    assert "gives exactly these answers: softmax over the batch." in learner.said
    learner.write(station)
    assert "Right. With your part in it, the book's model gives:" in learner.save()
    assert "weil es zu müde war" in learner.said
    assert learner.fine
    assert "Explain, in EXPLAIN_1" in learner.said
    learner.explain(station)
    assert "Compare your sentence" in learner.save()
    assert "Station 2 of 8: masks" in learner.said
    assert "1 of 8 stations done, 7 left" in learner.said or "Nothing runs before" in learner.said


def test_a_comment_asks_for_the_name(learner):
    learner.guess(STATIONS[0]).write(STATIONS[0], WRONG["attention"])
    learner.put(("    mixed = weights @ v  # 3", "    mixed = weights @ v  # 3\n    # ?"))
    assert "A known mistake gives exactly these answers: softmax over the queries." in learner.save()
    assert learner.record["attention"]["attempts"] == 1


@pytest.mark.slow
def test_each_station_fails_and_passes(learner):
    """Wrong once, with what the trained model makes of it; right, and in the trained model at once."""
    for station in STATIONS:
        learner.guess(station).write(station, WRONG[station.name]).save()
        assert not learner.fine
        assert learner.record[station.name]["attempts"] == 1
        assert "known mistake" not in learner.said
        learner.write(station).explain(station).save()
        assert "Right." in learner.said
        assert "right" in learner.record[station.name]
        assert learner.fine
    assert "All 8 stations are done" in learner.said


def test_a_station_that_was_right_and_is_changed_is_asked_again(learner):
    learner.pass_until(STATIONS[2]).write(STATIONS[0], WRONG["attention"])
    learner.save()
    assert not learner.fine
    assert "attention is asked with" in learner.said
    learner.write(STATIONS[0])
    learner.save()
    assert learner.fine


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (("import torch\n", ""), "name 'torch' is not defined"),
        (("class AddNorm", "class AddNorms"), "AddNorm.forward is no longer in the file"),
        (("PAD, BOS, EOS = 0, 2, 3", "PAD, BOS, EOS = 7, 2, 3"), "is asked with"),
        (
            (
                "class Attention(",
                "class Attention(nn.Module):\n    def split(self, x):\n        ...\n\n\nclass Unused(",
            ),
            "no longer in the file",
        ),
    ],
)
def test_what_was_right_is_asked_again_when_anything_changes(learner, edit, said):
    """Also what stands outside the stations, as an import or a constant, and what has gone."""
    learner.pass_until(STATIONS[-1]).put(edit)
    try:
        learner.save()
    except InputError as error:
        learner.said, learner.fine = str(error), False
    assert said in learner.said
    assert "All" not in learner.said
    assert not learner.fine


def test_what_a_file_prints_is_labelled_and_cut(learner):
    learner.guess(STATIONS[0]).write(STATIONS[0]).put(("    scores = q", "    print('here', len(q))\n    scores = q"))
    said = learner.save().splitlines()
    assert said[0] == "Your file printed:"
    assert said[1] == "  here 2"
    assert "lines more" in said[6]
    assert "Right." in learner.said


def test_small_inputs_are_not_all(learner, monkeypatch):
    """A part that passes all of them, and makes something else of the trained model, is not right."""
    part = STATIONS[0]
    learner.guess(part).write(
        part, ("weights = scores", "scores = scores * 0 if k.shape[-1] == 32 else scores\n    weights = scores")
    )
    learner.save()
    assert "all small inputs are answered as they should be, but look:" in learner.said
    assert not learner.fine


def test_transfers_wait_and_are_told_once(learner):
    learner.pass_until(STATIONS[1]).save()
    assert "Transfer 1" not in learner.said
    learner.put(
        ("def batch_second(q, k, v):\n    ...", "def batch_second(q, k, v):\n    return attention(q, k, v, True)")
    )
    assert "batch_second fails" in learner.save()
    right = "q, k, v = (x.transpose(0, 1) for x in (q, k, v))\n    mask = torch.ones(q.shape[1], k.shape[1]).bool()"
    learner.put(("return attention(q, k, v, True)", f"{right}\n    return attention(q, k, v, mask)[1].transpose(0, 1)"))
    assert "Transfer 1: right." in learner.save()
    assert "Transfer 1" not in learner.save()


@pytest.mark.slow
def test_a_hunt_is_laid_and_found(learner):
    learner.pass_until(STATIONS[2]).save()
    hunted = learner.path.with_name("hunt_2.py")
    text = hunted.read_text(encoding="utf-8")
    assert "#" not in text
    hunt = learn.hunt_for(2, learner.record["seed"])
    assert text == hunt.text
    assert len(set(hunt.options)) == 3
    wrong = next(line for line in range(1, 99) if line not in hunt.lines)
    learner.put(('HUNT_2 = (0, "")', f'HUNT_2 = ({wrong}, "{hunt.right}")'))
    assert f"Line {wrong} is as it should be. The letter is right." in learner.save()
    learner.put((f"HUNT_2 = ({wrong},", f"HUNT_2 = ({hunt.lines[0]},"))
    assert "Hunt 2: found." in learner.save()
    assert "Hunt 2" not in learner.save()


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 6])
def test_hunts_differ_by_seed_and_are_true(count):
    """The line is where the text differs from the solution's, and the right option is what the model does with it."""
    hunts = [learn.hunt_for(count, seed) for seed in (1, 2)]
    assert len({hunt.text for hunt in hunts}) > 1
    for hunt in hunts:
        names = stations.made_of(solution())
        names.update({name: value for name, value in stations.made_of(hunt.text).items() if name in pieces(solution())})
        with torch.random.fork_rng(devices=[]):
            assert tuple(STATIONS[count - 1].payoff(names)) == hunt.options["abc".index(hunt.right)]
        right = learn.stations_text(pieces(solution()), count).splitlines()
        for line in hunt.lines:
            assert hunt.text.splitlines()[line - 1 : line] != right[line - 1 : line]


def test_the_end_is_not_reached_without_learning():
    lines = []
    names = stations.made_of(solution().replace("    value.backward()\n", ""))
    assert not learn.the_end(names, lines.append, seconds=1.0)
    assert "together they do not learn" in lines[-1]


def looked(path, record=None, seconds=120.0):
    return learn.seen_in_fork(path, record or {"seed": 1}, once=True, seconds=seconds)


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        ("PAD, BOS, EOS = 0, 2,,", message("learn-syntax", ..., LINE, ...)),
        ("PAD, BOS, EOS = 0, 2", message("check-raised") + rf".*line {LINE} of my_transformer\.py.*"),
        ("raise SystemExit(3)", message("check-raised") + rf".*line {LINE} of my_transformer\.py.*"),
    ],
)
def test_a_file_that_cannot_run_is_one_line(learner, edit, line):
    learner.guess(STATIONS[0]).put(("PAD, BOS, EOS = 0, 2, 3", edit))
    found = looked(learner.path)
    assert not found.fine
    (said,) = found.lines
    assert re.fullmatch(line, said)


@pytest.mark.slow
def test_nothing_in_a_file_breaks_the_command(learner, capfd, monkeypatch):
    """It prints, it never ends, it kills its process, it is gone."""
    monkeypatch.setattr(learn, "SECONDS", 1.0)
    monkeypatch.setattr(running, "PATIENCE", 1000)
    learner.guess(STATIONS[0]).put(("# ---- Station 1", "print('from me')\n# ---- Station 1"))
    assert looked(learner.path).lines[:2] == ["Your file printed:", "  from me"]
    assert "from me" not in capfd.readouterr().err
    learner.put(("print('from me')", "while True: pass"))
    (line,) = looked(learner.path).lines
    assert "still running after 1 seconds" in line
    learner.put(("while True: pass", "import os; os._exit(3)"))
    assert looked(learner.path).lines == [f"{learner.path}: Python itself has ended while it ran this file"]
    learner.put(
        ("import os; os._exit(3)", "import signal, time; signal.signal(signal.SIGALRM, signal.SIG_IGN); time.sleep(60)")
    )
    assert "no answer after 2 seconds" in looked(learner.path, seconds=2.0).lines[0]
    learner.path.unlink()
    assert re.fullmatch(message("learn-unreadable", learner.path), looked(learner.path).lines[0])


def computed():
    """The processor time of this process and of those that it has started, in seconds."""
    return sum(os.times()[:4])


@pytest.mark.slow
def test_a_verdict_takes_a_second(learner):
    """Of a processor, from save to verdict, at the station with the most parts, PyTorch apart."""
    learner.pass_until(STATIONS[4]).guess(STATIONS[4]).write(STATIONS[4], WRONG["ends"])
    _ = stations.book(), reference(), learn.mistaken()
    record, times = learner.record, []
    for edit in (
        WRONG["ends"],
        ("10000.0 ** (-torch", "1000.0 ** (-torch"),
        ("10000.0 ** (-torch", "10000.0 ** (torch"),
    ):
        learner.write(STATIONS[4], edit)
        started = computed()
        found = looked(learner.path, record | {"ends": record.get("ends", {"attempts": 0}) | {"guess": "a"}})
        times.append(computed() - started)
        record = found.record
        assert not found.fine
    assert record["ends"]["attempts"] == 3
    assert "frequencies grow" in "\n".join(found.lines)
    assert min(times) < 3, "a second on an idle machine; beside others each takes longer"


@pytest.mark.slow
def test_the_command_watches_until_all_is_done(learner):
    """A thread saves while the command watches: the stations are said, the end is reached, the record is kept."""
    said, record = [], learner.path.with_suffix(".json")
    done = threading.Event()

    def save():
        while not any("Nothing runs" in line for line in said):
            time.sleep(0.05)
        learner.guess(STATIONS[-1]).write(STATIONS[-1]).explain(STATIONS[-1])
        done.set()

    learner.pass_until(STATIONS[-1])
    record.write_text(json.dumps(learner.record), encoding="utf-8")
    thread = threading.Thread(target=save)
    thread.start()
    assert learn.watch_file(learner.path, said.append, seed=1) == 0
    thread.join()
    assert done.is_set()
    kept = json.loads(record.read_text(encoding="utf-8"))
    assert kept["end"]
    assert all("passed" in kept[station.name] for station in STATIONS)
    assert "You have written a Transformer" in said[-1]
    assert learn.watch_file(learner.path, said.append, once=True) == 0


def test_what_lies_beside_the_file_is_checked(learner):
    learner.path.with_suffix(".json").write_text("[1]", encoding="utf-8")
    with refused("learn-record", learner.path.with_suffix(".json")):
        learn.watch_file(learner.path, print, once=True)


@pytest.mark.slow
def test_old_stations_are_asked_again_after_a_day(learner):
    """Three that were right a day ago, from an empty page; the others are written. Before that, a line says when."""
    record = learner.path.with_suffix(".json")
    with refused("learn-none-right", learner.path):
        learn.watch_file(learner.path, print, again=True)
    learner.pass_until(STATIONS[4]).save()
    record.write_text(json.dumps(learner.record), encoding="utf-8")
    with refused("learn-too-early", learner.path, ...):
        learn.watch_file(learner.path, print, again=True)
    for station in STATIONS[:4]:
        learner.record[station.name]["right"] = (datetime.now() - timedelta(days=1, minutes=1)).isoformat()
    record.write_text(json.dumps(learner.record), encoding="utf-8")
    said = []
    assert learn.watch_file(learner.path, said.append, again=True, once=True, seed=3) == 0
    (path,) = learner.path.parent.glob("my_transformer_again_*.py")
    chosen = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["again"]
    assert len(chosen) == 3
    nodes = dict(stations.functions(ast.parse(path.read_text(encoding="utf-8"))))
    for station in STATIONS:
        blank = {stations.unwritten(nodes[name]) for name in station.blanks}
        assert blank == {station.name in chosen}
    assert "0 of 3 stations done" in said[-1]
    path.write_text(solution(), encoding="utf-8")
    assert learn.watch_file(learner.path, said.append, again=True) == 0
    assert "All 3 stations are done." in said[-1]


@pytest.mark.slow
def test_the_notebook_is_filled_in_and_runs(tmp_path, capsys):
    """In IPython itself: guesses, parts, sentences, transfers, the end. As it is written, nothing is right."""
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    path = tmp_path / "mine.ipynb"
    learn.write_notebook(path)
    with refused("learn-notebook", path):
        learn.write_notebook(path)
    cells = ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    right = pieces(solution())
    for filled in (False, True):
        shell = interactive.InteractiveShell()
        capsys.readouterr()
        for cell in cells:
            if filled:
                for name in pieces(cell) if "mine." not in cell else ():
                    function = reference()[name] if name not in right else None
                    cell = cell.replace(pieces(cell)[name], right[name] if function is None else "")
                for n, station in enumerate(STATIONS, 1):
                    cell = cell.replace(f'mine.predict({n}, "")', f'mine.predict({n}, "{station.question.right}")')
                    cell = cell.replace(f'mine.explain({n}, "")', f'mine.explain({n}, "It has to be so, I think.")')
            done = shell.run_cell(cell, store_history=True)
            assert done.success, cell
        said = capsys.readouterr().out
        if filled:
            assert said.count("Right. With your part in it") == 8
            assert said.count("Compare your sentence") == 8
            assert "You have written a Transformer" in said
        else:
            assert "Right" not in said
            assert said.count("Nothing runs before you have guessed.") == 8
            assert "Still to be written: attention, masks" in said


def test_a_notebook_names_a_mistake_and_takes_the_latest_cell(capsys):
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    shell = interactive.InteractiveShell()
    first = "import math, torch\nfrom annotated.workbook.learn import Notebook\nmine = Notebook(globals())"
    part = pieces(solution())["attention"]
    for cell in (
        first,
        part.replace(".softmax(-1)", ".softmax(-2)"),
        "%time 1 + 1",
        'mine.predict(1, "a")',
        "mine.run(1, name_it=True)",
    ):
        assert shell.run_cell(cell, store_history=True).success
    assert "softmax over the queries" in capsys.readouterr().out
    for cell in (part, "mine.run(1)", "mine.transfer(1)", "mine.end()"):
        assert shell.run_cell(cell, store_history=True).success
    said = capsys.readouterr().out
    assert "Right. With your part" in said
    assert "batch_second is not written yet." in said
    assert "Still to be written: masks" in said


@pytest.mark.slow
def test_the_command_by_itself(tmp_path, monkeypatch, capsys):
    """As somebody types it: the file is written once, never again; the exit status says whether anything is wrong."""
    monkeypatch.chdir(tmp_path)
    assert main(["learn", "--once", "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert "my_transformer.py is written" in said
    assert "Nothing runs before you have guessed" in said
    path = tmp_path / "my_transformer.py"
    text = path.read_text(encoding="utf-8").replace('PREDICT_1 = ""', 'PREDICT_1 = "a"')
    wrong = (
        text.replace("scores = ...", "scores = q")
        .replace("weights = ...", "weights = q")
        .replace("mixed = ...", "mixed = q")
    )
    path.write_text(wrong, encoding="utf-8")
    assert main(["learn", "--once"]) == 1
    assert path.read_text(encoding="utf-8") == wrong
    assert main(["learn", "--notebook"]) == 0
    assert (tmp_path / "my_transformer.ipynb").exists()
    assert main(["learn", "--notebook"]) == 1
    assert re.search(message("learn-notebook", "my_transformer.ipynb"), capsys.readouterr().err)
