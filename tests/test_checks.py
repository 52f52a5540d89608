"""The doctor of chapter 82: no false alarm, mistakes in other people's models, and files that fail.

That each copy of a mistake is caught by the check meant for it, and leaves the fingerprint that is stored, the chapter
asserts as it runs.
"""

import math
import random
import warnings
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
import torch
from torch import nn

import annotated
from annotated import Transformer, TransformerConfig, check, plain
from annotated.command.cli import main
from annotated.doctor.asking import CHECKS, LEARNING, RIGHT, UNTRIED, VARIANT, WRONG
from annotated.doctor.functions import check_loss, check_schedule, check_search
from annotated.doctor.mistakes import MISTAKES, planted
from annotated.doctor.running import FUNCTIONS, check_file
from tests import afresh
from tests.messages import refused
from tests.models import SHAPES
from tests.models import SMALL as TINY
from tests.strangers import FromTorch, call, hugging_face

ROOT = Path(__file__).resolve().parents[1]
SMALL = {"d_model": 32, "d_ff": 48, "num_heads": 4, "num_layers": 2}


def wrong(report) -> dict[str, str]:
    return {one.check: one.found for one in report.findings if one.verdict == WRONG}


def variants(report) -> set[str]:
    return {one.found for one in report.findings if one.verdict == VARIANT}


def untried(report) -> list[str]:
    return [one.check for one in report.findings if one.verdict == UNTRIED]


SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.again) for seed in range(8, 200))]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_false_alarm_for_the_package(seed):
    draw = random.Random(seed)
    heads = draw.choice([1, 2, 4])
    config = TransformerConfig(
        draw.choice([9, 40, 300]), d_model=heads * draw.choice([4, 8, 16]), num_heads=heads, d_ff=draw.choice([16, 48]),
        num_layers=draw.choice([1, 2, 3]), dropout=draw.choice([0.0, 0.3]), norm_first=draw.random() < 0.5,
        positions=draw.choice(["sinusoidal", "learned"]), activation=draw.choice(["relu", "gelu", "swish"]),
        attention_bias=draw.random() < 0.5, d_k=draw.choice([None, 6]), d_v=draw.choice([None, 10]),
    )  # fmt: skip
    report = check(Transformer(config))
    assert wrong(report) == {}
    assert report.causes == ()
    assert ("pre-norm" in variants(report)) == config.norm_first
    assert ("learned positions" in variants(report)) == (config.positions == "learned")
    assert ("not ReLU" in variants(report)) == (config.activation != "relu")
    assert untried(report) == (["dropout"] if config.dropout == 0 else [])


@pytest.mark.parametrize("name", SHAPES)
def test_no_false_alarm_for_any_shape(name):
    """But one whose embedding is drawn to be multiplied, and is not."""
    found = {"embedding": "embedding not scaled"} if name == "unscaled" else {}
    assert wrong(check(Transformer(replace(TINY, **SHAPES[name])))) == found


def test_the_model_stays_as_it_was():
    model = Transformer(TransformerConfig(40, **SMALL)).train()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    state, default = torch.get_rng_state(), torch.get_default_dtype()
    check(model, learn=False)
    assert model.training
    assert all(
        torch.equal(one, before[name]) and one.dtype == torch.float32 for name, one in model.state_dict().items()
    )
    assert all(one.grad is None for one in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() == default


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("batch_first", [True, False])
def test_no_false_alarm_for_pytorchs_own(batch_first):
    report = check(FromTorch(batch_first=batch_first))
    assert wrong(report) == {}
    assert variants(report) == {"untied", "normalised once more"} | ({"batch second"} if not batch_first else set())
    assert untried(report) == []


FAMILIES = {  # what is said of each as a variant, and what cannot be tried
    "Marian": ({"embedding not scaled", "sines, then cosines", "not ReLU"}, []),
    "Bart": ({"embedding not scaled", "learned positions", "not ReLU", "normalised once more"}, []),
    "MBart": ({"embedding not scaled", "learned positions", "not ReLU", "pre-norm"}, []),
    "Pegasus": ({"embedding not scaled", "sines, then cosines", "not ReLU", "pre-norm"}, []),
    "T5": ({"embedding not scaled", "scale in the weights", "relative positions"}, ["positions", "norms"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_no_false_alarm_for_other_families(name):
    report = check(hugging_face(name), call)
    assert wrong(report) == {}
    assert (variants(report), untried(report)) == FAMILIES[name]


def set_all(model: nn.Module, name: str, value: object) -> None:
    found = [one for one in model.modules() if hasattr(one, name)]
    assert found
    for one in found:
        setattr(one, name, value)


def twice(layers: nn.ModuleList) -> None:
    layers.append(layers[0])


NO_ORDER = "source order unseen"
PLANTED = {  # a family: how a mistake gets into it, and what finds it
    "Marian": (lambda model: set_all(model, "scaling", 1.0), "scale", "no scale"),
    "Bart": (lambda model: set_all(model, "activation_fn", nn.Identity()), "feed-forward", "nothing bends"),
    "MBart": (lambda model: setattr(model, "mask", None), "source padding", "source padding seen"),
    "Pegasus": (lambda model: twice(model.model.decoder.layers), "layers", "one layer several times"),
    "T5": (lambda model: set_all(model, "has_relative_attention_bias", False), "order of the source", NO_ORDER),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_one_mistake_in_each_family_is_found(name):
    plant, where, found = PLANTED[name]
    model = hugging_face(name)
    plant(model)
    seeing = lambda model, source, target: model(source, decoder_input_ids=target).logits  # noqa: E731
    assert wrong(check(model, seeing if hasattr(model, "mask") else call)).get(where) == found


def test_a_function_is_asked_from_outside():
    model = plain.Transformer(40, **SMALL).eval()
    report = check(lambda source, target: model(source, target), vocab=30)
    assert wrong(report) == {}
    assert untried(report) == ["dropout", "sharing", "layers", "gradients", "first loss"]
    ahead = planted("no causal mask").Transformer(40, **SMALL).eval()
    assert wrong(check(lambda source, target: ahead(source, target)))["looks ahead"] == "sees later tokens"


def test_no_check_is_there_for_nothing():
    """Sharing is never wrong: without it a model is a variant."""
    assert {one.name for one in CHECKS} - {one.check for one in MISTAKES} == {"sharing"}


def test_the_cells_that_explain_are_there():
    for one in [*CHECKS, LEARNING]:
        page, _, cell = one.cell.partition("#")
        notebook = nbformat.read(ROOT / "book" / f"{page}.ipynb", as_version=4)
        assert cell in {one.id for one in notebook.cells}, one


@pytest.mark.slow
def test_learning_tells_skill_from_a_leak():
    assert wrong(check(plain.Transformer(40, **SMALL), learn=True)) == {}
    leaking = planted("no causal mask").Transformer(40, **SMALL)
    assert wrong(check(leaking, learn=True))["learning"] in ("reads the answer", "does not learn")


def test_functions_in_other_forms_are_right():
    def whole(model, source, target):
        logits = model(source, target)[:, :-1]
        return nn.functional.cross_entropy(logits.transpose(1, 2), target[:, 1:], ignore_index=0, label_smoothing=0.1)

    assert check_loss(whole).verdict == RIGHT
    assert check_loss(lambda *given: plain.loss(*given, smoothing=0.0))[:2] == (VARIANT, "no smoothing")
    assert check_schedule(lambda step: 3 * plain.learning_rate(step, 512))[:2] == (VARIANT, "another factor")
    assert check_schedule(lambda step: 0.001)[:2] == (WRONG, "constant")


HEADS = """
        dim, heads, q, k, v = self.d_head, [], self.w_q(query), self.w_k(key), self.w_v(value)
        for h in range(self.n_heads):
            part = slice(h * dim, (h + 1) * dim)
            scores = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(dim)
            heads.append(scores.masked_fill(~mask[:, 0], -1e9).softmax(-1) @ v[..., part])
        return self.w_o(torch.cat(heads, -1))
"""
TURNED = """
        q, k = (turned(x) for x in (q, k)) if query is key else (q, k)
"""
TURN = """
def turned(x):
    angle = torch.arange(x.shape[2])[:, None] * 10000.0 ** (-torch.arange(0, x.shape[3], 2) / x.shape[3])
    cos, sin = (one.repeat(1, 2).to(x) for one in (angle.cos(), angle.sin()))
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class MultiHeadAttention"""
OWN_NORM = """
class OwnNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return self.weight * x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6) + self.bias


class AddNorm"""
EINSUM = '        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(self.d_head)\n'
SOFTMAX = "weights = scores.softmax(dim=-1)"
OTHERS = {  # right models in other people's ways: what is replaced in tests/afresh.py, and what cannot be tried then
    "ReLU by where": ([("F.relu(self.inner(x))", "torch.where((h := self.inner(x)) > 0, h, 0.0)")], []),
    "ReLU by a product": ([("F.relu(self.inner(x))", "(h := self.inner(x)) * (h > 0)")], []),
    "a softmax of its own": (
        [(SOFTMAX, "weights = scores.exp()\n        weights = weights / weights.sum(-1, True)")],
        ["attentions", "softmax", "scale", "masks"],
    ),
    "heads that are stacked": (
        [("x.view(b, t, self.n_heads, self.d_head).transpose(1, 2)", "torch.stack(x.split(self.d_head, -1), 1)")], [],
    ),
    "head by head": ([("        q = self._split(self.w_q(query))\n", HEADS)], []),
    "queries and keys that are turned": ([(EINSUM, f"{TURNED}{EINSUM}"), ("class MultiHeadAttention", TURN)], []),
    "a normalisation of its own": (
        [("nn.LayerNorm(d_model)", "OwnNorm(d_model)"), ("class AddNorm", OWN_NORM)], ["norms"],
    ),
    "SDPA": (
        [(EINSUM, ""), (SOFTMAX, "context = F.scaled_dot_product_attention(q, k, v, mask)"),
         ("        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)\n", ""),
         ('        context = torch.einsum("bhqk,bhkd->bhqd", weights, v)\n', "")], [],
    ),
    "a tuple": ([("return self.project(self.decode(tgt, memory, tgt_mask, src_mask))",
                  "return self.project(self.decode(tgt, memory, tgt_mask, src_mask)), memory")], []),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_no_false_alarm_for_other_ways_to_write_it(name):
    edits, left = OTHERS[name]
    text = Path(afresh.__file__).read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    space = {"__name__": "other"}
    exec(compile(text, "other.py", "exec"), space)
    report = check(space["Seq2Seq"](40, d_model=32, n_heads=4, n_layers=2, d_ff=48))
    assert wrong(report) == {}
    assert untried(report) == left


def test_a_model_that_was_used_can_be_checked():
    """It keeps weights of its last call, which have a history."""
    model = plain.Transformer(40, **SMALL)
    model(torch.tensor([[5, 6]]), torch.tensor([[2, 5]]))
    assert check(model).ok


def test_a_small_vocabulary_and_other_ids():
    assert check(plain.Transformer(7, **SMALL), vocab=7).ok
    config = replace(TINY, pad_id=1)
    assert check(Transformer(config), pad=1, bos=0, eos=2).ok
    assert "source padding" in wrong(check(Transformer(config)))


def test_no_number_is_no_number_like_any_other():
    """Padding that makes outputs no numbers is no padding that changes nothing."""
    right = plain.Transformer(40, **SMALL).eval()

    def model(source, target):
        return right(source, target).masked_fill((source == 0).any(), math.nan)

    assert wrong(check(model))["source padding"] == "source padding seen"


def test_what_is_no_model_in_a_file_is_passed_over(tmp_path):
    path = tmp_path / "mine.py"
    head = "from torch import nn\nfrom torch.nn import Transformer as Model\ncriterion = nn.CrossEntropyLoss()\n"
    text = (
        Path(plain.__file__).read_text(encoding="utf-8").replace("PAD, BOS, EOS = 0, 2, 3", "PAD, BOS, EOS = 1, 0, 2")
    )
    path.write_text(f"{head}{text}\nmine = Transformer(40, 32, 48, 4, 2)\n")
    reports = check_file(path, pad=1, bos=0, eos=2)
    assert list(reports) == ["mine", *FUNCTIONS]
    assert all(report.ok for report in reports.values())
    path.write_text(f"{text}\ndef translate(model, sentence, words):\n    return 1\n")
    assert list(check_file(path, pad=1, bos=0, eos=2)) == ["Transformer", "loss", "learning_rate"]


def test_a_search_that_leaves_the_end_out_is_right():
    def search(model, source):
        return [row[: (*row, 3).index(3)] for row in plain.translate(model, source).tolist()]

    assert check_search(search).verdict == RIGHT


BAD = {  # a file: what is asked for in it, and how it is refused
    "x = 1\n": ("", lambda path: refused("check-nothing", path, path)),
    "def f(:\n": ("", lambda path: refused("check-syntax", path, 1)),
    "raise KeyError('nope')\n": ("", lambda path: refused("check-raised", path)),
    "import sys\nsys.exit()\n": ("", lambda path: refused("check-raised", path)),
    "while True:\n    pass\n": ("", lambda path: refused("check-raised", path)),
    "model = 3\n": ("model", lambda path: refused("check-no-model", path, "model", "int")),
    "x = 1\n#\n": ("model", lambda path: refused("check-no-name", path, "model")),
    "def make(size):\n    return size\n": ("make", lambda path: refused("check-wants", path, "make", "'size'")),
    "class M:\n    def __init__(self):\n        raise OSError\n": ("M", lambda path: refused("check-made", path, "M")),
    "def m(source, target):\n    while True:\n        pass\n": ("m", lambda path: refused("check-made", path, "m")),
}


@pytest.mark.parametrize("text", BAD)
def test_a_file_that_fails_gets_one_line_of_its_own(tmp_path, text):
    name, is_refused = BAD[text]
    path = tmp_path / "mine.py"
    path.write_text(text)
    with is_refused(path) as caught:
        check_file(path, name, seconds=0.3)
    assert "checks.py" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with refused("check-unreadable", tmp_path / "none.py", "No such file or directory"):
        check_file(tmp_path / "none.py")


def test_a_file_is_run_and_all_in_it_is_checked(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(f"print('noise')\n{Path(plain.__file__).read_text(encoding='utf-8')}")
    assert main(["check", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "noise" not in out
    assert err == f"running {path}\nnoise\n"
    assert [line for line in out.splitlines() if " " not in line and line] == ["Transformer", *FUNCTIONS]
    path.write_text(vars(planted("scores not scaled"))["source"])
    assert main(["check", f"{path}:Transformer"]) == 1
    assert "likely: scores not scaled" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "none.py")]) == 1
    assert capsys.readouterr().err.endswith("none.py: cannot be read: No such file or directory\n")


@pytest.mark.parametrize("body", ["return None", "return target.float()", "raise ValueError('odd')", "return [1 / 0]"])
def test_a_model_that_fails_is_a_finding(tmp_path, body):
    path = tmp_path / "mine.py"
    path.write_text(f"def model(source, target):\n    {body}\n")
    report = check_file(path, "model")["model"]
    assert [one.verdict for one in report.findings] == [WRONG]
    says = report.findings[0].says
    assert "annotated" not in says
    if "raise" in body or "/" in body:
        assert f"(line 2 of mine.py: {body})" in says


def test_no_warning_reaches_the_user():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(plain.Transformer(40, **SMALL))
    assert annotated.check is check
