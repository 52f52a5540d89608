"""The search page: what readers type leads to the place that explains it."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.pages import SITE

ROOT = Path(__file__).resolve().parents[1]
QUERIES = yaml.safe_load((ROOT / "tests" / "search_queries.yml").read_text(encoding="utf-8"))
NAMED = {  # by the paper's words, and by the field's
    "why scale": "32_attention#why-divide-by-sqrt-d-k", "mask": "32_attention#masks",
    "kv cache": "60_beam_search#why-is-writing-slow", "equation 1": "32_attention#scaled-dot-product-attention",
    "post-norm": "31_stacks#norm-after-the-sum-or-before-the-sub-layer",
    "figure 2": "32_attention#multi-head-attention",
    "equation of attention": "32_attention#scaled-dot-product-attention",
    "positonal": "35_positional_encoding", "how to install": "91_command_line#how-to-install-it",
    "BLEU": "61_machine_translation#which-of-two-translations-is-better",
    "Llama 3": "95_since_2017#the-file-of-today", "qwen": "95_since_2017#the-file-of-today",
    "mistral": "95_since_2017#other-people-s-weights", "rotary": "95_since_2017#places-that-turn",
    "GQA": "95_since_2017#queries-that-share-keys", "swiglu": "95_since_2017#a-network-with-a-gate",
    "RMSNorm": "95_since_2017#norms-that-do-not-subtract", "adamw": "95_since_2017#adamw-along-a-cosine",
    "cosine": "95_since_2017#adamw-along-a-cosine", "qk-norm": "95_since_2017#queries-and-keys-normalised",
    "cosine similarity": "34_embeddings#what-do-the-rows-learn",
    "pre-norm today": "95_since_2017#norms-that-step-aside",
    "gpt": "70_conclusion#one-text-in-place-of-two", "decoder-only": "70_conclusion#one-text-in-place-of-two",
}  # fmt: skip

pytestmark = pytest.mark.usefixtures("site")


def answers(queries):
    """The places that the search finds for each query, the best first."""
    command = ["node", str(ROOT / "tests" / "web" / "search.mjs"), str(SITE / "_static" / "sections.js")]
    done = subprocess.run(command, input=json.dumps(queries), capture_output=True, text=True, check=True)
    return dict(zip(queries, json.loads(done.stdout), strict=True))


@pytest.mark.browser
@pytest.mark.parametrize(("kind", "least"), [("open", 26), ("held_back", 15)])
def test_what_readers_type_leads_to_the_place_that_explains_it(kind, least):
    found = answers([one["query"] for one in QUERIES[kind]])
    wrong = {
        one["query"]: found[one["query"]][:2] for one in QUERIES[kind] if found[one["query"]][0] not in one["places"]
    }
    assert len(QUERIES[kind]) - len(wrong) >= least, wrong


@pytest.mark.browser
def test_words_of_the_field_lead_to_their_sections():
    assert {query: found[0] for query, found in answers(list(NAMED)).items()} == NAMED


@pytest.mark.browser
def test_other_ways_of_writing_and_slips_of_the_pen():
    """Equal by `same` of book/search.yml, by numbers, by stems, and by the nearest word."""
    ways = [
        ["kv cache", "key-value caching"],
        ["eq. (1)", "Equation 1"],
        ["masks", "masking"],
        ["regularizaton", "regularization"],
    ]
    for one, other in ways:
        found = answers([one, other])
        assert found[one][0] == found[other][0], (one, other)


@pytest.mark.browser
def test_nothing_is_found_where_nothing_is():
    assert answers(["qqqqzzzz", "  ", "<b>", "why"])["qqqqzzzz"] == []
