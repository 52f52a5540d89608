"""The doctor and models of one text: mistakes by name, no false alarm, forms that people write, and the command."""

import inspect
from functools import partial

import pytest
import torch
from torch import nn

from annotated import check, today
from annotated.command.cli import main
from annotated.doctor.asking import RIGHT, UNTRIED, VARIANT, WRONG
from annotated.doctor.mistakes_today import NEIGHBOURS, RETURN, TODAY, TURNED, Slip, examined, planted
from annotated.doctor.reporting import known_fingerprints

SMALL = {"vocab_size": 40, "d_model": 32, "d_ff": 48, "num_heads": 4, "num_layers": 2}
TEXT = inspect.getsource(today)


def found(report, verdict: str) -> dict[str, str]:
    return {one.check: one.found for one in report.findings if one.verdict == verdict}


def says(report, name: str) -> str:
    return next(one.says for one in report.findings if one.check == name)


@pytest.mark.slow
def test_each_mistake_is_found_by_its_check_and_called_by_its_name():
    """And leaves the fingerprint that is stored."""
    left = {}
    for one in TODAY:
        report = examined(one)
        assert one.check in found(report, WRONG), one.name
        assert report.causes[:1] == (one.name,), (one.name, report.causes)
        left[one.name] = [f"{check}: {name}" for check, name in found(report, WRONG).items()]
    assert left == known_fingerprints(one_text=True)


SHAPES = {
    "Llama": {},
    "groups": {"num_kv_heads": 2},
    "one for all": {"num_kv_heads": 1, "d_k": 16, "theta": 1e6},
    "Qwen3": {"num_kv_heads": 2, "d_k": 16, "qk_norm": True},
    "Mistral": {"windows": [3, 3], "num_kv_heads": 2},
    "a window in one layer": {"windows": [4, None]},
    "long windows": {"windows": [8, 20]},
    "scaled": {"scaling": (8.0, 1.0, 4.0, 16), "theta": 5e5},
    "tied, dropout": {"tied": True, "dropout": 0.1},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_no_false_alarm_for_todays_decoder(name):
    torch.manual_seed(0)
    model = today.Decoder(**SMALL | SHAPES[name])
    nn.init.normal_(model.embedding.weight, std=0.02)  # as published, where it makes logits too
    before = {key: one.clone() for key, one in model.bfloat16().state_dict().items()}
    report = check(model)
    assert (found(report, WRONG), found(report, VARIANT), found(report, UNTRIED)) == ({}, {}, {})
    assert report.status == 0
    assert all(torch.equal(one, before[key]) and one.dtype == torch.bfloat16 for key, one in model.state_dict().items())


def hugging_face(name: str) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    if name == "GPT2":
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 2, "eos_token_id": 3}
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=40, **sizes))
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0}
    sizes |= {"head_dim": 16} if name == "Qwen3" else {"sliding_window": 4} if name == "Mistral" else {}
    config = getattr(transformers, f"{name}Config")(vocab_size=40, **sizes)
    return getattr(transformers, f"{name}ForCausalLM")(config)


APPLY = {"cache", "left padding", "positions given", "its loss"}
FAMILIES = {  # what variants there are, and what applies besides
    "Llama": ({"padding counted"}, {"rotary", "groups"}),
    "Qwen3": ({"padding counted"}, {"rotary", "groups", "query norm"}),
    "Mistral": ({"padding counted"}, {"rotary", "groups", "windows"}),
    "GPT2": ({"padding counted"}, {"dropout"}),
    "Phi": ({"padding counted", "attention and network side by side"}, {"rotary", "groups"}),
    "Olmo2": ({"padding counted", "added after the normalisation"}, {"rotary"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_no_false_alarm_for_other_families(name):
    torch.manual_seed(0)
    report = check(hugging_face(name))
    variants, apply = FAMILIES[name]
    assert found(report, WRONG) == {}
    assert set(found(report, VARIANT).values()) == variants
    assert {*found(report, RIGHT), *found(report, VARIANT)} >= APPLY | apply


ARGUMENTS = "tokens, real=None, cache=None):"
LAST = "y = self.output(self.norm(x))\n        return y if targets is not None else y[:, -1:]"
FORMS = {  # how people write it, as edits of chapter 95's file, and what is said of it
    "logits of all only with targets": (
        (ARGUMENTS, "tokens, real=None, cache=None, targets=None):", RETURN, LAST),
        "call", "targets handed over"),
    "neighbours": (
        (TURNED, f"{NEIGHBOURS.replace('k.un', 'q.un')}, {NEIGHBOURS}"),
        "rotary", "(2i, 2i + 1)"),
    "the batch second": (
        (ARGUMENTS, f"{ARGUMENTS}\n        tokens = tokens.T", RETURN, f"{RETURN}.transpose(0, 1)"),
        "call", "(length, batch)"),
    "a mask of what may be read, which the caller makes": (
        (ARGUMENTS, "tokens, mask):\n        cache = real = None",
         "            mask = seen(real, before, self.windows[i])[:, None]\n", ""),
        "call", "mask handed over: True where tokens may be read"),
    "such a mask, and a cache": (
        (ARGUMENTS, "tokens, mask, cache=None):\n        real = None",
         "            mask = seen(real, before, self.windows[i])[:, None]\n", ""),
        "cache", "token by token, and in pieces"),
    "a cache that comes out": (
        (ARGUMENTS, "tokens, real=None, past=None):\n        cache = [[*one] for one in past] if past else self.room()",
         RETURN, f"{RETURN}, cache", "    def new_cache", "    def room"),
        "cache", "None at first"),
    "a cache that the model keeps": (
        (ARGUMENTS, "tokens, start_pos: int):\n        real = None\n"
         "        cache = self.kept = self.kept if start_pos else self.new_cache()",
         "        self.rotary", "        self.kept = None\n        self.rotary"),
        "cache", "start_pos, which it keeps itself"),
    "padding where it is True": (
        ("real=None,", "padding_mask=None,",
         "        if real is None",
         "        real = None if padding_mask is None else ~padding_mask\n        if real is None"),
        "left padding", "True for padding"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_forms_that_people_write(name):
    edits, where, what = FORMS[name]
    torch.manual_seed(0)
    report = check(planted(Slip(name, "", edits)).Decoder(**SMALL, num_kv_heads=2))
    assert found(report, WRONG) == {}
    assert what in says(report, where)


@pytest.mark.slow
def test_windows_longer_than_seven_tokens_are_measured():
    wide = next(one for one in TODAY if one.name == "window one too wide")
    report = examined(wide._replace(sizes={"windows": [9, 9]}))
    assert found(report, WRONG)["windows"] == "window one too wide"


@pytest.mark.slow
def test_what_a_function_calls_stays_as_it_was():
    class Bare(today.Decoder):
        forward = torch.no_grad()(today.Decoder.forward)

    net = Bare(**SMALL)
    check(lambda tokens: net(tokens), one_text=True)
    assert "forward" not in vars(net)


@pytest.mark.slow
def test_special_tokens_are_handed_over_as_they_are_said():
    class Padded(today.Decoder):
        def forward(self, tokens, pad_id):
            seen.append(pad_id)
            return super().forward(tokens)

    seen: list[int] = []
    check(Padded(**SMALL), pad=1, one_text=True)
    assert set(seen) == {1}


@pytest.mark.slow
def test_how_it_is_called_may_be_said_by_anything_that_is_called():
    class Called:
        def __call__(self, model, tokens):
            return model(tokens)

    def scaled(model, tokens, scale):
        return scale * model(tokens)

    for call in (Called(), partial(scaled, scale=1.0)):
        assert check(today.Decoder(**SMALL), call).ok


@pytest.mark.slow
def test_a_model_of_one_text_learns_to_copy():
    torch.manual_seed(0)
    small = SMALL | {"vocab_size": 16, "num_layers": 1}
    assert "learning" in found(check(today.Decoder(**small), learn=True), RIGHT)


def test_a_model_of_hidden_states_and_one_that_raises_are_told():
    torch.manual_seed(0)
    hidden = planted(Slip("", "", (RETURN, "return self.norm(x)"))).Decoder(**SMALL)
    assert found(check(hidden), WRONG) == {"call": "no logits"}
    raising = planted(Slip("", "", (RETURN, "return 1 / 0"))).Decoder(**SMALL)
    assert "ZeroDivisionError" in says(check(raising), "call")


@pytest.mark.slow
def test_the_command_finds_out_that_it_is_one_text(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(TEXT)
    assert main(["check", f"{path}:Decoder"]) == 0
    out = capsys.readouterr().out
    assert "groups               right" in out  # it was made with fewer keys
    one = next(one for one in TODAY if one.name == "cache does not grow")
    path.write_text(vars(planted(one))["source"])
    assert main(["check", f"{path}:Decoder"]) == 1
    assert "likely: cache does not grow" in capsys.readouterr().out
    path.write_text(f"{TEXT}\nnet = Decoder(40, 32, 48, 4, 2)\n\ndef mine(a, b=None):\n    return net(a)\n")
    assert main(["check", "--one-text", f"{path}:mine"]) == 3  # a function has no dropout and no layers
    assert "left padding         does not apply" in capsys.readouterr().out


@pytest.mark.slow
def test_where_it_stays_closed_the_lines_to_write_are_of_one_text(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    edits = ("tokens, real=None, cache=None):", "tokens, flavour: float):\n        real = cache = None + flavour")
    (tmp_path / "net.py").write_text(vars(planted(Slip("", "", edits)))["source"])
    assert main(["check", "net.py:Decoder"]) == 2
    out, err = capsys.readouterr()
    assert "flavour" in err
    assert "def mine(tokens):" in out
    assert "net(tokens, ...)" in out
    assert main(["check", "--wrap", "net.py:Decoder"]) == 0
    for path, old, new in (("net.py", "None + flavour", "None"), ("check_net.py", "...", "1.0")):
        (tmp_path / path).write_text((tmp_path / path).read_text().replace(old, new))
    assert main(["check", "check_net.py:mine", "--one-text"]) in (0, 3)
