# Written by `make export` from book/51_data_and_batching.ipynb: do not edit here, edit the chapter.
"""Training data and batching: chapter 51 of the book, section 5.1 of the paper."""

import functools
import hashlib
import itertools
import re
from dataclasses import dataclass, field, replace
from random import Random

__all__ = [
    "ADJECTIVES",
    "ADJECTIVE_ENTRIES",
    "ADVERBIALS",
    "CASES",
    "CONJUNCTIONS",
    "CONTRACTIONS",
    "COPULA",
    "COREFERENCE",
    "Clause",
    "DETERMINERS",
    "DETERMINER_ENTRIES",
    "Draw",
    "ENDINGS",
    "FRAMES",
    "LONGEST",
    "MANNERS",
    "MIDDLE",
    "MODALS",
    "NAMES",
    "NAME_ENTRIES",
    "NOUNS",
    "NOUN_ENTRIES",
    "Noun",
    "ORDERS",
    "PEOPLE",
    "PREPOSITIONS",
    "PREPOSITION_ENTRIES",
    "PRONOUNS",
    "PRONOUN_ENTRIES",
    "Phrase",
    "RELATIVE",
    "RULES",
    "SENTENCES",
    "SEQUENCES",
    "SHORTEST",
    "SPLITS",
    "SentencePair",
    "TENSES",
    "TIMES",
    "TIME_ENTRIES",
    "VERBS",
    "VERB_CLASSES",
    "VERB_ENTRIES",
    "Verb",
    "Word",
    "add_adverbial",
    "adjective_form",
    "adjectives",
    "adjectives_of",
    "after_comma",
    "aligned",
    "allowed_in",
    "article",
    "because",
    "both",
    "bracket",
    "canonical_text",
    "complement",
    "coreference",
    "corpus_fingerprint",
    "degree",
    "derive",
    "determiner",
    "determiner_form",
    "detokenise",
    "embedded_split",
    "english_clause",
    "fronted",
    "german_clause",
    "german_words",
    "inverted",
    "make_clause",
    "note_verb",
    "noun_phrase",
    "nouns_of",
    "object_pronoun",
    "order_light_objects",
    "past_is_visible",
    "possessive",
    "predicate",
    "prepositional",
    "pronoun",
    "pronoun_for",
    "proper_name",
    "question",
    "read_noun",
    "read_verb",
    "refer",
    "relative",
    "rows",
    "simple",
    "simple_tense",
    "split_checksum",
    "subject_for",
    "subordinate",
    "tense_of",
    "that_clause",
    "time_adverbial",
    "verb_forms",
    "verb_group",
    "verbs_of",
    "when_clause",
    "with_relative",
    "words",
]


# book/51_data_and_batching.ipynb#grammar-pair
@dataclass(frozen=True)
class SentencePair:
    """An English sentence, its German translation, and what the grammar knows about them.

    Defined in chapter 51: `grammar-pair`.
    """

    source: str
    target: str
    phenomena: tuple[str, ...] = ()  # sorted names
    alignment: tuple[tuple[int, int], ...] = ()  # (source word, target word)
    antecedents: tuple[tuple[int, int], ...] = ()  # (pronoun, head noun of its antecedent), both in the source
    tree: str = ""  # bracketed constituency tree of the source


def words(text: str) -> list[str]:
    """Split a text into words and punctuation marks, as alignments and trees count them.

    Defined in chapter 51: `grammar-pair`.
    """
    return re.findall(r"\w+|[^\w\s]", text)


# book/51_data_and_batching.ipynb#grammar-nouns
NOUNS = """
man/men Mann m Männer person              | woman/women Frau f Frauen person
child/children Kind n Kinder person       | teacher Lehrer m Lehrer person
mother Mutter f Mütter person             | father Vater m Väter person
friend Freund m Freunde person            | sister Schwester f Schwestern person
brother Bruder m Brüder person            | queen Königin f Königinnen person
daughter Tochter f Töchter person         | aunt Tante f Tanten person
dog Hund m Hunde animal                   | cat Katze f Katzen animal
animal Tier n Tiere animal                | horse Pferd n Pferde animal
bird Vogel m Vögel animal                 | mouse/mice Maus f Mäuse animal
cow Kuh f Kühe animal                     | pig Schwein n Schweine animal
book Buch n Bücher text,prose                   | letter Brief m Briefe text,prose,closed
newspaper Zeitung f Zeitungen text        | story/stories Geschichte f Geschichten text,prose
apple Apfel m Äpfel food                  | pear Birne f Birnen food
soup Suppe f Suppen food,dish             | egg Ei n Eier food,dish
cake Kuchen m Kuchen food                 | potato/potatoes Kartoffel f Kartoffeln food,dish
water Wasser n - drink                    | milk Milch f - drink
tea Tee m - drink                         | bread Brot n - fare
cheese Käse m - fare                      | ball Ball m Bälle thing
key Schlüssel m Schlüssel thing           | picture Bild n Bilder thing
bag Tasche f Taschen thing,closed         | present Geschenk n Geschenke thing,closed
hat Hut m Hüte thing                      | flower Blume f Blumen thing
lamp Lampe f Lampen thing,device          | car Auto n Autos vehicle,device
bicycle Fahrrad n Fahrräder vehicle,device | boat Boot n Boote vehicle,device
door Tür f Türen part,device,closed       | window Fenster n Fenster part,device,closed
garden Garten m Gärten room               | house Haus n Häuser room,cover
forest Wald m Wälder room                 | city/cities Stadt f Städte room
kitchen Küche f Küchen room               | school Schule f Schulen room
table Tisch m Tische surface,cover        | bed Bett n Betten surface,cover
tree Baum m Bäume cover                   | bridge Brücke f Brücken way,surface
street Straße f Straßen way,surface       | river Fluss m Flüsse way
field Feld n Felder way                   | square Platz m Plätze way
"""
NAMES = "Anna Anna f - person | Maria Maria f - person | Paul Paul m - person | Peter Peter m - person"


# book/51_data_and_batching.ipynb#grammar-adjectives
ADJECTIVES = """
old alt person,animal,text,thing,vehicle,part,room,surface,cover,way | big groß animal,thing,vehicle,room,surface,cover
small klein person,animal,food,thing,vehicle,room,surface,cover,way  | beautiful schön animal,text,thing,way,room
young jung person,animal | tired müde person,animal      | hungry hungrig person,animal | clever klug person,animal
weak schwach person,animal | sick krank person,animal    | happy glücklich person       | friendly freundlich person
new neu text,thing,vehicle,part,surface                  | red rot food,thing,vehicle,part | heavy schwer thing
long lang text,way       | interesting interessant text  | good gut text,food,drink,fare,person
hot heiß dish,drink      | cold kalt dish,drink          | fresh frisch food,drink,fare
cheap billig thing,vehicle,fare | wide breit way | dangerous gefährlich way,animal
quiet ruhig room,way     | clean sauber part,room,way
"""
PRONOUNS = """
he him his m er ihn ihm sein          | she her her f sie sie ihr ihr | it it its m er ihn ihm sein
it it its f sie sie ihr ihr           | it it its n es es ihm sein    | we us our p wir uns uns unser
they them their p sie sie ihnen ihr
"""
DETERMINERS = """
the d weak one,many,mass | a ein mixed one | a ein mixed one | this/these dies weak one,many,mass | every jed weak one
no kein mixed one,mass   | many viel strong many | two zwei strong many         | - - strong many,mass
"""


# book/51_data_and_batching.ipynb#grammar-verbs
VERBS = """
sleep sleeps slept slept | schlafen schläft schlief geschlafen haben | intransitive person,animal
work works worked worked | arbeiten arbeitet arbeitete gearbeitet haben | intransitive person
play plays played played | spielen spielt spielte gespielt haben | intransitive person,animal
sing sings sang sung | singen singt sang gesungen haben | intransitive person
dance dances danced danced | tanzen tanzt tanzte getanzt haben | intransitive person
wake wakes woke woken up | auf+wachen wacht wachte aufgewacht sein | intransitive person,animal
get gets got got up | auf+stehen steht stand aufgestanden sein | intransitive person
arrive arrives arrived arrived | an+kommen kommt kam angekommen sein | intransitive person
go goes went gone | gehen geht ging gegangen sein | motion person
run runs ran run | laufen läuft lief gelaufen sein | motion person,animal
come comes came come | kommen kommt kam gekommen sein | motion person,animal
see sees saw seen | sehen sieht sah gesehen haben | transitive person,animal person,animal,thing,vehicle
find finds found found | finden findet fand gefunden haben | transitive person animal,thing,text
hear hears heard heard | hören hört hörte gehört haben | transitive person,animal person,animal
buy buys bought bought | kaufen kauft kaufte gekauft haben | transitive person text,food,thing,vehicle,fare
sell sells sold sold | verkaufen verkauft verkaufte verkauft haben | transitive person food,thing,vehicle,fare
read reads read read | lesen liest las gelesen haben | transitive person text
write writes wrote written | schreiben schreibt schrieb geschrieben haben | transitive person prose
eat eats ate eaten | essen isst aß gegessen haben | transitive person food,fare
eat eats ate eaten | fressen frisst fraß gefressen haben | transitive animal food,fare
drink drinks drank drunk | trinken trinkt trank getrunken haben | transitive person,animal drink
cook cooks cooked cooked | kochen kocht kochte gekocht haben | transitive person dish
love loves loved loved | lieben liebt liebte geliebt haben | transitive person person,animal
visit visits visited visited | besuchen besucht besuchte besucht haben | transitive person person
chase chases chased chased | jagen jagt jagte gejagt haben | transitive animal animal
cross crosses crossed crossed | überqueren überquert überquerte überquert haben | transitive person,animal way
carry carries carried carried | tragen trägt trug getragen haben | transitive person,animal thing
repair repairs repaired repaired | reparieren repariert reparierte repariert haben | transitive person device
look looks looked looked for | suchen sucht suchte gesucht haben | transitive person,animal person,animal,thing
"""


# book/51_data_and_batching.ipynb#grammar-more-verbs
VERBS += """open opens opened opened | auf+machen macht machte aufgemacht haben | transitive person closed
close closes closed closed | zu+machen macht machte zugemacht haben | transitive person part
call calls called called | an+rufen ruft rief angerufen haben | transitive person person
invite invites invited invited | ein+laden lädt lud eingeladen haben | transitive person person
look looks looked looked at | an+sehen sieht sah angesehen haben | transitive person,animal person,animal,thing,vehicle
help helps helped helped | helfen hilft half geholfen haben | dative person,animal person,animal
thank thanks thanked thanked | danken dankt dankte gedankt haben | dative person person
answer answers answered answered | antworten antwortet antwortete geantwortet haben | dative person person
follow follows followed followed | folgen folgt folgte gefolgt sein | dative person,animal person,animal
give gives gave given | geben gibt gab gegeben haben | ditransitive person text,food,thing
show shows showed shown | zeigen zeigt zeigte gezeigt haben | ditransitive person text,thing,vehicle
send sends sent sent | schicken schickt schickte geschickt haben | ditransitive person text,thing
bring brings brought brought | bringen bringt brachte gebracht haben | ditransitive person text,food,thing
know knows knew known | wissen weiß wusste gewusst haben | saying person
say says said said | sagen sagt sagte gesagt haben | saying person
believe believes believed believed | glauben glaubt glaubte geglaubt haben | saying person
be is was been | sein ist war gewesen sein | copula person,animal,text,food,thing,vehicle,part,room,way,drink,fare
"""
MODALS = "can kann können | will wird werden | should sollte sollten | must muss müssen"  # the first two also negated
TIMES = """
today heute RB present,past,perfect,modal | now jetzt RB present,modal  | yesterday gestern RB past
every_day jeden_Tag DT_NN present,past,modal | tomorrow morgen RB modal
"""
MANNERS = "slowly langsam | quickly schnell | quietly leise"
PREPOSITIONS = """
in in dative room place       | on auf dative surface place     | under unter dative cover place
into in accusative room direction | onto auf accusative surface direction
to zu dative room direction | to zu dative room direction
with mit dative person company | behind hinter dative cover place | without ohne accusative person company
for für accusative person benefit
"""


# book/51_data_and_batching.ipynb#grammar-inflection
CASES = ("nominative", "accusative", "dative")
ENDINGS = {  # m, f, n, plural; each nominative, accusative, dative
    "strong": {"m": ("er", "en", "em"), "f": ("e", "e", "er"), "n": ("es", "es", "em"), "p": ("e", "e", "en")},
    "mixed": {"m": ("er", "en", "en"), "f": ("e", "e", "en"), "n": ("es", "es", "en"), "p": ("en", "en", "en")},
    "weak": {"m": ("e", "en", "en"), "f": ("e", "e", "en"), "n": ("e", "e", "en"), "p": ("en", "en", "en")},
    "d": {"m": ("er", "en", "em"), "f": ("ie", "ie", "er"), "n": ("as", "as", "em"), "p": ("ie", "ie", "en")},
    "ein": {"m": ("", "en", "em"), "f": ("e", "e", "er"), "n": ("", "", "em"), "p": ("e", "e", "en")},
}


def determiner_form(stem: str, gender: str, case: str) -> str:
    """The form of a German determiner from its stem (d, dies, kein, ihr ...); gender is m, f, n or p for plural.

    Defined in chapter 51: `grammar-inflection`.
    """
    if stem == "zwei":
        return stem
    table = "d" if stem == "d" else "strong" if stem in ("dies", "jed", "viel") else "ein"
    return stem + ENDINGS[table][gender][CASES.index(case)]


def adjective_form(stem: str, declension: str, gender: str, case: str) -> str:
    """The form of a German adjective before a noun; declension is weak, mixed or strong.

    Defined in chapter 51: `grammar-inflection`.
    """
    return stem.removesuffix("e") + ENDINGS[declension][gender][CASES.index(case)]


# book/51_data_and_batching.ipynb#grammar-entries
@dataclass(frozen=True)
class Noun:
    """A noun of the lexicon; `plurals` are its English and German plural, empty for what cannot be counted.

    Defined in chapter 51: `grammar-entries`.
    """

    english: str
    german: str
    gender: str
    plurals: tuple[str, str]
    kinds: tuple[str, ...]

    def german_form(self, plural: bool, case: str) -> str:
        """The German form; a dative plural ends in -n, except after -s."""
        form = self.plurals[1] if plural else self.german
        return form + "n" if plural and case == "dative" and form[-1] not in "ns" else form


def rows(table: str, separator: str = "|") -> list[list[str]]:
    """The entries of a lexicon table, each a list of its columns.

    Defined in chapter 51: `grammar-entries`.
    """
    return [entry.split() for entry in table.replace("\n", separator).split(separator) if entry.strip()]


def read_noun(english: str, german: str, gender: str, plural: str, kinds: str) -> Noun:
    """A noun from the columns of its entry.

    Defined in chapter 51: `grammar-entries`.
    """
    singular, _, irregular = english.partition("/")
    plurals = ("", "") if plural == "-" else (irregular or singular + "s", plural)
    return Noun(singular, german, gender, plurals, tuple(kinds.split(",")))


# book/51_data_and_batching.ipynb#grammar-verb-entries
@dataclass(frozen=True)
class Verb:
    """A verb of the lexicon: `english` and `german` are its forms in the order of the table.

    Defined in chapter 51: `grammar-verb-entries`.
    """

    english: tuple[str, ...]
    german: tuple[str, ...]
    prefix: str
    frame: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]

    def german_finite(self, tense: str, plural: bool) -> str:
        """The finite German form of the third person, without a separable prefix."""
        if tense == "present":
            return {"sein": "sind"}.get(self.german[0], self.german[0]) if plural else self.german[1]
        past = self.german[2]
        return past if not plural else past + ("n" if past.endswith("e") else "en")


def read_verb(line: str) -> Verb:
    """A verb from a line of the table.

    Defined in chapter 51: `grammar-verb-entries`.
    """
    english, german, use = (part.split() for part in line.split("|"))
    prefix, _, stem = german[0].rpartition("+")
    frame, subjects, objects = (*use, "")[:3]
    return Verb(
        tuple(english), (stem, *german[1:]), prefix, frame, tuple(subjects.split(",")), tuple(objects.split(","))
    )


# book/51_data_and_batching.ipynb#grammar-indices
NOUN_ENTRIES = [read_noun(*row) for row in rows(NOUNS)]
NAME_ENTRIES = [read_noun(*row) for row in rows(NAMES)]
VERB_ENTRIES = [read_verb(line) for line in VERBS.strip().splitlines()]
ADJECTIVE_ENTRIES = {english: (english, german, tuple(kinds.split(","))) for english, german, kinds in rows(ADJECTIVES)}
DETERMINER_ENTRIES = [(*row[:3], tuple(row[3].split(","))) for row in rows(DETERMINERS)]
TIME_ENTRIES = [(*row[:3], tuple(row[3].split(","))) for row in rows(TIMES)]
PREPOSITION_ENTRIES = [(*row[:3], tuple(row[3].split(",")), row[4]) for row in rows(PREPOSITIONS)]
PRONOUN_ENTRIES = {(row[0], row[3]): row for row in rows(PRONOUNS)}


@functools.cache
def nouns_of(kinds: tuple[str, ...]) -> list[Noun]:
    """All nouns of one of these kinds.

    Defined in chapter 51: `grammar-indices`.
    """
    return [noun for noun in NOUN_ENTRIES if any(kind in kinds for kind in noun.kinds)]


@functools.cache
def adjectives_of(noun: Noun) -> list[tuple[str, str]]:
    """The adjectives, English and German, that go with a noun.

    Defined in chapter 51: `grammar-indices`.
    """
    return [(english, german) for english, german, kinds in ADJECTIVE_ENTRIES.values() if set(kinds) & set(noun.kinds)]


@functools.cache
def verbs_of(frame: str, subject: tuple[str, ...] = (), target: tuple[str, ...] = ()) -> list[Verb]:
    """The verbs of a frame that allow a subject (and an object) of one of these kinds; no kinds, no condition.

    Defined in chapter 51: `grammar-indices`.
    """
    allowed = [verb for verb in VERB_ENTRIES if verb.frame == frame]
    allowed = [verb for verb in allowed if not subject or set(subject) & set(verb.subjects)]
    return [verb for verb in allowed if not target or set(target) & set(verb.objects)]


COPULA = verbs_of("copula")[0]


# book/51_data_and_batching.ipynb#grammar-phrases
@dataclass(eq=False)
class Word:
    """An English word with its part of speech; `antecedent` is the noun that a pronoun refers to.

    Defined in chapter 51: `grammar-phrases`.
    """

    text: str
    tag: str
    antecedent: "Word | None" = None


@dataclass(eq=False)
class Phrase:
    """A phrase in both languages: English words and brackets; German words with the English ones they translate.

    Defined in chapter 51: `grammar-phrases`.
    """

    english: list[Word | str] = field(default_factory=list)
    german: list[tuple[str, tuple[Word, ...]]] = field(default_factory=list)
    head: Word | None = None  # the noun that a pronoun or possessive points to
    gender: str = ""  # m, f, n or p for plural
    pronoun: str = ""  # the English pronoun that can stand for it, or that it is
    kinds: tuple[str, ...] = ()
    is_pronoun: bool = False


def aligned(english: str, german: str, tag: str) -> Phrase:
    """A phrase of one word on each side, or of several with an underscore between them, translated one by one.

    Defined in chapter 51: `grammar-phrases`.
    """
    pairs = [(Word(e, t), g) for e, g, t in zip(english.split("_"), german.split("_"), tag.split("_"), strict=True)]
    return Phrase([word for word, _ in pairs], [(text, (word,)) for word, text in pairs])


# book/51_data_and_batching.ipynb#grammar-phrases-2
def bracket(label: str, *parts: Phrase) -> Phrase:
    """The parts one after the other on both sides, under one node of the tree.

    Defined in chapter 51: `grammar-phrases-2`.
    """
    english = [f"({label}", *(item for part in parts for item in part.english), ")"]
    return Phrase(english, [item for part in parts for item in part.german])


# book/51_data_and_batching.ipynb#grammar-orders
ORDERS = {  # type of clause: tree label; English order; German order
    "main": ("S", "subject predicate", "subject finite middle end tail"),
    "inverted": ("S", "subject predicate", "finite subject middle end tail"),
    "question": ("SQ", "auxiliary subject predicate", "finite subject middle end tail"),
    "subordinate": ("S", "subject predicate", "subject middle end finite tail"),
}
# the middle field; "light" are pronouns and names
MIDDLE = "light time dative accusative not company manner place benefit direction adjective"
FRAMES = {  # class of verb: its complements
    "intransitive": (),
    "motion": ("direction",),
    "transitive": ("accusative",),
    "dative": ("dative",),
    "ditransitive": ("dative", "accusative"),
    "copula": ("adjective",),
    "saying": (),
}
ADVERBIALS = {
    "intransitive": ("time", "place", "company"),
    "motion": ("time", "manner", "manner", "company"),
    "copula": (),
}
CONTRACTIONS = {"in dem": "im", "in das": "ins", "zu dem": "zum", "zu der": "zur"}
COREFERENCE = """
animal cross way   | tired weak sick | wide long
animal eat food    | tired sick      | cold hot
animal drink drink | tired sick      | cold hot
animal carry thing | weak tired sick | heavy big
"""


# book/51_data_and_batching.ipynb#grammar-clause
@dataclass(eq=False)
class Clause:
    """The parts of a clause, in no order yet.

    Defined in chapter 51: `grammar-clause`.
    """

    subject: Phrase
    auxiliary: list[Word]
    negation: list[Word]
    verb: list[Word]
    finite: tuple[str, tuple[Word, ...]]
    end: list[tuple[str, tuple[Word, ...]]]
    prefixed: bool  # `end` is a separable prefix
    parts: list[tuple[str, Phrase]] = field(default_factory=list)  # complements and adverbials, in English order
    tail: Phrase = field(default_factory=Phrase)

    def english(self, order: str) -> list[Word | str]:
        """The English side, with its tree."""
        return english_clause(self, order)

    def german(self, order: str) -> list[tuple[str, tuple[Word, ...]]]:
        """The German side, its parts in the order of the table."""
        return german_clause(self, order)

    def phrase(self, order: str) -> Phrase:
        """Both sides."""
        return Phrase(self.english(order), self.german(order))


# book/51_data_and_batching.ipynb#grammar-clause-sides
def english_clause(clause: Clause, order: str) -> list[Word | str]:
    """The English words of a clause and the brackets of its tree.

    Defined in chapter 51: `grammar-clause-sides`.
    """
    rest = [*clause.verb, *(item for _, part in clause.parts for item in part.english), *clause.tail.english]
    label, fields, _ = ORDERS[order]
    inverted = "auxiliary" in fields.split()
    if clause.auxiliary and clause.verb:
        rest = ["(VP", *rest, ")"]
    head = [*([] if inverted else clause.auxiliary), *clause.negation]
    predicate = rest if inverted else ["(VP", *head, *rest, ")"]
    by_name = {"subject": clause.subject.english, "auxiliary": clause.auxiliary, "predicate": predicate}
    return [f"({label}", *(item for name in fields.split() for item in by_name[name]), ")"]


def german_clause(clause: Clause, order: str) -> list[tuple[str, tuple[Word, ...]]]:
    """The German words of a clause; a separable prefix joins its verb at the end of a subordinate clause.

    Defined in chapter 51: `grammar-clause-sides`.
    """
    finite, end = [clause.finite], clause.end
    if order == "subordinate" and clause.prefixed:
        finite, end = [(clause.end[0][0] + clause.finite[0], clause.finite[1])], []
    by_name = {"subject": clause.subject.german, "finite": finite, "end": end, "tail": clause.tail.german}
    by_name["middle"] = [
        item for name in MIDDLE.split() for slot, part in clause.parts if slot == name for item in part.german
    ]
    return [item for name in ORDERS[order][2].split() for item in by_name[name]]


# book/51_data_and_batching.ipynb#grammar-noun-phrases
class Draw:
    """Random choices; `phenomena` collects the grammar that they use.

    Defined in chapter 51: `grammar-noun-phrases`.
    """

    def __init__(self, random: Random):
        self.random = random.random
        self.phenomena: set[str] = set()
        self.used: list[Noun] = []  # a sentence uses a noun once

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random() < probability

    def pick(self, options: list | tuple):
        """One of the options, all equally likely."""
        return options[int(self.random() * len(options))]

    def noun(self, options: list[Noun]) -> Noun:
        """A noun that the sentence does not have yet."""
        noun = self.pick([option for option in options if option not in self.used] or options)
        self.used.append(noun)
        return noun


# book/51_data_and_batching.ipynb#grammar-noun-phrase
def noun_phrase(
    draw: Draw,
    case: str,
    kinds: tuple[str, ...],
    owner: Phrase | None = None,
    *,
    definite: bool = False,
    allow_no: bool = False,
    names: bool = True,
    noun: Noun | None = None,
    plain: bool = False,
) -> Phrase:
    """A noun phrase in a German case; `owner` may be named by a possessive, a given noun is singular.

    Defined in chapter 51: `grammar-noun-phrase`.
    """
    draw.phenomena.add(case)
    if noun is None and names and "person" in kinds and draw.chance(0.2):
        return proper_name(draw)
    plural = noun is None and draw.chance(0.3)
    noun = noun or draw.noun(nouns_of(kinds))
    plural = plural and bool(noun.plurals[0])
    gender = "p" if plural else noun.gender
    if owner and draw.chance(0.5):
        before, declension = possessive(draw, owner, gender, case), "mixed"
    else:
        english, stem, declension = determiner(draw, noun, plural, definite, allow_no)
        before = article(draw, english, stem, gender, case)
    middle = Phrase() if plain else adjectives(draw, noun, declension, gender, case)
    head = Word(noun.plurals[0] if plural else noun.english, "NNS" if plural else "NN")
    draw.phenomena |= {"plural"} if plural else set()
    both_sides = ["(NP", *before.english, *middle.english, head, ")"], [*before.german, *middle.german]
    both_sides[1].append((noun.german_form(plural, case), (head,)))
    return Phrase(*both_sides, head, gender, pronoun_for(noun, plural), noun.kinds)


# book/51_data_and_batching.ipynb#grammar-noun-phrases-2
def pronoun(draw: Draw, english: str, gender: str, case: str, head: Word | None = None) -> Phrase:
    """A personal pronoun in a German case; `head` is the noun that it refers to.

    Defined in chapter 51: `grammar-noun-phrases-2`.
    """
    entry = PRONOUN_ENTRIES[english, gender]
    word = Word(entry[0 if case == "nominative" else 1], "PRP", head)
    draw.phenomena |= {case, "pronoun"} | ({"pronoun with antecedent"} if head else set())
    german = [(entry[4 + CASES.index(case)], (word,))]
    return Phrase(["(NP", word, ")"], german, head, gender, english, ("person",), True)


def refer(draw: Draw, phrase: Phrase, case: str) -> Phrase:
    """The pronoun that stands for a phrase.

    Defined in chapter 51: `grammar-noun-phrases-2`.
    """
    result = pronoun(draw, phrase.pronoun, phrase.gender, case, phrase.head)
    return replace(result, kinds=phrase.kinds)


def determiner(draw: Draw, noun: Noun, plural: bool, definite: bool, allow_no: bool) -> tuple[str, str, str]:
    """English form, German stem and declension of a determiner that suits the noun.

    Defined in chapter 51: `grammar-noun-phrases-2`.
    """
    if definite or draw.chance(0.4):
        return "the", "d", "weak"
    number = "mass" if not noun.plurals[0] else "many" if plural else "one"
    options = [row for row in DETERMINER_ENTRIES if number in row[3] and (allow_no or row[0] != "no")]
    english, german, declension, _ = draw.pick(options)
    return english.split("/")[-1 if plural else 0], german, declension


# book/51_data_and_batching.ipynb#grammar-noun-phrase-parts
def proper_name(draw: Draw) -> Phrase:
    """A name, which is the same in every case.

    Defined in chapter 51: `grammar-noun-phrase-parts`.
    """
    noun = draw.noun(NAME_ENTRIES)
    head = Word(noun.english, "NNP")
    draw.phenomena.add("name")
    return Phrase(["(NP", head, ")"], [(noun.german, (head,))], head, noun.gender, pronoun_for(noun, False), noun.kinds)


def pronoun_for(noun: Noun, plural: bool) -> str:
    """The English pronoun that stands for a noun; none for a child, who may be he or she.

    Defined in chapter 51: `grammar-noun-phrase-parts`.
    """
    if plural:
        return "they"
    return {"m": "he", "f": "she", "n": ""}[noun.gender] if "person" in noun.kinds else "it"


def article(draw: Draw, english: str, stem: str, gender: str, case: str) -> Phrase:
    """A determiner on both sides; '-' is none.

    Defined in chapter 51: `grammar-noun-phrase-parts`.
    """
    if english == "-":
        return Phrase()
    draw.phenomena |= {"negation with kein"} if english == "no" else set()
    tag = {"many": "JJ", "two": "CD"}.get(english, "DT")
    return aligned(english, determiner_form(stem, gender, case), tag)


# book/51_data_and_batching.ipynb#grammar-noun-phrase-parts-2
def possessive(draw: Draw, owner: Phrase, gender: str, case: str) -> Phrase:
    """His, her, its, our, their: the German stem depends on the owner, the ending on what is owned.

    Defined in chapter 51: `grammar-noun-phrase-parts-2`.
    """
    entry = PRONOUN_ENTRIES[owner.pronoun, owner.gender]
    word = Word(entry[2], "PRP$", owner.head)
    draw.phenomena.add("possessive")
    return Phrase([word], [(determiner_form(entry[7], gender, case), (word,))])


def adjectives(draw: Draw, noun: Noun, declension: str, gender: str, case: str) -> Phrase:
    """No adjective or one.

    Defined in chapter 51: `grammar-noun-phrase-parts-2`.
    """
    options = adjectives_of(noun)
    if not options or not draw.chance(0.35):
        return Phrase()
    english, stem = draw.pick(options)
    draw.phenomena.add(f"{declension} adjective")
    return aligned(english, adjective_form(stem, declension, gender, case), "JJ")


# book/51_data_and_batching.ipynb#grammar-verb-forms
def verb_forms(
    draw: Draw, verb: Verb, tense: str, plural: bool, negated: bool, question: bool
) -> tuple[list[Word], list[Word], str, str]:
    """English auxiliary and main verb; the German finite form and what stands at the end of the clause.

    Defined in chapter 51: `grammar-verb-forms`.
    """
    if tense in ("present", "past"):
        auxiliary, main = simple_tense(verb, tense, plural, negated or question)
        return auxiliary, main, verb.german_finite(tense, plural), verb.prefix
    if tense == "perfect":
        has = Word("have" if plural else "has", "VBP" if plural else "VBZ")
        finite = {"haben": ("hat", "haben"), "sein": ("ist", "sind")}[verb.german[4]][plural]
        return [has], [Word(verb.english[3], "VBN")], finite, verb.german[3]
    english, *german = draw.pick(rows(MODALS)[: 2 if negated else 4])
    modal = Word("cannot" if negated and english == "can" else english, "MD")
    return [modal], [Word(verb.english[0], "VB")], german[plural], verb.prefix + verb.german[0]


# book/51_data_and_batching.ipynb#grammar-verb-groups
def verb_group(draw: Draw, verb: Verb, subject: Phrase, tense: str, negated: bool, question: bool) -> Clause:
    """A clause of a subject and the forms of a verb, without complements.

    Defined in chapter 51: `grammar-verb-groups`.
    """
    plural, simple = subject.gender == "p", tense in ("present", "past")
    auxiliary, main, finite, end = verb_forms(draw, verb, tense, plural, negated, question)
    main = [*main, *(Word(word, "RP" if word == "up" else "IN") for word in verb.english[4:])]
    negation = [Word("not", "RB")] if negated and auxiliary[0].text != "cannot" else []
    links = (*auxiliary, *main) if simple else tuple(auxiliary)
    at_end = [(end, tuple(main))] if end else []
    clause = Clause(subject, auxiliary, negation, main, (finite, links), at_end, simple and bool(verb.prefix))
    if negated:
        clause.parts.append(("not", Phrase([], [("nicht", tuple(negation or auxiliary))])))
    note_verb(draw, verb, tense, negated)
    return clause


# book/51_data_and_batching.ipynb#grammar-tenses
def simple_tense(verb: Verb, tense: str, plural: bool, support: bool) -> tuple[list[Word], list[Word]]:
    """English auxiliary and main verb of the present or past; negation and questions need a form of do.

    Defined in chapter 51: `grammar-tenses`.
    """
    base, third, past = verb.english[:3]
    tag = "VBD" if tense == "past" else "VBP" if plural else "VBZ"
    if base == "be":
        form = {"present": ("is", "are"), "past": ("was", "were")}[tense][plural]
        return [Word(form, tag)], []
    if support:
        form = "did" if tense == "past" else "do" if plural else "does"
        return [Word(form, tag)], [Word(base, "VB")]
    return [], [Word(past if tense == "past" else base if plural else third, tag)]


def note_verb(draw: Draw, verb: Verb, tense: str, negated: bool) -> None:
    """Note the phenomena of a verb group.

    Defined in chapter 51: `grammar-tenses`.
    """
    names = {"past": "past", "perfect": f"perfect with {verb.german[4]}", "modal": "modal"}
    draw.phenomena |= {names[tense]} if tense in names else set()
    draw.phenomena |= {"separable verb"} if verb.prefix else set()
    draw.phenomena |= {"negation with nicht"} if negated else set()


# book/51_data_and_batching.ipynb#grammar-clauses
PEOPLE = (("he", "m"), ("she", "f"), ("they", "p"), ("we", "p"))
VERB_CLASSES = (
    ("intransitive",) * 4
    + ("motion",) * 3
    + ("transitive",) * 7
    + ("dative",) * 3
    + ("ditransitive",) * 2
    + ("copula",) * 3
)
TENSES = ("present",) * 4 + ("past",) * 3 + ("perfect",) * 2 + ("modal",) * 2


def past_is_visible(verb: Verb) -> bool:
    """False for 'they read', which would have two translations: such a verb is not used in the past.

    Defined in chapter 51: `grammar-clauses`.
    """
    return verb.english[0] != verb.english[2]


def allowed_in(verb: Verb, tense: str, after: str) -> bool:
    """Whether a verb is used in a tense; 'be' has only the present and the past here.

    Defined in chapter 51: `grammar-clauses`.
    """
    if verb.frame == "copula" and tense in ("perfect", "modal"):
        return False
    return past_is_visible(verb) or "past" not in (tense, after)


# book/51_data_and_batching.ipynb#grammar-clauses-2
def tense_of(draw: Draw, verb: Verb, after: str = "") -> str:
    """A tense that suits the verb and the tense of the clause it depends on.

    Defined in chapter 51: `grammar-clauses-2`.
    """
    if after == "past" and not past_is_visible(verb):
        return "perfect"
    while True:
        tense = draw.pick(TENSES)
        if after and (tense == "past") != (after == "past"):
            continue
        if verb.frame in ("copula", "saying") and tense in ("perfect", "modal"):
            continue
        if tense != "past" or past_is_visible(verb):
            return tense


def subject_for(draw: Draw, verb: Verb, definite: bool, allow_no: bool) -> Phrase:
    """A subject that suits the verb.

    Defined in chapter 51: `grammar-clauses-2`.
    """
    if "person" in verb.subjects and draw.chance(0.15):
        return pronoun(draw, *draw.pick(PEOPLE), "nominative")
    copula = verb.frame == "copula"
    kinds = (draw.pick(verb.subjects),) if copula else verb.subjects
    return noun_phrase(draw, "nominative", kinds, definite=definite or copula, allow_no=allow_no, plain=copula)


# book/51_data_and_batching.ipynb#grammar-clause-rule
def make_clause(
    draw: Draw,
    *,
    subject: Phrase | None = None,
    verb: Verb | None = None,
    tense: str = "",
    negated: bool | None = None,
    question: bool = False,
    gap: str = "",
    adverbial: float = 0.4,
    after: str = "",
) -> Clause:
    """A clause; `gap` is the case of an object left out, `after` the tense of the clause it depends on.

    Defined in chapter 51: `grammar-clause-rule`.
    """
    while verb is None:
        options = verbs_of(draw.pick(VERB_CLASSES), subject.kinds if subject else ())
        verb = draw.pick(options) if options else None
        if verb and not allowed_in(verb, tense, after):
            verb = None
    tense = tense or tense_of(draw, verb, after)
    tense = "perfect" if tense == "past" and not past_is_visible(verb) else tense
    negated = not question and not gap and tense != "perfect" and draw.chance(0.15) if negated is None else negated
    subject = subject or subject_for(draw, verb, negated, not question and not gap)
    result = verb_group(draw, verb, subject, tense, negated, question)
    owner = subject if subject.pronoun and (subject.is_pronoun or subject.head) else None
    allow_no = not (negated or question or gap or "negation with kein" in draw.phenomena)
    for slot in FRAMES[verb.frame]:
        if slot != gap:
            result.parts.append((slot, complement(draw, slot, verb, subject, owner, negated, allow_no)))
    order_light_objects(result)
    if not gap and draw.chance(adverbial):
        add_adverbial(draw, result, verb, tense, negated)
    return result


# book/51_data_and_batching.ipynb#grammar-complements
def complement(
    draw: Draw, name: str, verb: Verb, subject: Phrase, owner: Phrase | None, negated: bool, allow_no: bool
) -> Phrase:
    """A complement of a verb: an object, a direction or a predicate adjective.

    Defined in chapter 51: `grammar-complements`.
    """
    if name == "direction":
        return prepositional(draw, "direction", negated)
    if name == "adjective":
        return predicate(draw, subject)
    kinds = ("person",) if verb.frame == "ditransitive" and name == "dative" else verb.objects
    if "person" in kinds and draw.chance(0.2):
        return pronoun(draw, *draw.pick([person for person in PEOPLE if person[0] != subject.pronoun]), name)
    return noun_phrase(draw, name, kinds, owner if draw.chance(0.5) else None, definite=negated, allow_no=allow_no)


def order_light_objects(clause: Clause) -> None:
    """Pronouns and names stand at the front of the middle field.

    Defined in chapter 51: `grammar-complements`.
    """
    for index, (name, part) in enumerate(clause.parts):
        if name in CASES and (part.is_pronoun or (part.head and part.head.tag == "NNP")):
            clause.parts[index] = ("light", part)


def predicate(draw: Draw, subject: Phrase) -> Phrase:
    """A predicate adjective, perhaps with an adverb of degree.

    Defined in chapter 51: `grammar-complements`.
    """
    options = [(e, g) for e, g, kinds in ADJECTIVE_ENTRIES.values() if set(kinds) & set(subject.kinds or ("person",))]
    return degree(draw, *draw.pick(options))


# book/51_data_and_batching.ipynb#grammar-complements-2
def degree(draw: Draw, english: str, german: str, degrees: tuple[str, ...] = ("", "", "very sehr", "too zu")) -> Phrase:
    """An adjective phrase.

    Defined in chapter 51: `grammar-complements-2`.
    """
    adverb = draw.pick(degrees)
    before = [aligned(*adverb.split(), "RB")] if adverb else []
    draw.phenomena.add("predicate adjective")
    return bracket("ADJP", *before, aligned(english, german, "JJ"))


# book/51_data_and_batching.ipynb#grammar-adverbials
def prepositional(draw: Draw, role: str, definite: bool = False) -> Phrase:
    """A prepositional phrase; two-way prepositions take the dative for a place, the accusative for a direction.

    Defined in chapter 51: `grammar-adverbials`.
    """
    english, german, case, kinds, _ = draw.pick([row for row in PREPOSITION_ENTRIES if row[4] == role])
    two_way = german in ("in", "auf", "unter", "hinter")
    draw.phenomena |= {f"two-way preposition, {role}"} if two_way else set()
    return bracket(
        "PP", aligned(english, german, "IN"), noun_phrase(draw, case, kinds, definite=definite or draw.chance(0.6))
    )


def time_adverbial(draw: Draw, tense: str, negated: bool = False) -> Phrase:
    """An adverbial of time that suits the tense; 'not every day' would be ambiguous.

    Defined in chapter 51: `grammar-adverbials`.
    """
    english, german, tag, _ = draw.pick(
        [row for row in TIME_ENTRIES if tense in row[3] and not (negated and "_" in row[0])]
    )
    return bracket("NP" if "_" in tag else "ADVP", aligned(english, german, tag))


# book/51_data_and_batching.ipynb#grammar-adverbials-2
def add_adverbial(draw: Draw, clause: Clause, verb: Verb, tense: str, negated: bool) -> None:
    """Add one adverbial at the end of the clause.

    Defined in chapter 51: `grammar-adverbials-2`.
    """
    roles = ADVERBIALS.get(verb.frame, ("time",))
    roles = ("time", "benefit") if verb.german[0] in ("kaufen", "kochen", "schreiben") else roles
    if not roles:
        return
    role = draw.pick(roles)
    if role == "time":
        part = time_adverbial(draw, tense, negated)
    elif role == "manner":
        part = bracket("ADVP", aligned(*draw.pick(rows(MANNERS)), "RB"))
    else:
        part = prepositional(draw, role, negated)
    clause.parts.append((role, part))


# book/51_data_and_batching.ipynb#grammar-coreference
def coreference(draw: Draw) -> Phrase:
    """A reason whose adjective decides which of two nouns its pronoun means.

    Defined in chapter 51: `grammar-coreference`.
    """
    use, *adjectives = (part.split() for part in draw.pick(COREFERENCE.strip().splitlines()).split("|"))
    subject_kinds, verb_name, object_kinds = (use[0].split(","), use[1], use[2])
    noun = draw.noun(nouns_of(tuple(subject_kinds)))
    others = [other for other in nouns_of((object_kinds,)) if other.gender != noun.gender]
    verb = next(verb for verb in verbs_of("transitive", noun.kinds) if verb.english[0] == verb_name)
    tense = draw.pick(("present", "past", "past"))
    subject = noun_phrase(draw, "nominative", (), noun=noun, definite=True, plain=True)
    modal = tense == "present" and draw.chance(0.4)
    main = verb_group(draw, verb, subject, "modal" if modal else tense, True, False)
    target = noun_phrase(draw, "accusative", (), noun=draw.noun(others), definite=True, plain=True)
    main.parts.append(("accusative", target))
    side = int(draw.chance(0.5))
    meant = (subject, target)[side]
    english, german, _ = ADJECTIVE_ENTRIES[draw.pick(adjectives[side])]
    reason = verb_group(draw, COPULA, refer(draw, meant, "nominative"), tense, False, False)
    reason.parts.append(("adjective", degree(draw, english, german, ("too zu", "too zu", "very sehr"))))
    main.tail = after_comma(subordinate(draw, "because", reason))
    draw.phenomena.add("pronoun decided by an adjective")
    return main.phrase("main")


# book/51_data_and_batching.ipynb#grammar-relative
RELATIVE = {"m": "der den dem", "f": "die die der", "n": "das das dem", "p": "die die denen"}


def with_relative(draw: Draw, phrase: Phrase, kind: str, tense: str = "") -> Phrase:
    """A noun phrase with a relative clause whose pronoun is the subject or the object of its clause.

    Defined in chapter 51: `grammar-relative`.
    """
    person = "person" in phrase.kinds
    if kind == "subject":
        case, english = "nominative", Word("who" if person else "that", "WP" if person else "WDT")
    else:
        dative = draw.chance(0.5) and phrase.kinds[0] in ("person", "animal")
        verb = draw.pick(verbs_of("dative" if dative else "transitive", (), phrase.kinds))
        case = "dative" if dative else "accusative"
        english = Word("whom" if person else "that", "WP" if person else "WDT")
    german = (RELATIVE[phrase.gender].split()[CASES.index(case)], (english,))
    if kind == "subject":
        gap = replace(phrase, english=[], german=[german])
        inner = make_clause(draw, subject=gap, after=tense).phrase("subordinate")
    else:
        inner = make_clause(draw, verb=verb, gap=case, after=tense).phrase("subordinate")
        inner.german.insert(0, german)
    draw.phenomena |= {"relative clause", f"relative clause, {case}", "verb-final clause"}
    tree = ["(NP", *phrase.english, "(SBAR", "(WHNP", english, ")", *inner.english, ")", ")"]
    return replace(phrase, english=tree, german=[*phrase.german, (",", ()), *inner.german, (",", ())])


# book/51_data_and_batching.ipynb#grammar-subordinate
CONJUNCTIONS = {"because": "weil", "that": "dass", "when": "wenn", "when past": "als"}


def subordinate(draw: Draw, conjunction: str, clause: Clause, tense: str = "") -> Phrase:
    """A subordinate clause without its commas; 'when' is 'als' in the past and 'wenn' otherwise.

    Defined in chapter 51: `grammar-subordinate`.
    """
    german = CONJUNCTIONS.get(f"{conjunction} {tense}", CONJUNCTIONS[conjunction])
    word = aligned(conjunction, german, "WRB" if conjunction == "when" else "IN")
    draw.phenomena |= {"verb-final clause", f"{conjunction} clause"}
    return bracket("SBAR", bracket("WHADVP", word) if conjunction == "when" else word, clause.phrase("subordinate"))


def after_comma(phrase: Phrase) -> Phrase:
    """The phrase with a German comma before it.

    Defined in chapter 51: `grammar-subordinate`.
    """
    return replace(phrase, german=[(",", ()), *phrase.german])


def because(draw: Draw) -> Phrase:
    """A clause and its reason, whose subject may be a pronoun for the subject of the first.

    Defined in chapter 51: `grammar-subordinate`.
    """
    tense = draw.pick(TENSES)
    main = make_clause(
        draw, tense=tense, adverbial=0.2, verb=draw.pick(verbs_of(draw.pick(("intransitive", "transitive", "dative"))))
    )
    subject, clear = main.subject, main.subject.pronoun != "it" or not main.parts
    pronoun_wanted = bool(subject.pronoun) and clear and "negation with kein" not in draw.phenomena and draw.chance(0.7)
    second = make_clause(
        draw, subject=refer(draw, subject, "nominative") if pronoun_wanted else None, after=tense, adverbial=0.2
    )
    main.tail = after_comma(subordinate(draw, "because", second))
    return main.phrase("main")


# book/51_data_and_batching.ipynb#grammar-sentence-rules
def simple(draw: Draw) -> Phrase:
    """A statement.

    Defined in chapter 51: `grammar-sentence-rules`.
    """
    return make_clause(draw).phrase("main")


def question(draw: Draw) -> Phrase:
    """A yes/no question.

    Defined in chapter 51: `grammar-sentence-rules`.
    """
    draw.phenomena.add("question")
    return make_clause(draw, question=True).phrase("question")


def fronted(draw: Draw) -> Phrase:
    """A statement that begins with an adverbial: German then puts the subject after the finite verb.

    Defined in chapter 51: `grammar-sentence-rules`.
    """
    place = draw.chance(0.3)
    verb = draw.pick(verbs_of("intransitive" if place else draw.pick(VERB_CLASSES[:-3])))
    tense = tense_of(draw, verb)
    front = prepositional(draw, "place", True) if place else time_adverbial(draw, tense)
    return inverted(
        draw, front, make_clause(draw, verb=verb, tense=tense, negated=None if place else False, adverbial=0.0)
    )


# book/51_data_and_batching.ipynb#grammar-sentence-rules-2
def inverted(draw: Draw, front: Phrase, clause: Clause, comma: bool = False) -> Phrase:
    """A main clause with something before it.

    Defined in chapter 51: `grammar-sentence-rules-2`.
    """
    draw.phenomena.add("inversion")
    marks = aligned(",", ",", ",") if comma else Phrase()
    label, *rest = clause.english("inverted")
    return Phrase(
        [label, *front.english, *marks.english, *rest], [*front.german, *marks.german, *clause.german("inverted")]
    )


# book/51_data_and_batching.ipynb#grammar-more-sentence-rules
def that_clause(draw: Draw) -> Phrase:
    """Somebody knows, says or believes that something is so.

    Defined in chapter 51: `grammar-more-sentence-rules`.
    """
    main = make_clause(draw, verb=draw.pick(verbs_of("saying")), adverbial=0.0)
    tense = "past" if "VBD" in [word.tag for word in (*main.auxiliary, *main.verb)] else "present"
    main.tail = after_comma(subordinate(draw, "that", make_clause(draw, after=tense)))
    return main.phrase("main")


def when_clause(draw: Draw) -> Phrase:
    """Two clauses joined by 'when', which comes first or last.

    Defined in chapter 51: `grammar-more-sentence-rules`.
    """
    tense = draw.pick(("present", "past"))
    main, condition = make_clause(draw, tense=tense, adverbial=0.0), make_clause(draw, tense=tense)
    when = subordinate(draw, "when", condition, tense)
    if draw.chance(0.5):
        return inverted(draw, when, main, comma=True)
    main.tail = after_comma(when)
    return main.phrase("main")


# book/51_data_and_batching.ipynb#grammar-more-sentence-rules-2
def both(draw: Draw) -> Phrase:
    """Two clauses, or two subjects, joined by 'and'.

    Defined in chapter 51: `grammar-more-sentence-rules-2`.
    """
    draw.phenomena.add("coordination")
    conjunction = aligned("and", "und", "CC")
    if draw.chance(0.5):
        tense = draw.pick(TENSES)
        first, second = (make_clause(draw, tense=tense, adverbial=0.2).phrase("main") for _ in range(2))
        return bracket("S", first, conjunction, second)
    kinds = draw.pick((("person",), ("person",), ("animal",)))
    one, other = (noun_phrase(draw, "nominative", kinds) for _ in range(2))
    subject = replace(bracket("NP", one, conjunction, other), gender="p", kinds=kinds)
    return make_clause(draw, subject=subject).phrase("main")


# book/51_data_and_batching.ipynb#grammar-object-rules
SEQUENCES = """
buy read text | find read text | write read prose | buy eat food | cook eat dish | buy cook dish
find open closed | open close part
buy sell vehicle | repair sell vehicle | find carry thing | buy carry thing | find sell thing
"""


def object_pronoun(draw: Draw) -> Phrase:
    """Somebody does one thing to an object, and another thing to it.

    Defined in chapter 51: `grammar-object-rules`.
    """
    *names, kinds = draw.pick(rows(SEQUENCES))
    first, second = (
        next(verb for verb in verbs_of("transitive", ("person",)) if verb.english[0] == name) for name in names
    )
    tense = "present" if "read" in names else draw.pick(("present", "past"))
    subject = subject_for(draw, first, False, False)
    target = noun_phrase(draw, "accusative", tuple(kinds.split(",")))
    main = verb_group(draw, first, subject, tense, False, False)
    main.parts.append(("accusative", target))
    silent = replace(subject, english=[], german=[])
    rest = verb_group(draw, second, silent, tense, False, False)
    rest.parts.append(("light", refer(draw, target, "accusative")))
    conjunction = aligned("and", "und", "CC")
    main.tail = Phrase([*conjunction.english, *rest.english("main")], [*conjunction.german, *rest.german("main")])
    draw.phenomena.add("coordination")
    return main.phrase("main")


# book/51_data_and_batching.ipynb#grammar-object-rules-2
def relative(draw: Draw) -> Phrase:
    """A clause whose subject or object has a relative clause.

    Defined in chapter 51: `grammar-object-rules-2`.
    """
    kind = draw.pick(("subject", "object"))
    if draw.chance(0.5):
        subject = noun_phrase(draw, "nominative", draw.pick((("person",), ("animal",))), names=False)
        return make_clause(draw, subject=with_relative(draw, subject, kind)).phrase("main")
    verb = draw.pick(verbs_of("transitive"))
    main = verb_group(draw, verb, subject_for(draw, verb, False, False), tense_of(draw, verb), False, False)
    target = noun_phrase(draw, "accusative", verb.objects, names=False)
    long, size = with_relative(draw, target, kind), len(target.german)
    main.parts.append(("accusative", replace(long, german=long.german[:size])))
    main.tail = Phrase([], long.german[size:])  # after the end of the German clause
    return main.phrase("main")


# book/51_data_and_batching.ipynb#grammar-finish
SENTENCES = (  # rule, share of the sentences
    (simple, 4),
    (fronted, 4),
    (question, 3),
    (because, 3),
    (coreference, 4),
    (that_clause, 3),
    (when_clause, 3),
    (both, 3),
    (object_pronoun, 4),
    (relative, 5),
)
RULES = [rule for rule, share in SENTENCES for _ in range(share)]


def german_words(german: list[tuple[str, tuple[Word, ...]]]) -> list[tuple[str, tuple[Word, ...]]]:
    """The words of a German sentence with contractions, without needless commas.

    Defined in chapter 51: `grammar-finish`.
    """
    result: list[tuple[str, tuple[Word, ...]]] = []
    for text, links in german:
        previous = result[-1] if result else ("", ())
        if previous[0] == "," and text in ",.?":
            result.pop()
        if f"{previous[0]} {text}" in CONTRACTIONS:
            text, links = CONTRACTIONS[f"{previous[0]} {text}"], result.pop()[1] + links
        result.append((text, links))
    return result


# book/51_data_and_batching.ipynb#grammar-finish-2
def detokenise(tokens: list[str]) -> str:
    """Words and punctuation marks as a text that begins with a capital letter.

    Defined in chapter 51: `grammar-finish-2`.
    """
    text = re.sub(r" ([,.?])", r"\1", " ".join(tokens))
    return text[0].upper() + text[1:]


# book/51_data_and_batching.ipynb#grammar-pair-rule
def derive(draw: Draw) -> SentencePair:
    """One sentence pair; equal draws give equal pairs.

    Defined in chapter 51: `grammar-pair-rule`.
    """
    rule = draw.pick(RULES)
    phrase = rule(draw)
    stop = aligned(*"??", ".") if rule is question else aligned(*"..", ".")
    english = [*phrase.english[:-1], *stop.english, ")"]
    german = german_words([*phrase.german, *stop.german])
    leaves = [item for item in english if isinstance(item, Word)]
    for word, following in itertools.pairwise(leaves):
        word.text = "an" if word.text == "a" and following.text[0] in "aeiou" else word.text
    leaves[0].text = leaves[0].text[0].upper() + leaves[0].text[1:]
    position = {id(word): index for index, word in enumerate(leaves)}
    alignment = sorted({(position[id(word)], index) for index, (_, links) in enumerate(german) for word in links})
    antecedents = [(position[id(word)], position[id(word.antecedent)]) for word in leaves if word.antecedent]
    tree = " ".join(item if isinstance(item, str) else f"({item.tag} {item.text})" for item in english)
    if any(text in CONTRACTIONS.values() for text, _ in german):
        draw.phenomena.add("contraction")
    source, target = detokenise([word.text for word in leaves]), detokenise([text for text, _ in german])
    tree = tree.replace(" )", ")")
    return SentencePair(source, target, tuple(sorted(draw.phenomena)), tuple(alignment), tuple(antecedents), tree)


# book/51_data_and_batching.ipynb#grammar-splits
SPLITS = {"train": (40_000, 51), "valid": (500, 52), "test": (1_000, 53)}  # name: size, seed
SHORTEST, LONGEST = 4, 22  # English words, without punctuation


@functools.cache
def _split(name: str) -> tuple[SentencePair, ...]:
    order = ("test", "valid", "train")
    seen = {pair.source for other in order[: order.index(name)] for pair in _split(other)}
    size, seed = SPLITS[name]
    random, pairs = Random(seed), []
    while len(pairs) < size:
        pair = derive(Draw(random))
        if pair.source not in seen and SHORTEST <= len(re.findall(r"\w+", pair.source)) <= LONGEST:
            seen.add(pair.source)
            pairs.append(pair)
    return tuple(pairs)


def embedded_split(name: str) -> list[SentencePair]:
    """The sentence pairs of a split of the embedded corpus, always the same; raises ValueError for an unknown name.

    Defined in chapter 51: `grammar-splits`.
    """
    if name not in SPLITS:
        raise ValueError(f"unknown split {name!r}; the embedded corpus has {', '.join(SPLITS)}")
    return list(_split(name))


# book/51_data_and_batching.ipynb#grammar-fingerprint
def canonical_text(pairs: list[SentencePair]) -> str:
    """The pairs as text, one a line, fields separated by tabs: what the checksums are computed over.

    Defined in chapter 51: `grammar-fingerprint`.
    """
    return "".join(
        "\t".join(
            (pair.source, pair.target, "; ".join(pair.phenomena), str(pair.alignment), str(pair.antecedents), pair.tree)
        )
        + "\n"
        for pair in pairs
    )


def split_checksum(name: str) -> str:
    """SHA-256 of a split.

    Defined in chapter 51: `grammar-fingerprint`.
    """
    return hashlib.sha256(canonical_text(embedded_split(name)).encode()).hexdigest()


def corpus_fingerprint() -> str:
    """The version of the corpus that a trained model belongs to: SHA-256 over the splits valid and test.

    Defined in chapter 51: `grammar-fingerprint`.
    """
    return hashlib.sha256((split_checksum("valid") + split_checksum("test")).encode()).hexdigest()
