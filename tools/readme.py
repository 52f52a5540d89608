"""What README.md says was found and measured, from the records: `python -m tools.readme` writes it between marks."""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean

import yaml

from annotated.base.files import read_json
from tools import ROOT

PARTS = ("findings", "measured")  # what stands between marks, in the order of the file


def fastest(table: dict[str, dict[str, float]], system: str) -> float:
    """The highest median among the settings of a system."""
    return max(row["median"] for name, row in table.items() if name.startswith(system))


def marks(part: str) -> tuple[str, str]:
    """What stands before and after a part that is written here."""
    return f"<!-- {part}: written by python -m tools.readme -->", f"<!-- end of {part} -->"


def findings(root: Path) -> str:
    """Three results that a reader of the paper would not have guessed."""
    runs = root / "data" / "runs"
    turned = [read_json(runs / "case" / "measured" / f"{number}.json")["swaps"] for number in (1, 2, 3)]
    it, adjective, early = (
        [f"{found[place][1][0]:.0%}" for found in turned]
        for place in ("door 2: it", "door 2: adjective", "door 1: adjective")
    )
    losses = {row: logarithms(runs / "table-3", row) for row in ("base", "no-positions")}
    times = math.exp(fmean(losses["no-positions"]) - fmean(losses["base"]))
    searches = {
        one["width"]: one for one in read_json(runs / "multi30k" / "beams.json")["searches"] if not one["alpha"]
    }
    narrow, wide = searches[min(searches)], searches[max(searches)]
    beam = wide["width"]
    return f"""\
- **Three models, three ways.** Three models were trained alike, and get nearly all of these pronouns right. Give them
  some vectors of the other sentence, and see which of these turn the pronoun. In the first model the vector of *it*
  does ({it[0]}, but {it[1]} and {it[2]} in the others), in the second the adjective's ({adjective[1]}). In the third
  the adjective's does so a layer earlier ({early[2]}), and then the decoder looks for the noun
  ([chapter 80](book/80_attention_visualizations.ipynb)).
- **Nothing costs as much as the order of the words.** Without positions the loss is {times:.0f} times as high. Three
  runs of each cannot tell what one head in place of four costs ([chapter 62](book/62_model_variations.ipynb)).
- **Searching better translates worse.** A beam of {beam} finds likelier outputs than greedy search, and BLEU falls from
  {narrow["bleu"]:.1f} to {wide["bleu"]:.1f}, unless length is rewarded ([chapter 60](book/60_beam_search.ipynb))."""


def logarithms(folder: Path, row: str) -> list[float]:
    """The logarithm of the last validation loss of each run of a row."""
    runs = [read_json(path) for path in sorted(folder.glob(f"{row}-[0-9].json"))]
    return [math.log(run["valid_loss"][str(run["steps"])]) for run in runs]


def measured(root: Path) -> str:
    """The table of results and the sentence about the ledger."""
    runs = root / "data" / "runs"
    score = {
        (run, kind): read_json(runs / run / f"evaluation-{kind}.json")
        for run, kind in (("multi30k-cpu", "beam4"), ("embedded", "beam4"), ("embedded", "pronoun-beam4"))
    }
    others = read_json(runs / "case" / "measured" / "outsiders-1.json")
    minutes = read_json(runs / "multi30k-cpu" / "run.json")["wall_seconds"] / 60
    hour = read_json(runs / "multi30k-best" / "choose.json")["test"]["bleu"]
    training = read_json(runs / "benchmark-training" / "results.json")["tables"]
    decoding = read_json(runs / "benchmark-decoding" / "results.json")["tables"]["32"]
    systems = ("annotated", "torch.nn.Transformer", "Hugging Face Marian")
    rows = [
        (
            "Multi30k, English to German, BLEU",
            f"{score['multi30k-cpu', 'beam4']['bleu']:.1f} after {minutes:.0f} minutes, {hour:.1f} by `--recipe best`",
        ),
        ("the book's own corpus, translated exactly", f"{score['embedded', 'beam4']['exact_match']:.1%}"),
        (
            "what *it* means: right gender of the pronoun, of twins drawn from its grammar",
            f"{score['embedded', 'pronoun-beam4']['antecedent_accuracy']:.1%}",
        ),
        (
            "the same, of 60 twins written from its words alone",
            f"{others['right'] / others['sentences']:.1%} ({others['right']} of {others['sentences']})",
        ),
    ]
    for precision, table in training.items():
        speeds = ", ".join(f"{system} {fastest(table, system):,.0f}" for system in systems)
        rows.append((f"training in {precision}, target tokens a second", speeds))
    engines = ("annotated, float32", "Hugging Face generate, float32", "CTranslate2 float32", "CTranslate2 int8")
    speeds = ", ".join(f"{engine.replace(', float32', '')} {fastest(decoding, engine):,.0f}" for engine in engines)
    rows.append(("translating 32 at a time, beam 4, sentences a second, float32 unless said", speeds))
    for name in ("base", "big"):
        gpu = read_json(runs / "gpu" / f"training-{name}.json")
        speeds = ", ".join(f"{system} {fastest(gpu['table'], system):,.0f}" for system in systems)
        where = f"one {gpu['device'].split()[-1]} in bfloat16"
        rows.append((f"training the paper's {name} model on {where}, target tokens a second", speeds))
    claims = yaml.safe_load((root / "book" / "ledger.yml").read_text(encoding="utf-8"))["claims"]
    standings, outcomes = (Counter(claim.get(field) for claim in claims) for field in ("standing", "outcome"))
    counts = ", ".join(
        f"{count} {'hold' if outcome == 'holds' else outcome}" for outcome, count in outcomes.most_common() if outcome
    )
    ledger = (
        f"Of the paper's {len(claims)} claims {standings['built']} are built in code and {standings['measured']} are\n"
        f"measured: {counts}. The others are told, or out of reach with the reason."
    )
    table = "\n".join(f"| {what} | {found} |" for what, found in rows)
    return f"| on two cores of a server, without a GPU unless one is named | |\n| --- | --- |\n{table}\n\n{ledger}\n"


def written(text: str, root: Path) -> str:
    """README's text with the parts between marks made anew. Raises ValueError where marks are missing."""
    for part in PARTS:
        begin, end = marks(part)
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"README.md needs the marks {begin} and {end}, once each")
        before, _, rest = text.partition(begin)
        made = {"findings": findings, "measured": measured}[part](root).strip()
        text = f"{before}{begin}\n\n{made}\n\n{end}{rest.partition(end)[2]}"
    return text


def main(arguments: list[str], root: Path = ROOT) -> int:
    about = "What README.md says was measured, from the records."
    argparse.ArgumentParser(prog="python -m tools.readme", description=about).parse_args(arguments)
    path = root / "README.md"
    try:
        path.write_text(written(path.read_text(encoding="utf-8"), root), encoding="utf-8")
    except ValueError as error:
        print(f"readme: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
