"""What all answers come to: findings, the likeliest mistakes, a report."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any, NamedTuple

import torch

from annotated.doctor.asking import CHECKS, LEARNING, Check
from annotated.doctor.asking_text import TEXT_CHECKS
from annotated.doctor.calling import OneText, inputs_of
from annotated.doctor.functions import required
from annotated.doctor.one_text import Reading, Text, as_read
from annotated.doctor.subject import (
    DOES_NOT_APPLY,
    RIGHT,
    UNTRIED,
    VARIANT,
    WRONG,
    Broken,
    Subject,
    Verdict,
    raised,
)

__all__ = ["check"]


VERDICTS = (WRONG, VARIANT, UNTRIED, RIGHT, DOES_NOT_APPLY)


UNKNOWN = "no mistake that is known looks like this"


class Finding(NamedTuple):
    """What one check has found."""

    check: str
    verdict: str
    found: str
    says: str
    symptom: str
    cell: str


@dataclass(frozen=True, repr=False)
class Report:
    """The findings of all checks, and what is likely wrong, the likeliest first: names of `MISTAKES`."""

    findings: tuple[Finding, ...]
    causes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong. A variant is not wrong, and what was not tried may be."""
        return all(one.verdict != WRONG for one in self.findings)

    @property
    def status(self) -> int:
        """The command's exit status: 1 where something is wrong, 3 where that could not be asked, else 0."""
        verdicts = {one.verdict for one in self.findings}
        return 1 if WRONG in verdicts else 3 if UNTRIED in verdicts else 0

    @property
    def unknown(self) -> bool:
        """Whether a model is wrong in a way that is not known."""
        return not self.causes and any(one.verdict == WRONG and one.cell for one in self.findings)

    @property
    def in_order(self) -> list[Finding]:
        """What is wrong first, then variants, what was not tried, what is right, each in the order of the checks."""
        return sorted(self.findings, key=lambda one: VERDICTS.index(one.verdict))

    def __str__(self) -> str:
        lines = []
        wide = max([9, *(len(one.verdict) for one in self.findings)])
        for one in self.in_order:
            says = f"{one.found}: {one.says}" if one.found else one.says
            lines.append(f"{one.check:20} {one.verdict:{wide}} {says}")
            if one.verdict == WRONG:
                lines += [f"{'':{wide + 21}} seen as: {one.symptom}"] if one.symptom else []
                lines += [f"{'':{wide + 21}} explained: chapter {one.cell}"] if one.cell else []
        if self.causes:
            lines.append(f"likely: {'; or '.join(self.causes)}")
        elif self.unknown:
            lines.append(f"likely: {UNKNOWN}")
        return "\n".join([*lines, summary(self.findings)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = []
        for one in self.in_order:
            page, _, cell = one.cell.partition("#")
            name = f'<a href="{page}.html#cell-{cell}">{escape(one.check)}</a>' if cell else escape(one.check)
            says = f"<b>{escape(one.found)}</b>: {escape(one.says)}" if one.found else escape(one.says)
            says += f"<br><i>{escape(one.symptom)}</i>" if one.verdict == WRONG and one.symptom else ""
            verdict = f"<b>{one.verdict}</b>" if one.verdict == WRONG else one.verdict
            rows.append(f"<tr><td>{name}</td><td>{verdict}</td><td>{says}</td></tr>")
        causes = "; or ".join(self.causes) or (UNKNOWN if self.unknown else "")
        likely = f"<p>Likely: {escape(causes)}.</p>" if causes else ""
        head = "<thead><tr><th>check</th><th>verdict</th><th>what was found</th></tr></thead>"
        return f"<table>{head}<tbody>{''.join(rows)}</tbody></table>{likely}<p>{summary(self.findings)}</p>"


def summary(findings: tuple[Finding, ...]) -> str:
    """How many findings there are of each verdict; where nothing is wrong, what could not be asked comes first."""
    counts = {one: sum(finding.verdict == one for finding in findings) for one in VERDICTS}
    left, apply = counts[UNTRIED], len(findings) - counts[DOES_NOT_APPLY]
    before = []
    if left and not counts[WRONG]:
        before = [f"nothing wrong, but {left} of {apply} not tried"]
        counts[UNTRIED] = 0
    return ", ".join(before + [f"{count} {verdict}" for verdict, count in counts.items() if count])


def check(
    model: Callable[..., Any],
    call: Callable[..., Any] | None = None,
    *,
    pad: int = 0,
    bos: int = 2,
    eos: int = 3,
    vocab: int | None = None,
    learn: bool = False,
    one_text: bool | None = None,
) -> Report:
    """Ask an encoder-decoder, or a model of one text, what it must answer (chapter 82). It stays as it is.

    `model` is a module or a function: ids of a source (batch, source) and of a target (batch, target) in, logits
    (batch, target, vocabulary) out, or all of them with the batch second; or ids of one text (batch, length) in, which
    is found out from its arguments unless `one_text` says so. `call(model, source, target)`, or `call(model, tokens)`,
    says how it is called, if otherwise. `pad`, `bos` and `eos` are its special ids, and `vocab` is how many ids it
    knows, if that is not the number of logits. With `learn` a copy is trained for three hundred steps on copying.
    """
    if reads := takes_one(model, call) if one_text is None else one_text:
        try:
            call = call if isinstance(call, Reading) else as_read(model, call, pad, bos, eos)
        except Exception:  # what it raises is a finding
            call = Reading(model)
    subject = (Text if reads else Subject)(model, call, pad, bos, eos, vocab)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            findings = answers(subject, [*(TEXT_CHECKS if reads else CHECKS), *([LEARNING] if learn else [])])
    finally:
        subject.end()
    return Report(tuple(findings), likely(findings, reads))


def takes_one(model: Callable[..., Any], call: Callable[..., Any] | None) -> bool:
    """Whether a model is called with one text, as its arguments, or those of `call`, say."""
    if call is not None:
        return isinstance(call, Reading) or len(required(call)) == 2
    try:
        inputs_of(model)
    except OneText:
        return True
    except Exception:  # nothing is known of it
        return False
    return False


def answers(subject: Subject, checks: list[Check]) -> list[Finding]:
    """What all checks find; only how it is called, where that cannot be found out."""
    first = answer(lambda _: subject.begin(), subject)
    findings = [Finding("call", *first, "", "")]
    if first.verdict == WRONG and first.found != "not finite":
        return findings
    numbers = first.verdict != WRONG
    for one in checks:
        if one.name in COMPARING and any(finding.found == "random in evaluation" for finding in findings):
            findings.append(Finding(one.name, UNTRIED, "", "outputs are random: nothing can be compared", "", ""))
        elif numbers or one.name in FROM_INSIDE:
            verdict, found, says = answer(lambda asked, one=one: asked.once(one.ask), subject)
            if found == "random in evaluation" and subject.module is None:
                says += "; call `.eval()` of the model that the function uses"
            findings.append(Finding(one.name, verdict, found, says, one.symptom, one.cell))
    return findings


COMPARING = {  # what cannot be asked where outputs are random
    "looks ahead", "own past", "source", "source padding", "both padded", "batch", "order of the source",
    "order of the target", "cache", "left padding", "positions given",
}  # fmt: skip
FROM_INSIDE = {
    "attentions",
    "softmax",
    "scale",
    "masks",
    "embedding",
    "positions",
    "layers",
}  # asked also without numbers


FOLLOWS = COMPARING | {"call", "gradients", "first loss", "learning"}  # checks that find what follows from a mistake

EXACT = {"source padding: another id is padding", "own past: shifted inside the model"}  # and of these, what tells more


def answer(ask: Callable[[Subject], Verdict], subject: Subject) -> Verdict:
    """The verdict of a check, which asks for gradients if it wants any; an exception in the model is one."""
    try:
        with torch.no_grad():
            return ask(subject)
    except Broken as error:
        return error.verdict
    except Exception as error:
        return Verdict(WRONG, "raises", raised(error))


def known_fingerprints(one_text: bool = False) -> dict[str, list[str]]:
    """What each mistake of `mistakes`, or of `mistakes_today`, leaves, as check and what it found."""
    file = resources.files("annotated").joinpath(f"doctor/fingerprints{'_today' if one_text else ''}.json")
    return json.loads(file.read_text(encoding="utf-8"))


def likely(findings: list[Finding] | tuple[Finding, ...], one_text: bool = False) -> tuple[str, ...]:
    """Up to three mistakes that leave nearly these findings, the likeliest first; those that leave the same together.

    What was seen inside says where a mistake is, and counts before what follows from it: a mistake is named only if it
    leaves something of that, or if nothing was seen inside, nor would be. What few mistakes leave counts more than what
    many do.
    """
    found = marks(f"{one.check}: {one.found}" for one in findings if one.verdict == WRONG and one.found != "raises")
    known = {name: marks(left) for name, left in known_fingerprints(one_text).items()}
    times = Counter(one for left in known.values() for one in left)
    weight = {one: 1 / count for one, count in times.items()}

    def alike(one: set[str], other: set[str]) -> float:
        both, either = (sum(weight.get(mark, 0.5) for mark in some) for some in (one & other, one | other))
        return both / either if either else 1.0

    scores = {}
    for name, left in known.items():
        inside, others = within(left), within(found)
        if inside & others:
            scores[name] = (3 * alike(inside, others) + alike(left - inside, found - others)) / 4
        elif left and not inside | others:
            scores[name] = alike(left, found)
    best = sorted(scores, key=lambda name: -scores[name])
    return tuple(name for name in best[:3] if scores[name] > 0.5 and scores[name] > 0.8 * scores[best[0]])


def marks(found: Iterable[str]) -> set[str]:
    """What checks found, each by itself, where one has found several things."""
    return {f"{check}: {one}" for check, says in (mark.split(": ", 1) for mark in found) for one in says.split(", ")}


def within(found: set[str]) -> set[str]:
    """Those of the marks that say where a mistake is; the others follow from it."""
    return {one for one in found if one.split(": ")[0] not in FOLLOWS or one in EXACT}
