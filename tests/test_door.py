"""The door of `annotated check FILE`: files as they lie in repositories are run, their models made and called.

What the checks then find is the matter of test_checks.py and test_mistakes.py: here only some of them are asked.
"""

import json
import os
import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from annotated import check
from annotated.base.files import InputError
from annotated.command.cli import main
from annotated.doctor import reporting, running
from annotated.doctor.asking import CHECKS, UNTRIED, WRONG
from annotated.doctor.functions import check_loss, check_schedule, check_search
from annotated.doctor.running import check_file
from tests import afresh

REPOSITORIES = Path(__file__).parent / "repositories"
MANIFEST = tomllib.loads((REPOSITORIES / "repositories.toml").read_text(encoding="utf-8"))
OUTSIDE = ("looks ahead", "own past", "source", "source padding", "both padded", "batch")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Only what is asked from outside."""
    monkeypatch.setattr(reporting, "CHECKS", [one for one in CHECKS if one.name in OUTSIDE])


def wrong(report):
    return {one.check: one.found for one in report.findings if one.verdict == WRONG}


WITHOUT_VERDICT = {"06_einops_config"}  # its forward calls what is not installed
NOT_SEEN = {"14_labels_and_loss"}  # the logits are right, its own loss is not


@pytest.mark.slow
@pytest.mark.parametrize("name", MANIFEST)
def test_a_repository_as_it_lies_gets_its_verdict(name, monkeypatch):
    """And nothing is written there, and what the file imported is forgotten."""
    one, folder = MANIFEST[name], REPOSITORIES / name
    monkeypatch.setattr(running, "SHARE", 0.02)  # of the time, for a file that trains
    monkeypatch.chdir(folder / one["cwd"])
    file = os.path.relpath(folder / one["file"])
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}, sys.path[:]
    with pytest.raises(InputError, match="itself calls") if name in WITHOUT_VERDICT else nullcontext():
        report = next(iter(check_file(file).values()))
        assert len(report.findings) == 1 + len(OUTSIDE)
        assert bool(wrong(report)) == (bool(one["wrong"]) and name not in NOT_SEEN)
    assert ({path: path.stat().st_mtime_ns for path in folder.rglob("*")}, sys.path) == before
    assert not [one for one in sys.modules.values() if str(folder) in str(getattr(one, "__file__", ""))]


HEAD = """import argparse
import torch
from torch import nn
from dataclasses import make_dataclass
from tests.afresh import Seq2Seq as Inner
"""
AFRESH = "from tests import afresh\nInner = lambda *one: afresh.Seq2Seq(*one)"  # no class to fall back on
HIDDEN = HEAD.replace("from tests.afresh import Seq2Seq as Inner", AFRESH)
PUBLIC = "src_vocab, d_model, n_heads, n_layers, d_ff, dropout"


def net(takes=PUBLIC, inner=PUBLIC, out="out", forward=""):
    """A class around the model of tests/afresh.py, and its `forward`."""
    forward = forward or f"def forward(self, src, tgt):\n        out = self.inner(src, tgt)\n        return {out}"
    return f"""
class Net(nn.Module):
    def __init__(self, {takes}):
        super().__init__()
        self.inner = Inner({inner})

    {forward}
"""


def masked(takes, src, tgt):
    """A class to which masks are handed over; `src` and `tgt` make them True where words may be read."""
    decoded = "inner.decode(tgt, inner.encode(src, src_mask), tgt_mask, src_mask)"
    made = f"inner, src_mask, tgt_mask = self.inner, {src}, {tgt}"
    return net(forward=f"def forward(self, {takes}):\n        {made}\n        return inner.project({decoded})")


MASKS = {
    takes: masked(takes, src, tgt)
    for takes, src, tgt in (
        ("src, tgt, src_mask, tgt_mask", "src_mask", "tgt_mask"),
        ("tgt, src, tgt_mask, src_mask", "~src_mask", "~tgt_mask"),
        ("src, tgt, *, src_padding_mask, tgt_mask", "~src_padding_mask[:, None, None]", "tgt_mask == 0"),
        ("src, tgt, train, enc_padding_mask, look_ahead_mask", "1 - enc_padding_mask > 0", "look_ahead_mask == 0"),
        ("src, tgt, src_mask=None, tgt_mask=None", "src_mask[:, None] > 0", "tgt_mask[:, None] > 0"),
        ("src, tgt, e_mask, d_mask", "e_mask > -1", "d_mask > -1"),
    )
}
SIZES = "Config = make_dataclass('Config', [('src_vocab_size', int), ('hidden_size', int, 512)])\n"
HALVES = """def encode(self, src, src_mask):
        return self.inner.encode(src, src_mask)

    def decode(self, memory, src_mask, tgt, tgt_mask):
        return self.inner.project(self.inner.decode(tgt, memory, tgt_mask, src_mask))"""
BESIDE = """def forward(self, src, tgt):
        self.inner.project = nn.Identity()
        return self.inner(src, tgt)"""
MADE = """
def get_model(opt, src_vocab, trg_vocab):
    assert opt.load_weights is None
    return Net(src_vocab, opt.d_model, opt.heads, opt.n_layers, opt.d_ff, opt.dropout)
"""
TALL = "src_vocab_size, trg_pad_idx, embed_size, heads, num_layers, forward_expansion, max_length, p"
KEYS = 'options["n_vocab"], options["width"], options["heads"], options["layers"], options["ff"]'
CONFIG = "CONFIG = {'net': {'vocab': 9000, 'dim': 512, 'heads': 8, 'layers': 6, 'ff': 2048}}\n"
ONES = "(tgt != PAD_IDX)[:, None, None] & torch.ones(2 * tgt.shape[1:]).tril().bool()"
FORMS = MASKS | {
    "a dict": net(out='{"logits": out, "loss": None}'),
    "loss first": net(out="out.mean(), out"),
    "flat": net(out="out.flatten(0, 1)"),
    "turned": net(out="out.mT"),
    "shifted inside": net().replace("(src, tgt)\n        return", "(src, tgt[:, :-1])\n        return"),
    "length first": net().replace("(src, tgt)\n        return", "(src.T, tgt.T).transpose(0, 1)\n        return"),
    "keyword-only": net().replace("self, src, tgt", "self, *, src, tgt"),
    "a batch": net(forward="def forward(self, batch):\n        return self.inner(batch.src, batch['trg'])"),
    "halves": net(forward=HALVES),
    "a generator": net(inner=f"{PUBLIC}); self.generator = nn.Linear(d_model, src_vocab", forward=BESIDE),
    "input_dim": net("input_dim, hid_dim, n_layers, n_heads, pf_dim, device", "input_dim, hid_dim, n_heads, n_layers"),
    "an expansion": net(TALL, "src_vocab_size, embed_size, heads, num_layers, embed_size * forward_expansion, p"),
    "vocabularies": net("src_vocab, d_model=32", "len(src_vocab.stoi), d_model, 4, 2, 48"),
    "options": net("**options", KEYS),
    "settings": net("cfg", "cfg.src_vocab_size, cfg.hidden_size, cfg.num_heads, cfg.n_layers, cfg.ffn_dim"),
    "a dataclass": SIZES + net("cfg: Config", "cfg.src_vocab_size, cfg.hidden_size, 4, 2"),
    "a dict of settings": CONFIG + net("config", "*config['net'].values()"),
    "parts": net("inner: Inner, device", "9").replace("Inner(9)", "inner"),
    "something unknown": net(f"{PUBLIC}, flavour"),
    "a function": net() + MADE,
    "another padding": f"PAD_IDX = 1\n{masked('src, tgt', '(src != PAD_IDX)[:, None, None]', ONES)}",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_a_model_is_made_and_called_in_the_forms_that_people_write(name, tmp_path, monkeypatch):
    """Nothing is wrong with a right one; where masks are handed over, one that ignores them is found out."""
    path = tmp_path / "net.py"
    path.write_text(HEAD + FORMS[name])
    (report,) = check_file(path).values()
    assert wrong(report) == {}
    assert len(report.findings) == 1 + len(OUTSIDE)
    if name in MASKS:
        assert "masks handed over" in report.findings[0].says
        right = afresh.DecoderLayer.forward
        leaking = lambda self, y, memory, mask, other: right(self, y, memory, torch.ones_like(mask), other)  # noqa: E731
        monkeypatch.setattr(afresh.DecoderLayer, "forward", leaking)
        assert "looks ahead" in wrong(check_file(path)["Net"])


MODEL = HEAD + net()


def test_what_is_no_model_is_not_called_wrong(tmp_path):
    """Names with another meaning, and what calls something that is not installed."""

    def loss(pred, gold, pad):
        return pred.max(1)

    def translate(model, text: str):
        return text.split()

    def learning_rate(optimizer):
        return optimizer.param_groups[0]["lr"]

    for verdict in (check_loss(loss), check_search(translate), check_schedule(learning_rate)):
        assert verdict[:2] == (UNTRIED, "other arguments")
    usual = torch.nn.functional.cross_entropy
    assert check_loss(lambda logits, target: usual(logits.mT, target, ignore_index=0)).found == "no smoothing"
    assert check_loss(lambda logits, target: usual(logits, target)).found == "padding counted"
    path = tmp_path / "gpt.py"
    refused = {
        f"{HIDDEN}import einrops\n{net(out='einrops.rearrange(out)')}": r"Net itself calls einrops\.rearrange",
    }
    for text, says in refused.items():
        path.write_text(text)
        with pytest.raises(InputError, match=says):
            check_file(path)


def test_a_file_is_read_as_python_and_jupyter_read_it(tmp_path, monkeypatch):
    """With a byte-order mark, a coding line, as a notebook; with its own name as the only argument."""
    monkeypatch.setattr(reporting, "CHECKS", [])
    path, text = tmp_path / "net.py", MODEL.replace("argparse\n", "argparse, sys\nassert sys.argv[1:] == []\n")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert check_file(path)["Net"].ok
    path.write_bytes(f"# coding: latin-1\nassert 'ä' == chr(228)\n{text}".encode("latin-1"))
    assert check_file(path)["Net"].ok
    cells = ["%matplotlib inline\n!pip install torch\nx = 1", "%%bash\nls", text, "raise OSError(x)", "if x:\n    !ls"]
    cells = [{"cell_type": "code", "source": cell.splitlines(True)} for cell in cells]
    book = tmp_path / "my net.ipynb"
    book.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "#"}, *cells]}))
    reports = check_file(book)
    assert reports["Net"].ok
    assert "OSError: 1 (line 1 of my net.ipynb cell 4: raise OSError(x))" in reports.notes[0]


AFTER = {  # what stands before a class, and what is said of it
    "argparse.ArgumentParser().parse_args(['--what'])\n": "SystemExit: 2 (line 6 of train.py: argparse",
    "for line in open('corpus.de'):\n    print(line)\n": "No such file or directory: 'corpus.de' (line 6",
    "from unheard_of import Field\nField().build_vocab()\n": "unheard_of cannot be imported here",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("text", AFTER)
def test_what_fails_at_import_does_not_lose_the_classes(text, tmp_path, monkeypatch):
    monkeypatch.setattr(reporting, "CHECKS", [])
    path = tmp_path / "train.py"
    path.write_text(f"{HEAD}{text}device = torch.device('cuda')\n{MODEL}    def more(self):\n        return device\n")
    reports = check_file(path)
    assert reports["Net"].ok
    assert AFTER[text] in reports.notes[0]


@pytest.mark.slow
def test_imports_are_found_and_nothing_is_shadowed(tmp_path, monkeypatch):
    """A package beside a file of its name, a module named as an installed package, a module two folders above."""
    monkeypatch.setattr(reporting, "CHECKS", [])
    monkeypatch.chdir(tmp_path)
    files = {
        "setup.py": "raise OSError",
        "yaml.py": "mine = True",
        "transformer/__init__.py": "",
        "transformer/parts.py": f"import yaml\n{MODEL}",
        "transformer.py": "from transformer.parts import Net",
        "lib/a/b/net.py": "from ..c import Net\nfrom transformer.parts import yaml\nassert yaml.mine",
        "lib/a/c.py": "from transformer.parts import Net",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for file in ("transformer.py", "lib/a/b/net.py", "transformer/parts.py"):
        reports = check_file(file)
        assert (list(reports), reports.notes) == (["Net"], [])
    import yaml

    assert not hasattr(yaml, "mine")


@pytest.mark.slow
def test_a_function_is_asked_with_its_modules_in_evaluation_and_they_are_put_back(monkeypatch):
    net = afresh.Seq2Seq(40, 32, 4, 2, 48).train()
    before = {name: one.clone() for name, one in net.state_dict().items()}
    report = check(lambda source, target: net(source, target))
    assert report.ok
    assert report.status == 0
    assert net.training
    assert all(torch.equal(one, before[name]) for name, one in net.state_dict().items())
    assert {one.dtype for one in net.parameters()} == {torch.float32}

    class Hidden:
        model = net  # of the class, where nobody looks

    monkeypatch.setattr(reporting, "CHECKS", [one for one in CHECKS if one.name == "repeats"])
    report = check(lambda source, target: Hidden.model(source, target))
    assert wrong(report) == {"repeats": "random in evaluation"}
    assert ".eval()" in str(report)


def test_a_source_vocabulary_that_is_smaller_than_the_targets():
    net = afresh.Seq2Seq(40, 32, 4, 2, 48)
    report = check(net, lambda model, source, target: model(torch.arange(12)[source], target))
    assert report.ok
    assert "ids below 12" in report.findings[0].says


@pytest.mark.slow
def test_where_it_stays_closed_the_lines_to_write_are_printed_and_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reporting, "CHECKS", [])
    monkeypatch.chdir(tmp_path)
    path, head = Path("net.py"), "class Odd:\n    rate = 0.1\n"
    text = HIDDEN + MASKS["src, tgt, src_mask, tgt_mask"].replace("dropout):", "odd):").replace("dropout)", "odd.rate)")
    path.write_text(head + text)
    assert main(["check", "net.py"]) == 2
    out, err = capsys.readouterr()
    assert "Net wants 'odd'" in err
    assert "annotated check net.py:mine" in err
    path.write_text(head + text + out.replace("odd=...", "odd=Odd()"))
    assert main(["check", "net.py:mine"]) == 0
    assert "nothing" not in capsys.readouterr().out
    path.write_text(head + text)
    assert main(["check", "--wrap", "net.py"]) == 0
    assert "check_net.py:mine" in capsys.readouterr().out
    wrapper = Path("check_net.py")
    wrapper.write_text("from net import Odd\n" + wrapper.read_text().replace("odd=...", "odd=Odd()"))
    assert main(["check", "check_net.py:mine"]) == 0
    before = wrapper.read_text()
    assert main(["check", "--wrap", "net.py"]) == 1
    assert wrapper.read_text() == before


def test_the_exit_status_says_whether_all_could_be_asked():
    finding = reporting.Finding("a", "right", "", "", "", "")
    for verdicts, status in {
        ("right", "does not apply"): 0,
        ("not tried", "variant"): 3,
        ("wrong", "not tried"): 1,
    }.items():
        report = reporting.Report(tuple(finding._replace(verdict=one) for one in verdicts))
        assert report.status == status
