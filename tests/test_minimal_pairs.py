"""Minimal pairs of the corpus's rules: two English constructions that differ in one thing, and the German of each.

Every pair below is looked for in 20,000 draws. Where the first English pattern is found, the first German one has to
match, and likewise for the second; both have to be found. NEVER as the German pattern: no such English may be written.
"""

from __future__ import annotations

import re
from random import Random

import pytest

from annotated.base.corpus import SentencePair
from annotated.text.grammar.sentences import derive
from annotated.text.grammar.words import Draw

pytestmark = pytest.mark.slow  # the draws take seconds

DRAWS = 20_000
NEVER = "(?!)"
THE = "(?:the|The)"
PEOPLE = "(?:man|woman|girl|boy|teacher|mother|father|sister|brother|aunt|queen|king|student|doctor|baker|farmer|guest)"
ANIMALS = "(?:dog|cat|bird|bear|lion|fox|wolf|goat|cow|mouse|duck|snake|owl|horse|pig|rabbit|chicken|camel|donkey|hare)"
THINGS = "(?:vehicle|machine|crane|robot|car|lorry|train|tram|house|blanket|bell|clock)"
MEETS = "(?:sees|saw|helps|helped|phoned|invited|visited|answered|greeted|followed|heard|woke|thanked)"
FLAT = "(?:book|novel|newspaper|key|stone|hat|pillow|scarf|cap|shirt|knife|sword|football)"
UPRIGHT = "(?:flower|candle|suitcase|basket|bucket|box|bottle|vase|cup|lamp|lantern|plate)"
NAMES = "(?:Anna|Maria|Emma|Lena|Paul|Peter|Tom|Otto)\\b(?!')"
DARF, KANN, WIRD = r"(?=.*\b[Dd](arf|ürfen)\b)", r"(?=.*\b[Kk](ann|önnen)\b)", r"(?=.*\b[Ww](ird|erden|erde)\b)"
WHEN_PRESENT = (
    r"^When (he|she|I|we|they|the \w+|Anna|Paul|Tom|Otto|Lena) (sleeps?|laughs?|works?|rests?|sings?|helps?)\b[^?]*,"
)
NICHT, KEIN, TRAGEN = r"(?=.*\bnicht\b)", r"(?=.*\b[Kk]ein)", r"(\b[Tt]r(ägt|ug|agen|ugen)\b|getragen)"

PAIRS = {  # name: English, German; English, German
    # what may, must, and must not be
    "must no, must the": (
        r"\bmust \w+ no\b",
        DARF + KEIN,
        r"^(?!.*\b[Nn]o\b)[^,]*\bmust (?!not|be)\w+ the \w+\.$",
        r"\bm(uss|üssen)\b",
    ),
    "must not, must": (r"\bmust not\b", DARF + NICHT, r"^\w+ must \w+\.$", r"\bm(uss|üssen)\b"),
    "no ... must, the ... must": (
        r"^No \w+ must\b",
        r"^Keine? \w+ darf\b",
        r"^The \w+ must (?!.*\b(no|not)\b)[^,]*\.$",
        r"\bm(uss|üssen)\b",
    ),
    "should not, should": (r"\bshould not\b", r"(?=.*\b[Ss]ollten?\b)" + NICHT, r"^\w+ should \w+\.$", r"\bsollten?\b"),
    "cannot, can": (
        r"\bcannot\b",
        KANN + NICHT,
        r"^(He|She) can (?!.*\bnot\b)[^,]*\.$",
        r"^(Er|Sie) kann\b(?!.*nicht)",
    ),
    "will not, will": (
        r"\bwill not\b",
        WIRD + NICHT,
        r"^(He|She) will (?!.*\b(not|no|cannot)\b)[^,]*\.$",
        r"^(Er|Sie) wird\b(?!.*nicht)",
    ),
    "did not, -ed": (
        r"^[^,]*\bdid not \w+\.$",
        r"nicht\b",
        r"(?<!has )(?<!have )\b(slept|laughed|danced|sang)\.$",
        r"\b(schlief|lachte|tanzte|sang)(en|n)?\b",
    ),
    "no, a": (
        r"\b(ate|eats|finds|found|sees|saw|invited|greeted|carried|opened|helped|cooked) no\b",
        r"\bkein",
        r"\b(buys|sees|washes) a\b",
        r"\bein",
    ),
    "not every day": (
        r"^(?!.*\b(because|although|that|whom?|if|when|before|while|and|but)\b).*\b(no|not)\b.*\bevery (day|evening)\b",
        NEVER,
        r"\bevery day\b",
        r"\b[Jj]eden Tag\b",
    ),
    # conjunctions
    "when once, when again": (
        r"^When [^,?]*(slept|laughed|hurried|rested|helped),",
        r"^Als\b",
        WHEN_PRESENT,
        r"^Wenn\b",
    ),
    "whenever, when": (r"^Whenever\b", r"^Immer wenn\b", WHEN_PRESENT, r"^Wenn\b"),
    "if, although": (r"^If\b", r"^Wenn\b", r"\balthough\b", r", obwohl\b"),
    "because, because of": (r"\bbecause (?!of)", r", weil\b", r"\b[Bb]ecause of\b", r"\b[Ww]egen (des|der)\b"),
    "before, that": (r"\bbefore\b", r", bevor\b", r"\b(said|says|knew|knows) that\b", r", dass\b"),
    "while, during": (r"\bwhile\b", r", während\b", r"\b[Dd]uring the\b", r"\b[Ww]ährend (des|der)\b"),
    "and, but": (r", and\b", r", und\b", r", but\b", r", aber\b"),
    # verbs with two translations
    "people eat, animals eat": (
        rf"^The {PEOPLE} (eats|ate) (?!.*\b(who|that)\b)",
        r"\b(isst|aß)\b",
        rf"^The {ANIMALS} (eats|ate)\b",
        r"\b(frisst|fraß)\b",
    ),
    "put what lies, put what stands": (
        rf"\b(puts?|put) the {FLAT} (on|under|behind)\b",
        r"\bleg|gelegt|\blag",
        rf"\bputs? the {UPRIGHT} (on|under|behind)\b",
        r"stell",
    ),
    "wake, wake up": (
        r"\b(wakes|woke) (the|him|her|us|me)\b",
        r"\bweck",
        r"\b(wakes|woke) up\b",
        r"\b(wach\w+ .*auf\b|aufwach\w+)",
    ),
    "wear, carry": (r"\b(wears|wore) (the|it|them)\b", TRAGEN, r"\bsupports?\b", TRAGEN),
    "hold": (r"\b(hold|holds|held)\b", NEVER, r"\b(support|supported|supports)\b", TRAGEN),
    "hear, listen to": (
        r"\b(hears|heard) the \w+\.$",
        r"\bhört|hörte|gehört",
        r"\blistens? to (me|us|him)\b",
        r"\b(zu|zuh\w+)\b",
    ),
    "look for, look forward to": (
        r"\blook(s|ed)? for\b",
        r"[Ss]uch",
        r"\blook(s|ed)? forward to\b",
        r"\b(freu|[Ff]reu)\w*\b.*\bauf\b|\bauf\b.*freu",
    ),
    # objects
    "help the, visit the": (
        r"\b(helps|helped) the (man|boy|king|doctor)\b(?!')",
        r"\bdem (Mann|Jungen|König|Arzt)\b",
        r"\b(visits|visited) the (man|boy|king|doctor)\b(?!')",
        r"\bden (Mann|Jungen|König|Arzt)\b",
    ),
    "helps me, sees me": (
        r"\b(helps|helped|thanked|thanks) me\b",
        r"\bmir\b",
        r"\b(sees?|saw|greets?|greeted|visited|visits?|phoned|invited?|invites|woke) me\b",
        r"\bmich\b",
    ),
    "helps him, sees him": (
        r"\b(helps|helped|thanked|thanks) him\b",
        r"\bihm\b",
        r"\b(sees?|saw|greets?|greeted|visited|visits?|phoned|invited?|invites|woke) him\b",
        r"\bihn\b",
    ),
    "helps them, sees them": (
        r"\b(helps|helped|thanked|thanks) them\b",
        r"\bihnen\b",
        r"\b(sees?|saw|greets?|greeted|visited|visits?|phoned|invited?|invites|woke) them\b",
        r"\bsie\b",
    ),
    "whom help, whom see": (
        r"^Whom\b.*\b(help|thank|answer|helped|thanked|answered)\b\?",
        r"^Wem\b",
        r"^Whom\b.*\b(visit|greet|phone|invite|visited|greeted)\b\?",
        r"^Wen\b",
    ),
    "who, what": (r"^Who\b", r"^Wer\b", r"^What\b", r"^Was\b"),
    "which m, which f": (
        r"^Which (hat|key|dog|coat|cake)\b",
        r"^Welchen\b",
        r"^Which (cat|cup|lamp|cap|story)\b",
        r"^Welche\b",
    ),
    "a bear, of a bear": (
        r"^The bear (?!that)",
        r"^Der Bär\b",
        r"\b(saw|sees|heard|hears|followed|follows|looks for) the bear\b",
        r"\b(den|dem) Bären\b",
    ),
    "think of, dream of": (
        r"\bthinks? of the \w+\.$",
        r"\ban (den|die|das)\b",
        r"\bdreams? of the \w+\.$",
        r"\b(vom|von (der|den))\b",
    ),
    "wait for, play with": (
        r"\bwait(s|ed)? for the\b",
        r"\bauf (den|die|das)\b",
        r"\bplay(s|ed)? with the\b",
        r"\bmit (dem|der|den)\b",
    ),
    "laugh, laugh at": (
        r"(?<!has )(?<!have )laughed\.$",
        r"\blachten?\b",
        r"\blaughed at the\b",
        r"\bl?achten?\b.*\büber (den|die|das)\b|über .*lach",
    ),
    # places and directions
    "in the, into the kitchen": (
        r"\bin the kitchen\b",
        r"\bin der Küche\b",
        r"\binto the kitchen\b",
        r"\bin die Küche\b",
    ),
    "in the, into the garden": (
        r"\b[Ii]n the garden\b",
        r"\b[Ii]m Garten\b",
        r"\binto the garden\b",
        r"\bin den Garten\b",
    ),
    "in the, into the room": (r"\b[Ii]n the room\b", r"\b[Ii]m Zimmer\b", r"\binto the room\b", r"\bins Zimmer\b"),
    "lie on, put on": (
        r"\b(lies|lay|sits|sat|stands|stood) on the (bed|sofa|chair|table|shelf)\b",
        r"\bauf dem\b",
        r"\bputs? .* on the (table|chair)\b",
        r"\bauf den (Tisch|Stuhl)\b",
    ),
    "where live, where go": (
        r"^Where\b.*\b(live|sit|work|sleep|dance)\b\?",
        r"^Wo\b",
        r"^Where\b.*\bgo\?$",
        r"^Wohin\b",
    ),
    "next to, behind": (
        r"\bstands? next to the\b",
        r"\bneben (dem|der|den)\b",
        r"\bstands? behind the\b",
        r"\bhinter (dem|der|den)\b",
    ),
    "across, through": (
        r"\b(runs|ran|goes|went) across the\b",
        r"\büber (den|die|das)\b",
        r"\b(runs|ran|goes|went) through the\b",
        r"\bdurch (den|die|das)\b",
    ),
    "with, without": (
        r"\b(sings|sang|works|worked|dances|danced) with the\b",
        r"\bmit (dem|der|den)\b",
        r"\b(sings|sang|works|worked|dances|danced) without the\b",
        r"\bohne (den|die|das)\b",
    ),
    # tenses
    "has slept, has run away": (
        r"\b(has|have) slept\b",
        r"\b(hat|haben|habe)\b",
        r"\b(has|have) run away\b",
        r"\b(ist|sind|bin)\b",
    ),
    "has lived": (
        r"\b(has|have) (lived|loved|known|believed|supported|covered|fitted)\b",
        NEVER,
        r"\b(lived|lives)\b",
        r"\bwohn",
    ),
    "during, perfect": (
        r"^During the\b(?!.*\b(that|who|because|although|before|when)\b)[^,]*\b(has|have) \w+",
        NEVER,
        r"\b[Dd]uring the\b",
        r"\b[Ww]ährend\b",
    ),
    "today, present": (
        r"^Today [\w ]*\b(sleeps|laughs|works|sings|dances|helps|thanks|sees)\b",
        NEVER,
        r"^Today\b",
        r"^Heute\b",
    ),
    "is carried, has carried": (
        r"\bis (carried|seen|woken|chased|pulled) by\b",
        r"\bwird\b",
        r"\bhas (carried|seen|woken|chased|pulled)\b(?! up)",
        r"\bhat\b",
    ),
    "was seen, will be seen": (
        r"\bwas (seen|carried|chased|lifted|woken)\b",
        r"\bwurde\b",
        r"\b(will|can) be \w+(ed|en|n)\b",
        r"\bwerden\b",
    ),
    # separable and reflexive verbs
    "closes, must close": (
        r"^(\w+ )?\w+ closes (the|this)\b",
        r"\bmacht\b.* zu\b",
        r"\b(can|will|must|should) close\b",
        r"\bzumachen\b",
    ),
    "opens, that ... opens": (
        r"^The \w+ (opens|opened) ",
        r"\bmach\w+\b.* auf\b",
        r"^(?!It ).*\b(that|because|although) (the \w+|\w+) (opens|opened)\b",
        r"\baufmach\w+\b",
    ),
    "I hurry, he hurries": (
        r"\b(I hurry|I hurried)\b",
        r"\bmich\b",
        r"\b([Hh]e|[Ss]he) (hurries|hurried)\b",
        r"\bsich\b",
    ),
    "we rest, they rest": (r"\b([Ww]e) rest(ed)?\b", r"\buns\b", r"\b([Tt]hey) rest(ed)?\b", r"\bsich\b"),
    "washes, washes itself": (
        r"\bwash(es|ed) the\b",
        r"w[aäu]sch",
        r"\bwash(es|ed) (itself|himself|herself|themselves)\b",
        r"\bsich\b",
    ),
    # noun phrases
    "this, every": (rf"^This {PEOPLE}\b", r"^Diese[rs]?\b", rf"^Every {PEOPLE}\b", r"^Jede[rs]?\b"),
    "all, no": (r"^All the \w+s\b", r"^Alle\b", rf"^No {PEOPLE}\b", r"^Keine?\b"),
    "many, some": (r"^Many\b", r"^Viele\b", r"^Some\b", r"^Einige\b"),
    "two, ten": (r"^Two\b", r"^Zwei\b", r"^Ten\b", r"^Zehn\b"),
    "the old, an old man": (
        r"\b[Tt]he old (man|king|doctor|teacher|baker|farmer|guest)\b",
        r"\b([Dd]e[rnms]|[Vv]om) alten?\b",
        r"\b[Aa]n old (man|king|doctor|teacher|baker|farmer|guest)\b",
        r"\b[Ee]in(en|em)? alte[rn]\b",
    ),
    "my, our": (r"^My (brother|son|father)\b", r"^Mein\b", r"^Our (brother|son|father)\b", r"^Unser\b"),
    "his, her": (
        r"^(He|Peter|Tom|Paul|Otto) \w+ his\b",
        r"\bsein",
        r"^(She|Anna|Lena|Emma|Maria) \w+ her \w",
        r"\bihr",
    ),
    "vehicle ... its": (
        rf"^(?:The|This|A|Every) (?:\w+ )?{THINGS} (?!.*(because|although|that|when))[^,]*\bits\b",
        NEVER,
        rf"\b{ANIMALS}\b.*\bits\b",
        r"\b(sein|ihr)",
    ),
    "Anna's, the teacher's": (
        r"\bAnna's (?!\w+'s)\w+",
        r"\bAnnas\b",
        r"\bthe (teacher|king|man|baker)'s\b",
        r"\bde[sr] (Lehrers|Königs|Mannes|Bäckers)\b",
    ),
    "the children, with the children": (
        r"^The children\b",
        r"^Die Kinder\b",
        r"\b(help|helps|helped|thanked|answered|for|with) the children\b",
        r"\b(den Kindern|die Kinder)\b",
    ),
    # comparison and degree
    "older than, as old as": (r"\bolder than\b", r"\bälter als\b", r"\bas old as\b", r"\bso alt wie\b"),
    "more expensive, expensive": (
        r"\bmore expensive than\b",
        r"\bteurer als\b",
        r"\bvery expensive\b",
        r"\bsehr teuer\b",
    ),
    "too, so": (
        r"\btoo (heavy|weak|big)\b",
        r"\bzu (schwer|schwach|groß)\b",
        r"\bso (heavy|strong|light)\b",
        r"\bso (schwer|stark|leicht)\b",
    ),
    # word order
    "us the mother, the mother us": (
        rf"\b(that|because|although) the {PEOPLE} {MEETS} (us|me)\b",
        r"\b(dass|weil|obwohl) (uns|mich|mir) (der|die|das)\b",
        r"\b(that|because|although) (he|she) \w+ (us|me)\b",
        r"\b(dass|weil|obwohl) (er|sie) (uns|mich|mir)\b",
    ),
    "yesterday he, he": (
        r"^Yesterday (he|she)\b",
        r"^Gestern \w+ (er|sie)\b",
        r"^(He|She) (slept|laughed|sang|danced|worked)\b",
        r"^(Er|Sie) \w+",
    ),
    "it is the ... that": (
        r"^(The|This) (?!.*\b(that|who|whom)\b)\w+( \w+)? (I|we|he|she|they) \w+",
        NEVER,
        r"^It (is|was) the \w+ that (I|we|he|she|they)\b",
        r"^(Den|Die|Das) \w+ \w+ (ich|wir|er|sie)\b",
    ),
    "the friend Paul": (
        r"^[^,]*\bdid the \w+ (help|thank|answer|visit|greet|see) " + NAMES,
        NEVER,
        r"^The \w+ (helped|thanked|answered|visited|greeted|saw) " + NAMES,
        NAMES,
    ),
    "the picture of the goat": (
        r"\bthat the \w+ (was|is) (?:not )?(carried|seen|lifted|washed|bought|sold|repaired) by\b",
        NEVER,
        r"^The \w+ (was|is) (carried|seen|lifted|transported) by\b",
        r"^\w+ \w+ (wird|wurde)\b.* (vom|von)\b",
    ),
    "who, that": (
        r"^The (man|king|boy) who\b",
        r"^Der \w+, der\b",
        r"^The (cat|duck|cow|tram) that (is|was|has|sees|saw|hears|heard|follows|followed|washes|washed)\b",
        r"^Die \w+, die\b",
    ),
}


def draws() -> list[SentencePair]:
    """The sentences that are looked at."""
    random = Random(27)
    return [derive(Draw(random)) for _ in range(DRAWS)]


@pytest.fixture(scope="module")
def written() -> list[SentencePair]:
    return draws()


def test_there_are_at_least_sixty() -> None:
    assert len(PAIRS) >= 60
    assert sum(NEVER in rows for rows in PAIRS.values()) < 15, "most of them say what is written"


@pytest.mark.parametrize("name", PAIRS)
def test_minimal_pair(written: list[SentencePair], name: str) -> None:
    rows = PAIRS[name]
    for english, german in (rows[:2], rows[2:]):
        found = [pair for pair in written if re.search(english, pair.source)]
        assert found or german == NEVER, f"nothing is written like {english}"
        wrong = [f"{pair.source} | {pair.target}" for pair in found if not re.search(german, pair.target)]
        assert not wrong, f"{len(wrong)} of {len(found)}, such as {wrong[0]}"
