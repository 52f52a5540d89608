"""The doctor of chapter 82: no false alarm, mistakes in other people's models, and files that fail.

That each copy of a mistake leaves the fingerprint that is stored is the matter of test_mistakes.py.
"""

import math
import random
import re
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import torch
from torch import nn

from annotated import InputError, Transformer, TransformerConfig, check, plain
from annotated.command.cli import main
from annotated.doctor import running
from annotated.doctor.asking import CHECKS, LEARNING, RIGHT, UNTRIED, VARIANT, WRONG
from annotated.doctor.asking_text import TEXT_CHECKS
from annotated.doctor.functions import check_loss, check_schedule, check_search
from annotated.doctor.mistakes import planted
from annotated.doctor.running import FUNCTIONS, check_file
from annotated.model import CHOICES
from annotated.workbook.stations import STATIONS
from tests import afresh, by_functions, by_modules
from tests.blind_spots import SEEN
from tests.models import SHAPES
from tests.models import SMALL as TINY
from tests.strangers import FromTorch, call, hugging_face, with_edits

ROOT = Path(__file__).resolve().parents[1]
PLAIN = Path(plain.__file__).read_text(encoding="utf-8")
SMALL = {"d_model": 32, "d_ff": 48, "num_heads": 4, "num_layers": 2}


def wrong(report) -> dict[str, str]:
    return {one.check: one.found for one in report.findings if one.verdict == WRONG}


def variants(report) -> set[str]:
    return {one.found for one in report.findings if one.verdict == VARIANT}


def untried(report) -> list[str]:
    return [one.check for one in report.findings if one.verdict == UNTRIED]


SEEDS = range(8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_no_false_alarm_for_the_package(seed):
    draw = random.Random(seed)
    heads = draw.choice([1, 2, 4])
    chosen = {name: choices[seed % len(choices)] for name, choices in CHOICES.items()}
    config = TransformerConfig(
        draw.choice([9, 40, 300]), d_model=heads * draw.choice([4, 8, 16]), num_heads=heads, d_ff=draw.choice([16, 48]),
        num_layers=draw.choice([1, 2, 3]), dropout=draw.choice([0.0, 0.3]), norm_first=draw.random() < 0.5,
        attention_bias=draw.random() < 0.5, d_k=draw.choice([None, 6]), d_v=draw.choice([None, 10]), **chosen,
    )  # fmt: skip
    report = check(Transformer(config))
    assert wrong(report) == {}
    assert report.causes == ()
    assert ("pre-norm" in variants(report)) == config.norm_first
    assert ("learned positions" in variants(report)) == (config.positions == "learned")
    assert ("not ReLU" in variants(report)) == (config.activation != "relu")
    assert untried(report) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["biases", "untied", "two vocabularies", "shallow decoder", "unscaled"])
def test_no_false_alarm_for_other_shapes(name):
    assert wrong(check(Transformer(replace(TINY, num_layers=2, **SHAPES[name])))) == {}


def test_the_model_stays_as_it_was():
    """Also one that was used and keeps weights of its last call, which have a history. No warning reaches the user."""
    model = plain.Transformer(40, **SMALL)
    model(torch.tensor([[5, 6]]), torch.tensor([[2, 5]]))
    before = {name: one.clone() for name, one in model.state_dict().items()}
    state, default = torch.get_rng_state(), torch.get_default_dtype()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check(model, learn=False).ok
    assert model.training
    assert all(
        torch.equal(one, before[name]) and one.dtype == torch.float32 for name, one in model.state_dict().items()
    )
    assert all(one.grad is None for one in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() == default


def test_what_was_set_for_a_model_that_fails_is_put_back():
    def broken(source, target):
        raise ZeroDivisionError

    before = torch.get_default_dtype(), torch.backends.mha.get_fastpath_enabled()
    check(broken, learn=False)
    assert (torch.get_default_dtype(), torch.backends.mha.get_fastpath_enabled()) == before


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("batch_first", [True, False])
def test_no_false_alarm_for_pytorchs_own(batch_first):
    report = check(FromTorch(batch_first=batch_first))
    assert wrong(report) == {}
    assert variants(report) == {"untied", "normalised once more"} | ({"batch second"} if not batch_first else set())
    assert untried(report) == []


def twice(layers: nn.ModuleList) -> None:
    layers.append(layers[0])


def without_relative(model: nn.Module) -> None:
    for one in model.modules():
        if hasattr(one, "has_relative_attention_bias"):
            one.has_relative_attention_bias = False


NO_ORDER = {"order of the source": "source order unseen"}
FAMILIES = {  # variants, what cannot be tried, and, if no other test has one, how a mistake gets in and what finds it
    "Marian": ({"embedding not scaled", "sines, then cosines", "not ReLU"}, [], None, {}),
    "Bart": ({"embedding not scaled", "learned positions", "not ReLU", "normalised once more"}, [], None, {}),
    "MBart": (
        {"embedding not scaled", "learned positions", "not ReLU", "pre-norm"}, [],
        lambda model: setattr(model, "mask", None), {"source padding": "source padding seen"},
    ),
    "Pegasus": (
        {"embedding not scaled", "sines, then cosines", "not ReLU", "pre-norm"}, [],
        lambda model: twice(model.model.decoder.layers), {"layers": "one layer several times"},
    ),
    "T5": (
        {"embedding not scaled", "scale in the weights", "relative positions", "pre-norm, root mean square"}, [],
        without_relative, NO_ORDER,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_other_families_give_no_false_alarm_and_a_mistake_in_them_is_found(name):
    others, left, plant, found = FAMILIES[name]
    model = hugging_face(name)
    report = check(model, call)
    assert (wrong(report), variants(report), untried(report)) == ({}, others, left)
    if plant:
        plant(model)
        seeing = lambda model, source, target: model(source, decoder_input_ids=target).logits  # noqa: E731
        assert wrong(check(model, seeing if hasattr(model, "mask") else call)).items() >= found.items()


@pytest.mark.slow
def test_a_function_is_asked_from_outside():
    model = plain.Transformer(40, **SMALL).eval()
    hidden = SimpleNamespace(get=staticmethod({"model": model}.get))
    report = check(lambda source, target: hidden.get("model")(source, target), vocab=30)
    assert wrong(report) == {}
    assert untried(report) == ["dropout", "layers", "gradients"]
    ahead = planted("no causal mask").Transformer(40, **SMALL).eval()
    assert wrong(check(lambda source, target: ahead(source, target)))["looks ahead"] == "sees later tokens"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Using `torch.compile")
def test_a_compiled_model_is_asked_as_it_is_written():
    model = torch.compile(plain.Transformer(40, **SMALL).eval(), backend=lambda *_: pytest.fail("compiled"))
    assert wrong(check(lambda source, target: model(source, target))) == {}


def test_the_cells_that_explain_are_there():
    """To which the doctor, and the stations, send their readers."""
    named = {one.cell for one in [*CHECKS, *TEXT_CHECKS, LEARNING]}
    for one in STATIONS:
        named |= {one.cell, one.transfer.solved, *one.cells.values()}
    for page in {one.partition("#")[0] for one in named}:
        notebook = nbformat.read(ROOT / "book" / f"{page}.ipynb", as_version=4)
        assert {one for one in named if one.startswith(f"{page}#")} <= {f"{page}#{cell.id}" for cell in notebook.cells}


@pytest.mark.slow
def test_learning_tells_skill_from_a_leak():
    sizes = SMALL | {"num_layers": 1}
    assert wrong(check(plain.Transformer(16, **sizes), learn=True)) == {}
    leaking = check(planted("no causal mask").Transformer(16, **sizes), learn=True)
    assert wrong(leaking)["learning"] in ("reads the answer", "does not learn")


def test_functions_in_other_forms_are_right():
    def whole(model, source, target):
        logits = model(source, target)[:, :-1]
        return nn.functional.cross_entropy(logits.transpose(1, 2), target[:, 1:], ignore_index=0, label_smoothing=0.1)

    def without_the_end(model, source):
        return [row[: (*row, 3).index(3)] for row in plain.translate(model, source).tolist()]

    assert check_loss(whole).verdict == RIGHT
    assert check_loss(lambda *given: plain.loss(*given, smoothing=0.0))[:2] == (VARIANT, "no smoothing")
    assert check_schedule(lambda step: 3 * plain.learning_rate(step, 512))[:2] == (VARIANT, "another factor")
    assert check_schedule(lambda step: 0.001)[:2] == (WRONG, "constant")
    assert check_schedule(lambda step: 0.001, one_text=True)[:2] == (VARIANT, "constant")
    assert check_search(without_the_end).verdict == RIGHT


def test_a_loss_of_one_text_is_judged_by_its_value():
    def loss(ahead: int, dropped: int, **options: int):
        def of_tokens(model, tokens):
            last = tokens.shape[1] - dropped
            logits, wanted = model(tokens)[:, :last], tokens[:, ahead : ahead + last]
            return nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), **options)

        return of_tokens

    assert check_loss(loss(1, 1, ignore_index=0)).verdict == RIGHT
    assert check_loss(loss(1, 1))[:2] == (VARIANT, "padding counted")
    for same in (loss(0, 0), loss(0, 1), loss(0, 0, ignore_index=0)):
        assert check_loss(same)[:2] == (WRONG, "not shifted")
    assert check_loss(loss(2, 2))[:2] == (WRONG, "shifted twice")


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
EINSUM = '        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(self.d_head)\n'
SOFTMAX = "weights = scores.softmax(dim=-1)"
OTHERS = {  # right models in other people's ways: what is replaced in tests/afresh.py, and what cannot be tried then
    "ReLU by where": ([("F.relu(self.inner(x))", "torch.where((h := self.inner(x)) > 0, h, 0.0)")], []),
    "ReLU by a product": ([("F.relu(self.inner(x))", "(h := self.inner(x)) * (h > 0)")], []),
    "a softmax of its own": (
        [(SOFTMAX, "weights = scores.exp()\n        weights = weights / weights.sum(-1, True)")], [],
    ),
    "heads that are stacked": (
        [("x.view(b, t, self.n_heads, self.d_head).transpose(1, 2)", "torch.stack(x.split(self.d_head, -1), 1)")], [],
    ),
    "head by head": ([("        q = self._split(self.w_q(query))\n", HEADS)], []),
    "queries and keys that are turned": ([(EINSUM, f"{TURNED}{EINSUM}"), ("class MultiHeadAttention", TURN)], []),
    "SDPA": (
        [(EINSUM, ""), (SOFTMAX, "context = F.scaled_dot_product_attention(q, k, v, mask)"),
         ("        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)\n", ""),
         ('        context = torch.einsum("bhqk,bhkd->bhqd", weights, v)\n', "")], [],
    ),
    "a tuple": ([("return self.project(self.decode(tgt, memory, tgt_mask, src_mask))",
                  "return self.project(self.decode(tgt, memory, tgt_mask, src_mask)), memory")], []),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_no_false_alarm_for_other_ways_to_write_it(name):
    edits, left = OTHERS[name]
    report = check(with_edits(afresh, edits)["Seq2Seq"](40, d_model=32, n_heads=4, n_layers=2, d_ff=48))
    assert wrong(report) == {}
    assert untried(report) == left


STYLES = {"by hand": (afresh, "Seq2Seq", {"vocab_size": 40, "d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 24}),
    "of modules": (by_modules, "Model", {}), "of functions": (by_functions, "Model", {})}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEN)
def test_blind_spots_in_three_styles(name):
    """What is wrong is found and called by its name, what is not is passed over, and nothing is left untried."""
    *edits, wanted = SEEN[name]
    mark, bar, cause = wanted.partition("|")
    for (module, made, sizes), some in zip(STYLES.values(), edits, strict=True):
        if some is not None:
            torch.manual_seed(0)
            report = check(with_edits(module, some)[made](**sizes))
            found = [f"{one.check}: {one.found}" for one in report.findings if one.verdict in (WRONG, VARIANT)]
            assert any(one.startswith(mark) for one in found) or not mark, found
            assert bool(wrong(report)) == bool(bar) or mark[:7] in ("layers:", "sharing"), found
            assert (report.causes[:1] == (cause,)) if cause else (report.causes == () or not bar), report.causes
            assert report.unknown == (bool(bar) and not cause)
            assert untried(report) == []


@pytest.mark.slow
@pytest.mark.parametrize("vocab", [40, 2000])
@pytest.mark.parametrize(
    ("draw", "std", "verdict"),
    [("normal_", "std=d**-0.5", WRONG), ("xavier_uniform_", "", VARIANT), ("normal_", "", VARIANT)],
)
def test_an_embedding_that_is_not_scaled_whatever_the_vocabulary(vocab, draw, std, verdict):
    """Words that were drawn for the factor are wrong without it; those drawn as all matrices are, or large, are not."""
    edits = [(" * math.sqrt(self.table.embedding_dim)", ""), ("std=d**-0.5", std), ("normal_(", f"{draw}(")]
    report = check(with_edits(by_modules, edits)["Model"](vocab))
    (found,) = [one.verdict for one in report.findings if one.found == "embedding not scaled"]
    assert found == verdict


def test_a_model_of_one_length_is_told_which_was_seen():
    """Its attentions cannot be told apart by their lengths; nothing is wrong, and what was not asked is said."""
    longer = "(nn.functional.pad(one, (0, 12 - one.shape[1])) for one in (source, target))"
    edits = [
        ("        pad, later", f"        n, (source, target) = target.shape[1], {longer}\n        pad, later"),
        ("self.out(y)", "self.out(y)[:, :n]"),
    ]  # fmt: skip
    report = check(with_edits(by_modules, edits)["Model"]())
    assert wrong(report) == {}
    assert untried(report) == ["attentions", "norms"]
    assert all("lengths 12 and 12" in one.says for one in report.findings if one.verdict == UNTRIED)


def test_weights_that_nobody_has_registered_are_seen_as_weights():
    """A function of plain tensors is asked about all that needs no parameters."""
    w = by_functions.drawn()
    report = check(lambda source, target: by_functions.run(w, source, target))
    assert (wrong(report), variants(report)) == ({}, set())
    assert untried(report) == ["dropout", "layers", "gradients"]
    noisy = check(lambda source, target: by_functions.run(w, source, target, True))
    assert wrong(noisy) == {"repeats": "random in evaluation"}
    assert "model.eval()" in next(one.says for one in noisy.findings if one.check == "repeats")


@pytest.mark.slow
def test_a_table_that_does_not_learn_is_told():
    """Some freeze it on purpose, and some by `from_pretrained`."""
    frozen = plain.Transformer(14, **SMALL)
    frozen.target_embedding.requires_grad_(False)
    assert "table of words frozen" in variants(check(frozen))


@pytest.mark.slow
def test_a_small_vocabulary_and_other_ids():
    assert check(plain.Transformer(7, **SMALL), vocab=7).ok
    config = replace(TINY, num_layers=2, pad_id=1)
    assert check(Transformer(config), pad=1, bos=0, eos=2).ok
    assert "source padding" in wrong(check(Transformer(config)))


def test_no_number_is_no_number_like_any_other():
    """Padding that makes outputs no numbers is no padding that changes nothing."""
    right = plain.Transformer(40, **SMALL).eval()

    def model(source, target):
        return right(source, target).masked_fill((source == 0).any(), math.nan)

    assert wrong(check(model))["source padding"] == "source padding seen"


@pytest.mark.slow
def test_what_is_no_model_in_a_file_is_passed_over(tmp_path):
    path = tmp_path / "mine.py"
    head = "from torch import nn\nfrom torch.nn import Transformer as Model\ncriterion = nn.CrossEntropyLoss()\n"
    text = PLAIN.replace("PAD, BOS, EOS = 0, 2, 3", "PAD, BOS, EOS = 1, 0, 2")
    path.write_text(f"{head}{text}\nmine = Transformer(40, 32, 48, 4, 2)\n")
    reports = check_file(path, pad=1, bos=0, eos=2)
    assert list(reports) == ["mine", *FUNCTIONS]
    assert all(report.ok for report in reports.values())
    path.write_text(f"{text}\ndef translate(model, sentence, words):\n    return 1\n")
    assert check_file(path, pad=1, bos=0, eos=2)["translate"].findings[0].found == "other arguments"


BAD = {  # a file, what is asked for in it, and what the refusal names
    "x = 1\n": ("", "mine.py:NAME"),
    "def f(:\n": ("", "line 1: "),
    "raise KeyError('nope')\n": ("", "KeyError: 'nope' (line 1 of mine.py"),
    "import sys\nsys.exit()\n": ("", "line 2 of mine.py: sys.exit()"),
    "while True:\n    pass\n": ("", " seconds (line "),
    "x = 1\n#\n": ("model", "no model in it"),
    "def make(flavour):\n    return 1\n": ("make", "make is no model"),
    "class M:\n    def __init__(self):\n        raise OSError\n": ("M", "M: OSError"),
    "def m(source, target):\n    while True:\n        pass\n": ("m", " 1 seconds (line "),
}


@pytest.mark.slow
@pytest.mark.parametrize("text", BAD)
def test_a_file_that_fails_gets_one_line_of_its_own(tmp_path, monkeypatch, text):
    monkeypatch.setattr(running, "PATIENCE", 1000)
    name, names = BAD[text]
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}: .*{re.escape(names)}"):
        check_file(path, name, seconds=1.0)


@pytest.mark.parametrize("options", [{}, {"one_text": True}, {"wrap": True}])
def test_what_is_no_model_is_refused_however_it_is_asked(tmp_path, options):
    path = tmp_path / "mine.py"
    path.write_text("model = 3\n")
    with pytest.raises(InputError, match="model is no model, but of the type int"):
        check_file(path, "model", **options)


@pytest.mark.slow
def test_a_file_is_run_and_all_in_it_is_checked(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(f"print('noise')\n{PLAIN}")
    assert main(["check", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "noise" not in out
    assert "noise\n" in err
    assert [line for line in out.splitlines() if " " not in line and line] == ["Transformer", *FUNCTIONS]
    path.write_text(vars(planted("scores not scaled"))["source"])
    assert main(["check", f"{path}:Transformer"]) == 1
    assert "likely: scores not scaled" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "none.py")]) == 2
    assert "none.py: " in capsys.readouterr().err


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
