# Written by `make export` from book/50_corpus.ipynb: do not edit here, edit the chapter.
"""The embedded corpus: chapter 50 of the book."""

import functools
import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

__all__ = [
    "Draw",
    "LIMIT",
    "LONGEST",
    "LONG_RULES",
    "NAME_ENTRIES",
    "NOUN_ENTRIES",
    "SPLITS",
    "SentencePair",
    "VERB_ENTRIES",
    "derive",
    "detokenise",
    "embedded_split",
    "neutral",
    "words",
]


# book/50_corpus.ipynb#grammar-pair
@dataclass(frozen=True)
class SentencePair:
    """An English sentence, its German translation, and what the grammar knows about them.

    Defined in chapter 50: `grammar-pair`.
    """

    source: str
    target: str
    phenomena: tuple[str, ...] = ()  # sorted names
    alignment: tuple[tuple[int, int], ...] = ()  # (source word, target word)
    antecedents: tuple[tuple[int, int], ...] = ()  # (pronoun, head noun of its antecedent), both in the source
    tree: str = ""  # bracketed constituency tree of the source


def words(text: str) -> list[str]:
    """Split a text into words and punctuation marks, as alignments and trees count them.

    Defined in chapter 50: `grammar-pair`.
    """
    return re.findall(r"'s\b|\w+|[^\w\s]", text)


# book/50_corpus.ipynb#grammar-people
NOUNS = """
man/men Mann m Männer person                         | woman/women Frau f Frauen person
child/children Kind n Kinder person,kin              | girl Mädchen n Mädchen person
boy Junge m* Jungen person                           | teacher Lehrer m Lehrer person
mother Mutter f Mütter person,kin                    | father Vater m Väter person,kin
friend Freund m Freunde person,kin                   | sister Schwester f Schwestern person,kin
brother Bruder m Brüder person,kin                   | daughter Tochter f Töchter person,kin
son Sohn m Söhne person,kin                          | aunt Tante f Tanten person,kin
queen Königin f Königinnen person                    | king König m Könige person
neighbour Nachbar m* Nachbarn person,kin             | student Student m* Studenten person
doctor Arzt m Ärzte person                           | baker Bäcker m Bäcker person
farmer Bauer m* Bauern person                        | guest Gast m Gäste person
dog Hund m Hunde animal                              | cat Katze f Katzen animal
bird Vogel m Vögel animal                            | bear Bär m* Bären animal
lion Löwe m* Löwen animal                            | fox/foxes Fuchs m Füchse animal
wolf/wolves Wolf m Wölfe animal                      | goat Ziege f Ziegen animal
cow Kuh f Kühe animal                                | mouse/mice Maus f Mäuse animal
duck Ente f Enten animal                             | animal Tier n Tiere animal
horse Pferd n Pferde animal                          | pig Schwein n Schweine animal
rabbit Kaninchen n Kaninchen animal                  | chicken Huhn n Hühner animal
"""
NAMES = "Anna f | Maria f | Emma f | Lena f | Paul m | Peter m | Tom m | Otto m"


# book/50_corpus.ipynb#grammar-things
NOUNS += """
apple Apfel m Äpfel food,missile                     | cake Kuchen m Kuchen food
cookie Keks m Kekse food                             | pear Birne f Birnen food
carrot Karotte f Karotten food                       | potato/potatoes Kartoffel f Kartoffeln food,dish,missile
sausage Wurst f Würste food,dish                     | egg Ei n Eier food,dish,missile
roll Brötchen n Brötchen food                        | steak Steak n Steaks food
tea Tee m - drink                                    | juice Saft m - drink
milk Milch f - drink                                 | lemonade Limonade f - drink
water Wasser n - drink                               | beer Bier n - drink
bread Brot n - fare                                  | cheese Käse m - fare
butter Butter f - fare                               | meat Fleisch n - fare
letter Brief m Briefe text,prose,flat                | novel Roman m Romane text,prose,flat
newspaper Zeitung f Zeitungen text,flat              | story/stories Geschichte f Geschichten text,prose
book Buch n Bücher text,prose,flat                   | poem Gedicht n Gedichte text,prose
ball Ball m Bälle thing,missile,flat                 | key Schlüssel m Schlüssel thing,flat
stone Stein m Steine thing,missile,flat              | hat Hut m Hüte thing,clothes,flat
bell Glocke f Glocken thing,sound                    | flower Blume f Blumen thing
candle Kerze f Kerzen thing,light,upright            | present Geschenk n Geschenke thing,closed,flat
picture Bild n Bilder thing,flat                     | pillow Kissen n Kissen thing,missile,flat
coat Mantel m Mäntel clothes                         | scarf/scarves Schal m Schals clothes,flat
jacket Jacke f Jacken clothes                        | cap Mütze f Mützen clothes,flat
shirt Hemd n Hemden clothes,flat                     | dress/dresses Kleid n Kleider clothes
suitcase Koffer m Koffer container,closed,upright    | basket Korb m Körbe container,upright
bucket Eimer m Eimer container,upright               | box/boxes Kiste f Kisten container,closed,upright
bag Tasche f Taschen container,closed                | drawer Schublade f Schubladen container,closed
barrel Fass n Fässer container,barrier               | parcel Paket n Pakete container,closed
jar Glas n Gläser container,pane,upright             | plate Teller m Teller pane,flat
mirror Spiegel m Spiegel pane                        | bottle Flasche f Flaschen pane,upright,missile
vase Vase f Vasen pane,upright                       | cup Tasse f Tassen pane,upright
knife/knives Messer n Messer tool,flat               | sword Schwert n Schwerter tool,flat
saw Säge f Sägen tool                                | axe Axt f Äxte tool
dagger Dolch m Dolche tool                           | chisel Meißel m Meißel tool
"""


# book/50_corpus.ipynb#grammar-places
NOUNS += """
truck Lastwagen m Lastwagen vehicle,device           | train Zug m Züge vehicle
tractor Traktor m Traktoren vehicle,device           | tram Straßenbahn f Straßenbahnen vehicle
carriage Kutsche f Kutschen vehicle,device           | locomotive Lokomotive f Lokomotiven vehicle,device
car Auto n Autos vehicle,device                      | bicycle Fahrrad n Fahrräder vehicle,device
motorcycle Motorrad n Motorräder vehicle,device      | lamp Lampe f Lampen light,device,upright
lantern Laterne f Laternen light                     | spotlight Scheinwerfer m Scheinwerfer light,device
chandelier Leuchter m Leuchter light                 | fire Feuer n Feuer light,weather
match/matches Streichholz n Streichhölzer light      | engine Motor m Motoren machine,sound,device
television Fernseher m Fernseher sound,device        | clock Uhr f Uhren sound,device
radio Radio n Radios sound,device                    | piano Klavier n Klaviere sound
crane Kran m Kräne machine,device                    | robot Roboter m Roboter machine,device
machine Maschine f Maschinen machine,device          | winch/winches Winde f Winden machine,device
device Gerät n Geräte machine,device                 | vehicle Fahrzeug n Fahrzeuge vehicle,machine,device
storm Sturm m Stürme weather,event                   | wind Wind m Winde weather
flood Überschwemmung f Überschwemmungen weather,event | avalanche Lawine f Lawinen weather
earthquake Erdbeben n Erdbeben weather,event         | table Tisch m Tische furniture,surface
chair Stuhl m Stühle furniture,surface               | wardrobe Schrank m Schränke furniture,closed
cradle Wiege f Wiegen furniture,surface              | dresser Kommode f Kommoden furniture,closed,surface
bed Bett n Betten furniture,surface                  | sofa Sofa n Sofas furniture,surface
shelf/shelves Regal n Regale furniture,surface       | carpet Teppich m Teppiche textile,surface
curtain Vorhang m Vorhänge textile                   | cloth Tuch n Tücher textile
sheet Laken n Laken textile                          | blanket Decke f Decken textile
flag Fahne f Fahnen textile                          | door Tür f Türen part,passage,closed
window Fenster n Fenster part,passage,pane,closed    | gate Tor n Tore part,passage,barrier,closed
entrance Eingang m Eingänge passage                  | tunnel Tunnel m Tunnel passage
alley Gasse f Gassen passage                         | hole Loch n Löcher passage
fence Zaun m Zäune barrier                           | beam Balken m Balken barrier
wall Mauer f Mauern barrier                          | hedge Hecke f Hecken barrier
street Straße f Straßen way,road                     | bridge Brücke f Brücken way,road
meadow Wiese f Wiesen way,road                       | river Fluss m Flüsse way
path Weg m Wege way,road                             | courtyard Hof m Höfe way,road
field Feld n Felder way,road                         | valley Tal n Täler way
bog Moor n Moore way,road                            | garden Garten m Gärten room
cellar Keller m Keller room                          | kitchen Küche f Küchen room
garage Garage f Garagen room                         | city/cities Stadt f Städte town
forest Wald m Wälder town                            | room Zimmer n Zimmer room
tent Zelt n Zelte room,building                      | house Haus n Häuser room,building
hotel Hotel n Hotels room,building                   | tower Turm m Türme building
station Bahnhof m Bahnhöfe building,town             | church/churches Kirche f Kirchen building,town
school Schule f Schulen building,town
"""


# book/50_corpus.ipynb#grammar-adjectives
ADJECTIVES = """
old/older alt/älter person,text,thing,clothes,device,building,town | young/younger jung/jünger person,animal
big/bigger groß/größer vehicle,furniture,room,town,thing,clothes,machine
beautiful schön person,text,thing,clothes,town
small/smaller klein/kleiner person,thing,furniture,room,pane,light,vehicle
happy/happier glücklich/glücklicher person           | tired müde person,animal
hungry/hungrier hungrig/hungriger person,animal      | thirsty/thirstier durstig/durstiger person,animal
sick/sicker krank/kränker person,animal              | nervous nervös person,animal
brave/braver mutig/mutiger person,animal             | friendly/friendlier freundlich/freundlicher person,animal
clever/cleverer klug/klüger person                   | fat/fatter dick/dicker animal
wild/wilder wild/wilder animal                       | shy/shyer scheu/scheuer animal
strong/stronger stark/stärker person,machine,weather,light
weak/weaker schwach/schwächer person,machine,weather,light | fast/faster schnell/schneller vehicle
slow/slower langsam/langsamer vehicle                | quiet/quieter leise/leiser sound
loud/louder laut/lauter sound
new/newer neu/neuer text,vehicle,device,furniture,clothes,part | red/redder rot/röter thing,clothes,vehicle
thick/thicker dick/dicker pane,clothes
heavy/heavier schwer/schwerer thing,furniture,container,vehicle | light/lighter leicht/leichter missile
long/longer lang/länger text,way,clothes             | short/shorter kurz/kürzer text,textile,way
interesting interessant text                         | difficult schwierig text
good/better gut/besser text,food,drink,fare          | fresh/fresher frisch/frischer food,drink,fare
sour/sourer sauer/saurer/saur food,drink             | sweet/sweeter süß/süßer food,drink
salty/saltier salzig/salziger food                   | hard/harder hart/härter food,furniture
soft/softer weich/weicher food,furniture             | cheap/cheaper billig/billiger thing,vehicle,clothes,device
expensive teuer/teurer/teur thing,vehicle,clothes,device | wide/wider breit/breiter way
narrow/narrower schmal/schmaler passage              | muddy/muddier schlammig/schlammiger way
high/higher hoch/höher/hoh barrier                   | tall/taller hoch/höher/hoh building
low/lower niedrig/niedriger barrier,building         | full voll/voller container
empty leer/leerer container                          | bright/brighter hell/heller light,room
dark/darker dunkel/dunkler/dunkl room                | sharp/sharper scharf/schärfer tool
blunt/blunter stumpf/stumpfer tool                   | thin/thinner dünn/dünner pane,textile
dangerous gefährlich weather,way                     | sturdy stabil building,furniture
wet/wetter nass/nasser clothes,textile
"""


# book/50_corpus.ipynb#grammar-small-words
PRONOUNS = """
he him his himself m er ihn ihm sich sein            | she her her herself f sie sie ihr sich ihr
it it its itself m er ihn ihm sich sein              | it it its itself f sie sie ihr sich ihr
it it its itself n es es ihm sich sein               | they them their themselves p sie sie ihnen sich ihr
we us our ourselves p wir uns uns uns unser          | I me my myself 1 ich mich mir mich mein
"""
DETERMINERS = """
the d weak one,many,mass | a ein mixed one    | a ein mixed one    | this/these dies weak one,many,mass
every jed weak one       | no kein mixed one,mass | many viel strong many | some einig strong many
all_the all weak many    | two zwei strong many | three drei strong many | five fünf strong many
ten zehn strong many     | - - strong many,mass
"""
MODALS = """
can kann können kann | could konnte konnten konnte | will wird werden werde
should sollte sollten sollte | must muss müssen muss
"""
TIMES = """
today heute RB present,past,perfect,modal  | yesterday gestern RB past
tomorrow morgen RB modal                   | every_day jeden_Tag DT_NN present,modal
every_evening jeden_Abend DT_NN present    | last_week letzte_Woche JJ_NN past
on_Monday am_Montag IN_NNP past,modal      | in_summer im_Sommer IN_NN present,modal
"""
MANNERS = "slowly langsam | quickly schnell | quietly leise | alone allein"
PREPOSITIONS = """
in in dative room,town place          | on auf dative surface place        | under unter dative furniture place
behind hinter dative furniture,building place | in_front_of vor dative building,barrier place
next_to neben dative furniture,building place | into in accusative room,town direction
through durch accusative passage,town direction | over über accusative road direction   | with mit dative person company
without ohne accusative person company | for für accusative person benefit     | on auf accusative surface target
during während genitive event time   | under unter accusative furniture target
behind hinter accusative furniture target | next_to neben accusative furniture target
because_of wegen genitive weather time
"""


# book/50_corpus.ipynb#grammar-verbs
VERBS = """
sleep sleeps slept slept | schlafen schläft schlief geschlafen | intransitive person,animal
work works worked worked | arbeiten arbeitet arbeitete gearbeitet | intransitive person
play plays played played | spielen spielt spielte gespielt | intransitive person,animal
sing sings sang sung | singen singt sang gesungen | intransitive person
dance dances danced danced | tanzen tanzt tanzte getanzt | intransitive person
laugh laughs laughed laughed | lachen lacht lachte gelacht | intransitive person
cry cries cried cried | weinen weint weinte geweint | intransitive person
wake wakes woke woken up | auf+wachen wacht wachte aufgewacht sein | intransitive person,animal
get gets got got up | auf+stehen steht stand aufgestanden sein | intransitive person
fall falls fell fallen asleep | ein+schlafen schläft schlief eingeschlafen sein | intransitive person,animal
run runs ran run away | weg+laufen läuft lief weggelaufen sein | intransitive person,animal
arrive arrives arrived arrived | an+kommen kommt kam angekommen sein | intransitive person,vehicle
live lives lived lived | wohnen wohnt wohnte gewohnt | position person building,room,town
sit sits sat sat | sitzen sitzt saß gesessen | position person,animal surface,room
stand stands stood stood | stehen steht stand gestanden | position upright,person surface,room,building
lie lies lay lain | liegen liegt lag gelegen | position flat,animal surface,room
go goes went gone | gehen geht ging gegangen sein | motion person building,room,town,road,passage
run runs ran run | laufen läuft lief gelaufen sein | motion person,animal building,room,town,road,passage
come comes came come | kommen kommt kam gekommen sein | motion person,animal building,room,town
travel travels travelled travelled | fahren fährt fuhr gefahren sein | motion person,vehicle building,town,road
see sees saw seen | sehen sieht sah gesehen | transitive person,animal person,animal,thing,vehicle,building
find finds found found | finden findet fand gefunden | transitive person animal,thing,text,clothes,tool
lose loses lost lost | verlieren verliert verlor verloren | transitive person thing,clothes,tool
hear hears heard heard | hören hört hörte gehört | transitive person,animal person,animal,sound
buy buys bought bought | kaufen kauft kaufte gekauft | transitive person text,food,thing,vehicle,fare,clothes,
furniture
sell sells sold sold | verkaufen verkauft verkaufte verkauft | transitive person food,thing,vehicle,fare,clothes,
furniture
read reads read read | lesen liest las gelesen | transitive person text
write writes wrote written | schreiben schreibt schrieb geschrieben | transitive person prose
eat eats ate eaten | essen isst aß gegessen | transitive person food,fare
eat eats ate eaten | fressen frisst fraß gefressen | transitive animal food,fare
drink drinks drank drunk | trinken trinkt trank getrunken | transitive person,animal drink
cook cooks cooked cooked | kochen kocht kochte gekocht | transitive person dish
love loves loved loved | lieben liebt liebte geliebt | transitive person person,animal
visit visits visited visited | besuchen besucht besuchte besucht | transitive person person
greet greets greeted greeted | grüßen grüßt grüßte gegrüßt | transitive person person
wash washes washed washed | waschen wäscht wusch gewaschen | transitive person clothes,textile
wear wears wore worn | tragen trägt trug getragen | transitive person clothes
repair repairs repaired repaired | reparieren repariert reparierte repariert | transitive person device
build builds built built | bauen baut baute gebaut | transitive person building,furniture
forget forgets forgot forgotten | vergessen vergisst vergaß vergessen | transitive person thing,text,clothes
look looks looked looked for | suchen sucht suchte gesucht | transitive person,animal person,animal,thing
"""


# book/50_corpus.ipynb#grammar-more-verbs
VERBS += """
chase chases chased chased | jagen jagt jagte gejagt | transitive animal animal
catch catches caught caught | fangen fängt fing gefangen | transitive animal animal
attack attacks attacked attacked | an+greifen greift griff angegriffen | transitive animal animal
frighten frightens frightened frightened | erschrecken erschreckt erschreckte erschreckt | transitive animal,
sound animal
wake wakes woke woken | wecken weckt weckte geweckt | transitive sound,person animal,person
cross crosses crossed crossed | überqueren überquert überquerte überquert | transitive person,animal,vehicle way
carry carries carried carried | tragen trägt trug getragen | transitive person,animal thing
hold holds held held | halten hält hielt gehalten | transitive furniture thing
pull pulls pulled pulled | ziehen zieht zog gezogen | transitive animal,vehicle vehicle
lift lifts lifted lifted | heben hebt hob gehoben | transitive machine furniture,thing,container
overtake overtakes overtook overtaken | überholen überholt überholte überholt | transitive vehicle vehicle

transport transports transported transported | transportieren transportiert transportierte transportiert |
transitive vehicle furniture,container
cut cuts cut cut | schneiden schneidet schnitt geschnitten | transitive tool,person food
break breaks broke broken | zerbrechen zerbricht zerbrach zerbrochen | transitive missile,person pane
destroy destroys destroyed destroyed | zerstören zerstört zerstörte zerstört | transitive weather building
cover covers covered covered | bedecken bedeckt bedeckte bedeckt | transitive textile furniture
hide hides hid hidden | verdecken verdeckt verdeckte verdeckt | transitive building building
light lights lit lit | beleuchten beleuchtet beleuchtete beleuchtet | transitive light room
knock knocks knocked knocked over | um+werfen wirft warf umgeworfen | transitive animal furniture
open opens opened opened | auf+machen macht machte aufgemacht | transitive person closed
close closes closed closed | zu+machen macht machte zugemacht | transitive person part
switch switches switched switched on | ein+schalten schaltet schaltete eingeschaltet | transitive person sound
phone phones phoned phoned | an+rufen ruft rief angerufen | transitive person person
invite invites invited invited | ein+laden lädt lud eingeladen | transitive person person
help helps helped helped | helfen hilft half geholfen | dative person,animal person,animal
thank thanks thanked thanked | danken dankt dankte gedankt | dative person person
answer answers answered answered | antworten antwortet antwortete geantwortet | dative person person
listen listens listened listened to | zu+hören hört hörte zugehört | dative person person
follow follows followed followed | folgen folgt folgte gefolgt sein | dative person,animal person,animal
give gives gave given | geben gibt gab gegeben | ditransitive person text,food,thing
show shows showed shown | zeigen zeigt zeigte gezeigt | ditransitive person text,thing,vehicle
send sends sent sent | schicken schickt schickte geschickt | ditransitive person text,thing
bring brings brought brought | bringen bringt brachte gebracht | ditransitive person text,food,thing
"""


# book/50_corpus.ipynb#grammar-verbs-with-prepositions
VERBS += """
put puts put put | legen legt legte gelegt | placing person flat
put puts put put | stellen stellt stellte gestellt | placing person upright
wait waits waited waited for | warten wartet wartete gewartet auf:accusative | prepositional person person,vehicle
think thinks thought thought of | denken denkt dachte gedacht an:accusative | prepositional person person,animal
laugh laughs laughed laughed about | lachen lacht lachte gelacht über:accusative | prepositional person text
dream dreams dreamed dreamed of | träumen träumt träumte geträumt von:dative | prepositional person,animal person,
animal,food
play plays played played with | spielen spielt spielte gespielt mit:dative | prepositional person,animal animal,
missile
look looks looked looked forward to | freuen freut freute gefreut sich auf:accusative | prepositional person thing,
food
fit fits fitted fitted into | passen passt passte gepasst in:accusative | prepositional thing,clothes,animal container
fit fits fitted fitted through | passen passt passte gepasst durch:accusative | prepositional vehicle,animal,
furniture passage
jump jumps jumped jumped over | springen springt sprang gesprungen sein über:accusative | prepositional animal barrier
sleep sleeps slept slept on | schlafen schläft schlief geschlafen auf:dative | prepositional animal furniture

hide hides hid hidden behind | verstecken versteckt versteckte versteckt sich hinter:dative |
prepositional animal furniture
wash washes washed washed self | waschen wäscht wusch gewaschen sich | reflexive kin,animal
hurry hurries hurried hurried | beeilen beeilt beeilte beeilt sich | reflexive person
rest rests rested rested | aus+ruhen ruht ruhte ausgeruht sich | reflexive person,animal
get gets got got dressed | an+ziehen zieht zog angezogen sich | reflexive person
know knows knew known | wissen weiß wusste gewusst | saying person
say says said said | sagen sagt sagte gesagt | saying person
believe believes believed believed | glauben glaubt glaubte geglaubt | saying person
hear hears heard heard | hören hört hörte gehört | saying person
make makes made made | machen macht machte gemacht | resultative weather way
be is was been | sein ist war gewesen sein | copula person,animal,text,food,drink,fare,thing,clothes,vehicle,
container,furniture,building,room,town,way,sound,light,machine,pane,tool,textile,weather,passage,barrier
"""


# book/50_corpus.ipynb#grammar-inflection
CASES = ("nominative", "accusative", "dative", "genitive")
GENDERS = ("m", "f", "n", "p")  # p is the plural, which has no gender
ENDINGS = """
strong: er en em en | e e er er | es es em en | e e en er
mixed:  er en en en | e e en en | es es en en | en en en en
weak:   e en en en  | e e en en | e e en en   | en en en en
d:      er en em es | ie ie er er | as as em es | ie ie en er
dies:   er en em es | e e er er | es es em es | e e en er
ein:    - en em es  | e e er er | - - em es   | e e en er
"""
PARADIGMS = {
    (name, gender): column.replace("-", "").split(" ")
    for name, columns in (line.split(":") for line in ENDINGS.strip().splitlines())
    for gender, column in zip(GENDERS, [" ".join(part.split()) for part in columns.split("|")], strict=True)
}
LIKE_DIES = ("dies", "jed", "viel", "einig", "all", "welch")
NUMBERS = ("zwei", "drei", "fünf", "zehn")


def determiner_form(stem: str, gender: str, case: str) -> str:
    """The form of a German determiner from its stem (d, dies, kein, ihr ...); gender is m, f, n or p for plural."""
    if stem in NUMBERS:
        return stem
    table = "d" if stem == "d" else "dies" if stem in LIKE_DIES else "ein"
    return stem + PARADIGMS[table, gender][CASES.index(case)]


def adjective_form(stem: str, declension: str, gender: str, case: str) -> str:
    """The form of a German adjective before a noun; declension is weak, mixed or strong."""
    return stem.removesuffix("e") + PARADIGMS[declension, gender][CASES.index(case)]


# book/50_corpus.ipynb#grammar-entries
@dataclass(frozen=True)
class Noun:
    """A noun of the lexicon; `plurals` are its English and German plural, empty for what cannot be counted."""

    english: str
    german: str
    gender: str
    plurals: tuple[str, str]
    kinds: tuple[str, ...]
    weak: bool = False  # der Bär, den Bären

    def german_form(self, plural: bool, case: str) -> str:
        """The German form: dative plurals end in -n, genitives of masculine and neuter nouns in -s or -es."""
        if plural:
            return self.plurals[1] + ("n" if case == "dative" and self.plurals[1][-1] not in "ns" else "")
        if self.weak:
            return self.german if case == "nominative" else self.plurals[1]
        if case != "genitive" or self.gender == "f":
            return self.german
        vowels, end = re.findall("[aeiouyäöü]+", self.german.lower()), self.german[-1]
        short = len(vowels) == 1 and end not in "aeiouäöü" and self.german[-2:] not in ("er", "en")
        return self.german + ("es" if (short and self.plurals[1][-1:] != "s") or end in "sßzx" else "s")


def rows(table: str, separator: str = "|") -> list[list[str]]:
    """The entries of a table, each as a list of its columns."""
    return [entry.split() for line in table.splitlines() if line for entry in line.split(separator)]


def read_noun(english: str, german: str, gender: str, plural: str, kinds: str) -> Noun:
    """A noun from the columns of its entry."""
    singular, _, irregular = english.partition("/")
    plurals = ("", "") if plural == "-" else (irregular or singular + "s", plural)
    return Noun(singular, german, gender[0], plurals, tuple(kinds.split(",")), gender.endswith("*"))


# book/50_corpus.ipynb#grammar-adjective-entries
@dataclass(frozen=True)
class Adjective:
    """An adjective of the lexicon; `stem` is its German form before an ending."""

    english: str
    german: str
    stem: str
    more: tuple[str, str]  # the English and the German comparative
    kinds: tuple[str, ...]


def read_adjective(english: str, german: str, kinds: str) -> Adjective:
    """An adjective from the columns of its entry; comparatives that are not given are *more ...* and *...er*."""
    base, _, comparative = english.partition("/")
    form, higher, stem = (*german.split("/"), "", "")[:3]
    more = (comparative or f"more_{base}", higher or form.removesuffix("e") + "er")
    return Adjective(base, form, stem or form, more, tuple(kinds.split(",")))


# book/50_corpus.ipynb#grammar-verb-entries
@dataclass(frozen=True)
class Verb:
    """A verb of the lexicon: `english` and `german` are its forms in the order of the table, the auxiliary last."""

    english: tuple[str, ...]
    german: tuple[str, ...]
    prefix: str
    frame: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    reflexive: bool = False
    preposition: tuple[str, ...] = ()  # German, and its case

    def german_finite(self, tense: str, agreement: str) -> str:
        """The finite German form without a separable prefix; agreement is s (third person), p (plural) or 1 (I)."""
        infinitive, third, past = self.german[:3]
        if tense == "past":
            return past if agreement != "p" else past + ("n" if past.endswith("e") else "en")
        irregular = {("sein", "p"): "sind", ("sein", "1"): "bin", ("wissen", "1"): third}
        regular = {"s": third, "p": infinitive, "1": infinitive.removesuffix("n")}
        return irregular.get((infinitive, agreement), regular[agreement])


def read_verb(line: str) -> Verb:
    """A verb from a line of the table."""
    english, (infinitive, *forms), use = (part.split() for part in line.split("|"))
    prefix, _, stem = infinitive.rpartition("+")
    frame, subjects, objects = (tuple(column.split(",")) for column in (*use, "")[:3])
    marks = forms[3:]
    german = (stem, *forms[:3], "sein" if "sein" in marks else "haben")
    preposition = next((tuple(mark.split(":")) for mark in marks if ":" in mark), ())
    return Verb(tuple(english), german, prefix, *frame, subjects, objects, "sich" in marks, preposition)


# book/50_corpus.ipynb#grammar-indices
AGREEMENTS = "sp1"  # third person singular, plural, I
NOUN_ENTRIES = [read_noun(*row) for row in rows(NOUNS)]
NAME_ENTRIES = [read_noun(name, name, gender, "-", "person") for name, gender in rows(NAMES)]
VERB_ENTRIES = [read_verb(line) for line in re.sub(r"(?<=[,|])\n", "", VERBS).splitlines() if line]
ADJECTIVE_ENTRIES = {row[0].partition("/")[0]: read_adjective(*row) for row in rows(ADJECTIVES)}
DETERMINER_ENTRIES = [(*row[:3], tuple(row[3].split(","))) for row in rows(DETERMINERS)]
MODAL_ENTRIES = {row[0]: dict(zip(AGREEMENTS, row[1:], strict=True)) for row in rows(MODALS)}
TIME_ENTRIES = [(*row[:3], tuple(row[3].split(","))) for row in rows(TIMES)]
PREPOSITION_ENTRIES = [(*row[:3], tuple(row[3].split(",")), row[4]) for row in rows(PREPOSITIONS)]
PRONOUN_ENTRIES = {(row[0], row[4]): row for row in rows(PRONOUNS)}


@functools.cache
def nouns_of(kinds: tuple[str, ...], gender: str = "") -> list[Noun]:
    """All nouns of one of these kinds, and of a gender if one is given."""
    fitting = [noun for noun in NOUN_ENTRIES if any(kind in kinds for kind in noun.kinds)]
    return [noun for noun in fitting if gender in ("", noun.gender)]


@functools.cache
def adjectives_of(kinds: tuple[str, ...]) -> list[Adjective]:
    """The adjectives that go with nouns of these kinds."""
    return [adjective for adjective in ADJECTIVE_ENTRIES.values() if set(kinds) & set(adjective.kinds)]


@functools.cache
def verbs_of(frame: str, subject: tuple[str, ...] = (), target: tuple[str, ...] = ()) -> list[Verb]:
    """The verbs of a frame that allow a subject (and an object) of one of these kinds; no kinds, no condition."""
    allowed = [verb for verb in VERB_ENTRIES if verb.frame == frame]
    allowed = [verb for verb in allowed if not subject or set(subject) & set(verb.subjects)]
    return [verb for verb in allowed if not target or set(target) & set(verb.objects)]


COPULA = verbs_of("copula")[0]


# book/50_corpus.ipynb#grammar-phrases
@dataclass(eq=False)
class Word:
    """An English word with its part of speech; `antecedent` is the noun that a pronoun refers to."""

    text: str
    tag: str
    antecedent: "Word | None" = None


@dataclass(eq=False)
class Phrase:
    """A phrase in both languages: English words and brackets; German words with the English ones they translate."""

    english: list[Word | str] = field(default_factory=list)
    german: list[tuple[str, tuple[Word, ...]]] = field(default_factory=list)
    head: Word | None = None  # the noun that a pronoun or possessive points to
    gender: str = ""  # m, f, n, p for plural, or 1 for I
    pronoun: str = ""  # the English pronoun that can stand for it, or that it is
    kinds: tuple[str, ...] = ()
    is_pronoun: bool = False

    @property
    def agreement(self) -> str:
        """What a verb agrees with: s, p or 1."""
        return self.gender if self.gender in ("p", "1") else "s"


def aligned(english: str, german: str, tag: str) -> Phrase:
    """Words and their translations, one by one; an underscore separates words, and one German word may have several."""
    tags, texts, targets = tag.split("_"), english.split("_"), german.split("_")
    words = [Word(text, tags[min(index, len(tags) - 1)]) for index, text in enumerate(texts)]
    groups = [(word,) for word in words] if len(targets) == len(words) else [tuple(words)]
    return Phrase(list(words), list(zip(targets, groups, strict=True)))


# book/50_corpus.ipynb#grammar-phrases-2
def bracket(label: str, *parts: Phrase) -> Phrase:
    """The parts one after the other on both sides, under one node of the tree."""
    english = [f"({label}", *(item for part in parts for item in part.english), ")"]
    return Phrase(english, [item for part in parts for item in part.german])


def commas(phrase: Phrase) -> Phrase:
    """The phrase between German commas; those that meet other marks are dropped at the end."""
    return replace(phrase, german=[(",", ()), *phrase.german, (",", ())])


# book/50_corpus.ipynb#grammar-orders
ORDERS = {  # type of clause: tree label; English order; German order
    "main": ("S", "subject predicate", "subject finite pronoun middle end tail"),
    "inverted": ("S", "subject predicate", "finite subject pronoun middle end tail"),
    "question": ("SQ", "auxiliary subject predicate", "finite subject pronoun middle end tail"),
    "subordinate": ("S", "subject predicate", "subject pronoun middle end finite tail"),
}
MIDDLE = "name time dative accusative agent not company manner place benefit prepositional direction adjective"
FRAMES = {  # class of verb: its complements; how often it is used; its optional adverbials
    "intransitive": ((), 4, ("time", "place", "company")),
    "motion": (("direction",), 3, ("time", "manner", "company")),
    "position": (("place",), 2, ("time",)),
    "transitive": (("accusative",), 8, ("time",)),
    "dative": (("dative",), 3, ("time",)),
    "ditransitive": (("dative", "accusative"), 2, ("time",)),
    "prepositional": (("prepositional",), 3, ("time",)),
    "placing": (("accusative", "target"), 2, ("time",)),
    "reflexive": ((), 2, ("time",)),
    "resultative": (("accusative", "result"), 1, ()),
    "copula": (("adjective",), 3, ()),
    "saying": ((), 0, ()),
}
SLOTS = {"target": "direction", "result": "adjective"}  # the place in the middle field, where it has another name
CONTRACTIONS = {"in dem": "im", "in das": "ins", "zu dem": "zum", "zu der": "zur", "von dem": "vom"}


# book/50_corpus.ipynb#grammar-clause
@dataclass(eq=False)
class Clause:
    """The parts of a clause, in no order yet."""

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


# book/50_corpus.ipynb#grammar-clause-sides
def english_clause(clause: Clause, order: str) -> list[Word | str]:
    """The English words of a clause and the brackets of its tree."""
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

    After the finite verb, an object pronoun stands before a subject that is none, *gestern sah ihn der Mann*, unless it
    could be taken for the subject itself.
    """

    def part(*names: str) -> list[tuple[str, tuple[Word, ...]]]:
        return [item for name in names for slot, phrase in clause.parts if slot == name for item in phrase.german]

    finite, end = [clause.finite], clause.end
    if order == "subordinate" and clause.prefixed:
        finite, end = [(clause.end[0][0] + clause.finite[0], clause.finite[1])], []
    by_name = {"subject": clause.subject.german, "finite": finite, "end": end, "tail": clause.tail.german}
    by_name |= {"pronoun": part("pronoun"), "middle": part(*MIDDLE.split())}
    first = [text for text, _ in by_name["pronoun"]]
    if not clause.subject.is_pronoun and order in ("inverted", "question") and first not in (["sie"], ["es"]):
        by_name["subject"], by_name["pronoun"] = by_name["pronoun"], by_name["subject"]
    return [item for name in ORDERS[order][2].split() for item in by_name[name]]


# book/50_corpus.ipynb#grammar-noun-phrases
class Draw:
    """Random choices; `phenomena` collects the grammar that they use, `uses` the words that met a construction.

    Defined in chapter 50: `grammar-noun-phrases`.
    """

    def __init__(self, random: Random, richness: float = 1.0):
        self.random = random.random
        self.richness = richness  # how often optional parts are added
        self.phenomena: set[str] = set()
        self.uses: list[tuple[str, str]] = []  # (construction, German word)
        self.nouns: list[Noun] = []  # a sentence uses a noun once
        self.clauses = 0  # begun so far

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random() < probability

    def option(self, probability: float) -> bool:
        """True with this probability, which grows with `richness`."""
        return self.random() < probability * self.richness

    def pick(self, options: Sequence):
        """One of the options, all equally likely."""
        return options[int(self.random() * len(options))]

    def noun(self, options: list[Noun]) -> Noun:
        """A noun that the sentence does not have yet."""
        noun = self.pick([option for option in options if option not in self.nouns] or options)
        self.nouns.append(noun)
        return noun


# book/50_corpus.ipynb#grammar-noun-phrase
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
    avoid: str = "",
) -> Phrase:
    """A noun phrase in a German case.

    `owner` may be named by a possessive, and `names` allows names and owners in the genitive. A given noun is singular;
    `plain` is without adjective. A gender to `avoid` is that of a singular noun that could be misread.
    """
    draw.phenomena.add(case)
    if noun is None and names and case != "genitive" and "person" in kinds and draw.chance(0.2):
        return proper_name(draw)
    plural = noun is None and draw.chance(0.25)
    noun = noun or draw.noun([noun for noun in nouns_of(kinds) if plural or noun.gender != avoid])
    plural = plural and bool(noun.plurals[0])
    gender = "p" if plural else noun.gender
    before, declension, after = specifier(draw, noun, gender, case, owner, definite, allow_no, plain or not names)
    middle = Phrase() if plain else adjectives(draw, noun, declension, gender, case)
    head = Word(noun.plurals[0] if plural else noun.english, "NNS" if plural else "NN")
    note_noun(draw, noun, plural, case)
    english = ["(NP", *before.english, *middle.english, head, ")"]
    english = ["(NP", *english, *after.english, ")"] if after.english else english
    german = [*before.german, *middle.german, (noun.german_form(plural, case), (head,)), *after.german]
    return Phrase(english, german, head, gender, pronoun_for(noun, plural), noun.kinds)


# book/50_corpus.ipynb#grammar-noun-phrase-notes
GENDER_NAMES = {"m": "masculine", "f": "feminine", "n": "neuter", "p": "plural"}


def note_noun(draw: Draw, noun: Noun, plural: bool, case: str) -> None:
    """Note the phenomena of a noun: its gender or the class of its plural, and a weak masculine."""
    draw.phenomena.add(GENDER_NAMES["p" if plural else noun.gender])
    draw.uses.append((case, noun.german))
    if noun.weak and case != "nominative" and not plural:
        draw.phenomena.add("weak noun")
    if plural:
        form = noun.plurals[1]
        ending = "" if len(form) == len(noun.german) else next(e for e in ("er", "n", "s", "e") if form.endswith(e))
        draw.phenomena.add(f"plural in -{ending.replace('n', '(e)n')}" if ending else "plural without ending")


def pronoun_for(noun: Noun, plural: bool) -> str:
    """The English pronoun that stands for a noun; none for a child or a girl, where German and English differ."""
    if plural:
        return "they"
    return {"m": "he", "f": "she", "n": ""}[noun.gender] if "person" in noun.kinds else "it"


def proper_name(draw: Draw) -> Phrase:
    """A name, which is the same in every case but the genitive."""
    noun = draw.noun(NAME_ENTRIES)
    head = Word(noun.english, "NNP")
    draw.phenomena.add("name")
    return Phrase(["(NP", head, ")"], [(noun.german, (head,))], head, noun.gender, pronoun_for(noun, False), noun.kinds)


# book/50_corpus.ipynb#grammar-specifier
GENITIVES = (("part", "building"), ("text,vehicle,clothes,container,kin", "person"))  # kinds, of whom


def specifier(
    draw: Draw, noun: Noun, gender: str, case: str, owner: Phrase | None, definite: bool, allow_no: bool, plain: bool
) -> tuple[Phrase, str, Phrase]:
    """What stands before the adjective, the declension that it calls for, and a genitive after the noun."""
    if owner and draw.chance(0.5):
        return possessive(draw, owner, gender, case), "mixed", Phrase()
    possessors = [owners for kinds, owners in GENITIVES if set(kinds.split(",")) & set(noun.kinds)]
    if possessors and not plain and draw.option(0.1):
        return genitive(draw, possessors[0], gender, case)
    english, stem, declension = determiner(draw, noun, gender == "p", definite, allow_no)
    return article(draw, english, stem, gender, case), declension, Phrase()


def genitive(draw: Draw, kind: str, gender: str, case: str) -> tuple[Phrase, str, Phrase]:
    """An owner: *Anna's car*, *the teacher's car*, *the car of the teachers*, *the door of the house*."""
    draw.phenomena |= {"genitive"}
    if kind == "person" and draw.chance(0.4):
        name = proper_name(draw)
        mark = Word("'s", "POS")
        german = [(name.german[0][0] + "s", (name.head, mark))]
        return Phrase(["(NP", name.head, mark, ")"], german), "strong", Phrase()
    the = aligned("the", determiner_form("d", gender, case), "DT")
    owner = noun_phrase(draw, "genitive", (kind,), definite=True, plain=True)
    if owner.gender == "p" or kind != "person":
        of = Word("of", "IN")
        first, *rest = owner.german
        owner.german = [(first[0], (of, *first[1])), *rest]
        return the, "weak", replace(owner, english=["(PP", of, *owner.english, ")"])
    mark = Word("'s", "POS")
    english = [*owner.english[:-1], mark, ")"]
    return Phrase(english, [(the.german[0][0], (mark,))]), "weak", Phrase([], owner.german)


# book/50_corpus.ipynb#grammar-noun-phrases-2
def pronoun(draw: Draw, english: str, gender: str, case: str, head: Word | None = None) -> Phrase:
    """A personal pronoun in a German case; `head` is the noun that it refers to."""
    entry = PRONOUN_ENTRIES[english, gender]
    word = Word(entry[0 if case == "nominative" else 1], "PRP", head)
    draw.phenomena |= {case, "pronoun"} | ({"pronoun with antecedent"} if head else set())
    german = [(entry[5 + CASES.index(case)], (word,))]
    return Phrase(["(NP", word, ")"], german, head, gender, english, ("person",), True)


def refer(draw: Draw, phrase: Phrase, case: str) -> Phrase:
    """The pronoun that stands for a phrase."""
    result = pronoun(draw, phrase.pronoun, phrase.gender, case, phrase.head)
    return replace(result, kinds=phrase.kinds)


def determiner(draw: Draw, noun: Noun, plural: bool, definite: bool, allow_no: bool) -> tuple[str, str, str]:
    """English form, German stem and declension of a determiner that suits the noun."""
    if definite or draw.chance(0.4):
        return "the", "d", "weak"
    number = "mass" if not noun.plurals[0] else "many" if plural else "one"
    barred = ("some",) if "negation with kein" in draw.phenomena else () if allow_no else ("no",)
    options = [row for row in DETERMINER_ENTRIES if number in row[3] and row[0] not in barred]
    english, german, declension, _ = draw.pick(options)
    return english.split("/")[-1 if plural else 0], german, declension


# book/50_corpus.ipynb#grammar-noun-phrase-parts
def article(draw: Draw, english: str, stem: str, gender: str, case: str) -> Phrase:
    """A determiner on both sides; '-' is none."""
    if english == "-":
        return Phrase()
    draw.phenomena |= {"negation with kein"} if english == "no" else {"number"} if stem in NUMBERS else set()
    tag = "CD" if stem in NUMBERS else "JJ" if english == "many" else "DT"
    return aligned(english, determiner_form(stem, gender, case), tag)


def possessive(draw: Draw, owner: Phrase, gender: str, case: str) -> Phrase:
    """His, her, its, our, their, my: the German stem depends on the owner, the ending on what is owned."""
    entry = PRONOUN_ENTRIES[owner.pronoun, owner.gender]
    word = Word(entry[2], "PRP$", owner.head)
    draw.phenomena |= {"possessive"} | ({f"its as {entry[9]}"} if entry[2] == "its" else set())
    return Phrase([word], [(determiner_form(entry[9], gender, case), (word,))])


def adjectives(draw: Draw, noun: Noun, declension: str, gender: str, case: str) -> Phrase:
    """No adjective or one."""
    options = adjectives_of(noun.kinds)
    if not options or not draw.option(0.22):
        return Phrase()
    adjective = draw.pick(options)
    draw.phenomena.add(f"{declension} adjective")
    return aligned(adjective.english, adjective_form(adjective.stem, declension, gender, case), "JJ")


# book/50_corpus.ipynb#grammar-verb-forms
def agreeing(forms: str) -> dict[str, str]:
    """The forms of an auxiliary by what they agree with: third person, plural, I."""
    return dict(zip(AGREEMENTS, forms.split(), strict=True))


FINITE = {  # German auxiliaries of the perfect, and of the passive in the present and the past
    "haben": agreeing("hat haben habe"), "sein": agreeing("ist sind bin"),
    "present": agreeing("wird werden werde"), "past": agreeing("wurde wurden wurde"),
}  # fmt: skip
BE = {"present": agreeing("is are am"), "past": agreeing("was were was")}
PARTICLES = {"up": "RP", "away": "RP", "over": "RP", "on": "RP", "forward": "RB", "asleep": "JJ", "dressed": "JJ"}


def tag_of(tense: str, agreement: str) -> str:
    """The part of speech of a finite English verb."""
    return "VBD" if tense == "past" else "VBZ" if agreement == "s" else "VBP"


def simple_tense(verb: Verb, tense: str, agreement: str, support: bool) -> tuple[list[Word], list[Word]]:
    """English auxiliary and main verb of the present or past; negation and questions need a form of do."""
    base, third, past = verb.english[:3]
    tag = tag_of(tense, agreement)
    if base == "be":
        return [Word(BE[tense][agreement], tag)], []
    if support:
        form = "did" if tense == "past" else "does" if agreement == "s" else "do"
        return [Word(form, tag)], [Word(base, "VB")]
    return [], [Word(past if tense == "past" else third if agreement == "s" else base, tag)]


# book/50_corpus.ipynb#grammar-verb-groups
def verb_group(
    draw: Draw, verb: Verb, subject: Phrase, tense: str, negated: bool, question: bool, passive: bool = False
) -> Clause:
    """A clause of a subject and the forms of a verb, without complements; a tense may be the name of a modal."""
    draw.clauses += 1
    agreement, simple = subject.agreement, tense in ("present", "past") and not passive
    base, participle, ends = verb.english[0], Word(verb.english[3], "VBN"), verb.german[3]
    end: list[tuple[str, tuple[Word, ...]]]
    if simple:
        auxiliary, main = simple_tense(verb, tense, agreement, negated or question)
        finite, end = verb.german_finite(tense, agreement), [(verb.prefix, tuple(main))] if verb.prefix else []
    elif tense in MODAL_ENTRIES:
        infinitive, be = Word(base, "VB"), Word("be", "VB")
        auxiliary = [Word("cannot" if negated and tense == "can" else tense, "MD")]
        main, finite = [be, participle] if passive else [infinitive], MODAL_ENTRIES[tense][agreement]
        active = (verb.prefix + verb.german[0], tuple(main))
        end = [(ends, (participle,)), ("werden", (be,))] if passive else [active]
    else:
        have = "has" if agreement == "s" else "have"
        form = BE[tense][agreement] if passive else have
        auxiliary, main = [Word(form, tag_of(tense, agreement))], [participle]
        finite, end = FINITE[tense if passive else verb.german[4]][agreement], [(ends, (participle,))]
    particles = [Word(word, PARTICLES.get(word, "IN")) for word in particles_of(verb)]
    main, end = [*main, *particles], [(text, (*links, *(particles if text != "werden" else ()))) for text, links in end]
    negation = [Word("not", "RB")] if negated and auxiliary[0].text != "cannot" else []
    links = (*auxiliary, *main) if simple else tuple(auxiliary)
    clause = Clause(subject, auxiliary, negation, main, (finite, links), end, simple and bool(verb.prefix))
    if negated:
        clause.parts.append(("not", Phrase([], [("nicht", tuple(negation or auxiliary))])))
    if verb.reflexive:
        clause.parts.append(("pronoun", reflexive(draw, verb, subject, main)))
    note_verb(draw, verb, tense, negated, passive)
    return clause


# book/50_corpus.ipynb#grammar-tenses
def particles_of(verb: Verb) -> list[str]:
    """The English words that stay with a verb: not its preposition, which begins the next phrase."""
    words = [word for word in verb.english[4:] if word != "self"]
    return words[:-1] if verb.frame == "prepositional" else words


def reflexive(draw: Draw, verb: Verb, subject: Phrase, main: list[Word]) -> Phrase:
    """*sich* and its like, which English expresses by *himself* or not at all."""
    draw.phenomena.add("reflexive")
    plain = {"p": "they", "1": "I", "f": "she", "n": "it"}.get(subject.gender, "he")
    entry = PRONOUN_ENTRIES.get((subject.pronoun, subject.gender)) or PRONOUN_ENTRIES[plain, subject.gender]
    if "self" not in verb.english:
        return Phrase([], [(entry[8], tuple(main))])
    word = Word(entry[3], "PRP")
    return Phrase(["(NP", word, ")"], [(entry[8], (word,))])


def note_verb(draw: Draw, verb: Verb, tense: str, negated: bool, passive: bool) -> None:
    """Note the phenomena of a verb group."""
    modal = tense in MODAL_ENTRIES
    construction = "passive" if passive else "modal" if modal else tense
    tags = {
        "passive": passive, "modal": modal, "past": tense == "past", "separable verb": bool(verb.prefix),
        f"perfect with {verb.german[4]}": tense == "perfect", "negation with nicht": negated,
    }  # fmt: skip
    draw.phenomena |= {tag for tag, shown in tags.items() if shown}
    draw.uses.append((construction, verb.prefix + verb.german[0]))


# book/50_corpus.ipynb#grammar-clauses
PEOPLE = (("he", "m"), ("she", "f"), ("they", "p"), ("we", "p"), ("I", "1"))
FIRST = PEOPLE[3:]
VERB_CLASSES = [name for name, (_, share, _) in FRAMES.items() for _ in range(share)]
TENSES = ("present",) * 4 + ("past",) * 3 + ("perfect",) * 2 + ("modal",) * 2


def past_is_visible(verb: Verb) -> bool:
    """False for 'they read', which would have two translations: such a verb is not used in the past."""
    return verb.english[0] != verb.english[2]


def tense_of(draw: Draw, verb: Verb, after: str = "", negated: bool = False) -> str:
    """A tense that suits the verb and the tense of the clause it depends on; *must not* is no *muss nicht*."""
    if after in ("past", "could") and not past_is_visible(verb):
        return "perfect"
    while True:
        tense = draw.pick(TENSES)
        if after and (tense == "past") != (after in ("past", "could")):
            continue
        if verb.frame in ("copula", "saying") and tense in ("perfect", "modal"):
            continue
        if tense == "modal":
            return draw.pick(("can", "will") if negated else ("can", "will", "should", "must"))
        if tense != "past" or past_is_visible(verb):
            return tense


# book/50_corpus.ipynb#grammar-subjects
def subject_for(draw: Draw, verb: Verb, definite: bool, allow_no: bool) -> Phrase:
    """A subject that suits the verb."""
    if {"person", "kin"} & set(verb.subjects) and draw.chance(0.15):
        return pronoun(draw, *draw.pick(PEOPLE if not draw.clauses else FIRST), "nominative")
    copula = verb.frame == "copula"
    kinds = (draw.pick(verb.subjects),) if copula or len(verb.subjects) > 1 else verb.subjects
    return noun_phrase(draw, "nominative", kinds, definite=definite or copula, allow_no=allow_no, plain=copula)


def people(draw: Draw, subject: str) -> list[tuple[str, str]]:
    """The persons that an object pronoun may mean: not the subject, and nobody whom an earlier clause could mean."""
    allowed = PEOPLE if draw.clauses < 2 else FIRST
    others = [person for person in allowed if person[0] != subject and not (person in FIRST and subject in ("we", "I"))]
    return others or [("they", "p")]


def clear_subject(draw: Draw, verb: Verb, gender: str) -> Phrase | None:
    """A subject that cannot be taken for an object of this gender before it; none where the object's form is clear."""
    if gender == "m":
        return None
    if "person" in verb.subjects and draw.chance(0.4):
        return pronoun(draw, *draw.pick(FIRST if draw.clauses else (PEOPLE[0], *FIRST)), "nominative")
    return noun_phrase(draw, "nominative", (), noun=draw.noun(nouns_of(verb.subjects, "m")))


def fitting_verb(draw: Draw, kinds: tuple[str, ...], tense: str, after: str) -> Verb | None:
    """A verb for a subject of these kinds, or none."""
    options = verbs_of(draw.pick(VERB_CLASSES), kinds)
    verb = draw.pick(options) if options else None
    if verb and verb.frame == "copula" and (tense == "perfect" or tense in MODAL_ENTRIES):
        return None
    return verb if verb and (past_is_visible(verb) or "past" not in (tense, after)) else None


# book/50_corpus.ipynb#grammar-clause-rule
def make_clause(
    draw: Draw,
    *,
    subject: Phrase | None = None,
    verb: Verb | None = None,
    tense: str = "",
    negated: bool | None = None,
    question: bool = False,
    gap: str = "",
    adverbial: float = 0.25,
    after: str = "",
) -> Clause:
    """A clause; `gap` is a complement left out, `after` the tense of the clause it depends on."""
    free = subject is None and verb is None
    while verb is None:
        verb = fitting_verb(draw, subject.kinds if subject else (), tense, after)
    negated = not question and not gap and tense != "perfect" and draw.chance(0.15) if negated is None else negated
    tense = tense or tense_of(draw, verb, after, negated)
    tense = "perfect" if tense == "past" and not past_is_visible(verb) else tense
    negated = negated and tense != "perfect" and tense not in ("should", "must")
    if free and verb.frame == "transitive" and draw.chance(0.2) and tense != "perfect":
        return passive_clause(draw, verb, tense, negated, question)
    subject = subject or subject_for(draw, verb, negated, not question and not gap)
    result = verb_group(draw, verb, subject, tense, negated, question)
    owner = subject if subject.pronoun and (subject.is_pronoun or subject.head) else None
    allow_no = not (negated or question or gap or "negation with kein" in draw.phenomena)
    complements, _, adverbials = FRAMES[verb.frame]
    for slot in complements:
        if slot != gap:
            part = complement(draw, slot, verb, subject, owner, negated, allow_no)
            result.parts.append((light(part) or SLOTS.get(slot, slot), part))
    if not gap and adverbials and draw.option(adverbial):
        add_adverbial(draw, result, verb, tense, negated)
    return result


# book/50_corpus.ipynb#grammar-passive
def passive_clause(draw: Draw, verb: Verb, tense: str, negated: bool, question: bool) -> Clause:
    """A clause whose subject undergoes what the verb says, with an agent or, to tell it from a state, a time."""
    subject = noun_phrase(draw, "nominative", verb.objects, definite=negated, names=False)
    result = verb_group(draw, verb, subject, tense, negated, question, passive=True)
    if "closed" in verb.objects or "part" in verb.objects or draw.chance(0.6):
        kinds = (draw.pick(verb.subjects),)
        result.parts.append(agent(draw, noun_phrase(draw, "dative", kinds, definite=negated, names=False)))
    else:
        result.parts.append(("time", time_adverbial(draw, tense, negated)))
    return result


def agent(draw: Draw, phrase: Phrase) -> tuple[str, Phrase]:
    """*by* and a noun phrase in the dative."""
    draw.phenomena.add("dative")
    return "agent", bracket("PP", aligned("by", "von", "IN"), phrase)


def light(part: Phrase) -> str:
    """The place of an object that is a pronoun or a name, which stands further to the front."""
    return "pronoun" if part.is_pronoun else "name" if part.head and part.head.tag == "NNP" else ""


# book/50_corpus.ipynb#grammar-complements
RESULTS = ("difficult", "dangerous", "muddy")


def complement(
    draw: Draw, name: str, verb: Verb, subject: Phrase, owner: Phrase | None, negated: bool, allow_no: bool
) -> Phrase:
    """A complement of a verb: an object, a place, a direction or an adjective."""
    if name in ("place", "direction", "target"):
        return prepositional(draw, name, negated, verb.objects if name != "target" else ())
    if name == "adjective":
        return predicate(draw, subject)
    if name == "result":
        return comparative(draw, ADJECTIVE_ENTRIES[draw.pick(RESULTS)])
    if name == "prepositional":
        german, case = verb.preposition
        part = noun_phrase(draw, case, verb.objects, definite=negated)
        return bracket("PP", aligned(verb.english[-1], german, "IN"), part)
    kinds = ("person",) if verb.frame == "ditransitive" and name == "dative" else verb.objects
    if "person" in kinds and draw.chance(0.2):
        return pronoun(draw, *draw.pick(people(draw, subject.pronoun)), name)
    avoid = "f" if name == "dative" and not subject.is_pronoun else ""  # *die Schwester der Tochter* is a genitive
    owner = owner if draw.chance(0.5) else None
    return noun_phrase(draw, name, kinds, owner, definite=negated, allow_no=allow_no, avoid=avoid)


# book/50_corpus.ipynb#grammar-complements-2
def predicate(draw: Draw, subject: Phrase) -> Phrase:
    """A predicate adjective, perhaps with an adverb of degree."""
    return degree(draw, draw.pick(adjectives_of(subject.kinds or ("person",))))


def degree(draw: Draw, adjective: Adjective, degrees: tuple[str, ...] = ("", "", "very sehr", "too zu")) -> Phrase:
    """An adjective phrase."""
    adverb = draw.pick(degrees)
    before = [aligned(*adverb.split(), "RB")] if adverb else []
    draw.phenomena.add("predicate adjective")
    return bracket("ADJP", *before, aligned(adjective.english, adjective.german, "JJ"))


def comparative(draw: Draw, adjective: Adjective, than: Phrase | None = None, equal: bool = False) -> Phrase:
    """*bigger than the dog* or, of equals, *as big as the dog*."""
    draw.phenomena.add("comparison")
    draw.uses.append(("comparative", adjective.german))
    if equal:
        head = bracket("ADJP", aligned("as", "so", "RB"), aligned(adjective.english, adjective.german, "JJ"))
    else:
        tag = "RBR_JJ" if "_" in adjective.more[0] else "JJR"
        head = bracket("ADJP", aligned(*adjective.more, tag))
    if than is None:
        return head
    link = aligned("as", "wie", "IN") if equal else aligned("than", "als", "IN")
    return bracket("ADJP", head, bracket("PP", link, than))


# book/50_corpus.ipynb#grammar-adverbials
TWO_WAY = ("in", "auf", "unter", "hinter", "vor", "neben", "über")


def prepositional(draw: Draw, role: str, definite: bool = False, kinds: tuple[str, ...] = ()) -> Phrase:
    """A prepositional phrase; two-way prepositions take the dative for a place, the accusative for a direction."""
    rows = [row for row in PREPOSITION_ENTRIES if row[4] == role and (not kinds or set(kinds) & set(row[3]))]
    english, german, case, allowed, _ = draw.pick(rows)
    if german in TWO_WAY:
        draw.phenomena.add("two-way preposition, place" if case == "dative" else "two-way preposition, direction")
    allowed = tuple(kind for kind in allowed if not kinds or kind in kinds)
    definite = definite or case == "genitive" or draw.chance(0.6)
    tag = "_".join(["RB" if word in ("next", "because") else "IN" for word in english.split("_")])
    part = noun_phrase(draw, case, allowed, definite=definite, plain=case == "genitive")
    return bracket("PP", aligned(english, german, tag), part)


def time_adverbial(draw: Draw, tense: str, negated: bool = False) -> Phrase:
    """An adverbial of time that suits the tense; 'not every day' would be ambiguous."""
    group = {"could": "past"}.get(tense, "modal" if tense in MODAL_ENTRIES else tense)
    rows = [row for row in TIME_ENTRIES if group in row[3] and not (negated and row[0].startswith("every"))]
    english, german, tag, _ = draw.pick(rows)
    label = "PP" if tag.startswith("IN") else "NP" if "_" in tag else "ADVP"
    return bracket(label, aligned(english, german, tag))


def add_adverbial(draw: Draw, clause: Clause, verb: Verb, tense: str, negated: bool) -> None:
    """Add one adverbial at the end of the clause."""
    roles = ("time", "benefit") if verb.german[0] in ("kaufen", "kochen", "schreiben") else FRAMES[verb.frame][2]
    role = draw.pick(roles)
    if role == "time" and ({"dative", "accusative"} & set(FRAMES[verb.frame][0]) or draw.chance(0.8)):
        part = time_adverbial(draw, tense, negated)
    elif role == "manner":
        part = bracket("ADVP", aligned(*draw.pick(rows(MANNERS)), "RB"))
    else:
        part = prepositional(draw, role, negated, ("room", "town") if role == "place" else ())
    clause.parts.append((role, part))


# book/50_corpus.ipynb#grammar-frames
COREFERENCE = """
- animal cross way         | tired sick nervous | wide muddy
- vehicle cross way        | slow               | wide muddy
- animal eat food          | tired sick nervous | salty sour
- animal drink drink       | tired sick         | salty sour
- animal carry thing       | tired sick         | heavy
- animal pull vehicle      | tired sick hungry  | heavy big
- animal hear sound        | tired nervous      | quiet
- sound wake animal        | quiet              | tired sick
- sound frighten animal    | quiet              | brave wild
- animal see thing         | tired nervous      | small
- animal fit container     | fat                | full
- thing fit container      | big                | full
- clothes fit container    | big thick          | full
- animal fit passage       | fat                | narrow
- vehicle fit passage      | big                | narrow
- furniture fit passage    | big                | narrow
- animal jump barrier      | tired sick fat     | high
- machine lift furniture   | weak               | heavy big
- machine lift container   | weak               | heavy full
- vehicle transport furniture | slow            | heavy big
- missile break pane       | soft light         | thick
- textile cover furniture  | short              | big
- light light room         | weak               | big
- weather destroy building | weak               | sturdy
- tool cut food            | blunt              | hard
- animal knock furniture   | tired sick         | heavy sturdy
- animal sleep furniture   | nervous hungry     | hard
- animal hide furniture    | brave fat          | small low
- animal catch animal      | tired              | brave
- animal attack animal     | shy                | wild
- animal chase animal      | tired fat          | wild
- animal follow animal     | sick tired         | wild
- animal frighten animal   | friendly           | brave
- vehicle overtake vehicle | slow               | fast
- furniture hold thing     | old                | heavy big
"""
COREFERENCE += """
+ animal cross way         | brave hungry       | short
+ animal eat food          | hungry wild        | fresh sweet
+ animal drink drink       | thirsty            | fresh sweet
+ animal carry thing       | brave wild         | light small
+ animal pull vehicle      | brave wild         | light small
+ animal hear sound        | nervous shy        | loud
+ sound wake animal        | loud               | nervous hungry
+ sound frighten animal    | loud               | shy nervous
+ animal jump barrier      | brave wild         | low
+ machine lift furniture   | strong             | light small
+ machine lift container   | strong             | light empty
+ vehicle transport furniture | fast            | light
+ furniture hold thing     | sturdy             | light small
+ missile break pane       | heavy hard         | thin
+ light light room         | bright strong      | small
+ weather destroy building | strong             | old
+ tool cut food            | sharp              | soft
+ animal knock furniture   | wild nervous       | light small
+ animal sleep furniture   | tired sick         | soft
+ animal catch animal      | hungry             | sick
+ animal attack animal     | hungry             | sick
+ animal chase animal      | hungry             | shy
+ animal frighten animal   | wild               | shy nervous
+ vehicle overtake vehicle | fast               | slow
+ building hide building   | tall               | low
"""


# book/50_corpus.ipynb#grammar-coreference
COREFERENCE_ENTRIES = [
    (*frame.split(), first.split(), second.split())
    for frame, first, second in (line.split("|") for line in COREFERENCE.splitlines() if line)
]
GENDER_PAIRS = [(first, second) for first in "mfn" for second in "mfn" if first != second]


def frame_verb(name: str, subject: str, target: str) -> Verb:
    """The verb of a frame; subject and object decide between *essen* and *fressen*, *passen in* and *passen durch*."""
    both = [verb for verb in VERB_ENTRIES if verb.english[0] == name and subject in verb.subjects]
    return next(verb for verb in both if target in verb.objects)


# book/50_corpus.ipynb#grammar-coreference-rule
def coreference(draw: Draw, side: int | None = None) -> Phrase:
    """A clause and a reason whose adjective decides which of two nouns its pronoun means: `side` 0 is the subject."""
    sign, subject_kind, name, object_kind, *adjectives = draw.pick(COREFERENCE_ENTRIES)
    genders = draw.pick(GENDER_PAIRS)
    kinds = (subject_kind, object_kind)
    nouns = [draw.noun(nouns_of((kind,), gender)) for kind, gender in zip(kinds, genders, strict=True)]
    conjunction = draw.pick(("because", "because", "although"))
    negated = (sign == "-") == (conjunction == "because")
    tense = draw.pick(("present", "past", "past"))
    verb = frame_verb(name, *kinds)
    main, phrases, front = coreference_clause(draw, verb, nouns, tense, negated)
    intense = ("too zu", "too zu", "very sehr") if (sign, conjunction) == ("-", "because") else ("so so", "very sehr")
    adverb = draw.pick(intense)
    outer = said(draw, tense) if front is None and draw.chance(0.12) else None
    side = int(draw.chance(0.5)) if side is None else side
    adjective = ADJECTIVE_ENTRIES[draw.pick(adjectives[side])]
    reason = verb_group(draw, COPULA, refer(draw, phrases[side], "nominative"), tense, False, False)
    reason.parts.append(("adjective", degree(draw, adjective, (adverb,))))
    main.tail = commas(subordinate(draw, conjunction, reason))
    near = (side == 1) != (front is not None or "passive" in draw.phenomena)
    draw.phenomena |= {"pronoun decided by an adjective", "antecedent near" if near else "antecedent far"}
    if front:
        return inverted(draw, front, main)
    if outer is None:
        return main.phrase("main")
    draw.phenomena.add("nested clause")
    outer.tail = commas(subordinate(draw, "that", main))
    return outer.phrase("main")


# book/50_corpus.ipynb#grammar-coreference-clause
def coreference_clause(
    draw: Draw, verb: Verb, nouns: list[Noun], tense: str, negated: bool
) -> tuple[Clause, tuple[Phrase, Phrase], Phrase | None]:
    """The first clause of such a sentence and its two noun phrases.

    In half of them the second noun comes first: as the subject of a passive, or because the sentence begins with it.
    """
    turned, ability = draw.chance(0.5), draw.chance(0.3)
    passive = turned and verb.frame == "transitive"
    cases = ["nominative", verb.preposition[1] if verb.preposition else "accusative"]
    cases = ["dative", "nominative"] if passive else ["nominative", "dative"] if verb.frame == "dative" else cases
    first, second = (
        noun_phrase(draw, case, (), noun=noun, definite=True, plain=True)
        for case, noun in zip(cases, nouns, strict=True)
    )
    group = {"present": "can", "past": "could"}[tense] if ability else tense
    clause = verb_group(draw, verb, second if passive else first, group, negated, False, passive)
    slot, part = agent(draw, first) if passive else (cases[1], second)
    if verb.preposition:
        slot, part = "prepositional", bracket("PP", aligned(verb.english[-1], verb.preposition[0], "IN"), second)
    front = part if turned and not passive else None
    clause.parts += [] if front else [(slot, part)]
    if draw.option(0.15):
        clause.parts.append(("time", time_adverbial(draw, group, negated)))
    return clause, (first, second), front


def said(draw: Draw, tense: str) -> Clause:
    """Somebody says, knows, believes or hears; what it is comes later."""
    verb = draw.pick(verbs_of("saying"))
    return verb_group(draw, verb, subject_for(draw, verb, False, False), tense, False, False)


# book/50_corpus.ipynb#grammar-relative
RELATIVE = {"m": "der den dem", "f": "die die der", "n": "das das dem", "p": "die die denen"}


def with_relative(draw: Draw, phrase: Phrase, kind: str, tense: str = "") -> Phrase:
    """A noun phrase with a relative clause whose pronoun is the subject or the object of its clause."""
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
        clause = make_clause(draw, subject=gap, after=tense)
    else:
        subject = clear_subject(draw, verb, phrase.gender if case == "accusative" else "m")
        clause = make_clause(draw, subject=subject, verb=verb, gap=case, after=tense)
    inner = clause.phrase("subordinate")
    if kind == "object":
        inner.german.insert(0, german)
    note_joined(draw, clause)
    draw.phenomena |= {"relative clause", f"relative clause, {case}", "verb-final clause"}
    tree = ["(NP", *phrase.english, "(SBAR", "(WHNP", english, ")", *inner.english, ")", ")"]
    return replace(phrase, english=tree, german=[*phrase.german, *commas(inner).german])


# book/50_corpus.ipynb#grammar-relative-rule
def relative(draw: Draw) -> Phrase:
    """A clause whose subject or object has a relative clause."""
    kind = draw.pick(("subject", "object"))
    if draw.chance(0.5):
        kinds = draw.pick((("person",), ("animal",), ("vehicle",)))
        subject = noun_phrase(draw, "nominative", kinds, names=False)
        return make_clause(draw, subject=with_relative(draw, subject, kind)).phrase("main")
    verb = draw.pick(verbs_of("transitive"))
    main = verb_group(draw, verb, subject_for(draw, verb, False, False), tense_of(draw, verb), False, False)
    target = noun_phrase(draw, "accusative", verb.objects, names=False)
    long, size = with_relative(draw, target, kind), len(target.german)
    main.parts.append(("accusative", replace(long, german=long.german[:size])))
    main.tail = Phrase([], long.german[size:])  # after the end of the German clause
    return main.phrase("main")


# book/50_corpus.ipynb#grammar-subordinate
def note_joined(draw: Draw, clause: Clause) -> None:
    """Note a separable verb whose prefix joins it at the end of a clause."""
    if clause.prefixed:
        draw.phenomena.add("separable verb, joined")
        draw.uses.append(("verb-final", clause.end[0][0] + clause.finite[0]))


CONJUNCTIONS = {
    "because": "weil", "although": "obwohl", "that": "dass", "when": "wenn", "when past": "als", "if": "wenn",
    "before": "bevor", "while": "während",
}  # fmt: skip


def subordinate(draw: Draw, conjunction: str, clause: Clause, tense: str = "") -> Phrase:
    """A subordinate clause without its commas; 'when' is 'als' in the past and 'wenn' otherwise."""
    german = CONJUNCTIONS.get(f"{conjunction} {tense}", CONJUNCTIONS[conjunction])
    word = aligned(conjunction, german, "WRB" if conjunction == "when" else "IN")
    draw.phenomena |= {"verb-final clause", f"{conjunction} clause"}
    note_joined(draw, clause)
    return bracket("SBAR", bracket("WHADVP", word) if conjunction == "when" else word, clause.phrase("subordinate"))


def inner_clause(draw: Draw, after: str, nested: bool = True, **options) -> Clause:
    """A clause that depends on another, and if `nested` now and then has one that depends on it."""
    clause = make_clause(draw, after=after, adverbial=0.1, **options)
    if nested and draw.option(0.12):
        draw.phenomena.add("nested clause")
        clause.tail = commas(subordinate(draw, "because", make_clause(draw, after=after, adverbial=0.1)))
    return clause


# book/50_corpus.ipynb#grammar-adjunct
def adjunct(draw: Draw) -> Phrase:
    """A clause and another that depends on it, whose subject may be a pronoun for the subject of the first."""
    conjunction = draw.pick(("because", "because", "because", "although", "although", "before", "while"))
    tense = draw.pick(("present", "past") if conjunction in ("before", "while") else TENSES)
    verb = draw.pick(verbs_of(draw.pick(("intransitive", "transitive", "dative", "position", "reflexive"))))
    verb_tense = draw.pick(("can", "will")) if tense == "modal" else tense
    main = make_clause(draw, tense=verb_tense, adverbial=0.2, verb=verb)
    subject, clear = main.subject, main.subject.pronoun != "it" or not main.parts
    wanted = bool(subject.pronoun) and clear and "negation with kein" not in draw.phenomena and draw.chance(0.7)
    options: dict = {"subject": refer(draw, subject, "nominative") if wanted else None}
    options |= {"tense": tense, "negated": False} if conjunction in ("before", "while") else {}
    second = inner_clause(draw, tense, nested=conjunction in ("before", "while"), **options)
    main.tail = commas(subordinate(draw, conjunction, second))
    return main.phrase("main")


# book/50_corpus.ipynb#grammar-sentence-rules
def simple(draw: Draw) -> Phrase:
    """A statement."""
    draw.phenomena.add("verb second")
    return make_clause(draw).phrase("main")


def question(draw: Draw) -> Phrase:
    """A yes/no question."""
    draw.phenomena.add("yes/no question")
    verb = draw.pick(verbs_of(draw.pick(VERB_CLASSES)))
    draw.uses.append(("question", verb.prefix + verb.german[0]))
    return make_clause(draw, question=True, verb=verb).phrase("question")


def fronted(draw: Draw) -> Phrase:
    """A statement that begins with an adverbial: German then puts the subject after the finite verb."""
    place = draw.chance(0.3)
    verb = draw.pick(verbs_of(draw.pick(("intransitive", "reflexive")) if place else draw.pick(VERB_CLASSES[:-4])))
    tense = tense_of(draw, verb)
    if place:
        front = prepositional(draw, draw.pick(("place", "place", "time")), True)
    else:
        front = time_adverbial(draw, tense)
    draw.phenomena.add("inversion after an adverbial")
    return inverted(
        draw, front, make_clause(draw, verb=verb, tense=tense, negated=None if place else False, adverbial=0.0)
    )


# book/50_corpus.ipynb#grammar-sentence-rules-2
def inverted(draw: Draw, front: Phrase, clause: Clause, comma: bool = False) -> Phrase:
    """A main clause with something before it."""
    draw.phenomena.add("inversion")
    marks = aligned(",", ",", ",") if comma else Phrase()
    label, *rest = clause.english("inverted")
    german = [*front.german, *marks.german, *clause.german("inverted")]
    return Phrase([label, *front.english, *marks.english, *rest], german)


def singular(draw: Draw, noun: Noun, case: str) -> Phrase:
    """A noun in the singular, without anything before it."""
    draw.phenomena.add(case)
    note_noun(draw, noun, False, case)
    head = Word(noun.english, "NN")
    return Phrase([head], [(noun.german_form(False, case), (head,))])


def object_first(draw: Draw) -> Phrase:
    """A statement that begins with its object: *This letter she did not read*. German cases show what is what."""
    verb = draw.pick(verbs_of("transitive", ("person",)))
    target = draw.noun([noun for noun in nouns_of(verb.objects) if noun.gender == "m" or "person" not in noun.kinds])
    stem, english = draw.pick((("d", "the"), ("dies", "this")))
    before = aligned(english, determiner_form(stem, target.gender, "accusative"), "DT")
    middle = adjectives(draw, target, "weak", target.gender, "accusative")
    front = bracket("NP", before, middle, singular(draw, target, "accusative"))
    subject = clear_subject(draw, verb, target.gender) or subject_for(draw, verb, True, False)
    tense = tense_of(draw, verb)
    negated = tense not in ("perfect", "should", "must") and draw.chance(0.4)
    draw.phenomena.add("inversion after an object")
    clause = make_clause(draw, subject=subject, verb=verb, tense=tense, negated=negated, gap="accusative")
    return inverted(draw, front, clause)


# book/50_corpus.ipynb#grammar-wh-questions
ASKED = {"when": "wann", "why": "warum", "where": "wo", "where motion": "wohin"}


def wh_question(draw: Draw) -> Phrase:
    """A question with a question word: for the subject, an object, a time, a reason or a place."""
    draw.phenomena.add("wh question")
    kind = draw.pick(("subject", "object", "object", "when", "why", "where"))
    if kind == "subject":
        verb = draw.pick(verbs_of(draw.pick(VERB_CLASSES[:-4]), ("person",)) or verbs_of("intransitive"))
        who = Word("who", "WP")
        subject = Phrase(["(WHNP", who, ")"], [("wer", (who,))], gender="m", kinds=("person",), is_pronoun=True)
        clause = make_clause(draw, subject=subject, verb=verb, negated=False)
        return clause.phrase("main")
    if kind == "object":
        return object_question(draw)
    where = {"where": ("intransitive", "position", "motion")}.get(kind, ("intransitive", "transitive", "reflexive"))
    verb = draw.pick([verb for verb in verbs_of(draw.pick(where)) if verb.english[0] not in ("come", "run")])
    german = ASKED.get(f"{kind} {verb.frame}", ASKED[kind])
    gap = "direction" if verb.frame == "motion" else "place"  # what is asked for, or not said
    gap = gap if kind == "where" else "adverbial"
    tense = tense_of(draw, verb)
    tense = "present" if tense == "perfect" and kind == "when" else tense
    clause = make_clause(draw, verb=verb, tense=tense, question=True, gap=gap)
    return bracket("SBARQ", bracket("WHADVP", aligned(kind, german, "WRB")), clause.phrase("question"))


# book/50_corpus.ipynb#grammar-object-question
def object_question(draw: Draw) -> Phrase:
    """A question for an object, with what, whom or which."""
    frame = draw.pick(("transitive", "transitive", "dative"))
    verb = draw.pick(verbs_of(frame, ("person",)))
    case, subject = "accusative" if frame == "transitive" else "dative", None
    if verb.objects == ("person",) or case == "dative":
        front = bracket("WHNP", aligned("whom", "wen" if case == "accusative" else "wem", "WP"))
    elif draw.chance(0.5):
        front = bracket("WHNP", aligned("what", "was", "WP"))
    else:
        noun = draw.noun([noun for noun in nouns_of(verb.objects) if "person" not in noun.kinds])
        which = aligned("which", determiner_form("welch", noun.gender, case), "WDT")
        front = bracket("WHNP", which, singular(draw, noun, case))
        subject = clear_subject(draw, verb, noun.gender)
    draw.phenomena.add(case)
    subject = subject or subject_for(draw, verb, True, False)
    clause = make_clause(draw, subject=subject, verb=verb, question=True, gap=case)
    return bracket("SBARQ", front, clause.phrase("question"))


# book/50_corpus.ipynb#grammar-more-sentence-rules
def that_clause(draw: Draw) -> Phrase:
    """Somebody knows, says, believes or hears that something is so."""
    tense = draw.pick(("present", "past"))
    main = said(draw, tense)
    main.tail = commas(subordinate(draw, "that", inner_clause(draw, tense)))
    return main.phrase("main")


def condition(draw: Draw) -> Phrase:
    """Two clauses joined by 'when' or 'if', which comes first or last."""
    conjunction = draw.pick(("when", "when", "if"))
    tense = "present" if conjunction == "if" else draw.pick(("present", "past"))
    outer = draw.pick(("present", "will", "can")) if conjunction == "if" else tense
    main = make_clause(draw, tense=outer, adverbial=0.0, negated=False)
    first = draw.chance(0.5)
    case = subordinate(draw, conjunction, make_clause(draw, tense=tense, adverbial=0.3 if first else 0.0), tense)
    if first:
        return inverted(draw, case, main, comma=True)
    main.tail = commas(case)
    return main.phrase("main")


def comparison(draw: Draw) -> Phrase:
    """Two things of a kind are compared."""
    kind = draw.pick([kind for kind in COPULA.subjects if adjectives_of((kind,))])
    first, second = (noun_phrase(draw, "nominative", (kind,), definite=True, names=False, plain=True) for _ in range(2))
    clause = verb_group(draw, COPULA, first, draw.pick(("present", "past")), False, False)
    adjective = draw.pick(adjectives_of((kind,)))
    clause.parts.append(("adjective", comparative(draw, adjective, second, draw.chance(0.3))))
    return clause.phrase("main")


# book/50_corpus.ipynb#grammar-coordination
def chain(draw: Draw) -> Phrase:
    """Two clauses joined by 'and' or 'but'."""
    draw.phenomena.add("coordination")
    both = draw.richness > 1 and draw.chance(0.8)
    rules = ((adjunct, relative), (adjunct, that_clause, relative)) if both else ((simple,), (simple,))
    first, second = (draw.pick(rule)(draw) for rule in rules)
    conjunction = aligned("but", "aber", "CC") if draw.chance(0.4) else aligned("and", "und", "CC")
    return bracket("S", first, aligned(",", ",", ","), conjunction, second)


def joint_subject(draw: Draw) -> Phrase:
    """Two subjects joined by 'and'."""
    draw.phenomena.add("coordination")
    kinds = draw.pick((("person",), ("person",), ("animal",)))
    one, other = (noun_phrase(draw, "nominative", kinds, definite=True) for _ in range(2))
    subject = replace(bracket("NP", one, aligned("and", "und", "CC"), other), gender="p", kinds=kinds)
    return make_clause(draw, subject=subject).phrase("main")


# book/50_corpus.ipynb#grammar-object-rules
SEQUENCES = """
buy read text | find read text | write read prose | buy eat food | cook eat dish | buy cook dish | find open closed
open close part | buy sell vehicle | repair sell vehicle | find sell thing | buy wear clothes | wash wear clothes
look find thing | lose find tool | forget lose clothes
"""


def object_pronoun(draw: Draw) -> Phrase:
    """Somebody does one thing to an object, and another thing to it."""
    *names, kinds = draw.pick(rows(SEQUENCES))
    first, second = (
        next(verb for verb in verbs_of("transitive", ("person",)) if verb.english[0] == name) for name in names
    )
    tense = "present" if "read" in names else draw.pick(("present", "past"))
    subject = subject_for(draw, first, False, False)
    target = noun_phrase(draw, "accusative", (kinds,))
    main = verb_group(draw, first, subject, tense, False, False)
    main.parts.append(("accusative", target))
    silent = replace(subject, english=[], german=[])
    rest = verb_group(draw, second, silent, tense, False, False)
    rest.parts.append(("pronoun", refer(draw, target, "accusative")))
    conjunction = aligned("and", "und", "CC")
    main.tail = Phrase([*conjunction.english, *rest.english("main")], [*conjunction.german, *rest.german("main")])
    draw.phenomena.add("coordination")
    return main.phrase("main")


# book/50_corpus.ipynb#grammar-finish
SENTENCES = (  # rule, share of the sentences
    (simple, 7), (fronted, 4), (object_first, 2), (question, 3), (wh_question, 4), (adjunct, 4), (coreference, 6),
    (that_clause, 3), (condition, 4), (comparison, 3), (chain, 2), (joint_subject, 2), (object_pronoun, 4),
    (relative, 4),
)  # fmt: skip
RULES = [rule for rule, share in SENTENCES for _ in range(share)]
LONG_RULES = (chain, chain, chain, adjunct, that_clause, relative, condition)


def german_words(german: list[tuple[str, tuple[Word, ...]]]) -> list[tuple[str, tuple[Word, ...]]]:
    """The words of a German sentence with contractions, without needless commas."""
    result: list[tuple[str, tuple[Word, ...]]] = []
    for text, links in german:
        previous = result[-1] if result else ("", ())
        if previous[0] == "," and text in ",.?":
            links = previous[1] + links if text == "," else links
            result.pop()
        if f"{previous[0]} {text}" in CONTRACTIONS:
            text, links = CONTRACTIONS[f"{previous[0]} {text}"], result.pop()[1] + links
        result.append((text, links))
    return result


def detokenise(tokens: list[str]) -> str:
    """Words and punctuation marks as a text that begins with a capital letter.

    Defined in chapter 50: `grammar-finish`.
    """
    text = re.sub(r" ([,.?]|'s\b)", r"\1", " ".join(tokens))
    return text[0].upper() + text[1:]


# book/50_corpus.ipynb#grammar-pair-rule
def derive(draw: Draw, rule: Callable[[Draw], Phrase] | None = None) -> SentencePair:
    """One sentence pair, by one rule or any; equal draws give equal pairs.

    Defined in chapter 50: `grammar-pair-rule`.
    """
    rule = rule or draw.pick(RULES)
    phrase = rule(draw)
    stop = aligned(*"??", ".") if rule in (question, wh_question) else aligned(*"..", ".")
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


# book/50_corpus.ipynb#grammar-held-out
NOVEL = """
passive: finden suchen waschen besuchen zerstören
perfect: kaufen jagen bauen grüßen tragen
verb-final: anruft einlädt aufmacht aufsteht
question: arbeiten tanzen sehen helfen
comparative: klein neu billig
genitive: Lehrer Schwester Haus
dative: Tisch Garten Katze
"""
HELD_OUT_USES = {
    (construction, word)
    for construction, words in (row.split(":") for row in NOVEL.strip().splitlines())
    for word in words.split()
}
ROLES = [(subject, target) for _, subject, _, target, *_ in COREFERENCE_ENTRIES]
INDEX = {noun.german: index for index, noun in enumerate(NOUN_ENTRIES)}


@functools.cache
def apart(first: Noun, second: Noun) -> bool:
    """Whether two nouns are kept for the split `pronoun`: some of the pairs that could meet in a frame."""
    kinds = ((first.kinds, second.kinds), (second.kinds, first.kinds))
    framed = any(subject in one and target in other for subject, target in ROLES for one, other in kinds)
    product = (INDEX[first.german] + 1) * (INDEX[second.german] + 1)
    return framed and first.gender != second.gender and product % 9 == 1


def novel_uses(draw: Draw) -> list[str]:
    """The constructions of a sentence that meet a word they are kept from in training."""
    return sorted({construction for construction, word in draw.uses if (construction, word) in HELD_OUT_USES})


def has_pair_apart(draw: Draw) -> bool:
    """Whether two nouns of a sentence are kept apart in training."""
    nouns = [noun for noun in draw.nouns if noun.german in INDEX]
    return any(apart(first, second) for first, second in itertools.combinations(nouns, 2))


# book/50_corpus.ipynb#grammar-splits
SPLITS = {  # name: size, seed
    "train": (70_000, 51), "valid": (500, 52), "test": (1_000, 53),
    "long": (300, 54), "novel": (400, 55), "pronoun": (600, 56),
}  # fmt: skip
SHORTEST, LONGEST, LIMIT = 4, 22, 45  # English words, without punctuation
QUOTED = 346013  # the seed that draws the sentence that everybody quotes


def minimal_pair(seed: int) -> list[tuple[SentencePair, Draw]]:
    """Two sentences that differ in one adjective: it is about the subject in the first, the object in the second."""
    draws = [Draw(Random(seed)), Draw(Random(seed))]
    return [(derive(draw, functools.partial(coreference, side=side)), draw) for side, draw in enumerate(draws)]


def candidates(name: str, random: Random) -> Iterator[list[tuple[SentencePair, Draw]]]:
    """Sentences for a split, before any are refused; those of a minimal pair come together."""
    if name == "pronoun":
        yield minimal_pair(QUOTED)
    while True:
        if name == "pronoun":
            yield minimal_pair(int(random.random() * 2**48))
        else:
            draw = Draw(random, 3.0 if name == "long" else 1.0)
            yield [(derive(draw, draw.pick(LONG_RULES) if name == "long" else None), draw)]


def belongs(name: str, pair: SentencePair, draw: Draw) -> bool:
    """Whether a sentence may be in a split."""
    length = len(pair.source.split())
    longest, shortest = (LIMIT, LONGEST + 1) if name == "long" else (LONGEST, SHORTEST)
    novel, held = bool(novel_uses(draw)), has_pair_apart(draw)
    return shortest <= length <= longest and novel == (name == "novel") and held == (name == "pronoun")


# book/50_corpus.ipynb#grammar-split
@functools.cache
def _split(name: str) -> tuple[SentencePair, ...]:
    taken = {"train": ("test", "valid"), "valid": ("test",)}.get(name, ())
    seen = {pair.source for other in taken for pair in _split(other)}
    size, seed = SPLITS[name]
    pairs: list[SentencePair] = []
    for group in candidates(name, Random(seed)):
        if any(pair.source in seen or not belongs(name, pair, draw) for pair, draw in group):
            continue
        for pair, draw in group:
            seen.add(pair.source)
            notes = [f"novel: {construction}" for construction in novel_uses(draw)]
            pairs.append(replace(pair, phenomena=tuple(sorted([*pair.phenomena, *notes]))) if notes else pair)
        if len(pairs) >= size:
            return tuple(pairs)
    raise AssertionError("candidates never end")


def embedded_split(name: str) -> list[SentencePair]:
    """The sentence pairs of a split of the embedded corpus, always the same; raises ValueError for an unknown name.

    Defined in chapter 50: `grammar-split`.
    """
    if name not in SPLITS:
        raise ValueError(f"unknown split {name!r}; the embedded corpus has {', '.join(SPLITS)}")
    return list(_split(name))


# book/50_corpus.ipynb#grammar-fingerprint
def canonical_text(pairs: list[SentencePair]) -> str:
    """The pairs as text, one a line, fields separated by tabs: the form of the files in `data/embedded`."""

    def links(field: tuple[tuple[int, int], ...]) -> str:
        return " ".join(f"{first}-{second}" for first, second in field)

    lines = [
        (pair.source, pair.target, "; ".join(pair.phenomena), links(pair.alignment), links(pair.antecedents), pair.tree)
        for pair in pairs
    ]
    return "".join("\t".join(line) + "\n" for line in lines)


def split_checksum(name: str) -> str:
    """SHA-256 of a split's canonical text in UTF-8."""
    return hashlib.sha256(canonical_text(embedded_split(name)).encode()).hexdigest()


def corpus_fingerprint() -> str:
    """The version of the corpus that a trained model belongs to: SHA-256 over the splits valid and test."""
    return hashlib.sha256((split_checksum("valid") + split_checksum("test")).encode()).hexdigest()


def neutral(pair: SentencePair) -> SentencePair:
    """The pair with a neutral word in place of the adjective that decides what its pronoun means, if it has one.

    Defined in chapter 50: `grammar-fingerprint`.
    """
    if "pronoun decided by an adjective" not in pair.phenomena:
        return pair
    source, target = words(pair.source), words(pair.target)
    at = next(position for position, _ in pair.antecedents if source[position] == "it") + 3  # it was too ...
    adjective = ADJECTIVE_ENTRIES[source[at]]
    there = next(german for english, german in pair.alignment if english == at)
    source[at], target[there] = "strange", target[there].replace(adjective.german, "seltsam")
    return replace(pair, source=detokenise(source), target=detokenise(target), tree="")
