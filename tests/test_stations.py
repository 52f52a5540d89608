"""Stations: each accepts the solution, refuses what is not written, and notices and names the mistakes it is about."""

import ast
import textwrap
import time

import pytest
import torch

from annotated.doctor import running
from annotated.doctor.asking import StillRunning
from annotated.workbook import learn, stations
from annotated.workbook.stations import ALL, STATIONS, Case, hand_over, reference, same, solution

TWINS = [
    "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    "Das Tier überquerte die Straße nicht, weil sie zu breit war.",
]
LIONS = [
    "Der Löwe überquerte die Straße nicht, weil er zu müde war.",
    "Der Löwe überquerte die Straße nicht, weil sie zu breit war.",
]
RIGHT = learn.Judgement("right")
FIRST = STATIONS[0]
each = pytest.mark.parametrize("station", STATIONS, ids=lambda one: one.name)
with_example = pytest.mark.parametrize("station", ALL, ids=lambda one: one.name)


def mine(text: str, **names: object) -> learn.Mine:
    return learn.Mine(text, dict(stations.functions(ast.parse(text))), names or stations.made_of(text))


def edited(*edits: tuple[str, str]) -> learn.Mine:
    text = solution()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return mine(text)


def said(lines: list[str]) -> list[str]:
    """What is written, without the words in front of it."""
    return [line.rpartition("->")[2].strip() for line in lines]


ANSWERED = {  # what the model does with the mistake that the question is about, as the right option says it
    "example": lambda found: all("eileilei" in line for line in found),
    "attention": lambda found: found == TWINS,
    "masks": lambda found: all("weil sie zu" in line for line in found),
    "heads": lambda found: not any("überquerte" in line or "weil" in line for line in found),
    "layers": lambda found: all(
        any(a == b == c for a, b, c in zip(one, one[1:], one[2:]))
        for one in (line.replace(".", "").replace(",", "").split() for line in found)
    ),
    "ends": lambda found: all("weil" in line and "überquerte die Straße" not in line for line in found),
    "step": lambda found: "Löwe" not in "".join(found) and "Tier" not in "".join(found),
    "search": lambda found: all(line.count("überquerte") > 1 for line in found),
}


@pytest.mark.slow
@with_example
def test_a_right_part_goes_into_the_trained_model_and_the_question_is_answered(station):
    assert learn.judge(station.cases, mine(solution())) == RIGHT
    found = said(learn.payoff(station, dict(reference())))
    assert found == {"loss": ["es", "sie"], "step": LIONS}.get(station.name, TWINS)
    told = learn.guessed(station, "?")
    wrong = [line for line in told if line.startswith("  ")]
    if station.name == "loss":
        losses = [float(word.rstrip(",;")) for line in wrong for word in line.split() if word[0].isdigit()]
        assert len(losses) == 6
        assert min(losses) > 20
    else:
        assert ANSWERED[station.name](said(wrong))
    assert station.options[station.right] in " ".join(told)
    assert any(character.isdigit() for line in station.watch() for character in line)


@with_example
def test_nothing_passes_that_is_not_written_and_parts_are_asked_in_their_order(station):
    """The first is right, the second comes next; nobody is told that what is missing is wrong."""
    empty, text = mine(learn.new_file()), solution()
    assert learn.judge(station.cases, empty).verdict == "unwritten"
    if station.transfer:
        assert learn.judge(station.transfer.cases, empty).verdict == "unwritten"
    first, *others = dict.fromkeys(case.part for case in station.cases)
    for name in station.pieces:
        piece = stations.pieces(text)[name]
        text = text.replace(piece, stations.emptied(piece, tuple(others)))
    verdict, lines, *_ = learn.judge(station.cases, mine(text))
    assert verdict == ("partly" if others else "right"), first
    assert [one in lines[0] for one in others] == [one == others[0] for one in others]


NEARLY = {  # parts that a reader took for right, and so did the stations once
    "heads": [("mixed.transpose(1, 2).flatten(2)", "mixed.permute(0, 2, 3, 1).flatten(2)")],
    "layers": [("self.inner(x).relu()", "self.inner(x).abs()")],
    "step": [
        (
            "learning_rate(step, model.target_embedding.weight.shape[1]",
            "learning_rate(step, model.target_embedding.weight.shape[0]",
        ),
        ("return value.item()", "return value.detach()"),
    ],
    "search": [
        ("    model.train(training)\n", "    model.train()\n"),
        ("target.shape[1] <= source.shape[1] + extra", "target.shape[1] <= extra"),
        ("source.shape[1] + extra", "source.shape[1] + extra + 3"),
        ("return target[:, 1:]", "return target"),
        ("return target[:, 1:]", "return nn.functional.pad(target[:, 1:], (0, 1))"),
    ],
}


@pytest.mark.slow
@with_example
def test_every_mistake_is_noticed_and_named(station):
    """Copied layers, and gradients that go nowhere, cannot be seen where numbers are given."""
    unseen = ("layers copied", "encoder cut off from the loss")
    named = set()
    for one, names in learn.copies(station):
        theirs = mine(solution(), **names)
        judged = learn.judge(station.cases, theirs)
        assert judged.verdict == ("right" if one.name in unseen else "wrong"), one.name
        kind = one in station.more
        if judged.part and kind not in named:
            assert one in learn.alike(station, theirs, judged.part)
            named.add(kind)
    assert named == {one in station.more for one, _ in learn.copies(station)}
    for edit in NEARLY.get(station.name, []):
        assert learn.judge(station.cases, edited(edit)).verdict == "wrong", edit


@pytest.mark.slow
def test_a_mistake_keeps_its_name_beside_another():
    """Of several parts that are wrong, the one that is asked is compared, and not those that come later."""
    station, theirs = STATIONS[4], edited(
        ("self.dropout(x + positions(x.shape[1], x.shape[2]).to(x))",
         "self.dropout(x) + positions(x.shape[1], x.shape[2]).to(x)"),
        ("return x @ self.target_embedding.weight.T", "return x @ self.target_embedding.weight.T * 2"),
    )  # fmt: skip
    judged = learn.judge(station.cases, theirs)
    assert [one.name for one in learn.alike(station, theirs, judged.part)] == ["dropout before the positions"]


@pytest.mark.slow
@each
def test_a_transfer_accepts_its_solution_and_names_its_mistakes(station):
    """Among them the lines that were just right, in the place where they do not fit."""
    transfer, head = station.transfer, f"def {station.transfer.name}():\n    return 1"
    assert learn.judge(transfer.cases, mine(head, **reference())) == RIGHT
    for one, names in learn.copies(transfer):
        theirs = mine(head, **names)
        judged = learn.judge(transfer.cases, theirs)
        assert judged.verdict == "wrong", one.name
        assert judged.question, one.name
        assert one in learn.alike(transfer, theirs, transfer.name)


def test_a_beam_that_goes_on_is_told_what_does_not_end(monkeypatch):
    """One that asks without end, one that asks what follows an end, and one that asks nothing any more."""
    monkeypatch.setattr(learn, "SECONDS", 0.2)
    monkeypatch.setattr(running, "PATIENCE", 1000)
    transfer = STATIONS[-1].transfer
    head = "def beam(next_scores, width):\n    kept = {(): 0.0}\n    while kept:\n        "
    for line, said in {
        "next_scores(())": "100 times",
        "kept = {(*words, word): 0.0 for words in kept for word in next_scores(words)}": "which has ended already",
        "pass": "does not end: while kept:",
    }.items():
        text = head + line
        names: dict = {}
        exec(compile(text, "mine.py", "exec"), names)
        monkeypatch.setitem(learn.linecache.cache, "mine.py", (len(text), None, text.splitlines(True), "mine.py"))
        told = "\n".join(learn.judge(transfer.cases, mine(text, **names)).lines)
        assert said in told
        assert ("kept = {(): 0.0}" in told) == (line == "pass")


def test_what_is_expected_stands_beside_what_was_found():
    """On the smallest input; of another kind, they are described."""
    verdict, lines, *_ = learn.judge(FIRST.cases, edited((".softmax(-1)  # 2", ".softmax(-2)")))
    assert verdict == "wrong"
    assert lines[1] == "  2 queries and 2 keys; nothing is hidden"
    shown = [line.split() for line in lines[-2:]]
    assert shown == [["0.8808", "0.1192", "0.8808", "0.2689"], ["0.2689", "0.7311", "0.1192", "0.7311"]]
    for new, line in {
        "return mixed": "found a tensor of numbers, (2, 2)",
        "return None": "found nothing",
        "return mixed, weights": "weights, value 1 of 2",
        "return weights, mixed.flatten()": "found a tensor of numbers, (4,)",
        "return weights, mixed * math.nan": "nan nan",
        "return weights, [1]": "found list [1]",
    }.items():
        verdict, lines, *_ = learn.judge(FIRST.cases, edited(("return weights, mixed", new)))
        assert verdict == "wrong"
        assert any(line in " ".join(one.split()) for one in lines), lines


def test_the_question_is_about_what_is_wrong():
    """The kind of an answer, its shape, what is nan, and else what the small input is about."""
    case, right = STATIONS[4].cases[6], torch.ones(2, 2).tril() * 3
    questions = [stations.leading(case, right.bool(), one) for one in (right, right[:1].bool(), ~right.bool())]
    questions.append(stations.leading(case, (right, right), (right, right / 0)))
    scores = torch.tensor([[1.0, 2], [3, 5]])
    of_shares = [stations.leading(case, scores, one) for one in (scores.softmax(-1), scores.log_softmax(-2))]
    assert len({*questions, *of_shares}) == 5
    assert questions[2] == case.question == stations.leading(case, scores[:1], scores[:1] * 0)
    no_softmax_due = STATIONS[3].cases[1]
    assert stations.leading(no_softmax_due, scores, scores.softmax(-1)) == no_softmax_due.question


def test_what_fails_is_told_by_the_lines_of_its_owner(monkeypatch):
    """An exception, a loop that never ends, and a part that the book's numbers do not fit."""
    monkeypatch.setattr(learn, "SECONDS", 0.3)
    monkeypatch.setattr(running, "PATIENCE", 1000)
    for edit, how, why in (
        (("weights @ v", "weights @ values"), "raised", "NameError: name 'values' is not defined"),
        (("    scores = q @", "    while True:\n        pass\n    scores = q @"), "late", "still running after 0.3"),
    ):
        judged = learn.judge(FIRST.cases, edited(edit))
        assert (judged.verdict, judged.how) == ("wrong", how)
        assert why in judged.lines[-1]
        assert "in attention" in judged.lines[-2]
        assert not any("site-packages" in line or "annotated/" in line for line in judged.lines)
    unfit = edited(("nn.Linear(d, d_ff), nn.Linear(d_ff, d)", "nn.Linear(d, d), nn.Linear(d, d)"))
    judged = learn.judge(STATIONS[3].cases, unfit)
    assert judged.verdict == "wrong"
    assert "(2, 2), (2,), where (3, 2), (3,), (2, 3), (2,) are due" in judged.lines[-1]


def test_nothing_is_asked_where_pytorch_names_the_cure():
    judged = learn.judge(STATIONS[2].cases, edited(("mixed.transpose(1, 2).flatten(2)", "mixed.mT.view(x.shape)")))
    assert "Use .reshape(...) instead" in judged.lines[-1]
    assert not judged.question


@pytest.mark.parametrize(
    ("station", "edit", "line"),
    [
        (6, ("value.item()", "value.detach()"), "found     a tensor"),
        (6, ("return d**-0.5", "d**-0.5"), "found     nothing (is a return missing?)"),
        (6, ("optimizer.param_groups[0]", "optimizer.defaults"), "found     as before the step"),
        (5, ("target[:, :-1]", "target[:, 1:]"), "your loss asked the model with  [[5, 3]]"),
    ],
)
def test_an_answer_is_told_as_what_it_is(station, edit, line):
    """That no number is returned, or that no rate is set, and not that rates differ. Of nothing, nothing is asked."""
    judged = learn.judge(STATIONS[station].cases, edited(edit))
    assert line in "\n".join(judged.lines)
    assert bool(judged.question) == ("nothing" not in line)


def test_an_old_residual_is_seen_in_one_word_of_two_numbers():
    station = STATIONS[3]
    one, names = next(copy for copy in learn.copies(station) if copy[0].name.startswith("the second sum adds"))
    judged = learn.judge(station.cases, theirs := mine(solution(), **names))
    shown = [line.split() for line in judged.lines]
    assert ["1", "-1", "-1", "1"] in shown
    assert ["around_feed_forward", "x", "1", "0", "y", "0", "1.5"] in shown, "what was added: the layer's input"
    assert judged.question.startswith("The second add and norm")
    assert learn.alike(station, theirs, judged.part) == [one]


@pytest.mark.parametrize(
    "slip", ["the attention to the memory asks with", "the last feed-forward layer gets", "memory before the target"]
)
def test_what_a_sub_layer_of_the_decoder_asks_with_is_seen_by_hand(slip):
    """Nobody is shown a large table of decimals for having taken x where what was written is due."""
    _, names = next(copy for copy in learn.copies(STATIONS[3]) if copy[0].name.startswith(slip))
    judged = learn.judge(STATIONS[3].cases, mine(solution(), **names))
    assert any("in yours, each add and norm was given" in line.lower() for line in judged.lines)


def test_a_loss_that_is_no_number_prefers_nothing():
    nan = dict(reference(), loss=lambda *given: torch.tensor(torch.nan))
    assert all(line.endswith("no smallest: all are nan") for line in stations.judged(nan))


def test_time_that_other_programs_take_does_not_count(monkeypatch):
    """A thread that got no processor yet is not late; one that never gets any, or sleeps, ends all the same."""
    monkeypatch.setattr(running.time, "thread_time", lambda: 0.0)
    monkeypatch.setattr(running, "PATIENCE", 10_000)
    with running.at_most(0.02):
        time.sleep(0.2)
    monkeypatch.setattr(running, "PATIENCE", 4)
    with pytest.raises(StillRunning, match=r"still waiting after 0\.08 seconds"), running.at_most(0.02):
        time.sleep(600)


def test_the_solution_is_asked_before_the_clock_starts():
    """The first optimizer of a process loads hundreds of modules, which takes longer than most answers."""
    asked = []
    case = Case("attention", "", lambda names: asked.append(names is reference()))
    assert learn.judge((case,), mine(solution())) == RIGHT
    assert asked == [True, False]


def test_other_names_and_other_random_numbers_do_not_matter():
    """Also a bias that the paper does not have, since zero can be handed over; but not numbers that are left over."""
    theirs = edited(
        ("self.query, self.key, self.value, self.output = (nn.Linear(d, d, bias=False) for _ in range(4))",
         "self.a, self.b, self.c, self.d = (nn.Linear(d, d) for _ in range(4))"),
        ("self.query(", "self.a("), ("self.key(", "self.b("), ("self.value(", "self.c("), ("self.output(", "self.d("),
        ("def draw_weights(model):", "def draw_weights(model):\n    torch.manual_seed(7)"),
    )  # fmt: skip
    for station in STATIONS[2:5]:
        assert learn.judge(station.cases, theirs) == RIGHT, station.name
    assert said(learn.payoff(STATIONS[4], theirs.names)) == TWINS
    with pytest.raises(stations.Unfit):
        hand_over(torch.nn.Linear(2, 3), {"weight": torch.zeros(3, 2), "other": torch.zeros(1)})


def test_same_knows_kinds_shapes_and_rounding():
    one = torch.tensor([1.0, 2.0])
    assert same(one, one + 1e-8)
    assert same(one, one.double())
    assert same(torch.tensor([torch.nan]), torch.tensor([torch.nan]))
    assert not same(one, one + 0.01)
    assert not same(one, one[None])
    assert not same(one > 1, (one > 1).float())
    assert same((one, "a"), [one, "a"])
    assert not same((one,), (one, one))
    assert same(torch.tensor(2.0), 2.0)
    assert not same("a", None)


def test_emptied_keeps_what_stands_around():
    text = textwrap.dedent(
        '''
        class A:
            """A."""

            def f(self, x):  # a shape
                """Doc."""
                y = x
                return y
        '''
    ).strip()
    assert stations.emptied(text, ("A.f",)).splitlines()[3:] == [
        "    def f(self, x):  # a shape",
        '        """Doc."""',
        "        ...",
    ]
    assert "        y = ...\n        return y" in stations.emptied(text, ("A.f",), {"A.f": "y = ...\nreturn y"})
    assert stations.emptied(text, ()) == text
    assert not stations.unwritten(ast.parse("x[..., 0]"))
