"""Cells that run in the page: as Python under node, and as parts of a page in a browser."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from annotated.workbook import learn, stations
from tests.pages import SITE, overflowing, shows, thin_out, violations
from tests.test_learn import Learner

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / place) for place in ("book/_ext", "book/web/python", "tests/web")]

import in_page  # noqa: E402
import payoff  # noqa: E402
import torch_questions  # noqa: E402

OWN = (
    r"index (\d+ )?is out of bounds for dimension.*|expected .*(dtype|scalar type).*"  # in PyTorch each kernel says it
)
LEFT_OUT = {
    "00_whole": {"first-steps"},
    "32_attention": set(),
    "39_transformer": set(),
}  # pages that are compared, and cells that train
NO_POSITIONS = ("angles = ", "angles = 0 * ")
browser_only = [pytest.mark.browser, pytest.mark.slow, pytest.mark.usefixtures("site")]


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Ask the page's Python, under node: a function of running.py and what it is given."""
    if not (node := shutil.which("node")):
        pytest.skip("no node")
    files = in_page.sources()
    for page in in_page.PAGES:
        files |= in_page.texts_read(in_page.cells_of(page)[1])
    model = [(f"/book/{in_page.MODEL}/{path.name}", str(path)) for path in sorted((ROOT / in_page.MODEL).iterdir())]
    library = tmp_path_factory.mktemp("python") / "python_stdlib.zip"
    library.write_bytes(in_page.library())
    with subprocess.Popen(
        [node, ROOT / "tests" / "web" / "running.mjs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdin.write(json.dumps({"library": str(library), "files": files, "model": model}) + "\n")

        def question(name: str, *given):
            process.stdin.write(json.dumps({"name": name, "given": given}) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield question
        process.stdin.close()


def cell(source: str, name: str = "mine", *, is_open: bool = True, ran: bool = False) -> dict:
    return {"id": name, "source": source, "open": is_open, "ran": ran}


def stored(page: str) -> dict[str, str]:
    """What the cells of a chapter printed when it was executed."""
    notebook = nbformat.read(ROOT / "book" / f"{page}.ipynb", as_version=4)
    return {one.id: "".join(part.get("text", "") for part in one.outputs) for one in notebook.cells if "outputs" in one}


def numbers(text: str) -> tuple[str, list[float]]:
    """A text without its decimal fractions, and these."""
    pattern = r"-?\d+\.\d+(?:e[-+]?\d+)?"
    return re.sub(rf" *{pattern}", " #", text), [float(one) for one in re.findall(pattern, text)]


def alike(one, other) -> bool:
    """Whether two answers are the same, numbers to single precision."""
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float):
        return isinstance(other, float) and other == pytest.approx(one, rel=1e-5, abs=1e-6, nan_ok=True)
    if isinstance(one, str):
        return re.sub(OWN, "", one) == re.sub(OWN, "", str(other))
    return type(one) is type(other) and one == other


@pytest.mark.slow
def test_the_small_torch_answers_as_pytorch(ask):
    """Some 1,700 questions on shapes, broadcasting, views, places, kinds, random numbers, modules and errors."""
    text = (ROOT / "tests" / "web" / "torch_questions.py").read_text(encoding="utf-8")
    told = (
        "class Told:\n    def _repr_html_(self):\n        import json\n        return json.dumps(answers())\n\nTold()"
    )
    ((_, found),), error = ask("run", cell(f"{text}\n\n{told}"))
    assert error is None
    small, right = json.loads(found), json.loads(json.dumps(torch_questions.answers()))
    assert [(name, one, small[name]) for name, one in right.items() if not alike(one, small[name])] == []


@pytest.mark.parametrize(("page", "place"), [(page, place) for page in in_page.PAGES for place in range(3)])
def test_a_prepared_change_does_what_it_says(page, place):
    """The twins stay or change as `changes.yml` has it: in PyTorch, by the function that the page uses."""
    change = in_page.changes(page)[place]
    (source,) = [one["source"] for one in in_page.cells_of(page)[0] if one["id"] == change["cell"]]
    assert source.count(change["from"]) == 1
    answers = []
    edits = {f"{page}#{change['cell']}": source.replace(change["from"], change["to"])}
    twins, before, _ = zip(*in_page.sentences()[:2])
    assert payoff.translations(edits, [*twins], lambda _, value: answers.append(json.loads(value)[1])) is None
    assert (answers == [*before]) == (change["twins"] == "same")


@pytest.mark.slow
@pytest.mark.parametrize("page", LEFT_OUT)
def test_open_cells_print_what_is_stored(ask, page):
    """To 1e-4, and text to the letter; of the folded cells those run that an open one needs."""
    expected, compared = stored(page), 0
    state = [cell(one["source"], one["id"], is_open=one["open"]) for one in in_page.cells_of(page)[0]]
    for place, last in enumerate(state):
        if not last["open"] or last["id"] in LEFT_OUT[page]:
            continue
        due = ask("plan", state[: place + 1])[1]
        for one in state:
            if one["id"] in due:
                sent, error = ask("run", one)
                one["ran"] = True
        assert error is None, (last["id"], error)
        text, found = numbers("".join(value for kind, value in sent if kind == "text"))
        wanted_text, wanted = numbers(expected[last["id"]])
        assert text == wanted_text, last["id"]
        assert found == pytest.approx(wanted, abs=1e-4), last["id"]
        compared += bool(text)
    assert compared >= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "kind", "message", "lines"),
    [
        ("def f(x):\n    return x / 0\n\nf(2)", "ZeroDivisionError", "division by zero", [4, 2]),
        ("x = 1\nif x\n    x = 2", "SyntaxError", "expected ':'", [2]),
        ("import scipy", "ModuleNotFoundError", "this page has no scipy; run the chapter in Jupyter", [1]),
        ("x = [0] * 10**9", "MemoryError", "this page's Python has no room for that many numbers", [1]),
        ("raise SystemExit", "SystemExit", "", [1]),
        ("import torch\n\ntorch.ones(2, 3) @ torch.ones(2, 3)", "RuntimeError", "mat1 and mat2 shapes", [3]),
    ],
)
def test_an_error_names_the_readers_own_line(ask, source, kind, message, lines):
    """And no line of what lies below."""
    _, error = ask("run", cell(source))
    assert error["type"] == kind
    assert message in error["message"]
    assert [(one["cell"], one["number"]) for one in error["lines"]] == [("mine", number) for number in lines]


@pytest.mark.slow
def test_the_last_expression_is_shown_and_long_output_is_cut(ask):
    shown = lambda source: "".join(value for _, value in ask("run", cell(source))[0])  # noqa: E731
    assert shown("x = 2\nx + 1") == "3\n"
    assert shown("x + 1;") == shown("None") == ""
    assert len(shown("for _ in range(9):\n    print('a' * 99_999)")) < 101_000
    sent, _ = ask("run", cell("from IPython.display import HTML\nHTML('<b>2</b>')"))
    assert sent == [["html", "<b>2</b>"]]


@pytest.mark.slow
def test_what_a_cell_lacks_is_told_with_the_reason(ask):
    """A folded cell that fails is silent; the name that it makes says so where it is missed."""
    ask("run", cell("import scipy\nneeded = scipy.e", "folded", is_open=False))
    _, error = ask("run", cell("print(needed)"))
    assert "needed is made in the cell folded, which does not run in this page: this page has no scipy" in error["hint"]


@pytest.mark.slow
def test_cells_above_run_first_and_folded_ones_where_they_are_needed(ask):
    cells = [
        cell("import math", "a", is_open=False),
        cell("draw = math.pi", "b", is_open=False),
        cell("x = 1", "c", ran=True),
        cell("def f():\n    return math.sqrt(y)", "d"),
        cell("y = x", "e", is_open=False),
        cell("f()", "f"),
    ]
    assert ask("plan", cells)[1] == ["a", "d", "f"]  # when d is run, e is below it; f needs y, by way of d
    ran = [one | {"ran": True} for one in cells]
    assert ask("dependents", ran[2:], "")[1] == ["e"]
    assert ask("dependents", ran[3:], "")[1] == ["f"]
    assert ask("dependents", [cell("z = 2", "c"), *ran[3:]], "x = 1")[1] == ["e"]  # x is gone
    between = [cell("a = 1", "a"), cell("w = a", "w", ran=True), cell("w", "last", ran=True)]
    assert ask("plan", between)[1] == ["a", "w", "last"]  # w ran with another a
    for broken in ("def f(a, a): pass", "nonlocal x", "'\\ud800'"):
        assert ask("plan", [cell(broken)])[1] == ["mine"]


@pytest.fixture(scope="module")
def twins() -> list[tuple[str, str, float]]:
    return in_page.sentences()[:2]


def translated(ask, edits: dict, twins) -> tuple[list[str], dict | None]:
    sent, error = ask("translations", edits, [english for english, *_ in twins])
    return [json.loads(value)[1] for _, value in sent], error


def edited(page: str, name: str, old: str, new: str) -> dict[str, str]:
    """A page's cell with a change, as the page sends it."""
    source = next(one["source"] for one in in_page.cells_of(page)[0] if one["id"] == name)
    assert old in source
    return {f"{page}#{name}": source.replace(old, new)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "name", "old", "new"),
    [
        ("00_whole", "ends", *NO_POSITIONS),
        ("32_attention", "scaled-dot-product-attention", "scores = query", "scores = 0 * query"),
        ("39_transformer", "transformer", "x = self.embed(", "x = 0 * self.embed("),
    ],
)
def test_the_shipped_weights_translate_in_the_readers_classes(ask, twins, page, name, old, new):
    """An edit that says the same changes nothing; one that takes something away does, until it is taken back."""
    before = [german for _, german, _ in twins]
    assert translated(ask, edited(page, name, old, f"{old} "), twins) == (before, None)
    after, error = translated(ask, edited(page, name, old, new), twins)
    assert error is None
    assert after != before
    assert translated(ask, {}, twins) == (before, None)


@pytest.mark.slow
def test_a_model_that_cannot_be_built_is_an_answer(ask, twins):
    _, error = translated(ask, edited("00_whole", "attention", "heads: int", "several: int"), twins)
    assert (error["step"], error["type"]) == ("the model cannot be built", "NameError")
    assert error["lines"][-1] == {"cell": "attention", "number": 6, "text": "self.heads = heads"}
    _, error = translated(ask, edited("00_whole", "attention", "mixed = self.weights @ v", "mixed = v @ v"), twins)
    assert error["step"] == "the model cannot translate"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "layers", "search"])
def test_the_page_says_of_a_station_what_the_command_says(ask, tmp_path, monkeypatch, name):
    """Of a wrong attempt, and then of the right one."""
    monkeypatch.chdir(tmp_path)
    station = next(one for one in stations.STATIONS if one.name == name)
    learner = Learner(Path()).pass_until(station).guess(station)
    learner.record[name] = {"attempts": 0, "guess": station.right, "shown": True, "told": True}
    for one in stations.STATIONS:  # to lay a hunt takes long
        learner.record.setdefault(one.name, {"attempts": 0})["hunt"] = True
    for edits in station.more[0].edits, ():
        learner.write(station, *edits)
        given = learner.path.read_text(encoding="utf-8"), json.loads(json.dumps(learner.record))
        _, found = ask("look", *given, False)
        here, there = (re.sub("; open: .*]", "]", said) for said in ("\n".join(found["lines"]), learner.save()))
        assert here == there  # but for transfers that the page does not have


def run(page, name: str):
    """Press a cell's Run, and wait until it has run."""
    place = page.locator(f"#cell-{name}")
    place.get_by_role("button", name="Run:").click()
    page.locator(f"#cell-{name}.ready:not([data-busy])").wait_for()
    return place


def write(page, name: str, text: str):
    """Change a cell's text."""
    place = page.locator(f"#cell-{name}")
    if not place.locator("textarea").count():
        place.get_by_role("button", name="Edit:").click()
    place.locator("textarea").fill(text)
    return place


class TestInThePage:
    """Cells of chapter 00 in a browser."""

    pytestmark = browser_only

    def test_nothing_comes_before_run_and_nothing_is_needed_after_it(self, open_page, site):
        """Before the first Run a small script; then all from this host; then no host at all, even for a new start."""
        page, requests, complaints = open_page("00_whole.html")
        before = sorted(re.sub(r".*/|\?.*", "", url) for url in requests if "/python/" in url)
        assert before == ["button.js", "python.css"]
        assert sum((SITE / "_static" / "python" / name).stat().st_size for name in before) < 5_000
        assert not [url for url in requests if "/models/" in url]
        place = run(page, "attention-idea")
        assert place.locator(".run-output pre").inner_text() == stored("00_whole")["attention-idea"]
        assert not place.locator(".cell_output:not(.run-output)").is_visible()
        assert [url for url in requests if not url.startswith((site, "data:", "blob:"))] == []
        page.context.set_offline(True)
        try:
            write(page, "attention-idea", "while True:\n    pass")
            place.get_by_role("button", name="Run:").click()
            place.locator(".run-output").last.wait_for()
            place.get_by_role("button", name="Stop:").click()
            shows(place, "Stopped.")
            write(page, "attention-idea", "import os\nlen(ids), os.getcwd()")
            shows(run(page, "attention-idea").locator(".run-output"), "(2, '/book/book')")
        finally:
            page.context.set_offline(False)
        assert complaints == []

    def test_an_edit_shows_what_the_model_says_and_reset_brings_the_book_back(self, open_page):
        page, _, complaints = open_page("00_whole.html")
        run(page, "weights")
        text = next(one["source"] for one in in_page.cells_of("00_whole")[0] if one["id"] == "ends")
        write(page, "ends", text.replace(*NO_POSITIONS))
        place = run(page, "ends")
        panel = place.locator(".run-payoff")
        shows(panel, "of 10 translations changed")
        assert "es" in panel.locator("mark").all_inner_texts()
        shows(page.locator("#cell-weights"), "before a cell above was changed")
        place.get_by_text("What differs from the book").click()
        assert [place.locator(one).count() for one in ("del", "ins")] == [1, 1]
        assert overflowing(page) == []
        thin_out(page)
        assert violations(page, {}, "#cell-ends") == []
        page.wait_for_function("location.hash.startsWith('#run-')")
        place.get_by_role("button", name="Reset:").click()
        assert page.evaluate("document.activeElement.className") == "edit"
        assert place.locator(".run-output, .run-payoff, textarea").count() == 0
        page.wait_for_function("location.hash === ''")
        assert complaints == []

    def test_keys(self, open_page):
        """Tab indents, Escape and Tab leave, Shift and Enter run; a text that was not changed closes."""
        page, _, complaints = open_page("00_whole.html", "phone", "dark")
        place = page.locator("#cell-flow")
        place.get_by_role("button", name="Edit:").focus()
        page.keyboard.press("Enter")
        place.locator("textarea").wait_for()
        for key in ("Escape", "Tab"):
            page.keyboard.press(key)
        assert place.locator("textarea").count() == 0
        place.get_by_role("button", name="Edit:").click()
        place.locator("textarea").fill("")
        page.keyboard.type("for i in (1, 2):\nprint(i)")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert place.locator("textarea").input_value() == "for i in (1, 2):\n    print(i)\n        "
        assert overflowing(page) == []
        thin_out(page)
        assert violations(page, {}, "#cell-flow") == []
        page.emulate_media(media="print")
        assert place.locator(".run-bar").is_hidden()
        assert complaints == []

    def test_text_from_an_address_never_runs_by_itself(self, open_page, site):
        """Not even for a cell below it; and what a cell returns as HTML does nothing."""
        page, requests, complaints = open_page("00_whole.html")
        markup = "<img src=x onerror=alert(1)><a href='javascript:alert(2)'>b</a>"
        hostile = f"from IPython.display import HTML\nHTML({markup!r})"
        write(page, "attention-idea", hostile)
        page.wait_for_function("location.hash.startsWith('#run-')")
        address = page.url
        page.reload()
        place = page.locator("#cell-attention-idea")
        shows(place, "This text came with the address and is not the book's.")
        assert place.locator("textarea").input_value() == hostile
        assert not [url for url in requests if ".wasm" in url]
        shows(run(page, "attention"), "The cell attention-idea above holds text from the address")
        assert page.locator(".run-output").count() == 0
        assert run(page, "attention-idea").locator(".run-output a").get_attribute("href") is None
        for broken in ("#run-", "#run-abc", "#run-" + "A" * 500, address.replace("#run-", "#run-_")):
            page.goto(f"{site}00_whole.html#{broken.partition('#')[2]}")
            shows(page.locator(".run-strange"), "cannot be read")
        assert complaints == []

    def test_a_prepared_change_asks_for_a_guess_and_says_why(self, open_page):
        page, _, complaints = open_page("00_whole.html", "phone")
        change = in_page.changes("00_whole")[1]
        place = page.locator(f"#cell-{change['cell']}")
        place.get_by_role("button", name=change["name"]).click()
        place.get_by_role("button", name="Make the change").click()
        shows(place.locator(".run-guess"), "Guess first.")
        place.get_by_label(change["options"][0]).check()
        assert overflowing(page) == []
        thin_out(page)
        assert violations(page, {}, f"#cell-{change['cell']}") == []
        place.get_by_role("button", name="Make the change").click()
        shows(place.locator(".run-guess"), change["why"])
        shows(place.locator(".run-guess"), f"You guessed: {change['options'][0]}")
        assert place.locator("ins").inner_text().strip().endswith(change["to"])
        assert complaints == []

    def test_stations_are_written_in_the_page_and_kept(self, open_page):
        """The command's words; the attempt is kept, and can be downloaded; a second tab stops the first."""
        page, _, complaints = open_page("84_build_it_yourself.html")
        place = page.locator("#stations-here")
        place.get_by_role("button", name="Begin in the page").click()
        shows(place.locator(".station-said"), "Nothing runs before you have guessed.")
        field = place.locator("textarea")
        field.fill(field.input_value().replace('PREDICT_0 = ""', 'PREDICT_0 = "c"'))
        place.get_by_role("button", name="Save, and let it be looked at").click()
        shows(place.locator(".station-said"), "Now it is your turn.")
        thin_out(page)
        assert violations(page, {}, "#stations-here") == []
        kept = json.loads(page.evaluate("localStorage.getItem('annotated-stations')"))
        assert kept["record"]["example"]["guess"] == "c"
        with page.expect_download() as coming:
            place.get_by_role("button", name="Download my_transformer.py").click()
        text = coming.value.path().read_text(encoding="utf-8")
        assert text == kept["text"] == learn.new_file().replace('PREDICT_0 = ""', 'PREDICT_0 = "c"')
        other_tab = "document.body.appendChild(document.createElement('iframe')).contentWindow"
        page.evaluate(f"{other_tab}.localStorage.setItem('annotated-stations', '{{}}')")
        shows(place, "The stations go on in another tab.")
        assert complaints == []

    def test_from_a_file_a_cell_is_as_it_was(self, browser):
        page = browser.new_page()
        page.goto((SITE / "00_whole.html").as_uri())
        assert (
            page.locator("#cell-flow .cell_input").evaluate("one => getComputedStyle(one, '::after').content") == "none"
        )
        assert page.locator(".run-bar").count() == 0
        page.close()
