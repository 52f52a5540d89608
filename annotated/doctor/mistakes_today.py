"""Mistakes of decoders that the doctor knows by name, each an edit of chapter 95's file."""

import inspect
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

import torch

from annotated import today
from annotated.doctor.asking import WRONG
from annotated.doctor.reporting import Report, check

__all__ = ["TODAY", "Slip", "examined", "planted"]


class Slip(NamedTuple):
    """A mistake as edits of `annotated.today`: a name, the check meant for it, old and new texts in turn, sizes."""

    name: str
    check: str
    edits: tuple[str, ...]
    sizes: Mapping[str, Any] = MappingProxyType({})


SEEN = "return near | (back == 0)"
TURNED = "turn(self.query_norm(q), angles), turn(self.key_norm(k), angles)"
GROWN = (
    "            if cache:\n                k, v = (torch.cat(pair, dim=2) for pair in zip(cache, (k, v)))\n"
    "            cache[:] = k, v\n"
)
RETURN = "return self.output(self.norm(x))"
LABELLED = (
    "tokens, real=None, cache=None):",
    "input_ids, real=None, cache=None, labels=None):\n        tokens = input_ids",
)
LOSS = "nn.functional.cross_entropy(y[:, {}].flatten(0, 1), labels[:, {}].flatten())"
ENDED = "y = self.output(self.norm(x))\n        return y if labels is None else (y, " + LOSS + ")"
NEIGHBOURS = "turn(k.unflatten(-1, (-1, 2)).mT.flatten(-2), angles).unflatten(-1, (2, -1)).mT.flatten(-2)"
SHARED, NORMED = {"num_kv_heads": 2}, {"qk_norm": True}

TODAY = [
    # what may be read
    Slip("no causal mask", "looks ahead", ("(back >= 0) & ", "")),
    Slip("the next token is read", "looks ahead", ("(back >= 0)", "(back >= -1)")),
    Slip("the last layer is not causal", "masks", (
        "seen(real, before, self.windows[i])[:, None]",
        "seen(real, before, self.windows[i])[:, None] | (layer is self.layers[-1])")),
    Slip("some heads are not causal", "masks", (
        "scores.masked_fill(~mask, -math.inf)",
        "torch.cat([scores[:, :1], scores[:, 1:].masked_fill(~mask, -math.inf)], dim=1)")),
    Slip("a token does not see itself", "masks", (
        SEEN, "return near & (back > 0) | (number[before:, None] + number == 0)")),
    Slip("mask in the opposite sense", "call", ("masked_fill(~mask", "masked_fill(mask")),
    Slip("mask writes 0", "masks", ("(~mask, -math.inf)", "(~mask, 0.0)")),
    Slip("mask after the softmax", "softmax", (
        "scores.masked_fill(~mask, -math.inf).float().softmax(-1)", "scores.float().softmax(-1) * mask")),
    Slip("window one too wide", "windows", ("back < (window", "back <= (window"), {"windows": [3, 3]}),
    Slip("window one too narrow", "windows", ("(window or math.inf)", "((window or 9) - 1)"), {"windows": [3, 3]}),
    Slip("window unused", "windows", (" & (back < (window or math.inf))", ""), {"windows": [3, 3]}),
    # the cache, padding
    Slip("places begin anew in each step", "cache", (
        "(real)[:, :, before:]", "(real)[:, :, : real.shape[1] - before]")),
    Slip("cache not read", "cache", (GROWN, "            cache[:] = k, v\n"), {"num_layers": 1}),
    Slip("cache does not grow", "cache", (
        GROWN, f"            new = k, v\n{GROWN}".replace("[:] = k, v", "[:] = new"))),
    Slip("cache overwritten", "cache", (
        "(torch.cat(pair, dim=2) for pair in zip",
        "(torch.cat([new, old[:, :, 1:], 0 * old[:, :, :1]], dim=2) for old, new in zip")),
    Slip("cache of another layer", "cache", ("cache[i] if", "cache[~i if before else i] if")),
    Slip("keys kept before they are turned", "cache", (GROWN,
        "            kept, bare = cache[:], self.key_norm(self.split(self.key(x)))\n" + GROWN +
        "            cache[0] = torch.cat([kept[0], bare], dim=2) if kept else bare\n")),
    Slip("a piece reads ahead", "cache", ("(back >= 0)", "((back >= 0) | (before > 0))")),
    Slip("a step masked as if it were first", "cache", (
        "back = number[before:, None] - number", "back = number[: len(number) - before, None] - number")),
    Slip("padding read", "left padding", (
        " & real[:, None]", " & (real == real)[:, None]")),
    Slip("cached steps count padding", "left padding", ("self.angles(real)", "self.angles(real | (before > 0))")),
    Slip("padding gives no numbers", "left padding", (" | (back == 0)", "")),
    # places
    Slip("no positions", "positions", (TURNED, "self.query_norm(q), self.key_norm(k)")),
    Slip("values turned", "rotary", (TURNED, f"{TURNED}\n        v = turn(v, angles)")),
    Slip("keys not turned", "rotary", ("turn(self.key_norm(k), angles)", "self.key_norm(k)")),
    Slip("keys turned in neighbours", "rotary", ("turn(self.key_norm(k), angles)", NEIGHBOURS)),
    Slip("halves with the angles of neighbours", "rotary", (
        "angles.cos().to(x.dtype), angles.sin().to(x.dtype)",
        "(f(angles).repeat_interleave(2, -1) for f in (torch.cos, torch.sin))",
        "torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)",
        "(x * cosine + torch.cat([-b, a], dim=-1) * sine).to(x.dtype)")),
    Slip("cosine and sine exchanged", "rotary", ("cosine, sine = angles", "sine, cosine = angles")),
    Slip("theta not used", "rotary", ("speeds(*self.rotary)", "speeds(self.rotary[0])"), {"theta": 1e6}),
    Slip("speeds not divided by the width", "rotary", ("torch.arange(0, d_k, 2) / d_k", "torch.arange(0, d_k, 2)")),
    Slip("keys turned the other way", "rotary", ("turn(self.key_norm(k), angles)", "turn(self.key_norm(k), -angles)")),
    Slip("normalised after turning", "rotary", (
        TURNED, "self.query_norm(turn(q, angles)), self.key_norm(turn(k, angles))"), NORMED),
    # heads
    Slip("groups interleaved", "groups", (
        ".repeat_interleave(self.share, dim=1)", ".repeat(1, self.share, 1, 1)"), SHARED),
    Slip("values of other heads", "groups", (".to(x.dtype) @ v", ".to(x.dtype) @ v.roll(1, dims=1)"), SHARED),
    Slip("heads normalised together", "query norm", (
        "turn(self.query_norm(q)",
        "turn(self.query_norm.weight * (q.float() * (q.float().square().mean((1, 3), keepdim=True) + 1e-6).rsqrt())"
        ".to(q.dtype)"), NORMED),
    Slip("heads split by view", "attentions", (
        "x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)", "x.reshape(len(x), -1, x.shape[1], self.d_k)")),
    Slip("scores not scaled", "scale", (" / math.sqrt(self.d_k)", "")),
    Slip("scaled by the model's width", "scale", ("math.sqrt(self.d_k)", "math.sqrt(x.shape[-1])")),
    Slip("softmax over the queries", "softmax", (".softmax(-1)\n        mixed", ".softmax(-2)\n        mixed")),
    # norms and sums
    Slip("norms in half precision", "precision", ("wide = x.float()", "wide = x")),
    Slip("angles in half precision", "precision", (
        "speed.to(real.device)", "speed.to(real.device, self.output.weight.dtype)")),
    Slip("tables in half precision", "precision", ("angles.cos().to(", "angles.cos().half().to(")),
    Slip("the machine's epsilon", "norms", ("keepdim=True) + self.eps", "keepdim=True) + torch.finfo(wide.dtype).eps")),
    Slip("epsilon outside the root", "norms", (
        "(wide.square().mean(-1, keepdim=True) + self.eps).sqrt()",
        "wide.square().mean(-1, keepdim=True).sqrt() + self.eps")),
    Slip("divided by the mean square", "norms", (".sqrt()", "")),
    Slip("normalised over the text", "looks ahead", ("wide.square().mean(-1,", "wide.square().mean((1, 2),"), ),
    Slip("no last norm", "norms", ("self.output(self.norm(x))", "self.output(x)")),
    Slip("the second norm is missing", "norms", ("self.feed_forward(self.second_norm(x))", "self.feed_forward(x)")),
    Slip("no residual", "norms", ("return x + self.dropout(self.feed", "return self.dropout(self.feed")),
    Slip("added twice", "norms", ("return x + self.dropout(self.feed", "return x + x + self.dropout(self.feed")),
    Slip("residual of what is normalised", "norms", (
        "x = x + self.dropout(self.attention(self.first_norm(x)",
        "x = self.first_norm(x)\n        x = x + self.dropout(self.attention(x",
        "return x + self.dropout(self.feed_forward(self.second_norm(x)))",
        "x = self.second_norm(x)\n        return x + self.dropout(self.feed_forward(x))")),
    Slip("no gate bends", "feed-forward", ("nn.functional.silu(self.gate(x))", "self.gate(x)")),
    # what comes out
    Slip("copied, not tied", "tied", (
        "self.output.weight = self.embedding.weight",
        "self.output.weight.data.copy_(self.embedding.weight)"), {"tied": True}),
    Slip("one layer several times", "layers", (
        "self.layers.append(", "self.layers.append(self.layers[0] if self.layers else ")),
    Slip("probabilities come out", "logits", (RETURN, f"{RETURN}.softmax(-1)")),
    Slip("the last token is dropped", "call", (RETURN, f"{RETURN}[:, :-1]")),
    Slip("dropout alive in evaluation", "repeats", (
        "return x + self.dropout(self", "return x + (lambda y: nn.functional.dropout(y, 0.1))(self")),
    Slip("dropout never drops", "dropout", ("x + self.dropout(", "x + ("), {"dropout": 0.1}),
    Slip("loss shifted twice", "its loss", (*LABELLED, RETURN, ENDED.format(":-2", "2:"))),
    Slip("loss not shifted", "its loss", (*LABELLED, RETURN, ENDED.format(":", ":"))),
]  # fmt: skip


def planted(one: Slip) -> ModuleType:
    """Chapter 95's file with a mistake in it, run. Raises ValueError where the file no longer has what it replaces."""
    text = inspect.getsource(today)
    for old, new in zip(one.edits[::2], one.edits[1::2], strict=True):
        if old not in text:
            raise ValueError(f"{one.name}: annotated.today no longer has {old!r}")
        text = text.replace(old, new)
    module = ModuleType("today")
    module.__dict__["source"] = text
    exec(compile(text, f"<{one.name}>", "exec"), module.__dict__)
    return module


def examined(one: Slip) -> Report:
    """What the checks find in a decoder with a mistake."""
    sizes = {"vocab_size": 40, "d_model": 32, "d_ff": 48, "num_heads": 4, "num_layers": 2, **one.sizes}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return check(planted(one).Decoder(**sizes))


def fingerprints() -> dict[str, list[str]]:
    """What the checks find wrong in each: `annotated/doctor/fingerprints_today.json`."""
    reports = {one.name: examined(one) for one in TODAY}
    return {
        name: [f"{one.check}: {one.found}" for one in report.findings if one.verdict == WRONG]
        for name, report in reports.items()
    }


if __name__ == "__main__":  # python -m annotated.doctor.mistakes_today annotated/doctor/fingerprints_today.json
    Path(sys.argv[1]).write_text(json.dumps(fingerprints(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
