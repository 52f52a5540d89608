"""Strings of every script that Unicode has, for tests of what is read and written."""

from __future__ import annotations

import random
import sys
import unicodedata

import regex
from regex import _regex_core

# joiners, directional marks, blanks
MARKS = "\u200b\u200c\u200d\u200e\u200f\u00ad\u202a\u202c\u2066\u2069\ufeff\u00a0\u3000\ufffd\t\v\f\x85\u2028"


def scripts() -> list[str]:
    """The characters of each script, unassigned ones, surrogates and those of private use left out."""
    assigned = map(chr, range(sys.maxunicode + 1))
    known = "".join(one for one in assigned if unicodedata.category(one) not in ("Cc", "Cn", "Co", "Cs"))
    names = {number: name for name, number in _regex_core.PROPERTIES["SCRIPT"][1].items()}
    found = ("".join(regex.findall(rf"\p{{Script={name}}}", known)) for name in names.values())
    return [letters for letters in found if letters]


def strings(count: int, seed: int = 0) -> list[str]:
    """Strings of one to forty characters: of one script, of two, with blanks and marks; none is blank as a whole."""
    draw, all_scripts, found = random.Random(seed), scripts(), []
    while len(found) < count:
        pool = "".join(draw.choices(all_scripts, k=draw.choice((1, 1, 2))))
        pools = draw.choices((pool, " ", MARKS, "aé.,1"), (12, 2, 1, 1), k=draw.randint(1, 40))
        text = "".join(map(draw.choice, pools)).replace("\u2581", "")  # which SentencePiece has for a space
        if text.strip():
            found.append(text)
    return found
