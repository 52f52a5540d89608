"""The parts of the rendered book that can be touched, in a real browser, by mouse and by keyboard."""

import json
import math
import re
import shutil
from pathlib import Path

import pytest

from annotated.base.files import read_json
from tests.pages import SITE, new_tab, overflowing, shows, thin_out, violations
from tools.browser import new_page, visit
from tools.case import outsiders
from tools.pictures import PICTURES, opened, pages_with_widgets, text_of

ROOT = Path(__file__).resolve().parents[1]
TEXTS = json.loads((PICTURES / "texts.json").read_text(encoding="utf-8"))
PAGES = {
    "leak": "31_stacks", "equation": "32_attention", "clocks": "35_positional_encoding",
    "warmup": "53_optimizer", "unsure": "60_beam_search",
    "swap": "80_attention_visualizations", "laboratory": "81_laboratory", "breaking": "83_break_one",
    "breaking-mask": "31_stacks", "breaking-root": "32_attention", "breaking-positions": "35_positional_encoding",
    "breaking-warm-up": "53_optimizer",
}  # fmt: skip
NAMES = {page: [name for name in PAGES if PAGES[name] == page] for page in PAGES.values()}
WAITING = ["unsure", "swap", "laboratory"]  # for the model

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("site")]


@pytest.fixture
def live(open_page):
    """Open the page of a widget, start it, and return the page, the widget, and the complaints."""

    def start(name: str, width: str = "laptop", scheme: str = "light"):
        page, requests, complaints = open_page(f"{PAGES[name]}.html", width, scheme)
        assert name in dict(opened(page))
        return page, page.locator(f"#widget-{name} .widget-live"), requests, complaints

    return start


def told(widget):
    return widget.locator(".told").last


def test_every_widget_has_its_page_its_picture_and_its_test():
    with_pictures = ["index.html", "00_whole.html"]  # tests/test_picture.py
    assert sorted([*with_pictures, *(f"{page}.html" for page in NAMES)]) == pages_with_widgets(SITE)


@pytest.mark.parametrize("address", NAMES)
def test_widgets_load_late_and_are_quiet_and_accessible(open_page, site, address):
    """Nothing of the model comes before somebody asks; then no complaint, no other host, no fault for axe.

    The picture says what the widget says, and takes its place on paper.
    """
    page, requests, complaints = open_page(f"{address}.html")
    for name in NAMES[address]:
        figure = page.locator(f"#widget-{name}")
        figure.scroll_into_view_if_needed()
        page.wait_for_function("name => document.getElementById(name).dataset.mounted", arg=f"widget-{name}")
        assert figure.locator("img:visible").count() == figure.locator(".start").count() == (name in WAITING)
    assert not [url for url in requests if "/models/" in url or url.endswith("trainer.js")]
    widgets = dict(opened(page))
    assert sorted(widgets) == sorted(NAMES[address])
    for name, widget in widgets.items():
        assert text_of(widget) == TEXTS[name], f"take pictures again: python -m tools.pictures {name}"
    assert overflowing(page) == []
    thin_out(page)
    for name in widgets:
        assert violations(page, {}, f"#widget-{name}") == []
    assert [url for url in requests if not url.startswith((site, "data:", "blob:"))] == []
    assert complaints == []
    page.emulate_media(media="print")
    for name, widget in widgets.items():
        assert page.locator(f"#widget-{name} > .still-light img").is_visible()  # paper is white
        assert widget.is_hidden()


@pytest.mark.parametrize("address", ["32_attention", "60_beam_search", "81_laboratory"])
def test_widgets_fit_a_phone_in_the_dark(open_page, address):
    page, _, complaints = open_page(f"{address}.html", "phone", "dark")
    names = list(dict(opened(page)))
    assert overflowing(page) == []
    thin_out(page)
    for name in names:
        assert violations(page, {}, f"#widget-{name}") == []
    assert complaints == []


def test_without_scripts_there_is_a_picture(browser, site):
    page = new_page(browser, java_script_enabled=False)
    page.goto(f"{site}80_attention_visualizations.html")
    assert len(page.locator("#widget-swap img:visible").get_attribute("alt")) > 60
    page.context.close()


def test_from_a_file_the_page_says_how_to_serve_it(browser):
    """A browser does not load modules from files."""
    page = browser.new_page()
    page.goto((SITE / "31_stacks.html").as_uri())
    page.locator("#widget-leak").scroll_into_view_if_needed()
    page.locator("#widget-leak .widget-live", has_text="python -m http.server").wait_for()
    assert page.locator("#widget-leak > .still-light img").is_visible()
    page.close()


def test_leak(live):
    """Chapter 31: without the mask, or without the shift, positions see their answers."""
    page, widget, _, complaints = live("leak")
    mask, shift = widget.get_by_label("mask").all()[0], widget.get_by_label("shift").all()[0]
    assert widget.locator("td.leak").count() == 0
    shift.focus()
    page.keyboard.press("Space")
    assert widget.locator("td.leak").count() == 6
    shows(told(widget), "6 of 6 positions")
    shift.click()
    mask.click()
    assert widget.locator("td.leak").count() == 5
    assert complaints == []


def test_equation(live):
    """Chapter 32: another query, a score that is moved, a key that is hidden."""
    page, widget, _, complaints = live("equation")
    weights = lambda: [float(cell) for cell in widget.locator("tbody td:nth-child(5)").all_inner_texts()]  # noqa: E731
    assert weights() == [0.02, 0.62, 0.05, 0.23, 0.08]
    widget.get_by_label("score of much").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")  # from 0 to 2
    powers = [math.exp(score / 2) for score in (-3, 4, -1, 2, 2)]
    assert weights() == [round(power / sum(powers), 2) for power in powers]
    widget.get_by_label("love may be seen").uncheck()
    assert weights()[1] == 0.0
    shows(told(widget), "love is hidden")
    widget.get_by_label("you", exact=True).check(force=True)
    assert weights() == [0.46, 0.01, 0.46, 0.04, 0.04]
    for word in ("I", "love", "you", "very", "much"):
        widget.get_by_label(f"{word} may be seen").uncheck()
    shows(told(widget), "nothing comes out")
    assert complaints == []


def test_clocks(live):
    """Chapter 35: the position moves the hands, the shift alone the angle between them."""
    page, widget, _, complaints = live("clocks")
    before, table = told(widget).inner_text(), widget.locator("table").inner_text()
    widget.get_by_label("position", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert told(widget).inner_text() == before
    assert widget.locator("table").inner_text() != table
    widget.get_by_label("shift", exact=True).focus()
    page.keyboard.press("End")
    product = sum(math.cos(20 / 10**i) for i in range(4))
    shows(told(widget), "A shift of 20 turns the clocks by 1146°, 115°, 11°, 1°")
    shows(told(widget), f"{product:.2f}")
    assert complaints == []


def test_warmup(live):
    """Chapter 53: the peak is where the two arguments of the minimum meet."""
    page, widget, _, complaints = live("warmup")
    widget.get_by_label("width d_model").focus()
    page.keyboard.press("End")
    shows(told(widget), f"{(2048 * 4000) ** -0.5:.5f}")
    widget.get_by_label("warm-up, steps").focus()
    page.keyboard.press("Home")
    shows(told(widget), "500 steps of warm-up")
    shows(told(widget), f"{(2048 * 500) ** -0.5:.5f}")
    assert complaints == []


def test_breaking(open_page, site):
    """Chapter 83: nothing is trained before a guess; then two models learn, and the end is told beside the guess."""
    page, requests, complaints = open_page("83_break_one.html")
    experiments = (ROOT / "book" / "web" / "widgets" / "break" / "experiments.js").read_text(encoding="utf-8")
    assert "steps: TASKS[task][1]," in experiments
    short = experiments.replace("steps: TASKS[task][1],", "steps: 60,")
    page.route("**/experiments.js", lambda route: route.fulfill(body=short, content_type="text/javascript"))
    page.goto("about:blank")
    complaints.clear()
    visit(page, f"{site}83_break_one.html#break-part=shift&task=pronouns&width=16&layers=1")
    ((name, _),) = opened(page)
    widget = page.locator(f"#widget-{name} .widget-live")
    train = widget.get_by_role("button", name="Train both")
    assert train.is_disabled()
    assert not [one for one in requests if one.endswith("trainer.js")]
    assert widget.get_by_label("what to take away").input_value() == "shift"
    widget.get_by_text("It learns more slowly.").click()
    train.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "Pause"
    shows(told(widget), "Step 60. Whole: loss")
    assert page.evaluate("document.activeElement.textContent") == "Train both"
    shows(told(widget), "You guessed: “It learns more slowly.” This run came out otherwise: by itself the second")
    shows(told(widget), "The recorded runs of chapter 83 have other settings (width")
    without = float(re.search(r"Without the shift: loss ([\d.]+), 0%", told(widget).inner_text())[1])
    whole = float(re.search(r"Whole: loss ([\d.]+)", told(widget).inner_text())[1])
    assert without < whole
    assert widget.locator(".learner .thumbnail").count() == 4  # after 50 and 60 steps, for each
    widget.get_by_label("what to take away").select_option("several")
    widget.get_by_label("three of its four heads", exact=True).check()
    assert train.is_disabled()  # another question waits for a guess
    assert "part=shift,heads" in page.url
    widget.get_by_text("lacks the shift and three of its four heads").wait_for()
    widget.get_by_label("the shift", exact=True).uncheck()
    widget.get_by_label("three of its four heads", exact=True).uncheck()
    shows(widget, "Take away at least one part.")
    assert train.is_disabled()
    page.goto(re.sub("#.*", "#break-part=heads&heads=2", page.url))
    shows(widget, "The second model lacks one of its two heads.")
    widget.get_by_text("seed, width, layers").click()
    widget.get_by_label("heads", exact=True).fill("0")
    shows(widget, "One head has none to spare: choose two or four.")
    assert train.is_disabled()
    assert complaints == []


def test_runs_pause_and_stay(open_page):
    """Chapter 83: ten steps, go on, pause; a slider ends the run aloud, which stays until it is removed."""
    page, _, complaints = open_page("83_break_one.html#break-part=shift&width=16&layers=1&rate=1000")
    ((name, _),) = opened(page)
    widget = page.locator(f"#widget-{name} .widget-live")
    widget.get_by_text("It learns more slowly.").click()
    ten, main = widget.get_by_role("button", name="10 steps"), widget.locator("button.go")
    for step in (10, 20):
        ten.click()
        shows(told(widget), f"Paused. Step {step}. Whole: loss")
    top = widget.locator(".plot text[text-anchor=end]").last
    assert float(top.text_content()) > 4  # above which losses once were cut off
    main.click()
    shows(told(widget), "Training goes on.")
    main.click()
    shows(told(widget), "Paused. Step")
    stopped = int(re.search(r"Step (\d+)", told(widget).inner_text())[1])
    widget.get_by_text("seed, width, layers").click()
    widget.get_by_label("seed", exact=True).fill("1")
    shows(told(widget), f"Stopped at step {stopped}, because the settings changed. The run stays")
    earlier = widget.locator(".earlier li")
    shows(earlier, f"{stopped} of 400 steps")
    assert widget.locator(".plot .faint").count() == 2
    widget.get_by_label("what to take away").select_option("root")
    assert "seed=2&width=16&layers=1&rate=1000" in page.url  # what was turned stays
    thin_out(page)
    assert violations(page, {}, f"#widget-{name}") == []
    earlier.get_by_role("button").click()
    assert widget.locator(".plot .faint").count() == earlier.count() == 0
    assert complaints == []


def test_breaking_says_when_numbers_run_away(open_page):
    """Where a loss is not a number there is one line, and another run can begin."""
    page, _, complaints = open_page("83_break_one.html#break-part=warm-up&width=16&layers=1&rate=1000")
    trainer = (ROOT / "book" / "web" / "model" / "trainer.js").read_text(encoding="utf-8")
    spoil = "{ learner.step(++step); if (learner.parts.length && step > 2) learner.loss /= 0; }"
    spoiled = trainer.replace("learner.step(++step);", spoil)
    assert spoiled != trainer
    page.route("**/trainer.js", lambda route: route.fulfill(body=spoiled, content_type="text/javascript"))
    ((name, _),) = opened(page)
    widget = page.locator(f"#widget-{name} .widget-live")
    widget.get_by_text("It learns faster.").click()
    train = widget.get_by_role("button", name="Train both")
    train.click()
    shows(told(widget), "At step 3 the loss of the second model is not a number any more: both are stopped.")
    page.unroute("**/trainer.js")
    train.click()
    shows(told(widget), "Step 100. Whole: loss")  # at a thousand times the rate it is large, and a number
    assert complaints == []


def test_swap(open_page):
    """Chapter 80: a click on the picture starts it; the numbers of the pasted twin are those that Python finds."""
    page, _, complaints = open_page("80_attention_visualizations.html")
    figure = page.locator("#widget-swap")
    figure.scroll_into_view_if_needed()
    figure.locator(".start").wait_for()
    figure.locator("img:visible").click()
    widget = figure.locator(".widget-live")
    shows(told(widget), "es becomes er, 71%")
    widget.get_by_text("it stays", exact=True).click()
    shows(widget, "It does not.")
    widget.get_by_text("its values").click()
    shows(told(widget), "With values")
    shows(told(widget), "es becomes er")
    widget.get_by_text("very alert.", exact=False).first.click()
    shows(told(widget), "er becomes es")
    assert complaints == []


def test_unsure(live):
    """Chapter 60: the tree has what the chapter's table has; a box that is opened is taken further."""
    page, widget, _, complaints = live("unsure")
    shows(told(widget), "Das Auto war besser als der Lastwagen.")
    shows(told(widget), "gesprer")
    nodes = widget.locator(".tree button")
    assert [text.split("\n")[0] for text in nodes.all_inner_texts()[10:13]] == ["ges", "bes", "glück"]
    nodes.first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    shows(widget, "Taken further, the likeliest token every time: Das Auto war gesprer")
    kept = nodes.count()
    widget.get_by_label("show what was pruned").check()
    assert nodes.count() > kept
    widget.get_by_label("width of the beam").focus()
    page.keyboard.press("Home")
    shows(told(widget), "Width 1")
    shows(told(widget), "Greedy search writes the same")
    widget.get_by_text("Some tired crocodiles", exact=False).first.click()
    widget.get_by_label("width of the beam").fill("2")
    shows(told(widget), "Einige müde Krokodile, die heute der Katze gefolgt sind, spielen.")
    assert complaints == []


def test_the_laboratory_silences_and_remembers(live, browser):
    """Head 3 of the last cross-attention says *not*; the address brings the experiment back."""
    page, widget, _, complaints = live("laboratory")
    widget.get_by_text("cross-attention", exact=True).first.click()
    widget.get_by_label("silence 2.3", exact=True).focus()
    page.keyboard.press("Space")
    shows(widget.locator(".result"), "The translation becomes: Das Tier überquerte die Straße, weil es zu müde war.")
    shows(widget.locator(".result"), "✗ not the right one")
    assert widget.get_by_label("silence 2.3", exact=True).is_checked()
    assert page.evaluate("document.activeElement.type") == "checkbox", "the focus stays"
    address = page.url
    assert "#lab-off_3Dcross_2E2_2E3" in address
    again, *_ = new_tab(browser, "laptop", "light")
    visit(again, address)
    ((_, other),) = opened(again)
    assert text_of(other) == text_of(widget.element_handle())
    again.context.close()
    widget.get_by_role("button", name="undo: silenced: cross 2.3").click()
    shows(told(widget.locator(".result")), "Untouched")
    assert complaints == []


def test_the_laboratory_overwrites_a_weight_and_grows_a_tree(live):
    """One number turns the pronoun (chapter 81, experiment 3), set by keyboard in the matrix."""
    page, widget, _, complaints = live("laboratory")
    widget.get_by_label("adjective").select_option("wide")
    shows(widget.locator(".result"), "weil sie zu breit war")
    widget.get_by_text("matrix", exact=True).click()
    cell = widget.get_by_label("it to animal", exact=False).first
    cell.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    shows(widget.locator(".result"), "Das Tier überquerte die Straße nicht, weil es zu breit war.")
    assert widget.locator("td.marked").count() == 1
    widget.get_by_text("as it was").click()
    shows(told(widget.locator(".result")), "Untouched")
    page.get_by_label("it to street", exact=False).first.focus()
    for key, name in (("ArrowLeft", "it to the"), ("ArrowUp", "because to the"), ("ArrowRight", "because to street")):
        page.keyboard.press(key)
        assert name in page.evaluate("document.activeElement.getAttribute('aria-label')")
    widget.get_by_text("The beam as a tree").click()
    widget.get_by_label("penalty alpha").focus()
    page.keyboard.press("ArrowRight")
    shows(widget, "Width 4, alpha 0.7")
    assert "alpha_3D0_2E7" in page.url
    assert complaints == []


def test_the_laboratory_pastes_and_forces(live):
    """The twin's attention where it fits; a word that was not the model's choice."""
    page, widget, _, complaints = live("laboratory")
    widget.locator(".choice", has_text="From the twin").get_by_text("values").click()
    shows(widget.locator(".result"), "attention can only be pasted between equals")
    widget.get_by_text("typed", exact=True).click()
    widget.get_by_label("sentence", exact=True).fill("The radio wakes the dog because it is very loud.")
    page.keyboard.press("Enter")
    widget.get_by_label("its twin", exact=False).fill("The radio wakes the dog because it is very alert.")
    page.keyboard.press("Enter")
    widget.locator(".choice", has_text="From the twin").get_by_text("values").click()
    shows(widget.locator(".result"), "weil er sehr laut ist")
    widget.get_by_role("button", name="undo: values of the twin").click()
    widget.get_by_label("The translation has to begin with").fill("Die Katze")
    page.keyboard.press("Enter")
    assert re.search(r"after: Die Katze \w+", widget.locator(".result").inner_text())
    widget.locator(".tokens button").nth(0).click()
    widget.get_by_role("button", name="take this").first.click()
    assert widget.locator(".tokens .forced").count() == 1
    assert complaints == []


HOSTILE = ["<img src=x onerror=alert(1)>", "\u202eabc \u0301\u0301 😀 \x01 {{0}} ${1} </script>" + "a" * 90, ""]


def test_typed_text_is_text(live):
    """Hostile: whatever is typed is shown as it is and translated somehow, and the page goes on."""
    page, widget, _, complaints = live("laboratory")
    for text in HOSTILE:
        widget.get_by_text("typed", exact=True).click()
        for label in ("The translation has to begin with", "its twin", "sentence"):
            widget.get_by_label(label, exact=label == "sentence").fill(text)
            page.keyboard.press("Enter")
        assert widget.locator("img, script").count() == 0, text
        assert widget.locator(".result .translation").is_visible() == bool(text), text
        assert overflowing(page) == [], text
        widget.get_by_text("put together", exact=True).click()
        shows(widget.locator(".result .translation"), "Das")
        assert complaints == [], text
    widget.get_by_text("typed", exact=True).click()
    widget.get_by_label("sentence", exact=True).fill("The elephant sees the dog.")
    page.keyboard.press("Enter")
    assert widget.locator("mark").all_text_contents() == ["elephant (unknown)"]


def test_the_laboratory_says_what_it_leaves_out(live):
    """Of a text that is too long; nothing is made of nothing; and a model that does not come is not chosen."""
    page, widget, _, _ = live("laboratory")
    widget.get_by_text("typed", exact=True).click()
    field = widget.get_by_label("sentence", exact=True)
    for text, said in (("the dog " * 63, "has 504 characters"), ("xq " * 160, "tokens, of which the model reads 255")):
        field.fill(text)
        page.keyboard.press("Enter")
        shows(widget.locator(".problem"), said)
    field.fill("")
    page.keyboard.press("Enter")
    shows(told(widget.locator(".result")), "There is nothing to translate")
    assert widget.get_by_text("were seen in training").count() == 0
    page.route("**/base-3.safetensors", lambda route: route.abort())
    widget.get_by_text("model 3", exact=True).click()
    shows(told(widget.locator(".result")), "The model could not be loaded")
    assert widget.get_by_label("the book's", exact=True).is_checked()


def test_bring_your_own(live, tmp_path):
    """A folder is loaded in the page, a broken one refused in one line, and the page goes on."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    shutil.copytree(ROOT / "data" / "models" / "embedded", good)
    shutil.copytree(good, bad)
    config = json.loads((good / "config.json").read_text())
    config["model"]["d_ff"] = 10**7
    (bad / "config.json").write_text(json.dumps(config))
    _, widget, requests, complaints = live("laboratory")
    widget.get_by_text("Bring your own model").click()
    count = len(requests)
    widget.get_by_label("a model folder").set_input_files(bad)
    problem = widget.locator(".problem:visible")
    problem.wait_for()
    assert problem.inner_text() == "config.json: d_ff must be a whole number from 1 to 1,048,576, not 10000000"
    (bad / "model.safetensors").unlink()
    widget.get_by_label("a model folder").set_input_files(bad)
    widget.get_by_text("model.safetensors is missing", exact=False).wait_for()
    shows(widget.locator(".result"), "Das Tier")
    widget.get_by_label("a model folder").set_input_files(good)
    widget.get_by_text("Your own model: 2 layers of width 128, 2,000 tokens.", exact=False).wait_for()
    assert "their mean" not in widget.inner_text(), "means belong to the book's model"
    shows(widget.locator(".result"), "weil es zu müde war")
    assert len(requests) == count, "nothing leaves the page"
    assert complaints == []


def test_two_more_models_come_when_they_are_chosen(live):
    """No byte of them before; the address names the model, and what the page shows is what this model does."""
    page, widget, requests, complaints = live("laboratory")
    assert not [url for url in requests if "/models/case/" in url]
    widget.get_by_text("model 2", exact=True).click()
    page.wait_for_url("**#lab-model*")
    widget.locator(".result", has_text="Untouched").wait_for()
    fetched = [url for url in requests if "/models/case/" in url]
    assert [url.rpartition("/")[2] for url in fetched] == ["base-2.safetensors"]
    assert widget.get_by_label("model 2", exact=True).is_checked()
    assert "their mean" not in widget.inner_text(), "means belong to the book's model"
    folder = ROOT / "data" / "runs" / "case" / "measured"
    first, second = (read_json(folder / f"outsiders-{number}.json")["translations"] for number in (1, 2))
    asked = next(row for row in zip(outsiders(), first, second, strict=True) if row[1] != row[2])
    widget.get_by_text("typed", exact=True).click()
    widget.get_by_label("sentence", exact=True).fill(asked[0][0])
    page.keyboard.press("Enter")
    shows(widget.locator(".result"), asked[2])
    widget.get_by_text("the book's", exact=True).click()
    widget.locator(".result", has_text=asked[1]).wait_for()
    assert complaints == []


def test_of_two_models_the_last_that_was_chosen_is_shown(live):
    """Not the last that came: model 2 is held up until model 3 is there."""
    page, widget, _, complaints = live("laboratory")
    held = []
    page.route("**/base-2.safetensors", lambda route: held.append(route))
    for number in (2, 3):
        widget.get_by_text(f"model {number}", exact=True).click()
    widget.locator(".result", has_text="Untouched").wait_for()
    page.wait_for_url("**#lab-model_3D3*")
    with page.expect_request_finished(lambda request: request.url.endswith("base-2.safetensors")):
        held[0].continue_()
    page.evaluate("() => new Promise((done) => setTimeout(done, 300))")
    assert widget.get_by_label("model 3", exact=True).is_checked()
    assert complaints == []
